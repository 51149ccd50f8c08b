"""Looks up openings by position, so transpositions count; reads `openings.txt` on first use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

import chess
import chess.polyglot
import numpy as np
from numpy.typing import NDArray

from .board import board_of

DEEPEST = 40  # plies; the longest line of the table has fewer


@dataclass(frozen=True, slots=True)
class Opening:
    """An opening: its ECO code, its name such as `Sicilian Defense: Najdorf Variation`, its moves in SAN."""

    eco: str
    name: str
    line: tuple[str, ...]

    def __str__(self) -> str:
        """Returns code and name."""
        return f"{self.eco} {self.name}"

    def as_dict(self) -> dict[str, str]:
        """Returns code and name, for JSON."""
        return {"eco": self.eco, "name": self.name}


def opening_at(board: chess.Board) -> Opening | None:
    """Returns the opening of a position, by any move order; None if the table does not have it.

    >>> print(opening_at(chess.Board("rnbqkbnr/pp1ppppp/8/2p5/4P3/8/PPPP1PPP/RNBQKBNR w KQkq - 0 2")))
    B20 Sicilian Defense
    """
    return _table().get(chess.polyglot.zobrist_hash(board))


def opening_of(board: chess.Board) -> Opening | None:
    """Returns the opening of the last named position in a board's move stack; None if there is none."""
    walk = board.copy()
    while len(walk.move_stack) > DEEPEST:
        walk.pop()
    while not (found := opening_at(walk)) and walk.move_stack:
        walk.pop()
    return found


def opening_after(start: str | None, sans: Iterable[str]) -> Opening | None:
    """Returns the opening of a game: moves in SAN from the FEN `start` (None: the start position).

    >>> print(opening_after(None, "Nf3 g6 e4 c5 a3".split()))
    B27 Sicilian Defense: Hyperaccelerated Dragon
    """
    board = chess.Board() if start is None else board_of(start)
    for san in islice(sans, DEEPEST):
        board.push_san(san)
    return opening_of(board)


def opening_places(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Returns the index in `opening_names` of the opening with each Polyglot key; -1 for none."""
    known = _sorted_keys()
    places = np.searchsorted(known, keys)
    places[places == len(known)] = 0
    found: NDArray[np.int64] = np.where(known[places] == keys, places, -1)
    return found


@cache
def opening_names() -> tuple[str, ...]:
    """Returns code and name of every opening, in the order of `opening_places`."""
    return tuple(str(_table()[key]) for key in _sorted_keys().tolist())


@cache
def _sorted_keys() -> NDArray[np.uint64]:
    return np.array(sorted(_table()), np.uint64)


@cache
def _table() -> dict[int, Opening]:
    """Returns the openings by Polyglot key; the first call takes some milliseconds."""
    text = Path(__file__).with_name("openings.txt").read_text("utf-8")
    found = {}
    for row in text.splitlines():
        if row[0] != "#":
            head, _, moves = row.partition(" | ")
            key, eco, name = head.split(" ", 2)
            found[int(key, 16)] = Opening(eco, name, tuple(moves.split()))
    return found
