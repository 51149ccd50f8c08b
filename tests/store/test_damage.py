"""Damage, and records that cannot be: what a check names, that none of it is served, what salvage saves."""

from __future__ import annotations

import logging
import os
import random
import re
import shutil
import sqlite3
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import chess
import numpy as np
import pytest

from graphsearch import Graph, Limits, analyze
from graphsearch.base.errors import CorruptRecordError, EvaluatorMismatchError, StoreError, UnsoundRecordError
from graphsearch.position.board import castling_fields, fen_of, pack, unpack
from graphsearch.query.line import pv
from graphsearch.store import entries, merging
from graphsearch.store.block import unsound
from graphsearch.store.index import ChunkIndex, Sizes
from graphsearch.store.info import info
from graphsearch.store.provenance import EvaluatorIdentity
from graphsearch.store.record import UNPROVEN, Edge, NodeRecord
from graphsearch.store.rewrite import Progress, compact, rewrite
from graphsearch.store.salvage import OWN, PLAIN, SalvageReport, salvage
from graphsearch.store.store import Store
from graphsearch.store.tables import games
from graphsearch.store.tables.rows import TABLES
from graphsearch.store.tables.top import rows_of
from graphsearch.store.verify import Problems, verify

from ..conftest import sql
from ..support.rows import add_examples, loosen
from . import records as made

RECORDS = made.Records(71, 200)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return made.filled(tmp_path / "test.graph", RECORDS, runs=2)


def flip(path: Path, table: str, column: str, row: int, byte: int, bit: int = 0) -> None:
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
    known = made.by_identity(RECORDS)
    with Store.open(path) as store, store.reader() as reader:
        with pytest.raises(CorruptRecordError, match=rf"test\.graph: {where}"):
            made.contents(store)
        seen: list[CorruptRecordError] = []
        left = [batch.record(i) for batch in store.scan(on_corrupt=seen.append) for i in range(len(batch))]
        assert len(seen) == 1
        assert len(left) == report.records
        assert all(known[made.identity(record)] == record for record in left)
        alone = [read_or_error(store, record) for record in RECORDS]
        for _ in range(2):
            together = made.found_by(reader, RECORDS)
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
        store.append(made.batch_of([made.changed(record, rng) for record in RECORDS[:20]]), fresh=0)
    flip(path, "block", "data", sql(path, "SELECT max(id) FROM block")[0][0], 30)
    with Store.open(path) as store, store.reader() as reader:
        answers = made.found_by(reader, RECORDS)
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
        store.append(made.batch_of(made.random_records(32, 5)), fresh=5)  # the store stays usable
        assert store.node_count == 205


@pytest.mark.parametrize("column", ["keys", "dictionary", "bloom"])
def test_a_damaged_index_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str) -> None:
    monkeypatch.setattr("graphsearch.store.block.TRAINED_FROM", 8)
    records = made.random_records(71, 400)
    path = made.filled(tmp_path / "trained.graph", records[:300])
    with Store.open(path) as store:
        store.append(made.batch_of(records[300:]), fresh=100)
    flip(path, "chunk", column, 1, 5)
    assert any("chunk 1: its index is damaged" in problem for problem in verify(path).problems)
    with Store.open(path) as store, store.reader() as reader:
        with pytest.raises(CorruptRecordError, match="chunk 1"):
            made.contents(store)
        for _ in range(2):
            assert made.found_by(reader, records) == [*[None] * 300, *records[300:]]
            reader.filter()
        assert ["chunk 1: its index is damaged" in problem for problem in reader.problems] == [True]


def test_a_missing_block_and_one_that_is_no_records_are_named_and_passed_over(path: Path) -> None:
    (data,) = sql(path, "SELECT data FROM block WHERE id = 1")[0]
    wrong = made.seal(b"", [made.opened(b"", data) + bytes(9)])[0]
    sql(path, "UPDATE block SET data = ? WHERE id = 1", wrong)
    sql(path, "DELETE FROM block WHERE id = 3")
    problems = verify(path).problems
    assert any("block 1: its bytes are not records" in problem for problem in problems)
    assert any("block 3" in problem for problem in problems)
    with Store.open(path) as store, store.reader() as reader:
        assert sum(answer is None for answer in made.found_by(reader, RECORDS)) == 64
        assert sorted("block 1" in problem for problem in reader.problems) == [False, True]


