"""Finding positions, and ways in, against plain loops over all records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import chess
import pytest

from graphsearch.position.board import key_of, key_of_text
from graphsearch.query.find import Filters, find, read_pieces
from graphsearch.query.parents import parents
from graphsearch.store.ranking import best_move, node_mean
from graphsearch.store.record import NodeRecord
from tests.conftest import ROOT

from ..graph.sweeps.test_refresh import Records, records_of
from ..store.records import filled, random_records
from ..support.graphs import ENDGAME, searched
from .handmade import ways_in

WON, NOT_LOST = 2 << 2 | 2 << 4, 1 << 2 | 2 << 4  # flags: lower and upper bound
GOLDEN = ROOT / "tests" / "golden"


@pytest.fixture(scope="module")
def any_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of random records: all kinds of positions, numbers and bounds."""
    records = [
        replace(record, flags=WON if k % 10 == 0 else NOT_LOST) if record.codes and k % 5 == 0 else record
        for k, record in enumerate(random_records(71, 300))
    ]
    return filled(tmp_path_factory.mktemp("random") / "random.graph", records, 3)


@pytest.fixture(scope="module")
def known(any_file: Path) -> Records:
    return records_of(any_file)


@pytest.fixture
def cyclic(tmp_path: Path) -> Path:
    """A file of a rook ending, in which many lines meet."""
    return searched(tmp_path / "cyclic.graph", ENDGAME, "", "Ra6+", visits=400)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of four searches."""
    return searched(tmp_path / "old.graph", chess.STARTING_FEN, "", "e4", "d4 d5", "Nf3 Nf6", visits=40)


Passes = Callable[[chess.Board, NodeRecord], bool]


def men(board: chess.Board, letter: str) -> int:
    piece = chess.Piece.from_symbol(letter)
    return len(board.pieces(piece.piece_type, piece.color))


CASES: list[tuple[Filters, Passes]] = [
    (Filters(), lambda b, r: True),
    (Filters(min_n=2), lambda b, r: r.visits >= 2),
    (Filters(min_n=2, max_n=5_000), lambda b, r: 2 <= r.visits <= 5_000),
    (Filters(min_q=-0.2, max_q=0.0), lambda b, r: -0.2 <= node_mean(r)[0] <= 0.0),
    (Filters(side="w"), lambda b, r: b.turn == chess.WHITE),
    (Filters(side="b", max_q=-0.5), lambda b, r: b.turn == chess.BLACK and node_mean(r)[0] <= -0.5),
    (Filters(bounds="proven"), lambda b, r: r.bounds[0] == r.bounds[1]),
    (Filters(bounds="draw"), lambda b, r: r.bounds == (0, 0)),
    (Filters(bounds="win"), lambda b, r: r.bounds == (1, 1)),
    (Filters(pieces=read_pieces("P<=6, q=1")), lambda b, r: men(b, "P") <= 6 and men(b, "q") == 1),
    (Filters(pieces=read_pieces("men>20,N!=2")), lambda b, r: len(b.piece_map()) > 20 and men(b, "N") != 2),
    (Filters(pieces=read_pieces("Kk")), lambda b, r: len(b.piece_map()) == 2),
]


def expected(records: Records, passes: Passes) -> set[int]:
    return {key for key, (board, record) in records.items() if passes(board, record)}


@pytest.mark.parametrize("case", range(len(CASES)))
def test_what_is_found_is_what_a_loop_over_records_finds(any_file: Path, known: Records, case: int) -> None:
    filters, passes = CASES[case]
    found = [key_of_text(row.key) for row in find(any_file, filters)]
    assert len(found) == len(set(found))
    assert set(found) == expected(known, passes)


def test_a_position_is_told_as_its_record_has_it(file: Path) -> None:
    records = records_of(file)
    for row in find(file, Filters(min_n=5)):
        board, record = records[key_of_text(row.key)]
        best = best_move(record, board)
        assert key_of(chess.Board(row.position)) == key_of(board)
        assert (row.worth.n, row.worth.q, row.worth.bounds) == (
            record.visits,
            node_mean(record)[0],
            record.bounds,
        )
        assert row.worth.best_san == (board.san(best) if best else None)


@pytest.mark.parametrize("filters", [Filters(), Filters(max_q=0.0)])
def test_a_limit_takes_the_most_visited_positions(any_file: Path, filters: Filters) -> None:
    everything = list(find(any_file, filters))
    by_visits = sorted(everything, key=lambda row: -row.worth.n)  # equal ones stay in the order of the file
    for limit in (1, 3, 250, len(everything) + 1):
        assert list(find(any_file, filters, limit=limit)) == by_visits[:limit]


def test_what_was_found_before_a_fault_is_yielded(file: Path) -> None:
    def stop(*_: int) -> None:
        raise KeyError

    rows = find(file, Filters(), limit=3, on_progress=stop)
    assert len([next(rows) for _ in range(3)]) == 3
    with pytest.raises(KeyError):
        next(rows)


# ------------------------------------------------------------------ ways in
def test_every_visited_edge_of_a_file_is_found_from_the_position_behind_it(cyclic: Path) -> None:
    records = records_of(cyclic)
    ways = ways_in(records.values())
    for key in sorted(ways.keys() & records.keys())[::23]:
        board = records[key][0]
        steps = [one.step for one in parents(cyclic, board).parents]
        found = {(key_of(step.board), step.move.uci()) for step in steps if step.edge.n}
        assert found == ways[key], board.fen()
