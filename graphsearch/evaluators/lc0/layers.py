"""Reads the layers of a network file: decodes lc0's encodings and checks every layer's size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.errors import EvaluatorError
from .form import ANOTHER, Activation, Form
from .layout import PLANES, SQUARES
from .network import (
    AttentionBody,
    AttentionPolicy,
    Block,
    Convolution,
    Dense,
    Encoder,
    FeedForward,
    Floats,
    Norm,
    Smolgen,
)
from .wire import Message

EPSILON = 1e-5  # of batch normalisation
ENCODINGS = LINEAR16, FLOAT16, BFLOAT16, FLOAT32 = (1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Layers:
    """Reads layers and checks their sizes.

    Every method raises EvaluatorError if a layer is damaged, missing or has a wrong size.

    Attributes:
      name: of the file, for errors.
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
        """Returns a `size` x `size` convolution with its batch normalisation folded in."""
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
        """Returns a fully connected layer; `fields` are those of its weights and bias."""
        weights, bias = (self.numbers(parent, field, what) for field in fields)
        self.expect(what, len(weights), len(bias) * inputs)
        if outputs is not None:
            self.expect(what, len(bias), outputs)
        return Dense(weights.reshape(len(bias), inputs), bias)

    def matrix(self, parent: Message, field: int, inputs: int, what: str) -> Floats:
        """Returns the weights `[out, in]` of a layer without bias."""
        numbers = self.numbers(parent, field, what)
        self.expect(what, len(numbers), max(1, len(numbers) // inputs) * inputs)
        return numbers.reshape(-1, inputs)

    def norm(self, parent: Message, fields: tuple[int, int], width: int, epsilon: float, what: str) -> Norm:
        """Returns a layer normalisation; `fields` are those of its scale and offset."""
        gammas, betas = (self.numbers(parent, field, what) for field in fields)
        for part in (gammas, betas):
            self.expect(what, len(part), width)
        return Norm(gammas, betas, epsilon)

    def numbers(self, parent: Message, field: int, what: str) -> Floats:
        """Returns the decoded numbers of a `Layer` message, none if it is missing."""
        layer = parent.message(field)
        encoding, raw = layer.number(4, 1), layer.raw(3)
        if encoding not in ENCODINGS:
            raise EvaluatorError(
                f"{self.name} is not supported: {what} has the encoding {encoding},"
                f" expected 1 to {len(ENCODINGS)}; {ANOTHER}"
            )
        width = 4 if encoding == FLOAT32 else 2
        if len(raw) % width:
            raise EvaluatorError(
                f"{self.name} is damaged: {what} has {len(raw)} bytes of weights, expected a multiple of"
                f" {width}; download it again"
            )
        with np.errstate(invalid="ignore", over="ignore"):
            return self._finite(_decoded(encoding, raw, layer.real(1), layer.real(2)), what)

    def _finite(self, values: NDArray[np.floating[Any]], what: str) -> Floats:
        """Returns numbers as float32; raises EvaluatorError if one is not finite."""
        with np.errstate(invalid="ignore", over="ignore"):
            floats = values.astype(np.float32, copy=False)
        if not np.isfinite(floats).all():
            raise EvaluatorError(
                f"{self.name} is damaged: {what} has weights that are not finite numbers; download it again"
            )
        return floats

    def expect(self, what: str, found: int, expected: int) -> None:
        """Checks a layer's number of values; raises EvaluatorError if it is wrong or 0."""
        if found != expected or not found:
            raise EvaluatorError(
                f"{self.name} is damaged or of an unknown shape: {what} has {found} numbers, expected"
                f" {expected or 'some'}; download it again"
            )


def _decoded(encoding: int, raw: memoryview, low: float, high: float) -> Floats:
    """Returns the numbers of a layer, of which LINEAR16 is relative to its least and its largest one."""
    if encoding == LINEAR16:
        share = np.frombuffer(raw, "<u2").astype(np.float32) / np.float32(65535)
        return np.float32(low) * (1 - share) + np.float32(high) * share
    if encoding == BFLOAT16:  # the upper 16 bits of a float32
        return (np.frombuffer(raw, "<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)
    return np.frombuffer(raw, "<f2" if encoding == FLOAT16 else "<f4").astype(np.float32)


SHARED = "the shared smolgen layer"
MEN_PLANES = 12  # the latest position's planes, the input of a dense embedding
SMOLGEN_EPSILON = EMBEDDING_EPSILON = 1e-3
DENSE_EPSILON, MAP_EPSILON = 1e-3, 1e-6  # of a body's encoders, by its embedding
POLICY_EPSILON = 1e-6
RELATIVE = {
    10: "rpe_q",
    11: "rpe_k",
    12: "rpe_v",
}  # fields of attention that lc0 reserves and no backend runs


def encoder_alpha(encoders: int) -> float:
    """Returns the factor of an encoder's residual branches (DeepNorm).

    >>> encoder_alpha(8)
    0.5
    """
    return float((2 * encoders) ** -0.25)


@dataclass(frozen=True, slots=True)
class _Kind:
    heads: int
    alpha: float
    epsilon: float
    smolgen: Activation
    ffn: Activation


@dataclass(frozen=True, slots=True)
class AttentionReader(Layers):
    """Reads attention bodies and attention policy heads."""

    form: Form

    # -------------------------------------------------------------- the body
    def body(self, weights: Message, filters: int | None) -> AttentionBody:
        """Returns the body of a `Weights` message; `filters`: those of its tower, None over planes."""
        dense = self.form.embedding == "dense"
        preprocess = self._preprocess(weights) if dense and filters is None else None
        inputs = filters or PLANES + (len(preprocess.bias) // SQUARES if preprocess else 0)
        with_map = filters is None and not dense  # as in lc0, also for INPUT_EMBEDDING_NONE
        embedding = self.dense(weights, (25, 26), inputs + SQUARES * with_map, "the input embedding")
        width = len(embedding.bias)
        stack = weights.messages(27)
        epsilon = DENSE_EPSILON if dense else MAP_EPSILON
        alpha = encoder_alpha(max(1, len(stack)))
        kind = _Kind(weights.number(28), alpha, epsilon, self.form.smolgen, self.form.ffn)
        feed = None
        if dense:
            norm = self._norm(weights, (42, 43), width, "the normalisation after the embedding")
            feed = self._feed(weights.message(41), norm, width, alpha, self.form.ffn, "the embedding")
        return AttentionBody(
            preprocess=preprocess,
            position_map=with_map,
            embedding=embedding,
            norm=self._norm(weights, (39, 40), width, "the embedding's normalisation") if dense else None,
            multiply=self._gate(weights, 33, width, "the multiplying input gate"),
            add=self._gate(weights, 34, width, "the adding input gate"),
            feed=feed,
            encoders=self._stack(stack, kind, width, self.numbers(weights, 35, SHARED), "encoder"),
        )

    def _preprocess(self, weights: Message) -> Dense:
        what = "the preprocessing of the embedding"
        found = self.dense(weights, (37, 38), MEN_PLANES * SQUARES, what)
        self.expect(what, len(found.bias), max(1, len(found.bias) // SQUARES) * SQUARES)
        return found

    def _norm(self, parent: Message, fields: tuple[int, int], width: int, what: str) -> Norm:
        return self.norm(parent, fields, width, EMBEDDING_EPSILON, what)

    def _gate(self, weights: Message, field: int, width: int, what: str) -> Floats | None:
        """Returns a gate `[64, width]`, None if the network has none."""
        numbers = self.numbers(weights, field, what)
        if not len(numbers):
            return None
        self.expect(what, len(numbers), width * SQUARES)
        return np.ascontiguousarray(numbers.reshape(width, SQUARES).T)

    # -------------------------------------------------------------- encoders
    def _stack(
        self, stack: list[Message], kind: _Kind, width: int, shared: Floats, what: str
    ) -> tuple[Encoder, ...]:
        return tuple(
            self._encoder(encoder, kind, width, shared, f"{what} {i}") for i, encoder in enumerate(stack, 1)
        )

    def _encoder(self, encoder: Message, kind: _Kind, width: int, shared: Floats, what: str) -> Encoder:
        attention = encoder.message(1)
        self._refuse_relative(attention, what)
        query, key, value = (
            self.dense(attention, fields, width, f"{what}'s {part}")
            for fields, part in (((1, 2), "query"), ((3, 4), "key"), ((5, 6), "value"))
        )
        inner = len(query.bias)
        for part in (key, value):
            self.expect(f"{what}'s attention", len(part.bias), inner)
        self._check_heads(kind.heads, inner, what)
        out = self.dense(attention, (7, 8), inner, f"{what}'s attention output", width)
        smolgen = self._smolgen(attention.message(9), kind, width, shared, what) if 9 in attention else None
        norms = [
            self.norm(encoder, fields, width, kind.epsilon, f"{what}'s normalisation")
            for fields in ((2, 3), (5, 6))
        ]
        feed = self._feed(encoder.message(4), norms[1], width, kind.alpha, kind.ffn, what)
        return Encoder(kind.heads, query, key, value, out, smolgen, norms[0], kind.alpha, feed)

    def _feed(
        self, feed: Message, norm: Norm, width: int, alpha: float, activation: Activation, what: str
    ) -> FeedForward:
        first = self.dense(feed, (1, 2), width, f"{what}'s first feed-forward layer")
        last = self.dense(feed, (3, 4), len(first.bias), f"{what}'s last feed-forward layer", width)
        return FeedForward(first, last, norm, activation, alpha)

    def _smolgen(self, smolgen: Message, kind: _Kind, width: int, shared: Floats, what: str) -> Smolgen:
        what = f"{what}'s smolgen"
        compress = self.matrix(smolgen, 1, width, f"{what} compression")
        dense1 = self.dense(smolgen, (2, 3), SQUARES * len(compress), f"{what} first layer")
        dense2 = self.dense(smolgen, (6, 7), len(dense1.bias), f"{what} last layer")
        self._check_heads(kind.heads, len(dense2.bias), what)
        inputs = len(dense2.bias) // kind.heads
        self.expect(SHARED, len(shared), SQUARES * SQUARES * inputs)
        norm1, norm2 = (
            self.norm(smolgen, fields, len(dense.bias), SMOLGEN_EPSILON, f"{what} normalisation")
            for fields, dense in (((4, 5), dense1), ((8, 9), dense2))
        )
        return Smolgen(compress, dense1, norm1, dense2, norm2, shared.reshape(-1, inputs), kind.smolgen)

    def _check_heads(self, heads: int, width: int, what: str) -> None:
        if not heads or width % heads:
            raise EvaluatorError(
                f"{self.name} is damaged or of an unknown shape: {what} has {heads} heads for {width}"
                " numbers, expected a number that divides them; download it again"
            )

    def _refuse_relative(self, attention: Message, what: str) -> None:
        for field, known in RELATIVE.items():
            if field in attention:
                raise EvaluatorError(
                    f"{self.name} is not supported: {what} has relative position encodings ({known});"
                    f" {ANOTHER}"
                )

    # -------------------------------------------------------------- the policy
    def attention_policy(
        self, head: Message, shared: list[Message], width: int, weights: Message
    ) -> AttentionPolicy:
        """Returns an attention policy.

        Args:
          head: a `PolicyHead` message.
          shared: messages to take the embedding from (fields 1 and 2) if the head has none; the first with
            one counts.
          width: inputs per square. weights: the network's, for the shared smolgen layer.
        """
        owner = next((one for one in (head, *shared) if 1 in one), head)
        embedding = self.dense(owner, (1, 2), width, "the policy head's embedding")
        inner = len(embedding.bias)
        # without attention in the body, these two are SELU, whatever the format says
        activation = self.form.activation if self.form.attention else "selu"
        ffn = self.form.ffn if self.form.attention else "selu"
        kind = _Kind(head.number(9), 1.0, POLICY_EPSILON, self.form.smolgen, ffn)
        smolgen = self.numbers(weights, 35, SHARED)
        encoders = self._stack(head.messages(8), kind, inner, smolgen, "policy encoder")
        query = self.dense(head, (3, 4), inner, "the policy head's query")
        key = self.dense(head, (5, 6), inner, "the policy head's key", len(query.bias))
        promotions = self.matrix(head, 7, len(key.bias), "the policy head's promotions")
        self.expect("the policy head's promotions", len(promotions), 4)
        return AttentionPolicy(embedding, activation, encoders, query, key, promotions)
