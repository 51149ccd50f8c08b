"""Named access to the fields of a node record in memory (`node_layout.py`): each is a load or a store.

`A` has the pointers `records`, `blocks`, `values` and `ints` of an arena (`graph/arena_kernel.py`).
"""

from __future__ import annotations

from typing import Any

from numba import int64, uint8, uint32

from ..jit.compiler import inner
from ..jit.pointers import U, adv, as_f32, as_u8, as_u16, as_u32
from .node_layout import BLOCK_HEADER, CAPACITY, HEADER_WORDS, MAX_EVALUATOR, NO_BLOCK, WIDE


@inner
def header_bytes(A: Any, rec: Any) -> Any:
    """Returns the 8 single bytes of a record's header."""
    return as_u8(adv(A.records, rec + 2))


@inner
def code_bytes(A: Any, rec: Any) -> Any:
    """Returns a record's P codes."""
    return as_u8(adv(A.records, rec + HEADER_WORDS))


@inner
def _spread(run: Any) -> Any:
    """Returns bits 0-15 of a run as the two upper bits of eight bytes."""
    x = U(run) & U(0xFFFF)
    x = (x | (x << U(24))) & U(0x000000FF000000FF)
    x = (x | (x << U(12))) & U(0x000F000F000F000F)
    x = (x | (x << U(6))) & U(0x0303030303030303)
    return x << U(6)


@inner
def _gathered(word: Any) -> Any:
    """Returns what `_spread` put into a word."""
    x = (word >> U(6)) & U(0x0303030303030303)
    x = (x | (x >> U(6))) & U(0x000F000F000F000F)
    x = (x | (x >> U(12))) & U(0x000000FF000000FF)
    return int64((x | (x >> U(24))) & U(0xFFFF))


@inner
def set_source(A: Any, rec: Any, evaluator: Any, run: Any) -> None:
    """Notes where a record comes from; its P codes must be there already, for they share their bytes."""
    hb = header_bytes(A, rec)
    hb[5] = uint8(int64(evaluator) | ((int64(run) >> 16) << 4))
    if hb[0]:
        word = A.records[rec + HEADER_WORDS] & U(0x3F3F3F3F3F3F3F3F)
        A.records[rec + HEADER_WORDS] = word | _spread(run)
    else:
        set_block(A, rec, int64(run) & 0xFFFF)


@inner
def evaluator_of(A: Any, rec: Any) -> Any:
    """Returns the number of a record's evaluator."""
    return int64(header_bytes(A, rec)[5]) & MAX_EVALUATOR


@inner
def run_of(A: Any, rec: Any) -> Any:
    """Returns the number of the run that a record comes from."""
    hb = header_bytes(A, rec)
    low = _gathered(A.records[rec + HEADER_WORDS]) if hb[0] else block_of(A, rec)
    return ((int64(hb[5]) >> 4) << 16) | low


@inner
def move_count(A: Any, rec: Any) -> Any:
    """Returns how many legal moves a record has; 0 for a terminal one."""
    return int64(header_bytes(A, rec)[0])


@inner
def record_words(moves: Any) -> Any:
    """Returns the words of a record of so many moves."""
    return HEADER_WORDS + ((int64(moves) + 7) >> 3)


@inner
def state_of(A: Any, rec: Any) -> Any:
    """Returns the state bits of a record."""
    return int64(header_bytes(A, rec)[3])


@inner
def block_class_of(A: Any, rec: Any) -> Any:
    """Returns the class of a record's block, NO_BLOCK if it has none."""
    return int64(header_bytes(A, rec)[1])


@inner
def block_of(A: Any, rec: Any) -> Any:
    """Returns the word index of a record's block (or its best move while it has none)."""
    return int64(as_u32(adv(A.records, rec + 1))[0])


@inner
def set_block(A: Any, rec: Any, block: Any) -> None:
    """Sets the word index of a record's block."""
    as_u32(adv(A.records, rec + 1))[0] = uint32(block)


@inner
def value_of(A: Any, rec: Any) -> Any:
    """Returns V, float32."""
    return as_f32(adv(A.records, rec + 1))[1]


@inner
def draw_word(A: Any, rec: Any) -> Any:
    """Returns D per mille | flags << 10."""
    return int64(as_u16(adv(A.records, rec + 2))[3])


@inner
def is_exact(A: Any, rec: Any) -> Any:
    """Returns whether a record's bounds leave one result."""
    flags = draw_word(A, rec) >> 10
    return (flags >> 2) & 3 == (flags >> 4) & 3


@inner
def stride_of(block_class: Any) -> Any:
    """Returns the words of one entry in blocks of a class."""
    return int64(4) if block_class >= WIDE else int64(3)


@inner
def stride_at(A: Any, rec: Any) -> Any:
    """Returns the words of one entry of a record's block."""
    return stride_of(block_class_of(A, rec))


@inner
def entry_at(A: Any, rec: Any, j: Any) -> Any:
    """Returns the word index of entry `j` of a record's block."""
    return block_of(A, rec) + BLOCK_HEADER + j * stride_at(A, rec)


@inner
def materialised(A: Any, rec: Any) -> Any:
    """Returns how many edges of a record have an entry."""
    block_class = block_class_of(A, rec)
    if block_class == NO_BLOCK:
        return int64(0)
    return min(A.ints[CAPACITY + block_class], move_count(A, rec))


@inner
def draw_visits(A: Any, x: Any, stride: Any) -> Any:
    """Returns r of the entry at word `x`."""
    return int64(A.blocks[x + 3]) if stride == 4 else int64(0)
