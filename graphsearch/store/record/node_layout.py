"""A node record in memory: header, P codes, and the block of its visited edges.

Record (uint64 words; a slot is the index of its first word):

    word 0     key
    word 1     low half: word index of the block, or the best move while there is none; high half: V, float32
    word 2     byte 0 moves | 1 block class, 255 none | 2 largest P code beyond the block, 0 none | 3 state
               | 4 clock at evaluation | 5 evaluator (4 bits), run, bits 16-19 | 6-7 D per mille (10 bits; of
               a known mate its plies), flags (6 bits)
    word 3...  P codes, 6 bits of a byte per move in canonical order; the two upper bits of all eight bytes of
               word 3 are bits 0-15 of the run. A record without moves has those in word 1, low half

Free words between records: next free slot | the one before << 32, 0 none; number of words; state FREE.

Block (uint32 words): a header of values computed from the edges (recomputed whenever one changes, never
stored), then edges in descending P, ties in canonical order, always a prefix of that order:

    header  0 1 / sum(code ** 4), float32 | 1 sum of n | 2 node Q, float32 | 3 D per mille, tag of
            `graph/arena_kernel.py`
    edge    0 n | 1 q, float32 | 2 move (16 bits), P code (6), d per mille or proof (10, `bounds_kernel.py`)
            | 3 r, only in classes >= WIDE

Flags: bits 0-1 terminal kind | 2-3 lower bound + 1 | 4-5 upper bound + 1. `node_kernel.py` has an accessor
for each field; nothing else reads words by number.
"""

from __future__ import annotations

from ...jit.types import int64
from ...position.board import CHECKMATE, DEAD, NOT_TERMINAL, STALEMATE

HEADER_WORDS = 3
BLOCK_AND_V, MISC_WORD = 1, 2  # words of a record; the first is its key
MOVES_BYTE, CLASS_BYTE, BEST_BYTE, STATE_BYTE, CLOCK_BYTE, SOURCE_BYTE = range(6)  # of its word 2
DRAW_HALF = 3  # 16-bit half of word 2: D and flags
MAX_EVALUATOR, MAX_RUN = 15, (1 << 20) - 1  # the largest values of 4 and 20 bits; the run 0 is unknown
BLOCK_HEADER = 4
NORM, BLOCK_VISITS, BLOCK_Q, BLOCK_D = 0, 1, 2, 3
EDGE_N, EDGE_Q, EDGE_MOVE, EDGE_R = 0, 1, 2, 3  # words of an edge in a block
MOVE_BITS, EDGE_CODE_SHIFT, EDGE_DRAW_SHIFT = 0xFFFF, 16, 22  # of its third word
BELOW_DRAWS = (1 << EDGE_DRAW_SHIFT) - 1  # the move and the P code
DRAW_BITS, FLAGS_SHIFT = (1 << 10) - 1, 10  # a draw field; the flags above it in DRAW_HALF

KIND_BITS, BOUND_BITS, LOWER_SHIFT, UPPER_SHIFT = 3, 3, 2, 4  # of flags

# block classes: number of edges; the last one holds every legal move
CAPACITIES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256)
LARGEST_BLOCK = BLOCK_HEADER + 4 * CAPACITIES[-1]  # words, its edges with r
WIDE = 16  # added to the class of a block whose edges carry r
NO_BLOCK = 255
CAPACITY = 0  # index in the `ints` of an arena of the numbers of edges by block class

# state bits: this version is not in the file | no version is in the file | block header out of date
# | being written | visited since the clock hand passed | part of a wave under way | named in the overlay
# | free words instead of a record
# (typed: as a literal, each would compile another variant of its callers)
DIRTY, FRESH, STALE, SAVING, USED, PINNED, HELD, FREE = (int64(1 << bit) for bit in range(8))
CODE = 63  # bits of a P code in its byte


def flags_with(lower: int, upper: int, kind: int = 0) -> int:
    """Returns flags with these bounds, -1, 0 or 1, and a terminal kind.

    >>> flags_with(-1, 1), flags_with(0, 0, kind=2)
    (32, 22)
    """
    return kind | (lower + 1) << LOWER_SHIFT | (upper + 1) << UPPER_SHIFT


TERMINAL_FLAGS = {  # kind -> flags with its exact bounds; mate is lost for the side to move
    NOT_TERMINAL: flags_with(-1, 1),
    CHECKMATE: flags_with(-1, -1, CHECKMATE),
    STALEMATE: flags_with(0, 0, STALEMATE),
    DEAD: flags_with(0, 0, DEAD),
}
