"""Searches for an answer: known facts, tablebases, mates, then the graph; on the worker's thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import chess

from ..base.errors import GraphSearchError, UnsavedError
from ..base.faults import error_line
from ..evaluators.tablebase import TablebaseEvaluator
from ..graph.view import NodeView, Reader
from ..position.board import board_of, key_of
from ..position.values import negate
from ..search.params import Limits
from ..search.repetition import view_in_game
from ..search.results import Progress
from ..solvers.mate.search import MOST_MOVES, MateLimits
from .answer import GoAnswer
from .engine_graph import EngineGraph
from .info_lines import Report
from .options import Settings
from .protocol import written_line
from .writer import Writer

if TYPE_CHECKING:
    from ..graph.graph import Graph
    from ..solvers.mate.search import MateProgress, MateResult
    from ..store.transposition import EntryTable

MEMORY_FULL = "the search ended because its memory is full; a larger RAM or a GraphFile holds more"
UPDATE_SECONDS, LAZY_SECONDS = 0.01, 0.1  # between two checks of a search's progress: on a clock, or not


class Searcher:
    """Finds answers in the graph that the engine has in memory."""

    def __init__(self, opened: EngineGraph, settings: Settings, writer: Writer) -> None:
        self._opened = opened
        self._settings = settings
        self._writer = writer

    def search(self, answer: GoAnswer) -> None:
        """Searches for an answer; answers even if the search fails."""
        try:
            self._search_graph(answer)
        except UnsavedError as error:
            self._writer.info(f"ERROR: {error}; the results are in memory")
        except GraphSearchError as error:
            self._writer.info(f"ERROR: {error_line(error)}")
        except Exception as error:  # a defect must not end a game
            self._writer.info(f"ERROR: {error_line(error, answer.board.fen())}")
            answer.end(None)
            self._opened.close()  # saved, and reopened: visits may still be under way in it
        finally:
            answer.end(None)

    def _search_graph(self, answer: GoAnswer) -> None:
        """Searches the graph for an answer, if known facts are not enough.

        Opens the graph even if the clock has answered meanwhile, for the next search.
        """
        self._opened.prepare(self._settings)
        graph = self._opened.forget_if_full(answer.board, self._settings)
        if self._opened.is_substitute:
            self._writer.info(f"ERROR: {self._opened.trouble}")
        if graph is None or answer.done.is_set() or not any(answer.board.legal_moves):
            return
        worker = threading.current_thread()  # only this thread may read memory
        answer.note(
            graph.read(answer.board),
            lambda node: _values(graph.arena.read, node) if threading.current_thread() is worker else {},
        )
        listed = bool(answer.listed)
        if not answer.listed:
            self._ask_tables(graph, answer)
        wanted = answer.output.multipv
        known = view_in_game(graph.read, answer.board, answer.past, lines=wanted, first=answer.listed)
        is_valued = known is not None and (not listed or any(move.n for move in known.moves[:1]))
        limits = answer.limits(known.visits if known and is_valued else 0)
        if known is not None and is_valued:
            answer.begin(Report(answer.draws.shown(known), seconds=time.monotonic() - answer.began))
        if answer.go.mate is not None and not listed and not answer.done.is_set():
            self._prove_mate(graph, answer, answer.go.mate)
        if limits is not None and not answer.stop.is_set():
            self._analyze(graph, answer, limits, known)

    def _prove_mate(self, graph: Graph, answer: GoAnswer, moves: int) -> None:
        """Answers with a mate in at most `moves` moves, or reports that there is none."""
        result = search_mate(
            answer.board,
            moves,
            seconds=answer.seconds,
            entries=graph.use_entries(PROVER_BYTES) if graph.store else None,
            stop=answer.stop,
            tell=answer.writer.line,
        )
        if result.mate:
            line = written_line(answer.board, result.pv, chess960=answer.output.chess960)
            answer.prove(result.pv, mate_line(result, answer.began, line))
        elif not answer.done.is_set():
            self._writer.info(none_line(result))

    def _ask_tables(self, graph: Graph, answer: GoAnswer) -> None:
        """Restricts the answer to the best moves by the tablebases, or else to those that keep the result."""
        evaluator = graph.evaluator
        if isinstance(evaluator, TablebaseEvaluator):
            board = answer.board
            wins = evaluator.tables.result(board) == 1
            answer.prefer(evaluator.tables.safe_moves(board) or (), wins=wins)
            answer.prefer(evaluator.best_moves(board) or (), wins=wins)
            answer.settle(evaluator.tables.result_now(board))

    def _analyze(self, graph: Graph, answer: GoAnswer, limits: Limits, known: NodeView | None) -> None:
        """Runs one search and ends the answer with its final report; `known`: the position before it."""
        from ..search.job import Control
        from ..search.loop import search

        last: list[Progress] = []

        def update(progress: Progress) -> None:
            last[:] = [progress]
            answer.update(progress, graph.read, lambda found: _report(graph, answer, found))

        self._opened.pace.plan(answer.seconds)
        control = Control(
            on_progress=update,
            interval=LAZY_SECONDS if answer.seconds is None else UPDATE_SECONDS,
            stop=answer.stop,
            pace=self._opened.pace if answer.is_timed else None,
        )
        result = search(graph, answer.job(limits, known), control)
        if result.stop_reason == "memory":
            self._opened.full_at = key_of(answer.board)
            self._writer.info(MEMORY_FULL)
        if last and not answer.done.is_set():  # with the result's node: the graph keeps no `searchmoves`
            node = answer.draws.shown(result.node)
            answer.end(replace(_report(graph, answer, last[0]), node=node))


def _report(graph: Graph, answer: GoAnswer, progress: Progress) -> Report:
    """Returns the report of a search's progress."""
    used = 1000 * progress.ram_bytes // max(1, graph.pager.budget)
    return Report(
        node=answer.draws.shown(progress.node(answer.output.multipv)),
        depth=progress.depth,
        seldepth=progress.seldepth,
        seconds=time.monotonic() - answer.began,
        speed=progress.visits_per_s,
        hashfull=min(1000, used),
        hits=graph.evaluator.hits,
        visits=progress.new_visits,
        evaluations=progress.evaluations,
    )


