"""The parts of a network that have attention, as nodes of an ONNX graph.

Between them flows `[positions * 64, width]`: a row for each square, a1, b1, ... h8.
"""

from __future__ import annotations

import numpy as np

from .attention import MEN_PLANES
from .form import Activation
from .graph import GraphWriter
from .layout import PLANES, SQUARES
from .network import AttentionBody, AttentionPolicy, Dense, Encoder, FeedForward, Floats, Smolgen
from .policy import attention_outputs, reach_map


def squares(writer: GraphWriter, name: str, flow: str, width: int) -> str:
    """Writes planes `[positions, width, 8, 8]` as rows, and returns their name."""
    turned = writer.node("Transpose", f"{name}/turned", flow, perm=[0, 2, 3, 1])
    return writer.reshape(name, turned, -1, width)


# ------------------------------------------------------------------ the body
def write_body(
    writer: GraphWriter, flow: str, body: AttentionBody, activation: Activation, width: int
) -> str:
    """Writes a body over planes of so many numbers a square, and returns what flows out of it."""
    rows = squares(writer, "/body/squares", flow, width)
    flow = writer.activation("/body/embedding", _embedded(writer, rows, body), activation)
    if body.norm:
        flow = writer.norm("/body/norm", flow, body.norm)
    flow = _gated(writer, flow, body)
    if body.feed:
        flow = _feed(writer, "/body/feed", flow, body.feed)
    for i, encoder in enumerate(body.encoders):
        flow = write_encoder(writer, f"/encoder{i}", flow, encoder)
    return flow


def _embedded(writer: GraphWriter, rows: str, body: AttentionBody) -> str:
    """Writes the embedding. A map is the same for every position, so what it adds is an offset by square."""
    layer, name = body.embedding, "/body/dense"
    if body.preprocess:
        each = len(body.preprocess.bias) // SQUARES
        men = writer.reshape(
            "/body/men", writer.part("/body/men/part", rows, 1, 0, MEN_PLANES), -1, SQUARES * MEN_PLANES
        )
        found = writer.dense("/body/preprocess", men, body.preprocess)
        found = writer.reshape("/body/preprocessed", found, -1, each)
        rows = writer.node("Concat", "/body/inputs", rows, found, axis=1)
    if not body.position_map:
        return writer.dense(name, rows, layer)
    seen, placed = layer.weights[:, :PLANES], layer.weights[:, PLANES:]
    offsets = reach_map() @ placed.T + layer.bias
    flow = writer.dense(name, rows, Dense(seen, np.zeros_like(layer.bias)))
    return _by_square(writer, f"{name}/placed", "Add", flow, offsets)


def _gated(writer: GraphWriter, flow: str, body: AttentionBody) -> str:
    for name, kind, gate in (("multiply", "Mul", body.multiply), ("add", "Add", body.add)):
        if gate is not None:
            flow = _by_square(writer, f"/body/{name}", kind, flow, gate)
    return flow


def _by_square(writer: GraphWriter, name: str, kind: str, flow: str, values: Floats) -> str:
    """Writes what happens to rows with numbers `[64, width]` of their squares."""
    width = values.shape[1]
    boards = writer.reshape(f"{name}/boards", flow, -1, SQUARES, width)
    done = writer.node(kind, f"{name}/done", boards, writer.constant(f"{name}/values", values))
    return writer.reshape(name, done, -1, width)


# ------------------------------------------------------------------ encoders
def write_encoder(writer: GraphWriter, name: str, flow: str, encoder: Encoder) -> str:
    """Writes an encoder, and returns what flows out of it."""
    mixed = _attention(writer, f"{name}/attention", flow, encoder)
    out = writer.dense(f"{name}/out", mixed, encoder.out, scale=encoder.alpha)
    flow = writer.norm(f"{name}/norm", writer.node("Add", f"{name}/sum", flow, out), encoder.norm)
    return _feed(writer, f"{name}/feed", flow, encoder.feed)


def _feed(writer: GraphWriter, name: str, flow: str, feed: FeedForward) -> str:
    inner = writer.activation(
        f"{name}/inner", writer.dense(f"{name}/dense1", flow, feed.dense1), feed.activation
    )
    inner = writer.dense(f"{name}/dense2", inner, feed.dense2, scale=feed.alpha)
    return writer.norm(name, writer.node("Add", f"{name}/sum", flow, inner), feed.norm)


