"""Cuts PGN text into games, and reads a game: python-chess decides what it says.

    lines -> cut_text -> GameText -> read_game -> ReadGame

`chess.pgn` parses the movetext. The text that it passes over is examined here: a word that cannot be a move
is recorded, and one that could be a move is an error, so that no game is read in part.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path

import chess
import chess.pgn

from ..base import limits
from ..base.errors import InputFileError, InvalidPositionError, UnusableFileError
from ..base.limits import GAME, GAME_MOVES, HEADERS, shortened, size_text
from .board import board_of, check, problem_of

DEEPEST = 1000  # variations within each other
HIGHEST_GLYPH = 255
LONGEST_WORD = 40  # characters of a word in a message
MOST_REMARKS = 1000  # of a game
ROSTER = ("Event", "Site", "Date", "Round", "White", "Black", "Result")
RESULTS = ("1-0", "0-1", "1/2-1/2", "*")
NULL_MOVES = frozenset({"--", "Z0", "0000", "@@@@"})

_TOKEN = chess.pgn.MOVETEXT_REGEX
_NAME = r"[A-Za-z0-9][A-Za-z0-9_+#=:-]*"
_TAG = re.compile(rf'\s*\[\s*({_NAME})\s+"((?:[^"\\]|\\.)*)"\s*\]\s*')
_LOOSE_TAG = re.compile(rf'\s*\[\s*({_NAME})\s+"(.*)"\s*\]\s*')  # quotes inside the value
_PARTIAL_TAG = re.compile(rf'\s*\[\s*({_NAME})\s*"((?:[^"\\]|\\.)*)"\s*\](.*)', re.DOTALL)
_TAG_LINE = re.compile(rf'\s*\[\s*(?:[^\W\d_][^\[\]"]*"|(?:{"|".join(ROSTER)})\b)')
_BRACKET = re.compile(r"\s*\[\s*([^\W\d_]\w*)[^\[\]]*\](.*)", re.DOTALL)
_EVENT = re.compile(r'\s*\[\s*Event\s+"')
_FEN = re.compile(r"\s*\[?\s*FEN\b", re.IGNORECASE)

_WORD = re.compile(r"[{};()]|[^\s{};()]+")
_RESULT = re.compile(r"(?:1-0|0-1|1/2(?:-1/2)?|\*)$")
_FIRST_NUMBER = re.compile(r"1\.(?!\.|\s*\.)")
_NEW_GAME = re.compile(r"[^\w(]*1\s*\.(?!\s*\.)")
_GOES_ON = re.compile(r"\s*(?:\d+\s*\.|[({$*;)]|1-0|0-1|1/2)")


# ------------------------------------------------------------------ cutting
@dataclass(slots=True)
class GameText:
    """The text of one game.

    Attributes:
      line: number of its first line, from 1. place, size: its bytes in the file.
      tags: number and text of each line before the moves. moves: likewise, from the first move on.
      has_moves: whether a word is, or could be, a move. error: the reason if it is too long; empty if not.
    """

    line: int
    place: int = 0
    size: int = 0
    tags: list[tuple[int, str]] = field(default_factory=list)
    moves: list[tuple[int, str]] = field(default_factory=list)
    has_moves: bool = False
    error: str = ""

    @property
    def is_nothing(self) -> bool:
        """Whether it has neither tags nor words that could be moves."""
        if self.has_moves or self.error:
            return False
        return not any(_TAG_LINE.match(text) or _partial_tags(text)[1] for _, text in self.tags)

    @property
    def words(self) -> int:
        """The number of words."""
        return sum(len(text.split()) for _, text in (*self.tags, *self.moves))

    @property
    def headers(self) -> dict[str, str]:
        """The values of its tags by name."""
        return read_tags(self).headers


class _Cutter:
    """Cuts lines into games, as `chess.pgn` does, but keeps a game together that blank lines divide.

    A game begins with tags, or with the first move after the end of another. Outside a comment, it ends
    before a tag after a blank line or its result; before another line after a blank line, unless it has no
    result yet and the line goes on by its move number; and before move 1 after its result. An open comment
    ends before an Event tag after a blank line, or it would hide all later games.
    """

    def __init__(self) -> None:
        self._number = self._end = 0  # of the last line; its end in the file
        self._most_text, self._most_headers = GAME.most, HEADERS.most
        self._game: GameText | None = None
        self._begin_game()

    def _begin_game(self) -> None:
        self._names: set[str] = set()  # of its tags
        self._is_faulty = False  # whether a line of tags costs the game
        self._text = self._depth = 0  # characters; open variations
        self._in_comment = self._is_blank = self._is_numbered = self._is_finished = False

    def add(self, line: str, size: int) -> list[GameText]:
        """Adds the next line, of `size` bytes with its end; returns the games that end before or in it."""
        self._number += 1
        place, self._end = self._end, self._end + size
        line = line.lstrip("\ufeff")  # also between joined files
        if line.startswith("%") and not self._in_comment:
            return []
        if line.isspace() and not self._in_comment:
            self._is_blank = True
            return []
        found = self.end() if self._game and self._ends(self._game, line) else []
        game = self._game = self._game or GameText(self._number, place)
        game.size = self._end - game.place
        self._text += len(line)
        is_before = not (self._in_comment or game.has_moves)
        is_bracketed = not game.moves and line.lstrip()[:1] in ("[", ";")
        if self._text > self._most_text and not game.error:
            game.error = f"more than {size_text(self._most_text)} of text{GAME.hint}"
        elif is_before and (is_bracketed or _tags_of(line)):
            self._add_tags(game, line)
        else:
            found += self._add_moves(game, line, place)
        self._is_blank = line.isspace()
        return found

    def end(self) -> list[GameText]:
        """Returns the open game, if there is one."""
        found = [self._game] if self._game else []
        self._game = None
        self._begin_game()
        return found

    def _ends(self, game: GameText, line: str) -> bool:
        """Returns whether a game ends before a line."""
        if self._in_comment:
            return self._is_blank and bool(_EVENT.match(line))
        if not game.moves:
            again = self._is_faulty or bool(_EVENT.match(line) or self._names.intersection(_names_of(line)))
            return self._is_blank and again and bool(_TAG_LINE.match(line))
        if _TAG_LINE.match(line):
            return self._is_blank or (self._is_finished and bool(_tags_of(line)))
        return self._is_blank and not self._goes_on(game, line)

    def _goes_on(self, game: GameText, line: str) -> bool:
        """Returns whether a line after a blank line belongs to a game."""
        if self._is_finished:
            return False
        if not game.has_moves:
            return True
        if _NEW_GAME.match(line):
            return False
        if _GOES_ON.match(line) or line.lstrip().startswith("["):
            return True
        return self._is_numbered and bool(_moves_in(line.split(None, 1)[0]))

    def _add_tags(self, game: GameText, line: str) -> None:
        if self._text > self._most_headers and not game.error:
            game.error = f"more than {size_text(self._most_headers)} of headers{HEADERS.hint}"
        if not game.error:
            game.tags.append((self._number, line))
            self._names.update(_names_of(line))
            self._is_faulty = self._is_faulty or bool(not _tags_of(line) and _partial_tags(line)[1])

    def _add_moves(self, game: GameText, line: str, place: int) -> list[GameText]:
        """Adds a line of moves; cuts it before move 1 after a result."""
        found, begin, at = list[GameText](), 0, 0
        while at < len(line):
            if self._in_comment:
                end = line.find("}", at)
                self._in_comment = end < 0
                at = len(line) if end < 0 else end + 1
                continue
            word = _WORD.search(line, at)
            if word is None or word[0] == ";":
                break
            if self._is_finished and game.has_moves and not self._depth and _FIRST_NUMBER.match(word[0]):
                game.moves.append((self._number, line[begin : word.start()] + "\n"))
                begin = word.start()
                offset = place + len(line[:begin].encode())
                game.size = offset - game.place
                found += self.end()
                game = self._game = GameText(self._number, offset, self._end - offset)
            self._add_word(game, word[0])
            at = word.end()
        if not (game.error and game.moves):
            game.moves.append((self._number, "\n" if game.error else line[begin:]))
        return found

    def _add_word(self, game: GameText, word: str) -> None:
        if word == "{":
            self._in_comment = True
        elif word == "(":
            self._depth += game.has_moves
        elif word == ")":
            self._depth -= self._depth > 0
        elif not self._depth and _RESULT.search(word):
            self._is_finished = True
            game.has_moves = game.has_moves or bool(_moves_in(word))
        elif (self._is_finished or not game.has_moves) and (_moves_in(word) or could_be_move(word)):
            game.has_moves = True
            self._is_finished = self._is_finished and bool(self._depth)
        self._is_numbered = self._is_numbered or bool(_GOES_ON.match(word))


def cut_text(lines: Iterable[str | bytes]) -> Iterator[GameText]:
    """Yields the games of a text, and the text between them; lines of bytes also give their places."""
    cutter = _Cutter()
    for line in lines:
        if isinstance(line, bytes):
            yield from cutter.add(limits.decoded(line), len(line))
        else:
            yield from cutter.add(line, 0)
    yield from cutter.end()


def cut_games(lines: Iterable[str]) -> Iterator[GameText]:
    """Yields the games of a text; skips text between them that holds no word that could be a move."""
    return (game for game in cut_text(lines) if not game.is_nothing)


# ------------------------------------------------------------------ tags
@dataclass(frozen=True, slots=True)
class Tags:
    """The tags of a game by name; remarks on lines that cannot be read; an error that costs the game."""

    headers: dict[str, str]
    remarks: list[tuple[int, str]]
    error: str = ""
    error_line: int = 0


def read_tags(game: GameText) -> Tags:
    """Returns the tags of a game. An unreadable line is named and costs no game, unless it has moves."""
    headers, remarks, error, error_line = dict[str, str](), list[tuple[int, str]](), "", 0
    for line, text in game.tags:
        found = _tags_of(text)
        if not found:
            found, fault = _partial_tags(text)
            if fault:
                error, error_line = error or fault, error_line or line
            else:
                what = "a tag that cannot be read as it is"
                if text.lstrip().startswith(";"):
                    what = "a comment before the moves, not kept"
                remarks.append((line, f"{what}: {shortened(text.strip(), 60)}"))
        for name, value in found:
            if headers.get(name, value) != value:
                remarks.append((line, f"another tag {name}; the last one counts"))
            headers[name] = value
    return Tags(headers, remarks, error, error_line)


@lru_cache(maxsize=100)
def _tags_of(line: str) -> tuple[tuple[str, str], ...]:
    """Returns the tags of a line as (name, value) pairs; none if any part of it is not a tag."""
    found = list(_TAG.finditer(line))
    if found and sum(len(tag[0]) for tag in found) == len(line):
        return tuple((tag[1], tag[2].replace('\\"', '"').replace("\\\\", "\\")) for tag in found)
    loose = _LOOSE_TAG.fullmatch(line)
    return ((loose[1], loose[2]),) if loose and '"]' not in loose[2].replace(" ", "") else ()


def _names_of(line: str) -> list[str]:
    """Returns the names of a line's tags, also of one that can be read in part."""
    partial = _PARTIAL_TAG.match(line)
    return [name for name, _ in _tags_of(line)] or ([partial[1]] if partial else [])


