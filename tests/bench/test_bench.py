"""The benchmark runs at a small scale and gives every figure; no figure is judged here."""

from __future__ import annotations

import pytest
from graphsearch.cli.bench import starting
from graphsearch.cli.bench.speed import measure

FIGURES = {
    "nodes",
    "perft_per_s",
    "expand_ns",
    "make_ns",
    "visits_per_s_single",
    "evaluations_per_s_single",
    "visits_per_s_wave",
    "evaluations_per_s_wave",
    "ram_bytes_per_node",
    "file_bytes_per_node",
    "save_nodes_per_s",
    "load_nodes_per_s",
    "search_visits_per_s",
    "search_visits_per_s_saving",
    "search_saved_per_s",
    "search_written_of_size",
    "builtin_evaluations_per_s",
    "builtin_file_bytes_per_node",
    "resumed_us_per_visit",
    "one_evaluation_s",
    "sessions_of_one",
    "unstopped_us_per_visit",
    "resumed_of_unstopped",
    "resumed_read_us_per_node",
    "resumed_image_us_per_node",
    "start_s",
    "alphabeta_nodes_per_s",
    "alphabeta_leaves_of_minimal",
}


def test_the_benchmark_gives_every_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, few in (("SESSIONS", 2), ("STARTS", 1)):
        monkeypatch.setattr(starting, name, few)
    told: list[str] = []
    figures = measure(told.append, nodes=2000)
    assert set(figures) == FIGURES
    figures.pop("sessions_of_one")  # a difference, here of nearly the same
    assert all(value > 0 for value in figures.values())
    assert len(told) >= 4
