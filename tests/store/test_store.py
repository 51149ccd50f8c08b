"""The store: what goes in comes out, the newest version wins, flushes are whole, tables are plain."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path

import chess
import numpy as np
import pytest

from graphsearch.base.errors import CapacityError, StoreError
from graphsearch.position.board import pack, unpack
from graphsearch.store import merging
from graphsearch.store.file import file_bytes
from graphsearch.store.index import Sizes
from graphsearch.store.info import info
from graphsearch.store.record import RecordBatch
from graphsearch.store.rewrite import tidy
from graphsearch.store.store import Store
from graphsearch.store.verify import verify

from .records import Records, batch_of, by_identity, contents, filled, held, lookup, new_store, random_records

RECORDS = Records(71, 300)


def test_clocks_up_to_75_share_a_record_and_others_do_not(path: Path) -> None:
    board = chess.Board()
    record = next(r for r in random_records(1, 400) if unpack(r.words).board_fen() == board.board_fen())
    clock = record.words[8] >> 12
    filled(path, [record])
    with Store.open(path) as store:
        board = unpack(record.words)
        for other in (0, 75, 76, 100):
            board.halfmove_clock = other
            shared = other == clock or (clock <= 75 and other <= 75)
            assert (store.read(board) is not None) == shared
            assert lookup(store, pack(board).reshape(1, -1))[0].tolist() == [shared]


def test_a_key_clash_is_not_served(path: Path) -> None:
    # the same key by decree: the filter lets it pass, the whole position does not
    one, other = RECORDS[0], RECORDS[1]
    filled(path, [one])
    words = np.array([other.words], np.uint64)
    words[0, 9] = one.words[9]
    with Store.open(path) as store:
        assert not lookup(store, words)[0][0]


def test_a_writer_that_reads_nothing_merges_later(path: Path) -> None:
    unread = merging.Rules(unread=True)
    with new_store(path, Sizes(fan_out=3, unread_fan_out=6)) as store:
        for run in range(6):
            assert not store.merge_step(unread), run
            assert merging.is_due(store.catalog, store.node_count) == (run >= 3)
            store.append(batch_of(RECORDS[50 * run : 50 * run + 50]), fresh=50)
        while store.merge_step(unread):
            pass
        assert len(store.catalog.segments) == 1
        assert contents(store) == by_identity(RECORDS)


def test_a_lazy_merge_waits_when_little_is_superseded(path: Path) -> None:
    lazy = merging.Rules(lazy=True)
    with new_store(path, Sizes(waste_from=100, step_blocks=1)) as store:
        for fresh in (len(RECORDS), 0):
            store.append(batch_of(RECORDS), fresh=fresh)
        steps = 1
        while store.merge_step(lazy):
            steps += 1
        most = merging.WASTE * len(RECORDS)
        assert steps > 1
        assert len(RECORDS) < store.catalog.records <= most
        assert merging.under_way(store.catalog)
        assert contents(store) == by_identity(RECORDS)
        store.append(batch_of(RECORDS), fresh=0)
        while store.merge_step(lazy):
            assert store.catalog.records > most
    assert held(path) == by_identity(RECORDS)


def test_a_flush_is_all_or_nothing(path: Path) -> None:
    with new_store(path) as store:
        store.append(batch_of(RECORDS[:100]), fresh=100)
        run = store.begin_run(chess.STARTING_FEN, {"visits": 5}, {})
        with suppress(KeyError), store.transaction():
            store.append(batch_of(RECORDS[100:]), fresh=200)
            store.update_run(run, 7, 7)
            store.record_root("0" * 16, chess.STARTING_FEN, 9)
            raise KeyError
        assert store.node_count == 100
        assert len(contents(store)) == 100
        assert (store.runs()[0].visits, store.roots()) == (0, [])
        with store.transaction():
            store.append(batch_of(RECORDS[100:]), fresh=200)
        assert len(contents(store)) == store.node_count == 300


def test_a_batch_that_is_refused_or_empty_changes_nothing(path: Path) -> None:
    with new_store(path) as store:
        with pytest.raises(CapacityError, match="1048577 records"):
            store.append(RecordBatch.empty((1 << 20) + 1, 0, 0), fresh=0)
        store.append(RecordBatch.empty(0, 0, 0), fresh=0)
        assert (store.node_count, store.catalog.segments, list(store.scan())) == (0, [], [])
        assert not store.merge_step()
        store.append(batch_of(RECORDS[:40]), fresh=40)
        assert store.node_count == 40


def test_flushes_do_not_nest_and_nothing_is_merged_inside(path: Path) -> None:
    with new_store(path) as store, store.transaction():
        with pytest.raises(StoreError, match="already open"):
            store.transaction().__enter__()
        with pytest.raises(StoreError, match="merging inside a transaction"):
            store.merge_step()
        with pytest.raises(StoreError, match="checkpoint inside a transaction"):
            store.checkpoint()
        store.append(batch_of(RECORDS), fresh=len(RECORDS))
    assert info(path).nodes == len(RECORDS)


def test_a_reader_sees_what_a_writer_commits(path: Path) -> None:
    with new_store(path) as writer:
        writer.append(batch_of(RECORDS[:100]), fresh=100)
        with Store.open(path, read_only=True) as reader:
            assert reader.node_count == 100
            scan = reader.scan()
            seen = len(next(scan))
            with writer.transaction():
                writer.append(batch_of(RECORDS[100:]), fresh=200)
                assert reader.read(unpack(RECORDS[200].words)) is None
            seen += sum(len(batch) for batch in scan)
            assert seen == 100, "a scan sees one state"
            assert reader.node_count == 300
            assert reader.read(unpack(RECORDS[200].words)) == RECORDS[200]


def test_a_reader_cannot_write_and_a_closed_store_says_so(path: Path) -> None:
    filled(path, RECORDS[:40])
    with Store.open(path, read_only=True) as store:
        for write in (store.merge_step, store.checkpoint, lambda: store.append(batch_of(RECORDS), fresh=0)):
            with pytest.raises(StoreError, match="reading only"):
                write()
        with pytest.raises(sqlite3.OperationalError):
            store.connection.execute("DELETE FROM block")
        with pytest.raises(ValueError, match="illegal position"):
            store.read(chess.Board(None))
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.append(batch_of(RECORDS[:1]), fresh=1)
    with pytest.raises(StoreError, match="closed"):
        store.read(chess.Board())


def test_an_unfinished_scan_may_outlive_its_store(path: Path) -> None:
    filled(path, RECORDS)
    with Store.open(path, read_only=True) as store:
        scan = store.scan()
        next(scan)
    del scan
    Store.open(path).close()


def test_runs_and_roots_are_kept(path: Path) -> None:
    with new_store(path) as store:
        first = store.begin_run(chess.STARTING_FEN, {"visits": 100}, {"cpuct": 1.5})
        store.update_run(first, 10, 9)
        second = store.begin_run("8/8/8/8/8/8/8/K1k5 w - - 0 1", {}, {})
        store.update_run(first, 100, 90, finished=True)
        store.record_root("463b96181691fc9c", chess.STARTING_FEN, 100)
        store.record_root("463b96181691fc9c", chess.STARTING_FEN, 150)
    facts = info(path)
    one, two = facts.runs
    assert (one.id, one.visits, one.evaluations, dict(one.limits)) == (first, 100, 90, {"visits": 100})
    assert dict(one.params) == {"cpuct": 1.5}
    assert one.finished is not None
    assert (two.id, two.finished) == (second, None)
    assert [(root.key, root.visits) for root in facts.roots] == [("463b96181691fc9c", 150)]


def test_tidying_drops_old_versions_and_shrinks_the_file_if_there_is_time(path: Path) -> None:
    with new_store(path, Sizes(waste_from=100)) as store:
        for k in range(4):
            store.append(batch_of(RECORDS), fresh=0 if k else 300)
        before = file_bytes(path)
        tidy(store, seconds=0.0)
        assert store.catalog.records == 1200
        tidy(store)
        assert store.catalog.records == store.node_count == 300
    assert path.stat().st_size < 0.9 * before
    assert verify(path).problems == []
