"""Refreshing: every edge gets the value of its child; another evaluator for a whole file, asked once."""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import chess
import numpy as np
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.base.errors import CapacityError, EvaluatorError, UnfinishedError
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.protocol import Evaluation, Evaluator, PositionBatch, checked
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.graph.sweeps.reevaluate import reevaluate
from graphsearch.graph.sweeps.refresh import SWEEPING, WRITING, refresh
from graphsearch.graph.view import show
from graphsearch.position.board import key_of, legal_moves, unpack
from graphsearch.store.index import Sizes
from graphsearch.store.provenance import BY_RULE
from graphsearch.store.ranking import edge_of
from graphsearch.store.record import NodeRecord, prior_codes, take
from graphsearch.store.record_kernel import flags_with
from graphsearch.store.rewrite import Progress, compact, rewrite
from graphsearch.store.salvage import salvage
from graphsearch.store.store import Store
from graphsearch.store.verify import verify
from tests.store.records import faults_of

from ...query.handmade import node
from ...store.records import batch_of, filled, sized
from ...support.graphs import ENDGAME, MATES, check_invariants, searched, visited_children
from ...support.graphs import records_of as in_bulk
from ...support.positions import after_line
from ...support.reference import HashEvaluator, Node, ReferenceSearch, capped

EXACT = 1e-6

Records = dict[int, tuple[chess.Board, NodeRecord]]

FILES = {  # positions with what is searched below them
    "stale": (chess.STARTING_FEN, "", "e4", "e4 e5", "d4 d5", "Nf3 Nf6"),  # one improved behind others' backs
    "cyclic": (ENDGAME, "", "Ra6+", "Rxh1"),  # with terminals, and visits that ended in draws of the path
    "near fifty": (ENDGAME.replace("0 1", "72 90"), "", "Ra6+"),  # from clock 75 on the key holds the clock
    "mates": (MATES,),  # which support any number of visits
}


@pytest.fixture
def stale(tmp_path: Path) -> Path:
    return searched(tmp_path / "stale.graph", *FILES["stale"], visits=40)


def records_of(path: Path) -> Records:
    """Returns all records of a file, with a Board, by key."""
    with Store.open(path, read_only=True) as store:
        records = [record for batch in store.scan() for record in in_bulk(batch)]
    return {key_of(board): (board, record) for record in records for board in [unpack(record.words)]}


