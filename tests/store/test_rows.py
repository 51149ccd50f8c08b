"""What rows may hold: one list for all columns, readers hold rows to it, and strange schemas do no harm."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import chess
import pytest

from graphsearch.base.errors import CorruptRecordError, GraphSearchError, StoreError
from graphsearch.book.questions import status
from graphsearch.position.board import fen_of, unpack
from graphsearch.query.games import games
from graphsearch.query.sql import sql
from graphsearch.store import file as connections
from graphsearch.store.backup import backup
from graphsearch.store.file import changing, connect, open_reader, open_writer
from graphsearch.store.info import info
from graphsearch.store.provenance import EvaluatorIdentity
from graphsearch.store.rewrite import compact
from graphsearch.store.salvage import salvage
from graphsearch.store.store import Store
from graphsearch.store.tables.rows import (
    MAX_BLOCK_BYTES,
    MAX_GAME_MOVES,
    MAX_TEXT_BYTES,
    TABLES,
    query,
    rows,
    tables_sql,
)
from graphsearch.store.tables.top import rows_of
from graphsearch.store.verify import verify

from ..conftest import ROOT, Cli
from ..support.rows import HOSTILE, add_examples, holds, loosen
from .records import IDENTITY, Records, filled, words_of

RECORDS = Records(71, 60)
NONSENSE = ("store_info", "evaluator", "segment", "chunk", "block", "sqlite_sequence")  # more than rows


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a row in every table, whose columns take values of any type."""
    path = filled(tmp_path_factory.mktemp("full") / "a.graph", RECORDS, runs=2)
    with Store.open(path) as store:
        record = next(record for record in RECORDS if record.visits > 1)
        store.write_top([rows_of(fen_of(unpack(record.words)), record)])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        names = [name for name in TABLES if name not in NONSENSE]
        add_examples(connection, names, id=1, book=1, run=1, bound="exact", alpha=-9, beta=9, value=0)
        connection.execute("DELETE FROM entry_piece")
        connection.execute("PRAGMA journal_mode = DELETE")
    loosen(path)
    assert verify(path).problems == []
    return path


def copied(path: Path, folder: Path) -> Path:
    copy = folder / "copy.graph"
    copy.write_bytes(path.read_bytes())
    return copy


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


# ------------------------------------------------------------------ the list
def test_the_list_of_columns_is_the_schema(tmp_path: Path) -> None:
    with closing(sqlite3.connect(":memory:")) as blank:
        blank.executescript(tables_sql())
        tables = blank.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0")
        assert {name for (name,) in tables} - {"sqlite_sequence"} == set(TABLES)
        for name, table in TABLES.items():
            found = blank.execute(f"PRAGMA table_info({name})").fetchall()
            assert [(row[1], row[2]) for row in found] == [(n, c.kind) for n, c in table.columns.items()]
            for _, column, _, not_null, _, place in found:
                key = table.key.index(column) + 1 if column in table.key else 0
                assert key == place
                assert table.columns[column].nullable == (not (not_null or place)), (name, column)


