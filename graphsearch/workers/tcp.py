"""TCP sockets between this process and workers on other machines."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import socket
import struct
import threading
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field

from .process import Pipe


def listener(host: str, *, backlog: int | None = None) -> socket.socket:
    """Returns a socket that listens on a free port of an address, IPv4 or IPv6."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, 0), family=family, backlog=backlog)


def exactly(peer: socket.socket, size: int) -> bytes:
    """Returns the next `size` bytes.

    Raises:
      ConnectionResetError: if the connection ends before.
    """
    found = b""
    while len(found) < size:
        piece = peer.recv(size - len(found))
        if not piece:
            raise ConnectionResetError("the connection was closed")
        found += piece
    return found


CHALLENGE_BYTES = DIGEST_BYTES = 32
HELLO = struct.Struct(f"<I{CHALLENGE_BYTES}s")  # number of the worker, challenge
GREETING_SECONDS = 20.0
BACKLOG = 1024


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address that a worker connects to, its number and the token."""

    host: str
    port: int
    worker: int
    token: bytes = field(repr=False)


class PipeListener:
    """Accepts the connections of workers. Its methods are thread-safe."""

    def __init__(self, host: str) -> None:
        """Listens on a free port of an address of this machine."""
        self._listener = listener(host, backlog=BACKLOG)
        self._host, self._port = self._listener.getsockname()[:2]
        self._token = secrets.token_bytes(DIGEST_BYTES)
        self._lock = threading.Lock()
        self._expected: dict[int, Future[Pipe]] = {}
        threading.Thread(target=self._listen, name="graphsearch-pipes", daemon=True).start()

    def expect(self, worker: int) -> tuple[Endpoint, Future[Pipe]]:
        """Returns the endpoint for a worker, and the future of its pipe; its number is never used again."""
        coming = Future[Pipe]()
        with self._lock:
            self._expected[worker] = coming
        return Endpoint(self._host, self._port, worker, self._token), coming

    def forget(self, worker: int) -> None:
        """Accepts no connection of a worker any more."""
        with self._lock:
            self._expected.pop(worker, None)

    def close(self) -> None:
        """Accepts no more connections."""
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
        """Accepts a worker that knows the token; other connections are closed."""
        try:
            peer.settimeout(GREETING_SECONDS)
            theirs = exactly(peer, HELLO.size)
            worker, _ = HELLO.unpack(theirs)
            challenge = secrets.token_bytes(CHALLENGE_BYTES)
            peer.sendall(challenge + _proof(self._token, b"called", theirs))
            expected = _proof(self._token, b"caller", challenge)
            if not hmac.compare_digest(exactly(peer, DIGEST_BYTES), expected):
                raise ConnectionRefusedError
        except OSError:
            peer.close()
            return
        self._take(worker, as_pipe(peer))

    def _take(self, worker: int, pipe: Pipe) -> None:
        with self._lock:
            coming = self._expected.pop(worker, None)
        if coming is None:
            pipe.close()
            return
        with contextlib.suppress(InvalidStateError):  # it has ended meanwhile
            coming.set_result(pipe)


def connect(endpoint: Endpoint) -> Pipe:
    """Connects, and returns a worker's end of its pipe.

    Raises:
      OSError: if nothing answers, or the other side does not know the token.
    """
    peer = socket.create_connection((endpoint.host, endpoint.port), GREETING_SECONDS)
    try:
        hello = HELLO.pack(endpoint.worker, secrets.token_bytes(CHALLENGE_BYTES))
        peer.sendall(hello)
        challenge, proof = exactly(peer, CHALLENGE_BYTES), exactly(peer, DIGEST_BYTES)
        if not hmac.compare_digest(proof, _proof(endpoint.token, b"called", hello)):
            raise ConnectionRefusedError("the other side does not know the token")
        peer.sendall(_proof(endpoint.token, b"caller", challenge))
    except BaseException:
        peer.close()
        raise
    return as_pipe(peer)


def as_pipe(peer: socket.socket) -> Pipe:
    """Returns a connection as a pipe; Nagle's delay is off, as messages are short and urgent."""
    from multiprocessing.connection import Connection

    peer.setblocking(True)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return Connection(peer.detach())


def shut_down(pipe: Pipe) -> None:
    """Shuts down a TCP pipe that another thread reads; received bytes can still be read."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(pipe.fileno())) as peer:
        peer.shutdown(socket.SHUT_RDWR)


def _proof(token: bytes, side: bytes, challenge: bytes) -> bytes:
    return hmac.digest(token, side + challenge, hashlib.sha256)
