"""Graph files made by a search, and what tests check on every graph."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import chess
import numpy as np

from graphsearch import Limits, SearchParams, analyze
from graphsearch.evaluators.protocol import Evaluator
from graphsearch.graph.arena import Arena
from graphsearch.graph.arena_kernel import find_position
from graphsearch.graph.graph import Graph
from graphsearch.jit.compiler import JIT_OFF, Call
from graphsearch.position.board import (
    CLOCK_SHIFT,
    FREE_CLOCK,
    MAX_CLOCK,
    META,
    POSITION_WORDS,
    Words,
    board_of,
    clock_of_words,
    fen_of,
    key_of,
    pack,
    unpack,
)
from graphsearch.query.steps import positions_after
from graphsearch.store.ranking import node_mean
from graphsearch.store.record import Edge, NodeRecord, RecordBatch
from tests.store.records import faults_of
from tests.support.positions import legal_moves

from .positions import listed_all
from .reference import HashEvaluator

ENDGAME = "8/8/4k3/8/8/4K3/4P3/R6r w - - 0 1"  # kings and rooks shuffle: cycles and draws of the path
MATES = "6k1/5ppp/8/8/8/8/r4PPP/3R2K1 w - - 0 1"

Records = dict[int, tuple[chess.Board, NodeRecord]]
Child = tuple[int, int, Words]  # place of the edge, key, position


def searched(path: Path, fen: str = chess.STARTING_FEN, *lines: str, visits: int = 150) -> Path:
    """Returns a file of one search after the other below each line, by the evaluator `hash`."""
    if path.exists():
        _search(path, fen, lines, visits)
    else:
        path.write_bytes(_content(fen, lines, visits))
    return path


@cache
def _content(fen: str, lines: tuple[str, ...], visits: int) -> bytes:
    """Returns the file of such a search, made once."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "searched.graph"
        _search(path, fen, lines, visits)
        return path.read_bytes()


def _search(path: Path, fen: str, lines: tuple[str, ...], visits: int) -> None:
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        for line in lines or ("",):
            board = board_of(fen)
            for san in line.split():
                board.push_san(san)
            analyze(graph, board, Limits(visits=visits), SearchParams(minibatch_size=8))


def in_memory(fen: str, visits: int, evaluator: str | Evaluator | None = None) -> Graph:
    """Returns a graph without a file, searched visit by visit, by `hash` unless another is given."""
    graph = Graph.open(None, evaluator=evaluator or HashEvaluator())
    analyze(graph, chess.Board(fen), Limits(visits=visits), SearchParams(minibatch_size=1))
    return graph


def read(graph: Graph, board: chess.Board) -> NodeRecord:
    """Returns the record of a known position."""
    record = graph.read(board)
    assert record is not None, board.fen()
    return record


def records_below(graph: Graph, root: chess.Board) -> Records:
    """Returns every record that can be reached over visited edges, with a Board, by key."""
    return {key: (unpack(known.words), known.record) for key, known in _below(graph, root).items()}


def numbers_below(graph: Graph, root: chess.Board) -> dict[int, NodeRecord]:
    """Returns the same records by key, as if their runs were unknown: for graphs made in other runs."""
    return {key: replace(known.record, run=0) for key, known in _below(graph, root).items()}


class Known(NamedTuple):
    """A record below a root; the kernels list its moves and make its children, a ply of positions at once."""

    words: Words
    record: NodeRecord
    kind: int
    move_count: int
    children: list[Child]


def _below(graph: Graph, root: chess.Board) -> dict[int, Known]:
    found: dict[int, Known] = {}
    rows = {key_of(root): pack(root)}
    asked = set(rows)
    while rows:
        words = np.array(list(rows.values()))
        moves, offsets, kinds = listed_all(words)
        records = _read_all(graph, words)
        steps = [(i, k) for i, r in enumerate(records) if r for k, edge in enumerate(r.edges) if edge.n]
        orders = [record.order if record and record.edges else [] for record in records]
        codes = [int(moves[offsets[i] + orders[i][k]]) for i, k in steps]
        after, keys = positions_after(words, [i for i, _ in steps], codes)
        children: list[list[Child]] = [[] for _ in records]
        for (i, k), key, child in zip(steps, keys.tolist(), after, strict=True):
            children[i].append((k, key, child))
        counts = np.diff(offsets).tolist()
        for i, (key, record) in enumerate(zip(rows, records, strict=True)):
            if record is not None:
                found[key] = Known(words[i], record, int(kinds[i]), counts[i], children[i])
        rows = {key: child for key, child in zip(keys.tolist(), after, strict=True) if key not in asked}
        asked |= rows.keys()
    return found


