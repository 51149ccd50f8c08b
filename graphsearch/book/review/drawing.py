"""Pictures of a review as SVG: the evaluation over a game, and a position with the played and the best move.

Colours are CSS classes of the page around a picture; pieces are symbols of `exchange.pieces`.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import pairwise

import chess

from ...position.board import board_of
from .formulas import win_percent
from .results import GameReview, MoveReview

WIDE, TALL, LEFT, RIGHT, TOP, BOTTOM = 760, 190, 34, 10, 10, 20
MARKS = {"??": "blunder", "?": "mistake", "?!": "inaccuracy", "!": "good"}
SQUARE = 45  # pixels, as the pieces
LINES = (0, 25, 50, 75, 100)  # of Win%
LABEL = 80  # width of the name of a phase, in pixels
MOST_NUMBERS = 12  # of moves below a curve


def move_text(move: MoveReview) -> str:
    """Returns a move with its number and its mark: `12. Nf3`, `12... Nf6??`."""
    return f"{move.number}{'.' if move.white else '...'} {move.san}{move.glyph}"


def value_text(cp: int, mate: int | None) -> str:
    """Returns a value seen by White, in pawns or moves to mate.

    >>> value_text(31, None), value_text(-12800, -3), value_text(12800, 0)
    ('+0.31', '#-3', 'mate')
    """
    if mate is not None:
        return f"#{mate}" if mate else "mate"
    return f"{cp / 100:+.2f}" if cp else "0.00"


# ------------------------------------------------------------------ the curve
def curve_svg(review: GameReview, *, anchors: frozenset[int] = frozenset()) -> str:
    """Returns White's Win% over a game, with a dot for every marked move.

    Args:
      anchors: plies whose dots link to the anchors `g<game>-<ply>` of the page.
    """
    return "".join(_Curve(review, anchors).parts())


class _Curve:
    """The curve of one game."""

    def __init__(self, review: GameReview, anchors: frozenset[int]) -> None:
        self._review = review
        self._anchors = anchors
        percents = [win_percent(review.q), *(win_percent(move.q) for move in review.moves)]
        self._points = [(self._x(ply), _height(percent)) for ply, percent in enumerate(percents)]

    def _x(self, ply: int) -> float:
        steps = max(1, len(self._review.moves))
        return round(LEFT + ply / steps * (WIDE - LEFT - RIGHT), 1)

    def parts(self) -> Iterator[str]:
        (first, _), (last, _) = self._points[0], self._points[-1]
        path = "L".join(f"{x} {y}" for x, y in self._points)
        zero = _height(50.0)
        yield f'<svg class="curve" viewBox="0 0 {WIDE} {TALL}" role="img">'
        yield "<title>Expected score of White, in per cent, over the game</title>"
        yield from _axes()
        yield from self._phases()
        yield f'<path class="under" d="M{first} {zero}L{path}L{last} {zero}Z"/>'
        yield f'<path class="trail" d="M{path}"/>'
        yield from self._dots()
        yield from self._numbers()
        yield "</svg>"

    def _phases(self) -> Iterator[str]:
        for before, after in pairwise(self._review.moves):
            if before.phase != after.phase:
                x = self._x(after.ply)
                yield f'<line class="phase" x1="{x}" x2="{x}" y1="{TOP}" y2="{TALL - BOTTOM}"/>'
                is_late = x > WIDE - LABEL
                place = f'x="{x - 4 if is_late else x + 4}" text-anchor="{"end" if is_late else "start"}"'
                yield f'<text class="tick" {place} y="{TALL - BOTTOM - 6}">{after.phase}</text>'

    def _dots(self) -> Iterator[str]:
        for move in self._review.moves:
            if move.glyph:
                x, y = self._points[move.ply + 1]
                kind, about = MARKS[move.glyph], escape(_about(move))
                dot = f'<circle class="{kind}" cx="{x}" cy="{y}" r="4.5"><title>{about}</title></circle>'
                place = f"#g{self._review.number}-{move.ply}"
                yield f'<a href="{place}">{dot}</a>' if move.ply in self._anchors else dot

    def _numbers(self) -> Iterator[str]:
        whites = [move for move in self._review.moves if move.white]
        every = 5 * -(-len(whites) // (5 * MOST_NUMBERS)) if len(whites) > MOST_NUMBERS else 1
        for move in whites:
            if move.number % every == 0:
                x, y = self._x(move.ply + 1), TALL - 5
                yield f'<text class="tick" x="{x}" y="{y}" text-anchor="middle">{move.number}</text>'


def _height(percent: float) -> float:
    return round(TOP + (100.0 - percent) / 100.0 * (TALL - TOP - BOTTOM), 1)


def _axes() -> Iterator[str]:
    for percent in LINES:
        y, kind = _height(percent), "axis" if percent == 50 else "grid"
        yield f'<line class="{kind}" x1="{LEFT}" x2="{WIDE - RIGHT}" y1="{y}" y2="{y}"/>'
        yield f'<text class="tick" x="{LEFT - 5}" y="{y + 4}" text-anchor="end">{percent}</text>'


def _about(move: MoveReview) -> str:
    better = f"; {move.best_san} {value_text(move.best_cp, move.best_mate)}" if move.loss else ""
    return f"{move_text(move)} ({value_text(move.cp, move.mate)}){better}"


# ------------------------------------------------------------------ a position
def diagram_svg(move: MoveReview) -> str:
    """Returns the position before a move, from the side that plays it, with the played and the best move."""
    board = board_of(move.position)
    arrows = [_arrow(move.best, "best", move.white)] if move.loss else []
    arrows.append(_arrow(move.move, "played" if move.loss else "best", move.white))
    size = 8 * SQUARE
    about = f"Before {move_text(move)}; best is {move.best_san}"
    return "".join(
        [
            f'<svg class="board" viewBox="0 0 {size} {size}" role="img"><title>{escape(about)}</title>',
            f'<rect class="light" width="{size}" height="{size}"/>',
            f'<path class="dark" d="{_DARK}"/>',
            *_pieces(board, move.white),
            *arrows,
            "</svg>",
        ]
    )


_DARK = "".join(
    f"M{SQUARE * across} {SQUARE * down}h{SQUARE}v{SQUARE}h-{SQUARE}z"
    for down in range(8)
    for across in range(8)
    if (across + down) % 2
)


def _corner(square: chess.Square, white: bool) -> tuple[int, int]:
    across, down = chess.square_file(square), 7 - chess.square_rank(square)
    return (SQUARE * across, SQUARE * down) if white else (SQUARE * (7 - across), SQUARE * (7 - down))


def _pieces(board: chess.Board, white: bool) -> Iterator[str]:
    for square, piece in board.piece_map().items():
        across, down = _corner(square, white)
        name = f"{'w' if piece.color else 'b'}{chess.piece_symbol(piece.piece_type)}"
        yield (f'<use href="#piece-{name}" x="{across}" y="{down}" width="{SQUARE}" height="{SQUARE}"/>')


def _arrow(move: str, name: str, white: bool) -> str:
    """Returns an arrow over the squares of a move."""
    half, neck, wing = SQUARE / 2, 17, 9
    (ax, ay), (bx, by) = (_corner(chess.parse_square(move[at : at + 2]), white) for at in (0, 2))
    length = max(1.0, ((bx - ax) ** 2 + (by - ay) ** 2) ** 0.5)
    dx, dy = (bx - ax) / length, (by - ay) / length
    tx, ty = bx + half - 6 * dx, by + half - 6 * dy  # the tip
    nx, ny = tx - neck * dx, ty - neck * dy
    left, right = (nx - wing * dy, ny + wing * dx), (nx + wing * dy, ny - wing * dx)
    head = "L".join(f"{x:.1f} {y:.1f}" for x, y in ((tx, ty), left, right))
    line = f'x1="{ax + half:.1f}" y1="{ay + half:.1f}" x2="{nx:.1f}" y2="{ny:.1f}"'
    return f'<g class="arrow {name}"><line {line}/><path d="M{head}Z"/></g>'
