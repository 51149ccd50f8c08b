"""The table of transposition entries: what goes in comes out, and the most valuable stays."""

from __future__ import annotations

import chess
import numpy as np
import pytest
from numpy.typing import NDArray

from graphsearch.jit.types import uint64
from graphsearch.position.values import MATE
from graphsearch.store import transposition_kernel as kernel
from graphsearch.store.entries import LEAST_PLACES, Entry, EntryTable, check_of, decoded, encoded
from graphsearch.store.transposition_kernel import PROOF


@pytest.mark.parametrize(
    "entry",
    [
        Entry(31, 5, "exact", chess.Move.from_uci("e2e4"), "pv", 0),
        Entry(-131_000, 0, "upper", None, "all", 0),
        Entry(MATE - 3, PROOF, "lower", chess.Move.from_uci("a7a8n"), "cut", 7),
        Entry(3 - MATE, 126, "", chess.Move.from_uci("e1g1"), "", 1),
    ],
)
def test_an_entry_survives_packing(entry: Entry) -> None:
    board = chess.Board()
    assert decoded(encoded(entry, board)) == entry
    table = EntryTable(0)
    table.put(board, entry)
    assert table.get(board) == entry
    assert table.get(chess.Board(chess.STARTING_FEN.replace("w", "b"))) is None
    assert table.count == table.dirty_count == 1


def test_what_is_not_saved_is_listed_once_and_again_when_saving_fails() -> None:
    table = EntryTable(0)
    board = chess.Board()
    for move in list(board.legal_moves):
        board.push(move)
        table.put(board, Entry(7, 1, "exact", None, "", 0))
        board.pop()
    keys, data = table.take_dirty()
    assert len(set(keys.tolist())) == 20
    assert table.dirty_count == 0
    assert len(table.take_dirty()[0]) == 0
    table.touch_again(keys, data)
    assert sorted(table.take_dirty()[0].tolist()) == sorted(keys.tolist())
    other = EntryTable(0)
    other.enter(keys, data)
    assert (other.count, other.dirty_count) == (20, 0)


def test_a_full_table_keeps_this_search_and_the_deepest() -> None:
    table, board = EntryTable(0), chess.Board()
    rng = np.random.default_rng(1)

    def fill(depth: int, count: int) -> NDArray[np.int64]:
        """Writes entries of a depth under random keys; returns the keys."""
        data = uint64(encoded(Entry(0, depth, "exact", None, "", 0), board))
        keys = rng.integers(1, 1 << 62, count)
        for key in keys:
            kernel.write(table.arrays, uint64(key), data)
        return keys

    fill(9, 8 * LEAST_PLACES)
    assert LEAST_PLACES * 0.95 < table.count <= LEAST_PLACES
    table.next_search()
    deep_keys = fill(5, LEAST_PLACES // 8)
    fill(1, 4 * LEAST_PLACES)
    check = uint64(check_of(board) & 0xFFFF)
    kept = sum(bool(kernel.look_up(table.arrays, uint64(key), check)) for key in deep_keys)
    assert kept > len(deep_keys) * 0.95
    assert table.count <= len(table.arrays.keys)


def test_two_positions_of_one_key_are_told_apart() -> None:
    table = EntryTable(0)
    entry = Entry(0, 1, "exact", None, "", 0)
    kernel.write(table.arrays, uint64(5), uint64(encoded(entry, chess.Board())))
    other = uint64((check_of(chess.Board()) ^ 1) & 0xFFFF)
    assert int(kernel.look_up(table.arrays, uint64(5), other)) == 0
