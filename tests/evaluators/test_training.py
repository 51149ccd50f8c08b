"""The tools that train the networks: gradients, shards, and a file that the evaluator reads.

What is compiled there runs uncompiled here: that takes seconds, and compiling it would take a minute.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest
import zstandard

from graphsearch.evaluators.builtin.layout import BOARD_FEATURES, FULL, KING_BUCKETS, THREATS_AT
from graphsearch.evaluators.builtin.weights import read_networks
from graphsearch.evaluators.nnue.file import ARCHITECTURES
from graphsearch.position.board import encode_move, legal_moves, pack, unpack
from tests.support.nnue import MadeUp
from tools.training.__main__ import main
from tools.training.make import random_endgame, starts
from tools.training.records import PLAYED, RECORD, UNKNOWN, hashes, read_shard, write_shard
from tools.training.train import State

REPOSITORY = Path(__file__).parents[2]


def uncompiled(code: str, *arguments: object) -> Any:
    """Returns what some code prints as JSON."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def positions(count: int, *, by_an_engine: bool) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Returns records of a random game, with an engine's answers or with values of all moves."""
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


GRADIENTS = """
import json, sys
import numpy as np
from pathlib import Path
from graphsearch.position.tables import load_tables
from tools.training import policy_learning, value_learning
from tools.training.records import read_shard

rng, tables = np.random.default_rng(4), load_tables()
records, values = read_shard(Path(sys.argv[1]))
every, found = np.arange(len(records)), []
lessons = policy_learning.lessons_of(records, values, 60.0)

def compared(network, one_pass):
    gradients = type(network)(*(np.zeros_like(array) for array in network))
    one_pass(network, gradients, True)
    for name, array, gradient in zip(network._fields, network, gradients):
        for at in np.argsort(-np.abs(gradient.ravel()))[:40:10]:
            flat, old, losses = array.reshape(-1), array.flat[at], []
            for step in (0.004, -0.004):
                flat[at] = old + step
                losses.append(one_pass(network, gradients, False)[0])
            flat[at] = old
            found.append((name, float(gradient.flat[at]), (losses[0] - losses[1]) / 0.008))

value = value_learning.new_network(8, rng)
for array in (value.first, value.last):
    array[:] = rng.uniform(-0.3, 0.3, array.shape)
for shared in (False, True):
    compared(value, lambda net, grad, learns: value_learning.pass_batch(
        tables, records, every, net, grad, learns, shared))
policy = policy_learning.new_network(8, rng)
compared(policy, lambda net, grad, learns: policy_learning.pass_lessons(lessons, every, net, grad, learns))
print(json.dumps(found))
"""


