"""Teaches a network what another one says, in games that nobody has seen before.

    python -m tools.training distil STATE.npz LEARNING.npz --samples 100e6 --rate 1e-4 [--openings FILE.pgn]

The value network learns the results of quiescence (`groups_kernel.py`), the policy network (--network policy)
the priors. Positions are made when they are learned, and forgotten. With --sets, most games begin at open
positions of these sets: games that are played without a search are decided before their endgames. LEARNING
keeps the weights with all that learning goes on from; it is made from STATE's network where there is none,
V wider if --width says so. With --hints, V learns its teacher's hidden sums, too. The rate is constant, and
falls to 0 at the end, in the share --cool. LEARNING is written before it falls, so that the same command
learns on from there at any time. At the end STATE gets the average of the last weights, which compares moves
better than they do. Ctrl-C and SIGTERM keep LEARNING.

A line of progress: samples; of groups of other games, the loss of a position and of a group's comparison,
errors of Q and of sigmoid(score), correlation within a group, loss of widths that differ in it, error of the
hints (P: of positions of other games, cross-entropy and same first choice); the same of the average of the
last weights; CPU-seconds.
"""

from __future__ import annotations

import argparse
import json
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphsearch.evaluators.factory import create
from graphsearch.position.tables import load_tables
from tools.training.dealing import (
    OPEN_SHARE,
    Table,
    beginnings_of,
    joined,
    mixed,
    open_starts,
    packed,
    sharpened,
)
from tools.training.groups_kernel import HINTS, Starts
from tools.training.groups_learning import HINTS_AT, pass_groups
from tools.training.learning import LIMITS, Learner, cooling_rate, move_average, steady_rate
from tools.training.make import Line, read_openings
from tools.training.policy_learning import Lessons, PolicyArrays, pass_lessons
from tools.training.records import described
from tools.training.train import State, read_named, say, write_named
from tools.training.value_learning import ValueArrays

GROUPS = 1024  # per step
BEGINNINGS = 6_000
HELD, HELD_ROUNDS, HELD_SEED = 500, 8, 990_001  # games held out, groups of each, and their seed
AVERAGED, AVERAGE_STEPS = 10, 500  # steps between two updates of the average, and its span in steps
SEEDS = 10_000_000  # range of seeds for the steps of one --seed
REPORT, SAVE = 1_000_000, 10_000_000  # samples between two progress lines, and between two saves
PARTS = ("weights", "average", "first", "second")  # in the file of learning
NUMBERS = ("steps", "samples", "cpu_seconds")
FIGURES = ("loss", "comparison", "error_of_q", "error_of_score", "correlation", "unevenness", "hints")
SEED_OF_NEW, NEW_ROWS, NEW_FIRST = 7, 0.02, 0.005  # seed and size of random numbers in new parts of a network


