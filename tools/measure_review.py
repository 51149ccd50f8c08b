"""Prints what a review costs beside its searches: CPU per visit of `review` against `analyze`.

    python -m tools.measure_review games.pgn --visits 1000 --rounds 3 [--json]

Each way gives every position of the same games the same visits, from the last to the first, in one new
graph file, with the built-in evaluator. `analyze`: a loop over the positions, with the best line of each.
`bare`: the same as parts of one run, without any line. `review`: with all that it reads, judges and writes
(PGN and HTML). Each round measures all, in turns; ratios are medians of the rounds'. CPU-seconds are those
of the process, all threads together, from opening the file to closing it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.factory import EvaluatorSpec, create
from graphsearch.evaluators.protocol import Evaluator
from graphsearch.exchange.sources import GivenFile
from graphsearch.mate.beside import MateFinder
from graphsearch.position.board import NOT_TERMINAL, terminal_kind
from graphsearch.position.pgn_position import read_games
from graphsearch.review.review import ReviewSettings, review

Measured = tuple[float, int]  # CPU-seconds, visits


def by_analyze(
    games: Path, store: Path, visits: int, evaluator: Evaluator, *, bare: bool = False
) -> Measured:
    """Returns the cost of searching every position by itself."""
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


def by_review(games: Path, store: Path, visits: int, evaluator: Evaluator) -> Measured:
    """Returns the cost of a review."""
    began = time.process_time()
    settings = ReviewSettings(visits=visits, pgn=store.with_suffix(".pgn"), html=store.with_suffix(".html"))
    report = review(store, GivenFile(str(games)), settings, evaluator=evaluator)
    return time.process_time() - began, report.new_visits


def measure(games: Path, visits: int, rounds: int) -> dict[str, object]:
    """Returns the figures of all rounds, after one that compiles."""
    ways: dict[str, Callable[..., Measured]] = {
        "analyze": by_analyze,
        "bare": partial(by_analyze, bare=True),
        "review": by_review,
    }
    found: dict[str, list[Measured]] = {name: [] for name in ways}
    evaluator = create(EvaluatorSpec())
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds + 1):
            for name in ways if number % 2 else reversed(ways):
                store = Path(folder) / f"{name}{number}.graph"
                found[name].append(ways[name](games, store, visits if number else 10, evaluator))
    evaluator.close()
    per_visit = {name: [1e6 * cpu / added for cpu, added in each[1:]] for name, each in found.items()}
    ratios = {
        f"to {name}": statistics.median(
            b / a for a, b in zip(per_visit[name], per_visit["review"], strict=True)
        )
        for name in ("analyze", "bare")
    }
    return {
        "visits": visits,
        "added": {name: [added for _, added in each[1:]] for name, each in found.items()},
        "microseconds_per_visit": {name: statistics.median(each) for name, each in per_visit.items()},
        "ratios": ratios,
    }


def main() -> None:
    """Measures, and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("games", type=Path)
    parser.add_argument("--visits", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = measure(given.games, given.visits, given.rounds)
    if given.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:24} {value}")


if __name__ == "__main__":
    main()
