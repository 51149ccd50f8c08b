"""The text of imported games in compressed pieces, so that a game opens with its comments and variations."""

from __future__ import annotations

import zstandard

from ..store.tables.game_list import TextRow

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
