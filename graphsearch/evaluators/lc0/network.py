"""lc0's network files as ONNX models, with the input and output names of `lc0 leela2onnx`.

`.pb.gz` files are gzipped protocol buffers of lc0's net.proto: residual towers with or without
squeeze-and-excitation, attention bodies, both together, and every policy and value head that lc0 runs; the
moves-left head is ignored. An error names anything else. `.onnx` files are checked before they are loaded.

Weights are float32, those of a fully connected layer `[out, in]`. Tensors between attention parts have a row
for each square: `[positions * 64, width]`, a1, b1, ... h8, in the view of the side to move.
"""

from __future__ import annotations

import gzip
import importlib
import io
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...base.errors import (
    EvaluatorError,
    EvaluatorFileError,
    InputFileError,
    InvalidParameterError,
    MissingPackageError,
)
from ...base.limits import ACTIVATIONS, NETWORK, read_all, shortened
from .planes import PLANES, POLICY_SIZE, SQUARES, attention_outputs, convolution_outputs, reach_map

if TYPE_CHECKING:
    import onnx

OPSET, IR_VERSION = 17, 8  # of 2022: every onnxruntime for NumPy 2 supports them
PLANES_NAME, POLICY_NAME = "/input/planes", "/output/policy"
VALUE_NAME, WDL_NAME = "/output/value", "/output/wdl"  # a network has one of them


class Model(NamedTuple):
    """An ONNX model of a network, for any batch size.

    Attributes:
      model: serialized; its input is PLANES_NAME, its outputs are POLICY_NAME, and WDL_NAME or VALUE_NAME.
      input: its input format, a number of INPUTS. wdl: whether its value is WDL; else Q.
      widest: number of outputs of the largest layer for one position.
    """

    model: bytes
    input: int
    wdl: bool
    widest: int


def needed(module: str) -> Any:
    """Imports a module of the extra `lc0`; raises EvaluatorError if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackageError(
            f"an lc0 network needs the package {module} ({error}): pip install '.[lc0]' in the folder of"
            " graphsearch"
        ) from None


# -------------------------------------------------------------------------- protocol buffers
VARINT, BYTES, WORD32 = 0, 2, 5  # wire types


class WireError(ValueError):
    """Raised for bytes that are no protocol buffer, or not the expected message."""


class Message:
    """One message, by field numbers: read as fields that an empty message does not know, it needs no schema.

    For a field that is not repeated the last value counts, as the format requires.
    """

    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, list[tuple[int, int | bytes]]] = {}
        try:
            read = needed("google.protobuf.empty_pb2").Empty.FromString(data)
        except needed("google.protobuf.message").DecodeError as error:
            raise WireError(f"its bytes are no message: {error}") from None
        for field in needed("google.protobuf.unknown_fields").UnknownFieldSet(read):
            self._fields.setdefault(field.field_number, []).append((field.wire_type, field.data))

    def renumbered(self, numbers: Mapping[int, int]) -> Message:
        """Returns a message with the fields in `numbers` only, renumbered from its keys to its values."""
        made = Message(b"")
        made._fields = {numbers[key]: found for key, found in self._fields.items() if key in numbers}
        return made

    def __contains__(self, key: int) -> bool:
        return key in self._fields

    def _all(self, key: int, kind: int) -> list[Any]:
        found = self._fields.get(key, [])
        for other, _ in found:
            if other != kind:
                raise WireError(f"field {key} has the wire type {other}, not {kind}")
        return [value for _, value in found]

    def _last(self, key: int, kind: int, default: Any) -> Any:
        found = self._all(key, kind)
        return found[-1] if found else default

    def number(self, key: int, default: int = 0) -> int:
        """Returns a varint; `default` if the field is missing."""
        return int(self._last(key, VARINT, default))

    def raw(self, key: int) -> bytes:
        """Returns bytes; none if the field is missing."""
        return bytes(self._last(key, BYTES, b""))

    def real(self, key: int) -> float:
        """Returns a 32-bit float; 0 if the field is missing."""
        return float(np.uint32(self._last(key, WORD32, 0)).view(np.float32))

    def word(self, key: int) -> int | None:
        """Returns a 32-bit unsigned word, None if the field is missing."""
        found = self._last(key, WORD32, None)
        return None if found is None else int(found)

    def text(self, key: int) -> str:
        """Returns a text, with invalid UTF-8 replaced; empty if the field is missing."""
        return self.raw(key).decode(errors="replace")

    def message(self, key: int) -> Message:
        """Returns a nested message; an empty one if the field is missing."""
        return Message(self.raw(key))

    def messages(self, key: int) -> list[Message]:
        """Returns the nested messages of a repeated field."""
        return [Message(data) for data in self._all(key, BYTES)]


# -------------------------------------------------------------------------- the architecture
# lc0's numbers
INPUTS = (1, 2, 3, 4, 5, 132, 133)
SE_HEADS, ATTENTION, MULTIHEAD, OLD_MULTIHEAD = 4, 6, 7, 134
HEADLESS = (1, 2)  # older than the fields for head formats
NETWORKS = (*HEADLESS, 3, SE_HEADS, ATTENTION, MULTIHEAD, OLD_MULTIHEAD)
POLICIES = _, CONVOLUTION_POLICY, ATTENTION_POLICY = 1, 2, 3
VALUES = _, WDL_VALUE = 1, 2
EMBEDDINGS = _, PE_MAP, PE_DENSE = 0, 1, 2
USUAL_ACTIVATIONS = {0: "Relu", 1: "Mish"}
OTHER_ACTIVATIONS = {
    1: "Mish", 2: "Relu", 3: "Identity", 4: "Tanh", 5: "Sigmoid", 6: "Selu", 7: "Swish", 8: "Relu squared"
}  # fmt: skip
SWISH, RELU_SQUARED = 7, 8
SMOLGEN, ENCODER, VALUE_HEADS, POLICY_HEADS = 35, 27, 44, 45  # fields of `Weights`

ANOTHER = "use another network"


@dataclass(frozen=True, slots=True)
class Form:
    """The architecture of a network.

    Attributes:
      input: one of INPUTS. attention: whether the body has attention encoders.
      policy: one of POLICIES. wdl: whether the value head gives WDL; else Q.
      activation: the default of all layers. smolgen, ffn: that of these layers of an encoder.
      embedding: the position encoding of the squares, one of EMBEDDINGS.
    """

    input: int
    attention: bool
    policy: int
    wdl: bool
    activation: str
    smolgen: str
    ffn: str
    embedding: int


def read_form(form: Message, weights: Message, name: str) -> Form:
    """Returns the architecture that the messages `Format` and `Weights` describe, completed for old files."""

    def known(what: str, number: int, numbers: Iterable[int]) -> int:
        if number not in numbers:
            expected = ", ".join(map(str, numbers))
            raise EvaluatorError(
                f"{name} is not supported: its {what} is {number}, expected one of {expected}; {ANOTHER}"
            )
        return number

    # LINEAR16, or one for each layer
    known("encoding of the weights", form.number(1, 1), (0, 1))
    net = form.message(2)
    network = known("structure", net.number(3, 1), NETWORKS)
    embedding, smolgen, ffn = net.number(10), net.number(8), net.number(9)
    if network == SE_HEADS and ENCODER in weights:
        network = ATTENTION
        if SMOLGEN in weights:
            smolgen, ffn = SWISH, RELU_SQUARED
    if network == ATTENTION and VALUE_HEADS in weights and POLICY_HEADS in weights:
        network, embedding = MULTIHEAD, PE_DENSE
    elif network == ATTENTION and 10 not in net:
        embedding = PE_MAP
    policy, value = (1, 1) if network in HEADLESS else (net.number(4), net.number(5))
    usual = USUAL_ACTIVATIONS[known("activation", net.number(7), USUAL_ACTIVATIONS)]
    activations = OTHER_ACTIVATIONS | {0: usual}
    return Form(
        input=known("input format", net.number(1, 1), INPUTS),
        attention=network in (ATTENTION, MULTIHEAD, OLD_MULTIHEAD),
        policy=known("policy head", policy, POLICIES),
        wdl=known("value head", value, VALUES) == WDL_VALUE,
        activation=usual,
        smolgen=activations[known("smolgen activation", smolgen, activations)],
        ffn=activations[known("FFN activation", ffn, activations)],
        embedding=known("input embedding", embedding, EMBEDDINGS),
    )


# -------------------------------------------------------------------------------- the layers
Floats = NDArray[np.float32]
ENCODINGS = LINEAR16, FLOAT16, BFLOAT16, FLOAT32 = 1, 2, 3, 4


def read_numbers(layer: Message, name: str) -> Floats:
    """Returns the numbers of a `Layer` message, none if it is missing; ValueError if they are damaged."""
    encoding, raw = layer.number(4, LINEAR16), layer.raw(3)
    if encoding not in ENCODINGS:
        raise ValueError(f"{name} has the encoding {encoding}, expected 1 to {len(ENCODINGS)}")
    width = 4 if encoding == FLOAT32 else 2
    if len(raw) % width:
        raise ValueError(f"{name} has {len(raw)} bytes of weights, expected a multiple of {width}")
    if encoding == BFLOAT16:  # the upper 16 bits of a float32
        words = np.frombuffer(raw, "<u2").astype(np.uint32) << np.uint32(16)
        return finite(words.view(np.float32), name)
    if encoding != LINEAR16:
        return finite(np.frombuffer(raw, "<f2" if encoding == FLOAT16 else "<f4"), name)
    # relative to the least and the largest number
    share = np.frombuffer(raw, "<u2").astype(np.float32) / np.float32(65535)
    with np.errstate(invalid="ignore", over="ignore"):
        return finite(np.float32(layer.real(1)) * (1 - share) + np.float32(layer.real(2)) * share, name)


def finite(values: NDArray[np.floating[Any]], name: str) -> Floats:
    """Returns numbers as float32; ValueError if one is not finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        floats = values.astype(np.float32, copy=False)
    if not np.isfinite(floats).all():
        raise ValueError(f"{name} has weights that are not finite numbers")
    return floats


