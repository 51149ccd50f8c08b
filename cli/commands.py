"""Makes commands of functions, and parses their command lines.

A parameter of a command is an option, an argument or a bundle. A bundle is a frozen dataclass with the same
kinds of fields. The docstring describes an option by a line `name: --flag METAVAR: help`, and an argument by
`name: METAVAR: help`; options that several share have a type of `options.py`. Typer sees the options of a
bundle as if the command listed them itself. So commands share an option that is written once.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from inspect import Parameter, Signature, getdoc, signature
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from graphsearch.base.errors import (
    BookConfigError,
    InvalidParameterError,
    InvalidPositionError,
    UnusableFileError,
)
from graphsearch.base.faults import watch_logs

from .options import Details, Json, StoreOption, argument, option
from .output import FAILED, INTERRUPTED, PIPE_CLOSED, PROGRAM, failed, one_line, say, say_if_unfinished
from .settings import NAME, STORE_VARIABLE, settings
from .tables import shown_as

ALSO = {"stats": "info", "check": "verify", "vacuum": "compact"}  # words of other programs
HELP_NAMES = {"help_option_names": ["-h", "--help"]}
SUFFIX = ".graph"
SQLITE = b"SQLite format 3\0"
NO_STORE = f"name a graph file: as first argument, with --store FILE, in {STORE_VARIABLE} or in {NAME}"
# the description of an option or an argument: name, flags and metavar, help
DESCRIBED = re.compile(r"^  (\w+): (-[^:]+|[A-Z][^\s:]*): (.*(?:\n    .*)*)", re.MULTILINE)
# starts of unquoted moves and FENs
POSITION_WORD = re.compile(r"\d+\.|[KQRBN]?[a-h]?[1-8]?x?[a-h][1-8]|startpos|chess960:|[1-8pnbrqkPNBRQK]+/")

# Typer's exception for wrong use, which Typer does not export
Refusal: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

_Declared = tuple[str, Any, Any]  # name, type with its typer.Option, default
Function = Callable[..., int | None]  # of a command; returns its exit code, None for 0
_without_tables: set[Function] = set()


def without_tables(function: Function) -> Function:
    """Declares that a command has neither `--json` nor `--details`."""
    _without_tables.add(function)
    return function


def help_of(function: Callable[..., object]) -> tuple[str, str]:
    """Returns the help text in a docstring, up to its arguments, and its examples, a paragraph of `\\b`."""
    shown, _, _ = (getdoc(function) or "").partition("\nArgs:\n")
    text, mark, examples = shown.partition("\b\nExample")
    return text, mark + examples


def command(function: Function, name: str, **shown: Any) -> TyperCommand:
    """Returns the command of a function; the examples of its docstring follow the options."""
    text, examples = help_of(function)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, cls=ProgramCommand, context_settings=HELP_NAMES, help=text, epilog=examples, **shown)(
        with_options(function)
    )
    made = typer.main.get_command(app)
    assert isinstance(made, TyperCommand)
    return made


# ---------------------------------------------------------------- bundles
def with_options(function: Function) -> Callable[..., None]:
    """Returns a function with the options of its bundles in place of the bundles, for Typer.

    >>> from .options import LineOptions
    >>> def show(position: str, line: LineOptions) -> None:
    ...     print(position, line.moves, line.given)
    >>> flat = with_options(show)
    >>> list(signature(flat).parameters)
    ['position', 'moves', 'game', 'ply', 'json', 'details']
    >>> flat(position="startpos", moves="e4", game=None, ply=None, json=False, details=False)
    startpos e4 True
    """
    function.__annotations__.pop("return", None)  # known to type checkers only
    hints = _hints(function)
    given = [(one.name, hints[one.name], one.default) for one in signature(function).parameters.values()]
    more = [] if function in _without_tables else [("json", Json, False), ("details", Details, False)]

    declared = list(_options([*given, *more]))
    only_reads = any(hint == StoreOption for _, hint, _ in declared)

    def flat(**values: Any) -> None:
        asked = [name for name, *_ in more if values[name]]
        with shown_as(*asked), _without_leftover(values.get("store")):
            code = function(**{name: _value(name, hint, values) for name, hint, _ in given})
            if only_reads and more and code in (None, 0, FAILED):  # after a signal it says how to resume
                say_if_unfinished(values["store"])
            if code:
                raise typer.Exit(code)

    options = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=_numbered(hint))
        for name, hint, default in declared
    ]
    flat.__annotations__ = {}
    flat.__signature__ = Signature(options)  # type: ignore[attr-defined] # what inspect and Typer look for
    return flat


def _numbered(hint: Any) -> Any:
    """Returns the type of an option; numbers get a parser that checks the range and reads `10k`, `2M`."""
    kind, *declared = get_args(hint) or (hint,)
    is_whole = kind in (int, int | None, list[int], list[int] | None)
    if get_origin(hint) is not Annotated or not (
        is_whole or kind in (float, float | None, list[float] | None)
    ):
        return hint
    own = copy(declared[0])
    least, most, read = own.min, own.max, own.parser or (_count_of if is_whole else float)

    def number(text: Any) -> Any:
        from graphsearch.base.limits import SECONDS, WHOLE

        limit, found = (WHOLE if is_whole else SECONDS).most, math.nan
        low, high = -limit if least is None else least, limit if most is None else most
        with suppress(ValueError):
            found = read(text)
        if low <= found <= high:
            return found
        bounds = f" at least {low:,}" if found < low else f" at most {high:,}" if found > high else ""
        bounds = bounds if most is None else f" from {low:,} to {high:,}"
        raise typer.BadParameter(f"expected a {'whole ' * is_whole}number{bounds}, not {text}")

    own.parser, own.min, own.max = number, None, None
    return Annotated[kind, own]


def _count_of(text: str | int) -> int:
    """Returns a count: a whole number, or a number followed by k (thousand) or M (million).

    >>> _count_of("1500"), _count_of("10k"), _count_of("2.5M")
    (1500, 10000, 2500000)
    """
    if isinstance(text, int):  # a default
        return text
    from graphsearch.base.limits import DIGITS, shortened, whole_number

    found = re.fullmatch(rf"\s*([0-9]{{1,{DIGITS.most}}})(?:\.([0-9]{{1,6}}))?([kKmM])\s*", text)
    if not found:
        try:
            return whole_number(text)
        except InvalidParameterError:
            raise typer.BadParameter(
                f"expected a whole number, such as 5000, 10k or 2M, not {shortened(text)!r}"
            ) from None
    power = 3 if found[3] in "kK" else 6
    fraction = (found[2] or "").rstrip("0")
    if len(fraction) > power:
        raise typer.BadParameter(f"expected a whole number, not {shortened(text)}")
    return int(found[1] + fraction.ljust(power, "0"))


@contextmanager
def _without_leftover(store: Path | None) -> Iterator[None]:
    """Deletes the graph file that a failing command created and left empty."""
    if store is None or store.exists():
        yield
        return
    try:
        yield
    except BaseException:
        from graphsearch.store.file import delete_if_empty

        delete_if_empty(store)
        raise


def _options(declared: list[_Declared]) -> Iterator[_Declared]:
    """Yields options, each bundle replaced by its own."""
    for name, hint, default in declared:
        if is_dataclass(hint):
            yield from _options(_fields(hint))
        else:
            yield name, hint, default


def _fields(bundle: Any) -> list[_Declared]:
    hints = _hints(bundle)
    return [
        (field.name, hints[field.name], Parameter.empty if field.default is MISSING else field.default)
        for field in fields(bundle)
    ]


def _hints(owner: Any) -> dict[str, Any]:
    """Returns the types of parameters or fields; those that the docstring describes with their option."""
    hints, plain = get_type_hints(owner, include_extras=True), get_type_hints(owner)
    docs = "\n".join(getdoc(one) or "" for one in getattr(owner, "__mro__", [owner]))
    for name, flags, text in DESCRIBED.findall(docs):
        declare = option if flags.startswith("-") else argument
        hints[name] = Annotated[plain[name], declare(flags, " ".join(text.split()), min=_least(hints[name]))]
    return hints


def _least(hint: Any) -> int | None:
    """Returns the least value of a `Count` or `Natural` in a type; None if it has neither."""
    if get_origin(hint) is Annotated:
        return int(get_args(hint)[1])
    return next((least for part in get_args(hint) if (least := _least(part)) is not None), None)


def _value(name: str, hint: Any, values: Mapping[str, Any]) -> Any:
    """Returns the value of an option, or the bundle of the values of its options."""
    if not is_dataclass(hint):
        return values[name]
    assert isinstance(hint, type)
    return hint(**{own: _value(own, own_hint, values) for own, own_hint, _ in _fields(hint)})


# ------------------------------------------------------- parsing and errors
class ReadingValues:
    """Lets commands and groups read texts, paths and counts themselves.

    Typer would import pydantic for that, a sixth of the start of `show`.
    """

    def get_params(self, ctx: Any) -> Any:
        """Returns the options and arguments, `--help` among them."""
        params = super().get_params(ctx)  # type: ignore[misc] # of the command that this is mixed into
        declared = signature(ctx.command.callback).parameters if isinstance(self, TyperCommand) else {}
        for param in params:
            hint = declared[param.name].annotation if param.name in declared else None
            param.process_value = partial(_read_value, type(param).process_value, param, hint)
        return params


def _read_value(typers: Callable[..., Any], param: Any, hint: Any, ctx: Any, value: Any) -> Any:
    """Returns the value of an option or argument from its text; `typers` reads what this cannot."""
    if not param.required and value in (None, ()):
        return () if param.multiple or param.nargs == -1 else None
    kind, declared = get_args(hint)[:2] or (None, None)
    if kind in (str, str | None) and isinstance(value, str):
        return value
    if kind in (Path, Path | None) and isinstance(value, str | Path):
        return Path(value)
    if declared and declared.parser and isinstance(value, str | int | float):
        return declared.parser(value)
    return typers(param, ctx, value)


class ProgramCommand(ReadingValues, TyperCommand):
    """A command that takes its graph file with `--store` or as its first argument."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the arguments; raises typer.BadParameter if a graph file is needed and none is named."""
        if ctx.resilient_parsing or {"-h", "--help"} & set(args):
            return super().parse_args(ctx, args)
        ctx.default_map = _settings_of(self, args)
        store = _store_option(self)
        if store is not None:
            has_default = store.name in ctx.default_map
            places = [] if _is_given(store, args) else list(_places(self, args))
            place = _store_place(self, args, places, has_default)
            if place is not None:
                args = ["--store", args[place], *args[:place], *args[place + 1 :]]
            elif store.required and not _is_given(store, args) and not has_default:
                raise typer.BadParameter(NO_STORE, ctx=ctx)
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Returns the parts of the usage line, the graph file among them."""
        pieces = super().collect_usage_pieces(ctx)
        return [*pieces[:1], "[FILE]", *pieces[1:]] if _store_option(self) is not None else pieces


class ProgramGroup(ReadingValues, TyperGroup):
    """A command group that ends every failing command with one clear line and an exit code."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Returns the command that the first word names; an error names those of other groups."""
        try:
            return super().resolve_command(ctx, args)
        except Refusal as error:
            word, groups = args[0], ctx.find_root().command.commands.items()
            others = [
                repr(f"{group} {name}")
                for group, one in groups
                for name in (word, ALSO.get(word))
                if name in getattr(one, "commands", {})
            ]
            if other := "--version" if word == "version" else " or ".join(others):
                error.message = f"No such command {word!r}. Did you mean {other}?"
                error.possibilities = None  # Click's own guesses
            raise

    def invoke(self, ctx: Any) -> Any:
        """Runs the command and returns its result, or prints its error and raises typer.Exit."""
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
            if isinstance(error, InvalidPositionError) and not isinstance(error, UnusableFileError):
                say(f"Try '{PROGRAM} help positions'.")
            elif isinstance(error, InvalidParameterError) and not isinstance(error, BookConfigError):
                say(f"Try '{ctx.command_path} {ctx.invoked_subcommand} --help'.")
            raise typer.Exit(code) from None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the commands under their headings."""
        longest = max(map(len, self.commands))
        headings: dict[str, list[tuple[str, str]]] = {}
        for name, one in self.commands.items():
            row = (name, one.get_short_help_str(formatter.width - 6 - longest))
            headings.setdefault(getattr(one, "rich_help_panel", None) or "Commands", []).append(row)
        for heading, found in headings.items():
            with formatter.section(heading):
                formatter.write_dl(found, col_max=longest + 2)


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


# ---------------------------------------------------------------- settings and the graph file
def _settings_of(command: TyperCommand, args: list[str]) -> dict[str, object]:
    """Returns the settings that apply to a command's options, by parameter."""
    found = settings()
    if "color" in found and not found["color"].value:
        os.environ["NO_COLOR"] = "1"
    options = _flags(command)
    given = {arg.partition("=")[0] for arg in args}
    if "--policy" not in options or command.name == "reevaluate" or given & {"--policy", "--value"}:
        found.pop("evaluator", None)  # a filter there, or overridden by the command line
    return {options[f"--{name}"].name: one.value for name, one in found.items() if f"--{name}" in options}


