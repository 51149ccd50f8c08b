"""The cost of a review beyond its searches: CPU per visit of `review` against loops of `analyze`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.book.review.review import ReviewSettings
from graphsearch.book.review.review import review as reviewed
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.protocol import Evaluator
from graphsearch.exchange.sources import GivenFile
from graphsearch.position.board import NOT_TERMINAL, terminal_kind
from graphsearch.position.pgn_position import read_games
from graphsearch.solvers.mate.beside import MateFinder

from .harness import Row, benchmark

Measured = tuple[float, int]  # CPU-seconds, visits
WARM_UP_VISITS = 10


@benchmark("visits", "way", across="way", compare=("us_per_visit",))
def review(*, games: Path, visits: tuple[int, ...] = (1000,), rounds: int = 3) -> Iterator[Row]:
    """What a review costs beside its searches: CPU per visit of `review` against loops of `analyze`.

    Each way gives every position of the games the same visits, from the last to the first, in one new graph
    file, with the built-in evaluator. analyze: a loop over the positions, with the best line of each. bare:
    the same as parts of one run, without any line. review: with all that it reads, judges and writes (PGN and
    HTML). CPU-seconds are from opening the file to closing it.
    """
    ways: dict[str, Callable[..., Measured]] = {
        "analyze": _by_analyze,
        "bare": partial(_by_analyze, bare=True),
        "review": _by_review,
    }
    evaluator = create("builtin")
    with tempfile.TemporaryDirectory() as folder:
        for name, way in ways.items():
            way(games, Path(folder) / f"{name}.graph", WARM_UP_VISITS, evaluator)
        for number in range(rounds):
            for count in visits:
                for name, way in ways.items():
                    store = Path(folder) / f"{name}-{count}-{number}.graph"
                    cpu, added = way(games, store, count, evaluator)
                    yield {"visits": count, "way": name, "us_per_visit": 1e6 * cpu / added, "added": added}
    evaluator.close()


def _by_analyze(
    games: Path, store: Path, visits: int, evaluator: Evaluator, *, bare: bool = False
) -> Measured:
    """Returns the cost of a separate search for every position."""
    began, added = time.process_time(), 0
    with Graph.open(store, evaluator=evaluator) as graph:
        for game in read_games(games):
            board = game.board
            while board is not None:
                known = graph.read(board)
                missing = visits - (known.visits if known else 0)
                if missing > 0 and terminal_kind(board) == NOT_TERMINAL:
                    added += analyze(
                        graph,
                        board,
                        Limits(visits=missing),
                        SearchParams(),
                        hurry=True,
                        lines=0 if bare else 1,
                        run=1 if bare else None,
                        mates=MateFinder(visits=missing),
                    ).new_visits
                if not board.move_stack:
                    break
                board.pop()
    return time.process_time() - began, added


def _by_review(games: Path, store: Path, visits: int, evaluator: Evaluator) -> Measured:
    began = time.process_time()
    settings = ReviewSettings(visits=visits, pgn=store.with_suffix(".pgn"), html=store.with_suffix(".html"))
    report = reviewed(store, GivenFile(str(games)), settings, evaluator=evaluator)
    return time.process_time() - began, report.new_visits
