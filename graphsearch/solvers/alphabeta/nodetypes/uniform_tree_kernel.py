"""Alpha-beta on a tree of b moves at every node and n plies, made of hashes, to count node types.

Two kinds of trees; the seed fixes all values, whatever the order of the search:

- ordered: a node's value v is known before the search. Its best child has the value -v, every other one is
  better for the opponent by 1..SPREAD. The best one is the first with a given probability, else any other.
- random: leaves have independent values; the best child is not known before the search.

Plain alpha-beta passes the window down; principal variation search (PVS) searches all moves but the first
with a null window. If one fails high inside an open window, PVS searches it again as a PV node. Values are
fail-soft.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ....jit.compiler import inner, kernel
from ....jit.pointers import ONE, U, adv, ptr
from ....jit.types import Pointer, int64, uint64
from ....store.record.transposition_kernel import ALL, CUT, PV

BEYOND = 1 << 60  # outside every value
SPREAD = 1000  # a move that is not the best loses 1..SPREAD
RANDOM_BITS = 48  # of a leaf's value
ORDER_BITS = 53  # of the probability that the best move is first

GOLDEN = U(0x9E3779B97F4A7C15)
ORDERING = U(0xD1B54A32D192ED03)

# the shape of a search: moves, plies, whether it is PVS, whether leaves are random, Kannan's candidates in a
# Cut node, and the probability that the best move is first, in units of 2^-53
B, N, PVS, RANDOM, CANDIDATES, FIRST_BEST = 0, 1, 2, 3, 4, 5
SHAPE = 6

# a frame of the stack, one for each ply: the node's value if it is known and the index of its best child;
# alpha at its entry, alpha now and beta; best value; moves begun; whether the move in flight is a scout; the
# types expected by Garms and Kannan
VALUE, BEST_PLACE, LEAST, ALPHA, BETA, BEST, BEGUN, SCOUTING, GARMS, KANNAN = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
FRAME = 10

# counters; `types` counts nodes by rules (Garms, Kannan), expected and actual type, and ply
PLY, FOUND, NODES, CUTS, FIRST_CUTS, RESEARCHES, BECAME_ALL, BECAME_RIGHTLY = 0, 1, 2, 3, 4, 5, 6, 7
COUNTERS = 8
KINDS = 4  # PV, CUT and ALL are 1 to 3


def new_search(
    depth: int,
) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]:
    """Returns the arrays of a search to a depth: frames, hashes, counters and types."""
    plies = depth + 1
    return (
        np.zeros(plies * FRAME, np.int64),
        np.zeros(plies, np.uint64),
        np.zeros(COUNTERS, np.int64),
        np.zeros(2 * KINDS * KINDS * plies, np.int64),
    )


@inner
def mixed(x: uint64) -> uint64:
    """Returns the splitmix64 hash of a word."""
    x += GOLDEN
    x = (x ^ (x >> U(30))) * U(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> U(27))) * U(0x94D049BB133111EB)
    return x ^ (x >> U(31))


@inner
def best_place(shape: Pointer[int64], name: uint64) -> int64:
    """Returns the index of the best child of an ordered tree's node."""
    draw = mixed(name ^ ORDERING)
    if shape[B] == 1 or int64(draw >> U(64 - ORDER_BITS)) < shape[FIRST_BEST]:
        return int64(0)
    return int64(1) + int64(mixed(draw) % U(shape[B] - 1))


@inner
def child_value(f: Pointer[int64], place: int64, name: uint64) -> int64:
    """Returns the value of a child of an ordered tree's node, for the side to move at the child."""
    if place == f[BEST_PLACE]:
        return -f[VALUE]
    return -f[VALUE] + int64(1) + int64((name >> U(32)) % U(SPREAD))


@inner
def open_node(
    shape: Pointer[int64],
    f: Pointer[int64],
    name: uint64,
    alpha: int64,
    beta: int64,
    garms: int64,
    kannan: int64,
) -> None:
    """Fills the frame of a new node; the caller has set its value."""
    f[BEST_PLACE] = best_place(shape, name)
    f[LEAST] = alpha
    f[ALPHA] = alpha
    f[BETA] = beta
    f[BEST] = -BEYOND
    f[BEGUN] = 0
    f[SCOUTING] = 0
    f[GARMS] = garms
    f[KANNAN] = kannan


@inner
def expected_below(parent: int64, place: int64, candidates: int64) -> int64:
    """Returns the expected type of the child at an index, with so many candidate children (Garms: 1)."""
    if parent == PV and place == 0:
        return PV
    if parent == CUT and place < candidates:
        return ALL
    return CUT


