"""Networks as lc0 keeps them: a gzip'ed protocol buffer (`.pb.gz`, lc0's net.proto), read into arrays.

Supported are residual towers, with squeeze-and-excitation or without, classical and convolutional policy
heads, WDL and classical value heads, ReLU and Mish; and files that wrap an ONNX model. The moves-left head
is left out. Anything else is refused by its name in the format.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import EvaluatorError, InputFileError, NetworkFileError
from ...limits import NETWORK, gunzipped
from .layout import PLANES, POLICY_SIZE
from .policy import CONVOLUTION_PLANES
from .wire import Message, WireError

MAGIC = 0x1C0
KNOWN_VERSION = (0, 33)  # of lc0; a file that needs a later one may mean something else
EPSILON = 1e-5  # of batch normalisation
GZIP_MAGIC = b"\x1f\x8b"
TEXT_FORMATS = (b"1\n", b"2\n")  # how networks of 2018 begin

_INPUTS = {
    0: "INPUT_UNKNOWN",
    1: "INPUT_CLASSICAL_112_PLANE",
    2: "INPUT_112_WITH_CASTLING_PLANE",
    3: "INPUT_112_WITH_CANONICALIZATION",
    4: "INPUT_112_WITH_CANONICALIZATION_HECTOPLIES",
    5: "INPUT_112_WITH_CANONICALIZATION_V2",
    132: "INPUT_112_WITH_CANONICALIZATION_HECTOPLIES_ARMAGEDDON",
    133: "INPUT_112_WITH_CANONICALIZATION_V2_ARMAGEDDON",
}
_NETWORKS = {
    0: "NETWORK_UNKNOWN",
    1: "NETWORK_CLASSICAL",
    2: "NETWORK_SE",
    3: "NETWORK_CLASSICAL_WITH_HEADFORMAT",
    4: "NETWORK_SE_WITH_HEADFORMAT",
    5: "NETWORK_ONNX",
    6: "NETWORK_ATTENTIONBODY_WITH_HEADFORMAT",
    7: "NETWORK_ATTENTIONBODY_WITH_MULTIHEADFORMAT",
    134: "NETWORK_AB_LEGACY_WITH_MULTIHEADFORMAT",
}
_POLICIES = {0: "POLICY_UNKNOWN", 1: "POLICY_CLASSICAL", 2: "POLICY_CONVOLUTION", 3: "POLICY_ATTENTION"}
_VALUES = {0: "VALUE_UNKNOWN", 1: "VALUE_CLASSICAL", 2: "VALUE_WDL", 3: "VALUE_PARAM"}
_ACTIVATIONS = {0: "DEFAULT_ACTIVATION_RELU", 1: "DEFAULT_ACTIVATION_MISH"}
_CLASSICAL_INPUT, _ONNX, _HEADLESS = 1, 5, (1, 2)  # headless: from before the heads were named
_CLASSICAL, _CONVOLUTION, _WDL = 1, 2, 2

_CONVERT = "convert it with `lc0 leela2onnx --input=FILE --output=FILE.onnx` and name that"
_OTHER = "use a network with INPUT_CLASSICAL_112_PLANE"

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
class Block:
    """A residual block; `squeeze` and `excite` are of its squeeze-and-excitation unit, if it has one."""

    first: Convolution
    second: Convolution
    squeeze: Dense | None
    excite: Dense | None


@dataclass(frozen=True, slots=True)
class Network:
    """The weights of a network.

    Attributes:
      stem: the convolution of the 112 planes.
      blocks: the residual tower.
      policy: one convolution (1x1) before `policy_dense`, or two (3x3) of a convolutional head.
      policy_dense: the last layer of a classical policy head, 1858 outputs.
      value, value_hidden, value_output: the value head; three outputs are WDL, one is Q before tanh.
      mish: whether Mish is the activation; else ReLU.
    """

    stem: Convolution
    blocks: tuple[Block, ...]
    policy: tuple[Convolution, ...]
    policy_dense: Dense | None
    value: Convolution
    value_hidden: Dense
    value_output: Dense
    mish: bool


@dataclass(frozen=True, slots=True)
class WrappedModel:
    """An ONNX model inside an lc0 file, and what the file calls its input and outputs ("": it is silent)."""

    model: bytes
    planes: str
    policy: str
    wdl: str
    value: str


def read_network(data: bytes, name: str) -> Network | WrappedModel:
    """Returns the network of a `.pb.gz` or `.pb` file.

    Args:
      data: the file.
      name: what errors call it.

    Raises:
      EvaluatorError: if it is damaged, no network, or one that is not supported.
    """
    buffer = _decompressed(data, name)
    if buffer[:2] in TEXT_FORMATS:
        raise EvaluatorError(
            f"{name} is in the text format of 2018; expected a protocol buffer (.pb.gz); use a later network"
        )
    try:
        return _network(Message(buffer), name)
    except WireError as error:
        raise EvaluatorError(
            f"{name} is not an Lc0 network: expected the protocol buffer of a .pb.gz file, but {error};"
            " download it again"
        ) from None


def _decompressed(data: bytes, name: str) -> bytes:
    if data[:2] != GZIP_MAGIC:
        return data
    try:
        return gunzipped(data, NETWORK, name)
    except InputFileError as error:
        raise NetworkFileError(str(error)) from None
    except (EOFError, OSError, zlib.error) as error:
        raise EvaluatorError(
            f"{name} is damaged: expected a whole gzip file, found that {_lower(error)}; download it again"
        ) from None


def _lower(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text[:1].lower() + text[1:]


def _network(net: Message, name: str) -> Network | WrappedModel:
    if net.word(1) != MAGIC:
        found = "none" if net.word(1) is None else f"{net.word(1):#x}"
        raise EvaluatorError(
            f"{name} is not an Lc0 network: expected the magic number {MAGIC:#x}, found {found}"
        )
    _check_version(net.message(3), name)
    form = _Format.of(net.message(4), name)
    if form.network == _ONNX:
        return _wrapped(net.message(11), name)
    return _Reader(name, form).network(net.message(10))


def _check_version(version: Message, name: str) -> None:
    needed = (version.number(1), version.number(2), version.number(3))
    if needed[:2] > KNOWN_VERSION:
        raise EvaluatorError(
            f"{name} needs lc0 {'.'.join(map(str, needed))} or later; expected a format of at most lc0"
            f" {'.'.join(map(str, KNOWN_VERSION))}; use an older network, or a later graphsearch"
        )


@dataclass(frozen=True, slots=True)
class _Format:
    """What a file says of its network's shape, old files completed as lc0 does."""

    network: int
    policy: int
    value: int
    mish: bool

    @classmethod
    def of(cls, form: Message, name: str) -> _Format:
        if form.number(1) != 1:
            raise EvaluatorError(
                f"{name} is not supported: its weights have the encoding {form.number(1)},"
                " expected 1 (LINEAR16); use another network"
            )
        net = form.message(2)
        network = net.number(3, 1)
        old = network in _HEADLESS
        policy, value = (1, 1) if old else (net.number(4), net.number(5))
        _expect(name, "input format", net.number(1, 1), (_CLASSICAL_INPUT,), _INPUTS, _OTHER)
        _expect(name, "structure", network, (1, 2, 3, 4, _ONNX), _NETWORKS, _CONVERT)
        if network != _ONNX:
            _expect(name, "policy head", policy, (_CLASSICAL, _CONVOLUTION), _POLICIES, _CONVERT)
            _expect(name, "value head", value, (_CLASSICAL, _WDL), _VALUES, _CONVERT)
        _expect(name, "activation", net.number(7), (0, 1), _ACTIVATIONS, _CONVERT)
        return cls(network, policy, value, net.number(7) == 1)


