"""`graphsearch evaluate`: what an evaluator says about positions, without a search."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command
from .options import EvaluatorOptions, Json, LineOptions, closing
from .output import FAILED, compiling, print_json, say
from .progress import Advance, progress_bar
from .render import TERMINAL_NAMES, signed, wdl_text

if TYPE_CHECKING:
    import chess

    from graphsearch.evaluators import assess as assessing
    from graphsearch.evaluators import protocol

REPORTED = 256  # positions between two movements of the progress bar
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
            metavar="POSITION", help="startpos, FENs in quotes, or PGN files.", show_default=False
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
    read, evaluated on all cores and printed at the same time.
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
    if epd is None:
        boards = list(_given(positions))
        with _ready(engine):
            _answer(engine, boards, None, json=json)
        return True
    bad: list[int] = []
    with _open(epd) as lines, _ready(engine), progress_bar("Positions", streaming=True) as advance:
        _answer(engine, _boards(lines, bad), advance, json=json)
    return not bad


def _ready(engine: protocol.Evaluator) -> AbstractContextManager[None]:
    """Returns a context that announces the compile if the evaluator is one of the kernels."""
    from graphsearch.evaluators.inside import inside

    kernel = inside(engine)
    return compiling(kernel.purpose) if kernel else nullcontext()


def _given(positions: list[str]) -> Iterator[chess.Board]:
    for text in positions:
        yield LineOptions().board_after(text)


@contextmanager
def _open(name: str) -> Iterator[Iterator[str]]:
    from graphsearch.limits import open_file, text_lines

    if name == "-" and sys.stdin is None:  # closed by the caller
        yield iter(())
        return
    with nullcontext(sys.stdin.buffer) if name == "-" else open_file(name, piped=True) as file:
        yield text_lines(file, name)


def _boards(lines: Iterable[str], bad: list[int]) -> Iterator[chess.Board]:
    """Yields the positions of lines; says what is wrong with the others, and notes their numbers in `bad`."""
    from graphsearch.position.notation import read_fen_lines

    for number, item in read_fen_lines(lines):
        if isinstance(item, Exception):
            say(f"graphsearch: line {number}: {item}")
            bad.append(number)
        else:
            yield item


def _answer(
    engine: protocol.Evaluator, boards: Iterable[chess.Board], advance: Advance | None, *, json: bool
) -> None:
    """Prints what is said of positions, in their order."""
    from graphsearch.evaluators.assess import assess_checked

    for done, assessment in enumerate(assess_checked(engine, boards), 1):
        if json:
            print_json(assessment.as_dict())
        else:
            print(_text(assessment))
        if done % REPORTED == 0:
            sys.stdout.flush()
            if advance:
                advance(done, None)
    sys.stdout.flush()


def _text(a: assessing.Assessment) -> str:
    ended = TERMINAL_NAMES.get(a.terminal)
    value = ended or f"Q {signed(a.q)}   WDL % {wdl_text(a.wdl)}   cp {a.cp:+d}"
    priors = "  ".join(f"{move} {100 * p:.1f}%" for move, p in islice(a.priors.items(), TOP))
    return "\n  ".join(part for part in (a.position, value, priors) if part)
