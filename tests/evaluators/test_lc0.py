"""`lc0:FILE`: what networks answer, how files are read or refused, and searches with them."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import chess
import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from graphsearch.base.errors import EvaluatorError, InvalidParameterError
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.lc0 import session
from graphsearch.evaluators.lc0.convert import read_network
from graphsearch.evaluators.lc0.evaluator import Lc0Evaluator
from graphsearch.evaluators.lc0.planes import input_planes
from graphsearch.evaluators.lc0.policy import output_indices
from graphsearch.evaluators.lc0.session import Names, widest
from graphsearch.evaluators.protocol import PositionBatch, checked
from tests.conftest import Cli, shared_data
from tests.support.attention import Definition, policy_cell, policy_texts, softmax
from tests.support.positions import played, random_games
from tests.support.random_lc0 import RandomNetwork, Shape, data, net, number, tower, word

Floats = NDArray[np.float64]
TOLERANCE = 1e-3


def some_boards(count: int = 12) -> list[chess.Board]:
    """Returns positions of random games, either side to move."""
    return [chess.Board(board.fen()) for board in random_games(5, count, 60)]


def softmax_by_position(batch: PositionBatch, logits: Floats, temperature: float) -> Floats:
    """Returns what priors are by definition."""
    outputs = output_indices(batch)
    parts = []
    for row in range(len(batch)):
        legal = outputs[batch.offsets[row] : batch.offsets[row + 1]]
        parts.append(softmax(logits[row, legal] / temperature))
    return np.concatenate(parts)


def check_answers(evaluator: Lc0Evaluator, logits: Floats, wdl: Floats, temperature: float) -> None:
    """Asserts that an evaluator says of `some_boards` what a network does, to the tolerance."""
    batch = PositionBatch.from_boards(some_boards())
    found = checked(batch, evaluator.evaluate(batch))
    np.testing.assert_allclose(found.wdl, wdl, atol=TOLERANCE)
    np.testing.assert_allclose(found.priors, softmax_by_position(batch, logits, temperature), atol=TOLERANCE)


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


# ------------------------------------------------------------------ lc0's files
SHAPES = {
    "squeezing, convolutional, WDL": tower(4),
    "plain, classical, Q": tower(5, policy="classical", wdl=False, squeezes=False),
    "squeezing, classical, WDL": tower(4, policy="classical"),
    "plain, convolutional, Q, Mish": tower(9, wdl=False, squeezes=False, activation="mish"),
    "squeezing, Mish, one block": tower(7, activation="mish", blocks=1),
    "no blocks": tower(20, blocks=0),
    "before heads were named": tower(4, policy="classical", wdl=False, structure=2),
    "before heads were named, plain": tower(27, policy="classical", wdl=False, structure=1, squeezes=False),
    "float16": tower(21, encoding=2),
    "bfloat16": tower(4, encoding=3),
    "float32": tower(4, encoding=4),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_network_answers_what_its_weights_define(shape: str, tmp_path: Path) -> None:
    network = SHAPES[shape]
    evaluator = Lc0Evaluator(written(tmp_path / "tiny.pb.gz", network.file), temperature=1.5)
    planes = input_planes(PositionBatch.from_boards(some_boards()).words).astype(np.float64)
    logits, value = Definition(network).answer(planes)
    if not network.shape.wdl:
        value = np.stack([(1 + value[:, 0]) / 2, 0 * value[:, 0], (1 - value[:, 0]) / 2], axis=1)
    assert np.ptp(value[:, 0]) > 0.1, "a network that always says the same proves nothing"
    check_answers(evaluator, logits, value, 1.5)


def test_more_positions_than_fit_one_run_are_answered_in_parts(tmp_path: Path) -> None:
    path = written(tmp_path / "tiny.pb.gz", tower(1).file)
    batch = PositionBatch.from_boards(some_boards())
    whole = Lc0Evaluator(path).evaluate(batch)
    evaluator = Lc0Evaluator(path, most_at_once=5)
    parts, nothing = evaluator.evaluate(batch), evaluator.evaluate(batch.part(0, 0))
    assert (nothing.wdl.shape, nothing.priors.shape) == ((0, 3), (0,))
    np.testing.assert_allclose(parts.wdl, whole.wdl, atol=1e-6)
    np.testing.assert_allclose(parts.priors, whole.priors, atol=1e-6)


def test_threads_may_share_an_evaluator(tmp_path: Path) -> None:
    evaluator = Lc0Evaluator(written(tmp_path / "tiny.pb.gz", tower(1).file))
    batches = [PositionBatch.from_boards(some_boards()[n:]) for n in range(8)]
    alone = [evaluator.evaluate(batch) for batch in batches]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(evaluator.evaluate, batches * 5))
    for found, expected in zip(together, alone * 5, strict=True):
        np.testing.assert_allclose(found.priors, expected.priors, atol=1e-6)


# ------------------------------------------------------------------ ONNX models
def linear_model(
    *, policy: int = 1858, wdl: bool = True, batch: int | str = "batch", dtype: Any = np.float32
) -> tuple[onnx.ModelProto, Callable[[Floats], tuple[Floats, Floats]]]:
    """Returns a small ONNX model with lc0's names, and what it answers: linear in the means of the planes."""
    chance = np.random.default_rng(3)
    weights = {
        "p": chance.normal(0, 1, (112, policy)).astype(dtype),
        "v": chance.normal(0, 1, (112, 3 if wdl else 1)).astype(dtype),
        "scale": np.full((112, 1, 1), 1 / 16, dtype),
    }
    value = "/output/wdl" if wdl else "/output/value"
    nodes = [
        helper.make_node("Mul", ["/input/planes", "scale"], ["scaled"]),
        helper.make_node("GlobalAveragePool", ["scaled"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["means"]),
        helper.make_node("MatMul", ["means", "p"], ["/output/policy"]),
        helper.make_node("MatMul", ["means", "v"], ["raw"]),
        helper.make_node("Softmax", ["raw"], [value], axis=1)
        if wdl
        else helper.make_node("Tanh", ["raw"], [value]),
    ]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        nodes,
        "linear",
        [helper.make_tensor_value_info("/input/planes", kind, [batch, 112, 8, 8])],
        [
            helper.make_tensor_value_info("/output/policy", kind, [batch, policy]),
            helper.make_tensor_value_info(value, kind, [batch, 3 if wdl else 1]),
        ],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def answer(planes: Floats) -> tuple[Floats, Floats]:
        means = planes.mean((2, 3)) / 16
        raw = means @ weights["v"].astype(np.float64)
        logits = means @ weights["p"].astype(np.float64)
        q = np.tanh(raw[:, 0])
        return logits, softmax(raw) if wdl else np.stack([(1 + q) / 2, 0 * q, (1 - q) / 2], axis=1)

    return model, answer


@pytest.mark.parametrize(
    "options", [{}, {"wdl": False}, {"policy": 80 * 64}, {"batch": 5}, {"batch": 64}, {"dtype": np.float16}]
)
def test_an_onnx_model_is_run_as_it_is(options: dict[str, Any], tmp_path: Path) -> None:
    model, answer = linear_model(**options)
    evaluator = Lc0Evaluator(written(tmp_path / "x.onnx", model.SerializeToString()), temperature=0.5)
    planes = input_planes(PositionBatch.from_boards(some_boards()).words).astype(np.float64)
    logits, wdl = answer(planes)
    if options.get("policy"):  # a convolutional head as it comes
        logits = logits[:, [plane * 64 + square for plane, square in map(policy_cell, policy_texts())]]
    check_answers(evaluator, logits, wdl, 0.5)


def test_an_onnx_model_inside_an_lc0_file_is_run_by_the_names_that_the_file_gives(tmp_path: Path) -> None:
    model, answer = linear_model()
    names = {"/input/planes": "in", "/output/policy": "out/p", "/output/wdl": "out/w"}
    for node in (*model.graph.node, *model.graph.input, *model.graph.output):
        for part in ("input", "output"):
            for i, name in enumerate(getattr(node, part, ())):
                getattr(node, part)[i] = names.get(name, name)
        node.name = names.get(node.name, node.name)
    wrapped = data(1, model.SerializeToString()) + data(3, b"in") + data(5, b"out/w") + data(6, b"out/p")
    content = net(tower().format(network=5, policy=1), data(11, wrapped), version=(0, 28, 0))
    evaluator = Lc0Evaluator(written(tmp_path / "wrapped.pb.gz", gzip.compress(content)))
    planes = input_planes(PositionBatch.from_boards(some_boards()).words).astype(np.float64)
    check_answers(evaluator, *answer(planes), 1.359)


# ------------------------------------------------------------------ a real network
@pytest.mark.parametrize("name", ["maia-1900.pb.gz", "maia-1900.onnx"])
@pytest.mark.parametrize(("history", "count"), [("position", 100), ("line", 150)])
def test_maia_answers_as_the_reference_does(name: str, history: str, count: int) -> None:
    options = {"PolicyTemperature": "1", "history": history}
    evaluator = create(f"lc0:{shared_data(f'nets/{name}')}", options)
    with gzip.open(shared_data("golden/maia-1900_outputs.jsonl.gz"), "rt") as handle:
        cases = [case for case in map(json.loads, handle) if history == "line" or not case["moves"]]
    assert len(cases) == count
    batch = PositionBatch.from_boards(
        [played(case["start_fen"], case["moves"]) for case in cases], with_lines=True
    )
    found = checked(batch, evaluator.evaluate(batch))
    np.testing.assert_allclose(found.wdl, [case["wdl"] for case in cases], atol=TOLERANCE)
    for row, ((_, moves), case) in enumerate(zip(batch.boards(), cases, strict=True)):
        p = found.priors[batch.offsets[row] : batch.offsets[row + 1]]
        assert {move.uci() for move in moves} == set(case["policy"])
        np.testing.assert_allclose(p, [case["policy"][move.uci()] for move in moves], atol=TOLERANCE)


# ------------------------------------------------------------------ files that are refused
def tiny_net(
    *, content: bytes | None = None, version: tuple[int, int, int] = (0, 21, 0), **form: int
) -> bytes:
    tiny = tower(1)
    return net(tiny.format(**form), tiny.content if content is None else content, version=version)


def bad_files() -> dict[str, tuple[bytes, tuple[str, ...]]]:
    """Returns files with what is said of them."""
    good = tower(1)
    return {
        "empty": (b"", ("not an Lc0 network", "0x1c0", "none")),
        "a text": (b"Dear reader, this is no network.", ("not an Lc0 network", "download")),
        "truncated": (good.file[:-3000], ("damaged", "gzip", "download")),
        "a wrong checksum": (good.file[:-8] + bytes(4) + good.file[-4:], ("damaged", "that CRC check")),
        "no gzip inside": (b"\x1f\x8b" + b"\7" * 100, ("damaged", "gzip")),
        "a flipped bit": (good.file[:500] + b"\xff" + good.file[501:], ("damaged",)),
        "truncated, then packed": (
            gzip.compress(good.message[:-1000]),
            ("not an Lc0 network", "bytes", "download"),
        ),
        "a text format": (gzip.compress(b"2\n0.1 0.2\n"), ("text format", ".pb.gz")),
        "another magic": (gzip.compress(word(1, 0x1C1)), ("magic number 0x1c0", "0x1c1")),
        "a number for the weights": (
            net(good.format(), number(10, 3)),
            ("not an Lc0 network", "field 10 is a number"),
        ),
        "a later version": (tiny_net(version=(0, 99, 1)), ("needs lc0 0.99.1", "0.33")),
        "another encoding": (net(number(1, 7), b""), ("encoding 7", "LINEAR16")),
        "no planes": (tiny_net(input=0), ("input format is 0", "INPUT_112_WITH_CANONICALIZATION_V2")),
        "unknown planes": (tiny_net(input=77), ("input format is 77", "INPUT_CLASSICAL_112_PLANE")),
        "a transformer without attention": (tiny_net(network=6), ("the input embedding has 0 numbers",)),
        "no attention policy": (tiny_net(policy=3), ("the policy head's embedding has 0 numbers",)),
        "an odd policy head": (tiny_net(policy=4), ("policy head is 4", "POLICY_ATTENTION")),
        "an odd value head": (tiny_net(value=3), ("VALUE_PARAM", "VALUE_WDL")),
        "an odd activation": (tiny_net(activation=9), ("activation is 9", "MISH")),
        "no weights": (tiny_net(content=b""), ("input convolution has 0 numbers",)),
        "another policy head": (tiny_net(policy=1), ("policy head's convolution has 4320 numbers",)),
        "another value head": (tiny_net(value=1), ("last layer has 3 numbers, expected 1",)),
        "no model inside": (tiny_net(network=5), ("says that it holds an ONNX model",)),
        "no sound model inside": (
            tiny_net(network=5, content=data(11, data(1, b"nonsense"))),
            ("cannot be loaded", "ONNX"),
        ),
        "half a number": (
            net(good.format(), data(10, data(1, data(1, data(3, b"123"))))),
            ("input convolution has 3 bytes", "multiple of 2"),
        ),
        "an unknown layer": (
            net(good.format(), data(10, data(1, data(1, number(4, 9) + data(3, b"1234"))))),
            ("input convolution has the encoding 9",),
        ),
        "weights without end": (
            net(good.format(), data(10, data(1, data(1, number(4, 4) + data(3, b"\0\0\x80\x7f"))))),
            ("input convolution has weights that are not finite numbers",),
        ),
    }


def check_refused(path: Path, words: tuple[str, ...]) -> None:
    with pytest.raises(EvaluatorError) as refused:
        create(f"lc0:{path}")
    text = str(refused.value)
    assert path.name in text
    assert "\n" not in text
    for expected in words:
        assert expected in text, text


def test_a_bad_file_is_refused_in_one_line(tmp_path: Path) -> None:
    for content, words in bad_files().values():
        check_refused(written(tmp_path / "bad.pb.gz", content), words)
    check_refused(tmp_path / "none.pb.gz", ("No such file",))
    check_refused(tmp_path / ".", ("directory",))


def test_an_onnx_model_of_another_form_is_refused(tmp_path: Path) -> None:
    changes: tuple[tuple[Callable[[Any], object], tuple[str, ...]], ...] = (
        (lambda graph: graph.input[0].ClearField("name"), ("not a network",)),
        (lambda graph: graph.output.pop(), ("expected outputs", "/output/wdl", "found /output/policy")),
        (lambda graph: graph.output.pop(0), ("expected outputs", "found /output/wdl")),
        (
            lambda graph: graph.input[0].type.tensor_type.shape.dim.pop(),
            ("expected one input /input/planes", "found /input/planes [batch, 112, 8]"),
        ),
    )
    for change, words in changes:
        model, _ = linear_model()
        change(model.graph)
        check_refused(written(tmp_path / "bad.onnx", model.SerializeToString()), words)
    odd = linear_model(policy=4288)[0].SerializeToString()
    check_refused(written(tmp_path / "bad.onnx", odd), ("1858", "4288"))
    for content in (b"nonsense", b""):
        check_refused(written(tmp_path / "bad.onnx", content), ("cannot be loaded", "ONNX"))


@pytest.mark.parametrize("package", ["onnxruntime", "onnx"])
def test_a_missing_package_is_named_with_what_installs_it(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "tiny.pb.gz", tower(1).file)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(EvaluatorError, match=rf"{package} .*pip install '\.\[lc0\]'"):
        create(f"lc0:{path}")


# ------------------------------------------------------------------ options and identity
@pytest.fixture
def tiny_file(tmp_path: Path) -> Path:
    return written(tmp_path / "tiny.pb.gz", tower(1).file)


def test_the_identity_is_the_file_the_fill_and_the_temperature(tiny_file: Path, tmp_path: Path) -> None:
    identity = create(f"lc0:{tiny_file}").identity
    copy = shutil.copy(tiny_file, tmp_path / "copy.pb.gz")
    assert identity.kind == "lc0"
    assert len(identity.digest) == 64
    options = {"HistoryFill": "fen_only", "PolicyTemperature": 1.359}
    assert dict(identity.options) == {**options, "history": "line"}
    assert dict(create(f"lc0:{tiny_file}", {"history": "position"}).identity.options) == options
    assert create(f"lc0:{copy}", {"threads": "1", "device": "CPU"}).identity == identity
    assert create(f"lc0:{tiny_file}", {"PolicyTemperature": "1"}).identity != identity
    other = written(tmp_path / "other.pb.gz", tower(2).file)
    assert create(f"lc0:{other}").identity.digest != identity.digest


def test_an_option_out_of_range_is_refused(tiny_file: Path) -> None:
    for name, value in (("threads", "-1"), ("threads", "9999999"), ("PolicyTemperature", "0")):
        with pytest.raises(InvalidParameterError, match=name):
            create(f"lc0:{tiny_file}", {name: value})
    with pytest.raises(EvaluatorError, match=r"no device 'abacus', only .*cpu"):
        create(f"lc0:{tiny_file}", {"device": "abacus"})


class BrokenGpu:
    """An onnxruntime that has a GPU and cannot use it: it fails, or goes to the CPU without a word."""

    __version__ = onnxruntime.__version__
    SessionOptions = onnxruntime.SessionOptions
    RunOptions = onnxruntime.RunOptions
    set_default_logger_severity = staticmethod(onnxruntime.set_default_logger_severity)

    def __init__(self, *, fails: bool) -> None:
        self.fails = fails

    def get_available_providers(self) -> list[str]:
        return ["CUDAExecutionProvider", "CPUExecutionProvider"]

    def InferenceSession(self, model: bytes, options: Any, *, providers: list[str], **more: Any) -> Any:
        assert more == {"enable_fallback": 0}
        if providers[0] == "CUDAExecutionProvider" and self.fails:
            raise RuntimeError("no driver\nin many lines")
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("fails", [True, False])
def test_a_gpu_that_fails_is_said_so_and_refused_if_it_was_asked_for(
    fails: bool, cli: Cli, tiny_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", BrokenGpu(fails=fails))
    outcome = cli("evaluate", "startpos", "--evaluator", f"lc0:{tiny_file}")
    outcome.ends(0, str(tiny_file), "cannot be run on cuda", "runs on cpu")
    assert outcome.err.startswith("note: ")
    assert ("no driver" in outcome.err) == fails
    on_cpu = ("--evaluator", f"lc0:{tiny_file}", "--evaluator-option", "device=cpu")
    assert cli("evaluate", "startpos", *on_cpu).err == ""
    with pytest.raises(EvaluatorError, match=r"cannot be run on cuda.* leave out device=cuda"):
        create(f"lc0:{tiny_file}", {"device": "cuda"})


class WorkingGpu(BrokenGpu):
    """An onnxruntime whose CPU calls itself a GPU, and that notes the sizes of batches."""

    def __init__(self) -> None:
        super().__init__(fails=False)
        self.sizes: list[int] = []
        self.has_libraries = False

    def preload_dlls(self) -> None:
        sys.stdout.write("found them")
        self.has_libraries = True

    def InferenceSession(self, model: bytes, options: Any, *, providers: list[str], **more: Any) -> Any:
        session = super().InferenceSession(model, options, providers=providers, **more)

        def run(outputs: Any, inputs: dict[str, Any], *rest: Any) -> Any:
            self.sizes += [len(planes) for planes in inputs.values()]
            return session.run(outputs, inputs, *rest)

        get = (session.get_inputs, session.get_outputs)
        found = SimpleNamespace(get_inputs=get[0], get_outputs=get[1], run=run)
        found.get_providers = lambda: providers
        return found


def test_a_gpu_gets_batches_of_few_sizes_and_says_the_same(
    tiny_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    boards = random_games(3, 70, 40)
    on_cpu = create(f"lc0:{tiny_file}").evaluate(PositionBatch.from_boards(boards))
    gpu = WorkingGpu()
    monkeypatch.setitem(sys.modules, "onnxruntime", gpu)
    evaluator = create(f"lc0:{tiny_file}")
    for count in (1, 3, 33, 65, 70):
        found = evaluator.evaluate(PositionBatch.from_boards(boards[:count]))
        np.testing.assert_allclose(found.wdl, on_cpu.wdl[:count], atol=1e-5)
    assert gpu.sizes == [1, 1, 4, 64, 128, 128]
    assert gpu.has_libraries
    assert capsys.readouterr().out == ""


# ------------------------------------------------------------------ searches


# ------------------------------------------------------------------ the command line
def test_the_commands_take_a_network(cli: Cli, tiny_file: Path, tmp_path: Path) -> None:
    evaluator = ["--evaluator", f"lc0:{tiny_file}", "--param", "policytemperature=1"]
    evaluator += ["--evaluator-option", "Device=cpu"]
    said = cli("evaluate", "startpos", *evaluator, "--json").json
    assert sum(said["priors"].values()) == pytest.approx(1, abs=1e-5)
    path = tmp_path / "a.graph"
    done = cli("analyze", "startpos", "--visits", 20, *evaluator, "--store", path)
    done.ends(0, f"--evaluator lc0:{tiny_file}", "--param policytemperature=1")
    assert cli("store", "info", path, "--json").json["evaluator"]["kind"] == "lc0"
    refused = cli("analyze", "startpos", "--visits", 1, "--evaluator", f"lc0:{tiny_file}", "--store", path)
    refused.ends(1, "PolicyTemperature 1.0 there, 1.359 here")


# ------------------------------------------------------------------ models that grow or never end
FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL


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
        helper.make_node("Flatten", ["/input/planes"], ["flat"]),
        helper.make_node("MatMul", ["flat", "policy/first"], ["narrow"]),
        helper.make_node("MatMul", ["narrow", "policy/weights"], ["policy"]),
        helper.make_node("MatMul", ["flat", "value/weights"], ["/output/wdl"]),
    ]
    extra = [
        helper.make_node("ReduceSum", ["grown"], ["sum"], keepdims=0),
        helper.make_node("Mul", ["sum", "zero"], ["nothing"]),
    ]
    last = [helper.make_node("Add" if nodes else "Identity", ["policy", *(["nothing"] if nodes else [])],
                             ["/output/policy"])]  # fmt: skip
    graph = helper.make_graph(
        [*tail, *nodes, *(extra if nodes else []), *last],
        "odd",
        [helper.make_tensor_value_info("/input/planes", FLOAT, [batch, 112, 8, 8])],
        [
            helper.make_tensor_value_info("/output/policy", FLOAT, [batch, 1858]),
            helper.make_tensor_value_info("/output/wdl", FLOAT, [batch, 3]),
        ],
        [numpy_helper.from_array(value, name) for name, value in every.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, **more)
    found: bytes = made.SerializeToString()
    return found


def doubling(count: int, first: str) -> Nodes:
    names = [first, *(f"d{k}" for k in range(count - 1)), "grown"]
    return [helper.make_node("Concat", [a, a], [b], axis=0) for a, b in pairwise(names)]


def loop() -> Nodes:
    body = helper.make_graph(
        [helper.make_node("Identity", ["on"], ["on_out"]), helper.make_node("Add", ["x", "x"], ["x_out"])],
        "body",
        [
            helper.make_tensor_value_info("i", INT64, []),
            helper.make_tensor_value_info("on", BOOL, []),
            helper.make_tensor_value_info("x", FLOAT, [1]),
        ],
        [
            helper.make_tensor_value_info("on_out", BOOL, []),
            helper.make_tensor_value_info("x_out", FLOAT, [1]),
        ],
    )
    return [helper.make_node("Loop", ["", "yes", "zero"], ["grown"], body=body)]


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
    return helper.make_node(kind, inputs.split(), [output], **more)


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


LARGE = "the limit is 16,777,216"
ODD: dict[str, tuple[Callable[[], bytes], str]] = {
    "an endless loop": (lambda: model(loop(), {"yes": np.array(True)}), "operator Loop"),
    "a constant of a given shape": (
        lambda: one("ConstantOfShape", "size", size=[10**9]),
        "operator ConstantOfShape",
    ),
    "a range": (lambda: one("Range", "a b c", a=0, b=10**9, c=1), "operator Range"),
    "an operator of others": (
        lambda: model([node("Evil", "flat", domain="com.microsoft")]),
        "operator com.microsoft.Evil",
    ),
    "a doubling concat": (lambda: model(doubling(40, "flat")), LARGE),
    "doubling lists of sizes": (
        lambda: model([node("Shape", "flat", "s"), *doubling(30, "s")]),
        "list of",
    ),
    "an expansion": (lambda: one("Expand", "zero size", size=[10**9]), LARGE),
    "a padding": (lambda: one("Pad", "flat size", size=[0, 10**9, 0, 0]), LARGE),
    "big products": (products, "multiplications"),
    "many nodes": (many_nodes, "nodes, the limit is 20,000"),
    "a size that the input decides": (size_of_the_input, "is not known"),
    "a fixed batch without end": (lambda: model([], batch=1 << 40), "a batch of 1,099,511,627,776"),
    "a constant in another file": (external, "another file"),
    "a constant that promises more than there is": (promised, "has the size"),
}


@pytest.mark.parametrize("name", ODD)
def test_a_model_that_grows_or_never_ends_is_refused_before_it_is_loaded(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*_: object) -> None:
        raise AssertionError("it was loaded")

    monkeypatch.setattr(session, "_load", load)
    made, word = ODD[name]
    path = written(tmp_path / "odd.onnx", made())
    with pytest.raises(EvaluatorError) as refused:
        create(f"lc0:{path}")
    assert word in str(refused.value)
    assert len(str(refused.value)) < 500
    assert "\n" not in str(refused.value)


def test_a_plain_model_is_allowed_whatever_its_batch(tmp_path: Path) -> None:
    for batch in ("batch", 1, 8):
        content = model([], batch=batch)
        assert widest(content, "it", Names()) == 112 * 64
    create(f"lc0:{written(tmp_path / 'plain.onnx', content)}").close()


def test_sizes_that_the_batch_decides_are_known() -> None:
    """`lc0 leela2onnx` expands the codes of squares to the batch so."""
    nodes = [
        helper.make_node("Shape", ["flat"], ["whole"]),
        helper.make_node("Slice", ["whole", "from", "to"], ["first"]),
        helper.make_node("Concat", ["first", "rest"], ["shape"], axis=0),
        helper.make_node("Expand", ["codes", "shape"], ["grown"]),
    ]
    constants = {
        "from": np.array([0], np.int64),
        "to": np.array([1], np.int64),
        "rest": np.array([64, 64], np.int64),
        "codes": np.zeros((1, 64, 64), np.float32),
    }
    assert widest(model(nodes, constants), "it", Names()) == 112 * 64


SMALL = Shape(encoders=1, width=4, inner=4, feed=4, smolgen=2, policy_encoders=1, input=3)
CONVERTED = {
    "convolutions": tower().message,
    "a dense policy": tower(1, policy="classical", wdl=False).message,
    "mish": tower(2, activation="mish").message,
    "attention": RandomNetwork(SMALL).message,
    "several heads": RandomNetwork(replace(SMALL, embedding="dense", several=True)).message,
}


@pytest.mark.parametrize("name", CONVERTED)
def test_what_this_program_converts_is_allowed(name: str) -> None:
    found = read_network(CONVERTED[name], "tiny")
    assert 64 * 3 <= widest(found.model, "it", Names()) < 64 * 64 * 64


def test_a_network_of_lc0_is_allowed() -> None:
    assert widest(shared_data("nets/maia-1900.onnx").read_bytes(), "maia", Names()) == 80 * 64


def test_a_first_run_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class AtOnce:
        def __init__(self, _: float, late: Callable[[], object]) -> None:
            self.start, self.daemon = late, False

        def cancel(self) -> None:
            """Nothing runs."""

    monkeypatch.setattr(threading, "Timer", AtOnce)
    path = written(tmp_path / "plain.onnx", model([]))
    with pytest.raises(EvaluatorError, match="takes more than 300 seconds; GRAPHSEARCH_MAX_FIRST_RUN"):
        create(f"lc0:{path}")
