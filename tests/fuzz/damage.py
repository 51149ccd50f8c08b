"""Damage: changes of bytes and text, and of graph files by blocks, rows, types, schema, pages, log."""

from __future__ import annotations

import random
import sqlite3
import struct
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import cache

from graphsearch.base.errors import CorruptRecordError
from tests.store.records import BlockError, opened, seal, with_checksum

from ..support.rows import loosened
from .works import packed, unpacked

_WAL_HEADER, _FRAME_HEADER = 32, 24
_FORMATS = (18, 19)  # bytes of the header: 2 is write-ahead log, 1 is not


# ------------------------------------------------------------------ SQL
def edited(database: bytes, change: Callable[[sqlite3.Connection], None]) -> bytes:
    """Returns a database after a change in memory; errors of SQLite leave it as far as it came."""
    plain = bytearray(database)
    formats = bytes(plain[i] for i in _FORMATS)
    for i in _FORMATS:
        plain[i] = 1
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.text_factory = bytes
        connection.deserialize(bytes(plain))
        with suppress(sqlite3.Error, OverflowError):
            change(connection)
        with suppress(sqlite3.Error):
            connection.execute("COMMIT")
        out = bytearray(connection.serialize())
    for i, kind in zip(_FORMATS, formats, strict=True):
        if len(out) > i:
            out[i] = kind
    return bytes(out)


@cache
def _lax(database: bytes) -> tuple[bytes, tuple[tuple[bytes, bytes], ...]]:
    """Returns a database whose tables take any value, and the schema to put back afterwards."""
    schema: list[tuple[bytes, bytes]] = []

    def relax(connection: sqlite3.Connection) -> None:
        schema.extend(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql NOT NULL"))
        connection.execute("PRAGMA writable_schema = ON")
        for name, sql in connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'table'"
        ).fetchall():
            loose = loosened(sql.decode()).replace(" NOT NULL", "")
            connection.execute("UPDATE sqlite_master SET sql = ? WHERE name = CAST(? AS TEXT)", (loose, name))

    return edited(database, relax), tuple(schema)


