"""Unpacking stored blocks: what was packed, what the zstandard package says, and nothing out of bounds."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from graphsearch.jit.compiler import kernel
from graphsearch.jit.pointers import ptr
from graphsearch.jit.types import int64
from graphsearch.store.block import SLOTS, Unpacker, encode_chunk, is_dictionary, padded, trained
from graphsearch.store.block_kernel import FRAME_START, HEADER, LOW, NONE, UNKNOWN, Workshop, unpack_block

from .records import batch_of, random_records
from .sealing import BlockError, blocks_of, header_bytes, opened, parts_of, seal, stored, with_checksum

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
        expected = opened(dictionary, block)
    except BlockError:
        expected = b""
    assert found == expected
    return found


def block_of(counts: tuple[int, int, int], codes: bytes, columns: bytes) -> bytes:
    """Returns a block of records, P codes and edges with the given frames, and low parts of zeros."""
    return stored(header_bytes(*counts) + bytes(LOW * (counts[0] + counts[2])), codes, columns)


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
    encoded = encode_chunk(batch_of(random_records(71, 60) * 20))
    assert encoded.dictionary
    blocks = blocks_of(encoded)
    return encoded.dictionary, blocks, [opened(encoded.dictionary, block) for block in blocks]


# ------------------------------------------------------------------ dictionaries
def retrained(blocks: list[bytes]) -> bytes:
    """Returns dictionaries of some blocks before compression."""
    parts = [(memoryview(block), *parts_of(block)) for block in blocks]
    return trained([view[a:b] for view, a, b in parts], [view[b:] for view, _, b in parts]).stored


def test_more_dictionaries_than_slots_are_kept_apart() -> None:
    unpacker = Unpacker()
    dictionary, _, plain = chunk()
    kinds = [*(retrained(plain[k::3] + plain[:k]) for k in range(3)), dictionary]
    sealed = {its: seal(its, plain) for its in kinds}
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
    agreed(dictionary, with_checksum(whole))
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
    for block in (block_of((1, 5, 1), codes + behind, columns), block_of((1, 5, 1), codes, columns + behind)):
        assert not unpacked(UNPACKER, b"", block)
