"""A network's policy: the index of a move among its 1858 outputs, and the priors of the legal moves.

The outputs are moves in the view of the side to move: all queen and knight moves by from-square and
to-square, then promotions to queen, rook and bishop from the 7th rank. A promotion to knight is the plain
move; castling is king takes own rook.
"""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ...position.board import BLACK, BLACK_TO_MOVE, CHESS960, KINGS, META, MOVE_CODES, WHITE
from ..protocol import PositionBatch

POLICY_SIZE = 1858
KING_HOME, TO_BLACK = 4, 56  # e1; from a square of White's to Black's
_MIRROR = np.uint16(56 | 56 << 6)  # XOR mask that mirrors the ranks of a move code
_COMPASS = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))  # file, rank; clockwise
_KNIGHT_STEPS = ((1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1), (-2, 1), (-1, 2))
_PROMOTIONS = {"q": 4, "r": 3, "b": 2}  # as in a move code, in the order of the outputs
_CASTLING = {4 | 6 << 6: 4 | 7 << 6, 4 | 2 << 6: 4}  # e1g1 is e1h1, e1c1 is e1a1

Move = tuple[int, int, str]  # from-square, to-square, letter of q, r, b or nothing


@cache
def policy_moves() -> tuple[Move, ...]:
    """Returns the moves of the outputs, in order.

    >>> moves = policy_moves()
    >>> len(moves), moves[0], moves[1857]
    (1858, (0, 1, ''), (55, 63, 'b'))
    """
    plain = [(a, b, "") for a, b in product(range(64), repeat=2) if _reaches(a, b)]
    promoting = [
        (48 + file, 56 + to, letter)
        for file in range(8)
        for to in range(max(0, file - 1), min(7, file + 1) + 1)
        for letter in _PROMOTIONS
    ]
    return (*plain, *promoting)


def _step(a: int, b: int) -> tuple[int, int]:
    return b % 8 - a % 8, b // 8 - a // 8


def _reaches(a: int, b: int) -> bool:
    """Returns whether a queen or a knight can move between two squares on an empty board."""
    dx, dy = (abs(d) for d in _step(a, b))
    return a != b and (dx == 0 or dy == 0 or dx == dy or {dx, dy} == {1, 2})


@cache
def outputs_of_codes() -> NDArray[np.int64]:
    """Returns the output of each move code, `[4 * MOVE_CODES]`, by side and king; -1 if there is none.

    Each side has two parts. The second is for a king at home, with e1g1 and e1c1 as castling. The first is
    for all other positions and for Chess960, whose moves also write castling as king takes rook.
    """
    table = np.full((2, MOVE_CODES), -1, np.int64)
    for output, (a, b, letter) in enumerate(policy_moves()):
        table[:, a | b << 6 | _PROMOTIONS.get(letter, 0) << 12] = output
        if a // 8 == 6 and b // 8 == 7 and not letter:  # also a promotion to knight
            table[:, a | b << 6 | 1 << 12] = output
    for code, king_takes_rook in _CASTLING.items():
        table[1, code] = table[1, king_takes_rook]
    mirrored = table[:, np.arange(MOVE_CODES, dtype=np.uint16) ^ _MIRROR]
    return np.concatenate([table, mirrored]).reshape(-1)


@cache
def convolution_outputs() -> NDArray[np.int64]:
    """Returns the index of each of the 1858 outputs in a flat convolutional head `[80 * 64]`.

    Planes: seven steps in each of eight directions, eight knight moves, nine promotions (by file step, then
    rook, bishop, queen); within a plane the from-square.
    """
    planes = {(dx * n, dy * n): 7 * i + n - 1 for i, (dx, dy) in enumerate(_COMPASS) for n in range(1, 8)}
    planes |= {step: 56 + i for i, step in enumerate(_KNIGHT_STEPS)}
    cells = [
        (64 + 3 * (_step(a, b)[0] + 1) + "rbq".index(letter) if letter else planes[_step(a, b)]) * 64 + a
        for a, b, letter in policy_moves()
    ]
    return np.array(cells, np.int64)


@cache
def attention_outputs() -> NDArray[np.int64]:
    """Returns the index of each of the 1858 outputs in a flat attention head `[64 * 64 + 8 * 8 * 3]`.

    The head has pairs of from-square and to-square, then promotions: from-file, to-file, and queen, rook or
    bishop.
    """
    cells = [
        64 * 64 + 24 * (a % 8) + 3 * (b % 8) + "qrb".index(letter) if letter else 64 * a + b
        for a, b, letter in policy_moves()
    ]
    return np.array(cells, np.int64)


@cache
def reach_map() -> NDArray[np.float32]:
    """Returns lc0's position encoding of the squares, `[64, 64]`.

    A square's row has 1 at squares that a queen or knight reaches from it on an empty board, -1 at itself.

    >>> reach_map()[0, :10].astype(int).tolist()
    [-1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    """
    rows = [[_reaches(a, b) - (a == b) for b in range(64)] for a in range(64)]
    return np.array(rows, np.float32)


def output_indices(batch: PositionBatch) -> NDArray[np.int64]:
    """Returns the output index of every move of a batch, `[M]`."""
    words = batch.words
    black = words[:, META].astype(np.int64) & BLACK_TO_MOVE
    own_king = words[:, KINGS] & np.where(black, words[:, BLACK], words[:, WHITE])
    is_home = own_king == np.where(black, 1 << KING_HOME + TO_BLACK, 1 << KING_HOME)
    part = 2 * black + (is_home & (words[:, META] & np.uint64(CHESS960) == 0))
    found: NDArray[np.int64] = outputs_of_codes()[batch.by_move(part) * MOVE_CODES + batch.moves]
    return found


def priors(batch: PositionBatch, logits: NDArray[np.float32], temperature: float) -> NDArray[np.float32]:
    """Returns the softmax of `logits / temperature` over each position's legal moves, `[M]`.

    Args:
      batch: the positions; each has at least one move.
      logits: `[B, 1858]`.
      temperature: above 1 flattens, below 1 sharpens.
    """
    rows, starts = batch.by_move(np.arange(len(batch))), batch.offsets[:-1]
    chosen = logits[rows, output_indices(batch)].astype(np.float64)
    powers = np.exp((chosen - np.maximum.reduceat(chosen, starts)[rows]) / temperature)
    found: NDArray[np.float32] = (powers / np.add.reduceat(powers, starts)[rows]).astype(np.float32)
    return found
