"""The mate search of one position: both sides, by length, until the shortest is proven or a limit is reached.

It asks for each side's shortest open length, for some longer ones and for a mate of any length; after it has
found a mate, it also asks for the next shorter one. Rounds get longer, so that no question starves. All
questions share one table of the prover, which holds the line.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, NoReturn

import chess
import numpy as np
from chess.polyglot import zobrist_hash

from ...base.answer import Answer
from ...base.errors import CapacityError, GraphSearchError, InvalidParameterError
from ...graph.graph import Graph
from ...jit.types import uint64
from ...position.board import (
    CLOCK_DRAW,
    DEAD,
    NOT_TERMINAL,
    after,
    check,
    decode_move,
    fen_of,
    history_keys,
    is_over_by_clock,
    key_of,
    may_claim,
    occurrences,
    pack_root,
    terminal_kind,
)
from ...position.board_kernel import PW
from ...position.tables import load_tables
from ...position.values import MATE
from ...search.job import Control, SearchClock
from ...search.params import Limits
from ...store.entries import BOUNDS, Entry, EntryTable, check_of
from ...store.transposition_kernel import PROOF
from . import proof_kernel as kernel
from .proof_kernel import ANY_LENGTH

# --------------------------------------------------------------------------------- the sides
MOST_MOVES = 124  # of the longest mate to look for: two plies each fit a path of the kernels (MOST_PLIES)
DEFAULT_LIMITS = Limits(seconds=60.0)
# further lengths to ask for while no mate is known, in moves beyond the shortest open length
LENGTHS_AHEAD = (1, 2, 4, 7, 12)


@dataclass(slots=True)
class Side:
    """The search for a mate by one side; lengths are in moves.

    Attributes:
      attacks: whether the side is to move at the root. most: the longest mate to look for.
      excluded: moves within which it cannot mate. found: the shortest mate known, None without one.
      closed: whether its questions have ended. lost_any: whether one without a limit ended without a mate.
      weight: share of a round's visits that its questions get, in (0, 1].
    """

    attacks: bool
    most: int = MOST_MOVES
    excluded: int = 0
    found: int | None = None
    closed: bool = False
    lost_any: bool = False
    weight: float = 1.0

    @property
    def is_shortest(self) -> bool:
        """Whether the mate found is proven to be the shortest."""
        return self.found is not None and self.excluded >= self.found - 1

    @property
    def is_done(self) -> bool:
        """Whether no question is left."""
        return self.closed or self.is_shortest or (self.found is None and self.excluded >= self.most)

    def plies(self, moves: int) -> int:
        """Returns the plies of a mate in so many moves.

        >>> Side(True).plies(3), Side(False).plies(3)
        (5, 6)
        """
        return 2 * moves - 1 if self.attacks else 2 * moves

    def moves(self, plies: int) -> int:
        """Returns the moves of a mate of so many plies."""
        return (plies + 1) // 2

    def questions(self) -> list[tuple[int, float]]:
        """Returns (plies, share of the round's visits) of the questions beyond the shortest open length.

        >>> Side(True, excluded=2, found=6).questions()
        [(9, 1.0)]
        >>> Side(True, most=3).questions()
        [(3, 0.5), (5, 0.5)]
        """
        if self.found is not None:
            return [(self.plies(self.found - 1), 1.0)]
        lengths = [self.excluded + 1 + more for more in LENGTHS_AHEAD]
        if self.most < MOST_MOVES and self.most not in lengths:
            lengths.append(self.most)
        asked = [(self.plies(moves), 0.5) for moves in lengths if moves <= self.most]
        if self.found is None and self.most == MOST_MOVES and not self.lost_any:
            asked.append((ANY_LENGTH, 0.5))
        return asked

    def note(self, plies: int, *, proven: int | None, disproved: bool) -> None:
        """Records an answer: the length of a proof, or that there is none within `plies`."""
        if proven is not None:
            moves = self.moves(proven)
            if moves <= self.most:
                self.found = moves if self.found is None else min(self.found, moves)
        elif disproved and plies == ANY_LENGTH:
            self.lost_any = True
        elif disproved:
            self.excluded = max(self.excluded, self.moves(plies))


def mating_move(board: chess.Board) -> chess.Move | None:
    """Returns a move that mates at once, at any halfmove clock; None without one."""
    for move in board.legal_moves:
        board.push(move)
        mates = board.is_checkmate()
        board.pop()
        if mates:
            return move
    return None


# -------------------------------------------------------------------------------- the prover
PLACE_BYTES = 24  # of one place of the table
LEAST_PLACES, FIRST_PLACES = 1 << 12, 1 << 17
TABLE_BYTES = 1 << 28  # most, by default: 8 million places are 192 MiB
PLACES_PER_VISIT = 2  # a table with fewer grows

assert 2 * MOST_MOVES < kernel.MOST_PLIES


class ProofNumbers(NamedTuple):
    """Proof and disproof number of one question, 0 if it is proven or disproved; plies of its proof."""

    pn: int
    dn: int
    plies: int


def _table(places: int) -> kernel.Table:
    """Returns an empty table with so many places, a power of two."""
    keys, numbers, data = (np.zeros(places, np.uint64) for _ in range(3))
    return kernel.Table(keys=keys, numbers=numbers, data=data, mask=places - 1)


class Prover:
    """A table of proofs and disproofs, and the search that fills it. One thread."""

    def __init__(self, *, size: int = TABLE_BYTES, drawn: Iterable[int] = ()) -> None:
        """Creates an empty table of at most `size` bytes, which begins small and grows.

        `drawn`: Polyglot keys of positions that stood twice in the game: reaching one is a draw.
        """
        self._most_places = LEAST_PLACES
        while 2 * self._most_places * PLACE_BYTES <= size:
            self._most_places *= 2
        deep, keys = kernel.MOST_PLIES + 3, np.array([*drawn, 0], np.uint64)
        self.memory: Any = kernel.Memory(
            table=_table(min(FIRST_PLACES, self._most_places)),
            words=np.zeros(deep * PW, np.uint64),
            moves=np.zeros(deep * kernel.ROOM, np.uint16),
            children=np.zeros(deep * kernel.ROOM * kernel.CHILD_WORDS, np.int64),
            frames=np.zeros(deep * kernel.FRAME_WORDS, np.int64),
            drawn=keys,
            drawn_count=len(keys) - 1,
            counters=np.zeros(kernel.COUNTERS, np.int64),
            result=np.zeros(kernel.RESULT_WORDS, np.int64),
        )
        self._tables = load_tables()

    @property
    def visits(self) -> int:
        """Nodes expanded, counted each time."""
        return int(self.memory.counters[kernel.VISITS])

    def ask(self, board: chess.Board, *, attacks: bool, plies: int, visits: int) -> ProofNumbers:
        """Returns the numbers of a question after at most `visits` more visits.

        Args:
          board: a position with a legal move.
          attacks: whether the side to move is to mate, else the other side.
          plies: of the longest mate; ANY_LENGTH: no limit, and then a disproof holds for nothing else.
        """
        places = self.memory.table.keys.size
        if self.visits * PLACES_PER_VISIT >= places and places < self._most_places:
            self.spread(min(4 * places, self._most_places))  # a visit stores one entry, often an existing one
        self.memory.counters[kernel.VISIT_LIMIT] = self.visits + visits
        kernel.prove(self._tables, self.memory, pack_root(board), attacks, plies, False)
        return ProofNumbers(*self.memory.result.tolist())

    def spread(self, places: int = LEAST_PLACES) -> None:
        """Rehashes the table into one of at least `places` places."""
        larger = _table(max(places, self.memory.table.keys.size))
        kernel.spread(self.memory.table, larger)
        self.memory = self.memory.replace(table=larger)

    def look(self, board: chess.Board, *, attacks: bool, plies: int) -> dict[chess.Move, int] | None:
        """Returns the moves of a position whose mate is proven, each with the plies that are left after it.

        It takes one more visit, and returns None if the mate within `plies` is not proven.
        """
        self.memory.counters[kernel.VISIT_LIMIT] = self.visits + 1
        count = int(kernel.prove(self._tables, self.memory, pack_root(board), attacks, plies, True))
        children = self.memory.children[: count * kernel.CHILD_WORDS].reshape(count, kernel.CHILD_WORDS)
        moves = zip(self.memory.moves[:count].tolist(), children.tolist(), strict=True)
        proven = {decode_move(code): row[kernel.LENGTH] for code, row in moves if row[kernel.PN] == 0}
        return None if self.memory.result[kernel.RESULT_PN] else proven

    @property
    def proofs(self) -> int:
        """Number of positions in the table with a proven mate, by either side."""
        places = self.memory.table
        is_proof = places.numbers < 1 << int(kernel.PROOF_AT)
        return int(np.count_nonzero(is_proof & (places.keys != 0)))


# ---------------------------------------------------------------- the search of one position
FIRST_ROUND, GROWTH = 2_000, 1.5  # visits of a question in the first round, and from round to round
SLICE = 1_000  # visits between two looks at the clock: 4 to 6 ms
REPROOF_VISITS = 100_000  # of one attempt to find a lost proof again
REPROOF_TIMES = 50  # attempts; after them the table counts as too small
DOUBT_VISITS = 2_000  # to find that a defence is shorter than its proof
Steps = Generator[None, None, str]  # yields after each slice; returns a stop reason, empty to search on


@dataclass(frozen=True, slots=True)
class MateProgress:
    """Progress of a mate search; `excluded` and `mate` as in `MateResult`."""

    seconds: float
    visits: int
    excluded: int
    mate: int | None


@dataclass(frozen=True, slots=True)
class MateResult:
    """The result of a mate search.

    Attributes:
      mate: moves to mate; negative: the side to move is mated; 0: it is mated already; None: none is proven.
      pv: best attack and longest defence, all of it.
      shortest: whether no shorter mate exists. excluded: moves within which neither side can force mate.
      visits: nodes expanded. proofs: positions proven.
      stop_reason: `proven`, `excluded` (none within the requested moves), `visits`, `time`, `stop`,
        `finished` (the game is over: checkmate, stalemate, dead position or 75-move rule), `claimable` (the
        side to move may claim a draw, and cannot mate) or `hopeless` (neither side has the pieces).
      stored: whether proven positions were written to the table of entries.
    """

    position: str
    mate: int | None
    pv: tuple[chess.Move, ...]
    shortest: bool
    excluded: int
    visits: int
    seconds: float
    proofs: int
    stop_reason: str
    stored: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Returns the object of JSON answers."""
        return asdict(self) | {"pv": [move.uci() for move in self.pv], "seconds": round(self.seconds, 3)}


def find_mate(
    board: chess.Board,
    limits: Limits = DEFAULT_LIMITS,
    control: Control | None = None,
    *,
    moves: int | None = None,
    entries: EntryTable | None = None,
    table_bytes: int = TABLE_BYTES,
) -> MateResult:
    """Searches for the shortest mate of either side.

    Args:
      board: with the moves before it, which count for repetitions.
      limits: when to stop; visits are nodes expanded, and evaluations do not count.
      control: stops the search, and gets its progress.
      moves: of the longest mate to look for, 1 to MOST_MOVES; None: the longest.
      entries: the search uses its proofs, and writes new ones to it.

    Raises:
      InvalidPositionError: if the position is not one of standard chess.
      InvalidParameterError: if `moves` is out of range.
    """
    check(board)
    return MateSearch(board, entries=entries, table_bytes=table_bytes).run(limits, control, moves=moves)


def note_proof(graph: Graph, board: chess.Board) -> None:
    """Queues a mate proven by the best-first search, to be saved among the graph's entries."""
    record, table = graph.read(board), graph.entries.table
    proof = record.proof_at(board.halfmove_clock) if record else None
    if table is not None and proof is not None and proof.mate:
        _note_mate(table, board, proof.mate, wins=proof.result > 0, exact=False, move=None)


def _note_mate(
    table: EntryTable, board: chess.Board, plies: int, *, wins: bool, exact: bool, move: chess.Move | None
) -> bool:
    """Writes a proven mate to a table unless its entry is as good; returns whether it did.

    `wins`: whether the side to move mates.
    """
    bound = "exact" if exact else "lower" if wins else "upper"
    entry = Entry(MATE - plies if wins else plies - MATE, PROOF, bound, move, "", 0)
    key, check = uint64(key_of(board)), uint64(check_of(board))
    if not kernel.is_better(table.arrays, key, check, entry.value, BOUNDS.index(bound)):
        return False
    table.put(board, entry)
    return True


class MateSearch:
    """Both sides of one position, and the prover that they share."""

    def __init__(
        self,
        board: chess.Board,
        *,
        entries: EntryTable | None = None,
        table_bytes: int = TABLE_BYTES,
    ) -> None:
        """Creates a search; `run`, or `limit` and `steps`, or `take` and `line` must follow."""
        drawn = history_keys(board)
        self.board = board.copy(stack=False)
        self.entries = entries
        self._is_free = not len(drawn)  # no repetition affects the results
        self.prover = Prover(size=table_bytes, drawn=[int(key) for key in drawn])
        self.sides = [self._side(attacks=True), self._side(attacks=False)]
        self._clock = SearchClock(Limits(), Control())
        self.stop_reason = ""
        self._reproof = REPROOF_VISITS, REPROOF_TIMES  # as in `take`

    def _side(self, *, attacks: bool) -> Side:
        side = Side(attacks)
        colour = self.board.turn if attacks else not self.board.turn
        may_claim = not attacks and self.board.halfmove_clock >= CLOCK_DRAW
        side.closed = may_claim or self.board.occupied_co[colour].bit_count() == 1  # a bare king
        return side

    def warm_up(self) -> None:
        """Compiles the kernels, if needed, with a mate in one: compilation cannot be stopped later."""
        entries = None if self.entries is None else EntryTable(0)
        trial = MateSearch(chess.Board("7k/8/6K1/8/8/8/8/R7 w - - 0 1"), entries=entries, table_bytes=0)
        trial.prover.spread()
        trial.run()

    # -------------------------------------------------------------- the search
    def run(
        self, limits: Limits = DEFAULT_LIMITS, control: Control | None = None, *, moves: int | None = None
    ) -> MateResult:
        """Searches until the shortest mate is proven or a limit is reached; see `find_mate`."""
        if moves is not None and not 1 <= moves <= MOST_MOVES:
            raise InvalidParameterError(f"moves must be from 1 to {MOST_MOVES}, not {moves}")
        self.limit(limits, control or Control(), moves=moves)
        over = self._over()
        if over is not None:
            return over
        self.take()
        for _ in self.steps():
            self._clock.tell(
                lambda: MateProgress(self._clock.seconds, self.prover.visits, self.excluded, self.mate)
            )
        pv = self.line()
        return MateResult(
            position=fen_of(self.board),
            mate=self.mate,
            pv=pv,
            shortest=self.is_shortest,
            excluded=self.excluded,
            visits=self.prover.visits,
            stored=self._share(pv),
            seconds=self._clock.seconds,
            proofs=self.prover.proofs,
            stop_reason=self.stop_reason,
        )

    def take(self, *, reproof: tuple[int, int] = (REPROOF_VISITS, REPROOF_TIMES)) -> None:
        """Imports the proofs of the table of entries, and notes the proof of the root.

        `reproof`: visits of an attempt to find a proof again that the line lacks, and number of attempts.
        """
        self._reproof = reproof
        if self.entries is None or not self._is_free:
            return
        kernel.take_entries(self.prover.memory.table, self.entries.arrays)
        entry = self.entries.get(self.board)
        plies = entry.mate_plies if entry else None
        if entry is None or not plies or self.board.halfmove_clock + abs(plies) > CLOCK_DRAW:
            return
        side = self.sides[0 if plies > 0 else 1]
        side.note(abs(plies), proven=abs(plies), disproved=False)
        if side.found is not None and entry.bound == "exact" and entry.depth == PROOF:
            side.excluded = side.found - 1
        self._close_other(side)

    def _over(self) -> MateResult | None:
        """Returns the result if the game is over, or if a late move mates."""
        kind, seconds = terminal_kind(self.board), self._clock.seconds
        if may_claim(self.board) and (move := mating_move(self.board)):
            return MateResult(fen_of(self.board), 1, (move,), True, 0, 0, seconds, 1, "proven")
        if kind == NOT_TERMINAL and not is_over_by_clock(self.board):
            return None
        mated = kind != NOT_TERMINAL and kind != DEAD and self.board.is_check()
        return MateResult(fen_of(self.board), 0 if mated else None, (), mated, 0, 0, seconds, 0, "finished")

    def limit(self, limits: Limits, control: Control, *, moves: int | None = None) -> None:
        """Sets new limits, which count from now on; the next `steps` continues the search."""
        if limits.visits is not None:
            limits = replace(limits, visits=limits.visits + self.prover.visits)
        self._clock = SearchClock(limits, control)
        for side in self.sides:
            side.most = MOST_MOVES if moves is None else moves

    def steps(self) -> Iterator[None]:
        """Searches slice by slice until a limit is reached or nothing is left to ask (`stop_reason`).

        Between two slices the caller may do anything, and read `mate` and `line`.
        """
        budget = float(FIRST_ROUND)
        self.stop_reason = self._ended()
        while not self.stop_reason:
            reason = (yield from self._climb(int(budget))) or (yield from self._look_ahead(budget))
            self.stop_reason = reason or self._ended()
            budget *= GROWTH

    def _climb(self, visits: int) -> Steps:
        """Asks both sides for their shortest open lengths; returns the stop reason, or empty."""
        for side in self.sides:
            goal = self.prover.visits + int(visits * side.weight)
            while not side.is_done and self.prover.visits < goal:
                left = goal - self.prover.visits
                reason = yield from self._pursue(side, side.plies(side.excluded + 1), left)
                if reason:
                    return reason
        return ""

    def _look_ahead(self, budget: float) -> Steps:
        """Asks both sides for longer mates, or for one shorter than the known; returns as `_climb`."""
        for side in self.sides:
            for plies, share in side.questions() if not side.is_done else ():
                reason = yield from self._pursue(side, plies, int(budget * share * side.weight))
                if reason:
                    return reason
        return ""

    def _pursue(self, side: Side, plies: int, visits: int) -> Steps:
        """Asks one question with so many visits; returns the stop reason, empty if the search continues."""
        goal = self.prover.visits + visits
        while self.prover.visits < goal:
            if side.is_done or not self._is_open(side, plies):
                return self._ended()
            left = min(goal - self.prover.visits, SLICE)
            if self._clock.limits.visits is not None:
                left = min(left, self._clock.limits.visits - self.prover.visits)
            answer = self.prover.ask(self.board, attacks=side.attacks, plies=plies, visits=left)
            side.note(plies, proven=None if answer.pn else answer.plies, disproved=answer.dn == 0)
            if answer.pn == 0:
                self._close_other(side)
            reason = self._ended() or self._clock.reached(visits=self.prover.visits)
            if reason:
                return reason
            yield
        return ""

    def _is_open(self, side: Side, plies: int) -> bool:
        if plies == ANY_LENGTH:
            return side.found is None and not side.lost_any
        moves = side.moves(plies)
        return moves > side.excluded and (side.found is None or moves < side.found)

    def _close_other(self, side: Side) -> None:
        """Ends the questions about the other side: only one side can force mate."""
        for other in self.sides:
            if other is not side and side.found is not None:
                other.closed = True

    @property
    def winner(self) -> Side | None:
        """The side with a mate, None if there is none yet."""
        return next((side for side in self.sides if side.found is not None), None)

    @property
    def mate(self) -> int | None:
        """Moves to the shortest mate known, negative if the side to move is mated."""
        side = self.winner
        if side is None or side.found is None:
            return None
        return side.found if side.attacks else -side.found

    @property
    def is_shortest(self) -> bool:
        """Whether a mate is known, and proven to be the shortest."""
        return self.winner is not None and self.winner.is_shortest

    @property
    def excluded(self) -> int:
        """Moves within which neither side can force mate."""
        if self.winner is not None:
            return self.winner.excluded
        return min((side.excluded for side in self.sides if not side.closed), default=0)

    def _ended(self) -> str:
        """Returns the stop reason if no question is left, else empty."""
        if self.winner is not None:
            return "proven" if self.is_shortest else ""
        if not all(side.is_done for side in self.sides):
            return ""
        none = all(side.closed or side.excluded >= MOST_MOVES for side in self.sides)
        if none and self.board.halfmove_clock >= CLOCK_DRAW:
            return "claimable"
        return "hopeless" if all(side.closed for side in self.sides) else "excluded"

    # ------------------------------------------------------------ the results
    def attack(self, board: chess.Board, plies: int) -> chess.Move:
        """Returns the attacker's move in a position of the proof with `plies` left."""
        late = mating_move(board) if board.halfmove_clock >= CLOCK_DRAW else None
        return late or self._settle(board, attacks=True, plies=plies)[1]

    def line(self) -> tuple[chess.Move, ...]:
        """Returns the line of the mate found, or of a shorter one found meanwhile.

        Raises:
          CapacityError: if the table has lost the proof.
        """
        side = self.winner
        if side is None or side.found is None:
            return ()
        pv = self._follow(attacks=side.attacks, plies=side.plies(side.found))
        side.found = side.moves(len(pv))
        return pv

    def _follow(self, *, attacks: bool, plies: int) -> tuple[chess.Move, ...]:
        """Returns the line of a proven mate within `plies`, as long as the table's proof at the end.

        A shorter mate that is found on the way counts from then on.
        """
        while True:
            path, moves = [self.board.copy(stack=False)], list[chess.Move]()
            left = plies
            while left > 0:
                length, move = self._settle(path[-1], attacks=attacks == (len(moves) % 2 == 0), plies=left)
                if length < left:
                    break
                moves.append(move)
                path.append(after(path[-1], move))
                left -= 1
            if left == 0:
                return tuple(moves)
            within = plies
            for k in range(len(path) - 1, -1, -1):  # a shorter mate at its end shortens the whole path
                plies, _ = self._settle(path[k], attacks=attacks == (k % 2 == 0), plies=within - k)

    def _settle(self, board: chess.Board, *, attacks: bool, plies: int) -> tuple[int, chess.Move]:
        """Returns (plies to mate, move of the line) of a position with a proven mate within `plies`."""
        doubted: set[chess.Move] = set()
        while True:
            left = self._proven(board, attacks=attacks, plies=plies)
            if attacks:
                best = min(left, key=lambda move: left[move])
                return left[best] + 1, best
            longest = max(left.values())
            defences = [move for move in left if left[move] == longest]
            lasting = self._lasting(board, defences, longest, doubted)
            if lasting is not None:
                return longest + 1, lasting

    def _proven(self, board: chess.Board, *, attacks: bool, plies: int) -> dict[chess.Move, int]:
        """Returns the moves of a proven position as `Prover.look`; searches lost proofs again."""
        visits, times = self._reproof
        for attempt in range(1 + times):
            if attempt:
                self.prover.ask(board, attacks=attacks, plies=plies, visits=visits)
            proven = self.prover.look(board, attacks=attacks, plies=plies)
            if proven is not None:
                return proven
        raise CapacityError(f"the proof of a mate in {plies} plies is lost: {board.fen()}")

    def _lasting(
        self, board: chess.Board, defences: list[chess.Move], plies: int, doubted: set[chess.Move]
    ) -> chess.Move | None:
        """Returns a defence that surely lasts `plies` more, else the first; None if one is short.

        A limit ends the checks of defences, never the line itself.
        """
        for move in defences:
            if plies < 3 or self._clock.reached(visits=self.prover.visits):
                break
            if move not in doubted:
                doubted.add(move)
                board.push(move)
                answer = self.prover.ask(board, attacks=True, plies=plies - 2, visits=DOUBT_VISITS)
                board.pop()
                if answer.pn == 0:
                    return None
                if answer.dn == 0:
                    return move
        return defences[0]

    def _share(self, pv: tuple[chess.Move, ...]) -> bool:
        """Writes proven mates to the table of entries, that of the position however cheap it was.

        Returns whether there were any.
        """
        if self.entries is None:
            return False
        given = int(kernel.give_entries(self.prover.memory.table, self.entries.arrays, self._is_free))
        side, clock = self.winner, self.board.halfmove_clock
        if side is None or not pv or clock >= CLOCK_DRAW:
            return given > 0
        exact = side.is_shortest and self._is_free and clock + len(pv) <= CLOCK_DRAW
        noted = _note_mate(self.entries, self.board, len(pv), wins=side.attacks, exact=exact, move=pv[0])
        return noted or given > 0


# ------------------------------------------------------------------ an independent check of a claimed mate
# It plays out every defence by the rules of python-chess alone. The search supplies only the attacker's
# moves, which are proposals: the check refutes wrong ones.
Attack = Callable[[chess.Board, int], chess.Move | None]


class MateRefutedError(GraphSearchError):
    """Raised when a claimed mate fails; `line` shows where."""

    def __init__(self, message: str, line: tuple[chess.Move, ...] = ()) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class MateCheck(Answer):
    """A confirmed claim: the longest defence against the attacker's moves, and the positions examined."""

    json_keys = "plies positions"

    plies: int
    line: tuple[chess.Move, ...]
    positions: int


@dataclass(frozen=True, slots=True)
class _Mated:
    """A position with a checked mate: plies to it, the move of the line, and the clock at the check."""

    plies: int
    move: chess.Move | None
    clock: int


def check_mate(board: chess.Board, moves: int, attack: Attack) -> MateCheck:
    """Returns the longest defence against a claimed mate.

    Args:
      board: with its game, whose repetitions count.
      moves: the claim, as in `MateResult.mate`: the side to move mates in `moves`; negative: it is mated.
      attack: returns the attacker's move in a position with the plies left; called once for a position.

    Raises:
      MateRefutedError: with the line, if a defence lasts longer, or the attacker has no (legal) move, or the
        game is drawn on the way: stalemate, 50 moves, third repetition, dead position.
    """
    checker = _Checker(board, attack)
    if moves == 0:
        if not board.is_checkmate():
            checker.refute("there is no mate on the board")
        return MateCheck(0, (), 1)
    plies = 2 * moves - 1 if moves > 0 else -2 * moves
    return MateCheck(checker.mated(plies, attacks=moves > 0), checker.line(), len(checker.known))


class _Checker:
    def __init__(self, board: chess.Board, attack: Attack) -> None:
        self.root, self.board, self.attack = board.copy(), board.copy(), attack
        self.known: dict[Hashable, _Mated] = {}
        self.drawn = occurrences(board, 2)

    def mated(self, left: int, *, attacks: bool) -> int:
        """Returns the plies to mate of the position; refutes the claim if they exceed `left`."""
        key, clock = self.board._transposition_key(), self.board.halfmove_clock
        known = self.known.get(key)
        if known is None or (clock > known.clock and clock + known.plies > CLOCK_DRAW):
            known = self.known[key] = self._examined(left, attacks=attacks)
        elif known.plies > left:
            self.refute("a defence lasts longer")
        return known.plies

    def _examined(self, left: int, *, attacks: bool) -> _Mated:
        board, clock = self.board, self.board.halfmove_clock
        if not attacks and board.is_checkmate():
            return _Mated(0, None, clock)
        self._refute_draws()
        if left < (1 if attacks else 2):
            self.refute("a defence lasts longer")
        longest, best = 0, None
        for move in [self.attack(board.copy(stack=False), left)] if attacks else list(board.legal_moves):
            if move is None or move not in board.legal_moves:
                self.refute("the attacker has no move")
            board.push(move)
            plies = self.mated(left - 1, attacks=not attacks) + 1
            board.pop()
            if plies > longest:
                longest, best = plies, move
        return _Mated(longest, best, clock)

    @property
    def _path(self) -> tuple[chess.Move, ...]:
        return tuple(self.board.move_stack[len(self.root.move_stack) :])

    def _refute_draws(self) -> None:
        """Refutes the claim if the game is over without a mate of the attacker."""
        if not any(self.board.generate_legal_moves()):
            self.refute("stalemate" if not self.board.is_check() else "the attacker is mated")
        if self.board.is_insufficient_material():
            self.refute("a dead position")
        if self._path and self.board.halfmove_clock >= CLOCK_DRAW:
            self.refute("50 moves without progress")
        if self._path and zobrist_hash(self.board) in self.drawn:
            self.refute("a position for the third time")

    def refute(self, reason: str) -> NoReturn:
        """Raises MateRefutedError, with the line to the position."""
        shown = self.root.variation_san(self._path) if self._path else "at once"
        raise MateRefutedError(f"no mate: {reason} ({shown}): {self.root.fen()}", self._path)

    def line(self) -> tuple[chess.Move, ...]:
        """Returns the longest defence from the root, after `mated` has checked it."""
        board, moves = self.root.copy(stack=False), list[chess.Move]()
        while (move := self.known[board._transposition_key()].move) is not None:
            moves.append(move)
            board.push(move)
        return tuple(moves)
