"""Pruning: drops records with few visits; the edges that lead to them keep n and q."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from ...base.answer import Answer
from ...base.errors import InvalidParameterError
from ...position.board import key_of_text
from ..codec.bulk import take
from ..record.node import RecordBatch
from ..record.ranking import visits_of
from ..segments import keys_of
from ..side_files import file_bytes
from ..store import Store
from .compact import shrink
from .rewrite import Progress, rewrite


@dataclass(frozen=True, slots=True)
class PruneReport(Answer):
    """The result of pruning; bytes are those of the file with its write-ahead log."""

    nodes_before: int
    nodes_after: int
    bytes_before: int
    bytes_after: int


def prune(
    path: str | os.PathLike[str],
    min_visits: int,
    progress: Progress | None = None,
) -> PruneReport:
    """Drops the records with fewer visits, except roots of searches, and compacts the file.

    The edges that lead to them keep their n and q. A search that reaches such a position evaluates it again,
    and does not repeat the visits of its edges. An interruption leaves a sound file that is pruned in part.

    Args:
      min_visits: node N that a record must have to stay, at least 1 (which drops nothing).
      progress: called with records done and records in all, then with pages freed and pages in all.

    Raises:
      InvalidParameterError: if `min_visits` is below 1.
      StoreLockedError: if another process is writing the file.
      StoreError: if it is damaged or cannot be written; it stays consistent.
    """
    if min_visits < 1:
        raise InvalidParameterError(f"min_visits is {min_visits}; it must be at least 1")
    with Store.open(path) as store:
        nodes, size = store.node_count, file_bytes(store.path)
        stays = np.array([key_of_text(root.key) for root in store.roots()], np.uint64)

        def kept(batch: RecordBatch) -> RecordBatch:
            stay = (visits_of(batch) >= min_visits) | np.isin(keys_of(batch.words), stays)
            return take(batch, np.nonzero(stay)[0])

        rewrite(store, kept, progress)
        shrink(store, progress)
        return PruneReport(nodes, store.node_count, size, file_bytes(store.path))
