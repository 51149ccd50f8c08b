"""A node record in memory, and in columns: header, P codes, and the block of its visited edges.

Record (uint64 words; a slot is the index of its first word):

    word 0     key
    word 1     low half: word index of the block, or the best move while there is none; high half: V, float32
    word 2     byte 0 moves | 1 block class, 255 none | 2 largest P code beyond the block, 0 none | 3 state
               | 4 clock at evaluation | 5 evaluator (4 bits), run, bits 16-19 | 6-7 D per mille (10 bits; of
               a known mate its plies), flags (6 bits)
    word 3...  P codes, 6 bits of a byte per move in canonical order; the two upper bits of all eight bytes of
               word 3 are bits 0-15 of the run. A record without moves has those in word 1, low half

Free words between records: next free slot | the one before << 32, 0 none; number of words; state FREE.

Block (uint32 words): a header of values computed from the edges (recomputed whenever one changes, never
stored), then edges in descending P, ties in canonical order, always a prefix of that order:

    header  0 1 / sum(code ** 4), float32 | 1 sum of n | 2 node Q, float32 | 3 D per mille, tag of
            `graph/arena_kernel.py`
    edge    0 n | 1 q, float32 | 2 move (16 bits), P code (6), d per mille or proof (10, see below)
            | 3 r, only in classes >= WIDE

Flags: bits 0-1 terminal kind | 2-3 lower bound + 1 | 4-5 upper bound + 1. An accessor for each field follows;
nothing else reads words by number. `A` has the pointers `records`, `blocks`, `values` and `ints` of an arena
(`graph/arena_kernel.py`). A record is identified by its slot, a block or an edge by the index of its first
word:

    rec  -> records  | key | block, V | moves, class, best code, state, clock, source, D, flags | P codes ...
    block = block_of(A, rec)                       edge = edge_at(A, rec, j)
         -> blocks   | norm, sum n, Q, draws | n, q, move + code + draws (, r) | n, q, ...

Then proven results and their encoding in an edge; at the end records as columns, and copies of records.

A node's bounds [L, H] come from the rules, from tablebases, and from its edges: L is the largest lower bound
of a move, H the largest upper bound if every move has been visited. An edge stores the proof of its child,
seen by the side to move at the edge's node, in its draw field d, which otherwise holds the draw share:

    |q| = 1  d 1..500      mate in d plies, this move included, by (q = 1) or against (q = -1) that side
             d 501..1000   won or lost, mate unknown: d - 500 plies until the clock resets or the game ends
    q = 0    d 1001        drawn
             d 1002..1011  at least a draw; the draw share is 100 (d - 1002) per mille
             d 1012..1021  at most a draw; 100 (d - 1012)
    else     d 0..1000     nothing proven; the draw share per mille

A record is therefore complete without its neighbours, and recomputing it changes nothing. A decisive proof
holds for a path only if the mate, or the move that resets the clock, comes before the 50-move rule: clock +
plies <= 100.

A node's code is the draw field of an edge that leads to it; `turned` changes the side, and adds the move's
own ply if the mate is unknown:

    won or lost   1 + plies to the mate, at most 500 | 500 + plies until the clock resets or the game ends
    else          DRAWN, AT_LEAST + step, AT_MOST + step, or the draw share per mille
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import ONE, ZERO, U, adv, prefetch, view
from ..jit.types import Bundle, Items, Pointer, float32, float64, int32, int64, uint8, uint16, uint32, uint64
from ..position.board import BLACK, CHECKMATE, CLOCK_DRAW, DEAD, NOT_TERMINAL, PAWNS, STALEMATE, Position
from ..position.board_kernel import PW, clock_of, from_square, side_to_move, to_square

HEADER_WORDS = 3
BLOCK_AND_V, MISC_WORD = 1, 2  # words of a record; the first is its key
MOVES_BYTE, CLASS_BYTE, BEST_BYTE, STATE_BYTE, CLOCK_BYTE, SOURCE_BYTE = range(6)  # of its word 2
DRAW_HALF = 3  # 16-bit half of word 2: D and flags
MAX_EVALUATOR, MAX_RUN = 15, (1 << 20) - 1  # the largest values of 4 and 20 bits; the run 0 is unknown
BLOCK_HEADER = 4
NORM, BLOCK_VISITS, BLOCK_Q, BLOCK_D = 0, 1, 2, 3
EDGE_N, EDGE_Q, EDGE_MOVE, EDGE_R = 0, 1, 2, 3  # words of an edge in a block
MOVE_BITS, EDGE_CODE_SHIFT, EDGE_DRAW_SHIFT = 0xFFFF, 16, 22  # of its third word
BELOW_DRAWS = (1 << EDGE_DRAW_SHIFT) - 1  # the move and the P code
DRAW_BITS, FLAGS_SHIFT = (1 << 10) - 1, 10  # a draw field; the flags above it in DRAW_HALF

KIND_BITS, BOUND_BITS, LOWER_SHIFT, UPPER_SHIFT = 3, 3, 2, 4  # of flags

# block classes: number of edges; the last one holds every legal move
CAPACITIES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256)
LARGEST_BLOCK = BLOCK_HEADER + 4 * CAPACITIES[-1]  # words, its edges with r
WIDE = 16  # added to the class of a block whose edges carry r
NO_BLOCK = 255
CAPACITY = 0  # index in the `ints` of an arena of the numbers of edges by block class

# state bits: this version is not in the file | no version is in the file | block header out of date
# | being written | visited since the clock hand passed | part of a wave under way | named in the overlay
# | free words instead of a record
# (typed: as a literal, each would compile another variant of its callers)
DIRTY, FRESH, STALE, SAVING, USED, PINNED, HELD, FREE = (int64(1 << bit) for bit in range(8))
CODE = 63  # bits of a P code in its byte, its largest value: round(63 * P ** (1/4)), at least 1


def flags_with(lower: int, upper: int, kind: int = 0) -> int:
    """Returns flags with these bounds, -1, 0 or 1, and a terminal kind.

    >>> flags_with(-1, 1), flags_with(0, 0, kind=2)
    (32, 22)
    """
    return kind | (lower + 1) << LOWER_SHIFT | (upper + 1) << UPPER_SHIFT


TERMINAL_FLAGS = {  # kind -> flags with its exact bounds; mate is lost for the side to move
    NOT_TERMINAL: flags_with(-1, 1),
    CHECKMATE: flags_with(-1, -1, CHECKMATE),
    STALEMATE: flags_with(0, 0, STALEMATE),
    DEAD: flags_with(0, 0, DEAD),
}


CODE_SCALE, HALF = float32(CODE), float32(0.5)


class RecordArena(Protocol):
    """The pointers of an arena that these accessors use; `graph.arena_kernel` has all of them."""

    records: Items[uint64]  # from their keys on
    blocks: Items[uint32]  # of visited edges
    values: Items[float32]  # the same memory
    ints: Items[int64]  # the numbers of edges by block class, then other tables


# ------------------------------------------------------------------ header
@inner
def header_bytes(A: RecordArena, rec: int64) -> Pointer[uint8]:
    """Returns the 8 bytes of a record's third word: `MOVES_BYTE` to `SOURCE_BYTE`, then D and flags."""
    return view(uint8, adv(A.records, rec + MISC_WORD))


