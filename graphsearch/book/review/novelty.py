"""The novelty of a game: its first move that no imported game has played."""

from __future__ import annotations

from collections.abc import Iterable

import chess

from ...position.board import key_text
from ...store.store import Store
from ...store.tables import games as tables
from .games import SourceGame


class Novelties:
    """Finds novelties against the games that were imported into a graph file."""

    def __init__(self, store: Store, digest: str) -> None:
        """Takes the file, and the SHA-256 of the reviewed PGN file.

        If that was imported too, one game with each of its moves is the reviewed one itself.
        """
        self._store = store
        self._own = sum(source.digest == digest for source in tables.sources(store) if source.kind == "pgn")

    def find(self, game: SourceGame) -> tuple[int, int] | None:
        """Returns the ply of the novelty and the number of games with its position; None if there is none.

        It is the first move that no game has played in a known position, and after which no position of the
        game is known again by transposition.
        """
        keys, walk = [key_text(game.start)], game.start.copy()
        for move in game.moves:
            walk.push(move)
            keys.append(key_text(walk))
        counts = tables.counts(self._store, keys)
        played = [move.uci() for move in (*game.moves, chess.Move.null())]
        games = [self._games(counts.get(key, ()), move) for key, move in zip(keys, played, strict=True)]
        for ply, name in enumerate(played[:-1]):
            before = sum(games[ply].values())
            if not before:
                return None
            if not games[ply].get(name) and not any(games[ply + 1].values()):
                return ply, before
        return None

    def _games(self, moves: Iterable[tables.MoveCounts], played: str) -> dict[str, int]:
        """Returns the number of other games with each move of a position."""
        return {
            found.move: max(0, found.games - (self._own if found.move == played else 0)) for found in moves
        }
