"""A network's weights as an ONNX model, with inputs and outputs named as `lc0 leela2onnx` names them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .layout import POLICY_SIZE
from .policy import CONVOLUTION_PLANES, convolution_outputs
from .session import PLANES_NAME, POLICY_NAME, VALUE_NAME, WDL_NAME, needed
from .weights import Block, Convolution, Dense, Network

if TYPE_CHECKING:
    import onnx

OPSET, IR_VERSION = 17, 8  # of 2022: every onnxruntime that runs with NumPy 2 knows them


def to_onnx(network: Network) -> bytes:
    """Returns a network as an ONNX model for any batch size.

    Raises:
      EvaluatorError: if the package `onnx` is not installed.
    """
    return bytes(_Writer(network).model().SerializeToString())


class _Writer:
    """Writes one graph, node by node; a node's output has the node's name."""

    def __init__(self, network: Network) -> None:
        self._onnx = needed("onnx")
        self._network = network
        self._activation = self._mish if network.mish else self._relu
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def model(self) -> onnx.ModelProto:
        """Returns the model of the network."""
        flow = self._activation("/stem", self._convolution("/stem/conv", PLANES_NAME, self._network.stem))
        for i, block in enumerate(self._network.blocks):
            flow = self._block(f"/block{i}", flow, block)
        self._policy(flow)
        value_name, value_size = self._value(flow)
        helper = self._onnx.helper
        graph = helper.make_graph(
            self._nodes,
            "lc0",
            [self._tensor(PLANES_NAME, 112, 8, 8)],
            [self._tensor(POLICY_NAME, POLICY_SIZE), self._tensor(value_name, value_size)],
            self._constants,
        )
        opset = helper.make_opsetid("", OPSET)
        made: onnx.ModelProto = helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)
        return made

    def _tensor(self, name: str, *shape: int) -> onnx.ValueInfoProto:
        kind = self._onnx.TensorProto.FLOAT
        made: onnx.ValueInfoProto = self._onnx.helper.make_tensor_value_info(name, kind, ["batch", *shape])
        return made

    # ---------------------------------------------------------- nodes
    def _node(self, kind: str, name: str, *inputs: str, **attributes: Any) -> str:
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), [name], name, **attributes))
        return name

    def _constant(self, name: str, values: Any) -> str:
        self._constants.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def _relu(self, name: str, flow: str) -> str:
        return self._node("Relu", f"{name}/relu", flow)

    def _mish(self, name: str, flow: str) -> str:
        gate = self._node("Tanh", f"{name}/tanh", self._node("Softplus", f"{name}/softplus", flow))
        return self._node("Mul", f"{name}/mish", flow, gate)

    def _convolution(self, name: str, flow: str, layer: Convolution) -> str:
        size = layer.kernel.shape[-1]
        return self._node(
            "Conv",
            name,
            flow,
            self._constant(f"{name}/kernel", layer.kernel),
            self._constant(f"{name}/bias", layer.bias),
            kernel_shape=[size, size],
            pads=[size // 2] * 4,
        )

    def _dense(self, name: str, flow: str, layer: Dense) -> str:
        weights = self._constant(f"{name}/weights", layer.weights)
        return self._node("Gemm", name, flow, weights, self._constant(f"{name}/bias", layer.bias), transB=1)

    # ---------------------------------------------------------- parts
    def _block(self, name: str, flow: str, block: Block) -> str:
        inner = self._activation(f"{name}/first", self._convolution(f"{name}/conv1", flow, block.first))
        inner = self._convolution(f"{name}/conv2", inner, block.second)
        if block.squeeze and block.excite:
            inner = self._squeeze_and_excite(f"{name}/se", inner, block.squeeze, block.excite)
        return self._activation(name, self._node("Add", f"{name}/sum", inner, flow))

    def _squeeze_and_excite(self, name: str, flow: str, squeeze: Dense, excite: Dense) -> str:
        """Returns the flow times a gate plus an offset for each channel, both computed from its means."""
        means = self._node("Flatten", f"{name}/means", self._node("GlobalAveragePool", f"{name}/pool", flow))
        hidden = self._activation(f"{name}/hidden", self._dense(f"{name}/squeeze", means, squeeze))
        both = self._dense(f"{name}/excite", hidden, excite)
        shape = self._constant(f"{name}/shape", np.array([-1, len(excite.bias), 1, 1], np.int64))
        both = self._node("Reshape", f"{name}/both", both, shape)
        gate, offset = f"{name}/gate", f"{name}/offset"
        split = self._onnx.helper.make_node("Split", [both], [gate, offset], f"{name}/split", axis=1)
        self._nodes.append(split)
        gated = self._node("Mul", f"{name}/gated", flow, self._node("Sigmoid", f"{name}/sigmoid", gate))
        return self._node("Add", name, gated, offset)

    def _policy(self, flow: str) -> None:
        first, *rest = self._network.policy
        flow = self._activation("/policy/first", self._convolution("/policy/conv1", flow, first))
        if self._network.policy_dense:
            self._dense(POLICY_NAME, self._node("Flatten", "/policy/flat", flow), self._network.policy_dense)
            return
        (last,) = rest
        assert len(last.bias) == CONVOLUTION_PLANES
        flat = self._node("Flatten", "/policy/flat", self._convolution("/policy/conv2", flow, last))
        self._node("Gather", POLICY_NAME, flat, self._constant("/policy/map", convolution_outputs()), axis=1)

    def _value(self, flow: str) -> tuple[str, int]:
        """Writes the value head; returns its output's name and size."""
        net = self._network
        flow = self._activation("/value/first", self._convolution("/value/conv", flow, net.value))
        flow = self._dense("/value/dense1", self._node("Flatten", "/value/flat", flow), net.value_hidden)
        flow = self._dense("/value/dense2", self._activation("/value/hidden", flow), net.value_output)
        if len(net.value_output.bias) == 3:
            return self._node("Softmax", WDL_NAME, flow, axis=1), 3
        return self._node("Tanh", VALUE_NAME, flow), 1
