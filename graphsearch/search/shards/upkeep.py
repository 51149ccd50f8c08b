"""Maintenance of a cluster's files: one by one where that is sound, else all together.

A writer holds the cluster as a search does, and first brings all files to one save; each file then stores its
new content as saved, so that the next search can still roll back. Progress is in per cent of all files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from ...base.errors import SchemaVersionError, StoreError
from ...graph.sweeps.refresh import TOLERANCE, OnProgress, RefreshReport, refresh_store
from ...store.file import data_version, open_reader, real_path
from ...store.lock import WriteLock
from ...store.sharded.cluster_store import open_to_write
from ...store.sharded.files import Progress, files_of, in_turn, open_sharded
from ...store.sharded.manifest import NAME, read_manifest
from ...store.sharded.saved_waves import go_back, note_changed
from ...store.store import Store
from ...store.tables import provenance
from ...store.upkeep import compact as compacting
from ...store.upkeep import prune as pruning
from ...store.upkeep import salvage as salvaging
from ...store.upkeep.backup import BackupReport, copy_state, sync_to_disk
from ...store.upkeep.compact import CompactReport
from ...store.upkeep.damaged import open_damaged
from ...store.upkeep.prune import PruneReport
from ...store.upkeep.salvage import SalvageReport
from .parting import mend, new_folder

Folder = str | os.PathLike[str]


@contextmanager
def held(folder: Folder) -> Iterator[None]:
    """Holds a cluster's write lock, with all files at one save; at the end each stores its content as saved.

    Raises:
      StoreLockedError: if a search, or other maintenance, writes the cluster.
      StoreError: if a file is missing, belongs to another cluster, or cannot be written.
    """
    target, manifest = Path(folder), read_manifest(folder)
    lock = WriteLock(target / NAME)
    try:
        go_back(target, manifest)
        yield
        for file in files_of(folder):
            with Store.open(file) as store:
                note_changed(store)
    finally:
        lock.release()


def compact(folder: Folder, progress: Progress | None = None) -> CompactReport:
    """Makes all files of a cluster as small as their nodes allow; see `store.upkeep.compact`."""
    with held(folder):
        reports = [compacting.compact(*each) for each in in_turn(files_of(folder), progress)]
    return CompactReport(*_sums(reports))


def prune(folder: Folder, min_visits: int, progress: Progress | None = None) -> PruneReport:
    """Drops the records with fewer visits from all files of a cluster; see `store.upkeep.prune`."""
    with held(folder):
        with open_sharded(Path(folder)) as store:
            roots = store.roots()  # of any file: a file that was split lists all in one place
        files = in_turn(files_of(folder), progress)
        reports = [pruning.prune(file, min_visits, advance, roots=roots) for file, advance in files]
    return PruneReport(*_sums(reports))


def _sums(reports: Sequence[CompactReport] | Sequence[PruneReport]) -> list[int]:
    return [sum(numbers) for numbers in zip(*(one.as_dict().values() for one in reports), strict=True)]


def refresh(
    folder: Folder,
    tolerance: float = TOLERANCE,
    *,
    ram_bytes: int | None = None,
    on_progress: OnProgress | None = None,
) -> RefreshReport:
    """Updates every edge to its child's present value, in whichever file that is; see `graph.sweeps.refresh`.

    One table holds the values of all nodes of the cluster, 20 bytes each; otherwise it works in parts.
    """
    with open_to_write(folder) as store:
        report = refresh_store(store, tolerance, ram_bytes=ram_bytes, on_progress=on_progress)
        for part in store.parts:
            note_changed(part)
        return report


def backup(folder: Folder, copy: Folder, *, progress: Progress | None = None) -> BackupReport:
    """Copies a cluster in its present state; others may read and search it meanwhile.

    The state of all files is fixed at one moment before the first is copied. If a save was under way, some
    have it and some do not; the next search of the copy rolls back to the save before, as after a kill.

    Raises:
      StoreError: if the cluster cannot be read, or the copy exists already or cannot be written.
    """
    target, manifest = real_path(copy), read_manifest(folder)
    open_sharded(Path(folder)).close()  # its files belong together
    check_free(target)
    with new_folder(target) as part, ExitStack() as stack:
        files = files_of(real_path(folder))
        states = {file: stack.enter_context(closing(open_reader(file))) for file in files}
        for connection in states.values():
            connection.execute("BEGIN")
            data_version(connection)  # which fixes the state that it sees
        nodes = sum(provenance.node_count(connection) for connection in states.values())
        for file, advance in in_turn(files, progress):
            copy_state(states[file], file, part / file.name, advance)
        manifest.write(part)
        for file in part.iterdir():
            sync_to_disk(file)
    return BackupReport(str(target), nodes, sum(file.stat().st_size for file in files_of(target)))


def salvage(folder: Folder, new: Folder, *, progress: Progress | None = None) -> SalvageReport:
    """Writes a new cluster from the sound part of a damaged one, which is only read.

    A missing file, or one too damaged to open, becomes an empty one. See `store.upkeep.salvage`.

    Raises:
      StoreError: if the manifest or every file is too damaged to open, or the new cluster exists already or
        cannot be written.
    """
    source, manifest, report = real_path(folder), read_manifest(folder), SalvageReport()
    check_free(new)
    with new_folder(new) as part:
        manifest.write(part)
        faults = [_why_unreadable(source / name) for name in manifest.files]
        there = [source / name for name, fault in zip(manifest.files, faults, strict=True) if not fault]
        if not there:
            raise StoreError(f"{folder}: no file of this cluster can be read; {faults[0]}")
        for file, advance in in_turn(there, progress):
            new_file = part / file.name
            report.join(salvaging.salvage(file, new_file, identity=manifest.identity, progress=advance))
        for number in mend(part):
            report.add(f"{faults[number]}; shard {number} is empty now")
    return report


def _why_unreadable(file: Path) -> str:
    """Returns why nothing can be read from a file, empty if something can."""
    if not file.exists():
        return f"{file} is missing"
    try:
        open_damaged(file).close()
    except SchemaVersionError:
        raise
    except StoreError as error:
        return str(error)
    return ""


def check_free(folder: Folder) -> None:
    """Raises StoreError if the path exists."""
    if Path(folder).exists():
        raise StoreError(f"{folder} is there already; name another folder")
