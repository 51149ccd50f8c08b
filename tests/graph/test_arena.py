"""The arena: what goes in comes out, nothing is lost when it grows, memory is what it says."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.base.errors import CapacityError, InvalidParameterError
from graphsearch.graph.arena import Arena
from graphsearch.position.board import unpack
from graphsearch.search import visit_kernel as layout
from graphsearch.store.record import RecordBatch
from graphsearch.store.record_kernel import MAX_RUN

from ..store.records import identity, random_records, record_of
from ..support.arenas import check_arena


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


@pytest.mark.parametrize("ram_bytes", [0, -5, "lots", 1.5, True])
def test_what_is_no_size_is_refused_in_one_line(ram_bytes: Any) -> None:
    with pytest.raises(InvalidParameterError, match="number of bytes"):
        Graph.open(None, evaluator="uniform", ram_bytes=ram_bytes)
