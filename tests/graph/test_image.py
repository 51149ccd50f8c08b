"""Images: a graph that is opened again is in memory as it was, if its file is, and searches find the same."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.base.limits import IMAGES
from graphsearch.graph import arena_kernel, image
from graphsearch.store.store import Store
from graphsearch.store.tables.unfinished import IMAGE
from graphsearch.store.upkeep.compact import compact
from graphsearch.store.upkeep.prune import prune
from tests.support.arenas import check_arena
from tests.support.graphs import check_invariants

MORE = 200
VISITS = 600


@pytest.fixture(autouse=True)
def cache(nothing_loaded_at_once: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keeps images of small graphs, in a folder of the test's own; no file is read whole when opened."""
    folder = tmp_path / "images"
    folder.mkdir()
    monkeypatch.setattr(image, "cache_folder", lambda _: folder)
    monkeypatch.setattr(image, "LEAST_NODES", 100)
    monkeypatch.setattr(image, "PIECE", 1 << 10)
    return folder


def search(graph: Graph, visits: int, **fields: Any) -> dict[str, Any]:
    found = analyze(graph, chess.Board(), Limits(visits=visits), SearchParams(**fields))
    return found.as_dict() | {"seconds": 0.0, "store": None}


def grown(path: Path | None, *visits: int, ram_bytes: int | None = None) -> dict[str, Any]:
    """Returns what the last of some searches in one session finds."""
    with Graph.open(path, ram_bytes=ram_bytes) as graph:
        return [search(graph, each) for each in visits][-1]


def images(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def fact(path: Path) -> str | None:
    with Store.open(path, read_only=True) as store:
        return store.read_fact(IMAGE)


def test_sessions_with_images_are_one_search_that_never_stopped(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "a.graph"
    grown(path, VISITS)
    for _ in range(2):
        with Graph.open(path) as graph:
            assert graph.pager.complete
            assert graph.arena.node_count == graph.node_count
            assert not images(cache)  # it was taken
            check_arena(graph.arena)
            found = search(graph, MORE)
            assert graph.pager.read_back == 0
            check_arena(graph.arena)
            check_invariants(graph, chess.Board())
    assert len(images(cache)) == 1
    assert found == grown(None, VISITS, MORE, MORE)


@pytest.mark.usefixtures("small_memories")
def test_the_memory_of_a_larger_file_comes_back(tmp_path: Path) -> None:
    path, budget = tmp_path / "a.graph", 260_000
    grown(path, 2 * VISITS, 2 * VISITS, ram_bytes=budget)
    with Graph.open(path, ram_bytes=budget) as graph:
        resident = graph.arena.node_count
        assert 100 < resident < graph.node_count
        assert not graph.pager.complete
        found = search(graph, 2 * VISITS)  # more than memory holds, however little of it came back
        assert graph.arena.counters[arena_kernel.EVICTED], resident
    assert found == grown(None, 2 * VISITS, 2 * VISITS, 2 * VISITS)
    with Graph.open(path, ram_bytes=budget // 5) as graph:  # there is no room for it
        assert graph.arena.node_count == 0


def changed_by_another_program(path: Path) -> None:
    """Removes the records of the newest chunk, and leaves the row of the image."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM chunk WHERE id = (SELECT max(id) FROM chunk)")


@pytest.mark.parametrize(
    "change",
    [
        lambda path: compact(path),
        lambda path: prune(path, 2),
        lambda path: Store.open(path).close(),
        changed_by_another_program,
    ],
    ids=["compact", "prune", "open", "strangers"],
)
def test_an_image_is_of_the_file_as_it_is(
    tmp_path: Path, cache: Path, change: Callable[[Path], object]
) -> None:
    path = tmp_path / "a.graph"
    grown(path, VISITS)
    grown(path, VISITS)
    before = fact(path)
    assert before == images(cache)[0].stem
    change(path)
    is_same = change.__code__.co_names[:2] == ("Store", "open")
    assert fact(path) == (before if is_same or change is changed_by_another_program else None)
    with Graph.open(path) as graph:
        assert graph.pager.complete == is_same


def test_a_copy_goes_on_alone(tmp_path: Path, cache: Path) -> None:
    path, copy = tmp_path / "a.graph", tmp_path / "b.graph"
    grown(path, VISITS)
    shutil.copyfile(path, copy)
    assert fact(copy) == fact(path)
    assert grown(path, MORE) == grown(copy, MORE)
    assert fact(copy) != fact(path)
    assert {found.stem for found in images(cache)} == {fact(copy), fact(path)}


def test_a_session_that_is_killed_leaves_no_image(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "a.graph"
    grown(path, VISITS)
    graph = Graph.open(path)
    search(graph, MORE)
    shutil.copytree(tmp_path, tmp_path.with_name(f"{tmp_path.name}-killed"))
    killed = tmp_path.with_name(f"{tmp_path.name}-killed") / path.name
    graph.close()
    assert fact(killed) is None
    assert grown(killed, MORE) == grown(path, MORE)


def damaged(path: Path, at: int) -> None:
    """Changes one byte of a file."""
    with path.open("r+b") as file:
        file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


def test_a_damaged_image_counts_as_missing(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "a.graph"
    grown(path, VISITS)
    (kept,) = images(cache)
    whole, file, expected = kept.read_bytes(), path.read_bytes(), grown(None, VISITS, MORE)
    head = image.HASH_BYTES
    places = {"hash": 3, "head": head + 9, "sums": head + 8 * (2 + len(image.KEPT)) + 1, "blocks": -100}
    for part in ("hash", "head", "sums", "blocks", "short", "empty", "rights"):
        path.write_bytes(file)
        kept.write_bytes(whole)
        if part == "rights":
            kept.chmod(0o666)
        elif part in places:
            damaged(kept, places[part])
        else:
            os.truncate(kept, len(whole) - 1 if part == "short" else 0)
        with Graph.open(path) as graph:
            assert graph.arena.node_count == 0, part
            assert not graph.pager.complete
            check_arena(graph.arena)
            assert search(graph, MORE) == expected, part
        for new in images(cache):
            new.unlink()


def test_images_take_no_more_room_than_they_may(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        grown(tmp_path / f"{name}.graph", VISITS)
    older, newer = sorted(images(cache), key=lambda found: found.stat().st_mtime_ns)
    monkeypatch.setenv(IMAGES.variable, str(5 * newer.stat().st_size // 2))
    grown(tmp_path / "c.graph", VISITS)
    assert not older.exists()
    assert len(images(cache)) == 2
    monkeypatch.setenv(IMAGES.variable, "1")
    grown(tmp_path / "d.graph", VISITS)
    assert fact(tmp_path / "d.graph") is None


def test_without_room_on_the_disk_or_a_cache_there_is_none(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.graph"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(image, "_write", full)
        grown(path, VISITS)
    with monkeypatch.context() as patch:
        patch.setattr(image, "cache_folder", lambda _: None)
        grown(path, VISITS)
    assert fact(path) is None
    assert not images(cache)
