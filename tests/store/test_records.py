"""Records, alone and in columns: the order of moves, unions of two versions; transposition entries."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import chess
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from graphsearch.base.errors import CorruptRecordError
from graphsearch.evaluators.lc0.network import INPUTS
from graphsearch.evaluators.lc0.planes import planes_and_transforms
from graphsearch.exchange.output import ExportReport
from graphsearch.exchange.selection import Export, Selection
from graphsearch.exchange.walk import Walk
from graphsearch.jit.types import uint64
from graphsearch.position.board import CLOCK_SHIFT, MAX_CLOCK, clock_of_words, clocks_of, fens, legal_moves
from graphsearch.position.values import MATE
from graphsearch.query import columns, diff, steps
from graphsearch.store import block, entries, record
from graphsearch.store import transposition_kernel as kernel
from graphsearch.store.info import info
from graphsearch.store.ranking import best_move, ranking, visits_of
from graphsearch.store.record import Edge, NodeRecord, RecordBatch, newest_in_order, sort_keys
from graphsearch.store.record_kernel import AT_LEAST, AT_MOST, DRAWN, STEPS, bounds_of, flags_with, share_of
from graphsearch.store.rewrite import compact
from graphsearch.store.salvage import salvage
from graphsearch.store.store import Store
from graphsearch.store.tables.rows import TABLES
from graphsearch.store.union import KEYED, NUMBERED, RecordCounts
from graphsearch.store.verify import verify

from ..conftest import sql
from ..query.handmade import Edges, graph_file, node
from ..support.positions import after_each_move
from ..support.rows import loosen
from .records import IDENTITY, batch_of, by_identity, faults_of, float32, plain_blocks, random_records
from .test_formats import SCHEMA, example

ROWS = 3
Rows = list[Any]  # what a function says, one item for each row


def _of_arrays(found: Any) -> Rows:
    """Returns arrays with a row for each position, as rows that can be compared."""
    arrays = found if isinstance(found, tuple) else (found,)
    return [tuple(np.asarray(array)[i].tolist() for array in arrays) for i in range(len(arrays[0]))]


OF_BATCHES: dict[str, Callable[[RecordBatch], Any]] = {
    "identities": lambda batch: _of_arrays(record.identities(batch.words)),
    "sort keys": lambda batch: _of_arrays(record.sort_keys(batch.words)),
    "keys": lambda batch: _of_arrays(record.keys_of(batch.words)),
    "FENs": lambda batch: fens(batch.words),
    "legal moves": lambda batch: _of_arrays(steps.legal_codes(batch.words)),
    "clocks": lambda batch: _of_arrays(clocks_of(batch.words)),
    "node N": lambda batch: _of_arrays(visits_of(batch)),
    "values of positions": lambda batch: _of_arrays(columns.worth_of(batch)),
} | {
    f"planes {kind}": lambda batch, kind=kind: _of_arrays(
        tuple(found for found in planes_and_transforms(batch.words, kind) if found is not None)
    )
    for kind in INPUTS
}
CHANGING_NOTHING: dict[str, Callable[[RecordBatch], Any]] = {
    "encode": plain_blocks,
    "encode a chunk": block.encode_chunk,
    "sort": lambda batch: record.newest_in_order(batch.words, record.sort_keys(batch.words)),
    "take": lambda batch: record.take(batch, np.arange(len(batch))[::-1].copy()),
    "soundness": block.unsound,
    "ranks": lambda batch: columns.ranked(batch, clocks_of(batch.words)),
    "values of a diff": diff.values_of,
}


def _records(seed: int) -> list[NodeRecord]:
    """Returns records of some positions, with clocks that identities forget and others."""
    rng = random.Random(seed)
    found = []
    for one in rng.sample(random_records(71, 200), ROWS):
        *men, meta, key = one.words
        clock = rng.choice((0, 1, 40, 75, 76, 99))
        found.append(
            replace(one, words=(*men, meta & ~(MAX_CLOCK << CLOCK_SHIFT) | clock << CLOCK_SHIFT, key))
        )
    return found


@pytest.mark.parametrize("name", [*OF_BATCHES, *CHANGING_NOTHING])
@pytest.mark.parametrize("seed", range(3))
def test_a_record_alone_says_what_it_says_among_others_and_stays_as_it_is(name: str, seed: int) -> None:
    records, function = _records(seed), (OF_BATCHES | CHANGING_NOTHING)[name]
    if name in OF_BATCHES:
        alone = [row for record in records for row in function(RecordBatch.from_records([record]))]
        assert list(function(RecordBatch.from_records(records))) == alone
    for batch in (RecordBatch.from_records(records[seed:]), RecordBatch.from_records(records[:1])):
        before = [array.copy() for array in batch.arrays()]
        function(batch)
        assert before, "a batch is made of arrays"
        for array, old in zip(batch.arrays(), before, strict=True):
            assert array.tobytes() == old.tobytes()


# ------------------------------------------------------------------ the order of a record's moves
CASES: list[tuple[Edges, str]] = [
    ({"e4": (5000, 0.997), "d4": (300, 1.0)}, "e2e4"),
    ({"e4": (5000, 0.98), "d4": (300, 1.0), "a3": (400, 1.0)}, "a2a3"),
    ({"e4": (5000, 1.0), "d4": (300, 1.0)}, "e2e4"),
    ({"e4": (5000, -0.5), "d4": (1, 1.0)}, "d2d4"),
    # from 10,000 visits on the highest value - 4 / sqrt(n) leads, here of e4: .2 - .04
    ({"e4": (9900, 0.2), "d4": (90, 0.9)}, "e2e4"),  # fewer than a twentieth of the visits
    ({"e4": (10000, 0.2), "d4": (900, 0.28)}, "e2e4"),  # .28 - .133
    ({"e4": (10000, 0.2), "d4": (900, 0.3)}, "d2d4"),
    ({"e4": (9000, 0.2), "d4": (900, 0.3)}, "e2e4"),  # not so many
    ({"e4": (10000, -0.2), "d4": (900, 0.0), "a3": (3600, -0.1)}, "d2d4"),
    ({"e4": (10000, 0.98), "d4": (900, 1.0)}, "d2d4"),  # a value of 1 as ever
    ({"e4": (10000, 0.995), "d4": (900, 1.0)}, "e2e4"),
    ({"e4": (20, -0.1), "d4": (10**9, -0.1)}, "d2d4"),
]


def random_edges(rng: random.Random) -> Edges:
    """Returns edges of a position with many visits, with values close to each other."""
    moves = rng.sample(["e4", "d4", "a3", "h3", "Nf3", "Nc3", "b3", "g3"], rng.randint(1, 8))
    scale = rng.choice([20, 3000, 20000, 10**6])
    mean = rng.choice([0.0, 0.5, -0.3, 0.97])
    return {move: (rng.randint(1, scale), min(1.0, mean + rng.uniform(-0.1, 0.1))) for move in moves}


CASES_AT_RANDOM = [random_edges(random.Random(seed)) for seed in range(60)]


@pytest.mark.parametrize(
    ("edges", "drawn", "best"),
    [
        ({"e4": (12000, 0.0), "d4": (0, 0.0)}, 0, "e2e4"),  # all visits went to a proven move
        ({"a3": (6000, -0.5), "e4": (5000, 0.0), "d4": (10, 1.0)}, 1, "d2d4"),  # a value of one
    ],
)
def test_a_proven_draw_comes_before_what_is_worse_only(edges: Edges, drawn: int, best: str) -> None:
    board = chess.Board()
    record = node(board, edges)
    known = list(record.edges)
    known[drawn] = replace(known[drawn], d=DRAWN)
    record = replace(record, edges=tuple(known))
    assert best_move(record, board) == chess.Move.from_uci(best)
    assert legal_moves(board)[int(diff.values_of(batch_of([record])).best[0])].uci() == best


@pytest.mark.parametrize(
    ("edges", "best"),
    [*CASES, *((edges, None) for edges in CASES_AT_RANDOM), ({"e4": (9, 0.1), "d4": (9, 0.1)}, None)],
)
def test_one_record_many_at_once_and_exports_rank_alike(
    edges: Edges, best: str | None, tmp_path: Path
) -> None:
    """A value of one is first unless the most visited move is almost won."""
    board = chess.Board()
    record = node(board, edges)
    first = legal_moves(board)[record.order[ranking(record, board.halfmove_clock)[0]]]
    assert best in (None, first.uci())
    assert best_move(record, board) == first
    assert legal_moves(board)[int(diff.values_of(batch_of([record])).best[0])] == first
    path = graph_file(tmp_path / "a.graph", {"": edges})
    with Store.open(path, read_only=True) as store:
        ((found, _),) = Walk(Export(store, Selection(), ExportReport("", "")), leaves=True).visits()
        visited = [k for k in ranking(found.batch.record(0)) if k < len(edges)]
        assert found.moves.edge.tolist() == visited


# ------------------------------------------------------------------ two versions become one
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
    assert one(one(both, third), third) == one(both, third)


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


# ------------------------------------------------------------------ transposition entries
Words = np.ndarray[tuple[int], np.dtype[np.uint64]]
SET = "UPDATE entry_piece SET"
OURS, OTHERS = "aa" * 32, "bb" * 32


def some_words(seed: int, count: int, *, depth: int = 5) -> tuple[Words, Words]:
    """Returns random entries of one depth, in any order, each of a position of its own."""
    rng = np.random.default_rng(seed)
    keys = rng.permutation(np.unique(rng.integers(1, 1 << 64, count, dtype=np.uint64)))
    data = rng.integers(0, 1 << 64, len(keys), dtype=np.uint64)
    data &= ~np.uint64(127 << 34)
    return keys, data | np.uint64(depth << 34)


def as_dict(keys: Words, data: Words) -> dict[int, int]:
    return dict(zip(keys.tolist(), data.tolist(), strict=True))


def new_file(path: Path) -> Store:
    return Store.open(path, create=True, unbound=True)


def add(store: Store, keys: Words, data: Words, evaluation: str = OURS, **sizes: int) -> None:
    with store.transaction(), patch.dict(vars(entries), sizes):
        entries.append(store, keys, data, evaluation)


def loaded(path: Path, evaluation: str = OURS) -> dict[int, int]:
    with Store.open(path, read_only=True) as store:
        found = entries.load(store, evaluation)
        assert found.problems == []
        return as_dict(found.keys, found.data)


@given(
    st.lists(
        st.tuples(st.integers(1, (1 << 64) - 1), st.integers(0, (1 << 64) - 1)),
        min_size=1,
        max_size=40,
        unique_by=lambda pair: (pair[0], pair[1] >> 48),
    )
)
def test_a_piece_is_read_as_it_was_written(pairs: list[tuple[int, int]]) -> None:
    pairs.sort(key=lambda pair: (pair[0], pair[1] >> 48))
    keys, data = (np.array([pair[i] for pair in pairs], np.uint64) for i in (0, 1))
    got = entries.decode(entries.encode(keys, data), len(keys))
    assert [list(map(int, part)) for part in got] == [keys.tolist(), data.tolist()]


def test_the_worked_example_is_what_the_code_reads_and_writes() -> None:
    blob = example("entries.md")["piece"]
    keys, data = entries.decode(blob, 2)
    assert [f"{key:016x}" for key in keys.tolist()] == ["463b96181691fc9c", "823c9b50fd114196"]
    assert [f"{word:016x}" for word in data.tolist()] == ["f47f0e181c32001f", "c5a60e1424d1ffe1"]
    assert entries.encode(keys, data) == blob
    assert f"{entries.MOST_ENTRIES:,}" in (SCHEMA / "entries.md").read_text()


def test_the_newest_entry_of_a_position_counts_and_a_proof_before_all(path: Path) -> None:
    keys, first = some_words(1, 300)
    keys[1] = keys[0]  # two positions of one key both stay
    first[:2] = first[:2] & ~np.uint64(0xFFFF << 48) | np.array([1 << 48, 2 << 48], np.uint64)
    proofs = first & ~np.uint64(127 << 34) | np.uint64(kernel.PROOF << 34)
    second = first ^ np.uint64(1)
    with new_file(path) as store:
        add(store, keys, first)
        add(store, keys[:50], proofs[:50])
        add(store, keys[:200], second[:200])
        assert not store.is_bound
        found = entries.load(store, OURS)
    newest = np.concatenate([proofs[:50], second[50:200], first[200:]])
    assert sorted(zip(found.keys.tolist(), found.data.tolist(), strict=True)) == sorted(
        zip(keys.tolist(), newest.tolist(), strict=True)
    )
    assert verify(path).problems == []
    assert verify(path).entries == 550


def test_entries_of_another_evaluation_are_not_served_but_proofs_are(path: Path) -> None:
    keys, data = some_words(2, 200)
    proven, proofs = some_words(3, 20, depth=kernel.PROOF)
    with new_file(path) as store:
        add(store, keys, data, OTHERS)
        add(store, proven, proofs, OTHERS)
        found = entries.load(store, OURS)
        assert as_dict(found.keys, found.data) == as_dict(proven, proofs)
        assert found.ignored == 200
        facts = entries.facts(store)
    assert (facts.entries, facts.proofs, facts.evaluations) == (220, 20, {OTHERS: 200})
    assert loaded(path, OTHERS) == as_dict(keys, data) | as_dict(proven, proofs)
    assert info(path).as_dict()["entries"]["entries"] == 220


def test_many_pieces_are_rewritten_as_few_without_waste_and_other_evaluations(path: Path) -> None:
    keys, data = some_words(4, 1000)
    with new_file(path) as store:
        add(store, *some_words(5, 10), OTHERS)
        for k in range(30):
            add(store, keys, data ^ np.uint64(k), FEW_PIECES=5, MOST_ENTRIES=400)
            assert entries.facts(store).pieces <= 5 + 2 * 3
        assert entries.facts(store).evaluations.keys() == {OURS}
    assert loaded(path) == as_dict(keys, data ^ np.uint64(29))


def test_compacting_keeps_every_evaluation_and_no_superseded_entry(path: Path) -> None:
    keys, data = some_words(7, 400)
    with new_file(path) as store:
        for k in range(3):
            add(store, keys, data ^ np.uint64(k))
            add(store, keys[:100], data[:100], OTHERS)
        add(store, *some_words(8, 5, depth=kernel.PROOF))
    before = path.stat().st_size
    compact(path)
    with Store.open(path, read_only=True) as store:
        facts = entries.facts(store)
    assert (facts.entries, facts.proofs, facts.pieces) == (505, 5, 3)
    assert facts.evaluations == {OURS: 400, OTHERS: 100}
    assert loaded(path).items() >= as_dict(keys, data ^ np.uint64(2)).items()
    assert path.stat().st_size <= before


def test_a_damaged_number_of_pieces_stops_no_save(path: Path) -> None:
    keys, data = some_words(13, 40)
    with new_file(path) as store:
        store.write_fact(entries.FACT, "many")
        for k in range(3):
            add(store, keys, data ^ np.uint64(k), FEW_PIECES=2)
        assert store.read_fact(entries.FACT) == "1"
    assert loaded(path) == as_dict(keys, data ^ np.uint64(2))


def change(path: Path, statement: str, *values: object) -> None:
    sql(loosen(path), statement, *values)


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        (f"{SET} data = CAST(substr(data, 1, length(data) - 1) || x'a5' AS BLOB) WHERE id = 2", "checksum"),
        (f"{SET} evaluation = '' WHERE id = 2", "checksum"),
        (f"{SET} entries = 7 WHERE id = 2", "it does not expand to 7 entries"),
        (f"{SET} data = 'x' WHERE id = 2", "data is 'x', expected BLOB"),
    ],
)
def test_a_damaged_piece_is_named_and_left_out(path: Path, tmp_path: Path, statement: str, word: str) -> None:
    keys, data = some_words(9, 300)
    with Store.open(path, create=True, identity=IDENTITY) as store:
        for k in range(3):
            add(store, keys[100 * k : 100 * k + 100], data[100 * k : 100 * k + 100])
    change(path, statement)
    assert [word in problem and "piece 2" in problem for problem in verify(path).problems] == [True]
    sound = as_dict(keys, data).items() - as_dict(keys[100:200], data[100:200]).items()
    with Store.open(path) as store:
        found = entries.load(store, OURS)
        assert as_dict(found.keys, found.data).items() == sound
        assert [str(path) in problem for problem in found.problems] == [True]
        add(store, *some_words(10, 5), FEW_PIECES=0)
        assert entries.facts(store).pieces == 2, (
            "one anew, and the damaged one, which stays for verify to name"
        )
    assert not verify(path).ok
    report = salvage(path, tmp_path / "new.graph")
    assert report.entries == 205
    assert [word in problem or "entry_piece" in problem for problem in report.problems] == [True]
    assert verify(tmp_path / "new.graph").problems == []
    assert loaded(tmp_path / "new.graph").items() > sound


def test_a_piece_that_is_listed_and_not_found_is_damaged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is where a page of the table is damaged."""
    with new_file(path) as store:
        add(store, *some_words(1, 50))
        monkeypatch.setattr(entries, "listed", lambda *_: [(99, OURS, 50), (1, OURS, 50)])
        found = entries.load(store, OURS)
    assert len(found.keys) == 50
    (problem,) = found.problems
    assert "piece 99 of the entries is damaged: its row is not found" in problem


