"""Refreshing: every edge gets the value of its child, and nothing else changes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import chess
import numpy as np
import pytest

from graphsearch import Graph, Limits, analyze
from graphsearch.graph.sweeps.refresh import SWEEPING, WRITING, refresh
from graphsearch.position.board import key_of, unpack
from graphsearch.store.index import Sizes
from graphsearch.store.record import NodeRecord, take
from graphsearch.store.record_kernel import flags_with
from graphsearch.store.rewrite import Progress, rewrite
from graphsearch.store.store import Store
from graphsearch.store.verify import verify

from ...query.handmade import node
from ...store.records import batch_of, filled, sized
from ...support.graphs import ENDGAME, MATES, check_invariants, searched, visited_children
from ...support.graphs import records_of as in_bulk
from ...support.reference import HashEvaluator, capped

EXACT = 1e-6

Records = dict[int, tuple[chess.Board, NodeRecord]]


@pytest.fixture
def stale(tmp_path: Path) -> Path:
    """A file in which positions were improved behind the backs of their other parents."""
    return searched(
        tmp_path / "stale.graph", chess.STARTING_FEN, "", "e4", "e4 e5", "d4 d5", "Nf3 Nf6", visits=40
    )


@pytest.fixture
def cyclic(tmp_path: Path) -> Path:
    """A file with cycles, terminals, and visits that ended in draws of the path."""
    return searched(tmp_path / "cyclic.graph", ENDGAME, "", "Ra6+", "Rxh1", visits=60)


@pytest.fixture
def near_fifty(tmp_path: Path) -> Path:
    """A file with positions on both sides of clock 75, from where on the key holds the clock."""
    return searched(tmp_path / "near.graph", ENDGAME.replace("0 1", "72 90"), "", "Ra6+", visits=50)


@pytest.fixture
def mates(tmp_path: Path) -> Path:
    """A file with mates, which support any number of visits."""
    return searched(tmp_path / "mates.graph", MATES)


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


@pytest.mark.parametrize("name", ["stale", "cyclic", "near_fifty", "mates"])
def test_the_values_are_those_of_the_slow_way(name: str, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue(name)
    records = records_of(path)
    if name == "cyclic":
        assert has_cycle(records)
        assert any(edge.r for _, record in records.values() for edge in record.edges), "draws of the path"
    report = refresh(path, EXACT)
    assert (report.settled, report.lost, report.missing) == (True, 0, 0)
    assert_close(records_of(path), refreshed_slowly(records))
    assert verify(path).problems == []


def test_a_mate_is_stale_only_if_its_length_is_another_one(mates: Path) -> None:
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
    child = replace(node(after_e4(), v=0.5), d=135, flags=flags_with(*bounds))
    path = filled(tmp_path / "a.graph", [parent, child])
    refresh(path)
    assert verify(path).ok
    (edge,) = records_of(path)[key_of(chess.Board())][1].edges
    assert edge.q == expected


def has_cycle(records: Records) -> bool:
    """Returns whether leaving out, again and again, what leads nowhere does not leave out all."""
    children = {
        key: {key_of(child) for _, child in visited_children(board, record)} & records.keys()
        for key, (board, record) in records.items()
    }
    while ends := {key for key, below in children.items() if not below & children.keys()}:
        children = {key: below for key, below in children.items() if key not in ends}
    return bool(children)


def after_e4() -> chess.Board:
    board = chess.Board()
    board.push_san("e4")
    return board


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
        spoil(store, records[key_of(after_e4())][1])
    assert refresh(stale, EXACT).as_dict()[counted] > 0
    assert edge_to(records_of(stale), after_e4()) == edge_to(records, after_e4())
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
