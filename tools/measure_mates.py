"""Measures the prover of mates on a collection of problems, and checks every claim against all defences.

python -m tools.measure_mates mates.epd --seconds 10 [--up-to 3] [--every 10] [--check]

A line of the file is a FEN (with or without its counters) and `bm #N`: moves to mate, negative where the side
to move is mated.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import chess

from graphsearch.mate.check import MateRefutedError, check_mate
from graphsearch.mate.limits import MateLimits
from graphsearch.mate.session import MateResult, MateSearch


@dataclass(frozen=True, slots=True)
class Problem:
    """A position and the moves to its mate."""

    board: chess.Board
    moves: int


def read(path: Path) -> list[Problem]:
    """Returns the problems of a file, shortest first."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        position, mark, rest = line.partition(" bm #")
        if mark:
            fields = position.split()
            fen = " ".join(fields if len(fields) == 6 else [*fields[:4], "0", "1"])
            found.append(Problem(chess.Board(fen), int(rest.split(";")[0])))
    return sorted(found, key=lambda problem: abs(problem.moves))


def solve(problem: Problem, seconds: float, *, check: bool) -> tuple[MateResult, str]:
    """Returns the result and what there is to say of it: `right`, `longer`, `none` or what is wrong."""
    search = MateSearch(problem.board, MateLimits(seconds=seconds))
    result = search.run()
    if result.mate is None:
        return result, "none"
    if check:
        try:
            found = check_mate(problem.board, result.mate, search.attack)
        except MateRefutedError as error:
            return result, f"REFUTED: {error}"
        if found.plies != len(result.pv):
            return result, f"LINE: {found.plies} plies"
    if result.mate == problem.moves:
        return result, "right"
    if (result.mate > 0) != (problem.moves > 0):
        return result, "SIGN"
    if abs(result.mate) < abs(problem.moves):
        return result, "shorter"
    return result, "TOO LONG" if result.shortest else "longer"


def main() -> int:
    """Returns 0, or 1 if a claim was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--up-to", type=int, default=1000, help="problems of at most so many moves")
    parser.add_argument("--every", type=int, default=1, help="only every so manyth problem")
    parser.add_argument("--check", action="store_true", help="play out all defences, with python-chess")
    given = parser.parse_args()
    MateSearch(chess.Board()).warm_up()
    verdicts: Counter[str] = Counter()
    shortest, times = 0, []
    problems = [problem for problem in read(given.file) if abs(problem.moves) <= given.up_to][:: given.every]
    for problem in problems:
        result, verdict = solve(problem, given.seconds, check=given.check)
        verdicts[verdict.partition(":")[0]] += 1
        shortest += result.shortest
        times.append(result.seconds)
        if verdict != "right" or not result.shortest:
            found = f"{problem.moves:4} {result.mate!s:>5} {verdict}, {result.excluded} excluded"
            print(f"{found}, {result.seconds:.1f} s: {result.position}", flush=True)
    print(f"{len(problems)} problems: {dict(verdicts)}, proven to be the shortest {shortest}")
    if times:
        print(f"seconds: median {statistics.median(times):.3f}, worst {max(times):.1f}")
    return int(any(verdict.isupper() for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
