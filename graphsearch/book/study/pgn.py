"""Games with variations: reads them from PGN, builds them from rows of moves, and writes them as PGN.

    PGN text -> read_games -> StudyGame -> rows_of -> rows of moves (the page, a repertoire)
    rows of moves -> game_of -> chess.pgn.Game -> text_of -> PGN text (a study, a file)

The tree of `chess.pgn` holds the moves everywhere. Reading never fails because of a game's content: it skips
and lists, with its line, any part it cannot keep.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import chess
import chess.pgn

from ...base.errors import InvalidParameterError
from ...base.limits import GAME_MOVES, STUDY_MOVES
from ...exchange.pgn_writing import header
from ...position.board import fen_of, key_text
from ...position.notation import read_legal_uci
from ...position.pgn import DEEPEST, RESULTS, cut_games, own_moves, read_game, shown
from ...position.pgn import ReadGame as PgnGame

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
      number: its number in this order, from 1. parent: that of the move before; `START`: the first position.
      node: of the tree. move: castling as in packed positions.
      board: the position before it, which the next step changes.
    """

    number: int
    parent: int
    node: chess.pgn.ChildNode
    move: chess.Move
    board: chess.Board

    @property
    def key(self) -> str:
        """The key of the position after it."""
        self.board.push(self.move)
        try:
            return key_text(self.board)
        finally:
            self.board.pop()


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
    """A move of a game as a row.

    Attributes:
      id, parent: numbers, as of a `Step`. move, san: UCI and SAN.
      before, comment: the comment before the move, at the beginning of a variation, and that after it.
      nags: numbers of its glyphs.
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
    """Returns the game of rows of moves.

    Args:
      start: the first position. rows: each after its parent, a line before its variations; SAN is not read.
      comment: before the first move. headers: its tags.

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
            message = f"move {row.id}: {row.move!r} is not a legal move there"
            raise InvalidParameterError(message) from None
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
    """A game of a PGN text.

    Attributes:
      number: in the text, from 1. tree: its moves, with its tags.
      left_out: a message for each skipped part.
    """

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
    """Yields the games of a text.

    Args:
      lines: with line ends. name: of the text, for messages.
      null_moves: whether variations may have null moves; if not, they end there.
    """
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
