"""Damage, and records that cannot be: what a check names, and that none of it is served in silence."""

from __future__ import annotations

import logging
import random
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import chess
import numpy as np
import pytest

from graphsearch import Graph, Limits, analyze
from graphsearch.base.errors import CorruptRecordError, StoreError, UnsoundRecordError
from graphsearch.position.board import castling_fields, pack, unpack
from graphsearch.query.line import pv
from graphsearch.store.block import unsound
from graphsearch.store.index import ChunkIndex, Sizes
from graphsearch.store.record import UNPROVEN, Edge, NodeRecord
from graphsearch.store.rewrite import compact, rewrite
from graphsearch.store.salvage import salvage
from graphsearch.store.store import Store
from graphsearch.store.verify import Problems, verify

from ..conftest import sql
from ..support.rows import loosen
from .records import (
    Records,
    batch_of,
    by_identity,
    changed,
    contents,
    filled,
    found_by,
    identity,
    random_records,
    words_of,
)
from .sealing import opened, seal

RECORDS = Records(71, 200)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return filled(tmp_path / "test.graph", RECORDS, runs=2)


def flip(path: Path, table: str, column: str, row: int, byte: int, bit: int = 0) -> None:
    """Flips one bit of a BLOB."""
    (data,) = sql(path, f"SELECT {column} FROM {table} WHERE id = ?", row)[0]
    assert isinstance(data, bytes)
    changed = bytearray(data)
    changed[byte % len(changed)] ^= 1 << bit
    sql(path, f"UPDATE {table} SET {column} = ? WHERE id = ?", bytes(changed), row)


def read_or_error(store: Store, record: NodeRecord) -> NodeRecord | StoreError | None:
    """Returns what reading a record's position gives, be it an error."""
    try:
        return store.read(unpack(record.words))
    except StoreError as error:
        return error


def test_a_sound_file_is_found_sound(path: Path) -> None:
    calls: list[tuple[int, int]] = []
    report = verify(path, lambda now: calls.append((now.done, now.total)))
    assert report.ok
    assert (report.records, report.stored, report.runs, report.problems) == (200, 200, 2, [])
    assert calls[-1] == (report.blocks, report.blocks)
    assert report.as_dict()["ok"] is True


def test_a_flipped_bit_in_a_block_is_named_and_its_records_are_not_served(path: Path) -> None:
    rng = random.Random(1)
    block = rng.choice([row[0] for row in sql(path, "SELECT id FROM block")])
    flip(path, "block", "data", block, rng.randrange(10**6), rng.randrange(8))
    where = rf"segment \d+, chunk \d+, block {block}: checksum"
    report = verify(path)
    assert [bool(re.search(where, problem)) for problem in report.problems] == [True]
    assert 168 <= report.records < 200
    known = by_identity(RECORDS)
    with Store.open(path) as store, store.reader() as reader:
        with pytest.raises(CorruptRecordError, match=rf"test\.graph: {where}"):
            contents(store)
        seen: list[CorruptRecordError] = []
        left = [batch.record(i) for batch in store.scan(on_corrupt=seen.append) for i in range(len(batch))]
        assert len(seen) == 1
        assert len(left) == report.records
        assert all(known[identity(record)] == record for record in left)
        alone = [read_or_error(store, record) for record in RECORDS]
        for _ in range(2):
            together = found_by(reader, RECORDS)
            lost = [answer is None for answer in together]
            assert 200 - report.records <= sum(lost) <= 40, "where a filter says yes in error, too"
        for record, one, answer in zip(RECORDS, alone, together, strict=True):
            assert answer in (None, record)
            assert one == record or f"block {block}:" in str(one)
        assert sum(isinstance(one, StoreError) for one in alone) >= 200 - report.records
        assert [bool(re.search(where, problem)) for problem in reader.problems] == [True], "once"


def test_a_damaged_block_hides_no_other_run_from_other_positions(path: Path) -> None:
    rng = random.Random(1)
    with Store.open(path) as store:
        store.append(batch_of([changed(record, rng) for record in RECORDS[:20]]), fresh=0)
    flip(path, "block", "data", sql(path, "SELECT max(id) FROM block")[0][0], 30)
    with Store.open(path) as store, store.reader() as reader:
        answers = found_by(reader, RECORDS)
        assert answers[:20] == [None] * 20
        assert sum(answer is None for answer in answers[20:]) <= 20, "a filter may say yes in error"
        assert len(reader.problems) == 1


