"""The output of `graphsearch review`: tables and lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .render import count, cp_text, move_number
from .tables import FILL, RIGHT, WHOLE, fitting, table

if TYPE_CHECKING:
    from rich.table import Table

    from graphsearch.book.review.results import GameReview, MoveReview
    from graphsearch.book.review.review_report import Player, ReviewReport

MAX_PROBLEMS = 20  # listed; JSON has all
MAX_PLAYERS = 40
# column -> the narrowest terminal that has it
PLAYER_COLUMNS = {
    "Player": 0, "Games": 58, "Moves": 50, "Accuracy": 0, "Loss %": 44, "Loss cp": 66, "??": 0, "?": 0,
    "?!": 0, "!": 72, "Opening": 84, "Middlegame": 84, "Endgame": 84,
}  # fmt: skip
MOMENT_COLUMNS = {"Move": 0, "Value": 0, "Loss %": 30, "Better": 44, "Its value": 56}


def players_table(report: ReviewReport, width: int | None) -> Table:
    """Returns the figures of the players; the phases have accuracies."""
    names = fitting(PLAYER_COLUMNS, width)
    columns = {name: (FILL if width else WHOLE) if name == "Player" else RIGHT for name in names}
    return table(columns, map(_player_cells, report.players.listed()[:MAX_PLAYERS]), width=width)


def _player_cells(player: Player) -> dict[str, str]:
    found = player.all
    return {
        "Player": player.name,
        "Games": f"{player.games:,}",
        "Moves": f"{found.moves:,}",
        "Accuracy": _decimal(found.accuracy),
        "Loss %": _decimal(found.mean_loss),
        "Loss cp": _decimal(found.mean_loss_cp),
        "??": str(found.blunders),
        "?": str(found.mistakes),
        "?!": str(found.inaccuracies),
        "!": str(found.good),
        **{phase.capitalize(): _decimal(of.accuracy) for phase, of in player.phases.items()},
    }


def _decimal(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def moments_table(game: GameReview, width: int | None) -> Table:
    """Returns the marked moves of a game, values seen by White."""
    columns = {name: FILL if name == "Better" else RIGHT for name in fitting(MOMENT_COLUMNS, width)}
    columns["Move"] = WHOLE
    return table(columns, [_moment_cells(move) for move in game.moves if move.glyph], width=width)


def _moment_cells(move: MoveReview) -> dict[str, str]:
    better = move.better if move.loss else ""
    return {
        "Move": f"{move_number(move.number, white=move.white)} {move.san}{move.glyph}",
        "Value": _value(move.cp, move.mate),
        "Loss %": f"{50 * move.loss:.1f}" if move.loss else "",
        "Better": better,
        "Its value": _value(move.best_cp, move.best_mate) if better else "",
    }


def _value(cp: int, mate: int | None) -> str:
    return cp_text(cp) if mate is None else f"#{mate}" if mate else "mate"


def problem_lines(report: ReviewReport) -> Iterator[str]:
    """Yields skipped games and notes about the file."""
    for problem in report.problems[:MAX_PROBLEMS]:
        yield f"{report.name}, line {problem.place}: {problem.reason}"
    more = len(report.problems) - MAX_PROBLEMS
    if more > 0:
        yield f"{report.name}: and {more:,} more; --json has all"
    for note in report.notes[:MAX_PROBLEMS]:
        yield f"note: {report.name}: {note}"
    if len(report.notes) > MAX_PROBLEMS:
        yield f"note: {report.name}: and {len(report.notes) - MAX_PROBLEMS:,} more notes; --json has all"


def unlisted_lines(report: ReviewReport) -> Iterator[str]:
    """Yields the number of players that the table leaves out."""
    players = len(report.players.listed())
    if players > MAX_PLAYERS:
        yield f"and {players - MAX_PLAYERS:,} more players; --json has all"


def report_lines(report: ReviewReport) -> Iterator[str]:
    """Yields the report line by line."""
    skipped = f", {report.skipped:,} skipped" if report.skipped else ""
    yield (
        f"{count(report.reviewed, 'game')} reviewed{skipped}; {count(report.searched, 'position')} searched,"
        f" {report.known:,} known before; {report.new_visits:,} visits, {report.evaluations:,} evaluations,"
        f" {report.seconds:.1f} s"
    )
    for path in report.outputs:
        yield f"Written: {path}"
