"""Whoever supervises workers: nothing is lost with a worker, and no worker is replaced for ever."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from math import inf

import pytest

from graphsearch.base.errors import EvaluatorError, GraphSearchError
from graphsearch.workers.messages import Failure, Leave, Ready
from graphsearch.workers.process import START_SECONDS, Child, Handlers, Pipe
from graphsearch.workers.supervisor import Batch, Part, Seat, Supervisor

from ..conftest import ROOT
from ..support.forks import forked_workers as forked_workers
from ..support.pools import is_alive, until


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets processes import the tests, whose functions they run."""
    monkeypatch.syspath_prepend(ROOT)


class Puppet:
    """A worker without a process, which says and does what the test has it say and do."""

    pid = 0

    def __init__(self) -> None:
        self.alive_since = time.monotonic()
        self.told: list[object] = []
        self.kills = 0

    def send(self, message: object) -> None:
        self.told.append(message)

    def kill(self) -> None:
        self.kills += 1


@dataclass(eq=False)
class Sum(Part):
    """Something to do."""

    number: int

    def __str__(self) -> str:
        return f"the sum {self.number}"


class Puppets(Supervisor[Sum]):
    """Supervises puppets; keeps all that there ever were."""

    def __init__(self, workers: int, seconds: float = inf) -> None:
        super().__init__(workers)
        self.all: list[Puppet] = []
        self.results: list[object] = []
        self.seconds = seconds

    def _worker(self, seat: Seat[Sum]) -> Puppet:
        self.all.append(Puppet())
        return self.all[-1]

    def _request(self, seat: Seat[Sum], assignment: Sum) -> tuple[Sum, float]:
        return assignment, self.seconds

    def _finished(self, seat: Seat[Sum], assignment: Sum, message: object) -> None:
        self.results.append(message)
        assignment.batch.missing -= 1

    # what the processes would say
    def begin(self, count: int) -> list[Sum]:
        """Starts all, which are ready at once, and gives them a batch; returns its parts."""
        with self.changed:
            self._fill_seats()
            for seat in self.seats:
                self.says(seat.number, Ready("here"))
            self._batch = Batch(count)
            parts = [Sum(self._batch, number) for number in range(count)]
            self.enqueue(*parts)
        return parts

    def says(self, number: int, message: object) -> None:
        self._heard(self.seats[number], message)

    def ends(self, number: int, how: str = "bang") -> None:
        self._lost(self.seats[number], how)


def test_whoever_is_idle_gets_the_next() -> None:
    puppets = Puppets(2)
    parts = puppets.begin(3)
    assert [seat.assignment for seat in puppets.seats] == parts[:2]
    puppets.says(1, "done")
    assert puppets.results == ["done"]
    assert puppets.seats[1].assignment is parts[2]


def test_what_a_lost_worker_had_is_done_by_the_next_and_its_seat_is_taken_again() -> None:
    puppets = Puppets(1)
    (part,) = puppets.begin(1)
    puppets.ends(0)
    assert len(puppets.all) == 2
    assert puppets.all[1].told == []
    puppets.says(0, Ready("there"))
    assert puppets.all[1].told == [part]
    assert part.lost == 1


def test_three_workers_in_a_row_end_what_they_died_over_and_nothing_else() -> None:
    puppets = Puppets(1)
    (part,) = puppets.begin(1)
    for _ in range(3):
        assert part.batch.error is None
        puppets.ends(0)
        puppets.says(0, Ready("there"))
    assert str(part.batch.error) == "3 workers in a row ended over the sum 0: bang"
    assert len(puppets.all) == 4
    puppets.check()


def test_three_processes_in_a_row_that_are_never_ready_end_their_seat() -> None:
    puppets = Puppets(1)
    puppets.begin(0)
    for _ in range(4):
        puppets.ends(0)
    assert len(puppets.all) == 4  # one that was ready, three that were not
    with pytest.raises(EvaluatorError, match=r"3 workers in a row ended as they started: bang; .*__main__"):
        puppets.check()


def test_a_worker_that_cannot_work_says_why_and_is_not_replaced() -> None:
    puppets = Puppets(1)
    with puppets.changed:
        puppets._fill_seats()
    puppets.says(0, Failure("EvaluatorError", "no such network"))
    puppets.ends(0)
    assert len(puppets.all) == 1
    with pytest.raises(EvaluatorError, match="no such network"):
        puppets.check()


def test_a_worker_whose_time_is_up_is_killed_once() -> None:
    puppets = Puppets(2, seconds=0.01)
    puppets.begin(1)
    with puppets.changed:
        while not puppets.all[0].kills:
            puppets.rest()
        for _ in range(3):
            puppets.rest(time.monotonic())
    assert [puppet.kills for puppet in puppets.all] == [1, 0]


def test_a_worker_that_is_not_ready_in_time_is_killed_once() -> None:
    puppets = Puppets(1)
    with puppets.changed:
        puppets._fill_seats()
    puppets.all[0].alive_since -= START_SECONDS
    puppets.kill_what_hangs()
    puppets.kill_what_hangs()
    assert puppets.all[0].kills == 1


def test_nobody_waits_for_ever_for_a_worker_that_does_not_run() -> None:
    puppets = Puppets(1)
    puppets.patience = 0.01
    with puppets.changed:
        puppets._fill_seats()
        puppets.all[0].alive_since = inf
        puppets.rest()
    with pytest.raises(EvaluatorError, match="no worker has started in 0 s"):
        puppets.check()


def test_a_worker_of_another_kind_is_not_mixed_in() -> None:
    puppets = Puppets(2)
    puppets.begin(0)
    puppets.ends(1)
    puppets.says(1, Ready("there", identity="another"))
    assert puppets.all[2].kills == 1
    with pytest.raises(EvaluatorError, match=r"differ: another \(there\), but  \(here\)"):
        puppets.check()


def test_at_the_end_the_idle_leave_the_busy_are_killed_and_nobody_is_replaced() -> None:
    puppets = Puppets(2)
    puppets.begin(1)
    puppets.dismiss()
    busy, idle = puppets.all
    assert (busy.kills, idle.kills) == (1, 0)
    assert isinstance(idle.told[-1], Leave)
    puppets.ends(0)
    puppets.ends(1)
    assert puppets.wait(0)
    assert len(puppets.all) == 2
    with pytest.raises(GraphSearchError, match="closed"):
        puppets.do(Batch(1), [])


# ---------------------------------------------------------- one process
def echo(pipe: Pipe) -> None:
    """Sends back what comes, and what is replied to that."""
    while not isinstance(message := pipe.recv(), Leave):
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

    child = Child(
        echo,
        Handlers(hear, ends.append, partial(ends.append, "died")),
        name="echo",
        threads=1,
    )
    child.send("hello")
    until(lambda: heard == ["hello", ["hello!"]])
    if ending == "leave":
        child.send(Leave())
    else:
        child.kill()
    until(lambda: len(ends) == 2)
    how = "ended with exit code 0" if ending == "leave" else "was ended by signal 9"
    assert ends == ["died", f"a worker process {how}"]
    assert not is_alive(child.pid)
    child.send("nobody hears that")
