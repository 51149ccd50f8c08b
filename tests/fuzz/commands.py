"""Command lines in this process, and what counts as a clean end of one."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from graphsearch.base.errors import GraphSearchError

from .harness import UnexpectedExitError

CLEAN = (0, 1, 2)  # done, failed with a line, wrong use


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command line ended."""

    code: int
    out: str
    err: str


class _LeftError(BaseException):
    """A command that left at once, because nothing was left to save."""


def _leave(code: int) -> None:
    raise _LeftError(code)


@contextmanager
def strict() -> Iterator[None]:
    """Lets only this project's errors, and those of missing files, end in one line.

    The command line has a line for what SQLite says, too: that has passed a place that should know better.
    """
    output: Any = importlib.import_module("graphsearch.cli.output")
    before = output.is_defect
    output.is_defect = lambda error: not isinstance(error, GraphSearchError | OSError)
    leave, os._exit = os._exit, _leave  # type: ignore[assignment]
    try:
        yield
    finally:
        output.is_defect, os._exit = before, leave


def run(*args: object, stdin: bytes = b"") -> Ended:
    """Returns how a command line ended; UnexpectedExitError if that was not cleanly."""
    main = importlib.import_module("graphsearch.cli").main  # cli/, which type checkers do not find there
    out, err = io.StringIO(), io.StringIO()
    before, sys.stdin = sys.stdin, SimpleNamespace(buffer=io.BytesIO(stdin), isatty=lambda: False)
    try:
        with strict(), redirect_stdout(out), redirect_stderr(err):
            code = main([str(arg) for arg in args])
    except _LeftError as left:
        code = left.args[0]
    finally:
        sys.stdin = before
    ended = Ended(code, out.getvalue(), err.getvalue())
    if code not in CLEAN or "Traceback" in ended.err:
        raise UnexpectedExitError(f"exit {code} of {args}: {ended.err[-2000:]}")
    return ended
