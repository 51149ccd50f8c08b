"""How far a work is that goes through the files of a cluster, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ..file import file_bytes

PER_CENT = 100

Progress = Callable[[int, int], None]


def in_turn(files: Sequence[Path], progress: Progress | None) -> Iterator[tuple[Path, Progress | None]]:
    """Yields files, each with what takes its own progress and tells that of all, in per cent.

    A file has the share of its bytes. What begins anew within a file, such as a second pass, is told when it
    is further than what was told before.
    """
    sizes = [file_bytes(file) for file in files]
    whole, before, told = max(1, sum(sizes)), 0, -1

    def tell(bytes_done: float) -> None:
        nonlocal told
        per_cent = int(PER_CENT * bytes_done / whole)
        if progress and per_cent > told:
            told = per_cent
            progress(per_cent, PER_CENT)

    for file, size in zip(files, sizes, strict=True):

        def advance(done: int, total: int, before: int = before, size: int = size) -> None:
            tell(before + size * min(1.0, done / max(1, total)))

        yield file, advance
        before += size
        tell(before)
