"""Measures the explorer: what a click costs, and what a page that is open costs a search.

python -m tools.measure_page clicks --store FILE [--clicks N]
python -m tools.measure_page search [--pairs N] [--visits V]

clicks: follows lines of well-visited moves from the start position, and asks for each position what a click
on the page asks for. Wall and CPU milliseconds, median and 90th percentile.

search: the same search in a new file, by `graphsearch analyze` and as a task of the page while a client reads
its news as a browser does, in turns. CPU-seconds of the searching process, and their ratio.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from graphsearch.web.served_file import ServedFile
from graphsearch.web.serving import Server

MOST_PLIES = 12


class Visitor:
    """One who has come in."""

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
        """Returns the answer to a question."""
        return self._asked("GET", f"/api/{path}?{urlencode(given)}", {"Cookie": self._cookie})[0]

    def post(self, path: str, **given: object) -> bytes:
        """Returns the answer to a request that changes something."""
        headers = {"Cookie": self._cookie, "Origin": f"http://{self._address.netloc}"}
        return self._asked("POST", f"/api/{path}", headers, json.dumps(given))[0]

    def follow(self, ended: threading.Event) -> None:
        """Reads the news until that is set, or the server ends."""
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
    """Returns lines of well-visited moves, each a position that a person might click to."""
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


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Returns milliseconds of wall and of CPU of this process that some work takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return 1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - cpu)


def clicks(store: Path, number: int) -> None:
    """Prints what clicks cost."""
    with served(store) as server:
        visitor = Visitor(server)
        asked = lines(visitor, number)
        for path, more in (
            ("position", {}),
            ("lines", {"lines": 5}),
            ("neighbourhood", {"depth": 4, "min_visits": 50, "most": 120}),
            ("parents", {}),
            ("tree", {"depth": 6, "share": 60}),
        ):
            figures = [timed(partial(visitor.get, path, line=line, **more)) for line in asked]
            walls, cpus = zip(*figures, strict=True)
            worst = int(0.9 * len(walls))
            print(
                f"{path:14} wall {statistics.median(walls):4.0f} ms, CPU {statistics.median(cpus):4.0f} ms;"
                f" 90 %: {sorted(walls)[worst]:4.0f} and {sorted(cpus)[worst]:4.0f} ms"
            )


# ------------------------------------------------------------------ searches
def children() -> float:
    """Returns the CPU-seconds of the processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def alone(store: Path, visits: int) -> float:
    """Returns the CPU-seconds of a search without a page."""
    before = children()
    command = [sys.executable, "-m", "graphsearch", "analyze", "startpos", "--visits", str(visits)]
    subprocess.run([*command, "--threads", "1", "--store", str(store)], check=True, capture_output=True)
    return children() - before


def watched(store: Path, visits: int) -> float:
    """Returns the CPU-seconds of a search while a page looks on."""
    subprocess.run(
        [sys.executable, "-m", "graphsearch", "analyze", "startpos", "--visits", "1", "--store", str(store)],
        check=True,
        capture_output=True,
    )
    with served(store) as server:
        visitor, ended = Visitor(server), threading.Event()
        reader = threading.Thread(target=visitor.follow, args=(ended,))
        reader.start()
        visitor.get("position", line="e2e4")  # a second position is looked at
        before = children()
        visitor.post("search", visits=visits, threads=1)
        while not server.served.queue.as_dict()["ended"]:
            time.sleep(0.05)
        used = children() - before
        ended.set()
    reader.join()
    return used


def search(pairs: int, visits: int) -> None:
    """Prints what a page costs a search."""
    ratios = []
    for k in range(pairs):
        with tempfile.TemporaryDirectory() as folder:
            order = (alone, watched) if k % 2 == 0 else (watched, alone)
            used = {work: work(Path(folder) / f"{work.__name__}.graph", visits) for work in order}
        ratios.append(used[watched] / used[alone])
        print(
            f"alone {used[alone]:.2f}, watched {used[watched]:.2f} CPU-s, ratio {ratios[-1]:.3f}", flush=True
        )
    print(f"median ratio {statistics.median(ratios):.3f} of {pairs} pairs of {visits:,} visits")


def main() -> None:
    """Measures what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("clicks", "search"))
    parser.add_argument("--store", type=Path)
    parser.add_argument("--clicks", type=int, default=40)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--visits", type=int, default=400_000)
    given = parser.parse_args()
    if given.what == "search":
        search(given.pairs, given.visits)
    elif given.store is None:
        parser.error("clicks needs --store FILE")
    else:
        clicks(given.store, given.clicks)


if __name__ == "__main__":
    main()