@inner
def key_at(A: RecordArena, rec: int64) -> uint64:
    """Returns the key of a record's position."""
    return A.records[rec]


@inner
def move_count(A: RecordArena, rec: int64) -> int64:
    """Returns the number of a record's legal moves; 0 for a terminal one."""
    return int64(header_bytes(A, rec)[MOVES_BYTE])


@inner
def record_words(moves: int64) -> int64:
    """Returns the size of a record with this number of moves, in words."""
    return HEADER_WORDS + ((int64(moves) + 7) >> 3)


@inner
def fill_header(A: RecordArena, rec: int64, key: uint64, moves: int64, state: int64, clock: int64) -> None:
    """Writes the header of a new record: no block, and V, D, flags and source 0."""
    A.records[rec] = key
    A.records[rec + BLOCK_AND_V] = ZERO
    A.records[rec + MISC_WORD] = ZERO
    hb = header_bytes(A, rec)
    hb[MOVES_BYTE] = uint8(moves)
    hb[CLASS_BYTE] = uint8(NO_BLOCK)
    hb[STATE_BYTE] = uint8(state)
    hb[CLOCK_BYTE] = uint8(clock)


@inner
def state_of(A: RecordArena, rec: int64) -> int64:
    """Returns the state bits of a record."""
    return int64(header_bytes(A, rec)[STATE_BYTE])


@inner
def add_state(A: RecordArena, rec: int64, bits: int64) -> None:
    """Sets state bits of a record."""
    header_bytes(A, rec)[STATE_BYTE] |= uint8(bits)


@inner
def clear_state(A: RecordArena, rec: int64, bits: int64) -> None:
    """Clears state bits of a record."""
    header_bytes(A, rec)[STATE_BYTE] &= uint8(255 - bits)


