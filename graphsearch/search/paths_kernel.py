"""The path of a visit: its start, its steps, and its end (draws, terminals, leaves, catch-up)."""

from __future__ import annotations

from ..graph import arena_kernel as arena
from ..graph.arena_kernel import ArenaPointers
from ..graph.heap_kernel import find, insert, new_record
from ..graph.known_mates_kernel import record_mate, take_known_mate
from ..graph.statistics_kernel import child_visits
from ..jit.compiler import inlined, inner
from ..jit.pointers import adv
from ..jit.types import Pointer, float32, float64, int64, uint16, uint64
from ..position.board import CHECKMATE, CLOCK_DRAW, DEAD, STALEMATE
from ..position.board_kernel import (
    PW,
    clock_of,
    generate_moves,
    hashes_of,
    in_check,
    is_dead,
    make_move,
    position_key,
)
from ..position.mates_kernel import mate_in_one
from ..position.words import KEY, BoardTable, Position
from ..store.index.locate_kernel import FilterPointers, may_be_stored
from ..store.record.bounds_kernel import is_settled
from ..store.record.node_kernel import (
    add_state,
    edge_at,
    edge_move,
    edge_visits,
    move_count,
    set_source,
    state_of,
)
from ..store.record.node_layout import TERMINAL_FLAGS, USED
from ..store.record.transposition_kernel import STORED
from . import wave_kernel as wave
from .param_layout import CATCH_UP_RATIO, RESTRICTED
from .wave_kernel import WavePointers, field, new_entry, set_field, words_of

MATE_FLAGS, STALEMATE_FLAGS, DEAD_FLAGS = (TERMINAL_FLAGS[kind] for kind in (CHECKMATE, STALEMATE, DEAD))


# ------------------------------------------------------------------ steps
@inner
def start_at_root(W: WavePointers, root: Position, asked: int64) -> int64:
    """Returns a new entry for the root."""
    e = new_entry(W, int64(-1), int64(0), asked, int64(0))
    s = words_of(W, e)
    for i in range(PW):
        s[i] = root[i]
    return e


@inlined
def add_child(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64, j: int64, asked: int64) -> int64:
    """Returns a new entry for the child at edge `j` of entry `e`."""
    return new_child(T, W, e, j, asked, edge_move(A, edge_at(A, field(W, e, wave.SLOT), j)))


@inlined
def new_child(T: BoardTable, W: WavePointers, e: int64, j: int64, asked: int64, move: uint16) -> int64:
    """Returns a new entry for the child at edge `j` of entry `e`; `move`: the edge's move."""
    child = new_entry(W, e, j, asked, field(W, e, wave.DEPTH) + 1)
    make_move(T, words_of(W, e), words_of(W, child), move)
    return child


@inner
def is_restricted(A: ArenaPointers, W: WavePointers, e: int64) -> bool:
    """Returns whether an entry is the root of a search that is restricted to some moves."""
    return A.ints[RESTRICTED] != 0 and field(W, e, wave.PARENT) < 0


# ------------------------------------------------------------------ ends
@inner
def repeats_on_path(W: WavePointers, e: int64) -> bool:
    """Returns whether an entry's position occurs earlier on its path from the root, root included."""
    s = words_of(W, e)
    clock = clock_of(s)
    a = int64(e)
    back = 2
    while back <= clock:
        for _ in range(2):
            a = field(W, a, wave.PARENT)
            if a < 0:
                return False
        if back >= 4 and words_of(W, a)[KEY] == s[KEY]:
            return True
        back += 2
    return False


@inner
def stood_twice_before(A: ArenaPointers, s: Position) -> bool:
    """Returns whether a position occurred twice in the game before the root."""
    for i in range(A.history_size):
        if A.history[i] == s[KEY]:
            return clock_of(s) >= 4
    return False


