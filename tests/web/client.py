"""What speaks HTTP to a server, with or without its cookie."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.support.pools import until as until

PATIENCE_S = 120.0


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


def queue(client: Client) -> dict[str, Any]:
    """Returns the tasks of a server of this process."""
    found: dict[str, Any] = client.server.served.queue.as_dict()
    return found


def done(client: Client, number: int) -> dict[str, Any]:
    """Returns a task once it has ended."""
    found: dict[str, Any] = until(
        lambda: next((job for job in queue(client)["ended"] if job["number"] == number), None),
        f"task {number}",
    )
    return found
