"""The queue of a book, changed by anybody at any time; and what a book needs next: leaves and gaps."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import chess
import pytest

from graphsearch import Graph, Limits, analyze
from graphsearch.base.errors import InvalidParameterError, StoreLockedError
from graphsearch.book import build as building
from graphsearch.book.build import build
from graphsearch.book.config import BuildSettings
from graphsearch.book.questions import MIN_P, TodoRow, todo
from graphsearch.book.queue import NewItem, add, drop, drop_all, items, set_state, waiting
from graphsearch.position.board import key_text, legal_moves
from graphsearch.store.store import Store

from ..conftest import Cli, present, sql
from ..query.handmade import BOOK_CONFIG, book_file
from ..support.forks import Fork, Say, needs_fork
from ..support.positions import after_line
from ..support.reference import HashEvaluator
from .test_build import built, config, tree_of_file

START = NewItem(chess.STARTING_FEN, (), "here")
LINE = NewItem(chess.STARTING_FEN, ("e2e4", "e7e5"), "there")


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    return book_file(tmp_path / "a.graph")


def test_what_waits_is_not_added_twice_for_the_same_book(graph: Path) -> None:
    assert add(graph, [LINE, START, LINE]).duplicates == ((LINE, 1),)
    assert add(graph, [LINE], book="white").ids == (3,)
    with Store.open(graph) as store:
        assert set_state(store.connection, 1, "done")
        assert not set_state(store.connection, 1, "refused")  # it waits no more
    assert add(graph, [LINE]).ids == (4,)  # it was done: it may be wanted again


def test_only_what_waits_is_dropped(graph: Path) -> None:
    add(graph, [START, LINE])
    add(graph, [LINE], book="white")
    with Store.open(graph) as store:
        set_state(store.connection, 2, "done")
    assert [item.id for item in drop(graph, [1, 2, 1])] == [2]
    with pytest.raises(InvalidParameterError, match="no item 9"):
        drop(graph, [3, 9])
    assert [item.id for item in items(graph, state="waiting")] == [3]
    assert drop_all(graph, book="black") == 0
    assert drop_all(graph, book="white") == 1
    assert drop_all(graph) == 0


@needs_fork
def test_the_queue_works_while_another_process_writes_the_file(graph: Path) -> None:
    go_on, let_go = os.pipe()

    def hold(say: Say) -> None:
        with Store.open(graph) as store:
            with store.transaction():
                store.write_fact("held", "yes")
                say("ready")
                os.read(go_on, 1)
            store.write_fact("after", "queue")
            say(len(store.runs()))

    with Fork(hold) as holder:
        assert holder.line() == "ready"
        with pytest.raises(StoreLockedError):
            Store.open(graph)
        results: list[object] = []
        adding = threading.Thread(target=lambda: results.append(add(graph, [START, LINE]).ids))
        adding.start()
        adding.join(0.3)
        assert results == []  # it waits for the end of the transaction
        assert list(items(graph, state="done")) == []  # reading waits for nobody
        os.write(let_go, b"\n")
        adding.join()
        assert results == [(1, 2)]
        assert holder.rest() == ["0"]
    os.close(go_on)
    os.close(let_go)
    with Store.open(graph) as store:
        assert store.read_fact("after") == "queue"
        assert [item.id for item in waiting(store, "any")] == [1, 2]


# ------------------------------------------------------------------ while a book is built
def states(path: Path) -> dict[int, tuple[str, str | None]]:
    return {item.id: (item.state, item.note) for item in items(path)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A book that was begun."""
    assert built(tmp_path / "a.graph", config(max_ply=8), 100).searched == 5
    return tmp_path / "a.graph"


