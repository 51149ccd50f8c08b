"""Gaps of a book: likely or popular replies that it lacks, and own positions without a move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf

from ..base.errors import BookConfigError
from ..position.board import board_of, legal_moves
from ..query.games import reply_share
from ..store.file import sql_errors
from ..store.store import Store
from ..store.tables.rows import query
from .config import BOTH, is_own_turn, stored_config
from .rows import BookSnapshot
from .tree import LEAF, OPEN, BookMove

Games = Mapping[str, Mapping[str, int]]  # key -> move -> imported games
Parents = dict[int, tuple[int, BookMove]]  # of every position on the likeliest line to it


@dataclass(frozen=True, slots=True)
class Gap:
    """A reply that the book lacks, or an own position without an answer.

    Attributes:
      position: number of the position. reply, san: the missing reply; None: the position itself lacks a move.
      reach: probability of the line with the reply: the largest product along a line from a root of the
        replies' shares of games, or P where fewer than 20 games are known; own moves count 1.
      p: prior of the reply in the graph; None: the graph does not know the position.
      games: imported games with the reply.
    """

    position: int
    reply: str | None
    san: str | None
    reach: float
    p: float | None
    games: int


def find_gaps(
    store: Store, snapshot: BookSnapshot, *, min_p: float, min_games: int, top: int
) -> tuple[list[Gap], Parents]:
    """Returns the gaps, the likeliest first, at most `top` (0: all), and the likeliest lines.

    A missing reply is a gap if its P is at least `min_p`, or if at least `min_games` imported games have it.
    In a book of both sides every move is both an own move and a reply. Replies that BOOK.toml excludes are no
    gaps.
    """
    games = imported_games(store, snapshot)
    reach, parents = reaches(snapshot, games)
    searcher = _Searcher(store, snapshot, games, min_p, min_games)
    found: list[Gap] = []
    bar = 0.0  # less likely gaps are not among the `top` best
    for number in sorted(reach, key=lambda number: (-reach[number], number)):
        if reach[number] < bar:
            break
        found += searcher.gaps_at(number, reach[number])
        if top and len(found) >= 2 * top:
            found = sorted(found, key=_rank)[:top]
            bar = found[-1].reach
    return sorted(found, key=_rank)[: top or None], parents


def _rank(gap: Gap) -> tuple[float, int, str]:
    return (-gap.reach, gap.position, gap.reply or "")


def imported_games(store: Store, snapshot: BookSnapshot) -> Games:
    """Returns the imported games by position of the book and move."""
    statement = (
        "SELECT game_move.key, move, white + draws + black + unknown FROM game_move JOIN"
        " (SELECT key FROM book_position JOIN book ON book.id = book_position.book WHERE name = ?) AS own"
        " ON own.key = game_move.key"
    )
    found: dict[str, dict[str, int]] = {}
    with sql_errors(store.path, "read it"):
        names = ("game_move.key", "game_move.move", "game_move.white")
        for key, move, number in query(store.connection, statement, (snapshot.name,), *names):
            found.setdefault(key, {})[move] = number
    return found


def reaches(snapshot: BookSnapshot, games: Games) -> tuple[dict[int, float], Parents]:
    """Returns the probability of each position, and its parent on the likeliest line."""
    found = dict.fromkeys(snapshot.roots, 1.0)
    parents: Parents = {}
    for number, position in enumerate(snapshot.positions):  # parents come before their children
        here = found.get(number)
        if here is None:
            continue
        certain = snapshot.side != BOTH and is_own_turn(snapshot.side, position.turn)
        counts = games.get(position.key, {})
        for move, child in snapshot.edges(number):
            if child is None or not snapshot.leads_on(number, child):
                continue
            there = here if certain else here * reply_share(counts, move.move, move.p)
            if there > found.get(child, -1.0):
                found[child] = there
                parents[child] = (number, move)
    return found, parents


class _Searcher:
    """Finds the gaps at one position at a time."""

    def __init__(
        self, store: Store, snapshot: BookSnapshot, games: Games, min_p: float, min_games: int
    ) -> None:
        self._store, self._snapshot, self._games = store, snapshot, games
        self._min_p, self._min_games = min_p, min_games
        self._excluded: Mapping[str, tuple[str, ...]] = {}
        self._only: frozenset[str] = frozenset()
        self._max_ply = inf
        with suppress(BookConfigError):  # another version wrote the configuration
            config = stored_config(snapshot.config, snapshot.name)
            self._excluded, self._only = config.excluded, config.only
            self._max_ply = config.max_ply

    def gaps_at(self, number: int, reach: float) -> list[Gap]:
        """Returns the gaps at a position; `reach`: its probability."""
        position = self._snapshot.positions[number]
        own = is_own_turn(self._snapshot.side, position.turn)
        if own and position.state == LEAF:
            return [Gap(number, None, None, reach, None, 0)]
        if (own and self._snapshot.side != BOTH) or position.state != OPEN:
            return []
        if position.key in self._only or position.ply + 1 >= self._max_ply:
            return []
        return self._missing(number, reach)

    def _missing(self, number: int, reach: float) -> list[Gap]:
        position = self._snapshot.positions[number]
        board = board_of(position.fen)
        counts = self._games.get(position.key, {})
        left_out = position.moves.keys() | set(self._excluded.get(position.key, ()))
        moves, record = legal_moves(board), self._store.read(board)
        priors: Sequence[float | None] = [None] * len(moves)
        if record is not None and len(record.codes) == len(moves):
            priors = record.priors
        gaps = []
        for move, p in zip(moves, priors, strict=True):
            name, games = move.uci(), counts.get(move.uci(), 0)
            if name not in left_out and ((p or 0.0) >= self._min_p or games >= self._min_games):
                likely = reach * reply_share(counts, name, p)
                gaps.append(Gap(number, name, board.san(move), likely, p, games))
        return gaps
