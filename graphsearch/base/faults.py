"""Messages of errors. An error caused from outside gets a line that says what to do. An unexpected one is a
defect: its traceback goes to a file, and the line names that file.

Only programs create a `Watch`; the library leaves Python's hooks alone.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from .errors import EvaluatorDefectError, GraphSearchError
from .system import SAFELY, send_to_self, user_folder, user_number
from .version import __version__

DEFECT = 70  # exit code: EX_SOFTWARE of sysexits.h
FOLDER_VARIABLE = "GRAPHSEARCH_STATE_DIR"
MOST_BYTES = 1 << 20  # a day: an engine may fail at every move
OWN_LOG = "graphsearch"
AGAIN_SECONDS = 0.05  # before a lost signal is sent again

WriteLine = Callable[[str], object]

ADVICE = {
    errno.ENOSPC: "free some space and repeat the command",
    errno.EDQUOT: "free some space and repeat the command",
    errno.EFBIG: "the system limits the size of a file (see `ulimit -f`)",
    errno.EIO: "the disk or its connection fails; check it, then the file with `graphsearch store verify`",
    errno.EROFS: "make it writable, or name a file elsewhere",
    errno.EMFILE: "too few are allowed; raise the limit (see `ulimit -n`) and repeat the command",
    errno.ENFILE: "close other programs and repeat the command",
    errno.ENOMEM: "close other programs, or give a smaller --ram",
}
_SQLITE_DEFECTS = ("ProgrammingError", "InterfaceError", "InternalError", "DataError")


def is_defect(error: BaseException) -> bool:
    """Returns whether an error is unexpected, not caused by input or by the system.

    >>> is_defect(KeyError("x")), is_defect(FileNotFoundError())
    (True, False)
    """
    if isinstance(error, GraphSearchError | OSError | MemoryError) or _resource_message(error):
        return False
    kind = type(error)
    return kind.__module__ != "sqlite3" or kind.__name__ in _SQLITE_DEFECTS


def _resource_message(error: BaseException) -> str:
    """Returns the message for a missing library, memory or thread; empty for other errors."""
    if isinstance(error, ImportError) and not (error.name or "").startswith("graphsearch"):
        return f"cannot load a library: {error}; install the program again, or give it more memory"
    if isinstance(error, OSError) and "libllvmlite" in str(error):  # it does not say why
        return (
            "cannot load the compiler's library (libllvmlite); give the program more memory (`ulimit -v`),"
            " or install it again"
        )
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        return "cannot start a thread; give the program more memory, or allow more threads (see `ulimit -u`)"
    return ""


def line_of(error: BaseException) -> str:
    """Returns an error's message with advice, for a person.

    >>> line_of(OSError(errno.ENOSPC, "No space left on device", "a.pgn"))
    'a.pgn: No space left on device; free some space and repeat the command'
    >>> line_of(KeyError("x"))
    "internal error: KeyError: 'x'"
    """
    if isinstance(error, MemoryError):
        return "out of memory; close other programs, or give a smaller --ram"
    if message := _resource_message(error):
        return message
    if isinstance(error, RecursionError):
        return "internal error: something is nested too deeply for this program"
    if is_defect(error):
        return f"internal error: {type(error).__name__}: {error}".removesuffix(": ")
    if isinstance(error, OSError) and error.strerror:
        name = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        advice = ADVICE.get(error.errno or 0, "")
        return name + error.strerror + (f"; {advice}" if advice else "")
    return str(error) or type(error).__name__


def error_line(error: BaseException, during: str = "") -> str:
    """Returns the line for an error; appends the traceback of a defect to a file that the line names.

    Args:
      during: the activity that failed, for the file.
    """
    text = " ".join(line_of(error).split()).rstrip(".")
    if isinstance(error, EvaluatorDefectError):
        return f"{text}; the traceback is in {_written(error, during)}"
    if not is_defect(error):
        return text
    return f"{text}. This is a defect of graphsearch; please report it and attach {_written(error, during)}"


# ---------------------------------------------------------- the file
def _written(error: BaseException, during: str) -> str:
    """Appends a traceback to the file of the day; returns its path, or why there is none."""
    problem: Exception | None = None
    for folder in (state_folder, _temporary_folder):
        try:
            path = folder() / f"defect-{time.strftime('%Y%m%d', time.gmtime())}.txt"
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(path, "ab", opener=_open) as file:  # Path.open takes none
                if file.tell() < MOST_BYTES:
                    file.write(_entry(error, during).encode("utf-8", "backslashreplace"))
        except Exception as found:  # also for want of memory or file descriptors during an import
            problem = problem or found
        else:
            return str(path)
    return f"a file, which could not be written ({problem})"


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | SAFELY, 0o600)


def state_folder() -> Path:
    """Returns the folder of what the program remembers between two commands; it need not exist."""
    return Path(os.environ.get(FOLDER_VARIABLE) or user_folder("state"))


def _temporary_folder() -> Path:
    from tempfile import gettempdir

    return Path(gettempdir(), f"graphsearch-{user_number()}")


def _entry(error: BaseException, during: str) -> str:
    """Returns the text about one error for the report file."""
    import platform
    import traceback

    facts = {
        "time": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime()) + " UTC",
        "graphsearch": __version__,
        "Python": sys.version.replace("\n", " "),
        "platform": platform.platform(),
        "command": " ".join(map(repr, sys.argv)),
        "process": f"{os.getpid()}, thread {threading.current_thread().name}",
        "during": during,
    }
    lines = [f"{name}: {value}\n" for name, value in facts.items() if value]
    trace = "".join(traceback.format_exception(error))
    there = error.trace if isinstance(error, EvaluatorDefectError) else ""
    return "".join([*lines, "\n", there, trace, "\n"])


# ---------------------------------------------------------- uncaught errors
class Watch:
    """Writes one line for every uncaught error, also in threads; `failed`: how many ended with one."""

    def __init__(self, write: WriteLine) -> None:
        """Installs the hooks; any thread may call `write`, which writes a line."""
        self._write = write
        self.failed = 0
        self._before = threading.excepthook, sys.unraisablehook, sys.excepthook
        threading.excepthook, sys.unraisablehook, sys.excepthook = self._thread, self._ignored, self._end

    def end(self) -> None:
        """Restores the previous hooks."""
        threading.excepthook, sys.unraisablehook, sys.excepthook = self._before

    def _thread(self, args: threading.ExceptHookArgs) -> None:
        if isinstance(args.exc_value, Exception):
            self.failed += 1
            self._write(error_line(args.exc_value, f"thread {args.thread.name if args.thread else ''}"))

    def _ignored(self, args: Any) -> None:
        if not _sent_again(args.exc_value):
            self._write(
                error_line(args.exc_value, f"{args.err_msg or 'ignored by Python in'} {args.object!r}")
            )

    def _end(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not isinstance(error, KeyboardInterrupt):
            self._write(error_line(error))


def signal_of(error: BaseException | None) -> int:
    """Returns the number of the signal that raised an exception, 0 if none did."""
    code = getattr(error, "code", None)
    if not isinstance(error, Exception) and isinstance(code, int) and code > 128:
        return code - 128  # the exception that ends the program at SIGTERM
    return int(signal.SIGINT) if isinstance(error, KeyboardInterrupt) else 0


def _sent_again(error: BaseException | None) -> bool:
    """Sends a signal again that Python dropped, as in a callback; returns whether the error was one."""
    if not (number := signal_of(error)):
        return False

    def send() -> None:
        time.sleep(AGAIN_SECONDS)
        send_to_self(number)

    start_new_thread(send, ())
    return True


def watch_logs(write: WriteLine) -> None:
    """Writes one line per logged warning, unless a handler is installed; tracebacks go to the report file."""
    import logging  # costs every start of the program 20 ms

    class LastResort(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else None
            text = record.getMessage() if record.name == OWN_LOG else f"{record.name}: {record.getMessage()}"
            write(text if error is None else error_line(error, text))

    logging.lastResort = LastResort(logging.WARNING)
