"""The plain codec: round trips, damage, and the worked example of the format's description."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsearch.errors import CorruptRecordError
from graphsearch.record import NodeRecord
from graphsearch.store import codec
from graphsearch.store.huffman import LIMIT, SINGLE, SYMBOLS, TABLES, CodeBook, code_lengths

from .formats import example
from .records import node_records, random_records


@given(st.lists(node_records(), min_size=1, max_size=40))
@settings(max_examples=50, deadline=None)
def test_decoding_gives_the_encoded_records(records: list[NodeRecord]) -> None:
    book, blocks = codec.encode_blocks(records)
    decoder = codec.Decoder(CodeBook.from_bytes(book.to_bytes()))
    assert [record for block in blocks for record in decoder.decode(block)] == records


@pytest.mark.parametrize("length", range(12))
def test_a_block_that_is_too_short_is_refused(length: int) -> None:
    book, blocks = codec.encode_blocks(random_records(1, 1))
    with pytest.raises(CorruptRecordError):
        codec.Decoder(book).decode(blocks[0][:length])


def test_every_flipped_bit_of_a_block_is_refused() -> None:
    book, blocks = codec.encode_blocks(random_records(2, 3))
    decoder = codec.Decoder(book)
    for bit in range(8 * len(blocks[0])):
        damaged = bytearray(blocks[0])
        damaged[bit >> 3] ^= 1 << (bit & 7)
        with pytest.raises(CorruptRecordError, match="checksum"):
            decoder.decode(bytes(damaged))


def test_the_worked_example_decodes_to_the_documented_record() -> None:
    shown = example("node_record.md")
    book = CodeBook.from_bytes(shown["book"])
    (record,) = codec.Decoder(book).decode(shown["block"])
    assert record == example_record()
    encoded_book, blocks = codec.encode_blocks([example_record()])
    assert blocks == [shown["block"]]
    assert encoded_book.lengths.tolist() == book.lengths.tolist()


def example_record() -> NodeRecord:
    """Returns the record of the worked example: after 1. e4 and one visit of 1... c5."""
    import chess

    from graphsearch.position import pack
    from graphsearch.record import UNPROVEN, Edge

    board = chess.Board()
    board.push_san("e4")
    words = tuple(int(word) for word in pack(board))
    return NodeRecord(words, -0.125, 250, 1, UNPROVEN, bytes([20] * 19 + [40]), (Edge(1, 0, 0.25, 300),))


@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=256))
@settings(max_examples=100, deadline=None)
def test_huffman_codes_fit_their_limit_and_can_be_told_apart(counts: list[int]) -> None:
    lengths = code_lengths(counts)
    assert all(1 <= length <= LIMIT for length in lengths)
    assert sum(2.0**-length for length in lengths) <= 1.0
    ranked = sorted(zip(counts, lengths, strict=True))
    assert all(a[1] >= b[1] for a, b in pairwise(ranked) if a[0] < b[0])


def test_skewed_counts_are_cut_to_the_limit() -> None:
    lengths = code_lengths([2**i for i in range(30)])
    assert max(lengths) == LIMIT
    assert sum(2.0**-length for length in lengths) <= 1.0


def damaged_book(*lengths: tuple[int, int]) -> bytes:
    """Returns a stored code book whose first table has the given (symbol, length) pairs."""
    import zlib

    packed = bytearray(TABLES * SYMBOLS // 2)
    for symbol, length in lengths:
        packed[symbol // 2] |= length << 4 * (symbol % 2)
    return zlib.compress(bytes(packed))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense",
        damaged_book()[:-5],
        damaged_book((0, 12)),
        damaged_book((0, 1), (1, 1), (2, 5)),
        damaged_book((0, SINGLE), (1, SINGLE)),
        damaged_book((0, SINGLE), (1, 3)),
    ],
)
def test_what_is_no_code_book_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        CodeBook.from_bytes(data)


@given(st.binary(max_size=60))
def test_random_bytes_are_no_code_book(data: bytes) -> None:
    with pytest.raises(CorruptRecordError, match=re.compile("code book|Huffman")):
        CodeBook.from_bytes(data)
