"""What EPD, JSON lines and CSV share: a walk, and the text of the positions that it visits together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..base.errors import ExportError
from ..position.words import KEY, META
from ..store.store import Store
from .choices import BookEntry, Moves
from .columns import Mask, clock_terms, clocks_of
from .output import ExportReport, Target, new_output, open_export, scratch_folder, target_name
from .pool import Ints, RecordPool, Words
from .selection import Selection, plan
from .walk import OnProgress, Visits, Walk

Text = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the positions that were visited together, and their moves.

    Attributes:
      rows: which positions. moves: theirs. of: which of `rows` each is of. begins: where those of each begin.
    """

    visits: Visits
    rows: Ints
    moves: Moves
    of: Ints
    begins: Ints

    @classmethod
    def of_visits(cls, visits: Visits, rows: Ints) -> Part:
        """Returns some positions."""
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
        return np.asarray(self.words[:, KEY] ^ clock_terms()[clocks_of(self.words)])

    @property
    def known(self) -> Mask:
        """Which of them the file has."""
        return np.asarray(self.visits.known[self.rows])

    @property
    def entries(self) -> list[BookEntry]:
        """What a book says of them; empty without one."""
        return [self.visits.entries[i] for i in self.rows.tolist()] if self.visits.entries else []


# what makes the text of some positions, while it is open; of a file, records, and where temporary files go
Texts = Callable[[Store, RecordPool, Path], AbstractContextManager[Callable[[Part], Text]]]


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
) -> ExportReport:
    """Writes the text of every position of a selection, and returns what was written.

    Of one side, positions where that side moves are written, and only those.

    Args:
      head: what stands before the positions. rest: whether moves without visits are written.

    Raises:
      InvalidParameterError: if there is no such book.
      ExportError: if there is nothing to write, or no place for it.
      StoreError: if the graph file cannot be read.
    """
    report = ExportReport(form, target_name(target))
    folder, selection = scratch_folder(target), selection or Selection()
    with open_export(path, partial(new_output, target), report, selection.score_type) as (store, out):
        chosen = plan(store, selection)
        with (
            Walk(store, chosen, folder, report, leaves=True, rest=rest, on_progress=on_progress) as walk,
            texts(store, walk.pool, folder) as text_of,
        ):
            for visits in walk.visits():
                rows = np.flatnonzero(visits.own)
                report.left_out["other_side"] += len(visits) - len(rows)
                if not len(rows):
                    continue
                part = Part.of_visits(visits, rows)
                out.write(head if not report.positions else b"")
                out.write(text_of(part).data)
                report.positions += len(rows)
                report.moves += len(part.of)
        if not report.positions:
            raise ExportError(f"{store.path}: nothing to export; it has no position of this selection")
    return report
