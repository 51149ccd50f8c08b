"""One EPD line per position: its value, visits, best move and best line.

acd   plies of `pv`          acn   node N            bm, pv   SAN; the line of the most visits
c2    score type of ce: a book's values are `centipawn`
ce    centipawns for the side to move (of the book, else of the node); 32767 less the plies to a mate
dm    moves to a mate        hmvc, fmvn  the clocks  id       the key, as the tables have it
c0    Q and the chances to win, draw and lose; c1  what is proven
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from ..position.board import CHECKMATE
from ..position.values import cp_of, shown_score_type, wdl_from_q
from ..query.steps import MoveList, move_lists, positions_after, sans
from ..store.reading import Reader
from ..store.record.node import NodeRecord
from ..store.record.ranking import has_best_move, node_mean, ranking
from ..store.store import Store
from .export_report import ExportReport
from .graph_epd import MATE_CE, MAX_PV, epd_texts
from .output import Target
from .scratch import identity_of
from .selection import Selection
from .streaming import Render, export_stream
from .walk import OnProgress, Stop, note_of


def export_epd(
    path: str | Path,
    target: Target,
    selection: Selection | None = None,
    *,
    on_progress: OnProgress | None = None,
) -> ExportReport:
    """Writes the positions of a graph file as EPD; arguments and errors are those of `export_stream`."""
    return export_stream(
        path, target, selection, "epd", _prepare, epd_texts, rest=False, on_progress=on_progress
    )


def _prepare(store: Store, book: int | None) -> Render:
    def render(stops: list[Stop], texts: list[str], reader: Reader) -> Iterable[tuple[bytes, int]]:
        for stop, fen, pv in zip(stops, texts, best_lines(stops, reader), strict=True):
            yield epd_line(stop, fen, pv).encode() + b"\n", len(stop.choices)

    return render


def epd_line(stop: Stop, fen: str, pv: list[str]) -> str:
    """Returns the EPD line of a position, given its FEN and its best line in SAN."""
    fields = fen.split()
    operations = " ".join(f"{name} {value};" for name, value in _operations(stop, fields, pv))
    return f"{' '.join(fields[:4])} {operations}"


def _operations(stop: Stop, fields: list[str], pv: list[str]) -> Iterator[tuple[str, str]]:
    """Yields opcodes with their operands, in the order of their names."""
    yield "acd", str(len(pv))
    if stop.n is not None:
        yield "acn", str(stop.n)
    if pv:
        yield "bm", pv[0]
    if stop.record is not None:
        yield "c0", f'"{_chances(stop.record)}"'
    note = note_of(stop)
    if note:
        yield "c1", f'"{note}"'
    ce, score_type = _centipawns(stop)
    if score_type:
        yield "c2", f'"{score_type}"'
    if ce is not None:
        yield "ce", str(ce)
    mate = stop.seen.mate
    if mate is not None and mate > 0:
        yield "dm", str((mate + 1) // 2)
    yield from (("fmvn", fields[5]), ("hmvc", fields[4]), ("id", f'"{stop.seen.key}"'))
    if pv:
        yield "pv", " ".join(pv)


def _chances(record: NodeRecord) -> str:
    q, draws = node_mean(record)
    wdl = "/".join(f"{100 * part:.0f}" for part in wdl_from_q(q, draws).as_list())
    return f"Q {q:+.3f}, WDL % {wdl}"


def _centipawns(stop: Stop) -> tuple[int | None, str]:
    """Returns the value for the side to move, None if nothing is known, and its score type, "" for mates."""
    if stop.record is not None and stop.record.terminal == CHECKMATE:
        return -MATE_CE, ""
    mate = stop.seen.mate
    if mate is not None:
        return MATE_CE - mate if mate > 0 else -MATE_CE - mate, ""
    if stop.value is None:
        return None, ""
    draw = node_mean(stop.record)[1] if stop.record is not None else 0.0
    return cp_of(stop.value, draw), shown_score_type()


class _Lines:
    """The best lines of a batch of positions, all of them a ply longer with each reading of the file."""

    def __init__(self, stops: list[Stop]) -> None:
        self.sans: list[list[str]] = [[] for _ in stops]
        self._words = [stop.met.words for stop in stops]
        self._met = [{identity} for identity in identity_of(np.array(self._words, np.uint64))]
        self.open = list(range(len(stops)))

    def step(self, best: list[tuple[MoveList, int] | None]) -> None:
        """Plays a move, given by its index, in every open line; None, and a position met before, end one."""
        played = [(i, *step) for i, step in zip(self.open, best, strict=True) if step]
        if not played:
            self.open = []
            return
        words = np.array([self._words[i] for i, _, _ in played], np.uint64)
        codes = [moves.codes[index] for _, moves, index in played]
        children, _ = positions_after(words, range(len(played)), codes)
        self.open = []
        for (i, moves, index), child, identity in zip(played, children, identity_of(children), strict=True):
            self.sans[i].append(sans(self._words[i].tolist(), moves)[index])
            self._words[i] = child
            if identity not in self._met[i]:
                self._met[i].add(identity)
                self.open.append(i)

    def words(self) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
        """Returns where the open lines stand, `[K, 10]`."""
        return np.array([self._words[i] for i in self.open], np.uint64)


def best_lines(stops: list[Stop], reader: Reader) -> list[list[str]]:
    """Returns the line of every position in SAN: its best exported move, then the most visited ones."""
    lines = _Lines(stops)
    lines.step([_first(stop) for stop in stops])
    for _ in range(1, MAX_PV):
        if not lines.open:
            break
        words = lines.words()
        found, records = reader.find(words)
        place = iter(range(len(records)))
        lines.step(
            [
                _best(moves, records.record(next(place)) if has else None)
                for moves, has in zip(move_lists(words), found.tolist(), strict=True)
            ]
        )
    return lines.sans


def _first(stop: Stop) -> tuple[MoveList, int] | None:
    """Returns the best exported move of a position, or a mate in one that needed no visit."""
    if stop.choices:
        return stop.moves, stop.choices[0].index
    return None if stop.record is None or stop.record.edges else _best(stop.moves, stop.record)


def _best(moves: MoveList, record: NodeRecord | None) -> tuple[MoveList, int] | None:
    """Returns the best move of a record, None if it has none that was visited."""
    if record is None or not has_best_move(record) or len(record.codes) != len(moves.codes):
        return None
    return moves, record.order[ranking(record)[0]]
