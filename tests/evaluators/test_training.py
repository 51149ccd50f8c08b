"""The tools that train the networks: gradients, shards, and a file that the evaluator reads.

What is compiled there runs uncompiled here: that takes seconds, and compiling it would take a minute.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import chess
import numpy as np
import pytest

from graphsearch.evaluators.builtin.weights import read_networks
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.nnue.file import ARCHITECTURES
from graphsearch.position.board import encode_move, legal_moves, pack, unpack
from graphsearch.position.tables import load_tables
from tests.support.nnue import MadeUp
from tests.support.plain import in_plain_python

# what imports the compiler is imported where it is used: every process of tests reads this file


def positions(count: int, *, by_an_engine: bool) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Returns records of a random game, with an engine's answers or with values of all moves."""
    from tools.training.records import PLAYED, RECORD, UNKNOWN

    rng, board = np.random.default_rng(count), chess.Board()
    records, values = np.zeros(count, RECORD), list[int]()
    for record in records:
        if board.is_game_over():
            board = chess.Board()
        moves = legal_moves(board)
        record["words"], record["ply"], record["kind"] = pack(board)[:9], board.ply(), PLAYED
        record["score"], record["win"], record["loss"] = rng.integers(-900, 900), UNKNOWN, UNKNOWN
        if by_an_engine:
            record["win"], record["loss"] = rng.integers(0, 500, 2)
            record["best"] = encode_move(moves[int(rng.integers(len(moves)))])
        else:
            record["moves"] = len(moves)
            values += rng.integers(-900, 900, len(moves)).tolist()
        board.push(moves[int(rng.integers(len(moves)))])
    return records, np.array(values, np.int16)


def slopes_of(path: Path) -> list[tuple[str, float, float]]:
    """Returns names of weights, their gradients and the slopes of the loss, of both networks."""
    from tools.training import policy_learning, value_learning
    from tools.training.records import read_shard

    rng, tables = np.random.default_rng(4), load_tables()
    records, values = read_shard(path)
    every, found = np.arange(len(records)), list[tuple[str, float, float]]()
    lessons = policy_learning.lessons_of(records, values, 60.0)

    def compare(network: Any, one_pass: Any) -> None:
        gradients = type(network)(*(np.zeros_like(array) for array in network))
        one_pass(network, gradients, True)
        for name, array, gradient in zip(network._fields, network, gradients, strict=True):
            for at in np.argsort(-np.abs(gradient.ravel()))[:20:10]:
                flat, old, losses = array.reshape(-1), array.flat[at], []
                for step in (0.004, -0.004):
                    flat[at] = old + step
                    losses.append(one_pass(network, gradients, False)[0])
                flat[at] = old
                found.append((name, float(gradient.flat[at]), float((losses[0] - losses[1]) / 0.008)))

    value = value_learning.new_network(8, rng)
    for array in (value.first, value.last):
        array[:] = rng.uniform(-0.3, 0.3, array.shape)
    compare(value, partial(value_learning.pass_batch, tables, records, every))
    policy = policy_learning.new_network(8, rng)
    compare(policy, partial(policy_learning.pass_lessons, lessons, every))
    return found


class Plain(NamedTuple):
    """A network of one array."""

    rows: Any


def train(folder: str) -> None:
    """Trains a value network, and in two stages a policy that is too narrow to be packed."""
    from tools.training.__main__ import main

    for words in (
        ["state.npz", "value", f"{folder}/plain", "--widths", "64", "64"],
        ["small.npz", "policy", f"{folder}/plain", "--widths", "8", "8"],
        ["small.npz", "policy", f"{folder}/engine"],
    ):
        assert main(["train", f"{folder}/{words[0]}", *words[1:], "--epochs", "1"]) == 0


