"""Imports games of PGN files into a graph file: counts and results by position and move."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

import chess
import chess.pgn
import numpy as np
from numpy.typing import NDArray

from ..base import limits
from ..base.errors import ImportFileError, InvalidParameterError
from ..position.board import (
    POSITION_WORDS,
    board_of,
    check,
    encode_move,
    fen_of,
    key_of_words,
    pack,
    pack_checked,
)
from ..position.fens import castling_of, fens, key_texts
from ..position.openings import DEEPEST, opening_names, opening_places
from ..position.pgn import GameCutter, GameText, ReadGame, own_moves, read_game, shown, variant_of
from ..position.words import KEY
from ..query.game_list import key_parts
from ..query.replay import start_of
from ..query.steps import legal_codes, names_of, uci_names
from ..store.record import board_tables
from ..store.store import Store
from ..store.tables import games as tables
from ..store.tables.games import GameRow, IndexRow, MoveRow, PositionRow
from ..store.tables.rows import MAX_GAME_MOVES
from . import movetext_kernel as kernel
from .importing import (
    FileReport,
    GivenFile,
    Importing,
    Input,
    OnProgress,
    Problem,
    import_files,
)
from .kept_games import TextKeeper

# ------------------------------------------------------------------ reading games in blocks
WINDOW = 1 << 18  # bytes of text per read
GAMES_IN_BLOCK = 500
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
      sizes: `[G]`: number of positions of each game, one more than its moves; 0 for one that is not replayed.
      plies: `[G]`: half-moves before each game's first position, by its move number.
      positions: `[P, 10]`, before every move and at the end of each game. keys: `[P]`.
      codes, numbers: `[P]`: the move from each position, and its number in canonical order; 0 at the end of
        a game.
    """

    games: Sequence[Facts]
    sizes: NDArray[np.int64]
    plies: NDArray[np.int64]
    positions: Words
    keys: NDArray[np.uint64]
    codes: NDArray[np.uint16]
    numbers: NDArray[np.uint8]

    def part(self, first: int, end: int) -> PlayedBlock:
        """Returns some of the games."""
        rows = slice(int(self.sizes[:first].sum()), int(self.sizes[:end].sum()))
        columns = (self.positions[rows], self.keys[rows], self.codes[rows], self.numbers[rows])
        return PlayedBlock(self.games[first:end], self.sizes[first:end], self.plies[first:end], *columns)

    def moves(self, game: int) -> bytes:
        """Returns the canonical numbers of a game's moves, one byte each."""
        end = int(self.sizes[: game + 1].sum())
        return self.numbers[end - int(self.sizes[game]) : end - 1].tobytes()


# ------------------------------------------------------------------ regular games
class _Regular(NamedTuple):
    """A game for the kernel: the number of its first line, its text and facts, and its main line.

    `start`, `ply`: its first position, packed, and half-moves before it.
    """

    line: int
    text: bytes
    facts: Facts
    start: Words
    ply: int
    words: bytes


@lru_cache(maxsize=MAX_STARTS)
def _first_position(fen: str) -> tuple[Words, int] | None:
    """Returns the packed first position of a game and its ply; None if kernels cannot replay the game."""
    with suppress(ValueError):
        board = board_of(fen or chess.STARTING_FEN)
        check(board)
        return None if board.chess960 else (pack_checked(board), board.ply())
    return None


