"""Plots the history of a root: its values, and the changes of its best move."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from ..base.plotting import require_matplotlib
from ..base.version import __version__
from .history import History, HistoryPoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SEARCH, BOOKS = "#0072B2", ("#D55E00", "#009E73", "#CC79A7", "#E69F00")  # Okabe and Ito
VISITS, BAND, GRID, NOTE = "#555555", "#f0f0f0", "#dddddd", "#555555"
SIZE_INCHES, DPI = (9.0, 5.6), 110
MOST_NAMES, MOST_DATES = 40, 12  # changed moves with a label, and dates: more would overlap
Spans = list[tuple[int, int, HistoryPoint]]  # first and last place, and the first point


def draw_history(found: History, path: Path) -> None:
    """Draws a history with at least one point into a PNG or SVG file, by the ending of its name.

    The x axis is the order of saves; a band is a run. Values are seen by the side to move.

    Raises:
      GraphSearchError: if the drawing library is missing.
      OSError: if the file cannot be written.
    """
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context({"svg.fonttype": "none", "text.parse_math": False}):  # text stays text
        figure = Figure(figsize=SIZE_INCHES, layout="constrained")
        FigureCanvasAgg(figure)
        values, visits = figure.subplots(2, 1, sharex=True, height_ratios=(2.6, 1))
        _draw_values(values, found)
        _draw_visits(visits, found.points)
        for axes in (values, visits):
            _draw_runs(axes, found, named=axes is values)
        _name_runs(visits, _runs(found.points))
        figure.suptitle(found.position, fontsize=10)
        figure.supxlabel(_caption(found), fontsize=8.5, color=NOTE)
        figure.savefig(path, format=path.suffix[1:].lower(), dpi=DPI)


def _caption(found: History) -> str:
    changes = sum(point.changed for point in found.points) - len({point.book for point in found.points})
    runs = len({point.run for point in found.points})
    return (
        f"{len(found.points):,} saves of {runs:,} {'run' if runs == 1 else 'runs'} (bands); rings: the best"
        f" move changed ({changes:,} times); dashed: another evaluator   (graphsearch {__version__})"
    )


# ------------------------------------------------------------------ series
def _series(points: Sequence[HistoryPoint]) -> dict[str | None, list[tuple[int, HistoryPoint]]]:
    """Returns the places and points of the search (None) and of each book."""
    series: dict[str | None, list[tuple[int, HistoryPoint]]] = {}
    for place, point in enumerate(points):
        series.setdefault(point.book, []).append((place, point))
    return series


def _runs(points: Sequence[HistoryPoint]) -> Spans:
    groups = [list(group) for _, group in groupby(enumerate(points), key=lambda item: item[1].run)]
    return [(group[0][0], group[-1][0], group[0][1]) for group in groups]


# ------------------------------------------------------------------ panels
def _draw_values(axes: Axes, found: History) -> None:
    series = _series(found.points)
    colours = dict(zip([book for book in series if book is not None], BOOKS * len(series), strict=False))
    named = sum(point.changed for point in found.points) <= MOST_NAMES
    for book, items in series.items():
        colour = SEARCH if book is None else colours[book]
        places, values = [place for place, _ in items], [point.q for _, point in items]
        label = "search" if book is None else f"book {book}"
        axes.plot(places, values, color=colour, linewidth=1.4, marker=".", markersize=3.5, label=label)
        for place, point in items:
            if point.changed:
                _draw_change(axes, place, point, colour, named=named)
    axes.axhline(0, color=NOTE, linewidth=0.8)
    axes.margins(y=0.18)
    axes.set_ylabel("Q, side to move", fontsize=9)
    if len(series) > 1 or None not in series:
        axes.legend(fontsize=8, frameon=False, loc="best")


def _draw_change(axes: Axes, place: int, point: HistoryPoint, colour: str, *, named: bool) -> None:
    axes.plot([place], [point.q], "o", markersize=8, markerfacecolor="none", color=colour)
    if named and point.best_san:
        axes.annotate(
            point.best_san, (place, point.q), (0, 8), textcoords="offset points", ha="center", fontsize=8
        )


def _draw_visits(axes: Axes, points: Sequence[HistoryPoint]) -> None:
    places = [place for place, point in enumerate(points) if point.book is None]
    counts = [max(1, point.n) for point in points if point.book is None]
    if places:
        axes.plot(places, counts, color=VISITS, linewidth=1.2, marker=".", markersize=3)
        axes.set_ylabel("N", fontsize=9)
    else:
        axes.plot(range(len(points)), [point.positions or 1 for point in points], color=VISITS, linewidth=1.2)
        axes.set_ylabel("positions", fontsize=9)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _draw_runs(axes: Axes, found: History, *, named: bool) -> None:
    """Shades every second run, and marks changes of the evaluator."""
    runs = _runs(found.points)
    for first, last, _ in runs[1::2]:
        axes.axvspan(first - 0.5, last + 0.5, color=BAND, zorder=0, linewidth=0)
    before: int | None = None
    for first, _, point in runs:
        if before is not None and point.evaluator not in (None, before):
            axes.axvline(first - 0.5, color=NOTE, linewidth=1, linestyle="--")
            name = found.evaluators.get(point.evaluator or 0, "") if named else ""
            axes.text(first - 0.4, 1, name, transform=axes.get_xaxis_transform(), fontsize=7, va="top")
        before = point.evaluator if point.evaluator is not None else before
    axes.tick_params(labelsize=8)
    axes.grid(True, axis="y", color=GRID, linewidth=0.6)
    axes.set_xlim(-0.5, max(0.5, len(found.points) - 0.5))


def _name_runs(axes: Axes, runs: Spans) -> None:
    """Labels runs with the date of their first save, or the time if all are of one day, as room allows."""
    shown = runs[:: -(-len(runs) // MOST_DATES)]
    one_day = len({point.saved[:10] for _, _, point in runs}) == 1
    axes.set_xticks(
        [first for first, _, _ in shown],
        [point.saved[11:16] if one_day else point.saved[:10] for _, _, point in shown],
    )
    axes.minorticks_off()
