"""One fixed-depth search: resumes from a file, runs iteration after iteration, saves.

entry of the root known? --yes--> the answer
  | no
depth 1 (or the first unknown one) | 2 | ... | D, or D - 2 | D if the root has many visits in the graph
saved in the background:   entries + rows .. entries + rows .. all of it
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from ...base.answer import Answer, picked
from ...base.errors import InvalidParameterError, StoreError, UnsavedError
from ...evaluators.builtin.evaluation_kernel import AREA_WORDS
from ...evaluators.builtin.evaluator import load_networks
from ...evaluators.quiescence_kernel import STACK_WORDS
from ...graph.arena import Arena
from ...graph.copying_kernel import BYTES_PER_NODE
from ...graph.graph import Graph
from ...graph.saving import EntryReport
from ...jit.pointers import U
from ...jit.types import int64
from ...position.board import (
    CHECKMATE,
    CLOCK_DRAW,
    FREE_CLOCK,
    NOT_TERMINAL,
    POSITION_WORDS,
    decode_move,
    fen_of,
    history_keys,
    is_over_by_clock,
    key_text,
    pack_root,
    terminal_kind,
)
from ...position.notation import legal_part
from ...position.tables import load_tables
from ...position.values import FAR, LEAST_MATE, MATE, centipawns, mate_moves
from ...search.job import Control, SearchClock
from ...search.params import Limits
from ...store import entries
from ...store.entries import ALPHABETA, Entry, EntryTable, RunOutcome
from ...store.store import Store
from ...store.transposition_kernel import MOST_DEPTH, PROOF, PV
from . import search_kernel as kernel
from .search_kernel import QUIET_PLIES, search_slice


# ------------------------------------------------------------------------ limits and results
@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of a fixed-depth search.

    Attributes:
      nodes: positions entered, quiescence and root included. interior: those searched with depth left.
      leaves: those where none was left. quiescence: those below leaves.
      hits: entries found in the table. stored_hits: those that were in the table before this run.
      hit_cutoffs: nodes that an entry ended. cutoffs: nodes that a move's value >= beta ended.
      first_cutoffs: those ended by the first move. researches: null windows that failed, searched again.
      proofs: nodes that a proven result of the graph ended. ordered: nodes with moves ordered by the graph.
      path_draws: repetitions on the path and clocks of 100.
    """

    nodes: int = 0
    interior: int = 0
    leaves: int = 0
    quiescence: int = 0
    hits: int = 0
    stored_hits: int = 0
    hit_cutoffs: int = 0
    cutoffs: int = 0
    first_cutoffs: int = 0
    researches: int = 0
    proofs: int = 0
    ordered: int = 0
    path_draws: int = 0

    def __add__(self, other: Counts) -> Counts:
        mine, theirs = asdict(self), asdict(other)
        return Counts(**{name: mine[name] + theirs[name] for name in mine})


@dataclass(frozen=True, slots=True)
class DepthResult(Answer):
    """One iteration, a position searched to one depth with one window; or a value known without a search.

    Attributes:
      depth: plies of full width; of a known value that holds at every depth, the requested one.
      value: fail-soft, thousandths of a pawn for the side to move; MATE - n mates in n plies.
      bound: `exact`, `lower` (value >= beta) or `upper` (value <= alpha).
      pv: the principal variation, legal, `move` first; may be shorter than the depth.
      move: best move; None if the game is over, or none is known.
      alpha, beta: the window, thousandths of a pawn for the side to move.
      complete: False if it was stopped; then `value`, `bound`, `move`, `pv` are those of the finished moves.
    """

    json_keys = "depth value bound move pv seconds complete counts"

    depth: int
    value: int
    bound: str
    pv: tuple[chess.Move, ...]
    move: chess.Move | None = None
    alpha: int = -FAR
    beta: int = FAR
    counts: Counts = Counts()
    seconds: float = 0.0
    complete: bool = True


