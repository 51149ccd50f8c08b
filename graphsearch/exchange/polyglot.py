"""The Polyglot book format: entries of 16 bytes, big-endian, sorted by key.

    key u64, raw move u16, weight u16, learn u32

A raw move has from bit 0 three bits each for the target file and rank, the source file and rank, and the
promotion (0 none, 1-4 knight to queen). Castling is the king capturing its own rook, such as e1h1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import chess
import numpy as np
from numpy.typing import NDArray

ENTRY = struct.Struct(">QHHI")  # key, raw move, weight, learn
ENTRY_BYTES = 8 + 2 + 2 + 4
MAX_WEIGHT = (1 << 16) - 1
ENTRIES = np.dtype([("key", ">u8"), ("move", ">u2"), ("weight", ">u2"), ("learn", ">u4")])
assert ENTRY.size == ENTRIES.itemsize == ENTRY_BYTES
HALF, SLIGHTLY = 0.5, 1e-9  # values within 1e-9 of a half round down, whatever their last bits

CASTLING = {  # source and target in the book -> target square of the king
    (chess.E1, chess.H1): chess.G1,
    (chess.E1, chess.A1): chess.C1,
    (chess.E8, chess.H8): chess.G8,
    (chess.E8, chess.A8): chess.C8,
}


class PolyglotEntry(NamedTuple):
    """One entry of a book file, in the order of `ENTRY`: a move in a position.

    >>> ENTRY.pack(*PolyglotEntry(0x463B96181691FC9C, 0x31C, 7)).hex()
    '463b96181691fc9c031c000700000000'
    """

    key: int
    raw_move: int
    weight: int
    learn: int = 0


def unpack(data: bytes) -> Iterator[PolyglotEntry]:
    """Yields the entries of `data`; its length must be a multiple of 16."""
    return map(PolyglotEntry._make, ENTRY.iter_unpack(data))


def fitted(
    weights: NDArray[np.float64], largest: NDArray[np.float64] | NDArray[np.int64], *, fill: bool = False
) -> NDArray[np.int64]:
    """Returns weights in 16 bits: unchanged, or scaled if the largest of their position does not fit.

    Args:
      largest: largest weight in each move's position; if positive, it stays at least 1.
      fill: always scale the largest to 65,535.

    >>> fitted(np.array([3.0, 1.0]), np.array([3, 3])).tolist()
    [3, 1]
    >>> fitted(np.array([131070.0, 2.0, 1.0]), np.array([131070] * 3)).tolist()
    [65535, 1, 0]
    >>> fitted(np.array([0.3, 0.1]), np.array([0.3, 0.3])).tolist()
    [1, 0]
    """
    scales = (largest > MAX_WEIGHT) | fill
    factor = np.where(scales, MAX_WEIGHT / np.where(largest > 0, largest, 1.0), 1.0)
    found = np.floor(weights * factor + HALF - SLIGHTLY).astype(np.int64)
    return np.asarray(np.maximum(found, (weights == largest) & (weights > 0)), np.int64)


def written_move(raw: int) -> chess.Move | None:
    """Returns a raw move literally, castling as e1h1; None if its bits are not a move.

    >>> written_move(chess.E1 << 6 | chess.H1).uci(), written_move(0), written_move(0x7000)
    ('e1h1', None, None)
    """
    promotion = raw >> 12
    source, target = raw >> 6 & 63, raw & 63
    if promotion > 4 or source == target:
        return None
    return chess.Move(source, target, promotion + 1 if promotion else None)


def raw_move(board: chess.Board, move: chess.Move) -> int:
    """Returns a legal move as a book has it; castling is the king capturing his own rook.

    >>> board = chess.Board("4k3/8/8/8/8/8/8/4K2R w K - 0 1")
    >>> written_move(raw_move(board, chess.Move.from_uci("e1g1"))).uci()
    'e1h1'
    """
    target = move.to_square
    if board.is_castling(move) and not board.chess960:
        target = chess.square(7 if board.is_kingside_castling(move) else 0, chess.square_rank(target))
    promotion = move.promotion - 1 if move.promotion else 0
    return promotion << 12 | move.from_square << 6 | target


def legal_move(board: chess.Board, raw: int) -> chess.Move | None:
    """Returns a raw move as a legal move of the position, castling in its notation; None if illegal."""
    move = written_move(raw)
    if move is None:
        return None
    king = CASTLING.get((move.from_square, move.to_square))
    if king is not None and board.kings & chess.BB_SQUARES[move.from_square]:
        castling = chess.Move(move.from_square, king)
        if board.is_castling(castling) and board.is_legal(castling):
            return castling
    return move if board.is_legal(move) else None
