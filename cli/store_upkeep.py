"""The commands of `graphsearch store` that change, copy or rescue a graph file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from .commands import report
from .options import EvaluatorOptions, Force, StoreOption, argument, option
from .output import problem_lines
from .progress import progress_bar
from .render import count, size
from .signals import StopSignals
from .tables import Part

if TYPE_CHECKING:
    from graphsearch.store.upkeep.backup import BackupReport
    from graphsearch.store.upkeep.compact import CompactReport
    from graphsearch.store.upkeep.prune import PruneReport
    from graphsearch.store.upkeep.salvage import SalvageReport

Evaluator = Annotated[
    str | None, option("--evaluator NAME", "The evaluator that filled the file, if the file no longer says.")
]
MinVisits = Annotated[int | None, option("--min-visits N", "Drop nodes with fewer than N visits.", min=1)]
Copy = Annotated[Path, argument("COPY", "The copy to write.")]
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

    Ctrl-C or a kill does no harm; repeat the command to continue. A process that writes the file must end
    first.
    """
    from graphsearch.store.upkeep import compact, prune

    if min_visits is not None:
        with _working("Pruning") as advance:
            return prune.prune(store, min_visits, advance)
    with _working("Compacting") as advance:
        return compact.compact(store, advance)


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

    The copy appears only when it is complete and on disk.
    """
    from graphsearch.store.upkeep import backup

    with _working("Copying pages") as advance:
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
    listed; a search on the new file evaluates it again.
    """
    from graphsearch.store.upkeep import salvage

    identity = None
    if evaluator:
        made, _ = EvaluatorOptions(evaluator=evaluator).create()
        with closing(made):
            identity = made.identity
    with _working("Reading blocks") as advance:
        return salvage.salvage(store, new, identity=identity, force=force, progress=advance)
