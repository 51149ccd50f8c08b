"""`graphsearch query pv`, `tree` and `line`: lines from a position, and values along a game."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command
from .options import Json, PositionOptions, StoreOption
from .output import print_json, print_part, say, say_if_unfinished, speaks_unicode
from .render import count, cp_text, move_number, signed, steps_table
from .tables import LEFT, RIGHT, table

if TYPE_CHECKING:
    from rich.tree import Tree as Drawing

    from graphsearch.query.line import LinePoint, LineValues
    from graphsearch.query.pv import Line
    from graphsearch.query.tree import Branch, Tree

ENDS = {
    "unvisited": "no further move was visited",
    "unknown": "the file does not hold that position",
    "repetition": "that position occurred before",
    "clock": "draw by the 50-move rule",
    "checkmate": "checkmate",
    "stalemate": "stalemate",
    "dead": "draw by insufficient material",
    "length": "200 plies",
}

Lines = Annotated[int, typer.Option("--lines", metavar="K", min=1, help="Lines to print.")]
By = Annotated[
    str,
    typer.Option(
        "--by",
        metavar="WHAT",
        help="visits: follow the most visited move at every ply; value: the move with the highest Q.",
    ),
]
Depth = Annotated[int, typer.Option("--depth", metavar="D", min=1, help="Depth in plies.")]
MinVisits = Annotated[
    int | None,
    typer.Option(
        "--min-visits",
        metavar="N",
        min=1,
        help="Follow moves with N or more visits; a fiftieth of the position's visits by default.",
    ),
]
Width = Annotated[
    int | None, typer.Option("--width", metavar="K", min=1, help="Follow at most K moves per position.")
]


@command(
    "Print the best lines and why they end.",
    "graphsearch query pv startpos --lines 3 --store first.graph",
    'graphsearch query pv startpos --moves "e4 e5" --by value --store first.graph --json',
)
def pv(
    store: StoreOption,
    position: PositionOptions,
    lines: Lines = 1,
    by: By = "visits",
    json: Json = False,
) -> None:
    """Print the best lines, N and Q of each of their moves, and why they end.

    Q is seen by the side to move at POSITION, all along the line.

    JSON: `end` of a line is unvisited, unknown (not in the file), repetition, clock (50-move rule),
    checkmate, stalemate, dead (insufficient material) or length (200 plies); `last` is its last position.
    """
    from graphsearch.query.pv import pv as ask

    board = position.board()
    found = ask(store, board, lines=lines, by=by)
    say_if_unfinished(store)
    if json:
        print_json(found.as_dict())
        return
    side = "White" if board.turn else "Black"
    print(f"{found.position}\nN {found.visits:,}   Q as {side} sees it")
    if not found.lines:
        say("note: no move from this position was visited")
    for line in found.lines:
        print()
        _print_line(found.position, line)


def _print_line(position: str, line: Line) -> None:
    print_part(steps_table(position, line.plies))
    print(f"ends after {count(len(line.plies), 'move')}: {ENDS[line.end]}")


@command(
    "Draw the well-visited tree below a position.",
    "graphsearch query tree startpos --depth 3 --min-visits 20 --store first.graph",
    "graphsearch query tree startpos --depth 4 --width 2 --store first.graph --json",
)
def tree(
    store: StoreOption,
    position: PositionOptions,
    depth: Depth = 3,
    min_visits: MinVisits = None,
    width: Width = None,
    json: Json = False,
) -> None:
    """Draw the well-visited moves below a position as a tree in which every position is expanded once.

    N and Q belong to the move; Q is seen by the side that plays it. Where lines meet, the position is
    expanded in the shortest one, and the others point to it.

    JSON: `tree` is nested by `branches`. For a position that is expanded elsewhere, `transposes_to` has the
    moves to that place. `hidden` counts the visited moves that are not followed.
    """
    from graphsearch.query.tree import tree as ask

    board = position.board()
    found = ask(store, board, depth=depth, min_visits=min_visits, width=width)
    say_if_unfinished(store)
    if json:
        print_json(found.as_dict())
        return
    print(found.root.position)
    print_part(_drawing(found))
    print(
        f"{count(found.positions, 'position')}, {count(found.transpositions, 'transposition')};"
        f" depth {found.depth}, moves with N {found.min_visits:,} or more"
    )


def _drawing(found: Tree) -> Drawing:
    from rich.text import Text
    from rich.tree import Tree as Drawing

    root = found.root
    drawing = Drawing(Text(f"N {root.n:,}  Q {signed(root.q)}"))
    stack = [(drawing, root, 0)]
    while stack:
        above, branch, level = stack.pop()
        for child in branch.branches:
            stack.append((above.add(Text(_label(child, root.position, level))), child, level + 1))
        if branch.hidden and branch.branches:
            above.add(Text(f"{branch.hidden} more"))
    return drawing


def _label(branch: Branch, root: str, level: int) -> str:
    white = (" w " in root) == (level % 2 == 0)
    first = int(root.split()[5])
    number = first + (level + (" b " in root)) // 2
    text = f"{move_number(number, white=white)} {branch.san}  N {branch.n:,}  Q {signed(branch.q)}"
    if branch.transposes_to is None:
        return text
    arrow = "\u2192" if speaks_unicode() else "->"
    return f"{text}  {arrow} {' '.join(branch.transposes_to) or 'the root'}"


@command(
    "Plot the values along a line or a game.",
    'graphsearch query line startpos --moves "e4 e5 Nf3 Nc6" --store first.graph',
    "graphsearch query line games.pgn --game 2 --store first.graph --json",
    scores=True,
)
def line(
    store: StoreOption,
    position: PositionOptions,
    json: Json = False,
) -> None:
    """Print the values along a line or a game as a curve and as a table, from White's view.

    The line is the game of a PGN file, or the moves of --moves. Q and N belong to the positions. `Loss` is
    how much worse the move played is than the best one, in centipawns, by current values. Positions that the
    file does not hold are gaps.

    JSON: `points`, one per position; unknown values are null.
    """
    from graphsearch.query.line import values as ask

    found = ask(store, position.board())
    say_if_unfinished(store)
    if json:
        print_json(found.as_dict())
        return
    _print_values(found)


def _print_values(found: LineValues) -> None:
    from .query_curve import curve

    numbers = [(point.number, point.turn == "w") for point in found.points]
    for text in curve([point.q for point in found.points], numbers, _width(), unicode=speaks_unicode()):
        print(text)
    print("\nQ on the left, pawns on the right, from White's view")
    if found.unknown:
        say(f"note: the file does not hold {count(found.unknown, 'position')} of this line")
    columns = {"Ply": RIGHT, "Move": LEFT, "N": RIGHT, "Q": RIGHT, "cp": RIGHT, "Best": LEFT, "Loss": RIGHT}
    print_part(table(columns, map(_point_cells, found.points)))


def _width() -> int:
    if sys.stdout is None or not sys.stdout.isatty():
        return 80
    from .output import console

    return console(sys.stdout).width


def _point_cells(point: LinePoint) -> list[str]:
    number = move_number(point.number, white=point.turn == "w")
    return [
        str(point.ply),
        f"{number} {point.san}" if point.san else "(end)",
        "not stored" if point.n is None else f"{point.n:,}",
        signed(point.q),
        cp_text(point.cp),
        point.best_san or "",
        "" if point.loss_cp is None else str(point.loss_cp),
    ]
