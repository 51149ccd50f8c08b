"""The mate prover: problems that it solves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import chess

from graphsearch.solvers.mate.check import MateRefutedError, check_mate
from graphsearch.solvers.mate.search import MateLimits, MateResult, MateSearch

from .harness import Row, benchmark
from .positions import lines


def problems(path: Path, up_to: int) -> list[tuple[chess.Board, int]]:
    """Returns the positions of a file with the moves to mate, negative if the side to move is mated.

    A line is a FEN, with or without counters, and `bm #N`; the shortest mates come first.
    """
    found = []
    for line in lines(path):
        position, mark, rest = line.partition(" bm #")
        if mark:
            fields = position.split()
            fen = " ".join(fields if len(fields) == 6 else [*fields[:4], "0", "1"])
            found.append((chess.Board(fen), int(rest.split(";")[0])))
    return sorted((one for one in found if abs(one[1]) <= up_to), key=lambda one: abs(one[1]))


@benchmark("verdict")
def mates(
    *, file: Path, seconds: float = 10.0, up_to: int = 1000, every: int = 1, check: bool = False
) -> Iterator[Row]:
    """Solves problems with `bm #N`, and with --check plays out all defences against every claim.

    Rows count the problems of each verdict, with the median seconds: `right`, `longer` than the file says,
    `none` within --seconds; a claim that is wrong says how. --up-to: problems of at most so many moves.
    """
    MateSearch(chess.Board()).warm_up()
    for board, moves in problems(file, up_to)[::every]:
        search = MateSearch(board, MateLimits(seconds=seconds))
        result = search.run()
        fault = fault_of(board, search, result) if check and result.mate is not None else ""
        yield {
            "verdict": fault or verdict(moves, result),
            "seconds": result.seconds,
            "shortest": result.shortest,
            "moves": abs(moves),
        }


def fault_of(board: chess.Board, search: MateSearch, result: MateResult) -> str:
    """Returns the fault of a claimed mate, "" if all defences lose in time."""
    try:
        found = check_mate(board, result.mate or 0, search.attack)
    except MateRefutedError as error:
        return f"REFUTED: {error}"
    return f"LINE: {found.plies} plies" if found.plies != len(result.pv) else ""


def verdict(moves: int, result: MateResult) -> str:
    """Returns how a result compares with the moves of a file."""
    if result.mate is None or result.mate == moves:
        return "none" if result.mate is None else "right"
    if (result.mate > 0) != (moves > 0):
        return "SIGN"
    if abs(result.mate) < abs(moves):
        return "shorter"
    return "TOO LONG" if result.shortest else "longer"
