"""Value and best move of every position of a game, from the records of a graph.

    position before --- best move ---> its value: of the child, if that has the edge's visits
           |
           +------- played move -----> its value: of the child, which was searched itself

The game's history counts: a threefold repetition and a hundred half-moves without progress are draws.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import chess
import chess.polyglot

from ...errors import UnknownPositionError
from ...graph.view import MoveView, NodeView, Reader
from ...position.board import (
    CHECKMATE,
    CLOCK_DRAW,
    NOT_TERMINAL,
    fen_of,
    history_keys,
    terminal_kind,
)
from ...position.values import cp_of, negate
from ...search.claims import view_in_game
from ...store.record.bounds import moves_of
from ...store.record.node import NodeRecord
from ...store.record.ranking import node_mean
from .formulas import phase_of
from .games import SourceGame


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a position or a move for one side: Q, draws, and moves to a proven mate."""

    q: float
    draw: float
    mate: int | None = None

    @property
    def cp(self) -> int:
        """The value in centipawns, by the displayed score type."""
        return cp_of(self.q, self.draw)

    def turned(self, turn: bool = True) -> Value:
        """Returns the value for the other side if `turn`, else the same."""
        if not turn:
            return self
        return Value(negate(self.q), self.draw, None if self.mate is None else -self.mate)


DRAW = Value(0.0, 1.0)


@dataclass(frozen=True, slots=True)
class GamePosition:
    """A position of a game.

    Attributes:
      board: without its history. came: the move before it. node: None if the rules decide it.
      value: for the side to move, in this game.
      best: its best move with the value for the side that plays it; None: there is none.
    """

    board: chess.Board
    came: chess.Move | None
    phase: str
    node: NodeView | None
    value: Value
    best: tuple[chess.Move, Value] | None


def positions_of(read: Reader, game: SourceGame) -> list[GamePosition]:
    """Returns the positions of a game in order."""
    walk = game.start.copy()
    keys, phase, found = [_plain_key(walk)], phase_of(walk), list[GamePosition]()
    for move in (*game.moves, None):
        phase = phase_of(walk, phase)
        twice = _stood_twice(keys, walk.halfmove_clock)
        found.append(_place(read, walk, phase, twice, drawn=_is_drawn(keys, walk)))
        if move:
            walk.push(move)
            keys.append(_plain_key(walk))
    return found


def _plain_key(board: chess.Board) -> int:
    return chess.polyglot.zobrist_hash(board)


def _stood_twice(keys: Sequence[int], clock: int) -> frozenset[int]:
    """Returns the positions that occurred twice or more so far and can occur again."""
    counts = Counter(keys[max(0, len(keys) - 1 - clock) :])
    return frozenset(key for key, count in counts.items() if count >= 2)


def _is_drawn(keys: Sequence[int], board: chess.Board) -> bool:
    """Returns whether the side to move may claim a draw in the last position by the game's history."""
    return (
        board.halfmove_clock >= CLOCK_DRAW or keys[-1] in _stood_twice(keys[:-1], board.halfmove_clock - 1)
    ) and terminal_kind(board) != CHECKMATE


def _place(
    read: Reader, board: chess.Board, phase: str, twice: frozenset[int], *, drawn: bool
) -> GamePosition:
    bare, came = board.copy(stack=False), board.move_stack[-1] if board.move_stack else None
    kind = terminal_kind(board)
    if kind != NOT_TERMINAL:
        value = Value(-1.0, 0.0, 0) if kind == CHECKMATE else DRAW
        any_move = next(iter(bare.legal_moves), None)  # games go on in dead positions
        return GamePosition(bare, came, phase, None, value, (any_move, DRAW) if any_move else None)
    node = view_in_game(read, board, history_keys(board), lines=0)
    if node is None:
        raise UnknownPositionError(f"the file does not hold this position of the game: {fen_of(board)}")
    value = DRAW if drawn else Value(node.q, node.wdl.draw, node.mate)
    return GamePosition(bare, came, phase, node, value, _best(read, board, node, twice))


def _best(
    read: Reader, board: chess.Board, node: NodeView, twice: frozenset[int]
) -> tuple[chess.Move, Value]:
    """Returns the best move with its value: the search's best, or one that draws by repetition."""
    repeats = [move.move for move in node.moves if twice and _key_after(board, move.move) in twice]
    first = next((move for move in node.moves if move.move not in repeats), None)
    value = _worth(read, board, node, first) if first else DRAW
    if first is None or (repeats and value.q < 0):
        return repeats[0], DRAW
    return first.move, value


def _key_after(board: chess.Board, move: chess.Move) -> int:
    board.push(move)
    try:
        return _plain_key(board)
    finally:
        board.pop()


def _worth(read: Reader, board: chess.Board, node: NodeView, move: MoveView) -> Value:
    """Returns the value of a move for the side that plays it.

    It is the child's value if the child has at least the edge's visits, else the edge's.
    """
    after = board.copy(stack=False)
    after.push(move.move)
    kind, mate = terminal_kind(after), _mate_after(move.mate)
    if kind != NOT_TERMINAL:
        return Value(1.0, 0.0, 0) if kind == CHECKMATE else DRAW
    if after.halfmove_clock >= CLOCK_DRAW:
        return DRAW
    record = read(after)
    if record is not None and record.visits >= move.n:
        q, draw = node_mean(record)
        return Value(negate(q), draw, _mate_behind(record, after) if mate is None else mate)
    if move.q is None or move.wdl is None:  # a proof that needed no visit
        return Value(node.q, node.wdl.draw, mate)
    return Value(move.q, move.wdl.draw, mate)


def _mate_after(mate: int | None) -> int | None:
    """Returns the moves to mate after the first of them is played.

    >>> _mate_after(3), _mate_after(1), _mate_after(-3), _mate_after(None)
    (2, 0, -3, None)
    """
    return mate - 1 if mate and mate > 0 else mate


def _mate_behind(record: NodeRecord, after: chess.Board) -> int | None:
    """Returns the moves to mate for the side that moved, by the record of the child."""
    proof = record.proof_at(after.halfmove_clock)
    return moves_of(-proof.result, proof.mate) if proof and proof.mate is not None else None
