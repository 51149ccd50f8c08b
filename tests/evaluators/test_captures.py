"""The quiescence search lists legal captures; the short exchange has the sign of the long one."""

from __future__ import annotations

from typing import Any

import chess
import numpy as np
import pytest
from numpy.typing import NDArray

from graphsearch.evaluators.quiescence_kernel import (
    DOUBTFUL,
    capture_gain,
    capture_loses,
    exchange,
    has_legal_move,
    list_captures,
    order_key,
    pinned_of,
)
from graphsearch.jit.compiler import kernel
from graphsearch.jit.pointers import ONE, ctz, ptr
from graphsearch.jit.types import int64
from graphsearch.position.board import pack, unpack
from graphsearch.position.board_kernel import PW, generate_moves, in_check
from graphsearch.position.tables import load_tables
from tests.support.exchange import exchanged
from tests.support.positions import random_words

FLOORS = np.array([-9000, 0, 999, 1000, 3200, 3300, 5000, 8499, 8500, 9500, 17999, 30000])


@kernel
def words_by_filter(s: Any, moves: Any, n: Any, floor: Any, out: Any) -> Any:
    """Writes the words of the legal moves that gain more than a floor; returns how many."""
    found = 0
    for i in range(n):
        gain = capture_gain(s, moves[i])
        if gain > 0 and gain > floor:
            out[found] = order_key(s, moves[i], gain)
            found += 1
    return found


@kernel
def compare(T: Any, words: Any, floors: Any, moves: Any, listed: Any, filtered: Any, seen: Any) -> Any:
    """Returns the first position whose lists differ, -1 if there is none; counts in `seen`."""
    t = ptr(T, 0)
    for b in range(words.shape[0] // PW):
        s = ptr(words, b * PW)
        if in_check(t, s):
            continue
        stm = int64(s[8] & ONE)
        king = ctz(s[5] & s[6 + stm])
        pinned = pinned_of(t, s, king, stm)
        n = generate_moves(t, s, ptr(moves, 0))
        if has_legal_move(t, s, ptr(moves, 256), pinned, stm) != (n > 0):
            return b
        for floor in floors:
            count = list_captures(t, s, ptr(listed, 0), floor, pinned, king, stm)
            wanted = words_by_filter(s, moves, n, floor, filtered)
            if count != wanted:
                return b
            for i in range(count):  # to sort them would take seconds to compile
                equal = 0
                for j in range(count):
                    equal += listed[j] & ~DOUBTFUL == filtered[i]
                if equal != 1:
                    return b
            seen[0] += count
    return -1


@kernel
def compare_exchanges(T: Any, words: Any, moves: Any, gains: Any, seen: Any) -> Any:
    """Returns the first position where a capture's loss is misjudged, -1 if there is none."""
    t = ptr(T, 0)
    for b in range(words.shape[0] // PW):
        s = ptr(words, b * PW)
        n = generate_moves(t, s, ptr(moves, 0))
        for i in range(n):
            target = (int64(moves[i]) >> 6) & 63
            if moves[i] >> 12 or not ((s[6] | s[7]) >> np.uint64(target)) & ONE:
                continue
            loses = exchange(t, s, moves[i], ptr(gains, 0)) < 0
            if loses != capture_loses(t, s, moves[i]):
                return b
            seen[0] += 1
            seen[1] += loses
    return -1


EXTRA = (
    "8/4P1k1/8/8/8/8/1p4K1/8 w - - 0 1",
    "1r1r4/2P5/8/5Pk1/8/8/6K1/8 w - - 0 1",  # captures that promote
    "8/8/8/8/k2Pp2Q/8/8/3K4 b - d3 0 1",  # en passant would expose the king
    "4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 2",
    "7k/8/6QK/8/8/8/8/8 b - - 0 1",
    "k7/2Q5/1K6/8/8/8/8/8 b - - 0 1",  # stalemate
    "8/8/8/8/8/5bk1/7p/7K w - - 0 1",
)


@pytest.fixture(scope="module")
def words() -> NDArray[np.uint64]:
    extra = [np.array(pack(chess.Board(fen)), np.uint64) for fen in EXTRA]
    return np.concatenate([*extra, *random_words()])


def test_listed_captures_are_the_legal_ones_that_gain_more_than_the_floor(words: NDArray[np.uint64]) -> None:
    moves, seen = np.zeros(512, np.uint16), np.zeros(1, np.int64)
    listed, filtered = np.zeros(256, np.uint64), np.zeros(256, np.uint64)
    assert compare(load_tables(), words, FLOORS, moves, listed, filtered, seen) == -1
    assert seen[0] > 5000


EQUAL_MEN = "3r4/p2k4/1R6/7p/8/4r3/P4K1P/R5rR w - - 0 97"  # on e1 it decides which rook takes first


def test_an_exchange_and_its_mirror_image_win_the_same(words: NDArray[np.uint64]) -> None:
    boards = [chess.Board(EQUAL_MEN), *(unpack(words[k : k + PW].tolist()) for k in range(0, 1000, PW))]
    for board in boards:
        there = board.mirror()
        for move in board.legal_moves:
            mirrored = chess.Move(move.from_square ^ 56, move.to_square ^ 56, move.promotion)
            assert exchanged(board, move) == exchanged(there, mirrored), (board.fen(), move.uci())


def test_a_capture_loses_where_its_exchange_is_below_zero(words: NDArray[np.uint64]) -> None:
    moves, gains, seen = np.zeros(256, np.uint16), np.zeros(32, np.uint64), np.zeros(2, np.int64)
    assert compare_exchanges(load_tables(), words, moves, gains, seen) == -1
    assert seen[0] > 3000
    assert 500 < seen[1] < seen[0] - 500


@pytest.mark.parametrize(
    ("fen", "uci", "gain"),
    [
        ("4k3/8/2p5/3p4/8/8/3Q4/4K3 w - - 0 1", "d2d5", 1000 - 9500),
        ("4k3/8/8/3p4/8/8/3Q4/4K3 w - - 0 1", "d2d5", 1000),
        ("3rk3/3r4/8/3p4/8/3R4/3R4/4K3 w - - 0 1", "d3d5", 1000 - 5000),  # x-rays on both sides
        ("3rk3/8/8/3p4/8/3R4/3R4/4K3 w - - 0 1", "d3d5", 1000),
        ("4k3/8/8/8/8/8/8/4KQ2 w - - 0 1", "f1f5", 0),
        ("4k3/8/4p3/8/8/8/8/4KQ2 w - - 0 1", "f1f5", -9500),
        ("1r2k3/2P5/8/8/8/8/8/4K3 w - - 0 1", "c7b8q", 5000 + 8500),
        ("4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 2", "e5d6", 1000),  # en passant
    ],
)
def test_static_exchange(fen: str, uci: str, gain: int) -> None:
    assert exchanged(chess.Board(fen), chess.Move.from_uci(uci)) == gain
