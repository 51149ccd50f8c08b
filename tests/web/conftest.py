"""Served graph files, and a browser that shows them."""

from __future__ import annotations

import multiprocessing
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra web: pip install '.[web]'")
pytest.importorskip("uvicorn", reason="needs the extra web: pip install '.[web]'")

from graphsearch.web.serving import Server
from graphsearch.web.task_queue import ServedFile
from tests.conftest import ROOT
from tests.web.page import PATIENCE_S, Client, Page, Serve, entered


@pytest.fixture(autouse=True)
def quick_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forks tasks from a process that has imported what they need: each would compute for 0.7 s first."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.ready"])
    with chdir(ROOT):  # where the process finds that module
        forkserver.ensure_running()
    monkeypatch.setattr("graphsearch.workers.process.get_context", lambda _: context)


@contextmanager
def serving(
    path: Path, *, host: str = "127.0.0.1", port: int = 0, password: str | None = None, **served: Any
) -> Iterator[Client]:
    """Serves a graph file to one who has no cookie yet."""
    stop = threading.Event()
    server = Server(ServedFile(path, **served), host=host, port=port, password=password)
    thread = threading.Thread(target=server.run, args=(stop,))
    thread.start()

    def end() -> None:
        stop.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()

    try:
        yield Client(server, end=end)
    finally:
        end()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves a graph file: `serve(path, read_only=True)`; the client has no cookie yet."""
    with ExitStack() as stack:
        yield lambda path, **options: stack.enter_context(serving(path, **options))


@pytest.fixture
def client(serve: Serve, small_graph: Path) -> Client:
    """One who has come in to a small graph."""
    return entered(serve, small_graph)


@pytest.fixture(scope="session")
def reader(_filled_graph: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """One who has come in to a small graph that no test changes: all have the same server."""
    with serving(Path(shutil.copy(_filled_graph, tmp_path_factory.mktemp("read") / "small.graph"))) as found:
        found.enter()
        yield found


@pytest.fixture
def page(driver: Any, client: Client) -> Iterator[Page]:
    """The page of a small graph, which has no errors to tell of at the end of a test."""
    found = Page(driver, client)
    yield found
    assert found.errors() == []


@pytest.fixture
def reading_page(driver: Any, reader: Client) -> Iterator[Page]:
    """The page of a small graph that no test changes."""
    found = Page(driver, reader)
    yield found
    found.forget()
    assert found.errors() == []
