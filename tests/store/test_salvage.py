"""Salvage: from any damage, a sound file with everything that is still right."""

from __future__ import annotations

import os
import random
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import chess
import pytest

from graphsearch.base.errors import EvaluatorMismatchError, StoreError
from graphsearch.position.board import unpack
from graphsearch.store import merging
from graphsearch.store.record.node import NodeRecord
from graphsearch.store.record.provenance import EvaluatorIdentity
from graphsearch.store.sizes import Sizes
from graphsearch.store.store import Store
from graphsearch.store.tables.top import rows_of
from graphsearch.store.upkeep.salvage import SalvageReport, salvage
from graphsearch.store.upkeep.verify import verify

from ..conftest import sql
from ..support.loose import loosen
from .records import IDENTITY, batch_of, changed, contents, filled, identity, random_records
from .test_damage import broken_records, flip

OLD = random_records(71, 2400)
NEW = [changed(record, random.Random(k)) for k, record in enumerate(OLD[:1200])]
OLDEST, NEWEST = ({identity(r): r for r in records} for records in (OLD, [*OLD, *NEW]))
PAGE = 16384


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of three runs with dictionaries and two versions of half of its records."""
    path = filled(tmp_path_factory.mktemp("sound") / "test.graph", OLD, runs=2)
    with Store.open(path) as store:
        store.append(batch_of(NEW), fresh=0)
        store.finish_run(store.begin_run(chess.STARTING_FEN, {"visits": 3}, {}), 3, 2)
        for k in range(400):
            key = f"{k * 0x9E3779B97F4A7C15 % (1 << 64):016x}"
            store.record_root(key, chess.STARTING_FEN + "1" * 160, k)
        for record in list(NEWEST.values())[:40]:  # each is looked up again and again
            position, edges = rows_of(record, unpack(record.words))
            store.write_top([position], edges)
    return path


@pytest.fixture
def path(sound: Path, tmp_path: Path) -> Path:
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
    assert verify(new).problems == []
    with Store.open(new, read_only=True) as store:
        found = contents(store)
        assert len(store.catalog.segments) <= 1
    assert report.records == len(found)
    assert all(record in (OLDEST[key], NEWEST[key]) for key, record in found.items())
    return report, found


def test_a_sound_file_is_saved_whole(path: Path) -> None:
    report, found = saved(path)
    assert found == NEWEST
    assert report.as_dict() == {
        "complete": True,
        "records": 2400,
        "blocks": 114,
        "blocks_lost": 0,
        "records_unsound": 0,
        "entries": 0,
        "tables_lost": [],
        "problems": [],
        "found": 0,
    }
    for table in ("run", "root", "top_position", "top_edge", "evaluator"):
        query = f"SELECT * FROM {table} ORDER BY 1"
        assert sql(path.with_name("new.graph"), query) == sql(path, query)
    assert ("nodes", "2400") in sql(path.with_name("new.graph"), "SELECT name, value FROM store_info")


@pytest.mark.parametrize("seed", range(2))
def test_a_flipped_bit_in_a_block_costs_that_block(path: Path, seed: int) -> None:
    rng = random.Random(seed)
    block = rng.randrange(1, 115)
    flip(path, "block", "data", block, rng.randrange(10**6))
    report, found = saved(path)
    assert report.blocks_lost == report.found == 1
    assert f"block {block}: checksum" in report.problems[0]
    lost = [key for key in NEWEST if found.get(key) != NEWEST[key]]
    assert len(lost) <= 32, "those of older versions are not missed"
    if block > 76:  # of the newest run: the older versions count again
        assert lost
        assert all(found[key] == OLDEST[key] for key in lost)


@pytest.mark.parametrize("columns", [("checksum",), ("keys", "bloom")])
def test_an_index_without_dictionary_is_made_anew(path: Path, columns: tuple[str, ...]) -> None:
    for column in columns:
        if column == "checksum":
            sql(path, "UPDATE chunk SET checksum = (checksum | 64) - (checksum & 64) WHERE id = 2")
        else:
            flip(path, "chunk", column, 2, 77, bit=3)
    report, found = saved(path)
    assert found == NEWEST
    assert report.problems == ["segment 2, chunk 2: its index is damaged, its blocks are not"]
    assert report.blocks_lost == 0


@pytest.mark.parametrize("spoiled", [lambda keys: keys + b"x", lambda keys: keys[:16]])
def test_keys_of_another_length_are_none_though_their_checksum_is_right(
    path: Path, spoiled: Callable[[bytes], bytes]
) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        parts = connection.execute("SELECT keys, dictionary, bloom FROM chunk WHERE id = 2").fetchone()
        keys = spoiled(parts[0])
        checksum = zlib.crc32(parts[2], zlib.crc32(parts[1], zlib.crc32(keys)))
        connection.execute("UPDATE chunk SET keys = ?, checksum = ? WHERE id = 2", (keys, checksum))
    report, found = saved(path)
    assert all(record in (NEWEST[key], OLDEST.get(key)) for key, record in found.items())
    assert report.problems


def test_blocks_of_a_damaged_dictionary_are_not_trusted(path: Path) -> None:
    flip(path, "chunk", "dictionary", 3, 700)
    report, found = saved(path)
    assert found == OLDEST, "the older versions are what is left"
    assert report.blocks_lost == 38


def test_an_index_and_a_block_may_both_be_damaged(path: Path) -> None:
    flip(path, "chunk", "keys", 2, 77)
    flip(path, "block", "data", 50, 99)
    report, found = saved(path)
    assert report.blocks_lost == 1
    assert len(found) >= 2400 - 32


def test_rows_that_are_missing_cost_their_records_only(path: Path) -> None:
    sql(path, "DELETE FROM block WHERE id IN (5, 6, 80)")
    report, found = saved(path)
    assert report.blocks_lost == 3
    assert len(found) >= 2400 - 64
    assert any(found.get(key) != NEWEST[key] for key in NEWEST)
    sql(path, "DELETE FROM chunk WHERE id = 3")
    report, found = saved(path)
    assert report.blocks_lost == 2 + 37
    assert all(found[key] == OLDEST[key] for key in found)


def test_blocks_without_dictionaries_need_no_chunk(tmp_path: Path) -> None:
    path = filled(tmp_path / "test.graph", OLD[:300])
    sql(path, "DELETE FROM chunk")
    report = salvage(path, tmp_path / "new.graph")
    assert (report.records, report.blocks_lost) == (300, 0)


def test_runs_without_a_row_count_as_the_oldest(path: Path) -> None:
    sql(path, "DELETE FROM segment WHERE id = 3")
    report, found = saved(path)
    assert found == OLDEST
    assert report.tables_lost == ["segment"]
    sql(path, "DELETE FROM segment")
    assert saved(path)[1] == NEWEST


def test_a_merge_under_way_is_no_damage(path: Path) -> None:
    with Store.open(path, sizes=Sizes(step_blocks=20)) as store:
        with store.rearranging():
            merging.start(store.connection, store.catalog.segments)
        store.merge_step()
    report, found = saved(path)
    assert report.complete
    assert found == NEWEST


def test_records_that_break_a_rule_are_left_out(tmp_path: Path) -> None:
    bad = [record for _, record in broken_records()[:6]]
    good = [r for r in OLD[:200] if identity(r) not in {identity(record) for record in bad}]
    path = filled(tmp_path / "test.graph", [*good, *bad])
    report = salvage(path, tmp_path / "new.graph")
    assert (report.records, report.records_unsound) == (len(good), len({identity(r) for r in bad}))
    assert verify(tmp_path / "new.graph").problems == []


@pytest.mark.parametrize("share", [0.2, 0.95])
def test_of_a_truncated_file_the_rest_is_saved(path: Path, share: float) -> None:
    os.truncate(path, int(share * path.stat().st_size))
    report, found = saved(path)
    assert not report.complete
    if share > 0.6:  # the empty tables come first
        assert found


@pytest.mark.parametrize("seed", range(3))
def test_overwritten_pages_cost_what_was_on_them(path: Path, seed: int) -> None:
    rng = random.Random(seed)
    (evaluator,) = sql(path, "SELECT rootpage FROM sqlite_master WHERE name = 'evaluator'")[0]
    pages = [page for page in range(1, path.stat().st_size // PAGE) if page + 1 != evaluator]
    with path.open("r+b") as file:
        for page in rng.sample(pages, rng.randrange(1, 4)):
            file.seek(page * PAGE + rng.randrange(PAGE))
            file.write(rng.randbytes(rng.choice((1, 40, 4000))))
    saved(path)


def test_an_overwritten_evaluator_is_asked_for(path: Path) -> None:
    (page,) = sql(path, "SELECT rootpage FROM sqlite_master WHERE name = 'evaluator'")[0]
    assert isinstance(page, int)
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(bytes(PAGE))
    with pytest.raises(StoreError, match="--evaluator"):
        saved(path)
    assert salvage(path, path.with_name("new.graph"), identity=IDENTITY).records == 2400


def test_plain_tables_keep_what_makes_sense(path: Path) -> None:
    sql(path, "UPDATE run SET limits = 'no json'")
    sql(loosen(path), "UPDATE root SET visits = x'00' WHERE visits = 7")
    sql(path, "DELETE FROM store_info WHERE name = 'created'")
    report, found = saved(path)
    assert found == NEWEST
    assert report.tables_lost == ["run", "store_info", "root"]
    assert sql(path.with_name("new.graph"), "SELECT count(*) FROM root") == [(399,)]


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A file of two evaluators and runs, bound to the second, with second opinions."""
    path = tmp_path / "test.graph"
    with Store.open(path, create=True, identity=IDENTITY) as store:
        store.begin_run(chess.STARTING_FEN, {}, {})
        store.bind_evaluator(store.add_evaluator(OTHER))
        store.begin_run(chess.STARTING_FEN, {}, {}, kind="reevaluate")
        rows = [replace(r, evaluator=1 + k % 2, run=k % 3) for k, r in enumerate(OLD[:300])]
        store.append(batch_of(rows), fresh=300)
        opinion = ("00" * 8, 1, 1, chess.STARTING_FEN, 7, 0.5, None, 0.25, 0.5, None, "e2e4", b"abc")
        store.connection.execute(f"INSERT INTO opinion VALUES ({', '.join('?' * 12)})", opinion)
    assert verify(path).problems == []
    return path


