"""Searches of fixed depth that stop, go on and are killed: what one knew, the next one need not search."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import chess
import pytest

import graphsearch.graph
from graphsearch.base.errors import EvaluatorError, UnsavedError
from graphsearch.graph.graph import Graph
from graphsearch.position.board import key_of
from graphsearch.search.loop import analyze
from graphsearch.search.params import Limits
from graphsearch.solvers.alphabeta.search import AlphaBetaResult, DepthResult, bring_visited, search_to_depth
from graphsearch.store import entries
from graphsearch.store.info import info
from graphsearch.store.provenance import UNBOUND, EvaluatorIdentity
from graphsearch.store.store import Store
from graphsearch.store.verify import verify

from ...conftest import ROOT
from ...support.pools import until
from ...support.positions import after_line
from ...support.reference import HashEvaluator

KIWIPETE = chess.Board("r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1")
MATE_IN_TWO = chess.Board("kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1")
SMALL = 1 << 20  # bytes of a table


def run(path: Path | None, depth: int, board: chess.Board = KIWIPETE, **limits: object) -> AlphaBetaResult:
    with Graph.open_unevaluated(path) as graph:
        return search_to_depth(graph, board, depth, Limits(**limits), table_bytes=SMALL)  # type: ignore[arg-type]


def evaluation() -> str:
    with Graph.open_unevaluated(None) as graph:
        graph.use_entries(0)
        return graph.entries.evaluation


def stored(path: Path) -> entries.Loaded:
    with Store.open(path, read_only=True) as store:
        return entries.load(store, evaluation())


def test_a_second_run_begins_with_the_first_depth_that_is_not_known(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    first, second, alone = run(path, 4), run(path, 5), run(None, 5)
    assert [iteration.depth for iteration in first.iterations] == [1, 2, 3, 4]
    assert [iteration.depth for iteration in second.iterations] == [5]
    assert (second.value, second.bound, second.depth) == (alone.value, "exact", 5)
    assert second.known.depth == 4
    assert second.known.nodes == first.counts.nodes
    assert second.counts.stored_hits > 0
    assert second.counts.nodes < alone.counts.nodes
    assert KIWIPETE.variation_san(second.pv)  # all moves are legal
    assert verify(path).problems == []
    facts = info(path)
    assert [(row.depth, row.value, row.nodes, bool(row.finished)) for row in facts.entry_runs] == [
        (4, first.value, first.counts.nodes, True),
        (5, second.value, second.counts.nodes, True),
    ]
    assert facts.entries.entries >= second.entries


def test_a_depth_is_known_although_its_entry_cannot_say_so(tmp_path: Path) -> None:
    """A value that a repetition took part in is no entry, which holds for every path; the run has it."""
    path = tmp_path / "a.graph"
    first = run(path, 4)
    with Store.open(path) as store, store.transaction():
        store.connection.execute("DELETE FROM entry_piece")
    again, deeper = run(path, 4), run(path, 5)
    assert (again.stop_reason, again.value, again.pv) == ("known", first.value, first.pv)
    assert [iteration.depth for iteration in deeper.iterations] == [5]
    assert deeper.value == run(None, 5).value


def test_a_search_that_was_stopped_goes_on_with_what_it_found(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    alone = run(None, 5)
    last = alone.iterations[-1].counts.nodes
    cut = run(path, 5, visits=alone.counts.nodes - last // 4)
    assert (cut.stop_reason, cut.depth, cut.iterations[-1].complete) == ("nodes", 4, False)
    assert cut.value == cut.iterations[3].value
    rest = run(path, 5)
    assert (rest.value, rest.depth) == (alone.value, 5)
    assert rest.counts.stored_hits > 0
    assert rest.counts.nodes < last


def test_a_search_stops_in_time_and_has_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # each look at the clock takes 50 ms of it
    clock = SimpleNamespace(monotonic=partial(next, count(0.0, 0.05)))
    monkeypatch.setattr("graphsearch.search.job.time", clock)
    result = run(tmp_path / "a.graph", 60, seconds=0.2)
    assert result.stop_reason == "time"
    assert result.value is not None
    assert result.move in list(KIWIPETE.legal_moves)
    assert verify(tmp_path / "a.graph").problems == []


KILLED = """
import sys, chess
from graphsearch.solvers.alphabeta import search
from graphsearch.graph.graph import Graph
search.SAVE_SECONDS = 0.05
told = lambda found: print(found.depth, flush=True)
board = chess.Board(sys.argv[2])
with Graph.open_unevaluated(sys.argv[1]) as graph:
    search.search_to_depth(graph, board, 60, table_bytes=1 << 24, on_depth=told)
