"""FENs of many packed positions at once, without kernels, in a fraction of python-chess's time."""

from __future__ import annotations

import chess
import numpy as np
from numpy.typing import NDArray

from .board import clock_of_words, unpack
from .words import (
    BLACK_TO_MOVE,
    CASTLING_BITS,
    CASTLING_SHIFT,
    CHESS960,
    EN_PASSANT_BITS,
    EN_PASSANT_SHIFT,
    META,
    NO_MAN,
    WHITE,
)

_LETTERS = (b"PNBRQK", b"pnbrqk")
_EMPTY = ord(".")
_RIGHTS = ["".join(c for i, c in enumerate("KQkq") if x >> i & 1) or "-" for x in range(16)]


def fens(words: NDArray[np.uint64]) -> list[str]:
    """Returns the FENs of packed positions, `[R, 10]`, fullmove number 1, as `fen_of(unpack(words))` does.

    >>> from graphsearch.position.board import pack
    >>> import chess
    >>> fens(np.array([pack(chess.Board())]))
    ['rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1']
    """
    texts = []
    for placement, row in zip(_placements(words), words.tolist(), strict=True):
        meta = row[META]
        turn, rights = "wb"[meta & BLACK_TO_MOVE], _RIGHTS[meta >> CASTLING_SHIFT & CASTLING_BITS]
        if meta & CHESS960:
            rights = unpack(row).castling_xfen()
        clock, ep = clock_of_words(row), meta >> EN_PASSANT_SHIFT & EN_PASSANT_BITS
        square = chess.SQUARE_NAMES[ep - 1] if ep else "-"
        texts.append(f"{placement} {turn} {rights} {square} {clock} 1")
    return texts


def _placements(words: NDArray[np.uint64]) -> list[str]:
    """Returns the first field of each FEN."""
    if not len(words):
        return []
    board = np.full((len(words), 8, 9), _EMPTY, np.uint8)  # rank by rank from the first, each with its end
    board[:, :, 8] = ord("/")
    board[:, 0, 8] = ord("\n")
    for kind in range(NO_MAN):
        for colour, letters in enumerate(_LETTERS):
            men = np.ascontiguousarray(words[:, kind] & words[:, WHITE + colour]).astype("<u8").view(np.uint8)
            squares = np.unpackbits(men, bitorder="little").reshape(len(words), 8, 8)
            board[:, :, :8][squares == 1] = letters[kind]
    text = board[:, ::-1].tobytes().decode("ascii")
    for run in range(8, 0, -1):
        text = text.replace(chr(_EMPTY) * run, str(run))
    return text.splitlines()
