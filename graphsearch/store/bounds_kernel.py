"""Proven results of positions, and their encoding in an edge.

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
plies <= 100.

A node's code is the draw field of an edge that leads to it; `turned` changes the side, and adds the move's
own ply if the mate is unknown:

    won or lost   1 + plies to the mate, at most 500 | 500 + plies until the clock resets or the game ends
    else          DRAWN, AT_LEAST + step, AT_MOST + step, or the draw share per mille
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..jit.compiler import inner
from ..jit.pointers import ONE, ZERO, U
from ..jit.types import float32, float64, int64, uint16
from ..position.board import BLACK, CLOCK_DRAW, PAWNS, Position
from ..position.board_kernel import clock_of, from_square, side_to_move, to_square
from .record_kernel import (
    RecordArena,
    clock_at_evaluation,
    draw_visits,
    edge_at,
    edge_draws,
    edge_move,
    edge_q,
    edge_visits,
    flags_of,
    has_block,
    is_exact,
    lower_in,
    materialised,
    move_count,
    set_draws_and_flags,
    stride_at,
    upper_in,
    value_draws,
    value_of,
    with_bounds,
)

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


@inner
def share_of(q: float32 | float64, d: int64) -> int:
    """Returns the draw share per mille of an edge.

    >>> share_of(0.5, 300), share_of(1.0, 7), share_of(0.0, DRAWN), share_of(0.1, AT_LEAST + 4)
    (300, 0, 1000, 400)
    """
    if d < DRAWN:
        return 0 if d > 0 and (q >= 1.0 or q <= -1.0) else d
    if d == DRAWN:
        return 1000
    return STEP * (d - (AT_LEAST if d < AT_MOST else AT_MOST))


@inner
def bounds_of(q: float32 | float64, d: int64) -> Bounds:
    """Returns (L, H) of an edge, seen by the side to move at the node that holds it.

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


# ------------------------------------------------------------------ of records in the arena
NO_CODE = 1 << 20

# of edges: L | H | least code of a win, NO_CODE without one | greatest code of a mate suffered, and greatest
# number of plies of another loss, 0 without one
Tally: TypeAlias = tuple[int64, int64, int64, int64, int64]


@inner
def is_special(q: float32 | float64, d: int64) -> bool:
    """Returns whether the value and draw field of an edge encode a proof."""
    return d >= DRAWN or (d > 0 and (q >= 1.0 or q <= -1.0))


@inner
def plies_of(code: int64) -> int64:
    """Returns the plies of a decisive edge until the clock resets or the game ends."""
    return code - MOST_MATE if code > MOST_MATE else code


@inner
def is_closed(q: float32, d: int64, clock: int64) -> bool:
    """Returns whether an edge's result is proven for a path that reaches its node with this clock."""
    if d == 0:
        return False
    if d == DRAWN:
        return True
    return d < DRAWN and (q >= 1.0 or q <= -1.0) and clock + plies_of(d) <= CLOCK_DRAW


@inner
def no_tally() -> Tally:
    """Returns the tally of no edges."""
    return -1, -1, NO_CODE, 0, 0


@inner
def tallied(tally: Tally, valued: int64, q: float32, d: int64) -> Tally:
    """Returns a tally with one more edge; `valued`: the edge's visits that have a value."""
    lower, upper, win, mated, lost = tally
    low, high = -1, 1
    if valued:
        low, high = bounds_of(q, d)
    if low == 1:
        win = min(win, d)
    elif high == -1:
        if d > MOST_MATE:
            lost = max(lost, d - MOST_MATE)
        else:
            mated = max(mated, d)
    return max(lower, low), max(upper, high), win, mated, lost


@inner
def tightened(flags: int64, tally: Tally, covers: bool) -> int64:
    """Returns flags tightened by the bounds of the edges; `covers`: whether every move has an edge."""
    lower, upper = lower_in(flags), upper_in(flags)
    low, high = max(lower, tally[0]), min(upper, tally[1] if covers else 1)
    if low > high:  # contradictory bounds prove nothing more
        return flags
    return with_bounds(flags, low, high)


@inner
def decisive_plies(won: bool, tally: Tally, covers: bool, clock: int64, known: int64) -> tuple[int64, int64]:
    """Returns the shortest win or the longest loss of a decided node that has moves.

    It comes from the edges, or from the mate that the record itself holds. Without them it comes from a
    tablebase, and holds at the record's clock and below.

    Args:
      covers: whether every move has an edge.
      clock: halfmove clock at which the record was evaluated.
      known: plies of the record's own mate, 0 if it holds none.

    Returns:
      plies to the mate, -1 if unknown; most plies until the clock is reset or the game ends.
    """
    _, _, win, mated, lost = tally
    if won and known:
        win = min(win, known)
    if won and win < NO_CODE:
        return (win, win) if win <= MOST_MATE else (-1, win - MOST_MATE)
    if not won and covers and lost:
        return -1, max(mated, lost)
    if not won and covers and mated:
        mate = min(mated, known) if known else mated  # the edges' mates may be longer than necessary
        return mate, mate
    return (known, known) if known else (-1, CLOCK_DRAW - clock)


