"""`builtin`: this program's own networks; nothing to install or download. Does not import Numba.

    file    "gsnets2\n" | uint32 length of the card | card, JSON | zstd: the arrays of `ARRAYS` in turn

All numbers are little-endian. The card describes the networks: widths, scales, data, training, figures.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from ...jit.types import apart
from ...store.provenance import EvaluatorIdentity, Option
from ..inside import BatchKernel, KernelEvaluator
from ..protocol import BUILTIN
from . import layout as at

FILE, ENDINGS_FILE = "networks.bin", "endings.bin"
MAGIC = b"gsnets2\n"
MOST_BYTES = 1 << 26
ROW_BITS = 8  # of both networks' rows, as the kernels read them

# names in the order of the file: (header word of the section, dtype, shape by (value width, policy width))
ARRAYS: dict[str, tuple[int, str, Any]] = {
    "value_rows": (at.VALUE_ROWS, f"<i{ROW_BITS // 8}", lambda v, p: (at.FEATURES, v)),
    "value_bias": (at.VALUE_BIAS, "<i2", lambda v, p: (v,)),
    "value_first": (at.VALUE_FIRST, "<i2", lambda v, p: (at.STACKS, at.FIRST + at.OUTPUTS, 2, v)),
    "value_plain": (at.VALUE_FIRST_PLAIN, "<f4", lambda v, p: (2, at.STACKS, at.FIRST + at.OUTPUTS)),
    "value_second": (at.VALUE_SECOND, "<f4", lambda v, p: (at.STACKS, 2 * at.FIRST + 1, at.SECOND)),
    "value_last": (at.VALUE_LAST, "<f4", lambda v, p: (at.STACKS, at.SECOND, at.OUTPUTS)),
    "policy_rows": (at.POLICY_ROWS, f"<i{ROW_BITS // 8}", lambda v, p: (at.FEATURES, p)),
    "policy_bias": (at.POLICY_BIAS, "<i2", lambda v, p: (p,)),
    "from": (at.FROM, "<i2", lambda v, p: (at.PLACES, p)),
    "to": (at.TO, "<i2", lambda v, p: (at.PLACES, p)),
    "class": (at.CLASS, "<i2", lambda v, p: (at.CLASSES, p)),
    "class_plain": (at.CLASS_BIAS, "<f4", lambda v, p: (at.CLASSES + 1,)),
}


@dataclass(frozen=True, slots=True)
class Networks:
    """The value and the policy network.

    Attributes:
      words: the array that the kernels read (`layout`).
      arrays: views of `words`, by the names of `ARRAYS`.
      card: description and origin of the networks.
    """

    words: NDArray[np.int64]
    arrays: dict[str, NDArray[Any]]
    card: dict[str, Any]

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]], card: dict[str, Any]) -> Networks:
        """Returns networks with copies of the arrays; the card must have their widths."""
        return _networks(b"".join(arrays[name].tobytes() for name in ARRAYS), card)

    @property
    def widths(self) -> tuple[int, int]:
        """Returns the widths of the value and the policy network."""
        return self.card["value_width"], self.card["policy_width"]

    def policy_words(self) -> NDArray[np.int64]:
        """Returns the array that the policy network's kernel reads, without the value network."""
        begin, end = self.words[[at.POLICY_ROWS, at.VALUE_PAIRS]].tolist()
        sections = slice(at.POLICY_ROWS, at.CLASS_BIAS + 1)
        out = np.concatenate([np.zeros(at.HEADER, np.int64), self.words[begin:end]])
        out[at.POLICY_WIDTH] = self.words[at.POLICY_WIDTH]
        out[sections] = self.words[sections] - (begin - at.HEADER)
        return out

    def plain(self) -> bytes:
        """Returns all weights in the order of the file."""
        return b"".join(self.arrays[name].tobytes() for name in ARRAYS)


