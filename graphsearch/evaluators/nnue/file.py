"""Reads networks of Stockfish 15.1 to 17.1 (`.nnue`).

    version   u32 0x7AF32F20
    hash      u32, of the architecture: determines the width, and so the layout of the rest
    text      u32 length, then that many bytes
    features  u32 hash | biases int16[width] | weights int16[22528][width] | material int32[22528][8]
    8 stacks  u32 hash | int32[16], int8[16][width] | int32[32], int8[32][32] | int32[1], int8[32]

All numbers are little-endian. From Stockfish 16 on, each of the three arrays of the features is packed: the
text COMPRESSED_LEB128, a u32 number of bytes, then that many bytes of LEB128.
"""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ...base.errors import EvaluatorError
from ...base.limits import PIECE
from ..builtin.evaluator import load_networks
from ..uci.program import network_bytes
from . import layout
from .layout import EMPTY_BOARD, FEATURES, FIRST, HEADER_WORDS, ROWS, SECOND, SECOND_INPUTS, STACKS

MORE, SIGN = 0x80, 0x40
MOST_BYTES = 5  # of a number of 32 bits


def decode(data: bytes) -> tuple[NDArray[np.int64], bytes]:
    """Decodes signed LEB128; returns the numbers, and the bytes of an incomplete last one.

    Raises:
      ValueError: if a number has more than MOST_BYTES.

    >>> [numbers.tolist() for numbers in decode(bytes([2, 0x7F, 0xC0, 0, 0x80]))[:1]]
    [[2, -1, 64]]
    """
    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw < MORE)
    starts = np.concatenate([np.zeros(1, np.int64), ends + 1])
    rest = data[int(starts[-1]) :]
    lengths = ends - starts[:-1] + 1
    longest = int(lengths.max(initial=0))
    if max(longest, len(rest)) > MOST_BYTES:
        raise ValueError("in its LEB128 a number does not end")
    numbers = np.where(raw[ends] & SIGN, -1 << 7 * lengths, 0)
    for k in range(longest):
        longer = lengths > k
        numbers[longer] |= (raw[starts[:-1][longer] + k] & 0x7F).astype(np.int64) << 7 * k
    return numbers, rest


def unpacked(data: memoryview, count: int, dtype: DTypeLike) -> NDArray[Any]:
    """Decodes so many numbers, piece by piece: the decoder takes 40 bytes for each.

    Raises:
      ValueError: if there are not so many.
    """
    values: NDArray[Any] = np.empty(count, dtype)
    at, rest = 0, b""
    for begin in range(0, len(data), PIECE):
        numbers, rest = decode(rest + bytes(data[begin : begin + PIECE]))
        values[at : at + len(numbers)] = numbers
        at += len(numbers)
    if at < count or rest:
        raise ValueError("its LEB128 has too few numbers")
    return values


VERSION = 0x7AF32F20
PACKED = b"COMPRESSED_LEB128"
ALIGNMENT = 64  # in memory, in bytes; saves 5 % of an evaluation


@dataclass(frozen=True, slots=True)
class Architecture:
    """A network's architecture.

    Attributes:
      engines: the Stockfish versions that use it.
      width: numbers in an accumulator.
      pawn: network output that the engine shows as 100 centipawns with all men on the board.
      hash: of the whole network.
    """

    engines: str
    width: int
    pawn: int
    hash: int

    @property
    def features_hash(self) -> int:
        """The hash at the start of the features."""
        return 0x7F234CB8 ^ (2 * self.width)

    @property
    def stack_hash(self) -> int:
        """The hash at the start of each stack."""
        return self.hash ^ self.features_hash


ARCHITECTURES = (
    Architecture("Stockfish 15.1", 1024, 361, 0x1C102EF2),
    Architecture("Stockfish 16", 1536, 328, 0x1C102B72),
    Architecture("Stockfish 16.1", 2560, 356, 0x1C103072),
    Architecture("Stockfish 17 and 17.1", 3072, 377, 0x1C1020F2),
    Architecture("Stockfish 16.1 to 17.1, small", 128, 377, 0x1C103C92),
)
KNOWN = ", ".join(f"{one.hash:#010x} ({one.engines})" for one in ARCHITECTURES)


class Network(NamedTuple):
    """A network, packed as in `layout`.

    Attributes:
      architecture: its architecture. sha256: hash of its file, in hex.
      weights: int64, the header first.
    """

    architecture: Architecture
    sha256: str
    weights: NDArray[np.int64]


def read_network(path: str | os.PathLike[str]) -> Network:
    """Reads a network from a file.

    Raises:
      EvaluatorError: if the file cannot be read, is damaged, or holds no network of a known architecture.
    """
    data = network_bytes(path)
    try:
        return _Reader(data).network()
    except ValueError as error:
        raise EvaluatorError(f"the network {os.fspath(path)} cannot be read: {error}") from None


