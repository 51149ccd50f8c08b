"""The files of a cluster: checks that they belong together, and reads records and plain tables as one."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn, TypeVar

import chess
import numpy as np
from numpy.typing import NDArray

from ...base.errors import EvaluatorMismatchError, InputFileError, StoreError
from ..codec.bulk import take
from ..file import real_path, sql_errors
from ..index.catalog import Catalog
from ..index.filters import filter_of_any
from ..index.locate_kernel import FilterArrays
from ..reading import MAX_PROBLEMS, Reader
from ..record.node import NodeRecord, RecordBatch
from ..record.provenance import RootInfo, differences
from ..scanning import Portion, in_file_order
from ..segments import OnCorrupt, keys_of
from ..side_files import file_bytes
from ..store import Store
from ..tables.columns import TABLES, tables_sql
from .manifest import FACT, Manifest, is_sharded, read_manifest
from .ownership import Owners, owner_of, owners_of

Words = NDArray[np.uint64]
_Answer = TypeVar("_Answer")


class ShardedReader(Reader):
    """Finds the newest records of positions in the files of a cluster; see `Reader`."""

    kernels_may_read = False

    def __init__(self, readers: Sequence[Reader], owners: Owners) -> None:
        """Takes ownership of the readers of all files; `owners` is the table of the manifest."""
        self._readers = readers
        self._owners = owners
        self.closed = False
        self.problems = []

    def close(self) -> None:
        """Closes the connections. A second call does nothing."""
        self.closed = True
        for reader in self._readers:
            reader.close()

    @property
    def ram_bytes(self) -> int:
        """Bytes of all indexes and filters."""
        return sum(reader.ram_bytes for reader in self._readers)

    def filter(self) -> FilterArrays:
        """Returns the filter of the last committed states, for positions in any file."""
        return filter_of_any([reader.filter() for reader in self._readers])

    def find(self, words: Words) -> tuple[NDArray[np.bool_], RecordBatch]:
        """Returns which packed positions have a record, and these records in order; see `Reader.find`."""
        have = np.zeros(len(words), np.bool_)
        places, batches = [], []
        for mine, (found, batch) in self._ask(words, lambda reader, some: reader.find(some)):
            have[mine[found]] = True
            places.append(mine[found])
            batches.append(batch)
        order = np.argsort(np.concatenate([*places, np.zeros(0, np.int64)]), kind="stable")
        return have, take(RecordBatch.concat(batches), order)

    def find_any(self, words: Words) -> list[RecordBatch]:
        """Returns the records of those packed positions that have one, in any order."""
        answers = self._ask(words, lambda reader, some: reader.find_any(some))
        return [batch for _, batches in answers for batch in batches]

    def _ask(
        self, words: Words, ask: Callable[[Reader, Words], _Answer]
    ) -> list[tuple[NDArray[np.int64], _Answer]]:
        """Calls `ask` for each owner's positions; returns their indices and the answer, per owner."""
        owners = owners_of(keys_of(words), self._owners)
        answers = []
        for number, reader in enumerate(self._readers):
            mine = np.flatnonzero(owners == number)
            if len(mine):
                answers.append((mine, ask(reader, words[mine])))
        lines = [line for reader in self._readers for line in reader.problems]
        self.problems = lines[:MAX_PROBLEMS]
        return answers


def shard_path(folder: Path, manifest: Manifest, number: int) -> Path:
    """Returns the path of a shard's file.

    Raises:
      StoreError: if the file is missing.
    """
    path = folder / manifest.files[number]
    if path.exists() and not path.is_file():
        raise StoreError(f"{path} is not a file; move it away, and put the file of shard {number} there")
    if not path.exists():
        raise StoreError(
            f"{folder}: shard {number}, {path.name}, is missing; restore it, or have it made empty with"
            f" `graphsearch lab mend {folder}`: its positions are evaluated again"
        )
    return path


def check_shard(store: Store, manifest: Manifest, number: int) -> None:
    """Raises StoreError unless the store is the shard `number` of the manifest."""
    text = store.read_fact(FACT)
    if text == manifest.fact(number):
        if store.is_bound and store.identity != manifest.identity:
            raise EvaluatorMismatchError(
                f"{store.path} is bound to another evaluator than its cluster:"
                f" {differences(store.identity, manifest.identity)}"
            )
        return
    from ...base.outside import ShardFact, declared

    try:
        found = declared(ShardFact, text or "null")
        which = f"shard {found.shard} of {found.of} of cluster {found.cluster[:8]}"
    except InputFileError:
        which = "a graph file of no cluster"
    raise StoreError(
        f"{store.path} should be shard {number} of {manifest.shards} of cluster {manifest.cluster[:8]} and is"
        f" {which}; put the file of that shard there"
    )


