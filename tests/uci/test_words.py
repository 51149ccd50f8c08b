"""Words of a chess program that are out of every range: a line says what is used, and no thread fails."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphsearch.uci.protocol import parse_go, parse_position, parse_setoption
from tests.conftest import finish, start
from tests.uci.engines import Played

HUGE = "9" * 20
ENDLESS = "9" * 5000


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """What threads raised meanwhile."""
    found: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: found.append(arguments.exc_value))
    yield found
    assert found == []


def test_a_number_out_of_range_is_replaced_and_noted() -> None:
    for words, field, value in (
        (f"movetime {HUGE}", "movetime", 10**12),
        (f"wtime {HUGE} winc {ENDLESS}", "winc", 10**12),
        (f"wtime -{ENDLESS}", "wtime", -(10**12)),
        ("movetime -5", "movetime", 0),
        (f"nodes {ENDLESS}", "nodes", 10**15),
        (f"depth {HUGE}", "depth", 10**15),
        (f"mate {HUGE}", "mate", 10**15),
        (f"movestogo {HUGE} wtime 1000", "movestogo", 10**15),
    ):
        go = parse_go(words.split())
        assert getattr(go, field) == value
        assert all(len(note) < 200 for note in go.notes)
        assert f"{value} is used" in " ".join(go.notes)
    assert parse_go(["movetime", "100.9"]) == parse_go(["movetime", "100"])


def test_what_is_no_number_is_noted_and_ignored() -> None:
    for word in ("wtime", "nodes", "depth", "movestogo", "mate", "movetime"):
        for text in ("", "x", "nan", "inf", "1e3", "0x10", "\u0663", "--5", "."):
            go = parse_go([word, *([text] if text else [])])
            assert getattr(go, word) is None, text
            assert f"{word} needs a number" in go.notes[0]


def test_an_engine_answers_whatever_the_numbers_are(failures: list[object]) -> None:
    with Played() as played:
        for words in (
            f"movetime {HUGE} nodes 5",
            f"wtime {HUGE} btime {HUGE} nodes 5",
            f"wtime {ENDLESS} winc {ENDLESS} movestogo {ENDLESS} nodes 5",
            f"wtime -{HUGE} btime -{HUGE}",
            "movetime -1",
            "wtime x nodes 5",
            f"nodes 5 depth {ENDLESS} mate {HUGE} movetime 50",
            "nodes 5 searchmoves " + "x" * 10_000,
        ):
            lines = played.ready().ask("position startpos", f"go {words}", until="bestmove")
            assert lines[-1] != "bestmove 0000", words[:80]
        played.ready()
    assert not any("Error:" in line or "failed" in line for line in played.console.lines)
    assert failures == []


OPTIONS = {
    "MultiPV": (HUGE, ENDLESS, "-1", "\u0663"),
    "Threads": (HUGE,),
    "Move Overhead": ("nan",),
    "RAM": ("99999999TB", ENDLESS, "\0", "1kB"),
    "CPuct": ("nan", "1e999", "-1"),
    "MinibatchSize": (ENDLESS, "-1"),
    "MaxWaveShare": ("2",),
    "Gather": ("x" * 10_000,),
    "UCI_ShowWDL": ("maybe",),
    "UCI_Variant": ("atomic",),
    "x" * 10_000: ("1",),
    "LogFile": ("/dev/null/x", "a\0b", "{fifo}"),
}


def test_an_option_out_of_range_is_refused_in_a_line(failures: list[object], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with Played() as played:
        before = played.engine.settings.lines()
        for name, value in ((name, value) for name, values in OPTIONS.items() for value in values):
            known = len(played.console.lines)
            text = value.format(fifo=tmp_path / "fifo")
            assert played.engine.handle(f"setoption name {name} value {text}")
            (said,) = (line for line in played.console.lines[known:] if "ERROR" in line)
            assert "failed" not in said, (name, value)
            assert len(said) < 2500
            if name != "LogFile":
                assert played.engine.settings.lines() == before, (name, value)
    assert failures == []


def test_blanks_without_end_are_read_at_once() -> None:
    blanks = " " * 200_000
    assert parse_setoption(f"setoption name {blanks}x{blanks}value{blanks}y") == ("x", "y")
    assert parse_setoption(f"setoption name{blanks}") == ("", "")
    assert parse_go(blanks.split()).notes == ()
    assert parse_position(["startpos"]).problem == ""


def test_a_line_that_is_too_long_is_ignored_and_the_next_one_counts() -> None:
    process = start("uci", stdin=subprocess.PIPE)
    assert process.stdin
    process.stdin.write("position startpos moves " + "e2e4 " * 300_000 + "\nd\nquit\n")
    process.stdin.close()
    process.stdin = None
    done = finish(process)
    assert done.code == 0
    assert "a line of more than 1 MiB is ignored" in done.out
    assert "Fen: rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1" in done.out
