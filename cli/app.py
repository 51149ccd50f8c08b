"""Lists all commands, and makes the program of those that a command line names; `help` and `config`.

Only their modules are imported: a module imports what its commands need, a search or a library of tables.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module
from inspect import getdoc
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from graphsearch.base.version import __version__

from .commands import HELP_NAMES, ProgramGroup, command, help_of, without_tables
from .options import option
from .output import PROGRAM, print_answer, print_parts, program_name
from .settings import KEYS, NAME, STORE_VARIABLE, Setting, settings, user_file
from .tables import LEFT, Part, Table

# headings of the help; below them the words of each command, its module and name there (none for a group),
# and its line of the help
CONTENTS = """
Search
  analyze            analyze.analyze     Search a position; resume from a graph file and save to it.
  watch              analyze.watch       Search several positions in turn.
  mate               solvers.mate        Find the shortest mate in a position.
  alphabeta          solvers.alphabeta   Search a position to a fixed depth with alpha-beta; save the results.
  uci                serve.uci           Start a UCI engine that remembers its searches.
Look
  show               show.show           Print the stored moves and values of a position.
  lines              show.lines_of       Print the best lines and why they end.
  tree               show.tree           Draw the well-visited tree below a position.
  curve              show.curve_of       Plot the values along a line or a game.
  find               find.find           List positions by N, Q, bounds, men and more.
  history            diff.history        Print what a root was worth at every save.
  diff               diff.diff           List what changed between two graph files.
  serve              serve.serve         Explore a graph file in the browser.
Games
  import             games.import_files  Import games, Polyglot books and positions into a graph file.
  review             analyze.review      Review games: search every position, judge every move.
  games              games.games_of      Compare imported games with the search, or list them.
  prepare            games.prepare       List where an opponent's games leave your book.
  novelties          games.novelties     List strong moves that games hardly know, and popular ones that lose.
Books
  book               -                   Opening books: build, status, why, todo, queue.
  book build         book.build          Build a book, or resume building it.
  book status        book.status         Print the progress of books and every run.
  book why           book.why            Explain which moves of a position are in a book.
  book todo          book.todo           List what a book needs next.
  book queue         book.queue_items    List, add and remove what a book searches first.
Studies
  study              -                   Studies: list, import, export.
  study list         study.list_studies  List the studies of a graph file.
  study import       study.import_studies  Make a study of each game of a PGN file.
  study export       study.export_studies  Write studies as PGN.
  note               study.note          List notes on positions, print or write one.
  repertoire         -                   Repertoires of White and of Black: show, add, remove, import, export.
  repertoire show    study.show_repertoire  Print a repertoire with its gaps and weak spots.
  repertoire add     study.add_line      Add a line to a repertoire.
  repertoire remove  study.remove_move   Remove a move from a repertoire.
  repertoire import  study.import_lines  Add the lines of a PGN file to a repertoire.
  repertoire export  study.export_repertoire  Write a repertoire as PGN, or as the TOML of a book.
Files
  export             exports.export      Write a graph or a book as PGN, Polyglot, EPD, CSV, a site and more.
  store              -                   Graph files: info, verify, compact, backup, merge, salvage.
  store info         show.info           Print what a graph file holds.
  store verify       store.verify        Check every record of a graph file.
  store compact      store.compact       Make a graph file smaller, without loss or by --min-visits.
  store backup       store.backup        Copy a graph file, even while it is being written.
  store salvage      store.salvage       Rescue the sound records of a damaged file.
  store merge        store.merge         Merge graph files into one.
Evaluators
  evaluate           lab.evaluate        Evaluate positions without a search.
  reevaluate         store.reevaluate    Re-evaluate a graph file with another evaluator.
More
  config             app.config          Print the settings that hold here, and where they are from.
  help               app.help_on         Explain what all commands share: files, positions, settings.
  lab                -                   Commands for research, measurements and rare repairs.
lab: Questions
  lab sql            find.sql            Query a file with SQL.
lab: Files
  lab refresh        store.refresh       Bring all values in a graph file up to date.
lab: Measurements
  lab nodetypes      solvers.nodetypes   Compare PV, Cut and All nodes with the minimal tree.
  lab perft          lab.perft           Count the positions at a given depth.
  lab bench          lab.bench           Measure the speed of this machine.
"""
COMPLETE = "_GRAPHSEARCH_COMPLETE"  # variable by which a shell asks for the ends of a line


def app(words: list[str] | None = None) -> TyperGroup:
    """Returns the program. With a command line, only the command that it names is imported and can be run."""
    commands = _commands("", words)
    about, examples = help_of(_root)
    root = typer.Typer(
        name=PROGRAM,
        cls=ProgramGroup,
        # its options cost the start of a command
        add_completion=not words or words[0] not in commands or COMPLETE in os.environ,
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings=HELP_NAMES,
        epilog=examples,
    )
    root.callback(help=about)(_root)
    program = typer.main.get_command(root)
    assert isinstance(program, TyperGroup)
    program.commands = commands
    return program


def _commands(above: str, words: list[str] | None) -> dict[str, Any]:
    """Returns the commands of a group (empty: of the program) by name, in the order of `CONTENTS`."""
    commands: dict[str, Any] = {}  # a TyperCommand or a ProgramGroup each
    heading = ""
    for line in CONTENTS.strip().splitlines():
        if not line.startswith(" "):
            heading = line.partition(": ")[2] if above else line
            continue
        path, place, summary = re.split("  +", line.strip(), maxsplit=2)
        group, _, name = path.rpartition(" ")
        if group != above:
            continue
        shown: dict[str, Any] = {"short_help": summary, "rich_help_panel": heading or None}
        if place == "-":
            rest = words if words is None else words[1:] if words[:1] == [name] else []
            commands[name] = ProgramGroup(
                name=name,
                commands=_commands(path, rest),
                help=summary,
                no_args_is_help=True,
                rich_markup_mode=None,
                context_settings=HELP_NAMES,
                **shown,
            )
        elif words is None or words[:1] == [name]:
            module, _, function = place.partition(".")
            commands[name] = command(
                getattr(import_module(f".{module}", __package__), function), name, **shown
            )
        else:
            commands[name] = TyperCommand(name, **shown)
    return commands


def _print_version(wanted: bool) -> None:
    if wanted:
        print(PROGRAM, __version__)
        raise typer.Exit


def _root(
    version: Annotated[
        bool, option("--version", "Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Search chess positions into a graph stored in one file, and read it back.

    A search can be stopped at any time and resumed from the same file.

    \b
    Examples:
      graphsearch analyze first.graph --time 10
      graphsearch show first.graph "1. e4 e5"
      graphsearch store info first.graph
    """


# ---------------------------------------------------------------- topics of the help, in their docstrings
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
        from graphsearch.search.params import SearchParams

        print("--param NAME=VALUE sets one of these; docs/search.md explains them. Defaults:\n")
        print("\n".join(f"  {name} = {value}" for name, value in SearchParams().as_dict().items()))
    else:
        raise typer.Exit(app(words)([*words, "--help"], program_name(), standalone_mode=False) or 0)
