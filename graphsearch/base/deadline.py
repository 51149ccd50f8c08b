"""How long a question may take: whoever asks sets the end, and whatever reads records looks at the clock.

It holds for the thread that sets it. A scan that works in threads of its own looks at the clock by itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf

from .errors import StatementLimitError

_END: ContextVar[tuple[float, float]] = ContextVar("end", default=(inf, inf))  # by the clock; seconds in all


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Lets the body take so many seconds; then `check_time` in it raises."""
    before = _END.set((time.monotonic() + seconds, seconds))
    try:
        yield
    finally:
        _END.reset(before)


def check_time() -> None:
    """Raises StatementLimitError if the question takes longer than it may."""
    end, seconds = _END.get()
    if time.monotonic() > end:
        raise StatementLimitError(
            f"a question of the page may take {seconds:g} s; ask for less, or ask with the command line,"
            " which takes what it needs"
        )
