"""Reads the games of a PGN file: kernels replay regular games in blocks, `chess.pgn` reads all others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import chess
import chess.pgn
import numpy as np
from numpy.typing import NDArray

from ..base import limits
from ..position.board import POSITION_WORDS, board_of, check, encode_move, key_of_words, pack, pack_checked
from ..position.pgn import GameCutter, GameText, ReadGame, own_moves, variant_of
from ..query.steps import legal_codes
from ..store.codec.bulk import board_tables
from . import movetext_kernel as kernel
from .sources import Input

WINDOW = 1 << 18  # bytes of text per read
GAMES_AT_ONCE = 500
RESULT_TEXTS = ("1-0", "1/2-1/2", "0-1", "*")  # by the first columns of a count
NO_PLY = 1 << 40  # replays all moves
MAX_STARTS = 1000  # cached first positions

_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r(?=.))", re.DOTALL)  # `\r` at the end of a window may precede `\n`
_BLANK_LINES = re.compile(rb"(?>[ \t]*\r?\n)*")
# a regular game: one tag to a line, blank lines, and lines of moves up to a blank line. Atomic
# groups keep the time linear
_REGULAR = re.compile(
    rb'(?>(?:\[(?>[A-Za-z0-9][\w+#=:-]*) "[^"\\\r\n]*"\]\r?\n)+)(?>\r?\n)+'
    rb"((?>(?:(?:[^\s\[%]|\[%)[^\n]*\n)+))(?=\r?\n)"
)
_COMMENT = re.compile(rb"\{[^}]*\}|;[^\n]*\n")
_VARIATION = re.compile(rb"\([^()]*\)")
_ODD_VARIATION = re.compile(rb"\([\x00-9]*\(|\A[^A-Za-z(]*\(")  # at the start of the game or of another one
MOST_NESTED = 20  # variations in one another, of a regular game
# words of a main line up to its result: each may have a move number, a move and glyphs
_MAIN_LINE = re.compile(
    rb"([ \t\n]*(?>(?:(?:[1-9]\d*(?=[.\s]))?\.*"
    rb"(?:(?:O-O(?:-O)?|0-0(?:-0)?|[NBRQK]?[a-h]?[1-8]?[x-]?[a-h][1-8](?:=?[NBRQKnbrqk])?)(?:e\.?p\.?)?)?"
    rb"[+#]*(?:[!?]|\$\d+)*[ \t\n]+)*))(1-0|0-1|1/2-1/2|\*)[ \t\n]*"
)
_TAG = re.compile(r'\[([^ ]+) "([^"]*)')


class Facts(NamedTuple):
    """A game without its moves: its tags, the result behind its moves, and its place and size in the file."""

    headers: dict[str, str]
    result: str
    place: int
    size: int


Words = NDArray[np.uint64]


def main_line(movetext: bytes) -> tuple[bytes, str] | None:
    """Returns the words of a game's main line and its result; None if kernels cannot read them.

    >>> main_line(b"1. e4 {a comment} (1. d4 d5) e5 $1 1-0\\n")
    (b'1. e4     e5 $1 ', '1-0')
    >>> main_line(b"1. e4 resigns *") is None
    True
    """
    text = movetext.replace(b"\r\n", b"\n")
    text = _COMMENT.sub(b" ", text)
    if b"(" in text and _ODD_VARIATION.search(text):
        return None
    for _ in range(MOST_NESTED):
        if b"(" not in text:
            break
        text = _VARIATION.sub(b" ", text)
    found = _MAIN_LINE.fullmatch(text)
    return (found[1], found[2].decode()) if found and b"\r" not in movetext.replace(b"\r\n", b"") else None


@dataclass(frozen=True, slots=True)
class PlayedBlock:
    """Replayed games, in concatenated arrays.

    Attributes:
      games: their facts.
      firsts, counts: `[G]`: index of each game's first position in the arrays, and number of its moves.
      plies: `[G]`: half-moves before each game's first position, by its move number.
      positions: `[P, 10]`, before every move and at the end of each game. keys: `[P]`.
      codes, numbers: `[P]`: the move from each position, and its number in canonical order; 0 at the end of
        a game.
    """

    games: Sequence[Facts]
    firsts: NDArray[np.int64]
    counts: NDArray[np.int64]
    plies: NDArray[np.int64]
    positions: Words
    keys: NDArray[np.uint64]
    codes: NDArray[np.uint16]
    numbers: NDArray[np.uint8]

    def part(self, first: int, end: int) -> PlayedBlock:
        """Returns some of the games; the position arrays are shared."""
        at = slice(first, end)
        games = self.games[at], self.firsts[at], self.counts[at], self.plies[at]
        return PlayedBlock(*games, self.positions, self.keys, self.codes, self.numbers)

    def moves(self, game: int) -> bytes:
        """Returns the canonical numbers of a game's moves, one byte each."""
        first = int(self.firsts[game])
        return self.numbers[first : first + int(self.counts[game])].tobytes()


# ------------------------------------------------------------------ regular games
@dataclass(slots=True)
class _Window:
    """The regular games at the beginning of a text, replayed as far as they are.

    Attributes:
      begins, ends: their offsets. counts: number of moves, ODD for a game that is odd.
    """

    begins: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    played: PlayedBlock | None = None


