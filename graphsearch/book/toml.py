"""Reads and checks BOOK.toml; `docs/books.md` is its reference, toml_tables.py has its tables and keys."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ..base.errors import BookConfigError, InputFileError, InvalidPositionError
from ..base.limits import TOML, read_file
from ..base.toml_text import toml_tables
from ..position.board import fen_of, key_text, terminal_kind
from .config import BookConfig, Expansion, Root, Ruling, Window
from .toml_tables import TABLES, BookFile, ExcludeTable, ForceTable, RootTable

KeyPath = tuple[str | int, ...]
SHOWN = 60  # characters of a wrong value that a message repeats
# the policy of expansion that uses each number
NUMBERS = {
    "cpuct": "puct",
    "alpha": "dropout",
    "per_ply": "cost",
    "per_loss": "cost",
    "per_log_p": "cost",
    "per_move": "cost",
}


def read_config(path: str | os.PathLike[str]) -> BookConfig:
    """Returns the book that a file describes; paths in it are relative to its folder.

    Raises:
      BookConfigError: with a line for every fault: file, line, key, value found and values allowed.
    """
    file = Path(path)
    try:
        text = read_file(file, TOML).decode("utf-8-sig")
    except InputFileError as error:
        raise BookConfigError([f"{path}: cannot read it: {error}"]) from None
    except OSError as error:
        raise BookConfigError([f"{path}: cannot read it: {error.strerror or error}"]) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise BookConfigError([f"{path}:{line}: not UTF-8, so it is not a TOML file"]) from None
    return parse_config(text, file.parent, str(path))


def parse_config(text: str, folder: Path, name: str) -> BookConfig:
    """Returns the book that a TOML text describes.

    Args:
      folder: base of relative paths.
      name: of the file, for messages; its stem is the book's name unless the text names the book.

    Raises:
      BookConfigError: with a line for every fault: file, line, key, value found and values allowed.
    """
    return _parsed(load_toml(text, name), text, folder, name)


def stored_config(text: str, name: str) -> BookConfig:
    """Returns the configuration in a graph file, without its roots and evaluator: their files may be gone.

    Args:
      name: of the book.

    Raises:
      BookConfigError: if the text cannot be read: another version of this program wrote it.
    """
    data = {key: value for key, value in load_toml(text, name).items() if key not in ("root", "evaluator")}
    return _parsed(data, text, Path(), name)


def load_toml(text: str, name: str) -> dict[str, Any]:
    """Returns the unchecked tables of a BOOK.toml, within limits that `tomllib` lacks.

    Raises:
      BookConfigError: if the text is not TOML, too large or nested too deeply; with file and line.
    """
    try:
        return toml_tables(text)
    except InputFileError as error:
        found = re.match(r"line (\d+): ", str(error))
        place, text = (f":{found[1]}", str(error)[found.end() :]) if found else ("", str(error))
        raise BookConfigError([f"{name}{place}: {text}"]) from None
    except tomllib.TOMLDecodeError as error:
        message, line = _syntax(str(error), text)
        raise BookConfigError([f"{name}:{line}: not TOML: {message}"]) from None
    except ValueError:  # of int()
        long = re.search(r"[0-9a-fA-F_]{1000}", text)
        line = text.count("\n", 0, long.start() if long else 0) + 1
        raise BookConfigError([f"{name}:{line}: not TOML: a number of too many digits"]) from None
    except RecursionError:
        raise BookConfigError([f"{name}: not a BOOK.toml: lists or tables are nested too deeply"]) from None


def _syntax(message: str, text: str) -> tuple[str, int]:
    """Returns tomllib's message with its column, and the line.

    >>> _syntax("Invalid value (at line 3, column 8)", "")
    ('Invalid value (column 8)', 3)
    """
    found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", message)
    if not found:
        return message, 1
    if found[1] is None:
        return f"{message[: found.start()]} (at the end)", text.count("\n") + 1
    return f"{message[: found.start()]} (column {found[2]})", int(found[1])


def _parsed(data: dict[str, Any], text: str, folder: Path, name: str) -> BookConfig:
    faults = Faults(name, text)
    try:
        file = BookFile.model_validate({"book": {}} | data, context=folder)
    except ValidationError as error:
        faults.add_all(error)
        faults.refuse()
        raise
    _note_idle_keys(file, faults)
    max_ply = file.book.max_ply
    forced, excluded = (_rulings(kind, getattr(file, kind), max_ply, faults) for kind in ("force", "exclude"))
    _check_rulings(forced, excluded, faults)
    roots = _roots(file.root or [RootTable()], max_ply, faults)
    faults.refuse()
    windows = tuple(table.window() for table in file.window) or (Window(),)
    if file.window:
        _note_windows(windows, min(root.board.ply() for root in roots), max_ply, faults)
    return BookConfig(
        text=text,
        name=file.book.name or Path(name).stem,
        side=file.book.side,
        max_ply=max_ply,
        roots=roots,
        windows=windows,
        expansion=Expansion(**file.expansion.model_dump()),
        leaf=file.leaf.leaf(),
        forced=tuple(forced.values()),
        excluded=tuple(excluded.values()),
        evaluator=file.evaluator.spec(),
        notes=tuple(faults.notes),
    )


# -------------------------------------------------------------------- roots
def _roots(tables: Sequence[RootTable], max_ply: int, faults: Faults) -> tuple[Root, ...]:
    """Returns the roots, each position once; reads games only if there is no fault before them."""
    found: dict[str, Root] = {}
    for index, table in enumerate(tables):
        for root in _roots_of(table, index, max_ply, faults):
            same = found.setdefault(key_text(root.board), root)
            if same is not root:
                faults.note(
                    ("root", index, "moves"), f"is the position of {same.origin} again: {fen_of(root.board)}"
                )
    return tuple(found.values())


def _roots_of(table: RootTable, index: int, max_ply: int, faults: Faults) -> Iterator[Root]:
    path, origin = ("root", index), f"root {index + 1}"
    if table.pgn is not None:
        if table.ply is not None and table.ply >= max_ply:
            faults.add((*path, "ply"), f"must be before max_ply, which is {max_ply}, not {table.ply}")
        elif not faults:
            yield from _game_roots(table, (*path, "pgn"), origin, max_ply, faults)
        return
    board = table.board()
    if board.ply() >= max_ply:
        key = "fen" if table.moves is None else "moves"
        text = f"the position is at ply {board.ply()}, but max_ply is {max_ply}: it must be before"
        faults.add((*path, key), text)
        return
    if terminal_kind(board):
        faults.note((*path, "moves"), f"the game is over at {fen_of(board)}; nothing can be searched there")
    yield Root(board, origin)


def _game_roots(table: RootTable, key: KeyPath, origin: str, max_ply: int, faults: Faults) -> Iterator[Root]:
    """Yields the roots from the games of a file; reports the games without one."""
    from ..position.pgn_position import read_games

    file, games = Path(table.pgn or ""), table.numbers()
    seen, broken, short, late, same, last = set[str](), list[str](), 0, 0, 0, 0
    try:
        for given in read_games(file, ply=table.ply, only=games):
            last = given.game
            for note in given.notes:
                faults.note(key, note)
            if given.board is None:
                broken.append(given.problem)
            elif table.ply is not None and given.length < table.ply:
                short += 1
            elif given.board.ply() >= max_ply:
                late += 1
            elif (name := key_text(given.board)) in seen:
                same += 1
            else:
                seen.add(name)
                yield Root(given.board.copy(stack=False), f"{origin}: {file.name}, game {given.game}")
    except InvalidPositionError as error:
        faults.add(key, str(error))
        return
    reasons = []
    if broken:
        reasons.append(f"{len(broken):,} unreadable (the first: {broken[0]})")
    if short:
        reasons.append(f"{short:,} shorter than {table.ply} plies")
    if late:
        text = f"{late:,} whose position is at ply {max_ply} (max_ply) or later"
        reasons.append(text if table.ply is not None else f"{text}; use ply to cut games off")
    why, count = ", ".join(reasons), len(seen) + len(broken) + short + late + same
    if games is None and not seen:
        faults.add(key, f"{file} gives no position: {why or 'it has no games'}")
        return
    if games is not None and len(games) > count:
        faults.add(key, f"{file} has no game {max(games)}; game {last} is the last read")
    if why and games is not None:
        faults.add(key, why)
    elif why:
        faults.note(key, f"{file}: left out of {count:,} games: {why}")
    if same:
        faults.note(key, f"{file}: {same:,} games lead to a position that another gave")


# ------------------------------------------------------------------ rulings
def _rulings(kind: str, tables: Sequence[ExcludeTable], max_ply: int, faults: Faults) -> dict[str, Ruling]:
    """Returns the rulings of a kind by position key; merges those on one position."""
    found: dict[str, Ruling] = {}
    for index, table in enumerate(tables):
        board, path = table.board(), (kind, index)
        if board.ply() >= max_ply:
            faults.note(
                (*path, "play"), f"has no effect: the position is at ply {board.ply()}, max_ply is {max_ply}"
            )
        only = isinstance(table, ForceTable) and table.only
        ruling = Ruling(board=board, moves=table.chosen(), only=only, line=faults.line(path))
        before = found.setdefault(key_text(board), ruling)
        if before is not ruling:
            moves = tuple(dict.fromkeys([*before.moves, *ruling.moves]))
            found[key_text(board)] = replace(before, moves=moves, only=before.only or only)
    return found


def _check_rulings(forced: Mapping[str, Ruling], excluded: Mapping[str, Ruling], faults: Faults) -> None:
    """Adds a fault for every move that is forced and excluded, and for positions without a move left."""
    for key, ruling in excluded.items():
        fen = fen_of(ruling.board)
        if len(ruling.moves) == ruling.board.legal_moves.count():
            faults.add(ruling.line, f"[[exclude]] leaves no legal move in {fen}")
        other = forced.get(key)
        for move in other.moves if other else ():
            if other and move in ruling.moves:
                lines = f"forced (line {other.line}) and excluded (line {ruling.line})"
                faults.add(ruling.line, f"{ruling.board.san(move)} is {lines} in {fen}: take out one of them")


# -------------------------------------------------------------------- notes
def _note_idle_keys(file: BookFile, faults: Faults) -> None:
    """Notes keys that have no effect."""
    policy = file.expansion.policy
    for name, owner in NUMBERS.items():
        if name in file.expansion.model_fields_set and owner != policy:
            faults.note(("expansion", name), f'{name} has no effect: it belongs to policy = "{owner}"')
    for index, table in enumerate(file.window):
        for key in ("reply_p", "reply_cp", "reply_games", "reply_moves"):
            if file.book.side == "both" and key in table.model_fields_set:
                text = f'{key} has no effect: with side = "both" every move is an own one'
                faults.note(("window", index, key), text)


def _note_windows(windows: Sequence[Window], first: int, max_ply: int, faults: Faults) -> None:
    """Notes windows without effect, and plies from `first` on that no window covers."""
    for index, window in enumerate(windows):
        if window.first >= max_ply:
            faults.note(
                ("window", index, "plies"),
                f"has no effect: it begins at ply {window.first}, max_ply is {max_ply}",
            )
    for start, end in _gaps(windows, first, max_ply):
        plies = f"plies {start} to {end}" if start != end else f"ply {start}"
        faults.note(("window", 0), f"does not cover {plies}: only forced moves are added there")


def _gaps(windows: Sequence[Window], start: int, max_ply: int) -> list[tuple[int, int]]:
    """Returns the plies from `start` to before `max_ply` that no window covers, as (first, last).

    >>> _gaps((Window(first=2, last=4), Window(first=8)), 0, 20)
    [(0, 1), (5, 7)]
    """
    gaps = []
    for window in sorted(windows, key=lambda window: window.first):
        end = min(window.first, max_ply)
        if end > start:
            gaps.append((start, end - 1))
        start = max(start, max_ply if window.last is None else window.last + 1)
    return gaps if start >= max_ply else [*gaps, (start, max_ply - 1)]


# ------------------------------------------------------------------- faults
@dataclass(slots=True)
class Faults:
    """The faults of a file and the notes for its author.

    Attributes:
      name, text: of the file.
    """

    name: str
    text: str
    notes: list[str] = field(default_factory=list)
    _found: list[tuple[int, str]] = field(default_factory=list)
    _lines: dict[KeyPath, int] | None = None

    def line(self, path: KeyPath) -> int:
        """Returns the line of a path, or of the table around it."""
        if self._lines is None:
            self._lines = lines_of(self.text)
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)

    def add(self, place: KeyPath | int, text: str) -> None:
        """Adds a fault of a key, named before the text, or of a line."""
        found = (place, text) if isinstance(place, int) else (self.line(place), f"{named(place)}: {text}")
        self._found.append(found)

    def add_all(self, error: ValidationError) -> None:
        """Adds the faults of a validation."""
        self._found += [
            (self.line(fault["loc"]), message(fault)) for fault in error.errors(include_url=False)
        ]

    def note(self, path: KeyPath, text: str) -> None:
        """Adds a note, with the table's name before the text."""
        table = path[:2] if isinstance(path[1], int) else path[:1]
        self.notes.append(f"{self.name}:{self.line(path)}: {named(table)} {text}")

    def __bool__(self) -> bool:
        return bool(self._found)

    def refuse(self) -> None:
        """Raises BookConfigError with all faults, in the order of their lines, if there are any."""
        if self._found:
            ordered = sorted(self._found, key=lambda fault: fault[0])
            raise BookConfigError([f"{self.name}:{line}: {text}" for line, text in ordered])


