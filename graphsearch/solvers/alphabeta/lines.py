"""Extends a principal variation by entries, where the search ended it in one."""

from __future__ import annotations

import chess

from ...store.record.transposition import EntryTable


def continued(table: EntryTable, board: chess.Board, most: int) -> list[chess.Move]:
    """Returns the moves that entries give from a position on, at most `most`.

    The best moves of exact values; in a proven mate the winner's move and the defence that lasts longest.
    """
    game = board.copy(stack=False)
    line: list[chess.Move] = []
    while len(line) < most:
        move = _next_move(table, game)
        if move is None or move not in game.legal_moves:  # of another position with the same key
            break
        line.append(move)
        game.push(move)
        if game.is_repetition(2):
            break
    return line


def _next_move(table: EntryTable, board: chess.Board) -> chess.Move | None:
    entry = table.get(board)
    if entry is None:
        return None
    plies = entry.mate_plies
    if plies is None:
        return entry.move if entry.bound == "exact" else None
    return entry.move if plies > 0 else _longest_defence(table, board) or entry.move


def _longest_defence(table: EntryTable, board: chess.Board) -> chess.Move | None:
    """Returns the defence that lasts longest by the entries; None if they do not cover every move."""
    lasts: dict[chess.Move, int] = {}
    for move in list(board.legal_moves):
        board.push(move)
        entry = table.get(board)
        board.pop()
        plies = entry.mate_plies if entry else None
        if plies is None or plies <= 0:
            return None
        lasts[move] = plies
    return max(lasts, key=lambda move: lasts[move], default=None)