@dataclass(frozen=True, slots=True)
class KnownDepth:
    """The depth that the file knew when the search began, 0 if none, and the stored cost of reaching it."""

    depth: int = 0
    nodes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class AlphaBetaProgress:
    """Progress of a search: `depth` is that of the present iteration, the counts are of all of them."""

    seconds: float
    depth: int
    counts: Counts
    entries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlphaBetaResult:
    """The result of a search of one position to a depth.

    Attributes:
      asked: requested depth.
      depth: completed plies; 0: none, then `value` is that of the moves finished so far, if any.
      value: thousandths of a pawn for the side to move, MATE - n mates in n plies; None if nothing is known.
      bound: `exact`, `lower` (at least), `upper` (at most), empty if nothing is known.
      move: best move; None if the game is over or none is known. pv: legal, `move` first.
      iterations: of this run, including a stopped one. report: outcome of loading the file's entries.
      entries: in memory at the end. graph_nodes: positions of the graph that could order moves.
      stop_reason: `depth`, `known` (the file had the answer), `mate` (deeper searches find the same), `time`,
        `nodes`, `stop`, `reader`, `finished` (the game is over).
    """

    board: chess.Board
    asked: int
    depth: int
    value: int | None
    bound: str
    move: chess.Move | None
    pv: tuple[chess.Move, ...]
    iterations: tuple[DepthResult, ...]
    known: KnownDepth
    report: EntryReport
    entries: int
    graph_nodes: int
    seconds: float
    stop_reason: str
    store: str | None = None

    @property
    def counts(self) -> Counts:
        """Counts of all iterations of this run."""
        return sum((iteration.counts for iteration in self.iterations), Counts())

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of the result."""
        return {
            "position": fen_of(self.board),
            "key": key_text(self.board),
            **picked(self, "store asked depth value"),
            "cp": None if self.value is None else centipawns(self.value),
            "mate": None if self.value is None else mate_moves(self.value),
            "bound": self.bound or None,
            **picked(self, "bestmove=move pv nodes=counts.nodes seconds stop_reason counts known"),
            "entries": {"in_memory": self.entries, **self.report.as_dict()},
            **picked(self, "graph_nodes iterations"),
        }


# ------------------------------------------------------------------------ facts about a root
MOST_LINE = 200  # plies


def continued(table: EntryTable, board: chess.Board, most: int) -> list[chess.Move]:
    """Returns the line that entries give from a position, at most `most` moves.

    It has the best moves of exact values; in a proven mate the winner's moves and the longest defence.
    """
    game = board.copy(stack=False)
    line: list[chess.Move] = []
    while len(line) < most:
        move = _next_move(table, game)
        if move is None or move not in game.legal_moves:  # of another position with the same key
            break
        line.append(move)
        game.push(move)
        if game.is_repetition(2):
            break
    return line


def _next_move(table: EntryTable, board: chess.Board) -> chess.Move | None:
    entry = table.get(board)
    if entry is None:
        return None
    plies = entry.mate_plies
    if plies is None:
        return entry.move if entry.bound == "exact" else None
    return entry.move if plies > 0 else _longest_defence(table, board) or entry.move


def _longest_defence(table: EntryTable, board: chess.Board) -> chess.Move | None:
    """Returns the longest defence by the entries; None if they do not cover every move."""
    lasts: dict[chess.Move, int] = {}
    for move in list(board.legal_moves):
        board.push(move)
        entry = table.get(board)
        board.pop()
        plies = entry.mate_plies if entry else None
        if plies is None or plies <= 0:
            return None
        lasts[move] = plies
    return max(lasts, key=lambda move: lasts[move], default=None)


def usable_entry(table: EntryTable, board: chess.Board) -> Entry | None:
    """Returns the root's entry if its bound holds in this very game, else None.

    An entry is unusable if a position of the game could repeat, or the clock could run out.
    """
    entry = table.get(board)
    if entry is None or not entry.bound or len(history_keys(board)):
        return None
    clock = board.halfmove_clock
    if entry.mate_plies is not None:
        return entry if clock + abs(entry.mate_plies) <= CLOCK_DRAW else None
    if entry.depth != PROOF and clock <= FREE_CLOCK and clock + entry.depth + QUIET_PLIES >= CLOCK_DRAW:
        return None
    return entry


def is_shortest_mate(value: int, bound: str, depth: int) -> bool:
    """Returns whether a value is a mate that no search of another depth changes: the depth covers it."""
    return abs(value) >= LEAST_MATE and bound == "exact" and (MATE - abs(value) <= depth or depth == PROOF)


def facts_of(
    entry: Entry | None, table: EntryTable, board: chess.Board, rows: Mapping[int, RunOutcome]
) -> list[DepthResult]:
    """Returns all known facts about a root, the deepest last; at equal depth runs come after the entry.

    An entry may be weaker than the run that wrote it, because it must hold for every path to the position.
    `rows`: earlier iterations by depth.
    """
    facts = []
    if entry is not None:
        same = [tuple(legal_part(board, row.pv.split())) for row in rows.values() if row.value == entry.value]
        line = max([*same, tuple(continued(table, board, MOST_LINE))], key=len)
        facts.append(DepthResult(entry.depth, entry.value, entry.bound, line))
    facts += [
        DepthResult(depth, row.value, row.bound or "", tuple(legal_part(board, row.pv.split())))
        for depth, row in rows.items()
        if row.value is not None
    ]
    return sorted(facts, key=lambda fact: fact.depth)


def answer_of(facts: Sequence[DepthResult], depth: int) -> DepthResult | None:
    """Returns the deepest exact fact that is deep enough, None without one; a proof holds at every depth."""
    for fact in reversed(facts):
        proven = is_shortest_mate(fact.value, fact.bound, fact.depth)
        if fact.bound == "exact" and (proven or fact.depth >= depth):
            return replace(fact, depth=depth if proven or fact.depth == PROOF else fact.depth)
    return None


# ----------------------------------------------------------------------------- one iteration
SLICE_NODES = 200_000  # between two looks at the clock and the caller: about a tenth of a second
CACHE_PLACES = 1 << 18  # of leaves, 16 bytes each
UNLIMITED = 1 << 62


def new_search(table: NDArray[np.uint64], weights: NDArray[np.int64], cache_places: int) -> kernel.Search:
    """Returns empty memory with room for `cache_places` leaves, a power of two."""
    return kernel.Search(
        table=table,
        weights=weights,
        positions=np.zeros(kernel.PLIES * POSITION_WORDS, np.uint64),
        keys=np.zeros(kernel.PLIES * 2, np.uint64),
        frames=np.zeros(kernel.PLIES * kernel.FRAME, np.int64),
        moves=np.zeros(kernel.PLIES * kernel.MOVE_ROOM, np.uint16),
        scores=np.zeros(kernel.PLIES * kernel.MOVE_ROOM, np.int64),
        lines=np.zeros(kernel.PLIES * kernel.PLIES, np.uint16),
        lengths=np.zeros(kernel.PLIES, np.int64),
        counters=np.zeros(kernel.COUNTERS, np.int64),
        killers=np.zeros(kernel.PLIES * 2, np.int64),
        history=np.zeros(2 * kernel.FROM_TO, np.int64),
        game=np.zeros(0, np.uint64),
        cache=np.zeros(2 * cache_places, np.uint64),
        cache_mask=U(cache_places - 1),
        quiet=np.zeros(STACK_WORDS, np.uint64),
        area=np.zeros(AREA_WORDS, np.uint64),
        gains=np.zeros(64, np.uint64),
        scratch=np.zeros(kernel.MOVE_ROOM, np.uint16),
    )


class AlphaBeta:
    """Searches positions to a fixed depth with one table of entries. Not for several threads at once."""

    def __init__(self, table: EntryTable, arena: Arena | None = None) -> None:
        """Creates an engine that reads entries and adds its own.

        `arena`: a graph in memory; its visits and priors order moves, and its proofs end nodes.
        """
        self.table = table
        self.arena = arena
        self._memory: Any = new_search(load_tables(), load_networks().words, CACHE_PLACES)
        self._graph = arena or Arena(1, logged=False)  # an empty one is not read

    def search(
        self,
        board: chess.Board,
        depth: int,
        alpha: int = -FAR,
        beta: int = FAR,
        *,
        node_limit: int = UNLIMITED,
        on_slice: Callable[[Counts], bool] = lambda _: False,
    ) -> DepthResult:
        """Returns the result of one search of a position, with one depth and one window.

        Args:
          board: the position, with its game as move stack: positions that stood twice in it count as draws.
          depth: plies of full width, 0 (quiescence only) to 126.
          alpha, beta: the window, thousandths of a pawn for the side to move, alpha < beta.
          node_limit: ends the search early after so many nodes (it finishes a quiescence that has begun).
          on_slice: called with the counts so far, every `SLICE_NODES` nodes or less; True ends the search.

        Raises:
          InvalidPositionError: if the position cannot be searched.
        """
        started = time.monotonic()
        self._prepare(board, depth, alpha, beta)
        complete = False
        while not complete and not on_slice(counts := self.counts) and counts.nodes < node_limit:
            until = int64(min(node_limit, counts.nodes + SLICE_NODES))
            complete = bool(search_slice(self._memory, self.table.arrays, self._graph.arrays, until))
        frame, counts, seconds = self._memory.frames, self.counts, time.monotonic() - started
        value, best = int(frame[kernel.BEST]), int(frame[kernel.BEST_MOVE])
        if not complete and value <= alpha:  # the moves that are left may be better
            return DepthResult(depth, 0, "", (), None, alpha, beta, counts, seconds, complete)
        bound = "lower" if value >= beta or not complete else "upper" if value <= alpha else "exact"
        pv = self._line(board, depth)
        move = pv[0] if pv else decode_move(best) if best else None
        return DepthResult(depth, value, bound, pv, move, alpha, beta, counts, seconds, complete)

    @property
    def counts(self) -> Counts:
        """Counts of the present or last search."""
        return Counts(*self._memory.counters[: len(fields(Counts))].tolist())

    def _prepare(self, board: chess.Board, depth: int, alpha: int, beta: int) -> None:
        arrays = self._memory.replace(game=history_keys(board))
        arrays.positions[:POSITION_WORDS] = pack_root(board)
        arrays.counters[:] = 0
        arrays.killers[:] = 0
        arrays.history[:] //= 2
        frame = arrays.frames
        frame[kernel.ALPHA], frame[kernel.BETA] = alpha, beta
        frame[kernel.DEPTH], frame[kernel.KIND] = depth, PV
        frame[kernel.BEST], frame[kernel.BEST_MOVE] = -FAR, 0
        arrays.lengths[0] = 0
        arrays.counters[kernel.MODE] = kernel.ENTER
        arrays.counters[kernel.WITH_GRAPH] = self.arena is not None
        self._memory = arrays

    def _line(self, board: chess.Board, depth: int) -> tuple[chess.Move, ...]:
        """Returns the principal variation, extended by entries where an entry ended it."""
        length = int(self._memory.lengths[0])
        line = [decode_move(int(code)) for code in self._memory.lines[:length]]
        game = board.copy(stack=False)
        for move in line:
            game.push(move)
        plies = MATE - abs(int(self._memory.frames[kernel.BEST]))
        return (*line, *continued(self.table, game, max(depth, plies if plies < MOST_LINE else 0) - length))


def warm_up() -> None:
    """Compiles the kernels by a short search."""
    AlphaBeta(EntryTable(0)).search(chess.Board(), 2, -FAR, FAR)


# ---------------------------------------------------------------- the search of one position
TABLE_BYTES = 256 << 20
SAVE_SECONDS = 3.0  # between two saves during an iteration
WELL_VISITED = 1000  # visits of a root that spare the first iterations


def search_to_depth(
    graph: Graph,
    board: chess.Board,
    depth: int = MOST_DEPTH,
    limits: Limits | None = None,
    control: Control | None = None,
    *,
    table_bytes: int = TABLE_BYTES,
    on_depth: Callable[[DepthResult], None] | None = None,
) -> AlphaBetaResult:
    """Searches a position to a depth, saves everything, and returns the result.

    It begins with the first depth that has no exact entry in the graph. File and graph order moves and save
    work; they do not change values, except for proofs of the graph.

    Args:
      graph: the search uses and saves its entries (`Graph.use_entries`); it does not call its evaluator.
      board: the position, with its game as move stack: positions that stood twice in it count as draws.
      depth: plies of full width, 1 to 126.
      limits: when to stop earlier; visits are nodes, quiescence included, and evaluations do not count.
      control: stops the search, after saving, and gets its progress within an iteration.
      table_bytes: most memory of the entries, if the graph uses none yet.
      on_depth: called after each iteration.

    Raises:
      InvalidParameterError: if the depth is out of range.
      InvalidPositionError: if the position is not legal.
      UnsavedError: if the file cannot be written; its `result` is the search's result.
      StoreError: if the file cannot be read.
      GraphSearchError: if another search is running on the graph.
    """
    if not 1 <= depth <= MOST_DEPTH:
        raise InvalidParameterError(f"depth is {depth}, expected 1 to {MOST_DEPTH} plies")
    with graph.held():
        session = _AlphaBetaSession(graph, board, depth, limits or Limits(), control or Control())
        session.on_depth = on_depth
        return session.run(graph.use_entries(table_bytes))


class _AlphaBetaSession:
    def __init__(
        self, graph: Graph, board: chess.Board, depth: int, limits: Limits, control: Control
    ) -> None:
        self.graph = graph
        self.board = board
        self.asked, self.limits = depth, limits
        self.clock = SearchClock(limits, control)
        self.history = len(history_keys(board))
        self.on_depth: Callable[[DepthResult], None] | None = None
        self.saved_at = self.clock.started
        self.iterations: list[DepthResult] = []
        self.depth = 0  # of the iteration under way
        self.known = KnownDepth()
        self.answer: DepthResult | None = None
        self.before: DepthResult | None = None  # the deepest exact value known when the search began
        self.graph_nodes = 0
        self.run_id: int | None = None
        self.unsaved: StoreError | None = None
        self.stop_reason = ""

    # ---------------------------------------------------------- the loop
    def run(self, table: EntryTable) -> AlphaBetaResult:
        self.table = table
        kind = terminal_kind(self.board)
        if kind != NOT_TERMINAL or is_over_by_clock(self.board):
            self.stop_reason = "finished"
            self.answer = DepthResult(0, -MATE if kind == CHECKMATE else 0, "exact", ())
            return self._result()
        self._look_up()
        if self.answer is None:
            self._search()
        result = self._result()
        if self.unsaved is None:
            return result
        failure = UnsavedError(str(self.unsaved))
        failure.result = result
        raise failure from self.unsaved

    def _look_up(self) -> None:
        rows: dict[int, RunOutcome] = {}
        if not self.history:
            position, key = fen_of(self.board), key_text(self.board)
            evaluation = self.graph.entries.evaluation
            self.graph.call(lambda store: rows.update(entries.iterations(store, position, key, evaluation)))
        facts = facts_of(usable_entry(self.table, self.board), self.table, self.board, rows)
        if exact := [fact.depth for fact in facts if fact.bound == "exact" and fact.depth != PROOF]:
            done = [row for depth, row in rows.items() if depth <= exact[-1]]
            seconds = sum(row.seconds for row in done)
            self.known = KnownDepth(exact[-1], sum(row.nodes for row in done), seconds)
        self.answer = answer_of(facts, self.asked)
        self.before = next((fact for fact in reversed(facts) if fact.bound == "exact"), None)
        if self.answer is not None:
            self.stop_reason = "known"

    def _search(self) -> None:
        self.graph.note_later(self._begin)
        try:
            self.graph_nodes = bring_visited(self.graph, self.board)
            self.engine = AlphaBeta(self.table, self.graph.arena if self.graph_nodes else None)
            self.table.next_search()
            self._iterate()
        except StoreError as error:
            self.unsaved = error
        finally:
            self._end()

    def _iterate(self) -> None:
        for depth in self._depths():
            self.depth = depth
            if self._must_stop():
                return
            # A window around the value of the iteration before gains nothing: with 0.15, 0.3, 0.6 and 1.2
            # pawns to each side six positions took 98 to 102 % of the nodes to depths 6 and 7.
            limit = self.limits.visits
            left = UNLIMITED if limit is None else limit - self._counts().nodes
            found = self.engine.search(self.board, depth, node_limit=left, on_slice=self._between)
            self.iterations.append(found)
            if not found.complete:
                self.stop_reason = self.stop_reason or "nodes"
                return
            self.graph.note_later(self._row_of(found))
            self._save()
            if self.on_depth:
                self.on_depth(found)
            if is_shortest_mate(found.value, found.bound, found.depth) and found.depth < self.asked:
                self.stop_reason = "mate"
                return
        self.stop_reason = "depth"

    def _depths(self) -> Sequence[int]:
        """Returns the depths to search: all unknown ones, but few if the root has many visits in the graph.

        Visits order moves as early iterations would: with 30,000 of them six positions took 0.78 and 0.86
        of the nodes to depths 6 and 7 that all iterations take alone.
        """
        first, last = self.known.depth + 1, self.asked
        record = self.graph.read(self.board) if self.graph_nodes else None
        if self.limits.as_dict() or record is None or record.visits < WELL_VISITED:
            return range(first, last + 1)
        return [depth for depth in (last - 2, last) if depth >= first]

    def _counts(self) -> Counts:
        return sum((iteration.counts for iteration in self.iterations), Counts())

    def _must_stop(self) -> bool:
        reached = self.clock.reached(visits=self._counts().nodes)
        self.stop_reason = "nodes" if reached == "visits" else reached
        if not reached and self.graph.log_held:
            self.stop_reason = "reader"
        return bool(self.stop_reason)

    def _between(self, counts: Counts) -> bool:
        """Saves and reports during an iteration, at intervals; returns whether it must stop."""
        if time.monotonic() - self.saved_at >= SAVE_SECONDS:
            self._save()
        self.clock.tell(
            lambda: AlphaBetaProgress(
                self.clock.seconds, self.depth, self._counts() + counts, self.table.count
            )
        )
        return self._must_stop()

    # ---------------------------------------------------------- saving
    def _begin(self, store: Store) -> None:
        limits: dict[str, float] = {"depth": self.asked}
        limits |= {
            "nodes" if name == "visits" else name: most for name, most in self.limits.as_dict().items()
        }
        if self.history:
            limits[entries.HISTORY] = self.history
        self.run_id = entries.begin(
            store, ALPHABETA, fen_of(self.board), key_text(self.board), limits, self.graph.entries.evaluation
        )

    def _row_of(self, found: DepthResult | None) -> Callable[[Store], None]:
        """Returns what writes an iteration and the results so far, or, without one, the end of the run."""
        total = _outcome(self._best(), self._counts(), self.clock.seconds)

        def write(store: Store) -> None:
            assert self.run_id is not None
            if found is not None:
                entries.add_iteration(store, self.run_id, _outcome(found, found.counts, found.seconds))
            entries.update(store, self.run_id, total, finished=found is None)

        return write

    def _save(self) -> None:
        """Starts to save unsaved entries and rows; never waits."""
        if self.graph.store is not None:
            self.graph.save_soon()
            self.saved_at = time.monotonic()

    def _end(self) -> None:
        try:
            self.graph.flush(self._row_of(None))
        except StoreError as error:
            self.unsaved = error

    # ---------------------------------------------------------- reporting
    def _best(self) -> DepthResult | None:
        """Returns the deepest complete iteration, or the stopped one if there is none."""
        done = [iteration for iteration in self.iterations if iteration.complete]
        return done[-1] if done else self.iterations[-1] if self.iterations else None

    def _result(self) -> AlphaBetaResult:
        best = self._best()
        answer = self.answer or (best if best and best.complete else self.before)
        if answer is None and best is not None and best.bound:
            answer = replace(best, depth=0)  # of the moves that are finished
        return AlphaBetaResult(
            board=self.board,
            asked=self.asked,
            depth=answer.depth if answer else 0,
            value=answer.value if answer else None,
            bound=answer.bound if answer else "",
            move=answer.pv[0] if answer and answer.pv else best.move if best else None,
            pv=answer.pv if answer else (),
            iterations=tuple(self.iterations),
            known=self.known,
            report=self.graph.entries.report,
            entries=self.table.count,
            graph_nodes=self.graph_nodes,
            seconds=self.clock.seconds,
            stop_reason=self.stop_reason,
            store=str(self.graph.path) if self.graph.path else None,
        )


COUNTED = ("nodes", "hits", "stored_hits", "cutoffs", "first_cutoffs")  # of `Counts`, in a run


def _outcome(found: DepthResult | None, counts: Counts, seconds: float) -> RunOutcome:
    row = RunOutcome(**{name: getattr(counts, name) for name in COUNTED}, seconds=seconds)
    if found is None or not found.complete:
        return row
    return replace(
        row,
        depth=found.depth,
        alpha=found.alpha,
        beta=found.beta,
        value=found.value,
        bound=found.bound,
        best_move=found.move.uci() if found.move else None,
        pv=" ".join(move.uci() for move in found.pv),
    )


MOST_BROUGHT = 20_000  # read from a large file: some seconds
LEAST_VISITS = 2  # of an edge to follow


def bring_visited(graph: Graph, board: chess.Board, most: int = MOST_BROUGHT) -> int:
    """Reads the most visited positions below one into memory; returns the number of nodes in memory then.

    A small file is already in memory as a whole.

    Raises:
      StoreError: if the file cannot be read.
    """
    if graph.store is not None and not graph.pager.complete:
        batch = graph.pager.records_below(board, most, least=LEAST_VISITS)
        graph.make_room(len(batch), len(batch) * BYTES_PER_NODE)
        graph.pager.enter(batch)
    return graph.arena.node_count
