"""The wave in flight of a stopped search: with it the next search continues as if there had been no stop.

    search 1   gather k + 1 behind k | back up k | stop: k + 1 is kept, its leaves are not evaluated
    search 2   k + 1 is evaluated: gather k + 2 behind k + 1 | back up k + 1 | ...

It is stored as a tree of moves from the root with the visits in flight over them, never as addresses. Only
the same search resumes it, and only if no position has changed: inner ones are known, leaves are not.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..graph.graph import Graph
from . import in_flight_kernel as kernels
from . import wave_kernel as wave

Numbers = NDArray[np.int64]
TREE_COLUMNS, FLIGHT_COLUMNS = 3, 3  # parent, edge, leaf or -1 | entry, edge, visits in flight
FLIGHTS_PER_ROW = 16  # the room in `wave_kernel.new_wave`
MOST_VISITS = (1 << 31) - 1  # in flight over one edge


@dataclass(frozen=True, slots=True)
class InFlight:
    """A gathered wave without evaluations of its leaves.

    Attributes:
      search: digest of the search it belongs to (`search_of`).
      waves: number of overlapping waves since nothing was in flight.
      asked, early: visits that nodes accepted, and the number of those that needed no evaluation.
      tree: `int64[E, 3]`, sorted by depth: parent (-1 at the root, else an earlier row), number of the edge
        in the parent's record, number of the leaf (-1: a node).
      flights: `int64[F, 3]`: row of the tree (a node), number of its edge, visits in flight over it.
    """

    search: str
    waves: int
    asked: int
    early: int
    tree: Numbers
    flights: Numbers

    @classmethod
    def of(cls, w: wave.WaveArrays, *, search: str, waves: int) -> InFlight:
        """Returns the visits in flight of a gathered wave."""
        entries = w.entries.view(np.int64).reshape(-1, wave.ENTRY_WORDS)[: int(w.counts[wave.ENTRIES])]
        kinds = entries[:, wave.KIND]
        kept = np.flatnonzero((kinds == wave.NODE) | (kinds == wave.LEAF))
        kept = kept[np.argsort(entries[kept, wave.DEPTH], kind="stable")]
        rows = np.full(len(entries) + 1, -1, np.int64)  # the last is for the root's parent, -1
        rows[kept] = np.arange(len(kept))
        chosen = entries[kept]
        leaf = np.where(chosen[:, wave.KIND] == wave.LEAF, chosen[:, wave.NODE_OR_LEAF], -1)
        tree = np.column_stack((rows[chosen[:, wave.PARENT]], chosen[:, wave.EDGE], leaf))
        return cls(
            search=search,
            waves=waves,
            asked=int(w.counts[wave.VISITS_ASKED] - w.counts[wave.RETURNED]),
            early=int(w.counts[wave.EARLY]),
            tree=tree,
            flights=_flights(w, np.where(leaf < 0, chosen[:, wave.NODE_OR_LEAF], -1)),
        )

    def text(self) -> str:
        """Returns the wave as JSON for the file."""
        fields = {name: getattr(self, name) for name in ("search", "waves", "asked", "early")}
        return json.dumps(fields | {"tree": _packed(self.tree), "flights": _packed(self.flights)})

    @classmethod
    def parse(cls, text: str, *, most: int) -> InFlight | None:
        """Returns the wave parsed from a text; None if it is invalid or has more than `most` rows."""
        try:
            found = json.loads(text)
            waves, asked, early = numbers = [found[name] for name in ("waves", "asked", "early")]
            search = str(found["search"])
            tree = _unpacked(found["tree"], TREE_COLUMNS, most)
            flights = _unpacked(found["flights"], FLIGHT_COLUMNS, most * FLIGHTS_PER_ROW)
        except (ValueError, KeyError, TypeError, RecursionError, zlib.error, binascii.Error):
            return None
        if not all(isinstance(one, int) and 0 <= one <= MOST_VISITS for one in numbers):
            return None
        wave_found = cls(search, waves, asked, early, tree, flights)
        return wave_found if wave_found._is_sound() else None

    def _is_sound(self) -> bool:
        """Returns whether all rows refer to valid rows, and every leaf occurs once."""
        rows = np.arange(len(self.tree))
        parent, _, leaf = self.tree.T
        row, _, visits = self.flights.T
        leaves = np.sort(leaf[leaf >= 0])
        if not len(leaves) or not np.array_equal(leaves, np.arange(len(leaves))):
            return False
        if not (np.all(parent >= -1) and np.all(parent < rows) and np.all(leaf[parent[parent >= 0]] < 0)):
            return False
        depth = self.depths()
        is_sorted = bool(np.all(np.diff(depth) >= 0)) and int(depth[-1]) < wave.MAX_PLIES
        within = np.all((row >= 0) & (row < len(rows)) & (visits > 0) & (visits <= MOST_VISITS))
        return is_sorted and bool(within) and bool(np.all(leaf[row] < 0))

    @property
    def leaves(self) -> int:
        """The number of leaves that wait for their evaluation."""
        return int((self.tree[:, 2] >= 0).sum())

    def depths(self) -> Numbers:
        """Returns the depth of every row of the tree, in plies; -1 if it is not sorted by depth."""
        depth = np.full(len(self.tree), -1, np.int64)
        level = np.flatnonzero(self.tree[:, 0] < 0)
        for plies in range(wave.MAX_PLIES):
            if not len(level):
                break
            depth[level] = plies
            first, end = int(level[0]), int(level[-1]) + 1
            level = np.flatnonzero((self.tree[:, 0] >= first) & (self.tree[:, 0] < end))
        return depth


def restore_wave(graph: Graph, w: wave.WaveArrays, root: NDArray[np.uint64], found: InFlight) -> bool:
    """Restores a wave; returns False if the graph has changed since, or has no room."""
    arena, pager = graph.arena, graph.pager
    tables, arrays = arena.tables, arena.arrays
    if not kernels.begin(arrays, w, len(w.leaf_entry), found.asked, found.early):
        return False
    first = 0
    for end in (np.flatnonzero(np.diff(found.depths(), append=-1)) + 1).tolist():
        missing = int(kernels.place_level(tables, arrays, w, pager.filter(), root, found.tree, end))
        if missing > 0:
            pager.bring(wave.missing_positions(w), wave.slots_of(w))
        if missing < 0 or not kernels.check_level(tables, arrays, w, found.tree, first, end):
            return False
        first = end
    return bool(kernels.send_flights(tables, arrays, w, found.flights, found.leaves))


def plies_of(w: wave.WaveArrays) -> int:
    """Returns the total length, in plies, of a wave's visits that wait for an evaluation."""
    entries = w.entries.view(np.int64).reshape(-1, wave.ENTRY_WORDS)
    return int(entries[w.leaf_entry[: int(w.counts[wave.LEAVES])], wave.DEPTH].sum())


