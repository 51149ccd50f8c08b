"""The ledger of positions, and what becomes of two versions of a record: no processes needed."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from math import inf
from pathlib import Path

import chess
import numpy as np
import pytest

from graphsearch.book.workers.ledger import LeaseHolder, Ledger
from graphsearch.book.workers.messages import LeaseReply, LeaseRequest, Publish, Updates
from graphsearch.book.workers.writer import Merged, merged, tightened
from graphsearch.evaluators.protocol import Evaluation, PositionBatch
from graphsearch.position.board import legal_moves, pack
from graphsearch.position.values import D_SCALE
from graphsearch.store.record.node import UNPROVEN, Edge, NodeRecord, RecordBatch
from graphsearch.store.record.ranking import visits_of
from graphsearch.store.store import Store

from ..support.pools import games, until
from ..support.reference import HashEvaluator

BATCH = PositionBatch.from_boards(games(6))
TRUTH = HashEvaluator().evaluate(BATCH)


def ask(
    ledger: Ledger, holder: LeaseHolder, batch: PositionBatch = BATCH, *, waits: bool = False
) -> LeaseReply:
    return ledger.ask(holder, LeaseRequest(batch.words, waits))


def publish(
    ledger: Ledger,
    holder: LeaseHolder,
    batch: PositionBatch = BATCH,
    *,
    bounds: list[list[int]] | None = None,
) -> None:
    found = HashEvaluator().evaluate(batch)
    proven = None if bounds is None else np.array(bounds, np.int8)
    ledger.publish(holder, Publish(batch, Evaluation(found.wdl, found.priors, proven), 0.01))


def part(*rows: int) -> PositionBatch:
    chosen = np.zeros(len(BATCH), bool)
    chosen[list(rows)] = True
    return BATCH.rows(chosen)


def searching(ledger: Ledger, number: int) -> LeaseHolder:
    holder = ledger.enter(number)
    ledger.begins(holder)
    return holder


def begun() -> tuple[Ledger, LeaseHolder, LeaseHolder]:
    ledger = Ledger()
    return ledger, searching(ledger, 0), searching(ledger, 1)


def published() -> tuple[Ledger, LeaseHolder, LeaseHolder]:
    """Returns a ledger with two who search, the first of whom has published all."""
    ledger, one, two = begun()
    ask(ledger, one)
    publish(ledger, one)
    return ledger, one, two


def test_a_position_is_leased_to_the_first_who_asks_and_to_nobody_else() -> None:
    ledger, one, two = begun()
    assert ask(ledger, one, part(0, 1, 2)).mine.all()
    found = ask(ledger, two)
    assert found.mine.tolist() == [False] * 3 + [True] * 3
    assert not len(found.known)


@pytest.mark.parametrize("is_late", [False, True])
def test_what_was_published_is_handed_out_bit_by_bit(is_late: bool) -> None:
    ledger, one, two = begun()
    ask(ledger, one)
    if is_late:
        ledger.release(one)
    publish(ledger, one)
    found = ask(ledger, two)
    assert found.known.tolist() == list(range(6))
    assert found.evaluation.wdl.tobytes() == TRUTH.wdl.tobytes()
    assert found.evaluation.priors.tobytes() == TRUTH.priors.tobytes()
    assert found.evaluation.bounds is None


def test_the_clock_of_a_position_does_not_make_it_another_one_but_its_proof_holds_to_that_clock() -> None:
    ledger, one, two = begun()
    boards = games(2)
    later = [board.copy() for board in boards]
    for board in later:
        board.halfmove_clock += 9
    batch, after = PositionBatch.from_boards(boards), PositionBatch.from_boards(later)
    ask(ledger, one, batch)
    publish(ledger, one, batch, bounds=[[1, 1], [0, 0]])
    found = ask(ledger, two, after)
    assert found.known.tolist() == [0, 1]
    assert found.evaluation.bounds is not None
    assert found.evaluation.bounds.tolist() == [[0, 1], [0, 0]]


def waiting(ledger: Ledger, holder: LeaseHolder, batch: PositionBatch = BATCH) -> Future[LeaseReply]:
    """Returns the answer to one who waits for it on a thread."""
    pool = ThreadPoolExecutor(1)
    found = pool.submit(ask, ledger, holder, batch, waits=True)
    pool.shutdown(wait=False)
    return found


def test_one_who_waits_gets_the_answer_as_soon_as_it_is_there() -> None:
    ledger, one, two = begun()
    ask(ledger, one)
    got = waiting(ledger, two)
    time.sleep(0.05)
    assert not got.done()
    publish(ledger, one, part(3))
    assert got.result(60).known.tolist() == [3]
    assert not got.result().mine.any()


def test_one_who_waits_for_a_dead_worker_gets_what_that_had_not_published() -> None:
    ledger, one, two = begun()
    ask(ledger, one)
    publish(ledger, one, part(0, 1))
    got = waiting(ledger, two, part(2, 3, 4, 5))
    ledger.end(one)
    ledger.release(one)
    assert got.result(60).mine.all()
    assert ask(ledger, two).known.tolist() == [0, 1]


def test_one_who_has_ended_waits_for_nobody() -> None:
    ledger, one, two = begun()
    ask(ledger, one)
    got = waiting(ledger, two)
    ledger.end(two)
    got.result(60)


def test_what_could_not_be_evaluated_is_leased_again() -> None:
    ledger, one, two = begun()
    ask(ledger, one)
    ledger.give_back(one, part(4, 5).words)
    assert ask(ledger, two).mine.tolist() == [False] * 4 + [True] * 2


def test_answers_stay_until_they_are_saved_and_every_search_sees_that() -> None:
    ledger, one, two = published()
    ledger.ends(two)
    assert len(ledger) == 6
    ledger.begins(two)
    ledger.committed(one, [BATCH.words])
    assert len(ledger) == 6, "the search of the other one began before that"
    assert ask(ledger, two, part(0)).known.tolist() == [0]
    ledger.ends(two)
    assert len(ledger) == 0


def test_a_search_that_has_looked_again_lets_answers_go() -> None:
    ledger, one, two = published()
    ledger.committed(one, [BATCH.words])
    assert len(ledger) == 6
    ledger.updates(two)
    assert len(ledger) == 0


def test_what_an_ended_worker_has_saved_is_let_go_as_well() -> None:
    ledger, one, two = published()
    ledger.committed(one, [part(0, 1).words])
    ledger.end(one)
    ledger.release(one)
    assert len(ledger) == 6
    ledger.begins(two)
    ledger.committed(two, [part(2).words])
    assert len(ledger) == 3, "three of it were never saved: they are kept"


def test_what_one_saves_is_news_for_the_others_and_what_beat_it_for_itself() -> None:
    ledger, one, two = begun()
    boards = games(2)
    written, better = (RecordBatch.from_records([record(board, 3)]) for board in boards)
    ledger.committed(one, [written.words, better.words], Merged(written, 1, better))
    assert ledger.updates(two) == Updates([written], 1)
    assert ledger.updates(two) == Updates([], 1)
    assert ledger.updates(one) == Updates([better], 1)


def test_one_who_publishes_nothing_for_too_long_counts_as_hung() -> None:
    ledger = Ledger(timeout=0.05)
    one, two = searching(ledger, 0), searching(ledger, 1)
    ask(ledger, one)
    ask(ledger, two)
    until(lambda: time.monotonic() >= one.deadline, 5)
    assert two.deadline == inf
    publish(ledger, one)
    assert one.deadline == inf


# -------------------------------------------------------------------- merging
def record(board: chess.Board, *visits: int, flags: int = UNPROVEN, v: float = 0.25) -> NodeRecord:
    count = len(legal_moves(board))
    edges = tuple(Edge(n, 0, 0.5, 0) for n in visits)
    words = tuple(int(word) for word in pack(board))
    return NodeRecord(words, v, D_SCALE // 4, 1, flags, bytes([20] * count), edges, 0)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "a.graph", identity=HashEvaluator.identity, create=True)


def test_the_record_with_more_visits_stays_and_the_older_one_of_equals(store: Store) -> None:
    boards = games(4)
    with store:
        kept = [record(board, n) for board, n in zip(boards[:3], (5, 9, 7), strict=True)]
        store.append(RecordBatch.from_records(kept), fresh=3)
        sent = [record(board, n, v=0.5) for board, n in zip(boards, (6, 8, 7, 1), strict=True)]
        with store.reader() as reader:
            found = merged(RecordBatch.from_records(sent), reader)
        assert (found.fresh, len(found.better)) == (1, 2)
        assert [found.records.record(i) for i in range(len(found.records))] == [sent[0], sent[3]]
        assert visits_of(found.records).tolist() == [7, 2]


def test_what_the_losing_record_has_proven_is_kept(store: Store) -> None:
    won, drawn = 2 << 2 | 2 << 4, 1 << 2 | 1 << 4
    boards = games(2)
    with store:
        kept = [record(boards[0], 5, flags=drawn), record(boards[1], 9)]
        store.append(RecordBatch.from_records(kept), fresh=2)
        sent = [record(boards[0], 6), record(boards[1], 8, flags=won)]
        with store.reader() as reader:
            found = merged(RecordBatch.from_records(sent), reader).records
        assert [found.record(i) for i in range(2)] == [
            replace(sent[0], flags=drawn),
            replace(kept[1], flags=won),
        ]


def test_bounds_that_contradict_each_other_leave_a_record_as_it_is() -> None:
    won, lost = np.array([2 << 2 | 2 << 4], np.uint8), np.array([0 << 2 | 0 << 4], np.uint8)
    clock = np.zeros(1, np.int64)
    assert tightened(won, clock, lost, clock) == won


def test_nothing_is_merged_from_nothing(store: Store) -> None:
    with store, store.reader() as reader:
        found = merged(RecordBatch.empty(0, 0, 0), reader)
    assert (len(found.records), found.fresh, len(found.better)) == (0, 0, 0)
