"""Lines from a stored position: their moves and numbers, and the reason why each line ends."""

from __future__ import annotations

import os
from dataclasses import dataclass

import chess

from ..base.answer import Answer
from ..base.errors import check_least
from ..position.board import CLOCK_DRAW, fen_of
from ..position.values import cp_of, negate
from .source import Records, Step, mate_step, records_of, repeats_from, steps_of

MAX_PLIES = 200

# why a line ends
UNVISITED, UNKNOWN, REPETITION, CLOCK, TOO_LONG = "unvisited", "unknown", "repetition", "clock", "length"
CHECKMATE, STALEMATE, DEAD = "checkmate", "stalemate", "dead"


@dataclass(frozen=True, slots=True)
class LinePly(Answer):
    """One move of a line; values are those of its edge, seen by the side to move where the line begins."""

    json_keys = "move=step.move san n=step.edge.n q draw=step.edge.draws cp mate apart=step.edge.apart"

    step: Step
    q: float
    mate: int | None

    @property
    def san(self) -> str:
        """The move as people write it."""
        return self.step.san

    @property
    def cp(self) -> int:
        """`q` in centipawns."""
        return cp_of(self.q)


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
      path: the graph file, which is only read, or records in memory.
      board: the position; the game before it counts for repetitions.
      lines: number of moves with a line. plies: most plies of a line.

    Raises:
      InvalidParameterError: if `lines` is below 1.
      InvalidPositionError: if the position is not legal.
      UnknownPositionError: if the file does not hold it.
      StoreError: if the file cannot be read.
    """
    check_least(1, lines=lines)
    with records_of(path) as source:
        record = source.wanted(board)
        first = (steps_of(record, board) or mate_step(record, board))[:lines]
        found = [_line(source, board, step, plies) for step in first]
        return Lines(fen_of(board), record.visits, tuple(found))


def _line(source: Records, board: chess.Board, step: Step, most: int) -> Line:
    walk, seen = board.copy(), repeats_from(board)
    plies: list[LinePly] = []
    following: Step | None = step
    end = ""
    while following:
        edge, mate = following.edge, following.mate
        q = edge.value if edge.n else edge.q
        if walk.turn != board.turn:
            q, mate = negate(q), mate and -mate
        plies.append(LinePly(following, q, mate))
        walk.push(following.move)
        following, end = _next(source, walk, seen)
        if following and len(plies) == most:
            following, end = None, TOO_LONG
        seen.add(walk.epd())
    return Line(tuple(plies), end, fen_of(walk))


def _next(source: Records, walk: chess.Board, seen: set[str]) -> tuple[Step | None, str]:
    """Returns the next step of a line, or None and the reason why there is none."""
    ended = ended_by_rule(walk)
    if ended or walk.epd() in seen:
        return None, ended or REPETITION
    record = source.read(walk)
    if record is None:
        return None, UNKNOWN
    here = walk.copy(stack=False)
    steps = steps_of(record, here) or mate_step(record, here)
    return (steps[0], "") if steps else (None, UNVISITED)


def ended_by_rule(board: chess.Board) -> str:
    """Returns the rule that ends the game here, repetition excepted; an empty text if none does.

    >>> ended_by_rule(chess.Board("7k/6Q1/6K1/8/8/8/8/8 b - - 0 1"))
    'checkmate'
    """
    if board.is_insufficient_material():
        return DEAD
    if not any(board.generate_legal_moves()):
        return CHECKMATE if board.is_check() else STALEMATE
    return CLOCK if board.halfmove_clock >= CLOCK_DRAW else ""
