"""Network files: lc0's protocol buffers, plain and compressed, ONNX models, and Stockfish's networks."""

from __future__ import annotations

import gzip
import random
from contextlib import closing, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import chess
import numpy as np

from graphsearch.evaluators.nnue.file import PACKED
from tests.support.random_lc0 import varint

from ..support.nnue import MadeUp
from ..support.random_lc0 import RandomNetwork, Shape, tower
from .files import DisagreementError
from .mutators import NUMBERS, mutated
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


def onnx_seeds(folder: Path) -> list[bytes]:
    """Returns ONNX models of small networks."""
    from graphsearch.evaluators.lc0.convert import read_network

    return [read_network(data, "a.pb").model for data in seeds(folder)]


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


def mutate_onnx(given: list[bytes], rng: random.Random) -> bytes:
    """Returns changed bytes of a model, or one with other nodes, sizes and constants before its policy."""
    import onnx

    if rng.random() < 0.3:
        return mutate(given, rng)
    model = onnx.ModelProto.FromString(rng.choice(given))
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        _change_graph(model, rng)
    data: bytes = model.SerializeToString()
    return data


KINDS = (
    "Loop", "If", "Scan", "ConstantOfShape", "Range", "Tile", "Expand", "Pad", "Reshape", "Resize", "Shape",
    "Cast", "NonZero", "Concat", "MatMul", "Identity", "Evil", "Einsum", "Unsqueeze", "ReduceSum",
)  # fmt: skip


def _change_graph(model: Any, rng: random.Random) -> None:
    graph, what = model.graph, rng.randrange(6)
    node = rng.choice(graph.node)
    if what < 3:
        _add_nodes(graph, list(graph.node).index(node) + 1, rng.choice(list(node.output)), rng)
    elif what == 3:
        rng.choice(graph.initializer).dims[:] = _sizes(rng)
    elif what == 4:
        rng.choice(graph.input[0].type.tensor_type.shape.dim).dim_value = rng.choice((*NUMBERS, 1 << 40))
    else:
        node.op_type = rng.choice(KINDS)


def _sizes(rng: random.Random) -> list[int]:
    return [rng.choice((*NUMBERS, 1 << 33)) for _ in range(rng.choice((1, 2, 4)))]


def _add_nodes(graph: Any, at: int, source: str, rng: random.Random) -> None:
    """Puts nodes behind one, which may grow; half of the time a later one takes what they make."""
    import onnx

    kind, name = rng.choice(KINDS), f"odd{rng.randrange(1 << 30)}"
    size = onnx.numpy_helper.from_array(np.array(_sizes(rng), np.int64), f"{name}/size")
    graph.initializer.append(size)
    made = [onnx.helper.make_node(kind, [source, source if kind == "MatMul" else size.name], [name])]
    if kind == "Concat":
        names = [source, *(f"{name}/{k}" for k in range(rng.choice((1, 12, 40))))]
        made = [onnx.helper.make_node(kind, [a, a], [b], axis=rng.choice((0, 1))) for a, b in pairwise(names)]
    rest = list(graph.node[at:])
    del graph.node[at:]
    graph.node.extend([*made, *rest])
    if rest and rng.random() < 0.5:
        taker = graph.node[-rng.randrange(1, len(rest) + 1)]
        taker.input[0] = made[-1].output[0]


def read(data: bytes, folder: Path) -> bool:
    """Reads a network from its file; one that is let in evaluates the start position."""
    return _evaluate(folder / "a.pb.gz", data)


def read_onnx(data: bytes, folder: Path) -> bool:
    """Reads a model from its file; one that is let in evaluates the start position."""
    return _evaluate(folder / "a.onnx", data)


def nnue_seeds(_: Path) -> list[bytes]:
    """Returns a small network of Stockfish's form, plain and packed."""
    from graphsearch.evaluators.nnue.file import ARCHITECTURES

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
    from graphsearch.evaluators.nnue.file import read_network

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
