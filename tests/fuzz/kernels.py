"""Kernels that read what comes out of a file, between forbidden pages."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import numpy as np

from graphsearch.base.errors import CorruptRecordError
from graphsearch.base.limits import FEN
from graphsearch.position.board import pack_checked
from graphsearch.position.fen_kernel import READ, read_fens
from graphsearch.position.fens import quotes_a_clock
from graphsearch.position.notation import board_from_fen
from graphsearch.position.tables import load_tables
from graphsearch.store.codec import bulk
from graphsearch.store.codec.compression import Dictionaries
from graphsearch.store.codec.records import decode_block
from graphsearch.store.record.node import COLUMNS
from tests.store.sealing import seal, with_checksum

from ..store.records import batch_of, plain_blocks, random_records
from .files import DisagreementError
from .guard import guarded, guarded_copy
from .mutators import mutated

LINES = (
    b"1r1k2rr/p2bbp1p/8/8/8/8/P2BBP1P/RR2K1RR w BGbg - 3 20",
    b"rnbqkbnr/pppp1ppp/8/8/3Pp3/8/PPP1PPPP/RNBQKBNR b KQkq d3 0 3\n\n# two\r\nstartpos",
    b'4k3/8/8/8/8/8/8/4K3 w - - hmvc 7; fmvn 30; id "x";\nr3k2r/8/8/8/8/8/8/R3K2R w Qk -  12 40 bm O-O;',
)
PADDING = 8  # zero bytes behind the data that kernels may read


def _plain(count: int, seed: int) -> list[bytes]:
    records = random_records(seed, count)
    return plain_blocks(batch_of(records))


# ------------------------------------------------------------------ blocks before compression
def plain_seeds(_: Path) -> list[bytes]:
    """Returns blocks as they are before compression, of one record to 32."""
    return [block for count, seed in ((1, 5), (32, 6), (70, 7)) for block in _plain(count, seed)]


def mutate_plain(seeds: list[bytes], rng: random.Random) -> bytes:
    """Returns a changed block; its header is changed most of all."""
    data = rng.choice(seeds)
    what = rng.randrange(6)
    if what == 0:
        return struct.pack("<I", rng.getrandbits(32)) + data[4:]
    if what == 1:
        return data[:4] + rng.randbytes(len(data) - 4)
    if what == 2:
        return data[: rng.randrange(len(data) + 1)]
    return mutated(data, rng, seeds)


def _columns(sizes: Any, *, low: bool) -> Any:
    """Returns columns with room for so many records, P codes and edges and for nothing more."""
    from graphsearch.store.codec.batch_kernel import Columns

    records, codes, edges = sizes
    rooms = {"words": 10 * records, "code_offsets": records + 1, "edge_offsets": records + 1, "codes": codes}
    rooms |= dict.fromkeys(("v", "d", "evaluator", "run", "flags"), records)
    rooms |= dict.fromkeys(("n", "r", "q", "edge_d"), edges)
    return Columns(**{name: guarded(rooms[name], kind, low=low) for name, kind in COLUMNS.items()})


def decode(data: bytes, folder: Path) -> bool:
    """Decodes a block in exactly the room that its header announces; Python's decoder must agree."""
    answers = {_decoded(data, low=low) for low in (False, True)}
    if len(answers) > 1:
        raise DisagreementError("the answer depends on what lies beside the data")
    sound = answers.pop()
    if sound != _python_accepts(data):
        raise DisagreementError(f"the kernel says {sound}, Python says {not sound}")
    return sound


def _decoded(data: bytes, *, low: bool) -> bool:
    from graphsearch.store.codec.decoding_kernel import decode as decode_kernel
    from graphsearch.store.codec.packing_kernel import room

    given = guarded_copy(data + bytes(PADDING), np.uint8, low=low)
    ends = np.array([len(data)], np.int64)
    sums = np.zeros(4, np.int64)
    room(given, ends, sums)
    columns = _columns(sums[1:].tolist(), low=low)
    return int(decode_kernel(bulk.board_tables(), given, ends, bulk.start_position(), columns, 0)) == 1


def _python_accepts(data: bytes) -> bool:
    try:
        decode_block(data)
    except CorruptRecordError:
        return False
    return True


# ------------------------------------------------------------------ blocks as they are stored
def stored_seeds(_: Path) -> list[bytes]:
    """Returns blocks as they are stored, without dictionaries."""
    return seal(Dictionaries(), plain_seeds(_))