class BlockReader:
    """Yields the games of a PGN file in order: regular ones in blocks, others as text.

    Args:
      max_ply: replay moves from positions below this ply only; None: all.
      regular: whether kernels replay regular games; if not, all are yielded as text.
      keep: called with the place and the bytes of every piece of the file.

    Attributes:
      words: number of words outside the games.
    """

    def __init__(
        self,
        given: Input,
        *,
        max_ply: int | None = None,
        regular: bool = True,
        keep: Callable[[int, bytes], None] | None = None,
    ) -> None:
        self.words = 0
        self._given = given
        self._pieces = given.text_pieces(WINDOW)
        self._text = b""  # the window
        self._base = 0  # offset of the window in the file
        self._at = 0  # offset in the window of the next game
        self._line = 1  # line number there
        self._ended = False
        self._max_ply, self._regular, self._keep = max_ply, regular, keep
        self._waiting: list[_Regular] = []

    def __iter__(self) -> Iterator[PlayedBlock | GameText]:
        with self._given.readable():
            while self._has_more():
                game = self._regular_game() if self._regular else None
                self._waiting += [game] if game else []
                if game is None or len(self._waiting) == min(GAMES_IN_BLOCK, GAMES_AT_ONCE):
                    yield from self._replayed()
                if game is None:
                    yield from self._odd()
            yield from self._replayed()

    def _has_more(self) -> bool:
        """Passes blank lines, and returns whether a game may follow; reads a whole window if there is one."""
        while True:
            while len(self._text) - self._at < WINDOW and not self._ended:
                self._fill()
            self._go_to(_BLANK_LINES.match(self._text, self._at).end())  # type: ignore[union-attr]
            if self._at < len(self._text) or self._ended:
                return self._at < len(self._text)

    def _go_to(self, at: int) -> None:
        """Sets the place of the next game."""
        self._line += self._text.count(b"\n", self._at, at)
        self._at = at
        self._given.pass_to(self._base + at)

    def _regular_game(self) -> _Regular | None:
        """Returns the next game if kernels may replay it, and passes it."""
        found = _REGULAR.match(self._text, self._at)
        if found is None:
            return None
        begin, middle, end, line = self._at, found.start(1), found.end(1), self._line
        tags = _TAG.findall(limits.decoded(self._text[begin:middle]))
        headers = dict(tags)
        fen = headers.get("FEN", "")
        is_other = (not fen and headers.get("SetUp") == "1") or ("Variant" in headers and variant_of(headers))
        start = None if is_other or len(headers) < len(tags) else _first_position(fen)
        read = main_line(self._text[middle:end]) if start else None
        if start is None or read is None:
            return None
        words, result = read
        facts = Facts(headers, result, self._base + begin, end - begin)
        self._go_to(end)
        return _Regular(line, found[0], facts, *start, words)

    def _replayed(self) -> Iterator[PlayedBlock | GameText]:
        """Yields the waiting games: replayed, or as text if the kernel does not find a move."""
        games, self._waiting = self._waiting, []
        block = _replay(games, self._max_ply)
        for is_odd, run in groupby(range(len(games)), key=lambda i: block.sizes[i] == 0):
            first, *others = run
            if not is_odd:
                yield block.part(first, first + len(others) + 1)
            for game in games[first : first + len(others) + 1] if is_odd else ():
                cutter = GameCutter(game.line, game.facts.place)
                for data in _LINE.findall(game.text):
                    yield from self._kept(*cutter.add(limits.decoded(data), len(data)))
                yield from self._kept(cutter.end())

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
            yield from self._kept(*cutter.add(line, len(data)))
        yield from self._kept(cutter.end())
        self._given.pass_to(self._base + self._at)

    def _kept(self, *games: GameText | None) -> Iterator[GameText]:
        for game in games:
            if game and game.is_nothing:
                self.words += game.words
            elif game:
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
        if self._keep:
            self._keep(self._base + len(self._text), piece)
        self._base += self._at
        self._text, self._at = self._text[self._at :] + piece, 0


def _replay(games: Sequence[_Regular], max_ply: int | None) -> PlayedBlock:
    """Returns replayed games, without positions of those that the kernel cannot replay."""
    ends = np.cumsum([len(game.words) + 1 for game in games], dtype=np.int64)
    text = np.frombuffer(b"\n".join([*(game.words for game in games), bytes(8)]), np.uint8)
    plies = np.array([game.ply for game in games], np.int64)
    most = np.full(len(games), NO_PLY) if max_ply is None else np.maximum(0, max_ply - plies)
    begins = ends - np.array([len(game.words) + 1 for game in games], np.int64)
    rows = np.stack([begins, ends - 1, most], axis=1).reshape(-1)
    starts = np.array([game.start for game in games], np.uint64).reshape(-1)
    room = len(text) // 2 + 2 * len(games)
    sizes = np.empty(len(games), np.int64)
    positions, keys = np.empty((room, POSITION_WORDS), np.uint64), np.empty(room, np.uint64)
    codes, numbers = np.empty(room, np.uint16), np.empty(room, np.uint8)
    if games:
        flat = positions.reshape(-1)
        kernel.replay_games(board_tables(), text, starts, rows, sizes, flat, keys, codes, numbers)
    block = PlayedBlock([game.facts for game in games], sizes, plies, positions, keys, codes, numbers)
    return block.part(0, len(games))  # without the room at the end


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
    waiting: list[tuple[chess.pgn.GameNode, chess.Board, bool]] = [
        (game.tree, game.start or chess.Board(), False)
    ]
    while waiting:
        node, board, in_variation = waiting.pop()
        for i, child in enumerate(node.variations):
            if child.move:
                [move] = own_moves(board, [child.move])
                is_counted = (in_variation or i > 0) and (max_ply is None or board.ply() < max_ply)
                lines += [(board, [move])] if is_counted else []
                after = board.copy(stack=False)
                after.push(move)
                waiting.append((child, after, in_variation or i > 0))
    return _played(lines, [Facts({}, "", 0, 0)] * len(lines))


