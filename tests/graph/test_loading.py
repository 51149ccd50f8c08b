"""A file of which a search asks much is read into memory in order; memory that is too large shrinks."""

from __future__ import annotations

import itertools
import shutil
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import chess
import numpy as np
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.graph import reading
from graphsearch.search import loop
from graphsearch.search.job import Control, SearchJob
from graphsearch.search.results import Progress
from tests.store.test_damage import flip
from tests.support.graphs import check_arena, check_invariants

MORE = 200


@pytest.fixture(autouse=True)
def early_loading(small_memories: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads a file in order after few single reads, and none when it is opened."""
    monkeypatch.setattr(reading, "LEAST_SINGLE_READS", 8)


@pytest.fixture(scope="module")
def searched_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of a search visit by visit, which is only copied."""
    path = tmp_path_factory.mktemp("files") / "a.graph"
    searched(path, 1000, minibatch_size=1)
    return path


@pytest.fixture
def path(searched_file: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(searched_file, tmp_path / "a.graph"))


def search(graph: Graph, visits: int = MORE, **fields: Any) -> dict[str, Any]:
    found = analyze(graph, chess.Board(), Limits(visits=visits), SearchParams(**fields))
    return found.as_dict() | {"seconds": 0.0, "store": None}


def searched(path: Path | None, *visits: int, **fields: Any) -> dict[str, Any]:
    """Returns what the last of some searches in one process finds."""
    with Graph.open(path) as graph:
        return [search(graph, each, **fields) for each in visits][-1]


@pytest.mark.parametrize("batch", [1, 16])
def test_a_search_that_reads_its_file_whole_is_the_one_that_never_stopped(tmp_path: Path, batch: int) -> None:
    path = tmp_path / "a.graph"
    searched(path, 1000, minibatch_size=batch)
    with Graph.open(path) as graph:
        assert not graph.pager.complete
        found = search(graph, minibatch_size=batch)
        assert graph.pager.complete
        assert graph.loading is None
        assert graph.arena.node_count == graph.node_count
        check_arena(graph.arena)
        check_invariants(graph, chess.Board())
    assert found == searched(None, 1000, MORE, minibatch_size=batch)


def test_a_short_search_reads_what_it_reaches(path: Path) -> None:
    with Graph.open(path) as graph:
        search(graph, 8)
        assert graph.pager.read_back > 8
        assert not graph.pager.complete


def test_an_eviction_ends_the_reading_for_good(path: Path) -> None:
    """What was evicted after a portion was read must not come back as it was before it was saved."""
    with Graph.open(path) as graph:
        graph.pager.filter()
        loader = reading.Loader(path, graph.pager)
        graph.pager.start_over()
        assert not loader.advance(1.0, 1e9)
        loader.close()
        assert graph.arena.node_count == 0
        assert not graph.pager.complete


def test_a_file_is_read_around_its_damage(path: Path) -> None:
    flip(path, "block", "data", 3, 60, 4)
    with Graph.open(path) as graph:
        result = analyze(graph, chess.Board(), Limits(visits=MORE), SearchParams(minibatch_size=16))
        assert result.new_visits >= MORE
        assert not graph.pager.complete  # what it names when it is asked for
        assert graph.arena.node_count > 0.9 * graph.node_count


def test_a_stop_ends_the_reading_and_the_search(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphsearch.search.loop.LOAD_SECONDS", 0.0)
    monkeypatch.setattr(reading.Loader, "advance", lambda *_: True)  # it never ends
    stop, seen = threading.Event(), []

    def show(progress: Progress) -> None:
        seen.append(progress.loaded)
        if progress.loaded:
            stop.set()

    with Graph.open(path) as graph:
        result = analyze(graph, chess.Board(), stop=stop, on_progress=show)
        assert result.stop_reason == "stop"
        assert result.visits >= 1000
    assert max(found for found in seen if found) > (0, 500)


def test_a_time_limit_leaves_half_of_it_to_the_search(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading.Loader, "advance", lambda *_: True)
    # each look at the clock takes a millisecond of it
    clock = SimpleNamespace(monotonic=partial(next, itertools.count(0.0, 0.001)), thread_time=lambda: 0.0)
    monkeypatch.setattr("graphsearch.search.loop.time", clock)
    monkeypatch.setattr("graphsearch.search.job.time", clock)
    with Graph.open(path) as graph:
        result = analyze(graph, chess.Board(), Limits(seconds=0.2))
        assert result.stop_reason == "time"
        assert result.new_visits > 10


def test_loading_waits_for_another_search_if_it_takes_half_of_the_time_planned(path: Path) -> None:
    with Graph.open(path) as graph:
        graph.load_ahead()
        assert graph.load_some(1e-9)
        assert graph.loading
        done, job = graph.loading.done, SearchJob(board=chess.Board(), limits=Limits(visits=MORE))
        assert loop.search(graph, job, Control(planned=1e-9)).new_visits == MORE
        assert graph.loading.done == done < graph.loading.total
        assert search(graph)["new_visits"] == MORE
        assert graph.pager.complete


@pytest.mark.parametrize("share", [0.9, 0.1])
def test_memory_shrinks_at_its_ends_and_keeps_the_rest(path: Path, share: float) -> None:
    with Graph.open(path, ram_bytes=50_000_000) as graph:
        graph.load_ahead()
        graph.load_some(1e9)
        arena, nodes = graph.arena, graph.arena.node_count
        fixed = arena.arrays.table.nbytes
        wanted = fixed + round(share * (arena.bytes_used - fixed))
        arena.shrink(wanted)
        check_arena(arena)
        assert arena.bytes_used <= wanted
        assert share * share * nodes * 0.5 < arena.node_count < nodes
        graph.pager.complete = False
        search(graph, minibatch_size=32)
        check_arena(arena)


@pytest.mark.usefixtures("nothing_saved_meanwhile")
def test_dirty_records_stay_when_memory_shrinks(tmp_path: Path) -> None:
    with Graph.open(tmp_path / "a.graph", evaluator="uniform") as graph:
        graph.tables_meanwhile = False
        analyze(graph, chess.Board(), Limits(visits=1000), SearchParams(minibatch_size=32), hurry=True)
        before = graph.arena.dirty_count
        slots = np.sort(graph.arena.arrays.table[graph.arena.arrays.table != 0])
        graph.arena.shrink(0)
        assert graph.arena.dirty_count == before
        kept = np.sort(graph.arena.arrays.table[graph.arena.arrays.table != 0])
        assert np.isin(kept, slots).all()
        assert len(kept) >= before
        check_arena(graph.arena)
