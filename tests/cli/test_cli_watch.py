"""`graphsearch watch`: turns of several positions, their shares, and what is kept."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from graphsearch.search import turns as turns_module
from graphsearch.search.turns import Root, Turns

from ..conftest import Cli, sql

MATE = "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"


def rows(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def _until_each_had_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns of 0.2 s, and Ctrl-C after one of each and the proof: no machine is too slow for that."""
    real, had = Turns.count, set[str]()

    def count(turns: Turns, root: Root, seconds: float, reason: str) -> None:
        real(turns, root, seconds, reason)
        had.add(root.title)
        if len(had) == 3 and any(turns.ended(each) for each in turns._roots):
            had.clear()
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(turns_module, "ROUND_SECONDS", 0.6)
    monkeypatch.setattr(Turns, "count", count)


@pytest.mark.usefixtures("_until_each_had_its_turn")
def test_every_position_has_its_turn_and_is_listed_in_the_file(cli: Cli, tmp_path: Path) -> None:
    store = tmp_path / "a.graph"
    done = cli("watch", store, "1. e4 e5", MATE, "1. d4").ends(130, "Resume with: graphsearch watch")
    assert "'1. e4 e5'" in done.err
    lines = {line.split("  ")[0]: line for line in done.out.splitlines()}
    assert {"1. e4 e5", MATE, "1. d4"} <= set(lines)
    assert "proven" in lines[MATE]
    assert len(sql(store, "SELECT * FROM root")) == 3
    again = rows(cli("watch", store, "--json").ends(130).out)
    assert {row["line"] for row in again} == {"1. e4 e5", MATE, "1. d4"}
    assert [row["ended"] for row in again if row["line"] == MATE][-1] == "proven"


def test_a_limit_of_evaluations_is_that_of_all_turns(cli: Cli, tmp_path: Path) -> None:
    found = rows(cli("watch", tmp_path / "a.graph", "1. e4", "--evaluations", 50, "--json").ends(0).out)
    assert (len(found), found[0]["best"] is not None) == (1, True)
    ((evaluations,),) = sql(tmp_path / "a.graph", "SELECT SUM(evaluations) FROM run")
    assert 50 <= evaluations < 100
