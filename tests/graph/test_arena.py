"""The arena: what goes in comes out, nothing is lost when it grows, memory is what it says."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze, show
from graphsearch.base.errors import CapacityError, InvalidParameterError, InvalidPositionError
from graphsearch.graph.arena import Arena
from graphsearch.graph.saving import DirtyCopies
from graphsearch.jit.types import float32
from graphsearch.position.board import unpack
from graphsearch.search import puct_kernel as layout
from graphsearch.store.codec.bulk import unsound
from graphsearch.store.order import identities, sort_keys
from graphsearch.store.record.node import MAX_RUN, RecordBatch, prior_code
from graphsearch.store.store import Store

from ..store.records import contents, identity, random_records, record_of
from ..support.arenas import check_arena
from ..support.graphs import records_below
from ..support.reference import HashEvaluator

BOARD = chess.Board("r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1")


def test_records_loaded_are_the_records_saved(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        analyze(graph, BOARD, Limits(visits=600), SearchParams(minibatch_size=32))
        before = {key: record for key, (_, record) in records_below(graph, BOARD).items()}
    with Store.open(path, read_only=True) as store:
        rows = list(contents(store).values())
    assert len(rows) == len(before)
    arena = Arena()
    assert arena.load(RecordBatch.from_records(rows)) == 0
    assert arena.node_count == len(rows)
    assert arena.dirty_count == 0
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        after = {key: record for key, (_, record) in records_below(graph, BOARD).items()}
    assert after == before
    assert unsound(RecordBatch.from_records(rows)) == []


@pytest.mark.usefixtures("nothing_saved_meanwhile")
def test_dirty_records_are_copied_in_the_order_of_a_segment(tmp_path: Path) -> None:
    with Graph.open(tmp_path / "a.graph", evaluator="uniform") as graph:
        graph.tables_meanwhile = False
        analyze(graph, BOARD, Limits(visits=3000), SearchParams(minibatch_size=32), hurry=True)
        saving = DirtyCopies.of(graph.arena)
        assert len(saving) == graph.node_count
        words = np.concatenate([batch.words for batch in saving.batches])
        assert (words == saving.words).all()
        keys = sort_keys(words)
        assert len(np.unique(keys)) < len(keys)
        places = [(key, *place) for key, place in zip(keys, identities(words).tolist(), strict=True)]
        assert places == sorted(places)
        assert graph.arena.dirty_count == 0
        saving.failed(graph.arena)
        assert graph.arena.dirty_count == len(saving)


def test_nothing_is_lost_when_table_log_and_blocks_grow(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    with Graph.open(path, evaluator="uniform") as graph:
        result = analyze(graph, chess.Board(), Limits(visits=150_000), SearchParams(minibatch_size=256))
        assert graph.node_count == result.nodes > layout.EXPLORATION_ENTRIES
        assert len(graph.arena.arrays.table) > 1 << 16
        assert graph.store is not None
        assert graph.store.node_count == graph.node_count


def test_records_keep_every_evaluator_and_run_in_memory() -> None:
    numbers = (0, 1, 15), (0, 1, 255, 256, 0xFFFF, 0x10000, 0x5A5A5, MAX_RUN)
    pairs = itertools.cycle(itertools.product(*numbers))
    rows = {identity(r): r for r in random_records(17, 400)}
    few = "7k/8/6K1/8/8/8/8/8 b - - 0 1", "7k/5Q2/6K1/8/8/8/8/8 b - - 7 9", "k7/8/1K6/8/8/8/8/7R b - - 0 1"
    for fen in few:  # none, one or two moves: fewer P codes than the bytes of a word
        record = record_of(chess.Board(fen), random.Random(1))
        rows[identity(record)] = record
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
    record = next(record for record in random_records(17, 9) if len(record.codes) > 1)
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


@pytest.mark.parametrize("ram_bytes", [0, "lots", 1.5, True])
def test_no_size_and_no_board_are_refused_in_one_line(ram_bytes: Any) -> None:
    with pytest.raises(InvalidParameterError, match="number of bytes"):
        Graph.open(None, evaluator="uniform", ram_bytes=ram_bytes)
    with Graph.open(None, evaluator="uniform", ram_bytes="10MB") as graph:
        calls: list[Any] = [show, partial(analyze, limits=Limits(visits=1))]
        for call in calls:
            with pytest.raises(InvalidPositionError, match=r"a chess[.]Board, not str"):
                call(graph, "startpos")


def test_prior_codes_of_kernels_and_records_agree() -> None:
    from graphsearch.store.record.node_kernel import prior_code as quantise_prior

    quantise = getattr(quantise_prior, "__wrapped__", quantise_prior)
    values = np.concatenate([np.float32(10.0) ** np.linspace(-9, 0, 3000, dtype=np.float32), [0.0, 1.0]])
    codes = [int(quantise(float32(p))) for p in values]
    assert codes == [prior_code(float(p)) for p in values]
    assert min(codes) == 1
    assert max(codes) == 63
