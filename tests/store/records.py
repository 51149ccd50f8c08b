"""Records for tests, seeded ones by the hundred; blocks one at a time, by the zstandard package."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import chess
import numpy as np
import zstandard
from numpy.typing import NDArray

from graphsearch.position.board import board_of, pack, unpack
from graphsearch.store import block_kernel as form
from graphsearch.store.block import (
    Dictionaries,
    EncodedChunk,
    announced,
    decode_stored,
    encode_plain,
    extract_stored,
    joined,
    unsound,
)
from graphsearch.store.index import SIZES, Sizes
from graphsearch.store.index_kernel import FilterArrays, find_stored
from graphsearch.store.provenance import EvaluatorIdentity
from graphsearch.store.reading import Reader
from graphsearch.store.record import Edge, NodeRecord, RecordBatch, keys_of
from graphsearch.store.record_kernel import TERMINAL_FLAGS
from graphsearch.store.store import Store
from graphsearch.store.verify import verify

from ..support.positions import after, listed

_Result = TypeVar("_Result")
IDENTITY = EvaluatorIdentity("uniform", "", {}, "")

FENS = (
    chess.STARTING_FEN,
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "rnbqkbnr/ppp1p1pp/8/3pPp2/8/8/PPPP1PPP/RNBQKBNR w KQkq f6 0 3",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
    "R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1",
    "rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3",
    "7k/5Q2/6K1/8/8/8/8/8 b - - 7 9",
    "8/8/8/8/8/8/8/K1k5 b - - 99 120",
    "r3k2r/8/8/8/8/8/8/R3K2R b Kq - 76 90",
    "1r1k2rr/p6p/8/8/8/8/P6P/RR2K1RR w BGbg - 80 90",
)
STARTS = (*FENS[:4], "bqnb1rkr/pp3ppp/3ppn2/2p5/5P2/P2P4/NPP1P1PP/BQ1BNRKR w HFhf - 2 9", FENS[-1])


def float32(x: float) -> float:
    return float(np.float32(x))


def _with_clock(board: chess.Board, rng: random.Random) -> chess.Board:
    board.halfmove_clock = min(board.halfmove_clock + rng.choice((0, 0, 0, 70, 120)), 255)
    return board


def boards(rng: random.Random, plies: int = 60) -> Iterator[chess.Board]:
    """Yields positions of random games without end, several of a game; kernels play, which costs little."""
    starts = [pack(board_of(fen)) for fen in STARTS]
    while True:
        words = rng.choice(starts)
        for ply in range(rng.randrange(plies)):
            moves, _ = listed(words)
            if not len(moves):
                break
            if ply % 5 == 0:
                yield _with_clock(unpack(words), rng)
            words = after(words, int(rng.choice(moves)))
        yield _with_clock(unpack(words), rng)
        if rng.random() < 0.3:
            yield board_of(rng.choice(FENS))  # a game that is over, or another rarity


def record_of(board: chess.Board, rng: random.Random) -> NodeRecord:
    """Returns a sound record of a position with random numbers."""
    words = pack(board)
    legal, kind = listed(words)
    moves = 0 if kind else len(legal)
    codes = bytes(rng.choices((1, 2, 3, 5, 8, 20, 40, 63), k=moves))
    visited = rng.randrange(moves + 1) if moves and rng.random() < 0.4 else 0
    v, d = _value(rng)
    edges = tuple(_edge(rng) for _ in range(visited))
    return NodeRecord(tuple(words.tolist()), v, d, 1, TERMINAL_FLAGS[kind], codes, edges)


def _value(rng: random.Random) -> tuple[float, int]:
    v = float32(rng.choice((-1.0, 1.0, 0.0, rng.uniform(-1, 1), rng.uniform(-0.1, 0.1))))
    return v, rng.randint(0, int(1000 * (1 - abs(v))))


def _edge(rng: random.Random) -> Edge:
    n = rng.choice((1, 1, 1, 2, rng.randint(3, 1000), rng.randint(1, (1 << 32) - 1)))
    r = rng.choice((0, 0, 0, rng.randint(0, n)))
    return Edge(n, r, *((0.0, 0) if n == r else _value(rng)))


@dataclass(frozen=True, slots=True)
class Records(Sequence[NodeRecord]):
    """The first sound records of distinct positions of a seed, made when they are first looked at."""

    seed: int
    size: int

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, at: Any) -> Any:
        return _first(self.seed, self.size)[at]


@cache
def _first(seed: int, count: int) -> list[NodeRecord]:
    return random_records(seed, count)


@cache
def _sequence(seed: int) -> tuple[dict[tuple[int, ...], NodeRecord], Iterator[NodeRecord]]:
    """Returns the records of a seed that were made so far, by identity, and those that follow."""
    rng = random.Random(seed)
    return {}, (record_of(board, rng) for board in boards(rng))


def random_records(seed: int, count: int) -> list[NodeRecord]:
    """Returns the first sound records of distinct positions of a seed; a process makes each once."""
    found, others = _sequence(seed)
    while len(found) < count:
        record = next(others)
        found.setdefault(identity(record), record)
    return list(found.values())[:count]


def identity(record: NodeRecord) -> tuple[int, ...]:
    """Returns what tells records apart: the position, and its clock only above 75."""
    clock = record.words[8] >> 12 & 255
    return (*record.words[:8], record.words[8] & ~(255 << 12) | (clock << 12 if clock > 75 else 0))


def changed(record: NodeRecord, rng: random.Random) -> NodeRecord:
    """Returns another version of a record: the same position with other numbers."""
    v, d = _value(rng)
    visited = min(len(record.codes), rng.randrange(4))
    return replace(record, v=v, d=d, edges=tuple(_edge(rng) for _ in range(visited)))


def words_of(records: Sequence[NodeRecord]) -> NDArray[np.uint64]:
    """Returns the packed positions of records, `[K, 10]`."""
    return np.array([record.words for record in records], np.uint64).reshape(-1, 10)


def batch_of(records: Sequence[NodeRecord]) -> RecordBatch:
    return RecordBatch.from_records(records)


def by_identity(records: Iterable[NodeRecord]) -> dict[tuple[int, ...], NodeRecord]:
    """Returns records by position; of several versions the last."""
    return {identity(record): record for record in records}


def merge_all(store: Store) -> None:
    while store.merge_step():
        pass


def contents(store: Store) -> dict[tuple[int, ...], NodeRecord]:
    """Returns all live records of a store by identity; none may come twice."""
    found: dict[tuple[int, ...], NodeRecord] = {}
    for batch in store.scan():
        for i in range(len(batch)):
            record = batch.record(i)
            assert identity(record) not in found, "a record came twice"
            found[identity(record)] = record
    return found


def held(path: Path) -> dict[tuple[int, ...], NodeRecord]:
    """Returns the records of a file by position, after a check that it is sound."""
    assert verify(path).problems == []
    with Store.open(path, read_only=True) as store:
        return contents(store)


def lookup(store: Store, words: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], RecordBatch]:
    """Returns which positions (`[K, 10]`) have a committed record, and these in order; damage fails."""
    with store.reader() as reader:
        found = reader.find(words)
        assert not reader.problems
    return found


def found_by(reader: Reader, asked: Sequence[NodeRecord]) -> list[NodeRecord | None]:
    """Returns what a reader finds for the positions of some records, None where it finds nothing."""
    found, batch = reader.find(words_of(asked))
    records = iter(batch.record(i) for i in range(len(batch)))
    return [next(records) if have else None for have in found]


def new_store(path: Path, sizes: Sizes = SIZES) -> Store:
    """Returns a new store that takes records of IDENTITY."""
    return Store.open(path, create=True, identity=IDENTITY, sizes=sizes)


def sized(sizes: Sizes, work: Callable[..., _Result], *args: Any, **options: Any) -> _Result:
    """Returns the result of some work that opens its files with these sizes."""
    with patch.object(Store, "open", partial(Store.open, sizes=sizes)):
        return work(*args, **options)


def filled(path: Path, records: Sequence[NodeRecord], runs: int = 1, *, sizes: Sizes = SIZES) -> Path:
    """Returns the path of a new file with the records in so many runs."""
    with new_store(path, sizes) as store:
        size = -(-len(records) // runs)
        for first in range(0, len(records), size):
            part = records[first : first + size]
            store.append(batch_of(part), fresh=len(part))
    return path


def stored_each(filters: FilterArrays, words: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Returns which packed positions, `[K, 10]`, a filter may hold."""
    found = np.zeros(len(words), bool)
    find_stored(filters, words.reshape(-1), keys_of(words), found)
    return found


