"""`graphsearch store`: what a graph file holds, and whether it is sound; its upkeep is in maintain.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from . import maintain
from .options import Json, StoreFile
from .output import FAILED, Group, one_line, print_json, print_view, say, say_if_unfinished
from .progress import progress_bar
from .render import count, moment, size

if TYPE_CHECKING:
    from rich.table import Table

    from graphsearch.record.provenance import RootInfo
    from graphsearch.store.info import StoreInfo
    from graphsearch.store.tables.games import GameSource, Imported
    from graphsearch.store.transpositions.runs import EntryRun
    from graphsearch.store.upkeep.verify import VerifyReport

_NUMBERS = {"N", "Run", "Evaluator", "Visits", "Evaluations", "Taken", "Skipped", "Depth", "Nodes"}
_ENTRY_RUN = ("Started (UTC)", "Depth", "Value", "Nodes", "Time", "State")
MAX_ROWS = 20  # searches and roots that the table shows; JSON has them all

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Look into a graph file, check it, and keep it in shape.",
)

INFO_EXAMPLES = """\b
Example:
  graphsearch store info first.graph
"""

VERIFY_EXAMPLES = """\b
Example:
  graphsearch store verify first.graph --json
"""


@app.command(epilog=INFO_EXAMPLES, short_help="Print what a graph file holds.")
def info(file: StoreFile, json: Json = False) -> None:
    """Print what a graph file holds: nodes, bytes, evaluators, roots and every run.

    JSON: `evaluator` is the one that the file is bound to, `evaluators` are all that anything in it comes
    from, by number. Of `runs`, `evaluator` is the number of the one that was asked, `kind` why (search, or
    another), `program` the version that ran (null if unknown). `evaluator` is null while the file is bound to
    none. `imported` counts what `graphsearch import` took in, file by file in `sources`. `entries` counts
    transposition entries, superseded ones included, by evaluation; `entry_runs` are the searches of fixed
    depth and the mate proofs that left them.
    """
    from graphsearch.store import info

    found = info.info(file)
    say_if_unfinished(file)
    if json:
        print_json(found.as_dict())
        return
    print(_summary(str(file), found))
    tables = (
        _roots_table(found.roots),
        _runs_table(found),
        _entry_runs_table(found.entry_runs),
        _imports_table(found.imported.sources),
    )
    for table in tables:
        if table.rows:
            print()
            _print_table(table)


def _print_table(table: Table) -> None:
    print_view(lambda _: table)


def _summary(name: str, found: StoreInfo) -> str:
    lines = {
        "File": name,
        "Format": str(found.format_version),
        "Evaluator": found.evaluator.describe() if found.evaluators else "none yet; the first search decides",
        **_others(found),
        "Nodes": f"{found.nodes:,}",
        "Size": _size(found),
        **_entries(found),
        **_imported(found.imported),
    }
    return "\n".join(f"{label + ':':<11}{text}" for label, text in lines.items())


def _size(found: StoreInfo) -> str:
    each = f" ({found.bytes_per_node:.1f} bytes per node)" if found.nodes else ""
    return size(found.file_bytes) + each


def _entries(found: StoreInfo) -> dict[str, str]:
    """Returns how many transposition entries there are, and of which evaluations; nothing without any."""
    held = found.entries
    if not held.entries:
        return {}
    of = [f"{held.proofs:,} proofs"] if held.proofs else []
    of += [f"{number:,} of evaluation {digest[:8]}" for digest, number in held.evaluations.items()]
    return {"Entries": f"{held.entries:,} ({size(held.bytes)}): {', '.join(of)}"}


def _imported(found: Imported) -> dict[str, str]:
    """Returns what was imported, line by line; nothing if nothing was."""
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


def _imports_table(sources: list[GameSource]) -> Table:
    table = _table(
        _title("Imports", len(sources)), "Kind", "Started (UTC)", "Taken", "Skipped", "State", "File"
    )
    for source in sources[-MAX_ROWS:]:
        state = "complete" if source.finished else "broken off"
        numbers = f"{source.taken:,}", f"{source.skipped:,}"
        table.add_row(source.kind, moment(source.started), *numbers, state, source.name)
    return table


def _table(title: str, *columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        title=title,
        title_justify="left",
        title_style="bold",
    )
    for name in columns:
        numeric = name in _NUMBERS
        table.add_column(name, justify="right" if numeric else "left", no_wrap=numeric, overflow="fold")
    return table


def _title(name: str, total: int) -> str:
    return (
        f"{name} ({total})"
        if total <= MAX_ROWS
        else f"{name} (the last {MAX_ROWS} of {total}; --json has all)"
    )


def _roots_table(roots: list[RootInfo]) -> Table:
    table = _table(_title("Roots", len(roots)), "Position", "N", "Last searched (UTC)")
    for root in roots[:MAX_ROWS]:  # the last searched comes first
        table.add_row(root.position, f"{root.visits:,}", moment(root.last_searched))
    return table


def _others(found: StoreInfo) -> dict[str, str]:
    """Returns the evaluators that the file knows, by number, if it knows several."""
    if len(found.evaluators) < 2:
        return {}
    return {f"  {number}": identity.describe() for number, identity in found.evaluators.items()}


def _runs_table(found: StoreInfo) -> Table:
    kinds = {run.kind for run in found.runs} - {"search"}
    columns = {
        "Run": lambda run: str(run.id),
        "Kind": (lambda run: run.kind) if kinds else None,
        "Evaluator": (lambda run: str(run.evaluator)) if len(found.evaluators) > 1 else None,
        "Started (UTC)": lambda run: moment(run.started),
        "Limits": lambda run: _pairs(run.limits) or "none",
        "Parameters": lambda run: _changed(run.params),
        "Visits": lambda run: f"{run.visits:,}",
        "Evaluations": lambda run: f"{run.evaluations:,}",
        "Position": lambda run: run.position,
    }
    shown = {name: cell for name, cell in columns.items() if cell}
    table = _table(_title("Runs" if kinds else "Searches", len(found.runs)), *shown)
    for run in found.runs[-MAX_ROWS:]:
        table.add_row(*(cell(run) for cell in shown.values()))
    return table


def _entry_runs_table(runs: list[EntryRun]) -> Table:
    from .alphabeta_view import value_text

    table = _table(_title("Fixed depth and mates", len(runs)), "Kind", *_ENTRY_RUN, "Position")
    for run in runs[-MAX_ROWS:]:
        depth = "" if run.depth is None else str(run.depth)
        value = value_text(run.value, run.bound or "")
        state = "" if run.finished else "broken off"
        numbers = depth, value, f"{run.nodes:,}", f"{run.seconds:.1f} s"
        table.add_row(run.kind, moment(run.started), *numbers, state, run.fen)
    return table


def _pairs(values: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value:g}" for name, value in values.items())


def _changed(params: Mapping[str, float | int]) -> str:
    """Returns the parameters that are not this version's defaults."""
    from graphsearch.search.params import SearchParams

    defaults = SearchParams().as_dict()
    return (
        _pairs({name: value for name, value in params.items() if defaults.get(name) != value}) or "defaults"
    )


