"""Parses the commands of a GUI, with notes on what is wrong and left out, and writes lines to it."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import TextIO

import chess

from ..base.errors import InvalidPositionError
from ..base.limits import DIGITS, SECONDS, shortened
from ..base.system import WITHOUT_WAITING
from ..position.notation import board_from_fen, check_length, read_legal_uci

NUMBERS = ("wtime", "btime", "winc", "binc", "movestogo", "depth", "nodes", "mate", "movetime")
FLAGS = ("ponder", "infinite")
TIMES = ("wtime", "btime", "winc", "binc", "movetime")  # milliseconds
ENDS = {"wtime", "btime", "depth", "nodes", "mate", "movetime"}  # limits that end a search
CASTLING_LETTERS = "KQABCDEFGH"
LONGEST_INFO = 2000  # characters of a message
LARGEST = {word: 1000 * SECONDS.most if word in TIMES else 10**15 for word in NUMBERS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Go:
    """One `go`: milliseconds, counts and moves as given; `notes` lists ignored words."""

    searchmoves: tuple[str, ...] = ()
    ponder: bool = False
    infinite: bool = False
    wtime: int | None = None
    btime: int | None = None
    winc: int | None = None
    binc: int | None = None
    movestogo: int | None = None
    depth: int | None = None
    nodes: int | None = None
    mate: int | None = None
    movetime: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_limited(self) -> bool:
        """Whether the search ends without `stop`."""
        return not self.infinite and any(getattr(self, word) is not None for word in ENDS)


def parse_go(words: list[str]) -> Go:
    """Returns the limits of a `go`, from the words after it.

    A limit that cannot be read is ignored; without any other one the answer comes at once, as for `nodes 0`.

    >>> parse_go("wtime 1000 btime 900 searchmoves e2e4 d2d4 nodes x".split()).searchmoves
    ('e2e4', 'd2d4')
    """
    found: dict[str, int | bool] = {}
    moves: list[str] = []
    notes: list[str] = []
    i = 0
    while i < len(words):
        word = words[i].lower()
        i += 1
        if word in FLAGS:
            found[word] = True
        elif word in NUMBERS:
            given = words[i] if i < len(words) and words[i].lower() not in _KEYWORDS else ""
            number = _number(given)
            if number is None:
                notes.append(f"go: {word} needs a number; it is ignored")
            else:
                found[word] = max(-LARGEST[word], min(number, LARGEST[word]))
                if found[word] != number:
                    notes.append(f"go: {word} {shortened(given)} is too much; {found[word]} is used")
            i += bool(given)
        elif word == "searchmoves":
            while i < len(words) and words[i].lower() not in _KEYWORDS:
                moves.append(words[i])
                i += 1
        else:
            notes.append(f"go: {shortened(words[i - 1])!r} is not known; it is ignored")
    for word in ("movetime", "nodes"):
        if found.get(word, 0) < 0:
            found[word] = 0
            notes.append(f"go: {word} must be at least 0; 0 is used")
    for word in ("depth", "mate", "movestogo"):
        if found.get(word, 1) < 1:
            del found[word]
            notes.append(f"go: {word} must be at least 1; it is ignored")
    if not ENDS & found.keys() and ENDS & {word.lower() for word in words}:
        found["nodes"] = 0  # a search with a limit ends by itself
    return Go(searchmoves=tuple(moves), notes=tuple(notes), **found)  # type: ignore[arg-type]


_KEYWORDS = {field.name for field in fields(Go)} - {"notes"}


def _number(text: str) -> int | None:
    """Returns the integer part of a number; None if the text is not a number."""
    found = re.fullmatch(r"([+-]?[0-9]+)(?:\.[0-9]*)?", text)
    if not found:
        return None
    return int(found[1]) if len(found[1]) <= DIGITS.most else int(found[1][:1] + DIGITS.most * "9")


@dataclass(frozen=True, slots=True)
class Given:
    """A position after the legal moves of a command.

    Attributes:
      problem: the first move that is illegal; with one, `go` has no answer.
      notes: what was left out of the FEN.
    """

    board: chess.Board
    problem: str = ""
    notes: tuple[str, ...] = ()


def parse_position(words: list[str]) -> Given:
    """Returns the position of a `position` command, from the words after it, up to an illegal move.

    Raises:
      InvalidPositionError: if the command does not begin with a legal position.

    >>> parse_position("startpos moves e2e4 e2e4".split()).problem[:31]
    "position: move 2, 'e2e4', is il"
    """
    moves_at = words.index("moves") if "moves" in words else len(words)
    setup, moves = words[:moves_at], words[moves_at + 1 :]
    notes: list[str] = []
    if setup == ["startpos"]:
        board = chess.Board()
    elif setup[:1] == ["fen"]:
        board = board_from_fen(_possible(" ".join(setup[1:]), notes))
    else:
        raise InvalidPositionError("`position` must be followed by startpos or fen FEN, then moves")
    for number, word in enumerate(moves, 1):
        try:
            board.push(read_legal_uci(board, word.lower()))
        except ValueError:
            problem = f"position: move {number}, {shortened(word)!r}, is illegal in {board.fen()}"
            return Given(board, problem, tuple(notes))
    return Given(board, notes=tuple(notes))


def _possible(fen: str, notes: list[str]) -> str:
    """Returns a FEN without the castling rights and the en passant square that cannot be; notes them.

    >>> _possible("4k3/8/8/8/8/8/8/4K2R w KQkq e3 0 1", notes := []), len(notes)
    ('4k3/8/8/8/8/8/8/4K2R w K - 0 1', 2)
    """
    check_length(fen)
    fields = fen.split()
    try:
        board = chess.Board(" ".join([*fields[:2], "- - 0 1"]))
    except ValueError:
        return fen  # the reader will say why
    if len(fields) > 2:
        fields[2] = _possible_rights(board, fields[2], notes)
    if len(fields) > 3 and fields[3] != "-" and not _may_be_passed(board, fields[3]):
        notes.append(f"position: no pawn has just passed {shortened(fields[3])}; it is ignored")
        fields[3] = "-"
    return " ".join(fields)


def _possible_rights(board: chess.Board, given: str, notes: list[str]) -> str:
    """Returns the castling rights of a FEN that kings and rooks allow; notes the others.

    If not all of `KQkq` are possible, they mean standard castling.
    """
    claimed = board.copy(stack=False)
    letters = [letter for letter in given if letter.upper() in CASTLING_LETTERS]
    for letter in letters:
        alone = board.copy(stack=False)
        alone.set_castling_fen(letter)
        claimed.castling_rights |= alone.castling_rights
    claimed.chess960 = claimed.has_chess960_castling_rights()
    is_possible = claimed.clean_castling_rights() == claimed.castling_rights
    if given == "-" or (is_possible and len(letters) == len(given)):
        return given
    claimed.chess960 &= not set(letters) <= set("KQkq")
    claimed.castling_rights = claimed.clean_castling_rights()
    rights = claimed.castling_xfen()
    notes.append(f"position: castling rights {shortened(given)} cannot be; {rights} is used")
    return rights


def _may_be_passed(board: chess.Board, square: str) -> bool:
    """Returns whether a pawn may have passed an en passant square of a FEN in the last move."""
    if square not in chess.SQUARE_NAMES:
        return False
    passed = board.copy(stack=False)
    passed.ep_square = chess.parse_square(square)
    return not passed.status() & chess.STATUS_INVALID_EP_SQUARE


def written_line(board: chess.Board, line: Iterable[chess.Move], *, chess960: bool) -> list[str]:
    """Returns the moves of a line in the GUI's notation, from the line's first position.

    `chess960`: all castling as the king taking his rook, as with `UCI_Chess960`; else only unusual castling.

    >>> board = chess.Board("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1")
    >>> written_line(board, [chess.Move.from_uci("e1g1")], chess960=True)
    ['e1h1']
    """
    if not chess960:
        return [move.uci() for move in line]
    found, walk = [], board.copy(stack=False)
    for move in line:
        found.append(walk.uci(move, chess960=True))
        walk.push(move)
    return found


def parse_setoption(line: str) -> tuple[str, str]:
    """Returns (name, value) of a `setoption` line; the value is empty if it has none.

    >>> parse_setoption("setoption name Move Overhead value 50")
    ('Move Overhead', '50')
    """
    head = re.match(r"\s*+setoption\s++name\s++", line, re.IGNORECASE)
    if not head:
        return "", ""
    rest = line[head.end() :]
    found = re.search(r"\svalue(?=\s|$)", rest, re.IGNORECASE)
    name, value = (rest[: found.start()], rest[found.end() :].strip()) if found else (rest, "")
    return name.strip(), "" if value == "<empty>" else value


# ---------------------------------------------------------------- to the GUI
def _appending(path: str) -> TextIO:
    """Opens a file to append to; a pipe without a reader raises OSError instead of blocking."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | WITHOUT_WAITING, 0o666)

    return open(path, "a", encoding="utf-8", buffering=1, opener=opener)


