"""Imports positions of EPD files into a graph file, with their operations."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import chess

from ..base.errors import InvalidPositionError
from ..base.limits import shortened
from ..position.board import MAX_MOVE_NUMBER, board_of, check, fen_of, key_text
from ..position.notation import check_length
from ..position.pgn_text import as_text
from ..store.tables import games as tables
from .importing import FileReport, Importing, ImportKind, OnProgress, Problem, import_files, open_for_import
from .sources import GivenFile, Input

KIND = "epd"
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
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')

Operations = dict[str, Any]


def import_epd(
    path: str | os.PathLike[str],
    files: Sequence[GivenFile],
    *,
    again: bool = False,
    stop: threading.Event | None = None,
    on_progress: OnProgress | None = None,
) -> list[FileReport]:
    """Imports the positions of EPD files into a graph file; makes the file if it is missing.

    Args:
      again: also import files that were imported before.
      stop: set it, from any thread or a signal handler, to save and return.

    Raises:
      StoreError: if the graph file cannot be written; earlier transactions stay.
    """
    with open_for_import(path) as store:
        job = ImportKind(kind=KIND, read=_read_lines, options={}, again=again)
        return import_files(store, files, job, stop=stop, on_progress=on_progress)


def _read_lines(importing: Importing, given: Input) -> None:
    """Imports the lines of a file that are not imported yet."""
    report, rows, passed = importing.report, list[tables.EpdRow](), 0
    finished = False
    try:
        for number, line in enumerate(given.lines(), start=1):
            text = as_text(line).strip()
            passed += bool(text)
            if text and not text.startswith("#") and passed > importing.before:
                _add_line(importing, number, text, rows)
            if len(rows) >= LINES_AT_ONCE:
                _save(importing, rows)
            importing.show_progress()
            if importing.stopped:
                return
        finished = True
    finally:
        _save(importing, rows, finished=finished)
        if finished and not report.done:
            report.notes.append("it has no positions")


def _add_line(importing: Importing, number: int, text: str, rows: list[tables.EpdRow]) -> None:
    try:
        board, operations = read_epd(text)
    except InvalidPositionError as error:
        importing.report.problems.append(Problem(number, str(error)))
        importing.report.skipped += 1
        return
    key = key_text(board)
    rows.append((importing.source.id, number, key, fen_of(board), json.dumps(operations, ensure_ascii=False)))
    importing.report.taken += 1


def _save(importing: Importing, rows: list[tables.EpdRow], *, finished: bool = False) -> None:
    importing.save(lambda store: tables.add_epd(store, rows), finished=finished)
    rows.clear()


def read_epd(text: str) -> tuple[chess.Board, Operations]:
    """Returns the position of an EPD line, its clocks from `hmvc` and `fmvn`, and its operations.

    Moves of `bm`, `am` and `pv` become lists of UCI; a single number or quoted string becomes a number or
    string; other operands stay text, also mates such as `bm #3`; an operation without an operand is None. The
    two clocks of a FEN may follow the four fields.

    Raises:
      InvalidPositionError: if any part is invalid.

    >>> board, operations = read_epd('4k3/8/8/8/8/8/4P3/4K3 w - - bm e4 Kd2; ce 31; id "a";')
    >>> operations
    {'bm': ['e2e4', 'e1d2'], 'ce': 31, 'id': 'a'}
    """
    check_length(text)
    fields = text.split(None, 4)
    if len(fields) < 4:
        raise InvalidPositionError(
            f"an EPD line must begin with the four fields of a position, not {len(fields)}: {text[:60]}"
        )
    clocks, rest = _clocks_and_rest(fields)
    board = _board(" ".join(fields[:4]), clocks)
    operations = {name: _value(board, name, operand) for name, operand in _split(rest)}
    _set_clocks(board, operations)
    check(board)
    return board, operations


def operands(text: str) -> list[tuple[str, str | None]]:
    """Returns the operations of an EPD line as (name, operand text), None without an operand.

    Raises:
      InvalidPositionError: if they are invalid.

    >>> operands('4k3/8/8/8/8/8/4P3/4K3 w - - 0 1 bm e4 Kd2; draw_offer;')
    [('bm', 'e4 Kd2'), ('draw_offer', None)]
    """
    return _split(_clocks_and_rest(text.split(None, 4))[1])


def _clocks_and_rest(fields: list[str]) -> tuple[tuple[str, str], str]:
    """Returns the clocks after the four fields (default 0 and 1), and the rest of the line."""
    rest = fields[4] if len(fields) > 4 else ""
    clocks = re.match(r"(\d+)\s+(\d+)(?=\s|;|$)\s*;?", rest, re.ASCII)
    return ((clocks[1], clocks[2]), rest[clocks.end() :]) if clocks else (("0", "1"), rest)


def _board(position: str, clocks: tuple[str, str]) -> chess.Board:
    try:
        board = board_of(" ".join((position, *clocks)))
    except ValueError as error:
        raise InvalidPositionError(f"{shortened(str(error), 200)}: {shortened(position)}") from None
    check(board)
    return board


def _split(rest: str) -> list[tuple[str, str | None]]:
    """Returns the operations of a line as (name, operand) pairs."""
    found: list[tuple[str, str | None]] = []
    at = 0
    while rest[at:].strip(" \t;"):
        match = _OPERATION.match(rest, at)
        if match is None:
            raise InvalidPositionError(f"not an EPD operation: {rest[at:].strip()[:60]}")
        name, operand = match[1], match[2]
        if any(name == other for other, _ in found):
            raise InvalidPositionError(f"the operation {name} appears twice")
        found.append((name, operand.strip() if operand and operand.strip() else None))
        at = match.end()
    return found


def _value(board: chess.Board, name: str, operand: str | None) -> object:
    if name in MOVE_LISTS and not (operand and _MATE.fullmatch(operand)):
        return _moves(board, name, (operand or "").split())
    if operand is None:
        return None
    if operand.startswith('"'):
        found = _STRING.fullmatch(operand)
        return re.sub(r"\\(.)", r"\1", found[1]) if found else operand
    if _NUMBER.fullmatch(operand) and len(operand) <= 18:
        return float(operand) if re.search(r"[.eE]", operand) else int(operand)
    return operand


def _moves(board: chess.Board, name: str, words: list[str]) -> list[str]:
    """Returns moves in UCI; the moves of a `pv` are played one after the other."""
    at, found = board.copy(stack=False), []
    for word in words:
        try:
            move = at.parse_san(word)
        except ValueError as error:
            raise InvalidPositionError(f"{name}: {error}") from None
        if not move:
            raise InvalidPositionError(f"{name}: a null move ({word})")
        found.append(move.uci())
        if name == "pv":
            at.push(move)
    return found


def _set_clocks(board: chess.Board, operations: Mapping[str, Any]) -> None:
    for name, low in (("hmvc", 0), ("fmvn", 1)):
        value = operations.get(name, low)
        if not isinstance(value, int) or not low <= value < MAX_MOVE_NUMBER:
            raise InvalidPositionError(f"{name} must be a number of at least {low}, not {value}")
        if name in operations and name == "hmvc":
            board.halfmove_clock = value
        elif name in operations:
            board.fullmove_number = value
