"""Checks an ONNX model before it is loaded: its operators, and the layer sizes from its shapes.

An ONNX file is a program: with loops it can run forever, and a few nodes can request any amount of memory. So
this module rejects models with subgraphs, functions, external files, operators that turn sizes into numbers,
layers of unknown size or larger than ACTIVATIONS, and more work for a position than WORK.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...base.errors import EvaluatorError
from ...base.limits import ACTIVATIONS, NODES, WORK, shortened
from .session import Names, first_line, needed

if TYPE_CHECKING:
    import onnx

OPERATORS = {
    "Abs", "Add", "AveragePool", "BatchNormalization", "Cast", "Clip", "Concat", "Constant", "Conv", "Div",
    "Elu", "Erf", "Exp", "Expand", "Flatten", "Gather", "Gelu", "Gemm", "GlobalAveragePool", "Greater",
    "HardSigmoid", "HardSwish", "Identity", "LayerNormalization", "LeakyRelu", "Log", "MatMul", "Max",
    "Mean", "Min", "Mish", "Mul", "Neg", "PRelu", "Pad", "Pow", "RMSNormalization", "Reciprocal",
    "ReduceMean", "ReduceSum", "Relu", "Reshape", "Selu", "Shape", "Sigmoid", "Sign", "Slice", "Softmax",
    "Softplus", "Softsign", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Swish", "Tanh", "Transpose",
    "Unsqueeze", "Where",
}  # fmt: skip
PRODUCTS = ("MatMul", "Gemm", "Conv")
ELEMENT = 16  # work per output of all other operators: some are exponentials
MOST_AT_ONCE = 1024  # positions in one run: 29 MB of planes; more do not run faster
MOST_NUMBERS = 1 << 26  # outputs of one layer in one run, 256 MiB: a large network with 512 positions
MOST_INTEGERS = 4096  # in one list of sizes that a model computes
LEAST_BITS = 4  # of a number in a constant


def widest(model: bytes, label: str, names: Names) -> int:
    """Checks a model; returns the number of outputs of its largest layer for one position.

    Raises:
      EvaluatorError: if it is no ONNX model or not an allowed one, or if the package `onnx` is missing.
    """
    try:
        found: onnx.ModelProto = needed("onnx").load_model_from_string(model)
    except Exception as error:  # of protobuf, whichever it is
        raise EvaluatorError(f"{label} cannot be loaded: it is no ONNX model: {first_line(error)}") from None
    if not found.graph.node:
        raise EvaluatorError(f"{label} cannot be loaded: it is an ONNX model without a node")
    checked = _Checked(found, label, len(model))
    checked.check_parts()
    checked.check_integers()
    return checked.widest(names)


class _Checked:
    def __init__(self, model: onnx.ModelProto, label: str, size: int) -> None:
        self._model, self._graph = model, model.graph
        self._label, self._bytes = label, size

    def _refuse(self, reason: str) -> EvaluatorError:
        return EvaluatorError(
            f"{self._label} is not a network as `lc0 leela2onnx` writes it: {shortened(reason, 200)}"
        )

    def check_parts(self) -> None:
        """Checks each node and each constant by itself."""
        graph, count = self._graph, len(self._graph.node)
        if self._model.functions or self._model.training_info or graph.sparse_initializer:
            raise self._refuse("it has functions, training steps or sparse constants")
        if count > NODES.most:
            raise self._refuse(f"it has {count:,} nodes, the limit is {NODES.most:,}{NODES.hint}")
        for node in graph.node:
            if node.domain not in ("", "ai.onnx") or node.op_type not in OPERATORS:
                raise self._refuse(f"the operator {'.'.join(filter(None, (node.domain, node.op_type)))}")
            for attribute in node.attribute:
                if attribute.HasField("g") or attribute.graphs or attribute.HasField("sparse_tensor"):
                    raise self._refuse(f"the {node.op_type} {node.name} has a graph inside")
        for tensor in self._constants():
            if tensor.external_data or tensor.data_location:
                raise self._refuse(f"the constant {tensor.name} is in another file")
            if any(d < 0 for d in tensor.dims) or math.prod(tensor.dims) > self._bytes * 8 // LEAST_BITS:
                raise self._refuse(f"the constant {tensor.name} has the size {list(tensor.dims)}")

    def _constants(self) -> Iterator[onnx.TensorProto]:
        yield from self._graph.initializer
        for node in self._graph.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors

    def check_integers(self) -> None:
        """Checks that lists of sizes, from which shapes are computed, do not grow without limit."""
        lengths = {
            tensor.name: math.prod(tensor.dims)
            for tensor in self._graph.initializer
            if tensor.data_type in _INTEGERS and len(tensor.dims) <= 1
        }
        for node in self._graph.node:
            given = [lengths.get(name, 0) for name in node.input]
            length = sum(given) if node.op_type == "Concat" else max(given, default=0)
            if node.op_type in ("Shape", "Constant"):
                length = max([length, 64, *(len(one.ints) for one in node.attribute)])
                length = max(
                    [length, *(math.prod(one.t.dims) for one in node.attribute if one.HasField("t"))]
                )
            if length > MOST_INTEGERS and node.op_type == "Concat":
                raise self._refuse(f"the Concat {node.name} makes a list of {length:,} sizes")
            lengths.update(dict.fromkeys(node.output, length))

    def widest(self, names: Names) -> int:
        """Checks the sizes of all layers and their work; returns the largest size for one position."""
        batch = self._one_position(names)
        shapes = self._shapes()
        most, work = 1, 0
        for node in self._graph.node:
            for name in filter(None, node.output):
                if name not in shapes:
                    raise self._refuse(f"the size of {name}, from the {node.op_type}, is not known")
                numbers = math.prod(shapes[name])
                most = max(most, numbers)
                work += numbers * self._each(node, shapes)
            if most > (ACTIVATIONS.most if batch == 1 else max(ACTIVATIONS.most, MOST_NUMBERS)):
                raise self._refuse(
                    f"{most:,} numbers in the {node.op_type} {node.name}, the limit is"
                    f" {ACTIVATIONS.most:,}{ACTIVATIONS.hint}"
                )
            if work > batch * WORK.most:
                raise self._refuse(f"more than {WORK.most:,} multiplications for a position{WORK.hint}")
        return -(-most // batch)

    def _one_position(self, names: Names) -> int:
        """Sets the input's batch size to 1 unless the model fixes it; returns the batch size."""
        for given in self._graph.input:
            if given.name == names.planes and given.type.tensor_type.shape.dim:
                batch = given.type.tensor_type.shape.dim[0]
                if batch.dim_value > MOST_AT_ONCE:
                    raise self._refuse(f"a batch of {batch.dim_value:,} positions")
                if batch.dim_value > 0:
                    return int(batch.dim_value)
                batch.dim_value = 1
        for output in self._graph.output:  # their shapes have a named dimension `batch`
            output.type.tensor_type.ClearField("shape")
        del self._graph.value_info[:]  # the model's own shapes are not trusted
        return 1

    def _shapes(self) -> dict[str, Sequence[int]]:
        inference = needed("onnx.shape_inference")
        del self._graph.value_info[:]
        try:
            graph = inference.infer_shapes(self._model, strict_mode=True, data_prop=True).graph
        except Exception as error:
            raise self._refuse(f"its shapes are at odds: {first_line(error)}") from None
        found: dict[str, Sequence[int]] = {one.name: tuple(one.dims) for one in graph.initializer}
        for value in (*graph.input, *graph.value_info, *graph.output):
            kind = value.type.tensor_type
            if kind.HasField("shape") and all(d.HasField("dim_value") for d in kind.shape.dim):
                found[value.name] = tuple(d.dim_value for d in kind.shape.dim)
        return {name: shape for name, shape in found.items() if all(d >= 0 for d in shape)}

    def _each(self, node: onnx.NodeProto, shapes: dict[str, Sequence[int]]) -> int:
        if node.op_type not in PRODUCTS:
            return ELEMENT
        known: list[Sequence[int]] = [*(shapes.get(name, ()) for name in node.input), (), ()]
        flow, weights = known[:2]
        if node.op_type == "Conv":
            return max(1, math.prod(weights[1:]))
        turned = any(one.name == "transA" and one.i for one in node.attribute)
        return max(1, *(flow[:1] if turned else flow[-1:]))


_INTEGERS = (6, 7)  # int32, int64
