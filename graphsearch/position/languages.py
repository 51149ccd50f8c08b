"""Moves as other languages and programs write them: letters of pieces, and figurines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

# letters of king, queen, rook, bishop and knight; the languages that share them stand together
LETTERS = {
    "German, Danish, Norwegian, Swedish": "KDTLS",
    "French": "RDTFC",
    "Spanish, Italian": "RDTAC",
    "Portuguese": "RDTBC",
    "Dutch": "KDTLP",
    "Polish": "KHWGS",
    "Czech, Slovak": "KDVSJ",
    "Hungarian": "KVBFH",
    "Russian": "КФЛСК",
}
ENGLISH = "KQRBN"
FIGURINES = str.maketrans("♔♕♖♗♘♚♛♜♝♞", ENGLISH * 2, "♙♟\ufe0e\ufe0f")
RUSSIAN_KING = ("Кр", "K")  # noqa: RUF001 (the knight is К)


def readings(text: str) -> Iterator[str]:
    """Yields a text of moves with letters for figurines, then with each language's letters as English ones.

    >>> list(readings("1. ♘f3 d5 2. e4"))
    ['1. Nf3 d5 2. e4']
    >>> "1. Nf3 d5 2. Qe2" in readings("1. Sf3 d5 2. De2")
    True
    """
    text = text.translate(FIGURINES)
    yield text
    for letters in LETTERS.values():
        moves = text.replace(*RUSSIAN_KING) if letters == LETTERS["Russian"] else text
        found = _piece(letters).sub(partial(_english, str.maketrans(letters, ENGLISH)), moves)
        if found != text:
            yield found


def _piece(letters: str) -> re.Pattern[str]:
    """Returns what matches the letter of a piece that moves, or that a pawn becomes."""
    return re.compile(rf"(?<!\w)[{letters}](?=[a-h]?[1-8]?[x:]?[a-h][1-8])|(?<=[a-h][18])=?[{letters}]\b")


def _english(table: dict[int, int], word: re.Match[str]) -> str:
    return word[0].translate(table)
