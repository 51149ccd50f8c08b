"""The options that several commands share, alone and in bundles: each name and help text stands here once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
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
    from graphsearch.evaluators.factory import EvaluatorSpec

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Position = Annotated[
    str,
    typer.Argument(
        metavar="POSITION",
        help="startpos, chess960:N, a FEN in quotes, a PGN file (its last position) or an EPD file.",
        show_default=False,
    ),
]
AnyPosition = Annotated[
    str | None,
    typer.Argument(
        metavar="POSITION",
        help="startpos, chess960:N, a FEN in quotes, a PGN file (its last position) or an EPD file.",
        show_default=False,
    ),
]
StoreFile = Annotated[Path, typer.Argument(metavar="FILE", help="The graph file.", show_default=False)]
StoreOption = Annotated[
    Path, typer.Option("--store", metavar="FILE", help="The graph file.", show_default=False)
]
StoreToMake = Annotated[
    Path,
    typer.Option("--store", metavar="FILE", help="The graph file; created if missing.", show_default=False),
]
StoreToSave = Annotated[
    Path | None,
    typer.Option(
        "--store", metavar="FILE", help="The graph file to resume from and save to; created if missing."
    ),
]

ScoreType = Annotated[
    str,
    typer.Option(
        "--score-type",
        metavar="TYPE",
        help="What cp means, by lc0's names: WDL_mu (100 is an even chance to win) or centipawn (a tangent of"
        " Q).",
    ),
]
Ram = Annotated[
    str | None,
    typer.Option(
        "--ram",
        metavar="SIZE",
        help="Memory limit of the graph, such as 256MB or 4GB; 80 % of the machine's memory by default.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        metavar="K",
        min=1,
        help="Threads that evaluate: those of builtin, or of a network on a CPU; all cores by default. With"
        " several processes, the threads of each.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOptions:
    """The moves played from a position."""

    moves: Annotated[
        str | None,
        typer.Option(
            "--moves", metavar="MOVES", help='Moves to play from that position, in SAN or UCI: "e4 e5 Nf3".'
        ),
    ] = None
    game: Annotated[
        int | None,
        typer.Option(
            "--game",
            metavar="K",
            min=1,
            help="Number of the game in the PGN file, or of the position in the EPD file, from 1; the first"
            " by default.",
        ),
    ] = None
    ply: Annotated[
        int | None,
        typer.Option("--ply", metavar="P", min=0, help="Half-moves of the game to play; all by default."),
    ] = None

    @property
    def given(self) -> bool:
        """Whether any of them is given."""
        return (self.moves, self.game, self.ply) != (None, None, None)

    def board_after(self, position: str) -> chess.Board:
        """Returns the position of a text and these options, after printing notes about it."""
        from graphsearch.position.notation import read_position

        found = read_position(position, moves=self.moves, game=self.game, ply=self.ply)
        for note in found.notes:
            say(f"note: {note}")
        return found.board


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionOptions(LineOptions):
    """One position: a starting point and the moves from there."""

    position: Position

    def board(self) -> chess.Board:
        """Returns the position, after printing notes about it."""
        return self.board_after(self.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyPositionOptions(LineOptions):
    """One position, or none: then the command chooses."""

    position: AnyPosition = None

    def board(self) -> chess.Board | None:
        """Returns the position, None if none is named.

        Raises:
          typer.BadParameter: if there are moves to play and no position.
        """
        if self.position is not None:
            return self.board_after(self.position)
        if self.given:
            raise typer.BadParameter("--moves, --game and --ply need a POSITION")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorOptions:
    """An evaluator and its options."""

    evaluator: Annotated[
        str | None,
        typer.Option(
            "--evaluator",
            metavar="NAME",
            help="builtin (the default): the program's own networks; uniform: knows only the rules, for "
            "benchmarks; nnue:FILE or nnue:PROGRAM: Stockfish's network, from a .nnue file or the program "
            "(nnue:stockfish); lc0:FILE: a Leela Chess Zero network, .pb.gz or .onnx; uci:PROGRAM: any UCI "
            "engine.",
        ),
    ] = None
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy", metavar="NAME", help="Take priors from this evaluator and values from another."
        ),
    ] = None
    value: Annotated[
        str | None,
        typer.Option(
            "--value", metavar="NAME", help="Take values from this evaluator and priors from another."
        ),
    ] = None
    evaluator_option: Annotated[
        list[str] | None,
        typer.Option(
            "--evaluator-option",
            metavar="NAME=VALUE",
            help="An evaluator option, such as nodes=500 or workers=2; with two evaluators, policy.NAME or"
            " value.NAME. May be repeated.",
        ),
    ] = None
    syzygy: Annotated[
        str | None,
        typer.Option(
            "--syzygy", metavar="DIR", help="Folder of Syzygy tablebases; separate several as in PATH."
        ),
    ] = None
    threads: Threads = None
    pool: Annotated[
        str | None,
        typer.Option(
            "--pool",
            metavar="WHERE",
            help="Where the evaluator's workers are started: local (processes, the default), ray, "
            "ray:auto or ray:ADDRESS.",
        ),
    ] = None

    @property
    def named(self) -> bool:
        """Whether an evaluator is named."""
        return (self.evaluator, self.policy, self.value) != (None, None, None)

    def spec(self, params: Sequence[str] = ()) -> tuple[EvaluatorSpec, list[str]]:
        """Returns the evaluator's specification, and the texts among `params` that belong to the search."""
        from graphsearch.evaluators import factory

        own, others = factory.split_options(params)
        spec = factory.EvaluatorSpec(
            evaluator=self.evaluator,
            policy=self.policy,
            value=self.value,
            options=(*own.items(), *factory.parse_options(self.evaluator_option or ())),
            syzygy=self.syzygy,
            pool=self.pool,
        )
        return spec if self.threads is None else factory.with_threads(spec, self.threads), others

    def create(self, params: Sequence[str] = ()) -> tuple[protocol.Evaluator, list[str]]:
        """Returns the evaluator, and the `NAME=VALUE` texts among `params` that belong to the search.

        The caller closes it (`closing`).

        Raises:
          typer.BadParameter: for an unknown evaluator; one that cannot be loaded is a failure.
        """
        from graphsearch.errors import UnknownEvaluatorError
        from graphsearch.evaluators import factory

        spec, others = self.spec(params)
        try:
            made = factory.create(spec)
        except UnknownEvaluatorError as error:
            raise typer.BadParameter(str(error)) from None
        for note in getattr(made, "notes", ()):
            say(f"note: {note}")
        return made, others


