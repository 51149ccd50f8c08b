"""The kernels' codec: the same bytes as the plain one, both ways, and nothing out of bounds."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsearch.base.errors import CorruptRecordError, UnfitRecordError
from graphsearch.store.codec import bulk, compression
from graphsearch.store.codec import records as codec
from graphsearch.store.codec.bulk import encode_chunk
from graphsearch.store.record.node import NodeRecord, RecordBatch

from .record_encoder import encode_block, encode_blocks
from .records import BlockFault, batch_of, decode_blocks, decode_chunk, plain_blocks, random_records
from .strategies import node_records


def same(a: RecordBatch, b: RecordBatch) -> bool:
    """Returns whether two batches are equal to the bit."""
    return all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in RecordBatch.__slots__)


@settings(max_examples=25)
@given(st.lists(node_records(), min_size=1, max_size=40))
def test_both_codecs_write_the_same_bytes_and_read_what_they_wrote(records: list[NodeRecord]) -> None:
    batch = batch_of(records)
    assert [batch.record(i) for i in range(len(batch))] == records
    plain = plain_blocks(batch)
    assert plain == [encode_block(records[k : k + 32]) for k in range(0, len(records), 32)]
    assert [record for block in plain for record in codec.decode_block(block)] == records
    encoded = encode_chunk(batch)
    assert encoded.blocks == encode_blocks(records)[1]
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


@cache
def blocks() -> list[bytes]:
    """Blocks as they are before compression, of which the last is small."""
    return plain_blocks(batch_of(random_records(5, 64 + 3)))


@given(st.data())
def test_changed_bytes_decode_alike_or_not_at_all(data: st.DataObject) -> None:
    plain = bytearray(data.draw(st.sampled_from(blocks())))
    columns = compression.Header.of(bytes(plain)).parts()[1]
    for _ in range(data.draw(st.integers(1, 3))):
        first = data.draw(st.sampled_from((0, columns)))
        at = data.draw(st.integers(first, len(plain) - 1))
        plain[at] = data.draw(st.integers(0, 255) | st.just((plain[at] + 1) & 255))
    cut = data.draw(st.sampled_from((0, 0, 0, 1, 40)))
    outcome(bytes(plain[: len(plain) - cut]) + bytes(data.draw(st.sampled_from((0, 0, 0, 1)))))


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
    assert encode_chunk(batch, alone.dictionary, threads=5) == alone
    assert same(decode_chunk(alone.dictionary, alone.blocks), batch)
    batch.v[bulk.PART + 7] = 1.5
    with pytest.raises(UnfitRecordError) as found:
        encode_chunk(batch, threads=2)
    assert found.value.index == bulk.PART + 7, "a refused record is named by its place in the chunk"


@pytest.mark.parametrize(("word", "bits"), [(5, 1 << 30), (6, 1 << 30), (0, 1), (8, 1 << 33), (8, 127 << 5)])
def test_an_impossible_position_is_refused(word: int, bits: int) -> None:
    batch = batch_of(random_records(10, 3))
    batch.words[1, word] |= np.uint64(bits)
    with pytest.raises(CorruptRecordError, match="record 1 of the batch has an impossible position"):
        encode_chunk(batch)
    with pytest.raises(CorruptRecordError, match="record 1 of the batch has an impossible position"):
        encode_blocks([batch.record(i) for i in range(3)])


def test_records_are_gathered_in_any_order() -> None:
    records = random_records(3, 50)
    order = np.random.default_rng(0).permutation(50)[:40]
    taken = bulk.take(batch_of(records), order)
    assert same(taken, batch_of([records[i] for i in order]))
