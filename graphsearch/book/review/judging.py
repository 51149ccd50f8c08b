"""Judges every move of a game from the records of a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import chess
from chess.polyglot import zobrist_hash

from ...base.errors import UnknownPositionError
from ...exchange.pgn_writing import JUDGED_VISITS, mistake_of
from ...graph.view import MoveView, NodeView, Reader, line_of
from ...position.board import (
    CHECKMATE,
    CLOCK_DRAW,
    NOT_TERMINAL,
    fen_of,
    history_keys,
    key_text,
    terminal_kind,
)
from ...position.lines import sans_of
from ...position.values import cp_of, loss_of, negate
from ...search.repetition import view_in_game
from ...store.record.bounds import moves_of
from ...store.record.ranking import node_mean
from ...store.store import Store
from ...store.tables import games as tables
from .formulas import (
    GLYPHS,
    GOOD_MOVE,
    PHASES,
    Figures,
    is_only_move,
    move_accuracy,
    phase_of,
    weights,
    win_percent,
)
from .games import SourceGame
from .results import COLORS, GameReview, MoveReview

LINE_PLIES = 8  # of a better line


def judge(read: Reader, game: SourceGame, novelty: tuple[int, int] | None = None) -> GameReview:
    """Returns the review of a game from the records of a graph.

    Args:
      read: returns the record of a position.
      novelty: the ply of the first new move, and the number of games before it.

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
    loss_cp = loss_of(best_value.cp, played.cp) if loss else 0
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
        best_line=sans_of(board, line),
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


def _glyph(place: GamePosition, move: chess.Move, loss: float) -> str:
    """Returns the mark of a move: by its loss, or ! for an only good move that is hard to see."""
    nag = mistake_of(loss)
    if nag is None and _is_good(place, move):
        nag = GOOD_MOVE
    return GLYPHS[nag] if nag else ""


def _is_good(place: GamePosition, move: chess.Move) -> bool:
    """Returns whether a move is the only good one and hard to see, no recapture and no reply to a check."""
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


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a position or a move for one side: Q, and moves to a proven mate."""

    q: float
    mate: int | None = None

    @property
    def cp(self) -> int:
        """The value in centipawns."""
        return cp_of(self.q)

    def turned(self, turn: bool = True) -> Value:
        """Returns the value for the other side if `turn`, else the same."""
        if not turn:
            return self
        return Value(negate(self.q), None if self.mate is None else -self.mate)


DRAW = Value(0.0)


@dataclass(frozen=True, slots=True)
class GamePosition:
    """A position of a game.

    Attributes:
      board: without its history. came: the move before it. node: None if the game is over by the rules.
      value: for the side to move, in this game.
      best: its best move and the value for the side that plays it; None: no legal move.
    """

    board: chess.Board
    came: chess.Move | None
    phase: str
    node: NodeView | None
    value: Value
    best: tuple[chess.Move, Value] | None


def positions_of(read: Reader, game: SourceGame) -> list[GamePosition]:
    """Returns the positions of a game in order."""
    walk = game.start.copy()
    keys, phase, found = [zobrist_hash(walk)], phase_of(walk), list[GamePosition]()
    for move in (*game.moves, None):
        phase = phase_of(walk, phase)
        twice = _stood_twice(keys, walk.halfmove_clock)
        found.append(_place(read, walk, phase, twice, drawn=_is_drawn(keys, walk)))
        if move:
            walk.push(move)
            keys.append(zobrist_hash(walk))
    return found


def _stood_twice(keys: Sequence[int], clock: int) -> frozenset[int]:
    """Returns the positions that occurred twice or more so far and can occur again."""
    counts = Counter(keys[max(0, len(keys) - 1 - clock) :])
    return frozenset(key for key, count in counts.items() if count >= 2)


def _is_drawn(keys: Sequence[int], board: chess.Board) -> bool:
    """Returns whether the side to move may claim a draw in the last position by the game's history."""
    return (
        board.halfmove_clock >= CLOCK_DRAW or keys[-1] in _stood_twice(keys[:-1], board.halfmove_clock - 1)
    ) and terminal_kind(board) != CHECKMATE


