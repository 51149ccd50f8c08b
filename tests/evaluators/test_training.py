"""The tools that train the networks: gradients, shards, and a file that the evaluator reads.

What is compiled there runs uncompiled here: that takes seconds, and compiling it would take a minute.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest

from graphsearch.evaluators.builtin.weights import read_networks
from graphsearch.evaluators.nnue.file import ARCHITECTURES
from graphsearch.position.board import encode_move, legal_moves, pack, unpack
from tests.support.nnue import MadeUp
from tools.make_positions import random_endgame, starts
from tools.training_records import PLAYED, RECORD, UNKNOWN, hashes, read_shard, write_shard

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
from tools import policy_training, value_training
from tools.network_learning import Learner
from tools.training_records import read_shard

rng, tables = np.random.default_rng(4), load_tables()
records, values = read_shard(Path(sys.argv[1]))
every, found = np.arange(len(records)), []
lessons = policy_training.lessons_of(records, values, 60.0)

def compared(learner, one_pass):
    one_pass(True)
    for name, array in learner.weights.items():
        gradient = learner.gradients[name]
        for at in np.argsort(-np.abs(gradient.ravel()))[:40:10]:
            flat, old, losses = array.reshape(-1), array.flat[at], []
            for step in (0.004, -0.004):
                flat[at] = old + step
                losses.append(one_pass(False)[0])
            flat[at] = old
            found.append((name, float(gradient.flat[at]), (losses[0] - losses[1]) / 0.008))

value = Learner(value_training.new_network(8, rng))
compared(value, lambda learns: value_training.pass_batch(tables, records, every, *value.arrays(), learns))
policy = Learner(policy_training.new_network(8, rng))
pass_lessons = policy_training.pass_lessons
compared(policy, lambda learns: pass_lessons(*lessons.arrays(), every, *policy.arrays(), learns))
print(json.dumps(found))
"""


@pytest.mark.parametrize("by_an_engine", [False, True])
def test_gradients_are_those_of_the_loss(by_an_engine: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.positions"
    write_shard(path, *positions(5, by_an_engine=by_an_engine))
    found = uncompiled(GRADIENTS, path)
    assert {name for name, _, _ in found} >= {"rows", "bias", "last", "plain", "leaves", "goes", "kinds"}
    for name, gradient, slope in found:
        assert gradient == pytest.approx(slope, rel=0.03, abs=2e-4), name


def test_training_writes_networks_that_the_evaluator_reads(tmp_path: Path) -> None:
    for folder, by_an_engine in (("plain", False), ("engine", True)):
        (tmp_path / folder).mkdir()
        write_shard(tmp_path / folder / "a.positions", *positions(30, by_an_engine=by_an_engine))
    code = "import sys; from tools.train_networks import main; main(); print(0)"
    plain, out, state = tmp_path / "plain", tmp_path / "networks.bin", tmp_path / "state.npz"
    epochs = [word for stage in ("value", "policy", "label") for word in (f"--{stage}-epochs", 1)]
    usual = ["--widths", 32, 64, "--state", state, *epochs]
    uncompiled(code, out, "--value", plain, "--policy", plain, *usual)
    uncompiled(code, out, "--labels", tmp_path / "engine", *usual)
    networks = read_networks(out.read_bytes(), "it")
    assert networks.widths == (32, 64)
    names = [stage["name"] for stage in networks.card["stages"]]
    assert names == ["value", "policy", "value, by an engine", "policy, by an engine"]
    (taught_by,) = hashes([plain])
    assert list(networks.card["stages"][0]["sets"][0].values()) == list(taught_by)


def test_a_game_has_a_value_for_every_move_of_what_was_played(tmp_path: Path) -> None:
    network, path = tmp_path / "a.nnue", tmp_path / "a.positions"
    network.write_bytes(MadeUp.random(ARCHITECTURES[-1]).file(packed=False))
    code = (
        "import sys; from pathlib import Path; from graphsearch.evaluators.nnue.file import read_network\n"
        "from tools import make_positions as tool; tool.LEAST_PLIES, tool.MOST_PLIES = 3, 4\n"
        "weights = read_network(sys.argv[1]).weights\n"
        "print(tool.make_shard(Path(sys.argv[2]), weights, 2, (1, 2), ()))"
    )
    assert uncompiled(code, network, path) == len(read_shard(path)[0])
    records, values = read_shard(path)
    at = 0
    for record in records:
        moves = list(unpack([*record["words"].tolist(), 0]).legal_moves)
        assert record["moves"] == (len(moves) if record["kind"] & PLAYED else 0)
        if record["moves"]:
            assert record["score"] == values[at : at + len(moves)].max()
        at += int(record["moves"])
    assert at == len(values) > 0


def test_games_begin_from_legal_positions_of_all_kinds() -> None:
    rng = np.random.default_rng(2)
    assert all(random_endgame(rng).is_valid() for _ in range(20))
    found = [start for start, _ in zip(starts(rng, [[chess.Move.from_uci("e2e4")]]), range(60), strict=False)]
    assert all(start.board.is_valid() and any(start.board.legal_moves) for start in found)
    assert {start.ply for start in found} >= {0, 1}
    assert max(start.ply for start in found) >= 60
