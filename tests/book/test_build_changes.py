"""A book whose configuration, games or records change between two builds."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import chess

from graphsearch.book.config import BookConfig, Root, Window, parse_config
from graphsearch.book.growth import Growth, known_moves
from graphsearch.book.tree import OPEN
from graphsearch.book.why import why
from graphsearch.position.board import key_text
from graphsearch.store.store import Store
from graphsearch.store.tables import games

from ..conftest import Cli
from ..support.positions import after_line
from .test_build import SMALL, built, config, tree_of_file


# ------------------------------------------------------------------ changing one's mind
def test_forced_and_excluded_moves_count_in_the_next_build_that_is_not_stopped(tmp_path: Path) -> None:
    path, board = tmp_path / "a.graph", chess.Board()
    built(path, config(windows=(Window(),), max_ply=2))
    best = next(iter(tree_of_file(path, config()).positions[key_text(board)].moves))
    forced, excluded = {key_text(board): ("a2a3",)}, {key_text(board): (best,)}
    found = config(text="two", windows=(Window(),), max_ply=2, forced=forced, excluded=excluded)
    stop = threading.Event()
    stop.set()
    built(path, found, stop=stop)  # it ends while it checks what the book has
    assert best in tree_of_file(path, found).positions[key_text(board)].moves
    built(path, found)
    moves = tree_of_file(path, found).positions[key_text(board)].moves
    assert best not in moves
    assert moves["a2a3"].rule == "forced"
    assert any(move.rule == "best" for move in moves.values())


def test_games_that_are_imported_later_count(tmp_path: Path) -> None:
    path, board = tmp_path / "a.graph", chess.Board()
    found = config(side="black", windows=(Window(reply_games=5),), max_ply=2)
    built(path, found)
    assert "a2a4" not in tree_of_file(path, found).positions[key_text(board)].moves
    with Store.open(path) as store, store.transaction():
        source = games.begin_source(store, "pgn", "x.pgn", "00", {})
        games.add_games(
            store, [(key_text(board), board.fen(), 0)], [(key_text(board), "a2a4", "a4", 3, 1, 1, 0, 0)]
        )
        games.update_source(store, source, taken=5, skipped=0, finished=True)
    built(path, found)
    assert tree_of_file(path, found).positions[key_text(board)].moves["a2a4"].rule == "reply_games"


# ------------------------------------------------------------------ what the windows say holds at the end
def admitted_but_missing(path: Path, found: BookConfig) -> list[str]:
    """Returns moves that the configuration admits by what the book knows, and that the book has not."""
    tree = tree_of_file(path, found)
    missing = []
    with Store.open(path, read_only=True) as store:
        growth = Growth(found, tree, 1, store.read, lambda _: {})
        for position in tree.positions.values():
            board = chess.Board(position.fen)
            record = store.read(board)
            if position.state != OPEN or record is None or record.visits != position.n:
                continue  # found more out for other positions since: decided when it is searched again
            for verdict in growth.verdicts(position, board, known_moves(board, record)):
                if verdict.rule and verdict.candidate.move not in position.moves:
                    missing.append(f"{position.fen} {verdict.candidate.move}: {verdict.reason}")
    return missing


def test_of_moves_that_transpose_so_many_are_taken_in_as_the_window_says(tmp_path: Path) -> None:
    """Known positions have other values than the edges to them: moves that are added change places."""
    root = Root(chess.Board("8/8/8/8/8/k7/p7/K7 b - - 0 1"), "root 1")
    window = Window(own_cp=30, own_moves=3)
    found = config(side="both", roots=(root,), windows=(window,), max_ply=12)
    built(tmp_path / "a.graph", found, 160)
    assert admitted_but_missing(tmp_path / "a.graph", found) == []


def test_a_likely_reply_comes_in_when_it_is_among_the_best_so_many(tmp_path: Path) -> None:
    found = config(windows=(Window(reply_p=0.02, reply_moves=2),), max_ply=6)
    built(tmp_path / "a.graph", found, 120)
    assert admitted_but_missing(tmp_path / "a.graph", found) == []


def test_an_excluded_move_does_not_hide_the_next_one(tmp_path: Path) -> None:
    first = config(windows=(Window(own_cp=15, own_moves=None, reply_moves=2),), max_ply=4, side="both")
    built(tmp_path / "a.graph", first, 60)
    tree = tree_of_file(tmp_path / "a.graph", first)
    excluded = {key: (one.outside_move,) for key, one in tree.positions.items() if one.outside_move}
    found = replace(first, excluded=excluded)
    built(tmp_path / "b.graph", found, 160)
    assert admitted_but_missing(tmp_path / "b.graph", found) == []


def test_why_tells_the_moves_that_the_book_has_from_those_it_would_take(tmp_path: Path) -> None:
    path, board = tmp_path / "a.graph", chess.Board()
    text = '[book]\nname = "b"\nside = "white"\nmax_ply = 1\n[leaf]\nevaluations = 20\n'
    found = replace(parse_config(text, tmp_path, "b"), leaf=SMALL)
    built(path, found)
    with Store.open(path) as store, store.transaction():
        wider = text + "[[window]]\nown_cp = 9999\nown_moves = 'all'\n"
        store.connection.execute("UPDATE book SET config = ?", (wider,))
    verdicts = why(path, board).verdicts
    moves = tree_of_file(path, found).positions[key_text(board)].moves
    assert {v.candidate.move for v in verdicts if v.rule} == set(moves)
    assert any(v.reason.startswith("not added yet; now loses") for v in verdicts)


def test_what_no_root_leads_to_is_set_apart_and_comes_back(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "a.graph"
    two = (Root(chess.Board(), "root 1"), Root(after_line("a4"), "root 2"))
    first = built(path, config(roots=two, max_ply=2))
    fewer = built(path, config(text="two", max_ply=2))
    assert fewer.positions < first.positions
    status = cli("book", "status", "--store", path, "--json").json["books"][0]
    assert status["apart"] == first.positions - fewer.positions
    assert status["leaf"] == 0
    again = built(path, config(text="three", roots=two, max_ply=2))
    assert (again.positions, again.searched) == (first.positions, 0)
