"""Building: interrupted or not it makes the same book, and nothing is paid for twice."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import chess
import chess.polyglot
import pytest

from graphsearch.base.errors import EvaluatorError, EvaluatorMismatchError
from graphsearch.book import build as building
from graphsearch.book import rows
from graphsearch.book.build import BuildReport, build
from graphsearch.book.config import BookConfig, BuildSettings, Expansion, Leaf, Root, Window, parse_config
from graphsearch.book.growth import Growth, known_moves
from graphsearch.book.questions import admitted_moves, status, why
from graphsearch.book.tree import OPEN, BookTree
from graphsearch.evaluators.protocol import Evaluation, PositionBatch
from graphsearch.exchange.exports import export
from graphsearch.exchange.selection import Selection
from graphsearch.position.board import key_text
from graphsearch.store.store import Store
from graphsearch.store.tables import games
from graphsearch.store.tables.books import book_named
from graphsearch.store.verify import verify

from ..conftest import Cli, present, sql
from ..support.forks import Fork, needs_fork
from ..support.positions import after_line
from ..support.reference import HashEvaluator

SMALL = Leaf(evaluations=20, params={"MinibatchSize": "1"})  # as many evaluations as the limit says
WIDE = Window(own_cp=20, own_moves=2, reply_cp=30, reply_p=0.08, reply_moves=3)


def config(*, text: str = "one", max_ply: int = 3, **more: Any) -> BookConfig:
    found: dict[str, Any] = {
        "name": "b",
        "side": "white",
        "roots": (Root(chess.Board(), "root 1"),),
        "windows": (WIDE,),
        "leaf": SMALL,
    }
    return BookConfig(text=text, max_ply=max_ply, **(found | more))


def contents(path: Path) -> tuple[list[Any], list[Any]]:
    """Returns what the tables say of a book, but for the numbers of runs."""
    positions = "key, fen, ply, state, searches, n, value, outside, outside_move, priority"
    moves = "key, move, san, child, rule, p, n, q, value, loss, games, place"
    return (
        sql(path, f"SELECT {positions} FROM book_position ORDER BY book, key"),
        sql(path, f"SELECT {moves} FROM book_move ORDER BY book, key, place"),
    )


def tree_of_file(path: Path, found: BookConfig, name: str = "b") -> BookTree:
    tree = BookTree(found.expansion)
    with Store.open(path, read_only=True) as store:
        book = book_named(store, name)
        tree.roots = [key for key, _, _ in rows.read_tree(store.connection, book.id, tree)]
    tree.update(tree.positions)
    return tree


def built(path: Path, found: BookConfig, evaluations: int | None = None, **more: Any) -> BuildReport:
    evaluator = more.pop("evaluator", None) or HashEvaluator()
    return build(path, found, settings=BuildSettings(evaluations=evaluations), evaluator=evaluator, **more)


# ------------------------------------------------------------------ what comes out
@pytest.mark.parametrize("policy", ["dropout", "cost"])
def test_stopped_and_resumed_it_is_the_same_book_paid_once(tmp_path: Path, policy: Any) -> None:
    found = config(max_ply=4, expansion=Expansion(policy=policy))
    one, many = HashEvaluator(), HashEvaluator()
    whole = built(tmp_path / "one.graph", found, 160, evaluator=one)
    parts = [built(tmp_path / "many.graph", found, n, evaluator=many) for n in (20, 60, 80)]
    assert contents(tmp_path / "one.graph") == contents(tmp_path / "many.graph")
    assert one.paid_once
    assert many.asked == one.asked
    assert whole.searched == sum(part.searched for part in parts) == 8
    assert whole.evaluations == sum(part.evaluations for part in parts) == 160
    assert verify(tmp_path / "many.graph").ok


def test_a_small_book_is_finished_step_by_step(tmp_path: Path) -> None:
    path, evaluator = tmp_path / "a.graph", HashEvaluator()
    first = built(path, config(), 100, evaluator=evaluator)
    assert (first.ended, first.evaluations, first.searched) == ("evaluations", 100, 5)
    short = BuildSettings(seconds=0.01)
    assert build(path, config(max_ply=9), settings=short, evaluator=evaluator).ended == "time"
    with pytest.raises(EvaluatorMismatchError):
        built(path, config(), 30, evaluator=HashEvaluator("other"))
    report = built(path, config(), evaluator=evaluator)
    assert (report.ended, report.leaves) == ("complete", 0)
    assert evaluator.paid_once
    again = built(path, config(), evaluator=evaluator)
    assert (again.searched, again.evaluations, again.positions) == (0, 0, report.positions)
    tree = tree_of_file(path, config())
    assert {p.ply for p in tree.positions.values()} == {0, 1, 2, 3}
    assert all((p.state == "end") == (p.ply == 3) for p in tree.positions.values())


def test_every_move_leads_where_it_says_and_values_are_those_of_the_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "LINE_SECONDS", 0.0)
    path, found = tmp_path / "a.graph", config(max_ply=4)
    seen: list[BuildReport] = []
    built(path, found, 240, on_progress=seen.append)
    assert {now.ended for now in seen} == {"loading", "building"}
    assert any(now.line.startswith("1. ") for now in seen)
    tree = tree_of_file(path, found)
    for position in tree.positions.values():
        board = chess.Board(position.fen)
        assert key_text(board) == position.key
        for move in position.moves.values():
            assert board.san(chess.Move.from_uci(move.move)) == move.san
            after = board.copy()
            after.push_uci(move.move)
            assert key_text(after) == move.child
            assert tree.positions[move.child].ply <= position.ply + 1
    searched = [p for p in tree.positions.values() if p.state == "open"]
    assert len(searched) > 10
    with Store.open(path, read_only=True) as store:
        for p in searched:
            values = [v for v in tree.values(p).values() if v is not None]
            assert p.value == max([*values, *([] if p.outside is None else [p.outside])])
            assert present(store.read(chess.Board(p.fen))).visits >= p.n


def test_the_status_names_the_best_move_of_the_build_where_two_are_equally_good(tmp_path: Path) -> None:
    path = tmp_path / "book.graph"
    report = built(path, config(), 100)
    sql(
        path,
        "UPDATE book_move SET value = 0.1, place = 1000 - row FROM"
        " (SELECT key AS k, move AS m, row_number() OVER (ORDER BY move) AS row FROM book_move)"
        " WHERE key = k AND move = m",
    )
    moves = sql(path, "SELECT san FROM book_move m JOIN book_root r ON r.key = m.key ORDER BY place")
    assert len(moves) > 1
    assert [root.best for root in status(path)[0].roots] == [moves[0][0]], report


# ------------------------------------------------------------------ interruptions
class Deadly(HashEvaluator):
    """Kills its process after more than 70 positions, as soon as a search has been saved."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        if len(self.asked) > 70:
            while not searches_in(self._path):  # saving goes on in the background
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().evaluate(batch)


