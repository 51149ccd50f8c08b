"""Static exchange and the quiescence search of the built-in evaluator, on an explicit stack of frames."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, uint16

from .board import PW, bishop_attacks, generate_moves, in_check, is_dead, make_move, piece_at, rook_attacks
from .evaluation_terms import INFO_WORDS, scaled, static_packed
from .jit import ONE, ZERO, U, adv, as_u16, inner, kernel, ptr
from .tables import KI, KN, PA

MATE = 100_000  # a lost position with no move; less the plies to it
FAR = 200_000  # beyond every score
BIAS = 1 << 20  # makes scores and keys unsigned
PLAIN_VALUES = np.array([1000, 3200, 3400, 5000, 9500, 50_000, 0], np.int64)  # of SEE and move order
PROMOTION_GAIN = 8500
DELTA_MARGIN = 1500  # a capture must be able to bring the score within this of alpha

# A frame: the position, the position that its best line ends in, and the state of its loop.
LEAF = PW
ALPHA, BETA, BEST = (
    np.int64(20),
    np.int64(21),
    np.int64(22),
)  # as arguments, plain numbers would each compile anew
NEXT, COUNT, LIST = 23, 24, 25
FRAME_WORDS = LIST + 256
MAX_PLY = 16
MOVES_WORDS = 64  # 256 moves of 16 bits
AREA_WORDS = 2 * INFO_WORDS
NODES = (MAX_PLY + 1) * FRAME_WORDS + MOVES_WORDS + AREA_WORDS  # of the last search, its first included
SEARCH_WORDS = NODES + 1


@inner
def _get(frame: Any, i: Any) -> Any:
    return int64(frame[i]) - BIAS


@inner
def _put(frame: Any, i: Any, value: Any) -> Any:
    frame[i] = U(int64(value) + BIAS)


@inner
def attackers_of(T: Any, s: Any, sq: Any, occupied: Any) -> Any:
    """Returns the pieces of both sides that attack a square."""
    out = T[KN + sq] & s[1] | T[KI + sq] & s[5]
    out |= T[PA + 64 + sq] & s[0] & s[6] | T[PA + sq] & s[0] & s[7]
    out |= rook_attacks(T, sq, occupied) & (s[3] | s[4])
    return out | bishop_attacks(T, sq, occupied) & (s[2] | s[4])


@inner
def least_of(s: Any, pieces: Any) -> Any:
    """Returns the least kind among some pieces, 6 if there are none."""
    for kind in range(6):
        if s[kind] & pieces:
            return kind
    return 6


@inner
def exchange(T: Any, s: Any, m: Any, gains: Any) -> Any:
    """Returns what a move wins by captures on its target square, in thousandths (static exchange)."""
    mm = int64(m)
    start, target = mm & 63, (mm >> 6) & 63
    side = int64(s[8] & ONE)
    mover = piece_at(s, start)
    victim = piece_at(s, target)
    if mover == 0 and victim == 6 and (start & 7) != (target & 7):
        victim = 0
    _put(gains, int64(0), PLAIN_VALUES[victim] + (PROMOTION_GAIN if mm >> 12 else 0))
    standing = PLAIN_VALUES[4] if mm >> 12 else PLAIN_VALUES[mover]
    occupied = (s[6] | s[7]) ^ (ONE << U(start))
    depth = 0
    side = 1 - side
    attackers = attackers_of(T, s, target, occupied)
    while True:
        own = attackers & occupied & s[6 + side]
        kind = least_of(s, own)
        if kind == 6 or (kind == 5 and attackers & occupied & s[7 - side]):
            break
        depth += 1
        _put(gains, depth, standing - _get(gains, depth - 1))
        standing = PLAIN_VALUES[kind]
        piece = own & s[kind]
        occupied ^= piece & ~(piece - ONE)
        if kind != 1 and kind != 5:
            attackers |= rook_attacks(T, target, occupied) & (s[3] | s[4])
            attackers |= bishop_attacks(T, target, occupied) & (s[2] | s[4])
        side = 1 - side
    while depth > 0:
        _put(gains, depth - 1, min(_get(gains, depth - 1), -_get(gains, depth)))
        depth -= 1
    return _get(gains, int64(0))


@inner
def capture_gain(s: Any, m: Any) -> Any:
    """Returns the plain worth of what a move takes or becomes; 0 for a quiet move."""
    mm = int64(m)
    target = (mm >> 6) & 63
    gain = int64(0)
    if ((s[6] | s[7]) >> U(target)) & ONE:
        gain = PLAIN_VALUES[piece_at(s, target)]
    elif target + 1 == int64((s[8] >> U(5)) & U(127)) and (s[0] >> U(mm & 63)) & ONE:
        gain = PLAIN_VALUES[0]
    if mm >> 12:
        gain += PROMOTION_GAIN if mm >> 12 == 4 else -PLAIN_VALUES[5]
    return gain


@inner
def flip_move(m: Any, stm: Any) -> Any:
    """Returns a move seen by the side to move: Black's ranks are mirrored; its own inverse."""
    return uint16(m ^ (stm * (56 | 56 << 6)))


