"""One visit from root to leaf and back: plain sequential PUCT, as in every gatherer with batches of one.

    1 select      the edge with the largest score           `select`, by the formulas of `puct.py`
    2 step, or end  to the child; at a draw of the path, a known result, a catch-up or a leaf
    3 evaluate    V and P of the leaf
    4 expand      its record
    5 back up     from the last edge to the root

`visit` makes one visit, alone or in each of several threads. Gatherers select for many visits at once; they
take the other steps from here, and so do whole waves.

An edge gets its completed visits and its child's current value (`q_a = -Q(child)`). A node's Q is recomputed
from all of its edges, so backing a value up twice changes nothing. P is `code ** 4 * NORM`; the factor NORM,
which the edges of a block share, goes into the exploration term:

    gain of an edge = scale * code ** 4,   scale = c(N) o(Q) sqrt(max(1, sum n)) * NORM

The parameters, and the root's listed edges, stand in `floats` and `ints` of the arena. In a search of some
root moves only, `ints[LISTED + j]` is 1 if edge `j` of the root, in descending P, takes visits; P, FPU and
the visits of the others stay unchanged. Mates are known without visits below them in one move, from an entry,
or from a prover's line: V of such a record is the result, D the plies to the mate, its evaluator the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..evaluators.batch_kernel import BEGIN, END
from ..evaluators.uniform_kernel import evaluate_evenly
from ..graph import arena_kernel as arena
from ..graph.arena_kernel import ArenaArrays
from ..graph.copying_kernel import READ_INSIDE, bring
from ..jit.compiler import Bound, bind, inner, kernel
from ..jit.pointers import U, adv, call_bound, prefetch, ptr
from ..jit.types import Pointer, apart, float32, float64, int64, uint16, uint64
from ..position import board_kernel as board
from ..position.board import CHECKMATE, CLOCK_DRAW, DEAD, KEY, STALEMATE, BoardTable, Position, Words
from ..position.board_kernel import MAX_LEGAL_MOVES, mate_in_one
from ..position.values import MATE
from ..store import record_kernel as record
from ..store import transposition_kernel as entry
from ..store.index_kernel import FilterArrays, may_be_stored
from ..store.reading_kernel import ReaderArrays
from . import puct
from . import wave_kernel as wave
from .params import GATHERERS, SearchParams
from .wave_kernel import WaveArrays

MATE_FLAGS, STALEMATE_FLAGS, DEAD_FLAGS = (
    record.TERMINAL_FLAGS[kind] for kind in (CHECKMATE, STALEMATE, DEAD)
)
RECORDS_AHEAD, BLOCKS_AHEAD = 12, 6  # entries between a prefetch and its use
EDGES_SHARED = 4  # first edges of a path: other threads often pass them
BY_RULE = 0  # the evaluator of results by rules or tablebases

# return values of `run_visits`, or of `gather` in place of the number of leaves
LIMITS_REACHED, NO_SPACE, NO_RECORDS = 0, -1, -2
VISITS, EVALUATIONS, WAVES, MANY = range(4)  # indices into `new_limits`

WORDS_PER_RECORD = record.HEADER_WORDS + MAX_LEGAL_MOVES // 8  # and the codes of its moves
# Room for one longest path: of overlay notes. Waves of many visits check as they go.
OVERLAY_PER_WAVE = 1 << 10

_entries_for = inner(wave.entries_for)


# ------------------------------------------------------------------ scores of edges
(
    CPUCT,
    CPUCT_BASE,
    CPUCT_FACTOR,
    FPU_VALUE,
    CATCH_UP_RATIO,
    WAVE_SHARE,
    LEAST_DECIDED,  # `puct.least_decided`
) = range(arena.SEARCH_FLOATS, arena.SEARCH_FLOATS + 7)
EXPLORATION = arena.SEARCH_FLOATS + 8  # c(N) sqrt(max(1, sum n)) for small sums of n
EXPLORATION_ENTRIES = arena.FLOATS - EXPLORATION

# the gatherer by its place in `params.GATHERERS` | its limits | 1: the root's edges without a mark in LISTED
# take no visits of this search
SCHEME, COLLISION_EVENTS, COLLISION_VISITS, RESTRICTED = range(arena.SEARCH_INTS, arena.SEARCH_INTS + 4)
LISTED = arena.SEARCH_INTS + 8  # by edge, in descending P


NEVER = -1e300  # a score below all others


_term = inner(puct.exploration_term)
_mean = inner(puct.mean_with_draws)
_fpu = inner(puct.fpu)
score = inner(puct.score)
_openness = inner(puct.openness)


@inner
def exploration_term(floats: Pointer[float64], visits: int64) -> float64:
    """Returns c(N) sqrt(max(1, visits)) for the visits spent below a node, N = visits + 1."""
    return _term(float64(visits), floats[CPUCT], floats[CPUCT_BASE], floats[CPUCT_FACTOR])


@inner
def scale_of(A: ArenaArrays, block: int64, visits: int64) -> float64:
    """Returns the factor that turns code ** 4 of an edge into its gain after `visits` visits."""
    opened = _openness(float64(A.values[block + record.BLOCK_Q]), A.floats[LEAST_DECIDED])
    if visits < EXPLORATION_ENTRIES:  # tabulated
        term = A.floats[EXPLORATION + visits]
    else:
        term = exploration_term(A.floats, visits)
    return term * opened * float64(A.values[block + record.NORM])


@inner
def power_of(A: ArenaArrays, edge: int64) -> float64:
    """Returns code ** 4 of an edge."""
    return A.floats[arena.POWERS + record.edge_code(A, edge)]


@inner
def edge_value(A: ArenaArrays, edge: int64, stride: int64, n: int64) -> float64:
    """Returns E of an edge with n > 0 visits."""
    r = record.draw_visits(A, edge, stride)
    if r:
        return _mean(float64(record.edge_q(A, edge)), float64(n), float64(r))
    return float64(record.edge_q(A, edge))


@inner
def fpu_value(A: ArenaArrays, rec: int64, visited_powers: float64) -> float64:
    """Returns FPU of a record with a block; `visited_powers`: sum of code ** 4 over its visited edges."""
    block = record.block_of(A, rec)
    visited = visited_powers * float64(A.values[block + record.NORM])
    return _fpu(float64(A.values[block + record.BLOCK_Q]), A.floats[FPU_VALUE], visited)


@inner
def best_unmade(A: ArenaArrays, rec: int64, fpu: float64, scale: float64) -> float64:
    """Returns the score of the likeliest edge beyond the block."""
    return score(fpu, scale * A.floats[arena.POWERS + record.best_code_of(A, rec)], 1.0)


@inner
def is_out(A: ArenaArrays, edge: int64, s: Position) -> bool:
    """Returns whether a visited edge's result is proven at its position, so that more visits add nothing."""
    d = record.edge_draws(A, edge)
    return (
        record.is_special(record.edge_q(A, edge), d) and d <= record.DRAWN and record.holds_here(A, edge, s)
    )


