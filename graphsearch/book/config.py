"""The rules of a book: reads and checks BOOK.toml; `docs/books.md` is its reference.

The tables of pydantic have every key with its type, its range and its default. The builder uses those for
windows, expansion and the search of a leaf as they are.
"""

from __future__ import annotations

import difflib
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args

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
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from ..base.errors import (
    BookConfigError,
    EvaluatorError,
    GraphSearchError,
    InputFileError,
    InvalidPositionError,
)
from ..base.limits import TOML, read_file, toml_tables
from ..evaluators.factory import EvaluatorSpec, check
from ..evaluators.nnue.layout import NNUE_SUFFIX
from ..evaluators.uci.program import find_program, located, located_command
from ..position.board import fen_of, key_text, terminal_kind
from ..position.notation import named_board, play_moves, read_moves
from ..search.params import MAX_LIMIT, SearchParams
from ..store.tables.books import Side

Policy = Literal["dropout", "cost"]
MAX_PLY = 1000
SHOWN = 60  # characters of a wrong value that a message repeats
KeyPath = tuple[str | int, ...]
Fault = tuple[KeyPath, str]  # path in the validated value, text


# ------------------------------------------------------------------ types of values
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


def _option(value: object) -> str:
    if not isinstance(value, (bool, int, float, str)):
        raise ValueError("must be a number, a text, true or false")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _in_order(plies: list[int]) -> list[int]:
    if plies[0] > plies[-1]:
        raise ValueError(f"the first ply must not be behind the last one, as in {plies}")
    return plies


ALL = BeforeValidator(lambda value: None if value == "all" else value)
Text = Annotated[str, AfterValidator(_not_blank)]
Count = Annotated[int, Field(ge=1, le=MAX_LIMIT)]
Ply = Annotated[int, Field(ge=0, le=MAX_PLY)]
Plies = Annotated[list[Ply], Field(min_length=1, max_length=2), AfterValidator(_in_order)]
Centipawns = Annotated[float, Field(ge=0, le=100_000)]
MostMoves = Annotated[Annotated[int, Field(ge=1, le=256)] | None, ALL]
Weight = Annotated[float, Field(ge=0, le=1e6)]
Options = dict[str, Annotated[str, BeforeValidator(_option)]]


