"""One iteration of principal variation search, on an explicit stack: null windows, re-search, node types.

Plain alpha-beta: the search reduces and prunes nothing, so the value is that of negamax with the same depth
and leaves (`leaves_kernel.py`). Expected types after Onno Garms: the root is PV; the first child of a PV node
is PV, the others Cut, searched again as PV; the first child of a Cut node is All, the others Cut; children of
All are Cut.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...graph.arena_kernel import ArenaArrays, ArenaPointers, pointers
from ...graph.heap_kernel import find
from ...jit.compiler import inner, kernel
from ...jit.pointers import adv, prefetch
from ...jit.types import Pointer, int64
from ...position.board import CLOCK_DRAW
from ...position.board_kernel import (
    PW,
    check_hash,
    clock_of,
    generate_moves,
    in_check,
    is_dead,
    make_move,
    position_key,
)
from ...position.scores import FAR, MATE
from ...position.words import KEY, Position
from ...store.record.transposition_kernel import (
    ALL,
    CUT,
    PV,
    EntryArrays,
    EntryPointers,
    entry_pointers,
    find_entry,
    move_in,
)
from . import frame_layout as layout
from .frames_kernel import Search, SearchArrays, search_pointers
from .leaves_kernel import below_root, leaf_value, value_at_limit
from .order_kernel import learn_cut, next_move, order_by_graph
from .table_kernel import NO_BOUND, ends, entry_value, graph_proof, is_stored, prefetch_entry, write_entry


@inner
def repeated_at(S: Search, s: Position, ply: int64) -> int64:
    """Returns the ply of an earlier occurrence on the path; -1: twice in the game; NO_TAINT: none."""
    clock = clock_of(s)
    key = s[KEY]
    for back in range(4, min(clock, ply) + 1, 2):
        if S.positions[(ply - back) * PW + KEY] == key:
            return ply - back
    if clock >= ply:
        for i in range(S.game_size):
            if S.game[i] == key:
                return int64(-1)
    return int64(layout.NO_TAINT)


@inner
def ends_by_rule(S: Search, s: Position, frame: Pointer[int64], ply: int64) -> bool:
    """Returns whether a position is a draw by material, clock or repetition, or mate at the last move."""
    if is_dead(s):
        frame[layout.BEST] = 0
        return True
    if clock_of(s) >= CLOCK_DRAW:
        frame[layout.BEST] = value_at_limit(S, s, ply)
        S.counters[layout.PATH_DRAWS] += 1
        return True
    if ply == 0:
        return False
    frame[layout.TAINT] = repeated_at(S, s, ply)
    if frame[layout.TAINT] == layout.NO_TAINT:
        return False
    frame[layout.BEST] = 0
    S.counters[layout.PATH_DRAWS] += 1
    return True


@inner
def may_return(S: Search, s: Position, ply: int64) -> bool:
    """Returns whether a position that stood twice in the game may recur: then no entry ends a node."""
    return S.game_size > 0 and clock_of(s) >= ply


@inner
def ends_by_entry(S: Search, E: EntryPointers, s: Position, frame: Pointer[int64], ply: int64) -> bool:
    """Returns whether a transposition entry ends the node; if not, its move is the first to try."""
    key, check = S.keys[2 * ply], S.keys[2 * ply + 1]
    place = find_entry(E, key, check)
    if place < 0:
        return False
    counters = S.counters
    data = E.data[place]
    counters[layout.HITS] += 1
    if is_stored(E, place):
        counters[layout.STORED_HITS] += 1
    frame[layout.TABLE_MOVE] = move_in(data)
    if may_return(S, s, ply):
        return False
    usable, value = entry_value(
        data, frame[layout.DEPTH], frame[layout.ALPHA], frame[layout.BETA], ply, clock_of(s)
    )
    if not usable or (ply == 0 and move_in(data) == 0):
        return False
    frame[layout.BEST] = value
    frame[layout.BEST_MOVE] = frame[layout.TABLE_MOVE]
    counters[layout.HIT_CUTOFFS] += 1
    return True


@inner
def ends_by_graph(S: Search, A: ArenaPointers, s: Position, frame: Pointer[int64], ply: int64) -> bool:
    """Returns whether the graph proves the node; if not, notes its record for the order of moves."""
    if not S.counters[layout.WITH_GRAPH]:
        return False
    rec = find(A, S.keys[2 * ply], S.keys[2 * ply + 1])
    frame[layout.RECORD] = rec
    if rec == 0 or ply == 0 or may_return(S, s, ply):
        return False
    bound, proven = graph_proof(A, rec, s)
    value = below_root(proven, ply)
    if bound == NO_BOUND or not ends(value, bound, frame[layout.ALPHA], frame[layout.BETA]):
        return False
    frame[layout.BEST] = value
    S.counters[layout.PROOFS] += 1
    return True


@inner
def begin_frame(frame: Pointer[int64]) -> None:
    """Clears a frame, except for its window, depth and type, which the caller has set."""
    frame[layout.LOW] = frame[layout.ALPHA]
    frame[layout.BEST] = -FAR
    for i in layout.CLEARED:
        frame[i] = 0
    frame[layout.TAINT] = layout.NO_TAINT
    frame[layout.BEST_TAINT] = layout.NO_TAINT


@inner
def enter_node(S: Search, E: EntryPointers, A: ArenaPointers, ply: int64) -> bool:
    """Counts a new position; returns whether it is a leaf or rules, entry, graph or lack of moves end it."""
    s = adv(S.positions, ply * PW)
    frame = adv(S.frames, ply * layout.FRAME)
    counters = S.counters
    begin_frame(frame)
    S.lengths[ply] = 0
    if frame[layout.DEPTH] == 0:
        counters[layout.LEAVES] += 1
        if not ends_by_rule(S, s, frame, ply):
            frame[layout.BEST] = leaf_value(S, s, ply, frame[layout.ALPHA], frame[layout.BETA])
        return True
    counters[layout.INTERIOR] += 1
    counters[layout.BY_KIND + frame[layout.KIND]] += 1
    if ends_by_rule(S, s, frame, ply):
        return True
    S.keys[2 * ply] = position_key(S.table, s)
    S.keys[2 * ply + 1] = check_hash(s)
    if ends_by_entry(S, E, s, frame, ply) or ends_by_graph(S, A, s, frame, ply):
        return True
    return list_moves(S, A, s, frame, ply)


@inner
def list_moves(S: Search, A: ArenaPointers, s: Position, frame: Pointer[int64], ply: int64) -> bool:
    """Generates the moves of a node; returns whether it has none."""
    n = int64(generate_moves(S.table, s, adv(S.moves, ply * layout.MOVE_ROOM)))
    frame[layout.COUNT] = n
    if n == 0:
        frame[layout.BEST] = ply - MATE if in_check(S.table, s) else int64(0)
        return True
    S.counters[layout.EXPANDED] += 1
    S.counters[layout.MOVES] += n
    if frame[layout.RECORD] and order_by_graph(S, A, s, frame, ply):
        S.counters[layout.ORDERED] += 1
    return False


@inner
def type_of_child(kind: int64, first: bool) -> int64:
    """Returns the expected type of a child."""
    if not first or kind == ALL:
        return CUT
    return PV if kind == PV else ALL


@inner
def descend(S: Search, E: EntryPointers, s: Position, frame: Pointer[int64], ply: int64, m: int64) -> None:
    """Makes a move; sets position, depth, type and window of the frame below."""
    below = adv(frame, layout.FRAME)
    child = adv(s, PW)
    make_move(S.table, s, child, m)
    frame[layout.MOVE] = m
    frame[layout.AGAIN] = 0
    first = frame[layout.NEXT] == 1
    below[layout.DEPTH] = frame[layout.DEPTH] - 1
    below[layout.KIND] = type_of_child(frame[layout.KIND], first)
    below[layout.BETA] = -frame[layout.ALPHA]
    below[layout.ALPHA] = -frame[layout.BETA] if first else -frame[layout.ALPHA] - 1
    if below[layout.DEPTH]:
        prefetch_entry(E, position_key(S.table, child))
    else:
        prefetch(S.cache, int64(position_key(S.table, child) & S.cache_mask) * 2)


@inner
def take_line(S: Search, ply: int64, m: int64) -> None:
    """Prefixes the best line below with a move and makes it the best line of a ply."""
    line = adv(S.lines, ply * layout.PLIES)
    below = adv(line, layout.PLIES)
    line[0] = m
    n = S.lengths[ply + 1]
    for i in range(n):
        line[i + 1] = below[i]
    S.lengths[ply] = n + 1


@inner
def search_again(S: Search, frame: Pointer[int64], value: int64) -> bool:
    """Returns whether a null window failed inside the window; then gives the frame below the full one."""
    if (
        frame[layout.NEXT] == 1
        or frame[layout.AGAIN]
        or value <= frame[layout.ALPHA]
        or value >= frame[layout.BETA]
    ):
        return False
    below = adv(frame, layout.FRAME)
    below[layout.ALPHA] = -frame[layout.BETA]
    below[layout.BETA] = -frame[layout.ALPHA]
    below[layout.KIND] = PV
    frame[layout.AGAIN] = 1
    S.counters[layout.RESEARCHES] += 1
    return True


@inner
def take_value(S: Search, frame: Pointer[int64], ply: int64, value: int64) -> bool:
    """Updates a frame with the value of a finished move; returns whether it ends the node."""
    taint = frame[layout.FRAME + layout.TAINT]
    frame[layout.TAINT] = min(frame[layout.TAINT], taint)
    if value > frame[layout.BEST]:
        frame[layout.BEST] = value
        frame[layout.BEST_TAINT] = taint
        if value > frame[layout.ALPHA]:
            frame[layout.ALPHA] = value
            frame[layout.BEST_MOVE] = frame[layout.MOVE]
            take_line(S, ply, frame[layout.MOVE])
    return value >= frame[layout.BETA]


@inner
def finish_node(S: Search, E: EntryPointers, ply: int64, cut: bool) -> None:
    """Stores the result of a searched node."""
    s = adv(S.positions, ply * PW)
    frame = adv(S.frames, ply * layout.FRAME)
    if cut:
        S.counters[layout.CUTOFFS] += 1
        if frame[layout.NEXT] == 1:
            S.counters[layout.FIRST_CUTOFFS] += 1
        frame[layout.CUT_BY] = frame[layout.NEXT]
        learn_cut(S, s, frame, ply)
    write_entry(E, S.keys[2 * ply], S.keys[2 * ply + 1], frame, ply, clock_of(s))
    if cut:
        frame[layout.TAINT] = frame[layout.BEST_TAINT]
    if frame[layout.TAINT] >= ply:  # the repetition is at or below this node, so it occurs on every path
        frame[layout.TAINT] = layout.NO_TAINT


@inner
def step(S: Search, E: EntryPointers, A: ArenaPointers, ply: int64, mode: int64) -> tuple[int64, int64]:
    """Does one step of the search at a ply; returns the next ply and mode, ply -1 at the end."""
    frame = adv(S.frames, ply * layout.FRAME)
    if mode == layout.ENTER:
        return ply, layout.LEAVE if enter_node(S, E, A, ply) else layout.GO_ON
    if mode == layout.GO_ON:
        s = adv(S.positions, ply * PW)
        m = next_move(S, E, s, frame, ply)
        if m == 0:
            finish_node(S, E, ply, False)
            return ply, layout.LEAVE
        descend(S, E, s, frame, ply, m)
        return ply + 1, layout.ENTER
    if ply == 0:
        return int64(-1), layout.LEAVE
    above = adv(S.frames, (ply - 1) * layout.FRAME)
    value = -frame[layout.BEST]
    if search_again(S, above, value):
        return ply, layout.ENTER
    if take_value(S, above, ply - 1, value):
        finish_node(S, E, ply - 1, True)
        return ply - 1, layout.LEAVE
    return ply - 1, layout.GO_ON


@inner
def nodes_in(counters: Pointer[int64]) -> int64:
    """Returns the number of positions entered."""
    return counters[layout.INTERIOR] + counters[layout.LEAVES] + counters[layout.QUIESCENCE]


@kernel
def search_slice(
    T: NDArray[np.uint64],
    weights: NDArray[np.int64],
    arrays: SearchArrays,
    entries: EntryArrays,
    arena: ArenaArrays,
    limit: int64,
) -> bool:
    """Continues the search until it is finished or has counted `limit` nodes; returns whether it is finished.

    Args:
      T: the board's table. weights: int64[WEIGHT_COUNT].
      arrays: `SearchArrays`; frame 0 holds window, depth and type, `counters` the state of the search.
      entries: EntryArrays. arena: ArenaArrays, read only if `counters[WITH_GRAPH]`.
      limit: nodes, all slices of the search together.
    """
    S = search_pointers(T, weights, arrays)
    E = entry_pointers(entries)
    A = pointers(arena)
    counters = S.counters
    ply, mode = counters[layout.PLY], counters[layout.MODE]
    while ply >= 0:
        if mode == layout.ENTER and nodes_in(counters) >= limit:
            break
        ply, mode = step(S, E, A, ply, mode)
    counters[layout.NODES] = nodes_in(counters)
    counters[layout.PLY] = ply
    counters[layout.MODE] = mode
    return ply < 0
