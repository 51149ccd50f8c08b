"""What entries and earlier runs already say of a root: where a search begins, or that it need not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import chess

from ..entries import PROOF, Entry, EntryTable
from ..kernels.alphabeta_layout import QUIET_PLIES
from ..position import FREE_CLOCK
from ..search import history_keys
from ..store.entry_runs import Outcome
from .limits import DepthLimits
from .outcome import Known
from .scores import LEAST_MATE, MATE

CLOCK_DRAW = 100


@dataclass(frozen=True, slots=True)
class Answer:
    """A value of the root that needs no search.

    Attributes:
      depth: of its entry; the one that was asked for, if the entry is a proof.
      value, bound, pv: as `results.DepthResult` has them.
    """

    depth: int
    value: int
    bound: str
    pv: tuple[chess.Move, ...]


def usable_entry(table: EntryTable, board: chess.Board) -> Entry | None:
    """Returns the root's entry if its bound holds in this very game, else None.

    It does not if a position of the game could return, or the clock could run out.
    """
    entry = table.get(board)
    if entry is None or not entry.bound or len(history_keys(board)):
        return None
    clock = board.halfmove_clock
    if entry.mate_plies is not None:
        return entry if clock + abs(entry.mate_plies) <= CLOCK_DRAW else None
    if entry.depth != PROOF and clock <= FREE_CLOCK and clock + entry.depth + QUIET_PLIES >= CLOCK_DRAW:
        return None
    return entry


def is_shortest_mate(value: int, bound: str, depth: int) -> bool:
    """Returns whether a value is a mate that no search of another depth changes: the depth covers it."""
    plies = MATE - abs(value)
    return abs(value) >= LEAST_MATE and bound == "exact" and (plies <= depth or depth == PROOF)


def answer_of(
    entry: Entry | None,
    limits: DepthLimits,
    table: EntryTable,
    board: chess.Board,
    rows: Mapping[int, Outcome],
) -> Answer | None:
    """Returns what the root's entry answers to a request, None if it does not.

    Args:
      entry: that of the root. rows: earlier iterations by depth, whose lines are whole.
    """
    if entry is None:
        return None
    alpha, beta = limits.last_window
    fails = (entry.bound != "upper" and entry.value >= beta) or (
        entry.bound != "lower" and entry.value <= alpha
    )
    proven = is_shortest_mate(entry.value, entry.bound, entry.depth) or (
        fails and entry.mate_plies is not None
    )
    if not (fails or entry.bound == "exact") or not (proven or entry.depth >= limits.depth):
        return None
    bound = entry.bound if not fails else ("lower" if entry.value >= beta else "upper")
    depth = limits.depth if entry.depth == PROOF or proven else entry.depth
    return Answer(depth, entry.value, bound, known_line(entry, table, board, rows))


def known_line(
    entry: Entry, table: EntryTable, board: chess.Board, rows: Mapping[int, Outcome]
) -> tuple[chess.Move, ...]:
    """Returns the principal variation of a stored entry: that of its run, else by the entries below."""
    row = rows.get(entry.depth)
    if entry.depth == PROOF:
        row = next((row for row in rows.values() if row.value == entry.value), None)
    if row is not None and row.value == entry.value:
        line = _legal(board, row.pv)
        if line and line[0] == entry.move:
            return line
    game = board.copy(stack=False)
    found: list[chess.Move] = []
    step: Entry | None = entry
    while step is not None and step.move is not None and step.move in game.legal_moves and len(found) < 100:
        found.append(step.move)
        game.push(step.move)
        step = None if game.is_repetition(2) else table.get(game)
        step = step if step is not None and step.bound == "exact" else None
    return tuple(found)


def _legal(board: chess.Board, text: str) -> tuple[chess.Move, ...]:
    """Returns the moves of a stored line as far as they are legal."""
    game, line = board.copy(stack=False), []
    for word in text.split():
        try:
            line.append(game.push_uci(word))
        except ValueError:
            break
    return tuple(line)


def known_of(entry: Entry | None, rows: Mapping[int, Outcome]) -> Known:
    """Returns up to which depth the root is known exactly, and what its iterations had taken."""
    if entry is None or entry.bound != "exact" or entry.depth == PROOF:
        return Known()
    done = [row for depth, row in rows.items() if depth <= entry.depth]
    return Known(entry.depth, sum(row.nodes for row in done), sum(row.seconds for row in done))
