"""Exports write, byte for byte, what they always wrote; their columns are what single records say."""

from __future__ import annotations

import json
import random
from pathlib import Path

import chess
import numpy as np
import pytest

from graphsearch.exchange import polyglot_export, walk
from graphsearch.exchange.output import ExportReport
from graphsearch.exchange.selection import Selection, plan
from graphsearch.exchange.walk import Met, Rows, Walk
from graphsearch.position.board import encode_move, key_of, legal_moves, pack
from graphsearch.position.rules_kernel import MATE
from graphsearch.position.values import cp_of
from graphsearch.query.columns import cps_of
from graphsearch.query.steps import names_of, uci_names
from graphsearch.store.record.ranking import node_mean, ranking
from graphsearch.store.store import Store

from ..store.records import random_board
from .exported import CASTLES, ENDGAME, PROMOTES, after
from .golden_exports import FILES, PATH, digests, make_graph, result_of


@pytest.fixture(scope="module", params=FILES)
def graph(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    path = tmp_path_factory.mktemp("graph") / f"{request.param}.graph"
    return make_graph(path, request.param), request.param


def test_exports_write_the_bytes_that_they_always_wrote(graph: tuple[Path, str], tmp_path: Path) -> None:
    assert digests(*graph, tmp_path) == json.loads(PATH.read_text())[graph[1]]


def test_a_walk_ranks_and_values_moves_as_single_records_do(graph: tuple[Path, str], tmp_path: Path) -> None:
    with Store.open(graph[0], read_only=True) as store:
        chosen = plan(store, Selection())
        with Walk(store, chosen, tmp_path, ExportReport("", ""), leaves=True) as walk:
            for found, _ in walk.visits():
                worth, moves = found.worth, found.moves
                for i in range(len(found)):
                    record = found.batch.record(i)
                    begin = int(found.batch.edge_offsets[i])
                    clock = record.words[8] >> 12 & 255
                    visited = [
                        k for k in ranking(record, clock) if k < len(record.edges) and record.edges[k].n
                    ]
                    assert (moves.edge[moves.of == i] - begin).tolist() == visited
                    assert moves.index[moves.of == i].tolist() == [record.order[k] for k in visited]
                    assert (worth.q[i], worth.draw[i]) == node_mean(record)
                    assert (worth.lower[i], worth.upper[i]) == record.bounds
                    assert found.n[i] == record.visits


def test_names_of_moves_are_those_of_python_chess() -> None:
    rng = random.Random(7)
    boards = [random_board(rng, 150) for _ in range(30)] + [chess.Board(PROMOTES), chess.Board(CASTLES)]
    words = np.array([pack(board) for board in boards])
    legal = [(i, board, move) for i, board in enumerate(boards) for move in legal_moves(board)]
    codes = np.array([encode_move(move) for _, _, move in legal], np.uint16)
    sans, marks = names_of(words, np.array([i for i, _, _ in legal]), codes)
    assert sans.astype(str).tolist() == [board.san(move) for _, board, move in legal]
    mates = [after(board, move).is_checkmate() for _, board, move in legal]
    assert (marks & MATE > 0).tolist() == mates
    assert [uci_names()[code] for code in codes.tolist()] == [move.uci() for _, _, move in legal]


def test_centipawns_of_columns_are_those_of_single_values() -> None:
    rng = np.random.default_rng(3)
    q = np.concatenate([rng.uniform(-1, 1, 20_000), [0.0, 1.0, -1.0, 0.5, 0.996, 0.25, 1e-9]])
    assert cps_of(q).tolist() == [cp_of(value) for value in q.tolist()]


def test_positions_are_met_once_whatever_their_clock(tmp_path: Path) -> None:
    rng = random.Random(3)
    boards = [random_board(rng, 40) for _ in range(3000)]
    words = np.array([pack(board) for board in boards])
    known: dict[int, int] = {}
    numbers = [known.setdefault(key_of(board), len(known) + 1) for board in boards]
    with Met(tmp_path) as met:
        ids, new = met.meet(words)
        assert ids.tolist() == numbers
        assert numbers[new[-1]] == len(met) == len(known)
        assert met.meet(words[::-1], np.zeros(len(words), bool))[0].tolist() == numbers[::-1]
        other = np.array([pack(chess.Board(ENDGAME))])
        assert met.meet(other, np.zeros(1, bool))[0].tolist() == [0]
        assert len(met) == len(known)


@pytest.mark.parametrize("graph", ["lines"], indirect=True)
@pytest.mark.parametrize("form", ["jsonl", "epd", "pgn"])
def test_it_does_not_matter_how_many_records_are_read_together(
    form: str, graph: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = result_of(form, graph[0], tmp_path / "out", Selection())
    monkeypatch.setattr(walk, "BATCH", 7)
    assert result_of(form, graph[0], tmp_path / "out", Selection()) == whole
    assert whole[1]


@pytest.mark.parametrize("graph", ["lines"], indirect=True)
def test_a_book_is_the_same_in_parts(
    graph: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = result_of("polyglot minimax", graph[0], tmp_path / "out", Selection())
    monkeypatch.setattr(polyglot_export, "AT_ONCE", 7)
    assert result_of("polyglot minimax", graph[0], tmp_path / "out", Selection()) == whole


def test_columns_grow_and_keep_their_values(tmp_path: Path) -> None:
    with Rows(tmp_path, number=np.int64, small=np.uint8) as rows:
        for first in range(0, 20_000, 777):
            numbers = np.arange(first, first + 777)
            rows.add(number=numbers, small=(numbers % 251).astype(np.uint8))
            rows.release()
        assert rows["number"].tolist() == list(range(len(rows)))
        assert rows["small"].tolist() == [number % 251 for number in range(len(rows))]
        rows.extend_to(40_000)
        assert (len(rows), int(rows["number"][30_000:].sum())) == (40_000, 0)
    assert not list(tmp_path.iterdir())
