"""`graphsearch lab perft`: counts positions, the standard test of a move generator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from .commands import command
from .options import Json, LineOptions, Position, argument, option
from .output import print_json
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
