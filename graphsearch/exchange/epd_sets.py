"""Sets of problems in EPD: whether a result is the one that a line names, and the line with the result."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import chess

from ..position.board import fen_of
from ..position.lines import sans_of
from .epd_import import operands, read_epd

_MATE = re.compile(r"#(-?\d{1,4})")


def is_solved(operations: Mapping[str, Any], mate: int | None, move: str | None) -> bool | None:
    """Returns whether a result is the one that the operations of a line name; None if they name none.

    A mate (`dm 3`, `bm #3`) is found if it is that long or shorter, for the same side. Otherwise the move
    has to be one of `bm`, and none of `am`.

    Args:
      operations: as `read_epd` returns them.
      mate: in moves, negative if the side to move is mated; None without one.
      move: the first move of the result, in UCI.

    >>> is_solved({"dm": 3}, 2, "a2a3"), is_solved({"bm": "#-1"}, None, None), is_solved({"id": "a"}, 1, None)
    (True, False, None)
    >>> is_solved({"bm": ["e2e4"]}, None, "e2e4"), is_solved({"am": ["e2e4"]}, None, "e2e4")
    (True, False)
    """
    wanted = wanted_mate(operations)
    if wanted is not None:
        return mate is not None and mate * wanted >= 0 and abs(mate) <= abs(wanted)
    best, avoided = operations.get("bm"), operations.get("am")
    if not isinstance(best, list) and not isinstance(avoided, list):
        return None
    is_best = not isinstance(best, list) or move in best
    return move is not None and is_best and not (isinstance(avoided, list) and move in avoided)


def wanted_mate(operations: Mapping[str, Any]) -> int | None:
    """Returns the mate that the operations of a line name, in moves; None if they name none.

    >>> wanted_mate({"dm": 4}), wanted_mate({"bm": "#-2"}), wanted_mate({"bm": ["e2e4"]})
    (4, -2, None)
    """
    length, best = operations.get("dm"), operations.get("bm")
    if isinstance(length, int):
        return length
    found = _MATE.fullmatch(best) if isinstance(best, str) else None
    return int(found[1]) if found else None


def annotated(text: str, mate: int | None, line: list[chess.Move]) -> str:
    """Returns a line of EPD with a result: `dm` and `pv` take the place of those that it has.

    Args:
      mate: for the side to move, in moves; None, or below 1, writes no `dm`. line: the moves of the result.

    Raises:
      InvalidPositionError: if the text is no line of EPD.

    >>> annotated("7k/8/5K2/8/8/8/8/6Q1 w - - bm Qg7#; id \\"a\\";", 1, [chess.Move.from_uci("g1g7")])
    '7k/8/5K2/8/8/8/8/6Q1 w - - hmvc 0; fmvn 1; bm Qg7#; id "a"; dm 1; pv Qg7#;'
    """
    board, _ = read_epd(text)
    clocks = f"hmvc {board.halfmove_clock}; fmvn {board.fullmove_number};"
    found = [" ".join(fen_of(board).split()[:4]), clocks]
    for name, operand in operands(text):
        if name not in ("hmvc", "fmvn", "dm", "pv"):
            found.append(f"{name} {operand};" if operand else f"{name};")
    if mate is not None and mate > 0:
        found.append(f"dm {mate};")
    if line:
        found.append(f"pv {' '.join(sans_of(board, line))};")
    return " ".join(found)
