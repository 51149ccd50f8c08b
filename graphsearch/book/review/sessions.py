"""Searches many positions of one graph file, or of a graph in memory, in one run; here or on workers.

A set of positions, such as WAC or STS, is searched so, and the solved ones and the work on each are reported:

    EPD file -> its lines -> each searched within the limits, in one session -> rows -> EPD file

The graph file keeps the work on each position, so a repeated command skips searched positions and prints the
same output.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, BinaryIO, TypeVar

import chess
from pydantic import Field, TypeAdapter

from ...base.answer import Answer
from ...base.errors import CapacityError, GraphSearchError, UnusableFileError
from ...base.limits import text_lines
from ...evaluators.factory import EvaluatorSpec
from ...evaluators.protocol import Evaluator
from ...exchange.epd_import import EpdLine, annotated, is_solved, read_set
from ...exchange.importing import FileProgress, Problem
from ...exchange.importing import OnProgress as OnFileProgress
from ...exchange.output import Target, check_target, new_output
from ...graph.graph import Graph
from ...graph.view import NodeView, view
from ...position.board import NOT_TERMINAL, history_keys, key_text, terminal_kind
from ...position.notation import sans_of
from ...position.values import MATE_CE, cp_of
from ...search.detached import STOP_SECONDS, Searches, open_searches
from ...search.job import Control, SearchJob
from ...search.params import Limits, SearchParams
from ...search.results import Progress, SearchResult
from ...solvers.mate.beside import MateFinder
from ...store.store import Store

KIND = "review"  # of a run
UNKEPT, SPENT = "review_unkept", "set_spent"  # rows of `store_info`
WAIT_SECONDS = 0.5  # for workers, between two looks at `stop`
SAVE_SECONDS = 5.0  # between two saves of a file: a kill loses at most this

OnProgress = Callable[[Progress], None]
_Fact = TypeVar("_Fact")
MOST_MARKS = 20_000  # of positions
_Count = Annotated[int, Field(ge=0, lt=1 << 53, strict=True)]
_Name = Annotated[str, Field(min_length=1, max_length=4096)]
_MARKS = TypeAdapter(Annotated[dict[_Name, _Count], Field(max_length=MOST_MARKS)])
# of one position of a set: evaluations and milliseconds spent on it, and both when its best move became right
Spent = tuple[_Count, _Count, _Count | None, _Count | None]
_SPENT = TypeAdapter(Annotated[dict[_Name, Spent], Field(max_length=MOST_MARKS)])
Tag = TypeVar("Tag")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """The settings of all searches.

    Attributes:
      limits: of each position; its earlier visits count, earlier evaluations and time do not.
      kind: of the run. interval: seconds between two progress calls, in this process.
      workers, pool: processes that search, as for `search.detached.open_searches`; None: this one.
    """

    limits: Limits
    params: SearchParams = field(default_factory=SearchParams)
    kind: str = KIND
    interval: float = 0.5
    workers: int | None = None
    pool: str | None = None


@dataclass(slots=True, kw_only=True)
class Work:
    """The work of one call.

    Attributes:
      searched, known: numbers of positions that got visits, and of those with nothing left to do.
      problems: parts of the input that were left out. notes: for the user, one line each.
    """

    searched: int = 0
    known: int = 0
    new_visits: int = 0
    evaluations: int = 0
    seconds: float = 0.0
    stopped: bool = False
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@contextmanager
def open_session(
    path: Path | None,
    evaluator: Evaluator | EvaluatorSpec,
    settings: SearchSettings,
    stop: threading.Event,
    work: Work,
    *,
    ram_bytes: int | None,
) -> Iterator[Session]:
    """Yields the session of a graph file, or of a graph in memory; as `book.review.review`."""
    with open_searches(
        path,
        evaluator,
        Control(stop=stop, interval=settings.interval),
        ram_bytes=ram_bytes,
        workers=settings.workers,
        pool=settings.pool,
    ) as (graph, searches):
        yield Session(graph, searches, settings, stop, work)


class Session:
    """Searches positions, each until it has reached one of the limits, all in one run.

    If a position still has too few visits in the file after its search, the session stores the number of
    missing visits: the result is proven, or visits ended in draws by repetition in this game, which no file
    keeps. A position that used up its evaluations or its time gets a mark. The next call searches neither
    again.

    Attributes:
      unkept: these visits and marks; spent: work on positions of sets; both by `name_of` the position.
    """

    def __init__(
        self,
        graph: Graph,
        searches: Searches[Any],
        settings: SearchSettings,
        stop: threading.Event,
        work: Work | None = None,
    ) -> None:
        """Creates a session; `stop` ends the running search."""
        self._graph, self._searches, self._settings, self._stop = graph, searches, settings, stop
        self.read, self.work = graph.read, work or Work()
        self.unkept: dict[str, int] = {}
        self.spent: dict[str, Spent] = {}
        self._run: int | None = None
        self._saved_at = time.monotonic()
        if graph.store:
            graph.call(self._read_facts)

    def run(
        self, positions: Iterable[tuple[Tag, chess.Board]], *, on_progress: OnProgress | None = None
    ) -> Iterator[tuple[Tag, SearchResult | None]]:
        """Searches positions, with workers several at once, and yields each when it is done.

        Args:
          positions: each with a tag for the caller, and with the game before it on its move stack.

        Yields:
          The tag and the result; None if nothing was left to do.

        Raises:
          EvaluatorError, StoreError: as `analyze`; results are saved then, or when the session closes.
          CapacityError: if the memory of the graph is too small.
        """
        waiting, searches = iter(positions), self._searches
        searches.control = replace(searches.control, on_progress=on_progress)
        following: tuple[Tag, chess.Board] | None = None
        while not self._stop.is_set():
            while searches.room and (following := following or next(waiting, None)) is not None:
                tag, board = following
                if any(key_text(other) == key_text(board) for _, other in searches.running):
                    break  # a worker searches it, perhaps in another game
                if (limits := self._left(board)) is None:
                    self.work.known += 1
                    yield tag, None
                else:
                    self.work.searched += 1
                    self._start((tag, board), board, limits)
                following = None
            if not searches.running:
                return
            yield from self._counted(searches.finished(WAIT_SECONDS))
        yield from self._counted(searches.stop(STOP_SECONDS))

    def _start(self, tag: object, board: chess.Board, limits: Limits) -> None:
        """Starts the search of a position; the first one of a game becomes a root in the graph's list."""
        if not board.move_stack:
            self._graph.begin_search(board, lists=True)
        if self._run is None and self._graph.store:
            self._graph.call(self._begin)
        job = SearchJob(
            board=board,
            limits=limits,
            params=self._settings.params,
            run=self._run,
            lists=False,
            lines=0,
            mates=MateFinder,
        )
        self._searches.start(tag, job)

    def _begin(self, store: Store) -> None:
        limits, params = self._settings.limits.as_dict(), self._settings.params.as_dict()
        self._run = store.begin_run("", limits, params, kind=self._settings.kind)

    def _counted(
        self, found: Iterator[tuple[tuple[Tag, chess.Board], SearchResult]]
    ) -> Iterator[tuple[Tag, SearchResult]]:
        """Adds searches to the run, and saves from time to time."""
        for (tag, board), result in found:
            self.work.new_visits += result.new_visits
            self.work.evaluations += result.evaluations
            if self._run is not None and time.monotonic() - self._saved_at >= SAVE_SECONDS:
                self._graph.note_later(self._note(finished=False))
                self._graph.save_soon()
                self._saved_at = time.monotonic()
            self._check(board, result)
            yield tag, result

    # -------------------------------------------------------------- saving
    def finish(self) -> None:
        """Saves all records and ends the run, if anything was searched."""
        if self._run is not None:
            self._graph.flush(self._note(finished=True))

    def _note(self, *, finished: bool) -> Callable[[Store], None]:
        """Returns a function that writes the state of the run, and the facts."""
        run, visits, evaluations = self._run, self.work.new_visits, self.work.evaluations
        facts = {
            name: json.dumps(dict(list(found.items())[-MOST_MARKS:]))
            for name, found in ((UNKEPT, self.unkept), (SPENT, self.spent))
            if found
        }
        assert run is not None

        def write(store: Store) -> None:
            store.update_run(run, visits, evaluations, finished=finished)
            for name, text in facts.items():
                store.write_fact(name, text)

        return write

    def _read_facts(self, store: Store) -> None:
        """Reads the facts; none if unreadable."""
        self.unkept, self.spent = _fact(store, UNKEPT, _MARKS), _fact(store, SPENT, _SPENT)

    # -------------------------------------------------------------- what is left to do
    def _check(self, board: chess.Board, result: SearchResult) -> None:
        """Marks a position if its search has finished with fewer visits than wanted."""
        if result.stop_reason == "memory":
            raise CapacityError("the memory of the graph is full; a larger --ram holds more")
        if result.stop_reason == "reader":
            raise GraphSearchError(
                "another program is reading an old state of the file, which keeps its write-ahead log"
                " growing; close that program, and repeat the command to resume"
            )
        record = self.read(board)
        assert record is not None, "a search records its root"
        wanted = self._settings.limits.visits
        if result.stop_reason in ("evaluations", "time"):
            self.unkept[self._mark(board)] = 1
        elif result.stop_reason != "stop" and wanted is not None and record.visits < wanted:
            self.unkept[name_of(board)] = wanted - record.visits

    def _mark(self, board: chess.Board) -> str:
        """Returns the name of a position that has used up its evaluations or its time under these limits."""
        return name_of(board, f"{self._settings.limits.evaluations} {self._settings.limits.seconds}")

    def _left(self, board: chess.Board) -> Limits | None:
        """Returns the remaining limits; None if none remain, or the rules or a proof decide the position."""
        limits, unkept = self._settings.limits, self.unkept
        if terminal_kind(board) != NOT_TERMINAL or self._mark(board) in unkept:
            return None
        record = self.read(board)
        if record is None:
            return limits
        bounds = record.bounds_at(board.halfmove_clock)
        if bounds[0] == bounds[1] and any(edge.bounds == bounds for edge in record.edges):
            return None
        if limits.visits is None:
            return limits
        missing = limits.visits - record.visits - unkept.get(name_of(board), 0)
        return replace(limits, visits=missing) if missing > 0 else None


