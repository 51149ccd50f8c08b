"""The order of runs, identity, and bloom filters."""

from __future__ import annotations

import random

import chess
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from graphsearch.position.board import Words, key_of, pack
from graphsearch.store.codec.bulk import newest_in_order
from graphsearch.store.codec.columns_kernel import add_to_bloom
from graphsearch.store.index.bloom import empty_bloom, may_hold_each
from graphsearch.store.order import identities, sort_keys
from graphsearch.store.segments import keys_of

from .records import random_board


def packed(*boards: chess.Board) -> Words:
    return np.array([pack(board) for board in boards], np.uint64)


def with_clock(clock: int) -> chess.Board:
    board = chess.Board()
    board.halfmove_clock = clock
    return board


def test_identity_forgets_a_clock_of_up_to_75_only() -> None:
    words = packed(*(with_clock(clock) for clock in (0, 75, 76, 77)))
    same = [tuple(row) for row in identities(words).tolist()]
    assert same[0] == same[1]
    assert len(set(same)) == 3
    assert words[1, 8] >> np.uint64(12) == 75, "the words themselves are left alone"


def test_keys_of_words_are_those_of_boards() -> None:
    rng = random.Random(4)
    boards = [random_board(rng) for _ in range(50)]
    assert keys_of(packed(*boards)).tolist() == [key_of(board) for board in boards]


def test_sort_key_ends_with_the_turn_and_begins_with_the_pawns() -> None:
    board = chess.Board()
    moved = chess.Board()
    moved.push_san("Nf3")
    pawn = chess.Board()
    pawn.push_san("e4")
    start, knight, e4 = sort_keys(packed(board, moved, pawn)).tolist()
    assert (start & 1, knight & 1) == (0, 1)
    assert start >> 40 == knight >> 40, "pawns and material are the same"
    assert start >> 48 != e4 >> 48


@settings(max_examples=25)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=40))
def test_the_first_of_each_position_is_kept_in_order(picks: list[int]) -> None:
    boards = [random_board(random.Random(seed)) for seed in range(8)]
    words = packed(*(boards[seed] for seed in picks))
    keys = sort_keys(words)
    # the same short keys for all: ties are settled by the whole position
    for its_keys in (keys, keys & np.uint64(1), np.zeros_like(keys)):
        kept = newest_in_order(words, its_keys)
        places = [(int(its_keys[i]), *identities(words[i : i + 1])[0].tolist()) for i in kept]
        assert places == sorted(set(places))
        assert len(places) == len({tuple(row) for row in identities(words).tolist()})
        assert all(picks.index(picks[i]) == i for i in kept.tolist())


@given(st.lists(st.integers(0, (1 << 64) - 1), min_size=1, max_size=300))
def test_a_bloom_filter_holds_what_was_added(keys: list[int]) -> None:
    bloom = empty_bloom(len(keys))
    add_to_bloom(np.array(keys, np.uint64), bloom)
    assert may_hold_each(bloom, np.array(keys, np.uint64)).all()
    others = np.random.default_rng(len(keys)).integers(0, 1 << 64, 200, np.uint64)
    assert may_hold_each(bloom, others).tolist() == [_holds(bloom, key) for key in others.tolist()]


def _holds(bloom: NDArray[np.uint8], key: int) -> bool:
    """Returns whether a filter may hold a key, in integers of any size, as `schema/segment.md` says."""
    x = key * 0x9E3779B97F4A7C15 % (1 << 64)
    step = (x >> 32 | x << 32) % (1 << 64) | 1
    places = [(x + k * step) % (1 << 64) * 8 * len(bloom) >> 64 for k in range(5)]
    return all(bloom[place >> 3] >> (place & 7) & 1 for place in places)
