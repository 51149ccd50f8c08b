"""`graphsearch show`, `lines`, `tree` and `curve`: what a file holds on a position, and along lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphsearch.position.values import cp_of

from .commands import command
from .options import Depth, Json, Lines, PositionOptions, StoreOption, option
from .output import (
    FAILED,
    console,
    print_answer,
    print_json,
    print_parts,
    print_view,
    say,
    say_if_unfinished,
    speaks_unicode,
)
from .render import (
    APART,
    LEFT,
    WHOLE,
    Part,
    board_text,
    count,
    detail,
    detailed,
    heading,
    is_white,
    line_cells,
    look,
    move_number,
    node_view,
    opening_at,
    opening_line,
    origin_line,
    pawns,
    position_heading,
    score,
    seen_of_white,
    signed,
    steps_table,
    table,
    value_score,
    wdl,
)

if TYPE_CHECKING:
    from rich.tree import Tree as Drawing

    from graphsearch.query.line import LinePoint, LineValues
    from graphsearch.query.position import Position
    from graphsearch.query.pv import Line
    from graphsearch.query.pv import Lines as BestLines
    from graphsearch.query.tree import Branch, Tree


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
    print_parts(_facts_beside(found))


def _facts_beside(found: Position) -> Iterator[str]:
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

KINDS = {"ECO": WHOLE, "Opening": WHOLE, "Line": LEFT}

By = Annotated[
    str,
    option(
        "--by WHAT",
        "visits: follow the best move at every ply, mostly the most visited; value: that of the highest Q.",
    ),
]
MaxMoves = Annotated[int | None, option("--max-moves K", "Follow at most K moves per position.", min=1)]


def _lines(found: BestLines) -> Iterator[Part]:
    yield from opening_line(opening_at(found.position))
    if not found.lines:
        say("note: no move from this position was visited")
    yield f"{count(found.visits, 'visit')}   ({heading()})"
    rows = [_line_cells(found.position, line) for line in found.lines]
    yield table(rows, {"Note": WHOLE, **KINDS}, spare=("Opening", "ECO"))
    for line in found.lines if look.details else ():
        yield ""
        yield steps_table(found.position, line.plies)


def _line_cells(position: str, line: Line) -> dict[str, str]:
    from graphsearch.position.values import wdl_from_q

    first, white = line.plies[0], is_white(position)
    cells = line_cells(position, [ply.san for ply in line.plies])
    return {
        "Score": score(first.cp, first.mate, white=white),
        "W D L": wdl(wdl_from_q(first.q, first.draw), white=white),
        "Visits": f"{first.n:,}",
        "Note": APART if first.apart else "",
        **{name: cells[name] for name in KINDS},
        "Line": f"{cells['Line']} ({ENDS[line.end]})",
    }


@command(
    "Print the best lines and why they end.",
    "graphsearch lines first.graph --lines 3",
    'graphsearch lines first.graph "1. e4 e5" --by value --json',
    name="lines",
    views=True,
)
def lines_of(
    store: StoreOption, position: PositionOptions, lines: Lines = 1, by: By = "visits", json: Json = False
) -> None:
    """Print the best lines, the score and visits of their first move, and why they end; with --details every
    move.

    JSON: values are seen by the side to move at POSITION, all along the line. `end` of a line is unvisited,
    unknown (not in the file), repetition, clock (50-move rule), checkmate, stalemate, dead (insufficient
    material) or length (200 plies); `last` is its last position.
    """
    from graphsearch.position.board import MAX_MOVES
    from graphsearch.query.pv import pv

    found = pv(store, position.board(), lines=lines or MAX_MOVES, by=by)
    print_answer(found, _lines(found), json=json, note=store)


def _tree(found: Tree, store: Path) -> Iterator[Part]:
    yield from position_heading(store, found.root.position)
    yield _drawing(found)
    yield (
        f"{count(found.positions, 'position')}, {count(found.transpositions, 'transposition')};"
        f" depth {found.depth}, moves with {count(found.min_visits, 'visit')} or more"
    )


@command(
    "Draw the well-visited tree below a position.",
    "graphsearch tree first.graph --depth 3 --min-visits 20",
    "graphsearch tree first.graph --depth 4 --max-moves 2 --json",
    views=True,
)
def tree(
    store: StoreOption,
    position: PositionOptions,
    depth: Depth = 3,
    min_visits: Annotated[
        int | None,
        option(
            "--min-visits N",
            "Follow moves with N or more visits; a fiftieth of the position's visits by default.",
            min=1,
        ),
    ] = None,
    max_moves: MaxMoves = None,
    json: Json = False,
) -> None:
    """Draw the well-visited moves below a position as a tree in which every position is expanded once.

    Scores and visits belong to the move. Where lines meet, the position is expanded in the shortest one, and
    the others point to it.

    JSON: `tree` is nested by `branches`; values are seen by the side that plays the move. For a position that
    is expanded elsewhere, `transposes_to` has the moves to that place. `hidden` counts the visited moves that
    are not followed.
    """
    from graphsearch.query.tree import tree

    found = tree(
        store, position.board(), depth=3 if depth is None else depth, min_visits=min_visits, width=max_moves
    )
    print_answer(found, _tree(found, store), json=json, note=store)


def _drawing(found: Tree) -> Drawing:
    from rich.text import Text
    from rich.tree import Tree as Drawing

    root = found.root
    name = _opening(root.position)
    worth = _worth(root, white=is_white(root.position))
    drawing = Drawing(Text("  ".join(filter(None, (worth, name, f"({heading()})")))))
    stack = [(drawing, root, 0)]
    while stack:
        above, branch, level = stack.pop()
        for child in branch.branches:
            stack.append((above.add(Text(_label(child, branch, root.position, level))), child, level + 1))
        if branch.hidden and branch.branches:
            above.add(Text(f"{branch.hidden} more"))
    return drawing


def _worth(branch: Branch, *, white: bool) -> str:
    """Returns score and visits of a move; `white`: whether White plays it."""
    more = detail(f"  Q {signed(branch.q, white=white)}")
    apart = f"  {APART}" if branch.apart else ""
    return f"{score(branch.cp, branch.mate, white=white)}  {branch.n:,}{more}{apart}"


def _opening(position: str, before: str = "") -> str:
    """Returns the code and name of a position's opening; empty if it has none, or the one of `before`."""
    found = opening_at(position)
    return "" if found is None or (before and _opening(before) == str(found)) else str(found)


