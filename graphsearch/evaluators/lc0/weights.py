"""Reads lc0's network files (`.pb.gz`: a gzipped protocol buffer of lc0's net.proto) into arrays.

It supports residual towers with or without squeeze-and-excitation, attention bodies, both together, every
policy and value head that lc0 runs, and files that wrap an ONNX model. It ignores the moves-left head. An
error for anything else gives its name in the format.

Decodes protocol buffers by field numbers, without a schema compiler.

It supports only the types in lc0's `net.proto`: varints, 32- and 64-bit words, bytes and nested messages. For
a field that is not repeated the last value counts, as the format requires.

A network's weights: one class for each kind of layer, body and head of lc0.

Weights are float32. A fully connected layer has `[out, in]`; squares are a1, b1, ... h8, in the view of the
side to move. `convert.py` defines the computation.
"""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ...base.errors import EvaluatorError, EvaluatorFileError, InputFileError
from ...base.limits import NETWORK, read_all
from .layout import PLANES, POLICY_SIZE, SQUARES
from .policy import CONVOLUTION_PLANES

# -------------------------------------------------------------------------- protocol buffers
VARINT, WORD64, BYTES, WORD32 = 0, 1, 2, 5  # wire types; 3 and 4 (groups) are obsolete
VARINT_BYTES = 10  # 64 bits, 7 per byte
_TYPE_NAMES = {VARINT: "a number", WORD64: "eight bytes", BYTES: "bytes", WORD32: "four bytes"}
_WORD_BYTES = {WORD64: 8, WORD32: 4}
_NOTHING = memoryview(b"")


class WireError(ValueError):
    """Raised for bytes that are no protocol buffer, or not the expected message."""


@dataclass(frozen=True, slots=True)
class _Field:
    """One value: in `number` for a varint, else in `data`."""

    kind: int
    number: int
    data: memoryview


class Message:
    """One message; the constructor decodes its fields, each call of `message` decodes a nested one."""

    def __init__(self, data: bytes | memoryview) -> None:
        """Reads the fields of a message.

        Raises:
          WireError: if the bytes end within a field, or a field has an unknown type.
        """
        self._fields: dict[int, list[_Field]] = {}
        for key, field in _fields(memoryview(data)):
            self._fields.setdefault(key, []).append(field)

    def renumbered(self, numbers: Mapping[int, int]) -> Message:
        """Returns a message with the fields in `numbers` only, renumbered from its keys to its values."""
        made = Message(b"")
        made._fields = {numbers[key]: found for key, found in self._fields.items() if key in numbers}
        return made

    def __contains__(self, key: int) -> bool:
        return key in self._fields

    def _all(self, key: int, kind: int) -> list[_Field]:
        found = self._fields.get(key, [])
        for field in found:
            if field.kind != kind:
                raise WireError(f"field {key} is {_TYPE_NAMES[field.kind]}, not {_TYPE_NAMES[kind]}")
        return found

    def number(self, key: int, default: int = 0) -> int:
        """Returns a varint; `default` if the field is missing."""
        found = self._all(key, VARINT)
        return found[-1].number if found else default

    def raw(self, key: int) -> memoryview:
        """Returns bytes; none if the field is missing."""
        found = self._all(key, BYTES)
        return found[-1].data if found else _NOTHING

    def real(self, key: int) -> float:
        """Returns a 32-bit float; 0 if the field is missing."""
        found = self._all(key, WORD32)
        return float(struct.unpack("<f", found[-1].data)[0]) if found else 0.0

    def word(self, key: int) -> int | None:
        """Returns a 32-bit unsigned word, None if the field is missing."""
        found = self._all(key, WORD32)
        return int(struct.unpack("<I", found[-1].data)[0]) if found else None

    def text(self, key: int) -> str:
        """Returns a text, with invalid UTF-8 replaced; empty if the field is missing."""
        return bytes(self.raw(key)).decode(errors="replace")

    def message(self, key: int) -> Message:
        """Returns a nested message; an empty one if the field is missing."""
        return Message(self.raw(key))

    def messages(self, key: int) -> list[Message]:
        """Returns the nested messages of a repeated field."""
        return [Message(field.data) for field in self._all(key, BYTES)]


