"""Network files: lc0's protocol buffers, plain and compressed, and Stockfish's networks."""

from __future__ import annotations

import gzip
import random
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import chess
import numpy as np

from graphsearch.evaluators.nnue.evaluator import PACKED
from tests.support.random_lc0 import varint

from ..support.nnue import MadeUp
from ..support.random_lc0 import RandomNetwork, Shape, tower
from .files import DisagreementError
from .mutators import mutated
from .texts import gz_bomb


def seeds(_: Path) -> list[bytes]:
    """Returns small networks of several kinds, as protocol buffers."""
    kinds = (
        tower(),
        tower(1, policy="classical", wdl=False, encoding=2),
        tower(2, squeezes=False, activation="mish"),
    )
    found = [kind.message for kind in kinds]
    small = Shape(encoders=1, width=4, inner=4, feed=4, smolgen=2, policy_encoders=1, input=3)
    several = replace(small, embedding="dense", several=True, encoding=2, input=133)
    return [*found, *(RandomNetwork(shape).message for shape in (small, several))]


def mutate(given: list[bytes], rng: random.Random) -> bytes:
    """Returns changed bytes; mostly near the start, where the description is; some compressed."""
    data = rng.choice(given)
    near = min(len(data), rng.choice((64, 400, len(data))))
    out = mutated(data[:near], rng, given) + data[near:]
    if rng.random() < 0.2:  # a length that promises more than there is
        at = rng.randrange(near)
        out = out[:at] + varint(rng.choice((1 << 20, 1 << 31, 1 << 62))) + out[at:]
    kind = rng.randrange(40)
    if kind == 0:
        return gz_bomb()
    if kind < 8:
        return gzip.compress(out, 1, mtime=0)
    return mutated(gzip.compress(data, 1, mtime=0), rng) if kind < 14 else out


def read(data: bytes, folder: Path) -> bool:
    """Reads a network from its file; one that is let in evaluates the start position."""
    return _evaluate(folder / "a.pb.gz", data)


def nnue_seeds(_: Path) -> list[bytes]:
    """Returns a small network of Stockfish's form, plain and packed."""
    from graphsearch.evaluators.nnue.evaluator import ARCHITECTURES

    found = MadeUp.random(ARCHITECTURES[-1], [0])
    return [found.file(packed=packed) for packed in (False, True)]


def mutate_nnue(given: list[bytes], rng: random.Random) -> bytes:
    """Returns changed bytes: mostly in the header or where a part begins, or cut."""
    data = rng.choice(given)
    if rng.random() < 0.1:
        return data
    marks = [0, data.find(PACKED), data.rfind(PACKED), len(data) - 20_000]
    begin = max(0, rng.choice(marks))
    end = begin + rng.choice((16, 64, 2000))
    out = data[:begin] + mutated(data[begin:end], rng, given) + data[end:]
    return out[: rng.randrange(len(out))] if rng.random() < 0.2 else out


def read_nnue(data: bytes, folder: Path) -> bool:
    """Reads a network from its file."""
    from graphsearch.evaluators.nnue.evaluator import read_network

    file = folder / "a.nnue"
    file.write_bytes(data)
    read_network(file)
    return True


def _evaluate(file: Path, data: bytes) -> bool:
    from graphsearch.evaluators.factory import create
    from graphsearch.evaluators.protocol import PositionBatch

    file.write_bytes(data)
    with closing(create(f"lc0:{file}", {"threads": "1"})) as evaluator:
        said = evaluator.evaluate(PositionBatch.from_boards([chess.Board()]))
    if np.isfinite(said.priors).all() and abs(float(said.priors.sum()) - 1) > 0.01:
        raise DisagreementError(f"priors of a sum of {said.priors.sum()}")
    return True


def warm() -> None:
    """Imports what reads networks; without the libraries, networks are refused by name."""
    with suppress(ImportError):
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
