"""`graphsearch store info`: what a graph file holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from graphsearch.base.errors import GraphSearchError
from graphsearch.query.routes import Way, routes
from graphsearch.search.params import SearchParams
from graphsearch.store import info as facts
from graphsearch.store.entries import EntryRun
from graphsearch.store.info import StoreInfo
from graphsearch.store.provenance import RootInfo, RunInfo
from graphsearch.store.tables.games import GameSource

from .options import StoreOption
from .output import print_answer
from .render import bounded_score, way_cells
from .tables import LEFT, Part, Table, count, is_white, moment, size

MAX_ROWS = 20  # searches and roots in a table; JSON has all
SPARE = ("Position", "Opening", "Parameters", "Started (UTC)", "ECO", "Limits", "Time")


def info(store: StoreOption) -> None:
    """Print what a graph file holds: nodes, bytes, evaluators, roots and every run.

    JSON: `evaluator` is the one that the file is bound to, null while it is bound to none; `evaluators` are
    all sources of its contents, by number. In `runs`, `evaluator` is the number of the evaluator, `kind` is
    search or another purpose, and `program` is the version of graphsearch (null if unknown). `imported`
    counts what `graphsearch import` added, file by file in `sources`. `entries` counts transposition entries
    by evaluation, superseded ones included; `entry_runs` are the searches to a fixed depth and the mate
    proofs that left them.

    \b
    Example:
      graphsearch store info first.graph
    """
    found = facts.info(store)
    print_answer(found, _info(found, store))


def _info(found: StoreInfo, store: Path) -> Iterator[Part]:
    yield _summary(str(store), found)
    roots, runs = found.roots[:MAX_ROWS], found.runs[-MAX_ROWS:]  # the last searched root comes first
    solved, sources = found.entry_runs[-MAX_ROWS:], found.imported.sources[-MAX_ROWS:]
    ways: Mapping[str, Way] = {}
    with suppress(GraphSearchError):  # `store verify` lists the problems
        fens = [*(root.position for root in roots), *(run.position for run in runs)]
        ways = routes(store, filter(None, [*fens, *(run.fen for run in solved)]))
    kinds = {run.kind for run in found.runs}
    for name, rows, total in (
        ("Roots", [_root(root, ways) for root in roots], found.roots),
        (
            "Searches" if kinds <= {"search"} else "Runs",
            [_run(run, found, ways, several=not kinds <= {"search"}) for run in runs],
            found.runs,
        ),
        ("Fixed depth and mates", [_entry_run(run, ways) for run in solved], found.entry_runs),
        ("Imports", [_import(source) for source in sources], found.imported.sources),
    ):
        if rows:
            last = f"the last {MAX_ROWS} of {len(total)}; --json has all"
            more = last if len(total) > MAX_ROWS else f"{len(total)}"
            yield ""
            yield Table(rows, {"Value": LEFT}, spare=SPARE, title=f"{name} ({more})")


def _summary(name: str, found: StoreInfo) -> str:
    each = f" ({found.bytes_per_node:.1f} bytes per node)" if found.nodes else ""
    several = found.evaluators if len(found.evaluators) > 1 else {}
    held, imported = found.entries, found.imported
    of = [f"{held.proofs:,} proofs"] if held.proofs else []
    of += [f"{number:,} of evaluation {digest[:8]}" for digest, number in held.evaluations.items()]
    games = count(imported.games, "game")
    played = f"{games}, {count(imported.positions, 'position')}, {count(imported.moves, 'move')}"
    kinds = {source.kind for source in imported.sources}
    lines = {
        "File": name,
        "Format": str(found.format_version),
        "Evaluator": found.evaluator.describe() if found.evaluators else "none yet; the first search sets it",
        **{f"  {number}": identity.describe() for number, identity in several.items()},
        "Nodes": f"{found.nodes:,}",
        "Size": size(found.file_bytes) + each,
        "Entries": f"{held.entries:,} ({size(held.bytes)}): {', '.join(of)}" if held.entries else "",
        "Games": played if "pgn" in kinds else "",
        "Polyglot": f"{imported.entries:,} entries" if "polyglot" in kinds else "",
        "EPD": count(imported.epd_positions, "position") if "epd" in kinds else "",
    }
    return "\n".join(f"{label + ':':<11}{text}" for label, text in lines.items() if text)


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
    return {
        **way_cells(ways.get(run.fen), run.fen),
        "Kind": run.kind,
        "Started (UTC)": moment(run.started),
        "Depth": "" if run.depth is None else str(run.depth),
        "Value": bounded_score(run.value, run.bound or "", white=is_white(run.fen)),
        "Nodes": f"{run.nodes:,}",
        "Time": f"{run.seconds:.1f} s",
        "State": "" if run.finished else "interrupted",
    }


def _run(run: RunInfo, found: StoreInfo, ways: Mapping[str, Way], *, several: bool) -> dict[str, str]:
    """Returns the cells of a run; `several`: whether the file has runs of other kinds than searches."""
    defaults = SearchParams().as_dict()  # of this version
    changed = {name: value for name, value in run.params.items() if defaults.get(name) != value}
    return {
        "Run": str(run.id),
        "Line": way_cells(ways.get(run.position), run.position)["Line"] if run.position else "",
        "Kind": run.kind if several else "",
        "Evaluator": str(run.evaluator) if len(found.evaluators) > 1 else "",
        "Started (UTC)": moment(run.started),
        "Limits": _pairs(run.limits) or "none",
        "Parameters": _pairs(changed) or "defaults",
        "Visits": f"{run.visits:,}",
        "Evaluations": f"{run.evaluations:,}",
    }


def _pairs(values: Mapping[str, Any]) -> str:
    return " ".join(
        f"{name}={value if isinstance(value, str) else f'{value:g}'}" for name, value in values.items()
    )
