"""Measures what the prover of mates takes of a search that it is beside, in CPU-seconds of this process.

    python -m tools.measure_guest share [--visits 100000] [--pairs 3]
    python -m tools.measure_guest first [--seconds 1]
    python -m tools.measure_guest mates mates.epd [--up-to 5] [--seconds 4]

share: searches of decided positions (Q of .5 and more) with and without the prover, in turn; median of the
ratios. first: visits in the first CPU-second of a search without limits, of decided positions and of the same
positions before a queen was taken off, with the prover and without. mates: CPU-seconds to the end of a search
without limits, for the mates of a file (`FEN bm #N` on each line).
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import chess

from graphsearch import Graph, Limits, SearchResult, analyze
from graphsearch.evaluators.factory import create
from graphsearch.mate.beside import DECIDED, TRIAL, MateFinder
from graphsearch.search.results import Progress
from tools.measure_mates import read

OTHERS = (
    "r1bq1rk1/pp2bppp/2n2n2/2pp4/3P4/2NBPN2/PP3PPP/R1BQ1RK1 w - - 0 9",
    "r2q1rk1/pp1bbppp/2np1n2/4p3/4P3/1NN1B3/PPP1BPPP/R2Q1RK1 w - - 4 10",
    "rnbq1rk1/ppp1ppbp/3p1np1/8/2PPP3/2N2N2/PP2BPPP/R1BQK2R b KQ - 1 6",
    "r1bq1rk1/2p1bppp/p1np1n2/1p2p3/4P3/1BP2N2/PP1P1PPP/RNBQR1K1 w - - 0 9",
    "rn1qkb1r/pp3ppp/2p1pn2/3p1b2/2PP4/2N1PN2/PP3PPP/R1BQKB1R w KQkq - 1 6",
    "r1bqk2r/pp1p1ppp/2n1pn2/2b5/3NP3/2N5/PPP1BPPP/R1BQK2R w KQkq - 3 7",
)
INTERVAL = 0.01  # seconds between two looks at the CPU time


def decided() -> list[chess.Board]:
    """Returns each position without a queen, once of either side."""
    boards = []
    for fen in OTHERS:
        for colour in chess.COLORS:
            board = chess.Board(fen)
            board.remove_piece_at(next(iter(board.pieces(chess.QUEEN, colour))))
            boards.append(board)
    return boards


def search(
    board: chess.Board, limits: Limits, *, prover: bool, seconds: float = 1e9
) -> tuple[SearchResult, float]:
    """Returns the result of a search of so many CPU-seconds on one thread, and those that it took."""
    stop, began = threading.Event(), time.process_time()

    def look(_: Progress) -> None:
        if time.process_time() - began >= seconds:
            stop.set()

    with Graph.open(None, evaluator=create("builtin", {"threads": "1"})) as graph:
        began = time.process_time()
        finder = MateFinder(visits=limits.visits) if prover else None
        result = analyze(graph, board, limits, on_progress=look, interval=INTERVAL, stop=stop, mates=finder)
        return result, time.process_time() - began


def share(visits: int, pairs: int) -> None:
    """Prints the ratio of CPU-seconds with the prover to those without, position by position."""
    ratios = []
    for board in decided():
        spent: dict[bool, list[float]] = {True: [], False: []}
        for k in range(2 * pairs):
            result, seconds = search(board, Limits(visits=visits), prover=k % 2 == 0)
            spent[k % 2 == 0].append(seconds)
        if abs(result.node.q) < DECIDED or result.stop_reason != "visits":
            continue
        ratios.append(median(spent[True]) / median(spent[False]))
        print(f"{ratios[-1]:5.2f}  Q {result.node.q:5.2f}  {board.fen()}", flush=True)
    print(f"median of {len(ratios)} positions: {median(ratios):.3f}")


def first(seconds: float) -> None:
    """Prints the median visits of the first seconds: of both kinds, with the prover and without."""
    kinds = {"decided": decided(), "others": [chess.Board(fen) for fen in OTHERS]}
    visits = {
        (kind, prover): _visits(boards, seconds, prover=prover)
        for kind, boards in kinds.items()
        for prover in (False, True)
    }
    for (kind, prover), count in visits.items():
        print(f"{kind:8} {'with' if prover else 'without'} the prover: {count:,.0f} visits")
    for prover in (False, True):
        ratio = visits["decided", prover] / visits["others", prover]
        print(f"decided / others {'with' if prover else 'without'} the prover: {ratio:.2f}")


def _visits(boards: Sequence[chess.Board], seconds: float, *, prover: bool) -> float:
    found = [search(board, Limits(), prover=prover, seconds=seconds) for board in boards]
    return median(result.new_visits / spent * seconds for result, spent in found)


def mates(path: Path, up_to: int, seconds: float) -> None:
    """Prints the CPU-seconds until searches of mates end, and how many found them at full length."""
    problems = [problem for problem in read(path) if 0 < abs(problem.moves) <= up_to]
    found = [(p, *search(p.board, Limits(), prover=True, seconds=seconds)) for p in problems]
    right = sum(result.node.mate == problem.moves for problem, result, _ in found)
    spent = [seconds for *_, seconds in found]
    print(f"{right} of {len(found)} found; CPU-seconds: median {median(spent):.3f}, worst {max(spent):.1f}")


def main() -> None:
    """Runs one of the measurements."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("share", "first", "mates"))
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--visits", type=int, default=100_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--up-to", type=int, default=5, help="problems of at most so many moves")
    given = parser.parse_args()
    search(chess.Board(TRIAL), Limits(visits=100), prover=True)  # so that nothing is compiled later
    if given.what == "share":
        share(given.visits, given.pairs)
    elif given.what == "first":
        first(given.seconds or 1.0)
    elif given.file is None:
        parser.error("mates needs a file")
    else:
        mates(given.file, given.up_to, given.seconds or 4.0)


if __name__ == "__main__":
    main()
