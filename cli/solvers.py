"""`graphsearch mate`, `alphabeta` and `lab nodetypes`: proofs of mates, and searches to a fixed depth."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from graphsearch.base.errors import CapacityError, InvalidPositionError, UnsavedError, UnusableFileError

from .commands import command
from .options import (
    Json,
    LineOptions,
    PositionOptions,
    Ram,
    StoreOption,
    StoreToSave,
    Time,
    argument,
    byte_count,
    option,
)
from .output import (
    ENDED_BY_READER,
    FAILED,
    MOST_DAMAGED,
    NOT_SAVED,
    print_answer,
    print_json,
    print_view,
    say,
    say_clock,
    say_if_unfinished,
)
from .progress import RareLines, Screen, clock, live_screen, progress_bar, progress_display
from .render import (
    BY_CLOCK,
    FILL,
    LEFT,
    TERMINAL_NAMES,
    Cells,
    Part,
    count,
    heading,
    line_text,
    pawns,
    rate,
    seen,
    size,
    table,
)
from .signals import StopSignals

if TYPE_CHECKING:
    import chess
    from rich.console import RenderableType
    from rich.table import Table

    from graphsearch.solvers.alphabeta.search import (
        AlphaBetaProgress,
        AlphaBetaResult,
        DepthLimits,
        DepthResult,
    )
    from graphsearch.solvers.mate.check import MateCheck
    from graphsearch.solvers.mate.search import MateLimits, MateProgress, MateResult
    from graphsearch.solvers.nodetypes import Agreement, Classification, Rules
    from graphsearch.store.record.transposition import EntryTable


TABLE_BYTES = 256 << 20  # of the file's entries in memory
WHY = {
    "visits": "the visit limit was reached",
    "time": "the time limit was reached",
    "stop": "the search was stopped",
    "excluded": "that was the limit",
    "hopeless": "neither side can mate with the pieces on the board",
    "finished": "the game is over (stalemate, dead position or 75-move rule)",
    "claimable": "the side to move may claim a draw (50-move rule)",
}

Within = Annotated[int | None, option("--within M", "Look only for mates in up to M moves.", min=1)]
Check = Annotated[
    bool, option("--check", "Play the mate out against every defence, using only the rules of python-chess.")
]
MateOutput = Annotated[
    Path | None,
    option(
        "-o --output OUT", "Of a file of positions: also write its lines to this EPD file, with dm and pv."
    ),
]


@command(
    "Find the shortest mate in a position.",
    'graphsearch mate "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"',
    'graphsearch mate "kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1" --check --json',
    "graphsearch mate positions.epd --time 10 -o solved.epd",
)
def mate(
    position: PositionOptions,
    within: Within = None,
    visits: Annotated[int | None, option("--visits N", "Stop after expanding N nodes.", min=1)] = None,
    time: Time = None,
    store: StoreToSave = None,
    check: Check = False,
    output: MateOutput = None,
    json: Json = False,
) -> None:
    """Find the shortest mate in a position by proof-number search, for either side.

    Of a file with a position on each line (EPD), all are searched in turn, each within the limits; --game K
    takes one of them. Where its lines name a result (`dm 3`, `bm #3`, `bm Qg7#`, `am`), the last line counts
    how many were solved; a shorter mate solves, too. A mate is proven against every defence. Where the output
    says so, it is also proven that no shorter mate exists. Without --time and --visits, a search ends after
    60 seconds. Ctrl-C ends it and prints what is known.

    JSON: one object for each position, of a file with `line` and `solved`, which is null where the line names
    no result. `mate` is in moves: negative if the side to move is mated, 0 for checkmate, null if none is
    proven. `pv` is the whole line, with best attack and longest defence; `shortest` tells whether no shorter
    mate exists; `excluded` is the number of moves within which neither side can force mate.
    """
    from graphsearch.exchange.output import check_target
    from graphsearch.position.notation import holds_positions
    from graphsearch.solvers.mate.search import DEFAULT_SECONDS, MateLimits

    if time is None and visits is None:
        time = DEFAULT_SECONDS
    limits = MateLimits(visits=visits, seconds=time, moves=within)
    if output is not None:
        if not holds_positions(position.position):
            raise typer.BadParameter("-o writes the lines of a file of positions; name one")
        check_target(output, store=store, source=Path(position.position))
    tried, found, bad, results = 0, 0, 0, _Results(output, store)
    with StopSignals("Stopping: finding the proven line...\n") as signals:
        for line, text, board in _problems(position):
            if signals.stop.is_set():
                break
            if isinstance(board, InvalidPositionError):
                bad += 1
                say(f"graphsearch: line {line}: {board}")
                continue
            with _proofs_of(store, board) as entries:
                result, checked = _search_mate(board, limits, entries, signals, check=check)
            tried += 1
            found += result.mate is not None
            solved = results.add(line, text, result)
            if json:
                more: dict[str, object] = {"line": line, "solved": solved} if line else {}
                more |= {} if checked is None else {"checked": checked.as_dict()}
                print_json(result.as_dict() | more)
                continue
            if line:
                print(f"line {line}: {board.fen()}")
            print(*_mate_answer(board, result, checked), sep="\n")
    if not (tried or bad or signals.exit_code):
        raise UnusableFileError(f"{position.position} has no positions")
    results.finish()
    if store is None and found and not json:
        say("Nothing was saved; use --store FILE to keep the proofs for later searches.")
    if signals.exit_code or bad:
        raise typer.Exit(signals.exit_code or FAILED)


class _Results:
    """Collects the results of a file of positions: the solved ones, and its lines with the mates found."""

    def __init__(self, output: Path | None, store: Path | None) -> None:
        self._output, self._store = output, store
        self._solved: list[bool] = []
        self._lines: list[str] = []

    def add(self, number: int, text: str, result: MateResult) -> bool | None:
        """Adds the result of a line; returns whether it solves it, None if the line names no result.

        Operations that cannot be read are reported and stay in the written line.
        """
        from graphsearch.exchange.epd_import import annotated, is_solved, read_epd
        from graphsearch.position.lines import sans_of

        if not text:  # not of a file
            return None
        board, operations, faults = read_epd(text)
        for fault in faults:
            say(f"graphsearch: line {number}: {fault}")
        mate = str(result.mate) if result.mate is not None and result.mate > 0 else None
        pv = " ".join(sans_of(board, list(result.pv)))
        self._lines.append(annotated(text, {"dm": mate, "pv": pv}))
        solved = is_solved(operations, result.mate, result.pv[0].uci() if result.pv else None)
        self._solved += [] if solved is None else [solved]
        return solved

    def finish(self) -> None:
        """Prints the number of solved positions, and writes the lines."""
        if self._solved:
            say(f"solved: {sum(self._solved):,} of {len(self._solved):,}")
        if self._output is not None:
            from graphsearch.exchange.output import new_output

            with new_output(self._output, store=self._store) as out:
                out.write("".join(f"{line}\n" for line in self._lines).encode())
            say(f"{self._output}: {count(len(self._lines), 'position')}")


def _problems(position: PositionOptions) -> Iterator[tuple[int, str, chess.Board | InvalidPositionError]]:
    """Yields the positions to solve: those of a file, each with its line, or the named one with line 0."""
    from graphsearch.base.limits import open_file, text_lines
    from graphsearch.position.notation import holds_positions, read_fen_lines

    one = (position.moves, position.game, position.ply) != (None, None, None)
    if one or not holds_positions(position.position):
        yield 0, "", position.board()
        return
    with open_file(position.position, piped=True) as file:
        for number, text in enumerate(text_lines(file, position.position), 1):
            for _, board in read_fen_lines([text]):
                yield number, text.strip(), board


@contextmanager
def _proofs_of(store: Path | None, board: chess.Board) -> Iterator[EntryTable | None]:
    """Yields the proofs of a file, and saves it at the end; None without a file."""
    if store is None:
        yield None
        return
    from graphsearch.graph.graph import Graph
    from graphsearch.solvers.mate.search import note_proof

    with Graph.open_unevaluated(store) as graph:
        entries = graph.use_entries(TABLE_BYTES)
        note_proof(graph, board)
        yield entries


def _search_mate(
    board: chess.Board, limits: MateLimits, entries: EntryTable | None, signals: StopSignals, *, check: bool
) -> tuple[MateResult, MateCheck | None]:
    """Returns the result, and its check if `check` is set and there is a mate."""
    from graphsearch.solvers.mate.check import check_mate
    from graphsearch.solvers.mate.search import MateSearch

    search = MateSearch(board, limits, entries=entries)
    search.warm_up()
    signals.arm()
    with progress_display(signals, mate_line, least_gap_s=0.2) as show:
        result = search.run(signals.stop, show)
    if not check or result.mate is None:
        return result, None
    return result, check_mate(board, result.mate, search.attack)


# ---------------------------------------------------------------- output
def _mate_answer(board: chess.Board, result: MateResult, checked: MateCheck | None) -> list[str]:
    lines = [_verdict(board, result)]
    if result.pv:
        lines.append(board.variation_san(result.pv))
    if result.stop_reason != "finished":
        figures = (
            f"visits {result.visits:,}",
            f"proven positions {result.proofs:,}",
            f"visits/s {rate(result.visits / max(result.seconds, 1e-9))}",
            f"{result.seconds:.1f} s",
        )
        lines.append("   ".join(figures))
    if checked is not None:
        lines.append(
            f"checked: every defence was played out, {count(checked.positions, 'position')};"
            f" the longest lasts {count(checked.plies, 'ply', 'plies')}"
        )
    return lines


def _verdict(board: chess.Board, result: MateResult) -> str:
    from graphsearch.solvers.mate.search import MOST_MOVES

    if result.mate is None:
        why = WHY[result.stop_reason]
        if result.stop_reason == "excluded" and result.excluded >= MOST_MOVES:
            why = "longer mates are not searched for"  # most often the 50-move rule comes first
        within = f" in up to {count(result.excluded, 'move')}" if result.excluded else " is proven"
        hopeless = result.stop_reason in ("hopeless", "finished", "claimable")
        return f"no mate: {why}" if hopeless else f"no mate{within}: {why}"
    if result.mate == 0:
        return "checkmate"
    white = board.turn == (result.mate > 0)
    text = f"{'White' if white else 'Black'} mates in {abs(result.mate)}"
    if result.shortest:
        return f"{text}; there is no shorter mate"
    why = WHY.get(result.stop_reason, result.stop_reason)
    shorter = f"none in up to {result.excluded}" if result.excluded else "a shorter one is possible"
    return f"{text} or less; {shorter}: {why}"


def mate_line(progress: MateProgress) -> str:
    """Returns the progress of a search for a mate, in one line."""
    found = "no mate yet" if progress.mate is None else f"mate in {abs(progress.mate)}"
    parts = (
        clock(progress.seconds),
        f"visits {progress.visits:,}",
        f"visits/s {rate(progress.visits / max(progress.seconds, 1e-9))}",
        f"{found}, none in up to {progress.excluded}",
    )
    return "   ".join(parts)


DEFAULT_BYTES = 256 << 20  # of the transposition entries in memory
LEFT_OUT_SHARE = 0.01  # of a file's entries; above it the table is too small, below it buckets are full


@dataclass(frozen=True, slots=True, kw_only=True)
class AlphaBetaRequest:
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
def alphabeta(request: AlphaBetaRequest) -> None:
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
    from graphsearch.solvers.alphabeta.search import DepthLimits
    from graphsearch.store.record.transposition_layout import MOST_DEPTH

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
            result = _search_to_depth(request, board, limits, signals)
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


def _search_to_depth(
    request: AlphaBetaRequest, board: chess.Board, limits: DepthLimits, signals: StopSignals
) -> AlphaBetaResult:
    """Searches, saves everything and closes the file; returns the result."""
    import chess

    from graphsearch.graph.graph import Graph
    from graphsearch.solvers.alphabeta.search import DepthLimits, nodes_within, search_to_depth

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
def _room_for_table(request: AlphaBetaRequest) -> Iterator[None]:
    """Turns a MemoryError into a CapacityError that names the option to change."""
    try:
        yield
    except MemoryError:
        raise CapacityError(
            f"--ram {request.ram}: not enough memory for a table of this size; use a smaller --ram"
        ) from None


def _alone(
    request: AlphaBetaRequest, limits: DepthLimits, result: AlphaBetaResult, signals: StopSignals
) -> int | None:
    """Returns the nodes of the same search without file and graph; None if a limit ends it first."""
    from graphsearch.solvers.alphabeta.search import limits_alone, nodes_within

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
        print(_result_summary(result))
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
ITERATION_SPARE = ("Cut-offs", "Hits", "Nodes/s", "First", "Time", "Nodes")
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
    return table(rows, {"Line": FILL}, spare=ITERATION_SPARE).drawn(width)


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


def _result_summary(result: AlphaBetaResult) -> str:
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


def _iteration_line(progress: AlphaBetaProgress) -> str:
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
        self._lines = RareLines(_iteration_line)
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
        self._status = _iteration_line(progress)
        self._draw()

    def _draw(self) -> None:
        from rich.console import Group
        from rich.text import Text

        if screen := self._screen:
            table = _iterations_table(self._rows[-max(1, screen.height - 4) :], screen.width)
            screen.draw(lambda: Group(table, Text(self._status, no_wrap=True)))


@command(
    "Compare PV, Cut and All nodes with the minimal tree.",
    "graphsearch lab nodetypes startpos --store first.graph",
    "graphsearch lab nodetypes startpos --store first.graph --rules kannan --json",
)
def nodetypes(
    *,
    position: Annotated[
        str,
        argument(
            "POSITION",
            "Where to start: startpos, chess960:N, a FEN in quotes, or a PGN file (its last position).",
        ),
    ],
    store: StoreOption,
    line: LineOptions,
    rules: Annotated[
        str, option("--rules RULES", "Whose expected types the table shows: garms or kannan.")
    ] = "garms",
    nodes: Annotated[
        int | None,
        option("--nodes N", "Read at most N stored positions; 5,000,000 by default.", min=1),
    ] = None,
    json: Json = False,
) -> None:
    """Count the PV, Cut and All nodes of stored searches; compare them with the minimal tree.

    The stored positions below POSITION get their types from the bounds of their entries (exact: PV, lower:
    Cut, upper: All). The table compares these with the types expected by the published rules of Onno
    Garms and of Pradu Kannan, and by the search itself. The shortest line to a position decides its expected
    type; among equal lines PV comes before Cut, and Cut before All. The start is expected to have the type of
    its own bound, or PV without one. Exit code 1 if the file is damaged.

    JSON: `agreement` has the matrix of expected and actual types, the share that agrees and Cohen's kappa;
    `plies` has the counts and the formulas.
    """
    chosen = _rules(rules)
    found = _classify(store, line.board_after(position), nodes)
    _show(found, chosen, json=json)
    if found.problems:
        say(f"graphsearch: {store} is damaged; only its readable part was counted")
        raise typer.Exit(FAILED)


def _rules(name: str) -> Rules:
    from graphsearch.solvers.nodetypes import Rules

    try:
        return Rules(name)
    except ValueError:
        names = " or ".join(rules.value for rules in Rules)
        raise typer.BadParameter(f"must be {names}, not {name}", param_hint="--rules") from None


def _classify(store: Path, board: chess.Board, max_nodes: int | None) -> Classification:
    from graphsearch.solvers.nodetypes import MAX_NODES, classify_file

    say_if_unfinished(store)
    with progress_bar("Walking") as advance:

        def show(found: int, entries: int, ply: int) -> None:
            if advance:
                advance(found, max(found, entries), f"Ply {ply}")

        return classify_file(
            store,
            board,
            max_nodes=max_nodes or MAX_NODES,
            on_progress=show,
            on_problem=lambda problem: say(f"damaged: {problem}"),
        )


def _show(found: Classification, rules: Rules, *, json: bool) -> None:
    if found.ignored:
        say(f"note: {count(found.ignored, 'entry', 'entries')} of another evaluation ignored")
    if not found.complete:
        say(f"note: the limit of {count(found.nodes, 'position')} was reached; raise it with --nodes")
    print_answer(found, _lines(found, rules), json=json)


NAMES = {"pv": "PV", "cut": "Cut", "all": "All"}
WHOSE = {"garms": "Garms", "kannan": "Kannan", "search": "the search"}
LARGE = 10**15  # counts of at least this are written in powers of ten
MUCH = 10**7  # products of mean values of at least this, too
LITTLE = 0.001  # smaller quotients are written as "less than"


def _lines(found: Classification, rules: Rules) -> Iterator[Part]:
    yield found.position
    entries, deep = count(found.entries, "entry", "entries"), count(len(found.plies) - 1, "ply", "plies")
    yield (
        f"{count(found.nodes, 'stored position')}, {found.reached:,} of {entries}, {deep} deep,"
        f" {found.branching:.1f} moves a position; {found.proven:,} proven"
    )
    if found.start != "pv":
        name = NAMES[found.start]
        yield (
            f"The start is {name} by its bound: that is expected of it, and the minimal tree is the one of"
            f" {'an' if name == 'All' else 'a'} {name} node."
        )
    yield _table(found)
    yield ""
    yield from _agreements(found.agreement, rules)
    yield ""
    yield from _facts(found)


def _table(found: Classification) -> Cells:
    unknown = found.actual["unknown"] > 0
    rows = []
    for ply in found.plies:
        formula = ply.measured
        row = {
            "Ply": f"{ply.ply}",
            "Moves": "" if ply.moves is None else f"{ply.moves:.1f}",
            **{NAMES[kind]: f"{ply.nodes[kind]:,}" for kind in NAMES},
            "No bound": f"{ply.nodes['unknown']:,}" if unknown else "",
            "Leaves": f"{sum(ply.leaves.values()):,}",
            "Minimal Cut": number(formula.cut),
            "Minimal All": number(formula.all),
            "Times": ratio(ply.total, formula.total),
        }
        rows.append(row)
    return table(rows)


def _facts(found: Classification) -> Iterator[str]:
    if found.first_share is None:
        yield "Cut by the first move: unknown, no stored entry records a cut"
    else:
        share = f"{100 * found.first_share:.1f} %"
        yield f"Cut by the first move: {share} of {count(found.cuts, 'Cut node')} (Hyatt: more than 90 %)"
    yield _became(found.became_all, found.became_rightly)
    parts = []
    if found.cut_placed:
        parts.append(f"odd for {found.cut_odd:,} of {count(found.cut_placed, 'Cut node')}")
    if found.all_placed:
        parts.append(f"even for {found.all_even:,} of {count(found.all_placed, 'All node')}")
    if parts:
        yield f"Distance from the PV: {', '.join(parts)}"


def _became(nodes: int, rightly: int) -> str:
    """Returns a line on the Cut nodes that became All by Kannan's rules, and those really found All."""
    if not nodes:
        return "Kannan: no Cut node became All"
    was = "was" if rightly == 1 else "were"
    became = f"{count(nodes, 'Cut node')} became All when the candidates failed"
    return f"Kannan: {became}, {rightly:,} {was} found All"


