"""Compacting, pruning and copying a file: what stays, what goes, and that a stop halfway harms nothing."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import chess
import pytest

from graphsearch.base.errors import InvalidParameterError, StoreError, StoreLockedError
from graphsearch.position.board import unpack
from graphsearch.store.segments import keys_of
from graphsearch.store.side_files import file_bytes
from graphsearch.store.sizes import Sizes
from graphsearch.store.store import Store
from graphsearch.store.tables.top import rows_of
from graphsearch.store.upkeep.backup import backup
from graphsearch.store.upkeep.compact import compact
from graphsearch.store.upkeep.prune import prune
from graphsearch.store.upkeep.verify import verify

from ..conftest import ROOT, sql
from .records import IDENTITY, Records, batch_of, changed, contents, filled, identity

RECORDS = Records(71, 600)
NEWER = [changed(record, random.Random(k)) for k, record in enumerate(RECORDS[::2])]
NEWEST = {identity(record): record for record in [*RECORDS, *NEWER]}


class Stop(Exception):  # noqa: N818
    """What a test ends a maintenance with."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = filled(tmp_path / "test.graph", RECORDS, runs=6)
    with Store.open(path) as store:
        store.append(batch_of(NEWER), fresh=0)
    return path


def test_compacting_keeps_the_newest_versions_and_gives_room_back(path: Path) -> None:
    size = file_bytes(path)
    report = compact(path)
    assert report.as_dict() == {
        "nodes": 600,
        "superseded": 300,
        "runs": 7,
        "bytes_before": size,
        "bytes_after": file_bytes(path),
    }
    assert report.bytes_after < size
    assert verify(path).problems == []
    with Store.open(path) as store:
        assert contents(store) == NEWEST
        assert store.connection.execute("PRAGMA freelist_count").fetchone() == (0,)
    again = compact(path)
    assert (again.superseded, again.bytes_after) == (0, again.bytes_before)


@pytest.mark.parametrize(
    "spoil",
    [
        "DELETE FROM sqlite_sequence",
        "UPDATE sqlite_sequence SET seq = 'x'",
        "UPDATE sqlite_sequence SET name = '1' WHERE name = 'chunk'",
    ],
)
def test_no_number_of_a_chunk_is_given_twice_though_sqlites_count_is_damaged(path: Path, spoil: str) -> None:
    sql(path, spoil)
    compact(path)
    assert verify(path).problems == []
    with Store.open(path) as store:
        assert contents(store) == NEWEST


def test_compacting_empties_the_log_while_a_reader_is_there(path: Path) -> None:
    with Store.open(path, read_only=True) as reader:
        assert reader.node_count == 600
        compact(path)
        assert path.with_name(path.name + "-wal").stat().st_size == 0
        assert contents(reader) == NEWEST


@pytest.mark.parametrize("stop", [1, 5])
def test_compacting_may_stop_at_any_step(path: Path, stop: int) -> None:
    calls = iter(range(1, 100))

    def stopping(done: int, total: int) -> None:
        assert 0 <= done <= total
        if next(calls) == stop:
            raise Stop

    with pytest.raises(Stop):
        compact(path, stopping, sizes=Sizes(step_blocks=3, vacuum_pages=1))
    assert verify(path).problems == []
    compact(path)
    with Store.open(path) as store:
        assert contents(store) == NEWEST


def test_pruning_drops_what_has_few_visits_and_keeps_roots(path: Path) -> None:
    root = next(record for record in NEWEST.values() if record.visits == 1)
    key = int(keys_of(batch_of([root]).words)[0])
    with Store.open(path) as store:
        store.record_root(f"{key:016x}", chess.STARTING_FEN, 1)
        many, few = (
            next(r for r in NEWEST.values() if (r.visits >= 10) == stays and r != root) for stays in (1, 0)
        )
        listed = [rows_of(record, unpack(record.words)) for record in (root, many, few)]
        store.write_top([rows.position for rows in listed], [row for rows in listed for row in rows.edges])
    expected = {k: r for k, r in NEWEST.items() if r.visits >= 10 or r == root}
    report = prune(path, 10)
    assert (report.nodes_before, report.nodes_after) == (600, len(expected))
    assert report.bytes_after == file_bytes(path) < report.bytes_before
    with Store.open(path) as store:
        assert contents(store) == expected
        positions = {key for (key,) in store.connection.execute("SELECT key FROM top_position")}
        edges = {key for (key,) in store.connection.execute("SELECT key FROM top_edge")}
        assert positions == {rows.position["key"] for rows in listed[:2]}
        assert edges == {rows.position["key"] for rows in listed[:2] if rows.edges}
    assert verify(path).problems == []


