"""Workers on other machines: who may connect, and how the end of an actor is noticed."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from graphsearch.base.version import __version__
from graphsearch.workers import ray_workers
from graphsearch.workers.messages import Failure
from graphsearch.workers.process import Handlers
from graphsearch.workers.tcp import Endpoint, PipeListener, connect, shut_down

from ..support.pools import until

PATIENCE = 60.0


# ---------------------------------------------------------- connections
@pytest.fixture
def calls() -> Iterator[PipeListener]:
    found = PipeListener("127.0.0.1")
    yield found
    found.close()


def test_a_pipe_carries_arrays_and_ends_at_once_when_one_side_hangs_up(calls: PipeListener) -> None:
    number, coming = calls.expect(5)
    theirs = connect(number)
    ours = coming.result(PATIENCE)
    theirs.send(np.arange(3))
    assert ours.recv().tolist() == [0, 1, 2]
    ended = threading.Event()

    def listen() -> None:
        with pytest.raises((EOFError, OSError)):
            ours.recv()
        ended.set()

    threading.Thread(target=listen).start()
    shut_down(ours)
    assert ended.wait(PATIENCE)
    for pipe in (ours, theirs):
        pipe.close()


def test_a_stranger_a_wrong_token_and_an_unexpected_worker_are_not_let_in(calls: PipeListener) -> None:
    number, coming = calls.expect(5)
    with socket.create_connection((number.host, number.port)) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" + bytes(200))
        stranger.settimeout(PATIENCE)
        with contextlib.suppress(ConnectionResetError):
            while stranger.recv(100):
                pass
    with pytest.raises(OSError, match="token"):
        connect(Endpoint(number.host, number.port, 5, bytes(32)))
    other = connect(Endpoint(number.host, number.port, 6, number.token))
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

    def _begin(self, work: Any, number: Endpoint) -> Any:
        threading.Thread(target=self._work, args=(number,)).start()
        return SimpleNamespace(future=lambda: self.end)


def acted(calls: PipeListener, ray: FakeRay) -> tuple[list[Any], list[str]]:
    """Returns what an actor says, and how it ended; both may still grow."""
    heard: list[Any] = []
    lost: list[str] = []
    work: Any = None
    ray_workers.RayWorker(ray, ray, 1, work, calls, Handlers(heard.append, lost.append))
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
        pipes.append(connect(number))
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
