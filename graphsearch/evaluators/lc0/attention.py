"""The parts of a network file that have attention: embedding, encoders, smolgen, and the attention policy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...errors import EvaluatorError
from .form import ANOTHER, Activation, Form
from .layers import Layers
from .layout import PLANES, SQUARES
from .network import AttentionBody, AttentionPolicy, Dense, Encoder, FeedForward, Floats, Norm, Smolgen
from .wire import Message

SHARED = "the shared smolgen layer"
MEN_PLANES = 12  # of the latest position, which a dense embedding looks at
SMOLGEN_EPSILON = EMBEDDING_EPSILON = 1e-3
DENSE_EPSILON, MAP_EPSILON = 1e-3, 1e-6  # of the encoders of a body, by its embedding
POLICY_EPSILON = 1e-6
RELATIVE = {
    10: "rpe_q",
    11: "rpe_k",
    12: "rpe_v",
}  # fields of attention that lc0 reserves and no backend runs


def encoder_alpha(encoders: int) -> float:
    """Returns what a part of an encoder is multiplied with before it is added to the flow (DeepNorm).

    >>> encoder_alpha(8)
    0.5
    """
    return float((2 * encoders) ** -0.25)


@dataclass(frozen=True, slots=True)
class _Kind:
    """What the encoders of one stack have in common."""

    heads: int
    alpha: float
    epsilon: float
    smolgen: Activation
    ffn: Activation


@dataclass(frozen=True, slots=True)
class AttentionReader:
    """Reads what has attention; every method raises EvaluatorError as `Layers` does."""

    layers: Layers
    form: Form

    # -------------------------------------------------------------- the body
    def body(self, weights: Message, filters: int | None) -> AttentionBody:
        """Returns the body of a `Weights` message, over a tower of so many filters or over planes."""
        layers, dense = self.layers, self.form.embedding == "dense"
        preprocess = self._preprocess(weights) if dense and filters is None else None
        inputs = filters or PLANES + (len(preprocess.bias) // SQUARES if preprocess else 0)
        with_map = filters is None and not dense  # what lc0 makes of INPUT_EMBEDDING_NONE, too
        embedding = layers.dense(weights, (25, 26), inputs + SQUARES * with_map, "the input embedding")
        width = len(embedding.bias)
        stack = weights.messages(27)
        epsilon = DENSE_EPSILON if dense else MAP_EPSILON
        alpha = encoder_alpha(max(1, len(stack)))
        kind = _Kind(weights.number(28), alpha, epsilon, self.form.smolgen, self.form.ffn)
        return AttentionBody(
            preprocess=preprocess,
            position_map=with_map,
            embedding=embedding,
            norm=self._norm(weights, (39, 40), width, "the embedding's normalisation") if dense else None,
            multiply=self._gate(weights, 33, width, "the multiplying input gate"),
            add=self._gate(weights, 34, width, "the adding input gate"),
            feed=self._embedding_feed(weights, width, alpha) if dense else None,
            encoders=self._stack(stack, kind, width, self._shared(weights), "encoder"),
        )

    def _preprocess(self, weights: Message) -> Dense:
        what = "the preprocessing of the embedding"
        found = self.layers.dense(weights, (37, 38), MEN_PLANES * SQUARES, what)
        self.layers.expect(what, len(found.bias), max(1, len(found.bias) // SQUARES) * SQUARES)
        return found

    def _embedding_feed(self, weights: Message, width: int, alpha: float) -> FeedForward:
        norm = self._norm(weights, (42, 43), width, "the normalisation after the embedding")
        return self._feed(weights.message(41), norm, width, alpha, self.form.ffn, "the embedding")

    def _norm(self, parent: Message, fields: tuple[int, int], width: int, what: str) -> Norm:
        return self.layers.norm(parent, fields, width, EMBEDDING_EPSILON, what)

    def _gate(self, weights: Message, field: int, width: int, what: str) -> Floats | None:
        """Returns a gate `[64, width]`, None if the network has none."""
        numbers = self.layers.numbers(weights, field, what)
        if not len(numbers):
            return None
        self.layers.expect(what, len(numbers), width * SQUARES)
        return np.ascontiguousarray(numbers.reshape(width, SQUARES).T)

    # -------------------------------------------------------------- encoders
    def _stack(
        self, stack: list[Message], kind: _Kind, width: int, shared: Floats, what: str
    ) -> tuple[Encoder, ...]:
        return tuple(
            self._encoder(encoder, kind, width, shared, f"{what} {i}") for i, encoder in enumerate(stack, 1)
        )

    def _shared(self, weights: Message) -> Floats:
        """Returns the numbers of the smolgen layer that all encoders share, none if there is none."""
        return self.layers.numbers(weights, 35, SHARED)

    def _encoder(self, encoder: Message, kind: _Kind, width: int, shared: Floats, what: str) -> Encoder:
        layers, attention = self.layers, encoder.message(1)
        self._refuse_relative(attention, what)
        query, key, value = (
            layers.dense(attention, fields, width, f"{what}'s {part}")
            for fields, part in (((1, 2), "query"), ((3, 4), "key"), ((5, 6), "value"))
        )
        inner = len(query.bias)
        for part in (key, value):
            layers.expect(f"{what}'s attention", len(part.bias), inner)
        self._check_heads(kind.heads, inner, what)
        out = layers.dense(attention, (7, 8), inner, f"{what}'s attention output", width)
        smolgen = self._smolgen(attention.message(9), kind, width, shared, what) if 9 in attention else None
        norms = [
            layers.norm(encoder, fields, width, kind.epsilon, f"{what}'s normalisation")
            for fields in ((2, 3), (5, 6))
        ]
        feed = self._feed(encoder.message(4), norms[1], width, kind.alpha, kind.ffn, what)
        return Encoder(kind.heads, query, key, value, out, smolgen, norms[0], kind.alpha, feed)

    def _feed(
        self, feed: Message, norm: Norm, width: int, alpha: float, activation: Activation, what: str
    ) -> FeedForward:
        first = self.layers.dense(feed, (1, 2), width, f"{what}'s first feed-forward layer")
        last = self.layers.dense(feed, (3, 4), len(first.bias), f"{what}'s last feed-forward layer", width)
        return FeedForward(first, last, norm, activation, alpha)

    def _smolgen(self, smolgen: Message, kind: _Kind, width: int, shared: Floats, what: str) -> Smolgen:
        layers, what = self.layers, f"{what}'s smolgen"
        compress = layers.matrix(smolgen, 1, width, f"{what} compression")
        dense1 = layers.dense(smolgen, (2, 3), SQUARES * len(compress), f"{what} first layer")
        dense2 = layers.dense(smolgen, (6, 7), len(dense1.bias), f"{what} last layer")
        self._check_heads(kind.heads, len(dense2.bias), what)
        inputs = len(dense2.bias) // kind.heads
        layers.expect(SHARED, len(shared), SQUARES * SQUARES * inputs)
        norm1, norm2 = (
            layers.norm(smolgen, fields, len(dense.bias), SMOLGEN_EPSILON, f"{what} normalisation")
            for fields, dense in (((4, 5), dense1), ((8, 9), dense2))
        )
        return Smolgen(compress, dense1, norm1, dense2, norm2, shared.reshape(-1, inputs), kind.smolgen)

    def _check_heads(self, heads: int, width: int, what: str) -> None:
        if not heads or width % heads:
            raise EvaluatorError(
                f"{self.layers.name} is damaged or of an unknown shape: {what} has {heads} heads for {width}"
                " numbers, expected a number that divides them; download it again"
            )

    def _refuse_relative(self, attention: Message, what: str) -> None:
        for field, known in RELATIVE.items():
            if field in attention:
                raise EvaluatorError(
                    f"{self.layers.name} is not supported: {what} has relative position encodings ({known});"
                    f" {ANOTHER}"
                )

    # -------------------------------------------------------------- the policy
    def policy(self, head: Message, shared: list[Message], width: int, weights: Message) -> AttentionPolicy:
        """Returns an attention policy.

        Args:
          head: a `PolicyHead` message.
          shared: whose fields 1 and 2 are the embedding where the head has none, the first that has any.
          width: of what it looks at. weights: the network's, for the shared smolgen layer.
        """
        layers = self.layers
        owner = next((one for one in (head, *shared) if 1 in one), head)
        embedding = layers.dense(owner, (1, 2), width, "the policy head's embedding")
        inner = len(embedding.bias)
        # before networks with attention in the body, these two were SELU, whatever the format says
        activation = self.form.activation if self.form.attention else "selu"
        ffn = self.form.ffn if self.form.attention else "selu"
        kind = _Kind(head.number(9), 1.0, POLICY_EPSILON, self.form.smolgen, ffn)
        encoders = self._stack(head.messages(8), kind, inner, self._shared(weights), "policy encoder")
        query = layers.dense(head, (3, 4), inner, "the policy head's query")
        key = layers.dense(head, (5, 6), inner, "the policy head's key", len(query.bias))
        promotions = layers.matrix(head, 7, len(key.bias), "the policy head's promotions")
        layers.expect("the policy head's promotions", len(promotions), 4)
        return AttentionPolicy(embedding, activation, encoders, query, key, promotions)
