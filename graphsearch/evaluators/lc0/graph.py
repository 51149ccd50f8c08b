"""An ONNX graph, written node by node: what every part of a network is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .form import Activation
from .network import Convolution, Dense, Norm
from .session import needed

if TYPE_CHECKING:
    import onnx

OPSET, IR_VERSION = 17, 8  # of 2022: every onnxruntime that runs with NumPy 2 knows them
_PLAIN = {
    "relu": "Relu",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "selu": "Selu",
}  # activations that are one node


class GraphWriter:
    """Writes one graph; a node's output has the node's name, which is what every method returns."""

    def __init__(self) -> None:
        self._onnx = needed("onnx")
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self.bytes = 0  # of all constants

    def model(
        self, inputs: dict[str, tuple[int, ...]], outputs: dict[str, tuple[int, ...]]
    ) -> onnx.ModelProto:
        """Returns the model, its inputs and outputs by the shapes that they have for one position."""
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
        """Writes a node with several outputs, of these names."""
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), names, names[0], **attributes))
        return names

    def constant(self, name: str, values: Any) -> str:
        """Writes numbers; those of a name that was written before are the same ones."""
        if name not in self._constants:
            array = np.ascontiguousarray(values)
            self.bytes += array.nbytes
            self._constants[name] = self._onnx.numpy_helper.from_array(array, name)
        return name

    def reshape(self, name: str, flow: str, *shape: int) -> str:
        """Writes a change of shape; one -1 is what is left."""
        return self.node("Reshape", name, flow, self.constant(f"{name}/shape", np.array(shape, np.int64)))

    def part(self, name: str, flow: str, axis: int, begin: int, end: int) -> str:
        """Writes the part of one axis from `begin` to before `end`."""
        numbers = (("begin", begin), ("end", end), ("axis", axis))
        words = [self.constant(f"{name}/{word}", np.array([n], np.int64)) for word, n in numbers]
        return self.node("Slice", name, flow, *words)

    def convolution(self, name: str, flow: str, layer: Convolution) -> str:
        """Writes a convolution that keeps the board's size."""
        size = layer.kernel.shape[-1]
        kernel, bias = (
            self.constant(f"{name}/kernel", layer.kernel),
            self.constant(f"{name}/bias", layer.bias),
        )
        return self.node("Conv", name, flow, kernel, bias, kernel_shape=[size, size], pads=[size // 2] * 4)

    def dense(self, name: str, flow: str, layer: Dense, *, scale: float = 1.0) -> str:
        """Writes a fully connected layer of rows `[rows, in]`, its outputs times `scale`."""
        factor = np.float32(scale)
        weights = self.constant(f"{name}/weights", layer.weights * factor)
        return self.node(
            "Gemm", name, flow, weights, self.constant(f"{name}/bias", layer.bias * factor), transB=1
        )

    def norm(self, name: str, flow: str, norm: Norm) -> str:
        """Writes a layer normalisation of rows."""
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