class BlockReader:
    """Yields the games of a PGN file in order: regular ones in blocks, others as text.

    Args:
      most: maximum games per block. max_ply: replay moves from positions below this ply only; None: all.
      regular: whether kernels replay regular games; if not, all are yielded as text.

    Attributes:
      words: number of words outside the games.
    """

    def __init__(
        self, given: Input, *, most: int = GAMES_AT_ONCE, max_ply: int | None = None, regular: bool = True
    ) -> None:
        self.words = 0
        self._given = given
        self._pieces = given.text_pieces(WINDOW)
        self._text = b""  # the window
        self._base = 0  # offset of the window in the file
        self._at = 0  # offset in the window of the next game
        self._line = 1  # line number there
        self._ended = False
        self._most, self._max_ply, self._regular = min(most, GAMES_AT_ONCE), max_ply, regular
        self._starts: dict[str, int | None] = {}
        self._packed: list[Words] = []
        self._plies: list[int] = []

    def __iter__(self) -> Iterator[PlayedBlock | GameText]:
        with self._given.readable():
            yield from self._games()

    def _games(self) -> Iterator[PlayedBlock | GameText]:
        while True:
            while len(self._text) - self._at < WINDOW and not self._ended:
                self._fill()
            if self._at == len(self._text):
                return
            self._go_to(_end(_BLANK_LINES, self._text, self._at))
            window = self._window() if self._regular else _Window()
            if window.begins:
                yield from self._in_window(window)
            else:
                yield from self._odd()

    def _in_window(self, window: _Window) -> Iterator[PlayedBlock | GameText]:
        """Yields the games of a window, up to an odd one that does not end where the next one begins."""
        base, begins, first = self._base, window.begins, 0
        while first < len(begins):
            end = first
            while end < len(begins) and window.counts[end] != kernel.ODD:
                end += 1
            if end > first and window.played:
                self._go_to(base + window.ends[end - 1] - self._base)
                before = sum(count != kernel.ODD for count in window.counts[:first])
                yield window.played.part(before, before + end - first)
            first = end + 1
            if end < len(begins):
                self._go_to(base + begins[end] - self._base)
                yield from self._odd()
                self._go_to(_end(_BLANK_LINES, self._text, self._at))
                if first < len(begins) and self._base + self._at != base + begins[first]:
                    return

    def _go_to(self, at: int) -> None:
        """Sets the place of the next game."""
        self._line += self._text.count(b"\n", self._at, at)
        self._at = at
        self._given.pass_to(self._base + at)

    def _window(self) -> _Window:
        """Returns the regular games from the current place on."""
        window, rows, facts, plies = _Window(), list[tuple[int, ...]](), list[Facts](), list[int]()
        text, at = bytearray(), self._at
        if len(self._starts) >= MAX_STARTS:
            self._starts.clear()
            self._packed.clear()
            self._plies.clear()
        while len(window.begins) < self._most:
            found = _REGULAR.match(self._text, at)
            if found is None:
                break
            begin, middle, end = at, found.start(1), found.end(1)
            tags = _TAG.findall(limits.decoded(self._text[begin:middle]))
            headers = dict(tags)
            start = self._start(headers) if len(headers) == len(tags) else None
            window.begins.append(begin)
            window.ends.append(end)
            ply = 0 if start is None else self._plies[start]
            most = NO_PLY if self._max_ply is None else max(0, self._max_ply - ply)
            found_line = None if start is None else main_line(self._text[middle:end])
            line, result = found_line or (b"", "")
            rows.append((start or 0, len(text), len(text) + len(line), most if found_line else kernel.ODD))
            text += line + b"\n"
            facts.append(Facts(headers, result, self._base + begin, end - begin))
            plies.append(ply)
            at = _end(_BLANK_LINES, self._text, end)
        if rows:
            self._replay(window, bytes(text), np.array(rows, np.int64), facts, plies)
        return window

    def _replay(
        self, window: _Window, words: bytes, rows: NDArray[np.int64], facts: list[Facts], plies: list[int]
    ) -> None:
        text, room = np.frombuffer(words + bytes(8), np.uint8), len(words) // 2 + 2 * len(rows)
        starts = np.array(self._packed or [pack(chess.Board())], np.uint64)
        found = np.empty((len(rows), kernel.OUTPUTS), np.int64)
        positions, keys = np.empty((room, POSITION_WORDS), np.uint64), np.empty(room, np.uint64)
        codes, numbers = np.empty(room, np.uint16), np.empty(room, np.uint8)
        flat = starts.reshape(-1), rows.reshape(-1), found.reshape(-1), positions.reshape(-1)
        kernel.replay_games(board_tables(), text, *flat, keys, codes, numbers)
        window.counts = found[:, kernel.COUNT].tolist()
        regular = found[:, kernel.COUNT] != kernel.ODD
        at = np.flatnonzero(regular)
        window.played = PlayedBlock(
            [facts[i] for i in at.tolist()],
            found[at, kernel.FIRST],
            found[at, kernel.COUNT],
            np.array(plies, np.int64)[at],
            *(positions, keys, codes, numbers),
        )

    def _start(self, headers: dict[str, str]) -> int | None:
        """Returns the index of a game's first position; None if the game must be read by `chess.pgn`."""
        fen = headers.get("FEN", "")
        if (not fen and headers.get("SetUp") == "1") or ("Variant" in headers and variant_of(headers)):
            return None
        if fen not in self._starts:
            self._starts[fen] = None
            with suppress(ValueError):
                board = board_of(fen or chess.STARTING_FEN)
                check(board)
                if not board.chess960:
                    self._starts[fen] = len(self._packed)
                    self._packed.append(pack_checked(board))
                    self._plies.append(board.ply())
        return self._starts[fen]

    # -------------------------------------------------------------- other games
    def _odd(self) -> Iterator[GameText]:
        """Yields the next game as text, and games that end in the middle of its lines."""
        cutter = GameCutter(self._line, self._base + self._at)
        while True:
            at, line_number = self._at, self._line
            data = self._next_line()
            line = limits.decoded(data)
            if not data or cutter.ends_before(line):
                self._at = self._at - len(data) if data else at
                self._line = line_number
                break
            for game in cutter.add(line, len(data)):
                yield from self._kept(game)
        last = cutter.end()
        if last:
            yield from self._kept(last)
        self._given.pass_to(self._base + self._at)

    def _kept(self, game: GameText) -> Iterator[GameText]:
        if game.is_nothing:
            self.words += game.words
        else:
            yield game

    def _next_line(self) -> bytes:
        """Returns the next line with its end; empty at the end of the file.

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
        line = self._text[self._at : end]
        self._line += bool(line)
        self._at = end
        return line

    def _fill(self) -> None:
        """Appends the next piece of the file to the unparsed text."""
        piece = next(self._pieces, b"")
        self._ended = not piece
        self._base += self._at
        self._text, self._at = self._text[self._at :] + piece, 0


def _end(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    """Returns the end of a match of a pattern that also matches nothing."""
    found = pattern.match(text, at)
    return found.end() if found else at


# ------------------------------------------------------------------ games of chess.pgn
def played_game(game: ReadGame, max_ply: int | None) -> PlayedBlock:
    """Returns the mainline of a game as a block; max_ply: as in `BlockReader`."""
    start = game.start or chess.Board()
    most = None if max_ply is None else max(0, max_ply - start.ply())
    facts = Facts(game.headers, game.result, game.text.place, game.text.size)
    return _played([(start, game.moves[:most])], [facts])


def played_variations(game: ReadGame, max_ply: int | None) -> PlayedBlock:
    """Returns the moves of a game's variations as games of one move: each counts each time it occurs."""
    lines = list[tuple[chess.Board, list[chess.Move]]]()
    board = (game.start or chess.Board()).copy()
    waiting: list[tuple[chess.pgn.GameNode, bool]] = [(game.tree, False)]
    stack: list[chess.pgn.GameNode] = []
    for node, in_variation in _walk(waiting):
        while stack and stack[-1] is not node.parent:
            stack.pop()
            board.pop()
        [move] = own_moves(board, [node.move])
        if in_variation and (max_ply is None or board.ply() < max_ply):
            lines.append((board.copy(stack=False), [move]))
        board.push(move)
        stack.append(node)
    return _played(lines, [Facts({}, "", 0, 0)] * len(lines))