@inlined
def draw_of_the_path(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64) -> int64:
    """Returns PATH_DRAW or HISTORY_DRAW if the entry's path makes its position a draw, else NODE."""
    s = words_of(W, e)
    clock = clock_of(s)
    if clock < 4:
        return wave.NODE
    if repeats_on_path(W, e):
        return wave.PATH_DRAW
    if A.history_size and stood_twice_before(A, s):
        return wave.HISTORY_DRAW
    if clock >= CLOCK_DRAW and not (in_check(T, s) and generate_moves(T, s, A.moves) == 0):
        return wave.PATH_DRAW
    return wave.NODE


@inner
def end_entry(A: ArenaPointers, W: WavePointers, e: int64, kind: int64, done: int64) -> None:
    """Ends a path at an entry: sets its kind and completed visits, and updates the counters."""
    counters = A.counters
    depth = field(W, e, wave.DEPTH)
    if kind == wave.HISTORY_DRAW:
        counters[arena.OVERLAY_RESERVED] += depth
        if counters[arena.OVERLAY_RESERVED] > A.overlay_size:  # the overlay is full: drop the visit
            kind = wave.COLLISION
            done = int64(0)
    set_field(W, e, wave.KIND, kind)
    set_field(W, e, wave.DONE, done)
    if done and kind != wave.LEAF:
        W.counts[wave.ENDED] += 1
        if kind == wave.PATH_DRAW or kind == wave.HISTORY_DRAW:
            W.counts[wave.PATH_DRAWN] += 1
    if kind == wave.PATH_DRAW:
        counters[arena.PATH_DRAWS] += 1
    elif kind == wave.HISTORY_DRAW:
        counters[arena.HISTORY_DRAWS] += 1
    elif kind == wave.CATCH_UP:
        counters[arena.CATCH_UPS] += done
    elif kind == wave.COLLISION:
        counters[arena.COLLISIONS] += 1
    elif kind == wave.TERMINAL:
        counters[arena.TERMINALS] += 1
    elif kind == wave.TOO_DEEP:
        counters[arena.DEPTH_CUTS] += 1
    counters[arena.PLIES] += depth * done
    if depth > counters[arena.SELDEPTH]:
        counters[arena.SELDEPTH] = depth


@inner
def _record_terminal(
    T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64, check: uint64, flags: int64
) -> None:
    s = words_of(W, e)
    mate = flags == MATE_FLAGS
    value = float32(-1.0) if mate else float32(0.0)
    draws = int64(0) if mate else int64(1000)
    key = position_key(T, s)
    rec = new_record(A, s, key, int64(0), value, draws, int64(flags))
    set_source(A, rec, int64(0), A.ints[arena.SESSION])
    insert(A, key, check, rec)
    set_field(W, e, wave.SLOT, rec)


@inner
def _records_mate_in_one(
    T: BoardTable,
    A: ArenaPointers,
    W: WavePointers,
    e: int64,
    check: uint64,
    moves: Pointer[uint16],
    n: int64,
) -> bool:
    """Records an entry's position if one of its `n` legal moves mates; returns whether one does."""
    s = words_of(W, e)
    room = adv(W.leaf_words, W.counts[wave.LEAVES] * PW)  # scratch: the words of the next leaf
    j = mate_in_one(T, s, moves, n, room, A.moves)
    if j < 0 or clock_of(s) >= CLOCK_DRAW:
        return False
    set_field(W, e, wave.SLOT, record_mate(A, s, position_key(T, s), check, moves, n, j, int64(1)))
    return True


@inner
def open_leaf(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64, check: uint64) -> int64:
    """Makes an unknown position a leaf, or records a terminal or a mate in one; returns its entry's kind."""
    s = words_of(W, e)
    leaf = W.counts[wave.LEAVES]
    begin = W.offsets[leaf]
    dead = is_dead(s)
    n = int64(0)
    if not dead:
        n = int64(generate_moves(T, s, adv(W.moves, begin)))
    if n == 0:
        flags = DEAD_FLAGS if dead else (MATE_FLAGS if in_check(T, s) else STALEMATE_FLAGS)
        _record_terminal(T, A, W, e, check, flags)
        end_entry(A, W, e, wave.TERMINAL, int64(1))
        return wave.TERMINAL
    if _records_mate_in_one(T, A, W, e, check, adv(W.moves, begin), n):
        end_entry(A, W, e, wave.TERMINAL, int64(1))
        return wave.TERMINAL
    W.offsets[leaf + 1] = begin + n
    W.leaf_entry[leaf] = e
    for i in range(PW):
        W.leaf_words[leaf * PW + i] = s[i]
    set_field(W, e, wave.NODE_OR_LEAF, leaf)
    s[wave.CHECK] = check
    W.counts[wave.LEAVES] = leaf + 1
    end_entry(A, W, e, wave.LEAF, int64(1))
    return wave.LEAF


