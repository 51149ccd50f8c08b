"""Creates clusters, splits a graph file into one, and merges one into a graph file.

    one.graph  a b c d e f ...  (in the order of the file)  -- split -->   0: a c f   1: b e   2: d ...
                                                            <-- merge --   by the same order

Records are copied in bounded batches, plain tables unchanged: to the first shard, and the tables about the
sources of records to all shards.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ...base.answer import Answer
from ...base.errors import InvalidParameterError, MissingStoreError, StoreError
from ...evaluators.factory import EvaluatorSpec, create
from ...store.codec.bulk import take
from ...store.file import real_path, shorten_log, sql_errors
from ...store.lock import WriteLock
from ...store.record.node import RecordBatch
from ...store.record.provenance import EvaluatorIdentity
from ...store.segments import keys_of
from ...store.sharded.files import (
    ROOT_TABLES,
    TOP_TABLES,
    Progress,
    check_files,
    check_shard,
    open_to_read,
    shard_path,
)
from ...store.sharded.manifest import FACT, NAME, Manifest, is_sharded, read_manifest
from ...store.sharded.ownership import MAX_SHARDS, owners_of
from ...store.sharded.saved_waves import Save, note_save, saves_of
from ...store.side_files import file_bytes
from ...store.store import Store
from ...store.tables import provenance
from ...store.tables.columns import TABLES
from ...store.tables.rows import insert
from ...store.upkeep.backup import new_file
from ...store.upkeep.compact import shrink
from ...store.upkeep.damaged import PLAIN
from ...store.writing import NewSegment

PROVENANCE = ("evaluator", "run")  # tables about the sources of records
ENTRIES = ("entry_piece", "entry_run", "entry_iteration")  # proofs that any shard may need
HELD = 1 << 17  # records waiting to be written, over all shards
FACTS = ("created", "created_by")


@dataclass(frozen=True, slots=True)
class Parted(Answer):
    """Report of a split or a merge.

    Attributes:
      path: the cluster or the file. shards: of the cluster. nodes: records. bytes: on disk.
    """

    path: str
    shards: int
    nodes: int
    bytes: int


class _Target:
    """A new file that receives records in the order of a segment."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._waiting: list[RecordBatch] = []
        self._segment: NewSegment | None = None
        self.held = 0

    def add(self, batch: RecordBatch) -> None:
        """Appends records."""
        if len(batch):
            self._waiting.append(batch)
            self.held += len(batch)

    def write(self) -> None:
        """Writes the waiting records."""
        if not self.held:
            return
        batch = RecordBatch.concat(self._waiting)
        self._waiting, self.held = [], 0
        with self.store.rearranging():
            connection = self.store.connection
            self._segment = self._segment or NewSegment(connection, self.store.catalog)
            self._segment.append(batch)
            provenance.add_nodes(connection, len(batch))
        shorten_log(self.store)


def split(
    path: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    shards: int,
    progress: Progress | None = None,
) -> Parted:
    """Splits a graph file, which is only read, into a cluster.

    Args:
      folder: the cluster's; new or empty.
      progress: called with the records written and all records.

    Raises:
      InvalidParameterError: for an impossible number of shards.
      StoreError: if the file cannot be read, or the folder cannot be written or is not empty.
    """
    check_new(folder, shards)
    with Store.open(path, read_only=True) as source, source.snapshot():
        if not source.is_bound:
            raise StoreError(f"{path} is bound to no evaluator yet; search with it first")
        manifest = Manifest.new(shards, source.identity)
        with new_folder(folder) as part, ExitStack() as stack:
            files = enumerate(part / name for name in manifest.files)
            targets = [_Target(stack.enter_context(_new_shard(f, manifest, k))) for k, f in files]
            for number, shard in enumerate(targets):
                chosen = [n for n in PLAIN if number == 0 or n in (*ENTRIES, *TOP_TABLES)]
                _copy_tables(source, shard.store, (*PROVENANCE, *chosen))
            _distribute(source, targets, manifest, progress)
            for shard in targets:
                _follow(shard.store)
                shrink(shard.store)
            manifest.write(part)
    target = Path(folder)
    nodes = sum(shard_nodes(target, manifest))
    return Parted(str(target), shards, nodes, _bytes(target, manifest))


