"""Digests of what exports write: `python -m tests.exchange.golden_exports --write` makes them anew."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import chess

from graphsearch.exchange.exports import export
from graphsearch.exchange.output import ExportReport
from graphsearch.exchange.selection import Selection

from .exported import CASTLES, CHESS960, ENDGAME, LINES, PROMOTES, add_book, add_games, searched

PATH = Path(__file__).parents[1] / "golden" / "exports.json"
MATES = "6k1/5p1p/6p1/8/8/8/r4PPP/3R2K1 b - - 0 30"
LATE = "8/8/4k3/8/8/4K3/4P3/R6r w - - 70 80"  # clocks beyond 75 are part of a position
FILES = {
    "lines": (chess.STARTING_FEN, LINES, 60),
    "endgame": (ENDGAME, ("", "Ra6", "Kd4"), 60),
    "late": (LATE, ("",), 120),
    "mates": (MATES, ("",), 120),
    "castles": (CASTLES, ("",), 80),
    "chess960": (CHESS960, ("",), 80),
    "promotions": (PROMOTES, ("",), 100),
}
LIMITS: list[dict[str, Any]] = [
    {},
    {"side": "black", "max_moves": 1},
    {"depth": 2, "min_visits": 2},
    {"depth": 0},
]
BOOK = {
    "e4": 0.1,
    "e4 e5 Nf3": 0.15,
    "d4 Nf6 Nf3": -0.1,
    "Nf3 Nf6 d4": -0.1,
    "a3 a6 h3 h6": 0.2,  # beyond the graph
    "f3 e5 g4 Qh4#": 0.9,
    "Nf3 Nf6 Ng1 Ng8": 0.0,
}
GAMES = {
    "e4": (3, 1, 0),
    "d4": (0, 0, 2),
    "e4 e5 Nf3": (5, 2, 1, 1),
    "a3 a6": (1, 0, 0),
    "b4 b5 a3": (70_000, 3, 0),
}
EXPORTS: dict[str, Callable[..., ExportReport]] = {
    **{form: partial(export, form) for form in ("epd", "jsonl", "csv", "pgn")},
    **{f"polyglot {weights}": partial(export, "polyglot", weights=weights) for weights in ("n", "q")},
}


def make_graph(path: Path, name: str) -> Path:
    """Returns a file of a search, one of them with imported games and a book."""
    fen, lines, visits = FILES[name]
    searched(path, fen, *lines, visits=visits)
    if name == "lines":
        add_games(path, GAMES)
        add_book(path, "some", "white", [chess.STARTING_FEN], BOOK)
    return path


def selections() -> Iterator[Selection]:
    """Yields what is exported of the file with games and a book."""
    yield from (Selection(**limits) for limits in LIMITS)
    yield Selection(roots=(chess.Board(),), min_visits=3)
    yield from (Selection(book="some"), Selection(book="some", **LIMITS[1]))
    yield Selection(book="some", roots=(chess.Board(),), side="both")


def result_of(form: str, path: Path, out: Path, selection: Selection) -> tuple[Any, bytes]:
    """Returns the report of an export without what differs, and its output; the error if it fails."""
    out.unlink(missing_ok=True)
    if form in ("jsonl", "csv"):
        selection = replace(selection, all_moves=True)
    try:
        report = EXPORTS[form](path, out, selection).as_dict()
    except Exception as error:  # part of the result
        return f"{type(error)} {error}".replace(str(path), ""), b""
    data = re.sub(rb'\[Date "[^"]*"\]', b"", out.read_bytes())
    return {name: report[name] for name in report if name not in ("seconds", "path")}, data


def digests(path: Path, name: str, folder: Path) -> dict[str, str]:
    """Returns a digest for every form."""
    if name != "lines":
        return {form: _digest(form, path, folder, Selection()) for form in EXPORTS}
    return {form: _digest(form, path, folder, *selections()) for form in EXPORTS}


def _digest(form: str, path: Path, folder: Path, *chosen: Selection) -> str:
    digest = hashlib.sha256()
    for selection in chosen:
        report, data = result_of(form, path, folder / "out", selection)
        digest.update(json.dumps(report).encode() + data)
    return digest.hexdigest()[:16]


def main() -> None:
    """Prints the digests as they are now, or writes them."""
    with tempfile.TemporaryDirectory() as folder:
        found = {
            name: digests(make_graph(Path(folder) / f"{name}.graph", name), name, Path(folder))
            for name in FILES
        }
    text = json.dumps(found, indent=1) + "\n"
    if sys.argv[1:] == ["--write"]:
        PATH.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
