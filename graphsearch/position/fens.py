"""Writes FENs and keys of many packed positions, and reads packed positions from lines of FEN and EPD."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import BinaryIO, cast

import chess
import numpy as np
from numpy.typing import NDArray

from ..base.errors import InvalidPositionError
from ..base.limits import LINE, PIECE, long_line
from ..base.system import is_readable
from .board import (
    BLACK,
    BLACK_TO_MOVE,
    CASTLING_BITS,
    CASTLING_SHIFT,
    CHESS960,
    CHESS960_BITS,
    CHESS960_SHIFT,
    CLOCK_BITS,
    CLOCK_SHIFT,
    EN_PASSANT_BITS,
    EN_PASSANT_SHIFT,
    FREE_CLOCK,
    KEY,
    META,
    NO_MAN,
    POSITION_WORDS,
    key_text_of_words,
    pack_checked,
    unpack,
)
from .notation import read_fen_lines

_LETTERS = b"PNBRQK"  # by kind
_EMPTY = ord(".")
_RIGHTS = ["".join(c for i, c in enumerate("KQkq") if x >> i & 1) or "-" for x in range(16)]


def fens(words: NDArray[np.uint64], plies: Iterable[int] | None = None) -> list[str]:
    """Returns the FENs of packed positions, `[R, 10]`, as `fen_of(unpack(words))` does.

    Args:
      plies: of the positions, which give the fullmove numbers; None: these are 1.

    >>> from graphsearch.position.board import pack
    >>> import chess
    >>> fens(np.array([pack(chess.Board())]))
    ['rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1']
    """
    numbers = repeat(1, len(words)) if plies is None else (ply // 2 + 1 for ply in plies)
    metas = words[:, META].tolist()
    fields = [_fields(meta) for meta in metas]
    for i in np.flatnonzero(words[:, META] & np.uint64(CHESS960)).tolist():
        fields[i] = _fields(metas[i], unpack(words[i].tolist()).castling_xfen())
    rows = zip(_placements(words), fields, numbers, strict=True)
    return [f"{placement} {middle} {number}" for placement, middle, number in rows]


@lru_cache(maxsize=1 << 12)
def _fields(meta: int, rights: str | None = None) -> str:
    """Returns the fields of a FEN between the placement and the move number."""
    turn, ep = "wb"[meta & BLACK_TO_MOVE], meta >> EN_PASSANT_SHIFT & EN_PASSANT_BITS
    rights = rights or _RIGHTS[meta >> CASTLING_SHIFT & CASTLING_BITS]
    square = chess.SQUARE_NAMES[ep - 1] if ep else "-"
    return f"{turn} {rights} {square} {meta >> CLOCK_SHIFT & CLOCK_BITS}"


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


def castling_of(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Returns what `key_texts` appends to the keys of packed positions, `[R, 10]`; 0 for standard castling.

    >>> from graphsearch.position.board import pack
    >>> castling_of(np.array([pack(chess.Board())])).tolist()
    [0]
    """
    meta = words[:, META]
    added = meta >> np.uint64(CHESS960_SHIFT) & np.uint64(CHESS960_BITS)
    return np.where(meta & np.uint64(CHESS960) != 0, added, np.uint64(0))


def clocks_of(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Returns the halfmove clocks of packed positions, `[R, 10]`.

    >>> from graphsearch.position.board import pack
    >>> clocks_of(np.array([pack(chess.Board("7k/8/8/8/8/8/8/K5R1 w - - 80 1"))])).tolist()
    [80]
    """
    return np.asarray(words[:, META] >> np.uint64(CLOCK_SHIFT) & np.uint64(CLOCK_BITS), np.int64)


def _placements(words: NDArray[np.uint64]) -> list[str]:
    if not len(words):
        return []
    men = np.ascontiguousarray(words[:, : NO_MAN + 2]).astype("<u8").view(np.uint8)
    bits = np.unpackbits(men, axis=1, bitorder="little").reshape(len(words), -1, 8, 8)
    board = np.full((len(words), 8, 8), _EMPTY, np.uint8)  # ranks from the first
    for kind, letter in enumerate(_LETTERS):
        board += bits[:, kind] * np.uint8(letter - _EMPTY)
    board += bits[:, BLACK] * np.uint8(ord("a") - ord("A"))
    ranks, which = np.unique(board[:, ::-1].reshape(-1).view(np.uint64), return_inverse=True)
    text = b"\n".join(ranks.view("V8").tolist()).decode("ascii")  # ranks repeat: each is written once
    for run in range(8, 0, -1):
        text = text.replace(chr(_EMPTY) * run, str(run))
    texts = np.array(text.splitlines(), object)
    return list(map("/".join, texts[which].reshape(-1, 8).tolist()))


OnBadLine = Callable[[int, InvalidPositionError], object]


def read_lines(
    lines: Sequence[bytes], first: int, on_bad: OnBadLine
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Returns the positions of lines, `[R, 10]`, as `read_fen_lines` reads them, and their move numbers.

    Args:
      lines: lines without their newlines.
      first: the number of the first line.
      on_bad: called with the number of each line that holds no legal position, and the reason.

    >>> words, numbers = read_lines([b"# two", b"8/8/8/8/8/8/8/K1k5 w - - 7 30", b"e4"], 1, print)
    3 a FEN needs at least four fields (pieces, side to move, castling, en passant), not 'e4'
    >>> words.shape, numbers.tolist()
    ((1, 10), [30])
    """
    words, numbers = list[NDArray[np.uint64]](), list[int]()
    for number, item in read_fen_lines(line.decode("utf-8", "replace") for line in lines):
        if isinstance(item, InvalidPositionError):
            on_bad(first + number - 1, item)
        else:
            words.append(pack_checked(item))
            numbers.append(item.fullmove_number)
    return np.array(words, np.uint64).reshape(-1, POSITION_WORDS), np.array(numbers, np.int64)


class TextLines:
    """Reads a text's lines as bytes, as many at once as are available; does not wait to fill a buffer."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        """Starts at the first line of `file`, from `open_file` or standard input; `name` is for messages."""
        self._file, self._name = cast(io.BufferedReader, file), name
        self._number = 1  # of the next line
        self._lines: list[bytes] = []  # complete lines
        self._rest = b""  # the start of the next line
        self._ended = False

    def read(self, most: int) -> tuple[int, list[bytes]]:
        """Returns the next line's number and up to `most` lines without newlines; none at the end.

        Raises:
          InputFileError: if the next line is longer than LINE.
        """
        while not self._lines and not self._ended:
            self._read()
        found, self._lines = self._lines[:most], self._lines[most:]
        first, longest = self._number, LINE.most
        if max(map(len, found), default=0) > longest:
            fitting = next(i for i, line in enumerate(found) if len(line) > longest)
            if not fitting:
                raise long_line(self._name, first)
            found, self._lines = found[:fitting], found[fitting:]
        self._number += len(found)
        return first, found

    def is_waiting(self) -> bool:
        """Returns whether `read` may block: no line is buffered, and the file has no data ready."""
        try:
            return not (self._lines or self._ended or is_readable(self._file.fileno()))
        except (OSError, ValueError):  # the system does not know the file
            return False

    def _read(self) -> None:
        piece = self._file.read1(PIECE)
        *self._lines, self._rest = (self._rest + piece).split(b"\n")
        self._ended = not piece
        if self._rest and (self._ended or len(self._rest) > LINE.most):
            self._lines.append(self._rest)
            self._rest = b""
