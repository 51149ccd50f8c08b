"""Too little of what a system gives, streams, signals, the clock: one line, and a whole file."""

from __future__ import annotations

import importlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import count
from pathlib import Path
from typing import ClassVar

import pytest

from graphsearch.base.faults import error_line
from graphsearch.store.store import Store
from graphsearch.store.verify import verify

from ..conftest import Cli, Outcome, finish, start
from ..support.forks import Command, needs_fork
from ..support.pools import until


def limited(what: int, most: int) -> Callable[[], None]:
    """Returns what limits a process that is being started."""
    return lambda: resource.setrlimit(what, (most, most))


def check_line(outcome: Outcome) -> None:
    """Checks that a process that failed says why, in one line of ours."""
    assert "Traceback" not in outcome.out + outcome.err
    assert "internal error" not in outcome.err
    assert outcome.code in (0, 1), outcome
    said = [line for line in outcome.err.splitlines() if line.startswith("graphsearch: ")]
    assert len(said) == outcome.code, outcome.err


@pytest.mark.slow
def test_too_few_files_may_be_open(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    command = ("analyze", "startpos", "--visits", 200, "--store", path)
    check_line(finish(start(*command, preexec_fn=limited(resource.RLIMIT_NOFILE, 7))))
    if path.exists():
        assert cli("store", "verify", path).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [200, 1000])
def test_too_little_memory_to_start_with(small_graph: Path, megabytes: int) -> None:
    """Libraries may end the process themselves, with a word of theirs; the file is whole in any case."""
    command = ("analyze", "startpos", "--visits", 200, "--store", small_graph)
    outcome = finish(start(*command, preexec_fn=limited(resource.RLIMIT_AS, megabytes << 20)))
    assert "Traceback" not in outcome.err
    if outcome.code >= 0:
        check_line(outcome)
    assert verify(small_graph).ok


def starve() -> None:
    """Leaves this process 40 MiB of addresses."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limited(resource.RLIMIT_AS, pages * resource.getpagesize() + (40 << 20))()


@needs_fork
def test_memory_that_runs_out_in_a_search_leaves_what_was_found(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    words = "analyze", "startpos", "--evaluator", "uniform", "--store", path, "--visits"
    assert cli(*words, 50).code == 0
    with Command(*words, 500_000, before=starve) as command:
        told = command.end().err
    assert "Traceback" not in told
    assert "internal error" not in told
    assert "memory" in told
    assert cli("store", "verify", path).code == 0


# ---------------------------------------------------------- a disk that fills
@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Makes a file system of so many kB in memory, or makes it larger."""
    folder = tmp_path / "disk"

    def sized(kilobytes: int) -> Path:
        option = "remount," if folder.exists() else ""
        folder.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"{option}size={kilobytes}k", "none", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"cannot mount a file system: {done.stderr.strip()}")
        return folder

    yield sized
    subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)


def test_a_read_only_file_system_is_read_not_written(cli: Cli, small_disk: Callable[[int], Path]) -> None:
    folder = small_disk(8000)
    path = folder / "a.graph"
    assert cli("analyze", "startpos", "--visits", 50, "--store", path).code == 0
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    assert cli("show", "startpos", "--store", path).code == 0
    assert cli("store", "verify", path).code == 0
    for command in (("analyze", "startpos", "--visits", 5, "--store", path), ("store", "compact", path)):
        outcome = cli(*command)
        check_line(outcome)
        assert outcome.code == 1
        assert "Read-only file system" in outcome.err or "cannot be written" in outcome.err
    subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)
    assert cli("analyze", "startpos", "--visits", 5, "--store", path).code == 0
    assert [one.name for one in folder.iterdir()] == ["a.graph"]


# ------------------------------------------------------------------ company
def test_a_second_writer_is_refused_in_one_line(cli: Cli, small_graph: Path) -> None:
    pgn = small_graph.with_name("a.pgn")
    pgn.write_text("1. e4 e5 *\n")
    for command in (
        ("analyze", "startpos", "--visits", 5, "--store"),
        ("mate", "startpos", "--visits", 5, "--store"),
        ("import", pgn, "--store"),
        ("lab", "refresh"),
        ("store", "compact"),
        ("store", "compact", "--min-visits", 2),
        ("reevaluate", "--evaluator", "uniform"),
    ):
        with Store.open(small_graph):
            outcome = cli(*command, small_graph).ends(1)
        (line,) = [line for line in outcome.err.splitlines() if line.startswith("graphsearch: ")]
        assert f"{small_graph} is being written by process" in line


# ---------------------------------------------------------- streams and signals
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


# ---------------------------------------------------------- a clock that jumps
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


