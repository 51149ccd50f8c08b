"""The prover: does a side mate within so many plies? All questions share one table, which holds the line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import chess
import numpy as np

from ...base.errors import CapacityError
from ...position.board import decode_move
from ...position.board_kernel import PW
from ...position.late import pack_root
from ...position.tables import load_tables
from ...store.record.transposition import EntryTable
from . import proof_kernel as kernel
from . import transposition_kernel as shared
from .sides import MOST_MOVES

PLACE_BYTES = 24  # of one place of the table
LEAST_PLACES, FIRST_PLACES = 1 << 12, 1 << 17
TABLE_BYTES = 1 << 28  # most, by default: 8 million places are 192 MiB
PLACES_PER_VISIT = 2  # a table with fewer grows

assert 2 * MOST_MOVES < kernel.MOST_PLIES


@dataclass(frozen=True, slots=True)
class ProofNumbers:
    """Proof and disproof number of one question.

    Attributes:
      pn, dn: proof and disproof number; 0: proven, disproved.
      plies: of a proof, its length.
    """

    pn: int
    dn: int
    plies: int

    @property
    def proven(self) -> bool:
        """Whether such a mate is proven."""
        return self.pn == 0

    @property
    def disproved(self) -> bool:
        """Whether such a mate is disproved."""
        return self.dn == 0


@dataclass(frozen=True, slots=True)
class Child:
    """A move, the numbers of the position after it, and the plies of its proof."""

    move: chess.Move
    pn: int
    dn: int
    plies: int


class Prover:
    """A table of proofs and disproofs, and the search that fills it. One thread."""

    def __init__(self, *, size: int = TABLE_BYTES, drawn: Iterable[int] = ()) -> None:
        """Creates an empty table.

        Args:
          size: bytes of the table, at most; it begins small and grows.
          drawn: Polyglot keys of positions that stood twice in the game: reaching one is a draw.
        """
        self._most_places = LEAST_PLACES
        while 2 * self._most_places * PLACE_BYTES <= size:
            self._most_places *= 2
        places = min(FIRST_PLACES, self._most_places)
        deep = kernel.MOST_PLIES + 3
        self.arrays = kernel.ProverArrays(
            np.zeros(places, np.uint64),
            np.zeros(places, np.uint64),
            np.zeros(places, np.uint64),
            np.zeros(deep * PW, np.uint64),
            np.zeros(deep * kernel.ROOM, np.uint16),
            np.zeros(deep * kernel.ROOM * kernel.CHILD_WORDS, np.int64),
            np.zeros(deep * kernel.FRAME_WORDS, np.int64),
            np.array([*drawn, 0], np.uint64),
            np.zeros(kernel.COUNTERS, np.int64),
            np.zeros(kernel.RESULT_WORDS, np.int64),
        )
        self._tables = load_tables()

    @property
    def visits(self) -> int:
        """Nodes expanded, counted each time."""
        return int(self.arrays.counters[kernel.VISITS])

    def ask(self, board: chess.Board, *, attacks: bool, plies: int, visits: int) -> ProofNumbers:
        """Returns the numbers of a question after at most `visits` more visits.

        Args:
          board: a position with a legal move.
          attacks: whether the side to move is to mate, else the other side.
          plies: of the longest mate; ANY_LENGTH: no limit, and then a disproof holds for nothing else.
        """
        self._grow()
        self.arrays.counters[kernel.VISIT_LIMIT] = self.visits + visits
        kernel.prove(self._tables, self.arrays, pack_root(board), attacks, plies)
        return self._numbers()

    def _grow(self) -> None:
        """Enlarges the table if it may be full: a visit stores one entry, often an existing one."""
        places = self.arrays.keys.size
        if self.visits * PLACES_PER_VISIT >= places and places < self._most_places:
            self.spread(min(4 * places, self._most_places))

    def spread(self, places: int = LEAST_PLACES) -> None:
        """Rehashes the table into one of at least `places` places."""
        more = max(places, self.arrays.keys.size)
        keys, numbers, data = (np.zeros(more, np.uint64) for _ in range(3))
        larger = self.arrays._replace(keys=keys, numbers=numbers, data=data)
        shared.spread(self.arrays, larger)
        self.arrays = larger

    def look(self, board: chess.Board, *, attacks: bool, plies: int) -> tuple[ProofNumbers, list[Child]]:
        """Returns the moves of a position with the proof numbers of their children, after one more visit."""
        count = int(kernel.look(self._tables, self.arrays, pack_root(board), attacks, plies))
        moves = self.arrays.moves[:count].tolist()
        rows = self.arrays.children[: count * kernel.CHILD_WORDS].reshape(count, kernel.CHILD_WORDS).tolist()
        children = [
            Child(decode_move(move), row[kernel.PN], row[kernel.DN], row[kernel.LENGTH])
            for move, row in zip(moves, rows, strict=True)
        ]
        return self._numbers(), children

    def _numbers(self) -> ProofNumbers:
        found = self.arrays.result
        return ProofNumbers(
            int(found[kernel.RESULT_PN]),
            int(found[kernel.RESULT_DN]),
            int(found[kernel.RESULT_PLIES]),
        )

    # -------------------------------------------------------------- sharing
    @property
    def proofs(self) -> int:
        """Number of positions in the table with a proven mate, by either side."""
        return int(shared.count_proofs(self.arrays))

    def take(self, table: EntryTable) -> int:
        """Imports the proven mates of a table of entries; returns their number."""
        return int(shared.take_entries(self.arrays, table.arrays))

    def give(self, table: EntryTable, *, exact: bool) -> int:
        """Exports proven mates as entries to be saved, except cheap ones; returns their number.

        Args:
          exact: whether disproofs of shorter mates hold for the position itself; False in a game with
            repetitions.
        """
        return int(shared.give_entries(self.arrays, table.arrays, exact))


REPROOF_VISITS = 100_000  # of one attempt to find a lost proof again
REPROOF_TIMES = 50  # attempts; after them the table counts as too small
DOUBT_VISITS = 2_000  # to find that a defence is shorter than its proof


@dataclass(frozen=True, slots=True)
class Settled:
    """A proven position: plies to the mate, and the move of the line."""

    plies: int
    move: chess.Move


class LineFinder:
    """Follows proofs from position to position; a shorter mate found on the way counts from then on."""

    def __init__(self, prover: Prover, *, stop: Callable[[], bool] | None = None) -> None:
        """Creates a finder over a prover; `stop` ends the checks of defences, never the line itself."""
        self._prover = prover
        self._stop = stop or (lambda: False)
        self.reproof = REPROOF_VISITS, REPROOF_TIMES  # of attempts to find a lost proof again

    def line(self, board: chess.Board, *, attacks: bool, plies: int) -> list[chess.Move]:
        """Returns the line of a proven mate within `plies`, as long as the table's proof at the end."""
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
        """Returns the plies to mate from the start of a path, after its end got a shorter mate."""
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
        """Returns the moves of a proven position with their proofs; searches lost proofs again."""
        visits, times = self.reproof
        for attempt in range(1 + times):
            if attempt:
                self._prover.ask(board, attacks=attacks, plies=plies, visits=visits)
            answer, children = self._prover.look(board, attacks=attacks, plies=plies)
            if answer.proven:
                return children
        raise CapacityError(f"the proof of a mate in {plies} plies is lost: {board.fen()}")

    def _lasting(self, board: chess.Board, defences: list[Child], doubted: set[chess.Move]) -> Child | None:
        """Returns a defence that surely lasts as long as its proof, else the first; None if one is short."""
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
