"""`graphsearch evaluate`: what an evaluator says about positions, without a search."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from graphsearch.errors import InputFileError

from .commands import command
from .options import EvaluatorOptions, Json, LineOptions, closing
from .output import FAILED, say
from .progress import Advance, progress_bar
from .render import TERMINAL_NAMES, signed, wdl_text

if TYPE_CHECKING:
    import chess

    from graphsearch.evaluators import assess as assessing
    from graphsearch.evaluators import protocol
    from graphsearch.evaluators.sources import Source
    from graphsearch.limits import TextLines

TOP = 5  # priors that the text shows


@command(
    "Evaluate positions without a search.",
    "graphsearch evaluate startpos",
    "graphsearch evaluate --epd positions.epd --json",
    scores=True,
)
def evaluate(
    *,
    positions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="POSITION", help="startpos, chess960:N, FENs in quotes, or PGN files.", show_default=False
        ),
    ] = None,
    epd: Annotated[
        str | None,
        typer.Option(
            "--epd", "--fens", metavar="FILE", help="A file with one FEN or EPD per line; - reads stdin."
        ),
    ] = None,
    evaluator: EvaluatorOptions,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="NAME=VALUE", help="PolicyTemperature=X, as in analyze."),
    ] = None,
    json: Json = False,
) -> None:
    """Print what an evaluator says about positions: WDL, Q, centipawns and the prior of every move.

    In a file, blank lines and lines that start with # are ignored. A line that is not a position is reported
    with its number; the others are evaluated, and the exit code is 1. A file may have any length: lines are
    read, evaluated on all cores and printed at the same time. A slow pipe's lines are answered one by one.
    """
    if bool(positions) == bool(epd):
        raise typer.BadParameter("give either positions or --epd FILE")
    engine, others = evaluator.create(param or ())
    with closing(engine):
        if others:
            raise typer.BadParameter(f"{others[0]!r} is not an evaluator option; use PolicyTemperature=X")
        good = _evaluate(engine, positions or [], epd, json=json)
    if not good:
        raise typer.Exit(FAILED)


def _evaluate(engine: protocol.Evaluator, positions: list[str], epd: str | None, *, json: bool) -> bool:
    """Returns whether every line of the file, if one is given, held a position."""
    from graphsearch.evaluators.sources import BoardSource, LineSource

    if epd is None:
        boards = list(_given(positions))
        _answer(engine, BoardSource(boards), None, json=json)
        return True
    bad: list[int] = []

    def refuse(number: int, error: Exception) -> None:
        say(f"graphsearch: line {number}: {error}")
        bad.append(number)

    with _open(epd) as lines, progress_bar("Positions", streaming=True) as advance:
        _answer(engine, LineSource(lines, refuse), advance, json=json)
    return not bad


def _given(positions: list[str]) -> Iterator[chess.Board]:
    for text in positions:
        yield LineOptions().board_after(text)


@contextmanager
def _open(name: str) -> Iterator[TextLines]:
    from graphsearch.limits import TextLines, open_file

    if name == "-" and sys.stdin is None:  # closed by the caller
        yield TextLines(BytesIO(), name)
        return
    try:
        opened = nullcontext(sys.stdin.buffer) if name == "-" else open_file(name, piped=True)
    except FileNotFoundError:
        raise InputFileError(f"there is no file {name}") from None
    with opened as file:
        yield TextLines(file, name)


def _answer(engine: protocol.Evaluator, source: Source, advance: Advance | None, *, json: bool) -> None:
    """Prints the evaluations of positions, in their order."""
    from graphsearch.evaluators.assess import assess_all

    done = 0
    for answers in assess_all(engine, source):
        if json:
            print(answers.json_lines(), end="")
        else:
            for assessment in answers.assessments():
                print(_text(assessment))
        sys.stdout.flush()
        done += len(answers)
        if advance:
            advance(done, None)


def _text(a: assessing.Assessment) -> str:
    ended = TERMINAL_NAMES.get(a.terminal)
    value = ended or f"Q {signed(a.q)}   WDL % {wdl_text(a.wdl)}   cp {a.cp:+d}"
    priors = "  ".join(f"{move} {100 * p:.1f}%" for move, p in islice(a.priors.items(), TOP))
    return "\n  ".join(part for part in (a.position, value, priors) if part)
