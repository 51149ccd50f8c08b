"""Values, tables and nodes as text: pawns from White's view, or from the mover's with `--view mover`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from graphsearch.base.errors import InvalidParameterError

if TYPE_CHECKING:
    import chess
    from rich.console import RenderableType
    from rich.table import Table

    from graphsearch.graph.view import MoveView, NodeView, Origin
    from graphsearch.position.openings import Opening
    from graphsearch.position.values import WDL
    from graphsearch.query.pv import LinePly
    from graphsearch.query.routes import Way


VIEWS = WHITE, MOVER = "white", "mover"


@dataclass(slots=True)
class Look:
    """The display of values in this process: the view, and whether with all counters (`--details`)."""

    view: str = WHITE
    details: bool = False


look = Look()


@contextmanager
def looking(view: str | None, *, details: bool) -> Iterator[None]:
    """Shows values in a view inside the block; None changes nothing.

    Raises:
      InvalidParameterError: if it is none of `VIEWS`.
    """
    if view not in (None, *VIEWS):
        raise InvalidParameterError(f"--view is {' or '.join(VIEWS)}, not {view!r}")
    before = look.view, look.details
    look.view, look.details = view or look.view, details or look.details
    try:
        yield
    finally:
        look.view, look.details = before


def heading() -> str:
    """Returns the name of the shown view."""
    return "White's view" if look.view == WHITE else "the mover's view"


def seen(value: float, *, white: bool) -> float:
    """Returns a value of the side to move, White or not, in the shown view.

    >>> seen(0.25, white=True), seen(0.25, white=False), seen(0.0, white=False)
    (0.25, -0.25, 0.0)
    """
    return value if white or look.view == MOVER else 0.0 - value


def seen_of_white(value: float, *, white: bool) -> float:
    """Returns a value, given from White's view, in the shown view; `white`: whether White is to move."""
    return seen(value if white else 0.0 - value, white=white)


def pawns(cp: float | None) -> str:
    """Returns centipawns as pawns; zero has no sign, and None is empty.

    >>> pawns(25), pawns(-130), pawns(0), pawns(None)
    ('+0.25', '-1.30', '0.00', '')
    """
    return "" if cp is None else f"{cp / 100:+.2f}" if cp else "0.00"


def score(cp: int | None, mate: int | None, *, white: bool) -> str:
    """Returns the score of the side to move, White or not, in the shown view: `+0.31`, `#5`, `#-3`.

    >>> score(31, None, white=False), score(12800, 5, white=False), score(None, None, white=True)
    ('-0.31', '#-5', '')
    """
    if mate is not None:
        return f"#{seen(mate, white=white):.0f}"
    return "" if cp is None else pawns(seen(cp, white=white))


def value_score(value: float | None, position: str) -> str:
    """Returns a value of a book for the side to move of a position as a score; empty for None."""
    from graphsearch.position.values import cp_of

    return "" if value is None else score(cp_of(value), None, white=is_white(position))


def wdl(shares: WDL | None, *, white: bool) -> str:
    """Returns win, draw and loss in per cent: `45 32 23`; those of White in White's view."""
    if shares is None:
        return ""
    from graphsearch.position.values import rounded_shares

    parts = rounded_shares(shares, 100)
    return " ".join(f"{part:2}" for part in (parts if white or look.view == MOVER else parts[::-1]))


def signed(q: float | None, *, white: bool = True) -> str:
    """Returns a Q of the side to move with its sign and three decimals, in the shown view.

    >>> signed(0.25), signed(0.25, white=False), signed(-0.0001), signed(None)
    ('+0.250', '-0.250', '0.000', '')
    """
    if q is None:
        return ""
    text = f"{seen(q, white=white):+.3f}"
    return "0.000" if float(text) == 0 else text


def is_white(position: str) -> bool:
    """Returns whether White is to move in a FEN."""
    return position.split(" ", 2)[1] == "w"


def detail(text: str) -> str:
    """Returns a text with `--details`, else an empty one."""
    return text if look.details else ""


