"""Makes a state of training from the networks of version 1, before kings had buckets: their answers stay.

    git show e8efe93:graphsearch/evaluators/builtin/networks.bin > old.bin
    python -m tools.training begin STATE.npz old.bin

A row of a man with its state becomes the man's row, which is that of an unattacked and defended one, and the
row of its state, the difference. The value network's last layer becomes the linear part; the small layers
begin with no effect. The policy network gets as many new units as --policy-width needs, with small weights.
"""

from __future__ import annotations

import argparse
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from graphsearch.evaluators.builtin import layout as at
from tools.training import policy_learning, value_learning
from tools.training.policy_learning import PolicyArrays
from tools.training.train import State, share_buckets
from tools.training.value_learning import F32, ValueArrays

MAGIC = b"gsnets1\n"
OLD_KINDS = 28
SAFE = 1  # state of a man that nothing attacks and something defends
Arrays = dict[str, Any]


def read_old(data: bytes) -> tuple[Arrays, dict[str, Any]]:
    """Returns the arrays and the card of a file of version 1."""
    if data[: len(MAGIC)] != MAGIC:
        raise ValueError("it is no file of networks of version 1")
    (length,) = struct.unpack_from("<I", data, len(MAGIC))
    begin = len(MAGIC) + 4
    card = json.loads(data[begin : begin + length])
    v, p, old = card["value_width"], card["policy_width"], 6 * at.BOARD_FEATURES
    shapes: dict[str, tuple[str, tuple[int, ...]]] = {
        "value_rows": ("<i2", (old, v)),
        "value_bias": ("<i2", (v,)),
        "value_out": ("<i2", (at.STACKS, at.OUTPUTS, 2, v)),
        "value_plain": ("<f4", (at.STACKS + 1, at.OUTPUTS)),
        "policy_rows": ("<i2", (old, p)),
        "policy_bias": ("<i2", (p,)),
        "from": ("<i2", (at.PLACES, p)),
        "to": ("<i2", (at.PLACES, p)),
        "class": ("<i2", (6 * OLD_KINDS, p)),
        "class_plain": ("<f4", (6 * OLD_KINDS + 1,)),
    }
    plain = zstandard.ZstdDecompressor().decompress(data[begin + length :])
    arrays, where = {}, 0
    for name, (dtype, shape) in shapes.items():
        arrays[name] = np.frombuffer(plain, dtype, int(np.prod(shape)), where).reshape(shape)
        where += arrays[name].nbytes
    return {name: array.astype(np.float32) for name, array in arrays.items()}, card


def mapped_rows(old: F32, rows: F32) -> None:
    """Writes rows of men with states as rows of men and of states."""
    states = old.reshape(6, at.BOARD_FEATURES, -1) / at.FULL
    rows[: at.BOARD_FEATURES] = states[SAFE]
    share_buckets(rows)
    others = np.delete(states, SAFE, axis=0) - states[SAFE]
    rows[at.THREATS_AT :] = others.reshape(at.STATES * at.BOARD_FEATURES, -1)


def value_of(old: Arrays, rng: np.random.Generator) -> ValueArrays:
    """Returns the value network."""
    width = len(old["value_bias"])
    new = value_learning.new_network(width, rng)
    mapped_rows(old["value_rows"], new.rows)
    new.bias[:] = old["value_bias"] / at.FULL
    unit = old["value_plain"][-1] * at.FULL**2
    new.first[:, at.FIRST :] = old["value_out"].reshape(at.STACKS, at.OUTPUTS, -1) * unit[:, None]
    new.first_bias[:, at.FIRST :] = old["value_plain"][:-1]
    new.last[:] = 0
    return new


def policy_of(old: Arrays, width: int, rng: np.random.Generator) -> PolicyArrays:
    """Returns the policy network."""
    new, w = policy_learning.new_network(width, rng), len(old["policy_bias"])
    mapped_rows(old["policy_rows"], new.rows[:, :w])
    new.bias[:w] = old["policy_bias"] / at.FULL
    unit = float(old["class_plain"][-1]) * at.FULL**2
    for target, name in ((new.leaves, "from"), (new.goes, "to")):
        target[:, w:] *= 0.2
        target[:, :w] = old[name] * unit
    kinds = (old["class"] * unit).reshape(6, 1, OLD_KINDS, w)
    new.kinds[:, w:] *= 0.2
    new.kinds[:, :w] = np.tile(kinds, (1, 2, 1, 1)).reshape(at.CLASSES, w)
    new.plain[:] = np.tile(old["class_plain"][:-1].reshape(6, 1, OLD_KINDS), (1, 2, 1)).ravel()
    return new


def add_arguments(out: argparse.ArgumentParser) -> None:
    """Adds what the command takes."""
    out.add_argument("state", type=Path)
    out.add_argument("old", type=Path, help="file of networks of version 1")
    out.add_argument("--policy-width", type=int, default=512)
    out.add_argument("--seed", type=int, default=1)


def run(options: argparse.Namespace) -> int:
    """Writes the state; returns the exit code."""
    arrays, card = read_old(options.old.read_bytes())
    rng = np.random.default_rng(options.seed)
    networks = {"value": value_of(arrays, rng), "policy": policy_of(arrays, options.policy_width, rng)}
    State(networks, card["stages"]).write(options.state)
    return 0
