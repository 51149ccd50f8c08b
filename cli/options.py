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
        help="Most memory to use for the graph, such as 256MB or 4GB; else 80 % of the machine's.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
StoreFile = Annotated[Path, typer.Argument(metavar="FILE", help="The graph file.", show_default=False)]
Evaluator = Annotated[
    str,
    typer.Option(
        "--evaluator",
        metavar="NAME",
        help="builtin: this program's own evaluation; uniform: knows the rules only, for measuring; "
        "lc0:FILE: a Leela Chess Zero network, .pb.gz or .onnx; uci:PROGRAM: an engine that speaks UCI.",
    ),
]


_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {f"{unit}I": 1024**power for power, unit in enumerate("KMGT", 1)}
LEAST_RAM = 8 * 10**6


def byte_count(text: str) -> int:
    """Returns the bytes of a size: a number with B, kB, MB, GB, TB, KiB, MiB, GiB or TiB, in any case.

    Raises:
      typer.BadParameter: for anything else.

    >>> byte_count("256MB"), byte_count("1.5 GiB"), byte_count("4096")
    (256000000, 1610612736, 4096)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]I?)?B?", text.strip().upper())
    if not found:
        raise typer.BadParameter(f"a size is a number of bytes, or such as 512MB or 4GB, not {text!r}")
    return int(float(found[1]) * _UNITS[found[2] or ""])


def graph_ram(text: str | None) -> int | None:
    """Returns the bytes of `--ram` for a search, None for the default.

    Raises:
      typer.BadParameter: if it is no size, or less than the few megabytes that a wave takes.
    """
    if text is None:
        return None
    found = byte_count(text)
    if found < LEAST_RAM:
        raise typer.BadParameter(f"--ram {text} is too little; at least 8MB are needed")
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
    from graphsearch.errors import UnknownEvaluatorError

    own, others = evaluators.split_options(options, name)
    try:
        made = evaluators.create(name, own)
    except UnknownEvaluatorError as error:  # wrong use; a file that cannot be loaded is a failure
        raise typer.BadParameter(str(error)) from None
    for note in getattr(made, "notes", ()):
        say(f"note: {note}")
    return made, others