def searches_in(path: Path) -> int:
    """Returns the number of positions with searches in the book of a file."""
    return sum(position.searches > 0 for position in tree_of_file(path, config()).positions.values())


@needs_fork
def test_killed_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, whole = tmp_path / "a.graph", tmp_path / "whole.graph"
    monkeypatch.setattr(building, "SAVE_SECONDS", 0.0)  # after every search
    with Fork(lambda _: built(path, config(max_ply=6), evaluator=Deadly(path))) as child:
        child.rest()
    assert child.status == -signal.SIGKILL
    assert verify(path).ok
    assert searches_in(path)
    built(path, config(max_ply=6), 100)
    built(whole, config(max_ply=6), 20 * searches_in(path))
    assert contents(path) == contents(whole)


def test_a_stop_keeps_the_search_that_runs_for_the_graph(tmp_path: Path) -> None:
    stop, evaluator = threading.Event(), HashEvaluator()
    found = config(leaf=Leaf(evaluations=150, params={"MinibatchSize": "8"}))

    class Stopping(HashEvaluator):
        def evaluate(self, batch: PositionBatch) -> Evaluation:
            if len(self.asked) > 200:
                stop.set()
            return super().evaluate(batch)

    first = Stopping()
    report = built(tmp_path / "a.graph", found, evaluator=first, stop=stop)
    assert report.ended == "stop"
    assert report.searched == 1
    assert report.evaluations == len(first.asked) > 200
    built(tmp_path / "a.graph", found, 150, evaluator=evaluator)
    assert not set(evaluator.asked) & set(first.asked)


def test_an_evaluator_that_fails_ends_the_build_and_loses_nothing(tmp_path: Path) -> None:
    first, second = HashEvaluator(fail_after=100), HashEvaluator()
    with pytest.raises(EvaluatorError, match="out of order"):
        built(tmp_path / "a.graph", config(), evaluator=first)
    built(tmp_path / "a.graph", config(), 100, evaluator=second)
    assert not set(second.asked) & set(first.asked)
    assert sql(tmp_path / "a.graph", "SELECT ended FROM book_run") == [("failed",), ("evaluations",)]


