"""The positions of an export in batches of thousands, as columns: from a walk, or from a scan of the file.

A walk goes over a selection breadth first. The positions met are in temporary files, and records
are read when their positions are visited, so memory does not depend on the size of the file. The moves are
those visited by a search, or those in tables (`choices.py`).
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ..base.system import Scratch, release_pages
from ..position.board import POSITION_WORDS, pack
from ..position.fens import clocks_of, fens
from ..position.words import BLACK_TO_MOVE, META
from ..query.columns import (
    EdgeWorth,
    Proofs,
    Ranked,
    Worth,
    cps_of,
    moves_of_edges,
    priors_of,
    proofs_of,
    ranked,
    record_of_edges,
    worth_of,
    worth_of_edges,
)
from ..query.steps import Floats, Ints, Legal, Mask, Words, legal_codes, names_of, positions_after
from ..store.apart import ApartMoves, known_edges_of
from ..store.codec.bulk import take
from ..store.order import IDENTITY_WORDS, identities, keys_of
from ..store.reading import Reader
from ..store.record.node import TERMINAL_MASK, UNPROVEN, RecordBatch
from ..store.record.ranking import visits_of
from ..store.store import Store
from .choices import BookEntry, Moves, TablePosition, Weights, limited, tables_of, with_moves
from .output import ExportReport
from .selection import ExportPlan, Selection

# ------------------------------------------------------------------ temporary columns
# ------------------------------------------------------------------ columns
# in memory-mapped temporary files; the operating system keeps the used pages in memory
LEAST_STEP, MOST_STEP = 1 << 16, 1 << 26  # limits of a file's growth step, which is half its size, in bytes
MOST_MAPPED = 64 << 20  # bytes of files; larger ones are released from memory between batches


class Column:
    """A growing array of one type, in a temporary file without a name, which disappears when closed.

    Raises:
      OSError: if the file system is full.
    """

    def __init__(self, folder: Path, kind: Any, width: int = 1) -> None:
        """Makes an empty column. `kind`: type of the values; `width`: values per row."""
        self._file = Scratch(folder)
        self._kind, self._width = np.dtype(kind), width
        self._row = self._kind.itemsize * width
        self._bytes, self._rows = 0, 0
        self._map: mmap.mmap | None = None
        self._values = self._view(0)

    def __len__(self) -> int:
        return self._rows

    @property
    def values(self) -> NDArray[Any]:
        """All rows, `[rows]` or `[rows, width]`; writes to the array go to the file."""
        return self._values[: self._rows]

    def add(self, rows: NDArray[Any]) -> None:
        """Adds rows."""
        first = self.extend(len(rows))
        self._values[first : self._rows] = rows

    def extend(self, count: int) -> int:
        """Adds `count` rows of zeros; returns the index of the first."""
        first, self._rows = self._rows, self._rows + count
        if self._rows * self._row > self._bytes:
            self._grow(self._rows * self._row)
        return first

    def _grow(self, wanted: int) -> None:
        step = min(max(self._bytes // 2, LEAST_STEP), MOST_STEP)
        step = -(-step // mmap.PAGESIZE) * mmap.PAGESIZE
        size = max(wanted, self._bytes + step)
        self._map, self._bytes = self._file.grow(size), size
        self._values = self._view(self._bytes // self._row)

    def _view(self, rows: int) -> NDArray[Any]:
        shape = (rows,) if self._width == 1 else (rows, self._width)
        if self._map is None:
            return np.zeros(shape, self._kind)
        flat = np.frombuffer(self._map, self._kind, rows * self._width)
        return flat.reshape(shape)

    def release(self) -> None:
        """Returns the mapped memory to the system; the values stay in the file."""
        if self._map is not None:
            release_pages(self._map)

    @property
    def nbytes(self) -> int:
        """The size of the file in bytes."""
        return self._bytes

    def close(self) -> None:
        """Closes the file; arrays that `values` returned stay readable."""
        self._file.close()


class Rows:
    """Named columns of equal length."""

    def __init__(self, folder: Path, **kinds: Any) -> None:
        """Makes empty columns; `kinds`: the type of each column."""
        self._columns = {name: Column(folder, kind) for name, kind in kinds.items()}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._columns[name].values

    def add(self, **values: NDArray[Any]) -> None:
        """Adds rows; every column needs values."""
        for name, column in self._columns.items():
            column.add(values[name])
        self._length += len(next(iter(values.values())))

    def extend_to(self, length: int) -> None:
        """Adds rows of zeros up to a length."""
        for column in self._columns.values():
            column.extend(length - self._length)
        self._length = max(length, self._length)

    def release(self) -> None:
        """Returns mapped memory to the system if the columns exceed MOST_MAPPED bytes."""
        if sum(column.nbytes for column in self._columns.values()) > MOST_MAPPED:
            for column in self._columns.values():
                column.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for column in self._columns.values():
            column.close()


# ------------------------------------------------------------------ positions
LEAST_PLACES = 1 << 12
AT_ONCE = 1 << 16  # positions entered together when the table grows
_IDENTITY = np.dtype((np.void, 8 * IDENTITY_WORDS))


class Met:
    """Positions numbered from 1 in the order in which they were met; found by a hash table of their keys.

    Clocks up to 75 do not distinguish positions; each keeps the clock with which it was met.
    """

    def __init__(self, folder: Path) -> None:
        """Creates an empty numbering; `folder`: for the temporary files."""
        self._folder = folder
        self._words = Column(folder, np.uint64, POSITION_WORDS)
        self._table = self._empty_table(LEAST_PLACES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._words.close()
        self._table.close()

    def __len__(self) -> int:
        return len(self._words)

    @property
    def words(self) -> Words:
        """The positions, `[R, 10]`, by id - 1."""
        return self._words.values

    def meet(self, words: Words, follow: Mask | None = None) -> tuple[Ints, Ints]:
        """Numbers positions met for the first time.

        Args:
          words: `[M, 10]`. follow: `[M]` which of them may be new; None: all.

        Returns:
          Their ids, `[M]`, 0 for one that is neither known nor new; indices of the new ones, in order.
        """
        ids = self._find(words)
        unknown = np.flatnonzero(ids == 0)
        marks: list[Any] = identities(words[unknown]).view(_IDENTITY).ravel().tolist()  # bytes
        may_be_new = [True] * len(unknown) if follow is None else follow[unknown].tolist()
        met: dict[bytes, int] = {}
        new, last = [], len(self)
        for k, mark, is_wanted in zip(unknown.tolist(), marks, may_be_new, strict=True):
            if is_wanted and mark not in met:
                last += 1
                met[mark] = last
                new.append(k)
        ids[unknown] = [met.get(mark, 0) for mark in marks]
        self._add(words[new])
        return ids, np.array(new, np.int64)

    def _find(self, words: Words) -> Ints:
        """Returns the id of each position, 0 for one not met."""
        table, found = self._table.values, np.zeros(len(words), np.int64)
        marks, places = identities(words), self._places(words)
        rest = np.arange(len(words))
        while len(rest):
            ids = table[places[rest]]
            rest, ids = rest[ids > 0], ids[ids > 0]
            equal = (identities(self.words[ids - 1]) == marks[rest]).all(1)
            found[rest[equal]] = ids[equal]
            rest = rest[~equal]
            places[rest] = (places[rest] + 1) % len(table)
        return found

    def _add(self, words: Words) -> None:
        first = len(self)
        self._words.add(words)
        if 2 * len(self) <= len(self._table):
            self._enter(words, first)
            return
        self._table.close()
        self._table = self._empty_table(4 * max(len(self), len(self._table)))
        for begin in range(0, len(self), AT_ONCE):
            self._enter(self.words[begin : begin + AT_ONCE], begin)

    def _enter(self, words: Words, first: int) -> None:
        """Enters positions with the ids from `first + 1` on."""
        table, places = self._table.values, self._places(words)
        rest = np.arange(len(words))
        while len(rest):
            free = rest[table[places[rest]] == 0]
            table[places[free]] = first + 1 + free  # of several for one place, the last stays
            rest = rest[table[places[rest]] != first + 1 + rest]
            places[rest] = (places[rest] + 1) % len(table)

    def _places(self, words: Words) -> Ints:
        return np.asarray(keys_of(words) % np.uint64(len(self._table)), np.int64)

    def _empty_table(self, places: int) -> Column:
        table = Column(self._folder, np.int64)
        table.extend(places)
        return table

    def release(self) -> None:
        """Returns mapped memory to the system if the columns exceed MOST_MAPPED bytes."""
        if self._words.nbytes + self._table.nbytes > MOST_MAPPED:
            self._words.release()
            self._table.release()


BATCH = 8192  # positions visited together
UNKNOWN = -(1 << 31)  # a number that is not known

TERMINALS = {1: "checkmate", 2: "stalemate", 3: "draw by insufficient material"}
RESULTS = ("won", "drawn", "lost")
NOTES = (
    "",
    *TERMINALS.values(),
    *(f"proven: {result} for {side}" for side in ("White", "Black") for result in RESULTS),
)

OnProgress = Callable[[int, int], None]  # positions visited, positions met or expected


@dataclass(frozen=True)
class Positions:
    """A batch of positions with their records, and the moves to export.

    Attributes:
      batch: the records, at the clocks with which they were met. clocks: `[R]` those of the evaluation.
      edges: the same records with the known edges: those of moves that were searched apart (`store.apart`).
      known: `[R]` whether the file has the record; without one, only its legal moves are valid.
      own: `[R]` whether the side to move is the one exported.
      depth: `[R]` plies below the root. ply: `[R]` by the move number. None without a walk.
      legal: the legal moves, as `legal_codes`. ranked: their ranks.
      moves: of the positions, record by record, best first.
      values: `[R]` from tables, NaN if unknown; None without tables.
      entries: of a book; empty without one.
    """

    batch: RecordBatch
    edges: RecordBatch
    clocks: Ints
    known: Mask
    own: Mask
    depth: NDArray[np.int32] | None
    ply: NDArray[np.int32] | None
    legal: Legal
    ranked: Ranked
    moves: Moves
    values: Floats | None = None
    entries: Sequence[BookEntry] = ()

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def words(self) -> Words:
        """The positions, `[R, 10]`."""
        return self.batch.words

    @property
    def fens(self) -> list[str]:
        """The positions' FENs."""
        return fens(self.words, None if self.ply is None else self.ply.tolist())

    @cached_property
    def n(self) -> Ints:
        """Node N."""
        return visits_of(self.batch)

    @cached_property
    def worth(self) -> Worth:
        """The positions' values from their records."""
        return worth_of(self.batch)

    @cached_property
    def proofs(self) -> Proofs:
        """The proofs of the positions."""
        return proofs_of(self.batch, self.clocks, self.worth, self.legal[2])

    @property
    def notes(self) -> Ints:
        """How each position ended or what is proven, in NOTES."""
        proven = self.proofs.notes
        terminal = (self.batch.flags & TERMINAL_MASK).astype(np.int64)
        black = (self.words[:, META] & np.uint64(BLACK_TO_MOVE)).astype(np.int64)
        results = np.where(proven > 0, len(TERMINALS) + proven + len(RESULTS) * black, 0)
        return np.where(self.known, np.where(terminal > 0, terminal, results), 0)

    @property
    def value(self) -> Floats:
        """The value of each position for its side to move, NaN if unknown."""
        q = np.where(self.known, self.worth.q, np.nan)
        return q if self.values is None else np.where(np.isnan(self.values), q, self.values)

    @cached_property
    def names(self) -> tuple[NDArray[np.bytes_], NDArray[np.uint8]]:
        """The moves in SAN, and their marks, as `names_of`."""
        return names_of(self.words, self.moves.of, self.moves.code, self.legal)

    @cached_property
    def children(self) -> tuple[Words, NDArray[np.uint64]]:
        """The positions after the moves, and their keys, as `positions_after`."""
        return positions_after(self.words, self.moves.of, self.moves.code)

    @cached_property
    def edge_worth(self) -> EdgeWorth:
        """The values of the records' edges."""
        return worth_of_edges(self.edges)

    @cached_property
    def move_worth(self) -> MoveWorth:
        """The values of the moves."""
        worth, moves = self.edge_worth, self.moves
        of_edges = (self.edges.n, worth.q, worth.draw, worth.mates)
        n, q, draw, mates = (moves.by_edge(values) for values in of_edges)
        visited, cp = n > 0, np.full(len(n), UNKNOWN, np.int64)
        cp[visited] = cps_of(q[visited])
        return MoveWorth(n, q, draw, mates, cp, q if moves.in_tables is None else moves.in_tables.value)

    @property
    def priors(self) -> Floats:
        """P of the moves, as `priors_from_codes`; NaN without a record."""
        batch, moves = self.batch, self.moves
        has = self.known[moves.of] & (np.diff(batch.code_offsets)[moves.of] > 0)
        found = np.full(len(moves.of), np.nan)
        found[has] = priors_of(batch)[batch.code_offsets[moves.of[has]] + moves.index[has]]
        return found

    @property
    def any_priors(self) -> Floats:
        """P of the moves from the records, else from the tables."""
        p, there = self.priors, self.moves.in_tables
        return p if there is None else np.where(np.isnan(p), there.p, p)