def _played(lines: Sequence[tuple[chess.Board, list[chess.Move]]], facts: Sequence[Facts]) -> PlayedBlock:
    words, codes = list[Words](), list[int]()
    for start, moves in lines:
        board = start.copy(stack=False)
        words.append(pack(board))
        for move in moves:
            codes.append(encode_move(move))
            board.push(move)
            words.append(pack_checked(board))
        codes.append(0)
    positions = np.array(words, np.uint64).reshape(-1, POSITION_WORDS)
    keys = np.array([key_of_words(row) for row in positions], np.uint64)
    moved = np.array(codes, np.uint16)
    numbers = np.argmax(legal_codes(positions)[1] == moved[:, None], axis=1).astype(np.uint8)
    sizes = np.array([len(moves) + 1 for _, moves in lines], np.int64)
    plies = np.array([start.ply() for start, _ in lines], np.int64)
    return PlayedBlock(facts, sizes, plies, positions, keys, moved, numbers)


# ------------------------------------------------------------------ counts of a transaction
# limits of one transaction; it is full when it reaches any of them
GAMES_AT_ONCE = 5000
ROWS_AT_ONCE = 400_000  # positions: some 50 MB

WHITE, DRAWS, BLACK, UNKNOWN, VARIATIONS, COLUMNS = range(6)  # columns of a count


class Tally:
    """Counts of the games of one transaction."""

    def __init__(self) -> None:
        self._blocks: list[PlayedBlock] = []
        self._results: list[int] = []
        self._games = self._rows = 0

    @property
    def is_full(self) -> bool:
        """Whether a limit is reached, so that the caller must write the counts."""
        return self._games >= GAMES_AT_ONCE or self._rows >= ROWS_AT_ONCE

    def add(self, block: PlayedBlock, results: Sequence[int]) -> None:
        """Counts games, each (position, move) of a game once; results: each game's column."""
        if block.games:
            self._blocks.append(block)
            self._results += results
            self._rows += len(block.keys)
            self._games += sum(result != VARIATIONS for result in results)

    def write(self, store: Store) -> None:
        """Adds the counts to the tables of the file, sorted by key."""
        if self._blocks:
            tables.add_games(store, *_table_rows(self._blocks, np.array(self._results, np.int64)))


def _table_rows(
    blocks: Sequence[PlayedBlock], results: NDArray[np.int64]
) -> tuple[Iterator[PositionRow], Iterator[MoveRow]]:
    """Returns the rows of positions and of moves, both sorted by key.

    The FEN of a position comes from its first occurrence with the fewest half-moves.

    Args:
      results: the column of each game.
    """
    sizes, begins, positions, keys, codes = (
        np.concatenate([getattr(block, name) for block in blocks])
        for name in ("sizes", "plies", "positions", "keys", "codes")
    )
    games = np.repeat(np.arange(len(sizes)), sizes)
    step = np.arange(len(keys)) - (np.cumsum(sizes) - sizes)[games]
    plies, castling = begins[games] + step, castling_of(positions)
    order = np.lexsort((plies, castling, keys))
    sorted_keys, castling = keys[order], castling[order]
    first = np.concatenate(([True], (sorted_keys[1:] != sorted_keys[:-1]) | (castling[1:] != castling[:-1])))
    of = np.empty(len(keys), np.int64)
    of[order] = np.cumsum(first) - 1
    words, plies = positions[order[first]], plies[order[first]]
    texts = key_texts(words)
    moved = np.flatnonzero(step < sizes[games] - 1)
    places, of_moves, counts = _count_moves(of[moved], codes[moved], games[moved], results[games[moved]])
    uci, (sans, _) = uci_names(), names_of(words, places, of_moves)
    moves = zip(
        [texts[place] for place in places.tolist()],
        [uci[code] for code in of_moves.tolist()],
        sans.astype(str).tolist(),
        *counts.T.tolist(),
        strict=True,
    )
    return zip(texts, fens(words, plies.tolist()), plies.tolist(), strict=True), moves


