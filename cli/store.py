"""`graphsearch store`, `reevaluate` and `lab refresh`: what a graph file holds, and work on whole files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from graphsearch.base.errors import GraphSearchError, MissingStoreError

from .commands import command, command_line, group
from .options import EvaluatorOptions, Force, Json, Ram, StoreOption, argument, byte_count, graph_ram, option
from .output import FAILED, print_answer, print_json, print_parts, problem_lines, say, say_if_unfinished
from .program import command_text
from .progress import progress_bar, titled_bar
from .render import (
    LEFT,
    WAY,
    WAY_SPARE,
    Cells,
    Part,
    count,
    is_white,
    moment,
    numbered,
    opening_at,
    signed,
    size,
    table,
    way_cells,
)
from .signals import StopSignals

if TYPE_CHECKING:
    from pathlib import Path

    from graphsearch.evaluators.protocol import Evaluator as EvaluatorObject
    from graphsearch.graph.sweeps.merge import InputReport, MergeReport
    from graphsearch.graph.sweeps.reevaluate import ReevaluateReport
    from graphsearch.graph.sweeps.refresh import RefreshReport
    from graphsearch.query.routes import Way
    from graphsearch.store.info import StoreInfo
    from graphsearch.store.record.provenance import RootInfo, RunInfo
    from graphsearch.store.tables.games import GameSource, Imported
    from graphsearch.store.transpositions.runs import EntryRun
    from graphsearch.store.upkeep.backup import BackupReport
    from graphsearch.store.upkeep.rewrite import CompactReport, Progress, PruneReport
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
    from graphsearch.store.upkeep.rewrite import PruneReport

    sizes = f"{size(found.bytes_before)} before, {size(found.bytes_after)} after"
    if isinstance(found, PruneReport):
        yield f"{store}: {count(found.nodes_before, 'node')} before, {found.nodes_after:,} after; {sizes}"
    else:
        yield f"{store}: {sizes}, {count(found.superseded, 'superseded version')} dropped"


@command(
    "Make a graph file smaller, without loss or by --min-visits.",
    "graphsearch store compact first.graph",
    "graphsearch store compact first.graph --min-visits 2",
)
def compact(store: StoreOption, min_visits: MinVisits = None, json: Json = False) -> None:
    """Make a graph file as small as possible: merge its blocks, drop superseded versions and free pages.

    With --min-visits, also drop the nodes with fewer visits, except roots of searches. Edges that lead to a
    dropped node keep their visits and values; a search that passes by evaluates the node again.

    Ctrl-C or a kill does no harm; repeat the command to continue. A process that writes the file must end
    first.
    """
    from graphsearch.store.upkeep import rewrite

    with _working("Compacting" if min_visits is None else "Pruning") as advance:
        if min_visits is None:
            found: CompactReport | PruneReport = rewrite.compact(store, advance)
        else:
            found = rewrite.prune(store, min_visits, advance)
    print_answer(found, _compacted(found, store), json=json)


def _copied(found: BackupReport, copy: Path) -> Iterator[Part]:
    yield f"{copy}: {count(found.nodes, 'node')}, {size(found.bytes)}"


@command(
    "Copy a graph file, even while it is being written.",
    "graphsearch store backup first.graph copy.graph",
)
def backup(store: StoreOption, copy: Copy, force: Force = False, json: Json = False) -> None:
    """Copy a graph file as it is now, even while a search writes it.

    The copy appears only when it is complete and on disk.
    """
    from graphsearch.store.upkeep import backup

    with _working("Copying pages") as advance:
        found = backup.backup(store, copy, force=force, progress=advance)
    print_answer(found, _copied(found, copy), json=json, note=copy)


def _salvaged(found: SalvageReport, new: Path) -> Iterator[Part]:
    yield from problem_lines(found.problems, found.found)
    lost = f"{found.blocks_lost:,} of {count(found.blocks, 'block')} lost"
    tables = f", rows lost in {', '.join(found.tables_lost)}" if found.tables_lost else ""
    yield f"{new}: {count(found.records, 'record')} kept, {lost}{tables}"


@command(
    "Rescue the sound records of a damaged file.",
    "graphsearch store salvage first.graph rescued.graph",
)
def salvage(
    store: StoreOption, new: New, evaluator: Evaluator = None, force: Force = False, json: Json = False
) -> None:
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
        found = salvage.salvage(store, new, identity=identity, force=force, progress=advance)
    print_answer(found, _salvaged(found, new), json=json)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
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
    force: Force = False
    ram: Ram = None
    json: Json = False


@command(
    "Merge graph files into one.",
    "graphsearch store merge first.graph copy.graph -o both.graph",
    "graphsearch store merge copy.graph --into first.graph --dry-run --json",
    views=True,
)
def merge(request: MergeRequest) -> None:
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
        force=request.force,
        ram_bytes=None if request.ram is None else byte_count(request.ram),
    )
    with StopSignals(), titled_bar("Reading", _title) as show:
        report = merge_files(
            request.files, new=request.output, into=request.into, wanted=wanted, on_progress=show
        )
    print_answer(report, _merged(report), json=request.json)
    if not report.dry_run:
        say_if_unfinished(report.path)
    if not report.complete:
        say(f"graphsearch: the merge is not complete: {count(report.found, 'problem')}, listed in the output")
        raise typer.Exit(FAILED)


def _merged(report: MergeReport) -> Iterator[Part]:
    yield table(map(_input, report.inputs), {"File": LEFT})
    if not report.inputs:
        say(f"Nothing to add: no file but {report.path} itself is named.")
    for what, examples in (("new", report.examples.of("fresh")), ("changed", report.examples.of("changed"))):
        if report.dry_run and examples:
            yield _examples(what, examples, [one.path for one in report.inputs])
    yield from problem_lines(report.problems, report.found)
    if report.refreshed and report.refreshed["stale"]:
        yield (f"values brought up to date: {count(report.refreshed['changed_edges'], 'edge')}")
    if report.unsettled:
        say(f"note: values are not up to date, searches update them where they pass: {report.unsettled}")
    verb = "would have" if report.dry_run else "has"
    yield (f"{report.path} {verb} {count(report.nodes, 'node')}, {size(report.bytes)}")
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


MAX_ROOTS = 20  # changed roots in the output; JSON has all


@dataclass(frozen=True, slots=True, kw_only=True)
class ReevaluateRequest:
    """The options of one call."""

    store: StoreOption
    evaluator: EvaluatorOptions
    ram: Ram = None
    json: Json = False


@command(
    "Re-evaluate a graph file with another evaluator.",
    "graphsearch reevaluate sunday.graph --evaluator uniform",
    "graphsearch reevaluate sunday.graph --evaluator uniform --ram 2GB --json",
)
def reevaluate(request: ReevaluateRequest) -> None:
    """Re-evaluate a graph file: V and P of another evaluator replace those in the file.

    Visits do not change. At the end every value is brought up to date with its children, as by `lab refresh`.
    Ctrl-C saves; after a kill only some seconds are lost. Repeat the command to resume: no position is
    evaluated twice. Until it has finished, the file is marked, and other commands refuse to write to it. To
    return to the previous evaluator, repeat the command with that evaluator; its evaluations are made again.
    """
    if not request.evaluator.named:
        raise typer.BadParameter("name the new evaluator: --evaluator NAME")
    ram_bytes = graph_ram(request.ram)  # checked before an evaluator is loaded
    evaluator, _ = request.evaluator.create(file=request.store)
    with closing(evaluator), StopSignals("Stopping: waiting for the evaluator and saving...\n") as signals:
        code = _reevaluated(request, evaluator, signals, ram_bytes)
    if code:
        raise typer.Exit(code)


def _reevaluated(
    request: ReevaluateRequest, evaluator: EvaluatorObject, signals: StopSignals, ram_bytes: int | None
) -> int:
    """Replaces the evaluations of the file; returns the exit code."""
    from graphsearch.graph.sweeps.reevaluate import reevaluate as reevaluate_file
    from graphsearch.store.store import Store

    resume = command_line("reevaluate", request)
    with titled_bar("Evaluating", _title) as show:
        with Store.open(request.store, read_only=True) as store:
            mark = store.unfinished
            if mark and store.identity.as_json() != evaluator.identity.as_json():
                say(
                    f"note: {request.store} {mark.describe(store.identity)}; these are evaluated again with"
                    f" {evaluator.identity.describe()} unless they already come from it"
                )
        signals.arm()
        report = reevaluate_file(
            request.store,
            evaluator,
            ram_bytes=ram_bytes,
            stop=signals.stop,
            on_progress=show,
            command=resume,
        )
    print_answer(report, _reevaluated_lines(report, evaluator.identity.describe()), json=request.json)
    if not report.finished:
        say(f"Saved: {report.done:,} of {count(report.records, 'position')}. Resume with: {resume}")
        return signals.exit_code
    if not report.settled:
        refresh = command_text("lab", "refresh", str(request.store))
        say(f"The values have not settled; continue with: {refresh}")
    return 0


def _reevaluated_lines(report: ReevaluateReport, name: str) -> list[str]:
    if report.finished and not report.evaluated:
        return [f"The file already holds the values of {name}; nothing was evaluated."]
    lines = [
        f"{count(report.records, 'record')}, {count(report.evaluated, 'position')} evaluated"
        f" ({report.evaluated_now:,} now), {report.seconds:.1f} s;"
        f" change of V: mean {report.mean_change:.4f}, largest {report.largest_change:.4f}"
    ]
    if not report.finished:
        return lines
    if report.kept:
        lines.append(f"left alone: {count(report.kept, 'edge')} whose visits the file has lost")
    lines.append(f"{count(report.roots, 'root')}; best move changed: {len(report.changed):,} (White's view)")
    lines += [
        f"  {_name(root.position)}: {root.before} ({_q(root.q_before, root.position)})"
        f" -> {root.after} ({_q(root.q_after, root.position)})"
        for root in report.changed[:MAX_ROOTS]
    ]
    if len(report.changed) > MAX_ROOTS:
        lines.append(f"  and {len(report.changed) - MAX_ROOTS:,} more; --json has all")
    return lines


def _name(position: str) -> str:
    """Returns the moves and the opening of a position that has a name, else its FEN."""
    found = opening_at(position)
    return f"{numbered(None, found.line)} ({found})" if found else position


def _q(q: float, position: str) -> str:
    """Returns a Q of the side to move, in the shown view."""
    return f"Q {signed(q, white=is_white(position))}"


def _title(now: Progress) -> str:
    return now.stage.capitalize() + now.note


Tolerance = Annotated[
    float, option("--tolerance X", "Leave values alone that are off by less than X in Q.", show_default=False)
]


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


@command(
    "Bring all values in a graph file up to date.",
    "graphsearch lab refresh first.graph",
    "graphsearch lab refresh first.graph --tolerance 0.0001 --json",
)
def refresh(store: StoreOption, tolerance: Tolerance = 0.001, ram: Ram = None, json: Json = False) -> None:
    """Give every move in a graph file the current value of the position it leads to.

    A position that was searched further along one line leaves stale values in the other lines that lead to
    it. A search updates them when it passes by; this command updates all of them. Visits do not change.
    Nothing is written before the values have settled, and Ctrl-C at any time leaves the file intact.

    It takes 60 bytes of memory a node.
    """
    from graphsearch.graph.sweeps.refresh import refresh as refresh_file

    limit = None if ram is None else byte_count(ram)
    with titled_bar("Reading", _title) as show:
        found = refresh_file(store, tolerance, ram_bytes=limit, on_progress=show)
    print_answer(found, _refreshed(found), json=json)


_T = TypeVar("_T")
# columns of text; the others hold numbers
TEXTS = (
    *("Searched (UTC)", "Kind", "Started (UTC)", "Limits", "Parameters", "Value", "Time"),
    *("State", "File"),
)
SPARE = ("Position", "Opening", "Parameters", "Started (UTC)", "ECO", "Limits", "Time")
MAX_ROWS = 20  # searches and roots in a table; JSON has all


def _info(found: StoreInfo, store: Path) -> Iterator[Part]:
    yield _summary(str(store), found)
    solved = found.entry_runs[-MAX_ROWS:]
    ways = _ways(store, found)
    for part in (
        # the last searched comes first
        _table("Roots", found.roots[:MAX_ROWS], lambda root: _root(root, ways), len(found.roots)),
        _runs_table(found, ways),
        _table("Fixed depth and mates", solved, lambda run: _entry_run(run, ways), len(found.entry_runs)),
        _table("Imports", found.imported.sources[-MAX_ROWS:], _import, len(found.imported.sources)),
    ):
        if part.rows:
            yield ""
            yield part


@command(
    "Print what a graph file holds.",
    "graphsearch store info first.graph",
    views=True,
)
def info(store: StoreOption, json: Json = False) -> None:
    """Print what a graph file holds: nodes, bytes, evaluators, roots and every run.

    JSON: `evaluator` is the one that the file is bound to, null while it is bound to none; `evaluators` are
    all sources of its contents, by number. In `runs`, `evaluator` is the number of the evaluator, `kind` is
    search or another purpose, and `program` is the version of graphsearch (null if unknown). `imported`
    counts what `graphsearch import` added, file by file in `sources`. `entries` counts transposition entries
    by evaluation, superseded ones included; `entry_runs` are the searches to a fixed depth and the mate
    proofs that left them.
    """
    from graphsearch.store import info

    found = info.info(store)
    print_answer(found, _info(found, store), json=json, note=store)


def _ways(store: Path, found: StoreInfo) -> Mapping[str, Way]:
    """Returns lines to the positions of the tables; none if the file cannot be read."""
    from graphsearch.query.routes import routes

    fens = [root.position for root in found.roots[:MAX_ROWS]]
    fens += [run.position for run in found.runs[-MAX_ROWS:]]
    fens += [run.fen for run in found.entry_runs[-MAX_ROWS:]]
    with suppress(GraphSearchError):  # `store verify` lists the problems
        return routes(store, filter(None, fens))
    return {}


def _summary(name: str, found: StoreInfo) -> str:
    each = f" ({found.bytes_per_node:.1f} bytes per node)" if found.nodes else ""
    several = found.evaluators if len(found.evaluators) > 1 else {}
    lines = {
        "File": name,
        "Format": str(found.format_version),
        "Evaluator": found.evaluator.describe() if found.evaluators else "none yet; the first search sets it",
        **{f"  {number}": identity.describe() for number, identity in several.items()},
        "Nodes": f"{found.nodes:,}",
        "Size": size(found.file_bytes) + each,
        **_entries(found),
        **_imported(found.imported),
    }
    return "\n".join(f"{label + ':':<11}{text}" for label, text in lines.items())


def _entries(found: StoreInfo) -> dict[str, str]:
    """Returns the number of transposition entries, and their evaluations; empty without any."""
    held = found.entries
    if not held.entries:
        return {}
    of = [f"{held.proofs:,} proofs"] if held.proofs else []
    of += [f"{number:,} of evaluation {digest[:8]}" for digest, number in held.evaluations.items()]
    return {"Entries": f"{held.entries:,} ({size(held.bytes)}): {', '.join(of)}"}


def _imported(found: Imported) -> dict[str, str]:
    """Returns the imports, line by line; empty without any."""
    kinds = {source.kind for source in found.sources}
    games = (
        f"{count(found.games, 'game')}, {count(found.positions, 'position')}, {count(found.moves, 'move')}"
    )
    lines = {"Games": games} if "pgn" in kinds else {}
    if "polyglot" in kinds:
        lines["Polyglot"] = f"{found.entries:,} entries"
    if "epd" in kinds:
        lines["EPD"] = count(found.epd_positions, "position")
    return lines


def _table(name: str, found: Sequence[_T], cells: Callable[[_T], dict[str, str]], total: int) -> Cells:
    more = f"{total}" if total <= MAX_ROWS else f"the last {MAX_ROWS} of {total}; --json has all"
    kinds = dict.fromkeys(TEXTS, LEFT) | WAY
    return table(map(cells, found), kinds, spare=SPARE, title=f"{name} ({more})")


def _root(root: RootInfo, ways: Mapping[str, Way]) -> dict[str, str]:
    visited = moment(root.last_searched)
    lead = way_cells(ways.get(root.position), root.position)
    return {**lead, "Visits": f"{root.visits:,}", "Searched (UTC)": visited}


def _import(source: GameSource) -> dict[str, str]:
    return {
        "Kind": source.kind,
        "Started (UTC)": moment(source.started),
        "Taken": f"{source.taken:,}",
        "Skipped": f"{source.skipped:,}",
        "State": "complete" if source.finished else "interrupted",
        "File": source.name,
    }


def _entry_run(run: EntryRun, ways: Mapping[str, Way]) -> dict[str, str]:
    from .solvers import value_text

    return {
        **way_cells(ways.get(run.fen), run.fen),
        "Kind": run.kind,
        "Started (UTC)": moment(run.started),
        "Depth": "" if run.depth is None else str(run.depth),
        "Value": value_text(run.value, run.bound or "", white=is_white(run.fen)),
        "Nodes": f"{run.nodes:,}",
        "Time": f"{run.seconds:.1f} s",
        "State": "" if run.finished else "interrupted",
    }


def _runs_table(found: StoreInfo, ways: Mapping[str, Way]) -> Cells:
    several = bool({run.kind for run in found.runs} - {"search"})

    def cells(run: RunInfo) -> dict[str, str]:
        return {
            "Run": str(run.id),
            "Line": way_cells(ways.get(run.position), run.position)["Line"] if run.position else "",
            "Kind": run.kind if several else "",
            "Evaluator": str(run.evaluator) if len(found.evaluators) > 1 else "",
            "Started (UTC)": moment(run.started),
            "Limits": _pairs(run.limits) or "none",
            "Parameters": _changed(run.params),
            "Visits": f"{run.visits:,}",
            "Evaluations": f"{run.evaluations:,}",
        }

    return _table("Runs" if several else "Searches", found.runs[-MAX_ROWS:], cells, len(found.runs))


def _pairs(values: Mapping[str, Any]) -> str:
    return " ".join(
        f"{name}={value if isinstance(value, str) else f'{value:g}'}" for name, value in values.items()
    )


def _changed(params: Mapping[str, float | int | str]) -> str:
    """Returns the parameters that are not this version's defaults: numbers, and names such as a book's."""
    from graphsearch.search.params import SearchParams

    defaults = SearchParams().as_dict()
    return (
        _pairs({name: value for name, value in params.items() if defaults.get(name) != value}) or "defaults"
    )


@command("Check every record of a graph file.", "graphsearch store verify first.graph --json")
def verify(store: StoreOption, json: Json = False) -> None:
    """Read a whole graph file, transposition entries included, and check the invariants of every record.

    Exit code 1 if anything is wrong.
    """
    from graphsearch.store.upkeep import verify

    if not os.path.lexists(store):
        raise MissingStoreError(f"{store} does not exist; check the name")
    with progress_bar("Checking records") as advance:
        report = verify.verify(store, advance)
    if json:
        print_json(report.as_dict())
    elif not report.opened:
        say(f"graphsearch: {'; '.join(report.problems)}")
    else:
        print_parts(problem_lines(report.problems, report.found))
        verdict = "sound" if report.ok else f"NOT sound: {count(report.found, 'problem')}"
        held = f", {count(report.entries, 'entry', 'entries')}" if report.entries else ""
        print(f"{store}: {count(report.records, 'record')}{held}, {verdict}")
    if not report.ok:
        raise typer.Exit(FAILED)
    say_if_unfinished(store)


app = group(
    "store",
    "Graph files: info, verify, compact, backup, merge, salvage.",
    info,
    verify,
    compact,
    backup,
    salvage,
    merge,
)