@inner
def clock_at_evaluation(A: RecordArena, rec: int64) -> int64:
    """Returns the halfmove clock with which a record was evaluated."""
    return int64(header_bytes(A, rec)[CLOCK_BYTE])


@inner
def best_code_of(A: RecordArena, rec: int64) -> int64:
    """Returns the largest P code beyond a record's block, 0 if there is none."""
    return int64(header_bytes(A, rec)[BEST_BYTE])


@inner
def value_of(A: RecordArena, rec: int64) -> float32:
    """Returns V, float32."""
    return view(float32, adv(A.records, rec + BLOCK_AND_V))[1]


@inner
def value_draws(A: RecordArena, rec: int64) -> int64:
    """Returns D per mille, or the plies of a known mate."""
    return int64(view(uint16, adv(A.records, rec + MISC_WORD))[DRAW_HALF]) & DRAW_BITS


@inner
def flags_of(A: RecordArena, rec: int64) -> int64:
    """Returns a record's flags: terminal kind and bounds."""
    return int64(view(uint16, adv(A.records, rec + MISC_WORD))[DRAW_HALF]) >> FLAGS_SHIFT


@inner
def set_value(A: RecordArena, rec: int64, v: float32) -> None:
    """Sets V, float32."""
    view(float32, adv(A.records, rec + BLOCK_AND_V))[1] = v


@inner
def set_draws_and_flags(A: RecordArena, rec: int64, draws: int64, flags: int64) -> None:
    """Sets D per mille and the flags."""
    view(uint16, adv(A.records, rec + MISC_WORD))[DRAW_HALF] = uint16(
        int64(draws) | (int64(flags) << FLAGS_SHIFT)
    )


@inner
def lower_in(flags: int64) -> int64:
    """Returns the lower bound of flags: -1, 0 or 1."""
    return ((flags >> LOWER_SHIFT) & BOUND_BITS) - 1


@inner
def upper_in(flags: int64) -> int64:
    """Returns the upper bound of flags: -1, 0 or 1."""
    return ((flags >> UPPER_SHIFT) & BOUND_BITS) - 1


@inner
def with_bounds(flags: int64, lower: int64, upper: int64) -> int64:
    """Returns flags of the same terminal kind with these bounds."""
    return (flags & KIND_BITS) | ((lower + 1) << LOWER_SHIFT) | ((upper + 1) << UPPER_SHIFT)


@inner
def is_exact(A: RecordArena, rec: int64) -> bool:
    """Returns whether a record's bounds leave one result."""
    flags = flags_of(A, rec)
    return lower_in(flags) == upper_in(flags)


# ------------------------------------------------------------------ P codes
@inner
def prior_code(p: float32) -> uint8:
    """Returns the 6-bit code of a prior: `round(63 * p ** (1/4))`, at least 1.

    Single precision throughout lets the processor compute 16 priors at a time.
    """
    return uint8(max(int32(1), int32(CODE_SCALE * np.sqrt(np.sqrt(p)) + HALF)))


@kernel
def fill_prior_codes(priors: NDArray[np.float32], codes: NDArray[np.uint8]) -> None:
    """Fills the P codes of priors."""
    for j in range(len(codes)):
        codes[j] = prior_code(priors[j])


@inner
def code_bytes(A: RecordArena, rec: int64) -> Pointer[uint8]:
    """Returns a record's P codes, in the lower 6 bits (`CODE`) of each byte."""
    return view(uint8, adv(A.records, rec + HEADER_WORDS))


@inner
def code_at(A: RecordArena, rec: int64, j: int64) -> int64:
    """Returns the P code of move `j` in canonical order."""
    return int64(code_bytes(A, rec)[j]) & CODE


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
    hb[SOURCE_BYTE] = uint8(int64(evaluator) | ((int64(session) >> 16) << 4))
    if hb[MOVES_BYTE]:
        word = A.records[rec + HEADER_WORDS] & U(0x3F3F3F3F3F3F3F3F)
        A.records[rec + HEADER_WORDS] = word | _spread(session)
    else:
        set_block(A, rec, int64(session) & 0xFFFF)


@inner
def evaluator_of(A: RecordArena, rec: int64) -> int64:
    """Returns the number of a record's evaluator."""
    return int64(header_bytes(A, rec)[SOURCE_BYTE]) & MAX_EVALUATOR


