"""What an opponent plays as a PGN file: one game with the lines as variations, and what the values say."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import chess
import chess.pgn

from ..position.board import board_of
from ..query.prepare import Departure, Preparation
from .output import Target, new_output


def write_lines(path: str | os.PathLike[str], found: Preparation, target: Target) -> int:
    """Writes the moves of a preparation, a game for each position where lines begin; returns how many.

    Args:
      path: the graph file, which the PGN file may not replace. target: file, or binary stream.

    Raises:
      ExportError: if there is no place for the file.
    """
    starts = list(dict.fromkeys(move.start for move in found.moves))
    with new_output(target, store=Path(path)) as out:
        for start in starts:
            game = _game(found, start, [move for move in found.moves if move.start == start])
            out.write(f"{game}\n\n".encode())
    return len(starts)


def _game(found: Preparation, start: str | None, moves: Sequence[Departure]) -> chess.pgn.Game:
    game = chess.pgn.Game()
    if start:
        game.setup(board_of(start))
    name = " / ".join(found.players)
    game.headers["Event"] = f"Where {name} leaves {'the book ' + found.book if found.book else 'the graph'}"
    game.headers["Site"] = "graphsearch"
    for header, color in (("White", "white"), ("Black", "black")):
        game.headers[header] = name if found.color == color else "?"
    for move in moves:
        node: chess.pgn.GameNode = game
        for san in (*move.line, move.san):
            played = node.board().parse_san(san)
            node = node.variation(played) if node.has_variation(played) else node.add_variation(played)
        node.comment = _comment(move)
    return game


def _comment(move: Departure) -> str:
    score = "" if move.score is None else f", score {100 * move.score:.0f} %"
    score += f", {move.unknown} without a result" if move.unknown else ""
    worth = move.worth
    cost = "" if worth.cost_cp is None else f"; costs {worth.cost_cp} cp"
    best = f"; best {worth.best}" if worth.best and worth.best != move.san else ""
    answer = f"; answer {worth.answer}" if worth.answer else ""
    return f"{move.games} of {move.games_here} games{score}{cost}{best}{answer}"
