"""`graphsearch show`: prints a file's data on a position, without a search and without the compiler."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from .commands import command
from .options import Json, Lines, PositionOptions, StoreOption
from .output import FAILED, print_json, print_parts, print_view, say, say_if_unfinished
from .render import board_text, count, node_view, opening_line, origin_line
from .scores import look, value_score

if TYPE_CHECKING:
    from graphsearch.query.position import Position


@command(
    "Print the stored moves and values of a position.",
    "graphsearch show first.graph",
    'graphsearch show first.graph "1. e4 e5" --json',
    views=True,
)
def show(store: StoreOption, position: PositionOptions, lines: Lines = 0, json: Json = False) -> None:
    """Print the stored data of a position: its moves with their lines, imported games, the books that have
    it, and the note on it. Nothing is searched.

    Exit code 1 if the file knows nothing of it.

    JSON: `evaluator` (number in the file, kind and description) is the source of V and P; number 0 is the
    rules of chess. `run` is the search that asked it (number, kind, start, and the position that was
    searched), null if the file does not know. `games` has the results of imported games by move; `books` each
    book's state, value and moves; `note` is its text, empty without one. A position that was not searched has
    only these and `position` and `key`.
    """
    from graphsearch.position.board import MAX_MOVES
    from graphsearch.position.openings import opening_of
    from graphsearch.query.position import position as ask

    board = position.board()
    found = ask(store, board, lines=MAX_MOVES)
    if not (found.moves or found.games or found.books or found.note):
        say(f"graphsearch: {store} does not hold this position: {board.fen()}")
        raise typer.Exit(FAILED)
    say_if_unfinished(store)
    if json:
        opening = opening_of(board)
        facts = found.as_dict()  # beside the search, and in place of `node` its own
        del facts["node"]
        if found.moves and found.origin:
            facts |= found.moves.node.as_dict() | found.origin.as_dict()
        print_json(facts | {"opening": opening.as_dict() if opening else None})
        return
    print(board_text(found.position))
    print(f"\n{found.position}" + (f"   key {found.key}" if look.details else ""))
    print_parts(opening_line(opening_of(board)))
    if found.moves and found.origin:
        node = found.moves.node
        print(f"{origin_line(found.origin)}\n" if look.details else "")
        print_view(lambda width: node_view(node, lines, width))
    print_parts(_notes(found))


def _notes(found: Position) -> Iterator[str]:
    """Yields the facts beside the search, line by line."""
    if not found.moves:
        yield "not searched"
    games = sum(results.games for results in found.games.values())
    if games:
        yield f"games: {count(games, 'game')} in {count(len(found.games), 'move')}"
    for book in found.books:
        worth = "" if book.value is None else f", {value_score(book.value, found.position)}"
        moves = f", {count(len(book.moves), 'move')}" if book.moves else ""
        yield f"book {book.book}: {book.state}, ply {book.ply}{worth}{moves}"
    if found.note:
        yield f"note: {found.note}"
