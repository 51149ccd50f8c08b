"""Trains the value network to compare the moves of a position: compiled passes over groups.

In a group the error of the score counts a second time, minus the mean of all members, because a search
compares the moves of a position:

    loss = sum of the members' losses + share sum w_i (e_i - e)^2,  e_i = sigmoid(score) - sigmoid(label)
         + EVENNESS sum w_i ((a_i - a)^2 + (b_i - b)^2),  logarithms of the draw width and the noise
         + weight sum over members and hints (output - hint)^2, if the network has outputs for the hints

seen by the side that makes the group's moves; e, a and b are means by the weights w_i = exp(-loss of the move
against the best / GIVEN_AWAY). The last term is there because widths that differ from move to move disturb
the order of Q. Hints tell a network what its label is made of; their outputs are dropped after training.

Members of a group are similar. So the sums of a member's view are those of the first member, plus the rows
that only this member has, minus the rows that it lacks; gradients flow back in the same way.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy import float32

from graphsearch.evaluators.builtin.features_kernel import MOST_FEATURES
from graphsearch.evaluators.builtin.layout import FEATURES, FIRST, OUTPUTS
from graphsearch.jit.pointers import ONE
from graphsearch.position.words import META
from tools.training.groups_kernel import HINTS, MOST_MEMBERS, TURNED, worth_of
from tools.training.records import OPTIONS, PAWN, load_words, sigmoid
from tools.training.value_learning import (
    MOST_SCORE,
    UNIT,
    add_rows,
    add_to,
    backward_to_sums,
    forward_from_sums,
    judge,
    new_work,
    see,
    stack_of,
    within,
)

GIVEN_AWAY = 0.6 * PAWN
EVENNESS = 1.0
FIGURES = 7  # returned by a pass
HINTS_AT = FIRST + OUTPUTS  # the outputs for hints follow all others


class Changes(NamedTuple):
    """The differences of the views of a group's members from those of the first member; White's view first.

    Attributes:
      features: int64[MOST_MEMBERS, 2, MOST_FEATURES], of each; counts: int64[MOST_MEMBERS, 2].
      more, less: likewise, features that the first lacks, and that only the first has; more_counts, ...
      apart: bool[MOST_MEMBERS, 2], whether the view is summed from scratch, as after a king's move.
      marks: int64[FEATURES], zeros between calls.
    """

    features: Any
    counts: Any
    more: Any
    more_counts: Any
    less: Any
    less_counts: Any
    apart: Any
    marks: Any


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def new_changes() -> Any:
    """Returns a zeroed `Changes`."""
    lists, counts = (MOST_MEMBERS, 2, MOST_FEATURES), (MOST_MEMBERS, 2)
    return Changes(
        np.zeros(lists, np.int64),
        np.zeros(counts, np.int64),
        np.zeros(lists, np.int64),
        np.zeros(counts, np.int64),
        np.zeros(lists, np.int64),
        np.zeros(counts, np.int64),
        np.zeros(counts, np.bool_),
        np.zeros(FEATURES, np.int64),
    )


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def compare_views(changes: Any, k: Any, colour: Any) -> None:
    """Fills the features that a member's view has and lacks in comparison with the first member's."""
    marks, first, mine = changes.marks, changes.features[0, colour], changes.features[k, colour]
    more, less, n, m = 0, 0, changes.counts[0, colour], changes.counts[k, colour]
    for j in range(n):
        marks[first[j]] = 1
    for j in range(m):
        if marks[mine[j]]:
            marks[mine[j]] = 2
        else:
            changes.more[k, colour, more] = mine[j]
            more += 1
    for j in range(n):
        if marks[first[j]] == 1:
            changes.less[k, colour, less] = first[j]
            less += 1
        marks[first[j]] = 0
    changes.more_counts[k, colour], changes.less_counts[k, colour] = more, less
    changes.apart[k, colour] = k == 0 or more + less >= m


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def change_rows(rows: Any, more: Any, n: Any, less: Any, m: Any, base: Any, out: Any) -> None:
    """Fills sums: those of `base`, plus the rows `more`, minus the rows `less`."""
    width = out.shape[0]
    for h in range(width):
        out[h] = base[h]
    both = min(n, m)
    for j in range(both):
        a, b = rows[more[j]], rows[less[j]]
        for h in range(width):
            out[h] += a[h] - b[h]
    for j in range(both, n):
        add_to(out, rows[more[j]])
    for j in range(both, m):
        a = rows[less[j]]
        for h in range(width):
            out[h] -= a[h]


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def see_group(tables: Any, members: Any, works: Any, changes: Any, turns: Any, stacks: Any) -> None:
    """Fills the features of all members, the sides to move and the stacks."""
    words = np.zeros(10, np.uint64)
    for k in range(len(members)):
        load_words(members[k], words)
        n = see(tables, words, works[k].own, works[k].other)
        turns[k] = int(words[META] & ONE)
        stacks[k] = stack_of(words)
        for colour in range(2):
            seen = works[k].own if colour == turns[k] else works[k].other
            for j in range(n):
                changes.features[k, colour, j] = seen[j]
            changes.counts[k, colour] = n
            compare_views(changes, k, colour)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def group_forward(net: Any, works: Any, changes: Any, turns: Any, stacks: Any, n: Any) -> None:
    """Fills the outputs of all n members."""
    for k in range(n):
        for colour in range(2):
            out = works[k].sums[colour ^ turns[k]]
            if changes.apart[k, colour]:
                add_rows(net.rows, net.bias, changes.features[k, colour], changes.counts[k, colour], out)
            else:
                change_rows(
                    net.rows,
                    changes.more[k, colour],
                    changes.more_counts[k, colour],
                    changes.less[k, colour],
                    changes.less_counts[k, colour],
                    works[0].sums[colour ^ turns[0]],
                    out,
                )
        forward_from_sums(net, works[k], stacks[k])


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def group_backward(net: Any, grad: Any, works: Any, changes: Any, turns: Any, stacks: Any, n: Any) -> None:
    """Adds to the gradients, from the slopes of the members' outputs."""
    for k in range(n):
        backward_to_sums(net, grad, works[k], stacks[k])
    for colour in range(2):
        shared = works[0].slopes[colour ^ turns[0]]
        for k in range(1, n):
            slopes = works[k].slopes[colour ^ turns[k]]
            if changes.apart[k, colour]:
                for j in range(changes.counts[k, colour]):
                    add_to(grad.rows[changes.features[k, colour, j]], slopes)
                continue
            add_to(shared, slopes)
            for j in range(changes.more_counts[k, colour]):
                add_to(grad.rows[changes.more[k, colour, j]], slopes)
            for j in range(changes.less_counts[k, colour]):
                g = grad.rows[changes.less[k, colour, j]]
                for h in range(g.shape[0]):
                    g[h] -= slopes[h]
        for j in range(changes.counts[0, colour]):
            add_to(grad.rows[changes.features[0, colour, j]], shared)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def even(works: Any, weights: Any, output: Any, slopes: Any) -> Any:
    """Returns the evenness loss of an output, its weighted variance over the members; fills its slopes."""
    n, mean = len(weights), 0.0
    for i in range(n):
        mean += weights[i] * works[i].first[FIRST + output]
    mean /= weights.sum()
    loss = 0.0
    for i in range(n):
        apart = works[i].first[FIRST + output] - mean
        loss += EVENNESS * weights[i] * apart**2
        slopes[i, output] = 2 * EVENNESS * weights[i] * apart
    return loss


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def compare(members: Any, works: Any, share: Any, slopes: Any, total: Any) -> None:
    """Adds the comparison's losses and correlation to `total`; fills its part of the slopes of the outputs.

    The correlation is between sigmoid(score) and sigmoid(label), by the weights.
    """
    n = len(members)
    ours, theirs, worths, bends = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    for i in range(n):
        sign = 1.0 if members[i]["kind"] & TURNED else -1.0
        ours[i] = sigmoid(sign * within(works[i].first[FIRST], -MOST_SCORE, MOST_SCORE))
        worths[i] = worth_of(members[i])
        theirs[i] = sigmoid(worths[i] / UNIT)
        bends[i] = sign * ours[i] * (1 - ours[i])
    weights = np.exp((worths - worths.max()) / GIVEN_AWAY)
    whole = weights.sum()
    ours -= (weights * ours).sum() / whole
    theirs -= (weights * theirs).sum() / whole
    errors = ours - theirs
    slopes[:n, 0] = 2 * share * weights * errors * bends
    total[1] += share * (weights * errors**2).sum()
    both = (weights * ours**2).sum() * (weights * theirs**2).sum()
    total[4] += (weights * ours * theirs).sum() / np.sqrt(both + 1e-12)
    for output in range(1, OUTPUTS):
        total[5] += even(works, weights, output, slopes)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def compare_hints(work: Any, hints: Any, weight: Any) -> Any:
    """Returns the sum of the squared errors of a member's hints; fills the slopes of their outputs."""
    total = 0.0
    for k in range(HINTS):
        error = work.first[HINTS_AT + k] - hints[k]
        total += error * error
        work.first_slopes[HINTS_AT + k] = float32(2 * weight * error)
    return total


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def pass_groups(
    tables: Any, groups: Any, net: Any, grad: Any, chosen: Any, learns: Any, share: Any, weight: Any
) -> Any:
    """Returns the sums of the figures of some groups; if `learns`, adds the gradients, also as sums.

    The figures: mean loss of the members; loss of the comparison; mean errors of Q and of sigmoid(score);
    correlation within the group; loss of uneven widths; mean squared error of the hints, summed over them.

    Args:
      groups: `Groups`. chosen: int64[B], indices of groups.
      net, grad: `ValueArrays`. share: of the comparison in the loss. weight: of the hints.
    """
    works, begins = [new_work(net) for _ in range(MOST_MEMBERS)], groups.begins
    has_hints = net.first.shape[1] > HINTS_AT
    changes, turns, stacks = new_changes(), np.zeros(MOST_MEMBERS, np.int64), np.zeros(MOST_MEMBERS, np.int64)
    slopes, total = np.zeros((MOST_MEMBERS, OUTPUTS)), np.zeros(FIGURES, np.float64)
    for g in chosen:
        some = groups.members[begins[g] : begins[g + 1]]
        n = len(some)
        see_group(tables, some, works, changes, turns, stacks)
        group_forward(net, works, changes, turns, stacks, n)
        compare(some, works, share, slopes, total)
        for k in range(n):
            loss, error_q, error_score = judge(some[k], works[k].first, works[k].first_slopes)
            total[0] += loss / n
            total[2] += error_q / n
            total[3] += error_score / n
            for output in range(OUTPUTS):
                works[k].first_slopes[FIRST + output] += slopes[k, output]
            if has_hints:
                total[6] += compare_hints(works[k], groups.hints[begins[g] + k], weight) / n
        if learns:
            group_backward(net, grad, works, changes, turns, stacks, n)
    return total
