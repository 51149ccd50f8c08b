"""Reading transposition entries and graph proofs in a fixed-depth search, and writing entries.

An entry's value ends a node only if its depth is exactly the one needed, so that values do not depend on the
content of the table; a forced mate holds at every depth on the side that it proves, for paths with a clock
that leaves enough plies. The search writes no bound that holds for one path only:

- a value that depends on a repetition is tainted: a cut rests on the move that cut, an upper bound on all
  moves, an exact value on all as an upper and on the best one as a lower bound;
- a key holds for all clocks up to 75, so a bound is written and used there only if the clock cannot reach 100
  below: clock + depth + the plies of quiescence < 100. Above 75 the key holds the clock itself.

Mates are exempt on the side that they prove: every defence was refuted, so they depend on no draw.
"""

from __future__ import annotations

from ...graph.arena_kernel import ArenaPointers
from ...jit.compiler import inner
from ...jit.pointers import prefetch
from ...jit.types import Pointer, int64, uint8, uint64
from ...position.board import CLOCK_DRAW, FREE_CLOCK
from ...position.scores import MATE
from ...position.words import Position
from ...store.record.bounds_kernel import MOST_MATE, is_decisive, is_settled, node_code
from ...store.record.node_kernel import flags_of, lower_in
from ...store.record.transposition_kernel import (
    AGE,
    EXACT,
    GENERATION,
    LOWER,
    PROOF,
    UPPER,
    EntryPointers,
    bound_in,
    bucket_of,
    check_in,
    depth_in,
    packed_entry,
    place_for,
    proves_mate,
    put_entry,
    value_in,
)
from . import frame_layout as layout
from .leaves_kernel import below_root

NO_BOUND = 0


@inner
def clock_is_far(clock: int64, depth: int64) -> bool:
    """Returns whether a result at this depth holds for every path with the key."""
    return clock > FREE_CLOCK or clock + depth + layout.QUIET_PLIES < CLOCK_DRAW


@inner
def ends(value: int64, bound: int64, alpha: int64, beta: int64) -> bool:
    """Returns whether a value with its bound answers a window."""
    if bound == EXACT:
        return True
    return value >= beta if bound == LOWER else value <= alpha


@inner
def entry_value(
    data: uint64, depth: int64, alpha: int64, beta: int64, ply: int64, clock: int64
) -> tuple[bool, int64]:
    """Returns whether an entry ends a node, and its root-relative value."""
    bound = bound_in(data)
    value = value_in(data)
    found = depth_in(data)
    at_root = below_root(value, ply)
    if bound == NO_BOUND:
        return False, at_root
    if proves_mate(value, bound):
        plies = MATE - abs(value)
        if clock + plies > CLOCK_DRAW:
            return False, at_root
        if bound == EXACT and found != depth and found != PROOF and plies > found:
            bound = LOWER if value > 0 else UPPER  # a shorter mate may exist beyond the depth
        return ends(at_root, bound, alpha, beta), at_root
    if found != PROOF and (found != depth or not clock_is_far(clock, depth)):
        return False, at_root
    return ends(at_root, bound, alpha, beta), at_root


@inner
def graph_proof(A: ArenaPointers, rec: int64, s: Position) -> tuple[int64, int64]:
    """Returns the proof in a record as (bound, value counted from the node).

    A proven win mates in at most the plies that the record holds; a proof without a length is not used.
    NO_BOUND if nothing is proven for a path that arrives with the clock of `s`.
    """
    if not is_settled(A, rec, s):
        return int64(NO_BOUND), int64(0)
    if not is_decisive(flags_of(A, rec)):
        return EXACT, int64(0)
    code = node_code(A, rec, int64(0))
    if code > MOST_MATE:
        return int64(NO_BOUND), int64(0)
    if code == 1:
        return EXACT, int64(-MATE)
    if lower_in(flags_of(A, rec)) == 1:
        return LOWER, MATE - (code - 1)
    return UPPER, code - 1 - MATE


@inner
def prefetch_entry(E: EntryPointers, key: uint64) -> None:
    """Prefetches the bucket of a key."""
    at = bucket_of(E, key)
    prefetch(E.keys, at)
    prefetch(E.data, at)


@inner
def is_stored(E: EntryPointers, place: int64) -> bool:
    """Returns whether an entry was written by an earlier run."""
    return int64(E.ages[place]) & AGE != E.counters[GENERATION]


@inner
def bound_found(frame: Pointer[int64], ply: int64, clock: int64) -> int64:
    """Returns the bound to write for a finished frame's value, NO_BOUND if none may be written."""
    best = frame[layout.BEST]
    bound = LOWER if best >= frame[layout.BETA] else (EXACT if best > frame[layout.LOW] else UPPER)
    tainted = (frame[layout.TAINT] if bound != LOWER else frame[layout.BEST_TAINT]) < ply
    if not tainted and clock_is_far(clock, frame[layout.DEPTH]):
        return bound
    if proves_mate(best, bound):
        return LOWER if best > 0 else UPPER
    if bound == EXACT and frame[layout.BEST_TAINT] >= ply and clock_is_far(clock, frame[layout.DEPTH]):
        return LOWER
    return int64(NO_BOUND)


@inner
def gives_way(data: uint64, stored: bool, value: int64, depth: int64, bound: int64) -> bool:
    """Returns whether to overwrite an entry of the same position.

    The shorter of two mates stays, and an exact value against another bound of its depth; only a deeper
    value overwrites an exact value of an earlier run.
    """
    if depth_in(data) == PROOF:
        known, new = abs(value_in(data)), abs(value)
        return depth == PROOF and (new > known or (new == known and bound == EXACT != bound_in(data)))
    if bound == NO_BOUND:
        return bound_in(data) == NO_BOUND
    if bound_in(data) == EXACT and depth != PROOF:
        return depth > depth_in(data) if stored else bound == EXACT or depth != depth_in(data)
    return True


@inner
def write_entry(
    E: EntryPointers, key: uint64, check: uint64, frame: Pointer[int64], ply: int64, clock: int64
) -> None:
    """Writes the result of a finished frame, unless the present entry is better (`gives_way`)."""
    bound = bound_found(frame, ply, clock)
    move = frame[layout.BEST_MOVE] if frame[layout.BEST_MOVE] else frame[layout.TABLE_MOVE]
    if bound == NO_BOUND and move == 0:
        return
    value = below_root(frame[layout.BEST], -ply) if bound else int64(0)
    depth = int64(frame[layout.DEPTH])
    if proves_mate(value, bound):  # holds at every depth; it is the shortest if the depth covers it
        if bound == EXACT and MATE - abs(value) > depth:
            bound = LOWER if value > 0 else UPPER
        depth = int64(PROOF)
    data = packed_entry(value, move, depth, bound, frame[layout.KIND], frame[layout.CUT_BY], check)
    place = place_for(E, key, check)
    if E.keys[place] == key:
        old = E.data[place]
        if check_in(old) == check_in(data) and not gives_way(old, is_stored(E, place), value, depth, bound):
            return
        if old == data:
            E.ages[place] = uint8((E.ages[place] & ~uint8(AGE)) | uint8(E.counters[GENERATION]))
            return
    put_entry(E, place, key, data, True)
