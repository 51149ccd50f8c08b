"""Formats columns of values as text records: prepares the literals and values for the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit.pointers import ptr
from ..position.board import text_of_key
from ..position.tables import load_powers
from ..position.words import CHESS960, META
from ..query.steps import Ints, Mask, Words, positions_after
from ..store.codec.bulk import board_tables, owned
from .text_kernel import FIELD_WORDS, FIXED, FLOAT, HEX, INTEGER, NAME, TEXT, Form, name_moves, write_records

LONGEST = {INTEGER: 20, FLOAT: 25, NAME: 8, HEX: 16, FIXED: 24}  # bytes of a value
LONGEST_FEN = 110  # python-chess's longest has 92, and a move number more digits


@dataclass(frozen=True, slots=True)
class Field:
    """A column of values, with the text before and after each value.

    Attributes:
      null: written in place of a value that is not valid.
      decimals: of a FIXED value; negative to write a sign always. texts: of a TEXT column, by number.
    """

    before: str
    kind: int
    values: NDArray[Any]
    valid: Mask | None = None
    null: str = ""
    after: str = ""
    decimals: int = 0
    texts: Sequence[str] = ()

    @property
    def longest(self) -> int:
        """The maximum bytes of the field in one row."""
        value = max((len(text.encode()) for text in self.texts), default=LONGEST_FEN)
        return len(self.before) + LONGEST.get(self.kind, value) + len(self.after) + len(self.null)


@dataclass(frozen=True, slots=True)
class Joints:
    """The text around and between the items of a record; with `lines`, every item repeats head and tail."""

    open: str = ""
    between: str = ""
    close: str = ""
    empty: str = ""
    lines: bool = False


class Names(NamedTuple):
    """Names of moves in words, keys and METAs of their child positions, and marks.

    METAs are 0 where castling is standard.
    """

    san: Words
    uci: Words
    key: Words
    mark: NDArray[np.uint8]
    meta: Words


def names_of(words: Words, of: Ints, codes: NDArray[np.uint16]) -> Names:
    """Returns the names of legal moves; the moves of one position must be adjacent."""
    san, uci, key = np.empty((3, len(of)), np.uint64)
    metas = np.zeros(len(of), np.uint64)
    others = np.flatnonzero(words[of, META] & np.uint64(CHESS960))
    if len(others):
        metas[others] = positions_after(words, of[others], codes[others])[0][:, META]
    found = Names(san, uci, key, np.empty(len(of), np.uint8), metas)
    name_moves(
        board_tables(),
        owned(words, np.uint64).reshape(-1),
        owned(of, np.int64),
        owned(codes, np.uint16),
        *found[:4],
    )
    return found


def letters_of(names: Words) -> list[bytes]:
    """Returns packed names of moves as bytes."""
    found: list[bytes] = np.ascontiguousarray(names, "<u8").view("S8").tolist()
    return found


def key_field(before: str, keys: Words, metas: Words, after: str = "") -> Field:
    """Returns a field of keys as `text_of_key` formats them; a kernel does so if castling is standard."""
    if not (metas & np.uint64(CHESS960)).any():
        return Field(before, HEX, keys, after=after)
    texts = [text_of_key(*pair) for pair in zip(keys.tolist(), metas.tolist(), strict=True)]
    return Field(before, TEXT, np.arange(len(texts)), after=after, texts=texts)


def literal(text: str, rows: int) -> Field:
    """Returns a field with the same text in all rows."""
    return Field("", INTEGER, np.zeros(rows, np.int64), np.zeros(rows, bool), null=text)


def records_text(
    words: Words,
    head: Sequence[Field],
    items: Sequence[Field],
    tail: Sequence[Field],
    begins: Ints,
    joints: Joints,
) -> NDArray[np.uint8]:
    """Returns records as bytes.

    Args:
      words: `[R, 10]` positions, for FEN fields.
      head, tail: fields with one row per record. items: fields with one row per item.
      begins: `[R + 1]` offset of each record's first item.
    """
    rows, count = len(begins) - 1, int(begins[-1])
    around = sum(field.longest for field in (*head, *tail))
    between = sum(len(part) for part in (joints.open, joints.between, joints.close, joints.empty))
    one = sum(field.longest for field in items) + between
    room = (rows + (count if joints.lines else 0)) * (around + between) + count * one
    out = np.empty(room + 64, np.uint8)
    parts = [part.encode() for part in (joints.open, joints.between, joints.close, joints.empty)]
    ends = np.cumsum([len(part) for part in parts])
    places = [place for end, part in zip(ends, parts, strict=True) for place in (end - len(part), end)]
    size = write_records(
        load_powers(),
        owned(words, np.uint64).reshape(-1),
        _form(head, rows),
        _form(items, count),
        _form(tail, rows),
        owned(begins, np.int64),
        bytes_of(parts),
        np.array([*places, joints.lines], np.int64),
        out,
    )
    return out[:size]


def _form(fields: Sequence[Field], rows: int) -> Form:
    literals: list[bytes] = []
    at = 0
    table = np.zeros((len(fields), FIELD_WORDS), np.int64)
    data, valid = np.zeros((len(fields), rows), np.int64), np.ones((len(fields), rows), np.uint8)
    texts: list[bytes] = []
    for i, field in enumerate(fields):
        table[i, :2] = field.kind, field.decimals
        for k, text in enumerate((field.before, field.after, field.null)):
            literals.append(text.encode())
            table[i, 2 + 2 * k : 4 + 2 * k] = at, at + len(literals[-1])
            at += len(literals[-1])
        data[i] = _bits(field) + len(texts) if field.kind == TEXT else _bits(field)
        texts += [text.encode() for text in field.texts]
        if field.valid is not None:
            valid[i] = field.valid
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64) if texts else np.zeros(1, np.int64)
    return Form(
        len(fields),
        ptr(table.reshape(-1), 0),
        ptr(bytes_of(literals), 0),
        ptr(data.reshape(-1), 0),
        ptr(valid.reshape(-1), 0),
        ptr(bytes_of(texts), 0),
        ptr(ends, 0),
    )


def _bits(field: Field) -> Ints:
    """Returns the values of a field in 64 bits each."""
    if field.kind == FLOAT:
        return field.values.astype(np.float64).view(np.int64)
    if field.values.dtype == np.uint64:
        return field.values.view(np.int64)
    return field.values.astype(np.int64, copy=False)


def bytes_of(parts: Sequence[bytes]) -> NDArray[np.uint8]:
    """Returns the concatenated texts as bytes, zero-terminated."""
    return np.frombuffer(bytearray(b"".join((*parts, b"\0"))), np.uint8)


def fixed(values: NDArray[np.float64], decimals: int) -> Ints:
    """Returns numbers as FIXED values: twice the digits, plus 1 if negative, rounded as Python rounds.

    >>> fixed(np.array([0.0625, -0.0001]), 3).tolist()
    [124, 1]
    """
    scaled = np.abs(values) * 10**decimals
    digits = np.rint(scaled).astype(np.int64)
    for i in np.flatnonzero(np.abs(scaled - np.trunc(scaled) - 0.5) < 1e-6).tolist():  # next to a tie
        digits[i] = int(f"{abs(values[i]):.{decimals}f}".replace(".", ""))
    return np.asarray(2 * digits + np.signbit(values))
