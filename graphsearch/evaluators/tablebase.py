"""Endgame tablebases in front of an evaluator: positions in the tables get exact results."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path

import chess
import chess.syzygy
import numpy as np
from numpy.typing import NDArray

from ..base.errors import EvaluatorError, EvaluatorFileError
from ..base.system import thread_seconds
from ..position.board import BLACK, CASTLING_BITS, CASTLING_SHIFT, META, WHITE, after, fen_of, unpack
from .protocol import Evaluation, Evaluator, PositionBatch

WIN, LOSS = 2, -2  # of WDL tables; a cursed win (1) and a blessed loss (-1) are draws by the 50-move rule
MAX_CLOCK = 100  # plies without capture or pawn move until a draw
UNKNOWN = 9  # no result
Probe = Callable[[chess.Board], int]
WDL_FILES, DTZ_FILES = "*.rtbw", "*.rtbz"
PROBE_SECONDS = 1.0  # of CPU time; a probe takes some tenths of a millisecond, the first of a table some more
LOOK_SECONDS = 0.2  # between two looks at the probes


class EndlessProbeError(Exception):
    """Raised within a probe that takes more than PROBE_SECONDS, or lasts when a search is to stop."""


class ProbeLimit:
    """Ends probes that take too long: in a table with another's content chess.syzygy may look for ever.

    A thread looks at the CPU time of the probing threads, and raises EndlessProbeError in them. The code of
    chess.syzygy is Python, so it ends at once. From when `stop` is set, a probe that lasts from one look to
    the next ends too (`gave_up`), and none begins after it.
    """

    def __init__(self) -> None:
        self.stop: threading.Event | None = None
        self.gave_up = False
        self._lasting: dict[int, float] = {}  # the probes at the last look
        self._lock = threading.Lock()
        self._ends: dict[int, float] = {}  # by thread that probes: its CPU time then
        self._closed = threading.Event()
        self._watch: threading.Thread | None = None

    def run(self, probe: Probe, board: chess.Board) -> int:
        """Returns the result of a probe; EndlessProbeError if it takes too long, or `gave_up`."""
        if self.gave_up:
            raise EndlessProbeError
        thread = threading.get_ident()
        with self._lock:
            self._ends[thread] = thread_seconds(thread) + PROBE_SECONDS
            if self._watch is None:
                self._watch = threading.Thread(target=self._look, name="graphsearch-probes", daemon=True)
                self._watch.start()
        try:
            return probe(board)
        finally:
            with self._lock:
                self._ends.pop(thread, None)

    def close(self) -> None:
        """Ends the thread."""
        self._closed.set()

    def _look(self) -> None:
        while not self._closed.wait(LOOK_SECONDS):
            with self._lock:
                stops = self.stop is not None and self.stop.is_set()
                for thread, end in list(self._ends.items()):
                    lasts = stops and self._lasting.get(thread) == end
                    if lasts or thread_seconds(thread) > end:
                        self.gave_up |= lasts
                        del self._ends[thread]
                        raised = ctypes.py_object(EndlessProbeError)
                        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)
                self._lasting = dict(self._ends)


class Syzygy:
    """The Syzygy tables in some folders. Every probe raises EvaluatorError if a table cannot be read.

    Attributes:
      most_men: number of men in the largest WDL table, including kings.
      has_dtz: whether there are DTZ tables, which `best_moves` needs.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Opens all tables of one or several folders, separated as in PATH.

        Raises:
          EvaluatorError: if a folder is missing or none holds WDL tables.
        """
        folders = [Path(part).expanduser() for part in os.fspath(path).split(os.pathsep) if part]
        self._name = f"a Syzygy table in {', '.join(map(str, folders))}"
        self._tables = chess.syzygy.Tablebase()
        self._limit = ProbeLimit()
        for folder in folders:
            if not folder.is_dir():
                raise EvaluatorFileError(f"the folder {folder} of Syzygy tables does not exist")
            self._tables.add_directory(os.fspath(folder))
        if not self._tables.wdl:
            expected = f"expected {WDL_FILES} files and {DTZ_FILES} beside them"
            raise EvaluatorError(f"{os.fspath(path)!r} has no Syzygy tables; {expected}")
        self.most_men = max(len(name) - 1 for name in self._tables.wdl)
        self.has_dtz = bool(self._tables.dtz)

    def result(self, board: chess.Board) -> int | None:
        """Returns 1, 0 or -1 for the side to move, as if the clock were 0; None if no table has it."""
        wdl = self._probe(self._tables.probe_wdl, board)
        return None if wdl is None else (wdl == WIN) - (wdl == LOSS)

    def is_certain(self, board: chess.Board) -> bool:
        """Returns whether a position's win or loss comes before the 50-move rule, with its clock.

        With the clock above 0, only DTZ tables can tell. Their numbers may be one ply too small.
        """
        if not board.halfmove_clock:
            return True
        dtz = self._probe(self._tables.probe_dtz, board) if self.has_dtz else None
        return dtz is not None and abs(dtz) + board.halfmove_clock < MAX_CLOCK

    def result_now(self, board: chess.Board) -> int | None:
        """Returns 1, 0 or -1 for the side to move, with its clock; None if unknown, as without DTZ tables."""
        best = self._best(board)
        if best is not None:
            known, plies = best[0]
            line = self.best_line(board) if board.halfmove_clock + abs(plies) == MAX_CLOCK else None
            return line[0] if line else known
        result = self.result(board)
        return result if result == 0 or board.halfmove_clock == 0 else None

    def safe_moves(self, board: chess.Board) -> list[chess.Move] | None:
        """Returns the moves that keep a position's result if the clock is ignored; None as in `best_moves`.

        It takes a tenth of the time of `best_moves`.
        """
        if board.castling_rights or chess.popcount(board.occupied) > self.most_men:
            return None
        results: dict[chess.Move, int] = {}
        for move in board.legal_moves:
            result = self.result(after(board, move))
            if result is None:
                return None
            results[move] = result
        least = min(results.values(), default=0)  # results are the opponent's
        return [move for move, result in results.items() if result == least] or None

    def best_moves(self, board: chess.Board) -> list[chess.Move] | None:
        """Returns the moves that keep a position's result and, in a win, reach it soonest.

        It ranks by distance to zeroing the clock (DTZ): the shortest of winning moves, the longest of losing
        ones. The position's clock counts: a win that comes too late is a draw, but ranks above other draws
        because it is hard to hold. A mate ranks highest. None if the tables do not have the position, or the
        game is over.
        """
        best = self._best(board)
        return best and best[1]

    def best_line(
        self, board: chess.Board, first: chess.Move | None = None
    ) -> tuple[int, list[chess.Move]] | None:
        """Returns the result for the side to move, 1, 0 or -1, with its clock, and best moves of both sides.

        They lead to a mate, or to the next move that zeroes the clock; in a draw it is one move. The line
        begins with `first` if that is one of the best moves. None as in `best_moves`.
        """
        board = board.copy(stack=False)
        line: list[chess.Move] = []
        best = known = self._best(board)
        while best is not None:
            line.append(first if not line and first in best[1] else best[1][0])
            if not best[0][0]:  # the tables' plies were one too few: it comes too late
                return 0, line[:1]
            board.push(line[-1])
            best = self._best(board) if board.halfmove_clock else None
        return None if known is None else (known[0][0], line)

    def _best(self, board: chess.Board) -> tuple[tuple[int, int], list[chess.Move]] | None:
        """Returns the best rank in a position and the moves with it; None as in `best_moves`."""
        ranks: dict[chess.Move, tuple[int, int]] = {}
        for move in (self.safe_moves(board) if self.has_dtz else None) or ():
            rank = self._rank(board, move)
            if rank is None:
                return None
            ranks[move] = rank
        best = max(ranks.values(), default=None)
        return None if best is None else (best, [move for move, rank in ranks.items() if rank == best])

    def _rank(self, board: chess.Board, move: chess.Move) -> tuple[int, int] | None:
        """Returns the rank of a move: result, plies to mate or zeroing (negative if won); None if unknown."""
        board = after(board, move)
        if board.is_checkmate():
            return 1, 0
        if board.is_stalemate() or board.is_insufficient_material():
            return 0, 0
        dtz = self._probe(self._tables.probe_dtz, board)
        if dtz is None:
            return None
        sign = (dtz < 0) - (dtz > 0)
        if board.halfmove_clock >= MAX_CLOCK:
            return 0, 0
        if abs(dtz) + board.halfmove_clock > MAX_CLOCK:
            return 0, sign
        return sign, -sign * (abs(dtz) + 1 if board.halfmove_clock else 1)

    def _probe(self, probe: Probe, board: chess.Board) -> int | None:
        try:
            return self._limit.run(probe, board)
        except KeyError:  # chess.syzygy.MissingTableError, for castling rights too
            return None
        except EndlessProbeError:
            if self._limit.gave_up:  # the search ends, and needs no more
                return None
            raise EvaluatorError(
                f"{self._name} gives no answer for {fen_of(board)}: its content may be that of another table;"
                " download it again"
            ) from None
        except Exception as error:  # the library has no error of its own for a damaged table
            raise EvaluatorError(
                f"{self._name} cannot be read for {fen_of(board)}: {type(error).__name__}: {error}"
            ) from error

    def heed(self, stop: threading.Event) -> None:
        """Gives up a probe that lasts, from when `stop` is set; positions are then as in no table."""
        self._limit.stop, self._limit.gave_up = stop, False

    def close(self) -> None:
        """Closes the files."""
        self._limit.close()
        self._tables.close()


class TablebaseEvaluator(Evaluator):
    """An evaluator that probes tables first.

    It uses tables for draws, which hold at any clock, and for wins and losses that are certain at the
    position's clock. Their result is a proof: V and both bounds are exact, P is uniform, and a search stops
    there. Tables only follow from the rules, so the identity is that of the inner evaluator, and a graph file
    may be searched with or without.
    """

    def __init__(self, inner: Evaluator, tables: Syzygy) -> None:
        self.inner, self.tables, self.hits = inner, tables, 0
        self.identity, self.notes, self.wants_lines = inner.identity, inner.notes, inner.wants_lines
        self.batch_size = inner.outside_batch

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns exact results of positions in the tables, and WDL and priors of the others."""
        results = self._results(batch.words)
        known = results != UNKNOWN
        self.hits += int(known.sum())
        if not known.any():
            return self.inner.evaluate(batch)
        lengths = np.diff(batch.offsets)
        wdl = np.stack([results == 1, results == 0, results == -1], axis=1).astype(np.float32)
        q = wdl[:, 0] - wdl[:, 2]
        priors: NDArray[np.float32] = np.repeat(1 / lengths, lengths).astype(np.float32)
        bounds = np.tile(np.array([-1, 1], np.int8), (len(batch), 1))
        bounds[known] = results[known, None]
        if not known.all():
            rest = self.inner.evaluate(batch.rows(~known))
            wdl[~known], q[~known] = rest.wdl, rest.v
            priors[np.repeat(~known, lengths)] = rest.priors
            if rest.bounds is not None:
                bounds[~known] = rest.bounds
        return Evaluation(wdl, priors, bounds, q)

    def knows(self, words: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Returns a mask of the packed positions, `[R, 10]`, that the tables can answer."""
        return np.asarray(self._results(words) != UNKNOWN)

    def _results(self, words: NDArray[np.uint64]) -> NDArray[np.int8]:
        """Returns the result of every position; UNKNOWN if no table has it or its clock may change it."""
        results = np.full(len(words), UNKNOWN, np.int8)
        men = np.bitwise_count(words[:, WHITE] | words[:, BLACK])
        castling = words[:, META].astype(np.int64) >> CASTLING_SHIFT & CASTLING_BITS
        for row in np.nonzero((men <= self.tables.most_men) & (castling == 0))[0].tolist():
            board = unpack(words[row].tolist())
            result = self.tables.result(board)
            if result == 0 or (result is not None and self.tables.is_certain(board)):
                results[row] = result
        return results

    def heed(self, stop: threading.Event) -> None:
        """Gives up calls that last, from when `stop` is set."""
        self.tables.heed(stop)
        self.inner.heed(stop)

    def best_moves(self, board: chess.Board) -> list[chess.Move] | None:
        """Returns `Syzygy.best_moves`."""
        return self.tables.best_moves(board)

    def best_line(
        self, board: chess.Board, first: chess.Move | None = None
    ) -> tuple[int, list[chess.Move]] | None:
        """Returns `Syzygy.best_line`."""
        return self.tables.best_line(board, first)

    def close(self) -> None:
        """Closes the tables and the inner evaluator."""
        self.tables.close()
        self.inner.close()
