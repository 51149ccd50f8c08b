"""`graphsearch evaluate`: evaluates positions without a search."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import groupby, islice
from json import dumps

import typer

from graphsearch.evaluators.assess import Assessment, assess_boards, assess_lines
from graphsearch.position.notation import holds_positions

from .options import STDIN, EvaluatorOptions, LineOptions, Param, open_input
from .output import FAILED, fail
from .progress import progress_bar
from .render import TERMINAL_NAMES, game_text, named, wdl
from .tables import VIEW, is_detailed, is_json, is_white, score, signed

TOP = 5  # priors that the text shows


def evaluate(*, positions: list[str] | None = None, evaluator: EvaluatorOptions, param: Param = None) -> int:
    """Print what an evaluator says about positions: WDL, Q, centipawns and the prior of every move.

    In a file, blank lines and lines that start with # are ignored. A line that is not a position is reported
    with its number; the others are evaluated, and the exit code is 1, as for a file without positions. A file
    may have any length: lines are read, evaluated on all cores and printed at the same time. A slow pipe's
    lines are answered one by one.

    \b
    Examples:
      graphsearch evaluate startpos
      graphsearch evaluate positions.epd --json

    Args:
      positions: POSITION...: startpos, chess960:N, FENs or moves in quotes, PGN files (their last positions),
        files with a FEN or EPD on each line, or - for such lines on stdin; startpos by default.
    """
    bad = 0

    def refuse(number: int, error: Exception) -> None:
        nonlocal bad
        bad += fail(f"line {number}: {error}")

    engine, others = evaluator.create(param or ())
    with closing(engine):
        if others:
            raise typer.BadParameter(f"{others[0]!r} is not an evaluator option; use PolicyTemperature=X")
        given = groupby(positions or ["startpos"], lambda text: text == STDIN or holds_positions(text))
        for many, texts in given:
            if not many:
                boards = [LineOptions().board_after(text) for text in texts]
                _answer(assess_boards(engine, boards), lambda *_: None, names=map(game_text, boards))
                continue
            for name in texts:
                before = bad
                with open_input(name) as file, progress_bar("Positions", streaming=True) as advance:
                    done = _answer(assess_lines(engine, file, name, refuse), advance)
                if not done and bad == before:
                    bad += fail(f"{'stdin' if name == STDIN else name} has no positions")
    return FAILED if bad else 0


def _answer(
    found: Iterable[list[Assessment]], advance: Callable[[int, None], None], *, names: Iterable[str] = ()
) -> int:
    """Prints the evaluations of positions in order, and returns their number.

    Args:
      names: the lines to the first positions.
    """
    done, lines = 0, iter(names)
    for answers in found:
        for assessment in answers:
            print(dumps(assessment.as_dict()) if is_json() else _text(assessment, next(lines, "")))
        sys.stdout.flush()
        done += len(answers)
        advance(done, None)
    return done


def _text(a: Assessment, line: str) -> str:
    white = is_white(a.position)
    worth = f"{score(a.cp, None, white=white)}   W D L {wdl(a.wdl, white=white)}   {VIEW}"
    value = TERMINAL_NAMES.get(a.terminal) or worth
    more = f"Q {signed(a.q, white=white)}" if is_detailed() and a.terminal not in TERMINAL_NAMES else ""
    priors = "  ".join(f"{move} {100 * p:.1f}%" for move, p in islice(a.priors.items(), TOP))
    heads = named(line or a.position, a.position)
    return "\n  ".join(part for part in (*heads, value, more, priors) if part)
