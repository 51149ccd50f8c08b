"""The command line: data goes to stdout, messages and progress to stderr. No other package prints or exits.

app.py lists the commands, and imports the module of the one that runs. A module holds commands and their
views: a command has arguments, calls the library, prints one answer and returns its exit code. All share
commands.py (declaring commands and bundles of options, and parsing), options.py, output.py (streams, errors,
exit codes), progress.py (bars, signals), tables.py (tables, numbers), render.py (positions, moves and nodes).
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper

from graphsearch.base.system import SIGNALS

# until a garbage collection: a start makes 100,000 that stay; collecting them took 50 ms
YOUNG_OBJECTS = 200_000


def main(args: Sequence[str] | None = None) -> int:
    """Executes one command line (`sys.argv` unless given) and returns its exit code.

    0 done, 1 failed, 2 wrong use, 70 a defect of the program (a message names the file with its traceback),
    130 after Ctrl-C, 143 after SIGTERM, 141 when nothing reads stdout any more.
    """
    ended: list[int] = []
    if args is None:
        atexit.register(_end_quickly, ended)  # before all others, so that it runs after them
        # else NumPy's threads for matrices, which no command needs at once, spin for 2^26 ticks as they start
        os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    try:
        # imported here, so that Ctrl-C during the import ends quietly too
        from graphsearch.base.faults import DEFECT, Watch

        from .output import close_quietly, fail, typed

        watched = Watch(fail)
        try:
            if args is None:
                _fill_streams()
                if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in a shell's `&`
                    signal.signal(signal.SIGINT, signal.default_int_handler)
                gc.set_threshold(YOUNG_OBJECTS, 20, 50)
            typed[:] = sys.argv[1:] if args is None else args
            code = close_quietly(_execute(list(typed)))
        finally:
            if args is not None:  # called by a program, which has hooks of its own
                watched.end()
        code = code or (DEFECT if watched.failed else 0)
    except KeyboardInterrupt:
        code = 130
    if args is None:  # with the handlers of now, Python would print an exception during shutdown as ignored
        for number in SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
    ended.append(code)
    return code


def _end_quickly(ended: list[int]) -> None:
    """Ends the process with the exit code of `main`; freeing what 400 modules made takes .05 s."""
    if ended and not sys.gettrace() and not sys.getprofile():
        with suppress(OSError, ValueError):  # closed
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(ended[0])


def _fill_streams() -> None:
    """Opens closed stdin, stdout and stderr, so that no file gets their numbers; stdout accepts any text."""
    while (opened := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, closefd=False) if stream is None else stream  # noqa: SIM115 (until the end)
        for number, mode, stream in ((0, "r", sys.stdin), (1, "w", sys.stdout), (2, "w", sys.stderr))
    )
    for stream in (sys.stdout, sys.stderr):  # files and pipes get the same bytes on every system
        is_told = stream.isatty() or "PYTHONIOENCODING" in os.environ
        if isinstance(stream, TextIOWrapper) and not is_told:
            stream.reconfigure(encoding="utf-8", newline="\n")
    if isinstance(sys.stdout, TextIOWrapper):  # a file may have any name, and a terminal any encoding
        is_utf8 = sys.stdout.encoding.lower().replace("_", "-") == "utf-8"
        sys.stdout.reconfigure(errors="surrogateescape" if is_utf8 else "backslashreplace")


def _execute(words: list[str]) -> int:
    from .app import COMPLETE, app
    from .commands import Refusal, refuse
    from .output import failed, program_name

    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    asked = line.split()[1:] if COMPLETE in os.environ else words  # by a shell
    try:
        code = app(asked)(args=words, prog_name=program_name(), standalone_mode=False)
    except SystemExit as finished:
        return finished.code if isinstance(finished.code, int) else int(finished.code is not None)
    except Refusal as error:
        return refuse(error)
    except Exception as error:  # outside all commands, such as while parsing options
        return failed(error)
    return code if isinstance(code, int) else 0
