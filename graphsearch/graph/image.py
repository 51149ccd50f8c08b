"""Images: copies of a graph's memory in the user's cache, so that the next session need not read the file.

    close    memory -> ~/.cache/graphsearch/images/NAME.image; `image` = NAME in the file
    open     image -> memory, if the file has not changed; else records are read when they are needed

An image may be deleted at any time. Every transaction that changes the file deletes its row `image`, and the
image's hash covers the file's list of segments. So a valid image has exactly the file's records.

    hash of the file's state, head and sums | head: whole, places, counters | sums | table | records | blocks
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..base.limits import IMAGES
from ..jit.cache import cache_folder, open_regular
from ..jit.compiler import PLACES
from ..store.store import Store
from ..store.tables.unfinished import IMAGE
from . import arena_kernel
from .arena import Arena

LEAST_NODES = 10_000  # of the smallest graph with an image; fewer are read from the file in 10 ms
PARTS = 2  # an image takes at most 1 / PARTS of the limit for all images
DISK_PARTS = 10  # and 1 / DISK_PARTS of the free disk space
PIECE = 1 << 17  # words per checksum
HASH_BYTES = 32
FOLDER, SUFFIX = "images", ".image"

# the counters that describe the contents of memory; all others belong to one session
KEPT = [
    arena_kernel.NODES,
    arena_kernel.RECORD_WORDS,
    arena_kernel.BLOCK_WORDS,
    arena_kernel.FREED_WORDS,
    arena_kernel.FREED_RECORD_WORDS,
    arena_kernel.HAND,
    *range(arena_kernel.BLOCK_LISTS, arena_kernel.COUNTERS),
]

Words = NDArray[np.uint64]


def keep_image(arena: Arena, store: Store, *, whole: bool) -> None:
    """Writes an image of the records in memory, none of them dirty; for the thread that writes the file.

    Does nothing if there is no room for an image, or if the file has one already.

    Args:
      whole: whether memory has all records of the file.

    Raises:
      StoreError: if the file cannot be written.
    """
    before, path = _path_of(store.read_fact(IMAGE)), _path_of(secrets.token_hex(16))
    if path is None or arena.node_count < LEAST_NODES or (before and before.exists()):
        return
    head = np.array([whole, len(arena.arrays.table), *arena.counters[KEPT]], np.int64)
    parts = _parts(arena, head)
    size = sum(part.nbytes for part in parts)
    with suppress(OSError):
        if size > IMAGES.most // PARTS or size > shutil.disk_usage(path.parent).free // DISK_PARTS:
            return
        _drop_oldest(path.parent, IMAGES.most - size)
        sums = [_sums(part) for part in parts]
        _write(path, [_hash(store, head, sums), head, *sums, *parts])
        store.write_fact(IMAGE, path.stem)


def take_image(arena: Arena, store: Store, most_bytes: int) -> bool | None:
    """Fills an empty arena from a file's image, if there is a valid one, and deletes the image.

    Args:
      most_bytes: most memory that it may take.

    Returns:
      whether the image has all records of the file; None if there is no valid image.

    Raises:
      StoreError: if the file cannot be read.
    """
    path = _path_of(store.read_fact(IMAGE))
    if path is None:
        return None
    with suppress(OSError), open_regular(path, owned=True, most=IMAGES.most) as file:
        whole = _fill(arena, store, file, most_bytes)
        if whole is not None:
            path.unlink()  # the session writes another one
        return whole
    return None


def _path_of(name: str | None) -> Path | None:
    """Returns the path of an image; None if its name is missing or invalid, or there is no cache folder."""
    folder = cache_folder(FOLDER) if name and name.isalnum() else None
    return folder / f"{name}{SUFFIX}" if folder else None


def _fill(arena: Arena, store: Store, file: FileIO, most_bytes: int) -> bool | None:
    """Reads an image into an arena; returns the same as `take_image`."""
    found, head = np.empty(HASH_BYTES, np.uint8), np.empty(2 + len(KEPT), np.int64)
    if not (_read(file, found) and _read(file, head)):
        return None
    sizes = _sizes(head)
    if min(sizes) < 1 or 8 * sum(sizes) > most_bytes:
        return None
    sums = [np.empty(-(-size // PIECE), np.uint64) for size in sizes]
    if not (all(_read(file, column) for column in sums) and np.array_equal(found, _hash(store, head, sums))):
        return None
    arena.arrays = arena.arrays._replace(table=np.empty(sizes[0], np.uint64))
    parts = _parts(arena, head)
    if all(_read(file, p) and np.array_equal(_sums(p), known) for p, known in zip(parts, sums, strict=True)):
        arena.counters[KEPT] = head[2:]
        return bool(head[0])
    arena.arrays = arena.arrays._replace(table=np.zeros(sizes[0], np.uint64))
    arena.reset()
    return None


def _sizes(head: NDArray[np.int64]) -> tuple[int, int, int]:
    """Returns the 64-bit words of table, records and blocks in use."""
    counters = dict(zip(KEPT, head[2:].tolist(), strict=True))
    blocks = counters[arena_kernel.BLOCK_WORDS]
    return int(head[1]), counters[arena_kernel.RECORD_WORDS], (blocks + 1) // 2


def _parts(arena: Arena, head: NDArray[np.int64]) -> list[Words]:
    """Returns the parts of an arena that an image contains: table, records and blocks."""
    arrays, (_, records, blocks) = arena.arrays, _sizes(head)
    return [arrays.table, arrays.records[:records], arrays.blocks[: 2 * blocks].view(np.uint64)]


def _sums(words: Words) -> Words:
    """Returns a checksum for each PIECE of words: their sum modulo 2**64."""
    return np.add.reduceat(words, np.arange(0, len(words), PIECE))


def _hash(store: Store, head: NDArray[np.int64], sums: Sequence[Words]) -> NDArray[np.uint8]:
    """Returns the hash at the start of an image, which covers kernels, file state, head and checksums."""
    state = PLACES.digest, store.node_count, store.identity.as_json(), store.catalog.segments
    digest = hashlib.sha256(repr(state).encode())
    for column in (head, *sums):
        digest.update(column.data)
    return np.frombuffer(digest.digest(), np.uint8)


def _read(file: FileIO, column: NDArray[np.generic]) -> bool:
    """Fills an array from a file; returns False if the file is too short."""
    left = column.data.cast("B")
    while left and (count := file.readinto(left)):
        left = left[count:]
    return not left


def _write(path: Path, columns: Sequence[NDArray[np.generic]]) -> None:
    """Writes a file, and renames it to `path` when it is complete."""
    with tempfile.NamedTemporaryFile(dir=path.parent, buffering=0, delete=False) as file:
        part = Path(file.name)
        try:
            for column in columns:
                left = column.data.cast("B")
                while left:
                    left = left[file.write(left) :]
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def _drop_oldest(folder: Path, most_bytes: int) -> None:
    """Deletes the oldest images until the others take at most `most_bytes`."""
    found = sorted(((entry.stat(), entry) for entry in folder.iterdir()), key=lambda one: -one[0].st_mtime)
    taken = 0
    for status, entry in found:
        taken += status.st_size
        if taken > most_bytes:
            entry.unlink(missing_ok=True)