@inner
def set_by_rule(A: RecordArena, rec: int64) -> None:
    """Sets a record's evaluator to 0: the result comes from the rules."""
    header_bytes(A, rec)[SOURCE_BYTE] &= uint8(255 - MAX_EVALUATOR)


@inner
def session_of(A: RecordArena, rec: int64) -> int64:
    """Returns the number of the session (`run` in the file) that a record comes from."""
    hb = header_bytes(A, rec)
    low = _gathered(A.records[rec + HEADER_WORDS]) if hb[MOVES_BYTE] else block_of(A, rec)
    return ((int64(hb[SOURCE_BYTE]) >> 4) << 16) | low


# ------------------------------------------------------------------ block
@inner
def block_class_of(A: RecordArena, rec: int64) -> int64:
    """Returns the class of a record's block, NO_BLOCK if it has none."""
    return int64(header_bytes(A, rec)[CLASS_BYTE])


@inner
def has_block(A: RecordArena, rec: int64) -> bool:
    """Returns whether a record has a block: whether one of its edges has been visited."""
    return block_class_of(A, rec) != NO_BLOCK


@inner
def block_of(A: RecordArena, rec: int64) -> int64:
    """Returns the word index of a record's block (or its best move while it has none)."""
    return int64(view(uint32, adv(A.records, rec + BLOCK_AND_V))[0])


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
    view(uint32, adv(A.records, rec + BLOCK_AND_V))[0] = uint32(block)


@inner
def set_block_class(A: RecordArena, rec: int64, block_class: int64, best_code: int64) -> None:
    """Sets the class of a record's block, and the largest P code beyond it."""
    hb = header_bytes(A, rec)
    hb[CLASS_BYTE] = uint8(block_class)
    hb[BEST_BYTE] = uint8(best_code)


@inner
def stride_of(block_class: int64) -> int64:
    """Returns the words of one edge in blocks of a class."""
    return int64(4) if block_class >= WIDE else int64(3)


@inner
def stride_at(A: RecordArena, rec: int64) -> int64:
    """Returns the words of one edge of a record's block."""
    return stride_of(block_class_of(A, rec))


@inner
def materialised(A: RecordArena, rec: int64) -> int64:
    """Returns the number of a record's edges in its block."""
    block_class = block_class_of(A, rec)
    if block_class == NO_BLOCK:
        return int64(0)
    return min(A.ints[CAPACITY + block_class], move_count(A, rec))


# ------------------------------------------------------------------ edge
@inner
def edge_at(A: RecordArena, rec: int64, j: int64) -> int64:
    """Returns the word index of edge `j` of a record's block."""
    return block_of(A, rec) + BLOCK_HEADER + j * stride_at(A, rec)


@inner
def edge_visits(A: RecordArena, edge: int64) -> int64:
    """Returns n, the completed visits of an edge."""
    return int64(A.blocks[edge + EDGE_N])


@inner
def set_edge_visits(A: RecordArena, edge: int64, n: int64 | uint32) -> None:
    """Sets n."""
    A.blocks[edge + EDGE_N] = uint32(n)


@inner
def draw_visits(A: RecordArena, edge: int64, stride: int64) -> int64:
    """Returns r, the visits of an edge that ended in a draw of the path; `stride`: of its block."""
    return int64(A.blocks[edge + EDGE_R]) if stride == 4 else int64(0)


@inner
def set_draw_visits(A: RecordArena, edge: int64, r: int64 | uint32) -> None:
    """Sets r of an edge whose block is WIDE."""
    A.blocks[edge + EDGE_R] = uint32(r)


@inner
def edge_q(A: RecordArena, edge: int64) -> float32:
    """Returns q, the value of an edge seen by the side to move here, float32."""
    return A.values[edge + EDGE_Q]


@inner
def edge_draws(A: RecordArena, edge: int64) -> int64:
    """Returns the draw field of an edge: draw share per mille, or its proof."""
    return int64(A.blocks[edge + EDGE_MOVE] >> uint32(EDGE_DRAW_SHIFT))


@inner
def edge_code(A: RecordArena, edge: int64) -> int64:
    """Returns the P code of an edge."""
    return int64((A.blocks[edge + EDGE_MOVE] >> uint32(EDGE_CODE_SHIFT)) & uint32(CODE))


@inner
def edge_move(A: RecordArena, edge: int64) -> uint16:
    """Returns the move of an edge."""
    return uint16(A.blocks[edge + EDGE_MOVE] & uint32(MOVE_BITS))