def _flags(command: TyperCommand) -> dict[str, TyperOption]:
    return {name: one for one in command.params if isinstance(one, TyperOption) for name in one.opts}


def _store_option(command: TyperCommand) -> TyperOption | None:
    return _flags(command).get("--store")


def _is_given(store: TyperOption, args: list[str]) -> bool:
    return any(arg.partition("=")[0] in store.opts for arg in args)


def _places(command: TyperCommand, args: list[str]) -> Iterator[int]:
    """Yields the indices of the arguments that are neither options nor their values."""
    options = _flags(command)
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


def _store_place(command: TyperCommand, args: list[str], places: list[int], has_default: bool) -> int | None:
    """Returns which of the words at `places` is the graph file; None if all are arguments of the command."""
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    if not places or (has_default and len(places) <= sum(one.required for one in arguments)):
        return None
    for place in places:
        if looks_like_store(Path(args[place])):
            return place
    takes_all = any(one.nargs != 1 for one in arguments) or len(places) <= len(arguments)
    return None if takes_all or POSITION_WORD.match(args[places[0]]) else places[0]


def looks_like_store(path: Path) -> bool:
    """Returns whether a path names a graph file, by its content or its name."""
    with suppress(OSError, ValueError):
        if path.is_file():
            from graphsearch.base.limits import open_file

            with open_file(path) as file:
                return file.read(len(SQLITE)) == SQLITE or path.suffix == SUFFIX
    return path.suffix == SUFFIX
