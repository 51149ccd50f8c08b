"""The queue of a book that is being built: what is asked for comes first, and into the book."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from pathlib import Path

import chess
import pytest

from graphsearch.book import build as building
from graphsearch.book import queue
from graphsearch.book.build import build
from graphsearch.book.build_report import BuildReport
from graphsearch.book.config import BuildLimits, Root, Ruling
from graphsearch.book.queue import NewItem
from graphsearch.evaluators.protocol import Evaluation, PositionBatch
from graphsearch.position.board import key_text

from ..support.counting import CountingEvaluator
from .test_build import built, config, tree_of_file

START = chess.STARTING_FEN


def board_after(*moves: str) -> chess.Board:
    board = chess.Board()
    for move in moves:
        board.push_uci(move)
    return board


def states(path: Path) -> dict[int, tuple[str, str | None]]:
    return {item.id: (item.state, item.note) for item in queue.items(path)}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A book that was begun."""
    found = tmp_path_factory.mktemp("begun") / "a.graph"
    assert built(found, config(max_ply=8), 100).searched == 5
    return found


@pytest.fixture
def path(begun: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copy(begun, tmp_path / "a.graph"))


def test_a_line_goes_into_the_book_and_is_searched_first(path: Path) -> None:
    line = ("a2a4", "h7h5", "b2b4")
    queue.add(path, [NewItem(START, line, "a test")])
    built(path, config(max_ply=8), 60)
    assert states(path) == {1: ("done", "3 positions searched")}
    tree = tree_of_file(path, config())
    board = chess.Board()
    for move in line:
        assert tree.positions[key_text(board)].moves[move].rule == "queue"
        board.push_uci(move)
    assert tree.positions[key_text(board)].searches == 1


def test_a_position_outside_the_book_becomes_a_root_and_a_known_one_is_searched_again(
    path: Path,
) -> None:
    board = board_after("a2a4", "a7a5", "h2h4")
    queue.add(path, [NewItem(board.fen())])
    built(path, config(max_ply=8), 20)
    assert states(path) == {1: ("done", "1 position searched")}
    known = key_text(chess.Board())
    searches = tree_of_file(path, config()).positions[known].searches
    queue.add(path, [NewItem(START, ("e2e4",))], book="other")
    queue.add(path, [NewItem(START)])
    again = built(path, config(max_ply=8), 20)
    assert states(path)[2][0] == "waiting"
    assert states(path)[3] == ("done", "1 position searched")
    assert tree_of_file(path, config()).positions[known].searches == searches + 1
    assert len(again.roots) == 2
    assert key_text(board) in tree_of_file(path, config()).roots


def test_a_line_from_before_the_book_joins_it_where_they_meet(tmp_path: Path) -> None:
    path, root = tmp_path / "a.graph", board_after("e2e4")
    roots = (Root(root, "root 1"),)
    built(path, config(max_ply=8, roots=roots), 20)
    queue.add(path, [NewItem(START, ("e2e4", "a7a5", "a2a3"))])
    report = built(path, config(max_ply=8, roots=roots), 60)
    assert states(path) == {1: ("done", "2 positions searched")}
    assert [found.origin for found in report.roots] == ["root 1"]
    assert tree_of_file(path, config()).positions[key_text(root)].moves["a7a5"].rule == "queue"


def test_what_cannot_be_done_is_refused_with_a_reason(path: Path) -> None:
    late = chess.Board("4k3/8/8/8/8/8/4P3/4K3 w - - 0 40")
    queue.add(path, [NewItem(START, ("e2e4",)), NewItem(late.fen()), NewItem(START, ("d2d4", "d7d5"))])
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE book_queue SET moves = 'd2d5' WHERE id = 3")
        connection.execute(
            "INSERT INTO book_queue (fen, moves, origin, added) VALUES ('nonsense', '', 'x', 'now')"
        )
    connection.close()
    excluded = (Ruling(board=chess.Board(), moves=(chess.Move.from_uci("e2e4"),)),)
    built(path, config(text="two", max_ply=8, excluded=excluded), 40)
    found = states(path)
    assert [state for state, _ in found.values()] == ["refused"] * 4
    assert "e4 is excluded" in (found[1][1] or "")
    assert "max_ply" in (found[2][1] or "")
    assert "d2d5" in (found[3][1] or "")
    assert "cannot be read" in (found[4][1] or "")


def test_a_line_beyond_the_last_ply_is_refused(path: Path) -> None:
    line = ("e2e4", "e7e5", "g1f3")
    queue.add(path, [NewItem(START, line[:2])])
    built(path, config(text="two", max_ply=2), 60)
    queue.add(path, [NewItem(START, line)])
    built(path, config(text="two", max_ply=2), 20)
    assert states(path)[2] == ("refused", "it continues after ply 2, the last of the book (max_ply)")


class Asking(CountingEvaluator):
    """Puts something into the queue while a build runs, and stops it once that is done."""

    def __init__(self, path: Path, stop: threading.Event) -> None:
        super().__init__()
        self.path, self.stop = path, stop

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        before = len(self.asked)
        found = super().evaluate(batch)
        if before < 40 <= len(self.asked):
            queue.add(self.path, [NewItem(START, ("h2h4", "a7a6"), "meanwhile")])
        return found


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a build look at the queue, and say what it does, twenty times a second."""
    monkeypatch.setattr(building, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(building, "SHOW_SECONDS", 0.05)


@pytest.mark.usefixtures("looks_often")
def test_the_queue_can_be_filled_while_a_build_runs(path: Path) -> None:
    stop = threading.Event()
    evaluator = Asking(path, stop)

    def show(now: object) -> None:
        if len(evaluator.asked) > 40 and states(path)[1][0] != "waiting":
            stop.set()

    report: BuildReport = build(
        path,
        config(max_ply=8),
        limits=BuildLimits(seconds=250.0, forever=True),
        evaluator=evaluator,
        stop=stop,
        on_progress=show,
    )
    assert report.ended == "stop"
    assert states(path)[1] == ("done", "2 positions searched")


@pytest.mark.usefixtures("looks_often")
def test_a_finished_book_waits_for_the_queue_forever(tmp_path: Path) -> None:
    path, stop = tmp_path / "a.graph", threading.Event()
    built(path, config(max_ply=1))
    added: list[object] = []

    def show(now: object) -> None:
        if not added:
            added.append(queue.add(path, [NewItem(START)]))
        elif states(path)[1][0] == "done":
            stop.set()

    limits = BuildLimits(seconds=250.0, forever=True)
    report = build(
        path, config(max_ply=1), limits=limits, evaluator=CountingEvaluator(), stop=stop, on_progress=show
    )
    assert (report.ended, report.searched) == ("stop", 1)
