"""Rows of imported games: headers and moves, the index of the list of games, and the text of the game."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import chess
import numpy as np
import zstandard

from ..base.errors import ImportFileError
from ..position.board import POSITION_WORDS, encode_move, fen_of, key_of_words, pack
from ..position.openings import DEEPEST, opening_names, opening_places
from ..position.pgn_text import PgnGame, as_text
from ..position.words import KEY
from ..query.game_list import key_parts
from ..query.players import kept_game
from ..query.replay import start_of
from ..query.steps import Words, legal_codes, positions_after
from ..store.sharded.files import open_to_read
from ..store.store import Store
from ..store.tables import game_list
from ..store.tables.columns import MAX_GAME_MOVES
from ..store.tables.game_list import IndexRow, TextRow
from ..store.tables.players import GameRow
from .pgn_blocks import PlayedBlock
from .playing import Played
from .sources import GivenFile, opened


def index_of_block(played: PlayedBlock, numbers: Sequence[tuple[int, int]]) -> Iterator[IndexRow]:
    """Yields the index rows of games of a block; numbers: (index in the block, number in the file) pairs."""
    parts = key_parts(played.keys)
    places = opening_places(played.positions[:, KEY])
    for i, number in numbers:
        first = int(played.firsts[i])
        end = first + int(played.counts[i]) + 1
        named = np.flatnonzero(places[first : min(end, first + DEEPEST + 1)] >= 0)
        opening = opening_names()[places[first + named[-1]]] if len(named) else None
        yield IndexRow(number, opening, parts[first:end].tobytes())


class GameIndex:
    """Collects the index rows of games that are replayed in parallel."""

    def __init__(self, games: int) -> None:
        self._parts = [bytearray() for _ in range(games)]
        self._openings: list[str | None] = [None] * games

    def add(self, ply: int, on: Sequence[int], words: Words, keys: Words) -> None:
        """Adds the positions of some games at a ply: `[R, 10]` and their keys, `[R]`."""
        places = opening_places(words[:, KEY]).tolist()
        parts = key_parts(keys)
        for row, game in enumerate(on):
            self._parts[game] += parts[row].tobytes()
            if places[row] >= 0 and ply <= DEEPEST:
                self._openings[game] = opening_names()[places[row]]

    def rows(self, numbers: Sequence[int]) -> list[IndexRow]:
        """Returns the index rows; numbers: the games' numbers in their file."""
        return [
            IndexRow(number, opening, bytes(parts))
            for number, opening, parts in zip(numbers, self._openings, self._parts, strict=True)
        ]


LONGEST_TEXT = 255  # stored characters of a name or another text

_DATE = re.compile(r"(\d{4})(?:[.\-/](\d\d?|\?+)(?:[.\-/](\d\d?|\?+))?)?\Z", re.ASCII)
_ELO = re.compile(r"\d{1,5}\Z", re.ASCII)
_NONE = frozenset({"", "?", "-", "*"})


@dataclass(frozen=True, slots=True)
class PlayedGame:
    """A game to store, with the codes of its moves; the `moves` of `game` are still empty."""

    game: GameRow
    codes: tuple[int, ...]


def played_game(game: PgnGame, number: int, played: Iterable[Played], result: str) -> PlayedGame:
    """Returns a game to store.

    Args:
      number: of the game in its file, from 1. played: its moves; variations are left out.
      result: as counted.
    """
    steps = (one.step for one in played if not one.variation)
    codes = tuple(encode_move(step.move) for step in steps if step)
    return PlayedGame(game_row(game, number, result, b""), codes[:MAX_GAME_MOVES])


def game_row(game: PgnGame, number: int, result: str, moves: bytes) -> GameRow:
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


def kept_games(games: Sequence[PlayedGame]) -> tuple[list[GameRow], list[IndexRow]]:
    """Returns the rows and index rows of games; converts move codes to numbers ply by ply over all games."""
    numbers = [bytearray() for _ in games]
    words = np.array([pack(start_of(game.game.fen)) for game in games], np.uint64).reshape(-1, POSITION_WORDS)
    keys = np.array([key_of_words(row) for row in words], np.uint64)
    on, index = np.arange(len(games)), GameIndex(len(games))
    index.add(0, on.tolist(), words, keys)
    for ply in range(max((len(game.codes) for game in games), default=0)):
        goes_on = np.array([len(games[i].codes) > ply for i in on.tolist()])
        on, words = on[goes_on], words[goes_on]
        codes = np.array([games[i].codes[ply] for i in on.tolist()], np.uint16)
        rows, of = np.unique(words, axis=0, return_inverse=True)
        of = of.reshape(-1)
        _, legal, _ = legal_codes(rows)
        found = np.argmax(legal[of] == codes[:, None], axis=1)
        for i, number in zip(on.tolist(), found.tolist(), strict=True):
            numbers[i].append(number)
        words, keys = positions_after(rows, of, codes)
        index.add(ply + 1, on.tolist(), words, keys)
    kept = [replace(one.game, moves=bytes(line)) for one, line in zip(games, numbers, strict=True)]
    return kept, index.rows([game.number for game in kept])


