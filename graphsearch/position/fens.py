"""FENs and keys of many packed positions at once, without kernels; each alone takes many times as long."""

from __future__ import annotations

import chess
import numpy as np
from numpy.typing import NDArray

from .board import FREE_CLOCK, clock_of_words, key_text_of_words, unpack
from .words import (
    BLACK_TO_MOVE,
    CASTLING_BITS,
    CASTLING_SHIFT,
    CHESS960,
    CLOCK_BITS,
    CLOCK_SHIFT,
    EN_PASSANT_BITS,
    EN_PASSANT_SHIFT,
    KEY,
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


def key_texts(words: NDArray[np.uint64]) -> list[str]:
    """Returns the keys of packed positions, `[R, 10]`, as `key_text_of_words` does.

    >>> from graphsearch.position.board import pack
    >>> import chess
    >>> key_texts(np.array([pack(chess.Board()), pack(chess.Board("7k/8/8/8/8/8/8/K5R1 w - - 80 1"))]))
    ['463b96181691fc9c', 'f3556a6c6880a7df']
    """
    texts = [f"{key:016x}" for key in words[:, KEY].tolist()]
    meta = words[:, META].astype(np.int64)
    others = (meta & CHESS960 != 0) | (meta >> CLOCK_SHIFT & CLOCK_BITS > FREE_CLOCK)
    for i in np.flatnonzero(others).tolist():
        texts[i] = key_text_of_words(words[i].tolist())
    return texts


def _placements(words: NDArray[np.uint64]) -> list[str]:
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
