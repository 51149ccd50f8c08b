"""Sets of positions: what is searched, what is solved, and what the same command does again."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import chess
import pytest

from graphsearch.base.errors import ExportError
from graphsearch.book.review.sets import SetRow, SetSettings, read_lines, search_set
from graphsearch.evaluators.factory import EvaluatorSpec
from graphsearch.exchange.epd_import import read_epd
from graphsearch.search.params import Limits

from ...support.reference import HashEvaluator

SET = """# mates and others
6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - bm Rd8#; id "mate";
6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - am Rd8#; id "not the mate";
rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - c0 "e4=10, d4=9, a3=1"; id "points";
nonsense
7k/8/8/8/8/8/8/K7 w - - bm Zz9;
7k/6Q1/6K1/8/8/8/8/8 b - - id "over";
"""


class Searcher:
    """Searches the set in one graph file."""

    def __init__(self, folder: Path) -> None:
        self.store, self.output = folder / "a.graph", folder / "out.epd"
        self.evaluator = HashEvaluator()
        self.rows: list[SetRow] = []

    def __call__(self, limits: Limits, *, stop: threading.Event | None = None, at: int | None = None) -> int:
        """Searches; `at`: sets the stop after so many rows. Returns the evaluations."""
        self.rows = []
        stop = stop or threading.Event()
        lines, _ = read_lines(io.BytesIO(SET.encode()), "a.epd")

        def keep(row: SetRow) -> None:
            self.rows.append(row)
            if len(self.rows) == at:
                stop.set()

        settings = SetSettings(limits=limits, output=self.output)
        report = search_set(self.store, lines, settings, evaluator=self.evaluator, stop=stop, on_row=keep)
        self.report = report
        return report.evaluations


@pytest.fixture
def searcher(tmp_path: Path) -> Searcher:
    return Searcher(tmp_path)


def test_solved_counts_and_points_are_those_of_the_best_moves(searcher: Searcher) -> None:
    searcher(Limits(visits=200))
    mate, avoided, points = searcher.rows
    assert (mate.best, mate.mate, mate.solved) == ("d1d8", 1, True)
    assert (avoided.best, avoided.solved) == ("d1d8", False)
    assert points.solved is None
    assert points.most_points == 10
    assert points.points == {"e2e4": 10, "d2d4": 9, "a2a3": 1}.get(points.best or "", 0)
    assert (searcher.report.solved, searcher.report.judged) == (1, 2)
    for row in searcher.rows:
        assert (row.solved_evaluations is None) == (not row.solved)
        if row.solved_evaluations is not None and row.solved_seconds is not None:
            assert 0 <= row.solved_evaluations <= row.evaluations
            assert row.solved_seconds <= row.seconds


@pytest.mark.parametrize(
    "limits", [Limits(visits=100), Limits(evaluations=50), Limits(visits=10**6, seconds=0.05)]
)
def test_the_same_search_again_evaluates_nothing_and_finds_the_same(
    searcher: Searcher, limits: Limits
) -> None:
    assert searcher(limits)
    rows, text = searcher.rows, searcher.output.read_text()
    assert searcher(limits) == 0
    assert [row.as_dict() | {"known": False} for row in searcher.rows] == [
        row.as_dict() | {"known": False} for row in rows
    ]
    assert searcher.output.read_text() == text
    assert searcher.report.known == 3


def test_a_stopped_set_resumes_with_the_position_that_it_left(searcher: Searcher) -> None:
    searcher(Limits(visits=100), at=1)
    assert (searcher.report.stopped, len(searcher.rows)) == (True, 1)
    assert not searcher.output.exists()
    searcher(Limits(visits=100))
    assert (searcher.report.stopped, searcher.rows[0].known) == (False, True)
    asked = searcher.evaluator.asked
    assert len(asked) == len(set(asked))


def test_the_written_lines_keep_their_operations_and_have_the_results(searcher: Searcher) -> None:
    searcher(Limits(visits=100))
    first, _, third = searcher.output.read_text().splitlines()
    found = read_epd(first).operations
    assert (found["id"], found["bm"], found["dm"], found["ce"]) == ("mate", ["d1d8"], 1, 32766)
    assert found["pv"] == ["d1d8"]
    assert chess.Board().set_epd(third)["acn"] == searcher.rows[2].visits  # python-chess reads it, too
    searcher.output = searcher.store
    with pytest.raises(ExportError):
        searcher(Limits(visits=100))


def test_workers_search_a_set_and_rows_come_in_its_order() -> None:
    lines, _ = read_lines(io.BytesIO(SET.encode()), "a.epd")
    rows: list[SetRow] = []
    settings = SetSettings(limits=Limits(visits=50), workers=2)
    report = search_set(
        None, lines, settings, evaluator=EvaluatorSpec(evaluator="uniform"), on_row=rows.append
    )
    assert (report.done, report.solved, report.stopped) == (3, 1, False)
    assert [row.line for row in rows] == [line.number for line in lines]
    assert rows[2].visits >= 50
