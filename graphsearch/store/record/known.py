"""Records with what the positions after their moves know, and the edges that people see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from .leading import MOST_TIMES_FEWER, cautious_value, leader_of
from .node import Edge, NodeRecord


@dataclass(frozen=True, slots=True)
class ApartEdge(Edge):
    """The edge of a move that was searched apart: visits and value of the position after it.

    That position has more visits than the edge in the record.
    """


@dataclass(frozen=True, slots=True)
class CompletedRecord(NodeRecord):
    """A record with moves that were searched apart (`store.apart`). Its own edges are those of the file.

    Attributes:
      apart: (index of the edge, the edge as the position after the move knows it), at least one.
    """

    apart: tuple[tuple[int, ApartEdge], ...] = ()


def completed_record(record: NodeRecord, apart: Sequence[tuple[int, ApartEdge]]) -> CompletedRecord:
    """Returns a record with moves that were searched apart."""
    return CompletedRecord(
        **{one.name: getattr(record, one.name) for one in fields(NodeRecord)}, apart=tuple(apart)
    )


def known_edges(record: NodeRecord) -> tuple[Edge, ...]:
    """Returns the edges that people see: of the record, and of the moves that were searched apart."""
    if not isinstance(record, CompletedRecord):
        return record.edges
    found = list(padded(record).edges)
    for k, edge in record.apart:
        found[k] = edge
    return tuple(found)


def padded(record: CompletedRecord) -> CompletedRecord:
    """Returns a record whose edges reach as far as its known edges."""
    missing = 1 + max(k for k, _ in record.apart) - len(record.edges)
    return replace(record, edges=(*record.edges, *[Edge(0)] * missing))


def known_leader(record: NodeRecord, open_edges: Sequence[int]) -> int | None:
    """Returns which of the unproven edges leads, as `leader_of`; a move searched apart does if it is better.

    Such a move competes by its value with the move that leads without it, whatever the position's visits, and
    is credited with no more visits than that one has.
    """
    edges = record.edges
    leader = leader_of(record, [k for k in open_edges if k < len(edges)])
    if not isinstance(record, CompletedRecord):
        return leader
    known, of_open = known_edges(record), set(open_edges)
    apart = {k for k, _ in record.apart if k in of_open}
    most = edges[leader].n if leader is not None else 0
    other = leader_of(record, [k for k in open_edges if k < len(edges) and k not in apart])
    rivals = [k for k in (leader, other) if k is not None]
    rivals += sorted(k for k in apart if known[k].n * MOST_TIMES_FEWER >= most)
    rivals = [k for k in rivals if known[k].n]
    if not rivals:
        return leader
    cap = most or max(known[k].n for k in rivals)
    return max(rivals, key=lambda k: cautious_value(known[k].value, min(known[k].n, cap)))
