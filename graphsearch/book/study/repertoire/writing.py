"""Writes a repertoire as PGN, from move one, and as the TOML of a book that fills its gaps."""

from __future__ import annotations

import json
import os

import chess
import chess.pgn

from ....base.errors import InvalidParameterError
from ....position.board import board_of, fen_of
from ....position.lines import numbered, ply_of
from ....query.source import opened
from ..pgn import game_of, text_of
from .moves import Repertoire, load
from .survey import LEAST_SHARE, MainLine, Surveyor

FURTHER_PLIES = 4  # of a book beyond the repertoire
AnyPath = str | os.PathLike[str]
MainLines = dict[str, MainLine]


def _main_lines(path: AnyPath, side: str) -> tuple[Repertoire, MainLines, dict[str, list[str]]]:
    """Returns a repertoire, its positions on their main lines, and the ordered moves of each."""
    found = load(path, side)
    if not found.size:
        raise InvalidParameterError(
            f"{side}'s repertoire is empty; `graphsearch repertoire add` adds a line to it"
        )
    with opened(path) as source:
        surveyor = Surveyor(found, source)
        main_lines = dict(surveyor.main_lines())
        moves = {
            key: sorted(found.moves.get(key, ()), key=lambda move, likely=likely: -likely.get(move, 0.0))
            for key, main_line in main_lines.items()
            for likely in [{} if found.is_own(key) else surveyor.shares(key, main_line.board)]
        }
    return found, main_lines, moves


# ------------------------------------------------------------------ PGN
def pgn_of_repertoire(path: AnyPath, side: str) -> str:
    """Returns the repertoire of a side as PGN: a game for each root, replies and alternatives as variations.

    Each position is expanded once, on its main line; elsewhere a comment refers to it.

    Raises:
      InvalidParameterError: if the side is invalid, or its repertoire is empty.
      StoreError: if the file cannot be read, or has an illegal move.
    """
    repertoire, main_lines, moves = _main_lines(path, side)
    games = []
    for number, key in enumerate(repertoire.roots(), start=1):
        if moves.get(key):
            headers = {"Event": f"{side.capitalize()} repertoire", "Round": str(number)}
            games.append(_game(repertoire, main_lines, moves, key, headers))
    return "\n".join(games)


def _game(
    repertoire: Repertoire,
    main_lines: MainLines,
    moves: dict[str, list[str]],
    root: str,
    headers: dict[str, str],
) -> str:
    game = game_of(board_of(repertoire.positions[root].fen), (), headers=headers)
    waiting: list[tuple[str, chess.pgn.GameNode]] = [(root, game)]
    while waiting:
        key, node = waiting.pop()
        line = main_lines[key].moves
        for text in moves[key]:
            child = repertoire.moves[key][text].child
            there = main_lines.get(child)
            if there is None:
                continue  # in a damaged file
            added = node.add_variation(chess.Move.from_uci(text))
            if there.root == main_lines[key].root and there.moves == (*line, text):
                waiting.append((child, added))
            elif moves[child]:
                added.comment = f"transposes to {_line_text(there)}"
    return text_of(game)


def _line_text(main_line: MainLine) -> str:
    return numbered(main_line.line, ply_of(main_line.root)) if main_line.line else "the first position"


# ------------------------------------------------------------------ TOML
def toml_of_repertoire(path: AnyPath, side: str, name: str) -> str:
    """Returns the TOML of a book that keeps to a repertoire and answers the likely replies that it lacks.

    Own moves are forced, and the only ones in their positions. The replies of the repertoire are forced.

    Raises:
      InvalidParameterError: if the side is invalid, or its repertoire is empty.
      StoreError: if the file cannot be read.
    """
    repertoire, main_lines, moves = _main_lines(path, side)
    deepest = max(len(main_line.moves) + ply_of(main_line.root) for main_line in main_lines.values())
    parts = [f'[book]\nname = {json.dumps(name)}\nside = "{side}"\nmax_ply = {deepest + FURTHER_PLIES}\n']
    parts += [f"[[root]]\n{_position(main_lines[key])}" for key in repertoire.roots() if moves.get(key)]
    parts.append(f"[[window]]\nreply_p = {LEAST_SHARE}\n")
    for key, main_line in main_lines.items():
        if moves[key]:
            only = "only = true\n" if repertoire.is_own(key) else ""
            names = ", ".join(f'"{move}"' for move in moves[key])
            parts.append(f"[[force]]\n{_position(main_line)}play = [{names}]\n{only}")
    return "\n".join(parts)


def _position(main_line: MainLine) -> str:
    root = board_of(main_line.root)
    start = "" if fen_of(root) == chess.STARTING_FEN else f'fen = "{main_line.root}"\n'
    return f'{start}moves = "{_line_text(main_line)}"\n' if main_line.line else start or 'fen = "startpos"\n'
