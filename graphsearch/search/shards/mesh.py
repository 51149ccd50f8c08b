"""Connections between all shards of a cluster, and the steps of their exchange.

In every step each shard sends every other one message, and continues when it has all of theirs. A shard is a
generator (`Talk`) that yields when it has to wait for another one: the same code runs in one process, in
several, on many machines. The headers carry everything that decides the next step, so that all shards decide
the same.

    shard 0   writes m01, m02, says its step --+                +-- goes on with m10, m20
    shard 1   writes m10, m12, says its step --+-- its sockets -+-- goes on with m01, m21
    shard 2   writes m20, m21, says its step --+                +-- goes on with m02, m12

Every shard listens; of two the one with the greater number connects. Both prove that they know the token of
the search (HMAC-SHA256 of a random challenge), which the master gives to all of them. Nothing is encrypted.
Kernels do the I/O (`connections_kernel.py`); this module only waits.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import secrets
import selectors
import socket
import struct
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from itertools import combinations
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...base.errors import ShardLostError, StoreError
from ...base.machine import cores
from ...workers.tcp import exactly, listener
from .connections_kernel import GOT, SENT, SOCKET, TO_GET, TO_SEND, TRIES, new_connections

T = TypeVar("T")
Talk = Generator[None, None, T]
NONCE_BYTES, DIGEST_BYTES = 32, 32
HELLO = struct.Struct(f"<H{NONCE_BYTES}s")  # number of the shard, its challenge
CONNECT_SECONDS = 60.0
LOOK_UP_SECONDS = 0.5  # between two checks whether the search was given up
BUFFER_BYTES = 1 << 22  # the system's buffer of a connection: a level's messages go out at once

Address = tuple[str, int]


class Mesh:
    """The connections of one shard.

    Attributes:
      connections: of its shard, with their sockets once it is connected.
    """

    def __init__(self, number: int, shards: int, token: bytes, host: str) -> None:
        """Listens on a free port of an address of this machine."""
        self._number, self._shards, self._token = number, shards, token
        self._listener = listener(host)
        self.address: Address = self._listener.getsockname()[:2]
        self._peers: dict[int, socket.socket] = {}
        self.connections = new_connections(shards)
        self._given_up = threading.Event()

    def connect(self, addresses: Sequence[Address], *, seconds: float = CONNECT_SECONDS) -> None:
        """Connects to all shards of smaller numbers, and waits for the others.

        Args:
          addresses: of all shards. seconds: to wait for them.

        Raises:
          ShardLostError: if one does not connect in time, or does not know the token.
        """
        deadline = time.monotonic() + seconds
        try:
            for number in range(self._number):
                peer = socket.create_connection(addresses[number], seconds)
                try:
                    self._greet(peer)
                except BaseException:
                    peer.close()
                    raise
                self._peers[number] = peer
            while len(self._peers) < self._shards - 1:
                self._listener.settimeout(max(0.1, deadline - time.monotonic()))
                peer, _ = self._listener.accept()
                self._accept(peer, deadline)
        except OSError as error:
            missing = sorted(set(range(self._shards)) - {self._number, *self._peers})
            raise ShardLostError(
                f"shard {self._number} cannot reach shard {missing[0]}: {error.strerror or error}"
            ) from None
        for number, peer in self._peers.items():
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for name in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                peer.setsockopt(socket.SOL_SOCKET, name, BUFFER_BYTES)
            peer.setblocking(False)
            self.connections[number, SOCKET] = peer.fileno()

    def _accept(self, peer: socket.socket, deadline: float) -> None:
        """Accepts a connection; closes it if it is not from an expected shard."""
        peer.settimeout(max(0.1, deadline - time.monotonic()))
        try:
            number = self._greet(peer)
            if number <= self._number or number in self._peers:
                raise ShardLostError(f"shard {number} came twice")
            self._peers[number] = peer
        except (OSError, StoreError, struct.error):
            peer.close()

    def _greet(self, peer: socket.socket) -> int:
        """Exchanges proofs of the token; returns the number of the other shard."""
        challenge = secrets.token_bytes(NONCE_BYTES)
        peer.sendall(HELLO.pack(self._number, challenge))
        number, theirs = HELLO.unpack(exactly(peer, HELLO.size))
        peer.sendall(self._proof(self._number, theirs))
        if not hmac.compare_digest(exactly(peer, DIGEST_BYTES), self._proof(number, challenge)):
            raise ShardLostError("a connection lacks the token of this search")
        return int(number)

    def _proof(self, number: int, challenge: bytes) -> bytes:
        return hmac.digest(self._token, HELLO.pack(number, challenge), hashlib.sha256)

    @property
    def tries(self) -> int:
        """The polls for messages by kernels before Python waits; 0 if there are more shards than cores."""
        return TRIES if self._shards <= cores() else 0

    # ---------------------------------------------------------- steps
    def run(self, talk: Talk[T]) -> T:
        """Runs a shard's generator over these connections; returns its result.

        Raises:
          ShardLostError: if another shard is lost.
        """
        try:
            while True:
                next(talk)
                self._wait()
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            talk.close()

    def _wait(self) -> None:
        """Waits until something can be sent or received."""
        with selectors.DefaultSelector() as selector:
            for number, peer in self._peers.items():
                if events := _events(self.connections[number]):
                    selector.register(peer, events, number)
            while not (ready := selector.select(LOOK_UP_SECONDS)):
                if self._given_up.is_set():
                    raise ShardLostError(f"shard {self._number}: the search was given up")
        for key, _ in ready:
            self._check(key.data)

    def _check(self, number: int) -> None:
        """Raises ShardLostError if a connection has failed: kernels do not see the cause."""
        try:
            if not self._peers[number].recv(1, socket.MSG_PEEK):
                raise EOFError("it has closed the connection")
        except BlockingIOError:
            pass
        except (OSError, EOFError) as error:
            raise ShardLostError(f"shard {number} is lost: {error}") from None

    def give_up(self) -> None:
        """Ends a search that waits for other shards; callable from any thread."""
        self._given_up.set()

    def close(self) -> None:
        """Closes all connections."""
        for peer in (*self._peers.values(), self._listener):
            with contextlib.suppress(OSError):
                peer.close()


def _events(connection: NDArray[np.int64]) -> int:
    """Returns the events that a connection waits for."""
    sends, gets = connection[SENT] < connection[TO_SEND], connection[GOT] < connection[TO_GET]
    return (selectors.EVENT_WRITE if sends else 0) | (selectors.EVENT_READ if gets else 0)


# ------------------------------------------------------------------ all in one process
def run_together(talks: Sequence[Talk[T]]) -> list[T]:
    """Runs shards in one process, and returns their results; any other way must give the same results."""
    results: dict[int, T] = {}
    while len(results) < len(talks):
        for number, talk in enumerate(talks):
            if number not in results:
                try:
                    next(talk)
                except StopIteration as end:
                    results[number] = end.value
    return [results[number] for number in range(len(talks))]


@contextlib.contextmanager
def connections_between(shards: int) -> Iterator[list[NDArray[Any]]]:
    """Yields the connections of shards in one process, each connected to every other."""
    connections = [new_connections(shards) for _ in range(shards)]
    with contextlib.ExitStack() as stack:
        for one, other in combinations(range(shards), 2):
            pair = socket.socketpair()
            for end, at, to in ((pair[0], one, other), (pair[1], other, one)):
                stack.enter_context(end).setblocking(False)
                connections[at][to, SOCKET] = end.fileno()
        yield connections
