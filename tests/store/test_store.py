"""The store: what goes in comes out, flushes are whole, readers beside a writer miss nothing; a short log."""

from __future__ import annotations

import random
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from graphsearch.base.errors import CapacityError, StoreError
from graphsearch.position.board import pack, unpack
from graphsearch.store import file as log
from graphsearch.store import merging
from graphsearch.store.index import Sizes
from graphsearch.store.info import info
from graphsearch.store.record import NodeRecord, RecordBatch
from graphsearch.store.rewrite import compact, tidy
from graphsearch.store.salvage import salvage
from graphsearch.store.store import Store
from graphsearch.store.tables.rows import rows
from graphsearch.store.verify import verify

from ..conftest import sql
from ..support.forks import Fork, Say
from . import records as made

FEW = made.Records(71, 300)


def test_clocks_up_to_75_share_a_record_and_others_do_not(path: Path) -> None:
    board = chess.Board()
    record = next(r for r in made.random_records(1, 400) if unpack(r.words).board_fen() == board.board_fen())
    clock = record.words[8] >> 12
    made.filled(path, [record])
    with Store.open(path) as store:
        board = unpack(record.words)
        for other in (0, 75, 76, 100):
            board.halfmove_clock = other
            shared = other == clock or (clock <= 75 and other <= 75)
            assert (store.read(board) is not None) == shared
            assert made.lookup(store, pack(board).reshape(1, -1))[0].tolist() == [shared]


def test_a_key_clash_is_not_served(path: Path) -> None:
    # the same key by decree: the filter lets it pass, the whole position does not
    one, other = FEW[0], FEW[1]
    made.filled(path, [one])
    words = np.array([other.words], np.uint64)
    words[0, 9] = one.words[9]
    with Store.open(path) as store:
        assert not made.lookup(store, words)[0][0]


def test_a_writer_that_reads_nothing_merges_later(path: Path) -> None:
    unread = merging.Rules(unread=True)
    with made.new_store(path, Sizes(fan_out=3, unread_fan_out=6)) as store:
        for run in range(6):
            assert not store.merge_step(unread), run
            assert merging.is_due(store.catalog, store.node_count) == (run >= 3)
            store.append(made.batch_of(FEW[50 * run : 50 * run + 50]), fresh=50)
        while store.merge_step(unread):
            pass
        assert len(store.catalog.segments) == 1
        assert made.contents(store) == made.by_identity(FEW)


def test_a_lazy_merge_waits_when_little_is_superseded(path: Path) -> None:
    lazy = merging.Rules(lazy=True)
    with made.new_store(path, Sizes(waste_from=100, step_blocks=1)) as store:
        for fresh in (len(FEW), 0):
            store.append(made.batch_of(FEW), fresh=fresh)
        steps = 1
        while store.merge_step(lazy):
            steps += 1
        most = merging.WASTE * len(FEW)
        assert steps > 1
        assert len(FEW) < store.catalog.records <= most
        assert merging.under_way(store.catalog)
        assert made.contents(store) == made.by_identity(FEW)
        store.append(made.batch_of(FEW), fresh=0)
        while store.merge_step(lazy):
            assert store.catalog.records > most
    assert made.held(path) == made.by_identity(FEW)


def test_a_flush_is_all_or_nothing(path: Path) -> None:
    with made.new_store(path) as store:
        store.append(made.batch_of(FEW[:100]), fresh=100)
        run = store.begin_run(chess.STARTING_FEN, {"visits": 5}, {})
        with suppress(KeyError), store.transaction():
            store.append(made.batch_of(FEW[100:]), fresh=200)
            store.update_run(run, 7, 7)
            store.record_root("0" * 16, chess.STARTING_FEN, 9)
            raise KeyError
        assert store.node_count == 100
        assert len(made.contents(store)) == 100
        assert (store.runs()[0].visits, store.roots()) == (0, [])
        with store.transaction():
            store.append(made.batch_of(FEW[100:]), fresh=200)
        assert len(made.contents(store)) == store.node_count == 300


def test_a_batch_that_is_refused_or_empty_changes_nothing(path: Path) -> None:
    with made.new_store(path) as store:
        with pytest.raises(CapacityError, match="1048577 records"):
            store.append(RecordBatch.empty((1 << 20) + 1, 0, 0), fresh=0)
        store.append(RecordBatch.empty(0, 0, 0), fresh=0)
        assert (store.node_count, store.catalog.segments, list(store.scan())) == (0, [], [])
        assert not store.merge_step()
        store.append(made.batch_of(FEW[:40]), fresh=40)
        assert store.node_count == 40


