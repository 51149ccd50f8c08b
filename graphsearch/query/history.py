"""Values of a root at every save, over all runs of a file, in searches and in books. Reads only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import chess

from ..base.answer import Answer
from ..base.errors import UnknownPositionError
from ..position.board import board_of, check, fen_of, key_text
from ..position.notation import legal_part, sans_of
from ..position.values import WDL, wdl_from_q
from ..store.store import Store
from ..store.tables import history as table
from ..store.tables.books import books, roots_of
from ..store.tables.history import BookValues, RootValues
from .saves import Saved, saved_at
from .source import RecordSource, opened


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPoint(Saved):
    """One save of a root, with all that is known of it.

    Attributes:
      kind: `search` or another reason to ask an evaluator. None, as is `evaluator`, if the file no longer
        lists the run.
      book: name of the book with these values, and `positions` in it; None: values of the search.
      win, draw, loss: None in a book, which has no draws.
      depth: mean plies of the visits of the search so far; None if it is not known.
      changed: whether the best move differs from the previous point of the search, or of the same book.
      pv, line: the first moves of the best line, in UCI and in SAN; empty if it is not known.
    """

    json_keys = (
        "run kind evaluator book saved n q win draw loss cp depth positions"
        " best_move best_san mate changed pv line"
    )

    kind: str | None
    evaluator: int | None
    book: str | None = None
    win: float | None = None
    draw: float | None = None
    loss: float | None = None
    depth: int | None = None
    positions: int | None = None
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
    """The answer of `history`: the saves of a position, run by run, and descriptions of their evaluators."""

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
      board: the position; None: the root searched last that has saves, or that of a book.

    Raises:
      UnknownPositionError: if no position is named, and the file has no root.
    """
    with opened(path) as source:
        root = board or _last_saved(source)
        check(root)
        points = _points(source.store, root)
        names = source.store.evaluators() if points else {}
    met = sorted(names.keys() & {point.evaluator for point in points})
    return History(fen_of(root), tuple(points), {number: names[number].describe() for number in met})


def _last_saved(source: RecordSource) -> chess.Board:
    """Returns the root searched last that has saves, or else the one searched last: a review saves none."""
    roots = [board_of(fen) for fen in roots_of(source.store)]
    if not roots:
        raise UnknownPositionError(f"{source.path} has no root of a search; name a position")
    return next((root for root in roots if _saves(source.store, root)), roots[0])


def _saves(store: Store, root: chess.Board) -> list[RootValues | BookValues]:
    """Returns the saves of a root in searches and books, in the order of runs."""
    key = key_text(root)
    return sorted([*table.of_root(store, key), *table.of_books(store, key)], key=lambda save: save.run)


def _points(store: Store, root: chess.Board) -> list[HistoryPoint]:
    saves = _saves(store, root)
    runs = {run.id: run for run in store.runs()} if saves else {}
    names = {book.id: book.name for book in books(store)} if saves else {}
    last: dict[str | None, str | None] = {}
    points = []
    for save in saves:
        run, of_save = runs.get(save.run), dict[str, Any]()
        if isinstance(save, RootValues):
            book, wdl = None, wdl_from_q(save.q, save.draw)
            of_save = {"win": wdl.win, "draw": wdl.draw, "loss": wdl.loss, "depth": save.depth}
        else:
            book = names.get(save.book, f"book {save.book}")
            of_save = {"positions": save.positions}
        pv, best = (save.pv or "").split(), save.best_move
        line = sans_of(root, legal_part(root, pv))
        point = HistoryPoint(
            **asdict(saved_at(root, save)),
            kind=run.kind if run else None,
            evaluator=run.evaluator if run else None,
            book=book,
            changed=last.get(book) != best,
            pv=tuple(pv[: len(line)]),
            line=line,
            **of_save,
        )
        last[book] = best
        points.append(point)
    return points
