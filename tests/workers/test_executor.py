"""The executor of workers: no call is lost with a worker, and no worker is replaced for ever."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from math import inf
from multiprocessing.process import BaseProcess
from typing import Any

import pytest

from graphsearch.base.errors import EvaluatorError
from graphsearch.workers import executor, process
from graphsearch.workers.process import Child, LocalWorker, Pipe

from ..support.pools import is_alive, until

pytestmark = pytest.mark.usefixtures("importable")


class Puppet:
    """A worker without a process; its script says what becomes of each call.

    `ok` runs it, `end` loses the worker, `hang` takes too long, and `wait` waits until the worker is killed.
    """

    def __init__(self, script: Iterable[str]) -> None:
        self.script = iter(script)
        self.killed = threading.Event()

    def run(self, call: Callable[[], Any], seconds: float = inf) -> Any:
        what = next(self.script, "ok")
        if what == "ok":
            return call()
        if what == "hang":
            raise TimeoutError
        if what == "wait":
            self.killed.wait(60)
        raise executor.WorkerLostError("bang")

    def stop(self) -> None:
        pass

    def leave(self) -> None:
        pass

    def kill(self, seconds: float = 0.0) -> None:
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


def result(future: Future[Any]) -> Any:
    return future.result(60)


def power(k: int) -> Callable[[], int]:
    return partial(pow, 2, k)


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (["end"] * 3, "3 workers in a row ended as they started: bang; .*__main__"),
        (["hang"], "no worker has started in 600 s; .*__main__"),
    ],
)
def test_workers_that_never_start_fail_all_that_waits(script: list[str], told: str) -> None:
    with closing(executor.Workers(1, Stage(*script))) as workers:
        with pytest.raises(EvaluatorError, match=told):
            result(workers.submit(power(3)))
        assert result(workers.submit(power(3))) == 8


def test_a_worker_that_starts_late_holds_no_call() -> None:
    with closing(executor.Workers(2, Stage("ok", "wait"))) as workers:
        assert [result(workers.submit(power(k))) for k in range(3)] == [1, 2, 4]


def test_a_call_that_is_cancelled_before_a_worker_is_idle_never_runs() -> None:
    with closing(executor.Workers(1, Stage("ok wait"))) as workers:
        busy = workers.submit(power(3))
        until(busy.running)
        assert workers.submit(power(4)).cancel()


def test_a_worker_of_another_version_is_not_mixed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, plain = Stage(), Puppet.run

    def run(self: Puppet, call: Callable[[], Any], seconds: float = inf) -> Any:
        with pytest.MonkeyPatch.context() as there:
            there.setattr(executor, "__version__", "0.0.0")
            return plain(self, call)

    monkeypatch.setattr(Puppet, "run", run)
    told = pytest.raises(EvaluatorError, match="install the same version")
    with closing(executor.Workers(1, stage)) as workers, told:
        result(workers.submit(power(3)))
    assert stage.all[0].killed.is_set()


@pytest.mark.parametrize("script", ["ok ok", "ok wait"], ids=["idle", "busy"])
def test_a_program_that_ends_ends_its_workers_without_a_thread(
    script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(script)
    workers = executor.Workers(1, stage)
    call = workers.submit(power(3))
    until(call.done if script == "ok ok" else call.running)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")  # as in Python 3.12

    monkeypatch.setattr(threading.Thread, "start", refuse)
    workers.close()
    assert stage.all[0].killed.is_set()
    assert call.done()


# ---------------------------------------------------------- one process
def echo(pipe: Pipe) -> None:
    while (message := pipe.recv()) != "leave":
        pipe.send(message)


@pytest.mark.parametrize("ending", ["leave", "kill"])
def test_a_child_is_heard_until_it_ends(ending: str) -> None:
    heard, ends = list[object](), list[str]()
    child = Child(echo, heard.append, partial(ends.append, "died"), ends.append)
    child.send("hello")
    until(lambda: heard == ["hello"])
    if ending == "leave":
        child.send("leave")
    else:
        child.kill()
    until(lambda: len(ends) == 2)
    how = "ended with exit code 0" if ending == "leave" else "was ended by signal 9"
    assert ends == ["died", f"a worker process {how}"]
    assert not is_alive(child.pid)
    child.send("nobody hears that")


def test_the_end_of_a_process_is_noticed_though_its_pipe_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, if a process ends before it has fetched its end of the pipe from this one."""
    kept = list[Pipe]()
    plain = process.start_process

    def start(*arguments: Any, **options: Any) -> tuple[BaseProcess, Pipe]:
        ours, theirs = multiprocessing.Pipe()
        kept.append(theirs)
        return plain(*arguments, **options)[0], ours

    monkeypatch.setattr(process, "start_process", start)
    worker, ends = LocalWorker(1), list[str]()
    with pytest.raises(executor.WorkerLostError, match="exit code 0"):
        worker.run(partial(int, 5), 60)
    Child(echo, print, partial(ends.append, "died"), ends.append).kill()
    until(lambda: len(ends) == 2)
