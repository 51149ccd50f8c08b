"""The first move of a game that no imported game has played."""

from __future__ import annotations

import chess

from ..position.board import key_of
from ..store.store import Store
from ..store.tables import games as tables
from .games import SourceGame


class Novelties:
    """Looks for novelties in the games that were imported into a graph file."""

    def __init__(self, store: Store, digest: str) -> None:
        """Takes the file, and the SHA-256 of the PGN file that is reviewed.

        If that was imported too, one game with each of its moves is the reviewed one itself.
        """
        self._store = store
        self._own = sum(source.digest == digest for source in tables.sources(store) if source.kind == "pgn")

    def find(self, game: SourceGame) -> tuple[int, int] | None:
        """Returns the ply of the novelty and the games that went on from its position; None if there is none.

        It is the first move that no game has played in a position that games have had, and after which games
        have no such position again by another way.
        """
        keys, walk = [_hex_key(game.start)], game.start.copy()
        for move in game.moves:
            walk.push(move)
            keys.append(_hex_key(walk))
        counts = tables.counts(self._store, keys)
        for ply, move in enumerate(game.moves):
            moves = {found.move: self._others(found) for found in counts.get(keys[ply], ())}
            before = sum(moves.values())
            if not before:
                return None
            if not moves.get(move.uci()) and not any(
                self._others(found) for found in counts.get(keys[ply + 1], ())
            ):
                return ply, before
        return None

    def _others(self, found: tables.MoveCounts) -> int:
        """Returns the games with a move beside the reviewed one."""
        return max(0, found.games - self._own)


def _hex_key(board: chess.Board) -> str:
    return f"{key_of(board):016x}"
