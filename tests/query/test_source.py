"""Records read ahead in a batch are those that single reads find."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import chess
import numpy as np
import pytest

from graphsearch.base.errors import CorruptRecordError
from graphsearch.position.board import pack
from graphsearch.query.routes import Finder
from graphsearch.query.source import RecordSource, opened
from graphsearch.store.record.node import NodeRecord
from graphsearch.store.store import Store

from ..store.records import batch_of
from .handmade import LINES, board_after, graph_file, node

BOARDS = [board_after(line) for line in (*LINES, "h4 a5")]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("graphsearch.query.source.LEAST_AHEAD", 1)
    return graph_file(tmp_path / "hand.graph", LINES)


@pytest.fixture
def single(monkeypatch: pytest.MonkeyPatch) -> list[chess.Board]:
    """The positions that are looked up one by one."""
    asked: list[chess.Board] = []
    read = Store.read

    def counting(store: Store, board: chess.Board) -> NodeRecord | None:
        asked.append(board)
        return read(store, board)

    monkeypatch.setattr(Store, "read", counting)
    return asked


def _read_ahead(source: RecordSource) -> list[NodeRecord | None]:
    source.read_ahead(np.array([pack(board) for board in BOARDS]))
    return [source.read(board) for board in BOARDS]


def _read_singly(path: Path) -> list[NodeRecord | None]:
    with opened(path) as source:
        return [source.read(board) for board in BOARDS]


def test_records_read_ahead_equal_those_read_singly(file: Path, single: list[chess.Board]) -> None:
    with opened(file) as source:
        found = _read_ahead(source)
    assert single == BOARDS[-1:]  # which the file does not hold
    assert found == _read_singly(file)


def test_nothing_is_read_ahead_from_a_state_after_that_of_the_query(
    file: Path, single: list[chess.Board]
) -> None:
    before = _read_singly(file)
    with opened(file) as source:
        with Store.open(file) as store:
            store.append(batch_of([node(board, v=0.5) for board in BOARDS]), fresh=1)
        single.clear()
        assert _read_ahead(source) == before
    assert single == BOARDS


def test_nothing_is_read_ahead_from_a_damaged_file(file: Path, single: list[chess.Board]) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE block SET data = x'00'")
    with opened(file) as source:
        source.read_ahead(np.array([pack(board) for board in BOARDS]))
        with pytest.raises(CorruptRecordError):
            source.read(BOARDS[0])
    assert single == BOARDS[:1]


def test_lines_found_with_records_read_ahead_are_those_without(file: Path, single: list[chess.Board]) -> None:
    with opened(file) as source:
        finder = Finder(source)
        expected = [finder.way(board) for board in BOARDS]
    alone = len(single)
    single.clear()
    with opened(file) as source:
        finder = Finder(source, at_once=4)
        assert [finder.way(board) for board in BOARDS] == expected
    assert len(single) < alone
