"""Messages between shards: rows of 64-bit words, behind a header. `schema/cluster.md` is the reference.

    down, 8 words and the trail       0  number of the first visit | visits asked << 32
    a visit that goes on to           1  stub: the sender's entry  | visits of the edge << 32
    another shard's position          2  META of the position | positions of the trail << 40
                                      3-6  men: squares of Black's | bit 0, 1, 2 of 1 + kind of each
                                      7  KEY
                                      8...  the positions before, the latest first: KEY of each, as far as
                                            one may be repeated; for evaluators that look at lines KEY, META
                                            and men of all

    up, 3 words                       0  stub | visits done << 32
    the result of a visit             1  Q, float32 | draw share << 32 | code << 42 | flags << 52
                                      2  N of the child | visits that the graph does not keep << 32

An arrival is an entry of the wave like any other. Its ancestors are ghosts: entries for the positions of its
trail. The latest ghost also holds the destination of the answer.

    ghost <- ghost <- ghost <- arrival        of each: a position of the trail
                      EDGE: sender | NODE_OR_LEAF: stub | ASKED: visits of the edge | DONE: not kept

Ghosts are stored behind the room for entries, in the same array: they are not entries of the wave, only
ancestors of some. Arrivals are listed by depth in `heads` here, all other entries in `heads` of the wave.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...graph.arena_kernel import ArenaPointers
from ...jit.compiler import inlined, inner
from ...jit.pointers import LOW32, U, adv, as_f32, as_i64, ptr
from ...jit.types import Pointer, float32, int64, uint64
from ...position.board_kernel import clock_of, position_key
from ...position.words import (
    BISHOPS,
    BLACK,
    KEY,
    KINGS,
    KNIGHTS,
    META,
    PAWNS,
    QUEENS,
    ROOKS,
    WHITE,
    BoardTable,
    Position,
)
from ...store.sharded.ownership import MIXER, VIRTUAL_BITS
from .. import wave_kernel as wave
from ..backup_kernel import child_summary
from ..wave_kernel import WavePointers, field, set_field, words_of

HEADER_WORDS = 8
DOWN_WORDS, UP_WORDS = 8, 3  # of a row; a trail follows
MEN, ROW_KEY = 3, 7  # of a row down
KEY_ONLY, WHOLE = 1, 6  # words of a position of a trail
TRAIL_SHIFT = 40  # above META, which has META_BITS
SENDER, STUB, SPENT, UNKEPT = wave.EDGE, wave.NODE_OR_LEAF, wave.ASKED, wave.DONE  # of the latest ghost
ANSWER, KNOWN = 0, 1  # words of a stub that has its answer
SHARE_SHIFT, CODE_SHIFT, FLAGS_SHIFT = 32, 42, 52
TEN_BITS, SIX_BITS = U(1023), U(63)
STEP_BITS = 32
STEP_MASK = (1 << STEP_BITS) - 1

# words of a header, int64: step | words behind it << 32, entries and stubs of the next level, candidates,
# leaves, entries that ended with visits to count, shards without room, a key or a number for all, positions
H_STEP, H_MORE, H_CANDIDATES, H_LEAVES, H_ENDED, H_FULL, H_WORD, H_NODES = range(HEADER_WORDS)

# `counts`. Fixed: this shard | number of shards | leader | words of a position of a trail | tries to receive
# before a kernel returns
# Set by Python: words of `out` and of `inbox` for each shard | visits of the round | its first entry |
# whether only visits without an evaluation go up | candidates to admit: from, to, whether the batch is open |
# keys of candidates for the leader | a number for all | positions of this shard | leaves that may be
# evaluated while waiting for others | room for entries, ghosts included
# Set by kernels: return code | words wanted for a message | the lost shard | next stage | step | level |
# its entries | whether the level was looked up as a whole | first entry below it | next ghost | entries
# below it that go to others | entries and stubs below it
(
    OWN,
    SHARDS,
    LEADER,
    TRAIL,
    TRIES,
    OUT_ROOM,
    IN_ROOM,
    BUDGET,
    FIRST,
    SETTLES,
    BEGIN,
    END,
    IS_OPEN,
    KEYS,
    WORD,
    NODES,
    READY,
    PLACES,
    CODE,
    WANTED,
    PEER,
    STAGE,
    STEP,
    LEVEL,
    ORDERED,
    PROBED,
    FIRST_CHILD,
    GHOSTS,
    ROWS,
    MORE,
) = range(30)
TOTALS = 32  # sums of the headers of the last messages; H_STEP: shards that are at this step
COUNTS = TOTALS + HEADER_WORDS

# why a kernel returned: it is through | it waits for another shard | a message does not fit in `out` | or in
# `inbox` | a connection is closed | a message is of another step | it needs room for ghosts | records from
# the file | room for notes on draws by the game's history
THROUGH, WAITS, OUT_IS_SMALL, INBOX_IS_SMALL, IS_CLOSED, OUT_OF_STEP, NO_GHOSTS, NO_RECORDS, NO_NOTES = range(
    9
)

# next stage: make entries of a level's arrivals | look its entries up | pass them on | write messages |
# exchange them | read answers | apply a level to the edges above it
ARRIVES, LOOKS_UP, PASSES, WRITES, EXCHANGES, READS, APPLIES = range(7)

# `tallies`: steps | messages to others | bytes of them | entries and visits that were passed on, one for each
# level | rows sent down | nanoseconds waited | time when the messages of the step were written | nanoseconds
# of evaluations meanwhile, which the two before exclude
T_STEPS, T_MESSAGES, T_BYTES, T_ENTRIES, T_VISITS, T_ROWS, T_WAITED, T_BEGAN, T_EVALUATED = range(9)
TALLIES = T_EVALUATED + 1


class ShardArrays(NamedTuple):
    """A shard's arrays other than its arena and its wave; E entries, K shards."""

    owners: NDArray[np.int64]  # [4096]: the shard of each virtual shard
    root: NDArray[np.uint64]  # [10]: the root's position
    order: NDArray[np.int64]  # [E]: entries of the level at hand, in the order of their visits
    spare: NDArray[np.int64]  # [E]: scratch for that order
    candidates: NDArray[np.int64]  # [E]: entries that wait to become leaves, by `WaveArrays.candidates`
    sizes: NDArray[np.int64]  # [K]: words that go to each shard, without header
    places: NDArray[np.int64]  # [K]: place in `out` of the next row for each shard
    heads: NDArray[np.int64]  # [MAX_PLIES + 2] last arrival of each depth, -1 for none
    connections: NDArray[np.int64]  # [K * CONNECTION_FIELDS]: sockets, progress of messages
    system: NDArray[np.int64]  # addresses of functions of the system (`connections_kernel.py`)
    inbox: NDArray[np.uint64]  # [K * IN_ROOM]: a message from each shard
    out: NDArray[np.uint64]  # [K * OUT_ROOM]: a message to each shard
    tallies: NDArray[np.int64]  # [TALLIES]
    counts: NDArray[np.int64]  # [COUNTS]


