"""lc0's network files, byte by byte: fields of net.proto, protocol buffers, encodings of weights."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# ------------------------------------------------------------------ lc0's net.proto: field -> number, message
CONVOLUTION = {
    name: (i, None)
    for i, name in enumerate(("weights", "biases", "means", "variances", "gammas", "betas"), 1)
}
SQUEEZE = {name: (i, None) for i, name in enumerate(("w1", "b1", "w2", "b2"), 1)}
RESIDUAL = {"conv1": (1, CONVOLUTION), "conv2": (2, CONVOLUTION), "se": (3, SQUEEZE)}
SMOLGEN = {
    name: (i, None)
    for i, name in enumerate(
        (
            "compress",
            "dense1_w",
            "dense1_b",
            "ln1_gammas",
            "ln1_betas",
            "dense2_w",
            "dense2_b",
            "ln2_gammas",
            "ln2_betas",
        ),
        1,
    )
}
ATTENTION: dict[str, Any] = {
    name: (i, None)
    for i, name in enumerate(("q_w", "q_b", "k_w", "k_b", "v_w", "v_b", "dense_w", "dense_b"), 1)
}
ATTENTION |= {"smolgen": (9, SMOLGEN), "rpe_q": (10, None)}
FEED = {name: (i, None) for i, name in enumerate(("dense1_w", "dense1_b", "dense2_w", "dense2_b"), 1)}
ENCODER = {
    "mha": (1, ATTENTION),
    "ln1_gammas": (2, None),
    "ln1_betas": (3, None),
    "ffn": (4, FEED),
    "ln2_gammas": (5, None),
    "ln2_betas": (6, None),
}
POLICY = {
    "ip_pol_w": (1, None),
    "ip_pol_b": (2, None),
    "ip2_pol_w": (3, None),
    "ip2_pol_b": (4, None),
    "ip3_pol_w": (5, None),
    "ip3_pol_b": (6, None),
    "ip4_pol_w": (7, None),
    "pol_encoder": (8, ENCODER),
    "pol_headcount": (9, None),
    "policy1": (10, CONVOLUTION),
    "policy": (11, CONVOLUTION),
}
VALUE = {
    "ip_val_w": (1, None),
    "ip_val_b": (2, None),
    "ip1_val_w": (3, None),
    "ip1_val_b": (4, None),
    "ip2_val_w": (5, None),
    "ip2_val_b": (6, None),
    "value": (11, CONVOLUTION),
}
NAMED_POLICY = {"key": (1, None), "value": (2, POLICY)}
NAMED_VALUE = {"key": (1, None), "value": (2, VALUE)}
POLICIES = {
    "ip_pol_w": (1, None),
    "ip_pol_b": (2, None),
    "vanilla": (3, POLICY),
    "optimistic_st": (4, POLICY),
    "soft": (5, POLICY),
    "opponent": (6, POLICY),
    "policy_head_map": (7, NAMED_POLICY),
}
VALUES = {"winner": (1, VALUE), "q": (2, VALUE), "st": (3, VALUE), "value_head_map": (4, NAMED_VALUE)}
WEIGHTS: dict[str, Any] = {
    "input": (1, CONVOLUTION),
    "residual": (2, RESIDUAL),
    "policy": (3, CONVOLUTION),
    "ip_pol_w": (4, None),
    "ip_pol_b": (5, None),
    "value": (6, CONVOLUTION),
    "ip1_val_w": (7, None),
    "ip1_val_b": (8, None),
    "ip2_val_w": (9, None),
    "ip2_val_b": (10, None),
    "policy1": (11, CONVOLUTION),
    "moves_left": (12, CONVOLUTION),
    "ip1_mov_w": (13, None),
    "ip1_mov_b": (14, None),
    "ip2_mov_w": (15, None),
    "ip2_mov_b": (16, None),
    "ip2_pol_w": (17, None),
    "ip2_pol_b": (18, None),
    "ip3_pol_w": (19, None),
    "ip3_pol_b": (20, None),
    "pol_encoder": (21, ENCODER),
    "ip4_pol_w": (22, None),
    "pol_headcount": (24, None),
    "ip_emb_w": (25, None),
    "ip_emb_b": (26, None),
    "encoder": (27, ENCODER),
    "headcount": (28, None),
    "ip_val_w": (29, None),
    "ip_val_b": (30, None),
    "ip_mov_w": (31, None),
    "ip_mov_b": (32, None),
    "ip_mult_gate": (33, None),
    "ip_add_gate": (34, None),
    "smolgen_w": (35, None),
    "ip_emb_preproc_w": (37, None),
    "ip_emb_preproc_b": (38, None),
    "ip_emb_ln_gammas": (39, None),
    "ip_emb_ln_betas": (40, None),
    "ip_emb_ffn": (41, FEED),
    "ip_emb_ffn_ln_gammas": (42, None),
    "ip_emb_ffn_ln_betas": (43, None),
    "value_heads": (44, VALUES),
    "policy_heads": (45, POLICIES),
}
MAGIC = 0x1C0


# ------------------------------------------------------------------ protocol buffers
def varint(value: int) -> bytes:
    """Returns a number in groups of seven bits, the lowest first."""
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def number(key: int, value: int) -> bytes:
    """Returns a field that is a number."""
    return varint(key << 3) + varint(value)


def data(key: int, value: bytes) -> bytes:
    """Returns a field of bytes, or of a message."""
    return varint(key << 3 | 2) + varint(len(value)) + value


def word(key: int, value: int) -> bytes:
    """Returns a field of 32 bits."""
    return varint(key << 3 | 5) + struct.pack("<I", value)


def real(key: int, value: float) -> bytes:
    """Returns a field that is a 32-bit float."""
    return varint(key << 3 | 5) + struct.pack("<f", value)


def layer(values: Floats, encoding: int | None = None) -> bytes:
    """Returns a `Layer` message; LINEAR16 does not say so, as in the files that lc0 has written for years."""
    flat = values.reshape(-1)
    if encoding == 2:
        return data(3, flat.astype("<f2").tobytes()) + number(4, 2)
    if encoding == 3:
        return data(3, (flat.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()) + number(4, 3)
    if encoding == 4:
        return data(3, flat.astype("<f4").tobytes()) + number(4, 4)
    low, high = float(flat.min()), float(flat.max())
    return real(1, low) + real(2, high) + data(3, _steps(flat).astype("<u2").tobytes())


def _steps(values: Floats) -> Floats:
    """Returns numbers as LINEAR16 keeps them: steps from the least to the largest."""
    low, high = values.min(), values.max()
    return np.asarray(np.round((values - low) / ((high - low) or 1.0) * 65535))


def message(fields: Mapping[str, Any], known: Mapping[str, Any], encoding: int | None) -> bytes:
    """Returns a message: arrays are layers, dicts are messages, lists are repeated ones."""
    out = []
    for name, value in fields.items():
        key, inner = known[name]
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                out.append(data(key, message(one, inner, encoding)))
            elif isinstance(one, int):
                out.append(number(key, one))
            else:
                out.append(data(key, one.encode() if isinstance(one, str) else layer(one, encoding)))
    return b"".join(out)


def rounded(values: Floats, encoding: int | None) -> Floats:
    """Returns numbers as an encoding keeps them."""
    if encoding == 2:
        return values.astype(np.float16).astype(np.float64)
    if encoding == 3:
        upper_half = values.astype("<f4").view("<u4") & np.uint32(0xFFFF0000)
        return upper_half.view("<f4").astype(np.float64)
    if encoding == 4:
        return values.astype(np.float32).astype(np.float64)
    low, high = values.min(), values.max()
    return np.asarray(low + _steps(values) / 65535 * (high - low))


def net(form: bytes, content: bytes, *, version: tuple[int, int, int] = (0, 21, 0)) -> bytes:
    """Returns a `Net` message."""
    versions = b"".join(number(i, part) for i, part in enumerate(version, 1))
    return word(1, MAGIC) + data(2, b"free") + data(3, versions) + data(4, form) + content
