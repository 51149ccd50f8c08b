"""Questions about the books of a file: status, candidates for their queues, explanations of their moves.

Functions only read files, also during a build, and raise StoreError if that fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from heapq import nlargest
from math import inf
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, Literal, get_args

import chess

from ..base.answer import Answer, picked
from ..base.errors import BookConfigError, GraphSearchError, InvalidParameterError
from ..position.board import board_of, check, fen_of, key_text, legal_moves
from ..query.source import Records, Step, mate_by, mate_of, steps_of
from ..store.apart import ApartMoves
from ..store.file import sql_errors
from ..store.store import Store
from ..store.tables.books import BOTH, BookRow, book_named, books, is_own_turn
from ..store.tables.games import games_by_move
from ..store.tables.rows import query
from ..store.tables.rows import rows as stored_rows
from .growth import Growth, RootValue, Verdict, known_moves
from .queue import NewItem
from .rows import StoredBook, position_rows, write_positions, write_priorities
from .tree import APART, LEAF, OPEN, BookLine, Position, reply_share

AnyPath = str | os.PathLike[str]

_PLIES = (
    "SELECT ply, sum(state = 'open'), sum(state = 'leaf'), sum(state = 'end') FROM book_position"
    " WHERE book = ? AND state <> 'apart' GROUP BY ply ORDER BY ply"
)
_PLY = ("book_position.ply", *3 * ("book_position.n",))
_ROOT = ("book_root.fen", "book_root.origin", "book_position.value?", "book_move.move?")


@dataclass(frozen=True, slots=True)
class RunRow:
    """One build on a book, a row of `book_run`; `finished`, `ended`: None while it runs or if killed."""

    number: int
    started: str
    finished: str | None
    positions: int
    searched: int
    visits: int
    evaluations: int
    seconds: float
    ended: str | None


@dataclass(frozen=True, slots=True)
class PlyRow:
    """The numbers of positions at a ply, by state."""

    ply: int
    open: int
    leaf: int
    end: int


@dataclass(frozen=True, slots=True)
class Status(Answer):
    """One book.

    Attributes:
      open, leaf, end, apart: positions by state; `plies` leave out those apart, `moves` do not.
      queue: number of its queue items, by state.
    """

    json_keys = (
        "name=book.name side=book.side created=book.created updated=book.updated"
        " open leaf end apart moves roots plies runs queue"
    )

    book: BookRow
    open: int
    leaf: int
    end: int
    apart: int
    moves: int
    roots: tuple[RootValue, ...]
    plies: tuple[PlyRow, ...]
    runs: tuple[RunRow, ...]
    queue: dict[str, int]


def status(path: AnyPath, name: str | None = None) -> list[Status]:
    """Returns the status of one book or of all.

    Raises:
      InvalidParameterError: if the file has no book, or none of that name.
    """
    with Store.open(path, read_only=True) as store:
        wanted = [book_named(store, name)] if name else books(store) or [book_named(store, None)]
        with sql_errors(store.path, "read it"), store.snapshot():
            return [_status(store, book) for book in wanted]


def _status(store: Store, book: BookRow) -> Status:
    connection = store.connection
    plies = [PlyRow(*row) for row in query(connection, _PLIES, (book.id,), *_PLY)]
    columns, where = ("id", *(field.name for field in fields(RunRow)[1:])), "WHERE book = ? ORDER BY id"
    runs = [RunRow(*row) for row in stored_rows(connection, "book_run", columns, where, (book.id,))]
    statement = "SELECT state, count(*) FROM book_queue WHERE book IS NULL OR book = ? GROUP BY state"
    queue: dict[str, int] = dict(
        query(connection, statement, (book.name,), "book_queue.state", "book_position.n")
    )
    apart = "SELECT count(*) FROM book_position WHERE book = ? AND state = 'apart'"
    moves = "SELECT count(*) FROM book_move WHERE book = ?"
    return Status(
        book=book,
        open=sum(row.open for row in plies),
        leaf=sum(row.leaf for row in plies),
        end=sum(row.end for row in plies),
        apart=connection.execute(apart, (book.id,)).fetchone()[0],
        moves=connection.execute(moves, (book.id,)).fetchone()[0],
        roots=tuple(_roots(store, book.id)),
        plies=tuple(plies),
        runs=tuple(runs),
        queue=queue,
    )


def _roots(store: Store, book: int) -> list[RootValue]:
    statement = (
        "SELECT r.fen, r.origin, p.value, coalesce((SELECT move FROM book_move AS m WHERE m.book = r.book"
        " AND m.key = r.key AND m.value >= coalesce(p.outside, -2) ORDER BY m.value DESC, m.place LIMIT 1),"
        " p.outside_move)"
        " FROM book_root AS r LEFT JOIN book_position AS p ON p.book = r.book AND p.key = r.key"
        " WHERE r.book = ? ORDER BY length(r.origin), r.origin"  # root 10 comes after root 9
    )
    return [RootValue.of(store.read, *row) for row in query(store.connection, statement, (book,), *_ROOT)]


# ------------------------------------------------------------------ candidates for the queue
Kind = Literal["leaves", "gaps"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MIN_P, MIN_GAMES = 0.05, 20  # least P or games of a gap


@dataclass(frozen=True, slots=True, kw_only=True)
class TodoRow:
    """A leaf of the book, or a gap: a reply that the book lacks, or an own position without a move.

    Attributes:
      item: for the queue: the whole game, so that its line reads like `line`; from the root on, if the moves
        before it would bring other positions into the book.
      at: the position, or the one before the move. move: UCI, outside the book; None: the position itself.
      root: FEN. moves: UCI, from the root to the position. line: those and the move, with move numbers.
      priority: of a leaf, the builder's, the smaller the sooner.
      reach: probability of the line of a gap: the largest product along a line from a root of the replies'
        shares of games, or P where fewer than 20 games are known; own moves count 1. None: of a leaf.
      p: prior of the reply in the graph; None: the graph does not know the position.
      games: imported games with the reply.
    """

    item: NewItem
    at: Position
    move: str | None
    root: str
    moves: tuple[str, ...]
    line: str
    priority: float | None = None
    reach: float | None = None
    p: float | None = None
    games: int = 0

    @classmethod
    def of(
        cls, book: StoredBook, line: BookLine, move: str | None = None, san: str = "", **own: Any
    ) -> TodoRow:
        """Returns the row of the last position of a line, or of a move there; `own`: of a leaf or a gap."""
        at, root = (book.tree.positions[line.keys[place]] for place in (-1, 0))
        text = book.text(line, *filter(None, [san])) or root.fen
        fen, before = book.game(line)
        if _is_new_to(book, board_of(fen), before):
            fen, before = book.roots[line.keys[0]], []
        moves = (*(move.uci() for move in before), *line.moves, *filter(None, [move]))
        item = NewItem(fen, moves, "todo: gaps" if "reach" in own else "todo: leaves")
        return cls(item=item, at=at, move=move, root=root.fen, moves=line.moves, line=text, **own)

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object."""
        own = "priority" if self.reach is None else "reach p games"
        return picked(self, f"{own} position=at.fen ply=at.ply move root moves line")