def _partial_tags(line: str) -> tuple[tuple[tuple[str, str], ...], str]:
    """Returns the tag that begins a line of which the rest is no tag, and an error if the rest has moves."""
    if line.lstrip().startswith(";"):
        return (), ""
    found = _PARTIAL_TAG.match(line)
    bracket = _BRACKET.match(line)
    if found:
        rest = found[3]
    elif bracket and not _moves_in(bracket[1]):
        rest = bracket[2]
    else:
        is_closed = _TAG_LINE.match(line) and line.rstrip().endswith("]")
        rest = "" if is_closed else re.sub(r"^\s*\[\s*\w+", "", line)
    rest = re.sub(r"\{[^}]*\}|;.*", "", rest)
    if any(_moves_in(word) or could_be_move(word) for word in rest.split()):
        return (), f"moves in a line of tags: {shortened(line.strip(), 60)}"
    if not found and _FEN.match(line):
        return (), f"its FEN cannot be read: {shortened(line.strip(), 60)}"
    return ((found[1], found[2]),) if found else (), ""


def variant_of(headers: dict[str, str]) -> str:
    """Returns the name of the variant that headers name; empty for standard chess and Chess960.

    >>> [variant_of({"Variant": name}) for name in ("fischerandom", "Atomic", "?")]
    ['', 'Atomic', '']
    """
    name = headers.get("Variant", "").strip()
    return _checked_variant(name) if name not in ("", "?", "-") else ""