def _walk(
    waiting: list[tuple[chess.pgn.GameNode, bool]],
) -> Iterator[tuple[chess.pgn.ChildNode, bool]]:
    """Yields the nodes below a node, each after its parent, and whether it is in a variation."""
    while waiting:
        node, in_variation = waiting.pop()
        if isinstance(node, chess.pgn.ChildNode):
            yield node, in_variation
        waiting += [
            (child, in_variation or i > 0)
            for i, child in reversed(list(enumerate(node.variations)))
            if child.move
        ]


def _played(lines: Sequence[tuple[chess.Board, list[chess.Move]]], facts: Sequence[Facts]) -> PlayedBlock:
    words, codes, counts, plies = list[Words](), list[int](), list[int](), list[int]()
    for start, moves in lines:
        board = start.copy(stack=False)
        counts.append(len(moves))
        plies.append(start.ply())
        words.append(pack(board))
        for move in moves:
            codes.append(encode_move(move))
            board.push(move)
            words.append(pack_checked(board))
        codes.append(0)
    positions = np.array(words, np.uint64).reshape(-1, POSITION_WORDS)
    moved = np.array(codes, np.uint16)
    numbers = np.zeros(len(moved), np.uint8)
    if len(moved):
        numbers = np.argmax(legal_codes(positions)[1] == moved[:, None], axis=1).astype(np.uint8)
    sizes = np.array(counts, np.int64)
    keys = np.array([key_of_words(row) for row in positions], np.uint64)
    return PlayedBlock(
        facts,
        np.cumsum(sizes + 1) - sizes - 1,
        sizes,
        np.array(plies, np.int64),
        positions,
        keys,
        moved,
        numbers,
    )
