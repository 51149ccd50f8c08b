"""The plain codec: round trips, damage, and the worked example of the format's description."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsearch.base.errors import CorruptRecordError
from graphsearch.store.codec import records as codec
from graphsearch.store.codec.compression import TRAINED_FROM, Dictionaries
from graphsearch.store.codec.layout import HEADER, LENGTH
from graphsearch.store.record.node import NodeRecord

from .formats import example
from .record_encoder import encode_block, encode_blocks, with_checksum
from .records import identity, random_records

NONE = Dictionaries()


def decoded(dictionaries: Dictionaries, block: bytes) -> list[NodeRecord]:
    """Returns the records of a stored block."""
    return codec.decode_block(dictionaries.opener().open(block))


def test_many_blocks_are_compressed_with_dictionaries() -> None:
    records = random_records(4, 16) * (2 * TRAINED_FROM)
    dictionaries, blocks = encode_blocks(records)
    again = Dictionaries.from_bytes(dictionaries.to_bytes())
    assert len(dictionaries.to_bytes()) > 500
    assert [record for block in blocks for record in decoded(again, block)] == records
    with pytest.raises(CorruptRecordError):
        decoded(NONE, blocks[0])


def test_a_block_that_is_too_short_is_refused() -> None:
    (block,) = encode_blocks(random_records(1, 1))[1]
    for length in range(14):
        for short in (block[:length], with_checksum(block[:length])):
            with pytest.raises(CorruptRecordError):
                decoded(NONE, short)


def test_every_flipped_bit_of_a_block_is_refused() -> None:
    _, blocks = encode_blocks(random_records(2, 3))
    for bit in range(8 * len(blocks[0])):
        damaged = bytearray(blocks[0])
        damaged[bit >> 3] ^= 1 << (bit & 7)
        with pytest.raises(CorruptRecordError, match="checksum"):
            decoded(NONE, bytes(damaged))


def test_a_block_of_terminal_positions_has_no_frame_of_prior_codes() -> None:
    records = [record for record in random_records(2, 400) if record.terminal]
    (block,) = encode_blocks(records)[1]
    assert block[HEADER : HEADER + LENGTH] == b"\0\0"
    assert decoded(NONE, block) == records


def test_the_worked_example_decodes_to_the_documented_record() -> None:
    shown = example("node_record.md")
    assert NONE.opener().open(shown["block"]) == shown["expanded"]
    assert decoded(NONE, shown["block"]) == [example_record()]
    assert encode_block([example_record()]) == shown["expanded"]


def example_record() -> NodeRecord:
    """Returns the record of the worked example: after 1. e4 and one visit of 1... c5."""
    import chess

    from graphsearch.position.board import pack
    from graphsearch.store.record.node import UNPROVEN, Edge

    board = chess.Board()
    board.push_san("e4")
    words = tuple(int(word) for word in pack(board))
    edges = (Edge(1, 0, 0.25, 300),)
    return NodeRecord(words, -0.125, 250, 1, UNPROVEN, bytes([20] * 19 + [40]), edges, run=300)


def test_records_without_runs_announce_none() -> None:
    block = bytes.fromhex(
        "80020400 0c00 000000fa0000802c 4d000018141428 010033c002"
        " 890000 00010102002001be0014013e010c1c0001 50a1fcd5"
    )
    assert decoded(NONE, block) == [replace(example_record(), run=0)]
    assert encode_blocks([replace(example_record(), run=0)])[1] == [block]


def test_a_record_has_the_run_of_its_reference_unless_it_says_another() -> None:
    records = [replace(r, run=run) for r, run in zip(random_records(3, 6), (7, 7, 300, 7, 0, 0), strict=True)]
    plain = encode_block(records)
    assert codec.decode_block(plain) == records
    for record in records:  # without reading all of the block
        assert codec.find_in_block(plain, identity(record)) == record
    alike = encode_block([replace(r, run=7) for r in records])
    assert len(alike) == len(encode_block([replace(r, run=0) for r in records])) + 1


@pytest.mark.parametrize(
    "data",
    [b"\0", b"nonsense", b"\0\0abc", b"\x09\0", b"\x03\0abcdef", b"\x08\0\x37\xa4\x30\xec" + bytes(600)],
)
def test_what_is_no_dictionary_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptRecordError, match="dictionar"):
        Dictionaries.from_bytes(data)


def test_blocks_of_equal_content_need_no_dictionaries() -> None:
    records = random_records(6, 1) * (32 * TRAINED_FROM)
    dictionaries, blocks = encode_blocks(records)
    assert [record for block in blocks for record in decoded(dictionaries, block)] == records
