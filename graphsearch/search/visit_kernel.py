"""One visit from root to leaf and back: plain sequential PUCT, as in every gatherer with batches of one.

    1 select      the edge with the largest score           `select` in `puct_kernel.py`, by `puct.py`
    2 step, or end  to the child; at a draw of the path, a known result, a catch-up or a leaf
    3 evaluate    V and P of the leaf
    4 expand      its record
    5 back up     from the last edge to the root

`visit` makes one visit, alone or in each of several threads. Gatherers select for many visits at once; they
take the other steps from here, and so do whole waves.

An edge gets its completed visits and its child's current value (`q_a = -Q(child)`). A node's Q is always
recomputed from all of its edges, so backing a value up twice changes nothing.
"""

from __future__ import annotations

from ..evaluators.batch_kernel import BEGIN, END
from ..evaluators.uniform_kernel import evaluate_evenly
from ..graph import arena_kernel as arena
from ..graph.arena_kernel import (
    FILE,
    MAX_VISITS,
    ArenaArrays,
    cap_draws,
    child_visits,
    count_in,
    find,
    give_guard,
    grow_block,
    insert,
    lock_above,
    lock_record,
    mark_dirty,
    new_record,
    node_draws,
    node_q,
    overlay_item,
    refresh,
    rest,
    row_of,
    set_best,
    table_index,
    take_guard,
)
from ..jit.calls import Bound
from ..jit.compiler import inner
from ..jit.pointers import U, adv, call_bound, prefetch
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
from ..store.bounds_kernel import (
    DRAWN,
    bounds_of,
    is_decided,
    is_decisive,
    is_settled,
    is_special,
    merged,
    node_code,
    open_code,
    share_of,
    turned,
)
from ..store.index_kernel import FilterArrays, may_be_stored
from ..store.record_kernel import (
    CAPACITY,
    STALE,
    TERMINAL_FLAGS,
    USED,
    WIDE,
    add_state,
    block_class_of,
    block_of,
    code_bytes,
    draw_visits,
    edge_at,
    edge_draws,
    edge_move,
    edge_q,
    edge_visits,
    flags_of,
    is_exact,
    lower_in,
    move_count,
    prefetch_block,
    prior_code,
    set_draw_visits,
    set_edge_value,
    set_edge_visits,
    set_source,
    state_of,
    stride_at,
    upper_in,
)
from ..store.transposition_kernel import STORED
from . import wave_kernel as wave
from .mates_kernel import record_mate, take_known_mate
from .puct_kernel import CATCH_UP_RATIO, RESTRICTED, select_beside, select_listed
from .wave_kernel import (
    WaveArrays,
    check_of,
    claim_leaf,
    drop_visit,
    field,
    flying_over,
    land,
    new_entry,
    note_visit,
    release_leaf,
    set_field,
    words_of,
)

MATE_FLAGS, STALEMATE_FLAGS, DEAD_FLAGS = (TERMINAL_FLAGS[kind] for kind in (CHECKMATE, STALEMATE, DEAD))
READ_INSIDE = 64  # most missing records of a wave that a kernel reads; several threads read more
RECORDS_AHEAD, BLOCKS_AHEAD = 12, 6  # entries between a prefetch and its use
EDGES_SHARED = 4  # first edges of a path: other threads often pass them
BY_RULE = 0  # the evaluator of results by rules or tablebases


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

    Args:
      evaluator: its number in the records. evaluating: its batch kernel, bound to the wave; `NOT_BOUND`:
        `uniform`, which is compiled in.
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
        rest(A, tries)  # another thread has the leaf
        tries += 1
    W.counts[wave.STAGE] = wave.NOT_WAITING
    return True


# ------------------------------------------------------------------ its position: where the record is
@inner
def locate(T: BoardTable, A: ArenaArrays, s: Position) -> tuple[int64, uint64]:
    """Returns (slot, check hash) of a position, slot 0 if it is unknown."""
    key, check = hashes_of(T, s)
    return find(A, key, check), check


