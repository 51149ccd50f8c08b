"""The positions of an export in batches of thousands, as columns: from a walk, or from a scan of the file.

A walk is breadth first, and keeps some 110 bytes for each position met. Its moves are those visited by a
search, or those of a book, which has its own values, and may have positions that the graph lacks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.errors import InvalidParameterError
from ..position.board import (
    BLACK_TO_MOVE,
    META,
    POSITION_WORDS,
    clocks_of,
    fens,
    key_texts,
    pack,
    splitmix64,
    unpack,
)
from ..query import columns
from ..query.steps import Floats, Ints, Legal, Mask, Words, code_of, legal_codes, names_of, positions_after
from ..store.apart import ApartMoves, known_edges_of
from ..store.index_kernel import IDENTITY_WORDS
from ..store.ranking import visits_of
from ..store.reading import MAX_ASKED, Reader
from ..store.record import TERMINAL_MASK, TERMINALS, UNPROVEN, RecordBatch, identities, marks_of, take
from ..store.store import Store
from ..store.tables.books import books
from ..store.tables.rows import rows
from .selection import Export

BATCH = 8192  # positions visited together
LEAST_ROOM, MOST_ROOM = 1 << 12, 1 << 22  # positions that a walk has room for as it begins
HASH_FACTORS = np.array([splitmix64(i) | 1 for i in range(IDENTITY_WORDS)], np.uint64)
UNKNOWN = -(1 << 31)  # a number that is not known

RESULTS = ("won", "drawn", "lost")
NOTES = (
    "",
    *TERMINALS.values(),
    *(f"proven: {result} for {side}" for side in ("White", "Black") for result in RESULTS),
)


# ------------------------------------------------------------------ positions met
class Met:
    """Positions numbered from 1 as they were met; each keeps its clock, up to 75 not part of a position.

    A table of ids by hash finds thousands at once, in a tenth of a dictionary's memory.
    """

    def __init__(self, *fields: tuple[str, Any], room: int = 0) -> None:
        """Begins without positions; `fields`: names and types of further columns. `room`: of how many."""
        kinds = [("words", np.uint64, POSITION_WORDS), ("depth", np.int32), ("ply", np.int32), *fields]
        # memory that nothing is written to is not taken
        self._room = np.zeros(min(max(room, LEAST_ROOM), MOST_ROOM), kinds)
        self._slots = np.zeros(2 << len(self._room).bit_length(), np.int32)  # ids, 0 in an empty one
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> NDArray[Any]:
        """By id - 1: `words`, the packed position; `depth` and `ply` of a walk. Writes to it change them."""
        return self._room[: self._count]

    def meet(self, words: Words, follow: Mask | None = None) -> tuple[Ints, Ints]:
        """Numbers positions, `[M, 10]`, met for the first time; `follow`: which may be new, None: all.

        Returns their ids, `[M]`, 0 for one that is neither known nor new, and the indices of the new ones.
        """
        ids, free = self._find(words)
        fresh = np.flatnonzero(ids == 0 if follow is None else (ids == 0) & follow)
        marks = marks_of(words[fresh])
        first = dict(zip(reversed(marks), reversed(fresh.tolist()), strict=True))  # of equal ones
        new = np.sort(np.array([*first.values()], np.int64))
        if self._count + len(new) > len(self._room):
            self._grow(self._count + len(new))
            free = self._find(words)[1]
        self._count += len(new)
        self.rows["words"][self._count - len(new) :] = words[new]
        self._insert(np.arange(self._count - len(new), self._count) + 1, free[new])
        if len(new):
            unknown = np.flatnonzero(ids == 0)
            ids[unknown] = self._find(words[unknown])[0]
        return ids, new

    def _find(self, words: Words) -> tuple[Ints, Ints]:
        """Returns the ids of positions, 0 for unknown ones, and the slot of each, an empty one of these."""
        marks, ids, left = identities(words), np.zeros(len(words), np.int64), np.arange(len(words))
        shift = np.uint64(65 - len(self._slots).bit_length())
        slots = ((marks * HASH_FACTORS).sum(1, dtype=np.uint64) >> shift).astype(np.int64)
        while len(left):
            there = self._slots[slots[left]]
            same = (there > 0) & (identities(self._room["words"][there - 1]) == marks[left]).all(1)
            ids[left[same]] = there[same]
            left = left[(there > 0) & ~same]
            slots[left] = self._next(slots[left])
        return ids, slots

    def _insert(self, ids: Ints, slots: Ints) -> None:
        """Adds new ids, each at its empty slot, or behind another new one there."""
        while len(ids):
            empty = self._slots[slots] == 0
            self._slots[slots[empty]] = ids[empty]
            left = self._slots[slots] != ids
            ids, slots = ids[left], self._next(slots[left])

    def _next(self, slots: Ints) -> Ints:
        return slots + 1 & len(self._slots) - 1

    def _grow(self, count: int) -> None:
        while count > len(self._room):
            self._room = np.concatenate([self._room, np.zeros_like(self._room)])
        self._slots = np.zeros(2 << len(self._room).bit_length(), np.int32)
        for begin in range(0, self._count, BATCH):
            rows = self.rows[begin : begin + BATCH]["words"]
            self._insert(np.arange(begin, begin + len(rows)) + 1, self._find(rows)[1])


# ------------------------------------------------------------------ moves and positions
class BookMove(NamedTuple):
    """A move of a book: `value` when it was added; `child_value` for the side to move there, if searched."""

    move: str
    p: float
    value: float | None
    child_value: float | None
    rule: str
    loss: int | None


class BookEntry(NamedTuple):
    """A position of a book: its row of `book_position` without the identifying columns, and its moves."""

    position: Mapping[str, Any]
    moves: list[BookMove]


@dataclass(frozen=True, slots=True)
class Moves:
    """Moves of visited positions, best first; those without visits by descending P, before losing ones.

    Attributes:
      of: `[M]` the position. edge: in the batch, -1 without one. index: place in canonical order.
      chosen: False for a move listed without visits. p, value: of a book, NaN if unknown; None without one.
    """

    of: Ints
    edge: Ints
    index: NDArray[np.int16]
    code: NDArray[np.uint16]
    chosen: Mask
    p: Floats | None = None
    value: Floats | None = None

    def by_edge(self, values: NDArray[Any]) -> NDArray[Any]:
        """Returns the value of each move's edge, 0 for a move without one."""
        return np.asarray(np.append(values, values.dtype.type(0))[self.edge])  # -1 is the zero at the end


