"""Measures alpha-beta: nodes per CPU-second, and its leaves beside those of the minimal tree.

    python -m tools.measure_alphabeta [--depth 8] [--fen FEN]... [--table-mb 256]

Every position is searched by iterative deepening with an empty table. A row: depth, the nodes and leaves of
that iteration, b (legal moves for each position whose moves were generated), the leaves of the minimal tree
b^ceil(n/2) + b^floor(n/2) - 1, leaves and nodes of all iterations so far as a multiple of it, nodes per
CPU-second (quiescence included) so far, the share of interior nodes found in the table, and the share of
cuts made by the first move. Depths that find a mate are left out. The last lines are medians over the
positions at their last depth. Transpositions are why a search can have fewer leaves than the minimal tree.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import chess

from graphsearch.alphabeta.engine import AlphaBeta
from graphsearch.alphabeta.limits import MOST_DEPTH
from graphsearch.alphabeta.results import Counts
from graphsearch.position.board import NOT_TERMINAL, check, fen_of, terminal_kind
from graphsearch.position.scores import LEAST_MATE
from graphsearch.record.transposition import EntryTable

MIDDLEGAMES = (
    "r1bqk2r/pppp1ppp/2n2n2/2b1p3/2B1P3/2NP1N2/PPP2PPP/R1BQK2R b KQkq - 0 5",
    "r1b2rk1/2q1bppp/p2p1n2/npp1p3/3PP3/2P2N1P/PPBN1PP1/R1BQR1K1 b - - 2 12",
    "r2q1rk1/pp1bppbp/2np1np1/8/3NP3/2N1BP2/PPPQ2PP/2KR1B1R w - - 6 10",
    "rnbq1rk1/pp2ppbp/6p1/2p5/2BPP3/2P5/P3NPPP/R1BQK2R w KQ - 1 9",
    "r1bq1rk1/pp1nbppp/2p1pn2/3p4/2PP4/2NBPN2/PPQ2PPP/R1B1K2R w KQ - 4 8",
)


HEADER = "depth       nodes      leaves     b     minimal  leaves  so far   nodes    nodes/s  hits  first"


@dataclass(frozen=True)
class Row:
    """One iteration: its depth, what it counted, what all so far counted, and their CPU-seconds."""

    depth: int
    counts: Counts
    total: Counts
    seconds: float

    @property
    def branching(self) -> float:
        """Legal moves for each position whose moves were generated."""
        return self.counts.moves / max(1, self.counts.expanded)

    @property
    def minimal(self) -> float:
        """Leaves of the minimal tree."""
        return self.branching ** ((self.depth + 1) // 2) + self.branching ** (self.depth // 2) - 1

    @property
    def speed(self) -> float:
        """Nodes per CPU-second so far."""
        return self.total.nodes / max(1e-9, self.seconds)

    @property
    def hits(self) -> float:
        """Share of interior nodes that were in the table."""
        return self.counts.hits / max(1, self.counts.interior)

    @property
    def first_cuts(self) -> float:
        """Share of cuts made by the first move tried."""
        return self.counts.first_cutoffs / max(1, self.counts.cutoffs)

    def ratio(self, counted: int) -> float:
        """Returns a count as a multiple of the minimal tree's leaves."""
        return counted / self.minimal


def deepened(board: chess.Board, depth: int, size: int) -> Iterator[Row]:
    """Yields the iterations up to a depth, or a mate, from an empty table.

    A mate cuts the tree short, so that it says nothing beside the minimal one: it has no row.
    """
    if terminal_kind(board) != NOT_TERMINAL:
        return
    engine = AlphaBeta(EntryTable(size))
    total, seconds = Counts(), 0.0
    for d in range(1, depth + 1):
        started = time.process_time()
        found = engine.search(board, d)
        counts = found.counts
        if abs(found.value) >= LEAST_MATE:
            return
        seconds += time.process_time() - started
        total += counts
        yield Row(d, counts, total, seconds)


def show(row: Row) -> None:
    """Prints one row."""
    print(
        f"{row.depth:5} {row.counts.nodes:11} {row.counts.leaves:11} {row.branching:5.1f} {row.minimal:11.0f}"
        f" {row.ratio(row.counts.leaves):7.2f} {row.ratio(row.total.leaves):7.2f}"
        f" {row.ratio(row.total.nodes):7.2f} {row.speed:10.0f} {row.hits:5.2f} {row.first_cuts:6.3f}"
    )


def _whole(low: int, high: int) -> Callable[[str], int]:
    """Returns what reads a number in a range from the command line."""

    def read(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is no number from {low} to {high}")
        return int(text)

    return read


def _position(text: str) -> chess.Board:
    """Returns the position of a FEN of the command line."""
    try:
        board = chess.Board(text)
        check(board)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return board


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures the start position and middlegames, or the positions named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--depth", type=_whole(1, MOST_DEPTH), default=8)
    parser.add_argument("--fen", type=_position, action="append")
    parser.add_argument("--table-mb", type=_whole(1, 1 << 20), default=256)
    options = parser.parse_args(arguments)
    AlphaBeta(EntryTable(1 << 16)).search(chess.Board(), 1)  # compiles
    last: list[Row] = []
    for board in options.fen or map(chess.Board, (chess.STARTING_FEN, *MIDDLEGAMES)):
        print(fen_of(board))
        print(HEADER)
        rows = list(deepened(board, options.depth, options.table_mb << 20))
        for row in rows:
            show(row)
        last += rows[-1:]
        if len(rows) < options.depth:
            print(f"{len(rows) + 1:5} a mate, or the game is over: there is no tree to compare with")
    if not last:
        return
    print(f"median leaves/minimal {median(row.ratio(row.counts.leaves) for row in last):.2f}", end="")
    print(f", nodes of all iterations/minimal {median(row.ratio(row.total.nodes) for row in last):.2f}")
    print(f"median nodes per CPU-second {median(row.speed for row in last):.0f}")


if __name__ == "__main__":
    main()