class MoveWorth(NamedTuple):
    """What moves are worth for the side that plays them, `[M]` each.

    Attributes:
      n: visits. q, draw: of the edge, 0 without visits. mates: moves to a proven mate, 0 without one.
      cp: of q, UNKNOWN without visits. value: q; of moves that tables name, their value there.
    """

    n: NDArray[np.uint32]
    q: Floats
    draw: Floats
    mates: Ints
    cp: Ints
    value: Floats


def listed(
    batch: RecordBatch,
    order: Ranked,
    legal: NDArray[np.uint16],
    own: Mask,
    limits: Selection,
    report: ExportReport,
) -> Moves:
    """Returns the moves visited by a search, and those without visits if the selection asks for them.

    Args:
      batch: the records with their known edges. legal: `[R, MAX_MOVES]` the legal moves.
      own: `[R]` positions with limited moves.
    """
    n, left_out = batch.n[order.edges], report.left_out
    kept = (n > 0) & (n >= limits.min_visits)
    left_out["moves_few_visits"] += int(((n > 0) & ~kept).sum())
    edges, ranks = order.edges[kept], order.ranks[kept]
    of = record_of_edges(batch)[edges]
    kept = limited(of, own, limits, report)
    of, edges, ranks = of[kept], edges[kept], ranks[kept]
    moves = moves_of_edges(batch)[edges]
    if limits.all_moves and limits.min_visits == 0:
        owner = np.repeat(np.arange(len(batch)), np.diff(batch.code_offsets))
        free = ~own[owner] if limits.max_moves is not None else np.ones(len(owner), bool)
        free[moves_of_edges(batch)[batch.n > 0]] = False
        rest = np.flatnonzero(free)
        of, ranks = np.append(of, owner[rest]), np.append(ranks, order.of_moves(batch)[rest])
        by_rank = np.lexsort((ranks, of))
        of, moves = of[by_rank], np.append(moves, rest)[by_rank]
        edges = np.append(edges, np.full(len(rest), -1))[by_rank]
    place = (moves - batch.code_offsets[of]).astype(np.int16)
    return Moves(of, edges, place, legal[of, place], edges >= 0)


