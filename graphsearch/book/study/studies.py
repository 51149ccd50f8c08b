"""Studies, which are games with variations, and notes on positions.

    PGN text -> read_games -> StudyGame -> rows_of -> rows of moves (the page, a repertoire)
    rows of moves -> game_of -> chess.pgn.Game -> text_of -> PGN text (a study, a file)

The tree of `chess.pgn` holds the moves everywhere. Reading never fails because of a game's content: it skips
and lists, with its line, any part it cannot keep.

A study is its PGN text with an index of positions. The text keeps null moves in variations; for the index and
the page, which need legal positions, these variations end there. A note belongs to a position, whichever line
reaches it. Each change is one transaction. Functions with a path raise StoreError if the file cannot be read
or written, and InvalidParameterError if it has no such study.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from tempfile import gettempdir
from typing import Literal, NamedTuple

import chess
import chess.pgn

from ...base.answer import Answer
from ...base.deadline import check_time
from ...base.errors import ChangedMeanwhileError, CorruptRecordError, ImportFileError, InvalidParameterError
from ...base.limits import GAME_MOVES, STUDIES, STUDY_MOVES
from ...exchange.importing import GivenFile, opened
from ...exchange.output import header
from ...position.board import after, check, fen_of, key_text
from ...position.notation import read_legal_uci
from ...position.pgn import DEEPEST, RESULTS, cut_games, own_moves, read_game, shown
from ...position.pgn import ReadGame as PgnGame
from ...store.file import changing, editing, opened_to_read
from ...store.tables import studies as rows
from ...store.tables.studies import Note, Study, TurnedEdit
from ...store.verify import Problems

AnyPath = str | os.PathLike[str]
LONGEST_NAME = 200
START = 0  # the number of the first position
NO_RESULT = "*"
_NEXT_GAME = re.compile(r"\n[ \t\r\f\v]*(?:\n\s*)?(?=\[\s*Event\s)")


def clean(text: str) -> str:
    r"""Returns a comment in a form that PGN can hold.

    Replaces NUL and closing braces; joins a line that looks like the start of a game to the line before.

    >>> clean(" a }\r\n\n[Event x] "), clean("two\n\nparts")
    ('a ) [Event x]', 'two\n\nparts')
    """
    plain = text.replace("\0", "\N{REPLACEMENT CHARACTER}").replace("\r\n", "\n").replace("}", ")")
    return _NEXT_GAME.sub(" ", plain).strip()


# ------------------------------------------------------------------ moves
class Step(NamedTuple):
    """A move of a game; a line comes before its variations.

    Attributes:
      number: in this order, from 1. parent: that of the move before; `START`: the first position.
      move: castling as in packed positions. board: the position before it, which the next step changes.
    """

    number: int
    parent: int
    node: chess.pgn.ChildNode
    move: chess.Move
    board: chess.Board

    @property
    def key(self) -> str:
        """The key of the position after it."""
        return key_text(after(self.board, self.move))


def steps_of(game: chess.pgn.Game) -> Iterator[Step]:
    """Yields the moves of a game, each after its parent, a line before its variations."""
    board = game.board()
    line: list[tuple[chess.pgn.GameNode, int]] = [(game, START)]
    waiting, number = game.variations[::-1], START
    while waiting:
        node = waiting.pop()
        while line[-1][0] is not node.parent:
            line.pop()
            board.pop()
        number += 1
        [move] = own_moves(board, [node.move])
        yield Step(number, line[-1][1], node, move, board)
        board.push(move)
        line.append((node, number))
        waiting += node.variations[::-1]


class MoveRow(NamedTuple):
    """A move of a game in UCI and SAN, with numbers as of a `Step`.

    `before`, `comment`: the comments before the move, at the beginning of a variation, and after it.
    """

    id: int
    parent: int
    move: str
    san: str = ""
    before: str = ""
    comment: str = ""
    nags: tuple[int, ...] = ()


def rows_of(game: chess.pgn.Game) -> Iterator[MoveRow]:
    """Yields the moves of a game as rows."""
    for step in steps_of(game):
        node, san = step.node, step.board.san(step.move)
        texts = node.starting_comment, node.comment
        yield MoveRow(step.number, step.parent, step.move.uci(), san, *texts, tuple(sorted(node.nags)))


def game_of(
    start: chess.Board,
    rows: Iterable[MoveRow],
    *,
    comment: str = "",
    headers: Mapping[str, str] | None = None,
) -> chess.pgn.Game:
    """Returns the game of rows, each after its parent, a line before its variations; SAN is not read.

    Raises:
      InvalidParameterError: if a parent is missing, a tag or a move is illegal, or the game is too large.
    """
    game = chess.pgn.Game()
    try:
        _set_tags(game, start, headers or {})
    except ValueError as error:  # a name or a value that no tag can have
        raise InvalidParameterError(str(error)) from None
    game.comment = clean(comment)
    board, most = start.copy(stack=False), min(STUDY_MOVES.most, GAME_MOVES.most)
    line: list[tuple[int, chess.pgn.GameNode, int]] = [(START, game, 0)]  # number, node, open variations
    for count, row in enumerate(rows, start=1):
        while line[-1][0] != row.parent:
            line.pop()
            if not line:
                raise InvalidParameterError(f"move {row.id} hangs on move {row.parent}, which is not there")
            board.pop()
        _, parent, depth = line[-1]
        depth += bool(parent.variations)
        if count > most or depth > DEEPEST:
            limit = f"{most:,} moves{STUDY_MOVES.hint}" if count > most else f"{DEEPEST:,} nested variations"
            raise InvalidParameterError(f"a study has at most {limit}")
        try:
            move = read_legal_uci(board, row.move)
        except ValueError:
            raise InvalidParameterError(f"move {row.id}: {row.move!r} is not a legal move there") from None
        texts = {"starting_comment": clean(row.before), "comment": clean(row.comment)}
        line.append((row.id, parent.add_variation(move, nags=row.nags, **texts), depth))
        board.push(move)
    return game


def _set_tags(game: chess.pgn.Game, start: chess.Board, headers: Mapping[str, str]) -> None:
    """Sets the tags of a game; those of its first position are kept as they are if they say the same."""
    game.setup(start)
    given = game.headers.copy()
    game.headers.update(headers)
    with suppress(ValueError):
        board = game.board()
        if board == start and board.chess960 == start.chess960:
            return
    for name in ("FEN", "SetUp", "Variant"):
        game.headers.pop(name, None)
    game.headers.update(dict(given) | dict(game.headers))


# ------------------------------------------------------------------ reading
@dataclass(slots=True)
class StudyGame:
    """A game of a PGN text, its number there from 1, and a message for each skipped part."""

    number: int
    tree: chess.pgn.Game
    left_out: list[str] = field(default_factory=list)

    @property
    def is_unreadable(self) -> bool:
        """Whether it has parts, but none that could be kept."""
        return bool(self.left_out) and not self.tree.variations

    def as_dict(self) -> dict[str, object]:
        """Returns the JSON object for the page."""
        return {
            "fen": fen_of(self.tree.board()),
            "headers": dict(self.tree.headers),
            "comment": self.tree.comment,
            "moves": [row._asdict() for row in rows_of(self.tree)],
            "left_out": self.left_out,
        }


def read_games(lines: Iterable[str], name: str, *, null_moves: bool = False) -> Iterator[StudyGame]:
    """Yields the games of a text, whose name is for messages; without `null_moves` variations end there."""
    for number, text in enumerate(cut_games(lines), start=1):
        yield _read(number, read_game(text, variations=True, null_moves=null_moves), name)


def _read(number: int, game: PgnGame, name: str) -> StudyGame:
    headers = {tag: value.replace("\0", "") for tag, value in game.headers.items()}
    told = [*game.remarks, *game.cuts, *((line, f"passed over {shown(word)}") for line, word in game.strays)]
    if headers.setdefault("Result", NO_RESULT) not in RESULTS:
        told.append((game.text.line, f"{shown(headers['Result'])} is no result"))
    if headers["Result"] not in RESULTS or headers["Result"] == NO_RESULT:
        headers["Result"] = game.result or NO_RESULT
    if game.variant:
        told.append((game.text.line, f"no move is kept: it is {game.variant}, not chess"))
    elif game.start is None:
        told.append((game.error_line, f"no move is kept: {game.error}"))
    elif game.error and not any(line == game.error_line for line, _ in game.cuts):
        told.append((game.error_line, game.error))
    tree = game.tree
    tree.comment = clean(tree.comment)
    _set_tags(tree, game.start or chess.Board(), headers)
    for step in steps_of(tree):
        node = step.node
        node.starting_comment, node.comment = clean(node.starting_comment), clean(node.comment)
    left_out = [f"{name}, game {number}, line {line}: {text}" for line, text in sorted(told)]
    return StudyGame(number, tree, left_out)


# ------------------------------------------------------------------ writing
def text_of(game: chess.pgn.Game) -> str:
    """Returns a game as PGN."""
    tags = "".join(header(name, value).decode() for name, value in game.headers.items())
    return f"{tags}\n{game.accept(chess.pgn.StringExporter(headers=False))}\n"


# ------------------------------------------------------------------ studies
@dataclass(slots=True, kw_only=True)
class ImportedStudies(Problems, Answer):
    """The imported studies; `problems` lists each skipped part with its reason."""

    json_keys = "studies found left_out=problems"

    studies: list[Study] = field(default_factory=list)


# ------------------------------------------------------------------ looking
def list_studies(path: AnyPath) -> list[Study]:
    """Returns the studies of a file, by name."""
    with opened_to_read(path) as connection:
        return rows.all_studies(connection)


def load_study(path: AnyPath, known_by: int | str) -> tuple[Study, StudyGame]:
    """Returns a study, by number or name."""
    with opened_to_read(path) as connection:
        study = _wanted(connection, known_by)
        return study, _game(connection, study)


def _wanted(connection: sqlite3.Connection, known_by: int | str) -> Study:
    found = rows.find_study(connection, known_by)
    if found is None:
        raise InvalidParameterError(f"there is no study {known_by!r}; `graphsearch study list` names all")
    return found


def _game(connection: sqlite3.Connection, study: Study) -> StudyGame:
    text = StringIO(rows.pgn_of(connection, study.id), None)
    found = next(read_games(text, f"the study {study.name!r}"), None)
    if found is None:
        raise CorruptRecordError(f"the study {study.name!r} is damaged: its PGN has no game")
    return found


def export_studies(path: AnyPath, names: Sequence[int | str]) -> str:
    """Returns the named studies as PGN; without names, all studies in the order in which they were made."""
    with opened_to_read(path) as connection:
        wanted = [_wanted(connection, name).id for name in names]
        if not names:
            wanted = sorted(study.id for study in rows.all_studies(connection))
        return "\n".join(rows.pgn_of(connection, number) for number in wanted)


# ------------------------------------------------------------------ files
def read_file(
    given: GivenFile,
    report: Problems,
    *,
    most: int | None = None,
    null_moves: bool = False,
) -> list[StudyGame]:
    """Returns the games of a PGN file, compressed or not, or of a stream; as `read_games`.

    `report` gets each part that is left out, and games behind the first `most` or beyond `STUDY_MOVES`.

    Raises:
      ImportFileError: if the file cannot be read, or has no game that can be read.
    """
    games: list[StudyGame] = []
    moves = 0
    with opened(given, Path(gettempdir())) as file:
        for game in read_games(file.lines(), given.name, null_moves=null_moves):
            check_time()
            moves += sum(1 for _ in steps_of(game.tree))
            if moves > STUDY_MOVES.most or len(games) == most:
                limit = STUDIES if len(games) == most else STUDY_MOVES
                report.add(
                    f"{given.name}, game {game.number} and all behind it: more than {limit.shown()}, the most"
                    f" for {limit.what}{limit.hint}"
                )
                break
            games.append(game)
            for reason in game.left_out:
                report.add(reason)
    if all(game.is_unreadable for game in games):
        raise ImportFileError("; ".join([f"{given.name} has no games", *report.problems[:1]]))
    return games


def import_studies(path: AnyPath, given: GivenFile, *, name: str = "") -> ImportedStudies:
    """Creates a study from each game of a PGN file, or none; as `read_file`.

    Without a name, the tags of each game name its study.
    """
    report = ImportedStudies()
    games = read_file(given, report, most=STUDIES.most, null_moves=True)
    with editing(path) as connection:
        for game in games:
            wanted = rows.free_name(connection, checked_name(name or _title(game, given.name)))
            report.studies.append(rows.add_study(connection, wanted, *_written(game.tree)))
    return report


def _title(game: StudyGame, source: str) -> str:
    """Returns the name of a study from the tags of its game, else from its file."""
    white, black, event = (game.tree.headers.get(tag, "").strip("? ") for tag in ("White", "Black", "Event"))
    players = f"{white or '?'} \N{EN DASH} {black or '?'}" if white or black else ""
    return ", ".join(filter(None, (players, event))) or Path(source).stem or "study"


def _written(game: chess.pgn.Game) -> tuple[str, list[str]]:
    """Returns the text of a study, and the keys of the positions after its moves, to the first null move."""
    text = text_of(game)
    if any(not step.move for step in steps_of(game)):
        game = next(read_games(StringIO(text), "the study")).tree
    return text, [step.key for step in steps_of(game)]


def checked_name(text: str) -> str:
    """Returns the name of a study in one line; raises InvalidParameterError if it is empty then."""
    found = "".join(c for c in " ".join(text.split()) if c.isprintable())[:LONGEST_NAME].strip()
    if not found:
        raise InvalidParameterError("a study needs a name")
    return found


# ------------------------------------------------------------------ changes
def create_study(path: AnyPath, name: str, game: chess.pgn.Game) -> Study:
    """Creates and returns a study of a game; raises InvalidParameterError if the name is not free."""
    with editing(path) as connection:
        return rows.add_study(connection, checked_name(name), *_written(game))


def change_study(
    path: AnyPath,
    known_by: int | str,
    *,
    game: chess.pgn.Game | None = None,
    name: str | None = None,
    revision: int | None = None,
) -> Study:
    """Replaces the game of a study, or its name, and returns it; `revision`: the expected one.

    Raises:
      ChangedMeanwhileError: if the study has another revision.
      InvalidParameterError: if the name is not free.
    """
    with editing(path) as connection:
        study = _at_revision(connection, known_by, revision, "it is shown as it is now")
        text, keys = (None, None) if game is None else _written(game)
        return rows.update_study(
            connection, study, name=study.name if name is None else checked_name(name), pgn=text, keys=keys
        )


def delete_study(path: AnyPath, known_by: int | str, revision: int | None = None) -> Study:
    """Deletes and returns a study; as `change_study`."""
    with editing(path) as connection:
        study = _at_revision(connection, known_by, revision, "look at it first")
        rows.delete_study(connection, study.id)
        return study


def _at_revision(
    connection: sqlite3.Connection, known_by: int | str, revision: int | None, hint: str
) -> Study:
    study = _wanted(connection, known_by)
    if revision not in (None, study.revision):
        raise ChangedMeanwhileError(f"study {study.name!r} was changed elsewhere at {study.changed}; {hint}")
    return study


def turn_edit(path: AnyPath, act: Literal["undo", "redo"]) -> TurnedEdit | None:
    """Undoes the last edit of studies, notes and repertoires, or redoes the one undone last, if there is one.

    Raises:
      ChangedMeanwhileError: if another program has changed the same rows without logging it.
    """
    with changing(path) as connection:
        turned = rows.turn(connection, back=act == "undo")
        for number in turned.studies if turned else ():
            study = rows.find_study(connection, number)
            rows.write_keys(connection, number, _written(_game(connection, study).tree)[1] if study else ())
        return turned


# ------------------------------------------------------------------ notes
@dataclass(frozen=True, slots=True)
class PositionNote:
    """The note on a position, or None, and (number, name, move) of each study that reaches the position."""

    key: str
    position: str
    note: Note | None
    studies: tuple[tuple[int, str, int], ...]

    def as_dict(self) -> dict[str, object]:
        """Returns the JSON object of `graphsearch note POSITION`."""
        names = ("id", "name", "move")
        return {
            "key": self.key,
            "position": self.position,
            "text": self.note.text if self.note else "",
            "revision": self.note.revision if self.note else 0,
            "changed": self.note.changed if self.note else None,
            "studies": [dict(zip(names, one, strict=True)) for one in self.studies],
        }


def list_notes(path: AnyPath) -> list[Note]:
    """Returns the notes of a file, the last changed first."""
    with opened_to_read(path) as connection:
        return rows.all_notes(connection)


def note_on(path: AnyPath, board: chess.Board) -> PositionNote:
    """Returns the note on a legal position, and the studies that reach it."""
    with opened_to_read(path) as connection:
        return find_note(connection, board)


def find_note(connection: sqlite3.Connection, board: chess.Board) -> PositionNote:
    """Returns the same from an open file."""
    check(board)
    key = key_text(board)
    studies = tuple(rows.studies_through(connection, key))
    return PositionNote(key, fen_of(board), rows.find_note(connection, key), studies)


def write_note(path: AnyPath, board: chess.Board, text: str, revision: int | None = None) -> Note | None:
    """Writes and returns the note on a legal position; an empty text deletes it and returns None.

    Raises:
      ChangedMeanwhileError: if the note has another revision than the expected one (0: no note; None: any).
    """
    check(board)
    key, plain = key_text(board), text.replace("\0", "").replace("\r\n", "\n").strip()
    with editing(path) as connection:
        known = rows.find_note(connection, key)
        if revision is not None and revision != (known.revision if known else 0):
            raise ChangedMeanwhileError("the note was changed elsewhere; it is shown as it is now")
        if plain:
            return rows.put_note(connection, key, fen_of(board), plain)
        if known:
            rows.delete_note(connection, known)
        return None
