"""Where text goes, and how an error ends: one line on stderr and an exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import typer
from typer.core import TyperGroup

from graphsearch.errors import (
    GraphSearchError,
    InputFileError,
    InvalidParameterError,
    InvalidPositionError,
)

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

# what several commands have to say
NOT_SAVED = "Nothing was saved; use --store FILE to save a search and resume it later."
ENDED_BY_READER = (
    "The search ended because another program is reading an old state of the file, which keeps the "
    "write-ahead log growing. Close that program, then resume."
)

LONGEST_MESSAGE = 1 << 16  # characters
PIPE_WIDTH = 160  # columns of a table in a file or a pipe; lines are as short as their content

FAILED, WRONG_USE, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141  # 130 = 128 + SIGINT, 141 = 128 + SIGPIPE


class Group(TyperGroup):
    """A command group whose commands end with one clear line and an exit code, whatever goes wrong."""

    def invoke(self, ctx: Any) -> Any:
        """Returns what the command returns.

        Raises:
          typer.Exit: with the exit code, after saying what went wrong.
        """
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise typer.Exit(PIPE_CLOSED) from None
        except KeyboardInterrupt:
            say("Interrupted.")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if not _is_expected(error):
                raise
            for text in getattr(error, "problems", [_describe(error)]):
                say(f"graphsearch: {text}")
            raise typer.Exit(_exit_code(error)) from None


def _is_expected(error: Exception) -> bool:
    """Returns whether an error comes from outside and gets one line, or is a defect and gets a traceback."""
    if isinstance(error, GraphSearchError | OSError | MemoryError):
        return True
    return type(error).__module__ == "sqlite3"


def _exit_code(error: Exception) -> int:
    wrong = InvalidPositionError | InvalidParameterError | InputFileError
    return WRONG_USE if isinstance(error, wrong) else FAILED


def _describe(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def one_line(text: str) -> str:
    """Returns a text as one line of printable characters.

    >>> one_line("no file 'a\\nb\\x1b'")
    "no file 'a b?'"
    """
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))


def say(message: str) -> None:
    """Prints one line of message on stderr."""
    if sys.stderr is not None:
        shown = message if len(message) <= LONGEST_MESSAGE else message[:LONGEST_MESSAGE] + "..."
        print(one_line(shown), file=sys.stderr, flush=True)


def say_if_unfinished(path: str | os.PathLike[str]) -> None:
    """Prints a note if a graph file is being moved to another evaluator, and how to finish that."""
    from graphsearch.store.info import unfinished_state

    state = unfinished_state(path)
    if state:
        say(f"note: {state}")


def print_problems(problems: Sequence[str], found: int) -> None:
    """Prints what is wrong with a file, and how many more problems were found than are listed."""
    for problem in problems:
        print(one_line(problem))
    if found > len(problems):
        print(f"and {found - len(problems):,} more")


def print_json(data: Mapping[str, Any]) -> None:
    """Prints one JSON object as one line on stdout."""
    print(json.dumps(data, ensure_ascii=False, allow_nan=False))


def console(stream: TextIO) -> Console:
    """Returns a Rich console that prints text unchanged: no markup, no emoji, no highlighting."""
    from rich.console import Console

    width = None if stream.isatty() else PIPE_WIDTH
    return Console(file=stream, width=width, markup=False, emoji=False, highlight=False)


def print_view(view: Callable[[int | None], RenderableType]) -> None:
    """Prints on stdout what `view` returns for the terminal's width, or for None if there is none."""
    if sys.stdout is None:  # closed by the caller
        return
    out = console(sys.stdout)
    if out.is_terminal:
        out.print(view(out.width))
        return
    with out.capture() as text:
        out.print(view(None))
    print("\n".join(line.rstrip() for line in text.get().splitlines()))


def print_part(part: RenderableType) -> None:
    """Prints on stdout what looks the same at every width."""
    print_view(lambda _: part)


def speaks_unicode() -> bool:
    """Returns whether stdout takes lines and dots beyond ASCII."""
    try:
        "\u28ff\u2500\u2192".encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def announce_compile(purpose: str) -> None:
    """Prints a note if the kernels of a purpose are about to be compiled."""
    from graphsearch.jit.compiler import is_compiled

    if not is_compiled(purpose):
        say(f"Compiling the {purpose} kernels, once; this takes some seconds...")


@contextmanager
def compiling(purpose: str) -> Iterator[None]:
    """Announces the compile of a purpose, and records it as done after the work inside."""
    from graphsearch.jit.compiler import mark_compiled

    announce_compile(purpose)
    yield
    mark_compiled(purpose)


def close_quietly(code: int) -> int:
    """Returns the exit code after flushing stdout; 141 if nothing reads it any more."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        code = PIPE_CLOSED
    except OSError as error:
        say(f"graphsearch: cannot write the output: {_describe(error)}")
        code = code or FAILED
    else:
        return code
    # otherwise the interpreter would write the buffer again at exit, and print an error
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code
