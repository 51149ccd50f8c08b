"""Opening: every failure is one line that names the file; what rows may hold, and schemas of strangers."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import chess
import pytest

from graphsearch.base import errors
from graphsearch.book.questions import status
from graphsearch.position.board import fen_of, unpack
from graphsearch.query.games import games
from graphsearch.query.sql import sql as asked
from graphsearch.store import file as connections
from graphsearch.store import store as store_module
from graphsearch.store.backup import backup
from graphsearch.store.info import info
from graphsearch.store.provenance import EvaluatorIdentity, differences
from graphsearch.store.record_kernel import MAX_EVALUATOR, MAX_RUN
from graphsearch.store.rewrite import compact
from graphsearch.store.salvage import salvage
from graphsearch.store.store import Store
from graphsearch.store.tables import rows
from graphsearch.store.tables.top import rows_of
from graphsearch.store.verify import verify

from ..conftest import ROOT, Cli, sql
from ..support.forks import Fork, Say
from ..support.rows import HOSTILE, add_examples, holds, loosen
from .records import IDENTITY, Records, contents, filled, random_records, words_of

RECORDS = Records(71, 60)
DEEP = "[" * 50_000 + "]" * 50_000


def refused(path: Path, kind: type[errors.StoreError] = errors.StoreError, **options: object) -> str:
    """Returns the message with which opening fails; one line that names the file, and no new files."""
    before = sorted(path.parent.iterdir()) if path.parent.exists() else []
    with pytest.raises(kind) as caught:
        Store.open(path, **options).close()  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message or path.parent.name in message
    assert (sorted(path.parent.iterdir()) if path.parent.exists() else []) == before
    assert type(caught.value) is kind
    return message


@pytest.mark.parametrize("read_only", [True, False])
def test_what_is_no_graph_file_is_left_alone(path: Path, read_only: bool) -> None:
    assert "folder" in refused(path.parent, read_only=read_only)
    for content in (b"", b"PGN text, not a database\n" * 100, b"\0" * 5000):
        path.write_bytes(content)
        refused(path, read_only=read_only)
        assert path.read_bytes() == content
    path.unlink()
    sql(path, "CREATE TABLE t (a)")
    content = path.read_bytes()
    assert "not a graph" in refused(path, read_only=read_only)
    assert "not a graph" in refused(path, create=True, identity=IDENTITY)
    assert path.read_bytes() == content


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("version", [0, connections.FORMAT_VERSION - 1, connections.FORMAT_VERSION + 5])
def test_another_format_is_refused_in_one_line(path: Path, version: int, read_only: bool) -> None:
    filled(path, RECORDS)
    sql(path, f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    message = refused(path, errors.SchemaVersionError, read_only=read_only)
    assert f"has format {version}, this version of graphsearch reads format" in message
    assert f" {connections.FORMAT_VERSION};" in message
    with pytest.raises(errors.SchemaVersionError, match=f"has format {version}"):
        salvage(path, path.with_name("new.graph"))
    assert path.read_bytes() == before


@pytest.mark.parametrize("size", [1, 100, 4000, 40000])
def test_a_truncated_file_fails_in_one_line(path: Path, size: int) -> None:
    filled(path, RECORDS)
    os.truncate(path, size)
    for read_only in (True, False):
        with pytest.raises(errors.StoreError) as caught, Store.open(path, read_only=read_only) as store:
            contents(store)
        assert "\n" not in str(caught.value)
        assert str(path) in str(caught.value)
    report = verify(path)
    assert not report.ok
    assert all(str(path) in problem for problem in report.problems)


def test_another_evaluator_is_refused_and_both_are_named(path: Path) -> None:
    filled(path, RECORDS)
    other = EvaluatorIdentity("builtin", "1234567890abcdef", {"depth": 3}, "logistic")
    message = refused(path, errors.EvaluatorMismatchError, identity=other)
    assert "evaluator uniform there, builtin here" in message
    assert "digest none there, 12345678.. here; mapping none there, logistic here; " in message
    assert "; depth not set there, 3 here" in message
    assert f"use that one, another file, or `graphsearch reevaluate {path} --evaluator" in message
    refused(path, errors.EvaluatorMismatchError, identity=other, read_only=True)


def test_a_new_file_needs_an_evaluator(path: Path) -> None:
    path.touch()
    assert verify(path).problems == [f"{path} is empty, not a graph file; remove it or name another"]
    with pytest.raises(errors.StoreError, match="not bound to an evaluator"):
        Store.open(path, create=True)
    # what is left is completed by the next one
    filled(path, RECORDS)
    assert verify(path).ok


def test_a_link_leads_to_the_same_lock(path: Path) -> None:
    filled(path, RECORDS)
    link = path.parent / "link.graph"
    link.symlink_to(path)
    with Store.open(link) as store:
        assert store.path == path.resolve()
        refused(path, errors.StoreLockedError)
        with pytest.raises(errors.StoreLockedError, match=r"test\.graph .* this program; close that Graph"):
            Store.open(link)
    path.with_name("hard.graph").hardlink_to(path)
    assert "hard links" in refused(path)


def test_a_new_file_is_not_deleted_while_it_is_written(path: Path) -> None:
    with Store.open(path, create=True, unbound=True):
        assert not connections.delete_if_empty(path)
    assert connections.delete_if_empty(path)


def hold(path: Path, say: Say) -> None:
    with Store.open(path):
        say("open")
        time.sleep(60)


def test_the_lock_of_a_killed_writer_is_free(path: Path) -> None:
    filled(path, RECORDS)
    with Fork(partial(hold, path)) as holder:
        assert holder.line() == "open"
        assert f"process {holder.process} since" in refused(path, errors.StoreLockedError)
    with Store.open(path) as store:
        assert len(contents(store)) == len(RECORDS)


@pytest.mark.parametrize("note", ["", "[]", DEEP, '{"pid": "x", "since": 1}', '{"pid": -1, "since": ""}'])
def test_an_odd_note_of_a_lock_names_nobody(path: Path, note: str) -> None:
    lock = connections.WriteLock(path)
    path.with_name(f"{path.name}.lock").write_text(note)
    assert connections.holder(path) == {"pid": None, "since": None}
    lock.release()


def test_a_lock_that_its_holder_is_about_to_release_is_waited_for(path: Path) -> None:
    lock = connections.WriteLock(path)
    lock.announce_end()
    threading.Timer(0.2, lock.release).start()
    connections.WriteLock(path).release()


def test_a_json_object_of_a_cell_has_a_depth() -> None:
    assert rows.json_object("{" * 0 + '{"a":' * rows.DEEPEST + "1" + "}" * rows.DEEPEST) is not None
    assert rows.json_object('{"a":' * (rows.DEEPEST + 1) + "1" + "}" * (rows.DEEPEST + 1)) is None
    assert rows.json_object(DEEP) is None


def test_a_read_only_file_and_folder_can_be_read_only(path: Path) -> None:
    filled(path, RECORDS)
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        if os.access(path, os.W_OK):
            pytest.skip("permissions do not bind this user")
        with Store.open(path, read_only=True) as store:
            assert len(contents(store)) == len(RECORDS)
        assert "cannot" in refused(path)
    finally:
        path.parent.chmod(0o755)


def test_a_folder_without_room_for_a_log_can_be_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(path, RECORDS)
    # what a read-only file system answers, also to root
    monkeypatch.setattr(os, "access", lambda target, mode: mode == os.R_OK)
    with monkeypatch.context() as patch:
        plain = connections.connect

        def connect(target: Path, query: str) -> sqlite3.Connection:
            if query == "mode=ro":
                raise sqlite3.OperationalError("unable to open database file")
            return plain(target, query)

        patch.setattr(connections, "connect", connect)
        with Store.open(path, read_only=True) as store:
            assert len(contents(store)) == len(RECORDS)
    assert sorted(p.name for p in path.parent.iterdir()) == ["test.graph"]
    assert "cannot be written" in refused(path)


def test_a_damaged_name_in_the_schema_is_one_clear_error(path: Path) -> None:
    """SQLite quotes it in its message, which Python then cannot decode."""
    filled(path, RECORDS)
    data = path.read_bytes()
    spoiled = data.replace(b"segmentsegment", b"segm\x86ntsegment").replace(
        b"CREATE TABLE segment", b"CREATE TABEL segment"
    )
    assert spoiled != data
    path.write_bytes(spoiled)
    damaged = "the names of its tables are damaged"
    for read_only in (True, False):
        with pytest.raises(errors.StoreError, match=damaged):
            Store.open(path, read_only=read_only)
    log = path.with_name(path.name + "-wal")
    log.write_bytes(b"of a process that was killed")  # whether it belongs to the file is seen first
    with pytest.raises(errors.StoreError, match=damaged):
        Store.open(path, read_only=True)


# ------------------------------------------------------------------ evaluators and runs
OTHER = EvaluatorIdentity("lc0", "5e6f7a8b9c0d", {"PolicyTemperature": 1.359, "fill": "fen_only"}, "wdl")


def test_a_file_lists_evaluators_and_is_bound_to_the_one_that_is_chosen(path: Path) -> None:
    filled(path, RECORDS)
    with Store.open(path) as store:
        assert (store.evaluator_number, store.evaluators()) == (1, {1: IDENTITY})
        number = store.add_evaluator(OTHER)
        assert number == store.add_evaluator(OTHER) == 2
        assert (store.evaluator_number, store.identity) == (1, IDENTITY)
        store.bind_evaluator(number)
        assert (store.evaluator_number, store.identity) == (2, OTHER)
        assert store.run(store.begin_run("", {}, {})).evaluator == 2  # type: ignore[union-attr]
    with Store.open(path, identity=OTHER) as store:
        assert (store.evaluator_number, store.evaluators()) == (2, {1: IDENTITY, 2: OTHER})
    with pytest.raises(errors.EvaluatorMismatchError, match="evaluator lc0 there, uniform here"):
        Store.open(path, identity=IDENTITY)
    assert info(path).evaluator == OTHER


def test_a_binding_that_is_rolled_back_is_none(path: Path) -> None:
    filled(path, RECORDS)
    with Store.open(path) as store:

        def bind_and_fail() -> None:
            with store.transaction():
                store.bind_evaluator(store.add_evaluator(OTHER))
                assert store.identity == OTHER
                store.bind_evaluator(3)

        with pytest.raises(errors.StoreError, match=r"test.graph: .* no evaluator 3"):
            bind_and_fail()
        assert (store.evaluator_number, store.identity, store.evaluators()) == (1, IDENTITY, {1: IDENTITY})


def test_more_evaluators_and_runs_than_a_record_can_name_are_refused(path: Path) -> None:
    filled(path, RECORDS)
    with Store.open(path) as store:
        numbers = [store.add_evaluator(EvaluatorIdentity("net", str(i))) for i in range(MAX_EVALUATOR - 1)]
        assert numbers[-1] == MAX_EVALUATOR
        with pytest.raises(errors.StoreError, match=r"test.graph: .* 15 evaluators already"):
            store.add_evaluator(OTHER)
        first = store.begin_run(chess.STARTING_FEN, {}, {})
        store.connection.execute("UPDATE run SET id = ? WHERE id = ?", (MAX_RUN - 1, first))
        assert store.begin_run(chess.STARTING_FEN, {}, {}) == MAX_RUN
        with pytest.raises(errors.StoreError, match=r"test.graph: .* 1,048,575 runs already"):
            store.begin_run(chess.STARTING_FEN, {}, {})


def test_a_number_reserved_as_another_run_begins_is_own(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(path, RECORDS)
    with Store.open(path) as store:
        first, others = store.reserve_run(), list[int]()
        highest = store_module._last_run

        def meanwhile(connection: sqlite3.Connection) -> int:
            others.append(store.reserve_run())  # as another thread, while SQLite works
            return highest(connection)

        monkeypatch.setattr(store_module, "_last_run", meanwhile)
        assert store.begin_run(chess.STARTING_FEN, {}, {}, run=first) == first
        assert len({first, *others, store.reserve_run()}) == 3


def test_records_of_unlisted_runs_and_evaluators_are_named(tmp_path: Path) -> None:
    records = [replace(r, run=k % 3, evaluator=k % 2) for k, r in enumerate(random_records(71, 30))]
    path = filled(tmp_path / "b.graph", records)
    with Store.open(path) as store:
        store.begin_run(chess.STARTING_FEN, {}, {})
    found = verify(path).problems
    assert len(found) == 10
    assert all("is of run 2, which the table run does not list" in problem for problem in found)
    with Store.open(path) as store:
        store.begin_run(chess.STARTING_FEN, {}, {})
        store.add_evaluator(OTHER)
        store.bind_evaluator(2)
        store.connection.execute("DELETE FROM evaluator WHERE id = 1")
    found = verify(path).problems
    assert len(found) == 15
    assert all("is of evaluator 1, which the table evaluator does not list" in problem for problem in found)


@pytest.mark.parametrize(
    ("there", "here", "told"),
    [
        (OTHER, OTHER, ""),
        (EvaluatorIdentity("a", "", {"x": "1"}), EvaluatorIdentity("a", "", {"x": 1}), 'x "1" there, 1 here'),
        (
            EvaluatorIdentity("a", "", {"x": "one\ntwo"}, "m"),
            EvaluatorIdentity("a", "", {"x": "one"}, ""),
            'mapping m there, none here; x "one\\ntwo" there, one here',
        ),
        (
            EvaluatorIdentity("a", "", {"policy": {"file": "p", "t": 1}}),  # type: ignore[dict-item]
            EvaluatorIdentity("a", "", {"policy": {"file": "q", "t": 1}}),  # type: ignore[dict-item]
            "policy.file p there, q here",
        ),
    ],
)
def test_evaluators_are_told_apart(there: EvaluatorIdentity, here: EvaluatorIdentity, told: str) -> None:
    assert differences(there, here) == told


# ------------------------------------------------------------------ rows and schemas of strangers
NONSENSE = ("store_info", "evaluator", "segment", "chunk", "block", "sqlite_sequence")  # more than rows


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a row in every table, whose columns take values of any type."""
    path = filled(tmp_path_factory.mktemp("full") / "a.graph", RECORDS, runs=2)
    with Store.open(path) as store:
        record = next(record for record in RECORDS if record.visits > 1)
        store.write_top([rows_of(fen_of(unpack(record.words)), record)])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        names = [name for name in rows.TABLES if name not in NONSENSE]
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
        blank.executescript(rows.tables_sql())
        tables = blank.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0")
        assert {name for (name,) in tables} - {"sqlite_sequence"} == set(rows.TABLES)
        for name, table in rows.TABLES.items():
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


