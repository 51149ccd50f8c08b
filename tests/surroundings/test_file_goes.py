"""A graph file that is moved, replaced or deleted under a search: nothing is lost, and the user is told."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import chess
import pytest

from graphsearch import Graph, Limits, Progress, analyze
from graphsearch.base.errors import StoreMovedError, UnsavedError
from graphsearch.store.store import Store
from graphsearch.store.verify import verify

from ..conftest import Cli

VISITS = 600
ENDING = "8/8/8/8/4k3/8/4P3/4K3 w - - 0 1"


def move(path: Path) -> None:
    path.rename(path.with_name("moved.graph"))


def replace(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


def delete(path: Path) -> None:
    path.unlink()


def delete_log(path: Path) -> None:
    path.with_name(path.name + "-wal").unlink()


def overwrite(path: Path) -> None:
    other = path.with_name("other.graph")
    with Graph.open(other) as graph:
        analyze(graph, chess.Board(ENDING), Limits(visits=300))
    shutil.copyfile(other, path)


def overwrite_with_text(path: Path) -> None:
    path.write_text("no graph")


def move_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def nodes_in(path: Path) -> int:
    assert verify(path).ok
    with Store.open(path, read_only=True) as store:
        return store.node_count


@pytest.mark.parametrize(
    "loss", [move, replace, delete, delete_log, move_folder, overwrite, overwrite_with_text]
)
def test_what_a_search_found_is_saved_elsewhere_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: Callable[[Path], None]
) -> None:
    folder, here = tmp_path / "folder", tmp_path / "here"
    folder.mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    path = folder / "a.graph"
    said = r"while it was open; (?:everything|what was) .* is saved in (\S+);"
    with pytest.raises(UnsavedError, match=said) as failed, Graph.open(path) as graph:
        analyze_and(graph, lambda: loss(path))
    assert failed.value.result is not None, "the result is worth printing"
    copy = Path(str(failed.value).split(" is saved in ")[1].partition(";")[0])
    nodes = failed.value.result.nodes
    assert nodes > 200
    assert nodes_in(copy) == nodes
    assert copy.parent == (here if loss is move_folder else folder)


def analyze_and(graph: Graph, act: Callable[[], object]) -> int:
    pending: list[Callable[[], object]] = [act]

    def show(now: Progress) -> None:
        if pending:
            pending.pop()()

    return analyze(graph, chess.Board(), Limits(visits=VISITS), on_progress=show, interval=0.0).nodes


@pytest.mark.parametrize("is_same_file", [False, True])
def test_the_log_of_a_file_that_went_does_not_reach_its_successor(tmp_path: Path, is_same_file: bool) -> None:
    path, copy = tmp_path / "a.graph", tmp_path / "copy"
    with Graph.open(copy) as graph:
        others = analyze(graph, chess.Board(ENDING), Limits(visits=300)).nodes
    content = copy.read_bytes()
    with pytest.raises(UnsavedError), Graph.open(path) as graph:
        analyze_and(graph, lambda: shutil.copyfile(copy, path) if is_same_file else copy.replace(path))
    assert path.read_bytes() == content
    assert nodes_in(path) == others


def test_an_older_state_that_is_copied_back_is_noticed(tmp_path: Path) -> None:
    path, older = tmp_path / "a.graph", tmp_path / "older"

    def restore() -> None:
        graph.flush()
        graph.call(lambda store: store.checkpoint())
        shutil.copyfile(older, path)

    with Graph.open(path) as graph:
        analyze(graph, chess.Board(ENDING), Limits(visits=300))
    shutil.copyfile(path, older)
    with pytest.raises(UnsavedError, match="was overwritten"), Graph.open(path) as graph:
        analyze_and(graph, restore)
    assert nodes_in(tmp_path / "a.rescued.graph") > 200


def test_what_was_read_from_a_file_that_is_overwritten_is_saved_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphsearch.graph.graph.LOADED_AT_ONCE", 10)
    monkeypatch.setattr(Graph, "load_ahead", lambda self: None)  # not even what the search does not need
    path = tmp_path / "a.graph"
    with Graph.open(path) as graph:
        analyze(graph, chess.Board(), Limits(visits=300))
    with pytest.raises(UnsavedError, match="is saved in"), Graph.open(path) as graph:
        analyze_and(graph, lambda: overwrite(path))
    with Store.open(tmp_path / "a.rescued.graph", read_only=True) as store:
        record = store.read(chess.Board())
    assert record is not None
    assert record.visits > 300
    assert verify(tmp_path / "a.rescued.graph").ok


def test_checkpoints_of_other_programs_are_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"

    def write() -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE mine (x)")
            connection.commit()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("VACUUM")

    for _ in range(2):
        with Graph.open(path) as graph:
            nodes = analyze_and(graph, write)
        assert nodes_in(path) == nodes
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("DROP TABLE mine")


def test_without_place_for_a_copy_the_error_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("graphsearch.store.file.count", lambda _: iter(["/no/folder/"]))
    path = tmp_path / "a.graph"
    path.with_name("a.rescued.graph").touch()
    with pytest.raises(UnsavedError, match="unable to open"), Graph.open(path) as graph:
        analyze_and(graph, lambda: delete(path))


def test_other_work_ends_with_one_line(cli: Cli, small_graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pgn = small_graph.with_name("a.pgn")
    pgn.write_text("1. e4 e5 *\n")
    real = Store.transaction

    def vanish(self: Store) -> object:
        small_graph.unlink(missing_ok=True)
        return real(self)

    monkeypatch.setattr(Store, "transaction", vanish)
    outcome = cli("import", pgn, "--store", small_graph).ends(1)
    assert outcome.err.startswith(f"graphsearch: {small_graph} was moved or deleted while it was open")


@pytest.mark.usefixtures("nothing_saved_meanwhile")
def test_a_graph_that_is_closed_later_saves_elsewhere_too(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    graph = Graph.open(path)
    analyze(graph, chess.Board(), Limits(visits=50), hurry=True)
    path.unlink()
    with pytest.raises(StoreMovedError, match="is saved in"):
        graph.close()
    assert nodes_in(tmp_path / "a.rescued.graph") > 40


# ------------------------------------------------------------------ logs of another time
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


@pytest.mark.parametrize("garbage", [False, True])
def test_shared_memory_of_another_file_and_garbage_as_a_log_are_made_anew(
    cli: Cli, small_graph: Path, leftovers: Path, garbage: bool
) -> None:
    shutil.copy(leftovers / "other.graph-shm", f"{small_graph}-shm")
    if garbage:
        Path(f"{small_graph}-wal").write_bytes(random.Random(1).randbytes(100_000))
    assert cli("show", "startpos", "--store", small_graph, "--json").json["visits"] == 300
    cli("analyze", "startpos", "--visits", 10, "--store", small_graph).ends(0)
    cli("store", "verify", small_graph).ends(0)


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


def test_a_log_of_another_file_is_told(cli: Cli, small_graph: Path, leftovers: Path) -> None:
    for end in ("-wal", "-shm"):
        shutil.copy(leftovers / f"other.graph{end}", f"{small_graph}{end}")
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
