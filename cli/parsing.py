"""Parses a command line: the graph file may come first; wrong use is one line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from graphsearch.base.errors import (
    BookConfigError,
    InvalidParameterError,
    InvalidPositionError,
    UnusableFileError,
)
from graphsearch.base.faults import watch_logs

from .output import INTERRUPTED, PIPE_CLOSED, failed, one_line, say
from .program import PROGRAM
from .settings import NAME, STORE_VARIABLE, settings

HELP_NAMES = {"help_option_names": ["-h", "--help"]}
SUFFIX = ".graph"
SQLITE = b"SQLite format 3\0"
NO_STORE = f"name a graph file: as first argument, with --store FILE, in {STORE_VARIABLE} or in {NAME}"
# starts of unquoted moves and FENs
POSITION_WORD = re.compile(r"\d+\.|[KQRBN]?[a-h]?[1-8]?x?[a-h][1-8]|startpos|chess960:|[1-8pnbrqkPNBRQK]+/")

# Typer's exception for wrong use, which Typer does not export
Refusal: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


class ProgramCommand(TyperCommand):
    """A command that takes its graph file with `--store` or as its first argument."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the arguments.

        Raises:
          typer.BadParameter: if a graph file is needed and none is named.
        """
        if ctx.resilient_parsing or {"-h", "--help"} & set(args):
            return super().parse_args(ctx, args)
        ctx.default_map = _settings_of(self, args)
        store = _store_option(self)
        if store is not None:
            has_default = store.name in ctx.default_map
            places = [] if _is_given(store, args) else list(_places(self, args))
            if places and _is_store(self, args[places[0]], len(places), has_default):
                first = places[0]
                args = ["--store", args[first], *args[:first], *args[first + 1 :]]
            elif store.required and not _is_given(store, args) and not has_default:
                raise typer.BadParameter(NO_STORE, ctx=ctx)
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Returns the parts of the usage line, the graph file among them."""
        pieces = super().collect_usage_pieces(ctx)
        return [*pieces[:1], "[FILE]", *pieces[1:]] if _store_option(self) is not None else pieces


class ProgramGroup(TyperGroup):
    """A command group that ends every failing command with one clear line and an exit code.

    Attributes:
      headings: of its help, in order.
    """

    headings: tuple[str, ...] = ()

    def invoke(self, ctx: Any) -> Any:
        """Runs the command and returns its result.

        Raises:
          typer.Exit: with the exit code, after printing the error.
        """
        watch_logs(lambda line: say(f"{PROGRAM}: {line}"))
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise typer.Exit(PIPE_CLOSED) from None
        except KeyboardInterrupt:
            say("Interrupted.")
            raise typer.Exit(INTERRUPTED) from None
        except (typer.Exit, typer.Abort, Refusal):
            raise
        except Exception as error:
            code = failed(error)
            say_where_help_is(error, f"{ctx.command_path} {ctx.invoked_subcommand}")
            raise typer.Exit(code) from None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the commands under their headings."""
        headings: dict[str, list[tuple[str, str]]] = {heading: [] for heading in self.headings}
        width = formatter.width - 6 - max(map(len, self.commands))
        for name in self.list_commands(ctx):
            one = self.commands[name]
            row = (name, one.get_short_help_str(width))
            headings.setdefault(getattr(one, "rich_help_panel", None) or "Commands", []).append(row)
        for heading, found in headings.items():
            with formatter.section(heading):
                formatter.write_dl(found, col_max=max(map(len, self.commands)) + 2)


def refuse(error: Any) -> int:
    """Prints the problem of a command line, and where help is; returns the exit code."""
    ctx = error.ctx
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        text = one_line(error.format_message()).removeprefix("Invalid value: ")
        params = {param.name for param in ctx.command.params} if ctx is not None else set()
        unquoted = params & {"position", "positions"} and "unexpected extra argument" in text
        hint = "; put moves and a FEN in quotes" if unquoted else ""
        say(f"{PROGRAM}: {text}{hint}")
        if ctx is not None:
            say(f"Try '{ctx.command_path} --help'.")
    return int(error.exit_code)


def say_where_help_is(error: Exception, command: str) -> None:
    """Prints where help is, if an error is about a word of the command line."""
    if isinstance(error, UnusableFileError):
        return
    if isinstance(error, InvalidPositionError):
        say(f"Try '{PROGRAM} help positions'.")
    elif isinstance(error, InvalidParameterError) and not isinstance(error, BookConfigError):
        say(f"Try '{command} --help'.")


# ---------------------------------------------------------------- settings and the graph file
def _settings_of(command: TyperCommand, args: list[str]) -> dict[str, object]:
    """Returns the settings that apply to a command's options, by parameter."""
    found = settings()
    if "color" in found and not found["color"].value:
        os.environ["NO_COLOR"] = "1"
    options = _options(command)
    given = {arg.partition("=")[0] for arg in args}
    if "--policy" not in options or command.name == "reevaluate" or given & {"--policy", "--value"}:
        found.pop("evaluator", None)  # a filter there, or overridden by the command line
    return {options[f"--{name}"].name: one.value for name, one in found.items() if f"--{name}" in options}


def _options(command: TyperCommand) -> dict[str, TyperOption]:
    return {name: one for one in command.params if isinstance(one, TyperOption) for name in one.opts}


def _store_option(command: TyperCommand) -> TyperOption | None:
    return _options(command).get("--store")


def _is_given(store: TyperOption, args: list[str]) -> bool:
    return any(arg.partition("=")[0] in store.opts for arg in args)


def _places(command: TyperCommand, args: list[str]) -> Iterator[int]:
    """Yields the indices of the arguments that are neither options nor their values."""
    options = _options(command)
    skipped = 0
    for place, arg in enumerate(args):
        if skipped:
            skipped -= 1
        elif arg == "--":
            yield from range(place + 1, len(args))
            return
        elif len(arg) < 2 or not arg.startswith("-"):
            yield place
        elif arg in options and not options[arg].is_flag:
            skipped = options[arg].nargs


def _is_store(command: TyperCommand, text: str, words: int, has_default: bool) -> bool:
    """Returns whether the first of `words` words is the graph file, not an argument of the command."""
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    if has_default and words <= sum(one.required for one in arguments):
        return False
    if all(one.nargs == 1 for one in arguments) and words > len(arguments) and not POSITION_WORD.match(text):
        return True
    return looks_like_store(Path(text))


def looks_like_store(path: Path) -> bool:
    """Returns whether a path names a graph file, by its content or its name."""
    with suppress(OSError, ValueError):
        if path.is_file():
            from graphsearch.base.limits import open_file

            with open_file(path) as file:
                return file.read(len(SQLITE)) == SQLITE or path.suffix == SUFFIX
    return path.suffix == SUFFIX
