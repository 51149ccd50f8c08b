"""Options that several commands share, alone and in bundles; each name and help text is written once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal

import typer

from .output import say
from .settings import remember_evaluator, remembered_evaluator

if TYPE_CHECKING:
    import chess

    from graphsearch.evaluators import protocol
    from graphsearch.evaluators.factory import EvaluatorSpec
    from graphsearch.search.params import Limits, SearchParams
    from graphsearch.store.provenance import EvaluatorIdentity


def option(names: str, help_text: str, **more: Any) -> Any:
    """Declares an option by its names and its metavar, `--seconds --time S`; `more` is for Typer."""
    words = names.split(" ")
    flags = [word for word in words if word.startswith("-")]
    metavar = " ".join(words[len(flags) :]) or None
    return typer.Option(*flags, metavar=metavar, help=help_text, **more)


def argument(metavar: str, help_text: str, **more: Any) -> Any:
    """Declares an argument."""
    return typer.Argument(metavar=metavar, help=help_text, show_default=False, **more)


Json = Annotated[bool, option("--json", "Print JSON instead of a table.")]
_POSITIONS = "startpos, chess960:N, a FEN or moves in quotes, a PGN file (its last position) or an EPD file"
Position = Annotated[str, argument("POSITION", f"{_POSITIONS}; startpos by default.")]
AnyPosition = Annotated[str | None, argument("POSITION", f"{_POSITIONS}; if none, as above, or startpos.")]
_STORE = "The graph file; it may also come first, without --store"
StoreOption = Annotated[Path, option("--store FILE", f"{_STORE}.")]
StoreToMake = Annotated[Path, option("--store FILE", f"{_STORE}. Created if missing.")]
StoreToSave = Annotated[
    Path | None,
    option("--store FILE", f"{_STORE}. The search resumes from it and is saved to it; created if missing."),
]
PgnInput = Annotated[str, argument("FILE", "PGN file, plain, .gz or .zst; - for standard input.")]
OfBook = Annotated[str | None, option("--book NAME", "Only what belongs to this book.")]
Depth = Annotated[int | None, option("--depth D", "Plies below the position or the roots.", min=0)]
Side = Annotated[str | None, option("--side SIDE", "white or black; both by default.")]
Since = Annotated[
    str | None, option("--since DATE", "Only games of this date or later: 2024, 2024-05 or 2024-05-17.")
]
Lines = Annotated[int, option("--lines K", "Lines to print; 0 for all.", min=0)]
Force = Annotated[bool, option("--force", "Overwrite an existing file; merge: also if the disk may be full.")]
Param = Annotated[
    list[str] | None,
    option("--param NAME=VALUE", "A search parameter such as CPuct=2; `help parameters` lists them."),
]
Count = Annotated[int, 1]  # with its least value
Natural = Annotated[int, 0]
STDIN = STDOUT = "-"  # as the name of a file
DEFAULT_VISITS = 1000  # of every position, if no limit is named
ALL_LINES = 1 << 40  # for --lines 0, in functions that need a number


def _seconds(text: str | float) -> float:
    """Returns seconds: a number, or a number followed by s, m, h or d.

    >>> _seconds("90"), _seconds("1.5m"), _seconds("2h")
    (90.0, 90.0, 7200.0)
    """
    if isinstance(text, float | int):  # a default
        return text
    number, unit = (text[:-1], text[-1:]) if text[-1:] in UNITS else (text, "s")
    try:
        return float(number) * UNITS[unit]
    except ValueError:
        raise typer.BadParameter(f"expected a time, such as 30, 5m or 2h, not {text!r}") from None


UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
Time = Annotated[
    float | None, option("--time TIME", "Stop after this time: 30 (seconds), 5m or 2h.", parser=_seconds)
]
Details = Annotated[bool, option("--details", "All columns: N, P and Q, positions as FEN, counters.")]
Ram = Annotated[
    str | None,
    option("--ram SIZE", "Memory limit of the graph, such as 4GB; 80 % of the machine's memory by default."),
]
Pool = Annotated[
    str | None,
    option("--pool WHERE", "Where workers are started: local (by default), ray, ray:auto or ray:ADDRESS."),
]
Workers = Annotated[
    int | None,
    option("--workers K", "Search K positions at once, in processes that --pool starts.", min=1, max=1024),
]
Threads = Annotated[
    int | None,
    option(
        "--threads K",
        "Threads that search together with builtin or nnue, and evaluate batches there and in networks on a "
        "CPU. By default all cores; one in a search of less than 100,000 visits or evaluations. With one, a "
        "search repeats bit for bit. With several processes, the threads of each.",
        min=1,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LineOptions:
    """The moves played from a position.

    Attributes:
      moves: --moves MOVES: Moves to play from that position, in SAN or UCI: "e4 e5 Nf3".
      game: --game K: Number of the game in the PGN file, or of the position in the EPD file, from 1; the
        first by default.
      ply: --ply P: Half-moves of the game to play; all by default.
    """

    moves: str | None = None
    game: Count | None = None
    ply: Natural | None = None

    @property
    def given(self) -> bool:
        """Whether any option is given."""
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

    position: Position = "startpos"

    def board(self) -> chess.Board:
        """Returns the position, after printing notes about it."""
        return self.board_after(self.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyPositionOptions(LineOptions):
    """One position, or none; without one the command chooses."""

    position: AnyPosition = None

    @property
    def given(self) -> bool:
        """Whether a position or moves are given."""
        return (self.position, self.moves, self.game, self.ply) != (None, None, None, None)

    def board(self) -> chess.Board | None:
        """Returns the position, None if none is named; moves alone start from the start position."""
        return self.board_after(self.position or "startpos") if self.given else None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorOptions:
    """An evaluator and its options.

    Attributes:
      evaluator: --evaluator NAME: builtin (the default): the program's own networks; uniform: knows only the
        rules, for benchmarks; nnue:FILE or nnue:PROGRAM: Stockfish's network, from a .nnue file or the
        program (nnue:stockfish); lc0:FILE: a Leela Chess Zero network, .pb.gz or .onnx; uci:PROGRAM: any UCI
        engine; FILE.py:CLASS: a class of a Python file.
      policy: --policy NAME: Take priors from this evaluator and values from another.
      value: --value NAME: Take values from this evaluator and priors from another.
      evaluator_option: --evaluator-option NAME=VALUE: An evaluator option, such as nodes=500 or workers=2;
        with two evaluators, policy.NAME or value.NAME. May be repeated.
      syzygy: --syzygy DIR: Folder of Syzygy tablebases; separate several as in PATH.
    """

    evaluator: str | None = None
    policy: str | None = None
    value: str | None = None
    evaluator_option: list[str] | None = None
    syzygy: str | None = None
    threads: Threads = None
    pool: Pool = None

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

    def create(
        self, params: Sequence[str] = (), file: Path | None = None
    ) -> tuple[protocol.Evaluator, list[str]]:
        """Returns the evaluator, and the `NAME=VALUE` texts among `params` that belong to the search.

        If none is named, it is the one that `file` is bound to, if this machine knows that. The caller
        closes it. An unknown evaluator is wrong use, one that fails to load is not.
        """
        from graphsearch.base.errors import UnknownEvaluatorError
        from graphsearch.evaluators import factory

        spec, others = self.of_file(file).spec(params)
        try:
            made = factory.create(spec)
        except UnknownEvaluatorError as error:
            raise typer.BadParameter(str(error)) from None
        for note in getattr(made, "notes", ()):
            say(f"note: {note}")
        if file is not None and self.named:
            remember(made.identity, spec)
        return made, others

    def of_file(self, file: Path | None) -> EvaluatorOptions:
        """Returns these options; if they name no evaluator, with the names that gave a file its values."""
        if file is None or self.named or (identity := identity_of(file)) is None:
            return self
        found = remembered_evaluator(identity.as_json())
        if not found and identity.kind == "uniform":
            found = {"evaluator": "uniform"}
        if not found:
            return self
        given = [*found.pop("evaluator_option", []), *(self.evaluator_option or [])]
        named = replace(self, **found, evaluator_option=given)
        say(f"note: {file} is searched with its own evaluator, {named.spec()[0].describe()}")
        return named


def remember(identity: EvaluatorIdentity | None, spec: EvaluatorSpec) -> None:
    """Keeps the names of an evaluator; tablebases are no part of its identity, so each search names them."""
    from graphsearch.evaluators.factory import WORKERS, absolute_name, with_threads

    own = {name for name, _ in with_threads(replace(spec, options=()), 1).options}  # not an engine's
    own |= {WORKERS, *(["threads"] if own else [])}
    texts = [f"{name}={text}" for name, text in spec.options if name.lower() not in own]
    names = {name: getattr(spec, name) for name in ("evaluator", "policy", "value")}
    found: dict[str, Any] = {name: absolute_name(text) for name, text in names.items() if text}
    found |= {"evaluator_option": texts} if texts else {}
    if identity and found not in ({}, {"evaluator": "builtin"}):  # which is the default
        remember_evaluator(identity.as_json(), found)


def identity_of(file: Path) -> EvaluatorIdentity | None:
    """Returns the evaluator of a file; None if it has none, or cannot be read."""
    from graphsearch.base.errors import GraphSearchError
    from graphsearch.store.file import opened_to_read
    from graphsearch.store.provenance import read_identity

    if not file.exists():
        return None
    try:
        with opened_to_read(file) as connection:
            return read_identity(connection)
    except GraphSearchError:  # the search says what is wrong
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOptions:
    """How positions are searched: limits in all, memory, processes, evaluator and parameters.

    Attributes:
      evaluations: --evaluations N: Stop after N evaluations.
    """

    evaluations: Count | None = None
    time: Time = None
    ram: Ram = None
    workers: Workers = None
    evaluator: EvaluatorOptions
    param: Param = None

    @property
    def ram_bytes(self) -> int | None:
        """The bytes of `--ram`, as `graph_ram`."""
        return graph_ram(self.ram)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions(WorkOptions):
    """The same, with a limit of visits.

    Attributes:
      visits: --visits N: Stop after N more visits of the position; of games and files: visits of each, 1,000
        if no limit is named.
    """

    visits: int | None = None

    @property
    def limits(self) -> Limits:
        """The limits of one search."""
        from graphsearch.search.params import Limits

        return Limits(visits=self.visits, evaluations=self.evaluations, seconds=self.time)

    @property
    def limits_each(self) -> Limits:
        """The limits of each of many positions: 1,000 visits without any."""
        return self.limits if self.limits.as_dict() else replace(self.limits, visits=DEFAULT_VISITS)

    def settings(self, params: SearchParams) -> dict[str, Any]:
        """Returns the settings with which each of many positions is searched."""
        where = {"workers": self.workers, "pool": self.evaluator.pool}
        return {"limits": self.limits_each, "params": params, **where}


def open_input(name: str) -> AbstractContextManager[BinaryIO]:
    """Returns a file named on the command line, opened to read; `-` is standard input."""
    from graphsearch.base.limits import open_file

    return nullcontext(sys.stdin.buffer) if name == STDIN else open_file(name, piped=True)


Color = Literal["white", "black"]
SIDES: dict[str, Color] = {"w": "white", "white": "white", "b": "black", "black": "black"}


def side_of(text: str | None) -> Color | None:
    """Returns the side that a text names, None for both; raises typer.BadParameter if it names none."""
    if text is None or text.lower() == "both":
        return None
    if text.lower() not in SIDES:
        raise typer.BadParameter(f"--side must be white, black or both, not {text!r}")
    return SIDES[text.lower()]


def graph_ram(text: str | None) -> int | None:
    """Returns the bytes of `--ram` for a search, None for the default; says if the machine has fewer."""
    if text is None:
        return None
    from graphsearch.base.limits import byte_count
    from graphsearch.base.system import memory_bytes
    from graphsearch.search.params import LEAST_RAM

    found = byte_count(text)
    if found < LEAST_RAM:  # what a wave needs
        raise typer.BadParameter(f"--ram must be at least 8MB, not {text}")
    if found > (memory := memory_bytes()):
        least = f"{memory / 1e9:.1f} GB"
        say(f"--ram {text} is more than the memory of this machine, {least}; the graph may not fit.")
    return found