def worth(record: NodeRecord) -> tuple[float, int]:
    """Returns node Q as float32 and the draw share per mille, as a search would compute them."""
    if not record.edges:
        return record.v, record.d
    total, draws = record.v, record.d
    for edge in record.edges:
        total += (edge.n - edge.r) * edge.q
        draws += (edge.n - edge.r) * edge.d + edge.r * 1000
    lower, upper = record.bounds
    q = float(np.float32(min(max(total / record.visits, lower), upper)))
    return q, capped((2 * draws + record.visits) // (2 * record.visits), q)


def refreshed_slowly(records: Records) -> Records:
    """Returns the records with every edge at its child's value, by plain sweeps until nothing moves."""
    found = dict(records)
    children = {
        key: [(k, key_of(child)) for k, child in visited_children(board, record)]
        for key, (board, record) in records.items()
    }
    for _ in range(200):
        moved = 0.0
        for key, (board, record) in found.items():
            edges = list(record.edges)
            for k, child in children[key]:
                edge = edges[k]
                known = found[child][1] if child in found else None
                if edge.n > edge.r and known and (known.terminal or known.visits >= edge.n - edge.r):
                    q, d = worth(known)
                    moved = max(moved, abs(edge.q + q))
                    edges[k] = replace(edge, q=0.0 - q, d=d)
            found[key] = (board, replace(record, edges=tuple(edges)))
        if moved < EXACT / 10:
            return found
    raise AssertionError("the oracle does not settle")


def assert_close(found: Records, expected: Records, *, within: float = 1e-5) -> None:
    assert found.keys() == expected.keys()
    for key, (board, record) in expected.items():
        ours = found[key][1]
        assert replace(ours, edges=()) == replace(record, edges=()), board.fen()
        assert [(e.n, e.r) for e in ours.edges] == [(e.n, e.r) for e in record.edges], board.fen()
        q = [e.q for e in record.edges]
        assert [e.q for e in ours.edges] == pytest.approx(q, abs=within), board.fen()
        assert [e.d for e in ours.edges] == pytest.approx([e.d for e in record.edges], abs=1), board.fen()


def staleness(records: Records) -> float:
    """Returns how far the worst edge is from its child."""
    return max(
        abs(record.edges[k].q + worth(records[key_of(child)][1])[0])
        for board, record in records.values()
        for k, child in visited_children(board, record)
        if record.edges[k].n > record.edges[k].r and key_of(child) in records
    )


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_parent_learns_of_a_child_improved_elsewhere(stale: Path) -> None:
    before = records_of(stale)
    assert staleness(before) > 0.05, "the search itself leaves nothing to do"
    calls: list[Progress] = []
    report = refresh(stale, 1e-3, on_progress=calls.append)
    after = records_of(stale)
    assert staleness(after) < 1e-3
    assert report.settled
    assert report.stale > 0
    assert report.records == len(before)
    assert report.last_change < 1e-3 / 2 < report.first_change
    changed = [(a.edges, b.edges) for (_, a), (_, b) in zip(before.values(), after.values(), strict=True)]
    assert report.changed_records == sum(a != b for a, b in changed)
    assert report.changed_edges == sum(x != y for a, b in changed for x, y in zip(a, b, strict=True))
    assert verify(stale).problems == []
    assert list(dict.fromkeys(now.stage for now in calls)) == ["reading", SWEEPING, WRITING]
    assert len({now.note for now in calls if now.stage == SWEEPING}) == report.sweeps
    assert all(0 < now.done <= now.total for now in calls)
    settled = digest(stale)
    again = refresh(stale, 1e-3)
    assert (again.stale, again.changed_records, again.changed_edges, again.sweeps) == (0, 0, 0, 1)
    assert digest(stale) == settled
    with Graph.open(stale, evaluator=HashEvaluator()) as graph:
        analyze(graph, chess.Board(), Limits(visits=40))
        check_invariants(graph, chess.Board())


@pytest.mark.parametrize("name", FILES)
def test_the_values_are_those_of_the_slow_way(name: str, tmp_path: Path) -> None:
    path = searched(tmp_path / "a.graph", *FILES[name], visits=40 if name == "stale" else 60)
    records = records_of(path)
    if name == "cyclic":
        assert any(edge.r for _, record in records.values() for edge in record.edges), "draws of the path"
    report = refresh(path, EXACT)
    assert (report.settled, report.lost, report.missing) == (True, 0, 0)
    assert_close(records_of(path), refreshed_slowly(records))
    assert verify(path).problems == []


def test_a_mate_is_stale_only_if_its_length_is_another_one(tmp_path: Path) -> None:
    mates = searched(tmp_path / "mates.graph", *FILES["mates"])
    refresh(mates, EXACT)
    records = records_of(mates)
    record, k = next(
        (record, k)
        for board, record in records.values()
        for k, child in visited_children(board, record)
        if record.edges[k].q == 1.0 and record.edges[k].d and records[key_of(child)][1].terminal
    )
    longer = replace(record.edges[k], d=record.edges[k].d + 4)
    edges = (*record.edges[:k], longer, *record.edges[k + 1 :])
    with Store.open(mates) as store:
        store.append(batch_of([replace(record, edges=edges)]), fresh=0)
    assert refresh(mates).stale == 1
    assert records_of(mates) == records


@pytest.mark.parametrize(("bounds", "expected"), [((-1, -1), 1.0), ((0, 0), 0.0), ((-1, 1), -0.5)])
def test_a_child_without_visits_is_worth_what_is_proven_of_it(
    tmp_path: Path, bounds: tuple[int, int], expected: float
) -> None:
    """A table, or an evaluator of a person's own, may prove what V does not say."""
    parent = node(chess.Board(), {"e4": (1, 0.2)})
    child = replace(node(after_line("e4"), v=0.5), d=135, flags=flags_with(*bounds))
    path = filled(tmp_path / "a.graph", [parent, child])
    refresh(path)
    assert verify(path).ok
    (edge,) = records_of(path)[key_of(chess.Board())][1].edges
    assert edge.q == expected


def edge_to(records: Records, child: chess.Board) -> NodeRecord:
    """Returns the record of the start position with the one edge that leads to a child."""
    board, record = records[key_of(chess.Board())]
    k = next(k for k, found in visited_children(board, record) if key_of(found) == key_of(child))
    return replace(record, edges=(record.edges[k],))


def lose(store: Store, record: NodeRecord) -> None:
    """Leaves a record as it is after its loss, evaluated again."""
    store.append(batch_of([replace(record, edges=())]), fresh=0)


def remove(store: Store, record: NodeRecord) -> None:
    words = np.array(record.words, np.uint64)
    rewrite(store)
    rewrite(store, lambda batch, low, pivot: take(batch, np.flatnonzero((batch.words != words).any(1))))


@pytest.mark.parametrize(("spoil", "counted"), [(lose, "lost"), (remove, "missing")])
def test_an_edge_whose_child_was_lost_is_left_alone(
    stale: Path, spoil: Callable[[Store, NodeRecord], None], counted: str
) -> None:
    records = records_of(stale)
    with Store.open(stale) as store:
        spoil(store, records[key_of(after_line("e4"))][1])
    assert refresh(stale, EXACT).as_dict()[counted] > 0
    assert edge_to(records_of(stale), after_line("e4")) == edge_to(records, after_line("e4"))
    assert verify(stale).problems == []


class Stop(Exception):  # noqa: N818
    """What a test ends a refresh with."""


def stopping(stage: str, after: int) -> Callable[[Progress], None]:
    """Returns a progress function that stops at the given call of a stage."""
    calls: list[Progress] = []

    def stop(now: Progress) -> None:
        if now.stage == stage:
            calls.append(now)
            if len(calls) > after:
                raise Stop

    return stop


def test_stopped_before_it_writes_it_leaves_every_byte(stale: Path) -> None:
    before = digest(stale)
    with pytest.raises(Stop):
        refresh(stale, on_progress=stopping(SWEEPING, 1))
    assert digest(stale) == before
    assert sorted(path.name for path in stale.parent.iterdir()) == [stale.name]


def test_stopped_while_it_writes_it_leaves_a_whole_file_to_go_on_with(stale: Path) -> None:
    expected = refreshed_slowly(records_of(stale))
    with pytest.raises(Stop):
        sized(Sizes(step_blocks=1, scan_blocks=1), refresh, stale, EXACT, on_progress=stopping(WRITING, 2))
    assert verify(stale).problems == []
    refresh(stale, EXACT)
    assert_close(records_of(stale), expected)
    assert verify(stale).problems == []


# ------------------------------------------------------------------ another evaluator
OLD = (chess.STARTING_FEN, "", "e4", "d4 d5", "Nf3 Nf6")
Answers = dict[int, tuple[float, int, bytes]]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file of the evaluator `hash`."""
    return searched(tmp_path / "old.graph", *OLD, visits=40)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same file, given over to the evaluator `other`; it is only read."""
    path = searched(tmp_path_factory.mktemp("whole") / "whole.graph", *OLD, visits=40)
    reevaluate(path, HashEvaluator("other"))
    return path


@pytest.fixture
def given(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(whole, tmp_path / "given.graph"))


def answers_of(evaluator: Evaluator, records: Records) -> Answers:
    """Returns V, D and P codes that an evaluator's answers make, by key, in plain Python."""
    known = {key: board for key, (board, record) in records.items() if is_evaluated(record)}
    batch = PositionBatch.from_boards(list(known.values()))
    found, answers = checked(batch, evaluator.evaluate(batch)), {}
    for key, (win, draw, loss), (begin, end) in zip(known, found.wdl, pairwise(batch.offsets), strict=True):
        v = np.float32(win - loss)
        d = min(int(1000 * float(draw) + 0.5), int(1000 * (1 - abs(float(v))) + 0.5))
        answers[key] = float(v), d, prior_codes(found.priors[begin:end]).tobytes()
    return answers


def is_evaluated(record: NodeRecord) -> bool:
    """Returns whether a record's V and P are an evaluator's, not those of a terminal or a mate in one."""
    return bool(record.codes) and record.evaluator != BY_RULE


def by_move(board: chess.Board, record: NodeRecord) -> dict[str, tuple[int, int]]:
    moves = legal_moves(board) if record.codes else []
    edges = zip(record.edges, record.order, strict=False)
    return {moves[index].uci(): (edge.n, edge.r) for edge, index in edges if edge.n}


def assert_given_to(evaluator: Evaluator, before: Records, after: Records) -> None:
    """Asserts that records are those of before with V, D and P of an evaluator."""
    assert after.keys() == before.keys()
    answers = answers_of(evaluator, before)
    for key, (board, record) in after.items():
        was = before[key][1]
        assert faults_of(record) == [], board.fen()
        assert by_move(board, record) == by_move(board, was), board.fen()
        assert (record.words, record.flags) == (was.words, was.flags)
        if not is_evaluated(was):
            assert replace(record, edges=()) == replace(was, edges=()), board.fen()
        else:
            assert record.evaluator != BY_RULE
            assert (record.v, record.d, record.codes) == answers[key], board.fen()
        assert not record.edges or record.edges[-1].n, "the prefix ends with a visited edge"


class Stopping:
    """Sets `stop` once so many positions have been evaluated, or in a stage."""

    def __init__(self, after: int = 1 << 60, stage: str = "") -> None:
        self.stop = threading.Event()
        self._after, self._stage = after, stage

    def __call__(self, now: Progress) -> None:
        if now.done >= self._after or now.stage == self._stage:
            self.stop.set()


def stopped(path: Path, evaluator: Evaluator, after: int) -> int:
    """Reevaluates until some positions are evaluated; returns how many are passed."""
    stopping = Stopping(after)
    report = reevaluate(path, evaluator, stop=stopping.stop, on_progress=stopping)
    assert not report.finished
    return report.done


# ------------------------------------------------------------------ what a file holds afterwards
def test_every_record_has_v_and_p_of_the_new_evaluator_and_its_visits_by_move(tmp_path: Path) -> None:
    cyclic = searched(tmp_path / "cyclic.graph", *FILES["cyclic"], visits=60)
    before, evaluator = records_of(cyclic), HashEvaluator("other")
    report = reevaluate(cyclic, evaluator)
    after = records_of(cyclic)
    assert_given_to(evaluator, before, after)
    assert verify(cyclic).problems == []
    assert report.finished
    assert report.evaluated == report.evaluated_now == sum(is_evaluated(r) for _, r in before.values())


def test_a_kernel_and_back_gives_the_v_of_the_search_to_the_bit(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    with Graph.open(path) as graph:
        analyze(graph, chess.Board(), Limits(visits=300))
    before = {key: (record.v, record.d) for key, (_, record) in records_of(path).items()}
    for evaluator in (UniformEvaluator(), create("builtin")):
        reevaluate(path, evaluator)
        evaluator.close()
    assert {key: (record.v, record.d) for key, (_, record) in records_of(path).items()} == before


def test_every_q_follows_from_the_new_v(given: Path) -> None:
    found = records_of(given)
    assert staleness(found) < 1.1e-3
    expected = refreshed_slowly(found)
    for key, (board, record) in found.items():
        q = [edge.q for edge in record.edges]
        assert q == pytest.approx([edge.q for edge in expected[key][1].edges], abs=2e-3), board.fen()
    assert refresh(given).stale == 0


@pytest.mark.parametrize("gather", ["flow", "classic", "budget"])
def test_edges_without_visits_among_those_with_some_serve_every_gatherer(given: Path, gather: str) -> None:
    evaluator = HashEvaluator("other")
    holes = [r for _, r in records_of(given).values() if any(edge.n == 0 for edge in r.edges)]
    assert len(holes) > 10, "the new order leaves moves without visits among the visited ones"
    with Graph.open(given, evaluator=evaluator) as graph:
        before = graph.read(chess.Board())
        analyze(graph, chess.Board(), Limits(visits=100), SearchParams(minibatch_size=16, gather=gather))
        after = graph.read(chess.Board())
        check_invariants(graph, chess.Board())
    assert before
    assert after
    assert after.visits >= before.visits + 100
    assert verify(given).problems == []


def test_a_search_afterwards_makes_the_visits_of_plain_puct(given: Path) -> None:
    evaluator = HashEvaluator("other")
    reference = ReferenceSearch(evaluator, SearchParams(minibatch_size=1))
    for key, (board, record) in records_of(given).items():
        reference.nodes[key] = node_of(board, record)
    reference.run(chess.Board(), 50)
    with Graph.open(given, evaluator=evaluator) as graph:
        analyze(graph, chess.Board(), Limits(visits=50), SearchParams(minibatch_size=1))
        for board, record in check_invariants(graph, chess.Board()).values():
            node = reference.nodes[key_of(board)]
            n = [edge.n for edge in record.edges]
            assert n == node.n[: len(n)], board.fen()
            assert not any(node.n[len(n) :])


def node_of(board: chess.Board, record: NodeRecord) -> Node:
    moves = legal_moves(board) if record.codes else []
    edges = [edge_of(record, k) for k in range(len(moves))]
    return Node(
        record.v,
        record.d,
        [moves[i] for i in record.order],
        [record.codes[i] for i in record.order],
        [edge.n for edge in edges],
        [edge.r for edge in edges],
        [edge.q for edge in edges],
        [edge.d for edge in edges],
        record.terminal,
    )


# ------------------------------------------------------------------ stopping and going on
def assert_same(path: Path, other: Path) -> None:
    """Asserts that two files hold the same records; q within what a refresh leaves."""
    ours, theirs = records_of(path), records_of(other)
    assert ours.keys() == theirs.keys()
    for key, (board, record) in ours.items():
        expected = theirs[key][1]
        unlike = replace(expected, evaluator=record.evaluator, run=record.run, edges=record.edges)
        assert record == unlike, board.fen()
        assert [(e.n, e.r) for e in record.edges] == [(e.n, e.r) for e in expected.edges], board.fen()
        q = [edge.q for edge in expected.edges]
        assert [edge.q for edge in record.edges] == pytest.approx(q, abs=3e-3), board.fen()


@pytest.mark.parametrize("stage", [SWEEPING, WRITING])
def test_a_stop_while_it_settles_is_gone_on_from(old: Path, whole: Path, stage: str) -> None:
    stopping, evaluator = Stopping(stage=stage), HashEvaluator("other")
    assert not reevaluate(old, evaluator, stop=stopping.stop, on_progress=stopping).finished
    assert reevaluate(old, evaluator).evaluated_now == 0
    assert_same(old, whole)


def test_another_evaluator_may_take_over_and_what_is_its_own_stays(old: Path) -> None:
    before = records_of(old)
    evaluator, third = HashEvaluator("other"), HashEvaluator("third")
    stopped(old, evaluator, 100)
    stopped(old, third, 30)
    report = reevaluate(old, evaluator)
    assert report.finished
    asked = len(evaluator.asked)
    assert asked > len(set(evaluator.asked)), "what the third one has changed is asked for again"
    assert asked <= report.records + len(third.asked)
    assert_given_to(HashEvaluator("other"), before, records_of(old))


def test_an_evaluator_that_fails_leaves_what_it_answered(old: Path) -> None:
    evaluator = HashEvaluator("other", fail_after=90)
    with pytest.raises(EvaluatorError, match="out of order"):
        reevaluate(old, evaluator)
    with Store.open(old, read_only=True) as store:
        assert store.unfinished
        assert 60 <= store.unfinished.evaluated <= 90
    evaluator.fail_after = None
    report = reevaluate(old, evaluator)
    assert report.finished
    assert len(evaluator.asked) <= report.evaluated + 32


def test_an_evaluator_that_fails_is_paid_once_for_what_it_answered(old: Path) -> None:
    class Failing(HashEvaluator):
        begun = 0

        def evaluate(self, batch: PositionBatch) -> Evaluation:
            self.begun += 1
            if self.begun % 3 == 0:  # before any work
                raise EvaluatorError("it fails at every third batch")
            return super().evaluate(batch)

    evaluator, report = Failing("other"), None
    while report is None:
        with suppress(EvaluatorError):
            report = reevaluate(old, evaluator)
    assert report.finished
    assert evaluator.begun > 3
    assert evaluator.paid_once


def test_a_record_says_who_and_which_run_its_values_come_from(whole: Path) -> None:
    with Store.open(whole, read_only=True) as store:
        number, run = store.evaluator_number, store.runs()[-1]
        assert store.evaluators()[number].kind == "other"
        assert (run.kind, run.evaluator) == ("reevaluate", number)
        assert run.finished
    records = [record for _, record in records_of(whole).values() if is_evaluated(record)]
    assert {(record.evaluator, record.run) for record in records} == {(number, run.id)}
    assert run.evaluations == len(records)


def test_what_is_salvaged_of_an_unfinished_file_is_unfinished(old: Path) -> None:
    evaluator = HashEvaluator("other")
    stopped(old, evaluator, 60)
    new = old.with_name("new.graph")
    salvage(old, new)
    with pytest.raises(UnfinishedError):
        Graph.open(new, evaluator=evaluator)
    assert reevaluate(new, evaluator).finished
    assert len(set(evaluator.asked)) == len(evaluator.asked)


def test_a_file_that_lost_its_mark_is_told_by_its_records(old: Path) -> None:
    evaluator = HashEvaluator("other")
    done = stopped(old, evaluator, 60)
    with Store.open(old, resume=True) as store:
        store.mark_unfinished(None)
    report = reevaluate(old, evaluator)
    assert report.finished
    assert report.evaluated_now <= report.records - done + 60
    assert len(set(evaluator.asked)) == len(evaluator.asked)


# ------------------------------------------------------------------ the mark
def test_an_unfinished_file_is_refused_in_one_clear_line(old: Path) -> None:
    evaluator, stopping = HashEvaluator("other"), Stopping(50)
    commands: list[Callable[[Path], object]] = [
        lambda path: Graph.open(path, evaluator=HashEvaluator("other")),
        lambda path: Graph.open(path, evaluator=HashEvaluator()),
        refresh,
        compact,
        lambda path: compact(path, min_visits=2),
        Store.open,
    ]
    reevaluate(old, evaluator, stop=stopping.stop, on_progress=stopping, command="go on like this")
    for command in commands:
        with pytest.raises(UnfinishedError, match=r"of \d+ positions are done.*`go on like this`") as refused:
            command(old)
        assert "\n" not in str(refused.value)
    assert show(old, chess.Board()) is not None
    assert verify(old).problems == []
    reevaluate(old, evaluator)
    with Graph.open(old, evaluator=evaluator):
        pass


def test_too_little_memory_is_said_before_anything_is_paid(old: Path) -> None:
    evaluator = HashEvaluator("other")
    with pytest.raises(CapacityError, match="allow more"):
        reevaluate(old, evaluator, ram_bytes=100)
    assert evaluator.asked == []
    with Store.open(old) as store:
        assert store.unfinished is None
