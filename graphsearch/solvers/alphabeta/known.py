"""Facts about a root from entries and earlier runs: its line, an answer, and the first depth to search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import chess

from ...position.board import CLOCK_DRAW, FREE_CLOCK, history_keys
from ...position.lines import legal_part
from ...position.scores import LEAST_MATE, MATE
from ...store.record.transposition import Entry, EntryTable
from ...store.record.transposition_layout import PROOF
from ...store.transpositions.runs import RunOutcome
from .frame_layout import QUIET_PLIES
from .results import DepthLimits, KnownDepth

MOST_LINE = 200  # plies


def continued(table: EntryTable, board: chess.Board, most: int) -> list[chess.Move]:
    """Returns the line that entries give from a position, at most `most` moves.

    It has the best moves of exact values; in a proven mate the winner's moves and the longest defence.
    """
    game = board.copy(stack=False)
    line: list[chess.Move] = []
    while len(line) < most:
        move = _next_move(table, game)
        if move is None or move not in game.legal_moves:  # of another position with the same key
            break
        line.append(move)
        game.push(move)
        if game.is_repetition(2):
            break
    return line


def _next_move(table: EntryTable, board: chess.Board) -> chess.Move | None:
    entry = table.get(board)
    if entry is None:
        return None
    plies = entry.mate_plies
    if plies is None:
        return entry.move if entry.bound == "exact" else None
    return entry.move if plies > 0 else _longest_defence(table, board) or entry.move


def _longest_defence(table: EntryTable, board: chess.Board) -> chess.Move | None:
    """Returns the longest defence by the entries; None if they do not cover every move."""
    lasts: dict[chess.Move, int] = {}
    for move in list(board.legal_moves):
        board.push(move)
        entry = table.get(board)
        board.pop()
        plies = entry.mate_plies if entry else None
        if plies is None or plies <= 0:
            return None
        lasts[move] = plies
    return max(lasts, key=lambda move: lasts[move], default=None)


@dataclass(frozen=True, slots=True)
class RootFact:
    """A value of the root that is known without a search.

    Attributes:
      depth: of its entry or iteration; the requested one, if it holds at every depth.
      value, bound, pv: as in `results.DepthResult`.
    """

    depth: int
    value: int
    bound: str
    pv: tuple[chess.Move, ...]


def usable_entry(table: EntryTable, board: chess.Board) -> Entry | None:
    """Returns the root's entry if its bound holds in this very game, else None.

    An entry is unusable if a position of the game could repeat, or the clock could run out.
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


def facts_of(
    entry: Entry | None, table: EntryTable, board: chess.Board, rows: Mapping[int, RunOutcome]
) -> list[RootFact]:
    """Returns all known facts about a root, the deepest last; at equal depth runs come after the entry.

    An entry may be weaker than the run that wrote it, because it must hold for every path to the position.

    Args:
      entry: that of the root (`usable_entry`). rows: earlier iterations by depth.
    """
    facts = []
    if entry is not None:
        same = [tuple(legal_part(board, row.pv.split())) for row in rows.values() if row.value == entry.value]
        line = max([*same, tuple(continued(table, board, MOST_LINE))], key=len)
        facts.append(RootFact(entry.depth, entry.value, entry.bound, line))
    facts += [
        RootFact(depth, row.value, row.bound, tuple(legal_part(board, row.pv.split())))
        for depth, row in rows.items()
        if row.value is not None
    ]
    return sorted(facts, key=lambda fact: fact.depth)


def answer_of(facts: Sequence[RootFact], limits: DepthLimits) -> RootFact | None:
    """Returns the deepest fact that answers a request, None if none does."""
    found = [answer for fact in facts if (answer := _answering(fact, limits)) is not None]
    return found[-1] if found else None


def _answering(fact: RootFact, limits: DepthLimits) -> RootFact | None:
    """Returns the fact with its bound for the window, None if it is not deep enough or does not answer."""
    alpha, beta = limits.last_window
    above = fact.bound != "upper" and fact.value >= beta
    below = fact.bound != "lower" and fact.value <= alpha
    proven = is_shortest_mate(fact.value, fact.bound, fact.depth)
    if not (above or below or fact.bound == "exact") or not (proven or fact.depth >= limits.depth):
        return None
    depth = limits.depth if proven or fact.depth == PROOF else fact.depth
    if proven:
        return replace(fact, depth=depth)
    return replace(fact, depth=depth, bound="lower" if above else "upper" if below else "exact")


def known_of(facts: Sequence[RootFact], rows: Mapping[int, RunOutcome]) -> KnownDepth:
    """Returns the depth up to which a root is known exactly, and the cost of its iterations."""
    exact = [fact.depth for fact in facts if fact.bound == "exact" and fact.depth != PROOF]
    if not exact:
        return KnownDepth()
    done = [row for depth, row in rows.items() if depth <= exact[-1]]
    return KnownDepth(exact[-1], sum(row.nodes for row in done), sum(row.seconds for row in done))
