"""The drill of a repertoire: asks own positions again after intervals that double with each right answer.

The boxes are those of S. Leitner, "So lernt man lernen" (1972). After `box` right answers in a row,
each when it was due, a position is due again in 2^(box - 1) days; the last box is 9. A wrong answer moves it
to box 0, which is due at once. Days are local calendar days: tomorrow begins at midnight.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, replace
from datetime import date, timedelta

import chess

from ....base.answer import Answer
from ....base.errors import InvalidPositionError
from ....position.board import board_of, fen_of, key_text
from ....position.notation import read_legal_uci
from ....query.source import opened
from ....store.plain_tables import changing
from ....store.tables import repertoire as rows
from ....store.tables.columns import MOST_BOX
from ....store.tables.repertoire import RepertoirePosition
from .moves import SIDES, Repertoire, checked_side, load, load_from
from .survey import Surveyor

AnyPath = str | os.PathLike[str]
RARE = 0.02  # the least weight of a reply in the drill


def days_after(box: int) -> int:
    """Returns the days until a position in a box is due.

    >>> [days_after(box) for box in range(10)]
    [0, 1, 2, 4, 8, 16, 32, 64, 128, 256]
    """
    return 1 << (box - 1) if box else 0


def answered(card: RepertoirePosition, today: date, *, right: bool) -> RepertoirePosition:
    """Returns a position after an answer; a right answer before it is due leaves its box and its day.

    >>> card = answered(RepertoirePosition("", "", 0), date(2024, 2, 28), right=True)
    >>> (card.box, card.due)
    (1, '2024-02-29')
    >>> answered(card, date(2024, 2, 28), right=True).box
    1
    >>> card = answered(replace(card, box=4), date(2024, 2, 29), right=False)
    >>> (card.box, card.due, card.asked, card.failed)
    (0, '2024-02-29', 2, 1)
    """
    if right and not is_due(card, today):
        return replace(card, asked=card.asked + 1)
    box = min(card.box + 1, MOST_BOX) if right else 0
    due = today + timedelta(days=days_after(box))
    return replace(card, box=box, due=due.isoformat(), asked=card.asked + 1, failed=card.failed + (not right))


def is_due(card: RepertoirePosition, today: date) -> bool:
    """Returns whether a position is due on a day; ISO dates sort by time."""
    return card.due is None or card.due <= today.isoformat()


# ------------------------------------------------------------------ due positions
@dataclass(frozen=True, slots=True)
class DueCard(Answer):
    """A due position: FEN, box, and the day since it is due; None if it was never asked."""

    position: str
    key: str
    box: int
    due: str | None


@dataclass(frozen=True, slots=True)
class DrillState(Answer):
    """The drill of a side: the number of positions with an own move, and the due ones, longest due first.

    Attributes:
      next_due: the day on which the next other position is due, or None.
    """

    side: str
    cards: int
    due: tuple[DueCard, ...]
    next_due: str | None


@dataclass(frozen=True, slots=True)
class DrillStates(Answer):
    """The drills of both sides, or one."""

    drills: tuple[DrillState, ...]


def due_cards(path: AnyPath, side: str | None = None, *, today: date | None = None) -> DrillStates:
    """Returns the due positions of one side or of both.

    Raises:
      InvalidParameterError: if the side is invalid.
      StoreError: if the file cannot be read.
    """
    day = today or date.today()
    return DrillStates(tuple(_state(load(path, one), day) for one in ([side] if side else SIDES)))


def _state(repertoire: Repertoire, today: date) -> DrillState:
    cards = list(repertoire.cards())
    due = sorted((card for card in cards if is_due(card, today)), key=lambda card: card.due or "")
    later = [card.due for card in cards if card.due and not is_due(card, today)]
    found = tuple(DueCard(card.fen, card.key, card.box, card.due) for card in due)
    return DrillState(repertoire.side, len(cards), found, min(later, default=None))


# ------------------------------------------------------------------ asking
@dataclass(frozen=True, slots=True)
class Question(Answer):
    """The next position to ask.

    Attributes:
      root: FEN of the position where the line begins. moves: the line to the position, UCI.
      position: FEN. due: number of due positions. cards: number of all positions of the drill.
    """

    side: str
    root: str
    moves: tuple[str, ...]
    position: str
    due: int
    cards: int


@dataclass(frozen=True, slots=True)
class Verdict(Answer):
    """The result of an answer.

    Attributes:
      right: whether the repertoire has the move. moves, sans: its moves, UCI and SAN.
      box, next_due: of the position from now on. due: number of due positions now.
    """

    right: bool
    moves: tuple[str, ...]
    sans: tuple[str, ...]
    box: int
    next_due: str | None
    due: int


def next_question(
    path: AnyPath,
    side: str,
    board: chess.Board | None = None,
    *,
    today: date | None = None,
    rng: random.Random | None = None,
) -> Question | None:
    """Returns the next position to ask, None if none is due.

    It continues the line of `board` if that leads to a due position, otherwise it begins a new line. On the
    way it plays own moves that are not due, and draws replies by their probability among those that lead to a
    due position.

    Raises:
      InvalidParameterError: if the side is invalid.
      StoreError: if the file cannot be read.
    """
    day = today or date.today()
    repertoire = load(path, side)
    with opened(path) as source:
        walk = _Walk(Surveyor(repertoire, source), day, rng or random.Random())  # noqa: S311 (a game)
        found = walk.onward(board) if board is not None else None
        return found or walk.anew()


class _Walk:
    """Walks through a repertoire to a due position."""

    def __init__(self, surveyor: Surveyor, today: date, rng: random.Random) -> None:
        self._surveyor, self._rng = surveyor, rng
        self._repertoire = surveyor.repertoire
        cards = list(self._repertoire.cards())
        self._due = {card.key for card in cards if is_due(card, today)}
        self._cards = len(cards)
        self._before: dict[str, list[str]] = {}
        for key, moves in self._repertoire.moves.items():
            for move in moves.values():
                self._before.setdefault(move.child, []).append(key)

    def onward(self, board: chess.Board) -> Question | None:
        """Returns the next due position on a line, or None."""
        walk, met = board.root(), set[str]()
        for move in board.move_stack:
            met.add(key_text(walk))
            walk.push(move)
        return self._go(board, met)

    def anew(self) -> Question | None:
        """Returns the first due position of a new line."""
        for key in self._repertoire.roots():
            found = self._go(board_of(self._repertoire.positions[key].fen), set())
            if found:
                return found
        return None

    def _go(self, board: chess.Board, met: set[str]) -> Question | None:
        walk = board.copy()
        key = key_text(walk)
        leads = self._leading(met)
        while key in leads:
            if key in self._due:
                return self._question(walk)
            met.add(key)
            leads = self._leading(met)
            ways = [
                one
                for one in self._repertoire.moves_at(key)
                if one.child in leads and walk.is_legal(chess.Move.from_uci(one.move))
            ]
            if not ways:
                return None
            chosen = self._chosen(key, walk, {one.move: one.child for one in ways})
            walk.push_uci(chosen)
            key = key_text(walk)
        return None

    def _chosen(self, key: str, board: chess.Board, ways: dict[str, str]) -> str:
        """Returns one of several moves: the first own one, or a random reply by its weight."""
        moves = list(ways)
        if self._repertoire.is_own(key):
            return moves[0]
        shares = self._surveyor.shares(key, board)
        return self._rng.choices(moves, [max(RARE, shares.get(move, 0.0)) for move in moves])[0]

    def _leading(self, met: set[str]) -> set[str]:
        """Returns the due positions and those that lead to one, without positions already met."""
        found = self._due - met
        waiting = list(found)
        while waiting:
            for key in self._before.get(waiting.pop(), ()):
                if key not in found and key not in met:
                    found.add(key)
                    waiting.append(key)
        return found

    def _question(self, board: chess.Board) -> Question:
        return Question(
            side=self._repertoire.side,
            root=fen_of(board.root()),
            moves=tuple(move.uci() for move in board.move_stack),
            position=fen_of(board),
            due=len(self._due),
            cards=self._cards,
        )


# ------------------------------------------------------------------ answering
def answer(path: AnyPath, side: str, board: chess.Board, text: str, *, today: date | None = None) -> Verdict:
    """Stores an answer in the file, and returns its result.

    Args:
      board: the position asked. text: the answer, in UCI.

    Raises:
      InvalidParameterError: if the side is invalid.
      InvalidPositionError: if the repertoire has no own move there, or the answer is not a legal move.
      StoreError: if the file cannot be written.
    """
    checked_side(side)
    try:
        given = read_legal_uci(board, text)
    except ValueError:
        raise InvalidPositionError(f"{text!r} is not a legal move in {fen_of(board)}") from None
    day = today or date.today()
    with changing(path) as connection:
        repertoire = load_from(connection, side)
        key = key_text(board)
        known = repertoire.moves.get(key, {})
        if not known or not repertoire.is_own(key):
            raise InvalidPositionError(f"{side}'s repertoire has no move of its own in {fen_of(board)}")
        card = answered(repertoire.positions[key], day, right=given.uci() in known)
        rows.put_positions(connection, side, [card])
        repertoire.positions[key] = card
        moves = [chess.Move.from_uci(move) for move in known]
        return Verdict(
            right=given.uci() in known,
            moves=tuple(known),
            sans=tuple(board.san(move) for move in moves if board.is_legal(move)),
            box=card.box,
            next_due=card.due,
            due=sum(is_due(one, day) for one in repertoire.cards()),
        )
