"""Where a network lies in the one array that the kernels read. Without Numba.

`weights` is int64. It begins with HEADER_WORDS words, and goes on with rows and stacks, all packed as the
machine holds them:

    row      what one feature adds to an accumulator: int16[width], int32[8] of material, and room up to a
             multiple of 64 bytes. FEATURES rows, then one that adds nothing, then that of the empty board.
    stack    the layers behind the accumulators, one stack for each number of men.

An accumulator, of one side's view, has the form of a row.
"""

from __future__ import annotations

NNUE_SUFFIX = ".nnue"  # of files

KING_BUCKETS = 32
PIECE_SQUARES = 11 * 64  # pawn, knight, bishop, rook, queen, each own and theirs, and kings together
FEATURES = KING_BUCKETS * PIECE_SQUARES
NOTHING, EMPTY_BOARD = FEATURES, FEATURES + 1  # rows behind those of the features
ROWS = FEATURES + 2
STACKS = 8
MEN_PER_STACK = 4
MATERIAL_WORDS = 8  # int32[STACKS] and room

# Words of the header. PAWN: how much of the output 100 centipawns are; FITTED_AT: where fitted numbers lie;
# POLICY_NETWORK_AT: where the networks begin whose policy orders the moves.
WIDTH, ROW_WORDS, ROWS_AT, STACKS_AT, STACK_WORDS, PAWN, FITTED_AT, POLICY_NETWORK_AT = range(8)
# How much is searched (`evaluation_kernel`): how many moves, replies, moves with replies; and how far below
# the best score and above the first one scores are told apart, in thousandths of a pawn.
EFFORT_AT = 8
SEEN_MOVES, SEEN_REPLIES, VERIFIED_MOVES, LIMIT, RISE = range(EFFORT_AT, EFFORT_AT + 5)
HEADER_WORDS = 16

MAP_TERMS = 10  # of each width of the value map; see `value_map_kernel.map_exponent`
SCALAR_UNIT = 1e-6  # of the fitted numbers
# of the fitted numbers: the value map, then what a logit loses by each
MAP_AT = 0
POLICY_AT = MAP_AT + 1 + 2 * MAP_TERMS
POLICY_LOGITS, POLICY_CHANCES, POLICY_PAWNS, POLICY_DROP, POLICY_UNSEEN = range(POLICY_AT, POLICY_AT + 5)
FITTED_NUMBERS = POLICY_AT + 5

# The first layer has 16 sums: 15 that the second one sees twice, squared and plain, and one for the output.
FIRST, SECOND_INPUTS, SECOND = 16, 32, 32
# Of a stack, in words. Weights of two inputs lie side by side: see `add_products` in `jit/pointers.py`.
FIRST_BIAS = 0  # int32[FIRST]
SECOND_BIAS = FIRST_BIAS + FIRST // 2  # int32[SECOND]
SECOND_WEIGHTS = SECOND_BIAS + SECOND // 2  # int16[SECOND / 16][SECOND_INPUTS / 2][16][2]
LAST_WEIGHTS = SECOND_WEIGHTS + SECOND * SECOND_INPUTS // 4  # int16[SECOND]
LAST_BIAS = LAST_WEIGHTS + SECOND // 4  # int64
FIRST_WEIGHTS = LAST_BIAS + 8  # int16[width / 2 + 1][FIRST][2]; after a multiple of 64 bytes


def row_words(width: int) -> int:
    """Returns the words of a row, and of an accumulator.

    >>> row_words(1024), row_words(128)
    (264, 40)
    """
    return width // 4 + MATERIAL_WORDS


def stack_words(width: int) -> int:
    """Returns the words of a stack.

    >>> stack_words(1024)
    4400
    """
    return FIRST_WEIGHTS + FIRST * (width // 2 + 1) // 2
