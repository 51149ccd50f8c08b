"""Layout of a network in the one array that the kernels read. Does not import Numba.

`weights` is int64: HEADER_WORDS words, then rows and stacks, all packed in native byte order:

    row      the numbers that one feature adds to an accumulator: int16[width], int32[8] of material, padding
             to a multiple of 64 bytes. FEATURES rows, then that of the empty board.
    stack    the layers after the accumulators, one stack for each range of the number of men.

An accumulator, of one side's view, has the form of a row.
"""

from __future__ import annotations

NNUE_SUFFIX = ".nnue"

KING_BUCKETS = 32
PIECE_SQUARES = 11 * 64  # pawn, knight, bishop, rook, queen, each own and theirs, and kings together
FEATURES = KING_BUCKETS * PIECE_SQUARES
EMPTY_BOARD = FEATURES  # the row after those of the features
ROWS = FEATURES + 1
STACKS = 8
MEN_PER_STACK = 4
MATERIAL_WORDS = 8  # int32[STACKS] and padding

# Words of the header. PAWN: network output of 100 centipawns; FITTED_AT: offset of the fitted numbers;
# POLICY_NETWORK_AT: offset of the policy network that orders the moves.
WIDTH, ROW_WORDS, ROWS_AT, STACKS_AT, LAYER_WORDS, PAWN, FITTED_AT, POLICY_NETWORK_AT = range(8)
# Search effort (`evaluation_kernel`): number of moves, of replies, of moves with replies; and the range of
# exact scores, below the best score (LIMIT) and above a move's first one (RISE), in thousandths of a pawn.
EFFORT_AT = 8
SEEN_MOVES, SEEN_REPLIES, VERIFIED_MOVES, LIMIT, RISE = range(EFFORT_AT, EFFORT_AT + 5)
ENDINGS = 15  # the address of `endings_table` of the built-in evaluator
HEADER_WORDS = 16

MAP_TERMS = 10  # of each width of the value map; see `evaluation_kernel.map_exponent`
SCALAR_UNIT = 1e-6  # of the fitted numbers
# indices of the fitted numbers: the value map, then the coefficients of a logit
MAP_AT = 0
POLICY_AT = MAP_AT + 1 + 2 * MAP_TERMS
POLICY_LOGITS, POLICY_CHANCES, POLICY_PAWNS, POLICY_DROP, POLICY_UNSEEN = range(POLICY_AT, POLICY_AT + 5)
FITTED_NUMBERS = POLICY_AT + 5

# The first layer has 16 sums: the second one gets 15 twice, squared and plain; one goes to the output.
FIRST, SECOND_INPUTS, SECOND = 16, 32, 32
# Offsets in a stack, in words. Weights of two inputs are adjacent: see `add_products` in `jit/pointers.py`.
FIRST_BIAS = 0  # int32[FIRST]
SECOND_BIAS = FIRST_BIAS + FIRST // 2  # int32[SECOND]
SECOND_WEIGHTS = SECOND_BIAS + SECOND // 2  # int16[SECOND / 16][SECOND_INPUTS / 2][16][2]
LAST_WEIGHTS = SECOND_WEIGHTS + SECOND * SECOND_INPUTS // 4  # int16[SECOND]
LAST_BIAS = LAST_WEIGHTS + SECOND // 4  # int64
FIRST_WEIGHTS = LAST_BIAS + 8  # int16[width / 2 + 1][FIRST][2]; after a multiple of 64 bytes


def row_words(width: int) -> int:
    """Returns the number of words in a row or an accumulator.

    >>> row_words(1024), row_words(128)
    (264, 40)
    """
    return width // 4 + MATERIAL_WORDS


def stack_words(width: int) -> int:
    """Returns the number of words in a stack.

    >>> stack_words(1024)
    4400
    """
    return FIRST_WEIGHTS + FIRST * (width // 2 + 1) // 2
