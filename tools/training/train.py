"""Teaches one of the built-in evaluator's networks for one stage.

    python -m tools.training train STATE.npz value SET ... --epochs 4 --rate 1e-3

The value network learns from all positions of the sets, or with --quiet from those where a search evaluates
it: where quiescence stands pat, a label depends on the position alone, not on captures. The policy network
learns from the moves' values of positions that were played, or from an engine's best moves where a set has
these. STATE keeps the weights of both networks in float32 with what they were taught; it is made where there
is none, and the stage goes on from it. Each stage's data, seed, rate, time and figures end in the card of the
file that `pack` writes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphsearch.evaluators.factory import create
from graphsearch.evaluators.nnue.layout import WIDTH
from graphsearch.evaluators.nnue.quiescence_kernel import area_words, scores
from graphsearch.evaluators.quiescence.quiescence_kernel import STACK_WORDS
from graphsearch.position.scores import FAR
from graphsearch.position.tables import load_tables
from tools.training import policy_learning, value_learning
from tools.training.learning import Learner, Pass, Plan, learn
from tools.training.records import (
    IN_CHECK,
    MOST_SCORE,
    PAWN,
    PLAYED,
    Records,
    described,
    read_sets,
    thinned,
    words_of,
)

KEPT = 40_000  # last positions, held out; at most a tenth
BATCHES = {"value": 8192, "policy": 4096}
NETWORKS: dict[str, Any] = {"value": value_learning.ValueArrays, "policy": policy_learning.PolicyArrays}
STAGES = "stages"  # in the file of a state
MOST_GAIN = 30  # thousandths of a pawn; captures gain less than that in a quiet position
CHUNK = 100_000  # positions per batch
STATIC, QUIESCENCE = (0, 0), (-FAR, FAR)  # windows for `scores`


@dataclass
class State:
    """Both networks in training, and their training history.

    Attributes:
      networks: by name, in float32.
      stages: in order: name, sets, epochs, rate, seconds, figures.
    """

    networks: dict[str, Any]
    stages: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def new(cls, widths: Sequence[int], seed: int) -> State:
        """Returns randomly initialised networks; `widths`: of the value and of the policy network."""
        rng = np.random.default_rng(seed)
        value = value_learning.new_network(widths[0], rng)
        return cls({"value": value, "policy": policy_learning.new_network(widths[1], rng)})

    @classmethod
    def read(cls, path: Path) -> State:
        """Returns the state of a file written by `write`."""
        with np.load(path) as arrays:
            networks = {name: read_named(arrays, name, form) for name, form in NETWORKS.items()}
            return cls(networks, json.loads(str(arrays[STAGES])))

    def write(self, path: Path) -> None:
        """Writes the state; replaces the file atomically."""
        write_named(path, self.networks, **{STAGES: self.stages})


def read_named(arrays: Any, name: str, form: Any) -> Any:
    """Returns a network, or what has the same form, of an `.npz` file."""
    return form(*(arrays[f"{name}.{part}"] for part in form._fields))


def write_named(path: Path, networks: dict[str, Any], **texts: Any) -> None:
    """Writes networks and JSON to an `.npz` file, which appears whole or not at all."""
    arrays: dict[str, Any] = {name: np.array(json.dumps(text)) for name, text in texts.items()}
    for name, network in networks.items():
        arrays |= {f"{name}.{part}": array for part, array in network._asdict().items()}
    new = path.with_suffix(".part")
    with new.open("wb") as file:
        np.savez(file, **arrays)
    new.replace(path)


def say(text: str) -> None:
    """Prints a progress line on stderr."""
    print(text, file=sys.stderr, flush=True)


# ------------------------------------------------------------------ lessons
def scores_of(
    words: NDArray[np.uint64], weights: NDArray[np.int64], window: tuple[int, int]
) -> NDArray[np.int64]:
    """Returns a network's scores of positions, in thousandths of a pawn; `words`: uint64[B, 10]."""
    scratch = np.zeros(STACK_WORDS + area_words(int(weights[WIDTH])), np.uint64)
    out = np.zeros(len(words), np.int64)
    scores(load_tables(), weights, words.reshape(-1), np.array(window, np.int64), out, scratch)
    return out


