"""`graphsearch lab path`, `parents`, `transpositions` and `neighbourhood`: the ways to positions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path as File
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command, report
from .options import (
    ALL_LINES,
    AnyPositionOptions,
    Depth,
    Json,
    Lines,
    OfBook,
    PositionOptions,
    Ram,
    StoreOption,
    byte_count,
    option,
)
from .output import FAILED, print_answer, say, say_if_unfinished
from .progress import progress_bar
from .render import WAY, WAY_SPARE, count, numbered, steps_table, way_cells
from .scores import detailed, heading, is_white, score, signed
from .tables import LEFT, WHOLE, Part, table

if TYPE_CHECKING:
    from graphsearch.query.neighbourhood import Neighbourhood
    from graphsearch.query.parents import Parents
    from graphsearch.query.path import Path, Route
    from graphsearch.query.transpositions import Transposition, Transpositions

From = Annotated[
    str | None,
    option(
        "--from ROOT", "Where lines start: startpos, chess960:N or a FEN; any root of the file by default."
    ),
]
Nodes = Annotated[int, option("--nodes N", "Read at most N positions.", min=1)]


@command(
    "Print how a position is reached.",
    'graphsearch lab path startpos --moves "Nf3 e5 e4" --store first.graph',
    'graphsearch lab path startpos --moves "e4 e5" --from startpos --store first.graph --json',
    views=True,
)
def path(
    store: StoreOption, position: PositionOptions, root: From = None, nodes: Nodes = 2000, json: Json = False
) -> None:
    """Print how a position is reached by visited moves: the shortest line and the most visited one.

    The most visited line is the one whose least visited move has the most visits (edge N), among lines at
    most 2 plies longer than the shortest. Exit code 1 if no line is found.

    JSON: `complete` is false if the limit was reached; then other lines may exist. `least_n` is the smallest
    edge N of a line.
    """
    from graphsearch.position.notation import read_position
    from graphsearch.query.path import path as ask

    board = position.board()
    start = None if root is None else read_position(root).board
    found = ask(store, board, start, limit=nodes)
    say_if_unfinished(store)
    if not found.complete:
        say(f"note: the limit of {count(nodes, 'position')} was reached; raise it with --nodes")
    print_answer(found, _paths(found), json=json)
    if found.shortest is None:
        say(f"graphsearch: no line of visited moves to this position was found: {found.position}")
        raise typer.Exit(FAILED)


def _paths(found: Path) -> Iterator[Part]:
    if found.shortest and found.most_visited:
        same = found.shortest == found.most_visited
        yield from _route("Shortest and most visited" if same else "Shortest", found.shortest)
        if not same:
            yield ""
            yield from _route("Most visited", found.most_visited)


def _route(title: str, route: Route) -> Iterator[Part]:
    least = "" if route.least_n is None else f", {route.least_n:,} visits of the least visited move"
    yield f"{title}: {count(len(route.steps), 'move')} from {route.root}{least}"
    yield numbered(route.root, [step.san for step in route.steps])
    yield steps_table(route.root, route.steps)


def _parents(found: Parents, store: File) -> Iterator[Part]:
    yield found.position
    from graphsearch.query.routes import routes

    known = "not stored" if found.visits is None else count(found.visits, "visit")
    ways = f"{count(len(found.parents), 'parent')} stored, {count(found.ways, 'visited way')} in"
    yield f"{known}   {ways}   ({heading()})"
    lines = routes(store, [parent.position for parent in found.parents])
    rows = []
    for parent in found.parents:
        white = is_white(parent.position)
        cells = {
            "Move": parent.san,
            "Score": score(parent.cp, None, white=white),
            "Visits": f"{parent.n:,}",
            **detailed({"P": f"{100 * parent.p:.1f}%", "Q": signed(parent.q, white=white)}),
            "Of": f"{parent.visits:,}",
        }
        rows.append(way_cells(lines.get(parent.position), parent.position) | cells)
    yield table(rows, WAY | {"Move": WHOLE}, spare=WAY_SPARE)


@report(
    "List the positions that lead to a position.",
    'graphsearch lab parents startpos --moves "e4 e5 Nf3" --store first.graph',
    view=_parents,
    noted="store",
    views=True,
)
def parents(store: StoreOption, position: PositionOptions) -> Parents:
    """List the stored positions that have a move to a position, visited or not.

    They are found by taking moves back, so the position itself need not be stored. Score and Visits belong to
    the move, Of is the visits of the parent.

    JSON: `ways` counts the visited moves, `candidates` the positions that were considered.
    """
    from graphsearch.query.parents import parents

    return parents(store, position.board())


def _way(row: Transposition) -> dict[str, str]:
    import chess

    from graphsearch.position.openings import opening_after
    from graphsearch.query.routes import Way

    if row.line is None or row.root is None:
        return {"Line": row.position}
    start = None if row.root == chess.STARTING_FEN else row.root
    return way_cells(Way(start, row.line, opening_after(row.root, row.line)), row.position)


def _transpositions(found: Transpositions) -> Iterator[Part]:
    looked = f"{found.looked_at:,} of {count(found.total, 'position')} examined"
    shared = f"{count(found.shared, 'position')} with several ways in"
    yield f"{looked}: {count(found.edges, 'visited edge')}, {shared}"
    rows = [
        {
            **_way(row),
            "Ways": f"{row.ways:,}",
            "Visits in": "" if row.n is None else f"{row.n:,}",
            "Visits": "" if row.visits is None else f"{row.visits:,}",
            **detailed({"Q": signed(row.q, white=is_white(row.position))}),
        }
        for row in found.positions
    ]
    yield table(rows, WAY, spare=WAY_SPARE)


@report(
    "List the positions that are reached in most ways.",
    "graphsearch lab transpositions --store first.graph",
    "graphsearch lab transpositions startpos --lines 5 --store first.graph",
    "graphsearch lab transpositions --all --store first.graph --json",
    view=_transpositions,
    noted="store",
    views=True,
)
def transpositions(
    store: StoreOption,
    position: AnyPositionOptions,
    lines: Lines = 20,
    nodes: Nodes = 200,
    everything: Annotated[
        bool, option("--all", "Count the edges of the whole file; takes 20 bytes of memory per position.")
    ] = False,
    ram: Ram = None,
) -> Transpositions:
    """List the positions that are reached in most ways: by visited moves from different positions.

    Without --all, the most visited positions below POSITION, or below the file's roots, are examined, and the
    ways from there are counted; `Visits in` is the sum of the visits of these moves. With --all, every
    position of the file is counted, in one pass over it with all cores. That takes 40 bytes a node in the
    temporary folder (TMPDIR), and 20 bytes a node of memory; within a smaller --ram, part after part is
    counted.

    JSON: `looked_at` positions of `total` were examined, with `edges` visited edges; `shared` positions have
    several ways in.
    """
    from graphsearch.query.transpositions import transpositions

    if everything:
        if position.given:
            raise typer.BadParameter("--all counts the whole file; leave POSITION out")
        from graphsearch.query.ways import count_all

        limit = None if ram is None else byte_count(ram)
        with progress_bar("Counting edges") as advance:
            return count_all(store, top=lines or ALL_LINES, ram_bytes=limit, on_progress=advance)
    return transpositions(store, position.board(), top=lines or ALL_LINES, look=nodes)


def _neighbourhood(found: Neighbourhood) -> Iterator[Part]:
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
    view=_neighbourhood,
    noted="store",
    views=True,
)
def neighbourhood(
    store: StoreOption,
    position: AnyPositionOptions,
    book: OfBook = None,
    depth: Depth = None,
    min_visits: Annotated[
        int | None, option("--min-visits N", "Follow only moves with N or more visits.", min=0)
    ] = None,
    lines: Lines = 60,
) -> Neighbourhood:
    """List the well-visited positions below a position, or of a book, each once with all its ways in.

    Without POSITION: from the roots of the book, or the root that was searched last. Positions are taken by
    the visits of the least visited move on the way to them, 4 plies deep unless --depth says otherwise, a
    book whole.

    JSON: `nodes` with `level` (plies from the root), `place` (where a picture has them) and `white_q`;
    `edges` name their ends by number in `nodes`.
    """
    from graphsearch.query.neighbourhood import neighbourhood

    board, most = position.board(), lines or ALL_LINES
    return neighbourhood(store, board, depth=depth, min_visits=min_visits, most=most, book=book)
