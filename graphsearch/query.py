"""Questions to a stored or live graph: one node with its moves and lines. No search, no Numba."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import chess

from .position import check, fen_of, key_of, legal_moves
from .record import Edge, NodeRecord, node_value
from .values import D_SCALE, WDL, cp_from_q, negate, wdl_from_q

if TYPE_CHECKING:
    from .graph import Graph
    from .provenance import EvaluatorIdentity, RunInfo

Reader = Callable[[chess.Board], NodeRecord | None]
Bounds = tuple[int, int]

UNPROVEN: Bounds = (-1, 1)
MAX_PV = 64


@dataclass(frozen=True, slots=True)
class MoveView:
    """One legal move of a node; values are seen by the side to move at the node.

    Attributes:
      n: completed visits of the edge. p: prior.
      q, wdl, cp: value of the edge (E); None while n = 0. cp by lc0's mapping.
      mate: moves to a proven mate, negative if the side to move is mated; None if unproven.
      bounds: proven lower and upper result, in -1, 0, 1.
      pv: the line that follows the most visits, this move first.
    """

    move: chess.Move
    san: str
    n: int
    p: float
    q: float | None
    wdl: WDL | None
    cp: int | None
    mate: int | None
    bounds: Bounds
    pv: tuple[chess.Move, ...]

    def as_dict(self) -> dict[str, Any]:
        """Returns the move as an object of the commands' `moves` list."""
        return {
            "move": self.move.uci(),
            "san": self.san,
            "n": self.n,
            "p": self.p,
            "q": self.q,
            "wdl": self.wdl.as_list() if self.wdl else None,
            "cp": self.cp,
            "mate": self.mate,
            "bounds": list(self.bounds),
            "pv": [move.uci() for move in self.pv],
        }


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node as a person reads it.

    Attributes:
      position: FEN. key: the graph's key of it. visits: node N = 1 + sum of edge n.
      q, wdl: node Q and its WDL, seen by the side to move.
      terminal: `position.CHECKMATE`, `STALEMATE`, `DEAD` or `NOT_TERMINAL`.
      bounds: proven lower and upper result, in -1, 0, 1.
      moves: every legal move, most visits first.
      evaluator: number, in the file, of the evaluator whose V and P these are; 0: the rules.
      run: number of the run of the file in which it was asked; None if that is unknown, or there is no file.
    """

    position: str
    key: int
    visits: int
    q: float
    wdl: WDL
    terminal: int
    bounds: Bounds
    moves: tuple[MoveView, ...]
    evaluator: int
    run: int | None

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch show`, but for `evaluator` and `run` (`Origin.as_dict`)."""
        return {
            "position": self.position,
            "key": f"{self.key:016x}",
            "visits": self.visits,
            "q": self.q,
            "wdl": self.wdl.as_list(),
            "bounds": list(self.bounds),
            "moves": [move.as_dict() for move in self.moves],
        }


@dataclass(frozen=True, slots=True)
class Origin:
    """Where V and P of a node come from.

    Attributes:
      evaluator: number of the evaluator in its file; 0: the rules.
      identity: of that evaluator; None for the rules, and for one that the file does not list.
      run: number of the run in which it was asked; None if unknown.
      search: that run; None if unknown, and for one that the file does not list.
    """

    evaluator: int
    identity: EvaluatorIdentity | None
    run: int | None
    search: RunInfo | None

    @property
    def description(self) -> str:
        """The evaluator as a person reads it."""
        if self.identity:
            return self.identity.describe()
        return f"evaluator {self.evaluator}, which the file does not list" if self.evaluator else "the rules"

    def as_dict(self) -> dict[str, Any]:
        """Returns `evaluator` and `run` of the JSON object of `graphsearch show`."""
        kind = self.identity.kind if self.identity else None if self.evaluator else "rules"
        evaluator = {"number": self.evaluator, "kind": kind, "description": self.description}
        if self.run is None:
            return {"evaluator": evaluator, "run": None}
        known = {name: getattr(self.search, name, None) for name in ("kind", "started", "position")}
        return {"evaluator": evaluator, "run": {"number": self.run, **known}}


def query(source: Graph | str | os.PathLike[str], board: chess.Board) -> NodeView | None:
    """Returns what a graph knows about a position, or None if it is not stored.

    Args:
      source: an open Graph, or the path of a graph file; a file is only read, also while a search writes it.
      board: the position; its game before it does not matter.

    Raises:
      InvalidPositionError: if the position is not legal.
      StoreError: if the file cannot be read.
    """
    check(board)
    if isinstance(source, (str, os.PathLike)):
        from .store import Store

        with Store.open(source, read_only=True) as store:
            return view(store.read, board)
    return view(source.read, board)


