"""UCI's `info` lines of a position, and lc0's statistics of every move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import chess

from ..evaluators.lc0.policy import output_indices
from ..evaluators.protocol import PositionBatch
from ..graph.view import MoveView, NodeView
from ..position.board import board_of
from ..position.values import WDL, cp_of, rounded_shares
from ..search import puct
from ..search.params import SearchParams
from .protocol import written_line

NO_WL, NO_D, NO_M, NO_V = "-.-----", "-.---", "-.-", "-.----"  # lc0's signs for unknown values
PER_MILLE = 1000


@dataclass(frozen=True, slots=True)
class Report:
    """The present view of a position, and the figures of its search.

    Attributes:
      node: the position; `MultiPV` of its moves have lines.
      depth, seldepth: mean and most plies of this search's visits; 0 before the first.
      seconds, speed: since the search began; visits per second.
      hashfull: memory in use, per mille. hits: hits in tablebases.
      visits, evaluations: made by this search.
    """

    node: NodeView
    depth: int = 0
    seldepth: int = 0
    seconds: float = 0.0
    speed: float = 0.0
    hashfull: int = 0
    hits: int = 0
    visits: int = 0
    evaluations: int = 0


def info_lines(
    report: Report,
    *,
    multipv: int = 1,
    wdl: bool = False,
    chess960: bool = False,
) -> list[str]:
    """Returns an `info` line for each of the best moves; moves without visits show the node's value."""
    node = report.node
    if not node.moves:
        return [f"info depth 0 {_score(None, node, wdl=wdl)}"]
    return [
        _line(report, k, move, _score(move, node, wdl=wdl), chess960=chess960)
        for k, move in enumerate(node.moves[:multipv], 1)
    ]


def totals_line(report: Report) -> str:
    """Returns a line with the search's visits, which include catch-ups, and its evaluations."""
    return f"info string {report.visits} new visits, {report.evaluations} evaluations"


def _line(report: Report, k: int, move: MoveView, score: str, *, chess960: bool) -> str:
    """Returns one `info` line; before any visit the depth is the length of the PV."""
    depth = report.depth or len(move.pv)
    pv = written_line(board_of(report.node.position), move.pv, chess960=chess960)
    return (
        f"info depth {depth} seldepth {max(depth, report.seldepth)} time {round(1000 * report.seconds)}"
        f" nodes {report.node.visits} {score} nps {round(report.speed)}"
        f" hashfull {report.hashfull} tbhits {report.hits} multipv {k}"
        f" pv {' '.join(pv)}"
    )


def _score(move: MoveView | None, node: NodeView, *, wdl: bool) -> str:
    """Returns the `score ...` of a move; the node's score if the move is None or has no visits."""
    q, shares = node.q, node.wdl
    if move is not None and move.q is not None and move.wdl is not None:
        q, shares = move.q, move.wdl
    if move is not None and move.mate is not None:
        text = f"score mate {move.mate}"
    elif move is None and node.q <= -1.0:
        text = "score mate 0"
    else:
        text = f"score cp {cp_of(q)}"
    return f"{text} wdl {_per_mille(shares)}" if wdl else text


def _per_mille(wdl: WDL) -> str:
    return " ".join(map(str, rounded_shares(wdl, PER_MILLE)))


# ---------------------------------------------------------------- VerboseMoveStats
def stats_lines(
    node: NodeView,
    params: SearchParams,
    values: Mapping[chess.Move, float] | None = None,
    *,
    chess960: bool = False,
) -> list[str]:
    """Returns lc0's VerboseMoveStats: a line for each move, least visited first, and one for the node.

    Args:
      values: V of the positions behind the moves that are in memory, and of the node itself under the null
        move; seen by the side to move at the node.
    """
    board = board_of(node.position)
    indices = _policy_indices(board)
    spent = node.visits - 1
    scale = puct.exploration_term(float(spent), params.cpuct, params.cpuct_base, params.cpuct_factor)
    scale *= puct.openness(node.q, puct.least_decided(params.decided_from))
    visited = sum(move.p for move in node.moves if move.n)
    fpu = puct.fpu(node.q, params.fpu_value, visited)
    rows = []
    for move in node.moves:
        u = puct.score(0.0, scale * move.p, 1.0 + move.n)
        q = fpu if move.q is None else move.q
        (name,) = written_line(board, [move.move], chess960=chess960)
        text = _move_line(name, move, indices[move.move], q, u, (values or {}).get(move.move))
        rows.append((move.n, q + u, text))
    rows.sort(key=lambda row: row[:2])
    return [line for _, _, line in rows] + [_node_line(node, visited, (values or {}).get(chess.Move.null()))]


def _policy_indices(board: chess.Board) -> dict[chess.Move, int]:
    """Returns the index of every legal move among the 1858 outputs of lc0's networks."""
    from ..position.board import legal_moves

    outputs = output_indices(PositionBatch.from_boards([board])).tolist()
    return dict(zip(legal_moves(board), outputs, strict=True))


def _head(label: str, index: int, n: int, p: float) -> str:
    digits = 1 if p >= 0.99995 else 2
    return f"info string {label:<5} ({index:<4}) N: {n:>7} (+ 0) (P: {100 * p:>5.{digits}f}%) "


def _move_line(name: str, move: MoveView, index: int, q: float, u: float, v: float | None) -> str:
    text = _head(name, index, move.n, move.p)
    if move.q is None or move.wdl is None:
        text += f"(WL: {NO_WL:>8}) (D: {NO_D:>5}) "
    else:
        text += f"(WL: {move.q:>8.5f}) (D: {move.wdl.draw:>5.3f}) "
    text += f"(M: {NO_M:>4}) (Q: {q:>8.5f}) (U: {u:>6.5f}) (S: {q + u:>8.5f}) "
    return text + _v(v) + ("(T) " if move.bounds[0] == move.bounds[1] else "")


def _node_line(node: NodeView, visited: float, v: float | None) -> str:
    return (
        f"{_head('node', len(node.moves), node.visits, visited)}(WL: {node.q:>8.5f})"
        f" (D: {node.wdl.draw:>5.3f}) (M: {NO_M:>4}) (Q: {node.q:>8.5f}) {_v(v)}"
    )


def _v(v: float | None) -> str:
    return f"(V: {NO_V:>7}) " if v is None else f"(V: {v:>7.4f}) "
