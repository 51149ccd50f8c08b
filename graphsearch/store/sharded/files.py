"""The files of a cluster: whether they belong together, and reading them as one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn

import chess
import numpy as np
from numpy.typing import NDArray

from ...errors import EvaluatorMismatchError, InputFileError, StoreError
from ..file import file_bytes, real_path
from ..index.catalog import Catalog
from ..portions import in_file_order
from ..reading import Reader
from ..record.node import NodeRecord, RecordBatch
from ..record.provenance import RootInfo, differences
from ..scanning import Portion
from ..segments import OnCorrupt
from ..store import Store
from .manifest import FACT, Manifest, is_sharded, read_manifest
from .ownership import owner_of, owners_of
from .reading import ShardedReader


def shard_path(folder: Path, manifest: Manifest, number: int) -> Path:
    """Returns the file of a shard.

    Raises:
      StoreError: if it is missing.
    """
    path = folder / manifest.files[number]
    if path.exists() and not path.is_file():
        raise StoreError(f"{path} is no file; move it away, and put the file of shard {number} there")
    if not path.exists():
        raise StoreError(
            f"{folder}: shard {number}, {path.name}, is missing; restore it, or have it made empty with"
            f" `graphsearch store mend {folder}`: what it held is evaluated again"
        )
    return path


def check_shard(store: Store, manifest: Manifest, number: int) -> None:
    """Raises StoreError unless a file is the one that the manifest means."""
    text = store.read_fact(FACT)
    if text == manifest.fact(number):
        if store.is_bound and store.identity != manifest.identity:
            raise EvaluatorMismatchError(
                f"{store.path} is bound to another evaluator than its cluster:"
                f" {differences(store.identity, manifest.identity)}"
            )
        return
    from ...outside import ShardFact, declared

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
    """Raises StoreError unless all files are there, can be read, and are those that the manifest means."""
    for number in range(manifest.shards):
        with Store.open(shard_path(folder, manifest, number), read_only=True) as store:
            check_shard(store, manifest, number)


class ShardedStore(Store):
    """The files of a cluster, open for reading: records by their owners, plain tables of the first file."""

    def __init__(self, folder: Path, manifest: Manifest, parts: list[Store]) -> None:
        """Takes open stores, which it closes."""
        first = parts[0]
        self.path, self.identity = folder, first.identity
        self._parts = parts
        self.place = None
        self._manifest = manifest
        self._connection = first.connection
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
        """Yields every record once, in the order of one file; see `Store.scan`."""
        yield from in_file_order([part.scan(on_corrupt=on_corrupt) for part in self._parts])

    @property
    def node_count(self) -> int:
        """Distinct records of all shards."""
        return sum(part.node_count for part in self._parts)

    def roots(self) -> list[RootInfo]:
        """Returns the roots of all shards, the last searched first, each as it was searched last."""
        every = [root for part in self._parts for root in part.roots()]
        found = {root.key: root for root in sorted(every, key=lambda root: root.last_searched)}
        by_key = sorted(found.values(), key=lambda root: root.key)  # those of one second, as in one file
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

    def lookup(self, words: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], RecordBatch]:
        """Returns which packed positions have a record, and the records of those; see `Store.lookup`."""
        with self.reader() as reader:
            return reader.find(words, strict=True)

    def reader(self, *, threads: int = 2) -> Reader:
        """Returns a reader of all files; see `Store.reader`."""
        return self.reader_of([part.reader(threads=threads) for part in self._parts])

    def reader_of(self, readers: Sequence[Reader]) -> Reader:
        """Returns readers of all files as one, which closes them."""
        return ShardedReader(readers, self._manifest.owners)

    # what would look at the first file alone
    @property
    def catalog(self) -> Catalog:
        """There is none: each file has its own."""
        self._refuse()

    def fetch_portion(self, start: int = 0) -> Portion:
        """Refuses: a portion is of one file."""
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
    """Returns the open files of all shards, which `stack` closes.

    Raises:
      StoreError: if one is missing or another's, or cannot be opened.
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
      StoreError: if it is none, a file of it is missing or another's, or cannot be read.
    """
    manifest = read_manifest(folder)
    with ExitStack() as stack:
        parts = open_parts(stack, folder, manifest, read_only=True)
        stack.pop_all()
        return ShardedStore(folder, manifest, parts)


def file_of_tables(path: str | os.PathLike[str]) -> Path:
    """Returns the file that has the plain tables of a graph: it itself, or the first one of a cluster."""
    real = real_path(path)
    return shard_path(real, read_manifest(real), 0) if is_sharded(real) else real


def files_of(folder: str | os.PathLike[str]) -> list[Path]:
    """Returns the files of a cluster.

    Raises:
      StoreError: if it is none, or one of them is missing.
    """
    manifest = read_manifest(folder)
    return [shard_path(Path(folder), manifest, number) for number in range(manifest.shards)]


def sharded_bytes(folder: str | os.PathLike[str]) -> int:
    """Returns the size of all files of a cluster, write-ahead logs included."""
    return sum(file_bytes(file) for file in files_of(folder))
