"""One visit from the root to a leaf: plain sequential PUCT, which every gatherer is with batches of one."""

from __future__ import annotations

from ...graph.arena_kernel import ArenaPointers
from ...graph.heap_kernel import table_index
from ...jit.compiler import inner
from ...jit.pointers import prefetch
from ...jit.types import int64
from ...position.board_kernel import position_key
from ...position.words import BoardTable, Position
from ...store.index.locate_kernel import FilterPointers
from .. import wave_kernel as wave
from ..paths_kernel import completed_over, ends_at_known, ends_by_path, look_up, open_leaf
from ..puct_kernel import select
from ..wave_kernel import WavePointers, check_of, words_of
from .levels_kernel import add_child, start_at_root
from .listed_kernel import is_restricted, select_listed


@inner
def gather_one(T: BoardTable, A: ArenaPointers, W: WavePointers, F: FilterPointers, root: Position) -> bool:
    """Walks one visit from the root's words: plain sequential PUCT.

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
