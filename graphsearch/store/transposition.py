"""Transposition entries as values, and the table that holds them in memory.

`transposition_kernel.py` has the fields of the data word; `schema/entries.md` has the file's format.
"""

from __future__ import annotations

from dataclasses import dataclass

import chess
import numpy as np

from ..jit.types import uint64
from ..position.board import decode_move, encode_move, key_of, pack
from ..position.values import LEAST_MATE, MATE
from . import transposition_kernel as kernel
from .transposition_kernel import Words

ENTRY_BYTES = 17  # of one place in memory
LEAST_PLACES = 1 << 10
BOUNDS = ("", "upper", "lower", "exact")
TYPES = ("", "pv", "cut", "all")


@dataclass(frozen=True, slots=True)
class Entry:
    """The result of a fixed-depth search, or a proof, for one position.

    Attributes:
      value: thousandths of a pawn for the side to move; MATE - n: it mates in n plies; n - MATE: it is mated.
      depth: full-width plies searched; PROOF: the entry holds at every depth.
      bound: `exact`, `lower` (at least the value), `upper` (at most), or empty if only the move is known.
      move: best move; None if none is known.
      kind: expected node type: `pv`, `cut`, `all` or empty.
      cut: number, from 1, of the move in order that caused the cutoff, at most 7; 0: no cutoff.
    """

    value: int
    depth: int
    bound: str
    move: chess.Move | None
    kind: str
    cut: int

    @property
    def mate_plies(self) -> int | None:
        """Plies to a proven mate, negative if the side to move is mated; None if the entry proves none."""
        if self.value >= LEAST_MATE and self.bound in ("exact", "lower"):
            return MATE - self.value
        if self.value <= -LEAST_MATE and self.bound in ("exact", "upper"):
            return -(MATE + self.value)
        return None


def decoded(data: int) -> Entry:
    """Returns the entry of a data word."""
    move = data >> kernel.MOVE_AT & kernel.MOVE_MASK
    return Entry(
        value=(data & kernel.VALUE_MASK) - kernel.VALUE_BIAS,
        depth=data >> kernel.DEPTH_AT & kernel.DEPTH_MASK,
        bound=BOUNDS[data >> kernel.BOUND_AT & kernel.BOUND_MASK],
        move=decode_move(move) if move else None,
        kind=TYPES[data >> kernel.TYPE_AT & kernel.TYPE_MASK],
        cut=data >> kernel.CUT_AT & kernel.CUT_MASK,
    )


def encoded(entry: Entry, board: chess.Board) -> int:
    """Returns the data word of an entry of a position."""
    move, bound = encode_move(entry.move) if entry.move else 0, BOUNDS.index(entry.bound)
    kind, check = TYPES.index(entry.kind), uint64(check_of(board))
    return int(kernel.packed_entry(entry.value, move, entry.depth, bound, kind, entry.cut, check))


def check_of(board: chess.Board) -> int:
    """Returns the check hash of a position, 32 bits, as the kernels compute it."""
    return int(kernel.check_of_words(np.array(pack(board), np.uint64)))


class EntryTable:
    """Entries in memory, in a fixed number of places; the least valuable are evicted. One writer."""

    def __init__(self, size: int) -> None:
        """Creates an empty table of at most `size` bytes (a power of two entries)."""
        places = LEAST_PLACES
        while 2 * places * ENTRY_BYTES <= size:
            places *= 2
        self.arrays = kernel.new_entries(places)

    @property
    def count(self) -> int:
        """Entries in the table."""
        return int(self.arrays.counters[kernel.STORED])

    @property
    def dirty_count(self) -> int:
        """Entries that are not in the file."""
        return int(self.arrays.counters[kernel.DIRTY_ENTRIES])

    def next_search(self) -> None:
        """Begins a search; entries of earlier searches are evicted first."""
        counters = self.arrays.counters
        counters[kernel.GENERATION] = counters[kernel.GENERATION] % kernel.AGE + 1

    def get(self, board: chess.Board) -> Entry | None:
        """Returns the entry of a position, None if there is none."""
        data = int(kernel.look_up(self.arrays, uint64(key_of(board)), uint64(check_of(board))))
        return decoded(data) if data else None

    def put(self, board: chess.Board, entry: Entry) -> None:
        """Writes an entry and marks it dirty."""
        kernel.write(self.arrays, uint64(key_of(board)), uint64(encoded(entry, board)))

    def enter(self, keys: Words, data: Words) -> None:
        """Adds entries read from a file; existing entries that are at least as deep stay."""
        kernel.enter(self.arrays, keys, data)

    def take_dirty(self) -> tuple[Words, Words]:
        """Returns (keys, data) of the dirty entries and marks them clean."""
        keys, data = np.zeros(self.dirty_count, np.uint64), np.zeros(self.dirty_count, np.uint64)
        kernel.take_dirty(self.arrays, keys, data)
        return keys, data

    def touch_again(self, keys: Words, data: Words) -> None:
        """Marks entries from `take_dirty` dirty again after saving failed."""
        kernel.touch_again(self.arrays, keys, data)
