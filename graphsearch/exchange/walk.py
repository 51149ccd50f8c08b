"""Walks over the positions of a selection breadth first, in batches of thousands, as columns.

The positions met are in temporary files (`met.py`), and records are read when their positions are visited, so
memory does not depend on the size of the file. The moves are those visited by a search, or those in tables
(`choices.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..position.board import pack
from ..position.fens import clocks_of
from ..position.words import BLACK_TO_MOVE, META
from ..query.columns import (
    EdgeWorth,
    Worth,
    cps_of,
    places_by_prior,
    proofs_of,
    ranked_edges,
    record_of_edges,
    worth_of,
    worth_of_edges,
)
from ..query.steps import Floats, Ints, Legal, Mask, Words, legal_codes, names_of, positions_after
from ..store.apart import ApartMoves, known_edges_of
from ..store.codec.bulk import take
from ..store.reading import Reader
from ..store.record.known import CompletedRecord
from ..store.record.node import TERMINAL_MASK, UNPROVEN, RecordBatch
from ..store.record.ranking import visits_of
from ..store.store import Store
from .choices import BookEntry, Moves, TableRows, Weights, tables_of, with_moves
from .met import Column, Met
from .output import ExportReport
from .selection import ExportPlan

BATCH = 4000  # positions visited together
READ = 4 * BATCH  # positions whose records are read together, and visited between two releases of memory
UNKNOWN = -(1 << 31)  # a number that is not known

TERMINALS = {1: "checkmate", 2: "stalemate", 3: "draw by insufficient material"}
RESULTS = ("won", "drawn", "lost")
NOTES = (
    "",
    *TERMINALS.values(),
    *(f"proven: {result} for {side}" for side in ("White", "Black") for result in RESULTS),
)

OnProgress = Callable[[int, int], None]  # positions visited, positions met or expected


@dataclass(frozen=True, slots=True)
class Visits:
    """A batch of visited positions.

    Attributes:
      ids: `[R]` from 1, in the order in which they were met.
      depth: plies below the root. ply: by the move number. own: whether the side to move is the one exported.
      batch: their records, at the clocks with which they were met. clocks: those of the evaluation.
      edges: the same records with the known edges: those of moves that were searched apart (`store.apart`).
      known: whether the file has the record; without one, only its legal moves are valid.
      legal: the legal moves, as `legal_codes`.
      n: node N. moves: of the positions. met: number of positions met so far.
      children: `[C]` ids of the positions after the chosen moves, 0 for those not met so far, as may be those
        after draws of the path. new: indices of the moves that were first to meet their position.
      followed: whether a move has visits other than draws of the path.
      values: of the positions, from tables, NaN if unknown; None without tables.
      entries: of a book; empty without one.
    """

    ids: Ints
    depth: NDArray[np.int32]
    ply: NDArray[np.int32]
    own: Mask
    batch: RecordBatch
    edges: RecordBatch
    clocks: Ints
    known: Mask
    legal: Legal
    n: Ints
    moves: Moves
    children: Ints
    new: Ints
    followed: NDArray[np.uint8]
    met: int
    values: Floats | None
    entries: Sequence[BookEntry]

    def __len__(self) -> int:
        return len(self.ids)

    def worth(self) -> Worth:
        """Returns the positions' values from their records."""
        return worth_of(self.batch)

    def proofs(self, worth: Worth) -> tuple[Ints, Ints]:
        """Returns the plies to the mate of each position, as `Proofs.mates`, and what is proven, in NOTES."""
        mates, notes = proofs_of(self.batch, self.clocks, worth, self.legal[2])
        terminal = (self.batch.flags & TERMINAL_MASK).astype(np.int64)
        black = (self.batch.words[:, META] & np.uint64(BLACK_TO_MOVE)).astype(np.int64)
        results = np.where(notes > 0, len(TERMINALS) + notes + len(RESULTS) * black, 0)
        return mates, np.where(self.known, np.where(terminal > 0, terminal, results), 0)

    def names(self, moves: Moves) -> tuple[NDArray[np.bytes_], NDArray[np.uint8]]:
        """Returns moves in SAN, and their marks, as `names_of`."""
        return names_of(self.batch.words, moves.of, moves.code, self.legal)

    def move_worth(self, moves: Moves) -> MoveWorth:
        """Returns what moves are worth."""
        worth = self.edge_worth()
        columns = (self.edges.n, worth.q, worth.draw, worth.mates)
        n, q, draw, mates = (moves.by_edge(values) for values in columns)
        visited, cp = n > 0, np.full(len(n), UNKNOWN, np.int64)
        cp[visited] = cps_of(q[visited])
        value = q if moves.in_tables is None else moves.in_tables.value
        return MoveWorth(n, q, draw, mates, cp, value)

    def edge_worth(self) -> EdgeWorth:
        """Returns the values of the records' edges."""
        return worth_of_edges(self.edges)

    def value(self, worth: Worth) -> Floats:
        """Returns the value of each position for its side to move, NaN if unknown."""
        q = np.where(self.known, worth.q, np.nan)
        return q if self.values is None else np.where(np.isnan(self.values), q, self.values)

    def priors(self, moves: Moves) -> Floats:
        """Returns P of moves, as `priors_from_codes`; NaN without a record."""
        batch = self.batch
        powers = batch.codes.astype(np.int64) ** 4
        before = np.concatenate([[0], np.cumsum(powers)])
        totals = before[batch.code_offsets[1:]] - before[batch.code_offsets[:-1]]
        found, has = np.full(len(moves.of), np.nan), self.known[moves.of] & (totals[moves.of] > 0)
        of, index = moves.of[has], moves.index[has]
        found[has] = powers[batch.code_offsets[of] + index] / totals[of]
        return found

    def any_priors(self, moves: Moves) -> Floats:
        """Returns P of moves from the records, else from the tables."""
        p = self.priors(moves)
        return p if moves.in_tables is None else np.where(np.isnan(p), moves.in_tables.p, p)


