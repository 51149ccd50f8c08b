"""One `go`, from the command to its `bestmove`, which the first thread that can writes once and in time.

The worker searches, and answers when the search may stop. The clock's thread watches it: at the last moment
it answers from the worker's latest report; the worker completes the late wave for the next search.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import chess

from ..base.faults import error_line
from ..graph.view import MoveView, NodeView, Reader
from ..position.board import after, board_of, history_keys, legal_moves
from ..position.values import WDL, cp_of, rounded_shares, wdl_from_q
from ..search import puct
from ..search.job import SearchJob
from ..search.params import Limits, SearchParams
from ..search.repetition import Draws, Headway
from ..search.results import Progress
from ..store.ranking import known_edges, ranking, resets_of
from ..store.record import NodeRecord
from .clock import FALLBACK_SECONDS, Budget, Standing, clock_budget, may_stop, move_budget
from .options import Settings
from .protocol import Go, Writer, written_line

if TYPE_CHECKING:
    from ..solvers.mate.search import MateResult


NO_WL, NO_D, NO_M, NO_V = "-.-----", "-.---", "-.-", "-.----"  # lc0's signs for unknown values
PER_MILLE = 1000


@dataclass(frozen=True, slots=True)
class Report:
    """The present view of a position, `MultiPV` of whose moves have lines, and the figures of its search.

    Attributes:
      depth, seldepth: mean plies of this search's visits, the greatest so far and at least 1; most plies.
      seconds, speed: since the search began; visits per second.
      hashfull: memory in use, per mille. hits: hits in tablebases.
      visits, evaluations: made by this search.
    """

    node: NodeView
    depth: int = 1
    seldepth: int = 0
    seconds: float = 0.0
    speed: float = 0.0
    hashfull: int = 0
    hits: int = 0
    visits: int = 0
    evaluations: int = 0


def info_lines(
    report: Report, *, multipv: int = 1, wdl: bool = False, chess960: bool = False, listed: bool = False
) -> list[str]:
    """Returns an `info` line for each of the best moves that has a value; if none has, one with the node's.

    `listed`: whether the moves are those of `searchmoves`, for which the node's value says nothing.
    """
    node = report.node
    if not node.moves:
        end = _Worth(node.q, node.wdl, 0 if node.q <= -1.0 else None)
        return [f"info depth 0 {_score(end, wdl=wdl)}"]
    worths = [(move, _worth(move)) for move in node.moves[:multipv]]
    first, best = worths[0]
    lower, upper = node.bounds
    # proven, for example by tables, and the move may lead to it
    is_proven = lower == upper and first.bounds[0] <= lower <= first.bounds[1]
    if is_proven and not listed and not (best and best.mate):
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
        return _certain(lower, move.mate)
    return None if move.q is None or move.wdl is None else _Worth(move.q, move.wdl)


def _certain(result: float, mate: int | None) -> _Worth:
    return _Worth(float(result), wdl_from_q(result, 1 - abs(result)), mate)


def _line(report: Report, k: int, move: MoveView, score: str, *, chess960: bool) -> str:
    """Returns one `info` line."""
    seldepth = max(len(move.pv), report.seldepth)
    pv = written_line(board_of(report.node.position), move.pv, chess960=chess960)
    return (
        f"info depth {report.depth} seldepth {seldepth} time {round(1000 * report.seconds)}"
        f" nodes {report.node.visits} {score} nps {round(report.speed)}"
        f" hashfull {report.hashfull} tbhits {report.hits} multipv {k}"
        f" pv {' '.join(pv)}"
    )


def _score(worth: _Worth, *, wdl: bool) -> str:
    """Returns the `score ...` of a value."""
    text = f"score cp {cp_of(worth.q)}" if worth.mate is None else f"score mate {worth.mate}"
    return f"{text} wdl {' '.join(map(str, rounded_shares(worth.wdl, PER_MILLE)))}" if wdl else text


# ---------------------------------------------------------------- VerboseMoveStats
def stats_lines(node: NodeView, params: SearchParams, *, chess960: bool = False) -> list[str]:
    """Returns lc0's VerboseMoveStats: a line for each move, least visited first, and one for the node."""
    board = board_of(node.position)
    spent = node.visits - 1
    scale = puct.exploration_term(float(spent), params.cpuct, params.cpuct_base, params.cpuct_factor)
    scale *= puct.openness(node.q, puct.least_decided(params.decided_from))
    visited = sum(move.p for move in node.moves if move.n)
    fpu = puct.fpu(node.q, params.fpu_value, visited)
    rows = []
    for k, move in enumerate(node.moves):
        u = puct.score(0.0, scale * move.p, 1.0 + move.n)
        q = fpu if move.q is None else move.q
        (name,) = written_line(board, [move.move], chess960=chess960)
        rows.append((move.n, q + u, _move_line(name, move, k, q, u)))
    rows.sort(key=lambda row: row[:2])
    whole = (
        f"{_head('node', len(node.moves), node.visits, visited)}(WL: {node.q:>8.5f})"
        f" (D: {node.wdl.draw:>5.3f}) (M: {NO_M:>4}) (Q: {node.q:>8.5f}) (V: {NO_V:>7}) "
    )
    return [*(line for _, _, line in rows), whole]


