"""Transposition entries in the file: pieces that saves append, rewritten when half of the entries are waste.

A piece belongs to one evaluation, or contains proofs, which are valid under every evaluation. Of two entries
of a position a proof counts, else the newest. Call functions that write inside `Store.transaction`.
`schema/entries.md` describes the bytes, `schema/store.md` the tables.
"""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from zstandard import ZstdCompressor, ZstdDecompressor, ZstdError, get_frame_parameters

from ..base.answer import Answer
from ..base.errors import CorruptRecordError
from .file import sql_errors
from .provenance import fact_number, set_fact
from .store import Store
from .tables.rows import fault_of_row, query
from .transposition_layout import (
    CHECK_AT,
    DEPTH_AT,
    DEPTH_MASK,
    KIND_AT,
    KIND_MASK,
    MOVE_AT,
    MOVE_MASK,
    PROOF,
    VALUE_MASK,
    bits_at,
    checks,
)

# ------------------------------------------------------------------ the bytes of a piece
Words = NDArray[np.uint64]

MOST_ENTRIES = 1 << 16  # of a piece
LEVEL = 1  # zstd; only its entropy coding matters here, higher levels are slower and gain nothing
LISTED = ((MOVE_AT, MOVE_MASK), (KIND_AT, KIND_MASK))  # fields of the data word
LISTS = len(LISTED)  # moves and kinds: a list of the distinct values, and an index into it for each entry
WIDTHS = (8, 2, 3, *[2] * LISTS)  # bytes of a step from key to key, a check, a value, places in the lists
# entries, lengths of the lists, bytes of each frame
HEADER = struct.Struct(f"<I{LISTS}I{sum(WIDTHS) + LISTS}I")


