"""One visit from the root to a leaf: plain sequential PUCT, which every gatherer is with batches of one."""

from __future__ import annotations

from typing import Any

from numba import int64

from ...jit.compiler import inner
from ...position.board_kernel import position_key
from ...store.index.locate_kernel import may_be_stored
from ..paths_kernel import ends_at_known, ends_by_path, locate, open_leaf
from ..puct_kernel import select
from ..wave_kernel import ENTRIES, NOT_WAITING, ON_PATH, SLOT, STAGE, set_field, words_of
from .levels_kernel import add_child, miss, start_at_root
from .listed_kernel import is_restricted, select_listed


@inner
def gather_one(T: Any, A: Any, W: Any, F: Any, root: Any) -> Any:
    """Walks one visit from the root's words: plain sequential PUCT.

    Returns False if it waits for a record that may be in the file; called again, it goes on from there.
    """
    waited = W.counts[STAGE] == ON_PATH
    e = W.counts[ENTRIES] - 1 if waited else start_at_root(W, root, int64(1))
    while waited or not ends_by_path(T, A, W, e):
        s = words_of(W, e)
        rec, check = locate(T, A, s)
        set_field(W, e, SLOT, rec)
        if rec == 0:
            if not waited and may_be_stored(F, s, position_key(T, s)):
                miss(W, e)
                W.counts[STAGE] = ON_PATH
                return False
            open_leaf(T, A, W, e, check)
            break
        waited = False
        if ends_at_known(A, W, e, int64(1)):
            break
        j = select_listed(T, A, s, rec) if is_restricted(A, W, e) else select(T, A, s, rec)
        e = add_child(T, A, W, e, j, int64(1))
    W.counts[STAGE] = NOT_WAITING
    return True
