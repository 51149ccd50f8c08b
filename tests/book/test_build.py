"""Books: what windows admit; a build is the same if interrupted, and paid once; its queue and its gaps."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import chess
import chess.polyglot
import pytest

from graphsearch import Graph, Limits, analyze
from graphsearch.base import errors
from graphsearch.book import build as building
from graphsearch.book import rows
from graphsearch.book.build import BuildReport, build
from graphsearch.book.config import BookConfig, BuildSettings, Expansion, Leaf, Root, Window, parse_config
from graphsearch.book.growth import Candidate, Growth, Verdict, decide, known_moves
from graphsearch.book.questions import MIN_P, TodoRow, admitted_moves, status, todo, why
from graphsearch.book.queue import NewItem, add, drop, drop_all, items, set_state, waiting
from graphsearch.book.tree import LEAF, OPEN, BookMove, BookTree, Position
from graphsearch.evaluators.protocol import Evaluation, PositionBatch
from graphsearch.exchange.exports import export
from graphsearch.exchange.importing import GivenFile
from graphsearch.exchange.imports import import_files
from graphsearch.exchange.selection import Selection
from graphsearch.graph.sweeps.merge import merge
from graphsearch.position.board import key_text, legal_moves
from graphsearch.position.values import CP_FACTOR, CP_SLOPE
from graphsearch.store.store import Store
from graphsearch.store.tables.books import book_named
from graphsearch.store.verify import verify

from ..conftest import Cli, present, sql
from ..query.handmade import BOOK_CONFIG, book_file
from ..support.forks import Fork, Say
from ..support.positions import after_line, played
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


# ------------------------------------------------------------------ in memory, on graphs worked out by hand
Edge = tuple[str, str] | tuple[str, str, dict[str, Any]]  # move, child, fields of the move


def tree_of(expansion: Expansion, plies: Mapping[str, int], edges: Mapping[str, Sequence[Edge]]) -> BookTree:
    """Returns a book of named positions: their plies, and the moves of those that were searched."""
    tree = BookTree(expansion)
    for name, ply in plies.items():
        state = OPEN if name in edges else LEAF
        tree.add(Position(key=name, fen=f"fen of {name}", ply=ply, since=1, state=state))
    tree.roots = ["a"]
    usual: dict[str, Any] = {"p": 0.5, "n": 1, "q": 0.0, "loss": None, "games": 0, "since": 1}
    for name, moves in edges.items():
        for move, child, *fields in moves:
            made = BookMove(move=move, san=move, child=child, rule="best", **usual | dict(*fields))
            tree.link(tree.positions[name], made)
    tree.update(tree.positions)
    return tree


PLAIN = Expansion(policy="dropout", alpha=1.0)
#        a          ply 0
#      x/ \y
#      b   c        ply 1
#     u| \v|w
#      d   e        ply 2: e has two ways to it
PLIES = {"a": 0, "b": 1, "c": 1, "d": 2, "e": 2}
EDGES = {
    "a": [("x", "b", {"q": 0.0}), ("y", "c", {"q": 0.0})],
    "b": [("u", "d", {"q": 0.1}), ("v", "e", {"q": 0.3})],
    "c": [("w", "e", {"q": -0.2})],
}


def cp(*numbers: float) -> list[float]:
    return [math.atan(number / CP_FACTOR) / CP_SLOPE for number in numbers]


# ------------------------------------------------------------------ values
def test_a_move_outside_the_book_keeps_the_value_up_or_down() -> None:
    tree = tree_of(PLAIN, PLIES, EDGES)
    tree.positions["b"].outside = 0.8  # the refutation of x, which is not in the book
    tree.update(["b"])
    assert tree.positions["b"].value == 0.8
    assert tree.positions["a"].value == 0.2
    tree.positions["c"].outside = 0.9
    tree.update(["c"])
    assert tree.positions["a"].value == -0.8, "both moves of the root are refuted from outside the book"


def test_a_move_back_counts_with_its_own_edge_and_closes_no_circle() -> None:
    plies = {"a": 0, "b": 1, "c": 2}
    edges = {
        "a": [("x", "b", {"q": 0.1})],
        "b": [("y", "c", {"q": 0.2})],
        "c": [("z", "b", {"q": 0.4}), ("t", "a", {"q": 0.3})],
    }
    tree = tree_of(PLAIN, plies, edges)
    assert tree.positions["c"].value == 0.4
    assert tree.positions["a"].value == 0.4
    assert tree.positions["a"].reach is None, "nothing is left to search"


# ------------------------------------------------------------------ policies
def test_dropout_takes_the_leaf_of_least_plies_and_losses() -> None:
    best, near, far = cp(100, 90, 40)
    plies = {"a": 0, "b": 1, "c": 1, "d": 1, "e": 2}
    edges = {
        "a": [("x", "b", {"q": best}), ("y", "c", {"q": near}), ("z", "d", {"q": far})],
        "b": [("u", "e", {"q": -best})],
    }
    # b is searched: its leaf e costs 1 + 1; c costs 1 + .1 alpha, d costs 1 + .6 alpha
    for alpha, expected in ((0.5, "c"), (5.0, "c"), (20.0, "e")):
        tree = tree_of(Expansion(policy="dropout", alpha=alpha), plies, edges)
        assert present(tree.next_line()).keys[-1] == expected
        costs = tree.costs()
        assert costs["e"] == pytest.approx(2.0)
        assert costs["c"] == pytest.approx(1 + 0.1 * alpha)
        assert costs["d"] == pytest.approx(1 + 0.6 * alpha)
        assert tree.positions["a"].reach == pytest.approx(min(costs["c"], costs["e"]))


def test_cost_adds_loss_unlikeliness_and_breadth() -> None:
    best, worse = cp(30, 10)
    plies = {"a": 0, "b": 1, "c": 1, "d": 2}
    edges = {
        "a": [("x", "b", {"q": best, "p": 0.6}), ("y", "c", {"q": worse, "p": 0.2})],
        "b": [("u", "d", {"q": -best, "p": 0.9})],
    }
    expansion = Expansion(policy="cost", per_ply=1.0, per_loss=3.0, per_log_p=0.7, per_move=0.25)
    tree = tree_of(expansion, plies, edges)
    to_b = 1.0 + 0.7 * -math.log(0.6)
    costs = tree.costs()
    assert costs["b"] == pytest.approx(to_b)
    assert costs["d"] == pytest.approx(to_b + 1.0 + 0.7 * -math.log(0.9))
    assert costs["c"] == pytest.approx(1.0 + 3.0 * 0.2 + 0.7 * -math.log(0.2) + 0.25)
    assert present(tree.next_line()).keys[-1] == min("cd", key=lambda name: costs[name])


# ------------------------------------------------------------------ what windows admit
BOARD = chess.Board()
MOVES = ("e2e4", "d2d4", "g1f3", "c2c4", "a2a3")


def known(*cps: float | None, p: float = 0.1, games: int = 0) -> list[Candidate]:
    """Returns candidates of these centipawns, None for one that was not visited."""
    values = [None if number is None else cp(number)[0] for number in cps]
    return [
        Candidate(move, p, 0 if value is None else 9, value, value, games=games)
        for move, value in zip(MOVES, values, strict=False)
    ]


def ruling(*moves: str) -> dict[str, tuple[str, ...]]:
    return {key_text(BOARD): moves}


def rules(verdicts: list[Verdict]) -> dict[str, str]:
    return {v.candidate.move: v.rule for v in verdicts if v.rule}


def asked(window: Window, found: list[Candidate], **more: Any) -> dict[str, str]:
    return rules(decide(config(windows=(window,), max_ply=8, **more), BOARD, 0, found))


def test_of_own_moves_the_best_within_the_window_are_taken() -> None:
    found = known(30, 20, 10, -40, None)
    assert asked(Window(), found) == {"e2e4": "best"}
    assert asked(Window(own_cp=15, own_moves=None), found) == {"e2e4": "best", "d2d4": "own_cp"}
    assert asked(Window(own_cp=25, own_moves=2), found) == {"e2e4": "best", "d2d4": "own_cp"}
    assert asked(Window(own_cp=25, own_moves=None), found).keys() == {"e2e4", "d2d4", "g1f3"}


def test_of_replies_any_test_admits() -> None:
    found = known(30, 20, -100, -100, None)
    assert asked(Window(), found, side="black") == {"e2e4": "best"}
    assert asked(Window(reply_cp=10), found, side="black") == {"e2e4": "best", "d2d4": "reply_cp"}
    likely = [*found[:2], *known(0, 0, -100, p=0.3)[2:3], *found[3:]]
    assert asked(Window(reply_p=0.2), likely, side="black") == {"e2e4": "best", "g1f3": "reply_p"}
    played = [*found[:3], *known(0, 0, 0, -100, games=7)[3:4], *found[4:]]
    assert asked(Window(reply_games=7), played, side="black") == {"e2e4": "best", "c2c4": "reply_games"}
    assert asked(Window(reply_games=8), played, side="black") == {"e2e4": "best"}
    unseen = [*found[:4], *known(0, 0, 0, 0, None, p=0.3)[4:]]
    assert asked(Window(reply_p=0.2), unseen, side="black").keys() == {"e2e4", "a2a3"}


def test_what_a_person_decided_comes_before_windows() -> None:
    found = known(30, 20, 10, 0, None)
    assert asked(Window(), found, forced=ruling("a2a3")) == {"e2e4": "best", "a2a3": "forced"}
    assert asked(Window(), found, excluded=ruling("e2e4")) == {"d2d4": "best"}
    alone = {"forced": ruling("a2a3"), "only": frozenset([key_text(BOARD)])}
    assert asked(Window(), found, **alone) == {"a2a3": "forced"}
    elsewhere = {key_text(chess.Board("4k3/8/8/8/8/8/8/4K2R w - - 0 1")): ("e2e4",)}
    assert asked(Window(), found, excluded=elsewhere) == {"e2e4": "best"}


def test_what_was_taken_stays_unless_it_is_excluded() -> None:
    taken = [known(30, 20)[0], Candidate("d2d4", 0.1, 9, 0.0, -0.5, rule="best")]
    verdicts = decide(config(windows=(Window(),), max_ply=8), BOARD, 0, taken)
    assert rules(verdicts) == {"e2e4": "best", "d2d4": "best"}
    assert verdicts[1].reason.startswith("added before; now loses")
    assert asked(Window(), taken, excluded=ruling("d2d4")) == {"e2e4": "best"}


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
    with pytest.raises(errors.EvaluatorMismatchError):
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
            assert key_text(played(position.fen, [move.move])) == move.child
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
    sql(path, "UPDATE book_position SET outside = 0.2, outside_move = 'b2b4' WHERE ply = 0")
    assert [root.best for root in status(path)[0].roots] == ["b4"], "the book lacks the move of its value"
    key = key_text(chess.Board())
    only = config(text="two", forced={key: ("a2a3",)}, only=frozenset([key]))
    assert built(tmp_path / "only.graph", only, 20).roots[0].best != "a3"


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
    assert (report.ended, report.searched) == ("stop", 1)
    assert report.evaluations == len(first.asked) > 200
    built(tmp_path / "a.graph", found, 150, evaluator=evaluator)
    assert not set(evaluator.asked) & set(first.asked)


def test_an_evaluator_that_fails_ends_the_build_and_loses_nothing(tmp_path: Path) -> None:
    first, second = HashEvaluator(fail_after=100), HashEvaluator()
    with pytest.raises(errors.EvaluatorError, match="out of order"):
        built(tmp_path / "a.graph", config(), evaluator=first)
    built(tmp_path / "a.graph", config(), 100, evaluator=second)
    assert not set(second.asked) & set(first.asked)
    assert sql(tmp_path / "a.graph", "SELECT ended FROM book_run") == [("failed",), ("evaluations",)]


def test_workers_build_a_book_whose_moves_and_values_follow_from_their_records(tmp_path: Path) -> None:
    path, found = tmp_path / "b.graph", config(max_ply=2)
    report = build(path, found, settings=BuildSettings(workers=2))
    assert (report.ended, report.leaves) == ("complete", 0)
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


@pytest.mark.parametrize("name", ["a.graph", "games.graph"])
def test_games_that_are_imported_later_or_merged_count_whatever_their_time(tmp_path: Path, name: str) -> None:
    path, board = tmp_path / "a.graph", chess.Board()
    found = config(side="black", windows=(Window(reply_games=5),), max_ply=2)
    built(path, found)
    assert "a2a4" not in tree_of_file(path, found).positions[key_text(board)].moves
    (tmp_path / "x.pgn").write_text("1. a4 *\n\n" * 5)
    import_files("pgn", tmp_path / name, [GivenFile(str(tmp_path / "x.pgn"))])
    sql(tmp_path / name, "UPDATE source SET finished = '1970-01-01T00:00:00+00:00'")
    merge([tmp_path / name], into=path)
    built(path, found)
    assert tree_of_file(path, found).positions[key_text(board)].moves["a2a4"].rule == "reply_games"


def test_a_merged_book_is_decided_again_by_the_later_configuration(tmp_path: Path) -> None:
    path, found = tmp_path / "a.graph", config(text="two", windows=(Window(own_cp=99, reply_p=0.01),))
    built(path, config(windows=(Window(),)))
    built(tmp_path / "b.graph", found, 40)
    merge([tmp_path / "b.graph"], into=path)
    built(path, found, 40)
    assert admitted_but_missing(path, found) == []


def test_a_reevaluation_renews_a_book_and_the_next_build_decides_by_it(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "a.graph"
    text = '[book]\nname = "b"\nside = "white"\nmax_ply = 3\n[[window]]\nown_cp = 9\n'
    found = replace(parse_config(text, tmp_path, "b"), leaf=SMALL)
    built(path, found, 100)
    cli("reevaluate", path, "--evaluator", "uniform").ends(0)
    tree = tree_of_file(path, found)
    assert status(path)[0].roots[0].value == tree.positions[tree.roots[0]].value == 0.0
    assert {row.priority for row in todo(path, None, top=0).rows} == set(tree.leaf_costs().values())
    assert any(not one.rule for one in why(path, chess.Board()).verdicts if one.admitted)
    (tmp_path / "b.toml").write_text(text)
    words = ("book", "build", tmp_path / "b.toml", "--store", path, "--evaluations", 1)
    cli(*words).ends(0, "is searched with its own evaluator, uniform")
    assert admitted_but_missing(path, found) == []


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
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        analyze(graph, board, Limits(visits=300))
    now = why(path, board)
    by_move = {v.candidate.move: v.candidate.value for v in now.verdicts}
    assert now.at.outside == by_move[present(now.at.outside_move)], "as the table has it"


def test_a_mate_is_shown_in_moves(tmp_path: Path, cli: Cli) -> None:
    path, root = tmp_path / "a.graph", Root(after_line("f3 e5 g4"), "root 1")
    text = '[book]\nside = "white"\nmax_ply = 4\n'
    built(path, config(text=text, max_ply=4, roots=(root,)))
    shown = cli("book", "why", "1. f3 e5 2. g4", "--store", path).ends(0).out
    assert "127.80" not in shown
    assert "Score: #-1 " in shown
    assert "root 1: #-1, best Qh4#" in cli("book", "status", "--store", path).out
    assert "open, ply 3, #-1, 1 move" in cli("show", "1. f3 e5 2. g4", "--store", path).out


def test_what_no_root_leads_to_is_set_apart_and_comes_back(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "a.graph"
    two = (Root(chess.Board(), "root 9"), Root(after_line("a4"), "root 10"))
    first = built(path, config(roots=two, max_ply=2))
    assert [root.origin for root in status(path)[0].roots] == ["root 9", "root 10"]
    fewer = built(path, config(text='[book]\nside = "white"\nmax_ply = 2', max_ply=2))
    why = cli("book", "why", "1. a4", "--store", path).ends(0).out
    assert "ply 1: no root leads here any more; searched 1 time, 2" in why
    assert "Line: none" in why
    assert fewer.positions < first.positions
    found = cli("book", "status", "--store", path, "--json").json["books"][0]
    assert (found["apart"], found["leaf"]) == (first.positions - fewer.positions, 0)
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
    settings = BuildSettings(evaluations=800)
    build(book, parse_config(TOML, tmp_path, "white.toml"), settings=settings, evaluator=HashEvaluator())
    target, whole = tmp_path / "b.bin", tmp_path / "all.bin"
    report = export("polyglot", book, target, Selection(book="white", admits=admitted_moves))
    export("polyglot", book, whole, Selection(book="white"))
    root = after_line("d4 Nf6 c4 e6")
    admitted, kept = walked(book, root, keeps_all=False), walked(book, root, keeps_all=True)
    assert all(len(moves) == 1 for _, moves in admitted)  # own_moves = 1
    assert any(len(moves) > 1 for _, moves in kept)
    assert all(exported(target, board) == moves for board, moves in admitted)
    assert all(exported(whole, board) == moves for board, moves in kept)
    own = {chess.polyglot.zobrist_hash(board) for board, _ in admitted}
    before = {chess.polyglot.zobrist_hash(after_line(line)) for line in ("", "d4 Nf6")}
    with chess.polyglot.open_reader(target) as reader:
        assert {entry.key for entry in reader} == own | before
    assert report.left_out["moves_not_admitted"] > 0
    assert exported(target, chess.Board()) == {"d2d4"}
    assert exported(target, after_line("d4 Nf6")) == {"c2c4"}


# ------------------------------------------------------------------ the queue
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
    with pytest.raises(errors.InvalidParameterError, match="no item 9"):
        drop(graph, [3, 9])
    assert [item.id for item in items(graph, state="waiting")] == [3]
    assert drop_all(graph, book="black") == 0
    assert drop_all(graph, book="white") == 1
    assert drop_all(graph) == 0


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
        with pytest.raises(errors.StoreLockedError):
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


def test_a_position_outside_becomes_a_root_and_a_known_one_is_searched_again(path: Path) -> None:
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
    one, two = NewItem(chess.STARTING_FEN, ("e2e4",)), NewItem(chess.STARTING_FEN, ("d2d4", "d7d5"))
    add(path, [one, NewItem(late.fen()), two])
    sql(path, "UPDATE book_queue SET moves = 'd2d5' WHERE id = 3")
    sql(path, "INSERT INTO book_queue (fen, moves, origin, added) VALUES ('nonsense', '', 'x', 'now')")
    excluded = {key_text(chess.Board()): ("e2e4",)}
    built(path, config(text="two", max_ply=8, excluded=excluded), 40)
    found = states(path)
    assert [state for state, _ in found.values()] == ["refused"] * 4
    for number, words in enumerate(("e4 is excluded", "max_ply", "d2d5", "cannot be read"), 1):
        assert words in (found[number][1] or "")


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
    board = after_line("e4")
    sql(tmp_path / "a.graph", "UPDATE book_root SET key = ?, fen = ?", key_text(board), board.fen())
    (row, *_) = todo(tmp_path / "a.graph", None).rows
    assert (row.line, row.item.fen, row.item.moves) == ("1. e4 c5", chess.STARTING_FEN, ("e2e4", "c7c5"))


def test_an_item_brings_no_move_before_its_root_into_the_book(tmp_path: Path) -> None:
    path, board = tmp_path / "a.graph", after_line("a4 a5 h4")
    text = '[[root]]\nfen = "startpos"\n[[root]]\nmoves = "1. a4 a5 2. h4"\n'
    two = config(text=text, max_ply=8, roots=(Root(chess.Board(), "root 1"), Root(board, "root 2")))
    built(path, two, 100)
    leaves = [row for row in todo(path, "b", top=0).rows if row.root == board.fen()]
    assert leaves
    assert all(row.line.startswith("1. a4 a5 2. h4") for row in leaves)
    add(path, [row.item for row in leaves], book="b")
    before = tree_of_file(path, two).positions[key_text(chess.Board())].moves
    built(path, two, 20 * len(leaves))
    after = tree_of_file(path, two).positions[key_text(chess.Board())].moves
    assert "a2a4" not in before
    assert after.keys() == before.keys()
    assert {state for state, _ in states(path).values()} == {"done"}


@pytest.mark.parametrize("wrong", [{"kind": "x"}, {"top": -1}, {"min_games": 0}])
def test_what_to_do_is_asked_with_a_known_kind_and_numbers_in_range(graph: Path, wrong: Any) -> None:
    with pytest.raises(errors.InvalidParameterError):
        todo(graph, None, **wrong)


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