@inner
def look_up(T: BoardTable, A: ArenaArrays, W: WaveArrays, F: FilterArrays, e: int64, waited: bool) -> int64:
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
def miss(W: WaveArrays, e: int64) -> None:
    """Lists an entry as missing: its record may be in the file."""
    W.misses[W.counts[wave.MISSES]] = e
    W.counts[wave.MISSES] += 1


@inner
def brings(A: ArenaArrays, W: WaveArrays, bringing: Bound) -> bool:
    """Reads the records that a wave waits for, if `bringing` can; returns whether it did."""
    if bringing.code == 0 or W.counts[wave.MISSES] > READ_INSIDE:
        return False
    take_guard(A, FILE)
    found = call_bound(bringing)
    give_guard(A, FILE)
    return found != 0


# ------------------------------------------------------------------ 1 select, 2 step
@inner
def _step(
    T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, rec: int64, spent: int64
) -> tuple[int64, int64]:
    """Steps on from a known position; returns (entry of the child, visits over its edge and this one).

    The entry is -1 if the visit ends here, and `e` itself if every edge leads to a leaf in flight.
    """
    if A.guard_mask:
        prefetch_block(A, rec)  # a lock prevents early loads
    at = lock_record(A, rec)
    if A.guard_mask and field(W, e, wave.PARENT) >= 0 and child_supports(A, W, e, spent):
        spent = _spent_now(A, W, e, at)
    if ends_at_known(A, W, e, spent):
        give_guard(A, at)
        return int64(-1), spent
    s = words_of(W, e)
    if is_restricted(A, W, e):
        j = select_listed(T, A, s, rec)
    else:
        j = select_beside(T, A, s, rec, at, W.floats)
    if j < 0:
        give_guard(A, at)
        return e, spent
    edge = edge_at(A, rec, j)
    move, spent = edge_move(A, edge), edge_visits(A, edge) + 1
    note_visit(A, at, rec, j)
    give_guard(A, at)
    child = new_child(T, W, e, j, int64(1), move)
    prefetch(A.table, table_index(A, position_key(T, words_of(W, child))))  # while the path is checked
    return child, spent


@inner
def _spent_now(A: ArenaArrays, W: WaveArrays, e: int64, at: int64) -> int64:
    """Returns the visits, completed and in flight, over the edge to a locked record, this one included.

    Other threads may have passed since: the record then has their visits, and the edge must have them, too.
    """
    parent = field(W, e, wave.PARENT)
    rec = field(W, parent, wave.SLOT)
    above = lock_above(A, at, rec)
    spent = completed_over(A, W, e) + flying_over(A, above, rec, field(W, e, wave.EDGE))
    if above != at:
        give_guard(A, above)
    return spent


@inner
def start_at_root(W: WaveArrays, root: Position, asked: int64) -> int64:
    """Returns a new entry for the root."""
    e = new_entry(W, int64(-1), int64(0), asked, int64(0))
    s = words_of(W, e)
    for i in range(PW):
        s[i] = root[i]
    return e


@inner
def add_child(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, j: int64, asked: int64) -> int64:
    """Returns a new entry for the child at edge `j` of entry `e`."""
    return new_child(T, W, e, j, asked, edge_move(A, edge_at(A, field(W, e, wave.SLOT), j)))


@inner
def new_child(T: BoardTable, W: WaveArrays, e: int64, j: int64, asked: int64, move: uint16) -> int64:
    """Returns a new entry for the child at edge `j` of entry `e`; `move`: the edge's move."""
    child = new_entry(W, e, j, asked, field(W, e, wave.DEPTH) + 1)
    make_move(T, words_of(W, e), words_of(W, child), move)
    return child


@inner
def is_restricted(A: ArenaArrays, W: WaveArrays, e: int64) -> bool:
    """Returns whether an entry is the root of a search that is restricted to some moves."""
    return A.ints[RESTRICTED] != 0 and field(W, e, wave.PARENT) < 0


