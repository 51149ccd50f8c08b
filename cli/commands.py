"""Declares commands with their summary, examples and options.

A bundle is a frozen dataclass; its fields are options, `name: Annotated[type, typer.Option(...)] = default`,
or bundles. A command takes a bundle as one parameter; Typer sees its options as if the command listed them
itself. So commands share an option that is written once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import MISSING, dataclass, fields, is_dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from graphsearch.base.errors import InvalidParameterError

from .options import Details, Json, View
from .output import Report, print_answer, say_if_unfinished
from .parsing import HELP_NAMES, ProgramCommand, ProgramGroup
from .program import command_text
from .scores import WHITE, looking
from .tables import Part

_Declared = tuple[str, Any, Any]  # name, type with its typer.Option, default


@dataclass(frozen=True, slots=True)
class Command:
    """A command in a group.

    Attributes:
      function: takes every option by name; its docstring is the help text.
      summary: its line in the list of commands.
      examples: command lines.
      name: on the command line.
    """

    function: Callable[..., None]
    summary: str
    examples: tuple[str, ...]
    name: str


@dataclass(frozen=True, slots=True)
class Subgroup:
    """A group of commands within a group."""

    name: str
    app: typer.Typer


def command(
    summary: str, *examples: str, name: str = "", views: bool = False
) -> Callable[[Callable[..., None]], Command]:
    """Returns a decorator that declares a command; its name is the function's unless given.

    With `views`, it has the options `--view` and `--details` for its tables.
    """

    def declared(function: Callable[..., None]) -> Command:
        flat = with_options(function, views=views)
        return Command(flat, summary, examples, name or function.__name__)

    return declared


def report(
    summary: str,
    *examples: str,
    view: Callable[..., Iterable[Part]],
    name: str = "",
    views: bool = False,
    noted: str = "",
) -> Callable[[Callable[..., Report]], Command]:
    """Returns a decorator that declares a command; it prints the function's result, with `--json` as JSON.

    Args:
      view: yields the lines and tables for a person; it takes the result, and options by their names.
      noted: the option of a graph file; prints a note if the file is being moved to another evaluator.
    """

    asked = list(signature(view).parameters)[1:]

    def answer(found: Report, values: Mapping[str, Any]) -> None:
        if noted:
            say_if_unfinished(values[noted])
        parts = view(found, **{name: values[name] for name in asked})
        print_answer(found, parts, json=values["json"])

    def declared(function: Callable[..., Report]) -> Command:
        flat = with_options(function, views=views, answer=answer)
        return Command(flat, summary, examples, name or function.__name__)

    return declared


def group(
    about: str,
    *commands: Command,
    sections: Mapping[str, Sequence[Command | Subgroup]] | None = None,
    epilog: str = "",
    **options: Any,
) -> typer.Typer:
    """Returns a group of commands; help lists them in this order, under the headings if there are any."""
    # plain help, not Rich's: it starts in half the time, and reads the same in a pipe
    kind = type("SectionedGroup", (ProgramGroup,), {"headings": tuple(sections or ())})
    app = typer.Typer(
        cls=kind,
        no_args_is_help=True,
        rich_markup_mode=None,
        help=about,
        epilog=epilog,
        context_settings=HELP_NAMES,
        **options,
    )
    for heading, entries in {"": commands, **(sections or {})}.items():
        for one in entries:
            _add(app, one, heading or None)
    return app


def _add(app: typer.Typer, one: Command | Subgroup, heading: str | None) -> None:
    if isinstance(one, Subgroup):
        app.add_typer(one.app, name=one.name, rich_help_panel=heading)
        return
    declare = app.command(
        one.name,
        cls=ProgramCommand,
        context_settings=HELP_NAMES,
        epilog=example_text(*one.examples),
        short_help=one.summary,
        rich_help_panel=heading,
    )
    declare(one.function)


def example_text(*examples: str) -> str:
    """Returns examples as the end of a help text; its first line, `\\b`, keeps the line breaks."""
    title = "Example" if len(examples) == 1 else "Examples"
    return "\n".join(["\b", f"{title}:", *(f"  {example}" for example in examples)])


# ---------------------------------------------------------------- bundles
def with_options(
    function: Callable[..., Any],
    *,
    views: bool = False,
    answer: Callable[[Any, Mapping[str, Any]], None] | None = None,
) -> Callable[..., None]:
    """Returns a function with the options of its bundles in place of the bundles, for Typer.

    Args:
      views: adds `--view` and `--details`, and prints by them.
      answer: adds `--json`; `answer` prints the function's result by the values of all options.

    >>> from .options import LineOptions
    >>> def show(position: str, line: LineOptions) -> None:
    ...     print(position, line.moves, line.given)
    >>> flat = with_options(show)
    >>> list(signature(flat).parameters)
    ['position', 'moves', 'game', 'ply']
    >>> flat(position="startpos", moves="e4", game=None, ply=None)
    startpos e4 True
    """
    function.__annotations__.pop("return", None)  # known to type checkers only
    hints = get_type_hints(function, include_extras=True)
    given = [(one.name, hints[one.name], one.default) for one in signature(function).parameters.values()]

    more: list[_Declared] = [("json", Json, False)] if answer else []
    more += [("view", View, WHITE), ("details", Details, False)] if views else []

    def flat(**values: Any) -> None:
        _check_numbers(options, values)
        looks = looking(values.get("view"), details=values.get("details", False))
        with looks, _without_leftover(values.get("store")):
            found = function(**{name: _value(name, hint, values) for name, hint, _ in given})
            if answer:
                answer(found, values)

    options = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=_counted(hint))
        for name, hint, default in _options([*given, *more])
    ]
    flat.__name__, flat.__doc__, flat.__annotations__ = function.__name__, function.__doc__, {}
    flat.__signature__ = Signature(options)  # type: ignore[attr-defined] # what inspect and Typer look for
    return flat


def _counted(hint: Any) -> Any:
    """Returns the type of an option; whole numbers get a parser that accepts `10k` and `2M`."""
    kind, *declared = get_args(hint) or (hint,)
    if get_origin(hint) is not Annotated or kind not in (int, int | None, list[int], list[int] | None):
        return hint
    option = copy(declared[0])
    least, most = option.min, option.max

    def count(text: str | int) -> int:
        number = _count_of(text)
        if (least is not None and number < least) or (most is not None and number > most):
            bounds = f"at least {least:,}" if most is None else f"from {least or 0:,} to {most:,}"
            raise typer.BadParameter(f"expected a whole number {bounds}, not {text}")
        return number

    option.parser, option.min, option.max = count, None, None
    return Annotated[kind, option]


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


def _check_numbers(options: list[Parameter], values: Mapping[str, Any]) -> None:
    """Refuses numbers that are out of range for any option; every command calls it.

    Raises:
      InvalidParameterError: naming the option.
    """
    for option in options:
        value = values[option.name]
        for number in value if isinstance(value, list) else (value,):
            problem = _number_problem(number) if isinstance(number, int | float) else ""
            if problem:
                name = option.annotation.__metadata__[0].default
                shown = name if isinstance(name, str) else option.name.upper()
                raise InvalidParameterError(f"{shown} {problem}, not {number:.10g}")


def _number_problem(value: float) -> str:
    """Returns the problem of a number from the command line; empty if there is none.

    >>> [_number_problem(number) for number in (10**19, float("nan"), -3, 1e10)]
    ['must be at most 1,000,000,000,000,000,000', 'must be a number', '', 'must be at most 1,000,000,000']
    """
    from graphsearch.base.limits import SECONDS, WHOLE

    most = (WHOLE if isinstance(value, int) else SECONDS).most
    if value != value:
        return "must be a number"
    if value > most:
        return f"must be at most {most:,}"
    return f"must be at least {-most:,}" if value < -most else ""


def _options(declared: list[_Declared]) -> Iterator[_Declared]:
    """Yields options, each bundle replaced by its own."""
    for name, hint, default in declared:
        if is_dataclass(hint):
            yield from _options(_fields(hint))
        else:
            yield name, hint, default


def _fields(bundle: Any) -> list[_Declared]:
    hints = get_type_hints(bundle, include_extras=True)
    return [
        (field.name, hints[field.name], Parameter.empty if field.default is MISSING else field.default)
        for field in fields(bundle)
    ]


def _value(name: str, hint: Any, values: Mapping[str, Any]) -> Any:
    """Returns the value of an option, or the bundle of the values of its options."""
    if not is_dataclass(hint):
        return values[name]
    assert isinstance(hint, type)
    return hint(**{own: _value(own, own_hint, values) for own, own_hint, _ in _fields(hint)})


def command_line(name: str, bundle: object) -> str:
    """Returns the command line of a command with the values of a bundle, quoted for a shell.

    Options with their default value are omitted; a list gives one option per item.
    """
    arguments: list[str] = []
    options: list[str] = []
    for declared, value in _set_values(bundle):
        if isinstance(declared, ArgumentInfo):
            arguments += map(str, value) if isinstance(value, list) else [str(value)]
        else:
            options += _option_words(str(declared.default), value)  # where Annotated keeps the first name
    return command_text(name, *arguments, *options)


def _set_values(bundle: Any) -> Iterator[tuple[ArgumentInfo | OptionInfo, Any]]:
    for name, hint, default in _fields(type(bundle)):
        value = getattr(bundle, name)
        if is_dataclass(hint):
            yield from _set_values(value)
        elif value != default:
            yield hint.__metadata__[0], value


def _option_words(option: str, value: object) -> list[str]:
    """Returns an option with its value as words.

    >>> _option_words("--json", True), _option_words("--by", ["x", "y"]), _option_words("--min-visits", -0.5)
    (['--json'], ['--by', 'x', '--by', 'y'], ['--min-visits=-0.5'])
    """
    if value is True:
        return [option]
    words: list[str] = []
    for item in value if isinstance(value, list) else (value,):
        text = f"{item:.15g}" if isinstance(item, float) else str(item)
        words += [f"{option}={text}"] if text.startswith("-") else [option, text]
    return words
