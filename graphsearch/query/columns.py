"""Values, proofs and ranks of records in columns: a row per position, edge or legal move, thousands at once.

Every sum runs in the same order as that of a single record, so all numbers are equal to the last bit. Visits
rank most moves. Proofs, or many visits, change the order in few records: `store.record.ranking` ranks these
one by one, and its rules exist only there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..position.board import (
    CHECKMATE,
    CLOCK_DRAW,
    CLOCK_END,
    MAX_MOVES,
    clock_of_words,
    legal_moves,
    unpack,
)
from ..position.fens import clocks_of
from ..position.rules_kernel import MATE
from ..position.values import CP_FACTOR, CP_SLOPE, D_SCALE, cp_of
from ..position.words import CLOCK_SHIFT, META, WITHOUT_CLOCK
from ..store.record import bounds as rules
from ..store.record.known import CompletedRecord, known_edges
from ..store.record.leading import LED_BY_VALUE_FROM
from ..store.record.node import (
    LOWER_SHIFT,
    MAX_CODE,
    TERMINAL_MASK,
    UPPER_SHIFT,
    NodeRecord,
    RecordBatch,
)
from ..store.record.ranking import ranking, resets_of, visits_of
from ..store.segments import keys_of
from .steps import Floats, Ints, Mask, Words, legal_codes, positions_after

_CODES = rules.MOST_CODE + 1
_SIGNS = (-1.0, 0.0, 1.0)  # of q: certain losses, all open values, certain wins
NO_NOTE, WON, DRAWN, LOST = range(4)  # proven results of positions


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


# ------------------------------------------------------------------ values of edges
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


def _signs(q: NDArray[np.float32]) -> Ints:
    """Returns the index of each q in _SIGNS; all values between -1 and 1 count as 0."""
    return np.where(q == 1.0, 2, np.where(q == -1.0, 0, 1))


class EdgeWorth(NamedTuple):
    """Values of records' edges, `[E]` each, seen by the side to move.

    Attributes:
      q, draw: as `Edge.value` and `Edge.draws`. lower, upper: as `Edge.bounds`.
      mates: moves to a mate that is proven at the clock of the path, 0 without one.
      lost: whether the move loses at that clock.
    """

    q: Floats
    draw: Floats
    lower: NDArray[np.int8]
    upper: NDArray[np.int8]
    mates: NDArray[np.int16]
    lost: Mask


def worth_of_edges(batch: RecordBatch) -> EdgeWorth:
    """Returns the values of records' edges; the records have the clocks of the paths."""
    signs = _signs(batch.q)
    rule = {name: table[signs, batch.edge_d] for name, table in _edge_rules().items()}
    n, r = batch.n.astype(np.int64), batch.r.astype(np.int64)
    visits = np.maximum(n, 1)
    valued = n > r
    lower, upper = (
        np.where(valued, rule[name], otherwise).astype(np.int8)
        for name, otherwise in (("lower", -1), ("upper", 1))
    )
    holds = valued & (clocks_of(batch.words)[record_of_edges(batch)] + rule["plies"] <= CLOCK_DRAW)
    return EdgeWorth(
        q=(n - r) * batch.q.astype(np.float64) / visits,
        draw=((n - r) * rule["share"] + r * D_SCALE) / visits / D_SCALE,
        lower=lower,
        upper=upper,
        mates=np.where(holds, rule["mate"], 0).astype(np.int16),
        lost=holds & (upper == -1),
    )


def record_of_edges(batch: RecordBatch) -> Ints:
    """Returns the record of each edge, `[E]`."""
    return np.repeat(np.arange(len(batch)), np.diff(batch.edge_offsets))


# ------------------------------------------------------------------ values of positions
class Worth(NamedTuple):
    """Values of records' positions, `[R]` each, seen by the side to move.

    Attributes:
      q, draw: as `node_mean`. lower, upper: as `NodeRecord.bounds`.
    """

    q: Floats
    draw: Floats
    lower: NDArray[np.int8]
    upper: NDArray[np.int8]


