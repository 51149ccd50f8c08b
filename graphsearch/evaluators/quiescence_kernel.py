"""Quiescence search on an explicit stack of frames, over any static evaluation.

    stack    FRAMES frames, one for each ply | room for a list of moves | NODES

A search may begin at a higher frame (`first`). The frames below it hold the positions that led there, for
static evaluations that are cheaper to update than to compute.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..jit.compiler import inner
from ..jit.pointers import ONE, ZERO, U, adv, ctz, view
from ..jit.types import Pointer, int64, uint16, uint64
from ..position import board_kernel as rules
from ..position.board import (
    BISHOPS,
    BLACK,
    CLOCK_DRAW,
    KINGS,
    KNIGHTS,
    NO_MAN,
    PAWNS,
    QUEENS,
    ROOKS,
    WHITE,
    BoardTable,
    Position,
)
from ..position.tables import KI, KN, PA
from ..position.values import FAR, MATE

# ---------------------------------------------------------------------------------- captures
BIAS = 1 << 20  # makes scores and keys unsigned
PLAIN_VALUES = np.array([1000, 3200, 3400, 5000, 9500, 50_000, 0], np.int64)  # by kind; thousandths of a pawn
PROMOTION_GAIN = 8500
# a word of a list of moves: bit 0 DOUBTFUL | 16-31 the move, seen by its side | 32-63 the order key
ORDER_AT, LISTED_AT, LISTED_MASK = U(32), U(16), U(0xFFFF)
DOUBTFUL = ONE  # the mover is worth more than the gain: the capture may lose the exchange
BYTES_1, BYTES_2 = U(0x00FF00FF00FF00FF), U(0x0000FFFF0000FFFF)  # every second byte, or pair of bytes


@inner
def get(frame: Pointer[uint64], i: int64) -> int64:
    """Reads a signed word of a frame."""
    return int64(frame[i]) - BIAS


@inner
def put(frame: Pointer[uint64], i: int64, value: int64) -> None:
    """Writes a signed word of a frame."""
    frame[i] = U(int64(value) + BIAS)


@inner
def attackers_of(T: BoardTable, s: Position, sq: int64, occupied: uint64) -> uint64:
    """Returns the men of both sides that attack a square, given the occupied squares."""
    out = T[KN + sq] & s[KNIGHTS] | T[KI + sq] & s[KINGS]
    out |= T[PA + 64 + sq] & s[PAWNS] & s[WHITE] | T[PA + sq] & s[PAWNS] & s[BLACK]
    out |= rules.rook_attacks(T, sq, occupied) & (s[ROOKS] | s[QUEENS])
    return out | rules.bishop_attacks(T, sq, occupied) & (s[BISHOPS] | s[QUEENS])


@inner
def flip_ranks(squares: uint64) -> uint64:
    """Returns a bitboard with the ranks mirrored: reverses the bytes."""
    out = ((squares >> U(8)) & BYTES_1) | ((squares & BYTES_1) << U(8))
    out = ((out >> U(16)) & BYTES_2) | ((out & BYTES_2) << U(16))
    return (out >> U(32)) | (out << U(32))


@inner
def nearest_of(pieces: uint64, side: int64) -> uint64:
    """Returns the first square of a bitboard in a side's order, which starts at its own first rank.

    The choice between equal men can decide an exchange, by the sliders behind them. So Black's is the mirror
    image of White's, and a position and its colour flip have the same value.
    """
    if side == 0:
        return pieces & ~(pieces - ONE)
    seen = flip_ranks(pieces)
    return flip_ranks(seen & ~(seen - ONE))


@inner
def exchange(T: BoardTable, s: Position, m: int64 | uint16, gains: Pointer[uint64]) -> int64:
    """Returns the static exchange value of a move: its gain by captures on the target square.

    `gains` is scratch, one word for each capture.
    """
    start, target = rules.from_square(m), rules.to_square(m)
    side = rules.side_to_move(s)
    if (s[WHITE + side] >> U(target)) & ONE:  # castling: king takes own rook
        return int64(0)
    mover = rules.man_at(s, start)
    occupied = (s[WHITE] | s[BLACK]) ^ (ONE << U(start))
    victim = int64(NO_MAN)
    if (occupied >> U(target)) & ONE:
        victim = rules.man_at(s, target)
    elif mover == 0 and (start & 7) != (target & 7):  # en passant
        victim = int64(0)
    put(gains, int64(0), PLAIN_VALUES[victim] + (PROMOTION_GAIN if rules.promotion_of(m) else 0))
    standing = PLAIN_VALUES[4] if rules.promotion_of(m) else PLAIN_VALUES[mover]
    depth = 0
    side = 1 - side
    attackers = attackers_of(T, s, target, occupied)
    while True:
        own, kind = attackers & occupied & s[WHITE + side], 6
        for least in range(6):
            if s[least] & own:
                kind = least
                break
        if kind == 6 or (kind == 5 and attackers & occupied & s[BLACK - side]):
            break
        depth += 1
        put(gains, depth, standing - get(gains, depth - 1))
        standing = PLAIN_VALUES[kind]
        occupied ^= nearest_of(own & s[kind], side)
        hidden = occupied & ~attackers & (s[QUEENS] | s[BISHOPS])
        if hidden and (kind == 0 or kind == 2 or kind == 4):  # a slider may stand behind the man
            attackers |= rules.bishop_attacks(T, target, occupied) & (s[BISHOPS] | s[QUEENS])
        hidden = occupied & ~attackers & (s[QUEENS] | s[ROOKS])
        if hidden and (kind == 3 or kind == 4):
            attackers |= rules.rook_attacks(T, target, occupied) & (s[ROOKS] | s[QUEENS])
        side = 1 - side
    while depth > 0:
        put(gains, depth - 1, min(get(gains, depth - 1), -get(gains, depth)))
        depth -= 1
    return get(gains, int64(0))


@inner
def capture_gain(s: Position, m: uint16 | int64) -> int64:
    """Returns the value of a move's capture and promotion, for move order; 0 for a quiet move."""
    target = rules.to_square(m)
    gain = int64(0)
    if (s[BLACK - rules.side_to_move(s)] >> U(target)) & ONE:
        gain = PLAIN_VALUES[rules.victim_at(s, target)]
    elif target + 1 == rules.en_passant_of(s) and (s[PAWNS] >> U(rules.from_square(m))) & ONE:
        gain = PLAIN_VALUES[0]
    if rules.promotion_of(m):
        gain += PROMOTION_GAIN if rules.promotion_of(m) == 4 else -PLAIN_VALUES[5]
    return gain


