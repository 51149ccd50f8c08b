"""Trains the networks of the built-in evaluator, on one core, and writes the file that the package ships.

    python -m tools.train_networks networks.bin --value SET ... --policy SET ... [--labels SET ...]

First both networks learn from sets of `make_positions`: the value network from all positions, the policy
network from the values of all moves of those that were played. Then both learn on, at a smaller rate, from
sets of `label_records`, an engine's searches: chances and best moves. `--state FILE.npz` keeps the weights
in float32 behind each stage and goes on from there; `--only value` or `--only policy` learns one of them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphsearch.position.tables import load_tables
from tools import policy_training, value_training
from tools.network_learning import Learner, learn, quantised
from tools.training_records import PLAYED, hashes, read_sets, thinned
from tools.value_training import F32

KEPT = 40_000  # positions that are never learned from, at most a tenth
VALUE_BATCH, POLICY_BATCH = 8192, 4096
SOFT_TEMPERATURE = 60.0  # of the values of moves, 1/361 of a pawn
STAGES = "stages"  # in the file of a state
FINE_RATE = 0.25  # of the learning rate, behind the first stage


@dataclass
class State:
    """Both networks while they learn, and what they have been taught.

    Attributes:
      stages: one after the other: name, sets, epochs, rate, seconds, figures.
    """

    value: Learner
    policy: Learner
    stages: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def new(cls, value_width: int, policy_width: int, seed: int) -> State:
        """Returns networks that know nothing."""
        rng = np.random.default_rng(seed)
        return cls(
            Learner(value_training.new_network(value_width, rng)),
            Learner(policy_training.new_network(policy_width, rng)),
        )

    @classmethod
    def read(cls, path: Path) -> State:
        """Returns the networks of a file that `write` wrote."""
        with np.load(path) as arrays:
            parts: dict[str, dict[str, F32]] = {"value": {}, "policy": {}}
            stages = json.loads(str(arrays[STAGES]))
            for name in (name for name in arrays.files if name != STAGES):
                which, _, array = name.partition(".")
                parts[which][array] = arrays[name]
        return cls(Learner(parts["value"]), Learner(parts["policy"]), stages)

    def write(self, path: Path) -> None:
        """Keeps the weights."""
        named = {f"value.{name}": array for name, array in self.value.weights.items()}
        named |= {f"policy.{name}": array for name, array in self.policy.weights.items()}
        with path.open("wb") as file:
            np.savez(file, **named, **{STAGES: np.array(json.dumps(self.stages))})  # type: ignore[arg-type]


def say(text: str) -> None:
    """Tells how far it is."""
    print(text, file=sys.stderr, flush=True)


def learn_value(
    learner: Learner, folders: list[Path], epochs: float, rate: float, seed: int
) -> dict[str, Any]:
    """Teaches the value network; returns what to note of it."""
    records, _ = read_sets(folders)
    tables = load_tables()

    def one_pass(chosen: NDArray[np.int64], learns: bool) -> tuple[float, ...]:
        found: tuple[float, ...] = value_training.pass_batch(
            tables, records, chosen, *learner.arrays(), learns
        )
        return found

    begin = time.process_time()
    loss, error, _ = learn(
        learner,
        one_pass,
        len(records),
        epochs=epochs,
        batch=VALUE_BATCH,
        rate=rate,
        kept=min(KEPT, len(records) // 10),
        seed=seed,
        say=lambda text: say(f"value {text}"),
    )
    return _noted(folders, epochs, rate, begin) | {"loss": round(loss, 5), "error_of_q": round(error, 4)}


def learn_policy(
    learner: Learner, folders: list[Path], epochs: float, rate: float, seed: int
) -> dict[str, Any]:
    """Teaches the policy network; returns what to note of it."""
    records, values = read_sets(folders)
    taught = (records["kind"] & PLAYED != 0) if not records["best"].any() else records["best"] != 0
    lessons = policy_training.lessons_of(*thinned(records, values, taught), SOFT_TEMPERATURE)
    del records, values

    def one_pass(chosen: NDArray[np.int64], learns: bool) -> tuple[float, ...]:
        found: tuple[float, ...] = policy_training.pass_lessons(
            *lessons.arrays(), chosen, *learner.arrays(), learns
        )
        return found

    begin = time.process_time()
    loss, first = learn(
        learner,
        one_pass,
        len(lessons),
        epochs=epochs,
        batch=POLICY_BATCH,
        rate=rate,
        kept=min(KEPT, len(lessons) // 10),
        seed=seed,
        say=lambda text: say(f"policy {text}"),
    )
    noted = _noted(folders, epochs, rate, begin)
    return noted | {
        "positions": len(lessons),
        "cross_entropy": round(loss, 4),
        "first_choice": round(first, 4),
    }


def _noted(folders: list[Path], epochs: float, rate: float, begin: float) -> dict[str, Any]:
    sets = [{"name": name, "positions": count, "sha256": digest} for name, count, digest in hashes(folders)]
    seconds = round(time.process_time() - begin)
    return {"sets": sets, "epochs": epochs, "rate": rate, "cpu_seconds": seconds}


def train(options: argparse.Namespace) -> dict[str, Any]:
    """Runs the stages; returns the card."""
    known = options.state is not None and options.state.exists()
    value_width, policy_width = options.widths
    state = State.read(options.state) if known else State.new(value_width, policy_width, options.seed)
    fine = options.rate * FINE_RATE
    stages = [
        ("value", learn_value, state.value, options.value, options.value_epochs, options.rate),
        ("policy", learn_policy, state.policy, options.policy, options.policy_epochs, options.rate),
        ("value, by an engine", learn_value, state.value, options.labels, options.label_epochs, fine),
        ("policy, by an engine", learn_policy, state.policy, options.labels, options.label_epochs, fine),
    ]
    for name, teach, learner, folders, epochs, rate in stages:
        if folders and options.only in (None, name.split(",")[0]):
            taught = teach(learner, folders, epochs, rate, options.seed)
            state.stages.append({"name": name, "seed": options.seed} | taught)
            if options.state is not None:
                state.write(options.state)
    card = {"stages": state.stages}
    quantised(state.value.weights, state.policy.weights, card).write(options.out)
    return card


def parser() -> argparse.ArgumentParser:
    """Returns the command line's parser."""
    out = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("out", type=Path)
    out.add_argument("--value", type=Path, nargs="*", default=[])
    out.add_argument("--policy", type=Path, nargs="*", default=[])
    out.add_argument("--labels", type=Path, nargs="*", default=[])
    out.add_argument("--widths", type=int, nargs=2, default=[512, 256], metavar=("VALUE", "POLICY"))
    out.add_argument("--value-epochs", type=float, default=4.0)
    out.add_argument("--policy-epochs", type=float, default=4.0)
    out.add_argument("--label-epochs", type=float, default=3.0)
    out.add_argument("--rate", type=float, default=2e-3)
    out.add_argument("--seed", type=int, default=1)
    out.add_argument("--state", type=Path, help="keeps the weights here, and goes on from there")
    out.add_argument("--only", choices=["value", "policy"])
    return out


def main() -> int:
    """Trains; returns the exit code."""
    options = parser().parse_args()
    say(str(train(options)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
