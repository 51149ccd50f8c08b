"""Networks of lc0's with random weights: any body, heads, embedding and input that lc0 knows.

What such a network says of chess is nonsense, but it differs from position to position, and lc0 runs it too.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BODIES = {"residual": 4, "attention": 6}
MULTIHEAD = 7
POLICY_KINDS = {"classical": 1, "convolution": 2, "attention": 3}
EMBEDDINGS = {"map": 1, "dense": 2}
DENSE, CHANNELS = 3, 2  # what a dense embedding adds to a square, what smolgen takes of one
ACTIVATIONS = ("default", "mish", "relu", "none", "tanh", "sigmoid", "selu", "swish", "relu_2")


# ------------------------------------------------------------------ a network
@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a network looks like; the defaults are tiny.

    Attributes:
      body: a key of BODIES. blocks: of a residual tower. encoders: of attention.
      width: filters, and numbers of a square. inner: of attention. feed: of feed-forward layers.
      heads: of attention. smolgen: its numbers for each head, 0: none.
      embedding: a key of EMBEDDINGS. policy: a key of POLICY_KINDS. policy_encoders: of an attention policy.
      several: whether there are four policy heads and three value heads, and one more of each by name.
      wdl: whether the value is WDL, else Q. moves_left: whether there is a moves-left head.
      input: the number of an input format.
      activation: relu or mish. smolgen_activation, ffn_activation: one of ACTIVATIONS.
      squeezes: whether residual blocks have squeeze-and-excitation. encoding: of all layers, 1 to 4.
      structure: what the file says of its structure, None: what it has.
    """

    seed: int = 0
    body: str = "attention"
    blocks: int = 2
    encoders: int = 2
    width: int = 16
    inner: int = 16
    feed: int = 24
    heads: int = 2
    smolgen: int = 0
    embedding: str = "map"
    policy: str = "attention"
    policy_encoders: int = 0
    several: bool = False
    wdl: bool = True
    moves_left: bool = False
    input: int = 1
    activation: str = "mish"
    smolgen_activation: str = "default"
    ffn_activation: str = "default"
    squeezes: bool = True
    encoding: int = 1
    structure: int | None = None