class Proofs(NamedTuple):
    """Proofs of records' positions at the clocks of the paths, `[R]` each.

    Attributes:
      mates: plies to a proven mate, negative if the side to move is mated; 1 where a move mates; else 0.
      notes: NO_NOTE, WON, DRAWN or LOST.
    """

    mates: Ints
    notes: Ints


def worth_of(batch: RecordBatch) -> Worth:
    """Returns the values of records' positions."""
    edges = worth_of_edges(batch)
    lower, upper = _bounds(batch, edges)
    weighed = (batch.n - batch.r).astype(np.float64) * batch.q
    visits = visits_of(batch)
    q = np.clip(_added(batch, batch.v.astype(np.float64), weighed) / visits, lower, upper)
    drawn = draws_of(batch) + _added(batch, np.zeros(len(batch)), batch.n * edges.draw)
    return Worth(q, np.where(lower == upper, 1.0 - np.abs(q), drawn / visits), lower, upper)


def _bounds(batch: RecordBatch, edges: EdgeWorth) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    flags = batch.flags.astype(np.int8)
    lower, upper = (flags >> LOWER_SHIFT & 3) - 1, (flags >> UPPER_SHIFT & 3) - 1
    sizes = np.diff(batch.edge_offsets)
    some = np.flatnonzero(sizes)
    if len(some):
        begins = batch.edge_offsets[some]
        covers = sizes[some] == np.diff(batch.code_offsets)[some]
        low = np.maximum(lower[some], np.maximum.reduceat(edges.lower, begins))
        high = np.minimum(upper[some], np.where(covers, np.maximum.reduceat(edges.upper, begins), 1))
        sound = low <= high
        lower[some[sound]], upper[some[sound]] = low[sound], high[sound]
    return lower, upper


def _added(batch: RecordBatch, start: Floats, values: Floats) -> Floats:
    """Returns `start` plus the values of each record's edges, added one by one as Python does."""
    sizes, total = np.diff(batch.edge_offsets), start.copy()
    rows = np.flatnonzero(sizes)
    for k in range(int(sizes.max(initial=0))):
        rows = rows[sizes[rows] > k]
        total[rows] += values[batch.edge_offsets[rows] + k]
    return total


def proofs_of(batch: RecordBatch, clocks: Ints, worth: Worth, marks: NDArray[np.uint8]) -> Proofs:
    """Returns the proofs of records' positions.

    Args:
      batch: the records, at the clocks of the paths. clocks: `[R]` of the evaluations.
      marks: `[R, MAX_MOVES]` of the legal moves, by `legal_codes`.
    """
    mates, notes = np.zeros(len(batch), np.int64), np.zeros(len(batch), np.int64)
    exact = worth.lower == worth.upper
    notes[exact] = DRAWN - worth.lower[exact]
    has_moves = np.diff(batch.code_offsets) > 0
    for i in np.flatnonzero(exact & (worth.lower != 0) & has_moves).tolist():
        proof = record_at(batch, i, int(clocks[i])).proof
        if proof and not proof.holds_at(clock_of_words(batch.words[i])):
            notes[i] = NO_NOTE
        elif proof and proof.mate is not None:
            mates[i] = proof.result * proof.mate
    mates[has_moves & (clocks_of(batch.words) < CLOCK_END) & (marks & MATE > 0).any(1)] = 1
    return Proofs(mates, notes)


def record_at(batch: RecordBatch, i: int, clock: int) -> NodeRecord:
    """Returns a record of a batch with the clock of its evaluation."""
    record = batch.record(i)
    words = list(record.words)
    words[META] = words[META] & WITHOUT_CLOCK | clock << CLOCK_SHIFT
    return replace(record, words=tuple(words))


def draws_of(batch: RecordBatch) -> Floats:
    """Returns `v_draw` of records."""
    found: Floats = _edge_rules()["share"][_signs(batch.v), batch.d] / D_SCALE
    return found