def test_runs_and_iterations_are_plain_rows(path: Path) -> None:
    one = entries.RunOutcome(
        depth=1, alpha=-9, beta=9, value=5, bound="exact", best_move="e2e4", pv="e2e4", nodes=30
    )
    two = entries.RunOutcome(depth=2, alpha=-9, beta=9, value=4, bound="exact", nodes=70, hits=3, seconds=0.5)
    with new_file(path) as store:
        with store.transaction():
            run = entries.begin(store, entries.ALPHABETA, chess.STARTING_FEN, "0" * 16, {"depth": 2}, OURS)
            entries.add_iteration(store, run, one)
            entries.add_iteration(store, run, two)
            entries.update(store, run, two, finished=True)
            entries.begin(store, "mate", chess.STARTING_FEN, "0" * 16, {}, OURS)
        assert entries.iterations(store, chess.STARTING_FEN, "0" * 16, OURS) == {1: one, 2: two}
        assert entries.iterations(store, chess.STARTING_FEN, "0" * 16, OTHERS) == {}
    first, second = info(path).entry_runs
    assert (first.kind, first.depth, first.nodes, first.limits) == ("alphabeta", 2, 70, {"depth": 2})
    assert first.finished
    assert (second.kind, second.finished, second.value) == ("mate", None, None)
    assert verify(path).problems == []


