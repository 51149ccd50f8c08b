"""The phases by name. Each runs in a process of its own and leaves FOLDER/PHASE.json."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import chess

from ...evaluators.builtin.evaluator import BuiltinEvaluator
from ...graph.view import show
from ...query import filters, games, line, moves, parents, path, pv, sql, transpositions, tree
from ...query.disagree import disagree
from ...query.find import find
from ...query.ways import count_all
from ...store.info import info
from ...store.upkeep.backup import backup
from ...store.upkeep.compact import compact
from ...store.upkeep.prune import prune
from ...store.upkeep.salvage import salvage
from ...store.upkeep.verify import verify
from ...sweep.opinions import second_opinion
from ...sweep.refresh import RefreshProgress, refresh
from ..offload import phases as offload
from ..offload.plan import Plan as OffloadPlan
from .growing import grow, search
from .meter import Meter
from .plan import PHASES, SHARDED_PHASES, Plan
from .sharded import grow_shards, merge_shards, search_shards

Phase = Callable[[Plan, Meter], None]

CALLS, SLOW_CALL = 5, 2.0  # calls of a question; one of so many seconds is asked once
DEEP = 4  # plies to the position that is asked about
WELL_VISITED = 1000  # one part of so many: positions with so large a share of the visits
IN_SHARDS = ("grow", "search")  # of a cluster: nothing in this process
MAKES = ("backup", "salvage", "merge")  # a new file
WARM_NODES, WARM_BYTES = 3000, 8_000_000


# ------------------------------------------------------------------ all records
def _verify(plan: Plan, meter: Meter) -> None:
    report = verify(plan.file, meter.tick)
    _of_all(meter, report.records)
    meter.more |= {"ok": report.ok, "runs": report.runs}


def _find(plan: Plan, meter: Meter) -> None:
    chosen = filters.Filters(min_n=max(2, plan.nodes // WELL_VISITED), side="w")
    found = sum(1 for _ in find(plan.file, chosen, on_progress=meter.tick))
    _of_all(meter, plan.nodes)
    meter.more |= {"found": found}


def _transpositions_all(plan: Plan, meter: Meter) -> None:
    found = count_all(plan.file, ram_bytes=plan.ram_bytes, on_progress=meter.tick)
    _of_all(meter, found.total)
    meter.more |= {"edges": found.edges, "shared": found.shared}


def _backup(plan: Plan, meter: Meter) -> None:
    _of_all(meter, backup(plan.file, plan.new, force=True, progress=meter.tick).nodes)


def _salvage(plan: Plan, meter: Meter) -> None:
    report = salvage(plan.file, plan.new, force=True, progress=meter.tick)
    _of_all(meter, report.records)
    meter.more |= {"complete": report.complete}


def _compact(plan: Plan, meter: Meter) -> None:
    report = compact(plan.copy, meter.tick)
    _of_all(meter, report.nodes)
    meter.more |= {"runs": report.runs, "superseded": report.superseded}


def _prune(plan: Plan, meter: Meter) -> None:
    report = prune(plan.copy, 2, meter.tick)
    _of_all(meter, report.nodes_before)
    meter.more |= {"nodes_after": report.nodes_after}


def _refresh(plan: Plan, meter: Meter) -> None:
    def tick(now: RefreshProgress) -> None:
        meter.tick(now.done, now.total)

    report = refresh(plan.copy, ram_bytes=plan.ram_bytes, on_progress=tick)
    _of_all(meter, report.records)
    meter.more |= {"sweeps": report.sweeps, "settled": report.settled, "stale": report.stale}


def _opinions(plan: Plan, meter: Meter) -> None:
    least = max(2, plan.nodes // WELL_VISITED)
    report = second_opinion(
        plan.file,
        BuiltinEvaluator(),
        min_visits=least,
        on_progress=lambda now: meter.tick(now.done, now.total),
    )
    _of_all(meter, plan.nodes)
    meter.more |= {"opinions": report.evaluated}


def _of_all(meter: Meter, nodes: int) -> None:
    meter.units, meter.unit = max(1, nodes), "node"


# ------------------------------------------------------------------ one question
def _call(ask: Callable[[Plan], object]) -> Phase:
    """Returns the phase that asks a question some times."""

    def phase(plan: Plan, meter: Meter) -> None:
        ask(plan)  # what is imported and made once does not count
        meter.restart()
        meter.units = 0
        while meter.units < CALLS and meter.elapsed() < SLOW_CALL:
            ask(plan)
            meter.tick()
            meter.units += 1

    return phase


def _about(ask: Callable[[Path, chess.Board], object]) -> Phase:
    """Returns the phase that asks about a position some plies deep."""

    def phase(plan: Plan, meter: Meter) -> None:
        board = _deep(plan)
        _call(lambda plan: ask(plan.file, board))(plan, meter)

    return phase


def _deep(plan: Plan) -> chess.Board:
    """Returns a position on the most visited line, with the moves that lead to it."""
    board = chess.Board()
    for step in pv.pv(plan.file, board).lines[0].plies[:DEEP]:
        board.push_uci(step.move)
    return board


def _sql(plan: Plan) -> list[Any]:
    with sql.sql(plan.file, "SELECT san, move_n, move_q FROM position_moves", limit=1000) as found:
        return list(found.rows)


_ALL: dict[str, Phase] = {
    "grow": grow,
    "verify": _verify,
    "find": _find,
    "transpositions_all": _transpositions_all,
    "backup": _backup,
    "salvage": _salvage,
    "compact": _compact,
    "prune": _prune,
    "refresh": _refresh,
    "search": search,
    "opinions": _opinions,
    "show": _about(show),
    "info": _call(lambda plan: info(plan.file)),
    "pv": _about(partial(pv.pv, lines=3)),
    "moves": _about(moves.moves),
    "tree": _about(tree.tree),
    "line": _about(line.values),
    "path": _about(path.path),
    "parents": _about(parents.parents),
    "transpositions": _call(lambda plan: transpositions.transpositions(plan.file)),
    "games": _about(games.games),
    "sql": _call(_sql),
    "disagree": _call(lambda plan: disagree(plan.file)),
}
assert set(_ALL) == set(PHASES)
_SHARDED = _ALL | {"grow": grow_shards, "merge": merge_shards, "search": search_shards}
assert set(_SHARDED) >= set(SHARDED_PHASES)


# ------------------------------------------------------------------ one process
def _tiny(plan: Plan) -> Plan:
    return replace(plan, folder=str(Path(plan.folder) / "warm"), nodes=WARM_NODES, ram_bytes=WARM_BYTES)


def warm(plan: Plan) -> None:
    """Compiles every kernel that is measured by a small run of everything, whose file stays."""
    tiny = _tiny(plan)
    shutil.rmtree(tiny.folder, ignore_errors=True)
    Path(tiny.folder).mkdir()
    for phase in plan.phases:
        _rehearse(phase, plan)
    if plan.shards:
        return
    shutil.copyfile(tiny.file, tiny.copy)
    paged = {"nodes": WARM_NODES, "ram_bytes": WARM_BYTES, "visits": WARM_NODES, "evaluations": WARM_NODES}
    offload.page(OffloadPlan(folder=tiny.folder, **paged))
    tiny.remove(tiny.copy)


def _rehearse(phase: str, plan: Plan) -> None:
    """Runs a phase on the small file, so that imports and the loading of kernels are not measured."""
    tiny = _tiny(plan)
    if phase == "grow":
        tiny.remove(tiny.file)
    if plan.copies(phase):
        shutil.copyfile(tiny.file, tiny.copy)
    _phase(phase, tiny)(tiny, Meter(*tiny.files))
    tiny.remove(tiny.copy, tiny.new)


def _phase(name: str, plan: Plan) -> Phase:
    return (_SHARDED if plan.shards else _ALL)[name]


def main(phase: str, folder: str, nodes: str, ram_bytes: str, shards: str) -> None:
    """Runs one phase and writes what it took."""
    plan = Plan(folder=folder, nodes=int(nodes), ram_bytes=int(ram_bytes), shards=int(shards))
    if phase == "warm":
        warm(plan)
        return
    if not (plan.shards and phase in IN_SHARDS):
        _rehearse(phase, plan)
    files = [plan.copy] if plan.copies(phase) else [plan.new] if phase in MAKES else plan.files
    part = plan.new.with_name(f"{plan.new.name}.part")
    meter = Meter(*plan.files, plan.copy, plan.new, part, told=plan.told)
    with meter.watching():
        _phase(phase, plan)(plan, meter)
    measured = meter.measured(phase, plan.nodes, *files)
    (Path(folder) / f"{phase}.json").write_text(json.dumps(measured.as_dict()))