@inner
def _best_edge(
    A: ArenaArrays, rec: int64, m: int64, scale: float64, s: Position, heeds: bool
) -> tuple[float64, int64, int64, float64]:
    """Returns (score, number or -1 of the best visited edge, first unvisited one, sum of visited code ** 4).

    `heeds`: skip edges with a proven result.
    """
    stride = record.stride_at(A, rec)
    best = NEVER
    chosen = int64(-1)
    unvisited = int64(m)  # the first unvisited edge has the largest P of them
    visited_powers = 0.0
    edge = record.edge_at(A, rec, int64(0))
    for j in range(m):
        n = record.edge_visits(A, edge)
        if n:
            power = power_of(A, edge)
            visited_powers += power
            found = score(edge_value(A, edge, stride, n), scale * power, float64(1 + n))
            if found > best and not (heeds and is_out(A, edge, s)):
                best = found
                chosen = int64(j)
        elif unvisited == m:
            unvisited = int64(j)
        edge += stride
    return best, chosen, unvisited, visited_powers


@inner
def select(T: BoardTable, A: ArenaArrays, s: Position, rec: int64) -> int64:
    """Returns the number of the edge with the highest score (the first of equals).

    It skips edges with a proven result, unless all have one, and adds the edge to the block if necessary.
    """
    if not record.has_block(A, rec):
        arena.grow_block(T, A, s, rec, int64(1), False)
        return int64(0)
    m = record.materialised(A, rec)
    block = record.block_of(A, rec)
    scale = scale_of(A, block, int64(A.blocks[block + record.BLOCK_VISITS]))
    best, chosen, unvisited, visited_powers = _best_edge(A, rec, m, scale, s, True)
    if unvisited < record.move_count(A, rec):
        fpu = fpu_value(A, rec, visited_powers)
        if unvisited < m:
            found = score(fpu, scale * power_of(A, record.edge_at(A, rec, unvisited)), 1.0)
        else:
            found = best_unmade(A, rec, fpu, scale)
        if found > best or (found == best and unvisited < chosen):
            if unvisited == m:
                arena.grow_block(T, A, s, rec, m + 1, False)
            return unvisited
    if chosen < 0:
        return _best_edge(A, rec, m, scale, s, False)[1]
    return chosen


@inner
def _load_masses(A: ArenaArrays, rec: int64, at: int64, masses: Pointer[float64]) -> tuple[int64, float64]:
    """Writes 1 + n + visits in flight of a block's edges; returns (all in flight, sum of tried code ** 4)."""
    stride = record.stride_at(A, rec)
    edge = record.edge_at(A, rec, int64(0))
    powers = 0.0
    for j in range(record.materialised(A, rec)):
        n = record.edge_visits(A, edge)
        masses[j] = float64(1 + n)
        if n:
            powers += power_of(A, edge)
        edge += stride
    flying = int64(0)
    for note in range(A.guards[at + arena.NOTES] if A.guard_mask else int64(0)):
        j, visits = wave.visits_over(A, at, rec, note)
        if j >= 0:
            if masses[j] == 1.0:
                powers += power_of(A, record.edge_at(A, rec, j))
            masses[j] += float64(visits)
            flying += visits
    return flying, powers


@inner
def _best_beside(
    A: ArenaArrays,
    s: Position,
    rec: int64,
    masses: Pointer[float64],
    scale: float64,
    fpu: float64,
    is_restricted: bool,
    heeds: bool,
) -> tuple[float64, int64]:
    """Returns (score, number) of the best edge that leads to no leaf in flight; number -1: none."""
    stride = record.stride_at(A, rec)
    edge = record.edge_at(A, rec, int64(0))
    best = NEVER
    chosen = int64(-1)
    for j in range(record.materialised(A, rec)):
        n = record.edge_visits(A, edge)
        is_listed = not is_restricted or A.ints[LISTED + j] != 0
        if is_listed and (n or masses[j] == 1.0):
            value = edge_value(A, edge, stride, n) if n else fpu
            found = score(value, scale * power_of(A, edge), masses[j])
            if found > best and not (heeds and n and is_out(A, edge, s)):
                best = found
                chosen = int64(j)
        edge += stride
    return best, chosen


@inner
def select_beside(
    T: BoardTable,
    A: ArenaArrays,
    s: Position,
    rec: int64,
    at: int64,
    masses: Pointer[float64],
    is_restricted: bool,
) -> int64:
    """Returns the best edge, visits in flight included; -1 if all edges lead to leaves in flight.

    It selects like `select`, but visits in flight count as completed. At a restricted root, it selects among
    the listed edges, those with a proven result too.

    Args:
      at: the record's row, locked. masses: scratch of 256. is_restricted: whether the record is such a root.
    """
    flying, powers = int64(0), 0.0
    if is_restricted and record.materialised(A, rec) < record.move_count(A, rec):  # each has an edge then
        arena.grow_block(T, A, s, rec, record.move_count(A, rec), False)
    has_notes = A.guard_mask != 0 and A.guards[at + arena.NOTES] != 0
    if is_restricted or (has_notes and record.has_block(A, rec)):
        flying, powers = _load_masses(A, rec, at, masses)
    if flying == 0 and not is_restricted:
        return select(T, A, s, rec)
    m, block = record.materialised(A, rec), record.block_of(A, rec)
    scale = scale_of(A, block, int64(A.blocks[block + record.BLOCK_VISITS]) + flying)
    fpu = fpu_value(A, rec, powers)
    best, chosen = _best_beside(A, s, rec, masses, scale, fpu, is_restricted, not is_restricted)
    if m < record.move_count(A, rec) and best_unmade(A, rec, fpu, scale) > best:
        arena.grow_block(T, A, s, rec, m + 1, False)
        return m
    if chosen < 0 and not is_restricted:
        return _best_beside(A, s, rec, masses, scale, fpu, False, False)[1]
    return chosen


