"""`graphsearch mate`: the shortest mate in a position, or the moves in which none exists."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphsearch.solvers.mate.limits import MOST_MOVES

from .commands import command
from .live import Screen, clock, progress_display
from .options import Json, PositionOptions
from .output import print_json, say
from .render import count, rate
from .signals import StopSignals

if TYPE_CHECKING:
    import chess
    from rich.console import RenderableType

    from graphsearch.solvers.mate.check import MateCheck
    from graphsearch.solvers.mate.limits import MateLimits
    from graphsearch.solvers.mate.session import MateProgress, MateResult, MateSearch
    from graphsearch.store.record.transposition import EntryTable

TABLE_BYTES = 256 << 20  # of the file's entries in memory
STOPPING = "Stopping: finding the proven line...\n"
WHY = {
    "visits": "the visit limit was reached",
    "time": "the time limit was reached",
    "stop": "the search was stopped",
    "excluded": "that was the limit",
    "hopeless": "neither side can mate with the pieces on the board",
    "finished": "the game is over (stalemate, dead position or 50-move rule)",
}

Store = Annotated[
    Path | None,
    typer.Option(
        "--store",
        metavar="FILE",
        help="A graph file whose proofs are used and to which new proofs are saved; created if missing.",
    ),
]
Visits = Annotated[
    int | None, typer.Option("--visits", metavar="N", help="Stop after expanding N nodes.", min=1)
]
Seconds = Annotated[
    float | None,
    typer.Option(
        "--seconds",
        "--time",
        metavar="S",
        help="Stop after S seconds; 60 by default, or no limit with --visits.",
    ),
]
Within = Annotated[
    int | None,
    typer.Option(
        "--within", metavar="M", min=1, max=MOST_MOVES, help="Look only for mates in up to M moves."
    ),
]
Check = Annotated[
    bool,
    typer.Option(
        "--check", help="Play the mate out against every defence, using only the rules of python-chess."
    ),
]


@command(
    "Find the shortest mate in a position.",
    'graphsearch mate "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"',
    'graphsearch mate "kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1" --check --json',
)
def mate(
    position: PositionOptions,
    within: Within = None,
    visits: Visits = None,
    seconds: Seconds = None,
    store: Store = None,
    check: Check = False,
    json: Json = False,
) -> None:
    """Find the shortest mate in a position by proof-number search, for either side.

    A mate is proven against every defence. Where the output says so, it is also proven that no shorter mate
    exists. Ctrl-C ends the search and prints what is known.

    JSON: `mate` is in moves: negative if the side to move is mated, 0 for checkmate, null if none is proven.
    `pv` is the whole line, with best attack and longest defence; `shortest` tells whether no shorter mate
    exists; `excluded` is the number of moves within which neither side can force mate.
    """
    board = position.board()
    limits = _limits(visits, seconds, within)
    with StopSignals(STOPPING) as signals:
        result, checked = _find(board, limits, store, signals, check=check)
    if json:
        print_json(result.as_dict() | ({} if checked is None else {"checked": checked.as_dict()}))
    else:
        print(*_answer(board, result, checked), sep="\n")
    if store is None and result.mate is not None and not json:
        say("Nothing was saved; use --store FILE to keep the proofs for later searches.")
    if signals.exit_code:
        raise typer.Exit(signals.exit_code)


def _limits(visits: int | None, seconds: float | None, within: int | None) -> MateLimits:
    from graphsearch.solvers.mate.limits import DEFAULT_SECONDS, MateLimits

    if seconds is None and visits is None:
        seconds = DEFAULT_SECONDS
    return MateLimits(visits=visits, seconds=seconds, moves=within)


def _find(
    board: chess.Board, limits: MateLimits, store: Path | None, signals: StopSignals, *, check: bool
) -> tuple[MateResult, MateCheck | None]:
    """Returns the result, saved, and the check if one is wanted."""
    from graphsearch.graph.graph import Graph
    from graphsearch.solvers.mate.session import note_proof

    if store is None:
        return _search(board, limits, None, signals, check=check)
    with Graph.open_unevaluated(store) as graph:
        entries = graph.use_entries(TABLE_BYTES)
        note_proof(graph, board)
        return _search(board, limits, entries, signals, check=check)


def _search(
    board: chess.Board,
    limits: MateLimits,
    entries: EntryTable | None,
    signals: StopSignals,
    *,
    check: bool,
) -> tuple[MateResult, MateCheck | None]:
    from graphsearch.solvers.mate.session import MateSearch

    search = MateSearch(board, limits, entries=entries)
    search.warm_up()
    signals.arm()
    with _display(signals) as show:
        result = search.run(signals.stop, show)
    return result, _checked(board, result, search) if check else None


def _checked(board: chess.Board, result: MateResult, search: MateSearch) -> MateCheck | None:
    from graphsearch.solvers.mate.check import check_mate

    return None if result.mate is None else check_mate(board, result.mate, search.attack)


# ---------------------------------------------------------------- output
def _answer(board: chess.Board, result: MateResult, checked: MateCheck | None) -> list[str]:
    """Returns the lines of the result."""
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
    """Returns the result in one line."""
    if result.mate is None:
        why = WHY[result.stop_reason]
        if result.stop_reason == "excluded" and result.excluded >= MOST_MOVES:
            why = "longer mates are not searched for"  # most often the 50-move rule comes first
        within = f" in up to {count(result.excluded, 'move')}" if result.excluded else " is proven"
        hopeless = result.stop_reason in ("hopeless", "finished")
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


def _display(signals: StopSignals) -> AbstractContextManager[Callable[[MateProgress], None]]:
    """Returns the context of a search; it yields the function that the search calls with its progress."""

    def view(now: MateProgress, screen: Screen) -> RenderableType:
        from rich.text import Text

        return Text(status_line(now))

    return progress_display(signals, status_line, view, least_gap_s=0.2)


def status_line(progress: MateProgress) -> str:
    """Returns the progress of a search for a mate, in one line."""
    found = "no mate yet" if progress.mate is None else f"mate in {abs(progress.mate)}"
    parts = (
        clock(progress.seconds),
        f"visits {progress.visits:,}",
        f"visits/s {rate(progress.visits / max(progress.seconds, 1e-9))}",
        f"{found}, none in up to {progress.excluded}",
    )
    return "   ".join(parts)