STEP = entries.RunOutcome(
    depth=3, alpha=-9, beta=9, value=5, bound="exact", best_move="e2e4", pv="e2e4", nodes=30
)
FEN, KEY = "8/8/8/8/8/8/8/8 w - - 4 9", "0" * 16


@pytest.mark.parametrize(
    ("statement", "word", "is_known"),
    [
        (
            "entry_iteration SET value = 7000",
            "expected value IS NULL OR alpha IS NULL OR bound IS CASE",
            False,
        ),
        ("entry_iteration SET bound = 'about'", "bound is 'about'", False),
        ("entry_iteration SET run = 7", "it belongs to a row that entry_run does not list", False),
        ("entry_run SET seconds = -1", "seconds is -1", True),
    ],
)
def test_a_damaged_row_of_a_run_is_named_not_believed_and_not_salvaged(
    path: Path, tmp_path: Path, statement: str, word: str, is_known: bool
) -> None:
    with new_file(path) as store, store.transaction():
        run = entries.begin(store, entries.ALPHABETA, FEN, KEY, {"depth": 3}, OURS)
        entries.add_iteration(store, run, STEP)
        entries.update(store, run, STEP, finished=True)
    assert verify(path).problems == []
    change(path, f"UPDATE {statement}")
    table = statement.split()[0]
    assert [table in problem and word in problem for problem in verify(path).problems] == [True]
    with Store.open(path, read_only=True) as store:
        assert entries.iterations(store, FEN, KEY, OURS) == ({3: STEP} if is_known else {})
        if table == "entry_run":
            with pytest.raises(CorruptRecordError, match=r"the table entry_run is damaged in the row \(1,"):
                entries.runs(store)
    assert table in salvage(path, tmp_path / "new.graph").tables_lost
    assert verify(tmp_path / "new.graph").problems == []


