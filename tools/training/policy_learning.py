"""Trains the policy network: cached features of positions and moves, and compiled passes in float32.

    logit = hidden . (row of piece and origin + row of piece and target + row of the class) + class's bias
    loss = cross-entropy of the softmax against the target

Targets are an engine's best move, or the softmax of the moves' values at a temperature.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy import float32
from numpy.typing import NDArray

from graphsearch.evaluators.builtin.features_kernel import (
    MOST_FEATURES,
    attacks_of,
    list_features,
    seen_of,
    turn_of,
)
from graphsearch.evaluators.builtin.layout import CLASSES, FEATURES, PLACES
from graphsearch.evaluators.builtin.policy_kernel import class_of, kind_of_move, mover_of, place_of
from graphsearch.jit.pointers import ptr
from graphsearch.position.board_kernel import from_square, generate_moves, landing_of, side_to_move
from graphsearch.position.mates_kernel import check_masks
from graphsearch.position.tables import load_tables
from tools.training.records import OPTIONS, Records, Values, load_words
from tools.training.value_learning import F32, add_rows, clip

SEEN = 64  # features stored per position
CHUNK = 20_000  # positions per task of a thread
BEND = 540.0  # in 1/361 of a pawn: values beyond 1.5 pawns are compressed
SMALL_GRADIENT = 1e-4  # of a logit; moves below it are skipped


class PolicyArrays(NamedTuple):
    """The network, or its gradients: arrays `[..., width]`, except `plain`: `[CLASSES]`."""

    rows: Any
    bias: Any
    leaves: Any
    goes: Any
    kinds: Any
    plain: Any


class Lessons(NamedTuple):
    """Inputs and targets of the policy network.

    Attributes:
      features: uint16[B, SEEN]. seen: uint8[B], number of valid features.
      offsets: int64[B + 1], index of each position's first move.
      places, goals, classes: uint16[M] of the moves. targets: float32[M].
    """

    features: Any
    seen: Any
    offsets: Any
    places: Any
    goals: Any
    classes: Any
    targets: Any


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def count_moves(tables: Any, records: Any, counts: Any) -> None:
    """Fills the number of legal moves of all records."""
    words, moves = np.zeros(10, np.uint64), np.zeros(256, np.uint16)
    for i in range(len(records)):
        load_words(records[i], words)
        counts[i] = generate_moves(ptr(tables, 0), ptr(words, 0), ptr(moves, 0))


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def describe_moves(table: Any, s: Any, moves: Any, seen: Any, places: Any, goals: Any, classes: Any) -> Any:
    """Fills what the network sees of a position and its moves; returns the number of its features.

    Args:
      moves: uint16[n], all legal ones. seen: int64[MOST_FEATURES] out, features of the mover's view.
      places, goals, classes: of the moves, out.
    """
    child, gains = np.zeros(10, np.uint64), np.zeros(40, np.uint64)
    stm = side_to_move(s)
    white, black = attacks_of(table, s, 0), attacks_of(table, s, 1)
    theirs = white.every if stm else black.every
    turn, masks = turn_of(s, stm), check_masks(table, s)
    for j in range(len(moves)):
        m = moves[j]
        piece = mover_of(s, m)
        places[j] = place_of(piece, from_square(m), turn)
        goals[j] = place_of(piece, landing_of(s, m), turn)
        kind = kind_of_move(table, s, m, theirs, masks, ptr(child, 0), ptr(gains, 0))
        classes[j] = class_of(kind, piece)
    return list_features(s, seen_of(s, white, black), stm, ptr(seen, 0))


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def describe(tables: Any, records: Any, lessons: Any, best: Any, begin: Any, end: Any) -> None:
    """Fills the features of some records and their moves; `best`: index of the engine's move, -1 if none."""
    words, own = np.zeros(10, np.uint64), np.zeros(MOST_FEATURES, np.int64)
    table, s, moves = ptr(tables, 0), ptr(words, 0), np.zeros(256, np.uint16)
    for i in range(begin, end):
        load_words(records[i], words)
        n, at = generate_moves(table, s, ptr(moves, 0)), lessons.offsets[i]
        of_moves = lessons.places[at:], lessons.goals[at:], lessons.classes[at:]
        lessons.seen[i] = describe_moves(table, s, moves[:n], own, *of_moves)
        for j in range(lessons.seen[i]):
            lessons.features[i, j] = own[j]
        best[i] = -1
        for j in range(n):
            if moves[j] == records[i]["best"]:
                best[i] = j


