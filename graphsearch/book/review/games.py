"""The games of a PGN file for a review: selects games, and reads each as a tree with all its notes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

import chess
import chess.pgn

from ...base.dates import read_date
from ...base.errors import InvalidParameterError
from ...base.limits import shortened
from ...exchange.playing import BrokenGameError, start_board, start_fen
from ...position.pgn_text import CLOSE, COMMENT, NAG, NULL_MOVES, OPEN, GameReader, PgnGame, as_text

COLORS = {"white": chess.WHITE, "black": chess.BLACK}
_DATE = re.compile(r"(\d{4})\.(\d\d|\?\?)\.(\d\d|\?\?)", re.ASCII)
Date = tuple[int, int, int]
OnHeaders = Callable[[dict[str, str]], object]


# ------------------------------------------------------------------ selection
@dataclass(frozen=True, slots=True, kw_only=True)
class GameChoice:
    """The criteria for games to review; a game must meet all of them.

    Attributes:
      player: words that must all occur in the name of White or of Black, in any case; empty: anybody.
      color: `white` or `black`, that of the player; empty: either.
      since: the first date; a game of unknown month or day counts as late as possible. None: any.
      games: numbers of games in the file, from 1; empty: all.

    Raises:
      InvalidParameterError: for another colour, and for a colour without a player.
    """

    player: str = ""
    color: str = ""
    since: Date | None = None
    games: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if self.color and self.color not in COLORS:
            raise InvalidParameterError(f"a color is white or black, not {shortened(self.color)!r}")
        if self.color and not self.player.strip():
            raise InvalidParameterError("a color is that of a player; name the player")

    def takes(self, number: int, headers: dict[str, str]) -> bool:
        """Returns whether a game is chosen."""
        return (
            (not self.games or number in self.games)
            and (not self.player.strip() or bool(self.sides(headers)))
            and (self.since is None or date_of(headers) >= self.since)
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
        parts += ["since " + ".".join(f"{part:02}" for part in self.since)] if self.since else []
        parts += [f"game {', '.join(map(str, sorted(self.games)))}"] if self.games else []
        return ", ".join(parts)


def read_since(text: str) -> Date:
    """Returns the first day of a year or a month, or a day; as `read_date`.

    >>> read_since("2024"), read_since("2024-05-17"), read_since("2024.05")
    ((2024, 1, 1), (2024, 5, 17), (2024, 5, 1))
    """
    year, month, day = (*read_date(text), 1, 1)[:3]
    return year, month, day


def date_of(headers: dict[str, str]) -> Date:
    """Returns the latest possible day of a game; the year 0 if its year is unknown.

    >>> date_of({"Date": "2024.05.??"}), date_of({"Date": "????.??.??"})
    ((2024, 5, 99), (0, 0, 0))
    """
    for name in ("Date", "UTCDate"):
        if found := _DATE.fullmatch(headers.get(name, "").strip()):
            year, month, day = (99 if part == "??" else int(part) for part in found.groups())
            return year, month, day
    return 0, 0, 0


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


def header_texts(game: PgnGame) -> dict[str, str]:
    """Returns the headers of a game as text."""
    return {name: as_text(value) for name, value in game.headers.items()}


def wanted_games(
    lines: Iterable[str], choice: GameChoice, *, bare: bool = False, on_headers: OnHeaders | None = None
) -> Iterator[tuple[int, PgnGame]]:
    """Yields the chosen games of a text, with their numbers.

    Args:
      bare: whether to skip variations, comments and glyphs.
      on_headers: called with the headers of every game, chosen or not.
    """
    last = max(choice.games, default=None)
    for number, game in enumerate(GameReader(lines, variations=not bare, notes=not bare), start=1):
        if last is not None and number > last:
            return
        headers = header_texts(game)
        if on_headers:
            on_headers(headers)
        if choice.takes(number, headers):
            yield number, game


def plies_of(game: PgnGame) -> int:
    """Returns the number of half-moves in the mainline of a game."""
    depth = plies = 0
    for word in game.moves:
        depth += (word == OPEN) - (word == CLOSE)
        plies += not depth and word[0] not in (CLOSE, COMMENT, NAG)
    return plies


def read_game(number: int, game: PgnGame) -> SourceGame:
    """Returns a game as a tree.

    Raises:
      BrokenGameError: if its text, its position or a move of its mainline cannot be read.
      VariantError: if it is neither standard chess nor Chess960.
    """
    start = start_board(game, start_fen(game))
    grown = _Tree(start)
    for word, line in zip(game.moves, game.lines, strict=True):
        grown.take(word, line)
    headers = header_texts(game)
    return SourceGame(
        number=number,
        line=game.line,
        headers=headers,
        result=game.marker or headers.get("Result", "*"),
        start=start,
        moves=tuple(node.move for node in grown.root.mainline()),
        tree=grown.root,
        notes=(*grown.notes, *_strays(game)),
    )


def _strays(game: PgnGame) -> Collection[str]:
    more = ", ..." if len(game.strays) > 5 else ""
    return [f"passed over {', '.join(map(as_text, game.strays[:5]))}{more}"] if game.strays else []


@dataclass(slots=True)
class _Tree:
    """Builds a tree word by word.

    An unreadable move of the mainline is an error; one of a variation ends the variation. A null move, as
    annotators write it, ends the game.
    """

    start: chess.Board
    root: chess.pgn.Game = field(init=False)
    notes: list[str] = field(default_factory=list)
    node: chess.pgn.GameNode = field(init=False)
    board: chess.Board = field(init=False)
    before: list[tuple[chess.pgn.GameNode, chess.Board]] = field(default_factory=list)  # open variations
    opens: bool = False  # whether a comment before the first move of a variation may follow
    opening: str = ""  # that comment
    cut: int = 0  # depth in the skipped part of a variation

    def __post_init__(self) -> None:
        self.root = chess.pgn.Game()
        self.root.setup(self.start)
        self.node, self.board = self.root, self.start.copy()

    def take(self, word: str, line: int) -> None:
        """Adds the next word of the game."""
        if self.cut:
            self.cut += (word == OPEN) - (word == CLOSE)
            if self.cut or not self.before:
                return
        if word == OPEN:
            self._open(line)
        elif word == CLOSE:
            self.node, self.board = self.before.pop()
            text, self.opens, self.opening = self.opening, False, ""
            self._comment(text)  # from a variation without moves
        elif word[0] == COMMENT:
            self._comment(" ".join(as_text(word[1:]).split()))
        elif word[0] == NAG:
            self.node.nags |= set() if self.opens else {int(word[1:])}
        else:
            self._move(word, line)

    def _open(self, line: int) -> None:
        if self.node.parent is None:
            raise BrokenGameError(line, "a variation without a move before it")
        self.before.append((self.node, self.board))
        self.node, self.board = self.node.parent, self.board.copy()
        self.board.pop()
        self.opens = True

    def _comment(self, text: str) -> None:
        if self.opens:
            self.opening = f"{self.opening} {text}".strip()
        else:
            self.node.comment = f"{self.node.comment} {text}".strip()

    def _move(self, word: str, line: int) -> None:
        try:
            move = self._read(word)
        except ValueError as error:
            if not self.before and word not in NULL_MOVES:
                raise BrokenGameError(line, str(error)) from None
            part = "a variation" if self.before else "the game"
            self.notes.append(f"line {line}: {part} is kept up to {word} only: {error}")
            self.cut = 1
            return
        self.node = self.node.add_variation(move, starting_comment=self.opening)
        self.board.push(move)
        self.opens, self.opening = False, ""

    def _read(self, word: str) -> chess.Move:
        if word not in NULL_MOVES:
            return self.board.parse_san(word)
        if not self.before:
            raise ValueError("a null move (--), which no game contains")
        return chess.Move.null()
