"""What transposition entries know of mates, given to the records that a search comes by."""

from __future__ import annotations

from typing import Any

from numba import float32, int64, uint8, uint16

from ..jit.compiler import inner
from ..jit.pointers import adv, as_f32, as_u16
from ..position.board import CLOCK_DRAW
from ..position.board_kernel import check_hash, clock_of
from ..position.scores import MATE
from ..record.node_kernel import header_bytes, is_exact, move_count
from ..record.node_layout import STALE
from ..record.transposition_kernel import STORED, bound_in, find_entry, proves_mate, value_in
from .heap_kernel import mark_dirty

RULES = 0xF0  # what is left of the byte of the evaluator when the rules have spoken
WON_FLAGS, LOST_FLAGS = 2 << 2 | 2 << 4, 0


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
    as_f32(adv(A.records, rec + 1))[1] = float32(1.0) if plies > 0 else float32(-1.0)
    as_u16(adv(A.records, rec + 2))[3] = uint16(abs(plies) | (flags << 10))
    hb = header_bytes(A, rec)
    hb[3] |= uint8(STALE)
    hb[5] &= uint8(RULES)


@inner
def take_known_mate(A: Any, rec: Any, s: Any) -> None:
    """Gives an open record the mate that an entry proves of its position `s`, if there is one."""
    if A.entries.counters[STORED] == 0 or move_count(A, rec) == 0 or is_exact(A, rec):
        return
    at = find_entry(A.entries, A.records[rec], check_hash(s))
    if at < 0:
        return
    plies = mate_in(A.entries.data[at])
    if plies != 0 and abs(plies) + clock_of(s) <= CLOCK_DRAW:
        _settle(A, rec, plies)
        mark_dirty(A, rec, s)
