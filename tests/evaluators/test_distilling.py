"""Learning to compare moves: gradients of groups, and networks that learn from games of their own.

What is compiled there runs uncompiled here, as in `test_training.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import chess
import numpy as np
import pytest

from graphsearch.evaluators.factory import create
from graphsearch.evaluators.nnue.file import ARCHITECTURES
from graphsearch.position.board import pack
from graphsearch.position.tables import load_tables
from tests.support.nnue import MadeUp
from tests.support.plain import in_plain_python

if TYPE_CHECKING:  # it imports the compiler, and every process of tests reads this file
    from tools.training.dealing import Groups

SHARE, HINTS = 30.0, 0.2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a file of a made-up network."""
    folder = tmp_path_factory.mktemp("network")
    (folder / "a.nnue").write_bytes(MadeUp.random(ARCHITECTURES[-1]).file(packed=False))
    return folder


def dealt(network: str) -> tuple[Groups, Any]:
    """Returns groups of two games, and the weights of the network that labels them."""
    from tools.training.dealing import Table, beginnings_of

    evaluator: Any = create(f"nnue:{network}")
    table = Table(evaluator.weights, beginnings_of(2, 7, ()), 2)
    return table.deal(1), evaluator.weights


def facts_of(folder: str) -> tuple[dict[str, Any], dict[str, Any], list[list[int]], dict[str, Any]]:
    """Returns what tests ask of members of groups, of their gradients, of what is learned, and of starts."""
    groups, weights = dealt(f"{folder}/a.nnue")
    members, slopes = members_of(groups, weights, dealt(f"{folder}/a.nnue")[0]), slopes_of(groups)
    return members, slopes, learned(Path(folder)), started(Path(folder))


@pytest.fixture(scope="module")
def facts(folder: Path) -> Any:
    """Returns all for a made-up network, from one process without the compiler."""
    return in_plain_python(facts_of, str(folder))


def members_of(groups: Groups, weights: Any, again: Groups) -> dict[str, Any]:
    """Returns the sizes of groups, their labels, and what the network itself says of the members."""
    from tools.training import train
    from tools.training.records import MOST_SCORE

    words = np.pad(groups.members["words"], ((0, 0), (0, 1)))
    alone = train.scores_of(words, weights, train.STATIC) * 361 // 1000
    return {
        "sizes": np.diff(groups.begins).tolist(),
        "labels": groups.members["score"].tolist(),
        "alone": np.clip(alone, -MOST_SCORE, MOST_SCORE).tolist(),
        "again": bool((groups.members == again.members).all()),
    }


def test_members_of_groups_are_quiet_and_labelled_by_the_network(facts: Any) -> None:
    from tools.training.groups_kernel import LEAST_MEMBERS, MOST_MEMBERS

    found = facts[0]
    assert all(LEAST_MEMBERS <= size <= MOST_MEMBERS for size in found["sizes"])
    close = [abs(a - b) <= 1 for a, b in zip(found["labels"], found["alone"], strict=True)]
    assert np.mean(close) > 0.9  # the line of another may end in a stalemate
    assert found["again"]


def slopes_of(groups: Groups) -> dict[str, Any]:
    """Returns the largest differences of gradients that are shared, and gradients with slopes of the loss."""
    from tools.training import groups_learning, value_learning
    from tools.training.distil import with_hints
    from tools.training.groups_learning import pass_groups

    rng, tables, every = np.random.default_rng(4), load_tables(), np.arange(len(groups.begins) - 1)
    members = np.arange(len(groups.members))
    net = with_hints(value_learning.new_network(8, rng))
    for array in (net.first, net.last):
        array[:] = rng.uniform(-0.3, 0.3, array.shape)
    alone, shared, whole, unused = (type(net)(*(np.zeros_like(array) for array in net)) for _ in range(4))
    value_learning.pass_batch(tables, groups.members, members, net, alone, True)
    groups_learning.EVENNESS = 0.0
    pass_groups(tables, groups, net, shared, every, True, 0.0, 0.0)
    groups_learning.EVENNESS = 1.0
    pass_groups(tables, groups, net, whole, every, True, SHARE, HINTS)

    def loss() -> float:
        plain = value_learning.pass_batch(tables, groups.members, members, net, unused, False)
        found = [
            pass_groups(tables, groups, net, unused, every[k : k + 1], False, SHARE, HINTS) for k in every
        ]
        hints = sum(one[6] * size for one, size in zip(found, np.diff(groups.begins), strict=True))
        return float(plain[0] + sum(one[1] + one[5] for one in found) + HINTS * hints)

    found = []
    for name, array, gradient in zip(net._fields, net, whole, strict=True):
        for at in np.argsort(-np.abs(gradient.ravel()))[:20:10]:
            flat, old, losses = array.reshape(-1), array.flat[at], []
            for step in (0.002, -0.002):
                flat[at] = old + step
                losses.append(loss())
            flat[at] = old
            found.append((name, float(gradient.flat[at]), (losses[0] - losses[1]) / 0.004))
    apart = [float(np.abs(a - b).max()) for a, b in zip(alone, shared, strict=True)]
    return {"apart": apart, "slopes": found}


