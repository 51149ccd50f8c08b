"""Which moves of a position an export may take, and what is known about each.

By default those that the search has visited; with a book those of the book; where the weights are those of
imported games or entries, and there is no book, the moves that stand there, whatever the graph knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import chess

from ..position.board import encode_move, is_chess960, key_text_of_words
from ..position.values import negate
from ..query.steps import MoveList
from ..store.record.node import Edge, NodeRecord
from ..store.record.ranking import edge_of, node_mean, ranking
from ..store.store import Store
from ..store.tables import games
from . import tables
from .scratch import Met

Weights = Literal["n", "q", "minimax", "games", "imported"]


@dataclass(frozen=True, slots=True)
class Weight:
    """What imported games or entries say of a move: its weight, learn field, and how often it was met."""

    weight: int = 0
    learn: int = 0
    count: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """A move that may be exported; values are seen by the side that plays it.

    Attributes:
      index: of the move in canonical order. edge: its visited numbers. p: prior, None without a record.
      value: of the book where there is one, else the edge's; None if nothing is known.
      count: what `min_visits` is compared with: edge N, or games, or the weight of an entry.
      follow: whether a position behind it is expected in the file.
    """

    index: int
    edge: Edge
    p: float | None
    value: float | None
    weight: Weight
    count: int
    follow: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """A position that a walk visits.

    Attributes:
      met: it, as it was met. moves: all legal ones. record: None if the file has none.
    """

    met: Met
    moves: MoveList
    record: NodeRecord | None

    @property
    def turn(self) -> chess.Color:
        """Who is to move."""
        return not int(self.met.words[8]) & 1

    @property
    def clock(self) -> int:
        """Its halfmove clock, as it was met."""
        return int(self.met.words[8]) >> 12 & 255

    @property
    def mate(self) -> int | None:
        """Plies to a proven mate, negative if the side to move is mated; None if none is, or it is there."""
        if self.moves.mating is not None:
            return 1
        proof = self.record.proof_at(self.clock) if self.record else None
        return proof.result * proof.mate if proof and proof.mate else None

    @property
    def key(self) -> str:
        """Its key as the tables have it."""
        return key_text_of_words(self.met.words)

    @property
    def polyglot_key(self) -> str:
        """Polyglot's key of it."""
        return f"{int(self.met.words[9]):016x}"


@dataclass(frozen=True, slots=True)
class Candidates:
    """What a source says of a position.

    Attributes:
      choices: best first. n: node N, None without a record.
      value: of the position for its side to move: of the book, else node Q; None if nothing is known.
      illegal: moves of the tables that are none in this position.
    """

    choices: tuple[Choice, ...]
    n: int | None
    value: float | None
    illegal: int = 0


Source = Callable[[Seen], Candidates | None]  # None: the position is no part of it


def edge_draws(edge: Edge) -> float | None:
    """Returns the draw probability of an edge, draws of the path included; None without visits.

    >>> edge_draws(Edge(4, 1, 0.0, 200))
    0.4
    """
    return edge.draws if edge.n else None


def edges_by_move(record: NodeRecord) -> list[Edge]:
    """Returns the edges of a record in canonical order of their moves."""
    edges = [Edge(0)] * len(record.codes)
    for k, index in enumerate(record.order[: len(record.edges)]):
        edges[index] = edge_of(record, k)
    return edges


def graph_source() -> Source:
    """Returns the moves that a search has visited, best first as `store.record.ranking` orders them."""

    def choices(seen: Seen) -> Candidates | None:
        record = seen.record
        if record is None:
            return None
        priors, order = (record.priors, record.order) if record.codes else ([], [])
        found = tuple(
            Choice(
                index=order[k],
                edge=record.edges[k],
                p=priors[order[k]],
                value=record.edges[k].value,
                weight=Weight(),
                count=record.edges[k].n,
                follow=record.edges[k].n > record.edges[k].r,
            )
            for k in ranking(record, seen.clock)
            if k < len(record.edges) and record.edges[k].n
        )
        return Candidates(found, record.visits, node_mean(record)[0])

    return choices


Weigh = Callable[[Seen], Mapping[int, Weight]]  # move code -> weight


def games_weights(store: Store) -> Weigh:
    """Returns what gives the moves of a position their points in the imported games."""

    def weigh(seen: Seen) -> Mapping[int, Weight]:
        return {
            encode_move(chess.Move.from_uci(row.move)): Weight(row.points(seen.turn), 0, row.games)
            for row in games.counts(store, [seen.key]).get(seen.key, [])
        }

    return weigh