@lru_cache(maxsize=100)
def _checked_variant(name: str) -> str:
    """Returns the name of a variant, empty if python-chess plays it as standard chess."""
    with suppress(ValueError):
        if chess.pgn.Headers({"Variant": name}).variant() is chess.Board:
            return ""
    return name


# ------------------------------------------------------------------ words that are no moves
_CASTLE = "[oO0\u041e\u043e\u039f\u03bf]"
_DASH = "[-\u2010-\u2015\u2212_~/]"
_CASTLING = re.compile(rf"{_CASTLE}{_DASH}?{_CASTLE}(?:{_DASH}?{_CASTLE})?")
_COULD_BE = re.compile(
    r"[^\W\d_][-x:*]?[0-9]"  # Nf9, E4, P-K4
    r"|^[1-8][a-h]$"
    r"|^(?=..)[KQRBN]?[a-h]?[x:*]?[a-h]$"  # ed, Nf
    r"|^[KQRBNP][-x:*][KQRBNP]?"  # BxN
    r"|^@+$|^\u2014$|^(?i:null|pass)$|[\u2654-\u265f]"
)
_PLAIN = re.compile(r"[\s.+#\u2026\u200b-\u200f\u2060]*(?:\d+[\s.+#\u2026\u200b-\u200f\u2060]*)*")
_NUMBER = re.compile(r"^\d+[.\u2026]+|^[.\u2026]+")
_GLYPHS = {"!": 1, "?": 2, "!!": 3, "??": 4, "!?": 5, "?!": 6}  # their numbers in PGN
_EN_PASSANT = re.compile(r"^\s*e\.?\s?p\.?")
_MARKS = " .,+#!?=\u2026'\"()[]<>"


