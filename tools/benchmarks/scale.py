"""All operations on a file, at sizes ten times apart, each phase in its own process."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from graphsearch.store.sharded.files import open_to_read

from .growing import Plan
from .harness import Row, benchmark, fresh
from .scale_phases import PHASES, SHARDED, run_phase

STEP = 10  # between two sizes


@benchmark(
    "phase",
    "nodes",
    across="nodes",
    compare=("cpu_us", "written_bytes"),
    plot=("nodes", ("cpu_us", "peak_mb")),
)
def scale(
    *,
    nodes: int = 100_000_000,
    first: int = 1_000_000,
    ram_mb: int = 512,
    phases: tuple[str, ...] = (),
    folder: Path | None = None,
    shards: int = 0,
) -> Iterator[Row]:
    """Costs of everything that is done to a file, at sizes ten times apart: growth, upkeep, queries, search.

    The graph grows from --first to --nodes by searches with `uniform` within --ram-mb (of each shard), and at
    each size every phase is measured. With --folder the file and the samples (scale.json) are kept there, and
    the same command continues what was interrupted. With --shards a cluster grows instead.

    us, cpu_us, written_bytes are for each `unit`; the `_ratio` columns say how they grow from the first size.
    stall_s is the longest time without a sign of life, log_mb the largest write-ahead log.
    """
    known = SHARDED if shards else PHASES
    if unknown := set(phases) - set(known):
        raise SystemExit(f"there is no phase {', '.join(unknown)}; there are {', '.join(known)}")
    with _folder(folder) as place:
        kept, budget = place / "scale.json", {"ram_mb": ram_mb, "shards": shards}
        found: Row = json.loads(kept.read_text()) if kept.exists() else {**budget, "rows": []}
        if {name: found[name] for name in budget} != budget:
            raise SystemExit(f"{kept} was measured with other --ram-mb or --shards; choose another --folder")
        rows: list[Row] = found["rows"]
        yield from rows
        for size in sizes(nodes, first):
            plan = Plan(folder=place, nodes=size, ram_bytes=ram_mb * 1_000_000, shards=shards)
            for phase in _due(plan, phases or tuple(known), rows):
                rows.append({"phase": phase, "nodes": size} | fresh(run_phase, phase, plan))
                kept.write_text(json.dumps(found, indent=1))
                yield rows[-1]
            plan.remove("a", "b", "small")
        shutil.rmtree(place / "warm", ignore_errors=True)


def _due(plan: Plan, phases: Sequence[str], done: Sequence[Row]) -> Iterator[str]:
    """Yields the remaining phases at a size, growth first if the graph is too small.

    Yields nothing if the graph has outgrown the size.
    """
    held = 0
    if plan.file.exists():
        with open_to_read(plan.file) as store:
            held = store.node_count
    if held >= 2 * plan.nodes:
        return
    if held < plan.nodes:
        yield "grow"
    measured = {(row["phase"], row["nodes"]) for row in done}
    yield from (phase for phase in phases if phase != "grow" and (phase, plan.nodes) not in measured)


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    if given is None:
        with tempfile.TemporaryDirectory(prefix="graphsearch-bench-") as made:
            yield Path(made)
        return
    given.mkdir(parents=True, exist_ok=True)
    yield given.resolve()


def sizes(nodes: int, first: int) -> list[int]:
    """Returns the sizes to measure.

    >>> sizes(30_000_000, 1_000_000), sizes(5000, 1_000_000)
    ([1000000, 10000000, 30000000], [5000])
    """
    found, size = [], first
    while size < nodes:
        found.append(size)
        size *= STEP
    return [*found, nodes]
