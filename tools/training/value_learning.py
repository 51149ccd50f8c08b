"""Trains the value network with compiled passes in float32; playing uses the evaluator's own code.

    score z = output 0, a = exp(output 1), b = exp(output 2)
    win = sigmoid((z - a) / b), loss = sigmoid((-z - a) / b)
    loss = SCORE_SHARE (sigmoid(z) - sigmoid(label))^2 + CHANCES_SHARE ((dQ)^2 + DRAW_SHARE (dD)^2)

The first term distinguishes between won positions, where Q does not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy import float32
from numpy.typing import NDArray

from graphsearch.evaluators.builtin.features_kernel import MOST_FEATURES, attacks_of, list_features, seen_of
from graphsearch.evaluators.builtin.layout import (
    FEATURES,
    FIRST,
    MEN_PER_STACK,
    NOISE_RANGE,
    OUTPUTS,
    SECOND,
    STACKS,
    WIDTH_RANGE,
)
from graphsearch.jit.pointers import ONE, popc, ptr
from graphsearch.position.words import BLACK, META, WHITE
from tools.training.records import OPTIONS, SEARCHED, UNKNOWN, chances_of_label, load_words, sigmoid

F32 = NDArray[np.float32]
UNIT = 400.0  # label of a score of 1
SCORE_SHARE, CHANCES_SHARE, DRAW_SHARE = 2.0, 0.5, 0.5
MOST_SCORE = 20.0
ZERO, ONE_F = float32(0), float32(1)


class ValueArrays(NamedTuple):
    """The network, or its gradients.

    Attributes:
      rows: `[FEATURES, width]`. bias: `[width]`.
      first: `[STACKS, FIRST + OUTPUTS, 2 width]`, the first layer and the linear part; in training perhaps
        with further outputs (hints). first_bias: of all.
      second: `[STACKS, 2 FIRST + 1, SECOND]`, weights of clipped inputs, of squared inputs, then biases.
      last: `[STACKS, SECOND, OUTPUTS]`.
    """

    rows: Any
    bias: Any
    first: Any
    first_bias: Any
    second: Any
    last: Any


class Work(NamedTuple):
    """Buffers for one position: features of both views, sums, activations, small layers, and all slopes."""

    own: Any
    other: Any
    sums: Any
    active: Any
    first: Any
    second: Any
    slopes: Any
    first_slopes: Any


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def stack_of(words: Any) -> Any:
    """Returns the stack of a position, by its number of men."""
    return min((popc(words[WHITE] | words[BLACK]) - 1) // MEN_PER_STACK, STACKS - 1)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def new_work(net: Any) -> Any:
    """Returns a zeroed `Work` for a network."""
    width, outputs = net.bias.shape[0], net.first.shape[1]
    return Work(
        np.zeros(MOST_FEATURES, np.int64),
        np.zeros(MOST_FEATURES, np.int64),
        np.zeros((2, width), np.float32),
        np.zeros(2 * width, np.float32),
        np.zeros(outputs, np.float32),
        np.zeros(SECOND, np.float32),
        np.zeros((2, width), np.float32),
        np.zeros(outputs, np.float32),
    )


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def see(tables: Any, words: Any, own: Any, other: Any) -> Any:
    """Writes the features of both views; returns their number, the same for both."""
    s = ptr(words, 0)
    stm = int(words[META] & ONE)
    seen = seen_of(s, attacks_of(ptr(tables, 0), s, 0), attacks_of(ptr(tables, 0), s, 1))
    n = list_features(s, seen, stm, ptr(own, 0))
    list_features(s, seen, 1 - stm, ptr(other, 0))
    return n


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def clip(x: Any) -> Any:
    """Returns a float32 clipped to [0, 1]."""
    return min(max(x, ZERO), ONE_F)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def add_to(out: Any, more: Any) -> None:
    """Adds a row to another."""
    for h in range(out.shape[0]):
        out[h] += more[h]


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def add_rows(rows: Any, bias: Any, features: Any, n: Any, out: Any) -> None:
    """Fills the sums of a view; adds four rows per pass."""
    width = bias.shape[0]
    for h in range(width):
        out[h] = bias[h]
    whole = n & ~3
    for j in range(0, whole, 4):
        a, b, c, d = rows[features[j]], rows[features[j + 1]], rows[features[j + 2]], rows[features[j + 3]]
        for h in range(width):
            out[h] += (a[h] + b[h]) + (c[h] + d[h])
    for j in range(whole, n):
        add_to(out, rows[features[j]])


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def forward(net: Any, work: Any, n: Any, stack: Any) -> None:
    """Fills sums, activations and both small layers; the outputs are `work.first[FIRST:]`."""
    add_rows(net.rows, net.bias, work.own, n, work.sums[0])
    add_rows(net.rows, net.bias, work.other, n, work.sums[1])
    forward_from_sums(net, work, stack)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def forward_from_sums(net: Any, work: Any, stack: Any) -> None:
    """Fills activations and both small layers from the sums."""
    width = net.bias.shape[0]
    for view in range(2):
        sums = work.sums[view]
        for h in range(width):
            work.active[view * width + h] = clip(sums[h]) * clip(sums[h])
    for k in range(net.first.shape[1]):
        row, total = net.first[stack, k], float32(0)
        for h in range(2 * width):
            total += work.active[h] * row[h]
        work.first[k] = total + net.first_bias[stack, k]
    second, rows, last = work.second, net.second[stack], net.last[stack]
    for j in range(SECOND):
        second[j] = rows[2 * FIRST, j]
    for i in range(FIRST):
        x = clip(work.first[i])
        for j in range(SECOND):
            second[j] += x * rows[i, j] + x * x * rows[FIRST + i, j]
    for j in range(SECOND):
        for k in range(OUTPUTS):
            work.first[FIRST + k] += clip(second[j]) * last[j, k]


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def last_backward(net: Any, grad: Any, work: Any, stack: Any) -> None:
    """Computes the slopes of the first layer from those of the outputs, `work.first_slopes[FIRST:]`."""
    slopes, rows, g = work.first_slopes, net.second[stack], grad.second[stack]
    for i in range(FIRST):
        slopes[i] = ZERO
    for j in range(SECOND):
        x, d = work.second[j], ZERO
        for k in range(OUTPUTS):
            grad.last[stack, j, k] += clip(x) * slopes[FIRST + k]
            d += net.last[stack, j, k] * slopes[FIRST + k]
        if x <= ZERO or x >= ONE_F:
            continue
        g[2 * FIRST, j] += d
        for i in range(FIRST):
            y = clip(work.first[i])
            g[i, j] += y * d
            g[FIRST + i, j] += y * y * d
            slopes[i] += d * (rows[i, j] + float32(2) * y * rows[FIRST + i, j])
    for i in range(FIRST):
        if work.first[i] <= ZERO or work.first[i] >= ONE_F:
            slopes[i] = ZERO


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def backward(net: Any, grad: Any, work: Any, n: Any, stack: Any) -> None:
    """Adds to the gradients, from the slopes of the outputs, `work.first_slopes[FIRST:]`."""
    backward_to_sums(net, grad, work, stack)
    for j in range(n):
        add_to(grad.rows[work.own[j]], work.slopes[0])
        add_to(grad.rows[work.other[j]], work.slopes[1])


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def backward_to_sums(net: Any, grad: Any, work: Any, stack: Any) -> None:
    """Adds to the gradients of all but the rows; fills the slopes of the sums."""
    last_backward(net, grad, work, stack)
    width, slopes = net.bias.shape[0], work.slopes
    flat = slopes.reshape(-1)
    for h in range(2 * width):
        flat[h] = ZERO
    for k in range(net.first.shape[1]):
        d = work.first_slopes[k]
        grad.first_bias[stack, k] += d
        if d != ZERO:
            row, g = net.first[stack, k], grad.first[stack, k]
            for h in range(2 * width):
                g[h] += d * work.active[h]
                flat[h] += d * row[h]
    for view in range(2):
        sums, out = work.sums[view], slopes[view]
        for h in range(width):
            x = sums[h]
            out[h] = out[h] * 2 * x if x > ZERO and x < ONE_F else ZERO
            grad.bias[h] += out[h]


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def within(x: Any, low: Any, high: Any) -> Any:
    """Returns a number clipped to a range."""
    return min(max(float(x), low), high)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def judge(record: Any, first: Any, slopes: Any) -> Any:
    """Returns the loss, the error of Q and the error of sigmoid(score); fills the slopes of the outputs."""
    label = float(record["score"])
    if record["win"] == UNKNOWN:
        won, lost = chances_of_label(label, int(record["ply"]))
    else:
        label /= SEARCHED
        won, lost = record["win"] / 1000.0, record["loss"] / 1000.0
    z = within(first[FIRST], -MOST_SCORE, MOST_SCORE)
    a = np.exp(within(first[FIRST + 1], WIDTH_RANGE[0], WIDTH_RANGE[1]))
    b = np.exp(within(first[FIRST + 2], NOISE_RANGE[0], NOISE_RANGE[1]))
    u, v = (z - a) / b, (-z - a) / b
    win, loses, p = sigmoid(u), sigmoid(v), sigmoid(z)
    dp = p - sigmoid(label / UNIT)
    dq, dd = (win - loses) - (won - lost), (won + lost) - (win + loses)
    gw = 2 * CHANCES_SHARE * (dq - DRAW_SHARE * dd) * win * (1 - win)
    gl = -2 * CHANCES_SHARE * (dq + DRAW_SHARE * dd) * loses * (1 - loses)
    slopes[FIRST] = 2 * SCORE_SHARE * dp * p * (1 - p) + (gw - gl) / b
    slopes[FIRST + 1] = -(gw + gl) * a / b
    slopes[FIRST + 2] = -(gw * u + gl * v)
    loss = SCORE_SHARE * dp * dp + CHANCES_SHARE * (dq * dq + DRAW_SHARE * dd * dd)
    return loss, abs(dq), abs(dp)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def pass_batch(tables: Any, records: Any, chosen: Any, net: Any, grad: Any, learns: Any) -> Any:
    """Returns the sums of the loss, of the error of Q and of the error of sigmoid(score).

    If `learns`, adds the gradients, also as sums.

    Args:
      chosen: int64[B], indices of records.
      net, grad: `ValueArrays`.
    """
    work, words = new_work(net), np.zeros(10, np.uint64)
    total = np.zeros(3, np.float64)
    for i in chosen:
        load_words(records[i], words)
        n = see(tables, words, work.own, work.other)
        stack = stack_of(words)
        forward(net, work, n, stack)
        loss, error_q, error_score = judge(records[i], work.first, work.first_slopes)
        total[0] += loss
        total[1] += error_q
        total[2] += error_score
        if learns:
            backward(net, grad, work, n, stack)
    return total


def new_network(width: int, rng: np.random.Generator) -> ValueArrays:
    """Returns a randomly initialised value network."""

    def some(most: float, *shape: int) -> F32:
        return rng.uniform(-most, most, shape).astype(np.float32)

    first, last = some(0.05, STACKS, FIRST + OUTPUTS, 2 * width), some(0.1, STACKS, SECOND, OUTPUTS)
    first[:, FIRST + 1 :] *= 0.02
    last[:, :, 1:] *= 0.02
    first_bias = np.full((STACKS, FIRST + OUTPUTS), 0.1, np.float32)
    first_bias[:, FIRST:] = 0.0, -0.1, -1.5
    second = some(0.15, STACKS, 2 * FIRST + 1, SECOND)
    second[:, -1] = 0.1
    return ValueArrays(
        some(0.05, FEATURES, width), np.full(width, 0.1, np.float32), first, first_bias, second, last
    )