def read_networks(data: bytes) -> Networks:
    """Parses a file of networks (the program of tools/training writes them); ValueError for any other."""
    if not data.startswith(MAGIC):
        raise ValueError("it is not a file of networks")
    begin = len(MAGIC) + 4
    end = begin + int.from_bytes(data[len(MAGIC) : begin], "little")
    plain = zstandard.ZstdDecompressor().decompress(data[end:], MOST_BYTES)
    return _networks(plain, json.loads(data[begin:end]))


def _networks(plain: bytes, card: dict[str, Any]) -> Networks:
    """Returns the networks of a card and the bytes of their arrays.

    Widths are multiples of 64, so sections are aligned to 64 bytes without padding.
    """
    widths = card["value_width"], card["policy_width"]
    pairs_at = at.HEADER + -(-len(plain) // 64) * 8
    # behind the last pair of inputs the kernel reads one more
    words = apart(pairs_at + (at.STACKS * widths[0] + 1) * at.FIRST // 2, np.int64)
    words[at.VALUE_WIDTH], words[at.POLICY_WIDTH], words[at.VALUE_PAIRS] = *widths, pairs_at
    words[at.ENDINGS] = endings_table().ctypes.data
    room, begin = words.view(np.uint8)[at.HEADER * 8 :], 0
    room[: len(plain)] = np.frombuffer(plain, np.uint8)
    arrays = {}
    for name, (word, dtype, shape) in ARRAYS.items():
        size = shape(*widths)
        end = begin + int(np.prod(size)) * np.dtype(dtype).itemsize
        words[word] = at.HEADER + begin // 8
        arrays[name] = room[begin:end].view(dtype).reshape(size)
        begin = end
    if begin != len(plain):
        raise ValueError(f"{len(plain)} bytes of weights instead of {begin}")
    first = arrays["value_first"][:, : at.FIRST].reshape(at.STACKS, at.FIRST, widths[0], 2)
    pairs = words[pairs_at:].view(np.int16)[: first.size].reshape(at.STACKS, widths[0], at.FIRST, 2)
    pairs[...] = first.swapaxes(1, 2)
    return Networks(words, arrays, card)


@cache
def load_networks() -> Networks:
    """Returns the networks in the package."""
    return read_networks(files(__package__).joinpath(FILE).read_bytes())


@cache
def endings_table() -> NDArray[np.uint8]:
    """Returns the table of `endings_kernel.place_of`, at its address; what nobody reads takes no memory."""
    return np.memmap(str(files(__package__).joinpath(ENDINGS_FILE)), np.uint8, "r")


# SHA-256 of the packaged weights; computing it would add 14 ms to every start
DIGEST = "ce84a45059291aa9202cd47ee974fd3188bc1c5ef297f1cd088c8667f8670b94"
# raise when the code's results change for the same weights
REVISION = 8
MAPPING = "networks-wdl"


class BuiltinEvaluator(KernelEvaluator):
    """Computes V by quiescence over a value network, and P with a policy network.

    Attributes:
      temperature: of the policy.
      threads: number of evaluating threads, 0 for all cores.
    """

    kernel_kind = BUILTIN

    def __init__(
        self, temperature: float = 1.0, *, threads: int = 0, networks: Networks | None = None
    ) -> None:
        digest = hashlib.sha256(networks.plain()).hexdigest() if networks else DIGEST
        self.threads = threads
        networks = networks or load_networks()
        self.weights = networks.words
        self.temperature = temperature
        options: dict[str, Option] = {} if temperature == 1.0 else {"PolicyTemperature": temperature}
        self.identity = EvaluatorIdentity("builtin", f"{digest}-{REVISION}", options, MAPPING)

    @property
    def batch_kernel(self) -> BatchKernel:
        """The kernel of both networks."""
        from .evaluation_kernel import SCRATCH_WORDS, evaluate_batch

        return BatchKernel(evaluate_batch, SCRATCH_WORDS)
