"""EPD problem sets: parses their lines, checks results against them, and writes results into them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import chess

from ..base.errors import InvalidPositionError
from ..position.board import fen_of
from ..position.notation import named_board
from .epd_import import operands, read_epd
from .importing import Problem

_MATE = re.compile(r"#(-?\d{1,4})")
_POINTS = re.compile(r"\s*([^\s=,]+)\s*=\s*(\d{1,6})\s*")  # a move and its points, in a list with commas
_UCI = re.compile(r"[a-h][1-8][a-h][1-8][nbrq]?")


@dataclass(frozen=True, slots=True)
class SetLine:
    """One position of a problem set, with its line number, its text, and the line as `read_epd` reads it."""

    number: int
    text: str
    board: chess.Board
    operations: dict[str, Any]
    faults: list[str]  # of operations that were left out

    @property
    def id(self) -> str:
        """The operand of `id`; empty without one."""
        return str(self.operations.get("id") or "")

    @property
    def points(self) -> dict[str, int]:
        """The points of each move, by UCI; empty if the line gives none.

        Parses both forms of the Strategic Test Suite: `c0 "f5=10, Be5+=2"`, and points in c8 with the moves
        in c9.

        >>> forms = 'c0 "e4=10, Kd2=3";', 'c8 "10 3"; c9 "e2e4 e1d2";', 'c0 "a comment";'
        >>> [one.points for one in read_set(f"4k3/8/8/8/8/8/4P3/4K3 w - - {form}" for form in forms)]
        [{'e2e4': 10, 'e1d2': 3}, {'e2e4': 10, 'e1d2': 3}, {}]
        """
        moves, points = (str(self.operations.get(name) or "").split() for name in ("c9", "c8"))
        if moves and len(moves) == len(points) and all(map(_UCI.fullmatch, moves)):
            return {move: int(one) for move, one in zip(moves, points, strict=True) if one.isdecimal()}
        found = [_POINTS.fullmatch(part) for part in str(self.operations.get("c0") or "").split(",")]
        try:
            return {self.board.parse_san(one[1]).uci(): int(one[2]) for one in found if one}
        except ValueError:
            return {}  # a comment


def read_set(lines: Iterable[str]) -> Iterator[SetLine | Problem]:
    """Yields the position of every line, or a `Problem` with the line; skips blank lines and comments (`#`).

    >>> [type(one).__name__ for one in read_set(["# two", "7k/8/8/8/8/8/8/K7 w - - bm Kb2;", "e4"])]
    ['SetLine', 'Problem']
    """
    for number, line in enumerate(lines, 1):
        text = line.strip().lstrip("\ufeff")
        if not text or text.startswith("#"):
            continue
        try:
            yield SetLine(number, text, *read_epd(text))
        except InvalidPositionError as error:
            yield Problem(number, str(error))


def is_solved(operations: Mapping[str, Any], mate: int | None, move: str | None) -> bool | None:
    """Returns whether a result solves a problem; None if the problem names no solution.

    A mate problem (`dm 3`, `bm #3`) is solved by a mate of at most that length for the same side. Otherwise
    the move must be one of `bm` and none of `am`.

    Args:
      operations: as `read_epd` returns them.
      mate: in moves, negative if the side to move is mated; None without one.
      move: the first move of the result, in UCI.

    >>> is_solved({"dm": 3}, 2, "a2a3"), is_solved({"bm": "#-1"}, None, None), is_solved({"id": "a"}, 1, None)
    (True, False, None)
    >>> is_solved({"bm": ["e2e4"]}, None, "e2e4"), is_solved({"am": ["e2e4"]}, None, "e2e4")
    (True, False)
    >>> is_solved({"bm": []}, None, "e2e4")  # `bm;` names no move
    """
    wanted = wanted_mate(operations)
    if wanted is not None:
        return mate is not None and mate * wanted >= 0 and abs(mate) <= abs(wanted)
    best, avoided = (operations.get(name) or () for name in ("bm", "am"))
    if not isinstance(best, list) and not isinstance(avoided, list):
        return None
    is_best = not isinstance(best, list) or move in best
    return move is not None and is_best and not (isinstance(avoided, list) and move in avoided)


def wanted_mate(operations: Mapping[str, Any]) -> int | None:
    """Returns the length of the mate that a problem asks for, in moves; None if it asks for none.

    >>> wanted_mate({"dm": 4}), wanted_mate({"bm": "#-2"}), wanted_mate({"bm": ["e2e4"]})
    (4, -2, None)
    """
    length, best = operations.get("dm"), operations.get("bm")
    if isinstance(length, int):
        return length
    found = _MATE.fullmatch(best) if isinstance(best, str) else None
    return int(found[1]) if found else None


def annotated(text: str, found: Mapping[str, str | None]) -> str:
    """Returns an EPD line with the operations in `found` replaced; None removes an operation.

    Raises:
      InvalidPositionError: if the text is not valid EPD.

    >>> annotated('7k/8/5K2/8/8/8/8/6Q1 w - - bm Qg7#; id "a"; dm 3;', {"dm": None, "pv": "Qg7#"})
    '7k/8/5K2/8/8/8/8/6Q1 w - - hmvc 0; fmvn 1; bm Qg7#; id "a"; pv Qg7#;'
    """
    board = named_board(text)
    clocks = f"hmvc {board.halfmove_clock}; fmvn {board.fullmove_number};"
    parts = [" ".join(fen_of(board).split()[:4]), clocks]
    for name, operand in operands(text):
        if name not in ("hmvc", "fmvn", *found):
            parts.append(f"{name} {operand};" if operand else f"{name};")
    return " ".join([*parts, *(f"{name} {operand};" for name, operand in found.items() if operand)])
