"""Books as text: lines and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .render import count, signed
from .tables import LEFT, RIGHT, WHOLE, table

if TYPE_CHECKING:
    from rich.table import Table

    from graphsearch.book.build_report import BuildReport, RootValue
    from graphsearch.book.status import RootRow, RunRow, Status
    from graphsearch.book.why import Why

MAX_ROOTS = 20  # roots in the output; JSON has all
ENDED = {
    "complete": "nothing is left to search",
    "stop": "stopped",
    "time": "the time limit was reached",
    "evaluations": "the evaluation limit was reached",
    "failed": "failed",
}
STATES = {
    "leaf": "not searched yet",
    "open": "searched",
    "end": "end: nothing follows here",
    "apart": "no root leads here any more",
}


def q_text(value: float | None) -> str:
    """Returns a value for the side to move as Q and centipawns: `+0.120 (+17 cp)`."""
    from graphsearch.position.values import cp_from_q

    return "unknown" if value is None else f"{signed(value)} ({cp_from_q(value):+d} cp)"


def duration(seconds: float) -> str:
    """Returns a time in words.

    >>> duration(42.4), duration(3700), duration(200_000)
    ('42 s', '1 h 01 min', '2 d 7 h')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def report_lines(report: BuildReport) -> list[str]:
    """Returns the report of a build, line by line."""
    lines = [
        f"Book {report.book}: {count(report.positions, 'position')},"
        f" {count(report.leaves, 'leaf', 'leaves')} to search; {ENDED[report.ended]}",
        f"This run: {count(report.searched, 'position')} searched, {report.added:,} added,"
        f" {count(report.evaluations, 'evaluation')}, {duration(report.seconds)}",
    ]
    return lines + _root_lines(report.roots)


def _root_lines(roots: Sequence[RootValue | RootRow]) -> list[str]:
    """Returns the value of each root."""
    lines = []
    for root in roots[:MAX_ROOTS]:
        best = f", best {root.best}" if root.best else ""
        lines.append(f"{root.origin}: {q_text(root.value)}{best}   {root.position}")
    if len(roots) > MAX_ROOTS:
        lines.append(f"and {len(roots) - MAX_ROOTS:,} more roots; --json has all")
    return lines


def status_lines(found: Status) -> list[str]:
    """Returns the progress of a book, line by line."""
    total = found.open + found.leaf + found.end
    lines = [
        f"Book {found.name} ({found.side}): {count(total, 'position')}, {count(found.moves, 'move')};"
        f" {found.open:,} searched, {found.leaf:,} to search, {count(found.end, 'end')}",
        f"Begun {found.created}, last built {found.updated}",
    ]
    lines += _root_lines(found.roots)
    if found.queue:
        lines.append("Queue: " + ", ".join(f"{n:,} {state}" for state, n in sorted(found.queue.items())))
    if found.apart:
        lines.append(f"{count(found.apart, 'position')} more, which no root leads to any more")
    for lease in found.leases:
        pid = f" (pid {lease.pid})" if lease.pid else ""  # of this machine
        lines.append(f"Worker {lease.worker}{pid} searches {lease.position}")
    return [*lines, "", *_plies(found)]


def _plies(found: Status) -> list[str]:
    """Returns a row of a bar chart for each ply: # searched, . to search, - ends."""
    most = max((row.open + row.leaf + row.end for row in found.plies), default=1)
    lines = ["Ply  searched  to search      ends"]
    for row in found.plies:
        parts = ((row.open, "#"), (row.leaf, "."), (row.end, "-"))
        bar = "".join(sign * (-(-30 * number // most)) for number, sign in parts)
        lines.append(f"{row.ply:>3}{row.open:>10,}{row.leaf:>11,}{row.end:>10,}  {bar}")
    return lines


def runs_table(found: Status) -> Table:
    """Returns the runs of a book as a table."""
    names = ("Run", "Started", "Time", "Workers", "Searched", "Added", "Evaluations", "Ended")
    columns = {name: LEFT if name in ("Started", "Ended") else RIGHT for name in names}
    return table(columns, map(_run_cells, found.runs))


def _run_cells(run: RunRow) -> list[str]:
    return [
        str(run.number),
        run.started,
        duration(run.seconds),
        str(run.workers),
        f"{run.searched:,}",
        f"{run.positions:,}",
        f"{run.evaluations:,}",
        "active, or killed" if run.ended is None else ENDED.get(run.ended, run.ended),
    ]


def position_lines(found: Why) -> list[str]:
    """Returns a book's data on a position, line by line."""
    lines = [f"{found.position}   key {found.key}"]
    if not found.found:
        lines.append(f"Not in book {found.book}.")
        if found.left_at:
            left = found.left_at
            where = f"after {left.line}" if left.line else "at a root"
            lines.append(f"The game leaves the book {where}: {left.move} is not in it.")
            reason = left.verdict.reason if left.verdict else f"that position is {STATES[left.state]}"
            lines.append(f"Why: {reason}.")
        elif found.roots:
            more = f", and at {count(len(found.roots) - 1, 'more position')}" if len(found.roots) > 1 else ""
            lines.append(f"Why: the book begins at {found.roots[0]}{more}; no move of it leads here.")
        return lines
    assert found.state is not None
    times = "" if not found.searches else f" {count(found.searches, 'time')}, N {found.n:,}"
    lines.append(f"Book {found.book}, ply {found.ply}: {STATES[found.state]}{times}")
    lines.append(f"Line: {found.line or 'a root'}")
    lines.append(f"Value: {q_text(found.value)}")
    if found.outside is not None:
        lines.append(f"Best outside the book: {found.outside_san} {q_text(found.outside)}")
    if found.rank is not None and found.priority is not None:
        lines.append(
            f"To search: number {found.rank:,} of {found.leaves:,} leaves, cost {found.priority:.2f}"
        )
    return lines


def verdicts_table(found: Why, width: int | None) -> Table:
    """Returns every legal move with its decision, best value first."""
    has_games = any(verdict.candidate.games for verdict in found.verdicts)
    columns = {"Move": WHOLE, "": WHOLE} | dict.fromkeys(("P", "N", "Value", "Loss"), RIGHT)
    columns |= {"Games": RIGHT} if has_games else {}
    columns |= {"Run": RIGHT, "Why": LEFT}
    rows = []
    for verdict in found.verdicts:
        move = verdict.candidate
        since = found.since.get(move.move)
        rows.append(
            {
                "Move": move.san,
                "": "in" if verdict.rule else "out",
                "P": f"{100 * move.p:.1f}%",
                "N": f"{move.n:,}",
                "Value": signed(move.value),
                "Loss": "" if verdict.loss is None else str(verdict.loss),
                "Games": f"{move.games:,}",
                "Run": "" if since is None else str(since),
                "Why": verdict.reason,
            }
        )
    return table(columns, rows, width=width)