def detailed(cells: dict[str, str]) -> dict[str, str]:
    """Returns the cells with `--details`, else none."""
    return cells if look.details else {}


SEEN_FIRST = 100  # rows that set the column widths of a stream
SEEN_BYTES = 1 << 20  # of text in them; beyond it, fewer rows set the widths
WIDEST = 100  # characters of a column but the last
WIDEST_WHOLE = 60  # of text on one line, such as a name, so that a pipe's width has room for the rest
LONG, SHORT, TIGHT = 56, 30, 8  # characters of a line for which spare text, spare numbers and others go
NAME_ROOM = 20  # characters of a name for which they go
GAP = 3  # characters between two columns
# kinds of columns: text that folds, text on one line, text that takes the width left over, numbers; a name
# takes the width left over on a terminal, and is text on one line elsewhere
LEFT, WHOLE, FILL, RIGHT, NAME = "left", "whole", "fill", "right", "name"
Row = Mapping[str, str]
Part: TypeAlias = "str | Cells | RenderableType"  # of a command's output for a person


@dataclass(frozen=True, slots=True)
class Cells:
    """A table not drawn yet; see `table`."""

    rows: list[Row]
    kinds: Mapping[str, str]
    spare: Sequence[str]
    title: str | None

    def drawn(self, width: int | None) -> Table:
        """Returns the table for a terminal of `width` columns; None for as wide as needed."""
        from rich import box
        from rich.table import Table

        names = self._names() if width is None else self._fitting(width)
        drawn = Table(
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            show_edge=False,
            expand=width is not None and any(self.kinds.get(name) in (FILL, NAME) for name in names),
            title=self.title,
            title_justify="left",
            title_style="bold",
        )
        for name in names:
            kind = self.kinds.get(name, RIGHT)
            if kind == NAME:
                kind = FILL if width else WHOLE
            drawn.add_column(
                name,
                justify="right" if kind == RIGHT else "left",
                no_wrap=kind != LEFT,
                overflow="fold" if kind == LEFT else "ellipsis",
                ratio=1 if kind == FILL else None,
                min_width=TIGHT if width and kind == FILL else None,
                max_width=WIDEST_WHOLE if kind == WHOLE else None,
            )
        for row in self.rows:
            drawn.add_row(*(row.get(name, "") for name in names))
        return drawn

    def _names(self) -> list[str]:
        """Returns the columns with content in some row, in order."""
        names = dict.fromkeys(name for row in self.rows for name in row)
        return [name for name in names if any(row.get(name) for row in self.rows)]

    def _fitting(self, width: int) -> list[str]:
        """Returns the columns for a width: without those of `spare`, then without the last, until all fit."""
        from rich.cells import cell_len

        names = self._names()
        widest = {
            name: max(cell_len(row.get(name, "")) for row in (*self.rows, {name: name})) for name in names
        }

        def fit(room: int) -> bool:
            most = {LEFT: room, FILL: room, NAME: min(room, NAME_ROOM)}
            widths = (min(widest[one], most.get(self.kinds.get(one, RIGHT), WIDEST_WHOLE)) for one in names)
            return sum(widths) + GAP * (len(names) - 1) <= width

        for name in self.spare:
            if not fit(SHORT if self.kinds.get(name, RIGHT) == RIGHT else LONG):
                names = [one for one in names if one != name]
        while len(names) > 1 and not fit(TIGHT):
            names.pop()
        return names


def table(
    rows: Iterable[Row],
    kinds: Mapping[str, str] | None = None,
    *,
    spare: Sequence[str] = (),
    title: str | None = None,
) -> Cells:
    """Returns a table without its empty columns.

    Args:
      rows: cells by column.
      kinds: of columns that hold no numbers.
      spare: columns that a narrow terminal leaves out, the least important first; then it leaves out the last
        ones, never the first. A pipe shows all.
      title: text above the table.
    """
    return Cells(list(rows), kinds or {}, spare, title)