def test_flushes_do_not_nest_and_nothing_is_merged_inside(path: Path) -> None:
    with made.new_store(path) as store, store.transaction():
        with pytest.raises(StoreError, match="already open"):
            store.transaction().__enter__()
        with pytest.raises(StoreError, match="merging inside a transaction"):
            store.merge_step()
        with pytest.raises(StoreError, match="checkpoint inside a transaction"):
            store.checkpoint()
        store.append(made.batch_of(FEW), fresh=len(FEW))
    assert info(path).nodes == len(FEW)


def test_a_reader_cannot_write_and_a_closed_store_says_so(path: Path) -> None:
    made.filled(path, FEW[:40])
    with Store.open(path, read_only=True) as store:
        for write in (store.merge_step, store.checkpoint, lambda: store.append(made.batch_of(FEW), fresh=0)):
            with pytest.raises(StoreError, match="reading only"):
                write()
        with pytest.raises(sqlite3.OperationalError):
            store.connection.execute("DELETE FROM block")
        with pytest.raises(ValueError, match="illegal position"):
            store.read(chess.Board(None))
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.append(made.batch_of(FEW[:1]), fresh=1)
    with pytest.raises(StoreError, match="closed"):
        store.read(chess.Board())


def test_an_unfinished_scan_may_outlive_its_store(path: Path) -> None:
    made.filled(path, FEW)
    with Store.open(path, read_only=True) as store:
        scan = store.scan()
        next(scan)
    del scan
    Store.open(path).close()


def test_runs_and_roots_are_kept(path: Path) -> None:
    with made.new_store(path) as store:
        first = store.begin_run(chess.STARTING_FEN, {"visits": 100}, {"cpuct": 1.5})
        store.begin_run("8/8/8/8/8/8/8/K1k5 w - - 0 1", {}, {})
        store.update_run(first, 100, 90, finished=True)
        for key, visits in ("f", 100), ("0", 9), ("f", 150):  # within one second
            store.record_root(16 * key, chess.STARTING_FEN, visits)
            time.sleep(0.002)
        runs = [(run.visits, run.limits, run.params, run.finished is not None) for run in store.runs()]
        assert runs == [(100, {"visits": 100}, {"cpuct": 1.5}, True), (0, {}, {}, False)]
        assert [(root.key[0], root.visits) for root in store.roots()] == [("f", 150), ("0", 9)]


def test_tidying_drops_old_versions_and_shrinks_the_file_if_there_is_time(path: Path) -> None:
    with made.new_store(path, Sizes(waste_from=100)) as store:
        for k in range(4):
            store.append(made.batch_of(FEW), fresh=0 if k else 300)
        before = log.file_bytes(path)
        tidy(store, seconds=0.0)
        assert store.catalog.records == 1200
        tidy(store)
        assert store.catalog.records == store.node_count == 300
    assert path.stat().st_size < 0.9 * before
    assert verify(path).problems == []


# ------------------------------------------------------------------ beside a writer
RECORDS = made.Records(71, 400)
SMALL = Sizes(
    chunk_blocks=2, piece_blocks=5, step_blocks=2, fan_out=3, waste_from=100
)  # many chunks and steps


@pytest.mark.parametrize("read_only", [False, True])
def test_the_newest_versions_come_in_the_order_asked(path: Path, *, read_only: bool) -> None:
    rng = random.Random(0)
    newer = [made.changed(record, rng) for record in RECORDS[50:150]]
    with made.new_store(path, SMALL) as store:
        store.append(made.batch_of(RECORDS[:300]), fresh=300)
        store.append(made.batch_of(newer), fresh=0)
    model = made.by_identity([*RECORDS[:300], *newer])
    asked = rng.sample(RECORDS, 400) + RECORDS[:9] + RECORDS[7:8] * 400  # more moves than the block has
    with Store.open(path, read_only=read_only, sizes=SMALL) as store, store.reader() as reader:
        assert made.found_by(reader, asked) == [model.get(made.identity(record)) for record in asked]
        assert made.found_by(reader, asked[:1]) == [model.get(made.identity(asked[0]))]
        assert made.found_by(reader, []) == []
        assert reader.problems == []