def _is_new_to(book: StoredBook, walk: chess.Board, moves: Sequence[chess.Move]) -> bool:
    """Returns whether a game leaves a position of a book by a move that the book lacks."""
    for move in moves:
        position = book.tree.positions.get(key_text(walk))
        if position is not None and move.uci() not in position.moves:
            return True
        walk.push(move)
    return False


@dataclass(frozen=True, slots=True)
class Todo(Answer):
    """Candidates for the queue of a book, the most urgent first."""

    json_keys = "book kind items=rows"

    book: str
    kind: Kind
    rows: tuple[TodoRow, ...]


def book_names(path: AnyPath) -> list[str]:
    """Returns the names of the books of a file, the oldest first."""
    with Store.open(path, read_only=True) as store:
        return [book.name for book in sorted(books(store), key=attrgetter("id"))]


def todo(
    path: AnyPath,
    name: str | None,
    kind: Kind = "leaves",
    *,
    top: int = 20,
    min_games: int = MIN_GAMES,
) -> Todo:
    """Returns candidates for the queue of a book.

    Args:
      name: None: the only one of the file.
      kind: `leaves`: positions without a search. `gaps`: likely or popular replies without an answer.
      top: largest number of rows; 0: all.
      min_games: of gaps: the least number of games of a reply whose P is below `MIN_P`.

    Raises:
      InvalidParameterError: for an unknown book or kind, or a number out of range.
    """
    if kind not in KINDS:
        raise InvalidParameterError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    if min_games < 1 or top < 0:
        raise InvalidParameterError("games are 1 or more, rows 0 (all) or more")
    with Store.open(path, read_only=True) as store, store.snapshot():
        book = StoredBook(store, name, whole=False)
        rows = _leaves(book, top) if kind == "leaves" else _Gaps(store, book, min_games).rows(top)
        return Todo(book.row.name, kind, tuple(rows))