def _fact(store: Store, name: str, kind: TypeAdapter[_Fact]) -> _Fact:
    try:
        return kind.validate_json(store.read_fact(name) or "{}")
    except ValueError:  # another program may have written it
        return kind.validate_json("{}")


def name_of(board: chess.Board, more: str = "") -> str:
    """Returns a digest of a position, the earlier positions whose repetition is a draw, and a text."""
    past = sorted(int(key) for key in history_keys(board))
    return hashlib.sha256(f"{key_text(board)} {past}{more}".encode()).hexdigest()[:16]


# ------------------------------------------------------------------ sets of positions
NOTHING: Spent = (0, 0, None, None)
JUDGING = ("bm", "am", "dm")  # operations that name a result


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSettings(SearchSettings):
    """The settings of a set; `output`: the EPD file or stream to write, or None."""

    output: Target | None = None
    kind: str = "set"
    interval: float = 0.02  # between two looks at the best move; a slice of a search takes 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRow(Answer):
    """One position after its search. Values are seen by the side to move.

    Attributes:
      source: its line. node: the position.
      best: the best move in UCI; None if the game is over. pv, sans: the best line.
      solved: whether the best move or mate is the result named in the line; None if it names none.
      wanted: the named result, with moves in SAN.
      points, most_points: of the best move, and the most of any move; None if the line gives none.
      evaluations, seconds: spent on it, including earlier calls.
      solved_evaluations, solved_seconds: spent until the result became right and stayed right, or None.
      known: whether it had been searched before.
    """

    json_keys = (
        "line=source.number id=source.id position=node.position best_move=best pv solved wanted points"
        " most_points q=node.q cp mate=node.mate visits=node.visits evaluations seconds"
        " solved_evaluations solved_seconds known"
    )

    source: EpdLine
    node: NodeView
    best: str | None
    pv: tuple[chess.Move, ...]
    sans: tuple[str, ...]
    solved: bool | None
    wanted: str
    points: int | None
    most_points: int | None
    evaluations: int
    seconds: float
    solved_evaluations: int | None
    solved_seconds: float | None
    known: bool

    @property
    def cp(self) -> int:
        """The value in centipawns."""
        return cp_of(self.node.q)


