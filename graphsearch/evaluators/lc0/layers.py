"""The layers of a network file: numbers in one of lc0's encodings, each layer as long as it must be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import EvaluatorError
from .form import ANOTHER
from .network import Block, Convolution, Dense, Floats, Norm
from .wire import Message

EPSILON = 1e-5  # of batch normalisation


@dataclass(frozen=True, slots=True)
class Layers:
    """Reads layers and checks their sizes; `name` is what errors call the file.

    Every method raises EvaluatorError if a layer is damaged, missing or of another size.
    """

    name: str

    def block(self, block: Message, filters: int, what: str) -> Block:
        """Returns a residual block."""
        first = self.convolution(block.message(1), filters, 3, f"{what}'s first convolution")
        second = self.convolution(block.message(2), len(first.bias), 3, f"{what}'s second convolution")
        self.expect(f"{what}'s second convolution", len(second.bias), filters)
        if 3 not in block:
            return Block(first, second, None, None)
        unit = block.message(3)
        squeeze = self.dense(unit, (1, 2), filters, f"{what}'s squeeze layer")
        excite = self.dense(unit, (3, 4), len(squeeze.bias), f"{what}'s excitation layer", 2 * filters)
        return Block(first, second, squeeze, excite)

    def convolution(self, block: Message, inputs: int, size: int, what: str) -> Convolution:
        """Returns a convolution of `size` x `size` with its batch normalisation folded into it."""
        weights, bias, means, variances, gammas, betas = (
            self.numbers(block, field, what).astype(np.float64) for field in range(1, 7)
        )
        outputs = len(bias) or len(means)
        self.expect(what, len(weights), outputs * inputs * size * size)
        kernel = weights.reshape(outputs, inputs, size, size)
        bias = bias if len(bias) else np.zeros(outputs)
        if len(means):
            gammas, betas = (gammas, betas) if len(betas) else (np.ones(outputs), np.zeros(outputs))
            for part in (means, variances, gammas, betas):
                self.expect(f"{what}'s normalisation", len(part), outputs)
            with np.errstate(invalid="ignore", divide="ignore"):
                scale = gammas / np.sqrt(variances + EPSILON)
            kernel, bias = kernel * scale[:, None, None, None], (bias - means) * scale + betas
        return Convolution(self._finite(kernel, what), self._finite(bias, what))

    def dense(
        self, parent: Message, fields: tuple[int, int], inputs: int, what: str, outputs: int | None = None
    ) -> Dense:
        """Returns a fully connected layer, its weights and bias being two fields of a message."""
        weights, bias = (self.numbers(parent, field, what) for field in fields)
        self.expect(what, len(weights), len(bias) * inputs)
        if outputs is not None:
            self.expect(what, len(bias), outputs)
        return Dense(weights.reshape(len(bias), inputs), bias)

    def matrix(self, parent: Message, field: int, inputs: int, what: str) -> Floats:
        """Returns the weights of a layer without bias, `[out, in]`."""
        numbers = self.numbers(parent, field, what)
        self.expect(what, len(numbers), max(1, len(numbers) // inputs) * inputs)
        return numbers.reshape(-1, inputs)

    def norm(self, parent: Message, fields: tuple[int, int], width: int, epsilon: float, what: str) -> Norm:
        """Returns a layer normalisation, its scale and offset being two fields of a message."""
        gammas, betas = (self.numbers(parent, field, what) for field in fields)
        for part in (gammas, betas):
            self.expect(what, len(part), width)
        return Norm(gammas, betas, epsilon)

    def numbers(self, parent: Message, field: int, what: str) -> Floats:
        """Returns the numbers of a `Layer` message, none if it is missing."""
        layer = parent.message(field)
        encoding, raw = layer.number(4, 1), layer.raw(3)
        if encoding not in _DECODERS:
            raise EvaluatorError(
                f"{self.name} is not supported: {what} has the encoding {encoding},"
                f" expected 1 to {len(_DECODERS)}; {ANOTHER}"
            )
        width = 4 if encoding == 4 else 2
        if len(raw) % width:
            raise EvaluatorError(
                f"{self.name} is damaged: {what} has {len(raw)} bytes of weights, expected a multiple of"
                f" {width}; download it again"
            )
        with np.errstate(invalid="ignore", over="ignore"):
            return self._finite(_DECODERS[encoding](raw, layer.real(1), layer.real(2)), what)

    def _finite(self, values: NDArray[np.floating[Any]], what: str) -> Floats:
        """Returns numbers as float32, if each of them is one."""
        with np.errstate(invalid="ignore", over="ignore"):
            floats = values.astype(np.float32, copy=False)
        if not np.isfinite(floats).all():
            raise EvaluatorError(
                f"{self.name} is damaged: {what} has weights that are not finite numbers; download it again"
            )
        return floats

    def expect(self, what: str, found: int, expected: int) -> None:
        """Raises EvaluatorError unless a layer has as many numbers as it must, and has any."""
        if found != expected or not found:
            raise EvaluatorError(
                f"{self.name} is damaged or of an unknown shape: {what} has {found} numbers, expected"
                f" {expected or 'some'}; download it again"
            )


def _linear16(raw: memoryview, low: float, high: float) -> Floats:
    """Returns 16-bit steps from `low` to `high`."""
    share = np.frombuffer(raw, "<u2").astype(np.float32) / np.float32(65535)
    return np.float32(low) * (1 - share) + np.float32(high) * share


def _float16(raw: memoryview, _low: float, _high: float) -> Floats:
    return np.frombuffer(raw, "<f2").astype(np.float32)


def _bfloat16(raw: memoryview, _low: float, _high: float) -> Floats:
    """Returns floats of which only the upper 16 bits are kept."""
    return (np.frombuffer(raw, "<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)


def _float32(raw: memoryview, _low: float, _high: float) -> Floats:
    return np.frombuffer(raw, "<f4").astype(np.float32)


_DECODERS = {1: _linear16, 2: _float16, 3: _bfloat16, 4: _float32}
