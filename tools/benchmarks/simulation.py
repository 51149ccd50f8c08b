"""Simulates the time of a search on many shards from the costs of steps, messages, entries and rows here.

The simulation distributes the entries of every step over K shards at random, as the mixed keys do. Each shard
does its parts one after the other. A wave's next step begins one network trip after all shards have finished
the last one. With several waves in flight, shards work on one while others travel. Assumptions: the trip
times and bandwidth of a network, the time of an evaluation by a neural network, and that larger waves have as
many steps, and entries per leaf, as waves of 16,384. `cluster_costs` measures all else.
"""

from __future__ import annotations

import heapq
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphsearch.evaluators.factory import create
from graphsearch.graph.bring_kernel import BYTES_PER_NODE
from graphsearch.search.shards import warm

from .cluster_costs import (
    IDLE_VISITS,
    MEASURED,
    Costs,
    Work,
    costs,
    from_nothing,
    grown,
    message_cost,
)
from .harness import Row, benchmark

SHARDS = (4, 16, 64)
TRIPS = (0.05e-3, 0.2e-3, 2e-3)  # seconds: one machine, a fast network, a slow one
BANDWIDTH = 1.25e9  # bytes a second: 10 Gbit
ROW_BYTES = 80 + 24  # of a row downwards in the opening, and its answer
NETWORK = 1e-3  # seconds of an evaluation by a network on a CPU: assumed
IN_FLIGHT = (1, 2, 4)
WAVES = 12  # simulated of each kind
BUSY = 0.45  # share of a wave's steps with nearly all of its entries: five of eleven levels, down and up
LARGER = (10**8, 10**9, 10**10)
BATCH, LARGE = 16_384, 131_072  # leaves of a wave: measured ones; larger ones
FULL = 10  # waves are full and alike in graphs of at least so many times the nodes of a wave


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """The machines of a large search; evaluators share the cores that a machine's shards leave free."""

    nodes: int
    machines: int
    shards: int
    batch: int
    cores: int = 8


