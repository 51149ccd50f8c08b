"""What the networks see, and where they lie in the one array that the kernels read. Without Numba.

Two networks, one pass each. Both see men on squares, from a side's view, with whether each is attacked, by
something that is worth less or not, and whether it is defended: 6 x 768 features.

    value    both views -> width, squared and clipped -> by the number of men: score, draw width, noise
    policy   the mover's view -> width, squared and clipped -> one logit for each legal move

The array is int64: HEADER words, then sections that begin at the words that the header names.
"""

from __future__ import annotations

BOARD_FEATURES = 12 * 64  # own and theirs, six kinds each, on 64 squares
FEATURES = 6 * BOARD_FEATURES  # not attacked, attacked, attacked by what is worth less; defended or not
STACKS, MEN_PER_STACK = 8, 4  # of the value network's last layer, by the number of men
OUTPUTS = 3  # of a stack: score, log of the draw width, log of the noise
PLACES = 6 * 64  # kinds on squares: what a move leaves and where it goes
KINDS_OF_MOVES = 28  # see `moves_kernel.kind_of_move`
CLASSES = 6 * KINDS_OF_MOVES  # by the piece that moves

# Activations are int16: 1 is FULL, and its square just fits.
FULL = 181
SCORE_UNIT = 400 / 361 * 1000  # thousandths of a pawn that the score 1 means
WIDTH_RANGE = (-3.0, 2.0)  # of the logarithm of the draw width
NOISE_RANGE = (-3.5, 2.0)  # of the logarithm of the noise

# words of the header: widths, then where the sections begin
(
    VALUE_WIDTH,
    VALUE_ROWS,  # int16[FEATURES][width]
    VALUE_BIAS,  # int16[width]
    VALUE_OUT,  # int16[STACKS][OUTPUTS][2][width]
    VALUE_OUT_BIAS,  # float32[STACKS][OUTPUTS], then float32[OUTPUTS]: what one unit of their sums is worth
    POLICY_WIDTH,
    POLICY_ROWS,  # int16[FEATURES][width]
    POLICY_BIAS,  # int16[width]
    FROM,  # int16[PLACES][width]
    TO,  # int16[PLACES][width]
    CLASS,  # int16[CLASSES][width]
    CLASS_BIAS,  # float32[CLASSES], then float32: what one unit of a logit's sum is worth
) = range(12)
HEADER = 16
MOST_WIDTH = 4096  # of either network
