"""Converts records to columns for analysis: one row per position and per legal move, thousands at once.

Values come from `worth_kernel.py`. Records with proofs are rare, so `store.record.bounds` and
`store.record.ranking` process them one by one; their rules exist only there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..position.board import CHECKMATE, CLOCK_DRAW, MAX_MOVES, clock_of_words
from ..position.fens import clocks_of
from ..position.rules_kernel import MATE
from ..position.values import (
    CP_FACTOR,
    CP_SLOPE,
    D_SCALE,
    cp_of,
)
from ..position.words import BLACK, META, PAWNS, WHITE
from ..query.steps import Floats, Ints, Mask, Words, legal_codes, positions_after
from ..store.codec import bulk
from ..store.codec.bulk import board_tables
from ..store.record import bounds as rules
from ..store.record.leading import LED_BY_VALUE_FROM
from ..store.record.node import MAX_CODE, TERMINAL_MASK, RecordBatch
from ..store.record.ranking import ranking, visits_of
from ..store.segments import keys_of
from .worth_kernel import describe, value_edges

_CODES = rules.MOST_CODE + 1
_SIGNS = (-1.0, 0.0, 1.0)  # of q: certain losses, all open values, certain wins


@dataclass(frozen=True, slots=True)
class MoveColumns:
    """The legal moves of some positions, in canonical order; values are seen by the side to move.

    Attributes:
      of: `[M]` the position. code: as `encode_move`. mark: CHECK, CHECK | MATE or 0.
      child, child_meta: key and META of the position after it. p: prior.
      n, r, q, draw: of its visits, as in `Edge` (`value`, `draws`); 0 where n = 0.
      lower, upper: proven bounds. mate: moves to a proven mate, negative if the mover is mated; 0 for none.
      rank: 1 for the best move, in the order of `store.record.ranking`.
    """

    of: Ints
    code: NDArray[np.uint16]
    mark: NDArray[np.uint8]
    child: Words
    child_meta: Words
    p: Floats
    n: NDArray[np.uint32]
    r: NDArray[np.uint32]
    q: Floats
    draw: Floats
    lower: NDArray[np.int8]
    upper: NDArray[np.int8]
    mate: NDArray[np.int16]
    rank: NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class NodeColumns:
    """The positions of some records; values are seen by the side to move.

    Attributes:
      key: of the position. n, q, draw: as `NodeRecord.visits` and `node_mean`.
      lower, upper: proven bounds. mate: moves to it, negative if the side to move is mated; valid where
        `mated`.
      best: index among the moves of the batch, -1 without a move.
    """

    key: Words
    n: Ints
    q: Floats
    draw: Floats
    lower: NDArray[np.int8]
    upper: NDArray[np.int8]
    mate: NDArray[np.int16]
    mated: Mask
    best: Ints


def columns_of(batch: RecordBatch) -> tuple[NodeColumns, MoveColumns]:
    """Returns the columns of sound records."""
    moves = _moves(batch)
    return _nodes(batch, moves), moves


# ------------------------------------------------------------------ values
class Worth(NamedTuple):
    """Values of records' positions, as filled by `worth_kernel.describe`."""

    q: Floats
    draw: Floats
    bounds: Ints
    mates: Ints
    notes: Ints


class EdgeWorth(NamedTuple):
    """Values of records' edges, as filled by `worth_kernel.value_edges`."""

    q: Floats
    draw: Floats
    mates: Ints
    mated: NDArray[np.uint8]


def worth_of(batch: RecordBatch, clocks: Ints, *, proven: bool = False) -> Worth:
    """Returns the values of records' positions; with `proven`, mates and notes too.

    Args:
      clocks: `[R]` of the evaluations.
    """
    size, more = len(batch), len(batch) if proven else 0
    mates, notes = np.empty(more, np.int64), np.empty(more, np.int64)
    found = Worth(np.empty(size), np.empty(size), np.empty(2 * size, np.int64), mates, notes)
    describe(board_tables(), bulk.columns_of(batch), clocks, *found)
    return found


def worth_of_edges(batch: RecordBatch) -> EdgeWorth:
    """Returns the values of records' edges."""
    size = len(batch.n)
    found = EdgeWorth(np.empty(size), np.empty(size), np.empty(size, np.int64), np.empty(size, np.uint8))
    value_edges(bulk.columns_of(batch), *found)
    return found


