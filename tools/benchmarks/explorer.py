"""Costs of the explorer: of a click, and of an open page during a search."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from graphsearch.web.served_file import ServedFile
from graphsearch.web.serving import Server

from .clocks import children_cpu, timed
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
        self._address = urlsplit(server.address)
        answer = self._asked("GET", f"{self._address.path}?{self._address.query}", {})
        self._cookie = answer[1].partition(";")[0]

    def _asked(self, method: str, path: str, headers: dict[str, str], body: str = "") -> tuple[bytes, str]:
        connection = HTTPConnection(self._address.hostname or "", self._address.port or 0)
        connection.request(method, path, body or None, headers)
        response = connection.getresponse()
        found = response.read(), response.getheader("set-cookie") or ""
        connection.close()
        return found

    def get(self, path: str, **given: object) -> bytes:
        """Returns the response to a GET request."""
        return self._asked("GET", f"/api/{path}?{urlencode(given)}", {"Cookie": self._cookie})[0]

    def post(self, path: str, **given: object) -> bytes:
        """Returns the response to a POST request."""
        headers = {"Cookie": self._cookie, "Origin": f"http://{self._address.netloc}"}
        return self._asked("POST", f"/api/{path}", headers, json.dumps(given))[0]

    def follow(self, ended: threading.Event) -> None:
        """Reads the event stream until `ended` is set or the server closes it."""
        connection = HTTPConnection(self._address.hostname or "", self._address.port or 0)
        connection.request("GET", "/api/events", headers={"Cookie": self._cookie})
        response = connection.getresponse()
        while not ended.is_set() and response.readline():
            pass
        connection.close()


@contextmanager
def served(store: Path) -> Iterator[Server]:
    """Yields a server of a file, in this process."""
    stop = threading.Event()
    server = Server(ServedFile(store))
    thread = threading.Thread(target=server.run, args=(stop,))
    thread.start()
    try:
        yield server
    finally:
        stop.set()
        thread.join()


# ------------------------------------------------------------------ clicks
def lines(visitor: Visitor, number: int) -> list[str]:
    """Returns random lines of well-visited moves, as a user might click through them."""
    rng = random.Random(1)
    found: list[str] = []
    while len(found) < number:
        moves: list[str] = []
        for _ in range(rng.randrange(1, MOST_PLIES)):
            node = json.loads(visitor.get("position", line=" ".join(moves)))["node"]
            visited = [move["move"] for move in (node or {"moves": []})["moves"][:4] if move["n"]]
            if not visited:
                break
            moves.append(rng.choice(visited))
        found.append(" ".join(moves))
    return found


@benchmark("answer")
def explorer(*, store: Path, clicks: int = 40) -> Iterator[Row]:
    """What a click on the page of `graphsearch serve` costs: medians over positions, in milliseconds.

    Follows lines of well-visited moves from the start position, and asks for each position what a click on
    the page asks for.
    """
    with served(store) as server:
        visitor = Visitor(server)
        asked = lines(visitor, clicks)
        for path, more in ANSWERS.items():
            for line in asked:
                wall, cpu = timed(partial(visitor.get, path, line=line, **more))
                yield {"answer": path, "ms": 1000 * wall, "cpu_ms": 1000 * cpu}


# ------------------------------------------------------------------ searches
def alone(store: Path, visits: int) -> float:
    """Returns the CPU-seconds of a search without a page."""
    before = children_cpu()
    command = [sys.executable, "-m", "graphsearch", "analyze", "startpos", "--visits", str(visits)]
    subprocess.run([*command, "--threads", "1", "--store", str(store)], check=True, capture_output=True)
    return children_cpu() - before


def watched(store: Path, visits: int) -> float:
    """Returns the CPU-seconds of a search with an open page."""
    subprocess.run(
        [sys.executable, "-m", "graphsearch", "analyze", "startpos", "--visits", "1", "--store", str(store)],
        check=True,
        capture_output=True,
    )
    with served(store) as server:
        visitor, ended = Visitor(server), threading.Event()
        reader = threading.Thread(target=visitor.follow, args=(ended,))
        reader.start()
        visitor.get("position", line="e2e4")  # the page shows a second position
        before = children_cpu()
        visitor.post("search", visits=visits, threads=1)
        while not server.served.queue.as_dict()["ended"]:
            time.sleep(0.05)
        used = children_cpu() - before
        ended.set()
    reader.join()
    return used


@benchmark("position")
def lag(*, evaluations: int = 400_000, seconds: float = 10.0) -> Iterator[Row]:
    """How far the numbers of the page lie behind those of a search that runs, in milliseconds.

    A page asks ten times a second for a position while the start position is searched in a file with so many
    evaluations. `ms`: until it has the answer, from the memory of the search. `news_ms`: between two answers
    with other visits. The page itself asks every 700 ms.
    """
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "search.graph"
        command = ["analyze", "startpos", "--evaluations", str(evaluations), "--store", str(store)]
        subprocess.run([sys.executable, "-m", "graphsearch", *command], check=True, capture_output=True)
        with served(store) as server:
            visitor, tasks = Visitor(server), server.served.queue
            asked = ("", *lines(visitor, 3))
            visitor.post("search", seconds=seconds * (len(asked) + 1), threads=1)
            while not any(job["facts"].get("counters") for job in tasks.as_dict()["running"]):
                time.sleep(0.05)
            for line in asked:
                yield from _answers(visitor, line, seconds)


def _answers(visitor: Visitor, line: str, seconds: float) -> Iterator[Row]:
    """Yields a row for each response in which the visits of the position have changed."""
    end, seen, changed = time.monotonic() + seconds, None, time.monotonic()
    while (asked := time.monotonic()) < end:
        node = json.loads(visitor.get("position", line=line))["node"]
        now, visits = time.monotonic(), node and node["visits"]
        if visits != seen:
            yield {"position": line or "start", "ms": 1000 * (now - asked), "news_ms": 1000 * (now - changed)}
            seen, changed = visits, now
        time.sleep(0.1)


@benchmark("visits", "page", across="page", compare=("cpu_s",))
def search(*, visits: int = 400_000, rounds: int = 5) -> Iterator[Row]:
    """What a page that is open costs a search: CPU-seconds of the searching process.

    The same search in a new file, by `graphsearch analyze` and as a task of the page while a client reads its
    news as a browser does, in turns.
    """
    for _ in range(rounds):
        for name, work in (("closed", alone), ("open", watched)):
            with tempfile.TemporaryDirectory() as folder:
                cpu = work(Path(folder) / "search.graph", visits)
            yield {"visits": visits, "page": name, "cpu_s": cpu}
