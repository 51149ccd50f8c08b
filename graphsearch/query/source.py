"""A graph file opened for one query, and the keys of positions after moves."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import chess
import chess.polyglot
import numpy as np

from ..base.deadline import check_time
from ..base.errors import UnknownPositionError, UnsoundRecordError
from ..position.board import (
    board_of,
    check,
    fen_of,
    key_text,
    legal_moves,
    pack_checked,
)
from ..store.apart import ApartMoves
from ..store.ranking import has_best_move, known_edges, proof_at, ranking
from ..store.record import Edge, NodeRecord
from ..store.segment import passed_over
from ..store.store import Store
from ..store.tables.books import book_roots

if TYPE_CHECKING:
    from ..store.reading import Reader

MOST_KEPT = 20_000  # records of a file, some 40 MB
LEAST_AHEAD = 32  # positions that are worth a batch: it begins by loading kernels, for some 50 ms


class KeptFile(os.PathLike[str]):
    """A graph file with records cached between queries, until the file changes; for any thread."""

    def __init__(self, path: Path, stamp: Callable[[], str]) -> None:
        """Creates an empty cache; `stamp` returns another text after the file has changed."""
        self._path, self._stamp = path, stamp
        self._of: tuple[str, dict[str, NodeRecord | None]] = ("", {})

    def __fspath__(self) -> str:
        """Returns the path of the file."""
        return str(self._path)

    def records(self) -> dict[str, NodeRecord | None]:
        """Returns the cached records of the file's present state, by `key_text`."""
        now = self._stamp()
        stamp, found = self._of
        if stamp != now or len(found) > MOST_KEPT:
            found = {}
            self._of = now, found
        return found


