"""Query results as PGN: the lines that changed between two files, and preparations against an opponent."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import chess
import chess.pgn

from ..base.errors import GraphSearchError
from ..position.board import board_of
from ..position.lines import number
from ..query.diff import Difference, Worth
from ..query.prepare import Departure, Preparation
from ..query.pv import pv
from ..store.file import real_path
from .output import Target, new_output
from .pgn_writing import MoveText, header

MOST_PLIES = 20  # of a line


def export_diff(found: Difference, target: Target) -> int:
    """Writes a game for each listed position that changed; returns the number of games.

    Each game begins with the position. The main line comes from the newer file, the variation from the older
    one; comments give N, centipawns for White and proven results of both.

    Raises:
      ExportError: if the file cannot be written.
      StoreError: if one of the graph files cannot be read.
    """
    with new_output(target, store=real_path(found.new)) as out:
        for change in found.changes:
            board = board_of(change.position)
            out.write(header("Event", f"changed: {', '.join(change.what)}"))
            out.write(header("Newer", Path(found.new).name))
            out.write(header("Older", Path(found.old).name))
            out.write(header("Result", "*") + header("SetUp", "1") + header("FEN", change.position) + b"\n")
            text = MoveText(out)
            _write(text, board, _line(found.new, board), _line(found.old, board), change.new, change.old)
            text.word("*")
            text.end()
            out.write(b"\n")
    return len(found.changes)


def _line(path: str, board: chess.Board) -> list[str]:
    """Returns the best line of a position in SAN; empty if the query fails."""
    try:
        lines = pv(path, board).lines
    except GraphSearchError:
        return []
    return [ply.san for ply in lines[0].plies[:MOST_PLIES]] if lines else []


def _write(
    text: MoveText, board: chess.Board, new: Sequence[str], old: Sequence[str], now: Worth, then: Worth
) -> None:
    """Writes the newer line, with the older one as a variation on its first move."""
    if new:
        _moves(text, board, new[:1])
        text.comment(_comment_words("now", now, board))
    if old and old[:1] != new[:1]:
        if new:
            text.open()
        _moves(text, board, old[:1])
        text.comment(_comment_words("before", then, board))
        _moves(text, board, old[1:], skip=1)
        if new:
            text.close()
    elif old:
        text.comment(_comment_words("before", then, board))
    _moves(text, board, new[1:], skip=1)


def _moves(text: MoveText, board: chess.Board, sans: Sequence[str], *, skip: int = 0) -> None:
    """Writes moves; `skip`: plies between the position and the first move."""
    for k, san in enumerate(sans):
        before = number(board.ply() + skip + k, first=k == 0)
        if before:
            text.word(before)
        text.word(san)


def _comment_words(when: str, worth: Worth, board: chess.Board) -> list[str]:
    us, them = ("White", "Black") if board.turn else ("Black", "White")
    bounds = {(1, 1): [us, "wins"], (0, 0): ["draw"], (-1, -1): [them, "wins"]}.get(worth.bounds, [])
    cp = worth.cp if board.turn else -worth.cp
    return [f"{when}:", "N", f"{worth.n:,},", f"{cp:+d}", "cp", *bounds]


# ------------------------------------------------------------------ preparations
def write_lines(path: str | os.PathLike[str], found: Preparation, target: Target) -> int:
    """Writes the moves of a preparation, one game per start position; returns the number of games.

    Args:
      path: the graph file, which the PGN file must not replace. target: file, or binary stream.

    Raises:
      ExportError: if the file cannot be written.
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
    for side in ("White", "Black"):
        game.headers[side] = name if found.color == side.lower() else "?"
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
