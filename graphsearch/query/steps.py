"""Moves and the positions behind them, for a batch of packed positions; SAN without a board."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..position.board import MAX_MOVES, POSITION_WORDS
from ..position.steps_kernel import CHECK, MATE
from ..position.steps_kernel import list_moves as _list_moves
from ..position.steps_kernel import make_steps as _make_steps
from ..position.words import BLACK_TO_MOVE, KINGS, META, PAWNS, WHITE
from ..store.codec.bulk import board_tables, owned

Words = NDArray[np.uint64]
Places = NDArray[np.int64]

_FILES, _PIECES, _PROMOTIONS = "abcdefgh", "PNBRQK", ("", "=N", "=B", "=R", "=Q")
_PAWN, _KING = PAWNS, KINGS
CASTLING_STEP = 2  # files that a king moves in castling, and never else


@dataclass(frozen=True, slots=True)
class MoveList:
    """The legal moves of a position in canonical order.

    Attributes:
      codes: as `encode_move` has them. marks: CHECK or CHECK | MATE where a move gives it, else 0.
    """

    codes: tuple[int, ...]
    marks: tuple[int, ...]

    @property
    def mating(self) -> int | None:
        """Index of a move that mates, None if there is none."""
        return next((i for i, mark in enumerate(self.marks) if mark & MATE), None)


def legal_codes(words: Words) -> tuple[NDArray[np.int16], NDArray[np.uint16], NDArray[np.uint8]]:
    """Returns the legal moves of packed positions, `[R, 10]`, as arrays.

    Returns:
      counts: `[R]`. codes: `[R, MAX_MOVES]` in canonical order, 0 behind the last. marks: likewise, as in
        `MoveList`.
    """
    rows = len(words)
    counts = np.zeros(rows, np.int16)
    moves = np.zeros((rows, MAX_MOVES), np.uint16)
    marks = np.zeros((rows, MAX_MOVES), np.uint8)
    flat = owned(words, np.uint64).reshape(-1)
    _list_moves(board_tables(), flat, counts, moves.reshape(-1), marks.reshape(-1))
    return counts, moves, marks


def move_lists(words: Words) -> list[MoveList]:
    """Returns the legal moves of packed positions, `[R, 10]`."""
    counts, moves, marks = legal_codes(words)
    return [
        MoveList(tuple(moves[i, :n].tolist()), tuple(marks[i, :n].tolist()))
        for i, n in enumerate(counts.tolist())
    ]


def positions_after(
    words: Words, of: Sequence[int] | Places, codes: Sequence[int] | NDArray[np.uint16]
) -> tuple[Words, NDArray[np.uint64]]:
    """Returns the positions after legal moves, `[K, 10]`, and their keys, `[K]`.

    Args:
      words: `[R, 10]`. of: which of them each move is played in. codes: the moves.
    """
    children = np.zeros((len(of), POSITION_WORDS), np.uint64)
    keys = np.zeros(len(of), np.uint64)
    flat = owned(words, np.uint64).reshape(-1)
    where, moves = np.array(of, np.int64), np.array(codes, np.uint16)
    _make_steps(board_tables(), flat, where, moves, children.reshape(-1), keys)
    return children, keys


def square_name(square: int) -> str:
    """Returns the name of a square.

    >>> square_name(0), square_name(63)
    ('a1', 'h8')
    """
    return f"{_FILES[square & 7]}{(square >> 3) + 1}"


def uci_of(code: int) -> str:
    """Returns a move code as UCI.

    >>> uci_of(20016)
    'a7a8q'
    """
    return f"{square_name(code & 63)}{square_name(code >> 6 & 63)}{' nbrq'[code >> 12].strip()}"


def is_castling(words: Sequence[int], code: int) -> bool:
    """Returns whether a move of a packed position castles: the king goes two files, or takes his rook."""
    origin, target = code & 63, code >> 6 & 63
    if not words[_KING] >> origin & 1:
        return False
    ours = words[WHITE + (words[META] & BLACK_TO_MOVE)]
    return abs((origin & 7) - (target & 7)) == CASTLING_STEP or bool(ours >> target & 1)


def sans(words: Sequence[int], moves: MoveList) -> list[str]:
    """Returns all legal moves of a packed position in SAN, with the signs of check and mate."""
    kinds = [_kind_at(words, code & 63) for code in moves.codes]
    rivals: dict[tuple[int, int], list[int]] = {}
    for kind, code in zip(kinds, moves.codes, strict=True):
        rivals.setdefault((kind, code >> 6 & 63), []).append(code & 63)
    occupied = words[6] | words[7]
    return [
        _san(words, occupied, kind, code, rivals[kind, code >> 6 & 63], mark)
        for kind, code, mark in zip(kinds, moves.codes, moves.marks, strict=True)
    ]


def san_of(
    *, kind: int, target: int, origin: str, capture: bool, promotion: int, mark: int, castling: int
) -> str:
    """Returns the SAN of a move.

    Args:
      kind: of the man. target: square. origin: file, rank or square that makes the move unique; a capturing
        pawn's file.
      promotion: as in a move code. mark: CHECK, CHECK | MATE or 0. castling: 1 short, 2 long, 0 no castling.

    >>> san_of(kind=1, target=18, origin="b", capture=True, promotion=0, mark=1, castling=0)
    'Nbxc3+'
    """
    sign = "#" if mark & MATE else "+" if mark & CHECK else ""
    if castling:
        return ("O-O" if castling == 1 else "O-O-O") + sign
    piece = "" if kind == _PAWN else _PIECES[kind]
    takes = "x" if capture else ""
    return f"{piece}{origin}{takes}{square_name(target)}{_PROMOTIONS[promotion]}{sign}"


def _kind_at(words: Sequence[int], square: int) -> int:
    return next(kind for kind in range(6) if words[kind] >> square & 1)


def _san(words: Sequence[int], occupied: int, kind: int, code: int, origins: list[int], mark: int) -> str:
    origin, target = code & 63, code >> 6 & 63
    castling = 0 if kind != _KING or not is_castling(words, code) else 1 if target > origin else 2
    capture = bool(occupied >> target & 1)
    if kind == _PAWN:
        capture = (origin ^ target) & 7 != 0  # en passant, too
        told = _FILES[origin & 7] if capture else ""
    else:
        told = which_piece(origin, origins)
    return san_of(
        kind=kind,
        target=target,
        origin=told,
        capture=capture,
        promotion=code >> 12,
        mark=mark,
        castling=castling,
    )


def which_piece(origin: int, origins: list[int]) -> str:
    """Returns the file, rank or square that distinguishes a piece from others that reach the same square."""
    others = [other for other in origins if other != origin]
    if not others:
        return ""
    name = square_name(origin)
    same_file = any(other & 7 == origin & 7 for other in others)
    same_rank = any(other >> 3 == origin >> 3 for other in others)
    return name if same_file and same_rank else name[1] if same_file else name[0]
