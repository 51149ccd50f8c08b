"""Transposition entries of a graph: loaded from its file, and saved with its records.

A search uses the mates that they prove, whether all entries are in use or only the proofs.
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
Call = Callable[[Write], None]  # runs a function on the file's thread, and waits for it


@dataclass(frozen=True, slots=True)
class EntryReport:
    """Report on the loading of a file's entries.

    Attributes:
      loaded: entries in memory. left_out: entries for which the table had no room; the deepest are in memory.
      ignored: entries of another evaluation; the next rewrite of the file's entries drops them.
      problems: damaged pieces, which are skipped, one line each.
    """

    loaded: int = 0
    left_out: int = 0
    ignored: int = 0
    problems: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Returns the report as a JSON object."""
        return asdict(self)


class KeptEntries:
    """A table of entries with its unsaved changes. Its methods are for the thread that searches."""

    def __init__(self, table_bytes: int, evaluation: str) -> None:
        """Makes an empty table.

        Args:
          table_bytes: most memory of the table. evaluation: digest of the evaluator of its entries.
        """
        self.table = EntryTable(table_bytes)
        self.evaluation = evaluation
        self.report = EntryReport()
        self._taken: tuple[Words, Words] | None = None

    def load(self, store: Store) -> None:
        """Inserts a file's entries of this evaluation.

        Raises:
          StoreError: if the file as a whole cannot be read.
        """
        found = saved.load(store, self.evaluation)
        order = np.argsort(
            depths(found.data), kind="stable"
        )  # the last ones stay if there is no room for all
        self.table.enter(found.keys[order], found.data[order])
        left_out = len(order) - self.table.count
        self.report = EntryReport(self.table.count, left_out, found.ignored, found.problems)

    @property
    def has_unsaved(self) -> bool:
        """Whether there are entries that the file does not hold, including those of a running save."""
        return self._taken is not None or self.table.dirty_count > 0

    def take(self) -> Write | None:
        """Returns a function that writes the unsaved entries; None if there are none.

        They count as saved from now on; `settle` must follow.
        """
        self.settle(saved=False)
        if not self.table.dirty_count:
            return None
        keys, data = self._taken = self.table.take_dirty()
        return lambda store: saved.append(store, keys, data, self.evaluation)

    def settle(self, *, saved: bool) -> None:
        """Ends the save that `take` began; if it failed, its entries count as unsaved again."""
        taken, self._taken = self._taken, None
        if taken is not None and not saved:
            self.table.touch_again(*taken)


class GraphEntries:
    """The entries in use by one graph: none, only those that prove mates, or all of them.

    Attributes:
      kept: all entries with their unsaved changes; None if they are not in use.
      proofs: the entries whose mates searches use, all or only the proofs; None without any.
      problems: damaged pieces, skipped, found when only the proofs were loaded.
    """

    def __init__(self, arena: Arena, call: Call | None) -> None:
        """Starts with no entries in use; `call` runs a function on the file's thread; None: no file."""
        self._arena = arena
        self._call = call
        self._heeds_proofs = False
        self.kept: KeptEntries | None = None
        self.proofs: EntryTable | None = None
        self.problems: list[str] = []

    def use(self, table_bytes: int) -> EntryTable:
        """Returns the table of all entries; the first call loads them, and every later save includes them.

        Raises:
          StoreError: if the file cannot be read.
        """
        if self.kept is None:
            kept = KeptEntries(table_bytes, BuiltinEvaluator().identity.digest)
            if self._call:
                self._call(kept.load)
            self.kept, self.proofs = kept, kept.table
            self._arena.set_entries(kept.table.arrays)
        return self.kept.table

    def heed_proofs(self) -> None:
        """Makes searches use the mates that the file's entries prove, from now on.

        Raises:
          StoreError: if the file cannot be read.
        """
        if self._call and self.kept is None and not self._heeds_proofs:
            self._call(lambda store: self.heed(saved.load(store)))

    def heed(self, found: saved.Loaded) -> None:
        """Makes searches use the mates that some entries prove."""
        self._heeds_proofs = True
        self.problems += found.problems
        if len(found.keys):
            table = EntryTable(2 * len(found.keys) * ENTRY_BYTES)
            table.enter(found.keys, found.data)
            self.proofs = table
            self._arena.set_entries(table.arrays)

    @property
    def has_unsaved(self) -> bool:
        """Whether there are unsaved entries."""
        return self.kept is not None and self.kept.has_unsaved

    def take(self) -> Write | None:
        """Returns a function that writes the unsaved entries, as `KeptEntries.take`."""
        return self.kept.take() if self.kept else None

    def settle(self, *, saved: bool) -> None:
        """Ends the save that `take` began."""
        if self.kept:
            self.kept.settle(saved=saved)
