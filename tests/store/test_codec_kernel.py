"""The kernels' codec: the same bytes as the plain one, both ways, and nothing out of bounds."""

from __future__ import annotations

import zlib
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsearch.base.errors import CorruptRecordError, UnfitRecordError
from graphsearch.store.codec import bulk, compression, layout
from graphsearch.store.codec import records as codec
from graphsearch.store.codec.bulk import encode_chunk
from graphsearch.store.codec.compression import Dictionaries
from graphsearch.store.index.bloom import empty_bloom, may_hold_each, may_hold_one
from graphsearch.store.record.node import NodeRecord, RecordBatch

from ..support.plain import in_plain_python
from .record_encoder import encode_block, encode_blocks, with_checksum
from .records import (
    BlockFault,
    batch_of,
    decode_blocks,
    decode_chunk,
    node_records,
    plain_blocks,
    random_records,
)

MANY = settings(max_examples=25)


def same(a: RecordBatch, b: RecordBatch) -> bool:
    """Returns whether two batches are equal to the bit."""
    return all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in RecordBatch.__slots__)


@MANY
@given(st.lists(node_records(), min_size=1, max_size=40))
def test_kernels_write_the_bytes_of_the_plain_codec(records: list[NodeRecord]) -> None:
    blocks = plain_blocks(batch_of(records))
    assert blocks == [encode_block(records[k : k + 32]) for k in range(0, len(records), 32)]


@MANY
@given(st.lists(node_records(), min_size=1, max_size=40))
def test_kernels_read_what_they_wrote(records: list[NodeRecord]) -> None:
    batch = batch_of(records)
    encoded = encode_chunk(batch)
    assert same(decode_chunk(encoded.dictionary, encoded.blocks), batch)


def test_a_large_chunk_comes_back_through_its_dictionaries() -> None:
    batch = batch_of(random_records(8, 40) * 40)
    encoded = encode_chunk(batch)
    assert encoded.dictionary
    assert same(decode_chunk(encoded.dictionary, encoded.blocks), batch)


def outcome(plain: bytes) -> list[NodeRecord] | None:
    """Returns what both codecs make of a block as it is before compression; they must agree."""
    try:
        expected = codec.decode_block(plain)
    except CorruptRecordError:
        expected = None
    try:
        batch = decode_blocks([plain])
    except BlockFault:
        assert expected is None
        return None
    assert expected == [batch.record(i) for i in range(len(batch))]
    return expected


def opened(block: bytes) -> None:
    """Opens a stored block, and if that works has both codecs read it."""
    with suppress(CorruptRecordError):
        outcome(NONE.opener().open(block))


NONE = Dictionaries()
CHUNK = encode_chunk(batch_of(random_records(5, 64)))
PLAIN = plain_blocks(batch_of(random_records(5, 64)))
SMALL = plain_blocks(batch_of(random_records(5, 3)))[0]


@MANY
@given(st.binary(min_size=0, max_size=400))
def test_random_bytes_decode_alike_or_not_at_all(data: bytes) -> None:
    outcome(data)
    outcome(PLAIN[0][: layout.HEADER] + data)
    opened(data)
    opened(with_checksum(data))
    opened(with_checksum(CHUNK.blocks[0][: layout.HEADER] + data))


@given(st.data())
def test_changed_bytes_decode_alike_or_not_at_all(data: st.DataObject) -> None:
    plain = bytearray(data.draw(st.sampled_from((*PLAIN, SMALL))))
    columns = compression.Header.of(bytes(plain)).parts()[1]
    for _ in range(data.draw(st.integers(1, 3))):
        first = data.draw(st.sampled_from((0, columns)))
        at = data.draw(st.integers(first, len(plain) - 1))
        plain[at] = data.draw(st.integers(0, 255) | st.just((plain[at] + 1) & 255))
    cut = data.draw(st.sampled_from((0, 0, 0, 1, 40)))
    outcome(bytes(plain[: len(plain) - cut]) + bytes(data.draw(st.sampled_from((0, 0, 0, 1)))))