def _agreements(agreements: Mapping[str, Agreement], rules: Rules) -> Iterator[Part]:
    """Yields the matrix of the chosen rules, and the figures of all rules."""
    expected = f"Expected by {WHOSE[rules.value]}"
    yield table(
        [
            {expected: NAMES[kind]}
            | {f"found {NAMES[other]}": f"{n:,}" for other, n in zip(NAMES, row, strict=True)}
            for kind, row in zip(NAMES, agreements[rules.value].matrix, strict=True)
        ],
        {expected: LEFT},
    )
    for name, agreement in agreements.items():
        yield f"Expected by {WHOSE[name]}: {_agreement(agreement)}"


def _agreement(agreement: Agreement) -> str:
    if agreement.share is None:
        return "no position to compare"
    kappa = "" if agreement.kappa is None else f", kappa {agreement.kappa:.3f}"
    return f"{100 * agreement.share:.1f} % of {count(agreement.nodes, 'node')} agree{kappa}"


def number(value: float) -> str:
    """Returns a count, exact if it is an integer of moderate size.

    >>> number(5119999), number(39.4), number(40**12), number(49635491602486.3)
    ('5,119,999', '39.4', '1.7e+19', '5.0e+13')
    """
    if value == math.inf:
        return "infinite"
    if value >= (LARGE if isinstance(value, int) else MUCH):
        return f"{float(value):.1e}" if math.log10(value) < 300 else f"10^{round(math.log10(value))}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def ratio(part: float, whole: float) -> str:
    """Returns a quotient in two or three digits, empty if there is none.

    >>> ratio(3, 2), ratio(1, 250), ratio(1, 10**12), ratio(1, 0)
    ('1.50', '0.004', '<0.001', '')
    """
    if not whole:
        return ""
    found = part / whole
    return f"{found:,.2f}" if found >= 0.1 else f"{found:.3f}" if found >= LITTLE else f"<{LITTLE}"
