"""A walk over what is exported: every position once, breadth first, in batches, in bounded memory.

The positions met and still to be visited are in a temporary file (`scratch.py`); of the graph one batch of
records is in memory. Each batch is read from the state that the file has then, so a search may write it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import chess
import numpy as np

from ..position.board import pack
from ..position.values import cp_of
from ..query.steps import MoveList, move_lists, positions_after, sans
from ..store.reading import Reader
from ..store.record.node import NodeRecord
from ..store.store import Store
from .candidates import Candidates, Choice, Seen, Source
from .export_report import ExportReport
from .scratch import KeptEdge, Met, Scratch, WayIn, Words, identity_of
from .selection import ExportPlan

BATCH = 1000  # positions that are visited together

OnProgress = Callable[[int, int], None]  # positions visited, positions met


@dataclass(frozen=True, slots=True)
class Stop:
    """A visited position.

    Attributes:
      choices: the moves that are exported, best first. sans: all legal moves in SAN, canonical order.
      n, value: as in `Candidates`. own: whether the side to move is the one whose book it is.
      unvisited: whether moves without visits are exported too, where a format has them.
    """

    seen: Seen
    choices: tuple[Choice, ...]
    sans: list[str]
    n: int | None
    value: float | None
    own: bool
    unvisited: bool

    @property
    def met(self) -> Met:
        """The position as it was met."""
        return self.seen.met

    @property
    def record(self) -> NodeRecord | None:
        """Its record."""
        return self.seen.record

    @property
    def moves(self) -> MoveList:
        """Its legal moves."""
        return self.seen.moves


class Walk:
    """A walk of one plan. `report` counts what it leaves out.

    Args:
      leaves: whether positions at the depth limit are visited: their moves are not followed.
      keep: whether moves are kept in the temporary file, for what comes after the walk.
    """

    def __init__(
        self,
        store: Store,
        plan: ExportPlan,
        source: Source,
        scratch: Scratch,
        report: ExportReport,
        *,
        leaves: bool,
        keep: bool = False,
        on_progress: OnProgress | None = None,
    ) -> None:
        self._store = store
        self._plan = plan
        self._limits = plan.selection
        self._source = source
        self._scratch = scratch
        self._report = report
        self._leaves = leaves
        self._keep = keep
        self._on_progress = on_progress
        self._least = max(self._limits.min_visits, 0 if plan.book is not None else 1)

    def stops(self) -> Iterator[list[Stop]]:
        """Yields the visited positions, batch by batch.

        Raises:
          StoreError: if the file cannot be read.
          ExportError: if the temporary file cannot be written.
        """
        self._begin()
        done = 0
        with self._store.reader() as reader:
            while batch := self._scratch.next(done, BATCH):
                done = batch[-1].id
                yield self._visit(reader, self._within(batch))
                self._report.problems = list(reader.problems)
                if self._on_progress:
                    self._on_progress(done, self._scratch.met)

    def exhaust(self) -> None:
        """Walks to the end; what was found is in the temporary file."""
        for _ in self.stops():
            pass

    def _begin(self) -> None:
        words = np.array([pack(board) for board in self._plan.roots], np.uint64)
        ways = [
            WayIn(identity, 0, board.ply(), row.tobytes())
            for identity, board, row in zip(identity_of(words), self._plan.roots, words, strict=True)
        ]
        self._scratch.add_roots(ways, soft=self._plan.soft)

    def _within(self, batch: list[Met]) -> list[Met]:
        """Returns the positions that are visited; the others are at the depth limit."""
        limit = self._limits.depth
        if limit is None or self._leaves:
            return batch
        inside = [met for met in batch if met.depth < limit]
        self._report.left_out["at_depth"] += len(batch) - len(inside)
        return inside

    def _visit(self, reader: Reader, batch: list[Met]) -> list[Stop]:
        if not batch:
            return []
        words = np.array([met.words for met in batch], np.uint64)
        stops = []
        for seen in _read(reader, batch, words):
            stop = self._stop(seen)
            if stop:
                stops.append(stop)
        self._follow(stops)
        return stops

    def _stop(self, seen: Seen) -> Stop | None:
        """Returns the visit of a position, None if it is left out."""
        left_out = self._report.left_out
        found = self._source(seen)
        if found is None:
            left_out["missing" if seen.met.depth else "roots"] += 1
            return None
        if found.n is not None and found.n < self._limits.min_visits:
            left_out["few_visits"] += 1
            return None
        own = self._plan.is_own(seen.turn)
        left_out["moves_illegal"] += found.illegal
        texts = sans(seen.met.words.tolist(), seen.moves)
        limits = self._limits
        unvisited = limits.min_visits == 0 and (limits.max_moves is None or not own)
        return Stop(
            seen=seen,
            choices=self._cut(found, own),
            sans=texts,
            n=found.n,
            value=found.value,
            own=own,
            unvisited=unvisited,
        )

    def _cut(self, found: Candidates, own: bool) -> tuple[Choice, ...]:
        """Returns the moves that are exported."""
        left_out = self._report.left_out
        visited = tuple(choice for choice in found.choices if choice.count >= self._least)
        left_out["moves_few_visits"] += len(found.choices) - len(visited)
        kept = visited[: self._limits.max_moves] if own else visited
        left_out["moves_beyond"] += len(visited) - len(kept)
        return kept

    def _follow(self, stops: Sequence[Stop]) -> None:
        """Meets the positions behind the moves of some positions, and keeps the moves if they are wanted."""
        limit = self._limits.depth
        steps = [
            (i, rank, choice)
            for i, stop in enumerate(stops)
            if limit is None or stop.met.depth < limit
            for rank, choice in enumerate(stop.choices)
        ]
        if self._leaves and limit is not None:
            self._report.left_out["at_depth"] += sum(s.met.depth == limit and bool(s.choices) for s in stops)
        if steps:
            ways = self._ways(stops, steps)
            followed = [way for way, step in zip(ways, steps, strict=True) if step[2].follow]
            self._scratch.add(followed)
            if self._plan.soft and len(self._plan.roots) > 1:
                self._scratch.adopt(followed)
            if self._keep:
                self._scratch.keep_edges(
                    [
                        (_kept(stops[i], rank, choice), way.identity)
                        for (i, rank, choice), way in zip(steps, ways, strict=True)
                    ]
                )
        if self._keep:
            for stop in stops:
                self._keep_node(stop)

    def _ways(self, stops: Sequence[Stop], steps: Sequence[tuple[int, int, Choice]]) -> list[WayIn]:
        words = np.array([stop.met.words for stop in stops], np.uint64)
        codes = [stops[i].moves.codes[choice.index] for i, _, choice in steps]
        children, _ = positions_after(words, [i for i, _, _ in steps], codes)
        return [
            WayIn(
                identity=identity,
                depth=stops[i].met.depth + 1,
                ply=stops[i].met.ply + 1,
                words=child.tobytes(),
                parent=stops[i].met.id,
                san=stops[i].sans[choice.index],
            )
            for identity, child, (i, _, choice) in zip(identity_of(children), children, steps, strict=True)
        ]

    def _keep_node(self, stop: Stop) -> None:
        mate = stop.seen.mate
        self._scratch.keep_node(stop.met.id, stop.n, stop.value, own=stop.own, mate=mate, note=note_of(stop))


def _kept(stop: Stop, rank: int, choice: Choice) -> KeptEdge:
    return KeptEdge(
        node=stop.met.id,
        rank=rank,
        move=stop.moves.codes[choice.index],
        san=stop.sans[choice.index],
        n=choice.edge.n,
        p=choice.p,
        q=choice.edge.value if choice.edge.n else None,
        value=choice.value,
        cp=cp_of(choice.edge.value, choice.edge.draws) if choice.edge.n else None,
        weight=choice.weight.weight,
        learn=choice.weight.learn,
        child=None,
    )


def _read(reader: Reader, batch: list[Met], words: Words) -> Iterator[Seen]:
    """Yields positions with their moves and records; a record that does not fit the moves counts as none."""
    found, records = reader.find(words)
    place = 0
    for met, has, moves in zip(batch, found.tolist(), move_lists(words), strict=True):
        record = records.record(place) if has else None
        place += has
        if record and not record.terminal and len(record.codes) != len(moves.codes):
            record = None
        yield Seen(met, moves, record)


RESULTS = {(1, 1): "won", (0, 0): "drawn", (-1, -1): "lost"}
TERMINALS = {1: "checkmate", 2: "stalemate", 3: "draw by insufficient material"}


def note_of(stop: Stop) -> str | None:
    """Returns what is proven of a position, in words, None if nothing is."""
    if stop.record is None:
        return None
    if stop.record.terminal:
        return TERMINALS[stop.record.terminal]
    side = "White" if stop.seen.turn == chess.WHITE else "Black"
    result = RESULTS.get(stop.record.bounds_at(stop.seen.clock))
    return result and f"proven: {result} for {side}"
