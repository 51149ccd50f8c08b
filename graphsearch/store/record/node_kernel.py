"""Named access to the fields of a node record in memory: each is a load or a store.

The layout is in `node_layout.py`. `A` has the pointers `records`, `blocks`, `values` and `ints` of an arena
(`graph/arena_kernel.py`). A record is identified by its slot, a block or an edge by the index of its first
word:

    rec  -> records  | key | block, V | moves, class, best code, state, clock, source, D, flags | P codes ...
    block = block_of(A, rec)                       edge = edge_at(A, rec, j)
         -> blocks   | norm, sum n, Q, draws | n, q, move + code + draws (, r) | n, q, ...
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ...jit.compiler import inner
from ...jit.pointers import ZERO, U, adv, as_f32, as_u8, as_u16, as_u32, prefetch
from ...jit.types import Pointer, float32, int32, int64, uint8, uint16, uint32, uint64
from . import node_layout as layout

CODE_SCALE, HALF = float32(layout.CODE), float32(0.5)


class RecordArena(Protocol):
    """The pointers of an arena that these accessors use; `graph.arena_kernel` has all of them."""

    @property
    def records(self) -> Pointer[uint64]:
        """Records, from `node_layout.py`'s KEY on."""

    @property
    def blocks(self) -> Pointer[uint32]:
        """Blocks of visited edges."""

    @property
    def values(self) -> Pointer[float32]:
        """The same memory as `blocks`."""

    @property
    def ints(self) -> Pointer[int64]:
        """The numbers of edges by block class, then other tables."""


# ------------------------------------------------------------------ header
@inner
def header_bytes(A: RecordArena, rec: int64) -> Pointer[uint8]:
    """Returns the 8 bytes of a record's third word: `MOVES_BYTE` to `SOURCE_BYTE`, then D and flags."""
    return as_u8(adv(A.records, rec + layout.MISC_WORD))


@inner
def key_at(A: RecordArena, rec: int64) -> uint64:
    """Returns the key of a record's position."""
    return A.records[rec]


@inner
def move_count(A: RecordArena, rec: int64) -> int64:
    """Returns the number of legal moves of a record; 0 for a terminal one."""
    return int64(header_bytes(A, rec)[layout.MOVES_BYTE])


@inner
def record_words(moves: int64) -> int64:
    """Returns the size of a record with this number of moves, in words."""
    return layout.HEADER_WORDS + ((int64(moves) + 7) >> 3)


@inner
def fill_header(A: RecordArena, rec: int64, key: uint64, moves: int64, state: int64, clock: int64) -> None:
    """Writes the header of a new record: no block, and V, D, flags and source 0."""
    A.records[rec] = key
    A.records[rec + layout.BLOCK_AND_V] = ZERO
    A.records[rec + layout.MISC_WORD] = ZERO
    hb = header_bytes(A, rec)
    hb[layout.MOVES_BYTE] = uint8(moves)
    hb[layout.CLASS_BYTE] = uint8(layout.NO_BLOCK)
    hb[layout.STATE_BYTE] = uint8(state)
    hb[layout.CLOCK_BYTE] = uint8(clock)


@inner
def state_of(A: RecordArena, rec: int64) -> int64:
    """Returns the state bits of a record."""
    return int64(header_bytes(A, rec)[layout.STATE_BYTE])


@inner
def add_state(A: RecordArena, rec: int64, bits: int64) -> None:
    """Sets state bits of a record."""
    header_bytes(A, rec)[layout.STATE_BYTE] |= uint8(bits)


@inner
def clear_state(A: RecordArena, rec: int64, bits: int64) -> None:
    """Clears state bits of a record."""
    header_bytes(A, rec)[layout.STATE_BYTE] &= uint8(255 - bits)


@inner
def clock_at_evaluation(A: RecordArena, rec: int64) -> int64:
    """Returns the halfmove clock with which a record was evaluated."""
    return int64(header_bytes(A, rec)[layout.CLOCK_BYTE])


@inner
def best_code_of(A: RecordArena, rec: int64) -> int64:
    """Returns the largest P code beyond a record's block, 0 if there is none."""
    return int64(header_bytes(A, rec)[layout.BEST_BYTE])


@inner
def value_of(A: RecordArena, rec: int64) -> float32:
    """Returns V, float32."""
    return as_f32(adv(A.records, rec + layout.BLOCK_AND_V))[1]


@inner
def value_draws(A: RecordArena, rec: int64) -> int64:
    """Returns D per mille, or the plies of a known mate."""
    return _draw_word(A, rec) & layout.DRAW_BITS


@inner
def flags_of(A: RecordArena, rec: int64) -> int64:
    """Returns a record's flags: terminal kind and bounds."""
    return _draw_word(A, rec) >> layout.FLAGS_SHIFT


@inner
def _draw_word(A: RecordArena, rec: int64) -> int64:
    return int64(as_u16(adv(A.records, rec + layout.MISC_WORD))[layout.DRAW_HALF])


