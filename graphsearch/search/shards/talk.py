"""Steps of shards: in every step each shard sends every other one message, and continues when it has all
answers.

    shard 0   writes m01, m02, says its step --+                +-- goes on with m10, m20
    shard 1   writes m10, m12, says its step --+-- its sockets -+-- goes on with m01, m21
    shard 2   writes m20, m21, says its step --+                +-- goes on with m02, m12

A shard is a generator that yields when it has to wait for another one: the same code runs in one process, in
several, on many machines. The headers carry everything that decides the next step, so that all shards decide
the same.
"""

from __future__ import annotations

import socket
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import combinations
from typing import Any, TypeVar

from numpy.typing import NDArray

from .lines_kernel import SOCKET, new_lines

T = TypeVar("T")
Talk = Generator[None, None, T]


def run_together(talks: Sequence[Talk[T]]) -> list[T]:
    """Runs some shards in one process, and returns their results; every other way must give the same."""
    results: dict[int, T] = {}
    while len(results) < len(talks):
        for number, talk in enumerate(talks):
            if number not in results:
                try:
                    next(talk)
                except StopIteration as end:
                    results[number] = end.value
    return [results[number] for number in range(len(talks))]


@contextmanager
def lines_between(shards: int) -> Iterator[list[NDArray[Any]]]:
    """Gives the lines of shards of one process, each connected to each."""
    lines = [new_lines(shards) for _ in range(shards)]
    with ExitStack() as stack:
        for one, other in combinations(range(shards), 2):
            pair = socket.socketpair()
            for end, at, to in ((pair[0], one, other), (pair[1], other, one)):
                stack.enter_context(end).setblocking(False)
                lines[at][to, SOCKET] = end.fileno()
        yield lines
