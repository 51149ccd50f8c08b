"""A board beside a table as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import chess.svg

from .board import board_of

BOARD_PIXELS = 200


def board_and_table(title: str, position: str, rows: Sequence[Mapping[str, str]]) -> str:
    """Returns a position, given as FEN, and a table as HTML; the keys of the first row name the columns.

    >>> text = board_and_table("a < b", "8/8/8/8/8/k7/8/K7 w - - 0 1", [{"Move": "Kb1"}])
    >>> "a &lt; b" in text, "<td>Kb1</td>" in text, "<svg" in text
    (True, True, True)
    """
    board = board_of(position)
    drawn = chess.svg.board(board, size=BOARD_PIXELS, orientation=board.turn)
    head = "".join(f"<th>{escape(name)}</th>" for name in (rows[0] if rows else ()))
    body = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row.values())}</tr>" for row in rows)
    table = f"<table><tr>{head}</tr>{body}</table>"
    return f'<div>{escape(title)}</div><div style="display:flex;gap:1em">{drawn}{table}</div>'
