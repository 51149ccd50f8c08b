"""Tiny random networks in lc0's file format, written byte by byte, and what they answer by definition."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from .lc0_format import data, layer, net, number, rounded, word

__all__ = [
    "Tiny",
    "convolved",
    "data",
    "net",
    "number",
    "planes_shown",
    "policy_cell",
    "policy_texts",
    "softmax",
    "word",
]

Floats = NDArray[np.float64]

FILTERS, SQUEEZED, POLICY_CHANNELS, VALUE_CHANNELS, HIDDEN = 6, 3, 2, 2, 5


# ------------------------------------------------------------------ a network
@dataclass
class Tiny:
    """A random network: what its file says of its shape, and its weights by name.

    `file` is the `.pb.gz`, `answer` what the network says of planes.
    """

    seed: int = 0
    convolutional: bool = True
    wdl: bool = True
    squeezes: bool = True
    mish: bool = False
    blocks: int = 2
    encoding: int | None = None
    old: bool = False  # a file from before the heads were named
    arrays: dict[str, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        chance = np.random.default_rng(self.seed)

        def add(name: str, *shape: int) -> None:
            fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else 4
            self.arrays[f"{name}.w"] = chance.normal(0, fan_in**-0.5, shape)
            self.arrays[f"{name}.b"] = chance.normal(0, 0.2, shape[0])

        add("stem", FILTERS, 112, 3, 3)
        self.arrays["stem.w"][:, 109] *= 0.02  # the clock is large
        for part in ("means", "betas"):
            self.arrays[f"stem.{part}"] = chance.normal(0, 0.3, FILTERS)
        for part in ("variances", "gammas"):
            self.arrays[f"stem.{part}"] = chance.uniform(0.5, 2, FILTERS)
        for i in range(self.blocks):
            add(f"{i}.first", FILTERS, FILTERS, 3, 3)
            add(f"{i}.second", FILTERS, FILTERS, 3, 3)
            add(f"{i}.squeeze", SQUEEZED, FILTERS)
            add(f"{i}.excite", 2 * FILTERS, SQUEEZED)
        if self.convolutional:
            add("policy.first", FILTERS, FILTERS, 3, 3)
            add("policy.last", 80, FILTERS, 3, 3)
        else:
            add("policy.last", POLICY_CHANNELS, FILTERS, 1, 1)
            add("policy.dense", 1858, 64 * POLICY_CHANNELS)
        add("value", VALUE_CHANNELS, FILTERS, 1, 1)
        add("value.hidden", HIDDEN, 64 * VALUE_CHANNELS)
        add("value.output", 3 if self.wdl else 1, HIDDEN)
        self.arrays["value.hidden.w"] *= 5  # so that positions differ in value
        for name, values in self.arrays.items():
            self.arrays[name] = rounded(values, self.encoding)

    # -------------------------------------------------------------- its file
    def layer(self, key: int, name: str) -> bytes:
        return data(key, layer(self.arrays[name], self.encoding))

    def block(self, key: int, name: str) -> bytes:
        return data(key, self.layer(1, f"{name}.w") + self.layer(2, f"{name}.b"))

    def weights(self) -> bytes:
        """Returns the `Weights` message."""
        names = ("w", "b", "means", "variances", "gammas", "betas")
        out = data(1, b"".join(self.layer(i, f"stem.{name}") for i, name in enumerate(names, 1)))
        for i in range(self.blocks):
            unit = [("squeeze.w", 1), ("squeeze.b", 2), ("excite.w", 3), ("excite.b", 4)]
            squeeze = data(3, b"".join(self.layer(key, f"{i}.{name}") for name, key in unit))
            block = self.block(1, f"{i}.first") + self.block(2, f"{i}.second")
            out += data(2, block + (squeeze if self.squeezes else b""))
        if self.convolutional:
            out += self.block(11, "policy.first") + self.block(3, "policy.last")
        else:
            out += self.block(3, "policy.last")
            out += self.layer(4, "policy.dense.w") + self.layer(5, "policy.dense.b")
        out += self.block(6, "value")
        out += self.layer(7, "value.hidden.w") + self.layer(8, "value.hidden.b")
        return out + self.layer(9, "value.output.w") + self.layer(10, "value.output.b")

    def format(self, **changes: int) -> bytes:
        """Returns the `Format` message, with changes to what it says of the network."""
        structure = (2 if self.squeezes else 1) + (0 if self.old else 2)
        said = {"input": 1, "output": 2 if self.wdl else 1, "network": structure}
        if not self.old:
            said |= {"policy": 2 if self.convolutional else 1, "value": 2 if self.wdl else 1}
        said |= {"activation": int(self.mish)} | changes
        keys = {"input": 1, "output": 2, "network": 3, "policy": 4, "value": 5, "activation": 7}
        return number(1, 1) + data(2, b"".join(number(keys[name], value) for name, value in said.items()))

    @property
    def message(self) -> bytes:
        """The `Net` message."""
        return net(self.format(), data(10, self.weights()))

    @property
    def file(self) -> bytes:
        """The `.pb.gz`."""
        return gzip.compress(self.message, mtime=0)

    # -------------------------------------------------------------- its answers
    def answer(self, planes: Floats) -> tuple[Floats, Floats]:
        """Returns logits `[B, 1858]`, and WDL `[B, 3]` or Q `[B, 1]`."""
        a = self.arrays
        scale = a["stem.gammas"] / np.sqrt(a["stem.variances"] + 1e-5)
        flow = convolved(planes, a["stem.w"], a["stem.b"] - a["stem.means"])
        flow = self.active(flow * scale[:, None, None] + a["stem.betas"][:, None, None])
        for i in range(self.blocks):
            flow = self.residual(flow, i)
        hidden = self.active(convolved(flow, a["value.w"], a["value.b"])).reshape(len(planes), -1)
        hidden = self.active(hidden @ a["value.hidden.w"].T + a["value.hidden.b"])
        value = hidden @ a["value.output.w"].T + a["value.output.b"]
        return self.logits(flow), softmax(value) if self.wdl else np.tanh(value)

    def residual(self, flow: Floats, i: int) -> Floats:
        a = self.arrays
        inner = self.active(convolved(flow, a[f"{i}.first.w"], a[f"{i}.first.b"]))
        inner = convolved(inner, a[f"{i}.second.w"], a[f"{i}.second.b"])
        if self.squeezes:
            small = self.active(inner.mean((2, 3)) @ a[f"{i}.squeeze.w"].T + a[f"{i}.squeeze.b"])
            both = (small @ a[f"{i}.excite.w"].T + a[f"{i}.excite.b"])[:, :, None, None]
            inner = inner / (1 + np.exp(-both[:, :FILTERS])) + both[:, FILTERS:]
        return self.active(inner + flow)

    def logits(self, flow: Floats) -> Floats:
        a = self.arrays
        if self.convolutional:
            inner = self.active(convolved(flow, a["policy.first.w"], a["policy.first.b"]))
            cells = convolved(inner, a["policy.last.w"], a["policy.last.b"])
            return np.stack([cells[:, p, s // 8, s % 8] for p, s in map(policy_cell, policy_texts())], axis=1)
        inner = self.active(convolved(flow, a["policy.last.w"], a["policy.last.b"]))
        return np.asarray(inner.reshape(len(flow), -1) @ a["policy.dense.w"].T + a["policy.dense.b"])

    def active(self, x: Floats) -> Floats:
        return x * np.tanh(np.log1p(np.exp(x))) if self.mish else np.maximum(x, 0)


def convolved(planes: Floats, kernel: Floats, bias: Floats) -> Floats:
    size = kernel.shape[-1]
    edge = size // 2
    padded = np.pad(planes, ((0, 0), (0, 0), (edge, edge), (edge, edge)))
    out = np.zeros((len(planes), len(kernel), 8, 8))
    for dy in range(size):
        for dx in range(size):
            out += np.einsum("bihw,oi->bohw", padded[:, :, dy : dy + 8, dx : dx + 8], kernel[:, :, dy, dx])
    return out + bias[:, None, None]


def softmax(x: Floats) -> Floats:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def planes_shown(shown: Any) -> NDArray[np.float32]:
    """Returns the planes that lc0's bindings show a network."""
    masks = np.array([shown.mask(i) for i in range(112)], "<u8")
    values = np.array([shown.val(i) for i in range(112)], np.float32)
    bits = np.unpackbits(masks.view(np.uint8), bitorder="little").reshape(112, 8, 8)
    return np.asarray(bits * values[:, None, None], np.float32)