@inner
def set_edge_value(A: RecordArena, edge: int64, q: float32, draws: int64 | uint16) -> None:
    """Sets q and the draw field of an edge."""
    A.values[edge + EDGE_Q] = q
    word = A.blocks[edge + EDGE_MOVE] & uint32(BELOW_DRAWS)
    A.blocks[edge + EDGE_MOVE] = word | (uint32(draws) << uint32(EDGE_DRAW_SHIFT))


@inner
def new_edge(A: RecordArena, edge: int64, stride: int64, move: uint16, code: int64) -> None:
    """Writes an edge without visits."""
    A.blocks[edge + EDGE_N] = uint32(0)
    A.blocks[edge + EDGE_Q] = uint32(0)
    A.blocks[edge + EDGE_MOVE] = uint32(move) | (uint32(code) << uint32(EDGE_CODE_SHIFT))
    if stride == 4:
        A.blocks[edge + EDGE_R] = uint32(0)


# ------------------------------------------------------------------ proven results
MOST_MATE = 500  # longest mate that an edge can hold, in plies
DRAWN = 1001
AT_LEAST, AT_MOST, STEPS = 1002, 1012, 10
MOST_CODE = AT_MOST + STEPS - 1
STEP = 100  # per mille
AS_GOOD_AS_WON = 0.99  # a less visited move of value 1 does not outrank a move of at least this value

Bounds = tuple[int, int]
UNPROVEN: Bounds = (-1, 1)


@dataclass(frozen=True, slots=True)
class Proof:
    """A proven result.

    Attributes:
      result: 1, 0 or -1 for the side to move.
      mate: plies to the mate; None for a draw, and if the mate is unknown.
      plies: most plies until the clock is reset or the game is over; 0 for a draw.
    """

    result: int
    mate: int | None
    plies: int

    def holds_at(self, clock: int) -> bool:
        """Returns whether the proof holds for a path that reaches the position with this halfmove clock."""
        return self.result == 0 or clock + self.plies <= CLOCK_DRAW

    @property
    def moves(self) -> int | None:
        """Moves to the mate, negative if the side to move is mated; None without a mate of known length."""
        return None if self.mate is None else moves_of(self.result, self.mate)


def moves_of(result: int, plies: int) -> int:
    """Returns the length of a mate in moves, negative if the side to move is mated.

    >>> moves_of(1, 5), moves_of(-1, 4), moves_of(-1, 0)
    (3, -2, 0)
    """
    return (plies + 1) // 2 if result > 0 else -(plies // 2)


@inner
def share_of(q: float32 | float64, d: int64) -> int:
    """Returns the draw share per mille of an edge.

    >>> share_of(0.5, 300), share_of(1.0, 7), share_of(0.0, DRAWN), share_of(0.1, AT_LEAST + 4)
    (300, 0, 1000, 400)
    """
    if d < DRAWN:
        return 0 if d > 0 and (q >= 1.0 or q <= -1.0) else d
    if d == DRAWN:
        return 1000
    return STEP * (d - (AT_LEAST if d < AT_MOST else AT_MOST))


@inner
def bounds_of(q: float32 | float64, d: int64) -> Bounds:
    """Returns (L, H) of an edge, seen by the side to move at the node that holds it.

    >>> bounds_of(1.0, 3), bounds_of(0.0, DRAWN), bounds_of(-0.1, AT_MOST), bounds_of(1.0, 0)
    ((1, 1), (0, 0), (-1, 0), (-1, 1))
    """
    if d < DRAWN:
        return (int(q), int(q)) if d > 0 and (q >= 1.0 or q <= -1.0) else (-1, 1)
    if d == DRAWN:
        return 0, 0
    return (0, 1) if d < AT_MOST else (-1, 0)


def proof_of(q: float, d: int) -> Proof | None:
    """Returns the exact proof of an edge, None if more than one result is possible.

    >>> proof_of(1.0, 5)
    Proof(result=1, mate=5, plies=5)
    >>> proof_of(-1.0, 501), proof_of(0.0, 300)
    (Proof(result=-1, mate=None, plies=1), None)
    """
    lower, upper = bounds_of(q, d)
    if lower != upper:
        return None
    if lower == 0:
        return Proof(0, None, 0)
    return Proof(lower, d, d) if d <= MOST_MATE else Proof(lower, None, d - MOST_MATE)


# ------------------------------------------------------------------ of records in the arena
NO_CODE = 1 << 20

# of edges: L | H | least code of a win, NO_CODE without one | greatest code of a mate suffered, and greatest
# number of plies of another loss, 0 without one
Tally: TypeAlias = tuple[int64, int64, int64, int64, int64]


