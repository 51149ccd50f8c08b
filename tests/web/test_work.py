"""Searches, the queue and how it is kept, imports and exports, and the answers about positions."""

from __future__ import annotations

import json
import multiprocessing
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
import chess.pgn
import pytest

from graphsearch.evaluators.factory import create
from graphsearch.graph.view import show
from graphsearch.query.position import position
from graphsearch.store.file import WriteLock, holder
from graphsearch.store.info import info
from graphsearch.store.verify import verify
from graphsearch.web.task_queue import READ_ONLY, TAKEN, offered
from graphsearch.web.tasks import Order, Place, SearchTask, spent_before
from tests.conftest import Cli, sql, start
from tests.web.client import PATIENCE_S, Address, Client, Serve, done, queue, until

EVIL = """[Event "<img src=x onerror=alert(1)>"]
[White "<script>alert(1)</script>"]
[Black "B"]
[Result "1-0"]

1. e4 {<script>} e5 2. Nf3 1-0
"""
ENDGAME = "8/8/8/4k3/8/8/4P3/4K3 w - - 0 1"
TWO_GAMES = EVIL + "\n" + EVIL.replace("1. e4", "1. d4").replace("e5 2. Nf3", "d5")


def visits(path: Path, board: chess.Board) -> int:
    node = show(path, board)
    return node.visits if node else 0


# ------------------------------------------------------------------ answers
def test_a_position_is_answered_as_the_query_has_it(reader: Client) -> None:
    answer = reader.get("position", line="e2e4 e7e5").json
    board = chess.Board()
    for move in ("e4", "e5"):
        board.push_san(move)
    expected = json.loads(json.dumps(position(reader.server.served.path, board, lines=0).as_dict()))
    assert {name: answer[name] for name in expected} == expected
    assert [step["san"] for step in answer["line"]] == ["e4", "e5"]
    assert len(answer["legal"]) == board.legal_moves.count()
    unknown = reader.get("position", root=ENDGAME).json
    assert (unknown["node"], len(unknown["legal"])) == (None, 6)


def test_what_is_no_position_gets_a_line_of_error(reader: Client) -> None:
    for root, line in (("nonsense", ""), ("", "e2e5"), ("8/8/8/8/8/8/8/8 w - - 0 1", ""), ("x" * 9000, "")):
        answer = reader.get("position", root=root, line=line)
        assert (answer.status, bool(answer.error)) == (400, True), root[:80]


def test_a_text_is_read_as_a_fen_a_line_or_games(reader: Client) -> None:
    assert reader.post("read", text=ENDGAME).json["games"][0]["root"] == ENDGAME
    assert reader.post("read", text="1. e4 e5 2. Nf3").json["games"][0]["line"] == ["e2e4", "e7e5", "g1f3"]
    games = reader.post("read", text=TWO_GAMES).json["games"]
    assert [game["line"][0] for game in games] == ["e2e4", "d2d4"]
    assert games[0]["headers"]["White"] == "<script>alert(1)</script>"
    assert reader.post("read", text="what?").status == 400


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("1. ♘f3 ♞f6 2. ♙d4", "g1f3 g8f6 d2d4"),
        ("1. e4 e5 2. Sf3 Sc6 3. Lb5 a6 4. 0-0", "e2e4 e7e5 g1f3 b8c6 f1b5 a7a6 e1g1"),
        ("1. Cf3 d5 2. g3 Cf6 3. Fg2", "g1f3 d7d5 g2g3 g8f6 f1g2"),
        ("1. Кf3 d5 2. g3 Кf6 3. Сg2 Крd7", "g1f3 d7d5 g2g3 g8f6 f1g2 e8d7"),  # noqa: RUF001
    ],
)
def test_moves_of_other_languages_and_figurines_are_read(reader: Client, text: str, line: str) -> None:
    found = reader.post("read", text=text).json
    assert (" ".join(found["games"][0]["line"]), found["problems"]) == (line, [])


def test_a_fen_of_one_to_three_fields_is_completed_and_a_game_opened_up_to_its_fault(reader: Client) -> None:
    for text, whole in (
        ("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR", chess.STARTING_FEN),
        ("4k3/8/8/8/8/8/8/4K2R b", "4k3/8/8/8/8/8/8/4K2R b K - 0 1"),
    ):
        assert reader.post("read", text=text).json["games"][0]["root"] == whole
    found = reader.post("read", text="1. e4 e5 2. Nf3 Nc6 3. Qh9 a6").json
    assert found["games"][0]["line"] == ["e2e4", "e7e5", "g1f3", "b8c6"]
    assert "Qh9" in found["problems"][0]


# ------------------------------------------------------------------ work
def stage(client: Client) -> Any:
    """Returns the stage of the task that is running."""
    return next((job["facts"].get("stage") for job in queue(client)["running"]), None)


def test_while_another_program_writes_the_file_a_queued_search_waits_and_others_name_it(
    client: Client, small_graph: Path
) -> None:
    assert holder(small_graph) is None
    lock = WriteLock(small_graph)
    try:
        found = client.server.served.holder()
        assert found
        assert (found["pid"], found["ours"]) == (os.getpid(), False)
        job = done(client, client.post("search", visits=10).json["number"])
        assert (job["state"], str(os.getpid()) in job["error"]) == ("failed", True)
        stopped = client.post("search", queue=True, visits=10, threads=1).json["number"]
        done_later = client.post("search", queue=True, visits=10, threads=1).json["number"]
        until(lambda: stage(client) == "waiting", "the lock to be met")
        client.post("queue", action="stop", number=stopped)
        assert done(client, stopped)["state"] == "stopped"
        until(lambda: stage(client) == "waiting", "the next one")
    finally:
        lock.release()
    assert (done(client, done_later)["state"], visits(small_graph, chess.Board())) == ("done", 310)