def _place(
    read: Reader, board: chess.Board, phase: str, twice: frozenset[int], *, drawn: bool
) -> GamePosition:
    bare, came = board.copy(stack=False), board.move_stack[-1] if board.move_stack else None
    kind = terminal_kind(board)
    if kind != NOT_TERMINAL:
        value = Value(-1.0, 0) if kind == CHECKMATE else DRAW
        any_move = next(iter(bare.legal_moves), None)  # players may continue in dead positions
        return GamePosition(bare, came, phase, None, value, (any_move, DRAW) if any_move else None)
    node = view_in_game(read, board, history_keys(board), lines=0)
    if node is None:
        raise UnknownPositionError(f"the file does not hold this position of the game: {fen_of(board)}")
    value = DRAW if drawn else Value(node.q, node.mate)
    return GamePosition(bare, came, phase, node, value, _best(read, board, node, twice))


def _best(
    read: Reader, board: chess.Board, node: NodeView, twice: frozenset[int]
) -> tuple[chess.Move, Value]:
    """Returns the best move with its value: the search's best, or one that draws by repetition."""
    repeats = [move.move for move in node.moves if twice and _key_after(board, move.move) in twice]
    first = next((move for move in node.moves if move.move not in repeats), None)
    value = _worth(read, board, node, first) if first else DRAW
    if first is None or (repeats and value.q < 0):
        return repeats[0], DRAW
    return first.move, value


def _key_after(board: chess.Board, move: chess.Move) -> int:
    board.push(move)
    try:
        return zobrist_hash(board)
    finally:
        board.pop()


def _worth(read: Reader, board: chess.Board, node: NodeView, move: MoveView) -> Value:
    """Returns the value of a move for the side that plays it.

    The value is the child's if the child has at least the edge's visits, otherwise the edge's.
    """
    after = board.copy(stack=False)
    after.push(move.move)
    kind, mate = terminal_kind(after), _mate_after(move.mate)
    if kind != NOT_TERMINAL:
        return Value(1.0, 0) if kind == CHECKMATE else DRAW
    if after.halfmove_clock >= CLOCK_DRAW:
        return DRAW
    record = read(after)
    if record is not None and record.visits >= move.n:
        proof = record.proof_at(after.halfmove_clock)
        if mate is None and proof and proof.mate is not None:
            mate = moves_of(-proof.result, proof.mate)
        return Value(negate(node_mean(record)[0]), mate)
    if move.q is None:  # a proof that needed no visit
        return Value(node.q, mate)
    return Value(move.q, mate)


def _mate_after(mate: int | None) -> int | None:
    """Returns the moves to mate that remain after a move, for the side that played it.

    >>> _mate_after(3), _mate_after(1), _mate_after(-3), _mate_after(None)
    (2, 0, -3, None)
    """
    return mate - 1 if mate and mate > 0 else mate


class Novelties:
    """Finds novelties against the games in a graph file."""

    def __init__(self, store: Store, digest: str) -> None:
        """`store`: the graph file. `digest`: SHA-256 of the reviewed PGN file.

        If the graph file has imported that PGN file, one game with each move is the reviewed game itself.
        """
        self._store = store
        self._own = sum(source.digest == digest for source in tables.sources(store) if source.kind == "pgn")

    def find(self, game: SourceGame) -> tuple[int, int] | None:
        """Returns the ply of the novelty and the number of games with its position; None if there is none.

        The novelty is the first move that no game has played in a known position, unless it transposes to a
        known position.
        """
        keys, walk = [key_text(game.start)], game.start.copy()
        for move in game.moves:
            walk.push(move)
            keys.append(key_text(walk))
        counts = tables.counts(self._store, keys)
        played = [move.uci() for move in (*game.moves, chess.Move.null())]
        games = [self._games(counts.get(key, ()), move) for key, move in zip(keys, played, strict=True)]
        for ply, name in enumerate(played[:-1]):
            before = sum(games[ply].values())
            if not before:
                return None
            if not games[ply].get(name) and not any(games[ply + 1].values()):
                return ply, before
        return None

    def _games(self, moves: Iterable[tables.MoveCounts], played: str) -> dict[str, int]:
        """Returns the number of other games with each move of a position."""
        return {
            found.move: max(0, found.games - (self._own if found.move == played else 0)) for found in moves
        }
