"""`graphsearch book todo`: candidates for the queue of a book."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command
from .options import Json, Lines, StoreOption, argument, option
from .output import print_json, print_parts, say, say_if_unfinished
from .render import count, opening_at, opening_cells
from .scores import detailed, heading, value_score
from .tables import LEFT, table

if TYPE_CHECKING:
    from graphsearch.book.todo import MissingReply, Rivalry, Todo, UnsearchedLeaf

    Row = UnsearchedLeaf | MissingReply | Rivalry

EMPTY = {
    "leaves": "Every position of the book has been searched.",
    "gaps": "Every likely or popular reply has an answer.",
    "bottlenecks": "No change of a few leaves can overturn the best move of a root.",
}
TEXTS = dict.fromkeys(("Line", "ECO", "Opening", "Position", "Leaf", "Best", "Rival"), LEFT)


@dataclass(frozen=True, slots=True, kw_only=True)
class TodoRequest:
    """The options of `book todo`."""

    name: Annotated[str, argument("NAME", "The book's name.")]
    store: StoreOption
    kind: Annotated[
        str,
        option(
            "--kind KIND",
            "leaves: positions not searched yet; gaps: likely or popular replies without an answer; "
            "bottlenecks: the fewest leaves on which the best move of a root depends.",
        ),
    ] = "leaves"
    lines: Lines = 20
    min_games: Annotated[
        int, option("--min-games N", "Gaps: or replies with at least N imported games.", min=1)
    ] = 20
    queue: Annotated[bool, option("--queue", "Also add them to the book's queue.")] = False
    json: Json = False


@command(
    "List what a book needs next.",
    "graphsearch book todo white --store white.graph",
    "graphsearch book todo white --kind gaps --lines 50 --queue --store white.graph",
    "graphsearch book todo white --kind bottlenecks --json --store white.graph",
    views=True,
)
def todo(request: TodoRequest) -> None:
    """List what a book needs next, the most urgent first; works while the book is built.

    Leaves come in the builder's order. Gaps are ranked by how likely the book reaches them: the product of
    the replies' shares of the imported games along the line (of P where fewer than 20 games are known), own
    moves counting 1; own positions without a move are gaps too. A bottleneck is the smallest set of leaves
    that, with other values, would make another move of a root as good as its best one; best moves outside the
    book count as leaves of their positions. Among sets of equal size, the one whose values have to change
    least comes first.

    JSON: `items`; values are seen by the side to move at their position.
    """
    from graphsearch.book.todo import KINDS
    from graphsearch.book.todo import todo as find

    chosen = next((known for known in KINDS if known == request.kind), None)
    if chosen is None:
        raise typer.BadParameter(
            f"must be one of {', '.join(KINDS)}, not {request.kind!r}", param_hint="'--kind'"
        )
    found = find(request.store, request.name, chosen, top=request.lines, min_games=request.min_games)
    say_if_unfinished(request.store)
    for note in found.notes:
        say(f"note: {note}")
    if request.json:
        print_json(found.as_dict())
    elif found.rows:
        rows = [cells for row in found.rows for cells in _cells(row)]
        scored = [f"({heading()})"] if request.kind == "bottlenecks" else []
        print_parts([*scored, table(rows, TEXTS, spare=("Opening", "ECO"))])
    else:
        say(EMPTY[found.kind])
    if request.queue:
        _queue(request.store, found)


def _queue(store: Path, found: Todo) -> None:
    from graphsearch.book import queue

    added = queue.add(store, found.items(), book=found.book)
    there = f"; {count(len(added.duplicates), 'item')} already waiting" if added.duplicates else ""
    say(f"Added {count(len(added.ids), 'item')} to the queue{there}")


def _cells(row: Row) -> Iterator[dict[str, str]]:
    """Yields the table rows of an item: one per leaf of a bottleneck, one for any other item."""
    from graphsearch.book.todo import MissingReply, UnsearchedLeaf

    if isinstance(row, UnsearchedLeaf):
        yield {
            **_line(row.target.line or "start", row.target.position),
            "Priority": "" if row.priority is None else f"{row.priority:.3f}",
            "Ply": str(row.target.ply),
        }
    elif isinstance(row, MissingReply):
        yield {
            **_line(
                row.target.line if row.target.move else f"{row.target.line}, no move yet", row.target.position
            ),
            "Reach": f"{100 * row.reach:.2f}%",
            "P": "" if row.p is None else f"{100 * row.p:.1f}%",
            "Games": f"{row.games:,}" if row.games else "",
        }
    else:
        yield from _bottleneck(row)


def _line(line: str, position: str) -> dict[str, str]:
    """Returns the first columns of a row: the line, its opening, and with `--details` the position."""
    return {"Line": line, **opening_cells(opening_at(position)), **detailed({"Position": position})}


def _bottleneck(row: Rivalry) -> Iterator[dict[str, str]]:
    head = {
        "Best": row.best_san,
        "Score": value_score(row.best_value, row.root),
        "Rival": f"{row.rival_san} (outside)" if row.outside else row.rival_san,
        "Its score": value_score(row.rival_value, row.root),
        "Leaves": str(len(row.leaves)),
        "Change": f"{row.change:.3f}",
    }
    if not row.leaves:
        yield {"Leaf": "none: already as good"} | head
    for leaf in row.leaves:
        text = f"{leaf.target.line} (outside)" if leaf.target.move else leaf.target.line
        here = leaf.target.position
        values = {"Score here": value_score(leaf.value, here), "Score needed": value_score(leaf.needed, here)}
        yield {"Leaf": text} | values | head
        head = dict.fromkeys(head, "")
