"""What transposition entries know of mates, given to the records that a search comes by."""

from __future__ import annotations

from typing import Any

from numpy import float32, int64

from ..jit.compiler import inner
from ..position.board import CLOCK_DRAW
from ..position.board_kernel import check_hash, clock_of
from ..position.scores import MATE
from ..record.node_kernel import (
    add_state,
    is_exact,
    key_at,
    move_count,
    set_by_rule,
    set_draws_and_flags,
    set_value,
)
from ..record.node_layout import STALE, flags_with
from ..record.transposition_kernel import STORED, bound_in, find_entry, proves_mate, value_in
from .heap_kernel import mark_dirty

WON_FLAGS, LOST_FLAGS = flags_with(1, 1), flags_with(-1, -1)


@inner
def mate_in(data: Any) -> Any:
    """Returns the plies to the mate that an entry proves, negative if it is suffered; 0 if it proves none."""
    value, bound = value_in(data), bound_in(data)
    if not proves_mate(value, bound):
        return int64(0)
    return MATE - value if value > 0 else -(MATE + value)


@inner
def _settle(A: Any, rec: Any, plies: Any) -> None:
    """Makes a record one of a mate in so many plies, which V and D then hold: the rules have spoken."""
    flags = WON_FLAGS if plies > 0 else LOST_FLAGS
    set_value(A, rec, float32(1.0) if plies > 0 else float32(-1.0))
    set_draws_and_flags(A, rec, abs(plies), flags)
    add_state(A, rec, STALE)
    set_by_rule(A, rec)


@inner
def take_known_mate(A: Any, rec: Any, s: Any) -> None:
    """Gives an open record the mate that an entry proves of its position `s`, if there is one."""
    if A.entries.counters[STORED] == 0 or move_count(A, rec) == 0 or is_exact(A, rec):
        return
    at = find_entry(A.entries, key_at(A, rec), check_hash(s))
    if at < 0:
        return
    plies = mate_in(A.entries.data[at])
    if plies != 0 and abs(plies) + clock_of(s) <= CLOCK_DRAW:
        _settle(A, rec, plies)
        mark_dirty(A, rec, s)
