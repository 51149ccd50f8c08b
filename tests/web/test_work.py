"""A server: searches, the queue and how it is kept, imports, exports, answers, and who may come in."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import chess
import chess.pgn
import pytest
from selenium.webdriver.common.keys import Keys
from starlette.routing import Route

from graphsearch.base.errors import InvalidParameterError
from graphsearch.book.questions import status
from graphsearch.book.study.studies import note_on
from graphsearch.evaluators.factory import EvaluatorSpec, create
from graphsearch.graph.graph import Graph
from graphsearch.graph.view import show
from graphsearch.position.board import fen_of
from graphsearch.position.values import cp_of
from graphsearch.query.position import position
from graphsearch.store.file import WriteLock, holder
from graphsearch.store.info import info
from graphsearch.store.store import Store
from graphsearch.store.verify import verify
from graphsearch.web.gate import GUESSES
from graphsearch.web.serving import Server, application
from graphsearch.web.task_queue import READ_ONLY, TAKEN, ServedFile, offered
from graphsearch.web.tasks import Order, Place, SearchTask, Wanted, read_request, spent_before
from tests.conftest import Cli, sql, start
from tests.support.positions import after_line
from tests.web.page import LINE, MEN, PATIENCE_S, Client, Page, Serve, done, entered, queue, until

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
    board = after_line("e4 e5")
    expected = json.loads(json.dumps(position(reader.server.served.path, board, lines=0).as_dict()))
    expected["node"]["cp"] = cp_of(expected["node"]["q"])
    expected["note"] = note_on(reader.server.served.path, board).as_dict()
    assert {name: answer[name] for name in expected} == expected
    assert [step["san"] for step in answer["line"]] == ["e4", "e5"]
    assert len(answer["legal"]) == board.legal_moves.count()
    unknown = reader.get("position", root=ENDGAME).json
    assert (unknown["node"], len(unknown["legal"])) == (None, 6)


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
def running(client: Client) -> dict[str, Any]:
    jobs = queue(client)["running"]
    return jobs[0] if jobs else {"title": "", "facts": {}}


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
        until(lambda: running(client)["facts"].get("stage") == "waiting", "the lock to be met")
        client.post("queue", action="stop", number=stopped)
        assert done(client, stopped)["state"] == "stopped"
        until(lambda: running(client)["facts"].get("stage") == "waiting", "the next one")
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
    until(lambda: running(client)["facts"].get("stage") == "compiling", "the compiler")
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

    until(lambda: queue(client)["running"][0]["facts"].get("counters"), "the first search")
    os.kill(client.server.served.queue.job(endless).child.pid, signal.SIGKILL)
    killed = done(client, endless)
    assert (killed["state"], "signal 9" in killed["error"]) == ("failed", True)
    assert done(client, waiting)["state"] == "done"
    assert visits(small_graph, after_line("e4")) >= 400


def test_a_stopped_search_is_saved_and_what_waits_is_held(client: Client, small_graph: Path) -> None:
    after = after_line("e4")
    before = visits(small_graph, after)
    number = client.post("search", searchmoves="e4", threads=1).json["number"]
    waiting = client.post("search", queue=True, visits=5).json["number"]
    until(lambda: queue(client)["running"][0]["facts"].get("node"), "the search")
    client.post("queue", action="stop", number=number, hold=True)
    assert done(client, number)["state"] == "stopped"
    assert visits(small_graph, after) > before
    state = queue(client)
    assert (state["held"], [job["number"] for job in state["waiting"]]) == (True, [waiting])
    removals = [client.post("queue", action="stop", number=waiting).status for _ in range(2)]
    assert removals == [200, 400]  # it is gone
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


def test_a_killed_server_leaves_its_queue_to_the_next_one(serve: Serve, small_graph: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, small_graph], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    try:
        client = Client(SimpleNamespace(address=process.stdout.readline().strip()))
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


def work_on(task: SearchTask, path: Path, before: dict[str, Any]) -> Any:
    place = Place(path, path.parent, offered())
    return SimpleNamespace(
        order=Order(1, task, place, before),
        place=place,
        stop=threading.Event(),
        ready=lambda spec: closing(create(spec)),
        send=lambda facts: None,
        answer=lambda read: None,
    )


def test_an_interrupted_search_makes_what_is_left_of_its_limits(small_graph: Path) -> None:
    task = SearchTask(visits=300)
    for before, visits in (({"spent": {"new_visits": 260, "seconds": 1}}, 40), ({"spent": "3"}, 300)):
        found = task.run(work_on(task, small_graph, before))
        assert found["new_visits"] == visits
        assert found["spent"]["new_visits"] == 300
    assert task.run(work_on(task, small_graph, found))["new_visits"] == 0


def test_a_search_that_a_hand_may_stop_leaves_little_unsaved(
    small_graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves: list[Graph] = []
    monkeypatch.setattr(Graph, "save_soon", lambda graph: saves.append(graph))
    monkeypatch.setattr("graphsearch.web.tasks.MOST_UNSAVED", 10)
    for is_queued in (True, False):
        assert saves == []
        task = SearchTask(visits=300, queue=is_queued)
        task.run(work_on(task, small_graph, {}))
    assert saves


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
    before = visits(small_graph, AFTER_D4)
    process = start("serve", small_graph, "--no-browser")
    try:
        assert process.stdout
        client = Client(SimpleNamespace(address=process.stdout.readline().strip()))
        assert client.enter().status == 303
        client.post("search", searchmoves="d4", threads=1)
        until(lambda: b'"node"' in news(client), "the search")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (process.returncode, "saving" in said) == (130, True)
    assert visits(small_graph, AFTER_D4) > before > 0


def news(client: Client) -> bytes:
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


# ------------------------------------------------------------------ the search that follows the board
FEWER_VISITS = 700


def root_visits(client: Client, board: chess.Board | None = None) -> int:
    """Returns the visits of the root, 0 while another one than `board` is searched."""
    node = running(client)["facts"].get("node")
    is_root = node and (board is None or node["position"] == fen_of(board))
    return int(node["visits"]) if is_root else 0


def searched(client: Client, *moves: str) -> int:
    """Returns the visits of the position after some moves, 0 while another one is searched."""
    return root_visits(client, after_line(" ".join(moves)))


def stopped(client: Client) -> None:
    client.post("queue", action="stop", number=running(client)["number"])
    until(lambda: not client.server.served.queue.as_dict()["running"], "the end")


# ------------------------------------------------------------ memory
def test_a_running_search_answers_from_its_memory(
    client: Client, small_graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphsearch.web.task_queue.ANSWER_SECONDS", 60.0)  # else the file answers
    client.post("search", threads=1)
    until(lambda: root_visits(client) > FEWER_VISITS, "visits")
    line, board = {"line": "e2e4 e7e5"}, after_line("e4 e5")
    stored = show(small_graph, board)

    def newer() -> bool:
        node = client.get("position", **line).json["node"]
        return bool(node and node["visits"] > (stored.visits if stored else 0) + 10)

    until(newer, "numbers that the file does not have")
    lines = client.get("lines", **line, lines=3).json
    assert lines["visits"] > (stored.visits if stored else 0)
    assert len(lines["lines"]) == 3
    assert client.get("values", **line).json["points"][0]["n"] > FEWER_VISITS
    assert client.post("tree-values", moves=[[0, "e2e4"], [1, "e7e5"]]).json["values"][0]["n"] > 0
    assert client.get("neighbourhood", depth=1).json["nodes"][0]["n"] > FEWER_VISITS
    assert client.get("lines", root="8/8/8/4k3/8/8/4P3/4K3 w - - 0 1").status == 404
    stopped(client)
    assert client.get("position", **line).json["node"]["visits"] == visits(small_graph, board) > 0


def test_a_root_of_the_last_seconds_is_in_the_list_of_the_file(client: Client, small_graph: Path) -> None:
    for moves in (("e4",), ("a4", "h5")):
        client.post("follow", line=" ".join(moves), threads=1)
        until(lambda: searched(client, *moves) > FEWER_VISITS, "visits")  # noqa: B023
    stopped(client)
    with Store.open(small_graph, read_only=True) as store:
        assert any("/7p/P7/" in root.position for root in store.roots())


def test_it_ends_no_queued_search_and_the_queue_goes_on_behind_it(client: Client) -> None:
    queued, last = (
        client.post("search", queue=True, line=line, threads=1, **limit).json["number"]
        for line, limit in (("e4", {}), ("d4", {"visits": 5}))
    )
    until(lambda: running(client)["facts"].get("counters"), "the queued search")
    assert client.post("follow", searchmoves="e5").status == 400  # no legal move
    client.post("follow", threads=1)
    jobs = queue(client)
    assert [job["number"] for job in jobs["running"]] == [queued]
    assert [job["kind"] for job in jobs["waiting"]] == ["follow", "search"]
    client.post("queue", action="stop", number=queued)
    until(lambda: root_visits(client, chess.Board()), "the search that follows")
    client.post("queue", action="stop", number=running(client)["number"])
    assert done(client, last)["state"] == "done"


# ------------------------------------------------------------ the page
def test_a_file_opens_at_its_root(driver: Any, serve: Serve, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    cli("analyze", "e4 e5", "--visits", 20, "--evaluator", "uniform", "--store", path)
    page = Page(driver, entered(serve, path))
    page.open()
    page.reaches("e5")


def test_the_search_goes_where_the_board_goes(page: Page) -> None:
    page.open()
    client = page.client
    page.search_with_one_thread()
    page.click("#follow")
    until(lambda: searched(client) > FEWER_VISITS, "the start")
    page.drag("e2", "e4")
    page.has(LINE, 1)
    until(lambda: searched(client, "e4") > 500, "the search behind the move")
    page.click("#back")
    assert until(lambda: searched(client), "the start again") > FEWER_VISITS

    def shown() -> int:
        return int(page.text(".moves .c-n .figure").replace(",", ""))

    before = shown()
    until(lambda: shown() > before, "numbers that grow")
    client.post("search", line="e4 e5", visits=40, threads=1, queue=True)
    page.says("#counters", "+1 in the queue")
    page.click("#forward")
    page.wait(
        "return document.querySelector('#line .worth')?.textContent"
        " === document.querySelector('#gauge span')?.textContent",
        "the value of the search in the notation",
    )
    page.click("#follow")
    until(lambda: not client.server.served.queue.as_dict()["running"], "the end")
    page.has("#follow:not(:checked)")


def test_a_row_limits_the_search_to_its_move_excludes_it_and_leads_behind_it(page: Page) -> None:
    page.open()
    page.search_with_one_thread()
    page.has(".moves .act")
    first = page.text(".moves tbody tr .move")
    page.click(".moves .act")
    assert page.run("return document.activeElement.getAttribute('role')") == "menuitem"
    page.keys_here(Keys.TAB)
    page.has("#row-menu:not(:popover-open)")
    page.click(".moves .act")
    page.click("#row-menu button:nth-child(3)")
    page.says(".limit", f"The search takes only {first}.")
    page.click(".limit button")
    page.has(".limit", 0)
    page.click(".moves .act")
    page.click("#row-menu button:nth-child(2)")
    page.says(".limit", f"The search leaves out {first}.")
    before = counts_at_start(page.client)
    page.click("#start")
    until(lambda: root_visits(page.client) > FEWER_VISITS, "the search")
    task: Any = page.client.server.served.queue._running[False].task
    assert len(task.searchmoves.split()) == 19
    page.says("#counters", f"without {first}")
    grown = until(
        lambda: {move for move, n in counts_at_start(page.client).items() if n > before[move]},
        "more visits of moves",
    )
    assert chess.Board().parse_san(first).uci() not in grown
    page.has("#stop:not([hidden])")
    page.click(".limit button")  # the search goes on with all moves
    until(lambda: "follow" in running(page.client)["title"] and root_visits(page.client), "all moves")
    page.has(".left-out", 0)
    page.click(".moves .act")
    page.click("#row-menu button:nth-child(1)")
    page.has(LINE, 1)
    until(lambda: searched(page.client, page.line()), "the search behind the move")


def counts_at_start(client: Client) -> dict[str, int]:
    """Returns the visits of every move of the start position."""
    return {move["move"]: move["n"] for move in client.get("position").json["node"]["moves"]}


# ------------------------------------------------------------------ who may come in
PAGES = (
    "/",
    "/p/8/8/8/8/8/8/8/K1k5_w_-_-_0_1",
    "/static/app.js",
    "/api/position",
    "/api/file",
    "/api/events",
)
CHANGING = ("search", "follow", "build", "import/pgn", "export", "queue", "read")


def test_nobody_comes_in_without_the_token(serve: Serve, small_graph: Path) -> None:
    stranger = serve(small_graph)
    for path in PAGES:
        assert stranger.ask("GET", path).status == 403
    for path in CHANGING:
        assert stranger.post(path).status == 403
    assert stranger.enter(stranger.server.address[:-1]).status == 403
    assert stranger.ask("GET", "/", Cookie="graphsearch=x; graphsearch_1=y").status == 403


def test_the_token_becomes_a_strict_cookie_and_leaves_the_address(serve: Serve, small_graph: Path) -> None:
    client = serve(small_graph)
    answer = client.enter()
    assert (answer.status, answer.headers["location"]) == (303, "/")
    port, cookie = urlsplit(client.server.address).port, answer.headers["set-cookie"]
    assert cookie.startswith(f"graphsearch_{port}=")
    assert {"httponly", "samesite=strict", "path=/"} <= {part.strip().lower() for part in cookie.split(";")}
    token = client.server.address.partition("token=")[2]
    assert token not in cookie
    others = f'of="another"; program={{"json": [1]}}; {client.cookie}; bare'
    assert [client.ask("GET", "/", Cookie=found).status for found in (None, others)] == [403, 200]
    assert client.ask("GET", f"/enter?token={token}&to=//evil.example/").headers["location"] == "/"


def test_a_foreign_host_or_origin_is_refused_also_with_the_cookie(reader: Client) -> None:
    port = urlsplit(reader.server.address).port
    for host in (f"evil.example:{port}", f"127.0.0.1.evil.example:{port}", "127.0.0.1", "[::1]:1"):
        for path in (*PAGES, "/enter?token=x"):
            assert reader.ask("GET", path, Host=host).status == 403, (host, path)
    for origin in ("http://evil.example", "null", f"https://{reader.host}", "http://127.0.0.1:1"):
        assert reader.ask("GET", "/api/position", Origin=origin).status == 403
        for path in CHANGING:
            assert reader.ask("POST", f"/api/{path}", b"{}", Origin=origin).status == 403, (origin, path)
    for path in CHANGING:  # what changes something must name its origin
        assert reader.ask("POST", f"/api/{path}", b"{}", Origin=None).status == 403
        assert reader.ask("GET", f"/api/{path}").status == 405


def test_web_sockets_are_refused(reader: Client) -> None:
    key = "dGhlIHNhbXBsZSBub25jZQ=="
    words = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec_WebSocket_Version": "13"}
    for path in ("/", "/api/file"):
        assert reader.ask("GET", path, None, **words, Sec_WebSocket_Key=key).status != 101


def test_every_answer_has_a_policy_that_lets_nothing_foreign_in(reader: Client) -> None:
    for path in ("/", "/static/app.js", "/api/file", "/nowhere", "/enter"):
        answer = reader.ask("GET", path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"


def test_the_page_fetches_nothing_from_elsewhere() -> None:
    for file in (files("graphsearch.web") / "static").iterdir():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(
            r"https?:|//[a-z]+\.[a-z]|@import|innerHTML|outerHTML|insertAdjacent|eval\(", text
        ), file
        if file.name.endswith(".html"):
            assert not re.search(r"\son\w+=|style=|<script(?![^>]* src=)|<style", text)


def test_files_outside_the_page_are_not_served(reader: Client) -> None:
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/..%5capp.py"):
        assert reader.ask("GET", path).status == 404


def test_the_end_of_an_answer_does_not_wait_for_the_browser(reader: Client) -> None:
    assert reader.server._socket.proto == socket.IPPROTO_TCP  # else asyncio leaves Nagle's algorithm on


# ------------------------------------------------------------------ other machines
def test_other_machines_are_let_in_only_with_a_password(cli: Cli, small_graph: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameterError, match="--password-file"):
        Server(ServedFile(small_graph), host="0.0.0.0")
    refused = cli("serve", small_graph, "--host", "0.0.0.0", "--no-browser")
    assert refused.code == 2
    assert "--password-file" in refused.err
    (tmp_path / "short").write_text("1234567\n")
    refused = cli("serve", small_graph, "--host", "0.0.0.0", "--password-file", tmp_path / "short")
    assert refused.code == 2


def test_a_password_opens_the_door_and_a_wrong_one_does_not(serve: Serve, small_graph: Path) -> None:
    client = serve(small_graph, host="0.0.0.0", password="correct horse")
    assert b'type="password"' in client.ask("GET", "/").body
    assert client.ask("POST", "/enter", b"password=wrong").status == 403
    answer = client.ask("POST", "/enter", b"password=correct+horse")
    assert answer.status == 303
    client.cookie = answer.headers["set-cookie"].partition(";")[0]
    assert client.get("position").status == 200
    port = urlsplit(client.server.address).port
    assert client.ask("GET", "/api/position", Host=f"192.168.0.9:{port}").status == 200
    assert client.ask("GET", "/api/position", Host=f"evil.example:{port}").status == 403


def test_a_password_is_typed_into_the_form_of_a_browser(driver: Any, serve: Serve, small_graph: Path) -> None:
    client = serve(small_graph, password="correct horse")
    page = Page(driver, client)
    driver.get(f"http://{client.host}/")
    for password, seen in (("wrong", "That is not the password."), ("correct horse", "graphsearch")):
        driver.find_element("css selector", "#password").send_keys(password, Keys.ENTER)
        page.says("body", seen)
    page.has(MEN)


def test_guesses_in_the_name_of_other_machines_are_those_of_one(
    serve: Serve, small_graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphsearch.web.gate.GUESS_SECONDS", 3600.0)  # no bucket fills meanwhile
    client = serve(small_graph, password="correct horse")
    statuses = [
        client.ask("POST", "/enter", b"password=wrong", X_Forwarded_For=f"10.0.0.{k}").status
        for k in range(2 * GUESSES)
    ]
    assert statuses == [403] * GUESSES + [429] * GUESSES


def test_of_many_guesses_at_once_only_a_few_are_looked_at_and_none_has_to_wait(
    serve: Serve, small_graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphsearch.web.gate.GUESS_SECONDS", 3600.0)  # no bucket fills meanwhile
    client = serve(small_graph, host="0.0.0.0", password="correct horse")
    guesses = [b"password=wrong"] * 40 + [b"password=correct+horse"] + [b"password=wrong"] * 20
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda guess: client.ask("POST", "/enter", guess), guesses))
    assert len([answer for answer in answers if answer.status != 429]) <= GUESSES + 1
    assert answers[40].status == 429
    assert int(answers[40].headers["retry-after"]) >= 1
    assert b"Too many guesses" in answers[40].body
    assert client.enter().status == 303  # the printed address lets in all the same


def test_the_end_of_a_server_tells_of_no_defect(
    serve: Serve, small_graph: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("graphsearch.web.serving.LEAVE_SECONDS", 1)
    monkeypatch.setattr("graphsearch.web.answers.players", lambda *_, **__: time.sleep(4.0))
    client = entered(serve, small_graph)

    def ask() -> None:
        with suppress(OSError, HTTPException):
            client.get("players")

    asking = threading.Thread(target=ask)
    asking.start()
    time.sleep(0.5)
    client.end()
    asking.join()
    assert caplog.records == []


def test_an_upload_that_breaks_off_leaves_no_file_and_tells_of_no_defect(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("uvicorn.error").disabled = False  # as an earlier server of this process left it
    folder, parts = client.server.served.place.folder, urlsplit(client.server.address)
    head = f"POST /api/import/pgn HTTP/1.1\r\nHost: {client.host}\r\nOrigin: http://{client.host}\r\n"
    with socket.create_connection((parts.hostname, parts.port)) as connection:
        connection.sendall(f"{head}Cookie: {client.cookie}\r\nContent-Length: 9\r\n\r\n1. e4".encode())
        until(lambda: len(list(folder.iterdir())) == 2, "the upload")
    until(lambda: len(list(folder.iterdir())) == 1, "its end")
    client.end()
    assert caplog.records == []


# ------------------------------------------------------------------ what a page may not do
CLOSED = (
    *("search", "follow", "build", "import/pgn", "study-new", "study-delete", "study-change", "note"),
    *("repertoire-add", "repertoire-remove", "repertoire-import?side=white"),
)


def test_read_only_pages_read_and_export_and_nothing_else(serve: Serve, small_graph: Path) -> None:
    client, before = entered(serve, small_graph, read_only=True), small_graph.read_bytes()
    for path in CLOSED:
        answer = client.post(path)
        assert (answer.status, "read-only" in answer.error) == (400, True), path
    assert small_graph.read_bytes() == before
    assert "--read-only" in client.get("repertoire", side="white").json["closed"]
    assert client.get("position").status == 200
    assert client.post("export", form="pgn").status == 200


def test_a_page_names_no_program_and_no_file_of_the_server(reader: Client) -> None:
    for evaluator in ("uci:/bin/true", "lc0:/etc/passwd", "nnue:stockfish"):
        assert "offers builtin" in reader.post("search", evaluator=evaluator).error
    book = '[book]\nname = "x"\nside = "white"\nmax_ply = 4\n[[root]]\n'
    assert "pgn" in reader.post("build", text=book + 'pgn = "/etc/passwd"\n').error
    assert reader.get("position", root="/etc/passwd").status == 400


@pytest.mark.parametrize(
    ("line", "there", "missing"),
    [
        ('name = "lc0:{}"', "file", "none"),
        ('name = "nnue:{}"', "net.nnue", "none.nnue"),
        ('name = "uci:{}"', "engine", "none"),
        ('name = "uci:\'{} --quiet"', "engine", "none"),
        ('policy = "{}:Maker"', "evaluator.py", "none.py"),
        ('value = "lc0:{}"', "~", "~/none"),
        ('syzygy = "{}"', "", "none"),
    ],
)
def test_a_book_from_a_page_cannot_ask_whether_a_file_is_on_the_server(
    reader: Client, tmp_path: Path, line: str, there: str, missing: str
) -> None:
    for name in ("file", "net.nnue", "engine", "evaluator.py"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    book = '[book]\nside = "white"\nmax_ply = 4\n[evaluator]\n'
    for folder in (tmp_path, Path(os.path.relpath(tmp_path))):
        for name in (there, missing):
            path = name if name.startswith("~") else folder / name
            answer = reader.post("build", text=f"{book}{line.format(path)}\n")
            assert answer.status == 400
            assert answer.error.endswith("an evaluator that the page offers; remove [evaluator]")


def test_a_book_from_a_page_is_built_with_an_evaluator_of_the_page(client: Client, small_graph: Path) -> None:
    client.server.served.evaluators["lc0:./net.pb.gz"] = EvaluatorSpec(evaluator="lc0:./net.pb.gz")
    book = '[book]\nname = "x"\nside = "white"\nmax_ply = 4\n[leaf]\nevaluations = 20\n'
    lost = client.post("build", text=book + '[evaluator]\nname = "lc0:./net.pb.gz"\n')
    assert "net.pb.gz" in done(client, lost.json["number"])["error"]
    built = client.post("build", text=book, evaluations=60)
    assert done(client, built.json["number"])["state"] == "done"
    assert [row.book.name for row in status(small_graph)] == ["x"]


def test_an_upload_has_a_limit_and_an_evil_one_gets_its_line_of_error(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = client.ask("POST", "/api/import/pgn?name=..%2F..%2Fgames.pgn", b"\x00\x01\x02 no games" * 999)
    assert taken.json["title"] == "import games.pgn"
    job = done(client, taken.json["number"])
    assert job["state"] == "failed"
    assert "games.pgn" in job["error"]
    assert {path.name for path in client.server.served.place.folder.iterdir()} == {"lock"}
    monkeypatch.setenv("GRAPHSEARCH_MAX_UPLOAD", "1000")
    assert "GRAPHSEARCH_MAX_UPLOAD" in client.ask("POST", "/api/import/pgn", b"x" * 5000).error
    assert client.post("import/exe").status == 400


# ------------------------------------------------------------------ what a request may say
BROKEN = {
    "deep list": b"[" * 100_000,
    "deep object": b'{"root":' * 100_000 + b"1",
    "deep value": b'{"root": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "lone surrogate": b'{"root": "\\ud800"}',
    "lone surrogate as a name": b'{"\\udfff": 1}',
    "no UTF-8": b'{"root": "\xff"}',
    "list": b"[1]",
    "number": b"1",
    "nothing": b"null",
    "no JSON": b"{",
    "no such field": b'{"colour": "red"}',
    "object as text": b'{"root": {}, "text": {}, "statement": [], "other": [1], "action": {}, "form": 1}',
    "infinity": b'{"seconds": Infinity, "number": 1e999, "other": 1e999}',
}


def posts() -> list[str]:
    """Returns the addresses of all requests that bring a JSON object."""
    routes = application(ServedFile(Path("no.graph"))).routes
    found = [route.path for route in routes if isinstance(route, Route) and route.methods == {"POST"}]
    return [path for path in found if "import" not in path and "review" not in path]


def test_a_broken_body_of_any_request_gets_a_line_of_error(reader: Client) -> None:
    assert len(posts()) >= 9
    for path in posts():
        for name, body in BROKEN.items():
            answer = reader.ask("POST", path, body)
            assert (answer.status, "\n" in answer.error) == (400, False), (path, name)
            assert 0 < len(answer.error) < 300, (path, name)


def test_a_number_that_is_none_is_named_with_its_field(reader: Client) -> None:
    values: tuple[object, ...] = ("-1", "1e3", "x", "9" * 40, "٣", "1.5", "nan", [1], {}, True)
    queries = (("lines", "lines"), ("find", "limit"), ("tree", "depth"))
    for value in values:
        answer = reader.post("search", visits=value)
        assert (answer.status, "visits" in answer.error) == (400, True), value
        for path, field in queries if isinstance(value, str) else ():
            found = reader.get(path, **{field: value})
            assert (found.status, field in found.error) == (400, True), (path, value)


def test_numbers_come_as_forms_write_them_and_blanks_are_nothing(reader: Client) -> None:
    found = read_request(SearchTask, b'{"visits": " 12 ", "seconds": "0.5", "evaluations": ""}')
    assert (found.visits, found.seconds, found.evaluations) == (12, 0.5, None)
    assert reader.get("lines", lines="").status == 200


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"evaluator": "x" * 300}, "evaluator: at most 200 characters"),
        ({"visits": 0}, "visits: at least 1"),
        ({"threads": 1025}, "threads: at most 1,024"),
        ({"seconds": "x"}, "seconds: expected a valid number"),
    ],
)
def test_a_field_that_is_wrong_is_said_in_plain_words(
    reader: Client, given: dict[str, object], error: str
) -> None:
    assert reader.post("search", **given).error.startswith(error)


def models(kind: type[Wanted] = Wanted) -> list[type[Wanted]]:
    return [found for below in kind.__subclasses__() for found in (below, *models(below))]


def bounds_of(form: dict[str, Any]) -> set[str]:
    """Returns the bounds that a field of a form needs."""
    if form.get("type") in ("integer", "number"):
        return {"minimum", "maximum"}
    if form.get("type") == "string" and "enum" not in form:
        return {"maxLength"}
    return {"maxProperties"} if form.get("type") == "object" else set()


def test_every_field_of_a_request_has_bounds() -> None:
    for kind in models():
        schema: dict[str, Any] = kind.model_json_schema()
        assert schema["additionalProperties"] is False, kind
        for name, field in schema.get("properties", {}).items():
            for form in field.get("anyOf", [field]):
                assert bounds_of(form) <= form.keys(), (kind, name)


# ------------------------------------------------------------------ time
def test_a_question_that_reads_too_many_records_ends_with_a_line(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, dict[str, Any]] = {
        "tree": {"depth": 20},
        "neighbourhood": {},
        "lines": {},
        "parents": {"line": "e2e4"},
    }
    for path, given in asked.items():
        assert client.get(path, **given).status == 200
    monkeypatch.setattr("graphsearch.web.answers.QUESTION_SECONDS", -1.0)
    for path, given in asked.items():
        answer = client.get(path, **given)
        assert (answer.status, "may take" in answer.error) == (400, True), path
