"""`graphsearch store`: a graph file's content and soundness; store_upkeep.py has the rest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from graphsearch.base.errors import GraphSearchError, MissingStoreError

from . import store_merge, store_upkeep
from .commands import command, group, report
from .options import Json, StoreOption
from .output import FAILED, print_json, print_parts, problem_lines, say, say_if_unfinished
from .progress import progress_bar
from .render import WAY, count, moment, size, way_cells
from .scores import is_white
from .tables import LEFT, Cells, Part, table

if TYPE_CHECKING:
    from pathlib import Path

    from graphsearch.query.routes import Way
    from graphsearch.store.info import StoreInfo
    from graphsearch.store.record.provenance import RootInfo, RunInfo
    from graphsearch.store.tables.games import GameSource, Imported
    from graphsearch.store.transpositions.runs import EntryRun

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


@report(
    "Print what a graph file holds.",
    "graphsearch store info first.graph",
    view=_info,
    noted="store",
    views=True,
)
def info(store: StoreOption) -> StoreInfo:
    """Print what a graph file holds: nodes, bytes, evaluators, roots and every run.

    JSON: `evaluator` is the one that the file is bound to, null while it is bound to none; `evaluators` are
    all sources of its contents, by number. In `runs`, `evaluator` is the number of the evaluator, `kind` is
    search or another purpose, and `program` is the version of graphsearch (null if unknown). `imported`
    counts what `graphsearch import` added, file by file in `sources`. `entries` counts transposition entries
    by evaluation, superseded ones included; `entry_runs` are the searches to a fixed depth and the mate
    proofs that left them.
    """
    from graphsearch.store import info

    return info.info(store)


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
    from .alphabeta import value_text

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
    "Graph files: info, verify, compact, backup, merge, salvage.",
    info,
    verify,
    store_upkeep.compact,
    store_upkeep.backup,
    store_upkeep.salvage,
    store_merge.merge,
)
