"""Memory that is too large for its budget gives up its ends, and keeps the rest."""

from __future__ import annotations

from pathlib import Path

import chess
import numpy as np
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from tests.support.arenas import check_arena


@pytest.fixture
def searched(small_memories: None, tmp_path: Path) -> Path:
    path = tmp_path / "a.graph"
    with Graph.open(path, evaluator="uniform") as graph:
        analyze(graph, chess.Board(), Limits(visits=1500), SearchParams(minibatch_size=32))
    return path


@pytest.mark.parametrize("share", [0.9, 0.1])
def test_memory_shrinks_at_its_ends_and_keeps_the_rest(searched: Path, share: float) -> None:
    with Graph.open(searched, evaluator="uniform", ram_bytes=50_000_000) as graph:
        graph.load_ahead()
        while graph.load_some(1):
            pass
        arena, nodes = graph.arena, graph.arena.node_count
        fixed = arena.arrays.table.nbytes
        wanted = fixed + round(share * (arena.bytes_used - fixed))
        arena.shrink(wanted)
        check_arena(arena)
        assert arena.bytes_used <= wanted
        assert share * share * nodes * 0.5 < arena.node_count < nodes
        graph.pager.complete = False
        analyze(graph, chess.Board(), Limits(visits=500), SearchParams(minibatch_size=32))
        check_arena(arena)


def test_dirty_records_stay_when_memory_shrinks(tmp_path: Path) -> None:
    with Graph.open(tmp_path / "a.graph", evaluator="uniform") as graph:
        graph.tables_meanwhile = graph.saves_meanwhile = False
        analyze(graph, chess.Board(), Limits(visits=1000), SearchParams(minibatch_size=32), hurry=True)
        before = graph.arena.dirty_count
        slots = np.sort(graph.arena.arrays.table[graph.arena.arrays.table != 0])
        graph.arena.shrink(0)
        assert graph.arena.dirty_count == before
        kept = np.sort(graph.arena.arrays.table[graph.arena.arrays.table != 0])
        assert np.isin(kept, slots).all()
        assert len(kept) >= before
        check_arena(graph.arena)
