"""Salvage: from any damage, a sound file with everything that is still right."""

from __future__ import annotations

import os
import random
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import chess
import pytest

from graphsearch.base.errors import EvaluatorMismatchError, StoreError
from graphsearch.position.board import fen_of, unpack
from graphsearch.store import merging
from graphsearch.store.index import Sizes
from graphsearch.store.provenance import EvaluatorIdentity
from graphsearch.store.record import NodeRecord
from graphsearch.store.rewrite import Progress
from graphsearch.store.salvage import SalvageReport, salvage
from graphsearch.store.store import Store
from graphsearch.store.tables.top import rows_of
from graphsearch.store.verify import verify

from ..conftest import sql
from ..support.rows import loosen
from .records import IDENTITY, Records, batch_of, changed, contents, filled, identity
from .test_damage import flip

OLD = Records(71, 720)
PAGE = 16384


@cache
def newer() -> list[NodeRecord]:
    """Other versions of half of the records."""
    return [changed(record, random.Random(k)) for k, record in enumerate(OLD[:360])]


@cache
def oldest() -> dict[tuple[int, ...], NodeRecord]:
    return {identity(record): record for record in OLD}


@cache
def newest() -> dict[tuple[int, ...], NodeRecord]:
    return oldest() | {identity(record): record for record in newer()}


