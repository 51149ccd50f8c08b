"""The codec: round trips, golden bytes, worked examples, damage; a lookup reads what a scan reads."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsearch.base.errors import CorruptRecordError, UnfitRecordError
from graphsearch.position.board import board_of, pack
from graphsearch.store import block
from graphsearch.store.block import Dictionaries, encode_chunk
from graphsearch.store.record import UNPROVEN, Edge, NodeRecord, RecordBatch
from graphsearch.store.record_kernel import MAX_RUN

from ..support.positions import after_line
from .records import (
    FENS,
    BlockFault,
    batch_of,
    boards,
    decode_chunk,
    extracted,
    plain_blocks,
    random_records,
    record_of,
    records_of,
)
from .sealing import blocks_of, opened, parts_of, seal, with_checksum
from .test_formats import GOLDEN, example


def encoded(records: list[NodeRecord]) -> tuple[bytes, list[bytes]]:
    """Returns the dictionaries and the stored blocks of records."""
    chunk = encode_chunk(batch_of(records))
    return chunk.dictionary, blocks_of(chunk)


def plain_block(*records: NodeRecord) -> bytes:
    (block,) = plain_blocks(batch_of(records))
    return block


def test_a_block_that_is_too_short_or_has_a_flipped_bit_is_refused() -> None:
    (block,) = encoded(random_records(71, 3))[1]
    for length in range(14):
        for short in (block[:length], with_checksum(block[:length])):
            with pytest.raises(BlockFault):
                records_of(b"", short)
    for bit in range(8 * len(block)):
        damaged = bytearray(block)
        damaged[bit >> 3] ^= 1 << (bit & 7)
        with pytest.raises(BlockFault, match="checksum"):
            records_of(b"", bytes(damaged))


def test_the_worked_example_decodes_to_the_documented_record() -> None:
    shown = example("node_record.md")
    assert opened(b"", shown["block"]) == shown["expanded"]
    assert records_of(b"", shown["block"]) == [example_record()]
    assert plain_block(example_record()) == shown["expanded"]


def example_record() -> NodeRecord:
    """Returns the record of the worked example: after 1. e4 and one visit of 1... c5."""
    words = tuple(int(word) for word in pack(after_line("e4")))
    edges = (Edge(1, 0, 0.25, 300),)
    return NodeRecord(words, -0.125, 250, 1, UNPROVEN, bytes([20] * 19 + [40]), edges, run=300)


def test_records_without_runs_announce_none() -> None:
    block = bytes.fromhex(
        "80020400 0c00 000000fa0000802c 4d000018141428 010033c002"
        " 890000 00010102002001be0014013e010c1c0001 50a1fcd5"
    )
    assert records_of(b"", block) == [replace(example_record(), run=0)]
    assert encoded([replace(example_record(), run=0)])[1] == [block]


@pytest.mark.parametrize(
    "data",
    [b"\0", b"nonsense", b"\0\0abc", b"\x09\0", b"\x03\0abcdef", b"\x08\0\x37\xa4\x30\xec" + bytes(600)],
)
def test_what_is_no_dictionary_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptRecordError, match="dictionar"):
        Dictionaries(data)
    assert not block.is_dictionary(data)


def same(a: RecordBatch, b: RecordBatch) -> bool:
    """Returns whether two batches are equal to the bit."""
    return all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in RecordBatch.names_)


@st.composite
def node_records(draw: st.DrawFn) -> NodeRecord:
    """Sound records, their extremes included."""
    rng = random.Random(draw(st.integers(0, 1 << 32)))
    board = board_of(draw(st.sampled_from(FENS))) if draw(st.booleans()) else next(boards(rng))
    record = record_of(board, rng)
    count = draw(st.integers(0, min(len(record.codes), 5)))
    edges = tuple(draw(edge_values()) for _ in range(count))
    v, d = draw(values())
    return replace(
        record, v=v, d=d, evaluator=draw(st.integers(0, 255)), run=draw(runs()), edges=edges or record.edges
    )


def runs() -> st.SearchStrategy[int]:
    """Numbers of runs, of which some come often."""
    return st.integers(0, 2) | st.integers(0, MAX_RUN) | st.sampled_from((127, 128, 16_383, 16_384, MAX_RUN))


@st.composite
def values(draw: st.DrawFn) -> tuple[float, int]:
    """Values in [-1, 1] as float32, with draws that fit."""
    v = draw(st.floats(-1.0, 1.0, width=32))
    return v, draw(st.integers(0, int(1000 * (1 - abs(v)))))


@st.composite
def edge_values(draw: st.DrawFn) -> Edge:
    """Visited edges, counts up to the largest u32."""
    n = draw(st.integers(1, (1 << 32) - 1) | st.integers(1, 3))
    r = draw(st.just(0) | st.integers(0, n))
    return Edge(n, r, *((0.0, 0) if n == r else draw(values())))


@settings(max_examples=10)
@given(st.lists(node_records(), min_size=1, max_size=40))
def test_what_was_written_is_read(records: list[NodeRecord]) -> None:
    batch = batch_of(records)
    assert [batch.record(i) for i in range(len(batch))] == records
    encoded = encode_chunk(batch)
    assert blocks_of(encoded) == seal(encoded.dictionary, plain_blocks(batch))
    assert same(decode_chunk(encoded.dictionary, blocks_of(encoded)), batch)
    assert same(encoded.records(), batch)
    assert same(encode_chunk(batch, None).records(), batch)


def test_kernels_write_the_golden_bytes() -> None:
    """Blocks with runs, references, dictionaries and every kind of man, as the first version wrote them."""
    with closing(sqlite3.connect(f"{GOLDEN.as_uri()}?mode=ro&immutable=1", uri=True)) as file:
        chunks = file.execute("SELECT first_block, blocks, dictionary FROM chunk").fetchall()
        blocks = dict(file.execute("SELECT id, data FROM block"))
    for first, count, dictionary in chunks:
        its = [blocks[first + k] for k in range(count)]
        records = [record for block in its for record in records_of(dictionary, block)]
        assert plain_blocks(batch_of(records)) == [opened(dictionary, block) for block in its]


@cache
def blocks() -> list[bytes]:
    """Blocks as they are before compression, of which the last is small."""
    return plain_blocks(batch_of(random_records(71, 64 + 3)))


@given(st.data())
def test_of_changed_bytes_a_lookup_finds_what_a_scan_finds(data: st.DataObject) -> None:
    plain = bytearray(data.draw(st.sampled_from(blocks())))
    columns = parts_of(bytes(plain))[1]
    for _ in range(data.draw(st.integers(1, 3))):
        first = data.draw(st.sampled_from((0, columns)))
        at = data.draw(st.integers(first, len(plain) - 1))
        plain[at] = data.draw(st.integers(0, 255) | st.just((plain[at] + 1) & 255))
    cut = data.draw(st.sampled_from((0, 0, 0, 1, 40)))
    changed = bytes(plain[: len(plain) - cut]) + bytes(data.draw(st.sampled_from((0, 0, 0, 1))))
    (block,) = seal(b"", [changed])
    try:
        records = records_of(b"", block)
    except BlockFault:
        return
    assert extracted(b"", block, records) == records


@pytest.mark.parametrize(
    ("column", "value"),
    [("d", 1001), ("codes", 64), ("codes", 0), ("v", 1.5), ("v", np.nan), ("edge_d", 1022), ("run", 1 << 20)],
)
def test_a_record_that_has_no_place_in_the_format_is_refused(column: str, value: float) -> None:
    batch = batch_of(random_records(71, 40))
    array = getattr(batch, column).copy()
    array[len(array) // 2] = value
    setattr(batch, column, array)
    with pytest.raises(CorruptRecordError):
        encode_chunk(batch)


def test_a_chunk_is_the_same_with_its_own_dictionaries_given_and_on_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = RecordBatch.concat([batch_of(random_records(71, 640))] * 4)
    monkeypatch.setattr(block, "thread_count", lambda: 1)
    alone = encode_chunk(batch)
    monkeypatch.setattr(block, "thread_count", lambda: 5)
    assert alone.dictionary
    assert encode_chunk(batch) == encode_chunk(batch, alone.dictionary) == alone
    assert same(decode_chunk(alone.dictionary, blocks_of(alone)), batch)
    with pytest.raises(BlockFault):
        records_of(b"", blocks_of(alone)[0])
    batch.v[777] = 1.5
    with pytest.raises(UnfitRecordError) as found:
        encode_chunk(batch)
    assert found.value.index == 777, "a refused record is named by its place in the chunk"


@pytest.mark.parametrize(("word", "bits"), [(5, 1 << 30), (6, 1 << 30), (0, 1), (8, 1 << 33), (8, 127 << 5)])
def test_an_impossible_position_is_refused(word: int, bits: int) -> None:
    batch = batch_of(random_records(71, 3))
    batch.words[1, word] |= np.uint64(bits)
    with pytest.raises(CorruptRecordError, match="record 1 of the batch has an impossible position"):
        encode_chunk(batch)
