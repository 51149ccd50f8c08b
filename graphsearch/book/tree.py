"""The book in memory: its positions, their values, and the costs of paths to leaves.

Plies keep the graph of a book free of cycles: a move to a position at no larger ply (a lost tempo, or a line
that returns) counts with its own edge's value, and is on no path to a leaf.

    value = best of -(child's value) and of the moves outside the book
    reach = min over moves of cost(move) + (child's reach); a leaf has 0
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

import chess

from ..position.notation import ply_of
from ..position.values import cp_of, negate

if TYPE_CHECKING:
    from .config import Expansion

MAX_LOSS = 10_000  # centipawns, so that a missed mate does not outweigh everything else


# ------------------------------------------------------------------ positions
LEAF, OPEN, END, APART = "leaf", "open", "end", "apart"


@dataclass(slots=True, kw_only=True)
class BookMove:
    """A move of the book, in UCI; values are seen by the side that plays it.

    Attributes:
      child: key of the position after it. rule: by which it was added.
      p, n, q: prior, edge N and edge Q (None while n = 0) in the record at the last search or reevaluation.
      value: of the book when its row was last written; None if it was unknown then.
      loss, games: when it was added: centipawns against the best move, imported games with it.
      since: number of the book's run that added it.
    """

    move: str
    san: str
    child: str
    rule: str
    since: int
    p: float = 0.0
    n: int = 0
    q: float | None = None
    value: float | None = None
    loss: int | None = None
    games: int = 0


@dataclass(slots=True, kw_only=True)
class Position:
    """A position of the book; values are seen by the side to move.

    Attributes:
      key: as `key_text` has it. ply: fewest half-moves to it.
      state: `leaf`, `open`, `end`, or `apart` while no root leads to it.
      searches: number of searches to the limit. n: node N after the last one.
      value: of the book; None before the first search.
      outside, outside_move: best value among visited moves outside the book, and that move, or None.
      priority: of a leaf when a build last ended, the smaller the sooner; None: none.
      since: number of the book's run that last searched it, or added it.
      moves: those of the book, by UCI move. parents: keys of positions with a move to this one.
      reach: cost of the cheapest path to a leaf that may be searched; None: there is none.
    """

    key: str
    fen: str
    ply: int
    since: int
    state: str = LEAF
    searches: int = 0
    n: int = 0
    value: float | None = None
    outside: float | None = None
    outside_move: str | None = None
    priority: float | None = None
    moves: dict[str, BookMove] = field(default_factory=dict)
    parents: set[str] = field(default_factory=set)
    reach: float | None = None

    @property
    def turn(self) -> chess.Color:
        """The side to move."""
        return self.fen.split(" ", 2)[1] == "w"


@dataclass(frozen=True, slots=True)
class BookLine:
    """A line from a root to a position of the book: keys, the root first, and the moves in UCI and SAN."""

    keys: tuple[str, ...]
    moves: tuple[str, ...] = ()
    sans: tuple[str, ...] = ()

    @classmethod
    def of(cls, keys: Sequence[str], moves: Sequence[BookMove]) -> BookLine:
        """Returns the line of positions, given by key, and the moves between them."""
        return cls(tuple(keys), tuple(move.move for move in moves), tuple(move.san for move in moves))


Ways = dict[str, tuple[str, BookMove]]  # by key of a position: the position before it, and the move


# ------------------------------------------------------------------ the tree
class BookTree:
    """The positions of one book, by key; the other sets hold keys.

    Attributes:
      roots: in the order of the configuration. changed: with unwritten rows. taken: being searched.
      unsettled: with a new value or ply since this was last emptied.
      lowered: with a shorter path found since this was last emptied.
    """

    def __init__(self, expansion: Expansion | None = None) -> None:
        """Creates an empty tree; `expansion` chooses the next leaf."""
        from .config import Expansion

        self.expansion = expansion or Expansion()
        self.positions: dict[str, Position] = {}
        self.roots: list[str] = []
        self.changed: set[str] = set()
        self.unsettled: set[str] = set()
        self.lowered: set[str] = set()
        self.taken: set[str] = set()

    # -------------------------------------------------------------- growing
    def add(self, position: Position) -> Position:
        """Adds a position if its key is new; returns the book's position of that key."""
        known = self.positions.setdefault(position.key, position)
        if known is position:
            self.changed.add(position.key)
        elif position.ply < known.ply:
            self._lower(known, position.ply)
        return known

    def link(self, position: Position, move: BookMove) -> None:
        """Adds a move to a position; the child must be in the book."""
        position.moves[move.move] = move
        child = self.positions[move.child]
        child.parents.add(position.key)
        self.changed.add(position.key)
        if child.ply > position.ply + 1:
            self._lower(child, position.ply + 1)

    def unlink(self, position: Position, move: str) -> None:
        """Removes a move from the book; the position after it stays."""
        gone = position.moves.pop(move)
        self.changed.add(position.key)
        if not any(other.child == gone.child for other in position.moves.values()):
            self.positions[gone.child].parents.discard(position.key)

    def _lower(self, position: Position, ply: int) -> None:
        """Lowers the ply of a position and of its descendants."""
        waiting = [(position, ply)]
        touched: set[str] = set()
        while waiting:
            found, shorter = waiting.pop()
            if shorter >= found.ply:
                continue
            found.ply = shorter
            self.changed.add(found.key)
            self.lowered.add(found.key)
            self.unsettled.add(found.key)  # moves to and from it may lead on now, or no longer
            touched |= {found.key, *found.parents}
            waiting += [(self.positions[move.child], shorter + 1) for move in found.moves.values()]
        self.update(touched)

    # -------------------------------------------------------------- values
    def goes_on(self, position: Position, move: BookMove) -> bool:
        """Returns whether a move leads to a larger ply, so that it is on no cycle."""
        return self.positions[move.child].ply > position.ply

    def value_of(self, position: Position, move: BookMove) -> float | None:
        """Returns the value of a move for the side that plays it: the child's, or its own edge's."""
        child = self.positions[move.child]
        if child.value is not None and (child.ply > position.ply or child.state == END):
            return negate(child.value)
        return move.q

    def values(self, position: Position) -> dict[str, float | None]:
        """Returns the values of a position's moves, by UCI move."""
        return {move.move: self.value_of(position, move) for move in position.moves.values()}

    def best_move(self, position: Position) -> str | None:
        """Returns the move with the best known value, one of the book before others; None without one."""
        known = [(value, move) for move, value in self.values(position).items() if value is not None]
        if position.outside is not None and position.outside_move:
            known.append((position.outside, position.outside_move))
        return max(known, key=itemgetter(0), default=(0.0, None))[1]

    def update(self, keys: Iterable[str]) -> None:
        """Recomputes positions, and all ancestors that change, the deepest first."""
        waiting = {key for key in keys if key in self.positions}
        heap = [(-self.positions[key].ply, key) for key in waiting]
        heapq.heapify(heap)
        while heap:
            _, key = heapq.heappop(heap)
            if key not in waiting:
                continue
            waiting.discard(key)
            position = self.positions[key]
            if not self._compute(position):
                continue
            for parent in position.parents - waiting:
                above = self.positions[parent]
                if above.ply < position.ply:
                    waiting.add(parent)
                    heapq.heappush(heap, (-above.ply, parent))

    def touch(self, keys: Collection[str]) -> None:
        """Recomputes positions whose rows have changed."""
        self.changed.update(keys)
        self.update(keys)

    def _compute(self, position: Position) -> bool:
        """Computes value and reach from the moves; returns whether one of them changed."""
        value = position.value
        reach = 0.0 if position.state == LEAF and position.key not in self.taken else None
        if position.state == OPEN:
            values = self.values(position)
            value = best_value(position, values)
            reach = min((cost + reach for _, cost, reach in self._steps(position, values)), default=None)
        if value != position.value:
            self.unsettled.add(position.key)
            self.changed.add(position.key)
        has_changed = (value, reach) != (position.value, position.reach)
        position.value, position.reach = value, reach
        return has_changed

    def _steps(
        self, position: Position, values: dict[str, float | None]
    ) -> Iterator[tuple[BookMove, float, float]]:
        """Yields the moves with a leaf below them: (move, its cost, the child's reach)."""
        for move, cost in self._costs_of(position, values):
            reach = self.positions[move.child].reach
            if reach is not None:
                yield move, cost, reach

    def _costs_of(
        self, position: Position, values: dict[str, float | None]
    ) -> Iterator[tuple[BookMove, float]]:
        best = best_value(position, values)
        for rank, move in enumerate(position.moves.values()):
            if self.goes_on(position, move):
                lost = loss_from_q(best, values[move.move]) or 0
                yield move, cost_of(self.expansion, move.p, lost / 100.0, rank)

    # -------------------------------------------------------------- the next leaf
    def take(self, key: str) -> None:
        """Marks a position as being searched: it is no next leaf until `release`."""
        self.taken.add(key)
        self.update([key])

    def release(self, key: str) -> None:
        """Ends the search of a position."""
        self.taken.discard(key)
        self.update([key])

    def next_line(self) -> BookLine | None:
        """Returns the line to the next leaf by the policy of expansion; None: there is none."""
        roots = [self.positions[root] for root in self.roots]
        position = min(
            (root for root in roots if root.reach is not None),
            key=lambda root: root.reach or 0.0,
            default=None,
        )
        if position is None:
            return None
        keys, moves = [position.key], list[BookMove]()
        while position.state == OPEN:
            steps = self._steps(position, self.values(position))
            # of equally cheap moves, the likelier one
            move, _, _ = min(steps, key=lambda step: (step[1] + step[2], -step[0].p, step[0].move))
            moves.append(move)
            position = self.positions[move.child]
            keys.append(position.key)
        return BookLine.of(keys, moves)

    # -------------------------------------------------------------- paths
    def ordered(self) -> list[Position]:
        """Returns the positions by ply: a move that goes on leads to a later one."""
        return sorted(self.positions.values(), key=attrgetter("ply", "key"))

    def shortest_ways(self) -> Ways:
        """Returns the way to every position on a shortest line from a root."""
        found: Ways = {}
        front = list(self.roots)
        seen = set(front)
        for key in front:
            for move in self.positions[key].moves.values():
                if move.child not in seen:
                    seen.add(move.child)
                    front.append(move.child)
                    found[move.child] = key, move
        return found

    def likeliest_ways(
        self, shares: Callable[[Position], Mapping[str, float]]
    ) -> tuple[dict[str, float], Ways]:
        """Returns the probability of each position on its likeliest line from a root, and the way to each.

        `shares` returns the probabilities of a position's moves, by UCI move; a missing one has 0.
        """
        found, ways = dict.fromkeys(self.roots, 1.0), Ways()
        for position in self.ordered():
            if (here := found.get(position.key)) is None:
                continue
            likely = shares(position)
            for move in position.moves.values():
                there = here * likely.get(move.move, 0.0)
                if self.goes_on(position, move) and there > found.get(move.child, -1.0):
                    found[move.child], ways[move.child] = there, (position.key, move)
        return found, ways

    def line(self, key: str, ways: Ways) -> BookLine:
        """Returns the line to a position."""
        keys, moves = [key], list[BookMove]()
        while keys[-1] in ways:
            before, move = ways[keys[-1]]
            keys.append(before)
            moves.append(move)
        return BookLine.of(keys[::-1], moves[::-1])

    def reachable(self) -> set[str]:
        """Returns the keys of all positions reachable from a root."""
        return {*self.roots, *self.shortest_ways()}

    def lengthen(self) -> None:
        """Raises the plies of positions whose shortest path from a root is gone."""
        begins = {root: float(ply_of(self.positions[root].fen)) for root in self.roots}
        fewest = self._cheapest(begins, lambda position: ((move, 1.0) for move in position.moves.values()))
        longer = [key for key, ply in fewest.items() if ply > self.positions[key].ply]
        for key in longer:
            self.positions[key].ply = int(fewest[key])
        self.touch(longer)

    def costs(self) -> dict[str, float]:
        """Returns the cost of the cheapest path from a root to every reachable position."""
        begins = dict.fromkeys(self.roots, 0.0)
        return self._cheapest(begins, lambda position: self._costs_of(position, self.values(position)))

    def leaf_costs(self) -> dict[str, float]:
        """Returns the costs of the leaves: their priorities."""
        return {key: cost for key, cost in self.costs().items() if self.positions[key].state == LEAF}

    def _cheapest(
        self, begins: Mapping[str, float], steps: Callable[[Position], Iterable[tuple[BookMove, float]]]
    ) -> dict[str, float]:
        """Returns the sum of costs, none below 0, on the cheapest path from `begins` to every position."""
        found: dict[str, float] = {}
        heap = [(cost, key) for key, cost in begins.items()]
        heapq.heapify(heap)
        while heap:
            cost, key = heapq.heappop(heap)
            if key not in found:
                found[key] = cost
                for move, more in steps(self.positions[key]):
                    heapq.heappush(heap, (cost + more, move.child))
        return found


