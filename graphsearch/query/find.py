"""Finds positions by their records: one scan of the file on all cores, portion by portion."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import InvalidParameterError, check_least
from ..store.apart import ApartMoves
from ..store.ranking import visits_of
from ..store.record import RecordBatch, take
from ..store.segment import Portion
from ..store.store import Store
from .columns import worth_of
from .diff import Found, MostVisited, OnProgress, found_in
from .steps import Mask

# ------------------------------------------------------------------ conditions on records
WIN, DRAW, LOSS, PROVEN = "win", "draw", "loss", "proven"
MEN = "men"

_RESULTS = {WIN: 1, DRAW: 0, LOSS: -1}
_LETTERS = "PNBRQK"
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": le, ">=": ge, "!=": ne, "==": eq, "=": eq, "<": lt, ">": gt,
}  # fmt: skip
_CONDITION = re.compile(rf"({MEN}|[PNBRQKpnbrqk])\s*(<=|>=|!=|==|=|<|>)\s*(\d+)")
_SIGNATURE = re.compile(r"[PNBRQK]+[pnbrqk]+")


@dataclass(frozen=True, slots=True)
class PieceCount:
    """A condition on the number of men of one kind; `letter` is a FEN letter, or `men` for all."""

    letter: str
    comparison: str
    number: int

    def mask(self, words: NDArray[np.uint64]) -> Mask:
        """Returns a mask of the packed positions that satisfy it, `[R]`."""
        if self.letter == MEN:
            men = words[:, 6] | words[:, 7]
        else:
            side = 6 if self.letter.isupper() else 7
            men = words[:, _LETTERS.index(self.letter.upper())] & words[:, side]
        counted = np.bitwise_count(men).astype(np.int64)
        return np.asarray(_COMPARISONS[self.comparison](counted, self.number))


def read_pieces(text: str) -> tuple[PieceCount, ...]:
    """Returns the conditions of a text such as `P<=4, Q=0`, or of a signature such as `KRPkrp`.

    Letters are FEN letters, White's in capitals; `men` counts all. A signature lists all men of both sides.

    Raises:
      InvalidParameterError: if it is neither; the message names the wrong part.

    >>> read_pieces("Q=0, men<=6")[1]
    PieceCount(letter='men', comparison='<=', number=6)
    >>> len(read_pieces("KRPkrp"))
    12
    """
    found: list[PieceCount] = []
    for part in map(str.strip, text.split(",")):
        condition = _CONDITION.fullmatch(part)
        if condition:
            found.append(PieceCount(condition[1], condition[2], int(condition[3])))
        elif _SIGNATURE.fullmatch(part) and part.count("K") == part.count("k") == 1:
            found += [PieceCount(x, "=", part.count(x)) for x in _LETTERS + _LETTERS.lower()]
        else:
            raise InvalidParameterError(
                f"{part!r} is not a condition on pieces; write, for example, P<=4, q=0, men<=6,"
                " or all men of both sides such as KRPkrp"
            )
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Conditions that a position must satisfy, all of them; None: any.

    Attributes:
      min_q, max_q: node Q, seen by the side to move. side: `w` or `b`, the side to move.
      bounds: `win`, `draw`, `loss` (proven for the side to move) or `proven` (any of them).
    """

    min_n: int | None = None
    max_n: int | None = None
    min_q: float | None = None
    max_q: float | None = None
    bounds: str | None = None
    pieces: tuple[PieceCount, ...] = ()
    side: str | None = None

    def __post_init__(self) -> None:
        if self.bounds not in (None, WIN, DRAW, LOSS, PROVEN):
            raise InvalidParameterError(f"bounds must be win, draw, loss or proven, not {self.bounds!r}")
        if self.side not in (None, "w", "b"):
            raise InvalidParameterError(f"side must be w or b, not {self.side!r}")
        for name, low, high in (("n", self.min_n, self.max_n), ("q", self.min_q, self.max_q)):
            if low is not None and high is not None and low > high:
                raise InvalidParameterError(f"min_{name} {low} is above max_{name} {high}; nothing can match")

    def mask(self, batch: RecordBatch) -> Mask:
        """Returns a mask of the records that satisfy the conditions, `[R]`."""
        found = np.ones(len(batch), bool)
        if self.side:
            found &= (batch.words[:, 8] & np.uint64(1)) == (self.side == "b")
        for piece in self.pieces:
            found &= piece.mask(batch.words)
        if self.bounds or (self.min_q, self.max_q) != (None, None):
            worth = worth_of(batch)
            found &= _between(worth.q, self.min_q, self.max_q)
            if self.bounds:
                found &= worth.lower == worth.upper
            if self.bounds in _RESULTS:
                found &= worth.lower == _RESULTS[self.bounds]
        found &= _between(visits_of(batch), self.min_n, self.max_n)
        return found


def _between(numbers: NDArray[Any], low: float | None, high: float | None) -> Mask:
    least, most = -math.inf if low is None else low, math.inf if high is None else high
    return np.asarray((numbers >= least) & (numbers <= most))


# ------------------------------------------------------------------ the scan
def find(
    path: str | os.PathLike[str],
    filters: Filters,
    *,
    limit: int | None = None,
    on_progress: OnProgress | None = None,
) -> Iterator[Found]:
    """Yields the positions that satisfy all conditions, as they are read, in the order of the file.

    With a limit it reads the whole file first, and yields the positions with most visits, these first. If
    reading fails, or `on_progress` raises an error, it yields those of the part that was read, then raises.
    A position that a search adds or changes meanwhile is reported in its old or its new state.

    Args:
      limit: most positions; None for all.
      on_progress: called with the records read and all records.

    Raises:
      InvalidParameterError: if the limit is below 1.
      CorruptRecordError: if a block is damaged.
    """
    check_least(1, limit=limit)
    with Store.open(path, read_only=True) as store:
        known, done = ApartMoves.of(store).completed_in, 0

        def solve(portion: Portion) -> tuple[int, RecordBatch]:  # on any thread
            batch, newest = portion.versions()
            return len(newest), take(batch, newest[filters.mask(batch)[newest]])

        top, fault = None if limit is None else MostVisited(limit), None
        try:
            for size, hits in store.portions(solve):
                if top:
                    top.keep(hits)
                elif len(hits):
                    yield from found_in(hits, known)
                done += size
                if on_progress:
                    on_progress(done, max(done, store.node_count))
        except Exception as error:
            fault = error
        if top is not None:
            yield from top.found(known)
        if fault:
            raise fault