def _values(read: Reader, node: NodeView) -> dict[chess.Move, float]:
    """Returns V of a node (under the null move) and of each position behind its moves that is in memory."""
    board = board_of(node.position)
    own = read(board)
    found = {} if own is None else {chess.Move.null(): own.v}
    for move in node.moves:
        board.push(move.move)
        record = read(board)
        board.pop()
        if record is not None:
            found[move.move] = negate(record.v)
    return found


PROVER_BYTES = 1 << 26  # size of the prover's table
PROVER_SHARE = 0.5  # of the time for a move, for the prover
PROVER_INFO_SECONDS = 1.0


def search_mate(
    board: chess.Board,
    moves: int,
    *,
    seconds: float | None,
    entries: EntryTable | None,
    stop: threading.Event,
    tell: Callable[[str], None],
) -> MateResult:
    """Returns the prover's result for mates in at most `moves` moves; `tell` shows progress."""
    from ..solvers.mate.search import find_mate

    told = [0.0]

    def show(progress: MateProgress) -> None:
        if progress.seconds - told[0] >= PROVER_INFO_SECONDS:
            told[0] = progress.seconds
            tell(progress_line(progress))

    limits = MateLimits(seconds=seconds and PROVER_SHARE * seconds, moves=min(moves, MOST_MOVES))
    return find_mate(board, limits, entries=entries, stop=stop, on_progress=show, table_bytes=PROVER_BYTES)


def progress_line(progress: MateProgress) -> str:
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


def none_line(result: MateResult) -> str:
    """Returns the message that the prover found no mate."""
    within = f" in up to {result.excluded}" if result.excluded else " is proven"
    return f"no mate{within}: the moves are searched as without `mate`"


def _mate_speed(found: MateProgress | MateResult) -> int:
    return round(found.visits / max(found.seconds, 1e-3))
