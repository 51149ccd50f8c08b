"""The engine: executes commands, and queues jobs for its worker. Only this module assigns work to threads.

The worker finds an answer by known facts, tablebases and mates, then it searches the graph.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import chess

from ..base.errors import (
    GraphSearchError,
    InvalidParameterError,
    InvalidPositionError,
    StoreError,
    StoreLockedError,
    StoreMovedError,
    UnsavedError,
)
from ..base.faults import error_line
from ..base.limits import shortened
from ..base.version import __version__
from ..evaluators.factory import EvaluatorSpec, create
from ..evaluators.protocol import EXTERNAL, OUTSIDE_BATCH, Evaluator, PositionBatch, answer
from ..evaluators.tablebase import TablebaseEvaluator
from ..evaluators.uniform import OutsideUniform
from ..graph.view import NodeView
from ..position.board import MAX_CLOCK, key_of, key_text
from ..position.notation import read_uci
from ..search.params import Limits, SearchParams
from ..search.repetition import view_in_game
from ..search.results import Progress
from ..solvers.mate.search import MOST_MOVES
from ..store.file import is_held, real_path
from .answer import STOP_SECONDS, GoAnswer, Report
from .clock import BatchPace
from .options import OF_THE_PLACE, Settings, spec_of
from .protocol import Go, Writer, parse_go, parse_position, parse_setoption

if TYPE_CHECKING:
    from ..graph.graph import Graph


SAVE_SECONDS = 8.0  # between two saves during a series of searches
QUIET_SECONDS = 0.7  # without a search, before everything is saved
LOAD_SECONDS = 0.05  # of loading the file, between two checks for new jobs
LOADED_AHEAD = 4_000_000  # most nodes of a file that is loaded before a search needs it: 4 s of a core
Maker = Callable[[EvaluatorSpec], Evaluator]

# errors of an evaluator's file, packages or device
FAILURES = (GraphSearchError, OSError, ImportError, MemoryError, RuntimeError, ValueError)


class EngineGraph:
    """The open graph, and the error if it is not the requested one."""

    def __init__(self, writer: Writer, make: Maker) -> None:
        self._writer = writer
        self._make = make
        self.graph: Graph | None = None
        self._chosen: Evaluator | None = None
        self.pace = BatchPace()
        self.full_at: int | None = None  # key of the position whose search has filled the memory
        self.trouble = ""
        self._locked: Path | None = None  # a file that another process was writing
        self.lost = False  # whether results could not be saved
        self.is_substitute = False  # whether another evaluator plays than the requested one
        self._opened_for: tuple[str, ...] | None = None
        self._warm: set[tuple[int, bool, bool]] = set()
        self._background = ExitStack()  # background compilation
        self._saved_at = self._busy_at = time.monotonic()
        self._is_unsaved = False  # whether saves fail

    def is_ready(self, settings: Settings) -> bool:
        """Returns whether the graph of some settings is open, or cannot be opened."""
        is_free = self._locked is not None and not is_held(self._locked)
        return self._opened_for == settings.of_the_graph() and not is_free

    def new_game(self) -> None:
        """Makes the next `prepare` retry failed steps; the graph stays open."""
        if self.trouble:
            self._opened_for = None

    # ---------------------------------------------------------- opening
    def prepare(self, settings: Settings) -> Graph | None:
        """Returns the graph of some settings, opened if necessary; None if that fails, which it reports.

        Without the file the graph is in memory only; so it is with the built-in evaluator for one that fails.
        """
        if self.is_ready(settings):
            return self.graph
        wanted, before = settings.of_the_graph(), self._opened_for or ()
        if self.graph is None or self.trouble or before[:OF_THE_PLACE] != wanted[:OF_THE_PLACE]:
            self._drop_graph()
        if before != wanted:
            self._close_evaluator()  # before the next one is made: both may need the same device
        locked, self._locked, self.trouble = self._locked, None, ""
        if self._chosen is None:
            self.is_substitute = False
            self._chosen = self._evaluator(settings)
        if not self._takes_over(settings, self._chosen):
            self._drop_graph()
            self.graph = self._open(settings, self._chosen)
        if locked and not self.trouble:
            self._writer.info(f"{locked} is open now: results are saved")
        self._opened_for = wanted
        return self.graph

    def forget_if_full(self, board: chess.Board, settings: Settings) -> Graph | None:
        """Returns the graph, emptied if it has no file and the search of another position has filled it."""
        from ..graph.graph import Graph

        graph = self.graph
        if graph is None or graph.store is not None or self.full_at in (None, key_of(board)):
            return graph
        self._writer.info(f"the {graph.node_count:,} positions in memory are dropped, because it is full")
        evaluator, opened_for = graph.evaluator, self._opened_for
        self._close_graph()
        self.graph = Graph.open(None, evaluator=evaluator, ram_bytes=settings.ram_bytes())
        self._opened_for = opened_for
        return self.graph

    def _takes_over(self, settings: Settings, evaluator: Evaluator) -> bool:
        """Lets an evaluator continue the open graph, if it gives the answers of the one before it."""
        graph = self.graph
        if graph is None or self.trouble or graph.evaluator.identity != evaluator.identity:
            return False
        try:
            self._load_kernels(evaluator, settings.params(), filed=graph.store is not None)
        except FAILURES:
            return False  # opening the graph will report it
        graph.evaluator, self.pace = evaluator, BatchPace()
        return True

    def _drop_graph(self) -> None:
        """Closes the graph, if there is one; says that positions in memory are lost."""
        if self.graph is not None and self.graph.store is None and self.graph.node_count:
            self._writer.info(
                f"the {self.graph.node_count:,} positions in memory are dropped, because the graph"
                " is opened anew; in a GraphFile they stay"
            )
        self._close_graph()

    def _evaluator(self, settings: Settings) -> Evaluator:
        try:
            evaluator = self._make(spec_of(settings))
        except FAILURES as error:
            if settings.text("SyzygyPath"):  # chess programs send a folder that may not be there
                (plain := settings.copy()).set("SyzygyPath", "")
                evaluator = self._evaluator(plain)
                if not self.trouble:
                    self._writer.info(f"ERROR: {_text(error)}. The engine plays without tablebases")
                return evaluator
            self._complain(
                f"{_text(error)}. Until an option is set right the built-in evaluator plays, in memory only"
            )
            (plain := Settings()).set("Threads", settings.text("Threads"))
            evaluator, self.is_substitute = create(spec_of(plain)), True
        for note in evaluator.notes:
            self._writer.info(note)
        return evaluator

    def _open(self, settings: Settings, evaluator: Evaluator) -> Graph | None:
        path = "" if self.trouble else settings.text("GraphFile")
        try:
            self._load_kernels(evaluator, settings.params(), filed=bool(path))
            from ..graph.graph import Graph

            try:
                graph = Graph.open(path or None, evaluator=evaluator, ram_bytes=settings.ram_bytes())
            except StoreLockedError as error:
                self._locked = real_path(path)
                self._complain(f"{_text(error)}. This engine continues in memory only until it ends")
            except (StoreError, OSError) as error:
                self._complain(f"{_text(error)}. Set GraphFile to another file; until then nothing is saved")
            else:
                graph.tables_meanwhile = False
                if graph.node_count <= LOADED_AHEAD:
                    graph.load_ahead()
                return graph
            return Graph.open(None, evaluator=evaluator, ram_bytes=settings.ram_bytes())
        except FAILURES as error:
            self._complain(f"{_text(error)}. Moves are played without a search")
            return None

    def _complain(self, text: str) -> None:
        self.trouble = text
        self._writer.info(f"ERROR: {text}")

    def _load_kernels(self, evaluator: Evaluator, params: SearchParams, *, filed: bool) -> None:
        """Runs a short search in a separate graph, so that no clock runs while kernels compile or load."""
        from ..jit.cache import announced
        from ..search.warm import kernels_missing, other_kernels_compiling
        from ..solvers.mate.beside import compile_search

        is_outside = evaluator.kernel_kind == EXTERNAL
        batch = params.with_batch(evaluator.batch_size).minibatch_size
        purpose = (evaluator.kernel_kind, filed, batch == 1)
        if purpose in self._warm:
            return
        cold = kernels_missing(evaluator, filed=filed) > 0
        if cold:
            announced()
            self._writer.info("the search kernels are being compiled, once; this takes some 20 seconds")
        trial = OutsideUniform() if is_outside else evaluator
        # an evaluator outside also gets waves of one visit, which a kernel of their own gathers
        for size in (OUTSIDE_BATCH, 1) if is_outside else (batch,):
            tried = replace(params, minibatch_size=size)
            compile_search(trial, tried, filed=filed, told=True, board=_repeated())
        if is_outside:
            with suppress(GraphSearchError):  # a search will report the error
                answer(evaluator, PositionBatch.from_boards([chess.Board()]))
        if filed:
            self._background.close()
            self._background.enter_context(other_kernels_compiling())
        self._warm.add(purpose)
        if cold:
            self._writer.info("the search kernels are compiled")

    # ---------------------------------------------------------- saving
    def searched(self) -> None:
        """Starts to save, after a search, if the last save was more than SAVE_SECONDS ago."""
        self._busy_at = time.monotonic()
        if self._busy_at - self._saved_at > SAVE_SECONDS:
            self._save()

    @property
    def is_loading(self) -> bool:
        """Whether the file is being loaded into memory, in steps while there are no other jobs."""
        return self.graph is not None and self.graph.loading is not None

    def idle(self) -> None:
        """Continues to load the file; if that is done, saves in the background after QUIET_SECONDS."""
        if self.graph is not None and self.is_loading:
            self.graph.load_some(LOAD_SECONDS)
            return
        now = time.monotonic()
        if now - self._busy_at > QUIET_SECONDS and now - self._saved_at > QUIET_SECONDS:
            self._save()

    def _save(self) -> None:
        if self.graph is None or self.graph.store is None:
            return
        try:
            if self.graph.save_soon():
                self._is_unsaved = False
                return
        except (StoreError, OSError) as error:
            self.go_on_unsaved(error)
        self._saved_at = time.monotonic()

    def go_on_unsaved(self, error: Exception) -> None:
        """Says that a save failed, once until all is saved again."""
        if not self._is_unsaved:
            self._writer.info(f"ERROR: {_text(error)}. The next save tries again; the results are in memory")
        self._is_unsaved = True

    def close(self) -> None:
        """Saves everything, closes the file and ends the evaluator."""
        self._close_graph()
        self._close_evaluator()

    def _close_graph(self) -> None:
        graph, self.graph, self._opened_for = self.graph, None, None
        self.full_at = None
        self._background.close()
        self.pace = BatchPace()
        if graph is None:
            return
        if graph.store:
            graph.store.announce_end()
        try:
            with graph:
                with suppress(StoreError, OSError):  # `flush` tries it again, and reports its error
                    while not graph.save_soon():  # the records first: the user may lose patience
                        graph.settle(wait=True)
                graph.flush()
        except StoreMovedError as error:
            self._writer.info(f"ERROR: {_text(error)}")
        except (StoreError, OSError) as error:
            self.lost = True
            self._writer.info(f"ERROR: {_text(error)}. What was not saved is lost")

    def _close_evaluator(self) -> None:
        evaluator, self._chosen = self._chosen, None
        if evaluator is not None:
            evaluator.close()


def _repeated() -> chess.Board:
    """Returns a game with threefold repetitions, whose search meets draws by history."""
    board = chess.Board()
    for move in 2 * ("g1f3", "g8f6", "f3g1", "f6g8"):
        board.push_uci(move)
    return board


def _text(error: BaseException) -> str:
    """Returns the text of an error, without a full stop."""
    if isinstance(error, MemoryError):
        return "out of memory"
    return (str(error) or type(error).__name__).rstrip(".")


IDLE_SECONDS = 0.25
MEMORY_FULL = "the search ended because its memory is full; a larger RAM or a GraphFile holds more"
UPDATE_SECONDS, LAZY_SECONDS = 0.01, 0.1  # between two checks of a search's progress: on a clock, or not
PROVER_BYTES = 1 << 26  # size of the prover's table
PROVER_SHARE = 0.5  # of the time for a move, for the prover
COMMANDS = "uci, isready, setoption, ucinewgame, position, go, stop, ponderhit, debug, register, d, quit"
Job = Callable[[], object]


class Engine:
    """A UCI engine without its streams: `handle` takes lines from one thread, `close` ends it."""

    def __init__(
        self,
        writer: Writer,
        defaults: Mapping[str, str] | None = None,
        *,
        make: Maker = create,
    ) -> None:
        """Creates an engine; graph and evaluator are opened when needed.

        Args:
          defaults: values that replace the default values of options.
          make: makes the evaluator for the settings.

        Raises:
          InvalidParameterError: if one of the defaults is an unknown option or has an invalid value.
          OSError: if the log file cannot be opened.
        """
        self._writer = writer
        self.settings = Settings(defaults)
        writer.log_to(self.settings.text("LogFile"))
        self._opened = EngineGraph(writer, make)
        self._board = chess.Board()
        self._problem = ""  # of the last `position`; empty if it was read
        self._answer: GoAnswer | None = None  # the last `go`
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._waiting = 0  # jobs given and not yet ended
        self._count = threading.Lock()
        self._worker = threading.Thread(target=self._work, name="graphsearch-uci", daemon=True)
        self._worker.start()

    # ---------------------------------------------------------- commands
    def handle(self, line: str) -> bool:
        """Executes a command line; returns False after `quit`."""
        line = line.strip()
        self._writer.received(line)
        if not line:
            return True
        name, *words = line.split()
        if name.lower() == "quit":
            return False
        try:
            self._execute(name.lower(), words, line)
        except Exception as error:  # a defect must not end a game
            self._writer.info(f"ERROR: {name.lower()} failed: {error_line(error, line)}")
        return True

    def _execute(self, name: str, words: list[str], line: str) -> None:
        match name:
            case "uci":
                head = [f"id name graphsearch {__version__}", "id author the graphsearch authors"]
                self._writer.line(*head, *self.settings.lines(), "uciok")
                # imported while the GUI sets its options
                self._give(partial(import_module, "graphsearch.search.loop"))
            case "isready":
                self._isready()
            case "setoption":
                self._setoption(line)
            case "ucinewgame":
                self._give(self._opened.new_game)
            case "position":
                self._position(words)
            case "go":
                self._go(words)
            case "stop" | "ponderhit" if self._answer is not None:
                self._answer.end_soon() if name == "stop" else self._answer.ponderhit()
            case "d":
                board = self._board
                self._writer.line(
                    *str(board).splitlines(), f"Fen: {board.fen()}", f"Key: {key_of(board):016X}"
                )
            case _ if name not in COMMANDS.split(", "):
                self._writer.info(f"unknown command {shortened(name)!r}; there are {COMMANDS}")

    def _isready(self) -> None:
        """Answers at once during a search, or after its move if it must stop; else once the graph is open."""
        answer = self._answer
        if answer is not None and answer.stop.is_set():  # Scid reads a later move as that of its next `go`
            answer.done.wait(STOP_SECONDS)
            answer.give()
        if self._opened.is_ready(self.settings) or (answer is not None and not answer.done.is_set()):
            self._writer.line("readyok")
        else:
            self._give(lambda: self._opened.prepare(self.settings))
            self._give(lambda: self._writer.line("readyok"))

    def _setoption(self, line: str) -> None:
        name, value = parse_setoption(line)
        if not name:
            self._writer.info("ERROR: expected setoption name NAME value VALUE")
            return
        try:
            known = self.settings.set(name, value)
            if known == "LogFile":
                self._writer.log_to(self.settings.text("LogFile"))
        except InvalidParameterError as error:
            self._writer.info(f"ERROR: {error}")
        except (OSError, ValueError) as error:
            self._writer.info(f"ERROR: LogFile: {error}")

    def _position(self, words: list[str]) -> None:
        try:
            given = parse_position(words)
        except InvalidPositionError as error:
            self._refuse(f"{error}")
            return
        self._board, self._problem = given.board, ""
        self._board.halfmove_clock = min(self._board.halfmove_clock, MAX_CLOCK)  # as files keep it
        for note in given.notes:
            self._writer.info(note)
        if given.problem:
            self._refuse(given.problem)

    def _refuse(self, problem: str) -> None:
        """Reports a position that cannot be read; until the next one, `go` has no answer."""
        self._problem = problem
        self._writer.info(f"ERROR: {problem}; `go` has no move until a position can be read")

    def _go(self, words: list[str]) -> None:
        began = time.monotonic()
        go = parse_go(words)
        for note in go.notes:
            self._writer.info(note)
        if self._answer is not None:
            self._answer.hurry()
        board = self._board.copy()
        answer = GoAnswer(
            go=go,
            board=board,
            listed=self._listed(go, board),
            settings=self.settings.copy(),
            writer=self._writer,
            began=began,
            problem=self._problem,
            expected=_rest_of(self._answer, board),
        )
        self._answer = answer
        if self._problem:
            answer.end(None)
            return
        threading.Thread(target=self._watch, args=(answer,), name="graphsearch-clock", daemon=True).start()
        self._give(lambda: self._search(answer))

    def _listed(self, go: Go, board: chess.Board) -> list[chess.Move]:
        """Returns the moves of `searchmoves` that are legal."""
        listed = []
        for word in go.searchmoves:
            try:
                listed.append(read_uci(board, word.lower()))
            except ValueError:
                self._writer.info(
                    f"go: searchmoves: {shortened(word)!r} is not legal in {board.fen()}; ignored"
                )
        if go.searchmoves and not listed:
            self._writer.info("go: no move of searchmoves is legal; all moves are searched")
        return [move for move in listed if move]

    def close(self) -> bool:
        """Ends the search, saves and closes; returns False if nothing was to save and the worker goes on."""
        if self._answer is not None:
            self._answer.end_soon()
        if self._opened.graph is None and self._waiting:
            if self._answer is not None:
                self._answer.hurry()  # nobody else will: the process ends now
            return False  # compiling, or loading a network
        self._give(self._opened.close)
        self._jobs.put(None)
        self._worker.join()
        self._writer.log_to("")
        return True

    @property
    def has_lost(self) -> bool:
        """Whether results could not be saved."""
        return self._opened.lost

    # ---------------------------------------------------------- the worker
    def _give(self, job: Job) -> None:
        with self._count:
            self._waiting += 1
        self._jobs.put(job)

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=0.0 if self._opened.is_loading else IDLE_SECONDS)
            except queue.Empty:
                self._try(self._opened.idle)
                continue
            if job is None:
                return
            self._try(job)
            with self._count:
                self._waiting -= 1

    def _try(self, job: Job) -> None:
        try:
            job()
        except Exception as error:  # a defect must not end a game
            self._writer.info(f"ERROR: {error_line(error)}")

    def _search(self, answer: GoAnswer) -> None:
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
            self._opened.searched()

    def _watch(self, answer: GoAnswer) -> None:
        """Runs a clock's thread; answers even if it fails."""
        try:
            answer.watch()
        except Exception as error:
            self._writer.info(f"ERROR: {error_line(error, answer.board.fen())}")
            answer.give()

    def _search_graph(self, answer: GoAnswer) -> None:
        """Searches the graph for an answer, if known facts are not enough."""
        self._opened.prepare(self.settings)  # even if the clock has answered: for the next search
        graph = self._opened.forget_if_full(answer.board, self.settings)
        if self._opened.is_substitute:
            self._writer.info(f"ERROR: {self._opened.trouble}")
        if graph is None or answer.done.is_set() or not any(answer.board.legal_moves):
            return
        answer.note(graph.read(answer.board))
        listed = bool(answer.listed)
        if not answer.listed:
            self._ask_tables(graph, answer)
        wanted = answer.settings.number("MultiPV")
        known = view_in_game(graph.read, answer.board, answer.past, lines=wanted, first=answer.listed)
        is_valued = known is not None and (not listed or any(move.n for move in known.moves[:1]))
        limits = answer.limits(known.visits if known and is_valued else 0)
        if known is not None and is_valued:
            answer.begin(Report(answer.shown(known), seconds=time.monotonic() - answer.began))
        if answer.go.mate is not None and not listed and not answer.done.is_set():
            self._prove_mate(graph, answer, answer.go.mate)
        if limits is not None and not answer.stop.is_set():
            self._analyze(graph, answer, limits, known)

    def _prove_mate(self, graph: Graph, answer: GoAnswer, moves: int) -> None:
        """Answers with a mate in at most `moves` moves, or reports that there is none."""
        from ..search.job import Control
        from ..solvers.mate.search import find_mate

        result = find_mate(
            answer.board,
            Limits(seconds=answer.seconds and PROVER_SHARE * answer.seconds),
            Control(stop=answer.stop),
            moves=min(moves, MOST_MOVES),
            entries=graph.use_entries(PROVER_BYTES) if graph.store else None,
            table_bytes=PROVER_BYTES,
        )
        if result.mate:
            answer.prove(result)
        elif not answer.done.is_set():
            within = f" in up to {result.excluded}" if result.excluded else " is proven"
            self._writer.info(f"no mate{within}: the moves are searched as without `mate`")

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
            planned=answer.seconds,
            on_unsaved=self._opened.go_on_unsaved,
        )
        result = search(graph, answer.job(limits, known), control)
        if result.stop_reason == "memory":
            self._opened.full_at = key_of(answer.board)
            self._writer.info(MEMORY_FULL)
        if last and not answer.done.is_set():  # with the result's node: the graph keeps no `searchmoves`
            answer.end(replace(_report(graph, answer, last[0]), node=answer.shown(result.node)))


def _report(graph: Graph, answer: GoAnswer, progress: Progress) -> Report:
    """Returns the report of a search's progress."""
    used = 1000 * progress.ram_bytes // max(1, graph.pager.budget)
    return Report(
        node=answer.shown(progress.node(answer.settings.number("MultiPV"))),
        depth=answer.depth,
        seldepth=progress.seldepth,
        seconds=time.monotonic() - answer.began,
        speed=progress.visits_per_s,
        hashfull=min(1000, used),
        hits=graph.evaluator.hits,
        visits=progress.new_visits,
        evaluations=progress.evaluations,
    )


def _rest_of(answer: GoAnswer | None, board: chess.Board) -> tuple[chess.Move, ...]:
    """Returns the rest of the line that an answer expected, if a position is on it."""
    walk, line = (answer.board, answer.best_line()) if answer else (board, ())
    for k, move in enumerate(line):
        if key_text(walk) == key_text(board):
            return line[k:]
        walk.push(move)
    return ()
