"""The evaluator `builtin`: V by quiescence over the value network, P by the policy network."""

from __future__ import annotations

from ...jit.compiler import inner
from ...jit.pointers import adv, as_i64, popc
from ...jit.types import Pointer, float32, int64, uint16, uint64
from ...position.board_kernel import PW, side_to_move
from ...position.scores import FAR, LEAST_MATE
from ...position.words import BLACK, WHITE, BoardTable, Position
from ..batch_kernel import batch_of, chances, softmax, value_of_score
from ..quiescence.captures_kernel import get, put
from ..quiescence.quiescence_kernel import FRAME_WORDS, KEPT, STACK_WORDS, quiescence_over
from .features_kernel import MOST_FEATURES, Attacks, attacks_of, list_features
from .layout import SCORE_UNIT
from .policy_kernel import WORK_WORDS, write_logits
from .value_kernel import VALUE_WORDS, Value, network_value

MOST_STATIC = LEAST_MATE - 1

# words of the work area: features of both views, what the value network needs, what the policy network needs
OWN, OTHER, WORK = 0, MOST_FEATURES, 2 * MOST_FEATURES
POLICY = WORK + VALUE_WORDS
AREA_WORDS = POLICY + WORK_WORDS
SCRATCH_WORDS = STACK_WORDS + AREA_WORDS


@inner
def value_at(
    T: BoardTable, weights: Pointer[int64], s: Position, ours: Attacks, theirs: Attacks, area: Pointer[uint64]
) -> tuple[Value, int64]:
    """Returns the `Value` of a position and the number of its features, which are left in the area."""
    own, other = as_i64(adv(area, int64(OWN))), as_i64(adv(area, int64(OTHER)))
    n = list_features(s, ours, theirs, own, other)
    men = popc(s[WHITE] | s[BLACK])
    return network_value(weights, own, other, n, men, adv(area, int64(WORK))), n


@inner
def plain_score(value: Value) -> int64:
    """Returns the score of a `Value` in thousandths of a pawn, never as large as a mate."""
    return int64(min(max(value.score * SCORE_UNIT, float(-MOST_STATIC)), float(MOST_STATIC)))


@inner
def static_score(T: BoardTable, weights: Pointer[int64], s: Position, area: Pointer[uint64]) -> int64:
    """Returns the value network's score of a position, as `plain_score`."""
    stm = side_to_move(s)
    value, _ = value_at(T, weights, s, attacks_of(T, s, stm), attacks_of(T, s, 1 - stm), area)
    return plain_score(value)


@inner
def static_at(
    T: BoardTable, weights: Pointer[int64], stack: Pointer[uint64], ply: int64, area: Pointer[uint64]
) -> int64:
    """Returns `static_score` of the position in a frame, or what the frame keeps of it."""
    frame = adv(stack, ply * FRAME_WORDS)
    return get(frame, KEPT) if frame[KEPT] else static_score(T, weights, frame, area)


search = quiescence_over(static_at)


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
    """Returns Q (win - loss, in [-1, 1]) and the chance of a draw (in [0, 1 - |Q|]); writes the priors.

    Args:
      s: the position, 10 words.
      moves: its legal moves in the generator's order, uint16[n].
      n: their number, > 0.
      priors: float32[n] out; sums to 1, each above 0.
      scratch: uint64[SCRATCH_WORDS], holds everything temporary.
    """
    stack, area = scratch, adv(scratch, int64(STACK_WORDS))
    stm = side_to_move(s)
    ours, theirs = attacks_of(T, s, stm), attacks_of(T, s, 1 - stm)
    value, seen = value_at(T, weights, s, ours, theirs, area)
    own = as_i64(adv(area, int64(OWN)))
    write_logits(T, weights, s, moves, n, theirs.every, own, seen, adv(area, int64(POLICY)), priors)
    softmax(priors, n)
    for i in range(PW):
        stack[i] = s[i]
    put(stack, KEPT, plain_score(value))
    score = search(T, weights, stack, area, int64(0), int64(-FAR), int64(FAR), int64(0), False)
    win, loss = chances(score / SCORE_UNIT, value.draw_width, value.noise)
    return value_of_score(win, loss, score)


evaluate_batch = batch_of(evaluate_position)