# ------------------------------------------------------------------ ranks
def ranked_edges(
    batch: RecordBatch, clocks: Ints, known: Mapping[int, CompletedRecord] | None = None
) -> Ints:
    """Returns the edges record by record, best first as in `ranking`, `[E]`.

    Args:
      batch: the records, at the clocks of the paths. clocks: `[R]` of the evaluations.
      known: records with moves that were searched apart, by index; the batch has their known edges.
    """
    of, worth = record_of_edges(batch), _values(batch)
    order = np.lexsort((np.arange(len(of)), -worth, -batch.n.astype(np.int64), of))
    special = _ranked_by_rules(batch, of) & (np.diff(batch.edge_offsets) > 1)
    special[list(known or ())] = True
    for i in np.flatnonzero(special).tolist():
        begin, end = int(batch.edge_offsets[i]), int(batch.edge_offsets[i + 1])
        places = _ranking(batch, i, int(clocks[i]), known)
        order[begin:end] = [begin + k for k in places if k < end - begin]
    return order


def _values(batch: RecordBatch) -> Floats:
    n = np.maximum(batch.n, 1)
    found: Floats = (batch.n - batch.r).astype(np.float64) * batch.q / n
    return found


def _ranked_by_rules(batch: RecordBatch, of: Ints) -> Mask:
    """Returns the records whose moves more than visits, value and P may rank."""
    special: Mask = (np.abs(batch.v) == 1.0) | (visits_of(batch) >= LED_BY_VALUE_FROM)
    special[of[(batch.edge_d >= rules.DRAWN) | (np.abs(batch.q) == 1.0)]] = True
    return special


def _ranking(
    batch: RecordBatch, i: int, clock: int, known: Mapping[int, CompletedRecord] | None
) -> list[int]:
    record, at = record_at(batch, i, clock), clock_of_words(batch.words[i])
    if known and i in known:
        record = replace(known[i], words=record.words)
    resets: Sequence[bool] = ()
    if any(edge.proof and not edge.proof.holds_at(at) for edge in known_edges(record)):
        board = unpack(batch.words[i].tolist())
        resets = resets_of(record, board, legal_moves(board))
    return ranking(record, at, resets)


def best_places(batch: RecordBatch, clocks: Ints, known: Mapping[int, CompletedRecord] | None = None) -> Ints:
    """Returns the best move of each record as its index in canonical order, -1 if none is known.

    Args: as for `ranked_edges`.
    """
    found, sizes = np.full(len(batch), -1, np.int64), np.diff(batch.edge_offsets)
    of = record_of_edges(batch)
    has = (np.bincount(of[batch.n > 0], minlength=len(batch)) > 0) | ((batch.v == 1.0) & (batch.d == 1))
    has[list(known or ())] = True
    has &= np.diff(batch.code_offsets) > 0
    order, by_rules = ranked_edges(batch, clocks, known), _ranked_by_rules(batch, of) & (sizes > 0)
    by_rules[list(known or ())] = True
    k = np.zeros(len(batch), np.int64)
    some = np.flatnonzero(sizes)
    k[some] = order[batch.edge_offsets[some]] - batch.edge_offsets[some]
    for i in np.flatnonzero(has & by_rules).tolist():
        k[i] = _ranking(batch, i, int(clocks[i]), known)[0]
    rows = np.flatnonzero(has)
    found[rows] = places_by_prior(batch)[rows, k[rows]]
    return found


def places_by_prior(batch: RecordBatch) -> NDArray[np.uint8]:
    """Returns the moves' indices in canonical order by descending P, `[R, most moves]`."""
    sizes = np.diff(batch.code_offsets)
    keys = np.full((len(batch), max(1, int(sizes.max(initial=0)))), np.iinfo(np.uint16).max, np.uint16)
    here = np.arange(keys.shape[1])[None] < sizes[:, None]
    keys[here] = (MAX_CODE - batch.codes.astype(np.uint16)) << 8 | np.nonzero(here)[1].astype(np.uint16)
    keys.sort(axis=1)
    found: NDArray[np.uint8] = keys.astype(np.uint8)
    return found


def edges_by_move(batch: RecordBatch) -> Ints:
    """Returns the edge of every legal move, in canonical order; -1 for a move without one."""
    found = np.full(len(batch.codes), -1)
    found[_moves_of_edges(batch)] = np.arange(len(batch.n))
    return found


