"""Renders a search to a fixed depth: one row per iteration, during the search and at its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .progress import RareLines, Screen, clock, live_screen
from .render import BY_CLOCK, TERMINAL_NAMES, count, line_text, rate
from .scores import heading, pawns, seen
from .signals import StopSignals
from .tables import FILL, table

if TYPE_CHECKING:
    import chess
    from rich.console import RenderableType
    from rich.table import Table

    from graphsearch.solvers.alphabeta.results import AlphaBetaProgress, AlphaBetaResult, Counts, DepthResult

SPARE = ("Cut-offs", "Hits", "Nodes/s", "First", "Time", "Nodes")
SIGNS = {"lower": ">=", "upper": "<=", "exact": ""}


def value_text(value: int | None, bound: str, *, white: bool = True) -> str:
    """Returns a value of the side to move in pawns, or as a mate in moves, with the sign of its bound.

    >>> value_text(314, "exact"), value_text(-500, "upper"), value_text(99_995, "lower"), value_text(None, "")
    ('+0.31', '<=-0.50', '>=#3', '')
    >>> value_text(314, "lower", white=False)
    '<=-0.31'
    """
    if value is None:
        return ""
    from graphsearch.position.scores import centipawns, mate_moves

    mate, cp = mate_moves(value), centipawns(value)
    text = f"#{seen(mate, white=white):.0f}" if mate is not None else pawns(seen(cp or 0, white=white))
    if seen(1, white=white) < 0:
        bound = {"lower": "upper", "upper": "lower"}.get(bound, bound)
    return SIGNS.get(bound, "") + text


def per_cent(part: int, whole: int) -> str:
    """Returns a share with one decimal, empty if the whole is zero.

    >>> per_cent(1, 3), per_cent(0, 0)
    ('33.3%', '')
    """
    return f"{100 * part / whole:.1f}%" if whole else ""


def iterations_table(rows: Sequence[dict[str, str]], width: int | None) -> Table:
    """Returns rows of iterations as a table; `width` as for `render.moves_table`."""
    return table(rows, {"Line": FILL}, spare=SPARE).drawn(width)


def iteration_row(board: chess.Board, found: DepthResult) -> dict[str, str]:
    """Returns the cells of an iteration by column."""
    counts, known = found.counts, found.move or found.complete
    return {
        "Depth": f"{found.depth}" if found.complete else f"({found.depth})",
        "Score": value_text(found.value if known else None, found.bound, white=board.turn),
        "Nodes": f"{counts.nodes:,}",
        "Nodes/s": rate(counts.nodes / found.seconds) if found.seconds else "",
        "Hits": f"{counts.hits:,}",
        "Cut-offs": f"{counts.cutoffs:,}",
        "First": per_cent(counts.first_cutoffs, counts.cutoffs),
        "Time": f"{found.seconds:.2f} s",
        "Line": line_text(board, found.pv),
    }


def result_view(result: AlphaBetaResult, width: int | None) -> RenderableType:
    """Returns all iterations of a search as a table; only the known result if nothing was searched."""
    from rich.text import Text

    if result.stop_reason == "finished":
        from graphsearch.position.board import terminal_kind

        side = "White" if result.board.turn else "Black"
        return Text(f"{side} to move: {TERMINAL_NAMES.get(terminal_kind(result.board), BY_CLOCK)}")
    rows = [iteration_row(result.board, found) for found in result.iterations]
    if result.stop_reason == "known":
        known = value_text(result.value, result.bound, white=result.board.turn)
        rows.append({"Depth": str(result.depth), "Score": known, "Line": line_text(result.board, result.pv)})
    return iterations_table(rows, width)


def summary(result: AlphaBetaResult) -> str:
    """Returns the result, and its cost, in a few lines."""
    counts = result.counts
    best = [] if result.move is None else [f"bestmove {result.move.uci()}"]
    worth = value_text(result.value, result.bound, white=result.board.turn)
    value = [f"score {worth} ({heading()})"] if worth else []
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
    """Returns lines on the work that the file saved."""
    lines = []
    if result.stop_reason == "known":
        lines.append("The file knew the answer; nothing was searched.")
    elif result.known.depth:
        lines.append(f"The file knew depth {result.known.depth}; the search started with the next one.")
    if result.known.nodes:
        lines[-1:] = [f"{lines[-1]} Earlier searches took {count(result.known.nodes, 'node')} to get there."]
    if result.stop_reason == "mate":
        lines.append("This mate is the shortest; a deeper search finds the same.")
    if result.nodes_saved is not None:
        taken = f"Without file and graph the search takes {count(result.alone or 0, 'node')}"
        kind = "saved" if result.nodes_saved >= 0 else "more here"
        lines.append(f"{taken}: {abs(result.nodes_saved):,} {kind}.")
    return lines


@contextmanager
def iteration_display(board: chess.Board, signals: StopSignals) -> Iterator[Display]:
    """Yields the display of a search: a live table on a terminal, a line now and then elsewhere."""
    with live_screen(signals) as screen:
        yield Display(board, screen)


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


class Display:
    """Shows the progress of a search."""

    def __init__(self, board: chess.Board, screen: Screen | None) -> None:
        self._board, self._screen = board, screen
        self._lines = RareLines(status_line)
        self._rows: list[dict[str, str]] = []
        self._status = ""

    def iteration(self, found: DepthResult) -> None:
        """Adds a complete iteration; without a screen, only the table at the end has it."""
        self._rows.append(iteration_row(self._board, found))
        self._draw()

    def progress(self, progress: AlphaBetaProgress) -> None:
        """Shows the counters of the running iteration."""
        if self._screen is None:
            self._lines.show(progress)
        self._status = status_line(progress)
        self._draw()

    def _draw(self) -> None:
        from rich.console import Group
        from rich.text import Text

        if screen := self._screen:
            table = iterations_table(self._rows[-max(1, screen.height - 4) :], screen.width)
            screen.draw(lambda: Group(table, Text(self._status, no_wrap=True)))