@inner
def set_value(A: RecordArena, rec: int64, v: float32) -> None:
    """Sets V, float32."""
    as_f32(adv(A.records, rec + layout.BLOCK_AND_V))[1] = v


@inner
def set_draws_and_flags(A: RecordArena, rec: int64, draws: int64, flags: int64) -> None:
    """Sets D per mille and the flags."""
    as_u16(adv(A.records, rec + layout.MISC_WORD))[layout.DRAW_HALF] = uint16(
        int64(draws) | (int64(flags) << layout.FLAGS_SHIFT)
    )


@inner
def lower_in(flags: int64) -> int64:
    """Returns the lower bound of flags: -1, 0 or 1."""
    return ((flags >> layout.LOWER_SHIFT) & layout.BOUND_BITS) - 1


@inner
def upper_in(flags: int64) -> int64:
    """Returns the upper bound of flags: -1, 0 or 1."""
    return ((flags >> layout.UPPER_SHIFT) & layout.BOUND_BITS) - 1


@inner
def is_exact(A: RecordArena, rec: int64) -> bool:
    """Returns whether a record's bounds leave one result."""
    flags = flags_of(A, rec)
    return lower_in(flags) == upper_in(flags)


# ------------------------------------------------------------------ P codes
@inner
def prior_code(p: float32) -> uint8:
    """Returns the 6-bit code of a prior, as `store.record.node.prior_codes` does for arrays.

    Single precision throughout lets the processor compute 16 priors at a time.
    """
    return uint8(max(int32(1), int32(CODE_SCALE * np.sqrt(np.sqrt(p)) + HALF)))


@inner
def code_bytes(A: RecordArena, rec: int64) -> Pointer[uint8]:
    """Returns a record's P codes, in the lower 6 bits (`CODE`) of each byte."""
    return as_u8(adv(A.records, rec + layout.HEADER_WORDS))


@inner
def code_at(A: RecordArena, rec: int64, j: int64) -> int64:
    """Returns the P code of move `j` in canonical order."""
    return int64(code_bytes(A, rec)[j]) & layout.CODE


# ------------------------------------------------------------------ source
@inner
def _spread(session: int64 | uint32) -> uint64:
    """Returns bits 0-15 of a session as the two upper bits of eight bytes."""
    x = U(session) & U(0xFFFF)
    x = (x | (x << U(24))) & U(0x000000FF000000FF)
    x = (x | (x << U(12))) & U(0x000F000F000F000F)
    x = (x | (x << U(6))) & U(0x0303030303030303)
    return x << U(6)


@inner
def _gathered(word: uint64) -> int64:
    """Undoes `_spread`."""
    x = (word >> U(6)) & U(0x0303030303030303)
    x = (x | (x >> U(6))) & U(0x000F000F000F000F)
    x = (x | (x >> U(12))) & U(0x000000FF000000FF)
    return int64((x | (x >> U(24))) & U(0xFFFF))


@inner
def set_source(A: RecordArena, rec: int64, evaluator: int64 | uint8, session: int64 | uint32) -> None:
    """Sets a record's evaluator and session. Write its P codes first: the session shares their bytes."""
    hb = header_bytes(A, rec)
    hb[layout.SOURCE_BYTE] = uint8(int64(evaluator) | ((int64(session) >> 16) << 4))
    if hb[layout.MOVES_BYTE]:
        word = A.records[rec + layout.HEADER_WORDS] & U(0x3F3F3F3F3F3F3F3F)
        A.records[rec + layout.HEADER_WORDS] = word | _spread(session)
    else:
        set_block(A, rec, int64(session) & 0xFFFF)


@inner
def evaluator_of(A: RecordArena, rec: int64) -> int64:
    """Returns the number of a record's evaluator."""
    return int64(header_bytes(A, rec)[layout.SOURCE_BYTE]) & layout.MAX_EVALUATOR


@inner
def set_by_rule(A: RecordArena, rec: int64) -> None:
    """Sets a record's evaluator to 0: the result comes from the rules."""
    header_bytes(A, rec)[layout.SOURCE_BYTE] &= uint8(255 - layout.MAX_EVALUATOR)


@inner
def session_of(A: RecordArena, rec: int64) -> int64:
    """Returns the number of the session (`run` in the file) that a record comes from."""
    hb = header_bytes(A, rec)
    low = _gathered(A.records[rec + layout.HEADER_WORDS]) if hb[layout.MOVES_BYTE] else block_of(A, rec)
    return ((int64(hb[layout.SOURCE_BYTE]) >> 4) << 16) | low


# ------------------------------------------------------------------ block
@inner
def block_class_of(A: RecordArena, rec: int64) -> int64:
    """Returns the class of a record's block, NO_BLOCK if it has none."""
    return int64(header_bytes(A, rec)[layout.CLASS_BYTE])


@inner
def has_block(A: RecordArena, rec: int64) -> bool:
    """Returns whether a record has a block: whether one of its edges has been visited."""
    return block_class_of(A, rec) != layout.NO_BLOCK


