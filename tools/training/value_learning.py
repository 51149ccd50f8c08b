"""Learning the value network: compiled passes in float32; playing uses the evaluator's own code.

    score z = output 0, a = exp(output 1), b = exp(output 2)
    win = sigmoid((z - a) / b), loss = sigmoid((-z - a) / b)
    loss = SCORE_SHARE (sigmoid(z) - sigmoid(label))^2 + ((dQ)^2 + (dD)^2 / 2) / 2

The first part tells won positions apart, where Q does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy import float32
from numpy.typing import NDArray

from graphsearch.evaluators.builtin.features_kernel import MOST_MEN, attacks_of, list_features
from graphsearch.evaluators.builtin.layout import (
    FEATURES,
    MEN_PER_STACK,
    NOISE_RANGE,
    OUTPUTS,
    STACKS,
    WIDTH_RANGE,
)
from graphsearch.jit.pointers import ONE, ptr
from graphsearch.position.words import META
from tools.training_records import UNKNOWN

F32 = NDArray[np.float32]
SEARCHED = 1.6  # by how much a search's score exceeds that of quiescence, on average
UNIT = 400.0  # of labels in a score of 1
SCORE_SHARE, CHANCES_SHARE, DRAW_SHARE = 2.0, 0.5, 0.5
MOST_SCORE = 20.0
OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": True}


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def sigmoid(x: Any) -> Any:
    """Returns the logistic function."""
    return 1.0 / (1.0 + np.exp(-min(max(x, -40.0), 40.0)))


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def chances_of_label(score: Any, ply: Any) -> Any:
    """Returns Stockfish 15.1's chances to win and to lose, of a score in 1/361 of a pawn at a ply."""
    m = min(240, ply) / 64.0
    a = ((-0.58270499 * m + 2.68512549) * m + 15.24638015) * m + 344.49745382
    b = ((-2.65734562 * m + 15.96509799) * m - 20.69040836) * m + 73.61029937
    return sigmoid((score - a) / b), sigmoid((-score - a) / b)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def load_words(record: Any, words: Any) -> None:
    """Copies a record's position."""
    for j in range(9):
        words[j] = record["words"][j]


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def see(tables: Any, words: Any, own: Any, other: Any) -> Any:
    """Writes the features of both views; returns how many each has."""
    s = ptr(words, 0)
    stm = int(words[META] & ONE)
    return list_features(
        s,
        attacks_of(ptr(tables, 0), s, stm),
        attacks_of(ptr(tables, 0), s, 1 - stm),
        ptr(own, 0),
        ptr(other, 0),
    )


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def forward(
    rows: Any, bias: Any, last: Any, plain: Any, own: Any, other: Any, n: Any, a0: Any, a1: Any, out: Any
) -> Any:
    """Fills the sums of both views and the outputs; returns the stack."""
    width, stack = bias.shape[0], min((n - 1) // MEN_PER_STACK, STACKS - 1)
    for h in range(width):
        a0[h] = bias[h]
        a1[h] = bias[h]
    for j in range(n):
        r, q = rows[own[j]], rows[other[j]]
        for h in range(width):
            a0[h] += r[h]
            a1[h] += q[h]
    for k in range(OUTPUTS):
        w0, w1, total = last[stack, k, 0], last[stack, k, 1], float32(0)
        for h in range(width):
            u, v = min(max(a0[h], float32(0)), float32(1)), min(max(a1[h], float32(0)), float32(1))
            total += u * u * w0[h] + v * v * w1[h]
        out[k] = total + plain[stack, k]
    return stack


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def clipped(x: Any, low: Any, high: Any) -> Any:
    """Returns a number within a range."""
    return min(max(float(x), low), high)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def pass_batch(
    tables: Any,
    records: Any,
    chosen: Any,
    rows: Any,
    bias: Any,
    last: Any,
    plain: Any,
    grows: Any,
    gbias: Any,
    glast: Any,
    gplain: Any,
    learns: Any,
) -> Any:
    """Returns the loss, the mean error of Q and that of sigmoid(score); adds to the gradients if it learns.

    Args:
      chosen: int64[B], which records.
      rows, bias, last, plain: the network. grows, gbias, glast, gplain: gradients, of the same shapes.
    """
    width = bias.shape[0]
    own, other = np.zeros(MOST_MEN, np.int64), np.zeros(MOST_MEN, np.int64)
    a0, a1 = np.zeros(width, np.float32), np.zeros(width, np.float32)
    d0, d1 = np.zeros(width, np.float32), np.zeros(width, np.float32)
    out, g = np.zeros(OUTPUTS, np.float32), np.zeros(OUTPUTS, np.float32)
    words = np.zeros(10, np.uint64)
    loss = error_q = error_s = 0.0
    for i in range(len(chosen)):
        r = records[chosen[i]]
        load_words(r, words)
        n = see(tables, words, own, other)
        stack = forward(rows, bias, last, plain, own, other, n, a0, a1, out)
        label = float(r["score"])
        if r["win"] == UNKNOWN:
            won, lost = chances_of_label(SEARCHED * label, int(r["ply"]))
        else:
            label /= SEARCHED
            won, lost = r["win"] / 1000.0, r["loss"] / 1000.0
        z = clipped(out[0], -MOST_SCORE, MOST_SCORE)
        a = np.exp(clipped(out[1], WIDTH_RANGE[0], WIDTH_RANGE[1]))
        b = np.exp(clipped(out[2], NOISE_RANGE[0], NOISE_RANGE[1]))
        u, v = (z - a) / b, (-z - a) / b
        win, loses = sigmoid(u), sigmoid(v)
        p = sigmoid(z)
        dp = p - sigmoid(label / UNIT)
        dq, dd = (win - loses) - (won - lost), (won + lost) - (win + loses)
        loss += SCORE_SHARE * dp * dp + CHANCES_SHARE * (dq * dq + DRAW_SHARE * dd * dd)
        error_q += abs(dq)
        error_s += abs(dp)
        if not learns:
            continue
        gw = 2 * CHANCES_SHARE * (dq - DRAW_SHARE * dd) * win * (1 - win)
        gl = -2 * CHANCES_SHARE * (dq + DRAW_SHARE * dd) * loses * (1 - loses)
        g[0] = (2 * SCORE_SHARE * dp * p * (1 - p) + (gw - gl) / b) / len(chosen)
        g[1] = -(gw + gl) * a / b / len(chosen)
        g[2] = -(gw * u + gl * v) / len(chosen)
        for h in range(width):
            d0[h] = 0
            d1[h] = 0
        for k in range(OUTPUTS):
            w0, w1, q0, q1 = last[stack, k, 0], last[stack, k, 1], glast[stack, k, 0], glast[stack, k, 1]
            gk = g[k]
            for h in range(width):
                x, y = min(max(a0[h], float32(0)), float32(1)), min(max(a1[h], float32(0)), float32(1))
                q0[h] += gk * x * x
                q1[h] += gk * y * y
                d0[h] += gk * w0[h]
                d1[h] += gk * w1[h]
            gplain[stack, k] += gk
        for h in range(width):
            x, y = a0[h], a1[h]
            d0[h] = d0[h] * 2 * x if x > 0 and x < 1 else float32(0)
            d1[h] = d1[h] * 2 * y if y > 0 and y < 1 else float32(0)
            gbias[h] += d0[h] + d1[h]
        for j in range(n):
            q0, q1 = grows[own[j]], grows[other[j]]
            for h in range(width):
                q0[h] += d0[h]
            for h in range(width):
                q1[h] += d1[h]
    return loss / len(chosen), error_q / len(chosen), error_s / len(chosen)


def new_network(width: int, rng: np.random.Generator) -> dict[str, F32]:
    """Returns a value network to begin with."""
    last = rng.uniform(-0.05, 0.05, (STACKS, OUTPUTS, 2, width)).astype(np.float32)
    last[:, 1:] *= 0.02
    return {
        "rows": rng.uniform(-0.05, 0.05, (FEATURES, width)).astype(np.float32),
        "bias": np.full(width, 0.1, np.float32),
        "last": last,
        "plain": np.tile(np.array([0.0, -0.1, -1.5], np.float32), (STACKS, 1)),
    }
