"""The kernels' zstd decoder: what the library makes, and nothing out of bounds."""

from __future__ import annotations

import random
import zlib
from contextlib import suppress

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from graphsearch.errors import CorruptRecordError
from graphsearch.jit.pointers import ptr
from graphsearch.store.codec import bulk, entropy_kernel, unpacking_kernel, zstd_kernel
from graphsearch.store.codec import records as codec
from graphsearch.store.codec.compression import FRAME_START, Dictionaries, sampled
from graphsearch.store.codec.unpacking import NO_DICTIONARY, SLOTS, UNKNOWN, Unpacker

from .records import batch_of, random_records

WORKSHOP = unpacking_kernel.new_workshop(1, 2048)
GUARD = 64


@njit  # type: ignore[untyped-decorator]
def expand(workshop: unpacking_kernel.Workshop, data: object, end: int, out: object, limit: int) -> int:
    base = entropy_kernel.PREDEFINED_SET * entropy_kernel.SET
    return zstd_kernel.expand(  # type: ignore[no-any-return]
        ptr(data, 0), 0, end, base, ptr(workshop.tables, 0), ptr(workshop.state, 0), ptr(workshop.lengths, 0),
        ptr(out, 0), 0, limit, ptr(workshop.literals, 0), ptr(workshop.contents, 0),
    )  # fmt: skip


def expanded(frame: bytes, limit: int) -> bytes | None:
    """Returns the content of a frame without its header, None if it is refused."""
    data = np.frombuffer(bytearray(frame + bytes(entropy_kernel.PADDING)), np.uint8)
    out = np.full(limit + GUARD, 0xA5, np.uint8)
    end = expand(WORKSHOP, data, len(frame), out, limit)
    assert (out[limit:] == 0xA5).all(), "it wrote behind the limit"
    return None if end < 0 else out[:end].tobytes()


def frame_of(content: bytes, level: int) -> bytes:
    frame = zstandard.ZstdCompressor(level, write_content_size=False, write_dict_id=False).compress(content)
    assert frame[:5] == FRAME_START[:5]
    return frame[6:]


