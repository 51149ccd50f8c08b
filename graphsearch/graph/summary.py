"""The well-visited part of a graph as plain rows, for SQLite tools that know nothing of records."""

from __future__ import annotations

from collections import deque
from typing import Any

import chess

from .view import MoveView, NodeView, Reader, view

Row = dict[str, Any]

TOP_NODES = 100  # positions kept
TOP_SHARE = 200  # a move is followed if it has the root's N divided by this


def top_rows(read: Reader, root: chess.Board) -> tuple[list[Row], list[Row]]:
    """Returns rows of `top_position` and `top_edge`: the most visited positions below a root."""
    positions: dict[str, Row] = {}
    edges: list[Row] = []
    least = 0
    queue = deque([root])
    while queue and len(positions) < TOP_NODES:
        board = queue.popleft()
        node = view(read, board, lines=0)
        if node is None or f"{node.key:016x}" in positions:
            continue
        least = least or max(2, node.visits // TOP_SHARE)
        positions[f"{node.key:016x}"] = _position_row(node)
        edges += [_edge_row(node, move) for move in node.moves if move.n]
        queue.extend(_after(board, move) for move in node.moves if move.n >= least)
    return list(positions.values()), edges


def _after(board: chess.Board, move: MoveView) -> chess.Board:
    child = board.copy(stack=False)
    child.push(move.move)
    return child


def _position_row(node: NodeView) -> Row:
    return {
        "key": f"{node.key:016x}",
        "fen": node.position,
        "n": node.visits,
        "q": node.q,
        "win": node.wdl.win,
        "draw": node.wdl.draw,
        "loss": node.wdl.loss,
        "best_move": node.moves[0].move.uci() if node.moves else None,
    }


def _edge_row(node: NodeView, move: MoveView) -> Row:
    return {
        "key": f"{node.key:016x}",
        "move": move.move.uci(),
        "san": move.san,
        "n": move.n,
        "p": move.p,
        "q": move.q,
        "draw": move.wdl.draw if move.wdl else None,
    }