# ------------------------------------------------------------------ a scan of the file
def scanned(
    store: Store, limits: Selection, report: ExportReport, on_progress: OnProgress | None
) -> Iterator[Positions]:
    """Yields every record of a file that has enough visits, in the order of the file, from one snapshot.

    Raises:
      StoreError: if the file cannot be read.
    """
    apart, done = ApartMoves.of(store), 0
    for whole in store.scan(on_corrupt=lambda error: report.problems.append(str(error))):
        for begin in range(0, len(whole), BATCH):
            batch = whole.part(begin, min(begin + BATCH, len(whole)))
            enough = np.flatnonzero(visits_of(batch) >= limits.min_visits)
            report.left_out["few_visits"] += len(batch) - len(enough)
            if len(enough):
                batch, clocks = take(batch, enough), clocks_of(batch.words[enough])
                every = np.ones(len(batch), bool)
                completed = apart.completed_in(batch, store.read)
                batch, edges = known_edges_of(batch, completed)
                legal, order = legal_codes(batch.words), ranked(edges, clocks, completed)
                moves = listed(edges, order, legal[1], every, limits, report)
                yield Positions(batch, edges, clocks, every, every, None, None, legal, order, moves)
        done += len(whole)
        if on_progress:
            on_progress(done, max(done, store.node_count))


