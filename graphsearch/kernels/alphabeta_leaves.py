"""The value of a leaf: quiescence with the built-in evaluation, cached.

It is a function of the position alone, whatever the window: the mover may stand pat on the static evaluation
or try captures and promotions that the exchange does not lose; in check it tries every move. No capture is
left out for being too small to matter, as `evaluation_search.quiescence` does: that differs from
window to window, and the search would no longer be that of plain negamax. A mate found here is one: the
side that is mated tried every move, and the 50-move rule was kept.
"""

from __future__ import annotations

from typing import Any

from numba import int64, uint16

from .alphabeta_layout import (
    ALPHA,
    BEST,
    BETA,
    CACHED,
    COUNT,
    FRAME,
    MOVE_ROOM,
    NEXT,
    QUIESCENCE,
    QUIET_PLIES,
    SCORED,
    STATIC,
)
from .board import (
    PW,
    _emit_en_passant,
    _emit_pawn_moves,
    _emit_pieces,
    clock_of,
    generate_moves,
    in_check,
    is_attacked,
    is_dead,
    make_move,
    piece_at,
)
from .entries import EXACT, LEAST_MATE, LOWER, UPPER
from .evaluation_search import FAR, MATE, PLAIN_VALUES, capture_gain, exchange
from .evaluation_terms import scaled, static_packed
from .jit import ONE, ZERO, U, adv, ctz, inner
from .tables import BE, BT, CT, KI, RE

MOST_STATIC = LEAST_MATE - 1  # nine queens are no mate
CLOCK_DRAW = 100
LAST_RANKS = U(0xFF000000000000FF)
ORDER_BIAS = 1 << 20

# A place of the cache: key ^ data | data: static + 131072 (18 bits), known, value + 131072 (18), bound (2)
CACHE_BIAS = 1 << 17
CACHE_BITS = U((1 << 18) - 1)
KNOWN_STATIC = U(1 << 18)
CACHE_VALUE, CACHE_BOUND = U(19), U(37)


@inner
def key_at(T: Any, s: Any) -> Any:
    """Returns the graph's key of a position: the Polyglot key, and the clock above 75."""
    return s[9] ^ T[CT + clock_of(s)]


@inner
def below_root(value: Any, ply: Any) -> Any:
    """Returns a node's value as the root counts mates, from `ply` plies above."""
    if value >= LEAST_MATE:
        return value - ply
    if value <= -LEAST_MATE:
        return value + ply
    return value


@inner
def from_node(value: Any, ply: Any) -> Any:
    """Returns a root-relative value as the node at `ply` counts mates; the inverse of `below_root`."""
    return below_root(value, -ply)


@inner
def cached(X: Any, key: Any) -> Any:
    """Returns the data word that the cache holds of a position, 0 if none."""
    i = int64(key & X.cache_mask) * 2
    data = X.cache[i + 1]
    return data if X.cache[i] ^ data == key else ZERO


@inner
def keep(X: Any, key: Any, data: Any) -> None:
    """Enters a data word in the cache."""
    i = int64(key & X.cache_mask) * 2
    X.cache[i] = key ^ data
    X.cache[i + 1] = data


@inner
def static_value(X: Any, s: Any) -> Any:
    """Returns the static evaluation of a position, seen by the side to move, never as large as a mate."""
    X.counters[STATIC] += 1
    score = scaled(s, static_packed(X.table, X.weights, s, X.area))
    return min(max(score, int64(-MOST_STATIC)), int64(MOST_STATIC))


@inner
def cached_static(X: Any, s: Any, key: Any) -> Any:
    """Returns the static evaluation of a position, from the cache if it is there."""
    data = cached(X, key)
    if data & KNOWN_STATIC:
        return int64(data & CACHE_BITS) - CACHE_BIAS
    value = static_value(X, s)
    keep(X, key, (data & ~CACHE_BITS) | U(value + CACHE_BIAS) | KNOWN_STATIC)
    return value


@inner
def can_move(T: Any, s: Any, out: Any) -> Any:
    """Returns whether a side that is not in check has a legal move; a free pawn answers it mostly."""
    stm = int64(s[8] & ONE)
    us = s[6 + stm]
    king = ctz(s[5] & us)
    pawns = s[0] & us & ~(T[RE + king] | T[BE + king])
    ahead = pawns << U(8) if stm == 0 else pawns >> U(8)
    if ahead & ~(s[6] | s[7]):
        return True
    return generate_moves(T, s, out) > 0


@inner
def generate_captures(T: Any, s: Any, out: Any) -> Any:
    """Writes the legal captures and promotions of a side not in check to `out`; returns their number."""
    stm = int64(s[8] & ONE)
    us = s[6 + stm]
    them = s[7 - stm]
    occupied = us | them
    king = ctz(s[5] & us)
    pinned = ZERO
    snipers = ((T[RE + king] & (s[3] | s[4])) | (T[BE + king] & (s[2] | s[4]))) & them
    while snipers:
        between = T[BT + king * 64 + ctz(snipers)] & occupied
        if (between & (between - ONE)) == ZERO:
            pinned |= between & us
        snipers &= snipers - ONE
    n = 0
    steps = T[KI + king] & them
    while steps:
        t = ctz(steps)
        if not is_attacked(T, s, t, occupied ^ (ONE << U(king)), stm):
            out[n] = uint16(king | (t << 6))
            n += 1
        steps &= steps - ONE
    n = _emit_pieces(T, s, out, n, them, pinned, king, us)
    n = _emit_pawn_moves(T, s, out, n, them | LAST_RANKS, pinned, king, stm)
    ep = int64((s[8] >> U(5)) & U(127))
    if ep:
        n = _emit_en_passant(T, s, out, n, ep - 1, ZERO, king, stm)
    return n


