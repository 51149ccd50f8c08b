"""A review as one HTML file: no network, no scripts, light and dark; report.html is its template.

The template escapes all text of the games.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from html import escape
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

import chess

from ...base.version import __version__
from ...exchange.pieces import sprite
from ...position.board import board_of
from .formulas import win_percent
from .games import SourceGame
from .results import GameReview, MoveReview, ReviewReport

if TYPE_CHECKING:
    from markupsafe import Markup

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
MOST_MOMENTS = 6  # of a game, those with the largest loss
FACTS = ("Event", "Site", "Date", "Round", "ECO", "Opening")  # headers to show
NAMES = {"??": "blunder", "?": "mistake", "?!": "inaccuracy", "!": "only good move"}
MARKS = {"??": "blunder", "?": "mistake", "?!": "inaccuracy", "!": "good"}
SQUARE = 45  # pixels, as the pieces


class HtmlOutput:
    """Writes a report to a stream; games stay in a temporary file until the index is complete."""

    def __init__(self, out: BinaryIO, *, evaluator: str) -> None:
        self._out = out
        self._evaluator = evaluator
        self._body = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `__exit__`)
        self._index: list[Markup] = []

    def __enter__(self) -> HtmlOutput:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._body.close()

    def add(self, game: SourceGame, review: GameReview) -> None:
        """Adds a game."""
        facts = [game.headers[name] for name in FACTS if game.headers.get(name, "?").strip("?. ")]
        self._index.append(_page().index_row(game, review))
        self._body.write(_page().section(game, review, _moments(review), facts).encode())

    def finish(self, report: ReviewReport) -> None:
        """Writes the whole report."""
        from markupsafe import Markup

        style = Markup(_file("review.css"))  # noqa: S704 (our own)
        pieces, day = Markup(sprite()), datetime.now(UTC).strftime("%Y-%m-%d")  # noqa: S704 (our own)
        head = _page().head(report, self._index, self._evaluator, style, pieces, __version__, day)
        self._out.write(head.encode())
        self._body.seek(0)
        shutil.copyfileobj(self._body, self._out)
        self._out.write(b"</main></body></html>\n")


def _file(name: str) -> str:
    return (files("graphsearch.book.review") / name).read_text(encoding="utf-8")


@cache
def _page() -> Any:
    """Returns the macros of the template."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.globals |= {"policy": POLICY, "marks": MARKS, "names": NAMES, "square": SQUARE}
    environment.globals["curve_of"] = Curve
    environment.filters |= {
        "text": _text,
        "file_name": lambda name: _text(Path(name).name),
        "decimal": lambda value: "" if value is None else f"{value:.1f}",
        "value": lambda value: value_text(*value),
        "move_text": move_text,
        "pieces": _pieces,
        "arrow": _arrow,
    }
    return environment.from_string(re.sub(r"\n\s*", "", _file("report.html"))).module


def _text(value: object) -> Markup:
    """Returns a text as HTML; unprintable characters become blanks."""
    from markupsafe import Markup

    return Markup(escape("".join(c if c.isprintable() else " " for c in str(value))))  # noqa: S704


def _moments(review: GameReview) -> list[MoveReview]:
    """Returns the marked moves with the largest loss, in the order of the game."""
    marked = [move for move in review.moves if move.glyph and move.loss]
    most = sorted(marked, key=lambda move: -move.loss)[:MOST_MOMENTS]
    return sorted(most, key=lambda move: move.ply)


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


class Curve:
    """The coordinates of the curve of White's Win% over a game, in pixels.

    Attributes:
      points: x and y of each position.
    """

    WIDE, TALL = 760, 190
    LEFT, RIGHT, TOP, BOTTOM = 34, 750, 10, 170
    LABEL = 80  # width of the name of a phase
    MOST_NUMBERS = 12  # labels below the curve

    def __init__(self, review: GameReview) -> None:
        self._moves = review.moves
        percents = [win_percent(review.q), *(win_percent(move.q) for move in review.moves)]
        self.points = [(self._x(ply), self.height(percent)) for ply, percent in enumerate(percents)]

    def _x(self, ply: int) -> float:
        steps = max(1, len(self._moves))
        return round(self.LEFT + ply / steps * (self.RIGHT - self.LEFT), 1)

    def height(self, percent: float) -> float:
        """Returns the y of a Win%."""
        return round(self.TOP + (100.0 - percent) / 100.0 * (self.BOTTOM - self.TOP), 1)

    def path(self) -> str:
        """Returns the points of the curve for an SVG path."""
        return "L".join(f"{x} {y}" for x, y in self.points)

    def phases(self) -> Iterator[tuple[float, bool, str]]:
        """Yields x of the start of each later phase, whether its name stands to the left, and the name."""
        for before, after in pairwise(self._moves):
            if before.phase != after.phase:
                x = self._x(after.ply)
                yield x, x > self.WIDE - self.LABEL, after.phase

    def numbers(self) -> Iterator[tuple[float, int]]:
        """Yields x and number of the moves to label, as many as fit."""
        whites = [move for move in self._moves if move.white]
        many = len(whites) > self.MOST_NUMBERS
        every = 5 * -(-len(whites) // (5 * self.MOST_NUMBERS)) if many else 1
        for move in whites:
            if move.number % every == 0:
                yield self._x(move.ply + 1), move.number


# ------------------------------------------------------------------ a position, from the side that moves
def _corner(square: chess.Square, white: bool) -> tuple[int, int]:
    across, down = chess.square_file(square), 7 - chess.square_rank(square)
    return (SQUARE * across, SQUARE * down) if white else (SQUARE * (7 - across), SQUARE * (7 - down))


def _pieces(move: MoveReview) -> Iterator[tuple[str, int, int]]:
    """Yields the name and the corner of each piece before a move."""
    for square, piece in board_of(move.position).piece_map().items():
        name = f"{'w' if piece.color else 'b'}{chess.piece_symbol(piece.piece_type)}"
        yield name, *_corner(square, move.white)


def _arrow(move: str, white: bool) -> tuple[tuple[str, ...], str]:
    """Returns the ends of an arrow over the squares of a move, and the corners of its head."""
    half, neck, wing = SQUARE / 2, 17, 9
    (ax, ay), (bx, by) = (_corner(chess.parse_square(move[at : at + 2]), white) for at in (0, 2))
    length = max(1.0, ((bx - ax) ** 2 + (by - ay) ** 2) ** 0.5)
    dx, dy = (bx - ax) / length, (by - ay) / length
    tx, ty = bx + half - 6 * dx, by + half - 6 * dy  # the tip
    nx, ny = tx - neck * dx, ty - neck * dy
    left, right = (nx - wing * dy, ny + wing * dx), (nx + wing * dy, ny - wing * dx)
    head = "L".join(f"{x:.1f} {y:.1f}" for x, y in ((tx, ty), left, right))
    return tuple(f"{end:.1f}" for end in (ax + half, ay + half, nx, ny)), head
