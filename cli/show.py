"""`graphsearch show`: a stored node, without a search and without the compiler."""

from __future__ import annotations

from typing import Annotated

import typer

from .commands import command
from .options import Json, PositionOptions, StoreOption
from .output import FAILED, print_json, print_view, say, say_if_unfinished
from .render import board_text, node_view, origin_line


@command(
    "Print what a graph file holds about a position.",
    "graphsearch show startpos --store first.graph",
    'graphsearch show startpos --moves "e4 e5" --store first.graph --json',
    scores=True,
)
def show(
    store: StoreOption,
    position: PositionOptions,
    multipv: Annotated[
        int, typer.Option("--multipv", metavar="K", min=0, help="Moves in the table; 0 for all.")
    ] = 0,
    json: Json = False,
) -> None:
    """Print what a graph file holds about a position; nothing is searched.

    Exit code 1 if the position is not stored.

    JSON: `evaluator` (number in the file, kind and description) is the source of V and P; number 0 is the
    rules of chess. `run` is the search that asked it (number, kind, start, and the position that was
    searched), null if the file does not know.
    """
    from graphsearch.graph.view import origin, show

    board = position.board()
    node = show(store, board)
    if node is None:
        say(f"graphsearch: {store} does not hold this position: {board.fen()}")
        raise typer.Exit(FAILED)
    say_if_unfinished(store)
    source = origin(store, node)
    if json:
        print_json(node.as_dict() | source.as_dict())
        return
    print(board_text(node.position))
    print(f"\n{node.position}   key {node.key}")
    print(f"{origin_line(source)}\n")
    print_view(lambda width: node_view(node, multipv, width))