def _attention(writer: GraphWriter, name: str, flow: str, encoder: Encoder) -> str:
    """Writes what every square takes from all squares, all heads beside each other."""
    width = len(encoder.query.bias)
    depth = width // encoder.heads
    query = _heads(writer, f"{name}/query", flow, encoder.query, encoder.heads, scale=depth**-0.5)
    key = _heads(writer, f"{name}/key", flow, encoder.key, encoder.heads, turned=True)
    value = _heads(writer, f"{name}/value", flow, encoder.value, encoder.heads)
    scores = writer.node("MatMul", f"{name}/scores", query, key)
    if encoder.smolgen:
        more = _smolgen(writer, f"{name}/smolgen", flow, encoder.smolgen, encoder.heads)
        scores = writer.node("Add", f"{name}/all", scores, more)
    shares = writer.node("Softmax", f"{name}/shares", scores, axis=-1)
    taken = writer.node("MatMul", f"{name}/taken", shares, value)
    back = writer.node("Transpose", f"{name}/back", taken, perm=[0, 2, 1, 3])
    return writer.reshape(name, back, -1, width)


def _heads(
    writer: GraphWriter,
    name: str,
    flow: str,
    layer: Dense,
    heads: int,
    *,
    scale: float = 1.0,
    turned: bool = False,
) -> str:
    """Writes a layer's outputs as `[positions, heads, 64, depth]`, or with the last two axes turned."""
    found = writer.dense(f"{name}/dense", flow, layer, scale=scale)
    split = writer.reshape(f"{name}/split", found, -1, SQUARES, heads, len(layer.bias) // heads)
    return writer.node("Transpose", name, split, perm=[0, 2, 3, 1] if turned else [0, 2, 1, 3])


def _smolgen(writer: GraphWriter, name: str, flow: str, smolgen: Smolgen, heads: int) -> str:
    """Writes what smolgen adds to scores, `[positions, heads, 64, 64]`."""
    channels, inputs = len(smolgen.compress), smolgen.shared.shape[1]
    no_bias = Dense(smolgen.compress, np.zeros(channels, np.float32))
    flow = writer.reshape(
        f"{name}/flat", writer.dense(f"{name}/compress", flow, no_bias), -1, SQUARES * channels
    )
    for i, dense, norm in ((1, smolgen.dense1, smolgen.norm1), (2, smolgen.dense2, smolgen.norm2)):
        flow = writer.dense(f"{name}/dense{i}", flow, dense)
        flow = writer.activation(f"{name}/inner{i}", flow, smolgen.activation)
        flow = writer.norm(f"{name}/norm{i}", flow, norm)
    flow = writer.reshape(f"{name}/heads", flow, -1, inputs)
    shared = writer.constant(f"/smolgen/shared{inputs}", smolgen.shared)
    flow = writer.node("Gemm", f"{name}/pairs", flow, shared, transB=1)
    return writer.reshape(name, flow, -1, heads, SQUARES, SQUARES)


# ------------------------------------------------------------------ the policy
def write_policy(writer: GraphWriter, name: str, flow: str, policy: AttentionPolicy) -> None:
    """Writes an attention policy over rows; its logits `[positions, 1858]` are called `name`."""
    flow = writer.dense("/policy/embedding", flow, policy.embedding)
    flow = writer.activation("/policy/embedded", flow, policy.activation)
    for i, encoder in enumerate(policy.encoders):
        flow = write_encoder(writer, f"/policy/encoder{i}", flow, encoder)
    width = len(policy.key.bias)
    query = writer.dense("/policy/query", flow, policy.query, scale=width**-0.5)
    query = writer.reshape("/policy/from", query, -1, SQUARES, width)
    key = writer.reshape("/policy/to", writer.dense("/policy/key", flow, policy.key), -1, SQUARES, width)
    turned = writer.node("Transpose", "/policy/to/turned", key, perm=[0, 2, 1])
    pairs = writer.node("MatMul", "/policy/pairs", query, turned)
    parts = [
        writer.reshape("/policy/plain", pairs, -1, SQUARES * SQUARES),
        _promotions(writer, pairs, key, policy),
    ]
    both = writer.node("Concat", "/policy/all", *parts, axis=1)
    writer.node("Gather", name, both, writer.constant("/policy/map", attention_outputs()), axis=1)


def _promotions(writer: GraphWriter, pairs: str, key: str, policy: AttentionPolicy) -> str:
    """Writes logits of promotions `[positions, 8 * 8 * 3]`: from-file, to-file, and q, r or b.

    Each is that of the pair of squares, and what the to-square says of the piece and of promoting at all.
    """
    kinds, any_kind = policy.promotions[:3], policy.promotions[3:]
    weights = writer.constant("/policy/promotions/weights", (kinds + any_kind).T)
    last = writer.part("/policy/promotions/to", key, 1, 56, 64)
    more = writer.node("MatMul", "/policy/promotions/pieces", last, weights)
    more = writer.reshape("/policy/promotions/more", more, -1, 1, 8, 3)
    plain = writer.part("/policy/promotions/rank7", pairs, 1, 48, 56)
    plain = writer.part("/policy/promotions/rank8", plain, 2, 56, 64)
    plain = writer.reshape("/policy/promotions/plain", plain, -1, 8, 8, 1)
    summed = writer.node("Add", "/policy/promotions/sum", plain, more)
    return writer.reshape("/policy/promotions", summed, -1, 8 * 8 * 3)
