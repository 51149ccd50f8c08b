"""Finding the positions of a Polyglot book, which has their keys only."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

import chess
import chess.polyglot

from ..position.board import board_of
from ..store.store import Store
from ..store.tables import games as tables
from .naming import PositionNames
from .polyglot import child_keys


class BookKeys:
    """The keys of a book, each once: 8 bytes for each entry.

    Attributes:
      disorder: the first entry that is not in its place; None if the book is sorted.
    """

    def __init__(self) -> None:
        self._keys = array("Q")
        self._entries = 0
        self._sorted = True
        self.disorder: int | None = None

    def add(self, keys: Iterable[int]) -> None:
        """Adds the keys of the next entries."""
        last = self._keys[-1] if self._keys else -1
        for key in keys:
            if key < last and self.disorder is None:
                self.disorder, self._sorted = self._entries, False
            if key != last:
                self._keys.append(key)
            last = key
            self._entries += 1

    def place(self, key: int) -> int:
        """Returns which of the distinct keys this is, -1 if it is none of the book."""
        self._sort()
        place = bisect_left(self._keys, key)
        return place if place < len(self._keys) and self._keys[place] == key else -1

    @property
    def distinct(self) -> int:
        """How many there are."""
        self._sort()
        return len(self._keys)

    def filter(self) -> bytearray:
        """Returns flags by the last bits of keys, a power of two of them; where it is 0 no key ends so."""
        flags = bytearray(1 << (8 * self.distinct).bit_length())
        for key in self._keys:
            flags[key & (len(flags) - 1)] = 1
        return flags

    def __iter__(self) -> Iterator[int]:
        self._sort()
        return iter(self._keys)

    def _sort(self) -> None:
        if not self._sorted:
            self._keys, self._sorted = array("Q", sorted(set(self._keys))), True


@dataclass(frozen=True, slots=True)
class NamedPosition:
    """A position of the book that was found, its Polyglot key, and its FEN."""

    board: chess.Board
    key: int
    fen: str


class Finder:
    """Yields each position of the book that is found, once; call `follow` with its moves before the next.

    Attributes:
      found: how many so far.
    """

    def __init__(self, store: Store, keys: BookKeys) -> None:
        self._store = store
        self._keys = keys
        self._seen = bytearray(keys.distinct)
        self._ready: deque[NamedPosition] = deque()
        self._names = PositionNames()
        self._filter = keys.filter()
        self._mask = len(self._filter) - 1
        self._around: deque[str] = deque()  # positions of which any move may lead to one of the book
        self._passed: set[int] = set()  # keys of those that are none of the book themselves
        self.found = 0

    def __iter__(self) -> Iterator[NamedPosition]:
        keys = (f"{key:016x}" for key in self._keys)
        fens = chain(tables.known_roots(self._store), tables.known_fens(self._store, keys))
        for fen in chain([chess.STARTING_FEN], fens):
            self._start(board_of(fen))
            yield from self._drained()
        while self._around and self.found < self._keys.distinct:
            self._look_around(board_of(self._around.popleft()))
            yield from self._drained()

    def _drained(self) -> Iterator[NamedPosition]:
        while self._ready:
            yield self._ready.popleft()

    def follow(self, known: NamedPosition, moves: list[chess.Move]) -> None:
        """Goes along the legal moves that the book has in a position."""
        for move, key in child_keys(known.board, moves, known.key):
            if not self._take(known.board, move, key) and self._keys.place(key) < 0:
                self._pass(key, _after(known.board, move))
        self._around.append(known.fen)

    def _pass(self, key: int, board: chess.Board) -> None:
        """Notes a position that is none of the book, but may have some of it around."""
        if key not in self._passed:
            self._passed.add(key)
            self._around.append(self._names.name(board)[1])

    def _start(self, board: chess.Board) -> None:
        """Takes in a position that is known by itself."""
        key = chess.polyglot.zobrist_hash(board)
        place = self._keys.place(key)
        if place >= 0 and not self._seen[place]:
            self._add(place, board, key)
        elif place < 0:
            self._pass(key, board)

    def _look_around(self, board: chess.Board) -> None:
        """Takes in what the legal moves of a position lead to."""
        key = chess.polyglot.zobrist_hash(board)
        maybe, mask = self._filter, self._mask
        for move, after in child_keys(board, board.generate_pseudo_legal_moves(), key):
            if maybe[after & mask]:
                self._take(board, move, after)

    def _take(self, board: chess.Board, move: chess.Move, key: int) -> bool:
        """Takes in the position after a move if it is a new one of the book; returns whether it is."""
        place = self._keys.place(key)
        if place < 0 or self._seen[place] or not board.is_legal(move):
            return False
        self._add(place, _after(board, move), key)
        return True

    def _add(self, place: int, board: chess.Board, key: int) -> None:
        self._seen[place] = 1
        self.found += 1
        self._ready.append(NamedPosition(board, key, self._names.name(board)[1]))


def _after(board: chess.Board, move: chess.Move) -> chess.Board:
    after = board.copy(stack=False)
    after.push(move)
    return after
