"""Transposition entries: in memory the most valuable stay; in the file the newest, damage is named."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import chess
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from graphsearch.base.errors import CorruptRecordError
from graphsearch.jit.types import uint64
from graphsearch.position.values import MATE
from graphsearch.store import entries
from graphsearch.store import transposition_kernel as kernel
from graphsearch.store.entries import (
    ALPHABETA,
    LEAST_PLACES,
    MOST_ENTRIES,
    Entry,
    EntryTable,
    RunOutcome,
    check_of,
    decode,
    decoded,
    encode,
    encoded,
)
from graphsearch.store.info import info
from graphsearch.store.rewrite import compact
from graphsearch.store.salvage import salvage
from graphsearch.store.store import Store
from graphsearch.store.transposition_kernel import PROOF
from graphsearch.store.verify import verify

from ..conftest import sql
from ..support.rows import loosen
from .records import IDENTITY
from .test_formats import SCHEMA, example

Words = np.ndarray[tuple[int], np.dtype[np.uint64]]
SET = "UPDATE entry_piece SET"
OURS, OTHERS = "aa" * 32, "bb" * 32


def words(seed: int, count: int, *, depth: int = 5) -> tuple[Words, Words]:
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
    got = decode(encode(keys, data), len(keys))
    assert [list(map(int, part)) for part in got] == [keys.tolist(), data.tolist()]


def test_the_worked_example_is_what_the_code_reads_and_writes() -> None:
    blob = example("entries.md")["piece"]
    keys, data = decode(blob, 2)
    assert [f"{key:016x}" for key in keys.tolist()] == ["463b96181691fc9c", "823c9b50fd114196"]
    assert [f"{word:016x}" for word in data.tolist()] == ["f47f0e181c32001f", "c5a60e1424d1ffe1"]
    assert encode(keys, data) == blob
    assert f"{MOST_ENTRIES:,}" in (SCHEMA / "entries.md").read_text()


def test_the_newest_entry_of_a_position_counts_and_a_proof_before_all(path: Path) -> None:
    keys, first = words(1, 300)
    keys[1] = keys[0]  # two positions of one key both stay
    first[:2] = first[:2] & ~np.uint64(0xFFFF << 48) | np.array([1 << 48, 2 << 48], np.uint64)
    proofs = first & ~np.uint64(127 << 34) | np.uint64(PROOF << 34)
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
    keys, data = words(2, 200)
    proven, proofs = words(3, 20, depth=PROOF)
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
    keys, data = words(4, 1000)
    with new_file(path) as store:
        add(store, *words(5, 10), OTHERS)
        for k in range(30):
            add(store, keys, data ^ np.uint64(k), FEW_PIECES=5, MOST_ENTRIES=400)
            assert entries.facts(store).pieces <= 5 + 2 * 3
        assert entries.facts(store).evaluations.keys() == {OURS}
    assert loaded(path) == as_dict(keys, data ^ np.uint64(29))


def test_compacting_keeps_every_evaluation_and_no_superseded_entry(path: Path) -> None:
    keys, data = words(7, 400)
    with new_file(path) as store:
        for k in range(3):
            add(store, keys, data ^ np.uint64(k))
            add(store, keys[:100], data[:100], OTHERS)
        add(store, *words(8, 5, depth=PROOF))
    before = path.stat().st_size
    compact(path)
    with Store.open(path, read_only=True) as store:
        facts = entries.facts(store)
    assert (facts.entries, facts.proofs, facts.pieces) == (505, 5, 3)
    assert facts.evaluations == {OURS: 400, OTHERS: 100}
    assert loaded(path).items() >= as_dict(keys, data ^ np.uint64(2)).items()
    assert path.stat().st_size <= before


def test_a_damaged_number_of_pieces_stops_no_save(path: Path) -> None:
    keys, data = words(13, 40)
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
    keys, data = words(9, 300)
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
        add(store, *words(10, 5), FEW_PIECES=0)
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
        add(store, *words(1, 50))
        monkeypatch.setattr(entries, "listed", lambda *_: [(99, OURS, 50), (1, OURS, 50)])
        found = entries.load(store, OURS)
    assert len(found.keys) == 50
    (problem,) = found.problems
    assert "piece 99 of the entries is damaged: its row is not found" in problem


def test_runs_and_iterations_are_plain_rows(path: Path) -> None:
    one = RunOutcome(depth=1, alpha=-9, beta=9, value=5, bound="exact", best_move="e2e4", pv="e2e4", nodes=30)
    two = RunOutcome(depth=2, alpha=-9, beta=9, value=4, bound="exact", nodes=70, hits=3, seconds=0.5)
    with new_file(path) as store:
        with store.transaction():
            run = entries.begin(store, ALPHABETA, chess.STARTING_FEN, "0" * 16, {"depth": 2}, OURS)
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


STEP = RunOutcome(depth=3, alpha=-9, beta=9, value=5, bound="exact", best_move="e2e4", pv="e2e4", nodes=30)
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
        run = entries.begin(store, ALPHABETA, FEN, KEY, {"depth": 3}, OURS)
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
            add(store, *words(20, 100), evaluation)
            add(store, *words(30 + i, 3, depth=PROOF), evaluation)
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
        Entry(31, 5, "exact", chess.Move.from_uci("e2e4"), "pv", 0),
        Entry(-131_000, 0, "upper", None, "all", 0),
        Entry(MATE - 3, PROOF, "lower", chess.Move.from_uci("a7a8n"), "cut", 7),
        Entry(3 - MATE, 126, "", chess.Move.from_uci("e1g1"), "", 1),
    ],
)
def test_an_entry_survives_packing(entry: Entry) -> None:
    board = chess.Board()
    assert decoded(encoded(entry, board)) == entry
    table = EntryTable(0)
    table.put(board, entry)
    assert table.get(board) == entry
    assert table.get(chess.Board(chess.STARTING_FEN.replace("w", "b"))) is None
    assert table.count == table.dirty_count == 1


def test_what_is_not_saved_is_listed_once_and_again_when_saving_fails() -> None:
    table = EntryTable(0)
    board = chess.Board()
    for move in list(board.legal_moves):
        board.push(move)
        table.put(board, Entry(7, 1, "exact", None, "", 0))
        board.pop()
    keys, data = table.take_dirty()
    assert len(set(keys.tolist())) == 20
    assert table.dirty_count == 0
    assert len(table.take_dirty()[0]) == 0
    table.touch_again(keys, data)
    assert sorted(table.take_dirty()[0].tolist()) == sorted(keys.tolist())
    other = EntryTable(0)
    other.enter(keys, data)
    assert (other.count, other.dirty_count) == (20, 0)


def test_a_full_table_keeps_this_search_and_the_deepest() -> None:
    table, board = EntryTable(0), chess.Board()
    rng = np.random.default_rng(1)

    def fill(depth: int, count: int) -> NDArray[np.int64]:
        """Writes entries of a depth under random keys; returns the keys."""
        data = uint64(encoded(Entry(0, depth, "exact", None, "", 0), board))
        keys = rng.integers(1, 1 << 62, count)
        for key in keys:
            kernel.write(table.arrays, uint64(key), data)
        return keys

    fill(9, 8 * LEAST_PLACES)
    assert LEAST_PLACES * 0.95 < table.count <= LEAST_PLACES
    table.next_search()
    deep_keys = fill(5, LEAST_PLACES // 8)
    fill(1, 4 * LEAST_PLACES)
    check = uint64(check_of(board) & 0xFFFF)
    kept = sum(bool(kernel.look_up(table.arrays, uint64(key), check)) for key in deep_keys)
    assert kept > len(deep_keys) * 0.95
    assert table.count <= len(table.arrays.keys)


def test_two_positions_of_one_key_are_told_apart() -> None:
    table = EntryTable(0)
    entry = Entry(0, 1, "exact", None, "", 0)
    kernel.write(table.arrays, uint64(5), uint64(encoded(entry, chess.Board())))
    other = uint64((check_of(chess.Board()) ^ 1) & 0xFFFF)
    assert int(kernel.look_up(table.arrays, uint64(5), other)) == 0
