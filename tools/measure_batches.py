"""Prints what batches cost in search quality, at equal evaluations from nothing.

    python -m tools.measure_batches --reference sf_reference.jsonl.gz [--evaluator lc0:maia-1900.pb.gz]

Batch 1 is plain sequential PUCT, and every other batch is compared with it, position by position:

* same: share of the positions on which both play the same move;
* distance: L1 distance of the root's visits, 0 to 2;
* best move, regret: against the engine's scores, as in `tools.measure_catch_up`, less those of batch 1. Only
  positions of the reference count; the others are of games that the built-in evaluator plays;
* a batch: positions that the evaluator gets at once, the mean over a search.

Errors are standard errors. Parameters are the defaults, so that waves overlap where they do in use
(`--param` sets others). An evaluator outside the kernels is asked once for each position, and what it answers
is kept for the other searches of that position: its answers do not depend on the batch then.

`--full` prints instead how many nodes it takes until full batches go out: waves of the built-in evaluator
from an empty graph, medians over some positions.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chess
import numpy as np

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.bench.batches.price import MOST_VISITS, distance
from graphsearch.bench.batches.roots import FILLING_ROOTS, played
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.kinds import EXTERNAL
from graphsearch.evaluators.protocol import Evaluation, Evaluator, PositionBatch
from graphsearch.graph import arena_kernel
from graphsearch.position.board import pack
from graphsearch.search import waves_kernel
from graphsearch.search.results import SearchResult
from graphsearch.search.settings import set_params
from graphsearch.search.waves import FIRST_EVALUATOR, WaveRunner
from tools.measure_catch_up import Case, difference, judge, read_cases

NODES, BATCHES = (400, 1600), (32, 256)
FULL_BATCHES, MOST_NODES = (32, 256, 1024), 200_000
FULL = 0.95  # of a batch


class Remembering(Evaluator):
    """An evaluator that is asked once for each position; it counts how often a search would have asked."""

    def __init__(self, inner: Evaluator) -> None:
        self.identity = inner.identity
        self.calls = 0
        self._inner = inner
        self._known: dict[bytes, tuple[Any, Any]] = {}

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns what is known of every position, asking for what is not."""
        self.calls += 1
        keys = [words.tobytes() for words in batch.words]
        new = np.array([key not in self._known for key in keys])
        if new.any():
            self._ask(batch.rows(new))
        known = [self._known[key] for key in keys]
        return Evaluation(
            np.stack([wdl for wdl, _ in known]), np.concatenate([priors for _, priors in known])
        )

    def _ask(self, batch: PositionBatch) -> None:
        said = self._inner.evaluate(batch)
        for i, words in enumerate(batch.words):
            priors = said.priors[batch.offsets[i] : batch.offsets[i + 1]]
            self._known[words.tobytes()] = said.wdl[i], priors

    def forget(self) -> None:
        """Forgets all answers."""
        self._known.clear()


# ------------------------------------------------------------------ searches
@dataclass(frozen=True)
class Outcome:
    """One search beside that of batch 1; what the engine does not know is None."""

    same: float
    distance: float
    best_move: float | None
    regret: float | None
    leaves: int
    waves: int


@dataclass(frozen=True)
class Searched:
    """One search, how many positions it had evaluated, and in how many batches."""

    result: SearchResult
    leaves: int
    waves: int


def searched(case: Case, evaluator: Evaluator | str, nodes: int, params: SearchParams) -> Searched:
    """Returns a search of a position from nothing."""
    counting = evaluator if isinstance(evaluator, Remembering) else None
    before = counting.calls if counting else 0
    with Graph.open(None, evaluator=evaluator) as graph:
        result = analyze(graph, case.board, Limits(evaluations=nodes, visits=MOST_VISITS * nodes), params)
        waves = counting.calls - before if counting else int(graph.arena.counters[arena_kernel.WAVES])
    return Searched(result, result.evaluations, waves)


def compared(case: Case, search: Searched, base: Searched) -> Outcome:
    """Returns how a search differs from that of batch 1."""
    ours, theirs = judge(case, search.result), judge(case, base.result)
    known = bool(case.best)
    return Outcome(
        float(search.result.bestmove == base.result.bestmove),
        distance(_visits(search.result), _visits(base.result)),
        ours.good - theirs.good if known else None,
        ours.regret - theirs.regret if known else None,
        search.leaves,
        search.waves,
    )


def _visits(result: SearchResult) -> dict[str, float]:
    return {move.move.uci(): float(move.n) for move in result.node.moves}


def cases_of(options: argparse.Namespace) -> list[Case]:
    """Returns the positions: those of the reference, and made ones up to the number asked for."""
    known = read_cases(options.reference, options.positions) if options.reference else []
    made = played(options.positions - len(known)) if len(known) < options.positions else []
    return known + [Case(chess.Board(case.fen), ()) for case in made]