def test_a_wrong_dictionary_is_named(path: Path) -> None:
    with Store.open(path) as store:
        index = store.catalog.index(store.catalog.segments[-1].chunks[0])
    wrong = ChunkIndex(index.keys, b"nonsense", index.bloom)
    sql(path, "UPDATE chunk SET dictionary = ?, checksum = ? WHERE id = 1", b"nonsense", wrong.stored()[0])
    assert any("chunk 1: dictionar" in problem for problem in verify(path).problems)
    with Store.open(path, read_only=True) as store, pytest.raises(CorruptRecordError, match="chunk 1"):
        made.contents(store)


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
    assert not verify(path).ok
    with suppress(StoreError), Store.open(path, read_only=True) as store:
        made.contents(store)  # any other error fails the test


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
                made.contents(store)
        except StoreError:  # any other error fails the test
            failures += 1
    assert failures > 3


# ------------------------------------------------------------------ records that cannot be
SOUND = made.Records(71, 400)


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
    plain = [r for r in made.random_records(72, 400) if 2 < len(r.edges) < 99 and not r.words[8] >> 1 & 15]
    kinds = range(len(list(broken(plain[0]))) - 1)  # the other side's turn is often legal
    found = [list(broken(plain[kind]))[kind] for kind in kinds]
    legal = pack(chess.Board("4k3/8/8/8/4R3/8/8/4K3 b - - 0 1"))
    legal[8] ^= np.uint64(1)  # White could take the king
    return [*found, ("illegal", NodeRecord(tuple(legal.tolist()), 0.0, 0, 1, UNPROVEN, bytes([9] * 15), ()))]


def test_what_cannot_be_is_named() -> None:
    assert unsound(made.batch_of(SOUND)) == []
    tried = 0
    for record in SOUND[:150]:
        if record.terminal or len(record.edges) < 2:
            continue
        found = list(broken(record))
        bad = dict(unsound(made.batch_of([one for _, one in found])))
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
    given = [
        replace(SOUND[0], words=(*men, meta ^ 1 << bit, key))
        for *men, meta, key in (*words, *chess960)
        for bit in (1, 2, 3, 4, *range(20, 33))
    ]
    bad = dict(unsound(made.batch_of(given)))
    fits = [castling_fields(unpack(one.words)) == one.words[8] & CASTLING_FIELDS for one in given]
    boards = [unpack(one.words) for one in given]
    assert [bad.get(i) == "its position is illegal" for i in range(len(given))] == [
        not fit or board.clean_castling_rights() != board.castling_rights
        for fit, board in zip(fits, boards, strict=True)
    ]
    assert 0 < sum(fits) < len(given) / 5
    assert len(chess960) == 30


def test_records_that_cannot_be_are_named_left_out_and_not_salvaged(tmp_path: Path) -> None:
    whats, bad = zip(*unsound_records(), strict=True)
    path, count = made.filled(tmp_path / "a.graph", [*SOUND[:50], *bad]), len(bad)

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
        words = made.words_of([*SOUND[:50], *bad])
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
        assert len(made.contents(store)) == store.node_count


def spoil(path: Path, board: chess.Board) -> None:
    """Gives the newest version of a record one prior too many."""
    with Store.open(path) as store:
        record = store.read(board)
        assert record is not None
        store.connection.execute("DELETE FROM top_position")  # which would follow the record
        store.append(made.batch_of([replace(record, codes=record.codes + b"\x05")]), fresh=0)


# ------------------------------------------------------------------ salvage
OLD = made.Records(71, 720)
PAGE = 16384


