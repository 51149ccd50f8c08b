"""Made-up networks of Stockfish's form: as files, as plain NumPy, and scored by the kernels."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from graphsearch.evaluators.nnue.evaluation_kernel import network_score, search
from graphsearch.evaluators.nnue.evaluator import PACKED, VERSION, Architecture
from graphsearch.evaluators.quiescence_kernel import KEPT, STACK_WORDS, exchange
from graphsearch.jit.compiler import kernel
from graphsearch.jit.pointers import ZERO, ptr
from graphsearch.jit.types import int64
from graphsearch.position.board import encode_move, pack
from graphsearch.position.board_kernel import PW
from graphsearch.position.tables import load_tables

FEATURES = 22528
SIZES = ((16, None), (32, 32), (1, 32))  # of the layers of a stack: outputs, inputs; None: the width


def leb128(numbers: Iterable[int]) -> bytes:
    out = bytearray()
    for number in numbers:
        while not -64 <= number < 64:
            out.append(number & 0x7F | 0x80)
            number >>= 7
        out.append(number & 0x7F)
    return bytes(out)


def _packed(numbers: NDArray[Any]) -> bytes:
    small = np.abs(numbers).max() < 64
    data = (numbers & 0x7F).astype(np.uint8).tobytes() if small else leb128(numbers.ravel().tolist())
    return PACKED + struct.pack("<I", len(data)) + data


@dataclass
class MadeUp:
    """A network: what the file holds, in its order."""

    architecture: Architecture
    bias: NDArray[np.int16]
    rows: NDArray[np.int16]
    material: NDArray[np.int32]
    stacks: list[list[NDArray[Any]]]  # of each layer biases [outputs] and weights [outputs, inputs]

    @classmethod
    def random(cls, architecture: Architecture, features: Iterable[int] | None = None) -> MadeUp:
        """Returns a network whose rows are zeros except those of some features."""
        rng, width = np.random.default_rng(5), architecture.width
        chosen = np.arange(FEATURES) if features is None else np.array(sorted(features))
        rows, material = np.zeros((FEATURES, width), np.int16), np.zeros((FEATURES, 8), np.int32)
        rows[chosen] = rng.integers(-60, 60, (len(chosen), width))
        material[chosen] = rng.integers(-3000, 3000, (len(chosen), 8))
        stacks = [
            [
                part
                for outputs, inputs in SIZES
                for part in (
                    rng.integers(-4000, 4000, outputs).astype(np.int32),
                    rng.integers(-128, 128, (outputs, inputs or width)).astype(np.int8),
                )
            ]
            for _ in range(8)
        ]
        bias = rng.integers(-300, 300, width).astype(np.int16)
        return cls(architecture, bias, rows, material, stacks)

    def file(self, *, packed: bool) -> bytes:
        form = self.architecture
        text = b"made up"
        out = [
            struct.pack("<III", VERSION, form.hash, len(text)),
            text,
            struct.pack("<I", form.features_hash),
        ]
        for part in (self.bias, self.rows, self.material):
            out.append(_packed(part) if packed else part.tobytes())
        for stack in self.stacks:
            out += [struct.pack("<I", form.stack_hash), *(part.tobytes() for part in stack)]
        return b"".join(out)

    def static(self, board: chess.Board) -> int:
        """Returns what it says of a position, seen by the side to move, in its own unit."""
        i = (len(board.piece_map()) - 1) // 4
        views = [self._view(board, side, i) for side in (board.turn, not board.turn)]
        half = self.architecture.width // 2
        inputs = np.concatenate(
            [np.clip(a[:half], 0, 127) * np.clip(a[half:], 0, 127) >> 7 for a, _ in views]
        )
        first_bias, first, second_bias, second, last_bias, last = (p.astype(np.int64) for p in self.stacks[i])
        sums = first @ inputs + first_bias
        squares = np.minimum(127, sums[:15] ** 2 >> 19)
        hidden = np.concatenate([squares, np.clip(sums[:15] >> 6, 0, 127), [0, 0]])
        more = np.clip((second @ hidden + second_bias) >> 6, 0, 127)
        skipped = int(sums[15] * 9600 / 8128)
        material = int((views[0][1] - views[1][1]) / 2)
        return int((material + int((last @ more + last_bias)[0]) + skipped) / 16)

    def _view(self, board: chess.Board, side: chess.Color, i: int) -> tuple[NDArray[np.int64], int]:
        found = list(features(board, side))
        total = self.bias + self.rows[found].astype(np.int64).sum(axis=0)
        return total, int(self.material[found, i].sum())


def features(board: chess.Board, side: chess.Color) -> Iterable[int]:
    """Yields the features of a position in one side's view: each man's place by the place of the own king."""
    king = board.king(side)
    assert king is not None
    turn = (0 if side else 56) ^ (7 if chess.square_file(king) < 4 else 0)
    seen = king ^ turn
    bucket = (7 - chess.square_rank(seen)) * 4 + 7 - chess.square_file(seen)
    for square, man in board.piece_map().items():
        kind = 10 if man.piece_type == chess.KING else 2 * (man.piece_type - 1) + (man.color != side)
        yield bucket * 704 + kind * 64 + (square ^ turn)


@kernel
def scores(
    T: NDArray[np.uint64],
    weights: NDArray[np.int64],
    positions: NDArray[np.uint64],
    quiet: NDArray[np.int64],
    out: NDArray[np.int64],
    scratch: NDArray[np.uint64],
) -> None:
    """Writes each position's score in thousandths of a pawn, seen by the side to move.

    Args:
      positions: uint64[B * 10].
      quiet: int64[2]: window of the quiescence search; two equal numbers: the network's score alone.
      out: int64[B] out.
      scratch: uint64[STACK_WORDS + area_words(width)].
    """
    stack, area = ptr(scratch, 0), ptr(scratch, STACK_WORDS)
    for b in range(out.shape[0]):
        for i in range(PW):
            stack[i] = positions[b * PW + i]
        stack[KEPT] = ZERO
        if quiet[0] == quiet[1]:
            out[b] = network_score(ptr(weights, 0), stack, int64(0), area)
        else:
            out[b] = search(ptr(T, 0), ptr(weights, 0), stack, area, int64(0), quiet[0], quiet[1])


# ------------------------------------------------------------------ static exchange, as Python calls it
@kernel
def _exchange(T: Any, words: Any, move: Any, gains: Any) -> Any:
    return exchange(ptr(T, 0), ptr(words, 0), move, ptr(gains, 0))


def exchanged(board: chess.Board, move: chess.Move) -> int:
    """Returns what a move wins by captures on its target square, in thousandths of a pawn."""
    return int(_exchange(load_tables(), pack(board), np.uint16(encode_move(move)), np.zeros(64, np.uint64)))
