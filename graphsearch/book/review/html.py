"""A review as one HTML file: no network, no scripts, light and dark. All text of the games is escaped."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from ...exchange.pieces import sprite
from ...version import __version__
from .drawing import MARKS, curve_svg, diagram_svg, move_text, value_text
from .formulas import PHASES, Figures
from .games import SourceGame
from .results import COLORS, GameReview, MoveReview
from .review_report import Player, ReviewReport

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
        yield '<p class="note">Accuracy in per cent. Loss: expected score, in per cent, and centipawns that a'
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
    means = (found.accuracy, found.mean_loss, found.mean_loss_cp)
    each = [phases[phase].accuracy for phase in PHASES]
    return [f"{found.moves:,}", *map(_number, means), *map(str, counts), *map(_number, each)]


def _figures_table(who: str, rows: Iterable[list[str]]) -> str:
    heads = (who, "Moves", "Accuracy", "Loss %", "Loss cp", "??", "?", "?!", "!", "O", "M", "E")
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
