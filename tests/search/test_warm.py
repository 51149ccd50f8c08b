"""What another process compiles for a search: who says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import chess
import pytest

from graphsearch import Graph, Limits, analyze
from graphsearch.evaluators.uniform import OutsideUniform, UniformEvaluator
from graphsearch.search import warm
from graphsearch.workers.process import python_command

BESIDE = "graphsearch.solvers.mate.beside"


@pytest.mark.parametrize(
    ("missing", "told", "speaks"),
    [
        (["file"], False, True),
        (["file"], True, False),
        (["search", "file"], False, False),  # the search itself says it
    ],
)
def test_the_other_process_speaks_where_nobody_else_does(
    monkeypatch: pytest.MonkeyPatch, missing: list[str], told: bool, speaks: bool
) -> None:
    started: list[Any] = []

    def popen(command: list[str], **streams: Any) -> Any:
        started.append(streams["stderr"])
        return SimpleNamespace(wait=lambda: 0)

    monkeypatch.setattr(warm, "_missing", lambda *_, **__: missing)
    monkeypatch.setattr("subprocess.Popen", popen)
    with warm.kernels_compiling(UniformEvaluator(), filed=True, prover=BESIDE, told=told):
        pass
    assert started == [None if speaks else subprocess.DEVNULL]


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
        started.append(options["start_new_session"])
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
    with warm.other_kernels_compiling():
        ended.clear()
    assert started == [True, True]


def test_a_part_that_another_process_has_compiled_is_not_compiled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[str] = []
    for known in (True, False):
        monkeypatch.setattr(warm, "is_compiled", lambda part, known=known: known)
        warm.compile_alone("test", compiled.append)
    assert compiled == ["test"]


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
