"""One step over the connections of a shard: a message to every other shard, and one from each.

    connection          out [header | rows .......]  sent ---->  its socket
                        in  [header | rows ...]      got  <----

Socket functions are called by address and never block: a kernel that cannot continue returns, and is called
again when a message may have arrived. Python finds the cause of a failed call (`mesh.py`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...evaluators.batch_kernel import BEGIN, END
from ...graph.arena_kernel import ArenaArrays, ArenaPointers, pointers
from ...jit.calls import Bound
from ...jit.compiler import inlined, inner, kernel
from ...jit.pointers import adv, as_i64, as_u8, call_bound, call_c
from ...jit.system import MONOTONIC, address_of
from ...jit.types import Pointer, int32, int64
from ...position.board import Words
from ...store.index.locate_kernel import FilterArrays
from ..gatherers.levels_kernel import LARGEST_SPLIT, has_room
from ..wave_kernel import WaveArrays, WavePointers, wave_pointers
from . import messages_kernel as m
from .messages_kernel import ShardArrays, ShardPointers

# of a connection: socket | bytes sent | of so many | bytes received | of so many, as far as known
SOCKET, SENT, TO_SEND, GOT, TO_GET = range(5)
CONNECTION_FIELDS = 8
WORD_BYTES = 8
HEADER_BYTES = m.HEADER_WORDS * WORD_BYTES
MOST_AT_ONCE = 1 << 30  # bytes of a call
TRIES = 200  # to receive before Python waits, which takes as long as a small level
AT_ONCE = 4  # leaves that are evaluated between two tries
SECOND = 10**9


def new_connections(shards: int) -> NDArray[np.int64]:
    """Returns the connections of a shard, `[shards, CONNECTION_FIELDS]`, without sockets."""
    return np.zeros((shards, CONNECTION_FIELDS), np.int64)


def system_calls() -> NDArray[np.int64]:
    """Returns the addresses of the system's functions for kernels, from `SEND` on, and room for the time."""
    names = ("send", "recv", "sched_yield", "clock_gettime")
    return np.array([*map(address_of, names), 0, 0], np.int64)


SEND, RECEIVE, LET_RUN, CLOCK, SECONDS, NANOSECONDS = range(6)  # of `system`: those, and room for the time


@inlined
def _connection(X: ShardPointers, shard: int64) -> Pointer[int64]:
    return adv(X.connections, shard * CONNECTION_FIELDS)


@inner
def now(X: ShardPointers) -> int64:
    """Returns the time of a monotonic clock in nanoseconds; 0 where kernels have no clock."""
    if X.system[CLOCK] == 0:
        return int64(0)
    call_c(X.system[CLOCK], (int64(MONOTONIC), adv(X.system, SECONDS)))
    return X.system[SECONDS] * SECOND + X.system[NANOSECONDS]


@inner
def is_full(A: ArenaPointers, W: WavePointers) -> int64:
    """Returns 1 if there is no room for the children of one more entry, else 0."""
    return int64(not has_room(A, W, int64(LARGEST_SPLIT)))


@inner
def _open_message(X: ShardPointers, shard: int64) -> None:
    """Prepares to send a message and to receive one."""
    connection = _connection(X, shard)
    connection[SENT] = 0
    connection[TO_SEND] = HEADER_BYTES + WORD_BYTES * X.sizes[shard]
    connection[GOT] = 0
    connection[TO_GET] = HEADER_BYTES
    X.tallies[m.T_MESSAGES] += 1
    X.tallies[m.T_BYTES] += connection[TO_SEND]


@inner
def open_step(A: ArenaPointers, W: WavePointers, X: ShardPointers) -> bool:
    """Begins messages of `sizes` words with their headers; does nothing and returns False without room.

    The caller writes their rows next, at `places`.
    """
    counts = X.counts
    counts[m.WANTED] = m.HEADER_WORDS + m.largest_size(X)
    if counts[m.WANTED] > counts[m.OUT_ROOM]:
        return False
    counts[m.STEP] += 1
    X.tallies[m.T_STEPS] += 1
    full = is_full(A, W)
    for shard in range(counts[m.SHARDS]):
        m.write_header(W, X, int64(shard), full)
        if shard != counts[m.OWN]:
            _open_message(X, int64(shard))
    X.tallies[m.T_BEGAN] = now(X)
    return True


