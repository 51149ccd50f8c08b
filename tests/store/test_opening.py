"""Opening: every failure is one line that names the file; evaluators and runs that a file knows."""

from __future__ import annotations

import os
import sqlite3
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import chess
import pytest

from graphsearch.base.errors import (
    EvaluatorMismatchError,
    SchemaVersionError,
    StoreError,
    StoreLockedError,
)
from graphsearch.store import store as store_module
from graphsearch.store.file import FORMAT_VERSION, WriteLock, holder
from graphsearch.store.info import info
from graphsearch.store.provenance import EvaluatorIdentity, differences
from graphsearch.store.record_kernel import MAX_EVALUATOR, MAX_RUN
from graphsearch.store.salvage import salvage
from graphsearch.store.store import Store
from graphsearch.store.tables.rows import DEEPEST, json_object
from graphsearch.store.verify import verify

from ..conftest import sql
from ..support.forks import Fork, Say
from .records import IDENTITY, Records, contents, filled, random_records

RECORDS = Records(71, 40)
DEEP = "[" * 50_000 + "]" * 50_000


def refused(path: Path, kind: type[StoreError] = StoreError, **options: object) -> str:
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
@pytest.mark.parametrize("version", [0, FORMAT_VERSION - 1, FORMAT_VERSION + 5])
def test_another_format_is_refused_in_one_line(path: Path, version: int, read_only: bool) -> None:
    filled(path, RECORDS)
    sql(path, f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    message = refused(path, SchemaVersionError, read_only=read_only)
    assert f"has format {version}, this version of graphsearch reads format {FORMAT_VERSION};" in message
    assert len(message.splitlines()) == 1
    with pytest.raises(SchemaVersionError, match=f"has format {version}"):
        salvage(path, path.with_name("new.graph"))
    assert path.read_bytes() == before


@pytest.mark.parametrize("size", [1, 100, 4000, 40000])
def test_a_truncated_file_fails_in_one_line(path: Path, size: int) -> None:
    filled(path, RECORDS)
    os.truncate(path, size)
    for read_only in (True, False):
        with pytest.raises(StoreError) as caught, Store.open(path, read_only=read_only) as store:
            contents(store)
        assert "\n" not in str(caught.value)
        assert str(path) in str(caught.value)
    report = verify(path)
    assert not report.ok
    assert all(str(path) in problem for problem in report.problems)


def test_another_evaluator_is_refused_and_both_are_named(path: Path) -> None:
    filled(path, RECORDS)
    other = EvaluatorIdentity("builtin", "1234567890abcdef", {"depth": 3}, "logistic")
    message = refused(path, EvaluatorMismatchError, identity=other)
    assert "evaluator uniform there, builtin here" in message
    assert (
        "digest none there, 12345678.. here; mapping none there, logistic here; depth not set there, 3 here"
        in message
    )
    assert f"use that one, another file, or `graphsearch reevaluate {path} --evaluator" in message
    refused(path, EvaluatorMismatchError, identity=other, read_only=True)


def test_a_new_file_needs_an_evaluator(path: Path) -> None:
    path.touch()
    assert verify(path).problems == [f"{path} is empty, not a graph file; remove it or name another"]
    with pytest.raises(StoreError, match="not bound to an evaluator"):
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
        refused(path, StoreLockedError)
        with pytest.raises(StoreLockedError, match=r"test\.graph"):
            Store.open(link)


def hold(path: Path, say: Say) -> None:
    with Store.open(path):
        say("open")
        time.sleep(60)


def test_the_lock_of_a_killed_writer_is_free(path: Path) -> None:
    filled(path, RECORDS)
    with Fork(partial(hold, path)) as holder:
        assert holder.line() == "open"
        assert f"process {holder.process} since" in refused(path, StoreLockedError)
    with Store.open(path) as store:
        assert len(contents(store)) == len(RECORDS)


@pytest.mark.parametrize("note", ["", "[]", DEEP, '{"pid": "x", "since": 1}', '{"pid": -1, "since": ""}'])
def test_an_odd_note_of_a_lock_names_nobody(tmp_path: Path, note: str) -> None:
    path = tmp_path / "a.graph"
    lock = WriteLock(path)
    try:
        path.with_name("a.graph.lock").write_text(note)
        assert holder(path) == {"pid": None, "since": None}
    finally:
        lock.release()


def test_a_json_object_of_a_cell_has_a_depth() -> None:
    assert json_object("{" * 0 + '{"a":' * DEEPEST + "1" + "}" * DEEPEST) is not None
    assert json_object('{"a":' * (DEEPEST + 1) + "1" + "}" * (DEEPEST + 1)) is None
    assert json_object(DEEP) is None


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
    from graphsearch.store import file

    filled(path, RECORDS)
    # what a read-only file system answers, also to root
    monkeypatch.setattr(os, "access", lambda target, mode: mode == os.R_OK)
    with monkeypatch.context() as patch:
        plain = file.connect

        def connect(target: Path, query: str) -> sqlite3.Connection:
            if query == "mode=ro":
                raise sqlite3.OperationalError("unable to open database file")
            return plain(target, query)

        patch.setattr(file, "connect", connect)
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
    for read_only in (True, False):
        with pytest.raises(StoreError, match="the names of its tables are damaged"):
            Store.open(path, read_only=read_only)


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
    with pytest.raises(EvaluatorMismatchError, match="evaluator lc0 there, uniform here"):
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

        with pytest.raises(StoreError, match=r"test.graph: .* no evaluator 3"):
            bind_and_fail()
        assert (store.evaluator_number, store.identity, store.evaluators()) == (1, IDENTITY, {1: IDENTITY})


def test_more_evaluators_and_runs_than_a_record_can_name_are_refused(path: Path) -> None:
    filled(path, RECORDS)
    with Store.open(path) as store:
        numbers = [store.add_evaluator(EvaluatorIdentity("net", str(i))) for i in range(MAX_EVALUATOR - 1)]
        assert numbers[-1] == MAX_EVALUATOR
        with pytest.raises(StoreError, match=r"test.graph: .* 15 evaluators already"):
            store.add_evaluator(OTHER)
        first = store.begin_run(chess.STARTING_FEN, {}, {})
        store.connection.execute("UPDATE run SET id = ? WHERE id = ?", (MAX_RUN - 1, first))
        assert store.begin_run(chess.STARTING_FEN, {}, {}) == MAX_RUN
        with pytest.raises(StoreError, match=r"test.graph: .* 1,048,575 runs already"):
            store.begin_run(chess.STARTING_FEN, {}, {})


def test_a_number_reserved_while_another_run_begins_is_its_own(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        (EvaluatorIdentity("a", "", {"x": 1}), EvaluatorIdentity("a"), "x 1 there, not set here"),
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
