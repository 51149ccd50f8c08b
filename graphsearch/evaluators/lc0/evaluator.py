"""The lc0 evaluator: loads a network file into onnxruntime and evaluates batches with it."""

from __future__ import annotations

import hashlib
import io
import os
from contextlib import redirect_stdout
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.errors import EvaluatorError
from ...base.limits import ACTIVATIONS
from ...store.provenance import EvaluatorIdentity, Option
from ..protocol import Evaluation, Evaluator, PositionBatch
from ..uci.program import network_bytes
from . import network
from .planes import HISTORY_FILL, planes_and_transforms, priors, turned_back

DEFAULT_TEMPERATURE = 1.359  # lc0's PolicyTemperature
LINE, POSITION = "line", "position"  # earlier plies in the input: those of the line, or none
# CPU time of a position (Maia, two cores): 1.02 ms alone, .86 in batches of 8, .76 to .83 from 16 on; in wall
# time both cores are busy from 8 on. The number for GPUs is lc0's, not measured here.
CPU_BATCH, DEVICE_BATCH = 8, 256
MOST_AT_ONCE = 1024  # positions in one run: 29 MB of planes; more do not run faster
MOST_NUMBERS = 1 << 26  # outputs of one layer in one run, 256 MiB: a large network with 512 positions
EVEN = 64  # batches on a GPU: powers of two up to it, then its multiples

AUTO, CPU, CUDA = "auto", "cpu", "cuda"
AUTO_DEVICES = (CUDA, "rocm", "migraphx", "dml", "coreml")  # `auto` prefers them to the CPU
FATAL_ONLY = 4  # log level of onnxruntime; errors are exceptions anyway