@inner
def is_special(q: float32 | float64, d: int64) -> bool:
    """Returns whether the value and draw field of an edge encode a proof."""
    return d >= DRAWN or (d > 0 and (q >= 1.0 or q <= -1.0))


@inner
def is_closed(q: float32, d: int64, clock: int64) -> bool:
    """Returns whether an edge's result is proven for a path that reaches its node with this clock."""
    if d >= DRAWN or not is_special(q, d):
        return d == DRAWN
    return clock + (d - MOST_MATE if d > MOST_MATE else d) <= CLOCK_DRAW


@inner
def no_tally() -> Tally:
    """Returns the tally of no edges."""
    return -1, -1, NO_CODE, 0, 0


@inner
def tallied(tally: Tally, valued: int64, q: float32, d: int64) -> Tally:
    """Returns a tally with one more edge; `valued`: the edge's visits that have a value."""
    lower, upper, win, mated, lost = tally
    low, high = -1, 1
    if valued:
        low, high = bounds_of(q, d)
    if low == 1:
        win = min(win, d)
    elif high == -1:
        if d > MOST_MATE:
            lost = max(lost, d - MOST_MATE)
        else:
            mated = max(mated, d)
    return max(lower, low), max(upper, high), win, mated, lost


@inner
def tightened(flags: int64, tally: Tally, covers: bool) -> int64:
    """Returns flags tightened by the bounds of the edges; `covers`: whether every move has an edge."""
    low, high = max(lower_in(flags), tally[0]), min(upper_in(flags), tally[1] if covers else 1)
    return with_bounds(flags, low, high) if low <= high else flags  # a contradiction proves nothing more


@inner
def decisive_plies(won: bool, tally: Tally, covers: bool, clock: int64, known: int64) -> tuple[int64, int64]:
    """Returns the shortest win or the longest loss of a decided node that has moves.

    These are plies to the mate, -1 if unknown, and the most plies until the clock is reset or the game ends.
    Without edges and a mate of the record the proof is a tablebase's, and holds at its clock and below.

    Args:
      covers: whether every move has an edge.
      clock: halfmove clock at which the record was evaluated.
      known: plies of the record's own mate, 0 if it holds none.
    """
    _, _, win, mated, lost = tally
    if won and known:
        win = min(win, known)
    if won and win < NO_CODE:
        return (win, win) if win <= MOST_MATE else (-1, win - MOST_MATE)
    if not won and covers and lost:
        return -1, max(mated, lost)
    if not won and covers and mated:
        mate = min(mated, known) if known else mated  # the edges' mates may be longer than necessary
        return mate, mate
    return (known, known) if known else (-1, CLOCK_DRAW - clock)


@inner
def code_of(mate: int64, plies: int64) -> int64:
    """Returns the code of a won or lost node; the arguments are the results of `decisive_plies`."""
    return mate + 1 if 0 <= mate < MOST_MATE else MOST_MATE + min(plies, MOST_MATE)


@inner
def code_by_edges(
    flags: int64, share: int64, tally: Tally, edges: int64, moves: int64, clock: int64, known: int64
) -> int64:
    """Returns the code of a node.

    Args:
      share: its draw share per mille. tally: of its `edges`. moves: number of legal moves.
      clock, known: as for `decisive_plies`.
    """
    if not is_decisive(flags):
        return open_code(flags, share)
    if moves == 0:
        return int64(1)  # mated now
    mate, plies = decisive_plies(lower_in(flags) == 1, tally, edges == moves, clock, known)
    return code_of(mate, plies)


@inner
def mate_kept(value: float32, draws: int64) -> int64:
    """Returns the plies of the mate that V and D of a record encode, 0 if they encode none."""
    return int64(draws) if value >= 1.0 or value <= -1.0 else int64(0)


