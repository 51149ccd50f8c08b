"""Writes the tables of queen against rook and of a pawn by retrograde analysis: `python -m tools.endings`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from graphsearch.evaluators.builtin import evaluator
from graphsearch.evaluators.endings_kernel import KING_PLACES, MOST_PLIES, PLACES, QUEEN_PLACES, place_of
from graphsearch.jit.compiler import inner, kernel
from graphsearch.jit.pointers import U, adv, popc, ptr, view
from graphsearch.jit.types import Pointer, int64, uint8, uint16, uint64
from graphsearch.position import board_kernel as rules
from graphsearch.position.board import BLACK, KINGS, META, PAWNS, QUEENS, ROOKS, WHITE, BoardTable, Position
from graphsearch.position.tables import load_tables

CORNER = np.array([0, 1, 9, 2, 10, 18, 3, 11, 19, 27], np.int64)  # squares of the king of the rook


@inner
def put(s: Position, at: int64) -> bool:
    """Writes the position of a place, White having the queen or pawn; returns whether men can stand so."""
    first, second, third = U(1) << U(at >> 12 & 63), U(1) << U(at >> 6 & 63), U(1) << U(at & 63)
    if at < QUEEN_PLACES:
        loses, weak_king = (at >> 18) // KING_PLACES, U(1) << U(CORNER[(at >> 18) % KING_PLACES])
        s[PAWNS], s[QUEENS], s[ROOKS], king = U(0), third, second, first
    else:
        loses, weak_king = at >> 17 & 1, U(1) << U((at >> 14 & 7) << 3 | at >> 12 & 3)
        s[PAWNS], s[QUEENS], s[ROOKS], king = third & ~rules.LAST_RANKS, U(0), U(0), second
    s[WHITE], s[BLACK] = s[PAWNS] | s[QUEENS] | king, s[ROOKS] | weak_king
    s[KINGS], s[META] = king | weak_king, U(loses)
    return popc(s[WHITE] | s[BLACK]) == (4 if at < QUEEN_PLACES else 3)


@inner
def is_won_bare(tables: BoardTable, s: Position, moves: Pointer[uint16], after: Position) -> bool:
    """Returns whether a bare king, to move, can neither take the queen or rook nor is stalemated."""
    n = rules.generate_moves(tables, s, moves)
    for i in range(n):
        rules.make_move(tables, s, after, moves[i])
        if popc(after[WHITE]) == 1:
            return False
    return n > 0 or rules.in_check(tables, s)


@inner
def entry_of(tables: BoardTable, s: Position, found: Pointer[uint8], work: Pointer[uint64]) -> int64:
    """Returns the entry of a position by those of the positions after its moves, 0 if it is not won yet."""
    child, grandchild = work, adv(work, int64(10))
    moves, replies = view(uint16, adv(work, int64(20))), view(uint16, adv(work, int64(60)))
    loses = rules.side_to_move(s) == 1
    n, best = rules.generate_moves(tables, s, moves), int64(0)
    for i in range(n):
        rules.make_move(tables, s, child, moves[i])
        if popc(child[WHITE]) == 1:
            return int64(0)
        if not child[ROOKS] & child[BLACK] | child[PAWNS]:
            if child[QUEENS] | child[ROOKS] and is_won_bare(tables, child, replies, grandchild):
                return int64(2)
            continue
        entry = int64(found[place_of(child, child[BLACK], child[WHITE], not loses)])
        if loses and not entry:
            return int64(0)
        if entry and (loses or not best or entry + 1 < best):
            best = max(best, entry + 1) if loses else entry + 1
    return int64(rules.in_check(tables, s)) if loses and not n else best


@kernel
def add_ply(
    tables: NDArray[np.uint64], found: NDArray[np.uint8], entry: int64, words: NDArray[np.uint64]
) -> None:
    """Writes the entries of this number."""
    t, s = ptr(tables, 0), ptr(words, 0)
    for at in range(len(found)):
        if not found[at] and put(s, at) and s[META] == U(entry & 1):
            s[META] ^= U(1)
            is_legal = not rules.in_check(t, s)
            s[META] ^= U(1)
            if is_legal and entry_of(t, s, view(uint8, ptr(found, 0)), ptr(words, 10)) == entry:
                found[at] = entry


if __name__ == "__main__":
    made, area = np.zeros(PLACES, np.uint8), np.zeros(110, np.uint64)
    for plies in range(MOST_PLIES):
        add_ply(load_tables(), made, plies + 1, area)
    Path(evaluator.__file__).with_name(evaluator.ENDINGS_FILE).write_bytes(made.tobytes())
