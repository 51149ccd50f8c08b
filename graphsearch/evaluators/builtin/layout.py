"""The shapes of the networks, and their layout in the one array that the kernels read. Does not import Numba.

Two networks, one pass each. The inputs of both are rows in a side's view: one for each man, by the own king's
square, and one for each man that is attacked or undefended, by its attackers and whether it is defended.

    value    both views -> width, clipped and squared -> by the number of men: 16 -> 32 -> score, draw
             width, noise; a linear part of all three bypasses the layers of 16 and 32
    policy   the mover's view -> width, clipped and squared -> one logit for each legal move

The array is int64: HEADER words, then sections; the header has their offsets in words.
"""

from __future__ import annotations

BOARD_FEATURES = 12 * 64  # own and theirs, six kinds each, on 64 squares
KING_BUCKETS = 8
# by the own king's square in its view, files a to d on every rank
BUCKET_OF_KING = (0, 0, 1, 2, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 6, *(7,) * 8)
STATES = 5  # of a man; an unattacked and defended man has no state
THREATS_AT = KING_BUCKETS * BOARD_FEATURES  # the first row of a man's state
FEATURES = THREATS_AT + STATES * BOARD_FEATURES
STACKS, MEN_PER_STACK = 8, 4  # of the value network's last layers, by the number of men
FIRST, SECOND = 16, 32  # their sizes
OUTPUTS = 3  # of a stack: score, log of the draw width, log of the noise
PLACES = 6 * 64  # kinds on squares: from-squares and to-squares of a move
KINDS_OF_MOVES = 2 * 28  # see `evaluation_kernel.kind_of_move`
CLASSES = 6 * KINDS_OF_MOVES  # by the piece that moves

# Activations are int16: FULL stands for 1, and its square just fits.
FULL = 181
SCORE_UNIT = 400 / 361 * 1000  # thousandths of a pawn of the score 1
TEMPERATURES = (2.1, 1.45)  # of P where Q is 0, and where it is 1 or -1
WIDTH_RANGE = (-3.0, 2.0)  # of the logarithm of the draw width
NOISE_RANGE = (-3.5, 2.0)  # of the logarithm of the noise

# words of the header: widths, and offsets of the sections
(
    VALUE_WIDTH,
    VALUE_ROWS,  # int8[FEATURES][width]
    VALUE_BIAS,  # int16[width]
    VALUE_FIRST,  # int16[STACKS][FIRST + OUTPUTS][2][width]: the first layer, then the linear part
    VALUE_FIRST_PLAIN,  # float32[2][STACKS][FIRST + OUTPUTS]: biases, then scales of the sums
    VALUE_SECOND,  # float32[STACKS][2 * FIRST + 1][SECOND]: weights of clipped and of squared inputs, biases
    VALUE_LAST,  # float32[STACKS][SECOND][OUTPUTS]
    POLICY_WIDTH,
    POLICY_ROWS,  # int8[FEATURES][width]
    POLICY_BIAS,  # int16[width]
    FROM,  # int16[PLACES][width]
    TO,  # int16[PLACES][width]
    CLASS,  # int16[CLASSES][width]
    CLASS_BIAS,  # float32[CLASSES], then float32: the scale of a logit's sum
    VALUE_PAIRS,  # int16[STACKS][width][FIRST][2]: the first layer once more, for `add_products`
    ENDINGS,  # the address of `evaluator.endings_table`
) = range(16)
HEADER = 16
MOST_WIDTH = 4096  # of either network
