"""What a book needs next: leaves and gaps."""

from __future__ import annotations

from pathlib import Path

import chess
import pytest

from graphsearch import Graph, Limits, analyze
from graphsearch.book.todo import TodoRow, todo
from graphsearch.position.board import legal_moves
from graphsearch.store.store import Store

from ..support.books import small_book
from ..support.positions import after_line


@pytest.fixture
def white(tmp_path: Path) -> Path:
    return small_book().write(tmp_path / "white.graph")


# --------------------------------------------------------------------- leaves
def test_leaves_come_in_the_order_of_their_priority_with_their_line(white: Path) -> None:
    found = todo(white, "white")
    assert [row.line for row in found.rows] == ["1. e4 c5", "1. e4 e5", "1. d4 d5"]
    assert [row.as_dict()["priority"] for row in found.rows] == [1.5, 3.0, None]
    first = found.rows[0].as_dict()
    assert (first["position"], first["moves"]) == (after_line("e4 c5").fen(), ["e2e4", "c7c5"])
    assert (first["root"], first["ply"]) == (chess.STARTING_FEN, 2)
    assert len(todo(white, "white", top=2).rows) == 2
    assert [entry.fen for entry in found.items()] == [row.position for row in found.rows]


def test_leaves_that_no_line_leads_to_any_more_are_not_listed(white: Path) -> None:
    before = [row.line for row in todo(white, "white", "leaves").rows]
    with Store.open(white) as store, store.transaction():
        gone = store.connection.execute("DELETE FROM book_move WHERE san = 'd4'").rowcount
    assert gone == 1
    after = [row.line for row in todo(white, "white", "leaves").rows]
    assert after == [line for line in before if not line.startswith("1. d4")] != before


# ----------------------------------------------------------------------- gaps
def gaps(path: Path, **options: float) -> list[TodoRow]:
    found = todo(path, "white", "gaps", top=int(options.pop("top", 0)), **options)  # type: ignore[arg-type]
    return [row for row in found.rows if row.reach is not None]


def test_gaps_are_the_likely_replies_that_the_book_lacks(tmp_path: Path) -> None:
    path = tmp_path / "w.graph"
    with Graph.open(path) as graph:
        for line in ("", "e4", "d4"):
            analyze(graph, after_line(line), Limits(visits=20))
    small_book().write(path)
    found = gaps(path, min_p=0.04)
    replies = [row for row in found if row.move]
    assert replies
    with Store.open(path, read_only=True) as store:
        for line in ("e4", "d4"):
            board = after_line(line)
            record = store.read(board)
            assert record is not None
            likely = {m.uci() for m, p in zip(legal_moves(board), record.priors, strict=True) if p >= 0.04}
            in_book = {"e4": {"e7e5", "c7c5"}, "d4": {"d7d5"}}[line]
            assert {row.move for row in replies if row.position == board.fen()} == likely - in_book
    for row in replies:
        assert row.p is not None
        assert row.reach == pytest.approx(row.p)  # White's own moves count 1
    reaches = [row.reach or 0.0 for row in found]
    assert reaches == sorted(reaches, reverse=True)
    assert gaps(path, min_p=0.04, top=5) == found[:5]


def test_imported_games_make_a_reply_a_gap_and_their_share_its_weight(tmp_path: Path) -> None:
    book = small_book()
    book.played("e4", "c6", 25)
    book.played("e4", "e5", 70)
    book.played("e4", "a6", 5)
    path = book.write(tmp_path / "a.graph")
    first = [row for row in gaps(path) if row.position == after_line("e4").fen()]
    assert [(row.line, row.reach, row.games, row.p) for row in first] == [("1. e4 c6", 0.25, 25, None)]
    waiting = {row.line: row.reach for row in gaps(path) if row.move is None}
    assert waiting["1. e4 e5"] == 0.7
    assert waiting["1. e4 c5"] == 0.0
    assert {row.line for row in gaps(path, min_games=5)} >= {"1. e4 c6", "1. e4 a6"}


def test_what_the_author_left_out_is_no_gap(tmp_path: Path) -> None:
    book = small_book()
    book.played("e4", "c6", 100)
    book.played("d4", "Nf6", 100)
    book.config = (
        '[book]\nside = "white"\nmax_ply = 24\n[[exclude]]\nmoves = "1. e4"\nplay = ["c6"]\n'
        '[[force]]\nmoves = "1. d4"\nplay = ["d5"]\nonly = true\n'
    )
    path = book.write(tmp_path / "a.graph")
    assert all(row.move is None for row in gaps(path))
    book.name, book.config = "other", '[book]\nside = "white"\nmax_ply = 2\n'
    book.write(path)
    assert all(row.move is None for row in todo(path, "other", "gaps").rows)
