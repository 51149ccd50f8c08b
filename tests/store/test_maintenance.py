"""Compacting, pruning and copying a file: what stays, what goes, and that a stop halfway harms nothing."""

from __future__ import annotations

import os
import random
import shutil
from functools import cache
from pathlib import Path

import chess
import pytest

from graphsearch.base.errors import InvalidParameterError, StoreError, StoreLockedError
from graphsearch.position.board import fen_of, unpack
from graphsearch.store.backup import backup
from graphsearch.store.file import file_bytes
from graphsearch.store.record import NodeRecord, keys_of
from graphsearch.store.rewrite import Progress, compact
from graphsearch.store.store import Store
from graphsearch.store.tables.top import rows_of
from graphsearch.store.verify import verify

from ..conftest import sql
from ..support.forks import Fork, Say, needs_fork
from .records import IDENTITY, Records, batch_of, by_identity, changed, contents, filled, held

RECORDS = Records(71, 600)


@cache
def newer() -> list[NodeRecord]:
    return [changed(record, random.Random(k)) for k, record in enumerate(RECORDS[::2])]


@cache
def newest() -> dict[tuple[int, ...], NodeRecord]:
    return by_identity([*RECORDS, *newer()])


class Stop(Exception):  # noqa: N818
    """What a test ends a maintenance with."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = filled(tmp_path_factory.mktemp("upkeep") / "test.graph", RECORDS, runs=6)
    with Store.open(path) as store:
        store.append(batch_of(newer()), fresh=0)
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    """A copy of a file of seven runs with two versions of half of its records."""
    return Path(shutil.copy(made, tmp_path))


def test_compacting_keeps_the_newest_versions_and_gives_room_back(path: Path) -> None:
    size = file_bytes(path)
    report = compact(path)
    assert report.as_dict() == {
        "nodes": 600,
        "dropped": 0,
        "superseded": 300,
        "runs": 7,
        "bytes_before": size,
        "bytes_after": file_bytes(path),
    }
    assert report.bytes_after < size
    assert verify(path).problems == []
    with Store.open(path) as store:
        assert contents(store) == newest()
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
    assert held(path) == newest()


def test_compacting_empties_the_log_while_a_reader_is_there(path: Path) -> None:
    with Store.open(path, read_only=True) as reader:
        assert reader.node_count == 600
        compact(path)
        assert path.with_name(path.name + "-wal").stat().st_size == 0
        assert contents(reader) == newest()


def test_pruning_drops_what_has_few_visits_and_keeps_roots(path: Path) -> None:
    root = next(record for record in newest().values() if record.visits == 1)
    key = int(keys_of(batch_of([root]).words)[0])
    with Store.open(path) as store:
        store.record_root(f"{key:016x}", chess.STARTING_FEN, 1)
        many, few = (
            next(r for r in newest().values() if (r.visits >= 10) == stays and r != root) for stays in (1, 0)
        )
        shown = [rows_of(fen_of(unpack(record.words)), record) for record in (root, many, few)]
        store.write_top(shown)
    expected = {k: r for k, r in newest().items() if r.visits >= 10 or r == root}
    report = compact(path, min_visits=10)
    assert (report.dropped, report.nodes) == (600 - len(expected), len(expected))
    assert report.bytes_after == file_bytes(path) < report.bytes_before
    with Store.open(path) as store:
        assert contents(store) == expected
        positions = {key for (key,) in store.connection.execute("SELECT key FROM top_position")}
        edges = {key for (key,) in store.connection.execute("SELECT key FROM top_edge")}
        assert positions == {rows.position["key"] for rows in shown[:2]}
        assert edges == {rows.position["key"] for rows in shown[:2] if rows.moves}
    assert verify(path).problems == []


def test_pruning_below_one_visit_is_refused(path: Path) -> None:
    with pytest.raises(InvalidParameterError, match="at least 1"):
        compact(path, min_visits=0)


# -------------------------------------------------------------- backup
def write_when_told(path: Path, told: int, say: Say) -> None:
    """Commits a batch for each plus in a pipe."""
    with Store.open(path) as store:
        while os.read(told, 1) == b"+":
            store.append(batch_of(RECORDS[:100]), fresh=0)
            store.merge_step()
            say("done")


@needs_fork
def test_a_copy_beside_a_writer_is_whole(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphsearch.store.backup.STEP_PAGES", 1)
    told, telling = os.pipe()
    calls: list[tuple[int, int]] = []
    with Fork(lambda say: write_when_told(path, told, say)) as writer:

        def commit(now: Progress) -> None:
            """Has the other process commit between any two steps."""
            calls.append((now.done, now.total))
            assert len(calls) < 1000
            os.write(telling, b"+")
            assert writer.line() == "done"

        report = backup(path, tmp_path / "copy.graph", on_progress=commit)
        os.write(telling, b".")
        writer.rest()
    os.close(told)
    os.close(telling)
    assert [done for done, _ in calls] == list(range(1, len(calls) + 1)), "never from the start again"
    assert len(calls) > 5
    assert report.as_dict() == {
        "path": str(tmp_path / "copy.graph"),
        "nodes": 600,
        "bytes": calls[-1][1] * 16384,
    }
    assert held(tmp_path / "copy.graph") == newest()
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
        assert contents(store) == newest()
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

    def stopping(now: Progress) -> None:
        raise Stop

    with pytest.raises(Stop):
        backup(path, tmp_path / "copy.graph", on_progress=stopping)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["test.graph"]


def test_an_empty_graph_is_copied_and_compacted(tmp_path: Path) -> None:
    path = tmp_path / "test.graph"
    Store.open(path, create=True, identity=IDENTITY).close()
    assert backup(path, tmp_path / "copy.graph").nodes == 0
    assert compact(path).nodes == 0
    assert compact(path, min_visits=5).nodes == 0
    assert verify(path).problems == []