def _count_moves(
    of: NDArray[np.int64], codes: NDArray[np.uint16], games: NDArray[np.int64], results: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint16], NDArray[np.int64]]:
    """Returns the distinct moves: position and code, `[M]` each, and games by column, `[M, COLUMNS]`.

    A game counts once for a move that it repeats. The arguments are those of every move of every game.
    """
    steps = of << 16 | codes.astype(np.int64)
    order = np.lexsort((games, steps))
    steps, games, results = steps[order], games[order], results[order]
    new = np.concatenate(([True], steps[1:] != steps[:-1]))[: len(steps)]
    once = new | np.concatenate(([True], games[1:] != games[:-1]))[: len(steps)]
    group = np.cumsum(new) - 1
    size = int(new.sum())
    counts = np.bincount(group[once] * COLUMNS + results[once], minlength=size * COLUMNS)
    found = steps[new]
    return found >> 16, (found & 0xFFFF).astype(np.uint16), counts.reshape(size, COLUMNS)


MOST_WORDS = 5  # named of those that are skipped

NULL_MOVE = "a null move (--), which no game contains; the game counts up to there"

_RESULTS = {"1-0": WHITE, "0-1": BLACK, "1/2-1/2": DRAWS, "1/2": DRAWS}


def import_pgn(
    path: str | os.PathLike[str],
    files: Sequence[GivenFile],
    *,
    variations: bool = False,
    max_ply: int | None = None,
    again: bool = False,
    players: bool = False,
    stop: threading.Event | None = None,
    on_progress: OnProgress | None = None,
) -> list[FileReport]:
    """Counts the games of PGN files (plain, gzip or zstd) in a graph file; makes the file if it is missing.

    A game counts once for each of its (position, move) pairs, even if it repeats them. A broken game does not
    count. A file with the same bytes as one imported before does not count again; an interrupted import
    resumes after the last saved game.

    Args:
      variations: count moves of variations too, in a separate column.
      max_ply: count only moves from positions below this ply; the rest of the game is not read.
      again: count the files even if they were imported before.
      players: store the players, moves and text of each game (tables `player`, `game`, `game_text`). A file
        that was imported without them is read again for that, but does not count again.
      stop: set it, from any thread or a signal handler, to save and return.

    Raises:
      InvalidParameterError: if `max_ply` is below 1.
      StoreError: if the graph file cannot be written; earlier transactions stay.
    """
    if max_ply is not None and max_ply < 1:
        raise InvalidParameterError(f"max_ply is {max_ply}; it must be at least 1")

    def read(importing: Importing, given: Input) -> None:
        _PgnImport(importing, given, variations, max_ply).read()

    return import_files(
        path,
        files,
        "pgn",
        read,
        options={"variations": variations, "max_ply": max_ply},
        again=again,
        players=players,
        stop=stop,
        on_progress=on_progress,
    )


