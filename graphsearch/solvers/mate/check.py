"""Checks a claimed mate independently: plays out every defence by the rules of python-chess alone.

The search supplies only the attacker's moves, which are proposals: the check refutes wrong ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import chess

from ...base.answer import Answer
from ...base.errors import GraphSearchError
from ...position.board import CLOCK_DRAW

Attack = Callable[[chess.Board, int], chess.Move | None]
Key = Hashable


class MateRefutedError(GraphSearchError):
    """Raised when a claimed mate fails; `line` shows where."""

    def __init__(self, reason: str, board: chess.Board, line: tuple[chess.Move, ...]) -> None:
        shown = board.variation_san(line) if line else "at once"
        super().__init__(f"no mate: {reason} ({shown}): {board.fen()}")
        self.line = line


@dataclass(frozen=True, slots=True)
class MateCheck(Answer):
    """A confirmed claim.

    Attributes:
      plies: the longest defence against the attacker's moves. line: that defence, to the mate.
      positions: examined; one that several lines reach counts once.
    """

    json_keys = "plies positions"

    plies: int
    line: tuple[chess.Move, ...]
    positions: int


@dataclass(frozen=True, slots=True)
class _Mated:
    """A position with a checked mate: plies to it, the move of the line, and the clock at the check."""

    plies: int
    move: chess.Move | None
    clock: int


def check_mate(board: chess.Board, moves: int, attack: Attack) -> MateCheck:
    """Returns the longest defence against a claimed mate.

    Args:
      board: with its game, whose repetitions count.
      moves: the claim, as in `MateResult.mate`: the side to move mates in `moves`; negative: it is mated.
      attack: returns the attacker's move in a position with the plies left; called once for a position.

    Raises:
      MateRefutedError: with the line, if a defence lasts longer, or the attacker has no (legal) move, or the
        game is drawn on the way: stalemate, 50 moves, third repetition, dead position.
    """
    checker = _Checker(board, attack)
    if moves == 0:
        if not board.is_checkmate():
            raise MateRefutedError("there is no mate on the board", board, ())
        return MateCheck(0, (), 1)
    plies = 2 * moves - 1 if moves > 0 else -2 * moves
    found = checker.mated(plies, attacks=moves > 0)
    return MateCheck(found, checker.line(), len(checker.known))


class _Checker:
    def __init__(self, board: chess.Board, attack: Attack) -> None:
        self.root = board.copy()
        self.board = board.copy()
        self.attack = attack
        self.known: dict[Key, _Mated] = {}
        self.path: list[chess.Move] = []
        self.drawn = _twice(board)

    def mated(self, left: int, *, attacks: bool) -> int:
        """Returns the plies to mate of the position; refutes the claim if they exceed `left`."""
        key, clock = self.board._transposition_key(), self.board.halfmove_clock
        known = self.known.get(key)
        if known is not None and (clock <= known.clock or clock + known.plies <= CLOCK_DRAW):
            if known.plies > left:
                self._refute("a defence lasts longer")
            return known.plies
        found = self._attacked(left, clock) if attacks else self._defended(left, clock)
        self.known[key] = found
        return found.plies

    def _attacked(self, left: int, clock: int) -> _Mated:
        self._refute_draws(left)
        if left < 1:
            self._refute("a defence lasts longer")
        move = self.attack(self.board.copy(stack=False), left)
        if move is None or move not in self.board.legal_moves:
            self._refute("the attacker has no move")
        assert move is not None
        return _Mated(self._after(move, left, attacks=False) + 1, move, clock)

    def _defended(self, left: int, clock: int) -> _Mated:
        if self.board.is_checkmate():
            return _Mated(0, None, clock)
        self._refute_draws(left)
        if left < 2:
            self._refute("a defence lasts longer")
        longest, best = 0, None
        for move in list(self.board.legal_moves):
            plies = self._after(move, left, attacks=True) + 1
            if plies > longest:
                longest, best = plies, move
        return _Mated(longest, best, clock)

    def _after(self, move: chess.Move, left: int, *, attacks: bool) -> int:
        self.board.push(move)
        self.path.append(move)
        plies = self.mated(left - 1, attacks=attacks)
        self.path.pop()
        self.board.pop()
        return plies

    def _refute_draws(self, left: int) -> None:
        """Refutes the claim if the game is over without a mate of the attacker."""
        if not any(self.board.generate_legal_moves()):
            self._refute("stalemate" if not self.board.is_check() else "the attacker is mated")
        if self.board.is_insufficient_material():
            self._refute("a dead position")
        if self.path and self.board.halfmove_clock >= CLOCK_DRAW:
            self._refute("50 moves without progress")
        if self.path and self.board._transposition_key() in self.drawn:
            self._refute("a position for the third time")

    def _refute(self, reason: str) -> None:
        raise MateRefutedError(reason, self.root, tuple(self.path))

    def line(self) -> tuple[chess.Move, ...]:
        """Returns the longest defence from the root, after `mated` has checked it."""
        board, moves = self.root.copy(stack=False), list[chess.Move]()
        while (move := self.known[board._transposition_key()].move) is not None:
            moves.append(move)
            board.push(move)
        return tuple(moves)


def _twice(board: chess.Board) -> set[Key]:
    game, counts = board.copy(), Counter[Key]()
    while game.move_stack:
        game.pop()
        counts[game._transposition_key()] += 1
    return {key for key, count in counts.items() if count >= 2}