SIZES = (
    Machines(nodes=10**9, machines=10, shards=10, batch=BATCH),
    Machines(nodes=10**9, machines=10, shards=10, batch=LARGE),
    Machines(nodes=10**9, machines=10, shards=80, batch=LARGE),
    Machines(nodes=10**10, machines=100, shards=100, batch=LARGE),
    Machines(nodes=10**10, machines=100, shards=200, batch=LARGE),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """The mean wave of a graph of some size: steps, entries on all levels, visits, leaves."""

    nodes: int
    steps: float
    entries: float
    visits: float
    leaves: int


# ------------------------------------------------------------------ the simulation
def simulated(
    wave: Wave,
    *,
    shards: int,
    trip: float,
    prices: Costs,
    share: float,
    each: float = 0.0,
    in_flight: int = 1,
    waves: int = WAVES,
) -> float:
    """Returns the seconds per wave of a search with `in_flight` waves at once.

    Args:
      share: rows per entry, if all entries went to other shards. each: seconds of an evaluation.
    """
    draw, free = np.random.default_rng(1), np.zeros(shards)  # time at which each shard becomes free
    crossing = share * (shards - 1) / shards * wave.entries / wave.steps / shards * ROW_BYTES / BANDWIDTH
    ready = [(0.0, number, 0) for number in range(in_flight)]  # when, wave, step
    parts = {number: _work(wave, shards, prices, share, each, draw) for number in range(in_flight)}
    while ready:
        now, number, step = heapq.heappop(ready)
        free = np.maximum(free, now) + parts[number][step]
        then = float(free.max()) + (trip + crossing if shards > 1 else 0.0)
        if step + 1 < len(parts[number]):
            heapq.heappush(ready, (then, number, step + 1))
        elif number + in_flight < waves:
            parts[number + in_flight] = _work(wave, shards, prices, share, each, draw)
            heapq.heappush(ready, (then, number + in_flight, 0))
    return float(free.max()) / waves


def _work(
    wave: Wave, shards: int, prices: Costs, share: float, each: float, draw: Any
) -> NDArray[np.float64]:
    """Returns the working seconds of each shard in each step of a wave, `[steps, K]`."""
    steps = max(1, round(wave.steps))
    busy = np.unique(np.linspace(0, steps - 1, max(1, round(BUSY * steps))).astype(int))
    entries = np.zeros((steps, shards))
    even = [1 / shards] * shards
    entries[busy] = draw.multinomial([round(wave.entries / len(busy))] * len(busy), even)
    seconds = entries * (prices.entry + share * (shards - 1) / shards * prices.row)
    seconds[-steps // 4] += draw.multinomial(wave.leaves, even) * each
    return seconds + prices.step_of(shards)


# ------------------------------------------------------------------ waves of larger graphs
def wave_of(work: Work) -> Wave:
    """Returns the mean wave of a search; assumes that its waves are full."""
    waves = max(1, round(work.evaluations / work.batch))
    return Wave(
        nodes=work.nodes,
        steps=work.steps / waves,
        entries=work.entries / waves,
        visits=work.visits / waves,
        leaves=work.batch,
    )


def extrapolated(known: Sequence[Wave], nodes: float) -> Wave:
    """Returns the wave of a graph of `nodes` nodes, extrapolated linearly over the logarithm of the nodes.

    A quantity that falls as the graph grows keeps its value of the largest graph.

    >>> waves = [Wave(nodes=10**k, steps=10 * k, entries=50 + k, visits=9 - k, leaves=5) for k in (5, 6, 7)]
    >>> found = extrapolated(waves, 10**9)
    >>> round(found.steps), round(found.entries), round(found.visits), found.leaves
    (90, 59, 2, 5)
    """
    full = [wave for wave in known if wave.nodes >= FULL * wave.leaves] or known
    logs = np.log10([wave.nodes for wave in full])
    at = max(np.log10(nodes), logs[0])  # smaller graphs have smaller waves, but few of them

    def on_line(row: Sequence[float]) -> float:
        line = np.polyfit(logs, row, min(1, len(full) - 1))
        found = float(np.polyval(line, at))
        return found if at <= logs[-1] else max(found, row[-1])

    return Wave(
        nodes=int(nodes),
        steps=on_line([wave.steps for wave in full]),
        entries=on_line([wave.entries for wave in full]),
        visits=on_line([wave.visits for wave in full]),
        leaves=known[0].leaves,
    )


def larger(wave: Wave, leaves: int) -> Wave:
    """Returns a wave scaled to `leaves` leaves, with the same number of steps."""
    times = leaves / wave.leaves
    return replace(wave, entries=times * wave.entries, visits=times * wave.visits, leaves=leaves)


# ------------------------------------------------------------------ measurements
@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The measurements.

    Attributes:
      prices: of a search in a new graph. large: in the largest graph, with entries further apart in memory.
        share: rows per entry, if all entries went to other shards.
      evaluations: seconds of one, by evaluator. waves: by evaluator, by size. file_bytes: of a node of
        `builtin` or a network.
    """

    prices: Costs
    large: Costs
    share: float
    evaluations: dict[str, float]
    waves: dict[str, list[Wave]]
    file_bytes: float


def measure(
    visits: int, sizes: Sequence[int], builtin_sizes: Sequence[int], file: Path | None
) -> tuple[Found, list[Row]]:
    """Returns the measurements, and the simulation of searches by processes of this machine beside them."""
    warm.compile_kernels(create("builtin"))
    idle = [from_nothing(shards, 1, IDLE_VISITS) for shards in (1, 2)]
    searches = [from_nothing(shards, BATCH, visits) for shards in MEASURED]
    prices = costs(idle, searches, message_cost(), os.cpu_count() or 1)
    share = float(np.mean([k.rows / k.entries * k.shards / (k.shards - 1) for k in searches[1:]]))
    uniform, builtin = _growths(sizes, builtin_sizes, file)
    large = replace(prices, entry=_rest(uniform[-1], prices) / uniform[-1].entries)
    judging = (_rest(builtin[-1], prices) - builtin[-1].entries * large.entry) / builtin[-1].evaluations
    known = [wave_of(work) for work in builtin]
    found = Found(
        prices=prices,
        large=large,
        share=share,
        evaluations={"uniform": 0.0, "builtin": max(0.0, judging), "network": NETWORK},
        waves={"uniform": [wave_of(work) for work in uniform], "builtin": known, "network": known},
        file_bytes=builtin[-1].file_bytes,
    )
    return found, [_check(found, work) for work in searches]


def _growths(sizes: Sequence[int], builtin_sizes: Sequence[int], file: Path | None) -> list[list[Work]]:
    """Returns the growth of a graph by `uniform` and by `builtin`; reads it from `file` if that exists."""
    if file and file.exists():
        return [[Work(**work) for work in works] for works in json.loads(file.read_text())]
    found = [list(grown("uniform", BATCH, sizes)), list(grown("builtin", BATCH, builtin_sizes))]
    if file:
        file.write_text(json.dumps([[asdict(work) for work in works] for works in found]))
    return found


def _rest(work: Work, prices: Costs) -> float:
    """Returns the CPU seconds of a single shard minus those of its idle steps."""
    return work.cpu - work.steps * prices.step_of(1)


def _check(found: Found, work: Work) -> Row:
    """Returns the measured and the simulated times of a search by processes."""
    prices, shards = found.prices, work.shards
    own = (work.entries * prices.entry + work.rows * prices.row) / shards
    wave = wave_of(work)
    trip = prices.trip if shards > 1 else 0.0
    return {
        "shards": shards,
        "cores": os.cpu_count(),
        "cpu_s": work.cpu,
        "simulated_cpu_s": own + work.steps * prices.step_of(shards),
        "clock_s": work.seconds,
        "simulated_clock_s": work.steps
        / wave.steps
        * simulated(wave, shards=shards, trip=trip, prices=prices, share=found.share),
    }


# ------------------------------------------------------------------ results
def speedups(found: Found) -> Iterator[Row]:
    """Yields the speedups over one shard in the largest measured graph, as lists by `IN_FLIGHT`."""
    for name, each in found.evaluations.items():
        search = partial(simulated, found.waves[name][-1], prices=found.large, share=found.share, each=each)
        alone = search(shards=1, trip=0.0)
        for trip in TRIPS:
            row: Row = {"evaluator": name, "trip_ms": 1e3 * trip}
            for k in SHARDS:
                row[f"{k} shards"] = [alone / search(shards=k, trip=trip, in_flight=w) for w in IN_FLIGHT]
            yield row


def growth(found: Found) -> Iterator[Row]:
    """Yields the waves of each graph size, measured and extrapolated."""
    for name in ("uniform", "builtin"):
        known = found.waves[name]
        for wave in (*known, *(extrapolated(known, nodes) for nodes in LARGER)):
            yield {
                "grown_by": name,
                "nodes": wave.nodes,
                "measured": wave in known,
                "steps": wave.steps,
                "entries_of_a_leaf": wave.entries / wave.leaves,
                "visits_of_a_leaf": wave.visits / wave.leaves,
            }


def sizing(found: Found, wanted: Machines) -> Iterator[Row]:
    """Yields the hours of a search that starts with an empty graph, by trip and by waves in flight."""
    edges = np.logspace(5, np.log10(wanted.nodes), 21)
    counts, middles = np.diff(edges) / wanted.batch, np.sqrt(edges[1:] * edges[:-1])
    threads = max(1.0, wanted.cores * wanted.machines / wanted.shards)
    for name in ("builtin", "network"):
        waves = [larger(extrapolated(found.waves[name], nodes), wanted.batch) for nodes in middles]
        row: Row = asdict(wanted) | {"evaluator": name}
        search = partial(simulated, shards=wanted.shards, prices=found.large, share=found.share)
        for trip in TRIPS[1:]:
            row[f"hours_at_{1e3 * trip:g}_ms"] = [
                float(
                    counts
                    @ [
                        search(w, trip=trip, each=found.evaluations[name] / threads, in_flight=f)
                        for w in waves
                    ]
                )
                / 3600
                for f in IN_FLIGHT
            ]
        nodes = wanted.nodes / wanted.machines
        yield row | {"file_gb": nodes * found.file_bytes / 1e9, "memory_gb": nodes * BYTES_PER_NODE / 1e9}


# ------------------------------------------------------------------ the benchmark
@benchmark("cost", "shards", "grown_by", "evaluator", "nodes", "trip_ms", "machines", "batch")
def simulation(
    *,
    visits: int = 2_000_000,
    sizes: tuple[int, ...] = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000),
    builtin_sizes: tuple[int, ...] = (100_000, 300_000, 1_000_000, 3_000_000),
    growth_file: Path | None = None,
) -> Iterator[Row]:
    """What a search takes on many shards and machines, simulated from what its parts take on this one.

    The tables: costs in us; the simulation of 1, 2 and 4 processes of this machine beside what they take (the
    clock can be compared only where each has a core to itself); what waves consist of as the graph grows,
    measured and extrapolated; how much faster K shards are than one; hours and bytes for 10^9 and 10^10
    positions on 10 and 100 machines. Lists are for 1, 2 and 4 waves in flight.

    --growth-file keeps the measured growth, or says it.
    """
    found, checks = measure(visits, sizes, builtin_sizes, growth_file)
    for name, costs_of in (("from nothing", found.prices), ("in the largest graph", found.large)):
        yield {"cost": name} | {f"{key}_us": 1e6 * value for key, value in asdict(costs_of).items()}
    for name, each in found.evaluations.items():
        yield {"cost": f"an evaluation, {name}", "entry_us": 1e6 * each}
    yield from checks
    yield from growth(found)
    yield from speedups(found)
    for wanted in SIZES:
        yield from sizing(found, wanted)
