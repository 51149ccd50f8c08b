"""The games of a PGN file for a review: selects games, and reads each as a tree with all its notes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import chess
import chess.pgn

from ...base.dates import date_text, pgn_date
from ...base.errors import InvalidParameterError
from ...base.limits import shortened
from ...exchange.importing import Problem
from ...position.pgn import GameText, cut_games, read_game

COLORS = {"white": chess.WHITE, "black": chess.BLACK}
OnHeaders = Callable[[dict[str, str]], object]


# ------------------------------------------------------------------ selection
@dataclass(frozen=True, slots=True, kw_only=True)
class GameChoice:
    """The criteria for games to review; a game must meet all of them.

    Attributes:
      player: words that must all occur in the name of White or of Black, in any case; empty: anybody.
      color: `white` or `black`, that of the player; empty: either.
      since: the first date; a game of unknown month or day counts as late as possible. Empty: any.
      games: numbers of games in the file, from 1; empty: all.

    Raises:
      InvalidParameterError: for another colour, and for a colour without a player.
    """

    player: str = ""
    color: str = ""
    since: str = ""
    games: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if self.color and self.color not in COLORS:
            raise InvalidParameterError(f"a color is white or black, not {shortened(self.color)!r}")
        if self.color and not self.player.strip():
            raise InvalidParameterError("a color is that of a player; name the player")
        if self.since:
            object.__setattr__(self, "since", date_text(self.since))

    def takes(self, number: int, headers: dict[str, str]) -> bool:
        """Returns whether a game is chosen."""
        return (
            (not self.games or number in self.games)
            and (not self.player.strip() or bool(self.sides(headers)))
            and (not self.since or f"{_date_of(headers)}~" >= self.since)  # ~ is behind all of them
        )

    def sides(self, headers: dict[str, str]) -> tuple[chess.Color, ...]:
        """Returns the colours that match the player in a game; both colours without a player.

        >>> GameChoice(player="carlsen").sides({"White": "Nepo", "Black": "Carlsen, Magnus"})
        (False,)
        """
        words = self.player.casefold().replace(",", " ").split()
        return tuple(
            color
            for name, color in COLORS.items()
            if self.color in ("", name)
            and all(word in headers.get(name.capitalize(), "").casefold() for word in words)
        )

    def __str__(self) -> str:
        parts = [f"player {self.player}"] if self.player else []
        parts += [f"color {self.color}"] if self.color else []
        parts += [f"since {self.since}"] if self.since else []
        parts += [f"game {', '.join(map(str, sorted(self.games)))}"] if self.games else []
        return ", ".join(parts)


def _date_of(headers: dict[str, str]) -> str:
    """Returns the known part of the date of a game, as `pgn_date`; 0 if its year is unknown."""
    dates = (pgn_date(headers.get(name, "")) for name in ("Date", "UTCDate"))
    return next(filter(None, dates), "0")


# ------------------------------------------------------------------ reading
@dataclass(frozen=True, slots=True)
class SourceGame:
    """One game of a file.

    Attributes:
      number, line: of the game in the file, and of its first line, from 1.
      headers: by name, as text. result: from the end of the moves, or the header; `*` if there is none.
      start: its first position. moves: of its mainline.
      tree: with variations, comments and glyphs.
      notes: for the user, one line each.
    """

    number: int
    line: int
    headers: dict[str, str]
    result: str
    start: chess.Board
    moves: tuple[chess.Move, ...]
    tree: chess.pgn.Game
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The names of the players."""
        return f"{self.headers.get('White', '?')} \u2013 {self.headers.get('Black', '?')}"

    def last_board(self) -> chess.Board:
        """Returns the last position of the mainline, with the moves to it on its stack."""
        board = self.start.copy()
        for move in self.moves:
            board.push(move)
        return board


def wanted_games(
    lines: Iterable[str], choice: GameChoice, *, on_headers: OnHeaders | None = None
) -> Iterator[tuple[int, GameText]]:
    """Yields the chosen games of a text, with their numbers.

    Args:
      on_headers: called with the headers of every game, chosen or not.
    """
    last = max(choice.games, default=None)
    for number, game in enumerate(cut_games(lines), start=1):
        if last is not None and number > last:
            return
        headers = game.headers
        if on_headers:
            on_headers(headers)
        if choice.takes(number, headers):
            yield number, game


def source_game(number: int, text: GameText) -> SourceGame | Problem:
    """Returns a game as a tree; its mainline ends before a null move, as annotators write it.

    A problem if its text, its position or a move of its mainline cannot be read, or if it is neither standard
    chess nor Chess960.
    """
    game = read_game(text, variations=True, null_moves=True)
    if game.variant:
        reason = f"game {number} is {game.variant}; only standard chess and Chess960 can be searched"
        return Problem(text.line, reason)
    if game.error or game.start is None:
        return Problem(game.error_line, f"game {number}: {game.error}")
    return SourceGame(
        number=number,
        line=text.line,
        headers=game.headers,
        result=game.result or game.headers.get("Result", "*"),
        start=game.start,
        moves=tuple(game.moves),
        tree=game.tree,
        notes=(
            *(f"line {line}: {text}" for line, text in sorted((*game.remarks, *game.cuts))),
            *game.passed_over(),
        ),
    )
