"""What a search takes on many shards, from what it takes on this machine: `python -m tools.simulate_cluster`.

`tools.cluster_costs` measures what entries, rows, steps and messages take here, and what the waves of a
growing graph consist of. The simulation deals the entries of every step to K shards at random, as the mixed
keys do. Each shard does its parts one after the other; a wave's next step begins when all shards are through
the last one, a trip over the network later. With several waves in flight, shards work on one while others
travel.

Printed are the costs; what the simulation says of 2 and 4 processes of this machine, beside what they take;
how much faster K shards are than one; how the waves grow with the graph; and what 10^9 and 10^10 positions
take on 10 and 100 machines. Waves of graphs that large are extrapolated: steps and entries of a wave grow
with the logarithm of the nodes.
"""

from __future__ import annotations

import argparse
import heapq
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphsearch.cluster import warm
from graphsearch.evaluators.factory import create
from tools.cluster_costs import Costs, Searched, Wave, by_processes, costs, grown, searched

MEASURED = (1, 2, 4)
SHARDS = (4, 16, 64)
TRIPS = (0.05e-3, 0.2e-3, 2e-3)  # seconds: one machine, a fast network, a slow one
BANDWIDTH = 1.25e9  # bytes a second: 10 Gbit
ROW_BYTES = 80 + 24  # of a row down in the opening, and its answer
NETWORK = 1e-3  # seconds of an evaluation by a network on a CPU: what is assumed, not measured
IN_FLIGHT = (1, 2, 4)
WAVES = 20  # of a size, of which the mean counts
LARGER = (10**8, 10**9, 10**10)
FIRST_DECADE, PARTS = 5, 4  # a graph that grows is looked at so often in a decade, from 10^5 nodes on


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """What many positions are to be searched on; a shard has its share of a machine's cores to evaluate."""

    nodes: int
    machines: int
    shards: int
    batch: int
    cores: int = 8


SIZES = (
    Machines(nodes=10**9, machines=10, shards=10, batch=16_384),
    Machines(nodes=10**9, machines=10, shards=80, batch=131_072),
    Machines(nodes=10**10, machines=100, shards=100, batch=131_072),
    Machines(nodes=10**10, machines=100, shards=200, batch=131_072),
)
BATCHES = tuple(sorted({size.batch for size in SIZES}))


