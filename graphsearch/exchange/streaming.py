"""The common part of the EPD, JSON lines and CSV exports: a walk that writes each batch as text."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..base.errors import ExportError
from ..position.words import META
from ..query.steps import Ints, Mask, Words
from ..store.segments import keys_of
from ..store.store import Store
from .choices import BookEntry, Moves
from .output import ExportReport, Target, new_output, open_export, scratch_folder, target_name
from .pool import RecordPool
from .selection import Selection, plan
from .walk import OnProgress, Visits, Walk

Text = NDArray[np.uint8]

LARGE = 10**9  # bytes of an output whose size is predicted
SAMPLE = 4000  # positions before the prediction: after 4,000 of 620,000 it was 3.8 GB, and 4.5 GB came


@dataclass(frozen=True, slots=True)
class Part:
    """Some positions of a batch, and their moves.

    Attributes:
      rows: indices in `visits`. moves: the moves of these positions. of: index in `rows` of each move.
      begins: offset of each position's first move.
    """

    visits: Visits
    rows: Ints
    moves: Moves
    of: Ints
    begins: Ints

    @classmethod
    def of_visits(cls, visits: Visits, rows: Ints) -> Part:
        """Returns the part with the positions `rows`."""
        place = np.full(len(visits), -1, np.int64)
        place[rows] = np.arange(len(rows))
        moves = visits.moves.some(place[visits.moves.of] >= 0)
        of = place[moves.of]
        begins = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=len(rows)))])
        return cls(visits, rows, moves, of, begins)

    @property
    def words(self) -> Words:
        """The positions, `[R, 10]`."""
        return np.asarray(self.visits.batch.words[self.rows])

    @property
    def metas(self) -> Words:
        """META of the positions in the graph."""
        return np.asarray(self.visits.batch.words[self.rows, META])

    @property
    def keys(self) -> Words:
        """The keys of the positions in the graph."""
        return keys_of(self.words)

    @property
    def known(self) -> Mask:
        """Whether the file has each of the positions."""
        return np.asarray(self.visits.known[self.rows])

    @property
    def entries(self) -> list[BookEntry]:
        """The book entries of the positions; empty without a book."""
        return [self.visits.entries[i] for i in self.rows.tolist()] if self.visits.entries else []


# (file, records, folder for temporary files) -> context manager of a function that formats a part as text
Texts = Callable[[Store, RecordPool, Path], AbstractContextManager[Callable[[Part], Text]]]


@dataclass(frozen=True, slots=True)
class OutputSize:
    """The predicted size of a large output.

    Attributes:
      size: in bytes. least: the output may become larger, since it is unknown how many positions follow.
      free: bytes that were free for it before it began; None for a stream.
    """

    size: int
    least: bool
    free: int | None


OnLarge = Callable[[OutputSize], None]


class _SizeCheck:
    """Predicts the size of an output, once, if it is large or exceeds the free space."""

    def __init__(self, store: Store, selection: Selection, target: Target, told: OnLarge | None) -> None:
        everything = not selection.roots and selection.book is None and selection.depth is None
        whole = everything and selection.max_moves is None and selection.min_visits == 0
        self._nodes = store.node_count if whole else 0
        named = isinstance(target, (str, os.PathLike))
        self._free = shutil.disk_usage(scratch_folder(target)).free if named else None
        self._told = told

    def look(self, written: int, visited: int, met: int) -> None:
        """Calls back if `written` bytes for `visited` of the `met` positions suggest a large output."""
        if self._told is None or visited < SAMPLE:
            return
        size = written * max(self._nodes, met) // visited
        if size >= LARGE or (self._free is not None and size > self._free):
            self._told(OutputSize(size, not self._nodes, self._free))
            self._told = None


def export_stream(
    path: str | Path,
    target: Target,
    selection: Selection | None,
    form: str,
    texts: Texts,
    *,
    head: bytes = b"",
    rest: bool = True,
    on_progress: OnProgress | None = None,
    on_large: OnLarge | None = None,
) -> ExportReport:
    """Writes the text of every position of a selection; returns a report.

    If the selection is for one side, only positions with that side to move are written.

    Args:
      head: bytes before the first position. rest: whether moves without visits are written.
      on_large: called once if the output will have `LARGE` bytes or does not fit on the disk.

    Raises:
      InvalidParameterError: if there is no such book.
      ExportError: if there is nothing to write, or the output cannot be written.
      StoreError: if the graph file cannot be read.
    """
    report = ExportReport(form, target_name(target))
    folder, selection = scratch_folder(target), selection or Selection()
    with open_export(path, partial(new_output, target), report) as (store, out):
        chosen = plan(store, selection)
        with (
            Walk(store, chosen, folder, report, leaves=True, rest=rest, on_progress=on_progress) as walk,
            texts(store, walk.pool, folder) as text_of,
        ):
            written, check = len(head), _SizeCheck(store, selection, target, on_large)
            for visits in walk.visits():
                rows = np.flatnonzero(visits.own)
                report.left_out["other_side"] += len(visits) - len(rows)
                if not len(rows):
                    continue
                part = Part.of_visits(visits, rows)
                out.write(head if not report.positions else b"")
                text = text_of(part)
                out.write(text.data)
                written += len(text)
                report.positions += len(rows)
                report.moves += len(part.of)
                check.look(written, int(visits.ids[-1]), walk.met)
        if not report.positions:
            raise ExportError(f"{store.path}: nothing to export; it has no position of this selection")
    return report
