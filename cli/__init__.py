"""The command line: data goes to stdout, messages and progress to stderr. No other room prints or exits.

app.py lists the commands. A module holds one command or a group of commands; `_view` modules hold what they
print. All share commands.py (how commands and bundles of options are declared), options.py, output.py
(streams, errors, exit codes), signals.py, live.py and progress.py (progress on a terminal), tables.py and
render.py.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence

from .program import program_name


def main(args: Sequence[str] | None = None) -> int:
    """Executes one command line (`sys.argv` unless given) and returns its exit code.

    0 done, 1 failed, 2 wrong use, 130 after Ctrl-C, 143 after SIGTERM, 141 when nothing reads stdout any
    more.
    """
    try:
        if args is None:
            _answer_interrupts()
        from .app import app  # imported here, so that Ctrl-C during the import ends quietly too
        from .output import close_quietly

        return close_quietly(_execute(app, args))
    except KeyboardInterrupt:
        return 130


def _answer_interrupts() -> None:
    """Lets SIGINT end this process where a shell's `&` started it with the signal ignored."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _execute(app: object, args: Sequence[str] | None) -> int:
    assert callable(app)
    try:
        app(args=None if args is None else list(args), prog_name=program_name())
    except SystemExit as finished:
        return finished.code if isinstance(finished.code, int) else int(finished.code is not None)
    return 0
