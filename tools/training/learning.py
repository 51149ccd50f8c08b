"""Both networks, their losses and Adam in JAX, for thousands of positions at a time.

    score z = output 0, a = exp(output 1), b = exp(output 2)
    win = sigmoid((z - a) / b), loss = sigmoid((-z - a) / b)
    of a member: SCORE_SHARE (sigmoid(z) - sigmoid(label))^2 + CHANCES_SHARE ((dQ)^2 + DRAW_SHARE (dD)^2)

The first term distinguishes between won positions, where Q does not. In a group the error of the score counts
a second time, minus the mean of all members, because a search compares the moves of a position:

    loss = sum of the members' losses + COMPARISON sum w_i (e_i - e)^2,  e_i = sigmoid(score) - sigmoid(label)
         + EVENNESS sum w_i ((a_i - a)^2 + (b_i - b)^2),  logarithms of the draw width and the noise
         + HINTS_SHARE sum over members and hints (output - hint)^2

seen by the side that makes the group's moves; e, a and b are means by the weights w_i = exp(-loss of the move
against the best / GIVEN_AWAY). Widths that differ from move to move disturb the order of Q. Hints tell a
network what its label is made of; their outputs are dropped after training. The policy's loss is the
cross-entropy of the softmax against the targets.

A GPU adds a position's rows by a product of matrices: a row of zeros and ones for each view; a CPU adds row
by row. Weights of rows count as the integers that `pack` makes of them, which bfloat16 holds exactly up to
256; their gradients are those of the unrounded weights.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from graphsearch.evaluators.builtin.evaluator import ROW_BITS
from graphsearch.evaluators.builtin.layout import (
    CLASSES,
    FEATURES,
    FIRST,
    FULL,
    NOISE_RANGE,
    OUTPUTS,
    STACKS,
    WIDTH_RANGE,
)
from tools.training.games_kernel import (
    LABEL,
    LOSS,
    MOST_MEMBERS,
    PAWN,
    SEEN,
    SIGN,
    WIN,
    GroupArrays,
    LessonArrays,
)
from tools.training.networks import PolicyArrays, ValueArrays

UNIT = 400.0  # label of a score of 1
SCORE_SHARE, CHANCES_SHARE, DRAW_SHARE = 2.0, 0.5, 0.5
MOST_SCORE = 20.0
GIVEN_AWAY = 0.6 * PAWN
COMPARISON, EVENNESS, HINTS_SHARE = 30.0, 1.0, 0.2
HINTS_AT = FIRST + OUTPUTS  # the outputs for hints follow all others
NEVER = -1e9  # logit of no move
# of weight magnitudes; rows are packed into ROW_BITS, in units of 1 / FULL
LIMITS = {"rows": ((1 << (ROW_BITS - 1)) - 1) / FULL}
LIMIT = 8.0  # of all other weights
ON_CPU = jax.default_backend() == "cpu"


class Learner(NamedTuple):
    """A network in training.

    Attributes:
      weights: a named tuple of float32 arrays. first, second: Adam's moments, of the same form.
      steps: number of steps so far.
    """

    weights: Any
    first: Any
    second: Any
    steps: Any

    @classmethod
    def new(cls, weights: Any) -> Learner:
        """Returns a learner that has made no step."""
        weights = jax.tree.map(jnp.asarray, weights)
        zeros = partial(jax.tree.map, jnp.zeros_like)
        return cls(weights, zeros(weights), zeros(weights), jnp.zeros((), jnp.int32))


def rounded(x: Any) -> Any:
    """Returns weights as the evaluator's integers hold them; gradients pass unchanged."""
    return x + lax.stop_gradient(jnp.round(x * FULL) / FULL - x)


def within(x: Any, low: float, high: float) -> Any:
    """Returns numbers clipped to a range; gradients pass unchanged."""
    return x + lax.stop_gradient(jnp.clip(x, low, high) - x)


def one_hot(features: Any) -> Any:
    """Returns the matrix of zeros and ones of some views, bfloat16[K, FEATURES + SEEN]."""
    count = features.shape[0]
    zeros = jnp.zeros((count, FEATURES + SEEN), jnp.bfloat16)
    at = jnp.arange(count)[:, None], features.astype(jnp.int32)
    return zeros.at[at].set(1, unique_indices=True, mode="promise_in_bounds")


@jax.custom_vjp  # type: ignore[untyped-decorator]
def added(rows: Any, features: Any) -> Any:
    """Returns the sums of each view's rows, float32[K, width]; `features`: uint16[K, SEEN]."""
    return added_forward(rows, features)[0]


