"""Teaches both networks what a network of Stockfish's says, in games that nobody has seen before (JAX).

    python -m tools.training distil STATE.npz --seconds 1200 [--openings FILE.pgn] [--starts FILE.fen]

Threads play games and label positions, and a GPU learns meanwhile (`pip install 'jax[cuda13]'`). Without one
the CPU learns, in smaller pieces (`pip install jax`). The value network learns groups of moves with hints,
the policy network the priors of positions. What was dealt is learned several times, in random order, the last
of it that fits into memory. The rate is constant, and falls to 0 in the share --cool of the time. STATE is
made from --networks, or from random numbers, where there is none; it is written at the end.

A line of progress: seconds; for V: millions of groups dealt and learned, and of held-out ones the loss of a
position, the comparison's loss, the correlation within a group and the error of the hints; for P: millions of
positions dealt and learned, and of held-out ones the cross-entropy and the share with the same first choice.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from graphsearch.evaluators.builtin.layout import FIRST, OUTPUTS
from graphsearch.evaluators.factory import create
from tools.judge_positions import read_openings
from tools.training import learning
from tools.training.dealing import (
    SEEDS,
    Dealer,
    Dealers,
    Line,
    joined,
    sharpened,
    starts,
    with_starts,
)
from tools.training.games_kernel import HINTS, GroupArrays, LessonArrays
from tools.training.networks import State, ValueArrays

BEGINNINGS = 6_000
HELD, HELD_ROUNDS, HELD_SEED = 500, 8, 990_001  # games held out, groups of each, and their seed
SEED_OF_HINTS, FIRST_HINTS = 7, 0.005  # seed and size of random weights of the outputs for hints
RATES, WARM_UP = {"value": 4e-4, "policy": 7e-4}, 200  # of learning, and steps until they are reached
TIMES = {"value": 5.0, "policy": 8.0}  # that a row is learned on average, at most
REPORT = 20.0  # seconds between two lines of progress
SMALLER = 8 if learning.ON_CPU else 1  # times; the sizes below are those of a GPU of 80 GB
GAMES = 2048 // SMALLER  # of a thread; each deal yields a group of each
LESSONS_AT_ONCE = 1024 // SMALLER  # put into memory together
ROOM = {"value": 8_000 // SMALLER * GAMES, "policy": 12_000 // SMALLER * LESSONS_AT_ONCE}  # rows in memory
BATCH = {"value": 2048 // SMALLER, "policy": 4096 // SMALLER}
AT_ONCE = {"value": 16 // SMALLER, "policy": 8 // SMALLER}  # steps between two looks at what was dealt
LEAST = 40_000 // SMALLER  # rows before learning begins
FIGURES = {
    "value": ("loss", "comparison", "correlation", "error_of_hints"),
    "policy": ("cross_entropy", "first_choice"),
}


def with_hints(network: ValueArrays) -> ValueArrays:
    """Returns a network with outputs for hints, near 0, after all others."""
    rng, stacks = np.random.default_rng(SEED_OF_HINTS), len(network.first)
    new = rng.uniform(-FIRST_HINTS, FIRST_HINTS, (stacks, HINTS, network.first.shape[2]))
    first = np.concatenate([network.first, new], 1, dtype=np.float32)
    bias = np.concatenate([network.first_bias, np.zeros((stacks, HINTS), np.float32)], 1)
    return network._replace(first=first, first_bias=bias)


def without_hints(network: ValueArrays) -> ValueArrays:
    """Returns a network without outputs for hints."""
    first, bias = network.first[:, : FIRST + OUTPUTS], network.first_bias[:, : FIRST + OUTPUTS]
    return network._replace(first=np.ascontiguousarray(first), first_bias=np.ascontiguousarray(bias))


def rate_at(step: int, cooled: float, rate: float) -> float:
    """Returns the learning rate: a warm-up, then constant; after a share `cooled` of the cooling phase, less.

    >>> rate_at(0, -1, 1.0), rate_at(1000, 0, 1.0), rate_at(1000, 0.25, 1.0), rate_at(1000, 1, 1.0)
    (0.005, 1.0, 0.5, 0.0)
    """
    return rate * min(1.0, (step + 1) / WARM_UP) * float(1 - np.sqrt(min(max(cooled, 0.0), 1.0)))


class Course:
    """A network that learns from the last rows that were dealt.

    Attributes:
      learner: with the weights. dealt, learned: numbers of rows so far.
    """

    def __init__(self, name: str, weights: Any, held: Any, loss: Callable[..., Any]) -> None:
        self.learner, self._name, self._loss = learning.Learner.new(weights), name, loss
        self._data, self._held = learning.room(held, ROOM[name]), held
        self.dealt = self.learned = self._turn = 0

    def put(self, some: Any) -> None:
        """Copies rows to the device, over the oldest if its room is full; their number divides the room."""
        self._data = learning.put(self._data, some, self.dealt % ROOM[self._name])
        self.dealt += len(some[0])

    def learn(self, cooled: float, rate: float, seed: int) -> bool:
        """Makes some steps unless each row has been learned TIMES on average; returns whether it did."""
        batch, steps = BATCH[self._name], AT_ONCE[self._name]
        rows = batch * steps
        if self.dealt < LEAST or self.learned + rows > TIMES[self._name] * self.dealt:
            return False
        filled, self._turn = min(self.dealt, ROOM[self._name]), self._turn + 1
        now = rate_at(self.learned // batch, cooled, rate)
        more = seed, self._turn, now, self._loss, steps, batch
        self.learner = learning.learn(self.learner, self._data, filled, *more)
        self.learned += rows
        return True

    def wait(self) -> None:
        """Waits until the device has made all steps."""
        self.learner.steps.block_until_ready()

    def judged(self) -> list[float]:
        """Returns the figures of held-out rows."""
        found = learning.judge(self.learner.weights, self._held, self._loss)
        return [round(float(x), 5) for x in found]

    def progress(self) -> str:
        """Returns a text with the numbers of rows and the figures of held-out ones."""
        figures = " ".join(f"{x:.4f}" for x in self.judged())
        return f"{self.dealt / 1e6:.2f} {self.learned / 1e6:.1f} {figures}"

    def network(self) -> Any:
        """Returns the weights as NumPy arrays."""
        return type(self.learner.weights)(*(np.asarray(array) for array in self.learner.weights))


def held_out(weights: Any, openings: Sequence[Line]) -> tuple[GroupArrays, LessonArrays]:
    """Returns groups and lessons of games that are never learned."""
    dealer = Dealer(weights, starts(HELD, HELD_SEED, openings), HELD, 1.0)
    parts = [dealer.deal(HELD_SEED + turn) for turn in range(HELD_ROUNDS)]
    return joined([groups for groups, _ in parts]), sharpened(joined([lessons for _, lessons in parts]))


def courses_of(networks: dict[str, Any], held: tuple[Any, Any]) -> dict[str, Course]:
    """Returns both networks, ready to learn."""
    return {
        "value": Course("value", with_hints(networks["value"]), held[0], learning.value_loss),
        "policy": Course("policy", networks["policy"], held[1], learning.policy_loss),
    }


def study(courses: dict[str, Course], dealers: Dealers, options: argparse.Namespace) -> None:
    """Learns until the time is over."""
    begin = said = time.monotonic()
    lessons = list[LessonArrays]()
    while (spent := time.monotonic() - begin) < options.seconds:
        for groups, more in dealers.take(courses["value"].dealt == 0):
            courses["value"].put(groups)
            lessons.append(more)
        waiting = joined(lessons) if lessons else LessonArrays.new(0)
        while len(waiting.features) >= LESSONS_AT_ONCE:
            courses["policy"].put(sharpened(LessonArrays(*(array[:LESSONS_AT_ONCE] for array in waiting))))
            waiting = LessonArrays(*(array[LESSONS_AT_ONCE:] for array in waiting))
        lessons = [waiting]
        for course in courses.values():  # copies of rows go on meanwhile
            course.wait()
        cooled = (spent / options.seconds - (1 - options.cool)) / options.cool
        made = False
        for name, course in courses.items():
            made = course.learn(cooled, RATES[name] * options.rate, options.seed) or made
        if not made:
            time.sleep(0.01)
        if time.monotonic() - said > REPORT:
            said = time.monotonic()
            say(f"{said - begin:.0f} s | " + " | ".join(course.progress() for course in courses.values()))


def say(text: str) -> None:
    """Prints a progress line on stderr."""
    print(text, file=sys.stderr, flush=True)


def state_of(options: argparse.Namespace) -> State:
    """Returns the state that a run begins with."""
    if options.state.exists():
        return State.read(options.state)
    return State.of(options.networks) if options.networks else State.new(options.widths, options.seed)


def run(options: argparse.Namespace) -> int:
    """Learns, and writes both networks; returns the exit code."""
    state, weights = state_of(options), create(options.evaluator).weights
    openings = [board.move_stack for board in read_openings(options.openings)] if options.openings else []
    learned, others = openings[: options.lines], openings[options.lines :]
    courses = courses_of(state.networks, held_out(weights, others))
    say("0 s | " + " | ".join(course.progress() for course in courses.values()))
    begun = starts(BEGINNINGS, options.seed * SEEDS, learned)
    if options.starts:
        begun = with_starts(options.starts, begun)
    some = [Dealer(weights, begun, GAMES, options.lessons) for _ in range(options.threads)]
    dealers = Dealers(some, options.seed)
    study(courses, dealers, options)
    dealers.stop()
    for name, course in courses.items():
        state.networks[name] = course.network()
        state.stages.append(stage_of(name, course, options) | {"device": jax.devices()[0].device_kind})
        say(json.dumps(state.stages[-1]))
    state.networks["value"] = without_hints(state.networks["value"])
    state.write(options.state)
    return 0


def stage_of(name: str, course: Course, options: argparse.Namespace) -> dict[str, Any]:
    """Returns what the card says of a network's stage."""
    return {
        "name": name,
        "distilled": options.evaluator,
        "dealt": course.dealt,
        "learned": course.learned,
        **{key: getattr(options, key) for key in ("seconds", "rate", "cool", "seed")},
        **({"starts": options.starts.name} if options.starts else {}),
        **dict(zip(FIGURES[name], course.judged(), strict=True)),
    }


def add_arguments(out: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    out.add_argument("state", type=Path, help="file of both networks, made if missing")
    out.add_argument("--networks", type=Path, help="file of `pack` that a new state begins with")
    out.add_argument("--widths", type=int, nargs=2, default=[1024, 1024], metavar=("V", "P"))
    out.add_argument("--evaluator", default="nnue:stockfish", help="one of Stockfish's networks")
    out.add_argument("--seconds", type=float, default=600.0)
    out.add_argument("--rate", type=float, default=1.0, help="of learning, as a multiple of RATES")
    out.add_argument("--lessons", type=float, default=0.5, help="lessons for P per group for V, at most 1")
    out.add_argument("--cool", type=float, default=0.55, help="share of the time in which the rate falls")
    out.add_argument("--openings", type=Path, help="PGN file whose lines most games begin along")
    out.add_argument("--lines", type=int, help="of the openings, only that many; others are for judging")
    out.add_argument("--starts", type=Path, help="file of FENs, open positions that most games begin at")
    out.add_argument("--threads", type=int, default=max(1, (os.cpu_count() or 2) - 1), help="that deal")
    out.add_argument("--seed", type=int, default=1)
