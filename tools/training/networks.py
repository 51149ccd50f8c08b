"""Both networks in float32, the file that keeps them between runs, and their integers for the evaluator.

    python -m tools.training pack networks.bin state.npz --card card.json

writes the file of networks that the package ships.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zstandard
from numpy.typing import NDArray

from graphsearch.evaluators.builtin.evaluator import MAGIC, ROW_BITS, Networks, read_networks
from graphsearch.evaluators.builtin.layout import (
    CLASSES,
    FEATURES,
    FIRST,
    FULL,
    OUTPUTS,
    PLACES,
    SECOND,
    STACKS,
)

F32 = NDArray[np.float32]
STAGES = "stages"  # in the file of a state
FULL_RANGE = 30_000  # largest int16 magnitude in last layers
INT32_ROOM = (1 << 31) // FULL**2  # limit of the sum of magnitudes in a row of weights over activations
FINEST = 4096.0  # largest unit (the integer of 1.0) of a layer


class ValueArrays(NamedTuple):
    """The value network, or numbers of the same form.

    Attributes:
      rows: `[FEATURES, width]`. bias: `[width]`.
      first: `[STACKS, FIRST + OUTPUTS, 2 width]`, the first layer and the linear part; in training with
        further outputs, the hints. first_bias: of all.
      second: `[STACKS, 2 FIRST + 1, SECOND]`, weights of clipped inputs, of squared inputs, then biases.
      last: `[STACKS, SECOND, OUTPUTS]`.
    """

    rows: Any
    bias: Any
    first: Any
    first_bias: Any
    second: Any
    last: Any

    @classmethod
    def new(cls, width: int, rng: np.random.Generator) -> ValueArrays:
        """Returns a randomly initialised network."""

        def some(most: float, *shape: int) -> F32:
            return rng.uniform(-most, most, shape).astype(np.float32)

        first, last = some(0.05, STACKS, FIRST + OUTPUTS, 2 * width), some(0.1, STACKS, SECOND, OUTPUTS)
        first[:, FIRST + 1 :] *= 0.02
        last[:, :, 1:] *= 0.02
        first_bias = np.full((STACKS, FIRST + OUTPUTS), 0.1, np.float32)
        first_bias[:, FIRST:] = 0.0, -0.1, -1.5
        second = some(0.15, STACKS, 2 * FIRST + 1, SECOND)
        second[:, -1] = 0.1
        bias = np.full(width, 0.1, np.float32)
        return cls(some(0.05, FEATURES, width), bias, first, first_bias, second, last)


class PolicyArrays(NamedTuple):
    """The policy network, or numbers of the same form: arrays `[..., width]`, except `plain`: `[CLASSES]`.

    A move's logit is hidden . (row of piece and origin + row of piece and target + row of the class), plus
    the class's bias.
    """

    rows: Any
    bias: Any
    leaves: Any
    goes: Any
    kinds: Any
    plain: Any

    @classmethod
    def new(cls, width: int, rng: np.random.Generator) -> PolicyArrays:
        """Returns a randomly initialised network."""

        def some(*shape: int) -> F32:
            return rng.uniform(-0.05, 0.05, shape).astype(np.float32)

        rows, bias = some(FEATURES, width), np.full(width, 0.2, np.float32)
        leaves, goes, kinds = some(PLACES, width), some(PLACES, width), some(CLASSES, width)
        return cls(rows, bias, leaves, goes, kinds, np.zeros(CLASSES, np.float32))


NETWORKS: dict[str, Any] = {"value": ValueArrays, "policy": PolicyArrays}


@dataclass
class State:
    """Both networks, by name, and the stages of their training: one object each, in order."""

    networks: dict[str, Any]
    stages: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def new(cls, widths: Sequence[int], seed: int) -> State:
        """Returns randomly initialised networks; `widths`: of the value and of the policy network."""
        rng = np.random.default_rng(seed)
        return cls({name: form.new(w, rng) for (name, form), w in zip(NETWORKS.items(), widths, strict=True)})

    @classmethod
    def of(cls, path: Path) -> State:
        """Returns the networks of a file for the evaluator."""
        networks = read_networks(path.read_bytes())
        return cls(unrounded(networks), networks.card["stages"])

    @classmethod
    def read(cls, path: Path) -> State:
        """Returns the state of a file written by `write`."""
        with np.load(path) as arrays:
            networks = {
                name: form(*(arrays[f"{name}.{part}"] for part in form._fields))
                for name, form in NETWORKS.items()
            }
            return cls(networks, json.loads(str(arrays[STAGES])))

    def write(self, path: Path) -> None:
        """Writes the state; replaces the file atomically."""
        arrays: dict[str, Any] = {STAGES: np.array(json.dumps(self.stages))}
        for name, network in self.networks.items():
            arrays |= {f"{name}.{part}": array for part, array in network._asdict().items()}
        new = path.with_suffix(".part")
        with new.open("wb") as file:
            np.savez(file, **arrays)
        new.replace(path)


# ------------------------------------------------------------------ integers
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
    full, width = float(FULL), len(value.bias)
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
    full, width = float(FULL), networks.widths[0]
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


# ------------------------------------------------------------------ pack
def add_arguments(out: argparse.ArgumentParser) -> None:
    """Adds the arguments of `pack`."""
    out.add_argument("out", type=Path, help="file of networks to write")
    out.add_argument("state", type=Path, help="file of `distil`")
    out.add_argument("--card", type=Path, help="JSON object for the card: where all comes from, figures")


def run(options: argparse.Namespace) -> int:
    """Writes the file of networks; returns the exit code."""
    state, card = State.read(options.state), json.loads(options.card.read_text()) if options.card else {}
    value, policy = (state.networks[name] for name in NETWORKS)
    write_networks(options.out, rounded(value, policy, card | {"stages": state.stages}))
    return 0


def write_networks(path: Path, networks: Networks) -> None:
    """Writes a file of networks."""
    card = json.dumps(networks.card, indent=1).encode()
    packed = zstandard.ZstdCompressor(level=12).compress(networks.plain())
    path.write_bytes(MAGIC + len(card).to_bytes(4, "little") + card + packed)
