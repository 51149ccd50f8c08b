"""Legal moves, their names and the positions after them, for a batch of packed positions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import chess
import numpy as np
from numpy.typing import NDArray

from ..position.board import (
    BLACK_TO_MOVE,
    CHESS960_BITS,
    CHESS960_SHIFT,
    KINGS,
    MAX_MOVES,
    META,
    MOVE_CODES,
    NO_MAN,
    PAWNS,
    POSITION_WORDS,
    WHITE,
    decode_move,
    encode_move,
    key_texts,
    pack_checked,
)
from ..position.board_kernel import MATE
from ..position.board_kernel import list_moves as _list_moves
from ..position.board_kernel import make_steps as _make_steps
from ..store.record import board_tables, owned

Words = NDArray[np.uint64]  # `[10]` or `[R, 10]`: packed positions; or their keys
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

CASTLING_STEP = 2  # files that a king moves in castling only
TARGET = 63 << 6  # of a move's code

Legal = tuple[NDArray[np.int16], NDArray[np.uint16], NDArray[np.uint8]]  # of `legal_codes`


def legal_codes(words: Words) -> Legal:
    """Returns the legal moves of packed positions, `[R, 10]`: their counts, `[R]`, and two `[R, MAX_MOVES]`.

    These are codes, by `encode_move`, in canonical order, 0 after the last; and marks, CHECK or CHECK | MATE
    for a move that gives it, else 0.
    """
    rows = len(words)
    counts = np.zeros(rows, np.int16)
    moves = np.zeros((rows, MAX_MOVES), np.uint16)
    marks = np.zeros((rows, MAX_MOVES), np.uint8)
    flat = owned(words, np.uint64).reshape(-1)
    _list_moves(board_tables(), flat, counts, moves.reshape(-1), marks.reshape(-1))
    return counts, moves, marks


def positions_after(
    words: Words, of: Sequence[int] | Ints, codes: Sequence[int] | NDArray[np.uint16]
) -> tuple[Words, NDArray[np.uint64]]:
    """Returns the positions after legal moves, `[K, 10]`, and their keys, `[K]`.

    `words`: `[R, 10]`. `of`: `[K]`, row of the position of each move. `codes`: `[K]`, the moves.
    """
    children = np.zeros((len(of), POSITION_WORDS), np.uint64)
    keys = np.zeros(len(of), np.uint64)
    flat = owned(words, np.uint64).reshape(-1)
    where, moves = np.array(of, np.int64), np.array(codes, np.uint16)
    _make_steps(board_tables(), flat, where, moves, children.reshape(-1), keys)
    return children, keys


def castling_of(words: Words) -> Words:
    """Returns what `key_texts` appends to keys of packed positions, `[R, 10]`; 0 for standard castling."""
    return words[:, META] >> np.uint64(CHESS960_SHIFT) & np.uint64(CHESS960_BITS)


def keys_after(board: chess.Board, moves: Sequence[chess.Move]) -> list[str]:
    """Returns `key_text` of the positions after legal moves.

    >>> keys_after(chess.Board(), [chess.Move.from_uci("e2e4")])
    ['823c9b50fd114196']
    """
    words = pack_checked(board).reshape(1, -1)
    return key_texts(positions_after(words, [0] * len(moves), [encode_move(move) for move in moves])[0])


@cache
def code_of(uci: str) -> int:
    """Returns the code of a move in UCI; 0, no move, for `0000`.

    >>> code_of("e2e4"), code_of("0000")
    (1804, 0)
    """
    return encode_move(chess.Move.from_uci(uci)) if uci != "0000" else 0


SAN_BYTES = 7  # of the longest names, as Qa1xb2# and O-O-O#
_LETTERS = np.frombuffer(b"\0NBRQK", np.uint8)  # by kind; a pawn has none
_SLOTS = 10  # of a name: piece, file and rank of its square, x, target, =, promotion, mark, line end


def names_of(
    words: Words, of: Ints, codes: NDArray[np.uint16], legal: Legal | None = None
) -> tuple[NDArray[np.bytes_], NDArray[np.uint8]]:
    """Returns legal moves in SAN, `[K]` of SAN_BYTES bytes, and their marks: CHECK, CHECK | MATE or 0.

    Arguments as those of `positions_after`; `legal`: the legal moves of the positions, if known.
    """
    if not len(of):
        return np.zeros(0, f"S{SAN_BYTES}"), np.zeros(0, np.uint8)
    if legal is None:
        rows, of = np.unique(of, return_inverse=True)
        words = words[rows]
        legal = legal_codes(words)
    most = int(legal[0].max())
    _, moves, marks = legal = legal[0], legal[1][:, :most], legal[2][:, :most]
    mark = marks[of, (moves[of] == codes[:, None]).argmax(1)]
    kinds = _kinds(words)
    origin, target, promotion = codes & 63, codes >> 6 & 63, codes >> 12
    kind = kinds[of, origin]
    own = words[of, WHITE + (words[of, META] & np.uint64(BLACK_TO_MOVE)).astype(np.int64)]
    on_own = own >> target.astype(np.uint64) & np.uint64(1) > 0
    files = np.abs((origin & 7).astype(np.int64) - (target & 7))
    castles = (kind == KINGS) & ((files == CASTLING_STEP) | on_own)
    takes = np.where(kind == PAWNS, files > 0, kinds[of, target] != NO_MAN)
    file, rank = _distinctions(kinds, legal, of, kind, codes)
    file |= (kind == PAWNS) & takes
    text = np.zeros((len(of), _SLOTS), np.uint8)
    text[:, 0] = _LETTERS[kind]
    text[:, 1] = np.where(file, ord("a") + (origin & 7), 0)
    text[:, 2] = np.where(rank, ord("1") + (origin >> 3), 0)
    text[:, 3] = np.where(takes, ord("x"), 0)
    text[:, 4], text[:, 5] = ord("a") + (target & 7), ord("1") + (target >> 3)
    text[:, 6] = np.where(promotion > 0, ord("="), 0)
    text[:, 7] = _LETTERS[promotion]
    for is_long, name in ((False, b"O-O"), (True, b"O-O-O")):
        text[castles & ((target < origin) == is_long), :8] = np.frombuffer(name.ljust(8, b"\0"), np.uint8)
    text[:, 8] = np.where(mark & MATE, ord("#"), np.where(mark, ord("+"), 0))
    text[:, 9] = ord("\n")
    return np.array(text.tobytes().translate(None, b"\0").split(b"\n")[:-1], f"S{SAN_BYTES}"), mark


def _kinds(words: Words) -> NDArray[np.uint8]:
    """Returns the kind of man on each square, `[R, 64]`, NO_MAN for none."""
    men = np.ascontiguousarray(words[:, :NO_MAN]).astype("<u8").view(np.uint8)
    bits = np.unpackbits(men, axis=1, bitorder="little").reshape(len(words), NO_MAN, 64)
    found = np.full((len(words), 64), NO_MAN, np.uint8)
    for kind in range(NO_MAN):
        found -= bits[:, kind] * np.uint8(NO_MAN - kind)
    return found


def _distinctions(
    kinds: NDArray[np.uint8], legal: Legal, of: Ints, kind: NDArray[np.uint8], codes: NDArray[np.uint16]
) -> tuple[Mask, Mask]:
    """Returns which moves need the file, and which the rank, of their origin in SAN."""
    some, file, rank = np.zeros((3, len(of)), bool)
    pieces = np.flatnonzero((kind != PAWNS) & (kind != KINGS))
    where = of[pieces, None]
    rivals = legal[1][of[pieces]]
    apart = rivals ^ codes[pieces, None]
    alike = (apart & TARGET == 0) & (apart & 63 != 0) & (np.arange(rivals.shape[1]) < legal[0][where])
    alike &= kinds[where, rivals & 63] == kind[pieces, None]
    some[pieces] = alike.any(1)
    file[pieces] = (alike & (apart & 7 == 0)).any(1)
    rank[pieces] = (alike & (apart >> 3 & 7 == 0)).any(1)
    return some & (~file | rank), some & file


@cache
def uci_names() -> list[str]:
    """Returns all moves in UCI, by code."""
    return [decode_move(code).uci() for code in range(MOVE_CODES)]