def test_a_reader_sees_what_is_committed_and_a_scan_sees_one_state(path: Path) -> None:
    with made.new_store(path) as store, store.reader() as reader, Store.open(path, read_only=True) as other:
        assert made.found_by(reader, RECORDS[:5]) == [None] * 5
        store.append(made.batch_of(RECORDS[:100]), fresh=100)
        assert made.found_by(reader, RECORDS[:100]) == RECORDS[:100]
        scan = other.scan()
        seen = len(next(scan))
        with suppress(KeyError), store.transaction():
            store.append(made.batch_of(RECORDS[100:200]), fresh=100)
            assert made.found_by(reader, RECORDS[100:102]) == [None, None]
            assert other.read(unpack(RECORDS[100].words)) is None
            raise KeyError
        assert made.found_by(reader, RECORDS[100:200]) == [None] * 100
        store.append(made.batch_of(RECORDS[200:]), fresh=200)  # may use the ids of what was rolled back
        assert made.found_by(reader, RECORDS) == [*RECORDS[:100], *[None] * 100, *RECORDS[200:]]
        assert seen + sum(len(batch) for batch in scan) == 100
        assert other.node_count == 300
        assert other.read(unpack(RECORDS[200].words)) == RECORDS[200]


@pytest.mark.parametrize("question", ["open", "ask again"])
def test_all_indexes_are_of_one_moment(path: Path, monkeypatch: pytest.MonkeyPatch, question: str) -> None:
    """Between the two lists that a reader reads, a writer commits a segment of its own."""
    with made.new_store(path) as writer, Store.open(path, read_only=True) as reader:
        writer.append(made.batch_of(RECORDS[:100]), fresh=100)

        def write_between(connection: sqlite3.Connection, table: str, *asked: Any) -> Iterator[Any]:
            if table == "chunk":
                monkeypatch.setattr("graphsearch.store.index.rows", rows)
                writer.append(made.batch_of(RECORDS[100:]), fresh=300)
            return rows(connection, table, *asked)

        monkeypatch.setattr("graphsearch.store.index.rows", write_between)
        if question == "open":
            Store.open(path, read_only=True).close()
        else:
            assert reader.node_count == 100
        assert reader.node_count == 400


VERSIONS = 8


def test_a_reader_beside_a_merging_writer_misses_nothing(path: Path) -> None:
    """One thread appends versions and merges, one reads; `d` is the number of the version."""
    versions: list[set[tuple[int, ...]]] = []  # what each version wrote
    state = {"begun": 0, "committed": 0}
    failed: list[BaseException] = []

    def write(store: Store) -> None:
        rng = random.Random(8)
        try:
            for version in range(VERSIONS):
                part = rng.sample(RECORDS, 60)
                versions.append({made.identity(record) for record in part})
                state["begun"] = version + 1
                fresh = sum(all(made.identity(r) not in v for v in versions[:-1]) for r in part)
                batch = made.batch_of([replace(r, v=0.0, d=version) for r in part])
                store.append(batch, fresh=fresh)
                state["committed"] = version + 1
                made.merge_all(store)
        except BaseException as error:
            failed.append(error)

    with made.new_store(path, SMALL) as store, store.reader() as reader:
        writer = threading.Thread(target=write, args=(store,))
        writer.start()
        rng = random.Random(9)
        while writer.is_alive():
            asked = rng.sample(RECORDS, 50)
            before = state["committed"]
            answers = made.found_by(reader, asked)
            after = state["begun"]
            for record, answer in zip(asked, answers, strict=True):
                mine = [v for v in range(after) if made.identity(record) in versions[v]]
                newest = max((v for v in mine if v < before), default=None)
                allowed = [v for v in mine if v >= before or v == newest]
                assert answer is not None or newest is None
                if answer is not None:
                    assert answer.d in allowed
                    assert answer == replace(record, v=0.0, d=answer.d)
        writer.join()
        assert not failed, failed
        assert state["committed"] == VERSIONS
        assert reader.problems == []
        assert len(store.catalog.segments) < 10


def test_an_older_filter_lives_on_when_merges_have_replaced_its_chunks(path: Path) -> None:
    """Filters are handed to kernels as addresses: whoever has the addresses keeps the filters."""
    words = made.words_of(RECORDS[:200])
    with made.new_store(path, SMALL) as store, store.reader() as reader:
        store.append(made.batch_of(RECORDS[:200]), fresh=200)
        older = reader.filter()
        for first in range(200, 400, 40):
            store.append(made.batch_of(RECORDS[first : first + 40]), fresh=40)
            made.merge_all(store)
            reader.filter()
        assert made.stored_each(older, words).all()


