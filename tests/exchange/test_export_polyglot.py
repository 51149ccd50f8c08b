"""Polyglot books: entries by the stated policies, and other programs read them."""

from __future__ import annotations

import errno
import gc
import os
import re
import struct
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import chess
import chess.polyglot
import numpy as np
import pytest

from graphsearch.base.errors import ExportError, InvalidParameterError
from graphsearch.exchange import polyglot
from graphsearch.exchange.exports import export
from graphsearch.exchange.polyglot import MAX_WEIGHT, fitted, weight_of_loss
from graphsearch.exchange.selection import Selection
from graphsearch.position.board import key_of
from graphsearch.position.values import cp_of

from ..store.records import filled
from .exported import (
    CASTLES,
    CHESS960,
    ENDGAME,
    LINES,
    PROMOTES,
    add_book,
    edges,
    known_below,
    made_record,
    run_polyglot,
    searched,
)

Book = dict[int, list[tuple[str, int]]]  # key -> moves in UCI and their weights, in order


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return searched(tmp_path_factory.mktemp("graph") / "lines.graph", chess.STARTING_FEN, *LINES, visits=60)


def read_book(path: Path, boards: list[chess.Board]) -> Book:
    """Returns what python-chess finds for these positions."""
    with chess.polyglot.open_reader(path) as reader:
        return {
            key_of(board): [(entry.move.uci(), entry.weight) for entry in reader.find_all(board)]
            for board in boards
        }


def entries(path: Path) -> list[tuple[int, int, int, int]]:
    return list(struct.iter_unpack(">QHHI", path.read_bytes()))


def scaled(weights: Sequence[float], *, fill: bool) -> list[int]:
    largest = np.full(len(weights), max(weights, default=0))
    return list(fitted(np.array(weights), largest, fill=fill).tolist())


def expected(numbers: dict[int, dict[chess.Move, float]], *, fill: bool) -> Book:
    """Returns the book of these weights, scaled as documented."""
    return {
        key: [(move.uci(), w) for move, w in zip(of, scaled(list(of.values()), fill=fill), strict=True) if w]
        for key, of in numbers.items()
    }


def same_book(found: Book, wanted: Book) -> bool:
    """Returns whether two books have the same moves with the same weights, the heaviest first in both."""
    for rows in found.values():
        assert [w for _, w in rows] == sorted((w for _, w in rows), reverse=True)
    return {key: sorted(rows) for key, rows in found.items()} == {k: sorted(r) for k, r in wanted.items()}


def loss_weight(best: float, value: float) -> float:
    """Returns the weight of a value in [-1, 1] beside the best one of its position."""
    return weight_of_loss(max(0, cp_of(best) - cp_of(value)))


@pytest.mark.parametrize("fen", [chess.STARTING_FEN, CASTLES, CHESS960, PROMOTES, ENDGAME])
def test_python_chess_finds_the_visited_moves_of_every_position(tmp_path: Path, fen: str) -> None:
    path = searched(tmp_path / "some.graph", fen, visits=80)
    out = tmp_path / "book.bin"
    report = export("polyglot", path, out)
    known = known_below(path, fen)
    visits: dict[int, dict[chess.Move, float]]
    visits = {key: {move: edge.n for move, edge in edges(*pair)} for key, pair in known.items()}
    wanted = expected(visits, fill=False)
    assert same_book(read_book(out, [board for board, _ in known.values()]), wanted)
    assert report.moves == len(entries(out)) == sum(len(rows) for rows in wanted.values())
    keys = [entry[0] for entry in entries(out)]
    assert keys == sorted(keys)
    assert report.positions == len(set(keys))


