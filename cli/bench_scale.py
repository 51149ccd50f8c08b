"""`graphsearch bench --scale`: its options, its progress, and its results as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import graph_ram
from .output import print_json, say
from .signals import StopSignals

if TYPE_CHECKING:
    from graphsearch.bench.scale.plan import Measured
    from graphsearch.bench.scale.verdict import Verdict

NAME_WIDTH, VALUE_WIDTH = 24, 14
_TITLES = {  # figure -> its name and unit
    "time": "wall time, us",
    "cpu": "CPU time of all threads, us",
    "written": "written to disk, bytes",
    "memory": "peak memory, MB",
    "stall": "longest time without a sign of life, s",
    "log": "largest write-ahead log, MB",
}
_SHOWN: dict[str, Callable[[float], str]] = {
    "memory": lambda value: f"{value / 1e6:,.0f}",
    "log": lambda value: f"{value / 1e6:,.1f}",
    "written": lambda value: f"{value:,.1f}",
    "stall": lambda value: f"{value:.3f}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleOptions:
    """What `bench --scale` measures."""

    first: Annotated[
        int | None,
        typer.Option(
            "--from",
            metavar="N",
            min=1000,
            help="With --scale: the first size, 1,000,000 by default; ten times as many nodes follow until "
            "--nodes.",
        ),
    ] = None
    phases: Annotated[
        str | None,
        typer.Option(
            "--phases",
            metavar="LIST",
            help="With --scale: measure only these, such as grow,verify,compact; all by default.",
        ),
    ] = None
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder",
            metavar="DIR",
            file_okay=False,
            help="With --scale: keep the file and the results (scale.json) here, and continue what is there. "
            "By default everything is in the temporary folder (TMPDIR) and removed at the end.",
        ),
    ] = None


def bench_scale(
    options: ScaleOptions, nodes: int | None, ram: str | None, shards: int | None, *, json: bool
) -> None:
    """Takes the measurements, tells each when it is finished, and prints the tables."""
    from graphsearch.bench.scale.plan import FIRST_NODES, NODES, RAM_BYTES
    from graphsearch.bench.scale.report import measure
    from graphsearch.bench.scale.verdict import verdicts

    budget = graph_ram(ram) or RAM_BYTES
    phases = tuple(options.phases.split(",")) if options.phases else ()
    with StopSignals():
        rows = measure(
            say,
            lambda row: say(finished(row)),
            nodes=nodes or NODES,
            ram_bytes=budget,
            first=options.first or FIRST_NODES,
            phases=phases,
            folder=options.folder,
            shards=shards or 0,
        )
    found = verdicts(rows, budget)
    if json:
        measured, judged = [row.as_dict() for row in rows], [one.as_dict() for one in found]
        print_json({"ram_budget": budget, "rows": measured, "verdicts": judged})
        return
    for line in (*tables(found), *shards_table(rows)):
        print(line)


def finished(row: Measured) -> str:
    """Returns what a finished phase took, in one line."""
    each = 1e6 / row.units
    memory = "?" if row.peak_rss is None else f"{row.peak_rss / 1e6:,.0f}"
    written = "?" if row.written_bytes is None else f"{row.written_bytes / row.units:,.1f}"
    return (
        f"{row.nodes:,} nodes, {row.phase}: {row.seconds:.1f} s; each {row.unit} {each * row.seconds:.2f} us,"
        f" CPU {each * row.cpu_seconds:.2f} us, {written} bytes written; memory {memory} MB, longest stall"
        f" {row.longest_stall_s:.2f} s, log {row.log_bytes / 1e6:.1f} MB"
    )


def tables(found: Sequence[Verdict]) -> Iterator[str]:
    """Yields the lines of one table for each figure; what grows too much has a mark."""
    for figure, title in _TITLES.items():
        rows = [one for one in found if one.figure == figure and any(one.values)]
        sizes = sorted({nodes for one in rows for nodes in one.nodes})
        yield from ("", title)
        heads = "".join(f"{f'{size:,}':>{VALUE_WIDTH}}" for size in sizes)
        yield f"{'nodes':<{NAME_WIDTH}}{heads}{'growth':>9}"
        for one in rows:
            yield _line(one, sizes)
    marked = sum(one.flagged for one in found)
    yield ""
    yield f"Figures that grow too much (!): {marked}" if marked else "No figure grows too much."


def shards_table(rows: Sequence[Measured]) -> Iterator[str]:
    """Yields the lines of a table of what every shard of a cluster took as it grew."""
    heads = ("nodes in all", "shard", "nodes", "file, MB", "peak, MB", "CPU, s", "waited, s", "read back")
    grown = [row for row in rows if row.phase == "grow" and "shards" in row.more]
    if grown:
        yield from ("", "".join(f"{head:>{VALUE_WIDTH}}" for head in heads))
    for row in grown:
        for number, shard in enumerate(row.more["shards"]):
            cells = (
                f"{row.nodes:,}",
                str(number),
                f"{shard['nodes']:,}",
                f"{shard['file_bytes'] / 1e6:,.0f}",
                _SHOWN["memory"](shard["peak_rss"] or 0),
                f"{shard['cpu_seconds']:,.1f}",
                f"{shard['waiting']:,.1f}",
                f"{shard['read_back']:,}",
            )
            yield "".join(f"{cell:>{VALUE_WIDTH}}" for cell in cells)


def _line(one: Verdict, sizes: Sequence[int]) -> str:
    values = dict(zip(one.nodes, one.values, strict=True))
    cells = "".join(f"{_cell(one.figure, values.get(size)):>{VALUE_WIDTH}}" for size in sizes)
    growth = "" if one.growth is None else f"{one.growth:.2f}"
    return f"{f'{one.phase}, a {one.unit}':<{NAME_WIDTH}}{cells}{growth:>9}{' !' if one.flagged else ''}"


def _cell(figure: str, value: float | None) -> str:
    """Returns a value as text.

    >>> _cell("memory", 3e8), _cell("time", 0.1234), _cell("time", None), _cell("time", 123456.0)
    ('300', '0.123', '-', '123,456')
    """
    if value is None:
        return "-"
    if figure in _SHOWN:
        return _SHOWN[figure](value)
    return f"{value:.3f}" if value < 100 else f"{value:,.0f}"