def test_a_file_refuses_values_of_another_type_or_out_of_range(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.graph", RECORDS)
    with pytest.raises(sqlite3.IntegrityError, match="cannot store TEXT value in BLOB column"):
        execute(path, "UPDATE block SET data = 'abc'")
    with pytest.raises(sqlite3.IntegrityError, match="CHECK constraint failed: length"):
        execute(path, "INSERT INTO searched_apart VALUES ('123', 'e2e4')")


def test_a_row_names_its_column_what_it_holds_and_what_was_expected() -> None:
    with (
        closing(sqlite3.connect(":memory:")) as blank,
        pytest.raises(CorruptRecordError, match=r"table root .* row .* visits is -1, expected INTEGER with"),
    ):
        list(query(blank, "SELECT '0123456789abcdef', -1", (), "root.key", "root.visits"))


def test_the_limits_of_the_program_are_those_of_the_tables() -> None:
    for column, limit in (
        (TABLES["block"].columns["data"], MAX_BLOCK_BYTES),
        (TABLES["game"].columns["moves"], MAX_GAME_MOVES),
        (TABLES["game_text"].columns["data"], MAX_TEXT_BYTES),
    ):
        assert holds(column, bytes(limit))
        assert not holds(column, bytes(limit + 1))


# ------------------------------------------------------------------ hostile values
CASES = 1000 if os.environ.get("GRAPHSEARCH_FULL") else 5


ASKED: tuple[Callable[[Path], object], ...] = (
    info,
    status,
    compact,
    lambda path: games(path, chess.Board()),
    lambda path: backup(path, path.with_name("back.graph"), force=True),
)


def cases(count: int, seed: int) -> Iterator[tuple[str, str, str]]:
    rng = random.Random(seed)
    columns = [(name, column) for name, table in TABLES.items() for column in table.columns]
    for _ in range(count):
        yield *rng.choice(columns), rng.choice(HOSTILE)


def is_bad(path: Path, table: str, column: str) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        found = connection.execute(f"SELECT {column} FROM {table}").fetchall()
    return not all(holds(TABLES[table].columns[column], value) for (value,) in found)


@pytest.mark.timeout(300 if CASES < 100 else 6000)
def test_any_value_in_a_column_is_named_and_nothing_but_our_errors_leaves(full: Path, tmp_path: Path) -> None:
    rng, tried = random.Random(2), 0
    for table, column, value in cases(CASES, seed=1):
        path = copied(full, tmp_path)
        with suppress(sqlite3.IntegrityError):
            execute(path, f"UPDATE OR IGNORE {table} SET {column} = {value}")
        bad = is_bad(path, table, column)
        tried += bad
        report = verify(path)
        assert not (bad and report.ok), (table, column, value)
        for ask in rng.sample(ASKED, len(ASKED) if CASES > 99 else 2):
            with suppress(GraphSearchError):
                ask(path)
        with suppress(GraphSearchError):
            salvage(path, tmp_path / "new.graph", force=True)
            assert verify(tmp_path / "new.graph").problems == [], (table, column, value)
    assert tried > 2


@pytest.mark.parametrize("value", ["'ééé'", "7", "NULL", "zeroblob(300000)"])
def test_a_block_that_is_no_blob_is_named_and_passed_over(full: Path, tmp_path: Path, value: str) -> None:
    path = copied(full, tmp_path)
    execute(
        path,
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET sql = replace(sql, 'data BLOB NOT NULL', 'data BLOB')",
    )
    execute(path, f"UPDATE block SET data = {value} WHERE id = 2")
    report = verify(path)
    assert any("block 2" in line or "table block, row id 2: data is" in line for line in report.problems)
    with Store.open(path, read_only=True) as store:
        seen: list[CorruptRecordError] = []
        left = sum(len(batch) for batch in store.scan(on_corrupt=seen.append))
        assert 0 < left < len(RECORDS)
        assert all("block 2" in str(error) for error in seen)
        with store.reader() as reader:
            found, _ = reader.find(words_of(RECORDS))
            assert int(found.sum()) == left
    assert salvage(path, tmp_path / "new.graph").records == left


# ------------------------------------------------------------------ schemas of strangers
TRAP = "CREATE TRIGGER trap AFTER INSERT ON run BEGIN DELETE FROM block; DELETE FROM root; END"


def test_a_file_with_a_trigger_is_read_and_not_written(full: Path, tmp_path: Path) -> None:
    path = copied(full, tmp_path)
    execute(path, TRAP)
    with pytest.raises(StoreError, match=r"it has triggers \(trap\)"):
        Store.open(path)
    assert info(path).nodes == len(RECORDS)
    assert any("triggers (trap)" in line for line in verify(path).problems)
    salvage(path, tmp_path / "new.graph")
    assert verify(tmp_path / "new.graph").problems == []
    with Store.open(tmp_path / "new.graph") as store:
        store.begin_run("", {}, {})
        assert store.node_count == len(RECORDS)


@pytest.mark.parametrize(
    "statements",
    [
        ("ALTER TABLE root RENAME TO hidden", "CREATE VIEW root AS SELECT * FROM hidden"),
        (
            "ALTER TABLE block RENAME TO hidden",
            "CREATE VIEW block AS SELECT id, randomblob(9) AS data FROM hidden",
        ),
        ("DROP TABLE top_edge", "CREATE VIRTUAL TABLE top_edge USING fts5(key, move, san, n, p, q, draw)"),
        ("ALTER TABLE root ADD COLUMN more INTEGER AS (visits + 1)",),
        ("ALTER TABLE root ADD COLUMN more INTEGER",),
        ("ALTER TABLE root RENAME COLUMN visits TO n",),
        ("DROP TABLE run",),
    ],
)
def test_a_table_that_is_not_ours_is_refused(full: Path, tmp_path: Path, statements: tuple[str, ...]) -> None:
    path = copied(full, tmp_path)
    execute(path, *statements)
    for read_only in (True, False):
        with pytest.raises(CorruptRecordError, match=r"that of a graph file|no such table"):
            Store.open(path, read_only=read_only)
    assert not verify(path).ok


def test_what_a_view_says_calls_no_function_and_more_tables_do_no_harm(full: Path, tmp_path: Path) -> None:
    path = copied(full, tmp_path)
    execute(
        path,
        "DROP VIEW runs",
        "CREATE VIEW runs AS SELECT record(position) AS fen FROM root",
        "CREATE TABLE notes (a)",
        "CREATE INDEX by_n ON root (visits)",
    )
    with (
        pytest.raises(GraphSearchError, match="unsafe use of record"),
        sql(path, "SELECT * FROM runs") as result,
    ):
        list(result.rows)
    with Store.open(path, identity=IDENTITY) as store:
        store.record_root("f" * 16, chess.STARTING_FEN, 3)
        assert len(list(rows(store.connection, "root", ("key", "visits")))) == 2
    assert verify(path).ok


def test_all_connections_are_made_in_one_place_and_trust_no_schema(full: Path, tmp_path: Path) -> None:
    files = (ROOT / "graphsearch").rglob("*.py")
    made = [file for file in files if "sqlite3.connect(" in file.read_text("utf-8")]
    assert [file.name for file in made] == ["file.py"]
    path = copied(full, tmp_path)
    for opened in (closing(open_reader(path)), changing(path), closing(open_writer(path, create=False))):
        with opened as connection:
            assert connection.execute("PRAGMA trusted_schema").fetchone() == (0,)
            assert connection.execute("PRAGMA cell_size_check").fetchone() == (1,)


ENDLESS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r)"