def _read_all(graph: Graph, words: Words) -> list[NodeRecord | None]:
    """Returns the records of packed positions; those in memory are copied in one piece."""
    arena = graph.arena
    slots = np.array(list(_slots(arena, words)), np.uint32)
    there = np.nonzero(slots)[0]
    own = words[there]  # with the clocks that they were evaluated with
    at = slots[there].astype(np.int64) + 2
    clocks = np.asarray(arena.arrays.records)[at] >> np.uint64(32) & np.uint64(MAX_CLOCK)
    own[:, META] = own[:, META] & ~np.uint64(MAX_CLOCK << CLOCK_SHIFT) | clocks << np.uint64(CLOCK_SHIFT)
    copies = dict(zip(there.tolist(), records_of(arena.copy_out(slots[there], own)), strict=True))
    missing = np.nonzero(slots == 0)[0]
    reader = graph.pager._reader  # which passes over damaged blocks, as a search does
    if len(missing) and reader and not graph.pager.complete:
        in_file, batch = reader.find(words[missing])
        copies |= zip(missing[in_file].tolist(), records_of(batch), strict=True)
    return [copies.get(i) for i in range(len(words))]


def _slots(arena: Arena, words: Words) -> Iterator[int]:
    """Yields the slot of each position, 0 for one that is not in memory; binds the kernel once."""
    row = np.zeros(POSITION_WORDS, np.uint64)
    find = Call(find_position, arena.tables, arena.arrays, row)
    for row[:] in words:
        find()
        yield find._results[0] if not JIT_OFF else find_position(arena.tables, arena.arrays, row)


def records_of(batch: RecordBatch) -> Iterator[NodeRecord]:
    """Yields all records of a batch."""
    edges = list(map(Edge, batch.n.tolist(), batch.r.tolist(), batch.q.tolist(), batch.edge_d.tolist()))
    codes, moves, visited = batch.codes.tobytes(), batch.code_offsets.tolist(), batch.edge_offsets.tolist()
    columns = (batch.words, batch.v, batch.d, batch.evaluator, batch.flags, batch.run)
    for i, (words, v, d, evaluator, flags, run) in enumerate(
        zip(*(column.tolist() for column in columns), strict=True)
    ):
        its_codes, its_edges = codes[moves[i] : moves[i + 1]], tuple(edges[visited[i] : visited[i + 1]])
        yield NodeRecord(tuple(words), v, d, evaluator, flags, its_codes, its_edges, run)


def visited_children(board: chess.Board, record: NodeRecord) -> list[tuple[int, chess.Board]]:
    """Returns (place of the edge, position behind it) of every visited edge."""
    moves = legal_moves(board) if record.edges else ()  # most have none, and listing moves takes longest
    children = []
    for k, edge in enumerate(record.edges):
        if edge.n:
            child = board.copy(stack=False)
            child.push(moves[record.order[k]])
            children.append((k, child))
    return children


def check_invariants(graph: Graph, root: chess.Board, *, lost: bool = False) -> Records:
    """Asserts invariants 1 to 3 of the design on every record below a root; returns the records."""
    below = _below(graph, root)
    for known in below.values():
        record = known.record
        assert faults_of(record) == [], fen_of(unpack(known.words))
        assert record.terminal == known.kind, fen_of(unpack(known.words))
        assert len(record.codes) == (0 if record.terminal else known.move_count)
        q, d = node_mean(record)
        assert -1 <= q <= 1
        assert 0 <= d <= 1
        if not lost:
            check_support(below, known)
    return {key: (unpack(known.words), known.record) for key, known in below.items()}


def check_support(found: dict[int, Known], known: Known) -> None:
    """Asserts that every child has the visits that its edge counts: N >= n - r."""
    for k, key, words in known.children:
        edge = known.record.edges[k]
        if edge.n == edge.r or clock_of_words(words) > FREE_CLOCK:
            continue  # at such a clock the visits may be those of a path with another one, under another key
        assert key in found, fen_of(unpack(words))
        child = found[key].record
        assert child.visits >= edge.n - edge.r or child.proof, fen_of(unpack(words))
