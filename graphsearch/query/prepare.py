"""Positions where an opponent's games leave a book or the stored graph, and the moves played. Reads only."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import chess
import numpy as np
from numpy.typing import NDArray

from ..base.answer import Answer
from ..base.dates import date_text
from ..base.errors import InvalidParameterError
from ..position.board import BLACK_TO_MOVE, META, after, decode_move, fen_of, key_text
from ..position.notation import sans_of
from ..store.tables import books as book_tables
from ..store.tables.games import GameRow, games_of
from .game_list import NO_MOVE, Known, Replay, book_positions, graph_positions, named
from .line import Judged, judge
from .source import RecordSource, opened, steps_of

READ_AT_ONCE = 1000  # moves that leave
OUTSIDE_PLIES = 8  # half-moves for which a game is followed after leaving: it may return
BY_GAMES, BY_COST = "games", "cost"
WIN, DRAW, LOSS, UNKNOWN = range(4)  # of the player
_POINTS = {"1-0": (WIN, LOSS), "0-1": (LOSS, WIN), "1/2-1/2": (DRAW, DRAW)}

OnProgress = Callable[[int, int], None]  # half-moves followed, and those of the longest game


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure(Answer):
    """A move of the player that leaves the known positions; values are seen by the player.

    Attributes:
      start, line: first position of the shortest of these games (None: the start position), and its moves
        from there, in SAN.
      games, wins, draws, losses, unknown: games with this move, results for the player.
      games_here: games that continued from this position.
      game: the latest one with the move.
      answer: the best reply, in SAN; None if the position after the move has no visits.
    """

    json_keys = (
        "position start line move san games wins draws losses unknown games_here last=game.date"
        " source=game.source number=game.number score *worth answer"
    )

    position: str
    start: str | None
    line: tuple[str, ...]
    move: str
    san: str
    games: int
    wins: int
    draws: int
    losses: int
    unknown: int
    games_here: int
    game: GameRow
    worth: Judged
    answer: str | None

    @property
    def score(self) -> float | None:
        """Mean result of the player in [0, 1], None without results."""
        known = self.wins + self.draws + self.losses
        return (self.wins + self.draws / 2) / known if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation(Answer):
    """The answer of `prepare`.

    Attributes:
      players: the names found. color, book, since: as requested; None: both colours, the graph, all games.
      games: of the player with this colour and date; one against himself counts once, for White.
      entered: games that reached a known position. left: those in which the player left these.
      left_by_other: those that only his opponent left. stayed: those that ended inside.
      damaged: games with illegal moves. total: number of departures.
    """

    players: tuple[str, ...]
    color: str | None
    book: str | None
    since: str | None
    games: int
    entered: int
    left: int
    left_by_other: int
    stayed: int
    damaged: int
    total: int
    moves: tuple[Departure, ...]


def prepare(
    path: str | os.PathLike[str],
    names: Sequence[str],
    *,
    color: str | None = None,
    since: str | None = None,
    book: str | None = None,
    min_visits: int = 10,
    min_games: int = 1,
    top: int | None = 30,
    by: str = BY_GAMES,
    on_progress: OnProgress | None = None,
) -> Preparation:
    """Returns the moves with which a player's games leave a book or the stored graph.

    A position is known if the book has it, or the graph with N of at least `min_visits`. A move leaves if the
    position after it is not known; the best move of the stored graph does not leave: there only the searched
    part ends. A game that has left is followed for eight more half-moves, and counts again if it returns.

    Args:
      names: of the player; each exact, or beginnings of its words (`game_list.named`).
      color: the player's, `white` or `black`; None: both, or with a book for one side the other colour.
      since: only games of this date (YYYY, YYYY-MM or YYYY-MM-DD) or later.
      min_games: least games of a listed move. top: most moves listed.
      by: `games`: most played first; `cost`: largest cost times games first.

    Raises:
      InvalidParameterError: for an invalid colour, date or order, or an unknown book or player.
    """
    if color not in (None, "white", "black"):
        raise InvalidParameterError(f"a colour is white or black, not {color!r}")
    if by not in (BY_GAMES, BY_COST):
        raise InvalidParameterError(f"moves are listed by {BY_GAMES} or {BY_COST}, not {by!r}")
    after_date = None if since is None else date_text(since)
    with opened(path) as source, source.store.reader() as reader:
        store, known = source.store, graph_positions(reader, min_visits)
        if book is not None:
            row = book_tables.book_named(store, book)
            known = book_positions(store, row.id)
            if color is None and row.side != "both":
                color = "black" if row.side == "white" else "white"
        players = named(store, names)
        sides = {"white": color != "black", "black": color != "white"}
        games = games_of(store, [player.id for player in players], since=after_date, **sides)
        walk = _Walk(_sides(list(games), {player.name for player in players}, color), known)
        walk.run(on_progress or (lambda done, total: None))
        found = walk.departures(source, min_games, is_of_book=book is not None)

    def rank(move: Departure) -> tuple[object, ...]:
        cost = move.worth.cost or 0.0
        first = (-cost * move.games,) if by == BY_COST else ()
        return (*first, -move.games, -cost, len(move.line), move.position, move.move)

    found.sort(key=rank)
    return Preparation(
        players=tuple(player.name for player in players),
        color=color,
        book=book,
        since=since,
        games=len(walk.entered),
        entered=int(walk.entered.sum()),
        left=int(walk.left.sum()),
        left_by_other=int((walk.left_by_other & ~walk.left).sum()),
        stayed=int((walk.entered & ~walk.left & ~walk.left_by_other).sum()),
        damaged=len(walk.replay.damaged),
        total=len(found),
        moves=tuple(found[:top]),
    )


def _sides(games: Sequence[GameRow], names: set[str], color: str | None) -> list[tuple[GameRow, bool]]:
    """Returns (game, whether the player is White); a game of one player against himself once."""
    return [
        (game, side == "white")
        for game in games
        for side, name in (("white", game.white), ("black", game.black))
        if color in (None, side) and name in names
        if color or side == "white" or name != game.white
    ]


class _Met(NamedTuple):
    """A move in a position: level and place of the position, and the games that left by it."""

    ply: int
    place: int
    games: set[int]


class _Walk:
    """The games of a player, followed ply by ply; `[G]`: which ones entered, and who left."""

    def __init__(self, sides: Sequence[tuple[GameRow, bool]], known: Known) -> None:
        self._games = [game for game, _ in sides]
        self.replay = Replay([game.fen for game in self._games], [game.moves for game in self._games])
        self._known = known
        self._is_white = np.array([is_white for _, is_white in sides], np.bool_)
        self._results = [
            _POINTS.get(game.result, (UNKNOWN, UNKNOWN))[not is_white] for game, is_white in sides
        ]
        self.entered, self.left, self.left_by_other = np.zeros((3, len(sides)), np.bool_)
        self._outside = np.zeros(len(sides), np.int64)
        self._met: dict[tuple[str, int], _Met] = {}
        self._here: dict[str, set[int]] = {}  # the games in each position

    def run(self, on_progress: OnProgress) -> None:
        """Follows all games, ply by ply, until they end or are dropped, and counts departures."""
        longest = max((len(game.moves) for game in self._games), default=0)
        known = self._known(self.replay.levels[0])
        self._enter(known)
        while (self.replay.at >= 0).any():
            on_progress(self.replay.ply, longest)
            level, before = self.replay.levels[-1], self.replay.at.copy()
            codes = self.replay.step()
            behind = self._known(self.replay.levels[-1])
            moved = np.flatnonzero(self.replay.at >= 0)
            inside = moved[known[before[moved]]]
            black = level.words[before[inside], META] & np.uint64(BLACK_TO_MOVE) > 0
            own = black != self._is_white[inside]
            stays = behind[self.replay.at[inside]]
            self.left_by_other[inside[~own & ~stays]] = True
            for game, leaves in zip(inside[own].tolist(), (~stays[own]).tolist(), strict=True):
                place = int(before[game])
                self._note(game, place, level.keys[place], int(codes[game]), leaves=leaves)
            self._enter(behind)
            known = behind

    def _enter(self, known: NDArray[np.bool_]) -> None:
        """Marks the games inside, and drops those that left long ago."""
        followed = self.replay.at >= 0
        inside = np.zeros_like(followed)
        inside[followed] = known[self.replay.at[followed]]
        self.entered |= inside
        self._outside = np.where(inside, 0, self._outside + 1)
        self.replay.at[self.entered & (self._outside > OUTSIDE_PLIES)] = NO_MOVE

    def _note(self, game: int, place: int, key: str, code: int, *, leaves: bool) -> None:
        """Counts a move of the player, once for each game and position."""
        self._here.setdefault(key, set()).add(game)
        if leaves:
            self._met.setdefault((key, code), _Met(self.replay.ply - 1, place, set())).games.add(game)

    def departures(self, source: RecordSource, least: int, *, is_of_book: bool) -> list[Departure]:
        """Returns the departures of at least `least` games, in any order, and marks the games that left."""
        moves, found = [*self._met.items()], list[Departure]()
        for first in range(0, len(moves), READ_AT_ONCE):
            some = [
                (self.replay.line(met.ply, met.place), decode_move(code), len(self._here[key]), met)
                for (key, code), met in moves[first : first + READ_AT_ONCE]
            ]
            asked = (at for board, move, *_ in some for at in (board, after(board, move)))
            source.read_ahead({key_text(board): board for board in asked})
            for departing in some:
                departure = self._departure(source, *departing)
                if is_of_book or departure.worth.best_san != departure.san:
                    self.left[list(departing[-1].games)] = True
                    found += [departure] if departure.games >= least else []
        return found

    def _departure(
        self, source: RecordSource, board: chess.Board, move: chess.Move, here: int, met: _Met
    ) -> Departure:
        start, child = board.root(), after(board, move)
        last = max(met.games, key=lambda game: (self._games[game].date or "", game))
        behind = source.read(child)
        answers = steps_of(behind, child) if behind else []
        results = [self._results[game] for game in met.games]
        wins, draws, losses, unknown = map(results.count, (WIN, DRAW, LOSS, UNKNOWN))
        return Departure(
            position=fen_of(board),
            start=None if start == chess.Board() else fen_of(start),
            line=sans_of(start, board.move_stack),
            move=move.uci(),
            san=board.san(move),
            games=len(met.games),
            wins=wins,
            draws=draws,
            losses=losses,
            unknown=unknown,
            games_here=here,
            game=self._games[last],
            worth=judge(source, board, move),
            answer=child.san(answers[0].move) if answers else None,
        )
