"""`.onnx` files: what lc0 writes is let in, what grows or never ends is refused before it is loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from graphsearch.base.errors import EvaluatorError
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.lc0 import evaluator
from graphsearch.evaluators.lc0.network import read_exported

FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
info, make_node = helper.make_tensor_value_info, helper.make_node


Nodes = list[Any]
Constants = dict[str, Any]


def model(nodes: Nodes, constants: Constants | None = None, *, batch: Any = "batch", **more: Any) -> bytes:
    """Returns a network of the right form whose policy comes through `grown`, which the nodes make."""
    every: Constants = {
        "policy/first": np.zeros((112 * 64, 1), np.float32),
        "policy/weights": np.zeros((1, 1858), np.float32),
        "value/weights": np.zeros((112 * 64, 3), np.float32),
        "axes": np.array([1], np.int64),
        "zero": np.zeros(1, np.float32),
    } | (constants or {})
    tail = [
        make_node("Flatten", ["/input/planes"], ["flat"]),
        make_node("MatMul", ["flat", "policy/first"], ["narrow"]),
        make_node("MatMul", ["narrow", "policy/weights"], ["policy"]),
        make_node("MatMul", ["flat", "value/weights"], ["/output/wdl"]),
    ]
    extra = [
        make_node("ReduceSum", ["grown"], ["sum"], keepdims=0),
        make_node("Mul", ["sum", "zero"], ["nothing"]),
    ]
    last = [make_node("Add" if nodes else "Identity", ["policy", *(["nothing"] if nodes else [])],
                             ["/output/policy"])]  # fmt: skip
    graph = helper.make_graph(
        [*tail, *nodes, *(extra if nodes else []), *last],
        "odd",
        [info("/input/planes", FLOAT, [batch, 112, 8, 8])],
        [
            info("/output/policy", FLOAT, [batch, 1858]),
            info("/output/wdl", FLOAT, [batch, 3]),
        ],
        [numpy_helper.from_array(value, name) for name, value in every.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, **more)
    found: bytes = made.SerializeToString()
    return found


def doubling(count: int, first: str) -> Nodes:
    names = [first, *(f"d{k}" for k in range(count - 1)), "grown"]
    return [make_node("Concat", [a, a], [b], axis=0) for a, b in pairwise(names)]


def loop() -> Nodes:
    body = helper.make_graph(
        [make_node("Identity", ["on"], ["on_out"]), make_node("Add", ["x", "x"], ["x_out"])],
        "body",
        [
            info("i", INT64, []),
            info("on", BOOL, []),
            info("x", FLOAT, [1]),
        ],
        [
            info("on_out", BOOL, []),
            info("x_out", FLOAT, [1]),
        ],
    )
    return [make_node("Loop", ["", "yes", "zero"], ["grown"], body=body)]


def external() -> bytes:
    made = onnx.ModelProto.FromString(model([]))
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")
    found: bytes = made.SerializeToString()
    return found


def promised() -> bytes:
    made = onnx.ModelProto.FromString(model([]))
    made.graph.initializer[0].dims[:] = [1 << 20, 1 << 20]
    found: bytes = made.SerializeToString()
    return found


def node(kind: str, inputs: str, output: str = "grown", **more: Any) -> Any:
    return make_node(kind, inputs.split(), [output], **more)


def one(kind: str, inputs: str, **constants: Any) -> bytes:
    """Returns a network with one odd node; constants are arrays of integers."""
    return model([node(kind, inputs)], {name: np.array(value, np.int64) for name, value in constants.items()})


def products() -> bytes:
    nodes = [node("Expand", "zero size", "m0"), node("Identity", "m9")]
    nodes[1:1] = [node("MatMul", f"m{k} m{k}", f"m{k + 1}") for k in range(9)]
    return model(nodes, {"size": np.array([4096, 4096], np.int64)})


def many_nodes() -> bytes:
    names = ["zero", *(f"i{k}" for k in range(30_000)), "grown"]
    return model([node("Identity", a, b) for a, b in pairwise(names)])


def size_of_the_input() -> bytes:
    nodes = [node("ReduceSum", "flat", "f", keepdims=0), node("Cast", "f", "n", to=INT64)]
    return model([*nodes, node("Reshape", "n axes", "shape"), node("Expand", "zero shape")])


def odd_models() -> Iterator[tuple[bytes, str]]:
    """Yields models that grow or never end, with what is said of them."""
    large = "the limit is 16,777,216"
    yield model(loop(), {"yes": np.array(True)}), "operator Loop"
    yield one("ConstantOfShape", "size", size=[10**9]), "operator ConstantOfShape"
    yield one("Range", "a b c", a=0, b=10**9, c=1), "operator Range"
    yield model([node("Evil", "flat", domain="com.microsoft")]), "operator com.microsoft.Evil"
    yield model(doubling(40, "flat")), large
    yield model([node("Shape", "flat", "s"), *doubling(30, "s")]), "list of"
    yield one("Expand", "zero size", size=[10**9]), large
    yield one("Pad", "flat size", size=[0, 10**9, 0, 0]), large
    yield products(), "multiplications"
    yield many_nodes(), "nodes, the limit is 20,000"
    yield size_of_the_input(), "is not known"
    yield external(), "another file"
    yield promised(), "has the size"


def refusal(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(EvaluatorError) as refused:
        create(f"lc0:{path}")
    text = str(refused.value)
    assert len(text) < 600
    assert "\n" not in text
    return text


def test_a_model_that_grows_or_never_ends_is_refused_before_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(evaluator, "load")
    for content, word in odd_models():
        assert word in refusal(tmp_path / "odd.onnx", content)


def test_a_model_of_another_form_is_refused(tmp_path: Path) -> None:
    changes: tuple[tuple[Callable[[Any], object], str], ...] = (
        (lambda graph: graph.input[0].ClearField("name"), "not a network"),
        (lambda graph: graph.output.pop(), "/output/value [batch, 1], found"),
        (lambda graph: graph.output.pop(0), "expected /input/planes [batch, 112, 8, 8]"),
        (lambda graph: graph.input[0].type.tensor_type.shape.dim.pop(), "its shapes are at odds"),
    )
    for change, word in changes:
        made = onnx.ModelProto.FromString(model([]))
        change(made.graph)
        assert word in refusal(tmp_path / "bad.onnx", made.SerializeToString())
    for content in (b"nonsense", b""):
        assert "ONNX" in refusal(tmp_path / "bad.onnx", content) or not content
    for kind, inputs in (("MatMul", "flat"), ("Conv", "flat"), ("MatMul", "")):  # `zero` is a constant, too
        lacking = model([node(kind, inputs, "zero"), node("Identity", "flat")])
        assert "bad.onnx" in refusal(tmp_path / "bad.onnx", lacking)
    with pytest.raises(EvaluatorError, match="name no head"):
        create(f"lc0:{tmp_path / 'bad.onnx'}", {"policy_head": "soft"})


def test_sizes_that_the_batch_decides_are_known() -> None:
    """`lc0 leela2onnx` expands the codes of squares to the batch so."""
    nodes = [
        make_node("Shape", ["flat"], ["whole"]),
        make_node("Slice", ["whole", "from", "to"], ["first"]),
        make_node("Concat", ["first", "rest"], ["shape"], axis=0),
        make_node("Expand", ["codes", "shape"], ["grown"]),
    ]
    constants = {
        "from": np.array([0], np.int64),
        "to": np.array([1], np.int64),
        "rest": np.array([64, 64], np.int64),
        "codes": np.zeros((1, 64, 64), np.float32),
    }
    assert read_exported(model(nodes, constants), "it").widest == 112 * 64
