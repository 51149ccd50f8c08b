"""What `store salvage` keeps of imports and books: every plain table, by the shape that the schema has."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path

import chess
import numpy as np
import pytest

from graphsearch.position.board import key_of
from graphsearch.store import entries
from graphsearch.store.info import info
from graphsearch.store.provenance import EvaluatorIdentity
from graphsearch.store.salvage import OWN, PLAIN, salvage
from graphsearch.store.store import Store
from graphsearch.store.tables import games
from graphsearch.store.tables.rows import TABLES
from graphsearch.store.verify import verify
from tests.support.rows import add_examples, loosen

from ..conftest import sql

ENTRIES = 2500


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
def path(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(whole, tmp_path / "a.graph"))


def contents(path: Path) -> dict[str, Counter[tuple[object, ...]]]:
    """Returns the rows of every plain table."""
    made_anew = ("top_position", "top_edge")  # from the records, of which there are none
    return {name: Counter(sql(path, f"SELECT * FROM {name}")) for name in PLAIN if name not in made_anew}


def test_every_table_of_a_sound_file_is_kept_row_by_row(path: Path, tmp_path: Path) -> None:
    report = salvage(path, tmp_path / "new.graph")
    assert report.complete, report.problems
    before, after = contents(path), contents(tmp_path / "new.graph")
    assert all(before.values()), "no table is empty, so none is forgotten"
    assert after == before
    assert info(tmp_path / "new.graph").imported == info(path).imported


def test_every_table_belongs_to_somebody() -> None:
    assert set(PLAIN) | OWN == set(TABLES)


@pytest.mark.parametrize("table", ["polyglot_entry", "book_position", "source"])
def test_rows_of_a_damaged_page_are_lost_and_told_the_others_are_kept(
    path: Path, tmp_path: Path, table: str
) -> None:
    before = contents(path)
    wipe_a_leaf(path, table)
    report = salvage(path, tmp_path / "new.graph")
    assert table in report.tables_lost
    assert verify(tmp_path / "new.graph").ok
    after = contents(tmp_path / "new.graph")
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


def test_a_lost_table_is_told(path: Path, tmp_path: Path) -> None:
    sql(path, "DROP TABLE game_move")
    assert salvage(path, tmp_path / "new.graph").tables_lost == ["game_move"]


def test_rows_that_make_no_sense_are_left_out(path: Path, tmp_path: Path) -> None:
    key = f"{key_of(chess.Board()):016x}"
    sql(loosen(path), "INSERT INTO game_move (key, move, san, white) VALUES (?, 'e2e4', 'e4', 'many')", key)
    report = salvage(path, tmp_path / "new.graph")
    assert report.tables_lost == ["game_move"]
    with Store.open(tmp_path / "new.graph", read_only=True) as store:
        assert games.counts(store, [key]) == {}


@pytest.mark.parametrize("value", ["9e999", "'x'", "NULL", "-5", "1 << 62", "x'00'"])
def test_a_key_that_is_no_number_costs_its_row(path: Path, tmp_path: Path, value: str) -> None:
    sql(loosen(path), f"UPDATE OR IGNORE epd_position SET place = {value} WHERE place IN (5, 1001)")
    salvage(path, tmp_path / "new.graph")
    assert ENTRIES > sql(tmp_path / "new.graph", "SELECT count(*) FROM epd_position")[0][0] >= 1198
