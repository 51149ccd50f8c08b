"""Two versions of a record become one by the rules of docs/contributing/merging.md, written here again."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from graphsearch.position.board import clock_of_words
from graphsearch.store.record import Edge, NodeRecord, newest_in_order, sort_keys
from graphsearch.store.record_kernel import AT_LEAST, AT_MOST, DRAWN, STEPS, bounds_of, flags_with, share_of
from graphsearch.store.tables.rows import TABLES
from graphsearch.store.union import KEYED, NUMBERED, RecordCounts
from tests.store.records import faults_of

from .records import batch_of, by_identity, float32, random_records

BOUND, OTHER = 1, 2  # evaluators
INTERVALS = [(-1, -1), (0, 0), (1, 1), (-1, 0), (0, 1), (-1, 1)]


# ------------------------------------------------------------------ versions of one position
@cache
def positions() -> list[NodeRecord]:
    return [record for record in random_records(71, 120) if record.codes]


def proven_edge(rng: random.Random) -> Edge:
    """Returns a visited edge, of which something may be proven."""
    n = rng.choice((1, 2, 3, 50, (1 << 32) - 1))
    r = rng.choice((0, 0, n - 1, n))
    q = float32(rng.uniform(-1, 1))
    kind = rng.randrange(5)
    if n == r:
        return Edge(n, r)
    if kind == 0:
        return Edge(n, r, rng.choice((-1.0, 1.0)), rng.choice((1, 4, 500, 501, 600)))
    if kind == 1:
        return Edge(n, r, 0.0, DRAWN)
    if kind == 2:
        return Edge(n, r, *_with_share(abs(q), AT_LEAST, rng))
    if kind == 3:
        return Edge(n, r, *_with_share(-abs(q), AT_MOST, rng))
    return Edge(n, r, q, rng.randint(0, int(1000 * (1 - abs(q)))))


def _with_share(q: float, base: int, rng: random.Random) -> tuple[float, int]:
    return q, base + rng.randrange(min(STEPS, int(10 * (1 - abs(q))) + 1))


def version(of: NodeRecord, rng: random.Random) -> NodeRecord:
    """Returns a version of a position: P as they were or others, an evaluator, edges that prove something."""
    codes = of.codes if rng.random() < 0.6 else bytes(rng.randint(1, 63) for _ in of.codes)
    v = float32(rng.choice((-1.0, 1.0, 0.25, 0.25, rng.uniform(-1, 1))))
    d = rng.choice((0, 3, 9)) if abs(v) == 1.0 else rng.choice((0, 100))
    d = min(d, int(1000 * (1 - abs(v)))) if abs(v) < 1.0 else d
    edges = tuple(proven_edge(rng) for _ in range(rng.randrange(min(len(codes), 6) + 1)))
    words = list(of.words)
    if clock_of_words(of.words) <= 75:
        words[8] = words[8] & ~(255 << 12) | rng.choice((0, 0, 20)) << 12
    flags = flags_with(*rng.choice(INTERVALS))
    found = NodeRecord(
        tuple(words), v, d, rng.choice((BOUND, BOUND, OTHER)), flags, codes, edges, rng.randrange(4)
    )
    found = found if not faults_of(found) else replace(found, v=0.0, d=0, edges=())
    return replace(found, flags=flags_with(*found.bounds))  # as records are written


@st.composite
def versions(draw: st.DrawFn, count: int = 2) -> list[NodeRecord]:
    """Versions of one position."""
    rng = random.Random(draw(st.integers(0, 1 << 40)))
    of = rng.choice(positions())
    return [version(of, rng) for _ in range(count)]


# ------------------------------------------------------------------ the rules, with lists and dicts
def rank(record: NodeRecord) -> tuple[object, ...]:
    """Returns what decides which evaluation counts, the least first."""
    mate = record.d if abs(record.v) == 1.0 else 0
    own = record.evaluator in (BOUND, 0)
    clock = clock_of_words(record.words)
    return (not own, mate or 1 << 20, clock, record.evaluator, record.d, record.v, record.codes)


def edges_by_move(record: NodeRecord) -> dict[int, Edge]:
    return dict(zip(record.order, record.edges, strict=False))


def proves(edge: Edge) -> bool:
    return edge.n > edge.r and bounds_of(edge.q, edge.d) != (-1, 1)


def united_edge(old: Edge, new: Edge) -> tuple[Edge, bool]:
    """Returns the edge that counts, and whether the two contradict each other."""
    first, second = (new, old) if (new.n, -new.r) > (old.n, -old.r) else (old, new)
    if not proves(second):
        return first, False
    if not proves(first):
        r = first.r - (first.n == first.r)
        low, high = bounds_of(second.q, second.d)
        if low == high:
            return Edge(first.n, r, second.q, second.d), False
        if first.n == first.r:
            return Edge(first.n, r, second.q, second.d), False
        step = min(share_of(first.q, first.d) // 100, STEPS - 1)
        q = min(max(first.q, low), high)
        return Edge(first.n, r, q, (AT_LEAST if low == 0 else AT_MOST) + step), False
    (low, high), (its_low, its_high) = bounds_of(first.q, first.d), bounds_of(second.q, second.d)
    if max(low, its_low) > min(high, its_high):
        return first, True
    if low == high == its_low == its_high:
        return Edge(first.n, first.r, first.q, min(first.d, second.d)), False
    if low == high:
        return first, False
    if its_low == its_high:
        return Edge(first.n, first.r, second.q, second.d), False
    if (low, high) != (its_low, its_high):
        return Edge(first.n, first.r, 0.0, DRAWN), False
    return first, False


def united(old: NodeRecord, new: NodeRecord) -> tuple[NodeRecord, bool]:
    """Returns the union of two versions, and whether they contradict each other."""
    evaluation = new if rank(new) < rank(old) else old
    run = evaluation.run
    if rank(new) == rank(old):
        run = min((r for r in (old.run, new.run) if r), default=0)
    ours, theirs, clash = edges_by_move(old), edges_by_move(new), False
    edges = []
    for move in evaluation.order:
        a, b = ours.get(move), theirs.get(move)
        if a and b:
            edge, contradicts = united_edge(a, b)
            clash |= contradicts
        else:
            edge = a or b or Edge(0)
        edges.append(edge)
    while edges and (edges[-1].n == 0 and (old.codes != new.codes)):
        edges.pop()
    (low, high), (its_low, its_high) = _bounds(old), _bounds(new)
    if max(low, its_low) <= min(high, its_high):
        low, high = max(low, its_low), min(high, its_high)
    else:
        clash = True
    if old.codes == new.codes:
        edges = edges[: max(len(old.edges), len(new.edges))]
    found = replace(evaluation, run=run, edges=tuple(edges), flags=flags_with(low, high, old.terminal))
    return replace(found, flags=flags_with(*found.bounds, old.terminal)), clash


def _bounds(record: NodeRecord) -> tuple[int, int]:
    return (record.flags >> 2 & 3) - 1, (record.flags >> 4 & 3) - 1


# ------------------------------------------------------------------ the kernel
def ordered(records: list[NodeRecord]) -> list[NodeRecord]:
    batch = batch_of(records)
    return [records[i] for i in newest_in_order(batch.words, sort_keys(batch.words)).tolist()]


def unite(old: list[NodeRecord], new: list[NodeRecord]) -> tuple[list[NodeRecord], RecordCounts, list[int]]:
    """Returns the union that the kernel writes, the counts and the contradictions; both lists in order."""
    counts, clashes = RecordCounts(), list[int]()
    out = counts.unite(batch_of(old), batch_of(new), BOUND, clashes.append)
    return [out.record(i) for i in range(len(out))], counts, clashes


def one(old: NodeRecord, new: NodeRecord) -> NodeRecord:
    """Returns the union of two versions as the kernel has it."""
    (found,) = unite([old], [new])[0]
    return found


@given(versions())
def test_the_kernel_unites_two_versions_by_the_rules(pair: list[NodeRecord]) -> None:
    old, new = pair
    expected, clash = united(old, new)
    found, counts, clashes = unite([old], [new])
    assert found == [expected]
    assert counts.changed == (expected != old)
    assert len(clashes) == counts.contradictions == clash
    assert faults_of(expected) == []


@given(versions(3))
def test_no_visit_is_lost_and_what_is_done_twice_changes_nothing(three: list[NodeRecord]) -> None:
    old, new, third = three
    both = one(old, new)
    assert one(old, old) == old
    assert one(both, new) == one(both, old) == both
    for version in (old, new):
        mine = edges_by_move(both)
        assert all(mine[move].n >= edge.n for move, edge in edges_by_move(version).items())
    assert both.visits >= max(old.visits, new.visits)
    for edge, its in (
        (edges_by_move(both).get(m), e) for v in (old, new) for m, e in edges_by_move(v).items()
    ):
        assert edge is not None
        assert edge.n > its.n or (edge.n, edge.r) <= (its.n, its.r)
    again = one(one(both, third), third)
    assert again == one(both, third)


@given(versions(3))
def test_the_order_of_files_decides_only_values_that_nothing_else_decides(
    three: list[NodeRecord],
) -> None:
    old, new, third = three
    if not any(united(a, b)[1] for a in three for b in three):
        assert settled(one(old, new)) == settled(one(new, old))
    for a, b in ((old, new), (new, old)):  # evaluations are one of them, whatever is grouped with what
        assert rank(one(one(a, b), third)) == rank(one(a, one(b, third))) == min(map(rank, three))


def settled(record: NodeRecord) -> NodeRecord:
    """Returns a record without the values of edges that are not proven exactly."""
    edges = tuple(
        edge
        if proves(edge) and bounds_of(edge.q, edge.d)[0] == bounds_of(edge.q, edge.d)[1]
        else replace(edge, q=0.0, d=0)
        for edge in record.edges
    )
    return replace(record, edges=edges)


def test_records_meet_by_position_and_the_others_are_copied() -> None:
    rng = random.Random(3)
    some = random_records(71, 400)
    old = ordered(some[:250])
    new = ordered([version(r, rng) if r.codes else r for r in some[150:250]] + some[250:])
    found, counts, _ = unite(old, new)
    known, newer = by_identity(old), by_identity(new)
    both = {key: united(known[key], newer[key])[0] for key in known.keys() & newer}
    assert found == ordered(list((known | newer | both).values()))
    assert (counts.records, counts.fresh) == (250, 150)
    assert counts.changed == sum(known[key] != record for key, record in both.items())


BY_FUNCTIONS = "evaluator source game_position game_move book_position book_move entry_piece"
WHOLE = "study study_position note segment chunk block"
NOT_MERGED = "store_info top_position top_edge edit task"


def test_every_table_has_a_rule() -> None:
    others = f"{BY_FUNCTIONS} {WHOLE} {NOT_MERGED}".split()
    assert sorted([*NUMBERED, *KEYED, *others]) == sorted(TABLES)
    for name, rule in (NUMBERED | KEYED).items():
        assert {*rule.refs, *rule.by, *rule.identity, *rule.agree} <= set(TABLES[name].columns)
        assert bool(rule.identity) == (TABLES[name].key == ("id",))
