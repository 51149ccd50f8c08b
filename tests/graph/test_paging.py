"""Kernels read single records as the reader does, and leave to it what they cannot read."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import chess
import numpy as np
import pytest

import graphsearch.graph
from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.graph.arena import Words
from graphsearch.graph.copying_kernel import bring
from graphsearch.graph.reading import Pager
from graphsearch.jit.compiler import JIT_OFF
from graphsearch.jit.libraries import libsqlite
from graphsearch.position.board import unpack
from graphsearch.store.store import Store

from ..conftest import sql

ONE_BY_ONE = SearchParams(minibatch_size=1)
NO_SLOTS = np.zeros(0, np.uint64)

pytestmark = [
    pytest.mark.skipif(JIT_OFF or libsqlite() is None, reason="kernels cannot call SQLite here"),
    pytest.mark.usefixtures("nothing_loaded_at_once"),
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file in several segments, of a search that was saved now and then; it is only copied."""
    found = tmp_path_factory.mktemp("saved") / "a.graph"
    with Graph.open(found, evaluator="uniform") as graph:
        for _ in range(4):
            analyze(graph, chess.Board(), Limits(visits=400), ONE_BY_ONE)
            graph.flush()
    return found


@pytest.fixture
def path(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(saved, tmp_path / "a.graph"))


@pytest.fixture
def graph(path: Path) -> Iterator[Graph]:
    with Graph.open(path, evaluator="uniform") as opened:
        yield opened


def merge_all(store: Store) -> None:
    while store.merge_step():
        pass


def positions(path: Path) -> Words:
    with Store.open(path, read_only=True) as store:
        return np.concatenate([batch.words for batch in store.scan()])


def in_memory(graph: Graph, words: Words) -> list[object]:
    """Returns the records of some positions as the arena has them."""
    slots = np.array([graph.arena.slot(board) for board in boards(words)], np.uint32)
    batch = graph.arena.copy_out(slots, words)
    return [batch.record(i) if slots[i] else None for i in range(len(slots))]


def boards(words: Words) -> list[chess.Board]:
    return [unpack(tuple(map(int, row))) for row in words]


def test_what_was_written_and_merged_since_is_read(path: Path, graph: Graph) -> None:
    """Merging moves every block, and gives rows numbers that others had."""
    graph.pager.bring(positions(path)[:8], NO_SLOTS)
    for _ in range(9):
        analyze(graph, chess.Board(), Limits(visits=150), ONE_BY_ONE)
        graph.flush()
    graph.call(merge_all)
    assert graph.store
    assert len(graph.store.catalog.segments) < 9
    words = positions(path)[::50]
    graph.pager.start_over()
    graph.pager.bring(words, NO_SLOTS)  # which may have to load dictionaries
    graph.pager.start_over()
    assert all(graph.pager._bring_inside(words[i : i + 64], NO_SLOTS) for i in range(0, len(words), 64))
    assert None not in in_memory(graph, words)


def test_a_damaged_block_is_left_to_the_reader_which_names_it(path: Path) -> None:
    words = positions(path)[:64]
    with sqlite3.connect(path) as connection:
        shorter = "CAST(substr(data, 1, length(data) - 4) || x'01020304' AS BLOB)"
        connection.execute(f"UPDATE block SET data = {shorter}")
    connection.close()
    with Graph.open(path, evaluator="uniform") as graph:
        assert not graph.pager._bring_inside(words, NO_SLOTS)
        graph.pager.bring(words, NO_SLOTS)
        assert graph.problems
        assert graph.arena.node_count == 0


def test_a_lone_path_asks_python_for_next_to_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    by_threads = Pager._bring_by_threads

    def counted(self: Pager, words: Words, pinned: Words) -> None:
        asked.append(len(words))
        by_threads(self, words, pinned)

    monkeypatch.setattr(Pager, "_bring_by_threads", counted)
    monkeypatch.setattr(graphsearch.graph.graph, "is_due", lambda *_: False)
    with Graph.open(path, evaluator="uniform") as graph:
        analyze(graph, chess.Board(), Limits(visits=500), ONE_BY_ONE)
        assert graph.pager.read_back > 100
    assert sum(asked) <= 8


def test_no_state_of_the_file_is_held_between_two_readings(path: Path, graph: Graph) -> None:
    graph.pager._bring_inside(positions(path)[:8], NO_SLOTS)
    with sqlite3.connect(path) as other:
        other.execute("INSERT INTO store_info VALUES ('another program', 'writes')")
    busy, frames, copied = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    other.close()
    assert (busy, frames - copied) == (0, 0)


def test_kernels_read_the_state_that_they_hold(path: Path, graph: Graph) -> None:
    """Another process may drop and renumber blocks meanwhile; the next slice reads the new state."""
    words = positions(path)[:32]
    graph.pager.bring(words, NO_SLOTS)  # which may have to load dictionaries
    graph.pager.start_over()
    with graph.pager.reading() as held:
        assert held
        sql(path, "DELETE FROM block")
        count = np.array([len(words)])
        alone, which = (graph.arena.tables, graph.arena.arrays), np.arange(len(words))
        assert bring(*alone, *held, words.reshape(-1), 10, which, count, 0)
    assert None not in in_memory(graph, words)
    graph.pager.start_over()
    assert not graph.pager._bring_inside(words, NO_SLOTS)
    assert in_memory(graph, words) == [None] * len(words)