# ------------------------------------------------------------------ one visit
@inner
def visit(
    T: BoardTable,
    A: ArenaArrays,
    W: WaveArrays,
    F: FilterArrays,
    root: Position,
    evaluator: int64,
    evaluating: Bound,
    bringing: Bound,
) -> int64:
    """Makes one visit of the root in an empty wave; returns the number of completed visits.

    Returns -1 if it waits for records that `bringing` cannot read; the next call continues from there.
    """
    while not descend(T, A, W, F, root):
        if not brings(A, W, bringing):
            return int64(-1)
    evaluate(W, evaluating)
    expand(T, A, W, evaluator)
    return back_up_lone(T, A, W)


@inner
def descend(T: BoardTable, A: ArenaArrays, W: WaveArrays, F: FilterArrays, root: Position) -> bool:
    """Walks from the root to the end of the visit: the wave's one leaf, or a known result.

    Returns False if it waits for a record that may be in the file; the next call continues from there.
    """
    waited = W.counts[wave.STAGE] == wave.ON_PATH
    e = W.counts[wave.ENTRIES] - 1 if waited else start_at_root(W, root, int64(1))
    spent = int64(1) if A.guard_mask else completed_over(A, W, e) + 1  # at least: `_step` checks again
    tries = int64(0)
    while waited or not ends_by_path(T, A, W, e):
        rec = look_up(T, A, W, F, e, waited)
        if rec < 0:
            return False
        if rec == 0:
            if _opens_leaf(T, A, W, e):
                break
        else:
            waited = False
            before = e
            e, spent = _step(T, A, W, e, rec, spent)
            if e < 0:
                break
            if e != before:
                continue
        arena.rest(A, tries)  # another thread has the leaf
        tries += 1
    W.counts[wave.STAGE] = wave.NOT_WAITING
    return True


# ------------------------------------------------------------------ its position: where the record is
@inner
def locate(T: BoardTable, A: ArenaArrays, s: Position) -> tuple[int64, uint64]:
    """Returns (slot, check hash) of a position, slot 0 if it is unknown."""
    key, check = board.hashes_of(T, s)
    return arena.find(A, key, check), check


@inner
def look_up(T: BoardTable, A: ArenaArrays, W: WaveArrays, F: FilterArrays, e: int64, waited: bool) -> int64:
    """Returns the slot of an entry's record on a single path, 0 if it is unknown, -1 if the visit must wait.

    It waits if the record may be in the file; in the next call (`waited`) a missing record is unknown.
    """
    s = wave.words_of(W, e)
    rec, check = locate(T, A, s)
    s[wave.CHECK] = check
    wave.set_field(W, e, wave.SLOT, rec)
    if rec == 0 and not waited and may_be_stored(F, s, board.position_key(T, s)):
        W.counts[wave.MISSES] = 0
        miss(W, e)
        W.counts[wave.STAGE] = wave.ON_PATH
        return int64(-1)
    return rec


@inner
def miss(W: WaveArrays, e: int64) -> None:
    """Lists an entry as missing: its record may be in the file."""
    W.misses[W.counts[wave.MISSES]] = e
    W.counts[wave.MISSES] += 1


@inner
def brings(A: ArenaArrays, W: WaveArrays, bringing: Bound) -> bool:
    """Reads the records that a wave waits for, if `bringing` can; returns whether it did."""
    if bringing.code == 0 or W.counts[wave.MISSES] > READ_INSIDE:
        return False
    return call_bound(bringing) != 0


# ------------------------------------------------------------------ 1 select, 2 step
@inner
def _step(
    T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, rec: int64, spent: int64
) -> tuple[int64, int64]:
    """Steps on from a known position; returns (entry of the child, visits over its edge and this one).

    The entry is -1 if the visit ends here, and `e` itself if every edge leads to a leaf in flight.
    """
    if A.guard_mask:
        record.prefetch_block(A, rec)  # a lock prevents early loads
    at = arena.lock_record(A, rec)
    if A.guard_mask and wave.field(W, e, wave.PARENT) >= 0 and child_supports(A, W, e, spent):
        spent = _spent_now(A, W, e, at)
    if ends_at_known(A, W, e, spent):
        arena.give_guard(A, at)
        return int64(-1), spent
    j = select_beside(T, A, wave.words_of(W, e), rec, at, W.floats, is_restricted(A, W, e))
    if j < 0:
        arena.give_guard(A, at)
        return e, spent
    edge = record.edge_at(A, rec, j)
    move, spent = record.edge_move(A, edge), record.edge_visits(A, edge) + 1
    wave.note_visit(A, at, rec, j)
    arena.give_guard(A, at)
    child = new_child(T, W, e, j, int64(1), move)
    prefetch(
        A.table, arena.table_index(A, board.position_key(T, wave.words_of(W, child)))
    )  # while the path is checked
    return child, spent


@inner
def _spent_now(A: ArenaArrays, W: WaveArrays, e: int64, at: int64) -> int64:
    """Returns the visits, completed and in flight, over the edge to a locked record, this one included."""
    parent = wave.field(W, e, wave.PARENT)
    rec = wave.field(W, parent, wave.SLOT)
    above = arena.lock_above(A, at, rec)
    spent = completed_over(A, W, e) + wave.flying_over(A, above, rec, wave.field(W, e, wave.EDGE))
    if above != at:
        arena.give_guard(A, above)
    return spent


@inner
def start_at_root(W: WaveArrays, root: Position, asked: int64) -> int64:
    """Returns a new entry for the root."""
    e = wave.new_entry(W, int64(-1), int64(0), asked, int64(0))
    s = wave.words_of(W, e)
    for i in range(board.PW):
        s[i] = root[i]
    return e


@inner
def add_child(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, j: int64, asked: int64) -> int64:
    """Returns a new entry for the child at edge `j` of entry `e`."""
    return new_child(
        T, W, e, j, asked, record.edge_move(A, record.edge_at(A, wave.field(W, e, wave.SLOT), j))
    )


@inner
def new_child(T: BoardTable, W: WaveArrays, e: int64, j: int64, asked: int64, move: uint16) -> int64:
    """Returns a new entry for the child at edge `j` of entry `e`; `move`: the edge's move."""
    child = wave.new_entry(W, e, j, asked, wave.field(W, e, wave.DEPTH) + 1)
    board.make_move(T, wave.words_of(W, e), wave.words_of(W, child), move)
    return child


@inner
def is_restricted(A: ArenaArrays, W: WaveArrays, e: int64) -> bool:
    """Returns whether an entry is the root of a search that is restricted to some moves."""
    return A.ints[RESTRICTED] != 0 and wave.field(W, e, wave.PARENT) < 0


