"""What the other process does: one task, told about as it goes on, ended and saved when asked to."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import chess

from ...errors import GraphSearchError, UnsavedError
from ...faults import told
from ...position.board import board_of
from ..lines import with_sans
from .tasks import (
    BuildTask,
    ExportTask,
    ImportTask,
    MergeTask,
    ReviewTask,
    SearchTask,
    Stop,
    Task,
    Told,
    Watch,
)

if TYPE_CHECKING:
    from ...evaluators.protocol import Evaluator
    from ...graph.graph import Graph
    from ...graph.view import NodeView
    from ...search.params import Limits
    from ...search.results import Progress
    from ...workers.child import Pipe

LINES, WATCHED_LINES = 5, 3  # best moves that are shown with their line
MOST_PROBLEMS = 20  # of a merge that the page is told
UPDATE_SECONDS = 0.2  # between two signs of progress, at least
SHARE = 0.005  # of its time that a search spends on lines for the page, and as much on everything else
Tell = Callable[[dict[str, Any]], None]


def work(pipe: Pipe) -> None:
    """Does the task that comes first on a pipe, and listens there meanwhile."""
    task = pipe.recv()
    orders = _Orders(pipe)
    try:
        facts = _do(task, orders, lambda facts: pipe.send(Told("running", facts)))
        pipe.send(Told("done", facts))
    except GraphSearchError as error:
        pipe.send(Told("failed", error=" ".join(getattr(error, "problems", [str(error)]))))
    except Exception as error:
        pipe.send(Told("failed", error=told(error, task.title)))


class _Orders:
    """What the server says meanwhile."""

    def __init__(self, pipe: Pipe) -> None:
        self.stop = threading.Event()
        self.watched: tuple[str, ...] = ()
        threading.Thread(target=self._listen, args=(pipe,), daemon=True).start()

    def _listen(self, pipe: Pipe) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                message = pipe.recv()
                if isinstance(message, Stop):
                    self.stop.set()
                if isinstance(message, Watch):
                    self.watched = message.positions
        self.stop.set()


def _do(task: Task, orders: _Orders, tell: Tell) -> dict[str, Any]:
    if isinstance(task, SearchTask):
        return _search(task, orders, tell)
    if isinstance(task, BuildTask):
        return _build(task, orders, tell)
    if isinstance(task, ImportTask):
        return _import(task, orders, tell)
    if isinstance(task, MergeTask):
        return _merge(task, orders, tell)
    if isinstance(task, ReviewTask):
        from .reviewing import do_review

        return do_review(task, orders.stop, tell)
    assert isinstance(task, ExportTask)
    return _export(task, tell)


# ---------------------------------------------------------------- searches
def _search(task: SearchTask, orders: _Orders, tell: Tell) -> dict[str, Any]:
    from ...evaluators.factory import create
    from ...graph.graph import Graph
    from ...search.warm import paging_kernels_compiling

    tell({"stage": "starting"})
    evaluator = create(task.evaluator)
    with (
        contextlib.closing(evaluator),
        Graph.open(task.path, evaluator=evaluator, ram_bytes=task.ram_bytes) as graph,
    ):
        _note_compile(evaluator, tell)
        with paging_kernels_compiling():
            return _Searches(task, graph, orders, tell).run()


def _note_compile(evaluator: Evaluator, tell: Tell) -> None:
    """Says so if the kernels of a search are to be compiled first."""
    from ...search.warm import kernels_missing

    if kernels_missing(evaluator, filed=True):
        tell({"stage": "compiling"})


class _Searches:
    """The searches of one task, in one graph."""

    def __init__(self, task: SearchTask, graph: Graph, orders: _Orders, tell: Tell) -> None:
        self._task = task
        self._graph = graph
        self._orders = orders
        self._tell = tell
        self._place = 0
        self._totals = {"new_visits": 0, "evaluations": 0, "seconds": 0.0}
        self._numbers, self._lines = _Share(SHARE, UPDATE_SECONDS), _Share(SHARE, UPDATE_SECONDS)
        self._shown: dict[str, dict[str, Any]] = {}  # nodes with lines, by key

    def run(self) -> dict[str, Any]:
        reason = "visits"
        for place, board in enumerate(self._task.boards):
            self._place = place
            if self._orders.stop.is_set():
                break
            if (limits := self._limits(board)) is not None:
                reason = self._one(board, limits)
        return {
            "stage": "done",
            "reason": "stop" if self._orders.stop.is_set() else reason,
            "positions": len(self._task.boards),
            **self._totals,
        }

    def _limits(self, board: chess.Board) -> Limits | None:
        """Returns the limits of a position; None if it has all the visits that it is to have."""
        task = self._task
        if task.until is None:
            return task.limits
        known = self._graph.read(board)
        missing = task.until - (known.visits if known else 0)
        if missing <= 0:
            return None
        return replace(task.limits, visits=min(missing, task.limits.visits or missing))

    def _one(self, board: chess.Board, limits: Limits) -> str:
        from ...mate.beside import MateFinder
        from ...search.loop import analyze, moves_of_tables

        listed = tuple(chess.Move.from_uci(move) for move in self._task.searchmoves)
        try:
            result = analyze(
                self._graph,
                board,
                limits,
                self._task.params,
                on_progress=self._show,
                interval=UPDATE_SECONDS,
                stop=self._orders.stop,
                searchmoves=listed or tuple(moves_of_tables(self._graph, board)),
                mates=MateFinder(seconds=limits.seconds, visits=limits.visits or limits.evaluations),
            )
        except UnsavedError as error:
            raise GraphSearchError(f"what was found could not be saved: {error}") from error
        self._totals["new_visits"] += result.new_visits
        self._totals["evaluations"] += result.evaluations
        self._totals["seconds"] += result.seconds
        return result.stop_reason

    def _show(self, now: Progress) -> None:
        """Tells how a search stands; lines take twenty times as long as the rest, and come less often."""
        if not self._numbers.is_due():
            return
        with self._numbers:
            node = now.node(0)
            facts = {
                "stage": "searching",
                "place": self._place + 1,
                "positions": len(self._task.boards),
                "counters": _counters(now),
            }
        if self._lines.is_due():
            with self._lines:
                found = [now.node(LINES), *self._watched(node.position)]
                self._shown = {_key(view): _node(view) for view in found}
        known = {move["move"]: move for move in self._shown.get(_key(node), {}).get("moves", ())}
        fresh = {**node.as_dict(), "mate": node.mate}
        fresh["moves"] = [_with_line(move, known.get(move["move"])) for move in fresh["moves"]]
        self._tell(facts | {"nodes": [fresh, *(n for key, n in self._shown.items() if key != _key(node))]})

    def _watched(self, root: str) -> list[NodeView]:
        """Returns the positions that somebody looks at, as far as the graph knows them."""
        from ...graph.view import view

        boards = [board_of(fen) for fen in self._orders.watched if fen != root]
        found = [view(self._graph.read, board, lines=WATCHED_LINES) for board in boards]
        return [node for node in found if node]


class _Share:
    """A context whose body may take a share of the time: it is due again after a long enough rest."""

    def __init__(self, share: float, least: float) -> None:
        """Takes the share, and the seconds from one time to the next at least."""
        self._share = share
        self._least = least
        self._next = self._began = self._used = 0.0

    def is_due(self) -> bool:
        return time.monotonic() >= self._next

    def __enter__(self) -> None:
        self._began, self._used = time.monotonic(), time.thread_time()

    def __exit__(self, *_: object) -> None:
        used = time.thread_time() - self._used
        self._next = self._began + max(self._least, used / self._share)


def _key(node: NodeView) -> str:
    return f"{node.key:016x}"


def _with_line(move: dict[str, Any], known: dict[str, Any] | None) -> dict[str, Any]:
    """Returns a move with the line that was shown with it last."""
    line = {name: known[name] for name in ("pv", "pv_san")} if known else {"pv_san": [move["san"]]}
    return move | line


def _node(node: NodeView) -> dict[str, Any]:
    return with_sans({**node.as_dict(), "mate": node.mate}, board_of(node.position))


_COUNTERS = (
    "seconds", "visits", "new_visits", "evaluations", "catch_ups", "collisions", "nodes", "resident",
    "ram_bytes", "read_back", "written", "depth", "seldepth", "visits_per_s", "evaluations_per_s",
)  # fmt: skip


def _counters(now: Progress) -> dict[str, float]:
    return {name: getattr(now, name) for name in _COUNTERS}


# ---------------------------------------------------------------- books, imports, exports
def _build(task: BuildTask, orders: _Orders, tell: Tell) -> dict[str, Any]:
    from dataclasses import asdict

    from ...book.build import BuildLimits, build
    from ...book.toml import parse_config
    from ...evaluators.factory import with_threads

    tell({"stage": "loading"})
    config = parse_config(task.text, Path(task.path).parent, "BOOK.toml")
    if task.threads is not None:
        config = replace(config, evaluator=with_threads(config.evaluator, task.threads))
    report = build(
        task.path,
        config,
        limits=BuildLimits(seconds=task.seconds, evaluations=task.evaluations),
        ram_bytes=task.ram_bytes,
        stop=orders.stop,
        on_progress=lambda now: tell(asdict(now)),
    )
    return {"stage": "done", **report.as_dict()}


def _import(task: ImportTask, orders: _Orders, tell: Tell) -> dict[str, Any]:
    from ...exchange.epd_import import import_epd
    from ...exchange.importing import ImportProgress
    from ...exchange.pgn_import import import_pgn
    from ...exchange.polyglot_import import import_polyglot
    from ...exchange.sources import GivenFile
    from ...limits import open_file

    def show(now: ImportProgress) -> None:
        tell({"stage": now.stage, "done": now.done, "total": now.total, "count": now.count, "rate": now.rate})

    take: Any = {"pgn": import_pgn, "polyglot": import_polyglot, "epd": import_epd}[task.form]
    with open_file(task.file) as stream:
        given = GivenFile(task.name, stream)
        kept = {"players": task.players} if task.form == "pgn" else {}
        report = take(task.path, [given], again=task.again, stop=orders.stop, on_progress=show, **kept)[0]
    task.file.unlink(missing_ok=True)
    if report.error:
        raise GraphSearchError(report.error)
    return {"stage": "done", **report.as_dict()}


def _merge(task: MergeTask, orders: _Orders, tell: Tell) -> dict[str, Any]:
    from ...sweep.merge import MergeProgress, Wanted, merge

    pace = _Pace(tell)

    def show(now: MergeProgress) -> None:
        if orders.stop.is_set():
            raise GraphSearchError("stopped; what was merged so far is sound, merge again to finish it")
        pace.show(now.done, now.total, now.stage)

    wanted = Wanted(ram_bytes=task.ram_bytes)
    report = merge([task.other], into=task.path, wanted=wanted, on_progress=show)
    (counts,) = (one.counts for one in report.inputs)
    facts = {"nodes": report.nodes, "added": counts.fresh, "changed": counts.changed, "found": report.found}
    return {"stage": "done", **facts, "problems": report.problems[:MOST_PROBLEMS]}


def _export(task: ExportTask, tell: Tell) -> dict[str, Any]:
    if task.form == "parquet":
        return _export_tables(task, tell)
    from ...exchange.epd_export import export_epd
    from ...exchange.pgn_export import export_pgn
    from ...exchange.polyglot_export import export_polyglot
    from ...exchange.rows_export import export_csv, export_jsonl

    kinds: dict[str, Any] = {
        "pgn": export_pgn,
        "polyglot": export_polyglot,
        "epd": export_epd,
        "jsonl": export_jsonl,
        "csv": export_csv,
    }
    more = {"weights": task.weights} if task.form == "polyglot" else {}
    pace = _Pace(tell)
    report = kinds[task.form](task.path, task.file, task.selection, on_progress=pace.show, **more)
    return {"stage": "done", **report.as_dict(), "path": task.file.name}


def _export_tables(task: ExportTask, tell: Tell) -> dict[str, Any]:
    """Exports two tables, and packs them into one file to download; they are compressed already."""
    from ...exchange.parquet_export import export_parquet

    folder = task.file.with_suffix(".tables")
    try:
        report = export_parquet(task.path, folder, task.selection, on_progress=_Pace(tell).show)
        with ZipFile(task.file, "w") as packed:
            for table in sorted(folder.iterdir()):
                packed.write(table, table.name)
    finally:
        rmtree(folder, ignore_errors=True)
    return {"stage": "done", **report.as_dict(), "path": task.file.name}


class _Pace:
    """Tells of an export or a merge now and then."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._next = 0.0

    def show(self, done: int, total: int, stage: str = "writing") -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + 2 * UPDATE_SECONDS
            self._tell({"stage": stage, "done": done, "total": total})
