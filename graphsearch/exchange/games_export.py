"""Exports listed games as PGN, with the full text of each game, or as CSV; and other rows as CSV."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import chess

from ..base.errors import ImportFileError
from ..position.board import legal_moves
from ..query.game_list import ListedGames
from ..query.replay import start_of
from ..store.file import real_path
from ..store.tables.players import GameRow
from .kept_games import game_text
from .output import Target, new_output
from .pgn_writing import header


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
        for game in found.games:
            text, is_whole = whole_text(path, game.row.source, game.row.number, game.row)
            bare += not is_whole
            out.write(f"{text}\n\n".encode())
    return bare


def whole_text(path: str | os.PathLike[str], source: int, number: int, row: GameRow) -> tuple[str, bool]:
    """Returns the text of a game, and whether it is the original text; else it has headers and moves only."""
    try:
        return game_text(path, source, number).text, True
    except ImportFileError:
        return plain_text(row), False


def plain_text(row: GameRow) -> str:
    """Returns a game as PGN with the stored headers and moves."""
    date = ".".join([*(row.date or "????").split("-"), "??", "??"][:3])
    names = {"Event": row.event, "Site": row.site, "Date": date, "Round": row.round}
    names |= {"White": row.white, "Black": row.black, "Result": row.result}
    more = {"WhiteElo": row.white_elo, "BlackElo": row.black_elo, "ECO": row.eco}
    lines = [header(name, str(value or "?")) for name, value in names.items()]
    lines += [header(name, str(value)) for name, value in more.items() if value]
    if start_of(row.fen).chess960:
        lines.append(header("Variant", "Chess960"))
    if row.fen:
        lines += [header("SetUp", "1"), header("FEN", row.fen)]
    return f"{b''.join(lines).decode()}\n{_moves(row)} {row.result}"


def _moves(row: GameRow) -> str:
    """Returns the moves of a game in SAN, up to the first invalid one."""
    board = start_of(row.fen)
    moves: list[chess.Move] = []
    walk = board.copy()
    for number in row.moves:
        legal = legal_moves(walk)
        if number >= len(legal):
            break
        moves.append(legal[number])
        walk.push(legal[number])
    return board.variation_san(moves)


def form_of(target: Path) -> str:
    """Returns the format of a games file by its suffix: `csv`, else `pgn`."""
    return "csv" if target.suffix.lower() == ".csv" else "pgn"


FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet reads text with these prefixes as a formula


def csv_text(rows: Sequence[Mapping[str, object]]) -> str:
    """Returns rows as CSV (RFC 4180): a line of names, then a line for each row.

    Lists are joined by blanks, objects get one column per fact, unknown values are empty. Text that a
    spreadsheet would read as a formula gets an apostrophe in front.

    >>> csv_text([{"san": "e4", "n": 3, "worth": {"q": None, "pv": ["e4", "e5"]}, "name": "=1+1"}])
    "san,n,worth_q,worth_pv,name\\r\\ne4,3,,e4 e5,'=1+1\\r\\n"
    """
    flat = [dict(_flat(row)) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    return table_text(names, ([row.get(name) for name in names] for row in flat))


def table_text(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a table as CSV, with the same cell format as `csv_text`."""
    out = io.StringIO()
    writer = csv.writer(out)
    if names:
        writer.writerow([_cell(name) for name in names])
    writer.writerows([_cell(value) for value in row] for row in rows)
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
