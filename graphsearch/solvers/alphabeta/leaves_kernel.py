"""The value of a leaf: quiescence with the built-in evaluation, cached.

It is a function of the position alone, whatever the window: the mover may stand pat on the static evaluation
or try captures and promotions that the exchange does not lose; in check it tries every move. It never prunes
a capture as too small to matter, as `quiescence_over` does: that depends on the window, and the value would
no longer be that of plain negamax. A mate found here is certain: the mated side tried every move, and the
search applied the 50-move rule.
"""

from __future__ import annotations

from ...evaluators.builtin.evaluation_kernel import static_score
from ...evaluators.quiescence.captures_kernel import (
    DOUBTFUL,
    capture_gain,
    capture_loses,
    has_legal_move,
    list_captures,
    listed_move,
    order_key,
    pinned_of,
)
from ...jit.compiler import inner
from ...jit.pointers import ZERO, U, adv, ctz
from ...jit.types import Pointer, int64, uint16, uint64
from ...position.board import CLOCK_DRAW
from ...position.board_kernel import (
    PW,
    clock_of,
    generate_moves,
    in_check,
    is_dead,
    make_move,
    position_key,
    side_to_move,
)
from ...position.scores import FAR, LEAST_MATE, MATE
from ...position.tables import BE, RE
from ...position.words import BLACK, KINGS, PAWNS, WHITE, BoardTable, Position
from ...store.record.transposition_kernel import EXACT, LOWER, UPPER
from . import frame_layout as layout
from .frames_kernel import Search

# fields of the data word of the leaf cache, as uint64
CACHE_MASK, KNOWN_STATIC = U(layout.CACHE_MASK), U(layout.KNOWN_STATIC)
CACHE_VALUE_AT, CACHE_BOUND_AT = U(layout.CACHE_VALUE_AT), U(layout.CACHE_BOUND_AT)

UNKNOWN = FAR


@inner
def below_root(value: int64, ply: int64) -> int64:
    """Converts a value from node-relative to root-relative mates, `ply` plies above; back with -ply."""
    if value >= LEAST_MATE:
        return value - ply
    if value <= -LEAST_MATE:
        return value + ply
    return value


@inner
def cached(S: Search, key: uint64) -> uint64:
    """Returns the cache's data word of a position, 0 if none."""
    i = int64(key & S.cache_mask) * 2
    data = S.cache[i + 1]
    return data if S.cache[i] ^ data == key else ZERO


@inner
def keep(S: Search, key: uint64, data: uint64) -> None:
    """Inserts a data word into the cache."""
    i = int64(key & S.cache_mask) * 2
    S.cache[i] = key ^ data
    S.cache[i + 1] = data


@inner
def known_static(S: Search, s: Position, state: Pointer[int64]) -> int64:
    """Returns the static evaluation of a frame's position; the frame caches it."""
    if state[layout.STANDS] == UNKNOWN:
        S.counters[layout.STATIC] += 1
        state[layout.STANDS] = static_score(S.table, S.weights, s, S.area)
    return state[layout.STANDS]


@inner
def can_move(T: BoardTable, s: Position, out: Pointer[uint16]) -> bool:
    """Returns whether a side that is not in check has a legal move; a free pawn mostly proves it."""
    stm = side_to_move(s)
    us = s[WHITE + stm]
    king = ctz(s[KINGS] & us)
    pawns = s[PAWNS] & us & ~(T[RE + king] | T[BE + king])
    ahead = pawns << U(8) if stm == 0 else pawns >> U(8)
    if ahead & ~(s[WHITE] | s[BLACK]):
        return True
    return generate_moves(T, s, out) > 0


@inner
def next_quiet_move(S: Search, s: Position, state: Pointer[int64], words: Pointer[uint64]) -> int64:
    """Returns the next move to try in quiescence, 0 if none is left; most gain first, by the least man."""
    while state[layout.NEXT] < state[layout.COUNT]:
        at = state[layout.NEXT]
        best = at
        for j in range(at + 1, state[layout.COUNT]):
            if words[j] > words[best]:
                best = j
        word = words[best]
        words[best] = words[at]
        state[layout.NEXT] = at + 1
        m = int64(listed_move(word, side_to_move(s)))
        if not (word & DOUBTFUL and capture_loses(S.table, s, m)):
            return m
    return int64(0)


@inner
def value_at_limit(S: Search, s: Position, ply: int64) -> int64:
    """Returns the value of a position whose clock has reached 100: a draw, unless it is mate."""
    if in_check(S.table, s) and generate_moves(S.table, s, S.scratch) == 0:
        return ply - MATE
    return int64(0)


