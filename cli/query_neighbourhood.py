"""`graphsearch query neighbourhood`: the positions around a position, each once with all its ways in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command
from .options import AnyPositionOptions, Json, StoreOption
from .output import print_json, print_part, say_if_unfinished
from .render import count, signed
from .tables import LEFT, RIGHT, table

if TYPE_CHECKING:
    from graphsearch.query.neighbourhood import Neighbourhood


@dataclass(frozen=True, slots=True, kw_only=True)
class AroundOptions:
    """Options that select the positions around one."""

    book: Annotated[
        str | None,
        typer.Option(
            "--book", metavar="NAME", help="Only the positions and moves of this book, with its values."
        ),
    ] = None
    depth: Annotated[
        int | None,
        typer.Option("--depth", metavar="D", min=0, help="Plies; 4 by default, of a book all."),
    ] = None
    min_visits: Annotated[
        int | None,
        typer.Option("--min-visits", metavar="N", min=0, help="Follow only moves with N or more visits."),
    ] = None
    positions: Annotated[
        int,
        typer.Option(
            "--positions",
            metavar="K",
            min=1,
            help="At most K positions: those at the end of the most visited lines.",
        ),
    ] = 60


@command(
    "List the positions around one, each once with all its ways in.",
    "graphsearch query neighbourhood startpos --positions 20 --store first.graph",
    "graphsearch query neighbourhood --book white --store books.graph --json",
)
def neighbourhood(
    store: StoreOption,
    position: AnyPositionOptions,
    around: AroundOptions,
    json: Json = False,
) -> None:
    """List the well-visited positions below a position, or of a book, each once with all its ways in.

    Without POSITION: from the roots of the book, or the root that was searched last. Positions are taken by
    the visits of the least visited move on the way to them. `export svg` and `export dot` draw them.

    JSON: `nodes` with `level` (plies from the root), `place` (where a picture has them) and `white_q`;
    `edges` name their ends by number in `nodes`.
    """
    from graphsearch.query.neighbourhood import neighbourhood as ask

    found = ask(
        store,
        position.board(),
        depth=around.depth,
        min_visits=around.min_visits,
        most=around.positions,
        book=around.book,
    )
    say_if_unfinished(store)
    if json:
        print_json(found.as_dict())
        return
    print(found.position)
    columns = {"Level": RIGHT, "N": RIGHT, "White's Q": RIGHT, "Ways in": LEFT, "Position": LEFT}
    print_part(table(columns, _rows(found)))
    print(
        f"{count(len(found.nodes), 'position')}, {count(len(found.edges), 'move')},"
        f" {count(found.transpositions, 'transposition')}; {count(found.hidden, 'move')} lead further"
    )


def _rows(found: Neighbourhood) -> Iterator[list[str]]:
    ways: list[list[str]] = [[] for _ in found.nodes]
    for edge in sorted(found.edges, key=lambda edge: -edge.n):
        ways[edge.child].append(edge.san)
    for node, sans in zip(found.nodes, ways, strict=True):
        n = "" if node.n is None else f"{node.n:,}"
        yield [str(node.level), n, signed(node.white_q), ", ".join(sans), node.position]
