"""Tables: drawn by Rich, and streamed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

SEEN_FIRST = 100  # rows that decide the widths of the columns of a stream
SEEN_BYTES = 1 << 20  # of text in them: after so much, fewer rows decide
WIDEST = 100  # of a column but the last
WIDEST_WHOLE = 60  # of text on one line, such as a name, so that a pipe's width has room for the rest
# kinds of columns: text that folds, text on one line, text that takes the width left over, numbers
LEFT, WHOLE, FILL, RIGHT = "left", "whole", "fill", "right"
Row = Sequence[str] | Mapping[str, str]


def table(
    columns: Mapping[str, str], rows: Iterable[Row], *, width: int | None = None, title: str | None = None
) -> Table:
    """Returns a table.

    Args:
      columns: the kind of each, by name.
      rows: their cells in this order, or by name; further names are ignored.
      width: the terminal's, which the table then fills; None: as wide as needed.
      title: stands above it.
    """
    from rich import box
    from rich.table import Table

    drawn = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        expand=width is not None,
        title=title,
        title_justify="left",
        title_style="bold",
    )
    for name, kind in columns.items():
        drawn.add_column(
            name,
            justify="right" if kind == RIGHT else "left",
            no_wrap=kind != LEFT,
            overflow="fold" if kind == LEFT else "ellipsis",
            ratio=1 if kind == FILL else None,
            max_width=WIDEST_WHOLE if kind == WHOLE else None,
        )
    for row in rows:
        drawn.add_row(*([row[name] for name in columns] if isinstance(row, Mapping) else row))
    return drawn


def fitting(columns: Mapping[str, int], width: int | None) -> list[str]:
    """Returns the columns that a terminal of this width has room for, all for None.

    >>> fitting({"Move": 0, "P": 52}, 40)
    ['Move']
    """
    return [name for name, least in columns.items() if width is None or width >= least]


def streamed(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yields the lines of a table while its rows arrive; the first hundred decide how wide it is."""
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
    """Returns the rows that decide how wide a table is: a hundred, or fewer long ones."""
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
