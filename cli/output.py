"""Output streams; errors: one line on stderr and an exit code; the words of this program."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from graphsearch.base import errors
from graphsearch.base.faults import DEFECT, error_line, is_defect, line_of
from graphsearch.base.system import join_command

from .tables import Part, encodes, is_json, lines_of

if TYPE_CHECKING:
    import chess


class Report(Protocol):
    """The result of a command."""

    def as_dict(self) -> dict[str, Any]:
        """Returns the result for JSON."""


PROGRAM = "graphsearch"
typed: list[str] = []  # the words of the running command line

MOST_DAMAGED = 5  # problems shown after a search of a damaged file; `store verify` lists all
# messages of several commands
NOT_SAVED = "Nothing was saved; use --store FILE to save a search and resume it later."
ENDED_BY_READER = (
    "The search ended because another program is reading an old state of the file, which keeps the "
    "write-ahead log growing. Close that program, then resume."
)

LONGEST_MESSAGE = 1 << 16  # characters
PAGE_WIDTH = 100  # columns of a table that fits a page

FAILED, WRONG_USE, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141  # 130 = 128 + SIGINT, 141 = 128 + SIGPIPE


def program_name() -> str:
    """Returns the command that called this program: `graphsearch` or `python -m graphsearch`."""
    return f"python -m {PROGRAM}" if Path(sys.argv[0]).parts[-2:] == (PROGRAM, "__main__.py") else PROGRAM


def command_text(*words: str) -> str:
    """Returns a command line of this program, quoted for a shell; the running one unless words are given."""
    return join_command([*program_name().split(), *(words or typed)])


def fail(problem: str) -> int:
    """Prints why a command fails, and returns its exit code."""
    say(f"{PROGRAM}: {problem}")
    return FAILED


def failed(error: Exception) -> int:
    """Prints an error, in one line or one for each problem; returns the exit code."""
    for text in getattr(error, "problems", [error_line(error)]):
        fail(text)
    if is_defect(error):
        return DEFECT
    if isinstance(error, errors.ImportFileError):  # about a file's contents, even if about a position too
        return FAILED
    wrong = errors.InvalidPositionError | errors.InvalidParameterError | errors.InputFileError
    return WRONG_USE if isinstance(error, wrong | errors.MissingPackageError) else FAILED


def one_line(text: str) -> str:
    """Returns a text as one line of printable characters.

    >>> one_line("no file 'a\\nb\\x1b'")
    "no file 'a b?'"
    """
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))


def say(message: str) -> None:
    """Prints a message as one line on stderr, if possible."""
    shown = message if len(message) <= LONGEST_MESSAGE else message[:LONGEST_MESSAGE] + "..."
    with suppress(OSError, ValueError):  # closed, full, or gone: the work goes on
        print(one_line(shown), file=sys.stderr, flush=True)


def say_if_unfinished(path: str | os.PathLike[str]) -> None:
    """Prints a note if a graph file is being moved to another evaluator, and how to finish that."""
    from graphsearch.store.store import unfinished_state

    with suppress(errors.GraphSearchError):  # `store verify` says what is wrong with a damaged file
        if state := unfinished_state(path):
            say(f"note: {state}")


def say_clock(board: chess.Board) -> None:
    """Prints a note if the halfmove clock of a position to search allows a draw, or ends the game."""
    from graphsearch.position.board import is_over_by_clock, may_claim

    if may_claim(board):
        say("note: the side to move may claim a draw (50-move rule)")
    elif is_over_by_clock(board):
        say("note: the game is over: it is drawn by the 75-move rule")


SHOWN_PROBLEMS = 20


def problem_lines(problems: Sequence[str], found: int) -> Iterator[str]:
    """Yields the first problems of a file, and the number of the others."""
    shown = problems[:SHOWN_PROBLEMS]
    yield from map(one_line, shown)
    if found > len(shown):
        yield f"and {found - len(shown):,} more" + (
            f"; --json lists {len(problems):,}" if len(problems) > len(shown) else ""
        )


def print_json(data: Mapping[str, Any]) -> None:
    """Prints one JSON object as one line on stdout; as ASCII if stdout cannot encode it otherwise.

    A file name need not be UTF-8: its other bytes appear as `\\udcXX`, as everywhere in Python.
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    print(text if encodes(text) else json.dumps(data, allow_nan=False))


def print_parts(parts: Iterable[Part], *, width: int | None = None) -> None:
    """Prints texts and tables on stdout.

    `width`: of a page where stdout is no terminal; None: as wide as needed.
    """
    if sys.stdout.isatty():
        width = get_terminal_size().columns
    for line in lines_of(parts, width):
        print(line)


def print_answer(found: Report | Mapping[str, Any], parts: Iterable[Part], *, fits: bool = False) -> None:
    """Prints an answer on stdout: as JSON, or the lines and tables that show it.

    `fits`: whether tables fit a page in a file or a pipe, too: COLUMNS, else 100 wide.
    """
    if is_json():
        print_json(found if isinstance(found, Mapping) else found.as_dict())
    else:
        columns = os.environ.get("COLUMNS", "")
        width = int(columns) if columns.isdecimal() and int(columns) else PAGE_WIDTH
        print_parts(parts, width=width if fits else None)


def _drop(stream: TextIO) -> None:
    """Redirects a stream to the null device; at exit the interpreter would flush its buffer, and fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def close_quietly(code: int) -> int:
    """Flushes stdout and stderr; returns the exit code, 141 if nothing reads stdout any more."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = PIPE_CLOSED
        _drop(sys.stdout)
    except OSError as error:
        if not code:  # else the command has reported its failure, which may be this
            fail(f"cannot write the output: {line_of(error)}")
        code = code or FAILED
        _drop(sys.stdout)
    try:
        sys.stderr.flush()
    except OSError:  # no stream is left for a message
        _drop(sys.stderr)
    return code
