"""The codec: round trips, golden bytes, worked examples, damage; the zstandard package unpacks the same."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from graphsearch.base.errors import CorruptRecordError, UnfitRecordError
from graphsearch.jit.compiler import kernel
from graphsearch.jit.pointers import ptr
from graphsearch.jit.types import int64
from graphsearch.position.board import board_of, pack
from graphsearch.store import block
from graphsearch.store.block import (
    SLOTS,
    Dictionaries,
    Unpacker,
    encode_chunk,
    is_dictionary,
    padded,
    trained,
)
from graphsearch.store.block_kernel import FRAME_START, HEADER, LOW, NONE, UNKNOWN, Workshop, unpack_block
from graphsearch.store.record import UNPROVEN, Edge, NodeRecord, RecordBatch
from graphsearch.store.record_kernel import MAX_RUN

from ..support.positions import after_line
from . import records as made
from .test_formats import GOLDEN, example


def encoded(records: list[NodeRecord]) -> tuple[bytes, list[bytes]]:
    """Returns the dictionaries and the stored blocks of records."""
    chunk = encode_chunk(made.batch_of(records))
    return chunk.dictionary, made.blocks_of(chunk)


def test_a_block_that_is_too_short_or_has_a_flipped_bit_is_refused() -> None:
    (block,) = encoded(made.random_records(71, 3))[1]
    for length in range(14):
        for short in (block[:length], made.with_checksum(block[:length])):
            with pytest.raises(made.BlockFault):
                made.records_of(b"", short)
    for bit in range(8 * len(block)):
        damaged = bytearray(block)
        damaged[bit >> 3] ^= 1 << (bit & 7)
        with pytest.raises(made.BlockFault, match="checksum"):
            made.records_of(b"", bytes(damaged))


def test_the_worked_example_decodes_to_the_documented_record() -> None:
    shown = example("node_record.md")
    assert made.opened(b"", shown["block"]) == shown["expanded"]
    assert made.records_of(b"", shown["block"]) == [example_record()]
    assert made.plain_blocks(made.batch_of([example_record()])) == [shown["expanded"]]


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
    assert made.records_of(b"", block) == [replace(example_record(), run=0)]
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
    return all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in RecordBatch.names_)


@st.composite
def node_records(draw: st.DrawFn) -> NodeRecord:
    """Sound records, their extremes included."""
    rng = random.Random(draw(st.integers(0, 1 << 32)))
    board = board_of(draw(st.sampled_from(made.FENS))) if draw(st.booleans()) else next(made.boards(rng))
    record = made.record_of(board, rng)
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
    batch = made.batch_of(records)
    assert [batch.record(i) for i in range(len(batch))] == records
    encoded = encode_chunk(batch)
    assert made.blocks_of(encoded) == made.seal(encoded.dictionary, made.plain_blocks(batch))
    assert same(made.decode_chunk(encoded.dictionary, made.blocks_of(encoded)), batch)
    assert same(encoded.records(), batch)
    assert same(encode_chunk(batch, None).records(), batch)


def test_kernels_write_the_golden_bytes() -> None:
    """Blocks with runs, references, dictionaries and every kind of man, as the first version wrote them."""
    with closing(sqlite3.connect(f"{GOLDEN.as_uri()}?mode=ro&immutable=1", uri=True)) as file:
        chunks = file.execute("SELECT first_block, blocks, dictionary FROM chunk").fetchall()
        blocks = dict(file.execute("SELECT id, data FROM block"))
    for first, count, dictionary in chunks:
        its = [blocks[first + k] for k in range(count)]
        records = [record for block in its for record in made.records_of(dictionary, block)]
        assert made.plain_blocks(made.batch_of(records)) == [made.opened(dictionary, block) for block in its]


@cache
def blocks() -> list[bytes]:
    """Blocks as they are before compression, of which the last is small."""
    return made.plain_blocks(made.batch_of(made.random_records(71, 64 + 3)))


@given(st.data())
def test_of_changed_bytes_a_lookup_finds_what_a_scan_finds(data: st.DataObject) -> None:
    plain = bytearray(data.draw(st.sampled_from(blocks())))
    columns = made.parts_of(bytes(plain))[1]
    for _ in range(data.draw(st.integers(1, 3))):
        first = data.draw(st.sampled_from((0, columns)))
        at = data.draw(st.integers(first, len(plain) - 1))
        plain[at] = data.draw(st.integers(0, 255) | st.just((plain[at] + 1) & 255))
    cut = data.draw(st.sampled_from((0, 0, 0, 1, 40)))
    changed = bytes(plain[: len(plain) - cut]) + bytes(data.draw(st.sampled_from((0, 0, 0, 1))))
    (block,) = made.seal(b"", [changed])
    try:
        records = made.records_of(b"", block)
    except made.BlockFault:
        return
    assert made.extracted(b"", block, records) == records


@pytest.mark.parametrize(
    ("column", "value"),
    [("d", 1001), ("codes", 64), ("codes", 0), ("v", 1.5), ("v", np.nan), ("edge_d", 1022), ("run", 1 << 20)],
)
def test_a_record_that_has_no_place_in_the_format_is_refused(column: str, value: float) -> None:
    batch = made.batch_of(made.random_records(71, 40))
    array = getattr(batch, column).copy()
    array[len(array) // 2] = value
    setattr(batch, column, array)
    with pytest.raises(CorruptRecordError):
        encode_chunk(batch)


def test_a_chunk_is_the_same_with_its_own_dictionaries_given_and_on_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = RecordBatch.concat([made.batch_of(made.random_records(71, 640))] * 4)
    monkeypatch.setattr(block, "thread_count", lambda: 1)
    alone = encode_chunk(batch)
    monkeypatch.setattr(block, "thread_count", lambda: 5)
    assert alone.dictionary
    assert encode_chunk(batch) == encode_chunk(batch, alone.dictionary) == alone
    assert same(made.decode_chunk(alone.dictionary, made.blocks_of(alone)), batch)
    with pytest.raises(made.BlockFault):
        made.records_of(b"", made.blocks_of(alone)[0])
    batch.v[777] = 1.5
    with pytest.raises(UnfitRecordError, match="record 777 of the batch has"):
        encode_chunk(batch)


@pytest.mark.parametrize(("word", "bits"), [(5, 1 << 30), (6, 1 << 30), (0, 1), (8, 1 << 33), (8, 127 << 5)])
def test_an_impossible_position_is_refused(word: int, bits: int) -> None:
    batch = made.batch_of(made.random_records(71, 3))
    batch.words[1, word] |= np.uint64(bits)
    with pytest.raises(CorruptRecordError, match="record 1 of the batch has an impossible position"):
        encode_chunk(batch)


# ------------------------------------------------------------------ unpacking
GUARD, MOST_BYTES = 64, 1 << 17
MOST = 0x1FFF  # P codes, and edges, that a header can announce
UNPACKER = Unpacker()


@kernel
def _unpacked(
    shop: Workshop, data: NDArray[np.uint8], size: int64, slot: int64, out: NDArray[np.uint8]
) -> int64:
    found = unpack_block(shop, ptr(data, 0), int64(0), size, slot)
    for k in range(found):
        out[k] = shop.plain[k]
    return found


def unpacked(unpacker: Unpacker, dictionary: bytes, block: bytes) -> bytes:
    """Returns a block before compression, empty if it is refused."""
    out = np.zeros(MOST_BYTES * 4, np.uint8)
    slot = int(unpacker.slots([dictionary])[0])
    size = _unpacked(unpacker.workshop, padded(block), len(block), slot, out)
    return out[: max(size, 0)].tobytes()


def agreed(dictionary: bytes, block: bytes) -> bytes:
    """Returns what the kernel unpacks, empty if it refuses; the zstandard package must agree."""
    found = unpacked(UNPACKER, dictionary, block)
    try:
        expected = made.opened(dictionary, block)
    except made.BlockError:
        expected = b""
    assert found == expected
    return found


def block_of(counts: tuple[int, int, int], codes: bytes, columns: bytes) -> bytes:
    """Returns a block of records, P codes and edges with the given frames, and low parts of zeros."""
    return made.stored(made.header_bytes(*counts) + bytes(LOW * (counts[0] + counts[2])), codes, columns)


def frame_of(content: bytes, level: int = 3) -> bytes:
    frame = zstandard.ZstdCompressor(level, write_content_size=False, write_dict_id=False).compress(content)
    assert frame[:5] == FRAME_START[:5]
    return frame[len(FRAME_START) :]


@cache
def texts() -> list[bytes]:
    """Contents of many kinds: short, long, repeated, flat, skewed."""
    rng = random.Random(1)
    found = [b"a", b"ab" * 3, bytes(1000), bytes(range(256)) * 9]
    for size in (5, 30, 200, 257, 1000, 5000, MOST):
        for spread in (0.3, 1, 3, 12, 60):
            found.append(bytes(min(255, int(rng.expovariate(1 / spread))) for _ in range(size)))
        words = [rng.randbytes(rng.randrange(3, 30)) for _ in range(20)]
        found.append(b"".join(rng.choice(words) for _ in range(size // 10 + 1)))
        found.append(rng.randbytes(size))
    return [text[:MOST] for text in found]


@cache
def chunk() -> tuple[bytes, list[bytes], list[bytes]]:
    """Returns dictionaries, blocks as they are stored and as they were before compression."""
    encoded = encode_chunk(made.batch_of(made.random_records(71, 60) * 20))
    assert encoded.dictionary
    blocks = made.blocks_of(encoded)
    return encoded.dictionary, blocks, [made.opened(encoded.dictionary, block) for block in blocks]


# ------------------------------------------------------------------ dictionaries
def test_more_dictionaries_than_slots_are_kept_apart() -> None:
    unpacker = Unpacker()
    dictionary, _, plain = chunk()
    kinds = [dictionary]
    for k in range(3):
        parts = [(memoryview(block), *made.parts_of(block)) for block in plain[k::3] + plain[:k]]
        kinds.append(trained([its[a:b] for its, a, b in parts], [its[b:] for its, _, b in parts]).stored)
    sealed = {its: made.seal(its, plain) for its in kinds}
    fillers = [dictionary + bytes([k]) for k in range(SLOTS)]  # a byte more of content
    for _ in range(2):
        for its, blocks in sealed.items():
            assert [unpacked(unpacker, its, block) for block in blocks] == plain
            assert len(set(unpacker.slots(fillers).tolist())) == SLOTS
    together = unpacker.slots([*kinds, *fillers])
    assert len(set(together.tolist())) == SLOTS + len(kinds), "those of one call stay"
    assert (unpacker.known_slots(kinds) == together[: len(kinds)]).all()
    assert unpacker.slots([b"", b"nonsense"]).tolist() == [NONE, UNKNOWN]


@settings(max_examples=30)
@given(st.data())
def test_a_damaged_dictionary_is_refused_or_what_the_package_says(data: st.DataObject) -> None:
    dictionary, blocks, _ = chunk()
    wrong = bytearray(dictionary)
    wrong[data.draw(st.integers(0, len(wrong) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    if is_dictionary(bytes(wrong)):
        for block in blocks[:3]:
            agreed(bytes(wrong), block)


# ------------------------------------------------------------------ damaged blocks
@settings(max_examples=40)
@given(st.data())
def test_damaged_content_with_a_right_checksum_is_what_the_package_says(data: st.DataObject) -> None:
    dictionary, blocks, plain = chunk()
    block = bytearray(blocks[data.draw(st.integers(0, len(blocks) - 1))][:-4])
    for _ in range(data.draw(st.integers(1, 3))):
        block[data.draw(st.integers(0, len(block) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    whole = bytes(block[: data.draw(st.sampled_from((len(block), len(block), len(block) - 1)))])
    agreed(dictionary, made.with_checksum(whole))
    assert agreed(dictionary, blocks[0]) == plain[0], "the next one is read as ever"


@pytest.mark.parametrize("more", [-1, 0, 1, 100])
def test_a_content_of_another_size_than_announced_is_refused(more: int) -> None:
    for text in texts():
        codes = len(text) + more
        if 0 < codes <= MOST:
            found = agreed(b"", block_of((1, codes, 0), frame_of(text), frame_of(b"columns")))
            assert found[HEADER + LOW :] == (b"" if more else text + b"columns")


def test_columns_larger_than_their_limit_are_refused() -> None:
    limit = 128 * 3 + 12 * 5
    assert agreed(b"", block_of((3, 0, 5), b"", frame_of(bytes(limit))))
    assert not agreed(b"", block_of((3, 0, 5), b"", frame_of(bytes(limit + 1))))


def test_a_small_frame_with_an_absurd_content_is_refused() -> None:
    block = (1 << 17) << 3 | 1 << 1  # 128 KiB in 4 bytes (RFC 8878, 3.1.1.2)
    for times in (1, 1000, 30000):  # 4 GB, and more than a kernel takes
        frame = (block.to_bytes(3, "little") + b"x") * times + b"\1\0\0"  # an empty last block
        for codes in (MOST, 0):
            assert not unpacked(UNPACKER, b"", block_of((32, codes, MOST), b"", frame))


@pytest.mark.parametrize(
    "behind",
    [zstandard.compress(b"more"), bytes.fromhex("50 2a 4d 18 00 00 00 00"), b"\0", b"\x28\xb5\x2f\xfd"],
    ids=["a frame", "a skippable frame", "a byte", "a magic number"],
)
def test_what_stands_behind_a_frame_is_never_content(behind: bytes) -> None:
    codes, columns = frame_of(b"codes"), frame_of(b"columns")
    for first, second in ((codes + behind, columns), (codes, columns + behind)):
        assert not unpacked(UNPACKER, b"", block_of((1, 5, 1), first, second))
