"""The commands of `graphsearch store` that change, copy or rescue a graph file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command, report
from .options import EvaluatorOptions, Force, Json, StoreOption, argument, option
from .output import print_json, problem_lines
from .progress import progress_bar
from .render import count, size
from .signals import StopSignals
from .tables import Part

if TYPE_CHECKING:
    from graphsearch.search.shards.parting import Parted
    from graphsearch.store.upkeep.backup import BackupReport
    from graphsearch.store.upkeep.compact import CompactReport
    from graphsearch.store.upkeep.prune import PruneReport
    from graphsearch.store.upkeep.salvage import SalvageReport

Evaluator = Annotated[
    str | None, option("--evaluator NAME", "The evaluator that filled the file, if the file no longer says.")
]
MinVisits = Annotated[int | None, option("--min-visits N", "Drop nodes with fewer than N visits.", min=1)]
Copy = Annotated[Path, argument("COPY", "The copy to write.")]
Cluster = Annotated[Path, argument("CLUSTER", "The folder of a cluster.")]
Shards = Annotated[int, option("--shards K", "Shards of the cluster.", min=1)]
New = Annotated[Path, argument("NEW", "The new file to write.")]


@contextmanager
def _working(title: str) -> Iterator[Callable[..., None] | None]:
    """Yields a progress display; SIGTERM ends the work like Ctrl-C, with every file closed."""
    with StopSignals(), progress_bar(title) as advance:
        yield advance


def _compacted(found: CompactReport | PruneReport, store: Path) -> Iterator[Part]:
    from graphsearch.store.upkeep.prune import PruneReport

    sizes = f"{size(found.bytes_before)} before, {size(found.bytes_after)} after"
    if isinstance(found, PruneReport):
        yield f"{store}: {count(found.nodes_before, 'node')} before, {found.nodes_after:,} after; {sizes}"
    else:
        yield f"{store}: {sizes}, {count(found.superseded, 'superseded version')} dropped"


@report(
    "Make a graph file smaller, without loss or by --min-visits.",
    "graphsearch store compact first.graph",
    "graphsearch store compact first.graph --min-visits 2",
    view=_compacted,
)
def compact(store: StoreOption, min_visits: MinVisits = None) -> CompactReport | PruneReport:
    """Make a graph file as small as possible: merge its blocks, drop superseded versions and free pages.

    With --min-visits, also drop the nodes with fewer visits, except roots of searches. Edges that lead to a
    dropped node keep their visits and values; a search that passes by evaluates the node again.

    Of a cluster (a folder), every file. Ctrl-C or a kill does no harm; repeat the command to continue. A
    process that writes the file must end first.
    """
    from graphsearch.search.shards import upkeep
    from graphsearch.store.sharded.manifest import is_sharded
    from graphsearch.store.upkeep import compact, prune

    cluster = is_sharded(store)
    if min_visits is not None:
        with _working("Pruning") as advance:
            return (upkeep.prune if cluster else prune.prune)(store, min_visits, advance)
    with _working("Compacting") as advance:
        return (upkeep.compact if cluster else compact.compact)(store, advance)


def _copied(found: BackupReport, copy: Path) -> Iterator[Part]:
    yield f"{copy}: {count(found.nodes, 'node')}, {size(found.bytes)}"


@report(
    "Copy a graph file, even while it is being written.",
    "graphsearch store backup first.graph copy.graph",
    view=_copied,
    noted="copy",
)
def backup(store: StoreOption, copy: Copy, force: Force = False) -> BackupReport:
    """Copy a graph file as it is now, even while a search writes it.

    The copy appears only when it is complete and on disk. The copy of a cluster (a folder) is a new folder.
    """
    from graphsearch.search.shards import upkeep
    from graphsearch.store.sharded.manifest import is_sharded
    from graphsearch.store.upkeep import backup

    folder = is_sharded(store)
    if folder and force:
        raise typer.BadParameter("--force cannot replace a cluster; name another folder")
    with _working("Copying pages") as advance:
        if folder:
            return upkeep.backup(store, copy, progress=advance)
        return backup.backup(store, copy, force=force, progress=advance)


def _salvaged(found: SalvageReport, new: Path) -> Iterator[Part]:
    yield from problem_lines(found.problems, found.found)
    lost = f"{found.blocks_lost:,} of {count(found.blocks, 'block')} lost"
    tables = f", rows lost in {', '.join(found.tables_lost)}" if found.tables_lost else ""
    yield f"{new}: {count(found.records, 'record')} kept, {lost}{tables}"


@report(
    "Rescue the sound records of a damaged file.",
    "graphsearch store salvage first.graph rescued.graph",
    view=_salvaged,
)
def salvage(store: StoreOption, new: New, evaluator: Evaluator = None, force: Force = False) -> SalvageReport:
    """Write a new, sound file from everything in a damaged one that can still be verified.

    The damaged file is only read. For each position the newest surviving version is kept. What was lost is
    listed; a search on the new file evaluates it again. Of a cluster (a folder) a new cluster is written; one
    of its files is rescued like any other, and put back under its name.
    """
    from graphsearch.search.shards import upkeep
    from graphsearch.store.sharded.manifest import is_sharded
    from graphsearch.store.upkeep import salvage

    folder = is_sharded(store)
    if folder and (force or evaluator):
        raise typer.BadParameter("--force and --evaluator do not apply to a cluster; name a new folder")
    identity = None
    if evaluator:
        made, _ = EvaluatorOptions(evaluator=evaluator).create()
        with closing(made):
            identity = made.identity
    with _working("Reading blocks") as advance:
        if folder:
            return upkeep.salvage(store, new, progress=advance)
        return salvage.salvage(store, new, identity=identity, force=force, progress=advance)


# ------------------------------------------------------------------ clusters
def parted(found: Parted) -> Iterator[Part]:
    """Yields the report of a split or a merge."""
    shards = f", {count(found.shards, 'shard')}" if found.shards > 1 else ""
    yield f"{found.path}: {count(found.nodes, 'node')}{shards}, {size(found.bytes)}"


@report(
    "Make a cluster of a graph file.",
    "graphsearch lab split first.graph first.cluster --shards 2",
    view=parted,
)
def split(store: StoreOption, folder: Cluster, shards: Shards) -> Parted:
    """Make a cluster of a graph file: a folder with a file for each of K shards.

    The file is only read. `analyze --shards K --store CLUSTER` searches the cluster with a process for each
    shard; other commands read it as if it were one file.
    """
    from graphsearch.search.shards import parting

    with _working("Splitting") as advance:
        return parting.split(store, folder, shards=shards, progress=advance)


@command("Make the missing files of a cluster anew, empty.", "graphsearch lab mend first.cluster")
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
