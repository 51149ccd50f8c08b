"""A cluster as one store that is open for writing: every record goes to the file of its owner.

    transaction    file 2 ... COMMIT | file 1 ... COMMIT | file 0 ... COMMIT

All files of a transaction get one save (`saved_waves`), and the first one commits last: it has the plain
tables, so a save counts once the first file has it. After a kill, the next open rolls the other files back to
that save. A transaction without records, such as that of a lease, is one of the first file only.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.errors import EvaluatorMismatchError, StoreError
from ...position.board import key_of_text
from .. import merging
from ..codec.bulk import take
from ..file import real_path
from ..lock import WriteLock
from ..reading import MAX_ASKED
from ..record.node import RecordBatch
from ..record.provenance import EvaluatorIdentity, differences
from ..segments import keys_of
from ..store import Store
from ..tables import provenance
from .files import ShardedStore, open_parts
from .manifest import NAME, Manifest, is_sharded, read_manifest
from .ownership import owners_of
from .saved_waves import Save, go_back, note_save, saves_of

Rows = Sequence[Mapping[str, Any]]


class ClusterStore(ShardedStore):
    """The files of a cluster, open for writing by one process. See `Store`."""

    def __init__(self, folder: Path, manifest: Manifest, parts: list[Store], lock: WriteLock) -> None:
        """Takes over open stores and the cluster's lock, and closes them; begins a save in all files."""
        super().__init__(folder, manifest, parts)
        self._lock = self._own_lock = lock
        self._others: ExitStack | None = None  # while a transaction is open: those of other files
        self._is_wide = self._is_torn = False
        self._finder = self.reader()
        self._save = 1 + max(saves_of(part)[0].number for part in parts)
        for part in parts:
            with part.transaction():
                note_save(part, Save(number=self._save))

    @property
    def leaves_out(self) -> bool:
        """Whether `append` drops records that do not fit the format."""
        return self._parts[0].leaves_out

    @leaves_out.setter
    def leaves_out(self, leaves: bool) -> None:
        for part in self._parts:
            part.leaves_out = leaves

    def left_out_error(self) -> StoreError | None:
        """Returns the error that names unwritable records, or None."""
        return next((error for part in self._parts if (error := part.left_out_error())), None)

    def close(self) -> None:
        """Closes all files. A second call does nothing."""
        if self._closed:
            return
        self._finder.close()
        with ExitStack() as stack:
            stack.callback(self._own_lock.release)
            for part in self._parts:
                stack.callback(part.close)
        self._closed = True

    # ---------------------------------------------------------- transactions
    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Makes everything in the body one save: after a kill all files have it, or none.

        Raises:
          StoreError: if a file cannot be written. The transaction is void. If some files have committed it,
            reopen the cluster, which rolls them back.
        """
        self.check_writable()
        if self._is_torn:
            raise StoreError(f"{self.path}: a save reached only some of its files; open it again to continue")
        if self._others is not None:
            raise StoreError(f"{self.path}: a transaction is already open; end it first")
        try:
            with ExitStack() as stack:  # closed in reverse order: the first file commits last
                stack.enter_context(self._parts[0].transaction())
                self._others = stack
                yield
                if self._is_wide:
                    for part in self._parts:
                        note_save(part, Save(number=self._save + 1))
            self._save += self._is_wide
        except BaseException:
            has_begun = any(saves_of(part)[0].number > self._save for part in self._parts)
            self._is_torn = self._is_wide and has_begun
            raise
        finally:
            self._others, self._is_wide = None, False

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Joins the open transaction, or begins one, of the first file."""
        if self._others is not None:
            yield self.connection
        else:
            with self.transaction():
                yield self.connection

    @contextmanager
    def _writing_all(self) -> Iterator[None]:
        """Joins the open transaction, or begins one, of all files."""
        with self.writing():
            assert self._others is not None
            if not self._is_wide:
                for part in self._parts[1:]:
                    self._others.enter_context(part.transaction())
                self._is_wide = True
            yield

    # ---------------------------------------------------------- records
    def append_parts(self, batches: Sequence[RecordBatch], *, fresh: int) -> None:
        """Writes records to the files of their owners; looks up the number of fresh ones in each."""
        if not any(map(len, batches)):
            return
        with self._writing_all():
            for number, part in enumerate(self._parts):
                mine = [self._owned(batch, number) for batch in batches]
                part.append_parts(mine, fresh=sum(self._fresh(batch) for batch in mine))

    def _owned(self, batch: RecordBatch, number: int) -> RecordBatch:
        return take(batch, np.flatnonzero(self._owners(batch.words) == number))

    def _owners(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        return owners_of(keys_of(words), self._manifest.owners)

    def _fresh(self, batch: RecordBatch) -> int:
        """Returns the number of records that no file has."""
        words = batch.words
        pieces = [words[first : first + MAX_ASKED] for first in range(0, len(words), MAX_ASKED)]
        return len(words) - sum(int(self._finder.find(piece)[0].sum()) for piece in pieces)

    def merge_step(self, rules: merging.Rules = merging.READ) -> bool:
        """Does one step of a merge in one file; returns whether more may be due."""
        self.check_writable()
        for part in self._parts:
            if not self._is_torn and merging.is_due(part.catalog, part.node_count, rules):
                part.merge_step(rules)
                return True
        return False

    def checkpoint(self, *, over: int = 0) -> tuple[int, bool]:
        """Truncates every write-ahead log; returns the longest, and whether a reader holds one."""
        found = [part.checkpoint(over=over) for part in self._parts]
        return max(size for size, _ in found), any(held for _, held in found)

    # ---------------------------------------------------------- tables of all files
    def begin_run(
        self,
        position_fen: str,
        limits: Mapping[str, Any],
        params: Mapping[str, Any],
        *,
        kind: str = "search",
        evaluator: int | None = None,
        number: int | None = None,
    ) -> int:
        """Returns the number of a new run, the same in all files; see `Store.begin_run`."""
        with self._writing_all():
            if number is None:
                number = 1 + max(provenance.last_run(part.connection) for part in self._parts)
            for part in self._parts:
                part.begin_run(position_fen, limits, params, kind=kind, evaluator=evaluator, number=number)
        return number

    def update_run(self, run: int, visits: int, evaluations: int) -> None:
        """Writes the run's additions so far."""
        self._each(lambda part: part.update_run(run, visits, evaluations))

    def finish_run(self, run: int, visits: int, evaluations: int) -> None:
        """Writes the end of a run and its additions."""
        self._each(lambda part: part.finish_run(run, visits, evaluations))

    def _each(self, write: Callable[[Store], None]) -> None:
        with self._writing_all():
            for part in self._parts:
                write(part)

    # ---------------------------------------------------------- tables of the owners
    def record_root(self, key: str, fen: str, visits: int) -> None:
        """Inserts a root into the file of its owner."""
        with self._writing_all():
            self._owner_of(key).record_root(key, fen, visits)

    def raise_root(self, key: str, visits: int) -> None:
        """Updates the root N of a position in the file of its owner."""
        with self._writing_all():
            self._owner_of(key).raise_root(key, visits)

    def write_top(self, positions: Rows, edges: Rows) -> None:
        """Lists positions in `top_position` and `top_edge` of their owners' files."""

        def of(part: Store, rows: Rows) -> Rows:
            return [row for row in rows if self._owner_of(row["key"]) is part]

        self._each(lambda part: part.write_top(of(part, positions), of(part, edges)))

    def _owner_of(self, key: str) -> Store:
        number = np.array([key_of_text(key)], np.uint64)
        return self._parts[int(owners_of(number, self._manifest.owners)[0])]


def open_to_write(
    path: str | os.PathLike[str],
    *,
    identity: EvaluatorIdentity | None = None,
    create: bool = False,
    unbound: bool = False,
) -> Store:
    """Opens a graph file or a cluster's folder for writing; see `Store.open`.

    Raises:
      EvaluatorMismatchError: if it is bound to another evaluator.
      StoreLockedError: if another process writes it, or a file of it.
      StoreError: if it cannot be opened, or files do not belong together.
    """
    if not is_sharded(path):
        return Store.open(path, identity=identity, create=create, unbound=unbound)
    folder = real_path(path)
    with ExitStack() as stack:
        lock = WriteLock(folder / NAME)
        stack.callback(lock.release)
        manifest = read_manifest(folder)
        if identity not in (None, manifest.identity):
            assert identity is not None
            raise EvaluatorMismatchError(
                f"{path} is bound to another evaluator: {differences(manifest.identity, identity)}"
            )
        go_back(folder, manifest)
        parts = open_parts(stack, folder, manifest, read_only=False)
        store = ClusterStore(folder, manifest, parts, lock)
        stack.pop_all()
        return store
