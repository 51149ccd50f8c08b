"""The commands of `graphsearch store` that change, copy, rescue or forecast a graph file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command
from .options import EvaluatorOptions, Json, StoreFile, closing
from .output import print_json, print_part, print_problems, say, say_if_unfinished
from .progress import progress_bar
from .render import count, size
from .signals import StopSignals
from .tables import RIGHT, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

    from graphsearch.store.record.provenance import EvaluatorIdentity
    from graphsearch.store.upkeep.forecast import Forecast

    Progress = Callable[[int, int], None] | None

Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]
Evaluator = Annotated[
    str | None,
    typer.Option(
        "--evaluator",
        metavar="NAME",
        help="The evaluator that filled the file, if the file no longer says.",
    ),
]
MinVisits = Annotated[
    int, typer.Option("--min-visits", metavar="N", min=1, help="Keep nodes with N or more visits.")
]
Copy = Annotated[Path, typer.Argument(metavar="COPY", help="The copy to write.", show_default=False)]
New = Annotated[Path, typer.Argument(metavar="NEW", help="The new file to write.", show_default=False)]


@contextmanager
def _working(title: str) -> Iterator[Progress]:
    """Yields a progress display; SIGTERM ends the work like Ctrl-C, with every file closed."""
    with StopSignals(), progress_bar(title) as advance:
        yield advance


def _is_cluster(file: Path) -> bool:
    from graphsearch.store.sharded.manifest import is_sharded

    return is_sharded(file)


@command(
    "Make a graph file as small as possible.",
    "graphsearch store compact first.graph",
)
def compact(file: StoreFile, json: Json = False) -> None:
    """Make a graph file as small as possible: merge its blocks, drop superseded versions and free pages.

    Of a cluster (a folder), every file. Ctrl-C or a kill does no harm; repeat the command to continue. A
    process that writes the file must end first.
    """
    from graphsearch.search.shards import upkeep
    from graphsearch.store.upkeep import compact

    work = upkeep.compact if _is_cluster(file) else compact.compact
    with _working("Compacting") as advance:
        report = work(file, advance)
    if json:
        print_json(report.as_dict())
        return
    gone = count(report.superseded, "superseded version")
    print(f"{file}: {_sizes(report.bytes_before, report.bytes_after)}, {gone} dropped")


def _sizes(before: int, after: int) -> str:
    return f"{size(before)} before, {size(after)} after"


@command(
    "Drop nodes with few visits.",
    "graphsearch store prune first.graph --min-visits 2",
)
def prune(file: StoreFile, min_visits: MinVisits, json: Json = False) -> None:
    """Drop the nodes with few visits from a graph file, except roots of searches, and compact it.

    Edges that lead to a dropped node keep their visits and values; a search that passes by evaluates the node
    again. Of a cluster (a folder), every file is pruned. Ctrl-C or a kill does no harm; repeat the command to
    continue. A process that writes the file must end first.
    """
    from graphsearch.search.shards import upkeep
    from graphsearch.store.upkeep import prune

    work = upkeep.prune if _is_cluster(file) else prune.prune
    with _working("Pruning") as advance:
        report = work(file, min_visits, advance)
    if json:
        print_json(report.as_dict())
        return
    nodes = f"{count(report.nodes_before, 'node')} before, {report.nodes_after:,} after"
    print(f"{file}: {nodes}; {_sizes(report.bytes_before, report.bytes_after)}")


@command(
    "Copy a graph file, even while it is being written.",
    "graphsearch store backup first.graph copy.graph",
)
def backup(file: StoreFile, copy: Copy, force: Force = False, json: Json = False) -> None:
    """Copy a graph file as it is now, even while a search writes it.

    The copy appears only when it is complete and on disk. The copy of a cluster (a folder) is a new folder.
    """
    from graphsearch.search.shards import upkeep
    from graphsearch.store.upkeep import backup

    folder = _is_cluster(file)
    if folder and force:
        raise typer.BadParameter("--force replaces no cluster; name another folder")
    with _working("Copying pages") as advance:
        report = (
            upkeep.backup(file, copy, progress=advance)
            if folder
            else backup.backup(file, copy, force=force, progress=advance)
        )
    say_if_unfinished(copy)
    if json:
        print_json(report.as_dict())
        return
    print(f"{copy}: {count(report.nodes, 'node')}, {size(report.bytes)}")


@command(
    "Rescue the sound records of a damaged file.",
    "graphsearch store salvage first.graph rescued.graph",
)
def salvage(
    file: StoreFile, new: New, evaluator: Evaluator = None, force: Force = False, json: Json = False
) -> None:
    """Write a new, sound file from everything in a damaged one that can still be verified.

    The damaged file is only read. For each position the newest surviving version is kept. What was lost is
    listed; a search on the new file evaluates it again. Of a cluster (a folder) a new cluster is written; one
    of its files is rescued like any other, and put back under its name.
    """
    from graphsearch.search.shards import upkeep
    from graphsearch.store.upkeep import salvage

    folder = _is_cluster(file)
    if folder and (force or evaluator):
        raise typer.BadParameter("a cluster is rescued without --force and --evaluator: into a new folder")
    identity = _identity(evaluator) if evaluator else None
    with _working("Reading blocks") as advance:
        report = (
            upkeep.salvage(file, new, progress=advance)
            if folder
            else salvage.salvage(file, new, identity=identity, force=force, progress=advance)
        )
    if json:
        print_json(report.as_dict())
        return
    print_problems(report.problems, report.found)
    lost = f"{report.blocks_lost:,} of {count(report.blocks, 'block')} lost"
    tables = f", rows lost in {', '.join(report.tables_lost)}" if report.tables_lost else ""
    print(f"{new}: {count(report.records, 'record')} kept, {lost}{tables}")


def _identity(name: str) -> EvaluatorIdentity:
    made, _ = EvaluatorOptions(evaluator=name).create()
    with closing(made):
        return made.identity


@command(
    "Predict the file size and memory of larger graphs.",
    "graphsearch store forecast first.graph",
    "graphsearch store forecast first.graph --json",
)
def forecast(file: StoreFile, json: Json = False) -> None:
    """Predict the file size and memory of 10^8 and 10^9 nodes from the records of this file.

    JSON: `file` has the figures of the file, per node or record. `predictions` has for each number of
    `nodes`: `file_bytes`, `file_bytes_compact` (after `store compact`), `ram_all_bytes` (the whole graph in
    memory), `ram_index_bytes` (the index of the file), `ram_least_bytes` (the index and one node in twenty)
    and `seconds` (to get there at this file's rate; null if unknown).
    """
    from graphsearch.store.upkeep import forecast

    found = forecast.forecast(file)
    if json:
        print_json(found.as_dict())
        return
    print_part(_forecast_table(found))
    own = found.file
    each = own.block_bytes + own.index_bytes + own.sqlite_bytes
    parts = f"{own.block_bytes:.1f} in blocks, {own.index_bytes:.1f} index, {own.sqlite_bytes:.1f} SQLite"
    print(f"Per node: {each:.1f} bytes of file ({parts}), {own.ram_bytes:.1f} of memory;", end=" ")
    print(f"{100 * own.superseded_share:.0f} % superseded versions.")
    if own.nodes_per_run is not None:
        pace = f", {own.nodes_per_s:,.0f} per second" if own.nodes_per_s else ""
        print(f"Growth: {own.nodes_per_run:,.0f} nodes per search{pace}.")
    if not own.reliable:
        say(f"note: {file} is small; forecasts are reliable from 65,536 nodes on")


def _forecast_table(found: Forecast) -> Table:
    names = ("Nodes", "File", "compact", "RAM, all", "RAM, least", "of it index", "Time")
    rows = []
    for row in found.predictions:
        amounts = (
            row.file_bytes,
            row.file_bytes_compact,
            row.ram_all_bytes,
            row.ram_least_bytes,
            row.ram_index_bytes,
        )
        rows.append([f"{row.nodes:,}", *map(size, amounts), _duration(row.seconds)])
    return table(dict.fromkeys(names, RIGHT), rows)


def _duration(seconds: float | None) -> str:
    """Returns a time in hours or days.

    >>> _duration(5400), _duration(200000), _duration(None)
    ('1.5 h', '2.3 days', '')
    """
    if seconds is None:
        return ""
    return f"{seconds / 3600:.1f} h" if seconds < 86400 else f"{seconds / 86400:.1f} days"
