"""The texts of imported games: kept compressed while a file is read, read again, and listed in files."""

from __future__ import annotations

import csv
import io
import os

import chess
import chess.pgn
import zstandard

from ..base.errors import InvalidParameterError
from ..base.limits import text_lines
from ..position.board import legal_moves
from ..position.pgn import cut_text
from ..query.game_list import ListedGames, start_of
from ..store.file import real_path
from ..store.store import Store
from ..store.tables import games
from ..store.tables.games import GameRow, TextRow
from .output import COLUMNS, Target, header, new_output, target_name

TEXTS = ("Event", "Site", "Round", "White", "Black", "ECO")  # headers, in a `GameRow` with small letters


def game_text(path: str | os.PathLike[str], source: int, number: int) -> tuple[str, bool]:
    """Returns the text of a game, as `text_of_game`; `source`, `number`: as in the view `played_games`.

    Raises:
      InvalidParameterError: if the game is not stored.
      StoreError: if the graph file cannot be read.
    """
    with Store.open(path, read_only=True) as store:
        row = games.game(store, source, number)
        if row is None:
            missing = f"{path} has no game {source}:{number}"
            raise InvalidParameterError(f"{missing}; `import --players` stores games")
        return text_of_game(store, row)


def text_of_game(store: Store, row: GameRow) -> tuple[str, bool]:
    """Returns the text of a game, without blank lines between moves, and whether it is the stored one.

    A file that was damaged may have lost that; the text then has headers and moves only.
    """
    data = text_of_rows(games.text_rows(store, row.source, row.place, row.size), row.place, row.size)
    game = next(cut_text(text_lines(io.BytesIO(data or b""), "a game")), None)
    if game is None:
        return plain_text(row), False
    return "".join(line for _, line in (*game.tags, (0, "\n"), *game.moves)).strip(), True


def plain_text(row: GameRow) -> str:
    """Returns a game as PGN with the stored headers and moves, up to the first invalid move."""
    walk = start_of(row.fen)
    for place in row.moves:
        legal = legal_moves(walk)
        if place >= len(legal):
            break
        walk.push(legal[place])
    game = chess.pgn.Game.from_board(walk)
    game.headers["Date"] = ".".join([*(row.date or "????").split("-"), "??", "??"][:3])
    kept = {name: getattr(row, name.lower()) for name in (*TEXTS, "Result")}
    for name, value in (kept | {"WhiteElo": row.white_elo, "BlackElo": row.black_elo}).items():
        if value:
            game.headers[name] = " ".join(str(value).split())
    lines = b"".join(header(*pair) for pair in game.headers.items()).decode()
    return f"{lines}\n{game.accept(chess.pgn.StringExporter(columns=COLUMNS, headers=False))}".rstrip()


# ------------------------------------------------------------------ texts in compressed pieces
PIECE = 1 << 18  # bytes of text per row: decompresses in a millisecond
LEVEL = 3  # 300 MB a second; PGN with clocks shrinks to a fourth


class TextKeeper:
    """Collects and compresses the text of a file; `covered`: bytes at its beginning that are stored."""

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
        self._rows.append(TextRow(self._at, size, self._compressor.compress(bytes(self._open[:size]))))
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


# ------------------------------------------------------------------ lists
def export_games(path: str | os.PathLike[str], found: ListedGames, target: Target) -> int:
    """Writes listed games as PGN, or as CSV (RFC 4180) to a file `NAME.csv`.

    Returns the number of games without their full text: only headers and moves.

    Raises:
      ExportError: if the file cannot be written.
      StoreError: if the graph file cannot be read.
    """
    bare = 0
    with new_output(target, store=real_path(path)) as out:
        if target_name(target).lower().endswith(".csv"):
            rows, text = [game.as_dict() for game in found.games], io.StringIO()
            csv.writer(text).writerows([*rows[:1], *(map(_cell, row.values()) for row in rows)])
            out.write(text.getvalue().encode())
            return 0
        with Store.open(path, read_only=True) as store:
            for game in found.games:
                moves, is_whole = text_of_game(store, game.row)
                bare += not is_whole
                out.write(f"{moves}\n\n".encode())
    return bare


FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet reads text with these prefixes as a formula


def _cell(value: str | int | None) -> str | int | None:
    """Returns a value for CSV; a text that a spreadsheet would read as a formula gets an apostrophe in front.

    >>> _cell("=1+1"), _cell("e4\\te5"), _cell(3)
    ("'=1+1", 'e4 e5', 3)
    """
    if not isinstance(value, str):
        return value
    plain = "".join(c if c.isprintable() else " " for c in value)
    return f"'{plain}" if value.startswith(FORMULA) else plain