def _moves_of_edges(batch: RecordBatch) -> Ints:
    """Returns the move of each edge, as an index in `codes`."""
    of = record_of_edges(batch)
    k = np.arange(len(of)) - batch.edge_offsets[of]
    return np.asarray(batch.code_offsets[of] + places_by_prior(batch)[of, k], np.int64)


# ------------------------------------------------------------------ moves
def _moves(batch: RecordBatch) -> MoveColumns:
    held = np.diff(batch.code_offsets)  # none where the game is over
    _, codes, marks = legal_codes(batch.words)
    here = np.arange(MAX_MOVES)[None] < held[:, None]
    of, code, mark = np.repeat(np.arange(len(batch)), held), codes[here], marks[here]
    into = _moves_of_edges(batch)
    children, keys = positions_after(batch.words, of, code)
    worth = worth_of_edges(batch)

    def spread(values: NDArray[Any], otherwise: int = 0) -> NDArray[Any]:
        """Returns the values of edges by move, `otherwise` for a move without an edge."""
        found = np.full(len(of), otherwise, values.dtype)
        found[into] = values
        return found

    n, q, mate = spread(batch.n), spread(worth.q), spread(worth.mates)
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
        q=q,
        draw=spread(worth.draw),
        lower=spread(worth.lower, -1),
        upper=spread(worth.upper, 1),
        mate=mate,
        rank=_ranks(batch, of, n, q),
    )


def _priors(batch: RecordBatch) -> Floats:
    """Returns P of every move, as `priors_from_codes` does."""
    powers, held = batch.codes.astype(np.float64) ** 4, np.diff(batch.code_offsets)
    filled = np.flatnonzero(held)
    sums = np.add.reduceat(powers, batch.code_offsets[filled]) if len(filled) else np.zeros(0)
    found: Floats = powers / np.repeat(sums, held[filled])
    return found


def _ranks(batch: RecordBatch, of: Ints, n: NDArray[np.uint32], q: Floats) -> NDArray[np.int16]:
    """Returns each move's rank as `ranking`; by visits, value and P where nothing else decides."""
    by_prior, clocks = places_by_prior(batch), clocks_of(batch.words)
    k = np.arange(len(of)) - batch.code_offsets[of]
    place, rank = np.empty(len(of), np.int64), np.empty(len(of), np.int64)
    place[batch.code_offsets[of] + by_prior[of, k]] = k
    rank[np.lexsort((place, -q, -n.astype(np.int64), of))] = k + 1
    special = _ranked_by_rules(batch, record_of_edges(batch)) & (np.diff(batch.code_offsets) > 0)
    for i in np.flatnonzero(special).tolist():
        places = _ranking(batch, i, int(clocks[i]), None)
        rank[batch.code_offsets[i] + by_prior[i, places]] = np.arange(1, len(places) + 1)
    return rank.astype(np.int16)


# ------------------------------------------------------------------ nodes
def _nodes(batch: RecordBatch, moves: MoveColumns) -> NodeColumns:
    worth = worth_of(batch)
    mate, mated = _mates(batch, worth)
    best = np.full(len(batch), -1, np.int64)
    first = np.flatnonzero(moves.rank == 1)
    best[moves.of[first]] = first
    return NodeColumns(
        key=keys_of(batch.words),
        n=visits_of(batch),
        q=worth.q,
        draw=np.clip(worth.draw, 0.0, 1.0 - np.abs(worth.q)),
        lower=worth.lower,
        upper=worth.upper,
        mate=mate,
        mated=mated,
        best=best,
    )


def _mates(batch: RecordBatch, worth: Worth) -> tuple[NDArray[np.int16], Mask]:
    """Returns the moves to mate in decided positions, and a mask of the known ones."""
    mate, mated = np.zeros(len(batch), np.int16), batch.flags & TERMINAL_MASK == CHECKMATE
    for i in np.flatnonzero((worth.lower == worth.upper) & (worth.lower != 0) & ~mated).tolist():
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
