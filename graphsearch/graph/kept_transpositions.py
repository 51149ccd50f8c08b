"""Transposition entries of a graph: loaded from its file, and saved with its records.

A search uses the mates that they prove, whether all entries are in use or only the proofs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..base.answer import Answer
from ..evaluators.builtin.evaluator import BuiltinEvaluator
from ..store.record.transposition import ENTRY_BYTES, EntryTable, Words
from ..store.store import Store
from ..store.transpositions import saved
from ..store.transpositions.pieces import depths
from .arena import Arena

Write = Callable[[Store], None]
Call = Callable[[Write], None]  # runs a function on the file's thread, and waits for it


@dataclass(frozen=True, slots=True)
class EntryReport(Answer):
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


class GraphEntries:
    """The entries in use by one graph: none, only those that prove mates, or all of them.

    Its methods are for the thread that searches.

    Attributes:
      table: all entries; None if they are not in use. report: on their loading.
      proofs: the entries whose mates searches use, all or only the proofs; None without any.
      evaluation: digest of the evaluator of the entries; empty if they are not in use.
      problems: damaged pieces, skipped, found when only the proofs were loaded.
    """

    def __init__(self, arena: Arena, call: Call | None) -> None:
        """Starts with no entries in use; `call` runs a function on the file's thread; None: no file."""
        self._arena = arena
        self._call = call
        self._uses_proofs = False
        self._saving: tuple[Words, Words] | None = None
        self.table: EntryTable | None = None
        self.proofs: EntryTable | None = None
        self.report = EntryReport()
        self.evaluation = ""
        self.problems: list[str] = []

    def use(self, table_bytes: int) -> EntryTable:
        """Returns the table of all entries; the first call loads them, and every later save includes them.

        Raises:
          StoreError: if the file cannot be read.
        """
        if self.table is None:
            table, self.evaluation = EntryTable(table_bytes), BuiltinEvaluator().identity.digest
            if self._call:
                self._call(lambda store: self._load(store, table))
            self.table = self.proofs = table
            self._arena.set_entries(table.arrays)
        return self.table

    def _load(self, store: Store, table: EntryTable) -> None:
        """Inserts a file's entries of this evaluation into a table."""
        found = saved.load(store, self.evaluation)
        order = np.argsort(depths(found.data), kind="stable")  # if the table is full, the last ones stay
        table.enter(found.keys[order], found.data[order])
        self.report = EntryReport(table.count, len(order) - table.count, found.ignored, found.problems)

    def load_proofs(self) -> None:
        """Makes searches use the mates that the file's entries prove, from now on.

        Raises:
          StoreError: if the file cannot be read.
        """
        if self._call and self.table is None and not self._uses_proofs:
            self._call(self._use_proofs)

    def _use_proofs(self, store: Store) -> None:
        self._uses_proofs = True
        found = saved.load(store)
        self.problems += found.problems
        if len(found.keys):
            table = EntryTable(2 * len(found.keys) * ENTRY_BYTES)
            table.enter(found.keys, found.data)
            self.proofs = table
            self._arena.set_entries(table.arrays)

    # -------------------------------------------------------------- saving
    @property
    def has_unsaved(self) -> bool:
        """Whether there are entries that the file does not hold, including those of a running save."""
        return self._saving is not None or (self.table is not None and self.table.dirty_count > 0)

    def begin_saving(self) -> Write | None:
        """Returns a function that writes the unsaved entries; None if there are none.

        They count as saved from now on; `end_saving` must follow.
        """
        self.end_saving(saved=False)
        if self.table is None or not self.table.dirty_count:
            return None
        keys, data = self._saving = self.table.take_dirty()
        return lambda store: saved.append(store, keys, data, self.evaluation)

    def end_saving(self, *, saved: bool) -> None:
        """Ends the save that `begin_saving` began; if it failed, its entries count as unsaved again."""
        saving, self._saving = self._saving, None
        if self.table is not None and saving is not None and not saved:
            self.table.touch_again(*saving)