@inner
def code_of(mate: int64, plies: int64) -> int64:
    """Returns the code of a won or lost node; the arguments are the results of `decisive_plies`."""
    return mate + 1 if 0 <= mate < MOST_MATE else MOST_MATE + min(plies, MOST_MATE)


@inner
def code_by_edges(
    flags: int64, share: int64, tally: Tally, edges: int64, moves: int64, clock: int64, known: int64
) -> int64:
    """Returns the code of a node.

    Args:
      share: its draw share per mille. tally: of its `edges`. moves: number of legal moves.
      clock, known: as for `decisive_plies`.
    """
    if not is_decisive(flags):
        return open_code(flags, share)
    if moves == 0:
        return int64(1)  # mated now
    mate, plies = decisive_plies(lower_in(flags) == 1, tally, edges == moves, clock, known)
    return code_of(mate, plies)


@inner
def mate_kept(value: float32, draws: int64) -> int64:
    """Returns the plies of the mate that V and D of a record encode, 0 if they encode none."""
    return int64(draws) if value >= 1.0 or value <= -1.0 else int64(0)


@inner
def open_code(flags: int64, share: int64) -> int64:
    """Returns the code of a node that is neither won nor lost."""
    lower, upper = lower_in(flags), upper_in(flags)
    if lower == 0 and upper == 0:
        return int64(DRAWN)
    if lower == 0:
        return AT_LEAST + min(int64(share) // STEP, int64(STEPS - 1))
    if upper == 0:
        return AT_MOST + min(int64(share) // STEP, int64(STEPS - 1))
    return int64(share)


@inner
def is_decisive(flags: int64) -> bool:
    """Returns whether flags prove a win or a loss."""
    return lower_in(flags) == upper_in(flags) != 0


@inner
def turned(q: float32, code: int64, resets: bool) -> int64:
    """Returns the draw field of an edge to a node of this code.

    `q`: of the edge. `resets`: whether its move resets the clock.
    """
    if code >= AT_LEAST:
        return code + STEPS if code < AT_MOST else code - STEPS
    if code == DRAWN or not (q >= 1.0 or q <= -1.0):
        return code
    if code <= MOST_MATE:  # 0: nothing is proven
        return code
    return int64(MOST_MATE + 1) if resets else min(code + 1, int64(2 * MOST_MATE))


@inner
def with_proof(q: float32, old: int64, found: float32, field: int64) -> tuple[float32, int64]:
    """Returns the value and draw field that an edge takes; a proof of the edge stays.

    A bound stays even if the child was lost since; two bounds on opposite sides of a draw make a draw.

    Args:
      q, old: value and draw field so far. found, field: the new ones.
    """
    if not is_special(q, old):
        return found, field
    if not (is_special(found, field) and field <= DRAWN):
        if old <= DRAWN:
            return q, old
        base = AT_LEAST if old < AT_MOST else AT_MOST
        if field < AT_LEAST:
            field = base + min(int64(field) // STEP, int64(STEPS - 1))
        elif (field < AT_MOST) != (old < AT_MOST):
            field = int64(DRAWN)
    low, high = bounds_of(found, field)
    return min(max(found, float32(low)), float32(high)), field


@inner
def taken(q: float32, old: int64, found: float32, code: int64, resets: bool) -> tuple[float32, int64]:
    """Returns the value and draw field of an edge that takes its child's value.

    Args:
      q, old: value and draw field so far. found: the child's value, seen from this side. code: of the child.
      resets: whether the edge's move resets the clock.
    """
    return with_proof(q, old, found, turned(found, code, resets))


@inner
def tally_of(A: RecordArena, rec: int64) -> tuple[Tally, bool]:
    """Returns the tally of a record's edges, and whether every move has an edge."""
    tally = no_tally()
    if not has_block(A, rec):
        return tally, False
    m = materialised(A, rec)
    stride = stride_at(A, rec)
    edge = edge_at(A, rec, int64(0))
    for _ in range(m):
        valued = edge_visits(A, edge) - draw_visits(A, edge, stride)
        tally = tallied(tally, valued, edge_q(A, edge), edge_draws(A, edge))
        edge += stride
    return tally, m == move_count(A, rec)


@inner
def tighten(A: RecordArena, rec: int64) -> None:
    """Tightens a record's bounds to those that its edges prove."""
    tally, covers = tally_of(A, rec)
    flags = tightened(flags_of(A, rec), tally, covers)
    set_draws_and_flags(A, rec, value_draws(A, rec), flags)


@inner
def node_code(A: RecordArena, rec: int64, share: int64) -> int64:
    """Returns the code of a record; `share`: its draw share per mille."""
    flags = flags_of(A, rec)
    if not is_decisive(flags):
        return open_code(flags, share)
    known = mate_kept(value_of(A, rec), value_draws(A, rec))
    edges, moves, clock = materialised(A, rec), move_count(A, rec), clock_at_evaluation(A, rec)
    return code_by_edges(flags, share, tally_of(A, rec)[0], edges, moves, clock, known)


@inner
def resets_clock(s: Position, move: uint16) -> bool:
    """Returns whether a move of a position captures or moves a pawn."""
    leaves_pawn = s[PAWNS] >> U(from_square(move))
    takes = s[BLACK - side_to_move(s)] >> U(to_square(move))
    return (leaves_pawn | takes) & ONE != ZERO


@inner
def holds_here(A: RecordArena, edge: int64, s: Position) -> bool:
    """Returns whether the result of a visited edge is proven at the position `s` of its node.

    After a move that resets the clock, a mate may take a hundred plies.
    """
    q, d = edge_q(A, edge), edge_draws(A, edge)
    clock = clock_of(s)
    if is_closed(q, d, clock):
        return True
    if d <= 1 or d > CLOCK_DRAW or not (q >= 1.0 or q <= -1.0):
        return False
    return clock < CLOCK_DRAW and resets_clock(s, edge_move(A, edge))


@inner
def _edges_settle(A: RecordArena, rec: int64, s: Position, won: bool) -> bool:
    """Returns whether edges prove a win (one suffices) or a loss (it takes every move) at a position."""
    if not has_block(A, rec):
        return False
    m = materialised(A, rec)
    stride = stride_at(A, rec)
    edge = edge_at(A, rec, int64(0))
    for _ in range(m):
        valued = edge_visits(A, edge) - draw_visits(A, edge, stride)
        decisive = valued > 0 and (edge_q(A, edge) >= 1.0) == won and holds_here(A, edge, s)
        decisive &= edge_draws(A, edge) != DRAWN
        if decisive == won:
            return won
        edge += stride
    return not won and m == move_count(A, rec)


@inner
def is_settled(A: RecordArena, rec: int64, s: Position) -> bool:
    """Returns whether a record's result is proven for a path that reaches it as position `s`."""
    if not is_exact(A, rec):
        return False
    flags = flags_of(A, rec)
    if not is_decisive(flags):
        return True
    code = node_code(A, rec, int64(0))
    if clock_of(s) + (code - MOST_MATE if code > MOST_MATE else code - 1) <= CLOCK_DRAW:
        return True
    return _edges_settle(A, rec, s, lower_in(flags) == 1)


@inner
def is_decided(A: RecordArena, rec: int64, s: Position) -> bool:
    """Returns whether edges prove a record's result at a position, so that a best move is known."""
    flags = flags_of(A, rec)
    if move_count(A, rec) == 0 or not is_settled(A, rec, s):
        return False
    tally, covers = tally_of(A, rec)
    result = lower_in(flags)
    if result == -1:
        known = mate_kept(value_of(A, rec), value_draws(A, rec))
        return (covers and tally[1] == -1) or (known > 0 and tally[3] == known)
    return tally[0] == result


# ------------------------------------------------------------------ of records as values
def bounds_and_proof(
    flags: int, edges: Sequence[tuple[int, float, int]], moves: int, clock: int, known: int
) -> tuple[Bounds, Proof | None]:
    """Returns the bounds of a node, and its proof if they leave one result.

    Args:
      edges: (n - r, q, d) of each edge. moves: number of legal moves.
      clock, known: as for `decisive_plies`.
    """
    tally, covers = no_tally(), 0 < moves == len(edges)
    for valued, q, d in edges:
        tally = tallied(tally, valued, q, d)
    flags = tightened(flags, tally, covers)
    lower, upper = lower_in(flags), upper_in(flags)
    if lower != upper:
        return (lower, upper), None
    if lower == 0 or not moves:
        return (lower, upper), Proof(lower, 0 if lower else None, 0)
    mate, plies = decisive_plies(lower == 1, tally, covers, clock, known)
    return (lower, upper), Proof(lower, None if mate < 0 else mate, plies)


def edge_code(proof: Proof, *, resets: bool) -> int:
    """Returns the `d` of an edge to a node with a proven result.

    Args:
      resets: whether the move resets the clock.

    >>> edge_code(Proof(-1, 4, 4), resets=False), edge_code(Proof(1, None, 100), resets=True)
    (5, 501)
    """
    if proof.result == 0:
        return DRAWN
    code = code_of(-1 if proof.mate is None else proof.mate, proof.plies)
    return int(turned(float(proof.result), code, resets))
