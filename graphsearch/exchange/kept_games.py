"""Rows of imported games: headers and moves, the index of the list of games, and the text of the game."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import chess
import numpy as np
import zstandard

from ..base.errors import ImportFileError
from ..base.limits import text_lines
from ..position.board import fen_of
from ..position.openings import DEEPEST, opening_names, opening_places
from ..position.words import KEY
from ..query.game_list import key_parts
from ..query.players import kept_game
from ..query.replay import start_of
from ..store.store import Store
from ..store.tables import game_list
from ..store.tables.game_list import IndexRow, TextRow
from ..store.tables.players import GameRow
from ..store.tables.schema import MAX_GAME_MOVES
from .pgn_blocks import Facts, PlayedBlock
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
    with Store.open(path, read_only=True) as store:
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
    return "".join(text_lines(io.BytesIO(data), "a game")).strip()


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
