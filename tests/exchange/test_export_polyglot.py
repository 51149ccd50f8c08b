"""Polyglot books: entries by the stated policies, and other programs read them."""

from __future__ import annotations

import errno
import gc
import os
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import chess
import chess.polyglot
import numpy as np
import pytest

from graphsearch.base.errors import ExportError, InvalidParameterError
from graphsearch.exchange import polyglot_export
from graphsearch.exchange.polyglot import ENTRY, MAX_WEIGHT, fitted
from graphsearch.exchange.polyglot_export import export_polyglot, weight_of_loss
from graphsearch.exchange.selection import Selection
from graphsearch.position.board import key_of, key_text
from graphsearch.position.values import cp_of
from graphsearch.store.record.node import node_value
from graphsearch.store.store import Store

from ..conftest import shared_data
from ..store.records import filled
from ..support.positions import after_line
from .exported import (
    CASTLES,
    CHESS960,
    ENDGAME,
    LINES,
    PROMOTES,
    Known,
    add_book,
    add_games,
    after,
    edges,
    execute,
    known_below,
    made_record,
    part_of_book,
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
    return list(ENTRY.iter_unpack(path.read_bytes()))


def boards_of(known: Known) -> list[chess.Board]:
    return [board for board, _ in known.values()]


def scaled(weights: Sequence[float], *, fill: bool) -> list[int]:
    return list(fitted(np.array(weights), np.full(len(weights), max(weights)), fill=fill).tolist())


def expected(known: Known, numbers: dict[int, dict[chess.Move, float]], *, fill: bool) -> Book:
    """Returns the book of these weights, scaled as documented."""
    book: Book = {}
    for key, (board, _) in known.items():
        weights = numbers.get(key, {})
        made = scaled(list(weights.values()), fill=fill) if weights else []
        rows = [(move.uci(), w) for move, w in zip(weights, made, strict=True) if w]
        book[key_of(board)] = sorted(rows, key=lambda row: -row[1])
    return book


def same_book(found: Book, wanted: Book) -> bool:
    """Returns whether two books have the same moves with the same weights, the heaviest first in both."""
    for rows in found.values():
        assert [w for _, w in rows] == sorted((w for _, w in rows), reverse=True)
    return {key: sorted(rows) for key, rows in found.items()} == {k: sorted(r) for k, r in wanted.items()}


def loss_weight(best: float, value: float) -> float:
    """Returns the weight of a value in [-1, 1] beside the best one of its position."""
    return weight_of_loss(max(0, cp_of(best) - cp_of(value)))


def visits_of(known: Known) -> dict[int, dict[chess.Move, float]]:
    return {key: {move: edge.n for move, edge in edges(*pair)} for key, pair in known.items()}


@pytest.mark.parametrize("fen", [chess.STARTING_FEN, CASTLES, CHESS960, PROMOTES, ENDGAME])
def test_python_chess_finds_the_visited_moves_of_every_position(tmp_path: Path, fen: str) -> None:
    path = searched(tmp_path / "some.graph", fen, visits=80)
    out = tmp_path / "book.bin"
    report = export_polyglot(path, out)
    known = known_below(path, fen)
    wanted = expected(known, visits_of(known), fill=False)
    assert same_book(read_book(out, boards_of(known)), wanted)
    assert report.moves == len(entries(out)) == sum(len(rows) for rows in wanted.values())
    keys = [entry[0] for entry in entries(out)]
    assert keys == sorted(keys)
    assert report.positions == len(set(keys))


def test_a_move_weighs_half_for_every_25_centipawns_that_it_loses(graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "book.bin"
    export_polyglot(graph, out, weights="q")
    known = known_below(graph)
    numbers: dict[int, dict[chess.Move, float]] = {}
    for key, pair in known.items():
        values = {move: edge.value for move, edge in edges(*pair)}
        best = max(values.values(), default=0.0)
        numbers[key] = {move: loss_weight(best, value) for move, value in values.items()}
    assert same_book(read_book(out, boards_of(known)), expected(known, numbers, fill=True))


@pytest.mark.parametrize("fen", [chess.STARTING_FEN, ENDGAME])
def test_minimax_is_that_of_the_stored_values_and_cuts_cycles(tmp_path: Path, fen: str) -> None:
    path = searched(tmp_path / "some.graph", fen, *(LINES if fen == chess.STARTING_FEN else ()), visits=60)
    out = tmp_path / "book.bin"
    export_polyglot(path, out, Selection(roots=(chess.Board(fen),)), weights="minimax")
    known = known_below(path, fen)
    depth = depths(known, fen)
    values: dict[int, float] = {}

    def value(key: int) -> float:
        board, record = known[key]
        if key not in values:
            steps = [step(key, move, edge.value) for move, edge in edges(board, record)]
            values[key] = max(steps, default=node_value(record.v, record.edges, record.bounds))
        return values[key]

    def step(key: int, move: chess.Move, stored: float) -> float:
        child = key_of(after(known[key][0], move))
        return -value(child) if child in known and depth[child] > depth[key] else stored

    numbers = {}
    for key, pair in known.items():
        steps = {move: step(key, move, edge.value) for move, edge in edges(*pair)}
        numbers[key] = {m: loss_weight(max(steps.values()), v) for m, v in steps.items()}
    assert same_book(read_book(out, boards_of(known)), expected(known, numbers, fill=True))


def depths(known: Known, fen: str) -> dict[int, int]:
    """Returns the plies of the shortest way to every position."""
    found: dict[int, int] = {}
    layer = [key_of(chess.Board(fen))]
    depth = 0
    while layer:
        new = [key for key in dict.fromkeys(layer) if key in known and key not in found]
        found |= dict.fromkeys(new, depth)
        layer = [key_of(after(known[k][0], m)) for k in new for m, e in edges(*known[k]) if e.n > e.r]
        depth += 1
    return found


# ------------------------------------------------------------------ weights in 16 bits


def test_weights_are_scaled_by_position_and_the_best_is_never_0(tmp_path: Path) -> None:
    board = chess.Board()
    visits = {"e4": (4_000_000_000, 0.1), "d4": (65_536, 0.0), "c4": (1, -0.5)}
    path = filled(tmp_path / "big.graph", [made_record(board, visits)])
    report = export_polyglot(path, tmp_path / "book.bin", Selection(depth=1))
    assert read_book(tmp_path / "book.bin", [board])[key_of(board)] == [("e2e4", MAX_WEIGHT), ("d2d4", 1)]
    assert (report.scaled, report.left_out["moves_scaled_away"]) == (3, 1)
    assert report.as_dict()["left_out"] == {"moves_scaled_away": 1, "at_depth": 3}


def test_of_two_positions_with_one_polyglot_key_the_more_visited_one_is_written(tmp_path: Path) -> None:
    fens = [f"8/8/4k3/8/8/4K3/4P3/R6r w - - {clock} 60" for clock in (80, 90)]
    first, second = (chess.Board(fen) for fen in fens)
    records = [made_record(first, {"Ra6+": (5, 0.0)}), made_record(second, {"Rxh1": (7, 0.9)})]
    path = filled(tmp_path / "clock.graph", records)
    report = export_polyglot(path, tmp_path / "book.bin", Selection(roots=(first, second)))
    assert report.left_out["clashes"] == 1
    assert [
        (m.move.uci(), m.weight) for m in chess.polyglot.open_reader(tmp_path / "book.bin").find_all(first)
    ] == [("a1h1", 7)]


# ------------------------------------------------------------------ games and entries


def test_imported_games_weigh_two_for_a_win_and_one_for_a_draw_of_the_side_that_plays(tmp_path: Path) -> None:
    path = filled(tmp_path / "games.graph", [made_record(chess.Board(), {"a3": (9, 0.0)})])
    add_games(path, {"e4 e5": (3, 1, 0), "e4 c5 Nf3": (0, 2, 4), "d4": (0, 0, 2)})
    out = tmp_path / "book.bin"
    report = export_polyglot(path, out, weights="games")
    board = chess.Board()
    replies, third = after_line("e4"), after_line("e4 c5")
    assert read_book(out, [board, replies, third]) == {
        key_of(board): [("e2e4", 2 * 3 + 3)],
        key_of(replies): [("c7c5", 2 * 4 + 2), ("e7e5", 1)],
        key_of(third): [("g1f3", 2)],
    }
    assert report.left_out["moves_scored_nothing"] == 1  # d4
    few = export_polyglot(path, out, Selection(min_visits=5), weights="games")
    assert (few.moves, few.left_out["moves_few_visits"]) == (3, 2)


def test_games_are_followed_from_where_they_begin_whatever_was_searched(tmp_path: Path) -> None:
    deep = after_line("d4 d5")
    path = filled(tmp_path / "games.graph", [made_record(deep, {"c4": (9, 0.0)})])
    with Store.open(path) as store, store.transaction():
        store.connection.execute(
            "INSERT INTO root VALUES (?, ?, 9, '2026-01-01T00:00:00Z')", (key_text(deep), deep.fen())
        )
    add_games(path, {"e4 e5 Nf3": (0, 1, 0), "d4 d5 c4": (0, 1, 0)})
    report = export_polyglot(path, tmp_path / "book.bin", weights="games")
    assert (report.positions, report.moves) == (5, 6)
    assert report.left_out_lines() == []  # where the games end, nothing is missing


def test_games_without_a_result_weigh_one_point_and_leave_no_position_out(tmp_path: Path) -> None:
    path = filled(tmp_path / "games.graph", [made_record(chess.Board(), {"a3": (9, 0.0)})])
    add_games(path, {"e4 e5 Nf3": (0, 0, 0, 7), "e4 c5": (0, 0, 0, 2), "d4 d5": (1, 0, 0, 2)})
    board = chess.Board()
    e4, d4, e5 = (after_line(line) for line in ("e4", "d4", "e4 e5"))
    export_polyglot(path, tmp_path / "book.bin", weights="games")
    assert read_book(tmp_path / "book.bin", [board, e4, d4, e5]) == {
        key_of(board): [("e2e4", 9), ("d2d4", 4)],
        key_of(e4): [("e7e5", 7), ("c7c5", 2)],
        key_of(d4): [("d7d5", 2)],
        key_of(e5): [("g1f3", 7)],
    }


def test_a_performance_book_comes_out_as_it_went_in(tmp_path: Path) -> None:
    book = tmp_path / "book.bin"
    book.write_bytes(part_of_book(shared_data("data/performance.bin")))
    path = filled(tmp_path / "book.graph", [made_record(chess.Board(), {"e4": (1, 0.0)})])
    rows = [(f"{e[0]:016x}", uci(e[1]), 1, k, *e[1:]) for k, e in enumerate(entries(book))]
    add_entries(path, rows)
    out = tmp_path / "again.bin"
    report = export_polyglot(path, out, weights="imported")
    assert out.read_bytes() == book.read_bytes()
    assert (report.moves, report.scaled, report.merged, report.as_dict()["left_out"]) == (len(rows), 0, 0, {})
    with chess.polyglot.open_reader(book) as reader:  # a part of it, by a walk over its own moves
        part = export_polyglot(path, out, Selection(roots=(chess.Board(),), depth=3), weights="imported")
        found = read_book(out, [chess.Board()])[key_of(chess.Board())]
        assert sorted(found) == sorted((e.move.uci(), e.weight) for e in reader.find_all(chess.Board()))
    assert 10 < part.moves < len(rows) / 10


def add_entries(path: Path, rows: Sequence[Sequence[object]]) -> None:
    columns = "key, move, source, place, raw_move, weight, learn"
    execute(path, f"INSERT INTO polyglot_entry ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def uci(raw: int) -> str:
    """Returns a raw move as it is written."""
    names = chess.SQUARE_NAMES
    return names[raw >> 6 & 63] + names[raw & 63] + ["", "n", "b", "r", "q"][raw >> 12]


def test_entries_of_two_books_for_one_move_become_one(tmp_path: Path) -> None:
    path = filled(tmp_path / "book.graph", [made_record(chess.Board(), {"e4": (1, 0.0)})])
    key = f"{key_of(chess.Board()):016x}"
    e4, d4 = 12 << 6 | 28, 11 << 6 | 27
    rows = [
        (key, "e2e4", 1, 0, e4, 60_000, 5),
        (key, "e2e4", 2, 0, e4, 30_000, 7),
        (key, "d2d4", 2, 1, d4, 10, 0),
    ]
    add_entries(path, rows)
    report = export_polyglot(path, tmp_path / "book.bin", weights="imported")
    assert entries(tmp_path / "book.bin") == [(int(key, 16), e4, 65535, 5), (int(key, 16), d4, 7, 0)]
    assert (report.merged, report.scaled) == (1, 2)
    white = export_polyglot(path, tmp_path / "book.bin", Selection(side="white", depth=1), weights="imported")
    assert white.moves == 2  # of the start position, which the walk knows
    with pytest.raises(ExportError, match="entries of unknown positions"):
        export_polyglot(path, tmp_path / "book.bin", Selection(side="white"), weights="imported")


def test_a_book_gives_its_moves_with_its_own_values(tmp_path: Path) -> None:
    visits = {"e4": (90, 0.1), "d4": (5, 0.3), "a3": (50, 0.0)}
    path = filled(tmp_path / "book.graph", [made_record(chess.Board(), visits)])
    add_book(path, "mine", "white", [chess.STARTING_FEN], {"e4": 0.2, "d4": -0.2, "e4 e5": 0.3})
    board, out = chess.Board(), tmp_path / "book.bin"
    export_polyglot(path, out, Selection(book="mine"), weights="n")
    assert read_book(out, [board])[key_of(board)] == [("e2e4", 90), ("d2d4", 5)]
    report = export_polyglot(path, out, Selection(book="mine"), weights="minimax")
    weights = scaled([1.0, loss_weight(0.2, -0.2)], fill=True)
    assert read_book(out, [board])[key_of(board)] == [("d2d4", 65535), ("e2e4", weights[1])]
    assert report.left_out["other_side"] == 1  # e4 e5
    with pytest.raises(InvalidParameterError, match="has no book 'yours'; it has 'mine'"):
        export_polyglot(path, out, Selection(book="yours"))


# ------------------------------------------------------------------ Debian's tool


def test_the_polyglot_tool_lists_the_lines_of_the_book(graph: Path, tmp_path: Path) -> None:
    export_polyglot(graph, tmp_path / "book.bin")
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

    monkeypatch.setattr(polyglot_export.GraphBook, "write", full)
    with pytest.raises(ExportError, match=r"full\.bin cannot be written: No space left on device"):
        export_polyglot(graph, tmp_path / "full.bin")
    gc.collect()
    assert not list(tmp_path.iterdir())
