"""Lines: the best ones from a position, and the values along a given one, from White's view. Reads only."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import chess
from chess.polyglot import zobrist_hash

from ..base.answer import Answer
from ..base.deadline import check_time
from ..base.errors import InvalidPositionError, UnknownPositionError, check_least
from ..position.board import CLOCK_DRAW, after, check, fen_of, occurrences, terminal_kind
from ..position.notation import read_legal_uci
from ..position.values import cp_of, draw_beside, loss_of, negate
from ..store.ranking import node_mean
from .source import Records, Step, Valued, mate_by, mate_of, records_of, steps_of

MAX_PLIES = 200

# why a line ends
UNVISITED, UNKNOWN, REPETITION, CLOCK, TOO_LONG = "unvisited", "unknown", "repetition", "clock", "length"
ENDS = ("", "checkmate", "stalemate", "dead")  # by terminal kind


@dataclass(frozen=True, slots=True)
class LinePly(Valued):
    """One move of a line; values are those of its edge, seen by the side to move where the line begins."""

    json_keys = "move=step.move san n=step.edge.n q draw cp mate apart=step.edge.apart"

    step: Step
    q: float
    draw: float
    mate: int | None

    @property
    def san(self) -> str:
        """The move as people write it."""
        return self.step.san


@dataclass(frozen=True, slots=True)
class Line(Answer):
    """A line: its moves, its end and the FEN of its last position.

    `end`: `unvisited` (no move of the last position was visited), `unknown` (the file does not hold it),
    `repetition` (it stood on the board before), `clock` (the 50-move rule), `checkmate`, `stalemate`, `dead`
    (insufficient material), `length` (the requested number of plies).
    """

    plies: tuple[LinePly, ...]
    end: str
    last: str


@dataclass(frozen=True, slots=True)
class Lines(Answer):
    """The answer of `pv`: the position (FEN, node N), and its lines, best first."""

    position: str
    visits: int
    lines: tuple[Line, ...]


def pv(
    path: str | os.PathLike[str] | Records,
    board: chess.Board,
    *,
    lines: int = 1,
    plies: int = MAX_PLIES,
) -> Lines:
    """Returns the lines of a position's best moves: the best move at every ply, mostly the most visited one.

    Args:
      board: the position; the game before it counts for repetitions.
      lines: number of moves with a line. plies: most plies of a line.

    Raises:
      InvalidParameterError: if `lines` is below 1.
    """
    check_least(1, lines=lines)
    with records_of(path) as source:
        record = source.wanted(board)
        walks = [_Walk(board, step) for step in steps_of(record, board)[:lines]]
        going = walks
        while going:
            source.read_all([walk.board for walk in going])  # one batch for each ply of all lines
            going = [walk for walk in going if walk.goes_on(source, plies)]
        return Lines(fen_of(board), record.visits, tuple(walk.line() for walk in walks))


class _Walk:
    """A line that grows: the position after its moves, and the keys of those before."""

    def __init__(self, start: chess.Board, step: Step) -> None:
        self.board = start.copy()
        self._mover, self._seen = start.turn, {zobrist_hash(start), *occurrences(start, 1)}
        self._plies: list[LinePly] = []
        self._end = ""
        self._play(step)

    def line(self) -> Line:
        return Line(tuple(self._plies), self._end, fen_of(self.board))

    def goes_on(self, source: Records, most: int) -> bool:
        """Plays the next move, unless the line ends, or has `most` plies."""
        step, self._end = self._next(source)
        if step and len(self._plies) == most:
            self._end = TOO_LONG
        if not step or self._end:
            return False
        self._seen.add(zobrist_hash(self.board))
        self._play(step)
        return True

    def _play(self, step: Step) -> None:
        q, mate = step.edge.value, step.mate
        if self.board.turn != self._mover:
            q, mate = negate(q), mate and -mate
        self._plies.append(LinePly(step, q, draw_beside(q, step.edge.draws), mate))
        self.board.push(step.move)

    def _next(self, source: Records) -> tuple[Step | None, str]:
        """Returns the next step, or None and the reason why there is none."""
        ended = ended_by_rule(self.board)
        if ended or zobrist_hash(self.board) in self._seen:
            return None, ended or REPETITION
        record = source.read(self.board)
        if record is None:
            return None, UNKNOWN
        steps = steps_of(record, self.board.copy(stack=False))
        return (steps[0], "") if steps else (None, UNVISITED)


def ended_by_rule(board: chess.Board) -> str:
    """Returns the rule that ends the game here, repetition excepted; an empty text if none does.

    >>> ended_by_rule(chess.Board("7k/6Q1/6K1/8/8/8/8/8 b - - 0 1"))
    'checkmate'
    """
    return ENDS[terminal_kind(board)] or (CLOCK if board.halfmove_clock >= CLOCK_DRAW else "")


# ------------------------------------------------------------------ values along a line
@dataclass(frozen=True, slots=True)
class LinePoint:
    """A position of the line, and the move that was played there.

    Attributes:
      ply: half-moves from where the line begins. number, turn: move number, and side to move: `w` or `b`.
      n: node N; None if the file does not hold the position, and then no other number is known.
      q, cp: node Q, from White's view. mate: moves to a proven mate, negative if White is mated.
      move, san: the move that was played; None at the last position.
      played_n, played_q: N of that move, and its value from White's view (`worth_of`).
      best_move, best_san, best_q: the best move, its value from White's view; None without visits.
      loss, loss_cp: of the played move against the best one (`Judged.cost`).
    """

    ply: int
    number: int
    turn: str
    position: str
    n: int | None = None
    q: float | None = None
    cp: int | None = None
    mate: int | None = None
    move: str | None = None
    san: str | None = None
    played_n: int | None = None
    played_q: float | None = None
    best_move: str | None = None
    best_san: str | None = None
    best_q: float | None = None
    loss: float | None = None
    loss_cp: int | None = None


@dataclass(frozen=True, slots=True)
class LineValues(Answer):
    """The answer of `values`: FEN of the first position, the positions, and the number of unknown ones."""

    position: str
    points: tuple[LinePoint, ...]
    unknown: int


def values(path: str | os.PathLike[str] | Records, board: chess.Board) -> LineValues:
    """Returns the graph's values along the game of a Board, from its root to its last move.

    Raises:
      InvalidPositionError: if the line has no moves.
      UnknownPositionError: if the file holds none of its positions.
    """
    check(board)
    if not board.move_stack:
        raise InvalidPositionError(f"give moves or a PGN file: no line leads to {fen_of(board)}")
    walk, points = board.root(), []
    with records_of(path) as source:
        for ply, move in enumerate([*board.move_stack, None]):
            points.append(_point(source, walk, ply, move))
            if move:
                walk.push(move)
        unknown = sum(point.n is None for point in points)
        if unknown == len(points):
            raise UnknownPositionError(f"{source.path} has none of the {unknown} positions of this line")
    return LineValues(fen_of(board.root()), tuple(points), unknown)


def _point(source: Records, board: chess.Board, ply: int, move: chess.Move | None) -> LinePoint:
    point: dict[str, Any] = {
        "ply": ply,
        "number": board.fullmove_number,
        "turn": "w" if board.turn else "b",
        "position": fen_of(board),
    }
    point |= {"move": move.uci(), "san": board.san(move)} if move else {}
    record = source.read(board)
    if record is None:
        return LinePoint(**point)
    q, judged = for_white(board, node_mean(record)[0]), judge(source, board, move)
    mate = mate_of(record, board)
    return LinePoint(
        **point,
        n=record.visits,
        q=q,
        cp=cp_of(q),
        mate=mate if board.turn or mate is None else -mate,
        played_n=judged.n if move else None,
        played_q=None if judged.q is None else for_white(board, judged.q),
        best_move=judged.best.uci() if judged.best else None,
        best_san=judged.best_san,
        best_q=None if judged.best_q is None else for_white(board, judged.best_q),
        loss=judged.cost,
        loss_cp=judged.cost_cp,
    )


@dataclass(frozen=True, slots=True)
class Judged(Answer):
    """A move beside the best one by the records before and after them, seen by the side that plays it.

    Attributes:
      n: edge N of the move, 0 without visits; None if the position has no record.
      q: its value (`worth_of`); None if it is not known. mate: moves to a mate proven of it (`mate_by`).
      best, best_san, best_q: the best move by `store.ranking`, and its value; None without visits.
    """

    json_keys = "n q cp mate best_move=best best_san best_q best_cp cost cost_cp"

    n: int | None
    q: float | None
    mate: int | None
    best: chess.Move | None
    best_san: str | None
    best_q: float | None

    @property
    def cp(self) -> int | None:
        """The value in centipawns; None if it is not known."""
        return None if self.q is None else cp_of(self.q)

    @property
    def best_cp(self) -> int | None:
        """The value of the best move in centipawns; None if it is not known."""
        return None if self.best_q is None else cp_of(self.best_q)

    @property
    def cost(self) -> float | None:
        """Loss against the best move as Q, at least 0; None if one of the values is unknown."""
        return None if self.q is None or self.best_q is None else max(0.0, self.best_q - self.q)

    @property
    def cost_cp(self) -> int | None:
        """The same in centipawns (`loss_of`)."""
        return None if self.cp is None or self.best_cp is None else loss_of(self.best_cp, self.cp)


def judge(source: Records, board: chess.Board, move: chess.Move | None) -> Judged:
    """Returns a legal move beside the best one; without a move only the best one."""
    record = source.read(board)
    steps = steps_of(record, board)
    best = steps[0].move if steps else None
    return Judged(
        n=None if record is None else next((step.edge.n for step in steps if step.move == move), 0),
        q=worth_of(source, board, move, steps) if move else None,
        mate=mate_by(source, board, move, steps) if move else None,
        best=best,
        best_san=board.san(best) if best else None,
        best_q=worth_of(source, board, best, steps) if best else None,
    )


def worth_of(source: Records, board: chess.Board, move: chess.Move, steps: list[Step]) -> float | None:
    """Returns Q of a move for the side that plays it, None if neither edge nor child is known.

    It is that of the position after it, if that has more visits than the edge, else that of the edge.
    """
    edge = next((step.edge for step in steps if step.move == move), None)
    record = source.read(after(board, move))
    if edge is not None and (edge.proof or record is None or record.visits <= edge.n):
        return edge.value
    return None if record is None else negate(node_mean(record)[0])


def for_white(board: chess.Board, q: float) -> float:
    """Converts a value for the side to move to White's view."""
    return q if board.turn == chess.WHITE else negate(q)


