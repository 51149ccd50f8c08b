"""The commands of `graphsearch store` that split a graph file into a cluster, and mend one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command
from .options import Json, StoreFile
from .output import print_json
from .progress import progress_bar
from .render import count, size
from .signals import StopSignals

if TYPE_CHECKING:
    from graphsearch.search.shards.parting import Parted

Cluster = Annotated[
    Path, typer.Argument(metavar="CLUSTER", help="The folder of a cluster.", show_default=False)
]
Shards = Annotated[
    int, typer.Option("--shards", metavar="K", min=1, help="Shards of the cluster.", show_default=False)
]


@command(
    "Make a cluster of a graph file.",
    "graphsearch store split first.graph first.cluster --shards 2",
)
def split(file: StoreFile, folder: Cluster, shards: Shards, json: Json = False) -> None:
    """Make a cluster of a graph file: a folder with a file for each of K shards.

    The file is only read. `analyze --shards K --store CLUSTER` searches the cluster with a process for each
    shard; `show`, `query` and `store verify` read it as if it were one file.
    """
    from graphsearch.search.shards import parting

    with StopSignals(), progress_bar("Splitting") as advance:
        report = parting.split(file, folder, shards=shards, progress=advance)
    print_parted(report, json=json)


@command(
    "Make the missing files of a cluster anew, empty.",
    "graphsearch store mend first.cluster",
)
def mend(folder: Cluster, json: Json = False) -> None:
    """Make the missing files of a cluster anew, without records.

    Use it when a shard's file is lost for good. Edges that lead to what it held keep their visits and values;
    a search that passes by evaluates the positions again.
    """
    from graphsearch.search.shards import parting

    made = parting.mend(folder)
    if json:
        print_json({"path": str(folder), "made": made})
        return
    listed = ", ".join(str(number) for number in made)
    print(f"{folder}: {f'shard {listed} made anew' if made else 'no file is missing'}")


def print_parted(report: Parted, *, json: bool) -> None:
    """Prints the report of a split or a merge."""
    if json:
        print_json(report.as_dict())
        return
    shards = f", {count(report.shards, 'shard')}" if report.shards > 1 else ""
    print(f"{report.path}: {count(report.nodes, 'node')}{shards}, {size(report.bytes)}")
