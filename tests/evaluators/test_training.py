"""The tools that make the networks: what is dealt and learned, and a file that the evaluator reads.

What is compiled there runs uncompiled here: that takes seconds, and compiling it would take a minute. JAX may
be missing.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest

from graphsearch.evaluators.builtin.evaluation_kernel import MOST_FEATURES
from graphsearch.evaluators.builtin.evaluator import read_networks
from graphsearch.evaluators.builtin.layout import CLASSES, FEATURES
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.nnue.evaluation_kernel import area_words
from graphsearch.evaluators.nnue.evaluator import ARCHITECTURES
from graphsearch.evaluators.nnue.layout import WIDTH
from graphsearch.evaluators.protocol import PositionBatch
from graphsearch.evaluators.quiescence_kernel import STACK_WORDS
from graphsearch.jit.pointers import ptr
from graphsearch.position.board import encode_move, pack, unpack
from graphsearch.position.tables import load_tables
from tests.evaluators import test_networks as plain
from tests.support.nnue import MadeUp, scores
from tests.support.plain import in_plain_python
from tools.training import games_kernel
from tools.training.__main__ import main
from tools.training.dealing import Dealer, sharpened, starts, with_starts
from tools.training.games_kernel import (
    LABEL,
    LEAST_MEMBERS,
    MOST_MEMBERS,
    MOST_SCORE,
    SIGN,
    LessonArrays,
    describe_moves,
)
from tools.training.networks import State, rounded, unrounded, write_networks

needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("network") / "a.nnue"
    path.write_bytes(MadeUp.random(ARCHITECTURES[-1]).file(packed=False))
    return f"nnue:{path}"


def dealer(teacher: str) -> Dealer:
    """Returns a dealer of two games, whose lessons are the games' own positions."""
    vars(games_kernel)["ENDED_DECIDED"] = vars(games_kernel)["ENDED_FEW"] = 0.0
    evaluator: Any = create(teacher)
    return Dealer(evaluator.weights, starts(2, 7, ()), 2, 1.0)


# ------------------------------------------------------------------ deals
def dealt(teacher: str) -> dict[str, Any]:
    """Returns what tests ask of dealt groups and lessons."""
    vars(games_kernel)["OFF"] = 0.0
    some = dealer(teacher)
    groups, lessons = some.deal(1)
    there = groups.targets[..., SIGN] != 0
    again = dealer(teacher).deal(1)
    evaluator: Any = create(teacher)
    games = [unpack(words.tolist()) for words in some.games.words]
    priors = evaluator.evaluate(PositionBatch.from_boards(games)).priors.tolist()
    return {
        "sizes": there.sum(1).tolist(),
        "in order": bool((np.diff(there.astype(int), axis=1) <= 0).all()),
        "labels": groups.targets[there][:, LABEL].tolist(),
        "alone": static_labels(evaluator.weights, some.leaves[there]),
        "seen": views(groups.features[there]),
        "expected": expected_views(some.leaves[there]),
        "hints": bool((np.abs(groups.hints[there]).max(1) > 0).all() and not groups.hints[~there].any()),
        "again": all(bool((a == b).all()) for a, b in zip(groups, again[0], strict=True)),
        "lessons": lessons.targets[lessons.classes < CLASSES].tolist(),
        "priors": priors,
    }


