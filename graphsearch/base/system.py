"""The operating system: the only module that asks which one this is.

Every function has a form for Linux, macOS and Windows, or a plain one that works everywhere. Libraries are
imported where they are used: commands that read need none of them.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import shlex
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

IS_POSIX = os.name == "posix"
IS_LINUX = sys.platform.startswith("linux")


# ------------------------------------------------------------------ cores and memory
GROUPS = Path("/proc/self/cgroup")  # lines `number:controllers:path`; of version 2 `0::path`
LIMITS = Path("/sys/fs/cgroup")
MMAP_THRESHOLD = -3  # mallopt's number for it


def cores() -> int:
    """Returns the number of cores that this process may use, at least 1: in a container perhaps a few."""
    affinity = getattr(os, "sched_getaffinity", None)
    mask = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, min(mask, _quota() or mask))


@cache
def memory_bytes() -> int:
    """Returns the bytes of memory that this process may use: the machine's, or fewer in a container."""
    import psutil

    folders = _folders("memory")
    texts = [_text(folder / "memory.max") or _text(folder / "memory.limit_in_bytes") for folder in folders]
    limits = [int(text) for text in texts if text.isdecimal() and int(text)]
    return min([psutil.virtual_memory().total, *limits])


@cache
def _quota() -> int:
    """Returns the number of cores whose time a container gets, rounded up; 0: no limit."""
    counts = []
    for folder in _folders("cpu"):
        versions = _text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")
        quota, _, period = (_text(folder / "cpu.max") or " ".join(versions)).partition(" ")
        if quota.isdecimal() and period.isdecimal() and int(quota) and int(period):
            counts.append(-(-int(quota) // int(period)))
    return min(counts, default=0)


def _text(path: Path) -> str:
    """Returns the content of a file of the kernel, empty if there is none."""
    try:
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _folders(controller: str) -> Iterator[Path]:
    """Yields the folders of this process's control groups, innermost first; a container may hide those."""
    for line in _text(GROUPS).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if path and (not controllers or controller in controllers.split(",")):
            top = LIMITS / controller if controllers else LIMITS
            group = Path(path.lstrip("/"))
            yield from (top / part for part in (group, *group.parents))


def reserved(size: int) -> mmap.mmap:
    """Returns zeroed bytes whose pages are taken only when written to.

    On Windows they count against the system's commit limit from the start.

    Raises:
      OSError, ValueError: if there are not so many addresses.
    """
    no_reserve = getattr(mmap, "MAP_NORESERVE", 0x4000)
    flags = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve} if IS_POSIX else {}
    memory = mmap.mmap(-1, size, **flags)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def release_pages(memory: mmap.mmap, begin: int = 0) -> None:
    """Returns the whole pages from a byte on to the system, and loses their content; Windows keeps them."""
    begin = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
    if begin < len(memory) and hasattr(mmap, "MADV_DONTNEED"):
        memory.madvise(mmap.MADV_DONTNEED, begin, len(memory) - begin)


def return_freed_memory() -> None:
    """Makes glibc return freed arrays of a megabyte or more at once, not keep 32 MB for each thread."""
    with contextlib.suppress(AttributeError, OSError):
        _c_library().mallopt(MMAP_THRESHOLD, 1 << 20)


@cache
def address_of_yield() -> int:
    """Returns the address of the C function that gives the rest of a thread's time to another one."""
    library = _c_library()
    function = library.sched_yield if IS_POSIX else library.SwitchToThread
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def loaded_library(name: str) -> ctypes.CDLL | None:
    """Returns a shared library that this process has loaded already, None if it has not."""
    if not IS_POSIX:
        find = _c_library().GetModuleHandleW
        find.argtypes, find.restype = [ctypes.c_wchar_p], ctypes.c_void_p
        handle = find(name)
        return ctypes.CDLL(name, handle=handle) if handle else None
    with contextlib.suppress(OSError):
        return ctypes.CDLL(name, mode=os.RTLD_NOLOAD)
    return None


def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None if IS_POSIX else "kernel32")


# ------------------------------------------------------------------ files
# do not follow links or wait for pipes; Windows translates line ends without O_BINARY
BINARY = sum(getattr(os, name, 0) for name in ("O_BINARY", "O_CLOEXEC", "O_NOINHERIT"))
WITHOUT_WAITING = getattr(os, "O_NONBLOCK", 0)
SAFELY = BINARY | WITHOUT_WAITING | getattr(os, "O_NOFOLLOW", 0)

REPLACE_SECONDS, REPLACE_TRIES = 1.0, 20
LONGEST_PATH = 260 - 20  # Windows' limit, without what is added to the name of a graph file
REMOTE_DRIVE = 4  # GetDriveTypeW's number for a network drive


def user_folder(kind: str) -> Path:
    """Returns this program's folder of a kind, `cache`, `state` or `config`, by the system's rules.

    The folder need not exist. On Linux XDG_CACHE_HOME and its like name other places than ~/.cache.

    >>> user_folder("cache").name in {"graphsearch", "Cache"}
    True
    """
    import platformdirs

    return Path(getattr(platformdirs, f"user_{kind}_path")("graphsearch", appauthor=False))