def origin(path: str | os.PathLike[str], node: NodeView) -> Origin:
    """Returns where V and P of a node that was read from a file come from.

    Raises:
      StoreError: if the file cannot be read.
    """
    from .store import Store

    with Store.open(path, read_only=True) as store:
        run = None if node.run is None else store.run(node.run)
        return Origin(node.evaluator, store.evaluators().get(node.evaluator), node.run, run)


def view(
    read: Reader, board: chess.Board, *, lines: int | None = None, first: Collection[chess.Move] = ()
) -> NodeView | None:
    """Returns the view of a position, or None if `read` does not know it.

    Args:
      read: returns the record of a position.
      lines: how many of the best moves get a PV beyond the move itself; None: all.
      first: moves that stand before all others, whatever their visits.
    """
    record = read(board)
    if record is None:
        return None
    moves = legal_moves(board) if record.codes else []
    order, priors = record.order, record.priors if record.codes else []
    views: list[MoveView] = []
    ranked = ranking(record)
    if first:
        ranked.sort(key=lambda k: moves[order[k]] not in first)
    for k in ranked:
        reader = read if lines is None or len(views) < lines else None
        index = order[k]
        views.append(_move_view(reader, board, moves[index], edge_of(record, k), priors[index]))
    q, d = node_mean(record)
    return NodeView(
        fen_of(board),
        key_of(board),
        record.visits,
        q,
        wdl_from_q(q, d),
        record.terminal,
        record.bounds_at(board.halfmove_clock),
        tuple(views),
        record.evaluator,
        record.run or None,
    )


def edge_of(record: NodeRecord, k: int) -> Edge:
    """Returns the edge that is k-th in descending P, without visits if it has none."""
    return record.edges[k] if k < len(record.edges) else Edge(0)


def ranking(record: NodeRecord) -> list[int]:
    """Returns the edges, by place in descending P, best first: a certain win, then visits, value and P."""

    def worth(k: int) -> tuple[bool, int, float, int]:
        edge = edge_of(record, k)
        wins = edge.n > 0 and edge.value == 1.0  # whatever the visits: large waves give a mate few of them
        return (not wins, -edge.n, negate(edge.value), k)

    return sorted(range(len(record.codes)), key=worth)


def node_mean(record: NodeRecord) -> tuple[float, float]:
    """Returns (Q, D) of a node; D is a probability."""
    q = node_value(record.v, record.edges, record.bounds)
    if record.bounds[0] == record.bounds[1]:
        return q, 1.0 - abs(q)
    draws = record.d + sum((e.n - e.r) * e.d + e.r * D_SCALE for e in record.edges)
    return q, draws / record.visits / D_SCALE


def best_move(record: NodeRecord, board: chess.Board) -> chess.Move | None:
    """Returns the move with the most visits, or None if there are no moves."""
    if not record.codes:
        return None
    return legal_moves(board)[record.order[ranking(record)[0]]]


def _move_view(
    read: Reader | None, board: chess.Board, move: chess.Move, edge: Edge, prior: float
) -> MoveView:
    mate, bounds = _proof(read, board, move)
    q = edge.value if edge.n else None
    draws = ((edge.n - edge.r) * edge.d + edge.r * D_SCALE) / edge.n / D_SCALE if edge.n else 0.0
    return MoveView(
        move,
        board.san(move),
        edge.n,
        prior,
        q,
        None if q is None else wdl_from_q(q, draws),
        None if q is None else cp_from_q(q),
        mate,
        bounds,
        _line(read, board, move) if read and edge.n else (move,),
    )


def _proof(read: Reader | None, board: chess.Board, move: chess.Move) -> tuple[int | None, Bounds]:
    """Returns (moves to mate, bounds) of what the rules, and the record behind it, prove about a move."""
    board.push(move)
    try:
        if board.is_insufficient_material():
            return None, (0, 0)
        if any(board.generate_legal_moves()):
            record = read(board) if read else None
            lower, upper = record.bounds_at(board.halfmove_clock) if record else UNPROVEN
            return None, (-upper, -lower)
        return (1, (1, 1)) if board.is_check() else (None, (0, 0))
    finally:
        board.pop()


def _line(read: Reader, board: chess.Board, first: chess.Move) -> tuple[chess.Move, ...]:
    """Returns the line from `first` along the most visits, until they end or a position returns."""
    walk = board.copy(stack=False)
    line = [first]
    walk.push(first)
    seen = {board.epd()}
    while len(line) < MAX_PV and walk.epd() not in seen:
        seen.add(walk.epd())
        record = read(walk)
        if record is None or record.visits == 1:
            break
        move = best_move(record, walk)
        if move is None:
            break
        line.append(move)
        walk.push(move)
    return tuple(line)