class Widening:
    """Makes more accumulators for a network: sums of two others with some noise, hardly used yet.

    Args:
      old, width: numbers of accumulators.
    """

    def __init__(self, old: int, width: int) -> None:
        self._rng = np.random.default_rng(SEED_OF_NEW)
        pairs = np.array([self._rng.permutation(old) for _ in range(2 * -(-(width - old) // old))])
        self._a, self._b = pairs.reshape(2, -1)[:, : width - old]

    def rows(self, array: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns rows, or biases, with those of the new accumulators."""
        new = (array[..., self._a] + array[..., self._b]) / np.sqrt(2)
        new += self._rng.normal(0, NEW_ROWS, new.shape)
        return np.concatenate([array, np.clip(new, -LIMITS["rows"], LIMITS["rows"])], -1, dtype=np.float32)

    def weights(self, array: NDArray[np.float32]) -> NDArray[np.float32]:
        """Returns the weights of the next layer, with those of the new accumulators."""
        new = self._rng.uniform(-NEW_FIRST, NEW_FIRST, (*array.shape[:-1], len(self._a)))
        return np.concatenate([array, new], -1, dtype=np.float32)


def widened(network: ValueArrays, width: int) -> ValueArrays:
    """Returns a value network with more accumulators."""
    old = len(network.bias)
    more = Widening(old, width)
    first = more.weights(network.first.reshape(*network.first.shape[:2], 2, old))
    rows, bias = more.rows(network.rows), more.rows(network.bias)
    return network._replace(rows=rows, bias=bias, first=first.reshape(*network.first.shape[:2], 2 * width))


def widened_policy(network: PolicyArrays, width: int) -> PolicyArrays:
    """Returns a policy network with more accumulators."""
    more = Widening(len(network.bias), width)
    rows, bias = more.rows(network.rows), more.rows(network.bias)
    leaves, goes, kinds = map(more.weights, (network.leaves, network.goes, network.kinds))
    return PolicyArrays(rows, bias, leaves, goes, kinds, network.plain)


def with_hints(network: ValueArrays) -> ValueArrays:
    """Returns a network with outputs for hints, near 0."""
    rng, stacks = np.random.default_rng(SEED_OF_NEW), len(network.first)
    new = rng.uniform(-NEW_FIRST, NEW_FIRST, (stacks, HINTS, network.first.shape[2]))
    first = np.concatenate([network.first, new], 1, dtype=np.float32)
    bias = np.concatenate([network.first_bias, np.zeros((stacks, HINTS), np.float32)], 1)
    return network._replace(first=first, first_bias=bias)


def without_hints(network: ValueArrays) -> ValueArrays:
    """Returns a network without outputs for hints."""
    first, bias = network.first[:, :HINTS_AT], network.first_bias[:, :HINTS_AT]
    return network._replace(first=np.ascontiguousarray(first), first_bias=np.ascontiguousarray(bias))


class Distilling:
    """A value network in training.

    Attributes:
      learner: with the weights. average: moving average of the weights, of the same form.
      samples, cpu_seconds: totals of all runs.
    """

    name: str = "value"
    form: Any = ValueArrays
    figures: tuple[str, ...] = FIGURES

    def __init__(self, network: Any, options: argparse.Namespace) -> None:
        self.learner = Learner(network, options.threads)
        self.average = type(network)(*(array.copy() for array in network))
        self.samples, self.cpu_seconds = 0, 0.0
        self._shares = options.share, options.hints
        self._pool = ThreadPoolExecutor(options.threads)

    @classmethod
    def begin(cls, network: Any, options: argparse.Namespace) -> Distilling:
        """Returns what has learned nothing yet, from the network of a state."""
        return cls(first_network(network, options), options)

    @classmethod
    def read(cls, path: Path, options: argparse.Namespace) -> Distilling:
        """Returns the state of a file written by `write`."""
        with np.load(path) as arrays:
            parts = [read_named(arrays, name, cls.form) for name in PARTS]
            numbers = json.loads(str(arrays["numbers"]))
        found = cls(parts[0], options)
        found.average = parts[1]
        found.learner.first, found.learner.second = parts[2:]
        found.learner.steps, found.samples, found.cpu_seconds = (numbers[name] for name in NUMBERS)
        return found

    def write(self, path: Path) -> None:
        """Writes the complete state of learning, for resumption; replaces the file atomically."""
        learner = self.learner
        parts = (learner.weights, self.average, learner.first, learner.second)
        numbers = dict(zip(NUMBERS, (learner.steps, self.samples, self.cpu_seconds), strict=True))
        write_named(path, dict(zip(PARTS, parts, strict=True)), numbers=numbers)

    def network(self) -> Any:
        """Returns the average as the network of a state."""
        return without_hints(self.average)

    def deal(self, table: Table, seed: int) -> Any:
        """Returns something new to learn."""
        return table.deal(seed)

    def held_out(self, table: Table) -> Any:
        """Returns what is never learned."""
        return joined([table.deal(HELD_SEED + turn) for turn in range(HELD_ROUNDS)])

    def one_pass(self, dealt: Any, net: Any, grad: Any, chosen: NDArray[np.int64], learns: bool) -> Any:
        """Returns the sums of the figures; if `learns`, adds the gradients."""
        return pass_groups(load_tables(), dealt, net, grad, chosen, learns, *self._shares)

    def size(self, dealt: Any) -> tuple[int, int]:
        """Returns the numbers of units of a pass and of samples in it."""
        return len(dealt.begins) - 1, len(dealt.members)

    def judge(self, network: Any, held: Any) -> NDArray[np.float64]:
        """Returns the mean figures of what was held out."""
        every = np.arange(self.size(held)[0])
        return self.learner.run(partial(self.one_pass, held), every, False, network)

    def judged(self, held: Any) -> str:
        """Returns a text with the figures of what was held out, for the weights and for their average."""
        both = (self.judge(network, held) for network in (self.learner.weights, self.average))
        return " | ".join(" ".join(f"{x:.4f}" for x in found) for found in both)

    def step(self, tables: Sequence[Table], seed: int, rate: float) -> None:
        """Deals from every table, and learns it."""

        def work(at: int) -> int:
            dealt = self.deal(tables[at], seed * len(tables) + at)
            units, samples = self.size(dealt)
            self.one_pass(dealt, self.learner.weights, self.learner.gradients[at], np.arange(units), True)
            return samples

        samples = sum(self._pool.map(work, range(len(tables))))
        self.samples += samples
        if samples:  # no lessons if all games have ended
            self.learner.step(rate, samples)
        if self.learner.steps % AVERAGED == 0:
            for kept, new in zip(self.average, self.learner.weights, strict=True):
                move_average(kept.reshape(-1), new.reshape(-1), np.float32(AVERAGED / AVERAGE_STEPS))


class PolicyDistilling(Distilling):
    """A policy network in training."""

    name, form = "policy", PolicyArrays
    figures = ("cross_entropy", "first_choice")

    @classmethod
    def begin(cls, network: Any, options: argparse.Namespace) -> Distilling:
        """Returns what has learned nothing yet, from the network of a state."""
        return cls(network, options)

    def network(self) -> Any:
        """Returns the average as the network of a state."""
        return self.average

    def deal(self, table: Table, seed: int) -> Lessons:
        """Returns a lesson of each game, one group of moves later."""
        table.deal(seed)
        return packed(sharpened(table.lessons(seed)))

    def held_out(self, table: Table) -> Lessons:
        """Returns lessons of games that have run for some rounds."""
        for turn in range(HELD_ROUNDS - 1):
            table.deal(HELD_SEED + turn)
        return self.deal(table, HELD_SEED + HELD_ROUNDS)

    def one_pass(self, dealt: Any, net: Any, grad: Any, chosen: NDArray[np.int64], learns: bool) -> Any:
        """Returns the sums of the figures; if `learns`, adds the gradients."""
        return pass_lessons(dealt, chosen, net, grad, learns)

    def size(self, dealt: Any) -> tuple[int, int]:
        """Returns the number of lessons, twice."""
        return len(dealt.seen), len(dealt.seen)


NETWORKS: dict[str, type[Distilling]] = {kind.name: kind for kind in (Distilling, PolicyDistilling)}


class Limits:
    """The limits of a run, in samples and time; `told`: whether SIGINT or SIGTERM asked it to end."""

    def __init__(self, options: argparse.Namespace, begin: int) -> None:
        self._options, self._begin = options, begin
        self._since, self.told = time.monotonic(), False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._tell)

    def _tell(self, *_: Any) -> None:
        self.told = True

    def done(self, samples: int) -> float:
        """Returns the completed share of the run, 1 at the end."""
        by_time = (time.monotonic() - self._since) / float(self._options.seconds)
        return min(1.0, max((samples - self._begin) / float(self._options.samples), by_time))

    def cooled(self, samples: int) -> float:
        """Returns the completed share of the cooling phase, in which the rate falls; negative before it."""
        share: float = self._options.cool
        return (self.done(samples) - (1 - share)) / share if share else -1.0


def learn(learning: Distilling, tables: Sequence[Table], held: Any, options: argparse.Namespace) -> bool:
    """Learns; writes the state before cooling; returns whether cooling was completed."""
    limits = Limits(options, learning.samples)
    reported = saved = learning.samples
    spent, cools = time.process_time(), False
    say(f"{learning.samples:,} {learning.judged(held)}")
    while limits.done(learning.samples) < 1 and not limits.told:
        cooled, step = limits.cooled(learning.samples), learning.learner.steps
        if cooled >= 0 and not cools:
            cools = True
            learning.write(options.learning)
        rate = cooling_rate(cooled, options.rate) if cools else steady_rate(step, options.rate)
        learning.step(tables, options.seed * SEEDS + step, rate)
        learning.cpu_seconds += time.process_time() - spent
        spent = time.process_time()
        if learning.samples - reported >= REPORT:
            reported = learning.samples
            say(f"{learning.samples:,} {learning.judged(held)} {learning.cpu_seconds:.0f} s")
            spent = time.process_time()
        if not cools and learning.samples - saved >= SAVE:
            saved = learning.samples
            learning.write(options.learning)
    if not cools:
        learning.write(options.learning)
    return options.cool > 0 and not limits.told


def first_network(network: ValueArrays, options: argparse.Namespace) -> ValueArrays:
    """Returns the network that a run begins with: rows within LIMITS, wider and with hints if asked for."""
    most, width = LIMITS["rows"], options.width or len(network.bias)
    network = network._replace(rows=np.clip(network.rows, -most, most))
    wide = widened(network, width) if width > len(network.bias) else network
    return with_hints(wide) if options.hints else wide


def beginnings(options: argparse.Namespace, seed: int, openings: Sequence[Line]) -> Starts:
    """Returns where the games of a run begin."""
    some = beginnings_of(BEGINNINGS, seed, openings)
    return mixed(some, open_starts(options.sets, seed), OPEN_SHARE) if options.sets else some


def run(options: argparse.Namespace) -> int:
    """Learns, and writes the network if the rate has fallen to 0; returns the exit code."""
    state, weights, kind = (
        State.read(options.state),
        create(options.evaluator).weights,
        NETWORKS[options.network],
    )
    learning = (
        kind.read(options.learning, options)
        if options.learning.exists()
        else kind.begin(state.networks[kind.name], options)
    )
    openings, begin = read_openings(options.openings), learning.samples
    learned, others = openings[: options.lines], openings[options.lines :]
    held = learning.held_out(Table(weights, beginnings_of(HELD, HELD_SEED, others), HELD))
    some = beginnings(options, options.seed * SEEDS + learning.learner.steps, learned)
    tables = [Table(weights, some, options.groups // options.threads) for _ in range(options.threads)]
    if not learn(learning, tables, held, options):
        return 0
    figures = learning.judge(learning.average, held)
    state.networks[kind.name] = learning.network()
    state.stages.append(
        {
            "name": kind.name,
            "distilled": options.evaluator,
            "samples": learning.samples,
            "of_this_run": learning.samples - begin,
            **{name: getattr(options, name) for name in ("share", "hints", "rate", "cool", "seed")},
            "sets": described(options.sets),
            "cpu_seconds": round(learning.cpu_seconds),
            **dict(zip(kind.figures, (round(float(x), 5) for x in figures), strict=True)),
        }
    )
    state.write(options.state)
    say(json.dumps(state.stages[-1]))
    return 0


def add_arguments(out: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    out.add_argument("state", type=Path)
    out.add_argument("learning", type=Path)
    out.add_argument("--network", choices=list(NETWORKS), default="value")
    out.add_argument("--evaluator", default="nnue:stockfish", help="one of Stockfish's networks")
    out.add_argument("--samples", type=float, default=1e8, help="to learn in this run")
    out.add_argument("--seconds", type=float, default=1e9, help="that this run may take")
    out.add_argument("--rate", type=float, default=1e-4)
    out.add_argument("--share", type=float, default=30.0, help="of the comparison in the loss")
    out.add_argument("--hints", type=float, default=0.0, help="weight of hints in the loss; 0: without")
    out.add_argument("--width", type=int, help="accumulators of a new LEARNING, at least those of STATE")
    out.add_argument("--cool", type=float, default=0.25, help="share in which the rate falls, 0 for none")
    out.add_argument("--groups", type=int, default=GROUPS, help="of a step")
    out.add_argument("--openings", type=Path)
    out.add_argument("--lines", type=int, help="of the openings, only that many; others are for judging")
    out.add_argument("--sets", type=Path, nargs="*", default=[], help="folders of `make`, where games begin")
    out.add_argument("--threads", type=int, default=2)
    out.add_argument("--seed", type=int, default=1)
