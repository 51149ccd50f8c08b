"""Makes what a GPU learns from, as arrays of fixed shapes: the compiled part.

Groups of moves for the value network (`groups_kernel.py`), and lessons for the policy network: positions of
the same games, or a few plies off them, with the priors of a network that looks at every move.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from graphsearch.evaluators.builtin.features_kernel import MOST_FEATURES
from graphsearch.evaluators.builtin.layout import CLASSES, FEATURES
from graphsearch.evaluators.nnue.evaluation_kernel import evaluate_position
from graphsearch.jit.pointers import ptr
from graphsearch.jit.types import int64
from graphsearch.position.board_kernel import PW
from tools.training.groups_kernel import (
    MOST_MEMBERS,
    MOST_OFF,
    OFF,
    OFF_HEAT,
    OPTIONS,
    OVER,
    TURNED,
    go_on,
    place,
)
from tools.training.policy_learning import SEEN, describe_moves
from tools.training.records import chances_of_label, load_words
from tools.training.value_learning import see, stack_of

MOST_MOVES = 80  # of a lesson; positions with more are left out
LABEL, WIN, LOSS, SIGN = range(4)  # targets of a member; its sign is 0 where a group has fewer members
FEWEST_MOVES = 2  # of a lesson


class GroupArrays(NamedTuple):
    """Groups for the value network.

    Attributes:
      features: uint16[G, MOST_MEMBERS, 2, SEEN], of the mover's view, then of the other.
      stacks: uint8[G, MOST_MEMBERS]. targets: float32[G, MOST_MEMBERS, 4].
      hints: float16[G, MOST_MEMBERS, HINTS].
    """

    features: Any
    stacks: Any
    targets: Any
    hints: Any


class LessonArrays(NamedTuple):
    """Positions for the policy network.

    Attributes:
      features: uint16[L, SEEN], of the mover's view.
      places, goals, classes: uint16[L, MOST_MOVES] of the moves; the class is CLASSES where there is none.
      targets: float32[L, MOST_MOVES], priors.
    """

    features: Any
    places: Any
    goals: Any
    classes: Any
    targets: Any


def room_for(games: int) -> LessonArrays:
    """Returns empty lessons."""
    shape = games, MOST_MOVES
    places, goals, classes = (np.full(shape, value, np.uint16) for value in (0, 0, CLASSES))
    targets = np.zeros(shape, np.float32)
    return LessonArrays(np.zeros((games, SEEN), np.uint16), places, goals, classes, targets)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def fill(out: Any, features: Any, n: Any) -> None:
    """Fills the features of a view; where it has fewer than SEEN, FEATURES + j stands at j."""
    for j in range(SEEN):
        out[j] = features[j] if j < n else FEATURES + j


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def describe_groups(tables: Any, members: Any, begins: Any, features: Any, stacks: Any, targets: Any) -> None:
    """Fills the arrays of `GroupArrays` except the hints; the targets are zeros before."""
    words = np.zeros(10, np.uint64)
    own, other = np.zeros(MOST_FEATURES, np.int64), np.zeros(MOST_FEATURES, np.int64)
    for g in range(len(begins) - 1):
        for k in range(MOST_MEMBERS):
            if k >= begins[g + 1] - begins[g]:
                fill(features[g, k, 0], own, 0)
                fill(features[g, k, 1], other, 0)
                continue
            member = members[begins[g] + k]
            load_words(member, words)
            n = see(tables, words, own, other)
            fill(features[g, k, 0], own, n)
            fill(features[g, k, 1], other, n)
            stacks[g, k] = stack_of(words)
            win, loss = chances_of_label(float(member["score"]), int(member["ply"]))
            target = targets[g, k]
            target[LABEL], target[WIN], target[LOSS] = float(member["score"]), win, loss
            target[SIGN] = 1.0 if member["kind"] & TURNED else -1.0


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def write_lessons(
    tables: Any, weights: Any, games: Any, share: Any, seed: Any, scratch: Any, out: Any
) -> Any:
    """Writes lessons of some of the games' positions; returns their number.

    Args:
      weights: of the network whose priors are targets. games: `Games`. share: of the games, in [0, 1].
      scratch: uint64[scratch_words(width)]. out: `room_for`.
    """
    np.random.seed(seed)
    table, net, stack = ptr(tables, 0), ptr(weights, 0), ptr(scratch, 0)
    moves, priors, words = np.zeros(256, np.uint16), np.zeros(256, np.float32), np.zeros(10, np.uint64)
    seen, s, count = np.zeros(MOST_FEATURES, np.int64), ptr(words, 0), 0
    for g in range(len(games.ply)):
        if games.ply[g] == OVER or np.random.random() >= share:
            continue
        n = place(table, games.words[g], moves, stack)
        if n and np.random.random() < OFF:
            n = go_on(table, net, OFF_HEAT, np.random.randint(1, MOST_OFF + 1), moves, n, stack)
        if n < FEWEST_MOVES or n > MOST_MOVES:
            continue
        for i in range(PW):
            words[i] = stack[i]
        evaluate_position(table, net, s, ptr(moves, 0), int64(n), ptr(priors, 0), stack)
        for j in range(n):
            out.targets[count, j] = priors[j]
        of_moves = out.places[count], out.goals[count], out.classes[count]
        fill(out.features[count], seen, describe_moves(table, s, moves[:n], seen, *of_moves))
        count += 1
    return count