def waiting_pid(client: Client) -> int:
    """Returns the pid of the process that waits for a task."""
    return int(until(lambda: client.server.served.queue.reserve, "a process in reserve").child.pid)


def test_a_stop_ends_a_search_at_once_whose_kernels_are_still_compiled(
    client: Client, small_graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphsearch.workers.process.get_context", multiprocessing.get_context)
    monkeypatch.setenv("GRAPHSEARCH_CACHE_DIR", str(tmp_path / "cold"))
    os.kill(waiting_pid(client), signal.SIGKILL)  # which has the other cache
    until(lambda: not client.server.served.queue.reserve, "its end")
    number = client.post("search", threads=1).json["number"]
    until(lambda: stage(client) == "compiling", "the compiler")
    client.post("queue", action="stop", number=number)
    job = done(client, number)
    assert (job["state"], job["stopping"], job["facts"]["stage"]) == ("stopped", False, "compiling")
    assert visits(small_graph, chess.Board()) == 300
    assert holder(small_graph) is None


def test_a_task_runs_though_the_process_in_reserve_was_killed(client: Client) -> None:
    os.kill(waiting_pid(client), signal.SIGKILL)
    until(lambda: not client.server.served.queue.reserve, "its end")
    number = client.post("search", visits=5, threads=1).json["number"]
    assert done(client, number)["state"] == "done"


def test_a_kill_ends_only_one_task(client: Client, small_graph: Path) -> None:
    endless = client.post("search", threads=1).json["number"]
    waiting = client.post("search", queue=True, line="e2e4", visits=400, threads=1).json["number"]
    assert "is running" in client.post("search").error

    def searching() -> Any:
        return queue(client)["running"][0]["facts"].get("counters")

    until(searching, "the first search")
    child = client.server.served.queue.job(endless).child
    assert child
    os.kill(child.pid, signal.SIGKILL)
    killed = done(client, endless)
    assert (killed["state"], "signal 9" in killed["error"]) == ("failed", True)
    assert done(client, waiting)["state"] == "done"
    board = chess.Board()
    board.push_uci("e2e4")
    assert visits(small_graph, board) >= 400


def test_a_stopped_search_is_saved_and_what_waits_is_held(client: Client, small_graph: Path) -> None:
    after = chess.Board()
    after.push_san("e4")
    before = visits(small_graph, after)
    number = client.post("search", searchmoves="e4", threads=1).json["number"]
    waiting = client.post("search", queue=True, visits=5).json["number"]
    until(lambda: queue(client)["running"][0]["facts"].get("node"), "the search")
    client.post("queue", action="stop", number=number, hold=True)
    assert done(client, number)["state"] == "stopped"
    assert visits(small_graph, after) > before
    state = queue(client)
    assert (state["held"], [job["number"] for job in state["waiting"]]) == (True, [waiting])
    client.post("queue", action="stop", number=waiting)
    client.post("queue", action="go")
    assert not queue(client)["waiting"]


def test_games_come_in_with_their_players_and_go_out_as_files(client: Client) -> None:
    for query, state in (("", "imported"), ("&players=1", "players")):
        number = client.ask("POST", f"/api/import/pgn?name=evil.pgn{query}", EVIL.encode()).json["number"]
        assert done(client, number)["facts"]["state"] == state
        known = client.get("players")
        assert known.status == (200 if query else 400)
    assert [row["name"] for row in known.json["players"]] == ["<script>alert(1)</script>", "B"]
    found = client.get("prepare", player="script", min_visits=1000)
    assert (found.json["games"], found.json["players"]) == (1, ["<script>alert(1)</script>"])
    assert client.get("prepare", player="nobody").status == 400
    new = client.get("novelties", root="startpos", line="", min_games=1, min_visits=2).json
    assert new["reached"] == 3
    assert all(move["games"] == 0 for move in new["novelties"])
    assert client.get("novelties", root="startpos", line="h2h4").status == 404
    assert client.get("position").json["games"]["e2e4"]["white"] == 1
    assert client.get("file").json["info"]["imported"]["sources"][0]["name"] == "evil.pgn"
    number = client.post("export", form="pgn", depth=2, root="startpos", line="").json["number"]
    assert done(client, number)["state"] == "done"
    file = client.ask("GET", f"/api/download/{number}")
    assert b"1. e4" in file.body
    assert "attachment" in file.headers["content-disposition"]
    assert client.ask("GET", "/api/download/999").status == 400


# ------------------------------------------------------------------ the queue in the file
PGN = b'[White "A"]\n[Black "B"]\n[Result "1-0"]\n\n1. e4 e5 1-0\n\n1. e4 Ke2 *\n\n'
SERVE = """
import sys, threading
from pathlib import Path
from graphsearch.web.task_queue import ServedFile
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
    return sql(path, "SELECT id, kind, state FROM task ORDER BY id")


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
        client.post("search", queue=True, line="d4 d5", visits=50, threads=1)
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
        sql(small_graph, "UPDATE task SET state = 'running', request = ?", json.dumps(request))
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
        until(lambda: b'"node"' in news(client), "the search")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (process.returncode, "saving" in said) == (130, True)
    after = show(small_graph, AFTER_D4)
    assert after
    assert after.visits > before.visits


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
