"""Checks whether packed positions are legal; applies the rules to arrays of them: perft, moves, children.

words    position 0 | position 1 | ...
moves    moves of 0 ----| moves of 1 --| ...
offsets  0              ^              ^
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import ONE, ZERO, U, adv, ctz, popc, ptr, zeros
from ..jit.types import Pointer, int16, int64, uint8, uint16, uint64
from .board import MAX_MOVES
from .board_kernel import (
    PW,
    bishop_attacks,
    chess960_fields,
    en_passant_of,
    generate_moves,
    has_right,
    in_check,
    is_attacked,
    is_dead,
    make_move,
    position_key,
    rook_attacks,
    rook_square,
    side_to_move,
)
from .tables import KN, PA, ZC, ZO
from .words import (
    BISHOPS,
    BLACK,
    CASTLING_BITS,
    CASTLING_SHIFT,
    CHESS960_SHIFT,
    EN_PASSANT_SHIFT,
    KEY,
    KINGS,
    KNIGHTS,
    META,
    MOST_PAWNS,
    NO_MAN,
    PAWNS,
    QUEENS,
    ROOKS,
    WHITE,
    BoardTable,
    Position,
)

BACK_RANKS = U(0xFF000000000000FF)
ROOM = 1024  # sixteen men have at most 16 * 28 moves; a damaged position may have more than a legal one


@inner
def _has_castling(s: Position, right: int64) -> bool:
    if not has_right(s, right):
        return True
    own, rook = s[WHITE + (right >> 1)], rook_square(s[META], right)
    king = ctz(s[KINGS] & own)
    if king >> 3 != 7 * (right >> 1) or not ((s[ROOKS] & own) >> U(rook)) & ONE:
        return False
    return (rook > king) == (right & 1 == 0)


@inner
def _has_all_castling(s: Position) -> bool:
    """Returns whether the castling rights fit the men, and the rest of META fits the rights."""
    for right in range(4):
        if not _has_castling(s, int64(right)):
            return False
    rights = int64(s[META] >> U(CASTLING_SHIFT)) & CASTLING_BITS
    return chess960_fields(s, rights) == (s[META] >> U(CHESS960_SHIFT)) << U(CHESS960_SHIFT)


@inner
def has_passed(s: Position, square: int64) -> bool:
    """Returns whether the last move may have been a pawn's double step over `square`."""
    stm = side_to_move(s)
    ahead = int64(8) if stm == 0 else int64(-8)
    if square >> 3 != (5 if stm == 0 else 2):
        return False
    target, passed, origin = ONE << U(square), ONE << U(square - ahead), ONE << U(square + ahead)
    free = (s[WHITE] | s[BLACK]) & (target | origin) == ZERO
    return free and s[PAWNS] & s[BLACK - stm] & passed != ZERO


@inner
def has_taker(T: BoardTable, s: Position, square: int64) -> bool:
    """Returns whether a pawn of the side to move attacks a square."""
    stm = side_to_move(s)
    return T[PA + 64 * (1 - stm) + square] & s[PAWNS] & s[WHITE + stm] != ZERO


@inner
def _has_en_passant(T: BoardTable, s: Position) -> bool:
    """Returns whether the en passant square, if any, fits a double step and a pawn that attacks it."""
    square = en_passant_of(s) - 1
    return square < 0 or (has_passed(s, square) and has_taker(T, s, square))


@inner
def is_legal(T: BoardTable, s: Position) -> bool:
    """Returns whether a position with one king per side is legal.

    Checks that the side not to move is not in check, and that castling rights and the en passant square fit
    the men.
    """
    stm = side_to_move(s)
    if not _has_all_castling(s):
        return False
    king = ctz(s[KINGS] & s[BLACK - stm])
    return _has_en_passant(T, s) and not is_attacked(T, s, king, s[WHITE] | s[BLACK], 1 - stm)


@inner
def kind_of(T: BoardTable, s: Position, moves: int64) -> int64:
    """Returns the terminal kind, as `terminal_kind` of `board.py` does."""
    if is_dead(s):
        return int64(3)
    if moves:
        return int64(0)
    return int64(1) if in_check(T, s) else int64(2)