def _head(label: str, index: int, n: int, p: float) -> str:
    digits = 1 if p >= 0.99995 else 2
    return f"info string {label:<5} ({index:<4}) N: {n:>7} (+ 0) (P: {100 * p:>5.{digits}f}%) "


def _move_line(name: str, move: MoveView, index: int, q: float, u: float) -> str:
    text = _head(name, index, move.n, move.p)
    if move.q is None or move.wdl is None:
        text += f"(WL: {NO_WL:>8}) (D: {NO_D:>5}) "
    else:
        text += f"(WL: {move.q:>8.5f}) (D: {move.wdl.draw:>5.3f}) "
    text += f"(M: {NO_M:>4}) (Q: {q:>8.5f}) (U: {u:>6.5f}) (S: {q + u:>8.5f}) "
    return text + f"(V: {NO_V:>7}) " + ("(T) " if move.bounds[0] == move.bounds[1] else "")


INFO_SECONDS = 1.0  # between two reports of the same best move
NEWS_SECONDS = 0.1  # between two reports, of which those of a new best move are shown
IDLE_VISITS = 50_000  # `go depth` ends after so many visits, and these times those before,
IDLE_TIMES = 10  # without a greater depth
STOP_SECONDS = 0.15  # for the final report of a stopped search


class GoAnswer:
    """One `go` and its answer. Each method names its thread."""

    def __init__(
        self,
        go: Go,
        board: chess.Board,
        listed: Sequence[chess.Move],
        settings: Settings,
        writer: Writer,
        began: float,
        problem: str = "",
        expected: tuple[chess.Move, ...] = (),
    ) -> None:
        """Makes the answer of a command that arrived at `began` (`time.monotonic`).

        Args:
          settings: of the time of the command.
          problem: why the GUI's position could not be read; the answer is then no move.
          expected: the line that the previous answer expected from here.
        """
        self.go = go
        self._problem = problem
        self._board = board.copy()
        self.past = history_keys(board)  # with any, no proof ends a search
        self.draws = Draws.of(board)
        self._headway = Headway.of(board)
        self._moves = tuple(legal_moves(self._board))
        self.listed = self._asked = frozenset(listed)
        self.settings = settings
        self.writer = writer
        self.began = began
        self.stop = threading.Event()
        self.done = threading.Event()
        self.is_held = go.infinite or go.ponder or not go.is_limited
        self._expected = expected
        self._budget = self._planned()
        self._deadline = None if self.is_held or self._budget is None else began + self._budget.most
        self._changed = threading.Event()
        self._lock = threading.Lock()
        self._ended = False
        self._report: Report | None = None
        self._kept_at = self._shown_at = 0.0
        self._record: NodeRecord | None = None
        self._result: int | None = None  # by the tables
        self._best: chess.Move | None = None
        self._best_since = began
        # the greatest depth so far: En Croissant hides the lines of a lesser one after it
        self.depth, self._deepened_at = 1, 0
        self._proof: tuple[tuple[chess.Move, ...], str] | None = None  # a mate's line, and its `info`

    @property
    def board(self) -> chess.Board:
        """Returns a copy of the position with its game; several threads read it and push moves."""
        return self._board.copy()

    def _planned(self) -> Budget | None:
        """Returns the time budget of this move, None if time does not limit it."""
        go, overhead = self.go, self.settings.number("Move Overhead")
        if go.movetime is not None:
            return move_budget(go.movetime, overhead_ms=overhead)
        clocks = [(go.wtime, go.winc), (go.btime, go.binc)]
        own, other = clocks if self._board.turn == chess.WHITE else clocks[::-1]
        left, more = other if own[0] is None else own
        if left is None:
            return None
        return clock_budget(left, more or 0, go.movestogo, overhead_ms=overhead)

    @property
    def seconds(self) -> float | None:
        """Seconds that the search may take, None for no limit."""
        return self._budget.most if self._budget and not self.is_held else None

    @property
    def is_timed(self) -> bool:
        """Whether a clock runs, or will after `ponderhit`: batches then adapt to the evaluator's speed."""
        return self._budget is not None

    def limits(self, known: int) -> Limits | None:
        """Returns the limits of the search; None if the known visits are enough."""
        if self.go.nodes is None or self.go.infinite:
            alone = self.go.mate is not None and self.go.depth is None and self._budget is None
            return Limits(seconds=FALLBACK_SECONDS) if alone and not self.is_held else Limits()
        left = self.go.nodes - known
        return Limits(visits=left) if left > 0 else None

    # ---------------------------------------------------------- the protocol's thread
    def hurry(self) -> None:
        """Answers now if it has not yet: the next `go` has arrived."""
        if not self.done.is_set():
            self.is_held = False
            self.give()

    def end_soon(self) -> None:
        """Ends the search at `stop`: it may answer now, and must do so within a moment."""
        self._release(time.monotonic() + STOP_SECONDS)
        self.stop.set()

    def ponderhit(self) -> None:
        """Starts the clock of a `go ponder`: the expected move was played."""
        if self.go.ponder and self.is_held and not self.go.infinite:
            self.began = time.monotonic()
            budget = self._budget
            self._release(None if budget is None else self.began + budget.most)

    def _release(self, deadline: float | None) -> None:
        self.is_held = False
        if deadline is not None:
            self._deadline = min(deadline, self._deadline or deadline)
        self._changed.set()
        if self._ended:
            self.give()

    # ---------------------------------------------------------- the clock's thread
    def watch(self) -> None:
        """Answers when the time is up, even while the search is busy. Returns after the answer."""
        while not self.done.is_set():
            left = None if self._deadline is None else self._deadline - time.monotonic()
            if left is not None and left <= 0:
                self.give()
                return
            self._changed.wait(None if left is None else min(left, threading.TIMEOUT_MAX))
            self._changed.clear()

    # ---------------------------------------------------------- the worker
    def note(self, record: NodeRecord | None) -> None:
        """Stores the record known before the search begins, for an immediate answer."""
        self._record = record

    def prefer(self, moves: Iterable[chess.Move], *, wins: bool) -> None:
        """Restricts the answer to moves that win or not, without draws of this game; none: no change."""
        drawn = self.draws.at_once | (self.draws.offered if wins else frozenset())
        self.listed = (frozenset(moves) - drawn) or self.listed

    def settle(self, result: int | None) -> None:
        """Gives the position and its preferred moves the tables' result, if that counts in this game."""
        self._result = None if len(self.past) else result

    def searched(self, known: NodeView | None) -> frozenset[chess.Move]:
        """Returns the moves to search, none for all; `known`: the position before the search."""
        others = self.draws.others(known, [move for move in self._moves if self._may_play(move)])
        others = self._headway.others(known, others)
        return frozenset(others) if len(others) < len(self._moves) else self.listed

    def job(self, limits: Limits, known: NodeView | None) -> SearchJob:
        """Returns the search for this answer; `known`: the position before it."""
        from ..solvers.mate.beside import MateFinder

        planned = self._budget.planned if self._budget and not self.is_held else None
        return SearchJob(
            board=self.board,
            limits=limits,
            params=self.settings.params(),
            searchmoves=tuple(self.searched(known)),
            hurry=True,
            lines=self.settings.number("MultiPV"),
            mates=partial(MateFinder, seconds=planned),
        )

    def begin(self, report: Report) -> None:
        """Reports the facts known before the search begins; they may contain the requested mate."""
        self._keep(report)
        self._show()
        if not self.is_held and self._mates():
            self.give()

    def prove(self, result: MateResult) -> None:
        """Uses a proven mate as the answer."""
        plies, speed = len(result.pv), round(result.visits / max(result.seconds, 1e-3))
        score = _score(_certain(1 if plies % 2 else -1, result.mate), wdl=self.settings.is_on("UCI_ShowWDL"))
        info = (
            f"info depth {plies} seldepth {plies} time {round(1000 * (time.monotonic() - self.began))}"
            f" nodes {result.visits} {score} nps {speed} multipv 1"
            f" pv {' '.join(self._written(result.pv))}"
        )
        with self._lock:
            self._proof = (result.pv, info)
            if self.is_held and not self.done.is_set():
                self.writer.line(info)
        self.stop.set()
        if not self.is_held:
            self.give()

    def update(self, progress: Progress, read: Reader, report: Callable[[Progress], Report]) -> None:
        """Stores the search's progress; answers if the search may stop, and reports at intervals."""
        record = read(self._board.copy(stack=False))
        if record is None or self.done.is_set():
            return
        if progress.depth > self.depth:
            self.depth, self._deepened_at = progress.depth, progress.new_visits
        is_held, now = self.is_held, time.monotonic()  # a `ponderhit` from here on counts at the next update
        elapsed = now - self.began
        ranked = self._ranked(record)
        best = ranked[0][0] if ranked else None
        if best != self._best:
            self._best, self._best_since = best, now
        due = now - self._shown_at >= (NEWS_SECONDS if self._best_since > self._shown_at else INFO_SECONDS)
        is_kept = due or self._best_since > self._kept_at or now - self._kept_at >= NEWS_SECONDS
        if is_kept:  # before the record: the clock may answer at any time
            self._keep(report(progress))
        self._record = record
        if not is_held and (self.stop.is_set() or self._is_enough(progress, ranked, elapsed)):
            if not is_kept:
                self._keep(report(progress))
            self.give()
            return
        if due:
            self._show()
        if not self.is_held and self._mates():
            self.give()

    def end(self, report: Report | None) -> None:
        """Ends the search; answers unless it must wait for `stop`."""
        if report is not None:
            self._keep(report)
        with self._lock:
            self._ended = True
        if not self.is_held:
            self.give()
        elif report is not None:
            self._show()

    def _ranked(self, record: NodeRecord) -> list[tuple[chess.Move, int, float]]:
        """Returns (move, visits, value) of the allowed moves, best first."""
        board, moves, order = self._board, self._moves, record.order
        edges, resets = known_edges(record), resets_of(record, board, moves)
        rows = [
            (moves[order[k]], edges[k].n, edges[k].value) if k < len(edges) else (moves[order[k]], 0, -2.0)
            for k in ranking(record, board.halfmove_clock, resets)
        ]
        return self._headway.ranked(self.draws.ranked([row for row in rows if self._may_play(row[0])]))

    def shown(self, node: NodeView) -> NodeView:
        """Returns the view of the position in this game: the move to play, the others allowed, the rest."""
        allowed = tuple(move for move in node.moves if self._may_play(move.move))
        found = self._headway.shown(self.draws.shown(replace(node, moves=allowed)))
        return replace(found, moves=found.moves + tuple(move for move in node.moves if move not in allowed))

    def _may_play(self, move: chess.Move) -> bool:
        """Returns whether a move is listed; so is a draw by repetition, unless the GUI lists others."""
        return not self.listed or move in self.listed or (not self._asked and move in self.draws.at_once)

    def _is_enough(
        self, progress: Progress, ranked: list[tuple[chess.Move, int, float]], elapsed: float
    ) -> bool:
        go = self.go
        if go.depth is not None and self._is_deep(progress, ranked, go.depth):
            return True
        if self._budget is None:
            return False
        if go.movetime is not None:
            return elapsed >= self._budget.planned
        visited = [row for row in ranked if row[1]]
        if visited and visited[0][2] == 1.0 and not self._ends_by_proof:  # a certain win
            return True
        best_n, second_n = ([row[1] for row in visited] + [0, 0])[:2]
        most = max((row[1] for row in visited), default=0)
        highest = max((row[2] for row in visited), default=0.0)
        speed = progress.visits_per_s
        at = Standing(
            elapsed=elapsed,
            speed=speed,
            best_n=best_n,
            second_n=second_n,
            best_since=self._best_since - self.began,  # below 0: since the pondering
            agrees=not visited or visited[0][1:] == (most, highest),
            choices=len(ranked),
        )
        return may_stop(self._budget, at)

    def _is_deep(self, progress: Progress, ranked: list[tuple[chess.Move, int, float]], depth: int) -> bool:
        """Returns whether the search has reached `depth`, or can hardly become deeper."""
        if not progress.new_visits:
            return False
        won = bool(ranked) and ranked[0][1] > 0 and ranked[0][2] == 1.0
        certain = won and not self._ends_by_proof
        idle = progress.new_visits > IDLE_VISITS + IDLE_TIMES * self._deepened_at
        return progress.depth >= depth or certain or len(ranked) == 1 or idle

    @property
    def _ends_by_proof(self) -> bool:
        """Whether a proof will end the search by itself, with the shortest mate available."""
        is_proven = self._record is not None and self._record.proof is not None
        return is_proven and not self.listed and not len(self.past)

    def _mates(self) -> bool:
        """Returns whether the report has a mate in at most N moves, for `go mate N`."""
        if self.go.mate is None or self._report is None:
            return False
        mates = [move.mate for move in self._report.node.moves if move.mate is not None]
        return any(0 < mate <= self.go.mate for mate in mates)

    def _keep(self, report: Report) -> None:
        with self._lock:
            self._report = report
            self._kept_at = time.monotonic()

    def _show(self) -> None:
        """Writes the report that is kept, unless the answer was sent."""
        assert self._report is not None, "a report is kept first"
        lines = self._lines(self._report, stats=self.settings.is_on("LogLiveStats"))
        with self._lock:
            self._shown_at = time.monotonic()
            if not self.done.is_set():
                self.writer.line(*lines)

    def _lines(self, report: Report, *, stats: bool) -> list[str]:
        settings, node = self.settings, report.node
        shown = settings.number("MultiPV")
        chess960 = settings.is_on("UCI_Chess960")
        if self._result is not None:
            report = replace(report, node=_settled(node, self.listed, self._result))
        lines = info_lines(
            report,
            multipv=min(shown, len(self.listed) or shown),
            wdl=settings.is_on("UCI_ShowWDL"),
            chess960=chess960,
            listed=bool(self._asked),
        )
        if stats and node.moves:
            lines += stats_lines(node, settings.params(), chess960=chess960)
        return lines

    # ---------------------------------------------------------- any thread
    def give(self) -> None:
        """Writes the last report and the best move, once."""
        with self._lock:
            if self.done.is_set():
                return
            self.done.set()
            try:
                lines = self._last_lines()
            except Exception as error:  # a defect must not leave a game without a move
                best = quick_move(self.board, self.listed, self.draws.at_once)
                lines = [f"info string ERROR: {error_line(error, self.board.fen())}"]
                lines += [f"bestmove {' '.join(self._written([best])) if best else '0000'}"]
            self.writer.line(*lines)
        self.stop.set()
        self._changed.set()

    def _last_lines(self) -> list[str]:
        if self._problem:
            return [f"info string ERROR: no move: {self._problem}", "bestmove 0000"]
        report = self._report
        line = self.best_line()
        lines: list[str] = []
        if self._proof is not None:
            lines = [self._proof[1]]
        elif report is not None:
            spent = f"info string {report.visits} new visits, {report.evaluations} evaluations"
            lines = [spent] if report.visits else []
            wanted = self.settings.is_on("VerboseMoveStats") or self.settings.is_on("LogLiveStats")
            # the record may be newer than the report, and have another best move
            moves = tuple(sorted(report.node.moves, key=lambda move: move.move not in line[:1]))
            lines += self._lines(replace(report, node=replace(report.node, moves=moves)), stats=wanted)
        elif not self._moves:
            end = _certain(-1, 0) if self._board.is_check() else _certain(0, None)
            lines = [f"info depth 0 {_score(end, wdl=self.settings.is_on('UCI_ShowWDL'))}"]
        if not line:
            return [*lines, "bestmove 0000"]
        best, *after = self._written(line[:2])
        return [*lines, " ponder ".join([f"bestmove {best}", *after])]

    def _written(self, line: Sequence[chess.Move]) -> list[str]:
        return written_line(self._board, line, chess960=self.settings.is_on("UCI_Chess960"))

    def best_line(self) -> tuple[chess.Move, ...]:
        """Returns the move to play and the line expected after it; empty if the game is over."""
        if self._proof is not None:
            return self._proof[0]
        moves = self._report.node.moves if self._report else ()
        allowed = [move.move for move in moves if self._may_play(move.move)]
        ranked = [] if self._record is None else self._ranked(self._record)
        best = ranked[0][0] if ranked else allowed[0] if allowed else None
        if best is None and self._expected and self._may_play(self._expected[0]):
            return self._expected
        if best is None:
            best = quick_move(self.board, self.listed, self.draws.at_once)
        known = next((move.pv for move in moves if move.move == best), None)
        return known or ((best,) if best else ())


