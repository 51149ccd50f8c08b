"""The tables of a BOOK.toml: every key with its type, its range and its default."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import chess
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from ..base.errors import EvaluatorError, GraphSearchError, InvalidPositionError
from ..base.system import join_command
from ..evaluators.factory import EvaluatorSpec, check
from ..evaluators.nnue.layout import NNUE_SUFFIX
from ..position.notation import named_board, play_moves, read_moves
from ..search.params import MAX_LIMIT, SearchParams
from .config import Backup, Expansion, Leaf, Policy, Side, Window

MAX_GAME = 10**9
MAX_PLY = 1000
MOST_CP = 100_000
MOST_MOVES = 256
MOST_WEIGHT = 1e6

Fault = tuple[tuple[str | int, ...], str]  # path in the validated value, text


def refuse(faults: Iterable[Fault]) -> None:
    """Raises ValidationError if there are any faults."""
    found = [
        InitErrorDetails(type=PydanticCustomError("fault", "{text}", {"text": text}), loc=path, input=None)
        for path, text in faults
    ]
    if found:
        raise ValidationError.from_exception_data("BOOK.toml", found)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


def _printable(text: str) -> str:
    if not text.isprintable() or len(text) > 100:
        raise ValueError("must be at most 100 printable characters")
    return text


def _without_all(value: object) -> object:
    return None if value == "all" else value


def _option(value: object) -> str:
    if not isinstance(value, (bool, int, float, str)):
        raise ValueError("must be a number, a text, true or false")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _in_order(plies: list[int]) -> list[int]:
    if plies[0] > plies[-1]:
        raise ValueError(f"the first ply must not be behind the last one, as in {plies}")
    return plies


Text = Annotated[str, AfterValidator(_not_blank)]
Count = Annotated[int, Field(ge=1, le=MAX_LIMIT)]
Ply = Annotated[int, Field(ge=0, le=MAX_PLY)]
Game = Annotated[int, Field(ge=1, le=MAX_GAME)]
Games = Annotated[
    Annotated[list[Game], Field(min_length=1)] | None,
    BeforeValidator(_without_all),
]
Plies = Annotated[
    list[Ply],
    Field(min_length=1, max_length=2),
    AfterValidator(_in_order),
]
Centipawns = Annotated[float, Field(ge=0, le=MOST_CP)]
MostMoves = Annotated[
    Annotated[int, Field(ge=1, le=MOST_MOVES)] | None,
    BeforeValidator(_without_all),
]
Weight = Annotated[float, Field(ge=0, le=MOST_WEIGHT)]
Options = dict[str, Annotated[str, BeforeValidator(_option)]]


class Table(BaseModel):
    """A table that rejects unknown keys and converts no types."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


def located(folder: Path | None, name: str) -> Path:
    """Returns the absolute path of a file name relative to a folder; expands `~`."""
    return (Path(folder or "") / os.path.expanduser(name)).absolute()  # noqa: PTH111 (pathlib's fails where there is none)


class EvaluatorTable(Table):
    """`[evaluator]`: checked as far as possible without starting it; its files must exist."""

    name: Text | None = None
    policy: Text | None = None
    value: Text | None = None
    options: Options = Field(default_factory=dict)
    syzygy: Text | None = None
    pool: Text | None = None

    @field_validator("name", "policy", "value")
    @classmethod
    def _locate(cls, name: str | None, info: ValidationInfo) -> str | None:
        """Returns the evaluator's name with the absolute path of its file or command."""
        kind, _, rest = (name or "").partition(":")
        if not rest or kind not in ("lc0", "uci", "nnue"):
            return name
        locate = _network if kind == "lc0" or rest.endswith(NNUE_SUFFIX) else _command
        return f"{kind}:{locate(rest, info.context)}"

    @field_validator("syzygy")
    @classmethod
    def _locate_folders(cls, text: str | None, info: ValidationInfo) -> str | None:
        """Returns the absolute paths of the folders of tablebases."""
        paths = [located(info.context, part) for part in (text or "").split(os.pathsep) if part]
        for path in paths:
            if not path.is_dir():
                raise ValueError(f"there is no folder {path} (looked for in the folder of this file)")
        return os.pathsep.join(map(os.fspath, paths))

    @model_validator(mode="after")
    def _check(self) -> EvaluatorTable:
        try:
            check(self.spec())
        except (EvaluatorError, ValueError) as error:
            refuse([(self._key_of(str(error)), str(error))])
        return self

    def _key_of(self, message: str) -> tuple[str, ...]:
        """Returns the path of the key with the value in a message."""
        for key in ("name", "policy", "value", "pool"):
            if repr(getattr(self, key)) in message:
                return (key,)
        return next((("options", name) for name in self.options if name.lower() in message.lower()), ())

    def spec(self) -> EvaluatorSpec:
        """Returns the evaluator's specification."""
        others = self.model_dump(exclude={"name", "options"})
        return EvaluatorSpec(evaluator=self.name, options=tuple(self.options.items()), **others)


