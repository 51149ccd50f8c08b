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

from ..position.board import CHECKMATE
from ..position.fens import clocks_of, key_texts
from ..position.values import MATE_CE
from ..position.words import CLOCK_SHIFT, META, WITHOUT_CLOCK
from ..query.columns import best_places, cps_of, edges_by_move
from ..query.steps import SAN_BYTES, Ints, legal_codes, names_of, positions_after
from ..store.codec.bulk import take
from ..store.reading import Reader
from ..store.record.node import TERMINAL_MASK, RecordBatch
from ..store.store import Store
from .met import Met, Rows
from .output import ExportReport, Target
from .rows_export import OnLarge, Part, export_stream
from .selection import Selection
from .walk import NOTES, OnProgress, records_at

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
    return export_stream(path, target, selection, "epd", _texts, on_progress=on_progress, on_large=on_large)


@contextmanager
def _texts(_: Store, reader: Reader, folder: Path) -> Iterator[Callable[[Part], bytes]]:
    with closing(Lines(reader, folder)) as lines:
        yield lambda part: _text(part, lines)


def _text(part: Part, lines: Lines) -> bytes:
    visits, rows = part.visits, part.rows
    worth = visits.worth()
    mate, note = (values[rows] for values in visits.proofs(worth))
    q, draw = worth.q[rows], worth.draw[rows]
    value = visits.value(worth)[rows]
    valued = ~np.isnan(value)
    share = np.minimum(np.maximum(draw, 0.0), 1.0 - np.abs(q))
    chances = ((1.0 - share + q) / 2, share, (1.0 - share - q) / 2)
    wdl = (np.rint(100 * np.maximum(chance, 0.0)).astype(np.int64).tolist() for chance in chances)
    mated = visits.batch.flags[rows] & TERMINAL_MASK == CHECKMATE
    ce = np.where(
        mate > 0,
        MATE_CE - mate,
        np.where(mate < 0, -MATE_CE - mate, cps_of(np.where(valued, value, 0.0))),
    )
    ce = np.where(mated, -MATE_CE, ce)
    columns = (
        *(part.fens, lines.of(part), part.known.tolist(), visits.n[rows].tolist(), q.tolist()),
        *(zip(*wdl, strict=True), note.tolist()),
        *((valued | mated | (mate != 0)).tolist(), ce.tolist(), mate.tolist(), key_texts(part.words)),
    )
    text = []
    for fen, line, known, n, q_, chances_, note, has_ce, ce_, mate_, key in zip(*columns, strict=True):
        *fields, clock, number = fen.split(" ")
        operations = [f"acd {len(line)}"]
        if known:
            operations.append(f"acn {n}")
        if line:
            operations.append(f"bm {line[0]}")
        if known:
            operations.append(f'c0 "Q {q_:+.3f}, WDL % {"/".join(map(str, chances_))}"')
        if note:
            operations.append(f'c1 "{NOTES[note]}"')
        if has_ce:
            operations.append(f"ce {ce_}")
        if mate_ > 0:
            operations.append(f"dm {(mate_ + 1) // 2}")
        operations += [f"fmvn {number}", f"hmvc {clock}", f'id "{key}"']
        if line:
            operations.append(f"pv {' '.join(line)}")
        text.append(f"{' '.join(fields)} {'; '.join(operations)};\n")
    return "".join(text).encode()


