"""What shards send each other: rows of 64-bit words, behind a header. `schema/cluster.md` is the reference.

    down, 7 words and the trail       0  number of the first visit | visits asked << 32
    a visit that goes on to           1  stub: the sender's entry  | visits of the edge << 32
    another shard's position          2  META of the position | positions of the trail << 32
                                      3  occupied squares
                                      4-5  men of these squares, four bits each: kind | 8 if Black
                                      6  KEY
                                      7...  the positions before, the latest first: KEY of each, as far as
                                            one may be repeated; for evaluators that look at lines KEY, META
                                            and men of all

    up, 3 words                       0  stub | visits done << 32
    what became of it                 1  Q, float32 | draw share << 32 | code << 42 | flags << 52
                                      2  N of the child | visits that the graph does not keep << 32

An arrival is an entry of the wave like any other. Before it stand ghosts: entries for the positions of its
trail, the latest of which also holds where the answer goes.

    ghost <- ghost <- ghost <- arrival        of each: a position of the trail
                      EDGE: sender | NODE_OR_LEAF: stub | ASKED: visits of the edge | DONE: not kept

Ghosts stand behind the room for entries, in the same memory: they are no entries of the wave, only before
some. Arrivals are listed by depth in `heads` here, all other entries in `heads` of the wave.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy import float32, int64

from ..jit.compiler import inlined, inner, kernel
from ..jit.pointers import LOW32, ONE, ZERO, U, adv, as_f32, as_i64, ptr
from ..position.board_kernel import clock_of, position_key
from ..position.words import BLACK, KEY, KINGS, META, WHITE
from ..search import wave_kernel as wave
from ..search.backup_kernel import told_by
from ..search.wave_kernel import field, new_entry, set_field, words_of
from ..store.sharded.ownership import MIXER, VIRTUAL_BITS

HEADER_WORDS = 8
DOWN_WORDS, UP_WORDS = 7, 3  # of a row; a trail comes behind
KEY_ONLY, WHOLE = 1, 5  # words of a position of a trail
TRAIL_SHIFT = 40  # above META, which has META_BITS
SENDER, STUB, SPENT, UNKEPT = wave.EDGE, wave.NODE_OR_LEAF, wave.ASKED, wave.DONE  # of the latest ghost
TOLD, KNOWN = 0, 1  # words of a stub that has its answer
MEN_PER_WORD, MAN_BITS, IS_BLACK = 16, 4, 8
SHARE_SHIFT, CODE_SHIFT, FLAGS_SHIFT = 32, 42, 52
TEN_BITS, SIX_BITS = U(1023), U(63)

# words of a header, int64: step | entries and stubs of the next level | candidates | leaves | entries that
# ended with visits to count | shards without room | a key, or a number for all | positions
H_STEP, H_MORE, H_CANDIDATES, H_LEAVES, H_ENDED, H_FULL, H_WORD, H_NODES = range(HEADER_WORDS)

# `counts`. Fixed: this shard | how many there are | words of a position of a trail
# What Python says: step | level | first entry of the round | whether only what needs no evaluation goes up
# | whether records of a level were looked up | candidates to admit: from, to, whether the batch is open
# | a number for all | positions of this shard | where `out` may be written, from and to
# What kernels say: entries of the level | first entry below it | next ghost | whether the messages fitted
# | whether a level below has entries, or stubs
(
    OWN,
    SHARDS,
    TRAIL,
    STEP,
    LEVEL,
    FIRST,
    SETTLES,
    PROBED,
    BEGIN,
    END,
    IS_OPEN,
    WORD,
    NODES,
    OUT_BEGIN,
    OUT_END,
    ORDERED,
    FIRST_CHILD,
    GHOSTS,
    FITS,
    MORE,
) = range(20)
TOTALS = 24  # sums of the headers of the last messages; H_STEP: shards that are at this step
COUNTS = TOTALS + HEADER_WORDS


class ShardArrays(NamedTuple):
    """What a shard has beside its arena and its wave; E entries, K shards."""

    owners: Any  # int64[4096]: the shard of each virtual shard
    order: Any  # int64[E]: entries of the level at hand, in the order of their visits
    spare: Any  # int64[E]: scratch for that order
    candidates: Any  # int64[E]: entries that wait to become leaves; `WaveArrays.candidates` has their keys
    sizes: Any  # int64[K]: words that go to each shard, without header
    places: Any  # int64[K]: where in `out` the next row for each shard goes
    heads: Any  # int64[MAX_PLIES + 2] last arrival of each depth, -1 for none
    begins: Any  # int64[K + 1]: where in `inbox` the message of each shard begins
    inbox: Any  # uint64: the messages of the last step
    out: Any  # uint64: the messages of this step
    counts: Any  # int64[COUNTS]


class ShardPointers(NamedTuple):
    """Pointers to them, in the same order."""

    owners: Any
    order: Any
    spare: Any
    candidates: Any
    sizes: Any
    places: Any
    heads: Any
    begins: Any
    inbox: Any
    out: Any
    counts: Any


@inner
def shard_pointers(X: Any) -> Any:
    """Returns the pointer bundle of a shard's arrays."""
    return ShardPointers(
        ptr(X.owners, 0),
        ptr(X.order, 0),
        ptr(X.spare, 0),
        ptr(X.candidates, 0),
        ptr(X.sizes, 0),
        ptr(X.places, 0),
        ptr(X.heads, 0),
        ptr(X.begins, 0),
        ptr(X.inbox, 0),
        ptr(X.out, 0),
        ptr(X.counts, 0),
    )