def empty_weights(architecture: Architecture) -> NDArray[np.int64]:
    """Returns the array of a network without its weights: header, zeros, then the policy network."""
    width, policy = architecture.width, load_networks().policy_words()
    stacks_at = HEADER_WORDS + ROWS * layout.row_words(width)
    fitted_at = stacks_at + STACKS * layout.stack_words(width)
    policy_at = -(-(fitted_at + layout.FITTED_NUMBERS) // 8) * 8  # aligned as the rest
    count = policy_at + len(policy)
    room = np.zeros(count + ALIGNMENT // 8, np.int64)
    begin = -room.ctypes.data % ALIGNMENT // 8
    out = room[begin : begin + count]
    out[layout.WIDTH], out[layout.PAWN] = width, architecture.pawn
    out[layout.ROWS_AT], out[layout.ROW_WORDS] = HEADER_WORDS, layout.row_words(width)
    out[layout.STACKS_AT], out[layout.LAYER_WORDS] = stacks_at, layout.stack_words(width)
    out[layout.FITTED_AT], out[layout.POLICY_NETWORK_AT] = fitted_at, policy_at
    out[policy_at:] = policy
    return out


class _Reader:
    """Reads the bytes of a file in turn; ValueError if they are not as they should be."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = memoryview(data), 0

    def network(self) -> Network:
        """Reads the whole network."""
        version, found, length = (self._number() for _ in range(3))
        if version != VERSION:
            raise ValueError(
                f"expected a network of Stockfish, version {VERSION:#x}; this begins with {version:#x}"
            )
        known = [one for one in ARCHITECTURES if one.hash == found]
        if not known:
            raise ValueError(f"its architecture {found:#010x} is unknown; known are {KNOWN}")
        architecture = known[0]
        self._take(length)
        weights = empty_weights(architecture)
        self._features(architecture, weights)
        begin, words = int(weights[layout.STACKS_AT]), int(weights[layout.LAYER_WORDS])
        for at in range(begin, begin + STACKS * words, words):
            self._stack(architecture, weights[at : at + words])
        if self._at < len(self._data):
            raise ValueError("it has data behind its end")
        return Network(architecture, hashlib.sha256(self._data).hexdigest(), weights)

    def _features(self, architecture: Architecture, weights: NDArray[np.int64]) -> None:
        self._expect(architecture.features_hash)
        half = architecture.width // 2
        rows = weights[HEADER_WORDS : int(weights[layout.STACKS_AT])].reshape(ROWS, -1)
        plain = rows.view(np.int16)[:, : 2 * half]
        for out in (
            plain[EMPTY_BOARD],
            plain[:FEATURES],
            rows.view(np.int32)[:FEATURES, half : half + STACKS],
        ):
            if self._data[self._at : self._at + len(PACKED)] != PACKED:
                self._read(out, out.dtype)
                continue
            self._at += len(PACKED)
            out[...] = unpacked(self._take(self._number()), out.size, out.dtype).reshape(out.shape)

    def _stack(self, architecture: Architecture, stack: NDArray[np.int64]) -> None:
        """Reads the layers of a stack: of each the biases, then the weights by output and input."""

        def part(at: int, dtype: type, *shape: int) -> NDArray[Any]:
            return stack[at:].view(dtype)[: math.prod(shape)].reshape(shape)

        self._expect(architecture.stack_hash)
        # inputs are in pairs, outputs of the second layer in groups of sixteen
        first = part(layout.FIRST_WEIGHTS, np.int16, architecture.width // 2, FIRST, 2)
        second = part(layout.SECOND_WEIGHTS, np.int16, SECOND // FIRST, SECOND_INPUTS // 2, FIRST, 2)
        self._read(part(layout.FIRST_BIAS, np.int32, FIRST), np.int32)
        self._read(first.swapaxes(0, 1), np.int8)
        self._read(part(layout.SECOND_BIAS, np.int32, SECOND), np.int32)
        self._read(second.swapaxes(1, 2), np.int8)
        self._read(part(layout.LAST_BIAS, np.int64, 1), np.int32)
        self._read(part(layout.LAST_WEIGHTS, np.int16, SECOND), np.int8)

    def _read(self, out: NDArray[Any], dtype: DTypeLike) -> None:
        """Reads an array of numbers of a type."""
        out[...] = np.frombuffer(self._take(out.size * np.dtype(dtype).itemsize), dtype).reshape(out.shape)

    def _expect(self, expected: int) -> None:
        found = self._number()
        if found != expected:
            raise ValueError(f"a part's hash is {found:#010x}, expected {expected:#010x}")

    def _number(self) -> int:
        return int.from_bytes(self._take(4), "little")

    def _take(self, size: int) -> memoryview:
        found = self._data[self._at : self._at + size]
        if len(found) < size:
            raise ValueError("it ends too early")
        self._at += size
        return found