@inner
def checkers_of(T: BoardTable, s: Position) -> uint64:
    """Returns the men that give check to the side to move."""
    stm = side_to_move(s)
    king, occupied = ctz(s[KINGS] & s[WHITE + stm]), s[WHITE] | s[BLACK]
    leapers = (T[KN + king] & s[KNIGHTS]) | (T[PA + 64 * stm + king] & s[PAWNS])
    straight = rook_attacks(T, king, occupied) & (s[ROOKS] | s[QUEENS])
    diagonal = bishop_attacks(T, king, occupied) & (s[BISHOPS] | s[QUEENS])
    return (leapers | straight | diagonal) & s[BLACK - stm]


# ------------------------------------------------------------------ positions from text
@inner
def _may_have(s: Position, own: uint64) -> bool:
    pawns = popc(s[PAWNS] & own) + max(0, popc(s[QUEENS] & own) - 1)
    for kind in (KNIGHTS, BISHOPS, ROOKS):
        pawns += max(0, popc(s[kind] & own) - 2)
    return popc(s[KINGS] & own) == 1 and pawns <= MOST_PAWNS


@inner
def _accept(T: BoardTable, s: Position, square: int64) -> bool:
    """Returns whether a position is certainly legal; then adds the en passant `square` (-1: none) to it.

    Double check, and check together with an en passant square, may be impossible: python-chess decides those.
    """
    if s[PAWNS] & BACK_RANKS or not (_may_have(s, s[WHITE]) and _may_have(s, s[BLACK])):
        return False
    checkers = checkers_of(T, s)
    if not is_legal(T, s) or checkers & (checkers - ONE):
        return False
    if square < 0:
        return True
    if checkers or not has_passed(s, square):
        return False
    if has_taker(T, s, square):
        s[META] |= U(square + 1) << U(EN_PASSANT_SHIFT)
    return True


@inner
def _key_of(T: BoardTable, s: Position) -> uint64:
    """Returns the Polyglot key of a position."""
    key = T[ZC + (int64(s[META] >> U(CASTLING_SHIFT)) & CASTLING_BITS)]
    ep = en_passant_of(s)
    if ep:
        key ^= T[ZO + 772 + ((ep - 1) & 7)]
    if side_to_move(s) == 0:
        key ^= T[ZO + 780]
    for kind in range(NO_MAN):
        for side in range(2):
            men = s[kind] & s[WHITE + side]
            while men:
                key ^= T[ZO + 128 * kind + 64 * (1 - side) + ctz(men)]
                men &= men - ONE
    return key


@kernel
def accept_all(
    T: NDArray[np.uint64],
    words: NDArray[np.uint64],
    squares: NDArray[np.int64],
    accepted: NDArray[np.bool_],
) -> None:
    """Completes positions that are certainly legal, as python-chess reads them; castling is standard.

    Args:
      T: the table of `tables.py`.
      words: `[10 B]` uint64 in and out: the men, and META but for en passant; adds en passant and the key.
      squares: `[B]` int64, the squares that a pawn has passed, -1 for none.
      accepted: `[B]` bool out, whether each is certainly legal.
    """
    for i in range(len(squares)):
        s = ptr(words, int64(i) * PW)
        accepted[i] = _accept(ptr(T, 0), s, squares[i])
        s[KEY] = _key_of(ptr(T, 0), s)


# ------------------------------------------------------------------ arrays
CHECK, MATE = 1, 2  # bits of a move's mark
MAX_LEGAL_MOVES = 256  # room for a move list; no legal position has more than 253


@inner
def _perft(
    T: BoardTable, stack: Pointer[uint64], moves: Pointer[uint16], cursor: Pointer[int64], depth: int64
) -> int64:
    """Counts leaf positions with an explicit stack: a position, a move list and a cursor per ply."""
    total = 0
    ply = 0
    cursor[0] = 0
    cursor[1] = generate_moves(T, stack, moves)
    if depth == 1:
        return cursor[1]
    while ply >= 0:
        i = cursor[2 * ply]
        if i == cursor[2 * ply + 1]:
            ply -= 1
            continue
        cursor[2 * ply] = i + 1
        child = adv(stack, (ply + 1) * PW)
        make_move(T, adv(stack, ply * PW), child, moves[ply * MAX_LEGAL_MOVES + i])
        n = generate_moves(T, child, adv(moves, (ply + 1) * MAX_LEGAL_MOVES))
        if ply + 2 == depth:
            total += n
        else:
            ply += 1
            cursor[2 * ply] = 0
            cursor[2 * ply + 1] = n
    return total