OTHER = EvaluatorIdentity("net", "1234", {"t": 1.5}, "wdl")
TWO = {identity(r): replace(r, evaluator=1 + k % 2, run=k % 3) for k, r in enumerate(OLD[:300])}


def saved_of_two(
    path: Path, given: EvaluatorIdentity | None = None
) -> tuple[SalvageReport, dict[tuple[int, ...], NodeRecord]]:
    """Returns the report and the records of a salvage of `two`, after checking that the new file is sound."""
    report = salvage(path, path.with_name("new.graph"), force=True, identity=given)
    assert verify(path.with_name("new.graph")).problems == []
    with Store.open(path.with_name("new.graph"), read_only=True) as store:
        assert store.identity == OTHER
        return report, contents(store)


def test_a_fact_that_verify_would_refuse_is_left_out(path: Path) -> None:
    sql(path, "UPDATE store_info SET value = 'graph' || char(0, 1) WHERE name = 'created_by'")
    report = salvage(path, new := path.with_name("new.graph"))
    assert report.tables_lost == ["store_info"]
    assert verify(new).ok


def test_sources_of_records_are_saved(two: Path) -> None:
    report, found = saved_of_two(two)
    assert (report.complete, found) == (True, TWO)
    for table in ("run", "evaluator", "opinion", "store_info"):
        query = f"SELECT * FROM {table} ORDER BY 1"
        assert sql(two.with_name("new.graph"), query) == sql(two, query)