def _label(branch: Branch, before: Branch, root: str, level: int) -> str:
    white = is_white(root) == (level % 2 == 0)
    first = int(root.split()[5])
    number = first + (level + (not is_white(root))) // 2
    text = f"{move_number(number, white=white)} {branch.san}  {_worth(branch, white=white)}"
    if branch.transposes_to is None:
        return f"{text}  {_opening(branch.position, before.position)}".rstrip()
    arrow = "\u2192" if speaks_unicode() else "->"
    return f"{text}  {arrow} {' '.join(branch.transposes_to) or 'the root'}"


def _values(found: LineValues) -> Iterator[Part]:
    numbers = [(point.number, point.turn == "w") for point in found.points]
    width = 80 if sys.stdout is None or not sys.stdout.isatty() else console(sys.stdout).width
    yield from curve([point.q for point in found.points], numbers, width, unicode=speaks_unicode())
    yield "\nQ on the left, pawns on the right, White's view"
    if found.unknown:
        say(f"note: the file does not hold {count(found.unknown, 'position')} of this line")
    yield f"({heading()})"
    yield table(map(_point_cells, found.points), {"Move": LEFT, "Best": LEFT})


@command(
    "Plot the values along a line or a game.",
    'graphsearch curve first.graph "1. e4 e5 2. Nf3 Nc6"',
    "graphsearch curve first.graph games.pgn --game 2 --json",
    name="curve",
    views=True,
)
def curve_of(store: StoreOption, position: PositionOptions, json: Json = False) -> None:
    """Print the values along a line or a game as a curve and as a table, from White's view.

    The line is the game of a PGN file, or the moves of POSITION. Scores and visits belong to the positions.
    `Loss` is how much worse the move played is than the best one, in pawns, by current values, of which each
    counts as at most ten pawns. Positions that the file does not hold are gaps.

    JSON: `points`, one per position, from White's view; unknown values are null.
    """
    from graphsearch.query.line import values

    found = values(store, position.board())
    print_answer(found, _values(found), json=json, note=store)


def _point_cells(point: LinePoint) -> dict[str, str]:
    white = point.turn == "w"
    number = move_number(point.number, white=white)
    return {
        "Move": f"{number} {point.san}" if point.san else "(end)",
        "Score": "" if point.cp is None else pawns(seen_of_white(point.cp, white=white)),
        "Visits": "not stored" if point.n is None else f"{point.n:,}",
        "Best": point.best_san or "",
        "Loss": "" if point.loss_cp is None else f"{point.loss_cp / 100:.2f}",
        **detailed({"Q": "" if point.q is None else signed(seen_of_white(point.q, white=white))}),
    }


