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
from .render import TERMINAL_NAMES, signed, wdl_text

if TYPE_CHECKING:
    import chess

    from graphsearch.evaluators import assess as assessing
    from graphsearch.evaluators import protocol

CHUNK = 256  # positions read, evaluated and printed together
TOP = 5  # priors that the text shows


@command(
    "Evaluate positions without a search.",
    "graphsearch evaluate startpos",
    "graphsearch evaluate --fens positions.epd --json",
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
    fens: Annotated[
        str | None,
        typer.Option("--fens", metavar="FILE", help="A file with one FEN or EPD per line; - reads stdin."),
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
    with its number; the others are evaluated, and the exit code is 1.
    """
    if bool(positions) == bool(fens):
        raise typer.BadParameter("give either positions or --fens FILE")
    engine, others = evaluator.create(param or ())
    with closing(engine):
        if others:
            raise typer.BadParameter(f"{others[0]!r} is not an evaluator option; use PolicyTemperature=X")
        good = _evaluate(engine, positions or [], fens, json=json)
    if not good:
        raise typer.Exit(FAILED)


def _evaluate(engine: protocol.Evaluator, positions: list[str], fens: str | None, *, json: bool) -> bool:
    """Returns whether every line of the file, if one is given, held a position."""
    if fens is None:
        boards = list(_given(positions))
        with _ready(engine):
            _answer(engine, boards, json=json)
        return True
    with _open(fens) as lines, _ready(engine):
        return _answer_lines(engine, lines, json=json)


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


def _answer_lines(engine: protocol.Evaluator, lines: Iterable[str], *, json: bool) -> bool:
    """Returns whether every line held a position; the answers are printed in the order of the lines."""
    from graphsearch.position.notation import read_fen_lines

    good, found = True, read_fen_lines(lines)
    while chunk := list(islice(found, CHUNK)):
        boards = []
        for number, item in chunk:
            if isinstance(item, Exception):
                say(f"graphsearch: line {number}: {item}")
                good = False
            else:
                boards.append(item)
        _answer(engine, boards, json=json)
    return good


def _answer(engine: protocol.Evaluator, boards: list[chess.Board], *, json: bool) -> None:
    from graphsearch.evaluators.assess import assess

    for assessment in assess(engine, boards):
        if json:
            print_json(assessment.as_dict())
        else:
            print(_text(assessment))
    sys.stdout.flush()


def _text(a: assessing.Assessment) -> str:
    ended = TERMINAL_NAMES.get(a.terminal)
    value = ended or f"Q {signed(a.q)}   WDL % {wdl_text(a.wdl)}   cp {a.cp:+d}"
    priors = "  ".join(f"{move} {100 * p:.1f}%" for move, p in islice(a.priors.items(), TOP))
    return "\n  ".join(part for part in (a.position, value, priors) if part)
