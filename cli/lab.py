"""`graphsearch lab`: commands for research, measurements and rare repairs."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated

import chess

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.factory import create
from graphsearch.position.board import pack
from graphsearch.position.board_kernel import perft as count_leaves
from graphsearch.search.results import SearchResult

from .options import LineOptions, Natural, Position, option
from .output import print_answer, say
from .tables import rate


def perft(*, position: Position, depth: Natural, divide: bool = False, line: LineOptions) -> None:
    """Count the positions DEPTH plies below a position.

    \b
    Examples:
      graphsearch lab perft startpos 6
      graphsearch lab perft startpos 5 --moves "e4 e5" --divide

    Args:
      depth: DEPTH: Depth in plies.
      divide: --divide: Count separately below each move.
    """
    board = line.board_after(position)
    parts = {}
    for move in sorted(board.legal_moves, key=str) if depth else ():
        board.push(move)
        parts[move.uci()] = count_leaves(pack(board).reshape(1, -1), depth - 1)
        board.pop()
    nodes = sum(parts.values()) if depth else 1
    by_move = {"divide": parts} if divide else {}
    lines = [*(f"{move}: {n}" for move, n in parts.items()), ""] if divide and depth else []
    facts = {"position": board.fen(), "depth": depth, "nodes": nodes, **by_move}
    print_answer(facts, [*lines, f"nodes: {nodes}"])


FIGURES = {  # JSON name -> label in the table
    "nodes": "nodes of the graph",
    "visits_per_s_single": "visits per second without evaluation, one by one",
    "visits_per_s_wave": "the same in waves of 1,024",
    "evaluations_per_s": "evaluations per second, built-in evaluator",
    "ram_bytes_per_node": "memory, bytes per node",
    "file_bytes_per_node": "file, bytes per node, built-in evaluator",
}
WAVE, BUILTIN_NODES = 1024, 100_000


def bench(
    *,
    nodes: Annotated[
        int, option("--nodes N", "Size of the graph to build; 1,000,000 by default.", min=1000)
    ] = 1_000_000,
) -> None:
    """Measure the speed of a search per CPU-second, and the bytes of a node in memory and in the file.

    Searches begin at the start position and use one thread.

    \b
    Examples:
      graphsearch lab bench
      graphsearch lab bench --json > figures.json
    """
    say("searching one by one")
    single, seconds, _ = _searched("uniform", nodes, 1)
    say(f"searching in waves of {WAVE:,}")
    waves, wave_seconds, ram = _searched("uniform", nodes, WAVE)
    say("searching with the built-in evaluator and a file")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.graph"
        filed, filed_seconds, _ = _searched("builtin", min(nodes, BUILTIN_NODES), WAVE, file)
        size = file.stat().st_size
    figures = {
        "nodes": nodes,
        "visits_per_s_single": round(single.new_visits / seconds),
        "visits_per_s_wave": round(waves.new_visits / wave_seconds),
        "evaluations_per_s": round(filed.evaluations / filed_seconds),
        "ram_bytes_per_node": round(ram, 1),
        "file_bytes_per_node": round(size / filed.nodes, 1),
    }
    shown = {name: f"{n:.1f}" if name.endswith("_per_node") else rate(n) for name, n in figures.items()}
    print_answer(figures, [f"{FIGURES[name]:<50}{text:>10}" for name, text in shown.items()])


def _searched(
    kind: str, nodes: int, wave: int, file: Path | None = None
) -> tuple[SearchResult, float, float]:
    """Returns the result of a search, its CPU-seconds, and the bytes of a node in memory."""
    params = SearchParams(minibatch_size=wave, max_wave_share=1.0)
    with Graph.open(file, evaluator=create(kind, {"threads": "1"})) as graph:
        analyze(graph, chess.Board(), Limits(evaluations=100), params)  # compiles before the clock runs
        begin = time.process_time()
        found = analyze(graph, chess.Board(), Limits(evaluations=nodes - graph.node_count), params)
        seconds = time.process_time() - begin
        return found, seconds, graph.arena.bytes_used / graph.node_count