def _expect(
    name: str, what: str, found: int, known: tuple[int, ...], names: dict[int, str], todo: str
) -> None:
    """Raises EvaluatorError, with what to do, unless a part of the format is one of those known here."""
    if found not in known:
        raise EvaluatorError(
            f"{name} is not supported: its {what} is {names.get(found, found)}, expected"
            f" {' or '.join(names[n] for n in known)}; {todo}"
        )


def _wrapped(onnx: Message, name: str) -> WrappedModel:
    model = bytes(onnx.raw(1))
    if not model:
        raise EvaluatorError(f"{name} says that it holds an ONNX model, but has none; download it again")
    return WrappedModel(model, onnx.text(3), onnx.text(6), onnx.text(5), onnx.text(4))


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads layers and checks their sizes."""

    name: str
    form: _Format

    def network(self, weights: Message) -> Network:
        """Returns the network of a `Weights` message."""
        stem = self.convolution(weights.message(1), PLANES, 3, "the input convolution")
        filters = len(stem.bias)
        blocks = tuple(self.block(block, filters, i) for i, block in enumerate(weights.messages(2)))
        policy, dense = self.policy_head(weights, filters)
        value = self.convolution(weights.message(6), filters, 1, "the value head's convolution")
        hidden = self.dense(weights, (7, 8), 64 * len(value.bias), "the value head's first layer")
        output = self.dense(weights, (9, 10), len(hidden.bias), "the value head's last layer")
        self.expect("the value head's last layer", len(output.bias), 3 if self.form.value == _WDL else 1)
        return Network(
            stem=stem,
            blocks=blocks,
            policy=policy,
            policy_dense=dense,
            value=value,
            value_hidden=hidden,
            value_output=output,
            mish=self.form.mish,
        )

    def policy_head(self, weights: Message, filters: int) -> tuple[tuple[Convolution, ...], Dense | None]:
        """Returns the convolutions of the policy head, and the last layer of a classical one."""
        if self.form.policy == _CONVOLUTION:
            first = self.convolution(weights.message(11), filters, 3, "the policy head's first convolution")
            last = self.convolution(
                weights.message(3), len(first.bias), 3, "the policy head's last convolution"
            )
            self.expect("the policy head's last convolution", len(last.bias), CONVOLUTION_PLANES)
            return (first, last), None
        only = self.convolution(weights.message(3), filters, 1, "the policy head's convolution")
        dense = self.dense(weights, (4, 5), 64 * len(only.bias), "the policy head's last layer")
        self.expect("the policy head's last layer", len(dense.bias), POLICY_SIZE)
        return (only,), dense

    def block(self, block: Message, filters: int, i: int) -> Block:
        """Returns a residual block."""
        what = f"residual block {i + 1}"
        first = self.convolution(block.message(1), filters, 3, f"{what}'s first convolution")
        second = self.convolution(block.message(2), len(first.bias), 3, f"{what}'s second convolution")
        self.expect(f"{what}'s second convolution", len(second.bias), filters)
        if 3 not in block:
            return Block(first, second, None, None)
        unit = block.message(3)
        squeeze = self.dense(unit, (1, 2), filters, f"{what}'s squeeze layer")
        excite = self.dense(unit, (3, 4), len(squeeze.bias), f"{what}'s excitation layer")
        self.expect(f"{what}'s excitation layer", len(excite.bias), 2 * filters)
        return Block(first, second, squeeze, excite)

    def convolution(self, block: Message, inputs: int, size: int, what: str) -> Convolution:
        """Returns a convolution of `size` x `size` with its batch normalisation folded into it."""
        weights, bias, means, variances, gammas, betas = (
            self.layer(block, field, what).astype(np.float64) for field in range(1, 7)
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
        return Convolution(self.finite(kernel, what), self.finite(bias, what))

    def dense(self, parent: Message, fields: tuple[int, int], inputs: int, what: str) -> Dense:
        """Returns a fully connected layer, its weights and bias being two fields of a message."""
        weights, bias = (self.layer(parent, field, what) for field in fields)
        self.expect(what, len(weights), len(bias) * inputs)
        return Dense(weights.reshape(len(bias), inputs), bias)

    def layer(self, parent: Message, field: int, what: str) -> Floats:
        """Returns the numbers of a `Layer` message, none if it is missing."""
        layer = parent.message(field)
        encoding, raw = layer.number(4, 1), layer.raw(3)
        if encoding not in _DECODERS:
            raise EvaluatorError(
                f"{self.name} is not supported: {what} has the encoding {encoding},"
                f" expected 1 to {len(_DECODERS)}; {_CONVERT}"
            )
        width = 4 if encoding == 4 else 2
        if len(raw) % width:
            raise EvaluatorError(
                f"{self.name} is damaged: {what} has {len(raw)} bytes of weights, expected a multiple of"
                f" {width}; download it again"
            )
        with np.errstate(invalid="ignore", over="ignore"):
            return self.finite(_DECODERS[encoding](raw, layer.real(1), layer.real(2)), what)

    def finite(self, values: NDArray[np.floating[Any]], what: str) -> Floats:
        """Returns numbers as float32, if each of them is one."""
        with np.errstate(invalid="ignore", over="ignore"):
            floats = values.astype(np.float32, copy=False)
        if not np.isfinite(floats).all():
            raise EvaluatorError(
                f"{self.name} is damaged: {what} has weights that are not finite numbers; download it again"
            )
        return floats

    def expect(self, what: str, found: int, expected: int) -> None:
        """Raises EvaluatorError unless a layer has as many numbers as it must, and has any."""
        if found != expected or not found:
            raise EvaluatorError(
                f"{self.name} is damaged or of an unknown shape: {what} has {found} numbers, expected"
                f" {expected or 'some'}; download it again"
            )


def _linear16(raw: memoryview, low: float, high: float) -> Floats:
    """Returns 16-bit steps from `low` to `high`."""
    share = np.frombuffer(raw, "<u2").astype(np.float32) / np.float32(65535)
    return np.float32(low) * (1 - share) + np.float32(high) * share


def _float16(raw: memoryview, _low: float, _high: float) -> Floats:
    return np.frombuffer(raw, "<f2").astype(np.float32)


def _bfloat16(raw: memoryview, _low: float, _high: float) -> Floats:
    """Returns floats of which only the upper 16 bits are kept."""
    return (np.frombuffer(raw, "<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)


def _float32(raw: memoryview, _low: float, _high: float) -> Floats:
    return np.frombuffer(raw, "<f4").astype(np.float32)


_DECODERS = {1: _linear16, 2: _float16, 3: _bfloat16, 4: _float32}