class Table(BaseModel):
    """A table that rejects unknown keys and converts no types."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


# ------------------------------------------------------------------ tables
class BookTable(Table):
    """`[book]`."""

    name: Annotated[Text, AfterValidator(_printable)] | None = None
    side: Side
    max_ply: Annotated[int, Field(ge=1, le=MAX_PLY)]


class Window(Table):
    """`[[window]]`: the moves that a book adds at some plies. A move is added if one of the tests admits it.

    Own moves are those of the book's side (of both sides, if it is `both`), replies those of the other.

    Attributes:
      plies: the first and the last ply of the positions; without a last one, no end. Where windows overlap,
        the last counts.
      own_cp: own moves that lose at most this many centipawns against the best one.
      own_moves: largest number of these, the best ones; None: all. 1 if neither `own_cp` nor this is given.
      reply_p: replies with at least this prior; None: the test admits none.
      reply_cp: replies that lose at most this many centipawns against the best one; None: none but the best.
      reply_games: replies in at least this many imported games; None: the test admits none.
      reply_moves: largest number of all these, the best ones; None: all.
    """

    plies: Plies = Field(default_factory=lambda: [0])
    own_cp: Centipawns = 0.0
    own_moves: MostMoves = None
    reply_p: Annotated[float, Field(ge=0, le=1)] | None = None
    reply_cp: Centipawns | None = None
    reply_games: Count | None = None
    reply_moves: MostMoves = None

    @model_validator(mode="before")
    @classmethod
    def _with_one_own_move(cls, given: Any) -> Any:
        if isinstance(given, dict) and not given.keys() & {"own_cp", "own_moves"}:
            return given | {"own_moves": 1}
        return given

    def covers(self, ply: int) -> bool:
        """Returns whether a ply is one of its plies."""
        return self.plies[0] <= ply and (len(self.plies) == 1 or ply <= self.plies[1])


class Expansion(Table):
    """`[expansion]`: the order in which leaves are searched. Losses are in pawns, for the side that moves.

    Attributes:
      policy: `dropout`: Lincke's drop-out expansion; `cost`: in the order of the cost of the path from the
        root.
      alpha: of `dropout`, the plies that a pawn of loss is worth.
      per_ply, per_loss, per_log_p, per_move: of `cost`: the cost of a ply, of a pawn of loss, of one unit of
        -ln P, and of each move that the position has in the book before this one.
    """

    policy: Policy = "dropout"
    alpha: Weight = 10.0
    per_ply: Weight = 1.0
    per_loss: Weight = 10.0
    per_log_p: Weight = 0.5
    per_move: Weight = 0.2


class Leaf(Table):
    """`[leaf]`: the search of a position of the book.

    Attributes:
      evaluations, visits: limits of each search; None: no such limit. One of them is set.
      params: texts of the search's parameters by name, such as `{"MinibatchSize": "32"}`.
    """

    evaluations: Count | None = None
    visits: Count | None = None
    params: Options = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _with_a_limit(cls, given: Any) -> Any:
        if isinstance(given, dict) and not given.keys() & {"evaluations", "visits"}:
            return given | {"evaluations": 1000}
        return given

    @field_validator("visits")
    @classmethod
    def _check_one_limit(cls, visits: int | None, info: ValidationInfo) -> int | None:
        if visits and info.data.get("evaluations"):
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


def _found(folder: Path, name: str, kind: Literal["file", "folder", "network"]) -> str:
    """Returns the path of a file or folder that exists, as `located`."""
    path = located(folder, name)
    if not (path.is_dir() if kind == "folder" else path.is_file()):
        raise ValueError(f"there is no {kind} {path} (looked for in the folder of this file)")
    return os.fspath(path)


def _command(folder: Path, command: str) -> str:
    """Returns the command of an engine with the absolute path of its program."""
    try:
        find_program(command := located_command(folder, command))
    except GraphSearchError as error:
        raise ValueError(str(error)) from None
    except ValueError as error:
        raise ValueError(f"not a command: {error}") from None
    return command


class EvaluatorTable(Table):
    """`[evaluator]`: checked as far as possible without starting it; with a folder, its files must exist."""

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
        path, _, of = (name or "").rpartition(":")
        if info.context is not None and path.endswith(".py"):
            return f"{_found(info.context, path, 'file')}:{of}"
        kind, _, rest = (name or "").partition(":")
        if info.context is None or not rest or kind not in ("lc0", "uci", "nnue"):
            return name
        if kind == "lc0" or rest.endswith(NNUE_SUFFIX):
            return f"{kind}:{_found(info.context, rest, 'network')}"
        return f"{kind}:{_command(info.context, rest)}"

    @field_validator("syzygy")
    @classmethod
    def _locate_folders(cls, text: str | None, info: ValidationInfo) -> str | None:
        if info.context is None:
            return text
        parts = filter(None, (text or "").split(os.pathsep))
        return os.pathsep.join(_found(info.context, part, "folder") for part in parts)

    @model_validator(mode="after")
    def _check(self) -> EvaluatorTable:
        try:
            check(self.spec())
        except (EvaluatorError, ValueError) as error:
            refuse([(self._key_of(str(error)), str(error))])
        return self

    def _key_of(self, message: str) -> KeyPath:
        """Returns the path of the key with the value in a message."""
        for key in ("name", "policy", "value", "pool"):
            if repr(getattr(self, key)) in message:
                return (key,)
        return next((("options", name) for name in self.options if name.lower() in message.lower()), ())

    def spec(self) -> EvaluatorSpec:
        """Returns the evaluator's specification."""
        others = self.model_dump(exclude={"name", "options"})
        return EvaluatorSpec(evaluator=self.name, options=tuple(self.options.items()), **others)


class PositionTable(Table):
    """`[[root]]`, or another position, by a FEN and the moves after it."""

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

    @cached_property
    def board(self) -> chess.Board:
        """The position, without the moves before it."""
        return _board(self.fen, self.moves).copy(stack=False)


def _board(fen: str | None, moves: str | None = None) -> chess.Board:
    board = named_board(fen.strip()) if fen else chess.Board()
    play_moves(board, moves or "")
    return board


class Ruling(PositionTable):
    """`[[exclude]]`: moves of a position that are never added, wherever it occurs in the book."""

    play: list[str] = Field(min_length=1)

    @field_validator("play")
    @classmethod
    def _check_play(cls, play: list[str], info: ValidationInfo) -> list[str]:
        if not {"fen", "moves"} <= info.data.keys():
            return play
        board = _board(info.data["fen"], info.data["moves"])
        faults: list[Fault] = []
        for index, text in enumerate(play):
            try:
                read_moves(board, text)
            except InvalidPositionError as error:
                faults.append(((index,), str(error)))
        refuse(faults)
        return play

    @cached_property
    def moves_of_play(self) -> tuple[str, ...]:
        """The moves in UCI, each once."""
        found = (move.uci() for text in self.play for move in read_moves(self.board, text))
        return tuple(dict.fromkeys(found))


