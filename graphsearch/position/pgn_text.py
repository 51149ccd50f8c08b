"""Parses PGN text game by game, strictly: a word that python-chess would drop is an error or is recorded.

The parser plays no moves; `PgnGame.moves` holds the words that have the form of a move. Only ASCII matters,
so any encoding that extends ASCII works.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache

import chess
import chess.pgn

from ..base.limits import GAME, GAME_MOVES, HEADERS, size_text

MAX_CACHED_WORDS = 50_000
LONGEST_WORD = 100  # characters of a word that is kept
LONGEST_GLYPH = 4  # characters: $255 is the last
DEEPEST = 1000  # variations within each other
NULL_MOVES = frozenset({"--", "Z0"})
OPEN, CLOSE = "(", ")"  # separate entries in `moves`
COMMENT, NAG = "{", "$"  # first characters of a comment (without its `}`) and of a glyph's number in `moves`

_MOVE = r"[PNBRQK]?[a-h]?[1-8]?[-x]?[a-h][1-8](?:=?[nbrqkNBRQK])?|O-O(?:-O)?|0-0(?:-0)?|--|Z0"
_WORD = re.compile(rf"(?:\d+\.*|\.+)?({_MOVE})?(?:e\.?p\.?)?[+#]*(?:[!?]|\$\d+)*|\W+", re.ASCII)
_RESULT = re.compile(r"\*|1-0|0-1|1/2(?:-1/2)?")
_MAYBE_MOVE = re.compile(r".*\d.*|[oO0]-[oO0].*|[KQRBN]?[a-h]?x?[a-h][+#]?", re.ASCII)
_PIECE = re.compile(r"[{}();]|[^\s{}();]+", re.ASCII)
_SPECIAL = re.compile(r"[{}();]")
_TAG = re.compile(r'\[\s*([A-Za-z0-9][\w+#=:-]*)\s+"((?:[^"\\]|\\.)*)"\s*\]\s*', re.ASCII)
_LOOSE_TAG = re.compile(r'\[\s*([A-Za-z0-9][\w+#=:-]*)\s+"(.*)"\s*\]\s*', re.ASCII)
_EVENT = re.compile(r'\[\s*Event\s+"')
_BLANK = " \t\r\n\f\v"
_GLYPH = re.compile(r"\$\d+|[!?]{1,2}", re.ASCII)
UNKNOWN_TAGS = ("", "?", "-")  # values of a tag that say nothing
_NAGS = {"!": 1, "?": 2, "!!": 3, "??": 4, "!?": 5, "?!": 6}  # of the PGN standard


class Kind(Enum):
    """Kinds of words in the movetext."""

    NOTHING = 0  # a move number, a glyph
    MOVE = 1
    RESULT = 2
    STRAY = 3  # skipped
    BAD = 4  # unreadable, possibly a move


@dataclass(slots=True)
class PgnGame:
    """The text of one game, parsed into words.

    Attributes:
      line: number of its first line, from 1.
      headers: values by name.
      moves: words of the form of a move, without numbers and glyphs. With `variations`, each variation is
        between OPEN and CLOSE after the move that it replaces; with `notes`, words that begin with COMMENT
        and NAG are comments and glyphs.
      lines: the line number of each word in `moves`.
      marker: the result that ends the game; empty if it is missing.
      strays: skipped words, such as `resigns`.
      error, error_line: the first error in the text, and its line; empty and 0 if there is none.
      place, size: offset of its first line in the text and total length of its lines, in characters; correct
        only if the reader gets the lines with their ends.
    """

    line: int
    headers: dict[str, str] = field(default_factory=dict)
    moves: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    marker: str = ""
    strays: list[str] = field(default_factory=list)
    error: str = ""
    error_line: int = 0
    place: int = 0
    size: int = 0

    @property
    def is_nothing(self) -> bool:
        """Whether it has neither headers nor moves, nor any word that might be a move."""
        return not (self.headers or self.moves or self.error)

    def fail(self, line: int, error: str) -> None:
        """Records the first error."""
        if not self.error:
            self.error, self.error_line = error, line


def kind_of(word: str) -> tuple[Kind, str]:
    """Returns the kind of a word of the movetext, and its move if there is one.

    >>> kind_of("12.Nxe4+!?"), kind_of("1/2-1/2")[0], kind_of("resigns")[0], kind_of("Nf9")[0]
    ((<Kind.MOVE: 1>, 'Nxe4'), <Kind.RESULT: 2>, <Kind.STRAY: 3>, <Kind.BAD: 4>)
    """
    if _RESULT.fullmatch(word):
        return Kind.RESULT, word
    found = _WORD.fullmatch(word)
    if found:
        return (Kind.MOVE, found[1]) if found[1] else (Kind.NOTHING, "")
    return (Kind.BAD if _MAYBE_MOVE.fullmatch(word) else Kind.STRAY), word


class GameReader:
    """Yields the games of a text; an error in one game does not affect the others.

    Args:
      lines: lines with or without their ends.
      variations: whether to keep variations in `PgnGame.moves`.
      notes: whether to keep comments, glyphs and unreadable words in `PgnGame.moves` too; comments and glyphs
        after a game's result are dropped.
      deepest: the most nested variations.
      first_line, place: the number of the first line, and its offset in the file.
    """

    def __init__(
        self,
        lines: Iterable[str],
        *,
        variations: bool = False,
        notes: bool = False,
        deepest: int = DEEPEST,
        first_line: int = 1,
        place: int = 0,
    ) -> None:
        self._lines = lines
        self._deepest = deepest
        self._variations = variations
        self._notes = notes
        self._comment_parts: list[str] = []  # parts of the open comment
        self._kinds: dict[str, tuple[Kind, str]] = {}
        self._number = first_line - 1
        self._line_start = self._line_end = place  # offsets of the current line's start and end
        self._comment = 0  # line where the open comment began
        self._opened: list[int] = []  # lines where the open variations began
        self._blank = True  # whether the previous line was empty
        self._in_moves = False
        self._game: PgnGame | None = None
        self._ready: list[PgnGame] = []
        self.strays: list[str] = []  # words before, between and after the games
        self._most_moves, self._most_text, self._most_headers = GAME_MOVES.most, GAME.most, HEADERS.most
        self._text = self._headers = 0  # characters of the game so far

    def __iter__(self) -> Iterator[PgnGame]:
        for line in self._lines:
            yield from self.read_line(line)
        yield from self.finish()

    def read_line(self, line: str) -> list[PgnGame]:
        """Parses the next line; returns the games that end before it or in it."""
        self._number += 1
        self._line_start, self._line_end = self._line_end, self._line_end + len(line)
        line = line.removeprefix("\ufeff").removeprefix("\xef\xbb\xbf")  # also between joined files
        self._read(line)
        self._measure(line)
        return self._pop_games()

    def finish(self) -> list[PgnGame]:
        """Returns the game that ends with the text, if one is open."""
        self._end(self._line_end)
        return self._pop_games()

    @property
    def is_between_games(self) -> bool:
        """Whether no game, comment or variation is open, so a new reader could continue here."""
        return self._game is None and not self._comment and not self._opened

    def _pop_games(self) -> list[PgnGame]:
        found, self._ready = self._ready, []
        return found

    # -------------------------------------------------------------- lines
    def _read(self, line: str) -> None:
        if line[:1] == "[" and self._is_header(line):
            self._read_header(line.strip(_BLANK))
        elif self._comment:
            self._blank = not line.strip(_BLANK)
            end = line.find("}")
            if self._notes and self._text <= self._most_text:
                self._comment_parts.append(line if end < 0 else line[:end])
            if end >= 0:
                self._comment = 0
                self._add_note("".join(self._comment_parts))
                self._read_moves(line, end + 1)
        elif line[:1] != "%":
            self._blank = not line.strip(_BLANK)
            if not self._blank:
                self._read_moves(line, 0)

    def _measure(self, line: str) -> None:
        """Records an error if the game's text is too long; the stored part is bounded anyway."""
        if self._game is None:
            return
        self._text += len(line)
        if self._text > self._most_text:
            self._game.fail(self._number, f"more than {size_text(self._most_text)} of text{GAME.hint}")

    def _is_header(self, line: str) -> bool:
        """Returns whether a line that begins with a bracket is a header.

        Inside an open comment or variation, only an Event header after a blank line counts: without this
        rule, an unclosed comment would swallow all later games.
        """
        if self._comment or self._opened:
            return self._blank and bool(_EVENT.match(line))
        return True

    def _read_header(self, line: str) -> None:
        tags = _tags(line)
        again = self._game is not None and (
            self._in_moves or (self._blank and any(name in self._game.headers for name, _ in tags))
        )
        if again:
            self._end(self._line_start)
        self._blank = False
        game = self._current()
        if not tags:
            game.fail(self._number, f"a header that cannot be read: {line[:60]}")
        self._headers += len(line)
        if self._headers > self._most_headers:
            game.fail(self._number, f"more than {size_text(self._most_headers)} of headers{HEADERS.hint}")
            return
        for name, value in tags:
            game.headers.setdefault(name, value)

    # -------------------------------------------------------------- moves
    def _read_moves(self, line: str, start: int) -> None:
        if not start and not _SPECIAL.search(line):
            for word in line.split():
                self._read_word(word)
            return
        position = start
        while position < len(line):
            found = _PIECE.search(line, position)
            if found is None:
                return
            position = found.end()
            if found[0] == ";":
                self._add_note(COMMENT + line[position:].replace("}", ")"))
                return
            if found[0] == COMMENT:
                end = line.find("}", position)
                if end < 0:
                    self._comment, self._comment_parts = self._number, [COMMENT, line[position:]]
                    return
                self._add_note(COMMENT + line[position:end])
                position = end + 1
            else:
                self._read_piece(found[0])

    def _read_piece(self, piece: str) -> None:
        if piece == OPEN and len(self._opened) == self._deepest:
            self._current().fail(self._number, f"more than {self._deepest:,} variations within each other")
        elif piece == OPEN:
            self._opened.append(self._number)
            self._add(piece)
        elif piece == CLOSE and self._opened:
            self._add(piece)
            self._opened.pop()
        elif piece in (CLOSE, "}"):
            self._current().fail(self._number, f"a {piece} that closes nothing")
        else:
            self._read_word(piece)

    def _read_word(self, word: str) -> None:
        found = self._kinds.get(word)
        if found is None:
            if len(self._kinds) > MAX_CACHED_WORDS:
                self._kinds.clear()
            found = kind_of(word)
            if len(word) <= LONGEST_WORD:
                self._kinds[word] = found
        kind, text = found
        if kind is Kind.MOVE:
            self._add(text)
        if self._notes and kind in (Kind.MOVE, Kind.NOTHING):
            self._add_glyphs(word)
        if kind in (Kind.MOVE, Kind.NOTHING) or (self._opened and not self._variations):
            return
        if kind is Kind.RESULT:
            self._read_result(text)
        elif kind is Kind.BAD:
            self._current().fail(self._number, f"the word {shown(word)}, which is not a move")
            if self._notes:
                self._add(word[:LONGEST_WORD])
        else:
            self._add_stray(word)

    def _add_glyphs(self, word: str) -> None:
        for glyph in _GLYPH.findall(word):
            if len(glyph) > LONGEST_GLYPH:
                self._add_stray(glyph)
                continue
            self._add_note(glyph if glyph[0] == NAG else f"{NAG}{_NAGS[glyph]}")

    def _read_result(self, text: str) -> None:
        if not self._opened:
            if self._game is not None:
                self._game.marker = text
            self._end(self._line_end)

    def _add_stray(self, word: str) -> None:
        where = self.strays if self._game is None else self._game.strays
        if len(where) < self._most_moves:
            where.append(word[:LONGEST_WORD])

    def _add_note(self, text: str) -> None:
        fits = self._text <= self._most_text
        if self._notes and fits and self._game is not None and (self._variations or not self._opened):
            self._append(self._game, text)

    def _add(self, word: str) -> None:
        if self._opened and not self._variations:
            return
        game = self._current()
        self._in_moves = True
        self._append(game, word)

    def _append(self, game: PgnGame, word: str) -> None:
        if len(game.moves) < self._most_moves:
            game.moves.append(word)
            game.lines.append(self._number)
        else:
            game.fail(self._number, f"more than {self._most_moves:,} moves{GAME_MOVES.hint}")

    # -------------------------------------------------------------- games
    def _current(self) -> PgnGame:
        if self._game is None:
            self._game = PgnGame(self._number, place=self._line_start)
            self._text = self._headers = 0
            self._in_moves = False
        return self._game

    def _end(self, at: int) -> None:
        """Ends the current game at offset `at`; a comment or variation still open is an error of the game."""
        if self._comment:
            self._current().fail(self._comment, "a comment that does not end")
            self._add_note("".join(self._comment_parts))
        if self._opened:
            self._current().fail(self._opened[-1], "a variation that does not end")
        game, self._game = self._game, None
        self._comment = 0
        self._opened.clear()
        self._in_moves = False
        if game is None:
            return
        if game.is_nothing:
            self.strays += game.strays
        else:
            game.size = at - game.place
            self._ready.append(game)


