"""One iteration of principal variation search, on an explicit stack: null windows, re-search, node types.

Plain alpha-beta: nothing is reduced or left out, so the value is that of negamax with the same depth and
leaves (`alphabeta_leaves`). Expected types after Onno Garms: the root is PV; the first child of a PV node is
PV, the others Cut, searched again as PV; the first child of a Cut node is All, the others Cut; children of
All are Cut.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..graph.arena_kernel import ArenaArrays, ArenaPointers, pointers
from ..graph.heap_kernel import find
from ..jit.compiler import inner, kernel
from ..jit.pointers import adv, prefetch
from ..jit.types import Pointer, int64
from ..position.board import CLOCK_DRAW
from ..position.board_kernel import PW, check_hash, clock_of, generate_moves, in_check, is_dead, make_move
from ..position.scores import FAR, MATE
from ..position.words import KEY, Position
from ..record.transposition_kernel import (
    ALL,
    CUT,
    PV,
    EntryArrays,
    EntryPointers,
    entry_pointers,
    find_entry,
    move_in,
)
from . import layout
from .frames_kernel import Search, SearchArrays, search_pointers
from .leaves_kernel import below_root, key_at, leaf_value, value_at_limit
from .order_kernel import learn_cut, next_move, order_by_graph
from .table_kernel import NO_BOUND, ends, entry_value, graph_proof, is_stored, prefetch_entry, write_entry


@inner
def repeated_at(X: Search, s: Position, ply: int64) -> int64:
    """Returns the ply where a position stood before on the path; -1: twice in the game; NO_TAINT: nowhere."""
    clock = clock_of(s)
    key = s[KEY]
    for back in range(4, min(clock, ply) + 1, 2):
        if X.positions[(ply - back) * PW + KEY] == key:
            return ply - back
    if clock >= ply:
        for i in range(X.game_size):
            if X.game[i] == key:
                return int64(-1)
    return int64(layout.NO_TAINT)


@inner
def ends_by_rule(X: Search, s: Position, frame: Pointer[int64], ply: int64) -> bool:
    """Returns whether a position is a draw by material, clock or repetition, or mate at the last move."""
    if is_dead(s):
        frame[layout.BEST] = 0
        return True
    if clock_of(s) >= CLOCK_DRAW:
        frame[layout.BEST] = value_at_limit(X, s, ply)
        X.counters[layout.PATH_DRAWS] += 1
        return True
    if ply == 0:
        return False
    frame[layout.TAINT] = repeated_at(X, s, ply)
    if frame[layout.TAINT] == layout.NO_TAINT:
        return False
    frame[layout.BEST] = 0
    X.counters[layout.PATH_DRAWS] += 1
    return True


@inner
def may_return(X: Search, s: Position, ply: int64) -> bool:
    """Returns whether what stood twice in the game may come again: then nothing known ends a node."""
    return X.game_size > 0 and clock_of(s) >= ply


@inner
def ends_by_entry(X: Search, E: EntryPointers, s: Position, frame: Pointer[int64], ply: int64) -> bool:
    """Returns whether a transposition entry ends the node; if not, its move is the first to try."""
    key, check = X.keys[2 * ply], X.keys[2 * ply + 1]
    place = find_entry(E, key, check)
    if place < 0:
        return False
    counters = X.counters
    data = E.data[place]
    counters[layout.HITS] += 1
    if is_stored(E, place):
        counters[layout.STORED_HITS] += 1
    frame[layout.TABLE_MOVE] = move_in(data)
    if may_return(X, s, ply):
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
def ends_by_graph(X: Search, A: ArenaPointers, s: Position, frame: Pointer[int64], ply: int64) -> bool:
    """Returns whether the graph proves the node; if not, notes its record for the order of moves."""
    if not X.counters[layout.WITH_GRAPH]:
        return False
    rec = find(A, X.keys[2 * ply], X.keys[2 * ply + 1])
    frame[layout.RECORD] = rec
    if rec == 0 or ply == 0 or may_return(X, s, ply):
        return False
    bound, proven = graph_proof(A, rec, s)
    value = below_root(proven, ply)
    if bound == NO_BOUND or not ends(value, bound, frame[layout.ALPHA], frame[layout.BETA]):
        return False
    frame[layout.BEST] = value
    X.counters[layout.PROOFS] += 1
    return True


@inner
def begin_frame(frame: Pointer[int64]) -> None:
    """Empties a frame whose window, depth and type are set."""
    frame[layout.LOW] = frame[layout.ALPHA]
    frame[layout.BEST] = -FAR
    for i in layout.CLEARED:
        frame[i] = 0
    frame[layout.TAINT] = layout.NO_TAINT
    frame[layout.BEST_TAINT] = layout.NO_TAINT


@inner
def enter_node(X: Search, E: EntryPointers, A: ArenaPointers, ply: int64) -> bool:
    """Counts a new position and finds what is known without a search; returns whether that ends it."""
    s = adv(X.positions, ply * PW)
    frame = adv(X.frames, ply * layout.FRAME)
    counters = X.counters
    begin_frame(frame)
    X.lengths[ply] = 0
    if frame[layout.DEPTH] == 0:
        counters[layout.LEAVES] += 1
        if not ends_by_rule(X, s, frame, ply):
            frame[layout.BEST] = leaf_value(X, s, ply, frame[layout.ALPHA], frame[layout.BETA])
        return True
    counters[layout.INTERIOR] += 1
    counters[layout.BY_KIND + frame[layout.KIND]] += 1
    if ends_by_rule(X, s, frame, ply):
        return True
    X.keys[2 * ply] = key_at(X.table, s)
    X.keys[2 * ply + 1] = check_hash(s)
    if ends_by_entry(X, E, s, frame, ply) or ends_by_graph(X, A, s, frame, ply):
        return True
    return list_moves(X, A, s, frame, ply)


@inner
def list_moves(X: Search, A: ArenaPointers, s: Position, frame: Pointer[int64], ply: int64) -> bool:
    """Generates the moves of a node; returns whether there are none."""
    n = int64(generate_moves(X.table, s, adv(X.moves, ply * layout.MOVE_ROOM)))
    frame[layout.COUNT] = n
    if n == 0:
        frame[layout.BEST] = ply - MATE if in_check(X.table, s) else int64(0)
        return True
    X.counters[layout.EXPANDED] += 1
    X.counters[layout.MOVES] += n
    if frame[layout.RECORD] and order_by_graph(X, A, s, frame, ply):
        X.counters[layout.ORDERED] += 1
    return False


@inner
def type_of_child(kind: int64, first: bool) -> int64:
    """Returns the type expected of a child."""
    if not first or kind == ALL:
        return CUT
    return PV if kind == PV else ALL


@inner
def descend(X: Search, E: EntryPointers, s: Position, frame: Pointer[int64], ply: int64, m: int64) -> None:
    """Makes a move: the frame below gets its position, depth, type and window."""
    below = adv(frame, layout.FRAME)
    child = adv(s, PW)
    make_move(X.table, s, child, m)
    frame[layout.MOVE] = m
    frame[layout.AGAIN] = 0
    first = frame[layout.NEXT] == 1
    below[layout.DEPTH] = frame[layout.DEPTH] - 1
    below[layout.KIND] = type_of_child(frame[layout.KIND], first)
    below[layout.BETA] = -frame[layout.ALPHA]
    below[layout.ALPHA] = -frame[layout.BETA] if first else -frame[layout.ALPHA] - 1
    if below[layout.DEPTH]:
        prefetch_entry(E, key_at(X.table, child))
    else:
        prefetch(X.cache, int64(key_at(X.table, child) & X.cache_mask) * 2)


@inner
def take_line(X: Search, ply: int64, m: int64) -> None:
    """Makes a move and the best line below it the best line of a ply."""
    line = adv(X.lines, ply * layout.PLIES)
    below = adv(line, layout.PLIES)
    line[0] = m
    n = X.lengths[ply + 1]
    for i in range(n):
        line[i + 1] = below[i]
    X.lengths[ply] = n + 1


@inner
def search_again(X: Search, frame: Pointer[int64], value: int64) -> bool:
    """Returns whether a null window failed inside the window; then the frame below gets the full one."""
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
    X.counters[layout.RESEARCHES] += 1
    return True


@inner
def take_value(X: Search, frame: Pointer[int64], ply: int64, value: int64) -> bool:
    """Takes the value of a finished move into its frame; returns whether it ends the node."""
    taint = frame[layout.FRAME + layout.TAINT]
    frame[layout.TAINT] = min(frame[layout.TAINT], taint)
    if value > frame[layout.BEST]:
        frame[layout.BEST] = value
        frame[layout.BEST_TAINT] = taint
        if value > frame[layout.ALPHA]:
            frame[layout.ALPHA] = value
            frame[layout.BEST_MOVE] = frame[layout.MOVE]
            take_line(X, ply, frame[layout.MOVE])
    return value >= frame[layout.BETA]


@inner
def finish_node(X: Search, E: EntryPointers, ply: int64, cut: bool) -> None:
    """Notes what a searched node has found."""
    s = adv(X.positions, ply * PW)
    frame = adv(X.frames, ply * layout.FRAME)
    if cut:
        X.counters[layout.CUTOFFS] += 1
        if frame[layout.NEXT] == 1:
            X.counters[layout.FIRST_CUTOFFS] += 1
        frame[layout.CUT_BY] = frame[layout.NEXT]
        learn_cut(X, s, frame, ply)
    write_entry(E, X.keys[2 * ply], X.keys[2 * ply + 1], frame, ply, clock_of(s))
    if cut:
        frame[layout.TAINT] = frame[layout.BEST_TAINT]
    if frame[layout.TAINT] >= ply:  # what returned stands at or below this node: it would on every path
        frame[layout.TAINT] = layout.NO_TAINT


@inner
def step(X: Search, E: EntryPointers, A: ArenaPointers, ply: int64, mode: int64) -> tuple[int64, int64]:
    """Does one step of the search at a ply; returns where and how to go on, ply -1 when all is done."""
    frame = adv(X.frames, ply * layout.FRAME)
    if mode == layout.ENTER:
        return ply, layout.LEAVE if enter_node(X, E, A, ply) else layout.GO_ON
    if mode == layout.GO_ON:
        s = adv(X.positions, ply * PW)
        m = next_move(X, E, s, frame, ply)
        if m == 0:
            finish_node(X, E, ply, False)
            return ply, layout.LEAVE
        descend(X, E, s, frame, ply, m)
        return ply + 1, layout.ENTER
    if ply == 0:
        return int64(-1), layout.LEAVE
    above = adv(X.frames, (ply - 1) * layout.FRAME)
    value = -frame[layout.BEST]
    if search_again(X, above, value):
        return ply, layout.ENTER
    if take_value(X, above, ply - 1, value):
        finish_node(X, E, ply - 1, True)
        return ply - 1, layout.LEAVE
    return ply - 1, layout.GO_ON


@inner
def nodes_in(counters: Pointer[int64]) -> int64:
    """Returns how many positions were entered."""
    return counters[layout.INTERIOR] + counters[layout.LEAVES] + counters[layout.QUIESCENCE]


@kernel
def search_slice(
    T: NDArray[np.uint64],
    weights: NDArray[np.int64],
    S: SearchArrays,
    entries: EntryArrays,
    arena: ArenaArrays,
    limit: int64,
) -> bool:
    """Searches on until all is done or `limit` nodes are counted; returns whether all is done.

    Args:
      T: the board's table. weights: int64[WEIGHT_COUNT].
      S: SearchArrays; frame 0 holds window, depth and type, `counters` where the search stands.
      entries: EntryArrays. arena: ArenaArrays, read only if `counters[WITH_GRAPH]`.
      limit: nodes, all slices of the search together.
    """
    X = search_pointers(T, weights, S)
    E = entry_pointers(entries)
    A = pointers(arena)
    counters = X.counters
    ply, mode = counters[layout.PLY], counters[layout.MODE]
    while ply >= 0:
        if mode == layout.ENTER and nodes_in(counters) >= limit:
            break
        ply, mode = step(X, E, A, ply, mode)
    counters[layout.NODES] = nodes_in(counters)
    counters[layout.PLY] = ply
    counters[layout.MODE] = mode
    return ply < 0