def summarised(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Returns the mean and the standard error of every figure, and the mean batch."""
    row: dict[str, float] = {"positions": len(outcomes)}
    for name in ("same", "distance", "best_move", "regret"):
        values = [value for outcome in outcomes if (value := getattr(outcome, name)) is not None]
        if values:
            row[name], row[f"{name}_error"] = difference(values, [0.0] * len(values))
    row["a_batch"] = sum(o.leaves for o in outcomes) / max(1, sum(o.waves for o in outcomes))
    return row


def price(options: argparse.Namespace, name: str, nodes: int) -> Iterator[dict[str, Any]]:
    """Yields a row for every batch with one evaluator and so many evaluations."""
    evaluator = _evaluator(name)
    found: dict[int, list[Outcome]] = {batch: [] for batch in options.batches}
    for case in cases_of(options):
        base = searched(case, evaluator, nodes, _params(options, 1))
        for batch, outcomes in found.items():
            outcomes.append(compared(case, searched(case, evaluator, nodes, _params(options, batch)), base))
        if isinstance(evaluator, Remembering):
            evaluator.forget()
    for batch, outcomes in found.items():
        yield {"evaluator": name, "nodes": nodes, "batch": batch, **summarised(outcomes)}


def _evaluator(name: str) -> Evaluator | str:
    evaluator = create(name)
    return Remembering(evaluator) if evaluator.kernel_kind == EXTERNAL else name


def _params(options: argparse.Namespace, batch: int) -> SearchParams:
    return SearchParams.from_options(options.param, minibatch_size=batch)


# ------------------------------------------------------------------ full batches
def until_full(fen: str, params: SearchParams) -> tuple[int, int]:
    """Returns the nodes when a search from nothing first fills a batch, and the batches before."""
    before = 0
    with Graph.open(None) as graph:
        set_params(graph.arena, params)
        runner = WaveRunner(graph, pack(chess.Board(fen)), params.minibatch_size)
        arena, wave = graph.arena, runner.wave
        while graph.node_count < MOST_NODES:
            runner.make_room()
            leaves = runner.gather()
            if leaves >= FULL * params.minibatch_size:
                break
            runner.evaluate(leaves)
            waves_kernel.complete(arena.tables, arena.arrays, wave, FIRST_EVALUATOR)
            before += 1
        runner.close()
        return graph.node_count, before


def full_batches(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yields from how many nodes on batches are full, and the batches before: medians of some positions."""
    for batch in options.full or FULL_BATCHES:
        found = [until_full(fen, _params(options, batch)) for fen in FILLING_ROOTS]
        nodes, before = (statistics.median(column) for column in zip(*found, strict=True))
        yield {"batch": batch, "nodes": nodes, "before": before}


# ------------------------------------------------------------------ output
def print_price(row: dict[str, Any]) -> None:
    """Prints one row of the comparison."""
    if "best_move" in row:
        judged = (
            f"best move {100 * row['best_move']:+5.1f} +- {100 * row['best_move_error']:.1f} %  "
            f"regret {row['regret']:+.4f} +- {row['regret_error']:.4f}  "
        )
    print(
        f"{row['evaluator'][:20]:<20} {row['nodes']:>6} {row['batch']:>6} {row['positions']:>4}  "
        f"same {100 * row['same']:5.1f} +- {100 * row['same_error']:.1f} %  "
        f"distance {row['distance']:.3f} +- {row['distance_error']:.3f}  "
        f"{judged if 'best_move' in row else ''}a batch {row['a_batch']:.1f}",
        flush=True,
    )


def print_full(row: dict[str, Any]) -> None:
    """Prints from how many nodes on one batch is full."""
    print(
        f"{row['batch']:>6}: full from {row['nodes']:,.0f} nodes on, after {row['before']:,.0f} smaller ones"
    )


def parser() -> argparse.ArgumentParser:
    """Returns the command line's parser."""
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("--reference", type=Path, help="gzip'ed JSON lines, as for tools.judge_evaluation")
    out.add_argument("--evaluator", action="append", help="may be repeated; default: builtin")
    out.add_argument("--positions", type=int, default=320)
    out.add_argument("--nodes", type=int, nargs="+", default=NODES, help="evaluations of a search")
    out.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    out.add_argument("--param", action="append", default=[], help="NAME=VALUE, for every search")
    out.add_argument(
        "--full", type=int, nargs="*", help="measure when batches of these sizes are full instead"
    )
    out.add_argument("--json", action="store_true", help="print one JSON object")
    return out


def measure(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yields the rows of the comparison."""
    for name in options.evaluator or ["builtin"]:
        for nodes in options.nodes:
            yield from price(options, name, nodes)


def main() -> int:
    """Prints the figures; returns the exit code."""
    options = parser().parse_args()
    found, show = (measure, print_price) if options.full is None else (full_batches, print_full)
    rows = []
    for row in found(options):
        rows.append(row)
        if not options.json:
            show(row)
    if options.json:
        json.dump(rows, sys.stdout)
        print()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
