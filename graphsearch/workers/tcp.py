"""TCP sockets between worker processes: of remote workers and of shards."""

from __future__ import annotations

import socket


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