def _network(name: str, folder: Path | None) -> str:
    path = located(folder, name)
    if not path.is_file():
        raise ValueError(f"there is no network {path} (looked for in the folder of this file)")
    return os.fspath(path)


def _command(command: str, folder: Path | None) -> str:
    """Returns the command of an engine with the absolute path of its program."""
    from ..evaluators.uci.program import command_words, find_program

    whole = located(folder, command)
    try:
        first, *others = command_words(command, whole)
    except ValueError as error:
        raise ValueError(f"not a command: {error}") from None
    if Path(first).name != first:
        path = os.fspath(located(folder, first))
        command = join_command([path, *others]) if others else path
    try:
        find_program(command)
    except GraphSearchError as error:
        raise ValueError(str(error)) from None
    return command


class BookTable(Table):
    """`[book]`."""

    name: Annotated[Text, AfterValidator(_printable)] | None = None
    side: Side
    max_ply: Annotated[int, Field(ge=1, le=MAX_PLY)]


# ---------------------------------------------------------------- positions
class PositionTable(Table):
    """A position, by a FEN and the moves after it."""

    fen: Text | None = None
    moves: Text | None = None

    @field_validator("fen")
    @classmethod
    def _check_fen(cls, fen: str | None) -> str | None:
        _board(fen)
        return fen

    @field_validator("moves")
    @classmethod
    def _check_moves(cls, moves: str | None, info: ValidationInfo) -> str | None:
        if "fen" in info.data:
            _board(info.data["fen"], moves)
        return moves

    def board(self) -> chess.Board:
        """Returns the position, without the moves before it."""
        return _board(self.fen, self.moves).copy(stack=False)


def _board(fen: str | None, moves: str | None = None) -> chess.Board:
    board = named_board(fen.strip()) if fen else chess.Board()
    play_moves(board, moves or "")
    return board


class RootTable(PositionTable):
    """`[[root]]`."""

    pgn: Text | None = None
    game: Game | None = None
    games: Games = None
    ply: Ply | None = None

    @model_validator(mode="after")
    def _check_keys(self) -> RootTable:
        given = self.model_fields_set
        if self.pgn is None:
            needy = [key for key in ("game", "games", "ply") if key in given]
            refuse(((key,), "needs pgn, the name of a file of games") for key in needy)
            return self
        faults: list[Fault] = [
            ((key,), "cannot be given with pgn; use ply to cut a game off")
            for key in ("fen", "moves")
            if key in given
        ]
        if {"game", "games"} <= given:
            text = 'give game or games, not both: game = 3, games = [1, 2] or games = "all"'
            faults.append((("games",), text))
        refuse(faults)
        return self

    @field_validator("pgn")
    @classmethod
    def _check_file(cls, pgn: str | None, info: ValidationInfo) -> str | None:
        path = located(info.context, pgn or "")
        if not path.exists():
            raise ValueError(f"there is no file {path} (looked for in the folder of this file)")
        return str(path)

    def numbers(self) -> frozenset[int] | None:
        """Returns the numbers of the chosen games, None for all."""
        if "games" in self.model_fields_set:
            return None if self.games is None else frozenset(self.games)
        return frozenset([self.game or 1])


