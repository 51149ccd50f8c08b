"""Compares two Polyglot books: positions in one of them only, and moves with different shares.

A book stores keys only. To find the positions and the lines to them, the search follows the moves of both
books from the start of the game, and single moves that are in neither, such as those of the other side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import chess
import numpy as np
from numpy.typing import NDArray

from ..base.answer import Answer
from ..position.board import decode_move, pack
from ..position.lines import sans_of
from ..position.words import KEY, KINGS
from ..query.steps import Floats, Ints, Words, legal_codes, positions_after
from .polyglot import CASTLING, BookFile, Entries, legal_move, written_move

AT_ONCE = 1 << 12  # positions expanded per batch


@dataclass(frozen=True, slots=True)
class BookMoveShare(Answer):
    """A move with its weights in both books.

    Attributes:
      move: SAN where the position is known, else in the book's notation.
      old, new: the weight in each book, None if it lacks the move. old_share, new_share: in [0, 1].
    """

    move: str
    old: int | None
    new: int | None
    old_share: float
    new_share: float


@dataclass(frozen=True, slots=True)
class BookDifference(Answer):
    """A position with different entries in the two books.

    Attributes:
      key: hex. position: FEN; None if no line of the books leads there. line: the moves to it, in SAN.
      difference: half the sum of the absolute differences of the shares, in [0, 1].
      moves: by descending share.
    """

    key: str
    position: str | None
    line: tuple[str, ...] | None
    difference: float
    moves: tuple[BookMoveShare, ...]


@dataclass(slots=True)
class BookDiff(Answer):
    """The difference of two books.

    Attributes:
      old, new: the books. both: positions in both; same: those with the same shares.
      only_old, only_new: positions in one only. changes: positions in both, the largest differences first.
      gone, come: positions in `old` only and in `new` only, the heaviest first.
    """

    old: BookFile
    new: BookFile
    both: int = 0
    same: int = 0
    only_old: int = 0
    only_new: int = 0
    changes: list[BookDifference] = field(default_factory=list)
    gone: list[BookDifference] = field(default_factory=list)
    come: list[BookDifference] = field(default_factory=list)


def diff_books(old: BookFile, new: BookFile, *, top: int) -> BookDiff:
    """Returns the difference of two books, with at most `top` positions in each list."""
    sides = _Side(old.rows), _Side(new.rows)
    keys = np.union1d(sides[0].keys, sides[1].keys)
    there = [np.isin(keys, side.keys, assume_unique=True) for side in sides]
    difference = _difference(keys, sides)
    weight = sides[0].weight_of(keys) + sides[1].weight_of(keys)
    common, alone = there[0] & there[1], (there[0] & ~there[1], there[1] & ~there[0])
    changed = np.flatnonzero(common & (difference > 0))
    lists = [changed[np.lexsort((-weight[changed], -difference[changed]))]]
    for one in alone:
        rows = np.flatnonzero(one)
        lists.append(rows[np.argsort(-weight[rows], kind="stable")])
    lines = _Lines(sides)
    changes, gone, come = (
        [_described(int(keys[row]), float(difference[row]), sides, lines) for row in rows[:top]]
        for rows in lists
    )
    return BookDiff(
        old=old,
        new=new,
        both=int(common.sum()),
        same=int(common.sum()) - len(changed),
        only_old=int(alone[0].sum()),
        only_new=int(alone[1].sum()),
        changes=changes,
        gone=gone,
        come=come,
    )


class _Side:
    """One book by position. `keys`: sorted keys of its positions; `entry_keys`: the key of each entry."""

    def __init__(self, rows: Entries) -> None:
        self.entry_keys = rows["key"].astype(np.uint64)
        self.moves, self.weights = (rows[name].astype(np.int64) for name in ("move", "weight"))
        self.keys, self._first, self._of = np.unique(self.entry_keys, return_index=True, return_inverse=True)
        self._sums = np.bincount(self._of, self.weights, len(self.keys))

    @property
    def shares(self) -> Floats:
        """The share of each entry in its position."""
        return self.weights / np.maximum(self._sums[self._of], 1)

    def weight_of(self, keys: Words, missing: float = 0.0) -> Floats:
        """Returns the total weight of each position's moves; `missing` for a position not in the book."""
        places, hits = self._places(keys)
        return np.where(hits, np.append(self._sums, 0.0)[places], missing)

    def entries_of(self, key: int) -> dict[int, tuple[int, float]]:
        """Returns the weight and share of each move of a position, by raw move."""
        places, hits = self._places(np.array([key], np.uint64))
        if not hits[0]:
            return {}
        first, total = int(self._first[places[0]]), float(self._sums[places[0]])
        found: dict[int, tuple[int, float]] = {}
        for row in range(first, int(np.searchsorted(self.entry_keys, np.uint64(key), "right"))):
            weight = int(self.weights[row]) + found.get(int(self.moves[row]), (0, 0.0))[0]
            found[int(self.moves[row])] = (weight, weight / max(total, 1.0))
        return found

    def moves_of(self, keys: Words) -> tuple[Ints, Ints]:
        """Returns the index of each move's position, and the raw moves."""
        begins, ends = (np.searchsorted(self.entry_keys, keys, side) for side in ("left", "right"))
        counts = ends - begins
        of = np.repeat(np.arange(len(keys)), counts)
        rows = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts) + begins[of]
        return of, self.moves[rows]

    def _places(self, keys: Words) -> tuple[Ints, NDArray[np.bool_]]:
        places = np.searchsorted(self.keys, keys)
        return places, np.append(self.keys, np.uint64(0))[places] == keys if len(self.keys) else keys != keys