@pytest.mark.parametrize("stop", [1, 9])
def test_pruning_may_stop_at_any_step(path: Path, stop: int) -> None:
    calls = iter(range(1, 100))

    def stopping(done: int, total: int) -> None:
        if next(calls) == stop:
            raise Stop

    with pytest.raises(Stop):
        prune(path, 3, stopping, sizes=Sizes(step_blocks=3))
    assert verify(path).problems == []
    with Store.open(path) as store:
        part = contents(store)
        assert all(NEWEST[key] == record for key, record in part.items())
        assert all(key in part for key, record in NEWEST.items() if record.visits >= 3)
    prune(path, 3)
    with Store.open(path) as store:
        assert contents(store) == {k: r for k, r in NEWEST.items() if r.visits >= 3}


def test_pruning_below_one_visit_is_refused(path: Path) -> None:
    with pytest.raises(InvalidParameterError, match="at least 1"):
        prune(path, 0)


# -------------------------------------------------------------- backup

WRITER = """
import sys
from graphsearch.store.store import Store
from graphsearch.store.tables.top import rows_of
from tests.store.records import batch_of, random_records
records = random_records(71, 600)
with Store.open(sys.argv[1]) as store:
    while sys.stdin.readline():
        store.append(batch_of(records[:100]), fresh=0)
        store.merge_step()
        print("done", flush=True)
"""


def test_a_copy_is_of_one_moment_while_another_process_writes(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphsearch.store.upkeep.backup.STEP_PAGES", 1)
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as writer:
        calls: list[tuple[int, int]] = []
        commits = 0

        def commit(done: int, total: int) -> None:
            """Has the other process commit between any two steps."""
            nonlocal commits
            assert writer.stdin is not None
            assert writer.stdout is not None
            calls.append((done, total))
            assert len(calls) < 1000
            writer.stdin.write("\n")
            writer.stdin.flush()
            commits += writer.stdout.readline() == "done\n"

        report = backup(path, tmp_path / "copy.graph", progress=commit)
        assert writer.stdin is not None
        writer.stdin.close()
    assert commits == len(calls) > 5
    assert [done for done, _ in calls] == list(range(1, len(calls) + 1)), "never from the start again"
    assert report.as_dict() == {
        "path": str(tmp_path / "copy.graph"),
        "nodes": 600,
        "bytes": calls[-1][1] * 16384,
    }
    assert verify(tmp_path / "copy.graph").problems == []
    with Store.open(tmp_path / "copy.graph", read_only=True) as store:
        assert contents(store) == NEWEST
    assert sorted(p.name for p in tmp_path.iterdir()) == ["copy.graph", "test.graph"]
    assert verify(path).problems == []


def test_a_copy_overwrites_only_when_told_to(path: Path, tmp_path: Path) -> None:
    copy = filled(tmp_path / "copy.graph", RECORDS[:3])
    with pytest.raises(StoreError, match="exists already"):
        backup(path, copy)
    with Store.open(copy, read_only=True) as store:
        assert len(contents(store)) == 3
    for end in ("-wal", "-shm"):  # of a writer that was killed
        copy.with_name(copy.name + end).write_bytes(b"stale")
    backup(path, copy, force=True)
    with Store.open(copy) as store:
        assert contents(store) == NEWEST
        with pytest.raises(StoreLockedError):
            backup(path, copy, force=True)


def test_a_copy_needs_another_name_and_a_folder(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link.graph").symlink_to(path)
    os.link(path, tmp_path / "hard.graph")
    for target, what in (
        (path, "the file itself"),
        (tmp_path / "link.graph", "the file itself"),
        (tmp_path / "hard.graph", "the file itself"),
        (tmp_path, "is a folder"),
        (tmp_path / "none" / "copy.graph", "does not exist"),
    ):
        with pytest.raises(StoreError, match=what):
            backup(path, target, force=True)
    with pytest.raises(StoreError, match="does not exist"):
        backup(tmp_path / "none.graph", tmp_path / "copy.graph")


def test_a_copy_that_is_cut_short_leaves_nothing(path: Path, tmp_path: Path) -> None:
    (tmp_path / "copy.graph.part").write_bytes(b"of a copy that was killed")

    def stopping(done: int, total: int) -> None:
        raise Stop

    with pytest.raises(Stop):
        backup(path, tmp_path / "copy.graph", progress=stopping)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["test.graph"]


def test_an_empty_graph_is_copied_and_compacted(tmp_path: Path) -> None:
    path = tmp_path / "test.graph"
    Store.open(path, create=True, identity=IDENTITY).close()
    assert backup(path, tmp_path / "copy.graph").nodes == 0
    assert compact(path).nodes == 0
    assert prune(path, 5).nodes_after == 0
    assert verify(path).problems == []
