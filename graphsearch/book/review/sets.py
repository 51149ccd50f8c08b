"""Searches the positions of a set, such as WAC or STS, and reports the solved ones and the work on each.

    EPD file -> its lines -> each searched within the limits, in one session -> rows -> EPD file

The graph file keeps the work on each position, so a repeated command skips searched positions and prints the
same output.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import chess

from ...base.answer import Answer
from ...base.errors import UnusableFileError
from ...base.limits import text_lines
from ...evaluators.factory import EvaluatorSpec
from ...evaluators.protocol import Evaluator
from ...exchange.epd_import import EpdLine, annotated, is_solved, read_set
from ...exchange.importing import FileProgress, OnProgress, Problem
from ...exchange.output import check_target, new_output
from ...graph.view import NodeView, view
from ...position.board import NOT_TERMINAL, terminal_kind
from ...position.notation import sans_of
from ...position.values import MATE_CE, cp_of
from ...search.results import Progress
from .sessions import SearchSettings, Session, Spent, Work, name_of, open_session

NOTHING: Spent = (0, 0, None, None)
JUDGING = ("bm", "am", "dm")  # operations that name a result


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSettings(SearchSettings):
    """The settings of a set; `output`: the EPD file to write, or None."""

    output: Path | None = None
    kind: str = "set"
    interval: float = 0.02  # between two looks at the best move; a slice of a search takes 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRow(Answer):
    """One position after its search. Values are seen by the side to move.

    Attributes:
      source: its line. node: the position.
      best: the best move in UCI; None if the game is over. pv: the best line, in SAN.
      solved: whether the best move or mate is the result named in the line; None if it names none.
      wanted: the named result, with moves in SAN.
      points, most_points: of the best move, and the most of any move; None if the line gives none.
      evaluations, seconds: spent on it, including earlier calls.
      solved_evaluations, solved_seconds: spent until the result became right and stayed right, or None.
      known: whether it had been searched before.
    """

    json_keys = (
        "line=source.number id=source.id position=node.position best pv solved wanted points most_points"
        " q=node.q cp mate=node.mate visits=node.visits evaluations seconds"
        " solved_evaluations solved_seconds known"
    )

    source: EpdLine
    node: NodeView
    best: str | None
    pv: tuple[str, ...]
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
    on_progress: OnProgress | None = None,
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
    on_progress: OnProgress | None,
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
    best = node.moves[0].move.uci() if node.moves else None
    return is_solved(line.operations, node.mate, best)


def _row(line: EpdLine, node: NodeView | None, spent: Spent, *, known: bool) -> SetRow:
    assert node is not None, "a search records its root"
    solved, points = _solved(line, node), line.points
    best = node.moves[0] if node.moves else None
    return SetRow(
        source=line,
        node=node,
        best=best.move.uci() if best else None,
        pv=tuple(sans_of(line.board, best.pv)) if best else (),
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
    return {name: str(number) for name, number in found.items()} | {"pv": " ".join(row.pv)}
