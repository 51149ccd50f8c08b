"""A shard's report of a search, and the leader's progress report."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from ...store.record.node import NodeRecord
from ..results import Counts


@dataclass(slots=True)
class Traffic:
    """A shard's messages, and how its time was spent.

    Attributes:
      steps: steps in which all shards waited for each other.
      messages: sent to other shards. bytes: of them. rows: visits or bundles sent down.
      entry_levels: entries passed on, counted at each level. visit_levels: visits of them.
      passing, admitting, evaluating, backing: seconds of the phases of a wave, without waiting.
      waiting: seconds from a message to the answers of all others, sending included, without evaluations
        meanwhile.
    """

    steps: int = 0
    messages: int = 0
    bytes: int = 0
    rows: int = 0
    entry_levels: int = 0
    visit_levels: int = 0
    passing: float = 0.0
    admitting: float = 0.0
    evaluating: float = 0.0
    backing: float = 0.0
    waiting: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardProgress:
    """A search's progress by its leader: its own counts, all evaluations and nodes, and the root's record."""

    counts: Counts
    nodes: int
    seconds: float
    record: NodeRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardReport(Counts):
    """One shard's report of a search.

    Attributes:
      number: of the shard. leads: whether it owned the root, where visits are counted.
      nodes: of the shard.
      stop_reason: why the search ended. problems: damage that was skipped. seconds: of the search.
      cpu_seconds: of its process meanwhile. peak_rss: its peak memory in bytes; None: unknown.
      root: the root's record with the forced visits of a search of some moves, which no file holds; None if
        there are none, or it does not lead.
    """

    number: int
    leads: bool
    nodes: int
    stop_reason: str
    seconds: float
    cpu_seconds: float
    peak_rss: int | None
    problems: list[str]
    traffic: Traffic
    root: NodeRecord | None = None

    def as_dict(self) -> dict[str, Any]:
        """Returns the report for JSON, without the root's record."""
        found = asdict(replace(self, root=None))
        del found["root"]
        return found
