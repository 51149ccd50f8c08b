"""Few rows in the tables for SQL, which hardly any test of graphs and searches reads."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def few_top_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps eight positions in `top_position`: to render 100 takes longer than a small search."""
    monkeypatch.setattr("graphsearch.graph.summary.TOP_NODES", 8)
