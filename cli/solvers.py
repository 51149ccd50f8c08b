"""`graphsearch mate`, `alphabeta` and `lab nodetypes`: proofs of mates, and searches to a fixed depth."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import chess
import typer

from graphsearch.base.errors import InvalidPositionError, UnsavedError, UnusableFileError
from graphsearch.base.limits import byte_count, open_file, text_lines
from graphsearch.exchange.epd_import import is_solved, read_epd
from graphsearch.graph.graph import Graph
from graphsearch.position.board import terminal_kind
from graphsearch.position.notation import holds_positions, read_fen_lines, sans_of
from graphsearch.search.job import Control
from graphsearch.search.params import Limits
from graphsearch.solvers.alphabeta.search import (
    AlphaBetaProgress,
    AlphaBetaResult,
    DepthResult,
    search_to_depth,
    warm_up,
)
from graphsearch.solvers.mate import search as mates
from graphsearch.solvers.mate.search import MateCheck, MateProgress, MateResult, MateSearch, check_mate
from graphsearch.solvers.nodetypes import Agreement, Classification, classify_file
from graphsearch.store.entries import facts
from graphsearch.store.file import file_bytes
from graphsearch.store.record import BY_CLOCK, TERMINALS
from graphsearch.store.store import Store
from graphsearch.store.transposition_kernel import MOST_DEPTH

from . import output as out
from .options import Count, PositionOptions, Ram, StoreOption, StoreToSave, Time
from .progress import StopSignals, progress_bar, progress_display
from .render import bounded_score, line_text, numbered
from .tables import RIGHT, VIEW, Part, Table, clock, count, is_json, rate, size

TABLE_BYTES = 256 << 20  # of the file's entries in memory, and of those of a search
WHY = {
    "visits": "the visit limit was reached",
    "time": "the time limit was reached",
    "stop": "the search was stopped",
    "excluded": "that was the limit",
    "hopeless": "neither side can mate with the pieces on the board",
    "finished": "the game is over (stalemate, dead position or 75-move rule)",
    "claimable": "the side to move may claim a draw (50-move rule)",
}


# ---------------------------------------------------------------- mate
def mate(
    position: PositionOptions,
    within: Count | None = None,
    visits: Count | None = None,
    time: Time = None,
    store: StoreToSave = None,
    check: bool = False,
) -> int:
    """Find the shortest mate in a position by proof-number search, for either side.

    Of a file with a position on each line (EPD), all are searched in turn, each within the limits; --game K
    takes one of them. Where its lines name a result (`dm 3`, `bm #3`, `bm Qg7#`, `am`), the last line counts
    the solved ones; a shorter mate solves, too. A mate is proven against every defence, and where the output
    says so, no shorter one exists. Without --time and --visits, a search ends after 60 seconds.

    JSON: one object for each position, of a file with `line` and `solved`, which is null where the line names
    no result. `mate` is in moves: negative if the side to move is mated, 0 for checkmate, null if none is
    proven. `pv` is the whole line, with best attack and longest defence; `shortest` tells whether no shorter
    mate exists; `excluded` is the number of moves within which neither side can force mate.

    \b
    Examples:
      graphsearch mate "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"
      graphsearch mate "kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1" --check --json
      graphsearch mate positions.epd --time 10

    Args:
      within: --within M: Look only for mates in up to M moves.
      visits: --visits N: Stop after expanding N nodes.
      check: --check: Play the mate out against every defence, using only the rules of python-chess.
    """
    limits = mates.DEFAULT_LIMITS
    if time is not None or visits is not None:
        limits = Limits(visits=visits, seconds=time)
    tried, found, bad = 0, 0, 0
    solved: list[bool] = []
    with StopSignals("Stopping: finding the proven line...\n") as signals:
        for line, text, board in _problems(position):
            if signals.stop.is_set():
                break
            if isinstance(board, InvalidPositionError):
                bad += 1
                out.fail(f"line {line}: {board}")
                continue
            with ExitStack() as stack:
                entries, checked = None, None
                if store is not None:
                    graph = stack.enter_context(Graph.open_unevaluated(store))
                    entries = graph.use_entries(TABLE_BYTES)
                    mates.note_proof(graph, board)
                search = MateSearch(board, entries=entries)
                search.warm_up()
                signals.arm()
                with progress_display(signals, mate_line) as show:
                    control = Control(on_progress=show, interval=0.0, stop=signals.stop)
                    result = search.run(limits, control, moves=within)
                if check and result.mate is not None:
                    checked = check_mate(board, result.mate, search.attack)
            tried += 1
            found += bool(result.pv)
            more: dict[str, object] = {}
            if line:
                as_given = _judged(line, text, result)
                solved += [] if as_given is None else [as_given]
                more = {"line": line, "solved": as_given}
            if is_json():
                out.print_json(result.as_dict() | more | ({"checked": checked.as_dict()} if checked else {}))
                continue
            if line:
                print(f"line {line}: {board.fen()}")
            print(*_mate_answer(board, result, checked), sep="\n")
    if not (tried or bad or signals.exit_code):
        raise UnusableFileError(f"{position.position} has no positions")
    if solved:
        out.say(f"solved: {sum(solved):,} of {len(solved):,}")
    if store is None and found and not is_json():
        out.say("Nothing was saved; use --store FILE to keep the proofs for later searches.")
    return signals.exit_code or (out.FAILED if bad else 0)


def _problems(position: PositionOptions) -> Iterator[tuple[int, str, chess.Board | InvalidPositionError]]:
    """Yields the positions to solve: those of a file, each with its line, or the named one with line 0."""
    if position.given or not holds_positions(position.position):
        yield 0, "", position.board()
        return
    with open_file(position.position, piped=True) as file:
        for number, text in enumerate(text_lines(file, position.position), 1):
            for _, board in read_fen_lines([text]):
                yield number, text.strip(), board


def _judged(number: int, text: str, result: MateResult) -> bool | None:
    """Returns whether a result solves a line, None if the line names no result; reports unread operations."""
    *_, operations, faults = read_epd(text)
    for fault in faults:
        out.fail(f"line {number}: {fault}")
    return is_solved(operations, result.mate, result.pv[0].uci() if result.pv else None)


def _mate_answer(board: chess.Board, result: MateResult, checked: MateCheck | None) -> Iterator[str]:
    yield _verdict(board, result)
    if result.pv:
        yield numbered(board.fen(), sans_of(board, result.pv))
    if result.stop_reason != "finished":
        yield (
            f"visits {result.visits:,}   proven positions {result.proofs:,}"
            f"   visits/s {rate(result.visits / max(result.seconds, 1e-9))}   {result.seconds:.1f} s"
        )
    if checked is not None:
        yield (
            f"checked: every defence was played out, {count(checked.positions, 'position')};"
            f" the longest lasts {count(checked.plies, 'ply', 'plies')}"
        )


def _verdict(board: chess.Board, result: MateResult) -> str:
    why = WHY.get(result.stop_reason, result.stop_reason)
    if result.mate is None:
        if result.stop_reason == "excluded" and result.excluded >= mates.MOST_MOVES:
            why = "longer mates are not searched for"  # most often the 50-move rule comes first
        within = f" in up to {count(result.excluded, 'move')}" if result.excluded else " is proven"
        hopeless = result.stop_reason in ("hopeless", "finished", "claimable")
        return f"no mate: {why}" if hopeless else f"no mate{within}: {why}"
    if result.mate == 0:
        return "checkmate"
    text = f"{'White' if board.turn == (result.mate > 0) else 'Black'} mates in {abs(result.mate)}"
    if result.shortest:
        return f"{text}; there is no shorter mate"
    shorter = f"none in up to {result.excluded}" if result.excluded else "a shorter one is possible"
    return f"{text} or less; {shorter}: {why}"


def mate_line(progress: MateProgress) -> str:
    """Returns the progress of a search for a mate, in one line."""
    found = "no mate yet" if progress.mate is None else f"mate in {abs(progress.mate)}"
    return (
        f"{clock(progress.seconds)}   visits {progress.visits:,}"
        f"   visits/s {rate(progress.visits / max(progress.seconds, 1e-9))}"
        f"   {found}, none in up to {progress.excluded}"
    )


# ---------------------------------------------------------------- alphabeta
LEFT_OUT_SHARE = 0.01  # of a file's entries; above it the table is too small, below it buckets are full
FRAME_LINES = 4  # lines of the live display that are not iterations


def alphabeta(
    *,
    depth: int | None = None,
    position: PositionOptions,
    store: StoreToSave = None,
    time: Time = None,
    nodes: Count | None = None,
    ram: Ram = None,
) -> int:
    """Search a position to a fixed depth by alpha-beta, with the built-in evaluation.

    With --store, the search starts from the transposition entries in the file, orders moves by the visits and
    priors of the stored positions, and saves its own entries, whatever evaluator the file is bound to. It
    stops at the first limit it reaches, or at Ctrl-C.

    JSON: `value` is in thousandths of a pawn for the side to move; 100000 - n is a mate in n plies. One of
    `cp` and `mate` (in moves, negative if the side to move is mated) is null. `bound` is exact, lower (at
    least the value) or upper (at most). `known` is what the file knew.

    \b
    Examples:
      graphsearch alphabeta startpos --depth 8 --store first.graph
      graphsearch alphabeta startpos --moves "e4 e5" --depth 7 --json
      graphsearch alphabeta first.graph --time 10

    Args:
      depth: --depth D: Search D plies, 1 to 126; without it, search until another limit.
      nodes: --nodes N: Stop after N nodes, quiescence included.
    """
    if (depth, time, nodes) == (None, None, None):
        raise typer.BadParameter("give a limit: --depth, --time or --nodes")
    limits = Limits(visits=nodes, seconds=time)
    table_bytes = TABLE_BYTES if ram is None else byte_count(ram)
    if not 1 << 20 <= table_bytes <= 1 << 40:
        raise typer.BadParameter(f"--ram must be 1MB to 1TB, not {ram}")
    board = position.board()
    out.say_clock(board)
    rows: list[dict[str, str]] = []

    def view(now: AlphaBetaProgress, most_lines: int) -> list[Part]:
        return [_iterations(rows[-max(1, most_lines - FRAME_LINES) :]), _iteration_line(now)]

    with StopSignals("Stopping: saving the results...\n") as signals:
        try:
            with Graph.open_unevaluated(store) as graph:
                warm_up()  # before the clock starts; Ctrl-C still ends it at once
                graph.use_entries(table_bytes)
                signals.arm()
                with progress_display(signals, _iteration_line, view) as show:
                    result = search_to_depth(
                        graph,
                        board,
                        MOST_DEPTH if depth is None else depth,
                        limits,
                        Control(on_progress=show, stop=signals.stop),
                        table_bytes=table_bytes,
                        on_depth=lambda found: rows.append(_iteration_row(board, found)),
                    )
        except UnsavedError as error:  # the result is still worth printing
            if error.result is not None:
                out.print_answer(error.result, _result_parts(error.result))
            raise
        out.print_answer(result, _result_parts(result))
        for line in _epilogue(store, result):
            out.say(line)
        return signals.exit_code


def _epilogue(store: Path | None, result: AlphaBetaResult) -> Iterator[str]:
    """Yields the closing lines: the saved results, and problems of the file."""
    report = result.report
    yield from (f"Damaged, ignored: {problem}" for problem in report.problems[: out.MOST_DAMAGED])
    if report.ignored:
        yield f"Not used: {_entries(report.ignored)} of another evaluation."
    if report.left_out > LEFT_OUT_SHARE * (report.loaded + report.left_out):
        yield (
            f"{_entries(report.left_out)} of the file did not fit into memory; the deepest were loaded."
            " A larger --ram holds more."
        )
    if result.stop_reason == "reader":
        yield out.ENDED_BY_READER
    if store is None:
        yield out.NOT_SAVED
        return
    with Store.open(store, read_only=True) as opened:
        held = facts(opened)
    yield f"Saved: {store} holds {_entries(held.entries)} ({size(file_bytes(store))})."


def _entries(number: int) -> str:
    return count(number, "entry", "entries")


def per_cent(part: int, whole: int) -> str:
    """Returns a share with one decimal, empty if the whole is zero.

    >>> per_cent(1, 3), per_cent(0, 0)
    ('33.3%', '')
    """
    return f"{100 * part / whole:.1f}%" if whole else ""


def _iterations(rows: list[dict[str, str]]) -> Table:
    return Table(rows, spare=("Cut-offs", "Hits", "Nodes/s", "First", "Time", "Nodes"))


def _iteration_row(board: chess.Board, found: DepthResult) -> dict[str, str]:
    counts, known = found.counts, found.move or found.complete
    return {
        "Depth": f"{found.depth}" if found.complete else f"({found.depth})",
        "Score": bounded_score(found.value if known else None, found.bound, white=board.turn),
        "Nodes": f"{counts.nodes:,}",
        "Nodes/s": rate(counts.nodes / found.seconds) if found.seconds else "",
        "Hits": f"{counts.hits:,}",
        "Cut-offs": f"{counts.cutoffs:,}",
        "First": per_cent(counts.first_cutoffs, counts.cutoffs),
        "Time": f"{found.seconds:.2f} s",
        "Line": line_text(board, found.pv),
    }


def _iteration_line(progress: AlphaBetaProgress) -> str:
    counts = progress.counts
    return (
        f"{clock(progress.seconds)}   depth {progress.depth}   nodes {counts.nodes:,}"
        f"   nodes/s {rate(counts.nodes / progress.seconds) if progress.seconds else '-'}"
        f"   hits {counts.hits:,}   first move {per_cent(counts.first_cutoffs, counts.cutoffs) or '-'}"
        f"   entries {progress.entries:,}"
    )


def _result_parts(result: AlphaBetaResult) -> Iterator[Part]:
    """Yields all iterations of a search, or the known result if nothing was searched, and a summary."""
    board, counts = result.board, result.counts
    worth = bounded_score(result.value, result.bound, white=board.turn)
    if result.stop_reason == "finished":
        side = "White" if board.turn else "Black"
        yield f"{side} to move: {TERMINALS.get(terminal_kind(board), BY_CLOCK)}"
    else:
        rows = [_iteration_row(board, found) for found in result.iterations]
        if result.stop_reason == "known":
            rows.append({"Depth": str(result.depth), "Score": worth, "Line": line_text(board, result.pv)})
        yield _iterations(rows)
    best = "" if result.move is None else f"bestmove {result.move.uci()}   "
    value = f"score {worth} {VIEW}   " if worth else ""
    yield f"{best}{value}depth {result.depth}   nodes {counts.nodes:,}   {result.seconds:.1f} s"
    yield from _reuse(result)
    if counts.nodes:
        ordered = f"   ordered by the graph {counts.ordered:,}" if counts.ordered else ""
        yield (
            f"hits {counts.hits:,} (from the file {counts.stored_hits:,};"
            f" ended a node {counts.hit_cutoffs:,})"
            f"   cut-offs {counts.cutoffs:,}"
            f"   first move {per_cent(counts.first_cutoffs, counts.cutoffs) or '-'}"
            f"   re-searches {counts.researches:,}{ordered}"
        )


def _reuse(result: AlphaBetaResult) -> Iterator[str]:
    """Yields lines on the work that the file saved."""
    nodes = result.known.nodes
    before = f" Earlier searches took {count(nodes, 'node')} to get there." if nodes else ""
    if result.stop_reason == "known":
        yield f"The file knew the answer; nothing was searched.{before}"
    elif result.known.depth:
        yield f"The file knew depth {result.known.depth}; the search started with the next one.{before}"
    if result.stop_reason == "mate":
        yield "This mate is the shortest; a deeper search finds the same."


# ---------------------------------------------------------------- node types
NAMES = {"pv": "PV", "cut": "Cut", "all": "All"}
WHOSE = {"garms": "Garms", "kannan": "Kannan", "search": "the search"}


def nodetypes(store: StoreOption, position: PositionOptions) -> int:
    """Count the PV, Cut and All nodes of stored searches; compare them with the minimal tree.

    The stored positions below POSITION get their types from the bounds of their entries (exact: PV, lower:
    Cut, upper: All). These are compared with the types expected by the published rules of Onno
    Garms and of Pradu Kannan, and by the search itself. The shortest line to a position decides its expected
    type; among equal lines PV comes before Cut, and Cut before All. The start is expected to have the type of
    its own bound, or PV without one. Exit code 1 if the file is damaged.

    JSON: `agreement` has the matrix of expected and actual types, the share that agrees and Cohen's kappa;
    `plies` has the counts and the minimal tree.

    \b
    Examples:
      graphsearch lab nodetypes startpos --store first.graph
      graphsearch lab nodetypes "1. e4" --store first.graph --json
    """
    board = position.board()
    with progress_bar("Walking") as advance:
        found = classify_file(
            store,
            board,
            on_progress=lambda found, entries, ply: advance(found, max(found, entries), f"Ply {ply}"),
            on_problem=lambda problem: out.say(f"damaged: {problem}"),
        )
    if found.ignored:
        out.say(f"note: {_entries(found.ignored)} of another evaluation ignored")
    out.print_answer(found, _types(found))
    return out.fail(f"{store} is damaged; only its readable part was counted") if found.problems else 0


def _types(found: Classification) -> Iterator[Part]:
    yield found.position
    yield (
        f"{found.nodes:,} of {_entries(found.entries)},"
        f" {count(len(found.plies) - 1, 'ply', 'plies')} deep,"
        f" {found.branching:.1f} moves a position; {found.proven:,} proven"
    )
    if found.start != "pv":
        name = NAMES[found.start]
        yield (
            f"The start is {name} by its bound: that is expected of it, and the minimal tree is the one of"
            f" {'an' if name == 'All' else 'a'} {name} node."
        )
    rows = [
        {
            "Ply": f"{ply.ply}",
            "Moves": "" if ply.moves is None else f"{ply.moves:.1f}",
            **{NAMES[kind]: f"{ply.nodes[kind]:,}" for kind in NAMES},
            "No bound": f"{ply.nodes['unknown']:,}" if found.actual["unknown"] else "",
            "Leaves": f"{sum(ply.leaves.values()):,}",
            "Minimal Cut": f"{ply.minimal.cut:,.1f}",
            "Minimal All": f"{ply.minimal.all:,.1f}",
            "Times": f"{ply.total / ply.minimal.total:.2f}" if ply.minimal.total else "",
        }
        for ply in found.plies
    ]
    yield Table(rows, {"PV": RIGHT})
    yield ""
    for name, agreement in found.agreement.items():
        yield f"Expected by {WHOSE[name]}: {_agreement(agreement)}"


def _agreement(agreement: Agreement) -> str:
    if agreement.share is None:
        return "no position to compare"
    kappa = "" if agreement.kappa is None else f", kappa {agreement.kappa:.3f}"
    return f"{100 * agreement.share:.1f} % of {count(agreement.nodes, 'node')} agree{kappa}"
