"""Reading records of a cluster in batches: each from the file of the shard that owns its position."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..codec.bulk import take
from ..index.filters import filter_of_any
from ..index.locate_kernel import FilterArrays
from ..reading import MAX_PROBLEMS, Reader
from ..record.node import RecordBatch
from ..segments import keys_of
from .ownership import Owners, owners_of

Words = NDArray[np.uint64]
_Answer = TypeVar("_Answer")


class ShardedReader(Reader):
    """Finds the newest records of positions in the files of a cluster; see `Reader`."""

    may_read_inside = False

    def __init__(self, readers: Sequence[Reader], owners: Owners) -> None:
        """Takes the readers of all files, which it closes; owners: as the manifest has them."""
        self._readers = readers
        self._owners = owners
        self.closed = False
        self.problems = []

    def close(self) -> None:
        """Closes the connections. A second call does nothing."""
        self.closed = True
        for reader in self._readers:
            reader.close()

    @property
    def ram_bytes(self) -> int:
        """Bytes of all indexes and filters."""
        return sum(reader.ram_bytes for reader in self._readers)

    def filter(self) -> FilterArrays:
        """Returns the filter of what is committed now: what any file may hold."""
        return filter_of_any([reader.filter() for reader in self._readers])

    def find(self, words: Words, *, strict: bool = False) -> tuple[NDArray[np.bool_], RecordBatch]:
        """Returns which packed positions have a record, and the records of those, in order."""
        have = np.zeros(len(words), np.bool_)
        places, batches = [], []
        for mine, (found, batch) in self._ask(words, lambda reader, some: reader.find(some, strict=strict)):
            have[mine[found]] = True
            places.append(mine[found])
            batches.append(batch)
        order = np.argsort(np.concatenate([*places, np.zeros(0, np.int64)]), kind="stable")
        return have, take(RecordBatch.concat(batches), order)

    def find_any(self, words: Words) -> list[RecordBatch]:
        """Returns the records of some packed positions, as far as there are any, in any order."""
        answers = self._ask(words, lambda reader, some: reader.find_any(some))
        return [batch for _, batches in answers for batch in batches]

    def _ask(
        self, words: Words, ask: Callable[[Reader, Words], _Answer]
    ) -> list[tuple[NDArray[np.int64], _Answer]]:
        """Returns which positions each owner was asked for, and what it answers."""
        owners = owners_of(keys_of(words), self._owners)
        answers = []
        for number, reader in enumerate(self._readers):
            mine = np.flatnonzero(owners == number)
            if len(mine):
                answers.append((mine, ask(reader, words[mine])))
        said = [line for reader in self._readers for line in reader.problems]
        self.problems = said[:MAX_PROBLEMS]
        return answers
