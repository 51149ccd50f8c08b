"""One node of a stored or live graph, with its moves and lines. No search, no Numba."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import chess
import chess.polyglot

from ..base.answer import Answer
from ..position.board import CLOCK_DRAW, KEY, check, fen_of, is_over_by_clock, key_text, legal_moves
from ..position.values import WDL, cp_of, wdl_from_q
from ..store.apart import ApartMoves
from ..store.ranking import best_move, edge_of, has_best_move, node_mean, proof_at, ranking, resets_of
from ..store.record import UNPROVEN as UNPROVEN_FLAGS
from ..store.record import Edge, NodeRecord
from ..store.record_kernel import UNPROVEN as UNPROVEN
from ..store.record_kernel import Bounds as Bounds
from ..store.record_kernel import Proof, code_of_proof, proof_of, share_of

if TYPE_CHECKING:
    from ..store.provenance import EvaluatorIdentity, RunInfo

Reader = Callable[[chess.Board], NodeRecord | None]
BatchReader = Callable[[Sequence[chess.Board]], Iterable[NodeRecord | None]]


class Readable(Protocol):
    """A source of records by position: a Graph or a Store."""

    def read(self, board: chess.Board) -> NodeRecord | None:
        """Returns the record of a position, or None."""


MAX_PV = 64
SHOWN_MOVES = 10  # of a node in a notebook


@dataclass(frozen=True, slots=True)
class MoveView(Answer):
    """One legal move of a node. Values are seen by the side to move at the node.

    Attributes:
      move, san: the move, also in standard algebraic notation.
      n: completed visits of the edge.
      p: prior, in [0, 1].
      q, wdl, cp: value of the edge (E), in [-1, 1], as win, draw and loss, in centipawns; None while n = 0.
      mate: moves to a proven mate, negative if the side to move is mated; None if unproven.
      bounds: proven lower and upper result, in -1, 0, 1.
      pv: the line that follows the most visits, this move first.
      apart: whether n and q are those of the position after the move, which was searched apart.
    """

    json_keys = "move san n p q wdl cp mate bounds pv apart"

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
    apart: bool = False


@dataclass(frozen=True, slots=True)
class NodeView(Answer):
    """A node as a person reads it.

    Attributes:
      position, key: FEN, and the graph's key of the position.
      visits: node N = 1 + sum of edge n.
      q, wdl: node Q, in [-1, 1], seen by the side to move; as win, draw and loss.
      terminal: `CHECKMATE`, `STALEMATE`, `DEAD` or `NOT_TERMINAL`.
      bounds: proven lower and upper result, in -1, 0, 1.
      mate: moves to a proven mate, negative if the side to move is mated; None if unproven.
      moves: every legal move, best first (`ranking`).
      evaluator: number in the file of the evaluator that V and P come from; 0: the rules.
      run: number in the file of the run that V and P come from; None if unknown, or without a file.
    """

    json_keys = "position key visits q wdl bounds moves"  # `Origin.as_dict` has evaluator and run

    position: str
    key: str
    visits: int
    q: float
    wdl: WDL
    terminal: int
    bounds: Bounds
    mate: int | None
    moves: tuple[MoveView, ...]
    evaluator: int
    run: int | None

    def __repr__(self) -> str:
        """Returns the position, its visits, its Q and its best move."""
        best = f", best move {self.moves[0].san}" if self.moves else ""
        return f"<NodeView {self.position}: {self.visits:,} visits, Q {self.q:+.3f}{best}>"

    def _repr_html_(self) -> str:
        """Returns the board and the best moves, for a notebook."""
        from ..position.picture import board_and_table

        rows = [
            {
                "Move": move.san,
                "N": f"{move.n:,}",
                "P": f"{move.p:.3f}",
                "Q": "" if move.q is None else f"{move.q:+.3f}",
                "Mate": "" if move.mate is None else f"{move.mate}",
            }
            for move in self.moves[:SHOWN_MOVES]
        ]
        return board_and_table(repr(self)[1:-1], self.position, rows)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where V and P of a node come from.

    Attributes:
      evaluator, identity: its number in the file, 0 for the rules; None for them and if it is not listed.
      run, search: number of the run in which it was asked, and that run; None if unknown or not listed.
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


def show(source: Readable | str | os.PathLike[str], board: chess.Board) -> NodeView | None:
    """Returns the view of a position in a graph, or None if it is not stored.

    Args:
      source: an open Graph, or the path of a graph file. A file is only read, also while a search writes it.
      board: the position. Its move stack does not matter.

    Raises:
      InvalidPositionError: if the position is not legal.
      StoreError: if the file cannot be read.
    """
    check(board)
    if isinstance(source, (str, os.PathLike)):
        from ..store.store import Store

        with Store.open(source, read_only=True) as store:
            return view(ApartMoves.of(store).read, board)
    return view(source.read, board)


def view(
    read: Reader,
    board: chess.Board,
    *,
    lines: int | None = None,
    first: Collection[chess.Move] = (),
    doubtful: Collection[chess.Move] | None = None,
    read_all: BatchReader | None = None,
) -> NodeView | None:
    """Returns the view of a position, or None if `read` does not know it.

    Args:
      read: returns the record of a position. read_all: those of several, where that is faster.
      lines: how many of the best moves get a PV beyond the move itself; None: all.
      first: moves that stand before all others.
      doubtful: moves whose proofs do not count (`search.repetition.doubtful_moves`); the position's own proof
        then counts only as far as the others confirm it. None: no doubt.
    """
    record = read(board)
    if record is None:
        return None
    board = board.copy(stack=False)  # makes moves; other threads may read the caller's
    moves = legal_moves(board) if record.codes else []
    if doubtful is not None:
        record = _doubted(record, [moves[index] in doubtful for index in record.order])
    order, priors = record.order, record.priors if record.codes else []
    views, clock = list[MoveView](), board.halfmove_clock
    ranked = ranking(record, clock, resets_of(record, board, moves))
    if first:
        ranked.sort(key=lambda k: moves[order[k]] not in first)
    followed = [moves[order[k]] for k in ranked[:lines] if edge_of(record, k).n]
    pvs = {line[0]: line for line in lines_of(read_all or partial(map, read), board, followed)}
    for k in ranked:
        reader = read if lines is None or len(views) < lines else None
        index = order[k]
        pv = pvs.get(moves[index], (moves[index],))
        shown = _move_view(reader, board, pv, edge_of(record, k), priors[index])
        if doubtful and moves[index] in doubtful:
            shown = replace(shown, mate=None, bounds=UNPROVEN)
        views.append(shown)
    q, d = node_mean(record)
    of_moves = UNPROVEN
    if views:
        of_moves = max(move.bounds[0] for move in views), max(move.bounds[1] for move in views)
    late = clock >= CLOCK_DRAW and not any(move.mate for move in views)  # a draw can be claimed
    node = NodeView(
        position=fen_of(board),
        key=key_text(board),
        visits=record.visits,
        q=q,
        wdl=wdl_from_q(q, d),
        terminal=record.terminal,
        bounds=_met(record.bounds_at(clock), of_moves) if not late else UNPROVEN,
        mate=_mate_of(record, clock, views) if not late else None,
        moves=tuple(views),
        evaluator=record.evaluator,
        run=record.run or None,
    )
    return _drawn(node) if is_over_by_clock(board) else node


def _drawn(node: NodeView) -> NodeView:
    """Returns the view of a position that the 75-move rule has drawn, and with it every move."""
    value: dict[str, Any] = {"q": 0.0, "wdl": wdl_from_q(0.0, 1.0)}
    result: dict[str, Any] = {"bounds": (0, 0), "mate": None}
    moves = (replace(move, **result, **(value | {"cp": 0} if move.n else {})) for move in node.moves)
    return replace(node, **value, **result, moves=tuple(moves))


def _doubted(record: NodeRecord, doubts: Sequence[bool]) -> NodeRecord:
    """Returns a record without the proofs of its doubtful edges, and without its own proof."""
    edges, known = (
        tuple(
            replace(edge, d=share_of(edge.q, edge.d)) if doubted else edge
            for edge, doubted in zip(some, doubts, strict=False)
        )
        for some in (record.edges, record.known)
    )
    flags = record.flags if record.terminal else UNPROVEN_FLAGS
    return replace(record, edges=edges, known=known, flags=flags, d=share_of(record.v, record.d))


def _mate_of(record: NodeRecord, clock: int, moves: Sequence[MoveView]) -> int | None:
    """Returns the moves to a position's proven mate, None if there is none."""
    mates = [move.mate for move in moves]
    wins = [mate for mate in mates if mate and mate > 0]
    if wins:
        return min(wins)
    losses = [mate for mate in mates if mate and mate < 0]
    proof = record.proof_at(clock)
    known = proof.moves if proof else None
    if losses and len(losses) == len(moves):
        return max(min(losses), known or min(losses))
    return known