class Writer:
    """Passes every line to `send`, whole and in order, from any thread; `gone` is set without a reader."""

    def __init__(self, send: Callable[[str], object]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._log: TextIO | None = None
        self.gone = threading.Event()

    def line(self, *lines: str) -> None:
        """Writes lines that belong together."""
        with self._lock:
            for line in lines:
                self._note("<", line)
            try:
                self._send("".join(f"{line}\n" for line in lines))
            except (OSError, ValueError):  # closed
                self.gone.set()

    def info(self, text: str) -> None:
        """Writes a message for the user as one line."""
        one_line = " ".join(shortened(text, LONGEST_INFO).split())
        self.line("info string " + "".join(c if c.isprintable() else "?" for c in one_line))

    def received(self, line: str) -> None:
        """Logs a received line."""
        with self._lock:
            self._note(">", line)

    def log_to(self, path: str) -> None:
        """Starts to log to the end of a file, or raises OSError; an empty path ends logging."""
        log = _appending(path) if path else None
        with self._lock:
            self._log, before = log, self._log
        if before:
            before.close()

    def _note(self, sign: str, line: str) -> None:
        if self._log is None:
            return
        try:
            self._log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {sign} {line}\n")
        except (OSError, ValueError):  # a full disk must not end a game
            self._log = None