@inner
def flip_move(m: int64 | uint16, stm: int64) -> uint16:
    """Returns a move in the view of the side to move: mirrors the ranks for Black; its own inverse."""
    return uint16(m ^ (stm * (56 | 56 << 6)))


@inner
def order_key(s: Position, m: uint16, gain: int64) -> uint64:
    """Returns the word that orders a move: by gain, by lesser piece, then by squares in its side's view."""
    kind = rules.man_at(s, rules.from_square(m))
    return (U(gain * 8 - kind + BIAS) << ORDER_AT) | (U(flip_move(m, rules.side_to_move(s))) << LISTED_AT)


@inner
def has_legal_move(T: BoardTable, s: Position, moves: Pointer[uint16], pinned: uint64, stm: int64) -> bool:
    """Returns whether the side to move, not in check, has a legal move; `moves`: scratch for a move list."""
    us, free = s[WHITE + stm], ~(s[WHITE] | s[BLACK])
    pawns = s[PAWNS] & us & ~pinned
    if (pawns << U(8) if stm == 0 else pawns >> U(8)) & free:
        return True
    knights = s[KNIGHTS] & us & ~pinned
    if knights and T[KN + ctz(knights)] & ~us:
        return True
    return rules.generate_moves(T, s, moves) > 0


# -------------------------------------------------------------------------------- the search
DELTA_MARGIN = 1500  # a capture must be able to bring the score within this of alpha

