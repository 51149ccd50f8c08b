"""Records as columns for analysis: what each says of its position and of every legal move, thousands at once.

The common case is arithmetic on arrays. What carries a proof is rare, and asked of `store.record.bounds` and
`store.record.ranking` one by one, so that their rules stand in one place.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..position.board import (
    CHECKMATE,
    CLOCK_DRAW,
    MAX_CLOCK,
    MAX_MOVES,
    POSITION_WORDS,
    clock_of_words,
    clock_term,
)
from ..position.steps_kernel import MATE, list_moves, make_steps
from ..position.values import D_SCALE
from ..position.words import BLACK, CLOCK_BITS, CLOCK_SHIFT, KEY, META, PAWNS, WHITE
from ..store.codec.bulk import board_tables, owned
from ..store.record import bounds as rules
from ..store.record.node import LOWER_SHIFT, MAX_CODE, TERMINAL_MASK, UPPER_SHIFT, RecordBatch
from ..store.record.ranking import ranking

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Words = NDArray[np.uint64]

_CODES = rules.MOST_CODE + 1
_SIGNS = (-1.0, 0.0, 1.0)  # of q: certain losses, all that is open, certain wins


@dataclass(frozen=True, slots=True)
class MoveColumns:
    """The legal moves of some positions, each in canonical order; values are seen by the side that plays.

    Attributes:
      of: `[M]` the position. code: as `encode_move`. mark: CHECK, CHECK | MATE or 0.
      child, child_meta: key and META of the position behind it. p: prior.
      n, r, q, draw: of its visits, as `Edge` has them (`value`, `draws`); 0 where n = 0.
      lower, upper: what is proven. mate: plies of it, negative if it is suffered; 0 for none.
      rank: 1 for the best move, as `store.record.ranking` orders them.
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
    """What records say of their positions, seen by the side to move.

    Attributes:
      key: of the position. n, q, draw: as `NodeRecord.visits` and `node_mean`. v, v_draw: of the evaluator.
      lower, upper: what is proven. mate: moves to it, negative if it is suffered; `mated` where it is known.
      terminal, evaluator, run: as in the record. moves: how many are legal.
      best: index among the moves of the batch, -1 where there is none.
    """

    key: Words
    n: Ints
    q: Floats
    draw: Floats
    v: NDArray[np.float32]
    v_draw: Floats
    lower: NDArray[np.int8]
    upper: NDArray[np.int8]
    mate: NDArray[np.int16]
    mated: Mask
    terminal: NDArray[np.uint8]
    evaluator: NDArray[np.uint8]
    run: NDArray[np.uint32]
    moves: Ints
    best: Ints


def columns_of(batch: RecordBatch) -> tuple[NodeColumns, MoveColumns]:
    """Returns the columns of sound records."""
    edges = _Edges.of_batch(batch)
    moves = _moves(batch, edges)
    return _nodes(batch, edges, moves), moves


# ------------------------------------------------------------------ visited edges
@dataclass(frozen=True, slots=True)
class _Edges:
    """The visited edges of some records, as they lie in the batch; what they carry, by `store.record.bounds`.

    Attributes:
      of: `[E]` the record. begins: `[R + 1]` where those of each record begin.
      n, others, r: visits: all, those with a value, and those of draws of the path.
      q: of the others. share: their draws per mille.
      lower, upper: what is proven. mate: moves to it, 0 where none is proven for the record's clock.
    """

    of: Ints
    begins: Ints
    n: Floats
    others: Floats
    r: Floats
    q: Floats
    share: Floats
    lower: NDArray[np.int8]
    upper: NDArray[np.int8]
    mate: NDArray[np.int16]

    @classmethod
    def of_batch(cls, batch: RecordBatch) -> _Edges:
        of = np.repeat(np.arange(len(batch)), np.diff(batch.edge_offsets))
        at = _signs(batch.q), batch.edge_d
        rule = {name: table[at] for name, table in _edge_rules().items()}
        valued = batch.n > batch.r
        holds = valued & (_clocks(batch.words)[of] + rule["plies"] <= CLOCK_DRAW)
        return cls(
            of=of,
            begins=batch.edge_offsets,
            n=batch.n.astype(np.float64),
            others=(batch.n - batch.r).astype(np.float64),
            r=batch.r.astype(np.float64),
            q=batch.q.astype(np.float64),
            share=rule["share"].astype(np.float64),
            lower=np.where(valued, rule["lower"], -1).astype(np.int8),
            upper=np.where(valued, rule["upper"], 1).astype(np.int8),
            mate=np.where(holds, rule["mate"], 0).astype(np.int16),
        )

    @property
    def drawn(self) -> Floats:
        """Visits that count as draws, a share of each."""
        return self.others * self.share / D_SCALE + self.r

    def sums(self, values: Floats) -> Floats:
        """Returns the sum of `values` `[E]` over the edges of each record, 0 where it has none."""
        found = np.zeros(len(self.begins) - 1)
        filled = np.flatnonzero(np.diff(self.begins))
        if len(filled):
            found[filled] = np.add.reduceat(values, self.begins[filled])
        return found

    def most(self, values: NDArray[np.int8], otherwise: int) -> NDArray[np.int8]:
        """Returns the largest of `values` `[E]` over the edges of each record."""
        found = np.full(len(self.begins) - 1, otherwise, np.int8)
        filled = np.flatnonzero(np.diff(self.begins))
        if len(filled):
            found[filled] = np.maximum.reduceat(values, self.begins[filled])
        return found