# ------------------------------------------------------------------ visited edges
@cache
def _edge_rules() -> dict[str, NDArray[np.int16]]:
    """Returns tables of the results of `store.record.bounds` by sign of q and by d, `[3, 1022]` each."""
    found = {name: np.zeros((3, _CODES), np.int16) for name in ("lower", "upper", "share", "mate", "plies")}
    for i, q in enumerate(_SIGNS):
        for d in range(_CODES):
            proof = rules.proof_of(q, d)
            found["lower"][i, d], found["upper"][i, d] = rules.bounds_of(q, d)
            found["share"][i, d] = rules.share_of(q, d)
            found["mate"][i, d] = (proof.moves or 0) if proof else 0
            found["plies"][i, d] = proof.plies if proof else 0
    return found


def lost_edges(batch: RecordBatch) -> Mask:
    """Returns whether each edge is proven to lose at the clock of its position's path, `[E]`."""
    edge_of = np.repeat(np.arange(len(batch)), np.diff(batch.edge_offsets))
    rule = {name: table[_signs(batch.q), batch.edge_d] for name, table in _edge_rules().items()}
    holds = clocks_of(batch.words)[edge_of] + rule["plies"] <= CLOCK_DRAW
    found: Mask = (batch.n > batch.r) & (rule["upper"] == -1) & holds
    return found


def _signs(q: NDArray[np.float32]) -> Ints:
    """Returns the index of each q in _SIGNS; all values between -1 and 1 count as 0."""
    return np.where(q == 1.0, 2, np.where(q == -1.0, 0, 1))


def edges_by_move(batch: RecordBatch) -> Ints:
    """Returns the edge of every legal move, in canonical order; -1 for a move without one."""
    of = np.repeat(np.arange(len(batch)), np.diff(batch.code_offsets))
    found = np.full(len(of), -1)
    found[_places(batch, of)[1]] = np.arange(len(batch.n))
    return found


# ------------------------------------------------------------------ moves
def _moves(batch: RecordBatch) -> MoveColumns:
    held = np.diff(batch.code_offsets)  # none where the game is over
    _, codes, marks = legal_codes(batch.words)
    here = np.arange(MAX_MOVES)[None] < held[:, None]
    of, code, mark = np.repeat(np.arange(len(batch)), held), codes[here], marks[here]
    place, into = _places(batch, of)
    children, keys = positions_after(batch.words, of, code)
    edge_of = np.repeat(np.arange(len(batch)), np.diff(batch.edge_offsets))
    rule = {name: table[_signs(batch.q), batch.edge_d] for name, table in _edge_rules().items()}
    valued, worth = batch.n > batch.r, worth_of_edges(batch)
    holds = valued & (clocks_of(batch.words)[edge_of] + rule["plies"] <= CLOCK_DRAW)

    def spread(values: NDArray[Any], otherwise: int = 0) -> NDArray[Any]:
        """Returns the values of edges by move, `otherwise` for a move without an edge."""
        found = np.full(len(of), otherwise, values.dtype)
        found[into] = values
        return found

    n, values = spread(batch.n), spread(worth.q)
    mate = spread(np.where(holds, rule["mate"], 0).astype(np.int16))
    mate[mark & MATE != 0] = 1  # by the rules, visited or not
    return MoveColumns(
        of=of,
        code=code,
        mark=mark,
        child=keys,
        child_meta=children[:, META],
        p=_priors(batch),
        n=n,
        r=spread(batch.r),
        q=values,
        draw=spread(worth.draw),
        lower=spread(np.where(valued, rule["lower"], -1).astype(np.int8), -1),
        upper=spread(np.where(valued, rule["upper"], 1).astype(np.int8), 1),
        mate=mate,
        rank=_ranks(batch, edge_of, of, code, place, n, values),
    )


def _priors(batch: RecordBatch) -> Floats:
    """Returns P of every move, as `priors_from_codes` does."""
    powers, held = batch.codes.astype(np.float64) ** 4, np.diff(batch.code_offsets)
    filled = np.flatnonzero(held)
    sums = np.add.reduceat(powers, batch.code_offsets[filled]) if len(filled) else np.zeros(0)
    found: Floats = powers / np.repeat(sums, held[filled])
    return found


