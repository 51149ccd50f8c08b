"""A node record in memory: header, P codes, and the block of its visited edges. Without Numba.

Record (uint64 words; a slot is the index of its first word):

    word 0     key
    word 1     low half: word index of the block, or the best move while there is none; high half: V, float32
    word 2     byte 0 moves | 1 block class, 255 none | 2 largest P code beyond the block, 0 none | 3 state
               | 4 clock at evaluation | 5 evaluator (4 bits), run, bits 16-19 | 6-7 D per mille (10 bits; of
               a known mate its plies), flags (6 bits)
    word 3...  P codes, 6 bits of a byte per move in canonical order; the two upper bits of all eight bytes of
               word 3 are bits 0-15 of the run. A record without moves has those in word 1, low half

Free words between records: next free slot | the one before << 32, 0 none; number of words; state FREE.

Block (uint32 words): a header of what follows from the entries (recomputed whenever one changes, never
stored), then entries in descending P, ties in canonical order, always a prefix of that order:

    header  0 1 / sum(code ** 4), float32 | 1 sum of n | 2 node Q, float32 | 3 D per mille, tag of
            `graph/blocks_kernel.py`
    entry   0 n | 1 q, float32 | 2 move (16 bits), P code (6), d per mille or proof (10, `bounds_kernel.py`)
            | 3 r, only in classes >= WIDE
"""

from __future__ import annotations

HEADER_WORDS = 3
MAX_EVALUATOR, MAX_RUN = 15, (1 << 20) - 1  # what 4 and 20 bits hold, as in node.py
BLOCK_HEADER = 4
NORM, BLOCK_VISITS, BLOCK_Q, BLOCK_D = 0, 1, 2, 3

# block classes: number of entries; the last one holds every legal move
CAPACITIES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 224)
WIDE = 16  # added to the class of a block whose entries carry r
NO_BLOCK = 255
CAPACITY = 0  # where the `ints` of an arena hold the number of entries by block class

# state bits: not yet in the file as it is | in no version in the file | block header out of date
# | being written | visited since the clock hand passed | part of a wave under way | noted in the overlay
# | no record, but free words
DIRTY, FRESH, STALE, SAVING, USED, PINNED, HELD, FREE = 1, 2, 4, 8, 16, 32, 64, 128
CODE = 63  # bits of a P code in its byte
