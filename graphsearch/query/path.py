"""Lines to a position: the shortest line of visited moves, and the most visited one. Reads only.

The search goes forward from the roots. `Target` excludes positions from which the target cannot be reached,
and guides the rest (A*), so it reads only some hundred of millions of positions.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import chess

from ..base.answer import Answer
from ..base.errors import UnknownPositionError, check_least
from ..position.board import board_of, check, fen_of, key_text
from .source import RecordSource, after, opened, steps_of

EXTRA_PLIES = 2  # of the most visited line beyond the shortest


@dataclass(frozen=True, slots=True)
class RouteStep:
    """A move of a route, in UCI and SAN."""

    move: str
    san: str


@dataclass(frozen=True, slots=True)
class Route:
    """A line of visited moves from a root (FEN); `least_n`: the smallest edge N, None without moves."""

    root: str
    steps: tuple[RouteStep, ...]
    least_n: int | None


@dataclass(frozen=True, slots=True)
class Path(Answer):
    """The answer of `path`.

    Attributes:
      shortest: the line of the fewest moves; None if none was found.
      most_visited: the line whose least visited move has the most visits, of those at most 2 plies longer
        than the shortest; of equal ones the shortest.
      complete: whether the answer is certain; False if the search reached the limit.
    """

    shortest: Route | None
    most_visited: Route | None
    complete: bool


def path(file: str | os.PathLike[str], board: chess.Board, *, limit: int) -> Path:
    """Returns the shortest and the most visited line to a position, from the file's roots.

    The position itself is a root only if there is no other.

    Args:
      file: the graph file; it is only read.
      board: the position.
      limit: most positions to read for each of the two lines.

    Raises:
      InvalidParameterError: if the limit is below 1.
      InvalidPositionError: if the position is not legal.
      UnknownPositionError: if the file has no root.
      StoreError: if the file cannot be read.
    """
    check_least(1, limit=limit)
    check(board)
    with opened(file) as source:
        roots = _roots(source, board)
        looking = _Looking(source, board, limit)
        shortest = looking.shortest(roots)
        visited = looking.most_visited(roots, len(shortest.steps) + EXTRA_PLIES) if shortest else None
        return Path(
            shortest=shortest,
            most_visited=visited or shortest,
            complete=looking.complete,
        )


def _roots(source: RecordSource, board: chess.Board) -> list[chess.Board]:
    roots = [board_of(info.position) for info in source.store.roots()]
    if not roots:
        raise UnknownPositionError(f"{source.path} has no roots")
    return [start for start in roots if key_text(start) != key_text(board)] or roots


@dataclass(frozen=True, slots=True)
class _Label:
    """A position on the way, and the line to it."""

    board: chess.Board
    before: _Label | None
    move: chess.Move | None
    n: int
    q: float
    plies: int
    least_n: int

    def route(self) -> Route:
        steps: list[RouteStep] = []
        label = self
        while label.before is not None and label.move is not None:
            san = label.before.board.san(label.move)
            steps.append(RouteStep(label.move.uci(), san))
            label = label.before
        return Route(fen_of(label.board), tuple(steps[::-1]), self.least_n if steps else None)


_UNBOUNDED = 1 << 40  # more visits than an edge can have


class _Looking:
    """A search for lines to one position."""

    def __init__(self, source: RecordSource, board: chess.Board, limit: int) -> None:
        self._source = source
        self._wanted = key_text(board)
        self._target = Target(board)
        self._limit = limit
        self._number = count()
        self.complete = True

    def shortest(self, roots: Sequence[chess.Board]) -> Route | None:
        """A*: expands the position from which the line can be shortest."""
        done: set[str] = set()
        heap = [((bound, 0, 0, next(self._number)), label) for label, bound in self._starts(roots)]
        heapq.heapify(heap)
        while heap:
            _, label = heapq.heappop(heap)
            key = key_text(label.board)
            if key == self._wanted:
                return label.route()
            if key in done:
                continue
            if len(done) >= self._limit:
                self.complete = False
                return None
            done.add(key)
            for child, bound in self._children(label):
                rank = (child.plies + bound, bound, -child.n, next(self._number))
                heapq.heappush(heap, (rank, child))
        return None

    def most_visited(self, roots: Sequence[chess.Board], longest: int) -> Route | None:
        """Dijkstra by the least visited move; a position counts again if reached in fewer plies."""
        fewest: dict[str, int] = {}
        heap = [((-_UNBOUNDED, 0, next(self._number)), label) for label, _ in self._starts(roots)]
        heapq.heapify(heap)
        read = 0
        while heap:
            _, label = heapq.heappop(heap)
            key = key_text(label.board)
            if key == self._wanted:
                return label.route()
            if fewest.get(key, longest + 1) <= label.plies:
                continue
            if read >= self._limit:
                self.complete = False
                return None
            fewest[key] = label.plies
            read += 1
            for child, bound in self._children(label):
                if child.plies + bound <= longest:
                    rank = (-child.least_n, child.plies, next(self._number))
                    heapq.heappush(heap, (rank, child))
        return None

    def _starts(self, roots: Sequence[chess.Board]) -> Iterator[tuple[_Label, int]]:
        for board in roots:
            bound = self._target.plies_from(board)
            if bound is not None:
                yield _Label(board.copy(stack=False), None, None, 0, 0.0, 0, _UNBOUNDED), bound

    def _children(self, label: _Label) -> Iterator[tuple[_Label, int]]:
        """Yields the positions after visited moves from which the target can still be reached."""
        record = self._source.read(label.board)
        if record is None:
            return
        for move, edge, _ in steps_of(record, label.board):
            board = after(label.board, move)
            bound = self._target.plies_from(board)
            if bound is not None:
                least = min(label.least_n, edge.n)
                yield _Label(board, label, move, edge.n, edge.value, label.plies + 1, least), bound


# ------------------------------------------------------------------ reachability
_UP_TO = [sum(chess.BB_RANKS[: r + 1]) for r in range(8)]  # ranks 1 to r + 1
_DOWN_TO = [sum(chess.BB_RANKS[r:]) for r in range(8)]

Men = tuple[int, ...]  # of one side: pawns, knights, bishops, rooks, queens, kings, all


def _men(board: chess.Board, color: chess.Color) -> Men:
    own = board.occupied_co[color]
    kinds = (board.pawns, board.knights, board.bishops, board.rooks, board.queens, board.kings)
    return (*(men & own for men in kinds), own)


class Target:
    """The position to reach; gives lower bounds of the plies to it."""

    def __init__(self, board: chess.Board) -> None:
        self._white = _men(board, chess.WHITE)
        self._black = _men(board, chess.BLACK)
        self._turn = board.turn
        self._rights = board.clean_castling_rights()
        self._pawns: dict[tuple[int, bool, bool], bool] = {}

    def plies_from(self, board: chess.Board) -> int | None:
        """Returns a lower bound of the plies from a position; None: it cannot be reached.

        >>> start, later = chess.Board(), chess.Board()
        >>> for san in ("e4", "e5", "Nf3"):
        ...     _ = later.push_san(san)
        >>> Target(later).plies_from(start), Target(start).plies_from(later)
        (3, None)
        """
        if self._rights & ~board.castling_rights:
            return None
        white, black = _men(board, chess.WHITE), _men(board, chess.BLACK)
        taken_black = black[6].bit_count() - self._black[6].bit_count()
        taken_white = white[6].bit_count() - self._white[6].bit_count()
        if taken_black < 0 or taken_white < 0:
            return None
        if not self._pawns_can(white[0], chess.WHITE, taken_black > 0):
            return None
        if not self._pawns_can(black[0], chess.BLACK, taken_white > 0):
            return None
        by_white, by_black = _moves_needed(white, self._white), _moves_needed(black, self._black)
        if by_white is None or by_black is None:
            return None
        first, second = (by_white, by_black) if board.turn == chess.WHITE else (by_black, by_white)
        plies = max(2 * first - 1, 2 * second, 0)
        return plies + ((plies + (board.turn != self._turn)) & 1)

    def _pawns_can(self, pawns: int, color: chess.Color, captures: bool) -> bool:
        """Returns whether the pawns can reach the target's: only forward, changing files only by captures."""
        known = self._pawns.get((pawns, color, captures))
        if known is None:
            goal = (self._white if color == chess.WHITE else self._black)[0]
            known = all(
                (goal & part & behind).bit_count() <= (pawns & part & behind).bit_count()
                for part in ((chess.BB_ALL,) if captures else chess.BB_FILES)
                for behind in (_UP_TO if color == chess.WHITE else _DOWN_TO)
            )
            self._pawns[pawns, color, captures] = known
        return known


def _moves_needed(now: Men, goal: Men) -> int | None:
    promotions = now[0].bit_count() - goal[0].bit_count()
    missing = [(b & ~a).bit_count() for a, b in zip(now[:6], goal[:6], strict=True)]
    made = sum(max(0, b.bit_count() - a.bit_count()) for a, b in zip(now[1:6], goal[1:6], strict=True))
    if promotions < made:
        return None
    castling = missing[5] and missing[3]  # king and rook by one move
    return sum(missing) - bool(castling)
