"""`graphsearch query position`: everything that a file knows about one position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .commands import command
from .options import Json, PositionOptions, StoreOption
from .output import FAILED, print_json, print_view, say_if_unfinished
from .render import count, node_view, origin_line, signed

if TYPE_CHECKING:
    from graphsearch.query.position import Position


@command(
    "Print all that a file knows of a position.",
    "graphsearch query position startpos --store first.graph",
    'graphsearch query position startpos --moves "e4 e5" --store first.graph --json',
    name="position",
    scores=True,
)
def position_of(store: StoreOption, position: PositionOptions, json: Json = False) -> None:
    """Print what a file knows of a position: the node with its moves and lines, imported games, the books
    that have it, and second opinions. The page of `graphsearch serve` shows the same.

    Exit code 1 if the file knows nothing of it.

    JSON: `node` is as `query moves` has it, with `pv` of the best moves, `mate`, `evaluator` and `run`; null
    if the position is not stored. `games` has the results of imported games by move; `books` each book's
    state, value and moves; `opinions` those of other evaluators.
    """
    import typer

    from graphsearch.query.position import position as ask

    found = ask(store, position.board())
    say_if_unfinished(store)
    if json:
        print_json(found.as_dict())
    else:
        _print(found)
    if not (found.moves or found.games or found.books):
        raise typer.Exit(FAILED)


def _print(found: Position) -> None:
    print(f"{found.position}   key {found.key}")
    if found.moves and found.origin:
        node = found.moves.node
        print(origin_line(found.origin))
        print_view(lambda width: node_view(node, 0, width))
    for line in _notes(found):
        print(line)


def _notes(found: Position) -> Iterator[str]:
    """Yields the facts beside the search, line by line."""
    if not found.moves:
        yield "not stored"
    games = sum(results.games for results in found.games.values())
    if games:
        yield f"games: {count(games, 'game')} in {count(len(found.games), 'move')}"
    for book in found.books:
        value = "" if book.value is None else f", value {signed(book.value)}"
        moves = f", {count(len(book.moves), 'move')}" if book.moves else ""
        yield f"book {book.book}: {book.state}, ply {book.ply}{value}{moves}"
    for opinion in found.opinions:
        best = f", best {opinion.best_move}" if opinion.best_move else ""
        yield f"{opinion.evaluator}: Q {signed(opinion.q)} ({opinion.cp:+d} cp){best}"
