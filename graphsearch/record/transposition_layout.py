"""The data word of a transposition entry. Without Numba; `schema/entries.md` is the reference.

    bits  0-17  value + VALUE_BIAS, thousandths of a pawn for the side to move
          18-33 best move, 0 if none is known
          34-40 depth in plies of full width; PROOF: it holds at every depth
          41-42 bound: 1 upper, 2 lower, 3 exact; 0 if only the move is known
          43-44 node type that was expected: 1 PV, 2 Cut, 3 All; 0 if none
          45-47 which move in order made the cut, from 1, at most MOST_CUT; 0: none did
          48-63 check: the lower 16 bits of the position's check hash

Kernels read it through the accessors of `transposition_kernel.py`, Python through `transposition.decoded`.
"""

from __future__ import annotations

VALUE_BITS, VALUE_BIAS = (1 << 18) - 1, 1 << 17
MOVE_SHIFT, MOVE_BITS = 18, (1 << 16) - 1
DEPTH_SHIFT, DEPTH_BITS = 34, (1 << 7) - 1
BOUND_SHIFT, BOUND_BITS = 41, 3
TYPE_SHIFT, TYPE_BITS = 43, 3
CUT_SHIFT, CUT_BITS = 45, 7
CHECK_SHIFT, CHECK_BITS = 48, (1 << 16) - 1

PROOF = DEPTH_BITS
MOST_DEPTH = PROOF - 1
MOST_CUT = CUT_BITS
