"""Writes results as Markdown tables and draws them as plots."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from .harness import Benchmark, Row

PANEL = (4.2, 3.0)  # inches


def tables(rows: Sequence[Row], keys: Sequence[str]) -> Iterator[str]:
    """Yields the lines of Markdown tables, one for each set of keys; `NAME_error` joins the cell of NAME."""
    for _, group in groupby(rows, key=lambda row: [key in row for key in keys]):
        some = list(group)
        columns = dict.fromkeys(name for row in some for name in row if name != "samples")
        columns |= dict.fromkeys(name for name in ("samples",) if any(name in row for row in some))
        shown = [name for name in columns if not (name.endswith("_error") and name[:-6] in columns)]
        cells = [[_cell(row, name) for name in shown] for row in some]
        heads = [name.replace("_", " ") for name in shown]
        widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
        yield ""
        yield _line(heads, widths)
        yield _line(["-" * width for width in widths], widths)
        for row in cells:
            yield _line(row, widths)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"


def _cell(row: Row, name: str) -> str:
    value, error = row.get(name), row.get(f"{name}_error")
    if not error or value is None:
        return cell(value)
    digits = max(0, 1 - math.floor(math.log10(error)))
    sign = "+" if name.endswith("_less") else ""
    return f"{value:{sign},.{digits}f} ± {error:,.{digits}f}"


def cell(value: Any) -> str:
    """Returns a value as text.

    >>> cell(1000000), cell(12.345), cell([0.05, 2.0]), cell("uniform"), cell(True), cell(None)
    ('1,000,000', '12.3', '0.0500 / 2.00', 'uniform', 'yes', '-')
    """
    if isinstance(value, list | tuple):
        return " / ".join(map(cell, value))
    if value is None or isinstance(value, bool):
        return "-" if value is None else "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 or math.isinf(value) else f"{value:#.3g}".rstrip(".")


def draw(how: Benchmark, rows: Sequence[Row], path: Path, caption: str) -> None:
    """Draws the figures of `how.plot` to an image file: one panel per figure, one line per other key."""
    from matplotlib.figure import Figure

    assert how.plot is not None
    x, names = how.plot
    figure = Figure(figsize=(PANEL[0] * len(names), PANEL[1]), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for label, some in _series(how, rows, x):
            known = [row for row in some if row.get(name) is not None]
            errors = [row.get(f"{name}_error") or 0.0 for row in known]
            axes.errorbar(
                [row[x] for row in known], [row[name] for row in known], yerr=errors, label=label, marker="."
            )
        if min((row[x] for row in rows), default=0) > 0:
            axes.set_xscale("log", base=2)
        axes.set_title(name.replace("_", " "), fontsize=10)
        axes.set_xlabel(x, fontsize=9)
        axes.grid(alpha=0.3)
    figure.supxlabel(caption, fontsize=8)
    if len(how.keys) > 1:
        axes.legend(fontsize=8)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _series(how: Benchmark, rows: Sequence[Row], x: str) -> Iterator[tuple[str, list[Row]]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        label = ", ".join(str(row[key]) for key in how.keys if key != x and key in row)
        found.setdefault(label, []).append(row)
    yield from found.items()
