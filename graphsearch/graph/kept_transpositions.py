"""Transposition entries that belong to a graph: loaded from its file, and saved with its records.

A search heeds the mates that they prove, whether all of them are in use or the proofs alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ..evaluators.builtin.evaluator import BuiltinEvaluator
from ..store.record.transposition import ENTRY_BYTES, EntryTable, Words
from ..store.store import Store
from ..store.transpositions import saved
from ..store.transpositions.pieces import depths
from .arena import Arena

Write = Callable[[Store], None]
Call = Callable[[Write], None]  # has something done with the file, and waits for it


@dataclass(frozen=True, slots=True)
class EntryReport:
    """What became of the entries of a file when they were loaded.

    Attributes:
      loaded: those in memory. left_out: those for which the table had no room; the deepest are in memory.
      ignored: those of another evaluation; they go when the file's entries are written anew.
      problems: damaged pieces, which are left out, one line each.
    """

    loaded: int = 0
    left_out: int = 0
    ignored: int = 0
    problems: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Returns the report as JSON takes it."""
        return asdict(self)


class KeptEntries:
    """A table of entries and its way to the file. Its methods are for the thread that searches."""

    def __init__(self, table_bytes: int, evaluation: str) -> None:
        """Makes an empty one.

        Args:
          table_bytes: of memory, at most. evaluation: digest of what makes the values of its entries.
        """
        self.table = EntryTable(table_bytes)
        self.evaluation = evaluation
        self.report = EntryReport()
        self._taken: tuple[Words, Words] | None = None

    def load(self, store: Store) -> None:
        """Enters what a file holds under this evaluation.

        Raises:
          StoreError: if the file as a whole cannot be read.
        """
        found = saved.load(store, self.evaluation)
        order = np.argsort(
            depths(found.data), kind="stable"
        )  # the last ones stay, if there is no room for all
        self.table.enter(found.keys[order], found.data[order])
        left_out = len(order) - self.table.count
        self.report = EntryReport(self.table.count, left_out, found.ignored, found.problems)

    @property
    def has_unsaved(self) -> bool:
        """Whether there are entries that the file does not hold, on their way to it or not."""
        return self._taken is not None or self.table.dirty_count > 0

    def take(self) -> Write | None:
        """Returns what writes the entries that the file does not hold; None if there are none.

        They count as saved from now on; `settle` must follow.
        """
        self.settle(saved=False)
        if not self.table.dirty_count:
            return None
        keys, data = self._taken = self.table.take_dirty()
        return lambda store: saved.append(store, keys, data, self.evaluation)

    def settle(self, *, saved: bool) -> None:
        """Ends what `take` began: entries that did not reach the file are to be saved again."""
        taken, self._taken = self._taken, None
        if taken is not None and not saved:
            self.table.touch_again(*taken)


class GraphEntries:
    """The entries of one graph: none, those that prove mates, or all of them, kept from then on.

    Attributes:
      kept: all of them with their way to the file; None if they are not in use.
      problems: damaged pieces, which are left out, where only proofs are heeded.
    """

    def __init__(self, arena: Arena, call: Call | None) -> None:
        """Makes those of a graph that has none in use; `call` reaches its file, None: it has none."""
        self._arena = arena
        self._call = call
        self._heeds_proofs = False
        self.kept: KeptEntries | None = None
        self.problems: list[str] = []

    def use(self, table_bytes: int) -> EntryTable:
        """Returns the table of all entries, which are loaded at the first call and saved from then on.

        Raises:
          StoreError: if the file cannot be read.
        """
        if self.kept is None:
            kept = KeptEntries(table_bytes, BuiltinEvaluator().identity.digest)
            if self._call:
                self._call(kept.load)
            self.kept = kept
            self._arena.set_entries(kept.table.arrays)
        return self.kept.table

    def heed_proofs(self) -> None:
        """Has searches take over the mates that the file's entries prove, from now on.

        Raises:
          StoreError: if the file cannot be read.
        """
        if self._call and self.kept is None and not self._heeds_proofs:
            self._call(lambda store: self.heed(saved.load(store)))

    def heed(self, found: saved.Loaded) -> None:
        """Has searches take over the mates that some entries prove."""
        self._heeds_proofs = True
        self.problems += found.problems
        if len(found.keys):
            table = EntryTable(2 * len(found.keys) * ENTRY_BYTES)
            table.enter(found.keys, found.data)
            self._arena.set_entries(table.arrays)

    @property
    def has_unsaved(self) -> bool:
        """Whether there are entries that the file does not hold."""
        return self.kept is not None and self.kept.has_unsaved

    def take(self) -> Write | None:
        """Returns what writes the entries that the file does not hold, as `KeptEntries.take`."""
        return self.kept.take() if self.kept else None

    def settle(self, *, saved: bool) -> None:
        """Ends what `take` began."""
        if self.kept:
            self.kept.settle(saved=saved)
