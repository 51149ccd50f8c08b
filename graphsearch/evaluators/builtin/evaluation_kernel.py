"""Kernel of `builtin`: V by quiescence over the value network, P by the policy network."""

from __future__ import annotations

from ...jit.compiler import inner
from ...jit.pointers import adv, as_i64, popc
from ...jit.types import Pointer, float32, float64, int64, uint16, uint64
from ...position.board_kernel import PW, side_to_move
from ...position.scores import FAR, LEAST_WON
from ...position.words import BLACK, WHITE, BoardTable, Position
from ..bare_king_kernel import bare_king_score
from ..batch_kernel import batch_of, chances, softmax, value_of_score
from ..quiescence.captures_kernel import get, put
from ..quiescence.quiescence_kernel import FRAME_WORDS, KEPT, STACK_WORDS, quiescence_over
from .features_kernel import MOST_FEATURES, Seen, attacks_of, list_features, seen_of
from .layout import SCORE_UNIT, TEMPERATURES
from .policy_kernel import WORK_WORDS, write_logits
from .sums_kernel import SUMS_WORDS, sum_frame, sum_view, sums_at
from .value_kernel import VALUE_WORDS, Value, network_value

MOST_STATIC = LEAST_WON - 1

# offsets in the area, in words: sums of the frames, work area of the value network, that of the policy
# network, its features
WORK = SUMS_WORDS
POLICY = WORK + VALUE_WORDS
FEATURES = POLICY + WORK_WORDS
AREA_WORDS = FEATURES + MOST_FEATURES
SCRATCH_WORDS = STACK_WORDS + AREA_WORDS


@inner
def value_at(
    weights: Pointer[int64], stack: Pointer[uint64], ply: int64, seen: Seen, area: Pointer[uint64]
) -> Value:
    """Returns the `Value` of a frame's position; stores its sums in `area` and its score in the frame."""
    s = adv(stack, ply * FRAME_WORDS)
    stm = side_to_move(s)
    sum_frame(weights, stack, ply, seen, area)
    own, other = sums_at(weights, area, ply, stm), sums_at(weights, area, ply, 1 - stm)
    value = network_value(weights, own, other, popc(s[WHITE] | s[BLACK]), adv(area, int64(WORK)))
    put(s, KEPT, plain_score(s, value))
    return value


@inner
def plain_score(s: Position, value: Value) -> int64:
    """Returns a position's score in thousandths of a pawn, never a mate's; `value`: the network's."""
    bare = bare_king_score(s)
    if bare:
        return bare
    return int64(min(max(value.score * SCORE_UNIT, float(-MOST_STATIC)), float(MOST_STATIC)))


@inner
def static_score(T: BoardTable, weights: Pointer[int64], s: Position, area: Pointer[uint64]) -> int64:
    """Returns `plain_score` of a position outside a search; overwrites the sums of the first frame."""
    stm, seen = side_to_move(s), seen_of(s, attacks_of(T, s, int64(0)), attacks_of(T, s, int64(1)))
    first = int64(0)
    own, other = sums_at(weights, area, first, stm), sums_at(weights, area, first, 1 - stm)
    sum_view(weights, s, seen, stm, area, own)
    sum_view(weights, s, seen, 1 - stm, area, other)
    value = network_value(weights, own, other, popc(s[WHITE] | s[BLACK]), adv(area, int64(WORK)))
    return plain_score(s, value)


@inner
def static_at(
    T: BoardTable, weights: Pointer[int64], stack: Pointer[uint64], ply: int64, area: Pointer[uint64]
) -> int64:
    """Returns `plain_score` of the position in a frame, computed once per frame."""
    s = adv(stack, ply * FRAME_WORDS)
    if not s[KEPT]:
        seen = seen_of(s, attacks_of(T, s, int64(0)), attacks_of(T, s, int64(1)))
        value_at(weights, stack, ply, seen, area)
    return get(s, KEPT)


search = quiescence_over(static_at)


@inner
def temperature_at(q: float64) -> float64:
    """Returns the temperature of the priors: the more open a position, the more moves deserve a look."""
    level, decided = TEMPERATURES
    return level + (decided - level) * q * q


@inner
def evaluate_position(
    T: BoardTable,
    weights: Pointer[int64],
    s: Position,
    moves: Pointer[uint16],
    n: int64,
    priors: Pointer[float32],
    scratch: Pointer[uint64],
) -> tuple[float32, float32]:
    """Returns Q (win - loss, in [-1, 1]) and the draw probability (in [0, 1 - |Q|]); writes the priors.

    Args:
      s: the position, 10 words.
      moves: its legal moves in the generator's order, uint16[n].
      n: their number, > 0.
      priors: float32[n] out; sums to 1, each above 0.
      scratch: uint64[SCRATCH_WORDS], work area.
    """
    stack, area = scratch, adv(scratch, int64(STACK_WORDS))
    white, black = attacks_of(T, s, int64(0)), attacks_of(T, s, int64(1))
    stm, seen, features = side_to_move(s), seen_of(s, white, black), as_i64(adv(area, int64(FEATURES)))
    listed = list_features(s, seen, stm, features)
    theirs = white.every if stm else black.every
    write_logits(T, weights, s, moves, n, theirs, features, listed, adv(area, int64(POLICY)), priors)
    for i in range(PW):
        stack[i] = s[i]
    value = value_at(weights, stack, int64(0), seen, area)
    score = search(T, weights, stack, area, int64(0), int64(-FAR), int64(FAR), int64(0), False)
    win, loss = chances(score / SCORE_UNIT, value.draw_width, value.noise)
    temperature = temperature_at(win - loss)
    for i in range(n):
        priors[i] = float32(float64(priors[i]) / temperature)
    softmax(priors, n)
    return value_of_score(win, loss, score)


evaluate_batch = batch_of(evaluate_position)