@pytest.mark.parametrize("by_an_engine", [False, True])
def test_gradients_are_those_of_the_loss(by_an_engine: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.positions"
    write_shard(path, *positions(5, by_an_engine=by_an_engine))
    found = uncompiled(GRADIENTS, path)
    assert {name for name, _, _ in found} >= {
        "rows",
        "bias",
        "first",
        "second",
        "last",
        "plain",
        "leaves",
        "goes",
        "kinds",
    }
    for name, gradient, slope in found:
        assert gradient == pytest.approx(slope, rel=0.03, abs=2e-4), name


TRAIN = "import sys; from tools.training.__main__ import main; main(['train', *sys.argv[1:]]); print(0)"


def test_training_writes_networks_that_the_evaluator_reads(tmp_path: Path) -> None:
    for folder, by_an_engine in (("plain", False), ("engine", True)):
        (tmp_path / folder).mkdir()
        write_shard(tmp_path / folder / "a.positions", *positions(30, by_an_engine=by_an_engine))
    plain, out, state = tmp_path / "plain", tmp_path / "networks.bin", tmp_path / "state.npz"
    usual = ["--widths", 64, 64, "--epochs", 1]
    uncompiled(TRAIN, state, "value", plain, *usual, "--shared")
    uncompiled(TRAIN, state, "policy", plain, *usual)
    uncompiled(TRAIN, state, "policy", tmp_path / "engine", *usual)
    assert main(["pack", str(out), str(state), str(state)]) == 0
    networks = read_networks(out.read_bytes(), "it")
    assert networks.widths == (64, 64)
    stages = networks.card["stages"]
    assert [(stage["name"], stage["shared_buckets"]) for stage in stages] == [
        ("value", True),
        ("policy", False),
        ("policy", False),
    ]
    (taught_by,) = hashes([plain])
    assert list(stages[0]["sets"][0].values()) == list(taught_by)
    rows = networks.arrays["value_rows"][:THREATS_AT].reshape(KING_BUCKETS, BOARD_FEATURES, -1)
    assert (rows == rows[0]).all()


def test_networks_of_version_1_begin_a_state_with_the_same_rows(tmp_path: Path) -> None:
    rng, old = np.random.default_rng(3), 6 * BOARD_FEATURES
    shapes = [
        (old, 64),
        (64,),
        (8, 3, 2, 64),
        (9, 3),
        (old, 64),
        (64,),
        (384, 64),
        (384, 64),
        (168, 64),
        (169,),
    ]
    arrays = [
        rng.uniform(-1, 1, shape).astype("<f4")
        if at in (3, 9)
        else rng.integers(-90, 90, shape).astype("<i2")
        for at, shape in enumerate(shapes)
    ]
    card = json.dumps({"value_width": 64, "policy_width": 64, "stages": [{"name": "old"}]}).encode()
    packed = zstandard.ZstdCompressor().compress(b"".join(array.tobytes() for array in arrays))
    (tmp_path / "old.bin").write_bytes(b"gsnets1\n" + struct.pack("<I", len(card)) + card + packed)
    state = tmp_path / "state.npz"
    assert main(["begin", str(state), str(tmp_path / "old.bin"), "--policy-width", "128"]) == 0
    begun = State.read(state)
    assert begun.stages == [{"name": "old"}]
    rows, states = begun.networks["value"].rows, arrays[0].reshape(6, BOARD_FEATURES, 64) / FULL
    bucket = rows[5 * BOARD_FEATURES : 6 * BOARD_FEATURES]
    for number, left in enumerate((0, 2, 3, 4, 5)):
        at = THREATS_AT + number * BOARD_FEATURES
        np.testing.assert_allclose(bucket + rows[at : at + BOARD_FEATURES], states[left], atol=1e-5)
    np.testing.assert_allclose(bucket, states[1], atol=1e-6)
    assert (begun.networks["value"].last == 0).all()


def test_a_game_has_a_value_for_every_move_of_what_was_played(tmp_path: Path) -> None:
    network, path = tmp_path / "a.nnue", tmp_path / "a.positions"
    network.write_bytes(MadeUp.random(ARCHITECTURES[-1]).file(packed=False))
    code = (
        "import sys; from pathlib import Path; from graphsearch.evaluators.factory import create\n"
        "from tools.training import games_kernel, make as tool; tool.LEAST_PLIES, tool.MOST_PLIES = 3, 4\n"
        "games_kernel.KEPT_OPENING = games_kernel.KEPT_LEVEL = games_kernel.KEPT_DECIDED = 1.0\n"
        "weights = create('nnue:' + sys.argv[1]).weights\n"
        "print(tool.make_shard(Path(sys.argv[2]), weights, 2, (1, 2), ()))"
    )
    assert uncompiled(code, network, path) == len(read_shard(path)[0])
    records, values = read_shard(path)
    for record in records:
        moves = list(unpack([*record["words"].tolist(), 0]).legal_moves)
        assert record["moves"] == (len(moves) if record["kind"] & PLAYED else 0)
        assert moves
    assert {bool(record["kind"] & PLAYED) for record in records} == {True, False}
    assert records["moves"].sum() == len(values) > 0


def test_games_begin_from_legal_positions_of_all_kinds() -> None:
    rng = np.random.default_rng(2)
    assert all(random_endgame(rng).is_valid() for _ in range(20))
    found = [start for start, _ in zip(starts(rng, [[chess.Move.from_uci("e2e4")]]), range(60), strict=False)]
    assert all(start.board.is_valid() and any(start.board.legal_moves) for start in found)
    assert {start.ply for start in found} >= {0, 1}
    assert max(start.ply for start in found) >= 60
