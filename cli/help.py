"""`graphsearch help`: shared rules, settings and parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from inspect import getdoc

import typer

from .commands import without_tables
from .output import print_answer, print_parts
from .settings import KEYS, NAME, STORE_VARIABLE, Setting, settings, user_file
from .tables import LEFT, Part, Table


# ---------------------------------------------------------------- topics, in their docstrings
def files() -> None:
    """Where the graph file comes from.

    The graph file holds searches, games and books. Name it with --store FILE, or first:

      graphsearch show first.graph "1. e4 e5"
      graphsearch show "1. e4 e5" --store first.graph

    Without either, the variable GRAPHSEARCH_STORE names it, then `store` in graphsearch.toml (see `help
    settings`). A search without any file is not saved.
    """


def positions() -> None:
    """How to write a position.

    POSITION is one of these; by default the start position, for some commands the file's roots.

      startpos                      the start position
      "1. e4 e5 2. Nf3"             moves from there, in SAN or UCI, with or without numbers
      "FEN"                         a FEN, in quotes
      "FEN moves e2e4 e7e5"         moves from there; --moves MOVES does the same
      chess960:518                  a start position of Chess960
      games.pgn                     the last position of its first game; --game K and --ply P choose others
      positions.epd                 its first position; --game K chooses another

    `mate`, `evaluate` and `book queue` take every position of an EPD file.
    """


def evaluators() -> None:
    """Who evaluates positions.

    --evaluator NAME:

      builtin          the program's own networks; the default
      uniform          knows only the rules, for benchmarks
      nnue:FILE        Stockfish's network: a .nnue file, or nnue:stockfish for the installed program's
      lc0:FILE         a network of Leela Chess Zero, .pb.gz or .onnx
      uci:PROGRAM      any UCI engine
      FILE.py:CLASS    a class of a Python file

    --policy and --value take priors and values from two of them, --evaluator-option sets their options,
    --syzygy adds tablebases. A file belongs to the evaluator that filled it, and is
    searched with that one if none is named; `reevaluate` changes that.
    """


def numbers() -> None:
    """Counts, times and sizes.

    Counts: 5000, 10k, 2M. Times: 30 (seconds), 90s, 5m, 2h. Sizes: 256MB, 4GB. Ranges: 10..20, 0.3..
    Dates: 2024, 2024-05, 2024-05-17.
    """


def output() -> None:
    """Tables, JSON and exit codes.

    Data goes to stdout, messages to stderr; --json prints JSON. Exit codes: 0 done; 1 failed,
    not found, or a file without a usable game or position; 2 wrong use, a missing file or a missing extra;
    70 a defect of the program; 130 after Ctrl-C and 143 after SIGTERM, both saved first.
    """


TOPICS = {one.__name__: getdoc(one) or "" for one in (files, positions, evaluators, numbers, output)}


def _parameters() -> str:
    from graphsearch.search.params import SearchParams

    rows = "\n".join(f"  {name} = {value}" for name, value in SearchParams().as_dict().items())
    return f"--param NAME=VALUE sets one of these; docs/search.md explains them. Defaults:\n\n{rows}"


def _settings() -> Iterator[Part]:
    """Yields the settings with the values that hold in this folder, each with its file or variable."""
    yield (
        f"{NAME} sets defaults of options by lines such as `threads = 8`. The nearest one\n"
        f"from this folder upwards holds, then {user_file()}.\n"
        f"The variable {STORE_VARIABLE} comes before both for the graph file, and options of the\n"
        "command line before everything. Here hold:\n"
    )
    found = settings()
    rows = []
    for name, (_, text) in KEYS.items():
        one = found.get(name, Setting(name, "-", "default"))
        value = str(one.value).lower() if isinstance(one.value, bool) else str(one.value)
        rows.append({"Setting": name, "": text, "Value": value, "From": one.origin})
    yield Table(rows, {"Value": LEFT})


ABOUT = {name: text.partition("\n")[0] for name, text in TOPICS.items()} | {
    "settings": "Defaults in graphsearch.toml, and what holds here.",
    "parameters": "The names that --param takes.",
}


def config() -> None:
    """Print the defaults of options that hold in this folder, and where each is from.

    JSON: `settings`, each with `value` and `origin`.

    \b
    Example:
      graphsearch config
    """
    print_answer({"settings": {name: asdict(one) for name, one in settings().items()}}, _settings())


@without_tables
def help_on(topics: list[str] | None = None) -> None:
    """Explain a topic; of a command, print its help. Without TOPIC, list the topics.

    \b
    Examples:
      graphsearch help positions
      graphsearch help show

    Args:
      topics: TOPIC...: A topic or a command.
    """
    words = topics or []
    if not words:
        print("\n".join(f"{name:<12}{about}" for name, about in sorted(ABOUT.items())))
        print("\n`graphsearch help COMMAND` is `graphsearch COMMAND --help`.")
        return
    first = words[0]
    if first in TOPICS:
        print(TOPICS[first].partition("\n\n")[2])
    elif first == "settings":
        print_parts(_settings())
    elif first == "parameters":
        print(_parameters())
    else:
        from . import main

        raise typer.Exit(main([*words, "--help"]))
