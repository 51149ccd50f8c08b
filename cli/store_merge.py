"""`graphsearch store merge`: merges several graph files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command
from .options import Json, Ram, byte_count
from .output import FAILED, print_json, print_part, print_problems, say, say_if_unfinished
from .progress import progress_bar, titled_bar
from .render import count, size
from .signals import StopSignals
from .store_cluster import print_parted
from .tables import LEFT, RIGHT, table

if TYPE_CHECKING:
    from rich.table import Table

    from graphsearch.graph.sweeps.merge import MergeProgress
    from graphsearch.store.union.records import Example
    from graphsearch.store.union.report import MergeReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The files and options of one call."""

    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="The graph files.", show_default=False)
    ]
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="NEW", help="The new file to write.", show_default=False),
    ] = None
    into: Annotated[
        Path | None,
        typer.Option("--into", metavar="FILE", help="Add the others to this file.", show_default=False),
    ] = None
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            metavar="FILE",
            help="Bind the result to this file's evaluator, if the files have several; `reevaluate` must "
            "then replace the values of the others.",
            show_default=False,
        ),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write nothing; print what would be written, with examples.")
    ] = False
    no_refresh: Annotated[
        bool,
        typer.Option("--no-refresh", help="Leave values as they are; searches update them where they pass."),
    ] = False
    force: Annotated[
        bool,
        typer.Option("--force", help="Overwrite an existing file, and start even if the disk may be full."),
    ] = False
    ram: Ram = None
    json: Json = False


@command(
    "Merge graph files into one.",
    "graphsearch store merge first.graph copy.graph -o both.graph",
    "graphsearch store merge copy.graph --into first.graph --dry-run --json",
    "graphsearch store merge first.cluster -o whole.graph",
)
def merge(request: Request) -> None:
    """Merge what several graph files know: records, searches, imports, books, opinions and proofs.

    Of each move the version with more visits counts, and what either file has proven holds for both. A PGN
    file that was imported into several files is counted once. At the end all values are brought up to date,
    as `refresh` does. The order of the files decides only between values that nothing else decides.

    The inputs are only read, also while a search writes them. A damaged one is salvaged; what is left out
    is listed, and the exit code is 1. Ctrl-C or a kill does no harm: repeat the command. A new file appears
    only when it is complete.

    One cluster alone (a folder) becomes one file: its records as they are.

    JSON: `inputs` counts the records of each file that were new (`fresh`), `changed` and `unchanged`; `fresh`
    and `changed` are the most visited examples with N before and after; `problems` lists what was left out.
    """
    from graphsearch.graph.sweeps.merge import Wanted
    from graphsearch.graph.sweeps.merge import merge as merge_files

    if len(request.files) == 1 and request.output and request.files[0].is_dir():
        _join_shards(request.files[0], request.output, request)
        return
    wanted = Wanted(
        keep=request.keep,
        dry_run=request.dry_run,
        refresh=not request.no_refresh,
        force=request.force,
        ram_bytes=None if request.ram is None else byte_count(request.ram),
    )
    with StopSignals(), titled_bar("Reading", title) as show:
        report = merge_files(
            request.files, new=request.output, into=request.into, wanted=wanted, on_progress=show
        )
    if request.json:
        print_json(report.as_dict())
    else:
        _print(report)
    if not report.dry_run:
        say_if_unfinished(report.path)
    if not report.complete:
        say(f"graphsearch: the merge is not complete: {count(report.found, 'problem')}, listed in the output")
        raise typer.Exit(FAILED)


def _join_shards(folder: Path, output: Path, request: Request) -> None:
    """Merges a cluster into one file."""
    from graphsearch.search.shards import parting

    with StopSignals(), progress_bar("Merging") as advance:
        report = parting.merge(folder, output, force=request.force, progress=advance)
    print_parted(report, json=request.json)


def title(now: MergeProgress) -> str:
    """Returns the present step of a merge."""
    name = Path(now.name).name
    if now.stage == "records":
        return f"Merging {name}"
    if now.stage == "tables":
        return f"Tables of {name}"
    return f"{now.stage.capitalize()} {name}".rstrip()


def _print(report: MergeReport) -> None:
    if report.inputs:
        print_part(_table(report))
    else:
        say(f"{report.path} is the file that is merged into, and no other is named: nothing to add.")
    for what, examples in (("new", report.examples.of("fresh")), ("changed", report.examples.of("changed"))):
        if report.dry_run and examples:
            print_part(_examples(what, examples))
    print_problems(report.problems, report.found)
    if report.refreshed and report.refreshed["stale"]:
        print(f"values brought up to date: {count(report.refreshed['changed_edges'], 'edge')}")
    verb = "would have" if report.dry_run else "has"
    most = "at most " if report.dry_run else ""
    print(f"{report.path} {verb} {count(report.nodes, 'node')}, {most}{size(report.bytes)}")
    if report.dry_run:
        say("Nothing was written.")


def _table(report: MergeReport) -> Table:
    columns = {"File": LEFT} | dict.fromkeys(("Records", "New", "Changed", "Unchanged", "Other rows"), RIGHT)
    rows = [
        [
            f"{one.path} (salvaged)" if one.salvaged else one.path,
            f"{one.counts.records:,}",
            f"{one.counts.fresh:,}",
            f"{one.counts.changed:,}",
            f"{one.counts.unchanged:,}",
            f"{sum(one.rows.values()):,}",
        ]
        for one in report.inputs
    ]
    return table(columns, rows)


def _examples(what: str, examples: list[Example]) -> Table:
    from graphsearch.position.board import fen_of, unpack

    rows = [[f"{one.before:,}", f"{one.after:,}", fen_of(unpack(one.words))] for one in examples]
    return table({"N before": RIGHT, "N": RIGHT, "Position": LEFT}, rows, title=f"Most visited, {what}")
