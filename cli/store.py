"""`graphsearch store`: a graph file's content and soundness; store_upkeep.py has the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from . import store_cluster, store_merge, store_upkeep
from .commands import command, group
from .options import Json, StoreFile
from .output import FAILED, print_json, print_part, print_problems, say, say_if_unfinished
from .progress import progress_bar
from .render import count, moment, size
from .tables import LEFT, RIGHT, table

if TYPE_CHECKING:
    from rich.table import Table

    from graphsearch.store.info import StoreInfo
    from graphsearch.store.record.provenance import RootInfo
    from graphsearch.store.tables.games import GameSource, Imported
    from graphsearch.store.transpositions.runs import EntryRun
    from graphsearch.store.upkeep.verify import VerifyReport

_NUMBERS = {"N", "Run", "Evaluator", "Visits", "Evaluations", "Taken", "Skipped", "Depth", "Nodes"}
MAX_ROWS = 20  # searches and roots that the table shows; JSON has them all


@command(
    "Print what a graph file holds.",
    "graphsearch store info first.graph",
)
def info(file: StoreFile, json: Json = False) -> None:
    """Print what a graph file holds: nodes, bytes, evaluators, roots and every run.

    JSON: `evaluator` is the one that the file is bound to, null while it is bound to none; `evaluators` are
    all sources of its contents, by number. In `runs`, `evaluator` is the number of the evaluator, `kind` is
    search or another purpose, and `program` is the version of graphsearch (null if unknown). `imported`
    counts what `graphsearch import` added, file by file in `sources`. `entries` counts transposition entries
    by evaluation, superseded ones included; `entry_runs` are the searches to a fixed depth and the mate
    proofs that left them.
    """
    from graphsearch.store import info

    found = info.info(file)
    say_if_unfinished(file)
    if json:
        print_json(found.as_dict())
        return
    print(_summary(str(file), found))
    for part in (
        _roots_table(found.roots),
        _runs_table(found),
        _entry_runs_table(found.entry_runs),
        _imports_table(found.imported.sources),
    ):
        if part.rows:
            print()
            print_part(part)


def _summary(name: str, found: StoreInfo) -> str:
    lines = {
        "File": name,
        "Format": str(found.format_version),
        "Evaluator": found.evaluator.describe() if found.evaluators else "none yet; the first search sets it",
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


def _imports_table(sources: list[GameSource]) -> Table:
    names = ("Kind", "Started (UTC)", "Taken", "Skipped", "State", "File")
    rows = [
        [
            source.kind,
            moment(source.started),
            f"{source.taken:,}",
            f"{source.skipped:,}",
            "complete" if source.finished else "interrupted",
            source.name,
        ]
        for source in sources[-MAX_ROWS:]
    ]
    return _table(_title("Imports", len(sources)), names, rows)


def _table(title: str, names: Iterable[str], rows: Iterable[Sequence[str]]) -> Table:
    return table({name: RIGHT if name in _NUMBERS else LEFT for name in names}, rows, title=title)


def _title(name: str, total: int) -> str:
    return (
        f"{name} ({total})"
        if total <= MAX_ROWS
        else f"{name} (the last {MAX_ROWS} of {total}; --json has all)"
    )


def _roots_table(roots: list[RootInfo]) -> Table:
    rows = [  # the last searched comes first
        [root.position, f"{root.visits:,}", moment(root.last_searched)] for root in roots[:MAX_ROWS]
    ]
    return _table(_title("Roots", len(roots)), ("Position", "N", "Last searched (UTC)"), rows)


def _others(found: StoreInfo) -> dict[str, str]:
    """Returns the evaluators of the file, by number, if it knows several."""
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
    rows = [[cell(run) for cell in shown.values()] for run in found.runs[-MAX_ROWS:]]
    return _table(_title("Runs" if kinds else "Searches", len(found.runs)), shown, rows)


def _entry_runs_table(runs: list[EntryRun]) -> Table:
    from .alphabeta_view import value_text

    names = ("Kind", "Started (UTC)", "Depth", "Value", "Nodes", "Time", "State", "Position")
    rows = [
        [
            run.kind,
            moment(run.started),
            "" if run.depth is None else str(run.depth),
            value_text(run.value, run.bound or ""),
            f"{run.nodes:,}",
            f"{run.seconds:.1f} s",
            "" if run.finished else "interrupted",
            run.fen,
        ]
        for run in runs[-MAX_ROWS:]
    ]
    return _table(_title("Fixed depth and mates", len(runs)), names, rows)


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


@command(
    "Check every record of a graph file.",
    "graphsearch store verify first.graph --json",
)
def verify(file: StoreFile, json: Json = False) -> None:
    """Read a whole graph file, transposition entries included, and check the invariants of every record.

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
    print_problems(report.problems, report.found)
    verdict = "sound" if report.ok else f"NOT sound: {count(report.found, 'problem')}"
    held = f", {count(report.entries, 'entry', 'entries')}" if report.entries else ""
    print(f"{name}: {count(report.records, 'record')}{held}, {verdict}")


app = group(
    "Inspect, check and maintain a graph file.",
    info,
    verify,
    store_upkeep.compact,
    store_upkeep.prune,
    store_upkeep.backup,
    store_upkeep.salvage,
    store_cluster.split,
    store_cluster.mend,
    store_merge.merge,
    store_upkeep.forecast,
)