def user_number() -> int:
    """Returns the number of the user who runs this process; 0 where users have none."""
    return os.geteuid() if hasattr(os, "geteuid") else 0


def is_private(status: os.stat_result, *, kind: int) -> bool:
    """Returns whether a file is of a kind, such as `stat.S_IFREG`, and only this user can write to it."""
    # Windows' rights of files say nothing: a user's own folders are private
    is_own = not IS_POSIX or (status.st_uid == user_number() and not status.st_mode & 0o022)
    return stat.S_IFMT(status.st_mode) == kind and is_own


def is_readable(handle: int, seconds: float = 0.0) -> bool:
    """Waits at most so long for a file or pipe to have data or end; returns whether it does."""
    try:
        import select

        poll = select.poll()
    except (ImportError, AttributeError):
        return True  # Windows cannot wait for a file: a read waits itself
    poll.register(handle, select.POLLIN | select.POLLHUP)
    return bool(poll.poll(1000 * seconds))


def sync_folder(folder: Path) -> None:
    """Waits until the names in a folder are on the disk; Windows writes them with their files."""
    if IS_POSIX:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def replace(source: str | Path, target: Path) -> None:
    """Renames a file atomically, over another one if necessary."""
    for _ in range(0 if IS_POSIX else REPLACE_TRIES):  # Windows refuses while a scanner has it open
        try:
            Path(source).replace(target)
        except PermissionError:
            time.sleep(REPLACE_SECONDS / REPLACE_TRIES)
        else:
            return
    Path(source).replace(target)


def resolved(path: str | os.PathLike[str]) -> Path:
    """Returns the absolute path with links resolved, in a form that reaches a file at any depth.

    Windows opens a path of more than 260 characters only with a prefix, which turns off all its rules.
    """
    if IS_POSIX:
        return Path(os.path.realpath(path))
    text = os.path.abspath(path)  # noqa: PTH100 # without the prefix
    with contextlib.suppress(OSError):  # of a drive that does not know links
        text = os.path.realpath(text)
    if len(text) > LONGEST_PATH and not text.startswith("\\\\?\\"):
        text = "\\\\?\\UNC" + text[1:] if text.startswith("\\\\") else "\\\\?\\" + text
    return Path(text)


def is_on_network(path: Path) -> bool:
    """Returns whether an absolute path lies on a network drive of Windows; elsewhere nobody can tell."""
    if IS_POSIX:
        return False
    drive = os.path.splitdrive(path)[0].removeprefix("\\\\?\\")
    if drive.startswith(("\\\\", "UNC\\")):
        return True
    return bool(_c_library().GetDriveTypeW(ctypes.c_wchar_p(f"{drive}\\")) == REMOTE_DRIVE)


def try_lock(handle: int) -> bool:
    """Locks an open file against other processes; returns whether none had locked it.

    The lock ends with the open file, also when the process is killed. On Windows others cannot read the first
    byte of a locked file.

    Raises:
      OSError: if the file system has no locks.
    """
    from filelock import lock_descriptor

    return lock_descriptor(handle, blocking=False)


def unlock(handle: int) -> None:
    """Ends a lock of `try_lock`, also in processes that were forked since."""
    from filelock import unlock_descriptor

    unlock_descriptor(handle)


@contextlib.contextmanager
def locked(path: Path, seconds: float) -> Iterator[bool]:
    """Holds a lock between processes; does without if another process keeps it so long, or none can be had.

    Yields whether it holds it. The system releases it when the process ends; its empty file stays.
    """
    from filelock import FileLock

    lock = FileLock(path, timeout=seconds, mode=0o600)
    with contextlib.suppress(OSError):  # a timeout, an odd file, or a file system without locks
        lock.acquire()
    try:
        yield lock.is_locked
    finally:
        lock.release()


# ------------------------------------------------------------------ signals and processes
# a terminal or a service manager sends them to all processes of a group
# on Windows SIGBREAK comes for Ctrl-Break and for a console that is closed
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
SIGNALS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
HANG_UP: int | None = getattr(signal, "SIGHUP", None)
CLOSING = 2  # of a console: events from this one on end the process as soon as their handler returns
LOWEST = 19  # of POSIX's priorities
GIVEN_WAY = 5
IDLE, BELOW_NORMAL = 0x40, 0x4000  # classes of Windows


def thread_seconds(thread: int) -> float:
    """Returns the CPU seconds that a thread of this process has used; on macOS the time of a clock."""
    clock_of = getattr(time, "pthread_getcpuclockid", None)
    if clock_of:
        return time.clock_gettime(clock_of(thread))
    import psutil

    found = {one.id: one.user_time + one.system_time for one in psutil.Process().threads()}
    return float(found.get(thread, time.monotonic()))


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """Blocks `SIGNALS` while processes and threads start: they inherit the mask; a process may unblock it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        resource_tracker.ensure_running()  # which unblocks some when it starts
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def unblock_signals() -> None:
    """Lets this thread receive `SIGNALS` again."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def outlive_console() -> None:
    """Lets a handler of SIGBREAK work for five seconds when the console is closed, or the user logs off."""
    if IS_POSIX or _KEPT:
        return

    @ctypes.WINFUNCTYPE(ctypes.c_int, ctypes.c_ulong)  # type: ignore[attr-defined,unused-ignore,untyped-decorator]
    def handle(event: int) -> int:
        if event < CLOSING:
            return 0  # Python's own handler is next
        signal.raise_signal(signal.SIGBREAK)  # type: ignore[attr-defined,unused-ignore]
        while True:  # until the process has ended itself
            time.sleep(1)

    _KEPT.append(handle)
    _c_library().SetConsoleCtrlHandler(handle, 1)