def quiet_part(records: Records, weights: NDArray[np.int64]) -> Records:
    """Returns the result of `quiet_of` for one batch of records."""
    words = words_of(records)
    found = scores_of(words, weights, QUIESCENCE)
    gained = found - scores_of(words, weights, STATIC)
    labels = found * PAWN // 1000
    chosen = (gained < MOST_GAIN) & (records["kind"] & IN_CHECK == 0) & (np.abs(labels) < MOST_SCORE)
    quiet: Records = records[chosen]
    quiet["score"] = labels[chosen]
    return quiet


def quiet_of(records: Records, weights: NDArray[np.int64], threads: int) -> Records:
    """Returns the records of quiet positions, not in check, labelled by a network's quiescence."""
    parts = (records[begin : begin + CHUNK] for begin in range(0, len(records), CHUNK))
    with ThreadPoolExecutor(threads) as pool:
        return np.concatenate(list(pool.map(partial(quiet_part, weights=weights), parts)))


def value_lessons(options: argparse.Namespace) -> tuple[int, Pass, tuple[str, ...]]:
    """Returns the number of samples, the function that passes over some, and the names of its figures."""
    records, _ = read_sets(options.sets)
    if options.quiet:
        records = quiet_of(records, create(options.quiet).weights, options.threads)
    tables = load_tables()
    return (
        len(records),
        lambda net, grad, chosen, learns: value_learning.pass_batch(
            tables, records, chosen, net, grad, learns
        ),
        ("loss", "error_of_q", "error_of_score"),
    )


def policy_lessons(options: argparse.Namespace) -> tuple[int, Pass, tuple[str, ...]]:
    """Returns the number of samples, the function that passes over some, and the names of its figures."""
    records, values = read_sets(options.sets)
    taught = (records["kind"] & PLAYED != 0) if not records["best"].any() else records["best"] != 0
    lessons = policy_learning.lessons_of(
        *thinned(records, values, taught), options.temperature, options.threads
    )
    return (
        len(lessons.seen),
        lambda net, grad, chosen, learns: policy_learning.pass_lessons(lessons, chosen, net, grad, learns),
        ("cross_entropy", "first_choice"),
    )


def blend(weights: Any, old: Sequence[Any], share: float) -> None:
    """Keeps a share of a stage's change of the weights; the rest is often specific to its games."""
    for array, before in zip(weights, old, strict=True):
        array += np.float32(1 - share) * (before - array)


def train(options: argparse.Namespace) -> dict[str, Any]:
    """Runs a stage; returns its entry in the state's `stages`."""
    known = options.state.exists()
    state = State.read(options.state) if known else State.new(options.widths, options.seed)
    lessons = {"value": value_lessons, "policy": policy_lessons}[options.network]
    count, one_pass, names = lessons(options)
    plan = Plan(options.epochs, BATCHES[options.network], options.rate, min(KEPT, count // 10), options.seed)
    begin = time.process_time()
    learner = Learner(state.networks[options.network], options.threads)
    old = [array.copy() for array in learner.weights]
    figures = learn(learner, one_pass, count, plan, say)
    blend(learner.weights, old, options.blend)
    state.stages.append(
        {
            "name": options.network,
            "sets": described(options.sets),
            "samples": count,
            **({"quiet": options.quiet} if options.quiet else {}),
            "blend": options.blend,
            "epochs": options.epochs,
            "rate": options.rate,
            "seed": options.seed,
            "cpu_seconds": round(time.process_time() - begin),
            **{name: round(float(figure), 5) for name, figure in zip(names, figures, strict=True)},
        }
    )
    state.write(options.state)
    return state.stages[-1]


def add_arguments(out: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    out.add_argument("state", type=Path, help="file of the weights to go on from, made if missing")
    out.add_argument("network", choices=list(NETWORKS))
    out.add_argument("sets", type=Path, nargs="+", help="folders of positions")
    out.add_argument("--epochs", type=float, default=4.0)
    out.add_argument("--rate", type=float, default=1e-3)
    out.add_argument("--temperature", type=float, default=60.0, help="of moves' values, 1/361 of a pawn")
    out.add_argument("--blend", type=float, default=1.0, help="share of the change that is kept at the end")
    out.add_argument("--widths", type=int, nargs=2, default=[512, 512], metavar=("VALUE", "POLICY"))
    out.add_argument("--threads", type=int, default=2)
    out.add_argument("--quiet", metavar="NAME", help="value: only quiet positions, labelled by this network")
    out.add_argument("--seed", type=int, default=1)


def run(options: argparse.Namespace) -> int:
    """Trains; returns the exit code."""
    say(json.dumps(train(options)))
    return 0
