"""Shared by the formats of `graphsearch export`: their target, and their summary."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .output import FAILED, print_json, say
from .render import count

if TYPE_CHECKING:
    from graphsearch.exchange.output import ExportReport

STDOUT = "-"


@contextmanager
def opened_target(output: str) -> Iterator[Any]:
    """Yields the target of an export: a path, or stdout as a stream."""
    if output != STDOUT:
        yield Path(output)
        return
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


def summary(report: ExportReport) -> list[str]:
    """Returns the summary of an export, line by line."""
    games = f"{count(report.games, 'game tree')}, " if report.games else ""
    lines = [
        f"{report.path}: {games}{count(report.positions, 'position')}, {count(report.moves, 'move')},"
        f" {report.seconds:.1f} s"
    ]
    if report.transpositions:
        lines.append(
            f"{count(report.transpositions, 'move')} with a reference to a position expanded elsewhere"
        )
    if report.scaled:
        lines.append(f"scaled: {count(report.scaled, 'move')} of positions whose weights did not fit 16 bits")
    if report.merged:
        lines.append(f"merged: {count(report.merged, 'entry', 'entries')}")
    return lines + report.left_out_lines()


def finish(report: ExportReport, store: Path, output: str, *, json: bool) -> None:
    """Prints the summary, on stderr if the data goes to stdout; fails if the file is damaged."""
    if json:
        print_json(report.as_dict())
    else:
        for line in summary(report):
            say(line) if output == STDOUT else print(line)
    for problem in report.problems:
        say(f"damaged: {problem}")
    if report.problems:
        say(f"graphsearch: {store} is damaged; only what could be read was exported")
        raise typer.Exit(FAILED)
