"""A cluster that one process writes as one store: records with their owners, a save in all files or none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch import Graph, Limits, analyze
from graphsearch.base.errors import (
    EvaluatorMismatchError,
    InvalidParameterError,
    StoreError,
    StoreLockedError,
)
from graphsearch.book.build import build
from graphsearch.book.config import BuildLimits, Resources
from graphsearch.book.queue import NewItem, add, items
from graphsearch.book.status import status
from graphsearch.book.toml import parse_config
from graphsearch.book.why import why
from graphsearch.search.shards.parting import new_cluster
from graphsearch.store.record.node import RecordBatch
from graphsearch.store.sharded.cluster_store import ClusterStore, open_to_write
from graphsearch.store.sharded.files import files_of, open_to_read
from graphsearch.store.sharded.manifest import is_sharded
from graphsearch.store.sharded.saved_waves import saves_of
from graphsearch.store.store import Store
from graphsearch.store.upkeep.verify import verify

from ...support.clusters import records_of
from ...support.counting import CountingEvaluator
from ...support.reference import HashEvaluator

CONFIG = parse_config(
    """
book = { name = "b", side = "white", max_ply = 3 }
window = [{ own_cp = 20, own_moves = 2, reply_p = 0.0, reply_moves = 2 }]
leaf = { evaluations = 12, params = { MinibatchSize = 8 } }
""",
    folder=Path(),
    name="b",
)


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    folder = tmp_path / "a.cluster"
    new_cluster(folder, shards=3, identity=HashEvaluator.identity)
    return folder


@pytest.fixture
def listed(cluster: Path) -> Path:
    """A cluster that lists the run of `batch`."""
    with open_to_write(cluster) as store:
        store.begin_run("", {}, {})
    return cluster


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> RecordBatch:
    path = tmp_path_factory.mktemp("one") / "one.graph"
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        analyze(graph, chess.Board(), Limits(visits=300))
    with Store.open(path, read_only=True) as store:
        return RecordBatch.concat(list(store.scan()))


def opened(folder: Path) -> ClusterStore:
    store = open_to_write(folder)
    assert isinstance(store, ClusterStore)
    return store


def test_a_book_in_a_cluster_holds_the_records_of_one_in_a_file(cluster: Path, tmp_path: Path) -> None:
    path = tmp_path / "one.graph"
    reports = [
        build(place, CONFIG, limits=BuildLimits(), evaluator=CountingEvaluator()) for place in (path, cluster)
    ]
    one, many = (report.as_dict() | {"seconds": 0} for report in reports)
    assert one == many
    assert records_of(files_of(cluster)) == records_of([path])
    assert all(Store.open(file, read_only=True).node_count for file in files_of(cluster))
    assert verify(cluster).ok
    assert why(cluster, chess.Board(), None).as_dict() == why(path, chess.Board(), None).as_dict()
    add(cluster, [NewItem(chess.STARTING_FEN, ("a2a4",), "given")])
    assert [item.moves for item in items(cluster)] == [("a2a4",)]
    found, same = (status(place, None)[0].as_dict()["plies"] for place in (cluster, path))
    assert found == same
    again = build(cluster, CONFIG, limits=BuildLimits(), evaluator=CountingEvaluator())
    assert again.searched > 0, "what the queue said"


def test_a_book_makes_the_cluster_that_it_is_to_have_and_no_other(tmp_path: Path) -> None:
    def try_to_build(folder: Path, shards: int, **more: Any) -> None:
        resources = Resources(shards=shards)
        build(folder, CONFIG, limits=BuildLimits(evaluations=30), resources=resources, **more)

    folder = tmp_path / "new.cluster"
    with pytest.raises(InvalidParameterError, match="shards must be 1 to 256, not 0"):
        try_to_build(folder, 0, evaluator=HashEvaluator())
    assert list(tmp_path.iterdir()) == [], "what could not begin leaves nothing behind"
    try_to_build(folder, 2, evaluator=HashEvaluator())
    assert len(files_of(folder)) == 2
    assert verify(folder).ok
    with pytest.raises(StoreError, match=r"has 2 shards, not 3; leave the number out"):
        try_to_build(folder, 3, evaluator=HashEvaluator())
    try_to_build(folder, 2, evaluator=HashEvaluator())
    assert status(folder)[0].runs[-1].evaluations > 0


def test_records_go_to_their_owners_and_are_counted_once(listed: Path, batch: RecordBatch) -> None:
    half = len(batch) // 2
    with opened(listed) as store:
        store.append(batch.part(0, half), fresh=half)
        store.append(batch, fresh=len(batch) - half)
        assert store.node_count == len(batch)
        with store.reader() as reader:
            have, found = reader.find(batch.words)
            assert have.all()
            assert [found.record(i) for i in range(9)] == [batch.record(i) for i in range(9)]
            assert sum(map(len, reader.find_any(batch.words))) == len(batch)
    assert len(records_of(files_of(listed))) == len(batch)
    assert verify(listed).ok


def save_and(
    store: ClusterStore, act: Callable[[], None], batch: RecordBatch, *, fails: bool = False
) -> None:
    """Saves records, and does something when all files have committed but the first."""
    with store.transaction():
        assert store._others is not None
        store._others.callback(act)
        store.append(batch, fresh=len(batch))
        if fails:
            raise OSError("the disk is full")


def test_a_save_that_reached_some_files_is_taken_back_when_the_cluster_is_opened_again(
    listed: Path, batch: RecordBatch
) -> None:
    half = len(batch) // 2

    def killed() -> None:
        raise OSError("killed between two commits")

    store = opened(listed)
    store.append(batch.part(0, half), fresh=half)
    before = records_of(files_of(listed))
    with pytest.raises(OSError, match="killed"):
        save_and(store, killed, batch.part(half, len(batch)))
    assert len(records_of(files_of(listed))) > half
    with pytest.raises(StoreError, match=r"open it again"):
        store.append(batch, fresh=0)
    store.close()
    with opened(listed) as again:
        assert again.node_count == half
        assert len({saves_of(part)[0].number for part in again.parts}) == 1
        assert records_of(files_of(listed)) == before
        again.append(batch, fresh=len(batch) - half)
    assert len(records_of(files_of(listed))) == len(batch)
    assert verify(listed).ok


def test_a_save_that_fails_before_any_commit_can_be_made_again(listed: Path, batch: RecordBatch) -> None:
    with opened(listed) as store:
        with pytest.raises(OSError, match="full"):
            save_and(store, lambda: None, batch, fails=True)
        assert store.node_count == 0
        store.append(batch, fresh=len(batch))
        assert store.node_count == len(batch)


def test_tables_are_where_the_format_says(cluster: Path, batch: RecordBatch) -> None:
    with opened(cluster) as store:
        run = store.begin_run("", {}, {}, kind="book")
        store.finish_run(run, 3, 2)
        assert [part.run(run).visits for part in store.parts] == [3] * 3  # type: ignore[union-attr]
        keys = [f"{key:016x}" for key in range(0, 1 << 63, 1 << 58)]
        for key in keys:
            store.record_root(key, chess.STARTING_FEN, 1)
        assert all(part.roots() for part in store.parts)
        assert sorted(root.key for root in store.roots()) == keys
        before = [saves_of(part) for part in store.parts]
        store.write_fact("noted", "here")
        assert [part.read_fact("noted") for part in store.parts] == ["here", None, None]
        assert before == [saves_of(part) for part in store.parts], "no save of all files"


def test_a_second_writer_and_another_evaluator_are_refused(cluster: Path) -> None:
    with opened(cluster), pytest.raises(StoreLockedError):
        opened(cluster)
    with pytest.raises(EvaluatorMismatchError, match="another evaluator"):
        open_to_write(cluster, identity=CountingEvaluator("other").identity)
    opened(cluster).close()
    assert is_sharded(cluster)
    with open_to_read(cluster) as store:
        assert store.node_count == 0