class BlockFault(Exception):  # noqa: N818
    """The block at `index` of those asked for is not sound."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index


def faults_of(*records: NodeRecord) -> list[str]:
    """Returns the faults of records in words, an empty list if all are sound."""
    return [what for _, what in unsound(batch_of(records))]


def plain_blocks(batch: RecordBatch) -> list[bytes]:
    """Returns the blocks of some records, in their order, before compression."""
    plain, ends = encode_plain(batch)
    return [plain[a:b].tobytes() for a, b in pairwise([0, *ends.tolist()])]


def decode_chunk(dictionary: bytes, blocks: Sequence[bytes]) -> RecordBatch:
    """Returns the records of stored blocks; raises BlockFault at the first that is not sound."""

    def refuse(index: int, reason: str) -> None:
        raise BlockFault(index, reason)

    return decode_stored(*joined(blocks), [dictionary], np.zeros(len(blocks), np.int64), refuse)[0]


def records_of(dictionary: bytes, block: bytes) -> list[NodeRecord]:
    """Returns the records of one stored block, as `decode_chunk` does."""
    batch = decode_chunk(dictionary, [block])
    return [batch.record(i) for i in range(len(batch))]


def extracted(dictionary: bytes, block: bytes, asked: Sequence[NodeRecord]) -> list[NodeRecord]:
    """Returns the records of positions that one stored block holds; raises BlockFault if it is not sound."""
    data, ends = joined([block])
    places, firsts = np.arange(len(asked)), np.array([0, len(asked)], np.int64)
    words = words_of(asked).reshape(-1)
    batch, _, refused = extract_stored(data, ends, [dictionary], np.zeros(1, np.int64), words, places, firsts)
    if refused:
        raise BlockFault(*refused[0])
    return [batch.record(i) for i in range(len(batch))]


# ------------------------------------------------------------------ blocks by the zstandard package
class BlockError(Exception):
    """A stored block that the zstandard package refuses."""


def parts_of(block: bytes) -> tuple[int, int]:
    """Returns the offsets of the P codes and of the columns in a block before compression."""
    records, codes, edges = (int(found[0]) for found in announced(*joined([block])))
    at = form.HEADER + form.LOW * (records + edges)
    return at, at + codes


def seal(dictionary: bytes, blocks: Sequence[bytes]) -> list[bytes]:
    """Returns blocks compressed, each with its checksum; as `block.encode_chunk` stores them."""
    parts = []
    for block in blocks:
        codes, columns = parts_of(block)
        parts.append((block[:codes], memoryview(block[codes:columns]), memoryview(block[columns:])))
    frames = Dictionaries(dictionary).frames([part[1] for part in parts], [part[2] for part in parts])
    return [
        stored(low, *(frame[len(form.FRAME_START) :] for frame in pair))
        for (low, _, _), pair in zip(parts, frames, strict=True)
    ]


def stored(low: bytes, codes: bytes, columns: bytes) -> bytes:
    """Returns a stored block of a header with low parts, and two frames without their first bytes."""
    return with_checksum(
        low[: form.HEADER] + struct.pack("<H", len(codes)) + low[form.HEADER :] + codes + columns
    )


def opened(dictionary: bytes, block: bytes) -> bytes:
    """Returns a stored block as it was before compression.

    Raises:
      BlockError: if its checksum is wrong, or its frames do not expand to what it announces.
    """
    data = block[:-4]
    if len(block) < form.HEADER + form.LENGTH + 4 or with_checksum(data) != block:
        raise BlockError("too short, or a wrong checksum")
    header, rest = data[: form.HEADER], data[form.HEADER + form.LENGTH :]
    records, codes, edges = (int(found[0]) for found in announced(*joined([header])))
    low = form.LOW * (records + edges)
    middle = low + int.from_bytes(data[form.HEADER : form.HEADER + form.LENGTH], "little")
    end = 2 + int.from_bytes(dictionary[:2], "little")
    first = _expanded(rest[low:middle], dictionary[2:end], codes)
    most = form.RECORD_BYTES * records + form.EDGE_BYTES * edges
    if len(rest) < middle or len(first) != codes:
        raise BlockError("its P codes are not those that it announces")
    return header + rest[:low] + first + _expanded(rest[middle:], dictionary[end:], most)


def _expanded(frame: bytes, dictionary: bytes, most: int) -> bytes:
    if not frame and not most:
        return b""
    try:
        whole = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
        return zstandard.ZstdDecompressor(dict_data=whole).decompress(
            form.FRAME_START + frame, max_output_size=most, allow_extra_data=False
        )
    except zstandard.ZstdError as error:
        raise BlockError(str(error)) from None


def blocks_of(chunk: EncodedChunk) -> list[bytes]:
    return [chunk.data[a:b] for a, b in pairwise([0, *chunk.ends])]


def header_bytes(records: int, codes: int, edges: int, *, drawn: bool = False) -> bytes:
    return struct.pack(
        "<I", records - 1 | codes << form.CODES_AT | edges << form.EDGES_AT | drawn << form.DRAWN_AT
    )


def with_checksum(data: bytes) -> bytes:
    """Returns the bytes with their CRC-32 behind them."""
    return data + struct.pack("<I", zlib.crc32(data))
