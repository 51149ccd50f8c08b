"""Values of a root at every save, over all runs of a file, in searches and in books. Reads only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chess

from ..base.answer import Answer
from ..base.errors import MissingPackageError
from ..base.version import __version__
from ..position.board import check, fen_of, key_text
from ..position.notation import legal_part, sans_of
from ..position.values import WDL, cp_of, wdl_from_q
from ..store.record.provenance import RunInfo
from ..store.tables import history as table
from ..store.tables.books import books
from ..store.tables.history import SavedBookValues, SavedValues
from .source import RecordSource, last_root, opened

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPoint(Answer):
    """One save of a root; values are seen by the side to move.

    Attributes:
      run: number of the run. kind: `search` or another reason to ask an evaluator; None if the file no longer
        lists the run. evaluator: number of its evaluator, None likewise.
      book: name of the book with these values; None: values of the search.
      saved: when, ISO 8601 in UTC.
      n: node N. q: node Q; in a book, the value there. cp: the same in centipawns.
      win, draw, loss: of Q; None in a book, whose values have no draws.
      depth: mean plies of the visits of the search so far; None if it is not known.
      positions: of the book; None without one.
      best_move, best_san: the best move, None without moves.
      changed: whether the best move differs from the previous point of the search, or of the same book.
      pv, line: the first moves of the best line, in UCI and in SAN; empty if it is not known.
    """

    run: int
    kind: str | None
    evaluator: int | None
    book: str | None = None
    saved: str
    n: int
    q: float
    win: float | None = None
    draw: float | None = None
    loss: float | None = None
    cp: int
    depth: int | None = None
    positions: int | None = None
    best_move: str | None
    best_san: str | None
    changed: bool = False
    pv: tuple[str, ...]
    line: tuple[str, ...]

    @property
    def wdl(self) -> WDL | None:
        """Win, draw and loss together; None in a book."""
        if self.win is None or self.draw is None or self.loss is None:
            return None
        return WDL(self.win, self.draw, self.loss)


@dataclass(frozen=True, slots=True)
class History(Answer):
    """The answer of `history`.

    Attributes:
      position: FEN. points: its saves, in the order of runs and of saves within a run.
      evaluators: descriptions of the evaluators of these runs, by number.
    """

    json_keys = "position evaluators points"

    position: str
    points: tuple[HistoryPoint, ...]
    evaluators: Mapping[int, str] = field(default_factory=dict)

    @property
    def by_run(self) -> tuple[HistoryPoint, ...]:
        """The last point of each run, of search and books."""
        return tuple({(point.run, point.book): point for point in self.points}.values())


def history(path: str | os.PathLike[str], board: chess.Board | None = None) -> History:
    """Returns the values of a root at every save, in searches and in books.

    Args:
      path: the graph file; it is only read.
      board: the position; None: the root searched last.

    Raises:
      InvalidPositionError: if the position is not legal.
      UnknownPositionError: if no position is named, and the file has no root.
      StoreError: if the file cannot be read.
    """
    with opened(path) as source:
        root = board or last_root(source)
        check(root)
        points = _marked(_points(source, root, key_text(root)))
        names = source.store.evaluators() if points else {}
    met = sorted({point.evaluator for point in points if point.evaluator is not None})
    evaluators = {number: names[number].describe() for number in met if number in names}
    return History(fen_of(root), tuple(points), evaluators)


def _points(source: RecordSource, root: chess.Board, key: str) -> list[HistoryPoint]:
    """Returns the points of searches and books in the order of runs; `changed` is not set yet."""
    saves, grown = table.of_root(source.store, key), table.of_books(source.store, key)
    runs = {run.id: run for run in source.store.runs()} if saves or grown else {}
    names = {book.id: book.name for book in books(source.store)} if grown else {}
    found = [_searched(root, save, runs.get(save.run)) for save in saves]
    found += [_grown(root, save, runs.get(save.run), names) for save in grown]
    return sorted(found, key=lambda point: point.run)


def _marked(points: Iterable[HistoryPoint]) -> list[HistoryPoint]:
    last: dict[str | None, str | None] = {}
    marked = []
    for point in points:
        changed = last.get(point.book) != point.best_move
        last[point.book] = point.best_move
        marked.append(replace(point, changed=changed))
    return marked


def _searched(root: chess.Board, save: SavedValues, run: RunInfo | None) -> HistoryPoint:
    values = save.values
    wdl = wdl_from_q(values.q, values.draw)
    return HistoryPoint(
        **_shared(root, save, run),
        q=values.q,
        win=wdl.win,
        draw=values.draw,
        loss=wdl.loss,
        cp=cp_of(values.q),
        depth=values.depth,
    )


def _grown(
    root: chess.Board, save: SavedBookValues, run: RunInfo | None, names: Mapping[int, str]
) -> HistoryPoint:
    values = save.values
    return HistoryPoint(
        **_shared(root, save, run),
        book=names.get(save.book, f"book {save.book}"),
        q=values.value,
        cp=cp_of(values.value),
        positions=values.positions,
    )


def _shared(root: chess.Board, save: SavedValues | SavedBookValues, run: RunInfo | None) -> dict[str, Any]:
    """Returns the fields about the run, and the best move and the line up to the first illegal move."""
    best, pv = save.values.best_move, save.values.pv
    sans = sans_of(root, legal_part(root, pv))
    first = sans_of(root, legal_part(root, [best] if best else []))
    return {
        "run": save.run,
        "kind": run.kind if run else None,
        "evaluator": run.evaluator if run else None,
        "saved": save.saved,
        "n": save.values.n,
        "best_move": best,
        "best_san": first[0] if first else None,
        "pv": pv[: len(sans)],
        "line": sans,
    }


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")  # Okabe and Ito; the search has the first
BAND, NOTE = "#f0f0f0", "#555555"
SIZE_INCHES, DPI = (9.0, 5.6), 110
MOST_NAMES = 40  # changed moves with a label: more would overlap


def require_matplotlib() -> None:
    """Raises MissingPackageError, with the command to install it, if matplotlib is missing."""
    if find_spec("matplotlib") is None:
        raise MissingPackageError(
            "a plot needs matplotlib: pip install '.[plot]' in the folder of graphsearch"
        )


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
        counts = [max(1, point.n if point.book is None else point.positions or 1) for point in found.points]
        visits.plot(counts, color=NOTE, linewidth=1.2, marker=".", markersize=3)
        only_books = all(point.book is not None for point in found.points)
        visits.set(yscale="log", ylabel="positions" if only_books else "N")
        for set_formatter in (visits.yaxis.set_major_formatter, visits.yaxis.set_minor_formatter):
            set_formatter(lambda value, _: f"{value:,.0f}")
        visits.xaxis.set_major_formatter(lambda at, _: _saved(found.points, at))
        _draw_runs(values, visits, found)
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


def _saved(points: Sequence[HistoryPoint], at: float) -> str:
    """Returns day and time of a save by its place, empty between two saves."""
    return points[int(at)].saved[5:16] if at.is_integer() and 0 <= at < len(points) else ""


def _draw_values(axes: Axes, found: History) -> None:
    """Draws Q of the search and of each book; a ring marks a change of the best move."""
    named = sum(point.changed for point in found.points) <= MOST_NAMES
    books = sorted({point.book or "" for point in found.points})
    for book, colour in zip(books, COLOURS[books[0] != "" :] * len(books), strict=False):
        items = [(place, point) for place, point in enumerate(found.points) if (point.book or "") == book]
        label = f"book {book}" if book else "search"
        places, values = zip(*((place, point.q) for place, point in items), strict=True)
        axes.plot(places, values, ".-", color=colour, label=label)
        for place, point in items:
            if point.changed:
                axes.plot([place], [point.q], "o", markersize=8, markerfacecolor="none", color=colour)
            if point.changed and named and point.best_san:
                at, above = (place, point.q), (0, 8)
                axes.annotate(point.best_san, at, above, textcoords="offset points", ha="center", fontsize=8)
    axes.axhline(0, color=NOTE, linewidth=0.8)
    axes.margins(y=0.18)
    axes.set_ylabel("Q, side to move", fontsize=9)
    axes.legend(fontsize=8, frameon=False, loc="best")


def _draw_runs(values: Axes, visits: Axes, found: History) -> None:
    """Shades every second run, and marks changes of the evaluator."""
    before: int | None = None
    runs = groupby(enumerate(found.points), key=lambda item: item[1].run)
    for number, (_, saves) in enumerate(runs):
        (first, point), *others = saves
        for axes in (values, visits) if number % 2 else ():
            axes.axvspan(first - 0.5, first + len(others) + 0.5, color=BAND, zorder=0, linewidth=0)
        if before is not None and point.evaluator not in (None, before):
            values.axvline(first - 0.5, color=NOTE, linewidth=1, linestyle="--")
            name = found.evaluators.get(point.evaluator or 0, "")
            values.text(first - 0.4, 1, name, transform=values.get_xaxis_transform(), fontsize=7, va="top")
        before = point.evaluator if point.evaluator is not None else before
