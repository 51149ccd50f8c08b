"""Wraps onnxruntime: checks a model, loads it on a device and runs it, planes in, logits and values out.

An ONNX file is a program: with loops it can run forever, and a few nodes can request any amount of memory. So
this module rejects models with subgraphs, functions, external files, operators that turn sizes into numbers,
layers of unknown size or larger than ACTIVATIONS, and more work for a position than WORK.
"""

from __future__ import annotations

import importlib
import io
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...base.errors import EvaluatorError, MissingPackageError
from ...base.limits import ACTIVATIONS, FIRST_RUN, NODES, WORK, shortened
from .layout import PLANES, POLICY_SIZE
from .policy import CONVOLUTION_PLANES, convolution_outputs

if TYPE_CHECKING:
    import onnx

# --------------------------------------------------------------------------- running a model
PLANES_NAME, POLICY_NAME = "/input/planes", "/output/policy"
WDL_NAME, VALUE_NAME = "/output/wdl", "/output/value"  # a network has one of them

INSTALL = "pip install '.[lc0]' in the folder of graphsearch"
AUTO, CPU, CUDA = "auto", "cpu", "cuda"
AUTO_DEVICES = (CUDA, "rocm", "migraphx", "dml", "coreml")  # `auto` prefers them to the CPU
PROVIDER = "ExecutionProvider"  # suffix of onnxruntime's device names
SPINNING = "session.intra_op.allow_spinning"  # busy waiting of threads: would double the CPU time
# bytes; smaller models evaluate a single position in one thread, as sharing it would cost more than it saves
SMALL_MODEL = 16_000_000
EVEN = 64  # batches on a GPU: powers of two up to it, then its multiples
FATAL_ONLY = 4  # log level of onnxruntime; errors are exceptions anyway

_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


def needed(module: str) -> Any:
    """Imports a module of the extra `lc0`; raises EvaluatorError if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackageError(f"an lc0 network needs the package {module} ({error}): {INSTALL}") from None


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a model's input and outputs; a model may lack `wdl` or `value`."""

    planes: str = PLANES_NAME
    policy: str = POLICY_NAME
    wdl: str = WDL_NAME
    value: str = VALUE_NAME


