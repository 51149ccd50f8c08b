"""The live table: on a terminal only, and gone when the search ends."""

from __future__ import annotations

import json

import pytest

from ..support.terminals import on_a_terminal


def test_a_terminal_sees_the_best_lines_and_the_counters_beside_clean_json_on_stdout(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("analyze", "startpos", "--visits", "500", "--json")
    shown = on_a_terminal(monkeypatch, [words], columns=100, streams=["stderr"])
    for word in ("Move", "W D L", "Line", "nodes ", "visits/s ", "evaluations/s ", "depth "):
        assert word in shown
    assert json.loads(capsys.readouterr().out)["bestmove"]


def test_few_columns_are_enough(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("analyze", "startpos", "--visits", "500")
    assert "Move" in on_a_terminal(monkeypatch, [words], columns=20, streams=["stderr"])
    assert "\x1b" not in capsys.readouterr().out
