"""The built-in evaluator's fitted weights, from the JSON file beside this module; no Numba."""

from __future__ import annotations

import json
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from .layout import (
    MOVE_GROUPS,
    OFFSETS,
    SCALAR_GROUPS,
    TAPERED_GROUPS,
    VERIFICATIONS,
    VERIFIED_MOVES,
    VERIFIED_PLIES,
    VERIFY_DEPTH,
    WEIGHT_COUNT,
)

WEIGHTS_FILE = "weights.json"

Weights = NDArray[np.int64]


def pack_pairs(pairs: list[list[int]]) -> list[int]:
    """Returns [middlegame, endgame] pairs as the kernels read them: one integer each, endgame above.

    >>> pack_pairs([[5, 0], [-1, 2]])
    [5, 8589934591]
    """
    return [middle + (end << 32) for middle, end in pairs]


def weights_from_groups(groups: dict[str, list[list[int]] | list[int]]) -> Weights:
    """Returns the weights as one array, `int64[WEIGHT_COUNT]`, with the default depth behind them.

    Args:
      groups: every group of `evaluation_layout`, as long as it says there, of pairs or plain integers.

    Raises:
      ValueError: if a group is missing, unknown or of another length.
    """
    sizes = TAPERED_GROUPS | MOVE_GROUPS | SCALAR_GROUPS
    if groups.keys() != sizes.keys():
        raise ValueError(f"weight groups differ from the layout: {sorted(groups.keys() ^ sizes.keys())}")
    out = np.zeros(WEIGHT_COUNT, np.int64)
    for name, size in sizes.items():
        values = groups[name]
        if len(values) != size:
            raise ValueError(f"weight group {name!r} has {len(values)} entries, expected {size}")
        out[OFFSETS[name] : OFFSETS[name] + size] = values if name in SCALAR_GROUPS else pack_pairs(values)  # type: ignore[arg-type]
    return with_depth(out, VERIFY_DEPTH)


def with_depth(weights: Weights, depth: int) -> Weights:
    """Returns the weights with another `verify_depth`, an index of `VERIFICATIONS`."""
    out = weights.copy()
    out[VERIFIED_MOVES], out[VERIFIED_PLIES] = VERIFICATIONS[depth]
    return out


def load_weights() -> Weights:
    """Returns the fitted weights and the default depth, `int64[WEIGHT_COUNT]`."""
    text = files(__package__).joinpath(WEIGHTS_FILE).read_text(encoding="utf-8")
    return weights_from_groups(json.loads(text)["groups"])