def added_forward(rows: Any, features: Any) -> Any:
    """Returns the sums and what the backward pass needs."""
    whole = jnp.pad(jnp.round(rows * FULL), ((0, SEEN), (0, 0)))
    if ON_CPU:
        none = jnp.zeros((len(features), rows.shape[1]), rows.dtype)
        return lax.fori_loop(0, SEEN, lambda j, sums: sums + whole[features[:, j]], none) / FULL, features
    seen = one_hot(features)
    return jnp.matmul(seen, whole.astype(jnp.bfloat16), preferred_element_type=jnp.float32) / FULL, seen


def added_backward(seen: Any, slopes: Any) -> Any:
    """Returns the gradient of the rows."""
    if ON_CPU:
        none = jnp.zeros((FEATURES + SEEN, slopes.shape[1]), slopes.dtype)
        gradient = lax.fori_loop(0, SEEN, lambda j, sums: sums.at[seen[:, j]].add(slopes), none)
    else:
        slopes, over = slopes.astype(jnp.bfloat16), (((0,), (0,)), ((), ()))
        gradient = lax.dot_general(seen, slopes, over, preferred_element_type=jnp.float32)
    return gradient[:FEATURES], None


added.defvjp(added_forward, added_backward)


def hidden(rows: Any, bias: Any, features: Any) -> Any:
    """Returns the clipped and squared sums of some views, float32[K, width]."""
    return jnp.square(jnp.clip(added(rows, features) + rounded(bias), 0, 1))


def of_stack(all_stacks: Any, stacks: Any) -> Any:
    """Returns each position's part of an array `[N, STACKS, ...]`."""
    chosen = jax.nn.one_hot(stacks, STACKS, dtype=jnp.float32)
    return jnp.einsum("ns,nsk->nk", chosen, all_stacks)


def value_outputs(net: ValueArrays, features: Any, stacks: Any) -> Any:
    """Returns the outputs float32[N, OUTPUTS] and the hints' outputs; `features`: uint16[N, 2, SEEN]."""
    count = features.shape[0]
    active = hidden(net.rows, net.bias, features.reshape(2 * count, SEEN)).reshape(count, -1)
    first = jnp.einsum("nh,skh->nsk", active, net.first) + net.first_bias
    first = of_stack(first, stacks)
    x = jnp.clip(first[:, :FIRST], 0, 1)
    inputs = jnp.concatenate([x, x * x, jnp.ones((count, 1), x.dtype)], 1)
    second = jnp.clip(of_stack(jnp.einsum("ni,sij->nsj", inputs, net.second), stacks), 0, 1)
    more = of_stack(jnp.einsum("nj,sjk->nsk", second, net.last), stacks)
    return first[:, FIRST:HINTS_AT] + more, first[:, HINTS_AT:]


def value_loss(net: ValueArrays, some: GroupArrays) -> Any:
    """Returns the mean loss of a member, and figures.

    They are the mean loss of the members, the loss of the comparison, the correlation within a group between
    sigmoid(score) and sigmoid(label), by the weights, and the squared error of the hints.
    """
    groups = some.features.shape[0]
    outputs, seen_hints = value_outputs(net, some.features.reshape(-1, 2, SEEN), some.stacks.reshape(-1))
    outputs = outputs.reshape(groups, MOST_MEMBERS, OUTPUTS)
    sign, label = some.targets[..., SIGN], some.targets[..., LABEL]
    there = jnp.abs(sign)
    z = within(outputs[..., 0], -MOST_SCORE, MOST_SCORE)
    a = jnp.exp(within(outputs[..., 1], *WIDTH_RANGE))
    b = jnp.exp(within(outputs[..., 2], *NOISE_RANGE))
    win, loss = jax.nn.sigmoid((z - a) / b), jax.nn.sigmoid((-z - a) / b)
    won, lost = some.targets[..., WIN], some.targets[..., LOSS]
    dp = jax.nn.sigmoid(z) - jax.nn.sigmoid(label / UNIT)
    dq, dd = (win - loss) - (won - lost), (won + lost) - (win + loss)
    of_members = there * (SCORE_SHARE * dp**2 + CHANCES_SHARE * (dq**2 + DRAW_SHARE * dd**2))
    worth = jnp.where(there > 0, sign * label, -jnp.inf)
    scale = there * jnp.exp((worth - worth.max(1, keepdims=True)) / GIVEN_AWAY)
    whole = scale.sum(1, keepdims=True)

    def apart(x: Any) -> Any:
        return x - (scale * x).sum(1, keepdims=True) / whole

    ours = apart(jax.nn.sigmoid(sign * z))
    theirs = apart(jax.nn.sigmoid(sign * label / UNIT))
    comparison = COMPARISON * (scale * (ours - theirs) ** 2).sum(1)
    uneven = EVENNESS * sum((scale * apart(outputs[..., k]) ** 2).sum(1) for k in range(1, OUTPUTS))
    hints = some.hints.reshape(seen_hints.shape)
    of_hints = there.reshape(-1) * ((seen_hints - hints.astype(jnp.float32)) ** 2).sum(1)
    total = of_members.sum() + comparison.sum() + uneven.sum() + HINTS_SHARE * of_hints.sum()
    both = (scale * ours**2).sum(1) * (scale * theirs**2).sum(1)
    correlation = (scale * ours * theirs).sum(1) / jnp.sqrt(both + 1e-12)
    members = there.sum(1)
    figures = jnp.stack(
        [
            (of_members.sum(1) / members).mean(),
            comparison.mean(),
            correlation.mean(),
            of_hints.sum() / there.sum(),
        ]
    )
    return total / there.sum(), figures


