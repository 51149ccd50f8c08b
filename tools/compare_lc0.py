"""Compares graphsearch with lc0, both as UCI engines with one network: speed and quality, side by side.

    python -m tools.compare_lc0 --lc0 lc0 --network maia-1900.pb.gz --reference sf_reference.jsonl.gz \
        --batch 1 32 256 --nodes 400 1600 [--positions 160] [--lc0-option Backend=eigen] [--json]

The reference has JSON lines: `fen`, `bestmove` and the scores of all moves (see `tools.judge_evaluation`).
Each batch and number of nodes gets new processes, and lc0 no cache, so that every position is new to both.

* `visits`, `evaluations`: per CPU-second of the engine's process. lc0 evaluates about one position per node
  and does not say how many; graphsearch says it.
* `ms`: CPU-milliseconds per evaluation.
* `top-1`: the share of positions with the reference's best move. `regret`: what the move gives away, in Q by
  the reference's scores.
* `same`: the share of positions with the move that the same engine plays with the first batch.

Errors are standard errors of means over positions; a difference is ours less lc0's, position by position.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import chess
import chess.engine
import numpy as np

from tools.measure_catch_up import Case, read_cases

OURS, LC0 = "graphsearch", "lc0"
EVALUATIONS = re.compile(r"(\d+) evaluations")
TIMEOUT = 300  # s, for the start of an engine: it may compile
LC0_OPTIONS = {"Threads": "1", "NNCacheSize": "0", "SmartPruningFactor": "0"}
OUR_OPTIONS = {"Threads": "1"}


@dataclass(frozen=True, slots=True)
class Engine:
    """A UCI engine: its command and its options for any batch."""

    name: str
    command: Sequence[str]
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """One search: the move played, what it gives away, visits, evaluations, CPU-seconds."""

    move: str
    best: bool
    regret: float
    visits: int
    evaluations: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Row:
    """What one engine does with one batch and number of nodes, and how far it is from the other one.

    Attributes:
      visits, evaluations: per CPU-second. ms: CPU-milliseconds per evaluation.
      top1, regret: mean and standard error. same: share of the moves of the first batch.
      top1_less, regret_less: ours less lc0's with standard error, None in a row of lc0.
    """

    engine: str
    nodes: int
    batch: int
    visits: float
    evaluations: float
    ms: float
    top1: tuple[float, float]
    regret: tuple[float, float]
    same: float
    top1_less: tuple[float, float] | None = None
    regret_less: tuple[float, float] | None = None


def cpu_seconds(pid: int) -> float:
    """Returns the CPU time of a process and of those of its children that have ended (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def answers(engine: Engine, cases: Sequence[Case], *, batch: int, nodes: int) -> list[Answer]:
    """Returns what a new process answers for every position."""
    with chess.engine.SimpleEngine.popen_uci(list(engine.command), timeout=TIMEOUT) as process:
        process.configure({**engine.options, "MinibatchSize": str(batch)})
        _search(process, cases[0], 1)  # whatever is loaded or compiled at the first search
        return [_search(process, case, nodes) for case in cases]


def _search(process: chess.engine.SimpleEngine, case: Case, nodes: int) -> Answer:
    pid = process.transport.get_pid()
    began = cpu_seconds(pid)
    visits = evaluations = 0
    with process.analysis(case.board, chess.engine.Limit(nodes=nodes), game=object()) as analysis:
        for info in analysis:
            visits = max(visits, info.get("nodes", 0))
            told = EVALUATIONS.search(info.get("string", ""))
            evaluations = int(told[1]) if told else evaluations
        move = str(analysis.wait().move)
    seconds = cpu_seconds(pid) - began
    scores = case.scores or {}
    regret = max(0.0, scores[case.best[0]] - scores[move])
    return Answer(move, move in case.best, regret, visits, evaluations or visits, seconds)


def row(
    engine: Engine,
    mine: Sequence[Answer],
    first: Sequence[Answer],
    other: Sequence[Answer] | None,
    **setting: int,
) -> Row:
    """Returns the figures of an engine; `other` are lc0's answers of the same setting, for differences."""
    seconds = max(sum(answer.seconds for answer in mine), 1e-9)
    evaluations = sum(answer.evaluations for answer in mine)
    top1 = np.array([answer.best for answer in mine], np.float64)
    regret = np.array([answer.regret for answer in mine])
    return Row(
        engine=engine.name,
        visits=sum(answer.visits for answer in mine) / seconds,
        evaluations=evaluations / seconds,
        ms=1000 * seconds / max(evaluations, 1),
        top1=mean(top1),
        regret=mean(regret),
        same=float(np.mean([a.move == b.move for a, b in zip(mine, first, strict=True)])),
        top1_less=mean(top1 - [answer.best for answer in other]) if other else None,
        regret_less=mean(regret - [answer.regret for answer in other]) if other else None,
        **setting,
    )


def mean(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[float, float]:
    """Returns the mean and its standard error.

    >>> mean(np.array([1.0, 1.0, 1.0]))
    (1.0, 0.0)
    """
    return float(values.mean()), float(values.std() / np.sqrt(len(values)))


def compare(
    ours: Engine, lc0: Engine, cases: Sequence[Case], batches: Sequence[int], nodes: Sequence[int]
) -> Iterator[Row]:
    """Yields the rows of lc0 and of graphsearch for every number of nodes and every batch."""
    firsts: dict[tuple[str, int], list[Answer]] = {}
    for count, batch in product(nodes, batches):
        setting = {"nodes": count, "batch": batch}
        theirs: list[Answer] | None = None
        for engine in (lc0, ours):
            mine = answers(engine, cases, **setting)
            first = firsts.setdefault((engine.name, count), mine)
            yield row(engine, mine, first, theirs, **setting)
            theirs = mine


def line(row: Row) -> str:
    """Returns a row of a Markdown table."""

    def with_error(value: tuple[float, float] | None) -> str:
        return f"{value[0]:.3f} ± {value[1]:.3f}" if value else ""

    cells = [
        *(row.nodes, row.batch, row.engine, f"{row.visits:,.0f}", f"{row.evaluations:,.0f}", f"{row.ms:.2f}"),
        *(with_error(row.top1), with_error(row.regret), f"{100 * row.same:.1f} %"),
        *(with_error(row.top1_less), with_error(row.regret_less)),
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


COLUMNS = (
    *("nodes", "batch", "engine", "visits/s", "evaluations/s", "ms", "top-1", "regret", "same"),
    *("top-1, less lc0", "regret, less lc0"),
)


def options(words: Sequence[str]) -> dict[str, str]:
    """Returns `NAME=VALUE` words as a dictionary."""
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def main() -> None:
    """Prints the table, or why there is none."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lc0", default="lc0", metavar="PROGRAM")
    parser.add_argument("--lc0-option", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="of graphsearch")
    parser.add_argument("--network", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--positions", type=int, default=160)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 32, 256])
    parser.add_argument("--nodes", type=int, nargs="+", default=[400, 1600])
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    program = shutil.which(args.lc0)
    if program is None:
        print(f"skipped: there is no program {args.lc0}; name one with --lc0", file=sys.stderr)
        return
    network = str(args.network.resolve())
    lc0 = Engine(LC0, [program], {**LC0_OPTIONS, "WeightsFile": network, **options(args.lc0_option)})
    command = [sys.executable, "-m", "graphsearch", "uci"]
    ours = Engine(OURS, command, {**OUR_OPTIONS, "Evaluator": f"lc0:{network}", **options(args.option)})
    cases = read_cases(args.reference, args.positions)
    if not args.json:
        print("| " + " | ".join(COLUMNS) + " |\n|" + " --- |" * len(COLUMNS), flush=True)
    for found in compare(ours, lc0, cases, args.batch, args.nodes):
        print(json.dumps(asdict(found)) if args.json else line(found), flush=True)


if __name__ == "__main__":
    main()
