"""A portion of a file: some blocks of every segment, which decode to the newest version of each record."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..base.errors import CorruptRecordError
from .codec.bulk import newest_in_order, sort_keys, take
from .codec.soundness import sound_places
from .record.node import RecordBatch
from .segments import (
    FetchedBlocks,
    OnCorrupt,
)

MAX_NOTES = 20  # logged by one process; `store verify` lists all damage

_log = logging.getLogger("graphsearch")
_said: set[str] = set()


def passed_over(error: CorruptRecordError) -> None:
    """Logs skipped damage, each line once, to the logger `graphsearch` (by default stderr)."""
    line = str(error)
    if line in _said or len(_said) > MAX_NOTES:
        return
    _said.add(line)
    if len(_said) > MAX_NOTES:
        line = "and more; `graphsearch store verify` lists all"
    _log.warning("damaged, and left out: %s", line)


@dataclass(frozen=True, slots=True)
class Portion:
    """Blocks with the next records from a sort key on; any thread may decode them.

    Attributes:
      name: of the file, for messages.
      start: the first sort key. following: the sort key of the next portion, None at the end.
      fetched: the blocks of all segments, newest first.
    """

    name: str
    start: int
    following: int | None
    fetched: FetchedBlocks

    def records(self, on_unsound: OnCorrupt = passed_over) -> RecordBatch:
        """Returns the newest versions of the records, in order; unsound ones are left out and reported.

        Raises:
          CorruptRecordError: naming file, segment and block.
        """
        return take(*self.versions(on_unsound))

    def versions(
        self, on_unsound: OnCorrupt = passed_over, on_corrupt: OnCorrupt | None = None
    ) -> tuple[RecordBatch, NDArray[np.int64]]:
        """Returns all decoded records, and the indices of those that `records` would return, in order.

        It is cheaper for a caller that needs few of the records. `on_corrupt`: as in `FetchedBlocks.decode`.

        Raises:
          CorruptRecordError: naming file, segment and block.
        """
        batch = self.fetched.decode(on_corrupt)
        keys = sort_keys(batch.words)
        inside = keys >= np.uint64(self.start)
        if self.following is not None:
            inside &= keys < np.uint64(self.following)
        places = np.nonzero(inside)[0]
        keys = keys[places]
        if len(keys) > 1 and not (keys[1:] > keys[:-1]).all():
            places = places[newest_in_order(batch.words[places], keys)]
        return batch, sound_places(batch, places, on_unsound, self.name)