class RandomNetwork:
    """A network of a shape: `weights` by lc0's names, as float64 that are exactly what the file holds."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._chance = np.random.default_rng(shape.seed)
        self.weights: dict[str, Any] = self._tower() if shape.body == "residual" else self._attention_body()
        if shape.several:
            self.weights["policy_heads"] = self._policy_heads()
            self.weights["value_heads"] = self._value_heads()
        else:
            self.weights |= self._policy() | self._value()
        if shape.moves_left:
            self.weights |= {
                key.replace("_val", "_mov").replace("value", "moves_left"): value
                for key, value in self._value(outputs=1).items()
            }

    # -------------------------------------------------------------- layers
    def _layer(self, *sizes: int, scale: float | None = None) -> Floats:
        fan_in = int(np.prod(sizes[1:])) if len(sizes) > 1 else 16
        values = self._chance.normal(0, scale or fan_in**-0.5, sizes)
        return rounded(values, self.shape.encoding)

    def _near_one(self, size: int) -> Floats:
        return rounded(self._chance.uniform(0.6, 1.4, size), self.shape.encoding)

    def _convolution(self, outputs: int, inputs: int, size: int) -> dict[str, Floats]:
        return {"weights": self._layer(outputs, inputs, size, size), "biases": self._layer(outputs)}

    def _dense(self, name: str, inputs: int, outputs: int) -> dict[str, Floats]:
        return {f"{name}_w": self._layer(outputs, inputs), f"{name}_b": self._layer(outputs)}

    def _feed(self) -> dict[str, Floats]:
        width, feed = self.shape.width, self.shape.feed
        return self._dense("dense1", width, feed) | self._dense("dense2", feed, width)

    def _norm(self, name: str, width: int) -> dict[str, Floats]:
        return {f"{name}_gammas": self._near_one(width), f"{name}_betas": self._layer(width)}

    # -------------------------------------------------------------- bodies
    def _tower(self) -> dict[str, Any]:
        width = self.shape.width
        stem = self._convolution(width, 112, 3)
        stem["weights"][:, 109] *= 1 / 64  # the clock is large
        stem |= {name: self._layer(width, scale=0.3) for name in ("means", "betas")}
        stem |= {name: self._near_one(width) for name in ("variances", "gammas")}
        blocks = []
        for _ in range(self.shape.blocks):
            block = {"conv1": self._convolution(width, width, 3), "conv2": self._convolution(width, width, 3)}
            if self.shape.squeezes:
                squeezed = max(2, width // 4)
                block["se"] = {
                    "w1": self._layer(squeezed, width),
                    "b1": self._layer(squeezed),
                    "w2": self._layer(2 * width, squeezed),
                    "b2": self._layer(2 * width),
                }
            blocks.append(block)
        return {"input": stem, "residual": blocks}

    def _attention_body(self) -> dict[str, Any]:
        shape = self.shape
        width, dense = shape.width, shape.embedding == "dense"
        out: dict[str, Any] = self._dense("ip_emb_preproc", 64 * 12, 64 * DENSE) if dense else {}
        out |= self._dense("ip_emb", 112 + (DENSE if dense else 64), width)
        out["ip_emb_w"] *= 4  # planes are mostly zeros
        out["ip_emb_w"][:, 109] *= 1 / 128
        out |= {"ip_mult_gate": self._near_one(width * 64), "ip_add_gate": self._layer(width * 64)}
        if dense:
            out |= self._norm("ip_emb_ln", width) | self._norm("ip_emb_ffn_ln", width)
            out["ip_emb_ffn"] = self._feed()
        out["encoder"] = [self._encoder(width) for _ in range(shape.encoders)]
        out["headcount"] = shape.heads
        if shape.smolgen:
            out["smolgen_w"] = self._layer(64 * 64, shape.smolgen)
        return out

    def _encoder(self, width: int) -> dict[str, Any]:
        shape = self.shape
        attention: dict[str, Any] = {}
        for part in "qkv":
            attention |= self._dense(part, width, shape.inner)
        attention |= self._dense("dense", shape.inner, width)
        if shape.smolgen:
            hidden = 2 * shape.smolgen
            smolgen = {"compress": self._layer(CHANNELS, width)}
            smolgen |= self._dense("dense1", 64 * CHANNELS, hidden) | self._norm("ln1", hidden)
            smolgen |= self._dense("dense2", hidden, shape.smolgen * shape.heads)
            attention["smolgen"] = smolgen | self._norm("ln2", shape.smolgen * shape.heads)
        return {"mha": attention, "ffn": self._feed()} | self._norm("ln1", width) | self._norm("ln2", width)

    # -------------------------------------------------------------- heads
    def _policy(self, *, embedding: bool = True) -> dict[str, Any]:
        shape, width = self.shape, self.shape.width
        if shape.policy == "convolution":
            return {"policy1": self._convolution(width, width, 3), "policy": self._convolution(80, width, 3)}
        if shape.policy == "classical":
            return {"policy": self._convolution(4, width, 1)} | self._dense("ip_pol", 64 * 4, 1858)
        out: dict[str, Any] = self._dense("ip_pol", width, width) if embedding else {}
        out |= self._dense("ip2_pol", width, width) | self._dense("ip3_pol", width, width)
        out["ip4_pol_w"] = self._layer(4, width)
        if shape.policy_encoders:
            out["pol_encoder"] = [self._encoder(width) for _ in range(shape.policy_encoders)]
            out["pol_headcount"] = shape.heads
        return out

    def _value(self, outputs: int | None = None) -> dict[str, Any]:
        shape, width = self.shape, self.shape.width
        if shape.body == "residual":
            out: dict[str, Any] = {"value": self._convolution(4, width, 1)}
        else:
            out = self._dense("ip_val", width, 4)
        out |= self._dense("ip1_val", 64 * 4, 8)
        out["ip1_val_w"] *= 4  # so that positions differ in value
        return out | self._dense("ip2_val", 8, outputs or (3 if shape.wdl else 1))

    def _policy_heads(self) -> dict[str, Any]:
        names = ("vanilla", "optimistic_st", "soft", "opponent")
        heads = {name: self._policy(embedding=name == "soft") for name in names}
        shared = self._dense("ip_pol", self.shape.width, self.shape.width)
        return {**shared, **heads, "policy_head_map": [{"key": "mine", "value": self._policy()}]}

    def _value_heads(self) -> dict[str, Any]:
        heads = {name: self._value() for name in ("winner", "q", "st")}
        return {**heads, "value_head_map": [{"key": "mine", "value": self._value()}]}

    # -------------------------------------------------------------- the file
    @property
    def content(self) -> bytes:
        return data(10, message(self.weights, WEIGHTS, self.shape.encoding))

    def format(self, **changes: int) -> bytes:
        """Returns the `Format` message, with changes to what it says of the network."""
        shape = self.shape
        structure = MULTIHEAD if shape.several else BODIES[shape.body]
        said = {
            "input": shape.input,
            "output": 2 if shape.wdl else 1,
            "network": structure if shape.structure is None else shape.structure,
            "policy": POLICY_KINDS[shape.policy],
            "value": 2 if shape.wdl else 1,
            "moves_left": int(shape.moves_left),
            "activation": int(shape.activation == "mish"),
            "smolgen_activation": ACTIVATIONS.index(shape.smolgen_activation),
            "ffn_activation": ACTIVATIONS.index(shape.ffn_activation),
            "input_embedding": EMBEDDINGS[shape.embedding],
        } | changes
        fields = b"".join(number(key, value) for key, value in enumerate(said.values(), 1))
        return number(1, 1) + data(2, fields)

    @property
    def message(self) -> bytes:
        return net(self.format(), self.content, version=(0, 30, 0))

    @property
    def file(self) -> bytes:
        return gzip.compress(self.message, 1, mtime=0)


def tower(seed: int = 0, **changes: Any) -> RandomNetwork:
    """Returns a small residual network with convolutional policy, with changes to its shape."""
    usual: dict[str, Any] = {"body": "residual", "policy": "convolution", "activation": "relu", "width": 6}
    return RandomNetwork(Shape(seed=seed, **usual | changes))


# ------------------------------------------------------------------ lc0's net.proto: field -> number, message
def _fields(words: str, **messages: Any) -> dict[str, Any]:
    """Returns the fields of a message by name: numbers from 1 on, `-` for one that nobody writes.

    >>> _fields("a - b", b={"c": (1, None)})
    {'a': (1, None), 'b': (3, {'c': (1, None)})}
    """
    return {name: (i, messages.get(name)) for i, name in enumerate(words.split(), 1) if name != "-"}


CONVOLUTION = _fields("weights biases means variances gammas betas")
SQUEEZE = _fields("w1 b1 w2 b2")
RESIDUAL = _fields("conv1 conv2 se", conv1=CONVOLUTION, conv2=CONVOLUTION, se=SQUEEZE)
SMOLGEN = _fields("compress dense1_w dense1_b ln1_gammas ln1_betas dense2_w dense2_b ln2_gammas ln2_betas")
ATTENTION = _fields("q_w q_b k_w k_b v_w v_b dense_w dense_b smolgen rpe_q", smolgen=SMOLGEN)
FEED = _fields("dense1_w dense1_b dense2_w dense2_b")
ENCODER = _fields("mha ln1_gammas ln1_betas ffn ln2_gammas ln2_betas", mha=ATTENTION, ffn=FEED)
POLICY = _fields(
    "ip_pol_w ip_pol_b ip2_pol_w ip2_pol_b ip3_pol_w ip3_pol_b ip4_pol_w pol_encoder pol_headcount"
    " policy1 policy",
    pol_encoder=ENCODER,
    policy1=CONVOLUTION,
    policy=CONVOLUTION,
)
VALUE = _fields("ip_val_w ip_val_b ip1_val_w ip1_val_b ip2_val_w ip2_val_b - - - - value", value=CONVOLUTION)
NAMED_POLICY, NAMED_VALUE = _fields("key value", value=POLICY), _fields("key value", value=VALUE)
POLICIES = _fields(
    "ip_pol_w ip_pol_b vanilla optimistic_st soft opponent policy_head_map",
    **dict.fromkeys(("vanilla", "optimistic_st", "soft", "opponent"), POLICY),
    policy_head_map=NAMED_POLICY,
)
VALUES = _fields("winner q st value_head_map", winner=VALUE, q=VALUE, st=VALUE, value_head_map=NAMED_VALUE)
WEIGHTS = _fields(
    "input residual policy ip_pol_w ip_pol_b value ip1_val_w ip1_val_b ip2_val_w ip2_val_b policy1"
    " moves_left ip1_mov_w ip1_mov_b ip2_mov_w ip2_mov_b ip2_pol_w ip2_pol_b ip3_pol_w ip3_pol_b"
    " pol_encoder ip4_pol_w - pol_headcount ip_emb_w ip_emb_b encoder headcount ip_val_w ip_val_b"
    " ip_mov_w ip_mov_b ip_mult_gate ip_add_gate smolgen_w - ip_emb_preproc_w ip_emb_preproc_b"
    " ip_emb_ln_gammas ip_emb_ln_betas ip_emb_ffn ip_emb_ffn_ln_gammas ip_emb_ffn_ln_betas"
    " value_heads policy_heads",
    **dict.fromkeys(("input", "policy", "value", "policy1", "moves_left"), CONVOLUTION),
    residual=RESIDUAL,
    pol_encoder=ENCODER,
    encoder=ENCODER,
    ip_emb_ffn=FEED,
    value_heads=VALUES,
    policy_heads=POLICIES,
)
MAGIC = 0x1C0


# ------------------------------------------------------------------ protocol buffers
def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def number(key: int, value: int) -> bytes:
    return varint(key << 3) + varint(value)


def data(key: int, value: bytes) -> bytes:
    return varint(key << 3 | 2) + varint(len(value)) + value


def word(key: int, value: int) -> bytes:
    return varint(key << 3 | 5) + struct.pack("<I", value)


def real(key: int, value: float) -> bytes:
    return varint(key << 3 | 5) + struct.pack("<f", value)


def layer(values: Floats, encoding: int) -> bytes:
    """Returns a `Layer` message; LINEAR16 does not say so, as in the files that lc0 has written for years."""
    flat = values.reshape(-1)
    if encoding == 1:
        low, high = float(flat.min()), float(flat.max())
        return real(1, low) + real(2, high) + data(3, _steps(flat).astype("<u2").tobytes())
    if encoding == 3:
        halves = (flat.astype("<f4").view("<u4") >> 16).astype("<u2")
    else:
        halves = flat.astype({2: "<f2", 4: "<f4"}[encoding])
    return data(3, halves.tobytes()) + number(4, encoding)


def _steps(values: Floats) -> Floats:
    """Returns numbers as LINEAR16 keeps them: steps from the least to the largest."""
    low, high = values.min(), values.max()
    return np.asarray(np.round((values - low) / ((high - low) or 1.0) * 65535))


def message(fields: Mapping[str, Any], known: Mapping[str, Any], encoding: int) -> bytes:
    out = []
    for name, value in fields.items():
        key, inner = known[name]
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                out.append(data(key, message(one, inner, encoding)))
            elif isinstance(one, int):
                out.append(number(key, one))
            else:
                out.append(data(key, one.encode() if isinstance(one, str) else layer(one, encoding)))
    return b"".join(out)


def rounded(values: Floats, encoding: int) -> Floats:
    if encoding == 1:
        low, high = values.min(), values.max()
        return np.asarray(low + _steps(values) / 65535 * (high - low))
    if encoding == 3:
        upper_half = values.astype("<f4").view("<u4") & np.uint32(0xFFFF0000)
        return upper_half.view("<f4").astype(np.float64)
    return values.astype({2: np.float16, 4: np.float32}[encoding]).astype(np.float64)


def net(form: bytes, content: bytes, *, version: tuple[int, int, int] = (0, 21, 0)) -> bytes:
    versions = b"".join(number(i, part) for i, part in enumerate(version, 1))
    return word(1, MAGIC) + data(2, b"free") + data(3, versions) + data(4, form) + content
