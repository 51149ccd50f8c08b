"""A summary of a graph file: its evaluators, runs, imports and sizes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ..base.answer import picked, plain
from . import entries
from .entries import EntryFacts, EntryRun
from .file import FORMAT_VERSION, file_bytes
from .provenance import UNBOUND, EvaluatorIdentity, RootInfo, RunInfo
from .store import Store
from .tables import games
from .tables.games import Imported


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """The facts of a graph file.

    Attributes:
      nodes: distinct records. file_bytes: size on disk, write-ahead log included.
      evaluator: the evaluator of the file; `provenance.UNBOUND` if it is bound to none yet.
      roots: positions searched as roots, the last searched first. runs: all runs, oldest first.
      evaluators: all evaluators that the data in the file comes from, by number.
      imported: counts of imported games, books and positions.
      entries: counts of transposition entries. entry_runs: the searches that wrote them, oldest first.
    """

    path: str
    format_version: int
    nodes: int
    file_bytes: int
    evaluator: EvaluatorIdentity
    roots: list[RootInfo]
    runs: list[RunInfo]
    evaluators: dict[int, EvaluatorIdentity]
    imported: Imported
    entries: EntryFacts
    entry_runs: list[EntryRun]

    @property
    def bytes_per_node(self) -> float:
        """File bytes per distinct record, 0 if there is none."""
        return self.file_bytes / self.nodes if self.nodes else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Returns the facts as a JSON object."""
        return {
            **picked(self, "path format_version nodes file_bytes bytes_per_node"),
            "evaluator": None if self.evaluator == UNBOUND else plain(self.evaluator),
            **picked(self, "roots runs"),
            "evaluators": [{"number": n} | plain(identity) for n, identity in self.evaluators.items()],
            **picked(self, "imported entries entry_runs"),
        }


def info(path: str | os.PathLike[str]) -> StoreInfo:
    """Returns the facts of a graph file; raises as `Store.open` for reading."""
    with Store.open(path, read_only=True) as store:
        return StoreInfo(
            str(store.path),
            FORMAT_VERSION,
            store.node_count,
            file_bytes(store.path),
            store.identity,
            store.roots(),
            store.runs(),
            store.evaluators(),
            games.imported(store),
            entries.facts(store),
            entries.runs(store),
        )
