"""One visit from root to leaf and back: plain sequential PUCT, as in every gatherer with batches of one.

    locate -> select -> step -> locate -> ... -> end     from the root to a leaf, or to a known result
    evaluate                                             V and P of the leaf
    expand                                               its record
    back up                                              from the last edge to the root

Each step is a call of one function: `select` in `puct_kernel.py` (by the formulas of `puct.py`), steps and
ends in `paths_kernel.py`, `expand` and `back_up` in `backup_kernel.py`. Gatherers select for many visits at
once (`gatherers/`); the other steps are the same.
"""

from __future__ import annotations

from ..evaluators.batch_kernel import BEGIN, END
from ..evaluators.uniform_kernel import evaluate_evenly
from ..graph.arena_kernel import ArenaPointers
from ..graph.guards_kernel import FILE, give_guard, lock_above, lock_record, rest, take_guard
from ..graph.heap_kernel import table_index
from ..jit.calls import Bound
from ..jit.compiler import inlined, inner
from ..jit.pointers import call_bound, prefetch
from ..jit.types import int64
from ..position.board_kernel import position_key
from ..position.words import BoardTable, Position
from ..store.index.locate_kernel import FilterPointers
from ..store.record.node_kernel import edge_at, edge_move, edge_visits, prefetch_block
from . import wave_kernel as wave
from .backup_kernel import back_up_lone, expand
from .notes_kernel import claim_leaf, flying_over, note_visit, release_leaf
from .paths_kernel import (
    child_supports,
    completed_over,
    ends_at_known,
    ends_by_path,
    is_restricted,
    look_up,
    new_child,
    open_leaf,
    start_at_root,
)
from .puct_kernel import select_beside, select_listed
from .wave_kernel import WavePointers, check_of, field, words_of

READ_INSIDE = 64  # most missing records of a wave that a kernel reads; several threads read more


@inner
def visit(
    T: BoardTable,
    A: ArenaPointers,
    W: WavePointers,
    F: FilterPointers,
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
def descend(T: BoardTable, A: ArenaPointers, W: WavePointers, F: FilterPointers, root: Position) -> bool:
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


@inner
def _spent_now(A: ArenaPointers, W: WavePointers, e: int64, at: int64) -> int64:
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
def _opens_leaf(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64) -> bool:
    """Ends an entry at an unknown position; returns False if it is known by now, or another thread's leaf."""
    key = position_key(T, words_of(W, e))
    if not claim_leaf(A, key, check_of(W, e)):
        return False
    if open_leaf(T, A, W, e, check_of(W, e)) == wave.TERMINAL:
        release_leaf(A, key)
    return True


@inlined
def _step(
    T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64, rec: int64, spent: int64
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
def evaluate(W: WavePointers, evaluating: Bound) -> None:
    """Evaluates the leaves of a wave with a batch kernel, or evenly without one."""
    leaves = W.counts[wave.LEAVES]
    if evaluating.code == 0:
        evaluate_evenly(W.offsets, W.values, W.priors, int64(0), leaves)
    elif leaves:
        evaluating.words[len(evaluating.words) + BEGIN] = 0
        evaluating.words[len(evaluating.words) + END] = leaves
        call_bound(evaluating)


@inner
def brings(A: ArenaPointers, W: WavePointers, bringing: Bound) -> bool:
    """Reads the records that a wave waits for, if `bringing` can; returns whether it did."""
    if bringing.code == 0 or W.counts[wave.MISSES] > READ_INSIDE:
        return False
    take_guard(A, FILE)
    found = call_bound(bringing)
    give_guard(A, FILE)
    return found != 0