def test_a_line_goes_into_the_book_and_is_searched_first(path: Path) -> None:
    line = ("a2a4", "h7h5", "b2b4")
    add(path, [NewItem(chess.STARTING_FEN, line, "a test")])
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
    board = after_line("a4 a5 h4")
    add(path, [NewItem(board.fen())])
    built(path, config(max_ply=8), 20)
    assert states(path) == {1: ("done", "1 position searched")}
    known = key_text(chess.Board())
    searches = tree_of_file(path, config()).positions[known].searches
    add(path, [NewItem(chess.STARTING_FEN, ("e2e4",))], book="other")
    add(path, [NewItem(chess.STARTING_FEN)])
    again = built(path, config(max_ply=8), 20)
    assert states(path)[2][0] == "waiting"
    assert states(path)[3] == ("done", "1 position searched")
    assert tree_of_file(path, config()).positions[known].searches == searches + 1
    assert len(again.roots) == 2
    assert key_text(board) in tree_of_file(path, config()).roots


def test_what_cannot_be_done_is_refused_with_a_reason(path: Path) -> None:
    late = chess.Board("4k3/8/8/8/8/8/4P3/4K3 w - - 0 40")
    add(
        path,
        [
            NewItem(chess.STARTING_FEN, ("e2e4",)),
            NewItem(late.fen()),
            NewItem(chess.STARTING_FEN, ("d2d4", "d7d5")),
        ],
    )
    sql(path, "UPDATE book_queue SET moves = 'd2d5' WHERE id = 3")
    sql(path, "INSERT INTO book_queue (fen, moves, origin, added) VALUES ('nonsense', '', 'x', 'now')")
    excluded = {key_text(chess.Board()): ("e2e4",)}
    built(path, config(text="two", max_ply=8, excluded=excluded), 40)
    found = states(path)
    assert [state for state, _ in found.values()] == ["refused"] * 4
    assert "e4 is excluded" in (found[1][1] or "")
    assert "max_ply" in (found[2][1] or "")
    assert "d2d5" in (found[3][1] or "")
    assert "cannot be read" in (found[4][1] or "")


def test_a_finished_book_waits_for_the_queue_forever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(building, "SHOW_SECONDS", 0.05)
    path, stop = tmp_path / "a.graph", threading.Event()
    built(path, config(max_ply=1))
    added: list[object] = []

    def show(now: object) -> None:
        if not added:
            added.append(add(path, [NewItem(chess.STARTING_FEN)]))
        elif states(path)[1][0] == "done":
            stop.set()

    settings = BuildSettings(seconds=250.0, forever=True)
    report = build(
        path, config(max_ply=1), settings=settings, evaluator=HashEvaluator(), stop=stop, on_progress=show
    )
    assert (report.ended, report.searched) == ("stop", 1)


# --------------------------------------------------------------------- leaves
def test_leaves_come_in_the_order_of_their_priority_with_their_line(graph: Path) -> None:
    found = todo(graph, "white")
    assert [row.line for row in found.rows] == ["1. e4 c5", "1. e4 e5", "1. d4 d5"]
    assert [row.as_dict()["priority"] for row in found.rows] == [1.5, 3.0, None]
    first = found.rows[0].as_dict()
    assert (first["position"], first["moves"]) == (after_line("e4 c5").fen(), ["e2e4", "c7c5"])
    assert (first["root"], first["ply"]) == (chess.STARTING_FEN, 2)
    assert len(todo(graph, "white", top=2).rows) == 2


def test_what_is_queued_is_a_game_from_its_start_and_is_searched_once(path: Path, cli: Cli) -> None:
    listed = cli("book", "todo", "--kind", "gaps", "--lines", 3, "--queue", "--store", path, "--json").json
    assert cli("book", "todo", "--book", "white", "--store", path).code == 2  # it is b
    waiting = cli("book", "queue", "--store", path, "--json").json["items"]
    played = [[*row["moves"], *filter(None, [row["move"]])] for row in listed["items"]]
    assert [(item["fen"], item["moves"]) for item in waiting] == [
        (chess.STARTING_FEN, moves) for moves in played
    ]
    shown = cli("book", "queue", "--store", path).out
    assert all(row["line"] in shown and row["position"] not in shown for row in listed["items"])
    built(path, config(max_ply=8), 20 * len(played))
    assert [state for state, _ in states(path).values()] == ["done"] * len(played)


