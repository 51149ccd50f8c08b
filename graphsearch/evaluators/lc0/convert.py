"""A network's weights as an ONNX model, with inputs and outputs named as `lc0 leela2onnx` names them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import EvaluatorError
from .convert_attention import squares, write_body, write_policy
from .graph import GraphWriter
from .layout import PLANES, POLICY_SIZE, SQUARES
from .network import (
    AttentionPolicy,
    Block,
    ClassicalPolicy,
    Convolution,
    ConvolutionPolicy,
    Dense,
    Network,
    Policy,
    Value,
)
from .policy import CONVOLUTION_PLANES, convolution_outputs
from .session import PLANES_NAME, POLICY_NAME, VALUE_NAME, WDL_NAME

if TYPE_CHECKING:
    import onnx

MOST_BYTES = (1 << 31) - (1 << 24)  # of a protocol buffer, with room for what is no weight


def to_onnx(network: Network, label: str = "the network") -> bytes:
    """Returns a network as an ONNX model for any batch size.

    Args:
      network: the weights.
      label: what errors call it.

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
    """Writes the graph of one network."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self._network = network

    def written(self) -> onnx.ModelProto:
        """Returns the model of the network."""
        net = self._network
        flow, width = PLANES_NAME, PLANES
        if net.stem:
            flow, width = self._tower(net.stem), len(net.stem.bias)
        if net.attention:
            flow = write_body(self, flow, net.attention, net.activation, width)
        self._policy(flow, net.policy, width)
        name, size = self._value(flow, net.value)
        return self.model({PLANES_NAME: (PLANES, 8, 8)}, {POLICY_NAME: (POLICY_SIZE,), name: (size,)})

    def _active(self, name: str, flow: str) -> str:
        return self.activation(name, flow, self._network.activation)

    # ---------------------------------------------------------- the tower
    def _tower(self, stem: Convolution) -> str:
        flow = self._active("/stem", self.convolution("/stem/conv", PLANES_NAME, stem))
        for i, block in enumerate(self._network.blocks):
            flow = self._block(f"/block{i}", flow, block)
        return flow

    def _block(self, name: str, flow: str, block: Block) -> str:
        inner = self._active(f"{name}/first", self.convolution(f"{name}/conv1", flow, block.first))
        inner = self.convolution(f"{name}/conv2", inner, block.second)
        if block.squeeze and block.excite:
            inner = self._squeeze_and_excite(f"{name}/se", inner, block.squeeze, block.excite)
        return self._active(name, self.node("Add", f"{name}/sum", inner, flow))

    def _squeeze_and_excite(self, name: str, flow: str, squeeze: Dense, excite: Dense) -> str:
        """Returns the flow times a gate plus an offset for each channel, both computed from its means."""
        means = self.node("Flatten", f"{name}/means", self.node("GlobalAveragePool", f"{name}/pool", flow))
        hidden = self._active(f"{name}/hidden", self.dense(f"{name}/squeeze", means, squeeze))
        both = self.dense(f"{name}/excite", hidden, excite)
        both = self.reshape(f"{name}/both", both, -1, len(excite.bias), 1, 1)
        gate, offset = self.nodes("Split", [f"{name}/gate", f"{name}/offset"], both, axis=1)
        gated = self.node("Mul", f"{name}/gated", flow, self.node("Sigmoid", f"{name}/sigmoid", gate))
        return self.node("Add", name, gated, offset)

    # ---------------------------------------------------------- heads
    def _policy(self, flow: str, policy: Policy, width: int) -> None:
        if isinstance(policy, AttentionPolicy):
            rows = flow if self._network.attention else squares(self, "/policy/squares", flow, width)
            write_policy(self, POLICY_NAME, rows, policy)
            return
        flow = self._active("/policy/first", self.convolution("/policy/conv1", flow, policy.first))
        if isinstance(policy, ClassicalPolicy):
            self.dense(POLICY_NAME, self.node("Flatten", "/policy/flat", flow), policy.dense)
            return
        assert isinstance(policy, ConvolutionPolicy)
        assert len(policy.last.bias) == CONVOLUTION_PLANES
        flat = self.node("Flatten", "/policy/flat", self.convolution("/policy/conv2", flow, policy.last))
        self.node("Gather", POLICY_NAME, flat, self.constant("/policy/map", convolution_outputs()), axis=1)

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
