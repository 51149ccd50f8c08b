"""What a search takes on many shards, from what one and two take here: `python -m tools.simulate_cluster`.

A search in one process, shard by shard in turn, says how many entries every step has, and what it costs: CPU
time by entry, by row of a message, by step, and by message. The simulation deals the entries of every step to
K shards at random, as the mixed keys do, and lets each step take as long as the busiest shard, and a trip
over the network. What it says of the shards that were measured is printed beside what they took.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from graphsearch.cluster import descent_kernel, warm
from graphsearch.cluster.place import Place
from graphsearch.cluster.talk import lines_between, run_together
from graphsearch.cluster.wave import ShardWaves
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.graph.graph import Graph
from graphsearch.position.board import pack
from graphsearch.search.params import SearchParams
from graphsearch.search.settings import set_params
from graphsearch.store.sharded.ownership import even_owners, owner_of

MEASURED = (1, 2, 4)
SHARDS = (2, 4, 16, 64)
LATENCIES = (0.05e-3, 0.2e-3, 2e-3)  # seconds of a step: one machine, a fast network, a slow one
BANDWIDTH = 1.25e9  # bytes a second: 10 Gbit
ROW_BYTES = 80  # of a row down, and its answer
EVALUATIONS = {"uniform": 0.0, "builtin": 8e-6, "network on a CPU": 1e-3}  # seconds each


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """CPU seconds of an entry on one level, of a row sent and taken in, of a step, of a message in it."""

    entry: float
    row: float
    step: float
    message: float


@dataclass(slots=True)
class Measured:
    """A search with some shards in turn: CPU seconds of all together, and what every step had."""

    shards: int
    seconds: float
    steps: int
    entries: int
    rows: int
    visits: int
    evaluations: int
    levels: list[int]


def measured(shards: int, batch: int, waves: int) -> Measured:
    """Returns what a search with so many shards in one process takes; every shard is timed alone."""
    board, owners = chess.Board(), even_owners(shards)
    root, leader, evaluator = pack(board), owner_of(board, owners), UniformEvaluator()
    graphs = [Graph.open(None, evaluator=evaluator) for _ in range(shards)]
    for graph in graphs:
        set_params(graph.arena, SearchParams(minibatch_size=batch, full_share_visits=1))
    with lines_between(shards) as lines:
        places = [
            Place(number=k, shards=shards, owners=owners, leader=leader, lines=lines[k])
            for k in range(shards)
        ]
        return _searched(graphs, places, root, batch, waves)


def _searched(
    graphs: list[Graph], places: list[Place], root: NDArray[np.uint64], batch: int, waves: int
) -> Measured:
    shards, leader = len(places), places[0].leader
    parts = [ShardWaves(graph, root, batch, place) for graph, place in zip(graphs, places, strict=True)]
    found = Measured(shards, 0.0, 0, 0, 0, 0, 0, [])
    for _ in range(waves):
        arena = graphs[leader].arena
        knows, allowed, _ = descent_kernel.root_state(arena.tables, arena.arrays, root)
        steps, began = parts[0].traffic.steps, time.process_time()
        ends = run_together([part.run(batch, int(allowed), knows_root=bool(knows)) for part in parts])
        found.seconds += time.process_time() - began
        found.evaluations += ends[0][1]
        passed = [part.last_steps(parts[0].traffic.steps - steps) for part in parts]
        found.levels += np.sum(passed, axis=0).tolist()
    found.steps = parts[0].traffic.steps
    found.entries = sum(part.traffic.entry_levels for part in parts)
    found.rows = sum(part.traffic.rows for part in parts)
    found.visits = sum(part.traffic.visit_levels for part in parts)
    for part, graph in zip(parts, graphs, strict=True):
        part.close()
        graph.close()
    return found


def fitted(points: list[Measured]) -> Costs:
    """Returns the costs that the measured points have in common, by least squares; none is negative."""
    table = np.array([[p.entries, p.rows, p.steps * p.shards, p.steps * p.shards**2] for p in points], float)
    wanted = np.array([p.seconds for p in points])
    step = 10e-6  # of an empty step: system calls, measured at waves of one visit
    rest = wanted - step * table[:, 2]
    solved, *_ = np.linalg.lstsq(table[:, :2], rest, rcond=None)
    return Costs(entry=max(solved[0], 0), row=max(solved[1], 0), step=step, message=2e-6)


def simulated(
    levels: list[int], shards: int, latency: float, costs: Costs, share: float, seed: int = 1
) -> float:
    """Returns the seconds of a search whose steps have so many entries; `share`: rows for each entry."""
    draw, total = np.random.default_rng(seed), 0.0
    crossing = share * (shards - 1) / shards
    for entries in levels:
        busiest = int(draw.multinomial(entries, [1 / shards] * shards).max()) if entries else 0
        rows = 2 * busiest * crossing
        total += busiest * costs.entry + rows * costs.row / 2 + costs.step + shards * costs.message
        total += (latency + rows * ROW_BYTES / BANDWIDTH) if shards > 1 else 0.0
    return total


def table(points: list[Measured]) -> dict[str, Any]:
    """Returns the costs, the check, and the predictions."""
    costs, alone = fitted(points), points[0]
    two = next(point for point in points if point.shards == 2)
    share = two.rows / max(two.entries, 1) * 2
    check = {
        point.shards: {
            "measured": point.seconds / point.shards,
            "simulated": simulated(alone.levels, point.shards, 0.0, costs, share),
        }
        for point in points
    }
    rows = []
    for name, each in EVALUATIONS.items():
        single = simulated(alone.levels, 1, 0.0, costs, share) + each * alone.evaluations
        for latency in LATENCIES:
            for shards in SHARDS:
                spent = simulated(alone.levels, shards, latency, costs, share)
                spent += each * alone.evaluations / shards
                rows.append(
                    {
                        "evaluator": name,
                        "latency_ms": 1e3 * latency,
                        "shards": shards,
                        "speedup": single / spent,
                        "efficiency": single / spent / shards,
                    }
                )
    return {"costs": asdict(costs), "check": check, "rows": rows}


def main() -> None:
    """Measures, simulates, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--batch", type=int, default=16_384, help="leaves of a wave")
    parser.add_argument("--waves", type=int, default=60, help="waves of each measured search")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    warm.compile_kernels(UniformEvaluator())
    found = table([measured(shards, chosen.batch, chosen.waves) for shards in MEASURED])
    if chosen.json:
        print(json.dumps(found, indent=1))
        return
    costs = found["costs"]
    print("CPU us: " + ", ".join(f"{name} {1e6 * value:.2f}" for name, value in costs.items()))
    for shards, both in found["check"].items():
        took, says = both["measured"], both["simulated"]
        print(f"{shards} shards, CPU s of one: measured {took:.2f}, simulated {says:.2f}")
    print(f"{'evaluator':<18}{'latency':>9}" + "".join(f"{n:>14}" for n in SHARDS))
    for name in EVALUATIONS:
        for latency in LATENCIES:
            chosen_rows = [
                r for r in found["rows"] if r["evaluator"] == name and r["latency_ms"] == 1e3 * latency
            ]
            cells = "".join(
                f"{r['speedup']:>7.1f} ({100 * r['efficiency']:.0f} %)".rjust(14) for r in chosen_rows
            )
            print(f"{name:<18}{1e3 * latency:>6.2f} ms{cells}")


if __name__ == "__main__":
    main()
