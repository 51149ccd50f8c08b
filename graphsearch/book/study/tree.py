"""The moves of a study as a tree."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import chess

from ...base.errors import InvalidParameterError
from ...base.limits import STUDY_MOVES
from ...position.board import board_of, key_text
from ...position.notation import read_legal_uci
from ...store.tables.studies import Study, StudyMove

START = 0  # the parent of first moves
_NEXT_GAME = re.compile(r"\n[ \t\r\f\v]*(?:\n\s*)?(?=\[\s*Event\s)")


def clean(text: str) -> str:
    r"""Returns a comment in a form that PGN can hold.

    Replaces NUL and closing braces; joins a line that looks like the start of a game to the line before.

    >>> clean(" a }\r\n\n[Event x] "), clean("two\n\nparts")
    ('a ) [Event x]', 'two\n\nparts')
    """
    plain = text.replace("\0", "\N{REPLACEMENT CHARACTER}").replace("\r\n", "\n").replace("}", ")")
    return _NEXT_GAME.sub(" ", plain).strip()


class Tree:
    """The moves of a study by number, and the ordered children of each.

    Attributes:
      moves: by number. lost: numbers of moves not reachable from the start, such as after damage.
    """

    def __init__(self, moves: Iterable[StudyMove]) -> None:
        """`moves`: the children of each parent in order."""
        self.moves = {move.id: move for move in moves}
        self._children: dict[int, list[int]] = {}
        for move in self.moves.values():
            self._children.setdefault(move.parent, []).append(move.id)
        self.lost = self.moves.keys() - set(self.below(START))

    def children(self, number: int) -> list[int]:
        """Returns the children of a move."""
        return self._children.get(number, [])

    def below(self, number: int) -> Iterator[int]:
        """Yields all moves below a move: each after its parent, the main line before its variations."""
        waiting = self.children(number)[::-1]
        while waiting:
            found = waiting.pop()
            yield found
            waiting += self.children(found)[::-1]

    def add(self, move: StudyMove) -> None:
        """Adds a move as its parent's last child, or replaces the move with its number."""
        if move.id not in self.moves:
            self._children.setdefault(move.parent, []).append(move.id)
        self.moves[move.id] = move

    def board(self, fen: str | None, number: int) -> chess.Board:
        """Returns the position after a move, with the moves that lead there on its stack.

        Raises:
          ValueError: if one of them is illegal.
        """
        line = []
        while number != START:
            line.append(self.moves[number].move)
            number = self.moves[number].parent
        board = board_of(fen or chess.STARTING_FEN)
        for move in reversed(line):
            board.push_uci(move)
        return board


class Growth:
    """Adds moves to a study, and checks that each is legal."""

    def __init__(self, study: Study, tree: Tree) -> None:
        self._study, self._tree = study, tree
        self._at, self._board = START, board_of(study.fen or chess.STARTING_FEN)

    def grown(self, given: StudyMove) -> StudyMove:
        """Adds a new move to the tree, and returns it with its key and its SAN.

        Raises:
          InvalidParameterError: if its parent is missing, it is illegal, or the study is full.
        """
        if given.parent != START and given.parent not in self._tree.moves:
            raise InvalidParameterError(f"move {given.id} hangs on move {given.parent}, which is not there")
        if len(self._tree.moves) >= STUDY_MOVES.most:
            raise InvalidParameterError(f"a study has at most {STUDY_MOVES.most:,} moves{STUDY_MOVES.hint}")
        if self._at != given.parent:
            self._board = self._tree.board(self._study.fen, given.parent)
        try:
            move = read_legal_uci(self._board, given.move)
        except ValueError:
            message = f"move {given.id}: {given.move!r} is not a legal move there"
            raise InvalidParameterError(message) from None
        san = self._board.san(move)
        self._board.push(move)
        self._at = given.id
        found = made(given, key=key_text(self._board), move=move.uci(), san=san)
        self._tree.add(found)
        return found


def made(given: StudyMove, *, key: str, move: str, san: str) -> StudyMove:
    """Returns a move for writing: with clean texts, and the given key, move and SAN."""
    texts = clean(given.before), clean(given.comment), given.nags
    return StudyMove(given.id, given.parent, given.place, key, move, san, *texts)
