"""Pipes to workers on other machines: a worker calls in by TCP, once for each pipe.

    caller    number of the worker, of the pipe, challenge ->    <- challenge, proof    proof ->

Both prove that they know a token (HMAC-SHA256) before anything else is read. Nothing is encrypted, and
whoever knows the token can run code on both sides, as with Ray itself, which hands it out.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import socket
import struct
import threading
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field

from .child import Pipe
from .tcp import exactly, listener

CHALLENGE_BYTES = DIGEST_BYTES = 32
HELLO = struct.Struct(f"<IB{CHALLENGE_BYTES}s")  # number of the worker, of the pipe, challenge
GREETING_SECONDS = 20.0
BACKLOG = 1024


@dataclass(frozen=True, slots=True)
class CallNumber:
    """Where a worker calls in, and as whom."""

    host: str
    port: int
    worker: int
    token: bytes = field(repr=False)


class Calls:
    """The side that is called. Its methods are for any thread."""

    def __init__(self, host: str) -> None:
        """Listens on a free port of an address of this machine."""
        self._listener = listener(host, backlog=BACKLOG)
        self._host, self._port = self._listener.getsockname()[:2]
        self._token = secrets.token_bytes(DIGEST_BYTES)
        self._lock = threading.Lock()
        self._expected: dict[int, tuple[Future[Sequence[Pipe]], dict[int, Pipe], int]] = {}
        threading.Thread(target=self._listen, name="graphsearch-calls", daemon=True).start()

    def expect(self, worker: int, pipes: int) -> tuple[CallNumber, Future[Sequence[Pipe]]]:
        """Returns what to tell a worker, and the future of its pipes; its number is never used again."""
        coming = Future[Sequence[Pipe]]()
        with self._lock:
            self._expected[worker] = coming, {}, pipes
        return CallNumber(self._host, self._port, worker, self._token), coming

    def forget(self, worker: int) -> None:
        """Takes no more calls of a worker."""
        with self._lock:
            _, pipes, _ = self._expected.pop(worker, (None, {}, 0))
        for pipe in pipes.values():
            pipe.close()

    def close(self) -> None:
        """Takes no more calls."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    # ---------------------------------------------------------- threads
    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(peer,), daemon=True).start()

    def _answer(self, peer: socket.socket) -> None:
        """Takes in a worker that knows the token; anything else is closed."""
        try:
            peer.settimeout(GREETING_SECONDS)
            theirs = exactly(peer, HELLO.size)
            worker, pipe, _ = HELLO.unpack(theirs)
            challenge = secrets.token_bytes(CHALLENGE_BYTES)
            peer.sendall(challenge + _proof(self._token, b"called", theirs))
            expected = _proof(self._token, b"caller", challenge)
            if not hmac.compare_digest(exactly(peer, DIGEST_BYTES), expected):
                raise ConnectionRefusedError
        except OSError:
            peer.close()
            return
        self._take(worker, pipe, as_pipe(peer))

    def _take(self, worker: int, number: int, pipe: Pipe) -> None:
        with self._lock:
            coming, pipes, count = self._expected.get(worker, (None, {}, 0))
            if coming is None or number in pipes or number >= count:
                pipe.close()
                return
            pipes[number] = pipe
            if len(pipes) < count:
                return
            del self._expected[worker]
        with contextlib.suppress(InvalidStateError):  # it has ended meanwhile
            coming.set_result([pipes[k] for k in range(count)])


def call(number: CallNumber, pipes: int) -> list[Pipe]:
    """Returns a worker's ends of its pipes.

    Raises:
      OSError: if nobody answers, or who does does not know the token.
    """
    return [as_pipe(_called(number, k)) for k in range(pipes)]


def _called(number: CallNumber, pipe: int) -> socket.socket:
    peer = socket.create_connection((number.host, number.port), GREETING_SECONDS)
    try:
        hello = HELLO.pack(number.worker, pipe, secrets.token_bytes(CHALLENGE_BYTES))
        peer.sendall(hello)
        challenge, proof = exactly(peer, CHALLENGE_BYTES), exactly(peer, DIGEST_BYTES)
        if not hmac.compare_digest(proof, _proof(number.token, b"called", hello)):
            raise ConnectionRefusedError("what answers does not know the token")
        peer.sendall(_proof(number.token, b"caller", challenge))
    except BaseException:
        peer.close()
        raise
    return peer


def as_pipe(peer: socket.socket) -> Pipe:
    """Returns a connection as a pipe; messages are short and waited for, so they go out at once."""
    from multiprocessing.connection import Connection

    peer.setblocking(True)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return Connection(peer.detach())


def hang_up(pipe: Pipe) -> None:
    """Ends a pipe by TCP at which another thread waits; what has come can still be read."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(pipe.fileno())) as peer:
        peer.shutdown(socket.SHUT_RDWR)


def _proof(token: bytes, side: bytes, challenge: bytes) -> bytes:
    return hmac.digest(token, side + challenge, hashlib.sha256)
