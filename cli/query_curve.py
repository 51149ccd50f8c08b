"""A curve in the terminal: values along a line, in Braille dots or, where these are missing, in ASCII."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from graphsearch.position.values import cp_from_q

HEIGHT = 11  # rows, the middle one is zero
WIDEST_STEP = 4  # cells between two plies
_SCALES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
_BRAILLE = 0x2800
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))  # by column and row of a cell
LEFT, RIGHT = 7, 7  # columns of the scales


@dataclass(frozen=True, slots=True)
class Ink:
    """How a curve is drawn: dots of a cell across and down, and the zero line."""

    across: int
    down: int
    zero: str


UNICODE, ASCII = Ink(2, 4, "\u2500"), Ink(1, 1, "-")


def curve(
    values: Sequence[float | None], numbers: Sequence[tuple[int, bool]], width: int, *, unicode: bool
) -> list[str]:
    """Returns the lines of a plot of Q in [-1, 1], with Q on the left and pawns (`centipawn`) on the right.

    Args:
      values: by ply; None is a gap.
      numbers: by ply, the move number and whether White is to move.
      width: columns that the plot may take, at least 30.
      unicode: draw in Braille; else in ASCII.
    """
    ink = UNICODE if unicode else ASCII
    steps = max(1, len(values) - 1)
    cells = max(1, min(max(30, width) - LEFT - RIGHT, steps * WIDEST_STEP + 1))
    top = next(scale for scale in _SCALES if scale >= min(1.0, _largest(values)))
    canvas = _Canvas(cells, HEIGHT, ink)
    places = [
        (round(ply * (cells * ink.across - 1) / steps), canvas.row(value / top))
        for ply, value in enumerate(values)
        if value is not None
    ]
    known = [value is not None for value in values]
    at = iter(places)
    points = [next(at) if there else None for there in known]
    for before, after in pairwise(points):
        if before and after:
            canvas.line(before, after)
    for point in places:
        canvas.dot(*point, mark=True)
    rows = [_labelled(row, text, top) for row, text in enumerate(canvas.rows())]
    return [*rows, _axis(numbers, cells, steps)]


def _largest(values: Sequence[float | None]) -> float:
    return max((abs(value) for value in values if value is not None), default=0.0)


def _labelled(row: int, text: str, top: float) -> str:
    """Returns a row between its scales; zero and every other row are labelled."""
    middle = HEIGHT // 2
    q = top * (middle - row) / middle
    if row not in (0, middle, HEIGHT - 1) and (row - middle) % 2:
        return f"{'':>{LEFT}}{text}".rstrip()
    left = "0" if row == middle else f"{q:+.2f}"
    pawns = "0" if row == middle else f"{cp_from_q(q) / 100:+.1f}"
    return f"{left:>{LEFT - 1}} {text} {pawns:>{RIGHT - 2}}"


def _axis(numbers: Sequence[tuple[int, bool]], cells: int, steps: int) -> str:
    """Returns the line of move numbers, as many as fit, each under White's move."""
    line = [" "] * (cells + LEFT)
    free = 0
    for ply, (number, white) in enumerate(numbers):
        place, text = round(ply * (cells - 1) / steps), str(number)
        if white and place >= free and place + len(text) <= cells:
            line[LEFT + place : LEFT + place + len(text)] = text
            free = place + len(text) + 2
    return "".join(line).rstrip()


class _Canvas:
    """Cells with dots in them."""

    def __init__(self, width: int, height: int, ink: Ink) -> None:
        self._width, self._height, self._ink = width, height, ink
        self._cells = [[0] * width for _ in range(height)]

    def row(self, share: float) -> int:
        """Returns the row of dots of a value in [-1, 1]; 1 is at the top, 0 in the middle of the middle
        row."""
        rows = self._height * self._ink.down
        half = (self._height // 2) * self._ink.down
        return min(rows - 1, max(0, round((rows - 1) / 2 - share * half)))

    def dot(self, x: int, y: int, *, mark: bool = False) -> None:
        """Sets a dot; a mark is a point of the curve, which ASCII draws differently."""
        column, row = x // self._ink.across, y // self._ink.down
        if self._ink.across == 1:
            self._cells[row][column] = max(self._cells[row][column], 2 if mark else 1)
        else:
            self._cells[row][column] |= _DOTS[x % 2][y % 4]

    def line(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        """Sets the dots between two points."""
        steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
        for k in range(steps + 1):
            x = start[0] + (end[0] - start[0]) * k / steps
            y = start[1] + (end[1] - start[1]) * k / steps
            self.dot(round(x), round(y))

    def rows(self) -> Iterator[str]:
        """Yields the rows as text, the zero line where nothing is drawn."""
        for number, row in enumerate(self._cells):
            empty = self._ink.zero if number == self._height // 2 else " "
            yield "".join(self._text(cell, empty) for cell in row)

    def _text(self, cell: int, empty: str) -> str:
        if not cell:
            return empty
        return " .*"[cell] if self._ink.across == 1 else chr(_BRAILLE | cell)