class ShardPointers(NamedTuple):
    """Pointers to the arrays, in the same order."""

    owners: Pointer[int64]
    root: Position
    order: Pointer[int64]
    spare: Pointer[int64]
    candidates: Pointer[int64]
    sizes: Pointer[int64]
    places: Pointer[int64]
    heads: Pointer[int64]
    connections: Pointer[int64]
    system: Pointer[int64]
    inbox: Pointer[uint64]
    out: Pointer[uint64]
    tallies: Pointer[int64]
    counts: Pointer[int64]


@inner
def shard_pointers(X: ShardArrays) -> ShardPointers:
    """Returns the pointer bundle of a shard's arrays."""
    return ShardPointers(
        ptr(X.owners, 0),
        ptr(X.root, 0),
        ptr(X.order, 0),
        ptr(X.spare, 0),
        ptr(X.candidates, 0),
        ptr(X.sizes, 0),
        ptr(X.places, 0),
        ptr(X.heads, 0),
        ptr(X.connections, 0),
        ptr(X.system, 0),
        ptr(X.inbox, 0),
        ptr(X.out, 0),
        ptr(X.tallies, 0),
        ptr(X.counts, 0),
    )


# ------------------------------------------------------------------ owners
@inlined
def owner_of(T: BoardTable, X: ShardPointers, s: Position) -> int64:
    """Returns the shard that owns a position."""
    return X.owners[int64((position_key(T, s) * U(MIXER)) >> U(64 - VIRTUAL_BITS))]