# ------------------------------------------------------------------ a walk over a selection
class Steps(NamedTuple):
    """Where the moves of some visited positions lead.

    Attributes:
      ids: `[R]` of the positions, from 1, in the order in which they were met. met: number of positions met.
      children: `[C]` ids of the positions after the chosen moves, 0 for those not met so far, as may be those
        after draws of the path. new: indices of the moves that were first to meet their position.
      followed: `[C]` whether a move has visits other than draws of the path.
    """

    ids: Ints
    met: int
    children: Ints
    new: Ints
    followed: Mask


class Walk:
    """A walk over one plan; counts omitted positions and moves in `report`.

    Args:
      leaves: visit positions at the depth limit, without following their moves.
      weights: how moves are weighted; "games" and "imported" take the moves from the tables.
    """

    def __init__(
        self,
        store: Store,
        plan: ExportPlan,
        folder: Path,
        report: ExportReport,
        *,
        leaves: bool,
        weights: Weights = "n",
        on_progress: OnProgress | None = None,
    ) -> None:
        self._plan, self._limits, self._report = plan, plan.selection, report
        self._leaves, self._on_progress = leaves, on_progress
        self._tables = tables_of(store, plan.book, weights, plan.admitted)
        self._apart, self._read = ApartMoves.of(store), store.read
        limits = plan.selection
        whole = plan.soft and limits.depth is None and limits.min_visits <= 1 and limits.max_moves is None
        self._expected = store.node_count if whole and self._tables is None else 0
        self._open = ExitStack()
        self._met = self._open.enter_context(Met(folder))
        self._columns = self._open.enter_context(Rows(folder, depth=np.int32, ply=np.int32))
        self.reader = self._open.enter_context(store.reader())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    @property
    def met(self) -> int:
        """The number of positions met."""
        return len(self._met)

    @property
    def words(self) -> Words:
        """The positions at the clocks with which they were met, `[R, 10]`, by id - 1."""
        return self._met.words

    @property
    def depths(self) -> NDArray[np.int32]:
        """The depth of each position, by id - 1."""
        return self._columns["depth"]

    @property
    def plies(self) -> NDArray[np.int32]:
        """The ply of each position, by id - 1."""
        return self._columns["ply"]

    def visits(self) -> Iterator[tuple[Positions, Steps]]:
        """Yields the visited positions, batch by batch, and where their moves lead.

        Raises:
          StoreError: if the file cannot be read.
          OSError: if the temporary files cannot be written.
        """
        roots = self._plan.roots
        _, new = self._met.meet(np.array([pack(board) for board in roots], np.uint64))
        plies = np.array([board.ply() for board in roots], np.int32)[new]
        self._columns.add(depth=np.zeros(len(new), np.int32), ply=plies)
        done = 0
        while done < self.met:
            rows = np.arange(done, min(done + BATCH, self.met))
            done += len(rows)
            yield from self._visit(self._within(rows))
            self._met.release()
            self._report.problems = list(self.reader.problems)
            self._report.left_out["moves_not_admitted"] = self._tables.left_out if self._tables else 0
            if self._on_progress:
                self._on_progress(done, max(self.met, self._expected) if done < self.met else done)

    # -------------------------------------------------------------- one batch
    def _within(self, rows: Ints) -> Ints:
        """Returns the positions above the depth limit, or all if leaves are visited."""
        limit = self._limits.depth
        if limit is None or self._leaves:
            return rows
        inside = rows[self.depths[rows] < limit]
        self._report.left_out["at_depth"] += len(rows) - len(inside)
        return inside

    def _visit(self, rows: Ints) -> Iterator[tuple[Positions, Steps]]:
        """Yields a batch of positions, if there are any, and meets the positions after their moves."""
        batch, known = records_at(self.reader, self.words[rows])
        clocks = clocks_of(batch.words)
        batch.words[:, META] = self.words[rows, META]
        in_tables = self._tables.look_up(batch.words) if self._tables else None
        held = known if in_tables is None else np.array([row is not None for row in in_tables], bool)
        kept = np.flatnonzero(self._held(rows, batch, known, held))
        if not len(kept):
            return
        if len(kept) < len(rows):
            rows, clocks, known = rows[kept], clocks[kept], known[kept]
            batch = take(batch, kept)
        there = None if in_tables is None else [row for i in kept.tolist() if (row := in_tables[i])]
        found = self._positions(rows, with_moves(batch, known), clocks, known, there)
        yield found, self._follow(found, rows)

    def _held(self, rows: Ints, batch: RecordBatch, known: Mask, held: Mask) -> Mask:
        """Returns which of the positions that the file or the tables have are exported; counts the others."""
        left_out = self._report.left_out
        roots = int((~held & (self.depths[rows] == 0)).sum())
        left_out["roots"] += roots
        if not (self._tables and self._tables.are_lines):
            left_out["missing"] += int((~held).sum()) - roots
        few = held & known & (visits_of(batch) < self._limits.min_visits)
        left_out["few_visits"] += int(few.sum())
        return held & ~few

    def _positions(
        self, rows: Ints, batch: RecordBatch, clocks: Ints, known: Mask, there: Sequence[TablePosition] | None
    ) -> Positions:
        black = (batch.words[:, META] & np.uint64(BLACK_TO_MOVE)).astype(bool)
        side = self._plan.side
        own = np.ones(len(batch), bool) if side == "both" else black == (side == "black")
        completed = self._apart.completed_in(batch, self._read)
        batch, edges = known_edges_of(batch, completed)
        legal, order = legal_codes(batch.words), ranked(edges, clocks, completed)
        limits, report = self._limits, self._report
        if self._tables is None or there is None:
            moves = listed(edges, order, legal[1], own, limits, report)
        else:
            moves = self._tables.chosen(there, edges, legal[1], known, own, limits, report)
        return Positions(
            batch=batch,
            edges=edges,
            clocks=clocks,
            known=known,
            own=own,
            depth=self.depths[rows],
            ply=self.plies[rows],
            legal=legal,
            ranked=order,
            moves=moves,
            values=None if there is None else np.array([row.value for row in there]),
            entries=[row.entry for row in there or () if row.entry],
        )

    def _follow(self, found: Positions, rows: Ints) -> Steps:
        """Meets the positions after the chosen moves, except after moves at the depth limit."""
        assert found.depth is not None
        assert found.ply is not None
        chosen, edges = found.moves.some(found.moves.chosen), found.edges
        followed = np.ones(len(chosen.of), bool)
        if self._tables is None:
            followed = edges.n[chosen.edge] > edges.r[chosen.edge]
        limit = self._limits.depth
        children, steps = np.zeros(len(chosen.of), np.int64), np.arange(len(chosen.of))
        if limit is not None:
            steps = np.flatnonzero(found.depth[chosen.of] < limit)
            if self._leaves:
                self._report.left_out["at_depth"] += len(
                    np.unique(chosen.of[found.depth[chosen.of] == limit])
                )
        of, after = chosen.of[steps], found.children[0][found.moves.chosen][steps]
        children[steps], new = self._met.meet(after, followed[steps])
        self._columns.add(depth=found.depth[of[new]] + np.int32(1), ply=found.ply[of[new]] + np.int32(1))
        return Steps(rows + 1, self.met, children, steps[new], followed)