def test_limits_wrong_use_and_a_file_that_cannot_be_read_are_errors(path: Path) -> None:
    made.filled(path, RECORDS)
    with Store.open(path) as store, store.reader() as reader:
        with pytest.raises(CapacityError, match="100001 positions"):
            reader.find(np.zeros((100_001, 10), np.uint64))
        sql(path, "DROP TABLE chunk")
        with pytest.raises(StoreError, match="chunk"):
            made.found_by(reader, RECORDS)
    with pytest.raises(StoreError, match="closed"):
        reader.filter()


def test_a_forked_child_uses_neither_store_nor_reader(path: Path) -> None:
    with made.new_store(path) as store, store.reader() as reader:
        for use in (reader.filter, lambda: store.append(made.batch_of(RECORDS[:1]), fresh=1)):

            def use_it(say: Say, use: Callable[[], object] = use) -> None:
                with pytest.raises(StoreError, match="fork"):
                    use()

            with Fork(use_it) as child:
                child.rest()
            assert child.status == 0


# ------------------------------------------------------------------ any order of work
SOME = made.Records(71, 120)
TINY = Sizes(fan_out=3, step_blocks=1, waste_from=150, chunk_blocks=2, scan_blocks=3)


class StoreMachine(RuleBasedStateMachine):
    """A store beside a dict of the newest versions."""

    @initialize()
    def create(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "test.graph"
        self.store = Store.open(self.path, create=True, identity=made.IDENTITY, sizes=TINY)
        self.model: dict[tuple[int, ...], NodeRecord] = {}

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            assert verify(self.path).problems == []
            shutil.rmtree(self.folder)

    def _some(self, first: int, count: int, seed: int) -> list[NodeRecord]:
        rng = random.Random(seed)
        return [made.changed(SOME[(first + i) % len(SOME)], rng) for i in range(count)]

    def _append(self, records: list[NodeRecord], model: dict[tuple[int, ...], NodeRecord]) -> None:
        fresh = len({made.identity(record) for record in records} - set(model))
        self.store.append(made.batch_of(records), fresh=fresh)
        model |= {made.identity(record): record for record in records}

    @rule(first=st.integers(0, 119), count=st.integers(0, 130), seed=st.integers(0, 99))
    def append(self, first: int, count: int, seed: int) -> None:
        self._append(self._some(first, count, seed), self.model)

    @rule(first=st.integers(0, 119), count=st.integers(1, 60))
    def flush_that_fails(self, first: int, count: int) -> None:
        try:
            with self.store.transaction():
                self._append(self._some(first, count, 7), dict(self.model))
                raise KeyError
        except KeyError:
            pass

    @rule()
    def merge_step(self) -> None:
        self.store.merge_step()

    @rule(unread=st.booleans())
    def merge_step_of_a_search(self, unread: bool) -> None:
        self.store.merge_step(merging.Rules(lazy=True, unread=unread))

    @rule()
    def merge_all(self) -> None:
        for _ in range(1000):
            if not self.store.merge_step():
                break
        else:
            raise AssertionError("merging does not end")
        assert len(self.store.catalog.segments) < 12

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = Store.open(self.path, identity=made.IDENTITY, sizes=TINY)

    @rule(first=st.integers(0, 119))
    def read_some(self, first: int) -> None:
        asked = [SOME[(first + i) % len(SOME)] for i in range(7)]
        expected = [self.model.get(made.identity(record)) for record in asked]
        assert [self.store.read(unpack(record.words)) for record in asked] == expected
        found, batch = made.lookup(self.store, made.words_of(asked))
        assert found.tolist() == [record is not None for record in expected]
        assert [batch.record(i) for i in range(len(batch))] == [r for r in expected if r is not None]

    @invariant()
    def holds_the_newest_versions(self) -> None:
        if hasattr(self, "store"):
            assert made.contents(self.store) == self.model
            assert self.store.node_count == len(self.model)


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=5, stateful_step_count=15)


