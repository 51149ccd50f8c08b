"""The options that commands share, so that one thing has one name and one help text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .output import say

if TYPE_CHECKING:
    import chess

    from graphsearch import evaluators

Position = Annotated[
    str,
    typer.Argument(
        metavar="POSITION",
        help="startpos, a FEN in quotes, or a PGN file (its last position).",
        show_default=False,
    ),
]
Moves = Annotated[
    str | None,
    typer.Option("--moves", metavar="MOVES", help='Moves to play from there, SAN or UCI: "e4 e5 Nf3".'),
]
Game = Annotated[
    int | None,
    typer.Option("--game", metavar="K", min=1, help="Which game of the PGN file, from 1; else the first."),
]
Ply = Annotated[
    int | None,
    typer.Option("--ply", metavar="P", min=0, help="How many half-moves of the game to play; else all."),
]
Ram = Annotated[
    str | None,
    typer.Option(
        "--ram",
        metavar="SIZE",
        help="Memory for the graph, such as 256MB or 4GB; what does not fit stays in the file. "
        "Default: 80 % of the machine's memory.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
StoreFile = Annotated[Path, typer.Argument(metavar="FILE", help="The graph file.", show_default=False)]
Evaluator = Annotated[
    str,
    typer.Option(
        "--evaluator",
        metavar="NAME",
        help="builtin: this program's own evaluation; uniform: knows the rules only, for measuring.",
    ),
]


_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {f"{unit}I": 1024**power for power, unit in enumerate("KMGT", 1)}
LEAST_RAM = 8 * 10**6


def ram_bytes(text: str | None) -> int | None:
    """Returns the bytes of a size such as 256MB, 1.5G or 512MiB; None for None.

    >>> ram_bytes("256MB"), ram_bytes("1.5 GiB"), ram_bytes("16m")
    (256000000, 1610612736, 16000000)
    """
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([kmgt]?i?)b?\s*", text, re.IGNORECASE)
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None:
        raise typer.BadParameter(f"{text!r} is no size; write it as 256MB or 4GB", param_hint="--ram")
    found = int(float(match[1]) * unit)
    if found < LEAST_RAM:
        raise typer.BadParameter(f"{text!r} is too little; at least 8MB are needed", param_hint="--ram")
    return found


def given_position(position: str, moves: str | None, game: int | None, ply: int | None) -> chess.Board:
    """Returns the Board that the position options name, after saying what should be known about it."""
    from graphsearch.notation import read_position

    given = read_position(position, moves=moves, game=game, ply=ply)
    for note in given.notes:
        say(f"note: {note}")
    return given.board


def chosen_evaluator(name: str, options: list[str]) -> tuple[evaluators.Evaluator, list[str]]:
    """Returns the evaluator of that name, and the `NAME=VALUE` options that are not an evaluator's."""
    from graphsearch import evaluators
    from graphsearch.errors import EvaluatorError

    own, others = evaluators.split_options(options)
    try:
        return evaluators.create(name, own), others
    except EvaluatorError as error:  # a name that there is not: wrong use
        raise typer.BadParameter(str(error)) from None
