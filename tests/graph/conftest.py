"""Memories that are small enough for a test."""

from __future__ import annotations

import pytest

import graphsearch.graph.arena
import graphsearch.graph.graph
import graphsearch.graph.reading


@pytest.fixture
def nothing_loaded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads no file whole when it is opened."""
    monkeypatch.setattr(graphsearch.graph.graph, "LOADED_AT_ONCE", 0)


@pytest.fixture
def small_memories(nothing_loaded_at_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a memory be as small as a test wants, and loads nothing before it is needed."""
    monkeypatch.setattr(graphsearch.graph.reading, "LEAST_BYTES", 1 << 14)
    monkeypatch.setattr(graphsearch.graph.arena, "MIN_TABLE", 1 << 10)
    monkeypatch.setattr(graphsearch.graph.arena, "LOG_ROWS", 1 << 6)