# ------------------------------------------------------------------ the write-ahead log
MANY = made.Records(71, 1600)
UPKEEP = Sizes(chunk_blocks=8, step_blocks=4, scan_blocks=4, vacuum_pages=2, waste_from=1 << 30, fan_out=100)
SHORT = 1 << 17  # bytes of a log that is due for a checkpoint


@pytest.fixture
def many_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of 20 runs, in whose upkeep a log of 128 KiB counts as long."""
    monkeypatch.setattr(log, "LOG_BYTES", SHORT)
    return made.filled(path, MANY, runs=20, sizes=UPKEEP)


@pytest.mark.parametrize(
    "work",
    [
        lambda path, progress: made.sized(UPKEEP, compact, path, progress),
        lambda path, progress: made.sized(UPKEEP, compact, path, progress, min_visits=2),
        lambda path, progress: made.sized(
            UPKEEP, salvage, path, path.with_name("new.graph"), on_progress=progress
        ),
    ],
    ids=["compact", "prune", "salvage"],
)
def test_upkeep_of_many_runs_keeps_the_log_short(many_runs: Path, work: Callable[..., object]) -> None:
    written = [many_runs, many_runs.with_name("new.graph.part")]
    logs: list[int] = []
    work(many_runs, lambda now: logs.append(max(map(log.log_bytes, written))))
    assert len(logs) > 10
    assert max(logs) < many_runs.stat().st_size / 2
    assert max(logs) < 3 * SHORT
    assert verify(many_runs).problems == []


def test_upkeep_stops_before_a_reader_s_log_grows(many_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "LONGEST_LOG_BYTES", 2 * SHORT)
    with closing(log.open_reader(many_runs)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM block").fetchone()
        with pytest.raises(StoreError, match="another program is reading an old state"):
            made.sized(UPKEEP, compact, many_runs)
        reader.execute("ROLLBACK")
    assert verify(many_runs).problems == []
    assert made.sized(UPKEEP, compact, many_runs).nodes == len(MANY)
    with Store.open(many_runs, read_only=True) as store:
        assert len(store.catalog.segments) == 1


def append(store: Store, first: int, last: int) -> None:
    store.append(made.batch_of(MANY[first:last]), fresh=last - first)


def test_commits_leave_the_log_to_checkpoints(path: Path) -> None:
    with made.new_store(path) as store:
        store.checkpoint()
        for first in range(0, 300, 10):
            append(store, first, first + 10)
        grown = log.log_bytes(path)
        assert grown > 30 * 16384, "SQLite on its own would have begun anew after 1000 pages of 4096"
        assert store.checkpoint(over=grown) == (grown, False), "not longer than it may be"
        assert store.checkpoint() == (0, False)
        assert store.checkpoint() == (0, False)
        append(store, 0, 1)
        assert 0 < log.log_bytes(path) < grown


def test_a_reader_of_an_old_state_holds_the_log_and_loses_nothing(path: Path) -> None:
    with made.new_store(path) as store:
        append(store, 0, 100)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN")
        before = other.execute("SELECT count(*) FROM block").fetchone()
        append(store, 100, 200)
        size, held = store.checkpoint()
        assert (size, held) == (log.log_bytes(path), True)
        assert size > 0
        append(store, 200, 300)
        assert store.checkpoint()[1]
        assert other.execute("SELECT count(*) FROM block").fetchone() == before, "it still sees its own state"
        assert made.contents(store) == made.by_identity(MANY[:300])
        other.execute("COMMIT")
        assert store.checkpoint() == (0, False)
        other.close()
    assert verify(path).problems == []


def test_a_reader_between_batches_holds_nothing(path: Path) -> None:
    with made.new_store(path) as store, store.reader() as reader:
        for first in range(0, 300, 100):
            append(store, first, first + 100)
            reader.filter()
            assert store.checkpoint() == (0, False)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_checkpoints_and_readers_leave_no_descriptor_open(path: Path) -> None:
    descriptors = Path("/proc/self/fd")
    unopened = len(list(descriptors.iterdir()))
    with made.new_store(path) as store:
        append(store, 0, 100)
        store.checkpoint()
        before = sorted(descriptors.iterdir())
        for first in range(100, 300, 10):
            append(store, first, first + 10)
            store.checkpoint()
        assert sorted(descriptors.iterdir()) == before
        for _ in range(3):
            store.reader().filter()
    assert len(list(descriptors.iterdir())) == unopened
    assert [file.name for file in path.parent.iterdir()] == ["test.graph"]