# A frame: the position, the end of its best line, the state of its loop, its list of moves.
LEAF = rules.PW
# int64: as plain ints each value would compile its own version of `get` and `put`
ALPHA, BETA, BEST = int64(2 * rules.PW), int64(2 * rules.PW + 1), int64(2 * rules.PW + 2)
NEXT, COUNT = 2 * rules.PW + 3, 2 * rules.PW + 4
KEPT = 2 * rules.PW + 5  # owned by the static evaluation; 0 in a new frame
LIST = 2 * rules.PW + 6
FRAME_WORDS = LIST + 256
MAX_PLY = 16  # from the first ply of a search
FRAMES = MAX_PLY + 3
MOVES = FRAMES * FRAME_WORDS
NODES = MOVES + 64  # after 256 moves of 16 bits: the node count of the last search, including the first node
STACK_WORDS = (NODES + 8) // 8 * 8


@inner
def take_best(frame: Pointer[uint64]) -> uint64:
    """Removes the highest word from the rest of the frame's list and returns it."""
    i = int64(frame[NEXT])
    best = i
    for j in range(i + 1, int64(frame[COUNT])):
        if frame[LIST + j] > frame[LIST + best]:
            best = j
    word = frame[LIST + best]
    frame[LIST + best] = frame[LIST + i]
    frame[LIST + i] = word
    frame[NEXT] = U(i + 1)
    return word


@inner
def copy_words(source: Pointer[uint64], target: Pointer[uint64], n: int64) -> None:
    """Copies `n` words."""
    for i in range(n):
        target[i] = source[i]


@inner
def expand_all(T: BoardTable, frame: Pointer[uint64], moves: Pointer[uint16], ply: int64) -> None:
    """Lists every move of a frame; in mate or stalemate sets its best score."""
    n = rules.generate_moves(T, frame, moves)
    best = int64(-FAR)
    if n == 0:
        best = ply - MATE if rules.in_check(T, frame) else int64(0)
    put(frame, BEST, best)
    put(frame, ALPHA, max(best, get(frame, ALPHA)))
    for i in range(n):
        frame[LIST + i] = order_key(frame, moves[i], capture_gain(frame, moves[i]))
    frame[COUNT] = U(n)


@inner
def expand_captures(
    T: BoardTable, frame: Pointer[uint64], moves: Pointer[uint16], best: int64, exact: bool
) -> None:
    """Lists the captures to try in a frame with static score `best`; in stalemate sets its score to 0."""
    stm = rules.side_to_move(frame)
    us, victims = frame[WHITE + stm], frame[BLACK - stm]
    _, pinned = rules.sliders_of(T, frame, ctz(frame[KINGS] & us), victims, us)
    alpha = max(best, get(frame, ALPHA))
    floor = int64(0) if exact else alpha - best - DELTA_MARGIN
    listed = int64(0)
    for kind in range(5):
        if floor >= PLAIN_VALUES[kind]:
            victims &= ~frame[kind]
    for i in range(rules.generate_captures(T, frame, victims, pinned, moves)):
        gain = capture_gain(frame, moves[i])
        if gain > floor:
            kind = rules.man_at(frame, rules.from_square(moves[i]))
            is_doubtful = PLAIN_VALUES[kind] > gain and kind != 5
            word = order_key(frame, moves[i], gain)
            frame[LIST + listed] = word | DOUBTFUL if is_doubtful else word
            listed += 1
    if listed == 0 and not has_legal_move(T, frame, moves, pinned, stm):
        put(frame, BEST, int64(0))
        return
    put(frame, ALPHA, alpha)
    frame[COUNT] = U(listed)


@inner
def is_stalemate(T: BoardTable, frame: Pointer[uint64], moves: Pointer[uint16]) -> bool:
    """Returns whether the side to move has no legal move and is not in check."""
    if rules.in_check(T, frame):
        return False
    stm = rules.side_to_move(frame)
    us = frame[WHITE + stm]
    _, pinned = rules.sliders_of(T, frame, ctz(frame[KINGS] & us), frame[BLACK - stm], us)
    return not has_legal_move(T, frame, moves, pinned, stm)


@inner
def value_at_limit(T: BoardTable, s: Position, ply: int64, moves: Pointer[uint16]) -> int64:
    """Returns the value of a position whose clock has reached 100: a draw, unless it is mate at `ply`."""
    if rules.in_check(T, s) and rules.generate_moves(T, s, moves) == 0:
        return ply - MATE
    return int64(0)


