"""`graphsearch lab`: commands for research, measurements and rare repairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from . import nodetypes, query_find, query_moves, query_players, reevaluate, store_upkeep
from .commands import command, group
from .options import Json, LineOptions, Position, argument, option
from .output import print_json, say
from .render import rate
from .signals import interruptible

if TYPE_CHECKING:
    import chess


@command(
    "Count the positions at a given depth.",
    "graphsearch lab perft startpos 6",
    'graphsearch lab perft startpos 5 --moves "e4 e5" --divide',
)
def perft(
    *,
    position: Position,
    depth: Annotated[int, argument("DEPTH", "Depth in plies.", min=0)],
    divide: Annotated[bool, option("--divide", "Count separately below each move.")] = False,
    line: LineOptions,
    json: Json = False,
) -> None:
    """Count the positions DEPTH plies below a position."""
    board = line.board_after(position)
    parts = interruptible(lambda: _count(board, depth, divide=divide))
    nodes = sum(parts.values())
    if json:
        by_move = {"divide": parts} if divide else {}
        print_json({"position": board.fen(), "depth": depth, "nodes": nodes, **by_move})
        return
    if divide and depth:
        print(*(f"{move}: {n}" for move, n in parts.items()), "", sep="\n")
    print(f"nodes: {nodes}")


def _count(board: chess.Board, depth: int, *, divide: bool) -> dict[str, int]:
    """Returns the leaves below each move (UCI), or the total under the empty name."""
    from graphsearch.position.board import pack
    from graphsearch.position.rules_kernel import perft as count_leaves
    from graphsearch.position.tables import load_tables

    tables = load_tables()
    if not divide or depth == 0:
        return {"": int(count_leaves(tables, pack(board), depth))}
    parts = {}
    for move in sorted(board.legal_moves, key=str):
        board.push(move)
        parts[move.uci()] = int(count_leaves(tables, pack(board), depth - 1))
        board.pop()
    return parts


_LINES = {  # JSON name -> label in the table
    "nodes": "nodes in the graph",
    "perft_per_s": "perft, positions per second",
    "expand_ns": "expand one node, ns",
    "make_ns": "make one move with key, ns",
    "visits_per_s_single": "visits per second, one by one",
    "evaluations_per_s_single": "of them evaluated",
    "visits_per_s_wave": "visits per second, waves of 1024",
    "evaluations_per_s_wave": "of them evaluated",
    "ram_bytes_per_node": "RAM, bytes per node",
    "file_bytes_per_node": "file, bytes per node",
    "save_nodes_per_s": "save, nodes per second",
    "load_nodes_per_s": "load, nodes per second",
    "search_visits_per_s": "visits per second of a search without a file",
    "search_visits_per_s_saving": "the same with a file",
    "search_saved_per_s": "nodes it saves per second",
    "search_written_of_size": "bytes it writes, relative to the file",
    "builtin_evaluations_per_s": "built-in evaluator, per second",
    "builtin_file_bytes_per_node": "its file, bytes per node",
    "resumed_image_us_per_node": "taking the image of a graph to go on with, us per node",
    "resumed_read_us_per_node": "reading a file that has no image, us per node",
    "resumed_us_per_visit": "us per visit of a search that then goes on",
    "unstopped_us_per_visit": "the same if it never stopped",
    "resumed_of_unstopped": "the first relative to the second",
    "one_evaluation_s": "then a search of one evaluation: its lines and plain tables, CPU-seconds",
    "sessions_of_one": "CPU of ten sessions on one file, less ten starts, relative to one session",
    "start_s": "first table, CPU-seconds",
    "start_cold_s": "the same with an empty cache",
    "alphabeta_nodes_per_s": "alpha-beta, nodes per second",
    "alphabeta_leaves_of_minimal": "its leaves relative to the minimal tree",
}


@command(
    "Measure the speed of this machine.",
    "graphsearch lab bench",
    "graphsearch lab bench --json > figures.json",
)
def bench(
    *,
    nodes: Annotated[
        int | None, option("--nodes N", "Size of the largest graph to build; 1,000,000 by default.", min=1000)
    ] = None,
    json: Json = False,
) -> None:
    """Measure move generation, search, memory and file, per CPU-second of the process."""
    from .bench import NODES, machine, measure

    figures = interruptible(lambda: measure(say, nodes=nodes or NODES))
    if json:
        print_json(figures)
        return
    print(machine())
    for name, value in figures.items():
        counted = name == "nodes" or name.endswith(("_per_s", "_single", "_wave", "_saving"))
        shown = rate(value) if counted else f"{value:.2f}" if name.endswith("_minimal") else f"{value:.1f}"
        print(f"{_LINES.get(name, name):<36}{shown:>10}")


app = group(
    "Commands for research, measurements and rare repairs.",
    sections={
        "Questions": (
            query_find.sql,
            query_moves.moves_of,
            query_players.game_of,
        ),
        "Files": (reevaluate.refresh, store_upkeep.split, store_upkeep.mend),
        "Measurements": (nodetypes.nodetypes, perft, bench),
    },
)
