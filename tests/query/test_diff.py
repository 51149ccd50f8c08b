"""What differs between two files: compared with dicts of all records, and the ranking in Python."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from graphsearch.position.board import key_text_of_words, unpack
from graphsearch.position.values import cp_of
from graphsearch.query.diff import BEST, BOUNDS, OTHER_MOVE, WHATS, N, Q, diff
from graphsearch.store.ranking import best_move, has_best_move, node_mean
from graphsearch.store.record import NodeRecord

from ..store.records import filled, identity, random_records
from ..store.test_union import version

RNG = random.Random(9)


def other_version(record: NodeRecord) -> NodeRecord:
    """Returns other numbers of a position; without visits nothing is proven of it."""
    found = replace(version(record, RNG), evaluator=1, run=0)
    return found if found.edges else replace(found, flags=record.flags)


KNOWN = random_records(71, 260)
OLD = KNOWN[:200]
NEW = [*KNOWN[60:100], *(other_version(r) if r.codes else r for r in KNOWN[100:200]), *KNOWN[200:]]


def best_of(record: NodeRecord) -> str | None:
    move = best_move(record, unpack(record.words)) if has_best_move(record) else None
    return move.uci() if move else None


def changes(old: NodeRecord, new: NodeRecord) -> dict[str, bool | None]:
    """Returns what changed; None where rounding decides."""
    gap = abs(cp_of(node_mean(old)[0]) - cp_of(node_mean(new)[0]))
    moves = best_of(old), best_of(new)
    return {
        BEST: None not in moves and moves[0] != moves[1],
        Q: None if abs(gap - 20) < 3 else gap >= 20,
        N: old.visits != new.visits,
        BOUNDS: old.bounds != new.bounds,
    }


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return filled(tmp_path / "a.graph", OLD, runs=2), filled(tmp_path / "b.graph", NEW, runs=3)


def test_changes_are_counted_and_what_matters_most_is_listed_first(files: tuple[Path, Path]) -> None:
    found = diff(*files, top=1000)
    old, new = ({identity(r): r for r in records} for records in (OLD, NEW))
    shared = old.keys() & new.keys()
    assert (found.both, found.only_old, found.only_new) == (140, 60, 60)
    expected = {key: changes(old[key], new[key]) for key in shared}
    for what in (BEST, N, BOUNDS):
        assert found.counts[what] == sum(bool(each[what]) for each in expected.values())
    unsure = sum(each[Q] is None for each in expected.values())
    assert 0 <= found.counts[Q] - sum(each[Q] is True for each in expected.values()) <= unsure
    rows = {row.key: row for row in found.changes}
    by_key = {key_text_of_words(new[key].words): key for key in shared}
    for text, key in by_key.items():
        whats = {what for what in WHATS if expected[key][what]}
        row = rows.get(text)
        if row is None:
            assert whats <= {Q, N}
        else:
            assert {*row.what} - {Q} == whats - {Q}
            assert (row.old.n, row.new.n) == (old[key].visits, new[key].visits)
            assert (row.old.best_move, row.new.best_move) == (best_of(old[key]), best_of(new[key]))
            assert (row.old.bounds, row.new.bounds) == (old[key].bounds, new[key].bounds)
    weights = [
        min(row.old.n, row.new.n) * (abs(row.new.q - row.old.q) + OTHER_MOVE * (BEST in row.what))
        for row in found.changes
    ]
    assert weights == pytest.approx(sorted(weights, reverse=True))
    assert [row.worth.n for row in found.come] == sorted((r.visits for r in NEW[140:]), reverse=True)
    few = diff(*files, top=3)
    assert few.changes == found.changes[:3]
    assert few.gone == found.gone[:3]
    assert few.counts == found.counts