@dataclass(slots=True, kw_only=True)
class SetReport(Work):
    """The report of a set: its positions, those done, those right of those with a named result, points."""

    total: int = 0
    done: int = 0
    solved: int = 0
    judged: int = 0
    points: int = 0
    most_points: int = 0

    def add(self, row: SetRow) -> None:
        """Counts a row."""
        self.done += 1
        self.judged += row.solved is not None
        self.solved += bool(row.solved)
        self.points += row.points or 0
        self.most_points += row.most_points or 0


def read_lines(file: BinaryIO, name: str) -> tuple[list[EpdLine], list[Problem]]:
    """Returns the positions of an EPD file, and the problems of its other lines.

    Raises:
      UnusableFileError: if the file has no position to search.
    """
    lines, problems = list[EpdLine](), list[Problem]()
    for one in read_set(text_lines(file, name)):
        if isinstance(one, Problem):
            problems.append(one)
        elif terminal_kind(one.board) != NOT_TERMINAL:
            problems.append(Problem(one.number, "the game is over in this position"))
        else:
            lines.append(one)
    if not lines:
        first = f"; line {problems[0].place}: {problems[0].reason}" if problems else ""
        raise UnusableFileError(f"{name} has no positions{first}")
    return lines, problems


def search_set(
    path: str | os.PathLike[str] | None,
    lines: list[EpdLine],
    settings: SetSettings,
    *,
    evaluator: Evaluator | EvaluatorSpec,
    ram_bytes: int | None = None,
    stop: threading.Event | None = None,
    on_progress: OnFileProgress | None = None,
    on_row: Callable[[SetRow], object] | None = None,
) -> SetReport:
    """Searches the positions of a set that have not reached their limits, in turn, and returns a report.

    Args:
      path: the graph file, created if missing; None: in memory. Others as for `book.review.review`.
      on_progress: gets the positions done and solved, the present one, and evaluations per second.

    Raises:
      ExportError: if the EPD file cannot be written. Other errors as `book.review.review`.
    """
    store = None if path is None else Path(path)
    check_target(settings.output, store=store)
    report, stop, began = SetReport(total=len(lines)), stop or threading.Event(), time.monotonic()
    texts: list[str] = []
    with open_session(store, evaluator, settings, stop, report, ram_bytes=ram_bytes) as session:
        for line, row in _rows(session, lines, report, on_progress):
            report.add(row)
            texts.append(f"{annotated(line.text, _operations(row))}\n")
            if on_row:
                on_row(row)
        session.finish()
    report.seconds = time.monotonic() - began
    report.stopped = stop.is_set() and report.done < report.total
    if settings.output and not report.stopped:
        with new_output(settings.output, store=store) as out:
            out.write("".join(texts).encode())
    return report


