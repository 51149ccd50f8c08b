"""Proofs in a game: a position that occurred twice in it is a draw when it is reached again.

A record proves its result for a path without a history. In a game, a proven move counts as proven only if no
line of its proof reaches a position that occurred twice.

    root -- winning move --> all defences --> ...   up to the next capture or pawn move, after which no
                                                    earlier position can recur
"""

from __future__ import annotations

from collections.abc import Collection

import chess
import chess.polyglot

from ..graph.view import NodeView, Reader, view
from ..store.record.ranking import best_move

MOST_POSITIONS = 3000  # of a proof to examine; a longer proof is doubtful


def view_in_game(
    read: Reader,
    board: chess.Board,
    past: Collection[int],
    *,
    lines: int | None = None,
    first: Collection[chess.Move] = (),
) -> NodeView | None:
    """Returns the view of a position after a game that makes some positions draws; None if it is unknown.

    Args:
      past: Polyglot keys of the positions that occurred twice (`history_keys`). The rest as for `view`.
    """
    doubtful = doubtful_moves(read, board, past) if len(past) else None
    return view(read, board, lines=lines, first=first, doubtful=doubtful)


def doubtful_moves(read: Reader, board: chess.Board, past: Collection[int]) -> frozenset[chess.Move]:
    """Returns the moves whose proof may reach one of these positions, or that lead to one at once."""
    keys = frozenset(int(key) for key in past)
    return frozenset(move for move in board.legal_moves if not _Walk(read, keys).is_safe_after(board, move))


class _Walk:
    """Walks through the proofs of moves."""

    def __init__(self, read: Reader, past: frozenset[int]) -> None:
        self._read = read
        self._past = past
        self._seen: set[int] = set()

    def is_safe_after(self, board: chess.Board, move: chess.Move) -> bool:
        """Returns whether no line of the proof of a move reaches one of the positions."""
        waiting = [_after(board, move)]
        while waiting:
            at = waiting.pop()
            key = chess.polyglot.zobrist_hash(at)
            if at.halfmove_clock == 0 or key in self._seen or not any(at.legal_moves):
                continue
            if key in self._past or len(self._seen) >= MOST_POSITIONS:
                return False
            self._seen.add(key)
            following = self._following(at)
            if following is None:
                return False
            waiting += following
        return True

    def _following(self, board: chess.Board) -> list[chess.Board] | None:
        """Returns the next positions of a proof: one if the side to move wins, else all; None: unknown."""
        record = self._read(board)
        proof = record.proof_at(board.halfmove_clock) if record else None
        if record is None or proof is None or not proof.result:
            return None
        if not record.codes:
            return []
        best = best_move(record, board)
        moves = [best] if proof.result > 0 and best else list(board.legal_moves)
        return [_after(board, move) for move in moves]


def _after(board: chess.Board, move: chess.Move) -> chess.Board:
    child = board.copy(stack=False)
    child.push(move)
    return child
