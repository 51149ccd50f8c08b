"""The queue in the file: it survives the end of the server, a kill too; one server alone keeps it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import chess

from graphsearch.evaluators.factory import create
from graphsearch.graph.view import show
from graphsearch.store.info import info
from graphsearch.store.upkeep.verify import verify
from graphsearch.web.jobs.kept_queue import READ_ONLY, TAKEN
from graphsearch.web.jobs.searching import SearchTask, spent_before
from graphsearch.web.jobs.task import Order, Place
from graphsearch.web.served_file import offered

from ..conftest import Cli, start
from .client import PATIENCE_S, Address, Client, Serve, queue, until

PGN = b'[White "A"]\n[Black "B"]\n[Result "1-0"]\n\n1. e4 e5 1-0\n\n1. e4 Ke2 *\n\n'
SERVE = """
import sys, threading
from pathlib import Path
from graphsearch.web.served_file import ServedFile
from graphsearch.web.serving import Server

server = Server(ServedFile(Path(sys.argv[1])))
print(server.address, flush=True)
server.run(threading.Event())
"""


def states(client: Client) -> dict[str, list[tuple[str, str]]]:
    found = queue(client)
    return {
        place: [(job["kind"], job["state"]) for job in found[place]]
        for place in ("running", "waiting", "ended")
    }


def rows(path: Path) -> list[tuple[int, str, str]]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.execute("SELECT id, kind, state FROM task ORDER BY id"))


def entered(serve: Serve, path: Path, **options: Any) -> Client:
    client = serve(path, **options)
    client.enter()
    return client


def test_a_killed_server_leaves_its_queue_to_the_next_one(serve: Serve, small_graph: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, small_graph], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    try:
        client = Client(Address(process.stdout.readline().strip()))
        client.enter()
        exported = client.post("export", form="csv").json["number"]
        until(lambda: client.ask("GET", f"/api/download/{exported}").status == 200, "the export")
        client.post("search", line="e4", seconds=500, threads=1)
        client.post("search-game", line="d4 d5", until=50, threads=1)
        client.ask("POST", "/api/import/pgn?name=new.pgn&players=true", PGN)
        until(lambda: any(state == "running" for *_, state in rows(small_graph)), "the search in the file")
        until(lambda: len(rows(small_graph)) == 4, "the queue in the file")
        until(lambda: (exported, "export", "done") in rows(small_graph), "the end of the export there")
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    after = entered(serve, small_graph)
    assert states(after) == {
        "running": [],
        "waiting": [("search", "interrupted"), ("search", "waiting"), ("import", "waiting")],
        "ended": [("export", "done")],
    }
    assert queue(after)["held"]
    assert b"fen" in after.ask("GET", f"/api/download/{exported}").body.partition(b"\r\n")[0]
    numbers = [job["number"] for job in queue(after)["waiting"]]
    assert after.post("queue", action="go").status == 200
    until(lambda: states(after)["running"], "the search again")
    until(lambda: queue(after)["running"][0]["facts"].get("counters"), "its counters")
    after.post("queue", action="stop", number=numbers[0])
    until(lambda: len(states(after)["ended"]) == 4, "the others")
    found = {job["number"]: job for job in queue(after)["ended"]}
    assert [found[number]["state"] for number in numbers] == ["stopped", "done", "done"]
    assert (found[numbers[2]]["facts"]["players"], found[numbers[2]]["facts"]["found"]) == (1, 1)
    assert after.post("search", seconds=0.1).json["number"] > max(numbers)
    until(lambda: len(states(after)["ended"]) == 5, "the last search")
    after.post("queue", action="forget")
    after.end()
    assert rows(small_graph) == []
    assert not small_graph.with_name(f"{small_graph.name}-queue").exists()
    assert not verify(small_graph).problems
    assert info(small_graph).nodes > 0


def test_the_end_of_the_server_interrupts_and_a_restart_resumes(serve: Serve, small_graph: Path) -> None:
    client = entered(serve, small_graph)
    client.post("search", seconds=500, visits=10**9, threads=1)
    client.post("search", queue=True, visits=20)
    until(lambda: queue(client)["running"][0]["facts"].get("counters"), "the search")
    client.end()
    assert [state for *_, state in rows(small_graph)] == ["interrupted", "waiting"]
    assert list(small_graph.parent.glob("*-queue/*")) == []
    again = entered(serve, small_graph)
    assert states(again)["waiting"] == [("search", "interrupted"), ("search", "waiting")]
    facts = queue(again)["waiting"][0]["facts"]
    assert 0 < facts["new_visits"] == facts["spent"]["new_visits"] == spent_before(facts)["new_visits"]
    again.post("queue", action="clear")
    assert states(again)["waiting"] == []
    again.end()
    assert rows(small_graph) == []


def test_an_interrupted_search_makes_what_is_left_of_its_limits(small_graph: Path) -> None:
    task, place = SearchTask(visits=300), Place(small_graph, small_graph.parent, offered())
    for before, visits in (({"spent": {"new_visits": 260, "seconds": 1}}, 40), ({"spent": "3"}, 300)):
        work: Any = SimpleNamespace(
            order=Order(1, task, place, before),
            place=place,
            stop=threading.Event(),
            watched=(),
            ready=lambda spec: closing(create(spec)),
            send=lambda facts: None,
            answer=lambda read: None,
        )
        found = task.run(work)
        assert found["new_visits"] == visits
        assert found["spent"]["new_visits"] == 300
    work.order = Order(1, task, place, found)
    assert task.run(work)["new_visits"] == 0


def test_one_server_keeps_the_queue_and_others_say_so(serve: Serve, small_graph: Path) -> None:
    first, second = entered(serve, small_graph), entered(serve, small_graph)
    assert queue(first)["memory_only"] == ""
    assert queue(second)["memory_only"] == TAKEN
    second.post("export", form="csv")
    until(lambda: states(second)["ended"], "the export")
    assert rows(small_graph) == []
    assert queue(entered(serve, small_graph, read_only=True))["memory_only"] == READ_ONLY


FOREIGN: list[tuple[dict[str, Any], str]] = [
    ({}, "not repeated"),
    ({"name": "search", "wanted": {"line": "e4 e4"}}, "e4"),
    ({"name": "search", "wanted": {"evaluator": "lc0:/etc/passwd"}}, "the page offers"),
    ({"name": "import", "wanted": {"form": "pgn", "file": "../../etc/passwd"}}, "file"),
    ({"name": "import", "wanted": {"form": "pgn", "file": "0" * 32}}, "uploaded file is gone"),
    ({"name": "merge", "wanted": {"other": "/etc/passwd"}}, "no graph file"),
    ({"name": "os.system", "wanted": {}}, "not repeated"),
]


def test_a_foreign_request_is_refused_when_it_is_read_and_a_damaged_queue_is_left_alone(
    serve: Serve, small_graph: Path
) -> None:
    client = entered(serve, small_graph)
    client.post("search", queue=True, visits=20)
    until(lambda: states(client)["ended"], "the search")
    for request, reason in FOREIGN:
        client.end()
        with closing(sqlite3.connect(small_graph)) as connection:
            connection.execute("UPDATE task SET state = 'running', request = ?", (json.dumps(request),))
            connection.commit()
        client = entered(serve, small_graph)
        (job,) = queue(client)["ended"]
        assert job["state"] == "failed"
        assert reason in job["error"]
    client.end()
    with closing(sqlite3.connect(small_graph)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("UPDATE task SET state = 'dancing'")
        connection.commit()
    again = entered(serve, small_graph)
    assert "damaged" in queue(again)["memory_only"]
    assert again.get("position").status == 200


# ------------------------------------------------------------------ the server
AFTER_D4 = chess.Board("rnbqkbnr/pppppppp/8/8/3P4/8/PPP1PPPP/RNBQKBNR b KQkq - 0 1")


def test_ctrl_c_saves_the_search_that_is_running(small_graph: Path) -> None:
    before = show(small_graph, AFTER_D4)
    assert before
    process = start("serve", small_graph, "--no-browser")
    try:
        assert process.stdout
        client = Client(Address(process.stdout.readline().strip()))
        assert client.enter().status == 303
        client.post("search", searchmoves="d4", threads=1)
        until(lambda: b'"nodes"' in news(client), "the search")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (process.returncode, "saving" in said) == (130, True)
    after = show(small_graph, AFTER_D4)
    assert after
    assert after.visits > before.visits


def test_a_kept_address_lets_open_pages_in_after_a_restart(
    serve: Serve, small_graph: Path, tmp_path: Path, cli: Cli
) -> None:
    kept = tmp_path / "address"
    before = serve(small_graph, kept=kept)
    before.enter()
    assert kept.stat().st_mode & 0o777 == 0o600
    before.end()
    after = serve(small_graph, kept=kept)
    assert after.server.address == before.server.address
    assert before.get("file").status == 200  # by the cookie of before
    kept.chmod(0o644)
    refused = cli("serve", small_graph, "--keep-address", kept, "--no-browser")
    assert (refused.code, "chmod 600" in refused.err) == (2, True)
    kept.chmod(0o600)
    kept.write_text("{}")
    refused = cli("serve", small_graph, "--keep-address", kept, "--no-browser")
    assert (refused.code, "no address" in refused.err) == (2, True)


def news(client: Client) -> bytes:
    """Returns the first news that a page gets."""
    found = urlsplit(client.server.address)
    connection = HTTPConnection(found.hostname or "", found.port or 0, timeout=PATIENCE_S)
    connection.request("GET", "/api/events", headers={"Cookie": client.cookie})
    lines = connection.getresponse()
    said = b"".join(lines.readline() for _ in range(5))  # of the file, and of the queue
    connection.close()
    return said


def test_a_file_that_is_none_and_a_password_that_is_none_are_refused(
    cli: Cli, small_graph: Path, tmp_path: Path
) -> None:
    missing = cli("serve", tmp_path / "nothing.graph", "--no-browser")
    assert (missing.code, "nothing.graph" in missing.err) == (2, True)
    nobody = cli("serve", small_graph, "--no-browser", "--password-file", tmp_path / "nothing")
    assert (nobody.code, "nothing" in nobody.err) == (2, True)