@inner
def order_key(s: Any, m: Any, gain: Any) -> Any:
    """Returns the word that orders a move: worth of the gain, lesser piece first, then squares.

    The squares break ties as the side to move sees them: a position and its colour flip are searched alike.
    """
    key = gain * 8 - piece_at(s, int64(m) & 63) + BIAS
    return (U(key) << U(32)) | (U(flip_move(m, int64(s[8] & ONE))) << U(16))


@inner
def list_moves_to_try(T: Any, frame: Any, moves: Any, n: Any, everything: Any, floor: Any) -> Any:
    """Fills the frame's list with keys above moves, best key highest: all moves, or promising captures."""
    count = 0
    for i in range(n):
        m = moves[i]
        gain = capture_gain(frame, m)
        if not everything:
            if gain <= 0 or gain <= floor:
                continue
            mover = PLAIN_VALUES[piece_at(frame, int64(m) & 63)]
            if mover > gain and exchange(T, frame, m, adv(frame, LIST + count)) < 0:
                continue
        frame[LIST + count] = order_key(frame, m, gain)
        count += 1
    frame[COUNT] = U(count)


@inner
def take_best(frame: Any) -> Any:
    """Returns the word with the highest key left in the frame's list, which moves on."""
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
def copy_words(source: Any, target: Any, n: Any) -> Any:
    """Copies words."""
    for i in range(n):
        target[i] = source[i]


@inner
def needs_static(T: Any, frame: Any, ply: Any, full: Any) -> Any:
    """Returns whether a frame starts from its static score, and sets its best score to what it is without."""
    frame[NEXT] = ZERO
    frame[COUNT] = ZERO
    copy_words(frame, adv(frame, LEAF), PW)
    _put(frame, BEST, int64(-FAR))
    return ply == MAX_PLY or not (full or in_check(T, frame))


@inner
def expand(T: Any, frame: Any, moves: Any, ply: Any, quiet: Any) -> Any:
    """Lists the moves to try in a frame that its best score so far does not end."""
    best = _get(frame, BEST)
    if ply == MAX_PLY or best >= _get(frame, BETA):
        return
    n = generate_moves(T, frame, moves)
    if n == 0:
        best = ply - MATE if in_check(T, frame) else int64(0)
    alpha = max(best, _get(frame, ALPHA))
    _put(frame, BEST, best)
    _put(frame, ALPHA, alpha)
    list_moves_to_try(T, frame, moves, n, not quiet, alpha - best - DELTA_MARGIN)


@inner
def close_frame(frame: Any, child: Any) -> Any:
    """Takes the score of a finished child into the frame above it."""
    score = -_get(child, BEST)
    if score <= _get(frame, BEST):
        return
    _put(frame, BEST, score)
    copy_words(adv(child, LEAF), adv(frame, LEAF), PW)
    if score > _get(frame, ALPHA):
        _put(frame, ALPHA, score)
        if score >= _get(frame, BETA):
            frame[COUNT] = ZERO


@inner
def quiescence(T: Any, W: Any, stack: Any, alpha: Any, beta: Any, depth: Any) -> Any:
    """Returns the score of the position in the first frame, seen by the side to move there.

    Tries every move on the first `depth` plies and in check, else captures and promotions that the exchange
    does not lose. `stack` has `SEARCH_WORDS` words; the leaf that the score comes from is left in
    the first frame.
    """
    moves = as_u16(adv(stack, (MAX_PLY + 1) * FRAME_WORDS))
    area = adv(stack, (MAX_PLY + 1) * FRAME_WORDS + MOVES_WORDS)
    _put(stack, ALPHA, alpha)
    _put(stack, BETA, beta)
    ply = int64(0)
    fresh = True
    nodes = 0
    while True:
        frame = adv(stack, ply * FRAME_WORDS)
        child = adv(frame, FRAME_WORDS)
        if fresh:
            nodes += 1
            quiet = needs_static(T, frame, ply, ply < depth)
            if is_dead(frame):
                _put(frame, BEST, int64(0))
            else:
                if quiet:
                    _put(frame, BEST, scaled(frame, static_packed(T, W, frame, area)))
                expand(T, frame, moves, ply, quiet)
        if frame[NEXT] < frame[COUNT]:
            move = uint16((take_best(frame) >> U(16)) & U(0xFFFF))
            make_move(T, frame, child, flip_move(move, int64(frame[8] & ONE)))
            _put(child, ALPHA, -_get(frame, BETA))
            _put(child, BETA, -_get(frame, ALPHA))
            ply += 1
            fresh = True
        elif ply == 0:
            stack[NODES] = U(nodes)
            return _get(frame, BEST)
        else:
            ply -= 1
            close_frame(adv(stack, ply * FRAME_WORDS), frame)
            fresh = False


@kernel
def quiescent_score(T: Any, W: Any, words: Any, alpha: Any, beta: Any, stack: Any) -> Any:
    """Returns the quiescence score of `words` (uint64[10]) in a window; `stack` is uint64[SEARCH_WORDS]."""
    for i in range(PW):
        stack[i] = words[i]
    return quiescence(ptr(T, 0), ptr(W, 0), ptr(stack, 0), int64(alpha), int64(beta), int64(0))


@kernel
def exchange_of(T: Any, words: Any, move: Any, gains: Any) -> Any:
    """Returns what a move wins on its target square; `gains` is uint64[32]."""
    return exchange(ptr(T, 0), ptr(words, 0), move, ptr(gains, 0))
