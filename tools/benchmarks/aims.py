"""Limits on the costs of resuming, saving and exporting, beside the current costs."""

from __future__ import annotations

from collections.abc import Iterator

from graphsearch.cli.bench.resuming import RESUMED_NODES, resumed_figures
from graphsearch.cli.bench.starting import SESSION_EVALUATIONS, session_figures

from .exports import FORMATS
from .harness import Row, benchmark, run


@benchmark("figure")
def aims(
    *,
    resumed_nodes: int = RESUMED_NODES,
    session_evaluations: int = SESSION_EVALUATIONS,
    nodes: int = 10_000_000,
    ram_mb: int = 228,
    builtin_nodes: int = 1_000_000,
    builtin_ram_mb: int = 30,
    wave: int = 4096,
    visits: int = 100_000,
    rounds: int = 3,
    seconds: float = 1.0,
) -> Iterator[Row]:
    """Figures that a release keeps, each with its aim: at_most, or at_least.

    They are those of `lab bench` (resumed_*, sessions_of_one) and of the benchmarks `beyond-memory`,
    `exports` and `mates-beside`. With the defaults that takes some ten minutes on a quiet machine.
    """
    found = resumed_figures(resumed_nodes) | session_figures(session_evaluations)
    for name, most in (
        ("resumed_of_unstopped", 1.15),
        ("resumed_image_us_per_node", 0.2),
        ("resumed_read_us_per_node", 1.0),
        ("sessions_of_one", 1.3),
    ):
        yield {"figure": name, "value": found[name], "at_most": most}
    yield from _of_memory(
        nodes=nodes,
        ram_mb=ram_mb,
        wave=wave,
        visits=visits,
        evaluations=visits // 5,
        builtin_nodes=builtin_nodes,
        builtin_ram_mb=builtin_ram_mb,
    )
    rates = {row["format"]: row["per_cpu_s"] for row in _rows("exports", nodes=builtin_nodes)}
    for ending in FORMATS:
        yield {
            "figure": f"export {ending}, nodes per CPU-second",
            "value": rates[ending],
            "at_least": 100_000,
        }
    beside = {
        (row["positions"], row["prover"]): row
        for row in _rows("mates-beside", visits=visits, rounds=rounds, seconds=seconds)
    }
    spent = beside["decided", True]["cpu_s_ratio"]
    yield {"figure": "prover, CPU of a decided position", "value": spent, "at_most": 1.06}
    decided, others = (
        beside[f"first {seconds:g} s, {kind}", True]["visits_per_cpu_s"] for kind in ("decided", "all queens")
    )
    yield {"figure": "prover, visits of the first CPU-second", "value": decided / others, "at_least": 0.9}


def _of_memory(**options: int) -> Iterator[Row]:
    """Yields the speed within a quarter of the memory, relative to the speed with all of it."""
    rows = _rows("beyond-memory", **options)
    ratios = {row["evaluator"]: row.get("per_s_ratio") for row in rows if row["memory"] != "all"}
    for evaluator, least in (("uniform", 0.2), ("builtin", 0.5), ("100 us", 0.98)):
        yield {"figure": f"beyond memory, {evaluator}", "value": ratios[evaluator], "at_least": least}


def _rows(name: str, **options: float) -> list[Row]:
    """Returns the rows of another benchmark."""
    found: list[Row] = run(name, options)["rows"]
    return found
