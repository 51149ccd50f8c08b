"""What a GPU learns from, and that it learns the same as the compiled passes. JAX may be missing.

What is compiled there runs uncompiled here, as in `test_training.py`.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphsearch.evaluators.builtin.layout import CLASSES, FEATURES
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.nnue.file import ARCHITECTURES
from graphsearch.position.tables import load_tables
from tests.support.nnue import MadeUp
from tests.support.plain import in_plain_python

if TYPE_CHECKING:  # they import the compiler, and every process of tests reads this file
    from tools.training.examples_kernel import LessonArrays
    from tools.training.gpu import Dealer

SHARE, HINTS = 30.0, 0.2
needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a file of a made-up network."""
    folder = tmp_path_factory.mktemp("network")
    (folder / "a.nnue").write_bytes(MadeUp.random(ARCHITECTURES[-1]).file(packed=False))
    return folder


def dealer(folder: str) -> Dealer:
    """Returns a dealer of two games, whose lessons are the games' own positions."""
    from tools.training import examples_kernel, groups_kernel
    from tools.training.dealing import beginnings_of
    from tools.training.gpu import Dealer

    vars(examples_kernel)["OFF"] = 0.0
    vars(groups_kernel)["ENDED_DECIDED"] = vars(groups_kernel)["ENDED_FEW"] = 0.0
    evaluator: Any = create(f"nnue:{folder}/a.nnue")
    return Dealer(evaluator.weights, beginnings_of(2, 7, ()), 2, 1.0)


def facts_of(folder: str) -> dict[str, Any]:
    """Returns what a test asks of dealt groups and lessons."""
    from tools.training.examples_kernel import SIGN
    from tools.training.groups_kernel import TURNED

    some = dealer(folder)
    examples, lessons = some.deal(1)
    groups = dealer(folder).table.deal(1)
    there = examples.targets[..., SIGN] != 0
    return {
        "members": there.sum(1).tolist(),
        "sizes": np.diff(groups.begins).tolist(),
        "signs": examples.targets[there][:, SIGN].tolist(),
        "turned": [1.0 if kind & TURNED else -1.0 for kind in groups.members["kind"]],
        "hints": bool(np.allclose(examples.hints[there], groups.hints, atol=1e-3)),
        "features": views_agree(examples.features[there], groups.members),
        "sums": lessons.targets.sum(1).tolist(),
        "lessons": lessons_agree(lessons, some),
    }


def views_agree(features: Any, members: Any) -> bool:
    """Returns whether the features of members are those that the compiled passes see."""
    from tools.training.records import load_words
    from tools.training.value_learning import see

    words, views = np.zeros(10, np.uint64), np.zeros((2, 128), np.int64)
    same = []
    for found, member in zip(features, members, strict=True):
        load_words(member, words)
        n = see(load_tables(), words, *views)
        same += [
            view[view < FEATURES].tolist() == seen[:n].tolist()
            for view, seen in zip(found, views, strict=True)
        ]
    return all(same)


def lessons_agree(lessons: LessonArrays, some: Dealer) -> bool:
    """Returns whether lessons of positions are those that training on sets makes of them."""
    from tools.training import policy_learning
    from tools.training.records import RECORD

    words = some.table.games.words
    records = np.zeros(len(words), RECORD)
    records["words"] = words[:, :9]
    counts = np.zeros(len(words), np.int64)
    policy_learning.count_moves(load_tables(), records, counts)
    wanted = policy_learning.lessons_of(records, np.zeros(counts.sum(), np.int16), 25.0)
    same = [len(lessons.features) == len(words)]
    for k, (begin, end) in enumerate(zip(wanted.offsets, wanted.offsets[1:], strict=False)):
        there = lessons.classes[k] < CLASSES
        for name in ("places", "goals", "classes"):
            found = getattr(lessons, name)[k][there]
            same.append(found.tolist() == getattr(wanted, name)[begin:end].tolist())
        seen = lessons.features[k]
        same.append(seen[seen < FEATURES].tolist() == wanted.features[k, : wanted.seen[k]].tolist())
    return all(same)


def test_a_gpu_gets_what_the_compiled_passes_see(folder: Path) -> None:
    found = in_plain_python(facts_of, str(folder))
    assert found["members"] == found["sizes"]
    assert found["signs"] == found["turned"]
    assert found["hints"]
    assert found["features"]
    assert found["sums"] == pytest.approx([1.0, 1.0], abs=1e-5)
    assert found["lessons"]


def losses_of(folder: str) -> dict[str, list[Any]]:
    """Returns figures and gradients, each from JAX and from the compiled passes."""
    import jax

    from tools.training import gpu_networks, policy_learning, value_learning
    from tools.training.dealing import packed, sharpened
    from tools.training.distil import with_hints
    from tools.training.groups_learning import pass_groups

    some = dealer(folder)
    examples, lessons = some.deal(1)
    groups = dealer(folder).table.deal(1)
    rng = np.random.default_rng(4)
    value = rounded(with_hints(value_learning.new_network(8, rng)))
    gradient = type(value)(*(np.zeros_like(array) for array in value))
    every = np.arange(len(groups.begins) - 1)
    figures = pass_groups(load_tables(), groups, value, gradient, every, True, SHARE, HINTS) / len(every)

    def loss(weights: Any) -> Any:
        return gpu_networks.value_loss(weights, examples, SHARE, HINTS)

    (_, found), slopes = jax.value_and_grad(loss, has_aux=True)(value)
    out: dict[str, list[Any]] = {"figures": [found[:3].tolist(), [figures[0], figures[1], figures[4]]]}
    for name, ours, theirs in zip(value._fields, slopes, gradient, strict=True):
        out[f"value {name}"] = [apart(ours, theirs / len(groups.members)), 0.0]
    policy = rounded(policy_learning.new_network(8, rng))
    gradient = type(policy)(*(np.zeros_like(array) for array in policy))
    given = sharpened(lessons)
    count = len(given.features)
    total = policy_learning.pass_lessons(packed(given), np.arange(count), policy, gradient, True)
    (_, found), slopes = jax.value_and_grad(gpu_networks.policy_loss, has_aux=True)(policy, given)
    out["policy"] = [found.tolist(), (total / count).tolist()]
    for name, ours, theirs in zip(policy._fields, slopes, gradient, strict=True):
        out[f"policy {name}"] = [apart(ours, theirs / count), 0.0]
    return out


def rounded(network: Any) -> Any:
    """Returns a network whose rows are those of the evaluator's integers."""
    return network._replace(
        rows=np.round(network.rows * 181).astype(np.float32) / np.float32(181),
        bias=np.round(network.bias * 181).astype(np.float32) / np.float32(181),
    )


def apart(ours: Any, theirs: Any) -> float:
    """Returns the relative difference of two gradients."""
    return float(np.sqrt(((np.asarray(ours) - theirs) ** 2).sum() / ((theirs**2).sum() + 1e-20)))


@needs_jax
def test_jax_learns_what_the_compiled_passes_learn(folder: Path) -> None:
    for name, (ours, theirs) in in_plain_python(losses_of, str(folder)).items():
        near = 0.04 if isinstance(ours, float) else 1e-3  # slopes are rounded to bfloat16
        assert ours == pytest.approx(theirs, rel=1e-3, abs=near), name