def _difference(keys: Words, sides: tuple[_Side, _Side]) -> Floats:
    """Returns half the sum of |share - share'| over the moves of each position."""
    all_keys = np.concatenate([side.entry_keys for side in sides])
    moves = np.concatenate([side.moves for side in sides])
    shares = np.concatenate([sides[0].shares, -sides[1].shares])
    if not len(all_keys):
        return np.zeros(0)
    order = np.lexsort((moves, all_keys))
    all_keys, moves = all_keys[order], moves[order]
    first = np.append(True, (all_keys[1:] != all_keys[:-1]) | (moves[1:] != moves[:-1]))
    begins = np.flatnonzero(first)
    parts = np.abs(np.add.reduceat(shares[order], begins))
    parts[parts < 1e-12] = 0.0  # rounding errors
    return np.bincount(np.searchsorted(keys, all_keys[begins]), parts, len(keys)) / 2


class _Lines:
    """The shortest line from the start of the game to each position of the two books."""

    def __init__(self, sides: tuple[_Side, _Side]) -> None:
        self._sides = sides
        self._from: dict[int, tuple[int, int]] = {}  # key -> key before, and move code
        start = pack(chess.Board()).reshape(1, -1)
        self._start = int(start[0, KEY])
        frontier = start
        while len(frontier):
            frontier = np.concatenate([start[:0], *self._steps(frontier)])

    def _steps(self, frontier: Words) -> Iterator[Words]:
        """Yields the frontier's new children: by book moves, or by other moves to positions of a book."""
        for begin in range(0, len(frontier), AT_ONCE):
            words = np.ascontiguousarray(frontier[begin : begin + AT_ONCE])
            counts, legal, _ = legal_codes(words)
            of = np.repeat(np.arange(len(words)), counts)
            codes = legal[np.arange(legal.shape[1]) < counts[:, None]]
            after, _ = positions_after(words, of, codes)
            wanted = np.isin(of << 16 | codes, self._book_moves(words, legal))
            for side in self._sides:
                wanted |= side.weight_of(after[:, KEY], missing=-1.0) >= 0
            rows = np.flatnonzero(wanted)
            yield self._new(words[of[rows], KEY], codes[rows], after[rows])

    def _book_moves(self, words: Words, legal: NDArray[np.uint16]) -> Ints:
        """Returns the legal moves of both books, each packed as position index << 16 | code."""
        found = []
        for side in self._sides:
            of, raw = side.moves_of(words[:, KEY])
            of, codes = _legal(words, legal, of, raw)
            found.append(of << 16 | codes)
        return np.concatenate(found)

    def _new(self, before: Words, codes: NDArray[np.uint16], after: Words) -> Words:
        """Returns the positions reached for the first time, and records their parents and moves."""
        new = []
        keys = zip(before.tolist(), codes.tolist(), after[:, KEY].tolist(), strict=True)
        for row, (parent, code, key) in enumerate(keys):
            if key != self._start and key not in self._from:
                self._from[key] = parent, code
                new.append(row)
        return after[np.array(new, np.int64)]

    def board(self, key: int) -> chess.Board | None:
        """Returns a position with its line as move stack; None if there is no line."""
        codes, at = list[int](), key
        while at != self._start:
            if at not in self._from:
                return None
            at, code = self._from[at]
            codes.append(code)
        board = chess.Board()
        for code in reversed(codes):
            board.push(decode_move(code))
        return board


def _legal(words: Words, legal: NDArray[np.uint16], of: Ints, raw: Ints) -> tuple[Ints, Ints]:
    """Returns the position index and code of each legal raw move; castling becomes a move of the king."""
    legal = legal[of]
    codes = raw >> 6 & 63 | (raw & 63) << 6 | raw >> 12 << 12
    hits = (legal == codes[:, None]).any(1)
    for (king, rook), target in CASTLING.items():
        castles = (
            ~hits & (codes == (king | rook << 6)) & (words[of, KINGS] >> np.uint64(king) & np.uint64(1) > 0)
        )
        codes[castles] = king | target << 6
    hits = (legal == codes[:, None]).any(1) & (codes > 0)
    return of[hits], codes[hits]


def _described(key: int, difference: float, sides: tuple[_Side, _Side], lines: _Lines) -> BookDifference:
    board = lines.board(key)
    old, new = (side.entries_of(key) for side in sides)
    moves = [
        BookMoveShare(
            _name(board, raw),
            old[raw][0] if raw in old else None,
            new[raw][0] if raw in new else None,
            old[raw][1] if raw in old else 0.0,
            new[raw][1] if raw in new else 0.0,
        )
        for raw in old | new
    ]
    moves.sort(key=lambda move: -max(move.old_share, move.new_share))
    line = None if board is None else sans_of(board.root(), board.move_stack)
    return BookDifference(
        f"{key:016x}", None if board is None else board.fen(), line, difference, tuple(moves)
    )


def _name(board: chess.Board | None, raw: int) -> str:
    """Returns a move in SAN; in UCI or hex if the position is unknown or the move illegal."""
    move = None if board is None else legal_move(board, raw)
    if board is not None and move is not None:
        return board.san(move)
    written = written_move(raw)
    return written.uci() if written else f"{raw:#06x}"
