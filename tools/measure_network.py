"""Prints how fast an lc0 network evaluates, against onnxruntime alone.

    python -m tools.measure_network maia-1900.pb.gz [--batch 256] [--rounds 30] [--device cpu] [--lc0]

One round runs onnxruntime on planes that are ready, and then the evaluator on the same positions: the same
session, input and outputs, but planes and priors made anew. Positions are those of random games. The ratio is
that of the medians; `planes` and `priors` say what the evaluator does besides, in milliseconds a batch. With
`--lc0`, lc0's Eigen backend gets the same positions, and both are given by CPU-second.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from statistics import median

import chess

from graphsearch.evaluators.lc0.evaluator import Lc0Evaluator
from graphsearch.evaluators.lc0.planes import input_planes
from graphsearch.evaluators.lc0.policy import priors
from graphsearch.evaluators.protocol import PositionBatch

PLIES = 80  # of a random game
WARM_UP = 3  # rounds that do not count


def random_positions(count: int, seed: int = 1) -> PositionBatch:
    """Returns positions of random games, none of them finished."""
    chance = random.Random(seed)
    boards: list[chess.Board] = []
    while len(boards) < count:
        board = chess.Board()
        for _ in range(chance.randrange(PLIES)):
            moves = list(board.legal_moves)
            if not moves:
                break
            board.push(chance.choice(moves))
        if any(board.legal_moves):
            boards.append(board.copy(stack=False))
    return PositionBatch.from_boards(boards)


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Returns the time of a call."""
    begin = clock()
    work()
    return clock() - begin


def measure(evaluator: Lc0Evaluator, batch: PositionBatch, rounds: int) -> dict[str, float | int | str]:
    """Returns the figures of some rounds with one batch."""
    session = evaluator.session
    planes = input_planes(batch.words, session.dtype)
    logits = session.run(planes).policy
    feed = {session.planes: planes}
    works: dict[str, Callable[[], object]] = {
        "raw": lambda: session.runtime.run(session.outputs, feed),
        "evaluator": lambda: evaluator.evaluate(batch),
        "planes": lambda: input_planes(batch.words, session.dtype),
        "priors": lambda: priors(batch, logits, evaluator.policy_temperature),
    }
    times = [{name: seconds(work) for name, work in works.items()} for _ in range(WARM_UP + rounds)][WARM_UP:]
    found = {name: median(row[name] for row in times) for name in works}
    return {
        "device": session.device,
        "batch": len(batch),
        "rounds": rounds,
        "raw_per_second": round(len(batch) / found["raw"], 1),
        "evaluator_per_second": round(len(batch) / found["evaluator"], 1),
        "ratio": round(found["raw"] / found["evaluator"], 4),
        "planes_ms": round(1000 * found["planes"], 3),
        "priors_ms": round(1000 * found["priors"], 3),
    }


def beside_lc0(path: str, evaluator: Lc0Evaluator, batch: PositionBatch, rounds: int) -> dict[str, float]:
    """Returns positions per CPU-second of an evaluator and of lc0's Eigen backend, and their ratio."""
    from lczero import backends

    backend = backends.Backend(backends.Weights(path), "eigen", "")
    states = [backends.GameState(board.fen(), []).as_input(backend) for board, _ in batch.boards()]
    works: tuple[Callable[[], object], ...] = (
        lambda: evaluator.evaluate(batch),
        lambda: backend.evaluate(*states),
    )
    times = [[seconds(work, time.process_time) for work in works] for _ in range(1 + rounds)][1:]
    own, other = (len(batch) / median(column) for column in zip(*times, strict=True))
    return {
        "evaluator_per_cpu_second": round(own, 1),
        "lc0_per_cpu_second": round(other, 1),
        "ratio_to_lc0": round(median(b / a for a, b in times), 2),
    }


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("network", help="a .pb.gz or .onnx file")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--lc0", action="store_true", help="measure lc0's Eigen backend, too")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    evaluator = Lc0Evaluator(args.network, device=args.device, threads=args.threads)
    batch = random_positions(args.batch)
    figures = measure(evaluator, batch, args.rounds)
    if args.lc0:
        figures |= beside_lc0(args.network, evaluator, batch, args.rounds)
    if args.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:22} {value}")


if __name__ == "__main__":
    main()