class MoveWorth(NamedTuple):
    """What moves are worth for the side that plays them, `[M]` each.

    Attributes:
      q, draw: 0 without visits. mates: moves to a proven mate, 0 without one. cp: UNKNOWN without visits.
      value: q; of moves of a book, their value there.
    """

    n: NDArray[np.uint32]
    q: Floats
    draw: Floats
    mates: NDArray[np.int16]
    cp: Ints
    value: Floats


@dataclass(frozen=True)
class Positions:
    """A batch of positions with their records, and the moves to export.

    Attributes:
      batch: the records, at the clocks with which they were met. clocks: `[R]` those of the evaluation.
      edges: the same records with edges of moves that were searched apart (`store.apart`).
      known: `[R]` whether the file has the record; without one, only its legal moves are valid.
      own: `[R]` whether the side to move is the one exported.
      depth: `[R]` plies below the root. ply: `[R]` by the move number. None without a walk.
      legal: as `legal_codes`. moves: record by record. entries: of a book; empty without one.
    """

    batch: RecordBatch
    edges: RecordBatch
    clocks: Ints
    known: Mask
    own: Mask
    depth: NDArray[np.int32] | None
    ply: NDArray[np.int32] | None
    legal: Legal
    ranked: columns.Ranked
    moves: Moves
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
    def worth(self) -> columns.Worth:
        """The positions' values from their records."""
        return columns.worth_of(self.batch)

    @cached_property
    def proofs(self) -> columns.Proofs:
        """The proofs of the positions."""
        return columns.proofs_of(self.batch, self.clocks, self.worth, self.legal[2])

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
        """The value of each position for its side to move, that of the book first; NaN if unknown."""
        q = np.where(self.known, self.worth.q, np.nan)
        if not self.entries:
            return q
        values = np.array([entry.position["value"] for entry in self.entries], np.float64)  # None is NaN
        return np.where(np.isnan(values), q, values)

    @cached_property
    def names(self) -> tuple[NDArray[np.bytes_], NDArray[np.uint8]]:
        """The moves in SAN, and their marks, as `names_of`."""
        return names_of(self.words, self.moves.of, self.moves.code, self.legal)

    @cached_property
    def children(self) -> tuple[Words, NDArray[np.uint64]]:
        """The positions after the moves, and their keys, as `positions_after`."""
        return positions_after(self.words, self.moves.of, self.moves.code)

    @cached_property
    def edge_worth(self) -> columns.EdgeWorth:
        """The values of the records' edges."""
        return columns.worth_of_edges(self.edges)

    @cached_property
    def move_worth(self) -> MoveWorth:
        """The values of the moves."""
        worth, moves = self.edge_worth, self.moves
        of_edges = (self.edges.n, worth.q, worth.draw, worth.mates)
        n, q, draw, mates = (moves.by_edge(values) for values in of_edges)
        visited, cp = n > 0, np.full(len(n), UNKNOWN, np.int64)
        cp[visited] = columns.cps_of(q[visited])
        return MoveWorth(n, q, draw, mates, cp, q if moves.value is None else moves.value)

    @property
    def priors(self) -> Floats:
        """P of the moves, as `priors_from_codes`; NaN without a record."""
        batch, moves = self.batch, self.moves
        has = self.known[moves.of] & (np.diff(batch.code_offsets)[moves.of] > 0)
        found = np.full(len(moves.of), np.nan)
        found[has] = columns.priors_of(batch)[batch.code_offsets[moves.of[has]] + moves.index[has]]
        return found

    @property
    def any_priors(self) -> Floats:
        """P of the moves from the records, else from the book, where a move that a person chose has none."""
        p, in_book = self.priors, self.moves.p
        return p if in_book is None else np.where(np.isnan(p) & (in_book > 0), in_book, p)