class _PgnImport:
    def __init__(self, importing: Importing, given: Input, variations: bool, max_ply: int | None) -> None:
        self._importing = importing
        self._report = importing.report
        self._texts = TextKeeper(tables.text_end(importing.store, importing.source.id))
        keep = self._texts.add if importing.players else None
        self._reader = BlockReader(given, max_ply=max_ply, regular=not variations, keep=keep)
        self._variations, self._max_ply = variations, max_ply
        self._tally = Tally()
        self._rows: list[GameRow] = []  # games to store
        self._index: list[IndexRow] = []
        self._kept_before = importing.source.players or 0
        self._passed = 0
        self._strays = self._at_odds = self._cut_variations = 0
        self._stray_words: list[str] = []  # the first ones

    def read(self) -> None:
        """Imports the games that are not imported yet; saves the counts even after an error."""
        finished = False
        try:
            for one in self._reader:
                if isinstance(one, PlayedBlock):
                    self._add_block(one)
                    self._passed += len(one.games)
                else:
                    self._add_text(one)
                    self._passed += 1
                if self._tally.is_full or len(self._rows) >= GAMES_AT_ONCE:
                    self._save()
                self._importing.show_progress()
                if self._importing.stopped:
                    return
            if self._reader.words and not self._passed:
                words = f"{self._reader.words:,} words that are not moves"
                raise ImportFileError(f"{self._report.name} has no games, only {words}; is it a PGN file?")
            finished = True
        finally:
            self._save(finished=finished)
            self._add_notes(finished=finished)

    def _add_block(self, played: PlayedBlock) -> None:
        """Counts and stores replayed games, except those already counted or stored."""
        results = [result_of(game) for game in played.games]
        skip = min(max(0, self._importing.before - self._passed), len(results))
        self._tally.add(played.part(skip, len(results)), [result for result, _ in results[skip:]])
        self._report.taken += len(results) - skip
        self._at_odds += sum(at_odds for _, at_odds in results[skip:])
        if self._importing.players:
            first = self._passed + 1
            numbers = [(i, first + i) for i in range(len(results)) if first + i > self._kept_before]
            for i, number in numbers:
                result = RESULT_TEXTS[results[i][0]]
                self._rows.append(game_row(played.games[i], number, result, played.moves(i)))
            self._index += index_of_block(played, numbers)
            self._report.players += len(numbers)

    def _add_text(self, text: GameText) -> None:
        """Reads, counts and stores a game, unless it is already counted and stored."""
        number, report = self._passed + 1, self._report
        counts = number > self._importing.before
        if not counts and (not self._importing.players or number <= self._kept_before):
            return
        game = read_game(text, variations=self._variations)
        most = None if self._max_ply is None or game.start is None else self._max_ply - game.start.ply()
        problem = (game.error_line, game.error) if game.fails_before(most) else (0, "")
        if self._variations and game.variation_faults and not problem[1]:
            problem = game.variation_faults[0]
        if counts:
            report.problems += [Problem(*remark) for remark in game.remarks]
        if game.variant or problem[1]:
            report.skipped += counts
            if game.variant:
                report.variants[game.variant] += counts
            elif counts:
                report.problems.append(Problem(*problem))
            return
        if counts:
            if game.null_line:
                report.problems.append(Problem(game.null_line, NULL_MOVE))
            self._strays += len(game.strays)
            shown_words = [f"{shown(word)} in line {line}" for line, word in game.strays]
            self._stray_words += shown_words[: MOST_WORDS - len(self._stray_words)]
            if self._variations:
                moves = played_variations(game, self._max_ply)
                self._tally.add(moves, [VARIATIONS] * len(moves.games))
                self._cut_variations += game.null_variations
        self._add_block(played_game(game, self._max_ply))

    def _save(self, *, finished: bool = False) -> None:
        passed = max(self._passed, self._kept_before) if self._importing.players else None
        self._importing.save(self._write, finished=finished, players=passed)
        self._tally = Tally()  # after a failed save, the next one has these counts
        self._rows, self._index = [], []

    def _write(self, store: Store) -> None:
        self._tally.write(store)
        source = self._importing.source.id
        tables.add_texts(store.connection, source, self._texts.pop_rows())
        if self._rows:
            tables.add(store, source, self._rows)
            tables.add_index(store.connection, source, self._index)

    def _add_notes(self, *, finished: bool) -> None:
        strays = self._strays + self._reader.words
        words = f" (as {', '.join(self._stray_words)})" if self._stray_words else ""
        for number, what in (
            (self._at_odds, "games whose Result contradicts their ending, counted as without result"),
            (strays if self._passed else 0, f"words that are not moves, skipped{words}"),
            (self._cut_variations, "variations that were read up to a null move (--) only"),
        ):
            if number:
                self._report.notes.append(f"{what}: {number:,}")
        if finished and not self._report.done:
            self._report.notes.append("it has no games")


