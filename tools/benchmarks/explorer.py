"""Costs of a click in the explorer."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from graphsearch.web.served_file import ServedFile
from graphsearch.web.serving import Server

from .clocks import timed
from .harness import Row, benchmark

MOST_PLIES = 12
ANSWERS: dict[str, dict[str, int]] = {  # the requests of a click
    "position": {},
    "lines": {"lines": 5},
    "neighbourhood": {"depth": 4, "min_visits": 50, "most": 120},
    "parents": {},
    "tree": {"depth": 6, "share": 60},
    "values": {},
}


class Visitor:
    """A client with a session cookie."""

    def __init__(self, server: Server) -> None:
        self._address, self._cookie = urlsplit(server.address), ""
        self._cookie = self._asked(f"{self._address.path}?{self._address.query}")[1].partition(";")[0]

    def _asked(self, path: str) -> tuple[bytes, str]:
        connection = HTTPConnection(self._address.hostname or "", self._address.port or 0)
        connection.request("GET", path, headers={"Cookie": self._cookie} if self._cookie else {})
        response = connection.getresponse()
        found = response.read(), response.getheader("set-cookie") or ""
        connection.close()
        return found

    def get(self, path: str, **given: object) -> bytes:
        """Returns the response to a question."""
        return self._asked(f"/api/{path}?{urlencode(given)}")[0]


@contextmanager
def served(store: Path) -> Iterator[Server]:
    """Yields a server of a file, in this process."""
    stop, server = threading.Event(), Server(ServedFile(store))
    thread = threading.Thread(target=server.run, args=(stop,))
    thread.start()
    try:
        yield server
    finally:
        stop.set()
        thread.join()


def lines(visitor: Visitor, number: int) -> Iterator[str]:
    """Yields random lines of well-visited moves, as a user might click through them."""
    rng = random.Random(1)
    for _ in range(number):
        moves: list[str] = []
        for _ in range(rng.randrange(1, MOST_PLIES)):
            node = json.loads(visitor.get("position", line=" ".join(moves)))["node"]
            visited = [move["move"] for move in (node or {"moves": []})["moves"][:4] if move["n"]]
            if not visited:
                break
            moves.append(rng.choice(visited))
        yield " ".join(moves)


@benchmark("answer")
def explorer(*, store: Path, clicks: int = 40) -> Iterator[Row]:
    """What a click on the page of `graphsearch serve` costs: medians over positions, in milliseconds.

    Follows lines of well-visited moves from the start position, and asks for each position what a click on
    the page asks for.
    """
    with served(store) as server:
        visitor = Visitor(server)
        asked = list(lines(visitor, clicks))
        for path, more in ANSWERS.items():
            for line in asked:
                wall, cpu = timed(partial(visitor.get, path, line=line, **more))
                yield {"answer": path, "ms": 1000 * wall, "cpu_ms": 1000 * cpu}
