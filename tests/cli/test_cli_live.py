"""The live table: on a terminal only, and gone when the search ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pty = pytest.importorskip("pty")


def on_a_terminal(*args: str, columns: int = 100) -> tuple[str, str]:
    """Returns the stdout (a pipe) and stderr (a terminal) of a command line."""
    master, slave = pty.openpty()
    env = os.environ | {"COLUMNS": str(columns), "LINES": "24", "TERM": "xterm"}
    command = [sys.executable, "-m", "graphsearch", *args]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=slave, env=env, text=True)
    os.close(slave)
    shown = read_all(master)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, shown
    return out, shown


def read_all(master: int) -> str:
    """Returns what a terminal shows until its program closes it."""
    chunks = []
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:  # Linux says so when the last writer is gone
            break
        if not chunk:
            break
        chunks.append(chunk)
    os.close(master)
    return b"".join(chunks).decode()


def test_a_terminal_sees_the_best_lines_and_the_counters_beside_clean_json_on_stdout() -> None:
    out, shown = on_a_terminal("analyze", "startpos", "--time", "0.8", "--json")
    for word in ("Move", "W D L", "Line", "nodes ", "visits/s ", "evaluations/s ", "depth "):
        assert word in shown
    assert json.loads(out)["bestmove"]


def test_a_narrow_terminal_is_enough() -> None:
    out, shown = on_a_terminal("analyze", "startpos", "--time", "0.5", columns=20)
    assert "Move" in shown
    assert "\x1b" not in out
