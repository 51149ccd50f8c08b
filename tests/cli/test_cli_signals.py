"""Signals as requests to stop: what a handler does before and while a search runs."""

from __future__ import annotations

import importlib
import os
import signal

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


def test_during_the_search_the_first_signal_asks_it_to_stop_and_names_the_exit_code() -> None:
    with StopSignals() as signals:
        signals.arm()
        send(signal.SIGTERM)
        assert signals.stop.is_set()
        send(signal.SIGINT)
        assert signals.exit_code == 143


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
