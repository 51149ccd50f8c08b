"""UCI's `info` lines of a position, and lc0's statistics of every move."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import chess

from ..evaluators.lc0.policy import output_indices
from ..evaluators.protocol import PositionBatch
from ..graph.view import MoveView, NodeView
from ..position.board import board_of
from ..position.values import WDL, cp_of, rounded_shares, wdl_from_q
from ..search import puct
from ..search.params import SearchParams
from .protocol import written_line

if TYPE_CHECKING:
    from ..solvers.mate.search import MateProgress, MateResult

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
    listed: bool = False,
) -> list[str]:
    """Returns an `info` line for each of the best moves that has a value; if none has, one with the node's.

    Args:
      listed: whether the moves are those of `searchmoves`, for which the node's value says nothing.
    """
    node = report.node
    if not node.moves:
        return [f"info depth 0 {_score(_end_of(node), wdl=wdl)}"]
    worths = [(move, _worth(move)) for move in node.moves[:multipv]]
    first, best = worths[0]
    if not listed and not (best and best.mate) and _is_worth(first, node):
        worths[0] = first, _Worth(node.q, node.wdl)
    known = [(move, worth) for move, worth in worths if worth]
    if not known and not listed:
        known = [(first, _Worth(node.q, node.wdl))]
    return [
        _line(report, k, move, _score(worth, wdl=wdl), chess960=chess960)
        for k, (move, worth) in enumerate(known, 1)
    ]


@dataclass(frozen=True, slots=True)
class _Worth:
    """The value of a line: Q, its chances, and the moves to a proven mate."""

    q: float
    wdl: WDL
    mate: int | None = None


def _worth(move: MoveView) -> _Worth | None:
    """Returns the value of a move by its visits or its proof; None without either."""
    lower, upper = move.bounds
    if move.mate is not None:
        lower = upper = 1 if move.mate > 0 else -1
    if lower == upper:
        return _Worth(float(lower), wdl_from_q(lower, 1 - abs(lower)), move.mate)
    return None if move.q is None or move.wdl is None else _Worth(move.q, move.wdl)


def _is_worth(move: MoveView, node: NodeView) -> bool:
    """Returns whether the node's result is proven, for example by tables, and the move may lead to it."""
    lower, upper = node.bounds
    return lower == upper and move.bounds[0] <= lower <= move.bounds[1]


def _end_of(node: NodeView) -> _Worth:
    """Returns the value of a finished game."""
    return _Worth(node.q, node.wdl, 0 if node.q <= -1.0 else None)


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


def _score(worth: _Worth, *, wdl: bool) -> str:
    """Returns the `score ...` of a value."""
    text = f"score cp {cp_of(worth.q)}" if worth.mate is None else f"score mate {worth.mate}"
    return f"{text} wdl {' '.join(map(str, rounded_shares(worth.wdl, PER_MILLE)))}" if wdl else text


# ---------------------------------------------------------------- the prover
def mate_progress_line(progress: MateProgress) -> str:
    """Returns the prover's progress as an `info` line."""
    return f"info time {round(1000 * progress.seconds)} nodes {progress.visits} nps {_mate_speed(progress)}"


def mate_line(result: MateResult, began: float, pv: Sequence[str]) -> str:
    """Returns the `info` line of a proven mate; `pv`: its line in the GUI's notation."""
    plies = len(pv)
    return (
        f"info depth {plies} seldepth {plies} time {round(1000 * (time.monotonic() - began))}"
        f" nodes {result.visits} score mate {result.mate} nps {_mate_speed(result)} multipv 1"
        f" pv {' '.join(pv)}"
    )


def no_mate_line(result: MateResult) -> str:
    """Returns the message that the prover found no mate."""
    within = f" in up to {result.excluded}" if result.excluded else " is proven"
    return f"no mate{within}: the moves are searched as without `mate`"


def _mate_speed(found: MateProgress | MateResult) -> int:
    return round(found.visits / max(found.seconds, 1e-3))


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