def test_the_limits_of_the_program_are_those_of_the_tables() -> None:
    for column, limit in (
        (rows.TABLES["block"].columns["data"], rows.MAX_BLOCK_BYTES),
        (rows.TABLES["game"].columns["moves"], rows.MAX_GAME_MOVES),
        (rows.TABLES["game_text"].columns["data"], rows.MAX_TEXT_BYTES),
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
    columns = [(name, column) for name, table in rows.TABLES.items() for column in table.columns]
    for _ in range(count):
        yield *rng.choice(columns), rng.choice(HOSTILE)


def is_bad(path: Path, table: str, column: str) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
        found = connection.execute(f"SELECT {column} FROM {table}").fetchall()
    return not all(holds(rows.TABLES[table].columns[column], value) for (value,) in found)


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
            with suppress(errors.GraphSearchError):
                ask(path)
        with suppress(errors.GraphSearchError):
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
        seen: list[errors.CorruptRecordError] = []
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
    with pytest.raises(errors.StoreError, match=r"it has triggers \(trap\)"):
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
        with pytest.raises(errors.CorruptRecordError, match=r"that of a graph file|no such table"):
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
        pytest.raises(errors.GraphSearchError, match="unsafe use of record"),
        asked(path, "SELECT * FROM runs") as result,
    ):
        list(result.rows)
    with Store.open(path, identity=IDENTITY) as store:
        store.record_root("f" * 16, chess.STARTING_FEN, 3)
        assert len(list(rows.rows(store.connection, "root", ("key", "visits")))) == 2
    assert verify(path).ok


def test_all_connections_are_made_in_one_place_and_trust_no_schema(full: Path, tmp_path: Path) -> None:
    files = (ROOT / "graphsearch").rglob("*.py")
    made = [file for file in files if "sqlite3.connect(" in file.read_text("utf-8")]
    assert [file.name for file in made] == ["file.py"]
    path = copied(full, tmp_path)
    for opened in (
        closing(connections.open_reader(path)),
        connections.changing(path),
        closing(connections.open_writer(path, create=False)),
    ):
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
    columns = ", ".join(f"x AS {name}" for name in rows.TABLES[table].columns)
    return f"CREATE VIEW {table} AS {ENDLESS} SELECT {columns} FROM r"


def full_text(table: str) -> str:
    return f"CREATE VIRTUAL TABLE {table} USING fts4({', '.join(rows.TABLES[table].columns)})"


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
    file = connections.connect(tmp_path / "a.db")
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
