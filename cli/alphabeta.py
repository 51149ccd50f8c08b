"""`graphsearch alphabeta`: search a position to a fixed depth and save the results in a graph file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from graphsearch.base.errors import CapacityError, UnsavedError

from .commands import command
from .options import Json, PositionOptions, Ram, StoreToSave, Time, byte_count, option
from .output import ENDED_BY_READER, MOST_DAMAGED, NOT_SAVED, print_json, print_view, say, say_clock
from .progress import RareLines, Screen, clock, live_screen
from .render import BY_CLOCK, TERMINAL_NAMES, count, line_text, rate, size
from .scores import heading, pawns, seen
from .signals import StopSignals
from .tables import FILL, table

if TYPE_CHECKING:
    import chess
    from rich.console import RenderableType
    from rich.table import Table

    from graphsearch.solvers.alphabeta.results import (
        AlphaBetaProgress,
        AlphaBetaResult,
        DepthLimits,
        DepthResult,
    )


DEFAULT_BYTES = 256 << 20  # of the transposition entries in memory
LEFT_OUT_SHARE = 0.01  # of a file's entries; above it the table is too small, below it buckets are full


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options of one call."""

    depth: Annotated[
        int | None, option("--depth D", "Search D plies, 1 to 126; without it, search until another limit.")
    ] = None
    position: PositionOptions
    store: StoreToSave = None
    time: Time = None
    nodes: Annotated[int | None, option("--nodes N", "Stop after N nodes, quiescence included.")] = None
    window: Annotated[
        tuple[float, float] | None,
        option(
            "--window A B",
            "Alpha and beta of the last iteration, in centipawns for the side to move, rounded to 0.1; "
            "values outside are only known to be at most A or at least B.",
        ),
    ] = None
    ram: Ram = None
    no_graph: Annotated[
        bool, option("--no-graph", "Ignore the positions in the file; use only its transposition entries.")
    ] = False
    compare: Annotated[
        bool,
        option(
            "--compare",
            "Search again without file and graph, within the same limits, and report how many nodes that "
            "takes.",
        ),
    ] = False
    json: Json = False

    @property
    def table_bytes(self) -> int:
        """The memory limit of the transposition entries."""
        wanted = DEFAULT_BYTES if self.ram is None else byte_count(self.ram)
        if not 1 << 20 <= wanted <= 1 << 40:
            raise typer.BadParameter(f"--ram must be 1MB to 1TB, not {self.ram}")
        return wanted


@command(
    "Search a position to a fixed depth with alpha-beta; save the results.",
    "graphsearch alphabeta startpos --depth 8 --store first.graph",
    'graphsearch alphabeta startpos --moves "e4 e5" --depth 7 --json',
    "graphsearch alphabeta startpos --depth 6 --window -50 50",
    "graphsearch alphabeta first.graph --time 10",
)
def alphabeta(request: Request) -> None:
    """Search a position to a fixed depth by alpha-beta, with the built-in evaluation.

    With --store, the search starts from the transposition entries in the file, orders moves by the visits and
    priors of the stored positions, and saves its own entries, whatever evaluator the file is bound to. It
    stops at the first limit it reaches, or at Ctrl-C.

    JSON: `value` is in thousandths of a pawn for the side to move; 100000 - n is a mate in n plies. One of
    `cp` and `mate` (in moves, negative if the side to move is mated) is null. `bound` is exact, lower (at
    least the value) or upper (at most). `known` is what the file knew. `nodes_alone` and `nodes_saved` are
    null without --compare, or if a limit ended that search first.
    """
    if (request.depth, request.time, request.nodes) == (None, None, None):
        raise typer.BadParameter("give a limit: --depth, --time or --nodes")
    from graphsearch.solvers.alphabeta.results import MOST_DEPTH, DepthLimits

    limits = DepthLimits(
        depth=MOST_DEPTH if request.depth is None else request.depth,
        window=_thousandths(request.window),
        nodes=request.nodes,
        seconds=request.time,
    )
    board = request.position.board()
    say_clock(board)
    with StopSignals("Stopping: saving the results...\n") as signals:
        try:
            result = _search(request, board, limits, signals)
        except UnsavedError as error:  # the result is still worth printing
            if error.result is not None:
                _print_result(error.result, json=request.json)
            raise
        if request.compare:
            result = replace(result, alone=_alone(request, limits, result, signals))
        _print_result(result, json=request.json)
        for line in _epilogue(request.store, result):
            say(line)
        if signals.exit_code:
            raise typer.Exit(signals.exit_code)


