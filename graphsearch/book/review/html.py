"""A review as one HTML file: no network, no scripts, light and dark. All text of the games is escaped."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import chess

from ...exchange.pieces import sprite
from ...position.board import board_of
from ...version import __version__
from .formulas import PHASES, Figures, win_percent
from .games import SourceGame
from .results import COLORS, GameReview, MoveReview, Player, ReviewReport

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
MOST_MOMENTS = 6  # of a game, those with the largest loss
FACTS = ("Event", "Site", "Date", "Round", "ECO", "Opening")  # headers that are shown
NAMES = {"??": "blunder", "?": "mistake", "?!": "inaccuracy", "!": "only good move"}


class HtmlOutput:
    """Writes a report to a stream; games stay in a temporary file until the index is complete."""

    def __init__(self, out: BinaryIO, *, evaluator: str) -> None:
        self._out = out
        self._evaluator = evaluator
        self._body = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `__exit__`)
        self._index: list[str] = []

    def __enter__(self) -> HtmlOutput:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._body.close()

    def add(self, game: SourceGame, review: GameReview) -> None:
        """Adds a game."""
        self._index.append(_index_row(game, review))
        self._body.write("".join(_section(game, review)).encode())

    def finish(self, report: ReviewReport) -> None:
        """Writes the whole report."""
        self._out.write("".join(self._head(report)).encode())
        self._body.seek(0)
        shutil.copyfileobj(self._body, self._out)
        self._out.write(b"</main></body></html>\n")

    def _head(self, report: ReviewReport) -> Iterator[str]:
        style = (files("graphsearch.book.review") / "review.css").read_text(encoding="utf-8")
        yield '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        yield f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
        name = _text(Path(report.name).name)
        yield f"<title>Review of {name}</title><style>{style}</style></head>"
        yield f"<body>{sprite()}<main>"
        day = datetime.now(UTC).strftime("%Y-%m-%d")
        yield f'<h1>Review of {name}</h1><p class="note">'
        yield f"{report.reviewed:,} game{'' if report.reviewed == 1 else 's'}, "
        yield f"{report.visits:,} visits of every position, "
        yield f"evaluator {_text(self._evaluator)}; graphsearch {__version__}, {day}.</p>"
        yield from _left_out(report)
        if len(self._index) > 1:
            yield _figures_table("Player", [_player_row(player) for player in report.players.listed()])
        yield '<p class="note">Accuracy in per cent. Loss: expected score, in per cent, and pawns that a'
        yield " move loses on average. O, M, E: accuracy in the opening, the middlegame and the endgame.</p>"
        if len(self._index) > 1:
            heads = ("Game", "White", "Black", "Result", "Date", "Accuracy", "??", "?", "?!")
            yield f'<div class="index">{_table(heads, self._index, "Games")}</div>'


def _left_out(report: ReviewReport) -> Iterator[str]:
    lines = [f"line {one.place}: {one.reason}" for one in report.problems]
    if lines:
        items = "".join(f"<li>{_text(line)}</li>" for line in lines)
        yield f"<details><summary>{report.skipped:,} left out</summary><ul>{items}</ul></details>"


# ------------------------------------------------------------------ tables
def _text(value: object) -> str:
    """Returns a text as HTML; unprintable characters become blanks."""
    return escape("".join(c if c.isprintable() else " " for c in str(value)))


def _table(heads: Iterable[str], rows: Iterable[str], caption: str) -> str:
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in heads)
    return (
        f'<div class="scroll"><table><caption>{caption}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _row(*cells: str) -> str:
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _figures_cells(phases: dict[str, Figures]) -> list[str]:
    found = sum(phases.values(), Figures())
    counts = (found.blunders, found.mistakes, found.inaccuracies, found.good)
    means = (found.accuracy, found.mean_loss)
    pawns = "" if found.mean_loss_cp is None else f"{found.mean_loss_cp / 100:.2f}"
    each = [phases[phase].accuracy for phase in PHASES]
    return [f"{found.moves:,}", *map(_number, means), pawns, *map(str, counts), *map(_number, each)]


def _figures_table(who: str, rows: Iterable[list[str]]) -> str:
    heads = (who, "Moves", "Accuracy", "Loss %", "Loss", "??", "?", "?!", "!", "O", "M", "E")
    return _table(heads, (_row(*row) for row in rows), "Figures")


def _player_row(player: Player) -> list[str]:
    games = f' <span class="note">{player.games:,} game{"" if player.games == 1 else "s"}</span>'
    return [_text(player.name) + games, *_figures_cells(player.phases)]


def _index_row(game: SourceGame, review: GameReview) -> str:
    both = [review.of(color) for color in COLORS]
    accuracy = " / ".join(_number(one.accuracy) or "\u2013" for one in both)
    counts = [f"{a} / {b}" for a, b in (tuple(getattr(o, name) for o in both) for name in _COUNTS)]
    link = f'<a href="#g{game.number}">{game.number}</a>'
    names = [_text(review.player(color)) for color in COLORS]
    return _row(link, *names, _text(game.result), _text(game.headers.get("Date", "")), accuracy, *counts)


_COUNTS = ("blunders", "mistakes", "inaccuracies")


# ------------------------------------------------------------------ one game
def _section(game: SourceGame, review: GameReview) -> Iterator[str]:
    moments = _moments(review)
    anchors = frozenset(move.ply for move in moments)
    names = " \u2013 ".join(_text(review.player(color)) for color in COLORS)
    yield f'<section id="g{game.number}"><h2>{names} <span class="result">{_text(game.result)}</span></h2>'
    facts = [_text(game.headers[name]) for name in FACTS if game.headers.get(name, "?").strip("?. ")]
    yield f'<p class="note">Game {game.number}{"".join(f" · {fact}" for fact in facts)}</p>'
    yield curve_svg(review, anchors=anchors)
    sides = [[_text(review.player(color)), *_figures_cells(review.figures[color])] for color in COLORS]
    yield _figures_table("Side", sides)
    if moments:
        yield '<div class="moments">'
        yield from (_moment(game, move) for move in moments)
        yield "</div>"
    yield '<details><summary>All moves</summary><p class="moves">'
    yield from (_move(move) for move in review.moves)
    yield f"{_text(game.result)}</p></details></section>"


def _moments(review: GameReview) -> list[MoveReview]:
    """Returns the marked moves with the largest loss, in the order of the game."""
    marked = [move for move in review.moves if move.glyph and move.loss]
    most = sorted(marked, key=lambda move: -move.loss)[:MOST_MOMENTS]
    return sorted(most, key=lambda move: move.ply)


def _moment(game: SourceGame, move: MoveReview) -> str:
    return (
        f'<figure id="g{game.number}-{move.ply}">{diagram_svg(move)}<figcaption>'
        f'<b class="{MARKS[move.glyph]}">{_text(move_text(move))}</b> {value_text(move.cp, move.mate)}, '
        f"{NAMES[move.glyph]}<br>better: {_text(move.better)} ({value_text(move.best_cp, move.best_mate)})"
        "</figcaption></figure>"
    )


def _move(move: MoveReview) -> str:
    number = f'<span class="number">{move.number}.</span> ' if move.white or not move.ply else ""
    name = f' class="{MARKS[move.glyph]}"' if move.glyph else ""
    new = ' <span class="new">N</span>' if move.novelty is not None else ""
    about = (
        f"{value_text(move.cp, move.mate)}; best {move.best_san} {value_text(move.best_cp, move.best_mate)}"
    )
    return f'{number}<span{name} title="{_text(about)}">{_text(move.san + move.glyph)}</span>{new} '


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
