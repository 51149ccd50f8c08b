"""`graphsearch store`, `reevaluate` and `lab refresh`: work on whole graph files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from graphsearch.base.errors import MissingStoreError
from graphsearch.base.limits import byte_count
from graphsearch.book.questions import refresh_values
from graphsearch.graph.sweeps import merge as merging
from graphsearch.graph.sweeps import reevaluate as reevaluating
from graphsearch.graph.sweeps import refresh as refreshing
from graphsearch.graph.sweeps.merge import InputReport, MergeReport
from graphsearch.graph.sweeps.reevaluate import ReevaluateReport
from graphsearch.graph.sweeps.refresh import RefreshReport
from graphsearch.store import rewrite
from graphsearch.store.backup import backup as back_up
from graphsearch.store.salvage import salvage as rescue
from graphsearch.store.store import Store
from graphsearch.store.verify import verify as check

from .options import Count, EvaluatorOptions, Force, Ram, StoreOption, graph_ram, option
from .output import FAILED, command_text, fail, print_answer, print_json, print_parts, problem_lines, say
from .progress import StopSignals, titled_bar
from .tables import Part, Table, count, is_json, size


@contextmanager
def _working(title: str) -> Iterator[Callable[..., None]]:
    """Yields a progress display; SIGTERM ends the work like Ctrl-C, with every file closed."""
    with StopSignals(), titled_bar(title, _title) as show:
        yield show


def compact(store: StoreOption, min_visits: Count | None = None) -> None:
    """Make a graph file as small as possible: merge its blocks, drop superseded versions and free pages.

    With --min-visits, also drop the nodes with fewer visits, except roots of searches. Edges that lead to a
    dropped node keep their visits and values; a search that passes by evaluates the node again.

    Ctrl-C or a kill does no harm; repeat the command to continue. A process that writes the file must end
    first.

    \b
    Examples:
      graphsearch store compact first.graph
      graphsearch store compact first.graph --min-visits 2

    Args:
      min_visits: --min-visits N: Drop nodes with fewer than N visits.
    """
    with _working("Compacting") as show:
        found = rewrite.compact(store, show, min_visits=min_visits or 1)
    line = f"{size(found.bytes_before)} before, {size(found.bytes_after)} after"
    if min_visits:
        line = f"{count(found.nodes + found.dropped, 'node')} before, {found.nodes:,} after; {line}"
    else:
        line += f", {count(found.superseded, 'superseded version')} dropped"
    print_answer(found, [f"{store}: {line}"])


def backup(store: StoreOption, copy: Path, force: Force = False) -> None:
    """Copy a graph file as it is now, even while a search writes it.

    The copy appears only when it is complete and on disk.

    \b
    Example:
      graphsearch store backup first.graph copy.graph

    Args:
      copy: COPY: The copy to write.
    """
    with _working("Copying pages") as show:
        found = back_up(store, copy, force=force, on_progress=show)
    print_answer(found, [f"{copy}: {count(found.nodes, 'node')}, {size(found.bytes)}"])


def salvage(store: StoreOption, new: Path, evaluator: str | None = None, force: Force = False) -> None:
    """Write a new, sound file from everything in a damaged one that can still be verified.

    The damaged file is only read. For each position the newest surviving version is kept. What was lost is
    listed; a search on the new file evaluates it again.

    \b
    Example:
      graphsearch store salvage first.graph rescued.graph

    Args:
      new: NEW: The new file to write.
      evaluator: --evaluator NAME: The evaluator that filled the file, if the file no longer says.
    """
    identity = None
    if evaluator:
        made, _ = EvaluatorOptions(evaluator=evaluator).create()
        with closing(made):
            identity = made.identity
    with _working("Reading blocks") as show:
        found = rescue(store, new, identity=identity, force=force, on_progress=show)
    lost = f"{found.blocks_lost:,} of {count(found.blocks, 'block')} lost"
    tables = f", rows lost in {', '.join(found.tables_lost)}" if found.tables_lost else ""
    kept = f"{new}: {count(found.records, 'record')} kept, {lost}{tables}"
    print_answer(found, [*problem_lines(found.problems, found.found), kept])


def merge(
    files: list[Path],
    output: Path | None = None,
    into: Path | None = None,
    force: Force = False,
    ram: Ram = None,
) -> int:
    """Merge what several graph files know: records, searches, imports, books and proofs.

    Of each move the version with more visits counts, and what either file has proven holds for both. A PGN
    file that was imported into several files is counted once. At the end all values are brought up to date,
    as `refresh` does. The order of the files decides only between values that nothing else decides.

    The inputs are only read, also while a search writes them. A damaged one is salvaged; what is left out
    is listed, and the exit code is 1. Ctrl-C or a kill does no harm: repeat the command. A new file appears
    only when it is complete.

    JSON: `inputs` counts the records of each file that were new (`fresh`), `changed` and `unchanged`;
    `problems` lists what was left out.

    \b
    Examples:
      graphsearch store merge first.graph copy.graph -o both.graph
      graphsearch store merge copy.graph --into first.graph --json

    Args:
      files: FILE...: The graph files.
      output: -o --output NEW: The new file to write.
      into: --into FILE: Add the others to this file.
    """
    ram_bytes = None if ram is None else byte_count(ram)
    with _working("Reading") as show:
        report = merging.merge(
            files, new=output, into=into, force=force, ram_bytes=ram_bytes, on_progress=show
        )
    print_answer(report, _merged(report))
    if report.complete:
        return 0
    return fail(f"the merge is not complete: {count(report.found, 'problem')}, listed in the output")


def _merged(report: MergeReport) -> Iterator[Part]:
    yield Table(map(_input, report.inputs))
    if not report.inputs:
        say(f"Nothing to add: no file but {report.path} itself is named.")
    yield from problem_lines(report.problems, report.found)
    if report.refreshed and report.refreshed["stale"]:
        yield (f"values brought up to date: {count(report.refreshed['changed_edges'], 'edge')}")
    if report.unsettled:
        say(f"note: values are not up to date, searches update them where they pass: {report.unsettled}")
    yield f"{report.path} has {count(report.nodes, 'node')}, {size(report.bytes)}"


def _input(one: InputReport) -> dict[str, str]:
    return {
        "File": f"{one.path} (salvaged)" if one.salvaged else one.path,
        "Records": f"{one.counts.records:,}",
        "New": f"{one.counts.fresh:,}",
        "Changed": f"{one.counts.changed:,}",
        "Unchanged": f"{one.counts.unchanged:,}",
        "Other rows": f"{sum(one.rows.values()):,}",
    }


def reevaluate(store: StoreOption, evaluator: EvaluatorOptions, ram: Ram = None) -> int:
    """Re-evaluate a graph file: V and P of another evaluator replace those in the file.

    Visits do not change. At the end every value, also in books, is brought up to date with its children, as
    by `lab refresh`. Ctrl-C saves; after a kill only some seconds are lost. Repeat the command to resume: no
    position is evaluated twice. Until it has finished, other commands refuse to write to the file.

    \b
    Examples:
      graphsearch reevaluate sunday.graph --evaluator uniform
      graphsearch reevaluate sunday.graph --evaluator uniform --ram 2GB --json
    """
    if not evaluator.named:
        raise typer.BadParameter("name the new evaluator: --evaluator NAME")
    ram_bytes = graph_ram(ram)  # checked before an evaluator is loaded
    made, _ = evaluator.create(file=store)
    name, resume = made.identity.describe(), command_text()
    with (
        closing(made),
        StopSignals("Stopping: waiting for the evaluator and saving...\n") as signals,
        titled_bar("Evaluating", _title) as show,
    ):
        with Store.open(store, read_only=True) as opened:
            mark = opened.unfinished
            if mark and opened.identity.as_json() != made.identity.as_json():
                say(
                    f"note: {store} {mark.describe(opened.identity)}; these are evaluated again with"
                    f" {name} unless they already come from it"
                )
        signals.arm()
        report = reevaluating.reevaluate(
            store, made, ram_bytes=ram_bytes, stop=signals.stop, on_progress=show, command=resume
        )
    print_answer(report, _reevaluated(report, name))
    if not report.finished:
        say(f"Saved: {report.done:,} of {count(report.records, 'position')}. Resume with: {resume}")
        return signals.exit_code
    refresh_values(store)
    if not report.settled:
        say(f"The values have not settled; continue with: {command_text('lab', 'refresh', str(store))}")
    if report.evaluated:
        say(f"What changed at each root: {command_text('diff', str(store), '--since', 'last')}")
    return 0


def _reevaluated(report: ReevaluateReport, name: str) -> Iterator[str]:
    if report.finished and not report.evaluated:
        yield f"The file already holds the values of {name}; nothing was evaluated."
        return
    yield (
        f"{count(report.records, 'record')}, {count(report.evaluated, 'position')} evaluated"
        f" ({report.evaluated_now:,} now), {report.seconds:.1f} s"
    )
    if not report.finished:
        return
    if report.kept:
        yield f"left alone: {count(report.kept, 'edge')} whose visits the file has lost"


def _title(now: rewrite.Progress) -> str:
    return now.stage.capitalize() + now.note


def _refreshed(found: RefreshReport) -> Iterator[Part]:
    yield (
        f"{count(found.records, 'record')}, {count(found.sweeps, 'sweep')}, {found.seconds:.1f} s;"
        f" largest change of Q {found.first_change:.5f} in the first, {found.last_change:.5f} in the last"
    )
    yield (
        f"{count(found.stale, 'stale edge')}; written: {count(found.changed_edges, 'edge')}"
        f" of {count(found.changed_records, 'record')}"
    )
    alone = found.lost + found.missing
    if alone:
        yield f"left alone: {count(alone, 'edge')} whose visits the file has lost"
    if not found.settled:
        say(f"The values have not settled after {count(found.sweeps, 'sweep')}; refresh again to continue.")


def refresh(
    store: StoreOption,
    tolerance: Annotated[
        float,
        option("--tolerance X", "Leave values alone that are off by less than X in Q.", show_default=False),
    ] = 0.001,
    ram: Ram = None,
) -> None:
    """Give every move in a graph file the current value of the position it leads to.

    A position that was searched further along one line leaves stale values in the other lines that lead to
    it. A search updates them when it passes by; this command updates all of them. Nothing is written before
    the values have settled. It takes 100 bytes of memory a node.

    \b
    Examples:
      graphsearch lab refresh first.graph
      graphsearch lab refresh first.graph --tolerance 0.0001 --json
    """
    limit = None if ram is None else byte_count(ram)
    with titled_bar("Reading", _title) as show:
        found = refreshing.refresh(store, tolerance, ram_bytes=limit, on_progress=show)
    print_answer(found, _refreshed(found))


def verify(store: StoreOption) -> int:
    """Read a whole graph file, transposition entries included, and check the invariants of every record.

    Exit code 1 if anything is wrong.

    \b
    Example:
      graphsearch store verify first.graph --json
    """
    if not os.path.lexists(store):
        raise MissingStoreError(f"{store} does not exist; check the name")
    with titled_bar("Checking", _title) as show:
        report = check(store, show)
    if is_json():
        print_json(report.as_dict())
    elif not report.opened:
        fail("; ".join(report.problems))
    else:
        verdict = "sound" if report.ok else f"NOT sound: {count(report.found, 'problem')}"
        held = f", {count(report.entries, 'entry', 'entries')}" if report.entries else ""
        line = f"{store}: {count(report.records, 'record')}{held}, {verdict}"
        print_parts([*problem_lines(report.problems, report.found), line])
    return 0 if report.ok else FAILED