def could_be_move(word: str) -> bool:
    """Returns whether a word that `chess.pgn` passes over could be a move, or an attempt to write one.

    >>> [word for word in ("OO", "Nf9", "ed", "BxN", "resigns", "12.", "1/2", "=") if could_be_move(word)]
    ['OO', 'Nf9', 'ed', 'BxN']
    """
    word = _NUMBER.sub("", "".join(c for c in word if unicodedata.category(c) != "Cf")).strip(_MARKS)
    return bool(_CASTLING.fullmatch(word) or _COULD_BE.search(word))


def _moves_in(word: str) -> list[str]:
    """Returns the parts of a word that `chess.pgn` takes for moves."""
    found = (match[0] for match in _TOKEN.finditer(word))
    return [token for token in found if token[0] not in "{;$()!?" and token not in RESULTS]


OPEN_COMMENT = "a comment that does not end"


def _hides_move(word: str, behind: str, ahead: str, near: str) -> bool:
    """Returns whether a word without moves could be one, or part of one: 0-0(-0), (S)f3, (N) f3."""
    if behind[:1] in ("O", "0") and re.match(rf"{_DASH}|{_CASTLE}", word):
        return True
    kinds = ("Po", "Ps", "Pe", "Pi", "Pf", "Sk", "Cf", "Pc")  # of punctuation
    if ahead and not all(unicodedata.category(c) in kinds or c in "+=<>|" for c in word):
        return True
    if near[:1] in tuple("abcdefghx") and re.fullmatch(r"[A-Z]", word.strip(_MARKS)):
        return True
    return not (behind or ahead) and could_be_move(word)


def _find(what: str, text: str, at: int) -> int:
    """Returns the place of a character; the length of the text if it is not there."""
    found = text.find(what, at)
    return len(text) if found < 0 else found


def shown(word: str) -> str:
    """Returns a word quoted for a message, cut to 40 characters."""
    return repr(word if len(word) <= LONGEST_WORD else word[:LONGEST_WORD] + "...")


# ------------------------------------------------------------------ reading
@dataclass(slots=True)
class ReadGame:
    """A game as python-chess reads it.

    Attributes:
      headers: the values of its tags by name. start: the first position; None if it cannot be read.
      variant: its name, empty for standard chess and Chess960; for any other no move is read.
      tree: with comments, glyphs and, if they were asked for, variations; each line up to its first error.
      result: that at the end of the moves; empty if it is missing.
      error, error_line, error_moves: the first error in the mainline, its line, and the moves before it.
      variation_faults: errors in variations, with their lines.
      null_line: of the null move that ends the mainline, or 0. null_variations: number of those ended so.
      cuts: a message for each line of moves that ends early, with its line.
      strays: words that `chess.pgn` passes over, with their lines. remarks: all else that is not kept.
    """

    text: GameText
    headers: dict[str, str]
    variant: str = ""
    start: chess.Board | None = None
    tree: chess.pgn.Game = field(default_factory=chess.pgn.Game)
    result: str = ""
    error: str = ""
    error_line: int = 0
    error_moves: int = 0
    variation_faults: list[tuple[int, str]] = field(default_factory=list)
    null_line: int = 0
    null_variations: int = 0
    cuts: list[tuple[int, str]] = field(default_factory=list)
    strays: list[tuple[int, str]] = field(default_factory=list)
    remarks: list[tuple[int, str]] = field(default_factory=list)

    @property
    def moves(self) -> list[chess.Move]:
        """The moves of the mainline, castling as in packed positions."""
        return own_moves(self.start or chess.Board(), self.tree.mainline_moves())

    def passed_over(self) -> list[str]:
        """Returns a message on the words passed over, if there are any."""
        more = ", ..." if len(self.strays) > 5 else ""
        words = ", ".join(word[:LONGEST_WORD] for _, word in self.strays[:5])
        return [f"passed over {words}{more}"] if words else []

    def fail(self, line: int, error: str, moves: int = 0) -> None:
        """Records the first error of the mainline, and the moves before it."""
        if not self.error:
            self.error, self.error_line, self.error_moves = error, line, moves


