"""Graph files made by a search, and what tests check on every graph."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import chess

from graphsearch import Limits, SearchParams, analyze
from graphsearch.evaluators.protocol import Evaluator
from graphsearch.graph import arena_kernel
from graphsearch.graph.arena import Arena
from graphsearch.graph.graph import Graph
from graphsearch.position.board import FREE_CLOCK, after, fen_of, key_of, legal_moves, terminal_kind
from graphsearch.store import record_kernel
from graphsearch.store.ranking import node_mean
from graphsearch.store.record import NodeRecord, RecordBatch
from tests.store.records import faults_of

from .positions import after_line
from .reference import HashEvaluator

ENDGAME = "8/8/4k3/8/8/4K3/4P3/R6r w - - 0 1"  # kings and rooks shuffle: cycles and draws of the path
MATES = "6k1/5ppp/8/8/8/8/r4PPP/3R2K1 w - - 0 1"

T = TypeVar("T")
Records = dict[int, tuple[chess.Board, NodeRecord]]


def searched(path: Path, fen: str = chess.STARTING_FEN, *lines: str, visits: int = 150) -> Path:
    """Returns a file of one search after the other below each line, by the evaluator `hash`."""
    if path.exists():
        _search(path, fen, lines, visits)
    else:
        path.write_bytes(_content(fen, lines, visits))
    return path


@cache
def _content(fen: str, lines: tuple[str, ...], visits: int) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "searched.graph"
        _search(path, fen, lines, visits)
        return path.read_bytes()


def _search(path: Path, fen: str, lines: tuple[str, ...], visits: int) -> None:
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        for line in lines or ("",):
            analyze(graph, after_line(line, fen), Limits(visits=visits), SearchParams(minibatch_size=8))


def in_memory(fen: str, visits: int, evaluator: str | Evaluator | None = None) -> Graph:
    """Returns a graph without a file, searched visit by visit, by `hash` unless another is given."""
    graph = Graph.open(None, evaluator=evaluator or HashEvaluator())
    analyze(graph, chess.Board(fen), Limits(visits=visits), SearchParams(minibatch_size=1))
    return graph


def read(graph: Graph, board: chess.Board) -> NodeRecord:
    record = graph.read(board)
    assert record is not None, board.fen()
    return record


def remembered(function: Callable[[chess.Board], T]) -> Callable[[chess.Board], T]:
    """Returns a function of a position that keeps its results: the graphs of tests have many in common."""
    known: dict[tuple[Any, ...], T] = {}

    def result(board: chess.Board) -> T:
        men = board.pawns, board.knights, board.bishops, board.rooks, board.queens, *board.occupied_co
        rules = board.turn, board.castling_rights, board.ep_square, board.halfmove_clock, board.chess960
        key = *men, *rules
        if key not in known:
            known[key] = function(board)
        return known[key]

    return result


moves_of, known_key = remembered(legal_moves), remembered(key_of)
kind_and_moves = remembered(lambda board: (terminal_kind(board), board.legal_moves.count()))


def records_below(graph: Graph, root: chess.Board) -> Records:
    """Returns every record that can be reached over visited edges, with a Board, by key."""
    found: Records = {}
    level = {key_of(root): root.copy(stack=False)}
    while level:
        below: dict[int, chess.Board] = {}
        for key, board in level.items():
            record = graph.pager.read(board)
            if record is not None:
                found[key] = board, record
                below |= {known_key(child): child for _, child in visited_children(board, record)}
        level = {key: board for key, board in below.items() if key not in found}
    return found


def numbers_below(graph: Graph, root: chess.Board) -> dict[int, NodeRecord]:
    """Returns the same records by key, as if their runs were unknown: for graphs made in other runs."""
    return {key: replace(record, run=0) for key, (_, record) in records_below(graph, root).items()}


def records_of(batch: RecordBatch) -> Iterator[NodeRecord]:
    return map(batch.record, range(len(batch)))


def visited_children(board: chess.Board, record: NodeRecord) -> list[tuple[int, chess.Board]]:
    """Returns (place of the edge, position behind it) of every visited edge."""
    moves = moves_of(board) if record.edges else ()  # most have none, and listing moves takes longest
    return [(k, after(board, moves[record.order[k]])) for k, edge in enumerate(record.edges) if edge.n]


def check_invariants(graph: Graph, root: chess.Board, *, lost: bool = False) -> Records:
    """Asserts invariants 1 to 3 of the design on every record below a root; returns the records."""
    below = records_below(graph, root)
    assert faults_of(*(record for _, record in below.values())) == []
    for board, record in below.values():
        kind, moves = kind_and_moves(board)
        assert (record.terminal, len(record.codes)) == (kind, 0 if kind else moves), fen_of(board)
        q, d = node_mean(record)
        assert -1 <= q <= 1
        assert 0 <= d <= 1
        if not lost:
            check_support(below, board, record)
    return below


def check_support(found: Records, board: chess.Board, record: NodeRecord) -> None:
    """Asserts that every child has the visits that its edge counts: N >= n - r."""
    for k, child in visited_children(board, record):
        edge = record.edges[k]
        if edge.n == edge.r or child.halfmove_clock > FREE_CLOCK:
            continue  # at such a clock the visits may be those of a path with another one, under another key
        assert known_key(child) in found, fen_of(child)
        _, below = found[known_key(child)]
        assert below.visits >= edge.n - edge.r or below.proof, fen_of(child)


# ------------------------------------------------------------------ the inside of an arena
FREE_PIECE, BEFORE_FREE = 1 << 31, 1 << 30


def check_arena(arena: Arena) -> None:
    records = _check_records(arena)
    assert len(records) == arena.node_count
    _check_table(arena, records)
    owners = {
        block: block_class for block, block_class in records.values() if block_class != record_kernel.NO_BLOCK
    }
    assert _check_blocks(arena) == owners


def _check_records(arena: Arena) -> dict[int, tuple[int, int]]:
    """Walks the records; returns (block, class) by slot."""
    words, counters = arena.arrays.records, arena.counters
    found: dict[int, tuple[int, int]] = {}
    free: dict[int, int] = {}
    slot = 1
    while slot < counters[arena_kernel.RECORD_WORDS]:
        header = int(words[slot + 2])
        if header >> 24 & record_kernel.FREE:
            free[slot] = int(words[slot + 1])
            slot += free[slot]
        else:
            found[slot] = (int(words[slot + 1]) & 0xFFFFFFFF, header >> 8 & 255)
            slot += record_kernel.HEADER_WORDS + ((header & 255) + 7 >> 3)
    assert slot == counters[arena_kernel.RECORD_WORDS]
    assert sum(free.values()) == counters[arena_kernel.FREED_RECORD_WORDS]
    assert all(size >= record_kernel.HEADER_WORDS for size in free.values())
    listed = {}
    for place in range(arena_kernel.LARGEST_LIST + 1):
        previous, piece = 0, int(counters[arena_kernel.RECORD_LISTS + place])
        while piece:
            assert int(words[piece]) >> 32 == previous
            listed[piece] = int(words[piece + 1])
            assert min(listed[piece], arena_kernel.LARGEST_LIST) == place
            previous, piece = piece, int(words[piece]) & 0xFFFFFFFF
    assert listed == free
    return found


def _check_table(arena: Arena, records: dict[int, tuple[int, int]]) -> None:
    table = [int(word) & 0xFFFFFFFF for word in arena.arrays.table]
    assert sorted(slot for slot in table if slot) == sorted(records)
    assert len({int(arena.arrays.records[slot]) for slot in records}) == len(records), "no position twice"
    for slot in records:
        i = int(arena.arrays.records[slot]) * len(table) >> 64
        while table[i] != slot:
            assert table[i], "a gap before a record that is found by probing"
            i = (i + 1) % len(table)


def _check_blocks(arena: Arena) -> dict[int, int]:
    """Walks the blocks; returns the class of each block in use."""
    words, counters = arena.arrays.blocks, arena.counters
    used, free, before_free = {}, {}, False
    at = 1
    while at < counters[arena_kernel.BLOCK_WORDS]:
        tag = int(words[at + record_kernel.BLOCK_D])
        assert bool(tag & BEFORE_FREE) == before_free
        before_free = bool(tag & FREE_PIECE)
        if before_free:
            size = free[at] = int(words[at + 2])
            assert int(words[at + size - 1]) == size
        else:
            block_class = used[at] = tag >> 16 & 31
            stride = 4 if block_class >= record_kernel.WIDE else 3
            size = (
                record_kernel.BLOCK_HEADER
                + int(arena.arrays.ints[record_kernel.CAPACITY + block_class]) * stride
            )
        at += size
    assert at == counters[arena_kernel.BLOCK_WORDS]
    assert sum(free.values()) == counters[arena_kernel.FREED_WORDS]
    listed = set()
    for place in range(arena_kernel.BLOCK_LISTS, arena_kernel.RECORD_LISTS):
        previous, piece = 0, int(counters[place])
        while piece:
            assert int(words[piece + 1]) == previous
            listed.add(piece)
            previous, piece = piece, int(words[piece])
    assert listed == set(free)
    return used
