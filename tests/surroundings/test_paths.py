"""Names that a graph file may have, and what is no file: it works, or one line says why not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphsearch.base.faults import error_line

from ..conftest import Cli, finish, start

NAMES = [
    "a?mode=ro#b 100%25.graph",
    "-x\ty\nz.graph",
    "file:a.graph",
    ":memory:",
    "é\u2603\U0001f600'; DROP TABLE block; --.graph",
    "x" * 240 + ".graph",
]


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def check_life(cli: Cli, path: Path) -> None:
    """Makes a file, resumes, reads, verifies and copies it."""
    for visits in (20, 30):
        outcome = cli("analyze", "startpos", "--visits", visits, "--json", "--store", path).ends(0)
        assert outcome.json["store"] == str(path)
    assert outcome.json["visits"] > 30, "resumed"
    assert cli("show", "startpos", "--store", path, "--json").json["visits"] == outcome.json["visits"]
    assert cli("lab", "sql", "SELECT count(*) FROM block", "--store", path).code == 0
    assert cli("store", "verify", path, "--json").json["ok"]
    assert [one for one in files_in(path.parent) if not one.endswith("copy")] == [path.name]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
def test_any_name_is_a_name(cli: Cli, tmp_path: Path, name: str) -> None:
    check_life(cli, tmp_path / name)
    if len(name) < 200:
        assert cli("store", "backup", tmp_path / name, tmp_path / f"{name}copy").code == 0


def test_a_name_that_is_not_utf8_is_a_name(cli: Cli, tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9\xc3\xa9.graph")
    cli("analyze", "startpos", "--visits", 9, "--store", path).ends(0, "holds 9 nodes")
    command = [sys.executable, "-m", "graphsearch", "store", "verify", path]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=environment, capture_output=True, timeout=120, check=True)
    assert done.stdout.startswith(ascii(path)[1:-1].encode())


def test_a_name_that_is_too_long_is_one_line(cli: Cli, tmp_path: Path) -> None:
    for name in ("x" * 252, "x" * 300, "/".join(["x" * 200] * 30)):
        outcome = cli("analyze", "startpos", "--visits", 5, "--store", tmp_path / name)
        assert outcome.code == (2 if "does not exist" in outcome.err else 1)
        assert len(outcome.faults) == 1, outcome.err
        assert "too long" in outcome.err or "does not exist" in outcome.err


def test_what_is_no_file_is_refused_at_once(cli: Cli, tmp_path: Path) -> None:
    fifo, loop, folder = tmp_path / "fifo", tmp_path / "loop", tmp_path / "folder"
    os.mkfifo(fifo)
    loop.symlink_to(loop)
    folder.mkdir()
    for path, why in (
        (fifo, "is not a regular file"),
        (loop, "is a link in a loop of links"),
        (folder, "is a folder"),
        (Path("/dev/null"), "is not a regular file"),
        (tmp_path / "none" / "a.graph", "does not exist"),
    ):
        for command in (("analyze", "startpos", "--store"), ("store", "info"), ("store", "verify")):
            outcome = cli(*command, path).ends(2 if why == "does not exist" else 1)
            (line,) = outcome.err.splitlines()
            assert line.startswith("graphsearch: ")
            assert why in line
    assert files_in(tmp_path) == ["fifo", "folder", "loop"]


def test_links_lead_to_one_file_with_one_lock(cli: Cli, tmp_path: Path) -> None:
    target, link = tmp_path / "target.graph", tmp_path / "link.graph"
    link.symlink_to(target)
    assert cli("analyze", "startpos", "--visits", 5, "--store", link).code == 0
    assert target.is_file()
    assert cli("analyze", "startpos", "--visits", 5, "--store", f"{target}/").code == 0
    assert files_in(tmp_path) == ["link.graph", "target.graph"]


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, small_graph: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    small_graph.parent.chmod(0o500)
    other = small_graph.with_name("b.graph")
    try:
        made = finish(start("analyze", "startpos", "--visits", 5, "--store", other))
        read = finish(start("show", "startpos", "--store", small_graph))
    finally:
        small_graph.parent.chmod(0o700)
    assert (made.code, read.code) == (1, 0)
    assert "Permission denied" in made.err
    assert len(made.faults) == 1


def test_a_message_names_any_path() -> None:
    assert error_line(FileNotFoundError(2, "No such file", os.fsdecode(b"a\xff"))) == "a\udcff: No such file"
