"""Reads the games of a PGN file in blocks, and replays them: kernels regular games, others the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..base import limits
from ..position.board import POSITION_WORDS, pack_checked
from ..position.pgn_text import DEEPEST, GameReader, PgnGame
from ..store.codec.bulk import board_tables
from . import movetext_layout as layout
from .movetext_kernel import read_games
from .playing import MAX_STARTS, BrokenGameError, VariantError, start_board, start_fen
from .san_kernel import play_games
from .sources import Input

WINDOW = 1 << 18  # bytes of text per read
LARGEST = 1 << 22  # the kernel parses no game of more bytes
GAMES_AT_ONCE = 500
RESULT_TEXTS = ("1-0", "1/2-1/2", "0-1", "*")  # by result, and by the first columns of a count
# a carriage return at the end of the window may precede a newline, so it ends no line yet
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r(?=.))", re.DOTALL)


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


# ------------------------------------------------------------------ replaying
Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class PlayedBlock:
    """Replayed games of a block, in concatenated arrays.

    Attributes:
      places: index of each game in the block. games: their headers.
      firsts, counts: `[G]`: index of each game's first position in the arrays, and number of its moves.
      plies: `[G]`: half-moves before each game's first position, by its move number.
      positions: `[P, 10]`, before every move and at the end of each game. keys: `[P]`.
      codes, numbers: `[P]`: the move from each position, and its number in canonical order; 0 at the end of
        a game.
    """

    places: Sequence[int]
    games: Sequence[PgnGame]
    firsts: NDArray[np.int64]
    counts: NDArray[np.int64]
    plies: NDArray[np.int64]
    positions: Words
    keys: NDArray[np.uint64]
    codes: NDArray[np.uint16]
    numbers: NDArray[np.uint8]

    def part(self, games: Sequence[int]) -> PlayedBlock:
        """Returns some of the games, by index; the position arrays are shared."""
        if len(games) == len(self.games):
            return self
        at = np.array(games, np.int64)
        return replace(
            self,
            places=[self.places[i] for i in games],
            games=[self.games[i] for i in games],
            firsts=self.firsts[at],
            counts=self.counts[at],
            plies=self.plies[at],
        )

    def moves(self, game: int) -> bytes:
        """Returns the canonical numbers of a game's moves, one byte each."""
        first = int(self.firsts[game])
        return self.numbers[first : first + int(self.counts[game])].tobytes()


class BlockPlayer:
    """Replays the games of blocks.

    Args:
      max_ply: skip moves from positions of this ply on; None: skip none.
    """

    def __init__(self, max_ply: int | None = None) -> None:
        self._max_ply = max_ply
        self._starts: dict[str, tuple[Words, int] | None] = {}

    def play(self, block: GameBlock, least: int) -> tuple[PlayedBlock, list[int]]:
        """Returns the replayed games of a block, and the indices of the games that `Player` must replay.

        Args:
          least: number of games to skip at the beginning of the block.
        """
        rows = block.games.tolist()
        games = [block.game(row) for row in rows[least:]]
        found = [(least + i, game, start) for i, game in enumerate(games) if (start := self._start_of(game))]
        places = [place for place, _, _ in found]
        others = sorted(set(range(least, len(rows))) - set(places))
        counts = np.array([rows[place][layout.MOVES] for place in places], np.int64)
        plies = np.array([start[1] for _, _, start in found], np.int64)
        if self._max_ply is not None:
            counts = np.minimum(counts, np.maximum(0, self._max_ply - plies))
        firsts = np.cumsum(counts + 1) - counts - 1
        size = int(np.sum(counts + 1))
        positions = np.zeros((size, POSITION_WORDS), np.uint64)
        if found:
            positions[firsts] = np.array([start[0] for _, _, start in found], np.uint64)
        keys, codes, numbers = np.zeros(size, np.uint64), np.zeros(size, np.uint16), np.zeros(size, np.uint8)
        played = np.zeros(len(found), np.int64)
        words = np.array([rows[place][layout.FIRST] for place in places], np.int64)
        flat = (block.words.reshape(-1), words, counts, positions.reshape(-1))
        play_games(board_tables(), *flat, keys, codes, numbers, played)
        fitting = played == counts
        others = sorted([*others, *(place for place, fits in zip(places, fitting, strict=True) if not fits)])
        headers = [game for _, game, _ in found]
        whole = PlayedBlock(places, headers, firsts, counts, plies, positions, keys, codes, numbers)
        return whole.part(np.flatnonzero(fitting).tolist()), others

    def _start_of(self, game: PgnGame) -> tuple[Words, int] | None:
        """Returns the first position of a game and its ply; None if `Player` must replay the game."""
        try:
            fen = start_fen(game)
        except (BrokenGameError, VariantError):
            return None
        if fen not in self._starts:
            if len(self._starts) >= MAX_STARTS:
                self._starts.clear()
            self._starts[fen] = None
            with suppress(BrokenGameError):
                board = start_board(game, fen)
                self._starts[fen] = None if board.chess960 else (pack_checked(board), board.ply())
        return self._starts[fen]