@given(st.data())
def test_changed_bits_of_stored_blocks_decode_alike_or_not_at_all(data: st.DataObject) -> None:
    block = bytearray(CHUNK.blocks[data.draw(st.integers(0, 1))][: -layout.CHECKSUM])
    for _ in range(data.draw(st.integers(1, 3))):
        block[data.draw(st.integers(0, len(block) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    cut = data.draw(st.sampled_from((0, 0, 1, 40)))
    opened(with_checksum(bytes(block[: len(block) - cut])))


def test_a_wrong_checksum_is_named() -> None:
    block = CHUNK.blocks[0][:-1] + bytes([CHUNK.blocks[0][-1] ^ 1])
    with pytest.raises(BlockFault, match="checksum") as caught:
        decode_chunk(b"", [CHUNK.blocks[1], block])
    assert caught.value.index == 1


@pytest.mark.parametrize(
    ("column", "value"),
    [("d", 1001), ("codes", 64), ("codes", 0), ("v", 1.5), ("v", np.nan), ("edge_d", 1022), ("run", 1 << 20)],
)
def test_a_record_that_has_no_place_in_the_format_is_refused(column: str, value: float) -> None:
    batch = batch_of(random_records(9, 40))
    array = getattr(batch, column).copy()
    array[len(array) // 2] = value
    setattr(batch, column, array)
    with pytest.raises(CorruptRecordError):
        encode_chunk(batch)
    with pytest.raises(CorruptRecordError):
        encode_blocks([batch.record(i) for i in range(len(batch))])


def test_a_chunk_is_the_same_with_any_number_of_threads() -> None:
    batch = RecordBatch.concat([batch_of(random_records(5, 640))] * 16)
    assert len(batch) > 2 * bulk.PART
    alone = encode_chunk(batch, threads=1)
    assert alone.dictionary
    for threads in (2, 5):
        assert encode_chunk(batch, threads=threads) == alone
        assert encode_chunk(batch, alone.dictionary, threads=threads) == alone
    decoded = decode_chunk(alone.dictionary, alone.blocks)
    assert same(decoded, batch)


def test_a_refused_record_is_named_by_its_place_in_the_chunk() -> None:
    batch = RecordBatch.concat([batch_of(random_records(9, 640))] * 16)
    batch.v[bulk.PART + 7] = 1.5
    with pytest.raises(UnfitRecordError) as found:
        encode_chunk(batch, threads=2)
    assert found.value.index == bulk.PART + 7


@pytest.mark.parametrize(("word", "bits"), [(5, 1 << 30), (6, 1 << 30), (0, 1), (8, 1 << 33), (8, 127 << 5)])
def test_an_impossible_position_is_refused(word: int, bits: int) -> None:
    batch = batch_of(random_records(10, 3))
    batch.words[1, word] |= np.uint64(bits)
    with pytest.raises(CorruptRecordError, match="record 1 of the batch has an impossible position"):
        encode_chunk(batch)
    with pytest.raises(CorruptRecordError, match="record 1 of the batch has an impossible position"):
        encode_blocks([batch.record(i) for i in range(3)])


def test_bloom_filters_of_kernels_hold_what_was_added() -> None:
    from graphsearch.store.codec.columns_kernel import add_to_bloom

    keys = np.random.default_rng(1).integers(0, 1 << 64, 3000, np.uint64)
    bloom = empty_bloom(len(keys))
    add_to_bloom(keys, bloom)
    assert may_hold_each(bloom, keys).all()
    others = np.random.default_rng(2).integers(0, 1 << 64, 3000, np.uint64)
    assert may_hold_each(bloom, others).sum() < 150
    both = np.concatenate([keys[:500], others[:5000]])
    assert [may_hold_one(bloom, key) for key in both.tolist()] == may_hold_each(bloom, both).tolist()


def test_records_are_gathered_in_any_order() -> None:
    records = random_records(3, 50)
    order = np.random.default_rng(0).permutation(50)[:40]
    taken = bulk.take(batch_of(records), order)
    assert same(taken, batch_of([records[i] for i in order]))


def checksum_of_a_chunk() -> int:
    """Returns the CRC of a chunk's blocks, which are decoded as they were encoded."""
    records = random_records(5, 64)
    chunk = bulk.encode_chunk(batch_of(records))
    decoded = decode_chunk(b"", chunk.blocks)
    assert [decoded.record(i) for i in range(64)] == records
    return zlib.crc32(b"".join(chunk.blocks))


def test_kernels_run_without_the_compiler() -> None:
    assert in_plain_python(checksum_of_a_chunk) == checksum_of_a_chunk()