class Lc0Evaluator(Evaluator):
    """Evaluates positions with a Leela Chess Zero network.

    V is the output of a WDL head; for a network with a Q head only, V has no draws. P is the softmax of the
    policy divided by the temperature, over the legal moves. The planes of earlier plies come from the
    position's line as far as it is known (`history=line`), or from the position alone.

    Attributes:
      identity: the file's hash and the options that change results; it omits the device, although devices
        differ in the last digits.
      input: its input format, a number of `network.INPUTS`. has_wdl: whether its value is WDL; else Q.
      runtime: onnxruntime's session. device: where it runs, such as `cpu` or `cuda`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        temperature: float = DEFAULT_TEMPERATURE,
        history: str = LINE,
        device: str = AUTO,
        threads: int = 0,
        policy_head: str = network.POLICY_HEAD,
        value_head: str = network.VALUE_HEAD,
    ) -> None:
        """Loads a network.

        Args:
          path: a `.pb.gz` or `.pb` file of lc0, or an `.onnx` file of `lc0 leela2onnx`.
          temperature: PolicyTemperature; above 1 flattens the priors, below 1 sharpens them.
          history: `line` or `position`.
          device: `auto` for a GPU that this onnxruntime supports, else the CPU; or `cpu`, `cuda`, ...
          threads: CPU threads, 0 for all cores.
          policy_head, value_head: heads to use of a network with several; names and defaults are lc0's.

        Raises:
          EvaluatorError: if the file is missing, damaged or not supported, onnxruntime is not installed, or
            the device or head does not exist.
        """
        data, label = network_bytes(path), str(path)
        if not label.endswith(".onnx"):
            found = network.read_network(data, label, policy_head, value_head)
        elif (policy_head, value_head) == (network.POLICY_HEAD, network.VALUE_HEAD):
            found = network.read_exported(data, label)
        else:
            raise EvaluatorError(f"{label} is an ONNX model with one policy and one value: name no head")
        if found.widest > ACTIVATIONS.most:
            raise EvaluatorError(
                f"{label} is too large: one of its layers has {found.widest:,} outputs for a position, the"
                f" limit is {ACTIVATIONS.most:,}{ACTIVATIONS.hint}"
            )
        self.input, self.has_wdl = found.input, found.wdl
        self._most_at_once = min(MOST_AT_ONCE, MOST_NUMBERS // found.widest)
        self.runtime, self.notes = load(found.model, label, device, threads)
        self.device = _device_of(self.runtime.get_providers()[0])
        self.outputs = [network.POLICY_NAME, network.WDL_NAME if self.has_wdl else network.VALUE_NAME]
        self.policy_temperature = temperature
        self.wants_lines = history == LINE
        self.batch_size = CPU_BATCH if self.device == CPU else DEVICE_BATCH
        # defaults that came later are omitted: older identities stay equal
        options: dict[str, Option] = {"HistoryFill": HISTORY_FILL, "PolicyTemperature": temperature}
        others = {"history": history, "policy_head": policy_head, "value_head": value_head}
        defaults = {"history": POSITION, "policy_head": network.POLICY_HEAD, "value_head": network.VALUE_HEAD}
        options |= {name: value for name, value in others.items() if value != defaults[name]}
        mapping = "wdl" if self.has_wdl else "q-without-draws"
        self.identity = EvaluatorIdentity("lc0", hashlib.sha256(data).hexdigest(), options, mapping)

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns WDL and priors of every position."""
        parts = []
        for begin in range(0, len(batch), self._most_at_once):
            part = batch.part(begin, begin + self._most_at_once)
            lines = part.lines if self.wants_lines else None
            planes, transforms = planes_and_transforms(part.words, self.input, lines=lines)
            policy, value = self.run(planes)
            policy = turned_back(policy, transforms)
            q = value[:, 0]
            wdl = value if self.has_wdl else np.stack([(1 + q) / 2, np.zeros_like(q), (1 - q) / 2], axis=1)
            parts.append(Evaluation(wdl, priors(part, policy, self.policy_temperature)))
        return Evaluation.of_parts(parts)

    def run(self, planes: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Runs the network on planes `[B, 112, 8, 8]`; returns policy and value.

        The policy is `[B, 1858]` logits, the value `[B, 3]` WDL or `[B, 1]` Q.

        Raises:
          EvaluatorError: if onnxruntime fails, for example out of device memory.
        """
        count = len(planes)
        missing = 0 if self.device == CPU else padded_size(count) - count
        if missing:
            planes = np.concatenate([planes, np.zeros((missing, *planes.shape[1:]), planes.dtype)])
        try:
            policy, value = self.runtime.run(self.outputs, {network.PLANES_NAME: planes})
        except Exception as error:
            raise EvaluatorError(
                f"onnxruntime failed on {self.device}: {network.first_line(error)}"
            ) from error
        return policy[:count], value[:count]


def padded_size(count: int) -> int:
    """Returns the size to which a GPU's batch is filled up.

    At each new size a GPU's library looks for the fastest convolutions, which takes long, and a search's
    batches have hundreds of sizes.

    >>> [padded_size(count) for count in (1, 3, 33, 64, 65, 250)]
    [1, 4, 64, 64, 128, 256]
    """
    return 1 << (count - 1).bit_length() if count <= EVEN else -(-count // EVEN) * EVEN


# ---------------------------------------------------------- onnxruntime
def load(model: bytes, label: str, device: str, threads: int) -> tuple[Any, tuple[str, ...]]:
    """Returns onnxruntime's session of a model, and remarks for the user if `auto` could not use a GPU.

    Raises:
      EvaluatorError: if onnxruntime is missing, does not have the device, or cannot load the model there.
    """
    ort = network.needed("onnxruntime")
    ort.set_default_logger_severity(FATAL_ONLY)
    installed = {_device_of(name): name for name in ort.get_available_providers()}
    wanted = device
    if device == AUTO:
        wanted = next((name for name in AUTO_DEVICES if name in installed), CPU)
    if wanted not in installed:
        raise EvaluatorError(
            f"this onnxruntime has no device {wanted!r}, only {', '.join(sorted(installed))};"
            " for an NVIDIA GPU: pip install 'onnxruntime-gpu[cuda,cudnn]' in place of onnxruntime"
        )
    if wanted == CUDA and hasattr(ort, "preload_dlls"):  # the libraries of CUDA that pip installed
        with redirect_stdout(io.StringIO()):  # it prints what is missing; the session fails by itself
            ort.preload_dlls()
    try:
        runtime, why = _session(ort, model, label, installed[wanted], threads), ""
        if wanted == _device_of(runtime.get_providers()[0]):
            return runtime, ()
    except EvaluatorError as error:
        if wanted == CPU:
            raise
        why = f" ({error})"
    failure = f"{label} cannot be run on {wanted}{why}; check its driver"
    if device != AUTO:
        raise EvaluatorError(f"{failure}, or leave out device={device}")
    note = f"{failure}. It runs on {CPU}; give device={CPU} if that is meant."
    return _session(ort, model, label, installed[CPU], threads), (note,)


def _session(ort: Any, model: bytes, label: str, provider: str, threads: int) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = FATAL_ONLY
    options.intra_op_num_threads = threads
    # busy waiting of threads would double the CPU time
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        # its own fallback prints on stdout
        return ort.InferenceSession(model, options, providers=[provider], enable_fallback=0)
    except Exception as error:
        reason = f"onnxruntime {ort.__version__}, which says: {network.first_line(error)}"
        raise EvaluatorError(f"{label} cannot be loaded by {reason}") from None


def _device_of(provider: str) -> str:
    """Returns the device name of an onnxruntime provider: `cuda` for CUDAExecutionProvider."""
    return provider.removesuffix("ExecutionProvider").lower()