def _distribute(
    source: Store, targets: Sequence[_Target], manifest: Manifest, progress: Progress | None
) -> None:
    """Writes every record to its owner."""
    done, total = 0, source.node_count
    for batch in source.scan():
        owners = owners_of(keys_of(batch.words), manifest.owners)
        for number, shard in enumerate(targets):
            shard.add(take(batch, np.flatnonzero(owners == number)))
        if sum(shard.held for shard in targets) > HELD:
            for shard in targets:
                shard.write()
        done += len(batch)
        if progress:
            progress(done, max(done, total))
    for shard in targets:
        shard.write()


def new_cluster(folder: str | os.PathLike[str], *, shards: int, identity: EvaluatorIdentity) -> Manifest:
    """Creates a cluster without records; returns its manifest.

    Raises:
      InvalidParameterError: for an impossible number of shards.
      StoreError: if the folder cannot be written, or is not empty.
    """
    check_new(folder, shards)
    manifest = Manifest.new(shards, identity)
    with new_folder(folder) as part:
        for number in range(shards):
            with _new_shard(part / manifest.files[number], manifest, number):
                pass
        manifest.write(part)
    return manifest


@contextmanager
def cluster_at(
    path: str | os.PathLike[str], shards: int | None, identity: Callable[[], EvaluatorIdentity]
) -> Iterator[Manifest]:
    """Yields the manifest of a cluster; a new one is removed if the body fails before it has records.

    Args:
      path: the folder. shards: their number; None: that of an existing cluster.
      identity: returns the identity that a new one is bound to.

    Raises:
      InvalidParameterError: for an impossible number of shards.
      StoreError: if the cluster has another number of shards, its files do not belong together, or it cannot
        be created.
    """
    folder = Path(path)
    if is_sharded(folder) or shards is None:
        manifest = read_manifest(folder)
        if shards not in (None, manifest.shards):
            raise StoreError(
                f"{folder} has {manifest.shards} shards, not {shards}; leave the number out, or make another"
                " cluster: `graphsearch store merge`, then `split`"
            )
        check_files(folder, manifest)
        yield manifest
        return
    check_new(folder, shards)
    manifest = new_cluster(folder, shards=shards, identity=identity())
    try:
        yield manifest
    except BaseException:
        with suppress(StoreError):
            if not sum(shard_nodes(folder, manifest)):
                shutil.rmtree(folder, ignore_errors=True)
        raise


def identity_of(spec: EvaluatorSpec) -> EvaluatorIdentity:
    """Returns the identity of the evaluator of a spec.

    Raises:
      EvaluatorError: if the evaluator cannot be created.
    """
    with closing(create(replace(spec, pool=None))) as made:
        return made.identity


def mend(folder: str | os.PathLike[str]) -> list[int]:
    """Creates the missing files of a cluster, without records; returns the shards that were missing.

    A search that reaches their positions evaluates them again, and they catch up.

    Raises:
      StoreLockedError: if the cluster is being searched.
      StoreError: if the folder has no manifest, a file belongs to another cluster, or cannot be created.
    """
    target, manifest = Path(folder), read_manifest(folder)
    there = [k for k in range(manifest.shards) if (target / manifest.files[k]).exists()]
    missing = [k for k in range(manifest.shards) if k not in there]
    for number in there:
        with Store.open(shard_path(target, manifest, number), read_only=True) as store:
            check_shard(store, manifest, number)
    if missing:
        lock = WriteLock(target / NAME)  # no search may run
        try:
            for number in missing:
                _make_anew(target, manifest, number, there[:1])
        finally:
            lock.release()
    return missing


def _make_anew(folder: Path, manifest: Manifest, number: int, others: Sequence[int]) -> None:
    """Creates the file of a shard without records; it gets its name when it is complete.

    Args:
      others: a shard whose file has the tables of all files, if there is any.
    """
    with ExitStack() as stack:
        new = stack.enter_context(new_file(folder / manifest.files[number], force=False))
        made = stack.enter_context(_new_shard(new, manifest, number))
        for other in others:
            source = stack.enter_context(Store.open(shard_path(folder, manifest, other), read_only=True))
            _copy_tables(source, made, (*PROVENANCE, *ENTRIES))
            number_of = saves_of(source)[0].number
            with made.transaction():
                note_save(made, Save(number=number_of))