@inner
def list_quiet_moves(X: Any, s: Any, keys: Any, n: Any, evades: Any) -> Any:
    """Fills the list of a quiescence frame: order above move; returns its length.

    What gains most goes first, by the lesser piece.
    """
    count = 0
    for i in range(n):
        m = int64(X.scratch[i])
        gain = capture_gain(s, m)
        if evades or gain > 0:
            keys[count] = ((gain * 8 - piece_at(s, m & 63) + ORDER_BIAS) << 16) | m
            count += 1
    return int64(count)


@inner
def next_quiet_move(X: Any, s: Any, state: Any, keys: Any) -> Any:
    """Returns the next move to try in quiescence, 0 if none is left; out of check none that loses."""
    while state[NEXT] < state[COUNT]:
        at = state[NEXT]
        best = at
        for j in range(at + 1, state[COUNT]):
            if keys[j] > keys[best]:
                best = j
        word = keys[best]
        keys[best] = keys[at]
        state[NEXT] = at + 1
        m = word & 0xFFFF
        if state[SCORED]:
            return m
        gain = capture_gain(s, m)
        if PLAIN_VALUES[piece_at(s, m & 63)] <= gain or exchange(X.table, s, m, X.gains) >= 0:
            return m
    return int64(0)


@inner
def value_at_limit(X: Any, s: Any, ply: Any) -> Any:
    """Returns the value of a position whose clock has reached 100: a draw, unless it is mate."""
    if in_check(X.table, s) and generate_moves(X.table, s, X.scratch) == 0:
        return ply - MATE
    return int64(0)


@inner
def enter_quiet(X: Any, s: Any, state: Any, keys: Any, level: Any, ply: Any) -> None:
    """Gives a new quiescence frame its value so far and the moves to try."""
    T = X.table
    state[NEXT] = 0
    state[COUNT] = 0
    if is_dead(s):
        state[BEST] = 0
        return
    if clock_of(s) >= CLOCK_DRAW:
        state[BEST] = value_at_limit(X, s, ply + level)
        return
    evades = in_check(T, s)
    state[SCORED] = int64(1) if evades else int64(0)
    state[BEST] = -FAR
    if level == QUIET_PLIES or not evades:
        best = cached_static(X, s, key_at(T, s))
        if not evades and not can_move(T, s, X.scratch):
            best = int64(0)
            state[BETA] = best  # nothing to try
        state[BEST] = best
        if level == QUIET_PLIES or best >= state[BETA]:
            return
        state[ALPHA] = max(best, state[ALPHA])
        n = generate_captures(T, s, X.scratch)
    else:
        n = generate_moves(T, s, X.scratch)
        if n == 0:
            state[BEST] = ply + level - MATE
    state[COUNT] = list_quiet_moves(X, s, keys, n, evades)


@inner
def quiesce(X: Any, position: Any, ply: Any, alpha: Any, beta: Any) -> Any:
    """Returns the fail-soft quiescence value of the position at a ply, root-relative."""
    for i in range(PW):
        X.quiet_positions[i] = position[i]
    X.quiet_frames[ALPHA] = alpha
    X.quiet_frames[BETA] = beta
    level = int64(0)
    fresh = True
    while True:
        s = adv(X.quiet_positions, level * PW)
        state = adv(X.quiet_frames, level * FRAME)
        keys = adv(X.quiet_keys, level * MOVE_ROOM)
        if fresh:
            enter_quiet(X, s, state, keys, level, ply)
        m = next_quiet_move(X, s, state, keys)
        if m:
            below = adv(state, FRAME)
            make_move(X.table, s, adv(s, PW), m)
            below[ALPHA] = -state[BETA]
            below[BETA] = -state[ALPHA]
            X.counters[QUIESCENCE] += 1
            level += 1
            fresh = True
        elif level == 0:
            return state[BEST]
        else:
            level -= 1
            take_quiet(adv(X.quiet_frames, level * FRAME), -state[BEST])
            fresh = False


@inner
def take_quiet(state: Any, value: Any) -> None:
    """Takes the value of a finished move into its quiescence frame."""
    if value > state[BEST]:
        state[BEST] = value
        if value > state[ALPHA]:
            state[ALPHA] = value
            if value >= state[BETA]:
                state[COUNT] = 0


@inner
def leaf_value(X: Any, s: Any, ply: Any, alpha: Any, beta: Any) -> Any:
    """Returns the value of a leaf, root-relative: exact inside the window, else a bound (fail-soft)."""
    key = key_at(X.table, s)
    data = cached(X, key)
    bound = int64(data >> CACHE_BOUND)
    if bound:
        value = below_root(int64((data >> CACHE_VALUE) & CACHE_BITS) - CACHE_BIAS, ply)
        if bound == EXACT or (bound == LOWER and value >= beta) or (bound == UPPER and value <= alpha):
            X.counters[CACHED] += 1
            return value
    value = quiesce(X, s, ply, alpha, beta)
    bound = LOWER if value >= beta else (UPPER if value <= alpha else EXACT)
    static = cached(X, key) & (CACHE_BITS | KNOWN_STATIC)
    word = U(from_node(value, ply) + CACHE_BIAS) << CACHE_VALUE
    keep(X, key, static | word | (U(bound) << CACHE_BOUND))
    return value