@inner
def block_of(A: RecordArena, rec: int64) -> int64:
    """Returns the word index of a record's block (or its best move while it has none)."""
    return int64(as_u32(adv(A.records, rec + layout.BLOCK_AND_V))[0])


@inner
def prefetch_block(A: RecordArena, rec: int64) -> None:
    """Prefetches the first edges of a record's block, if it has one; slot 0 is no record."""
    if rec and has_block(A, rec):
        block = block_of(A, rec)
        prefetch(A.blocks, block)
        prefetch(A.blocks, block + 16)


@inner
def set_block(A: RecordArena, rec: int64, block: int64) -> None:
    """Sets the word index of a record's block."""
    as_u32(adv(A.records, rec + layout.BLOCK_AND_V))[0] = uint32(block)


@inner
def set_block_class(A: RecordArena, rec: int64, block_class: int64, best_code: int64) -> None:
    """Sets the class of a record's block, and the largest P code beyond it."""
    hb = header_bytes(A, rec)
    hb[layout.CLASS_BYTE] = uint8(block_class)
    hb[layout.BEST_BYTE] = uint8(best_code)


@inner
def stride_of(block_class: int64) -> int64:
    """Returns the words of one edge in blocks of a class."""
    return int64(4) if block_class >= layout.WIDE else int64(3)


@inner
def stride_at(A: RecordArena, rec: int64) -> int64:
    """Returns the words of one edge of a record's block."""
    return stride_of(block_class_of(A, rec))


@inner
def materialised(A: RecordArena, rec: int64) -> int64:
    """Returns the number of a record's edges in its block."""
    block_class = block_class_of(A, rec)
    if block_class == layout.NO_BLOCK:
        return int64(0)
    return min(A.ints[layout.CAPACITY + block_class], move_count(A, rec))


# ------------------------------------------------------------------ edge
@inner
def edge_at(A: RecordArena, rec: int64, j: int64) -> int64:
    """Returns the word index of edge `j` of a record's block."""
    return block_of(A, rec) + layout.BLOCK_HEADER + j * stride_at(A, rec)


@inner
def edge_visits(A: RecordArena, edge: int64) -> int64:
    """Returns n, the completed visits of an edge."""
    return int64(A.blocks[edge + layout.EDGE_N])


@inner
def set_edge_visits(A: RecordArena, edge: int64, n: int64 | uint32) -> None:
    """Sets n."""
    A.blocks[edge + layout.EDGE_N] = uint32(n)


@inner
def draw_visits(A: RecordArena, edge: int64, stride: int64) -> int64:
    """Returns r, the visits of an edge that ended in a draw of the path; `stride`: of its block."""
    return int64(A.blocks[edge + layout.EDGE_R]) if stride == 4 else int64(0)


@inner
def set_draw_visits(A: RecordArena, edge: int64, r: int64 | uint32) -> None:
    """Sets r of an edge whose block is WIDE."""
    A.blocks[edge + layout.EDGE_R] = uint32(r)


@inner
def edge_q(A: RecordArena, edge: int64) -> float32:
    """Returns q, the value of an edge seen by the side to move here, float32."""
    return A.values[edge + layout.EDGE_Q]


@inner
def edge_draws(A: RecordArena, edge: int64) -> int64:
    """Returns the draw field of an edge: draw share per mille, or its proof (`bounds_kernel.py`)."""
    return int64(A.blocks[edge + layout.EDGE_MOVE] >> uint32(layout.EDGE_DRAW_SHIFT))


@inner
def edge_code(A: RecordArena, edge: int64) -> int64:
    """Returns the P code of an edge."""
    return int64((A.blocks[edge + layout.EDGE_MOVE] >> uint32(layout.EDGE_CODE_SHIFT)) & uint32(layout.CODE))


@inner
def edge_move(A: RecordArena, edge: int64) -> uint16:
    """Returns the move of an edge."""
    return uint16(A.blocks[edge + layout.EDGE_MOVE] & uint32(layout.MOVE_BITS))


@inner
def set_edge_value(A: RecordArena, edge: int64, q: float32, draws: int64 | uint16) -> None:
    """Sets q and the draw field of an edge."""
    A.values[edge + layout.EDGE_Q] = q
    word = A.blocks[edge + layout.EDGE_MOVE] & uint32(layout.BELOW_DRAWS)
    A.blocks[edge + layout.EDGE_MOVE] = word | (uint32(draws) << uint32(layout.EDGE_DRAW_SHIFT))


@inner
def new_edge(A: RecordArena, edge: int64, stride: int64, move: uint16, code: int64) -> None:
    """Writes an edge without visits."""
    A.blocks[edge + layout.EDGE_N] = uint32(0)
    A.blocks[edge + layout.EDGE_Q] = uint32(0)
    A.blocks[edge + layout.EDGE_MOVE] = uint32(move) | (uint32(code) << uint32(layout.EDGE_CODE_SHIFT))
    if stride == 4:
        A.blocks[edge + layout.EDGE_R] = uint32(0)