def result_of(game: Facts) -> tuple[int, bool]:
    """Returns the column of a game's result, and whether its Result header contradicts its ending.

    >>> [result_of(Facts({"Result": "1-0"}, ending, 0, 0)) for ending in ("1-0", "*", "0-1")]
    [(0, False), (0, False), (3, True)]
    """
    header = _RESULTS.get(game.headers.get("Result", "").strip())
    ending = _RESULTS.get(game.result)
    if header is not None and ending is not None and header != ending:
        return UNKNOWN, True
    found = header if ending is None else ending
    return (UNKNOWN if found is None else found), False


# ------------------------------------------------------------------ rows of kept games
def index_of_block(played: PlayedBlock, numbers: Sequence[tuple[int, int]]) -> Iterator[IndexRow]:
    """Yields the index rows of games of a block; numbers: (index in the block, number in the file) pairs."""
    parts, ends = key_parts(played.keys), np.cumsum(played.sizes)
    places = opening_places(played.positions[:, KEY])
    for i, number in numbers:
        end = int(ends[i])
        first = end - int(played.sizes[i])
        named = np.flatnonzero(places[first : min(end, first + DEEPEST + 1)] >= 0)
        opening = opening_names()[places[first + named[-1]]] if len(named) else None
        yield IndexRow(number, opening, parts[first:end].tobytes())


LONGEST_TEXT = 255  # stored characters of a name or another text

_DATE = re.compile(r"(\d{4})(?:[.\-/](\d\d?|\?+)(?:[.\-/](\d\d?|\?+))?)?\Z", re.ASCII)
_ELO = re.compile(r"\d{1,5}\Z", re.ASCII)
_NONE = frozenset({"", "?", "-", "*"})


def game_row(game: Facts, number: int, result: str, moves: bytes) -> GameRow:
    """Returns the row of a game.

    Args:
      number: of the game in its file, from 1. result: as counted.
      moves: their numbers in canonical order, one byte each.
    """
    headers = game.headers
    event, site = (text_of(headers.get(name, "")) or "" for name in ("Event", "Site"))
    return GameRow(
        source=0,
        number=number,
        place=game.place,
        size=game.size,
        white=text_of(headers.get("White", "")),
        black=text_of(headers.get("Black", "")),
        white_elo=_elo_of(headers.get("WhiteElo", "")),
        black_elo=_elo_of(headers.get("BlackElo", "")),
        date=date_of(headers.get("Date", "")) or date_of(headers.get("UTCDate", "")),
        event=event if event or site else None,
        site=site if event or site else None,
        round=text_of(headers.get("Round", "")),
        result=result,
        eco=text_of(headers.get("ECO", "")),
        fen=_start_of(game),
        moves=moves[:MAX_GAME_MOVES],
    )


@lru_cache(maxsize=10_000)
def text_of(text: str) -> str | None:
    """Returns a cleaned header value, None if it is empty or a placeholder.

    >>> text_of(" Pelé "), text_of(" ? "), text_of("a\\0\\tb")
    ('Pelé', None, 'a b')
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " for c in text)
    plain = " ".join(text.split())[:LONGEST_TEXT]
    return None if plain in _NONE else plain


def date_of(text: str) -> str | None:
    """Returns the known part of a date (YYYY, YYYY-MM or YYYY-MM-DD), None if the year is unknown.

    >>> [date_of(text) for text in ("2024.03.15", "2024.??.??", "1997.5.03", "????.??.??", "2024.13.01")]
    ['2024-03-15', '2024', '1997-05-03', None, '2024']
    """
    found = _DATE.match(text.strip())
    if found is None or found[1] == "0000":
        return None
    known = found[1]
    for part, most in ((found[2], 12), (found[3], 31)):
        if part is None or not part.isdigit() or not 1 <= int(part) <= most:
            break
        known += f"-{int(part):02}"
    return known


def _elo_of(text: str) -> int | None:
    found = _ELO.match(text.strip())
    return int(found[0]) or None if found else None


def _start_of(game: Facts) -> str | None:
    """Returns the FEN of a game's first position, None for the start position."""
    if not game.headers.get("FEN"):
        return None
    fen = fen_of(start_of(game.headers["FEN"]))
    return None if fen == chess.STARTING_FEN else fen