@kernel
def perft(T: NDArray[np.uint64], words: NDArray[np.uint64], depth: int64) -> int64:
    """Returns the number of positions `depth` plies below `words` (`uint64[10]`); 1 for depth 0."""
    if depth <= 0:
        return int64(1)
    stack = zeros(uint64, (depth + 1) * PW)
    for i in range(PW):
        stack[i] = words[i]
    moves, cursor = zeros(uint16, (depth + 1) * MAX_LEGAL_MOVES), zeros(int64, 2 * (depth + 1))
    return _perft(ptr(T, 0), stack, moves, cursor, depth)


@kernel
def list_all(
    T: NDArray[np.uint64],
    words: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    moves: NDArray[np.uint16],
    kinds: NDArray[np.uint8],
) -> None:
    """Lists the legal moves and the terminal kind of every position.

    Args:
      T: the table of `tables.py`. words: `[10 B]` uint64.
      offsets: `[B + 1]` int64 out, start of each position's moves.
      moves: `[256 B]` uint16 out, in canonical order.
      kinds: `[B]` uint8 out, as `terminal_kind` of `board.py` returns them.
    """
    offsets[0] = 0
    for b in range(len(kinds)):
        s, at = ptr(words, int64(b) * PW), offsets[b]
        count = generate_moves(ptr(T, 0), s, ptr(moves, at))
        offsets[b + 1] = at + count
        kinds[b] = kind_of(ptr(T, 0), s, count)


@kernel
def list_moves(
    T: NDArray[np.uint64],
    words: NDArray[np.uint64],
    counts: NDArray[np.int16],
    moves: NDArray[np.uint16],
    marks: NDArray[np.uint8],
) -> None:
    """Lists the legal moves of positions in canonical order, and marks those that give check or mate.

    Args:
      T: the table of `tables.py`. words: `[R * 10]` uint64.
      counts: `[R]` int16 out, at most MAX_MOVES; further moves are dropped.
      moves: `[R * MAX_MOVES]` uint16 out, filled up to each count.
      marks: `[R * MAX_MOVES]` uint8 likewise, CHECK | MATE.
    """
    out, replies, c = zeros(uint16, ROOM), zeros(uint16, ROOM), zeros(uint64, PW)
    table = ptr(T, 0)
    for i in range(len(counts)):
        s = adv(ptr(words, 0), PW * i)
        n = min(int64(generate_moves(table, s, out)), int64(MAX_MOVES))
        counts[i] = int16(n)
        for k in range(n):
            moves[MAX_MOVES * i + k] = out[k]
            make_move(table, s, c, out[k])
            mark = int64(0)
            if in_check(table, c):
                mark = CHECK
                if generate_moves(table, c, replies) == 0:
                    mark = CHECK | MATE
            marks[MAX_MOVES * i + k] = uint8(mark)


@kernel
def make_steps(
    T: NDArray[np.uint64],
    words: NDArray[np.uint64],
    of: NDArray[np.int64],
    moves: NDArray[np.uint16],
    children: NDArray[np.uint64],
    keys: NDArray[np.uint64],
) -> None:
    """Writes the positions after legal moves, and their keys.

    Args:
      T: the table of `tables.py`. words: `[R * 10]` uint64.
      of: `[K]` int64, index of each move's position. moves: `[K]` uint16.
      children: `[K * 10]` uint64 out. keys: `[K]` uint64 out.
    """
    table = ptr(T, 0)
    for k in range(len(of)):
        c = adv(ptr(children, 0), PW * k)
        make_move(table, adv(ptr(words, 0), PW * int64(of[k])), c, moves[k])
        keys[k] = position_key(table, c)