# ------------------------------------------------------------------ 2 or end
@inner
def repeats_on_path(W: WaveArrays, e: int64) -> bool:
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
def stood_twice_before(A: ArenaArrays, s: Position) -> bool:
    """Returns whether a position occurred twice in the game before the root."""
    for i in range(A.history_size):
        if A.history[i] == s[KEY]:
            return clock_of(s) >= 4
    return False


@inner
def draw_of_the_path(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> int64:
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
def end_entry(A: ArenaArrays, W: WaveArrays, e: int64, kind: int64, done: int64) -> None:
    """Ends a path at an entry: sets its kind and completed visits, and updates the counters."""
    counters = A.counters
    depth = field(W, e, wave.DEPTH)
    if kind == wave.HISTORY_DRAW:
        counters[arena.OVERLAY_RESERVED] += depth
        if counters[arena.OVERLAY_RESERVED] > A.overlay_size // 2:  # the overlay is full: drop the visit
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
    T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, check: uint64, flags: int64
) -> None:
    s = words_of(W, e)
    mate = flags == MATE_FLAGS
    value = float32(-1.0) if mate else float32(0.0)
    draws = int64(0) if mate else int64(1000)
    key = position_key(T, s)
    rec = new_record(A, s, key, int64(0), value, draws, int64(flags))
    set_source(A, rec, int64(0), A.ints[arena.RUN])
    insert(A, key, check, rec)
    set_field(W, e, wave.SLOT, rec)


