"""Writes PGN text: lines of 80 columns, comments, headers, and NAGs of mistakes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

COLUMNS = 80
WORDS = 1 << 12  # buffered before a write
# least loss of Q against the best move, in [-1, 1], and the NAG: ?!, ?, ??
MISTAKES = ((0.3, 4), (0.2, 2), (0.1, 6))
JUDGED_VISITS = 10  # minimum visits of a move with a NAG


class MoveText:
    """Writes words to a stream, in lines of at most 80 columns unless a word is longer."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._column = 0
        self._opening = ""
        self._words: list[str] = []  # buffered; a parenthesis may still follow the last one

    def word(self, text: str) -> None:
        """Writes a word, after a blank or a line end."""
        self._words.append(self._opening + text if self._opening else text)
        self._opening = ""

    def open(self) -> None:
        """Begins a variation; the parenthesis goes before the next word."""
        self._opening = "("

    def close(self) -> None:
        """Ends a variation; the parenthesis follows the last word."""
        self._words[-1] += ")"

    def comment(self, parts: Iterable[str]) -> None:
        """Writes a comment; a part is not broken across lines."""
        words = list(parts)
        words[0] = f"{self._opening}{{{words[0]}"
        words[-1] += "}"
        self._opening = ""
        self._words += words
        if len(self._words) > WORDS:
            self._write(self._words[:-1])
            del self._words[:-1]

    def _write(self, words: list[str]) -> None:
        column, pieces = self._column, []
        for word in words:
            if column and column + 1 + len(word) <= COLUMNS:
                pieces.append(" ")
                column += 1
            elif column:
                pieces.append("\n")
                column = 0
            pieces.append(word)
            column += len(word)
        self._out.write("".join(pieces).encode())
        self._column = column

    def end(self) -> None:
        """Ends the line."""
        self._write(self._words)
        self._words = []
        self._out.write(b"\n")
        self._column = 0


def header(name: str, value: str) -> bytes:
    r"""Returns a header line.

    >>> header("Event", 'the "b"')
    b'[Event "the \\"b\\""]\n'
    """
    text = "".join(c if c.isprintable() else "?" for c in value).replace("\\", "\\\\").replace('"', '\\"')
    return f'[{name} "{text}"]\n'.encode()


def mistake_of(loss: float) -> int | None:
    """Returns the NAG of a loss of Q in [0, 2] by `MISTAKES`, None for a small loss.

    ?! (6), ? (2) and ?? (4) from a loss of 0.1, 0.2 and 0.3 on, for moves with 10 visits or more.

    >>> mistake_of(0.3), mistake_of(0.05)
    (4, None)
    """
    return next((nag for least, nag in MISTAKES if loss >= least - 1e-9), None)
