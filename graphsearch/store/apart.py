"""Moves that were searched apart: the positions after them have more visits than the edges that lead there.

A search of some moves only leaves the edges of its root the visits that PUCT gave them (`search/loop.py`).
The table `searched_apart` lists these moves. A reader completes the few records that it names, so a question
pays for the moves listed there, and for no other position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import chess
import numpy as np

from ..position.board import after, key_of_text, key_text, legal_moves, unpack
from ..position.values import D_SCALE, negate
from .ranking import node_mean
from .record import Edge, NodeRecord, RecordBatch, keys_of
from .record_kernel import code_of_proof
from .tables.rows import rows

if TYPE_CHECKING:
    from .store import Store

Read = Callable[[chess.Board], NodeRecord | None]


class ApartMoves:
    """The moves of a graph that were searched apart, and a reader of the positions after them."""

    def __init__(self, read: Read, moves: Mapping[str, frozenset[str]] | None = None) -> None:
        """Keeps moves in UCI by `key_text`; `read` returns the records of the file or of memory."""
        self._read = read
        self._moves = dict(moves or {})
        self._keys = np.array([key_of_text(key) for key in self._moves], np.uint64)

    @classmethod
    def of(cls, store: Store, read: Read | None = None) -> ApartMoves:
        """Returns the moves of an open file; without `read` it reads this file.

        Raises:
          StoreError: if it cannot be read.
        """
        found: dict[str, set[str]] = {}
        with store.reading() as connection:
            for key, move in rows(connection, "searched_apart", ("key", "move")):
                found.setdefault(key, set()).add(move)
        return cls(read or store.read, {key: frozenset(moves) for key, moves in found.items()})

    def add(self, board: chess.Board, moves: Iterable[chess.Move]) -> list[tuple[str, str]]:
        """Adds moves of a position; returns the rows of `searched_apart` that are new."""
        key = key_text(board)
        known = self._moves.get(key, frozenset())
        new = sorted({move.uci() for move in moves} - known)
        if new:
            self._moves[key] = known | frozenset(new)
            self._keys = np.append(self._keys, np.uint64(key_of_text(key)))
        return [(key, move) for move in new]

    def read(self, board: chess.Board) -> NodeRecord | None:
        """Returns the completed record of a position, None if it has none."""
        record = self._read(board)
        return record and self.completed(record, board)

    def completed(self, record: NodeRecord, board: chess.Board) -> NodeRecord:
        """Returns the record of a position with what the positions after its moves searched apart know."""
        if not self._moves or not record.codes or not (moves := self._moves.get(key_text(board))):
            return record
        legal, found = legal_moves(board), dict[int, Edge]()
        for k, index in enumerate(record.order):
            if legal[index].uci() in moves and (edge := self._behind(record, k, board, legal[index])):
                found[k] = edge
        if not found:
            return record
        edges = [*record.edges, *[Edge(0)] * (1 + max(found) - len(record.edges))]
        return replace(record, known=tuple(found.get(k, edge) for k, edge in enumerate(edges)))

    def completed_in(self, batch: RecordBatch) -> dict[int, NodeRecord]:
        """Returns the completed records among those of a batch, by index; reads only behind their moves."""
        found = {}
        hits = np.isin(keys_of(batch.words), self._keys) if len(self._keys) else np.zeros(0, bool)
        for i in np.flatnonzero(hits).tolist():
            completed = self.completed(batch.record(i), unpack(batch.words[i].tolist()))
            if completed.known:
                found[i] = completed
        return found

    def _behind(self, record: NodeRecord, k: int, board: chess.Board, move: chess.Move) -> Edge | None:
        """Returns a move's edge as the position after it knows it, None if that knows no more."""
        edge = record.edges[k] if k < len(record.edges) else Edge(0)
        child = after(board, move)
        behind = self._read(child)
        if behind is None or behind.visits <= edge.n or edge.proof:
            return None
        proof = behind.proof_at(child.halfmove_clock)
        if proof:
            code = code_of_proof(proof, resets=board.is_zeroing(move))
            return Edge(behind.visits, q=negate(float(proof.result)), d=code, apart=True)
        q, draw = node_mean(behind)
        most = max(0.0, 1.0 - abs(q))
        return Edge(behind.visits, q=negate(q), d=int(D_SCALE * min(draw, most)), apart=True)


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
        padded = replace(record, edges=(*record.edges, *[Edge(0)] * (len(record.known) - len(record.edges))))
        stored += [before, RecordBatch.from_records([padded])]
        known += [before, RecordBatch.from_records([replace(record, edges=record.known)])]
        begin = i + 1
    rest = batch.part(begin, len(batch))
    return RecordBatch.concat([*stored, rest]), RecordBatch.concat([*known, rest])
