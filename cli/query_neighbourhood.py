"""`graphsearch lab neighbourhood`: the positions around a position, each once with all its ways in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from .commands import report
from .options import ALL_LINES, AnyPositionOptions, Depth, Lines, OfBook, StoreOption, option
from .render import count, numbered
from .scores import detailed, signed
from .tables import LEFT, Part, table

if TYPE_CHECKING:
    from graphsearch.query.neighbourhood import Neighbourhood


@dataclass(frozen=True, slots=True, kw_only=True)
class AroundOptions:
    """Options that select the positions around one."""

    book: OfBook = None
    depth: Depth = None
    min_visits: Annotated[
        int | None, option("--min-visits N", "Follow only moves with N or more visits.", min=0)
    ] = None
    lines: Lines = 60


def _view(found: Neighbourhood) -> Iterator[Part]:
    yield f"{found.position}   (Q from White's view)"
    ways: list[list[str]] = [[] for _ in found.nodes]
    lines: dict[int, tuple[str, ...]] = {0: ()}
    for edge in found.edges:
        if edge.main and edge.parent in lines:
            lines[edge.child] = (*lines[edge.parent], edge.san)
    for edge in sorted(found.edges, key=lambda edge: -edge.n):
        ways[edge.child].append(edge.san)
    rows = [
        {
            "Line": numbered(found.position, lines[place]) if place in lines else node.position,
            "Q": signed(node.white_q),
            "Visits": "" if node.n is None else f"{node.n:,}",
            "Ways in": ", ".join(sans),
            **detailed({"Position": node.position}),
        }
        for place, (node, sans) in enumerate(zip(found.nodes, ways, strict=True))
    ]
    yield table(rows, {"Line": LEFT, "Ways in": LEFT, "Position": LEFT})
    yield (
        f"{count(len(found.nodes), 'position')}, {count(len(found.edges), 'move')},"
        f" {count(found.transpositions, 'transposition')}; {count(found.hidden, 'move')} lead further"
    )


@report(
    "List the positions around one, each once with all its ways in.",
    "graphsearch lab neighbourhood startpos --lines 20 --store first.graph",
    "graphsearch lab neighbourhood --book white --store books.graph --json",
    view=_view,
    noted="store",
    views=True,
)
def neighbourhood(store: StoreOption, position: AnyPositionOptions, around: AroundOptions) -> Neighbourhood:
    """List the well-visited positions below a position, or of a book, each once with all its ways in.

    Without POSITION: from the roots of the book, or the root that was searched last. Positions are taken by
    the visits of the least visited move on the way to them, 4 plies deep unless --depth says otherwise, a
    book whole. `graphsearch export -o NAME.svg` draws them.

    JSON: `nodes` with `level` (plies from the root), `place` (where a picture has them) and `white_q`;
    `edges` name their ends by number in `nodes`.
    """
    from graphsearch.query.neighbourhood import neighbourhood

    return neighbourhood(
        store,
        position.board(),
        depth=around.depth,
        min_visits=around.min_visits,
        most=around.lines or ALL_LINES,
        book=around.book,
    )
