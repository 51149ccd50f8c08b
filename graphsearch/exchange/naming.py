"""Key and FEN of many similar boards, in a quarter of the time of `key_of` and `chess.Board.fen`.

A board is looked at rank by rank; the same ranks come up again and again.
"""

from __future__ import annotations

import chess
import chess.polyglot

from ..position.board import castling_fields, clock_term, text_of_key

MAX_RANKS = 50_000  # remembered of each rank: some 10 MB

Rank = tuple[int, ...]  # 8 bits each: pawns, knights, bishops, rooks, queens, kings, White's men

_HASHER = chess.polyglot.ZobristHasher(chess.polyglot.POLYGLOT_RANDOM_ARRAY)
_CORNERS = ((chess.BB_H1, "K"), (chess.BB_A1, "Q"), (chess.BB_H8, "k"), (chess.BB_A8, "q"))
_RANDOM = chess.polyglot.POLYGLOT_RANDOM_ARRAY


class PositionNames:
    """Names boards.

    >>> PositionNames().name(chess.Board())
    ('463b96181691fc9c', 'rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1')
    """

    def __init__(self) -> None:
        self._ranks: list[dict[Rank, tuple[int, str]]] = [{} for _ in range(8)]
        self._castling: dict[int, tuple[int, str]] = {}

    def name(self, board: chess.Board) -> tuple[str, str]:
        """Returns the key of a board as text, and its FEN."""
        key, texts = 0, []
        for ranks, rank, index in zip(self._ranks, _ranks(board), range(7, -1, -1), strict=True):
            found = ranks.get(rank)
            if found is None:
                if len(ranks) >= MAX_RANKS:
                    ranks.clear()
                found = ranks[rank] = _of_rank(rank, index)
            key ^= found[0]
            texts.append(found[1])
        castling = self._of_castling(board)
        ep = "-"
        if board.ep_square is not None:
            key ^= _HASHER.hash_ep_square(board)
            ep = chess.SQUARE_NAMES[board.ep_square] if board.has_pseudo_legal_en_passant() else "-"
        key ^= castling[0] ^ _HASHER.hash_turn(board) ^ clock_term(board.halfmove_clock)
        side = "w" if board.turn else "b"
        clocks = f"{board.halfmove_clock} {board.fullmove_number}"
        text = text_of_key(key, castling_fields(board) if board.chess960 else 0)
        return text, f"{'/'.join(texts)} {side} {castling[1]} {ep} {clocks}"

    def _of_castling(self, board: chess.Board) -> tuple[int, str]:
        if board.chess960:  # what a rook's square means depends on the king
            return _HASHER.hash_castling(board), board.castling_xfen()
        rights = board.clean_castling_rights()
        found = self._castling.get(rights)
        if found is None:
            text = "".join(letter for corner, letter in _CORNERS if rights & corner) or "-"
            found = self._castling[rights] = (_HASHER.hash_castling(board), text)
        return found


def _ranks(board: chess.Board) -> zip[Rank]:
    """Returns the eight ranks of a board, the last one first."""
    men = (board.pawns, board.knights, board.bishops, board.rooks, board.queens, board.kings)
    return zip(*(bits.to_bytes(8, "big") for bits in (*men, board.occupied_co[chess.WHITE])), strict=True)


def _of_rank(rank: Rank, index: int) -> tuple[int, str]:
    """Returns what a rank adds to the key (by XOR), and its text in a FEN."""
    key, text = 0, ""
    *kinds, white = rank
    for file in range(8):
        bit = 1 << file
        kind = next((k for k, bits in enumerate(kinds) if bits & bit), None)
        if kind is None:
            text += "1"
            continue
        is_white = bool(white & bit)
        key ^= _RANDOM[64 * (2 * kind + is_white) + 8 * index + file]
        text += chess.Piece(kind + 1, is_white).symbol()
    for run in range(8, 1, -1):
        text = text.replace("1" * run, str(run))
    return key, text