class Records(ABC):
    """Records for one query, each read once: of a file (`RecordSource`), or of a graph in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, NodeRecord | None] = {}

    @abstractmethod
    def _stored(self, board: chess.Board, key: str) -> NodeRecord | None:
        """Returns the record of a position that was not read before; `key` is its `key_text`."""

    def read(self, board: chess.Board, key: str = "") -> NodeRecord | None:
        """Returns the record of a position, or None if the graph does not hold it, or cannot hold it.

        Args:
          key: its `key_text`, if that is known already.
        """
        key = key or key_text(board)
        found = self._known.get(key)
        if found is not None and _stands(board, found):
            return found
        if found is not None or key not in self._known:
            found = self._known[key] = self._stored(board, key)
        return found

    def read_ahead(self, boards: Mapping[str, chess.Board]) -> None:
        """Reads records that a query needs soon in one batch, where that is quicker than one by one.

        Args:
          boards: the positions by `key_text`.
        """
        check_time()

    def wanted(self, board: chess.Board) -> NodeRecord:
        """Returns the record of a position.

        Raises:
          InvalidPositionError: if the position is not legal.
          UnknownPositionError: if the file does not hold it.
        """
        check(board)
        record = self.read(board)
        if record is None:
            raise UnknownPositionError(f"{self.path} does not hold this position: {fen_of(board)}")
        return record


class RecordSource(Records):
    """Records of one state of a graph file."""

    def __init__(self, store: Store, kept: dict[str, NodeRecord | None] | None = None) -> None:
        """Creates a source over an open file; `kept` caches records of its present state, and grows."""
        super().__init__(store.path)
        self.store = store
        self._kept = {} if kept is None else kept
        self._apart = ApartMoves.of(store)
        self._reader: Reader | None = None

    def read_ahead(self, boards: Mapping[str, chess.Board]) -> None:
        """Reads the records of positions that a query needs soon, in one batch and in kernels.

        A record takes 0.1 ms then, and 1 ms alone. What is not found is left to `read`: every record of a
        damaged file, and of one that has changed since the query began.
        """
        check_time()
        asked = {key: board for key, board in boards.items() if key not in self._kept}
        if len(asked) < LEAST_AHEAD:
            return
        words = np.array([pack_checked(board) for board in asked.values()])
        if self._reader is None:
            self._reader = self.store.reader(threads=1)
        have, records = self._reader.find(words)
        if self._reader.problems or not self._reader.is_at(self.store.catalog.segments):
            return
        keys = list(asked)
        for i, place in enumerate(np.flatnonzero(have).tolist()):
            self._kept[keys[place]] = records.record(i)

    def _stored(self, board: chess.Board, key: str) -> NodeRecord | None:
        record = self._kept_or_read(board, key)
        return record and self._apart.completed(record, board, self._as_stored)

    def _as_stored(self, board: chess.Board) -> NodeRecord | None:
        return self._kept_or_read(board, key_text(board))

    def _kept_or_read(self, board: chess.Board, key: str) -> NodeRecord | None:
        if key in self._kept and (found := self._kept[key]) is not None and _stands(board, found):
            return found
        found = self._kept[key] = self._read(board)
        return found

    def _read(self, board: chess.Board) -> NodeRecord | None:
        try:
            return self.store.read(board)
        except UnsoundRecordError as error:
            passed_over(error)
            return None


def _stands(board: chess.Board, record: NodeRecord) -> bool:
    """Returns whether a record has the men of a board; equal keys alone do not prove that."""
    w = record.words
    return (
        w[6] == board.occupied_co[chess.WHITE]
        and w[7] == board.occupied_co[chess.BLACK]
        and w[:6] == (board.pawns, board.knights, board.bishops, board.rooks, board.queens, board.kings)
    )


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[RecordSource]:
    """Yields the records of a graph file in its present state.

    Raises:
      StoreError: if it cannot be read.
    """
    kept = path.records() if isinstance(path, KeptFile) else None
    with Store.open(path, read_only=True) as store, store.snapshot():
        yield RecordSource(store, kept)


@contextmanager
def records_of(source: str | os.PathLike[str] | Records) -> Iterator[Records]:
    """Yields the records of a graph file as `opened` does; yields given records unchanged.

    Raises:
      StoreError: if the file cannot be read.
    """
    if isinstance(source, Records):
        yield source
        return
    with opened(source) as found:
        yield found


def roots_of(source: RecordSource) -> list[chess.Board]:
    """Returns the roots of the searches of a file, the last searched first, and then those of its books."""
    searched = [board_of(root.position) for root in source.store.roots()]
    return searched + [board_of(fen) for fen in book_roots(source.store)]


class Step(NamedTuple):
    """A visited move of a position, or one that mates unvisited: the move, its edge and its P."""

    move: chess.Move
    edge: Edge
    p: float


def steps_of(record: NodeRecord, board: chess.Board) -> list[Step]:
    """Returns the visited moves of a position, best first by `store.ranking`."""
    edges = known_edges(record)
    if not edges:
        return []
    moves, order, priors = legal_moves(board), record.order, record.priors
    visited = [k for k in ranking(record) if k < len(edges) and edges[k].n]
    return [Step(moves[order[k]], edges[k], priors[order[k]]) for k in visited]


def mate_of(step: Step, board: chess.Board) -> int | None:
    """Returns the moves to mate that are proven for a visited move; None without a proof.

    Negative if the side that plays the move is mated.
    """
    proof = proof_at(step.edge, board.halfmove_clock, resets=board.is_zeroing(step.move))
    return proof.moves if proof and proof.mate else None


def mate_step(record: NodeRecord, board: chess.Board) -> list[Step]:
    """Returns the move that mates if it is known without a visit, else an empty list."""
    if known_edges(record) or not has_best_move(record):
        return []
    best = record.order[0]
    return [Step(legal_moves(board)[best], Edge(0, 0, record.v, record.d), record.priors[best])]


def after(board: chess.Board, move: chess.Move) -> chess.Board:
    """Returns the position after a move, without history."""
    child = board.copy(stack=False)
    child.push(move)
    return child


def repeats_from(board: chess.Board) -> set[str]:
    """Returns the positions of the game so far that can still repeat, as EPD."""
    walk, seen = board.copy(), {board.epd()}
    while walk.move_stack and walk.halfmove_clock:
        walk.pop()
        seen.add(walk.epd())
    return seen
