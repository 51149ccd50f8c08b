"""Node records as values, alone and in bulk: their columns, order, identity and keys.

`schema/node_record.md` is the reference for every field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..position.board import (
    CLOCK_BITS,
    CLOCK_SHIFT,
    FREE_CLOCK,
    META,
    POSITION_WORDS,
    WITHOUT_CLOCK,
    clock_of_words,
)
from ..position.tables import load_tables
from ..position.values import D_SCALE
from . import record_kernel as kernel
from .index_kernel import IDENTITY_WORDS, fill_keys, fill_sort_keys, settle_ties
from .record_kernel import LOWER_SHIFT, UPPER_SHIFT, Bounds, Columns, Proof, flags_with, share_of

UNPROVEN = flags_with(-1, 1)
TERMINAL_MASK = kernel.KIND_BITS
TERMINALS = {1: "checkmate", 2: "stalemate", 3: "draw by insufficient material"}  # names of the kinds
BY_CLOCK = "draw by the 75-move rule"  # which depends on the path


@dataclass(frozen=True, slots=True)
class Edge:
    """The visits and value of one edge; the value is seen by the side to move at the edge's node.

    Attributes:
      n: completed visits, u32.
      r: visits of the n that ended in a draw of the path (repetition, clock), r <= n.
      q: value of the other n - r visits in [-1, 1], float32; 0 where n = r.
      d: their draw probability per mille, 0..1000, or the proof of the move (`record_kernel.py`), up to 1021;
        0 where n = r.
      apart: whether the move was searched apart (`store.apart`), and these are the visits and the value of
        the position after it, which has more visits than the edge in the record.
    """

    n: int
    r: int = 0
    q: float = 0.0
    d: int = 0
    apart: bool = False

    @property
    def value(self) -> float:
        """E = ((n - r) q + r draw) / n, with draw = 0."""
        return (self.n - self.r) * self.q / self.n if self.n else self.q

    @property
    def draws(self) -> float:
        """Draw probability of all n visits, in [0, 1]; 0 without visits."""
        if not self.n:
            return 0.0
        share = (self.n - self.r) * share_of(self.q, self.d) + self.r * D_SCALE
        return share / self.n / D_SCALE

    @property
    def bounds(self) -> Bounds:
        """Proven lower and upper result of the move."""
        return kernel.bounds_of(self.q, self.d)

    @property
    def proof(self) -> Proof | None:
        """The exact proof of the move, None if nothing is proven."""
        return kernel.proof_of(self.q, self.d)


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """One position's record.

    Attributes:
      words: packed position, 10 integers (see `position/board.py`).
      v: the evaluator's value in [-1, 1] for the side to move, float32.
      d: the evaluator's draw probability per mille; the plies of the mate if V is 1 or -1 by a known mate.
      evaluator: number of the evaluator in its file, 0..255.
      flags: terminal kind and bounds.
      codes: P codes 1..63 in canonical move order, one per legal move.
      edges: the visited prefix of the edges in descending P (ties in canonical order).
      run: number of the file's run in which the evaluator (or the rules) answered, 0..2**20 - 1; 0 if
        unknown, and in a graph without a file.
      known: the edges with those of moves that were searched apart; empty if there is no such move.
    """

    words: tuple[int, ...]
    v: float
    d: int
    evaluator: int
    flags: int
    codes: bytes
    edges: tuple[Edge, ...]
    run: int = 0
    known: tuple[Edge, ...] = ()

    @property
    def terminal(self) -> int:
        """NOT_TERMINAL, CHECKMATE, STALEMATE or DEAD."""
        return self.flags & TERMINAL_MASK

    @property
    def bounds(self) -> Bounds:
        """Proven lower and upper result, in -1, 0, 1: the flags' bounds tightened by the edges."""
        return self._bounds_and_proof()[0]

    @property
    def proof(self) -> Proof | None:
        """The exact proof of the position, None if nothing is proven."""
        return self._bounds_and_proof()[1]

    def _bounds_and_proof(self) -> tuple[Bounds, Proof | None]:
        tally, covers = kernel.no_tally(), 0 < len(self.codes) == len(self.edges)
        for edge in self.edges:
            tally = kernel.tallied(tally, edge.n - edge.r, edge.q, edge.d)
        flags = kernel.tightened(self.flags, tally, covers)
        lower, upper = bounds = kernel.lower_in(flags), kernel.upper_in(flags)
        if lower != upper:
            return bounds, None
        if lower == 0 or not self.codes:
            return bounds, Proof(lower, 0 if lower else None, 0)
        clock, known = clock_of_words(self.words), int(kernel.mate_kept(self.v, self.d))
        mate, plies = kernel.decisive_plies(lower == 1, tally, covers, clock, known)
        return bounds, Proof(lower, None if mate < 0 else mate, plies)

    def bounds_at(self, clock: int) -> tuple[int, int]:
        """Returns the bounds that hold for a path that reaches the position with this halfmove clock.

        A win or a loss holds if the mate, or the next move that resets the clock, comes before the 50-move
        rule; a draw and the end of a game always hold.
        """
        (lower, upper), proof = self._bounds_and_proof()
        if proof and not proof.holds_at(clock):
            return min(lower, 0), max(upper, 0)
        return lower, upper

    def proof_at(self, clock: int) -> Proof | None:
        """Returns the exact proof that holds for a path reaching the position with this halfmove clock."""
        proof = self.proof
        return proof if proof and proof.holds_at(clock) else None

    @property
    def v_draw(self) -> float:
        """The evaluator's draw probability, in [0, 1]."""
        return share_of(self.v, self.d) / D_SCALE

    @property
    def visits(self) -> int:
        """Node N = 1 + sum of edge n."""
        return 1 + sum(edge.n for edge in self.edges)

    @property
    def priors(self) -> list[float]:
        """P by canonical move index; sums to 1."""
        return priors_from_codes(self.codes)

    @property
    def order(self) -> list[int]:
        """Canonical move indices in descending P: `edges[k]` belongs to move `order[k]`."""
        return prior_order(self.codes)


