"""The benchmark runs at a small scale and gives every figure; no figure is judged here."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import pytest
from graphsearch.cli.lab import _LINES

FIGURES = set(_LINES) - {"start_cold_s"}  # the last one compiles everything


def test_the_benchmark_gives_every_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = importlib.import_module("graphsearch.cli.bench")
    first, process_seconds = bench.FIRST_TABLE, bench.process_seconds

    def seconds(arguments: Sequence[str], environment: Any) -> float:
        """Runs the first table only; sessions take a second, and another for each 1000 evaluations."""
        if arguments == first:
            return float(process_seconds(arguments, environment))
        return 1.0 + int(arguments[-1]) / 1000

    monkeypatch.setattr(bench, "process_seconds", seconds)
    for repeats in ("REPEATS", "PAIRS"):
        monkeypatch.setattr(bench, repeats, 1)
    told: list[str] = []
    figures = bench.measure(told.append, nodes=2000)
    assert set(figures) == FIGURES
    assert all(value > 0 for value in figures.values())
    assert figures["sessions_of_one"] == pytest.approx(2 / 3, abs=0.01)  # 2 / (1 + 2), without starts
    assert len(told) >= 4