def _move_view(
    read: Reader | None, board: chess.Board, pv: tuple[chess.Move, ...], edge: Edge, prior: float
) -> MoveView:
    move = pv[0]
    mate, bounds = _proof(read, board, move, edge)
    q = edge.value if edge.n else None
    return MoveView(
        move=move,
        san=board.san(move),
        n=edge.n,
        p=prior,
        q=q,
        wdl=None if q is None else wdl_from_q(q, edge.draws),
        cp=None if q is None else cp_of(q),
        mate=mate,
        bounds=bounds,
        pv=pv,
        apart=edge.apart,
    )


def _proof(
    read: Reader | None, board: chess.Board, move: chess.Move, edge: Edge
) -> tuple[int | None, Bounds]:
    """Returns (moves to mate, bounds) of a move, as proven by the rules, its edge and its child's record."""
    resets = board.is_zeroing(move)
    known = proof_at(edge, board.halfmove_clock, resets=resets)
    if known and known.mate and not read:
        return known.moves, (known.result, known.result)
    late = board.halfmove_clock >= CLOCK_DRAW
    board.push(move)
    try:
        if board.is_checkmate():
            return 1, (1, 1)
        if late:  # a draw can be claimed
            return None, UNPROVEN
        if board.is_insufficient_material() or not any(board.generate_legal_moves()):
            return None, (0, 0)
        record = read(board) if read else None
        below = record.proof_at(board.halfmove_clock) if record else None
        lower, upper = record.bounds_at(board.halfmove_clock) if record else UNPROVEN
    finally:
        board.pop()
    behind = proof_of(-float(below.result), code_of_proof(below, resets=resets)) if below else None
    bounds = _met((known.result, known.result) if known else _weak(edge), (-upper, -lower))
    return (behind if behind and behind.mate else known or behind or Proof(0, None, 0)).moves, bounds