def texts() -> list[bytes]:
    """Contents of many kinds: short, long, repeated, flat, skewed."""
    rng = random.Random(1)
    found = [b"", b"a", b"ab" * 3, bytes(1000), bytes(range(256)) * 9]
    for size in (5, 30, 200, 257, 1000, 5000, 20000):
        for spread in (0.3, 1, 3, 12, 60):
            found.append(bytes(min(255, int(rng.expovariate(1 / spread))) for _ in range(size)))
        words = [rng.randbytes(rng.randrange(3, 30)) for _ in range(20)]
        found.append(b"".join(rng.choice(words) for _ in range(size // 10 + 1)))
        found.append(rng.randbytes(size))
    return found


@pytest.mark.parametrize("level", [-5, 1, 2, 3, 5, 9, 19])
def test_frames_of_the_library_expand_to_their_content(level: int) -> None:
    for text in texts():
        assert expanded(frame_of(text, level), len(text)) == text
        assert expanded(frame_of(text, level), len(text) + 100) == text


def test_a_content_larger_than_its_limit_is_refused() -> None:
    for text in texts():
        if text:
            assert expanded(frame_of(text, 3), len(text) - 1) is None


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_frames_expand_as_the_library_says_or_are_refused(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(texts()))
    frame = bytearray(frame_of(text, data.draw(st.sampled_from((1, 3, 19)))))
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    whole = bytes(frame[: data.draw(st.sampled_from((len(frame), len(frame), len(frame) - 1)))])
    content = expanded(whole, 30000)
    if content is not None:
        with suppress(zstandard.ZstdError):  # the library may be stricter
            library = zstandard.ZstdDecompressor()
            assert library.decompress(FRAME_START + whole, max_output_size=30000) == content


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_expanded_or_refused(frame: bytes) -> None:
    expanded(frame, 1000)


def test_checksums_are_those_of_zlib() -> None:
    @njit  # type: ignore[untyped-decorator]
    def crc(data: object, begin: int, end: int, table: object) -> int:
        return unpacking_kernel.crc32(ptr(data, 0), begin, end, ptr(table, 0))  # type: ignore[no-any-return]

    data = np.frombuffer(bytearray(random.Random(2).randbytes(100)), np.uint8)
    for begin in (0, 1, 7):
        for end in (begin, begin + 1, begin + 8, begin + 23, 90):
            assert crc(data, begin, end, WORKSHOP.crc) == zlib.crc32(data[begin:end].tobytes())


# ------------------------------------------------------------------ blocks with dictionaries


def unpacked(unpacker: Unpacker, dictionary: bytes, blocks: list[bytes]) -> tuple[list[bytes], list[str]]:
    """Returns the blocks before compression, empty for damaged ones, and what is wrong with those."""
    data, ends = bulk.joined(blocks)
    slots = np.full(len(blocks), unpacker.slot(dictionary), np.int64)
    wrong: list[str] = []
    plain, sizes = unpacker.unpack(
        data, ends, slots, lambda _: dictionary, lambda _, what: wrong.append(what)
    )
    ends = np.cumsum(sizes)
    return [plain[b - n : b].tobytes() for b, n in zip(ends, sizes, strict=True)], wrong


def a_chunk(seed: int) -> tuple[bytes, list[bytes], list[bytes]]:
    """Returns dictionaries, blocks as they are stored and as they were before compression."""
    encoded = bulk.encode_chunk(batch_of(random_records(seed, 60) * 20))
    opener = Dictionaries.from_bytes(encoded.dictionary).opener()
    assert encoded.dictionary
    return encoded.dictionary, encoded.blocks, [opener.open(block) for block in encoded.blocks]


CHUNK = a_chunk(7)


def test_blocks_are_unpacked_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dictionaries, "from_bytes", None)
    dictionary, blocks, plain = CHUNK
    assert unpacked(Unpacker(), dictionary, blocks) == (plain, [])


def test_what_the_kernels_refuse_the_library_may_know() -> None:
    dictionary, blocks, plain = CHUNK
    unpacker = Unpacker()
    data, ends = bulk.joined(blocks)
    slots = np.full(len(blocks), unpacker.slot(dictionary), np.int64)
    slots[[0, 5, len(blocks) - 1]] = UNKNOWN
    found, sizes = unpacker.unpack(data, ends, slots, lambda _: dictionary, lambda _, what: pytest.fail(what))
    assert found[: sizes.sum()].tobytes() == b"".join(plain)


def test_more_dictionaries_than_slots_are_kept_apart() -> None:
    unpacker = Unpacker()
    dictionary, _, plain = CHUNK
    others = [Dictionaries.train(plain[k::3] + plain[:k]).to_bytes() for k in range(3)]
    kinds = [(d, Dictionaries.from_bytes(d).seal(plain)) for d in [*others, dictionary]]
    fillers = [dictionary + bytes([k]) for k in range(SLOTS)]  # a byte more of content
    for its_dictionary, its_blocks in kinds:
        assert unpacked(unpacker, its_dictionary, its_blocks) == (plain, [])
        assert len({unpacker.slot(filler) for filler in fillers}) == SLOTS
    for its_dictionary, its_blocks in kinds:
        assert unpacked(unpacker, its_dictionary, its_blocks) == (plain, [])
    assert unpacker.slot(b"") == NO_DICTIONARY
    assert unpacker.slot(b"nonsense") == UNKNOWN


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_damaged_dictionary_is_refused_or_does_no_harm(data: st.DataObject) -> None:
    dictionary, blocks, _ = CHUNK
    wrong = bytearray(dictionary)
    wrong[data.draw(st.integers(0, len(wrong) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with suppress(CorruptRecordError):
        unpacked(Unpacker(), bytes(wrong), blocks[:3])


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_damaged_content_with_a_right_checksum_is_refused_or_does_no_harm(data: st.DataObject) -> None:
    from graphsearch.store.codec.compression import with_checksum

    dictionary, blocks, _ = CHUNK
    block = bytearray(blocks[data.draw(st.integers(0, len(blocks) - 1))][:-4])
    for _ in range(data.draw(st.integers(1, 3))):
        block[data.draw(st.integers(0, len(block) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    stored = with_checksum(bytes(block))
    found, wrong = unpacked(Unpacker(), dictionary, [blocks[0], stored, blocks[1]])
    assert (found[0], found[2]) == (CHUNK[2][0], CHUNK[2][1])
    assert bool(found[1]) != bool(wrong)
    if found[1]:
        with suppress(CorruptRecordError):
            assert Dictionaries.from_bytes(dictionary).opener().open(stored) == found[1]


def test_bulk_and_single_sealing_agree() -> None:
    dictionary, blocks, plain = CHUNK
    assert Dictionaries.from_bytes(dictionary).seal(plain) == blocks
    made = random_records(9, 50)
    encoded = bulk.encode_chunk(batch_of(made))
    assert encoded.blocks == codec.encode_blocks(made)[1]
    assert [plain[i] for i in sampled(len(plain))] == plain