@lru_cache(maxsize=10_000)
def text_of(text: str) -> str | None:
    """Returns a cleaned header value, None if it is empty or a placeholder; decodes UTF-8, else Latin-1.

    >>> text_of("Pelé".encode().decode("latin-1")), text_of("Pel\\xe9"), text_of(" ? "), text_of("a\\0\\tb")
    ('Pelé', 'Pelé', None, 'a b')
    """
    text = as_text(text)
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


def _start_of(game: PgnGame) -> str | None:
    """Returns the FEN of a game's first position, None for the start position."""
    if not game.headers.get("FEN"):
        return None
    fen = fen_of(start_of(game.headers["FEN"]))
    return None if fen == chess.STARTING_FEN else fen


# ------------------------------------------------------------------ the text of a kept game
@dataclass(frozen=True, slots=True)
class GameText:
    """A stored game: its row, the file with its text, and the text."""

    game: GameRow
    file: str
    text: str

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch lab game`; the moves are in the text."""
        facts = asdict(self.game)
        facts["plies"] = len(facts.pop("moves"))
        return facts | {"file": self.file, "text": self.text}


def game_text(
    path: str | os.PathLike[str], source: int, number: int, *, file: str | os.PathLike[str] | None = None
) -> GameText:
    """Returns the original text of a game, with comments and variations.

    Args:
      path: the graph file, opened read-only.
      source, number: of the game, as in the view `played_games`.
      file: a PGN file with its text; None: the graph file, or, for graph files from before they stored texts,
        the PGN file at the path of its import.

    Raises:
      InvalidParameterError: if the game is not stored.
      ImportFileError: if the PGN file is missing, or its bytes differ from the imported ones.
      StoreError: if the graph file cannot be read.
    """
    with open_to_read(path) as store:
        row, name, digest = kept_game(store, source, number)
        text = stored_text(store, row) if file is None else None
    if text is not None:
        return GameText(row, name, text)
    where = Path(file) if file is not None else Path(name)
    if not where.is_file():
        raise ImportFileError(
            f"{where}, which has the text of game {source}:{number}, is missing; name it with --file"
        )
    with opened(GivenFile(str(where)), where.parent) as given:
        if given.digest != digest:
            raise ImportFileError(
                f"{where} has changed since game {source}:{number} was imported from it;"
                " name the file as it was with --file"
            )
        return GameText(row, str(where), _decoded(given.cut(row.place, row.size)))


def stored_text(store: Store, row: GameRow) -> str | None:
    """Returns the original text of a game from an open graph file, None if the file does not hold it."""
    text = text_of_rows(game_list.text_rows(store, row.source, row.place, row.size), row.place, row.size)
    return None if text is None else _decoded(text)


def _decoded(data: bytes) -> str:
    return as_text(data.decode("latin-1")).strip()


# ------------------------------------------------------------------ texts in compressed pieces
PIECE = 1 << 18  # bytes of text per row: decompresses in a millisecond
LEVEL = 3  # 300 MB a second; PGN with clocks shrinks to a fourth


class TextKeeper:
    """Collects and compresses the text of a file while it is read.

    Args:
      covered: bytes at the beginning of the file that the graph file has already.
    """

    def __init__(self, covered: int) -> None:
        self._at = covered  # offset of `_open` in the file
        self._open = bytearray()
        self._rows: list[TextRow] = []
        self._compressor = zstandard.ZstdCompressor(LEVEL)

    def add(self, place: int, piece: bytes) -> None:
        """Adds a piece of the text; pieces must be consecutive, from the beginning of the file."""
        known = self._at + len(self._open) - place
        if known >= len(piece):
            return
        self._open += piece[known:] if known > 0 else piece
        while len(self._open) >= PIECE:
            self._pack(PIECE)

    def pop_rows(self) -> list[TextRow]:
        """Returns the rows of the text added since the last call."""
        if self._open:
            self._pack(len(self._open))
        rows, self._rows = self._rows, []
        return rows

    def _pack(self, size: int) -> None:
        data = self._compressor.compress(bytes(self._open[:size]))
        self._rows.append(TextRow(self._at, size, data))
        self._at += size
        del self._open[:size]


def text_of_rows(rows: list[TextRow], place: int, size: int) -> bytes | None:
    """Returns a part of a text from its rows; None if they do not cover it.

    >>> keeper = TextKeeper(0)
    >>> keeper.add(0, b"1. e4 e5 *")
    >>> rows = keeper.pop_rows()
    >>> text_of_rows(rows, 3, 5), text_of_rows(rows, 3, 50)
    (b'e4 e5', None)
    """
    found = bytearray()
    for row in rows:
        begin = place + len(found) - row.place
        if begin < 0:
            break
        found += _unpacked(row)[begin : begin + size - len(found)]
    return bytes(found) if len(found) == size else None


def _unpacked(row: TextRow) -> bytes:
    """Returns the text of a row, empty if it is damaged."""
    try:
        if zstandard.get_frame_parameters(row.data).content_size != row.size:
            return b""
        return zstandard.ZstdDecompressor().decompress(row.data, max_output_size=row.size)
    except zstandard.ZstdError:
        return b""
