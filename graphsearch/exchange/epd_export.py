"""Exports one EPD line per position: its value, visits, best move and best line.

acd   plies of `pv`          acn   node N            bm, pv   SAN; the line of the most visits
ce    centipawns for the side to move (of the book, else of the node); 32767 less the plies to a mate
dm    moves to a mate        hmvc, fmvn  the clocks  id       the key, as in the tables
c0    Q and the chances to win, draw and lose; c1  the proven result
"""

from __future__ import annotations

from functools import partial
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..position.board import CHECKMATE, clocks_of, key_texts
from ..position.values import MATE_CE
from ..query.columns import chances_of, cps_of, edges_by_move, ranked
from ..query.steps import SAN_BYTES, Ints, Legal, Words, legal_codes, names_of, positions_after
from ..store.reading import Reader
from ..store.record import TERMINAL_MASK
from .rows_export import write_texts
from .selection import Export
from .walk import NOTES, Met, Positions, Walk, records_at

MAX_PV = 12


def write_epd(export: Export, out: BinaryIO) -> None:
    """Writes the positions of a graph file as EPD."""
    walk = Walk(export, leaves=True)
    write_texts(export, out, walk, partial(_rows, lines=Lines(walk.reader)))


def _rows(found: Positions, *, lines: Lines) -> list[str]:
    worth, mate, value = found.worth, found.proofs.mates, found.value
    valued, q = ~np.isnan(value), worth.q
    wdl = (np.rint(100 * chance).astype(np.int64).tolist() for chance in chances_of(worth))
    mated = found.batch.flags & TERMINAL_MASK == CHECKMATE
    ce = np.where(
        mate > 0,
        MATE_CE - mate,
        np.where(mate < 0, -MATE_CE - mate, cps_of(np.where(valued, value, 0.0))),
    )
    ce = np.where(mated, -MATE_CE, ce)
    columns = (
        *(found.fens, lines.of(found), found.known.tolist(), found.n.tolist(), q.tolist()),
        *(zip(*wdl, strict=True), found.notes.tolist()),
        *((valued | mated | (mate != 0)).tolist(), ce.tolist(), mate.tolist(), key_texts(found.words)),
    )
    rows = []
    for fen, line, known, n, q_, chances, note, has_ce, ce_, mate_, key in zip(*columns, strict=True):
        *fields, clock, number = fen.split(" ")
        operations = {
            "acd": len(line),
            "acn": n if known else None,
            "bm": line[0] if line else None,
            "c0": f'"Q {q_:+.3f}, WDL % {"/".join(map(str, chances))}"' if known else None,
            "c1": f'"{NOTES[note]}"' if note else None,
            "ce": ce_ if has_ce else None,
            "dm": (mate_ + 1) // 2 if mate_ > 0 else None,
            "fmvn": number,
            "hmvc": clock,
            "id": f'"{key}"',
            "pv": " ".join(line) or None,
        }
        texts = (f"{name} {value};" for name, value in operations.items() if value is not None)
        rows.append(f"{' '.join(fields)} {' '.join(texts)}\n")
    return rows


class Lines:
    """The best lines of positions, from a cache of each position's best move.

    The position after a move is the same on every path, except for a move from clock 75.
    """

    def __init__(self, reader: Reader) -> None:
        """Makes an empty cache; `code` is 0 for a position without a best move."""
        self._reader, self._met = reader, Met(("san", f"S{SAN_BYTES}"), ("code", np.uint16))

    def of(self, found: Positions) -> list[list[str]]:
        """Returns the lines of some positions in SAN."""
        ids, _ = self._met.meet(found.words)
        self._add_moves(ids, found.words, found.ranked.best, found.legal)
        path = np.full((len(ids), MAX_PV), -1, np.int64)
        path[:, 0] = ids
        sans = np.zeros((len(ids), MAX_PV), f"S{SAN_BYTES}")
        going, codes = _first_moves(found)
        sans[going, 0] = names_of(found.words, going, codes, found.legal)[0]
        words, _ = positions_after(found.words, going, codes)
        for ply in range(1, MAX_PV):
            ids = self._meet(words)
            path[going, ply] = ids
            links = self._met.rows[ids - 1]
            on = (links["code"] > 0) & ~(path[going, :ply] == ids[:, None]).any(1)
            going, links = going[on], links[on]
            if not len(going):
                break
            sans[going, ply] = links["san"]
            words, _ = positions_after(words[on], np.arange(len(going)), links["code"])
        lengths = (sans > b"").sum(1).tolist()
        return [line[:length] for line, length in zip(sans.astype(str).tolist(), lengths, strict=True)]

    def _meet(self, words: Words) -> Ints:
        """Returns the ids of positions; reads the best moves of new ones."""
        ids, new = self._met.meet(words)
        if len(new):
            batch, _ = records_at(self._reader, words[new])
            best = ranked(batch, clocks_of(batch.words)).best
            self._add_moves(ids[new], batch.words, best, legal_codes(batch.words))
        return ids

    def _add_moves(self, ids: Ints, words: Words, best: Ints, legal: Legal) -> None:
        """Adds the best moves of positions, -1 for none."""
        codes = np.where(best >= 0, legal[1][np.arange(len(best)), best], 0)
        some = np.flatnonzero(codes)
        self._met.rows["code"][ids - 1] = codes
        self._met.rows["san"][ids[some] - 1] = names_of(words, some, codes[some], legal)[0]


def _first_moves(found: Positions) -> tuple[Ints, NDArray[np.uint16]]:
    """Returns the positions with a first move, and their best moves, exported or not visited."""
    moves, edges, best = found.moves, found.edges, found.ranked.best
    codes, has = np.zeros(len(found), np.uint16), np.zeros(len(found), bool)
    chosen = np.flatnonzero(moves.chosen)
    first, where = np.unique(moves.of[chosen], return_index=True)
    codes[first], has[first] = moves.code[chosen[where]], True
    known = np.flatnonzero(best >= 0)
    edge = edges_by_move(edges)[edges.code_offsets[known] + best[known]]
    better = np.zeros(len(found), bool)  # a best move without visits mates, or all visited ones lose
    better[known] = np.append(edges.n, np.uint32(0))[edge] == 0  # -1 is the zero at the end
    if moves.value is not None:  # it knows better than the record
        better &= ~has & (np.diff(edges.edge_offsets) == 0)
    codes[better], has[better] = found.legal[1][better, best[better]], True
    return np.flatnonzero(has), codes[has]
