"""Lists all commands, and makes the program of those that a command line names.

Only their modules are imported: a module imports what its commands need, a search or a library of tables.
"""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from graphsearch.base.version import __version__

from .commands import HELP_NAMES, ProgramGroup, command, help_of
from .options import option
from .output import PROGRAM

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
  evaluate           evaluate.evaluate   Evaluate positions without a search.
  reevaluate         store.reevaluate    Re-evaluate a graph file with another evaluator.
More
  config             help.config         Print the settings that hold here, and where they are from.
  help               help.help_on        Explain what all commands share: files, positions, settings.
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