@cache
def _edge_rules() -> dict[str, NDArray[np.int16]]:
    """Returns what `store.record.bounds` says of every sign of q and every d, `[3, 1022]` each."""
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
    """Returns which of _SIGNS each q is; a value in between is as open as 0."""
    return np.where(q == 1.0, 2, np.where(q == -1.0, 0, 1))


def _clocks(words: Words) -> Ints:
    return (words[:, META] >> np.uint64(CLOCK_SHIFT) & np.uint64(CLOCK_BITS)).astype(np.int64)


# ------------------------------------------------------------------ moves
def _moves(batch: RecordBatch, edges: _Edges) -> MoveColumns:
    of, code, mark = _listed(batch)
    place, into = _places(batch, edges, of)
    child, child_meta = _children(batch.words, of, code)
    with np.errstate(invalid="ignore", divide="ignore"):
        q = np.where(edges.n > 0, edges.others * edges.q / edges.n, 0.0)
        draw = np.where(edges.n > 0, edges.drawn / edges.n, 0.0)

    def spread(values: NDArray[Any], otherwise: int = 0) -> NDArray[Any]:
        """Returns the values of edges by move, `otherwise` where a move has none."""
        found = np.full(len(of), otherwise, values.dtype)
        found[into] = values
        return found

    n, values, mate = spread(batch.n), spread(q), spread(edges.mate)
    mate[mark & MATE != 0] = 1  # by the rules, visited or not
    return MoveColumns(
        of=of,
        code=code,
        mark=mark,
        child=child,
        child_meta=child_meta,
        p=_priors(batch),
        n=n,
        r=spread(batch.r),
        q=values,
        draw=spread(draw),
        lower=spread(edges.lower, -1),
        upper=spread(edges.upper, 1),
        mate=mate,
        rank=_ranks(batch, edges, of, code, place, n, values),
    )


def _priors(batch: RecordBatch) -> Floats:
    """Returns P of every move, as `priors_from_codes` does."""
    powers, held = batch.codes.astype(np.float64) ** 4, np.diff(batch.code_offsets)
    filled = np.flatnonzero(held)
    sums = np.add.reduceat(powers, batch.code_offsets[filled]) if len(filled) else np.zeros(0)
    found: Floats = powers / np.repeat(sums, held[filled])
    return found


def _listed(batch: RecordBatch) -> tuple[Ints, NDArray[np.uint16], NDArray[np.uint8]]:
    """Returns position, code and mark of every legal move; a finished game has none."""
    rows = len(batch)
    counts = np.zeros(rows, np.int16)
    moves, marks = np.zeros((rows, MAX_MOVES), np.uint16), np.zeros((rows, MAX_MOVES), np.uint8)
    flat = owned(batch.words, np.uint64).reshape(-1)
    list_moves(board_tables(), flat, counts, moves.reshape(-1), marks.reshape(-1))
    held = np.diff(batch.code_offsets)
    here = np.arange(MAX_MOVES)[None] < held[:, None]
    return np.repeat(np.arange(rows), held), moves[here], marks[here]


def _children(words: Words, of: Ints, code: NDArray[np.uint16]) -> tuple[Words, Words]:
    """Returns keys and METAs of the positions after moves."""
    children, keys = np.zeros(len(of) * POSITION_WORDS, np.uint64), np.zeros(len(of), np.uint64)
    make_steps(
        board_tables(), owned(words, np.uint64).reshape(-1), of, owned(code, np.uint16), children, keys
    )
    return keys, children.reshape(-1, POSITION_WORDS)[:, META].copy()


def _places(batch: RecordBatch, edges: _Edges, of: Ints) -> tuple[Ints, Ints]:
    """Returns each move's place in descending P, and which move each edge belongs to."""
    order = np.argsort(of * (MAX_CODE + 1) + MAX_CODE - batch.codes, kind="stable")
    place = np.empty(len(of), np.int64)
    place[order] = np.arange(len(of)) - batch.code_offsets[of]
    into = order[batch.code_offsets[edges.of] + np.arange(len(edges.of)) - edges.begins[edges.of]]
    return place, into