def order_of(keys: Words, data: Words) -> NDArray[np.intp]:
    """Returns the indices that sort entries as in a piece: by key, then by check hash."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    if (ordered[1:] != ordered[:-1]).all():
        return order
    return np.lexsort((checks(data), keys))


def encode(keys: Words, data: Words) -> bytes:
    """Returns the bytes of a piece.

    Args:
      keys, data: at least 1 and at most MOST_ENTRIES entries in `order_of`, no two of one position.
    """
    assert 0 < len(keys) <= MOST_ENTRIES
    listed = [_listed(bits_at(data, at, mask).astype(np.uint16)) for at, mask in LISTED]
    lists = [different for different, _ in listed]
    columns = [np.diff(keys, prepend=np.uint64(0)), checks(data), data & np.uint64(VALUE_MASK)]
    columns += [which for _, which in listed]
    planes = [
        column.astype("<u8").view(np.uint8).reshape(-1, 8)[:, i]
        for column, width in zip(columns, WIDTHS, strict=True)
        for i in range(width)
    ]
    compressor = ZstdCompressor(level=LEVEL, write_checksum=False, write_content_size=True)
    parts = [part.tobytes() for part in lists] + [part.tobytes() for part in planes]
    frames = [compressor.compress(part) for part in parts]
    header = HEADER.pack(len(keys), *(len(each) for each in lists), *(len(frame) for frame in frames))
    return header + b"".join(frames)


def _listed(values: NDArray[np.uint16]) -> tuple[NDArray[np.uint16], NDArray[np.uint64]]:
    """Returns the distinct values, the most frequent first, and the index of each value among them.

    So the entropy coder sees a move as one symbol, which saves 1.5 bits over separate from and to squares.
    """
    counts = np.bincount(values, minlength=1)
    different = np.nonzero(counts)[0]
    different = different[np.argsort(-counts[different], kind="stable")]
    places = np.zeros(len(counts), np.uint64)
    places[different] = np.arange(len(different), dtype=np.uint64)
    return different.astype("<u2"), places[values]


def decode(blob: bytes) -> tuple[Words, Words]:
    """Returns the keys and data words of a piece, in order.

    Raises:
      CorruptRecordError: if the bytes are not a piece.
    """
    if len(blob) < HEADER.size:
        raise CorruptRecordError("its header is cut short")
    count, *numbers = HEADER.unpack_from(blob)
    listed, lengths = numbers[:LISTS], numbers[LISTS:]
    if not 0 < count <= MOST_ENTRIES or max(listed) > MOST_ENTRIES:
        raise CorruptRecordError(f"it announces {count} entries, a piece has 1 to {MOST_ENTRIES}")
    parts = _frames(blob, lengths, [*(2 * each for each in listed), *([count] * sum(WIDTHS))])
    lists = [np.frombuffer(next(parts), "<u2").astype(np.uint64) for _ in listed]
    steps, check, value, *which = [_column(parts, count, width) for width in WIDTHS]
    keys, data = np.cumsum(steps, dtype=np.uint64), check << np.uint64(CHECK_AT) | value
    for (at, mask), different, places in zip(LISTED, lists, which, strict=True):
        if places.max() >= len(different) or (different > mask).any():
            raise CorruptRecordError("a move, or a kind, is not in its list")
        data |= different[places.astype(np.intp)] << np.uint64(at)
    if (value > VALUE_MASK).any():
        raise CorruptRecordError("a value is out of range")
    rising = (keys[1:] > keys[:-1]) | ((keys[1:] == keys[:-1]) & (check[1:] > check[:-1]))
    if not keys[0] or not rising.all():
        raise CorruptRecordError("its entries are out of order")
    return keys, data


def _frames(blob: bytes, lengths: list[int], sizes: list[int]) -> Iterator[bytes]:
    """Yields the decompressed frames of a piece; checks the size of each."""
    if HEADER.size + sum(lengths) != len(blob):
        raise CorruptRecordError(f"it has {len(blob)} bytes, its header says {HEADER.size + sum(lengths)}")
    decompressor = ZstdDecompressor()
    at = HEADER.size
    for length, size in zip(lengths, sizes, strict=True):
        frame = blob[at : at + length]
        at += length
        try:
            if get_frame_parameters(frame).content_size != size:
                raise CorruptRecordError(f"a frame does not expand to {size} bytes")
            part = decompressor.decompress(frame, max_output_size=size) if size else b""
        except ZstdError as error:
            raise CorruptRecordError(f"a frame cannot be expanded: {error}") from None
        if len(part) != size:
            raise CorruptRecordError(f"a frame expands to {len(part)} bytes instead of {size}")
        yield part


def _column(parts: Iterator[bytes], count: int, width: int) -> Words:
    """Returns the words whose lowest bytes are the next `width` planes."""
    rows = np.zeros((count, 8), np.uint8)
    for i in range(width):
        rows[:, i] = np.frombuffer(next(parts), np.uint8)
    return rows.view("<u8").reshape(-1).astype(np.uint64)


def is_proof(data: Words) -> NDArray[np.bool_]:
    """Returns which entries are valid at every depth, and therefore under every evaluation."""
    return np.asarray(bits_at(data, DEPTH_AT, DEPTH_MASK) == PROOF)


def depths(data: Words) -> NDArray[np.uint8]:
    """Returns the depth of each entry."""
    return bits_at(data, DEPTH_AT, DEPTH_MASK).astype(np.uint8)


# ------------------------------------------------------------------ the pieces of a file
PROOFS = ""  # the evaluation of pieces that are valid under every evaluation
SLACK = MOST_ENTRIES  # superseded entries that are never worth a rewrite
FEW_PIECES, PIECES_SHARE = 64, 4  # most pieces: 64, and 4 times as many as the entries need
FACT = "entries"  # row of store_info: number of distinct entries after the last rewrite

_PIECE = ("entry_piece.evaluation", "entry_piece.entries")

Report = Callable[[str], object]


@dataclass(slots=True)
class Loaded:
    """The entries of a file that are valid under an evaluation, one for each position.

    Attributes:
      keys, data: uint64[K], ascending by key.
      stored: entries in the pieces that were read, superseded versions included.
      ignored: entries of other evaluations.
      pieces: ids of the pieces that were read.
      problems: one line for each damaged piece that was left out.
    """

    keys: Words
    data: Words
    stored: int = 0
    ignored: int = 0
    pieces: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class EntryFacts(Answer):
    """The numbers of entries in a file; superseded versions count until the next rewrite.

    Attributes:
      entries: of all evaluations, proofs included. proofs: entries that are valid under every evaluation.
      pieces: number of pieces. bytes: of the pieces.
      evaluations: entries by evaluation, without the proofs.
    """

    entries: int = 0
    proofs: int = 0
    pieces: int = 0
    bytes: int = 0
    evaluations: dict[str, int] = field(default_factory=dict)


# -------------------------------------------------------------- reading


def facts(store: Store) -> EntryFacts:
    """Returns the numbers of entries in a file, without reading the entries."""
    with sql_errors(store.path, "read it"):
        statement = "SELECT evaluation, entries, length(data) FROM entry_piece ORDER BY evaluation"
        pieces = list(query(store.connection, statement, (), *_PIECE, "entry_piece.id"))
    found: dict[str, int] = {}
    for evaluation, entries, _ in pieces:
        found[evaluation] = found.get(evaluation, 0) + entries
    size = sum(row[2] for row in pieces)
    return EntryFacts(sum(found.values()), found.pop(PROOFS, 0), len(pieces), size, found)


def load(store: Store, evaluation: str = PROOFS) -> Loaded:
    """Returns the entries that are valid under an evaluation; by default only proven mates.

    Args:
      evaluation: the digest of the evaluation; the result always includes the proofs.

    Raises:
      StoreError: if the file cannot be read at all; a damaged piece is left out and reported in `problems`.
    """
    with sql_errors(store.path, "read it"), store.snapshot():
        return _load(store, (PROOFS, evaluation))


def _load(store: Store, evaluations: tuple[str, ...]) -> Loaded:
    """Returns the entries of some evaluations: proofs before others, newer pieces before older ones."""
    problems: list[str] = []
    sound = listed(store.connection, lambda what: problems.append(f"{store.path}: {what}"))
    wanted = sorted((of != PROOFS, -number) for number, of, _ in sound if of in evaluations)
    read = {-number: read_piece(store, -number, problems.append) for _, number in wanted}
    pieces = {number: piece for number, piece in read.items() if piece is not None}
    none = np.zeros(0, np.uint64)
    keys, data = (np.concatenate([none, *(piece[i] for piece in pieces.values())]) for i in (0, 1))
    ignored = sum(entries for _, of, entries in sound if of not in evaluations)
    return Loaded(*distinct(keys, data), len(keys), ignored, list(pieces), problems)


def load_only(store: Store, evaluation: str, report: Report) -> Loaded:
    """Returns the entries of one evaluation, or the proofs; reports each damaged piece."""
    found = _load(store, (evaluation,))
    for problem in found.problems:
        report(problem)
    return found


def listed(connection: sqlite3.Connection, report: Report) -> list[tuple[int, str, int]]:
    """Returns id, evaluation and entries of the sound pieces; reports damaged rows."""
    found = []
    statement = f"SELECT id, evaluation, entries, {fault_of_row('entry_piece')} FROM entry_piece"  # noqa: S608
    for *row, fault in connection.execute(statement).fetchall():
        if fault:
            report(f"piece {row[0]} of the entries is damaged: {fault}")
        else:
            found.append((row[0], row[1], row[2]))
    return found


def distinct(keys: Words, data: Words) -> tuple[Words, Words]:
    """Returns the first entry of each position, in the order of a piece.

    >>> one, two = np.array([7, 3, 7], np.uint64), np.array([1, 2, 3], np.uint64)
    >>> [words.tolist() for words in distinct(one, two)]
    [[3, 7], [2, 1]]
    """
    order = order_of(keys, data)
    keys, data = keys[order], data[order]
    check = checks(data)
    first = np.ones(len(keys), bool)
    first[1:] = (keys[1:] != keys[:-1]) | (check[1:] != check[:-1])
    return keys[first], data[first]


def read_piece(store: Store, number: int, report: Report) -> tuple[Words, Words] | None:
    """Returns the entries of a piece, None after a report if it is damaged."""
    name = f"{store.path}: piece {number} of the entries"
    try:
        row = store.connection.execute(
            "SELECT evaluation, entries, checksum, data FROM entry_piece WHERE id = ?", (number,)
        ).fetchone()
        if row is None:  # but `listed` returned it: a page of the table is damaged
            raise CorruptRecordError("its row is not found by its number")
        return _sound(*row)
    except CorruptRecordError as error:
        report(f"{name} is damaged: {error}")
    except sqlite3.DatabaseError as error:
        report(f"{name} cannot be read: {error}")
    return None


def _sound(evaluation: object, entries: object, checksum: object, blob: object) -> tuple[Words, Words]:
    """Returns the entries of a row of `entry_piece`.

    Raises:
      CorruptRecordError: if it is damaged.
    """
    if not isinstance(blob, bytes) or not isinstance(evaluation, str):
        raise CorruptRecordError("its row is not a piece")
    if zlib.crc32(blob, zlib.crc32(evaluation.encode())) != checksum:
        raise CorruptRecordError("checksum")
    keys, data = decode(blob)
    if len(keys) != entries:
        raise CorruptRecordError(f"{len(keys)} entries instead of {entries}")
    if evaluation == PROOFS and not is_proof(data).all():
        raise CorruptRecordError("not all of its entries are proofs")
    return keys, data


def check(store: Store, report: Report) -> int:
    """Reports the damaged pieces of a file; returns the number of sound entries."""
    return sum(_sizes(store, report).values())


def _sizes(store: Store, report: Report) -> dict[int, int]:
    """Returns the number of sound entries by piece number; 0, after a report, for a damaged piece."""
    ids = store.connection.execute("SELECT id FROM entry_piece ORDER BY id").fetchall()
    return {number: len((read_piece(store, number, report) or [()])[0]) for (number,) in ids}


# -------------------------------------------------------------- writing


def append(store: Store, keys: Words, data: Words, evaluation: str) -> None:
    """Adds entries, which supersede earlier ones of their positions; rewrites all if half of them are waste.

    Args:
      keys, data: uint64[K] in any order.
      evaluation: the digest of the evaluation that computed their values.
    """
    if not len(keys):
        return
    proofs = is_proof(data)
    for of, chosen in ((PROOFS, proofs), (evaluation, ~proofs)):
        insert(store.connection, *distinct(keys[chosen], data[chosen]), of)
    stored, known, pieces = _counts(store.connection, evaluation)
    if stored > 2 * known + SLACK or pieces > FEW_PIECES + PIECES_SHARE * (stored // MOST_ENTRIES):
        rewrite(store, evaluation)


def insert(connection: sqlite3.Connection, keys: Words, data: Words, evaluation: str) -> None:
    """Writes sorted entries as pieces of almost equal size."""
    for part in _parts(len(keys)):
        blob = encode(keys[part], data[part])
        checksum = zlib.crc32(blob, zlib.crc32(evaluation.encode()))
        connection.execute(
            "INSERT INTO entry_piece (evaluation, entries, checksum, data) VALUES (?, ?, ?, ?)",
            (evaluation, part.stop - part.start, checksum, blob),
        )


def _parts(count: int) -> Iterator[slice]:
    pieces = -(-count // MOST_ENTRIES)
    for i in range(pieces):
        yield slice(count * i // pieces, count * (i + 1) // pieces)


def _counts(connection: sqlite3.Connection, evaluation: str) -> tuple[int, int, int]:
    """Returns the number of stored entries, of those that may still count, and of pieces."""
    pieces = [row[1:] for row in listed(connection, lambda _: None)]
    stored = sum(entries for _, entries in pieces)
    own = sum(entries for name, entries in pieces if name in (PROOFS, evaluation))
    return stored, min(own, _count_at_rewrite(connection)), len(pieces)


def _count_at_rewrite(connection: sqlite3.Connection) -> int:
    """Returns the number of distinct entries after the last rewrite, 0 if unknown."""
    try:
        return fact_number(connection, FACT)
    except CorruptRecordError:
        return 0


def rewrite(store: Store, evaluation: str | None) -> None:
    """Rewrites all entries, one for each position; damaged pieces stay, so that `store verify` reports them.

    Args:
      evaluation: entries of other evaluations are deleted; None keeps all.
    """
    connection = store.connection
    names = dict.fromkeys(row[1] for row in listed(connection, lambda _: None))
    kept = [name for name in names if name != PROOFS and evaluation in (None, name)]
    found = [(name, _load(store, (PROOFS, name))) for name in kept or [PROOFS]]
    done = {number for _, loaded in found for number in loaded.pieces}
    connection.executemany("DELETE FROM entry_piece WHERE id = ?", [(number,) for number in done])
    if evaluation is not None:
        connection.execute("DELETE FROM entry_piece WHERE evaluation NOT IN (?, ?)", (PROOFS, evaluation))
    for i, (name, loaded) in enumerate(found):
        proofs = is_proof(loaded.data)
        if i == 0:  # every evaluation has the same proofs
            insert(connection, loaded.keys[proofs], loaded.data[proofs], PROOFS)
        insert(connection, loaded.keys[~proofs], loaded.data[~proofs], name)
    held = connection.execute("SELECT coalesce(sum(entries), 0) FROM entry_piece").fetchone()[0]
    set_fact(connection, FACT, str(held))


def tidy(store: Store) -> list[str]:
    """Rewrites the entries of a file if some are superseded or the pieces are small; for `store compact`.

    Returns:
      One line for each damaged piece, which stays unchanged.
    """
    held = facts(store)
    if held.pieces > 1 or held.entries != _count_at_rewrite(store.connection):
        with store.transaction():
            rewrite(store, None)
    problems: list[str] = []
    with sql_errors(store.path, "read it"):
        check(store, problems.append)
    return problems


def drop_damaged(store: Store, report: Report) -> int:
    """Deletes damaged pieces and reports each; returns the number of entries that are left."""
    sizes = _sizes(store, report)
    damaged = [(number,) for number, size in sizes.items() if not size]
    store.connection.executemany("DELETE FROM entry_piece WHERE id = ?", damaged)
    return sum(sizes.values())