# ---------------------------------------------------------------------------------- the file
MAGIC = 0x1C0
KNOWN_VERSION = (0, 33)  # of lc0; the format of a later one may differ
PLACEHOLDER_VERSION = (97, 98, 99)  # in some old files instead of a version; lc0 reads them
GZIP_MAGIC = b"\x1f\x8b"


def read_file(data: bytes, name: str) -> tuple[Form, Message]:
    """Returns the architecture of the network in a `.pb.gz` or `.pb` file, and its message `Weights`."""
    net = Message(_decompressed(data, name))
    if net.word(1) != MAGIC:
        found = "none" if net.word(1) is None else f"{net.word(1):#x}"
        raise EvaluatorError(
            f"{name} is not an Lc0 network: expected a .pb.gz file with the magic number {MAGIC:#x},"
            f" found {found}"
        )
    version = tuple(net.message(3).number(key) for key in (1, 2, 3))
    if version[:2] > KNOWN_VERSION and version != PLACEHOLDER_VERSION:
        raise EvaluatorError(
            f"{name} needs lc0 {'.'.join(map(str, version))} or later; expected a format of at most lc0"
            f" {'.'.join(map(str, KNOWN_VERSION))}; use an older network, or a later graphsearch"
        )
    weights = net.message(10)
    return read_form(net.message(4), weights, name), weights


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
            f"{name} is damaged: expected a whole gzip file ({error}); download it again"
        ) from None


# ------------------------------------------------------------------------- the model
CONVOLUTION_PLANES = 80  # planes of a convolutional policy head; 73 are used

