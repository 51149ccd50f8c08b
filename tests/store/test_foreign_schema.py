"""Files whose schema is not ours: views and virtual tables in place of tables, endless statements."""

from __future__ import annotations

import shutil
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from graphsearch.store import file as connections
from graphsearch.store.file import connect
from graphsearch.store.provenance import EvaluatorIdentity
from graphsearch.store.store import Store
from graphsearch.store.tables.rows import TABLES
from graphsearch.store.verify import verify

from ..conftest import Cli

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