def _rows(
    session: Session,
    lines: list[EpdLine],
    report: SetReport,
    on_progress: OnFileProgress | None,
) -> Iterator[tuple[EpdLine, SetRow]]:
    """Yields each line with its row, in their order, when its search is finished."""
    began, place, done = time.monotonic(), 0, dict[int, tuple[_Watch, bool]]()
    here: list[_Watch] = []  # the last one: of the search in this process

    def watched() -> Iterator[tuple[_Watch, chess.Board]]:
        for line in lines:
            name = name_of(line.board, " ".join(str(line.operations.get(one)) for one in JUDGING))
            here.append(_Watch(line, name, session.spent.get(name, NOTHING)))
            yield here[-1], line.board

    def look(now: Progress) -> None:
        watch = here[-1]
        watch.count(now.evaluations, now.seconds, now.node(0))
        if on_progress:
            rate = (report.evaluations + now.evaluations) / max(time.monotonic() - began, 1e-9)
            name = watch.line.id or f"line {watch.line.number}"
            on_progress(FileProgress("Searching", name, report.done, report.total, report.solved, rate))

    for watch, result in session.run(watched(), on_progress=look):
        if result is not None:
            watch.count(result.evaluations, result.seconds, result.node)
            session.spent[watch.name] = watch.spent
            if result.stop_reason == "stop":
                continue  # it may be unfinished
        done[watch.line.number] = watch, result is None
        while place < len(lines) and (found := done.pop(lines[place].number, None)):
            node = view(session.read, lines[place].board, lines=1)
            yield lines[place], _row(lines[place], node, found[0].spent, known=found[1])
            place += 1