"""


def test_a_killed_search_loses_little(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    command = [sys.executable, "-c", KILLED, str(path), KIWIPETE.fen()]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        until(lambda: any((row.depth or 0) >= 3 for row in info(path).entry_runs))
        process.send_signal(signal.SIGKILL)
    assert verify(path).problems == []
    assert [(row.finished, (row.depth or 0) >= 3) for row in info(path).entry_runs] == [(None, True)]
    found = run(path, 5)
    assert found.known.depth >= 3
    assert found.stop_reason == "known" or found.counts.stored_hits > 0
    assert verify(path).problems == []


def test_what_could_not_be_saved_is_saved_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    path = tmp_path / "a.graph"
    with Graph.open_unevaluated(path) as graph:
        monkeypatch.setattr(entries, "append", full)
        with pytest.raises(UnsavedError, match="disk is full; free some space") as caught:
            search_to_depth(graph, KIWIPETE, 3, table_bytes=SMALL)
        assert caught.value.result.value is not None
        assert graph.entries.table is not None
        held = graph.entries.table.count
        assert graph.entries.table.dirty_count == held > 0
        monkeypatch.undo()
        graph.flush()
        assert graph.entries.table.dirty_count == 0
    assert len(stored(path).keys) == held
    assert len(info(path).entry_runs) == 1


def test_entries_of_another_evaluation_are_reported_and_not_used(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    run(path, 3)
    found = stored(path)
    with Store.open(path) as store, store.transaction():
        store.connection.execute("UPDATE entry_run SET evaluation = 'other'")
        store.connection.execute("DELETE FROM entry_piece")
        entries.append(store, found.keys, found.data, "other")
    again = run(path, 3)
    assert again.report.ignored == len(found.keys)
    assert (again.report.loaded, again.known.depth, len(again.iterations)) == (0, 0, 3)
    assert again.counts.stored_hits == 0


def test_a_reader_sees_whole_saves_while_a_search_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "FEW_PIECES", 0)
    path, key = tmp_path / "a.graph", f"{key_of(KIWIPETE):016x}"
    seen: list[int] = []
    with Graph.open_unevaluated(path) as graph, Store.open(path, read_only=True) as store:

        def look(found: DepthResult) -> None:
            graph.settle(wait=True)
            loaded = entries.load(store, evaluation())
            assert loaded.problems == []
            rows = entries.iterations(store, KIWIPETE.fen(), key, evaluation())
            assert sorted(rows) == list(range(1, len(rows) + 1))
            assert found.depth - 1 <= len(rows) <= found.depth
            seen.append(len(loaded.keys))

        search_to_depth(graph, KIWIPETE, 4, table_bytes=SMALL, on_depth=look)
    assert seen == sorted(seen)
    assert seen[-1] > seen[0] > 0


def test_a_file_needs_no_evaluator_and_stays_bound_to_its_own(tmp_path: Path) -> None:
    bound, free = tmp_path / "bound.graph", tmp_path / "free.graph"
    identity = EvaluatorIdentity("lc0", "1a2b3c4d", {"file": "gone.pb.gz"})
    Store.open(bound, create=True, identity=identity).close()
    for path, expected in ((bound, identity), (free, UNBOUND)):
        assert run(path, 2).depth == 2
        assert info(path).evaluator == expected
    with Graph.open_unevaluated(bound) as graph, pytest.raises(EvaluatorError, match="lc0"):
        analyze(graph, chess.Board(), Limits(visits=5))
    with Graph.open(free, evaluator="uniform") as graph:
        analyze(graph, KIWIPETE, Limits(visits=5))
    assert info(free).evaluator.kind == "uniform"
    assert run(free, 2).stop_reason == "known"


def test_a_game_that_may_repeat_is_searched_whatever_the_file_knows(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    run(path, 3, chess.Board())
    game = after_line("Nf3 Nf6 Ng1 Ng8 Nf3 Nf6 Ng1 Ng8")
    for _ in range(2):
        assert run(path, 3, game).known.depth == 0
    assert run(path, 3, chess.Board()).stop_reason == "known"
    run(path, 2, chess.Board("4k3/8/8/8/8/8/8/R3K3 w - - 0 1"))
    assert run(path, 2, chess.Board("4k3/8/8/8/8/8/8/R3K3 w - - 5 9")).stop_reason == "known"
    assert run(path, 10, chess.Board("4k3/8/8/8/8/8/8/R3K3 w - - 82 90"), visits=500).known.depth == 0


def test_a_shortest_mate_ends_the_search(tmp_path: Path) -> None:
    result = run(tmp_path / "a.graph", 40, MATE_IN_TWO, evaluations=1)  # which no such search counts
    assert (result.stop_reason, result.value, result.depth) == ("mate", 100_000 - 3, 3)
    assert (result.as_dict()["mate"], result.as_dict()["cp"]) == (2, None)
    again = run(tmp_path / "a.graph", 40, MATE_IN_TWO)
    assert (again.stop_reason, again.value, again.pv) == ("known", result.value, result.pv)


def test_the_visited_part_of_a_large_file_is_brought_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.graph"
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        analyze(graph, KIWIPETE, Limits(visits=400))
    monkeypatch.setattr(graphsearch.graph.graph, "LOADED_AT_ONCE", 0)
    with Graph.open_unevaluated(path) as graph:
        assert graph.arena.node_count == 0
        assert bring_visited(graph, KIWIPETE, 100) == 100
        assert bring_visited(graph, KIWIPETE, 100) == 100
        most = bring_visited(graph, KIWIPETE)
        assert 100 < most < 400
        result = search_to_depth(graph, KIWIPETE, 3, table_bytes=SMALL)
        assert result.graph_nodes == most
        assert result.counts.ordered > 0
        assert result.value == run(None, 3).value


def test_a_position_that_the_graph_knows_well_spares_the_first_iterations() -> None:
    with Graph.open(None) as graph:
        analyze(graph, KIWIPETE, Limits(visits=1200))
        found = search_to_depth(graph, KIWIPETE, 4, table_bytes=SMALL)
        assert [iteration.depth for iteration in found.iterations] == [2, 4]
        deeper = search_to_depth(graph, KIWIPETE, 5, table_bytes=SMALL)
        assert [iteration.depth for iteration in deeper.iterations] == [5]
    alone = run(None, 4)
    assert (found.value, found.bound) == (alone.value, alone.bound)
    assert len(alone.iterations) == 4
    with Graph.open(None) as graph:
        analyze(graph, KIWIPETE, Limits(visits=1200))
        limited = Limits(visits=10**9)  # what ends early needs an answer early
        every = search_to_depth(graph, KIWIPETE, 3, limited, table_bytes=SMALL)
        assert [iteration.depth for iteration in every.iterations] == [1, 2, 3]


def test_a_stopped_search_answers_with_what_the_file_knew(tmp_path: Path) -> None:
    before = run(tmp_path / "a.graph", 4)
    with Graph.open_unevaluated(tmp_path / "a.graph") as graph:
        stopped = search_to_depth(graph, KIWIPETE, 9, Limits(visits=30), table_bytes=SMALL)
    assert stopped.stop_reason == "nodes"
    found = (stopped.depth, stopped.value, stopped.bound, stopped.move)
    assert found == (4, before.value, "exact", before.move)
    assert (stopped.iterations[-1].bound, stopped.iterations[-1].move) == ("", None)