@inlined
def pair(low: int64, high: int64) -> uint64:
    """Returns a word of two numbers of 32 bits."""
    return (U(low) & LOW32) | (U(high) << U(32))


@inlined
def low_of(word: uint64) -> int64:
    """Returns the lower number of a word."""
    return int64(word & LOW32)


@inlined
def high_of(word: uint64) -> int64:
    """Returns the upper number of a word."""
    return int64(word >> U(32))


# ------------------------------------------------------------------ positions
@inner
def pack_men(s: Position, out: Pointer[uint64]) -> None:
    """Writes the men of a position as four bitboards: Black's, and the bits of 1 + kind."""
    out[0] = s[BLACK]
    out[1] = s[PAWNS] | s[BISHOPS] | s[QUEENS]
    out[2] = s[KNIGHTS] | s[BISHOPS] | s[KINGS]
    out[3] = s[ROOKS] | s[QUEENS] | s[KINGS]


@inner
def unpack_men(packed: Pointer[uint64], s: Position) -> None:
    """Writes the eight bitboards of a position from `pack_men`."""
    ones, twos, fours = packed[1], packed[2], packed[3]
    s[PAWNS] = ones & ~(twos | fours)
    s[KNIGHTS] = twos & ~(ones | fours)
    s[BISHOPS] = ones & twos
    s[ROOKS] = fours & ~(ones | twos)
    s[QUEENS] = ones & fours
    s[KINGS] = twos & fours
    s[WHITE] = (ones | twos | fours) & ~packed[0]
    s[BLACK] = packed[0]


# ------------------------------------------------------------------ down
@inlined
def trail_length(W: WavePointers, X: ShardPointers, e: int64) -> int64:
    """Returns the length of a stub's trail: all of its path, or the positions that may still be repeated."""
    depth = field(W, e, wave.DEPTH)
    return depth if X.counts[TRAIL] == WHOLE else min(clock_of(words_of(W, e)), depth)


@inlined
def row_words(W: WavePointers, X: ShardPointers, e: int64) -> int64:
    """Returns the words of a stub's row."""
    return DOWN_WORDS + X.counts[TRAIL] * trail_length(W, X, e)


@inner
def write_row(W: WavePointers, X: ShardPointers, e: int64, spent: int64, out: Pointer[uint64]) -> int64:
    """Writes the row of a stub; returns its words."""
    s = words_of(W, e)
    length, step = trail_length(W, X, e), X.counts[TRAIL]
    out[0] = pair(W.shares[e], field(W, e, wave.ASKED))
    out[1] = pair(e, min(spent, int64(LOW32)))
    out[2] = s[META] | (U(length) << U(TRAIL_SHIFT))
    pack_men(s, adv(out, MEN))
    out[ROW_KEY] = s[KEY]
    a = int64(e)
    at = adv(out, DOWN_WORDS)
    for _ in range(length):
        a = field(W, a, wave.PARENT)
        at[0] = words_of(W, a)[KEY]
        if step == WHOLE:
            at[1] = words_of(W, a)[META]
            pack_men(words_of(W, a), adv(at, 2))
        at = adv(at, step)
    return DOWN_WORDS + step * length


@inlined
def trail_of(row: Pointer[uint64]) -> int64:
    """Returns the number of positions in a row's trail."""
    return int64(row[2] >> U(TRAIL_SHIFT))


# ------------------------------------------------------------------ messages
@inner
def clear_sizes(X: ShardPointers) -> None:
    """Sets all message sizes to 0."""
    for shard in range(X.counts[SHARDS]):
        X.sizes[shard] = 0