class Lines:
    """The best lines of positions; caches each position's best move and the position after it.

    Clocks up to 75 are not part of a position, so the position after a move is the same on every path, except
    for a move from clock 75.
    """

    def __init__(self, reader: Reader, folder: Path) -> None:
        """Makes an empty cache of the records of a file; `folder`: for its temporary files."""
        self._reader, self._met = reader, Met(folder)
        self._links = Rows(folder, san=f"S{SAN_BYTES}", code=np.uint16, state=np.uint8)

    def close(self) -> None:
        """Closes the temporary files."""
        self._links.__exit__()
        self._met.close()

    def of(self, part: Part) -> list[list[str]]:
        """Returns the lines of some positions in SAN."""
        words = part.words
        ids, _ = self._met.meet(words)
        path = np.full((len(ids), MAX_PV + 1), -1, np.int64)
        path[:, 0] = ids
        sans = np.zeros((len(ids), MAX_PV), f"S{SAN_BYTES}")
        self._add_links(ids, _at_evaluation(part))
        going, codes = self._first(part)
        counts, moves, marks = part.visits.legal
        legal = counts[part.rows], moves[part.rows], marks[part.rows]
        sans[going, 0] = names_of(words, going, codes, legal)[0]
        words, _ = positions_after(words, going, codes)
        for ply in range(1, MAX_PV + 1):
            ids, _ = self._met.meet(words)
            new = ~(path[going, :ply] == ids[:, None]).any(1)
            path[going, ply] = ids
            going, ids, words = going[new], ids[new], words[new]
            if ply == MAX_PV or not len(going):
                break
            self._link(ids)
            on = self._links["state"][ids - 1] == GOES_ON
            going, ids, words = going[on], ids[on], words[on]
            sans[going, ply] = self._links["san"][ids - 1]
            words, _ = positions_after(words, np.arange(len(ids)), self._links["code"][ids - 1])
        lengths = (sans > b"").sum(1).tolist()
        return [line[:length] for line, length in zip(sans.astype(str).tolist(), lengths, strict=True)]

    def _first(self, part: Part) -> tuple[Ints, NDArray[np.uint16]]:
        """Returns the positions with a first move, and their best moves, exported or not visited."""
        codes, has = np.zeros(len(part.rows), np.uint16), np.zeros(len(part.rows), bool)
        chosen = part.moves.chosen
        first, where = np.unique(part.of[chosen], return_index=True)
        codes[first], has[first] = part.moves.code[chosen][where], True
        visits, batch = part.visits, part.visits.batch
        best = best_places(batch, clocks_of(batch.words))
        moves = visits.legal[1][np.arange(len(batch)), best]
        known = np.flatnonzero(best >= 0)
        edges = edges_by_move(batch)[batch.code_offsets[known] + best[known]]
        unvisited = np.zeros(len(batch), bool)  # a best move without visits mates, or all visited ones lose
        unvisited[known] = np.append(visits.edges.n, np.uint32(0))[edges] == 0  # -1 is the zero at the end
        better, moves = unvisited[part.rows], moves[part.rows]
        if part.moves.in_tables is not None:  # they know better than the record
            better &= ~has & (np.diff(part.visits.edges.edge_offsets)[part.rows] == 0)
        codes[better], has[better] = moves[better], True
        return np.flatnonzero(has), codes[has]

    def _link(self, ids: Ints) -> None:
        """Computes the best moves of positions that are not in the cache yet."""
        self._links.extend_to(len(self._met))
        new = np.unique(ids[self._links["state"][ids - 1] == UNKNOWN])
        if len(new):
            records, _ = records_at(self._reader, self._met.words[new - 1])
            self._add_links(new, records)
        self._links.release()
        self._met.release()

    def _add_links(self, ids: Ints, batch: RecordBatch) -> None:
        """Adds the best moves of records, at the clocks of their evaluations."""
        links = self._links
        links.extend_to(len(self._met))
        best, legal = best_places(batch, clocks_of(batch.words)), legal_codes(batch.words)
        codes = legal[1][np.arange(len(ids)), best]
        links["state"][ids - 1] = np.where(best >= 0, GOES_ON, ENDS)
        some = np.flatnonzero(best >= 0)
        links["san"][ids[some] - 1] = names_of(batch.words, some, codes[some], legal)[0]
        links["code"][ids[some] - 1] = codes[some]


def _at_evaluation(part: Part) -> RecordBatch:
    """Returns the records of positions at the clocks of their evaluations."""
    batch = take(part.visits.batch, part.rows).copied()
    clocks = part.visits.clocks[part.rows].astype(np.uint64) << np.uint64(CLOCK_SHIFT)
    batch.words[:, META] = batch.words[:, META] & np.uint64(WITHOUT_CLOCK) | clocks
    return batch
