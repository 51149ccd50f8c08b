"""Converts PGN to studies and back; python-chess reads the same game before and after.

Reading never fails because of a game's content: it skips and lists, with its line, any part it cannot keep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import BytesIO

import chess
import chess.pgn

from ...base.errors import CorruptRecordError
from ...exchange.pgn_writing import header
from ...position.board import board_of, fen_of, key_text
from ...position.pgn import RESULTS, ROSTER, cut_games, own_moves, read_game, shown
from ...position.pgn import ReadGame as PgnGame
from ...store.tables.studies import Study, StudyMove
from .tree import START, Tree, clean

NO_RESULT = "*"


@dataclass(slots=True)
class ReadGame:
    """A game of a PGN text.

    Attributes:
      number: in the text, from 1. headers: including the seven standard tags.
      fen: None for the start position. moves: each after its parent. comment: before the first move.
      left_out: a message for each skipped part.
    """

    number: int
    headers: dict[str, str]
    fen: str | None = None
    moves: list[StudyMove] = field(default_factory=list)
    comment: str = ""
    left_out: list[str] = field(default_factory=list)

    @property
    def is_unreadable(self) -> bool:
        """Whether it has parts, but none that could be kept."""
        return bool(self.left_out) and not self.moves


def read_games(lines: Iterable[str], name: str) -> Iterator[ReadGame]:
    """Yields the games of a text.

    Args:
      lines: with line ends. name: of the text, for messages.
    """
    for number, text in enumerate(cut_games(lines), start=1):
        yield _read(number, read_game(text, variations=True), name)


def _read(number: int, game: PgnGame, name: str) -> ReadGame:
    headers = dict.fromkeys(ROSTER, "?") | {"Date": "????.??.??", "Result": NO_RESULT}
    headers |= {tag: value.replace("\0", "") for tag, value in game.headers.items()}
    found = ReadGame(number, headers)
    told = [*game.remarks, *game.cuts, *((line, f"passed over {shown(word)}") for line, word in game.strays)]
    if headers["Result"] not in RESULTS:
        told.append((game.text.line, f"{shown(headers['Result'])} is no result"))
    if headers["Result"] not in RESULTS or headers["Result"] == NO_RESULT:
        headers["Result"] = game.result or NO_RESULT
    if game.variant:
        told.append((game.text.line, f"no move is kept: it is {game.variant}, not chess"))
    elif game.start is None:
        told.append((game.error_line, f"no move is kept: {game.error}"))
    else:
        if game.error and not any(line == game.error_line for line, _ in game.cuts):
            told.append((game.error_line, game.error))
        found.fen = None if fen_of(game.start) == chess.STARTING_FEN else fen_of(game.start)
        found.comment = clean(game.tree.comment)
        found.moves = list(_moves(game.tree, game.start))
    found.left_out = [f"{name}, game {number}, line {line}: {text}" for line, text in sorted(told)]
    return found


def _moves(tree: chess.pgn.Game, start: chess.Board) -> Iterator[StudyMove]:
    """Yields the moves of a tree in the order of its text, each after its parent."""
    numbers = {id(node): number for number, node in enumerate(_in_order(tree), start=1)}
    found: dict[int, StudyMove] = {}
    board = start.copy()
    stack: list[chess.pgn.GameNode] = [tree]
    waiting = tree.variations[::-1]
    while waiting:
        node = waiting.pop()
        while stack[-1] is not node.parent:
            stack.pop()
            board.pop()
        number, parent = numbers[id(node)], numbers.get(id(node.parent), START)
        [move] = own_moves(board, [node.move])
        san = board.san(move)
        board.push(move)
        place = node.parent.variations.index(node)
        texts = clean(node.starting_comment), clean(node.comment), " ".join(map(str, sorted(node.nags)))
        found[number] = StudyMove(number, parent, place, key_text(board), move.uci(), san, *texts)
        stack.append(node)
        waiting += node.variations[::-1]
    yield from (found[number] for number in sorted(found))


def _in_order(tree: chess.pgn.Game) -> Iterator[chess.pgn.ChildNode]:
    """Yields the moves of a tree as its text has them: variations stand behind the move that they replace."""
    waiting: list[tuple[chess.pgn.GameNode, bool]] = [(tree, False)]
    while waiting:
        node, is_new = waiting.pop()
        if is_new and isinstance(node, chess.pgn.ChildNode):
            yield node
        if node.variations:
            first, *others = node.variations
            yield first
            waiting += [(first, False), *((other, True) for other in reversed(others))]


# ------------------------------------------------------------------ writing
def text_of(study: Study, tree: Tree) -> str:
    """Returns a study as PGN.

    Raises:
      CorruptRecordError: if one of its moves is illegal.
    """
    game = chess.pgn.Game()
    if study.fen:
        game.setup(board_of(study.fen))
    game.comment = study.comment
    nodes: dict[int, chess.pgn.GameNode] = {START: game}
    for number in tree.below(START):
        move = tree.moves[number]
        nodes[number] = nodes[move.parent].add_variation(
            chess.Move.from_uci(move.move),
            comment=move.comment,
            starting_comment=move.before,
            nags=map(int, move.nags.split()),
        )
    out = BytesIO()
    headers = _headers(study, game)
    for name, value in headers.items():
        out.write(header(name, value))
    game.headers["Result"] = headers["Result"]
    try:
        moves = game.accept(chess.pgn.StringExporter(headers=False))
    except (ValueError, AssertionError) as error:
        raise CorruptRecordError(f"the study {study.name!r} has an illegal move: {error}") from None
    return f"{out.getvalue().decode()}\n{moves}\n"


def _headers(study: Study, game: chess.pgn.Game) -> dict[str, str]:
    """Returns the tags of a study; without `SetUp`, `FEN` and `Variant`, adds those of its first position."""
    found = dict.fromkeys(ROSTER, "?") | {"Date": "????.??.??"} | study.headers
    found["Result"] = found["Result"] if found["Result"] in RESULTS else NO_RESULT
    board = {name: game.headers[name] for name in ("SetUp", "FEN", "Variant") if name in game.headers}
    return found | {name: value for name, value in board.items() if name not in found}
