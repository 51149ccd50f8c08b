"""Write-ahead logs and shared memory of another file, or torn ones, beside a graph file."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import chess
import pytest

from graphsearch import Graph, Limits, analyze
from graphsearch.store.store import Store

from ..conftest import Cli

ENDING = "8/8/8/8/4k3/8/4P3/4K3 w - - 0 1"


@pytest.fixture
def leftovers(tmp_path: Path) -> Path:
    """A folder with the file, log and shared memory of a process that was killed while it had it open."""
    path, kept = tmp_path / "other.graph", tmp_path / "kept"
    kept.mkdir()
    with Graph.open(path) as graph:
        analyze(graph, chess.Board(ENDING), Limits(visits=400))
        for end in ("", "-wal", "-shm"):
            shutil.copy(f"{path}{end}", kept / f"other.graph{end}")
    return kept


def beside(graph: Path, leftovers: Path, *ends: str) -> None:
    for end in ends:
        shutil.copy(leftovers / f"other.graph{end}", f"{graph}{end}")


def check_tells(cli: Cli, path: Path) -> None:
    """Checks that whoever opens a file gets an answer or a line."""
    for command in (
        ("show", "startpos", "--store", path),
        ("store", "info", path),
        ("store", "verify", path),
        ("analyze", "startpos", "--visits", 20, "--store", path),
        ("store", "verify", path),
        ("store", "compact", path),
    ):
        outcome = cli(*command)
        assert outcome.code in (0, 1), (command, outcome)
        assert "internal error" not in outcome.err


def test_the_log_of_a_killed_process_is_taken_in(leftovers: Path) -> None:
    with Store.open(leftovers / "other.graph", read_only=True) as store:
        assert store.node_count > 50
        assert store.read(chess.Board(ENDING)) is not None


def test_shared_memory_of_another_file_is_made_anew(cli: Cli, small_graph: Path, leftovers: Path) -> None:
    beside(small_graph, leftovers, "-shm")
    assert cli("show", "startpos", "--store", small_graph, "--json").json["visits"] == 300
    assert cli("store", "verify", small_graph).code == 0


def test_a_log_of_another_file_is_told(cli: Cli, small_graph: Path, leftovers: Path) -> None:
    beside(small_graph, leftovers, "-wal", "-shm")
    for command in (
        ("show", "startpos", "--store", small_graph),
        ("analyze", "startpos", "--visits", 20, "--store", small_graph),
        ("store", "compact", small_graph),
    ):
        outcome = cli(*command).ends(1)
        assert outcome.err.startswith(
            f"graphsearch: {small_graph}-wal is the write-ahead log of another file"
        )
    check_tells(cli, small_graph)
    for end in ("-wal", "-shm"):
        Path(f"{small_graph}{end}").unlink()
    assert cli("show", "startpos", "--store", small_graph, "--json").json["visits"] == 300


@pytest.mark.parametrize("seed", range(4))
def test_a_torn_or_scribbled_log_loses_commits_only(leftovers: Path, cli: Cli, seed: int) -> None:
    rng = random.Random(seed)
    path, log = leftovers / "other.graph", leftovers / "other.graph-wal"
    data = bytearray(log.read_bytes())
    if seed % 2:
        del data[rng.randrange(len(data)) :]
    else:
        data[rng.randrange(len(data))] ^= 0x55
    log.write_bytes(bytes(data))
    if seed % 3:
        (leftovers / "other.graph-shm").unlink()
    check_tells(cli, path)


def test_garbage_as_a_log_is_no_log(cli: Cli, small_graph: Path) -> None:
    Path(f"{small_graph}-wal").write_bytes(random.Random(1).randbytes(100_000))
    Path(f"{small_graph}-shm").write_bytes(random.Random(2).randbytes(32_768))
    assert cli("show", "startpos", "--store", small_graph, "--json").json["visits"] == 300
    assert cli("analyze", "startpos", "--visits", 10, "--store", small_graph).code == 0
    assert cli("store", "verify", small_graph).code == 0