def logits(net: PolicyArrays, active: Any, places: Any, goals: Any, classes: Any) -> Any:
    """Returns the logits of moves, float32[N, M], NEVER where there is none; `active`: float32[N, width]."""
    kinds = jnp.minimum(classes.astype(jnp.int32), CLASSES - 1)

    def looked_up(table: Any, at: Any) -> Any:
        return jnp.take_along_axis(active @ table.T, at.astype(jnp.int32), 1)

    found = looked_up(net.leaves, places) + looked_up(net.goes, goals) + looked_up(net.kinds, kinds)
    return jnp.where(classes < CLASSES, found + net.plain[kinds], NEVER)


def policy_loss(net: PolicyArrays, some: LessonArrays) -> Any:
    """Returns the cross-entropy, and the figures: it and the share of the target's first choices."""
    active = hidden(net.rows, net.bias, some.features)
    seen, targets = (
        logits(net, active, some.places, some.goals, some.classes),
        some.targets.astype(jnp.float32),
    )
    loss = -(targets * jax.nn.log_softmax(seen)).sum(1).mean()
    same = (seen.argmax(1) == targets.argmax(1)).mean()
    return loss, jnp.stack([loss, same])


def adam(learner: Learner, gradient: Any, rate: Any) -> Learner:
    """Makes one step of Adam."""
    steps = learner.steps + 1
    n = steps.astype(jnp.float32)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, learner.first, gradient)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, learner.second, gradient)
    fix, fixes = 1 - 0.9**n, 1 - 0.999**n

    def moved(p: Any, m: Any, v: Any, limit: float) -> Any:
        return jnp.clip(p - rate * (m / fix) / (jnp.sqrt(v / fixes) + 1e-8), -limit, limit)

    limits = type(learner.weights)(*(LIMITS.get(name, LIMIT) for name in learner.weights._fields))
    weights = jax.tree.map(moved, learner.weights, first, second, limits)
    return Learner(weights, first, second, steps)


@partial(jax.jit, static_argnames=("loss", "steps", "batch"), donate_argnames="learner")
def learn(
    learner: Learner,
    data: Any,
    filled: Any,
    seed: Any,
    turn: Any,
    rate: Any,
    loss: Any,
    steps: int,
    batch: int,
) -> Any:
    """Returns a learner that has made some more steps.

    Args:
      data: arrays, of which the first `filled` rows are learned in random order, by `seed` and `turn`.
      loss: (weights, some of the data) -> loss and figures.
    """

    def one(learner: Learner, key: Any) -> Any:
        chosen = jax.random.randint(key, (batch,), 0, filled)
        some = jax.tree.map(lambda array: array[chosen], data)
        gradient = jax.grad(loss, has_aux=True)(learner.weights, some)[0]
        return adam(learner, gradient, rate), None

    keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), turn), steps)
    return lax.scan(one, learner, keys)[0]


@partial(jax.jit, static_argnames=("loss",))
def judge(weights: Any, data: Any, loss: Any) -> Any:
    """Returns the figures of all data."""
    return loss(weights, data)[1]


@partial(jax.jit, donate_argnames="data")
def put(data: Any, some: Any, at: Any) -> Any:
    """Replaces rows of the data from an index on."""
    return jax.tree.map(lambda array, new: lax.dynamic_update_slice_in_dim(array, new, at, 0), data, some)


def room(some: Any, count: int) -> Any:
    """Returns zeros for `count` rows of the form of some data."""
    return jax.tree.map(lambda array: jnp.zeros((count, *array.shape[1:]), array.dtype), some)
