"""Other processes of a search: workers that search in memory of their own, and one that compiles."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import chess
import pytest

from graphsearch.base.errors import InvalidParameterError
from graphsearch.base.system import end_tree, own_group
from graphsearch.evaluators.factory import EvaluatorSpec, crew_of
from graphsearch.evaluators.pool import Crew
from graphsearch.evaluators.protocol import AbsentEvaluator
from graphsearch.evaluators.uniform import OutsideUniform, UniformEvaluator
from graphsearch.graph.graph import Graph
from graphsearch.jit.cache import COMPILING
from graphsearch.jit.compiler import PLACES
from graphsearch.search import detached, warm
from graphsearch.search.job import Control, SearchJob
from graphsearch.search.loop import analyze
from graphsearch.search.params import Limits, SearchParams
from graphsearch.solvers.mate.beside import MateFinder
from graphsearch.store.store import Store
from graphsearch.workers.process import python_command
from tests.conftest import ROOT
from tests.store.records import held
from tests.support.pools import Oracle, in_the_middle, is_alive, run_script
from tests.support.positions import after_line
from tests.support.reference import HashEvaluator

UNIFORM = EvaluatorSpec(evaluator="uniform")
FIRST = ("e4", "d4", "Nf3", "c4")
pytestmark = pytest.mark.usefixtures("importable")


def visits_after(source: Graph | Store, move: str) -> int:
    """Returns the visits of the position after a move; 0 if it has no record."""
    record = source.read(after_line(move))
    return record.visits if record else 0


def begin_run(graph: Graph) -> int:
    found: list[int] = []
    graph.call(lambda store: found.append(store.begin_run("", {}, {}, kind="review")))
    return found[0]


def search_all(graph: Graph, searches: Any, visits: int, moves: tuple[str, ...] = FIRST) -> None:
    """Searches the positions after some moves until all have so many more visits."""
    run, waiting = begin_run(graph), list(moves)
    while waiting or searches.running:
        while waiting and searches.room:
            move = waiting.pop(0)
            job = SearchJob(
                board=after_line(move), limits=Limits(visits=visits), run=run, lines=0, mates=MateFinder
            )
            searches.start(move, job)
        for _, result in searches.finished(5.0):
            assert result.new_visits >= visits  # a whole wave


def test_a_detached_search_of_an_unknown_position_makes_the_records_of_a_search_in_the_file(
    tmp_path: Path,
) -> None:
    own, apart = tmp_path / "own.graph", tmp_path / "apart.graph"
    for path, workers in ((own, None), (apart, 1)):
        with detached.open_searches(path, UNIFORM, Control(), workers=workers) as (graph, searches):
            search_all(graph, searches, 300, FIRST[:1])
            assert visits_after(graph, FIRST[0]) == 300
    assert held(own) == held(apart)


def test_searches_of_several_workers_grow_one_sound_file(tmp_path: Path) -> None:
    path = tmp_path / "both.graph"
    with detached.open_searches(path, UNIFORM, Control(), workers=2) as (graph, searches):
        search_all(graph, searches, 200)
        before = {move: visits_after(graph, move) for move in FIRST}
        nodes = graph.node_count
        search_all(graph, searches, 200)
        for move in FIRST:
            assert visits_after(graph, move) >= before[move] + 200
        assert graph.node_count > nodes
    assert len(held(path)) > nodes
    with Graph.open(path, evaluator="uniform") as graph:  # edges below their children catch up
        assert analyze(graph, chess.Board(), Limits(visits=50)).catch_ups > 0


def test_a_worker_gets_the_most_visited_records_within_the_limit(
    tmp_path: Path,
) -> None:
    path = tmp_path / "first.graph"
    with Graph.open(path, evaluator="uniform") as graph:
        analyze(graph, chess.Board(), Limits(visits=500))
    with Store.open(path) as store, Graph.over(store, AbsentEvaluator(store.identity), in_file=True) as graph:
        everything = graph.pager.records_below(chess.Board(), 4096)
        assert len(everything) == graph.node_count
        assert len(graph.pager.records_below(chess.Board(), 20)) == 20
        chunk = detached.encoded(everything).records()
        assert sorted(map(str, map(everything.record, range(len(everything))))) == sorted(
            map(str, map(chunk.record, range(len(chunk))))
        )
        unknown = chess.Board("8/8/8/8/8/3k4/3p4/3K4 w - - 0 1")
        assert len(graph.pager.records_below(unknown, 20)) == 0


def test_a_stop_returns_what_workers_have(tmp_path: Path) -> None:
    with detached.open_searches(tmp_path / "a.graph", UNIFORM, Control(), workers=1) as (graph, searches):
        searches.start("e4", SearchJob(board=after_line("e4"), run=begin_run(graph), lines=0))
        assert searches.room == 0
        assert list(searches.finished(0.5)) == []
        ((_, result),) = searches.stop(60.0)
        assert result.stop_reason == "stop"
        assert visits_after(graph, "e4") == result.visits


# ---------------------------------------------------------- workers and owners that end
def with_oracle(path: Path, oracle: Oracle, workers: int, pool: str | None = None) -> Any:
    """Returns a graph, its searches and their crew, with an evaluator of the tests."""
    crew = Crew(oracle, workers, pool)
    identity = crew.describe().identity
    store = Store.open(path, identity=identity, create=True)
    graph = Graph.over(store, AbsentEvaluator(identity), in_file=True)
    return graph, detached.DetachedSearches[str](graph, crew, Control()), crew


@pytest.mark.parametrize(("workers", "is_killed"), [(2, True), (1, False)], ids=["killed", "hangs"])
def test_a_worker_that_ends_or_hangs_is_replaced_and_its_position_searched(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, is_killed: bool
) -> None:
    once = tmp_path / "once"
    oracle = Oracle(log, bad=after_line("Nf3").epd(), how="hang", once=once)
    graph, searches, crew = with_oracle(tmp_path / "a.graph", oracle, workers)
    if is_killed:
        there = lambda: once.exists() and bool(once.read_text())  # noqa: E731
        thread = in_the_middle(there, lambda: end_tree(int(once.read_text())))
    else:
        monkeypatch.setattr(detached, "LEAST_SECONDS", 6.0)
    search_all(graph, searches, 50)
    if is_killed:
        thread.join()
    assert not is_alive(int(once.read_text()))
    assert all(visits_after(graph, move) >= 50 for move in FIRST)
    graph.close()
    crew.close()
    held(tmp_path / "a.graph")


SCRIPT = """
import sys
from pathlib import Path
from tests.search.test_detached import search_all, with_oracle
from tests.support.pools import Oracle

