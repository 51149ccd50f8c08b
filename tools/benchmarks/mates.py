"""The mate prover: problems that it solves, and its cost to the search that it assists."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import chess

from graphsearch import Graph, Limits, SearchResult, analyze
from graphsearch.evaluators.factory import create
from graphsearch.search.results import Progress
from graphsearch.solvers.mate.beside import DECIDED, TRIAL, MateFinder
from graphsearch.solvers.mate.check import MateRefutedError, check_mate
from graphsearch.solvers.mate.session import MateResult, MateSearch
from graphsearch.solvers.mate.sides import MateLimits

from .harness import Row, benchmark
from .positions import MIDDLEGAMES, lines

INTERVAL = 0.01  # seconds between two looks at the CPU time


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


# ------------------------------------------------------------------ beside a search
@benchmark("positions", "prover", across="prover", compare=("cpu_s", "visits_per_cpu_s"))
def beside(
    *,
    visits: int = 100_000,
    rounds: int = 3,
    seconds: float = 1.0,
    mates: Path | None = None,
    up_to: int = 5,
) -> Iterator[Row]:
    """What the prover of mates takes of a search that it is beside, in CPU-seconds of one thread.

    Medians of searches without and with the prover, in turns. decided: --visits in positions that lack a
    queen, with Q of .5 and more. first second: visits within --seconds without other limits, in these and in
    the same positions with all queens. With --mates (`FEN bm #N` lines): CPU-seconds until a search without
    limits ends, and the share of mates that is found at full length within --seconds.
    """
    search(chess.Board(TRIAL), Limits(visits=100), prover=True)  # so that nothing is compiled later
    whole = [chess.Board(fen) for fen in MIDDLEGAMES]
    lacking = [without_queen(board, colour) for board in whole for colour in chess.COLORS]
    for board in lacking:
        for prover in (False, True) * rounds:
            result, spent = search(board, Limits(visits=visits), prover=prover)
            if abs(result.node.q) >= DECIDED and result.stop_reason == "visits":
                yield {"positions": "decided", "prover": prover, "cpu_s": spent}
    for kind, boards in (("decided", lacking), ("all queens", whole)):
        for board in boards:
            for prover in (False, True):
                result, spent = search(board, Limits(), prover=prover, seconds=seconds)
                name, rate = f"first {seconds:g} s, {kind}", result.new_visits / spent
                yield {"positions": name, "prover": prover, "visits_per_cpu_s": rate}
    for board, moves in problems(mates, up_to) if mates else ():
        if moves:
            result, spent = search(board, Limits(), prover=True, seconds=seconds)
            found = float(result.node.mate == moves)
            yield {"positions": "mates", "prover": True, "cpu_s": spent, "found": found}


def without_queen(board: chess.Board, colour: chess.Color) -> chess.Board:
    """Returns the position with a queen of a side removed."""
    found = board.copy()
    found.remove_piece_at(next(iter(board.pieces(chess.QUEEN, colour))))
    return found


def search(
    board: chess.Board, limits: Limits, *, prover: bool, seconds: float = 1e9
) -> tuple[SearchResult, float]:
    """Returns the result of a search of at most `seconds` CPU-seconds on one thread, and its CPU-seconds."""
    stop = threading.Event()

    def look(_: Progress) -> None:
        if time.process_time() - began >= seconds:
            stop.set()

    with Graph.open(None, evaluator=create("builtin", {"threads": "1"})) as graph:
        began = time.process_time()
        finder = MateFinder(visits=limits.visits) if prover else None
        result = analyze(graph, board, limits, on_progress=look, interval=INTERVAL, stop=stop, mates=finder)
        return result, time.process_time() - began