def test_records_of_a_run_whose_row_is_lost_cannot_say_it(two: Path) -> None:
    sql(two, "UPDATE run SET limits = 'no json' WHERE id = 2")
    report, found = saved_of_two(two)
    assert found == {key: replace(r, run=r.run % 2) for key, r in TWO.items()}
    assert report.tables_lost == ["run"]
    assert "table run: 100 records belong to runs whose rows are lost" in report.problems


def test_an_evaluator_whose_row_is_lost_is_told_from_others(two: Path) -> None:
    sql(two, "UPDATE evaluator SET identity = 'x' WHERE id = 1")
    report, found = saved_of_two(two)
    assert found == TWO
    assert report.tables_lost == ["evaluator"]
    assert "table evaluator: 150 records are of evaluator 1, whose row is lost" in report.problems
    with Store.open(two.with_name("new.graph")) as store:
        assert [identity.kind for identity in store.evaluators().values()] == ["lost", "net"]
        assert store.add_evaluator(IDENTITY) == 3


def test_a_binding_that_is_lost_is_told_by_the_evaluator_that_is_named(two: Path) -> None:
    for number in ("x", "99"):
        sql(two, f"UPDATE store_info SET value = '{number}' WHERE name = 'evaluator'")
        with pytest.raises(StoreError, match="--evaluator"):
            salvage(two, two.with_name("new.graph"))
        assert saved_of_two(two, OTHER)[1] == TWO


def test_a_file_without_evaluator_needs_one_named(path: Path, tmp_path: Path) -> None:
    other = EvaluatorIdentity("builtin", "12345678", {}, "")
    with pytest.raises(EvaluatorMismatchError, match="uniform"):
        salvage(path, tmp_path / "new.graph", identity=other)
    sql(path, "UPDATE evaluator SET identity = 'x'")
    with pytest.raises(StoreError, match="--evaluator"):
        salvage(path, tmp_path / "new.graph")
    assert salvage(path, tmp_path / "new.graph", identity=IDENTITY).records == 2400


def test_what_is_no_graph_is_refused(tmp_path: Path) -> None:
    for name, content in (
        ("text", b"PGN text, not a database\n" * 1000),
        ("cut", b"SQLite format 3\0" + bytes(50)),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(StoreError, match="first page"):
            salvage(tmp_path / name, tmp_path / "new.graph")
    sqlite3.connect(tmp_path / "other").execute("CREATE TABLE t (a)").connection.close()
    with pytest.raises(StoreError, match="not a graph file"):
        salvage(tmp_path / "other", tmp_path / "new.graph")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cut", "other", "text"]


def test_nothing_is_overwritten_unless_told_to(path: Path, tmp_path: Path) -> None:
    (tmp_path / "new.graph").touch()
    with pytest.raises(StoreError, match="exists already"):
        salvage(path, tmp_path / "new.graph")
    with pytest.raises(StoreError, match="the damaged file itself"):
        salvage(path, path, force=True)


def test_a_salvage_that_is_cut_short_leaves_nothing(path: Path, tmp_path: Path) -> None:
    def stopping(done: int, total: int) -> None:
        if done > 50:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        salvage(path, tmp_path / "new.graph", progress=stopping)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["test.graph"]
