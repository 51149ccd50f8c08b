"""Building: interrupted or not it makes the same book, and nothing is paid for twice."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch.book import rows
from graphsearch.book.build import BuildLimits, build
from graphsearch.book.build_report import BuildProgress, BuildReport
from graphsearch.book.config import BookConfig, Expansion, Leaf, Root, Ruling, Window
from graphsearch.book.growth import Growth, hex_key, known_moves
from graphsearch.book.order import order_of
from graphsearch.book.positions import OPEN, numbered
from graphsearch.book.progress import searches_left
from graphsearch.book.toml import parse_config
from graphsearch.book.tree import BookTree
from graphsearch.book.why import why
from graphsearch.errors import EvaluatorError, EvaluatorMismatchError, GraphSearchError, StoreError
from graphsearch.evaluators.protocol import Evaluation, PositionBatch
from graphsearch.record.provenance import EvaluatorIdentity
from graphsearch.store.store import Store
from graphsearch.store.tables import games
from graphsearch.store.tables.books import books
from graphsearch.store.upkeep.verify import verify

from ..conftest import ROOT, Cli
from ..support.counting import CountingEvaluator

SMALL = Leaf(evaluations=20, params=(("MinibatchSize", "1"),))  # as many evaluations as the limit says
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
    connection = sqlite3.connect(path)
    try:
        positions = "key, fen, ply, state, searches, n, value, outside, outside_move, rest, priority"
        moves = "key, move, san, child, rule, p, n, q, value, loss, games, visits, place"
        return (
            connection.execute(f"SELECT {positions} FROM book_position ORDER BY book, key").fetchall(),
            connection.execute(f"SELECT {moves} FROM book_move ORDER BY book, key, place").fetchall(),
        )
    finally:
        connection.close()


def tree_of_file(path: Path, found: BookConfig, name: str = "b") -> BookTree:
    tree = BookTree(found.expansion.value, order_of(found.expansion))
    with Store.open(path, read_only=True) as store:
        book = rows.book_named(store, name)
        rows.load(store, book.id, tree)
        tree.roots = [key for key, _, _ in rows.roots(store, book.id)]
    tree.update(tree.positions)
    return tree


def built(path: Path, found: BookConfig, evaluations: int | None = None, **more: Any) -> BuildReport:
    evaluator = more.pop("evaluator", None) or CountingEvaluator()
    return build(path, found, limits=BuildLimits(evaluations=evaluations), evaluator=evaluator, **more)


def paid_once(evaluator: CountingEvaluator) -> bool:
    return bool(evaluator.asked) and max(Counter(evaluator.asked).values()) == 1


# ------------------------------------------------------------------ what comes out
@pytest.mark.parametrize("policy", ["dropout", "cost", "puct"])
@pytest.mark.parametrize("value", ["minimax", "q"])
def test_stopped_and_resumed_it_is_the_same_book_paid_once(tmp_path: Path, policy: Any, value: Any) -> None:
    found = config(max_ply=4, expansion=Expansion(policy=policy, value=value))
    one, many = CountingEvaluator(), CountingEvaluator()
    whole = built(tmp_path / "one.graph", found, 500, evaluator=one)
    parts = [built(tmp_path / "many.graph", found, n, evaluator=many) for n in (20, 180, 300)]
    assert contents(tmp_path / "one.graph") == contents(tmp_path / "many.graph")
    assert paid_once(one)
    assert many.asked == one.asked
    assert whole.searched == sum(part.searched for part in parts) == 25
    assert whole.evaluations == sum(part.evaluations for part in parts) == 500
    assert verify(tmp_path / "many.graph").ok


def test_a_small_book_is_finished(tmp_path: Path) -> None:
    evaluator = CountingEvaluator()
    report = built(tmp_path / "a.graph", config(), evaluator=evaluator)
    assert (report.ended, report.leaves) == ("complete", 0)
    assert paid_once(evaluator)
    again = built(tmp_path / "a.graph", config(), evaluator=evaluator)
    assert (again.searched, again.evaluations, again.positions) == (0, 0, report.positions)
    tree = tree_of_file(tmp_path / "a.graph", config())
    assert {p.ply for p in tree.positions.values()} == {0, 1, 2, 3}
    assert all((p.state == "end") == (p.ply == 3) for p in tree.positions.values())


def test_every_move_of_the_book_leads_where_it_says(tmp_path: Path) -> None:
    built(tmp_path / "a.graph", config(max_ply=4), 500)
    tree = tree_of_file(tmp_path / "a.graph", config())
    for position in tree.positions.values():
        board = chess.Board(position.fen)
        assert hex_key(board) == position.key
        for move in position.moves.values():
            assert board.san(chess.Move.from_uci(move.move)) == move.san
            after = board.copy()
            after.push_uci(move.move)
            assert hex_key(after) == move.child
            assert tree.positions[move.child].ply <= position.ply + 1


def test_values_in_the_file_are_those_of_the_rule(tmp_path: Path) -> None:
    found = config(max_ply=4)
    built(tmp_path / "a.graph", found, 500)
    tree = tree_of_file(tmp_path / "a.graph", found)
    searched = [p for p in tree.positions.values() if p.state == "open"]
    assert len(searched) > 10
    with Store.open(tmp_path / "a.graph", read_only=True) as store:
        for p in searched:
            values = [v for v in tree.values(p).values() if v is not None]
            assert p.value == max([*values, *([] if p.outside is None else [p.outside])])
            record = store.read(chess.Board(p.fen))
            assert record is not None
            assert record.visits >= p.n


def test_mates_and_stalemates_are_ends(tmp_path: Path) -> None:
    board = chess.Board("7k/8/5KQ1/8/8/8/8/8 w - - 0 1")
    roots = (Root(board, "root 1"),)
    found = config(
        roots=roots,
        windows=(Window(own_cp=1e9, own_moves=None),),
        max_ply=2,
        leaf=replace(SMALL, evaluations=40),
    )
    built(tmp_path / "a.graph", found)
    tree = tree_of_file(tmp_path / "a.graph", found)
    assert tree.positions[hex_key(board)].value == 1.0
    ends = {p.fen: p.value for p in tree.positions.values() if p.state == "end" and p.ply == 1}
    assert {value for fen, value in ends.items() if chess.Board(fen).is_checkmate()} == {-1.0}
    assert {value for fen, value in ends.items() if chess.Board(fen).is_stalemate()} <= {0.0}


# ------------------------------------------------------------------ interruptions
CHILD = """
import sys
from pathlib import Path
from tests.book.test_build import built, config
from tests.support.counting import CountingEvaluator
built(Path(sys.argv[1]), config(max_ply=6), evaluator=CountingEvaluator(log=Path(sys.argv[2])))
"""


def test_killed_anywhere_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, log = tmp_path / "a.graph", tmp_path / "log"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for seconds in (0.2, 0.7):
        log.write_text("")
        child = subprocess.Popen([sys.executable, "-c", CHILD, path, log], env=environment, cwd=ROOT)
        while not log.read_text() and child.poll() is None:
            time.sleep(0.05)
        time.sleep(seconds)
        assert child.poll() is None
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert verify(path).ok
    lost = CountingEvaluator()
    built(path, config(max_ply=6), 300, evaluator=lost)
    whole = tmp_path / "whole.graph"
    searched = len([p for p in tree_of_file(path, config()).positions.values() if p.searches])
    built(whole, config(max_ply=6), 20 * searched)
    assert contents(path) == contents(whole)


def test_a_stop_keeps_the_search_that_runs_for_the_graph(tmp_path: Path) -> None:
    stop, evaluator = threading.Event(), CountingEvaluator()
    found = config(leaf=Leaf(evaluations=400, params=(("MinibatchSize", "8"),)))

    class Stopping(CountingEvaluator):
        def evaluate(self, batch: PositionBatch) -> Evaluation:
            if len(self.asked) > 600:
                stop.set()
            return super().evaluate(batch)

    first = Stopping()
    report = built(tmp_path / "a.graph", found, evaluator=first, stop=stop)
    assert report.ended == "stop"
    assert report.searched == 1
    assert report.evaluations == len(first.asked) > 600
    built(tmp_path / "a.graph", found, 400, evaluator=evaluator)
    assert not set(evaluator.asked) & set(first.asked)


def test_an_evaluator_that_fails_ends_the_build_and_loses_nothing(tmp_path: Path) -> None:
    class Failing(CountingEvaluator):
        def evaluate(self, batch: PositionBatch) -> Evaluation:
            if len(self.asked) > 100:
                raise EvaluatorError("out of order")
            return super().evaluate(batch)

    first, second = Failing(), CountingEvaluator()
    with pytest.raises(EvaluatorError, match="out of order"):
        built(tmp_path / "a.graph", config(), evaluator=first)
    built(tmp_path / "a.graph", config(), evaluator=second)
    assert not set(second.asked) & set(first.asked)
    connection = sqlite3.connect(tmp_path / "a.graph")
    assert [row[0] for row in connection.execute("SELECT ended FROM book_run")] == ["failed", "complete"]
    connection.close()


def test_another_evaluator_is_refused(tmp_path: Path) -> None:
    built(tmp_path / "a.graph", config(), 30)
    other = CountingEvaluator("other")
    assert other.identity == EvaluatorIdentity("other")
    with pytest.raises(EvaluatorMismatchError):
        built(tmp_path / "a.graph", config(), 30, evaluator=other)


def test_limits(tmp_path: Path) -> None:
    report = built(tmp_path / "a.graph", config(max_ply=5), 100)
    assert (report.ended, report.evaluations, report.searched) == ("evaluations", 100, 5)
    evaluator = CountingEvaluator()
    timed = build(
        tmp_path / "a.graph", config(max_ply=9), limits=BuildLimits(seconds=0.5), evaluator=evaluator
    )
    assert timed.ended == "time"


# ------------------------------------------------------------------ changing one's mind
def test_a_wider_window_takes_in_more_of_what_is_known(tmp_path: Path) -> None:
    path, evaluator = tmp_path / "a.graph", CountingEvaluator()
    narrow, wide = config(windows=(Window(),)), config(text="two")
    small = built(path, narrow, evaluator=evaluator)
    large = built(path, wide, evaluator=evaluator)
    assert large.positions > small.positions
    assert paid_once(evaluator)


def test_more_plies_go_on_at_the_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    built(path, config(max_ply=2))
    built(path, config(max_ply=3, text="two"))
    built(tmp_path / "b.graph", config(max_ply=3))
    assert contents(path) == contents(tmp_path / "b.graph")
    fewer = built(path, config(max_ply=1, text="three"))
    assert fewer.searched == 0


def test_forced_and_excluded_moves(tmp_path: Path) -> None:
    path, board = tmp_path / "a.graph", chess.Board()
    odd, best = chess.Move.from_uci("a2a3"), None
    built(path, config(windows=(Window(),), max_ply=1))
    best = next(iter(tree_of_file(path, config()).positions[hex_key(board)].moves))
    forced = (Ruling(board=board, moves=(odd,)),)
    excluded = (Ruling(board=board, moves=(chess.Move.from_uci(best),)),)
    found = config(text="two", windows=(Window(),), max_ply=2, forced=forced, excluded=excluded)
    built(path, found)
    moves = tree_of_file(path, found).positions[hex_key(board)].moves
    assert best not in moves
    assert moves["a2a3"].rule == "forced"
    assert any(move.rule == "best" for move in moves.values())


def test_games_that_are_imported_later_count(tmp_path: Path) -> None:
    path, board = tmp_path / "a.graph", chess.Board()
    found = config(side="black", windows=(Window(reply_games=5),), max_ply=2)
    built(path, found)
    assert "a2a4" not in tree_of_file(path, found).positions[hex_key(board)].moves
    with Store.open(path) as store, store.transaction():
        source = games.begin_source(store, "pgn", "x.pgn", "00", {})
        games.add_games(
            store, [(hex_key(board), board.fen(), 0)], [(hex_key(board), "a2a4", "a4", 3, 1, 1, 0, 0)]
        )
        games.update_source(store, source, taken=5, skipped=0, finished=True)
    built(path, found)
    assert tree_of_file(path, found).positions[hex_key(board)].moves["a2a4"].rule == "reply_games"


def test_two_books_share_one_file_and_its_evaluations(tmp_path: Path) -> None:
    path, evaluator = tmp_path / "a.graph", CountingEvaluator()
    built(path, config(), evaluator=evaluator)
    built(path, config(name="black", side="black"), evaluator=evaluator)
    assert paid_once(evaluator)
    with Store.open(path, read_only=True) as store:
        assert [book.name for book in books(store)] == ["b", "black"]
        with pytest.raises(StoreError, match="several books"):
            rows.book_named(store, None)
        with pytest.raises(StoreError, match="no book 'c'; it has b, black"):
            rows.book_named(store, "c")


def test_records_that_were_pruned_are_searched_again(tmp_path: Path) -> None:
    from graphsearch.store.upkeep.prune import prune

    path = tmp_path / "a.graph"
    before = built(path, config())
    prune(path, 1000)
    after = built(path, config(text="two", windows=(replace(WIDE, own_cp=60.0),)))
    assert after.ended == "complete"
    assert after.positions >= before.positions
    assert after.searched > 0


# ------------------------------------------------------------------ telling
def test_progress_says_what_is_searched_and_how_long_it_takes(tmp_path: Path) -> None:
    seen: list[BuildProgress] = []
    built(tmp_path / "a.graph", config(max_ply=4), 500, on_progress=seen.append)
    assert {now.stage for now in seen} == {"loading", "building"}
    assert any(now.line.startswith("1. ") for now in seen)


def test_what_is_left_follows_the_branching_so_far(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    built(path, config(), 100)
    tree = tree_of_file(path, config())
    leaves = sum(p.state == "leaf" for p in tree.positions.values())
    assert searches_left(tree, 3) >= leaves
    built(path, config())
    assert searches_left(tree_of_file(path, config()), 3) == 0


def test_moves_are_numbered() -> None:
    assert numbered(["e4", "e5", "Nf3"], 0) == "1. e4 e5 2. Nf3"
    assert numbered([], 3) == ""


def test_a_time_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphSearchError, match="time must be"):
        build(tmp_path / "a.graph", config(), limits=BuildLimits(seconds=0.0), evaluator=CountingEvaluator())


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
    """Known positions have other values than the edges to them: moves that are taken in change places."""
    root = Root(chess.Board("8/8/8/8/8/k7/p7/K7 b - - 0 1"), "root 1")
    window = Window(own_cp=30, own_moves=3)
    for value in ("minimax", "q"):
        expansion = Expansion(value=value)
        found = config(side="both", roots=(root,), windows=(window,), max_ply=12, expansion=expansion)
        built(tmp_path / f"{value}.graph", found, 1500)
        assert admitted_but_missing(tmp_path / f"{value}.graph", found) == []


@pytest.mark.parametrize("value", ["minimax", "q"])
def test_a_likely_reply_comes_in_when_it_is_among_the_best_so_many(tmp_path: Path, value: Any) -> None:
    windows = (Window(reply_p=0.02, reply_moves=2),)
    found = config(windows=windows, max_ply=6, expansion=Expansion(value=value))
    built(tmp_path / "a.graph", found, 2000)
    assert admitted_but_missing(tmp_path / "a.graph", found) == []


def test_an_excluded_move_does_not_hide_the_next_one(tmp_path: Path) -> None:
    first = config(windows=(Window(own_cp=15, own_moves=None, reply_moves=2),), max_ply=4, side="both")
    built(tmp_path / "a.graph", first, 60)
    tree = tree_of_file(tmp_path / "a.graph", first)
    excluded = tuple(
        Ruling(board=chess.Board(p.fen), moves=(chess.Move.from_uci(p.outside_move),))
        for p in tree.positions.values()
        if p.outside_move
    )
    found = replace(first, excluded=excluded)
    built(tmp_path / "b.graph", found, 2000)
    assert admitted_but_missing(tmp_path / "b.graph", found) == []


def test_a_build_ended_while_it_checks_leaves_the_check_to_the_next(tmp_path: Path) -> None:
    path, board = tmp_path / "a.graph", chess.Board()
    built(path, config(windows=(Window(),)))
    best = next(iter(tree_of_file(path, config()).positions[hex_key(board)].moves))
    excluded = (Ruling(board=board, moves=(chess.Move.from_uci(best),)),)
    found = config(text="two", windows=(Window(),), excluded=excluded)
    stop = threading.Event()
    stop.set()
    built(path, found, stop=stop)
    assert best in tree_of_file(path, found).positions[hex_key(board)].moves
    built(path, found)
    assert best not in tree_of_file(path, found).positions[hex_key(board)].moves


def test_a_time_that_is_none_leaves_no_trace(tmp_path: Path) -> None:
    for seconds in (0.0, -1.0, float("nan")):
        with pytest.raises(GraphSearchError, match="time must be"):
            build(tmp_path / "a.graph", config(), limits=BuildLimits(seconds=seconds))
    assert list(tmp_path.iterdir()) == []


def test_why_tells_the_moves_that_the_book_has_from_those_it_would_take(tmp_path: Path) -> None:
    path, board = tmp_path / "a.graph", chess.Board()
    text = '[book]\nname = "b"\nside = "white"\nmax_ply = 1\n[leaf]\nevaluations = 20\n'
    found = replace(parse_config(text, tmp_path, "b"), leaf=SMALL)
    built(path, found)
    with Store.open(path) as store, store.transaction():
        wider = text + "[[window]]\nown_cp = 9999\nown_moves = 'all'\n"
        store.connection.execute("UPDATE book SET config = ?", (wider,))
    verdicts = why(path, board).verdicts
    moves = tree_of_file(path, found).positions[hex_key(board)].moves
    assert {v.candidate.move for v in verdicts if v.rule} == set(moves)
    assert any(v.reason.startswith("not taken in yet; now loses") for v in verdicts)


def test_what_no_root_leads_to_is_set_apart_and_comes_back(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "a.graph"
    after = chess.Board()
    after.push_san("a4")
    two = (Root(chess.Board(), "root 1"), Root(after, "root 2"))
    first = built(path, config(roots=two))
    fewer = built(path, config(text="two"))
    assert fewer.positions < first.positions
    status = cli("book", "status", "--store", path, "--json").json["books"][0]
    assert status["apart"] == first.positions - fewer.positions
    assert status["leaf"] == 0
    again = built(path, config(text="three", roots=two))
    assert (again.positions, again.searched) == (first.positions, 0)


def test_a_search_with_little_to_evaluate_ends_by_its_visits(tmp_path: Path) -> None:
    board = chess.Board("8/8/8/8/8/k7/8/K6R b - - 0 1")
    found = config(roots=(Root(board, "root 1"),), max_ply=1, leaf=Leaf(evaluations=5000))
    report = built(tmp_path / "a.graph", found, evaluator=None)
    assert report.ended == "complete"
    assert report.visits <= 20 * 5000
