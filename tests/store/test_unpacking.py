"""Unpacking blocks in bulk: what was packed, what the zstandard package says, and nothing out of bounds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from threading import Barrier

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsearch.base.errors import CorruptRecordError
from graphsearch.jit.libzstd import libzstd
from graphsearch.store.codec import bulk, layout, packing_kernel
from graphsearch.store.codec.compression import Dictionaries, Header
from graphsearch.store.codec.layout import FRAME_START
from graphsearch.store.codec.unpacking import NO_DICTIONARY, SLOTS, UNKNOWN, Unpacker, own_unpacker

from .records import batch_of, random_records
from .sealing import blocks_of, header_bytes, seal, with_checksum

GUARD = 64
MOST = 0x1FFF  # P codes, and edges, that a header can announce
needs_library = pytest.mark.skipif(libzstd() is None, reason="kernels cannot call libzstd here")


def unpacked(
    unpacker: Unpacker, dictionary: bytes, blocks: list[bytes]
) -> tuple[list[bytes], list[tuple[int, str]]]:
    """Returns the blocks before compression, empty for damaged ones, and what is wrong with those."""
    data, ends = bulk.joined(blocks)
    slots = np.full(len(blocks), unpacker.slot(dictionary), np.int64)
    wrong: list[tuple[int, str]] = []
    plain, sizes = unpacker.unpack(
        data, ends, slots, lambda _: dictionary, lambda i, what: wrong.append((i, what))
    )
    ends = np.cumsum(sizes)
    return [plain[b - n : b].tobytes() for b, n in zip(ends, sizes, strict=True)], wrong


@contextmanager
def without_the_package() -> Iterator[None]:
    """Makes it an error to ask the zstandard package about a block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dictionaries, "from_bytes", None)
        yield


def stored(header: Header, codes: bytes, columns: bytes) -> bytes:
    """Returns a block with the given frames, as they are stored, and low parts of zeros."""
    low = bytes(layout.LOW * (header.records + header.edges))
    return with_checksum(header_bytes(header) + len(codes).to_bytes(2, "little") + low + codes + columns)


def frame_of(content: bytes, level: int = 3) -> bytes:
    """Returns a frame as it is stored."""
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
    encoded = bulk.encode_chunk(batch_of(random_records(71, 60) * 20))
    opener = Dictionaries.from_bytes(encoded.dictionary).opener()
    assert encoded.dictionary
    blocks = blocks_of(encoded)
    return encoded.dictionary, blocks, [opener.open(block) for block in blocks]


DIRECT, INDIRECT = Unpacker(), Unpacker(direct=False)


def agreed(dictionary: bytes, blocks: list[bytes]) -> tuple[list[bytes], list[tuple[int, str]]]:
    """Returns what both ways of unpacking find; they must agree in every byte and every message."""
    if not dictionary:
        check_room(blocks)
    found = unpacked(DIRECT, dictionary, blocks)
    assert unpacked(INDIRECT, dictionary, blocks) == found
    return found


def check_room(blocks: list[bytes]) -> None:
    """Holds kernels to the room that they ask for."""
    data, ends = bulk.joined(blocks)
    sums = np.zeros(4, np.int64)
    packing_kernel.room(data, ends, sums)
    out = np.full(int(sums[0]) + GUARD, 0xA5, np.uint8)
    sizes = np.zeros(len(ends), np.int64)
    slots = np.full(len(ends), NO_DICTIONARY, np.int64)
    end = int(packing_kernel.unpack(DIRECT.workshop, data, ends, slots, out, sizes))
    assert end == sizes.sum()
    assert (out[int(sums[0]) :] == 0xA5).all(), "it wrote behind the room"


# ------------------------------------------------------------------ sound blocks
@needs_library
def test_blocks_are_unpacked_without_the_package() -> None:
    dictionary, blocks, plain = chunk()
    with without_the_package():
        assert unpacked(Unpacker(), dictionary, blocks) == (plain, [])
    assert agreed(dictionary, blocks) == (plain, [])


# ------------------------------------------------------------------ dictionaries
def test_more_dictionaries_than_slots_are_kept_apart() -> None:
    unpacker = Unpacker()
    dictionary, _, plain = chunk()
    others = [Dictionaries.train(plain[k::3] + plain[:k]).to_bytes() for k in range(3)]
    kinds = [(d, seal(Dictionaries.from_bytes(d), plain)) for d in [*others, dictionary]]
    fillers = [dictionary + bytes([k]) for k in range(SLOTS)]  # a byte more of content
    for its_dictionary, its_blocks in kinds:
        assert unpacked(unpacker, its_dictionary, its_blocks) == (plain, [])
        if libzstd():
            assert len({unpacker.slot(filler) for filler in fillers}) == SLOTS
    for its_dictionary, its_blocks in kinds:
        assert unpacked(unpacker, its_dictionary, its_blocks) == (plain, [])
    assert unpacker.slot(b"") == NO_DICTIONARY
    assert unpacker.slot(b"nonsense") == UNKNOWN
    assert Unpacker(direct=False).slot(dictionary) == UNKNOWN


