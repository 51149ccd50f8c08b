"""The engine's graph: opened when needed, saved when idle. Only the worker's thread uses this module."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import chess

from ..base.errors import GraphSearchError, StoreError, StoreLockedError, StoreMovedError
from ..evaluators.protocol import EXTERNAL, Evaluator, PositionBatch
from ..evaluators.uniform import OutsideUniform
from ..position.board import key_of
from ..search.params import SearchParams
from .clock import BatchPace
from .options import Settings, make_substitute
from .protocol import Writer

if TYPE_CHECKING:
    from ..graph.graph import Graph

SAVE_SECONDS = 8.0  # between two saves during a series of searches
QUIET_SECONDS = 0.7  # without a search, before everything is saved
LOAD_SECONDS = 0.05  # of loading the file, between two checks for new jobs
LOADED_AHEAD = 4_000_000  # most nodes of a file that is loaded before a search needs it: 4 s of a core
Maker = Callable[[Settings], Evaluator]

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
        self.lost = False  # whether results could not be saved
        self.is_substitute = False  # whether another evaluator plays than the requested one
        self._opened_for: tuple[str, ...] | None = None
        self._warm: set[tuple[int, bool, str]] = set()
        self._background = ExitStack()  # background compilation
        self._saved_at = self._busy_at = time.monotonic()

    def is_ready(self, settings: Settings) -> bool:
        """Returns whether the graph of some settings is open, or cannot be opened."""
        return self._opened_for == settings.of_the_graph()

    def new_game(self) -> None:
        """Makes the next `prepare` retry failed steps; the graph stays open."""
        if self.trouble:
            self._opened_for = None

    # ---------------------------------------------------------- opening
    def prepare(self, settings: Settings) -> Graph | None:
        """Returns the graph of some settings, opened if necessary; None if that fails.

        It reports a failure as one line. Without the file the graph is in memory only; without the evaluator
        the built-in one replaces it, in memory only.
        """
        if self.is_ready(settings):
            return self.graph
        wanted = settings.of_the_graph()
        stays = self._opened_for is not None and settings.place_of(self._opened_for) == settings.place_of(
            wanted
        )
        if self.graph is None or self.trouble or not stays:
            self._drop_graph()
        self._close_evaluator()  # before the next one is made: both may need the same device
        self.trouble, self.is_substitute = "", False
        self._chosen = self._evaluator(settings)
        if not self._takes_over(settings, self._chosen):
            self._drop_graph()
            self.graph = self._open(settings, self._chosen)
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
                f"the {self.graph.node_count:,} positions in memory are dropped, because options changed; "
                "in a GraphFile they stay"
            )
        self._close_graph()

    def _evaluator(self, settings: Settings) -> Evaluator:
        try:
            evaluator = self._make(settings)
        except FAILURES as error:
            self._complain(
                f"{_text(error)}. Until an option is set right the built-in evaluator plays, in memory only"
            )
            evaluator, self.is_substitute = make_substitute(settings), True
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
                self._complain(f"{_text(error)}. This engine continues in memory only; nothing is saved")
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
        from ..jit.places import announced
        from ..search.warm import kernels_missing, other_kernels_compiling
        from ..solvers.mate.beside import compile_search

        purpose = (evaluator.kernel_kind, filed, params.gather)
        if purpose in self._warm:
            return
        cold = kernels_missing(evaluator, filed=filed) > 0
        if cold:
            announced()
            self._writer.info(
                "the search kernels are being compiled; this happens once and takes some 20 seconds"
            )
        is_outside = evaluator.kernel_kind == EXTERNAL
        trial = OutsideUniform() if is_outside else evaluator
        compile_search(trial, params, filed=filed, told=True, board=_repeated())
        if is_outside:
            with suppress(*FAILURES):  # a search will report the error
                evaluator.evaluate(PositionBatch.from_boards([chess.Board()]))
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
                return
        except (StoreError, OSError) as error:
            self._writer.info(f"ERROR: {_text(error)}. The next save tries again; the results are in memory")
        self._saved_at = time.monotonic()

    def close(self) -> None:
        """Saves everything, closes the file and ends the evaluator."""
        self._close_graph()
        self._close_evaluator()

    def _close_graph(self) -> None:
        graph, self.graph, self._opened_for = self.graph, None, None
        self.full_at = None
        self._background.close()
        self.pace = BatchPace()
        if graph is not None:
            self._close(graph)

    def _close_evaluator(self) -> None:
        evaluator, self._chosen = self._chosen, None
        if evaluator is not None:
            evaluator.close()

    def _close(self, graph: Graph) -> None:
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
