"""`go mate N`: the mate prover first, then the search of the graph if it finds none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import chess

from ..solvers.mate.sides import MOST_MOVES, MateLimits

if TYPE_CHECKING:
    from ..solvers.mate.session import MateProgress, MateResult
    from ..store.record.transposition import EntryTable

PROVER_BYTES = 1 << 26  # of the prover's table
PROVER_SHARE = 0.5  # of the time for a move
INFO_SECONDS = 1.0
FALLBACK_SECONDS = 1.0  # for the search of the graph, once no mate in so many moves is proven to exist


def search_mate(
    board: chess.Board,
    moves: int,
    *,
    seconds: float | None,
    entries: EntryTable | None,
    stop: threading.Event,
    tell: Callable[[str], None],
) -> MateResult:
    """Returns the prover's result for mates in at most `moves` moves; `tell` shows progress."""
    from ..solvers.mate.session import find_mate

    told = [0.0]

    def show(progress: MateProgress) -> None:
        if progress.seconds - told[0] >= INFO_SECONDS:
            told[0] = progress.seconds
            tell(progress_line(progress))

    limits = MateLimits(seconds=seconds and PROVER_SHARE * seconds, moves=min(moves, MOST_MOVES))
    return find_mate(board, limits, entries=entries, stop=stop, on_progress=show, table_bytes=PROVER_BYTES)


def progress_line(progress: MateProgress) -> str:
    """Returns the prover's progress as an `info` line."""
    return f"info time {round(1000 * progress.seconds)} nodes {progress.visits} nps {_speed(progress)}"


def mate_line(result: MateResult, began: float, pv: Sequence[str]) -> str:
    """Returns the `info` line of a proven mate; `pv`: its line in the GUI's notation."""
    plies = len(pv)
    return (
        f"info depth {plies} seldepth {plies} time {round(1000 * (time.monotonic() - began))}"
        f" nodes {result.visits} score mate {result.mate} nps {_speed(result)} multipv 1"
        f" pv {' '.join(pv)}"
    )


def none_line(result: MateResult) -> str:
    """Returns the message for a search without a mate."""
    within = f" in up to {result.excluded}" if result.excluded else " is proven"
    return f"no mate{within}: the moves are searched as without `mate`"


def _speed(found: MateProgress | MateResult) -> int:
    return round(found.visits / max(found.seconds, 1e-3))
