"""`nnue:FILE|PROGRAM`: a network of Stockfish 15.1 to 17.1 that this program's kernels evaluate.

    version   u32 0x7AF32F20
    hash      u32, of the architecture: determines the width, and so the layout of the rest
    text      u32 length, then that many bytes
    features  u32 hash | biases int16[width] | weights int16[22528][width] | material int32[22528][8]
    8 stacks  u32 hash | int32[16], int8[16][width] | int32[32], int8[32][32] | int32[1], int8[32]

All numbers of a file are little-endian. From Stockfish 16 on, each of the three arrays of the features is
packed: the text COMPRESSED_LEB128, a u32 number of bytes, then that many bytes of LEB128.

A program gives its network once (`export_net`); later it comes from the cache folder, from the file
networks/PROGRAM.nnue, where PROGRAM is a SHA-256 of program and arguments. No engine runs.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ...base.errors import EvaluatorError
from ...base.limits import PIECE
from ...jit.cache import cache_folder
from ...store.provenance import EvaluatorIdentity, Option
from ..builtin.evaluator import endings_table, load_networks
from ..inside import BatchKernel, KernelEvaluator
from ..protocol import NNUE
from ..uci.program import Program, file_digest, find_program, network_bytes
from . import layout
from .layout import FEATURES, FIRST, HEADER_WORDS, NNUE_SUFFIX, ROWS, SECOND, SECOND_INPUTS, STACKS

REVISION = 9  # raise when the code's results change for the same network and numbers
MAPPING = "nnue-wdl"
FITTED = Path(__file__).with_name("fitted.json")
EXPORT_SECONDS = 60.0
LARGE, SMALL = f"large{NNUE_SUFFIX}", f"small{NNUE_SUFFIX}"
# From 16.1 on Stockfish has a second, small network, and requires a file name for it. It evaluates lopsided
# positions faster, not better; we do not use it.
REQUEST = f"export_net {LARGE} {SMALL}\nquit\n"


class NnueEvaluator(KernelEvaluator):
    """Computes V and P with a Stockfish network: quiescence search plus the best moves and replies.

    Attributes:
      identity: the network's hash, and a hash of the numbers and code that turn scores into V and P.
    """

    kernel_kind = NNUE

    def __init__(self, source: str, *, temperature: float = 1.0, threads: int = 0) -> None:
        """Reads a network; `network_of` names the sources and errors, `create` the options."""
        self.network = network_of(source)
        self.weights, fitted = self.network.weights, json.loads(FITTED.read_text(encoding="utf-8"))
        self.weights[layout.EFFORT_AT : layout.EFFORT_AT + len(fitted["effort"])] = fitted["effort"]
        self.weights[int(self.weights[layout.FITTED_AT]) :][: len(fitted["numbers"])] = fitted["numbers"]
        self.temperature = temperature
        self.threads = threads
        behind = self.weights[layout.HEADER_WORDS - 8 : layout.HEADER_WORDS].tobytes()
        behind += self.weights[int(self.weights[layout.FITTED_AT]) :].tobytes() + bytes([REVISION])
        self.weights[layout.ENDINGS] = endings_table().ctypes.data  # not of its identity
        options: dict[str, Option] = {"numbers": hashlib.sha256(behind).hexdigest()[:16]}
        if temperature != 1.0:
            options["PolicyTemperature"] = temperature
        self.identity = EvaluatorIdentity("nnue", self.network.sha256, options, MAPPING)
        self.notes = (f"network of {self.network.architecture.engines}, {self.network.sha256[:12]}",)

    @property
    def batch_kernel(self) -> BatchKernel:
        """The network's kernel, with the size of its work area."""
        from .evaluation_kernel import evaluate_batch, scratch_words

        return BatchKernel(evaluate_batch, scratch_words(self.network.architecture.width))


def network_of(text: str) -> Network:
    """Returns the network of a `.nnue` file, or of a program with the command `export_net`.

    Raises:
      EvaluatorError: if the file or program does not exist, or has no network of a known architecture.
    """
    path = Path(text).expanduser()
    if path.suffix == NNUE_SUFFIX or (path.is_file() and "/" in text and shutil.which(path) is None):
        return read_network(path)
    program = find_program(text)
    whole = " ".join([file_digest(program.path), *program.arguments])
    folder = cache_folder("networks")
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary:
            return _exported(program, Path(temporary, LARGE))
    kept = folder / f"{hashlib.sha256(whole.encode()).hexdigest()}{NNUE_SUFFIX}"
    with suppress(EvaluatorError):
        return read_network(kept)
    return _exported(program, kept)


def _exported(program: Program, kept: Path) -> Network:
    """Returns the network that a program gives, and keeps it in a file."""
    label, nowhere = f"the program {program.label}", subprocess.DEVNULL
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        try:
            subprocess.run(  # noqa: S603
                program.command,
                input=REQUEST.encode(),
                stdout=nowhere,
                stderr=nowhere,
                cwd=folder,
                timeout=EXPORT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise EvaluatorError(f"{label} gave no network within {EXPORT_SECONDS:.0f} s") from None
        except OSError as error:
            raise EvaluatorError(f"{label} cannot be started: {error.strerror or error}") from None
        given = Path(folder, LARGE)
        if not given.is_file():
            raise EvaluatorError(
                f"{label} gave no network when asked to (export_net): Stockfish 15.1 to 17.1 do; a network in"
                f" a file is nnue:FILE{NNUE_SUFFIX}"
            )
        network = read_network(given)
        with suppress(OSError):  # if that path is a folder, the network is not kept
            given.replace(kept)
    return network


# ------------------------------------------------------------------ files
MORE, SIGN = 0x80, 0x40
MOST_BYTES = 5  # of a number of 32 bits


def decode(data: bytes) -> tuple[NDArray[np.int64], bytes]:
    """Decodes signed LEB128; returns the numbers, and the bytes of an incomplete last one.

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
    """Decodes so many numbers, piece by piece: the decoder takes 40 bytes for each."""
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
      engines: the Stockfish versions that use it. width: numbers in an accumulator.
      pawn: network output that the engine shows as 100 centipawns with all men on the board.
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
    """A network; `sha256`: of its file, in hex. `weights`: int64, packed as in `layout`."""

    architecture: Architecture
    sha256: str
    weights: NDArray[np.int64]


def read_network(path: str | os.PathLike[str]) -> Network:
    """Returns the network of a file; EvaluatorError if it is damaged or has no known architecture."""
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
            plain[layout.EMPTY_BOARD],
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