def _ranks(
    batch: RecordBatch,
    edges: _Edges,
    of: Ints,
    code: NDArray[np.uint16],
    place: Ints,
    n: NDArray[np.uint32],
    q: Floats,
) -> NDArray[np.int16]:
    """Returns each move's rank as `ranking` does; by visits, value and P where nothing is certain."""
    order = np.lexsort((place, -q, -n.astype(np.int64), of))
    rank = np.empty(len(of), np.int16)
    rank[order] = np.arange(len(of)) - batch.code_offsets[of] + 1
    special = np.abs(batch.v) == 1.0
    special[edges.of[(batch.edge_d >= rules.DRAWN) | (np.abs(batch.q) == 1.0)]] = True
    for i in np.flatnonzero(special & (np.diff(batch.code_offsets) > 0)).tolist():
        here = slice(int(batch.code_offsets[i]), int(batch.code_offsets[i + 1]))
        resets = np.empty(here.stop - here.start, bool)
        resets[place[here]] = _resets(batch.words[i], code[here])
        by_place = np.empty(len(resets), np.int64)
        by_place[ranking(batch.record(i), resets=resets.tolist())] = np.arange(1, len(resets) + 1)
        rank[here] = by_place[place[here]]
    return rank


def _resets(words: Words, code: NDArray[np.uint16]) -> Mask:
    """Returns which moves of a position set the clock back: those of pawns, and captures."""
    squares = code.astype(np.uint64)
    moved = words[PAWNS] >> (squares & np.uint64(63))
    taken = (words[WHITE] | words[BLACK]) >> (squares >> np.uint64(6) & np.uint64(63))
    found: Mask = (moved | taken) & np.uint64(1) != 0
    return found


# ------------------------------------------------------------------ nodes
def _nodes(batch: RecordBatch, edges: _Edges, moves: MoveColumns) -> NodeColumns:
    n = 1 + edges.sums(edges.n)
    lower, upper = _bounds(batch, edges)
    q = np.clip((batch.v + edges.sums(edges.others * edges.q)) / n, lower, upper)
    v_draw = draws_of(batch)
    draw = np.where(lower == upper, 1.0 - np.abs(q), (v_draw + edges.sums(edges.drawn)) / n)
    mate, mated = _mates(batch, lower, upper)
    best = np.full(len(batch), -1, np.int64)
    first = np.flatnonzero(moves.rank == 1)
    best[moves.of[first]] = first
    return NodeColumns(
        key=batch.words[:, KEY] ^ clock_terms()[_clocks(batch.words)],
        n=n.astype(np.int64),
        q=q,
        draw=np.clip(draw, 0.0, 1.0 - np.abs(q)),
        v=batch.v,
        v_draw=v_draw,
        lower=lower,
        upper=upper,
        mate=mate,
        mated=mated,
        terminal=batch.flags & np.uint8(TERMINAL_MASK),
        evaluator=batch.evaluator,
        run=batch.run,
        moves=np.diff(batch.code_offsets),
        best=best,
    )


def draws_of(batch: RecordBatch) -> Floats:
    """Returns `v_draw` of records."""
    found: Floats = _edge_rules()["share"][_signs(batch.v), batch.d] / D_SCALE
    return found


def _bounds(batch: RecordBatch, edges: _Edges) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Returns the bounds of records as `NodeRecord.bounds` does."""
    lower, upper = (
        (batch.flags >> shift & 3).astype(np.int8) - np.int8(1) for shift in (LOWER_SHIFT, UPPER_SHIFT)
    )
    low, high = edges.most(edges.lower, -1), edges.most(edges.upper, 1)
    unvisited = np.diff(edges.begins) != np.diff(batch.code_offsets)
    high[unvisited] = 1  # one of these moves may be better
    low, high = np.maximum(lower, low), np.minimum(upper, high)
    sound = low <= high
    return np.where(sound, low, lower), np.where(sound, high, upper)


def _mates(
    batch: RecordBatch, lower: NDArray[np.int8], upper: NDArray[np.int8]
) -> tuple[NDArray[np.int16], Mask]:
    """Returns the moves to the mate of decided positions, and where they are known."""
    mate, mated = np.zeros(len(batch), np.int16), batch.flags & TERMINAL_MASK == CHECKMATE
    for i in np.flatnonzero((lower == upper) & (lower != 0) & ~mated).tolist():
        proof = batch.record(i).proof_at(clock_of_words(batch.words[i]))
        if proof and proof.moves is not None:
            mate[i], mated[i] = proof.moves, True
    return mate, mated


@cache
def clock_terms() -> Words:
    """Returns `clock_term` of every halfmove clock."""
    return np.array([clock_term(clock) for clock in range(MAX_CLOCK + 1)], np.uint64)