@inner
def stand_pat(S: Search, s: Position, state: Pointer[int64], words: Pointer[uint64], last: bool) -> None:
    """Sets the static value of a frame out of check; lists the captures to try unless that value ends it."""
    T = S.table
    stm = side_to_move(s)
    best = known_static(S, s, state)
    if last or best >= state[layout.BETA]:
        state[layout.BEST] = best if can_move(T, s, S.scratch) else int64(0)
        return
    king = ctz(s[KINGS] & s[WHITE + stm])
    pinned = pinned_of(T, s, king, stm)
    n = list_captures(T, s, words, int64(0), pinned, king, stm)
    if n == 0 and not has_legal_move(T, s, S.scratch, pinned, stm):
        best = int64(0)
    state[layout.BEST] = best
    state[layout.ALPHA] = max(best, state[layout.ALPHA])
    state[layout.COUNT] = n


@inner
def enter_quiet(
    S: Search, s: Position, state: Pointer[int64], words: Pointer[uint64], level: int64, ply: int64
) -> None:
    """Sets the value so far and the moves to try of a new quiescence frame."""
    state[layout.NEXT] = 0
    state[layout.COUNT] = 0
    state[layout.BEST] = -FAR
    if is_dead(s):
        state[layout.BEST] = 0
    elif clock_of(s) >= CLOCK_DRAW:
        state[layout.BEST] = value_at_limit(S, s, ply + level)
    elif not in_check(S.table, s):
        stand_pat(S, s, state, words, level == layout.QUIET_PLIES)
    elif level == layout.QUIET_PLIES:
        state[layout.BEST] = known_static(S, s, state)
    else:
        n = int64(generate_moves(S.table, s, S.scratch))
        if n == 0:
            state[layout.BEST] = ply + level - MATE
        for i in range(n):
            words[i] = order_key(s, S.scratch[i], capture_gain(s, S.scratch[i]))
        state[layout.COUNT] = n


@inner
def quiesce(S: Search, position: Position, ply: int64, alpha: int64, beta: int64, static: int64) -> int64:
    """Returns the fail-soft quiescence value of the position at a ply, root-relative.

    `static` is its static value or UNKNOWN; afterwards the first frame holds it if it was needed.
    """
    for i in range(PW):
        S.quiet_positions[i] = position[i]
    S.quiet_frames[layout.ALPHA] = alpha
    S.quiet_frames[layout.BETA] = beta
    S.quiet_frames[layout.STANDS] = static
    level = int64(0)
    fresh = True
    while True:
        s = adv(S.quiet_positions, level * PW)
        state = adv(S.quiet_frames, level * layout.FRAME)
        words = adv(S.quiet_words, level * layout.MOVE_ROOM)
        if fresh:
            enter_quiet(S, s, state, words, level, ply)
        m = next_quiet_move(S, s, state, words)
        if m:
            below = adv(state, layout.FRAME)
            make_move(S.table, s, adv(s, PW), m)
            below[layout.STANDS] = UNKNOWN
            below[layout.ALPHA] = -state[layout.BETA]
            below[layout.BETA] = -state[layout.ALPHA]
            S.counters[layout.QUIESCENCE] += 1
            level += 1
            fresh = True
        elif level == 0:
            return state[layout.BEST]
        else:
            level -= 1
            take_quiet(adv(S.quiet_frames, level * layout.FRAME), -state[layout.BEST])
            fresh = False


@inner
def take_quiet(state: Pointer[int64], value: int64) -> None:
    """Updates a quiescence frame with the value of a finished move."""
    if value > state[layout.BEST]:
        state[layout.BEST] = value
        if value > state[layout.ALPHA]:
            state[layout.ALPHA] = value
            if value >= state[layout.BETA]:
                state[layout.COUNT] = 0


@inner
def leaf_value(S: Search, s: Position, ply: int64, alpha: int64, beta: int64) -> int64:
    """Returns the value of a leaf, root-relative: exact inside the window, else a bound (fail-soft)."""
    key = position_key(S.table, s)
    data = cached(S, key)
    bound = int64(data >> CACHE_BOUND_AT)
    if bound:
        value = below_root(int64((data >> CACHE_VALUE_AT) & CACHE_MASK) - layout.CACHE_BIAS, ply)
        if bound == EXACT or (bound == LOWER and value >= beta) or (bound == UPPER and value <= alpha):
            S.counters[layout.CACHED] += 1
            return value
    static = int64(data & CACHE_MASK) - layout.CACHE_BIAS if data & KNOWN_STATIC else int64(UNKNOWN)
    value = quiesce(S, s, ply, alpha, beta, static)
    static = S.quiet_frames[layout.STANDS]
    bound = LOWER if value >= beta else (UPPER if value <= alpha else EXACT)
    word = U(below_root(value, -ply) + layout.CACHE_BIAS) << CACHE_VALUE_AT | U(bound) << CACHE_BOUND_AT
    if static != UNKNOWN:
        word |= U(static + layout.CACHE_BIAS) | KNOWN_STATIC
    keep(S, key, word)
    return value
