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


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (f"movetime {HUGE}", "movetime", 10**12),
        (f"wtime {HUGE} winc {ENDLESS}", "winc", 10**12),
        (f"wtime -{ENDLESS}", "wtime", -(10**12)),
        ("movetime -5", "movetime", 0),
        (f"nodes {ENDLESS}", "nodes", 10**15),
        (f"depth {HUGE}", "depth", 10**15),
        (f"mate {HUGE}", "mate", 10**15),
        (f"movestogo {HUGE} wtime 1000", "movestogo", 10**15),
        ("movetime 100.9", "movetime", 100),
    ],
)
def test_a_number_out_of_range_is_replaced_and_noted(words: str, field: str, value: int) -> None:
    go = parse_go(words.split())
    assert getattr(go, field) == value
    assert bool(go.notes) == ("100.9" not in words)
    assert all(len(note) < 200 for note in go.notes)
    if go.notes:
        assert f"{value} is used" in " ".join(go.notes)


@pytest.mark.parametrize("word", ["wtime", "nodes", "depth", "movestogo", "mate", "movetime"])
def test_what_is_no_number_is_noted_and_ignored(word: str) -> None:
    for text in ("", "x", "nan", "inf", "1e3", "0x10", "\u0663", "--5", "."):
        go = parse_go([word, *([text] if text else [])])
        assert getattr(go, word) is None, text
        assert f"{word} needs a number" in go.notes[0]


@pytest.mark.parametrize(
    "words",
    [
        f"movetime {HUGE} nodes 5",
        f"wtime {HUGE} btime {HUGE} nodes 5",
        f"wtime {ENDLESS} winc {ENDLESS} movestogo {ENDLESS} nodes 5",
        f"wtime -{HUGE} btime -{HUGE}",
        "movetime -1",
        "wtime x nodes 5",
        f"nodes 5 depth {ENDLESS} mate {HUGE} movetime 50",
        "nodes 5 searchmoves " + "x" * 10_000,
    ],
)
def test_an_engine_answers_whatever_the_numbers_are(words: str, failures: list[object]) -> None:
    with Played() as played:
        lines = played.ready().ask("position startpos", f"go {words}", until="bestmove")
        assert lines[-1] != "bestmove 0000"
        played.ask("isready", until="readyok")
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


@pytest.mark.parametrize("name", OPTIONS, ids=lambda name: name[:20])
def test_an_option_out_of_range_is_refused_in_a_line_and_the_engine_goes_on(
    name: str, failures: list[object], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    with Played() as played:
        before = played.engine.settings.lines()
        for k, value in enumerate(OPTIONS[name]):
            words = f"setoption name {name} value {value.format(fifo=tmp_path / 'fifo')}"
            assert played.engine.handle(words)
            said = [line for line in played.console.lines if "ERROR" in line]
            assert len(said) == k + 1, value
            assert "failed" not in said[-1]
            assert len(said[-1]) < 2500
        if name != "LogFile":
            assert played.engine.settings.lines() == before
    assert failures == []


@pytest.mark.parametrize(
    "line",
    [
        "position",
        "position fen",
        "position fen x",
        "position startpos moves " + "e2e4 " * 20_000,
        "\0",
        "go " * 5000,
    ],
)
def test_an_odd_line_leaves_the_engine_at_work(line: str, failures: list[object]) -> None:
    with Played() as played:
        assert played.engine.handle(line)
        played.ask("stop", "position startpos", "go nodes 1", until="bestmove")
        assert not any("failed" in text for text in played.console.lines)
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
