"""Which evaluators and runs a file knows, and how a mismatch is told."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import chess
import pytest

from graphsearch.base.errors import EvaluatorMismatchError, StoreError
from graphsearch.store import store as store_module
from graphsearch.store.info import info
from graphsearch.store.provenance import EvaluatorIdentity, differences
from graphsearch.store.record_kernel import MAX_EVALUATOR, MAX_RUN
from graphsearch.store.store import Store
from graphsearch.store.verify import verify

from .records import IDENTITY, filled, random_records

OTHER = EvaluatorIdentity("lc0", "5e6f7a8b9c0d", {"PolicyTemperature": 1.359, "fill": "fen_only"}, "wdl")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with some records, bound to IDENTITY."""
    return filled(tmp_path / "a.graph", random_records(71, 40))


def test_a_file_lists_evaluators_and_is_bound_to_the_one_that_is_chosen(path: Path) -> None:
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
    with Store.open(path) as store:

        def bind_and_fail() -> None:
            with store.transaction():
                store.bind_evaluator(store.add_evaluator(OTHER))
                assert store.identity == OTHER
                store.bind_evaluator(3)

        with pytest.raises(StoreError, match=r"a.graph: .* no evaluator 3"):
            bind_and_fail()
        assert (store.evaluator_number, store.identity, store.evaluators()) == (1, IDENTITY, {1: IDENTITY})


def test_more_evaluators_than_a_record_can_name_are_refused(path: Path) -> None:
    with Store.open(path) as store:
        numbers = [store.add_evaluator(EvaluatorIdentity("net", str(i))) for i in range(MAX_EVALUATOR - 1)]
        assert numbers[-1] == MAX_EVALUATOR
        with pytest.raises(StoreError, match=r"a.graph: .* 15 evaluators already"):
            store.add_evaluator(OTHER)


def test_more_runs_than_a_record_can_name_are_refused(path: Path) -> None:
    with Store.open(path) as store:
        first = store.begin_run(chess.STARTING_FEN, {}, {})
        store.connection.execute("UPDATE run SET id = ? WHERE id = ?", (MAX_RUN - 1, first))
        assert store.begin_run(chess.STARTING_FEN, {}, {}) == MAX_RUN
        with pytest.raises(StoreError, match=r"a.graph: .* 1,048,575 runs already"):
            store.begin_run(chess.STARTING_FEN, {}, {})


def test_a_number_reserved_while_another_run_begins_is_its_own(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