def entry_weights(store: Store) -> Weigh:
    """Returns what gives the moves of a position the weights of imported entries, added up over the books."""

    def weigh(seen: Seen) -> Mapping[int, Weight]:
        found: dict[int, Weight] = {}
        for row in tables.entries(store, seen.polyglot_key):
            code = _entry_code(seen, row.move)
            old = found.get(code, Weight())
            total = old.weight + row.weight
            found[code] = Weight(total, old.learn or row.learn, total)
        return found

    return weigh


def _entry_code(seen: Seen, uci: str) -> int:
    """Returns the code of an entry's move; castling may stand there as the king taking his rook."""
    code = encode_move(chess.Move.from_uci(uci))
    if is_chess960(seen.met.words):
        return code
    origin, target = code & 63, code >> 6 & 63
    king, rook = int(seen.met.words[5]), int(seen.met.words[3])
    own = int(seen.met.words[6 if seen.turn else 7])
    if king & own & 1 << origin and rook & own & 1 << target:
        code = origin | (origin + (2 if target > origin else -2)) << 6
    return code


def weighed_source(weigh: Weigh) -> Source:
    """Returns the moves that have a weight, the heaviest first; also where the graph has no record."""

    def choices(seen: Seen) -> Candidates | None:
        weights = weigh(seen)
        if not weights:
            return None
        record = seen.record
        edges = edges_by_move(record) if record else []
        priors = record.priors if record and record.codes else []
        index_of = {code: i for i, code in enumerate(seen.moves.codes)}
        found = []
        for code, weight in sorted(weights.items(), key=lambda item: (-item[1].weight, item[0])):
            index = index_of.get(code)
            if index is None:
                continue
            edge = edges[index] if edges else Edge(0)
            p = priors[index] if priors else None
            found.append(
                Choice(
                    index=index,
                    edge=edge,
                    p=p,
                    value=edge.value if edge.n else None,
                    weight=weight,
                    count=weight.count,
                    follow=True,
                )
            )
        illegal = len(weights) - len(found)
        return Candidates(tuple(found), *_known(record), illegal)

    return choices


def _known(record: NodeRecord | None) -> tuple[int | None, float | None]:
    return (record.visits, node_mean(record)[0]) if record else (None, None)


def book_source(store: Store, book: int, weigh: Weigh | None = None) -> Source:
    """Returns the moves of a book, best first by its values, with weights from elsewhere if wanted."""

    def choices(seen: Seen) -> Candidates | None:
        position = tables.book_position(store, book, seen.key)
        if position is None:
            return None
        record = seen.record
        edges = edges_by_move(record) if record else []
        priors = record.priors if record and record.codes else []
        weights = weigh(seen) if weigh else {}
        index_of = {code: i for i, code in enumerate(seen.moves.codes)}
        moves = tables.book_moves(store, book, seen.key)
        found = []
        for move in moves:
            index = index_of.get(move.code)
            if index is None:
                continue
            edge = edges[index] if edges else Edge(0)
            p = priors[index] if priors else move.p
            weight = weights.get(move.code, Weight())
            count = weight.count if weigh else edge.n
            found.append(
                Choice(
                    index=index,
                    edge=edge,
                    p=p,
                    value=_book_value(move, edge),
                    weight=weight,
                    count=count,
                    follow=True,
                )
            )
        found.sort(key=lambda c: (c.value is None, -(c.value or 0.0), -c.edge.n, c.index))
        n, q = _known(record)
        value = position["value"] if position["value"] is not None else q
        return Candidates(tuple(found), n, value, len(moves) - len(found))

    return choices


def _book_value(move: tables.BookMoveRow, edge: Edge) -> float | None:
    """Returns the value of a book's move: of the position behind it, else of the edge, else as taken in."""
    if move.child_value is not None:
        return negate(move.child_value)
    return edge.value if edge.n else move.value


def source_of(store: Store, book: int | None, weights: Weights = "n") -> Source:
    """Returns where the moves of an export come from."""
    weigh = {"games": games_weights, "imported": entry_weights}.get(weights)
    if book is not None:
        return book_source(store, book, weigh(store) if weigh else None)
    return weighed_source(weigh(store)) if weigh else graph_source()
