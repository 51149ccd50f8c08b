"""The search that follows the board: it goes where the board goes, and its memory answers the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch.graph.view import show
from graphsearch.position.board import fen_of
from graphsearch.store.store import Store

from .client import Client, done, queue, until
from .page import LINE, Page

FEWER_VISITS = 700


def running(client: Client) -> dict[str, Any]:
    jobs = client.server.served.queue.as_dict()["running"]
    return jobs[0] if jobs else {"title": "", "facts": {}}


def root_visits(client: Client, board: chess.Board | None = None) -> int:
    """Returns the visits of the root, 0 while another one than `board` is searched."""
    node = running(client)["facts"].get("node")
    is_root = node and (board is None or node["position"] == fen_of(board))
    return int(node["visits"]) if is_root else 0


def searched(client: Client, *moves: str) -> int:
    """Returns the visits of the position after some moves, 0 while another one is searched."""
    board = chess.Board()
    for move in moves:
        board.push_san(move)
    return root_visits(client, board)


def stopped(client: Client) -> None:
    job = running(client)
    client.post("queue", action="stop", number=job["number"])
    until(lambda: not client.server.served.queue.as_dict()["running"], "the end")


# ------------------------------------------------------------ memory
def test_a_running_search_answers_from_its_memory(
    client: Client, small_graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphsearch.web.task_queue.ANSWER_SECONDS", 60.0)  # else the file answers
    client.post("search", threads=1)
    until(lambda: root_visits(client) > FEWER_VISITS, "visits")
    line = {"line": "e2e4 e7e5"}
    board = chess.Board()
    for move in line["line"].split():
        board.push_uci(move)
    stored = show(small_graph, board)

    def newer() -> bool:
        node = client.get("position", **line).json["node"]
        return bool(node and node["visits"] > (stored.visits if stored else 0) + 10)

    until(newer, "numbers that the file does not have")
    lines = client.get("lines", **line, lines=3).json
    assert lines["visits"] > (stored.visits if stored else 0)
    assert len(lines["lines"]) == 3
    points = client.get("values", **line).json["points"]
    assert points[0]["n"] > FEWER_VISITS
    values = client.post("tree-values", moves=[[0, "e2e4"], [1, "e7e5"]]).json["values"]
    assert values[0]["n"] > 0
    around = client.get("neighbourhood", depth=1).json
    assert around["nodes"][0]["n"] > FEWER_VISITS
    assert client.get("lines", root="8/8/8/4k3/8/8/4P3/4K3 w - - 0 1").status == 404
    stopped(client)
    node = show(small_graph, board)
    assert node is not None
    assert client.get("position", **line).json["node"]["visits"] == node.visits


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
    first = until(lambda: searched(client), "the start again")
    assert first > FEWER_VISITS

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
    assert page.errors() == []


def test_a_row_limits_the_search_to_its_move_excludes_it_and_leads_behind_it(page: Page) -> None:
    page.open()
    page.search_with_one_thread()
    page.has(".moves .act")
    first = page.text(".moves tbody tr .move")
    page.click(".moves .act")
    assert page.run("return document.activeElement.getAttribute('role')") == "menuitem"
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
    grown = until(lambda: more_than(before, page.client), "more visits of moves")
    assert chess.Board().parse_san(first).uci() not in grown
    page.has("#stop:not([hidden])")
    page.click(".limit button")  # the search goes on with all moves
    until(lambda: "follow" in running(page.client)["title"] and root_visits(page.client), "all moves")
    page.has(".left-out", 0)
    page.click(".moves .act")
    page.click("#row-menu button:nth-child(1)")
    page.has(LINE, 1)
    until(lambda: searched(page.client, page.line()), "the search behind the move")
    assert page.errors() == []


def counts_at_start(client: Client) -> dict[str, int]:
    """Returns the visits of every move of the start position."""
    return {move["move"]: move["n"] for move in client.get("position").json["node"]["moves"]}


def more_than(before: dict[str, int], client: Client) -> set[str]:
    """Returns the moves of the start position that have more visits than before."""
    return {move for move, n in counts_at_start(client).items() if n > before[move]}
