"""A search and its file: damage, a full disk, a fork, a wrong argument, and records that kernels read."""

from __future__ import annotations

import copy
import json
import pickle
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from unittest.mock import Mock

import chess
import numpy as np
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze, show
from graphsearch.base.errors import StoreError
from graphsearch.graph import arena, reading, saving, view
from graphsearch.graph.copying_kernel import bring
from graphsearch.jit.compiler import JIT_OFF
from graphsearch.jit.libraries import libsqlite
from graphsearch.position.board import unpack
from graphsearch.search.results import SearchResult
from graphsearch.store.salvage import salvage
from graphsearch.store.store import Store
from graphsearch.store.verify import verify
from tests.conftest import Cli, sql
from tests.store.records import merge_all
from tests.store.test_damage import flip
from tests.support import forks, graphs, pools, reference

PARAMS = SearchParams(minibatch_size=16)

pytestmark = pytest.mark.usefixtures("nothing_loaded_at_once")


def searched(path: Path, visits: int) -> int:
    with Graph.open(path, evaluator=reference.HashEvaluator()) as graph:
        return analyze(graph, chess.Board(), Limits(visits=visits), PARAMS).nodes


def root(path: Path) -> view.NodeView:
    node = show(path, chess.Board())
    assert node is not None
    return node