def _weak(edge: Edge) -> Bounds:
    """Returns the bounds that an edge proves at every clock: at a late one, a win or loss may be a draw."""
    lower, upper = edge.bounds
    return (0, upper) if lower > 0 else (lower, 0) if upper < 0 else (lower, upper)


def _met(a: Bounds, b: Bounds) -> Bounds:
    """Returns the intersection of two bounds; `a` if it is empty."""
    lower, upper = max(a[0], b[0]), min(a[1], b[1])
    return (lower, upper) if lower <= upper else a


def lines_of(
    read_all: BatchReader, board: chess.Board, first: Iterable[chess.Move], *, plies: int = MAX_PV
) -> list[tuple[chess.Move, ...]]:
    """Returns the lines of at most `plies` from some moves along the most visits, until a position recurs."""
    lines = [[move] for move in first]
    start = chess.polyglot.zobrist_hash(board)
    walks = [(line, board.copy(stack=False), {start}) for line in lines]
    while walks and len(walks[0][0]) < plies:
        for line, walk, _ in walks:
            walk.push(line[-1])
        following = []
        for (line, walk, seen), record in zip(walks, read_all([walk for _, walk, _ in walks]), strict=True):
            if record is None or not has_best_move(record) or record.words[KEY] in seen:
                continue
            seen.add(record.words[KEY])
            if move := best_move(record, walk):
                line.append(move)
                following.append((line, walk, seen))
        walks = following
    return [tuple(line) for line in lines]
