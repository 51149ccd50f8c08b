"""The well-visited part of the graph below a position, as a tree, and as a graph to be drawn. Reads only."""

from __future__ import annotations

import heapq
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

import chess
import numpy as np

from ..base.answer import Answer
from ..base.errors import check_least
from ..position.board import decode_move, fen_of, fens, key_text, key_texts, pack, unpack
from ..store.ranking import known_edges, node_mean, ranking
from ..store.record import Edge
from .source import Records, Step, Valued, mate_of, records_of, ways_of
from .steps import Words, legal_codes, names_of, positions_after

DEPTH = 3  # default
SHARE = 50  # a move is followed if it has the position's N divided by this; default


@dataclass(slots=True, kw_only=True)
class Branch(Valued):
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
    words: Words = field(repr=False, compare=False)
    key: str
    line: tuple[str, ...] = ()


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
      depth: most plies. width: most moves to follow from a position; None: any number.
      min_visits: least edge N of a move to follow; None: the position's N divided by `share`.

    Raises:
      InvalidParameterError: if a number is below 1.
    """
    check_least(1, depth=depth, min_visits=min_visits, width=width)
    expanded, transpositions = dict[str, Branch](), 0  # by key
    with records_of(path) as source:
        record = source.wanted(board)
        least = max(1, record.visits // share) if min_visits is None else min_visits
        q, _ = node_mean(record)
        root = Branch(n=record.visits, q=q, position=fen_of(board), words=pack(board), key=key_text(board))
        root.mate, level = mate_of(record, board), [root]
        for ply in range(depth + 1):
            there = level if ply < depth else []
            boards = {one.key: unpack(one.words.tolist()) for one in there if one.key not in expanded}
            source.read_ahead(boards)
            expanding = []
            for branch in level:
                known = expanded.setdefault(branch.key, branch)
                if known is not branch:
                    branch.transposes_to = known.line
                    transpositions += 1
                elif branch.key in boards:
                    expanding.append((branch, boards[branch.key]))
            level = _grown(source, expanding, least, width, board.ply() + ply + 1)
    return Tree(depth, least, width, len(expanded), transpositions, root)


def _grown(
    source: Records, expanding: Sequence[tuple[Branch, chess.Board]], least: int, width: int | None, ply: int
) -> list[Branch]:
    """Adds to branches the moves to follow; returns the branches of the positions after them, at a ply."""
    moves, found = list[tuple[int, int, Edge, float]](), list[Branch]()
    for at, (branch, board) in enumerate(expanding):
        if record := source.read(board, branch.key):
            edges, order, priors = known_edges(record), record.order, record.priors
            visited = [k for k in ranking(record) if k < len(edges) and edges[k].n]
            followed = [k for k in visited if edges[k].n >= least][:width]
            branch.visits, branch.hidden = record.visits, len(visited) - len(followed)
            moves += [(at, order[k], edges[k], priors[order[k]]) for k in followed]
    if not moves:
        return found
    words, of = np.array([branch.words for branch, _ in expanding]), np.array([at for at, *_ in moves])
    legal = legal_codes(words)
    codes = legal[1][of, [index for _, index, *_ in moves]]
    children, sans = positions_after(words, of, codes)[0], names_of(words, of, codes, legal)[0].astype(str)
    names = (codes.tolist(), sans.tolist(), fens(children, [ply] * len(of)), key_texts(children))
    for (at, _, edge, p), child, code, san, fen, key in zip(moves, children, *names, strict=True):
        (branch, board), move = expanding[at], decode_move(code)
        grown = Branch(
            move=move.uci(),
            san=san,
            n=edge.n,
            p=p,
            q=edge.value,
            mate=Step(board, move, edge, p).mate if edge.proof else None,
            position=fen,
            apart=edge.apart,
            words=child,
            key=key,
            line=(*branch.line, san),
        )
        branch.branches.append(grown)
        found.append(grown)
    return found


# ------------------------------------------------------------------ a graph to be drawn
@dataclass(frozen=True, slots=True)
class DrawnNode(Valued):
    """A position of the picture, drawn once: key as `key_text` has it, FEN, node N and Q, proven mate."""

    json_keys = "key position n q cp mate"

    key: str
    position: str
    n: int
    q: float
    mate: int | None


@dataclass(frozen=True, slots=True)
class DrawnEdge(Answer):
    """A move between two positions of the picture, given by their indexes in `Neighbourhood.nodes`."""

    json_keys = "parent child move=step.move san=step.san n=step.edge.n"

    parent: int
    child: int
    step: Step


@dataclass(frozen=True, slots=True)
class Neighbourhood(Answer):
    """The answer of `neighbourhood`.

    Attributes:
      nodes: the first position, then the others. edges: all visited moves between them.
      hidden: visited moves that lead out of the picture, above the depth.
    """

    nodes: tuple[DrawnNode, ...]
    edges: tuple[DrawnEdge, ...]
    hidden: int


def neighbourhood(
    path: str | os.PathLike[str] | Records,
    board: chess.Board,
    *,
    depth: int = 4,
    min_visits: int = 1,
    most: int = 120,
) -> Neighbourhood:
    """Returns the positions on lines of many visits, each once with all edges into it.

    Of all positions within the depth it selects those with the best line, by the visits of the line's least
    visited move.

    Args:
      depth: plies. min_visits: least edge N of a move to follow. most: most positions.

    Raises:
      InvalidParameterError: if a number is out of range.
    """
    check_least(0, depth=depth, min_visits=min_visits)
    check_least(1, most=most)
    nodes, ways = dict[str, DrawnNode](), dict[str, list[tuple[Step, str]]]()
    levels = dict[str, int]()
    with records_of(path) as source:
        source.wanted(board)
        number = count(1)  # so that moves are never compared
        queue: list[tuple[int, int, int, str, Step | None]] = [(-(1 << 62), 0, 0, key_text(board), None)]
        while queue:
            width, level, _, key, came = heapq.heappop(queue)
            if levels.get(key, 1 << 30) <= level:
                continue
            if key not in nodes:
                if len(nodes) >= most:
                    break
                here = came.after() if came else board.copy(stack=False)
                record = source.read(here, key)
                if record is None:
                    continue
                nodes[key] = DrawnNode(
                    key, fen_of(here), record.visits, node_mean(record)[0], mate_of(record, here)
                )
                ways[key] = ways_of(record, here)
            levels[key] = level
            for step, child in ways[key] if level < depth else ():
                if step.edge.n >= min_visits:
                    rank = max(width, -step.edge.n), level + 1, next(number)
                    heapq.heappush(queue, (*rank, child, step))
    at = {key: k for k, key in enumerate(nodes)}
    hidden = sum(child not in at for key in at if levels[key] < depth for _, child in ways[key])
    edges = (
        DrawnEdge(at[key], at[child], step)
        for key in at
        for step, child in ways[key]
        if child in at and child != key
    )
    return Neighbourhood(tuple(nodes.values()), tuple(edges), hidden)
