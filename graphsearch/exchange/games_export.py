"""Exports listed games as PGN, with the full text of each game, or as CSV."""

from __future__ import annotations

import os
from pathlib import Path

import chess

from ..base.errors import ImportFileError
from ..position.board import legal_moves
from ..query.game_list import ListedGames
from ..query.replay import start_of
from ..store.file import real_path
from ..store.sharded.files import open_to_read
from ..store.tables.players import GameRow
from .answer_csv import csv_text
from .kept_games import game_text, stored_text
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
        with open_to_read(path) as store:
            for game in found.games:
                text, is_whole = stored_text(store, game.row), True
                if text is None:
                    text, is_whole = whole_text(path, game.row)
                bare += not is_whole
                out.write(f"{text}\n\n".encode())
    return bare


def whole_text(path: str | os.PathLike[str], row: GameRow) -> tuple[str, bool]:
    """Returns the text of a game, and whether it is the original text; else it has headers and moves only."""
    try:
        return game_text(path, row.source, row.number).text, True
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
