"""`graphsearch query path`, `parents` and `transpositions`: the ways to positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command
from .options import Json, LineOptions, PositionOptions, Ram, StoreOption, byte_count
from .output import FAILED, print_json, print_part, say, say_if_unfinished
from .progress import progress_bar
from .render import count, signed, steps_table
from .tables import LEFT, RIGHT, table

if TYPE_CHECKING:
    from pathlib import Path

    from graphsearch.query.path import Route
    from graphsearch.query.transpositions import Transpositions

From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="ROOT",
        help="Where lines start: startpos, chess960:N or a FEN; any root of the file by default.",
    ),
]
Limit = Annotated[
    int,
    typer.Option("--limit", metavar="N", min=1, help="Read at most N positions for each of the two lines."),
]
Top = Annotated[int, typer.Option("--top", metavar="K", min=1, help="Positions to list.")]
Look = Annotated[
    int, typer.Option("--look", metavar="N", min=1, help="Examine the N most visited positions.")
]
All = Annotated[
    bool,
    typer.Option("--all", help="Count the edges of the whole file; takes 20 bytes of memory per position."),
]
SomePosition = Annotated[
    str | None,
    typer.Argument(
        metavar="POSITION",
        help="Where to start: startpos, chess960:N, a FEN in quotes, or a PGN file; the file's roots by "
        "default.",
        show_default=False,
    ),
]


@command(
    "Print how a position is reached.",
    'graphsearch query path startpos --moves "Nf3 e5 e4" --store first.graph',
    'graphsearch query path startpos --moves "e4 e5" --from startpos --store first.graph --json',
)
def path(
    store: StoreOption,
    position: PositionOptions,
    root: From = None,
    limit: Limit = 2000,
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
    found = ask(store, board, start, limit=limit)
    say_if_unfinished(store)
    if not found.complete:
        say(f"note: the limit of {count(limit, 'position')} was reached; raise it with --limit")
    if json:
        print_json(found.as_dict())
    elif found.shortest and found.most_visited:
        same = found.shortest == found.most_visited
        _print_route("Shortest and most visited" if same else "Shortest", found.shortest)
        if not same:
            print()
            _print_route("Most visited", found.most_visited)
    if found.shortest is None:
        say(f"graphsearch: no line of visited moves to this position was found: {found.position}")
        raise typer.Exit(FAILED)


def _print_route(title: str, route: Route) -> None:
    least = "" if route.least_n is None else f", least visited move N {route.least_n:,}"
    print(f"{title}: {count(len(route.steps), 'move')} from {route.root}{least}")
    if route.steps:
        print_part(steps_table(route.root, route.steps))


@command(
    "List the positions that lead to a position.",
    'graphsearch query parents startpos --moves "e4 e5 Nf3" --store first.graph',
)
def parents(
    store: StoreOption,
    position: PositionOptions,
    json: Json = False,
) -> None:
    """List the stored positions that have a move to a position, visited or not.

    They are found by taking moves back, so the position itself need not be stored. N and Q belong to the
    move, `Node N` to the parent.

    JSON: `ways` counts the visited moves, `candidates` the positions that were considered.
    """
    from graphsearch.query.parents import parents as ask

    found = ask(store, position.board())
    say_if_unfinished(store)
    if json:
        print_json(found.as_dict())
        return
    print(found.position)
    known = "not stored" if found.visits is None else f"N {found.visits:,}"
    print(f"{known}   {count(len(found.parents), 'parent')} stored, {count(found.ways, 'visited way')} in")
    if found.parents:
        columns = {"Move": LEFT, "N": RIGHT, "P": RIGHT, "Q": RIGHT, "Node N": RIGHT, "Position": LEFT}
        rows = [
            [
                parent.san,
                f"{parent.n:,}",
                f"{100 * parent.p:.1f}%",
                signed(parent.q),
                f"{parent.visits:,}",
                parent.position,
            ]
            for parent in found.parents
        ]
        print_part(table(columns, rows))


@command(
    "List the positions that are reached in most ways.",
    "graphsearch query transpositions --store first.graph",
    "graphsearch query transpositions startpos --top 5 --store first.graph",
    "graphsearch query transpositions --all --store first.graph --json",
)
def transpositions(
    store: StoreOption,
    line: LineOptions,
    position: SomePosition = None,
    top: Top = 20,
    look: Look = 200,
    everything: All = False,
    ram: Ram = None,
    json: Json = False,
) -> None:
    """List the positions that are reached in most ways: by visited moves from different positions.

    Without --all, the most visited positions below POSITION, or below the file's roots, are examined, and the
    ways from there are counted; N is the sum of the visits of these moves. With --all, every position of the
    file is counted, in one pass over it with all cores. That takes 40 bytes a node in the temporary folder
    (TMPDIR), and 20 bytes a node of memory; within a smaller --ram, part after part is counted.

    JSON: `looked_at` positions of `total` were examined, with `edges` visited edges; `shared` positions have
    several ways in.
    """
    from graphsearch.query.transpositions import transpositions as ask

    if everything:
        if position is not None:
            raise typer.BadParameter("--all counts the whole file; leave POSITION out")
        found = _count_all(store, top, ram)
    else:
        if position is None and line.given:
            raise typer.BadParameter("--moves, --game and --ply need a POSITION")
        board = None if position is None else line.board_after(position)
        found = ask(store, board, top=top, look=look)
    say_if_unfinished(store)
    if json:
        print_json(found.as_dict())
        return
    _print_transpositions(found)


def _count_all(store: Path, top: int, ram: str | None) -> Transpositions:
    from graphsearch.query.ways import count_all

    limit = None if ram is None else byte_count(ram)
    with progress_bar("Counting edges") as advance:
        return count_all(store, top=top, ram_bytes=limit, on_progress=advance)


def _print_transpositions(found: Transpositions) -> None:
    looked = f"{found.looked_at:,} of {count(found.total, 'position')} examined"
    shared = f"{count(found.shared, 'position')} with several ways in"
    print(f"{looked}: {count(found.edges, 'visited edge')}, {shared}")
    if not found.positions:
        return
    lines = any(row.line for row in found.positions)
    columns = {"Ways": RIGHT, "N in": RIGHT} if lines else {"Ways": RIGHT}
    columns |= {"Node N": RIGHT, "Q": RIGHT}
    columns |= {"Line": LEFT} if lines else {}
    columns |= {"Position": LEFT}
    rows = [
        {
            "Ways": f"{row.ways:,}",
            "N in": "" if row.n is None else f"{row.n:,}",
            "Node N": "" if row.visits is None else f"{row.visits:,}",
            "Q": signed(row.q),
            "Line": " ".join(row.line or ()),
            "Position": row.position,
        }
        for row in found.positions
    ]
    print_part(table(columns, rows))