def test_compacting_names_damaged_pieces_after_everything_else_is_compacted(path: Path) -> None:
    with new_file(path) as store:
        for i, evaluation in enumerate((OURS, OTHERS, OURS)):
            add(store, *some_words(20, 100), evaluation)
            add(store, *some_words(30 + i, 3, depth=kernel.PROOF), evaluation)
    change(path, f"{SET} checksum = checksum + 1 WHERE id <= 2")
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match=r"piece 2 of the entries is damaged.* and 1 more"):
            compact(path)
        assert verify(path).found == 2
    with Store.open(path, read_only=True) as store:
        kept = entries.facts(store).evaluations
    assert kept == {OURS: 200, OTHERS: 100}, "those of the damaged piece count as well"


# ------------------------------------------------------------------ in memory
@pytest.mark.parametrize(
    "entry",
    [
        entries.Entry(31, 5, "exact", chess.Move.from_uci("e2e4"), "pv", 0),
        entries.Entry(-131_000, 0, "upper", None, "all", 0),
        entries.Entry(MATE - 3, kernel.PROOF, "lower", chess.Move.from_uci("a7a8n"), "cut", 7),
        entries.Entry(3 - MATE, 126, "", chess.Move.from_uci("e1g1"), "", 1),
    ],
)
def test_an_entry_survives_packing(entry: entries.Entry) -> None:
    board = chess.Board()
    assert entries.decoded(entries.encoded(entry, board)) == entry
    table = entries.EntryTable(0)
    table.put(board, entry)
    assert table.get(board) == entry
    assert table.get(chess.Board(chess.STARTING_FEN.replace("w", "b"))) is None
    assert table.count == table.dirty_count == 1


