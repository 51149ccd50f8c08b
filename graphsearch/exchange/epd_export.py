"""Exports one EPD line per position: its value, visits, best move and best line.

acd   plies of `pv`          acn   node N            bm, pv   SAN; the line of the most visits
ce    centipawns for the side to move (of the book, else of the node); 32767 less the plies to a mate
dm    moves to a mate        hmvc, fmvn  the clocks  id       the key, as in the tables
c0    Q and the chances to win, draw and lose; c1  the proven result
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..position.board import CHECKMATE, FREE_CLOCK
from ..position.fens import clocks_of
from ..position.values import MATE_CE
from ..position.words import CLOCK_BITS, CLOCK_SHIFT, META, WITHOUT_CLOCK
from ..query.steps import Ints, Words
from ..store.codec.bulk import board_tables, columns_of
from ..store.record.node import TERMINAL_MASK
from ..store.store import Store
from .columns import cps_of, edges_by_move
from .output import ExportReport, Target
from .pool import RecordPool, Rows
from .selection import Selection
from .streaming import OnLarge, Part, Text, export_stream
from .text_kernel import FEN_BODY, FIXED, INTEGER, NAME, TEXT
from .text_rows import Field, Joints, fixed, key_field, literal, names_of, records_text
from .walk import NOTES, OnProgress
from .worth_kernel import best_moves

MAX_PV = 12
UNKNOWN, ENDS, GOES_ON = 0, 1, 2  # states of a link: not computed, no best move, best move stored


def export_epd(
    path: str | Path,
    target: Target,
    selection: Selection | None = None,
    *,
    on_progress: OnProgress | None = None,
    on_large: OnLarge | None = None,
) -> ExportReport:
    """Writes the positions of a graph file as EPD; arguments and errors as in `export_stream`."""
    return export_stream(
        path, target, selection, "epd", _texts, rest=False, on_progress=on_progress, on_large=on_large
    )


@contextmanager
def _texts(_: Store, pool: RecordPool, folder: Path) -> Iterator[Callable[[Part], Text]]:
    with closing(Lines(pool, folder)) as lines:
        yield lambda part: _lines(part, lines)


def _lines(part: Part, lines: Lines) -> Text:
    visits, rows, known = part.visits, part.rows, part.known
    worth = visits.worth(proven=True)
    q, draw, mate = worth.q[rows], worth.draw[rows], worth.mates[rows]
    value = visits.value(worth)[rows]
    valued = ~np.isnan(value)
    share = np.minimum(np.maximum(draw, 0.0), 1.0 - np.abs(q))
    chances = ((1.0 - share + q) / 2, share, (1.0 - share - q) / 2)
    win, even, loss = (np.rint(100 * np.maximum(chance, 0.0)).astype(np.int64) for chance in chances)
    mated = visits.batch.flags[rows] & TERMINAL_MASK == CHECKMATE
    ce = np.where(
        mate > 0,
        MATE_CE - mate,
        np.where(mate < 0, -MATE_CE - mate, cps_of(np.where(valued, value, 0.0))),
    )
    notes = visits.notes(worth)[rows]
    sans, begins = lines.of(part)
    lengths = np.diff(begins)
    first = np.append(sans, np.uint64(0))[begins[:-1]]
    head = [
        Field("", FEN_BODY, rows),
        Field(" acd ", INTEGER, lengths, after=";"),
        Field(" acn ", INTEGER, visits.n[rows], known, after=";"),
        Field(" bm ", NAME, first, lengths > 0, after=";"),
        Field(' c0 "Q ', FIXED, fixed(q, 3), known, decimals=-3),
        Field(", WDL % ", INTEGER, win, known),
        Field("/", INTEGER, even, known),
        Field("/", INTEGER, loss, known, after='";'),
        Field(' c1 "', TEXT, notes, notes > 0, after='";', texts=NOTES),
        Field(" ce ", INTEGER, np.where(mated, -MATE_CE, ce), valued | mated | (mate != 0), after=";"),
        Field(" dm ", INTEGER, (mate + 1) // 2, mate > 0, after=";"),
        Field(" fmvn ", INTEGER, visits.ply[rows] // 2 + 1, after=";"),
        Field(" hmvc ", INTEGER, clocks_of(part.words), after=";"),
        key_field(' id "', part.keys, part.metas, '";'),
    ]
    items = [Field("", NAME, sans)]
    joints = Joints(" pv ", " ", ";")
    return records_text(part.words, head, items, [literal("\n", len(rows))], begins, joints)


class Lines:
    """The best lines of positions; caches each record's best move and its child.

    Clocks up to 75 are not part of a position, so a child is the same on every path, except for a move from
    clock 75.
    """

    def __init__(self, pool: RecordPool, folder: Path) -> None:
        """Makes an empty cache over the records of a pool; `folder`: for its temporary files."""
        self._pool = pool
        self._links = Rows(
            folder, san=np.uint64, code=np.uint16, child=np.int64, clock=np.uint8, state=np.uint8
        )

    def close(self) -> None:
        """Closes the temporary files."""
        self._links.__exit__()

    def of(self, part: Part) -> tuple[Words, Ints]:
        """Returns the concatenated lines of some positions in SAN, and the offset of each line."""
        rows, words = part.rows, part.words
        path = np.full((len(rows), MAX_PV + 1), -1, np.int64)
        sans = np.zeros((len(rows), MAX_PV), np.uint64)
        path[:, 0] = part.visits.numbers[rows]
        clocks = clocks_of(words)
        going, codes = self._first(part)
        sans[going, 0] = names_of(words, going, codes).san
        children, metas = self._pool.children_of(words, going, codes)
        for ply in range(1, MAX_PV + 1):
            clocks[going] = (metas >> np.uint64(CLOCK_SHIFT) & np.uint64(CLOCK_BITS)).astype(np.int64)
            new = ~(path[going, :ply] == children[:, None]).any(1)
            path[going, ply] = children
            going, children = going[new], children[new]
            if ply == MAX_PV or not len(going):
                break
            self._link(children)
            on = self._links["state"][children] == GOES_ON
            going, children = going[on], children[on]
            sans[going, ply] = self._links["san"][children]
            children, metas = self._next(children, clocks[going])
        lengths = (sans > 0).sum(1)
        begins = np.concatenate([[0], np.cumsum(lengths)])
        return sans[sans > 0], begins

    def _first(self, part: Part) -> tuple[Ints, NDArray[np.uint16]]:
        """Returns the positions with a first move, and their best moves, exported or not visited."""
        codes, has = np.zeros(len(part.rows), np.uint16), np.zeros(len(part.rows), bool)
        chosen = part.moves.chosen
        first, where = np.unique(part.of[chosen], return_index=True)
        codes[first], has[first] = part.moves.code[chosen][where], True
        batch = part.visits.batch
        best, moves = np.empty(len(batch), np.int64), np.empty(len(batch), np.uint16)
        best_moves(board_tables(), columns_of(batch), best, moves)
        known = np.flatnonzero(best >= 0)
        edges = edges_by_move(batch)[batch.code_offsets[known] + best[known]]
        unvisited = np.zeros(len(batch), bool)  # a best move without visits mates, or all visited ones lose
        unvisited[known] = (
            np.append(part.visits.edges.n, np.uint32(0))[edges] == 0
        )  # -1 is the zero at the end
        better, moves = unvisited[part.rows], moves[part.rows]
        if part.moves.in_tables is not None:  # they know better than the record
            better &= ~has & (np.diff(part.visits.edges.edge_offsets)[part.rows] == 0)
        codes[better], has[better] = moves[better], True
        return np.flatnonzero(has), codes[has]

    def _link(self, numbers: Ints) -> None:
        """Computes the best moves of records that are not in the cache yet."""
        links = self._links
        links.extend_to(len(self._pool))
        new = np.unique(numbers[links["state"][numbers] == UNKNOWN])
        if not len(new):
            return
        links["state"][new] = ENDS
        batch = self._pool.records_of(new)
        best, codes = np.empty(len(new), np.int64), np.empty(len(new), np.uint16)
        best_moves(board_tables(), columns_of(batch), best, codes)
        some = np.flatnonzero(best >= 0)
        words = np.ascontiguousarray(batch.words[some])
        at = clocks_of(words)
        words[at <= FREE_CLOCK, META] &= np.uint64(WITHOUT_CLOCK)
        of = np.arange(len(some))
        children, metas = self._pool.children_of(words, of, codes[some])
        links.extend_to(len(self._pool))
        links["san"][new[some]] = names_of(words, of, codes[some]).san
        links["code"][new[some]], links["child"][new[some]] = codes[some], children
        links["clock"][new[some]] = metas >> np.uint64(CLOCK_SHIFT) & np.uint64(CLOCK_BITS)
        links["state"][new[some]] = GOES_ON

    def _next(self, numbers: Ints, clocks: Ints) -> tuple[Ints, Words]:
        """Returns the child after each record's best move, when reached at the given clocks, and its META."""
        children = self._links["child"][numbers].copy()
        after = np.where(self._links["clock"][numbers] > 0, clocks + 1, 0)
        metas = after.astype(np.uint64) << np.uint64(CLOCK_SHIFT)
        late = np.flatnonzero((clocks == FREE_CLOCK) & (after > FREE_CLOCK))
        if len(late):
            words = self._pool.records.words[numbers[late]]
            words[:, META] &= np.uint64(WITHOUT_CLOCK)
            words[:, META] |= np.uint64(FREE_CLOCK << CLOCK_SHIFT)
            children[late] = self._pool.children_of(
                words, np.arange(len(late)), self._links["code"][numbers[late]]
            )[0]
        return children, metas
