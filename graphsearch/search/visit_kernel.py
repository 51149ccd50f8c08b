"""One visit from top to bottom: plain sequential PUCT, which every gatherer is with batches of one.

    locate -> select -> step -> locate -> ... -> end     from the root to a leaf, or to a known result
    evaluate                                             V and P of the leaf
    expand                                               its record
    back up                                              from the last edge to the root

Each word is a call of the one function that says how: `select` in `puct_kernel.py` (by the formulas of
`puct.py`), steps and ends in `paths_kernel.py`, `expand` and `back_up` in `backup_kernel.py`. Gatherers
select for many visits at once (`gatherers/`); all else is the same.
"""

from __future__ import annotations

from ..evaluators.batch_kernel import BEGIN, END
from ..evaluators.uniform_kernel import evaluate_evenly
from ..graph.arena_kernel import ArenaPointers
from ..graph.heap_kernel import table_index
from ..jit.calls import Bound
from ..jit.compiler import inner
from ..jit.pointers import call_bound, prefetch
from ..jit.types import int64
from ..position.board_kernel import position_key
from ..position.words import BoardTable, Position
from ..store.index.locate_kernel import FilterPointers
from . import wave_kernel as wave
from .backup_kernel import back_up, expand
from .paths_kernel import (
    add_child,
    completed_over,
    ends_at_known,
    ends_by_path,
    is_restricted,
    look_up,
    open_leaf,
    start_at_root,
)
from .puct_kernel import select, select_listed
from .wave_kernel import WavePointers, check_of, words_of

READ_INSIDE = 64  # records that a wave waits for, at most, that are read in a kernel; more by several threads


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
    """Makes one visit of the root in an empty wave; returns how many visits that completed.

    Returns -1 if it waits for records that `bringing` cannot read; called again, it goes on from there.

    Args:
      evaluator: its number in the records. evaluating: its batch kernel, bound to the wave; `NOT_BOUND`:
        `uniform`, which is compiled in.
    """
    while not descend(T, A, W, F, root):
        if not brings(W, bringing):
            return int64(-1)
    evaluate(W, evaluating)
    expand(T, A, W, evaluator)
    return back_up(T, A, W)


@inner
def descend(T: BoardTable, A: ArenaPointers, W: WavePointers, F: FilterPointers, root: Position) -> bool:
    """Walks from the root to where the visit ends: the wave's one leaf, or a known result.

    Returns False if it waits for a record that may be in the file; called again, it goes on from there.
    """
    waited = W.counts[wave.STAGE] == wave.ON_PATH
    e = W.counts[wave.ENTRIES] - 1 if waited else start_at_root(W, root, int64(1))
    while waited or not ends_by_path(T, A, W, e):
        rec = look_up(T, A, W, F, e, waited)
        if rec < 0:
            return False
        if rec == 0:
            open_leaf(T, A, W, e, check_of(W, e))
            break
        waited = False
        if ends_at_known(A, W, e, completed_over(A, W, e) + 1):
            break
        s = words_of(W, e)
        j = select_listed(T, A, s, rec) if is_restricted(A, W, e) else select(T, A, s, rec)
        e = add_child(T, A, W, e, j, int64(1))
        prefetch(A.table, table_index(A, position_key(T, words_of(W, e))))  # while the path is looked at
    W.counts[wave.STAGE] = wave.NOT_WAITING
    return True


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
def brings(W: WavePointers, bringing: Bound) -> bool:
    """Reads the records that a wave waits for, if there is a kernel that does; returns whether it could."""
    if bringing.code == 0 or W.counts[wave.MISSES] > READ_INSIDE:
        return False
    return call_bound(bringing) != 0
