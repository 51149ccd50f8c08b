"""Converts float32 weights to the integers of the evaluator, and back.

    python -m tools.training begin STATE.npz graphsearch/evaluators/builtin/networks.bin
    python -m tools.training pack networks.bin value.npz policy.npz --card card.json

`begin` makes a state of training from a file of networks, so that learning goes on from it. `pack` writes the
file of networks that the package ships. Both networks may come from one state, or each from its own.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphsearch.evaluators.builtin import layout
from graphsearch.evaluators.builtin.weights import INT32_ROOM, ROW_BITS, Networks, read_networks
from tools.training.policy_learning import PolicyArrays
from tools.training.train import State
from tools.training.value_learning import F32, ValueArrays

FULL_RANGE = 30_000  # largest int16 magnitude in last layers
FINEST = 4096.0  # largest unit (the integer of 1.0) of a layer


def integers(array: F32, unit: float, bits: int = 16) -> NDArray[Any]:
    """Returns an array in units of 1 / unit, rounded to integers of 8 or 16 bits."""
    most = (1 << (bits - 1)) - 1
    return np.clip(np.round(array * unit), -most, most).astype(f"<i{bits // 8}")


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
        "value_rows": integers(value.rows, full, ROW_BITS),
        "value_bias": integers(value.bias, full),
        "value_first": first.reshape(*first.shape[:2], 2, width),
        "value_plain": np.stack([value.first_bias, 1 / (full**2 * units)]).astype("<f4"),
        "value_second": value.second.astype("<f4"),
        "value_last": value.last.astype("<f4"),
        "policy_rows": integers(policy.rows, full, ROW_BITS),
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


# ------------------------------------------------------------------ commands
def add_arguments(out: argparse.ArgumentParser) -> None:
    """Adds the arguments of `begin` or `pack`."""
    if out.prog.endswith("begin"):
        out.add_argument("state", type=Path)
        out.add_argument("networks", type=Path, help="file that `pack` wrote")
        return
    out.add_argument("out", type=Path, help="file of networks to write")
    out.add_argument("value", type=Path, help="state of the value network")
    out.add_argument("policy", type=Path, help="state of the policy network")
    out.add_argument("--card", type=Path, help="JSON object for the card: where all comes from, figures")


def run(options: argparse.Namespace) -> int:
    """Writes the state or the file of networks; returns the exit code."""
    if options.command == "begin":
        networks = read_networks(options.networks.read_bytes(), str(options.networks))
        State(unrounded(networks), networks.card["stages"]).write(options.state)
        return 0
    card = json.loads(options.card.read_text()) if options.card else {}
    states = {name: State.read(getattr(options, name)) for name in ("value", "policy")}
    stages = ((name, stage) for name, state in states.items() for stage in state.stages)
    card["stages"] = [stage for name, stage in stages if stage["name"].startswith(name)]
    value, policy = (state.networks[name] for name, state in states.items())
    rounded(value, policy, card).write(options.out)
    return 0
