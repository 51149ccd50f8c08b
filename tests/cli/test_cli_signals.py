"""Signals as requests to stop: what a handler does before and while a search runs."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

import pytest

StopSignals = importlib.import_module("graphsearch.cli.signals").StopSignals


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


def test_before_the_search_a_signal_ends_the_program() -> None:
    with StopSignals() as signals:
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)
        with pytest.raises(SystemExit) as ended:
            send(signal.SIGTERM)
        assert ended.value.code == 143
        assert not signals.stop.is_set()


def test_only_the_third_signal_breaks_off_the_saving(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    with StopSignals() as signals:
        signals.arm()
        send(signal.SIGINT)
        send(signal.SIGINT)
        assert codes == []
        send(signal.SIGINT)
        assert codes == [130]


def test_the_screen_is_cleared_before_a_message_is_written() -> None:
    cleared = []
    with StopSignals() as signals:
        signals.arm()
        signals.before_message = lambda: cleared.append(signals.stop.is_set())
        send(signal.SIGINT)
    assert cleared == [True]


def test_the_handlers_of_before_come_back() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with StopSignals():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@contextmanager
def no_hang() -> Iterator[None]:
    """Fails instead of waiting for ever: an alarm gets through to a thread that waits for a lock."""

    def fail(number: int, frame: object) -> None:
        pytest.fail("it waits for ever")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(20)
    try:
        yield
    finally:
        sys.settrace(None)
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def signalled_at_line(k: int, work: Callable[[], object]) -> bool:
    """Does some work, SIGINT sent at the k-th line that it runs; returns whether there was such a line."""
    lines = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal lines
        lines += event == "line"
        if event == "line" and lines == k:
            sys.settrace(None)
            send(signal.SIGINT)
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
    return lines >= k


def test_a_second_signal_at_any_line_of_the_first_ones_handler_does_not_wait_for_it() -> None:
    k, was_sent = 0, True
    while was_sent:
        k += 1
        with no_hang(), StopSignals() as signals:
            signals.arm()
            was_sent = signalled_at_line(k, lambda: send(signal.SIGINT))
            assert signals.stop.is_set()
    assert k > 5


def test_a_signal_at_any_line_of_a_wait_for_it_ends_the_wait() -> None:
    k, was_sent = 0, True
    while was_sent:
        k += 1
        with no_hang(), StopSignals() as signals:
            signals.arm()
            was_sent = signalled_at_line(k, partial(signals.stop.wait, 0.01))
            assert signals.stop.wait(0) == was_sent
    assert k > 5


def test_a_program_that_ray_ends_by_sigterm_has_the_exit_code_of_all_others() -> None:
    for code, shown in ((int(signal.SIGTERM), 143), (1, 1), (2, 2)):
        with pytest.raises(SystemExit) as ended, StopSignals():
            sys.exit(code)
        assert ended.value.code == shown
