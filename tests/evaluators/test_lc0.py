"""`lc0:FILE`: what networks answer, how files are read or refused, and searches with them."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import chess
import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from graphsearch.base.errors import EvaluatorError, InvalidParameterError
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.lc0 import evaluator as module
from graphsearch.evaluators.lc0.evaluator import Lc0Evaluator
from graphsearch.evaluators.lc0.planes import input_planes, output_indices
from graphsearch.evaluators.protocol import PositionBatch, checked
from tests.conftest import Cli, shared_data
from tests.support.attention import Definition, softmax
from tests.support.positions import played, random_games
from tests.support.random_lc0 import data, net, number, tower

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


def test_more_positions_than_fit_one_run_are_answered_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "tiny.pb.gz", tower(1).file)
    batch = PositionBatch.from_boards(some_boards())
    whole = Lc0Evaluator(path).evaluate(batch)
    monkeypatch.setattr(module, "MOST_AT_ONCE", 5)
    evaluator = Lc0Evaluator(path)
    parts, nothing = evaluator.evaluate(batch), evaluator.evaluate(batch.part(0, 0))
    assert (nothing.wdl.shape, nothing.priors.shape) == ((0, 3), (0,))
    np.testing.assert_allclose(parts.wdl, whole.wdl, atol=1e-6)
    np.testing.assert_allclose(parts.priors, whole.priors, atol=1e-6)


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
        "a wrong checksum": (good.file[:-8] + bytes(4) + good.file[-4:], ("damaged", "CRC check")),
        "no gzip inside": (b"\x1f\x8b" + b"\7" * 100, ("damaged", "gzip")),
        "a flipped bit": (good.file[:500] + b"\xff" + good.file[501:], ("damaged",)),
        "a number for the weights": (
            net(good.format(), number(10, 3)),
            ("not an Lc0 network", "field 10 has the wire type 0"),
        ),
        "a later version": (tiny_net(version=(0, 99, 1)), ("needs lc0 0.99.1", "0.33")),
        "another encoding": (net(number(1, 7), b""), ("encoding of the weights is 7", "0, 1")),
        "unknown planes": (tiny_net(input=77), ("input format is 77", "1, 2, 3")),
        "no attention policy": (tiny_net(policy=3), ("/policy/embedding has 0 numbers",)),
        "an odd policy head": (tiny_net(policy=4), ("policy head is 4", "1, 2, 3")),
        "no weights": (tiny_net(content=b""), ("/stem/conv has 0 numbers",)),
        "another policy head": (tiny_net(policy=1), ("/policy/conv1 has 4320 numbers",)),
        "an ONNX model inside": (tiny_net(network=5), ("structure is 5", "1, 2, 3, 4, 6")),
        "weights without end": (
            net(good.format(), data(10, data(1, data(1, number(4, 4) + data(3, b"\0\0\x80\x7f"))))),
            ("/stem/conv has weights that are not finite numbers",),
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

        return SimpleNamespace(run=run, get_providers=lambda: providers)


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
    assert gpu.sizes == [1, 4, 64, 128, 128]
    assert gpu.has_libraries
    assert capsys.readouterr().out == ""


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
