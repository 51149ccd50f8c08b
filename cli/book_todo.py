"""`graphsearch book todo`: candidates for the queue of a book."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command
from .options import Json, StoreOption
from .output import print_json, print_part, say, say_if_unfinished
from .render import count, signed
from .tables import LEFT, RIGHT, table

if TYPE_CHECKING:
    from rich.table import Table

    from graphsearch.book.todo import MissingReply, Rivalry, Todo, UnsearchedLeaf

EMPTY = {
    "leaves": "Every position of the book has been searched.",
    "gaps": "Every likely or popular reply has an answer.",
    "bottlenecks": "No change of a few leaves can overturn the best move of a root.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TodoRequest:
    """The options of `book todo`."""

    name: Annotated[str, typer.Argument(metavar="NAME", help="The book's name.", show_default=False)]
    store: StoreOption
    kind: Annotated[
        str,
        typer.Option(
            "--kind",
            metavar="KIND",
            help="leaves: positions not searched yet; gaps: likely or popular replies without an answer; "
            "bottlenecks: the fewest leaves on which the best move of a root depends.",
        ),
    ] = "leaves"
    top: Annotated[int, typer.Option("--top", metavar="K", min=0, help="Items to list; 0 for all.")] = 20
    min_p: Annotated[
        float,
        typer.Option("--min-p", metavar="P", min=0, max=1, help="Gaps: replies with at least this prior."),
    ] = 0.05
    min_games: Annotated[
        int,
        typer.Option(
            "--min-games", metavar="N", min=1, help="Gaps: or replies with at least N imported games."
        ),
    ] = 20
    change: Annotated[
        float,
        typer.Option(
            "--change", metavar="X", help="Bottlenecks: how far a leaf's V may change; 2 allows any value."
        ),
    ] = 2.0
    queue: Annotated[bool, typer.Option("--queue", help="Also add them to the book's queue.")] = False
    json: Json = False


@command(
    "List what a book needs next.",
    "graphsearch book todo white --store white.graph",
    "graphsearch book todo white --kind gaps --min-p 0.1 --top 50 --queue --store white.graph",
    "graphsearch book todo white --kind bottlenecks --change 0.3 --json --store white.graph",
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
    found = find(
        request.store,
        request.name,
        chosen,
        top=request.top,
        min_p=request.min_p,
        min_games=request.min_games,
        change=request.change,
    )
    say_if_unfinished(request.store)
    for note in found.notes:
        say(f"note: {note}")
    if request.json:
        print_json(found.as_dict())
    elif found.rows:
        print_part(_table(found))
    else:
        say(EMPTY[found.kind])
    if request.queue:
        _queue(request.store, found)


def _queue(store: Path, found: Todo) -> None:
    from graphsearch.book import queue

    added = queue.add(store, found.items(), book=found.book)
    there = f"; {count(len(added.duplicates), 'item')} already waiting" if added.duplicates else ""
    say(f"Added {count(len(added.ids), 'item')} to the queue{there}")


def _table(found: Todo) -> Table:
    from graphsearch.book.todo import MissingReply, Rivalry, UnsearchedLeaf

    if found.kind == "leaves":
        rows = [_leaf(row) for row in found.rows if isinstance(row, UnsearchedLeaf)]
        return _filled(("Priority", "Ply", "Line", "Position"), rows)
    if found.kind == "gaps":
        rows = [_gap(row) for row in found.rows if isinstance(row, MissingReply)]
        return _filled(("Reach %", "P %", "Games", "Line", "Position"), rows)
    rows = [cells for row in found.rows if isinstance(row, Rivalry) for cells in _verdict(row)]
    names = ("Leaves", "Change", "Best", "V", "Rival", "V of it", "Leaf", "V here", "V needed")
    return _filled(names, rows)


def _filled(names: Sequence[str], rows: Sequence[tuple[str, ...]]) -> Table:
    wide = ("Line", "Position", "Leaf", "Best", "Rival")
    return table({name: LEFT if name in wide else RIGHT for name in names}, rows)


def _leaf(row: UnsearchedLeaf) -> tuple[str, ...]:
    priority = "" if row.priority is None else f"{row.priority:.3f}"
    return (priority, str(row.target.ply), row.target.line, row.target.position)


def _gap(row: MissingReply) -> tuple[str, ...]:
    p = "" if row.p is None else f"{100 * row.p:.1f}"
    line = row.target.line if row.target.move else f"{row.target.line}, no move yet"
    return (f"{100 * row.reach:.2f}", p, f"{row.games:,}" if row.games else "", line, row.target.position)


def _verdict(row: Rivalry) -> list[tuple[str, ...]]:
    """Returns a row of the table for each leaf of a bottleneck."""
    rival = f"{row.rival_san} (outside)" if row.outside else row.rival_san
    head = (
        str(len(row.leaves)),
        f"{row.change:.3f}",
        row.best_san,
        signed(row.best_value),
        rival,
        signed(row.rival_value),
    )
    if not row.leaves:
        return [(*head, "none: already as good", "", "")]
    lines: list[tuple[str, ...]] = []
    for leaf in row.leaves:
        text = f"{leaf.target.line} (outside)" if leaf.target.move else leaf.target.line
        lines.append((*head, text, signed(leaf.value), signed(leaf.needed)))
        head = ("",) * 6
    return lines
