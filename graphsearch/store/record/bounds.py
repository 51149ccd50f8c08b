"""Proven results of positions, and their encoding in an edge. Pure: kernels compile it.

A node's bounds [L, H] come from the rules, from tablebases, and from its edges: L is the largest lower bound
of a move, H the largest upper bound if every move has been visited. An edge stores the proof of its child,
seen by the side to move at the edge's node, in its draw field d, which otherwise holds the draw share:

    |q| = 1  d 1..500      mate in d plies, this move included, by (q = 1) or against (q = -1) that side
             d 501..1000   won or lost, mate unknown: d - 500 plies until the clock resets or the game ends
    q = 0    d 1001        drawn
             d 1002..1011  at least a draw; the draw share is 100 (d - 1002) per mille
             d 1012..1021  at most a draw; 100 (d - 1012)
    else     d 0..1000     nothing proven; the draw share per mille

A record is therefore complete without its neighbours, and recomputing it changes nothing. A decisive proof
holds for a path only if the mate, or the move that resets the clock, comes before the 50-move rule: clock +
plies <= 100. `bounds_kernel.py` computes the bounds and codes of whole records.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...position.board import CLOCK_DRAW

MOST_MATE = 500  # longest mate that an edge can hold, in plies
DRAWN = 1001
AT_LEAST, AT_MOST, STEPS = 1002, 1012, 10
MOST_CODE = AT_MOST + STEPS - 1
STEP = 100  # per mille
AS_GOOD_AS_WON = 0.99  # a less visited move of value 1 does not outrank a move of at least this value

Bounds = tuple[int, int]
UNPROVEN: Bounds = (-1, 1)


@dataclass(frozen=True, slots=True)
class Proof:
    """A proven result.

    Attributes:
      result: 1, 0 or -1 for the side to move.
      mate: plies to the mate; None for a draw, and if the mate is unknown.
      plies: most plies until the clock is reset or the game is over; 0 for a draw.
    """

    result: int
    mate: int | None
    plies: int

    def holds_at(self, clock: int) -> bool:
        """Returns whether the proof holds for a path that reaches the position with this halfmove clock."""
        return self.result == 0 or clock + self.plies <= CLOCK_DRAW

    @property
    def moves(self) -> int | None:
        """Moves to the mate, negative if the side to move is mated; None without a mate of known length."""
        return None if self.mate is None else moves_of(self.result, self.mate)


def moves_of(result: int, plies: int) -> int:
    """Returns the length of a mate in moves, negative if the side to move is mated.

    >>> moves_of(1, 5), moves_of(-1, 4), moves_of(-1, 0)
    (3, -2, 0)
    """
    return (plies + 1) // 2 if result > 0 else -(plies // 2)


def share_of(q: float, d: int) -> int:
    """Returns the draw share per mille of an edge; kernels compile it.

    >>> share_of(0.5, 300), share_of(1.0, 7), share_of(0.0, DRAWN), share_of(0.1, AT_LEAST + 4)
    (300, 0, 1000, 400)
    """
    if d < DRAWN:
        return 0 if d > 0 and (q >= 1.0 or q <= -1.0) else d
    if d == DRAWN:
        return 1000
    return STEP * (d - (AT_LEAST if d < AT_MOST else AT_MOST))


def bounds_of(q: float, d: int) -> Bounds:
    """Returns (L, H) of an edge, seen by the side to move at the node that holds it; kernels compile it.

    >>> bounds_of(1.0, 3), bounds_of(0.0, DRAWN), bounds_of(-0.1, AT_MOST), bounds_of(1.0, 0)
    ((1, 1), (0, 0), (-1, 0), (-1, 1))
    """
    if d < DRAWN:
        return (int(q), int(q)) if d > 0 and (q >= 1.0 or q <= -1.0) else (-1, 1)
    if d == DRAWN:
        return 0, 0
    return (0, 1) if d < AT_MOST else (-1, 0)


def proof_of(q: float, d: int) -> Proof | None:
    """Returns the exact proof of an edge, None if more than one result is possible.

    >>> proof_of(1.0, 5)
    Proof(result=1, mate=5, plies=5)
    >>> proof_of(-1.0, 501), proof_of(0.0, 300)
    (Proof(result=-1, mate=None, plies=1), None)
    """
    lower, upper = bounds_of(q, d)
    if lower != upper:
        return None
    if lower == 0:
        return Proof(0, None, 0)
    return Proof(lower, d, d) if d <= MOST_MATE else Proof(lower, None, d - MOST_MATE)