def test_what_is_not_saved_is_listed_once_and_again_when_saving_fails() -> None:
    table = entries.EntryTable(0)
    for board in after_each_move(chess.Board()):
        table.put(board, entries.Entry(7, 1, "exact", None, "", 0))
    places, keys, data = table.take_dirty()
    assert len(set(keys.tolist())) == 20
    assert table.dirty_count == 0
    assert len(table.take_dirty()[0]) == 0
    table.touch_again(places)
    assert table.dirty_count == 20
    assert table.take_dirty()[1].tolist() == keys.tolist()
    other = entries.EntryTable(0)
    other.enter(keys, data)
    assert (other.count, other.dirty_count) == (20, 0)


def put(table: entries.EntryTable, key: uint64, data: uint64) -> None:
    at = kernel.place_for(table.arrays, key, kernel.check_in(data))
    kernel.put_entry(table.arrays, at, key, data, True)


def test_a_full_table_keeps_this_search_and_the_deepest() -> None:
    table, board = entries.EntryTable(0), chess.Board()
    rng = np.random.default_rng(1)

    def fill(depth: int, count: int) -> NDArray[np.int64]:
        """Writes entries of a depth under random keys; returns the keys."""
        data = uint64(entries.encoded(entries.Entry(0, depth, "exact", None, "", 0), board))
        keys = rng.integers(1, 1 << 62, count)
        for key in keys:
            put(table, uint64(key), data)
        return keys

    fill(9, 8 * entries.LEAST_PLACES)
    assert entries.LEAST_PLACES * 0.95 < table.count <= entries.LEAST_PLACES
    table.next_search()
    deep_keys = fill(5, entries.LEAST_PLACES // 8)
    fill(1, 4 * entries.LEAST_PLACES)
    check = uint64(entries.check_of(board) & 0xFFFF)
    kept = sum(kernel.find_entry(table.arrays, uint64(key), check) >= 0 for key in deep_keys)
    assert kept > len(deep_keys) * 0.95
    assert table.count <= len(table.arrays.keys)


def test_two_positions_of_one_key_are_told_apart() -> None:
    table = entries.EntryTable(0)
    entry = entries.Entry(0, 1, "exact", None, "", 0)
    put(table, uint64(5), uint64(entries.encoded(entry, chess.Board())))
    other = uint64((entries.check_of(chess.Board()) ^ 1) & 0xFFFF)
    assert kernel.find_entry(table.arrays, uint64(5), other) < 0
