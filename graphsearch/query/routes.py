"""Ways to a position: the stored positions with a move to it, and lines to it. Reads only.

A generator takes moves back, on squares only. The file's filters reject most of the resulting positions;
python-chess checks the rest: position and move must be legal, and lead to exactly this position.

Positions with clocks up to 75 share a key, and before a capture or a pawn move only these are looked for.
Before another move the clock was one less.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, product

import chess
import numpy as np
from chess.polyglot import zobrist_hash

from ..base.answer import Answer
from ..position.board import (
    FREE_CLOCK,
    KEY,
    POSITION_WORDS,
    after,
    as_chess960,
    board_of,
    check,
    check_rules,
    encode_move,
    fen_of,
    key_text,
    legal_moves,
    pack_checked,
)
from ..position.notation import sans_of
from ..position.openings import Opening, opening_at, opening_of
from ..store.ranking import edge_of
from ..store.tables.books import roots_of
from .source import RecordSource, Step, opened, ways_of
from .steps import positions_after

# ------------------------------------------------------------------ moves taken back
_PROMOTED = (chess.QUEEN, chess.ROOK, chess.BISHOP, chess.KNIGHT)
_CAPTURED = (chess.PAWN, chess.KNIGHT, chess.BISHOP, chess.ROOK, chess.QUEEN)
_WINGS = ((chess.G1, chess.F1, 1), (chess.C1, chess.D1, -1))  # targets of king and rook, the rook's side

Unmade = tuple[chess.Board, chess.Move]  # a position, and a move that may lead from it to the requested one


def leads_to(candidate: Unmade, board: chess.Board) -> chess.Move | None:
    """Returns the legal move of a candidate that leads to the position; None if there is none."""
    before, move = candidate
    try:
        check_rules(before)  # seven queens with seven pawns, for example, are illegal
        found = before.find_move(move.from_square, move.to_square, move.promotion)
    except ValueError:
        return None
    child = after(before, found)
    same = child.board_fen() == board.board_fen() and zobrist_hash(child) == zobrist_hash(board)
    return found if same else None


def candidates(board: chess.Board) -> Iterator[Unmade]:
    """Yields all predecessors, without history, among many that are illegal or lead elsewhere (`leads_to`).

    Positions differ as in the graph. Those of Chess960 are included: without castling rights they look like
    those of standard chess.
    """
    late = board.halfmove_clock > FREE_CLOCK  # then the move was neither a capture nor a pawn's
    clock = board.halfmove_clock - 1 if board.halfmove_clock - 1 > FREE_CLOCK else 0
    now = board.clean_castling_rights()
    for before, move, quiet in _without_state(board):
        if late and not quiet:
            continue
        touched = chess.BB_SQUARES[move.from_square] | chess.BB_SQUARES[move.to_square]
        wings = [_lost_by(before, now, touched, wing, side) for wing in chess.COLORS for side in (1, -1)]
        for lost in product(*wings):  # rights that the move may have ended
            for ep in _en_passant_before(before):
                found = before.copy(stack=False)
                found.castling_rights, found.ep_square = now | sum(lost), ep
                found.halfmove_clock = clock if quiet else 0
                if found.has_chess960_castling_rights():
                    found = as_chess960(found)
                yield found, move


_Unmove = tuple[chess.Board, chess.Move, bool]


def _without_state(board: chess.Board) -> Iterator[_Unmove]:
    """Yields (men and turn before, move, whether it was neither capture nor pawn move) for each unmove."""
    mover = not board.turn
    for square in chess.scan_forward(board.occupied_co[mover]):
        piece = board.piece_type_at(square)
        assert piece is not None
        if piece == chess.PAWN:
            yield from _pawn_unmoves(board, square)
        else:
            for origin in chess.scan_forward(board.attacks_mask(square) & ~board.occupied):
                move = chess.Move(origin, square)
                yield _unmoved(board, move, piece), move, True
                yield from _with_captures(board, move, piece)
            if piece in _PROMOTED and chess.square_rank(square) == (7 if mover else 0):
                yield from _pawn_unmoves(board, square, piece)
    yield from _uncastlings(board, mover)


def _taken_back(board: chess.Board, men: Mapping[int, chess.Piece | None]) -> chess.Board:
    """Returns the men before a move, with its side to move; `men`: by square, what the move changed."""
    before = chess.Board(None)
    for name in ("pawns", "knights", "bishops", "rooks", "queens", "kings", "occupied"):
        setattr(before, name, getattr(board, name))
    before.occupied_co, before.turn = board.occupied_co.copy(), not board.turn
    for square, piece in men.items():
        before.set_piece_at(square, piece)
    return before


def _unmoved(board: chess.Board, move: chess.Move, piece: int, captured: int | None = None) -> chess.Board:
    """Returns the men before a move: `piece` back on its square, the captured man back on the board."""
    taken = chess.Piece(captured, board.turn) if captured else None
    return _taken_back(board, {move.to_square: taken, move.from_square: chess.Piece(piece, not board.turn)})


def _with_captures(board: chess.Board, move: chess.Move, piece: int) -> Iterator[_Unmove]:
    """Yields a move taken back for every man that it may have captured."""
    for captured in _CAPTURED:
        if captured != chess.PAWN or 0 < chess.square_rank(move.to_square) < 7:
            yield _unmoved(board, move, piece, captured), move, False


def _pawn_unmoves(board: chess.Board, square: int, promotion: int | None = None) -> Iterator[_Unmove]:
    """Yields the moves of a pawn to a square, which became `promotion` there, taken back."""
    mover, rank = not board.turn, chess.square_rank(square)
    if rank == (1 if mover else 6):  # the first rank of pawns
        return
    back = -8 if mover else 8
    steps = [back, 2 * back] if rank == (3 if mover else 4) else [back]
    for step in steps:
        if board.occupied & chess.BB_SQUARES[square + step]:
            break
        move = chess.Move(square + step, square, promotion)
        yield _unmoved(board, move, chess.PAWN), move, False
    for origin in chess.scan_forward(chess.BB_PAWN_ATTACKS[not mover][square] & ~board.occupied):
        move = chess.Move(origin, square, promotion)
        yield from _with_captures(board, move, chess.PAWN)
        taken, double = square + back, square - back  # of a pawn captured en passant, and its first square
        if rank == (5 if mover else 2) and not board.occupied & (
            chess.BB_SQUARES[taken] | chess.BB_SQUARES[double]
        ):
            before = _unmoved(board, move, chess.PAWN)
            before.set_piece_at(taken, chess.Piece(chess.PAWN, not mover))
            before.ep_square = square
            yield before, move, False


def _uncastlings(board: chess.Board, mover: chess.Color) -> Iterator[_Unmove]:
    """Yields castling taken back, the king taking his rook."""
    home, ours = 0 if mover else chess.A8, board.occupied_co[mover]
    king, rook = chess.Piece(chess.KING, mover), chess.Piece(chess.ROOK, mover)
    for king_to, rook_to, side in _WINGS:
        targets = chess.SquareSet([king_to + home, rook_to + home])
        if not (board.kings & ours & chess.BB_SQUARES[king_to + home] and board.rooks & ours & int(targets)):
            continue
        free = [square for square in range(home, home + 8) if square in targets or not board.piece_at(square)]
        for king_from, rook_from in product(free, repeat=2):
            if (rook_from - king_from) * side > 0:
                men = {**dict.fromkeys(targets), king_from: king, rook_from: rook}
                yield _taken_back(board, men), chess.Move(king_from, rook_from), True


def _lost_by(before: chess.Board, now: int, touched: int, color: chess.Color, side: int) -> list[int]:
    """Returns the rights of a wing that a move may have ended, each as its rook, and 0 for none.

    `now`: the rights after it. `touched`: the squares that it left or entered. `side`: 1 right of the king.
    """
    rank = chess.BB_RANK_1 if color else chess.BB_RANK_8
    if not touched & rank or (king := before.king(color)) is None or not rank & chess.BB_SQUARES[king]:
        return [0]
    ours = rank & before.rooks & before.occupied_co[color]
    rooks = [chess.BB_SQUARES[square] for square in chess.scan_forward(ours) if (square - king) * side > 0]
    if any(rook & now for rook in rooks):
        return [0]
    return [0, *(rook for rook in rooks if touched & (rook | chess.BB_SQUARES[king]))]


def _en_passant_before(before: chess.Board) -> Iterator[int | None]:
    """Yields the squares on which a capture en passant may have been possible; None for no such square."""
    if before.ep_square is not None:  # the move was one
        yield before.ep_square
        return
    yield None
    rank, step = (chess.BB_RANK_5, 8) if before.turn else (chess.BB_RANK_4, -8)
    for pawn in chess.scan_forward(before.pawns & before.occupied_co[not before.turn] & rank):
        tried = before.copy(stack=False)
        tried.ep_square = pawn + step
        if tried.has_pseudo_legal_en_passant() and not tried.status() & chess.STATUS_INVALID_EP_SQUARE:
            yield tried.ep_square


@dataclass(frozen=True, slots=True)
class Parent(Answer):
    """A stored position, its node N, and a move from it to the requested one, which may have no visits."""

    json_keys = "position visits move=step.move san=step.san n=step.edge.n p=step.p q=step.q cp=step.cp"

    step: Step
    visits: int

    @property
    def position(self) -> str:
        """FEN, move number 1."""
        return fen_of(self.step.board)


@dataclass(frozen=True, slots=True)
class Parents(Answer):
    """The answer of `parents`: the stored positions, most visits of the edge first."""

    parents: tuple[Parent, ...]


def parents(path: str | os.PathLike[str], board: chess.Board) -> Parents:
    """Returns the stored positions that have a legal move to a position, which need not be stored."""
    check(board)
    with opened(path) as source:
        found = stored(source, board)
    return Parents(tuple(sorted(found, key=lambda one: (-one.step.edge.n, -one.visits, one.position))))


def stored(source: RecordSource, board: chess.Board) -> list[Parent]:
    """Returns the stored positions with a legal move to a position."""
    tried = list(candidates(board))
    words = np.array([pack_checked(before, 0) for before, _ in tried], np.uint64).reshape(-1, POSITION_WORDS)
    moves = [encode_move(move) for _, move in tried]
    changes = positions_after(words, range(len(tried)), moves)[0][:, KEY]  # of the key 0
    keys, found = changes ^ np.uint64(zobrist_hash(board)), list[Parent]()
    for hit in np.flatnonzero(source.store.may_hold(words, keys)).tolist():
        before, move = tried[hit][0], leads_to(tried[hit], board)
        record = source.read(before) if move else None
        if move and record and record.codes:  # one from a tablebase, or damaged, has no moves
            index = legal_moves(before).index(move)
            edge = edge_of(record, record.order.index(index))
            found.append(Parent(Step(before, move, edge, record.priors[index]), record.visits))
    return found


# ------------------------------------------------------------------ lines to positions
AT_ONCE = 256  # positions read ahead
WALKED = 200  # positions read for all lines together, the most visited ones first
TAKEN_BACK = 60  # most moves taken back for one line; the rest of it is known
TAKEN_BACK_IN_ALL = 200  # for all lines; each takes some 15 ms


@dataclass(frozen=True, slots=True)
class Way:
    """A line to a position.

    Attributes:
      start: FEN of the root; None for the start position. line: the moves from there, in SAN.
      opening: the last named opening on the line.
    """

    start: str | None
    line: tuple[str, ...]
    opening: Opening | None


def routes(path: str | os.PathLike[str], positions: Iterable[str]) -> dict[str, Way]:
    """Returns a line to each position (FEN) for which one is found, from a root of a file.

    From a position outside the best-visited part of the graph it takes back the most visited moves until it
    meets a position with a line. The last positions of a long list may get no line.
    """
    wanted = list(dict.fromkeys(positions))
    if not wanted:
        return {}
    with opened(path) as source:
        finder = Finder(source)
        found = {fen: finder.way(board_of(fen)) for fen in wanted}
    return {fen: way for fen, way in found.items() if way}


@dataclass(slots=True)
class Met:
    """A position that edges lead to.

    Attributes:
      made: its board, at first of roots only. before, move: the first way here; None at a root.
      looked: whether its record was looked up.
    """

    made: chess.Board | None
    before: Met | None = None
    move: chess.Move | None = None
    looked: bool = False

    @classmethod
    def of(cls, board: chess.Board) -> Met:
        """Returns the position of a board, behind the moves of its stack."""
        found = cls(board.root())
        for move in board.move_stack:
            found = cls(None, found, move)
        return found

    def board(self) -> chess.Board:
        """Returns the position, without history."""
        if self.made is None:
            assert self.before is not None
            assert self.move is not None
            self.made = after(self.before.board(), self.move)
        return self.made

    def line(self) -> chess.Board:
        """Returns the position with the moves from the root of its first way."""
        moves: list[chess.Move] = []
        at: Met = self
        while at.before is not None and at.move is not None:
            moves.append(at.move)
            at = at.before
        board = at.board().copy(stack=False)
        for move in reversed(moves):
            board.push(move)
        return board


class Finder:
    """Finds lines from the roots of a file, in the part that it reads, the most visited moves first.

    Attributes:
      met: the positions by key.
      budget: most positions to read for all lines, WALKED unless given; raise it for a long list.
    """

    def __init__(self, source: RecordSource, *, budget: int | None = None) -> None:
        """Begins at the roots of an open file; reads no records yet."""
        self.budget = WALKED if budget is None else budget
        self._source, self._ahead, self._looked = source, 0, 0  # records read ahead, and looked up
        self.met: dict[str, Met] = {}
        self._heap: list[tuple[int, int, Met]] = []
        self._left, self._number = TAKEN_BACK_IN_ALL, count()
        for root in sorted(map(board_of, roots_of(source.store)), key=lambda board: board.ply()):
            met = self.met[key_text(root)] = Met(root.copy(stack=False))
            self._push(met, 0)

    def _push(self, met: Met, n: int) -> None:
        heapq.heappush(self._heap, (-n, next(self._number), met))

    def _expand(self) -> bool:
        """Reads the position after the most visited unread move, and adds its children; False at the end."""
        if not self._heap:
            return False
        if self._looked >= self._ahead:
            next_ones = heapq.nsmallest(AT_ONCE, self._heap)
            self._ahead = self._looked + len(next_ones)
            boards = (met.board() for _, _, met in next_ones)
            self._source.read_ahead({key_text(board): board for board in boards})
        _, _, met = heapq.heappop(self._heap)
        if met.looked:
            return True
        board = met.board()
        record = self._source.read(board)
        met.looked = True
        self._looked += 1
        for step, key in ways_of(record, board) if record else ():
            child = self.met.get(key)
            if child is None:
                child = self.met[key] = Met(None, met, step.move)
                self._push(child, step.edge.n)
            elif child.move is None and child is not met and not _leads_to(child, met):
                # a root that lies below another one: its turn comes by the visits that lead there
                child.before, child.move = met, step.move
                self._push(child, step.edge.n)
        return True

    def way(self, board: chess.Board) -> Way | None:
        """Returns a line to a position, None if none is found."""
        if fen_of(board) == chess.STARTING_FEN:
            return Way(None, (), None)
        key = key_text(board)
        met = self.met.get(key)
        while (met is None or met.move is None) and self._looked < self.budget and self._expand():
            met = met or self.met.get(key)
        found = _way(met, key) if met and met.move else None
        return found or self._looked_for(board) or _named(board) or (_way(met, key) if met else None)

    def _looked_for(self, board: chess.Board) -> Way | None:
        """Takes moves back to a position with a line; returns the whole line, None if there is none.

        If `board` is a root, lines that begin at it do not count: they would lead around a circle.
        """
        taken: list[tuple[str, chess.Move]] = []
        at, key, passed = board, key_text(board), set[str]()
        own = self.met.get(key)
        while not taken or key not in self.met:
            if self._left <= 0 or len(taken) >= TAKEN_BACK:
                return None
            self._left -= 1
            passed.add(key)
            best = self._best_before(at, passed, own)
            if best is None:
                return None
            taken.append((key, best.step.move))
            at, key = best.step.board, key_text(best.step.board)
        met = self.met[key]
        for key, move in reversed(taken):
            met = Met(None, met, move)
            self.met.setdefault(key, met)
        return _way(met, key)

    def _best_before(self, at: chess.Board, passed: set[str], own: Met | None) -> Parent | None:
        """Returns the most visited move to a position from one not passed that `own` does not lead to."""
        visited = [
            one
            for one in stored(self._source, at)
            if one.step.edge.n
            and (before := key_text(one.step.board)) not in passed
            and not _leads_to(own, self.met.get(before))
        ]
        return max(visited, key=lambda one: one.step.edge.n, default=None)


def _leads_to(met: Met | None, other: Met | None) -> bool:
    while other is not None:
        if other is met:
            return True
        other = other.before
    return False


def _way(met: Met, key: str) -> Way | None:
    """Returns the line to a position; None if its clock there has another key: a root may have had others."""
    walk = met.line()
    if key_text(walk) != key:
        return None
    root = walk.root()
    start = None if fen_of(root) == chess.STARTING_FEN else fen_of(root)
    named = _named(root) if start else None
    line = (*(named.line if named else ()), *sans_of(root, walk.move_stack))
    return Way(None if named else start, line, opening_of(walk))


def _named(board: chess.Board) -> Way | None:
    """Returns the line of the table of openings to a named position; None without a name."""
    found = opening_at(board) if board.halfmove_clock <= FREE_CLOCK else None
    return Way(None, found.line, found) if found else None