def search_of(root: NDArray[np.uint64], past: NDArray[np.uint64], **facts: Any) -> str:
    """Returns a digest of everything that identifies a search: root, game before it, and parameters."""
    told = json.dumps(facts, sort_keys=True).encode()
    return hashlib.sha256(root.tobytes() + past.tobytes() + told).hexdigest()[:32]


def _flights(w: wave.WaveArrays, nodes_of_rows: Numbers) -> Numbers:
    """Returns the visits in flight by row and edge; a node that several rows reach stands at the first."""
    nodes, rows = np.unique(nodes_of_rows, return_index=True)
    rows, nodes = rows[nodes >= 0], nodes[nodes >= 0]
    fields = w.nodes.reshape(-1, wave.FLIGHT_FIELDS)[nodes]
    room = fields[:, wave.ROOM]
    owner = np.repeat(np.arange(len(nodes)), room)
    edge = np.arange(len(owner)) - np.repeat(np.cumsum(room) - room, room)
    counted = np.column_stack((rows[owner], edge, w.flight[fields[owner, wave.AT] + edge]))
    lone = (room == 0) & (fields[:, wave.SINGLE] >= 0)
    single = np.column_stack((rows[lone], fields[lone, wave.SINGLE], fields[lone, wave.SUM]))
    both = np.concatenate((counted, single)).astype(np.int64)
    return both[both[:, 2] > 0]


def _packed(table: Numbers) -> str:
    """Returns a table as text: little-endian int32, column by column, zlib, base64."""
    return base64.b64encode(zlib.compress(table.T.astype("<i4").tobytes(), 1)).decode()


def _unpacked(text: str, columns: int, rows: int) -> Numbers:
    unpacker = zlib.decompressobj()
    raw = unpacker.decompress(base64.b64decode(text, validate=True), 4 * columns * rows)
    if not unpacker.eof or len(raw) % (4 * columns):
        raise ValueError("no table of so many columns")
    return np.frombuffer(raw, "<i4").reshape(columns, -1).T.astype(np.int64)