def _settled(node: NodeView, best: Collection[chess.Move], result: int) -> NodeView:
    """Returns the view of a position with its proven result, and the best moves with the same."""
    bounds, wdl = (result, result), wdl_from_q(result, 1 - abs(result))
    moves = (replace(move, bounds=bounds) if move.move in best else move for move in node.moves)
    return replace(node, q=float(result), wdl=wdl, bounds=bounds, moves=tuple(moves))


# ---------------------------------------------------------- without a search
WORTH = {chess.PAWN: 1, chess.KNIGHT: 3, chess.BISHOP: 3, chess.ROOK: 5, chess.QUEEN: 9, chess.KING: 0}
MATE, DRAW = 1000.0, 500.0  # pawns


def quick_move(
    board: chess.Board, listed: Collection[chess.Move] = (), drawing: Set[chess.Move] = frozenset()
) -> chess.Move | None:
    """Returns a legal move, None if there is none: a mate, else the move with the largest gain of material.

    Args:
      listed: the moves to choose from; none: all.
      drawing: moves that draw the game; only the side with less material prefers them.

    >>> quick_move(chess.Board("6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"))
    Move.from_uci('d1d8')
    """
    moves = [move for move in board.legal_moves if not listed or move in listed]
    own, other = (
        sum(worth * len(board.pieces(kind, side)) for kind, worth in WORTH.items())
        for side in (board.turn, not board.turn)
    )
    draw = DRAW if own < other else -DRAW
    return max(moves, key=lambda move: _gain(board, move) + draw * (move in drawing), default=None)


def _gain(board: chess.Board, move: chess.Move) -> float:
    """Returns the gain of a move in pawns, at most one capture deep; of equals, one towards the centre."""
    taken = None if board.is_castling(move) else board.piece_type_at(move.to_square)
    mover = move.promotion or board.piece_type_at(move.from_square) or chess.PAWN
    gain: float = (WORTH[taken] if taken else 0) + (WORTH[move.promotion] - 1 if move.promotion else 0)
    if board.is_attacked_by(not board.turn, move.to_square):
        gain -= WORTH[mover]
    gain -= chess.square_distance(move.to_square, chess.E4) / 100
    return MATE if after(board, move).is_checkmate() else gain
