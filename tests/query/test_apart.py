"""Moves that were searched apart: every view of the position knows what was found behind them."""

from __future__ import annotations

import shutil
from pathlib import Path

import chess
import chess.pgn
import chess.polyglot
import pytest

from graphsearch import Graph, Limits, analyze, show
from graphsearch.exchange.exports import export
from graphsearch.graph.view import MoveView, NodeView
from graphsearch.position.board import fen_of
from graphsearch.position.values import negate
from graphsearch.query.diff import diff
from graphsearch.query.find import Filters, find
from graphsearch.query.history import history
from graphsearch.query.line import pv, values
from graphsearch.query.position import moves, position
from graphsearch.query.tree import tree
from graphsearch.store.ranking import node_mean
from graphsearch.store.store import Store

from ..conftest import Cli, present
from ..support.positions import after_line
from ..support.reference import HashEvaluator

BOARD = chess.Board()
BETTER = chess.Move.from_uci("b1a3")  # by the values of this evaluator
VISITS = 200  # of all moves, and of each move apart


def view_of(path: Path, board: chess.Board = BOARD) -> NodeView:
    return present(show(path, board))


def row(node: NodeView, move: chess.Move) -> MoveView:
    return next(one for one in node.moves if one.move == move)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Returns a file, and the same after a search of some moves only, of which BETTER is the best."""
    folder = tmp_path_factory.mktemp("apart")
    before, after = folder / "before.graph", folder / "after.graph"
    with Graph.open(before, evaluator=HashEvaluator()) as graph:
        analyze(graph, BOARD, Limits(visits=VISITS))
    shutil.copy(before, after)
    with Graph.open(after, evaluator=HashEvaluator()) as graph:
        for move in (BETTER, chess.Move.from_uci("g1f3")):
            analyze(graph, BOARD, Limits(visits=VISITS), searchmoves=[move])
    first = view_of(before).moves[0]
    assert (first.q or 0.0) < (row(view_of(after), BETTER).q or 0.0)
    return before, after


def test_show_takes_visits_and_value_from_the_position_behind_the_move(files: tuple[Path, Path]) -> None:
    before, after = files
    with Store.open(after, read_only=True) as store:
        behind, record = present(store.read(after_line("Na3"))), present(store.read(BOARD))
    old, new = view_of(before), view_of(after)
    shown = row(new, BETTER)
    assert (shown.n, shown.apart) == (behind.visits, True)
    assert shown.n > VISITS > row(old, BETTER).n
    assert shown.q == pytest.approx(negate(node_mean(behind)[0]), abs=1e-6)
    assert new.moves[0].move == BETTER
    assert (new.visits, new.q) == (record.visits, node_mean(record)[0])
    assert new.visits == old.visits
    assert not row(new, old.moves[0].move).apart


def test_every_view_follows_the_better_move(files: tuple[Path, Path], tmp_path: Path) -> None:
    before, after = files
    old, uci = view_of(before).moves[0].move, BETTER.uci()
    (line,) = pv(after, BOARD).lines
    step = line.plies[0].step
    assert (step.move.uci(), step.edge.apart) == (uci, True)
    branch = tree(after, BOARD).root.branches[0]
    assert (branch.move, branch.apart) == (uci, True)
    assert moves(after, BOARD).moves[0].view.move == BETTER
    assert present(position(after, BOARD).moves).node.moves[0].move == BETTER
    assert history(after, BOARD).points[-1].best_move == uci
    game = BOARD.copy()
    game.push(old)
    point = values(after, game).points[0]
    assert point.best == uci
    assert present(point.loss) > 0
    target = tmp_path / "out.pgn"
    export("pgn", after, target)
    with target.open() as text:
        read = present(chess.pgn.read_game(text))
    assert read.variations[0].move == BETTER
    book = tmp_path / "out.bin"
    export("polyglot", after, book)
    with chess.polyglot.open_reader(book) as entries:
        heaviest = max(entries.find_all(BOARD), key=lambda entry: entry.weight)
    assert heaviest.weight == row(view_of(after), heaviest.move).n
    (hit,) = [one for one in find(after, Filters(min_n=VISITS)) if one.position == fen_of(BOARD)]
    assert hit.worth.best_san == BOARD.san(BETTER)
    changed = diff(before, after)
    (change,) = [one for one in changed.changes if one.position == fen_of(BOARD)]
    assert (change.old.best_move, change.new.best_move) == (old.uci(), uci)


def test_a_worse_move_shows_its_visits_and_does_not_lead(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        result = analyze(graph, BOARD, Limits(visits=VISITS))
        worst = min((one for one in result.node.moves if one.n > 1), key=lambda one: one.q or 0.0)
        analyze(graph, BOARD, Limits(visits=5 * VISITS), searchmoves=[worst.move])
        found = present(show(graph, BOARD))  # in memory as in the file, whose values are brought up to date
    assert [move.n for move in found.moves] == [move.n for move in view_of(path).moves]
    shown = row(view_of(path), worst.move)
    assert shown.apart
    assert shown.n > 5 * VISITS
    assert (view_of(path).moves[0].q or 0.0) > (shown.q or 0.0)
    assert view_of(path).moves[0].move == result.bestmove


def test_commands_say_what_was_searched_apart(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    cli("analyze", "startpos", "--visits", 100, "--store", path)
    searched = cli("analyze", "startpos", "--visits", 300, "--searchmoves", "a4", "--store", path).out
    heading = next(line for line in searched.splitlines() if "White to move" in line)
    assert heading in cli("show", path).out.splitlines()
    for words in (["show", path], ["lines", path, "--lines", 0], ["tree", path]):
        lines = [line for line in cli(*words).out.splitlines() if "searched apart" in line]
        assert len(lines) == 1
        assert "a4" in lines[0]
        assert " 30" in lines[0]
