"""`graphsearch bench`: the speed of this machine, in the figures that the documents report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from .bench_batches import BatchesOptions, bench_batches
from .bench_scale import ScaleOptions, bench_scale
from .bench_shards import ShardsOptions, bench_shards
from .commands import command, named_values
from .options import Json, graph_ram
from .output import print_json, say
from .render import rate
from .signals import StopSignals, interruptible

_LINES = {  # JSON name -> what it is called in the table
    "nodes": "nodes in the graph",
    "perft_per_s": "perft, positions per second",
    "expand_ns": "expand one node, ns",
    "make_ns": "make one move with key, ns",
    "visits_per_s_single": "visits per second, one by one",
    "evaluations_per_s_single": "of them evaluated",
    "visits_per_s_wave": "visits per second, waves of 1024",
    "evaluations_per_s_wave": "of them evaluated",
    "ram_bytes_per_node": "RAM, bytes per node",
    "file_bytes_per_node": "file, bytes per node",
    "save_nodes_per_s": "save, nodes per second",
    "load_nodes_per_s": "load, nodes per second",
    "search_visits_per_s": "visits per second of a search without a file",
    "search_visits_per_s_saving": "the same with a file",
    "search_saved_per_s": "nodes it saves per second",
    "search_written_of_size": "bytes it writes, relative to the file",
    "builtin_evaluations_per_s": "built-in evaluator, per second",
    "builtin_file_bytes_per_node": "its file, bytes per node",
    "resumed_us_per_visit": "us per visit of a search that goes on with a file, reading included",
    "unstopped_us_per_visit": "the same if it never stopped",
    "resumed_read_us_per_node": "the difference, us per node of the file",
    "start_s": "first table, CPU-seconds",
    "start_cold_s": "the same with an empty cache",
    "alphabeta_nodes_per_s": "alpha-beta, nodes per second",
    "alphabeta_leaves_of_minimal": "its leaves relative to the minimal tree",
}

_OFFLOAD_LINES = {
    "nodes": "nodes in the graph",
    "ram_budget": "memory budget",
    "peak_rss": "peak memory of the process",
    "speed_ratio_uniform": "speed relative to RAM, uniform",
    "speed_ratio_single_per_cpu_s": "the same one by one, per CPU-second",
    "speed_ratio_100us": "speed relative to RAM, evaluator of 100 us",
    "file_bytes_per_node": "file, bytes per node",
    "written_bytes_per_node": "written to grow it, bytes per node",
    "grow_nodes_per_s": "growth, nodes per second, with merges",
    "warm_reads_per_s": "random reads per second, file in the page cache",
    "cold_reads_per_s": "random reads per second, file on disk only",
    "longest_stall_s": "longest stall of the search, s",
    "open_s": "open the file, s",
    "show_s": "show the start position, over a tiny file, s",
}
_BYTES = ("ram_budget", "peak_rss", "peak_rss_100us", "rss_before_opening", "resident_bytes")


@command(
    "Measure the speed of this machine.",
    "graphsearch bench",
    "graphsearch bench --json > figures.json",
    "graphsearch bench --offload --json",
    "graphsearch bench --batches --plot batches.png",
    "graphsearch bench --shards 2",
    "graphsearch bench --scale --nodes 10000000 --ram 512MB --folder scale",
    "graphsearch bench --scale --shards 4 --nodes 10000000 --ram 512MB --folder scale4",
)
def bench(
    *,
    nodes: Annotated[
        int | None,
        typer.Option(
            "--nodes",
            metavar="N",
            min=1000,
            help="Size of the (largest) graph to build; 1,000,000 by default, 10,000,000 with --offload, "
            "100,000,000 with --scale.",
        ),
    ] = None,
    offload: Annotated[
        bool,
        typer.Option(
            "--offload",
            help="Measure a graph larger than its memory instead, in wall time: searches within --ram "
            "compared with the same searches in RAM, and how fast the file grows, is read and is "
            "opened. By default this takes about 3 GB of RAM (for the graph to compare with), 2.5 GB "
            "of disk in the temporary folder (TMPDIR) and ten minutes.",
        ),
    ] = False,
    ram: Annotated[
        str | None,
        typer.Option(
            "--ram",
            metavar="SIZE",
            help="With --offload and --scale: memory for the graph, such as 64MB; 256MB by default, 512MB "
            "with --scale.",
        ),
    ] = None,
    batches: Annotated[
        bool,
        typer.Option(
            "--batches",
            help="Measure instead how full each gatherer fills its batches, how fast, and what that costs "
            "in quality at equal evaluations. Takes about five minutes on two cores and lists what it"
            " skips.",
        ),
    ] = False,
    scale: Annotated[
        bool,
        typer.Option(
            "--scale",
            help="Measure instead what everything takes that is done to a file, at sizes ten times apart up "
            "to --nodes: growth, every upkeep, every query, a search that goes on; time, memory, bytes "
            "written, longest stall. Says which figures grow for each node. Takes hours and 15 GB of disk by "
            "default. With --shards: of a cluster.",
        ),
    ] = False,
    chosen: BatchesOptions,
    scaled: ScaleOptions,
    sharded: ShardsOptions,
    json: Json = False,
) -> None:
    """Measure move generation, search, memory and file, per CPU-second of the process."""
    _check(chosen, scaled, sharded, ram=ram is not None, offload=offload, batches=batches, scale=scale)
    if sharded.shards is not None and not scale:
        bench_shards(sharded, json=json)
        return
    if batches:
        bench_batches(chosen, nodes, json=json)
        return
    if scale:
        bench_scale(scaled, nodes, ram, sharded.shards, json=json)
        return
    figures = _offload(nodes, ram) if offload else _in_memory(nodes)
    if json:
        print_json(figures)
    else:
        _print_table(figures, offload=offload)


def _check(
    chosen: BatchesOptions,
    scaled: ScaleOptions,
    sharded: ShardsOptions,
    *,
    ram: bool,
    offload: bool,
    batches: bool,
    scale: bool,
) -> None:
    """Raises typer.BadParameter for options that do not belong together."""
    if ram and not (offload or scale):
        raise typer.BadParameter("needs --offload or --scale", param_hint="--ram")
    shards = sharded.shards is not None and not scale  # which may be of a cluster
    groups: tuple[tuple[object, str, bool], ...] = (
        (chosen, "--batches", batches),
        (scaled, "--scale", scale),
        (sharded, "--shards without --scale", shards),
    )
    for options, wanted, given in groups:
        for name in named_values(options):
            if not given and not (scale and name == "--shards"):
                raise typer.BadParameter(f"needs {wanted}", param_hint=name)
    modes = [
        name
        for name, given in (
            ("--batches", batches),
            ("--offload", offload),
            ("--scale", scale),
            ("--shards", shards),
        )
        if given
    ]
    if len(modes) > 1:
        raise typer.BadParameter(f"cannot be combined with {modes[1]}", param_hint=modes[0])


def _in_memory(nodes: int | None) -> Mapping[str, float | int | None]:
    from graphsearch.bench.speed import NODES, measure

    return interruptible(lambda: measure(say, nodes=nodes or NODES))


def _offload(nodes: int | None, ram: str | None) -> Mapping[str, float | int | None]:
    from graphsearch.bench.offload.report import NODES, RAM_BYTES, measure

    with StopSignals():
        # a signal ends the part under way, and removes the files
        return measure(say, nodes=nodes or NODES, ram_bytes=graph_ram(ram) or RAM_BYTES)


def _print_table(figures: Mapping[str, float | int | None], *, offload: bool) -> None:
    from graphsearch.bench.speed import machine

    print(machine())
    if offload:
        for name, value in figures.items():
            print(f"{_OFFLOAD_LINES.get(name, name):<56}{_shown(name, value):>13}")
        return
    for name, value in figures.items():
        counted = name == "nodes" or name.endswith(("_per_s", "_single", "_wave", "_saving"))
        shown = (
            rate(value or 0) if counted else f"{value:.2f}" if name.endswith("_minimal") else f"{value:.1f}"
        )
        print(f"{_LINES.get(name, name):<36}{shown:>10}")


def _shown(name: str, value: float | int | None) -> str:
    """Returns a figure of `--offload` as text.

    >>> _shown("peak_rss", 300_000_000), _shown("open_s", 0.1234), _shown("share_waves_uniform", 0.25)
    ('300 MB', '0.123', '25 %')
    """
    if value is None:
        return "not known"
    if name in _BYTES:
        return f"{value / 1e6:.0f} MB"
    if "share_" in name:
        return f"{100 * value:.0f} %"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}" if value < 10 else f"{value:,.1f}"
