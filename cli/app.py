"""Assembles the program. It imports a command's module on demand, which imports the rest inside functions."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from graphsearch.base.version import __version__

from .commands import Command, example_text, group
from .options import option
from .program import PROGRAM

SECTIONS = {  # heading of the help -> command -> module and name there; a group's is `app`
    "Search": {
        "analyze": "analyze.analyze",
        "watch": "analyze.watch",
        "mate": "solvers.mate",
        "alphabeta": "solvers.alphabeta",
        "uci": "serve.uci",
    },
    "Look": {
        "show": "show.show",
        "lines": "show.lines_of",
        "tree": "show.tree",
        "curve": "show.curve_of",
        "find": "find.find",
        "history": "diff.history",
        "diff": "diff.diff",
        "serve": "serve.serve",
    },
    "Games": {
        "import": "games.import_files",
        "review": "review.review",
        "games": "games.games_of",
        "players": "games.players_of",
        "prepare": "games.prepare",
        "novelties": "games.novelties",
    },
    "Books": {"book": "book.app"},
    "Studies": {"study": "study.study_app", "note": "study.note_app", "repertoire": "study.repertoire_app"},
    "Files": {"export": "exports.export", "store": "store.app"},
    "Evaluators": {"evaluate": "evaluate.evaluate", "reevaluate": "store.reevaluate"},
    "More": {
        "config": "help.config",
        "help": "help.help_on",
        "lab": "lab.app",
    },
}
_ABOUT = """Search chess positions into a graph stored in one file, and read it back.

A search can be stopped at any time and resumed from the same file.
"""


def app(word: str = "") -> typer.Typer:
    """Returns the program with the command or group of this name only, or with all if no such name exists.

    Importing and declaring all commands takes 0.06 s, a tenth of the start of a search.
    """
    known = any(word in entries for entries in SECTIONS.values())
    sections = {
        heading: [_entry(place) for name, place in entries.items() if name == word or not known]
        for heading, entries in SECTIONS.items()
    }
    program = group(
        PROGRAM,
        "",
        sections=sections,
        add_completion=not known,  # its options cost the start of a command
        pretty_exceptions_enable=False,
        epilog=example_text(
            "graphsearch analyze first.graph --time 10",
            'graphsearch show first.graph "1. e4 e5"',
            "graphsearch store info first.graph",
        ),
    )
    program.callback(help=_ABOUT)(_root)
    return program


def _entry(place: str) -> Command | typer.Typer:
    module, _, attribute = place.partition(".")
    found: Command | typer.Typer = getattr(import_module(f".{module}", __package__), attribute)
    return found


def _print_version(wanted: bool) -> None:
    if wanted:
        print(PROGRAM, __version__)
        raise typer.Exit


def _root(
    version: Annotated[
        bool, option("--version", "Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Takes the options of the program itself."""
