"""`graphsearch store merge`: merges several graph files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphsearch.base.errors import GraphSearchError

from .commands import command
from .options import Force, Json, Ram, argument, byte_count, option
from .output import FAILED, print_answer, problem_lines, say, say_if_unfinished
from .progress import titled_bar
from .render import WAY, WAY_SPARE, count, size, way_cells
from .signals import StopSignals
from .tables import LEFT, Cells, Part, table

if TYPE_CHECKING:
    from graphsearch.graph.sweeps.merge import MergeProgress
    from graphsearch.query.routes import Way
    from graphsearch.store.union.all import InputReport, MergeReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The files and options of one call."""

    files: Annotated[list[Path], argument("FILE...", "The graph files.")]
    output: Annotated[Path | None, option("-o --output NEW", "The new file to write.")] = None
    into: Annotated[Path | None, option("--into FILE", "Add the others to this file.")] = None
    keep: Annotated[
        Path | None,
        option(
            "--keep FILE",
            "Bind the result to this file's evaluator, if the files have several; `reevaluate` must then "
            "replace the values of the others.",
        ),
    ] = None
    dry_run: Annotated[
        bool, option("--dry-run", "Write nothing; print what would be written, with examples.")
    ] = False
    no_refresh: Annotated[
        bool, option("--no-refresh", "Leave values as they are; searches update them where they pass.")
    ] = False
    force: Force = False
    ram: Ram = None
    json: Json = False


@command(
    "Merge graph files into one.",
    "graphsearch store merge first.graph copy.graph -o both.graph",
    "graphsearch store merge copy.graph --into first.graph --dry-run --json",
    views=True,
)
def merge(request: Request) -> None:
    """Merge what several graph files know: records, searches, imports, books and proofs.

    Of each move the version with more visits counts, and what either file has proven holds for both. A PGN
    file that was imported into several files is counted once. At the end all values are brought up to date,
    as `refresh` does. The order of the files decides only between values that nothing else decides.

    The inputs are only read, also while a search writes them. A damaged one is salvaged; what is left out
    is listed, and the exit code is 1. Ctrl-C or a kill does no harm: repeat the command. A new file appears
    only when it is complete.

    JSON: `inputs` counts the records of each file that were new (`fresh`), `changed` and `unchanged`; `fresh`
    and `changed` are the most visited examples with N before and after; `problems` lists what was left out.
    """
    from graphsearch.graph.sweeps.merge import Wanted
    from graphsearch.graph.sweeps.merge import merge as merge_files

    wanted = Wanted(
        keep=request.keep,
        dry_run=request.dry_run,
        refresh=not request.no_refresh,
        force=request.force,
        ram_bytes=None if request.ram is None else byte_count(request.ram),
    )
    with StopSignals(), titled_bar("Reading", _title) as show:
        report = merge_files(
            request.files, new=request.output, into=request.into, wanted=wanted, on_progress=show
        )
    print_answer(report, _view(report), json=request.json)
    if not report.dry_run:
        say_if_unfinished(report.path)
    if not report.complete:
        say(f"graphsearch: the merge is not complete: {count(report.found, 'problem')}, listed in the output")
        raise typer.Exit(FAILED)


def _title(now: MergeProgress) -> str:
    name = Path(now.name).name
    if now.stage == "records":
        return f"Merging {name}"
    if now.stage == "tables":
        return f"Tables of {name}"
    return f"{now.stage.capitalize()} {name}".rstrip()


def _view(report: MergeReport) -> Iterator[Part]:
    yield table(map(_input, report.inputs), {"File": LEFT})
    if not report.inputs:
        say(f"Nothing to add: no file but {report.path} itself is named.")
    for what, examples in (("new", report.examples.of("fresh")), ("changed", report.examples.of("changed"))):
        if report.dry_run and examples:
            yield _examples(what, examples, [one.path for one in report.inputs])
    yield from problem_lines(report.problems, report.found)
    if report.refreshed and report.refreshed["stale"]:
        yield (f"values brought up to date: {count(report.refreshed['changed_edges'], 'edge')}")
    verb = "would have" if report.dry_run else "has"
    most = "at most " if report.dry_run else ""
    yield (f"{report.path} {verb} {count(report.nodes, 'node')}, {most}{size(report.bytes)}")
    if report.dry_run:
        say("Nothing was written.")


def _input(one: InputReport) -> dict[str, str]:
    return {
        "File": f"{one.path} (salvaged)" if one.salvaged else one.path,
        "Records": f"{one.counts.records:,}",
        "New": f"{one.counts.fresh:,}",
        "Changed": f"{one.counts.changed:,}",
        "Unchanged": f"{one.counts.unchanged:,}",
        "Other rows": f"{sum(one.rows.values()):,}",
    }


def _examples(what: str, examples: list[dict[str, Any]], files: Iterable[str]) -> Cells:
    from graphsearch.query.routes import routes

    ways: dict[str, Way] = {}
    for file in files:
        with suppress(GraphSearchError):  # the problems of a file are listed
            ways = routes(file, [one["position"] for one in examples if one["position"] not in ways]) | ways
    rows = [
        way_cells(ways.get(one["position"]), one["position"])
        | {"Visits before": f"{one['before']:,}", "Visits": f"{one['after']:,}"}
        for one in examples
    ]
    return table(rows, WAY, spare=WAY_SPARE, title=f"Most visited, {what}")