def named(path: KeyPath) -> str:
    """Returns the names of a table and a key.

    >>> named(("root", 2)), named(("root", 0, "games", 1)), named(("leaf", "params", "CPuct"))
    ('[[root]]', '[[root]] games[1]', '[leaf] params.CPuct')
    """
    section, *keys = path
    title = f"[{section}]"
    if keys and isinstance(keys[0], int):
        title, keys = f"[{title}]", keys[1:]
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return f"{title} {text.lstrip('.')}".rstrip()


def message(fault: ErrorDetails) -> str:
    """Returns pydantic's message of a fault with its table and key, the value, and the name it may mean."""
    path, value = fault["loc"], fault["input"]
    text = str(fault.get("ctx", {}).get("error") or fault["msg"])
    if fault["type"] not in ("value_error", "fault", "missing", "extra_forbidden"):
        shown = repr(value)
        text += f", not {shown if len(shown) <= SHOWN else f'{shown[:SHOWN]}...'}"
    known: Iterable[str] = ()
    if fault["type"] == "extra_forbidden":
        known = TABLES[str(path[0])].model_fields if len(path) > 1 else TABLES
    elif fault["type"] == "literal_error":
        known = re.findall(r"'(.*?)'", fault["ctx"]["expected"])
    near = difflib.get_close_matches(str(value if fault["type"] == "literal_error" else path[-1]), known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}" if known else ""
    return f"{named(path)}: {text}{hint}"


