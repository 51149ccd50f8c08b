"""Reads EPD: imports positions with their operations, and checks results of problem sets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

import chess

from ..base.errors import InvalidPositionError
from ..base.limits import shortened
from ..position.board import fen_of, key_text
from ..position.notation import clocks_and_operations, fields_of, named_board, play_moves, read_moves
from ..store.tables import games as tables
from .importing import Importing, Input, Problem

LINES_AT_ONCE = 10_000  # per transaction
MOVE_LISTS = frozenset({"am", "bm", "pv"})

_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?([eE][-+]?\d+)?", re.ASCII)
_MATE = re.compile(r"#[-+]?\d+", re.ASCII)
# atomic groups prevent catastrophic backtracking on invalid text with many blanks. Possessive quantifiers
# would too, but with them Python 3.11.2 accepts `"open`
_OPERATION = re.compile(
    r"""(?>\s*)([A-Za-z](?>\w*))(?>(?:\s(?>\s*)((?>(?:"(?>(?:[^"\\]|\\.)*)"|[^";])*)))?)(?>\s*)(;|$)""",
    re.ASCII,
)
_UNCLOSED = re.compile(r"\s*([A-Za-z]\w*)\s+([^;]*?)\s*(?:;|$)", re.ASCII)  # a quote that does not end
_MATE_IN = re.compile(r"#(-?\d{1,4})")
_POINTS = re.compile(r"\s*([^\s=,]+)\s*=\s*(\d{1,6})\s*")  # a move and its points, in a list with commas
_UCI = re.compile(r"[a-h][1-8][a-h][1-8][nbrq]?")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')

Operations = dict[str, Any]


class EpdLine(NamedTuple):
    """A line of EPD; `operations` by name, as `read_epd` describes them; `faults` of those left out."""

    text: str
    number: int
    board: chess.Board
    operations: Operations
    faults: list[str]

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


def read_positions(importing: Importing, given: Input) -> None:
    """Imports the positions of an EPD file."""
    report, rows, finished = importing.report, list[tables.EpdRow](), False

    def save() -> None:
        importing.save(lambda store: tables.add_epd(store, rows), finished=finished)
        rows.clear()

    try:
        for found in read_set(given.lines(), passed=importing.before):
            if isinstance(found, Problem):
                report.problems.append(found)
                report.skipped += 1
            else:
                report.problems += [Problem(found.number, fault) for fault in found.faults]
                operations = json.dumps(found.operations, ensure_ascii=False)
                fen, key = fen_of(found.board), key_text(found.board)
                rows.append((importing.source.id, found.number, key, fen, operations))
                report.taken += 1
            if len(rows) >= LINES_AT_ONCE:
                save()
            importing.show_progress()
            if importing.stop.is_set():
                return
        finished = True
    finally:
        save()
        if finished and not report.done:
            report.notes.append("it has no positions")


def read_epd(text: str, number: int = 1) -> EpdLine:
    """Returns the position of an EPD line, as `named_board` reads it, and its operations.

    Moves of `bm`, `am` and `pv` become lists of UCI; a single number or quoted string becomes a number or
    string; other operands stay text, also mates such as `bm #3`; an operation without an operand is None. The
    last operation needs no semicolon; a quote that does not end ends at the next one. `faults` names the
    operations that cannot be read and are left out. Of two with one name the last one counts.

    Raises:
      InvalidPositionError: if the line has no legal position.

    >>> read_epd('4k3/8/8/8/8/8/4P3/4K3 w - - bm e4 Kd2; ce 31; id "a').operations
    {'bm': ['e2e4', 'e1d2'], 'ce': 31, 'id': 'a'}
    >>> read_epd("4k3/8/8/8/8/8/4P3/4K3 w - - bm e4; am Qh5;").faults
    ["am: move 1 of the list, 'Qh5', is illegal in 4k3/8/8/8/8/8/4P3/4K3 w - - 0 1; it is ignored"]
    """
    board = named_board(text)
    found, reasons = _split(text)
    operations: Operations = {}
    for name, operand in found:
        if name in operations:
            reasons.append(f"the operation {name} appears twice; the first one is ignored")
        try:
            operations[name] = _value(board, name, operand)
        except InvalidPositionError as error:
            reasons.append(f"{name}: {error}; it is ignored")
    return EpdLine(text, number, board, operations, reasons)


def _split(text: str) -> tuple[list[tuple[str, str | None]], list[str]]:
    """Returns the operations of a line as (name, operand) pairs, and the faults of the text between them."""
    rest = clocks_and_operations(fields_of(text)[1])[1]
    found, faults = list[tuple[str, str | None]](), list[str]()
    at = 0
    while rest[at:].strip(" \t;"):
        match = _OPERATION.match(rest, at)
        unclosed = None if match else _UNCLOSED.match(rest, at)
        if match:
            found.append((match[1], (match[2] or "").strip() or None))
        elif unclosed:
            found.append((unclosed[1], f'{unclosed[2]}"'))
        else:
            faults.append(f"not an EPD operation: {shortened(rest[at:].partition(';')[0].strip(), 60)}")
        end = match or unclosed
        at = end.end() if end else (rest.find(";", at) + 1 or len(rest))
    return found, faults


def _value(board: chess.Board, name: str, operand: str | None) -> object:
    if name in MOVE_LISTS and not (operand and _MATE.fullmatch(operand)):
        return _moves(board, name, operand or "")
    if operand is None:
        return None
    if operand.startswith('"'):
        found = _STRING.fullmatch(operand)
        return re.sub(r"\\(.)", r"\1", found[1]) if found else operand
    if _NUMBER.fullmatch(operand) and len(operand) <= 18:
        return float(operand) if re.search(r"[.eE]", operand) else int(operand)
    return operand


def _moves(board: chess.Board, name: str, text: str) -> list[str]:
    """Returns moves in UCI; the moves of a `pv` are played one after the other."""
    text = text.strip('"')
    if name != "pv":
        return [move.uci() for move in read_moves(board, text)] if text else []
    at = board.copy(stack=False)
    play_moves(at, text)
    return [move.uci() for move in at.move_stack]


# ------------------------------------------------------------------ problem sets
def read_set(lines: Iterable[str], *, passed: int = 0) -> Iterator[EpdLine | Problem]:
    """Yields the position of every line, or a `Problem` with the line; skips blank lines and comments (`#`).

    Args:
      passed: number of positions at the beginning to pass over unread.

    >>> [type(one).__name__ for one in read_set(["# two", "7k/8/8/8/8/8/8/K7 w - - bm Kb2;", "e4"])]
    ['EpdLine', 'Problem']
    """
    texts = ((number, line.strip().lstrip("\ufeff")) for number, line in enumerate(lines, 1))
    positions = ((number, text) for number, text in texts if text and not text.startswith("#"))
    for number, text in islice(positions, passed, None):
        try:
            yield read_epd(text, number)
        except InvalidPositionError as error:
            yield Problem(number, str(error))


def is_solved(operations: Mapping[str, Any], mate: int | None, move: str | None) -> bool | None:
    """Returns whether a result solves a problem; None if the problem names no solution.

    A mate problem (`dm 3`, `bm #3`) is solved by a mate of at most that length for the same side. Otherwise
    the move must be one of `bm` and none of `am`.

    Args:
      mate: in moves, negative if the side to move is mated; None without one.
      move: the first move of the result, in UCI.

    >>> is_solved({"dm": 3}, 2, "a2a3"), is_solved({"bm": "#-1"}, None, None), is_solved({"id": "a"}, 1, None)
    (True, False, None)
    >>> is_solved({"bm": ["e2e4"]}, None, "e2e4"), is_solved({"am": ["e2e4"]}, None, "e2e4")
    (True, False)
    >>> is_solved({"bm": []}, None, "e2e4")  # `bm;` names no move
    """
    wanted, best, avoided = (operations.get(name) for name in ("dm", "bm", "am"))
    if not isinstance(wanted, int) and isinstance(best, str) and (named := _MATE_IN.fullmatch(best)):
        wanted = int(named[1])
    if isinstance(wanted, int):
        return mate is not None and mate * wanted >= 0 and abs(mate) <= abs(wanted)
    best, avoided = best or (), avoided or ()
    if not isinstance(best, list) and not isinstance(avoided, list):
        return None
    is_best = not isinstance(best, list) or move in best
    return move is not None and is_best and not (isinstance(avoided, list) and move in avoided)


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
    for name, operand in _split(text)[0]:
        if name not in ("hmvc", "fmvn", *found):
            parts.append(f"{name} {operand};" if operand else f"{name};")
    return " ".join([*parts, *(f"{name} {operand};" for name, operand in found.items() if operand)])
