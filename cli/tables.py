"""Tables of the questions to a graph file: as Rich draws them, and as they stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

SEEN_FIRST = 100  # rows that tell how wide the columns of a stream are
WIDEST = 100  # of a column but the last
LEFT, RIGHT = "left", "right"


def table(columns: Mapping[str, str], rows: Iterable[Sequence[str]]) -> Table:
    """Returns a table; `columns` are names with `left` or `right`. Text folds, numbers do not."""
    from rich import box
    from rich.table import Table

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1))
    for name, side in columns.items():
        drawn.add_column(
            name, justify="left" if side == LEFT else "right", no_wrap=side == RIGHT, overflow="fold"
        )
    for row in rows:
        drawn.add_row(*row)
    return drawn


def streamed(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yields the lines of a table while its rows come; the first hundred decide how wide it is."""
    iterator = iter(rows)
    first = [row for row, _ in zip(iterator, range(SEEN_FIRST), strict=False)]
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