def test_an_item_begins_before_the_root_where_the_book_names_its_moves(tmp_path: Path) -> None:
    book_file(tmp_path / "a.graph", BOOK_CONFIG + '[[root]]\nmoves = "1. e4"\n')
    sql(tmp_path / "a.graph", "UPDATE book_root SET key = ?, fen = ?", *key_and_fen("e4"))
    (row, *_) = todo(tmp_path / "a.graph", None).rows
    assert (row.line, row.item.fen, row.item.moves) == ("1. e4 c5", chess.STARTING_FEN, ("e2e4", "c7c5"))


def key_and_fen(line: str) -> tuple[str, str]:
    board = after_line(line)
    return key_text(board), board.fen()


def test_leaves_that_no_line_leads_to_any_more_are_not_listed(graph: Path) -> None:
    before = [row.line for row in todo(graph, "white", "leaves").rows]
    with Store.open(graph) as store, store.transaction():
        gone = store.connection.execute("DELETE FROM book_move WHERE san = 'd4'").rowcount
    assert gone == 1
    after = [row.line for row in todo(graph, "white", "leaves").rows]
    assert after == [line for line in before if not line.startswith("1. d4")] != before


# ----------------------------------------------------------------------- gaps
def gaps(path: Path, top: int = 0, min_games: int = 20) -> tuple[TodoRow, ...]:
    return todo(path, "white", "gaps", top=top, min_games=min_games).rows


def test_gaps_are_the_likely_replies_that_the_book_lacks(tmp_path: Path) -> None:
    path = tmp_path / "w.graph"
    with Graph.open(path) as graph:
        for line in ("", "e4", "d4"):
            analyze(graph, after_line(line), Limits(visits=20))
    book_file(path)
    found = gaps(path)
    replies = [row for row in found if row.move]
    assert replies
    with Store.open(path, read_only=True) as store:
        for line in ("e4", "d4"):
            board = after_line(line)
            record = present(store.read(board))
            likely = {m.uci() for m, p in zip(legal_moves(board), record.priors, strict=True) if p >= MIN_P}
            in_book = {"e4": {"e7e5", "c7c5"}, "d4": {"d7d5"}}[line]
            assert {row.move for row in replies if row.at.fen == board.fen()} == likely - in_book
    for row in replies:
        assert row.reach == pytest.approx(present(row.p))  # White's own moves count 1
    reaches = [row.reach or 0.0 for row in found]
    assert reaches == sorted(reaches, reverse=True)
    assert gaps(path, top=5) == found[:5]


def test_imported_games_make_a_reply_a_gap_and_their_share_its_weight(tmp_path: Path) -> None:
    path = book_file(tmp_path / "a.graph", e4_c6=25, e4_e5=70, e4_a6=5)
    first = [row for row in gaps(path) if row.at.fen == after_line("e4").fen()]
    assert [(row.line, row.reach, row.games, row.p) for row in first] == [("1. e4 c6", 0.25, 25, None)]
    waiting = {row.line: row.reach for row in gaps(path) if row.move is None}
    assert waiting["1. e4 e5"] == 0.7
    assert waiting["1. e4 c5"] == 0.0
    assert {row.line for row in gaps(path, min_games=5)} >= {"1. e4 c6", "1. e4 a6"}


LEFT_OUT = (
    '[[exclude]]\nmoves = "1. e4"\nplay = ["c6"]\n[[force]]\nmoves = "1. d4"\nplay = ["d5"]\nonly = true\n'
)


def test_what_the_author_left_out_is_no_gap(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    book_file(path, BOOK_CONFIG + LEFT_OUT, e4_c6=100, d4_Nf6=100)
    assert all(row.move is None for row in gaps(path))
    book_file(path, BOOK_CONFIG.replace("24", "2"), "other")
    assert all(row.move is None for row in todo(path, "other", "gaps").rows)