def own_moves(start: chess.Board, moves: Iterable[chess.Move]) -> list[chess.Move]:
    """Returns moves with castling as in packed positions: the king's two steps if castling is standard."""
    if not start.chess960:
        return list(moves)
    board, found = start.copy(), list[chess.Move]()
    for move in moves:
        found.append(board.parse_uci(move.uci()))
        board.push(found[-1])
    return found


def read_game(text: GameText, *, variations: bool = False, null_moves: bool = False) -> ReadGame:
    """Returns a game as `chess.pgn` reads it, with every part that is not read.

    Args:
      variations: whether to read them. null_moves: whether those may have null moves, or end there.
    """
    tags = read_tags(text)
    found = ReadGame(text, tags.headers, variant_of(tags.headers), remarks=tags.remarks)
    if text.error:
        found.fail(text.line, text.error)
    if tags.error:
        found.fail(tags.error_line, tags.error)
    if found.variant:
        return found
    try:
        found.start = start_board(tags.headers)
    except ValueError as error:
        found.fail(text.line, str(error))
        return found
    found.tree.setup(found.start)
    builder = _Builder(found, found.start, variations=variations, null_moves=null_moves)
    for line, words in text.moves:
        builder.add_line(line, words)
    builder.finish()
    return found


def start_board(headers: dict[str, str]) -> chess.Board:
    """Returns the first position of a game; raises ValueError if it cannot be read or is illegal."""
    fen = headers.get("FEN", "").strip()
    if not fen or fen == "?":
        if headers.get("SetUp") == "1":
            raise InvalidPositionError("SetUp is 1, but there is no FEN")
        return chess.Board()
    try:
        board = board_of(fen)
    except ValueError as error:
        raise InvalidPositionError(f"its FEN cannot be read: {error}: {shortened(fen, 200)}") from None
    check(board, fen)
    return board