class MoveWorth(NamedTuple):
    """What moves are worth for the side that plays them, `[M]` each.

    Attributes:
      n: visits. q, draw: of the edge, 0 without visits. mates: moves to a proven mate, 0 without one.
      cp: of q and draw, UNKNOWN without visits. value: q; of moves that tables name, their value there.
    """

    n: NDArray[np.uint32]
    q: Floats
    draw: Floats
    mates: Ints
    cp: Ints
    value: Floats


class Walk:
    """A walk over one plan; counts omitted positions and moves in `report`.

    Args:
      leaves: visit positions at the depth limit, without following their moves.
      rest: list moves without visits, if the selection asks for them.
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
        rest: bool = False,
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
        self._rest = rest and limits.all_moves and limits.min_visits == 0
        self._met = Met(folder)
        self._depth, self._ply = Column(folder, np.int32), Column(folder, np.int32)
        self.reader = store.reader()
        self._records = RecordBatch.empty(0, 0, 0)
        self._known: Mask = np.zeros(0, bool)
        self._first = 0  # row of the first of `_records`

    def close(self) -> None:
        """Closes the temporary files and the reader."""
        for column in (self._met, self._depth, self._ply):
            column.close()
        self.reader.close()

    def __enter__(self) -> Walk:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

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
        return self._depth.values

    @property
    def plies(self) -> NDArray[np.int32]:
        """The ply of each position, by id - 1."""
        return self._ply.values

    def visits(self) -> Iterator[Visits]:
        """Yields the visited positions, batch by batch.

        Raises:
          StoreError: if the file cannot be read.
          OSError: if the temporary files cannot be written.
        """
        _, new = self._met.meet(np.array([pack(board) for board in self._plan.roots], np.uint64))
        self._depth.extend(len(new))
        self._ply.add(np.array([board.ply() for board in self._plan.roots], np.int32)[new])
        done = 0
        while done < self.met:
            last = min(done + BATCH, self.met)
            found = self._visit(np.arange(done, last))
            done = last
            if found is not None:
                yield found
            self._report.problems = list(self.reader.problems)
            self._report.left_out["moves_not_admitted"] = self._tables.left_out if self._tables else 0
            if self._on_progress:
                self._on_progress(done, max(self.met, self._expected) if done < self.met else done)

    # -------------------------------------------------------------- one batch
    def _visit(self, rows: Ints) -> Visits | None:
        """Visits a batch of positions, and meets the positions after their moves."""
        rows = self._within(rows)
        if not len(rows):
            return None
        batch, known = self._records_of(rows)
        clocks = clocks_of(batch.words)
        batch.words[:, META] = self.words[rows, META]
        table_rows = self._tables.look_up(batch.words) if self._tables else None
        held = known if table_rows is None else table_rows.held
        roots = int((~held & (self._depth.values[rows] == 0)).sum())
        self._report.left_out["roots"] += roots
        if not (self._tables and self._tables.are_lines):
            self._report.left_out["missing"] += int((~held).sum()) - roots
        n = visits_of(batch)
        few = held & known & (n < self._limits.min_visits)
        self._report.left_out["few_visits"] += int(few.sum())
        kept = np.flatnonzero(held & ~few)
        if not len(kept):
            return None
        if len(kept) < len(rows):
            rows, n, clocks, known = rows[kept], n[kept], clocks[kept], known[kept]
            batch, table_rows = take(batch, kept), table_rows and table_rows.some(kept)
        return self._visited(rows, with_moves(batch, known), clocks, known, n, table_rows)

    def _records_of(self, rows: Ints) -> tuple[RecordBatch, Mask]:
        """Returns the records of consecutive positions, and which of them the file has."""
        begin, end = int(rows[0]) - self._first, int(rows[-1]) + 1 - self._first
        if end > len(self._records):
            self._met.release()
            self._first, begin, end = int(rows[0]), 0, len(rows)
            wanted = self.words[self._first : self._first + READ]
            self._records, self._known = records_at(self.reader, wanted)
        return self._records.part(begin, end), self._known[begin:end]

    def _within(self, rows: Ints) -> Ints:
        """Returns the positions above the depth limit, or all if leaves are visited."""
        limit = self._limits.depth
        if limit is None or self._leaves:
            return rows
        inside = rows[self._depth.values[rows] < limit]
        self._report.left_out["at_depth"] += len(rows) - len(inside)
        return inside

    def _visited(
        self, rows: Ints, batch: RecordBatch, clocks: Ints, known: Mask, n: Ints, table_rows: TableRows | None
    ) -> Visits:
        black = (batch.words[:, META] & np.uint64(BLACK_TO_MOVE)).astype(bool)
        side = self._plan.side
        own = np.ones(len(batch), bool) if side == "both" else black == (side == "black")
        completed = self._apart.completed_in(batch, self._read)
        batch, edges = known_edges_of(batch, completed)
        legal = legal_codes(batch.words)
        if table_rows is None:
            moves = self._listed(edges, clocks, own, completed, legal[1])
        else:
            moves = table_rows.chosen(edges, legal[1], known, own, self._limits, self._report)
        chosen = moves.some(moves.chosen)
        follow = np.ones(len(chosen.of), np.uint8)
        if table_rows is None:
            follow = (edges.n[chosen.edge] > edges.r[chosen.edge]).astype(np.uint8)
        depth, ply = self._depth.values[rows].copy(), self._ply.values[rows].copy()
        children, new = self._follow(batch, chosen, follow, depth, ply)
        return Visits(
            ids=rows + 1,
            depth=depth,
            ply=ply,
            own=own,
            batch=batch,
            edges=edges,
            clocks=clocks,
            known=known,
            legal=legal,
            n=n,
            moves=moves,
            children=children,
            new=new,
            followed=follow,
            met=self.met,
            values=table_rows.values if table_rows else None,
            entries=table_rows.entries if table_rows else (),
        )

    def _listed(
        self,
        batch: RecordBatch,
        clocks: Ints,
        own: Mask,
        completed: Mapping[int, CompletedRecord],
        legal: NDArray[np.uint16],
    ) -> Moves:
        """Returns the moves visited by a search, and those without visits if the selection asks for them.

        Args:
          batch: the records with their known edges. completed: those that know moves searched apart.
          legal: `[R, MAX_MOVES]` the legal moves.
        """
        limits, by_prior = self._limits, places_by_prior(batch)
        edges, all_of = ranked_edges(batch, clocks, completed), record_of_edges(batch)
        n = batch.n[edges]
        few = (n > 0) & (n < limits.min_visits)
        edges = edges[(n > 0) & ~few]
        of = all_of[edges]
        if limits.max_moves is not None:
            sizes = np.bincount(of, minlength=len(batch))
            rank = np.arange(len(of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            kept = ~own[of] | (rank < limits.max_moves)
            self._report.left_out["moves_beyond"] += int((~kept).sum())
            of, edges = of[kept], edges[kept]
        self._report.left_out["moves_few_visits"] += int(few.sum())
        place = by_prior[of, edges - batch.edge_offsets[of]]
        if self._rest:
            visited = all_of, np.arange(len(all_of)) - batch.edge_offsets[all_of]
            free = np.arange(by_prior.shape[1])[None] < np.diff(batch.code_offsets)[:, None]
            free[visited] = batch.n == 0
            if limits.max_moves is not None:
                free[own] = False
            rest, k = np.nonzero(free)
            group = np.concatenate([2 * worth_of_edges(batch).lost[edges], np.ones(len(rest), np.int64)])
            order = np.lexsort((group, np.concatenate([of, rest])))  # certain losses come last
            of, edges = np.concatenate([of, rest])[order], np.append(edges, np.full(len(rest), -1))[order]
            place = np.concatenate([place, by_prior[rest, k]])[order]
        return Moves(of, edges, place.astype(np.int16), legal[of, place], edges >= 0)

    def _follow(
        self,
        batch: RecordBatch,
        chosen: Moves,
        follow: NDArray[np.uint8],
        depth: NDArray[np.int32],
        ply: NDArray[np.int32],
    ) -> tuple[Ints, Ints]:
        """Meets the positions after moves.

        Returns:
          Their ids, 0 after moves at the depth limit; indices of the moves that met a position first.
        """
        limit = self._limits.depth
        children = np.zeros(len(chosen.of), np.int64)
        steps = np.arange(len(chosen.of))
        if limit is not None:
            steps = np.flatnonzero(depth[chosen.of] < limit)
            if self._leaves:
                self._report.left_out["at_depth"] += len(np.unique(chosen.of[depth[chosen.of] == limit]))
        if not len(steps):
            return children, steps
        of = chosen.of[steps]
        after, _ = positions_after(batch.words, of, chosen.code[steps])
        children[steps], new = self._met.meet(after, follow[steps] > 0)
        self._depth.add(depth[of[new]] + np.int32(1))
        self._ply.add(ply[of[new]] + np.int32(1))
        return children, steps[new]


def records_at(reader: Reader, words: Words) -> tuple[RecordBatch, Mask]:
    """Returns a record for each position, without moves for one that is not in the file, and which are."""
    known, records = reader.find(words)
    missing = RecordBatch.empty(int((~known).sum()), 0, 0)
    missing.words[:] = words[~known]
    missing.flags[:] = UNPROVEN
    places = np.where(known, np.cumsum(known), len(records) + np.cumsum(~known)) - 1
    return take(RecordBatch.concat([records, missing]), places), known
