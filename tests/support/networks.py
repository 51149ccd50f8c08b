"""What lc0's networks compute and show by definition: convolutions, softmax, planes, moves."""

from __future__ import annotations

from functools import cache
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def convolved(planes: Floats, kernel: Floats, bias: Floats) -> Floats:
    size = kernel.shape[-1]
    edge = size // 2
    padded = np.pad(planes, ((0, 0), (0, 0), (edge, edge), (edge, edge)))
    out = np.zeros((len(planes), len(kernel), 8, 8))
    for dy in range(size):
        for dx in range(size):
            out += np.einsum("bihw,oi->bohw", padded[:, :, dy : dy + 8, dx : dx + 8], kernel[:, :, dy, dx])
    return out + bias[:, None, None]


def softmax(x: Floats) -> Floats:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def planes_shown(shown: Any) -> NDArray[np.float32]:
    """Returns the planes that lc0's bindings show a network."""
    masks = np.array([shown.mask(i) for i in range(112)], "<u8")
    values = np.array([shown.val(i) for i in range(112)], np.float32)
    bits = np.unpackbits(masks.view(np.uint8), bitorder="little").reshape(112, 8, 8)
    return np.asarray(bits * values[:, None, None], np.float32)


# ------------------------------------------------------------------ its moves
@cache
def policy_texts() -> list[str]:
    """Returns the 1858 moves of a policy, such as `a1b1` and `a7a8q`."""
    texts = []
    for square in chess.SQUARES:
        reached: set[int] = set()
        for kind in (chess.QUEEN, chess.KNIGHT):
            board = chess.Board(None)
            board.set_piece_at(square, chess.Piece(kind, chess.WHITE))
            reached |= set(board.attacks(square))
        texts += [chess.square_name(square) + chess.square_name(to) for to in sorted(reached)]
    for a in "abcdefgh":
        for b in "abcdefgh":
            if abs(ord(a) - ord(b)) <= 1:
                texts += [f"{a}7{b}8{letter}" for letter in "qrb"]
    return texts


def policy_cell(text: str) -> tuple[int, int]:
    """Returns the plane and the square of a move in a convolutional head."""
    a, b = chess.parse_square(text[:2]), chess.parse_square(text[2:4])
    dx, dy = b % 8 - a % 8, b // 8 - a // 8
    if len(text) == 5:
        return {"r": 64, "b": 65, "q": 66}[text[4]] + 3 * (dx + 1), a
    if 0 not in (dx, dy) and abs(dx) != abs(dy):
        clockwise = [(1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1), (-2, 1), (-1, 2)]
        return 56 + clockwise.index((dx, dy)), a
    steps = max(abs(dx), abs(dy))
    eighth = round(np.arctan2(dx, dy) / (np.pi / 4)) % 8  # of a turn, from north by east
    return 7 * eighth + steps - 1, a
