"""The tables of a BOOK.toml: every key with its type, its range and its default."""

from __future__ import annotations

from typing import Annotated, Any, cast, get_args

import chess
from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from ..errors import InvalidPositionError
from ..position.notation import named_board, play_moves, read_moves
from ..search.params import SearchParams
from .config import Backup, Expansion, Leaf, Policy, Side, Window
from .toml_evaluator import EvaluatorTable
from .toml_values import (
    MAX_PLY,
    MOST_WEIGHT,
    Centipawns,
    Count,
    Fault,
    Game,
    Games,
    MostMoves,
    Options,
    Plies,
    Ply,
    Table,
    Text,
    Weight,
    located,
    printable,
    refuse,
)


class BookTable(Table):
    """`[book]`."""

    name: Annotated[Text, AfterValidator(printable)] | None = None
    side: Side = Field(description='"white", "black" or "both"')
    max_ply: Annotated[int, Field(ge=1, le=MAX_PLY)] = Field(description=f"from 1 to {MAX_PLY}")


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
            refuse(
                ((key,), "needs pgn, the name of a file of games")
                for key in ("game", "games", "ply")
                if key in given
            )
            return self
        faults: list[Fault] = [
            ((key,), "cannot be given with pgn; use ply to cut a game off")
            for key in ("fen", "moves")
            if key in given
        ]
        if {"game", "games"} <= given:
            faults.append(
                (("games",), 'give game or games, not both: game = 3, games = [1, 2] or games = "all"')
            )
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

    play: list[Any] = Field(min_length=1, description='a list of moves, such as ["c4", "g1f3"]')

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
        """Returns the window; own moves are one unless a key says how many or how good."""
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
        params = tuple(self.params.items())
        if self.evaluations is None and self.visits is None:
            return Leaf(params=params)
        return Leaf(evaluations=self.evaluations, visits=self.visits, params=params)


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


def is_array(section: str | int) -> bool:
    """Returns whether a file may have several tables of a name."""
    return section in ("root", "window", "force", "exclude")
