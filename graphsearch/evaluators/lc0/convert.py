"""Converts lc0's networks to ONNX models, with the input and output names of `lc0 leela2onnx`.

It supports residual towers with or without squeeze-and-excitation, attention bodies, both together, every
policy and value head that lc0 runs. It ignores the moves-left head. An error for anything else names it.

Tensors between attention parts are `[positions * 64, width]`: a row for each square, a1, b1, ... h8.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...base.errors import EvaluatorError
from . import weights as at
from .planes import PLANES, POLICY_SIZE, SQUARES, attention_outputs, convolution_outputs, reach_map
from .weights import ANOTHER, Floats, Form, Message, WireError, finite, needed, read_file, read_numbers

if TYPE_CHECKING:
    import onnx

OPSET, IR_VERSION = 17, 8  # of 2022: every onnxruntime for NumPy 2 supports them
PLANES_NAME, POLICY_NAME = "/input/planes", "/output/policy"
VALUE_NAME, WDL_NAME = "/output/value", "/output/wdl"  # a network has one of them
CONVOLUTION_PLANES = 80  # planes of a convolutional policy head; 73 are used


POLICY_HEAD, VALUE_HEAD = "vanilla", "winner"  # lc0's defaults
_POLICY_FIELDS = {"vanilla": 3, "optimistic": 4, "soft": 5, "opponent": 6}  # of PolicyHeads
_VALUE_FIELDS = {"winner": 1, "q": 2, "st": 3}  # of ValueHeads
_POLICY_MAP, _VALUE_MAP = 7, 4  # fields of the heads with any other name
# fields of a head that stands in `Weights` itself: field of `Weights` -> field of PolicyHead or ValueHead
_PLAIN_POLICY = {4: 1, 5: 2, 17: 3, 18: 4, 19: 5, 20: 6, 22: 7, 21: 8, 24: 9, 11: 10, 3: 11}
_PLAIN_VALUE = {29: 1, 30: 2, 7: 3, 8: 4, 9: 5, 10: 6, 6: 11}


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


def read_network(
    data: bytes, name: str, policy_head: str = POLICY_HEAD, value_head: str = VALUE_HEAD
) -> Model:
    """Returns the model of the network in a `.pb.gz` or `.pb` file.

    Args:
      data: the file's content.
      name: the file's name, for errors.
      policy_head, value_head: the heads to read if there are several.

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
        """`weights`: a `Weights` message. `name`: of the file, for errors."""
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
        """Writes a fully connected layer over rows `[rows, in]`; multiplies its outputs by `scale`.

        Args:
          weights: `[out, in]`. bias: `[out]`.
        """
        factor = np.float32(scale)
        words = (
            self.constant(f"{name}/weights", weights * factor),
            self.constant(f"{name}/bias", bias * factor),
        )
        return self.node("Gemm", name, flow, *words, transB=1)

    def activation(self, name: str, flow: str, which: str) -> str:
        """Writes an activation, one of `weights.ACTIVATIONS`."""
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
        """Writes a fully connected layer over rows `[rows, inputs]`; returns its name and its outputs.

        Args:
          fields: those of its weights and its bias in `parent`.
        """
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
        """Writes a `size` x `size` convolution with its batch normalisation folded in.

        It keeps the board's size. Returns its name and its outputs.
        """
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
        words = (
            self.constant(f"{name}/kernel", finite(kernel, name)),
            self.constant(f"{name}/bias", finite(bias, name)),
        )
        pads = [size // 2] * 4
        return self.node("Conv", name, flow, *words, kernel_shape=[size, size], pads=pads), width

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
        """Writes an attention body over planes; returns its output's name and width.

        A dense embedding has a normalisation and a feed-forward part; any may have gates by square.
        """
        weights, is_dense = self._weights, self._form.embedding == at.PE_DENSE
        over_planes = flow == PLANES_NAME
        rows = self._squares("/body/squares", flow, width)
        if over_planes and is_dense:
            rows, width = self._preprocessed(rows)
        if over_planes and not is_dense:  # as in lc0, also for INPUT_EMBEDDING_NONE
            flow, width = self._mapped(rows)
        else:
            flow, width = self._dense("/body/dense", rows, weights, (25, 26), width)
        self._has(width)
        stack = weights.messages(at.ENCODER)
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
        """Writes `norm(x + alpha * dense2(dense1(x)))` with an activation between the layers.

        Args:
          parent, norm: the message that has the normalisation, and its fields there.
        """
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
            raise ValueError(
                f"{name} has {heads} heads for {width} numbers, expected a number that divides them"
            )

    @cached_property
    def _shared(self) -> Floats:
        """The shared layer of smolgen, flat."""
        return self._numbers("/smolgen", self._weights, at.SMOLGEN)

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
        several = self._weights.message(at.POLICY_HEADS)
        plain = head = self._weights.renumbered(_PLAIN_POLICY)
        if at.POLICY_HEADS in self._weights or self._policy_head != POLICY_HEAD:
            head = self._chosen(several, _POLICY_FIELDS, _POLICY_MAP, self._policy_head, "policy")
        kind = self._form.policy
        if kind == at.ATTENTION_POLICY:
            # the first message with an embedding, fields 1 and 2, counts
            owner = next((one for one in (head, several, plain) if 1 in one), head)
            rows = flow if self._form.attention else self._squares("/policy/squares", flow, width)
            self._attention_policy(rows, head, owner, width)
        elif self._form.attention:
            raise EvaluatorError(
                f"{self._name} is not supported: its policy head over attention is {kind}, expected"
                f" {at.ATTENTION_POLICY}; {ANOTHER}"
            )
        elif kind == at.CONVOLUTION_POLICY:
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
        scale = max(1, width) ** -0.5
        queries, _ = self._dense("/policy/query", flow, head, (3, 4), inner, scale=scale)
        keys, _ = self._dense("/policy/key", flow, head, (5, 6), inner, width)
        queries = self.reshape("/policy/from", queries, -1, SQUARES, width)
        keys = self.reshape("/policy/to", keys, -1, SQUARES, width)
        turned = self.node("Transpose", "/policy/to/turned", keys, perm=[0, 2, 1])
        pairs = self.node("MatMul", "/policy/pairs", queries, turned)
        plain = self.reshape("/policy/plain", pairs, -1, SQUARES * SQUARES)
        promotions = self._promotions(pairs, keys, head, width)
        both = self.node("Concat", "/policy/all", plain, promotions, axis=1)
        self.node("Gather", POLICY_NAME, both, self.constant("/policy/map", attention_outputs()), axis=1)

    def _promotions(self, pairs: str, keys: str, head: Message, width: int) -> str:
        """Writes the logits of promotions `[positions, 8 * 8 * 3]`: from-file, to-file, and q, r or b.

        Each is the logit of the pair of squares plus the to-square's terms for the piece and for any
        promotion. Their layer is `[4, width]`: q, r, b, any.
        """
        name = "/policy/promotions"
        promotions = self._matrix(name, head, 7, width)
        self._expect(name, len(promotions), 4)
        weights = self.constant(f"{name}/weights", (promotions[:3] + promotions[3:]).T)
        last = self.part(f"{name}/to", keys, 1, 56, 64)
        more = self.node("MatMul", f"{name}/pieces", last, weights)
        more = self.reshape(f"{name}/more", more, -1, 1, 8, 3)
        plain = self.part(f"{name}/rank7", pairs, 1, 48, 56)
        plain = self.part(f"{name}/rank8", plain, 2, 56, 64)
        plain = self.reshape(f"{name}/plain", plain, -1, 8, 8, 1)
        summed = self.node("Add", f"{name}/sum", plain, more)
        return self.reshape(name, summed, -1, 8 * 8 * 3)

    # ---------------------------------------------------------- the value
    def _value(self, flow: str, width: int) -> tuple[str, int]:
        """Writes the value head: a layer by square, two over all squares; returns its output and size."""
        head = self._weights.renumbered(_PLAIN_VALUE)
        if at.VALUE_HEADS in self._weights or self._value_head != VALUE_HEAD:
            several = self._weights.message(at.VALUE_HEADS)
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