def records_at(reader: Reader, words: Words) -> tuple[RecordBatch, Mask]:
    """Returns a record for each position, without moves for one that is not in the file, and which are."""
    known, records = reader.find(words)
    missing = RecordBatch.empty(int((~known).sum()), 0, 0)
    missing.words[:] = words[~known]
    missing.flags[:] = UNPROVEN
    places = np.where(known, np.cumsum(known), len(records) + np.cumsum(~known)) - 1
    return take(RecordBatch.concat([records, missing]), places), known


# ------------------------------------------------------------------ output after a walk
class Tree:
    """The positions of a walk, by id - 1, and their moves: grouped by position, best first.

    Every position has `visited`, `own`, the index of its first move (`first`) and their number (`size`), and
    its first parent: the id of the position (`parent`, 0 for a root) and the move (`way`, an index). Every
    move has the id of its child position (`child`), 0 if the walk did not meet that.
    """

    def __init__(self, folder: Path, positions: Mapping[str, Any], moves: Mapping[str, Any]) -> None:
        """Makes an empty tree; `positions`, `moves`: types of extra columns."""
        self._open = ExitStack()
        own = {"visited": np.uint8, "own": np.uint8, "first": np.int64, "size": np.int32}
        ways = {"parent": np.int64, "way": np.int64}
        self.positions = self._open.enter_context(Rows(folder, **own, **ways, **positions))
        self.moves = self._open.enter_context(Rows(folder, child=np.int64, **moves))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def add(
        self,
        found: Positions,
        steps: Steps,
        positions: Mapping[str, NDArray[Any]],
        moves: Mapping[str, NDArray[Any]],
        *,
        adopted: int = 0,
    ) -> None:
        """Adds a batch of a walk, with the extra columns of its positions and its chosen moves.

        Args:
          adopted: number of roots that may join another tree; a root joins it if a move leads there.
        """
        rows, of, children = steps.ids - 1, found.moves.of[found.moves.chosen], steps.children
        begin = len(self.moves)
        self.positions.extend_to(steps.met)
        counts = np.bincount(of, minlength=len(found))
        known = {
            "visited": np.ones(len(rows), np.uint8),
            "own": found.own,
            "first": begin + np.cumsum(counts) - counts,
            "size": counts,
        }
        for name, values in (known | dict(positions)).items():
            self.positions[name][rows] = values
        new = children[steps.new] - 1
        self.positions["parent"][new] = steps.ids[of[steps.new]]
        self.positions["way"][new] = begin + steps.new
        self.moves.add(child=children, **moves)
        if adopted:
            parent, way = self.positions["parent"], self.positions["way"]
            below = steps.followed & (children > 0) & (children <= adopted)
            for k in np.flatnonzero(below).tolist():
                root, node = int(children[k]), int(steps.ids[of[k]])
                if parent[root - 1] == 0 and root not in self.above(node):  # else it would make a cycle
                    parent[root - 1], way[root - 1] = node, begin + k
        self.positions.release()
        self.moves.release()

    def above(self, node: int) -> list[int]:
        """Returns a position and its ancestors, up to a root."""
        found = [node]
        while node := int(self.positions["parent"][node - 1]):
            found.append(node)
        return found
