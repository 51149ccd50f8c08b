"""Second opinions beside the records, and where they differ most."""

from __future__ import annotations

import threading
from pathlib import Path

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.base.errors import EvaluatorError, InvalidParameterError, StoreError, UnfinishedError
from graphsearch.graph.sweeps.opinions import OpinionProgress, second_opinion
from graphsearch.graph.sweeps.reevaluate import reevaluate
from graphsearch.position.board import fen_of, key_of, legal_moves, unpack
from graphsearch.position.fens import fens
from graphsearch.query.disagree import disagree
from graphsearch.store.record.node import prior_order, priors_from_codes
from graphsearch.store.store import Store
from graphsearch.store.tables import opinions
from graphsearch.store.tables.opinions import Opinion
from graphsearch.store.upkeep.prune import prune
from graphsearch.store.upkeep.verify import verify

from ...store.records import batch_of, random_records
from ...support.counting import CountingEvaluator
from ...support.reference import HashEvaluator
from .test_reevaluate import answers_of, is_evaluated, stopped
from .test_reevaluate import old as old
from .test_reevaluate import small_batches as small_batches
from .test_refresh import Records, records_of


def rows_of(path: Path, name: str = "other") -> dict[int, Opinion]:
    """Returns the opinions of an evaluator by key."""
    with Store.open(path, read_only=True) as store:
        numbers = [k for k, identity in store.evaluators().items() if identity.kind == name]
        return {
            int(row.key, 16): row for number in numbers for row in opinions.ranked(store, number, "value", 1)
        }


def evaluable(records: Records) -> Records:
    """Returns the records that an evaluator has a say in: not those that the rules decide."""
    return {key: pair for key, pair in records.items() if is_evaluated(pair[1])}


def search_more(path: Path, visits: int = 100) -> None:
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        analyze(graph, chess.Board(), Limits(visits=visits), SearchParams(minibatch_size=8))


def test_fens_in_bulk_are_those_of_python_chess() -> None:
    words = batch_of(random_records(4, 150)).words
    assert fens(words) == [fen_of(unpack(row)) for row in words.tolist()]
    assert any(fen.split()[3] != "-" for fen in fens(words)), "en passant is among them"
    assert fens(words[:0]) == []


# ------------------------------------------------------------------ giving them
def test_every_position_gets_a_row_and_no_record_changes(old: Path) -> None:
    before, evaluator = records_of(old), CountingEvaluator("other")
    report = second_opinion(old, evaluator)
    assert records_of(old) == before
    rows = rows_of(old)
    assert rows.keys() == evaluable(before).keys()
    assert report.finished
    assert report.evaluated == report.positions == report.done == len(rows) == len(evaluator.asked)
    answers = answers_of(CountingEvaluator("other"), before)
    for key, row in rows.items():
        board, record = before[key]
        v, d, codes = answers[key]
        moves = legal_moves(board)
        assert (row.second_q, row.second_draw, row.policy) == (v, d / 1000, codes), row.fen
        assert (row.q, row.draw, row.n) == (record.v, record.d / 1000, record.visits)
        assert row.best_move == moves[record.order[0]].uci()
        assert row.second_best_move == moves[prior_order(codes)[0]].uci()
        assert key_of(chess.Board(row.fen)) == key
    assert verify(old).problems == []
    search_more(old)


def test_what_has_an_opinion_is_not_asked_about_again_and_its_visits_are_brought_up_to_date(
    old: Path,
) -> None:
    evaluator = CountingEvaluator("other")
    second_opinion(old, evaluator)
    again = second_opinion(old, evaluator)
    assert (again.evaluated, again.updated) == (0, 0)
    search_more(old)
    later = second_opinion(old, evaluator)
    assert later.evaluated > 0
    assert later.updated > 0
    assert len(set(evaluator.asked)) == len(evaluator.asked)
    records, rows = records_of(old), rows_of(old)
    assert {key: row.n for key, row in rows.items()} == {
        k: r.visits for k, (_, r) in evaluable(records).items()
    }


@pytest.mark.usefixtures("small_batches")
def test_the_most_visited_come_first_and_a_stop_keeps_what_there_is(old: Path) -> None:
    search_more(old)
    stop, evaluator = threading.Event(), CountingEvaluator("other")

    def after_forty(now: OpinionProgress) -> None:
        if now.evaluated >= 40:
            stop.set()

    report = second_opinion(old, evaluator, stop=stop, on_progress=after_forty)
    assert not report.finished
    assert report.done == report.evaluated == len(rows_of(old)) == len(evaluator.asked)
    rows = rows_of(old)
    left = [record.visits for key, (_, record) in evaluable(records_of(old)).items() if key not in rows]
    assert max(len(str(n)) for n in left) <= min(len(str(row.n)) for row in rows.values()), "by powers of ten"
    assert second_opinion(old, evaluator).finished
    assert len(set(evaluator.asked)) == len(evaluator.asked)


