"""Exports answers: listed games as PGN or CSV, other rows as CSV."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..query.game_list import ListedGames
from ..store.file import real_path
from ..store.store import Store
from .kept_games import text_of_game
from .output import Target, new_output


def export_games(path: str | os.PathLike[str], found: ListedGames, target: Target, *, form: str) -> int:
    """Writes listed games; returns the number of games without their full text (headers and moves only).

    Args:
      path: the graph file. form: `pgn` or `csv`.

    Raises:
      ExportError: if the file cannot be written.
      StoreError: if the graph file cannot be read.
    """
    bare = 0
    with new_output(target, store=real_path(path)) as out:
        if form == "csv":
            out.write(csv_text([game.as_dict() for game in found.games]).encode())
            return 0
        with Store.open(path, read_only=True) as store:
            for game in found.games:
                text, is_whole = text_of_game(store, game.row)
                bare += not is_whole
                out.write(f"{text}\n\n".encode())
    return bare


def form_of(target: Path) -> str:
    """Returns the format of a games file by its suffix: `csv`, else `pgn`."""
    return "csv" if target.suffix.lower() == ".csv" else "pgn"


# ------------------------------------------------------------------ rows as CSV
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet reads text with these prefixes as a formula


def csv_text(rows: Sequence[Mapping[str, object]]) -> str:
    """Returns rows as CSV (RFC 4180): a line of names, then a line for each row.

    Lists are joined by blanks, objects get one column per fact, unknown values are empty. Text that a
    spreadsheet would read as a formula gets an apostrophe in front.

    >>> csv_text([{"san": "e4", "n": 3, "worth": {"q": None, "pv": ["e4", "e5"]}, "name": "=1+1"}])
    "san,n,worth_q,worth_pv,name\\r\\ne4,3,,e4 e5,'=1+1\\r\\n"
    """
    flat, out = [dict(_flat(row)) for row in rows], io.StringIO()
    names = list(dict.fromkeys(name for row in flat for name in row))
    if names:
        csv.writer(out).writerows([names, *([_cell(row.get(name)) for name in names] for row in flat)])
    return out.getvalue()


def _flat(row: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}_")
        else:
            yield before + name, value


def _cell(value: object) -> object:
    if isinstance(value, str):
        plain = "".join(c if c.isprintable() else " " for c in value)
        return f"'{plain}" if value.startswith(FORMULA) else plain
    if isinstance(value, list | tuple):
        return _cell(" ".join(str(_cell(part)) for part in value if not isinstance(part, Mapping)))
    return value