@inner
def open_child(
    shape: Pointer[int64],
    frames: Pointer[int64],
    names: Pointer[uint64],
    counters: Pointer[int64],
    place: int64,
    again: bool,
) -> None:
    """Descends to the child at an index; `again`: its scout failed high."""
    ply = counters[PLY]
    f = adv(frames, FRAME * ply)
    child = adv(frames, FRAME * (ply + 1))
    name = mixed(names[ply] + U(place + 1) * GOLDEN)
    names[ply + 1] = name
    child[VALUE] = child_value(f, place, name)
    scouting = shape[PVS] != 0 and place > 0 and not again and f[BETA] - f[ALPHA] > 1
    alpha = -f[ALPHA] - 1 if scouting else -f[BETA]
    garms = PV if again else expected_below(f[GARMS], place, int64(1))
    kannan = PV if again else expected_below(f[KANNAN], place, shape[CANDIDATES])
    open_node(shape, child, name, alpha, -f[ALPHA], garms, kannan)
    f[SCOUTING] = 1 if scouting else 0
    f[BEGUN] = place + 1
    counters[PLY] = ply + 1
    counters[NODES] += 1


@inner
def leaf_value(shape: Pointer[int64], f: Pointer[int64], name: uint64) -> int64:
    """Returns the value of a leaf for the side to move."""
    if shape[RANDOM] != 0:
        return int64(mixed(name) >> U(64 - RANDOM_BITS)) - int64(1 << (RANDOM_BITS - 1))
    return f[VALUE]


@inner
def close_node(
    shape: Pointer[int64], f: Pointer[int64], counters: Pointer[int64], types: Pointer[int64], value: int64
) -> None:
    """Counts a finished node by its types."""
    found = CUT if value >= f[BETA] else ALL if value <= f[LEAST] else PV
    plies = shape[N] + 1
    types[(KINDS * f[GARMS] + found) * plies + counters[PLY]] += 1
    types[(KINDS * (KINDS + f[KANNAN]) + found) * plies + counters[PLY]] += 1
    if f[KANNAN] == CUT and f[BEGUN] > 0 and (found != CUT or f[BEGUN] > shape[CANDIDATES]):
        counters[BECAME_ALL] += 1  # its candidates were searched, and none cut
        if found == ALL:
            counters[BECAME_RIGHTLY] += 1


@inner
def hand_up(
    shape: Pointer[int64],
    frames: Pointer[int64],
    names: Pointer[uint64],
    counters: Pointer[int64],
    value: int64,
) -> None:
    """Passes the value of a finished child to its parent; descends again if the scout failed high."""
    counters[PLY] -= 1
    f = adv(frames, FRAME * counters[PLY])
    value = -value
    if f[SCOUTING] != 0 and f[ALPHA] < value and value < f[BETA]:
        counters[RESEARCHES] += 1
        open_child(shape, frames, names, counters, f[BEGUN] - 1, True)
        return
    if value > f[BEST]:
        f[BEST] = value
    if value > f[ALPHA]:
        f[ALPHA] = value
    if value >= f[BETA]:
        counters[CUTS] += 1
        if f[BEGUN] == 1:
            counters[FIRST_CUTS] += 1


@kernel
def begin(
    shape: NDArray[np.int64],
    seed: uint64,
    frames: NDArray[np.int64],
    names: NDArray[np.uint64],
    counters: NDArray[np.int64],
) -> None:
    """Begins the search of a tree at its root, with an open window.

    Args:
      shape: `[SHAPE]` int64. seed: uint64. frames, names, counters: from `new_search`.
    """
    root = ptr(frames, 0)
    names[0] = mixed(seed ^ ONE)
    root[VALUE] = int64(0)
    open_node(ptr(shape, 0), root, names[0], int64(-BEYOND), int64(BEYOND), PV, PV)
    counters[NODES] = 1


@kernel
def go_on(
    shape: NDArray[np.int64],
    frames: NDArray[np.int64],
    names: NDArray[np.uint64],
    counters: NDArray[np.int64],
    types: NDArray[np.int64],
    most: int64,
) -> bool:
    """Continues the search until it is finished or has begun `most` nodes; returns whether it is finished.

    The value of the root is then in `counters[FOUND]`.
    """
    s, fs, ns, cs, ts = ptr(shape, 0), ptr(frames, 0), ptr(names, 0), ptr(counters, 0), ptr(types, 0)
    while cs[NODES] < most:
        ply = cs[PLY]
        f = adv(fs, FRAME * ply)
        is_leaf = ply == s[N]
        if not is_leaf and f[BEGUN] < s[B] and f[BEST] < f[BETA]:
            open_child(s, fs, ns, cs, f[BEGUN], False)
            continue
        value = leaf_value(s, f, ns[ply]) if is_leaf else f[BEST]
        close_node(s, f, cs, ts, value)
        if ply == 0:
            cs[FOUND] = value
            return True
        hand_up(s, fs, ns, cs, value)
    return False