# ------------------------------------------------------------------ the simulation
def work(wave: Wave, shards: int, prices: Costs, share: float, each: float, draw: Any) -> NDArray[np.float64]:
    """Returns the seconds that each shard works in each step, `[steps, K]`.

    Args:
      share: rows for each entry, if all of them went to other shards.
      each: seconds of an evaluation.
    """
    even = [1 / shards] * shards
    entries = draw.multinomial(wave.steps, even)
    seconds = entries * (prices.entry + share * (shards - 1) / shards * prices.row)
    seconds[len(wave.steps) // 2] += draw.multinomial(wave.leaves, even) * each
    return seconds + prices.step_of(shards)


def simulated(
    waves: Sequence[Wave],
    *,
    shards: int,
    trip: float,
    prices: Costs,
    share: float,
    each: float = 0.0,
    in_flight: int = 1,
) -> float:
    """Returns the seconds of some waves, so many in flight at once."""
    draw, crossing = np.random.default_rng(1), share * (shards - 1) / shards * ROW_BYTES / BANDWIDTH
    coming = iter(waves)
    free = np.zeros(shards)  # when each shard is through what it was given
    ready: list[tuple[float, int, int, Wave, NDArray[np.float64]]] = []  # when, order, step, wave, work

    def begin(now: float, order: int) -> None:
        wave = next(coming, None)
        if wave:
            parts = work(wave, shards, prices, share, each, draw)
            heapq.heappush(ready, (now, order, 0, wave, parts))

    for order in range(in_flight):
        begin(0.0, order)
    while ready:
        now, order, step, wave, parts = heapq.heappop(ready)
        free = np.maximum(free, now) + parts[step]
        then = float(free.max())
        if shards > 1:
            then += trip + wave.steps[step] / shards * crossing
        if step + 1 < len(parts):
            heapq.heappush(ready, (then, order, step + 1, wave, parts))
        else:
            begin(then, order)
    return float(free.max())


# ------------------------------------------------------------------ waves of larger graphs
def extrapolated(known: Sequence[Sequence[Wave]], nodes: float) -> Wave:
    """Returns the wave of a graph of so many nodes, from the waves of some sizes.

    Steps, entries and visits of a leaf follow straight lines over the logarithm of the nodes. The shape, how
    the entries are spread over the steps, is that of the largest graph, stretched.
    """
    logs = np.log10([np.mean([wave.nodes for wave in waves]) for waves in known])
    per_leaf = [[_per_leaf(wave) for wave in waves] for waves in known]
    rows = np.array([np.mean(found, axis=0) for found in per_leaf])
    steps, entries, visits = (np.polyval(np.polyfit(logs, row, 1), np.log10(nodes)) for row in rows.T)
    last = known[-1]
    leaves = int(np.mean([wave.leaves for wave in last]))
    shape = np.mean([_stretched(wave.steps, round(steps)) for wave in last], axis=0)
    spread = np.round(shape / shape.sum() * entries * leaves).astype(int)
    return Wave(
        nodes=int(nodes),
        steps=tuple(spread.tolist()),
        leaves=leaves,
        visits=round(visits * leaves),
        seconds=0.0,
    )


def _per_leaf(wave: Wave) -> tuple[float, float, float]:
    leaves = max(1, wave.leaves)
    return len(wave.steps), sum(wave.steps) / leaves, wave.visits / leaves


def _stretched(steps: Sequence[int], length: int) -> NDArray[np.float64]:
    """Returns steps as a curve over so many steps.

    >>> _stretched([0, 4, 0], 5).tolist()
    [0.0, 2.0, 4.0, 2.0, 0.0]
    """
    return np.interp(np.linspace(0, len(steps) - 1, length), np.arange(len(steps)), steps)


# ------------------------------------------------------------------ what is measured
@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was measured.

    Attributes:
      prices, large: of a search from nothing; of the largest graph, whose entries lie further apart.
      share: rows for each entry, if all of them went to other shards. saving: CPU seconds of a node.
      evaluations: seconds of one, by evaluator. waves: by batch, then by size.
    """

    prices: Costs
    large: Costs
    share: float
    saving: float
    evaluations: dict[str, float]
    waves: dict[int, list[list[Wave]]]


def measure(options: argparse.Namespace) -> tuple[Found, list[dict[str, Any]]]:
    """Returns what was measured, and what the simulation says of searches by processes of this machine."""
    points = [searched(shards, "uniform", options.batch, options.visits) for shards in MEASURED]
    alone, two = points[0], points[1]
    prices, share = costs(points, options.batch), 2 * two.rows / two.entries
    checks = [_check(point, prices, share, options) for point in points]
    nodes = alone.waves[-1].nodes
    saving = max(0.0, (checks[0]["measured_cpu_s"] - checks[0]["simulated_cpu_s"]) / nodes)
    for check in checks:
        for name in ("simulated_cpu_s", "simulated_s"):
            check[name] += saving * nodes / check["shards"]
    waves: dict[int, list[list[Wave]]] = {}
    for batch, some in grown("uniform", options.sizes, sorted({options.batch, *BATCHES}), WAVES):
        waves.setdefault(batch, []).append(some)
    largest = waves[options.batch][-1]
    spent = sum(wave.seconds - prices.step * (len(wave.steps) - 1) for wave in largest)
    large = replace(prices, entry=spent / sum(sum(wave.steps) for wave in largest))
    evaluations = {"uniform": 0.0, "builtin": _evaluation(options, alone), "network": NETWORK}
    found = Found(
        prices=prices, large=large, share=share, saving=saving, evaluations=evaluations, waves=waves
    )
    return found, checks


def _evaluation(options: argparse.Namespace, alone: Searched) -> float:
    """Returns the CPU seconds of an evaluation by the built-in evaluator: what it adds to a search."""
    other = searched(1, "builtin", options.batch, options.visits // 10)
    leaves = sum(wave.leaves for wave in other.waves)
    return max(0.0, other.seconds - alone.seconds * other.entries / alone.entries) / leaves


def _check(point: Searched, prices: Costs, share: float, options: argparse.Namespace) -> dict[str, Any]:
    """Returns what a search by processes takes, and what the simulation says of it, without saving."""
    cpu, seconds = by_processes(point.shards, "uniform", options.batch, options.visits)
    own = (point.entries * prices.entry + point.rows * prices.row) / point.shards
    return {
        "shards": point.shards,
        "measured_cpu_s": cpu,
        "simulated_cpu_s": own + point.steps * prices.step_of(point.shards),
        "measured_s": seconds,
        "simulated_s": simulated(
            point.waves, shards=point.shards, trip=prices.trip, prices=prices, share=share
        ),
    }


# ------------------------------------------------------------------ what follows
def speedups(found: Found, batch: int) -> Iterator[dict[str, Any]]:
    """Yields how much faster shards are than one, in the largest graph that was measured."""
    waves = found.waves[batch][-1]
    for name, each in found.evaluations.items():
        search = partial(simulated, waves, prices=found.large, share=found.share, each=each)
        alone = search(shards=1, trip=0.0)
        for trip in TRIPS:
            for flying in IN_FLIGHT:
                spent = {k: search(shards=k, trip=trip, in_flight=flying) for k in SHARDS}
                row = {"evaluator": name, "trip_ms": 1e3 * trip, "in_flight": flying}
                yield row | {f"{k} shards": alone / seconds for k, seconds in spent.items()}


def growth(found: Found) -> Iterator[dict[str, Any]]:
    """Yields what the waves of each size are like, measured and extrapolated."""
    for batch, known in found.waves.items():
        larger = [[extrapolated(known, nodes)] for nodes in LARGER]
        for waves in (*known, *larger):
            steps, entries, visits = np.mean([_per_leaf(wave) for wave in waves], axis=0).tolist()
            yield {
                "batch": batch,
                "nodes": int(np.mean([wave.nodes for wave in waves])),
                "measured": waves not in larger,
                "leaves": float(np.mean([wave.leaves for wave in waves])),
                "steps": steps,
                "entries_per_leaf": entries,
                "visits_per_leaf": visits,
            }


def sizing(found: Found, wanted: Machines) -> Iterator[dict[str, Any]]:
    """Yields how many hours so many nodes take from nothing, by evaluator, trip and waves in flight."""
    decades = round(np.log10(wanted.nodes)) - FIRST_DECADE
    edges = np.logspace(FIRST_DECADE, FIRST_DECADE + decades, PARTS * decades + 1)
    waves = [extrapolated(found.waves[wanted.batch], nodes) for nodes in np.sqrt(edges[1:] * edges[:-1])]
    counts = np.diff(edges) / [wave.leaves for wave in waves]
    threads = wanted.cores * wanted.machines / wanted.shards
    for name, each in found.evaluations.items():
        for trip in TRIPS[1:]:
            for flying in IN_FLIGHT:
                search = partial(simulated, shards=wanted.shards, trip=trip, prices=found.large)
                search = partial(search, share=found.share, each=each / threads, in_flight=flying)
                some = np.array([search([wave] * 2 * flying) for wave in waves]) / (2 * flying)
                saving = found.saving * wanted.nodes / wanted.shards
                told = {"evaluator": name, "trip_ms": 1e3 * trip, "in_flight": flying}
                spent = {"waves": float(counts.sum()), "hours": float(counts @ some + saving) / 3600}
                yield asdict(wanted) | told | spent


# ------------------------------------------------------------------ what is printed
def print_all(found: dict[str, Any]) -> None:
    """Prints the tables."""
    for name in ("prices", "large"):
        print(f"{name}, us: " + ", ".join(f"{key} {1e6 * value:.2f}" for key, value in found[name].items()))
    each = ", ".join(f"{name} {1e6 * value:.1f}" for name, value in found["evaluations"].items())
    print(f"rows for each entry {found['share']:.2f}; saving a node, us: {1e6 * found['saving']:.2f}; {each}")
    for table in ("checks", "growth", "speedups", "sizing"):
        rows = found[table]
        print("", table, "".join(f"{name:>18}" for name in rows[0]), sep="\n")
        for row in rows:
            print("".join(f"{_cell(value):>18}" for value in row.values()))


def _cell(value: Any) -> str:
    """Returns a value as text.

    >>> _cell(1000000), _cell(12.345), _cell(0.05), _cell("uniform")
    ('1,000,000', '12.3', '0.05', 'uniform')
    """
    if isinstance(value, float):
        return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
    return str(value) if isinstance(value, bool) or not isinstance(value, int) else f"{value:,}"


def main() -> None:
    """Measures, simulates, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--batch", type=int, default=16_384, help="leaves of a wave")
    parser.add_argument("--visits", type=int, default=2_000_000, help="of the searches that are compared")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[10**5, 10**6, 10**7], help="of the growing graph"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for name in ("uniform", "builtin"):
        warm.compile_kernels(create(name))
    found, checks = measure(options)
    told = {
        "prices": asdict(found.prices),
        "large": asdict(found.large),
        "share": found.share,
        "saving": found.saving,
        "evaluations": found.evaluations,
        "checks": checks,
        "growth": list(growth(found)),
        "speedups": list(speedups(found, options.batch)),
        "sizing": [row for wanted in SIZES for row in sizing(found, wanted)],
    }
    print(json.dumps(told, indent=1)) if options.json else print_all(told)


if __name__ == "__main__":
    main()
