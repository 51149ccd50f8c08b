"""The clock of the machine jumps: searches, runs and books do not care."""

from __future__ import annotations

import importlib
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import count
from pathlib import Path
from typing import ClassVar

import pytest

from ..conftest import Cli

BOOK = """\
[book]
name = "white"
side = "white"
max_ply = 2
[evaluator]
name = "uniform"
[[root]]
moves = "e4"
"""


class JumpingClock(datetime):
    """A clock that is years ahead at one look and years behind at the next."""

    looks: ClassVar = count()

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        look = next(cls.looks)
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=(-1) ** look * 400 * (look % 7))


@pytest.fixture(autouse=True)
def jumping(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("store.provenance", "store.file", "exchange.pgn_export"):
        monkeypatch.setattr(importlib.import_module(f"graphsearch.{name}"), "datetime", JumpingClock)


def test_runs_are_counted_whatever_the_clock_says(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    for visits in (20, 30, 40):
        assert cli("analyze", "startpos", "--visits", visits, "--time", 60, "--store", path).code == 0
    assert cli("show", "startpos", "--store", path, "--json").json["visits"] >= 90
    assert cli("store", "info", path).code == 0
    assert len(cli("store", "info", path, "--json").json["runs"]) == 3
    assert cli("export", "--format", "pgn", "--store", path, "-o", tmp_path / "a.pgn").code == 0
    assert cli("store", "verify", path).code == 0


def test_a_book_is_built_and_told_whatever_the_clock_says(cli: Cli, tmp_path: Path) -> None:
    path, config = tmp_path / "a.graph", tmp_path / "book.toml"
    config.write_text(BOOK)
    for _ in range(2):
        cli("book", "build", config, "--store", path, "--evaluations", 60).ends(0)
    assert cli("book", "status", "--store", path).code == 0
    assert cli("book", "todo", "white", "--store", path).code == 0
    assert cli("book", "queue", "startpos", "--store", path).code == 0
    assert cli("book", "queue", "--store", path).code == 0
