"""The table `opinion`: values of the file's positions from evaluators other than its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...position.board import clock_of_words, key_text_of_words
from .columns import TABLES
from .rows import checked, insert, listed, rows

if TYPE_CHECKING:
    from ..store import Store

COLUMNS = tuple(TABLES["opinion"].columns)
BY_VALUE, BY_POLICY = "value", "policy"
_ORDER = {BY_VALUE: "n * abs(q - second_q) DESC, n DESC", BY_POLICY: "n DESC"}


_row = attrgetter(*COLUMNS)


@dataclass(frozen=True, slots=True)
class Opinion:
    """One row; values are seen by the side to move.

    Attributes:
      key: of the position. evaluator: number of the second evaluator. run: the run that called it.
      fen: the position. n: node N at the last update of the row.
      q, draw: V of the file's own evaluator, and its draw probability. best_move: its first choice, UCI.
      second_q, second_draw, second_best_move: those of the second evaluator.
      policy: its P codes in canonical order of the moves, as in a record.
    """

    key: str
    evaluator: int
    run: int
    fen: str
    n: int
    q: float
    draw: float
    second_q: float
    second_draw: float
    best_move: str
    second_best_move: str
    policy: bytes


def known(store: Store, evaluator: int, keys: Sequence[str]) -> dict[str, Opinion]:
    """Returns the opinions of an evaluator on some positions, by key."""
    where = "WHERE evaluator = ? AND key IN (SELECT value FROM json_each(?))"
    values = (evaluator, json.dumps(list(keys)))
    return {row[0]: Opinion(*row) for row in listed(store, "opinion", where, values)}


def find(store: Store, evaluator: int, words: NDArray[np.uint64]) -> list[Opinion | None]:
    """Returns an evaluator's opinion on each packed position (`[K, 10]`), None where there is none.

    An opinion at another halfmove clock does not count.
    """
    positions = words.tolist()
    opinions = known(store, evaluator, [key_text_of_words(position) for position in positions])
    found = [opinions.get(key_text_of_words(position)) for position in positions]
    return [
        row if row and int(row.fen.split()[4]) == clock_of_words(position) else None
        for row, position in zip(found, positions, strict=True)
    ]


def write(store: Store, opinions: Iterable[Opinion]) -> None:
    """Writes rows, replacing those of the same position and evaluator; call it within a transaction."""
    in_order = sorted(map(_row, opinions))  # by key, so that SQLite writes one page after the other
    insert(store.connection, "opinion", COLUMNS, in_order)


def counts(store: Store) -> dict[int, int]:
    """Returns the number of opinions of each evaluator, by evaluator number."""
    with store.reading() as connection:
        found = connection.execute("SELECT evaluator, count(*) FROM opinion GROUP BY evaluator")
        return dict(checked(found, "opinion.evaluator", "opinion.n"))


def ranked(store: Store, evaluator: int, by: str, min_visits: int) -> Iterator[Opinion]:
    """Yields the opinions of an evaluator, the most important first, as far as the table tells.

    Args:
      by: BY_VALUE: by visits times the difference of V. BY_POLICY: by visits.
      min_visits: opinions on positions of fewer visits are left out.
    """
    where = f"WHERE evaluator = ? AND n >= ? ORDER BY {_ORDER[by]}, key"
    with store.reading() as connection:
        found = rows(connection, "opinion", COLUMNS, where, (evaluator, min_visits))
        yield from (Opinion(*row) for row in found)