def test_a_damaged_block_stops_a_merge_and_a_rewrite_with_its_name(path: Path) -> None:
    flip(path, "block", "data", 3, 50)
    with Store.open(path, sizes=Sizes(fan_out=2)) as store:
        with pytest.raises(CorruptRecordError, match="block 3"):
            store.merge_step()
        with pytest.raises(CorruptRecordError, match="block 3"):
            rewrite(store)
        store.append(batch_of(random_records(32, 5)), fresh=5)  # the store stays usable
        assert store.node_count == 205


@pytest.mark.parametrize("column", ["keys", "dictionary", "bloom"])
def test_a_damaged_index_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str) -> None:
    monkeypatch.setattr("graphsearch.store.block.TRAINED_FROM", 8)
    records = random_records(71, 400)
    path = filled(tmp_path / "trained.graph", records[:300])
    with Store.open(path) as store:
        store.append(batch_of(records[300:]), fresh=100)
    flip(path, "chunk", column, 1, 5)
    assert any("chunk 1: its index is damaged" in problem for problem in verify(path).problems)
    with Store.open(path) as store, store.reader() as reader:
        with pytest.raises(CorruptRecordError, match="chunk 1"):
            contents(store)
        for _ in range(2):
            assert found_by(reader, records) == [*[None] * 300, *records[300:]]
            reader.filter()
        assert ["chunk 1: its index is damaged" in problem for problem in reader.problems] == [True]


def test_a_missing_block_and_one_that_is_no_records_are_named_and_passed_over(path: Path) -> None:
    (data,) = sql(path, "SELECT data FROM block WHERE id = 1")[0]
    wrong = seal(b"", [opened(b"", data) + bytes(9)])[0]
    sql(path, "UPDATE block SET data = ? WHERE id = 1", wrong)
    sql(path, "DELETE FROM block WHERE id = 3")
    problems = verify(path).problems
    assert any("block 1: its bytes are not records" in problem for problem in problems)
    assert any("block 3" in problem for problem in problems)
    with Store.open(path) as store, store.reader() as reader:
        assert sum(answer is None for answer in found_by(reader, RECORDS)) == 64
        assert sorted("block 1" in problem for problem in reader.problems) == [False, True]


def test_a_wrong_dictionary_is_named(path: Path) -> None:
    with Store.open(path) as store:
        index = store.catalog.index(store.catalog.segments[-1].chunks[0])
    wrong = ChunkIndex(index.keys, b"nonsense", index.bloom)
    sql(path, "UPDATE chunk SET dictionary = ?, checksum = ? WHERE id = 1", b"nonsense", wrong.stored()[0])
    assert any("chunk 1: dictionar" in problem for problem in verify(path).problems)
    with Store.open(path, read_only=True) as store, pytest.raises(CorruptRecordError, match="chunk 1"):
        contents(store)


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("INSERT INTO block VALUES (99, x'00')", "blocks, the runs have"),
        ("UPDATE store_info SET value = '7' WHERE name = 'nodes'", "200 live records, the file counts 7"),
        ("UPDATE chunk SET records = 5 WHERE id = 1", "100 records instead of 5"),
        ("DELETE FROM segment WHERE id = 1", "segment 1, which is missing"),
        ("UPDATE block SET data = (SELECT data FROM block WHERE id = 1) WHERE id = 2", "out of order"),
        ("DROP TABLE chunk", "no such table"),
        ("DELETE FROM evaluator", "not bound to an evaluator"),
        ("UPDATE evaluator SET identity = 'x'", "evaluator"),
        ("UPDATE evaluator SET id = 2", "not bound to an evaluator"),
        ("UPDATE store_info SET name = 'evaluator', value = 'x' WHERE name = 'created'", "store_info"),
        ("UPDATE store_info SET value = 'many' WHERE name = 'nodes'", "store_info"),
    ],
)
def test_what_does_not_fit_together_is_named(path: Path, statement: str, problem: str) -> None:
    sql(loosen(path), statement)
    report = verify(path)
    assert not report.ok
    assert any(problem in line for line in report.problems), report.problems
    assert all("\n" not in line for line in report.problems)


def test_an_index_that_disagrees_with_its_blocks_is_named(path: Path) -> None:
    """A consistent checksum over keys or a filter that are not those of the records."""
    with Store.open(path) as store:
        chunk = store.catalog.segments[-1].chunks[0]
        index = store.catalog.index(chunk)
    keys = index.keys.copy()
    keys[1] += np.uint64(1)
    checksum, stored, _, bloom = ChunkIndex(keys, index.dictionary, np.zeros_like(index.bloom)).stored()
    statement = "UPDATE chunk SET keys = ?, bloom = ?, checksum = ? WHERE id = ?"
    sql(path, statement, stored, bloom, checksum, chunk.id)
    problems = verify(path).problems
    assert any("does not begin with the key" in problem for problem in problems)
    assert sum("missing in the bloom filter" in problem for problem in problems) == chunk.records


