"""Merges transposition entries: of two entries of the same position and evaluation, the better one counts.

A proof is better than other entries, a shorter mate better than a longer one; then greater depth, then an
exact value. The raw data break the last ties, so that the order of the files does not matter. Better entries
are appended, because the newest counts.
"""

from __future__ import annotations

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

Words = NDArray[np.uint64]


def unite(store: Store, one: Input, leave_out: LeaveOut) -> dict[str, int]:
    """Merges the entries of an input, in an open transaction; returns the number written.

    Args:
      leave_out: called with a message for each damaged piece.
    """
    written = 0
    for evaluation in sorted({row[1] for row in saved.listed(one.connection, leave_out)}):
        theirs = saved.load_only(one.store, evaluation, leave_out)
        ours = saved.load_only(store, evaluation, lambda _: None)  # `store verify` names them
        keys, data = better((ours.keys, ours.data), (theirs.keys, theirs.data))
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
