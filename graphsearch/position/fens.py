"""Writes FENs and keys of many packed positions, and reads packed positions from lines of FEN and EPD."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import BinaryIO, cast

import chess
import numpy as np
from numpy.typing import NDArray

from ..base.errors import InvalidPositionError
from ..base.limits import FEN, LINE, PIECE, long_line
from ..base.system import is_readable
from .board import FREE_CLOCK, MAX_CLOCK, POSITION_WORDS, key_text_of_words, pack_checked, unpack
from .notation import read_fen_lines
from .rules_kernel import accept_all
from .tables import load_tables
from .words import (
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
    KEY,
    META,
    NO_MAN,
)

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

_RANK = rb"(?:[1-8]?[pnbrqkPNBRQK])*[1-8]?"
_PLAIN_LINE = re.compile(
    rb"((?:%s/){7}%s) ([wb]) (-|(?=[KQkq])K?Q?k?q?) (-|[a-h][1-8])" % (_RANK, _RANK)
    + rb"(?: (\d{1,3}) ([1-9]\d{0,3}))?(?: (?!moves)[A-Za-z][ -~]*;[ -~]*)?\r?"
)
_EMPTY_RUNS = [(str(run).encode(), bytes([_EMPTY]) * run) for run in range(1, 9)]
_PLACEMENT_BYTES = 8 * 9 - 1  # 64 squares, and seven slashes


def read_lines(
    lines: Sequence[bytes], first: int, on_bad: OnBadLine
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Returns the positions of lines, `[R, 10]` packed, and their fullmove numbers, `[R]`.

    Reads lines as `read_fen_lines` does: blank lines and comments have no position. That takes 50 us a line;
    a plain line takes 5: it has single blanks, standard castling, both clocks or none, and certainly a legal
    position.

    Args:
      lines: lines without their newlines.
      first: the number of the first line.
      on_bad: called with the number of each line that holds no legal position, and the reason.

    >>> words, numbers = read_lines([b"# two", b"8/8/8/8/8/8/8/K1k5 w - - 7 30", b"e4"], 1, print)
    3 a FEN needs at least four fields (pieces, side to move, castling, en passant), not 'e4'
    >>> words.shape, numbers.tolist()
    ((1, 10), [30])
    """
    words = np.zeros((len(lines), POSITION_WORDS), np.uint64)
    numbers, found = np.zeros(len(lines), np.int64), np.zeros(len(lines), np.bool_)
    _read_plain_lines(lines, words, numbers, found)
    for row in np.flatnonzero(~found).tolist():
        for _, item in read_fen_lines([lines[row].decode("utf-8", "replace")]):
            if isinstance(item, InvalidPositionError):
                on_bad(first + row, item)
                continue
            words[row], numbers[row], found[row] = pack_checked(item), item.fullmove_number, True
    return words[found], numbers[found]


def _read_plain_lines(
    lines: Sequence[bytes],
    words: NDArray[np.uint64],
    numbers: NDArray[np.int64],
    found: NDArray[np.bool_],
) -> None:
    """Fills the rows of plain lines; `found`: out, which rows those are."""
    rows, placements, longest = list[int](), list[bytes](), FEN.most
    squares = np.full(len(lines), -1, np.int64)
    for row, line in enumerate(lines):
        plain = _PLAIN_LINE.fullmatch(line) if len(line) <= longest else None
        if plain is None or b"hmvc" in line or b"fmvn" in line:
            continue
        placement, turn, rights, square, clock, number = plain.groups()
        for run, empty in _EMPTY_RUNS:
            placement = placement.replace(run, empty)
        if len(placement) != _PLACEMENT_BYTES or int(clock or 0) > MAX_CLOCK:
            continue
        rows.append(row)
        placements.append(placement)
        words[row, META] = _meta_of(turn, rights, int(clock or 0))
        numbers[row] = int(number or 1)
        if square != b"-":
            squares[row] = chess.SQUARE_NAMES.index(square.decode())
    ranks = np.frombuffer(b"/".join([*placements, b""]), np.uint8).reshape(-1, 8, 9)
    is_even = (ranks[:, :, 8] == ord("/")).all(axis=1)
    at = np.array(rows, np.int64)[is_even]
    words[at, :META] = _men_of(ranks[is_even, ::-1, :8])
    of_plain, accepted = words[at], np.zeros(len(at), np.bool_)
    accept_all(load_tables(), of_plain.reshape(-1), squares[at], accepted)
    words[at], found[at] = of_plain, accepted


@lru_cache(maxsize=1 << 12)
def _meta_of(turn: bytes, rights: bytes, clock: int) -> int:
    """Returns META, without en passant, of the fields of a FEN."""
    castling = sum(1 << i for i, letter in enumerate(b"KQkq") if letter in rights)
    return (turn == b"b") | castling << CASTLING_SHIFT | clock << CLOCK_SHIFT


def _men_of(board: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Returns the words of the men, `[R, 8]`, of letters by rank and file, `[R, 8, 8]`."""
    upper = board & np.uint8(0xDF)  # ASCII's difference between large and small letters
    letters = np.frombuffer(_LETTERS, np.uint8)
    is_man, is_small = board != _EMPTY, board != upper
    masks = [upper == letter for letter in letters] + [is_man & ~is_small, is_man & is_small]
    bits = np.packbits(np.stack(masks, axis=1).reshape(-1, len(masks), 64), axis=2, bitorder="little")
    return bits.view("<u8").reshape(-1, len(masks))


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
