"""lc0's network files, byte by byte: fields of net.proto, protocol buffers, encodings of weights."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


# ------------------------------------------------------------------ lc0's net.proto: field -> number, message
def _fields(words: str, **messages: Any) -> dict[str, Any]:
    """Returns the fields of a message by name: numbers from 1 on, `-` for one that nobody writes.

    >>> _fields("a - b", b={"c": (1, None)})
    {'a': (1, None), 'b': (3, {'c': (1, None)})}
    """
    return {name: (i, messages.get(name)) for i, name in enumerate(words.split(), 1) if name != "-"}


CONVOLUTION = _fields("weights biases means variances gammas betas")
SQUEEZE = _fields("w1 b1 w2 b2")
RESIDUAL = _fields("conv1 conv2 se", conv1=CONVOLUTION, conv2=CONVOLUTION, se=SQUEEZE)
SMOLGEN = _fields("compress dense1_w dense1_b ln1_gammas ln1_betas dense2_w dense2_b ln2_gammas ln2_betas")
ATTENTION = _fields("q_w q_b k_w k_b v_w v_b dense_w dense_b smolgen rpe_q", smolgen=SMOLGEN)
FEED = _fields("dense1_w dense1_b dense2_w dense2_b")
ENCODER = _fields("mha ln1_gammas ln1_betas ffn ln2_gammas ln2_betas", mha=ATTENTION, ffn=FEED)
POLICY = _fields(
    "ip_pol_w ip_pol_b ip2_pol_w ip2_pol_b ip3_pol_w ip3_pol_b ip4_pol_w pol_encoder pol_headcount"
    " policy1 policy",
    pol_encoder=ENCODER,
    policy1=CONVOLUTION,
    policy=CONVOLUTION,
)
VALUE = _fields("ip_val_w ip_val_b ip1_val_w ip1_val_b ip2_val_w ip2_val_b - - - - value", value=CONVOLUTION)
NAMED_POLICY, NAMED_VALUE = _fields("key value", value=POLICY), _fields("key value", value=VALUE)
POLICIES = _fields(
    "ip_pol_w ip_pol_b vanilla optimistic_st soft opponent policy_head_map",
    **dict.fromkeys(("vanilla", "optimistic_st", "soft", "opponent"), POLICY),
    policy_head_map=NAMED_POLICY,
)
VALUES = _fields("winner q st value_head_map", winner=VALUE, q=VALUE, st=VALUE, value_head_map=NAMED_VALUE)
WEIGHTS = _fields(
    "input residual policy ip_pol_w ip_pol_b value ip1_val_w ip1_val_b ip2_val_w ip2_val_b policy1"
    " moves_left ip1_mov_w ip1_mov_b ip2_mov_w ip2_mov_b ip2_pol_w ip2_pol_b ip3_pol_w ip3_pol_b"
    " pol_encoder ip4_pol_w - pol_headcount ip_emb_w ip_emb_b encoder headcount ip_val_w ip_val_b"
    " ip_mov_w ip_mov_b ip_mult_gate ip_add_gate smolgen_w - ip_emb_preproc_w ip_emb_preproc_b"
    " ip_emb_ln_gammas ip_emb_ln_betas ip_emb_ffn ip_emb_ffn_ln_gammas ip_emb_ffn_ln_betas"
    " value_heads policy_heads",
    **dict.fromkeys(("input", "policy", "value", "policy1", "moves_left"), CONVOLUTION),
    residual=RESIDUAL,
    pol_encoder=ENCODER,
    encoder=ENCODER,
    ip_emb_ffn=FEED,
    value_heads=VALUES,
    policy_heads=POLICIES,
)
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
