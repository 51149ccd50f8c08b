"""Merges transposition entries: of two entries of the same position and evaluation, the better one counts.

A proof is better than other entries, a shorter mate better than a longer one; then greater depth, then an
exact value. The raw data break the last ties, so that the order of the files does not matter. Better entries
are appended, because the newest counts.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..record.transposition_layout import (
    BOUND_AT,
    BOUND_MASK,
    DEPTH_AT,
    DEPTH_MASK,
    EXACT,
    PROOF,
    checks,
    field,
    values,
)
from ..store import Store
from ..transpositions import saved
from .tables import Input, LeaveOut

AT_ONCE = 1 << 19  # entries of a slice: some 60 MB while they are compared

Words = NDArray[np.uint64]


def unite(store: Store, one: Input, leave_out: LeaveOut) -> dict[str, int]:
    """Merges the entries of an input, in an open transaction; returns the number written.

    Args:
      leave_out: called with a message for each damaged piece.
    """
    theirs = _Pieces(one.store, leave_out)
    ours = _Pieces(store, lambda _: None)  # `store verify` names them
    written = 0
    for evaluation in sorted(theirs.spans):
        for low, high in theirs.slices(evaluation):
            keys, data = better(ours.between(evaluation, low, high), theirs.between(evaluation, low, high))
            saved.insert(store.connection, keys, data, evaluation)
            written += len(keys)
    return {"entry_piece": written}


def better(ours: tuple[Words, Words], theirs: tuple[Words, Words]) -> tuple[Words, Words]:
    """Returns the entries of `theirs` that are better than `ours`, by key; both have each position once."""
    keys, data = (np.concatenate([new, old]) for new, old in zip(theirs, ours, strict=True))
    proof = field(data, DEPTH_AT, DEPTH_MASK) == PROOF
    worth = (
        data,
        field(data, BOUND_AT, BOUND_MASK) == EXACT,
        field(data, DEPTH_AT, DEPTH_MASK),
        np.where(proof, np.abs(values(data)), 0),  # the shorter mate
    )
    order = np.lexsort((*worth, checks(data), keys))  # of equal ones ours come last
    keys, data, check = keys[order], data[order], checks(data)[order]
    last = np.ones(len(keys), bool)
    last[:-1] = (keys[1:] != keys[:-1]) | (check[1:] != check[:-1])
    chosen = last & (order < len(theirs[0]))
    return keys[chosen], data[chosen]


class _Pieces:
    """The pieces of a file by evaluation, newest first, and the keys that each spans."""

    def __init__(self, store: Store, report: LeaveOut) -> None:
        self._store, self._report = store, report
        self.spans: dict[str, list[tuple[int, int, int, int]]] = {}  # id, entries, first and last key
        for number, evaluation, entries in sorted(saved.listed(store.connection, report), reverse=True):
            piece = saved.read_piece(store, number, report)
            if piece is not None:
                span = (number, entries, int(piece[0][0]), int(piece[0][-1]))
                self.spans.setdefault(evaluation, []).append(span)

    def slices(self, evaluation: str) -> Iterator[tuple[int, int]]:
        """Yields ranges of keys, ends included, with some AT_ONCE entries each."""
        parts = -(-sum(entries for _, entries, _, _ in self.spans[evaluation]) // AT_ONCE)
        for k in range(parts):
            yield (k << 64) // parts, ((k + 1 << 64) // parts) - 1

    def between(self, evaluation: str, low: int, high: int) -> tuple[Words, Words]:
        """Returns the newest entry of each position with a key from `low` to `high`, both included."""
        none = np.zeros(0, np.uint64)
        found = [(none, none)]
        for number, _, first, last in self.spans.get(evaluation, ()):
            piece = saved.read_piece(self._store, number, lambda _: None) if first <= high else None
            if piece is not None and last >= low:
                keys, data = piece
                inside = (keys >= np.uint64(low)) & (keys <= np.uint64(high))
                found.append((keys[inside], data[inside]))
        keys, data = (np.concatenate(part) for part in zip(*found, strict=True))
        return saved.distinct(keys, data)