def lessons_of(records: Records, values: Values, temperature: float, threads: int = 1) -> Lessons:
    """Returns the lessons of records that have a best move or values of their moves.

    Args:
      temperature: of the softmax of the values, in their unit.
    """
    counts = np.zeros(len(records), np.int64)
    tables = load_tables()
    count_moves(tables, records, counts)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    places, goals, classes = (np.zeros(offsets[-1], np.uint16) for _ in range(3))
    features, seen = np.zeros((len(records), SEEN), np.uint16), np.zeros(len(records), np.uint8)
    targets = np.zeros(offsets[-1], np.float32)
    lessons = Lessons(features, seen, offsets, places, goals, classes, targets)
    best = np.zeros(len(records), np.int64)
    with ThreadPoolExecutor(threads) as pool:
        begins = range(0, len(records), CHUNK)
        ends = (min(begin + CHUNK, len(records)) for begin in begins)
        list(pool.map(partial(describe, tables, records, lessons, best), begins, ends))
    if (records["best"] != 0).any():
        if (best < 0).any():
            raise ValueError(f"{int((best < 0).sum())} records have a best move that is not legal")
        lessons.targets[offsets[:-1] + best] = 1
        return lessons
    if len(values) != offsets[-1]:
        raise ValueError(f"{len(values)} values for {offsets[-1]} legal moves")
    bent = BEND * np.arcsinh(values.astype(np.float32) / BEND)  # in decided games, many moves are good
    return lessons._replace(targets=softmax(bent / temperature, offsets))


def softmax(logits: F32, offsets: NDArray[np.int64]) -> F32:
    """Returns the softmax of each position's logits."""
    counts = np.diff(offsets)
    top = np.repeat(np.maximum.reduceat(logits, offsets[:-1]), counts)
    powers = np.exp(np.maximum(logits - top, -20.0))
    out: F32 = (powers / np.repeat(np.add.reduceat(powers, offsets[:-1]), counts)).astype(np.float32)
    return out


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def write_logits(lessons: Any, i: Any, net: Any, hidden: Any, logits: Any) -> Any:
    """Fills the logits of a lesson's moves; returns the index of the largest."""
    begin, first = lessons.offsets[i], 0
    for j in range(lessons.offsets[i + 1] - begin):
        at, kind = begin + j, lessons.classes[begin + j]
        a, b, c = net.leaves[lessons.places[at]], net.goes[lessons.goals[at]], net.kinds[kind]
        total = float32(0)
        for h in range(len(hidden)):
            total += hidden[h] * (a[h] + b[h] + c[h])
        logits[j] = total + net.plain[kind]
        if logits[j] > logits[first]:
            first = j
    return first


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def move_backward(lessons: Any, at: Any, g: Any, net: Any, grad: Any, hidden: Any, d: Any) -> None:
    """Adds to the gradients of a move's rows, and to the slopes of the hidden layer."""
    leaves, goes, kind = lessons.places[at], lessons.goals[at], lessons.classes[at]
    a, b, c = net.leaves[leaves], net.goes[goes], net.kinds[kind]
    ga, gb, gc = grad.leaves[leaves], grad.goes[goes], grad.kinds[kind]
    for h in range(len(hidden)):
        x = g * hidden[h]
        ga[h] += x
        gb[h] += x
        gc[h] += x
        d[h] += g * (a[h] + b[h] + c[h])
    grad.plain[kind] += g


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def pass_lessons(lessons: Any, chosen: Any, net: Any, grad: Any, learns: Any) -> Any:
    """Returns the sum of the cross-entropy, and the number of lessons with the target's first choice.

    If `learns`, adds the gradients, also as sums.

    Args:
      chosen: int64[B], indices of lessons.
      net, grad: `PolicyArrays`.
    """
    width = net.bias.shape[0]
    sums, hidden, d = np.zeros(width, np.float32), np.zeros(width, np.float32), np.zeros(width, np.float32)
    logits, total = np.zeros(256, np.float32), np.zeros(2, np.float64)
    for i in chosen:
        n, begin, count = lessons.seen[i], lessons.offsets[i], lessons.offsets[i + 1] - lessons.offsets[i]
        add_rows(net.rows, net.bias, lessons.features[i], int(n), sums)
        for h in range(width):
            hidden[h] = clip(sums[h]) * clip(sums[h])
            d[h] = 0
        first = write_logits(lessons, i, net, hidden, logits)
        mass, wanted = 0.0, 0
        for j in range(count):
            mass += np.exp(float(logits[j] - logits[first]))
            if lessons.targets[begin + j] > lessons.targets[begin + wanted]:
                wanted = j
        total[1] += first == wanted
        for j in range(count):
            target, log_prior = lessons.targets[begin + j], float(logits[j] - logits[first]) - np.log(mass)
            total[0] -= target * log_prior
            slope = float32(np.exp(log_prior) - target)
            if learns and abs(slope) > SMALL_GRADIENT:
                move_backward(lessons, begin + j, slope, net, grad, hidden, d)
        if not learns:
            continue
        for h in range(width):
            x = sums[h]
            d[h] = d[h] * 2 * x if x > 0 and x < 1 else float32(0)
            grad.bias[h] += d[h]
        for j in range(n):
            row = grad.rows[lessons.features[i, j]]
            for h in range(width):
                row[h] += d[h]
    return total


def new_network(width: int, rng: np.random.Generator) -> PolicyArrays:
    """Returns a randomly initialised policy network."""

    def some(*shape: int) -> F32:
        return rng.uniform(-0.05, 0.05, shape).astype(np.float32)

    return PolicyArrays(
        some(FEATURES, width),
        np.full(width, 0.2, np.float32),
        some(PLACES, width),
        some(PLACES, width),
        some(CLASSES, width),
        np.zeros(CLASSES, np.float32),
    )