def _strict_again(database: bytes, schema: tuple[tuple[bytes, bytes], ...]) -> bytes:
    def restore(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA writable_schema = ON")
        for name, sql in schema:
            connection.execute(
                "UPDATE sqlite_master SET sql = CAST(? AS TEXT) WHERE name = CAST(? AS TEXT)", (sql, name)
            )

    return edited(database, restore)


def _tables(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    return [name.decode() for (name,) in rows if not name.startswith(b"sqlite_stat")]


def _some(connection: sqlite3.Connection, rng: random.Random) -> tuple[str, list[str], int]:
    """Returns a table that has rows, its columns, and how many rows."""
    tables = _tables(connection)
    rng.shuffle(tables)
    for table in tables:
        count = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        if count:
            break
    columns = [row[1].decode() for row in connection.execute(f"PRAGMA table_info({table})")]
    return table, columns, count


VALUES: tuple[object, ...] = (
    None, 0, -1, 1, 2, 255, 1 << 31, 1 << 32, (1 << 63) - 1, -(1 << 63), 0.5, -1e308, float("inf"), 1e-320,
    "", "x", "ééé", "1", "-1", "nan", "startpos", "8/8/8/8/8/8/8/8 w - - 0 1", "\0", "[" * 2000, "{}", "[]",
    "null", '{"a": 1e999}', b"", b"\0", b"\xff" * 9, "y" * 70_000,
)  # fmt: skip


def _odd_value(old: object, rng: random.Random) -> object:
    kind = rng.randrange(4)
    if kind == 0 and isinstance(old, bytes):
        return mutated(old, rng)
    if kind == 1 and isinstance(old, bytes):
        return mutated(old, rng).decode("latin-1")
    if kind == 1 and isinstance(old, int):
        return rng.choice(
            (old + 1, old - 1, -old, str(old), float(old), old * 2, old ^ 1 << rng.randrange(62))
        )
    return rng.choice(VALUES)


def rows(database: bytes, rng: random.Random) -> bytes:
    """Changes values and types of some rows, deletes rows, doubles rows."""
    lax, schema = _lax(database)

    def change(connection: sqlite3.Connection) -> None:
        for _ in range(rng.choice((1, 1, 2, 4))):
            _change_row(connection, rng)

    return _strict_again(edited(lax, change), schema)


def _change_row(connection: sqlite3.Connection, rng: random.Random) -> None:
    table, columns, count = _some(connection, rng)
    column = rng.choice(columns)
    place = rng.randrange(count)
    keys = connection.execute(f"SELECT * FROM {table} LIMIT 1 OFFSET {place}").fetchone()
    where = " AND ".join(f"{name} IS ?" for name in columns)
    what = rng.randrange(10)
    if what == 0:
        same = [key.decode("utf-8", "replace") if isinstance(key, bytes) else key for key in keys]
        connection.execute(f"DELETE FROM {table} WHERE {where}", same)
    elif what == 1:
        marks = ", ".join("?" * len(columns))
        odd = [rng.choice(VALUES) if rng.random() < 0.3 else value for value in keys]
        connection.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", odd)
    elif what == 2:
        connection.execute(f"UPDATE OR IGNORE {table} SET {column} = ?", (rng.choice(VALUES),))
    else:
        old = keys[columns.index(column)]
        values = [_odd_value(old, rng), place]
        key = "rowid" if _has_rowid(connection, table) else columns[0]
        picked = f"(SELECT {key} FROM {table} LIMIT 1 OFFSET ?)"
        if rng.random() < 0.1:
            connection.execute(
                f"UPDATE OR REPLACE {table} SET {column} = CAST(x'fffe' AS TEXT) WHERE {key} = {picked}",
                (place,),
            )
        connection.execute(f"UPDATE OR REPLACE {table} SET {column} = ? WHERE {key} = {picked}", values)


def _has_rowid(connection: sqlite3.Connection, table: str) -> bool:
    try:
        connection.execute(f"SELECT rowid FROM {table} LIMIT 1")
    except sqlite3.Error:
        return False
    return True


# ------------------------------------------------------------------ blocks, indices, pieces
def blocks(database: bytes, rng: random.Random) -> bytes:
    """Changes the bytes of blocks, indices of chunks and pieces of entries, mostly with checksums mended."""

    def change(connection: sqlite3.Connection) -> None:
        for _ in range(rng.choice((1, 1, 3))):
            rng.choice((_change_block, _change_block, _change_block, _change_chunk, _change_piece))(
                connection, rng
            )

    return edited(database, change)


def _pick(connection: sqlite3.Connection, query: str, rng: random.Random) -> tuple[object, ...] | None:
    found = connection.execute(query).fetchall()
    return rng.choice(found) if found else None


def _change_block(connection: sqlite3.Connection, rng: random.Random) -> None:
    row = _pick(connection, "SELECT id, data FROM block", rng)
    if row is None or not isinstance(row[1], bytes):
        return
    dictionary = connection.execute(
        "SELECT dictionary FROM chunk WHERE first_block <= ?1 AND ?1 < first_block + blocks", row[:1]
    ).fetchone()
    kind = rng.randrange(4)
    if kind == 0:
        data = mutated(row[1], rng)  # the checksum tells
    elif kind == 1:
        data = with_checksum(mutated(row[1][:-4], rng))
    else:
        data = _resealed(row[1], dictionary[0] if dictionary else b"", rng)
    connection.execute("UPDATE block SET data = ? WHERE id = ?", (data, row[0]))


def _resealed(block: bytes, dictionary: bytes, rng: random.Random) -> bytes:
    """Returns a block whose records were changed before compression."""
    try:
        plain = bytearray(opened(dictionary, block))
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(4 if rng.random() < 0.3 else 0, len(plain))
            plain[at] = rng.choice((plain[at] ^ 1 << rng.randrange(8), plain[at] + 1 & 255, 0, 255))
        return seal(dictionary, [bytes(plain)])[0]
    except (BlockError, CorruptRecordError, IndexError, ValueError, struct.error):
        return with_checksum(mutated(block[:-4], rng))


def _change_chunk(connection: sqlite3.Connection, rng: random.Random) -> None:
    row = _pick(connection, "SELECT id, keys, dictionary, bloom FROM chunk", rng)
    if row is None or not all(isinstance(part, bytes) for part in row[1:]):
        return
    parts = [part if isinstance(part, bytes) else b"" for part in row[1:]]
    at = rng.randrange(3)
    parts[at] = mutated(parts[at], rng)
    connection.execute("UPDATE chunk SET keys = ?, dictionary = ?, bloom = ? WHERE id = ?", (*parts, row[0]))
    if rng.random() < 0.8:
        checksum = zlib.crc32(b"".join(parts))
        connection.execute("UPDATE chunk SET checksum = ? WHERE id = ?", (checksum, row[0]))


def _change_piece(connection: sqlite3.Connection, rng: random.Random) -> None:
    row = _pick(connection, "SELECT id, data FROM entry_piece", rng)
    if row is None or not isinstance(row[1], bytes):
        return
    data = mutated(row[1], rng)
    connection.execute("UPDATE entry_piece SET data = ? WHERE id = ?", (data, row[0]))
    if rng.random() < 0.8:
        connection.execute("UPDATE entry_piece SET checksum = ? WHERE id = ?", (zlib.crc32(data), row[0]))


# ------------------------------------------------------------------ schema
def schema(database: bytes, rng: random.Random) -> bytes:
    """Drops and renames tables, columns, views and indices, adds triggers, changes version numbers."""

    def change(connection: sqlite3.Connection) -> None:
        for _ in range(rng.choice((1, 1, 2))):
            _change_schema(connection, rng)

    return edited(database, change)


def _change_schema(connection: sqlite3.Connection, rng: random.Random) -> None:
    things = connection.execute("SELECT type, name FROM sqlite_master WHERE sql NOT NULL").fetchall()
    kind, name = (part.decode() for part in rng.choice(things))
    table = rng.choice(_tables(connection))
    columns = [row[1].decode() for row in connection.execute(f"PRAGMA table_info({table})")] or ["id"]
    column = rng.choice(columns)
    word = rng.choice(("id", "x", "data", "TEXT", "key", "select"))
    statements = (
        f"DROP {kind} {name}",
        f"ALTER TABLE {table} RENAME TO other",
        f"ALTER TABLE {table} RENAME COLUMN {column} TO other",
        f"ALTER TABLE {table} DROP COLUMN {column}",
        f"ALTER TABLE {table} ADD COLUMN other TEXT DEFAULT 'x'",
        f"CREATE TRIGGER t AFTER INSERT ON {table} BEGIN DELETE FROM block; END",
        f"CREATE TRIGGER t BEFORE UPDATE ON {table} BEGIN SELECT RAISE(ABORT, 'no'); END",
        f"ALTER TABLE {table} RENAME TO other; CREATE VIEW {table} AS SELECT * FROM other",
        f"DROP TABLE {table}; CREATE VIEW {table} AS WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1"
        f" FROM r) SELECT {', '.join(f'x AS {one}' for one in columns)} FROM r",
        f"DROP TABLE {table}; CREATE VIRTUAL TABLE {table} USING fts4({', '.join(columns)})",
        f"DELETE FROM {table}",
        f"CREATE VIEW v{rng.randrange(99)} AS SELECT * FROM {table} UNION SELECT * FROM v1",
        f"PRAGMA user_version = {rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 99, -1, (1 << 31) - 1))}",
        f"PRAGMA application_id = {rng.randrange(-9, 9)}",
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET rootpage ="
        f" {rng.choice((0, 1, 2, 3, 9999, -1))} WHERE name = '{name}'",
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql ="
        f" replace(sql, '{column}', '{word}') WHERE name = '{table}'",
        f"PRAGMA writable_schema = ON; UPDATE sqlite_master SET name = '{word}' WHERE name = '{name}'",
    )
    connection.executescript(rng.choice(statements))


# ------------------------------------------------------------------ pages and log
def pages(database: bytes, rng: random.Random) -> bytes:
    """Swaps, empties, doubles and damages pages; cuts the file; changes its header."""
    size = int.from_bytes(database[16:18], "big") or 512
    size = 65536 if size == 1 else size
    parts = [bytearray(database[at : at + size]) for at in range(0, len(database), size)]
    what = rng.randrange(8)
    a, b = (rng.randrange(len(parts)) for _ in range(2))
    if what == 0:
        parts[a], parts[b] = parts[b], parts[a]
    elif what == 1:
        parts[a] = bytearray(len(parts[a]))
    elif what == 2:
        parts[a] = bytearray(parts[b])
    elif what == 3:
        parts[a] = bytearray(mutated(bytes(parts[a]), rng)[:size].ljust(size, b"\0"))
    elif what == 4:
        del parts[a:]
    elif what == 5:
        return mutated(database[:100], rng)[:100].ljust(100, b"\0") + database[100:]
    elif what == 6:
        return database[: rng.randrange(len(database))]
    else:
        return mutated(database, rng)
    return b"".join(bytes(part) for part in parts)


def log(data: bytes, rng: random.Random) -> bytes:
    """Damages the log: bytes with checksums mended or not, frames swapped, doubled, cut."""
    database, wal = unpacked(data)
    size = int.from_bytes(wal[8:12], "big") + _FRAME_HEADER
    head = bytearray(wal[:_WAL_HEADER])
    frames = [bytearray(wal[at : at + size]) for at in range(_WAL_HEADER, len(wal), size)]
    what = rng.randrange(7)
    a, b = (rng.randrange(len(frames)) for _ in range(2))
    if what == 0:
        frames[a], frames[b] = frames[b], frames[a]
    elif what == 1:
        frames.insert(a, bytearray(frames[b]))
    elif what == 2:
        del frames[a]
    elif what == 3:
        frames[a] = bytearray(mutated(bytes(frames[a]), rng)[:size].ljust(size, b"\0"))
    elif what == 4:
        head = bytearray(mutated(bytes(head), rng)[:_WAL_HEADER].ljust(_WAL_HEADER, b"\0"))
    elif what == 5:
        return packed(database, wal[: rng.randrange(len(wal))])
    else:
        frames[a][:8] = struct.pack(">II", rng.randrange(1, 400), rng.choice((0, 1, 200, 1 << 30)))
    wal = _mended(head, frames) if rng.random() < 0.7 else bytes(head) + b"".join(map(bytes, frames))
    return packed(database, wal)


def _mended(head: bytearray, frames: list[bytearray]) -> bytes:
    """Returns a log whose checksums and salts fit (SQLite's file format, section 4.2)."""
    order = "big" if head[3] & 1 else "little"
    sums = _sums(bytes(head[:24]), (0, 0), order)
    head[24:32] = struct.pack(">II", *sums)
    for frame in frames:
        frame[8:16] = head[16:24]
        sums = _sums(bytes(frame[:8]) + bytes(frame[_FRAME_HEADER:]), sums, order)
        frame[16:24] = struct.pack(">II", *sums)
    return bytes(head) + b"".join(map(bytes, frames))


def _sums(data: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    a, b = sums
    words = struct.unpack(f"{'>' if order == 'big' else '<'}{len(data) // 4}I", data[: len(data) // 4 * 4])
    for x, y in zip(words[::2], words[1::2], strict=False):
        a = a + x + b & 0xFFFFFFFF
        b = b + y + a & 0xFFFFFFFF
    return a, b


# ------------------------------------------------------------------ mutators of targets
def by(change: Callable[[bytes, random.Random], bytes]) -> Callable[[list[bytes], random.Random], bytes]:
    """Returns the mutator of a target that changes the database, mostly of the file with everything."""

    def mutate(given: list[bytes], rng: random.Random) -> bytes:
        data = given[0] if rng.random() < 0.7 else rng.choice(given)
        database, wal = unpacked(data)
        return packed(change(database, rng), wal)

    return mutate


# ------------------------------------------------------------------ changes of bytes and of text
NUMBERS = (0, 1, 2, 127, 128, 255, 256, 32767, 32768, 65535, 65536, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
MOST = 1 << 24  # bytes of a text: repeated repetitions would make hundreds of megabytes
LARGE = ((1 << 53) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 99999999999999999999)


def mutated(data: bytes, rng: random.Random, others: Sequence[bytes] = ()) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        _change(out, rng, others)
    return bytes(out)


def _change(out: bytearray, rng: random.Random, others: Sequence[bytes]) -> None:
    at = rng.randrange(len(out) + 1)
    length = min(rng.choice((1, 1, 2, 4, 8, 32, 256, 4096)), len(out) - at)
    what = rng.randrange(9)
    if what == 0 and length:
        out[at] ^= 1 << rng.randrange(8)
    elif what == 1 and length:
        out[at] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
    elif what == 2:
        value = rng.choice(NUMBERS + LARGE[1:4])
        size = rng.choice((2, 4, 8))
        out[at : at + size] = (value % (1 << 8 * size)).to_bytes(size, rng.choice(("little", "big")))
    elif what == 3:
        del out[at : at + length]
    elif what == 4:
        out[at:at] = rng.randbytes(max(1, length))
    elif what == 5:
        out[at:at] = out[at : at + length] * rng.choice((1, 1, 2, 50))
    elif what == 6:
        out[at : at + length] = bytes(length)
    elif what == 7 and others:
        other = rng.choice(others)
        begin = rng.randrange(len(other) + 1)
        out[at : at + length] = other[begin : begin + rng.choice((8, 64, 1024))]
    elif what == 8 and rng.random() < 0.3:
        del out[at:]


class Words:
    """A mutator of text that knows some words of its language."""

    def __init__(self, *words: str) -> None:
        self._words = words

    def __call__(self, seeds: list[bytes], rng: random.Random) -> bytes:
        """Returns a text made of a seed: words replaced, repeated and moved, or plain changes of bytes."""
        data = rng.choice(seeds)
        for _ in range(rng.choice((1, 1, 2, 3, 6))):
            data = self._changed(data, seeds, rng)
        return data if rng.random() < 0.8 else mutated(data, rng, seeds)

    def _changed(self, data: bytes, seeds: list[bytes], rng: random.Random) -> bytes:
        separator = rng.choice((b" ", b" ", b"\n", b"\n", b'"', b"/"))
        parts = data.split(separator)
        at = rng.randrange(len(parts))
        what = rng.randrange(7)
        if what == 0:
            parts[at] = self._word(rng)
        elif what == 1:
            parts.insert(at, self._word(rng))
        elif what == 2:
            del parts[at]
        elif what == 3:
            parts[at:at] = [parts[at]] * rng.choice((1, 2, 20, 2000))
        elif what == 4:
            other = rng.randrange(len(parts))
            parts[at], parts[other] = parts[other], parts[at]
        elif what == 5:
            parts[at] = rng.choice(rng.choice(seeds).split(separator))
        else:
            parts[at] = mutated(parts[at], rng)
        return separator.join(parts)[:MOST]

    def _word(self, rng: random.Random) -> bytes:
        kind = rng.randrange(8)
        if kind == 0:
            return str(rng.choice(NUMBERS + LARGE) * rng.choice((1, -1))).encode()
        if kind == 1:
            return rng.choice(
                (b"nan", b"inf", b"-inf", b"1e999", b"0x10", b"1e-320", "\u0663".encode(), b"-0")
            )
        if kind == 2:
            return rng.choice(
                (b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", "\u2028".encode(), b"\r", b"\t", b"%")
            )
        if kind == 3 and rng.random() < 0.3:
            return rng.choice((b"x", b"(", b"[", b"{", b'"')) * rng.choice((300, 70_000))
        return rng.choice(self._words).encode()
