"""Prints what shards and overlapped waves cost in search quality, at equal evaluations from nothing.

    python -m tools.measure_shards_quality --reference ../shared/golden/sf_reference.jsonl.gz

Every reference position is searched in one process without overlap, and then with each number of shards and
each overlap. Shards take turns in this process: which machine they are on changes nothing. Compared with the
search in one process, position by position:

* equal: share of the positions whose roots are the same, bit for bit;
* same: share of those on which both play the same move;
* best move, regret, Q error: against the engine's scores, as in `tools.measure_catch_up`, less those of the
  search in one process.

Errors are standard deviations over 2,000 bootstrap samples of the positions. Without overlap all is equal by
construction, which `tests/cluster/test_equal.py` holds; with it, a difference below two errors is noise.
"""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chess
import numpy as np

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.cluster.job import SearchJob, board_parts
from graphsearch.cluster.session import ShardSearch
from graphsearch.cluster.shard_context import ShardContext
from graphsearch.cluster.talk import lines_between, run_together
from graphsearch.graph.view import view
from graphsearch.record.node import NodeRecord
from graphsearch.store.sharded.ownership import even_owners, owner_of
from tools.measure_catch_up import MOST_VISITS, Case, read_cases

REFERENCE = Path(__file__).resolve().parents[2] / "shared" / "golden" / "sf_reference.jsonl.gz"
SHARDS, OVERLAPS = (1, 2, 8), (0,)
SAMPLES = 2000  # of the bootstrap
FIGURES = ("best_move", "regret", "q_error")


@dataclass(frozen=True)
class Outcome:
    """What a search has made of the root, and how good that is."""

    root: NodeRecord
    move: str
    best_move: float
    regret: float
    q_error: float


def judged(case: Case, read: Callable[[chess.Board], NodeRecord | None]) -> Outcome:
    """Returns what a search is worth, from the records that it has made."""
    root, node = read(case.board), view(read, case.board)
    assert root is not None
    assert node is not None
    assert case.scores is not None
    move = node.moves[0].move.uci()
    regret = max(case.scores.values()) - case.scores[move]
    return Outcome(root, move, float(move in case.best), regret, abs(node.q - case.q))


def search_alone(case: Case, evaluator: str, limits: Limits, params: SearchParams) -> Outcome:
    """Returns the outcome of a search in one process."""
    with Graph.open(None, evaluator=evaluator) as graph:
        analyze(graph, case.board, limits, params)
        return judged(case, graph.read)


def search_shards(case: Case, evaluator: str, limits: Limits, params: SearchParams, shards: int) -> Outcome:
    """Returns the outcome of a search by shards, which have no files and take turns."""
    owners, (start, moves) = even_owners(shards), board_parts(case.board)
    leader = owner_of(case.board, owners)
    job = SearchJob(start=start, moves=moves, limits=limits, params=params, run=0)
    stop = threading.Event()
    with ExitStack() as stack:
        graphs = [stack.enter_context(Graph.open(None, evaluator=evaluator)) for _ in range(shards)]
        lines = stack.enter_context(lines_between(shards))
        places = [
            ShardContext(number=k, shards=shards, owners=owners, leader=leader, lines=lines[k])
            for k in range(shards)
        ]
        searches = [ShardSearch(g, job, place, stop) for g, place in zip(graphs, places, strict=True)]
        run_together([search.talk() for search in searches])
        return judged(case, lambda board: graphs[owner_of(board, owners)].read(board))


def compared(outcomes: Sequence[Outcome], base: Sequence[Outcome]) -> dict[str, float]:
    """Returns how some searches differ from those in one process: means, and errors by the bootstrap."""
    both = list(zip(outcomes, base, strict=True))
    columns = {
        "equal": [float(ours.root == theirs.root) for ours, theirs in both],
        "same": [float(ours.move == theirs.move) for ours, theirs in both],
    }
    for name in FIGURES:
        columns[name] = [getattr(ours, name) - getattr(theirs, name) for ours, theirs in both]
    row = {}
    for name, values in columns.items():
        row[name] = float(np.mean(values))
        row[f"{name}_error"] = bootstrap_error(values)
    return row


def bootstrap_error(values: Sequence[float]) -> float:
    """Returns the standard deviation of the mean over samples of the values with replacement.

    >>> bootstrap_error([1.0, 1.0]), round(bootstrap_error([0.0, 1.0] * 50), 2)
    (0.0, 0.05)
    """
    draw = np.random.default_rng(1)
    samples = draw.choice(np.asarray(values), (SAMPLES, len(values)))
    return float(samples.mean(axis=1).std())


def measure(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yields a row for the search in one process, and one for every number of shards and overlap."""
    cases = read_cases(options.reference, options.positions)
    limits = Limits(evaluations=options.nodes, visits=MOST_VISITS * options.nodes)

    def params(overlap: int) -> SearchParams:
        return SearchParams.from_options(options.param, minibatch_size=options.batch, overlap=overlap)

    base = [search_alone(case, options.evaluator, limits, params(0)) for case in cases]
    means = {name: float(np.mean([getattr(one, name) for one in base])) for name in FIGURES}
    yield {"shards": 0, "overlap": 0, "positions": len(cases), **means}
    for overlap in options.overlap:
        for shards in options.shards:
            found = [search_shards(c, options.evaluator, limits, params(overlap), shards) for c in cases]
            yield {"shards": shards, "overlap": overlap, "positions": len(cases), **compared(found, base)}


def print_row(row: dict[str, Any]) -> None:
    """Prints one row."""
    if not row["shards"]:
        print(
            f"one process: {row['positions']} positions, best move {100 * row['best_move']:.1f} %,"
            f" regret {row['regret']:.4f}, Q error {row['q_error']:.4f}",
            flush=True,
        )
        return
    shares = "  ".join(
        f"{name} {100 * row[name]:5.1f} +- {100 * row[f'{name}_error']:.1f} %" for name in ("equal", "same")
    )
    print(
        f"{row['shards']:>3} shards, overlap {row['overlap']}:  {shares}"
        f"  best move {100 * row['best_move']:+.1f} +- {100 * row['best_move_error']:.1f} %"
        f"  regret {row['regret']:+.4f} +- {row['regret_error']:.4f}"
        f"  Q error {row['q_error']:+.4f} +- {row['q_error_error']:.4f}",
        flush=True,
    )


def main() -> int:
    """Prints the figures; returns the exit code."""
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("--reference", type=Path, default=REFERENCE, help="gzip'ed JSON lines")
    out.add_argument("--evaluator", default="builtin")
    out.add_argument("--positions", type=int, default=160)
    out.add_argument("--nodes", type=int, default=800, help="evaluations of a search")
    out.add_argument("--batch", type=int, default=256, help="leaves of a wave")
    out.add_argument("--shards", type=int, nargs="+", default=SHARDS)
    out.add_argument("--overlap", type=int, nargs="+", default=OVERLAPS)
    out.add_argument("--param", action="append", default=[], help="NAME=VALUE, for every search")
    out.add_argument("--json", action="store_true", help="print one JSON list")
    options = out.parse_args()
    if not options.reference.exists():
        print(f"skipped: {options.reference} is missing; name another file with --reference")
        return 0
    rows = []
    for row in measure(options):
        rows.append(row)
        if not options.json:
            print_row(row)
    if options.json:
        print(json.dumps(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