def streamed(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yields the lines of a table while its rows arrive; the first hundred set the column widths."""
    iterator = iter(rows)
    first = _seen_first(iterator)
    cells = [[_cell(value) for value in row] for row in first]
    widths = [min(WIDEST, max([len(name), *(len(row[i]) for row in cells)])) for i, name in enumerate(names)]
    numeric = [
        bool(first) and all(row[i] is None or isinstance(row[i], int | float) for row in first)
        for i in range(len(names))
    ]
    yield _line(names, widths, numeric)
    yield "  ".join("-" * width for width in widths)
    for row in cells:
        yield _line(row, widths, numeric)
    for values in iterator:
        yield _line([_cell(value) for value in values], widths, numeric)


def _seen_first(rows: Iterator[Sequence[Any]]) -> list[Sequence[Any]]:
    """Returns the rows that set the column widths: a hundred, or fewer long ones."""
    first: list[Sequence[Any]] = []
    size = 0
    while len(first) < SEEN_FIRST and size < SEEN_BYTES:
        row = next(rows, None)
        if row is None:
            break
        size += sum(len(value) for value in row if isinstance(value, str | bytes))
        first.append(row)
    return first


def _line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    parts = [
        cell.rjust(width) if number else cell.ljust(width)
        for cell, width, number in zip(cells, widths, numeric, strict=True)
    ]
    return "  ".join(parts).rstrip()


def _cell(value: Any) -> str:
    """Returns a value of SQLite as text of one line."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    return "".join(c if c.isprintable() else " " for c in text)


MAX_PV = 12  # plies of a line that a table shows; JSON has them all
APART = "searched apart"  # its numbers are those of the position after it
RESULTS = {1: "win", 0: "draw", -1: "loss"}
BY_CLOCK = "draw by the 75-move rule"
TERMINAL_NAMES = {1: "checkmate", 2: "stalemate", 3: "draw by insufficient material"}


def moves_table(node: NodeView, multipv: int, width: int | None) -> Table:
    """Returns the best `multipv` moves of a node (0 for all) as a table, best first.

    `width` is the terminal's: the lines fill it and never exceed it; None for as wide as needed.
    """
    from graphsearch.position.board import board_of

    board = board_of(node.position)
    rows = [_cells(board, move) for move in node.moves[: multipv or None]]
    kinds = {"Move": WHOLE, "Note": WHOLE, "Line": FILL}
    return table(rows, kinds, spare=("Q", "P", "W D L")).drawn(width)


def steps_table(position: str, steps: Iterable[LinePly]) -> Cells:
    """Returns the moves of a line from a position with their visits, and with `--details` Q."""
    from graphsearch.position.board import board_of

    board = board_of(position)
    rows = []
    for step in steps:
        number = move_number(board.fullmove_number, white=board.turn)
        more = detailed({"Q": signed(step.q, white=board.turn)})
        rows.append({"Move": f"{number} {step.san}", "Visits": f"{step.n:,}", **more})
        board.push_uci(step.move)
    return table(rows, {"Move": LEFT})


def move_number(number: int, *, white: bool) -> str:
    """Returns the number before a move: `1.` for White, `1...` for Black."""
    return f"{number}{'.' if white else '...'}"


def _cells(board: chess.Board, move: MoveView) -> dict[str, str]:
    white = board.turn
    pv: Sequence[chess.Move] = move.pv if move.pv and move.pv[0] == move.move else (move.move, *move.pv)
    return {
        "Move": move.san,
        "Score": score(move.cp, move.mate, white=white),
        "W D L": wdl(move.wdl, white=white),
        "Visits": f"{move.n:,}",
        **detailed({"P": f"{100 * move.p:.1f}%", "Q": signed(move.q, white=white)}),
        "Note": APART if move.apart else "",
        "Line": line_text(board, pv),
    }


def numbered(start: str | None, sans: Sequence[str]) -> str:
    """Returns moves in SAN with their numbers, from a FEN; None is the start position.

    >>> numbered(None, ["e4", "e5", "Nf3"]), numbered("8/8/8/8/8/k7/8/K7 b - - 0 9", ["Kb3"])
    ('1. e4 e5 2. Nf3', '9... Kb3')
    """
    from graphsearch.position import lines

    return lines.numbered(sans, lines.ply_of(start) if start else 0)


def way_text(way: Way | None, position: str) -> str:
    """Returns the moves to a position; its FEN if none are known."""
    if way is None or not (way.line or way.start is None):
        return position
    start = "" if way.start is None else f"{way.start}: "
    return f"{start}{numbered(way.start, way.line)}" if way.line else "start"


def position_heading(store: Path, position: str) -> Iterator[str]:
    """Yields the line to a position of a file, if one is known, and its FEN."""
    from graphsearch.query.routes import routes

    line = way_text(routes(store, [position]).get(position), position)
    yield from named(line, position)


def named(line: str, position: str) -> Iterator[str]:
    """Yields the line to a position and its FEN, each once; the start position needs no FEN.

    >>> list(named("start", "FEN")), list(named("1. e4", "FEN")), list(named("FEN", "FEN"))
    (['start'], ['1. e4', 'FEN'], ['FEN'])
    """
    yield line
    if line not in ("start", position):
        yield position


def game_text(board: chess.Board) -> str:
    """Returns the line to a position, as it was given: `1. e4 e5`, `start`; its FEN without one."""
    import chess

    from graphsearch.position.lines import sans_of
    from graphsearch.query.routes import Way

    root = board.root()
    start = None if root.fen() == chess.STARTING_FEN else root.fen()
    return way_text(Way(start, sans_of(root, board.move_stack), None), board.fen())


def way_cells(way: Way | None, position: str) -> dict[str, str]:
    """Returns the first columns of a list of positions: the line from a root, its opening, and FEN."""
    text = way_text(way, position)
    return {
        "Line": text,
        **opening_cells(way.opening if way else None),
        **detailed({"Position": "" if text == position else position}),
    }


WAY = {"Line": FILL, "ECO": WHOLE, "Opening": WHOLE, "Position": WHOLE}
WAY_SPARE = ("Position", "Opening", "ECO")


def opening_cells(opening: Opening | None) -> dict[str, str]:
    """Returns the columns of an opening: its code, and its name."""
    return {"ECO": opening.eco if opening else "", "Opening": opening.name if opening else ""}


def opening_at(position: str) -> Opening | None:
    """Returns the opening of a position given as FEN."""
    from graphsearch.position import openings
    from graphsearch.position.board import board_of

    return openings.opening_at(board_of(position))


def line_cells(start: str | None, sans: Sequence[str]) -> dict[str, str]:
    """Returns the first columns of a list of lines: moves from a FEN (None: the start), and opening."""
    from graphsearch.position.openings import opening_after

    return {"Line": numbered(start, sans), **opening_cells(opening_after(start, sans))}


def opening_line(opening: Opening | None) -> list[str]:
    """Returns the line that names an opening; no line without an opening."""
    return [f"Opening: {opening}"] if opening else []


def line_text(board: chess.Board, pv: Sequence[chess.Move]) -> str:
    """Returns the first moves of a line in SAN: `1. e4 e5 2. Nf3`."""
    from graphsearch.position.lines import sans_of

    return numbered(board.fen(), sans_of(board, pv[:MAX_PV]))


def node_summary(node: NodeView) -> str:
    """Returns a node's own numbers and the name of their view in one line."""
    from graphsearch.position.values import cp_of

    white = is_white(node.position)
    side = "White" if white else "Black"
    ended = TERMINAL_NAMES.get(node.terminal)
    if ended:
        return f"{side} to move: {ended}"
    worth = score(cp_of(node.q), node.mate, white=white)
    mate = f", mate in {abs(node.mate)}" if node.mate else ""
    is_proven = node.bounds[0] == node.bounds[1]
    proven = f"   proven: {proven_result(node.bounds, white=white)}{mate}" if is_proven else ""
    chances = f"W D L {wdl(node.wdl, white=white)}"
    return f"{side} to move   {worth}   {chances}   {count(node.visits, 'visit')}{proven}   ({heading()})"


def proven_result(bounds: tuple[int, int], *, white: bool) -> str:
    """Returns a proven result as text, empty if nothing is proven; `white`: whether White is to move.

    >>> [proven_result(bounds, white=False) for bounds in ((1, 1), (0, 1), (-1, 1))]
    ['Black wins', 'Black holds', '']
    """
    lower, upper = bounds
    us, them = ("White", "Black") if white else ("Black", "White")
    texts = {(1, 1): f"{us} wins", (0, 0): "draw", (-1, -1): f"{them} wins", (0, 1): f"{us} holds"}
    return texts.get((lower, upper), f"{them} holds" if (lower, upper) == (-1, 0) else "")


def moment(text: str | None) -> str:
    """Returns an ISO 8601 time to the minute, as every table shows it.

    >>> moment("2025-01-31T12:00:07Z"), moment(None)
    ('2025-01-31 12:00', '')
    """
    return (text or "")[:16].replace("T", " ")


def origin_line(origin: Origin) -> str:
    """Returns the source of V and P of a node, in one line."""
    if origin.run is None:
        return f"V and P of {origin.description}; the file does not know from which run"
    if origin.search is None:
        return f"V and P of {origin.description}, in run {origin.run}, which the file does not list"
    root = f" of {origin.search.position}" if origin.search.position else ""
    return (
        f"V and P of {origin.description}, in run {origin.run}:"
        f" {origin.search.kind}{root}, {moment(origin.search.started)} UTC"
    )


def node_view(node: NodeView, multipv: int, width: int | None = None) -> RenderableType:
    """Returns a node's summary above its best moves; `width` as for `moves_table`."""
    from rich.console import Group
    from rich.text import Text

    if not node.moves:
        return Text(node_summary(node))
    lead = lead_line(node)
    return Group(Text(node_summary(node)), moves_table(node, multipv, width), *([Text(lead)] if lead else []))


def lead_line(node: NodeView) -> str:
    """Returns that the first move leads by its value, if another one has more visits; else an empty text."""
    from graphsearch.store.record.leading import LED_BY_VALUE_FROM, cautious_value

    first, most = node.moves[0], max(node.moves, key=lambda move: move.n)
    if node.visits < LED_BY_VALUE_FROM or first is most or first.q is None or most.q is None:
        return ""
    is_open = first.bounds[0] < first.bounds[1]
    leads = is_open and cautious_value(first.q, first.n) > cautious_value(most.q, most.n)
    return f"{first.san} leads by value, {most.san} by visits" if leads else ""


def board_text(position: str) -> str:
    """Returns a small diagram with White at the bottom: letters, dots and coordinates."""
    import chess

    rows = str(chess.Board(position)).splitlines()
    return "\n".join([*(f"{8 - i} {row}" for i, row in enumerate(rows)), "  a b c d e f g h"])


def count(number: int, noun: str, plural: str = "") -> str:
    """Returns a number with its noun; the plural is the noun with an s unless given.

    >>> count(1, "node"), count(12345, "node"), count(2, "leaf", "leaves")
    ('1 node', '12,345 nodes', '2 leaves')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """Returns a time in words.

    >>> duration(42.4), duration(3700), duration(200_000)
    ('42 s', '1 h 01 min', '2 d 7 h')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def rate(number: float) -> str:
    """Returns a rate in three figures.

    >>> rate(950.4), rate(81234), rate(1234567)
    ('950', '81.2k', '1.23M')
    """
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:.3g}{name}"
    return f"{number:.3g}"


def size(number: float) -> str:
    """Returns a number of bytes in a readable unit.

    >>> size(999), size(1234567)
    ('999 bytes', '1.2 MB')
    """
    if number < 1000:
        return f"{number:.0f} bytes"
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if number >= unit:
            return f"{number / unit:.1f} {name}"
    return f"{number / 1e3:.1f} kB"