def test_gradients_of_groups_are_those_of_the_loss(facts: Any) -> None:
    found = facts[1]
    assert max(found["apart"]) < 1e-4
    for name, gradient, slope in found["slopes"]:
        assert gradient == pytest.approx(slope, rel=0.03, abs=3e-3), name


def learned(folder: Path) -> list[list[int]]:
    """Learns a little, goes on, and ends; returns the steps and samples that were kept each time."""
    from tools.training import distil
    from tools.training.__main__ import main
    from tools.training.train import State

    distil.HELD = distil.HELD_ROUNDS = distil.AVERAGED = 1
    distil.BEGINNINGS = 2
    state, learning = folder / "value.npz", folder / "learning.npz"
    State.new((8, 8), 3).write(state)
    words = ["distil", str(state), str(learning), "--evaluator", f"nnue:{folder / 'a.nnue'}"]
    words += ["--groups", "1", "--threads", "1", "--width", "12", "--hints", str(HINTS)]
    kept = []
    for more in (["--samples", "1", "--cool", "0"], ["--samples", "10"]):
        assert main([*words, *more]) == 0
        with np.load(learning) as arrays:
            numbers = json.loads(str(arrays["numbers"]))
        kept.append([numbers["steps"], numbers["samples"]])
    return kept


def test_learning_goes_on_and_its_end_is_written_to_the_state(facts: Any, folder: Path) -> None:
    from tools.training.groups_kernel import LEAST_MEMBERS
    from tools.training.train import State

    first, second = facts[2]
    assert first[0] == 1
    assert first[1] >= LEAST_MEMBERS
    found = State.read(folder / "value.npz")
    assert found.stages[-1]["samples"] >= first[1] + 10 > second[1] > first[1]
    with np.load(folder / "learning.npz") as arrays:
        assert not np.array_equal(found.networks["value"].rows, arrays["average.rows"])
        assert arrays["average.first"].shape[1] > found.networks["value"].first.shape[1]  # without hints
    assert found.networks["value"].bias.shape == (12,)


def started(folder: Path) -> dict[str, Any]:
    """Learns P in games from a set of two level positions and a won one; returns what came of it."""
    from tools.training import dealing, distil, groups_kernel
    from tools.training.__main__ import main
    from tools.training.groups_kernel import Starts
    from tools.training.records import PAWN, RECORD, write_shard
    from tools.training.train import State

    records = np.zeros(3, RECORD)
    fens = "8/8/4k3/8/8/4K3/4P3/8 w - - 0 1", chess.STARTING_FEN, "4k3/8/8/8/8/8/QQ6/4K3 w - - 0 1"
    for record, fen in zip(records, fens, strict=True):
        record["words"] = pack(chess.Board(fen))[:9]
    records["score"][2] = 9 * PAWN
    sets, state, learning = folder / "set", folder / "policy.npz", folder / "learned.npz"
    sets.mkdir()
    write_shard(sets / "1.positions", records, np.zeros(0, np.int16))
    dealing.MORE_OF_A_STACK = 3
    vars(groups_kernel)["ENDED_DECIDED"] = vars(groups_kernel)["ENDED_FEW"] = 0.0
    starts = dealing.open_starts([sets], 1)
    some = Starts(starts.words[:2], starts.ply[:2])
    State.new((8, 8), 3).write(state)
    words = ["distil", str(state), str(learning), "--evaluator", f"nnue:{folder / 'a.nnue'}"]
    words += ["--network", "policy", "--sets", str(sets), "--groups", "2", "--threads", "1", "--samples", "2"]
    assert distil.HELD == 1
    code = main(words)
    return {
        "starts": [int((starts.words[:, :9] == record["words"]).all(axis=1).sum()) for record in records],
        "all": len(starts.ply),
        "mixed": len(dealing.mixed(some, starts, 0.5).ply),
        "code": code,
        "stage": State.read(state).stages[-1],
    }


def test_games_begin_at_the_open_positions_of_sets(facts: Any) -> None:
    found = facts[3]
    assert found["starts"] == [3, 24, 0]
    assert found["all"] == 27
    assert found["mixed"] == 27 + 2 * 14  # two positions, as often as it takes to be half of all


def test_the_policy_network_learns_the_priors_of_new_games(facts: Any) -> None:
    found = facts[3]
    assert found["code"] == 0
    assert found["stage"]["name"] == "policy"
    assert found["stage"]["samples"] >= 2
    assert 0 <= found["stage"]["first_choice"] <= 1
    assert [one["positions"] for one in found["stage"]["sets"]] == [3]