BOUND = "a statement took longer than the size of the file explains"


def put_in_place(path: Path, table: str, statement: str) -> None:
    """Makes something else of the name of a table, with its columns."""
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA writable_schema = 1")
        for (view,) in file.execute("SELECT name FROM sqlite_schema WHERE type = 'view'").fetchall():
            file.execute(f"DROP VIEW {view}")
        file.execute(f"DROP TABLE {table}")
        file.execute(statement)
    file.close()


def endless_view(table: str) -> str:
    columns = ", ".join(f"x AS {name}" for name in TABLES[table].columns)
    return f"CREATE VIEW {table} AS {ENDLESS} SELECT {columns} FROM r"


def full_text(table: str) -> str:
    return f"CREATE VIRTUAL TABLE {table} USING fts4({', '.join(TABLES[table].columns)})"


@pytest.mark.parametrize(("made", "table"), [(endless_view, "store_info"), (full_text, "game")])
def test_what_is_no_table_is_never_read(
    cli: Cli, small_graph: Path, tmp_path: Path, table: str, made: Callable[[str], str]
) -> None:
    path, sound = tmp_path / "odd.graph", tmp_path / "sound.graph"
    shutil.copy(small_graph, path)
    shutil.copy(small_graph, sound)
    put_in_place(path, table, made(table))
    for command in (
        ("store", "info", path),
        ("store", "verify", path),
        ("lab", "refresh", path),
        ("store", "salvage", path, tmp_path / "saved.graph"),
        ("store", "merge", sound, path, "-o", tmp_path / "both.graph", "--force"),
        ("lab", "sql", "SELECT count(*) FROM sqlite_schema", "--store", path),
    ):
        done = cli(*command)
        assert done.code in (0, 1), (command, done)
        assert "internal error" not in done.err
        assert BOUND not in done.err, "an endless statement is ended by its bound"
        if done.code:
            assert done.err.strip(), command


def test_a_view_in_a_killed_writer_s_log_is_not_read_first(small_graph: Path, tmp_path: Path) -> None:
    path = tmp_path / "odd.graph"
    shutil.copy(small_graph, path)
    put_in_place(path, "run", endless_view("run"))
    path.with_name("odd.graph-wal").write_bytes(b"\0" * 4096)
    assert "no such table: run" in verify(path).problems[0]


def test_a_statement_takes_no_unexplained_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LEAST_STEPS", 5 * connections.PULSE)
    file = connect(tmp_path / "a.db")
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        file.execute(f"{ENDLESS} SELECT count(*) FROM r").fetchone()
    counted = f"{ENDLESS} SELECT count(*) FROM (SELECT x FROM r LIMIT 100000)"
    for _ in range(6):  # each statement begins anew
        assert file.execute(counted).fetchone() == (100_000,)
    file.remove_limit()  # as for a writer
    assert file.execute(counted.replace("100000", "600000")).fetchone() == (600_000,)
    file.close()


def test_two_threads_use_a_writers_connection_at_once(tmp_path: Path) -> None:
    """Neither waits for Python's lock while it holds SQLite's: a search hung while its file was merged."""
    identity, ends = EvaluatorIdentity("uniform"), threading.Event()
    with Store.open(tmp_path / "a.graph", identity=identity, create=True) as store:

        def ask(first: int) -> None:
            for number in range(first, first + 1500):  # each statement is new, so that SQLite looks into it
                if not ends.is_set():
                    store.connection.execute(f"SELECT {number} FROM block").fetchall()

        thread = threading.Thread(target=ask, args=(300_000,), daemon=True)
        thread.start()
        ask(0)
        ends.set()
        thread.join(60)
        assert not thread.is_alive()
