"""The arena: nothing is lost when it grows; one record that cannot be written keeps no other out."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.base.errors import CapacityError, InvalidParameterError, StoreError
from graphsearch.graph import saving
from graphsearch.graph.arena import Arena
from graphsearch.position.board import MAX_MOVES, chess960_start, pack, unpack
from graphsearch.search import visit_kernel as layout
from graphsearch.store.block import unfit as unfit_places
from graphsearch.store.record import NodeRecord, RecordBatch
from graphsearch.store.record_kernel import MAX_RUN
from graphsearch.store.store import Store
from graphsearch.store.verify import verify
from tests.conftest import Cli
from tests.store import records as made
from tests.support.graphs import check_arena
from tests.support.positions import KIWIPETE
from tests.uci.engines import Played


def test_nothing_is_lost_when_table_log_and_blocks_grow(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    with Graph.open(path, evaluator="uniform") as graph:
        result = analyze(graph, chess.Board(), Limits(visits=150_000), SearchParams(minibatch_size=256))
        assert graph.node_count == result.nodes > layout.EXPLORATION_ENTRIES
        assert len(graph.arena.arrays.table) > 1 << 16
        assert graph.store is not None
        assert graph.store.node_count == graph.node_count


def test_the_log_has_the_positions_of_unsaved_records_which_are_saved_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "COPIED_AT_ONCE", 1)  # so that only equal sort keys share a batch
    monkeypatch.setattr("graphsearch.search.loop.FLUSH_SECONDS", 3600)
    path = tmp_path / "a.graph"
    boards = [chess.Board(KIWIPETE), chess.Board("r3k2r/8/8/3pP3/8/8/8/R3K2R w KQkq d6 74 80")]
    with Graph.open(path, evaluator="uniform") as graph:
        for board in [*boards, unpack(pack(chess960_start(7)))]:
            analyze(graph, board, Limits(visits=300), hurry=True)
        slots, words = graph.arena.list_log(np.arange(graph.arena.dirty_count))
        assert len(slots) == graph.node_count > 800
        for slot, found in zip(slots.tolist(), words, strict=True):
            assert graph.arena.slot(unpack(found)) == slot
            assert pack(unpack(found)).tolist() == found.tolist()
        assert graph.flush() == len(slots)
    assert verify(path).ok


def test_records_keep_every_evaluator_and_run_in_memory() -> None:
    numbers = (0, 1, 15), (0, 1, 255, 256, 0xFFFF, 0x10000, 0x5A5A5, MAX_RUN)
    pairs = itertools.cycle(itertools.product(*numbers))
    rows = {made.identity(r): r for r in made.random_records(17, 400)}
    few = "7k/8/6K1/8/8/8/8/8 b - - 0 1", "7k/5Q2/6K1/8/8/8/8/8 b - - 7 9", "k7/8/1K6/8/8/8/8/7R b - - 0 1"
    for fen in few:  # none, one or two moves: fewer P codes than the bytes of a word
        record = made.record_of(chess.Board(fen), random.Random(1))
        rows[made.identity(record)] = record
    records = [replace(r, evaluator=e, run=run) for r, (e, run) in zip(rows.values(), pairs, strict=False)]
    assert {len(r.codes) % 8 for r in records} == set(range(8))
    arena = Arena()
    assert arena.load(RecordBatch.from_records(records)) == 0
    check_arena(arena)
    for record in records:
        found = arena.read(unpack(record.words))
        assert found is not None
        assert (found.codes, found.evaluator, found.run) == (record.codes, record.evaluator, record.run)


def test_records_that_memory_cannot_hold_are_left_out_and_counted() -> None:
    record = next(record for record in made.random_records(17, 9) if len(record.codes) > 1)
    for broken in (replace(record, evaluator=16), replace(record, codes=record.codes[:-1], edges=())):
        arena = Arena()
        assert arena.load(RecordBatch.from_records([broken])) == 1
        assert arena.node_count == 0


@pytest.mark.parametrize("ram_bytes", [1_000, 600_000])
def test_a_memory_too_small_for_one_path_is_refused_and_not_tried_for_ever(ram_bytes: int) -> None:
    with Graph.open(None, evaluator="uniform", ram_bytes=ram_bytes) as graph:
        with pytest.raises(CapacityError):
            analyze(graph, chess.Board(), Limits(visits=1_000_000), SearchParams(minibatch_size=256))
        assert graph.node_count == 0


@pytest.mark.parametrize("ram_bytes", [0, -5, "lots", 1.5, True])
def test_what_is_no_size_is_refused_in_one_line(ram_bytes: Any) -> None:
    with pytest.raises(InvalidParameterError, match="number of bytes"):
        Graph.open(None, evaluator="uniform", ram_bytes=ram_bytes)


# ------------------------------------------------------------------ records that cannot be written
RECORDS = made.Records(71, 200)
UNFIT = "rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w KQkq - 0 1"
BAD = chess.Board(UNFIT)
FOUND = f"a record cannot be written and is lost: {UNFIT}"


def unfit(record: NodeRecord) -> NodeRecord:
    return replace(record, d=60_000)


def make_unfit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the record of 1. e4 e5 one that the format has no place for, as it leaves memory."""
    before = Arena.copy_out
    men = pack(BAD)[:8]

    def copy_out(arena: Arena, slots: Any, words: Any) -> RecordBatch:
        batch = before(arena, slots, words)
        batch.d[(batch.words[:, :8] == men).all(axis=1)] = 60_000
        return batch

    monkeypatch.setattr(Arena, "copy_out", copy_out)