@cache
def newer() -> list[NodeRecord]:
    return [made.changed(record, random.Random(k)) for k, record in enumerate(OLD[:360])]


@cache
def oldest() -> dict[tuple[int, ...], NodeRecord]:
    return {made.identity(record): record for record in OLD}


@cache
def newest() -> dict[tuple[int, ...], NodeRecord]:
    return oldest() | {made.identity(record): record for record in newer()}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of three runs of 12 blocks with dictionaries, and two versions of half of its records."""
    with pytest.MonkeyPatch.context() as few:
        few.setattr("graphsearch.store.block.TRAINED_FROM", 8)
        path = made.filled(tmp_path_factory.mktemp("sound") / "test.graph", OLD, runs=2)
        with Store.open(path) as store:
            store.append(made.batch_of(newer()), fresh=0)
    with Store.open(path) as store, store.transaction():
        store.update_run(store.begin_run(chess.STARTING_FEN, {"visits": 3}, {}), 3, 2, finished=True)
        for k in range(400):
            key = f"{k * 0x9E3779B97F4A7C15 % (1 << 64):016x}"
            store.record_root(key, f"{chess.STARTING_FEN}{'1' * 40}", k)
        for record in list(newest().values())[:8]:  # each is looked up again and again
            store.write_top([rows_of(fen_of(unpack(record.words)), record)])
    return path


@pytest.fixture
def whole(sound: Path, tmp_path: Path) -> Path:
    target = tmp_path / "test.graph"
    target.write_bytes(sound.read_bytes())
    return target


def saved(path: Path) -> tuple[SalvageReport, dict[tuple[int, ...], NodeRecord]]:
    """Returns the report and the records of a salvage, after checking that the new file is sound."""
    before = path.read_bytes()
    new = path.with_name("new.graph")
    report = salvage(path, new, force=True)
    assert path.read_bytes() == before
    assert sorted(p.name for p in path.parent.iterdir()) == ["new.graph", "test.graph"]
    found = made.held(new)
    assert sql(new, "SELECT count(*) FROM segment")[0][0] <= 1
    assert report.records == len(found)
    assert all(record in (oldest()[key], newest()[key]) for key, record in found.items())
    return report, found


def test_a_sound_file_is_saved_whole(whole: Path) -> None:
    with Store.open(whole, sizes=Sizes(step_blocks=5)) as store:  # a merge under way is no damage
        with store.rearranging():
            merging.start(store.connection, store.catalog.segments)
        store.merge_step()
    report, found = saved(whole)
    assert found == newest()
    assert report.complete
    assert report.as_dict() == SalvageReport(records=720, blocks=report.blocks).as_dict()
    for table in ("run", "root", "top_position", "top_edge", "evaluator"):
        query = f"SELECT * FROM {table} ORDER BY 1"
        assert sql(whole.with_name("new.graph"), query) == sql(whole, query)
    assert ("nodes", "720") in sql(whole.with_name("new.graph"), "SELECT name, value FROM store_info")


def test_flipped_bits_cost_their_blocks_and_older_versions_count_again(whole: Path) -> None:
    for block in (17, 30):
        flip(whole, "block", "data", block, random.Random(block).randrange(10**6))
    report, found = saved(whole)
    assert report.blocks_lost == report.found == 2
    assert all(f"block {k}: checksum" in line for k, line in zip((17, 30), report.problems, strict=True))
    lost = [key for key in newest() if found.get(key) != newest()[key]]
    assert 60 < len(lost) <= 64, "some versions are alike"
    assert sum(found.get(key) == oldest()[key] for key in lost) == len(lost) - 32, "those of the newest run"


def test_indexes_without_dictionary_are_made_anew(whole: Path) -> None:
    sql(whole, "UPDATE chunk SET checksum = (checksum | 64) - (checksum & 64) WHERE id = 1")
    for column, chunk in (("keys", 2), ("bloom", 2), ("keys", 3)):
        flip(whole, "chunk", column, chunk, 77, bit=3)
    report, found = saved(whole)
    assert found == newest()
    what = "its index is damaged, its blocks are not"
    assert report.problems == [f"segment {k}, chunk {k}: {what}" for k in (1, 2, 3)]
    flip(whole, "block", "data", 30, 99)  # a block of such a chunk may be damaged, too
    report, found = saved(whole)
    assert report.blocks_lost == 1
    assert len(found) == 720


@pytest.mark.parametrize("spoiled", [lambda keys: keys + b"x", lambda keys: keys[:16]])
def test_checksums_do_not_save_keys_of_other_length(whole: Path, spoiled: Callable[[bytes], bytes]) -> None:
    keys, dictionary, bloom = sql(whole, "SELECT keys, dictionary, bloom FROM chunk WHERE id = 2")[0]
    checksum = zlib.crc32(spoiled(keys) + dictionary + bloom)
    sql(whole, "UPDATE chunk SET keys = ?, checksum = ? WHERE id = 2", spoiled(keys), checksum)
    assert saved(whole)[0].problems


def test_blocks_of_a_damaged_dictionary_are_not_trusted(whole: Path) -> None:
    flip(whole, "chunk", "dictionary", 3, 700)
    report, found = saved(whole)
    assert found == oldest(), "the older versions are what is left"
    assert report.blocks_lost == 12


def test_rows_that_are_missing_cost_their_records_only(whole: Path) -> None:
    sql(whole, "DELETE FROM block WHERE id IN (5, 6, 30)")
    report, found = saved(whole)
    assert report.blocks_lost == 3
    assert len(found) >= 720 - 64
    assert any(found.get(key) != newest()[key] for key in newest())
    sql(whole, "DELETE FROM chunk WHERE id = 3")
    report, found = saved(whole)
    assert report.blocks_lost == 2 + 11
    assert all(found[key] == oldest()[key] for key in found)


def test_blocks_without_dictionaries_need_no_chunk(tmp_path: Path) -> None:
    path = made.filled(tmp_path / "test.graph", OLD[:200])
    sql(path, "DELETE FROM chunk")
    report = salvage(path, tmp_path / "new.graph")
    assert (report.records, report.blocks_lost) == (200, 0)


HOSTILE = (9223372036854775804, 9223372036854775807, -9223372036854775808, 0, 1 << 40)
OF_CHUNKS = ("first_block", "blocks", "gone", "segment", "checksum", "records", "first_key")
OTHERS = ("segment SET age", "segment SET merged_into", "run SET id", "block SET id")


@pytest.mark.parametrize("place", [*(f"chunk SET {column}" for column in OF_CHUNKS), *OTHERS])
def test_a_number_that_no_program_writes_costs_its_row_at_most(whole: Path, place: str) -> None:
    loosen(whole)
    row, least = (f"(SELECT max(id) FROM {place.split()[0]})", 680) if place in OTHERS else ("2", 360)
    for number in HOSTILE:
        sql(whole, f"UPDATE {place} = {number} WHERE id = {row}")
        assert len(saved(whole)[1]) >= least, number


def test_runs_without_a_row_count_as_the_oldest(whole: Path) -> None:
    sql(whole, "DELETE FROM segment WHERE id = 3")
    report, found = saved(whole)
    assert found == oldest()
    assert report.tables_lost == ["segment"]
    sql(whole, "DELETE FROM segment")
    assert saved(whole)[1] == newest()


def test_of_a_truncated_file_the_rest_is_saved(whole: Path) -> None:
    os.truncate(whole, int(0.95 * whole.stat().st_size))
    report, found = saved(whole)
    assert not report.complete
    assert found


@pytest.mark.parametrize("seed", range(1, 3))
def test_overwritten_pages_cost_what_was_on_them(whole: Path, seed: int) -> None:
    rng = random.Random(seed)
    (evaluator,) = sql(whole, "SELECT rootpage FROM sqlite_master WHERE name = 'evaluator'")[0]
    pages = [page for page in range(1, whole.stat().st_size // PAGE) if page + 1 != evaluator]
    with whole.open("r+b") as file:
        for page in rng.sample(pages, rng.randrange(1, 4)):
            file.seek(page * PAGE + rng.randrange(PAGE))
            file.write(rng.randbytes(rng.choice((1, 40, 4000))))
    saved(whole)


def test_damaged_keys_before_a_page_that_cannot_be_read_cost_no_more_than_these(whole: Path) -> None:
    with closing(sqlite3.connect(whole)) as connection:
        connection.execute("PRAGMA secure_delete = 1")  # not every SQLite clears what it has moved
        connection.execute("VACUUM")
    keys = [row[0] for row in sql(whole, "SELECT key FROM root ORDER BY key")]
    data = whole.read_bytes()
    places = [data.index(f"{key}{chess.STARTING_FEN}".encode()) for key in keys]
    pages = [place // PAGE for place in places]
    lost = next(page for page in pages[100:] if pages.count(page) > 20 and page != pages[99])
    first = pages.index(lost)
    with whole.open("r+b") as file:
        for k in (first - 2, first - 1):
            file.seek(places[k] + 15)
            file.write(b"x")
        file.seek(lost * PAGE)
        file.write(bytes(PAGE))
    report, _ = saved(whole)
    assert report.tables_lost == ["root"]
    left = {key for (key,) in sql(whole.with_name("new.graph"), "SELECT key FROM root")}
    behind = first + pages.count(lost)  # in the page above, between the lost one and the next
    assert left == set(keys[: first - 2] + keys[behind + 1 :])


def test_an_overwritten_evaluator_is_asked_for(whole: Path) -> None:
    (page,) = sql(whole, "SELECT rootpage FROM sqlite_master WHERE name = 'evaluator'")[0]
    with whole.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(bytes(PAGE))
    with pytest.raises(StoreError, match="--evaluator"):
        saved(whole)
    assert salvage(whole, whole.with_name("new.graph"), identity=made.IDENTITY).records == 720


def test_plain_tables_keep_what_makes_sense(whole: Path) -> None:
    sql(loosen(whole), "UPDATE run SET limits = 'no json'")
    sql(whole, "UPDATE root SET visits = x'00' WHERE visits = 7")
    sql(whole, "DELETE FROM store_info WHERE name = 'created'")
    sql(whole, "UPDATE store_info SET value = 'graph' || char(0, 1) WHERE name = 'created_by'")
    report, found = saved(whole)
    assert found == newest()
    assert report.tables_lost == ["run", "store_info", "root"]
    assert sql(whole.with_name("new.graph"), "SELECT count(*) FROM root") == [(399,)]


OTHER = EvaluatorIdentity("net", "1234", {"t": 1.5}, "wdl")


def of_two() -> dict[tuple[int, ...], NodeRecord]:
    """Returns records of two evaluators, of two runs and of none."""
    return {made.identity(r): replace(r, evaluator=1 + k % 2, run=k % 3) for k, r in enumerate(OLD[:300])}


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A file of two evaluators and runs, bound to the second."""
    path = tmp_path / "test.graph"
    with Store.open(path, create=True, identity=made.IDENTITY) as store:
        store.begin_run(chess.STARTING_FEN, {}, {})
        store.bind_evaluator(store.add_evaluator(OTHER))
        store.begin_run(chess.STARTING_FEN, {}, {}, kind="reevaluate")
        store.append(made.batch_of(list(of_two().values())), fresh=300)
    assert verify(path).problems == []
    return path


