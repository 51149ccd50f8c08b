"""`go mate N`: the prover of mates first, the search of the graph where it finds none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import chess

from ..mate.limits import MOST_MOVES, MateLimits

if TYPE_CHECKING:
    from ..mate.session import MateProgress, MateResult
    from ..record.transposition import EntryTable

PROVER_BYTES = 1 << 26  # of the prover's table
PROVER_SHARE = 0.5  # of the time for a move
INFO_SECONDS = 1.0
FALLBACK_SECONDS = 1.0  # that the search of the graph has, once no mate in so many moves is proven to exist


def search_mate(
    board: chess.Board,
    moves: int,
    *,
    seconds: float | None,
    entries: EntryTable | None,
    stop: threading.Event,
    tell: Callable[[str], None],
) -> MateResult:
    """Returns what the prover finds out about a mate in at most `moves` moves; `tell` shows how far it is."""
    from ..mate.session import find_mate

    told = [0.0]

    def show(progress: MateProgress) -> None:
        if progress.seconds - told[0] >= INFO_SECONDS:
            told[0] = progress.seconds
            tell(progress_line(progress))

    limits = MateLimits(seconds=seconds and PROVER_SHARE * seconds, moves=min(moves, MOST_MOVES))
    return find_mate(board, limits, entries=entries, stop=stop, on_progress=show, table_bytes=PROVER_BYTES)


def progress_line(progress: MateProgress) -> str:
    """Returns how far the prover is as an `info` line."""
    return f"info time {round(1000 * progress.seconds)} nodes {progress.visits} nps {_speed(progress)}"


def mate_line(result: MateResult, began: float, pv: Sequence[str]) -> str:
    """Returns the `info` line of a mate that is proven; `pv`: its line as the GUI reads it."""
    plies = len(pv)
    return (
        f"info depth {plies} seldepth {plies} time {round(1000 * (time.monotonic() - began))}"
        f" nodes {result.visits} score mate {result.mate} nps {_speed(result)} multipv 1"
        f" pv {' '.join(pv)}"
    )


def none_line(result: MateResult) -> str:
    """Returns what to say where no mate was found."""
    within = f" in up to {result.excluded}" if result.excluded else " is proven"
    return f"no mate{within}: the moves are searched as without `mate`"


def _speed(found: MateProgress | MateResult) -> int:
    return round(found.visits / max(found.seconds, 1e-3))
