"""The plain tables of a graph: its roots and most visited part, for SQLite tools that cannot read records."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import chess

from ..position.board import fen_of, key_text
from ..store.ranking import best_move, node_mean
from ..store.store import Store
from ..store.tables.history import PV_MOVES, RootValues
from ..store.tables.top import Shown, listed
from .view import Reader, line_of

TABLES_SECONDS = 10.0  # between two updates during a search
TABLE_ROOTS = 4  # last roots for which the tables are written: hundredths of a second each
TOP_NODES = 100  # positions kept
TOP_SHARE = 200  # a move is followed if its N is at least the root's N divided by this


class RootTables:
    """The rows of one graph: the searched roots, and the most visited positions below them."""

    def __init__(self, read: Reader) -> None:
        self._read = read
        self._roots: dict[str, chess.Board] = {}
        self._written_at = 0.0

    def note_root(self, board: chess.Board) -> None:
        """Notes a searched position, which the file will list by the given FEN."""
        key = key_text(board)
        self._roots.pop(key, None)
        self._roots[key] = board.copy(stack=False)

    def roots(self) -> list[chess.Board]:
        """Returns the searched positions."""
        return list(self._roots.values())

    @property
    def is_due(self) -> bool:
        """Whether the last rows are older than TABLES_SECONDS."""
        return time.monotonic() - self._written_at > TABLES_SECONDS

    def rows(self) -> Callable[[Store], None]:
        """Returns a function that writes the present rows."""
        self._written_at = time.monotonic()
        roots = [(key, board, self._read(board)) for key, board in self._roots.items()]
        known = [(key, fen_of(board), record.visits) for key, board, record in roots if record]
        tops = [top_rows(self._read, board) for _, board, record in roots[-TABLE_ROOTS:] if record]

        def write(store: Store) -> None:
            for key, fen, visits in known:
                store.record_root(key, fen, visits)
            for found in tops:
                store.write_top(found)

        return write


def root_values(read: Reader, root: chess.Board) -> RootValues | None:
    """Returns the present values of a root, None if its record is missing."""
    record = read(root)
    if record is None:
        return None
    best = best_move(record, root)
    q, draw = node_mean(record)
    return RootValues(
        key=key_text(root),
        n=record.visits,
        q=q,
        draw=draw,
        best_move=best.uci() if best else None,
        pv=" ".join(move.uci() for move in line_of(read, root, best, plies=PV_MOVES)) if best else None,
    )


def top_rows(read: Reader, root: chess.Board) -> list[Shown]:
    """Returns the most visited positions below a root, as `top_position` and `top_edge` have them.

    Args:
      read: returns the record of a position.
    """
    found: dict[str, Shown] = {}
    least = 0
    queue: deque[tuple[chess.Board, str]] = deque([(root, "")])
    while queue and len(found) < TOP_NODES:
        before, move = queue.popleft()
        board = before.copy(stack=False)
        if move:
            board.push(chess.Move.from_uci(move))
        record = read(board)
        if record is None:
            continue
        one = listed(fen_of(board))
        if one.key in found:
            continue
        least = least or max(2, record.visits // TOP_SHARE)
        shown = found[one.key] = one.rows(record)
        queue.extend((board, move) for move, row in shown.moves.items() if row["n"] >= least)
    return list(found.values())