@inner
def largest_size(X: ShardPointers) -> int64:
    """Returns the largest message size in words."""
    largest = int64(0)
    for shard in range(X.counts[SHARDS]):
        largest = max(largest, X.sizes[shard])
    return largest


@inner
def write_header(W: WavePointers, X: ShardPointers, shard: int64, full: int64) -> None:
    """Writes the header of the message to a shard, and sets the place of its rows."""
    begin = shard * X.counts[OUT_ROOM]
    X.places[shard] = begin + HEADER_WORDS
    head = as_i64(adv(X.out, begin))
    head[H_STEP] = (X.sizes[shard] << STEP_BITS) | (X.counts[STEP] & STEP_MASK)
    head[H_MORE] = X.counts[MORE]
    head[H_CANDIDATES] = W.counts[wave.CANDIDATES]
    head[H_LEAVES] = W.counts[wave.LEAVES]
    head[H_ENDED] = W.counts[wave.ENDED]
    head[H_FULL] = full
    head[H_WORD] = X.counts[WORD]
    head[H_NODES] = X.counts[NODES]


@inlined
def words_behind(message: Pointer[uint64]) -> int64:
    """Returns the number of words behind the header of a message."""
    return int64(message[H_STEP] >> U(STEP_BITS))


@inlined
def rows_from(X: ShardPointers, shard: int64) -> tuple[Pointer[uint64], int64]:
    """Returns (the rows that a shard has sent, their words)."""
    message = adv(X.inbox, shard * X.counts[IN_ROOM])
    return adv(message, HEADER_WORDS), words_behind(message)


@inlined
def _message_from(X: ShardPointers, shard: int64) -> Pointer[uint64]:
    """Returns the message of a shard, this one included."""
    if shard == X.counts[OWN]:
        return adv(X.out, shard * X.counts[OUT_ROOM])
    return adv(X.inbox, shard * X.counts[IN_ROOM])


@inner
def add_headers(X: ShardPointers) -> None:
    """Sums the headers of all messages up in `counts`; counts the shards that are at this step."""
    for i in range(HEADER_WORDS):
        X.counts[TOTALS + i] = 0
    for shard in range(X.counts[SHARDS]):
        head = as_i64(_message_from(X, int64(shard)))
        X.counts[TOTALS + H_STEP] += int64((head[H_STEP] ^ X.counts[STEP]) & STEP_MASK == 0)
        for i in range(H_STEP + 1, HEADER_WORDS):
            X.counts[TOTALS + i] += head[i]


# ------------------------------------------------------------------ up
@inner
def write_answer(A: ArenaPointers, W: WavePointers, e: int64, out: Pointer[uint64]) -> None:
    """Writes the answer for an arrival: its visits, and the summary of its record."""
    ghost = field(W, e, wave.PARENT)
    q, share, flags, code, known = child_summary(A, field(W, e, wave.SLOT))
    out[0] = pair(field(W, ghost, STUB), field(W, e, wave.DONE))
    out[1] = (U(share) << U(SHARE_SHIFT)) | (U(code) << U(CODE_SHIFT)) | (U(flags) << U(FLAGS_SHIFT))
    as_f32(adv(out, 1))[0] = q
    out[2] = pair(min(known, int64(LOW32)), field(W, ghost, UNKEPT))
    set_field(W, ghost, UNKEPT, int64(0))


@inlined
def summary_from_owner(W: WavePointers, e: int64) -> tuple[float32, int64, int64, int64, int64]:
    """Returns a stub's child summary from another shard, in the form of `child_summary`."""
    s = words_of(W, e)
    word = s[ANSWER]
    q = float32(as_f32(adv(s, ANSWER))[0])
    share, code = int64((word >> U(SHARE_SHIFT)) & TEN_BITS), int64((word >> U(CODE_SHIFT)) & TEN_BITS)
    return q, share, int64((word >> U(FLAGS_SHIFT)) & SIX_BITS), code, int64(s[KNOWN])