def static_labels(weights: Any, words: Any) -> list[int]:
    """Returns what a network says of positions without a search, in 1/361 of a pawn."""
    scratch = np.zeros(STACK_WORDS + area_words(int(weights[WIDTH])), np.uint64)
    window, out = np.zeros(2, np.int64), np.zeros(len(words), np.int64)
    scores(load_tables(), weights, words.reshape(-1).copy(), window, out, scratch)
    return [int(x) for x in np.clip(out * 361 // 1000, -MOST_SCORE, MOST_SCORE)]


def views(features: Any) -> list[list[int]]:
    return [sorted(view[view < FEATURES].tolist()) for member in features for view in member]


def expected_views(words: Any) -> list[list[int]]:
    boards = [unpack([*position[:9].tolist(), 0]) for position in words]
    return [sorted(plain.features(board, side)) for board in boards for side in (board.turn, not board.turn)]


def test_members_of_groups_are_quiet_and_lessons_have_the_priors_of_the_teacher(teacher: str) -> None:
    found = in_plain_python(dealt, teacher)
    assert all(LEAST_MEMBERS <= size <= MOST_MEMBERS for size in found["sizes"])
    assert found["in order"]
    close = [abs(a - b) <= 1 for a, b in zip(found["labels"], found["alone"], strict=True)]
    assert np.mean(close) > 0.9  # the line of another may end in a stalemate
    assert found["seen"] == found["expected"]
    assert found["hints"]
    assert found["again"]
    assert found["lessons"] == pytest.approx(found["priors"], abs=1e-6)


def test_games_begin_from_legal_positions_of_all_kinds(tmp_path: Path) -> None:
    found = starts(60, 2, [[chess.Move.from_uci("e2e4")]])
    boards = [unpack(words.tolist()) for words in found.words]
    assert all(board.is_valid() and any(board.legal_moves) for board in boards)
    assert set(found.ply.tolist()) >= {0, 1}
    assert found.ply.max() >= 60
    path = tmp_path / "open.fen"
    path.write_text("8/5k2/8/8/8/8/3PK3/8 w - - 0 60\n\n", encoding="utf-8")
    both = with_starts(path, found)
    assert (len(both.ply), both.ply[-1]) == (61, 118)


# ------------------------------------------------------------------ networks
def test_a_state_begun_from_networks_packs_to_the_same_networks(tmp_path: Path) -> None:
    state, file, again = (tmp_path / name for name in ("state.npz", "networks.bin", "again.bin"))
    made = State.new((64, 64), seed=3).networks
    networks = rounded(made["value"], made["policy"], {"stages": [{"name": "value"}]})
    write_networks(file, networks)
    State.of(file).write(state)
    assert State.read(state).stages == [{"name": "value"}]
    assert main(["pack", str(again), str(state)]) == 0
    packed = read_networks(again.read_bytes())
    assert (packed.widths, packed.card["stages"]) == ((64, 64), [{"name": "value"}])
    for name, array in networks.arrays.items():
        np.testing.assert_allclose(packed.arrays[name], array, atol=1, rtol=1e-3)


def answers() -> dict[str, Any]:
    """Returns scores and logits of positions by JAX, and those by NumPy."""
    import jax.numpy as jnp

    from tools.training import learning

    networks = unrounded(plain.NETWORKS)
    boards = plain.boards_of_games()[:8]
    features = jnp.array([[padded(plain.features(b, side)) for side in (b.turn, not b.turn)] for b in boards])
    stacks = jnp.array([(len(board.piece_map()) - 1) // 4 for board in boards])
    outputs = np.asarray(learning.value_outputs(networks["value"], features, stacks)[0])
    found: list[float] = []
    expected: list[float] = []
    for board, (own, _) in zip(boards, features, strict=True):
        logits = dict(list(plain.expected_logits(board).items())[:5])
        active = learning.hidden(networks["policy"].rows, networks["policy"].bias, own[None])
        for move, logit in logits.items():
            described = describe(board, move)
            found.append(float(learning.logits(networks["policy"], active, *described)[0, 0]))
            expected.append(logit)
    wanted = [plain.expected_value(board) for board in boards]
    return {
        "scores": [outputs[:, 0].tolist(), [score for score, _, _ in wanted]],
        "logits": [found, expected],
    }


def padded(features: list[int]) -> list[int]:
    return [*features, *range(FEATURES + len(features), FEATURES + 64)]


def describe(board: chess.Board, move: chess.Move) -> list[Any]:
    """Returns the place, the goal and the class of a move, `[1, 1]` each."""
    words, moves = np.array(pack(board), np.uint64), np.array([encode_move(move)], np.uint16)
    out = [np.zeros(1, np.uint16) for _ in range(3)]
    describe_moves(ptr(load_tables(), 0), ptr(words, 0), moves, np.zeros(MOST_FEATURES, np.int64), *out)
    return [array[None] for array in out]


@needs_jax
def test_jax_computes_what_the_arrays_say() -> None:
    for name, (found, expected) in in_plain_python(answers).items():
        assert found == pytest.approx(expected, rel=1e-3, abs=1e-3), name


def learned(teacher: str, state: str) -> list[list[float]]:
    """Teaches both networks by a few steps; returns the losses before and after of what they learn."""
    from tools.training import distil, learning

    vars(distil).update(LEAST=2, BATCH={"value": 2, "policy": 2}, AT_ONCE={"value": 4, "policy": 4})
    vars(distil).update(ROOM={"value": 2, "policy": 2}, TIMES={"value": 1e9, "policy": 1e9})
    groups, lessons = dealer(teacher).deal(1)
    rows = groups, sharpened(LessonArrays(*(array[:2] for array in lessons)))
    new = State.new((64, 64), 1)
    courses = distil.courses_of(new.networks, rows)
    out = []
    for (name, course), some in zip(courses.items(), rows, strict=True):
        course.put(some)
        before = course.judged()[0]
        for _ in range(30):
            assert course.learn(0.0, 2e-3, 1)
        out.append([before, course.judged()[0]])
        new.networks[name] = course.network()
        assert all(np.isfinite(array).all() for array in new.networks[name])
        assert np.abs(new.networks[name].rows).max() <= learning.LIMITS["rows"]
    new.networks["value"] = distil.without_hints(new.networks["value"])
    new.write(Path(state))
    return out


@needs_jax
def test_both_networks_learn_and_can_be_packed(teacher: str, tmp_path: Path) -> None:
    state, out = tmp_path / "state.npz", tmp_path / "networks.bin"
    for before, after in in_plain_python(learned, teacher, str(state)):
        assert after < 0.9 * before
    assert main(["pack", str(out), str(state)]) == 0
    assert read_networks(out.read_bytes()).widths == (64, 64)


def test_an_evaluator_is_judged_by_a_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    boards = [chess.Board(), chess.Board("4k3/8/8/8/8/8/3PP3/4K3 w - - 0 1")]
    with (path := tmp_path / "reference.jsonl").open("w", encoding="utf-8") as file:
        for number, board in enumerate(boards):
            moves = [move.uci() for move in board.legal_moves]
            scores = {move: {"cp": 5 * at} for at, move in enumerate(moves)}
            case = {"fen": board.fen(), "wdl": [300 + 200 * number, 500 - 200 * number, 200], "cp": 30}
            file.write(json.dumps(case | {"bestmove": moves[-1], "moves_depth10": scores}) + "\n")
    assert main(["judge", str(path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["positions"] == 2
    assert 0 < found["cross_entropy_bestmove"] < 20
    assert main(["nothing"]) == 2
