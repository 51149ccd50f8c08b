"""Teaches both networks on a GPU what another network says, in games that nobody has seen before.

    python -m tools.training gpu VALUE.npz POLICY.npz --seconds 600 [--openings FILE.pgn]

Threads play games and label positions as `distil --hints` does, and the GPU learns meanwhile (JAX). The value
network learns groups of moves with hints, the policy network the priors of positions. The GPU is faster than
the threads, so what was dealt is learned several times, in random order, the last ROOM of it. The rate is
constant, and falls to 0 in the share --cool of the time. At the end each state gets its network.

A line of progress: seconds; for V: millions of groups dealt and learned, and of held-out ones the loss of a
position, the comparison's loss, the correlation within a group and the error of the hints; for P: millions of
positions dealt and learned, and of held-out ones the cross-entropy and the share with the same first choice.
"""

from __future__ import annotations

import argparse
import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from graphsearch.evaluators.factory import create
from graphsearch.position.tables import load_tables
from tools.training.dealing import Table, beginnings_of, sharpened
from tools.training.distil import (
    HELD,
    HELD_ROUNDS,
    HELD_SEED,
    SEEDS,
    beginnings,
    first_network,
    widened_policy,
    without_hints,
)
from tools.training.examples_kernel import GroupArrays, LessonArrays, describe_groups
from tools.training.groups_kernel import HINTS, MOST_MEMBERS
from tools.training.learning import cooling_rate, steady_rate
from tools.training.make import read_openings
from tools.training.policy_learning import SEEN
from tools.training.records import described
from tools.training.train import State, say

GAMES = 2048  # of a thread; each deal yields a group of each
LESSONS_AT_ONCE = 1024  # put into the GPU's memory together
ROOM = {"value": 8_000 * GAMES, "policy": 12_000 * LESSONS_AT_ONCE}  # rows in the GPU's memory
BATCH = {"value": 2048, "policy": 4096}
AT_ONCE = {"value": 16, "policy": 8}  # steps between two looks at what was dealt
WAITING = 32  # deals that wait for the GPU
LEAST = 40_000  # rows before learning begins
FIGURES = {
    "value": ("loss", "comparison", "correlation", "error_of_hints"),
    "policy": ("cross_entropy", "first_choice"),
}


class Dealer:
    """Games with their groups and lessons, as arrays of fixed shapes.

    Attributes:
      table: with the games as they stand.
    """

    def __init__(self, weights: Any, beginnings: Any, games: int, lessons: float) -> None:
        self.table, self._share = Table(weights, beginnings, games), lessons
        self._games = games

    def deal(self, seed: int) -> tuple[GroupArrays, LessonArrays]:
        """Returns a group of each game, and lessons of some."""
        dealt = self.table.deal(seed)
        shape = self._games, MOST_MEMBERS
        hints = np.zeros((*shape, HINTS), np.float16)
        sizes = np.diff(dealt.begins)
        hints[np.arange(MOST_MEMBERS) < sizes[:, None]] = dealt.hints
        features = np.zeros((*shape, 2, SEEN), np.uint16)
        some = GroupArrays(features, np.zeros(shape, np.uint8), np.zeros((*shape, 4), np.float32), hints)
        describe_groups(load_tables(), dealt.members, dealt.begins, *some[:3])
        return some, self.table.lessons(seed, self._share)


class Dealers:
    """Threads that deal, each with games of its own, until they are stopped."""

    def __init__(self, dealers: list[Dealer], seed: int) -> None:
        self._deals: queue.Queue[Any] = queue.Queue(WAITING)
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(dealer, seed * SEEDS + at, len(dealers)), daemon=True)
            for at, dealer in enumerate(dealers)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, dealer: Dealer, seed: int, stride: int) -> None:
        try:
            while not self._stopped.is_set():
                self._deals.put(dealer.deal(seed))
                seed += stride
        except BaseException as error:  # the main thread raises it
            self._deals.put(error)
            raise

    def take(self, wait: bool) -> Iterator[tuple[GroupArrays, LessonArrays]]:
        """Yields what was dealt since the last time; `wait`: at least one deal."""
        while True:
            try:
                found = self._deals.get(wait)
            except queue.Empty:
                return
            if isinstance(found, BaseException):
                raise found
            yield found
            wait = False

    def stop(self) -> None:
        """Stops the threads."""
        self._stopped.set()
        for thread in self._threads:
            while thread.is_alive():
                list(self.take(False))
                thread.join(0.1)


