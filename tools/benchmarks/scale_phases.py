"""The phases of `scale` by name: upkeep of a file, queries, searches, merges."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from graphsearch.base.errors import StoreError
from graphsearch.evaluators.builtin.evaluator import BuiltinEvaluator
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.graph.sweeps.merge import Wanted, merge
from graphsearch.graph.sweeps.opinions import second_opinion
from graphsearch.graph.sweeps.refresh import refresh
from graphsearch.graph.view import show
from graphsearch.query import diff, filters, games, line, moves, parents, path, pv, sql, transpositions, tree
from graphsearch.query.disagree import disagree
from graphsearch.query.find import find
from graphsearch.query.ways import count_all
from graphsearch.store.codec.bulk import take
from graphsearch.store.info import info
from graphsearch.store.record.node import RecordBatch
from graphsearch.store.segments import keys_of
from graphsearch.store.sharded.files import open_to_read
from graphsearch.store.store import Store
from graphsearch.store.upkeep.backup import backup
from graphsearch.store.upkeep.compact import compact
from graphsearch.store.upkeep.prune import prune
from graphsearch.store.upkeep.salvage import salvage
from graphsearch.store.upkeep.verify import verify

from .clocks import Meter
from .growing import Plan, grow, grow_shards, merge_shards, search, search_shards

CALLS, SLOW_CALL = 5, 2.0  # calls of a query; no further call after so many seconds
DEEP = 4  # plies to the position of a query
WELL_VISITED = 1000  # well-visited positions have at least 1/1000 of the visits
READS = 4096  # random positions read at once
SMALL_SHARE = 100  # size ratio of the two files of `merge_small`


Phase = Callable[[Plan, Meter], object]


# ------------------------------------------------------------------ all records
def _verify(plan: Plan, meter: Meter) -> None:
    report = verify(plan.file, meter.tick)
    meter.of_all(report.records, ok=report.ok)


def _find(plan: Plan, meter: Meter) -> None:
    chosen = filters.Filters(min_n=max(2, plan.nodes // WELL_VISITED), side="w")
    meter.of_all(plan.nodes, found=sum(1 for _ in find(plan.file, chosen, on_progress=meter.tick)))


def _transpositions_all(plan: Plan, meter: Meter) -> None:
    meter.of_all(count_all(plan.file, ram_bytes=plan.ram_bytes, on_progress=meter.tick).total)


def _prune(plan: Plan, meter: Meter) -> None:
    report = prune(plan.part("copy"), 2, meter.tick)
    meter.of_all(report.nodes_before, nodes_after=report.nodes_after)


def _refresh(plan: Plan, meter: Meter) -> None:
    report = refresh(plan.part("copy"), ram_bytes=plan.ram_bytes, on_progress=meter.tick)
    meter.of_all(report.records, sweeps=report.sweeps, settled=report.settled)


def _opinions(plan: Plan, meter: Meter) -> None:
    least = max(2, plan.nodes // WELL_VISITED)
    report = second_opinion(plan.file, BuiltinEvaluator(), min_visits=least, on_progress=meter.tick)
    meter.of_all(plan.nodes, opinions=report.evaluated)


def _reads(plan: Plan, meter: Meter, threads: int | None = 1) -> None:
    """Reads records of random positions, many at once, from a file in the page cache."""
    words = _sample(plan)
    with (
        Store.open(plan.file, read_only=True) as store,
        store.reader(**({"threads": threads} if threads else {})) as reader,
    ):
        reader.find(words)
        meter.restart()
        reader.find(words)
    meter.units, meter.unit = len(words), "read"


def _sample(plan: Plan) -> NDArray[np.uint64]:
    with Store.open(plan.file, read_only=True) as store:
        every = max(1, store.node_count // READS)
        words = np.concatenate([batch.words[::every] for batch in store.scan()])
    return np.random.default_rng(1).permutation(words)


def _open(plan: Plan, meter: Meter) -> None:
    """Opens the file for a search within a memory budget, which reads all filters."""
    from graphsearch.graph.graph import Graph

    with Graph.open(plan.file, evaluator=UniformEvaluator(), ram_bytes=plan.ram_bytes) as graph:
        graph.pager.filter()
        meter.tick()


# ------------------------------------------------------------------ two files
def _halves(plan: Plan) -> tuple[Path, Path]:
    """Returns two files with two thirds of the records each, a third in both; makes them if missing."""
    for name in ("a", "b", "small"):
        if not plan.part(name).exists():
            _derive(plan.file, plan.part(name), name)
    return plan.part("a"), plan.part("b")


def _derive(source: Path, target: Path, name: str) -> None:
    identity = UniformEvaluator().identity
    with (
        Store.open(source, read_only=True) as store,
        Store.open(target, create=True, identity=identity) as new,
    ):
        for batch in store.scan():
            some = _part(batch, name)
            new.append(some, fresh=len(some))
        new.begin_run("", {}, {})
    compact(target)


def _part(batch: RecordBatch, name: str) -> RecordBatch:
    """Returns a file's part of some records; half of the records in both files have other visits in `b`."""
    draw = keys_of(batch.words) % np.uint64(6 * SMALL_SHARE)
    kept = {"a": draw % 3 != 0, "b": draw % 3 != 1, "small": draw < 6}[name]
    found = take(batch, np.nonzero(kept)[0])
    if name == "a":
        return found
    more = np.repeat(draw[kept] % 2 == 0, np.diff(found.edge_offsets))
    return replace(found, n=found.n + more.astype(np.uint32))