def mutate_stored(seeds: list[bytes], rng: random.Random) -> bytes:
    """Returns a changed block; mostly its checksum is right."""
    data = rng.choice(seeds)
    return mutated(data, rng) if rng.random() < 0.1 else with_checksum(mutated(data[:-4], rng, seeds))


def unpack(data: bytes, folder: Path) -> bool:
    """Unpacks a stored block with libzstd, in exactly the room that is asked for."""
    from graphsearch.store.codec.packing_kernel import room
    from graphsearch.store.codec.packing_kernel import unpack as unpack_kernel
    from graphsearch.store.codec.unpacking import NO_DICTIONARY, own_unpacker

    answers = []
    for low in (False, True):
        given = guarded_copy(data + bytes(PADDING), np.uint8, low=low)
        ends, sizes, sums = (np.array([x], np.int64) for x in (len(data), 0, 0))
        sums = np.zeros(4, np.int64)
        room(given, ends, sums)
        out = guarded(int(sums[0]) + PADDING, np.uint8, low=low)
        slots = np.array([NO_DICTIONARY], np.int64)
        unpack_kernel(own_unpacker().workshop, given, ends, slots, out, sizes)
        answers.append(out[: int(sizes[0])].tobytes())
    if answers[0] != answers[1]:
        raise DisagreementError("the answer depends on what lies beside the data")
    if answers[0] and answers[0] != Dictionaries().opener().open(data):
        raise DisagreementError("libzstd and the package expand a block differently")
    return bool(answers[0]) and decode(answers[0], folder)


# ------------------------------------------------------------------ transposition entries
def entry_seeds(_: Path) -> list[bytes]:
    """Returns pieces of transposition entries as a search makes them."""
    from graphsearch.store.transpositions.pieces import encode, order_of

    rng = np.random.default_rng(3)
    found = []
    for count in (1, 40, 700):
        keys, data = (rng.integers(0, 1 << 63, count, np.uint64) for _ in range(2))
        data &= np.uint64(0xFFFFFFFF)
        order = order_of(keys, data)
        found.append(encode(keys[order], data[order]))
    return found


def mutate_entries(seeds: list[bytes], rng: random.Random) -> bytes:
    """Returns a changed piece, its header changed most of all."""
    data = rng.choice(seeds)
    return mutated(data[:100], rng) + data[100:] if rng.random() < 0.5 else mutated(data, rng, seeds)


def read_entries(data: bytes, folder: Path) -> bool:
    """Decodes a piece and puts its entries into a table."""
    from graphsearch.store.transpositions.pieces import decode as decode_piece

    keys, words = decode_piece(data)
    if len(keys) != len(words):
        raise DisagreementError(f"{len(keys)} keys and {len(words)} entries")
    return True


def warm() -> None:
    """Compiles, or loads, what the kernels' targets call."""
    from .texts import check_moves

    block = plain_seeds(Path())[0]
    decode(block, Path())
    unpack(seal(Dictionaries(), [block])[0], Path())
    import chess

    check_moves(chess.Board())


# ------------------------------------------------------------------ lines of FEN and EPD
def line_seeds(_: Path) -> list[bytes]:
    """Returns lines with every field and operation that is read."""
    return list(LINES)


def mutate_lines(seeds: list[bytes], rng: random.Random) -> bytes:
    """Returns changed lines."""
    return mutated(rng.choice(seeds), rng, seeds)


def read_lines(data: bytes, folder: Path) -> bool:
    """Reads lines of which none is followed by anything; the last one may be cut anywhere."""
    lines = data.split(b"\n")
    answers = {_read(data + b"\n", len(lines), low=low) for low in (False, True)}
    if len(answers) > 1:
        raise DisagreementError("the answer depends on what lies beside the text")
    positions, verdicts = answers.pop()
    for row in np.flatnonzero(np.frombuffer(verdicts, np.uint8) == READ).tolist():
        if quotes_a_clock(lines[row]):  # the caller gives it to python-chess
            continue
        board = board_from_fen(lines[row].decode())
        if pack_checked(board).tobytes() != positions[80 * row : 80 * row + 80]:
            raise DisagreementError(f"python-chess reads another position: {board.fen()}")
    return READ in verdicts


def _read(data: bytes, count: int, *, low: bool) -> tuple[bytes, bytes]:
    words, numbers = guarded(10 * count, np.uint64, low=low), guarded(count, np.int64, low=low)
    verdicts = guarded(count, np.uint8, low=low)
    text = guarded_copy(data, np.uint8, low=low)
    read_fens(load_tables(), text, FEN.most, words, numbers, verdicts)
    return words.tobytes(), verdicts.tobytes()
