"""The executor of workers: no call is lost with a worker, and no worker is replaced for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from math import inf
from typing import Any

import pytest

from graphsearch.base.errors import EvaluatorError
from graphsearch.evaluators.pool import site_of
from graphsearch.workers import executor
from graphsearch.workers.executor import WorkerLostError, Workers
from graphsearch.workers.process import Child, Handlers, Pipe

from ..conftest import ROOT
from ..support.forks import forked_workers as forked_workers
from ..support.pools import is_alive, until


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets processes import the tests, whose functions they run."""
    monkeypatch.syspath_prepend(ROOT)


class Puppet:
    """A worker without a process; its script says what becomes of each call.

    `ok` runs it, `end` loses the worker, `hang` takes too long, and `wait` waits until the worker is killed.
    """

    def __init__(self, script: Iterable[str]) -> None:
        self.script = iter(script)
        self.killed = threading.Event()
        self.stops = 0

    def run(self, call: Callable[[], Any], seconds: float = inf) -> Any:
        what = next(self.script, "ok")
        if what == "ok":
            return call()
        if what == "hang":
            raise TimeoutError
        if what == "wait":
            self.killed.wait(60)
        raise WorkerLostError("bang")

    def stop(self) -> None:
        self.stops += 1

    def kill(self) -> None:
        self.killed.set()


class Stage:
    """A site of puppets with some scripts; keeps all that there ever were."""

    patience, advice, is_remote = 600.0, "look at __main__", False

    def __init__(self, *scripts: str) -> None:
        self.scripts = list(scripts)
        self.all: list[Puppet] = []

    def start(self) -> Puppet:
        self.all.append(Puppet(self.scripts.pop(0).split() if self.scripts else ()))
        return self.all[-1]

    def close(self) -> None:
        pass


def divide() -> float:
    return 1 / 0


def result(future: Future[Any]) -> Any:
    return future.result(60)


def test_results_arrive_and_workers_start_only_for_calls_that_wait() -> None:
    stage = Stage()
    with Workers(2, stage) as workers:
        assert result(workers.submit(pow, 2, 3)) == 8
        assert len(stage.all) == 1
        assert [result(future) for future in [workers.submit(pow, 2, k) for k in range(9)]] == [
            2**k for k in range(9)
        ]
        assert len(stage.all) <= 2


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (["end"] * 3, "3 workers in a row ended as they started: bang; .*__main__"),
        (["hang"], "no worker has started in 600 s; .*__main__"),
    ],
)
def test_workers_that_never_start_fail_all_that_waits(script: list[str], told: str) -> None:
    with Workers(1, Stage(*script)) as workers:
        with pytest.raises(EvaluatorError, match=told):
            result(workers.submit(pow, 2, 3))
        assert result(workers.submit(pow, 2, 3)) == 8


def test_a_worker_that_starts_late_holds_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage("ok", "wait")
    workers = Workers(2, stage)
    workers.start()
    assert [result(workers.submit(pow, 2, k)) for k in range(3)] == [1, 2, 4]
    workers.close()


def test_a_worker_of_another_version_is_not_mixed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, plain = Stage(), Puppet.run

    def run(self: Puppet, call: Callable[[], Any], seconds: float = inf) -> Any:
        with pytest.MonkeyPatch.context() as there:
            there.setattr(executor, "__version__", "0.0.0")
            return plain(self, call)

    monkeypatch.setattr(Puppet, "run", run)
    with Workers(1, stage) as workers, pytest.raises(EvaluatorError, match="install the same version"):
        result(workers.submit(pow, 2, 3))
    assert stage.all[0].killed.is_set()


def test_at_the_end_the_idle_make_a_last_call_and_calls_under_way_fail() -> None:
    stage, left = Stage("ok wait", "ok ok"), list[int]()
    workers = Workers(2, stage, partial(left.append, 1))
    busy = workers.submit(pow, 2, 3)
    until(busy.running)
    assert result(workers.submit(pow, 2, 4)) == 16
    workers.stop()
    assert [puppet.stops for puppet in stage.all] == [1, 1]
    workers.close()
    for future in (busy, workers.submit(pow, 2, 3)):
        with pytest.raises(EvaluatorError, match="closed"):
            result(future)
    assert [puppet.killed.is_set() for puppet in stage.all] == [True, True]
    assert (left, len(stage.all)) == ([1], 2)


class Unpicklable:
    def __reduce__(self) -> Any:
        raise ZeroDivisionError


def test_a_process_runs_calls_and_survives_what_cannot_be_sent() -> None:
    with Workers(1, site_of(None, 1)) as workers:
        for call in (partial(pow, Unpicklable(), 3), Unpicklable):
            with pytest.raises(EvaluatorError, match="ZeroDivisionError"):
                result(workers.submit(call))
        future = workers.submit(pow, 2, 3)
    assert result(future) == 8


# ---------------------------------------------------------- one process
def echo(pipe: Pipe) -> None:
    """Sends back what comes, and what is replied to that."""
    while (message := pipe.recv()) != "leave":
        pipe.send(message)
        pipe.send([pipe.recv()])


@pytest.mark.parametrize("ending", ["leave", "kill"])
def test_a_child_is_heard_and_answered_until_it_ends(ending: str, request: pytest.FixtureRequest) -> None:
    if ending == "kill":
        request.getfixturevalue("forked_workers")
    heard: list[object] = []
    ends: list[str] = []

    def hear(message: object) -> str | None:
        heard.append(message)
        return f"{message}!" if isinstance(message, str) else None

    child = Child(echo, Handlers(hear, ends.append, partial(ends.append, "died")), name="echo", threads=1)
    child.send("hello")
    until(lambda: heard == ["hello", ["hello!"]])
    if ending == "leave":
        child.send("leave")
    else:
        child.kill()
    until(lambda: len(ends) == 2)
    how = "ended with exit code 0" if ending == "leave" else "was ended by signal 9"
    assert ends == ["died", f"a worker process {how}"]
    assert not is_alive(child.pid)
    child.send("nobody hears that")