def _thousandths(window: tuple[float, float] | None) -> tuple[int, int] | None:
    """Returns a window in thousandths of a pawn.

    Raises:
      typer.BadParameter: if its bounds are not finite, or equal after rounding.
    """
    if window is None:
        return None
    if not all(abs(bound) < 1e9 for bound in window):  # nan fails too
        raise typer.BadParameter(
            f"--window {window[0]:g} {window[1]:g}: both bounds must be finite numbers of centipawns"
        )
    alpha, beta = round(10 * window[0]), round(10 * window[1])
    if window[0] < window[1] and alpha == beta:
        raise typer.BadParameter(
            f"--window {window[0]:.10g} {window[1]:.10g}: both bounds round to {alpha / 10:g}; they must"
            " differ by at least 0.1 centipawns"
        )
    return alpha, beta


def _search(
    request: Request, board: chess.Board, limits: DepthLimits, signals: StopSignals
) -> AlphaBetaResult:
    """Searches, saves everything and closes the file; returns the result."""
    import chess

    from graphsearch.graph.graph import Graph
    from graphsearch.solvers.alphabeta.engine import nodes_within
    from graphsearch.solvers.alphabeta.results import DepthLimits
    from graphsearch.solvers.alphabeta.session import search_to_depth

    # compiles the kernels before the clock starts; Ctrl-C still ends it at once
    nodes_within(chess.Board(), DepthLimits(depth=2), table_bytes=0, stop=Event())
    with Graph.open_unevaluated(request.store) as graph:
        with _room_for_table(request):
            graph.use_entries(request.table_bytes)
        signals.arm()
        with live_screen(signals) as screen:
            show = _Display(board, screen)
            return search_to_depth(
                graph,
                board,
                limits,
                table_bytes=request.table_bytes,
                use_graph=not request.no_graph,
                on_depth=show.iteration,
                on_progress=show.progress,
                stop=signals.stop,
            )


@contextmanager
def _room_for_table(request: Request) -> Iterator[None]:
    """Turns a MemoryError into a CapacityError that names the option to change."""
    try:
        yield
    except MemoryError:
        raise CapacityError(
            f"--ram {request.ram}: not enough memory for a table of this size; use a smaller --ram"
        ) from None


def _alone(
    request: Request, limits: DepthLimits, result: AlphaBetaResult, signals: StopSignals
) -> int | None:
    """Returns the nodes of the same search without file and graph; None if a limit ends it first."""
    from graphsearch.solvers.alphabeta.engine import limits_alone, nodes_within

    if not result.depth or signals.stop.is_set():
        return None
    limits = limits_alone(limits, result)
    say("Searching again without the file, to compare...")
    with _room_for_table(request):
        nodes = nodes_within(result.board, limits, table_bytes=request.table_bytes, stop=signals.stop)
    if nodes is None and not signals.stop.is_set():
        say(f"Without the file, depth {limits.depth} was not reached within the limits; nothing to compare.")
    return nodes


def _print_result(result: AlphaBetaResult, *, json: bool) -> None:
    if json:
        print_json(result.as_dict())
    else:
        print_view(lambda width: _result_view(result, width))
        print(_summary(result))
    if sys.stdout is not None:
        sys.stdout.flush()