class Session:
    """A loaded model. Any thread may call it; calls release the GIL.

    Attributes:
      device: its device, such as `cpu` or `cuda`.
      has_wdl: whether its value is WDL.
      dtype: of its planes.
      batch: its fixed batch size, None for any size.
      runtime: the onnxruntime session itself.
      notes: remarks for the user, if `auto` could not use a GPU.
      planes: the name of its input.
      outputs: the names of its policy and its value.
    """

    def __init__(
        self, model: bytes, label: str, names: Names, *, device: str = AUTO, threads: int = 0
    ) -> None:
        """Loads a model.

        Args:
          model: an ONNX model.
          label: its name, for errors.
          names: of its input and outputs.
          device: `auto`, `cpu`, or another that this onnxruntime was built for, such as `cuda`.
          threads: CPU threads, 0 for one per core; with 0, a small network uses one for a single position.

        Raises:
          EvaluatorError: if onnxruntime is missing, does not have the device or cannot load the model, or if
            the inputs or outputs are not those that `lc0 leela2onnx` writes.
        """
        ort = needed("onnxruntime")
        wanted = _providers(ort, device)
        if _device_of(wanted[0]) == CUDA:
            _load_libraries(ort)
        self.runtime, why = _load_somewhere(ort, model, label, wanted, threads)
        self.device = _device_of(self.runtime.get_providers()[0])
        self._lone = self.runtime
        if self.device == CPU and threads == 0 and len(model) <= SMALL_MODEL:
            self._lone = _load(ort, model, label, wanted[-1:], 1)
        self.notes: tuple[str, ...] = ()
        if self.device != _device_of(wanted[0]):
            failure = f"{label} cannot be run on {_device_of(wanted[0])}{why}; check its driver"
            if device != AUTO:
                raise EvaluatorError(f"{failure}, or leave out device={device}")
            self.notes = (
                f"{failure}. It runs on {self.device}; give device={self.device} if that is meant.",
            )
        self._find_input(label, names)
        self._find_outputs(label, names)
        self._run_once(ort, label)

    def _run_once(self, ort: Any, label: str) -> None:
        """Evaluates one batch as a test; stops it after FIRST_RUN, between two nodes of the model."""
        options = ort.RunOptions()
        timer = threading.Timer(FIRST_RUN.most, lambda: setattr(options, "terminate", True))
        timer.daemon = True
        timer.start()
        try:
            planes = np.zeros((self.batch or 1, PLANES, 8, 8), self.dtype)
            self.runtime.run(self.outputs, {self.planes: planes}, options)
        except Exception as error:
            late = f", or takes more than {FIRST_RUN.shown()}{FIRST_RUN.hint}" if options.terminate else ""
            raise EvaluatorError(
                f"{label} cannot be run on {self.device}{late}: {first_line(error)}"
            ) from None
        finally:
            timer.cancel()

    def _find_input(self, label: str, names: Names) -> None:
        found = {node.name: node for node in self.runtime.get_inputs()}
        node = found.get(names.planes)
        if node is None or len(found) > 1 or node.shape[1:] != [PLANES, 8, 8] or node.type not in _TYPES:
            raise EvaluatorError(
                f"{label} is not a network as `lc0 leela2onnx` writes it: expected one input"
                f" {names.planes} [batch, {PLANES}, 8, 8] of float32 or float16, found"
                f" {_described(found.values())}"
            )
        self.planes = names.planes
        self.dtype = _TYPES[node.type]
        self.batch = node.shape[0] if isinstance(node.shape[0], int) else None

    def _find_outputs(self, label: str, names: Names) -> None:
        found = {node.name: node for node in self.runtime.get_outputs()}
        policy = _flat_size(found.get(names.policy))
        self.has_wdl = names.wdl in found
        value = names.wdl if self.has_wdl else names.value
        good = policy in (POLICY_SIZE, CONVOLUTION_PLANES * 64)
        if not good or _flat_size(found.get(value)) != (3 if self.has_wdl else 1):
            raise EvaluatorError(
                f"{label} is not a network as `lc0 leela2onnx` writes it: expected outputs {names.policy}"
                f" [batch, {POLICY_SIZE}] and {names.wdl} [batch, 3] or {names.value} [batch, 1], found"
                f" {_described(found.values())}"
            )
        self._is_mapped = policy == POLICY_SIZE
        self.outputs = [names.policy, value]

    def run(self, planes: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Runs the model on planes `[B, 112, 8, 8]` of its dtype; returns policy and value.

        The policy is `[B, 1858]` logits, the value `[B, 3]` WDL or `[B, 1]` Q.

        Raises:
          EvaluatorError: if onnxruntime fails, for example out of device memory.
        """
        count = len(planes)
        size = self.batch or (count if self.device == CPU else padded_size(count))
        if count != size:
            assert count < size, "the caller makes batches of the model's size"
            planes = np.concatenate([planes, np.zeros((size - count, *planes.shape[1:]), planes.dtype)])
        runtime = self._lone if count == 1 else self.runtime
        try:
            policy, value = runtime.run(self.outputs, {self.planes: planes})
        except Exception as error:
            raise EvaluatorError(f"onnxruntime failed on {self.device}: {first_line(error)}") from error
        policy = policy[:count].reshape(count, -1)
        policy = policy if self._is_mapped else policy[:, convolution_outputs()]
        value = value[:count].reshape(count, -1)
        return policy.astype(np.float32, copy=False), value.astype(np.float32, copy=False)


def padded_size(count: int) -> int:
    """Returns the size to which a GPU's batch is filled up.

    At each new size a GPU's library looks for the fastest convolutions, which takes long, and a search's
    batches have hundreds of sizes.

    >>> [padded_size(count) for count in (1, 3, 33, 64, 65, 250)]
    [1, 4, 64, 64, 128, 256]
    """
    return 1 << (count - 1).bit_length() if count <= EVEN else -(-count // EVEN) * EVEN


def _load_somewhere(
    ort: Any, model: bytes, label: str, providers: list[str], threads: int
) -> tuple[Any, str]:
    """Returns a session on the first provider, or else on the last with the reason for the fallback."""
    try:
        return _load(ort, model, label, providers, threads), ""
    except EvaluatorError as error:
        if len(providers) == 1:
            raise
        return _load(ort, model, label, providers[-1:], threads), f" ({error})"


def _load(ort: Any, model: bytes, label: str, providers: list[str], threads: int) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = FATAL_ONLY
    options.intra_op_num_threads = threads
    options.add_session_config_entry(SPINNING, "0")
    ort.set_default_logger_severity(FATAL_ONLY)
    try:
        # its own fallback prints on stdout
        return ort.InferenceSession(model, options, providers=providers, enable_fallback=0)
    except Exception as error:
        raise EvaluatorError(
            f"{label} cannot be loaded: expected an ONNX model that onnxruntime {ort.__version__} runs,"
            f" which says: {first_line(error)}"
        ) from None


def _load_libraries(ort: Any) -> None:
    """Loads CUDA's libraries from packages that pip installed, where onnxruntime does not look by itself."""
    if hasattr(ort, "preload_dlls"):
        with redirect_stdout(io.StringIO()):  # it prints what is missing; the session fails by itself
            ort.preload_dlls()


def _providers(ort: Any, device: str) -> list[str]:
    """Returns onnxruntime's names of the device to use, and of the CPU as its fallback."""
    installed = {_device_of(name): name for name in ort.get_available_providers()}
    if device == AUTO:
        device = next((name for name in AUTO_DEVICES if name in installed), CPU)
    if device not in installed:
        known = ", ".join(sorted(installed))
        raise EvaluatorError(
            f"this onnxruntime has no device {device!r}, only {known};"
            " for an NVIDIA GPU: pip install 'onnxruntime-gpu[cuda,cudnn]' in place of onnxruntime"
        )
    return list(dict.fromkeys([installed[device], installed[CPU]]))


def _device_of(provider: str) -> str:
    """Returns the device name of an onnxruntime provider.

    >>> _device_of("CUDAExecutionProvider")
    'cuda'
    """
    return provider.removesuffix(PROVIDER).lower()


def _flat_size(node: Any) -> int:
    """Returns the number of values that an output has for each position, 0 if unknown."""
    shape = node.shape[1:] if node else []
    return int(np.prod(shape)) if shape and all(isinstance(n, int) for n in shape) else 0


def _described(nodes: Any) -> str:
    found = [f"{node.name} {node.shape} {node.type}" for node in nodes]
    return ", ".join(found).replace("'", "") or "none"


def first_line(error: Exception) -> str:
    """Returns the first line of an error's message, or the name of its type."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


# -------------------------------------------------------------------------- checking a model
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