def _merge(plan: Plan, meter: Meter, *, other: str = "b", into: bool = False, settles: bool = False) -> None:
    a, _ = _halves(plan)
    b, wanted = plan.part(other), Wanted(refresh=settles, force=True, ram_bytes=plan.ram_bytes)
    target = plan.part("new")
    if into:
        shutil.copyfile(a, target)
    meter.restart()
    if into:
        merge([b], into=target, wanted=wanted)
    else:
        merge([a, b], new=target, wanted=wanted)
    meter.of_all(_nodes(b) + (0 if other == "small" else _nodes(a)))


def _diff(plan: Plan, meter: Meter) -> None:
    a, b = _halves(plan)
    meter.restart()
    diff.diff(a, b)
    meter.of_all(_nodes(a) + _nodes(b))


def _nodes(file: Path) -> int:
    with open_to_read(file) as store:
        return store.node_count


# ------------------------------------------------------------------ queries
def _call(ask: Callable[[Plan], object]) -> Phase:
    """Returns a phase that repeats a query."""

    def phase(plan: Plan, meter: Meter) -> None:
        ask(plan)  # imports and one-time work do not count
        meter.restart()
        meter.units = 0
        while meter.units < CALLS and meter.elapsed() < SLOW_CALL:
            ask(plan)
            meter.tick()
            meter.units += 1

    return phase


def _about(ask: Callable[[Path, chess.Board], object]) -> Phase:
    """Returns a phase that repeats a query about a position on the most visited line."""

    def phase(plan: Plan, meter: Meter) -> None:
        board = chess.Board()
        for step in pv.pv(plan.file, board).lines[0].plies[:DEEP]:
            board.push_uci(step.move)
        _call(lambda plan: ask(plan.file, board))(plan, meter)

    return phase


def _sql(plan: Plan) -> list[Any]:
    with sql.sql(plan.file, "SELECT san, move_n, move_q FROM position_moves", limit=1000) as found:
        return list(found.rows)


def _disagree(plan: Plan, meter: Meter) -> None:
    with suppress(StoreError):
        _call(lambda plan: disagree(plan.file))(plan, meter)
        return
    _opinions(plan, Meter(plan.file))  # the file has no second opinions yet
    _call(lambda plan: disagree(plan.file))(plan, meter)


PHASES: dict[str, Phase] = {  # in their order
    "grow": grow,
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
    "disagree": _disagree,
    "open": _open,
    "read": _reads,
    "read_threads": partial(_reads, threads=None),
    "verify": _verify,
    "find": _find,
    "transpositions_all": _transpositions_all,
    "backup": lambda plan, meter: meter.of_all(
        backup(plan.file, plan.part("new"), force=True, progress=meter.tick).nodes
    ),
    "salvage": lambda plan, meter: meter.of_all(
        salvage(plan.file, plan.part("new"), force=True, progress=meter.tick).records
    ),
    "compact": lambda plan, meter: meter.of_all(compact(plan.part("copy"), meter.tick).nodes),
    "prune": _prune,
    "refresh": _refresh,
    "diff": _diff,
    "merge_new": _merge,
    "merge_refresh": partial(_merge, settles=True),
    "merge_into": partial(_merge, into=True),
    "merge_small": partial(_merge, into=True, other="small"),
    "search": search,
}
SHARDED: dict[str, Phase] = {
    name: PHASES[name] for name in ("show", "info", "pv", "moves", "tree", "verify", "find")
}
SHARDED = {"grow": grow_shards, **SHARDED, "merge": merge_shards, "search": search_shards}
ON_A_COPY = ("compact", "prune", "refresh", "search")  # they change the file; cluster searches use no copy
IN_SHARDS = ("grow", "search")  # run in a cluster's processes, so this process needs no rehearsal


def run_phase(name: str, plan: Plan) -> dict[str, Any]:
    """Returns the figures of a phase, after a rehearsal; call it in a new process."""
    if not (plan.shards and name in IN_SHARDS):
        rehearse(name, plan.tiny())
    meter = Meter(*plan.files, *(plan.part(part) for part in ("copy", "new", "new.part")))
    with meter.watching():
        _run(name, plan, meter)
    sizes = [file.stat().st_size for file in (plan.part("new"), plan.part("copy")) if file.exists()]
    size = sizes[0] if sizes else sum(file.stat().st_size for file in plan.files)
    plan.remove("copy", "new")
    return meter.figures() | {"file_mb": size / 1e6}


def rehearse(name: str, tiny: Plan) -> None:
    """Runs a phase on a small graph, which stays, so that imports and kernel loading are not measured."""
    tiny.folder.mkdir(exist_ok=True)
    if name == "grow":
        tiny.remove("grown", "a", "b", "small")
    elif not tiny.file.exists():
        _run("grow", tiny, Meter(*tiny.files))
    _run(name, tiny, Meter(*tiny.files))
    tiny.remove("copy", "new")


def _run(name: str, plan: Plan, meter: Meter) -> None:
    if name in ON_A_COPY and not plan.shards:
        shutil.copyfile(plan.file, plan.part("copy"))
        meter.restart()
    (SHARDED if plan.shards else PHASES)[name](plan, meter)