def quiescence_over(
    static_at: Callable[[BoardTable, Pointer[int64], Pointer[uint64], int64, Pointer[uint64]], int64],
    *,
    exact: bool = False,
    keeps_leaf: bool = False,
) -> Callable[[BoardTable, Pointer[int64], Pointer[uint64], Pointer[uint64], int64, int64, int64], int64]:
    """Returns the inner function `search`: quiescence search over a static evaluation.

    Args:
      static_at: an inner function of (T, weights, stack, ply, area) that returns the score of the position in
        the frame at `ply`, in thousandths of a pawn, seen by its side to move, which is not in check unless
        the search has reached MAX_PLY. The frames below hold the line's positions. Each frame has a word
        `KEPT` for the static evaluation's own use, 0 at first.
      exact: the score is a function of the position alone, whatever the window: no capture counts as too
        small to matter, and stalemates and the 50-move rule count everywhere.
      keeps_leaf: writes the position at the end of the best line to `LEAF` of the first frame.
    """

    @inner
    def open_frame(
        T: BoardTable,
        weights: Pointer[int64],
        stack: Pointer[uint64],
        ply: int64,
        area: Pointer[uint64],
        above: int64,
    ) -> None:
        """Sets a frame's best score before any move, and lists the moves to try."""
        frame = adv(stack, ply * FRAME_WORDS)
        moves = view(uint16, adv(stack, MOVES))
        frame[NEXT] = ZERO
        frame[COUNT] = ZERO
        if rules.is_dead(frame):
            put(frame, BEST, int64(0))
        elif exact and rules.clock_of(frame) >= CLOCK_DRAW:
            put(frame, BEST, value_at_limit(T, frame, above, moves))
        elif above < MAX_PLY and rules.in_check(T, frame):
            expand_all(T, frame, moves, above)
        else:
            best = static_at(T, weights, stack, ply, area)
            put(frame, BEST, best)
            if above < MAX_PLY and best < get(frame, BETA):
                expand_captures(T, frame, moves, best, exact)
            elif exact and is_stalemate(T, frame, moves):
                put(frame, BEST, int64(0))

    @inner
    def search(
        T: BoardTable,
        weights: Pointer[int64],
        stack: Pointer[uint64],
        area: Pointer[uint64],
        first: int64,
        alpha: int64,
        beta: int64,
    ) -> int64:
        """Returns the score of the position in the frame `first` (0 to 2), seen by the side to move there.

        Tries every move in check, otherwise captures and promotions that do not lose the exchange.
        """
        root = adv(stack, first * FRAME_WORDS)
        put(root, ALPHA, alpha)
        put(root, BETA, beta)
        ply = int64(first)
        fresh = True
        nodes = 0
        while True:
            frame = adv(stack, ply * FRAME_WORDS)
            if fresh:
                nodes += 1
                if keeps_leaf:
                    copy_words(frame, adv(frame, LEAF), rules.PW)
                open_frame(T, weights, stack, ply, area, ply - first)
                fresh = False
            if frame[NEXT] < frame[COUNT]:
                word = take_best(frame)
                move = flip_move(uint16((word >> LISTED_AT) & LISTED_MASK), rules.side_to_move(frame))
                if word & DOUBTFUL and exchange(T, frame, move, adv(stack, MOVES)) < 0:
                    continue
                child = adv(frame, FRAME_WORDS)
                rules.make_move(T, frame, child, move)
                child[KEPT] = ZERO
                put(child, ALPHA, -get(frame, BETA))
                put(child, BETA, -get(frame, ALPHA))
                ply += 1
                fresh = True
            elif ply == first:
                stack[NODES] = U(nodes)
                return get(frame, BEST)
            else:
                ply -= 1
                parent, score = adv(stack, ply * FRAME_WORDS), -get(frame, BEST)
                if score > get(parent, BEST):
                    put(parent, BEST, score)
                    if keeps_leaf:
                        copy_words(adv(frame, LEAF), adv(parent, LEAF), rules.PW)
                    if score > get(parent, ALPHA):
                        put(parent, ALPHA, score)
                        if score >= get(parent, BETA):
                            parent[COUNT] = ZERO

    return search
