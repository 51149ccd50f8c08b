"""What another process compiles for a search: who says so."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.search import warm

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