class Course:
    """A network that learns on the GPU from the last rows that were dealt.

    Attributes:
      learner: with the weights. dealt, learned: numbers of rows so far.
    """

    def __init__(self, name: str, weights: Any, held: Any, loss: Callable[..., Any], room: int) -> None:
        from tools.training import gpu_networks

        self._jax, self._name, self._loss = gpu_networks, name, loss
        self.learner = gpu_networks.new_learner(weights)
        self._data, self._room, self._held = gpu_networks.room(held, room), room, held
        self.dealt = self.learned = self._turn = 0

    def put(self, some: Any) -> None:
        """Copies rows to the GPU, over the oldest if its room is full; their number divides the room."""
        count = len(some[0])
        self._data = self._jax.put(self._data, some, self.dealt % self._room)
        self.dealt += count

    def learn(self, rate: float, most: float, seed: int) -> bool:
        """Makes some steps if no row has been learned `most` times on average; returns whether it did."""
        import jax

        batch, steps = BATCH[self._name], AT_ONCE[self._name]
        if self.dealt < LEAST or self.learned + batch * steps > most * self.dealt:
            return False
        key = jax.random.key(seed * SEEDS + self._turn)
        filled, self._turn = min(self.dealt, self._room), self._turn + 1
        more = self._loss, steps, batch
        self.learner = self._jax.learn(self.learner, self._data, filled, key, rate, *more)
        self.learned += batch * steps
        return True

    def wait(self) -> None:
        """Waits until the GPU has made all steps."""
        self.learner.steps.block_until_ready()

    def judged(self) -> list[float]:
        """Returns the figures of held-out rows."""
        found = self._jax.judge(self.learner.weights, self._held, self._loss)
        return [round(float(x), 5) for x in found]

    def progress(self) -> str:
        """Returns a text with the numbers of rows and the figures of held-out ones."""
        figures = " ".join(f"{x:.4f}" for x in self.judged())
        return f"{self.dealt / 1e6:.2f} {self.learned / 1e6:.1f} {figures}"

    def network(self) -> Any:
        """Returns the weights as NumPy arrays."""
        return type(self.learner.weights)(*(np.asarray(array) for array in self.learner.weights))


