"""The line of a proven mate: the best attack against the longest defence, found in the prover's table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import chess

from ...errors import CapacityError
from .prover import Child, Prover

REPROOF_VISITS = 100_000  # at a time, to find a lost proof again
REPROOF_TIMES = 50  # then the table counts as too small
DOUBT_VISITS = 2_000  # to find that a defence does not last as long as its proof


@dataclass(frozen=True, slots=True)
class Settled:
    """A proven position: plies to the mate, and the move of the line."""

    plies: int
    move: chess.Move


class LineFinder:
    """Follows proofs from position to position; a shorter mate found on the way counts from then on."""

    def __init__(self, prover: Prover, *, stop: Callable[[], bool] | None = None) -> None:
        """Creates a finder over a prover; `stop` ends doubts about defences, never the line itself."""
        self._prover = prover
        self._stop = stop or (lambda: False)

    def line(self, board: chess.Board, *, attacks: bool, plies: int) -> list[chess.Move]:
        """Returns a line to mate of at most `plies` plies, for which a proof is known.

        Its length is that of the proof which the table then has of the position.
        """
        while True:
            path, moves = [board.copy(stack=False)], list[chess.Move]()
            left = plies
            while left > 0:
                settled = self.settle(path[-1], attacks=attacks == (len(moves) % 2 == 0), plies=left)
                if settled.plies < left:
                    break
                moves.append(settled.move)
                path.append(path[-1].copy(stack=False))
                path[-1].push(settled.move)
                left -= 1
            if left == 0:
                return moves
            plies = self._shortened(path, attacks=attacks, plies=plies)

    def _shortened(self, path: list[chess.Board], *, attacks: bool, plies: int) -> int:
        """Returns the plies of the first position of a path, after its last position became shorter."""
        found = plies
        for k in range(len(path) - 1, -1, -1):
            found = self.settle(path[k], attacks=attacks == (k % 2 == 0), plies=plies - k).plies
        return found

    def settle(self, board: chess.Board, *, attacks: bool, plies: int) -> Settled:
        """Returns the move of the line in a position that is proven to be mate within `plies`.

        Raises:
          CapacityError: if the proof is lost, and cannot be found again.
        """
        doubted: set[chess.Move] = set()
        while True:
            children = self._proven_children(board, attacks=attacks, plies=plies)
            if attacks:
                best = min((child for child in children if child.pn == 0), key=lambda child: child.plies)
                return Settled(best.plies + 1, best.move)
            longest = max(child.plies for child in children)
            defences = [child for child in children if child.plies == longest]
            lasting = self._lasting(board, defences, doubted)
            if lasting is not None:
                return Settled(longest + 1, lasting.move)

    def _proven_children(self, board: chess.Board, *, attacks: bool, plies: int) -> list[Child]:
        """Returns the moves of a proven position with the proofs behind them; searches lost ones again."""
        for _ in range(REPROOF_TIMES):
            answer, children = self._prover.look(board, attacks=attacks, plies=plies)
            if answer.proven:
                return children
            self._prover.ask(board, attacks=attacks, plies=plies, visits=REPROOF_VISITS)
        raise CapacityError(f"the proof of a mate in {plies} plies is lost: {board.fen()}")

    def _lasting(self, board: chess.Board, defences: list[Child], doubted: set[chess.Move]) -> Child | None:
        """Returns the defence that surely lasts as long as its proof, or the first; None if one is short."""
        unsure = None
        for child in defences:
            if child.plies < 3 or self._stop():
                return unsure or child
            if child.move not in doubted:
                doubted.add(child.move)
                board.push(child.move)
                answer = self._prover.ask(board, attacks=True, plies=child.plies - 2, visits=DOUBT_VISITS)
                board.pop()
                if answer.proven:
                    return None
                if answer.disproved:
                    return child
            unsure = unsure or child
        return unsure