@inner
def _push(X: ShardPointers, shard: int64) -> bool:
    """Sends as much as the socket takes; returns whether all is sent."""
    connection = _connection(X, shard)
    message = as_u8(adv(X.out, shard * X.counts[m.OUT_ROOM]))
    while connection[SENT] < connection[TO_SEND]:
        size = min(connection[TO_SEND] - connection[SENT], int64(MOST_AT_ONCE))
        sent = int32(
            call_c(X.system[SEND], (connection[SOCKET], adv(message, connection[SENT]), size, int64(0)))
        )
        if sent <= 0:
            return False
        connection[SENT] += int64(sent)
    return True


@inner
def _pull(X: ShardPointers, shard: int64) -> int64:
    """Receives the available bytes; returns THROUGH, or the reason for waiting."""
    connection = _connection(X, shard)
    message = adv(X.inbox, shard * X.counts[m.IN_ROOM])
    while connection[GOT] < connection[TO_GET]:
        if connection[TO_GET] > WORD_BYTES * X.counts[m.IN_ROOM]:
            X.counts[m.WANTED] = connection[TO_GET] // WORD_BYTES
            return int64(m.INBOX_IS_SMALL)
        size = min(connection[TO_GET] - connection[GOT], int64(MOST_AT_ONCE))
        at = adv(as_u8(message), connection[GOT])
        got = int32(call_c(X.system[RECEIVE], (connection[SOCKET], at, size, int64(0))))
        if got <= 0:
            return int64(m.WAITS) if got else int64(m.IS_CLOSED)
        connection[GOT] += int64(got)
        if connection[GOT] == HEADER_BYTES:
            connection[TO_GET] = HEADER_BYTES + WORD_BYTES * m.words_behind(message)
    return int64(m.THROUGH)


@inner
def _exchange(X: ShardPointers) -> int64:
    """Sends and receives as much as possible; returns THROUGH, or the reason for waiting."""
    code = int64(m.THROUGH)
    for shard in range(X.counts[m.SHARDS]):
        if shard != X.counts[m.OWN]:
            is_sent, pulled = _push(X, int64(shard)), _pull(X, int64(shard))
            if pulled == m.WAITS or (pulled == m.THROUGH and not is_sent):
                code = int64(m.WAITS)
            elif pulled != m.THROUGH:
                X.counts[m.PEER] = shard
                return pulled
    return code


@inner
def _evaluate_some(X: ShardPointers, E: Bound) -> bool:
    """Evaluates a few of the ready leaves, if there are any; returns whether there were."""
    size = len(E.words)
    begin = E.words[size + END]
    if begin >= X.counts[m.READY]:
        return False
    began = now(X)
    E.words[size + BEGIN] = begin
    E.words[size + END] = min(begin + AT_ONCE, X.counts[m.READY])
    call_bound(E)
    spent = now(X) - began
    X.tallies[m.T_EVALUATED] += spent
    X.tallies[m.T_BEGAN] += spent
    return True


@inner
def finish_step(X: ShardPointers, E: Bound) -> int64:
    """Continues a step; returns THROUGH, or the reason for waiting. Meanwhile it evaluates leaves (`E`)."""
    code = _exchange(X)
    tries = int64(0)
    while code == m.WAITS and tries < X.counts[m.TRIES]:
        if not _evaluate_some(X, E):
            call_c(X.system[LET_RUN], (int64(0),))
            tries += 1
        code = _exchange(X)
    if code == m.THROUGH:
        X.tallies[m.T_WAITED] += now(X) - X.tallies[m.T_BEGAN]
        m.add_headers(X)
        if X.counts[m.TOTALS + m.H_STEP] != X.counts[m.SHARDS]:
            return int64(m.OUT_OF_STEP)
    return code


@kernel
def exchange_headers(
    T: Words, A: ArenaArrays, W: WaveArrays, B: WaveArrays, F: FilterArrays, X: ShardArrays, E: Bound
) -> None:
    """Exchanges headers, with the keys of `KEYS` candidates for the leader; `CODE` is the state."""
    Ap, Wp, Xp = pointers(A), wave_pointers(W, B), m.shard_pointers(X)
    Xp.counts[m.CODE] = _exchange_headers(Ap, Wp, Xp, E)


@inner
def _exchange_headers(A: ArenaPointers, W: WavePointers, X: ShardPointers, E: Bound) -> int64:
    if X.counts[m.STAGE] == m.WRITES:
        m.clear_sizes(X)
        X.sizes[X.counts[m.LEADER]] = X.counts[m.KEYS]
        if not open_step(A, W, X):
            return int64(m.OUT_IS_SMALL)
        at = as_i64(adv(X.out, X.places[X.counts[m.LEADER]]))
        for i in range(X.counts[m.KEYS]):
            at[i] = W.candidates[i]
        X.counts[m.STAGE] = m.EXCHANGES
    return finish_step(X, E)