@inner
def open_code(flags: int64, share: int64) -> int64:
    """Returns the code of a node that is neither won nor lost."""
    lower, upper = lower_in(flags), upper_in(flags)
    if lower == 0 and upper == 0:
        return int64(DRAWN)
    if lower == 0:
        return AT_LEAST + min(int64(share) // STEP, int64(STEPS - 1))
    if upper == 0:
        return AT_MOST + min(int64(share) // STEP, int64(STEPS - 1))
    return int64(share)


@inner
def is_decisive(flags: int64) -> bool:
    """Returns whether flags prove a win or a loss."""
    return lower_in(flags) == upper_in(flags) != 0


@inner
def turned(q: float32, code: int64, resets: bool) -> int64:
    """Returns the draw field of an edge to a node of this code.

    `q`: of the edge. `resets`: whether its move resets the clock.
    """
    if code >= AT_LEAST:
        return code + STEPS if code < AT_MOST else code - STEPS
    if code == DRAWN or code <= MOST_MATE or not (q >= 1.0 or q <= -1.0):  # 0: nothing is proven
        return code
    return int64(MOST_MATE + 1) if resets else min(code + 1, int64(2 * MOST_MATE))


@inner
def with_proof(q: float32, old: int64, found: float32, field: int64) -> tuple[float32, int64]:
    """Returns the value and draw field that an edge takes; a proof of the edge stays.

    A bound stays even if the child was lost since; two bounds on opposite sides of a draw make a draw.

    Args:
      q, old: value and draw field so far. found, field: the new ones.
    """
    if not is_special(q, old):
        return found, field
    if not (is_special(found, field) and field <= DRAWN):
        if old <= DRAWN:
            return q, old
        base = AT_LEAST if old < AT_MOST else AT_MOST
        if field < AT_LEAST:
            field = base + min(int64(field) // STEP, int64(STEPS - 1))
        elif (field < AT_MOST) != (old < AT_MOST):
            field = int64(DRAWN)
    low, high = bounds_of(found, field)
    return min(max(found, float32(low)), float32(high)), field


@inner
def taken(q: float32, old: int64, found: float32, code: int64, resets: bool) -> tuple[float32, int64]:
    """Returns the value and draw field of an edge that takes its child's value.

    Args:
      q, old: value and draw field so far. found: the child's value, seen from this side. code: of the child.
      resets: whether the edge's move resets the clock.
    """
    return with_proof(q, old, found, turned(found, code, resets))


@inner
def tally_of(A: RecordArena, rec: int64) -> tuple[Tally, bool]:
    """Returns the tally of a record's edges, and whether every move has an edge."""
    tally = no_tally()
    if not has_block(A, rec):
        return tally, False
    m = materialised(A, rec)
    stride = stride_at(A, rec)
    edge = edge_at(A, rec, int64(0))
    for _ in range(m):
        valued = edge_visits(A, edge) - draw_visits(A, edge, stride)
        tally = tallied(tally, valued, edge_q(A, edge), edge_draws(A, edge))
        edge += stride
    return tally, m == move_count(A, rec)


@inner
def tighten(A: RecordArena, rec: int64) -> None:
    """Tightens a record's bounds to those that its edges prove."""
    tally, covers = tally_of(A, rec)
    flags = tightened(flags_of(A, rec), tally, covers)
    set_draws_and_flags(A, rec, value_draws(A, rec), flags)


@inner
def node_code(A: RecordArena, rec: int64, share: int64) -> int64:
    """Returns the code of a record; `share`: its draw share per mille."""
    flags = flags_of(A, rec)
    if not is_decisive(flags):
        return open_code(flags, share)
    known = mate_kept(value_of(A, rec), value_draws(A, rec))
    edges, moves, clock = materialised(A, rec), move_count(A, rec), clock_at_evaluation(A, rec)
    return code_by_edges(flags, share, tally_of(A, rec)[0], edges, moves, clock, known)


@inner
def holds_here(A: RecordArena, edge: int64, s: Position) -> bool:
    """Returns whether the result of a visited edge is proven at the position `s` of its node.

    After a move that resets the clock, a mate may take a hundred plies.
    """
    q, d, clock = edge_q(A, edge), edge_draws(A, edge), clock_of(s)
    if is_closed(q, d, clock):
        return True
    if d <= 1 or d > CLOCK_DRAW or not (q >= 1.0 or q <= -1.0) or clock >= CLOCK_DRAW:
        return False
    move = edge_move(A, edge)
    moves_pawn, takes = s[PAWNS] >> U(from_square(move)), s[BLACK - side_to_move(s)] >> U(to_square(move))
    return (moves_pawn | takes) & ONE != ZERO


@inner
def _edges_settle(A: RecordArena, rec: int64, s: Position, won: bool) -> bool:
    """Returns whether edges prove a win (one suffices) or a loss (it takes every move) at a position."""
    if not has_block(A, rec):
        return False
    m = materialised(A, rec)
    stride = stride_at(A, rec)
    edge = edge_at(A, rec, int64(0))
    for _ in range(m):
        valued = edge_visits(A, edge) - draw_visits(A, edge, stride)
        decisive = valued > 0 and (edge_q(A, edge) >= 1.0) == won and holds_here(A, edge, s)
        decisive &= edge_draws(A, edge) != DRAWN
        if decisive == won:
            return won
        edge += stride
    return not won and m == move_count(A, rec)


@inner
def is_settled(A: RecordArena, rec: int64, s: Position) -> bool:
    """Returns whether a record's result is proven for a path that reaches it as position `s`."""
    if not is_exact(A, rec):
        return False
    flags = flags_of(A, rec)
    if not is_decisive(flags):
        return True
    code = node_code(A, rec, int64(0))
    if clock_of(s) + (code - MOST_MATE if code > MOST_MATE else code - 1) <= CLOCK_DRAW:
        return True
    return _edges_settle(A, rec, s, lower_in(flags) == 1)


@inner
def is_decided(A: RecordArena, rec: int64, s: Position) -> bool:
    """Returns whether edges prove a record's result at a position, so that a best move is known."""
    flags = flags_of(A, rec)
    if move_count(A, rec) == 0 or not is_settled(A, rec, s):
        return False
    tally, covers = tally_of(A, rec)
    result = lower_in(flags)
    if result == -1:
        known = mate_kept(value_of(A, rec), value_draws(A, rec))
        return (covers and tally[1] == -1) or (known > 0 and tally[3] == known)
    return tally[0] == result


def code_of_proof(proof: Proof, *, resets: bool) -> int:
    """Returns the `d` of an edge to a node with a proven result.

    Args:
      resets: whether the move resets the clock.

    >>> code_of_proof(Proof(-1, 4, 4), resets=False), code_of_proof(Proof(1, None, 100), resets=True)
    (5, 501)
    """
    if proof.result == 0:
        return DRAWN
    code = code_of(-1 if proof.mate is None else proof.mate, proof.plies)
    return int(turned(float(proof.result), code, resets))


# ------------------------------------------------------------------ columns
class Columns(Bundle):
    """Many records as columns; a caller keeps the arrays alive.

    Attributes:
      packed: `[10 R]` uint64 packed positions, Polyglot key in the last word of each.
      v: `[R]` float32. d: `[R]` uint16 per mille. evaluator: `[R]` uint8. run: `[R]` uint32.
      flags: `[R]` uint8.
      code_offsets: `[R + 1]` int64; codes: `[sum of moves]` uint8, canonical order.
      edge_offsets: `[R + 1]` int64; n, r: `[sum of edges]` uint32; q: float32; edge_d: uint16;
        edge k of a record is the k-th in descending P, ties in canonical order.
    """

    packed: Items[uint64]
    v: Items[float32]
    d: Items[uint16]
    evaluator: Items[uint8]
    run: Items[uint32]
    flags: Items[uint8]
    code_offsets: Items[int64]
    codes: Items[uint8]
    edge_offsets: Items[int64]
    n: Items[uint32]
    r: Items[uint32]
    q: Items[float32]
    edge_d: Items[uint16]
    v_size: int64


@inner
def copy_edge(c: Columns, at: int64, a: Columns, e: int64) -> None:
    """Copies an edge to place `at`."""
    c.n[at], c.r[at], c.q[at], c.edge_d[at] = a.n[e], a.r[e], a.q[e], a.edge_d[e]


@inner
def copy_evaluation(c: Columns, k: int64, a: Columns, i: int64) -> None:
    """Copies a record without its edges to place `k`."""
    for w in range(PW):
        c.packed[PW * k + w] = a.packed[PW * i + w]
    c.v[k], c.d[k], c.evaluator[k] = a.v[i], a.d[i], a.evaluator[i]
    c.run[k], c.flags[k] = a.run[i], a.flags[i]
    to = c.code_offsets[k]
    for j in range(a.code_offsets[i], a.code_offsets[i + 1]):
        c.codes[to] = a.codes[j]
        to += 1
    c.code_offsets[k + 1] = to


@inner
def copy_whole(c: Columns, k: int64, a: Columns, i: int64) -> None:
    """Copies a record to place `k`."""
    copy_evaluation(c, k, a, i)
    to = c.edge_offsets[k]
    for e in range(a.edge_offsets[i], a.edge_offsets[i + 1]):
        copy_edge(c, to, a, e)
        to += 1
    c.edge_offsets[k + 1] = to


@kernel
def gather(source: Columns, order: NDArray[np.int64], out: Columns) -> None:
    """Copies records `order` of `source` to `out`, which has room for them; fills its offsets, too."""
    for k in range(len(order)):
        copy_whole(out, int64(k), source, order[k])
