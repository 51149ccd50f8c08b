"""The room for the system and its forms elsewhere; too little of what it gives, and files that go."""

from __future__ import annotations

import importlib
import mmap
import os
import random
import select
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import count
from pathlib import Path, PureWindowsPath
from typing import ClassVar

import chess
import psutil
import pytest

from graphsearch import Graph, Limits, Progress, analyze
from graphsearch.base import system
from graphsearch.base.errors import StoreError, StoreMovedError, UnsavedError
from graphsearch.base.faults import error_line
from graphsearch.graph.arena import default_budget
from graphsearch.store import file
from graphsearch.store.store import Store
from graphsearch.store.verify import verify
from tests.conftest import Cli, Outcome, finish, start
from tests.support.forks import Command
from tests.support.pools import until

ONE, TWO = "4:memory:/box\n2:cpu,cpuacct:/box\n1:name=systemd:/\n", "0::/outer/box\n"
GB = 1 << 30


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    for cached in (system.memory_bytes, system._quota):
        cached.cache_clear()
    yield
    for cached in (system.memory_bytes, system._quota):
        cached.cache_clear()


MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
LARGEST = str((1 << 63) - 4096)
QUOTA = {"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}
ABOVE = {"outer/box/cpu.max": "max 100000", "outer/cpu.max": "250000 100000", "memory.max": str(GB)}
CONTAINERS = {  # control groups, files of limits; cores and memory
    "none": ("", {}, 64, MACHINE),
    "nonsense": ("nonsense\n:\n", {"memory.max": "1"}, 64, MACHINE),
    "no limit": (TWO, {"cpu.max": "max 100000", "memory.max": "max"}, 64, MACHINE),
    "no quota": (ONE, QUOTA | {"cpu/cpu.cfs_quota_us": "-1"}, 64, MACHINE),
    "the largest": (ONE, {"memory/memory.limit_in_bytes": LARGEST}, 64, MACHINE),
    "zeros": (TWO, {"cpu.max": "0 0", "memory.max": "0"}, 64, MACHINE),
    "the least of all groups above": (TWO, ABOVE | {"outer/box/memory.max": str(2 * GB)}, 3, GB),
    "unseen groups": (ONE, QUOTA | {"memory/memory.limit_in_bytes": str(GB)}, 1, GB),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_has_the_least_limit_that_its_groups_give(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    groups, limits, cores, memory = CONTAINERS[name]
    monkeypatch.setattr(system, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(system, "LIMITS", tmp_path / "limits")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    (tmp_path / "groups").write_text(groups)
    for place, text in limits.items():
        path = tmp_path / "limits" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    assert (system.cores(), system.memory_bytes()) == (cores, memory)
    assert default_budget() == int(0.8 * memory)


# ------------------------------------------------------------------ the forms for other systems
@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without the calls of POSIX, such as Windows."""
    for name in ("killpg", "nice", "geteuid", "sched_getaffinity"):
        monkeypatch.delattr(os, name, raising=False)
    monkeypatch.delattr(signal, "pthread_sigmask", raising=False)
    for name in ("MADV_HUGEPAGE", "MADV_DONTNEED"):
        monkeypatch.delattr(mmap, name, raising=False)
    monkeypatch.setitem(sys.modules, "resource", None)
    monkeypatch.setattr(system, "WITHOUT_WAITING", 0)
    monkeypatch.setattr(system, "IS_POSIX", False)
    monkeypatch.setattr(system, "IS_LINUX", False)


@pytest.fixture(params=["here", "elsewhere"])
def both(request: pytest.FixtureRequest) -> str:
    """Runs a test with the calls of this system, and without those of POSIX."""
    if request.param == "elsewhere":
        request.getfixturevalue("elsewhere")
    return str(request.param)


def test_a_machine_has_cores_and_memory(both: str) -> None:
    assert system.cores() >= 1
    assert system.memory_bytes() > 1 << 27


def test_a_thread_that_works_uses_seconds(both: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if both == "elsewhere":
        monkeypatch.delattr(time, "pthread_getcpuclockid")
    before = system.thread_seconds(threading.get_ident())
    end = time.thread_time() + 0.1
    while time.thread_time() < end:
        pass
    assert system.thread_seconds(threading.get_ident()) > before


def test_reserved_memory_is_zeros_and_keeps_what_is_written_before_released_pages(both: str) -> None:
    memory = system.reserved(1 << 20)
    memory[0], memory[-1] = 1, 2
    system.release_pages(memory, 5)
    assert memory[0] == 1
    assert memory[-1] == (0 if both == "here" else 2)
    memory[-1] = 3
    assert memory[-1] == 3


def test_a_pipe_is_readable_when_it_has_data_or_where_nobody_can_tell(
    both: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if both == "elsewhere":
        monkeypatch.delattr(select, "poll", raising=False)
    reader, writer = os.pipe()
    assert system.is_readable(reader) == (both == "elsewhere")
    os.write(writer, b"x")
    assert system.is_readable(reader, 1.0)
    assert os.read(reader, 1) == b"x"
    os.close(writer)
    assert system.is_readable(reader)
    os.close(reader)


def test_private_files_are_known_by_rights_where_there_are_rights(both: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    path.chmod(0o600)
    assert system.is_private(path.stat(), kind=stat.S_IFREG)
    path.chmod(0o666)
    assert system.is_private(path.stat(), kind=stat.S_IFREG) == (both == "elsewhere")
    assert not system.is_private(path.stat(), kind=stat.S_IFDIR)


def test_a_file_is_replaced_while_a_scanner_has_it_open_for_a_moment(
    elsewhere: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain, refusals = Path.replace, iter(range(3))

    def refused(path: Path, target: Path) -> Path:
        if next(refusals, None) is not None:
            raise PermissionError(13, "in use")
        return plain(path, target)

    (tmp_path / "new").write_text("new")
    (tmp_path / "old").write_text("old")
    monkeypatch.setattr(Path, "replace", refused)
    system.replace(tmp_path / "new", tmp_path / "old")
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_text() == "new"
    system.sync_folder(tmp_path)


PATHS = {
    r"C:\games\a.graph": r"C:\games\a.graph",
    rf"C:\{'long' * 60}\a.graph": rf"\\?\C:\{'long' * 60}\a.graph",
    rf"\\server\share\{'long' * 60}\a.graph": rf"\\?\UNC\server\share\{'long' * 60}\a.graph",
    rf"\\?\C:\{'long' * 60}\a.graph": rf"\\?\C:\{'long' * 60}\a.graph",
}


def test_a_long_path_has_windows_prefix(elsewhere: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "Path", PureWindowsPath)
    for name in ("abspath", "realpath"):
        monkeypatch.setattr(os.path, name, str)
    for plain, found in PATHS.items():
        assert str(system.resolved(plain)) == found


def test_a_network_drive_is_refused_with_one_line(
    elsewhere: None, monkeypatch: pytest.MonkeyPatch, small_graph: Path
) -> None:
    monkeypatch.setattr(file, "is_on_network", lambda path: path == small_graph)
    with pytest.raises(StoreError, match=r"lies on a network drive.*copy it"):
        Store.open(small_graph)
    with Store.open(small_graph, read_only=True) as store:
        assert store.node_count > 100
    small_graph.with_name("small.graph-wal").write_bytes(b"log")
    with pytest.raises(StoreError, match=r"is being written.*network drive"):
        Store.open(small_graph, read_only=True)


COMMANDS = [
    (r"C:\engines\sf.exe", [r"C:\engines\sf.exe"]),
    (r'"C:\my engines\sf.exe" --net "a b"', [r"C:\my engines\sf.exe", "--net", "a b"]),
]


@pytest.mark.parametrize(("text", "words"), COMMANDS)
def test_a_command_of_windows_keeps_its_backslashes(elsewhere: None, text: str, words: list[str]) -> None:
    assert system.split_command(text) == words
    assert system.split_command(system.join_command(words)) == words


PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""


def test_a_process_ends_with_those_that_it_has_started(both: str) -> None:
    own = system.own_group() if both == "here" else {}  # the arguments for Windows are refused here
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, **own) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        system.end_tree(parent.pid)
        assert parent.wait(10) != 0
        system.wait_for_process(child.pid)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_a_process_that_is_gone_needs_no_end(both: str) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    system.end_tree(gone.pid)
    system.wait_for_process(gone.pid)


def test_a_signal_to_oneself_runs_its_handler(both: str) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        with system.signals_blocked():
            pass
        system.unblock_signals()
        system.send_to_self(signal.SIGINT)
        end = time.monotonic() + 10
        while not heard and time.monotonic() < end:
            time.sleep(0.01)
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]


def test_a_signal_ends_a_wait_for_data(both: str) -> None:
    reader, writer = os.pipe()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, system.send_to_self, [signal.SIGINT])
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            system.interruptible(lambda: os.read(reader, 1))
    finally:
        signal.signal(signal.SIGINT, before)
        timer.join()
        os.close(writer)  # elsewhere the read goes on until now
    reader, writer = os.pipe()
    os.write(writer, b"x")
    assert system.interruptible(lambda: os.read(reader, 1)) == b"x"
    os.close(writer)
    assert system.interruptible(lambda: os.read(reader, 1)) == b""
    with pytest.raises(OSError, match="descriptor"):
        system.interruptible(lambda: os.read(writer, 1))
    os.close(reader)


def test_the_lowest_priority_is_a_low_one() -> None:
    code = "from graphsearch.base import system as s; s.give_way(s.LOWEST); print(s.has_low_priority())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_a_program_starts_without_a_guard_where_the_kernel_has_none(elsewhere: None) -> None:
    assert system.ending_with_parent(["engine", "x"]) == ["engine", "x"]
    assert system.own_group().keys() == {"creationflags"}
    assert system.user_number() == 0
    system.return_freed_memory()


# ------------------------------------------------------------------ too little of what a system gives
def limited(what: str, most: int) -> Callable[[], None]:
    """Returns what limits a process that is being started."""
    import resource

    return lambda: resource.setrlimit(getattr(resource, f"RLIMIT_{what}"), (most, most))


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
    check_line(finish(start(*command, preexec_fn=limited("NOFILE", 7))))
    if path.exists():
        assert cli("store", "verify", path).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [200, 1000])
def test_too_little_memory_to_start_with(small_graph: Path, megabytes: int) -> None:
    """Libraries may end the process themselves, with a word of theirs; the file is whole in any case."""
    command = ("analyze", "startpos", "--visits", 200, "--store", small_graph)
    outcome = finish(start(*command, preexec_fn=limited("AS", megabytes << 20)))
    assert "Traceback" not in outcome.err
    if outcome.code >= 0:
        check_line(outcome)
    assert verify(small_graph).ok


def starve() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limited("AS", pages * mmap.PAGESIZE + (40 << 20))()


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
def test_a_second_writer_is_refused_in_one_line(
    cli: Cli, small_graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        assert f"{small_graph} is being written by this program" in line
    monkeypatch.setattr("graphsearch.store.file.holder", lambda path: {"pid": 1, "since": "noon"})
    with Store.open(small_graph):
        cli("lab", "refresh", small_graph).ends(1, "is being written by process 1 since noon; wait for it")


# ---------------------------------------------------------- streams and signals
FULL = Path("/dev/full")


def close_all() -> None:
    """Closes the streams of a process that is being started, which may open few files."""
    for number in range(3):
        os.close(number)
    limited("NOFILE", 20)()


def searched(cli: Cli, path: Path) -> int:
    return int(cli("show", "startpos", "--store", path, "--json").json["visits"])


def test_closed_streams_and_few_files_that_may_be_open_hurt_no_file(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    command = ("analyze", "startpos", "--visits", 200, "--store", path)
    assert "Traceback" not in finish(start(*command, preexec_fn=close_all)).ends(0).err
    assert searched(cli, path) == 200
    assert cli("store", "verify", path).code == 0


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
    assert "Traceback" not in finish(process).err
    assert searched(cli, path) >= 100


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
        process = start(*words, env=os.environ | {"PYTHONPATH": paths})
        until(begun.exists)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        outcome = finish(process)
        assert outcome.code in (130, -signal.SIGINT)
        assert "__main__.py" not in outcome.err  # a traceback without it is of Python's own start
        assert "ignored" not in outcome.err


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
def test_runs_are_counted_and_a_book_is_built_whatever_the_clock_says(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    for visits in (20, 30, 40):
        assert cli("analyze", "startpos", "--visits", visits, "--time", 60, "--store", path).code == 0
    assert cli("show", "startpos", "--store", path, "--json").json["visits"] >= 90
    assert cli("store", "info", path).code == 0
    assert len(cli("store", "info", path, "--json").json["runs"]) == 3
    assert cli("export", "--format", "pgn", "--store", path, "-o", tmp_path / "a.pgn").code == 0
    assert cli("store", "verify", path).code == 0
    path, config = tmp_path / "book.graph", tmp_path / "book.toml"
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


# ------------------------------------------------------------------ a graph file that goes
VISITS = 600
ENDING = "8/8/8/8/4k3/8/4P3/4K3 w - - 0 1"


def move(path: Path) -> None:
    path.rename(path.with_name("moved.graph"))


def replace(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


def delete(path: Path) -> None:
    path.unlink()


def delete_log(path: Path) -> None:
    path.with_name(path.name + "-wal").unlink()


def overwrite(path: Path) -> None:
    other = path.with_name("other.graph")
    with Graph.open(other) as graph:
        analyze(graph, chess.Board(ENDING), Limits(visits=300))
    shutil.copyfile(other, path)


def overwrite_with_text(path: Path) -> None:
    path.write_text("no graph")


def move_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def nodes_in(path: Path) -> int:
    assert verify(path).ok
    with Store.open(path, read_only=True) as store:
        return store.node_count


@pytest.mark.parametrize(
    "loss", [move, replace, delete, delete_log, move_folder, overwrite, overwrite_with_text]
)
def test_what_a_search_found_is_saved_elsewhere_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: Callable[[Path], None]
) -> None:
    folder, here = tmp_path / "folder", tmp_path / "here"
    folder.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    path = folder / "a.graph"
    said = r"while it was open; (?:everything|what was) .* is saved in (\S+);"
    with pytest.raises(UnsavedError, match=said) as failed, Graph.open(path) as graph:
        analyze_and(graph, lambda: loss(path))
    assert failed.value.result is not None, "the result is worth printing"
    copy = Path(str(failed.value).split(" is saved in ")[1].partition(";")[0])
    nodes = failed.value.result.nodes
    assert nodes > 200
    assert nodes_in(copy) == nodes
    assert copy.parent == (here if loss is move_folder else folder)


def analyze_and(graph: Graph, act: Callable[[], object]) -> int:
    pending: list[Callable[[], object]] = [act]

    def show(now: Progress) -> None:
        if pending:
            pending.pop()()

    return analyze(graph, chess.Board(), Limits(visits=VISITS), on_progress=show, interval=0.0).nodes


@pytest.mark.parametrize("is_same_file", [False, True])
def test_the_log_of_a_file_that_went_does_not_reach_its_successor(tmp_path: Path, is_same_file: bool) -> None:
    path, copy = tmp_path / "a.graph", tmp_path / "copy"
    with Graph.open(copy) as graph:
        others = analyze(graph, chess.Board(ENDING), Limits(visits=300)).nodes
    content = copy.read_bytes()
    with pytest.raises(UnsavedError), Graph.open(path) as graph:
        analyze_and(graph, lambda: shutil.copyfile(copy, path) if is_same_file else copy.replace(path))
    assert path.read_bytes() == content
    assert nodes_in(path) == others


def test_an_older_state_that_is_copied_back_is_noticed(tmp_path: Path) -> None:
    path, older = tmp_path / "a.graph", tmp_path / "older"

    def restore() -> None:
        graph.flush()
        graph.call(lambda store: store.checkpoint())
        shutil.copyfile(older, path)

    with Graph.open(path) as graph:
        analyze(graph, chess.Board(ENDING), Limits(visits=300))
    shutil.copyfile(path, older)
    with pytest.raises(UnsavedError, match="was overwritten"), Graph.open(path) as graph:
        analyze_and(graph, restore)
    assert nodes_in(tmp_path / "a.rescued.graph") > 200


def test_what_was_read_from_a_file_that_is_overwritten_is_saved_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphsearch.graph.graph.LOADED_AT_ONCE", 10)
    monkeypatch.setattr(Graph, "load_ahead", lambda self: None)  # not even what the search does not need
    path = tmp_path / "a.graph"
    with Graph.open(path) as graph:
        analyze(graph, chess.Board(), Limits(visits=300))
    with pytest.raises(UnsavedError, match="is saved in"), Graph.open(path) as graph:
        analyze_and(graph, lambda: overwrite(path))
    with Store.open(tmp_path / "a.rescued.graph", read_only=True) as store:
        record = store.read(chess.Board())
    assert record is not None
    assert record.visits > 300
    assert verify(tmp_path / "a.rescued.graph").ok


def test_checkpoints_of_other_programs_are_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"

    def write() -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE mine (x)")
            connection.commit()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("VACUUM")

    for _ in range(2):
        with Graph.open(path) as graph:
            nodes = analyze_and(graph, write)
        assert nodes_in(path) == nodes
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("DROP TABLE mine")


def test_without_place_for_a_copy_the_error_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("graphsearch.store.file.count", lambda _: iter(["/no/folder/"]))
    path = tmp_path / "a.graph"
    path.with_name("a.rescued.graph").touch()
    with pytest.raises(UnsavedError, match="unable to open"), Graph.open(path) as graph:
        analyze_and(graph, lambda: delete(path))


def test_other_work_ends_with_one_line(cli: Cli, small_graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pgn = small_graph.with_name("a.pgn")
    pgn.write_text("1. e4 e5 *\n")
    real = Store.transaction

    def vanish(self: Store) -> object:
        small_graph.unlink(missing_ok=True)
        return real(self)

    monkeypatch.setattr(Store, "transaction", vanish)
    outcome = cli("import", pgn, "--store", small_graph).ends(1)
    assert outcome.err.startswith(f"graphsearch: {small_graph} was moved or deleted while it was open")


@pytest.mark.usefixtures("nothing_saved_meanwhile")
def test_a_graph_that_is_closed_later_saves_elsewhere_too(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    graph = Graph.open(path)
    analyze(graph, chess.Board(), Limits(visits=50), hurry=True)
    path.unlink()
    with pytest.raises(StoreMovedError, match="is saved in"):
        graph.close()
    assert nodes_in(tmp_path / "a.rescued.graph") > 40


# ------------------------------------------------------------------ logs of another time
@pytest.fixture
def leftovers(tmp_path: Path) -> Path:
    """A folder with the file, log and shared memory of a process that was killed while it had it open."""
    path, kept = tmp_path / "other.graph", tmp_path / "kept"
    kept.mkdir()
    with Graph.open(path) as graph:
        analyze(graph, chess.Board(ENDING), Limits(visits=400))
        for end in ("", "-wal", "-shm"):
            shutil.copy(f"{path}{end}", kept / f"other.graph{end}")
    return kept


@pytest.mark.parametrize("garbage", [False, True])
def test_shared_memory_of_another_file_and_garbage_as_a_log_are_made_anew(
    cli: Cli, small_graph: Path, leftovers: Path, garbage: bool
) -> None:
    shutil.copy(leftovers / "other.graph-shm", f"{small_graph}-shm")
    if garbage:
        Path(f"{small_graph}-wal").write_bytes(random.Random(1).randbytes(100_000))
    assert cli("show", "startpos", "--store", small_graph, "--json").json["visits"] == 300
    cli("analyze", "startpos", "--visits", 10, "--store", small_graph).ends(0)
    cli("store", "verify", small_graph).ends(0)


def check_tells(cli: Cli, path: Path) -> None:
    """Checks that whoever opens a file gets an answer or a line."""
    for command in (
        ("show", "startpos", "--store", path),
        ("store", "info", path),
        ("store", "verify", path),
        ("analyze", "startpos", "--visits", 20, "--store", path),
        ("store", "verify", path),
        ("store", "compact", path),
    ):
        outcome = cli(*command)
        assert outcome.code in (0, 1), (command, outcome)
        assert "internal error" not in outcome.err


def test_a_log_of_another_file_is_told(cli: Cli, small_graph: Path, leftovers: Path) -> None:
    for end in ("-wal", "-shm"):
        shutil.copy(leftovers / f"other.graph{end}", f"{small_graph}{end}")
    for command in (
        ("show", "startpos", "--store", small_graph),
        ("analyze", "startpos", "--visits", 20, "--store", small_graph),
        ("store", "compact", small_graph),
    ):
        outcome = cli(*command).ends(1)
        assert outcome.err.startswith(
            f"graphsearch: {small_graph}-wal is the write-ahead log of another file"
        )
    check_tells(cli, small_graph)
    for end in ("-wal", "-shm"):
        Path(f"{small_graph}{end}").unlink()
    assert cli("show", "startpos", "--store", small_graph, "--json").json["visits"] == 300


@pytest.mark.parametrize("seed", range(4))
def test_a_torn_or_scribbled_log_loses_commits_only(leftovers: Path, cli: Cli, seed: int) -> None:
    rng = random.Random(seed)
    path, log = leftovers / "other.graph", leftovers / "other.graph-wal"
    data = bytearray(log.read_bytes())
    if seed % 2:
        del data[rng.randrange(len(data)) :]
    else:
        data[rng.randrange(len(data))] ^= 0x55
    log.write_bytes(bytes(data))
    if seed % 3:
        (leftovers / "other.graph-shm").unlink()
    check_tells(cli, path)
