"""`graphsearch evaluate`: evaluates positions without a search."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext
from io import BytesIO
from itertools import groupby, islice
from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command
from .options import EvaluatorOptions, Json, LineOptions, Param, argument
from .output import FAILED, say
from .progress import Advance, progress_bar
from .render import TERMINAL_NAMES, game_text, heading, is_white, look, named, score, signed, wdl

if TYPE_CHECKING:
    from graphsearch.evaluators import assess as assessing
    from graphsearch.evaluators import protocol
    from graphsearch.evaluators.assess import Answers
    from graphsearch.position.fens import TextLines

STDIN = "-"
TOP = 5  # priors that the text shows


@command(
    "Evaluate positions without a search.",
    "graphsearch evaluate startpos",
    "graphsearch evaluate positions.epd --json",
    views=True,
)
def evaluate(
    *,
    positions: Annotated[
        list[str] | None,
        argument(
            "POSITION...",
            "startpos, chess960:N, FENs or moves in quotes, PGN files (their last positions), files with a "
            "FEN or EPD on each line, or - for such lines on stdin; startpos by default.",
        ),
    ] = None,
    evaluator: EvaluatorOptions,
    param: Param = None,
    json: Json = False,
) -> None:
    """Print what an evaluator says about positions: WDL, Q, centipawns and the prior of every move.

    In a file, blank lines and lines that start with # are ignored. A line that is not a position is reported
    with its number; the others are evaluated, and the exit code is 1, as for a file without positions. A file
    may have any length: lines are read, evaluated on all cores and printed at the same time. A slow pipe's
    lines are answered one by one.
    """
    engine, others = evaluator.create(param or ())
    with closing(engine):
        if others:
            raise typer.BadParameter(f"{others[0]!r} is not an evaluator option; use PolicyTemperature=X")
        good = _evaluate(engine, positions or ["startpos"], json=json)
    if not good:
        raise typer.Exit(FAILED)


def _evaluate(engine: protocol.Evaluator, positions: list[str], *, json: bool) -> bool:
    """Returns whether every file had positions, and nothing else."""
    from graphsearch.evaluators.assess import assess_boards, assess_lines
    from graphsearch.position.notation import holds_positions

    bad = 0

    def refuse(number: int, error: Exception) -> None:
        nonlocal bad
        say(f"graphsearch: line {number}: {error}")
        bad += 1

    for many, texts in groupby(positions, lambda text: text == STDIN or holds_positions(text)):
        if not many:
            boards = [LineOptions().board_after(text) for text in texts]
            _answer(assess_boards(engine, boards), None, json=json, names=map(game_text, boards))
            continue
        for name in texts:
            before = bad
            with _open(name) as lines, progress_bar("Positions", streaming=True) as advance:
                done = _answer(assess_lines(engine, lines, refuse), advance, json=json)
            if not done and bad == before:
                say(f"graphsearch: {'stdin' if name == STDIN else name} has no positions")
                bad += 1
    return not bad


@contextmanager
def _open(name: str) -> Iterator[TextLines]:
    from graphsearch.base.limits import open_file
    from graphsearch.position.fens import TextLines

    if name == STDIN and sys.stdin is None:  # closed by the caller
        yield TextLines(BytesIO(), name)
        return
    with nullcontext(sys.stdin.buffer) if name == STDIN else open_file(name, piped=True) as file:
        yield TextLines(file, name)


def _answer(
    found: Iterable[Answers],
    advance: Advance | None,
    *,
    json: bool,
    names: Iterable[str] = (),
) -> int:
    """Prints the evaluations of positions in order, and returns their number.

    Args:
      names: the lines to the first positions.
    """
    done, lines = 0, iter(names)
    for answers in found:
        if json:
            print(answers.json_lines(), end="")
        else:
            for assessment in answers.assessments():
                print(_text(assessment, next(lines, "")))
        sys.stdout.flush()
        done += len(answers)
        if advance:
            advance(done, None)
    return done


def _text(a: assessing.Assessment, line: str) -> str:
    white = is_white(a.position)
    worth = f"{score(a.cp, None, white=white)}   W D L {wdl(a.wdl, white=white)}   ({heading()})"
    value = TERMINAL_NAMES.get(a.terminal) or worth
    more = f"Q {signed(a.q, white=white)}" if look.details and a.terminal not in TERMINAL_NAMES else ""
    priors = "  ".join(f"{move} {100 * p:.1f}%" for move, p in islice(a.priors.items(), TOP))
    heads = named(line or a.position, a.position)
    return "\n  ".join(part for part in (*heads, value, more, priors) if part)
