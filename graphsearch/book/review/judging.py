"""Judges every move of a game by the records of a graph."""

from __future__ import annotations

from collections.abc import Sequence

import chess

from ...exchange.pgn_writing import JUDGED_VISITS, mistake_of
from ...graph.view import Reader, line_of
from ...position.board import fen_of
from .formulas import (
    GLYPHS,
    GOOD_MOVE,
    PHASES,
    Figures,
    clipped,
    is_only_move,
    move_accuracy,
    weights,
    win_percent,
)
from .games import SourceGame
from .position_values import GamePosition, positions_of
from .results import COLORS, GameReview, MoveReview

LINE_PLIES = 8  # of a better line


def judge(read: Reader, game: SourceGame, novelty: tuple[int, int] | None = None) -> GameReview:
    """Returns the review of a game by the records of a graph.

    Args:
      read: returns the record of a position.
      novelty: the ply of the first new move, and the games before it.

    Raises:
      UnknownPositionError: if a position of the game has no record.
    """
    positions = positions_of(read, game)
    spread = weights([win_percent(place.value.turned(not place.board.turn).q) for place in positions])
    figures = {color: {phase: Figures() for phase in PHASES} for color in COLORS}
    moves: list[MoveReview] = []
    for ply, move in enumerate(game.moves):
        found = _move(read, positions[ply], positions[ply + 1], move, spread[ply], ply, novelty)
        moves.append(found)
        figures[found.white][found.phase].add(
            loss=found.loss, loss_cp=found.loss_cp, weight=found.weight, glyph=found.glyph
        )
    first = positions[0].value.turned(not game.start.turn)
    return GameReview(
        number=game.number,
        line=game.line,
        headers=game.headers,
        result=game.result,
        start=fen_of(game.start),
        q=first.q,
        cp=first.cp,
        mate=first.mate,
        moves=tuple(moves),
        figures=figures,
    )


# ------------------------------------------------------------------ moves
def _move(
    read: Reader,
    before: GamePosition,
    after: GamePosition,
    move: chess.Move,
    weight: float,
    ply: int,
    novelty: tuple[int, int] | None,
) -> MoveReview:
    assert before.best is not None, "a move was played there"
    board, white = before.board, before.board.turn
    best, best_value = before.best
    played = after.value.turned()
    loss = 0.0 if move == best else max(0.0, best_value.q - played.q)
    loss_cp = max(0, clipped(best_value.cp) - clipped(played.cp)) if loss else 0
    seen, seen_best = played.turned(not white), best_value.turned(not white)
    glyph = _glyph(before, move, loss)
    line = line_of(read, board, best, plies=LINE_PLIES) if glyph else (best,)
    return MoveReview(
        ply=ply,
        number=board.fullmove_number,
        white=white,
        move=move.uci(),
        san=board.san(move),
        position=fen_of(board),
        n=before.node.visits if before.node else 0,
        q=seen.q,
        cp=seen.cp,
        mate=seen.mate,
        best=best.uci(),
        best_san=board.san(best),
        best_line=_sans(board, line),
        best_q=seen_best.q,
        best_cp=seen_best.cp,
        best_mate=seen_best.mate,
        loss=loss,
        loss_cp=loss_cp,
        accuracy=move_accuracy(loss),
        weight=weight,
        glyph=glyph,
        phase=before.phase,
        novelty=novelty[1] if novelty and novelty[0] == ply else None,
    )


def _sans(board: chess.Board, line: Sequence[chess.Move]) -> tuple[str, ...]:
    walk, found = board.copy(stack=False), list[str]()
    for move in line:
        found.append(walk.san(move))
        walk.push(move)
    return tuple(found)


def _glyph(place: GamePosition, move: chess.Move, loss: float) -> str:
    """Returns the mark of a move: by its loss, or ! for an only good one that is hard to see."""
    nag = mistake_of(loss)
    if nag is None and _is_good(place, move):
        nag = GOOD_MOVE
    return GLYPHS[nag] if nag else ""


def _is_good(place: GamePosition, move: chess.Move) -> bool:
    """Returns whether a move is the only good one, hard to see, no recapture and no way out of a check."""
    if place.node is None:
        return False
    first, *rest = place.node.moves
    others = [other.q for other in rest if other.n >= JUDGED_VISITS and other.q is not None]
    return (
        first.move == move
        and first.q is not None
        and not place.board.is_check()
        and not (place.came and place.came.to_square == move.to_square)
        and is_only_move(first.q, others, first.p)
    )