# ------------------------------------------------------------------ its moves
@cache
def policy_texts() -> list[str]:
    """Returns the 1858 moves of a policy, such as `a1b1` and `a7a8q`."""
    texts = []
    for square in chess.SQUARES:
        reached: set[int] = set()
        for kind in (chess.QUEEN, chess.KNIGHT):
            board = chess.Board(None)
            board.set_piece_at(square, chess.Piece(kind, chess.WHITE))
            reached |= set(board.attacks(square))
        texts += [chess.square_name(square) + chess.square_name(to) for to in sorted(reached)]
    for a in "abcdefgh":
        for b in "abcdefgh":
            if abs(ord(a) - ord(b)) <= 1:
                texts += [f"{a}7{b}8{letter}" for letter in "qrb"]
    return texts


def policy_cell(text: str) -> tuple[int, int]:
    """Returns the plane and the square of a move in a convolutional head."""
    a, b = chess.parse_square(text[:2]), chess.parse_square(text[2:4])
    dx, dy = b % 8 - a % 8, b // 8 - a // 8
    if len(text) == 5:
        return {"r": 64, "b": 65, "q": 66}[text[4]] + 3 * (dx + 1), a
    if 0 not in (dx, dy) and abs(dx) != abs(dy):
        clockwise = [(1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1), (-2, 1), (-1, 2)]
        return 56 + clockwise.index((dx, dy)), a
    steps = max(abs(dx), abs(dy))
    eighth = round(np.arctan2(dx, dy) / (np.pi / 4)) % 8  # of a turn, from north by east
    return 7 * eighth + steps - 1, a