def test_a_store_writes_all_records_but_the_unfit_ones_and_names_those(tmp_path: Path) -> None:
    bad = {0, 17, 18, 199}
    given = [unfit(record) if i in bad else record for i, record in enumerate(RECORDS)]
    store = Store.open(tmp_path / "a.graph", create=True, identity=made.IDENTITY)
    store.append(made.batch_of(given), fresh=len(given))
    assert store.node_count == len(made.contents(store)) == 196
    with pytest.raises(StoreError, match=r"a record cannot be written and is lost: .* and 3 more"):
        store.close()
    assert not (tmp_path / "a.graph.lock").exists()
    assert not verify(tmp_path / "a.graph").problems


def test_a_batch_of_unfit_records_alone_writes_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.graph", create=True, identity=made.IDENTITY) as store:
        store.append(made.batch_of([unfit(RECORDS[0])]), fresh=1)
        assert store.node_count == 0
        assert store.left_out_error() is not None
        assert store.left_out_error() is None
        assert store.connection.execute("SELECT count(*) FROM segment").fetchone()[0] == 0


def test_a_command_prints_its_result_names_what_is_lost_and_fails(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.graph"
    make_unfit(monkeypatch)
    done = cli("analyze", "startpos", "--visits", 600, "--store", path).ends(1, FOUND)
    assert "bestmove" in done.out
    with Store.open(path, read_only=True) as store:
        assert store.node_count == len(made.contents(store)) > 100
        assert store.read(chess.Board()) is not None
        assert store.read(BAD) is None
    assert not (tmp_path / "a.graph.lock").exists()
    cli("store", "verify", path).ends(0)


def refuse(patch: pytest.MonkeyPatch) -> None:

    def fail(*_: object, **__: object) -> None:
        raise StoreError("no room")

    patch.setattr(Store, "append_batches", fail)


@pytest.mark.parametrize(
    ("spoil", "moves", "told"),
    [
        (make_unfit, "e2e4", FOUND),
        (make_unfit, "e2e4 e7e5", FOUND),  # the root itself
        (refuse, "e2e4", "no room. What was not saved is lost"),
    ],
)
def test_an_engine_names_what_is_lost_and_leaves_no_lock(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[pytest.MonkeyPatch], None],
    moves: str,
    told: str,
) -> None:
    path = tmp_path / "a.graph"
    played = Played({"GraphFile": str(path)})
    with played:
        played.ready()
        played.ask("go nodes 200", until="bestmove")
        spoil(monkeypatch)
        played.engine.handle(f"position startpos moves {moves}")
        played.ask("go nodes 900", until="bestmove")
    assert played.engine.has_lost
    assert any(line.startswith("info string ERROR") and told in line for line in played.console.lines)
    assert not (tmp_path / "a.graph.lock").exists()
    with Store.open(path, read_only=True) as store:
        assert (store.node_count > 100) == (spoil is make_unfit)


# ------------------------------------------------------------------ as many moves as a record can have
def full_record(moves: int) -> NodeRecord:
    record = next(record for record in RECORDS if record.codes and record.edges)
    edges = tuple(record.edges[i % len(record.edges)] for i in range(moves))
    return replace(record, codes=bytes(1 + i % 63 for i in range(moves)), edges=edges)


@pytest.mark.parametrize(("moves", "alike"), [(218, 0), (219, 0), (253, 0), (MAX_MOVES, 0), (MAX_MOVES, 64)])
def test_records_with_as_many_moves_as_a_byte_counts_are_written_and_read_alike(
    moves: int, alike: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One such record among others, or a block of them."""
    monkeypatch.setattr(
        "graphsearch.store.block.unsound", lambda batch, places=None: []
    )  # more than the legal moves
    full = full_record(moves)
    others = [replace(full, words=record.words) for record in RECORDS[:alike]] or RECORDS
    given = [full, *(record for record in others if record.words != full.words)]
    assert made.decode_chunk(b"", made.seal(b"", made.plain_blocks(made.batch_of([full])))).record(0) == full
    with Store.open(tmp_path / "a.graph", create=True, identity=made.IDENTITY) as store:
        store.append(made.batch_of(given), fresh=len(given))
        assert sorted(made.contents(store).values(), key=str) == sorted(given, key=str)


def test_a_record_with_more_moves_than_a_byte_counts_is_unfit() -> None:
    assert unfit_places(made.batch_of([full_record(MAX_MOVES + 1)])) == [(0, "a field out of range")]
