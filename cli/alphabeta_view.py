"""What a search of fixed depth shows: an iteration a row, while it runs and at its end."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from .live import FIRST_LINE_S, LONGEST_GAP_S, clock
from .output import console, say
from .render import MAX_PV, TERMINAL_NAMES, count, rate
from .signals import StopSignals

if TYPE_CHECKING:
    import chess
    from rich.console import RenderableType
    from rich.live import Live
    from rich.table import Table

    from graphsearch.alphabeta.outcome import AlphaBetaProgress, AlphaBetaResult
    from graphsearch.alphabeta.results import Counts, DepthResult

# column -> the narrowest terminal that has it
COLUMNS = {
    "Depth": 0,
    "Value": 0,
    "Nodes": 50,
    "Nodes/s": 90,
    "Hits": 100,
    "Cut-offs": 110,
    "First": 80,
    "Time": 60,
    "PV": 40,
}
SIGNS = {"lower": ">=", "upper": "<=", "exact": ""}


def value_text(value: int | None, bound: str) -> str:
    """Returns a value in centipawns, or as a mate in moves, with the sign of its bound.

    >>> value_text(314, "exact"), value_text(-500, "upper"), value_text(99_995, "lower"), value_text(None, "")
    ('+31', '<=-50', '>=#3', '')
    """
    if value is None:
        return ""
    from graphsearch.position.scores import centipawns, mate_moves

    mate, cp = mate_moves(value), centipawns(value)
    text = f"#{mate}" if mate is not None else f"{cp:+d}" if cp else "0"
    return SIGNS.get(bound, "") + text


def per_cent(part: int, whole: int) -> str:
    """Returns a share with one decimal, empty if there is nothing to have a share in.

    >>> per_cent(1, 3), per_cent(0, 0)
    ('33.3%', '')
    """
    return f"{100 * part / whole:.1f}%" if whole else ""


def line_text(board: chess.Board, pv: Sequence[chess.Move]) -> str:
    """Returns the first moves of a line in SAN: `1. e4 e5 2. Nf3`."""
    return board.variation_san(pv[:MAX_PV]) if pv else ""


def iterations_table(board: chess.Board, rows: Sequence[dict[str, str]], width: int | None) -> Table:
    """Returns rows of iterations as a table; `width` as for `render.moves_table`."""
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1), expand=width is not None
    )
    columns = [name for name, least in COLUMNS.items() if width is None or width >= least]
    for name in columns:
        side: Literal["left", "right"] = "left" if name == "PV" else "right"
        table.add_column(name, justify=side, no_wrap=True, ratio=1 if name == "PV" else None)
    for row in rows:
        table.add_row(*(row.get(name, "") for name in columns))
    return table


def iteration_row(board: chess.Board, found: DepthResult) -> dict[str, str]:
    """Returns the cells of an iteration by column."""
    counts = found.counts
    return {
        "Depth": f"{found.depth}" if found.complete else f"({found.depth})",
        "Value": value_text(found.value, found.bound) if found.move or found.complete else "",
        "Nodes": f"{counts.nodes:,}",
        "Nodes/s": rate(counts.nodes / found.seconds) if found.seconds else "",
        "Hits": f"{counts.hits:,}",
        "Cut-offs": f"{counts.cutoffs:,}",
        "First": per_cent(counts.first_cutoffs, counts.cutoffs),
        "Time": f"{found.seconds:.2f} s",
        "PV": line_text(board, found.pv),
    }


def result_view(result: AlphaBetaResult, width: int | None) -> RenderableType:
    """Returns all iterations of a search as a table; the known answer as its only row if none was needed."""
    from rich.text import Text

    if result.stop_reason == "finished":
        from graphsearch.position.board import terminal_kind

        side = "White" if result.board.turn else "Black"
        return Text(f"{side} to move: {TERMINAL_NAMES[terminal_kind(result.board)]}")
    rows = [iteration_row(result.board, found) for found in result.iterations]
    if result.stop_reason == "known":
        known = value_text(result.value, result.bound)
        rows.append({"Depth": str(result.depth), "Value": known, "PV": line_text(result.board, result.pv)})
    return iterations_table(result.board, rows, width)


def summary(result: AlphaBetaResult) -> str:
    """Returns the answer, and what it took, in a few lines."""
    counts = result.counts
    best = [] if result.move is None else [f"bestmove {result.move.uci()}"]
    value = [f"value {value_text(result.value, result.bound)}"] if result.value is not None else []
    first = (*best, *value, f"depth {result.depth}", f"nodes {counts.nodes:,}", f"{result.seconds:.1f} s")
    lines = ["   ".join(first), *_reuse(result)]
    if counts.nodes:
        lines.append("   ".join(_counters(counts)))
    return "\n".join(lines)


def _counters(counts: Counts) -> tuple[str, ...]:
    return (
        f"hits {counts.hits:,} (from the file {counts.stored_hits:,}; ended a node {counts.hit_cutoffs:,})",
        f"cut-offs {counts.cutoffs:,}",
        f"first move {per_cent(counts.first_cutoffs, counts.cutoffs) or '-'}",
        f"re-searches {counts.researches:,}",
        *([f"ordered by the graph {counts.ordered:,}"] if counts.ordered else []),
    )


def _reuse(result: AlphaBetaResult) -> list[str]:
    """Returns what the file spared this search."""
    lines = []
    if result.stop_reason == "known":
        lines.append("The file knew the answer; nothing was searched.")
    elif result.known.depth:
        lines.append(f"The file knew depth {result.known.depth}; the search began with the next one.")
    if result.known.nodes:
        lines[-1:] = [f"{lines[-1]} Earlier runs took {count(result.known.nodes, 'node')} to there."]
    if result.stop_reason == "mate":
        lines.append("The mate is the shortest: deeper searches find the same.")
    if result.nodes_saved is not None:
        taken = f"Without file and graph it takes {count(result.alone or 0, 'node')}"
        kind = "saved" if result.nodes_saved >= 0 else "more here"
        lines.append(f"{taken}: {abs(result.nodes_saved):,} {kind}.")
    return lines


class Display(Protocol):
    """Shows how a search is getting on."""

    def iteration(self, found: DepthResult) -> None:
        """Takes note of an iteration that is complete."""

    def progress(self, progress: AlphaBetaProgress) -> None:
        """Shows the counters of the iteration under way."""


@contextmanager
def iteration_display(board: chess.Board, signals: StopSignals) -> Iterator[Display]:
    """Yields what a search calls: a live table on a terminal, a rare line elsewhere; always on stderr."""
    screen = console(sys.stderr) if sys.stderr is not None and sys.stderr.isatty() else None
    if screen is None or screen.is_dumb_terminal:
        yield _RareLines()
        return
    from rich.live import Live

    # drawn only when there is news, so no thread draws while a signal's message is written
    with Live(console=screen, auto_refresh=False, transient=True) as live:
        table = _LiveTable(board, live, screen.width, screen.height, signals.stop)
        signals.before_message = table.clear_if_stopped
        yield table
        signals.before_message = None


def status_line(progress: AlphaBetaProgress) -> str:
    """Returns the counters of a running search in one line."""
    counts = progress.counts
    return "   ".join(
        (
            clock(progress.seconds),
            f"depth {progress.depth}",
            f"nodes {counts.nodes:,}",
            f"nodes/s {rate(counts.nodes / progress.seconds) if progress.seconds else '-'}",
            f"hits {counts.hits:,}",
            f"first move {per_cent(counts.first_cutoffs, counts.cutoffs) or '-'}",
            f"entries {progress.entries:,}",
        )
    )


class _RareLines:
    """One line of progress now and then, for logs."""

    def __init__(self) -> None:
        self._next = FIRST_LINE_S

    def iteration(self, found: DepthResult) -> None:
        """Leaves iterations to the table at the end."""

    def progress(self, progress: AlphaBetaProgress) -> None:
        """Says how far the search is, if it is time to."""
        if progress.seconds >= self._next:
            say(status_line(progress))
            self._next = progress.seconds + min(progress.seconds, LONGEST_GAP_S)


@dataclass(slots=True)
class _LiveTable:
    """The iterations and the counters, redrawn in place until the search is told to stop."""

    board: chess.Board
    live: Live
    width: int
    height: int
    stop: threading.Event
    rows: list[dict[str, str]] = field(default_factory=list)
    status: str = ""
    drawing: bool = False

    def iteration(self, found: DepthResult) -> None:
        """Adds a row."""
        self.rows.append(iteration_row(self.board, found))
        self._draw()

    def progress(self, progress: AlphaBetaProgress) -> None:
        """Draws the counters anew."""
        self.status = status_line(progress)
        self._draw()

    def _draw(self) -> None:
        if self.stop.is_set():
            return
        from rich.console import Group
        from rich.text import Text

        shown = self.rows[-max(1, self.height - 4) :]
        self.drawing = True
        table = iterations_table(self.board, shown, self.width)
        self.live.update(Group(table, Text(self.status, no_wrap=True)), refresh=True)
        self.drawing = False
        self.clear_if_stopped()

    def clear_if_stopped(self) -> None:
        """Takes the table off the screen once the search is told to stop; a signal handler may call it."""
        if self.stop.is_set() and not self.drawing:
            self.live.stop()
