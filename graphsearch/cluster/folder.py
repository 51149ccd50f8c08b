"""The files of a cluster: whether they belong together, and reading them as one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import chess
import numpy as np
from numpy.typing import NDArray

from ..errors import EvaluatorMismatchError, StoreError
from ..record.node import NodeRecord
from ..record.provenance import differences
from ..store.file import file_bytes
from ..store.store import Store
from .manifest import FACT, Manifest, read_manifest
from .ownership import owner_of, owners_of


def shard_path(folder: Path, manifest: Manifest, number: int) -> Path:
    """Returns the file of a shard.

    Raises:
      StoreError: if it is missing.
    """
    path = folder / manifest.files[number]
    if not path.is_file():
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
    try:
        found = json.loads(text or "null")
        which = f"shard {found['shard']} of {found['of']} of cluster {found['cluster'][:8]}"
    except (ValueError, KeyError, TypeError):
        which = "a graph file of no cluster"
    raise StoreError(
        f"{store.path} should be shard {number} of {manifest.shards} of cluster {manifest.cluster[:8]} and is"
        f" {which}; put the file of that shard there"
    )


def check_all(folder: Path, manifest: Manifest) -> None:
    """Raises StoreError unless all files of a cluster are there and belong to it."""
    for number in range(manifest.shards):
        with Store.open(shard_path(folder, manifest, number), read_only=True) as store:
            check_shard(store, manifest, number)


def files_of(path: str | os.PathLike[str]) -> list[Path]:
    """Returns the files of a cluster.

    Raises:
      StoreError: if it is none, or one of them is missing.
    """
    folder, manifest = Path(path), read_manifest(path)
    return [shard_path(folder, manifest, number) for number in range(manifest.shards)]


class ShardedStore(Store):
    """The first shard's file, open for reading, that also answers for what the others hold.

    Plain tables are in the first file; records are with their owners.
    """

    _manifest: Manifest
    _others: list[Store]

    def join(self, folder: Path, manifest: Manifest, others: list[Store]) -> None:
        """Takes the other shards in."""
        self.path, self._manifest, self._others = folder, manifest, others

    @property
    def shards(self) -> list[Store]:
        """The stores of all shards but the first, which is this one."""
        return self._others

    def _of(self, number: int) -> Store:
        return self._others[number - 1]

    def read(self, board: chess.Board) -> NodeRecord | None:
        """Returns the record of a position, or None."""
        number = owner_of(board, self._manifest.owners)
        return self._of(number).read(board) if number else super().read(board)

    def may_hold(self, words: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Returns which positions the cluster may hold; see `Store.may_hold`."""
        numbers = owners_of(keys, self._manifest.owners)
        found = np.zeros(len(keys), np.bool_)
        for number in range(self._manifest.shards):
            mine = numbers == number
            ask = self._of(number).may_hold if number else super().may_hold
            found[mine] = ask(words[mine], keys[mine])
        return found

    @property
    def node_count(self) -> int:
        """Distinct records of all shards."""
        return super().node_count + sum(store.node_count for store in self._others)


@contextmanager
def open_cluster(path: str | os.PathLike[str]) -> Iterator[ShardedStore]:
    """Yields a cluster for reading, each file as it is now.

    Raises:
      StoreError: if it is none, a file of it is missing or another's, or cannot be read.
    """
    folder, manifest = Path(path), read_manifest(path)
    with ExitStack() as stack:
        stores: list[Store] = []
        for number in range(manifest.shards):
            kind = Store if number else ShardedStore
            file = shard_path(folder, manifest, number)
            store = stack.enter_context(kind.open(file, read_only=True))
            check_shard(store, manifest, number)
            stack.enter_context(store.snapshot())
            stores.append(store)
        first = stores[0]
        assert isinstance(first, ShardedStore)
        first.join(folder, manifest, stores[1:])
        yield first


def cluster_bytes(path: str | os.PathLike[str]) -> int:
    """Returns the size of all files of a cluster, write-ahead logs included."""
    return sum(file_bytes(file) for file in files_of(path))
