"""Moves that were searched apart: the positions after them have more visits than the edges that lead there.

A search of some moves only leaves the edges of its root the visits that PUCT gave them (`search/forced.py`).
The table `searched_apart` lists these moves. A reader completes the few records that it names, so a question
pays for the moves listed there, and for no other position.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import chess
import numpy as np

from ..position.board import key_of_text, key_text, legal_moves, unpack
from ..position.values import D_SCALE, negate
from .ranking import node_mean
from .record import Edge, NodeRecord, RecordBatch, keys_of
from .record_kernel import code_of_proof
from .tables.rows import rows

if TYPE_CHECKING:
    from .store import Store

Reader = Callable[[chess.Board], NodeRecord | None]


class ApartMoves:
    """The moves of a graph that were searched apart, by position."""

    def __init__(self, moves: Mapping[str, frozenset[str]] | None = None) -> None:
        """Keeps moves in UCI by `key_text`."""
        self._moves = dict(moves or {})
        self._keys = np.array([key_of_text(key) for key in self._moves], np.uint64)

    @classmethod
    def of(cls, store: Store) -> ApartMoves:
        """Returns the moves of an open file.

        Raises:
          StoreError: if it cannot be read.
        """
        found: dict[str, set[str]] = {}
        with store.reading() as connection:
            for key, move in rows(connection, "searched_apart", ("key", "move")):
                found.setdefault(key, set()).add(move)
        return cls({key: frozenset(moves) for key, moves in found.items()})

    def add(self, board: chess.Board, moves: Iterable[chess.Move]) -> list[tuple[str, str]]:
        """Adds moves of a position; returns the rows that are new."""
        key = key_text(board)
        known = self._moves.get(key, frozenset())
        new = sorted({move.uci() for move in moves} - known)
        if new:
            self._moves[key] = known | frozenset(new)
            self._keys = np.append(self._keys, np.uint64(key_of_text(key)))
        return [(key, move) for move in new]

    def completed(self, record: NodeRecord, board: chess.Board, read: Reader) -> NodeRecord:
        """Returns a record with what the positions after its moves searched apart know.

        Args:
          board: the position of the record. read: returns the records of the file or of memory.
        """
        if not self._moves or not record.codes or not (moves := self._moves.get(key_text(board))):
            return record
        legal, found = legal_moves(board), dict[int, Edge]()
        for k, index in enumerate(record.order):
            if legal[index].uci() in moves and (edge := _behind(record, k, board, legal[index], read)):
                found[k] = edge
        if not found:
            return record
        edges = [*record.edges, *[Edge(0)] * (1 + max(found) - len(record.edges))]
        return replace(record, known=tuple(found.get(k, edge) for k, edge in enumerate(edges)))

    def completed_in(self, batch: RecordBatch, read: Reader) -> dict[int, NodeRecord]:
        """Returns the completed records among those of a batch, by index; reads only behind their moves."""
        found = {}
        hits = np.isin(keys_of(batch.words), self._keys) if len(self._keys) else np.zeros(0, bool)
        for i in np.flatnonzero(hits).tolist():
            record = batch.record(i)
            completed = self.completed(record, unpack(batch.words[i].tolist()), read)
            if completed.known:
                found[i] = completed
        return found

    def reader(self, read: Reader) -> Reader:
        """Returns a reader of completed records over one of records."""

        def read_completed(board: chess.Board) -> NodeRecord | None:
            record = read(board)
            return record and self.completed(record, board, read)

        return read_completed


def known_edges_of(
    batch: RecordBatch, completed: Mapping[int, NodeRecord]
) -> tuple[RecordBatch, RecordBatch]:
    """Returns the records of a batch, and the same with known edges; both have the same edges by index.

    Args:
      completed: records of the batch, by index (`ApartMoves.completed_in`).
    """
    if not completed:
        return batch, batch
    stored, known, begin = [], [], 0
    for i, record in sorted(completed.items()):
        before = batch.part(begin, i)
        missing = len(record.known) - len(record.edges)
        padded = replace(record, edges=(*record.edges, *[Edge(0)] * missing))
        stored += [before, RecordBatch.from_records([padded])]
        known += [before, RecordBatch.from_records([replace(record, edges=record.known)])]
        begin = i + 1
    rest = batch.part(begin, len(batch))
    return RecordBatch.concat([*stored, rest]), RecordBatch.concat([*known, rest])


def write(connection: sqlite3.Connection, found: Iterable[tuple[str, str]]) -> None:
    """Writes rows of `ApartMoves.add`; call it in a transaction."""
    connection.executemany("INSERT OR IGNORE INTO searched_apart (key, move) VALUES (?, ?)", found)


def completed_reader(store: Store) -> Reader:
    """Returns a reader of the completed records of an open file.

    Raises:
      StoreError: if it cannot be read.
    """
    return ApartMoves.of(store).reader(store.read)


def completed_in_batches(store: Store) -> Callable[[RecordBatch], dict[int, NodeRecord]]:
    """Returns a function that returns the completed records of a batch, by index.

    Raises:
      StoreError: if the file cannot be read.
    """
    moves = ApartMoves.of(store)
    return lambda batch: moves.completed_in(batch, store.read)


def _behind(record: NodeRecord, k: int, board: chess.Board, move: chess.Move, read: Reader) -> Edge | None:
    """Returns a move's edge as the position after it knows it, None if that knows no more."""
    edge = record.edges[k] if k < len(record.edges) else Edge(0)
    child = board.copy(stack=False)
    child.push(move)
    behind = read(child)
    if behind is None or behind.visits <= edge.n or edge.proof:
        return None
    proof = behind.proof_at(child.halfmove_clock)
    if proof:
        code = code_of_proof(proof, resets=board.is_zeroing(move))
        return Edge(behind.visits, q=negate(float(proof.result)), d=code, apart=True)
    q, draw = node_mean(behind)
    most = max(0.0, 1.0 - abs(q))
    return Edge(behind.visits, q=negate(q), d=int(D_SCALE * min(draw, most)), apart=True)