POLICY_HEAD, VALUE_HEAD = "vanilla", "winner"  # lc0's defaults
_POLICY_FIELDS = {"vanilla": 3, "optimistic": 4, "soft": 5, "opponent": 6}  # of PolicyHeads
_VALUE_FIELDS = {"winner": 1, "q": 2, "st": 3}  # of ValueHeads
_POLICY_MAP, _VALUE_MAP = 7, 4  # fields of the heads with any other name
# fields of a head that stands in `Weights` itself: field of `Weights` -> field of PolicyHead or ValueHead
_PLAIN_POLICY = {4: 1, 5: 2, 17: 3, 18: 4, 19: 5, 20: 6, 22: 7, 21: 8, 24: 9, 11: 10, 3: 11}
_PLAIN_VALUE = {29: 1, 30: 2, 7: 3, 8: 4, 9: 5, 10: 6, 6: 11}


def read_network(
    data: bytes, name: str, policy_head: str = POLICY_HEAD, value_head: str = VALUE_HEAD
) -> Model:
    """Returns the model of the network in a `.pb.gz` or `.pb` file.

    Args:
      name: of the file, for errors. policy_head, value_head: the heads to read if there are several.

    Raises:
      EvaluatorError: if the file is damaged, is no supported network, or does not have the head; if the
        package `onnx` is not installed.
    """
    try:
        form, weights = read_file(data, name)
        converter = Converter(weights, form, name, policy_head, value_head)
        model = converter.written()
    except WireError as error:
        raise EvaluatorError(
            f"{name} is not an Lc0 network: expected the protocol buffer of a .pb.gz file, but {error};"
            " download it again"
        ) from None
    except EvaluatorError:  # a ValueError too, of a file that cannot be read
        raise
    except ValueError as error:
        raise EvaluatorError(
            f"{name} is damaged or of an unknown shape: {error}; download it again, or {ANOTHER}"
        ) from None
    return Model(bytes(model.SerializeToString()), form.input, form.wdl, converter.widest)


MEN_PLANES = 12  # the latest position's planes, the input of a dense embedding
SMOLGEN_EPSILON = EMBEDDING_EPSILON = 1e-3
DENSE_EPSILON, MAP_EPSILON = 1e-3, 1e-6  # of a body's encoders, by its embedding
POLICY_EPSILON = 1e-6
EPSILON = 1e-5  # of batch normalisation
# fields of attention that lc0 reserves and no backend runs
RELATIVE = {10: "rpe_q", 11: "rpe_k", 12: "rpe_v"}


class _Kind(NamedTuple):
    """What the encoders of a stack share: `alpha` scales their branches, `epsilon` is of their norms."""

    heads: int
    alpha: float
    epsilon: float
    ffn: str


