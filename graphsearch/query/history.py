"""Values of a root at every save, over all runs of a file, in searches and in books. Reads only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import chess

from ..base.answer import Answer
from ..base.errors import UnknownPositionError
from ..position.board import check, fen_of, key_text
from ..position.notation import legal_part, sans_of
from ..position.values import WDL, cp_of, wdl_from_q
from ..store.provenance import RunInfo
from ..store.store import Store
from ..store.tables import history as table
from ..store.tables.books import books
from ..store.tables.history import BookValues, RootValues
from .source import RecordSource, opened, roots_of


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
      board: the position; None: the root searched last that has saves, or that of a book.

    Raises:
      InvalidPositionError: if the position is not legal.
      UnknownPositionError: if no position is named, and the file has no root.
      StoreError: if the file cannot be read.
    """
    with opened(path) as source:
        root = board or _last_saved(source)
        check(root)
        points = _marked(_points(source, root, key_text(root)))
        names = source.store.evaluators() if points else {}
    met = sorted({point.evaluator for point in points if point.evaluator is not None})
    evaluators = {number: names[number].describe() for number in met if number in names}
    return History(fen_of(root), tuple(points), evaluators)


def _last_saved(source: RecordSource) -> chess.Board:
    """Returns the root searched last that has saves, or else the one searched last: a review saves none."""
    roots = roots_of(source)
    if not roots:
        raise UnknownPositionError(f"{source.path} has no root of a search; name a position")
    return next((root for root in roots if _has_saves(source.store, key_text(root))), roots[0])


def _has_saves(store: Store, key: str) -> bool:
    return bool(table.of_root(store, key) or table.of_books(store, key))


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


def _searched(root: chess.Board, save: RootValues, run: RunInfo | None) -> HistoryPoint:
    wdl = wdl_from_q(save.q, save.draw)
    return HistoryPoint(
        **_shared(root, save, run),
        q=save.q,
        win=wdl.win,
        draw=save.draw,
        loss=wdl.loss,
        cp=cp_of(save.q),
        depth=save.depth,
    )


def _grown(
    root: chess.Board, save: BookValues, run: RunInfo | None, names: Mapping[int, str]
) -> HistoryPoint:
    return HistoryPoint(
        **_shared(root, save, run),
        book=names.get(save.book, f"book {save.book}"),
        q=save.value,
        cp=cp_of(save.value),
        positions=save.positions,
    )


def _shared(root: chess.Board, save: RootValues | BookValues, run: RunInfo | None) -> dict[str, Any]:
    """Returns the fields about the run, and the best move and the line up to the first illegal move."""
    best, pv = save.best_move, tuple((save.pv or "").split())
    sans = sans_of(root, legal_part(root, pv))
    first = sans_of(root, legal_part(root, [best] if best else []))
    return {
        "run": save.run,
        "kind": run.kind if run else None,
        "evaluator": run.evaluator if run else None,
        "saved": save.saved,
        "n": save.n,
        "best_move": best,
        "best_san": first[0] if first else None,
        "pv": pv[: len(sans)],
        "line": sans,
    }