@pytest.mark.parametrize("offset", [0, 20, 100, 16384, 16384 + 8, 3 * 16384])
def test_overwritten_pages_are_reported(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(b"\xa5" * 64)
    report = verify(path)
    assert not report.ok
    with suppress(StoreError), Store.open(path, read_only=True) as store:
        contents(store)  # any other error fails the test


def test_a_problem_is_a_short_line_that_says_what_to_do(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Problems()
    found.add("a.graph: " + "; ".join(f"P of move {k} is wrong" for k in range(200)))
    assert [len(line) for line in found.problems] == [603]
    assert found.problems[0].endswith("...")

    def fail(*_: object) -> None:
        raise sqlite3.DatabaseError("database disk image is malformed")

    monkeypatch.setattr("graphsearch.store.verify.check_rows", fail)
    (problem,) = verify(path).problems
    assert problem.startswith(f"{path}: cannot check it: database disk image is malformed")
    assert "store salvage" in problem


def test_an_emptied_page_is_reported_by_the_store_not_by_sqlite(path: Path) -> None:
    """Ending a reader's transaction fails then, too; its error once hid the one that names the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in ("journal_mode = DELETE", "page_size = 1024"):
            connection.execute(f"PRAGMA {statement}")
        connection.execute("VACUUM")
    sound = path.read_bytes()
    failures = 0
    for at in range(1024, len(sound), 3 * 1024):
        path.write_bytes(sound[:at] + bytes(1024) + sound[at + 1024 :])
        try:
            with Store.open(path, read_only=True) as store, store.snapshot():
                contents(store)
        except StoreError:  # any other error fails the test
            failures += 1
    assert failures > 3


# ------------------------------------------------------------------ records that cannot be
SOUND = Records(71, 400)


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphsearch.store.segment._said", set())


def broken(record: NodeRecord) -> Iterator[tuple[str, NodeRecord]]:
    """Yields what an open record with edges cannot be."""
    first, *rest = record.edges
    moves, (*men, meta, key) = len(record.codes), record.words
    yield "priors for", replace(record, codes=record.codes + b"\x05")
    yield "priors for", replace(record, codes=record.codes[:-1], edges=record.edges[: moves - 1])
    yield "priors for", replace(record, codes=b"", edges=())
    yield "not an interval", replace(record, flags=0 | 0 << 2 | 3 << 4)
    yield "not an interval", replace(record, flags=0 | 2 << 2 | 1 << 4)
    yield "terminal kind 1", replace(record, codes=b"", edges=(), flags=1, v=-1.0, d=0)
    yield "terminal kind 2", replace(record, codes=b"", edges=(), flags=2 | 1 << 2 | 1 << 4, v=0.0, d=1000)
    yield "V has", replace(record, v=0.5, d=900)
    yield "has Q", replace(record, edges=(Edge(5, 0, 0.75, 400), *rest))
    yield "r = ", replace(record, edges=(Edge(first.n, first.n + 1 & 0xFFFFFFFF, 0.0, 0), *rest))
    yield "value without visits", replace(record, edges=(Edge(3, 3, 0.5, 1), *rest))
    yield "proven", replace(record, edges=(Edge(3, 0, 0.5, 1001), *rest))
    yield "evaluator 200", replace(record, evaluator=200)
    for other in (meta | 1 << 1, meta & 0xFF01F | 30 << 5, meta ^ 1):  # castling, en passant, turn
        yield "illegal", replace(record, words=(*men, other, key))


def unsound_records() -> list[tuple[str, NodeRecord]]:
    """Returns a record of every kind that cannot be, each of a position of its own."""
    plain = [r for r in random_records(72, 400) if 2 < len(r.edges) < 99 and not r.words[8] >> 1 & 15]
    kinds = range(len(list(broken(plain[0]))) - 1)  # the other side's turn is often legal
    found = [list(broken(plain[kind]))[kind] for kind in kinds]
    legal = pack(chess.Board("4k3/8/8/8/4R3/8/8/4K3 b - - 0 1"))
    legal[8] ^= np.uint64(1)  # White could take the king
    return [*found, ("illegal", NodeRecord(tuple(legal.tolist()), 0.0, 0, 1, UNPROVEN, bytes([9] * 15), ()))]


def test_what_cannot_be_is_named() -> None:
    assert unsound(batch_of(SOUND)) == []
    tried = 0
    for record in SOUND[:150]:
        if record.terminal or len(record.edges) < 2:
            continue
        found = list(broken(record))
        bad = dict(unsound(batch_of([one for _, one in found])))
        for i, (what, one) in enumerate(found):
            if what == "illegal":  # another turn, or other rights, may be legal
                assert (i in bad) == (not _is_legal(one)), one
            else:
                assert what in bad[i], (what, bad[i])
        tried += len(bad)
    assert tried > 200


CASTLING_FIELDS = 15 << 1 | ((1 << 13) - 1) << 20  # of META


def _is_legal(record: NodeRecord) -> bool:
    board = unpack(record.words)
    if castling_fields(board) != record.words[8] & CASTLING_FIELDS or board.was_into_check():
        return False
    if board.clean_castling_rights() != board.castling_rights:
        return False
    square = board.ep_square
    passed = square is None or (board._valid_ep_square() == square and board.has_pseudo_legal_en_passant())
    return passed and len(list(board.legal_moves)) == len(record.codes)


def test_castling_is_judged_as_by_python_chess() -> None:
    words = [record.words for record in SOUND[:60]]
    chess960 = [record.words for record in SOUND if record.words[8] >> 20][:30]
    made = [
        replace(SOUND[0], words=(*men, meta ^ 1 << bit, key))
        for *men, meta, key in (*words, *chess960)
        for bit in (1, 2, 3, 4, *range(20, 33))
    ]
    bad = dict(unsound(batch_of(made)))
    fits = [castling_fields(unpack(one.words)) == one.words[8] & CASTLING_FIELDS for one in made]
    boards = [unpack(one.words) for one in made]
    assert [bad.get(i) == "its position is illegal" for i in range(len(made))] == [
        not fit or board.clean_castling_rights() != board.castling_rights
        for fit, board in zip(fits, boards, strict=True)
    ]
    assert 0 < sum(fits) < len(made) / 5
    assert len(chess960) == 30


def test_records_that_cannot_be_are_named_left_out_and_not_salvaged(tmp_path: Path) -> None:
    whats, bad = zip(*unsound_records(), strict=True)
    path, count = filled(tmp_path / "a.graph", [*SOUND[:50], *bad]), len(bad)

    def all_named(lines: list[str]) -> bool:
        return all(sum(what in line for line in lines) >= whats.count(what) for what in whats)

    assert all_named(verify(path).problems)
    with Store.open(path, read_only=True) as store:
        seen: list[CorruptRecordError] = []
        assert sum(len(batch) for batch in store.scan(on_corrupt=seen.append)) == 50
        assert all_named(list(map(str, seen)))
        for what, record in zip(whats, bad, strict=True):
            if what != "illegal":
                with pytest.raises(UnsoundRecordError, match=what):
                    store.read(unpack(record.words))
        words = words_of([*SOUND[:50], *bad])
        with store.reader() as reader:
            found, batch = reader.find(words)
            assert found.tolist() == [True] * 50 + [False] * count
            assert all_named(reader.problems)
            assert len(batch) == 50
    report = salvage(path, tmp_path / "new.graph")
    assert (report.records, report.records_unsound) == (50, count)
    assert verify(tmp_path / "new.graph").ok


def test_searches_evaluate_it_again_queries_pass_by(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a.graph"
    with Graph.open(path, evaluator="uniform") as graph:
        analyze(graph, chess.Board(), Limits(evaluations=60))
    spoil(path, chess.Board("rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"))
    with caplog.at_level(logging.WARNING, "graphsearch"):
        assert len(pv(path, chess.Board(), lines=20).lines) == 20
    assert "damaged, and left out" in caplog.text
    assert "priors for 20 legal moves" in caplog.text
    with Graph.open(path, evaluator="uniform") as graph:
        analyze(graph, chess.Board(), Limits(evaluations=60))
    compact(path)
    assert verify(path).problems == []
    with Store.open(path, read_only=True) as store:
        assert len(contents(store)) == store.node_count


def spoil(path: Path, board: chess.Board) -> None:
    """Gives the newest version of a record one prior too many."""
    with Store.open(path) as store:
        record = store.read(board)
        assert record is not None
        store.connection.execute("DELETE FROM top_position")  # which would follow the record
        store.append(batch_of([replace(record, codes=record.codes + b"\x05")]), fresh=0)
