"""A served graph file, what speaks HTTP to it, and a browser."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

pytest.importorskip("starlette", reason="needs the extra web: pip install '.[web]'")
pytest.importorskip("uvicorn", reason="needs the extra web: pip install '.[web]'")

from graphsearch.search.shards.parting import split
from graphsearch.web.served_file import ServedFile
from graphsearch.web.serving import Server

PATIENCE_S = 60.0


@dataclass(frozen=True)
class Answer:
    """What came back: status, headers by name in lower case, body."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.json["error"])


@dataclass(frozen=True)
class Address:
    """What stands for a server of another process."""

    address: str


@dataclass
class Client:
    """One who speaks to a server, with the cookie if it came in by the printed address."""

    server: Any  # a Server or an Address
    cookie: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    end: Callable[[], None] = lambda: None

    @property
    def host(self) -> str:
        return str(urlsplit(self.server.address).netloc)

    def enter(self, address: str = "") -> Answer:
        parts = urlsplit(address or self.server.address)
        answer = self.ask("GET", f"{parts.path}?{parts.query}")
        self.cookie = answer.headers.get("set-cookie", "").partition(";")[0]
        return answer

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str | None) -> Answer:
        given: dict[str, str | None] = {"Host": self.host}
        if self.cookie:
            given["Cookie"] = self.cookie
        if method == "POST":
            given["Origin"] = f"http://{self.host}"
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        found = urlsplit(self.server.address)
        connection = HTTPConnection(found.hostname or "", found.port or 0, timeout=PATIENCE_S)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                if value is not None:
                    connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response: HTTPResponse = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, names, response.read())
        finally:
            connection.close()

    def get(self, path: str, **query: object) -> Answer:
        return self.ask("GET", f"/api/{path}?{urlencode(query)}")

    def post(self, path: str, **given: object) -> Answer:
        return self.ask("POST", f"/api/{path}", json.dumps(given).encode())


Serve = Callable[..., Client]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves a graph file: `serve(path, read_only=True)`; the client has no cookie yet."""
    ends: list[Callable[[], None]] = []

    def start(
        path: Path,
        *,
        host: str = "127.0.0.1",
        password: str | None = None,
        kept: Path | None = None,
        **served: Any,
    ) -> Client:
        stop = threading.Event()
        server = Server(ServedFile(path, **served), host=host, password=password, kept=kept)
        thread = threading.Thread(target=server.run, args=(stop,))
        thread.start()

        def end() -> None:
            stop.set()
            thread.join(PATIENCE_S)
            assert not thread.is_alive()

        ends.append(end)
        return Client(server, end=end)

    yield start
    for end in ends:
        end()


@pytest.fixture
def client(serve: Serve, small_graph: Path) -> Client:
    """One who has come in to a small graph."""
    found = serve(small_graph)
    found.enter()
    return found


@pytest.fixture
def cluster_client(serve: Serve, small_graph: Path) -> Client:
    """One who has come in to a cluster of two shards, split from the small graph beside it."""
    folder = small_graph.with_name("small.cluster")
    split(small_graph, folder, shards=2)
    found = serve(folder, beside=(small_graph,))
    found.enter()
    return found


def until(true: Callable[[], Any], what: str) -> Any:
    """Returns what a function returns once that is true."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found = true()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited too long: {what}")