@pytest.mark.usefixtures("facts")
def test_training_writes_networks_that_the_evaluator_reads(folder: Path) -> None:
    from tools.training.__main__ import main
    from tools.training.records import hashes
    from tools.training.train import State

    out, state = folder / "networks.bin", folder / "state.npz"
    assert main(["pack", str(out), str(state), str(state)]) == 0
    networks = read_networks(out.read_bytes(), "it")
    assert networks.widths == (64, 64)
    assert not networks.is_earlier
    stages = networks.card["stages"]
    assert [stage["name"] for stage in stages] == ["value"]
    assert [stage["name"] for stage in State.read(folder / "small.npz").stages] == ["policy", "policy"]
    (taught_by,) = hashes([folder / "plain"])
    assert list(stages[0]["sets"][0].values()) == list(taught_by)


def test_a_blend_keeps_a_share_of_what_a_stage_has_changed() -> None:
    from tools.training.train import State, blend

    old = State.new((64, 64), seed=3).networks["policy"]
    new = State.new((64, 64), seed=4).networks["policy"]
    blended = [array.copy() for array in new]
    blend(blended, old, 0.75)
    for array, before, after in zip(blended, old, new, strict=True):
        np.testing.assert_allclose(array, 0.25 * before + 0.75 * after, atol=1e-6)


def test_a_wider_policy_network_says_nearly_the_same() -> None:
    from tools.training.distil import NEW_FIRST, widened_policy
    from tools.training.train import State

    old = State.new((64, 64), seed=3).networks["policy"]
    new = widened_policy(old, 96)
    for part, before in zip(new, old, strict=True):
        np.testing.assert_array_equal(part[..., : before.shape[-1]], before)
    assert new.plain.shape == old.plain.shape
    assert {array.shape[-1] for array in new[:-1]} == {96}
    assert np.abs(new.goes[:, 64:]).max() <= NEW_FIRST < np.abs(new.rows[:, 64:]).max()


def test_the_last_samples_are_kept_back() -> None:
    from tools.training import learning

    learned, judged = set[int](), set[int]()

    def note(_net: Any, _grad: Any, chosen: Any, learns: bool) -> Any:
        (learned if learns else judged).update(chosen.tolist())
        return np.zeros(1)

    learner = learning.Learner(Plain(np.zeros(1, np.float32)))
    in_order = learning.Plan(epochs=1, batch=10, rate=1e-3, kept=20, seed=1)
    learning.learn(learner, note, 100, in_order, lambda _: None)
    assert (learned, judged) == (set(range(80)), set(range(80, 100)))


def test_a_state_begun_from_networks_packs_to_the_same_networks(tmp_path: Path) -> None:
    from tools.training.__main__ import main
    from tools.training.rounding import rounded
    from tools.training.train import State

    state, file, again = (tmp_path / name for name in ("state.npz", "networks.bin", "again.bin"))
    made = State.new((64, 64), seed=3).networks
    networks = rounded(made["value"], made["policy"], {"stages": [{"name": "value"}]})
    networks.write(file)
    assert main(["begin", str(state), str(file)]) == 0
    assert State.read(state).stages == [{"name": "value"}]
    assert main(["pack", str(again), str(state), str(state)]) == 0
    packed = read_networks(again.read_bytes(), "it")
    for name, array in networks.arrays.items():
        np.testing.assert_allclose(packed.arrays[name], array, atol=1, rtol=1e-3)


def shard_of_games(network: str, path: str) -> int:
    """Writes a shard of two short games whose positions are all kept; returns how many it has."""
    from tools.training import games_kernel, make

    make.LEAST_PLIES, make.MOST_PLIES = 3, 4
    games_kernel.KEPT_OPENING = games_kernel.KEPT_LEVEL = games_kernel.KEPT_DECIDED = 1.0
    evaluator: Any = create(f"nnue:{network}")
    return make.make_shard(Path(path), evaluator.weights, 2, (1, 2), (), 0.5)


