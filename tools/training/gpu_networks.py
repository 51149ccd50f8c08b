"""Both networks, their losses and Adam for JAX, for thousands of positions at a time.

The functions are those of `value_learning.py`, `groups_learning.py` and `policy_learning.py`.
A position's rows are added by a product of matrices: a row of zeros and ones for each view. Weights of rows
count as the integers that `pack` makes of them, which bfloat16 holds exactly up to 256; their gradients are
those of the unrounded weights.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

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
from tools.training.examples_kernel import LABEL, LOSS, SIGN, WIN, GroupArrays, LessonArrays
from tools.training.groups_kernel import MOST_MEMBERS
from tools.training.groups_learning import EVENNESS, GIVEN_AWAY, HINTS_AT
from tools.training.learning import LIMIT, LIMITS
from tools.training.policy_learning import SEEN, PolicyArrays
from tools.training.value_learning import (
    CHANCES_SHARE,
    DRAW_SHARE,
    MOST_SCORE,
    SCORE_SHARE,
    UNIT,
    ValueArrays,
)

NEVER = -1e9  # logit of no move


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


def new_learner(weights: Any) -> Learner:
    """Returns a learner that has made no step."""
    weights = jax.tree.map(jnp.asarray, weights)
    zeros = partial(jax.tree.map, jnp.zeros_like)
    return Learner(weights, zeros(weights), zeros(weights), jnp.zeros((), jnp.int32))


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
    seen = one_hot(features)
    whole = jnp.pad(jnp.round(rows * FULL).astype(jnp.bfloat16), ((0, SEEN), (0, 0)))
    return jnp.matmul(seen, whole, preferred_element_type=jnp.float32) / FULL, seen


def added_backward(seen: Any, slopes: Any) -> Any:
    """Returns the gradient of the rows."""
    slopes = slopes.astype(jnp.bfloat16)
    return lax.dot_general(seen, slopes, (((0,), (0,)), ((), ())), preferred_element_type=jnp.float32)[
        :FEATURES
    ], None


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


def value_loss(net: ValueArrays, some: GroupArrays, share: float, weight: float) -> Any:
    """Returns the mean loss of a member, and the figures of `pass_groups` except the error of Q.

    Args:
      share: of the comparison. weight: of the hints.
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
    comparison = share * (scale * (ours - theirs) ** 2).sum(1)
    uneven = EVENNESS * sum((scale * apart(outputs[..., k]) ** 2).sum(1) for k in range(1, OUTPUTS))
    hints = some.hints.reshape(len(seen_hints), -1)[:, : seen_hints.shape[1]]  # none if no output learns them
    of_hints = there.reshape(-1) * ((seen_hints - hints.astype(jnp.float32)) ** 2).sum(1)
    total = of_members.sum() + comparison.sum() + uneven.sum() + weight * of_hints.sum()
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


def policy_loss(net: PolicyArrays, some: LessonArrays) -> Any:
    """Returns the cross-entropy, and the figures: it and the share of the target's first choices."""
    active = hidden(net.rows, net.bias, some.features)
    kinds = jnp.minimum(some.classes.astype(jnp.int32), CLASSES - 1)

    def looked_up(table: Any, at: Any) -> Any:
        return jnp.take_along_axis(active @ table.T, at.astype(jnp.int32), 1)

    logits = (
        looked_up(net.leaves, some.places) + looked_up(net.goes, some.goals) + looked_up(net.kinds, kinds)
    )
    logits = jnp.where(some.classes < CLASSES, logits + net.plain[kinds], NEVER)
    targets = some.targets.astype(jnp.float32)
    loss = -(targets * jax.nn.log_softmax(logits)).sum(1).mean()
    same = (logits.argmax(1) == targets.argmax(1)).mean()
    return loss, jnp.stack([loss, same])


def adam(learner: Learner, gradient: Any, rate: Any) -> Learner:
    """Makes one step of Adam, as `learning.adam` does."""
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
    learner: Learner, data: Any, filled: Any, key: Any, rate: Any, loss: Any, steps: int, batch: int
) -> Any:
    """Returns a learner that has made some more steps.

    Args:
      data: arrays, of which the first `filled` rows are learned in random order.
      loss: (weights, some of the data) -> loss and figures.
    """

    def one(learner: Learner, key: Any) -> Any:
        chosen = jax.random.randint(key, (batch,), 0, filled)
        some = jax.tree.map(lambda array: array[chosen], data)
        gradient = jax.grad(loss, has_aux=True)(learner.weights, some)[0]
        return adam(learner, gradient, rate), None

    return lax.scan(one, learner, jax.random.split(key, steps))[0]


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