MOST_LINES = 1000  # of one value; after a longer one no lines are known, because each line costs a parse


def lines_of(text: str) -> dict[KeyPath, int]:
    """Returns the line, from 1, of every table and key of a text that `tomllib` accepts, by its path.

    A path consists of keys and of indices, from 0, into arrays of tables. Items of lists have none. A
    table that several lines name has the line of its header, else of the first key in it.

    A statement ends at the first line with which it parses: no prefix of a value that spans lines is valid.

    >>> lines_of("[a]\\nb = [\\n1,\\n2]\\n[[c]]\\nd.e = 3")
    {('a',): 1, ('a', 'b'): 2, ('c',): 5, ('c', 0): 5, ('c', 0, 'd'): 6, ('c', 0, 'd', 'e'): 6}
    """
    lines: dict[KeyPath, int] = {}
    last: dict[KeyPath, int] = {}  # index of the last table of each array
    table: KeyPath = ()
    statement: list[str] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        statement.append(line)
        first = number - len(statement) + 1
        try:
            found = tomllib.loads("\n".join(statement))
        except tomllib.TOMLDecodeError:
            if len(statement) > MOST_LINES:
                break
            continue
        if statement[0].lstrip().startswith("["):
            table = _enter(found, lines, last, first)
        else:
            _note_keys(found, table, lines, first)
        statement = []
    return lines


def _enter(header: dict[str, Any], lines: dict[KeyPath, int], last: dict[KeyPath, int], line: int) -> KeyPath:
    """Returns the path of the table that a parsed header, `[a.b]` or `[[a.b]]`, begins; stores its line."""
    path: KeyPath = ()
    value: Any = header
    while value:
        (key,) = value
        path, value = (*path, key), value[key]
        if isinstance(value, list):
            last[path] = last.get(path, -1) + 1
            lines.setdefault(path, line)
        elif value:
            lines.setdefault(path, line)
        else:
            lines[path] = line
        if path in last:
            path, value = (*path, last[path]), value[0] if isinstance(value, list) else value
            lines.setdefault(path, line)
    return path


def _note_keys(found: dict[str, Any], table: KeyPath, lines: dict[KeyPath, int], line: int) -> None:
    for key, value in found.items():
        lines.setdefault((*table, key), line)
        if isinstance(value, dict):
            _note_keys(value, (*table, key), lines, line)
