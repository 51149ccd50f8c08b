"""The kernels' codec: the same bytes as the plain one, both ways, and nothing out of bounds."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsearch.errors import CorruptRecordError
from graphsearch.kernels import codec as layout
from graphsearch.record import NodeRecord, RecordBatch
from graphsearch.store import bulk, codec, huffman
from graphsearch.store.bloom import HASHES, empty_bloom, may_hold
from graphsearch.store.bulk import BlockFault, ChunkDecoder, encode_chunk

from ..store.records import batch_of, node_records, random_records

MANY = settings(max_examples=60, deadline=None)


def same(a: RecordBatch, b: RecordBatch) -> bool:
    """Returns whether two batches are equal to the bit."""
    return all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in RecordBatch.__slots__)


def test_both_codecs_agree_on_the_layout() -> None:
    names: tuple[str, ...] = (
        "REF",
        "EMPTIED",
        "FILLED",
        "PIECE",
        "META",
        "CLOCK",
        "FLAGS",
        "EVALUATOR",
        "V_HIGH",
        "V_DRAW",
    )
    names += ("MOVES", "EDGES", "N_BITS", "Q_HIGH", "Q_DRAW", "R_BITS", "PRIOR", "RAW", "BLOCK")
    assert {name: getattr(layout, name) for name in names} == {name: getattr(codec, name) for name in names}
    assert (layout.TABLES, layout.LIMIT, layout.HEADER) == (huffman.TABLES, huffman.LIMIT, codec.HEADER_BYTES)
    assert tuple(int(word) for word in layout.START) == codec.START


@MANY
@given(st.lists(node_records(), min_size=1, max_size=70))
def test_kernels_write_the_bytes_of_the_plain_codec(records: list[NodeRecord]) -> None:
    book, blocks = codec.encode_blocks(records)
    encoded = encode_chunk(batch_of(records))
    assert encoded.book == book.to_bytes()
    assert encoded.blocks == blocks


@MANY
@given(st.lists(node_records(), min_size=1, max_size=70))
def test_kernels_read_what_they_wrote(records: list[NodeRecord]) -> None:
    batch = batch_of(records)
    encoded = encode_chunk(batch)
    decoded = ChunkDecoder(huffman.CodeBook.from_bytes(encoded.book)).decode(encoded.blocks)
    assert same(decoded, batch)


def outcome(book: huffman.CodeBook, block: bytes) -> list[NodeRecord] | None:
    """Returns what both codecs make of a block; they must agree."""
    try:
        plain = codec.Decoder(book).decode(block)
    except CorruptRecordError:
        plain = None
    try:
        batch = ChunkDecoder(book).decode([block])
    except BlockFault:
        assert plain is None
        return None
    assert plain == [batch.record(i) for i in range(len(batch))]
    return plain


CHUNK = encode_chunk(batch_of(random_records(5, 64)))
BOOK = huffman.CodeBook.from_bytes(CHUNK.book)


@MANY
@given(st.binary(min_size=0, max_size=400))
def test_random_bytes_decode_alike_or_not_at_all(bits: bytes) -> None:
    outcome(BOOK, bits)
    outcome(BOOK, codec.seal(bits))
    outcome(BOOK, codec.seal(CHUNK.blocks[0][: codec.HEADER_BYTES] + bits))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_changed_bits_decode_alike_or_not_at_all(data: st.DataObject) -> None:
    payload = bytearray(CHUNK.blocks[data.draw(st.integers(0, 1))][: -codec.CHECKSUM_BYTES])
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    cut = data.draw(st.sampled_from((0, 0, 1, 40)))
    outcome(BOOK, codec.seal(bytes(payload[: len(payload) - cut])))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 31), min_size=1, max_size=5), st.integers(0, 1 << 32))
def test_blocks_of_another_code_book_decode_alike_or_not_at_all(pick: list[int], seed: int) -> None:
    other = codec.encode_blocks(random_records(seed, len(pick)))[0]
    for block in CHUNK.blocks:
        outcome(other, block)


def test_a_wrong_checksum_is_named() -> None:
    block = CHUNK.blocks[0][:-1] + bytes([CHUNK.blocks[0][-1] ^ 1])
    with pytest.raises(BlockFault, match="checksum") as caught:
        ChunkDecoder(BOOK).decode([CHUNK.blocks[1], block])
    assert caught.value.index == 1


@pytest.mark.parametrize(
    ("column", "value"),
    [("d", 1001), ("codes", 64), ("codes", 0), ("v", 1.5), ("v", np.nan), ("edge_d", 1001)],
)
def test_a_record_that_has_no_place_in_the_format_is_refused(column: str, value: float) -> None:
    batch = batch_of(random_records(9, 40))
    array = getattr(batch, column).copy()
    array[len(array) // 2] = value
    setattr(batch, column, array)
    with pytest.raises(CorruptRecordError):
        encode_chunk(batch)
    with pytest.raises(CorruptRecordError):
        codec.encode_blocks([batch.record(i) for i in range(len(batch))])


@pytest.mark.parametrize(("word", "bits"), [(5, 1 << 30), (6, 1 << 30), (0, 1), (8, 1 << 20), (8, 127 << 5)])
def test_an_impossible_position_is_refused(word: int, bits: int) -> None:
    batch = batch_of(random_records(9, 3))
    batch.words[1, word] |= np.uint64(bits)
    with pytest.raises(CorruptRecordError, match="record 1 of the batch has an impossible position"):
        encode_chunk(batch)
    with pytest.raises(CorruptRecordError, match="record 1 of the batch has an impossible position"):
        codec.encode_blocks([batch.record(i) for i in range(3)])


def test_bloom_filters_of_kernels_hold_what_was_added() -> None:
    from graphsearch.kernels.columns import add_to_bloom

    keys = np.random.default_rng(1).integers(0, 1 << 64, 3000, np.uint64)
    bloom = empty_bloom(len(keys))
    add_to_bloom(keys, bloom, HASHES)
    assert all(may_hold(bloom, key) for key in keys.tolist())
    others = np.random.default_rng(2).integers(0, 1 << 64, 3000, np.uint64)
    assert sum(may_hold(bloom, key) for key in others.tolist()) < 150


def test_records_are_gathered_in_any_order() -> None:
    records = random_records(3, 50)
    order = np.random.default_rng(0).permutation(50)[:40]
    taken = bulk.take(batch_of(records), order)
    assert same(taken, batch_of([records[i] for i in order]))


WITHOUT_COMPILER = """
import sys, zlib
from graphsearch.store import bulk, codec, huffman
from tests.store.records import batch_of, random_records
chunk = bulk.encode_chunk(batch_of(random_records(5, 64)))
decoded = bulk.ChunkDecoder(huffman.CodeBook.from_bytes(chunk.book)).decode(chunk.blocks)
assert [decoded.record(i) for i in range(64)] == random_records(5, 64)
print(zlib.crc32(chunk.book + b"".join(chunk.blocks)))
"""


def test_kernels_run_without_the_compiler() -> None:
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_COMPILER],
        cwd=Path(__file__).parents[2],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == zlib.crc32(CHUNK.book + b"".join(CHUNK.blocks))
