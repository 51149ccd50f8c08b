"""A time limit for a request of this thread; a scan with threads of its own checks the clock itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf

from .errors import StatementLimitError

_END: ContextVar[tuple[float, float]] = ContextVar("end", default=(inf, inf))  # end by the clock; limit, s


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Limits the body to so many seconds: `check_time`, which code that reads records calls, then raises."""
    before = _END.set((time.monotonic() + seconds, seconds))
    try:
        yield
    finally:
        _END.reset(before)


def check_time(*_: int) -> None:
    """Raises StatementLimitError if the time limit has passed; numbers of progress do not matter."""
    end, seconds = _END.get()
    if time.monotonic() > end:
        raise StatementLimitError(
            f"a question of the page may take {seconds:g} s; ask for less, or ask with the command line,"
            " which takes what it needs"
        )
