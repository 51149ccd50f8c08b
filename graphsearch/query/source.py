"""A graph file opened for one query, and the keys of positions after moves."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Timer
from typing import NamedTuple

import chess
import chess.polyglot
import numpy as np

from ..base.answer import Answer
from ..base.deadline import check_time
from ..base.errors import CorruptRecordError, UnknownPositionError, UnsoundRecordError
from ..position.board import after, board_of, check, fen_of, key_of_text, key_text, legal_moves, pack_checked
from ..position.values import cp_of
from ..store.apart import ApartMoves, Read
from ..store.ranking import known_edges, proof_at, ranking
from ..store.record import Edge, NodeRecord
from ..store.segment import passed_over
from ..store.store import Store
from ..store.tables.books import roots_of
from .steps import keys_after


class Records:
    """Records for one query, each read once: of a graph in memory, or of a file (`RecordSource`)."""

    def __init__(self, path: Path, stored: Read, file: Store | None = None) -> None:
        """Creates a source over the graph of a path.

        Args:
          path: of the graph. stored: returns the record of a position, or None. file: whose tables are read.
        """
        self.path, self._stored, self.file = path, stored, file
        self._known: dict[str, NodeRecord | None] = {}

    def read(self, board: chess.Board, key: str = "") -> NodeRecord | None:
        """Returns the record of a position, None without one; `key`: its `key_text`, if that is known."""
        check_time()
        key = key or key_text(board)
        found = self._known.get(key)
        if key not in self._known or (found is not None and not _stands(board, found)):
            found = self._known[key] = self._stored(board)
        return found

    def read_ahead(self, boards: Mapping[str, chess.Board]) -> None:
        """Reads records that a query needs soon in one batch; `boards`: the positions by `key_text`."""
        check_time()

    def read_all(self, boards: Sequence[chess.Board]) -> list[NodeRecord | None]:
        """Returns the records of positions as `read` does, read ahead."""
        keys = [key_text(board) for board in boards]
        self.read_ahead(dict(zip(keys, boards, strict=True)))
        return list(map(self.read, boards, keys))

    def wanted(self, board: chess.Board) -> NodeRecord:
        """Returns the record of a position; raises InvalidPositionError or UnknownPositionError."""
        check(board)
        record = self.read(board)
        if record is None:
            raise UnknownPositionError(f"{self.path} does not hold this position: {fen_of(board)}")
        return record


class RecordSource(Records):
    """Records of one state of a graph file, with what the moves searched apart know."""

    def __init__(self, store: Store) -> None:
        """Creates a source over an open file."""
        self._apart = ApartMoves.of(store, self._sound)
        super().__init__(store.path, self._apart.read, store)
        self.store, self._version = store, store.data_version

    @property
    def is_present(self) -> bool:
        """Whether it has the state that the store holds now, and not too many records in memory."""
        return self._version == self.store.data_version and len(self._known) <= MOST_KEPT

    def read_ahead(self, boards: Mapping[str, chess.Board]) -> None:
        """Reads records in one batch, 0.1 ms each, alone 1 ms. With damage, all is left to `read`."""
        asked = [(key, board) for key, board in boards.items() if key not in self._known]
        if not asked:
            return
        try:
            words = np.array([pack_checked(board, key_of_text(key)) for key, board in asked])
            have, records = self.store.find(words)
        except CorruptRecordError:
            return
        for key, _ in asked:
            self._known[key] = None
        for i, place in enumerate(np.flatnonzero(have).tolist()):
            key, board = asked[place]
            self._known[key] = self._apart.completed(records.record(i), board)

    def _sound(self, board: chess.Board) -> NodeRecord | None:
        try:
            return self.store.read(board)
        except UnsoundRecordError as error:
            passed_over(error)
            return None


def _stands(board: chess.Board, record: NodeRecord) -> bool:
    """Returns whether a record has the men of a board; equal keys alone do not prove that."""
    kinds = board.pawns, board.knights, board.bishops, board.rooks, board.queens, board.kings
    return record.words[:8] == (*kinds, *reversed(board.occupied_co))


@contextmanager
def opened(path: str | os.PathLike[str] | RecordSource) -> Iterator[RecordSource]:
    """Yields the records of a graph file in its present state, or those given.

    Raises:
      StoreError: if the file cannot be read.
    """
    if isinstance(path, RecordSource):
        yield path
        return
    with Store.open(path, read_only=True) as store, store.snapshot():
        yield RecordSource(store)


@contextmanager
def records_of(source: str | os.PathLike[str] | Records) -> Iterator[Records]:
    """Yields the records of a graph file as `opened` does; yields given records unchanged."""
    if isinstance(source, Records):
        yield source
        return
    with opened(source) as found:
        yield found


# ------------------------------------------------------------------ a file that stays open
IDLE_SECONDS = 2.0  # after which it is closed: Windows replaces no open file
MOST_KEPT = 2_000  # records of one state of the file in memory


@dataclass(slots=True)
class _Opened:
    """An open file: the files that its path led to, its records, and the time of the last question."""

    store: Store
    place: tuple[object, ...]
    source: RecordSource | None = None
    used: float = 0.0


class KeptFile:
    """A graph file that stays open between questions, which several threads may ask; `close` must follow.

    Opening it takes longer than most answers. Every question reads the present state: commits of other
    processes are seen, and a file that was replaced, overwritten or deleted is opened again.
    """

    def __init__(self, path: Path) -> None:
        """Opens nothing before the first question."""
        self._path, self._lock = path, Lock()
        self._idle: list[_Opened] = []
        self._timer: Timer | None = None

    @contextmanager
    def opened(self) -> Iterator[RecordSource]:
        """Yields the records of the file as the function `opened` does."""
        one = self._take()
        try:
            with one.store.snapshot():
                if one.source is None or not one.source.is_present:
                    one.source = RecordSource(one.store)
                yield one.source
        finally:
            one.used = time.monotonic()
            with self._lock:
                self._idle.append(one)
                self._watch()

    def close(self, *, idle: float = 0.0) -> None:
        """Closes the file where the last question came `idle` seconds ago; the next one opens it again."""
        with self._lock:
            last = time.monotonic() - idle
            closing = [one for one in self._idle if one.used <= last]
            self._idle = [one for one in self._idle if one.used > last]
            if self._timer:
                self._timer.cancel()
            self._timer = None
            self._watch()
        for one in closing:
            one.store.close()

    def _watch(self) -> None:
        """Has an idle file closed later, unless that is arranged."""
        if self._idle and not self._timer:
            self._timer = Timer(IDLE_SECONDS, self.close, kwargs={"idle": IDLE_SECONDS})
            self._timer.daemon = True
            self._timer.start()

    def _take(self) -> _Opened:
        with self._lock:
            one = self._idle.pop() if self._idle else None
        if one and one.place == (mark_of(self._path), *_beside(one.store)):
            return one
        if one:
            one.store.close()
        now = mark_of(self._path)  # before it is opened, so that a file that replaces it meanwhile is noticed
        store = Store.open(self._path, read_only=True)
        return _Opened(store, (now, *_beside(store)))


def mark_of(path: Path) -> tuple[int, ...]:
    """Returns which file a path leads to, and its size and time; () without one, or if it is empty."""
    try:
        facts = path.stat()
    except OSError:
        return ()
    return (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns) if facts.st_size else ()


def _beside(store: Store) -> list[tuple[int, ...]]:
    """Returns which files SQLite has beside a graph file: with others it would read an old state."""
    return [mark_of(store.path.with_name(store.path.name + end))[:2] for end in ("-wal", "-shm")]


# ------------------------------------------------------------------ positions and moves
def first_look(path: str | os.PathLike[str]) -> chess.Board:
    """Returns the start position or, if a file does not hold it, the root that was searched last."""
    with opened(path) as source:
        start = chess.Board()
        return start if source.read(start) else next(map(board_of, roots_of(source.store)), start)


class Valued(Answer):
    """An answer with a value `q` in [-1, 1]."""

    __slots__ = ()
    q: float

    @property
    def cp(self) -> int:
        """`q` in centipawns."""
        return cp_of(self.q)


class Step(NamedTuple):
    """A move of a position, mostly a visited one: the position, the move, its edge and its P."""

    board: chess.Board
    move: chess.Move
    edge: Edge
    p: float

    @property
    def san(self) -> str:
        """The move as people write it."""
        return self.board.san(self.move)

    @property
    def q(self) -> float | None:
        """Q of the edge, seen by the side that plays the move; None while n = 0."""
        return self.edge.value if self.edge.n else None

    @property
    def cp(self) -> int | None:
        """The same in centipawns."""
        return cp_of(self.edge.value) if self.edge.n else None

    @property
    def mate(self) -> int | None:
        """Moves to a proven mate, negative if the side that plays the move is mated; None without a proof."""
        resets = self.board.is_zeroing(self.move)
        proof = proof_at(self.edge, self.board.halfmove_clock, resets=resets)
        return proof.moves if proof and proof.mate else None

    def after(self) -> chess.Board:
        """Returns the position after it, without history."""
        return after(self.board, self.move)


def steps_of(record: NodeRecord | None, board: chess.Board) -> list[Step]:
    """Returns the visited moves of a position, and a known mate, best first by `store.ranking`."""
    edges = known_edges(record) if record else ()
    if not record or not edges:
        return []
    moves, order, priors = legal_moves(board), record.order, record.priors
    known = [k for k in ranking(record) if k < len(edges) and (edges[k].n or edges[k].proof)]
    return [Step(board, moves[order[k]], edges[k], priors[order[k]]) for k in known]


def ways_of(record: NodeRecord, board: chess.Board) -> list[tuple[Step, str]]:
    """Returns the visited moves of a position as `steps_of`, each with the key of the position after it."""
    steps = steps_of(record, board)
    return list(zip(steps, keys_after(board, [step.move for step in steps]), strict=True))


def mate_of(record: NodeRecord, board: chess.Board) -> int | None:
    """Returns moves to a proven mate, negative if the side to move is mated, 0 if it is; else None."""
    proof = record.proof_at(board.halfmove_clock)
    return proof.moves if proof else None


def mate_by(source: Records, board: chess.Board, move: chess.Move, steps: list[Step]) -> int | None:
    """Returns moves to a mate proven of a move, by its edge or the position after it, None without one."""
    mate = next((step.mate for step in steps if step.move == move), None)
    record = source.read(child := after(board, move)) if mate is None else None
    its = mate_of(record, child) if record else None
    return mate if its is None else -its if its > 0 else 1 - its
