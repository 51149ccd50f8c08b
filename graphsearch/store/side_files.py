"""The files beside a graph file: SQLite's write-ahead log and others, and the lock."""

from __future__ import annotations

from pathlib import Path

_SQLITE = ("-wal", "-shm", "-journal")


def log_of(path: Path) -> Path:
    """Returns the path of the write-ahead log of a graph file."""
    return path.with_name(path.name + "-wal")


def file_bytes(path: Path) -> int:
    """Returns the size of a graph file and its write-ahead log, in bytes."""
    return path.stat().st_size + log_bytes(path)


def log_bytes(path: Path) -> int:
    """Returns the size of the write-ahead log of a graph file, in bytes; 0 if there is none."""
    try:
        return log_of(path).stat().st_size
    except FileNotFoundError:
        return 0


def remove_side_files(path: Path, *, lock: bool = False) -> None:
    """Removes the files that SQLite has left beside a graph file, and the lock file if asked."""
    for end in (*_SQLITE, ".lock") if lock else _SQLITE:
        path.with_name(path.name + end).unlink(missing_ok=True)