class Forced(Ruling):
    """`[[force]]`: moves of a position that are always added; with `only`, no others are."""

    only: bool = False


class BookFile(Table):
    """A whole BOOK.toml; the validation context is its folder, or None, as of `parse_config`."""

    book: BookTable
    root: list[PositionTable] = Field(default_factory=list)
    expansion: Expansion = Field(default_factory=Expansion)
    window: list[Window] = Field(default_factory=list)
    force: list[Forced] = Field(default_factory=list)
    exclude: list[Ruling] = Field(default_factory=list)
    evaluator: EvaluatorTable = Field(default_factory=EvaluatorTable)
    leaf: Leaf = Field(default_factory=Leaf)


TABLES: dict[str, type[Table]] = {
    name: cast(type[Table], next(iter(get_args(of.annotation)), of.annotation))
    for name, of in BookFile.model_fields.items()
}


# ------------------------------------------------------------------ the configuration
@dataclass(frozen=True, slots=True)
class Root:
    """A position where the book begins, at the ply of its move number, and its origin, such as `root 1`."""

    board: chess.Board
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BookConfig:
    """A checked BOOK.toml.

    Attributes:
      text: the file as read. side: the side with the book's own moves.
      max_ply: positions at this ply are not searched, and none of their moves is added.
      roots: distinct positions before `max_ply`.
      forced, excluded: moves in UCI by position key. only: keys of positions that get forced moves only.
      notes: for the author, one line each.
    """

    text: str
    name: str
    side: Side
    max_ply: int
    roots: tuple[Root, ...]
    windows: tuple[Window, ...] = (Window(),)
    expansion: Expansion = field(default_factory=Expansion)
    leaf: Leaf = field(default_factory=Leaf)
    forced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    excluded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    only: frozenset[str] = frozenset()
    evaluator: EvaluatorSpec = field(default_factory=EvaluatorSpec)
    notes: tuple[str, ...] = ()

    def window_at(self, ply: int) -> Window | None:
        """Returns the last window that covers a ply; None: only forced moves are added there."""
        return next((window for window in reversed(self.windows) if window.covers(ply)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSettings:
    """The limits of a build, which otherwise ends when nothing is left to search; its processes and memory.

    Attributes:
      seconds: wall time.
      evaluations: the build starts no search that might exceed this number, except the first.
      forever: whether to wait for the queue when nothing is left.
      workers: number of processes that search, in `pool` (`local`, `ray` or `ray:ADDRESS`); None: this one.
      ram_bytes: limit of the memory of the graph, or of all workers together; None: what the machine has.
    """

    seconds: float | None = None
    evaluations: int | None = None
    forever: bool = False
    workers: int | None = None
    pool: str | None = None
    ram_bytes: int | None = None


# ------------------------------------------------------------------ reading
def read_config(path: str | os.PathLike[str]) -> BookConfig:
    """Returns the book that a file describes; paths in it are relative to its folder; as `parse_config`."""
    file = Path(path)
    try:
        text = read_file(file, TOML).decode("utf-8-sig")
    except (InputFileError, OSError) as error:
        raise BookConfigError(f"{path}: cannot read it: {getattr(error, 'strerror', '') or error}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise BookConfigError(f"{path}:{line}: not UTF-8, so it is not a TOML file") from None
    return parse_config(text, file.parent, str(path))


def parse_config(text: str, folder: Path | None, name: str) -> BookConfig:
    """Returns the book that a TOML text describes.

    Args:
      folder: base of relative paths. None: of a text from another machine; the names of files stay as they
        are, and no file is looked for.
      name: of the file, for messages; its stem is the book's name unless the text names the book.

    Raises:
      BookConfigError: with a line for every fault: file, line, key, value found and values allowed.
    """
    data = load_toml(text, name)  # before the reader, which has no limits
    return _Reader(name, text).config(data, folder)


def stored_config(text: str, name: str) -> BookConfig:
    """Returns the configuration in a graph file, without its roots and evaluator: their files may be gone.

    Raises:
      BookConfigError: if the text cannot be read: another version of this program wrote it.
    """
    data = {key: value for key, value in load_toml(text, name).items() if key not in ("root", "evaluator")}
    return _Reader(name, text).config(data, None)


def load_toml(text: str, name: str) -> dict[str, Any]:
    """Returns the unchecked tables of a BOOK.toml, within limits that `tomllib` lacks; as `parse_config`."""
    try:
        return toml_tables(text)
    except RecursionError:
        raise BookConfigError(f"{name}: not a BOOK.toml: lists or tables are nested too deeply") from None
    except ValueError as error:
        found = re.search(r"\bline (\d+)", str(error))
        last = text.count("\n") + 1 if "(at end of document)" in str(error) else None
        line = found[1] if found else last
        place = f"{name}:{line}" if line else name
        kind = "" if isinstance(error, InputFileError) else "not TOML: "
        message = re.sub(r"^line \d+: ", "", str(error))
        raise BookConfigError(f"{place}: {kind}{message}") from None


class _Reader:
    """Reads one file, and collects its faults and the notes for its author."""

    def __init__(self, name: str, text: str) -> None:
        self._name, self._text = name, text
        self._lines = lines_of(text)
        self._faults: list[tuple[int, str]] = []
        self._notes: list[str] = []

    def config(self, data: dict[str, Any], folder: Path | None) -> BookConfig:
        """Returns the configuration; raises BookConfigError with all faults, in the order of their lines."""
        try:
            file = BookFile.model_validate({"book": {}} | data, context=folder)
        except ValidationError as error:
            for fault in error.errors(include_url=False):
                self._faults.append((self._line(fault["loc"]), message(fault)))
            self._refuse()
            raise
        forced, excluded = self._rulings("force", file.force), self._rulings("exclude", file.exclude)
        self._check_rulings(forced, excluded)
        roots = self._roots(file.root or [PositionTable()], file.book.max_ply)
        self._refuse()
        if file.window:
            self._note_windows(file.window, min(root.board.ply() for root in roots), file.book.max_ply)
        return BookConfig(
            text=self._text,
            name=file.book.name or Path(self._name).stem,
            side=file.book.side,
            max_ply=file.book.max_ply,
            roots=roots,
            windows=tuple(file.window) or (Window(),),
            expansion=file.expansion,
            leaf=file.leaf,
            forced=_moves_by_key(forced),
            excluded=_moves_by_key(excluded),
            only=frozenset(key_text(one.board) for one in file.force if one.only),
            evaluator=file.evaluator.spec(),
            notes=tuple(self._notes),
        )

    # -------------------------------------------------------------- faults and notes
    def _line(self, path: KeyPath) -> int:
        """Returns the line of a path, or of the table around it."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)

    def _note(self, path: KeyPath, text: str) -> None:
        """Adds a note, with the table's name before the text."""
        table = path[:2] if isinstance(path[1], int) else path[:1]
        self._notes.append(f"{self._name}:{self._line(path)}: {named(table)} {text}")

    def _refuse(self) -> None:
        if self._faults:
            ordered = sorted(self._faults, key=lambda fault: fault[0])
            raise BookConfigError("\n".join(f"{self._name}:{line}: {text}" for line, text in ordered))

    def _note_windows(self, windows: list[Window], first: int, most: int) -> None:
        """Notes the plies from `first` on, before `most`, that no window covers."""
        bare = [ply for ply in range(first, most) if not any(one.covers(ply) for one in windows)]
        for _, group in groupby(enumerate(bare), key=lambda it: it[1] - it[0]):
            run = [ply for _, ply in group]
            plies = f"plies {run[0]} to {run[-1]}" if len(run) > 1 else f"ply {run[0]}"
            self._note(("window", 0), f"does not cover {plies}: only forced moves are added there")

    # -------------------------------------------------------------- rulings
    def _rulings(self, kind: str, tables: Iterable[Ruling]) -> list[tuple[int, Ruling]]:
        """Returns the tables of a kind with their lines."""
        return [(self._line((kind, index)), table) for index, table in enumerate(tables)]

    def _check_rulings(self, forced: list[tuple[int, Ruling]], excluded: list[tuple[int, Ruling]]) -> None:
        """Adds a fault for every move that is forced and excluded, and for positions without a move left."""
        taken = {
            (key_text(table.board), move): line for line, table in forced for move in table.moves_of_play
        }
        left = _moves_by_key(excluded)
        for line, table in excluded:
            key, fen = key_text(table.board), fen_of(table.board)
            if len(left.pop(key, ())) == table.board.legal_moves.count():
                self._faults.append((line, f"[[exclude]] leaves no legal move in {fen}"))
            for move in table.moves_of_play:
                if (key, move) in taken:
                    san = table.board.san(chess.Move.from_uci(move))
                    lines = f"forced (line {taken[key, move]}) and excluded (line {line})"
                    self._faults.append((line, f"{san} is {lines} in {fen}: take out one of them"))

    # -------------------------------------------------------------- roots
    def _roots(self, tables: list[PositionTable], most: int) -> tuple[Root, ...]:
        found: dict[str, Root] = {}
        for index, table in enumerate(tables):
            path, board = ("root", index), table.board
            key = "fen" if table.moves is None else "moves"
            if board.ply() >= most:
                text = f"the position is at ply {board.ply()}, but max_ply is {most}: it must be before"
                self._faults.append((self._line((*path, key)), f"{named((*path, key))}: {text}"))
                continue
            if terminal_kind(board):
                text = f"the game is over at {fen_of(board)}; nothing can be searched there"
                self._note((*path, "moves"), text)
            root = Root(board, f"root {index + 1}")
            same = found.setdefault(key_text(board), root)
            if same is not root:
                text = f"is the position of {same.origin} again: {fen_of(board)}"
                self._note((*path, "moves"), text)
        return tuple(found.values())


def _moves_by_key(rulings: Iterable[tuple[int, Ruling]]) -> dict[str, tuple[str, ...]]:
    """Returns the moves of rulings by position key; those on one position are one ruling."""
    found: dict[str, tuple[str, ...]] = {}
    for _, table in rulings:
        key = key_text(table.board)
        found[key] = tuple(dict.fromkeys((*found.get(key, ()), *table.moves_of_play)))
    return found


# ------------------------------------------------------------------ messages
def named(path: KeyPath) -> str:
    """Returns the names of a table and a key.

    >>> named(("root", 2)), named(("root", 0, "games", 1)), named(("leaf", "params", "CPuct"))
    ('[[root]]', '[[root]] games[1]', '[leaf] params.CPuct')
    """
    section, *keys = path
    title = f"[{section}]"
    if keys and isinstance(keys[0], int):
        title, keys = f"[{title}]", keys[1:]
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return f"{title} {text.lstrip('.')}".rstrip()


PLAIN = {  # texts of pydantic's types of faults; its own words name types of Python
    "missing": "is missing",
    "extra_forbidden": "there is no such key",
    "string_type": "must be a text in quotes",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "literal_error": "must be {expected}",
    "greater_than_equal": "must be at least {ge:.16g}",
    "less_than_equal": "must be at most {le:.16g}",
    "too_short": "must have {min_length} or more values",
    "too_long": "must have {max_length} values or fewer",
}


def message(fault: ErrorDetails) -> str:
    """Returns what is wrong, with the table and key, the value, and the name that it may mean."""
    path, value, context = fault["loc"], fault["input"], fault.get("ctx", {})
    text = str(context.get("error") or PLAIN.get(fault["type"], fault["msg"]).format(**context))
    if fault["type"] == "list_type" and len(path) == 1:
        text = f"must be written as [[{path[0]}]]"
    if fault["type"] not in ("value_error", "fault", "missing", "extra_forbidden"):
        shown = repr(value)
        text += f", not {shown if len(shown) <= SHOWN else f'{shown[:SHOWN]}...'}"
    hint = ""
    if fault["type"] == "extra_forbidden":
        known = [*(TABLES[str(path[0])].model_fields if len(path) > 1 else TABLES)]
        near = difflib.get_close_matches(str(path[-1]), known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
    elif fault["type"] == "literal_error":
        near = difflib.get_close_matches(str(value), re.findall(r"'(.*?)'", context["expected"]), 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{named(path)}: {text}{hint}"


_HEADER = re.compile(r"\s*\[(\[?)([^\[\]#]+)\]")
_KEY = re.compile(r"""\s*([\w.\- "']+?)\s*=""")


def lines_of(text: str) -> dict[KeyPath, int]:
    """Returns the line, from 1, of every table and key of a BOOK.toml, by its path of keys and indices.

    It reads lines, not TOML: a line of a text over several lines may look like a key.

    >>> lines_of("[a]\\nb = [\\n1,\\n2]\\n[[c]]\\nd.e = 3")
    {('a',): 1, ('a', 'b'): 2, ('c',): 5, ('c', 0): 5, ('c', 0, 'd'): 6, ('c', 0, 'd', 'e'): 6}
    """
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    arrays = Counter[KeyPath]()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _parts(header[2])
            lines.setdefault(table, number)
            if header[1]:
                arrays[table] += 1
                table = (*table, arrays[table] - 1)
                lines[table] = number
        elif key := _KEY.match(line):
            path = (*table, *_parts(key[1]))
            for end in range(len(table) + 1, len(path) + 1):
                lines.setdefault(path[:end], number)
    return lines


def _parts(key: str) -> KeyPath:
    return tuple(part.strip().strip("\"'") for part in key.split("."))
