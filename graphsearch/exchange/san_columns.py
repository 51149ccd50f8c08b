"""SAN of many moves at once: a number for each move, every text once. `steps.sans` is for one position."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..position.words import BLACK, BLACK_TO_MOVE, KINGS, META, PAWNS, WHITE
from ..query.steps import CASTLING_STEP, san_of, which_piece

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

_FILES, _RANKS, _SQUARES = 1, 9, 17  # how an origin is told: 0 not at all, then by file, by rank, by both
# at which bits of a number its parts begin, behind the target square
_TOLD, _CAPTURE, _KIND, _PROMOTION, _MARK, _CASTLING = 6, 13, 14, 17, 20, 22


class SanTexts:
    """The texts that have been met, each once.

    Attributes:
      texts: by number.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[int, int] = {}

    def numbers(self, words: Words, of: Ints, code: NDArray[np.uint16], mark: NDArray[np.uint8]) -> Ints:
        """Returns the number of each move's text, `[M]`.

        Args:
          words: `[R, 10]` packed positions.
          of, code, mark: `[M]` of all legal moves of them, as `columns.MoveColumns` has them.
        """
        parts, which = np.unique(_parts(words, of, code.astype(np.int64), mark), return_inverse=True)
        found = np.empty(len(parts), np.int64)
        for i, part in enumerate(parts.tolist()):
            if part not in self._numbers:
                self._numbers[part] = len(self.texts)
                self.texts.append(_text(part))
            found[i] = self._numbers[part]
        return np.asarray(found[which])


def _parts(words: Words, of: Ints, code: Ints, mark: NDArray[np.uint8]) -> Ints:
    """Returns what each text is made of, as one number."""
    origin, target, promotion = code & 63, code >> 6 & 63, code >> 12
    kind = _kinds(words, of, origin)
    men = words[:, WHITE] | words[:, BLACK]
    capture = _has(men[of], target) | ((kind == PAWNS) & ((origin ^ target) & 7 != 0))
    ours = np.where(words[:, META] & np.uint64(BLACK_TO_MOVE), words[:, BLACK], words[:, WHITE])
    steps = np.abs((origin & 7) - (target & 7)) == CASTLING_STEP
    castling = (kind == KINGS) & (steps | _has(ours[of], target))  # in Chess960 he takes his rook
    told = np.where((kind == PAWNS) & capture, _FILES + (origin & 7), 0)
    _tell_apart(told, of, kind, origin, target)
    side = np.where(castling, np.where(target > origin, 1, 2), 0)
    found: Ints = (
        target
        | told << _TOLD
        | capture.astype(np.int64) << _CAPTURE
        | kind << _KIND
        | promotion << _PROMOTION
        | mark.astype(np.int64) << _MARK
        | side << _CASTLING
    )
    return found


def _has(men: Words, square: Ints) -> NDArray[np.bool_]:
    return (men >> square.astype(np.uint64) & np.uint64(1)).astype(bool)


def _kinds(words: Words, of: Ints, square: Ints) -> Ints:
    """Returns the kind of the man on a square of each position."""
    found = np.zeros(len(of), np.int64)
    for kind in range(1, KINGS + 1):
        found[_has(words[of, kind], square)] = kind
    return found


def _tell_apart(told: Ints, of: Ints, kind: Ints, origin: Ints, target: Ints) -> None:
    """Writes how the origin is told where several pieces of a kind reach a square."""
    group = (of << 9 | kind << 6) | target
    group[(kind == PAWNS) | (kind == KINGS)] = -1
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=-1))
    sizes = np.diff(begins, append=len(ordered))
    for begin, size in zip(begins[sizes > 1].tolist(), sizes[sizes > 1].tolist(), strict=True):
        places = order[begin : begin + size]
        origins = origin[places].tolist()
        for place, square in zip(places.tolist(), origins, strict=True):
            told[place] = _told(square, which_piece(square, origins))


def _told(square: int, text: str) -> int:
    """Returns the number of how an origin is told."""
    if not text:
        return 0
    if len(text) == 2:
        return _SQUARES + square
    return _FILES + (square & 7) if text.isalpha() else _RANKS + (square >> 3)


def _text(part: int) -> str:
    """Returns the text of a number."""
    told = part >> _TOLD & 127
    origin = ""
    if told >= _SQUARES:
        square = told - _SQUARES
        origin = "abcdefgh"[square & 7] + "12345678"[square >> 3]
    elif told:
        origin = "abcdefgh"[told - _FILES] if told < _RANKS else "12345678"[told - _RANKS]
    return san_of(
        kind=part >> _KIND & 7,
        target=part & 63,
        origin=origin,
        capture=bool(part >> _CAPTURE & 1),
        promotion=part >> _PROMOTION & 7,
        mark=part >> _MARK & 3,
        castling=part >> _CASTLING,
    )
