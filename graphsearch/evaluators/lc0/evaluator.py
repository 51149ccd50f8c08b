"""The lc0 evaluator: loads a network file and evaluates batches with it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...base.errors import EvaluatorError, EvaluatorFileError, InputFileError
from ...base.limits import ACTIVATIONS, NETWORK, read_file
from ...store.record.provenance import EvaluatorIdentity
from ..protocol import Evaluation, Evaluator, PositionBatch
from .convert import POLICY_HEAD, USUAL_HEADS, VALUE_HEAD, Heads, Model, read_network
from .planes import HISTORY_FILL, planes_and_transforms, turned_back
from .policy import priors
from .session import AUTO, CPU, MOST_AT_ONCE, MOST_NUMBERS, Names, Session, widest
from .weights import CLASSICAL_INPUT, GZIP_MAGIC

DEFAULT_TEMPERATURE = 1.359  # lc0's PolicyTemperature
LINE, POSITION = HISTORIES = "line", "position"  # earlier plies in the input: those of the line, or none
DEFAULT_HISTORY = LINE
# CPU time of a position (Maia, two cores): 1.02 ms alone, .86 in batches of 8, .76 to .83 from 16 on; in wall
# time both cores are busy from 8 on. The number for GPUs is lc0's, not measured here.
CPU_BATCH, DEVICE_BATCH = 8, 256
ONNX_SUFFIX = ".onnx"


class Lc0Evaluator(Evaluator):
    """Evaluates positions with a Leela Chess Zero network.

    V is the output of a WDL head; for a network with a Q head only, V has no draws. P is the softmax of the
    policy divided by the temperature, over the legal moves. The moves-left head is not used.
    The planes of earlier plies come from the position's line as far as it is known (`history=line`), or from
    the position alone.

    Attributes:
      identity: the file's hash and the options that change results; it omits the device, although devices
        differ in the last digits.
      policy_temperature: of the priors.
      input: the input format, a number of `weights.INPUTS`.
      session: the loaded model; `session.device` is its device.
      notes: remarks about the device for the user, one line each.
      wants_lines: whether it has `history=line`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        temperature: float = DEFAULT_TEMPERATURE,
        history: str = DEFAULT_HISTORY,
        device: str = AUTO,
        threads: int = 0,
        policy_head: str = POLICY_HEAD,
        value_head: str = VALUE_HEAD,
        most_at_once: int = MOST_AT_ONCE,
    ) -> None:
        """Loads a network.

        Args:
          path: a `.pb.gz` or `.pb` file of lc0, or an `.onnx` file from `lc0 leela2onnx`. The latter does not
            name its input format, which must be INPUT_CLASSICAL_112_PLANE.
          temperature: PolicyTemperature; above 1 flattens the priors, below 1 sharpens them.
          history: `line` or `position`.
          device: `auto` for a GPU that this onnxruntime supports, else the CPU; or `cpu`, `cuda`, ...
          threads: CPU threads, 0 for all cores.
          policy_head, value_head: heads to use of a network with several; names and defaults are lc0's.
          most_at_once: most positions in one run of a network without a fixed batch size.

        Raises:
          EvaluatorError: if the file is missing, damaged or not supported, onnxruntime is not installed, or
            the device or head does not exist.
        """
        data = _file_bytes(Path(path).expanduser())
        digest, label = hashlib.sha256(data).hexdigest(), str(path)
        self.policy_temperature = temperature
        heads = Heads(policy_head, value_head)
        found = _model(data, label, heads)
        del data  # it may be large, and so may the model
        self.input = found.input
        self._most_at_once = min(most_at_once, most_positions(found, label))
        self.session = Session(found.model, label, found.names, device=device, threads=threads)
        del found
        self.notes = self.session.notes
        self.wants_lines = history == LINE
        self.batch_size = CPU_BATCH if self.session.device == CPU else DEVICE_BATCH
        mapping = "wdl" if self.session.has_wdl else "q-without-draws"
        options = _identity_options(temperature, heads, with_lines=self.wants_lines)
        self.identity = EvaluatorIdentity("lc0", digest, options, mapping)

    @property
    def calls_kernels(self) -> bool:
        """True: kernels compute its planes and priors."""
        return True

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns WDL and priors of every position.

        Raises:
          EvaluatorError: if onnxruntime fails.
        """
        step = self.session.batch or self._most_at_once
        if 0 < len(batch) <= step:
            return self._evaluate_part(batch)
        parts = [self._evaluate_part(batch.part(begin, begin + step)) for begin in range(0, len(batch), step)]
        return Evaluation(
            np.concatenate([np.zeros((0, 3), np.float32), *(part.wdl for part in parts)]),
            np.concatenate([np.zeros(0, np.float32), *(part.priors for part in parts)]),
        )

    def _evaluate_part(self, batch: PositionBatch) -> Evaluation:
        lines = batch.lines if self.wants_lines else None
        planes, transforms = planes_and_transforms(batch.words, self.input, self.session.dtype, lines=lines)
        policy, value = self.session.run(planes)
        wdl = value if self.session.has_wdl else wdl_without_draws(value[:, 0])
        return Evaluation(wdl, priors(batch, turned_back(policy, transforms), self.policy_temperature))


def wdl_without_draws(q: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns `[(1 + q) / 2, 0, (1 - q) / 2]` for each q, `[B, 3]`.

    >>> wdl_without_draws(np.array([0.5], np.float32)).tolist()
    [[0.75, 0.0, 0.25]]
    """
    return np.stack([(1 + q) / 2, np.zeros_like(q), (1 - q) / 2], axis=1)


def _identity_options(temperature: float, heads: Heads, *, with_lines: bool) -> dict[str, str | float]:
    """Returns the options that change results; omits some defaults, so that older identities stay equal."""
    options: dict[str, str | float] = {"HistoryFill": HISTORY_FILL, "PolicyTemperature": temperature}
    if with_lines:
        options["history"] = LINE
    if heads.policy != POLICY_HEAD:
        options["policy_head"] = heads.policy
    if heads.value != VALUE_HEAD:
        options["value_head"] = heads.value
    return options


def _file_bytes(path: Path) -> bytes:
    try:
        return read_file(path, NETWORK)
    except InputFileError as error:
        raise EvaluatorFileError(str(error)) from None
    except OSError as error:
        raise EvaluatorFileError(
            f"the network {path} cannot be read: {error.strerror or error}; expected a .pb.gz or .onnx file"
        ) from None


def _model(data: bytes, label: str, heads: Heads) -> Model:
    """Returns a file's model; the suffix of its name decides between an ONNX model and an lc0 network."""
    if label.lower().endswith(ONNX_SUFFIX) and data[:2] != GZIP_MAGIC:
        if heads != USUAL_HEADS:
            raise EvaluatorError(
                f"{label} is an ONNX model with one policy and one value head; name no other"
            )
        return Model(data, Names(), CLASSICAL_INPUT)
    return read_network(data, label, heads)


def most_positions(model: Model, label: str) -> int:
    """Returns the most positions in one run, such that no layer's outputs need too much memory.

    Raises:
      EvaluatorError: if a layer has more than ACTIVATIONS outputs for one position.
    """
    numbers = model.widest or widest(model.model, label, model.names)
    if numbers > ACTIVATIONS.most:
        raise EvaluatorError(
            f"{label} is too large: one of its layers has {numbers:,} outputs for a position, the limit is"
            f" {ACTIVATIONS.most:,}{ACTIVATIONS.hint}"
        )
    return max(1, MOST_NUMBERS // numbers)