def _leaves(book: StoredBook, top: int) -> Iterator[TodoRow]:
    ways = book.tree.shortest_ways()
    # other positions lost their root when a move was excluded or a root removed
    reached = {*book.tree.roots, *ways}
    found = [one for one in book.tree.ordered() if one.key in reached and one.state == LEAF]
    found.sort(key=lambda position: (position.priority is None, position.priority or 0.0))
    for position in found[: top or None]:
        yield TodoRow.of(book, book.tree.line(position.key, ways), priority=position.priority)


class _Gaps:
    """Finds the gaps of a book.

    A missing reply is a gap if its P is at least `MIN_P`, or if at least `min_games` imported games have it.
    In a book of both sides every move is both an own move and a reply. Replies that BOOK.toml excludes are no
    gaps.
    """

    def __init__(self, store: Store, book: StoredBook, min_games: int) -> None:
        self._store, self._book, self._min_games = store, book, min_games
        self._excluded: Mapping[str, tuple[str, ...]] = {}
        self._only: frozenset[str] = frozenset()
        self._max_ply = inf
        from .config import stored_config

        with suppress(BookConfigError):  # another version wrote the configuration
            config = stored_config(book.row.config, book.row.name)
            self._excluded, self._only, self._max_ply = config.excluded, config.only, config.max_ply
        self._games = games_by_move(store, book.tree.positions)
        self._reach, self._ways = book.tree.likeliest_ways(self._shares)

    def _shares(self, position: Position) -> dict[str, float]:
        """Returns the probabilities of the moves of a position; own moves count 1."""
        side, counts = self._book.row.side, self._games.get(position.key, {})
        if side != BOTH and is_own_turn(side, position.turn):
            return dict.fromkeys(position.moves, 1.0)
        return {move.move: reply_share(counts, move.move, move.p) for move in position.moves.values()}

    def rows(self, top: int) -> list[TodoRow]:
        """Returns the gaps, the likeliest first, at most `top` (0: all)."""
        found: list[tuple[float, int, str, TodoRow]] = []
        bar = 0.0  # less likely gaps are not among the `top` best
        reached = [one for one in enumerate(self._book.tree.ordered()) if one[1].key in self._reach]
        for number, position in sorted(reached, key=lambda one: -self._reach[one[1].key]):
            if self._reach[position.key] < bar:
                break
            found += ((-(row.reach or 0.0), number, row.move or "", row) for row in self._at(position))
            if top and len(found) >= 2 * top:
                found = sorted(found, key=itemgetter(0, 1, 2))[:top]
                bar = -found[-1][0]
        return [row for *_, row in sorted(found, key=itemgetter(0, 1, 2))[: top or None]]

    def _at(self, position: Position) -> Iterator[TodoRow]:
        """Yields the gaps at a position."""
        book, side, reach = self._book, self._book.row.side, self._reach[position.key]
        line = book.tree.line(position.key, self._ways)
        own = is_own_turn(side, position.turn)
        if own and position.state == LEAF:
            yield TodoRow.of(book, line, reach=reach)
        if (own and side != BOTH) or position.state != OPEN:
            return
        if position.key in self._only or position.ply + 1 >= self._max_ply:
            return
        board, counts = board_of(position.fen), self._games.get(position.key, {})
        left_out = {*position.moves, *self._excluded.get(position.key, ())}
        moves, record = legal_moves(board), self._store.read(board)
        priors: Sequence[float | None] = [None] * len(moves)
        if record is not None and len(record.codes) == len(moves):
            priors = record.priors
        for move, p in zip(moves, priors, strict=True):
            name, games = move.uci(), counts.get(move.uci(), 0)
            if name not in left_out and ((p or 0.0) >= MIN_P or games >= self._min_games):
                likely = reach * reply_share(counts, name, p)
                yield TodoRow.of(book, line, name, board.san(move), reach=likely, p=p, games=games)