def saved_of_two(
    path: Path, given: EvaluatorIdentity | None = None
) -> tuple[SalvageReport, dict[tuple[int, ...], NodeRecord]]:
    """Returns the report and the records of a salvage of `two`, after checking that the new file is sound."""
    report = salvage(path, path.with_name("new.graph"), force=True, identity=given)
    assert verify(path.with_name("new.graph")).problems == []
    with Store.open(path.with_name("new.graph"), read_only=True) as store:
        assert store.identity == OTHER
        return report, made.contents(store)


NO_SOURCE = {
    "UPDATE run SET limits = 'no json' WHERE id = 2": "100 records belong to runs whose rows are lost",
    "UPDATE evaluator SET identity = 'x' WHERE id = 1": "150 records are of evaluator 1, whose row is lost",
}


@pytest.mark.parametrize("spoil", ["", *NO_SOURCE])
def test_sources_of_records_are_saved_as_far_as_they_are_known(two: Path, spoil: str) -> None:
    sql(loosen(two), spoil)
    report, found = saved_of_two(two)
    lost = spoil.split()[1:2]
    assert found == {key: replace(r, run=r.run % (2 if "run" in lost else 3)) for key, r in of_two().items()}
    assert (report.complete, report.tables_lost) == (not lost, lost)
    assert not lost or f"table {lost[0]}: {NO_SOURCE[spoil]}" in report.problems
    with Store.open(two.with_name("new.graph")) as store:
        kinds = [identity.kind for identity in store.evaluators().values()]
        assert kinds == ["lost" if "evaluator" in lost else "uniform", "net"]
        assert store.add_evaluator(made.IDENTITY) == (3 if "evaluator" in lost else 1)
    for table in ("run", "evaluator", "store_info"):
        query = f"SELECT * FROM {table} ORDER BY 1"
        assert lost or sql(two.with_name("new.graph"), query) == sql(two, query)