_KEPT: list[Any] = []  # handlers that Windows may call


def send_to_self(number: int) -> None:
    """Sends a signal to this process; its handler runs in the main thread."""
    if IS_POSIX:
        os.kill(os.getpid(), number)
    else:  # there `os.kill` ends the process, whatever the number
        signal.raise_signal(number)


def interruptible(read: Callable[[], bytes]) -> bytes:
    """Returns what a call returns that waits for data; handlers of signals run meanwhile, and may raise.

    On Windows a thread that waits in a read runs none, so another one reads there.
    """
    if IS_POSIX:
        return read()
    from concurrent.futures import Future, wait

    found: Future[bytes] = Future()

    def work() -> None:
        try:
            found.set_result(read())
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=work, name="graphsearch-read", daemon=True).start()
    while not wait([found], 0.1).done:  # handlers run after each
        pass
    return found.result()


def end_at_once() -> None:
    """Kills this process."""
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))


def own_group() -> dict[str, Any]:
    """Returns the arguments of `Popen` for a process that gets no signals of this terminal."""
    return {"start_new_session": True} if IS_POSIX else {"creationflags": 0x200}  # CREATE_NEW_PROCESS_GROUP


def end_tree(process: int) -> None:
    """Kills a process and, as far as they can be found, the processes that it has started."""
    import psutil

    with contextlib.suppress(psutil.Error):
        found = psutil.Process(process)
        for one in [*found.children(recursive=True), found]:
            with contextlib.suppress(psutil.Error):
                one.kill()
    with contextlib.suppress(AttributeError, OSError):  # Windows has no groups
        os.killpg(process, signal.SIGKILL)  # its `own_group`: those whose parent has ended


def wait_for_process(process: int) -> None:
    """Waits until another process has ended."""
    import psutil

    with contextlib.suppress(psutil.Error):
        psutil.Process(process).wait()


def give_way(steps: int) -> None:
    """Lets other programs go before this thread and those that it starts: those that a person sees, or all.

    `steps`: GIVEN_WAY, or LOWEST for all.
    """
    if hasattr(os, "nice"):
        lowered = os.nice(steps)
        if os.getsid(0) == os.getpid():  # Linux weighs sessions first, then the processes within one
            with contextlib.suppress(OSError):
                Path("/proc/self/autogroup").write_text(str(lowered), encoding="ascii")
    else:
        import psutil

        psutil.Process().nice(IDLE if steps == LOWEST else BELOW_NORMAL)


def has_low_priority() -> bool:
    """Returns whether others go before this process."""
    if hasattr(os, "nice"):
        return os.nice(0) > 0
    import psutil

    return psutil.Process().nice() in {IDLE, BELOW_NORMAL}


def split_command(text: str) -> list[str]:
    r"""Returns the words of a command line as the system's shell splits them.

    On Windows a backslash is part of a path.

    Raises:
      ValueError: if a quotation mark is missing.

    >>> split_command('"my engine" --weights=x')
    ['my engine', '--weights=x']
    """
    words = shlex.shlex(text, posix=True, punctuation_chars=False)
    words.whitespace_split = True
    words.commenters = ""
    if not IS_POSIX:
        words.escape = ""
    return list(words)


def join_command(words: Iterable[str]) -> str:
    """Returns a command line that the system's shell and `split_command` split into these words.

    >>> join_command(["graphsearch", "my file.graph"]) == join_command(["graphsearch"]) + " 'my file.graph'"
    True
    """
    if IS_POSIX:
        return shlex.join(words)
    return " ".join(f'"{word}"' if not word or set(word) & set(" \t&|<>^()'") else word for word in words)


# Runs before a program in its process, on Linux: it makes the kernel kill the program if the parent is
# killed, even one that ignores the end of its input. `preexec_fn` is not safe while other threads run.
# The script also restores the signals that Python ignores, which the program would inherit.
GUARD = """
import os, signal, sys
for name in ("SIGPIPE", "SIGXFSZ"):
    signal.signal(getattr(signal, name), signal.SIG_DFL)
try:
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
except (ImportError, OSError, AttributeError):
    pass  # the end of its input must do
try:
    os.execv(sys.argv[1], sys.argv[1:])
except OSError as error:
    sys.exit(error.strerror)
"""


def ending_with_parent(command: list[str]) -> list[str]:
    """Returns a command line, on Linux with GUARD before it, so that the program dies with this process."""
    if IS_LINUX and sys.executable and not getattr(sys, "frozen", False):
        return [sys.executable, "-I", "-S", "-c", GUARD, *command]
    return command