def flags_of(bounds: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Returns the flags of non-terminal positions with these bounds, `[R, 2]`.

    >>> flags_of(np.array([[-1, 1], [0, 0]], np.int8)).tolist()
    [32, 20]
    """
    raised = bounds.astype(np.int64) + 1
    flags: NDArray[np.uint8] = (raised[:, 0] << LOWER_SHIFT | raised[:, 1] << UPPER_SHIFT).astype(np.uint8)
    return flags


def prior_codes(priors: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Returns the 6-bit codes of priors: `round(63 * p ** (1/4))`, at least 1, in single precision.

    >>> prior_codes(np.array([1.0, 0.05, 0.0], np.float32)).tolist()
    [63, 30, 1]
    """
    codes = np.empty(len(priors), np.uint8)
    kernel.fill_prior_codes(owned(priors, np.float32), codes)
    return codes


def priors_from_codes(codes: bytes | Sequence[int]) -> list[float]:
    """Returns the priors of P codes: `code ** 4`, divided by their sum.

    >>> priors_from_codes([30, 30])
    [0.5, 0.5]
    """
    powers = [int(c) ** 4 for c in codes]
    total = sum(powers)
    return [power / total for power in powers]


def prior_order(codes: bytes | Sequence[int]) -> list[int]:
    """Returns the indices of the codes, largest code first, equal codes in ascending index."""
    return sorted(range(len(codes)), key=lambda i: -codes[i])


# ------------------------------------------------------------------ columns
def owned(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Returns the array or a copy, contiguous and writable: other kinds would compile another variant."""
    if type(array) is np.ndarray and array.dtype == dtype and array.flags.carray:
        return array
    return np.require(array, dtype, ["C", "W"])


# the columns of a batch: one entry per record (of `packed`, POSITION_WORDS), P code or edge; then the offsets
_BY_RECORD = {"packed": "u8", "v": "f4", "d": "u2", "evaluator": "u1", "run": "u4", "flags": "u1"}
_BY_CODE = {"codes": "u1"}
_BY_EDGE = {"n": "u4", "r": "u4", "q": "f4", "edge_d": "u2"}
_OFFSETS = {"code_offsets": "i8", "edge_offsets": "i8"}
COLUMNS = {name: np.dtype(kind) for name, kind in (_BY_RECORD | _BY_CODE | _BY_EDGE | _OFFSETS).items()}


class RecordBatch(Columns):
    """Many records as columns, the form in which arena, store and kernels exchange them."""

    def __init__(self, **columns: NDArray[Any]) -> None:
        """Takes the arrays as they are, or copies where dtype or layout differ."""
        super().__init__(**{name: owned(columns[name], kind).reshape(-1) for name, kind in COLUMNS.items()})

    @property
    def words(self) -> NDArray[np.uint64]:
        """`[R, 10]` packed positions, Polyglot key in the last column."""
        return np.asarray(self.packed).reshape(-1, POSITION_WORDS)

    def __len__(self) -> int:
        return len(self.v)

    def record(self, i: int) -> NodeRecord:
        """Returns record `i` as a value."""
        codes = self.codes[self.code_offsets[i] : self.code_offsets[i + 1]]
        a, b = int(self.edge_offsets[i]), int(self.edge_offsets[i + 1])
        rows = (column[a:b].tolist() for column in (self.n, self.r, self.q, self.edge_d))
        return NodeRecord(
            words=tuple(self.words[i].tolist()),
            v=float(self.v[i]),
            d=int(self.d[i]),
            evaluator=int(self.evaluator[i]),
            flags=int(self.flags[i]),
            codes=codes.tobytes(),
            edges=tuple(map(Edge, *rows)),
            run=int(self.run[i]),
        )

    @classmethod
    def from_records(cls, records: Sequence[NodeRecord]) -> RecordBatch:
        """Returns records as columns."""
        edges = [edge for record in records for edge in record.edges]
        columns = {name: np.array([getattr(r, name) for r in records]) for name in (*_BY_RECORD,)[1:]}
        columns |= {name: np.array([getattr(e, name) for e in edges], COLUMNS[name]) for name in "nrq"}
        return cls(
            **columns,
            packed=np.array([r.words for r in records], np.uint64),
            code_offsets=_offsets([len(r.codes) for r in records]),
            codes=np.frombuffer(b"".join(r.codes for r in records), np.uint8),
            edge_offsets=_offsets([len(r.edges) for r in records]),
            edge_d=np.array([e.d for e in edges], np.uint16),
        )

    @classmethod
    def empty(cls, records: int, codes: int, edges: int) -> RecordBatch:
        """Returns zeroed columns for these numbers of records, codes and edges."""
        batch = cls.room(records, codes, edges)
        for column in batch.arrays():
            column[:] = 0
        return batch

    @classmethod
    def room(cls, records: int, codes: int, edges: int) -> RecordBatch:
        """Returns uninitialised columns; only the first offsets are set, to 0."""
        sizes = dict.fromkeys(_BY_RECORD, records) | dict.fromkeys(_BY_CODE, codes)
        sizes |= dict.fromkeys(_BY_EDGE, edges) | dict.fromkeys(_OFFSETS, records + 1)
        columns: dict[str, NDArray[Any]] = {name: np.empty(sizes[name], COLUMNS[name]) for name in COLUMNS}
        columns["packed"] = np.empty(POSITION_WORDS * records, np.uint64)
        for name in _OFFSETS:
            columns[name][0] = 0
        return cls(**columns)

    @classmethod
    def concat(cls, batches: Sequence[RecordBatch]) -> RecordBatch:
        """Returns the records of all batches in one."""
        if len(batches) < 2:
            return batches[0] if batches else cls.empty(0, 0, 0)
        columns = {name: np.concatenate([getattr(b, name) for b in batches]) for name in COLUMNS}
        for name in _OFFSETS:
            lengths = [np.diff(getattr(batch, name)) for batch in batches]
            columns[name] = np.concatenate([np.zeros(1, np.int64), *lengths]).cumsum()
        return cls(**columns)

    def copied(self) -> RecordBatch:
        """Returns a copy whose arrays keep no larger ones in memory."""
        return RecordBatch(**{name: getattr(self, name).copy() for name in COLUMNS})

    def part(self, first: int, last: int) -> RecordBatch:
        """Returns records `first` to `last` (exclusive) as views of these columns."""
        columns = {name: getattr(self, name)[first:last] for name in _BY_RECORD}
        columns["packed"] = self.words[first:last]
        for offsets, names in zip(_OFFSETS, (_BY_CODE, _BY_EDGE), strict=True):
            its = getattr(self, offsets)
            columns |= {name: getattr(self, name)[int(its[first]) : int(its[last])] for name in names}
            columns[offsets] = its[first : last + 1] - its[first]
        return RecordBatch(**columns)


def _offsets(lengths: list[int]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


@cache
def board_tables() -> NDArray[np.uint64]:
    """Returns the table of the board kernels."""
    return owned(load_tables(), np.uint64)


def take(batch: RecordBatch, order: Places) -> RecordBatch:
    """Returns the records of a batch at the indices `order`."""
    if len(order) == len(batch) and bool((order == np.arange(len(order))).all()):
        return batch
    codes, edges = (
        (offsets[order + 1] - offsets[order]).sum() for offsets in (batch.code_offsets, batch.edge_offsets)
    )
    out = RecordBatch.room(len(order), int(codes), int(edges))
    kernel.gather(batch, order, out)
    return out


# ------------------------------------------------------------------ order, identity and keys

U64s = NDArray[np.uint64]
Places = NDArray[np.int64]


def identities(words: U64s) -> U64s:
    """Returns the identity of each record, `[R, 9]`: the position, and its clock only above 75."""
    out: U64s = words[:, :IDENTITY_WORDS].copy()
    clocks = out[:, META] >> np.uint64(CLOCK_SHIFT) & np.uint64(CLOCK_BITS)
    out[clocks <= FREE_CLOCK, META] &= np.uint64(WITHOUT_CLOCK)
    return out


def marks_of(words: U64s) -> list[bytes]:
    """Returns the identity of each record as bytes."""
    marks: list[Any] = identities(words).view(np.dtype((np.void, 8 * IDENTITY_WORDS))).ravel().tolist()
    return marks


def keys_of(words: U64s) -> U64s:
    """Returns the keys of packed positions."""
    keys = np.empty(len(words), np.uint64)
    fill_keys(board_tables(), owned(words, np.uint64).reshape(-1), keys)
    return keys


def sort_keys(words: U64s) -> U64s:
    """Returns the sort keys of packed positions, `[R]`; neighbours in this order are similar positions."""
    keys = np.empty(len(words), np.uint64)
    fill_sort_keys(owned(words, np.uint64).reshape(-1), keys)
    return keys


def newest_in_order(words: U64s, keys: U64s) -> Places:
    """Returns the indices of records in the order of a segment, only the first record of each position.

    Args:
      words: `[R, 10]` packed positions. keys: `[R]` their sort keys.
    """
    places = np.argsort(keys, kind="stable")  # faster on records that are already in order
    return places[: settle_ties(owned(words, np.uint64).reshape(-1), keys, places)]