def test_a_move_weighs_half_for_every_25_centipawns_that_it_loses(graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "book.bin"
    export("polyglot", graph, out, weights="q")
    known = known_below(graph)
    numbers: dict[int, dict[chess.Move, float]] = {}
    for key, pair in known.items():
        values = {move: edge.value for move, edge in edges(*pair)}
        best = max(values.values(), default=0.0)
        numbers[key] = {move: loss_weight(best, value) for move, value in values.items()}
    assert same_book(read_book(out, [board for board, _ in known.values()]), expected(numbers, fill=True))


def test_weights_are_scaled_by_position_and_the_best_is_never_0(tmp_path: Path) -> None:
    board = chess.Board()
    visits = {"e4": (4_000_000_000, 0.1), "d4": (65_536, 0.0), "c4": (1, -0.5)}
    path = filled(tmp_path / "big.graph", [made_record(board, visits)])
    report = export("polyglot", path, tmp_path / "book.bin", Selection(depth=1))
    assert read_book(tmp_path / "book.bin", [board])[key_of(board)] == [("e2e4", MAX_WEIGHT), ("d2d4", 1)]
    assert (report.scaled, report.left_out["moves_scaled_away"]) == (3, 1)
    assert report.as_dict()["left_out"] == {"moves_scaled_away": 1, "at_depth": 3}


def test_of_two_positions_with_one_polyglot_key_the_more_visited_one_is_written(tmp_path: Path) -> None:
    fens = [f"8/8/4k3/8/8/4K3/4P3/R6r w - - {clock} 60" for clock in (80, 90)]
    first, second = (chess.Board(fen) for fen in fens)
    records = [made_record(first, {"Ra6+": (5, 0.0)}), made_record(second, {"Rxh1": (7, 0.9)})]
    path = filled(tmp_path / "clock.graph", records)
    report = export("polyglot", path, tmp_path / "book.bin", Selection(roots=(first, second)))
    assert report.left_out["clashes"] == 1
    assert [
        (m.move.uci(), m.weight) for m in chess.polyglot.open_reader(tmp_path / "book.bin").find_all(first)
    ] == [("a1h1", 7)]


def test_a_book_gives_its_moves_with_its_own_values(tmp_path: Path) -> None:
    visits = {"e4": (90, 0.1), "d4": (5, 0.3), "a3": (50, 0.0)}
    path = filled(tmp_path / "book.graph", [made_record(chess.Board(), visits)])
    add_book(path, "mine", "white", [chess.STARTING_FEN], {"e4": 0.2, "d4": -0.2, "e4 e5": 0.3})
    board, out = chess.Board(), tmp_path / "book.bin"
    export("polyglot", path, out, Selection(book="mine"), weights="n")
    assert read_book(out, [board])[key_of(board)] == [("e2e4", 90), ("d2d4", 5)]
    report = export("polyglot", path, out, Selection(book="mine"), weights="q")
    weights = scaled([1.0, loss_weight(0.2, -0.2)], fill=True)
    assert read_book(out, [board])[key_of(board)] == [("d2d4", 65535), ("e2e4", weights[1])]
    assert report.left_out["other_side"] == 1  # e4 e5
    with pytest.raises(InvalidParameterError, match="has no book 'yours'; it has 'mine'"):
        export("polyglot", path, out, Selection(book="yours"))


def test_the_polyglot_tool_lists_the_lines_of_the_book(graph: Path, tmp_path: Path) -> None:
    export("polyglot", graph, tmp_path / "book.bin")
    for colour, turn in (("white", chess.WHITE), ("black", chess.BLACK)):
        run_polyglot(tmp_path, "dump-book", "-bin", "book.bin", "-color", colour, "-out", "lines.txt")
        seen: dict[int, dict[str, int]] = defaultdict(dict)
        boards: dict[int, chess.Board] = {}
        for line in (tmp_path / "lines.txt").read_text().splitlines():
            board = chess.Board()
            text = re.sub(r"\{(?:trans|cycle)[^}]*\}", "", line.partition(":")[2])
            for san, percent in re.findall(r"([a-hKQRBNO][\w+#=-]+)(?:\{(\d+)%\})?", text):
                move = board.parse_san(san)
                if percent:
                    assert board.turn == turn
                    seen[key_of(board)][move.uci()] = int(percent)
                    boards[key_of(board)] = board.copy(stack=False)
                board.push(move)
        assert len(seen) > 20
        for key, rows in read_book(tmp_path / "book.bin", list(boards.values())).items():
            total = sum(weight for _, weight in rows)
            assert set(seen[key]) == {move for move, _ in rows}
            assert all(abs(seen[key][move] - 100 * weight / total) <= 1 for move, weight in rows)


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_disk_that_fills_up_is_one_error_that_names_the_book(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(polyglot, "entries_of", full)
    with pytest.raises(ExportError, match=r"full\.bin cannot be written: No space left on device"):
        export("polyglot", graph, tmp_path / "full.bin")
    gc.collect()
    assert not list(tmp_path.iterdir())
