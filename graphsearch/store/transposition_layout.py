"""The data word of a transposition entry: its fields.

    bits  0-17  value + VALUE_BIAS, thousandths of a pawn for the side to move
         18-33  best move, 0 none
         34-40  depth, plies of full width; PROOF: it holds at every depth     } the kind of an entry:
         41-42  bound: UPPER, LOWER or EXACT, 0 only the move is known         } the file lists it
         43-44  node type that was expected: PV, CUT or ALL, 0 none            } as one symbol
         45-47  which move in order made the cut, from 1, at most MOST_CUT     }
         48-63  low bits of the check hash

`schema/entries.md` is the reference. `transposition.py` has entries as values, `transposition_kernel.py`
reads and writes words in compiled code; `bits_at` reads columns of words.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

VALUE_BITS, MOVE_BITS, DEPTH_BITS, BOUND_BITS, TYPE_BITS, CUT_BITS, CHECK_BITS = 18, 16, 7, 2, 2, 3, 16
KIND_BITS = DEPTH_BITS + BOUND_BITS + TYPE_BITS + CUT_BITS

VALUE_AT = 0
MOVE_AT = VALUE_AT + VALUE_BITS
DEPTH_AT = KIND_AT = MOVE_AT + MOVE_BITS
BOUND_AT = DEPTH_AT + DEPTH_BITS
TYPE_AT = BOUND_AT + BOUND_BITS
CUT_AT = TYPE_AT + TYPE_BITS
CHECK_AT = CUT_AT + CUT_BITS
assert CHECK_AT + CHECK_BITS == 64
assert (MOVE_AT, DEPTH_AT, BOUND_AT, TYPE_AT, CUT_AT, CHECK_AT) == (18, 34, 41, 43, 45, 48)

VALUE_MASK, MOVE_MASK, DEPTH_MASK = (1 << VALUE_BITS) - 1, (1 << MOVE_BITS) - 1, (1 << DEPTH_BITS) - 1
BOUND_MASK, TYPE_MASK, CUT_MASK = (1 << BOUND_BITS) - 1, (1 << TYPE_BITS) - 1, (1 << CUT_BITS) - 1
CHECK_MASK, KIND_MASK = (1 << CHECK_BITS) - 1, (1 << KIND_BITS) - 1

VALUE_BIAS = 1 << (VALUE_BITS - 1)
UPPER, LOWER, EXACT = 1, 2, 3  # bounds
NO_TYPE, PV, CUT, ALL = 0, 1, 2, 3  # expected node types
PROOF = DEPTH_MASK  # the depth of a proven mate: it holds at every depth
MOST_DEPTH = PROOF - 1
MOST_CUT = CUT_MASK

Words = NDArray[np.uint64]


def bits_at(data: Words, at: int, mask: int) -> NDArray[np.int64]:
    """Returns the raw bits of one field of data words.

    >>> bits_at(np.array([5 << DEPTH_AT], np.uint64), DEPTH_AT, DEPTH_MASK).tolist()
    [5]
    """
    return (data >> np.uint64(at) & np.uint64(mask)).astype(np.int64)


def values(data: Words) -> NDArray[np.int64]:
    """Returns the values of data words."""
    return bits_at(data, VALUE_AT, VALUE_MASK) - VALUE_BIAS


def checks(data: Words) -> Words:
    """Returns the check bits of data words, as words: they distinguish positions with the same key."""
    return data >> np.uint64(CHECK_AT)