class _Watch:
    """The work on one position, in total and until its result became right."""

    def __init__(self, line: EpdLine, name: str, before: Spent) -> None:
        self.line, self.name, self.spent = line, name, before
        self._evaluations, self._milliseconds = before[:2]

    def count(self, evaluations: int, seconds: float, node: NodeView) -> None:
        """Updates the work from the present search's evaluations and seconds so far, and its present node."""
        done = self._evaluations + evaluations, self._milliseconds + round(1000 * seconds)
        since = None
        if _solved(self.line, node):
            since = done if self.spent[2] is None else self.spent[2:]
        self.spent = *done, *(since or (None, None))


def _solved(line: EpdLine, node: NodeView) -> bool | None:
    return is_solved(line.operations, node.mate, node.moves[0].move.uci() if node.moves else None)


def _row(line: EpdLine, node: NodeView | None, spent: Spent, *, known: bool) -> SetRow:
    assert node is not None, "a search records its root"
    solved, points = _solved(line, node), line.points
    best = node.moves[0] if node.moves else None
    return SetRow(
        source=line,
        node=node,
        best=best.move.uci() if best else None,
        pv=tuple(best.pv) if best else (),
        sans=sans_of(line.board, best.pv) if best else (),
        solved=solved,
        wanted=_wanted(line),
        points=points.get(best.move.uci(), 0) if points and best else None,
        most_points=max(points.values()) if points else None,
        evaluations=spent[0],
        seconds=spent[1] / 1000,
        solved_evaluations=spent[2] if solved else None,
        solved_seconds=None if spent[3] is None or not solved else spent[3] / 1000,
        known=known,
    )


def _wanted(line: EpdLine) -> str:
    """Returns the result that a line names, moves in SAN: `bm Qg6`, `am Kh1`, `dm 3`."""
    parts = []
    for name in JUDGING:
        value = line.operations.get(name)
        if isinstance(value, list):
            value = " ".join(line.board.san(chess.Move.from_uci(move)) for move in value)
        parts += [f"{name} {value}"] if value is not None else []
    return ", ".join(parts)


def _operations(row: SetRow) -> dict[str, str]:
    """Returns the EPD operations that a search adds to its line."""
    mate, ce = row.node.mate or 0, row.cp
    if mate:  # 32767 minus the plies of the mate
        ce = MATE_CE - (2 * mate - 1) if mate > 0 else -MATE_CE - 2 * mate
    found = {"acd": len(row.pv), "acn": row.node.visits, "acs": round(row.seconds), "ce": ce}
    found |= {"dm": mate} if mate > 0 else {}
    return {name: str(number) for name, number in found.items()} | {"pv": " ".join(row.sans)}
