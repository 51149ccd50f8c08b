"""Converts float32 weights to the integers of the evaluator, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphsearch.evaluators.builtin import layout
from graphsearch.evaluators.builtin.weights import INT32_ROOM, Networks
from tools.training.policy_learning import PolicyArrays
from tools.training.value_learning import F32, ValueArrays

FULL_RANGE = 30_000  # largest int16 magnitude in last layers
FINEST = 4096.0  # largest unit (the integer of 1.0) of a layer


def integers(array: F32, unit: float) -> NDArray[np.int16]:
    """Returns an array in units of 1 / unit, rounded to int16."""
    return np.clip(np.round(array * unit), -32767, 32767).astype("<i2")


def finest_unit(rows: F32) -> Any:
    """Returns each row's unit (the integer of 1.0): weights fit into 16 bits, sums of products into 32."""
    most, largest = np.abs(rows).max(axis=-1), np.abs(rows).sum(axis=-1)
    room = np.minimum(FULL_RANGE / np.maximum(most, 1e-9), 0.98 * INT32_ROOM / np.maximum(largest, 1e-9))
    return np.minimum(FINEST, room)


def rounded(value: ValueArrays, policy: PolicyArrays, card: dict[str, Any]) -> Networks:
    """Returns the networks in the evaluator's format."""
    full, width = float(layout.FULL), len(value.bias)
    units = finest_unit(value.first)
    first = integers(value.first * units[..., None].astype(np.float32), 1.0)
    tables = {"from": policy.leaves, "to": policy.goes, "class": policy.kinds}
    unit = min(float(finest_unit(table).min()) for table in tables.values())
    arrays: dict[str, NDArray[Any]] = {
        "value_rows": integers(value.rows, full),
        "value_bias": integers(value.bias, full),
        "value_first": first.reshape(*first.shape[:2], 2, width),
        "value_plain": np.stack([value.first_bias, 1 / (full**2 * units)]).astype("<f4"),
        "value_second": value.second.astype("<f4"),
        "value_last": value.last.astype("<f4"),
        "policy_rows": integers(policy.rows, full),
        "policy_bias": integers(policy.bias, full),
        **{name: integers(table, unit) for name, table in tables.items()},
        "class_plain": np.append(policy.plain, 1 / (full**2 * unit)).astype("<f4"),
    }
    return Networks.of(arrays, {"value_width": width, "policy_width": len(policy.bias), **card})


def unrounded(networks: Networks) -> dict[str, Any]:
    """Returns both networks in float32, by name: the inverse of `rounded`."""
    arrays = {name: array.astype(np.float32) for name, array in networks.arrays.items()}
    full, width = float(layout.FULL), networks.widths[0]
    first_bias, first_unit = arrays["value_plain"]
    first = arrays["value_first"].reshape(*first_unit.shape, 2 * width) * (full**2 * first_unit[..., None])
    unit = full**2 * arrays["class_plain"][-1]
    return {
        "value": ValueArrays(
            arrays["value_rows"] / full,
            arrays["value_bias"] / full,
            first.astype(np.float32),
            first_bias.copy(),
            arrays["value_second"],
            arrays["value_last"],
        ),
        "policy": PolicyArrays(
            arrays["policy_rows"] / full,
            arrays["policy_bias"] / full,
            np.float32(unit) * arrays["from"],
            np.float32(unit) * arrays["to"],
            np.float32(unit) * arrays["class"],
            arrays["class_plain"][:-1].copy(),
        ),
    }
