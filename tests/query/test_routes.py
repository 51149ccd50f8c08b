"""Lines to the positions of a list: from a root, through transpositions, by name."""

from __future__ import annotations

from pathlib import Path

import chess
import pytest

from graphsearch.base.errors import CorruptRecordError
from graphsearch.book.build import build
from graphsearch.book.config import BuildSettings, parse_config
from graphsearch.position.board import key_text
from graphsearch.query.routes import Way, routes
from graphsearch.query.source import RecordSource, opened
from graphsearch.store.record import NodeRecord
from graphsearch.store.store import Store

from ..conftest import sql
from ..store.records import batch_of
from ..support.positions import after_line
from .handmade import LINES, graph_file, node


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return graph_file(tmp_path_factory.mktemp("routes") / "hand.graph", LINES)


def _way(file: Path, line: str) -> Way | None:
    fen = after_line(line).fen()
    return routes(file, [fen]).get(fen)


def test_a_stored_position_has_the_line_of_most_visits(file: Path) -> None:
    found = _way(file, "Nf3 e5 e4 Nc6")
    assert found is not None
    assert (found.start, found.line) == (None, ("e4", "e5", "Nf3", "Nc6"))
    assert str(found.opening) == "C44 King's Knight Opening: Normal Variation"


def test_below_a_root_that_another_root_reaches_lines_are_those_of_most_visits(tmp_path: Path) -> None:
    file = graph_file(tmp_path / "hand.graph", LINES)
    with Store.open(file) as store:
        board = after_line("e4 e5")
        store.record_root(key_text(board), board.fen(), 40)
    found = _way(file, "Nf3 e5 e4 Nc6")
    assert found is not None
    assert (found.start, found.line) == (None, ("e4", "e5", "Nf3", "Nc6"))


def test_outside_the_part_read_lines_are_moves_taken_back(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphsearch.query.routes.WALKED", 0)
    found = _way(file, "Nf3 e5 e4 Nc6")
    assert found is not None
    assert (found.start, found.line) == (None, ("e4", "e5", "Nf3", "Nc6"))


def test_lines_begin_at_the_roots_of_books_too(tmp_path: Path) -> None:
    file = tmp_path / "book.graph"
    settings = '[book]\nside = "white"\nmax_ply = 4\n[[root]]\nmoves = "1. a3 h6"\n[leaf]\nevaluations = 20\n'
    build(file, parse_config(settings, tmp_path, "w.toml"), settings=BuildSettings(evaluations=60))
    found = _way(file, "a3 h6 e4")
    assert found is not None
    assert (found.start, found.line) == (after_line("a3 h6").fen(), ("e4",))


def test_no_line_leads_around_a_circle_back_to_a_root(tmp_path: Path) -> None:
    named, unnamed = after_line("e4 c5").fen(), "8/8/4k3/8/8/4K3/4P3/8 w - - 0 1"
    for root, there, back in ((named, "Nf3 Nf6", "Ng1 Ng8"), (unnamed, "Kd3 Kd6", "Ke3 Ke6")):
        moves = [*there.split(), *back.split()]
        lines = {" ".join(moves[:k]): {moves[k]: (9, 0.1)} for k in range(4)}
        file = graph_file(tmp_path / f"{moves[0]}.graph", lines, fen=root)
        found = routes(file, [root])[root]
        assert (found.start, found.line) == ((None, ("e4", "c5")) if root == named else (root, ()))


# ------------------------------------------------------------------ records read ahead
BOARDS = [after_line(line) for line in (*LINES, "h4 a5")]


@pytest.fixture
def file_of_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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
    source.read_ahead({key_text(board): board for board in BOARDS})
    return [source.read(board) for board in BOARDS]


def _read_singly(path: Path) -> list[NodeRecord | None]:
    with opened(path) as source:
        return [source.read(board) for board in BOARDS]


def test_nothing_is_read_ahead_from_a_state_after_that_of_the_query(
    file_of_source: Path, single: list[chess.Board]
) -> None:
    before = _read_singly(file_of_source)
    with opened(file_of_source) as source:
        with Store.open(file_of_source) as store:
            store.append(batch_of([node(board, v=0.5) for board in BOARDS]), fresh=1)
        single.clear()
        assert _read_ahead(source) == before
    assert single == BOARDS


def test_nothing_is_read_ahead_from_a_damaged_file(file_of_source: Path, single: list[chess.Board]) -> None:
    sql(file_of_source, "UPDATE block SET data = x'00'")
    with opened(file_of_source) as source:
        source.read_ahead({key_text(board): board for board in BOARDS})
        with pytest.raises(CorruptRecordError):
            source.read(BOARDS[0])
    assert single == BOARDS[:1]
