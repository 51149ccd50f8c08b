"""Layout of a fixed-depth search: words of a frame, counters, slots of the leaf cache. Without Numba.

    frame     FRAME int64, one for the root and one for each ply below it: its window, its results so far,
              the moves left to try, the repetitions that its value depends on
    counters  COUNTERS int64: those of `results.Counts`, and the state of the search
    cache     two words for each slot: key ^ data | data; the fields of data are below

Kernels and Python read them by name: `frame[layout.DEPTH]`, `counters[layout.HITS]`.
"""

from __future__ import annotations

from ...store.record.transposition_layout import MOST_DEPTH

PLIES = MOST_DEPTH + 2  # a frame for the root, for every ply below, and for the one made ahead
MOVE_ROOM = 256
QUIET_PLIES = 16  # of quiescence; at the last ply the static value counts
QUIET_FRAMES = QUIET_PLIES + 2

# A frame. ALPHA and BETA are its window, alpha as it is now, LOW as it was; KIND is the type expected of it.
ALPHA, BETA, LOW, BEST, BEST_MOVE, DEPTH, KIND = 0, 1, 2, 3, 4, 5, 6
# COUNT: moves. NEXT: moves tried. SCORED: whether they have scores. MOVE: the move in flight. AGAIN: whether
# it has the full window. TABLE_MOVE: the entry's. CUT_BY: number of the move that ended the node, from 1
COUNT, NEXT, SCORED, MOVE, TABLE_MOVE, AGAIN, CUT_BY = 7, 8, 9, 10, 11, 12, 13
# A taint is the lowest ply that a repetition leads back to; -1: into the game. RECORD: the graph's, 0 none
TAINT, BEST_TAINT, RECORD = 14, 15, 16
FRAME = 18
CLEARED = (BEST_MOVE, COUNT, NEXT, SCORED, MOVE, TABLE_MOVE, AGAIN, CUT_BY, RECORD)  # in a new frame
NO_TAINT = 1 << 20
STANDS = LOW  # of a frame of quiescence: its static value, or UNKNOWN

# Counters
NODES, INTERIOR, LEAVES, QUIESCENCE, HITS, STORED_HITS, HIT_CUTOFFS = 0, 1, 2, 3, 4, 5, 6
CUTOFFS, FIRST_CUTOFFS, RESEARCHES, PROOFS, ORDERED, PATH_DRAWS = 7, 8, 9, 10, 11, 12
BY_KIND = 12  # + PV, CUT or ALL
STATIC, EXPANDED, MOVES, CACHED = 16, 17, 18, 19
PLY, MODE, WITH_GRAPH = 24, 25, 26
COUNTERS = 32
ENTER, GO_ON, LEAVE = 0, 1, 2  # modes: the position is new, is being searched, is finished

# The data word of a slot in the leaf cache: static value + CACHE_BIAS | whether it is known
# | value + CACHE_BIAS | its bound, 0 if there is none
CACHE_BITS = 18
CACHE_BIAS, CACHE_MASK = 1 << (CACHE_BITS - 1), (1 << CACHE_BITS) - 1
KNOWN_STATIC = 1 << CACHE_BITS
CACHE_VALUE_AT = CACHE_BITS + 1
CACHE_BOUND_AT = CACHE_VALUE_AT + CACHE_BITS

# Tables of move order
SQUARES = 64
FROM_TO = SQUARES * SQUARES  # a move without its promotion
FROM_TO_MASK = FROM_TO - 1
PIECE_TO = 12 * SQUARES