@inner
def _records_mate_in_one(
    T: BoardTable,
    A: ArenaArrays,
    W: WaveArrays,
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
def open_leaf(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, check: uint64) -> int64:
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


@inner
def child_supports(A: ArenaArrays, W: WaveArrays, e: int64, spent: int64) -> bool:
    """Returns whether a known position has enough visits for an edge with `spent` visits to catch up."""
    node_n = child_visits(A, field(W, e, wave.SLOT)) + 1
    return float64(node_n) > A.floats[CATCH_UP_RATIO] * float64(spent)


@inner
def completed_over(A: ArenaArrays, W: WaveArrays, e: int64) -> int64:
    """Returns the completed visits of the edge that leads to an entry, 0 at the root."""
    parent = field(W, e, wave.PARENT)
    if parent < 0:
        return int64(0)
    return int64(edge_visits(A, edge_at(A, field(W, parent, wave.SLOT), field(W, e, wave.EDGE))))


@inner
def ends_at_known(A: ArenaArrays, W: WaveArrays, e: int64, spent: int64) -> bool:
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


@inner
def ends_by_path(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> bool:
    """Ends an entry below the root if its path makes it a draw; returns whether it did."""
    if field(W, e, wave.PARENT) < 0:
        return False
    drawn = draw_of_the_path(T, A, W, e)
    if drawn == wave.NODE:
        return False
    end_entry(A, W, e, drawn, int64(1))
    return True


@inner
def _opens_leaf(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> bool:
    """Ends an entry at an unknown position; returns False if it is known by now, or another thread's leaf."""
    key = position_key(T, words_of(W, e))
    if not claim_leaf(A, key, check_of(W, e)):
        return False
    if open_leaf(T, A, W, e, check_of(W, e)) == wave.TERMINAL:
        release_leaf(A, key)
    return True


# ------------------------------------------------------------------ 3 evaluate
@inner
def evaluate(W: WaveArrays, evaluating: Bound) -> None:
    """Evaluates the leaves of a wave with a batch kernel, or evenly without one."""
    leaves = W.counts[wave.LEAVES]
    if evaluating.code == 0:
        evaluate_evenly(W.offsets, W.values, W.priors, int64(0), leaves)
    elif leaves:
        evaluating.words[len(evaluating.words) + BEGIN] = 0
        evaluating.words[len(evaluating.words) + END] = leaves
        call_bound(evaluating)


# ------------------------------------------------------------------ 4 expand
@inner
def expand(T: BoardTable, A: ArenaArrays, W: WaveArrays, evaluator: int64) -> None:
    """Creates a record for every evaluated leaf; V, D and P are quantised only here."""
    for leaf in range(W.counts[wave.LEAVES]):
        e = W.leaf_entry[leaf]
        s = words_of(W, e)
        begin = W.offsets[leaf]
        n = W.offsets[leaf + 1] - begin
        value = W.values[2 * leaf]
        draws = cap_draws(int64(1000.0 * float64(W.values[2 * leaf + 1]) + 0.5), value)
        flags = int64(W.leaf_flags[leaf])
        key = position_key(T, s)
        rec = new_record(A, s, key, n, value, draws, flags)
        codes = code_bytes(A, rec)
        for j in range(n):
            codes[j] = prior_code(W.priors[begin + j])
        set_best(A, rec, adv(W.moves, begin))
        set_source(A, rec, evaluator if flags == wave.UNPROVEN_FLAGS else int64(BY_RULE), A.ints[arena.RUN])
        take_known_mate(A, rec, s)
        insert(A, key, check_of(W, e), rec)
        release_leaf(A, key)
        set_field(W, e, wave.SLOT, rec)
    A.counters[arena.EVALUATIONS] += W.counts[wave.LEAVES]


# ------------------------------------------------------------------ 5 back up
@inner
def _count_visits(A: ArenaArrays, edge: int64, done: int64) -> None:
    """Adds completed visits to an edge; a count beyond u32 saturates and increments OVERFLOWS."""
    n = edge_visits(A, edge) + done
    if n > MAX_VISITS:
        A.counters[arena.OVERFLOWS] += 1
        n = int64(MAX_VISITS)
    set_edge_visits(A, edge, n)


@inner
def _count_draw(T: BoardTable, A: ArenaArrays, s: Position, rec: int64, j: int64) -> None:
    """Adds a visit that ended in a path draw to edge `j`; the child stays unchanged."""
    if block_class_of(A, rec) < WIDE:
        grow_block(T, A, s, rec, A.ints[CAPACITY + block_class_of(A, rec)], True)
    edge = edge_at(A, rec, j)
    _count_visits(A, edge, int64(1))
    set_draw_visits(A, edge, draw_visits(A, edge, int64(4)) + 1)


@inner
def _add_to_overlay(A: ArenaArrays, W: WaveArrays, e: int64) -> None:
    """Adds the edges of a visit that only this game's history made a draw to the overlay (never saved)."""
    a, drawn = int64(e), int64(1)  # the edge of `e` itself leads to the draw
    while field(W, a, wave.PARENT) >= 0:
        parent = field(W, a, wave.PARENT)
        i = count_in(A, arena.OVERLAY_LENGTH, int64(1))
        A.overlay[2 * i] = overlay_item(field(W, parent, wave.SLOT), field(W, a, wave.EDGE), drawn)
        A.overlay[2 * i + 1] = int64(1)
        drawn = int64(0)
        a = parent


@inner
def refresh_if_stale(A: ArenaArrays, rec: int64) -> None:
    """Recomputes a record from its edges if one of them has changed."""
    if state_of(A, rec) & STALE:
        refresh(A, rec)


@inner
def _lost_child_value(
    A: ArenaArrays, edge: int64, known: int64, valued: int64, q: float32, draws: int64
) -> tuple[float32, int64]:
    """Returns the (q, draw share) of an edge to a child that was lost and has not caught up yet."""
    A.counters[arena.AHEAD] += 1
    missing = valued - known
    before = edge_q(A, edge)
    q = float32((float64(missing) * float64(before) + float64(known) * float64(q)) / float64(valued))
    share = share_of(before, edge_draws(A, edge))
    return q, cap_draws((missing * share + known * draws) // valued, q)


@inner
def child_summary(A: ArenaArrays, child: int64) -> tuple[float32, int64, int64, int64, int64]:
    """Returns the summary of a node for the edges that lead to it: (Q, draw share, flags, decisive code, N).

    Q is seen by the side to move at the node.
    """
    refresh_if_stale(A, child)
    flags = flags_of(A, child)
    code = node_code(A, child, int64(0)) if is_decisive(flags) else int64(0)
    return (
        node_q(A, child),
        int64(node_draws(A, child)),
        int64(flags),
        int64(code),
        child_visits(A, child) + 1,
    )


@inner
def _set_from_child(
    A: ArenaArrays,
    edge: int64,
    stride: int64,
    summary: tuple[float32, int64, int64, int64, int64],
    resets: bool,
) -> None:
    """Sets the q and draw field of an edge from its child's summary, seen from this side.

    A child with fewer visits than the edge was lost and evaluated again: until it has caught up, the missing
    visits keep the edge's old value. Proofs of the edge stay. `resets`: the edge's move resets the clock.
    """
    value, draws, flags, code, known = summary
    before, old = edge_q(A, edge), edge_draws(A, edge)
    keeps = is_special(before, old)
    q = float32(0.0) - value
    if lower_in(flags) != upper_in(flags):
        if keeps and old <= DRAWN:
            return
        valued = edge_visits(A, edge) - draw_visits(A, edge, stride)
        if known < valued:
            q, draws = _lost_child_value(A, edge, known, valued, q, draws)
    if not keeps and flags == wave.UNPROVEN_FLAGS:
        set_edge_value(A, edge, q, draws)
        return
    draw_field = turned(q, code if is_decisive(flags) else open_code(flags, draws), resets)
    if keeps:
        draw_field = merged(q, old, draw_field)
        low, high = bounds_of(q, draw_field)
        q = min(max(q, float32(low)), float32(high))
    set_edge_value(A, edge, q, draw_field)


@inner
def _ask_for(A: ArenaArrays, W: WaveArrays, e: int64) -> None:
    """Prefetches the memory of later entries: records first, blocks when the records have arrived."""
    if e >= RECORDS_AHEAD and field(W, e - RECORDS_AHEAD, wave.DONE):
        prefetch(A.records, field(W, e - RECORDS_AHEAD, wave.SLOT))
        parent = field(W, e - RECORDS_AHEAD, wave.PARENT)
        if parent >= 0:
            prefetch(A.records, field(W, parent, wave.SLOT))
    if e >= BLOCKS_AHEAD and field(W, e - BLOCKS_AHEAD, wave.DONE):
        prefetch_block(A, field(W, e - BLOCKS_AHEAD, wave.SLOT))
        parent = field(W, e - BLOCKS_AHEAD, wave.PARENT)
        if parent >= 0:
            prefetch_block(A, field(W, parent, wave.SLOT))


@inner
def _back_up_entry(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> None:
    """Adds the completed visits of an entry to the edge that led to it, and updates the edge's value."""
    done = field(W, e, wave.DONE)
    parent = field(W, e, wave.PARENT)
    if done == 0 or parent < 0:
        return
    rec = field(W, parent, wave.SLOT)
    j = field(W, e, wave.EDGE)
    kind = field(W, e, wave.KIND)
    if kind == wave.PATH_DRAW or kind == wave.HISTORY_DRAW:
        _count_draw(T, A, words_of(W, parent), rec, j)
        if kind == wave.HISTORY_DRAW:
            _add_to_overlay(A, W, e)
    else:
        edge = edge_at(A, rec, j)
        _count_visits(A, edge, done)
        summary = child_summary(A, field(W, e, wave.SLOT))
        _set_from_child(A, edge, stride_at(A, rec), summary, clock_of(words_of(W, e)) == 0)
    mark_dirty(A, rec, words_of(W, parent))
    add_state(A, rec, STALE)
    set_field(W, parent, wave.DONE, field(W, parent, wave.DONE) + done)


@inner
def _land_entry(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> None:
    """Adds the completed visits of an entry to the edge that led to it; at the root, to the wave's count."""
    done = field(W, e, wave.DONE)
    parent = field(W, e, wave.PARENT)
    if parent < 0:
        W.counts[wave.EARLY] += done
        A.counters[arena.VISITS] += done
        refresh_if_stale(A, field(W, e, wave.SLOT))
    else:
        _back_up_entry(T, A, W, e)
    set_field(W, e, wave.DONE, int64(0))


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
        done = field(W, e, wave.DONE)
        if done and field(W, e, wave.KIND) != wave.LEAF:
            parent = field(W, e, wave.PARENT)
            if parent >= 0:
                land(W, field(W, parent, wave.NODE_OR_LEAF), field(W, e, wave.EDGE), done)
            _land_entry(T, A, W, e)


@inner
def back_up_path(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> None:
    """Backs up a visit that ended at entry `e` without an evaluation and was not in flight."""
    W.counts[wave.ENDED] = 0
    W.counts[wave.PATH_DRAWN] = 0
    while e >= 0:
        _land_entry(T, A, W, e)
        e = field(W, e, wave.PARENT)


@inner
def _ask_for_first(A: ArenaArrays, W: WaveArrays) -> None:
    """Prefetches the first edges of a path: other threads have probably changed them meanwhile."""
    for e in range(1, min(W.counts[wave.ENTRIES], int64(EDGES_SHARED + 1))):
        rec = field(W, field(W, e, wave.PARENT), wave.SLOT)
        prefetch(A.guards, row_of(A, U(rec)))
        prefetch(A.blocks, block_of(A, rec))
        prefetch(A.blocks, edge_at(A, rec, field(W, e, wave.EDGE)))


@inner
def back_up_lone(T: BoardTable, A: ArenaArrays, W: WaveArrays) -> int64:
    """Completes the only visit of a wave while other threads complete theirs; returns the completed visits.

    An edge is set from its child while both records are locked, so the latest value stays.
    """
    if A.guard_mask:
        _ask_for_first(A, W)
    e = W.counts[wave.ENTRIES] - 1
    below = lock_record(A, field(W, e, wave.SLOT))
    parent = field(W, e, wave.PARENT)
    while parent >= 0:
        rec = field(W, parent, wave.SLOT)
        above = lock_above(A, below, rec)
        _back_up_entry(T, A, W, e)
        drop_visit(A, above, rec, field(W, e, wave.EDGE))
        if above != below:
            give_guard(A, below)
        refresh_if_stale(A, rec)  # now, while only this row is locked
        e, below = parent, above
        parent = field(W, e, wave.PARENT)
    completed = _complete_roots(A, W)
    W.counts[wave.DECIDED] = int64(is_root_over(A, W))
    give_guard(A, below)
    return completed


@inner
def is_over(A: ArenaArrays, rec: int64, s: Position) -> bool:
    """Returns whether the root's result and a move that leads to it are proven: the search may end."""
    if rec == 0 or A.ints[RESTRICTED] or A.history_size:  # a position of the game may spoil a proof
        return False
    return clock_of(s) < CLOCK_DRAW and is_decided(A, rec, s)


@inner
def is_root_over(A: ArenaArrays, W: WaveArrays) -> bool:
    """Returns `is_over` for the root of a completed wave."""
    if W.counts[wave.ENTRIES] == 0:
        return False
    rec = field(W, int64(0), wave.SLOT)
    return rec != 0 and is_exact(A, rec) and is_over(A, rec, words_of(W, int64(0)))


@inner
def _complete_roots(A: ArenaArrays, W: WaveArrays) -> int64:
    """Counts the visits of a wave that have reached the root; returns their number, early ones included."""
    completed = int64(0)
    e = W.heads[0]
    while e >= 0:
        completed += field(W, e, wave.DONE)
        if field(W, e, wave.SLOT):
            refresh_if_stale(A, field(W, e, wave.SLOT))
        e = field(W, e, wave.NEXT)
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
            e = field(W, e, wave.NEXT)
    return _complete_roots(A, W)
