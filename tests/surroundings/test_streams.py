"""Streams that are closed, full or gone, and signals: the work is saved, and the exit code tells."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from ..conftest import Cli, finish, start
from ..support.forks import Command, needs_fork
from ..support.pools import until

FULL = Path("/dev/full")


def close_all() -> None:
    """Closes the streams of a process that is being started, which may open few files."""
    for number in range(3):
        os.close(number)
    resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))


def searched(cli: Cli, path: Path) -> int:
    return int(cli("show", "startpos", "--store", path, "--json").json["visits"])


def test_closed_streams_and_few_files_that_may_be_open_hurt_no_file(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    command = ("analyze", "startpos", "--visits", 200, "--store", path)
    outcome = finish(start(*command, preexec_fn=close_all)).ends(0)
    assert "Traceback" not in outcome.err
    assert searched(cli, path) == 200
    assert cli("store", "verify", path).code == 0


@needs_fork
@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_a_full_stdout_is_one_line_after_saving(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    words = "analyze", "startpos", "--visits", 200, "--store", path
    with FULL.open("w") as full, Command(*words, before=lambda: os.dup2(full.fileno(), 1)) as fork:
        done = fork.end()
    assert done.code == 1
    lines = [line for line in done.err.splitlines() if line.startswith("graphsearch: ")]
    lines = [line for line in lines if "compil" not in line]  # of kernels, where the cache has none
    assert len(lines) == 1, done.err
    assert "No space left on device" in lines[0]
    assert searched(cli, path) == 200


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_a_full_stderr_changes_nothing(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.graph"
    with FULL.open("w", buffering=1) as full, suppress(OSError):
        monkeypatch.setattr(sys, "stderr", full)
        outcome = cli("analyze", "startpos", "--visits", 200, "--store", path).ends(0)
        monkeypatch.undo()
    assert "bestmove" in outcome.out
    assert searched(cli, path) == 200


@pytest.mark.slow
def test_an_engine_whose_reader_is_gone_saves(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    process = start("uci", "--store", path, stdin=-1)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("isready\ngo nodes 100\n")
    process.stdin.flush()
    while not process.stdout.readline().startswith("bestmove"):
        pass
    process.stdout.close()
    process.stdout = None
    process.stdin.write("isready\nisready\n")
    outcome = finish(process)
    assert "Traceback" not in outcome.err
    assert searched(cli, path) >= 100


@needs_fork
def test_a_stopped_search_goes_on_and_saves(cli: Cli, tmp_path: Path) -> None:
    """SIGSTOP, as by a laptop's lid or Ctrl-Z, in the middle of searching and saving."""
    path = tmp_path / "a.graph"
    with Command("analyze", "startpos", "--visits", 5000, "--threads", 1, "--store", path) as search:
        until(path.exists)
        for _ in range(2):
            time.sleep(0.05)
            os.kill(search.process, signal.SIGSTOP)
            time.sleep(0.2)
            os.kill(search.process, signal.SIGCONT)
        assert search.end().code == 0
    assert searched(cli, path) == 5000
    assert cli("store", "verify", path).code == 0


@pytest.mark.slow
def test_signals_at_any_moment_end_the_program_in_one_line(tmp_path: Path) -> None:
    """From the start of the interpreter's work for us on; twice each, as an impatient person does."""
    begun = tmp_path / "begun"
    (tmp_path / "sitecustomize.py").write_text(f"open({str(begun)!r}, 'w').close()\n")
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    for delay in (0.25, 0.7):
        begun.unlink(missing_ok=True)
        words = ("analyze", "startpos", "--store", tmp_path / "a.graph")
        process = start(*words, env=os.environ | {"PYTHONPATH": paths}, preexec_fn=default)
        until(begun.exists)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        outcome = finish(process)
        assert outcome.code in (130, -signal.SIGINT)
        assert "__main__.py" not in outcome.err  # a traceback without it is of Python's own start
        assert "ignored" not in outcome.err


def default() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