def joined(parts: list[Any]) -> Any:
    """Returns the concatenation of arrays of the same form."""
    return type(parts[0])(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def held_out(weights: Any, openings: Any, share: float) -> tuple[GroupArrays, LessonArrays]:
    """Returns groups and lessons of games that are never learned."""
    dealer = Dealer(weights, beginnings_of(HELD, HELD_SEED, openings), HELD, share)
    parts = [dealer.deal(HELD_SEED + turn) for turn in range(HELD_ROUNDS)]
    return joined([a for a, _ in parts]), joined([b for _, b in parts])


def courses_of(networks: dict[str, Any], held: Any, options: argparse.Namespace) -> dict[str, Course]:
    """Returns both networks, ready to learn."""
    from tools.training import gpu_networks as jaxed

    losses: dict[str, Callable[..., Any]] = {
        "value": partial(jaxed.value_loss, share=options.share, weight=options.hints),
        "policy": jaxed.policy_loss,
    }
    rows = {"value": held[0], "policy": sharpened(held[1])}
    return {
        name: Course(name, networks[name], rows[name], losses[name], int(ROOM[name] * options.room))
        for name in networks
    }


def study(courses: dict[str, Course], dealers: Dealers, options: argparse.Namespace) -> None:
    """Learns until the time is over."""
    begin = said = time.monotonic()
    lessons: list[LessonArrays] = []
    while (spent := time.monotonic() - begin) < options.seconds:
        for some, more in dealers.take(courses["value"].dealt == 0):
            courses["value"].put(some)
            lessons.append(more)
        waiting = joined(lessons) if lessons else None
        while waiting is not None and len(waiting.features) >= LESSONS_AT_ONCE:
            courses["policy"].put(sharpened(LessonArrays(*(array[:LESSONS_AT_ONCE] for array in waiting))))
            waiting = LessonArrays(*(array[LESSONS_AT_ONCE:] for array in waiting))
        lessons = [waiting] if waiting is not None else []
        for course in courses.values():  # copies of rows go on meanwhile
            course.wait()
        done = (spent / options.seconds - (1 - options.cool)) / options.cool
        made = False
        for name, course in courses.items():
            full = getattr(options, f"{name}_rate")
            steps = course.learned // BATCH[name]
            rate = cooling_rate(done, full) if done >= 0 else steady_rate(steps, full)
            made = course.learn(rate, getattr(options, f"{name}_times"), options.seed) or made
        if not made:
            time.sleep(0.01)
        if time.monotonic() - said > options.report:
            said = time.monotonic()
            say(f"{said - begin:.0f} s | " + " | ".join(course.progress() for course in courses.values()))


def run(options: argparse.Namespace) -> int:
    """Learns, and writes both networks; returns the exit code."""
    try:
        import jax
    except ImportError:
        say("this command needs JAX: pip install 'jax[cuda13]'")
        return 1
    states = {name: State.read(getattr(options, name)) for name in FIGURES}
    networks = {name: state.networks[name] for name, state in states.items()}
    networks["value"] = first_network(networks["value"], options)
    if (width := options.policy_width or 0) > len(networks["policy"].bias):
        networks["policy"] = widened_policy(networks["policy"], width)
    weights = create(options.evaluator).weights
    openings = read_openings(options.openings)
    learned, others = openings[: options.lines], openings[options.lines :]
    held = held_out(weights, others, 1.0)
    courses = courses_of(networks, held, options)
    say("0 s | " + " | ".join(course.progress() for course in courses.values()))
    begun = beginnings(options, options.seed * SEEDS, learned)
    some = [Dealer(weights, begun, GAMES, options.lessons) for _ in range(options.threads)]
    dealers = Dealers(some, options.seed)
    study(courses, dealers, options)
    dealers.stop()
    found = {name: course.network() for name, course in courses.items()}
    found["value"] = without_hints(found["value"])
    sets = described(options.sets)
    for name, state in states.items():
        state.networks[name] = found[name]
        state.stages.append(
            {
                "name": name,
                "distilled": options.evaluator,
                "device": jax.devices()[0].device_kind,
                "dealt": courses[name].dealt,
                "learned": courses[name].learned,
                "sets": sets,
                "rate": getattr(options, f"{name}_rate"),
                **{key: getattr(options, key) for key in ("seconds", "cool", "seed", "share", "hints")},
                **dict(zip(FIGURES[name], courses[name].judged(), strict=True)),
            }
        )
        state.write(getattr(options, name))
        say(json.dumps(state.stages[-1]))
    return 0


def add_arguments(out: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    out.add_argument("value", type=Path, help="state of the value network")
    out.add_argument("policy", type=Path, help="state of the policy network")
    out.add_argument("--evaluator", default="nnue:stockfish", help="one of Stockfish's networks")
    out.add_argument("--seconds", type=float, default=600.0)
    out.add_argument("--value-rate", type=float, default=4e-4)
    out.add_argument("--policy-rate", type=float, default=7e-4)
    out.add_argument("--share", type=float, default=30.0, help="of the comparison in V's loss")
    out.add_argument("--hints", type=float, default=0.2, help="weight of hints in V's loss")
    out.add_argument("--width", type=int, help="accumulators of V, at least those of its state")
    out.add_argument("--policy-width", type=int, help="accumulators of P, at least those of its state")
    out.add_argument("--lessons", type=float, default=0.5, help="lessons for P per group for V, at most 1")
    out.add_argument("--value-times", type=float, default=8.0, help="a group is learned on average, at most")
    out.add_argument("--policy-times", type=float, default=4.0, help="likewise for lessons")
    out.add_argument("--cool", type=float, default=0.5, help="share of the time in which the rate falls")
    out.add_argument("--room", type=float, default=1.0, help="rows kept, as a share of what 80 GB hold")
    out.add_argument("--report", type=float, default=20.0, help="seconds between two lines of progress")
    out.add_argument("--openings", type=Path)
    out.add_argument("--lines", type=int, help="of the openings, only that many; others are for judging")
    out.add_argument("--sets", type=Path, nargs="*", default=[], help="folders of `make`, where games begin")
    out.add_argument("--threads", type=int, default=15)
    out.add_argument("--seed", type=int, default=1)
