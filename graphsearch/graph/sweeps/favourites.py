"""The best move of a root by value, for a report of the changes by another evaluator."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from ...position.board import board_of, legal_moves
from ...store.record.node import NodeRecord
from ...store.record.ranking import edge_of, node_mean
from ...store.store import Store

TRUSTED_SHARE = 10  # a move counts if its visits exceed those of the most visited one divided by this


@dataclass(frozen=True, slots=True)
class Favourite:
    """A root's favourite: the move of the largest value among those with a tenth of the most visits.

    Attributes:
      position: FEN. move: in SAN; the first in P while nothing is visited. q: node Q.
    """

    position: str
    move: str
    q: float

    def as_json(self) -> str:
        """Returns its JSON text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Favourite:
        """Returns the favourite of `as_json`'s text."""
        return cls(**json.loads(text))


def favourites(store: Store) -> list[Favourite]:
    """Returns the favourite of every root in the file that is not the end of a game."""
    found = []
    for root in store.roots():
        board = board_of(root.position)
        record = store.read(board)
        if record is not None and record.codes:
            move = legal_moves(board)[record.order[favourite(record)]]
            found.append(Favourite(root.position, board.san(move), node_mean(record)[0]))
    return found


def favourite(record: NodeRecord) -> int:
    """Returns the index in descending P of the favourite move of a record with moves."""
    most = max((edge.n for edge in record.edges), default=0)
    if not most:
        return 0
    trusted = [k for k, edge in enumerate(record.edges) if edge.n * TRUSTED_SHARE >= most]
    return max(trusted, key=lambda k: (edge_of(record, k).value, -k))
