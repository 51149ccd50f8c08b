"""The numbers of sort keys and bloom filters, for Python and kernels. Without Numba.

    sort key  from the top bit: pawns 16 | material 8 | knights 8 | bishops 8 | rooks 8 | queens 7 | kings 8
              | turn 1; each part but the last is the top bits of `y * SORT_MIX`, with y = x ^ x >> 32 and
              x = white * SORT_WHITE + black * SORT_BLACK
    bloom     of a key the bits `(x + k * step) * bits >> 64`, k < HASHES, with x = key * BLOOM_MULTIPLIER;
              step is x with its halves exchanged, made odd

All products are modulo 2^64. `schema/segment.md` is the reference.
"""

from __future__ import annotations

SORT_WHITE, SORT_BLACK, SORT_MIX = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93
PAWN_BITS, MATERIAL_BITS, COUNT_BITS = 16, 8, 4  # of the hashes of pawns and material, of a number of men
PIECE_BITS = (8, 8, 8, 7, 8)  # knights, bishops, rooks, queens, kings
assert PAWN_BITS + MATERIAL_BITS + sum(PIECE_BITS) + 1 == 64

BLOOM_MULTIPLIER = 0x9E3779B97F4A7C15
HASHES = 5  # 0.5 % false positives at 12 bits per key; 8 bits had 2.2 %
