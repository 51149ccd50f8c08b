"""Expansion and backup: records for the evaluated leaves, then the edges up to the root, deepest first.

An edge gets its completed visits and its child's current value (`q_a = -Q(child)`). A node's Q is always
recomputed from all of its edges, so backing a value up twice changes nothing.
"""

from __future__ import annotations

from ..graph import arena_kernel as arena
from ..graph.arena_kernel import ArenaPointers, overlay_item
from ..graph.guards_kernel import count_in, give_guard, lock_above, lock_record, row_of
from ..graph.heap_kernel import grow_block, insert, mark_dirty, new_record, set_best
from ..graph.known_mates_kernel import take_known_mate
from ..graph.statistics_kernel import MAX_VISITS, cap_draws, child_visits, node_draws, node_q, refresh
from ..jit.compiler import inlined, inner
from ..jit.pointers import U, adv, prefetch
from ..jit.types import float32, float64, int64
from ..position.board import CLOCK_DRAW
from ..position.board_kernel import clock_of, position_key
from ..position.words import BoardTable, Position
from ..store.record.bounds_kernel import (
    DRAWN,
    bounds_of,
    is_decided,
    is_decisive,
    is_special,
    merged,
    node_code,
    open_code,
    share_of,
    turned,
)
from ..store.record.node_kernel import (
    add_state,
    block_class_of,
    block_of,
    code_bytes,
    draw_visits,
    edge_at,
    edge_draws,
    edge_q,
    edge_visits,
    flags_of,
    is_exact,
    lower_in,
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
from ..store.record.node_layout import CAPACITY, STALE, WIDE
from . import wave_kernel as wave
from .flight_kernel import land
from .notes_kernel import drop_visit, release_leaf
from .param_layout import RESTRICTED
from .wave_kernel import WavePointers, check_of, field, set_field, words_of

RECORDS_AHEAD, BLOCKS_AHEAD = 12, 6  # entries between a prefetch and its use
EDGES_SHARED = 4  # first edges of a path: other threads often pass them
BY_RULE = 0  # the evaluator of results by rules or tablebases


@inner
def expand(T: BoardTable, A: ArenaPointers, W: WavePointers, evaluator: int64) -> None:
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
        set_source(
            A, rec, evaluator if flags == wave.UNPROVEN_FLAGS else int64(BY_RULE), A.ints[arena.SESSION]
        )
        take_known_mate(A, rec, s)
        insert(A, key, check_of(W, e), rec)
        release_leaf(A, key)
        set_field(W, e, wave.SLOT, rec)
    A.counters[arena.EVALUATIONS] += W.counts[wave.LEAVES]


@inlined
def _count_visits(A: ArenaPointers, edge: int64, done: int64) -> None:
    """Adds completed visits to an edge; a count beyond u32 saturates and increments OVERFLOWS."""
    n = edge_visits(A, edge) + done
    if n > MAX_VISITS:
        A.counters[arena.OVERFLOWS] += 1
        n = int64(MAX_VISITS)
    set_edge_visits(A, edge, n)


@inner
def _count_draw(T: BoardTable, A: ArenaPointers, s: Position, rec: int64, j: int64) -> None:
    """Adds a visit that ended in a path draw to edge `j`; the child stays unchanged."""
    if block_class_of(A, rec) < WIDE:
        grow_block(T, A, s, rec, A.ints[CAPACITY + block_class_of(A, rec)], True)
    edge = edge_at(A, rec, j)
    _count_visits(A, edge, int64(1))
    set_draw_visits(A, edge, draw_visits(A, edge, int64(4)) + 1)


@inner
def _add_to_overlay(A: ArenaPointers, W: WavePointers, e: int64) -> None:
    """Adds the edges of a visit that only this game's history made a draw to the overlay (never saved)."""
    a, drawn = int64(e), int64(1)  # the edge of `e` itself leads to the draw
    while field(W, a, wave.PARENT) >= 0:
        parent = field(W, a, wave.PARENT)
        i = count_in(A, arena.OVERLAY_LENGTH, int64(1))
        A.overlay[2 * i] = overlay_item(field(W, parent, wave.SLOT), field(W, a, wave.EDGE), drawn)
        A.overlay[2 * i + 1] = int64(1)
        drawn = int64(0)
        a = parent


@inlined
def refresh_if_stale(A: ArenaPointers, rec: int64) -> None:
    """Recomputes a record from its edges if one of them has changed."""
    if state_of(A, rec) & STALE:
        refresh(A, rec)


@inner
def _lost_child_value(
    A: ArenaPointers, edge: int64, known: int64, valued: int64, q: float32, draws: int64
) -> tuple[float32, int64]:
    """Returns the (q, draw share) of an edge to a child that was lost and has not caught up yet."""
    A.counters[arena.AHEAD] += 1
    missing = valued - known
    before = edge_q(A, edge)
    q = float32((float64(missing) * float64(before) + float64(known) * float64(q)) / float64(valued))
    share = share_of(before, edge_draws(A, edge))
    return q, cap_draws((missing * share + known * draws) // valued, q)


@inlined
def child_summary(A: ArenaPointers, child: int64) -> tuple[float32, int64, int64, int64, int64]:
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


@inlined
def _set_from_child(
    A: ArenaPointers,
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


@inlined
def _ask_for(A: ArenaPointers, W: WavePointers, e: int64) -> None:
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


@inlined
def _back_up_entry(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64) -> None:
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
def _land_entry(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64) -> None:
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
def settle(T: BoardTable, A: ArenaPointers, W: WavePointers, first: int64) -> None:
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
def back_up_path(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64) -> None:
    """Backs up a visit that ended at entry `e` without an evaluation and was not in flight."""
    W.counts[wave.ENDED] = 0
    W.counts[wave.PATH_DRAWN] = 0
    while e >= 0:
        _land_entry(T, A, W, e)
        e = field(W, e, wave.PARENT)


@inner
def _ask_for_first(A: ArenaPointers, W: WavePointers) -> None:
    """Prefetches the first edges of a path: other threads have probably changed them meanwhile."""
    for e in range(1, min(W.counts[wave.ENTRIES], int64(EDGES_SHARED + 1))):
        rec = field(W, field(W, e, wave.PARENT), wave.SLOT)
        prefetch(A.guards, row_of(A, U(rec)))
        prefetch(A.blocks, block_of(A, rec))
        prefetch(A.blocks, edge_at(A, rec, field(W, e, wave.EDGE)))


@inner
def back_up_lone(T: BoardTable, A: ArenaPointers, W: WavePointers) -> int64:
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
def is_over(A: ArenaPointers, rec: int64, s: Position) -> bool:
    """Returns whether the root's result and a move that leads to it are proven: the search may end."""
    if rec == 0 or A.ints[RESTRICTED] or A.history_size:  # a position of the game may spoil a proof
        return False
    return clock_of(s) < CLOCK_DRAW and is_decided(A, rec, s)


@inner
def is_root_over(A: ArenaPointers, W: WavePointers) -> bool:
    """Returns `is_over` for the root of a completed wave."""
    if W.counts[wave.ENTRIES] == 0:
        return False
    rec = field(W, int64(0), wave.SLOT)
    return rec != 0 and is_exact(A, rec) and is_over(A, rec, words_of(W, int64(0)))


@inner
def _complete_roots(A: ArenaPointers, W: WavePointers) -> int64:
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
def back_up(T: BoardTable, A: ArenaPointers, W: WavePointers) -> int64:
    """Completes every visit of a wave, deepest entries first; returns their number, early ones included."""
    for up in range(W.counts[wave.DEEPEST]):
        e = W.heads[W.counts[wave.DEEPEST] - up]
        while e >= 0:
            _ask_for(A, W, e)  # the next entry of a depth is usually e - 1
            _back_up_entry(T, A, W, e)
            e = field(W, e, wave.NEXT)
    return _complete_roots(A, W)