# ------------------------------------------------------------------ who
@inlined
def owner_of(T: Any, X: Any, s: Any) -> Any:
    """Returns the shard that owns a position."""
    return X.owners[int64((position_key(T, s) * U(MIXER)) >> U(64 - VIRTUAL_BITS))]


@inlined
def is_arrival(W: Any, e: Any) -> Any:
    """Returns whether an entry came from another shard."""
    parent = field(W, e, wave.PARENT)
    return parent >= 0 and field(W, parent, wave.KIND) == wave.GHOST


@inlined
def pair(low: Any, high: Any) -> Any:
    """Returns a word of two numbers of 32 bits."""
    return (U(low) & LOW32) | (U(high) << U(32))


@inlined
def low_of(word: Any) -> Any:
    """Returns the lower number of a word."""
    return int64(word & LOW32)


@inlined
def high_of(word: Any) -> Any:
    """Returns the upper number of a word."""
    return int64(word >> U(32))


# ------------------------------------------------------------------ positions
@inner
def pack_men(s: Any, out: Any) -> None:
    """Writes the men of a position as three words."""
    occupied = s[WHITE] | s[BLACK]
    out[0] = occupied
    out[1] = ZERO
    out[2] = ZERO
    man = int64(0)
    while occupied:
        bit = occupied & (~occupied + ONE)
        kind = int64(0)
        for k in range(1, KINGS + 1):
            if s[k] & bit:
                kind = int64(k)
        if s[BLACK] & bit:
            kind += IS_BLACK
        out[1 + man // MEN_PER_WORD] |= U(kind) << U(MAN_BITS * (man % MEN_PER_WORD))
        occupied ^= bit
        man += 1


@inner
def unpack_men(packed: Any, s: Any) -> None:
    """Writes the eight bitboards of a position from `pack_men`."""
    for w in range(META):
        s[w] = ZERO
    occupied = packed[0]
    man = int64(0)
    while occupied:
        bit = occupied & (~occupied + ONE)
        kind = int64((packed[1 + man // MEN_PER_WORD] >> U(MAN_BITS * (man % MEN_PER_WORD))) & U(15))
        s[kind & (IS_BLACK - 1)] |= bit
        s[BLACK if kind & IS_BLACK else WHITE] |= bit
        occupied ^= bit
        man += 1


# ------------------------------------------------------------------ down
@inlined
def trail_length(W: Any, X: Any, e: Any) -> Any:
    """Returns how many positions go with a stub: all of its path, or those that may still be repeated."""
    depth = field(W, e, wave.DEPTH)
    return depth if X.counts[TRAIL] == WHOLE else min(clock_of(words_of(W, e)), depth)


@inlined
def row_words(W: Any, X: Any, e: Any) -> Any:
    """Returns the words of a stub's row."""
    return DOWN_WORDS + X.counts[TRAIL] * trail_length(W, X, e)


@inner
def write_row(W: Any, X: Any, e: Any, spent: Any, out: Any) -> Any:
    """Writes the row of a stub; returns its words."""
    s = words_of(W, e)
    length, step = trail_length(W, X, e), X.counts[TRAIL]
    out[0] = pair(W.shares[e], field(W, e, wave.ASKED))
    out[1] = pair(e, min(spent, int64(LOW32)))
    out[2] = s[META] | (U(length) << U(TRAIL_SHIFT))
    pack_men(s, adv(out, 3))
    out[6] = s[KEY]
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
def _trail_of(row: Any) -> Any:
    """Returns how many positions a row's trail has."""
    return int64(row[2] >> U(TRAIL_SHIFT))


@inner
def _ghost(W: Any, X: Any, parent: Any, at: Any, step: Any) -> Any:
    """Returns a new ghost."""
    e = X.counts[GHOSTS]
    X.counts[GHOSTS] = e + 1
    set_field(W, e, wave.PARENT, parent)
    set_field(W, e, wave.KIND, wave.GHOST)
    set_field(W, e, UNKEPT, int64(0))
    set_field(W, e, wave.SLOT, int64(0))  # there is no record, which who asks for memory ahead must see
    s = words_of(W, e)
    s[KEY] = at[0]
    if step == WHOLE:
        s[META] = at[1]
        unpack_men(adv(at, 2), s)
    return e


@inner
def _trail(W: Any, X: Any, row: Any, sender: Any) -> Any:
    """Returns the latest ghost before an arrival."""
    length, step = _trail_of(row), X.counts[TRAIL]
    a = int64(-1)
    if length == 0:  # what stands here is no position, and nobody looks at it
        a = _ghost(W, X, a, row, int64(KEY_ONLY))
    for back in range(length):
        a = _ghost(W, X, a, adv(row, DOWN_WORDS + step * (length - 1 - back)), step)
    set_field(W, a, SENDER, sender)
    set_field(W, a, STUB, low_of(row[1]))
    set_field(W, a, SPENT, high_of(row[1]))
    return a


@inner
def _arrive(W: Any, X: Any, row: Any, sender: Any, depth: Any) -> Any:
    """Returns the new entry of a row that another shard has sent."""
    ghost = _trail(W, X, row, sender)
    e = new_entry(W, ghost, int64(0), high_of(row[0]), depth)
    W.heads[depth] = field(W, e, wave.NEXT)
    set_field(W, e, wave.NEXT, X.heads[depth])
    X.heads[depth] = e
    s = words_of(W, e)
    unpack_men(adv(row, 3), s)
    s[META] = row[2] & U((1 << TRAIL_SHIFT) - 1)
    s[KEY] = row[6]
    W.shares[e] = low_of(row[0])
    return e


@inner
def _arrive_from(W: Any, X: Any, sender: Any) -> None:
    """Makes entries of the rows that another shard has sent; there must be room for as many ghosts.

    Without room for an entry its visits are dropped.
    """
    at = X.begins[sender] + HEADER_WORDS
    while at < X.begins[sender + 1] and W.counts[wave.ENTRIES] + 1 < W.capacity:
        row = adv(X.inbox, at)
        X.order[X.counts[ORDERED]] = _arrive(W, X, row, sender, X.counts[LEVEL])
        X.counts[ORDERED] += 1
        at += DOWN_WORDS + X.counts[TRAIL] * _trail_of(row)


@inner
def arrive(W: Any, X: Any) -> None:
    """Makes entries of all rows that came down to a level, and puts the level in the order of its visits."""
    own = X.counts[ORDERED]
    for sender in range(X.counts[SHARDS]):
        if sender != X.counts[OWN]:
            _arrive_from(W, X, int64(sender))
    if X.counts[ORDERED] > own:
        sort_level(W, X)


@inner
def _merge_runs(W: Any, a: Any, b: Any, n: Any) -> Any:
    """Merges pairs of neighbouring runs of `a` into `b`; returns how many runs `b` has."""
    runs = int64(0)
    begin = int64(0)
    while begin < n:
        middle = _end_of_run(W, a, begin, n)
        end = _end_of_run(W, a, middle, n) if middle < n else int64(n)
        i = begin
        j = middle
        for k in range(begin, end):
            if j == end or (i < middle and W.shares[a[i]] <= W.shares[a[j]]):
                b[k] = a[i]
                i += 1
            else:
                b[k] = a[j]
                j += 1
        begin = end
        runs += 1
    return runs


@inner
def _end_of_run(W: Any, a: Any, begin: Any, n: Any) -> Any:
    """Returns where the entries from `begin` on cease to be in order."""
    end = begin + 1
    while end < n and W.shares[a[end - 1]] < W.shares[a[end]]:
        end += 1
    return end


@inner
def sort_level(W: Any, X: Any) -> None:
    """Sorts the level by the numbers of its visits: each shard has sent a run that is in order."""
    n = X.counts[ORDERED]
    runs = int64(2)
    while runs > 1:
        _merge_runs(W, X.order, X.spare, n)
        runs = _merge_runs(W, X.spare, X.order, n)


# ------------------------------------------------------------------ messages
@inner
def open_messages(W: Any, X: Any, full: Any) -> Any:
    """Writes the headers of messages of `sizes` words, and notes where rows go; returns whether they fit."""
    at = X.counts[OUT_BEGIN]
    for shard in range(X.counts[SHARDS]):
        X.places[shard] = at + HEADER_WORDS
        at += HEADER_WORDS + X.sizes[shard]
    X.counts[FITS] = int64(at <= X.counts[OUT_END])
    if not X.counts[FITS]:
        return False
    for shard in range(X.counts[SHARDS]):
        head = as_i64(adv(X.out, X.places[shard] - HEADER_WORDS))
        head[H_STEP] = X.counts[STEP]
        head[H_MORE] = X.counts[MORE]
        head[H_CANDIDATES] = W.counts[wave.CANDIDATES]
        head[H_LEAVES] = W.counts[wave.LEAVES]
        head[H_ENDED] = W.counts[wave.ENDED]
        head[H_FULL] = full
        head[H_WORD] = X.counts[WORD]
        head[H_NODES] = X.counts[NODES]
    return True


@kernel
def add_headers(X: Any) -> None:
    """Sums the headers of all messages up in `counts`; of the step, counts those that are at this one."""
    Xp = shard_pointers(X)
    for i in range(HEADER_WORDS):
        Xp.counts[TOTALS + i] = 0
    for shard in range(Xp.counts[SHARDS]):
        head = as_i64(adv(Xp.inbox, Xp.begins[shard]))
        Xp.counts[TOTALS + H_STEP] += int64(head[H_STEP] == Xp.counts[STEP])
        for i in range(H_STEP + 1, HEADER_WORDS):
            Xp.counts[TOTALS + i] += head[i]


# ------------------------------------------------------------------ up
@inner
def write_answer(A: Any, W: Any, e: Any, out: Any) -> None:
    """Writes what became of an arrival, and what its record is worth."""
    ghost = field(W, e, wave.PARENT)
    q, share, flags, code, known = told_by(A, field(W, e, wave.SLOT))
    out[0] = pair(field(W, ghost, STUB), field(W, e, wave.DONE))
    out[1] = (U(share) << U(SHARE_SHIFT)) | (U(code) << U(CODE_SHIFT)) | (U(flags) << U(FLAGS_SHIFT))
    as_f32(adv(out, 1))[0] = q
    out[2] = pair(min(known, int64(LOW32)), field(W, ghost, UNKEPT))
    set_field(W, ghost, UNKEPT, int64(0))


@inlined
def told_to(W: Any, e: Any) -> Any:
    """Returns what another shard has told a stub, as `told_by` has it."""
    s = words_of(W, e)
    word = s[TOLD]
    q = float32(as_f32(adv(s, TOLD))[0])
    share, code = int64((word >> U(SHARE_SHIFT)) & TEN_BITS), int64((word >> U(CODE_SHIFT)) & TEN_BITS)
    return q, share, int64((word >> U(FLAGS_SHIFT)) & SIX_BITS), code, int64(s[KNOWN])
