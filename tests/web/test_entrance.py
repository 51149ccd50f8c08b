"""Who may come in, and what those who may cannot do: refusals, headers, and what reaches no network."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.routing import Route

from graphsearch.base.errors import InvalidParameterError
from graphsearch.book.questions import status
from graphsearch.evaluators.factory import EvaluatorSpec
from graphsearch.web.gate import GUESSES
from graphsearch.web.serving import Server, application
from graphsearch.web.task_queue import ServedFile
from graphsearch.web.tasks import SearchTask, Wanted, read_request

from ..conftest import Cli
from .client import Client, Serve, done
from .page import ENTER, MEN, Page

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


def test_the_token_is_exchanged_for_a_strict_cookie_and_leaves_the_address(
    serve: Serve, small_graph: Path
) -> None:
    client = serve(small_graph)
    answer = client.enter()
    assert (answer.status, answer.headers["location"]) == (303, "/")
    port, cookie = urlsplit(client.server.address).port, answer.headers["set-cookie"]
    assert cookie.startswith(f"graphsearch_{port}=")
    assert {"httponly", "samesite=strict", "path=/"} <= {part.strip().lower() for part in cookie.split(";")}
    token = client.server.address.partition("token=")[2]
    assert token not in cookie
    assert client.ask("GET", "/").status == 200
    away = client.ask("GET", f"/enter?token={token}&to=//evil.example/")
    assert away.headers["location"] == "/"


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
    sent: list[dict[str, object]] = []

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    async def receive() -> dict[str, object]:
        return {"type": "websocket.connect"}

    asyncio.run(reader.server.gate({"type": "websocket", "path": "/"}, receive, send))
    assert [message["type"] for message in sent] == ["websocket.close"]


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


def test_the_password_is_typed_into_the_form_of_a_browser(
    driver: Any, serve: Serve, small_graph: Path
) -> None:
    client = serve(small_graph, password="correct horse")
    page = Page(driver, client)
    driver.get(f"http://{client.host}/")
    for password, seen in (("wrong", "That is not the password."), ("correct horse", "graphsearch")):
        driver.find_element("css selector", "#password").send_keys(password, ENTER)
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
    looked_at = [answer for answer in answers if answer.status != 429]
    assert len(looked_at) <= GUESSES + 1
    assert answers[40].status == 429
    assert int(answers[40].headers["retry-after"]) >= 1
    assert b"Too many guesses" in answers[40].body
    assert client.enter().status == 303  # the printed address lets in all the same


def test_the_end_of_a_server_tells_of_no_defect(
    serve: Serve, small_graph: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("graphsearch.web.serving.LEAVE_SECONDS", 1)
    monkeypatch.setattr("graphsearch.web.answers.players", lambda *_, **__: time.sleep(4.0))
    client = serve(small_graph)
    client.enter()

    def ask() -> None:
        with suppress(OSError, HTTPException):
            client.get("players")

    asking = threading.Thread(target=ask)
    asking.start()
    time.sleep(0.5)
    client.end()
    asking.join()
    assert caplog.records == []


# ------------------------------------------------------------------ what a page may not do
def test_read_only_pages_read_and_export_and_nothing_else(serve: Serve, small_graph: Path) -> None:
    client = serve(small_graph, read_only=True)
    client.enter()
    for path in ("search", "follow", "build", "import/pgn"):
        answer = client.post(path)
        assert (answer.status, "read-only" in answer.error) == (400, True)
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
        ({"threads": 10**6}, "threads: at most 100,000"),
        ({"seconds": "x"}, "seconds: expected a valid number"),
    ],
)
def test_a_field_that_is_wrong_is_said_in_plain_words(
    reader: Client, given: dict[str, object], error: str
) -> None:
    assert reader.post("search", **given).error.startswith(error)


def models(kind: type[Wanted] = Wanted) -> list[type[Wanted]]:
    """Returns all models of requests."""
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