def check_files(folder: Path, manifest: Manifest) -> None:
    """Raises StoreError unless all files of the manifest exist, are readable, and are the right shards."""
    for number in range(manifest.shards):
        with Store.open(shard_path(folder, manifest, number), read_only=True) as store:
            check_shard(store, manifest, number)


class ShardedStore(Store):
    """The files of a cluster, open for reading: records from all files, plain tables of the first one."""

    def __init__(self, folder: Path, manifest: Manifest, parts: list[Store]) -> None:
        """Takes ownership of the open stores."""
        first = parts[0]
        self.path, self.identity = folder, first.identity
        self._parts = parts
        self.place = None
        self._manifest = manifest
        self.connection = first.connection
        self._catalog = first.catalog
        self._lock = None
        self._closed = False
        self._owner = os.getpid()
        self._evaluator_number = first.evaluator_number

    @property
    def parts(self) -> list[Store]:
        """The stores of all shards."""
        return self._parts

    def store_of(self, board: chess.Board) -> Store:
        """Returns the store of the shard that owns a position."""
        return self._parts[owner_of(board, self._manifest.owners)]

    def read(self, board: chess.Board) -> NodeRecord | None:
        """Returns the record of a position, or None."""
        return self.store_of(board).read(board)

    def may_hold(self, words: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Returns which positions the cluster may hold; see `Store.may_hold`."""
        numbers = owners_of(keys, self._manifest.owners)
        found = np.zeros(len(keys), np.bool_)
        for number, part in enumerate(self._parts):
            mine = numbers == number
            if mine.any():
                found[mine] = part.may_hold(words[mine], keys[mine])
        return found

    def scan(self, *, on_corrupt: OnCorrupt | None = None) -> Iterator[RecordBatch]:
        """Yields every record once, in segment order over all files; see `Store.scan`."""
        yield from in_file_order([part.scan(on_corrupt=on_corrupt) for part in self._parts])

    @property
    def node_count(self) -> int:
        """Distinct records of all shards."""
        return sum(part.node_count for part in self._parts)

    def roots(self) -> list[RootInfo]:
        """Returns the roots of all shards, the last searched first; of each root its latest row."""
        every = [root for part in self._parts for root in part.roots()]
        found = {root.key: root for root in sorted(every, key=lambda root: root.last_searched)}
        by_key = sorted(found.values(), key=lambda root: root.key)  # order within one second, as in one file
        return sorted(by_key, key=lambda root: root.last_searched, reverse=True)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Holds one state of every file."""
        with ExitStack() as stack:
            for part in self._parts:
                stack.enter_context(part.snapshot())
            yield

    def close(self) -> None:
        """Closes all files."""
        if not self._closed:
            self._closed = True
            for part in self._parts:
                part.close()

    def reader(self, *, threads: int = 2) -> Reader:
        """Returns a reader of all files; see `Store.reader`."""
        return self.reader_of([part.reader(threads=threads) for part in self._parts])

    def reader_of(self, readers: Sequence[Reader]) -> Reader:
        """Returns one reader that combines the readers of all files, and closes them when it is closed."""
        return ShardedReader(readers, self._manifest.owners)

    # the inherited versions would read the first file only
    @property
    def catalog(self) -> Catalog:
        """Raises StoreError: each file has its own catalog."""
        self._refuse()

    def fetch_portion(self, start: int = 0) -> Portion:
        """Raises StoreError: a portion belongs to one file."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise StoreError(
            f"{self.path} is a cluster, and this needs one file; make one with"
            f" `graphsearch store merge {self.path} -o one.graph`"
        )


def open_to_read(path: str | os.PathLike[str]) -> Store:
    """Returns the store of a graph file or of a cluster's folder, for reading.

    Raises:
      StoreError: if it cannot be read.
    """
    return open_sharded(Path(path)) if is_sharded(path) else Store.open(path, read_only=True)


def open_parts(stack: ExitStack, folder: Path, manifest: Manifest, *, read_only: bool) -> list[Store]:
    """Opens the files of all shards; `stack` closes them.

    Raises:
      StoreError: if a file is missing, belongs to another shard, or cannot be opened.
    """
    parts = []
    for number in range(manifest.shards):
        part = stack.enter_context(Store.open(shard_path(folder, manifest, number), read_only=read_only))
        check_shard(part, manifest, number)
        parts.append(part)
    return parts


def open_sharded(folder: Path) -> ShardedStore:
    """Returns a cluster, open for reading.

    Raises:
      StoreError: if the folder is not a cluster, or a file is missing, misplaced or unreadable.
    """
    manifest = read_manifest(folder)
    with ExitStack() as stack:
        parts = open_parts(stack, folder, manifest, read_only=True)
        stack.pop_all()
        return ShardedStore(folder, manifest, parts)


def file_of_tables(path: str | os.PathLike[str]) -> Path:
    """Returns the file with the plain tables of a graph: the graph file, or the first file of a cluster."""
    real = real_path(path)
    return shard_path(real, read_manifest(real), 0) if is_sharded(real) else real


def files_of(folder: str | os.PathLike[str]) -> list[Path]:
    """Returns the files of a cluster.

    Raises:
      StoreError: if the folder is not a cluster, or a file is missing.
    """
    manifest = read_manifest(folder)
    return [shard_path(Path(folder), manifest, number) for number in range(manifest.shards)]


def sharded_bytes(folder: str | os.PathLike[str]) -> int:
    """Returns the size of all files of a cluster in bytes, write-ahead logs included."""
    return sum(file_bytes(file) for file in files_of(folder))


PER_CENT = 100

Progress = Callable[[int, int], None]


def in_turn(files: Sequence[Path], progress: Progress | None) -> Iterator[tuple[Path, Progress | None]]:
    """Yields each file with a callback for its own progress, which reports that of all files in per cent.

    A file counts by its bytes. When the progress within a file starts again, such as for a second pass, the
    callback reports nothing until it passes the last report.
    """
    sizes = [file_bytes(file) for file in files]
    whole, before, told = max(1, sum(sizes)), 0, -1

    def tell(bytes_done: float) -> None:
        nonlocal told
        per_cent = int(PER_CENT * bytes_done / whole)
        if progress and per_cent > told:
            told = per_cent
            progress(per_cent, PER_CENT)

    for file, size in zip(files, sizes, strict=True):

        def advance(done: int, total: int, before: int = before, size: int = size) -> None:
            tell(before + size * min(1.0, done / max(1, total)))

        yield file, advance
        before += size
        tell(before)


TOP_TABLES = ("top_position", "top_edge")  # each row is in the file of the position's record
ROOT_TABLES = ("root", "root_history", *TOP_TABLES)  # each row is in the file of the root's owner
_VIEW = re.compile(r"^CREATE (VIEW \w+ AS\n.*?);$", re.MULTILINE | re.DOTALL)


def gather_tables(connection: sqlite3.Connection, parts: Sequence[Store], path: Path) -> None:
    """Makes a connection to the first file see the rows of all files in the tables of roots and in the views.

    Temporary tables and views of the same names hide those of the file. Their SQL comes from this program,
    because SQLite trusts temporary objects.

    Args:
      parts: the open files; it copies their rows, some hundred for each root. path: of the cluster.
    """
    with sql_errors(path, "read it"):
        connection.execute("PRAGMA query_only = 0")
        for table in ROOT_TABLES:
            _gather(connection, parts, table)
        for view in _VIEW.findall(tables_sql()):
            connection.execute(f"CREATE TEMP {view}")
        connection.execute("PRAGMA query_only = 1")


def _gather(connection: sqlite3.Connection, parts: Sequence[Store], table: str) -> None:
    """Creates the temporary table; of two rows with one key it keeps the later file's, as a merge does."""
    shape = TABLES[table]
    columns = shape.columns
    kinds = ", ".join(f"{name} {column.kind}" for name, column in columns.items())
    connection.execute(f"CREATE TEMP TABLE {table} ({kinds}, PRIMARY KEY ({', '.join(shape.key)}))")
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    for part in parts:
        rows = part.connection.execute(f"SELECT {names} FROM {table}")  # noqa: S608 (constants)
        connection.executemany(f"INSERT OR REPLACE INTO temp.{table} VALUES ({marks})", rows)  # noqa: S608