def _tags(line: str) -> list[tuple[str, str]]:
    """Returns the headers of a line as (name, value) pairs; none if any part of it is not a header."""
    found = list(_TAG.finditer(line))
    if found and sum(len(tag[0]) for tag in found) == len(line):
        return [(tag[1], tag[2].replace('\\"', '"').replace("\\\\", "\\")) for tag in found]
    loose = _LOOSE_TAG.fullmatch(line)  # quotes inside the text
    return [(loose[1], loose[2])] if loose and '"]' not in loose[2].replace(" ", "") else []


def as_text(latin: str) -> str:
    """Decodes text that was read as Latin-1 as UTF-8 without a BOM; returns it unchanged if not valid UTF-8.

    >>> as_text("caf\u00c3\u00a9"), as_text("caf\u00e9")
    ('caf\u00e9', 'caf\u00e9')
    """
    with suppress(UnicodeError):
        return latin.encode("latin-1").decode("utf-8-sig")
    return latin


def shown(word: str) -> str:
    """Returns a word quoted for a message, cut to 40 characters; decodes it with `as_text`."""
    word = as_text(word)
    return repr(word if len(word) <= 40 else word[:40] + "...")


def variant_of(headers: dict[str, str]) -> str:
    """Returns the name of the variant that headers name; empty for standard chess and Chess960.

    >>> [variant_of({"Variant": name}) for name in ("fischerandom", "Atomic", "?")]
    ['', 'Atomic', '']
    """
    name = headers.get("Variant", "").strip()
    return _checked_variant(name) if name not in UNKNOWN_TAGS else ""


@lru_cache(maxsize=100)
def _checked_variant(name: str) -> str:
    """Returns the name of a variant, empty if python-chess plays it as standard chess."""
    with suppress(ValueError):
        if chess.pgn.Headers({"Variant": name}).variant() is chess.Board:
            return ""
    return name
