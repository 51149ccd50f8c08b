"""The executor of workers: no call is lost with a worker, and no worker is replaced for ever."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from graphsearch.base.errors import EvaluatorError
from graphsearch.workers.calls import Greeting
from graphsearch.workers.executor import Workers, workers_for
from graphsearch.workers.process import Child, Handlers, Pipe

from ..conftest import ROOT
from ..support.forks import forked_workers as forked_workers
from ..support.pools import is_alive, until


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets processes import the tests, whose functions they run."""
    monkeypatch.syspath_prepend(ROOT)


class Puppet:
    """A worker without a process: the test decides what its calls return, and when it ends."""

    pid = 0

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[[], Any], Future[Any]]] = []
        self.kills = self.stops = 0

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        self.calls.append((call, Future()))
        return self.calls[-1][1]

    def answer(self, count: int = 1) -> None:
        """Runs the oldest calls."""
        for _ in range(count):
            call, future = self.calls.pop(0)
            future.set_result(call())

    def end(self, how: str = "bang") -> None:
        """Ends with everything that it was given."""
        calls, self.calls = self.calls, []
        for _, future in calls:
            future.set_exception(OSError(how))

    def stop(self) -> None:
        self.stops += 1

    def kill(self) -> None:
        self.kills += 1
        self.end("killed")

    def how_it_ended(self, error: BaseException) -> str:
        return str(error)


class Stage:
    """A site of puppets; keeps all that there ever were."""

    patience, advice, is_remote = 600.0, "look at __main__", False

    def __init__(self) -> None:
        self.all: list[Puppet] = []

    def start(self) -> Puppet:
        self.all.append(Puppet())
        return self.all[-1]

    def close(self) -> None:
        pass


def divide() -> float:
    return 1 / 0


def test_an_idle_worker_gets_the_next_call_and_results_arrive() -> None:
    stage = Stage()
    workers = Workers(2, stage)
    futures = [workers.submit(pow, 2, k) for k in range(3)]
    assert len(stage.all) == 2
    for puppet in stage.all:
        puppet.answer()  # the greeting
    assert [len(puppet.calls) for puppet in stage.all] == [1, 1]
    stage.all[1].answer(2)
    stage.all[0].answer()
    assert [future.result(0) for future in futures] == [1, 2, 4]


def test_the_call_of_a_lost_worker_is_done_by_its_replacement() -> None:
    stage = Stage()
    future = Workers(1, stage).submit(pow, 2, 3)
    stage.all[0].answer()
    stage.all[0].end()
    stage.all[1].answer(2)
    assert future.result(0) == 8


def test_three_workers_in_a_row_fail_what_they_died_over_and_nothing_else() -> None:
    stage = Stage()
    workers = Workers(1, stage)
    bad, good = workers.give(divide, name="the sum 0"), workers.submit(pow, 2, 3)
    for k in range(3):
        assert not bad.done()
        stage.all[k].answer()
        stage.all[k].end()
    with pytest.raises(EvaluatorError, match="3 workers in a row ended over the sum 0: bang"):
        bad.result(0)
    stage.all[3].answer(2)
    assert good.result(0) == 8


def test_three_workers_in_a_row_that_never_start_fail_all_that_waits() -> None:
    stage = Stage()
    workers = Workers(1, stage)
    future = workers.submit(pow, 2, 3)
    for k in range(3):
        stage.all[k].end()
    with pytest.raises(EvaluatorError, match=r"3 workers in a row ended as they started: bang; .*__main__"):
        future.result(0)
    again = workers.submit(pow, 2, 3)
    stage.all[3].answer(2)
    assert again.result(0) == 8


def test_a_worker_that_cannot_begin_fails_what_waits_and_is_not_replaced() -> None:
    stage = Stage()
    future = Workers(1, stage, begin=divide).submit(pow, 2, 3)
    stage.all[0].answer()
    with pytest.raises(EvaluatorError, match="ZeroDivisionError"):
        future.result(0)
    assert (len(stage.all), stage.all[0].kills) == (1, 1)


def test_a_worker_of_another_kind_or_version_is_not_mixed_in() -> None:
    def check(begun: str) -> None:
        raise EvaluatorError(f"{begun} differs")

    stage = Stage()
    future = Workers(1, stage, begin=partial(str, "it"), check=check).submit(pow, 2, 3)
    stage.all[0].answer()
    with pytest.raises(EvaluatorError, match="it differs"):
        future.result(0)
    assert "install the same version" in Greeting("there", "0.0.0").fault


def test_a_worker_whose_time_is_up_is_killed_and_its_call_given_again() -> None:
    stage = Stage()
    seconds = iter([0.05, 600.0])
    future = Workers(1, stage).give(partial(pow, 2, 3), seconds=lambda first: next(seconds))
    stage.all[0].answer()
    until(lambda: len(stage.all) == 2)
    assert stage.all[0].kills
    stage.all[1].answer(2)
    assert future.result(0) == 8


def test_nobody_waits_for_ever_for_a_worker_that_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stage, "patience", 0.05)
    future = Workers(1, Stage()).submit(pow, 2, 3)
    with pytest.raises(EvaluatorError, match="no worker has started in 0 s"):
        future.result(60)


def test_at_the_end_the_idle_make_a_last_call_and_calls_under_way_fail() -> None:
    stage, left = Stage(), list[int]()
    workers = Workers(2, stage)
    workers.start()
    for puppet in stage.all:
        puppet.answer()
    busy = workers.submit(pow, 2, 3)
    workers.stop()
    assert [puppet.stops for puppet in stage.all] == [1, 1]
    workers.close(last=partial(left.append, 1))
    for future in (busy, workers.submit(pow, 2, 3)):
        with pytest.raises(EvaluatorError, match="closed"):
            future.result(0)
    assert [puppet.kills > 0 for puppet in stage.all] == [True, True]
    assert len(stage.all) == 2


def test_shutdown_waits_for_calls() -> None:
    with workers_for(None, 1) as workers:
        future = workers.submit(pow, 2, 3)
    assert future.result(0) == 8


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