def merge(
    folder: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    force: bool = False,
    progress: Progress | None = None,
) -> Parted:
    """Merges a cluster, which is only read, into one graph file.

    Args:
      force: replace an existing file.
      progress: called with the records written and all records.

    Raises:
      StoreError: if the cluster cannot be read, or the file cannot be written.
    """
    target = real_path(path)
    read_manifest(folder)
    with (
        open_to_read(folder) as source,
        source.snapshot(),
        new_file(target, force=force) as new,
        Store.open(new, create=True, identity=source.identity) as store,
    ):
        _copy_tables(source, store, (*PROVENANCE, *PLAIN))
        for part in source.parts[1:]:  # a root is listed by the shard that owns it
            _copy_tables(part, store, ROOT_TABLES)
        written, done, total = _Target(store), 0, source.node_count
        for batch in source.scan():
            written.add(batch)
            if written.held > HELD:
                written.write()
            done += len(batch)
            if progress:
                progress(done, max(done, total))
        written.write()
        _follow(store)
        shrink(store)
        nodes = store.node_count
    return Parted(str(target), 1, nodes, file_bytes(target))


def _follow(store: Store) -> None:
    """Removes the rows of well-visited positions without records in the file."""
    with store.transaction():
        store.records_changed(None)


def _copy_tables(source: Store, target: Store, names: Sequence[str]) -> None:
    """Copies the rows of plain tables, and the file's date of creation."""
    with sql_errors(source.path, "read it"), target.transaction():
        execute = source.connection.execute
        for name in names:
            columns = tuple(TABLES[name].columns)
            rows = execute(f"SELECT {', '.join(columns)} FROM {name}")  # noqa: S608 (the schema's names)
            insert(target.connection, name, columns, rows)
        if "evaluator" in names:  # after `reevaluate` it is not the first one
            target.bind_evaluator(source.evaluator_number)
        for fact in FACTS:
            value = source.read_fact(fact)
            if value is not None:
                target.write_fact(fact, value)


def _new_shard(path: Path, manifest: Manifest, number: int) -> Store:
    """Returns the new file of a shard, open."""
    store = Store.open(path, identity=manifest.identity, create=True)
    store.write_fact(FACT, manifest.fact(number))
    return store


def check_new(folder: str | os.PathLike[str], shards: int) -> None:
    """Checks that a new cluster can be created.

    Raises:
      InvalidParameterError: for an impossible number of shards.
      StoreError: if the folder is not empty, or cannot be created.
    """
    if not 1 <= shards <= MAX_SHARDS:
        raise InvalidParameterError(f"shards must be 1 to {MAX_SHARDS}, not {shards}")
    target = Path(folder)
    if is_sharded(target):
        raise StoreError(f"{target} is a cluster already; name another folder")
    if target.exists() and (not target.is_dir() or list(target.iterdir())):
        raise StoreError(f"{target} is there already and is no cluster; name another folder")
    if not target.absolute().parent.is_dir():
        raise MissingStoreError(f"{target.absolute().parent} does not exist; make this folder first")


@contextmanager
def new_folder(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields a temporary folder for a new cluster; it gets its final name if the body succeeds.

    The remains of an earlier attempt are removed.

    Raises:
      StoreError: if it cannot be created.
    """
    target = Path(folder)
    part = target.with_name(target.name + ".part")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        try:
            yield part
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        if target.is_dir():
            target.rmdir()
        part.rename(target)
    except OSError as error:
        raise StoreError(f"{target} cannot be made: {error.strerror or error}") from None


def shard_nodes(folder: Path, manifest: Manifest) -> list[int]:
    """Returns the number of records of each shard."""
    counts = []
    for number in range(manifest.shards):
        with Store.open(shard_path(folder, manifest, number), read_only=True) as store:
            counts.append(store.node_count)
    return counts


def _bytes(folder: Path, manifest: Manifest) -> int:
    return sum(file_bytes(folder / name) for name in manifest.files)