@pytest.fixture(scope="module", autouse=True)
def _few_blocks_get_dictionaries() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("graphsearch.store.block.TRAINED_FROM", 8)
        yield


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of three runs of 12 blocks with dictionaries, and two versions of half of its records."""
    path = filled(tmp_path_factory.mktemp("sound") / "test.graph", OLD, runs=2)
    with Store.open(path) as store, store.transaction():
        store.append(batch_of(newer()), fresh=0)
        store.update_run(store.begin_run(chess.STARTING_FEN, {"visits": 3}, {}), 3, 2, finished=True)
        for k in range(400):
            key = f"{k * 0x9E3779B97F4A7C15 % (1 << 64):016x}"
            store.record_root(key, f"{chess.STARTING_FEN}{'1' * 40}", k)
        for record in list(newest().values())[:40]:  # each is looked up again and again
            store.write_top([rows_of(fen_of(unpack(record.words)), record)])
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
    assert all(record in (oldest()[key], newest()[key]) for key, record in found.items())
    return report, found


def test_a_sound_file_is_saved_whole(path: Path) -> None:
    with Store.open(path, sizes=Sizes(step_blocks=5)) as store:  # a merge under way is no damage
        with store.rearranging():
            merging.start(store.connection, store.catalog.segments)
        store.merge_step()
    report, found = saved(path)
    assert found == newest()
    assert report.complete
    assert report.as_dict() == SalvageReport(records=720, blocks=report.blocks).as_dict()
    for table in ("run", "root", "top_position", "top_edge", "evaluator"):
        query = f"SELECT * FROM {table} ORDER BY 1"
        assert sql(path.with_name("new.graph"), query) == sql(path, query)
    assert ("nodes", "720") in sql(path.with_name("new.graph"), "SELECT name, value FROM store_info")


def test_flipped_bits_cost_their_blocks_and_older_versions_count_again(path: Path) -> None:
    for block in (17, 30):
        flip(path, "block", "data", block, random.Random(block).randrange(10**6))
    report, found = saved(path)
    assert report.blocks_lost == report.found == 2
    assert all(f"block {k}: checksum" in line for k, line in zip((17, 30), report.problems, strict=True))
    lost = [key for key in newest() if found.get(key) != newest()[key]]
    assert 60 < len(lost) <= 64, "some versions are alike"
    assert sum(found.get(key) == oldest()[key] for key in lost) == len(lost) - 32, "those of the newest run"


def test_indexes_without_dictionary_are_made_anew(path: Path) -> None:
    sql(path, "UPDATE chunk SET checksum = (checksum | 64) - (checksum & 64) WHERE id = 1")
    for column, chunk in (("keys", 2), ("bloom", 2), ("keys", 3)):
        flip(path, "chunk", column, chunk, 77, bit=3)
    report, found = saved(path)
    assert found == newest()
    what = "its index is damaged, its blocks are not"
    assert report.problems == [f"segment {k}, chunk {k}: {what}" for k in (1, 2, 3)]
    flip(path, "block", "data", 30, 99)  # a block of such a chunk may be damaged, too
    report, found = saved(path)
    assert report.blocks_lost == 1
    assert len(found) == 720


@pytest.mark.parametrize("spoiled", [lambda keys: keys + b"x", lambda keys: keys[:16]])
def test_checksums_do_not_save_keys_of_other_length(path: Path, spoiled: Callable[[bytes], bytes]) -> None:
    keys, dictionary, bloom = sql(path, "SELECT keys, dictionary, bloom FROM chunk WHERE id = 2")[0]
    checksum = zlib.crc32(spoiled(keys) + dictionary + bloom)
    sql(path, "UPDATE chunk SET keys = ?, checksum = ? WHERE id = 2", spoiled(keys), checksum)
    assert saved(path)[0].problems


def test_blocks_of_a_damaged_dictionary_are_not_trusted(path: Path) -> None:
    flip(path, "chunk", "dictionary", 3, 700)
    report, found = saved(path)
    assert found == oldest(), "the older versions are what is left"
    assert report.blocks_lost == 12


def test_rows_that_are_missing_cost_their_records_only(path: Path) -> None:
    sql(path, "DELETE FROM block WHERE id IN (5, 6, 30)")
    report, found = saved(path)
    assert report.blocks_lost == 3
    assert len(found) >= 720 - 64
    assert any(found.get(key) != newest()[key] for key in newest())
    sql(path, "DELETE FROM chunk WHERE id = 3")
    report, found = saved(path)
    assert report.blocks_lost == 2 + 11
    assert all(found[key] == oldest()[key] for key in found)


def test_blocks_without_dictionaries_need_no_chunk(tmp_path: Path) -> None:
    path = filled(tmp_path / "test.graph", OLD[:200])
    sql(path, "DELETE FROM chunk")
    report = salvage(path, tmp_path / "new.graph")
    assert (report.records, report.blocks_lost) == (200, 0)


HOSTILE = (9223372036854775804, 9223372036854775807, -9223372036854775808, 0, 1 << 40)
OF_CHUNKS = ("first_block", "blocks", "gone", "segment", "checksum", "records", "first_key")
OTHERS = ("segment SET age", "segment SET merged_into", "run SET id", "block SET id")


@pytest.mark.parametrize("place", [*(f"chunk SET {column}" for column in OF_CHUNKS), *OTHERS])
def test_a_number_that_no_program_writes_costs_its_row_at_most(path: Path, place: str) -> None:
    loosen(path)
    row, least = (f"(SELECT max(id) FROM {place.split()[0]})", 680) if place in OTHERS else ("2", 360)
    for number in HOSTILE:
        sql(path, f"UPDATE {place} = {number} WHERE id = {row}")
        assert len(saved(path)[1]) >= least, number


def test_runs_without_a_row_count_as_the_oldest(path: Path) -> None:
    sql(path, "DELETE FROM segment WHERE id = 3")
    report, found = saved(path)
    assert found == oldest()
    assert report.tables_lost == ["segment"]
    sql(path, "DELETE FROM segment")
    assert saved(path)[1] == newest()


def test_of_a_truncated_file_the_rest_is_saved(path: Path) -> None:
    os.truncate(path, int(0.95 * path.stat().st_size))
    report, found = saved(path)
    assert not report.complete
    assert found


@pytest.mark.parametrize("seed", range(1, 3))
def test_overwritten_pages_cost_what_was_on_them(path: Path, seed: int) -> None:
    rng = random.Random(seed)
    (evaluator,) = sql(path, "SELECT rootpage FROM sqlite_master WHERE name = 'evaluator'")[0]
    pages = [page for page in range(1, path.stat().st_size // PAGE) if page + 1 != evaluator]
    with path.open("r+b") as file:
        for page in rng.sample(pages, rng.randrange(1, 4)):
            file.seek(page * PAGE + rng.randrange(PAGE))
            file.write(rng.randbytes(rng.choice((1, 40, 4000))))
    saved(path)


def test_damaged_keys_before_a_page_that_cannot_be_read_cost_no_more_than_these(path: Path) -> None:
    keys = [row[0] for row in sql(path, "SELECT key FROM root ORDER BY key")]
    data = path.read_bytes()
    places = [data.index(f"{key}{chess.STARTING_FEN}".encode()) for key in keys]
    pages = [place // PAGE for place in places]
    lost = next(page for page in pages[100:] if pages.count(page) > 20 and page != pages[99])
    first = pages.index(lost)
    with path.open("r+b") as file:
        for k in (first - 2, first - 1):
            file.seek(places[k] + 15)
            file.write(b"x")
        file.seek(lost * PAGE)
        file.write(bytes(PAGE))
    report, _ = saved(path)
    assert report.tables_lost == ["root"]
    left = {key for (key,) in sql(path.with_name("new.graph"), "SELECT key FROM root")}
    behind = first + pages.count(lost)  # in the page above, between the lost one and the next
    assert left == set(keys[: first - 2] + keys[behind + 1 :])


def test_an_overwritten_evaluator_is_asked_for(path: Path) -> None:
    (page,) = sql(path, "SELECT rootpage FROM sqlite_master WHERE name = 'evaluator'")[0]
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(bytes(PAGE))
    with pytest.raises(StoreError, match="--evaluator"):
        saved(path)
    assert salvage(path, path.with_name("new.graph"), identity=IDENTITY).records == 720


def test_plain_tables_keep_what_makes_sense(path: Path) -> None:
    sql(loosen(path), "UPDATE run SET limits = 'no json'")
    sql(path, "UPDATE root SET visits = x'00' WHERE visits = 7")
    sql(path, "DELETE FROM store_info WHERE name = 'created'")
    sql(path, "UPDATE store_info SET value = 'graph' || char(0, 1) WHERE name = 'created_by'")
    report, found = saved(path)
    assert found == newest()
    assert report.tables_lost == ["run", "store_info", "root"]
    assert sql(path.with_name("new.graph"), "SELECT count(*) FROM root") == [(399,)]


OTHER = EvaluatorIdentity("net", "1234", {"t": 1.5}, "wdl")


def of_two() -> dict[tuple[int, ...], NodeRecord]:
    """Returns records of two evaluators, of two runs and of none."""
    return {identity(r): replace(r, evaluator=1 + k % 2, run=k % 3) for k, r in enumerate(OLD[:300])}


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A file of two evaluators and runs, bound to the second."""
    path = tmp_path / "test.graph"
    with Store.open(path, create=True, identity=IDENTITY) as store:
        store.begin_run(chess.STARTING_FEN, {}, {})
        store.bind_evaluator(store.add_evaluator(OTHER))
        store.begin_run(chess.STARTING_FEN, {}, {}, kind="reevaluate")
        store.append(batch_of(list(of_two().values())), fresh=300)
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
        return report, contents(store)


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
        assert store.add_evaluator(IDENTITY) == (3 if "evaluator" in lost else 1)
    for table in ("run", "evaluator", "store_info"):
        query = f"SELECT * FROM {table} ORDER BY 1"
        assert lost or sql(two.with_name("new.graph"), query) == sql(two, query)


def test_a_binding_that_is_lost_is_told_by_the_evaluator_that_is_named(two: Path) -> None:
    for number in ("x", "99"):
        sql(two, f"UPDATE store_info SET value = '{number}' WHERE name = 'evaluator'")
        with pytest.raises(StoreError, match="--evaluator"):
            salvage(two, two.with_name("new.graph"))
        assert saved_of_two(two, OTHER)[1] == of_two()


def test_another_evaluator_and_the_damaged_file_as_the_target_are_refused(path: Path, tmp_path: Path) -> None:
    other = EvaluatorIdentity("builtin", "12345678", {}, "")
    with pytest.raises(EvaluatorMismatchError, match="uniform"):
        salvage(path, tmp_path / "new.graph", identity=other)
    with pytest.raises(StoreError, match="the damaged file itself"):
        salvage(path, path, force=True)


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


def test_a_salvage_that_is_cut_short_leaves_nothing(path: Path, tmp_path: Path) -> None:
    def stopping(now: Progress) -> None:
        if now.done > 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        salvage(path, tmp_path / "new.graph", on_progress=stopping)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["test.graph"]
