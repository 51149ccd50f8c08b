"""The engine: executes commands, and queues jobs for its worker. Only this module assigns work to threads."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import chess

from ..base.errors import GraphSearchError, InvalidParameterError, InvalidPositionError
from ..base.faults import error_line
from ..base.limits import shortened
from ..base.version import __version__
from ..evaluators.protocol import Evaluator
from ..graph.view import show, view
from ..position.board import key_of, key_text
from ..position.notation import read_uci
from .answer import GoAnswer
from .engine_graph import EngineGraph
from .options import OutputOptions, Settings, make_evaluator
from .protocol import Followed, Go, parse_go, parse_position, parse_setoption
from .searching import Searcher
from .writer import Writer

IDLE_SECONDS = 0.25
Job = Callable[[], object]


class Engine:
    """A UCI engine without its streams: `handle` takes lines from one thread, `close` ends it."""

    def __init__(
        self,
        writer: Writer,
        defaults: Mapping[str, str] | None = None,
        *,
        make: Callable[[Settings], Evaluator] = make_evaluator,
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
        self._searcher = Searcher(self._opened, self.settings, writer)
        self._board = chess.Board()
        self._problem = ""  # of the last `position`; empty if it was read
        self._followed = Followed()
        self._answer: GoAnswer | None = None  # the last `go`
        self._line: tuple[chess.Board, tuple[chess.Move, ...]] | None = None  # its expected line
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._waiting = 0  # jobs given and not yet ended
        self._count = threading.Lock()
        # one at a time: many look-ups at once would slow each other down
        self._looking = ThreadPoolExecutor(1, "graphsearch-look")
        self._worker = threading.Thread(target=self._work, name="graphsearch-uci", daemon=True)
        self._worker.start()
        self._commands: dict[str, Callable[[str], None]] = {
            "uci": self._uci,
            "isready": self._isready,
            "setoption": self._setoption,
            "ucinewgame": self._ucinewgame,
            "position": self._position,
            "go": self._go,
            "stop": self._stop,
            "ponderhit": self._ponderhit,
            "debug": self._nothing,
            "register": self._nothing,
            "d": self._show,
            "show": self._show,
        }

    # ---------------------------------------------------------- commands
    def handle(self, line: str) -> bool:
        """Executes a command line; returns False after `quit`."""
        line = line.strip()
        self._writer.received(line)
        words = line.split()
        if not words:
            return True
        name = words[0].lower()
        if name == "quit":
            return False
        command = self._commands.get(name)
        if command is None:
            self._writer.info(
                f"unknown command {shortened(words[0])!r}; there are {', '.join(self._commands)}, quit"
            )
            return True
        try:
            command(line)
        except Exception as error:  # a defect must not end a game
            self._writer.info(f"ERROR: {name} failed: {error_line(error, line)}")
        return True

    def _uci(self, line: str) -> None:
        head = [f"id name graphsearch {__version__}", "id author the graphsearch authors"]
        self._writer.line(*head, *self.settings.lines(), "uciok")
        self._give(_import_kernels)

    def _isready(self, line: str) -> None:
        """Answers at once during a search; otherwise after the graph is open."""
        answer = self._answer
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

    def _ucinewgame(self, line: str) -> None:
        self._line = None
        self._give(self._opened.new_game)

    def _position(self, line: str) -> None:
        words = line.split()[1:]
        try:
            given = self._followed.then(words) or parse_position(words)
        except InvalidPositionError as error:
            self._refuse(f"{error}")
            return
        self._board, self._problem = given.board, ""
        self._followed = Followed(tuple(words), given)
        for note in given.notes:
            self._writer.info(note)
        if given.problem:
            self._refuse(given.problem)

    def _refuse(self, problem: str) -> None:
        """Reports a position that cannot be read; until the next one, `go` has no answer."""
        self._problem = problem
        self._writer.info(f"ERROR: {problem}; `go` has no move until a position can be read")

    def _go(self, line: str) -> None:
        began = time.monotonic()
        go = parse_go(line.split()[1:])
        for note in go.notes:
            self._writer.info(note)
        if self._answer is not None:
            self._answer.hurry()
        board = self._board.copy()
        listed = self._listed(go, board)
        answer = GoAnswer(
            go=go,
            board=board,
            listed=listed,
            output=OutputOptions.of(self.settings),
            writer=self._writer,
            began=began,
            problem=self._problem,
        )
        self._answer = answer
        if self._problem:
            answer.end(None)
            return
        if self._is_busy:
            self._looking.submit(self._try, lambda: self._look_up(answer))
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
                    f"go: searchmoves: {shortened(word)!r} is not a legal move of {board.fen()}; ignored"
                )
        if go.searchmoves and not listed:
            self._writer.info("go: no move of searchmoves is legal; all moves are searched")
        return [move for move in listed if move]

    def _stop(self, line: str) -> None:
        if self._answer is not None:
            self._answer.end_soon()

    def _ponderhit(self, line: str) -> None:
        if self._answer is not None:
            self._answer.ponderhit()

    def _nothing(self, line: str) -> None:
        """Ignores a command that needs no answer."""

    def _show(self, line: str) -> None:
        """Prints the board, and the graph's record of it when the worker is free."""
        board = self._board.copy()
        self._writer.line(*str(board).splitlines(), f"Fen: {board.fen()}", f"Key: {key_of(board):016X}")
        if not self._is_searching:
            self._give(lambda: self._show_known(board))

    def _show_known(self, board: chess.Board) -> None:
        graph = self._opened.prepare(self.settings)
        node = view(graph.read, board, lines=1) if graph else None
        if node is None:
            self._writer.info("the graph does not know this position")
            return
        self._writer.info(f"the graph has {node.visits} visits of this position, Q {node.q:+.5f}")
        for move in node.moves:
            if move.n and move.q is not None:
                self._writer.info(f"{move.san} N {move.n} P {move.p:.2%} Q {move.q:+.5f}")

    def close(self) -> bool:
        """Ends the search, saves and closes.

        Returns:
          False if there was nothing to save, and the worker was left running.
        """
        if self._answer is not None:
            self._answer.end_soon()
        if self._opened.graph is None and self._is_busy:
            if self._answer is not None:
                self._answer.hurry()  # nobody else will: the process ends now
            return False  # compiling, or loading a network
        self._looking.shutdown(wait=False, cancel_futures=True)
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
    @property
    def _is_busy(self) -> bool:
        return self._waiting > 0

    @property
    def _is_searching(self) -> bool:
        """Whether the worker is in a search, or in the late wave of an answered one."""
        return self._answer is not None and not self._answer.is_over

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
        try:
            self._searcher.search(answer)
        finally:
            self._remember(answer)
            self._opened.searched()

    def _watch(self, answer: GoAnswer) -> None:
        """Runs a clock's thread; answers even if it fails."""
        try:
            answer.watch()
        except Exception as error:
            self._writer.info(f"ERROR: {error_line(error, answer.board.fen())}")
            answer.give()

    # ---------------------------------------------------------- when the worker is late
    def _remember(self, answer: GoAnswer) -> None:
        """Keeps the expected line, because the next position may be on it."""
        line = answer.best_line()
        if len(line) > 2:
            self._line = (answer.board.copy(stack=False), line)

    def _look_up(self, answer: GoAnswer) -> None:
        """Looks a position up in the file and in the expected line, unless it is answered by now."""
        if answer.done.is_set():
            return
        path, known = self.settings.text("GraphFile"), None
        if path and not self._opened.trouble:
            with suppress(GraphSearchError, OSError):  # the worker will report the error
                known = show(path, answer.board)
        if known is not None:
            answer.guess(known)
        else:
            answer.expect(_rest_of(self._line, answer.board))


def _rest_of(
    expected: tuple[chess.Board, tuple[chess.Move, ...]] | None, board: chess.Board
) -> tuple[chess.Move, ...]:
    """Returns the rest of an expected line, if the position is on it.

    >>> board, line = chess.Board(), tuple(map(chess.Move.from_uci, ("e2e4", "e7e5")))
    >>> board.push(line[0])
    >>> _rest_of((chess.Board(), line), board), _rest_of(None, board)
    ((Move.from_uci('e7e5'),), ())
    """
    walk, line = (expected[0].copy(), expected[1]) if expected else (board, ())
    for k, move in enumerate(line):
        if key_text(walk) == key_text(board):
            return line[k:]
        walk.push(move)
    return ()


def _import_kernels() -> None:
    """Imports the modules of a search while the GUI sets its options."""
    from ..search import loop as _  # noqa: F401
