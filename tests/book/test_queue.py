"""The queue of a book: changed by anybody at any time, whoever else writes the file."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import chess
import pytest

from graphsearch.base.errors import InvalidParameterError, InvalidPositionError, StoreError, StoreLockedError
from graphsearch.book import queue
from graphsearch.book.queue import (
    NewItem,
    add,
    drop,
    drop_all,
    from_games,
    from_lines,
    from_text,
    items,
    set_state,
    waiting,
)
from graphsearch.store import plain_tables
from graphsearch.store.store import Store

from ..support.books import small_book
from ..support.forks import Fork, Say, needs_fork

START = NewItem(chess.STARTING_FEN, (), "here")
LINE = NewItem(chess.STARTING_FEN, ("e2e4", "e7e5"), "there")


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    return small_book().write(tmp_path / "a.graph")


def test_items_wait_in_the_order_in_which_they_were_added(graph: Path) -> None:
    added = add(graph, [START, LINE], book="white")
    assert (added.ids, added.duplicates) == ((1, 2), ())
    found = list(items(graph))
    assert [(item.id, item.book, item.fen, item.moves, item.origin, item.state) for item in found] == [
        (1, "white", chess.STARTING_FEN, (), "here", "waiting"),
        (2, "white", chess.STARTING_FEN, ("e2e4", "e7e5"), "there", "waiting"),
    ]
    assert found[0].changed is None
    assert [board.ply() for board in found[1].boards()] == [0, 1, 2]


def test_what_waits_is_not_added_twice_for_the_same_book(graph: Path) -> None:
    assert add(graph, [LINE, START, LINE]).duplicates == ((LINE, 1),)
    assert add(graph, [LINE], book="white").ids == (3,)
    with Store.open(graph) as store:
        assert set_state(store, 1, "done")
    assert add(graph, [LINE]).ids == (4,)  # it was done: it may be wanted again


def test_a_builder_sees_what_is_for_it_or_for_any_book(graph: Path) -> None:
    add(graph, [START])
    add(graph, [START], book="black")
    add(graph, [LINE], book="white")
    with Store.open(graph) as store:
        assert [item.id for item in waiting(store, "white")] == [1, 3]
        with store.transaction():
            assert set_state(store, 1, "refused", "no such position")
        assert not set_state(store, 1, "done")  # it waits no more
        assert not set_state(store, 99, "done")
        assert set_state(store, 3, "done", "3 positions")
        assert waiting(store, "white") == []
    states = {item.id: (item.state, item.note) for item in items(graph)}
    assert states == {1: ("refused", "no such position"), 2: ("waiting", None), 3: ("done", "3 positions")}
    assert all(item.changed for item in items(graph, state="done"))


def test_only_what_waits_is_dropped(graph: Path) -> None:
    add(graph, [START, LINE])
    add(graph, [LINE], book="white")
    with Store.open(graph) as store:
        set_state(store, 2, "done")
    assert [item.id for item in drop(graph, [1, 2, 1])] == [2]
    with pytest.raises(InvalidParameterError, match="no item 9"):
        drop(graph, [3, 9])
    assert [item.id for item in items(graph, state="waiting")] == [3]
    assert drop_all(graph, book="black") == 0
    assert drop_all(graph, book="white") == 1
    assert drop_all(graph) == 0


def test_a_state_is_one_of_four(graph: Path) -> None:
    add(graph, [START])
    with Store.open(graph) as store, pytest.raises(InvalidParameterError, match="waiting, done, refused"):
        set_state(store, 1, "doen")  # type: ignore[arg-type]
    with Store.open(graph, read_only=True) as store, pytest.raises(StoreError, match="reading only"):
        set_state(store, 1, "done")


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


def test_a_transaction_that_does_not_end_is_told(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_tables, "WAIT_SECONDS", 0.1)
    with Store.open(graph) as store, store.transaction(), pytest.raises(StoreError, match="locked"):
        add(graph, [START])
    assert list(items(graph)) == []


@needs_fork
def test_items_that_are_added_from_many_processes_at_once_are_all_there(graph: Path) -> None:
    def adding(number: int) -> Fork:
        return Fork(lambda _: [add(graph, [NewItem(f"fen{number}", (str(i),))]) for i in range(20)])

    forks = [adding(number) for number in range(2)]
    with Store.open(graph) as store:
        for turn in range(5):
            with store.transaction():
                store.write_fact("turn", str(turn))
            time.sleep(0.005)  # leaves the machine to the others
        for fork in forks:
            fork.rest()
        assert [fork.status for fork in forks] == [0, 0]
        assert len(waiting(store, "any")) == 40


def test_a_failure_keeps_what_was_added_before_it(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "ROWS", 2)

    def entries() -> Iterator[NewItem]:
        yield from (START, LINE)
        yield NewItem(chess.STARTING_FEN, ("d2d4",))
        raise InvalidPositionError("no position")

    with pytest.raises(InvalidPositionError):
        add(graph, entries())
    assert [item.id for item in items(graph)] == [1, 2]


def test_what_is_no_graph_file_is_refused(tmp_path: Path) -> None:
    for path, word in ((tmp_path / "none", "does not exist"), (tmp_path, "folder")):
        with pytest.raises(StoreError, match=word):
            add(path, [START])
        with pytest.raises(StoreError, match=word):
            list(items(path))
    (tmp_path / "text").write_text("no database at all, of some length " * 9)
    with pytest.raises(StoreError, match="not a database"):
        add(tmp_path / "text", [START])


# -------------------------------------------------------------------- entries
def test_a_line_keeps_its_moves() -> None:
    given = from_text("startpos", moves="1. d4 d5 2. c4")
    assert given.item == NewItem(chess.STARTING_FEN, ("d2d4", "d7d5", "c2c4"), "given")
    position = from_text("4k3/8/8/8/8/8/4P3/4K3 w - - 0 5")
    assert position.item == NewItem("4k3/8/8/8/8/8/4P3/4K3 w - - 0 5", (), "given")


def test_every_line_of_a_text_is_a_position_a_line_or_a_problem() -> None:
    text = [
        "\ufeff# a comment",
        "",
        "startpos",
        "1. e4 e5",
        "4k3/8/8/8/8/8/4P3/4K3 w - - bm e4;",
        "position startpos moves e2e4",
        "position fen 4k3/8/8/8/8/8/4P3/4K3 w - - 0 1 moves e2e4 e8e7",
        "e4 e9",
        "8/8 w - -",
    ]
    found = list(from_lines(text, "a.epd"))
    assert [given.item.moves for given in found if given.item] == [
        (),
        ("e2e4", "e7e5"),
        (),
        ("e2e4",),
        ("e2e4", "e8e7"),
    ]
    assert [given.item.origin for given in found if given.item][:2] == ["line 3", "line 4"]
    assert [given.problem.split(":")[0] for given in found if not given.item] == ["line 8", "line 9"]


def test_each_game_is_a_line(tmp_path: Path) -> None:
    path = tmp_path / "g.pgn"
    path.write_text('1. e4 e5 2. Nf3 *\n\n[White "B"]\n\n1. d4 Ke4 *\n\n[White "C"]\n\n1. c4 *\n')
    found = list(from_games(path, ply=2))
    assert [given.item and given.item.moves for given in found] == [("e2e4", "e7e5"), None, ("c2c4",)]
    assert "breaks off after 1 ply" in found[1].problem
    assert [given.item and given.item.origin for given in from_games(path, only=[3])] == ["g.pgn, game 3"]
    with pytest.raises(InvalidPositionError, match="has no game 4"):
        list(from_games(path, only=[4]))


def test_a_text_without_items_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "g.pgn"
    path.write_text("")
    assert [given.problem for given in from_games(path)] == [f"{path} has no games"]
    assert [given.problem for given in from_lines(["# none\n"], "a.epd")] == ["a.epd has no positions"]
