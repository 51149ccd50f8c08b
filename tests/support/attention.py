"""What a random network answers by definition: arithmetic on weights by lc0's own names."""

from __future__ import annotations

from functools import cache
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from tests.support.random_lc0 import RandomNetwork

Floats = NDArray[np.float64]
Weights = dict[str, Any]

ACTIVATIONS: dict[str, Any] = {
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "relu": lambda x: np.maximum(x, 0),
}


class Definition:
    """The answers of a network whose layers all have its usual activation.

    `policy_head` and `value_head` are names of its messages, "" for its own.
    """

    def __init__(self, network: RandomNetwork, *, policy_head: str = "", value_head: str = "") -> None:
        self.shape, self.w = network.shape, network.weights
        several = self.w.get("policy_heads", {})
        self.policy = {**several, **several[policy_head]} if policy_head else self.w
        self.value = self.w["value_heads"][value_head] if value_head else self.w
        self.attention = self.shape.body != "residual"
        self.active = ACTIVATIONS[self.shape.activation]

    def answer(self, planes: Floats) -> tuple[Floats, Floats]:
        """Returns logits `[B, 1858]`, and WDL `[B, 3]` or Q `[B, 1]`."""
        flow = planes if self.shape.body == "attention" else self.tower(planes)
        rows = flow.reshape(*flow.shape[:2], 64).transpose(0, 2, 1)
        if self.attention:
            rows = self.body(rows)
        by_attention = self.shape.policy == "attention"
        return self.logits(rows) if by_attention else self.convolved_logits(flow), self.said(rows, flow)

    def tower(self, flow: Floats) -> Floats:
        stem = self.w["input"]
        scale = stem["gammas"] / np.sqrt(stem["variances"] + 1e-5)
        flow = convolved(flow, stem["weights"], stem["biases"] - stem["means"])
        flow = self.active(flow * scale[:, None, None] + stem["betas"][:, None, None])
        for block in self.w["residual"]:
            first, second = block["conv1"], block["conv2"]
            inner = convolved(
                self.active(convolved(flow, first["weights"], first["biases"])),
                second["weights"],
                second["biases"],
            )
            if "se" in block:
                unit = block["se"]
                small = self.active(inner.mean((2, 3)) @ unit["w1"].T + unit["b1"])
                gate, offset = np.split((small @ unit["w2"].T + unit["b2"])[:, :, None, None], 2, axis=1)
                inner = inner / (1 + np.exp(-gate)) + offset
            flow = self.active(inner + flow)
        return flow

    def body(self, rows: Floats) -> Floats:
        w, dense = self.w, self.shape.embedding == "dense"
        if self.shape.body == "attention":
            if dense:
                men = rows[:, :, :12].reshape(len(rows), -1)
                more = self.dense(w, "ip_emb_preproc", men).reshape(len(rows), 64, -1)
            else:
                more = np.broadcast_to(reached(), (len(rows), 64, 64))
            rows = np.concatenate([rows, more], axis=2)
        rows = self.active(self.dense(w, "ip_emb", rows))
        if dense:
            rows = norm(rows, w, "ip_emb_ln", 1e-3)
        width = rows.shape[2]
        rows = rows * w["ip_mult_gate"].reshape(width, 64).T + w["ip_add_gate"].reshape(width, 64).T
        alpha = (2 * len(w["encoder"])) ** -0.25
        if dense:
            rows = norm(rows + alpha * self.feed(w["ip_emb_ffn"], rows), w, "ip_emb_ffn_ln", 1e-3)
        for encoder in w["encoder"]:
            rows = self.encoder(encoder, rows, w["headcount"], alpha, 1e-3 if dense else 1e-6)
        return rows

    def encoder(self, encoder: Weights, rows: Floats, heads: int, alpha: float, epsilon: float) -> Floats:
        attention = encoder["mha"]
        parts = [self.dense(attention, part, rows) for part in "qkv"]
        q, k, v = (np.stack(np.split(part, heads, axis=2), axis=1) for part in parts)  # [B, heads, 64, depth]
        scores = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[3])
        if "smolgen" in attention:
            scores = scores + self.generated(attention["smolgen"], rows, heads)
        taken = np.einsum("bhij,bhjd->bhid", softmax(scores), v)
        taken = np.concatenate([taken[:, head] for head in range(heads)], axis=2)
        rows = norm(rows + alpha * self.dense(attention, "dense", taken), encoder, "ln1", epsilon)
        return norm(rows + alpha * self.feed(encoder["ffn"], rows), encoder, "ln2", epsilon)

    def generated(self, smolgen: Weights, rows: Floats, heads: int) -> Floats:
        flow = (rows @ smolgen["compress"].T).reshape(len(rows), -1)
        for i in "12":
            flow = norm(self.active(self.dense(smolgen, f"dense{i}", flow)), smolgen, f"ln{i}", 1e-3)
        by_head = np.stack(np.split(flow, heads, axis=1), axis=1)
        return np.asarray((by_head @ self.w["smolgen_w"].T).reshape(len(rows), heads, 64, 64))

    def feed(self, feed: Weights, rows: Floats) -> Floats:
        return self.dense(feed, "dense2", self.active(self.dense(feed, "dense1", rows)))

    @staticmethod
    def dense(parent: Weights, name: str, rows: Floats) -> Floats:
        return np.asarray(rows @ parent[f"{name}_w"].T + parent[f"{name}_b"])

    def logits(self, rows: Floats) -> Floats:
        head = self.policy
        rows = self.active(self.dense(head, "ip_pol", rows))
        for encoder in head.get("pol_encoder", []):
            rows = self.encoder(encoder, rows, head["pol_headcount"], 1.0, 1e-6)
        query, key = self.dense(head, "ip2_pol", rows), self.dense(head, "ip3_pol", rows)
        pairs = np.einsum("bid,bjd->bij", query, key) / np.sqrt(query.shape[2])
        pieces = key @ head["ip4_pol_w"].T  # of to-squares: queen, rook, bishop, any
        columns = []
        for text in policy_texts():
            a, b = chess.parse_square(text[:2]), chess.parse_square(text[2:4])
            logit = pairs[:, a, b]
            if len(text) == 5:
                logit = logit + pieces[:, b, "qrb".index(text[4])] + pieces[:, b, 3]
            columns.append(logit)
        return np.stack(columns, axis=1)

    def convolved_logits(self, flow: Floats) -> Floats:
        head, last = self.policy, self.policy["policy"]
        if self.shape.policy == "classical":
            flow = self.active(convolved(flow, last["weights"], last["biases"]))
            return self.dense(head, "ip_pol", flow.reshape(len(flow), -1))
        flow = self.active(convolved(flow, head["policy1"]["weights"], head["policy1"]["biases"]))
        cells = convolved(flow, last["weights"], last["biases"])
        return np.stack([cells[:, p, s // 8, s % 8] for p, s in map(policy_cell, policy_texts())], axis=1)

    def said(self, rows: Floats, flow: Floats) -> Floats:
        head = self.value
        if self.attention:
            inner = self.active(self.dense(head, "ip_val", rows)).reshape(len(rows), -1)
        else:
            layer = head["value"]
            inner = self.active(convolved(flow, layer["weights"], layer["biases"])).reshape(len(rows), -1)
        value = self.dense(head, "ip2_val", self.active(self.dense(head, "ip1_val", inner)))
        return softmax(value) if self.shape.wdl else np.tanh(value)


def norm(rows: Floats, parent: Weights, name: str, epsilon: float) -> Floats:
    """Returns rows with mean 0 and variance 1, scaled and moved."""
    centered = rows - rows.mean(axis=-1, keepdims=True)
    scaled = centered / np.sqrt((centered**2).mean(axis=-1, keepdims=True) + epsilon)
    return np.asarray(scaled * parent[f"{name}_gammas"] + parent[f"{name}_betas"])


def reached() -> Floats:
    """Returns `[64, 64]`: 1 where a queen or a knight gets from a square to another, -1 on the diagonal."""
    found = -np.eye(64)
    for square in chess.SQUARES:
        found[square, targets(square)] = 1
    return found


def targets(square: chess.Square) -> list[chess.Square]:
    """Returns the squares that a queen or a knight gets to on an empty board."""
    board = chess.Board(None)
    found = chess.SquareSet()
    for kind in (chess.QUEEN, chess.KNIGHT):
        board.set_piece_at(square, chess.Piece(kind, chess.WHITE))
        found |= board.attacks(square)
    return list(found)


# ------------------------------------------------------------------ definitions of layers, planes and moves
def convolved(planes: Floats, kernel: Floats, bias: Floats) -> Floats:
    size = kernel.shape[-1]
    edge = size // 2
    padded = np.pad(planes, ((0, 0), (0, 0), (edge, edge), (edge, edge)))
    out = np.zeros((len(planes), len(kernel), 8, 8))
    for dy in range(size):
        for dx in range(size):
            out += np.einsum("bihw,oi->bohw", padded[:, :, dy : dy + 8, dx : dx + 8], kernel[:, :, dy, dx])
    return out + bias[:, None, None]


def softmax(x: Floats) -> Floats:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def planes_shown(shown: Any) -> NDArray[np.float32]:
    masks = np.array([shown.mask(i) for i in range(112)], "<u8")
    values = np.array([shown.val(i) for i in range(112)], np.float32)
    bits = np.unpackbits(masks.view(np.uint8), bitorder="little").reshape(112, 8, 8)
    return np.asarray(bits * values[:, None, None], np.float32)


# ------------------------------------------------------------------ its moves
@cache
def policy_texts() -> list[str]:
    """Returns the 1858 moves of a policy, such as `a1b1` and `a7a8q`."""
    texts = []
    for square in chess.SQUARES:
        texts += [chess.square_name(square) + chess.square_name(to) for to in targets(square)]
    for a in "abcdefgh":
        for b in "abcdefgh":
            if abs(ord(a) - ord(b)) <= 1:
                texts += [f"{a}7{b}8{letter}" for letter in "qrb"]
    return texts


def policy_cell(text: str) -> tuple[int, int]:
    """Returns the plane and the square of a move in a convolutional head."""
    a, b = chess.parse_square(text[:2]), chess.parse_square(text[2:4])
    dx, dy = b % 8 - a % 8, b // 8 - a // 8
    if len(text) == 5:
        return {"r": 64, "b": 65, "q": 66}[text[4]] + 3 * (dx + 1), a
    if 0 not in (dx, dy) and abs(dx) != abs(dy):
        clockwise = [(1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1), (-2, 1), (-1, 2)]
        return 56 + clockwise.index((dx, dy)), a
    steps = max(abs(dx), abs(dy))
    eighth = round(np.arctan2(dx, dy) / (np.pi / 4)) % 8  # of a turn, from north by east
    return 7 * eighth + steps - 1, a
