"""Distance to mate of king and queen against king: retrograde analysis with numpy, without any kernel."""

from __future__ import annotations

import chess
import numpy as np
from numpy.typing import NDArray

NEVER = 99
Plies = NDArray[np.int8]
Mask = NDArray[np.bool_]

KING = np.array([[b in chess.SquareSet(chess.BB_KING_ATTACKS[a]) for b in range(64)] for a in range(64)])
NEAR = KING | np.eye(64, dtype=bool)
LINE = np.array(
    [
        [a != b and bool(chess.BB_RANK_ATTACKS[a][0] & 1 << b or chess.BB_FILE_ATTACKS[a][0] & 1 << b
                         or chess.BB_DIAG_ATTACKS[a][0] & 1 << b) for b in range(64)]
        for a in range(64)
    ]
)  # fmt: skip
BETWEEN = np.array(
    [[[bool(chess.between(a, b) >> s & 1) for s in range(64)] for b in range(64)] for a in range(64)]
)


def retrograde() -> tuple[Plies, Plies]:
    """Returns plies to mate, `[white king, queen, black king]`, with White and with Black to move."""
    # the queen attacks s past her own king: [king, queen, s]
    attacks = LINE[None, :, :] & ~BETWEEN.transpose(2, 0, 1)
    apart = ~NEAR[:, None, :] & ~np.eye(64, dtype=bool)[:, :, None] & ~np.eye(64, dtype=bool)[None, :, :]
    white, black = np.full((64, 64, 64), NEVER, np.int8), np.full((64, 64, 64), NEVER, np.int8)
    can_go = _black_steps(attacks)
    moves = sum(step.astype(np.int8) for step in can_go.values())
    black[apart & attacks & (moves == 0)] = 0
    legal = apart & ~attacks  # with White to move Black is not in check
    for plies in range(1, 25, 2):
        reached = _white_moves(black == plies - 1)
        white[legal & reached & (white == NEVER)] = plies
        lost = apart & (moves > 0) & (black == NEVER)
        for target, step in can_go.items():  # every step is into a position that White has won
            lost &= ~step | (white[:, :, target] <= plies)[:, :, None]
        black[lost] = plies + 1
    return white, black


def _black_steps(attacks: Mask) -> dict[int, Mask]:
    """Returns, by target, where the black king may go there: `[white king, queen, black king]`."""
    steps = {}
    for target in range(64):
        free = ~NEAR[:, target][:, None] & ~attacks[:, :, target]
        free[:, target] = ~NEAR[:, target]  # takes the queen unless the king guards her; then it is no win
        steps[target] = free[:, :, None] & KING[target][None, None, :]
    return steps


def _white_moves(lost: Mask) -> Mask:
    """Returns from where White has a move into some positions."""
    found = np.zeros_like(lost)
    for a in range(64):
        for b in np.flatnonzero(KING[a]):
            found[a] |= lost[b]
        for b in np.flatnonzero(LINE[a]):
            # from a to b, unless a king stands between
            free = ~BETWEEN[a, b][:, None] & ~BETWEEN[a, b][None, :]
            found[:, a] |= lost[:, b] & free
    return found


def board_of(king: int, queen: int, lone: int, turn: chess.Color) -> chess.Board:
    """Returns the position with White's king and queen and Black's king on these squares."""
    board = chess.Board(None)
    board.set_piece_at(king, chess.Piece(chess.KING, chess.WHITE))
    board.set_piece_at(queen, chess.Piece(chess.QUEEN, chess.WHITE))
    board.set_piece_at(lone, chess.Piece(chess.KING, chess.BLACK))
    board.turn = turn
    return board
