"""Sorts the table of openings and writes the keys of its positions: `python -m tools.openings`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import chess
import chess.polyglot

TABLE = Path(__file__).parent.parent / "graphsearch" / "position" / "openings.txt"


def written(lines: Iterable[str]) -> Iterator[str]:
    """Yields the lines of the table: comments first, then rows by code and moves, each with its key.

    >>> list(written(["# about", "0 B00 King's Pawn Game | e4"]))
    ['# about', "823c9b50fd114196 B00 King's Pawn Game | e4"]

    Raises:
      ValueError: if a move is illegal, or two rows have the same position.
    """
    lines = list(lines)
    yield from (line for line in lines if line.startswith("#"))
    seen: dict[int, str] = {}
    rows = (_row(line) for line in lines if not line.startswith("#"))
    for code, moves, key, name in sorted(rows):
        if key in seen:
            raise ValueError(f"{seen[key]} and {name} are the same position")
        seen[key] = name
        yield f"{key:016x} {code} {name} | {' '.join(moves)}"


def _row(line: str) -> tuple[str, tuple[str, ...], int, str]:
    """Returns code, moves, key and name of a row, whose key may be missing."""
    head, _, moves = line.partition(" | ")
    words = head.split()
    code = next(word for word in words if len(word) == 3 and word[0] in "ABCDE" and word[1:].isdigit())
    board, sans = chess.Board(), []
    for text in moves.split():
        move = board.parse_san(text)
        sans.append(board.san(move))
        board.push(move)
    name = " ".join(words[words.index(code) + 1 :])
    return code, tuple(sans), chess.polyglot.zobrist_hash(board), name


if __name__ == "__main__":
    TABLE.write_text("\n".join(written(TABLE.read_text("utf-8").splitlines())) + "\n", "utf-8")