def quiet_ones(network: str, path: str) -> list[tuple[str, int, int]]:
    """Returns each quiet position of a shard with its label and the network's word alone."""
    from tools.training import train
    from tools.training.records import read_shard

    evaluator: Any = create(f"nnue:{network}")
    found = train.quiet_of(read_shard(Path(path))[0], evaluator.weights, 2)
    words = np.pad(found["words"], ((0, 0), (0, 1)))
    alone = train.scores_of(words, evaluator.weights, train.STATIC)
    return [
        (unpack([*words_of, 0]).board_fen(), int(label), int(score) * 361 // 1000)
        for words_of, label, score in zip(found["words"].tolist(), found["score"], alone, strict=True)
    ]


QUIET = (chess.STARTING_FEN, "4k3/8/8/8/8/8/4P3/4K2R w - - 0 1")
CHECK = "4k3/8/8/8/8/8/4r3/4K3 w - - 0 1"


def facts_of(folder: str) -> dict[str, Any]:
    """Returns what tests ask of the files in a folder; writes a shard of games and trained networks there."""
    network = f"{folder}/a.nnue"
    train(folder)
    return {
        "slopes": [slopes_of(Path(f"{folder}/{name}/a.positions")) for name in ("plain", "engine")],
        "games": shard_of_games(network, f"{folder}/games.positions"),
        "quiet": quiet_ones(network, f"{folder}/three.positions"),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network and with shards."""
    from tools.training.records import IN_CHECK, RECORD, write_shard

    folder = tmp_path_factory.mktemp("training")
    (folder / "a.nnue").write_bytes(MadeUp.random(ARCHITECTURES[-1]).file(packed=False))
    for name in ("plain", "engine"):
        (folder / name).mkdir()
        write_shard(folder / name / "a.positions", *positions(3, by_an_engine=name == "engine"))
    records = np.zeros(3, RECORD)
    for record, board in zip(records, map(chess.Board, (QUIET[0], CHECK, QUIET[1])), strict=True):
        record["words"], record["kind"] = pack(board)[:9], IN_CHECK if board.is_check() else 0
    write_shard(folder / "three.positions", records, np.zeros(0, np.int16))
    return folder


@pytest.fixture(scope="module")
def facts(folder: Path) -> Any:
    """The facts of that folder, from one process without the compiler."""
    return in_plain_python(facts_of, str(folder))


def test_gradients_are_those_of_the_loss(facts: Any) -> None:
    names = {"rows", "bias", "first", "second", "last", "plain", "leaves", "goes", "kinds"}
    for found in facts["slopes"]:
        assert {name for name, _, _ in found} >= names
        for name, gradient, slope in found:
            assert gradient == pytest.approx(slope, rel=0.03, abs=2e-4), name


def test_a_game_has_a_value_for_every_move_of_what_was_played(facts: Any, folder: Path) -> None:
    from tools.training.records import PLAYED, read_shard

    records, values = read_shard(folder / "games.positions")
    assert facts["games"] == len(records)
    for record in records:
        moves = list(unpack([*record["words"].tolist(), 0]).legal_moves)
        assert record["moves"] == (len(moves) if record["kind"] & PLAYED else 0)
        assert moves
    assert {bool(record["kind"] & PLAYED) for record in records} == {True, False}
    assert records["moves"].sum() == len(values) > 0


def test_value_is_learned_from_quiet_positions_as_the_network_sees_them(facts: Any) -> None:
    assert [fen for fen, _, _ in facts["quiet"]] == [chess.Board(fen).board_fen() for fen in QUIET]
    assert all(label == alone for _, label, alone in facts["quiet"])


def test_games_begin_from_legal_positions_of_all_kinds() -> None:
    from tools.training.make import random_endgame, starts

    rng = np.random.default_rng(2)
    assert all(random_endgame(rng).is_valid() for _ in range(20))
    found = [start for start, _ in zip(starts(rng, [[chess.Move.from_uci("e2e4")]]), range(60), strict=False)]
    assert all(start.board.is_valid() and any(start.board.legal_moves) for start in found)
    assert {start.ply for start in found} >= {0, 1}
    assert max(start.ply for start in found) >= 60
