"""`graphsearch lab path`, `parents` and `transpositions`: the ways to positions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path as File
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command, report
from .options import (
    ALL_LINES,
    AnyPositionOptions,
    Json,
    Lines,
    PositionOptions,
    Ram,
    StoreOption,
    byte_count,
    option,
)
from .output import FAILED, print_json, print_parts, say, say_if_unfinished
from .progress import progress_bar
from .render import WAY, WAY_LEAST, count, numbered, steps_table, way_cells
from .scores import detailed, heading, is_white, score, signed
from .tables import WHOLE, Part, table

if TYPE_CHECKING:
    from graphsearch.query.parents import Parent, Parents
    from graphsearch.query.path import Path, Route
    from graphsearch.query.transpositions import Transposition, Transpositions

From = Annotated[
    str | None,
    option(
        "--from ROOT", "Where lines start: startpos, chess960:N or a FEN; any root of the file by default."
    ),
]
Nodes = Annotated[int, option("--nodes N", "Read at most N positions.", min=1)]
All = Annotated[
    bool, option("--all", "Count the edges of the whole file; takes 20 bytes of memory per position.")
]


@command(
    "Print how a position is reached.",
    'graphsearch lab path startpos --moves "Nf3 e5 e4" --store first.graph',
    'graphsearch lab path startpos --moves "e4 e5" --from startpos --store first.graph --json',
    views=True,
)
def path(
    store: StoreOption,
    position: PositionOptions,
    root: From = None,
    nodes: Nodes = 2000,
    json: Json = False,
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
    if json:
        print_json(found.as_dict())
    else:
        print_parts(_paths(found))
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
    rows = [
        way_cells(lines.get(parent.position), parent.position)
        | {
            "Move": parent.san,
            "Score": score(parent.cp, None, white=is_white(parent.position)),
            "Visits": f"{parent.n:,}",
            **detailed(
                {"P": f"{100 * parent.p:.1f}%", "Q": signed(parent.q, white=is_white(parent.position))}
            ),
            "Of": f"{parent.visits:,}",
        }
        for parent in found.parents
    ]
    yield table(rows, WAY | {"Move": WHOLE}, least=WAY_LEAST)


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


def _details(parent: Parent) -> dict[str, str]:
    white = is_white(parent.position)
    return detailed({"P": f"{100 * parent.p:.1f}%", "Q": signed(parent.q, white=white)})


def _way(row: Transposition) -> dict[str, str]:
    """Returns the first columns of a row."""
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
    yield table(rows, WAY, least=WAY_LEAST)


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
    everything: All = False,
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
