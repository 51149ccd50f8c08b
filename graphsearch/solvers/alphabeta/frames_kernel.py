"""The arrays of a fixed-depth search, and the bundles of pointers that its kernels take.

    T  the table of the board's kernels (`position/tables.py`)
    S  `Search`: pointers to `SearchArrays`, to the table and to the weights
    E  `EntryPointers`: the table of transposition entries (`store/record/transposition_kernel.py`)
    A  pointers to the arena of a graph (`graph/arena_kernel.py`)
    s  a position, `[10]` uint64; frame, state  the words of one ply (`frame_layout.py`), of quiescence

The search runs on an explicit stack, so it can stop between any two positions and resume later. Scores are
root-relative while it runs: MATE - p mates at ply p; entries and the leaf cache count from their node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...evaluators.builtin.evaluation_kernel import AREA_WORDS
from ...jit.compiler import inner
from ...jit.pointers import U, ptr
from ...jit.types import Pointer, int16, int64, uint16, uint64
from ...position.board_kernel import PW
from . import frame_layout as layout


class SearchArrays(NamedTuple):
    """The arrays of a search; `frame_layout.py` has the sizes.

    Attributes:
      positions: uint64[PLIES * PW]. keys: uint64[PLIES * 2], key and check hash of interior positions.
      frames: int64[PLIES * FRAME]. moves: uint16[PLIES * MOVE_ROOM], the tried ones first, in order of trial.
      scores: int64, likewise. lines: uint16[PLIES * PLIES], the best line from each ply.
      lengths: int64[PLIES], of the lines. counters: int64[COUNTERS].
      killers: int64[PLIES * 2]. history: int64[2 * FROM_TO], by side. replies: int64[2 * FROM_TO], the move
        that refuted a move. follow: int16[PIECE_TO * PIECE_TO], history by the move before.
      game: uint64, Polyglot keys of positions that stood twice before the root.
      cache: uint64[2 * C], C a power of two: the leaf cache.
      quiet_positions: uint64[QUIET_FRAMES * PW]. quiet_frames: int64[QUIET_FRAMES * FRAME].
      quiet_words: uint64[QUIET_FRAMES * MOVE_ROOM]. area: uint64, scratch of the static evaluation.
      gains: uint64[64], scratch of an exchange. scratch: uint16[MOVE_ROOM].
    """

    positions: NDArray[np.uint64]
    keys: NDArray[np.uint64]
    frames: NDArray[np.int64]
    moves: NDArray[np.uint16]
    scores: NDArray[np.int64]
    lines: NDArray[np.uint16]
    lengths: NDArray[np.int64]
    counters: NDArray[np.int64]
    killers: NDArray[np.int64]
    history: NDArray[np.int64]
    replies: NDArray[np.int64]
    follow: NDArray[np.int16]
    game: NDArray[np.uint64]
    cache: NDArray[np.uint64]
    quiet_positions: NDArray[np.uint64]
    quiet_frames: NDArray[np.int64]
    quiet_words: NDArray[np.uint64]
    area: NDArray[np.uint64]
    gains: NDArray[np.uint64]
    scratch: NDArray[np.uint16]


class Search(NamedTuple):
    """Pointers to the search arrays, the table `T` and the evaluator's weights, and two sizes.

    Attributes:
      game_size: int64, of `game`. cache_mask: uint64, mask of a slot's index in the cache.
    """

    table: Pointer[uint64]
    weights: Pointer[int64]
    positions: Pointer[uint64]
    keys: Pointer[uint64]
    frames: Pointer[int64]
    moves: Pointer[uint16]
    scores: Pointer[int64]
    lines: Pointer[uint16]
    lengths: Pointer[int64]
    counters: Pointer[int64]
    killers: Pointer[int64]
    history: Pointer[int64]
    replies: Pointer[int64]
    follow: Pointer[int16]
    game: Pointer[uint64]
    cache: Pointer[uint64]
    quiet_positions: Pointer[uint64]
    quiet_frames: Pointer[int64]
    quiet_words: Pointer[uint64]
    area: Pointer[uint64]
    gains: Pointer[uint64]
    scratch: Pointer[uint16]
    game_size: int64
    cache_mask: uint64


def new_search_arrays(cache_places: int) -> SearchArrays:
    """Returns empty arrays with room for `cache_places` leaves, a power of two."""
    return SearchArrays(
        positions=np.zeros(layout.PLIES * PW, np.uint64),
        keys=np.zeros(layout.PLIES * 2, np.uint64),
        frames=np.zeros(layout.PLIES * layout.FRAME, np.int64),
        moves=np.zeros(layout.PLIES * layout.MOVE_ROOM, np.uint16),
        scores=np.zeros(layout.PLIES * layout.MOVE_ROOM, np.int64),
        lines=np.zeros(layout.PLIES * layout.PLIES, np.uint16),
        lengths=np.zeros(layout.PLIES, np.int64),
        counters=np.zeros(layout.COUNTERS, np.int64),
        killers=np.zeros(layout.PLIES * 2, np.int64),
        history=np.zeros(2 * layout.FROM_TO, np.int64),
        replies=np.zeros(2 * layout.FROM_TO, np.int64),
        follow=np.zeros(layout.PIECE_TO * layout.PIECE_TO, np.int16),
        game=np.zeros(0, np.uint64),
        cache=np.zeros(2 * cache_places, np.uint64),
        quiet_positions=np.zeros(layout.QUIET_FRAMES * PW, np.uint64),
        quiet_frames=np.zeros(layout.QUIET_FRAMES * layout.FRAME, np.int64),
        quiet_words=np.zeros(layout.QUIET_FRAMES * layout.MOVE_ROOM, np.uint64),
        area=np.zeros(AREA_WORDS, np.uint64),
        gains=np.zeros(64, np.uint64),
        scratch=np.zeros(layout.MOVE_ROOM, np.uint16),
    )


@inner
def search_pointers(T: NDArray[np.uint64], weights: NDArray[np.int64], arrays: SearchArrays) -> Search:
    """Returns the pointer bundle of the arrays, which the caller keeps alive."""
    return Search(
        ptr(T, 0),
        ptr(weights, 0),
        ptr(arrays.positions, 0),
        ptr(arrays.keys, 0),
        ptr(arrays.frames, 0),
        ptr(arrays.moves, 0),
        ptr(arrays.scores, 0),
        ptr(arrays.lines, 0),
        ptr(arrays.lengths, 0),
        ptr(arrays.counters, 0),
        ptr(arrays.killers, 0),
        ptr(arrays.history, 0),
        ptr(arrays.replies, 0),
        ptr(arrays.follow, 0),
        ptr(arrays.game, 0),
        ptr(arrays.cache, 0),
        ptr(arrays.quiet_positions, 0),
        ptr(arrays.quiet_frames, 0),
        ptr(arrays.quiet_words, 0),
        ptr(arrays.area, 0),
        ptr(arrays.gains, 0),
        ptr(arrays.scratch, 0),
        int64(arrays.game.size),
        U(arrays.cache.size // 2 - 1),
    )
