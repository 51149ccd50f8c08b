"""Reads the games of a PGN file in blocks: a kernel parses regular games, `GameReader` the others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..base import limits
from ..position.pgn_text import DEEPEST, GameReader, PgnGame
from . import movetext_layout as layout
from .movetext_kernel import read_games
from .sources import Input

WINDOW = 1 << 18  # bytes of text per read
LARGEST = 1 << 22  # the kernel parses no game of more bytes
GAMES_AT_ONCE = 500
RESULT_TEXTS = ("1-0", "1/2-1/2", "0-1", "*")  # by result, and by the first columns of a count
_LINE = re.compile(
    rb"[^\r\n]*(?:\r\n|\n|\r(?=.))", re.DOTALL
)  # a carriage return at the end of the window may precede a newline, so it ends no line yet


@dataclass(frozen=True, slots=True)
class GameBlock:
    """Consecutive games of a file.

    Attributes:
      text: the bytes. base: their offset in the file.
      games: `[G, GAME_FIELDS]`, offsets in `text`. words: `[W, WORD_FIELDS]`, their moves.
    """

    text: bytes
    base: int
    games: NDArray[np.int64]
    words: NDArray[np.int64]

    def game(self, row: Sequence[int]) -> PgnGame:
        """Returns a game without its moves, from its row of `games`; it has only the headers of NAMES."""
        headers = {
            name: self.text[begin : begin + row[layout.HEADERS + 2 * i + 1]].decode("latin-1")
            for i, name in enumerate(layout.NAMES)
            if (begin := row[layout.HEADERS + 2 * i]) >= 0
        }
        place, size = self.base + row[layout.PLACE], row[layout.END] - row[layout.PLACE]
        return PgnGame(
            row[layout.FIRST_LINE], headers, marker=RESULT_TEXTS[row[layout.RESULT]], place=place, size=size
        )

    def add_moves(self, game: PgnGame, row: Sequence[int]) -> PgnGame:
        """Returns the game with its moves."""
        for word in self.words[row[layout.FIRST] : row[layout.FIRST] + row[layout.MOVES]].tolist():
            game.moves.append(
                self.text[word[layout.BEGIN] : word[layout.BEGIN] + word[layout.SIZE]].decode("latin-1")
            )
            game.lines.append(word[layout.WORD_LINE])
        return game


class BlockReader:
    """Yields the games of a PGN file in order: regular ones in blocks, others one by one.

    Args:
      most: maximum games per block.

    Attributes:
      strays: words outside the games.
    """

    def __init__(self, given: Input, *, most: int = GAMES_AT_ONCE) -> None:
        self.strays: list[str] = []
        self._given = given
        self._pieces = given.text_pieces(WINDOW)
        self._text, self._bytes = b"", np.zeros(8, np.uint8)  # the window; `_bytes`: with 8 zeros at the end
        self._base = 0  # offset of the window in the file
        self._at = 0  # offset in the window of the next game
        self._line = 1  # line number there
        self._ended = False
        self._most = min(most, GAMES_AT_ONCE)
        self._limits = np.zeros(layout.LIMITS, np.int64)
        self._limits[:] = (
            *(limits.GAME.most, limits.HEADERS.most, limits.GAME_MOVES.most, limits.LINE.most),
            DEEPEST,
        )

    def __iter__(self) -> Iterator[GameBlock | PgnGame]:
        with self._given.readable():
            yield from self._games()

    def _games(self) -> Iterator[GameBlock | PgnGame]:
        while True:
            block, status = self._read_block()
            self._given.pass_to(self._base + self._at)
            if len(block.games):
                yield block
            if status == layout.MORE and not self._ended and len(self._text) - self._at < LARGEST:
                self._fill()
            elif status != layout.ENDED:
                yield from self._read_odd()
                if self._ended and self._at == len(self._text):
                    return

    def _read_block(self) -> tuple[GameBlock, int]:
        size = len(self._text)
        games = np.empty((self._most, layout.GAME_FIELDS), np.int64)
        words = np.empty((size // 3 + 1, layout.WORD_FIELDS), np.int64)
        cursor = np.zeros(layout.CURSOR, np.int64)
        cursor[layout.AT], cursor[layout.LINE] = self._at, self._line
        read_games(self._bytes, size, self._limits, games.reshape(-1), words.reshape(-1), cursor)
        self._at, self._line = int(cursor[layout.AT]), int(cursor[layout.LINE])
        block = GameBlock(
            self._text, self._base, games[: cursor[layout.GAMES]], words[: cursor[layout.WORDS]]
        )
        return block, int(cursor[layout.STATUS])

    def _fill(self) -> None:
        """Appends the next piece of the file to the unparsed text."""
        piece = next(self._pieces, b"")
        self._ended = not piece
        self._base += self._at
        self._text, self._at = self._text[self._at :] + piece, 0
        self._bytes = np.frombuffer(bytearray(self._text + bytes(8)), np.uint8)

    def _read_odd(self) -> Iterator[PgnGame]:
        """Yields the next game, and any games that `GameReader` cannot separate from it."""
        reader = GameReader((), first_line=self._line, place=self._base + self._at)
        while line := self._next_line():
            found = reader.read_line(line)
            self._given.pass_to(self._base + self._at)
            yield from found
            if found and reader.is_between_games:
                break
        else:
            yield from reader.finish()
        self.strays += reader.strays[: limits.GAME_MOVES.most - len(self.strays)]

    def _next_line(self) -> str:
        """Returns the next line with its end, as Latin-1; empty at the end of the file.

        Raises:
          InputFileError: if it is too long.
        """
        most = limits.LINE.most
        while True:
            found = _LINE.match(self._text, self._at)
            end = found.end() if found else len(self._text)
            if end - self._at > most:
                raise limits.long_line(self._given.name, self._line)
            if found or self._ended:
                break
            self._fill()
        line = self._text[self._at : end].decode("latin-1")
        self._line += bool(line)
        self._at = end
        return line