class Converter:
    """Reads the layers of a network, checks their sizes, and writes the nodes that compute them.

    A node's output has the node's name; methods that write nodes return that name.

    Attributes:
      widest: number of outputs of the largest layer for one position.
    """

    def __init__(self, weights: Message, form: Form, name: str, policy_head: str, value_head: str) -> None:
        self._weights, self._form, self._name = weights, form, name
        self._policy_head, self._value_head = policy_head, value_head
        self._onnx = needed("onnx")
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self.widest = 0

    def written(self) -> onnx.ModelProto:
        """Returns the model of the network, with shapes for one position."""
        flow, width = self._tower()
        if self._form.attention:
            flow, width = self._body(flow, width)
        self._policy(flow, width)
        name, size = self._value(flow, width)
        helper, outputs = self._onnx.helper, {POLICY_NAME: POLICY_SIZE, name: size}
        inputs = [self._tensor(PLANES_NAME, PLANES, 8, 8)]
        tensors = [self._tensor(name, size) for name, size in outputs.items()]
        graph = helper.make_graph(self._nodes, "lc0", inputs, tensors, list(self._constants.values()))
        opset = helper.make_opsetid("", OPSET)
        made: onnx.ModelProto = helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)
        return made

    def _tensor(self, name: str, *shape: int) -> onnx.ValueInfoProto:
        kind = self._onnx.TensorProto.FLOAT
        made: onnx.ValueInfoProto = self._onnx.helper.make_tensor_value_info(name, kind, ["batch", *shape])
        return made

    # ---------------------------------------------------------- nodes
    def node(self, kind: str, name: str, *inputs: str, **attributes: Any) -> str:
        """Writes a node with one output."""
        return self.nodes(kind, [name], *inputs, **attributes)[0]

    def nodes(self, kind: str, names: list[str], *inputs: str, **attributes: Any) -> list[str]:
        """Writes a node with several named outputs."""
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), names, names[0], **attributes))
        return names

    def constant(self, name: str, values: Any) -> str:
        """Writes a constant unless one of that name exists, which must be the same."""
        if name not in self._constants:
            self._constants[name] = self._onnx.numpy_helper.from_array(np.ascontiguousarray(values), name)
        return name

    def reshape(self, name: str, flow: str, *shape: int) -> str:
        """Writes a reshape; one dimension may be -1, the rest."""
        return self.node("Reshape", name, flow, self.constant(f"{name}/shape", np.array(shape, np.int64)))

    def part(self, name: str, flow: str, axis: int, begin: int, end: int) -> str:
        """Writes a slice of one axis from `begin` to `end` (exclusive)."""
        words = [self.constant(f"/number/{n}", np.array([n], np.int64)) for n in (begin, end, axis)]
        return self.node("Slice", name, flow, *words)

    def gemm(self, name: str, flow: str, weights: Floats, bias: Floats, *, scale: float = 1.0) -> str:
        """Writes a fully connected layer over rows `[rows, in]`; multiplies its outputs by `scale`."""
        factor = np.float32(scale)
        kernel = self.constant(f"{name}/weights", weights * factor)
        return self.node("Gemm", name, flow, kernel, self.constant(f"{name}/bias", bias * factor), transB=1)

    def activation(self, name: str, flow: str, which: str) -> str:
        """Writes one of OTHER_ACTIVATIONS."""
        if which == "Relu squared":
            flow = gate = self.node("Relu", f"{name}/relu", flow)
        elif which == "Swish":
            gate = self.node("Sigmoid", f"{name}/gate", flow)
        elif which == "Mish":
            gate = self.node("Tanh", f"{name}/gate", self.node("Softplus", f"{name}/softplus", flow))
        else:
            return self.node(which, f"{name}/active", flow)
        return self.node("Mul", f"{name}/active", flow, gate)

    def _active(self, name: str, flow: str) -> str:
        return self.activation(name, flow, self._form.activation)

    def _has(self, *by_square: int) -> None:
        """Notes numbers of outputs for each square."""
        self.widest = max(self.widest, *(SQUARES * outputs for outputs in by_square))

    # ---------------------------------------------------------- layers
    def _numbers(self, name: str, parent: Message, field: int, expected: int | None = None) -> Floats:
        """Returns the numbers of a layer, and checks how many they are."""
        found = read_numbers(parent.message(field), name)
        if expected is not None:
            self._expect(name, len(found), expected)
        return found

    def _expect(self, name: str, found: int, expected: int) -> None:
        """Checks a layer's number of values, which is not 0."""
        if found != expected or not found:
            raise ValueError(f"{name} has {found} numbers, expected {expected or 'some'}")

    def _dense(
        self,
        name: str,
        flow: str,
        parent: Message,
        fields: tuple[int, int],
        inputs: int,
        outputs: int | None = None,
        *,
        scale: float = 1.0,
    ) -> tuple[str, int]:
        """Writes the layer of two fields, weights and bias; returns its name and its outputs."""
        bias = self._numbers(name, parent, fields[1], outputs)
        weights = self._numbers(name, parent, fields[0], len(bias) * inputs)
        return self.gemm(name, flow, weights.reshape(-1, inputs), bias, scale=scale), len(bias)

    def _matrix(self, name: str, parent: Message, field: int, inputs: int) -> Floats:
        """Returns the weights `[out, in]` of a layer without bias."""
        numbers = self._numbers(name, parent, field)
        self._expect(name, len(numbers), max(1, len(numbers) // inputs) * inputs)
        return numbers.reshape(-1, inputs)

    def _norm(
        self, name: str, flow: str, parent: Message, fields: tuple[int, int], width: int, epsilon: float
    ) -> str:
        """Writes a layer normalisation over rows; `fields` are those of its scale and offset."""
        gammas, betas = (
            self.constant(f"{name}/{field}", self._numbers(name, parent, field, width)) for field in fields
        )
        return self.node("LayerNormalization", name, flow, gammas, betas, axis=-1, epsilon=epsilon)

    def _convolution(
        self, name: str, flow: str, block: Message, inputs: int, size: int, outputs: int | None = None
    ) -> tuple[str, int]:
        """Writes a convolution with its batch normalisation folded in; returns its name and its outputs."""
        weights, bias, means, variances, gammas, betas = (
            self._numbers(name, block, field).astype(np.float64) for field in range(1, 7)
        )
        width = len(bias) or len(means)
        self._expect(name, width, width if outputs is None else outputs)
        self._expect(name, len(weights), width * inputs * size * size)
        kernel = weights.reshape(width, inputs, size, size)
        bias = bias if len(bias) else np.zeros(width)
        if len(means):
            gammas, betas = (gammas, betas) if len(betas) else (np.ones(width), np.zeros(width))
            for part in (means, variances, gammas, betas):
                self._expect(name, len(part), width)
            with np.errstate(invalid="ignore", divide="ignore"):
                scale = gammas / np.sqrt(variances + EPSILON)
            kernel, bias = kernel * scale[:, None, None, None], (bias - means) * scale + betas
        words = [self.constant(f"{name}/kernel", finite(kernel, name))]
        words.append(self.constant(f"{name}/bias", finite(bias, name)))
        return self.node("Conv", name, flow, *words, kernel_shape=[size, size], pads=[size // 2] * 4), width

    # ---------------------------------------------------------- the tower
    def _tower(self) -> tuple[str, int]:
        """Writes the residual tower; returns its output and width, the planes for a body without one."""
        blocks = self._weights.messages(2)
        if self._form.attention and not blocks:
            return PLANES_NAME, PLANES
        stem, width = self._convolution("/stem/conv", PLANES_NAME, self._weights.message(1), PLANES, 3)
        self._has(width)
        flow = self._active("/stem", stem)
        for i, block in enumerate(blocks):
            flow = self._block(f"/block{i}", flow, block, width)
        return flow, width

    def _block(self, name: str, flow: str, block: Message, width: int) -> str:
        first, inner = self._convolution(f"{name}/conv1", flow, block.message(1), width, 3)
        first = self._active(f"{name}/first", first)
        last, _ = self._convolution(f"{name}/conv2", first, block.message(2), inner, 3, width)
        if 3 in block:
            last = self._squeeze_and_excite(f"{name}/se", last, block.message(3), width)
        return self._active(name, self.node("Add", f"{name}/sum", last, flow))

    def _squeeze_and_excite(self, name: str, flow: str, unit: Message, width: int) -> str:
        """Writes `flow` times a gate plus an offset for each channel, both computed from channel means."""
        means = self.node("Flatten", f"{name}/means", self.node("GlobalAveragePool", f"{name}/pool", flow))
        squeezed, inner = self._dense(f"{name}/squeeze", means, unit, (1, 2), width)
        hidden = self._active(f"{name}/hidden", squeezed)
        both, _ = self._dense(f"{name}/excite", hidden, unit, (3, 4), inner, 2 * width)
        both = self.reshape(f"{name}/both", both, -1, 2 * width, 1, 1)
        gate, offset = self.nodes("Split", [f"{name}/gate", f"{name}/offset"], both, axis=1)
        gated = self.node("Mul", f"{name}/gated", flow, self.node("Sigmoid", f"{name}/sigmoid", gate))
        return self.node("Add", name, gated, offset)

    def _squares(self, name: str, flow: str, width: int) -> str:
        """Writes the conversion of planes `[positions, width, 8, 8]` to rows; returns their name."""
        turned = self.node("Transpose", f"{name}/turned", flow, perm=[0, 2, 3, 1])
        return self.reshape(name, turned, -1, width)

    # ---------------------------------------------------------- the body
    def _body(self, flow: str, width: int) -> tuple[str, int]:
        """Writes an attention body over planes; returns its output's name and width."""
        weights, is_dense = self._weights, self._form.embedding == PE_DENSE
        over_planes = flow == PLANES_NAME
        rows = self._squares("/body/squares", flow, width)
        if over_planes and is_dense:
            rows, width = self._preprocessed(rows)
        if over_planes and not is_dense:  # as in lc0, also for INPUT_EMBEDDING_NONE
            flow, width = self._mapped(rows)
        else:
            flow, width = self._dense("/body/dense", rows, weights, (25, 26), width)
        self._has(width)
        stack = weights.messages(ENCODER)
        alpha = (2 * max(1, len(stack))) ** -0.25  # of residual branches (DeepNorm)
        flow = self._active("/body/embedding", flow)
        if is_dense:
            flow = self._norm("/body/norm", flow, weights, (39, 40), width, EMBEDDING_EPSILON)
        flow = self._gate("/body/multiply", "Mul", flow, 33, width)
        flow = self._gate("/body/add", "Add", flow, 34, width)
        if is_dense:
            kind = _Kind(0, alpha, EMBEDDING_EPSILON, self._form.ffn)
            flow = self._feed("/body/feed", flow, weights.message(41), weights, (42, 43), kind, width)
        kind = _Kind(weights.number(28), alpha, DENSE_EPSILON if is_dense else MAP_EPSILON, self._form.ffn)
        for i, encoder in enumerate(stack):
            flow = self._encoder(f"/encoder{i}", flow, encoder, kind, width)
        return flow, width

    def _preprocessed(self, rows: str) -> tuple[str, int]:
        """Writes the layer over the men on all squares, whose outputs extend each square's inputs."""
        men = self.part("/body/men/part", rows, 1, 0, MEN_PLANES)
        men = self.reshape("/body/men", men, -1, SQUARES * MEN_PLANES)
        name = "/body/preprocess"
        found, outputs = self._dense(name, men, self._weights, (37, 38), SQUARES * MEN_PLANES)
        each = outputs // SQUARES
        self._expect(name, outputs, max(1, each) * SQUARES)
        self._has(each)
        found = self.reshape("/body/preprocessed", found, -1, each)
        return self.node("Concat", "/body/inputs", rows, found, axis=1), PLANES + each

    def _mapped(self, rows: str) -> tuple[str, int]:
        """Writes the embedding with the position map, which is constant: an offset by square."""
        name, inputs = "/body/dense", PLANES + SQUARES
        bias = self._numbers(name, self._weights, 26)
        layer = self._numbers(name, self._weights, 25, len(bias) * inputs).reshape(-1, inputs)
        flow = self.gemm(name, rows, layer[:, :PLANES], np.zeros_like(bias))
        offsets = reach_map() @ layer[:, PLANES:].T + bias
        return self._by_square(f"{name}/placed", "Add", flow, offsets), len(bias)

    def _gate(self, name: str, kind: str, flow: str, field: int, width: int) -> str:
        """Writes a gate by square and number, if the network has it."""
        numbers = self._numbers(name, self._weights, field)
        if not len(numbers):
            return flow
        self._expect(name, len(numbers), width * SQUARES)
        return self._by_square(name, kind, flow, np.ascontiguousarray(numbers.reshape(width, SQUARES).T))

    def _by_square(self, name: str, kind: str, flow: str, values: Floats) -> str:
        width = values.shape[1]
        boards = self.reshape(f"{name}/boards", flow, -1, SQUARES, width)
        done = self.node(kind, f"{name}/done", boards, self.constant(f"{name}/values", values))
        return self.reshape(name, done, -1, width)

    # ---------------------------------------------------------- encoders
    def _encoder(self, name: str, flow: str, encoder: Message, kind: _Kind, width: int) -> str:
        """Writes `norm(x + alpha * attention(x))`, then a feed-forward part; returns its output's name."""
        attention = encoder.message(1)
        mixed, inner = self._attention(f"{name}/attention", flow, attention, kind, width)
        out, _ = self._dense(f"{name}/out", mixed, attention, (7, 8), inner, width, scale=kind.alpha)
        summed = self.node("Add", f"{name}/sum", flow, out)
        flow = self._norm(f"{name}/norm", summed, encoder, (2, 3), width, kind.epsilon)
        return self._feed(f"{name}/feed", flow, encoder.message(4), encoder, (5, 6), kind, width)

    def _feed(
        self,
        name: str,
        flow: str,
        feed: Message,
        parent: Message,
        norm: tuple[int, int],
        kind: _Kind,
        width: int,
    ) -> str:
        """Writes `norm(x + alpha * dense2(dense1(x)))`, an activation between; `norm`: fields of `parent`."""
        first, inner = self._dense(f"{name}/dense1", flow, feed, (1, 2), width)
        self._has(inner)
        first = self.activation(f"{name}/inner", first, kind.ffn)
        last, _ = self._dense(f"{name}/dense2", first, feed, (3, 4), inner, width, scale=kind.alpha)
        summed = self.node("Add", f"{name}/sum", flow, last)
        return self._norm(f"{name}/norm", summed, parent, norm, width, kind.epsilon)

    def _attention(
        self, name: str, flow: str, attention: Message, kind: _Kind, width: int
    ) -> tuple[str, int]:
        """Writes multi-head attention among the squares; the output has all heads concatenated."""
        for field, known in RELATIVE.items():
            if field in attention:
                raise EvaluatorError(
                    f"{self._name} is not supported: {name} has relative position encodings ({known});"
                    f" {ANOTHER}"
                )
        heads, inner = kind.heads, len(self._numbers(f"{name}/query", attention, 2))
        self._check_heads(name, heads, inner)
        self._has(inner, heads * SQUARES)
        # `[positions, heads, 64, depth]`; of the keys the last two axes are swapped
        parts = []
        for part, fields, scale, perm in (
            ("query", (1, 2), (inner // heads) ** -0.5, [0, 2, 1, 3]),
            ("key", (3, 4), 1.0, [0, 2, 3, 1]),
            ("value", (5, 6), 1.0, [0, 2, 1, 3]),
        ):
            found, _ = self._dense(f"{name}/{part}", flow, attention, fields, width, inner, scale=scale)
            split = self.reshape(f"{name}/{part}/split", found, -1, SQUARES, heads, inner // heads)
            parts.append(self.node("Transpose", f"{name}/{part}/turned", split, perm=perm))
        scores = self.node("MatMul", f"{name}/scores", parts[0], parts[1])
        if 9 in attention:
            more = self._smolgen(f"{name}/smolgen", flow, attention.message(9), heads, width)
            scores = self.node("Add", f"{name}/all", scores, more)
        shares = self.node("Softmax", f"{name}/shares", scores, axis=-1)
        taken = self.node("MatMul", f"{name}/taken", shares, parts[2])
        back = self.node("Transpose", f"{name}/back", taken, perm=[0, 2, 1, 3])
        return self.reshape(name, back, -1, inner), inner

    def _check_heads(self, name: str, heads: int, width: int) -> None:
        if not heads or width % heads:
            raise ValueError(f"{name} has {heads} heads for {width} numbers, expected a divisor")

    @cached_property
    def _shared(self) -> Floats:
        """The shared layer of smolgen, flat."""
        return self._numbers("/smolgen", self._weights, SMOLGEN)

    def _smolgen(self, name: str, flow: str, smolgen: Message, heads: int, width: int) -> str:
        """Writes an addend to the attention of each pair of squares, computed from the whole position."""
        compress = self._matrix(f"{name}/compress", smolgen, 1, width)
        channels = len(compress)
        flow = self.gemm(f"{name}/compress", flow, compress, np.zeros(channels, np.float32))
        flow = self.reshape(f"{name}/flat", flow, -1, SQUARES * channels)
        outputs = SQUARES * channels
        for i, fields, norms in ((1, (2, 3), (4, 5)), (2, (6, 7), (8, 9))):
            flow, outputs = self._dense(f"{name}/dense{i}", flow, smolgen, fields, outputs)
            flow = self.activation(f"{name}/inner{i}", flow, self._form.smolgen)
            flow = self._norm(f"{name}/norm{i}", flow, smolgen, norms, outputs, SMOLGEN_EPSILON)
        self._check_heads(name, heads, outputs)
        inputs = outputs // heads
        self._expect("/smolgen", len(self._shared), SQUARES * SQUARES * inputs)
        flow = self.reshape(f"{name}/heads", flow, -1, inputs)
        shared = self.constant(f"/smolgen/shared{inputs}", self._shared.reshape(-1, inputs))
        flow = self.node("Gemm", f"{name}/pairs", flow, shared, transB=1)
        return self.reshape(name, flow, -1, heads, SQUARES, SQUARES)

    # ---------------------------------------------------------- the policy
    def _policy(self, flow: str, width: int) -> None:
        several = self._weights.message(POLICY_HEADS)
        plain = head = self._weights.renumbered(_PLAIN_POLICY)
        if POLICY_HEADS in self._weights or self._policy_head != POLICY_HEAD:
            head = self._chosen(several, _POLICY_FIELDS, _POLICY_MAP, self._policy_head, "policy")
        kind = self._form.policy
        if kind == ATTENTION_POLICY:
            # the first message with an embedding, fields 1 and 2, counts
            owner = next((one for one in (head, several, plain) if 1 in one), head)
            rows = flow if self._form.attention else self._squares("/policy/squares", flow, width)
            self._attention_policy(rows, head, owner, width)
        elif self._form.attention:
            raise EvaluatorError(
                f"{self._name} is not supported: its policy head over attention is {kind}, expected"
                f" {ATTENTION_POLICY}; {ANOTHER}"
            )
        elif kind == CONVOLUTION_POLICY:
            self._convolution_policy(flow, head, width)
        else:
            self._classical_policy(flow, head, width)

    def _chosen(
        self, several: Message, fields: dict[str, int], named: int, wanted: str, what: str
    ) -> Message:
        """Returns the head with the name `wanted`; raises EvaluatorError if there is none."""
        found = {name: several.message(field) for name, field in fields.items() if field in several}
        found |= {one.text(1): one.message(2) for one in several.messages(named)}
        if wanted not in found:
            has = ", ".join(ascii(name) for name in found) or "one without a name"
            raise EvaluatorError(f"{self._name} has no {what} head {wanted!r}; it has {has}")
        return found[wanted]

    def _classical_policy(self, flow: str, head: Message, width: int) -> None:
        """Writes a convolution (1x1), then a fully connected layer with 1858 outputs."""
        only, planes = self._convolution("/policy/conv1", flow, head.message(11), width, 1)
        flat = self.node("Flatten", "/policy/flat", self._active("/policy/first", only))
        self._dense(POLICY_NAME, flat, head, (1, 2), SQUARES * planes, POLICY_SIZE)

    def _convolution_policy(self, flow: str, head: Message, width: int) -> None:
        """Writes two convolutions (3x3); the last one has a plane for each kind of move."""
        first, inner = self._convolution("/policy/conv1", flow, head.message(10), width, 3)
        first, second = self._active("/policy/first", first), head.message(11)
        last, _ = self._convolution("/policy/conv2", first, second, inner, 3, CONVOLUTION_PLANES)
        flat = self.node("Flatten", "/policy/flat", last)
        self.node("Gather", POLICY_NAME, flat, self.constant("/policy/map", convolution_outputs()), axis=1)

    def _attention_policy(self, flow: str, head: Message, owner: Message, width: int) -> None:
        """Writes attention of from-squares to to-squares over rows, with logits `[positions, 1858]`."""
        activation = ffn = "Selu"  # without attention in the body, whatever the format says
        if self._form.attention:
            activation, ffn = self._form.activation, self._form.ffn
        flow, inner = self._dense("/policy/embedding", flow, owner, (1, 2), width)
        self._has(inner)
        flow = self.activation("/policy/embedded", flow, activation)
        kind = _Kind(head.number(9), 1.0, POLICY_EPSILON, ffn)
        for i, encoder in enumerate(head.messages(8)):
            flow = self._encoder(f"/policy/encoder{i}", flow, encoder, kind, inner)
        width = len(self._numbers("/policy/query", head, 4))
        self._has(width)
        queries, _ = self._dense("/policy/query", flow, head, (3, 4), inner, scale=max(1, width) ** -0.5)
        keys, _ = self._dense("/policy/key", flow, head, (5, 6), inner, width)
        queries = self.reshape("/policy/from", queries, -1, SQUARES, width)
        keys = self.reshape("/policy/to", keys, -1, SQUARES, width)
        turned = self.node("Transpose", "/policy/to/turned", keys, perm=[0, 2, 1])
        pairs = self.node("MatMul", "/policy/pairs", queries, turned)
        plain = self.reshape("/policy/plain", pairs, -1, SQUARES * SQUARES)
        both = self.node("Concat", "/policy/all", plain, self._promotions(pairs, keys, head, width), axis=1)
        self.node("Gather", POLICY_NAME, both, self.constant("/policy/map", attention_outputs()), axis=1)

    def _promotions(self, pairs: str, keys: str, head: Message, width: int) -> str:
        """Writes the logits of promotions `[positions, 8 * 8 * 3]`: from-file, to-file, and q, r or b.

        Each is that of the pair of squares plus the to-square's terms, `[4, width]`: q, r, b, any.
        """
        name = "/policy/promotions"
        promotions = self._matrix(name, head, 7, width)
        self._expect(name, len(promotions), 4)
        weights = self.constant(f"{name}/weights", (promotions[:3] + promotions[3:]).T)
        more = self.node("MatMul", f"{name}/pieces", self.part(f"{name}/to", keys, 1, 56, 64), weights)
        more = self.reshape(f"{name}/more", more, -1, 1, 8, 3)
        plain = self.part(f"{name}/rank7", pairs, 1, 48, 56)
        plain = self.part(f"{name}/rank8", plain, 2, 56, 64)
        plain = self.reshape(f"{name}/plain", plain, -1, 8, 8, 1)
        return self.reshape(name, self.node("Add", f"{name}/sum", plain, more), -1, 8 * 8 * 3)

    # ---------------------------------------------------------- the value
    def _value(self, flow: str, width: int) -> tuple[str, int]:
        """Writes the value head: a layer by square, two over all squares; returns its output and size."""
        head = self._weights.renumbered(_PLAIN_VALUE)
        if VALUE_HEADS in self._weights or self._value_head != VALUE_HEAD:
            several = self._weights.message(VALUE_HEADS)
            head = self._chosen(several, _VALUE_FIELDS, _VALUE_MAP, self._value_head, "value")
        if self._form.attention:
            flow, each = self._dense("/value/embedding", flow, head, (1, 2), width)
        else:
            flow, each = self._convolution("/value/conv", flow, head.message(11), width, 1)
        size = SQUARES * each
        flow = self.reshape("/value/flat", self._active("/value/first", flow), -1, size)
        flow, inner = self._dense("/value/dense1", flow, head, (3, 4), size)
        flow = self._active("/value/hidden", flow)
        outputs = 3 if self._form.wdl else 1
        flow, _ = self._dense("/value/dense2", flow, head, (5, 6), inner, outputs)
        if self._form.wdl:
            return self.node("Softmax", WDL_NAME, flow, axis=1), outputs
        return self.node("Tanh", VALUE_NAME, flow), outputs


# ------------------------------------------------------------------------- models of others
# An ONNX file is a program: with loops it runs forever, and a few nodes can request any amount of memory. So
# a model is refused if it has subgraphs, functions, other files, operators that turn sizes into numbers,
# layers of unknown size or larger than ACTIVATIONS, or more work for a position than WORK.
OPERATORS = {
    "Abs", "Add", "AveragePool", "BatchNormalization", "Cast", "Clip", "Concat", "Constant", "Conv", "Div",
    "Elu", "Erf", "Exp", "Expand", "Flatten", "Gather", "Gelu", "Gemm", "GlobalAveragePool", "Greater",
    "HardSigmoid", "HardSwish", "Identity", "LayerNormalization", "LeakyRelu", "Log", "MatMul", "Max",
    "Mean", "Min", "Mish", "Mul", "Neg", "PRelu", "Pad", "Pow", "RMSNormalization", "Reciprocal",
    "ReduceMean", "ReduceSum", "Relu", "Reshape", "Selu", "Shape", "Sigmoid", "Sign", "Slice", "Softmax",
    "Softplus", "Softsign", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Swish", "Tanh", "Transpose",
    "Unsqueeze", "Where",
}  # fmt: skip
ELEMENT = 16  # work per output of all other operators: some are exponentials
NODES = 20_000  # the largest of lc0 have 3,000
WORK = 1 << 38  # multiplications for a position, half a minute of one core; the largest of lc0 need 2^34
MOST_INTEGERS = 4096  # in one list of sizes that a model computes
LEAST_BITS = 4  # of a number in a constant

Shapes = dict[str, Sequence[int]]


def read_exported(data: bytes, name: str) -> Model:
    """Returns a checked model of a file that `lc0 leela2onnx` wrote; `name`: the file's, for errors.

    Raises:
      EvaluatorError: if it is no ONNX model or not an allowed one; if the package `onnx` is missing.
    """
    library = needed("onnx")
    try:
        model: onnx.ModelProto = library.load_model_from_string(data)
    except Exception as error:  # of protobuf, whichever it is
        raise EvaluatorError(f"{name} cannot be loaded: it is no ONNX model: {first_line(error)}") from None
    try:
        _check_parts(model, len(data))
        _check_integers(model.graph)
        shapes = _shapes(model)
        return Model(data, INPUTS[0], _has_wdl(model.graph, shapes), _widest(model.graph, shapes))
    except InvalidParameterError:  # a ValueError too, of the variable that sets a limit
        raise
    except ValueError as error:
        reason = shortened(str(error), 200)
        raise EvaluatorError(f"{name} is not a network as `lc0 leela2onnx` writes it: {reason}") from None


def first_line(error: Exception) -> str:
    """Returns the first line of an error's message, or the name of its type."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _check_parts(model: onnx.ModelProto, size: int) -> None:
    """Checks each node and each constant by itself; `size`: of the file, in bytes."""
    graph, count = model.graph, len(model.graph.node)
    if model.functions or model.training_info or graph.sparse_initializer:
        raise ValueError("it has functions, training steps or sparse constants")
    if not 0 < count <= NODES:
        raise ValueError(f"it has {count:,} nodes, the limit is {NODES:,}")
    for node in graph.node:
        if node.domain not in ("", "ai.onnx") or node.op_type not in OPERATORS:
            raise ValueError(f"the operator {node.domain}{'.' * bool(node.domain)}{node.op_type}")
        for attribute in node.attribute:
            if attribute.HasField("g") or attribute.graphs or attribute.HasField("sparse_tensor"):
                raise ValueError(f"the {node.op_type} {node.name} has a graph inside")
    for tensor in _constants(graph):
        if tensor.external_data or tensor.data_location:
            raise ValueError(f"the constant {tensor.name} is in another file")
        if any(d < 0 for d in tensor.dims) or math.prod(tensor.dims) > size * 8 // LEAST_BITS:
            raise ValueError(f"the constant {tensor.name} has the size {list(tensor.dims)}")


def _constants(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def _check_integers(graph: onnx.GraphProto) -> None:
    """Checks that lists of sizes, from which shapes are computed, do not grow without limit."""
    kinds = needed("onnx").TensorProto
    lengths = {
        tensor.name: math.prod(tensor.dims)
        for tensor in graph.initializer
        if tensor.data_type in (kinds.INT32, kinds.INT64) and len(tensor.dims) <= 1
    }
    for node in graph.node:
        given = [lengths.get(name, 0) for name in node.input]
        length = sum(given) if node.op_type == "Concat" else max(given, default=0)
        if node.op_type in ("Shape", "Constant"):
            tensors = (math.prod(one.t.dims) for one in node.attribute if one.HasField("t"))
            length = max([length, 64, *(len(one.ints) for one in node.attribute), *tensors])
        if length > MOST_INTEGERS and node.op_type == "Concat":
            raise ValueError(f"the Concat {node.name} makes a list of {length:,} sizes")
        lengths.update(dict.fromkeys(node.output, length))


def _shapes(model: onnx.ModelProto) -> Shapes:
    """Returns the shapes of what is known, for one position."""
    for one in model.graph.input:
        dims = one.type.tensor_type.shape.dim
        if dims and dims[0].dim_value == 0:
            dims[0].dim_value = 1
        elif dims and one.name == PLANES_NAME:
            raise ValueError("its batch has a fixed size; write it without --onnx-batch-size")
    for one in model.graph.output:  # their shapes have a named dimension `batch`
        one.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]  # the model's own shapes are not trusted
    inference = needed("onnx.shape_inference")
    try:
        graph = inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
    except Exception as error:
        raise ValueError(f"its shapes are at odds: {first_line(error)}") from None
    found: Shapes = {one.name: tuple(one.dims) for one in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        kind = value.type.tensor_type
        if kind.HasField("shape") and all(d.HasField("dim_value") for d in kind.shape.dim):
            found[value.name] = tuple(d.dim_value for d in kind.shape.dim)
    return {name: shape for name, shape in found.items() if all(d >= 0 for d in shape)}


def _has_wdl(graph: onnx.GraphProto, shapes: Shapes) -> bool:
    """Checks input and outputs; returns whether the value is WDL."""
    constants = {one.name for one in graph.initializer}
    inputs = [one.name for one in graph.input if one.name not in constants]
    outputs = {str(one.name) for one in graph.output}  # bytes if it is no UTF-8
    value, width = (WDL_NAME, 3) if WDL_NAME in outputs else (VALUE_NAME, 1)
    floats = needed("onnx").TensorProto.FLOAT
    ends = [(PLANES_NAME, (1, PLANES, 8, 8)), (POLICY_NAME, (1, POLICY_SIZE)), (value, (1, width))]
    good = (
        inputs == [PLANES_NAME]
        and {POLICY_NAME, value} <= outputs
        and all(tuple(shapes.get(name, ())) == shape for name, shape in ends)
        and all(one.type.tensor_type.elem_type == floats for one in graph.input)
    )
    if not good:
        found = ", ".join(f"{name} {list(shapes.get(name, ()))}" for name in (*inputs, *sorted(outputs)))
        raise ValueError(
            f"expected {PLANES_NAME} [batch, {PLANES}, 8, 8] of float32, {POLICY_NAME} [batch,"
            f" {POLICY_SIZE}] and {WDL_NAME} [batch, 3] or {VALUE_NAME} [batch, 1], found {found}"
        )
    return value == WDL_NAME


def _widest(graph: onnx.GraphProto, shapes: Shapes) -> int:
    """Checks the sizes of all layers and their work; returns the largest size."""
    most, work = 1, 0
    for node in graph.node:
        for name in filter(None, node.output):
            if name not in shapes:
                raise ValueError(f"the size of {name}, from the {node.op_type}, is not known")
            numbers = math.prod(shapes[name])
            most = max(most, numbers)
            work += numbers * _work_of(node, shapes)
        if most > ACTIVATIONS.most:
            limit = f"the limit is {ACTIVATIONS.most:,}{ACTIVATIONS.hint}"
            raise ValueError(f"{most:,} numbers in the {node.op_type} {node.name}, {limit}")
        if work > WORK:
            raise ValueError(f"more than {WORK:,} multiplications for a position")
    return most


def _work_of(node: onnx.NodeProto, shapes: Shapes) -> int:
    """Returns the work for each output of a node."""
    if node.op_type not in ("MatMul", "Gemm", "Conv"):
        return ELEMENT
    flow, weights = (shapes.get(name, ()) for name in (*node.input, "", "")[:2])  # it may lack inputs
    if node.op_type == "Conv":
        return max(1, math.prod(weights[1:]))
    turned = any(one.name == "transA" and one.i for one in node.attribute)
    return max((1, *(flow[:1] if turned else flow[-1:])))