class _Builder(chess.pgn.GameBuilder[chess.pgn.Game]):
    """Builds the tree of a game from the tokens that `chess.pgn` finds in it.

    A word between them that could be a move, or a bad move, ends its line, not the game's other lines.
    """

    def __init__(self, found: ReadGame, start: chess.Board, *, variations: bool, null_moves: bool) -> None:
        super().__init__()
        self._found, self._variations, self._null_moves = found, variations, null_moves
        self._line = 0  # its number
        self._boards = [start.copy()]  # of the lines that are read
        self._plies = [0]  # moves before this place: in the mainline, in each open variation, read or not
        self._moves = 0  # in all lines
        self._ended: int | None = None  # depth of the line that has ended early
        self._more = 0  # moves after its end
        self._comment_line = 0  # where the open comment began
        self._comment: list[str] = []
        self.begin_game()

    def begin_game(self) -> None:
        """Begins with the tree of the found game."""
        super().begin_game()
        self.game = self._found.tree
        self.variation_stack = [self.game]

    @property
    def _depth(self) -> int:
        """The number of open variations that are read."""
        return len(self.variation_stack) - 1

    @property
    def _skips(self) -> bool:
        """Whether this place is inside a variation that is not read."""
        return len(self._plies) > len(self.variation_stack)

    @property
    def _at_start(self) -> bool:
        """Whether no move stands before this place in the line."""
        return not self.in_variation and (self._depth > 0 or self.variation_stack[-1].parent is None)

    # -------------------------------------------------------------- lines and comments
    def add_line(self, number: int, line: str) -> None:
        """Reads a line of the text."""
        self._line, at = number, 0
        if self._comment_line:
            end = line.find("}")
            self._comment.append(line[:end] if end >= 0 else line)
            if end < 0:
                return
            self._end_comment()
            at = end + 1
        while at < len(line):
            begin = min(_find("{", line, at), _find(";", line, at))
            self._add_words(line[at:begin])
            at = len(line)
            if line[begin : begin + 1] == ";":
                text = line[begin + 1 :].rstrip("\r\n")
                if "}" in text:
                    self._remark("a comment has a }, which is kept as )")
                self._add_comment(text.replace("}", ")"))
            elif begin < len(line):
                end = _find("}", line, begin)
                self._comment_line, self._comment = number, [line[begin + 1 : end]]
                if end < len(line):
                    self._end_comment()
                    at = end + 1

    def _end_comment(self) -> None:
        self._add_comment("".join(self._comment))
        self._comment_line = 0

    def _add_comment(self, text: str) -> None:
        """Adds a comment, without a blank beside each brace as `chess.pgn`, unless its line has ended."""
        if self._ended is None and not self._skips:
            self.visit_comment(text.removeprefix(" ").removesuffix(" "))

    # -------------------------------------------------------------- words
    def _add_words(self, text: str) -> None:
        """Reads the text between two comments."""
        at, before = 0, ""
        for match in _TOKEN.finditer(text):
            word, gap = match[0], text[at : match.start()]
            move = word if word[0] not in "$()!?" and word not in RESULTS else ""
            fault = self._fault_in(gap, before, move)
            if fault:
                self._add_move("", fault)
            if move and fault and not gap[-1].isspace():
                self._plies[-1] += 1  # the fault stands for the move, too
            else:
                self._add_token(word, move)
            at, before = match.end(), move
        fault = self._fault_in(text[at:], before, "")
        if fault:
            self._add_move("", fault)

    def _add_token(self, word: str, move: str) -> None:
        if word == "(":
            self._open_variation()
        elif word == ")":
            self._close_variation()
        elif move:
            self._plies[-1] += 1
            self._add_move(move)
        elif word in RESULTS:
            self._found.result = word if len(self._plies) == 1 else self._found.result
        elif self._ended is None and not self._skips:
            self.visit_nag(int(word[1:]) if word[0] == "$" else _GLYPHS[word])

    def _fault_in(self, gap: str, before: str, after: str) -> str:
        """Returns a word between two tokens, perhaps moves, that could be a move; empty for none."""
        if gap.isspace() or not gap or (_PLAIN.fullmatch(gap) and not _CASTLING.search(gap)):
            return ""
        mark = _EN_PASSANT.match(gap) if before else None
        rest, before = (gap[mark.end() :], "") if mark else (gap, before)
        words = rest.split()
        for i, word in enumerate(words):
            is_last = i == len(words) - 1
            behind = before if i == 0 and not rest[0].isspace() else ""
            ahead = after if is_last and not rest[-1].isspace() else ""
            if self._is_fault(word, behind, ahead, after if is_last else ""):
                return shown(f"{behind}{word}{ahead}")
        return ""

    def _is_fault(self, word: str, behind: str, ahead: str, near: str) -> bool:
        """Returns whether a word could be a move; it touches `behind` and `ahead`; `near`: the next move."""
        bare = "".join(c for c in word if unicodedata.category(c) != "Cf")
        bare = bare if behind else _NUMBER.sub("", bare)
        if not bare or (_PLAIN.fullmatch(bare) and not _CASTLING.fullmatch(bare)):
            return False
        if bare == "1/2":
            self._found.result = self._found.result if len(self._plies) > 1 else "1/2-1/2"
            return False
        if bare == "P" and ahead[:1] in tuple("abcdefgh"):
            return False
        if _hides_move(bare, behind, ahead, near):
            return True
        if "}" in bare:
            self._remark("a } that closes nothing")
        else:
            self._found.strays.append((self._line, word))
        return False

    # -------------------------------------------------------------- moves
    def _add_move(self, san: str, fault: str = "") -> None:
        """Plays a move, or ends the line before a `fault`."""
        board = self._boards[-1]
        if self._skips:
            return
        if self._ended is not None:
            self._more += 1
            return
        if fault:
            self._end_line(fault, "not a move", f"the word {fault}, which is not a move")
            return
        if san in NULL_MOVES and not (self._depth and self._null_moves):
            self._end_line(repr(san), "a null move", "")
            return
        try:
            move = board.parse_san(san)
        except ValueError as error:
            problem = f"{san} {problem_of(board, san, error)}"
            self._end_line(repr(san), problem, problem)
            return
        if self._moves >= GAME_MOVES.most:
            reason = f"more than {GAME_MOVES.most:,} moves{GAME_MOVES.hint}"
            self._end_line(repr(san), reason, reason)
            return
        self._moves += 1
        self.visit_move(board, move)
        board.push(move)

    def _end_line(self, word: str, reason: str, error: str) -> None:
        """Ends the current line before a word; error: empty for a null move."""
        found, line = self._found, self._line
        self._ended, self._more = self._depth, 0
        found.cuts.append((line, f"the line ends before {word}: {reason}"))
        if not error and self._depth:
            found.null_variations += 1
        elif not error:
            found.null_line = line
        elif self._depth:
            found.variation_faults.append((line, error))
        else:
            found.fail(line, error, self.main_moves())

    def _tell_more(self) -> None:
        """Adds to the last cut the number of moves that are lost with it."""
        if self._more:
            line, text = self._found.cuts[-1]
            self._found.cuts[-1] = line, f"{text}; {self._more:,} more with it"
        self._ended, self._more = None, 0

    def visit_nag(self, nag: int) -> None:
        """Adds a glyph to the last move."""
        if nag > HIGHEST_GLYPH:
            self._remark(f"${shortened(str(nag))} is no glyph: they go up to ${HIGHEST_GLYPH}")
        elif self._at_start:
            self._remark(f"${nag} stands before a move, not behind one")
        else:
            super().visit_nag(nag)

    # -------------------------------------------------------------- variations
    def _open_variation(self) -> None:
        """Opens a variation; one that is not read only counts its moves."""
        if not self._plies[-1]:
            self._remark("a ( that begins no variation")
            return
        skips = self._skips or self._ended is not None or not self._variations
        self._plies.append(self._plies[-1] - 1)
        if skips:
            return
        if self._at_start:
            self._remark("a variation without a move before it")
        elif self._depth >= DEEPEST:
            text = f"more than {DEEPEST:,} variations within each other"
            self._found.variation_faults.append((self._line, text))
            self._remark(text)
        else:
            self.begin_variation()
            self._boards.append(self._boards[-1].copy())
            self._boards[-1].pop()

    def _close_variation(self) -> None:
        """Closes a variation; the comment of one without moves goes to the move before it."""
        if len(self._plies) == 1:
            self._remark("a ) that closes nothing")
            return
        skips = self._skips
        self._plies.pop()
        if skips:
            return
        if self._ended == self._depth:
            self._tell_more()
        self.end_variation()
        self._boards.pop()
        text, self.starting_comment, self.in_variation = self.starting_comment, "", True
        if text:
            self.visit_comment(text)

    def finish(self) -> None:
        """Adds what is open at the end of the text."""
        if self._comment_line:
            if any(_moves_in(word) for word in " ".join(self._comment).split()):
                self._found.fail(self._comment_line, OPEN_COMMENT, self.main_moves())
            else:
                self._remark(OPEN_COMMENT, self._comment_line)
            self._end_comment()
        if self._ended is not None:
            self._tell_more()
        elif self._depth or self._skips:
            self._remark("a variation that does not end")
        elif self.starting_comment:
            last = self.variation_stack[-1]
            last.comment = " ".join(filter(None, (last.comment, self.starting_comment)))

    def main_moves(self) -> int:
        """Returns the number of moves of the mainline."""
        return sum(1 for _ in self.game.mainline_moves())

    def _remark(self, text: str, line: int = 0) -> None:
        if len(self._found.remarks) < MOST_REMARKS:
            self._found.remarks.append((line or self._line, text))