# --------------------------------------------------------------------------- damage
def test_a_search_goes_on_around_damaged_blocks_and_says_which(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    before = searched(path, 200)
    blocks = sql(path, "SELECT id, length(data) FROM block ORDER BY id")
    rng = np.random.default_rng(5)
    for block, size in blocks[::3]:
        flip(path, "block", "data", block, int(rng.integers(size)), 4)
    assert not verify(path).ok
    with Graph.open(path, evaluator=reference.HashEvaluator()) as graph:
        result = analyze(graph, chess.Board(), Limits(visits=200), PARAMS)
        assert result.new_visits >= 200
        assert result.problems
        assert all(str(path) in problem and "block" in problem for problem in result.problems)
        graphs.check_invariants(graph, chess.Board(), lost=True)
        graphs.check_arena(graph.arena)
        known = result.nodes
    assert known > before
    assert salvage(path, tmp_path / "new.graph").blocks_lost
    assert verify(tmp_path / "new.graph").ok
    with Graph.open(tmp_path / "new.graph", evaluator=reference.HashEvaluator()) as graph:
        analyze(graph, chess.Board(), Limits(visits=100), PARAMS)
        graphs.check_invariants(graph, chess.Board(), lost=True)


# --------------------------------------------------------------------------- a full disk
LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.argv[:2] = ["graphsearch"]
from graphsearch.cli import main
import graphsearch.search.loop
session = sys.modules["graphsearch.search.loop"]
session.FLUSH_SECONDS = 0.2
sys.exit(main())
"""


def test_a_full_disk_ends_a_search_with_a_line_and_it_resumes_with_room(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "a.graph"
    command = ["analyze", "startpos", "--evaluator", "uniform", "--store", str(path), "--json", "--visits"]
    assert cli(*command, 1000).code == 0
    held = root(path).visits
    start = [sys.executable, "-c", LIMITED, str(path.stat().st_size + 100_000)]
    failed = subprocess.run([*start, *command, "2000000"], capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert "Traceback" not in failed.stderr
    assert "cannot write" in failed.stderr
    assert json.loads(failed.stdout)["visits"] > held  # what was found is printed all the same
    assert verify(path).ok
    assert root(path).visits >= held
    assert cli(*command, 1000).code == 0
    assert verify(path).ok


# --------------------------------------------------------------------------- readers
def test_a_reader_of_an_old_state_ends_the_search_before_the_log_grows_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.graph"
    searched(path, 100)
    monkeypatch.setattr(saving, "LOG_BYTES", 1 << 14)
    monkeypatch.setattr(saving, "LONGEST_LOG_BYTES", 1 << 17)
    session = sys.modules["graphsearch.search.loop"]
    monkeypatch.setattr(session, "FLUSH_SECONDS", 0.0)
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    nodes = reader.execute("SELECT value FROM store_info WHERE name = 'nodes'").fetchone()
    with Graph.open(path, evaluator=reference.HashEvaluator()) as graph:
        result = analyze(graph, chess.Board(), Limits(seconds=120), PARAMS)
        assert result.stop_reason == "reader"
        assert graph.arena.dirty_count == 0
        assert reader.execute("SELECT value FROM store_info WHERE name = 'nodes'").fetchone() == nodes
        reader.close()
        # the graph's own reader may hold the log for a moment, too
        pools.until(lambda: analyze(graph, chess.Board(), Limits(visits=200), PARAMS).stop_reason == "visits")
    assert verify(path).ok
    with Store.open(path, read_only=True) as store:
        assert store.node_count >= result.nodes


def test_a_reader_that_has_gone_does_not_end_the_next_search_in_a_hurry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.graph"
    for name in ("LOG_BYTES", "MERGING_LOG_BYTES", "LONGEST_LOG_BYTES"):
        monkeypatch.setattr(saving, name, 1 << 13)
    searched(path, 100)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT value FROM store_info").fetchone()
        graph = Graph.open(path, evaluator=reference.HashEvaluator())
        assert analyze(graph, chess.Board(), Limits(visits=2000), PARAMS).stop_reason == "reader"
        assert searched_in_a_hurry(graph).stop_reason == "reader"
    with graph:
        # nothing is saved between these searches; the graph's own reader may hold the log for a moment, too
        pools.until(lambda: searched_in_a_hurry(graph).stop_reason == "visits")


def searched_in_a_hurry(graph: Graph) -> SearchResult:
    return analyze(graph, chess.Board(), Limits(visits=200), PARAMS, hurry=True)


def search_until_a_fault(graph: Graph) -> None:
    """Searches, and waits for the merging that begins after the save."""
    analyze(graph, chess.Board(), Limits(visits=300), PARAMS)
    while True:
        time.sleep(0.01)  # leaves the interpreter to the thread that merges
        graph.settle(wait=True)


def after_the_fault(graph: Graph) -> None:
    """Waits for what the thread tried again before the store was whole, and hears of it."""
    assert graph._saver
    graph._saver.call(lambda store: None)
    with suppress(OSError):
        graph.settle(wait=True)


@pytest.mark.parametrize("method", ["merge_step", "checkpoint"])
def test_a_fault_of_the_saving_thread_is_raised_where_it_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def fail(self: Store, *args: object, **options: object) -> None:
        raise OSError(5, "Input/output error")

    path = tmp_path / "a.graph"
    with Graph.open(path, evaluator=reference.HashEvaluator()) as graph:
        with monkeypatch.context() as broken:
            broken.setattr(Store, method, fail)
            with pytest.raises(OSError, match="Input/output"):
                search_until_a_fault(graph)
        after_the_fault(graph)
        nodes = analyze(graph, chess.Board(), Limits(visits=300), PARAMS).nodes
    with Store.open(path, read_only=True) as store:
        assert store.node_count == nodes


def test_a_graph_closes_only_while_no_search_runs_on_it_and_is_never_copied(tmp_path: Path) -> None:
    graph = Graph.open(tmp_path / "a.graph")
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            duplicate(graph)
    with graph.held(), ThreadPoolExecutor(1) as other:
        assert "a search is running" in str(other.submit(graph.close).exception())
    graph.close()
    graph.close()
    assert repr(graph).startswith("<Graph closed: 0 nodes")
    calls = graph.held().__enter__, graph.flush, graph.begin_saving, graph.__enter__, lambda: graph.call(repr)
    for late in calls:
        with pytest.raises(StoreError, match="closed"):
            late()


# ------------------------------------------------------------------ after a fork
def test_a_child_is_refused_a_graph_opened_before_the_fork_and_leaves_its_file_alone(tmp_path: Path) -> None:
    path, board = tmp_path / "a.graph", chess.Board()
    with Graph.open(path) as graph:
        analyze(graph, board, Limits(visits=20))

        def search(say: forks.Say) -> None:
            try:
                with graph:
                    analyze(graph, board, Limits(visits=20))
            except StoreError as error:
                say(error)
            graph.close()
            say("closed")

        with forks.Fork(search) as child:
            assert child.line() == f"{path} was opened before a fork; open it again in this process"
            assert child.line() == "closed"
        assert analyze(graph, board, Limits(visits=20)).visits == 40
    with Store.open(path, read_only=True) as store:
        assert store.runs()[-1].visits == 20


def test_a_child_can_search_a_graph_in_memory(tmp_path: Path) -> None:
    board = chess.Board()
    with Graph.open(None) as graph:
        analyze(graph, board, Limits(visits=20))
        with forks.Fork(lambda say: say(analyze(graph, board, Limits(visits=20)).visits)) as child:
            assert child.line() == "40"
        assert analyze(graph, board, Limits(visits=20)).visits == 40


# ------------------------------------------------------------------ single records
ONE_BY_ONE = SearchParams(minibatch_size=1)
NO_SLOTS = np.zeros(0, np.uint64)

needs_sqlite = pytest.mark.skipif(JIT_OFF or libsqlite() is None, reason="kernels cannot call SQLite here")


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


def positions(path: Path) -> arena.Words:
    with Store.open(path, read_only=True) as store:
        return np.concatenate([batch.words for batch in store.scan()])


def in_memory(graph: Graph, words: arena.Words) -> list[object]:
    """Returns the records of some positions as the arena has them."""
    slots = np.array([graph.arena.slot(board) for board in boards_of(words)], np.uint32)
    batch = graph.arena.copy_out(slots, words)
    return [batch.record(i) if slots[i] else None for i in range(len(slots))]


def boards_of(words: arena.Words) -> list[chess.Board]:
    return [unpack(tuple(map(int, row))) for row in words]


@needs_sqlite
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


@needs_sqlite
def test_a_damaged_block_is_left_to_the_reader_which_names_it(path: Path) -> None:
    words = positions(path)[:64]
    sql(path, "UPDATE block SET data = CAST(substr(data, 1, length(data) - 4) || x'01020304' AS BLOB)")
    with Graph.open(path, evaluator="uniform") as graph:
        assert not graph.pager._bring_inside(words, NO_SLOTS)
        graph.pager.bring(words, NO_SLOTS)
        assert graph.problems
        assert graph.arena.node_count == 0


@needs_sqlite
def test_a_lone_path_asks_python_for_next_to_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    by_threads = reading.Pager._bring_by_threads

    def counted(self: reading.Pager, words: arena.Words, pinned: arena.Words) -> None:
        asked.append(len(words))
        by_threads(self, words, pinned)

    monkeypatch.setattr(reading.Pager, "_bring_by_threads", counted)
    monkeypatch.setattr(reading.Pager, "loads", lambda *_: False)
    with Graph.open(path, evaluator="uniform") as graph:
        analyze(graph, chess.Board(), Limits(visits=500), ONE_BY_ONE)
        assert graph.pager.read_back > 100
    assert sum(asked) <= 8


@needs_sqlite
def test_threads_share_few_connections(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """With too few open files; the others leave their records to Python."""
    with graph.pager.reading():
        none = Mock(side_effect=sqlite3.OperationalError)
    monkeypatch.setattr("graphsearch.store.reading.KernelReader", none)
    with graph.pager.reading(3) as held:
        assert [one is not None for one in held] == [True, False, False]


@needs_sqlite
def test_no_state_of_the_file_is_held_between_two_readings(path: Path, graph: Graph) -> None:
    graph.pager._bring_inside(positions(path)[:8], NO_SLOTS)
    with sqlite3.connect(path) as other:
        other.execute("INSERT INTO store_info VALUES ('another program', 'writes')")
    busy, frames, copied = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    other.close()
    assert (busy, frames - copied) == (0, 0)


@needs_sqlite
def test_kernels_read_the_state_that_they_hold(path: Path, graph: Graph) -> None:
    """Another process may drop and renumber blocks meanwhile; the next slice reads the new state."""
    words = positions(path)[:32]
    graph.pager.bring(words, NO_SLOTS)  # which may have to load dictionaries
    graph.pager.start_over()
    with graph.pager.reading() as (held,):
        assert held
        sql(path, "DELETE FROM block")
        alone, which = (graph.arena.tables, graph.arena.arrays), np.arange(len(words))
        assert bring(*alone, *held, words.reshape(-1), 10, which, np.array([len(words)]), 0)
    assert None not in in_memory(graph, words)
    graph.pager.start_over()
    assert not graph.pager._bring_inside(words, NO_SLOTS)
    assert in_memory(graph, words) == [None] * len(words)
