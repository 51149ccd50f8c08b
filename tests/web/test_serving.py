"""The command: what it prints, what it refuses, and how it ends."""

from __future__ import annotations

import signal
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import chess

from graphsearch.graph.view import show

from ..conftest import Cli, start
from .client import PATIENCE_S, Address, Client, Serve, until

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