@settings(max_examples=30)
@given(st.data())
def test_with_a_damaged_dictionary_both_ways_agree(data: st.DataObject) -> None:
    dictionary, blocks, _ = chunk()
    wrong = bytearray(dictionary)
    wrong[data.draw(st.integers(0, len(wrong) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with suppress(CorruptRecordError):
        agreed(bytes(wrong), blocks[:3])


# ------------------------------------------------------------------ damaged blocks
@settings(max_examples=40)
@given(st.data())
def test_damaged_content_with_a_right_checksum_is_what_the_package_says(data: st.DataObject) -> None:
    dictionary, blocks, plain = chunk()
    block = bytearray(blocks[data.draw(st.integers(0, len(blocks) - 1))][:-4])
    for _ in range(data.draw(st.integers(1, 3))):
        block[data.draw(st.integers(0, len(block) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    whole = bytes(block[: data.draw(st.sampled_from((len(block), len(block), len(block) - 1)))])
    found, wrong = agreed(dictionary, [blocks[0], with_checksum(whole), blocks[1]])
    assert (found[0], found[2]) == (plain[0], plain[1])
    assert bool(found[1]) != bool(wrong)


def assert_refused(block: bytes) -> None:
    found, wrong = agreed(b"", [block])
    assert (found, len(wrong)) == ([b""], 1)


@pytest.mark.parametrize("more", [-1, 1, 100])
def test_a_content_of_another_size_than_announced_is_refused(more: int) -> None:
    for text in texts():
        codes = len(text) + more
        if 0 < codes <= MOST:
            header = Header(1, codes, 0, drawn=False)
            assert_refused(stored(header, frame_of(text), frame_of(b"columns")))


def test_columns_larger_than_their_limit_are_refused() -> None:
    header = Header(3, 0, 5, drawn=False)
    limit = 128 * 3 + 12 * 5
    found, wrong = agreed(b"", [stored(header, b"", frame_of(bytes(limit)))])
    assert (len(found[0]), wrong) == (header.parts()[1] + limit, [])
    assert_refused(stored(header, b"", frame_of(bytes(limit + 1))))


def test_a_small_frame_with_an_absurd_content_is_refused() -> None:
    block = (1 << 17) << 3 | 1 << 1  # 128 KiB in 4 bytes (RFC 8878, 3.1.1.2)
    for times in (1, 1000, 30000):  # 4 GB, and more than a kernel takes
        frame = (block.to_bytes(3, "little") + b"x") * times + b"\1\0\0"  # an empty last block
        for codes in (MOST, 0):
            assert_refused(stored(Header(32, codes, MOST, drawn=True), b"", frame))


@pytest.mark.parametrize(
    "behind",
    [zstandard.compress(b"more"), bytes.fromhex("50 2a 4d 18 00 00 00 00"), b"\0", b"\x28\xb5\x2f\xfd"],
    ids=["a frame", "a skippable frame", "a byte", "a magic number"],
)
def test_what_stands_behind_a_frame_is_never_content(behind: bytes) -> None:
    codes, columns = frame_of(b"codes"), frame_of(b"columns")
    header = Header(1, 5, 1, drawn=False)
    assert_refused(stored(header, codes + behind, columns))
    found, wrong = agreed(b"", [stored(header, codes, columns + behind)])  # zstandard 0.25 may forgive it
    assert found[0][header.parts()[1] :] == b"columns" or wrong


# ------------------------------------------------------------------ threads
def test_threads_unpack_at_once_each_with_its_own_context() -> None:
    dictionary, blocks, plain = chunk()
    threads = 4
    together = Barrier(threads)

    def unpack_often(_: int) -> tuple[int, int]:
        unpacker = own_unpacker()
        together.wait()
        damage = 0
        for _ in range(15):
            found, wrong = unpacked(unpacker, dictionary, blocks)
            damage += len(wrong) + (found != plain)
        return unpacker.workshop.context, damage

    with ThreadPoolExecutor(threads) as pool:
        results = list(pool.map(unpack_often, range(threads)))
    assert [damage for _, damage in results] == [0] * threads
    if libzstd():
        assert len({context for context, _ in results}) == threads