# ------------------------------------------------------------------ the choice of moves
def _limited(export: Export, of: Ints, own: Mask) -> Mask:
    """Returns which moves a selection exports, best first; `own`: `[R]` the positions that it limits."""
    most = export.selection.max_moves
    if most is None:
        return np.ones(len(of), bool)
    sizes = np.bincount(of, minlength=len(own))
    places = np.arange(len(of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    kept: Mask = ~own[of] | (places < most)
    export.leave_out("moves_beyond", (~kept).sum())
    return kept


def searched_moves(
    export: Export, batch: RecordBatch, order: columns.Ranked, legal: NDArray[np.uint16], own: Mask
) -> Moves:
    """Returns the moves visited by a search, and those without visits if wanted; `own`: as `_limited`."""
    limits, n = export.selection, batch.n[order.edges]
    kept = (n > 0) & (n >= limits.min_visits)
    export.leave_out("moves_few_visits", ((n > 0) & ~kept).sum())
    edges, ranks = order.edges[kept], order.ranks[kept]
    of = columns.record_of_edges(batch)[edges]
    kept = _limited(export, of, own)
    of, edges, ranks = of[kept], edges[kept], ranks[kept]
    moves = columns.moves_of_edges(batch, order.by_prior)[edges]
    if limits.all_moves and limits.min_visits == 0:
        owner = np.repeat(np.arange(len(batch)), np.diff(batch.code_offsets))
        free = ~own[owner] if limits.max_moves is not None else np.ones(len(owner), bool)
        free[columns.moves_of_edges(batch, order.by_prior)[batch.n > 0]] = False
        rest = np.flatnonzero(free)
        of, ranks = np.append(of, owner[rest]), np.append(ranks, order.of_moves(batch)[rest])
        by_rank = np.lexsort((ranks, of))
        of, moves = of[by_rank], np.append(moves, rest)[by_rank]
        edges = np.append(edges, np.full(len(rest), -1))[by_rank]
    place = (moves - batch.code_offsets[of]).astype(np.int16)
    return Moves(of, edges, place, legal[of, place], edges >= 0)


def book_moves(
    export: Export,
    entries: Sequence[BookEntry],
    batch: RecordBatch,
    legal: NDArray[np.uint16],
    known: Mask,
    own: Mask,
) -> Moves:
    """Returns the moves of a book with enough visits, best first; arguments as those of `searched_moves`."""
    of = np.repeat(np.arange(len(entries)), [len(entry.moves) for entry in entries])
    rows = [move for entry in entries for move in entry.moves]
    code = np.array([code_of(move.move) for move in rows], np.uint16)
    hits = (legal[of] == code[:, None]) & (code > 0)[:, None]
    found = np.flatnonzero(hits.any(1))
    export.leave_out("moves_illegal", len(of) - len(found))
    of, code, index = of[found], code[found], hits[found].argmax(1)
    edge = np.full(len(of), -1)
    has = known[of] & (np.diff(batch.code_offsets)[of] > 0)
    edge[has] = columns.edges_by_move(batch)[batch.code_offsets[of[has]] + index[has]]
    n = np.append(batch.n, np.uint32(0))[edge].astype(np.int64)
    numbers = np.array([(move.p, move.child_value, move.value) for move in rows], np.float64)
    p, of_child, of_move = numbers.reshape(-1, 3)[found].T  # None is NaN
    edge_value = np.append(columns.worth_of_edges(batch).q, 0.0)[edge]
    value = np.where(np.isnan(of_child), np.where(n > 0, edge_value, of_move), 0.0 - of_child)
    order = np.lexsort((index, -n, -np.nan_to_num(value), np.isnan(value), of))
    enough = n[order] >= export.selection.min_visits
    export.leave_out("moves_few_visits", (~enough).sum())
    order = order[enough]
    order = order[_limited(export, of[order], own)]
    places, chosen = index[order].astype(np.int16), np.ones(len(order), bool)
    return Moves(of[order], edge[order], places, code[order], chosen, p[order], value[order])


_POSITION = ("ply", "state", "searches", "n", "value", "outside", "outside_move", "priority")
_BOOK_MOVE = ("key", "move", "p", "value", "value?", "rule", "loss")


def book_entries(store: Store, number: int, keys: Iterable[str]) -> dict[str, BookEntry]:
    """Returns the book entries of positions, by key; leaves out positions that are not in the book."""
    wanted = number, json.dumps(sorted(set(keys)))
    where, names = "WHERE book = ? AND key IN (SELECT value FROM json_each(?))", ("key", *_POSITION)
    with store.reading() as connection:
        there = rows(connection, "book_position", names, where, wanted)
        found = {key: BookEntry(dict(zip(_POSITION, row, strict=True)), []) for key, *row in there}
    statement = (
        "SELECT m.key, m.move, m.p, m.value, c.value, m.rule, m.loss FROM book_move m"
        " LEFT JOIN book_position c ON c.book = m.book AND c.key = m.child"
        " WHERE m.book = ? AND m.key IN (SELECT value FROM json_each(?)) ORDER BY m.key, m.move"
    )
    of_moves = [f"book_{'position' if '?' in name else 'move'}.{name}" for name in _BOOK_MOVE]
    for key, *row in store.query(statement, wanted, *of_moves):
        if key in found:
            found[key].moves.append(BookMove(*row))
    return found


def _look_up(export: Export, book: int, words: Words) -> list[BookEntry | None]:
    """Returns positions, `[R, 10]`, with the moves that a book admits now, None for one that it lacks."""
    keys, found = key_texts(words), list[BookEntry | None]()
    there = book_entries(export.store, book, keys)
    for key, row in zip(keys, words, strict=True):
        entry = there.get(key)
        if entry and entry.moves and export.admitted:
            admitted = export.admitted(unpack(row.tolist()))
            kept = [move for move in entry.moves if admitted is None or move.move in admitted]
            export.leave_out("moves_not_admitted", len(entry.moves) - len(kept))
            entry = entry._replace(moves=kept)
        found.append(entry)
    return found


def _with_moves(batch: RecordBatch, known: Mask) -> RecordBatch:
    """Returns records with all legal moves, including positions without a record in the file."""
    if known.all():
        return batch
    sizes = np.diff(batch.code_offsets)
    sizes[~known] = legal_codes(batch.words[~known])[0]
    codes = np.ones(int(sizes.sum()), np.uint8)
    codes[np.repeat(known, sizes)] = batch.codes
    return batch.replace(codes=codes, code_offsets=np.concatenate([[0], np.cumsum(sizes)]))


# ------------------------------------------------------------------ positions of a scan and of a walk
class Steps(NamedTuple):
    """Where the chosen moves of some visited positions lead.

    Attributes:
      ids: `[R]` of the positions. children: `[C]` ids of those after the moves, 0 if not met so far, as may
        be those after draws of the path. followed: `[C]` whether a move has visits other than such draws.
    """

    ids: Ints
    children: Ints
    followed: Mask


class Walk:
    """A walk over the selection of an export; `leaves`: visits positions at the depth limit too."""

    def __init__(self, export: Export, *, leaves: bool) -> None:
        self.export, self.reader, self._leaves = export, export.store.reader(), leaves
        self._apart, limits = ApartMoves.of(export.store), export.selection
        whole = export.soft and limits.depth is None and limits.min_visits <= 1 and limits.max_moves is None
        self._expected = export.store.node_count if whole else 0
        self.met = Met(room=export.store.node_count)

    def visits(self) -> Iterator[tuple[Positions, Steps]]:
        """Yields the visited positions, batch by batch, and where their moves lead.

        Raises:
          InvalidParameterError: if it begins nowhere, in a file with books and no root.
          StoreError: if the file cannot be read.
        """
        export, store, roots, done = self.export, self.export.store, self.export.roots, 0
        has_root = not export.soft or store.roots() or store.read(roots[0]) is not None
        if not has_root and (named := books(store, repertoires=True)):
            names = ", ".join(repr(book.name) for book in named)
            raise InvalidParameterError(f"{store.path} has only books; name one with --book: {names}")
        _, new = self.met.meet(np.array([pack(board) for board in roots], np.uint64))
        self.met.rows["ply"] = np.array([board.ply() for board in roots], np.int32)[new]
        while done < len(self.met):
            # as many as can be read: keys are spread over the file, so each read unpacks most of its blocks
            met = np.arange(done, min(done + MAX_ASKED, len(self.met)))
            done, rows = done + len(met), met
            if (limit := export.selection.depth) is not None and not self._leaves:
                rows = met[self.met.rows["depth"][met] < limit]
                export.leave_out("at_depth", len(met) - len(rows))
            batch, known = records_at(self.reader, self.met.rows["words"][rows])
            for begin in range(0, len(rows), BATCH):
                self._show(done - len(rows) + begin)
                end = min(begin + BATCH, len(rows))
                yield from self._visit(rows[begin:end], batch.part(begin, end), known[begin:end])
            export.report.problems = list(self.reader.problems)
            self._show(done)

    def _show(self, done: int) -> None:
        """Reports the number of positions visited, and of all, as far as they are known."""
        if self.export.on_progress:
            total = len(self.met)
            self.export.on_progress(done, max(total, self._expected) if done < total else done)

    def positions(
        self,
        batch: RecordBatch,
        clocks: Ints,
        known: Mask,
        places: tuple[NDArray[np.int32], NDArray[np.int32]] | None = None,
        entries: Sequence[BookEntry] = (),
    ) -> Positions:
        """Returns the positions of records; `places`: their depths and plies."""
        side = self.export.side
        black = (batch.words[:, META] & np.uint64(BLACK_TO_MOVE)).astype(bool)
        own = np.ones(len(batch), bool) if side == "both" else black == (side == "black")
        completed = self._apart.completed_in(batch)
        batch, edges = known_edges_of(batch, completed)
        legal, order = legal_codes(batch.words), columns.ranked(edges, clocks, completed)
        if self.export.book is None:
            moves = searched_moves(self.export, edges, order, legal[1], own)
        else:
            moves = book_moves(self.export, entries, edges, legal[1], known, own)
        depth, ply = places or (None, None)
        return Positions(batch, edges, clocks, known, own, depth, ply, legal, order, moves, entries)

    def scan(self) -> Iterator[Positions]:
        """Yields every record with enough visits, in the order of the file, from one snapshot.

        Raises:
          StoreError: if the file cannot be read.
        """
        export, done = self.export, 0
        for whole in export.store.scan(on_corrupt=lambda error: export.report.problems.append(str(error))):
            for begin in range(0, len(whole), BATCH):
                batch = whole.part(begin, min(begin + BATCH, len(whole)))
                enough = np.flatnonzero(visits_of(batch) >= export.selection.min_visits)
                export.leave_out("few_visits", len(batch) - len(enough))
                if len(enough):
                    batch = take(batch, enough)
                    yield self.positions(batch, clocks_of(batch.words), np.ones(len(batch), bool))
            done += len(whole)
            if export.on_progress:
                export.on_progress(done, max(done, export.store.node_count))

    # -------------------------------------------------------------- one batch
    def _visit(self, rows: Ints, batch: RecordBatch, known: Mask) -> Iterator[tuple[Positions, Steps]]:
        """Yields a batch of positions, if there are any, and meets the positions after their moves."""
        clocks = clocks_of(batch.words)
        batch.words[:, META] = self.met.rows["words"][rows, META]
        book = self.export.book
        entries = None if book is None else _look_up(self.export, book, batch.words)
        held = known if entries is None else np.array([entry is not None for entry in entries], bool)
        kept = np.flatnonzero(self._held(rows, batch, known, held))
        if not len(kept):
            return
        if len(kept) < len(rows):
            rows, clocks, known = rows[kept], clocks[kept], known[kept]
            batch = take(batch, kept)
        there = [entry for i in kept.tolist() if (entry := entries[i])] if entries else []
        places = self.met.rows["depth"][rows], self.met.rows["ply"][rows]
        found = self.positions(_with_moves(batch, known), clocks, known, places, there)
        yield found, self._follow(found, rows)

    def _held(self, rows: Ints, batch: RecordBatch, known: Mask, held: Mask) -> Mask:
        """Returns which of the positions that the file or the book has are exported; counts the others."""
        export, roots = self.export, int((~held & (self.met.rows["depth"][rows] == 0)).sum())
        export.leave_out("roots", roots)
        export.leave_out("missing", int((~held).sum()) - roots)
        few = held & known & (visits_of(batch) < export.selection.min_visits)
        export.leave_out("few_visits", few.sum())
        return held & ~few

    def _follow(self, found: Positions, rows: Ints) -> Steps:
        """Meets the positions after the chosen moves, except after moves at the depth limit."""
        assert found.depth is not None
        assert found.ply is not None
        chosen = np.flatnonzero(found.moves.chosen)
        of, edge, edges = found.moves.of[chosen], found.moves.edge[chosen], found.edges
        followed = np.ones(len(of), bool)
        if self.export.book is None:
            followed = edges.n[edge] > edges.r[edge]
        limit = self.export.selection.depth
        children, steps = np.zeros(len(of), np.int64), np.arange(len(of))
        if limit is not None:
            steps = np.flatnonzero(found.depth[of] < limit)
            if self._leaves:
                self.export.leave_out("at_depth", len(np.unique(of[found.depth[of] == limit])))
        children[steps], new = self.met.meet(found.children[0][chosen[steps]], followed[steps])
        before, added = of[steps[new]], self.met.rows[len(self.met) - len(new) :]
        added["depth"], added["ply"] = found.depth[before] + 1, found.ply[before] + 1
        return Steps(rows + 1, children, followed)


def records_at(reader: Reader, words: Words) -> tuple[RecordBatch, Mask]:
    """Returns a record for each position, without moves for one that is not in the file, and which are."""
    known, records = reader.find(words)
    missing = RecordBatch.empty(int((~known).sum()), 0, 0)
    missing.words[:] = words[~known]
    missing.flags[:] = UNPROVEN
    places = np.where(known, np.cumsum(known), len(records) + np.cumsum(~known)) - 1
    return take(RecordBatch.concat([records, missing]), places), known


# ------------------------------------------------------------------ the tree of a walk
Columns = Mapping[str, NDArray[Any]]


class Tree:
    """The positions of a walk, by id - 1, and their moves: grouped by position, best first.

    Every position has `visited`, `own`, the index of its first move (`first`) and their number (`size`), and
    its first parent: its id (`parent`, 0 for a root) and the move (`way`, an index). Every move has the id of
    its `child`, 0 if the walk did not meet that. `extra` returns more columns of both. A root
    that the user did not name joins another tree if a move leads there.

    Attributes:
      positions, moves: the columns; none if the walk visited no position.
      visited: number of positions visited. owner: of each move, the id of its position.
    """

    def __init__(
        self, export: Export, walk: Walk, extra: Callable[[Positions], tuple[Columns, Columns]]
    ) -> None:
        of_positions, of_moves, followed = list[Columns](), list[Columns](), [np.zeros(0, bool)]
        roots = len(export.roots)
        for found, steps in walk.visits():
            positions, moves = extra(found)
            size = np.bincount(found.moves.of[found.moves.chosen], minlength=len(found))
            of_positions.append({"id": steps.ids, "own": found.own, "size": size, **positions})
            of_moves.append({"child": steps.children, **moves})
            followed.append(steps.followed)
        there, self.moves = _joined(of_positions), _joined(of_moves)
        children = self.moves.get("child", np.zeros(0, np.int64))
        ids = there.pop("id", np.zeros(0, np.int64))
        count = max(int(children.max(initial=roots)), int(ids.max(initial=0)))
        self.positions = {name: np.zeros(count, values.dtype) for name, values in there.items()}
        for name, values in there.items():
            self.positions[name][ids - 1] = values
        self.visited = len(ids)
        visited = np.zeros(count, bool)
        visited[ids - 1] = True
        size = self.positions.get("size", np.zeros(count, np.int64))
        parent, way = np.zeros((2, count), np.int64)
        self.owner = np.repeat(np.arange(1, count + 1), size)
        self.positions |= {"visited": visited, "first": np.cumsum(size) - size, "parent": parent, "way": way}
        is_followed = np.concatenate(followed)
        below = np.flatnonzero(is_followed & (children > roots))
        new, first = np.unique(children[below], return_index=True)
        parent[new - 1], way[new - 1] = self.owner[below[first]], below[first]
        for k in np.flatnonzero(is_followed & (children > 0) & (children <= roots) & export.soft).tolist():
            root, node = int(children[k]), int(self.owner[k])
            if parent[root - 1] == 0 and root not in self.above(node):  # else it would make a cycle
                parent[root - 1], way[root - 1] = node, k

    def above(self, node: int) -> list[int]:
        """Returns a position and its ancestors, up to a root."""
        found = [node]
        while node := int(self.positions["parent"][node - 1]):
            found.append(node)
        return found


def _joined(parts: Sequence[Columns]) -> dict[str, NDArray[Any]]:
    return {name: np.concatenate([part[name] for part in parts]) for name in (parts[0] if parts else ())}