class ExcludeTable(PositionTable):
    """`[[exclude]]`."""

    play: list[Any] = Field(min_length=1)

    @field_validator("play")
    @classmethod
    def _check_play(cls, play: list[Any], info: ValidationInfo) -> list[Any]:
        if not {"fen", "moves"} <= info.data.keys():
            return play
        board = _board(info.data["fen"], info.data["moves"])
        faults: list[Fault] = []
        for index, text in enumerate(play):
            try:
                if not isinstance(text, str):
                    raise InvalidPositionError('a move is a text, such as "c4"')
                read_moves(board, text)
            except InvalidPositionError as error:
                faults.append(((index,), str(error)))
        refuse(faults)
        return play

    def chosen(self) -> tuple[chess.Move, ...]:
        """Returns the moves, each once."""
        board = self.board()
        return tuple(dict.fromkeys(move for text in self.play for move in read_moves(board, text)))


class ForceTable(ExcludeTable):
    """`[[force]]`."""

    only: bool = False


# --------------------------------------------------------- windows, search
class WindowTable(Table):
    """`[[window]]`; the keys are those of `Window`."""

    plies: Plies = Field(default_factory=lambda: [0])
    own_cp: Centipawns = 0.0
    own_moves: MostMoves = None
    reply_p: Annotated[float, Field(ge=0, le=1)] | None = None
    reply_cp: Centipawns | None = None
    reply_games: Count | None = None
    reply_moves: MostMoves = None

    def window(self) -> Window:
        """Returns the window; it has one own move unless `own_cp` or `own_moves` is set."""
        values = self.model_dump(exclude={"plies"})
        if not self.model_fields_set & {"own_cp", "own_moves"}:
            values["own_moves"] = 1
        return Window(first=self.plies[0], last=self.plies[1] if len(self.plies) > 1 else None, **values)


_EXPANSION = Expansion()


class ExpansionTable(Table):
    """`[expansion]`; the keys are those of `Expansion`."""

    policy: Policy = _EXPANSION.policy
    value: Backup = _EXPANSION.value
    cpuct: Annotated[float, Field(gt=0, le=MOST_WEIGHT)] = _EXPANSION.cpuct
    alpha: Weight = _EXPANSION.alpha
    per_ply: Weight = _EXPANSION.per_ply
    per_loss: Weight = _EXPANSION.per_loss
    per_log_p: Weight = _EXPANSION.per_log_p
    per_move: Weight = _EXPANSION.per_move


class LeafTable(Table):
    """`[leaf]`."""

    evaluations: Count | None = None
    visits: Count | None = None
    params: Options = Field(default_factory=dict)

    @field_validator("visits")
    @classmethod
    def _check_one_limit(cls, visits: int | None, info: ValidationInfo) -> int | None:
        if info.data.get("evaluations"):
            raise ValueError("give evaluations or visits, not both")
        return visits

    @field_validator("params")
    @classmethod
    def _check_params(cls, params: dict[str, str]) -> dict[str, str]:
        seen = set[str]()
        faults: list[Fault] = []
        for name, text in params.items():
            try:
                SearchParams.from_options([f"{name}={text}"])
            except ValueError as error:
                faults.append(((name,), str(error)))
            if name.lower() in seen:
                faults.append(((name,), f"{name} is given twice"))
            seen.add(name.lower())
        refuse(faults)
        return params

    def leaf(self) -> Leaf:
        """Returns the limits and parameters of a search."""
        limits = {} if self.evaluations is self.visits is None else self.model_dump(exclude={"params"})
        return Leaf(params=tuple(self.params.items()), **limits)


class BookFile(Table):
    """A whole BOOK.toml; the validation context is its folder."""

    book: BookTable
    root: list[RootTable] = Field(default_factory=list)
    expansion: ExpansionTable = Field(default_factory=ExpansionTable)
    window: list[WindowTable] = Field(default_factory=list)
    force: list[ForceTable] = Field(default_factory=list)
    exclude: list[ExcludeTable] = Field(default_factory=list)
    evaluator: EvaluatorTable = Field(default_factory=lambda: EvaluatorTable())
    leaf: LeafTable = Field(default_factory=lambda: LeafTable())


TABLES: dict[str, type[Table]] = {
    name: cast(type[Table], next(iter(get_args(of.annotation)), of.annotation))
    for name, of in BookFile.model_fields.items()
}
