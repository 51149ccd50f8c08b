"""Connections between all shards of a cluster, and what goes over them in a step.

Every shard listens; of two the one with the greater number connects. Both prove that they know the token of
the search (HMAC-SHA256 of a random challenge), which the master gives to all of them. Nothing is encrypted.

    message   number of words behind this one, uint64 | words
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
from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np

from ..errors import ShardLostError, StoreError
from .talk import Message, Talk

T = TypeVar("T")
NONCE_BYTES, DIGEST_BYTES = 32, 32
HELLO = struct.Struct(f"<H{NONCE_BYTES}s")  # number of the shard, its challenge
LENGTH = struct.Struct("<Q")
CONNECT_SECONDS = 60.0
LOOK_UP_SECONDS = 0.5  # between two looks whether the search was given up
MOST_WORDS, FIRST_WORDS = 1 << 34, 1 << 16
BUFFER_BYTES = 1 << 22  # that the system keeps of a connection: a level's messages go out at once
SPIN_SECONDS = 30e-6  # to look again before waiting: waking up takes as long as a small level

Address = tuple[str, int]


class Mesh:
    """The connections of one shard."""

    def __init__(self, number: int, shards: int, token: bytes, host: str) -> None:
        """Listens on a free port of an address of this machine."""
        self._number, self._shards, self._token = number, shards, token
        self._listener = socket.create_server((host, 0), family=_family(host))
        self.address: Address = self._listener.getsockname()[:2]
        self._peers: dict[int, socket.socket] = {}
        self._lines: dict[int, _Line] = {}
        self._given_up = threading.Event()

    def connect(self, addresses: Sequence[Address], *, seconds: float = CONNECT_SECONDS) -> None:
        """Connects to all shards of smaller numbers, and waits for the others.

        Args:
          addresses: of all shards. seconds: to wait for them.

        Raises:
          ShardLostError: if one does not come, or does not know the token.
        """
        deadline = time.monotonic() + seconds
        try:
            for number in range(self._number):
                peer = socket.create_connection(addresses[number], seconds)
                self._greet_or_close(peer)
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
            self._lines[number] = _Line(peer)

    def _accept(self, peer: socket.socket, deadline: float) -> None:
        """Takes a connection in; a stranger's is closed, and the next one waited for."""
        peer.settimeout(max(0.1, deadline - time.monotonic()))
        try:
            number = self._greet(peer)
            if number <= self._number or number in self._peers:
                raise ShardLostError(f"shard {number} came twice")
            self._peers[number] = peer
        except (OSError, StoreError, struct.error):
            peer.close()

    def _greet_or_close(self, peer: socket.socket) -> None:
        try:
            self._greet(peer)
        except BaseException:
            peer.close()
            raise

    def _greet(self, peer: socket.socket) -> int:
        """Returns the number of a shard that knows the token."""
        challenge = secrets.token_bytes(NONCE_BYTES)
        peer.sendall(HELLO.pack(self._number, challenge))
        number, theirs = HELLO.unpack(_exactly(peer, HELLO.size))
        peer.sendall(self._proof(self._number, theirs))
        if not hmac.compare_digest(_exactly(peer, DIGEST_BYTES), self._proof(number, challenge)):
            raise ShardLostError("what has connected does not know the token of this search")
        return int(number)

    def _proof(self, number: int, challenge: bytes) -> bytes:
        return hmac.digest(self._token, HELLO.pack(number, challenge), hashlib.sha256)

    # ---------------------------------------------------------- talking
    def run(self, talk: Talk[T]) -> T:
        """Returns what a shard returns that talks over these connections.

        Raises:
          ShardLostError: if another shard is lost.
        """
        try:
            outbox = next(talk)
            while True:
                outbox = talk.send(self.exchange(outbox))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            talk.close()

    def exchange(self, outbox: Sequence[Message]) -> list[Message]:
        """Sends every other shard its message; returns one from each, the own one at its place.

        What is returned is good until the next call.
        """
        inbox: list[Message] = list(outbox)
        waiting = dict(self._lines)
        for number, line in waiting.items():
            line.begin(outbox[number])
        spins_until = time.perf_counter() + SPIN_SECONDS
        while waiting:
            for number in [n for n, line in waiting.items() if self._go_on(n, line)]:
                inbox[number] = waiting.pop(number).message
            if waiting and time.perf_counter() > spins_until:
                self._wait(waiting.values())
        return inbox

    def _wait(self, lines: Iterable[_Line]) -> None:
        """Waits until something can be sent or received on one of some connections.

        Raises:
          ShardLostError: if the search is given up.
        """
        with selectors.DefaultSelector() as selector:
            for line in lines:
                selector.register(line.peer, line.events)
            while not selector.select(LOOK_UP_SECONDS):
                if self._given_up.is_set():
                    raise ShardLostError(f"shard {self._number}: the search was given up")

    def _go_on(self, number: int, line: _Line) -> bool:
        try:
            return line.go_on()
        except (OSError, EOFError) as error:
            raise ShardLostError(f"shard {number} is lost: {error}") from None

    def give_up(self) -> None:
        """Ends a search that waits for others; from any thread."""
        self._given_up.set()

    def close(self) -> None:
        """Closes all connections."""
        for peer in (*self._peers.values(), self._listener):
            with contextlib.suppress(OSError):
                peer.close()


class _Line:
    """A connection: one message out and one in at a time, as far as they have got."""

    def __init__(self, peer: socket.socket) -> None:
        self.peer = peer
        self._head = bytearray(LENGTH.size)
        self._buffer = np.empty(FIRST_WORDS, np.uint64)
        self._out: list[memoryview] = []
        self._in = memoryview(b"")
        self._has_head = False
        self.message: Message = self._buffer[:0]

    def begin(self, message: Message) -> None:
        """Begins to send a message, and to receive one."""
        self._out = [memoryview(LENGTH.pack(len(message))), _bytes_of(message)]
        self._in, self._has_head = memoryview(self._head), False

    @property
    def events(self) -> int:
        """What it waits for."""
        return (selectors.EVENT_WRITE if self._out else 0) | (selectors.EVENT_READ if len(self._in) else 0)

    def go_on(self) -> bool:
        """Sends and receives what goes at once; returns whether both are done."""
        with contextlib.suppress(BlockingIOError):
            while self._out:
                send = getattr(self.peer, "sendmsg", None)  # all at once where the system can
                self._sent(send(self._out) if send else self.peer.send(self._out[0]))
        with contextlib.suppress(BlockingIOError):
            while len(self._in):
                got = self.peer.recv_into(self._in)
                if not got:
                    raise EOFError("it has closed the connection")
                self._in = self._in[got:]
                if not len(self._in) and not self._has_head:
                    self._begin_body()
        return not self._out and not len(self._in)

    def _sent(self, count: int) -> None:
        while self._out and count >= len(self._out[0]):
            count -= len(self._out.pop(0))
        if count:
            self._out[0] = self._out[0][count:]

    def _begin_body(self) -> None:
        (words,) = LENGTH.unpack(self._head)
        if words > MOST_WORDS:
            raise EOFError(f"it sends {words} words at once")
        if words > len(self._buffer):
            self._buffer = np.empty(2 * words, np.uint64)
        self.message = self._buffer[:words]
        self._in = _bytes_of(self.message)
        self._has_head = True


def _bytes_of(message: Message) -> memoryview:
    return memoryview(message.view(np.uint8))  # type: ignore[arg-type]


def _exactly(peer: socket.socket, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        piece = peer.recv(size - len(parts))
        if not piece:
            raise ConnectionResetError("the connection was closed")
        parts += piece
    return parts


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