def _epilogue(store: Path | None, result: AlphaBetaResult) -> list[str]:
    """Returns the closing lines: the saved results, and problems of the file."""
    from graphsearch.store.side_files import file_bytes
    from graphsearch.store.store import Store
    from graphsearch.store.transpositions.saved import facts

    report = result.report
    lines = [f"Damaged, ignored: {problem}" for problem in report.problems[:MOST_DAMAGED]]
    if report.ignored:
        lines.append(f"Not used: {_entries(report.ignored)} of another evaluation.")
    if report.left_out > LEFT_OUT_SHARE * (report.loaded + report.left_out):
        lines.append(
            f"{_entries(report.left_out)} of the file did not fit into memory; the deepest were loaded."
            " A larger --ram holds more."
        )
    if result.stop_reason == "reader":
        lines.append(ENDED_BY_READER)
    if store is None:
        return [*lines, NOT_SAVED]
    with Store.open(store, read_only=True) as opened:
        held = facts(opened)
    return [*lines, f"Saved: {store} holds {_entries(held.entries)} ({size(file_bytes(store))})."]


def _entries(number: int) -> str:
    return count(number, "entry", "entries")


# ------------------------------------------------------------------ output
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


def _iterations_table(rows: Sequence[dict[str, str]], width: int | None) -> Table:
    """Returns rows of iterations as a table; `width` as for `render.moves_table`."""
    return table(rows, {"Line": FILL}, spare=SPARE).drawn(width)


def _iteration_row(board: chess.Board, found: DepthResult) -> dict[str, str]:
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


def _result_view(result: AlphaBetaResult, width: int | None) -> RenderableType:
    """Returns all iterations of a search as a table; only the known result if nothing was searched."""
    from rich.text import Text

    if result.stop_reason == "finished":
        from graphsearch.position.board import terminal_kind

        side = "White" if result.board.turn else "Black"
        return Text(f"{side} to move: {TERMINAL_NAMES.get(terminal_kind(result.board), BY_CLOCK)}")
    rows = [_iteration_row(result.board, found) for found in result.iterations]
    if result.stop_reason == "known":
        known = value_text(result.value, result.bound, white=result.board.turn)
        rows.append({"Depth": str(result.depth), "Score": known, "Line": line_text(result.board, result.pv)})
    return _iterations_table(rows, width)


def _summary(result: AlphaBetaResult) -> str:
    counts = result.counts
    best = [] if result.move is None else [f"bestmove {result.move.uci()}"]
    worth = value_text(result.value, result.bound, white=result.board.turn)
    value = [f"score {worth} ({heading()})"] if worth else []
    first = (*best, *value, f"depth {result.depth}", f"nodes {counts.nodes:,}", f"{result.seconds:.1f} s")
    lines = ["   ".join(first), *_reuse(result)]
    if counts.nodes:
        ended = f"ended a node {counts.hit_cutoffs:,}"
        counters = (
            f"hits {counts.hits:,} (from the file {counts.stored_hits:,}; {ended})",
            f"cut-offs {counts.cutoffs:,}",
            f"first move {per_cent(counts.first_cutoffs, counts.cutoffs) or '-'}",
            f"re-searches {counts.researches:,}",
            *([f"ordered by the graph {counts.ordered:,}"] if counts.ordered else []),
        )
        lines.append("   ".join(counters))
    return "\n".join(lines)


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


def _status_line(progress: AlphaBetaProgress) -> str:
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


class _Display:
    """Shows the progress of a search: a live table on a terminal, a line now and then elsewhere."""

    def __init__(self, board: chess.Board, screen: Screen | None) -> None:
        self._board, self._screen = board, screen
        self._lines = RareLines(_status_line)
        self._rows: list[dict[str, str]] = []
        self._status = ""

    def iteration(self, found: DepthResult) -> None:
        """Adds a complete iteration; without a screen, only the table at the end has it."""
        self._rows.append(_iteration_row(self._board, found))
        self._draw()

    def progress(self, progress: AlphaBetaProgress) -> None:
        """Shows the counters of the running iteration."""
        if self._screen is None:
            self._lines.show(progress)
        self._status = _status_line(progress)
        self._draw()

    def _draw(self) -> None:
        from rich.console import Group
        from rich.text import Text

        if screen := self._screen:
            table = _iterations_table(self._rows[-max(1, screen.height - 4) :], screen.width)
            screen.draw(lambda: Group(table, Text(self._status, no_wrap=True)))