def best_value(position: Position, values: dict[str, float | None]) -> float | None:
    """Returns the best value of any move, in the book or not; None if none is known."""
    return max((v for v in (*values.values(), position.outside) if v is not None), default=None)


def loss_from_q(best: float | None, value: float | None) -> int | None:
    """Returns the loss of a value against the best one in centipawns, at most 10,000; None if one is unknown.

    >>> loss_from_q(0.5, 0.25), loss_from_q(0.5, None), loss_from_q(1.0, -1.0)
    (52, None, 10000)
    """
    if best is None or value is None:
        return None
    return max(0, min(MAX_LOSS, cp_of(best) - cp_of(value)))


LEAST_P = 1e-6


def cost_of(expansion: Expansion, p: float, loss: float, rank: int) -> float:
    """Returns the cost of a move in the path to a leaf, by the policy of expansion.

    `cost`: `per_ply + per_loss * loss - per_log_p * ln p + per_move * rank`; `dropout`: `1 + alpha * loss`.

    Args:
      loss: in pawns. rank: number of book moves of the position before it.

    >>> from graphsearch.book.config import Expansion
    >>> cost_of(Expansion(policy="dropout", alpha=10.0), 0.5, 0.25, 0)
    3.5
    """
    if expansion.policy == "dropout":
        return 1.0 + expansion.alpha * loss
    log_p = math.log(max(p, LEAST_P))
    return (
        expansion.per_ply
        + expansion.per_loss * loss
        - expansion.per_log_p * log_p
        + expansion.per_move * rank
    )


TRUSTED_GAMES = 20  # with so many games at a position, their shares count instead of P


def reply_share(counts: Mapping[str, int], move: str, p: float | None) -> float:
    """Returns the probability of a reply: its share of the games here if they are 20 or more, else its P.

    >>> reply_share({"e7e5": 15, "c7c5": 5}, "c7c5", 0.4), reply_share({"e7e5": 1}, "c7c5", 0.4)
    (0.25, 0.4)
    """
    total = sum(counts.values())
    if total >= TRUSTED_GAMES:
        return counts.get(move, 0) / total
    return p or 0.0
