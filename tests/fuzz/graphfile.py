"""Sound graph files to damage: one with something of everything, one with a log, the golden one.

An input is the length of the database, the database, and behind it the write-ahead log (mostly empty).
"""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing
from pathlib import Path

from . import commands

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
SMALL_PAGES = 1024  # bytes: a file of 200 kB instead of 1 MB
MATE = "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"
PGN = (
    b'[Event "a"]\n[White "Ann"]\n[Black "Bob"]\n[Result "1-0"]\n\n'
    b'1. e4 e5 2. Nf3 (2. f4) Nc6 3. Bb5 a6 1-0\n\n[Event "b"]\n\n1. d4 d5 *\n'
)
EPD = b'rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - bm e4; id "x"; ce 20;\n'
BOOK = (
    b'[book]\nname = "white"\nside = "white"\nmax_ply = 4\n[[root]]\nmoves = "1. d4"\n'
    b"[leaf]\nevaluations = 8\n"
)
POLYGLOT = bytes.fromhex("463b96181691fc9c 02db 0032 00000002 463b96181691fc9c 031c 0064 00000000")  # d4, e4


def packed(database: bytes, log: bytes = b"") -> bytes:
    """Returns an input."""
    return struct.pack("<Q", len(database)) + database + log


def unpacked(data: bytes) -> tuple[bytes, bytes]:
    """Returns the database and the log of an input."""
    size = int.from_bytes(data[:8], "little")
    return data[8 : 8 + size], data[8 + size :]


# ------------------------------------------------------------------ sound files
def fill(path: Path) -> None:
    """Makes a file with something of every kind."""
    folder = path.parent
    files = {"a.pgn": PGN, "a.epd": EPD, "a.bin": POLYGLOT, "white.toml": BOOK}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    store = ("--store", path)
    for line in (
        ("analyze", "startpos", "--visits", 60, *store),
        ("analyze", MATE, "--visits", 30, *store),
        ("alphabeta", "startpos", "--depth", 2, *store),
        ("mate", MATE, "--visits", 100, *store),
        ("import", folder / "a.pgn", "--variations", "--players", *store),
        ("import", "--format", "epd", folder / "a.epd", *store),
        ("import", "--format", "polyglot", folder / "a.bin", *store),
        ("book", "build", folder / "white.toml", "--evaluations", 40, *store),
        ("book", "queue", "startpos", "--moves", "1. d4 d5", *store),
    ):
        ended = commands.run(*line)
        assert ended.code == 0, (line, ended.err)


def repaged(path: Path) -> bytes:
    """Returns a file with small pages and an empty log."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute(f"PRAGMA page_size = {SMALL_PAGES}")
        connection.execute("VACUUM")
        connection.execute("PRAGMA journal_mode = WAL")
    return path.read_bytes()


def with_log(path: Path) -> bytes:
    """Returns a file whose last changes are in its log only."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        for _ in range(3):
            connection.execute("UPDATE root SET visits = visits + 1")
            connection.execute("UPDATE block SET data = data")
        return packed(path.read_bytes(), path.with_name(path.name + "-wal").read_bytes())


_made: list[bytes] = []


def seeds(folder: Path) -> list[bytes]:
    """Returns sound files: one with everything, the same with a log, and the golden one."""
    if not _made:
        path = folder / "seed.graph"
        fill(path)
        whole = repaged(path)
        golden = (GOLDEN / "format4.graph").read_bytes()
        _made.extend([packed(whole), with_log(path), packed(golden)])
    return _made