def test_workers_build_a_book_whose_moves_and_values_follow_from_their_records(tmp_path: Path) -> None:
    path, found = tmp_path / "b.graph", config(max_ply=2)
    report = build(path, found, settings=BuildSettings(workers=2))
    assert report.ended == "complete"
    assert (report.leaves, report.searched) == (0, report.searched)
    book = tree_of_file(path, found)
    searched = [position for position in book.positions.values() if position.searches]
    assert report.searched == len(searched) > 3
    with Store.open(path, read_only=True) as store:
        for position in searched:
            assert present(store.read(chess.Board(position.fen))).visits >= position.n > 1
    assert verify(path).ok
    again = build(path, found, settings=BuildSettings(workers=2))
    assert (again.searched, again.evaluations) == (0, 0)


def test_workers_that_are_stopped_leave_a_book_that_can_be_resumed(tmp_path: Path) -> None:
    path, found, stop = tmp_path / "b.graph", config(max_ply=3), threading.Event()

    def look(now: BuildReport) -> None:
        if now.searched >= 2:
            stop.set()

    report = build(path, found, settings=BuildSettings(workers=2), stop=stop, on_progress=look)
    assert report.ended == "stop"
    assert 2 <= report.searched < build(path, found).searched + report.searched
    assert verify(path).ok


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


LAST_PAWN = Root(chess.Board("8/8/8/8/8/k7/p7/K7 b - - 0 1"), "root 1")


@pytest.mark.parametrize(
    "found",
    [
        # known positions have other values than the edges to them: moves that are added change places
        config(side="both", roots=(LAST_PAWN,), windows=(Window(own_cp=30, own_moves=3),), max_ply=12),
        config(windows=(Window(reply_p=0.02, reply_moves=2),), max_ply=6),  # a likely reply comes in
    ],
)
def test_so_many_of_the_best_moves_are_taken_in_as_the_window_says(tmp_path: Path, found: BookConfig) -> None:
    built(tmp_path / "a.graph", found, 160)
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


# ------------------------------------------------------------------ what an export has
TOML = """
[book]
name = "white"
side = "white"
max_ply = 9
[[root]]
moves = "1. d4 Nf6 2. c4 e6"
[[window]]
own_moves = 1
reply_cp = 300
reply_moves = 3
[leaf]
evaluations = 12
params = { MinibatchSize = 1 }
"""


def walked(path: Path, board: chess.Board, keeps_all: bool) -> list[tuple[chess.Board, set[str]]]:
    """Returns own positions below a board with the moves of the book there, as `book why` says."""
    found, waiting = [], [board]
    while waiting:
        board = waiting.pop()
        verdicts = [one for one in why(path, board).verdicts if one.rule and (one.admitted or keeps_all)]
        if board.turn == chess.WHITE and verdicts:
            found.append((board, {one.candidate.move for one in verdicts}))
        for one in verdicts:
            child = board.copy()
            child.push_uci(one.candidate.move)
            waiting.append(child)
    return found


def exported(target: Path, board: chess.Board) -> set[str]:
    with chess.polyglot.open_reader(target) as reader:
        return {entry.move.uci() for entry in reader.find_all(board)}


def test_a_book_in_polyglot_has_the_moves_that_its_rules_admit(tmp_path: Path) -> None:
    """Values of this book change so often that it has several own moves in some positions."""
    book = tmp_path / "b.graph"
    settings = BuildSettings(evaluations=1500)
    build(book, parse_config(TOML, tmp_path, "white.toml"), settings=settings, evaluator=HashEvaluator())
    target, whole = tmp_path / "b.bin", tmp_path / "all.bin"
    report = export("polyglot", book, target, Selection(book="white", admits=admitted_moves))
    export("polyglot", book, whole, Selection(book="white"))
    root = after_line("d4 Nf6 c4 e6")
    admitted, kept = walked(book, root, keeps_all=False), walked(book, root, keeps_all=True)
    assert all(len(moves) == 1 for _, moves in admitted)  # own_moves = 1
    assert any(len(moves) > 1 for _, moves in kept)
    for board, moves in admitted:
        assert exported(target, board) == moves
    for board, moves in kept:
        assert exported(whole, board) == moves
    own = {chess.polyglot.zobrist_hash(board) for board, _ in admitted}
    before = {chess.polyglot.zobrist_hash(after_line(line)) for line in ("", "d4 Nf6")}
    with chess.polyglot.open_reader(target) as reader:
        assert {entry.key for entry in reader} == own | before
    assert report.left_out["moves_not_admitted"] > 0
    assert exported(target, chess.Board()) == {"d2d4"}
    assert exported(target, after_line("d4 Nf6")) == {"c2c4"}