def _fields(data: memoryview) -> Iterator[tuple[int, _Field]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        key, kind = tag >> 3, tag & 7
        if key == 0 or kind not in _TYPE_NAMES:
            raise WireError(f"byte {at - 1} begins a field {key} of the unknown type {kind}")
        if kind == VARINT:
            number, at = _varint(data, at)
            yield key, _Field(kind, number, _NOTHING)
            continue
        size, at = (_WORD_BYTES[kind], at) if kind in _WORD_BYTES else _varint(data, at)
        if at + size > len(data):
            raise WireError(f"field {key} needs {size} bytes from byte {at} on and {len(data) - at} are left")
        yield key, _Field(kind, 0, data[at : at + size])
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for i in range(VARINT_BYTES):
        if at + i >= len(data):
            raise WireError(f"the bytes end within the number at byte {at}")
        value |= (data[at + i] & 127) << 7 * i
        if data[at + i] < 128:
            return value, at + i + 1
    raise WireError(f"the number at byte {at} has more than {VARINT_BYTES} bytes")


# -------------------------------------------------------------------------- the architecture
Activation = Literal["mish", "relu", "none", "tanh", "sigmoid", "selu", "swish", "relu_2"]
Embedding = Literal["none", "map", "dense"]
PolicyKind = Literal["classical", "convolution", "attention"]

CLASSICAL_INPUT = 1
INPUTS = {
    1: "INPUT_CLASSICAL_112_PLANE",
    2: "INPUT_112_WITH_CASTLING_PLANE",
    3: "INPUT_112_WITH_CANONICALIZATION",
    4: "INPUT_112_WITH_CANONICALIZATION_HECTOPLIES",
    5: "INPUT_112_WITH_CANONICALIZATION_V2",
    132: "INPUT_112_WITH_CANONICALIZATION_HECTOPLIES_ARMAGEDDON",
    133: "INPUT_112_WITH_CANONICALIZATION_V2_ARMAGEDDON",
}
_NETWORKS = {
    1: "NETWORK_CLASSICAL",
    2: "NETWORK_SE",
    3: "NETWORK_CLASSICAL_WITH_HEADFORMAT",
    4: "NETWORK_SE_WITH_HEADFORMAT",
    5: "NETWORK_ONNX",
    6: "NETWORK_ATTENTIONBODY_WITH_HEADFORMAT",
    7: "NETWORK_ATTENTIONBODY_WITH_MULTIHEADFORMAT",
    134: "NETWORK_AB_LEGACY_WITH_MULTIHEADFORMAT",
}
_HEADLESS = (1, 2)  # older than the fields for head formats
_SE, _ONNX, _ATTENTION, _MULTIHEAD, _LEGACY_MULTIHEAD = 4, 5, 6, 7, 134
_POLICIES: dict[int, PolicyKind] = {1: "classical", 2: "convolution", 3: "attention"}
_POLICY_NAMES = {0: "POLICY_UNKNOWN", 1: "POLICY_CLASSICAL", 2: "POLICY_CONVOLUTION", 3: "POLICY_ATTENTION"}
_VALUE_NAMES = {0: "VALUE_UNKNOWN", 1: "VALUE_CLASSICAL", 2: "VALUE_WDL", 3: "VALUE_PARAM"}
_CLASSICAL_VALUE, _WDL = 1, 2
_DEFAULTS: dict[int, Activation] = {0: "relu", 1: "mish"}
_DEFAULT_NAMES = {0: "DEFAULT_ACTIVATION_RELU", 1: "DEFAULT_ACTIVATION_MISH"}
_ACTIVATIONS: dict[int, Activation] = dict(enumerate(get_args(Activation), 1))
_ACTIVATION_NAMES = {n: f"ACTIVATION_{name.upper()}" for n, name in _ACTIVATIONS.items()}
_ACTIVATION_NAMES[9] = "ACTIVATION_SOFTMAX"
_SWISH, _RELU_2 = 7, 8
_EMBEDDINGS: dict[int, Embedding] = dict(enumerate(get_args(Embedding)))
_EMBEDDING_NAMES = {0: "INPUT_EMBEDDING_NONE", 1: "INPUT_EMBEDDING_PE_MAP", 2: "INPUT_EMBEDDING_PE_DENSE"}
_MAP, _DENSE = 1, 2

ANOTHER = "use another network"
_SMOLGEN, _ENCODER, _VALUE_HEADS, _POLICY_HEADS = 35, 27, 44, 45  # fields of `Weights`


@dataclass(frozen=True, slots=True)
class Form:
    """The architecture of a network.

    Attributes:
      onnx: whether the file holds an ONNX model; then only `input` has a meaning.
      input: the input format, a number of INPUTS.
      attention: whether the body has attention encoders.
      policy: the kind of policy head. wdl: whether the value head gives WDL; else Q.
      activation: the default of all layers. smolgen, ffn: that of these layers of an encoder.
      embedding: the position encoding of the squares.
    """

    onnx: bool
    input: int
    attention: bool
    policy: PolicyKind
    wdl: bool
    activation: Activation
    smolgen: Activation
    ffn: Activation
    embedding: Embedding


def read_form(form: Message, weights: Message, name: str) -> Form:
    """Returns the architecture that the messages `Format` and `Weights` describe.

    Raises:
      EvaluatorError: if a part of it is not supported.
    """
    encoding = form.number(1, 1)
    if encoding not in (0, 1):
        raise EvaluatorError(
            f"{name} is not supported: its weights have the encoding {encoding}, expected 1 (LINEAR16) or one"
            f" for each layer; {ANOTHER}"
        )
    net = form.message(2)
    network, embedding, smolgen, ffn = _completed(net, weights)
    policy, value = (1, 1) if network in _HEADLESS else (net.number(4), net.number(5))
    _expect(name, "input format", net.number(1, 1), INPUTS)
    _expect(name, "structure", network, _NETWORKS)
    if network != _ONNX:
        _expect(name, "policy head", policy, _POLICIES, _POLICY_NAMES)
        _expect(name, "value head", value, (_CLASSICAL_VALUE, _WDL), _VALUE_NAMES)
    _expect(name, "activation", net.number(7), _DEFAULTS, _DEFAULT_NAMES)
    _expect(name, "smolgen activation", smolgen, (0, *_ACTIVATIONS), _ACTIVATION_NAMES)
    _expect(name, "FFN activation", ffn, (0, *_ACTIVATIONS), _ACTIVATION_NAMES)
    _expect(name, "input embedding", embedding, _EMBEDDINGS, _EMBEDDING_NAMES)
    usual = _DEFAULTS[net.number(7)]
    return Form(
        onnx=network == _ONNX,
        input=net.number(1, 1),
        attention=network in (_ATTENTION, _MULTIHEAD),
        policy=_POLICIES.get(policy, "classical"),
        wdl=value == _WDL,
        activation=usual,
        smolgen=_ACTIVATIONS.get(smolgen, usual),
        ffn=_ACTIVATIONS.get(ffn, usual),
        embedding=_EMBEDDINGS[embedding],
    )


def _completed(net: Message, weights: Message) -> tuple[int, int, int, int]:
    """Returns structure, input embedding, and activations of smolgen and FFN, completed for old files."""
    network, embedding = net.number(3, 1), net.number(10)
    smolgen, ffn = net.number(8), net.number(9)
    if network == _SE and _ENCODER in weights:
        network = _ATTENTION
        if _SMOLGEN in weights:
            smolgen, ffn = _SWISH, _RELU_2
    if network == _LEGACY_MULTIHEAD:
        network = _MULTIHEAD
    if network == _ATTENTION and _VALUE_HEADS in weights and _POLICY_HEADS in weights:
        return _MULTIHEAD, _DENSE, smolgen, ffn
    if network == _ATTENTION and 10 not in net:
        embedding = _MAP
    return network, embedding, smolgen, ffn


def _expect(name: str, what: str, found: int, known: object, names: dict[int, str] | None = None) -> None:
    """Checks that a part of the format is supported; raises EvaluatorError if not."""
    assert isinstance(known, (dict, tuple))
    if found not in known:
        words = names or known
        assert isinstance(words, dict)
        raise EvaluatorError(
            f"{name} is not supported: its {what} is {words.get(found, found)}, expected"
            f" {' or '.join(words[n] for n in known if n in words)}; {ANOTHER}"
        )


# ------------------------------------------------------------------------------- the network
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution with its batch normalisation folded in: kernel `[out, in, k, k]`, bias `[out]`."""

    kernel: Floats
    bias: Floats


@dataclass(frozen=True, slots=True)
class Dense:
    """A fully connected layer: weights `[out, in]`, bias `[out]`."""

    weights: Floats
    bias: Floats


@dataclass(frozen=True, slots=True)
class Norm:
    """A layer normalisation: scale and offset `[width]`, and the epsilon added to the variance."""

    gammas: Floats
    betas: Floats
    epsilon: float


@dataclass(frozen=True, slots=True)
class Block:
    """A residual block; `squeeze` and `excite` are its squeeze-and-excitation unit, None without one."""

    first: Convolution
    second: Convolution
    squeeze: Dense | None
    excite: Dense | None


@dataclass(frozen=True, slots=True)
class Smolgen:
    """Smolgen layers: compute an addend to the attention of each pair of squares from the whole position.

    Attributes:
      compress: `[channels, width]`, for each square. dense1, norm1, dense2, norm2: over all squares.
      shared: `[64 * 64, inputs of a head]`, the same in all encoders.
      activation: of dense1 and dense2.
    """

    compress: Floats
    dense1: Dense
    norm1: Norm
    dense2: Dense
    norm2: Norm
    shared: Floats
    activation: Activation


@dataclass(frozen=True, slots=True)
class FeedForward:
    """Two fully connected layers with `activation` between them: `norm(x + alpha * dense2(dense1(x)))`."""

    dense1: Dense
    dense2: Dense
    norm: Norm
    activation: Activation
    alpha: float


@dataclass(frozen=True, slots=True)
class Encoder:
    """Attention with `heads` heads, `norm(x + alpha * attention(x))`, then a feed-forward part."""

    heads: int
    query: Dense
    key: Dense
    value: Dense
    out: Dense
    smolgen: Smolgen | None
    norm: Norm
    alpha: float
    feed: FeedForward


@dataclass(frozen=True, slots=True)
class AttentionBody:
    """An attention body, over the input planes or the outputs of a residual tower.

    Attributes:
      preprocess: layer over the 12 planes of the men on all squares; its outputs extend each square's inputs.
      position_map: whether a square's inputs end with its row of `policy.reach_map`.
      embedding: layer over a square's inputs. norm: after it.
      multiply, add: `[64, width]`, gates by square.
      feed: after the gates.
    """

    preprocess: Dense | None
    position_map: bool
    embedding: Dense
    norm: Norm | None
    multiply: Floats | None
    add: Floats | None
    feed: FeedForward | None
    encoders: tuple[Encoder, ...]


@dataclass(frozen=True, slots=True)
class ClassicalPolicy:
    """A convolution (1x1), then a fully connected layer with 1858 outputs."""

    first: Convolution
    dense: Dense


@dataclass(frozen=True, slots=True)
class ConvolutionPolicy:
    """Two convolutions (3x3); the last one has a plane for each kind of move."""

    first: Convolution
    last: Convolution


@dataclass(frozen=True, slots=True)
class AttentionPolicy:
    """Logits by attention of from-squares to to-squares; `promotions` is `[4, width]`: q, r, b, any."""

    embedding: Dense
    activation: Activation
    encoders: tuple[Encoder, ...]
    query: Dense
    key: Dense
    promotions: Floats


Policy = ClassicalPolicy | ConvolutionPolicy | AttentionPolicy


@dataclass(frozen=True, slots=True)
class Value:
    """A value head: `first` by square, then all squares; three outputs are WDL, one is Q before tanh."""

    first: Convolution | Dense
    hidden: Dense
    output: Dense


@dataclass(frozen=True, slots=True)
class Network:
    """A network.

    Attributes:
      stem: the convolution of the 112 planes; None without a residual tower.
      blocks: the residual tower. attention: the body after it, or without it.
      activation: the default of all layers.
      input: the input format, a number of `INPUTS`.
    """

    stem: Convolution | None
    blocks: tuple[Block, ...]
    attention: AttentionBody | None
    policy: Policy
    value: Value
    activation: Activation
    input: int

    def widest(self) -> int:
        """Returns the number of outputs of the largest layer for one position."""
        widths = [len(self.stem.bias)] if self.stem else []
        pairs = []  # attention scores of a square, over all heads
        body = self.attention
        encoders = body.encoders if body else ()
        if body:
            widths += [len(body.embedding.bias), len(body.feed.dense1.bias) if body.feed else 0]
            widths += [len(body.preprocess.bias) // SQUARES if body.preprocess else 0]
        if isinstance(self.policy, AttentionPolicy):
            widths += [len(self.policy.embedding.bias), len(self.policy.key.bias)]
            encoders += self.policy.encoders
        for encoder in encoders:
            widths += [len(encoder.query.bias), len(encoder.feed.dense1.bias)]
            pairs.append(encoder.heads * SQUARES)
        return SQUARES * max(widths + pairs)


@dataclass(frozen=True, slots=True)
class WrappedModel:
    """An ONNX model inside an lc0 file, and the names of its input and outputs, "" if the file has none."""

    model: bytes
    planes: str
    policy: str
    wdl: str
    value: str
    input: int


# ------------------------------------------------------------------------------------ layers
EPSILON = 1e-5  # of batch normalisation
ENCODINGS = LINEAR16, FLOAT16, BFLOAT16, FLOAT32 = (1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Layers:
    """Reads layers and checks their sizes.

    Every method raises EvaluatorError if a layer is damaged, missing or has a wrong size.

    Attributes:
      name: of the file, for errors.
    """

    name: str

    def block(self, block: Message, filters: int, what: str) -> Block:
        """Returns a residual block."""
        first = self.convolution(block.message(1), filters, 3, f"{what}'s first convolution")
        second = self.convolution(block.message(2), len(first.bias), 3, f"{what}'s second convolution")
        self.expect(f"{what}'s second convolution", len(second.bias), filters)
        if 3 not in block:
            return Block(first, second, None, None)
        unit = block.message(3)
        squeeze = self.dense(unit, (1, 2), filters, f"{what}'s squeeze layer")
        excite = self.dense(unit, (3, 4), len(squeeze.bias), f"{what}'s excitation layer", 2 * filters)
        return Block(first, second, squeeze, excite)

    def convolution(self, block: Message, inputs: int, size: int, what: str) -> Convolution:
        """Returns a `size` x `size` convolution with its batch normalisation folded in."""
        weights, bias, means, variances, gammas, betas = (
            self.numbers(block, field, what).astype(np.float64) for field in range(1, 7)
        )
        outputs = len(bias) or len(means)
        self.expect(what, len(weights), outputs * inputs * size * size)
        kernel = weights.reshape(outputs, inputs, size, size)
        bias = bias if len(bias) else np.zeros(outputs)
        if len(means):
            gammas, betas = (gammas, betas) if len(betas) else (np.ones(outputs), np.zeros(outputs))
            for part in (means, variances, gammas, betas):
                self.expect(f"{what}'s normalisation", len(part), outputs)
            with np.errstate(invalid="ignore", divide="ignore"):
                scale = gammas / np.sqrt(variances + EPSILON)
            kernel, bias = kernel * scale[:, None, None, None], (bias - means) * scale + betas
        return Convolution(self._finite(kernel, what), self._finite(bias, what))

    def dense(
        self, parent: Message, fields: tuple[int, int], inputs: int, what: str, outputs: int | None = None
    ) -> Dense:
        """Returns a fully connected layer; `fields` are those of its weights and bias."""
        weights, bias = (self.numbers(parent, field, what) for field in fields)
        self.expect(what, len(weights), len(bias) * inputs)
        if outputs is not None:
            self.expect(what, len(bias), outputs)
        return Dense(weights.reshape(len(bias), inputs), bias)

    def matrix(self, parent: Message, field: int, inputs: int, what: str) -> Floats:
        """Returns the weights `[out, in]` of a layer without bias."""
        numbers = self.numbers(parent, field, what)
        self.expect(what, len(numbers), max(1, len(numbers) // inputs) * inputs)
        return numbers.reshape(-1, inputs)

    def norm(self, parent: Message, fields: tuple[int, int], width: int, epsilon: float, what: str) -> Norm:
        """Returns a layer normalisation; `fields` are those of its scale and offset."""
        gammas, betas = (self.numbers(parent, field, what) for field in fields)
        for part in (gammas, betas):
            self.expect(what, len(part), width)
        return Norm(gammas, betas, epsilon)

    def numbers(self, parent: Message, field: int, what: str) -> Floats:
        """Returns the decoded numbers of a `Layer` message, none if it is missing."""
        layer = parent.message(field)
        encoding, raw = layer.number(4, 1), layer.raw(3)
        if encoding not in ENCODINGS:
            raise EvaluatorError(
                f"{self.name} is not supported: {what} has the encoding {encoding},"
                f" expected 1 to {len(ENCODINGS)}; {ANOTHER}"
            )
        width = 4 if encoding == FLOAT32 else 2
        if len(raw) % width:
            raise EvaluatorError(
                f"{self.name} is damaged: {what} has {len(raw)} bytes of weights, expected a multiple of"
                f" {width}; download it again"
            )
        with np.errstate(invalid="ignore", over="ignore"):
            return self._finite(_decoded(encoding, raw, layer.real(1), layer.real(2)), what)

    def _finite(self, values: NDArray[np.floating[Any]], what: str) -> Floats:
        """Returns numbers as float32; raises EvaluatorError if one is not finite."""
        with np.errstate(invalid="ignore", over="ignore"):
            floats = values.astype(np.float32, copy=False)
        if not np.isfinite(floats).all():
            raise EvaluatorError(
                f"{self.name} is damaged: {what} has weights that are not finite numbers; download it again"
            )
        return floats

    def expect(self, what: str, found: int, expected: int) -> None:
        """Checks a layer's number of values; raises EvaluatorError if it is wrong or 0."""
        if found != expected or not found:
            raise EvaluatorError(
                f"{self.name} is damaged or of an unknown shape: {what} has {found} numbers, expected"
                f" {expected or 'some'}; download it again"
            )


def _decoded(encoding: int, raw: memoryview, low: float, high: float) -> Floats:
    """Returns the numbers of a layer, of which LINEAR16 is relative to its least and its largest one."""
    if encoding == LINEAR16:
        share = np.frombuffer(raw, "<u2").astype(np.float32) / np.float32(65535)
        return np.float32(low) * (1 - share) + np.float32(high) * share
    if encoding == BFLOAT16:  # the upper 16 bits of a float32
        return (np.frombuffer(raw, "<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)
    return np.frombuffer(raw, "<f2" if encoding == FLOAT16 else "<f4").astype(np.float32)


SHARED = "the shared smolgen layer"
MEN_PLANES = 12  # the latest position's planes, the input of a dense embedding
SMOLGEN_EPSILON = EMBEDDING_EPSILON = 1e-3
DENSE_EPSILON, MAP_EPSILON = 1e-3, 1e-6  # of a body's encoders, by its embedding
POLICY_EPSILON = 1e-6
RELATIVE = {
    10: "rpe_q",
    11: "rpe_k",
    12: "rpe_v",
}  # fields of attention that lc0 reserves and no backend runs


def encoder_alpha(encoders: int) -> float:
    """Returns the factor of an encoder's residual branches (DeepNorm).

    >>> encoder_alpha(8)
    0.5
    """
    return float((2 * encoders) ** -0.25)


@dataclass(frozen=True, slots=True)
class _Kind:
    heads: int
    alpha: float
    epsilon: float
    smolgen: Activation
    ffn: Activation


@dataclass(frozen=True, slots=True)
class AttentionReader(Layers):
    """Reads attention bodies and attention policy heads."""

    form: Form

    # -------------------------------------------------------------- the body
    def body(self, weights: Message, filters: int | None) -> AttentionBody:
        """Returns the body of a `Weights` message; `filters`: those of its tower, None over planes."""
        dense = self.form.embedding == "dense"
        preprocess = self._preprocess(weights) if dense and filters is None else None
        inputs = filters or PLANES + (len(preprocess.bias) // SQUARES if preprocess else 0)
        with_map = filters is None and not dense  # as in lc0, also for INPUT_EMBEDDING_NONE
        embedding = self.dense(weights, (25, 26), inputs + SQUARES * with_map, "the input embedding")
        width = len(embedding.bias)
        stack = weights.messages(27)
        epsilon = DENSE_EPSILON if dense else MAP_EPSILON
        alpha = encoder_alpha(max(1, len(stack)))
        kind = _Kind(weights.number(28), alpha, epsilon, self.form.smolgen, self.form.ffn)
        feed = None
        if dense:
            norm = self._norm(weights, (42, 43), width, "the normalisation after the embedding")
            feed = self._feed(weights.message(41), norm, width, alpha, self.form.ffn, "the embedding")
        return AttentionBody(
            preprocess=preprocess,
            position_map=with_map,
            embedding=embedding,
            norm=self._norm(weights, (39, 40), width, "the embedding's normalisation") if dense else None,
            multiply=self._gate(weights, 33, width, "the multiplying input gate"),
            add=self._gate(weights, 34, width, "the adding input gate"),
            feed=feed,
            encoders=self._stack(stack, kind, width, self.numbers(weights, 35, SHARED), "encoder"),
        )

    def _preprocess(self, weights: Message) -> Dense:
        what = "the preprocessing of the embedding"
        found = self.dense(weights, (37, 38), MEN_PLANES * SQUARES, what)
        self.expect(what, len(found.bias), max(1, len(found.bias) // SQUARES) * SQUARES)
        return found

    def _norm(self, parent: Message, fields: tuple[int, int], width: int, what: str) -> Norm:
        return self.norm(parent, fields, width, EMBEDDING_EPSILON, what)

    def _gate(self, weights: Message, field: int, width: int, what: str) -> Floats | None:
        """Returns a gate `[64, width]`, None if the network has none."""
        numbers = self.numbers(weights, field, what)
        if not len(numbers):
            return None
        self.expect(what, len(numbers), width * SQUARES)
        return np.ascontiguousarray(numbers.reshape(width, SQUARES).T)

    # -------------------------------------------------------------- encoders
    def _stack(
        self, stack: list[Message], kind: _Kind, width: int, shared: Floats, what: str
    ) -> tuple[Encoder, ...]:
        return tuple(
            self._encoder(encoder, kind, width, shared, f"{what} {i}") for i, encoder in enumerate(stack, 1)
        )

    def _encoder(self, encoder: Message, kind: _Kind, width: int, shared: Floats, what: str) -> Encoder:
        attention = encoder.message(1)
        self._refuse_relative(attention, what)
        query, key, value = (
            self.dense(attention, fields, width, f"{what}'s {part}")
            for fields, part in (((1, 2), "query"), ((3, 4), "key"), ((5, 6), "value"))
        )
        inner = len(query.bias)
        for part in (key, value):
            self.expect(f"{what}'s attention", len(part.bias), inner)
        self._check_heads(kind.heads, inner, what)
        out = self.dense(attention, (7, 8), inner, f"{what}'s attention output", width)
        smolgen = self._smolgen(attention.message(9), kind, width, shared, what) if 9 in attention else None
        norms = [
            self.norm(encoder, fields, width, kind.epsilon, f"{what}'s normalisation")
            for fields in ((2, 3), (5, 6))
        ]
        feed = self._feed(encoder.message(4), norms[1], width, kind.alpha, kind.ffn, what)
        return Encoder(kind.heads, query, key, value, out, smolgen, norms[0], kind.alpha, feed)

    def _feed(
        self, feed: Message, norm: Norm, width: int, alpha: float, activation: Activation, what: str
    ) -> FeedForward:
        first = self.dense(feed, (1, 2), width, f"{what}'s first feed-forward layer")
        last = self.dense(feed, (3, 4), len(first.bias), f"{what}'s last feed-forward layer", width)
        return FeedForward(first, last, norm, activation, alpha)

    def _smolgen(self, smolgen: Message, kind: _Kind, width: int, shared: Floats, what: str) -> Smolgen:
        what = f"{what}'s smolgen"
        compress = self.matrix(smolgen, 1, width, f"{what} compression")
        dense1 = self.dense(smolgen, (2, 3), SQUARES * len(compress), f"{what} first layer")
        dense2 = self.dense(smolgen, (6, 7), len(dense1.bias), f"{what} last layer")
        self._check_heads(kind.heads, len(dense2.bias), what)
        inputs = len(dense2.bias) // kind.heads
        self.expect(SHARED, len(shared), SQUARES * SQUARES * inputs)
        norm1, norm2 = (
            self.norm(smolgen, fields, len(dense.bias), SMOLGEN_EPSILON, f"{what} normalisation")
            for fields, dense in (((4, 5), dense1), ((8, 9), dense2))
        )
        return Smolgen(compress, dense1, norm1, dense2, norm2, shared.reshape(-1, inputs), kind.smolgen)

    def _check_heads(self, heads: int, width: int, what: str) -> None:
        if not heads or width % heads:
            raise EvaluatorError(
                f"{self.name} is damaged or of an unknown shape: {what} has {heads} heads for {width}"
                " numbers, expected a number that divides them; download it again"
            )

    def _refuse_relative(self, attention: Message, what: str) -> None:
        for field, known in RELATIVE.items():
            if field in attention:
                raise EvaluatorError(
                    f"{self.name} is not supported: {what} has relative position encodings ({known});"
                    f" {ANOTHER}"
                )

    # -------------------------------------------------------------- the policy
    def attention_policy(
        self, head: Message, shared: list[Message], width: int, weights: Message
    ) -> AttentionPolicy:
        """Returns an attention policy.

        Args:
          head: a `PolicyHead` message.
          shared: messages to take the embedding from (fields 1 and 2) if the head has none; the first with
            one counts.
          width: inputs per square. weights: the network's, for the shared smolgen layer.
        """
        owner = next((one for one in (head, *shared) if 1 in one), head)
        embedding = self.dense(owner, (1, 2), width, "the policy head's embedding")
        inner = len(embedding.bias)
        # without attention in the body, these two are SELU, whatever the format says
        activation = self.form.activation if self.form.attention else "selu"
        ffn = self.form.ffn if self.form.attention else "selu"
        kind = _Kind(head.number(9), 1.0, POLICY_EPSILON, self.form.smolgen, ffn)
        smolgen = self.numbers(weights, 35, SHARED)
        encoders = self._stack(head.messages(8), kind, inner, smolgen, "policy encoder")
        query = self.dense(head, (3, 4), inner, "the policy head's query")
        key = self.dense(head, (5, 6), inner, "the policy head's key", len(query.bias))
        promotions = self.matrix(head, 7, len(key.bias), "the policy head's promotions")
        self.expect("the policy head's promotions", len(promotions), 4)
        return AttentionPolicy(embedding, activation, encoders, query, key, promotions)


# ---------------------------------------------------------------------------------- the file
MAGIC = 0x1C0
KNOWN_VERSION = (0, 33)  # of lc0; the format of a later one may differ
PLACEHOLDER_VERSION = (97, 98, 99)  # in some old files instead of a version; lc0 reads them
GZIP_MAGIC = b"\x1f\x8b"
TEXT_FORMATS = (b"1\n", b"2\n")  # first bytes of networks of 2018

POLICY_HEAD, VALUE_HEAD = "vanilla", "winner"  # lc0's defaults
_POLICY_FIELDS = {"vanilla": 3, "optimistic": 4, "soft": 5, "opponent": 6}  # of PolicyHeads
_VALUE_FIELDS = {"winner": 1, "q": 2, "st": 3}  # of ValueHeads
_POLICY_MAP, _VALUE_MAP = 7, 4  # fields of the heads with any other name
# fields of a head that stands in `Weights` itself: field of PolicyHead or ValueHead -> field of `Weights`
_PLAIN_POLICY = {1: 4, 2: 5, 3: 17, 4: 18, 5: 19, 6: 20, 7: 22, 8: 21, 9: 24, 10: 11, 11: 3}
_PLAIN_VALUE = {1: 29, 2: 30, 3: 7, 4: 8, 5: 9, 6: 10, 11: 6}


@dataclass(frozen=True, slots=True)
class Heads:
    """The heads to read from a network with several, by lc0's names."""

    policy: str = POLICY_HEAD
    value: str = VALUE_HEAD


USUAL_HEADS = Heads()


def read_network(data: bytes, name: str, heads: Heads = USUAL_HEADS) -> Network | WrappedModel:
    """Reads the network of a `.pb.gz` or `.pb` file.

    Args:
      data: the file's content.
      name: the file's name, for errors.
      heads: the heads to read if there are several.

    Raises:
      EvaluatorError: if the file is damaged, is no supported network, or does not have the head.
    """
    buffer = _decompressed(data, name)
    if buffer[:2] in TEXT_FORMATS:
        raise EvaluatorError(
            f"{name} is in the text format of 2018; expected a protocol buffer (.pb.gz); use a later network"
        )
    try:
        return _network(Message(buffer), name, heads)
    except WireError as error:
        raise EvaluatorError(
            f"{name} is not an Lc0 network: expected the protocol buffer of a .pb.gz file, but {error};"
            " download it again"
        ) from None


def _decompressed(data: bytes, name: str) -> bytes:
    if data[:2] != GZIP_MAGIC:
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            return read_all(file, NETWORK, name, packed=len(data))
    except InputFileError as error:
        raise EvaluatorFileError(str(error)) from None
    except (EOFError, OSError, zlib.error) as error:
        raise EvaluatorError(
            f"{name} is damaged: expected a whole gzip file, found that {_lower(error)}; download it again"
        ) from None


def _lower(error: Exception) -> str:
    """Returns an error's text for the middle of a sentence; an abbreviation such as CRC stays."""
    text = " ".join(str(error).split())
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def _network(net: Message, name: str, heads: Heads) -> Network | WrappedModel:
    if net.word(1) != MAGIC:
        found = "none" if net.word(1) is None else f"{net.word(1):#x}"
        raise EvaluatorError(
            f"{name} is not an Lc0 network: expected the magic number {MAGIC:#x}, found {found}"
        )
    _check_version(net.message(3), name)
    weights = net.message(10)
    form = read_form(net.message(4), weights, name)
    if form.onnx:
        if heads != USUAL_HEADS:
            raise EvaluatorError(
                f"{name} holds an ONNX model with one policy and one value head; name no other"
            )
        onnx = net.message(11)
        if not (model := bytes(onnx.raw(1))):
            raise EvaluatorError(f"{name} says that it holds an ONNX model, but has none; download it again")
        return WrappedModel(model, onnx.text(3), onnx.text(6), onnx.text(5), onnx.text(4), form.input)
    return _Reader(name, form, heads).network(weights)


def _check_version(version: Message, name: str) -> None:
    needed = (version.number(1), version.number(2), version.number(3))
    if needed[:2] > KNOWN_VERSION and needed != PLACEHOLDER_VERSION:
        raise EvaluatorError(
            f"{name} needs lc0 {'.'.join(map(str, needed))} or later; expected a format of at most lc0"
            f" {'.'.join(map(str, KNOWN_VERSION))}; use an older network, or a later graphsearch"
        )


@dataclass(frozen=True, slots=True)
class _Reader(AttentionReader):
    heads: Heads

    def network(self, weights: Message) -> Network:
        """Returns the network of a `Weights` message."""
        stem, blocks = self.tower(weights)
        body, width = None, len(stem.bias) if stem else 0
        if self.form.attention:
            body = self.body(weights, width or None)
            width = len(body.embedding.bias)
        return Network(
            stem=stem,
            blocks=blocks,
            attention=body,
            policy=self.policy(weights, width),
            value=self.value(weights, width, body),
            activation=self.form.activation,
            input=self.form.input,
        )

    def tower(self, weights: Message) -> tuple[Convolution | None, tuple[Block, ...]]:
        """Returns the residual tower: stem and blocks; None and () if an attention body has none."""
        blocks = weights.messages(2)
        if self.form.attention and not blocks:
            return None, ()
        stem = self.convolution(weights.message(1), PLANES, 3, "the input convolution")
        filters = len(stem.bias)
        return stem, tuple(
            self.block(block, filters, f"residual block {i}") for i, block in enumerate(blocks, 1)
        )

    # -------------------------------------------------------------- heads
    def policy(self, weights: Message, width: int) -> Policy:
        """Returns the selected policy head."""
        several = weights.message(_POLICY_HEADS)
        plain = _renamed(weights, _PLAIN_POLICY)
        head = plain
        if _POLICY_HEADS in weights or self.heads.policy != POLICY_HEAD:
            head = self.chosen(several, _POLICY_FIELDS, _POLICY_MAP, self.heads.policy, "policy")
        if self.form.policy == "attention":
            return self.attention_policy(head, [several, plain], width, weights)
        if self.form.attention:
            raise EvaluatorError(
                f"{self.name} is not supported: its policy head over attention is {self.form.policy},"
                f" expected POLICY_ATTENTION; {ANOTHER}"
            )
        return self.convolutional_policy(head, width)

    def convolutional_policy(self, head: Message, filters: int) -> ClassicalPolicy | ConvolutionPolicy:
        """Returns a classical or convolutional policy head."""
        if self.form.policy == "convolution":
            first = self.convolution(head.message(10), filters, 3, "the policy head's first convolution")
            last = self.convolution(
                head.message(11), len(first.bias), 3, "the policy head's last convolution"
            )
            self.expect("the policy head's last convolution", len(last.bias), CONVOLUTION_PLANES)
            return ConvolutionPolicy(first, last)
        only = self.convolution(head.message(11), filters, 1, "the policy head's convolution")
        inputs = SQUARES * len(only.bias)
        return ClassicalPolicy(
            only, self.dense(head, (1, 2), inputs, "the policy head's last layer", POLICY_SIZE)
        )

    def value(self, weights: Message, width: int, body: AttentionBody | None) -> Value:
        """Returns the selected value head."""
        head = _renamed(weights, _PLAIN_VALUE)
        if _VALUE_HEADS in weights or self.heads.value != VALUE_HEAD:
            several = weights.message(_VALUE_HEADS)
            head = self.chosen(several, _VALUE_FIELDS, _VALUE_MAP, self.heads.value, "value")
        first = (
            self.dense(head, (1, 2), width, "the value head's embedding")
            if body
            else self.convolution(head.message(11), width, 1, "the value head's convolution")
        )
        hidden = self.dense(head, (3, 4), SQUARES * len(first.bias), "the value head's first layer")
        outputs = 3 if self.form.wdl else 1
        output = self.dense(head, (5, 6), len(hidden.bias), "the value head's last layer", outputs)
        return Value(first, hidden, output)

    def chosen(self, several: Message, fields: dict[str, int], named: int, wanted: str, what: str) -> Message:
        """Returns the head with the name `wanted`; raises EvaluatorError if there is none."""
        found = {name: several.message(field) for name, field in fields.items() if field in several}
        found |= {one.text(1): one.message(2) for one in several.messages(named)}
        if wanted not in found:
            has = ", ".join(ascii(name) for name in found) or "one without a name"
            raise EvaluatorError(f"{self.name} has no {what} head {wanted!r}; it has {has}")
        return found[wanted]


def _renamed(weights: Message, fields: dict[int, int]) -> Message:
    """Returns the head that stands in `Weights` itself, with the field numbers of a separate head."""
    return weights.renumbered({there: here for here, there in fields.items()})
