"""The well-visited part of the graph below a position, as a tree. Reads only."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import chess
import numpy as np

from ..base.answer import Answer
from ..base.errors import check_least
from ..position.board import encode_move, fen_of, fens, key_text, key_texts, pack, unpack
from ..position.values import cp_of
from ..store.ranking import node_mean
from ..store.record import NodeRecord
from .source import Records, Step, records_of, steps_of
from .steps import Words, names_of, positions_after

DEPTH = 3  # default
SHARE = 50  # a move is followed if it has the position's N divided by this; default


@dataclass(slots=True, kw_only=True)
class Branch(Answer):
    """A position in the tree, with the move that leads to it; the root has none.

    Attributes:
      n, p, q, cp, mate: of the edge, seen by the side that plays the move; node N and Q at the root.
      apart: whether they are those of the position, which was searched apart.
      visits: node N; None if the file does not hold the position, or it lies beyond the tree's depth.
      transposes_to: moves in SAN from the root to the branch that expands this position, if another one does.
      branches: the moves that are followed, most visits first. hidden: number of visited moves not followed.
      words, key: the position, packed, and its key. line: the moves from the root to it, in SAN.
    """

    json_keys = "move san n p q cp mate apart position visits transposes_to hidden branches"

    move: str | None = None
    san: str | None = None
    n: int
    p: float | None = None
    q: float
    mate: int | None = None
    position: str
    visits: int | None = None
    transposes_to: tuple[str, ...] | None = None
    branches: list[Branch] = field(default_factory=list)
    hidden: int = 0
    apart: bool = False
    words: Words = field(repr=False)
    key: str
    line: tuple[str, ...] = ()

    @property
    def cp(self) -> int:
        """`q` in centipawns."""
        return cp_of(self.q)


@dataclass(frozen=True, slots=True)
class Tree(Answer):
    """The answer of `tree`: the request, the tree, and the number of its positions."""

    json_keys = "position=root.position depth min_visits width positions transpositions tree=root"

    depth: int
    min_visits: int
    width: int | None
    positions: int
    transpositions: int
    root: Branch

    @property
    def moves(self) -> list[Branch]:
        """All moves that are followed, each before those after it."""
        found, stack = [], [*reversed(self.root.branches)]
        while stack:
            found.append(stack.pop())
            stack += reversed(found[-1].branches)
        return found

    def __repr__(self) -> str:
        """Returns the position, the depth and the number of positions."""
        return f"<Tree {self.root.position}: {self.positions:,} positions, depth {self.depth}>"

    def _repr_html_(self) -> str:
        """Returns the board and the moves, for a notebook."""
        from ..position.picture import board_and_table

        rows = [{"Move": f"{one.san}", "N": f"{one.n:,}", "Q": f"{one.q:+.3f}"} for one in self.moves]
        return board_and_table(repr(self)[1:-1], self.root.position, rows)


def tree(
    path: str | os.PathLike[str] | Records,
    board: chess.Board,
    *,
    depth: int = DEPTH,
    min_visits: int | None = None,
    share: int = SHARE,
    width: int | None = None,
) -> Tree:
    """Returns the well-visited moves below a position, every position expanded once.

    A position on several lines is expanded in the shortest of them, among equals in the most visited one.

    Args:
      path: the graph file, which is only read, or records in memory.
      depth: most plies. width: most moves to follow from a position; None: any number.
      min_visits: least edge N of a move to follow; None: the position's N divided by `share`.

    Raises:
      InvalidParameterError: if a number is below 1.
      InvalidPositionError: if the position is not legal.
      UnknownPositionError: if the file does not hold it.
      StoreError: if the file cannot be read.
    """
    check_least(1, depth=depth, min_visits=min_visits, width=width)
    with records_of(path) as source:
        record = source.wanted(board)
        least = max(1, record.visits // share) if min_visits is None else min_visits
        return _Growing(source, depth, least, width).tree(board, record)


class _Growing:
    """Builds one tree, level by level."""

    def __init__(self, source: Records, depth: int, min_visits: int, width: int | None) -> None:
        self._source, self._depth, self._least, self._width = source, depth, min_visits, width
        self._expanded: dict[str, Branch] = {}  # by key
        self._transpositions = 0

    def tree(self, board: chess.Board, record: NodeRecord) -> Tree:
        q, _ = node_mean(record)
        root = Branch(n=record.visits, q=q, position=fen_of(board), words=pack(board), key=key_text(board))
        level = [root]
        for depth in range(self._depth + 1):
            there = level if depth < self._depth else []
            boards = {one.key: unpack(one.words.tolist()) for one in there if one.key not in self._expanded}
            self._source.read_ahead(boards)
            followed = [(branch, self._expand(branch, boards.get(branch.key))) for branch in level]
            level = _grown([one for one in followed if one[1]], board.ply() + depth + 1)
        return Tree(
            depth=self._depth,
            min_visits=self._least,
            width=self._width,
            positions=len(self._expanded),
            transpositions=self._transpositions,
            root=root,
        )

    def _expand(self, branch: Branch, board: chess.Board | None) -> list[Step]:
        """Returns the moves to follow from a position; `board`: None at the tree's depth."""
        known = self._expanded.setdefault(branch.key, branch)
        if known is not branch:
            branch.transposes_to = known.line
            self._transpositions += 1
            return []
        record = self._source.read(board, branch.key) if board else None
        if board is None or record is None:
            return []
        branch.visits = record.visits
        steps = steps_of(record, board)
        followed = [step for step in steps if step.edge.n >= self._least][: self._width]
        branch.hidden = len(steps) - len(followed)
        return followed


def _grown(followed: Sequence[tuple[Branch, Sequence[Step]]], ply: int) -> list[Branch]:
    """Adds moves to branches; returns the branches of the positions after them, which are at a ply."""
    if not followed:
        return []
    words = np.array([branch.words for branch, _ in followed])
    moves = [(branch, step) for branch, steps in followed for step in steps]
    of = np.repeat(np.arange(len(followed)), [len(steps) for _, steps in followed])
    codes = np.array([encode_move(step.move) for _, step in moves], np.uint16)
    children, sans = positions_after(words, of, codes)[0], names_of(words, of, codes)[0].astype(str).tolist()
    found = []
    facts = zip(moves, sans, fens(children, [ply] * len(moves)), key_texts(children), children, strict=True)
    for (branch, step), san, fen, key, child in facts:
        grown = Branch(
            move=step.move.uci(),
            san=san,
            n=step.edge.n,
            p=step.p,
            q=step.edge.value,
            mate=step.mate,
            position=fen,
            apart=step.edge.apart,
            words=child,
            key=key,
            line=(*branch.line, san),
        )
        branch.branches.append(grown)
        found.append(grown)
    return found