def byte_count(text: str) -> int:
    """Returns the bytes of a size such as 256MB.

    Raises:
      typer.BadParameter: if it is not a size.
    """
    from graphsearch import limits

    try:
        return limits.byte_count(text)
    except InvalidParameterError as error:
        raise typer.BadParameter(str(error)) from None


def graph_ram(text: str | None) -> int | None:
    """Returns the bytes of `--ram` for a search, None for the default.

    Raises:
      typer.BadParameter: if it is not a size, or smaller than the few megabytes that a wave needs.
    """
    if text is None:
        return None
    from graphsearch.search.params import LEAST_RAM

    found = byte_count(text)
    if found < LEAST_RAM:
        raise typer.BadParameter(f"--ram must be at least 8MB, not {text}")
    return found


def check_plot_file(path: Path, *endings: str) -> None:
    """Checks the file of `--plot` before the work starts.

    Raises:
      typer.BadParameter: if its name has another ending, or it cannot be written.
    """
    folder = path.parent
    problem = ""
    if path.suffix.lower() not in endings:
        problem = f"the file name must end in {' or '.join(endings)}, not {path}"
    elif not folder.is_dir():
        problem = f"folder {folder} does not exist; create it first"
    elif path.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        problem = f"cannot write {path}; check its permissions"
    if problem:
        raise typer.BadParameter(problem, param_hint="--plot")


@contextmanager
def closing(evaluator: protocol.Evaluator) -> Iterator[None]:
    """Stops the evaluator's processes at the end, if it has any."""
    try:
        yield
    finally:
        evaluator.close()
