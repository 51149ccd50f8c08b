"""The lines that changed between two files as PGN: the newer one of a position, the older as a variation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import chess

from ..errors import GraphSearchError
from ..position.board import board_of
from ..query.diff import Difference, Worth
from ..query.pv import pv
from ..store.file import real_path
from .output import Target, new_output
from .pgn_writing import MoveText, header, number

MOST_PLIES = 20  # of a line


def export_diff(found: Difference, target: Target) -> int:
    """Writes a game for each changed position that is listed; returns how many.

    Each begins with the position. The main line is that of the newer file, the variation that of the older
    one; comments have N, centipawns and bounds of both.

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
    """Returns the best line of a position in SAN; empty if the file cannot say it any more."""
    try:
        lines = pv(path, board).lines
    except GraphSearchError:
        return []
    return [ply.san for ply in lines[0].plies[:MOST_PLIES]] if lines else []


def _write(
    text: MoveText, board: chess.Board, new: Sequence[str], old: Sequence[str], now: Worth, then: Worth
) -> None:
    """Writes the newer line, and the older one as a variation of its first move."""
    if new:
        _moves(text, board, new[:1])
        text.comment(_said("now", now))
    if old and old[:1] != new[:1]:
        if new:
            text.open()
        _moves(text, board, old[:1])
        text.comment(_said("before", then))
        _moves(text, board, old[1:], skip=1)
        if new:
            text.close()
    elif old:
        text.comment(_said("before", then))
    _moves(text, board, new[1:], skip=1)


def _moves(text: MoveText, board: chess.Board, sans: Sequence[str], *, skip: int = 0) -> None:
    """Writes moves; `skip`: how many plies after the position the first of them is."""
    for k, san in enumerate(sans):
        before = number(board.ply() + skip + k, first=k == 0)
        if before:
            text.word(before)
        text.word(san)


def _said(when: str, worth: Worth) -> list[str]:
    bounds = {(1, 1): ["won"], (0, 0): ["drawn"], (-1, -1): ["lost"]}.get(worth.bounds, [])
    return [f"{when}:", "N", f"{worth.n:,},", f"{worth.cp:+d}", "cp", *bounds]
