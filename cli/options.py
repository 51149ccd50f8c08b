"""The options that commands share, so that one thing has one name and one help text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphsearch.errors import InvalidParameterError

from .output import say

if TYPE_CHECKING:
    import chess

    from graphsearch.evaluators import protocol

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
StoreOption = Annotated[
    Path, typer.Option("--store", metavar="FILE", help="The graph file.", show_default=False)
]
Evaluator = Annotated[
    str | None,
    typer.Option(
        "--evaluator",
        metavar="NAME",
        help="builtin (the default): this program's own evaluation; uniform: knows the rules only, for "
        "measuring; lc0:FILE: a Leela Chess Zero network, .pb.gz or .onnx; uci:PROGRAM: any UCI engine.",
    ),
]
Policy = Annotated[
    str | None,
    typer.Option(
        "--policy", metavar="NAME", help="Take the priors of this evaluator, the values of another."
    ),
]
Value = Annotated[
    str | None,
    typer.Option("--value", metavar="NAME", help="Take the values of this evaluator, the priors of another."),
]
EvaluatorOption = Annotated[
    list[str] | None,
    typer.Option(
        "--evaluator-option",
        metavar="NAME=VALUE",
        help="An option of the evaluator, such as nodes=500 or workers=2; with two of them policy.NAME or "
        "value.NAME. May be repeated.",
    ),
]
SyzygyPath = Annotated[
    str | None,
    typer.Option("--syzygy", metavar="DIR", help="Folder of Syzygy tablebases; several as in PATH."),
]
Pool = Annotated[
    str | None,
    typer.Option(
        "--pool",
        metavar="WHERE",
        help="Where the evaluator's workers=K run: local (processes, the default), ray or ray:ADDRESS.",
    ),
]


def byte_count(text: str) -> int:
    """Returns the bytes of a size such as 256MB.

    Raises:
      typer.BadParameter: if it is none.
    """
    from graphsearch.search import params

    try:
        return params.byte_count(text)
    except InvalidParameterError as error:
        raise typer.BadParameter(str(error)) from None


def graph_ram(text: str | None) -> int | None:
    """Returns the bytes of `--ram` for a search, None for the default.

    Raises:
      typer.BadParameter: if it is no size, or less than the few megabytes that a wave takes.
    """
    if text is None:
        return None
    from graphsearch.search.params import LEAST_RAM

    found = byte_count(text)
    if found < LEAST_RAM:
        raise typer.BadParameter(f"--ram {text} is too little; at least 8MB are needed")
    return found


def given_position(position: str, moves: str | None, game: int | None, ply: int | None) -> chess.Board:
    """Returns the Board that the position options name, after saying what should be known about it."""
    from graphsearch.position.notation import read_position

    given = read_position(position, moves=moves, game=game, ply=ply)
    for note in given.notes:
        say(f"note: {note}")
    return given.board


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorChoice:
    """The evaluator options of one call, under the names that the command line gives them."""

    evaluator: str | None = None
    policy: str | None = None
    value: str | None = None
    evaluator_option: tuple[str, ...] = ()
    syzygy: str | None = None
    pool: str | None = None


def chosen_evaluator(
    choice: EvaluatorChoice, params: list[str] | None = None
) -> tuple[protocol.Evaluator, list[str]]:
    """Returns the evaluator of a choice, and the `NAME=VALUE` texts among `params` that are the search's.

    The caller closes it (`protocol.close`).
    """
    from graphsearch.errors import UnknownEvaluatorError
    from graphsearch.evaluators import factory

    own, others = factory.split_options(params or [])
    spec = factory.EvaluatorSpec(
        evaluator=choice.evaluator,
        policy=choice.policy,
        value=choice.value,
        options=(*own.items(), *factory.parse_options(choice.evaluator_option)),
        syzygy=choice.syzygy,
        pool=choice.pool,
    )
    try:
        made = factory.create(spec)
    except UnknownEvaluatorError as error:  # wrong use; a file that cannot be loaded is a failure
        raise typer.BadParameter(str(error)) from None
    for note in getattr(made, "notes", ()):
        say(f"note: {note}")
    return made, others


@contextmanager
def closing(evaluator: protocol.Evaluator) -> Iterator[None]:
    """Ends the evaluator's processes afterwards, if it has any."""
    from graphsearch.evaluators import protocol

    try:
        yield
    finally:
        protocol.close(evaluator)
