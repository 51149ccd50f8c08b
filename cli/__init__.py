"""The command line: data goes to stdout, messages and progress to stderr. Only here is printed or exited."""

from __future__ import annotations

from collections.abc import Sequence

from .program import program_name


def main(args: Sequence[str] | None = None) -> int:
    """Returns the exit code of one command line (`sys.argv` unless given), after running it.

    0 done, 1 failed, 2 wrong use, 130 after Ctrl-C, 143 after SIGTERM, 141 when the reader of stdout is gone.
    """
    try:
        from .app import app  # here, so that Ctrl-C during the import is quiet too
        from .output import close_quietly

        return close_quietly(_run(app, args))
    except KeyboardInterrupt:
        return 130


def _run(app: object, args: Sequence[str] | None) -> int:
    assert callable(app)
    try:
        app(args=None if args is None else list(args), prog_name=program_name())
    except SystemExit as finished:
        return finished.code if isinstance(finished.code, int) else int(finished.code is not None)
    return 0
