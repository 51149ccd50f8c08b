"""Measures what alpha-beta and the best-first search save each other through one graph.

    python -m tools.measure_sharing --depth 7 --visits 20000
    python -m tools.measure_sharing --mates mates.epd --count 40 --depth 4 --visits 5000

Two questions, each search once alone and once after the other:

- How many nodes does alpha-beta take to a depth, alone, and after a best-first search of `--visits`, whose N
  and P order its moves and whose proofs end its nodes?
- How many visits does the best-first search take to prove a mate, alone, and after an alpha-beta search of
  `--mate-depth`, whose mates it takes over?

All is kept in memory; every search is deterministic, so the counts are the same on any machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import chess

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.alphabeta.limits import DepthLimits
from graphsearch.alphabeta.session import search_to_depth

MIDDLEGAMES = (
    chess.STARTING_FEN,
    "r1bqkb1r/pppp1ppp/2n2n2/4p3/2B1P3/5N2/PPPP1PPP/RNBQK2R w KQkq - 4 4",
    "r1bq1rk1/pp2bppp/2n1pn2/3p4/2PP4/2N2N2/PP2BPPP/R1BQ1RK1 w - - 0 9",
    "r2q1rk1/1b1nbppp/p2ppn2/1p6/3NP3/1BN1B3/PPP1QPPP/R4RK1 w - - 4 12",
    "2rq1rk1/pb1nbppp/1p2pn2/2pp4/3P1B2/2PBPN2/PP1N1PPP/R2Q1RK1 w - - 2 11",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
)
TABLE_BYTES = 64 << 20


def alphabeta_nodes(fen: str, depth: int, visits: int) -> int:
    """Returns the nodes of an alpha-beta search after so many visits of the best-first search."""
    board = chess.Board(fen)
    with Graph.open(None) as graph:
        if visits:
            analyze(graph, board, Limits(visits=visits), SearchParams())
        found = search_to_depth(graph, board, DepthLimits(depth=depth), table_bytes=TABLE_BYTES)
        return found.counts.nodes


def visits_to_prove(fen: str, depth: int, most: int) -> int | None:
    """Returns the visits that prove a position's result after alpha-beta to a depth; None: not proven."""
    board = chess.Board(fen)
    with Graph.open(None) as graph:
        if depth:
            search_to_depth(graph, board, DepthLimits(depth=depth), table_bytes=TABLE_BYTES)
        found = analyze(graph, board, Limits(visits=most), SearchParams(minibatch_size=16))
        return found.new_visits if found.stop_reason == "proven" else None


def mates_in(path: Path, count: int) -> Iterator[str]:
    """Yields the positions of an EPD file, `count` of them, evenly spread."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for line in lines[:: max(1, len(lines) // count)][:count]:
        yield " ".join(line.split()[:4]) + " 0 1"


def compare_nodes(fens: Sequence[str], depth: int, visits: int) -> dict[str, object]:
    """Returns the nodes of alpha-beta alone and after the best-first search, position by position."""
    rows = [(alphabeta_nodes(fen, depth, 0), alphabeta_nodes(fen, depth, visits)) for fen in fens]
    return {
        "depth": depth,
        "visits": visits,
        "alone": [alone for alone, _ in rows],
        "after": [after for _, after in rows],
        "median_ratio": statistics.median(after / alone for alone, after in rows),
        "total_ratio": sum(after for _, after in rows) / sum(alone for alone, _ in rows),
    }


def compare_proofs(fens: list[str], depth: int, most: int) -> dict[str, object]:
    """Returns how many positions are proven, and in how many visits, alone and after alpha-beta."""
    alone = [visits_to_prove(fen, 0, most) for fen in fens]
    after = [visits_to_prove(fen, depth, most) for fen in fens]
    both = [(a, b) for a, b in zip(alone, after, strict=True) if a is not None and b is not None]
    return {
        "positions": len(fens),
        "depth": depth,
        "most_visits": most,
        "proven_alone": sum(a is not None for a in alone),
        "proven_after": sum(b is not None for b in after),
        "median_visits_alone": statistics.median(a for a, _ in both) if both else None,
        "median_visits_after": statistics.median(b for _, b in both) if both else None,
        "total_ratio": sum(b for _, b in both) / sum(a for a, _ in both) if both else None,
    }


def main(arguments: list[str] | None = None) -> int:
    """Measures and writes JSON to stdout."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--depth", type=int, default=7, help="of alpha-beta")
    parser.add_argument("--visits", type=int, default=20_000, help="of the best-first search before it")
    parser.add_argument("--mates", type=Path, help="EPD file of positions with a mate")
    parser.add_argument("--count", type=int, default=40, help="positions of it")
    parser.add_argument("--mate-depth", type=int, default=4, help="of alpha-beta before that")
    parser.add_argument("--most", type=int, default=20_000, help="visits to prove a mate in")
    chosen = parser.parse_args(arguments)
    if chosen.mates:
        fens = list(mates_in(chosen.mates, chosen.count))
        report = {
            "alphabeta": compare_nodes(fens, chosen.depth, chosen.visits),
            "best_first": compare_proofs(fens, chosen.mate_depth, chosen.most),
        }
    else:
        report = {"alphabeta": compare_nodes(MIDDLEGAMES, chosen.depth, chosen.visits)}
    json.dump(report, sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