def _places(batch: RecordBatch, of: Ints) -> tuple[Ints, Ints]:
    """Returns each move's place in descending P, and each edge's move."""
    order = np.argsort(of * (MAX_CODE + 1) + MAX_CODE - batch.codes, kind="stable")
    place = np.empty(len(of), np.int64)
    place[order] = np.arange(len(of)) - batch.code_offsets[of]
    edges = np.diff(batch.edge_offsets)
    begins = np.repeat(batch.code_offsets[:-1] - batch.edge_offsets[:-1], edges)
    return place, order[begins + np.arange(len(begins))]


def _ranks(
    batch: RecordBatch,
    edge_of: Ints,
    of: Ints,
    code: NDArray[np.uint16],
    place: Ints,
    n: NDArray[np.uint32],
    q: Floats,
) -> NDArray[np.int16]:
    """Returns each move's rank as `ranking`; by visits, value and P where nothing else decides."""
    order = np.lexsort((place, -q, -n.astype(np.int64), of))
    rank = np.empty(len(of), np.int16)
    rank[order] = np.arange(len(of)) - batch.code_offsets[of] + 1
    special = (np.abs(batch.v) == 1.0) | (visits_of(batch) >= LED_BY_VALUE_FROM)
    special[edge_of[(batch.edge_d >= rules.DRAWN) | (np.abs(batch.q) == 1.0)]] = True
    for i in np.flatnonzero(special & (np.diff(batch.code_offsets) > 0)).tolist():
        here = slice(int(batch.code_offsets[i]), int(batch.code_offsets[i + 1]))
        resets = np.empty(here.stop - here.start, bool)
        squares, words = code[here].astype(np.uint64), batch.words[i]
        moved = words[PAWNS] >> (squares & np.uint64(63))
        taken = (words[WHITE] | words[BLACK]) >> (squares >> np.uint64(6) & np.uint64(63))
        resets[place[here]] = (moved | taken) & np.uint64(1) != 0  # pawn moves and captures
        by_place = np.empty(len(resets), np.int64)
        by_place[ranking(batch.record(i), resets=resets.tolist())] = np.arange(1, len(resets) + 1)
        rank[here] = by_place[place[here]]
    return rank


# ------------------------------------------------------------------ nodes
def _nodes(batch: RecordBatch, moves: MoveColumns) -> NodeColumns:
    clocks = clocks_of(batch.words)
    worth = worth_of(batch, clocks)
    lower, upper = worth.bounds[0::2].astype(np.int8), worth.bounds[1::2].astype(np.int8)
    mate, mated = _mates(batch, lower, upper)
    best = np.full(len(batch), -1, np.int64)
    first = np.flatnonzero(moves.rank == 1)
    best[moves.of[first]] = first
    return NodeColumns(
        key=keys_of(batch.words),
        n=visits_of(batch),
        q=worth.q,
        draw=np.clip(worth.draw, 0.0, 1.0 - np.abs(worth.q)),
        lower=lower,
        upper=upper,
        mate=mate,
        mated=mated,
        best=best,
    )


def draws_of(batch: RecordBatch) -> Floats:
    """Returns `v_draw` of records."""
    found: Floats = _edge_rules()["share"][_signs(batch.v), batch.d] / D_SCALE
    return found


def _mates(
    batch: RecordBatch, lower: NDArray[np.int8], upper: NDArray[np.int8]
) -> tuple[NDArray[np.int16], Mask]:
    """Returns the moves to mate in decided positions, and a mask of the known ones."""
    mate, mated = np.zeros(len(batch), np.int16), batch.flags & TERMINAL_MASK == CHECKMATE
    for i in np.flatnonzero((lower == upper) & (lower != 0) & ~mated).tolist():
        proof = batch.record(i).proof_at(clock_of_words(batch.words[i]))
        if proof and proof.moves is not None:
            mate[i], mated[i] = proof.moves, True
    return mate, mated


# ------------------------------------------------------------------ centipawns
NEAR = 1e-6  # distance from a tie; NumPy's tan differs from `math` by less than 1e-10 centipawns


def cps_of(q: Floats) -> Ints:
    """Returns `cp_of` of every value.

    >>> cps_of(np.array([0.0, 0.5, -0.5, 1.0])).tolist()
    [0, 89, -89, 12780]
    """
    scores = CP_FACTOR * np.tan(CP_SLOPE * np.clip(q, -1.0, 1.0))
    found = np.rint(scores).astype(np.int64)
    is_tie = np.abs(np.abs(scores - np.trunc(scores)) - 0.5) < NEAR
    for i in np.flatnonzero(is_tie).tolist():
        found[i] = cp_of(float(q[i]))
    return found
