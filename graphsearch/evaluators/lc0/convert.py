"""Converts a network's weights to an ONNX model, with the input and output names of `lc0 leela2onnx`.

Tensors between attention parts are `[positions * 64, width]`: a row for each square, a1, b1, ... h8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.errors import EvaluatorError
from .layout import PLANES, POLICY_SIZE, SQUARES
from .policy import CONVOLUTION_PLANES, attention_outputs, convolution_outputs, reach_map
from .session import PLANES_NAME, POLICY_NAME, VALUE_NAME, WDL_NAME, needed
from .weights import (
    MEN_PLANES,
    Activation,
    AttentionBody,
    AttentionPolicy,
    Block,
    ClassicalPolicy,
    Convolution,
    ConvolutionPolicy,
    Dense,
    Encoder,
    FeedForward,
    Floats,
    Network,
    Norm,
    Policy,
    Smolgen,
    Value,
)

if TYPE_CHECKING:
    import onnx

OPSET, IR_VERSION = 17, 8  # of 2022: every onnxruntime for NumPy 2 supports them
# activations of one node
_PLAIN = {"relu": "Relu", "tanh": "Tanh", "sigmoid": "Sigmoid", "selu": "Selu"}


class GraphWriter:
    """Writes one graph. A node's output has the node's name; methods return that name."""

    def __init__(self) -> None:
        self._onnx = needed("onnx")
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self.bytes = 0  # of all constants

    def model(
        self, inputs: dict[str, tuple[int, ...]], outputs: dict[str, tuple[int, ...]]
    ) -> onnx.ModelProto:
        """Returns the model; `inputs` and `outputs` are names and shapes for one position."""
        helper = self._onnx.helper
        graph = helper.make_graph(
            self._nodes,
            "lc0",
            [self._tensor(name, shape) for name, shape in inputs.items()],
            [self._tensor(name, shape) for name, shape in outputs.items()],
            list(self._constants.values()),
        )
        opset = helper.make_opsetid("", OPSET)
        made: onnx.ModelProto = helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)
        return made

    def _tensor(self, name: str, shape: tuple[int, ...]) -> onnx.ValueInfoProto:
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
            array = np.ascontiguousarray(values)
            self.bytes += array.nbytes
            self._constants[name] = self._onnx.numpy_helper.from_array(array, name)
        return name

    def reshape(self, name: str, flow: str, *shape: int) -> str:
        """Writes a reshape; one dimension may be -1, the rest."""
        return self.node("Reshape", name, flow, self.constant(f"{name}/shape", np.array(shape, np.int64)))

    def part(self, name: str, flow: str, axis: int, begin: int, end: int) -> str:
        """Writes a slice of one axis from `begin` to `end` (exclusive)."""
        numbers = (("begin", begin), ("end", end), ("axis", axis))
        words = [self.constant(f"{name}/{word}", np.array([n], np.int64)) for word, n in numbers]
        return self.node("Slice", name, flow, *words)

    def convolution(self, name: str, flow: str, layer: Convolution) -> str:
        """Writes a convolution that keeps the board's size."""
        size = layer.kernel.shape[-1]
        kernel = self.constant(f"{name}/kernel", layer.kernel)
        bias = self.constant(f"{name}/bias", layer.bias)
        return self.node("Conv", name, flow, kernel, bias, kernel_shape=[size, size], pads=[size // 2] * 4)

    def dense(self, name: str, flow: str, layer: Dense, *, scale: float = 1.0) -> str:
        """Writes a fully connected layer over rows `[rows, in]`; multiplies its outputs by `scale`."""
        factor = np.float32(scale)
        weights = self.constant(f"{name}/weights", layer.weights * factor)
        bias = self.constant(f"{name}/bias", layer.bias * factor)
        return self.node("Gemm", name, flow, weights, bias, transB=1)

    def norm(self, name: str, flow: str, norm: Norm) -> str:
        """Writes a layer normalisation over rows."""
        gammas = self.constant(f"{name}/gammas", norm.gammas)
        betas = self.constant(f"{name}/betas", norm.betas)
        return self.node("LayerNormalization", name, flow, gammas, betas, axis=-1, epsilon=norm.epsilon)

    def activation(self, name: str, flow: str, which: Activation) -> str:
        """Writes an activation."""
        if which == "none":
            return flow
        if which in _PLAIN:
            return self.node(_PLAIN[which], f"{name}/{which}", flow)
        if which == "relu_2":
            root = self.node("Relu", f"{name}/relu", flow)
            return self.node("Mul", f"{name}/relu_2", root, root)
        if which == "swish":
            return self.node("Mul", f"{name}/swish", flow, self.node("Sigmoid", f"{name}/sigmoid", flow))
        assert which == "mish"
        gate = self.node("Tanh", f"{name}/tanh", self.node("Softplus", f"{name}/softplus", flow))
        return self.node("Mul", f"{name}/mish", flow, gate)


MOST_BYTES = (1 << 31) - (1 << 24)  # of weights: protobuf's limit, less room for the rest of the model


def to_onnx(network: Network, label: str = "the network") -> bytes:
    """Converts a network to an ONNX model for any batch size; returns it serialized.

    Args:
      network: the weights.
      label: its name, for errors.

    Raises:
      EvaluatorError: if the package `onnx` is not installed, or the model would be too large for its format.
    """
    writer = _Writer(network)
    model = writer.written()
    if writer.bytes > MOST_BYTES:
        raise EvaluatorError(
            f"{label} is too large: an ONNX model holds at most 2 GiB of weights, as 32-bit numbers;"
            " use a smaller network"
        )
    return bytes(model.SerializeToString())


class _Writer(GraphWriter):
    def __init__(self, network: Network) -> None:
        super().__init__()
        self._network = network

    def written(self) -> onnx.ModelProto:
        """Returns the model of the network."""
        net = self._network
        flow, width = PLANES_NAME, PLANES
        if net.stem:
            flow = self._active("/stem", self.convolution("/stem/conv", flow, net.stem))
            width = len(net.stem.bias)
        for i, block in enumerate(net.blocks):
            flow = self._block(f"/block{i}", flow, block)
        if net.attention:
            flow = self._body(flow, net.attention, width)
        self._policy(flow, net.policy, width)
        name, size = self._value(flow, net.value)
        return self.model({PLANES_NAME: (PLANES, 8, 8)}, {POLICY_NAME: (POLICY_SIZE,), name: (size,)})

    def _active(self, name: str, flow: str) -> str:
        return self.activation(name, flow, self._network.activation)

    # ---------------------------------------------------------- the tower
    def _block(self, name: str, flow: str, block: Block) -> str:
        inner = self._active(f"{name}/first", self.convolution(f"{name}/conv1", flow, block.first))
        inner = self.convolution(f"{name}/conv2", inner, block.second)
        if block.squeeze and block.excite:
            inner = self._squeeze_and_excite(f"{name}/se", inner, block.squeeze, block.excite)
        return self._active(name, self.node("Add", f"{name}/sum", inner, flow))

    def _squeeze_and_excite(self, name: str, flow: str, squeeze: Dense, excite: Dense) -> str:
        """Writes `flow` times a gate plus an offset for each channel, both computed from channel means."""
        means = self.node("Flatten", f"{name}/means", self.node("GlobalAveragePool", f"{name}/pool", flow))
        hidden = self._active(f"{name}/hidden", self.dense(f"{name}/squeeze", means, squeeze))
        both = self.dense(f"{name}/excite", hidden, excite)
        both = self.reshape(f"{name}/both", both, -1, len(excite.bias), 1, 1)
        gate, offset = self.nodes("Split", [f"{name}/gate", f"{name}/offset"], both, axis=1)
        gated = self.node("Mul", f"{name}/gated", flow, self.node("Sigmoid", f"{name}/sigmoid", gate))
        return self.node("Add", name, gated, offset)

    def _squares(self, name: str, flow: str, width: int) -> str:
        """Writes the conversion of planes `[positions, width, 8, 8]` to rows; returns their name."""
        turned = self.node("Transpose", f"{name}/turned", flow, perm=[0, 2, 3, 1])
        return self.reshape(name, turned, -1, width)

    # ---------------------------------------------------------- the body
    def _body(self, flow: str, body: AttentionBody, width: int) -> str:
        """Writes an attention body over `width` planes; returns its output's name."""
        rows = self._squares("/body/squares", flow, width)
        flow = self._active("/body/embedding", self._embedded(rows, body))
        if body.norm:
            flow = self.norm("/body/norm", flow, body.norm)
        for name, kind, gate in (("multiply", "Mul", body.multiply), ("add", "Add", body.add)):
            if gate is not None:
                flow = self._by_square(f"/body/{name}", kind, flow, gate)
        if body.feed:
            flow = self._feed("/body/feed", flow, body.feed)
        for i, encoder in enumerate(body.encoders):
            flow = self._encoder(f"/encoder{i}", flow, encoder)
        return flow

    def _embedded(self, rows: str, body: AttentionBody) -> str:
        """Writes the embedding; the position map is constant, so it becomes an offset by square."""
        layer, name = body.embedding, "/body/dense"
        if body.preprocess:
            each = len(body.preprocess.bias) // SQUARES
            men = self.part("/body/men/part", rows, 1, 0, MEN_PLANES)
            men = self.reshape("/body/men", men, -1, SQUARES * MEN_PLANES)
            found = self.dense("/body/preprocess", men, body.preprocess)
            found = self.reshape("/body/preprocessed", found, -1, each)
            rows = self.node("Concat", "/body/inputs", rows, found, axis=1)
        if not body.position_map:
            return self.dense(name, rows, layer)
        seen, placed = layer.weights[:, :PLANES], layer.weights[:, PLANES:]
        offsets = reach_map() @ placed.T + layer.bias
        flow = self.dense(name, rows, Dense(seen, np.zeros_like(layer.bias)))
        return self._by_square(f"{name}/placed", "Add", flow, offsets)

    def _by_square(self, name: str, kind: str, flow: str, values: Floats) -> str:
        width = values.shape[1]
        boards = self.reshape(f"{name}/boards", flow, -1, SQUARES, width)
        done = self.node(kind, f"{name}/done", boards, self.constant(f"{name}/values", values))
        return self.reshape(name, done, -1, width)

    # ---------------------------------------------------------- encoders
    def _encoder(self, name: str, flow: str, encoder: Encoder) -> str:
        """Writes an encoder; returns its output's name."""
        mixed = self._attention(f"{name}/attention", flow, encoder)
        out = self.dense(f"{name}/out", mixed, encoder.out, scale=encoder.alpha)
        flow = self.norm(f"{name}/norm", self.node("Add", f"{name}/sum", flow, out), encoder.norm)
        return self._feed(f"{name}/feed", flow, encoder.feed)

    def _feed(self, name: str, flow: str, feed: FeedForward) -> str:
        inner = self.dense(f"{name}/dense1", flow, feed.dense1)
        inner = self.activation(f"{name}/inner", inner, feed.activation)
        inner = self.dense(f"{name}/dense2", inner, feed.dense2, scale=feed.alpha)
        return self.norm(name, self.node("Add", f"{name}/sum", flow, inner), feed.norm)

    def _attention(self, name: str, flow: str, encoder: Encoder) -> str:
        """Writes multi-head attention among the squares; the output has all heads concatenated."""
        width = len(encoder.query.bias)
        depth = width // encoder.heads
        query = self._heads(f"{name}/query", flow, encoder.query, encoder.heads, scale=depth**-0.5)
        key = self._heads(f"{name}/key", flow, encoder.key, encoder.heads, turned=True)
        value = self._heads(f"{name}/value", flow, encoder.value, encoder.heads)
        scores = self.node("MatMul", f"{name}/scores", query, key)
        if encoder.smolgen:
            more = self._smolgen(f"{name}/smolgen", flow, encoder.smolgen, encoder.heads)
            scores = self.node("Add", f"{name}/all", scores, more)
        shares = self.node("Softmax", f"{name}/shares", scores, axis=-1)
        taken = self.node("MatMul", f"{name}/taken", shares, value)
        back = self.node("Transpose", f"{name}/back", taken, perm=[0, 2, 1, 3])
        return self.reshape(name, back, -1, width)

    def _heads(
        self, name: str, flow: str, layer: Dense, heads: int, *, scale: float = 1.0, turned: bool = False
    ) -> str:
        """Writes outputs `[positions, heads, 64, depth]`; `turned`: with the last two axes swapped."""
        found = self.dense(f"{name}/dense", flow, layer, scale=scale)
        split = self.reshape(f"{name}/split", found, -1, SQUARES, heads, len(layer.bias) // heads)
        return self.node("Transpose", name, split, perm=[0, 2, 3, 1] if turned else [0, 2, 1, 3])

    def _smolgen(self, name: str, flow: str, smolgen: Smolgen, heads: int) -> str:
        channels, inputs = len(smolgen.compress), smolgen.shared.shape[1]
        no_bias = Dense(smolgen.compress, np.zeros(channels, np.float32))
        flow = self.dense(f"{name}/compress", flow, no_bias)
        flow = self.reshape(f"{name}/flat", flow, -1, SQUARES * channels)
        for i, dense, norm in ((1, smolgen.dense1, smolgen.norm1), (2, smolgen.dense2, smolgen.norm2)):
            flow = self.dense(f"{name}/dense{i}", flow, dense)
            flow = self.activation(f"{name}/inner{i}", flow, smolgen.activation)
            flow = self.norm(f"{name}/norm{i}", flow, norm)
        flow = self.reshape(f"{name}/heads", flow, -1, inputs)
        shared = self.constant(f"/smolgen/shared{inputs}", smolgen.shared)
        flow = self.node("Gemm", f"{name}/pairs", flow, shared, transB=1)
        return self.reshape(name, flow, -1, heads, SQUARES, SQUARES)

    # ---------------------------------------------------------- heads
    def _policy(self, flow: str, policy: Policy, width: int) -> None:
        if isinstance(policy, AttentionPolicy):
            rows = flow if self._network.attention else self._squares("/policy/squares", flow, width)
            self._attention_policy(rows, policy)
            return
        flow = self._active("/policy/first", self.convolution("/policy/conv1", flow, policy.first))
        if isinstance(policy, ClassicalPolicy):
            self.dense(POLICY_NAME, self.node("Flatten", "/policy/flat", flow), policy.dense)
            return
        assert isinstance(policy, ConvolutionPolicy)
        assert len(policy.last.bias) == CONVOLUTION_PLANES
        flat = self.node("Flatten", "/policy/flat", self.convolution("/policy/conv2", flow, policy.last))
        self.node("Gather", POLICY_NAME, flat, self.constant("/policy/map", convolution_outputs()), axis=1)

    def _attention_policy(self, flow: str, policy: AttentionPolicy) -> None:
        """Writes an attention policy over rows, with logits `[positions, 1858]`."""
        flow = self.dense("/policy/embedding", flow, policy.embedding)
        flow = self.activation("/policy/embedded", flow, policy.activation)
        for i, encoder in enumerate(policy.encoders):
            flow = self._encoder(f"/policy/encoder{i}", flow, encoder)
        width = len(policy.key.bias)
        query = self.dense("/policy/query", flow, policy.query, scale=width**-0.5)
        query = self.reshape("/policy/from", query, -1, SQUARES, width)
        key = self.reshape("/policy/to", self.dense("/policy/key", flow, policy.key), -1, SQUARES, width)
        turned = self.node("Transpose", "/policy/to/turned", key, perm=[0, 2, 1])
        pairs = self.node("MatMul", "/policy/pairs", query, turned)
        plain = self.reshape("/policy/plain", pairs, -1, SQUARES * SQUARES)
        both = self.node("Concat", "/policy/all", plain, self._promotions(pairs, key, policy), axis=1)
        self.node("Gather", POLICY_NAME, both, self.constant("/policy/map", attention_outputs()), axis=1)

    def _promotions(self, pairs: str, key: str, policy: AttentionPolicy) -> str:
        """Writes the logits of promotions `[positions, 8 * 8 * 3]`: from-file, to-file, and q, r or b.

        Each is the logit of the pair of squares plus the to-square's terms for the piece and for any
        promotion.
        """
        kinds, any_kind = policy.promotions[:3], policy.promotions[3:]
        weights = self.constant("/policy/promotions/weights", (kinds + any_kind).T)
        last = self.part("/policy/promotions/to", key, 1, 56, 64)
        more = self.node("MatMul", "/policy/promotions/pieces", last, weights)
        more = self.reshape("/policy/promotions/more", more, -1, 1, 8, 3)
        plain = self.part("/policy/promotions/rank7", pairs, 1, 48, 56)
        plain = self.part("/policy/promotions/rank8", plain, 2, 56, 64)
        plain = self.reshape("/policy/promotions/plain", plain, -1, 8, 8, 1)
        summed = self.node("Add", "/policy/promotions/sum", plain, more)
        return self.reshape("/policy/promotions", summed, -1, 8 * 8 * 3)

    def _value(self, flow: str, value: Value) -> tuple[str, int]:
        """Writes the value head; returns its output's name and size."""
        first, size = value.first, SQUARES * len(value.first.bias)
        if isinstance(first, Dense):
            flow = self._active("/value/first", self.dense("/value/embedding", flow, first))
        else:
            flow = self._active("/value/first", self.convolution("/value/conv", flow, first))
        flow = self.dense("/value/dense1", self.reshape("/value/flat", flow, -1, size), value.hidden)
        flow = self.dense("/value/dense2", self._active("/value/hidden", flow), value.output)
        if len(value.output.bias) == 3:
            return self.node("Softmax", WDL_NAME, flow, axis=1), 3
        return self.node("Tanh", VALUE_NAME, flow), 1