# ------------------------------------------------------------------ explanations
@dataclass(frozen=True, slots=True)
class Why:
    """A position of a book, explained.

    Attributes:
      found: whether the book has it. at: its position in the book, else one that was never searched.
      line: a shortest line, in SAN, from the start of the game where the moves to the root are known, else
        from the root; empty for a root without moves.
      outside_san: the best move outside the book. mate: moves to a mate that the position's record proves.
      priority, rank, leaves: of a leaf: its cost, its rank in that order from 1, the number of leaves.
      verdicts: on every legal move as of now, best value first; empty if nothing was searched here.
      left_at: of a position that is not in the book: the last position of the book on the path there, and the
        verdict on the next move (None: that position was not searched, or is an end). The path is the given
        game; None: it was never in the book.
      roots: FENs where the book begins.
    """

    book: str
    position: str
    found: bool
    at: Position
    line: str
    outside_san: str | None
    mate: int | None
    priority: float | None
    rank: int | None
    leaves: int
    verdicts: tuple[Verdict, ...]
    left_at: LeftAt | None
    roots: tuple[str, ...]

    @property
    def since(self) -> dict[str, int]:
        """By UCI move of the book, the number of the run that added it."""
        return {move.move: move.since for move in self.at.moves.values()}

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch book why`."""
        where = picked(self.at, "state ply") if self.found else {"state": None, "ply": None}
        names = "searches=at.searches n=at.n value=at.value mate outside=at.outside outside_move=outside_san"
        moves = [v.as_dict() | {"since_run": self.since.get(v.candidate.move)} for v in self.verdicts]
        found = picked(self, "book position key=at.key found") | where | picked(self, f"line {names}")
        return found | picked(self, "priority rank leaves") | {"moves": moves} | picked(self, "left_at roots")


@dataclass(frozen=True, slots=True)
class LeftAt:
    """The position where a game leaves a book.

    Attributes:
      position: FEN of the last position of the book. line: to it, as `Why.line`. state: of it.
      move: SAN of the next move. verdict: on the move; None without a decision.
    """

    position: str
    move: str
    line: str
    state: str
    verdict: Verdict | None

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object."""
        reason = self.verdict.reason if self.verdict else None
        return picked(self, "position move line state") | {"reason": reason}


def why(path: AnyPath, board: chess.Board, name: str | None = None) -> Why:
    """Returns the verdicts of a book (without a name, of the only one) on a position, with reasons.

    Its move stack shows where a game leaves the book.

    Raises:
      InvalidPositionError: if the position is not legal.
      InvalidParameterError: if the file has no such book.
    """
    check(board)
    with Store.open(path, read_only=True) as store:
        return _BookReader(store, name).why(board)


def admitted_moves(store: Store, name: str) -> Callable[[chess.Board], frozenset[str] | None]:
    """Returns a function that returns the moves of a position that `why` calls admitted, in UCI.

    None: nothing is decided there, as of a position whose record is gone. Without such a book, raises
    InvalidParameterError.
    """
    book = _BookReader(store, name)

    def admitted(board: chess.Board) -> frozenset[str] | None:
        found = book.verdicts(board)
        return frozenset(one.candidate.move for one in found if one.admitted) if found else None

    return admitted


def refresh_values(path: AnyPath) -> None:
    """Writes the present values of all books into their rows, as after a reevaluation; decides nothing."""
    with Store.open(path) as store:
        for row in books(store):
            with suppress(BookConfigError):  # another version wrote the configuration
                book = _BookReader(store, row.name)
                book.growth.refresh(book.tree.positions.values())
                with store.transaction():
                    write_positions(store.connection, *position_rows(book.tree, row.id, book.tree.positions))
                    write_priorities(store, row.id, book.tree.leaf_costs())


class _BookReader:
    """One book of an open file."""

    def __init__(self, store: Store, name: str | None) -> None:
        from .config import stored_config

        self._read, self._book = ApartMoves.of(store).read, StoredBook(store, name)
        self.config, self.tree = stored_config(self._book.row.config, self._book.row.name), self._book.tree
        self.tree.expansion = self.config.expansion
        self.tree.update(self.tree.positions)
        self.growth = Growth(self.config, self.tree, 0, self._read, partial(games_by_move, store))

    def why(self, board: chess.Board) -> Why:
        """Returns the explanation of a position."""
        key, positions, fen = key_text(board), self.tree.positions, fen_of(board)
        at = positions.get(key) or Position(key=key, fen=fen, ply=0, since=0)
        self.growth.refresh([at] if key in positions else [])  # other searches may have reached it
        costs, record = self.tree.leaf_costs(), self._read(board)
        return Why(
            book=self._book.row.name,
            position=fen,
            found=key in positions,
            at=at,
            line=self._line(key),
            outside_san=board.san(chess.Move.from_uci(at.outside_move)) if at.outside_move else None,
            mate=mate_of(record, board) if record else None,
            priority=costs.get(key),
            rank=sorted(costs.values()).index(costs[key]) + 1 if key in costs else None,
            leaves=len(costs),
            verdicts=self.verdicts(board),
            left_at=None if key in positions else self._left_at(board),
            roots=tuple(self._book.roots.values()),
        )

    def verdicts(self, board: chess.Board) -> tuple[Verdict, ...]:
        """Returns the present verdicts on the legal moves of a position; none if it was not searched."""
        position = self.tree.positions.get(key_text(board))
        record = self._read(board) if position and position.state == OPEN else None
        if position is None or record is None:
            return ()
        found = self.growth.verdicts(position, board, known_moves(board, record))
        source, steps = Records(Path(), self._read), steps_of(record, board)
        return tuple(_as_it_stands(verdict, board, source, steps) for verdict in found)

    def _line(self, key: str) -> str:
        line = self.tree.line(key, self.tree.shortest_ways())
        return self._book.text(line) if line.keys[0] in self.tree.roots else ""

    def _left_at(self, board: chess.Board) -> LeftAt | None:
        """Returns the position where a board's game leaves the book; None if it was never in the book."""
        game = board.copy()
        while game.move_stack:
            move = game.pop()
            position = self.tree.positions.get(key_text(game))
            if position is not None:
                verdict = next((v for v in self.verdicts(game) if v.candidate.move == move.uci()), None)
                line = self._line(position.key)
                return LeftAt(fen_of(game), game.san(move), line, position.state, verdict)
        return None


def _as_it_stands(verdict: Verdict, board: chess.Board, source: Records, steps: list[Step]) -> Verdict:
    """Returns a verdict with SAN, mate and the rule in the book now: only a build changes decisions."""
    known, move = verdict.candidate, chess.Move.from_uci(verdict.candidate.move)
    mate = mate_by(source, board, move, steps) if known.value in (-1.0, 1.0) else None
    verdict = replace(verdict, candidate=replace(known, san=board.san(move), mate=mate))
    has, would = known.rule, verdict.rule
    if would and not has:
        return replace(verdict, rule="", reason=f"not added yet; now {verdict.reason}")
    if has and not would:
        return replace(verdict, rule=has, reason=f"added before; now {verdict.reason}")
    return verdict


# ------------------------------------------------------------------ changes
GONE = "its position is not in the book any more"


@dataclass(frozen=True, slots=True)
class BookChange:
    """A move that a book has added or removed.

    Attributes:
      came: whether it was added, not removed.
      rule: by which the book added it. reason: why it is in the book now or no longer is; empty if unknown.
      n: edge N at the last decision. value: in the book, for the side that plays the move; None if unknown.
      loss: centipawns against the best move; None if unknown.
    """

    position: str
    move: str
    san: str
    came: bool
    rule: str
    reason: str
    n: int
    value: float | None
    loss: int | None


@dataclass(frozen=True, slots=True)
class BookChanges(Answer):
    """The changes of a book: numbers of added and removed moves, and the changes with the most visits."""

    book: str
    came: int
    went: int
    changes: tuple[BookChange, ...]


Moves = dict[tuple[str, str], tuple[int, BookChange]]  # by key and move: the build that added it, the move


def changes(old: AnyPath, new: AnyPath, *, top: int = 20) -> list[BookChanges]:
    """Returns the added and removed moves between two files, for every book that both have."""
    with Store.open(old, read_only=True) as one, Store.open(new, read_only=True) as other:
        ours, theirs = ({row.name: _moves(store, row.name) for row in books(store)} for store in (one, other))
        found = []
        for name in sorted({*ours, *theirs}):
            before, after = ours.get(name, {}), theirs.get(name, {})
            went = [replace(before[place][1], came=False) for place in before if place not in after]
            came = [after[place][1] for place in after if place not in before]
            found.append(_with_reasons(other, name, came, went, top))
    return found


def changes_since(path: AnyPath, run: int, *, top: int = 20) -> list[BookChanges]:
    """Returns the moves that a run or a later one has added to each book; removed moves leave no trace."""
    with Store.open(path, read_only=True) as store:
        statement = "SELECT id FROM book_run WHERE run >= ?"
        builds = {number for (number,) in store.query(statement, (run,), "book_run.id")}
        found = []
        for book in books(store):
            come = [change for since, change in _moves(store, book.name).values() if since in builds]
            found.append(_with_reasons(store, book.name, come, [], top))
    return found


def _moves(store: Store, name: str) -> Moves:
    """Returns the moves of a book, without those that no root leads to."""
    found: Moves = {}
    for key, at in sorted(StoredBook(store, name, whole=False).tree.positions.items()):
        for _, m in sorted(at.moves.items()) if at.state != APART else ():
            change = BookChange(at.fen, m.move, m.san, True, m.rule, "", m.n, m.value, m.loss)
            found[key, m.move] = m.since, change
    return found


def _with_reasons(
    store: Store, name: str, came: list[BookChange], went: list[BookChange], top: int
) -> BookChanges:
    """Returns the changes of a book with the most visits, with the reasons of its present verdicts."""
    rows = nlargest(top, went + came, key=attrgetter("n"))
    with suppress(GraphSearchError):  # no book, or another version's configuration: leave the reasons empty
        book = _BookReader(store, name) if rows else None
        for i, row in enumerate(rows):
            found = book.verdicts(board_of(row.position)) if book else ()
            reason = next((v.reason for v in found if v.candidate.move == row.move), GONE)
            rows[i] = replace(row, reason=reason)
    return BookChanges(name, len(came), len(went), tuple(rows))
