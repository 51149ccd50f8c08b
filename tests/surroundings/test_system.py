"""The room for the system: control groups, and the form of every call for systems that lack Linux's."""

from __future__ import annotations

import mmap
import os
import select
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path, PureWindowsPath

import psutil
import pytest

from graphsearch.base import system
from graphsearch.base.errors import StoreError
from graphsearch.graph.arena import default_budget
from graphsearch.store import file
from graphsearch.store.store import Store

from ..support.forks import needs_fork

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
    system.set_blocking(reader)
    assert os.read(reader, 1) == b"x"
    os.close(writer)
    assert system.is_readable(reader)
    os.close(reader)


def test_private_files_are_known_by_rights_where_there_are_rights(both: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    path.chmod(0o600)
    assert system.is_private(path.stat(), kind=stat.S_IFREG)
    assert system.is_secret(path.stat())
    path.chmod(0o666)
    assert system.is_private(path.stat(), kind=stat.S_IFREG) == (both == "elsewhere")
    assert system.is_secret(path.stat()) == (both == "elsewhere")
    assert not system.is_private(path.stat(), kind=stat.S_IFDIR)


def test_the_folders_of_the_user_are_those_of_the_system(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not system.IS_LINUX:
        pytest.skip("folders of Linux")
    names = {"cache": ".cache", "state": ".local/state", "config": ".config"}
    monkeypatch.setenv("HOME", str(tmp_path))
    for kind, name in names.items():
        monkeypatch.delenv(f"XDG_{kind.upper()}_HOME", raising=False)
        assert system.user_folder(kind) == tmp_path / name / "graphsearch"
        monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", str(tmp_path / kind))
        assert system.user_folder(kind) == tmp_path / kind / "graphsearch"


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


LOCKS = """
import os, sys, time
from graphsearch.base.system import try_lock
handle = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
print(try_lock(handle), flush=True)
time.sleep(60)
"""


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


def test_a_lock_is_one_process_s_until_it_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", LOCKS, str(path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == b"True"
        handle = os.open(path, os.O_RDWR)
        assert not system.try_lock(handle)
        holder.kill()
        holder.wait()
    assert system.try_lock(handle)
    other = os.open(path, os.O_RDWR)
    assert not system.try_lock(other)
    system.unlock(handle)
    assert system.try_lock(other)
    os.close(handle)
    os.close(other)


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
        system.end_group(parent.pid)
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


@needs_fork
def test_the_lowest_priority_is_a_low_one() -> None:
    code = (
        "from graphsearch.base import system; system.set_lowest_priority(); print(system.has_low_priority())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_a_program_starts_without_a_guard_where_the_kernel_has_none(elsewhere: None) -> None:
    assert system.ending_with_parent(["engine", "x"]) == ["engine", "x"]
    assert system.own_group().keys() == {"creationflags"}
    assert system.user_number() == 0
    system.return_freed_memory()
