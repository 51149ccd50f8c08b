"""`graphsearch bench --shards`: a search over a cluster against one process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .output import print_json, print_part, say
from .render import size
from .signals import StopSignals
from .tables import LEFT, RIGHT, table

if TYPE_CHECKING:
    from rich.table import Table

DEFAULT_VISITS = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardsOptions:
    """What `bench --shards` measures."""

    shards: Annotated[
        int | None,
        typer.Option(
            "--shards",
            metavar="K",
            min=1,
            help="Measure instead a search over a cluster of K shards against the same search in one process:"
            " speed, messages, and where the time goes. With --scale: shards of the cluster, each with --ram"
            " of memory.",
        ),
    ] = None
    with_evaluator: Annotated[
        str | None,
        typer.Option(
            "--with-evaluator", metavar="NAME", help="With --shards: what evaluates; uniform by default."
        ),
    ] = None
    waves: Annotated[
        int | None,
        typer.Option(
            "--waves", metavar="N", min=1, help="With --shards: leaves of a wave; 16,384 by default."
        ),
    ] = None
    visits: Annotated[
        int | None,
        typer.Option("--visits", metavar="N", min=1, help="With --shards: visits; 2,000,000 by default."),
    ] = None
    overlap: Annotated[
        int | None,
        typer.Option(
            "--overlap",
            metavar="0|1",
            min=0,
            max=1,
            help="With --shards: whether waves overlap in both searches. 0 by default: they make the same"
            " records.",
        ),
    ] = None


def bench_shards(options: ShardsOptions, *, json: bool) -> None:
    """Measures, and prints the figures."""
    from graphsearch.bench.shards import measure

    assert options.shards is not None
    with StopSignals():
        found = measure(
            lambda line: say(f"Measuring: {line}..."),
            shards=options.shards,
            evaluator=options.with_evaluator or "uniform",
            batch=options.waves or 16_384,
            visits=options.visits or DEFAULT_VISITS,
            overlap=options.overlap or 0,
        )
    if json:
        print_json(found)
        return
    print_part(_table(found))


def _table(found: dict[str, Any]) -> Table:
    alone, visits = found["alone"], found["visits"]
    rows = [
        ["Visits", f"{alone['visits']:,}", f"{visits:,}"],
        ["Evaluations", f"{alone['evaluations']:,}", f"{found['evaluations']:,}"],
        ["Nodes", f"{alone['nodes']:,}", f"{found['nodes']:,}"],
        ["Wall time, s", f"{alone['seconds']:.2f}", f"{found['seconds']:.2f}"],
        [
            "Visits per s of wall time",
            f"{alone['visits'] / alone['seconds']:,.0f}",
            f"{visits / found['seconds']:,.0f}",
        ],
        ["CPU time of the busiest, s", f"{alone['cpu_seconds']:.2f}", f"{found['most_cpu_seconds']:.2f}"],
        ["CPU time of all, s", f"{alone['cpu_seconds']:.2f}", f"{found['cpu_seconds']:.2f}"],
        ["Steps", "", f"{found['steps']:,}"],
        ["Messages", "", f"{found['messages']:,} ({size(found['message_bytes'])})"],
        ["Bytes per visit and level", "", f"{found['bytes_per_visit_level']:.1f}"],
        *([f"  {name}, s", "", f"{spent:.2f}"] for name, spent in found["phases"].items()),
    ]
    title = f"{found['evaluator']}, waves of {found['batch']:,}"
    columns = {title: LEFT, "1 process": RIGHT, f"{found['shards']} shards": RIGHT}
    return table(columns, rows)
