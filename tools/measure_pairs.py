"""Which evaluator for the policy, which for the value: searches with every pair against a reference engine.

    python -m tools.measure_pairs FILE --evaluator builtin --evaluator lc0:NET --evaluator uci:stockfish

FILE has JSON lines with `fen`, `bestmove` and `wdl` (per mille, side to move) of a strong engine, gzip'ed or
not. Every pair gets the same positions and evaluations; errors are standard errors of means over positions.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import chess
import numpy as np

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.factory import EvaluatorSpec, create
from graphsearch.evaluators.protocol import Evaluator

BATCH = 8


@dataclass(frozen=True, slots=True)
class Row:
    """One pair: its names, hits of the best move, errors of Q, and seconds in all."""

    policy: str
    value: str
    hits: list[bool]
    errors: list[float]
    seconds: float


def references(path: Path, count: int) -> list[dict[str, Any]]:
    """Returns the first positions of a file with what the reference says of them."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
    return [json.loads(line) for line in text.splitlines() if line.strip()][:count]


def measured(
    evaluator: Evaluator, rows: Sequence[dict[str, Any]], evaluations: int
) -> tuple[list[bool], list[float]]:
    """Returns whether each search found the best move, and how far its Q is from the reference's."""
    hits, errors = [], []
    for row in rows:
        with Graph.open(None, evaluator=evaluator) as graph:
            params = SearchParams(minibatch_size=BATCH)
            result = analyze(graph, chess.Board(row["fen"]), Limits(evaluations=evaluations), params)
        hits.append(result.bestmove is not None and result.bestmove.uci() == row["bestmove"])
        errors.append(abs(result.node.q - (row["wdl"][0] - row["wdl"][2]) / 1000))
    return hits, errors


def pairs(names: Sequence[str], rows: Sequence[dict[str, Any]], evaluations: int) -> Iterator[Row]:
    """Yields a row for every policy and value."""
    for policy, value in product(names, repeat=2):
        began = time.monotonic()
        evaluator = create(EvaluatorSpec(policy=policy, value=value) if policy != value else policy)
        try:
            hits, errors = measured(evaluator, rows, evaluations)
        finally:
            evaluator.close()
        yield Row(policy, value, hits, errors, time.monotonic() - began)


def line(row: Row) -> str:
    """Returns a row of a Markdown table."""

    def mean(values: Sequence[float], scale: float, digits: int) -> str:
        error = np.std(values) / np.sqrt(len(values))
        return f"{scale * np.mean(values):.{digits}f} ± {scale * error:.{digits}f}"

    hits = mean([float(hit) for hit in row.hits], 100, 0)
    return f"| {row.policy} | {row.value} | {hits} % | {mean(row.errors, 1, 3)} | {row.seconds:.0f} s |"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--evaluator", action="append", required=True)
    parser.add_argument("--positions", type=int, default=160)
    parser.add_argument("--evaluations", type=int, default=150)
    args = parser.parse_args()
    print("| policy | value | best move | error of Q | time |\n| --- | --- | --- | --- | --- |")
    for row in pairs(args.evaluator, references(args.file, args.positions), args.evaluations):
        print(line(row), flush=True)


if __name__ == "__main__":
    main()
