"""The Polyglot book format: entries of 16 bytes, big-endian, sorted by key; and the keys of positions.

    key u64, raw move u16, weight u16, learn u32

A raw move has from bit 0 three bits each for the file and rank it goes to, the file and rank it comes from,
and the promotion (0 none, 1-4 knight to queen). Castling is the king taking its own rook, such as e1h1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, reduce
from operator import xor

import chess
import chess.polyglot

ENTRY = struct.Struct(">QHHI")  # key, raw move, weight, learn
ENTRY_BYTES = 8 + 2 + 2 + 4
MAX_WEIGHT = (1 << 16) - 1
assert ENTRY.size == ENTRY_BYTES

_CASTLING = {  # from and to as they are written, and the square the king goes to
    (chess.E1, chess.H1): chess.G1,
    (chess.E1, chess.A1): chess.C1,
    (chess.E8, chess.H8): chess.G8,
    (chess.E8, chess.A8): chess.C8,
}
_RANDOM = chess.polyglot.POLYGLOT_RANDOM_ARRAY
_TURN = _RANDOM[780]
_HASHER = chess.polyglot.ZobristHasher(_RANDOM)


@dataclass(frozen=True, slots=True)
class PolyglotEntry:
    """One move of a book in one position, as the file has it."""

    key: int
    raw_move: int
    weight: int
    learn: int = 0

    def pack(self) -> bytes:
        """Returns its 16 bytes.

        >>> PolyglotEntry(0x463B96181691FC9C, 0x31C, 7).pack().hex()
        '463b96181691fc9c031c000700000000'
        """
        return ENTRY.pack(self.key, self.raw_move, self.weight, self.learn)


def unpack(data: bytes) -> Iterator[PolyglotEntry]:
    """Yields the entries of bytes, whose length must be a multiple of 16."""
    for row in ENTRY.iter_unpack(data):
        yield PolyglotEntry(*row)


def raw_move(code: int, *, two_steps: bool) -> int:
    """Returns a move as a book writes it.

    Args:
      code: as `encode_move`.
      two_steps: it is castling as a standard position has it.

    >>> raw_move(4 | 6 << 6, two_steps=True) == 7 | 4 << 6
    True
    """
    origin, target = code & 63, code >> 6 & 63
    if two_steps:
        target = (origin & ~7) + (7 if target > origin else 0)
    return target | origin << 6 | code & 7 << 12


def written_move(raw: int) -> chess.Move | None:
    """Returns a raw move as it is written, castling as e1h1; None if its bits are no move at all.

    >>> written_move(chess.E1 << 6 | chess.H1).uci(), written_move(0), written_move(0x7000)
    ('e1h1', None, None)
    """
    promotion = raw >> 12
    source, target = raw >> 6 & 63, raw & 63
    if promotion > 4 or source == target:
        return None
    return chess.Move(source, target, promotion + 1 if promotion else None)


def legal_move(board: chess.Board, raw: int) -> chess.Move | None:
    """Returns the move that a raw move is in a position, castling as the position has it; None if illegal."""
    move = written_move(raw)
    if move is None:
        return None
    king = _CASTLING.get((move.from_square, move.to_square))
    if king is not None and board.kings & chess.BB_SQUARES[move.from_square]:
        castling = chess.Move(move.from_square, king)
        if board.is_castling(castling) and board.is_legal(castling):
            return castling
    return move if board.is_legal(move) else None


def child_keys(board: chess.Board, moves: Iterable[chess.Move], key: int) -> Iterator[tuple[chess.Move, int]]:
    """Yields pseudo-legal moves of a position, each with the Polyglot key after it; no move is made for most.

    Args:
      key: of the position itself.
    """
    if board.chess960:
        yield from ((move, _key_after(board, move)) for move in moves)
        return
    base = key ^ _TURN ^ (_HASHER.hash_ep_square(board) if board.ep_square is not None else 0)
    rights, turn = board.clean_castling_rights(), board.turn
    castling, first_rank = _castling_key(rights), chess.BB_RANK_1 if turn else chess.BB_RANK_8
    own, other = 64 * turn - 128, 64 * (not turn) - 128
    for move in moves:
        source, target = move.from_square, move.to_square
        kind = board.piece_type_at(source) or 0
        taken = board.piece_type_at(target)
        is_pawn = kind == chess.PAWN
        if (is_pawn and not taken and (source - target) % 8) or (
            kind == chess.KING and abs(source - target) == 2
        ):  # en passant, castling
            yield move, _key_after(board, move)
            continue
        placed = move.promotion or kind
        found = base ^ _RANDOM[128 * kind + own + source] ^ _RANDOM[128 * placed + own + target]
        if taken:
            found ^= _RANDOM[128 * taken + other + target]
        if rights:
            lost = first_rank if kind == chess.KING else chess.BB_SQUARES[source]
            found ^= castling ^ _castling_key(rights & ~(lost | chess.BB_SQUARES[target]))
        if is_pawn and abs(target - source) == 16:
            found ^= _double_push(board, target)
        yield move, found


@cache
def _castling_key(rights: int) -> int:
    corners = (chess.BB_H1, chess.BB_A1, chess.BB_H8, chess.BB_A8)
    return reduce(xor, (_RANDOM[768 + i] for i, corner in enumerate(corners) if rights & corner), 0)


def _key_after(board: chess.Board, move: chess.Move) -> int:
    after = board.copy(stack=False)
    after.push(move)
    return chess.polyglot.zobrist_hash(after)


def _double_push(board: chess.Board, target: int) -> int:
    """Returns what a pawn's double step adds to the key: something if an enemy pawn stands beside it now."""
    file = chess.square_file(target)
    beside = (chess.BB_SQUARES[target - 1] if file > 0 else 0) | (
        chess.BB_SQUARES[target + 1] if file < 7 else 0
    )
    enemies = board.pawns & board.occupied_co[not board.turn]
    return _RANDOM[772 + file] if beside & enemies else 0
