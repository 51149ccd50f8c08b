"""Where a fixed-depth search keeps what: a frame for every ply, counters, move order, the leaf cache.

The search runs on an explicit stack, so that it can stop between any two positions and go on later. Scores
are root-relative while it runs: MATE - p mates at ply p; entries and the leaf cache count from their node.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import int64

from ..evaluators.builtin.pawns_kernel import PAWN_WORDS
from ..evaluators.builtin.terms_kernel import INFO_WORDS
from ..jit.compiler import inner
from ..jit.pointers import U, ptr
from ..position.board_kernel import PW
from ..record.transposition_layout import MOST_DEPTH

PLIES = MOST_DEPTH + 2  # a frame for the root, for every ply below, and for the one made ahead
MOVE_ROOM = 256
QUIET_PLIES = 16  # of quiescence; what stands there counts as it is
QUIET_FRAMES = QUIET_PLIES + 2

# A frame, int64: the window and what was found; what is left to try; what the value rests on.
ALPHA, BETA, LOW, BEST, BEST_MOVE, DEPTH, KIND = 0, 1, 2, 3, 4, 5, 6
COUNT, NEXT, SCORED, MOVE, TABLE_MOVE, AGAIN, CUT_BY = 7, 8, 9, 10, 11, 12, 13
TAINT, BEST_TAINT, RECORD, STARTED = 14, 15, 16, 17
NO_TAINT = 1 << 20  # of a taint, which is the lowest ply that a repetition led back to; -1: into the game
FRAME = 18

# Counters, int64: those of `alphabeta.results.Counts`, and where the search stands.
NODES, INTERIOR, LEAVES, QUIESCENCE, HITS, STORED_HITS, HIT_CUTOFFS = 0, 1, 2, 3, 4, 5, 6
CUTOFFS, FIRST_CUTOFFS, RESEARCHES, PROOFS, ORDERED, PATH_DRAWS = 7, 8, 9, 10, 11, 12
BY_KIND = 12  # + PV, CUT or ALL
STATIC, EXPANDED, MOVES, CACHED = 16, 17, 18, 19
PLY, MODE, WITH_GRAPH = 24, 25, 26
COUNTERS = 32
ENTER, GO_ON, LEAVE = np.int64(0), np.int64(1), np.int64(2)  # modes: a position is new, is searched, is done

SQUARES = 64
FROM_TO = SQUARES * SQUARES
PIECE_TO = 12 * SQUARES


class SearchArrays(NamedTuple):
    """The arrays of a search; shapes in plies and moves as above.

    Attributes:
      positions: uint64[PLIES * PW]. keys: uint64[PLIES * 2], key and check hash of interior positions.
      frames: int64[PLIES * FRAME]. moves: uint16[PLIES * MOVE_ROOM], the best ones first as far as they were
        tried. scores: int64, likewise. lines: uint16[PLIES * PLIES], the best line from each ply.
      lengths: int64[PLIES], of the lines. counters: int64[COUNTERS].
      killers: int64[PLIES * 2]. history: int64[2 * FROM_TO], by side. replies: int64[2 * FROM_TO], the move
        that refuted a move. follow: int16[PIECE_TO * PIECE_TO], history by the move before.
      game: uint64, Polyglot keys of positions that stood twice before the root.
      cache: uint64[2 * C], C a power of two: the leaf cache of `alphabeta_leaves`.
      quiet_positions: uint64[QUIET_FRAMES * PW]. quiet_frames: int64[QUIET_FRAMES * FRAME].
      quiet_words: uint64[QUIET_FRAMES * MOVE_ROOM]. area: uint64, scratch of the static evaluation.
      pawns: uint64[PAWN_WORDS], structures that it keeps.
      gains: uint64[64], scratch of an exchange. scratch: uint16[MOVE_ROOM].
    """

    positions: Any
    keys: Any
    frames: Any
    moves: Any
    scores: Any
    lines: Any
    lengths: Any
    counters: Any
    killers: Any
    history: Any
    replies: Any
    follow: Any
    game: Any
    cache: Any
    quiet_positions: Any
    quiet_frames: Any
    quiet_words: Any
    area: Any
    pawns: Any
    gains: Any
    scratch: Any


class Search(NamedTuple):
    """Pointers to them, to the board's table and the weights, and two sizes."""

    table: Any
    weights: Any
    positions: Any
    keys: Any
    frames: Any
    moves: Any
    scores: Any
    lines: Any
    lengths: Any
    counters: Any
    killers: Any
    history: Any
    replies: Any
    follow: Any
    game: Any
    cache: Any
    quiet_positions: Any
    quiet_frames: Any
    quiet_words: Any
    area: Any
    pawns: Any
    gains: Any
    scratch: Any
    game_size: Any
    cache_mask: Any


def new_search_arrays(cache_places: int) -> SearchArrays:
    """Returns empty arrays with room for `cache_places` leaves, a power of two."""
    return SearchArrays(
        positions=np.zeros(PLIES * PW, np.uint64),
        keys=np.zeros(PLIES * 2, np.uint64),
        frames=np.zeros(PLIES * FRAME, np.int64),
        moves=np.zeros(PLIES * MOVE_ROOM, np.uint16),
        scores=np.zeros(PLIES * MOVE_ROOM, np.int64),
        lines=np.zeros(PLIES * PLIES, np.uint16),
        lengths=np.zeros(PLIES, np.int64),
        counters=np.zeros(COUNTERS, np.int64),
        killers=np.zeros(PLIES * 2, np.int64),
        history=np.zeros(2 * FROM_TO, np.int64),
        replies=np.zeros(2 * FROM_TO, np.int64),
        follow=np.zeros(PIECE_TO * PIECE_TO, np.int16),
        game=np.zeros(0, np.uint64),
        cache=np.zeros(2 * cache_places, np.uint64),
        quiet_positions=np.zeros(QUIET_FRAMES * PW, np.uint64),
        quiet_frames=np.zeros(QUIET_FRAMES * FRAME, np.int64),
        quiet_words=np.zeros(QUIET_FRAMES * MOVE_ROOM, np.uint64),
        area=np.zeros(2 * INFO_WORDS, np.uint64),
        pawns=np.zeros(PAWN_WORDS, np.uint64),
        gains=np.zeros(64, np.uint64),
        scratch=np.zeros(MOVE_ROOM, np.uint16),
    )


@inner
def search_pointers(T: Any, W: Any, S: Any) -> Any:
    """Returns the pointer bundle of the arrays, which the caller keeps alive."""
    return Search(
        ptr(T, 0),
        ptr(W, 0),
        ptr(S.positions, 0),
        ptr(S.keys, 0),
        ptr(S.frames, 0),
        ptr(S.moves, 0),
        ptr(S.scores, 0),
        ptr(S.lines, 0),
        ptr(S.lengths, 0),
        ptr(S.counters, 0),
        ptr(S.killers, 0),
        ptr(S.history, 0),
        ptr(S.replies, 0),
        ptr(S.follow, 0),
        ptr(S.game, 0),
        ptr(S.cache, 0),
        ptr(S.quiet_positions, 0),
        ptr(S.quiet_frames, 0),
        ptr(S.quiet_words, 0),
        ptr(S.area, 0),
        ptr(S.pawns, 0),
        ptr(S.gains, 0),
        ptr(S.scratch, 0),
        int64(S.game.size),
        U(S.cache.size // 2 - 1),
    )