def test_a_binding_that_is_lost_is_told_by_the_evaluator_that_is_named(two: Path) -> None:
    for number in ("x", "99"):
        sql(two, f"UPDATE store_info SET value = '{number}' WHERE name = 'evaluator'")
        with pytest.raises(StoreError, match="--evaluator"):
            salvage(two, two.with_name("new.graph"))
        assert saved_of_two(two, OTHER)[1] == of_two()


def test_another_evaluator_and_the_damaged_file_as_target_are_refused(whole: Path, tmp_path: Path) -> None:
    other = EvaluatorIdentity("builtin", "12345678", {}, "")
    with pytest.raises(EvaluatorMismatchError, match="uniform"):
        salvage(whole, tmp_path / "new.graph", identity=other)
    with pytest.raises(StoreError, match="the damaged file itself"):
        salvage(whole, whole, force=True)


def test_what_is_no_graph_is_refused(tmp_path: Path) -> None:
    texts = {"text": b"PGN text, not a database\n" * 1000, "cut": b"SQLite format 3\0" + bytes(50)}
    for name, content in texts.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(StoreError, match="first page"):
            salvage(tmp_path / name, tmp_path / "new.graph")
    sqlite3.connect(tmp_path / "other").execute("CREATE TABLE t (a)").connection.close()
    with pytest.raises(StoreError, match="not a graph file"):
        salvage(tmp_path / "other", tmp_path / "new.graph")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cut", "other", "text"]