# ------------------------------------------------------------------ positions of games
# Searching a wrong position is worse than not searching, so anything unreadable is an error or a note.
SQLITE = b"SQLite format 3\0"  # begins a graph file


@dataclass(frozen=True, slots=True)
class GamePosition:
    """A position from a game of a PGN file.

    Attributes:
      game: its number in the file, from 1. headers: its tags.
      board: with the readable game so far as its move stack; None without a first position.
      notes: remarks for the user. problem: why there is no such position.
      length: number of readable plies of the mainline; 0 without a position.
    """

    game: int
    headers: dict[str, str]
    board: chess.Board | None
    notes: tuple[str, ...] = ()
    problem: str = ""
    length: int = 0


def position_in(text: GameText, number: int, name: str, ply: int | None = None) -> GamePosition:
    """Returns the position after at most `ply` half-moves (default: all) of a game's mainline.

    An unreadable move before `ply` is a problem; a shorter game gives its last position. `number`, `name`: of
    the game and the text, for messages.
    """
    game, where = read_game(text), f"game {number} of {name}"
    if game.variant:
        problem = f"{where} is {game.variant}; only standard chess and Chess960 can be searched"
        return GamePosition(number, game.headers, None, problem=problem)
    moves = game.moves[: game.error_moves] if game.error else game.moves
    error, line = game.error, game.error_line
    if game.null_line and not error:
        error, line = "a null move (--), which no game contains", game.null_line
    broken = f"{where}, line {line}, breaks off after {plies_text(len(moves))}: {error}"
    if game.start is None:
        return GamePosition(number, game.headers, None, problem=broken)
    board = game.start.copy()
    for move in moves[:ply]:
        board.push(move)
    if error and (ply is None or ply > len(moves)):
        return GamePosition(number, game.headers, board, problem=broken, length=len(moves))
    notes = [broken] if error else []
    notes += [f"{where}, line {number}: {text}" for number, text in game.remarks[:5]]
    notes += [f"{where}: {text}" for text in game.passed_over()]
    return GamePosition(number, game.headers, board, tuple(notes), length=len(moves))


