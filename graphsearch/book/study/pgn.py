"""Converts PGN to studies and back; python-chess reads the same game before and after.

Reading never fails because of a game's content: it skips and lists, with its line, any part it cannot keep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import BytesIO

import chess
import chess.pgn

from ...base.errors import CorruptRecordError
from ...exchange.pgn_writing import header
from ...position.board import board_of, check, fen_of, key_text
from ...position.pgn_text import (
    CLOSE,
    COMMENT,
    NAG,
    NULL_MOVES,
    OPEN,
    GameReader,
    PgnGame,
    as_text,
    shown,
    variant_of,
)
from ...store.tables.studies import Study, StudyMove
from .tree import START, Tree, clean

DEEPEST = 10_000  # nesting of variations
HIGHEST_NAG = 255
RESULTS, NO_RESULT = ("1-0", "0-1", "1/2-1/2"), "*"
ROSTER = ("Event", "Site", "Date", "Round", "White", "Black", "Result")


@dataclass(slots=True)
class ReadGame:
    """A game of a PGN text.

    Attributes:
      number: in the text, from 1. headers: including the seven standard tags.
      fen: None for the start position. moves: each after its parent. comment: before the first move.
      left_out: a message for each skipped part.
    """

    number: int
    headers: dict[str, str]
    fen: str | None = None
    moves: list[StudyMove] = field(default_factory=list)
    comment: str = ""
    left_out: list[str] = field(default_factory=list)

    @property
    def is_unreadable(self) -> bool:
        """Whether it has parts, but none that could be kept."""
        return bool(self.left_out) and not self.moves


def read_games(lines: Iterable[str], name: str) -> Iterator[ReadGame]:
    """Yields the games of a text.

    Args:
      lines: with line ends, bytes decoded as Latin-1. name: of the text, for messages.
    """
    reader = GameReader(lines, variations=True, notes=True, deepest=DEEPEST)
    for number, game in enumerate(reader, start=1):
        yield _read(number, game, name)


def _read(number: int, game: PgnGame, name: str) -> ReadGame:
    headers = dict.fromkeys(ROSTER, "?") | {"Date": "????.??.??", "Result": NO_RESULT}
    headers |= {tag: as_text(value).replace("\0", "") for tag, value in game.headers.items()}
    found = ReadGame(number, headers)
    growth = _Growth(found, f"{name}, game {number}")
    if headers["Result"] not in RESULTS:
        if headers["Result"] != NO_RESULT:
            growth.tell(game.line, f"{shown(headers['Result'])} is no result")
        headers["Result"] = game.marker or NO_RESULT
    if game.error:
        growth.tell(game.error_line, game.error)
    for word in game.strays:
        growth.tell(game.line, f"passed over {shown(word)}")
    if board := _start(game, growth):
        found.fen = None if fen_of(board) == chess.STARTING_FEN else fen_of(board)
        growth.board = board
        for word, line in zip(game.moves, game.lines, strict=True):
            growth.take(word, line)
        growth.end()
    return found


def _start(game: PgnGame, growth: _Growth) -> chess.Board | None:
    """Returns the first position of a game; None if it cannot be read, so that no move is kept."""
    try:
        if variant := variant_of(game.headers):
            raise ValueError(f"it is {variant}, not chess")
        board = board_of(game.headers.get("FEN", chess.STARTING_FEN))
        check(board)
    except ValueError as error:
        growth.tell(game.line, f"no move is kept: {error}")
        return None
    return board


@dataclass(slots=True)
class _Growth:
    """Grows the moves of a game word by word."""

    game: ReadGame
    where: str
    board: chess.Board = field(default_factory=chess.Board)
    at: int = START
    before: list[tuple[int, chess.Board]] = field(default_factory=list)  # around each open variation
    places: dict[int, int] = field(default_factory=dict)  # number of moves after each move
    opens: bool = False  # whether a variation has no move yet
    opening: str = ""  # its comment so far
    cut: int = 0  # depth in a skipped part
    skipped: int = 0  # moves in it

    def tell(self, line: int, reason: str) -> None:
        """Lists a skipped part."""
        self.game.left_out.append(f"{self.where}, line {line}: {reason}")

    def take(self, word: str, line: int) -> None:
        """Adds the next word of the game."""
        if self.cut and self._skips(word):
            return
        if word == OPEN:
            self._open(line)
        elif word == CLOSE:
            self._close()
        elif word[0] == COMMENT:
            self._comment(_inner(as_text(word[1:])))
        elif word[0] == NAG and word[1:].isdecimal():
            self._glyph(int(word[1:]), line)
        else:
            self._move(word, line)

    def end(self) -> None:
        """Ends the game, and cleans its comments."""
        self._tell_skipped()
        self.game.comment = clean(self.game.comment)
        last = self.game.moves
        last[:] = [_with(move, before=clean(move.before), comment=clean(move.comment)) for move in last]

    def _skips(self, word: str) -> bool:
        """Returns whether a word is in a skipped part."""
        self.cut += (word == OPEN) - (word == CLOSE)
        self.skipped += word[0] not in (OPEN, CLOSE, COMMENT, NAG)
        if self.cut or not self.before:
            return True
        self._tell_skipped()
        return False

    def _tell_skipped(self) -> None:
        if self.skipped:
            self.game.left_out[-1] += f"; {self.skipped:,} more with it"
        self.skipped = 0

    def _open(self, line: int) -> None:
        self.before.append((self.at, self.board))
        if self.at == START or self.opens:
            self.tell(line, "a variation without a move before it")
            self.cut = 1
            return
        self.board = self.board.copy(stack=1)
        self.board.pop()
        self.at = self.game.moves[self.at - 1].parent
        self.opens, self.opening = True, ""

    def _close(self) -> None:
        self.at, self.board = self.before.pop()
        text, self.opens, self.opening = self.opening, False, ""
        if text:
            self._comment(text)  # from a variation without moves

    def _comment(self, text: str) -> None:
        if self.opens:
            self.opening = " ".join(filter(None, (self.opening, text)))
        elif self.at == START:
            self.game.comment = " ".join(filter(None, (self.game.comment, text)))
        else:
            move = self.game.moves[self.at - 1]
            joined = " ".join(filter(None, (move.comment, text)))
            self.game.moves[self.at - 1] = _with(move, comment=joined)

    def _glyph(self, number: int, line: int) -> None:
        if number > HIGHEST_NAG:
            self.tell(line, f"${number} is no glyph: they go up to ${HIGHEST_NAG}")
        elif self.opens or self.at == START:
            self.tell(line, f"${number} stands before a move, not behind one")
        else:
            move = self.game.moves[self.at - 1]
            numbers = sorted({number, *map(int, move.nags.split())})
            self.game.moves[self.at - 1] = _with(move, nags=" ".join(map(str, numbers)))

    def _move(self, word: str, line: int) -> None:
        try:
            if word in NULL_MOVES:
                raise ValueError("a null move")
            move = self.board.parse_san(word)
        except ValueError as error:
            reason = "a null move" if word in NULL_MOVES else str(error)
            self.tell(line, f"the line ends before {shown(word)}: {reason}")
            self.cut = 1
            return
        number, place = len(self.game.moves) + 1, self.places.get(self.at, 0)
        san = self.board.san(move)
        self.board.push(move)
        facts = key_text(self.board), move.uci(), san
        self.game.moves.append(StudyMove(number, self.at, place, *facts, self.opening, "", ""))
        self.places[self.at] = place + 1
        self.at, self.opens, self.opening = number, False, ""


def _inner(text: str) -> str:
    """Returns a comment without one space after its opening brace and one before its closing brace."""
    return text.removeprefix(" ").removesuffix(" ")


def _with(
    move: StudyMove, *, before: str | None = None, comment: str | None = None, nags: str | None = None
) -> StudyMove:
    """Returns a copy of a move with new texts; several times as fast as `replace`."""
    return StudyMove(
        *(move.id, move.parent, move.place, move.key, move.move, move.san),
        move.before if before is None else before,
        move.comment if comment is None else comment,
        move.nags if nags is None else nags,
    )


# ------------------------------------------------------------------ writing
def text_of(study: Study, tree: Tree) -> str:
    """Returns a study as PGN.

    Raises:
      CorruptRecordError: if one of its moves is illegal.
    """
    game = chess.pgn.Game()
    if study.fen:
        game.setup(board_of(study.fen))
    game.comment = study.comment
    nodes: dict[int, chess.pgn.GameNode] = {START: game}
    for number in tree.below(START):
        move = tree.moves[number]
        nodes[number] = nodes[move.parent].add_variation(
            chess.Move.from_uci(move.move),
            comment=move.comment,
            starting_comment=move.before,
            nags=map(int, move.nags.split()),
        )
    out = BytesIO()
    headers = _headers(study, game)
    for name, value in headers.items():
        out.write(header(name, value))
    game.headers["Result"] = headers["Result"]
    try:
        moves = game.accept(chess.pgn.StringExporter(headers=False))
    except (ValueError, AssertionError) as error:
        raise CorruptRecordError(f"the study {study.name!r} has an illegal move: {error}") from None
    return f"{out.getvalue().decode()}\n{moves}\n"


def _headers(study: Study, game: chess.pgn.Game) -> dict[str, str]:
    """Returns the tags of a study; without `SetUp`, `FEN` and `Variant`, adds those of its first position."""
    found = dict.fromkeys(ROSTER, "?") | {"Date": "????.??.??"} | study.headers
    found["Result"] = found["Result"] if found["Result"] in RESULTS else NO_RESULT
    board = {name: game.headers[name] for name in ("SetUp", "FEN", "Variant") if name in game.headers}
    return found | {name: value for name, value in board.items() if name not in found}
