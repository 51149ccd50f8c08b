"""How shards talk: each sends every other one message, and goes on when it has one from each.

    shard 0   yield [m00, m01, m02] --+                +-- gets [m00, m10, m20]
    shard 1   yield [m10, m11, m12] --+-- a transport -+-- gets [m01, m11, m21]
    shard 2   yield [m20, m21, m22] --+                +-- gets [m02, m12, m22]

What a shard does is a generator: the same code runs in one process, in several, on many machines. All that
decides what comes next goes through the headers, so that all shards decide the same without being told.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Message = NDArray[np.uint64]
T = TypeVar("T")
Talk = Generator[Sequence[Message], Sequence[Message], T]


def run_together(talks: Sequence[Talk[T]]) -> list[T]:
    """Returns what each of some shards returns, which talk in one process: what all other ways must equal.

    All end at the same step.
    """
    results: list[T] = []
    boxes: list[Sequence[Message]] = []
    for talk in talks:
        _advance(talk, None, boxes, results)
    while boxes:
        sent, boxes = boxes, []
        for number, talk in enumerate(talks):
            _advance(talk, [box[number] for box in sent], boxes, results)
    assert len(results) == len(talks), "shards end at the same step"
    return results


def _advance(
    talk: Talk[T], inbox: Sequence[Message] | None, boxes: list[Sequence[Message]], results: list[T]
) -> None:
    try:
        boxes.append(next(talk) if inbox is None else talk.send(inbox))
    except StopIteration as end:
        results.append(end.value)
