"""Prints what CatchUpRatio does at equal evaluations.

    python -m tools.measure_catch_up --reference sf_reference.jsonl.gz --epd bratko-kopec.epd [--json]

Three measurements with the built-in evaluator, each with the same positions and the same number of
evaluations for every ratio:

* reference: best move against the engine's, regret (Q of the engine's best move less Q of ours, in its search
  of every move, Q = 2 / (1 + exp(-0.00368208 cp)) - 1) and error of the root's Q;
* epd: how many best moves (`bm`) are found;
* resume: the same as reference, after the reply that the priors like best was searched alone with five times
  the evaluations. `below` is the share of new evaluations below that reply.

Every difference is to the first ratio given, position by position: mean and standard error. Differences
under two standard errors are noise. `visits` and `catch-ups` are per evaluation; they, and `below`, are
medians, because a small graph that is exhausted goes on with visits alone.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import chess
import numpy as np

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.search.results import SearchResult
from tools.evaluation_data import lichess_q, plain_score

RATIOS = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0, math.inf)
HEAD_START = 5  # times the evaluations that the reply of the third measurement gets
JUDGED = ("good", "regret", "error")
MOST_VISITS = 100  # per evaluation: where a small graph is exhausted, only visits are left


@dataclass(frozen=True)
class Case:
    """A position, its best moves and, where an engine says so, Q by move and of the position."""

    board: chess.Board
    best: tuple[str, ...]
    scores: dict[str, float] | None = None
    q: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """One search: was the move good, what it gives away, error of Q; visits and catch-ups by evaluation."""

    good: float
    regret: float
    error: float
    visits: float
    catch_ups: float
    below: float = 0.0


def read_cases(path: Path, count: int) -> list[Case]:
    """Returns the first positions of a reference file (see `tools.judge_evaluation`)."""
    with gzip.open(path, "rt") as handle:
        rows = [json.loads(line) for line in handle][:count]
    return [_case(row) for row in rows]


def _case(row: dict[str, object]) -> Case:
    scores, wdl = row["moves_depth10"], row["wdl"]
    assert isinstance(scores, dict)
    assert isinstance(wdl, list)
    cps = np.array([plain_score(**score) for score in scores.values()], np.float64)
    by_move = dict(zip(scores, lichess_q(cps).tolist(), strict=True))
    return Case(chess.Board(str(row["fen"])), (str(row["bestmove"]),), by_move, (wdl[0] - wdl[2]) / 1000)


def read_epd(path: Path) -> list[Case]:
    """Returns the positions of an EPD file with their best moves."""
    cases = []
    for line in path.read_text().splitlines():
        board = chess.Board()
        found = board.set_epd(line).get("bm") if line.strip() else None
        if isinstance(found, list):
            cases.append(Case(board, tuple(move.uci() for move in found if isinstance(move, chess.Move))))
    return cases


def judge(case: Case, result: SearchResult, below: float = 0.0) -> Outcome:
    """Returns what one search is worth."""
    move = result.bestmove.uci() if result.bestmove else ""
    regret = max(case.scores.values()) - case.scores[move] if case.scores else 0.0
    spent = max(1, result.evaluations)
    return Outcome(
        float(move in case.best),
        regret,
        abs(result.node.q - case.q) if case.scores else 0.0,
        result.new_visits / spent,
        result.catch_ups / spent,
        below,
    )


@dataclass(frozen=True)
class Bench:
    """How every search is run."""

    evaluations: int
    batch: int

    def search(
        self, graph: Graph, board: chess.Board, ratio: float, evaluations: int | None = None
    ) -> SearchResult:
        """Searches a position for the evaluations of the measurement, or as many as given."""
        wanted = evaluations or self.evaluations
        params = SearchParams(catch_up_ratio=ratio, minibatch_size=self.batch)
        return analyze(graph, board, Limits(evaluations=wanted, visits=MOST_VISITS * wanted), params)

    def fresh(self, case: Case, ratios: Sequence[float]) -> Iterator[Outcome]:
        """Yields the outcome of each ratio on an empty graph."""
        for ratio in ratios:
            with Graph.open(None) as graph:
                yield judge(case, self.search(graph, case.board, ratio))

    def resumed(self, case: Case, ratios: Sequence[float]) -> Iterator[Outcome]:
        """Yields the outcome of each ratio above a reply that was searched before, the same for all."""
        with tempfile.TemporaryDirectory() as folder:
            start, path = Path(folder) / "start.graph", Path(folder) / "own.graph"
            reply = self._search_reply(case, start)
            for ratio in ratios:
                shutil.copy(start, path)
                with Graph.open(path) as graph:
                    had = self._visits(graph, reply)
                    result = self.search(graph, case.board, ratio)
                    more = self._visits(graph, reply) - had
                yield judge(case, result, min(1.0, more / max(1, result.evaluations)))

    def _search_reply(self, case: Case, path: Path) -> chess.Board:
        with Graph.open(None) as graph:
            first = analyze(graph, case.board, Limits(visits=1)).node.moves
        reply = case.board.copy()
        reply.push(max(first, key=lambda move: move.p).move)
        with Graph.open(path) as graph:
            self.search(graph, reply, 1.0, HEAD_START * self.evaluations)
        return reply

    def _visits(self, graph: Graph, board: chess.Board) -> int:
        record = graph.read(board)
        return record.visits if record else 0


Runner = Callable[[Case, Sequence[float]], Iterator[Outcome]]


def difference(values: Sequence[float], base: Sequence[float]) -> tuple[float, float]:
    """Returns the mean and the standard error of the differences, position by position.

    >>> difference([1.0, 3.0], [0.0, 1.0])
    (1.5, 0.5)
    """
    apart = np.array(values) - np.array(base)
    return float(apart.mean()), float(apart.std(ddof=1) / math.sqrt(len(apart))) if len(apart) > 1 else 0.0


def summarise(outcomes: dict[float, list[Outcome]]) -> list[dict[str, float]]:
    """Returns a row of figures for each ratio."""
    base = next(iter(outcomes.values()))
    rows = []
    for ratio, found in outcomes.items():
        row = {"ratio": ratio, "positions": float(len(found))}
        for name in JUDGED:
            values = [getattr(outcome, name) for outcome in found]
            row[name] = float(np.mean(values))
            row[f"{name}_difference"], row[f"{name}_standard_error"] = difference(
                values, [getattr(outcome, name) for outcome in base]
            )
        for name in ("visits", "catch_ups", "below"):
            row[name] = float(np.median([getattr(outcome, name) for outcome in found]))
        rows.append(row)
    return rows


def print_table(title: str, rows: list[dict[str, float]]) -> None:
    """Prints the figures of one measurement."""
    print(f"\n{title}, {rows[0]['positions']:.0f} positions")
    print(f"{'ratio':<6}", *(f"{name:<24}" for name in JUDGED), "visits catch-ups  below")
    for row in rows:
        cells = [
            f"{row[name]:.4f} {row[f'{name}_difference']:+.4f}+-{row[f'{name}_standard_error']:.4f}"
            for name in JUDGED
        ]
        numbers = f"{row['visits']:6.2f} {row['catch_ups']:9.2f} {row['below']:6.2f}"
        print(f"{row['ratio']:<6g}", *(f"{cell:<24}" for cell in cells), numbers)


def parser() -> argparse.ArgumentParser:
    """Returns the command line's parser."""
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("--reference", type=Path, help="gzip'ed JSON lines, as for tools.judge_evaluation")
    out.add_argument("--epd", type=Path, help="positions with best moves")
    out.add_argument("--ratios", type=float, nargs="+", default=RATIOS, help="the first is the base")
    out.add_argument("--positions", type=int, default=160, help="of the reference file")
    out.add_argument("--resumed", type=int, default=16, help="positions of the third measurement")
    out.add_argument("--evaluations", type=int, default=1000)
    out.add_argument("--batch", type=int, default=16)
    out.add_argument("--json", action="store_true", help="print one JSON object")
    return out


def measure(options: argparse.Namespace) -> Iterator[tuple[str, list[dict[str, float]]]]:
    """Yields the name and the rows of each measurement asked for."""
    bench = Bench(options.evaluations, options.batch)
    work: list[tuple[str, list[Case], Runner]] = []
    if options.reference:
        cases = read_cases(options.reference, options.positions)
        work += [("reference", cases, bench.fresh), ("resume", cases[: options.resumed], bench.resumed)]
    if options.epd:
        work.append(("epd", read_epd(options.epd), bench.fresh))
    for title, cases, run in work:
        outcomes: dict[float, list[Outcome]] = {ratio: [] for ratio in options.ratios}
        for case in cases:
            for ratio, outcome in zip(options.ratios, run(case, options.ratios), strict=True):
                outcomes[ratio].append(outcome)
        if cases:
            yield title, summarise(outcomes)


def main() -> int:
    """Prints the figures; returns the exit code."""
    options = parser().parse_args()
    tables = {}
    for title, rows in measure(options):
        tables[title] = rows
        if not options.json:
            print_table(title, rows)
    if options.json:
        json.dump(tables, sys.stdout)
        print()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