HEIGHT = 11  # rows, the middle one is zero
WIDEST_STEP = 4  # cells between two plies
_SCALES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
_BRAILLE = 0x2800
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))  # by column and row of a cell
LEFT_SCALE, RIGHT_SCALE = 7, 7  # columns of the scales


@dataclass(frozen=True, slots=True)
class Ink:
    """A style of curves: the dots of a cell across and down, and the character of the zero line."""

    across: int
    down: int
    zero: str


UNICODE, ASCII = Ink(2, 4, "\u2500"), Ink(1, 1, "-")


def curve(
    values: Sequence[float | None], numbers: Sequence[tuple[int, bool]], width: int, *, unicode: bool
) -> list[str]:
    """Returns the lines of a plot of Q in [-1, 1], with Q on the left and pawns on the right.

    Args:
      values: by ply; None is a gap.
      numbers: by ply, the move number and whether White is to move.
      width: columns for the plot, at least 30.
      unicode: draw in Braille; else in ASCII.
    """
    ink = UNICODE if unicode else ASCII
    steps = max(1, len(values) - 1)
    cells = max(1, min(max(30, width) - LEFT_SCALE - RIGHT_SCALE, steps * WIDEST_STEP + 1))
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    top = next(scale for scale in _SCALES if scale >= min(1.0, largest))
    canvas = _Canvas(cells, HEIGHT, ink)
    points = [
        None if value is None else (round(ply * (cells * ink.across - 1) / steps), canvas.row(value / top))
        for ply, value in enumerate(values)
    ]
    for before, after in pairwise(points):
        if before and after:
            canvas.line(before, after)
    for point in filter(None, points):
        canvas.dot(*point, mark=True)
    rows = [_labelled(row, text, top) for row, text in enumerate(canvas.rows())]
    return [*rows, _axis(numbers, cells, steps)]


def _labelled(row: int, text: str, top: float) -> str:
    """Returns a row between its scales; zero and every other row are labelled."""
    middle = HEIGHT // 2
    q = top * (middle - row) / middle
    if row not in (0, middle, HEIGHT - 1) and (row - middle) % 2:
        return f"{'':>{LEFT_SCALE}}{text}".rstrip()
    left = "0" if row == middle else f"{q:+.2f}"
    pawns = "0" if row == middle else f"{cp_of(q) / 100:+.1f}"
    return f"{left:>{LEFT_SCALE - 1}} {text} {pawns:>{RIGHT_SCALE - 2}}"


def _axis(numbers: Sequence[tuple[int, bool]], cells: int, steps: int) -> str:
    """Returns the line of move numbers, as many as fit, each under White's move."""
    line = [" "] * (cells + LEFT_SCALE)
    free = 0
    for ply, (number, white) in enumerate(numbers):
        place, text = round(ply * (cells - 1) / steps), str(number)
        if white and place >= free and place + len(text) <= cells:
            line[LEFT_SCALE + place : LEFT_SCALE + place + len(text)] = text
            free = place + len(text) + 2
    return "".join(line).rstrip()


class _Canvas:
    """A grid of cells with dots in them."""

    def __init__(self, width: int, height: int, ink: Ink) -> None:
        self._width, self._height, self._ink = width, height, ink
        self._cells = [[0] * width for _ in range(height)]

    def row(self, share: float) -> int:
        """Returns the row of dots of a value in [-1, 1]; 1 is at the top, 0 in the centre of the plot."""
        rows = self._height * self._ink.down
        half = (self._height // 2) * self._ink.down
        return min(rows - 1, max(0, round((rows - 1) / 2 - share * half)))

    def dot(self, x: int, y: int, *, mark: bool = False) -> None:
        """Sets a dot; a mark is a point of the curve, which ASCII draws differently."""
        column, row = x // self._ink.across, y // self._ink.down
        if self._ink.across == 1:
            self._cells[row][column] = max(self._cells[row][column], 2 if mark else 1)
        else:
            self._cells[row][column] |= _DOTS[x % 2][y % 4]

    def line(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        """Sets the dots between two points."""
        steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
        for k in range(steps + 1):
            x = start[0] + (end[0] - start[0]) * k / steps
            y = start[1] + (end[1] - start[1]) * k / steps
            self.dot(round(x), round(y))

    def rows(self) -> Iterator[str]:
        """Yields the rows as text, the zero line where nothing is drawn."""
        for number, row in enumerate(self._cells):
            empty = self._ink.zero if number == self._height // 2 else " "
            yield "".join(self._text(cell, empty) for cell in row)

    def _text(self, cell: int, empty: str) -> str:
        if not cell:
            return empty
        return " .*"[cell] if self._ink.across == 1 else chr(_BRAILLE | cell)
