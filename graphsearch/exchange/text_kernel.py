"""Formats rows of values as text with literals between them, and computes the names of moves.

form     consecutive fields: literal, value, literal; or another literal if there is no value
record   head, then its items as a list: open, item, separator, item, ..., close; then tail
         or for each item a line: head, item, tail
name     the SAN or UCI of a move in one word, its first letter in the lowest byte, 0 after the last
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import by_address, inner, kernel
from ..jit.pointers import ONE, ZERO, U, adv, ptr
from ..jit.types import Pointer, int64, uint8, uint16, uint64
from ..position.board_kernel import (
    PW,
    from_square,
    generate_moves,
    in_check,
    make_move,
    position_key,
    promotion_of,
    side_to_move,
    to_square,
)
from ..position.legality_kernel import ROOM
from ..position.rules_kernel import CHECK, MATE
from ..position.words import BLACK, KINGS, PAWNS, WHITE, BoardTable, Position
from ..position.writing_kernel import (
    DASH,
    LETTERS,
    LOWER_A,
    NOUGHT,
    RANK_ONE,
    SMALL,
    SPACE,
    write_fen,
    write_float,
    write_integer,
)

INTEGER, FLOAT, NAME, HEX, TEXT, FEN, FEN_BODY, FIXED = range(8)  # kinds of values
FIELD_WORDS = 8  # kind, decimals, then start and end of the three literals
POINT, PLUS, CAPTURE, EQUALS, MATED, CASTLES = b".+x=#O"
CASTLING_STEP = 2
HEX_DIGITS = tuple(b"0123456789abcdef")


@by_address
class Form(NamedTuple):
    """The F fields of some rows.

    `size`: F. `fields`: int64[F * FIELD_WORDS]. `literals`: uint8. `data`: int64[F * rows], for a FIXED value
    twice its digits, plus 1 if negative. `valid`: uint8[F * rows]. `texts`: uint8; `ends`: int64, end of each
    text.
    """

    size: int64
    fields: Pointer[int64]
    literals: Pointer[uint8]
    data: Pointer[int64]
    valid: Pointer[uint8]
    texts: Pointer[uint8]
    ends: Pointer[int64]


# ------------------------------------------------------------------ names
@inner
def _put(name: uint64, at: int64, letter: int64) -> uint64:
    return name | (U(letter) << U(8 * at))


@inner
def _put_square(name: uint64, at: int64, square: int64) -> uint64:
    name = _put(name, at, LOWER_A + (square & 7))
    return _put(name, at + 1, RANK_ONE + (square >> 3))


@inner
def _kind_on(s: Position, square: int64) -> int64:
    kind = int64(0)
    while not (s[kind] >> U(square)) & ONE:
        kind += 1
    return kind


@inner
def _rivals(s: Position, kind: int64, moves: Pointer[uint16], n: int64, m: uint16) -> tuple[bool, bool, bool]:
    """Returns whether other pieces of a kind reach the square: (any, on the same file, on the same rank)."""
    some, file, rank = False, False, False
    origin, target = from_square(m), to_square(m)
    for i in range(n):
        other = from_square(moves[i])
        if other != origin and to_square(moves[i]) == target and (s[kind] >> U(other)) & ONE:
            some = True
            file |= other & 7 == origin & 7
            rank |= other >> 3 == origin >> 3
    return some, file, rank


@inner
def _castling_name(origin: int64, target: int64) -> tuple[uint64, int64]:
    name = _put(_put(_put(ZERO, int64(0), CASTLES), int64(1), DASH), int64(2), CASTLES)
    if target > origin:
        return name, int64(3)
    return _put(_put(name, int64(3), DASH), int64(4), CASTLES), int64(5)


@inner
def _piece_name(
    s: Position, kind: int64, moves: Pointer[uint16], n: int64, m: uint16
) -> tuple[uint64, int64]:
    """Returns the letter of a piece with its disambiguation, and the length."""
    name, at = _put(ZERO, int64(0), LETTERS[kind]), int64(1)
    some, file, rank = (False, False, False) if kind == KINGS else _rivals(s, kind, moves, n, m)
    if some and (not file or rank):
        name = _put(name, at, LOWER_A + (from_square(m) & 7))
        at += 1
    if some and file:
        name = _put(name, at, RANK_ONE + (from_square(m) >> 3))
        at += 1
    return name, at


@inner
def _san(s: Position, moves: Pointer[uint16], n: int64, m: uint16, mark: int64) -> uint64:
    origin, target = from_square(m), to_square(m)
    kind = _kind_on(s, origin)
    ours = s[WHITE + side_to_move(s)]
    castles = kind == KINGS and (
        abs((origin & 7) - (target & 7)) == CASTLING_STEP or ((ours >> U(target)) & ONE) != ZERO
    )
    name, at = ZERO, int64(0)
    if castles:
        name, at = _castling_name(origin, target)
    else:
        takes = ((s[WHITE] | s[BLACK]) >> U(target)) & ONE != ZERO
        if kind == PAWNS:
            takes = (origin ^ target) & 7 != 0
            if takes:
                name, at = _put(ZERO, int64(0), LOWER_A + (origin & 7)), int64(1)
        else:
            name, at = _piece_name(s, kind, moves, n, m)
        if takes:
            name = _put(name, at, CAPTURE)
            at += 1
        name = _put_square(name, at, target)
        at += 2
        if promotion_of(m):
            name = _put(_put(name, at, EQUALS), at + 1, LETTERS[promotion_of(m)])
            at += 2
    if mark:
        name = _put(name, at, MATED if mark & MATE else PLUS)
    return name


@inner
def _uci(m: uint16) -> uint64:
    name = _put_square(_put_square(ZERO, int64(0), from_square(m)), int64(2), to_square(m))
    if promotion_of(m):
        name = _put(name, int64(4), LETTERS[promotion_of(m)] + SMALL)
    return name


@inner
def _mark(T: BoardTable, c: Position, replies: Pointer[uint16]) -> int64:
    """Returns CHECK if the side to move is in check, CHECK | MATE if mated, else 0."""
    if not in_check(T, c):
        return int64(0)
    return int64(CHECK | MATE) if generate_moves(T, c, replies) == 0 else int64(CHECK)


@kernel
def name_moves(
    T: NDArray[np.uint64],
    words: NDArray[np.uint64],
    of: NDArray[np.int64],
    codes: NDArray[np.uint16],
    sans: NDArray[np.uint64],
    ucis: NDArray[np.uint64],
    keys: NDArray[np.uint64],
    marks: NDArray[np.uint8],
) -> int64:
    """Fills the names of moves, the keys of the positions after them, and marks of check and mate.

    Args:
      T: the table of `position/tables.py`. words: `[R * 10]` uint64.
      of: `[M]` int64, the position of each move; moves of one position are adjacent. codes: `[M]` uint16.
      sans, ucis, keys: `[M]` uint64, filled. marks: `[M]` uint8, filled: CHECK | MATE.
    """
    Tp = ptr(T, 0)
    moves, replies, child = np.zeros(ROOM, np.uint16), np.zeros(ROOM, np.uint16), np.zeros(PW, np.uint64)
    c, n, last = ptr(child, 0), int64(0), int64(-1)
    for k in range(len(of)):
        s = ptr(words, PW * int64(of[k]))
        if of[k] != last:
            n, last = int64(generate_moves(Tp, s, ptr(moves, 0))), int64(of[k])
        make_move(Tp, s, c, codes[k])
        mark = _mark(Tp, c, ptr(replies, 0))
        sans[k] = _san(s, ptr(moves, 0), n, codes[k], mark)
        ucis[k] = _uci(codes[k])
        keys[k] = position_key(Tp, c)
        marks[k] = uint8(mark)
    return int64((child[0] & ZERO) + U((moves[0] + replies[0]) & 0))


# ------------------------------------------------------------------ values
@inner
def write_copy(source: Pointer[uint8], begin: int64, end: int64, out: Pointer[uint8], at: int64) -> int64:
    """Writes `source[begin:end]`; returns the new end of the output."""
    for i in range(begin, end):
        out[at] = source[i]
        at += 1
    return at


@inner
def write_name(name: uint64, out: Pointer[uint8], at: int64) -> int64:
    """Writes the name of a move; returns the new end of the output."""
    while name:
        out[at] = uint8(name & U(255))
        name >>= U(8)
        at += 1
    return at


@inner
def _write_hex(value: uint64, out: Pointer[uint8], at: int64) -> int64:
    for i in range(16):
        out[at + i] = HEX_DIGITS[int64(value >> U(60 - 4 * i)) & 15]
    return at + 16


@inner
def write_fixed(value: int64, decimals: int64, out: Pointer[uint8], at: int64) -> int64:
    """Writes a FIXED value with `decimals` digits after the point; negative `decimals`: with a plus sign."""
    if value & 1:
        out[at] = DASH
        at += 1
    elif decimals < 0:
        out[at] = PLUS
        at += 1
    places = abs(decimals)
    unit = int64(1)
    for _ in range(places):
        unit *= 10
    digits = value >> 1
    at = write_integer(digits // unit, out, at)
    out[at] = POINT
    rest = digits % unit
    for i in range(at + places, at, -1):
        out[i] = NOUGHT + rest % 10
        rest //= 10
    return at + 1 + places


@inner
def _write_body(s: Position, out: Pointer[uint8], at: int64) -> int64:
    """Writes the first four fields of a FEN."""
    at = write_fen(s, int64(0), out, at) - 1
    for _ in range(2):
        at -= 1
        while out[at] != SPACE:
            at -= 1
    return at


@inner
def _write_value(
    powers: Pointer[uint64],
    kind: int64,
    decimals: int64,
    value: int64,
    s: Position,
    f: Form,
    out: Pointer[uint8],
    at: int64,
) -> int64:
    if kind == INTEGER:
        return write_integer(value, out, at)
    if kind == FLOAT:
        return write_float(powers, value, out, at)
    if kind == NAME:
        return write_name(U(value), out, at)
    if kind == HEX:
        return _write_hex(U(value), out, at)
    if kind == FEN:
        return write_fen(s, value, out, at)
    if kind == FEN_BODY:
        return _write_body(s, out, at)
    if kind == FIXED:
        return write_fixed(value, decimals, out, at)
    return write_copy(f.texts, f.ends[value - 1] if value else int64(0), f.ends[value], out, at)


@inner
def _write_row(
    powers: Pointer[uint64],
    f: Form,
    rows: int64,
    row: int64,
    s: Position,
    out: Pointer[uint8],
    at: int64,
) -> int64:
    """Writes the fields of one row; returns the new end of the output."""
    for i in range(f.size):
        field = adv(f.fields, FIELD_WORDS * i)
        if f.valid[rows * i + row]:
            at = write_copy(f.literals, field[2], field[3], out, at)
            at = _write_value(powers, field[0], field[1], f.data[rows * i + row], s, f, out, at)
            at = write_copy(f.literals, field[4], field[5], out, at)
        else:
            at = write_copy(f.literals, field[6], field[7], out, at)
    return at


@kernel
def write_records(
    powers: NDArray[np.uint64],
    words: NDArray[np.uint64],
    head: Form,
    item: Form,
    tail: Form,
    begins: NDArray[np.int64],
    joints: NDArray[np.uint8],
    places: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> int64:
    """Writes records; returns their length in bytes.

    Args:
      powers: `load_powers()`. words: `[R * 10]` uint64, the positions for FENs.
      head, item, tail: `Form`; head and tail have one row per record, item one per item.
      begins: `[R + 1]` int64, index of each record's first item.
      joints: uint8, the texts open, separator, close and empty. places: int64[9], start and end of each text
        in `joints`; then 1 to write a line for each item, with `empty` in place of the item of a record
        without items.
      out: uint8, with room for the text.
    """
    rows, items = len(begins) - 1, int64(begins[len(begins) - 1])
    P, J, text, at = ptr(powers, 0), ptr(joints, 0), ptr(out, 0), int64(0)
    for r in range(rows):
        s = ptr(words, PW * r)
        begin, end = begins[r], begins[r + 1]
        start = at
        at = _write_row(P, head, rows, int64(r), s, text, at)
        size = at - start
        if begin == end:
            at = write_copy(J, places[6], places[7], text, at)
        elif places[8] == 0:
            at = write_copy(J, places[0], places[1], text, at)
        for k in range(begin, end):
            if k > begin and places[8]:
                at = write_copy(text, start, start + size, text, at)
            elif k > begin:
                at = write_copy(J, places[2], places[3], text, at)
            at = _write_row(P, item, items, int64(k), s, text, at)
            if places[8] and k + 1 < end:
                at = _write_row(P, tail, rows, int64(r), s, text, at)
        if begin < end and places[8] == 0:
            at = write_copy(J, places[4], places[5], text, at)
        at = _write_row(P, tail, rows, int64(r), s, text, at)
    return at
