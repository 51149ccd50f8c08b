"""Formulas that judge moves: winning chances, accuracy, marks and phases.

The scale is Lichess's: a Q in [-1, 1] is its winning chances, and 50 + 50 Q its Win%. Lichess takes them
from centipawns; here they come from the search. Sources: lichess.org/page/accuracy; `AccuracyPercent`,
`Advice` and `AccuracyCP` of lichess-org/lila; `Divider` of lichess-org/scalachess.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from statistics import pstdev

import chess

from ...base.answer import Answer
from ...exchange.pgn_writing import MISTAKES

PHASES = OPENING, MIDDLEGAME, ENDGAME = "opening", "middlegame", "endgame"
MIDDLEGAME_PIECES, ENDGAME_PIECES = 10, 6  # most pieces of both sides, without kings and pawns
FEW_AT_HOME = 4  # pieces of a side on its first rank: with fewer the opening is over

ACCURACY_SCALE, ACCURACY_SLOPE, ACCURACY_SHIFT = 103.1668100711649, 0.04354415386753951, 3.166924740191411
LEAST_WEIGHT, MOST_WEIGHT = 0.5, 12.0  # of a move: the deviation of Win% around it
SHORTEST_WINDOW, LONGEST_WINDOW, PLIES_PER_WINDOW = 2, 8, 10
LEAST_ACCURACY = 1.0  # of a move in a harmonic mean

GLYPHS = {1: "!", 6: "?!", 2: "?", 4: "??"}  # by NAG
ONLY_MOVE_GAP = MISTAKES[1][0]  # least loss of every other move
ONLY_MOVE_P = 0.3  # largest prior of a move that is hard to see
GOOD_MOVE = 1  # the NAG of !


def win_percent(q: float) -> float:
    """Returns the expected score of a Q in per cent.

    >>> win_percent(0.0), win_percent(-1.0), win_percent(0.5)
    (50.0, 0.0, 75.0)
    """
    return 50.0 + 50.0 * q


def move_accuracy(loss: float) -> float:
    """Returns the accuracy, in [0, 100], of a move that loses `loss` of Q, by Lichess's curve.

    `103.1668 exp(-0.04354 * points of Win%) - 3.1669`. Lichess adds 1 for its own uncertainty, and compares a
    position with the next one; here searches of the same size give both moves.

    >>> move_accuracy(0.0), round(move_accuracy(0.2), 1), move_accuracy(2.0)
    (100.0, 63.6, 0.0)
    """
    points = win_percent(loss) - win_percent(0.0)
    found = ACCURACY_SCALE * math.exp(-ACCURACY_SLOPE * points) - ACCURACY_SHIFT
    return min(100.0, max(0.0, found)) if points > 0 else 100.0


def weights(percents: Sequence[float]) -> list[float]:
    """Returns the weight of every move of a game: the standard deviation of Win% around it, as at Lichess.

    Args:
      percents: Win% of one side at every position; one more than the moves.

    >>> weights([50.0, 50.0, 80.0])
    [0.5, 12.0]
    """
    plies = len(percents) - 1
    size = min(LONGEST_WINDOW, max(SHORTEST_WINDOW, plies // PLIES_PER_WINDOW))
    first = max(0, min(size, len(percents)) - 2)  # moves that share the first window
    starts = [0] * first + list(range(len(percents) - size + 1))
    spreads = [pstdev(percents[start : start + size]) for start in starts[:plies]]
    return [min(MOST_WEIGHT, max(LEAST_WEIGHT, spread)) for spread in spreads]


def is_only_move(value: float, others: Sequence[float], prior: float) -> bool:
    """Returns whether a best move gets a !: all others lose 0.2 of Q or more, and its prior is low.

    Args:
      value: of the move. others: values of the other moves with enough visits.
      prior: of the move, in [0, 1].

    >>> is_only_move(0.1, [-0.1, -0.4], 0.2), is_only_move(0.1, [-0.1], 0.6), is_only_move(0.1, [], 0.2)
    (True, False, False)
    """
    return bool(others) and prior <= ONLY_MOVE_P and value - max(others) >= ONLY_MOVE_GAP - 1e-9


def phase_of(board: chess.Board, before: str = OPENING) -> str:
    """Returns the phase of a position, never an earlier one than `before`.

    The endgame has at most 6 pieces besides kings and pawns; the middlegame has at most 10, or a side with
    fewer than 4 of its men on its first rank (Lichess's `Divider` without its third rule,
    which measures how the two sides' men are mixed).

    >>> phase_of(chess.Board()), phase_of(chess.Board("8/4k3/8/8/8/8/4P3/4K2R w - - 0 1"))
    ('opening', 'endgame')
    """
    pieces = (board.occupied & ~board.pawns & ~board.kings).bit_count()
    home = [(board.occupied_co[c] & rank).bit_count() for c, rank in _HOMES]
    if pieces <= ENDGAME_PIECES:
        found = ENDGAME
    elif pieces <= MIDDLEGAME_PIECES or min(home) < FEW_AT_HOME:
        found = MIDDLEGAME
    else:
        found = OPENING
    return max(found, before, key=PHASES.index)


_HOMES = ((chess.WHITE, chess.BB_RANK_1), (chess.BLACK, chess.BB_RANK_8))


@dataclass(slots=True)
class Figures(Answer):
    """Sums over moves of one player.

    Attributes:
      moves: number of judged moves. loss: of Q. loss_cp: in centipawns, as `clipped` limits them.
      inaccuracies, mistakes, blunders, good: moves with ?!, ?, ??, !.
    """

    json_keys = "moves accuracy mean_loss mean_loss_cp inaccuracies mistakes blunders good"

    moves: int = 0
    loss: float = 0.0
    loss_cp: int = 0
    inaccuracies: int = 0
    mistakes: int = 0
    blunders: int = 0
    good: int = 0
    weight: float = 0.0
    weighted: float = 0.0  # sum of weight * accuracy
    inverse: float = 0.0  # sum of 1 / accuracy

    def add(self, *, loss: float, loss_cp: int, weight: float, glyph: str) -> None:
        """Adds a move."""
        accuracy = move_accuracy(loss)
        self.moves += 1
        self.loss += loss
        self.loss_cp += loss_cp
        self.inaccuracies += glyph == "?!"
        self.mistakes += glyph == "?"
        self.blunders += glyph == "??"
        self.good += glyph == "!"
        self.weight += weight
        self.weighted += weight * accuracy
        self.inverse += 1.0 / max(LEAST_ACCURACY, accuracy)

    def __add__(self, other: Figures) -> Figures:
        return Figures(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def accuracy(self) -> float | None:
        """Half the weighted and half the harmonic mean of the moves' accuracies; None without moves."""
        return (self.weighted / self.weight + self.moves / self.inverse) / 2 if self.moves else None

    @property
    def mean_loss(self) -> float | None:
        """Average loss of expected score per move, in per cent; None without moves."""
        return 50.0 * self.loss / self.moves if self.moves else None

    @property
    def mean_loss_cp(self) -> float | None:
        """Average loss per move in centipawns; None without moves."""
        return self.loss_cp / self.moves if self.moves else None
