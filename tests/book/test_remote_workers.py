"""Workers on other machines: what they have is given out once, whatever becomes of them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import chess
import numpy as np
import pytest

from graphsearch.base.errors import InvalidParameterError
from graphsearch.base.version import __version__
from graphsearch.book import rows
from graphsearch.book.build import build, build_at
from graphsearch.book.config import BookConfig, BuildLimits, Leaf, Resources, Root, Window
from graphsearch.book.executor import Outcome
from graphsearch.book.workers.messages import TaskRequest
from graphsearch.book.workers.worker import Setup
from graphsearch.book.workers.worker_executor import WorkerExecutor
from graphsearch.evaluators.factory import EvaluatorSpec
from graphsearch.graph.graph import Graph
from graphsearch.search.loop import analyze
from graphsearch.search.params import Limits, SearchParams
from graphsearch.store.record.node import RecordBatch
from graphsearch.store.store import Store
from graphsearch.store.upkeep.verify import verify
from graphsearch.workers import ray_workers
from graphsearch.workers.launcher import launcher_for
from graphsearch.workers.messages import Failure, Ready
from graphsearch.workers.process import Handlers, WorkerProcess
from graphsearch.workers.tcp import Endpoint, PipeListener, connect, shut_down

from ..conftest import ROOT, sql
from ..support.counting import CountingEvaluator
from ..support.pools import Oracle, evaluated, in_the_middle, until
from ..support.reference import HashEvaluator
from ..support.tasks import task
from .test_workers import file as file

PATIENCE = 60.0


# ---------------------------------------------------------- leases
class Puppet(WorkerProcess):
    """A worker without a process, which says what the test has it say."""

    def __init__(self, number: int, handlers: Handlers) -> None:
        super().__init__(handlers)
        self.number = number
        self.requests: list[TaskRequest] = []
        ready = Ready(f"machine {number}, process 7", HashEvaluator.identity.as_json())
        threading.Thread(target=self.say, args=(ready,)).start()

    def say(self, message: object) -> None:
        self._handlers.hear[0](message)

    def save(self, records: list[RecordBatch]) -> None:
        self._handlers.hear[2](records)

    def send(self, message: object) -> None:
        if isinstance(message, TaskRequest):
            self.requests.append(message)
        else:
            threading.Thread(target=self._handlers.lost, args=("it left",)).start()

    def end(self, how: str) -> None:
        self._handlers.lost(how)

    def kill(self) -> None:
        """Does nothing."""

    def _ended(self) -> str:
        raise AssertionError("it has no pipes")


class PuppetLauncher:
    """Starts puppets."""

    shares_files, is_remote = False, True
    threads, per_machine, patience, advice = 1, 2, 60.0, "look"

    def __init__(self) -> None:
        self.puppets: list[Puppet] = []

    def start(self, work: Any, handlers: Handlers, *, name: str) -> WorkerProcess:
        self.puppets.append(Puppet(int(name.rpartition("-")[2]), handlers))
        return self.puppets[-1]

    def busy(self, number: int) -> Puppet:
        """Waits until a puppet is there and has a task; returns it."""
        until(lambda: len(self.puppets) > number and bool(self.puppets[number].requests))
        return self.puppets[number]

    def close(self) -> None:
        """Does nothing."""


def leases(path: Path) -> list[tuple[str, int]]:
    return sql(path, "SELECT key, worker FROM book_lease ORDER BY worker")


def test_what_a_lost_worker_had_is_given_out_again_and_counted_once(file: tuple[Path, int]) -> None:
    path, run = file
    launcher = PuppetLauncher()
    one, two = task("d3d4"), task("e2e4")
    with contextlib.closing(
        WorkerExecutor(path, HashEvaluator, 2, book=1, run=run, launcher=launcher)
    ) as executor:
        executor.submit(one)
        executor.submit(two)
        until(lambda: len(leases(path)) == 2)
        first, second = launcher.busy(0), launcher.busy(1)
        (request,) = first.requests
        first.end("its machine is gone")
        third = launcher.busy(2)
        assert (third.number, third.requests) == (first.number, [request])
        until(lambda: leases(path) == [(first.requests[0].task.key, 0), (second.requests[0].task.key, 1)])
        third.say(Outcome(request.task, 40, 30))
        second.say(Outcome(second.requests[0].task, 7, 5, "refused"))
        found = {outcome.task.key: outcome for _ in range(2) for outcome in executor.finished(PATIENCE)}
        assert executor.open_tasks == 0
        until(lambda: leases(path) == [])
    done, refused = found[request.task.key], found[second.requests[0].task.key]
    assert (done.visits, done.evaluations, done.error) == (40, 30, "")
    assert (refused.visits, refused.evaluations, refused.error) == (7, 5, "refused")


def test_a_task_that_costs_three_workers_their_life_ends_with_an_error(file: tuple[Path, int]) -> None:
    path, run = file
    launcher = PuppetLauncher()
    with contextlib.closing(
        WorkerExecutor(path, HashEvaluator, 1, book=1, run=run, launcher=launcher)
    ) as executor:
        executor.submit(task("d3d4"))
        for number in range(3):
            launcher.busy(number).end("signal 9")
        (outcome,) = executor.finished(PATIENCE)
        executor.submit(task("e2e4"))
        launcher.busy(3)
    assert "3 workers in a row" in outcome.error
    assert "signal 9" in outcome.error


@pytest.mark.parametrize(("saved", "left"), [(15, 25), (40, None)])
def test_what_a_lost_worker_had_saved_is_not_searched_again(
    file: tuple[Path, int], tmp_path: Path, saved: int, left: int | None
) -> None:
    path, run = file
    one = task("d3d4", evaluations=None, visits=40)
    with Graph.open(tmp_path / "other.graph", evaluator=HashEvaluator()) as graph:
        analyze(graph, chess.Board(one.fen), Limits(visits=saved), SearchParams(minibatch_size=1))
    with Store.open(tmp_path / "other.graph") as store:
        records = list(store.scan())
    launcher = PuppetLauncher()
    with contextlib.closing(
        WorkerExecutor(path, HashEvaluator, 1, book=1, run=run, launcher=launcher)
    ) as executor:
        executor.submit(one)
        launcher.busy(0).save(records)
        launcher.puppets[0].end("its machine is gone")
        if left is not None:
            (request,) = launcher.busy(1).requests
            assert request.task == replace(one, visits=left)
            launcher.puppets[1].say(Outcome(request.task, left, left))
        assert executor.finished(PATIENCE) == [Outcome(one, 40, left or 0)]


# ---------------------------------------------------------- connections
@pytest.fixture
def calls() -> Iterator[PipeListener]:
    found = PipeListener("127.0.0.1")
    yield found
    found.close()


def test_pipes_carry_arrays_and_end_at_once_when_one_side_hangs_up(calls: PipeListener) -> None:
    number, coming = calls.expect(5, 2)
    theirs = connect(number, 2)
    ours = coming.result(PATIENCE)
    theirs[1].send(np.arange(3))
    assert ours[1].recv().tolist() == [0, 1, 2]
    ended = threading.Event()

    def listen() -> None:
        with pytest.raises((EOFError, OSError)):
            ours[0].recv()
        ended.set()

    threading.Thread(target=listen).start()
    shut_down(ours[0])
    assert ended.wait(PATIENCE)
    for pipe in (*ours, *theirs):
        pipe.close()


def test_a_stranger_a_wrong_token_and_an_unexpected_worker_are_not_let_in(calls: PipeListener) -> None:
    number, coming = calls.expect(5, 1)
    with socket.create_connection((number.host, number.port)) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" + bytes(200))
        stranger.settimeout(PATIENCE)
        with contextlib.suppress(ConnectionResetError):
            while stranger.recv(100):
                pass
    with pytest.raises(OSError, match="token"):
        connect(Endpoint(number.host, number.port, 5, bytes(32)), 1)
    (other,) = connect(Endpoint(number.host, number.port, 6, number.token), 1)
    with pytest.raises((EOFError, OSError)):
        other.recv()
    assert not coming.done()


# ---------------------------------------------------------- actors, without Ray
class FakeRay:
    """As much of Ray as starts one actor, in threads of this process."""

    exceptions = SimpleNamespace(RayError=RuntimeError)

    def __init__(self, work: Callable[[Endpoint], None], version: str) -> None:
        self._work, self._version = work, version
        self.end = Future[None]()
        self.greet = SimpleNamespace(remote=lambda: ("pc, process 3", self._version))
        self.work = SimpleNamespace(remote=self._begin)

    def get(self, reply: Any) -> Any:
        return reply

    def kill(self, actor: Any) -> None:
        if not self.end.done():
            self.end.set_exception(RuntimeError("killed"))

    def _begin(self, setup: Setup, number: Endpoint, pipes: int) -> Any:
        threading.Thread(target=self._work, args=(number,)).start()
        return SimpleNamespace(future=lambda: self.end)


def acted(calls: PipeListener, ray: FakeRay) -> tuple[list[Any], list[str]]:
    """Returns what an actor says, and how it ended; both may still grow."""
    heard: list[Any] = []
    lost: list[str] = []
    setup: Any = None
    ray_workers.RayWorker(ray, ray, 1, setup, calls, Handlers([heard.append], lost.append))
    return heard, lost


def test_an_actor_of_another_version_is_one_line_that_names_machine_and_remedy(calls: PipeListener) -> None:
    heard, lost = acted(calls, FakeRay(lambda number: None, "0.0.1"))
    until(lambda: bool(lost))
    (failure,) = heard
    assert isinstance(failure, Failure)
    text = str(failure.as_error(placed=True))
    assert text.startswith("it has graphsearch 0.0.1, this machine has ")
    assert text.endswith("install the same version of graphsearch on all machines (pc, process 3)")


def test_an_actor_whose_machine_is_gone_is_lost_although_its_connection_stays(
    calls: PipeListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_workers, "LAST_WORDS_SECONDS", 0.05)
    pipes: list[Any] = []

    def work(number: Endpoint) -> None:
        pipes.extend(connect(number, 1))
        pipes[0].send("a word")

    ray = FakeRay(work, __version__)
    heard, lost = acted(calls, ray)
    until(lambda: heard == ["a word"])
    assert not lost
    ray.end.set_exception(RuntimeError("the node died"))
    until(lambda: lost == ["a worker of Ray has ended: the node died"])


def test_an_actor_that_ends_before_it_has_called_is_lost(calls: PipeListener) -> None:
    ray = FakeRay(lambda number: ray.end.set_exception(RuntimeError("no route")), __version__)
    _, lost = acted(calls, ray)
    until(lambda: lost == ["a worker of Ray has ended: no route"])


# ---------------------------------------------------------- the whole
CONFIG = BookConfig(
    text="",
    name="b",
    side="white",
    max_ply=5,
    roots=(Root(chess.Board(), "root 1"),),
    windows=(Window(own_cp=1000, own_moves=2, reply_p=0.0, reply_moves=2),),
    leaf=Leaf(evaluations=None, visits=4, params=(("MinibatchSize", "1"), ("Overlap", "0"))),
)


def test_a_pool_in_a_pool_and_a_place_that_is_none_are_refused_before_the_file_is_made(
    tmp_path: Path,
) -> None:
    path = tmp_path / "book.graph"
    with pytest.raises(InvalidParameterError, match="cannot both have a pool"):
        build(
            path, replace(CONFIG, evaluator=EvaluatorSpec(pool="ray:auto")), resources=Resources(pool="ray")
        )
    with pytest.raises(InvalidParameterError, match="the pool must be"):
        build(path, CONFIG, resources=Resources(pool="cloud"))
    assert not path.exists()


def book_of(path: Path) -> list[tuple[Any, ...]]:
    positions = sql(path, "SELECT key, ply, state, searches, n, value FROM book_position ORDER BY key")
    return [*positions, *sql(path, "SELECT key, move, rule, p, n, q FROM book_move ORDER BY key, move")]


def built_by_actors(path: Path, make: Any, begun: Callable[[], object]) -> None:
    """Builds the book with two actors of a Ray of its own; `begun` is called when one is there."""
    with Store.open(path, identity=HashEvaluator.identity, create=True) as store:
        started = rows.start(store, CONFIG, 2)
    executor = WorkerExecutor(
        path, make, 2, book=started.book, run=started.run, launcher=launcher_for("ray", 2)
    )
    begun()
    report = build_at(path, CONFIG, started, executor, limits=BuildLimits(), stop=threading.Event())
    assert (report.ended, report.failed) == ("complete", ())


@pytest.fixture
def with_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets actors of a Ray of its own import the tests."""
    pytest.importorskip("ray", reason="needs Ray: pip install '.[ray]'")
    monkeypatch.syspath_prepend(ROOT)
    for name, value in {"PYTHONPATH": str(ROOT), "RAY_AUTH_MODE": "disabled"}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.slow
@pytest.mark.usefixtures("with_ray")
def test_actors_of_ray_build_the_book_of_this_process_although_one_is_killed(tmp_path: Path) -> None:
    path, log = tmp_path / "book.graph", tmp_path / "log"
    log.mkdir()

    def kill() -> None:
        os.kill(min(int(file.name) for file in log.iterdir()), signal.SIGKILL)

    threads: list[threading.Thread] = []
    built_by_actors(
        path,
        Oracle(log, seconds=0.02),
        lambda: threads.append(in_the_middle(lambda: len(evaluated(log)) > 20, kill)),
    )
    threads[0].join()
    assert len(list(log.glob("[0-9]*"))) >= 3, "one took the place of the killed one"
    asked = evaluated(log)
    assert len(asked) <= len(set(asked)) + 8, "twice only what was answered and not yet sent"
    assert verify(path).problems == []
    alone = CountingEvaluator()
    build(tmp_path / "near.graph", CONFIG, evaluator=alone)
    assert book_of(path) == book_of(tmp_path / "near.graph") != []
    assert set(asked) == set(alone.asked)