def test_an_opinion_that_takes_the_place_of_the_first_is_not_paid_again(
    old: Path,
) -> None:
    evaluator = CountingEvaluator("other")
    given = second_opinion(old, evaluator, min_visits=3)
    expected = {key for key, (_, record) in evaluable(records_of(old)).items() if record.visits >= 3}
    assert rows_of(old).keys() == expected
    assert given.positions == len(expected)
    report = reevaluate(old, evaluator)
    assert report.reused > 0
    assert report.reused + report.evaluated == len(evaluable(records_of(old)))
    assert len(set(evaluator.asked)) == len(evaluator.asked)
    records = evaluable(records_of(old))
    answers = answers_of(CountingEvaluator("other"), records)
    assert {key: (r.v, r.d, r.codes) for key, (_, r) in records.items()} == answers


@pytest.mark.usefixtures("small_batches")
def test_what_makes_no_sense_is_refused(old: Path) -> None:
    with pytest.raises(EvaluatorError, match="that of another evaluator"):
        second_opinion(old, HashEvaluator())
    with pytest.raises(InvalidParameterError, match="at least 1"):
        second_opinion(old, CountingEvaluator("other"), min_visits=0)
    with pytest.raises(StoreError, match=r"no second opinions; `graphsearch reevaluate .* --second-opinion"):
        disagree(old)
    for top, least in ((0, 1), (1, 0)):
        with pytest.raises(InvalidParameterError):
            disagree(old, top=top, min_visits=least)
    with pytest.raises(InvalidParameterError, match="value or policy"):
        disagree(old, by="size")
    stopped(old, CountingEvaluator("other"), 40)
    with pytest.raises(UnfinishedError):
        second_opinion(old, CountingEvaluator("third"))


@pytest.mark.usefixtures("small_batches")
def test_an_evaluator_that_fails_leaves_what_it_answered(old: Path) -> None:
    evaluator = CountingEvaluator("other", fail_after=70)
    with pytest.raises(EvaluatorError, match="out of order"):
        second_opinion(old, evaluator)
    assert 48 <= len(rows_of(old)) <= 70


# ------------------------------------------------------------------ where they differ
@pytest.mark.parametrize("by", ["value", "policy"])
def test_the_largest_differences_weighted_by_visits_come_first(old: Path, by: str) -> None:
    evaluator = CountingEvaluator("other")
    second_opinion(old, evaluator)
    weights = {}
    records = evaluable(records_of(old))
    for key, (v, _, codes) in answers_of(evaluator, records).items():
        board, record = records[key]
        p, other = record.priors, priors_from_codes(codes)
        policy = 0.5 * sum(abs(a - b) for a, b in zip(p, other, strict=True))
        weights[board.epd()] = record.visits * (abs(record.v - v) if by == "value" else policy)
    found = disagree(old, by=by, top=12)
    expected = sorted(weights.values(), reverse=True)[:12]
    assert [row.weight for row in found.rows] == pytest.approx(expected)
    for row in found.rows:
        assert weights[chess.Board(row.position).epd()] == pytest.approx(row.weight)
    assert found.opinions == len(weights)
    assert (found.first.kind, found.second.kind, found.lost) == ("hash", "other", 0)


def test_rows_are_as_the_records_are_now(old: Path) -> None:
    second_opinion(old, CountingEvaluator("other"))
    search_more(old)
    records = records_of(old)
    for row in disagree(old, top=10).rows:
        board = chess.Board(row.position)
        record = records[key_of(board)][1]
        assert row.n == record.visits
        assert row.q == record.v
        assert row.best_move == board.san(legal_moves(board)[record.order[0]])
        assert row.weight == pytest.approx(row.n * row.difference)


def test_positions_that_left_the_file_are_counted(old: Path) -> None:
    second_opinion(old, CountingEvaluator("other"))
    prune(old, 2)
    found = disagree(old, top=1000)
    assert found.lost > 0
    assert all(row.n >= 2 for row in found.rows)


def test_the_evaluator_is_named_by_number_kind_or_description(old: Path) -> None:
    for name in ("other", "third"):
        second_opinion(old, CountingEvaluator(name))
    assert len(rows_of(old, "other")) == len(rows_of(old, "third")) > 100
    assert rows_of(old, "other") != rows_of(old, "third")
    assert disagree(old, "other").second.kind == "other"
    assert disagree(old, "3").second.kind == "third"
    for wanted in (None, "nobody"):
        with pytest.raises(InvalidParameterError, match="2: other, 3: third"):
            disagree(old, wanted)