@inlined
def child_supports(A: ArenaPointers, W: WavePointers, e: int64, spent: int64) -> bool:
    """Returns whether a known position has enough visits for an edge with `spent` visits to catch up."""
    node_n = child_visits(A, field(W, e, wave.SLOT)) + 1
    return float64(node_n) > A.floats[CATCH_UP_RATIO] * float64(spent)


@inlined
def completed_over(A: ArenaPointers, W: WavePointers, e: int64) -> int64:
    """Returns the completed visits of the edge that leads to an entry, 0 at the root."""
    parent = field(W, e, wave.PARENT)
    if parent < 0:
        return int64(0)
    return int64(edge_visits(A, edge_at(A, field(W, parent, wave.SLOT), field(W, e, wave.EDGE))))


@inlined
def ends_at_known(A: ArenaPointers, W: WavePointers, e: int64, spent: int64) -> bool:
    """Ends an entry at a known result, or to catch up with `spent` visits; returns whether it ended."""
    rec = field(W, e, wave.SLOT)
    if state_of(A, rec) & USED == 0:
        add_state(A, rec, USED)
    if A.entries.counters[STORED]:
        take_known_mate(A, rec, words_of(W, e))
    below_root = field(W, e, wave.PARENT) >= 0
    if move_count(A, rec) == 0 or (below_root and is_settled(A, rec, words_of(W, e))):
        end_entry(A, W, e, wave.TERMINAL, int64(1))
        return True
    if below_root and child_supports(A, W, e, spent):
        end_entry(A, W, e, wave.CATCH_UP, field(W, e, wave.ASKED))
        return True
    if field(W, e, wave.DEPTH) >= wave.MAX_PLIES:
        end_entry(A, W, e, wave.TOO_DEEP, int64(1))
        return True
    return False


@inlined
def ends_by_path(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64) -> bool:
    """Ends an entry below the root if its path makes it a draw; returns whether it did."""
    if field(W, e, wave.PARENT) < 0:
        return False
    drawn = draw_of_the_path(T, A, W, e)
    if drawn == wave.NODE:
        return False
    end_entry(A, W, e, drawn, int64(1))
    return True


@inner
def locate(T: BoardTable, A: ArenaPointers, s: Position) -> tuple[int64, uint64]:
    """Returns (slot, check hash) of a position, slot 0 if it is unknown."""
    key, check = hashes_of(T, s)
    return find(A, key, check), check


@inner
def look_up(
    T: BoardTable, A: ArenaPointers, W: WavePointers, F: FilterPointers, e: int64, waited: bool
) -> int64:
    """Returns the slot of an entry's record on a single path, 0 if it is unknown, -1 if the visit must wait.

    It waits if the record may be in the file; in the next call (`waited`) a missing record is unknown.
    """
    s = words_of(W, e)
    rec, check = locate(T, A, s)
    s[wave.CHECK] = check
    set_field(W, e, wave.SLOT, rec)
    if rec == 0 and not waited and may_be_stored(F, s, position_key(T, s)):
        W.counts[wave.MISSES] = 0
        miss(W, e)
        W.counts[wave.STAGE] = wave.ON_PATH
        return int64(-1)
    return rec


@inner
def miss(W: WavePointers, e: int64) -> None:
    """Lists an entry as missing: its record may be in the file."""
    W.misses[W.counts[wave.MISSES]] = e
    W.counts[wave.MISSES] += 1