def test_a_salvage_that_is_cut_short_leaves_nothing(whole: Path, tmp_path: Path) -> None:
    def stopping(now: Progress) -> None:
        if now.done > 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        salvage(whole, tmp_path / "new.graph", on_progress=stopping)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["test.graph"]


# ------------------------------------------------------------------ plain tables
ENTRIES = 2500


@pytest.fixture(scope="module")
def every_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a row in every plain table, and many in some."""
    path = tmp_path_factory.mktemp("whole") / "a.graph"
    with Store.open(path, create=True, identity=EvaluatorIdentity("uniform")) as store, store.transaction():
        source = games.begin_source(store, "polyglot", "a.bin", "00", {"x": 1})
        rng = random.Random(1)
        keys = sorted(f"{rng.getrandbits(64):016x}" for _ in range(ENTRIES))
        games.add_entries(store, [(key, "e2e4", source.id, k, 796, 5, 0) for k, key in enumerate(keys)])
        games.add_games(store, [(key, chess.STARTING_FEN, 3) for key in keys[:500]], [])
        games.add_epd(
            store,
            [(source.id, 2 * k + 1, key, chess.STARTING_FEN, "{}") for k, key in enumerate(keys[:1200])],
        )
        entries.append(store, np.array([7], np.uint64), np.array([1 << 41], np.uint64), "evaluation")
        fixed = {"key": keys[0], "book": 1, "id": 1, "run": 1, "bound": "exact", "alpha": -3, "value": 0}
        add_examples(store.connection, PLAIN, **fixed)
        for number in (1, 7):
            rows = [
                (number, key, chess.STARTING_FEN, 0, "leaf", number) for key in keys[:1500] if key != keys[0]
            ]
            store.connection.executemany(
                "INSERT INTO book_position (book, key, fen, ply, state, book_run) VALUES (?, ?, ?, ?, ?, ?)",
                rows,
            )
    return path


@pytest.fixture
def tables(every_table: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(every_table, tmp_path / "a.graph"))


def rows_in(path: Path) -> dict[str, Counter[tuple[object, ...]]]:
    made_anew = ("top_position", "top_edge")  # from the records, of which there are none
    return {name: Counter(sql(path, f"SELECT * FROM {name}")) for name in PLAIN if name not in made_anew}


def test_every_table_of_a_sound_file_is_kept_row_by_row(tables: Path, tmp_path: Path) -> None:
    assert set(PLAIN) | OWN == set(TABLES)
    report = salvage(tables, tmp_path / "new.graph")
    assert report.complete, report.problems
    before, after = rows_in(tables), rows_in(tmp_path / "new.graph")
    assert all(before.values()), "no table is empty, so none is forgotten"
    assert after == before
    assert info(tmp_path / "new.graph").imported == info(tables).imported
    sql(tables, "DROP TABLE game_move")
    assert salvage(tables, tmp_path / "new.graph", force=True).tables_lost == ["game_move"]


@pytest.mark.parametrize("table", ["polyglot_entry", "book_position", "source"])
def test_rows_of_a_damaged_page_are_lost_and_told_the_others_are_kept(
    tables: Path, tmp_path: Path, table: str
) -> None:
    before = rows_in(tables)
    wipe_a_leaf(tables, table)
    report = salvage(tables, tmp_path / "new.graph")
    assert table in report.tables_lost
    assert verify(tmp_path / "new.graph").ok
    after = rows_in(tmp_path / "new.graph")
    for name, rows in before.items():
        if name not in report.tables_lost:
            assert after[name] == rows, name
    if before[table].total() > 2000:
        assert 0.7 * before[table].total() < after[table].total() < before[table].total()


def wipe_a_leaf(path: Path, table: str) -> None:
    """Overwrites a page in the middle of a table, or its only one."""
    sql(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    ((root,),) = sql(path, "SELECT rootpage FROM sqlite_schema WHERE name = ?", table)
    ((size,),) = sql(path, "PRAGMA page_size")
    data = bytearray(path.read_bytes())
    start = (root - 1) * size
    if data[start] in (2, 5):  # an inner page: one of its children, in the middle
        cells = int.from_bytes(data[start + 3 : start + 5], "big")
        where = start + 12 + 2 * (cells // 2)
        cell = start + int.from_bytes(data[where : where + 2], "big")
        page = int.from_bytes(data[cell : cell + 4], "big")
        start = (page - 1) * size
    data[start : start + size] = b"\xff" * size
    path.write_bytes(data)


@pytest.mark.parametrize("value", ["9e999", "'x'", "NULL", "-5", "1 << 62", "x'00'"])
def test_a_key_that_is_no_number_costs_its_row(tables: Path, tmp_path: Path, value: str) -> None:
    sql(loosen(tables), f"UPDATE OR IGNORE epd_position SET place = {value} WHERE place IN (5, 1001)")
    salvage(tables, tmp_path / "new.graph")
    assert ENTRIES > sql(tmp_path / "new.graph", "SELECT count(*) FROM epd_position")[0][0] >= 1198
