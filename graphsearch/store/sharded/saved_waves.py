"""Numbered saves of all files of a cluster, and rollback to the last one that all of them hold.

    shard 0   save 1 ------------- save 2 ----------- save 3 |  killed here: shard 1 has no save 3
    shard 1   save 1 ------------- save 2 -------            |
                                   all go back to here

With each save a file stores its number and the age of its newest segment, and keeps the entry of the previous
save. A save begins only after all files have the previous one, so the last save of any file is the last one
of all, or the one after it. Changes after a save are in younger segments: merges skip segments that not all
files are known to have. A rollback drops them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ...base.errors import InputFileError
from .. import merging
from ..segments import SegmentCursor
from ..store import Store
from ..tables import provenance
from .files import check_shard, shard_path
from .manifest import Manifest

FACT = "cluster_saves"  # row of store_info: the last saves, newest first
KEPT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """One save of one file.

    Attributes:
      number: of the save, the same in all files.
      age: of its newest segment. nodes: records then.
      run: number of the search. visits, evaluations: of the run up to then.
    """

    number: int = 0
    age: int = 0
    nodes: int = 0
    run: int = 0
    visits: int = 0
    evaluations: int = 0

    def later(self, number: int, visits: int, evaluations: int) -> Save:
        """Returns a later save of the same run, with so many visits and evaluations more."""
        return Save(
            number=number,
            run=self.run,
            visits=self.visits + visits,
            evaluations=self.evaluations + evaluations,
        )


def saves_of(store: Store) -> list[Save]:
    """Returns the last saves of a file, newest first; for a file without any, its present state."""
    from ...base.outside import SaveFacts, declared

    try:
        found = [Save(**one.model_dump()) for one in declared(SaveFacts, store.read_fact(FACT) or "[]")]
    except InputFileError:
        found = []
    return found or [Save(age=newest_age(store), nodes=store.node_count)]


def note_save(store: Store, save: Save) -> None:
    """Writes a save in the transaction that makes it; its age and nodes come from the file."""
    this = Save(**asdict(save) | {"age": newest_age(store), "nodes": store.node_count})
    kept = [this, *(one for one in saves_of(store) if one.number != this.number)][:KEPT]
    store.write_fact(FACT, json.dumps([asdict(one) for one in kept]))


def note_changed(store: Store) -> None:
    """Writes the last save of a file again: its present content counts as saved."""
    with store.transaction():
        note_save(store, saves_of(store)[0])


def newest_age(store: Store) -> int:
    """Returns the age of a file's newest segment, 0 if it has none."""
    row = store.connection.execute("SELECT max(age) FROM segment").fetchone()
    return int(row[0] or 0)


def go_back(folder: Path, manifest: Manifest) -> tuple[Save, list[int]]:
    """Rolls all files back to the last save that all of them hold.

    Returns:
      The last save that any file has had, with the search's counts at the one that all have, and the shards
        that were rolled back.

    Raises:
      StoreLockedError: if a process writes one of the files.
      StoreError: if a file is missing, belongs to another cluster, or cannot be written.
    """
    known = []
    for number in range(manifest.shards):
        with Store.open(shard_path(folder, manifest, number), read_only=True) as store:
            check_shard(store, manifest, number)
            known.append((saves_of(store), newest_age(store)))
    common = min(saves[0].number for saves, _ in known)
    gone_back = []
    for number, (saves, age) in enumerate(known):
        at = next((one for one in saves if one.number == common), None)
        is_behind = at is not None and age > at.age and len(known) > 1  # one file is at one state anyway
        if at and is_behind and _drop_younger(shard_path(folder, manifest, number), at, saves):
            gone_back.append(number)
    first = next((one for one in known[0][0] if one.number == common), Save())
    return replace(first, number=common if gone_back else max(s[0].number for s, _ in known)), gone_back


def _drop_younger(path: Path, at: Save, saves: Sequence[Save]) -> bool:
    """Drops the segments of a file that are younger than a save; returns whether that was possible.

    It is impossible after a merge of younger with older segments: then all stay. A graph with shards at
    different waves is sound: its edges may have more visits than the records below them, which catch up.
    """
    with Store.open(path) as store:
        older = sum(s.records for s in store.catalog.segments if s.age <= at.age)
        if older < at.nodes or any(s.merged_into and s.age > at.age for s in store.catalog.segments):
            return False
        kept = [asdict(one) for one in saves if one.number <= at.number]
        with store.rearranging():
            for segment in [one for one in store.catalog.segments if one.age > at.age]:
                cursor = SegmentCursor(store.catalog, segment)
                merging.drop(store.connection, cursor, len(cursor.keys))
                store.connection.execute("DELETE FROM segment WHERE id = ?", (segment.id,))
            provenance.add_nodes(store.connection, at.nodes - store.node_count)
            store.records_changed(None)
            store.write_fact(FACT, json.dumps(kept))
        store.checkpoint()
    return True
