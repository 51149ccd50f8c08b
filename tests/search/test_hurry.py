"""Searches that wait for nothing, batches as large as is wanted, and the line that an evaluator is told."""

from __future__ import annotations

import itertools
import time
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.assess import assess_boards
from graphsearch.evaluators.factory import CombinedEvaluator
from graphsearch.evaluators.pool import PooledEvaluator
from graphsearch.evaluators.protocol import LINE_PLIES, OUTSIDE_BATCH, Evaluation, Lines, PositionBatch
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.graph.view import show
from graphsearch.position.board import after, key_of, pack
from graphsearch.search.job import Control, SearchClock
from graphsearch.search.params import GATHERERS
from graphsearch.store.store import Store
from tests.conftest import ROOT
from tests.support import evaluators, graphs, positions, reference


@pytest.mark.usefixtures("nothing_saved_meanwhile")
def test_a_search_in_a_hurry_is_saved_when_there_is_time(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    board = chess.Board()
    with Graph.open(path, evaluator=reference.HashEvaluator()) as graph:
        graph.tables_meanwhile = False
        result = analyze(graph, board, Limits(visits=300), hurry=True)
        assert result.visits >= 300
        assert show(path, board) is None
        while not graph.save_soon():
            time.sleep(0.01)
        node = show(path, board)
        assert node is not None
        assert node.visits == result.visits
        with Store.open(path, read_only=True) as store:
            (run,) = store.runs()
            assert (run.visits, run.evaluations) == (result.visits, result.evaluations)
            assert not store.roots()
    with Store.open(path, read_only=True) as store:
        assert len(store.runs()) == 1


def test_closing_saves_what_a_search_in_a_hurry_left(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    with Graph.open(path, evaluator=reference.HashEvaluator()) as graph:
        for line in ("", "e4"):
            analyze(graph, positions.after_line(line), Limits(visits=100), hurry=True)
        whole = graphs.records_below(graph, chess.Board())
    with Graph.open(path, evaluator=reference.HashEvaluator()) as graph:
        again = graphs.records_below(graph, chess.Board())
    assert again == whole
    with Store.open(path, read_only=True) as store:
        assert [run.id for run in store.runs()] == [1, 2]
        assert len(store.roots()) == 2
        asked = {int(run) for batch in store.scan() for run in batch.run}
    assert asked == {1, 2}, "every record names the run that made it"


class SizedEvaluator(reference.HashEvaluator):
    """Notes the size of every batch."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        self.sizes.append(len(batch))
        return super().evaluate(batch)


def test_no_batch_is_larger_than_the_pace_allows_and_nothing_is_asked_twice() -> None:
    evaluator, sizes = SizedEvaluator(), itertools.cycle([1, 2, 1, 4, 1, 8])
    asked: list[tuple[int, float]] = []

    def pace(leaves: int, seconds: float) -> int:
        asked.append((leaves, seconds))
        return next(sizes)

    with Graph.open(None, evaluator=evaluator) as graph:
        analyze(graph, chess.Board(), Limits(visits=300), SearchParams(minibatch_size=64), pace=pace)
        graphs.check_invariants(graph, chess.Board())
    assert max(evaluator.sizes) == 8
    assert {leaves for leaves, _ in asked} <= set(evaluator.sizes) | {0}
    assert all(seconds > 0 for leaves, seconds in asked if leaves)
    assert len(evaluator.asked) == len(set(evaluator.asked))


# ------------------------------------------------------------------ the default batch
def test_an_evaluator_outside_the_kernels_gets_as_many_as_it_wants() -> None:
    evaluator = SizedEvaluator()
    with Graph.open(None, evaluator=evaluator) as graph:
        analyze(graph, chess.Board(), Limits(visits=1500))
    assert max(evaluator.sizes) == OUTSIDE_BATCH
    evaluator.batch_size, evaluator.sizes = 4, []
    with Graph.open(None, evaluator=evaluator) as graph:
        analyze(graph, chess.Board(), Limits(visits=300))
    assert max(evaluator.sizes) == 4


def test_a_slow_report_is_followed_by_an_interval_without_one() -> None:
    reports = []

    def report(seconds: float) -> None:
        reports.append(seconds)
        time.sleep(0.3)

    clock = SearchClock(Limits(), Control(on_progress=report, interval=0.2))
    while not reports:
        clock.tell(lambda: clock.seconds)
    clock.tell(lambda: clock.seconds)
    assert len(reports) == 1


# ------------------------------------------------------------------ the line that reached a leaf
SHUFFLES = "Nf3 Nf6 Ng1 Ng8 e3 e6 Nf3 Nf6 Ng1"  # Black to move may repeat the position after e6
BOARDS = [positions.after_line(line) for line in ("e4", "e4 e5", SHUFFLES, "d4 d5")]


def searched(board: chess.Board, visits: int = 200, **fields: Any) -> evaluators.LineEvaluator:
    evaluator = evaluators.LineEvaluator()
    with Graph.open(None, evaluator=evaluator) as graph:
        analyze(graph, board, Limits(visits=visits), SearchParams(**fields))
    return evaluator


def same(a: Lines, b: Lines) -> bool:
    return np.array_equal(a.words, b.words) and np.array_equal(a.repeated, b.repeated)


def steps(here: chess.Board, there: chess.Board) -> list[chess.Move]:
    """Returns the legal moves from one position to another."""
    moves = here.generate_legal_moves(from_mask=here.occupied & ~there.occupied)
    return [move for move in moves if np.array_equal(pack(after(here, move)), pack(there))]


def replayed(root: chess.Board, boards: list[chess.Board]) -> chess.Board | None:
    """Returns the game with the line added, None if the root is no longer among the line's positions."""
    at = next((i for i, board in enumerate(boards) if key_of(board) == key_of(root)), None)
    if at is None:
        return None
    board = root.copy()
    for here, there in zip(boards[at:], boards[at + 1 :], strict=False):
        board.push(steps(here, there)[0])
    return board


@pytest.mark.parametrize(
    ("sans", "fields"),
    [
        ("", {"minibatch_size": 1}),
        (SHUFFLES, {"minibatch_size": 1}),
        *((SHUFFLES, {"minibatch_size": 32, "gather": gather}) for gather in GATHERERS),
        (SHUFFLES, {"minibatch_size": 32, "overlap": 0}),
    ],
    ids=str,
)
def test_a_leaf_has_the_line_that_reached_it(sans: str, fields: dict[str, Any]) -> None:
    board, known = positions.after_line(sans), 0
    for lines in searched(board, 60, **fields).lines.values():
        boards = evaluators.boards_of(lines)
        assert all(steps(a, b) for a, b in pairwise(boards))
        whole = replayed(board, boards)
        if whole is None:
            assert len(boards) == LINE_PLIES
            continue
        known += 1
        assert same(lines, Lines.from_boards([whole])), whole.fen()
    assert known > 15


def test_a_repetition_may_lie_further_back_than_the_line() -> None:
    moves = "Ra2 Ke7 Ra3 Ke6 Ra4 Ke7 Ra5 Ke8 Ra6 Kd8 Ra1 Ke8"
    board = positions.after_line(moves, "4k3/8/8/8/8/8/8/R3K3 w - - 0 1")
    assert Lines.from_boards([board]).repeated[0].tolist() == [True] + 7 * [False]
    (lines,) = searched(board, visits=1).lines.values()
    assert lines.repeated[0].tolist() == [True] + 7 * [False]


def test_a_line_begins_with_the_game_before_the_root() -> None:
    for board, count in ((game := positions.after_line("e4 c5 Nf3 d6 d4"), 6), (game.copy(stack=False), 1)):
        lines = searched(board, visits=1).lines[key_of(board)]
        assert same(lines, Lines.from_boards([board]))
        assert len(evaluators.boards_of(lines)) == count
        evaluator = evaluators.LineEvaluator()
        list(assess_boards(evaluator, [board]))
        assert same(evaluator.lines[key_of(board)], lines)


def test_who_comes_later_shares_what_the_first_line_was_told() -> None:
    first, second = positions.after_line("e3 e6 d3"), positions.after_line("d3 e6 e3")
    assert key_of(first) == key_of(second)
    evaluator = evaluators.LineEvaluator()
    with Graph.open(None, evaluator=evaluator) as graph:
        for board in (first, second):  # asked twice, LineEvaluator would fail
            analyze(graph, board, Limits(visits=1), SearchParams(minibatch_size=1))
    assert same(evaluator.lines[key_of(first)], Lines.from_boards([first]))
    assert not same(evaluator.lines[key_of(first)], Lines.from_boards([second]))


def test_parts_of_an_evaluator_and_workers_get_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    batch = PositionBatch.from_boards(BOARDS, with_lines=True)
    expected = evaluators.LineEvaluator().evaluate(batch).wdl
    both = CombinedEvaluator(UniformEvaluator(), evaluators.LineEvaluator())
    assert both.wants_lines
    assert np.array_equal(both.evaluate(batch).wdl, expected)
    both.close()
    with PooledEvaluator(partial(evaluators.LineEvaluator), 2) as pool:
        assert pool.wants_lines
        assert np.array_equal(pool.evaluate(batch).wdl, expected)
