"""Results of imported games at a position, beside the values of the search. Reads only."""

from __future__ import annotations

import os
from dataclasses import dataclass

import chess

from ..base.answer import Answer
from ..base.errors import UnknownPositionError
from ..position.board import check, fen_of, key_text, legal_moves
from ..store.ranking import known_edges, node_mean
from ..store.record import NodeRecord
from ..store.tables.games import Results, counts
from .source import RecordSource, Step, opened, steps_of


@dataclass(frozen=True, slots=True)
class PlayedMove(Answer):
    """One move in games and in the search; values are seen by the side to move at the position.

    Attributes:
      share: of the games at the position, in [0, 1]. score: mean result in [0, 1]. None without any.
      n, q, cp, mate: of the edge. n_share: of all edge N, in [0, 1]. None if the search has none.
      difference: `score` as a value in [-1, 1], minus q; None if one of them is missing.
    """

    json_keys = (
        "move san games=results.games decided=results.decided *results *results.percents share score n"
        " n_share q cp mate difference"
    )

    move: str
    san: str
    results: Results
    share: float | None
    score: float | None
    n: int | None
    n_share: float | None
    q: float | None
    cp: int | None
    mate: int | None
    difference: float | None


@dataclass(frozen=True, slots=True)
class Games(Answer):
    """The answer of `games`.

    Attributes:
      results: of all games that continued from the position.
      score: their mean result in [0, 1] for the side to move; None without results.
      n, q: node N and Q; None if the graph does not hold the position.
      moves: all moves played or visited, most games first, then most visits.
    """

    json_keys = "position games=results.games decided=results.decided *results score n q moves"

    position: str
    results: Results
    score: float | None
    n: int | None
    q: float | None
    moves: tuple[PlayedMove, ...]


def games(path: str | os.PathLike[str], board: chess.Board) -> Games:
    """Returns the results of the imported games that continued from a position beside N and Q of the search.

    Raises:
      UnknownPositionError: if the file knows it neither from games nor from a search.
    """
    check(board)
    with opened(path) as source:
        played, record = counts_at(source, board), source.read(board)
        if record is None and not played:
            raise UnknownPositionError(
                f"{source.path} has neither games nor a search of this position: {fen_of(board)}"
            )
    total = sum(played.values(), Results())
    steps = {step.move: step for step in steps_of(record, board)}
    met = [move for move in legal_moves(board) if move.uci() in played or move in steps]
    rows = [_row(board, move, played, total, record, steps.get(move)) for move in met]
    rows.sort(key=lambda row: (-row.results.games, -(row.n or 0), -row.results.variations, row.move))
    n, q = (record.visits, node_mean(record)[0]) if record else (None, None)
    return Games(
        position=fen_of(board), results=total, score=total.score(board.turn), n=n, q=q, moves=tuple(rows)
    )


def counts_at(source: RecordSource, board: chess.Board) -> dict[str, Results]:
    """Returns the results of imported games by move in UCI."""
    return {one.move: one.results for its in counts(source.store, [key_text(board)]).values() for one in its}


def _row(
    board: chess.Board,
    move: chess.Move,
    played: dict[str, Results],
    total: Results,
    record: NodeRecord | None,
    step: Step | None,
) -> PlayedMove:
    results = played.get(move.uci(), Results())
    score = results.score(board.turn)
    n = step.edge.n if step else 0 if record and record.codes else None
    q = step.q if step else None
    spent = sum(edge.n for edge in known_edges(record)) if record else 0
    return PlayedMove(
        move=move.uci(),
        san=board.san(move),
        results=results,
        share=results.games / total.games if total.games else None,
        score=score,
        n=n,
        n_share=n / spent if n is not None and spent else None,
        q=q,
        cp=step.cp if step else None,
        mate=step.mate if step else None,
        difference=None if score is None or q is None else 2 * score - 1 - q,
    )