def plies_text(count: int) -> str:
    """Returns a number of half-moves in words."""
    return f"{count} {'ply' if count == 1 else 'plies'}"


def read_pgn(
    lines: Iterable[str], path: Path, *, game: int | None = None, ply: int | None = None
) -> tuple[chess.Board, tuple[str, ...]]:
    """Returns the position after `ply` half-moves (default: all) of a game's mainline in a file, and notes.

    Raises:
      InvalidPositionError: if the game or the ply does not exist.
      UnusableFileError: if there are no games, the game is a variant, or a move up to the ply cannot be read.
    """
    number = game or 1
    texts = list(islice(cut_games(lines), number - 1, number + 1))
    if not texts and number == 1:
        raise UnusableFileError(f"{path} has no games; it has neither headers nor moves")
    if not texts:
        raise InvalidPositionError(f"there is no game {number} of {path}: it holds fewer")
    found = position_in(texts[0], number, str(path), ply)
    if found.problem or found.board is None:
        raise UnusableFileError(found.problem)
    if ply is not None and ply > found.length:
        has = f"game {number} of {path} has {plies_text(found.length)}"
        raise InvalidPositionError(f"{has}; there is no ply {ply}")
    more = game is None and len(texts) > 1
    notes = (f"{path} holds more games; this is the first (--game chooses another)",) if more else ()
    return found.board, (*notes, *found.notes)


def read_games(
    path: Path, *, ply: int | None = None, only: Collection[int] | None = None
) -> Iterator[GamePosition]:
    """Yields the position after at most `ply` half-moves of each game's mainline, as `position_in`.

    Args:
      only: numbers of games; None: all.

    Raises:
      InvalidPositionError: if the file cannot be read, or is not PGN.
    """
    last = None if only is None else max(only, default=0)
    with open_text(path) as lines:
        for number, game in enumerate(cut_games(lines), start=1):
            if last is not None and number > last:
                return
            if only is None or number in only:
                yield position_in(game, number, str(path), ply)


@contextmanager
def open_text(path: Path) -> Iterator[Iterator[str]]:
    """Opens a PGN file, another text file or a pipe; yields an iterator over its lines.

    Raises:
      InvalidPositionError: if it cannot be read, or is a graph file.
      UnusableFileError: if it is not text.
    """
    try:
        with limits.open_file(path, piped=True) as file:
            head = file.peek(4096)[:4096]
            if head.startswith(SQLITE):
                raise InvalidPositionError(f"{path} is a database, not PGN; give a graph file with --store")
            if b"\0" in head:
                raise UnusableFileError(f"{path} is not a text file, so it is not a PGN file")
            yield limits.text_lines(file, str(path))
    except InputFileError as error:
        raise InvalidPositionError(str(error).replace("expected a file", "not a PGN file")) from None
    except OSError as error:
        raise InvalidPositionError(f"cannot read {path}: {error.strerror or error}") from None