# ------------------------------------------------------------------ 2 or end
@inner
def repeats_on_path(W: WaveArrays, e: int64) -> bool:
    """Returns whether an entry's position occurs earlier on its path from the root, root included."""
    s = wave.words_of(W, e)
    clock = board.clock_of(s)
    a = int64(e)
    back = 2
    while back <= clock:
        for _ in range(2):
            a = wave.field(W, a, wave.PARENT)
            if a < 0:
                return False
        if back >= 4 and wave.words_of(W, a)[KEY] == s[KEY]:
            return True
        back += 2
    return False


@inner
def ends_by_path(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> bool:
    """Ends an entry below the root if its path, or the game before it, makes it a draw; returns whether."""
    s, clock, drawn = wave.words_of(W, e), board.clock_of(wave.words_of(W, e)), wave.NODE
    if clock < 4 or wave.field(W, e, wave.PARENT) < 0:
        return False
    if repeats_on_path(W, e):
        drawn = wave.PATH_DRAW
    for i in range(A.history_size if drawn == wave.NODE else int64(0)):
        if A.history[i] == s[KEY]:
            drawn = wave.HISTORY_DRAW
    if drawn == wave.NODE and clock >= CLOCK_DRAW:
        if not board.in_check(T, s) or board.generate_moves(T, s, A.moves) > 0:
            drawn = wave.PATH_DRAW
    if drawn != wave.NODE:
        end_entry(A, W, e, drawn, int64(1))
    return drawn != wave.NODE


@inner
def end_entry(A: ArenaArrays, W: WaveArrays, e: int64, kind: int64, done: int64) -> None:
    """Ends a path at an entry: sets its kind and completed visits, and updates the counters."""
    counters = A.counters
    depth = wave.field(W, e, wave.DEPTH)
    if kind == wave.HISTORY_DRAW:
        counters[arena.OVERLAY_RESERVED] += depth
        if counters[arena.OVERLAY_RESERVED] > A.overlay_size // 2:  # the overlay is full: drop the visit
            kind = wave.COLLISION
            done = int64(0)
    wave.set_field(W, e, wave.KIND, kind)
    wave.set_field(W, e, wave.DONE, done)
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
    counters[arena.PLIES] += depth * done
    if depth > counters[arena.SELDEPTH]:
        counters[arena.SELDEPTH] = depth


@inner
def _record_terminal(A: ArenaArrays, s: Position, key: uint64, check: uint64, flags: int64) -> int64:
    """Returns a new record of a position without moves."""
    mate = flags == MATE_FLAGS
    value = float32(-1.0) if mate else float32(0.0)
    draws = int64(0) if mate else int64(1000)
    rec = arena.new_record(A, s, key, int64(0), value, draws, int64(flags))
    record.set_source(A, rec, int64(BY_RULE), A.ints[arena.RUN])
    arena.insert(A, key, check, rec)
    return rec


@inner
def open_leaf(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, check: uint64) -> int64:
    """Makes an unknown position a leaf, or records a terminal or a mate in one; returns its entry's kind."""
    s, leaf = wave.words_of(W, e), W.counts[wave.LEAVES]
    begin = W.offsets[leaf]
    moves, room = (
        adv(W.moves, begin),
        adv(W.leaf_words, leaf * board.PW),
    )  # scratch: the words of the next leaf
    dead = board.is_dead(s)
    n, mating = int64(0), int64(-1)
    if not dead:
        n = int64(board.generate_moves(T, s, moves))
    if n and board.clock_of(s) < CLOCK_DRAW:
        mating = mate_in_one(T, s, moves, n, room, A.moves)
    if n == 0 or mating >= 0:
        if n == 0:
            flags = DEAD_FLAGS if dead else (MATE_FLAGS if board.in_check(T, s) else STALEMATE_FLAGS)
            rec = _record_terminal(A, s, board.position_key(T, s), check, flags)
        else:
            rec = record_mate(A, s, board.position_key(T, s), check, moves, n, mating, int64(1))
        wave.set_field(W, e, wave.SLOT, rec)
        end_entry(A, W, e, wave.TERMINAL, int64(1))
        return wave.TERMINAL
    W.offsets[leaf + 1] = begin + n
    W.leaf_entry[leaf] = e
    for i in range(board.PW):
        W.leaf_words[leaf * board.PW + i] = s[i]
    wave.set_field(W, e, wave.NODE_OR_LEAF, leaf)
    s[wave.CHECK] = check
    W.counts[wave.LEAVES] = leaf + 1
    end_entry(A, W, e, wave.LEAF, int64(1))
    return wave.LEAF


@inner
def child_supports(A: ArenaArrays, W: WaveArrays, e: int64, spent: int64) -> bool:
    """Returns whether a known position has enough visits for an edge with `spent` visits to catch up."""
    node_n = arena.child_visits(A, wave.field(W, e, wave.SLOT)) + 1
    return float64(node_n) > A.floats[CATCH_UP_RATIO] * float64(spent)


@inner
def completed_over(A: ArenaArrays, W: WaveArrays, e: int64) -> int64:
    """Returns the completed visits of the edge that leads to an entry, 0 at the root."""
    parent = wave.field(W, e, wave.PARENT)
    if parent < 0:
        return int64(0)
    return int64(
        record.edge_visits(
            A, record.edge_at(A, wave.field(W, parent, wave.SLOT), wave.field(W, e, wave.EDGE))
        )
    )


@inner
def ends_at_known(A: ArenaArrays, W: WaveArrays, e: int64, spent: int64) -> bool:
    """Ends an entry at a known result, or to catch up with `spent` visits; returns whether it ended."""
    rec = wave.field(W, e, wave.SLOT)
    if record.state_of(A, rec) & record.USED == 0:
        record.add_state(A, rec, record.USED)
    if A.entries.counters[entry.STORED]:
        take_known_mate(A, rec, wave.words_of(W, e))
    below_root = wave.field(W, e, wave.PARENT) >= 0
    if record.move_count(A, rec) == 0 or (below_root and record.is_settled(A, rec, wave.words_of(W, e))):
        end_entry(A, W, e, wave.TERMINAL, int64(1))
        return True
    if below_root and child_supports(A, W, e, spent):
        end_entry(A, W, e, wave.CATCH_UP, wave.field(W, e, wave.ASKED))
        return True
    if wave.field(W, e, wave.DEPTH) >= wave.MAX_PLIES:
        end_entry(A, W, e, wave.TOO_DEEP, int64(1))
        return True
    return False


@inner
def _opens_leaf(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> bool:
    """Ends an entry at an unknown position; returns False if it is known by now, or another thread's leaf."""
    key = board.position_key(T, wave.words_of(W, e))
    if not wave.claim_leaf(A, key, wave.check_of(W, e)):
        return False
    if open_leaf(T, A, W, e, wave.check_of(W, e)) == wave.TERMINAL:
        wave.release_leaf(A, key)
    return True


# ------------------------------------------------------------------ 3 evaluate
@inner
def evaluate(W: WaveArrays, evaluating: Bound) -> None:
    """Evaluates the leaves of a wave with a batch kernel, or evenly without one."""
    leaves = W.counts[wave.LEAVES]
    if evaluating.code == 0:
        evaluate_evenly(W.offsets, W.values, W.priors, int64(0), leaves)
    elif leaves:
        evaluating.words[evaluating.words_size + BEGIN] = 0
        evaluating.words[evaluating.words_size + END] = leaves
        call_bound(evaluating)


# ------------------------------------------------------------------ 4 expand
@inner
def expand(T: BoardTable, A: ArenaArrays, W: WaveArrays, evaluator: int64) -> None:
    """Creates a record for every evaluated leaf; V, D and P are quantised only here."""
    for leaf in range(W.counts[wave.LEAVES]):
        e = W.leaf_entry[leaf]
        s = wave.words_of(W, e)
        begin = W.offsets[leaf]
        n = W.offsets[leaf + 1] - begin
        value = W.values[2 * leaf]
        draws = arena.cap_draws(int64(1000.0 * float64(W.values[2 * leaf + 1]) + 0.5), value)
        flags = int64(W.leaf_flags[leaf])
        key = board.position_key(T, s)
        rec = arena.new_record(A, s, key, n, value, draws, flags)
        codes = record.code_bytes(A, rec)
        for j in range(n):
            codes[j] = record.prior_code(W.priors[begin + j])
        arena.set_best(A, rec, adv(W.moves, begin))
        record.set_source(
            A, rec, evaluator if flags == wave.UNPROVEN_FLAGS else int64(BY_RULE), A.ints[arena.RUN]
        )
        take_known_mate(A, rec, s)
        arena.insert(A, key, wave.check_of(W, e), rec)
        wave.release_leaf(A, key)
        wave.set_field(W, e, wave.SLOT, rec)
    A.counters[arena.EVALUATIONS] += W.counts[wave.LEAVES]


# ------------------------------------------------------------------ 5 back up
@inner
def _count_visits(A: ArenaArrays, edge: int64, done: int64) -> None:
    """Adds completed visits to an edge; a count beyond u32 saturates and increments OVERFLOWS."""
    n = record.edge_visits(A, edge) + done
    if n > arena.MAX_VISITS:
        A.counters[arena.OVERFLOWS] += 1
        n = int64(arena.MAX_VISITS)
    record.set_edge_visits(A, edge, n)


@inner
def _count_draw(T: BoardTable, A: ArenaArrays, s: Position, rec: int64, j: int64) -> None:
    """Adds a visit that ended in a path draw to edge `j`; the child stays unchanged."""
    if record.block_class_of(A, rec) < record.WIDE:
        arena.grow_block(T, A, s, rec, A.ints[record.CAPACITY + record.block_class_of(A, rec)], True)
    edge = record.edge_at(A, rec, j)
    _count_visits(A, edge, int64(1))
    record.set_draw_visits(A, edge, record.draw_visits(A, edge, int64(4)) + 1)


@inner
def _add_to_overlay(A: ArenaArrays, W: WaveArrays, e: int64) -> None:
    """Adds the edges of a visit that only this game's history made a draw to the overlay (never saved)."""
    a, drawn = int64(e), int64(1)  # the edge of `e` itself leads to the draw
    while wave.field(W, a, wave.PARENT) >= 0:
        parent = wave.field(W, a, wave.PARENT)
        i = arena.count_in(A, arena.OVERLAY_LENGTH, int64(1))
        A.overlay[2 * i] = arena.overlay_item(
            wave.field(W, parent, wave.SLOT), wave.field(W, a, wave.EDGE), drawn
        )
        A.overlay[2 * i + 1] = int64(1)
        drawn = int64(0)
        a = parent


@inner
def refresh_if_stale(A: ArenaArrays, rec: int64) -> None:
    """Recomputes a record from its edges if one of them has changed."""
    if record.state_of(A, rec) & record.STALE:
        arena.refresh(A, rec)


@inner
def _lost_child_value(
    A: ArenaArrays, edge: int64, known: int64, valued: int64, q: float32, draws: int64
) -> tuple[float32, int64]:
    """Returns the (q, draw share) of an edge to a child that was lost and has not caught up yet."""
    A.counters[arena.AHEAD] += 1
    missing = valued - known
    before = record.edge_q(A, edge)
    q = float32((float64(missing) * float64(before) + float64(known) * float64(q)) / float64(valued))
    share = record.share_of(before, record.edge_draws(A, edge))
    return q, arena.cap_draws((missing * share + known * draws) // valued, q)


@inner
def _set_from_child(A: ArenaArrays, edge: int64, stride: int64, child: int64, resets: bool) -> None:
    """Sets the q and draw field of an edge from its child, seen from this side; proofs of the edge stay.

    A child with fewer visits than the edge was lost and evaluated again: until it has caught up, the missing
    visits keep the edge's old value. `resets`: the edge's move resets the clock.
    """
    refresh_if_stale(A, child)
    value, draws, known = record.value_of(A, child), record.value_draws(A, child), int64(1)
    if record.has_block(A, child):
        block = record.block_of(A, child)
        value, draws = A.values[block + record.BLOCK_Q], arena.draws_of(A, block)
        known += int64(A.blocks[block + record.BLOCK_VISITS])
    flags, before, old = record.flags_of(A, child), record.edge_q(A, edge), record.edge_draws(A, edge)
    q = float32(0.0) - value
    valued = record.edge_visits(A, edge) - record.draw_visits(A, edge, stride)
    if known < valued and record.lower_in(flags) != record.upper_in(flags):
        q, draws = _lost_child_value(A, edge, known, valued, q, draws)
    if flags == wave.UNPROVEN_FLAGS and not record.is_special(before, old):
        record.set_edge_value(A, edge, q, draws)
        return
    code = record.open_code(flags, draws)
    if record.is_decisive(flags):
        code = record.node_code(A, child, int64(0))
    q, draws = record.taken(before, old, q, code, resets)
    record.set_edge_value(A, edge, q, draws)


@inner
def _ask_for(A: ArenaArrays, W: WaveArrays, e: int64) -> None:
    """Prefetches the memory of later entries: records first, blocks when the records have arrived."""
    if e >= RECORDS_AHEAD and wave.field(W, e - RECORDS_AHEAD, wave.DONE):
        prefetch(A.records, wave.field(W, e - RECORDS_AHEAD, wave.SLOT))
        parent = wave.field(W, e - RECORDS_AHEAD, wave.PARENT)
        if parent >= 0:
            prefetch(A.records, wave.field(W, parent, wave.SLOT))
    if e >= BLOCKS_AHEAD and wave.field(W, e - BLOCKS_AHEAD, wave.DONE):
        record.prefetch_block(A, wave.field(W, e - BLOCKS_AHEAD, wave.SLOT))
        parent = wave.field(W, e - BLOCKS_AHEAD, wave.PARENT)
        if parent >= 0:
            record.prefetch_block(A, wave.field(W, parent, wave.SLOT))


@inner
def _back_up_entry(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> None:
    """Adds the completed visits of an entry to the edge that led to it, and updates the edge's value."""
    done = wave.field(W, e, wave.DONE)
    parent = wave.field(W, e, wave.PARENT)
    if done == 0 or parent < 0:
        return
    rec = wave.field(W, parent, wave.SLOT)
    j = wave.field(W, e, wave.EDGE)
    kind = wave.field(W, e, wave.KIND)
    if kind == wave.PATH_DRAW or kind == wave.HISTORY_DRAW:
        _count_draw(T, A, wave.words_of(W, parent), rec, j)
        if kind == wave.HISTORY_DRAW:
            _add_to_overlay(A, W, e)
    else:
        edge = record.edge_at(A, rec, j)
        _count_visits(A, edge, done)
        child, resets = wave.field(W, e, wave.SLOT), board.clock_of(wave.words_of(W, e)) == 0
        _set_from_child(A, edge, record.stride_at(A, rec), child, resets)
    arena.mark_dirty(A, rec, wave.words_of(W, parent))
    record.add_state(A, rec, record.STALE)
    wave.set_field(W, parent, wave.DONE, wave.field(W, parent, wave.DONE) + done)


@inner
def _land_entry(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> None:
    """Adds the completed visits of an entry to the edge that led to it; at the root, to the wave's count."""
    done = wave.field(W, e, wave.DONE)
    parent = wave.field(W, e, wave.PARENT)
    if parent < 0:
        W.counts[wave.EARLY] += done
        A.counters[arena.VISITS] += done
        refresh_if_stale(A, wave.field(W, e, wave.SLOT))
    else:
        _back_up_entry(T, A, W, e)
    wave.set_field(W, e, wave.DONE, int64(0))


@inner
def settle(T: BoardTable, A: ArenaArrays, W: WaveArrays, first: int64) -> None:
    """Backs up and lands the visits of a round that needed no evaluation, from the last entry to `first`."""
    if W.counts[wave.ENDED] == 0:
        return
    W.counts[wave.ENDED] = 0
    W.counts[wave.PATH_DRAWN] = 0
    for down in range(W.counts[wave.ENTRIES] - first):
        e = W.counts[wave.ENTRIES] - 1 - down
        _ask_for(A, W, e)
        done = wave.field(W, e, wave.DONE)
        if done and wave.field(W, e, wave.KIND) != wave.LEAF:
            parent = wave.field(W, e, wave.PARENT)
            if parent >= 0:
                wave.land(W, wave.field(W, parent, wave.NODE_OR_LEAF), wave.field(W, e, wave.EDGE), done)
            _land_entry(T, A, W, e)


@inner
def back_up_path(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> None:
    """Backs up a visit that ended at entry `e` without an evaluation and was not in flight."""
    W.counts[wave.ENDED] = 0
    W.counts[wave.PATH_DRAWN] = 0
    while e >= 0:
        _land_entry(T, A, W, e)
        e = wave.field(W, e, wave.PARENT)


@inner
def _ask_for_first(A: ArenaArrays, W: WaveArrays) -> None:
    """Prefetches the first edges of a path: other threads have probably changed them meanwhile."""
    for e in range(1, min(W.counts[wave.ENTRIES], int64(EDGES_SHARED + 1))):
        rec = wave.field(W, wave.field(W, e, wave.PARENT), wave.SLOT)
        prefetch(A.guards, arena.row_of(A, U(rec)))
        prefetch(A.blocks, record.block_of(A, rec))
        prefetch(A.blocks, record.edge_at(A, rec, wave.field(W, e, wave.EDGE)))


@inner
def back_up_lone(T: BoardTable, A: ArenaArrays, W: WaveArrays) -> int64:
    """Completes the only visit of a wave beside those of other threads; returns the completed visits.

    An edge is set from its child while both records are locked, so the latest value stays.
    """
    if A.guard_mask:
        _ask_for_first(A, W)
    e = W.counts[wave.ENTRIES] - 1
    below = arena.lock_record(A, wave.field(W, e, wave.SLOT))
    parent = wave.field(W, e, wave.PARENT)
    while parent >= 0:
        rec = wave.field(W, parent, wave.SLOT)
        above = arena.lock_above(A, below, rec)
        _back_up_entry(T, A, W, e)
        wave.drop_visit(A, above, rec, wave.field(W, e, wave.EDGE))
        if above != below:
            arena.give_guard(A, below)
        refresh_if_stale(A, rec)  # now, while only this row is locked
        e, below = parent, above
        parent = wave.field(W, e, wave.PARENT)
    completed = _complete_roots(A, W)
    W.counts[wave.DECIDED] = int64(is_root_over(A, W))
    arena.give_guard(A, below)
    return completed


@inner
def is_over(A: ArenaArrays, rec: int64, s: Position) -> bool:
    """Returns whether the root's result and a move that leads to it are proven: the search may end."""
    if rec == 0 or A.ints[RESTRICTED] or A.history_size:  # a position of the game may spoil a proof
        return False
    return board.clock_of(s) < CLOCK_DRAW and record.is_decided(A, rec, s)


@inner
def is_root_over(A: ArenaArrays, W: WaveArrays) -> bool:
    """Returns `is_over` for the root of a completed wave."""
    return W.counts[wave.ENTRIES] > 0 and is_over(
        A, wave.field(W, int64(0), wave.SLOT), wave.words_of(W, int64(0))
    )


@inner
def _complete_roots(A: ArenaArrays, W: WaveArrays) -> int64:
    """Counts the visits of a wave that have reached the root; returns their number, early ones included."""
    completed = int64(0)
    e = W.heads[0]
    while e >= 0:
        completed += wave.field(W, e, wave.DONE)
        if wave.field(W, e, wave.SLOT):
            refresh_if_stale(A, wave.field(W, e, wave.SLOT))
        e = wave.field(W, e, wave.NEXT)
    A.counters[arena.VISITS] += completed
    return completed + W.counts[wave.EARLY]


@inner
def back_up(T: BoardTable, A: ArenaArrays, W: WaveArrays) -> int64:
    """Completes every visit of a wave, deepest entries first; returns their number, early ones included."""
    for up in range(W.counts[wave.DEEPEST]):
        e = W.heads[W.counts[wave.DEEPEST] - up]
        while e >= 0:
            _ask_for(A, W, e)  # the next entry of a depth is usually e - 1
            _back_up_entry(T, A, W, e)
            e = wave.field(W, e, wave.NEXT)
    return _complete_roots(A, W)


# ------------------------------------------------------------------ mates
WON_FLAGS, LOST_FLAGS = record.flags_with(1, 1), record.flags_with(-1, -1)
KNOWN_SHARE = 0.75  # P of the mating move in a record made without an evaluator; the others share the rest


@inner
def _set_mate(A: ArenaArrays, rec: int64, plies: int64) -> None:
    """Sets a record's V, D and bounds to a mate in `plies` plies, by the rules."""
    flags = WON_FLAGS if plies > 0 else LOST_FLAGS
    record.set_value(A, rec, float32(1.0) if plies > 0 else float32(-1.0))
    record.set_draws_and_flags(A, rec, abs(plies), flags)
    record.add_state(A, rec, record.STALE)
    record.set_by_rule(A, rec)


@inner
def take_known_mate(A: ArenaArrays, rec: int64, s: Position) -> None:
    """Sets the mate in an open record if an entry proves one of its position `s`."""
    if A.entries.counters[entry.STORED] == 0 or record.move_count(A, rec) == 0 or record.is_exact(A, rec):
        return
    at = entry.find_entry(A.entries, record.key_at(A, rec), board.check_hash(s))
    if at < 0:
        return
    value, bound = entry.value_in(A.entries.data[at]), entry.bound_in(A.entries.data[at])
    plies = MATE - abs(value)
    if entry.proves_mate(value, bound) and plies > 0 and plies + board.clock_of(s) <= CLOCK_DRAW:
        _set_mate(A, rec, plies if value > 0 else -plies)
        arena.mark_dirty(A, rec, s)


@inner
def record_mate(
    A: ArenaArrays,
    s: Position,
    key: uint64,
    check: uint64,
    moves: Pointer[uint16],
    n: int64,
    best: int64,
    plies: int64,
) -> int64:
    """Returns a new record of a mate in `plies` plies, negative if suffered, by the move at `best`."""
    value, flags = (float32(1.0), WON_FLAGS) if plies > 0 else (float32(-1.0), LOST_FLAGS)
    rec = arena.new_record(A, s, key, n, value, abs(plies), int64(flags))
    codes = record.code_bytes(A, rec)
    other = record.prior_code(float32((1.0 - KNOWN_SHARE) / n))
    for j in range(n):
        codes[j] = other
    codes[best] = record.prior_code(float32(KNOWN_SHARE))
    arena.set_best(A, rec, moves)
    record.set_source(A, rec, int64(BY_RULE), A.ints[arena.RUN])
    arena.insert(A, key, check, rec)
    return rec


@inner
def _rank(A: ArenaArrays, rec: int64, j: int64) -> int64:
    """Returns the rank in descending P of the move at `j` in canonical order."""
    own = arena.rank_key(record.code_at(A, rec, j), j)
    rank = int64(0)
    for i in range(record.move_count(A, rec)):
        if arena.rank_key(record.code_at(A, rec, i), i) > own:
            rank += 1
    return rank


@inner
def _learn(T: BoardTable, A: ArenaArrays, s: Position, rec: int64, j: int64, plies: int64) -> bool:
    """Writes a mate to a record and to the edge of its move at `j`; returns whether it added a visit."""
    known = record.mate_kept(record.value_of(A, rec), record.value_draws(A, rec))
    if known == 0 or abs(plies) < known:
        _set_mate(A, rec, plies)
    rank = _rank(A, rec, j)
    if rank >= record.materialised(A, rec):
        arena.grow_block(T, A, s, rec, rank + 1, False)
    edge = record.edge_at(A, rec, rank)
    n = record.edge_visits(A, edge)
    is_new = n == record.draw_visits(A, edge, record.stride_at(A, rec))
    record.set_edge_visits(A, edge, n + 1 if is_new else n)
    record.set_edge_value(A, edge, float32(1.0) if plies > 0 else float32(-1.0), abs(plies))
    arena.refresh(A, rec)
    arena.mark_dirty(A, rec, s)
    return is_new


# ------------------------------------------------------------------ many visits
@inner
def has_space(A: ArenaArrays, target: int64) -> bool:
    """Returns whether a wave of `target` leaves cannot run out of table, record, block or overlay space."""
    counters, threads = A.space, arena.threads_of(A)
    entries = threads * _entries_for(target)  # each may be new: a mate in one, or a leaf
    if (counters[arena.NODES] + entries) * 20 > A.table_size * 17:  # load at most 0.85
        return False
    if counters[arena.RECORD_WORDS] + entries * WORDS_PER_RECORD > A.records_size:
        return False
    if A.log_size and counters[arena.DIRTY_NODES] + entries > A.log_size // arena.LOG_WORDS:
        return False
    if counters[arena.BLOCK_WORDS] + threads * wave.SPARE_BLOCK_WORDS > A.blocks_size:
        return False
    return counters[arena.OVERLAY_LENGTH] + threads * OVERLAY_PER_WAVE <= A.overlay_size // 2


@inner
def begin_wave(A: ArenaArrays, W: WaveArrays, target: int64) -> None:
    """Empties a wave for a batch of `target` leaves."""
    wave.clear_wave(W)
    A.counters[arena.WAVES] += 1
    A.counters[arena.OVERLAY_RESERVED] = A.space[arena.OVERLAY_LENGTH]
    W.counts[wave.TARGET] = target


@kernel
def is_root_decided(T: Words, A: ArenaArrays, root: Words) -> bool:
    """Returns whether the root of a search, `uint64[10]`, has nothing left to prove."""
    return is_over(A, locate(ptr(T, 0), A, ptr(root, 0))[0], ptr(root, 0))


@kernel
def gather_one(T: Words, A: ArenaArrays, W: WaveArrays, F: FilterArrays, root: Words) -> int64:
    """Gathers a wave of one visit; returns its leaves, 0 or 1, or the caller's task as `gather` does."""
    if W.counts[wave.STAGE] == wave.NOT_WAITING:
        if not has_space(A, int64(1)):
            return int64(NO_SPACE)
        begin_wave(A, W, int64(1))
    return W.counts[wave.LEAVES] if descend(ptr(T, 0), A, W, F, ptr(root, 0)) else int64(NO_RECORDS)


@kernel
def complete(T: Words, A: ArenaArrays, W: WaveArrays, evaluator: int64) -> int64:
    """Expands the evaluated leaves of a gathered wave and backs it up; returns the completed visits."""
    expand(ptr(T, 0), A, W, evaluator)
    visits = back_up(ptr(T, 0), A, W)
    W.counts[wave.DECIDED] = int64(is_root_over(A, W))
    return visits


@kernel
def run_visits(
    T: Words,
    A: ArenaArrays,
    W: WaveArrays,
    F: FilterArrays,
    root: Words,
    bringing: Bound,
    evaluating: Bound,
    evaluator: int64,
    limits: NDArray[np.int64],
) -> int64:
    """Runs waves of one visit until a limit; returns LIMITS_REACHED, or the caller's next task.

    After NO_SPACE and NO_RECORDS the caller acts as for `gather` and calls again. No visit is cut short, so a
    search that was stopped continues as if it had not stopped. Several threads may run it at once, each with
    its own wave (`arena_kernel.of_thread`); their turns are a limit, too.

    Args:
      bringing: `bring_wave`, or NOT_BOUND. evaluating: the evaluator's batch kernel, bound to the wave, or
        NOT_BOUND. evaluator: its number in records. limits: `new_limits`.
    """
    Tp, s = ptr(T, 0), ptr(root, 0)
    while limits[VISITS] > 0 and limits[EVALUATIONS] > 0 and limits[WAVES] > 0:
        if W.counts[wave.STAGE] == wave.NOT_WAITING:
            if not has_space(A, int64(1)):
                return int64(NO_SPACE)
            if not arena.takes_turn(A):
                break
            begin_wave(A, W, int64(1))
        visits = visit(Tp, A, W, F, s, evaluator, evaluating, bringing)
        if visits < 0:
            return int64(NO_RECORDS)
        limits[VISITS] -= visits
        limits[EVALUATIONS] -= W.counts[wave.LEAVES]
        limits[WAVES] -= 1
        if W.counts[wave.DECIDED]:
            arena.end_turns(A)
            break
    return int64(LIMITS_REACHED)


class SearchArrays(NamedTuple):
    """The arrays for the kernels of a wave: board tables, arena, wave, filters of the file, packed root."""

    T: Words
    A: ArenaArrays
    W: WaveArrays
    F: FilterArrays
    root: Words


NOT_BOUND = Bound(
    code=0, words=np.zeros(0, np.int64)
)  # reads nothing, or evaluates evenly: `uniform`, compiled in


def bring_wave(on: SearchArrays, R: ReaderArrays) -> Bound:
    """Returns `bring`, bound to the records that a wave waits for; `on.F`: the reader's filters."""
    W = on.W
    return bind(bring, on.T, on.A, on.F, R, W.words, wave.ENTRY_WORDS, W.misses, W.counts, wave.MISSES)


def new_limits(visits: int, evaluations: int, waves: int, many: int = 1 << 60) -> NDArray[np.int64]:
    """Returns limits for `run_visits` or `run_waves`.

    Args:
      visits, evaluations, waves: left to run; they count down. many: leaves of a wave that several threads
        evaluate.
    """
    limits = apart(4, np.int64)
    limits[:] = visits, evaluations, waves, many
    return limits


@kernel
def learn_line(
    T: NDArray[np.uint64], A: ArenaArrays, words: NDArray[np.uint64], moves: NDArray[np.uint16]
) -> None:
    """Writes a mate to the records along its line; creates missing ones, for which the arena must have room.

    Every record of the line that is in the file must be in memory.

    Args:
      words: uint64[(L + 1) * 10], the first position and room for the following ones.
      moves: uint16[L], to the mate: best attack and longest defence.
    """
    Tp, length = ptr(T, 0), moves.size
    for k in range(length):
        board.make_move(Tp, ptr(words, k * board.PW), ptr(words, (k + 1) * board.PW), moves[k])
    last = ptr(words, length * board.PW)
    key, check = board.hashes_of(Tp, last)
    if arena.find(A, key, check) == 0:
        _record_terminal(A, last, key, check, int64(MATE_FLAGS))
    for k in range(length - 1, -1, -1):
        s = ptr(words, k * board.PW)
        plies = int64(length - k)
        plies = plies if plies & 1 else -plies
        key, check = board.hashes_of(Tp, s)
        n = int64(board.generate_moves(Tp, s, A.moves))
        j = int64(0)
        while j < n - 1 and A.moves[j] != moves[k]:
            j += 1
        rec = arena.find(A, key, check)
        if rec == 0:
            rec = record_mate(A, s, key, check, A.moves, n, j, plies)
        if _learn(Tp, A, s, rec, j, plies) and k == 0:
            A.counters[arena.VISITS] += 1


@kernel
def fill_exploration(floats: NDArray[np.float64]) -> None:
    """Tabulates `exploration_term` for 0, 1, 2... visits."""
    for visits in range(EXPLORATION_ENTRIES):
        floats[EXPLORATION + visits] = exploration_term(ptr(floats, 0), visits)


# ------------------------------------------------------------------ settings
def set_params(arrays: ArenaArrays, params: SearchParams) -> None:
    """Writes the search parameters for the kernels into the arena's arrays."""
    floats, ints = arrays.floats, arrays.ints
    floats[CPUCT] = params.cpuct
    floats[CPUCT_BASE] = params.cpuct_base
    floats[CPUCT_FACTOR] = params.cpuct_factor
    floats[FPU_VALUE] = params.fpu_value
    floats[CATCH_UP_RATIO] = params.catch_up_ratio
    floats[WAVE_SHARE] = params.max_wave_share
    floats[LEAST_DECIDED] = puct.least_decided(params.decided_from)
    fill_exploration(floats)
    ints[SCHEME] = GATHERERS.index(params.gather)
    ints[COLLISION_EVENTS] = params.max_collision_events
    ints[COLLISION_VISITS] = params.max_collision_visits


def set_listed(arrays: ArenaArrays, edges: Sequence[int] | None) -> None:
    """Restricts searches to these edges of the root, counted in descending P; None: all."""
    arrays.ints[RESTRICTED] = edges is not None
    arrays.ints[LISTED:] = 0
    arrays.ints[[LISTED + k for k in edges or ()]] = 1
