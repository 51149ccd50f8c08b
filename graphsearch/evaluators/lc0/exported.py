"""Models that `lc0 leela2onnx` wrote, checked before onnxruntime loads them.

An ONNX file is a program: with loops it runs forever, and a few nodes can request any amount of memory. So a
model is refused if it has subgraphs, functions, other files, operators that turn sizes into numbers, layers
of unknown size or larger than ACTIVATIONS, or more work for a position than WORK.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...base.errors import EvaluatorError
from ...base.limits import ACTIVATIONS, shortened
from .convert import PLANES_NAME, POLICY_NAME, VALUE_NAME, WDL_NAME, Model
from .planes import PLANES, POLICY_SIZE
from .weights import CLASSICAL_INPUT, needed

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
ELEMENT = 16  # work per output of all other operators: some are exponentials
NODES = 20_000  # the largest of lc0 have 3,000
WORK = 1 << 38  # multiplications for a position, half a minute of one core; the largest of lc0 need 2^34
MOST_INTEGERS = 4096  # in one list of sizes that a model computes
LEAST_BITS = 4  # of a number in a constant

Shapes = dict[str, Sequence[int]]


def read_exported(data: bytes, name: str) -> Model:
    """Returns a checked model.

    Args:
      data: the file's content. name: the file's name, for errors.

    Raises:
      EvaluatorError: if it is no ONNX model or not an allowed one; if the package `onnx` is missing.
    """
    return Model(data, CLASSICAL_INPUT, *_Check(data, name).ends_and_widest())


class _Check:
    """The checks of one file."""

    def __init__(self, data: bytes, name: str) -> None:
        self._name, self._bytes = name, len(data)
        try:
            self._model: onnx.ModelProto = needed("onnx").load_model_from_string(data)
        except Exception as error:  # of protobuf, whichever it is
            raise EvaluatorError(
                f"{name} cannot be loaded: it is no ONNX model: {str(error).strip().partition(chr(10))[0]}"
            ) from None
        self._graph = self._model.graph

    def ends_and_widest(self) -> tuple[bool, int]:
        """Checks everything; returns whether the value is WDL, and the size of the largest layer."""
        self._check_parts()
        self._check_integers()
        shapes = self._shapes()
        return self._check_ends(shapes), self._check_sizes(shapes)

    def _refused(self, reason: str) -> EvaluatorError:
        return EvaluatorError(
            f"{self._name} is not a network as `lc0 leela2onnx` writes it: {shortened(reason, 200)}"
        )

    def _check_parts(self) -> None:
        """Checks each node and each constant by itself."""
        graph, count = self._graph, len(self._graph.node)
        if self._model.functions or self._model.training_info or graph.sparse_initializer:
            raise self._refused("it has functions, training steps or sparse constants")
        if not 0 < count <= NODES:
            raise self._refused(f"it has {count:,} nodes, the limit is {NODES:,}")
        for node in graph.node:
            if node.domain not in ("", "ai.onnx") or node.op_type not in OPERATORS:
                raise self._refused(f"the operator {'.'.join(filter(None, (node.domain, node.op_type)))}")
            for attribute in node.attribute:
                if attribute.HasField("g") or attribute.graphs or attribute.HasField("sparse_tensor"):
                    raise self._refused(f"the {node.op_type} {node.name} has a graph inside")
        for tensor in self._constants():
            if tensor.external_data or tensor.data_location:
                raise self._refused(f"the constant {tensor.name} is in another file")
            if any(d < 0 for d in tensor.dims) or math.prod(tensor.dims) > self._bytes * 8 // LEAST_BITS:
                raise self._refused(f"the constant {tensor.name} has the size {list(tensor.dims)}")

    def _constants(self) -> Iterator[onnx.TensorProto]:
        yield from self._graph.initializer
        for node in self._graph.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors

    def _check_integers(self) -> None:
        """Checks that lists of sizes, from which shapes are computed, do not grow without limit."""
        kinds = needed("onnx").TensorProto
        lengths = {
            tensor.name: math.prod(tensor.dims)
            for tensor in self._graph.initializer
            if tensor.data_type in (kinds.INT32, kinds.INT64) and len(tensor.dims) <= 1
        }
        for node in self._graph.node:
            given = [lengths.get(name, 0) for name in node.input]
            length = sum(given) if node.op_type == "Concat" else max(given, default=0)
            if node.op_type in ("Shape", "Constant"):
                tensors = (math.prod(one.t.dims) for one in node.attribute if one.HasField("t"))
                length = max([length, 64, *(len(one.ints) for one in node.attribute), *tensors])
            if length > MOST_INTEGERS and node.op_type == "Concat":
                raise self._refused(f"the Concat {node.name} makes a list of {length:,} sizes")
            lengths.update(dict.fromkeys(node.output, length))

    def _shapes(self) -> Shapes:
        """Returns the shapes of what is known, for one position."""
        for one in self._graph.input:
            dims = one.type.tensor_type.shape.dim
            if dims and dims[0].dim_value == 0:
                dims[0].dim_value = 1
        for one in self._graph.output:  # their shapes have a named dimension `batch`
            one.type.tensor_type.ClearField("shape")
        del self._graph.value_info[:]  # the model's own shapes are not trusted
        inference = needed("onnx.shape_inference")
        try:
            graph = inference.infer_shapes(self._model, strict_mode=True, data_prop=True).graph
        except Exception as error:
            raise self._refused(
                f"its shapes are at odds: {str(error).strip().partition(chr(10))[0]}"
            ) from None
        found: Shapes = {one.name: tuple(one.dims) for one in graph.initializer}
        for value in (*graph.input, *graph.value_info, *graph.output):
            kind = value.type.tensor_type
            if kind.HasField("shape") and all(d.HasField("dim_value") for d in kind.shape.dim):
                found[value.name] = tuple(d.dim_value for d in kind.shape.dim)
        return {name: shape for name, shape in found.items() if all(d >= 0 for d in shape)}

    def _check_ends(self, shapes: Shapes) -> bool:
        """Checks input and outputs; returns whether the value is WDL."""
        constants = {one.name for one in self._graph.initializer}
        inputs = [one.name for one in self._graph.input if one.name not in constants]
        outputs = {one.name for one in self._graph.output}
        value, width = (WDL_NAME, 3) if WDL_NAME in outputs else (VALUE_NAME, 1)
        floats = needed("onnx").TensorProto.FLOAT
        ends = [(PLANES_NAME, (1, PLANES, 8, 8)), (POLICY_NAME, (1, POLICY_SIZE)), (value, (1, width))]
        good = (
            inputs == [PLANES_NAME]
            and {POLICY_NAME, value} <= outputs
            and all(tuple(shapes.get(name, ())) == shape for name, shape in ends)
            and all(one.type.tensor_type.elem_type == floats for one in self._graph.input)
        )
        if not good:
            found = ", ".join(f"{name} {list(shapes.get(name, ()))}" for name in (*inputs, *sorted(outputs)))
            raise self._refused(
                f"expected {PLANES_NAME} [batch, {PLANES}, 8, 8] of float32, {POLICY_NAME} [batch,"
                f" {POLICY_SIZE}] and {WDL_NAME} [batch, 3] or {VALUE_NAME} [batch, 1], found {found}"
            )
        return value == WDL_NAME

    def _check_sizes(self, shapes: Shapes) -> int:
        """Checks the sizes of all layers and their work; returns the largest size."""
        most, work = 1, 0
        for node in self._graph.node:
            for name in filter(None, node.output):
                if name not in shapes:
                    raise self._refused(f"the size of {name}, from the {node.op_type}, is not known")
                numbers = math.prod(shapes[name])
                most = max(most, numbers)
                work += numbers * _work_of(node, shapes)
            if most > ACTIVATIONS.most:
                raise self._refused(
                    f"{most:,} numbers in the {node.op_type} {node.name}, the limit is"
                    f" {ACTIVATIONS.most:,}{ACTIVATIONS.hint}"
                )
            if work > WORK:
                raise self._refused(f"more than {WORK:,} multiplications for a position")
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
