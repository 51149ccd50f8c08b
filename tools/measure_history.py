"""What a network gains from seeing the line: the same searches with `history=position` and `history=line`.

    python -m tools.measure_history NET FILE.pgn ... --engine stockfish

Positions are taken evenly from the games of each file, with the moves that led to them. Both searches of a
position have the same evaluations. The engine says which move is best and what the others are worth.
Errors are standard errors of means over positions; the difference is that of the pairs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import chess
import chess.engine
import chess.pgn
import numpy as np

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.lc0.evaluator import HISTORIES
from graphsearch.evaluators.protocol import Evaluator

FIRST_PLY = 14  # of a game from which positions are taken: their history is full
BATCH = 8


@dataclass(frozen=True, slots=True)
class Found:
    """One search of one position.

    Attributes:
      hit: whether it chose the engine's move. loss: what its move loses by the engine, in expected score.
      error: how far its Q is from the engine's.
    """

    hit: float
    loss: float
    error: float


def positions(file: Path, count: int) -> list[chess.Board]:
    """Returns positions of a file's games with their move stacks, evenly spread."""
    boards = []
    with file.open(encoding="utf-8-sig", errors="replace") as handle:
        while game := chess.pgn.read_game(handle):
            board = game.board()
            for move in game.mainline_moves():
                board.push(move)
                if board.ply() >= FIRST_PLY and not board.is_game_over():
                    boards.append(board.copy())
    return [boards[i * len(boards) // count] for i in range(min(count, len(boards)))]


class Judge:
    """An engine that says what moves are worth."""

    def __init__(self, program: str, nodes: int) -> None:
        self._engine = chess.engine.SimpleEngine.popen_uci(program)
        self._engine.configure({"UCI_ShowWDL": True})
        self._limit = chess.engine.Limit(nodes=nodes)

    def worth(self, board: chess.Board, move: chess.Move | None = None) -> tuple[chess.Move, float]:
        """Returns the best move of a position, or the one given, and Q of it."""
        moves = [move] if move else None
        said = self._engine.analyse(board, self._limit, game=object(), root_moves=moves)
        wdl = said["wdl"].pov(board.turn)
        return said["pv"][0], (wdl.wins - wdl.losses) / 1000

    def close(self) -> None:
        """Ends the engine."""
        self._engine.quit()


def searched(evaluator: Evaluator, board: chess.Board, evaluations: int) -> tuple[chess.Move, float]:
    """Returns the move of a search, and Q."""
    with Graph.open(None, evaluator=evaluator) as graph:
        result = analyze(graph, board, Limits(evaluations=evaluations), SearchParams(minibatch_size=BATCH))
    assert result.bestmove is not None
    return result.bestmove, result.node.q


def compared(
    evaluators: Sequence[Evaluator], judge: Judge, boards: Sequence[chess.Board], evaluations: int
) -> Iterator[list[Found]]:
    """Yields what the searches of each position found, one for each evaluator."""
    for board in boards:
        best, q = judge.worth(board)
        known = {best: q}
        row = []
        for evaluator in evaluators:
            move, own = searched(evaluator, board, evaluations)
            if move not in known:
                known[move] = judge.worth(board, move)[1]
            row.append(Found(float(move == best), (q - known[move]) / 2, abs(own - q)))
        yield row


def summary(rows: Sequence[Sequence[Found]]) -> dict[str, Any]:
    """Returns the means of each evaluator and of the differences, second less first, with standard errors."""
    table = np.array([[figures(found) for found in row] for row in rows])
    columns = {name: table[:, i] for i, name in enumerate(HISTORIES[::-1])}
    columns["difference"] = table[:, 1] - table[:, 0]
    found: dict[str, Any] = {"positions": len(rows)}
    for name, column in columns.items():
        mean, error = column.mean(axis=0), column.std(axis=0) / np.sqrt(len(column))
        found[name] = {
            what: [round(float(m), 4), round(float(e), 4)]
            for what, m, e in zip(Found.__slots__, mean, error, strict=True)
        }
    return found


def figures(found: Found) -> list[float]:
    """Returns the figures of a search in the order of their names."""
    return list(asdict(found).values())


def main() -> None:
    """Prints the figures as JSON, and how they stand after every 20 positions."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("network")
    parser.add_argument("games", type=Path, nargs="+")
    parser.add_argument("--engine", required=True)
    parser.add_argument("--nodes", type=int, default=100_000, help="of the engine, for each judgement")
    parser.add_argument("--positions", type=int, default=160)
    parser.add_argument("--evaluations", type=int, default=400)
    args = parser.parse_args()
    boards = [b for file in args.games for b in positions(file, args.positions // len(args.games))]
    order = np.random.default_rng(1).permutation(len(boards))
    evaluators = [create(f"lc0:{args.network}", {"history": how, "threads": "1"}) for how in HISTORIES[::-1]]
    judge, rows = Judge(args.engine, args.nodes), []
    try:
        for row in compared(evaluators, judge, [boards[i] for i in order], args.evaluations):
            rows.append(row)
            if len(rows) % 20 == 0 or len(rows) == len(boards):
                print(json.dumps(summary(rows)), flush=True)
    finally:
        judge.close()


if __name__ == "__main__":
    main()