@pytest.fixture
def jumping(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("store.provenance", "store.file", "exchange.pgn_export"):
        monkeypatch.setattr(importlib.import_module(f"graphsearch.{name}"), "datetime", JumpingClock)


@pytest.mark.usefixtures("jumping")
def test_runs_are_counted_whatever_the_clock_says(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    for visits in (20, 30, 40):
        assert cli("analyze", "startpos", "--visits", visits, "--time", 60, "--store", path).code == 0
    assert cli("show", "startpos", "--store", path, "--json").json["visits"] >= 90
    assert cli("store", "info", path).code == 0
    assert len(cli("store", "info", path, "--json").json["runs"]) == 3
    assert cli("export", "--format", "pgn", "--store", path, "-o", tmp_path / "a.pgn").code == 0
    assert cli("store", "verify", path).code == 0


@pytest.mark.usefixtures("jumping")
def test_a_book_is_built_and_told_whatever_the_clock_says(cli: Cli, tmp_path: Path) -> None:
    path, config = tmp_path / "a.graph", tmp_path / "book.toml"
    config.write_text(BOOK)
    for _ in range(2):
        cli("book", "build", config, "--store", path, "--evaluations", 60).ends(0)
    assert cli("book", "status", "--store", path).code == 0
    assert cli("book", "todo", "--book", "white", "--store", path).code == 0
    assert cli("book", "queue", "startpos", "--store", path).code == 0
    assert cli("book", "queue", "--store", path).code == 0


# ------------------------------------------------------------------ names that a graph file may have
NAMES = [
    "a?mode=ro#b 100%25.graph",
    "-x\ty\nz.graph",
    "file:a.graph",
    ":memory:",
    "é\u2603\U0001f600'; DROP TABLE block; --.graph",
    "x" * 240 + ".graph",
]


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def check_life(cli: Cli, path: Path) -> None:
    """Makes a file, resumes, reads, verifies and copies it."""
    for visits in (20, 30):
        outcome = cli("analyze", "startpos", "--visits", visits, "--json", "--store", path).ends(0)
        assert outcome.json["store"] == str(path)
    assert outcome.json["visits"] > 30, "resumed"
    assert cli("show", "startpos", "--store", path, "--json").json["visits"] == outcome.json["visits"]
    assert cli("lab", "sql", "SELECT count(*) FROM block", "--store", path).code == 0
    assert cli("store", "verify", path, "--json").json["ok"]
    assert [one for one in files_in(path.parent) if not one.endswith("copy")] == [path.name]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
def test_any_name_is_a_name(cli: Cli, tmp_path: Path, name: str) -> None:
    check_life(cli, tmp_path / name)
    if len(name) < 200:
        assert cli("store", "backup", tmp_path / name, tmp_path / f"{name}copy").code == 0


def test_a_name_that_is_not_utf8_is_a_name(cli: Cli, tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9\xc3\xa9.graph")
    cli("analyze", "startpos", "--visits", 9, "--store", path).ends(0, "holds 9 nodes")
    command = [sys.executable, "-m", "graphsearch", "store", "verify", path]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=environment, capture_output=True, timeout=120, check=True)
    assert done.stdout.startswith(ascii(path)[1:-1].encode())


def test_a_name_that_is_too_long_is_one_line(cli: Cli, tmp_path: Path) -> None:
    for name in ("x" * 252, "x" * 300, "/".join(["x" * 200] * 30)):
        outcome = cli("analyze", "startpos", "--visits", 5, "--store", tmp_path / name)
        assert outcome.code == (2 if "does not exist" in outcome.err else 1)
        assert len(outcome.faults) == 1, outcome.err
        assert "too long" in outcome.err or "does not exist" in outcome.err


def test_what_is_no_file_is_refused_at_once(cli: Cli, tmp_path: Path) -> None:
    fifo, loop, folder = tmp_path / "fifo", tmp_path / "loop", tmp_path / "folder"
    os.mkfifo(fifo)
    loop.symlink_to(loop)
    folder.mkdir()
    for path, why in (
        (fifo, "is not a regular file"),
        (loop, "is a link in a loop of links"),
        (folder, "is a folder"),
        (Path("/dev/null"), "is not a regular file"),
        (tmp_path / "none" / "a.graph", "does not exist"),
    ):
        for command in (("analyze", "startpos", "--store"), ("store", "info"), ("store", "verify")):
            outcome = cli(*command, path).ends(2 if why == "does not exist" else 1)
            (line,) = outcome.err.splitlines()
            assert line.startswith("graphsearch: ")
            assert why in line
    assert files_in(tmp_path) == ["fifo", "folder", "loop"]


def test_links_lead_to_one_file_with_one_lock(cli: Cli, tmp_path: Path) -> None:
    target, link = tmp_path / "target.graph", tmp_path / "link.graph"
    link.symlink_to(target)
    assert cli("analyze", "startpos", "--visits", 5, "--store", link).code == 0
    assert target.is_file()
    assert cli("analyze", "startpos", "--visits", 5, "--store", f"{target}/").code == 0
    assert files_in(tmp_path) == ["link.graph", "target.graph"]


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, small_graph: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    small_graph.parent.chmod(0o500)
    other = small_graph.with_name("b.graph")
    try:
        made = finish(start("analyze", "startpos", "--visits", 5, "--store", other))
        read = finish(start("show", "startpos", "--store", small_graph))
    finally:
        small_graph.parent.chmod(0o700)
    assert (made.code, read.code) == (1, 0)
    assert "Permission denied" in made.err
    assert len(made.faults) == 1


def test_a_message_names_any_path() -> None:
    assert error_line(FileNotFoundError(2, "No such file", os.fsdecode(b"a\xff"))) == "a\udcff: No such file"