# ------------------------------------------------------------------ trees of moves
@dataclass(frozen=True, slots=True)
class MoveValue:
    """The value of a move: visits, centipawns and moves to a proven mate (None without one), for White.

    `edge`: whether it is of the edge, and may be older: the file does not hold the position after the move.
    """

    n: int
    cp: int
    mate: int | None
    edge: bool = False


@dataclass(frozen=True, slots=True)
class TreeValues(Answer):
    """The answer of `tree_values`: one value for each move, None if the file does not know it."""

    values: tuple[MoveValue | None, ...]


def tree_values(
    path: str | os.PathLike[str] | Records, start: chess.Board, moves: Sequence[tuple[int, str]]
) -> TreeValues:
    """Returns the graph's values of moves.

    Args:
      start: the first position.
      moves: (number of the parent move, move in UCI), each after its parent; moves count from 1, and 0 is
        the start.

    Raises:
      InvalidPositionError: if a move is illegal, or stands before its parent.
    """
    check(start)
    boards = [start]
    found = []
    with records_of(path) as source:
        for number, (parent, text) in enumerate(moves, start=1):
            check_time()
            if parent >= number:
                raise InvalidPositionError(f"move {number} stands before its parent, move {parent}")
            board = boards[parent]
            try:
                move = read_legal_uci(board, text)
            except ValueError:
                raise InvalidPositionError(f"move {number}: {text!r} is illegal in {board.fen()}") from None
            found.append(_value(source, board, move))
            boards.append(after(board, move))
    return TreeValues(tuple(found))


def _value(source: Records, board: chess.Board, move: chess.Move) -> MoveValue | None:
    steps = steps_of(source.read(board), board)
    worth = worth_of(source, board, move, steps)
    if worth is None:
        return None
    step = next((step for step in steps if step.move == move), None)
    mate = mate_by(source, board, move, steps)
    mate = mate if board.turn or mate is None else -mate
    is_older = step is not None and step.edge.proof is None and source.read(after(board, move)) is None
    return MoveValue(step.edge.n if step else 0, cp_of(for_white(board, worth)), mate, is_older)
