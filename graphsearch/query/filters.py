"""Conditions of `find` on records, evaluated for thousands at once."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import InvalidParameterError
from ..store.record.node import LOWER_SHIFT, UPPER_SHIFT, RecordBatch
from ..store.record.ranking import visits_of

WIN, DRAW, LOSS, PROVEN = "win", "draw", "loss", "proven"
MEN = "men"

_RESULTS = {WIN: 1, DRAW: 0, LOSS: -1}
_LETTERS = "PNBRQK"
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": le, ">=": ge, "!=": ne, "==": eq, "=": eq, "<": lt, ">": gt,
}  # fmt: skip
_CONDITION = re.compile(rf"({MEN}|[PNBRQKpnbrqk])\s*(<=|>=|!=|==|=|<|>)\s*(\d+)")
_SIGNATURE = re.compile(r"[PNBRQK]+[pnbrqk]+")

Mask = NDArray[np.bool_]


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
        found: Mask = _COMPARISONS[self.comparison](counted, self.number)
        return found


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
    parts = [part.strip() for part in text.split(",")]
    found: list[PieceCount] = []
    for part in parts:
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
      min_n, max_n: node N. min_q, max_q: node Q, seen by the side to move.
      bounds: `win`, `draw`, `loss` (proven for the side to move) or `proven` (any of them).
      pieces: of `read_pieces`. side: `w` or `b`, the side to move.
      in_games: whether the position is in the table `game_position`.
      in_book: a book's name, or an empty text for any book: whether the position is in its `book_position`.
      min_ply, max_ply: fewest half-moves from the start of a game, from the tables of games and books (the
        smaller of both). A record has no ply of its own, as many lines lead to it: positions in neither table
        do not pass.
    """

    min_n: int | None = None
    max_n: int | None = None
    min_q: float | None = None
    max_q: float | None = None
    bounds: str | None = None
    pieces: tuple[PieceCount, ...] = ()
    side: str | None = None
    in_games: bool = False
    in_book: str | None = None
    min_ply: int | None = None
    max_ply: int | None = None

    def __post_init__(self) -> None:
        if self.bounds not in (None, WIN, DRAW, LOSS, PROVEN):
            raise InvalidParameterError(f"bounds must be win, draw, loss or proven, not {self.bounds!r}")
        if self.side not in (None, "w", "b"):
            raise InvalidParameterError(f"side must be w or b, not {self.side!r}")
        for name, low, high in (
            ("n", self.min_n, self.max_n), ("q", self.min_q, self.max_q), ("ply", self.min_ply, self.max_ply)
        ):  # fmt: skip
            if low is not None and high is not None and low > high:
                raise InvalidParameterError(f"min_{name} {low} is above max_{name} {high}; nothing can match")

    @property
    def asks_tables(self) -> bool:
        """Whether a condition needs the tables of games or books."""
        return (
            self.in_games or self.in_book is not None or self.min_ply is not None or self.max_ply is not None
        )

    def mask(self, batch: RecordBatch) -> Mask:
        """Returns a mask of the records that satisfy the conditions on records, `[R]`."""
        found = np.ones(len(batch), bool)
        if self.side:
            found &= (batch.words[:, 8] & np.uint64(1)) == (self.side == "b")
        for piece in self.pieces:
            found &= piece.mask(batch.words)
        if self.bounds:
            lower, upper = bounds_of(batch).T
            found &= lower == upper
            if self.bounds != PROVEN:
                found &= lower == _RESULTS[self.bounds]
        if self.min_n is not None or self.max_n is not None:
            found &= _between(visits_of(batch), self.min_n, self.max_n)
        if self.min_q is not None or self.max_q is not None:
            found &= _between(values_of(batch), self.min_q, self.max_q)
        return found


def _between(numbers: NDArray[Any], low: float | None, high: float | None) -> Mask:
    found = np.ones(len(numbers), bool)
    if low is not None:
        found &= numbers >= low
    if high is not None:
        found &= numbers <= high
    return found


def bounds_of(batch: RecordBatch) -> NDArray[np.int8]:
    """Returns the proven lower and upper result of each record, `[R, 2]`, in -1, 0, 1."""
    flags = batch.flags.astype(np.int8)
    return np.stack([(flags >> LOWER_SHIFT & 3) - 1, (flags >> UPPER_SHIFT & 3) - 1], axis=1)


def values_of(batch: RecordBatch) -> NDArray[np.float64]:
    """Returns node Q of each record, `[R]`, as `store.record.node.node_value`."""
    weighed = (batch.n - batch.r).astype(np.float64) * batch.q
    sums = np.concatenate([np.zeros(1), np.cumsum(weighed)])
    total = batch.v + sums[batch.edge_offsets[1:]] - sums[batch.edge_offsets[:-1]]
    bounds = bounds_of(batch)
    found: NDArray[np.float64] = np.clip(total / visits_of(batch), bounds[:, 0], bounds[:, 1])
    return found