@app.command(epilog=VERIFY_EXAMPLES, short_help="Check every record of a graph file.")
def verify(file: StoreFile, json: Json = False) -> None:
    """Read all of a graph file, transposition entries too, and check the invariants record by record.

    Exit code 1 if anything is wrong.
    """
    from graphsearch.store.upkeep import verify

    with progress_bar("Checking records") as advance:
        report = verify.verify(file, advance)
    if json:
        print_json(report.as_dict())
    elif not report.opened:
        say(f"graphsearch: {'; '.join(report.problems)}")
    else:
        _print_verdict(str(file), report)
    if not report.ok:
        raise typer.Exit(FAILED)
    say_if_unfinished(file)


def _print_verdict(name: str, report: VerifyReport) -> None:
    for problem in report.problems:
        print(one_line(problem))
    if report.found > len(report.problems):
        print(f"and {report.found - len(report.problems):,} more")
    verdict = "sound" if report.ok else f"NOT sound: {count(report.found, 'problem')}"
    held = f", {count(report.entries, 'entry', 'entries')}" if report.entries else ""
    print(f"{name}: {count(report.records, 'record')}{held}, {verdict}")


for _function, _examples, _summary_line in maintain.COMMANDS:
    app.command(epilog=_examples, short_help=_summary_line)(_function)
