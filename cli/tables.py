"""Tables, drawn by Rich or streamed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

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
