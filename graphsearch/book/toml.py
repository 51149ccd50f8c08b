"""BOOK.toml: what its author wrote, checked. `docs/books.md` is its reference.

toml_lines.py    where in the file each thing stands
toml_table.py    typed values out of tables; faults with line and what is allowed
toml_roots.py    positions: roots, forced and excluded moves
toml_windows.py  windows, expansion, leaf and evaluator
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any, get_args

from ..errors import BookConfigError, InputFileError
from ..limits import TOML, read_file, toml_tables
from ..position.board import fen_of, key_of
from .config import BookConfig, Root, Ruling, Side
from .toml_lines import lines_of
from .toml_roots import MAX_PLY, merged, read_root, read_ruling
from .toml_table import Faults, Table, allowed, shown
from .toml_windows import note_gaps, read_evaluator, read_expansion, read_leaf, read_windows

KEYS = {
    "book": ("name", "side", "max_ply"),
    "root": ("fen", "moves", "pgn", "game", "games", "ply"),
    "expansion": (
        "policy",
        "value",
        "cpuct",
        "alpha",
        "per_ply",
        "per_loss",
        "per_log_p",
        "per_move",
    ),
    "window": (
        "plies",
        "own_cp",
        "own_moves",
        "reply_p",
        "reply_cp",
        "reply_games",
        "reply_moves",
    ),
    "force": ("fen", "moves", "play", "only"),
    "exclude": ("fen", "moves", "play"),
    "evaluator": ("name", "policy", "value", "options", "syzygy", "pool"),
    "leaf": ("evaluations", "visits", "params"),
}
ARRAYS = ("root", "window", "force", "exclude")


def read_config(path: str | os.PathLike[str]) -> BookConfig:
    """Returns the book that a file describes; paths in it are relative to its folder.

    Raises:
      BookConfigError: with a line for every fault: file, line, what was found and what is allowed.
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
      folder: relative paths begin there.
      name: of the file, for messages; its stem is the book's name unless it has another.

    Raises:
      BookConfigError: with a line for every fault: file, line, what was found and what is allowed.
    """
    return _parsed(load_toml(text, name), text, folder, name)


def stored_config(text: str, name: str) -> BookConfig:
    """Returns what decides in a book whose TOML text was kept in its graph file: not its roots and evaluator.

    The files that those name need not be there any more.

    Args:
      name: of the book.

    Raises:
      BookConfigError: if the text cannot be read: it is of another version of this program.
    """
    data = {key: value for key, value in load_toml(text, name).items() if key not in ("root", "evaluator")}
    return _parsed(data, text, Path(), name)


def _parsed(data: dict[str, Any], text: str, folder: Path, name: str) -> BookConfig:
    faults = Faults(name, lines_of(text))
    _refuse_unknown(data, faults)
    config = _Reader(data, folder, faults).config(text, Path(name).stem)
    faults.refuse()
    assert config
    return config


def _refuse_unknown(data: dict[str, Any], faults: Faults) -> None:
    for key, value in data.items():
        if key in KEYS:
            continue
        homes = [f"[[{name}]]" if name in ARRAYS else f"[{name}]" for name in KEYS if key in KEYS[name]]
        if isinstance(value, (dict, list)):
            text = f"unknown table [{key}]{allowed(key, KEYS)}"
        elif homes:
            text = f"{key} stands before all tables; it belongs below {' or '.join(homes)}"
        else:
            text = f"unknown key {key!r} before all tables; tables are {', '.join(KEYS)}"
        faults.add((key,), text)


def load_toml(text: str, name: str) -> dict[str, Any]:
    """Returns the tables of a BOOK.toml, whatever is in them; `tomllib` alone has no bounds.

    Raises:
      BookConfigError: if it is none, or larger or deeper than any; naming the file and the line.
    """
    try:
        return toml_tables(text)
    except InputFileError as error:
        found = re.match(r"line (\d+): ", str(error))
        place, text = (f":{found[1]}", str(error)[found.end() :]) if found else ("", str(error))
        raise BookConfigError([f"{name}{place}: {text}"]) from None
    except tomllib.TOMLDecodeError as error:
        what, line = _syntax(str(error), text)
        raise BookConfigError([f"{name}:{line}: not TOML: {what}"]) from None
    except ValueError:  # of int(): a person did not mean this number
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


class _Reader:
    """Puts a book together; every part reports its own faults."""

    def __init__(self, data: dict[str, Any], folder: Path, faults: Faults) -> None:
        self._data = data
        self._folder = folder
        self._faults = faults

    def config(self, text: str, stem: str) -> BookConfig | None:
        """Returns the book; None if something is wrong with it."""
        name, side, max_ply = self._book(stem)
        windows = read_windows(self._tables("window"), side, max_ply)
        expansion = read_expansion(self._table("expansion"))
        leaf = read_leaf(self._table("leaf"))
        evaluator = read_evaluator(self._table("evaluator"), self._folder)
        forced, excluded = self._rulings(max_ply)
        roots = self._roots(max_ply)  # last: with faults known, no file of games is read
        if side is None or max_ply is None or self._faults:
            return None
        if "window" in self._data:
            note_gaps(windows, min(root.board.ply() for root in roots), max_ply, self._faults)
        return BookConfig(
            text=text,
            name=name,
            side=side,
            max_ply=max_ply,
            roots=roots,
            windows=windows,
            expansion=expansion,
            leaf=leaf,
            forced=forced,
            excluded=excluded,
            evaluator=evaluator,
            notes=tuple(self._faults.notes),
        )

    def _table(self, section: str) -> Table:
        return Table(f"[{section}]", self._data.get(section, {}), (section,), KEYS[section], self._faults)

    def _tables(self, section: str) -> list[Table]:
        given = self._data.get(section, [])
        if isinstance(given, dict):
            self._faults.add((section,), f"[{section}] is written [[{section}]]: there may be several")
            return []
        if not isinstance(given, list):
            self._faults.add((section,), f"{section} must be tables [[{section}]], not {shown(given)}")
            return []
        return [
            Table(f"[[{section}]]", item, (section, i), KEYS[section], self._faults)
            for i, item in enumerate(given)
        ]

    def _book(self, stem: str) -> tuple[str, Side | None, int | None]:
        table = self._table("book")
        sides: tuple[Side, ...] = get_args(Side)
        side, max_ply = table.choice("side", sides), table.whole("max_ply", 1, MAX_PLY)
        for key, what in (("side", '"white", "black" or "both"'), ("max_ply", f"from 1 to {MAX_PLY}")):
            if key not in table:
                self._faults.add(("book",), f"[book] needs {key}: {what}")
        name = table.text("name", "a name") or stem
        if not name.isprintable() or len(name) > 100:
            table.fault("name", "must be at most 100 printable characters")
        chosen = next((known for known in sides if known == side), None)
        return name, chosen, max_ply

    def _roots(self, max_ply: int | None) -> tuple[Root, ...]:
        tables = self._tables("root")
        if not tables and not self._faults:
            tables = [Table("[[root]]", {}, ("root", 0), KEYS["root"], self._faults)]
        found: dict[int, Root] = {}
        for number, table in enumerate(tables, 1):
            for root in read_root(table, number, self._folder, max_ply):
                same = found.setdefault(key_of(root.board), root)
                if same is not root:
                    table.note("moves", f"is the position of {same.origin} again: {fen_of(root.board)}")
        return tuple(found.values())

    def _rulings(self, max_ply: int | None) -> tuple[tuple[Ruling, ...], tuple[Ruling, ...]]:
        """Returns what is forced and what is excluded, one ruling per position."""
        forced, excluded = (
            merged([ruling for table in self._tables(kind) if (ruling := read_ruling(table, max_ply))])
            for kind in ("force", "exclude")
        )
        against = {key_of(ruling.board): ruling for ruling in excluded}
        for ruling in forced:
            other = against.get(key_of(ruling.board))
            self._refuse_both(ruling, other)
        for ruling in excluded:
            if len(ruling.moves) == ruling.board.legal_moves.count():
                self._faults.add(ruling.line, f"[[exclude]] leaves no legal move in {fen_of(ruling.board)}")
        return forced, excluded

    def _refuse_both(self, forced: Ruling, excluded: Ruling | None) -> None:
        for move in forced.moves:
            if excluded and move in excluded.moves:
                san, fen = forced.board.san(move), fen_of(forced.board)
                lines = f"forced (line {forced.line}) and excluded (line {excluded.line})"
                self._faults.add(excluded.line, f"{san} is {lines} in {fen}: take out one of them")