if __name__ == "__main__":
    folder = Path(sys.argv[0]).parent
    graph, searches, crew = with_oracle(folder / "a.graph", Oracle(folder / "log", 0.001), 2)
    print("ready", flush=True)
    while True:
        search_all(graph, searches, 20)
        print("round", flush=True)
"""


def test_an_owner_that_is_killed_leaves_a_sound_file_with_what_was_merged(log: Path, tmp_path: Path) -> None:
    process = run_script(tmp_path / "script.py", SCRIPT)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(3)] == ["ready\n", "round\n", "round\n"]
    process.kill()
    process.communicate()
    records = held(tmp_path / "a.graph")
    with Store.open(tmp_path / "a.graph", read_only=True) as store:
        assert all(visits_after(store, move) >= 40 for move in FIRST)
    assert len(records) > 40
    with Graph.open(tmp_path / "a.graph", evaluator=HashEvaluator()) as graph:
        assert analyze(graph, chess.Board(), Limits(visits=10), SearchParams(minibatch_size=8)).visits >= 10


def test_workers_are_not_given_to_evaluators_with_workers() -> None:
    with pytest.raises(InvalidParameterError, match="cannot both have workers"):
        crew_of(EvaluatorSpec(options=(("workers", "2"),)), 2, None)
    with pytest.raises(InvalidParameterError, match="the pool must be"):
        crew_of(UNIFORM, 2, "nowhere")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray: pip install '.[ray]'")
def test_searches_run_on_a_ray_cluster(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    graph, searches, crew = with_oracle(tmp_path / "a.graph", Oracle(log), 2, "ray:local")
    try:
        search_all(graph, searches, 50, FIRST[:2])
        assert all(visits_after(graph, move) >= 50 for move in FIRST[:2])
        graph.close()
    finally:
        crew.close()
    held(tmp_path / "a.graph")


# ------------------------------------------------------------------ what another process compiles
@pytest.mark.parametrize("told", [False, True])
def test_a_process_compiles_beside_a_first_search_and_the_user_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, told: bool
) -> None:
    started: list[Any] = []
    monkeypatch.setattr("graphsearch.jit.cache._SAID", set())
    monkeypatch.setattr(warm, "_BESIDE", [])
    monkeypatch.setattr(warm, "_missing", lambda *_, **__: ["file", "search"])
    monkeypatch.setattr("subprocess.Popen", lambda command, **_: started.append(command))
    for _ in range(2):
        with warm.kernels_compiling(UniformEvaluator(), filed=True, told=told):
            pass
    assert [command[-2:] for command in started] == 2 * [["search", "file"]]
    assert [record.message for record in caplog.records] == ([] if told else [COMPILING])


def test_a_search_with_an_evaluator_outside_compiles_before_its_clock_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marked: list[str] = []
    monkeypatch.setattr(
        "graphsearch.search.loop.mark_compiled", lambda purpose="search": marked.append(purpose)
    )
    monkeypatch.setattr(warm, "is_compiled", lambda part: part == "search" or part in marked)
    evaluator = OutsideUniform()
    assert warm.kernels_missing(evaluator, filed=False) > 0
    with Graph.open(None, evaluator=evaluator) as graph:
        analyze(graph, chess.Board(), Limits(visits=2))
    assert warm.kernels_missing(evaluator, filed=False) == 0


def test_other_kernels_compile_on_after_the_search_in_one_process(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    started: list[Any] = []
    ended: list[int] = []

    def popen(command: list[str], **options: Any) -> Any:
        started.append(own_group().items() <= options.items())
        return SimpleNamespace(poll=lambda: ended[0] if ended else None)

    monkeypatch.setattr(warm, "_LEFT", [])
    monkeypatch.setattr(warm, "is_compiled", lambda part: False)
    monkeypatch.setattr(warm, "has_low_priority", lambda: False)
    monkeypatch.setattr("subprocess.Popen", popen)
    for _ in range(2):
        with warm.other_kernels_compiling():
            pass
    assert started == [True]
    assert [record.message for record in caplog.records] == 2 * [warm.COMPILES_IN_BACKGROUND]
    ended.append(0)
    with PLACES.own.alone(warm.BACKGROUND), warm.other_kernels_compiling():  # another process compiles
        pass
    assert started == [True]
    with warm.other_kernels_compiling():
        ended.clear()
    assert started == [True, True]
    monkeypatch.setattr(warm, "_LEFT", [])
    monkeypatch.setattr(warm, "_IS_ALONE", False)
    warm.compile_all_here()
    with warm.other_kernels_compiling():
        pass
    assert started == [True, True]


def test_a_part_that_is_compiled_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(warm, "compile_paging_kernels", lambda: compiled.append("paging"))
    for known in (True, False):
        monkeypatch.setattr(warm, "is_compiled", lambda part, known=known: known)
        warm.compile_parts("paging")
    assert compiled == ["paging"]


def test_the_other_process_runs_this_program_in_a_folder_with_another_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "graphsearch").mkdir()  # as a clone beside which the package is installed
    (tmp_path / "graphsearch" / "__init__.py").write_text("raise SystemExit(3)")
    assert (
        subprocess.run(python_command("graphsearch.search.warm"), cwd=tmp_path, check=False).returncode == 0
    )


def test_the_commands_that_compile_know_no_settings(tmp_path: Path) -> None:
    mine, settings = tmp_path / "mine.graph", tmp_path / "graphsearch.toml"
    settings.write_text('evaluator = "uci:no such program"')
    script = (
        "from graphsearch.cli import compile_kernels\n"
        "compile_kernels.COMMANDS = {'one': 'analyze startpos --visits 2'}\n"
        "compile_kernels.compile_part('one')"
    )
    environment = os.environ | {"GRAPHSEARCH_STORE": str(mine)}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True)
    assert not mine.exists()
