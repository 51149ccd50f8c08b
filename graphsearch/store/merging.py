"""Merging segments in tiers, one bounded and crash-safe step at a time.

A step moves all records below some sort key from the inputs to the end of the output and drops
the blocks it emptied, in one transaction. So a merge needs no spare room, may stop anywhere, and goes on
from what the file says; lookups need no special case, because the output is ranked above its inputs.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from ..base.errors import StoreError
from .codec.bulk import sort_keys
from .codec.layout import BLOCK
from .index.catalog import Catalog, Segment, signed
from .opened import OpenStore
from .segments import SegmentCursor, choose_pivot, first_chunks, merge
from .sizes import SIZES, Sizes
from .writing import write_chunks

BASE_RECORDS = 512  # tier t holds segments of 512 * 8 ** t records and more
WASTE = 1.75  # what all segments may hold, in live records; less would rewrite the whole file too often
TIDY_WASTE = 1.04  # when a file of moderate size is closed

CHUNKS_ALIKE = 32  # share dictionaries: a reader of many keeps few at hand, and training takes time


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When a merge is due, and how much of it is done at once.

    Attributes:
      waste: how many times the number of live records all segments may hold.
      unread: whether the writer itself reads nothing, because it holds everything in memory. More segments
        may stand side by side then: merging them would write all again, and speed up nothing.
      lazy: whether a merge under way waits when it is not due any more, and ends where it stands when another
        one is due. Else a search of 100,000 visits pays for all of a file that was left half merged.
      blocks: moved by one step; None: as `Sizes` says.
      newest: age of the newest segment that may take part; None: all may.
    """

    waste: float = WASTE
    unread: bool = False
    lazy: bool = False
    blocks: int | None = None
    newest: int | None = None

    def fan_out(self, sizes: Sizes) -> int:
        """Returns how many segments of one tier are merged."""
        return sizes.unread_fan_out if self.unread else sizes.fan_out


READ, TIDY = Rules(), Rules(waste=TIDY_WASTE)


def tier(records: int, fan_out: int = SIZES.fan_out) -> int:
    """Returns the tier of a segment.

    >>> tier(1), tier(4095), tier(4096), tier(200_000)
    (0, 0, 1, 2)
    """
    return max(0, int(log(max(records, 1) / BASE_RECORDS, fan_out) + 1e-9))


def choose_segments(
    segments: Sequence[Segment], live: int, rules: Rules = READ, *, sizes: Sizes = SIZES
) -> list[Segment]:
    """Returns the segments to merge next, neighbours in age, or none.

    Args:
      segments: newest first, none of them in a merge that has to go on.
      live: distinct records of the file.
      rules: when a merge is due.
    """
    fan_out = rules.fan_out(sizes)
    if rules.newest is not None:
        segments = [segment for segment in segments if segment.age <= rules.newest]
    if len(segments) > 1 and _is_wasteful(segments, live, rules, sizes):
        return list(segments)
    tiers = [tier(segment.records, fan_out) for segment in segments]
    for level in sorted(set(tiers)):
        first = 0
        for end in range(len(tiers) + 1):
            if end == len(tiers) or tiers[end] > level:
                if tiers[first:end].count(level) >= fan_out:
                    return list(segments[first:end])
                first = end + 1
    return []


def _is_wasteful(segments: Sequence[Segment], live: int, rules: Rules, sizes: Sizes) -> bool:
    """Returns whether segments hold too many superseded records beside the live ones."""
    return sum(segment.records for segment in segments) > max(rules.waste * live, sizes.waste_from)


def is_due(catalog: Catalog, live: int, rules: Rules = READ) -> bool:
    """Returns whether a merge has to go on or should start."""
    if under_way(catalog) and not _may_end(catalog, live, rules):
        return True
    return bool(choose_segments(catalog.segments, live, rules, sizes=catalog.sizes))


def _may_end(catalog: Catalog, live: int, rules: Rules) -> bool:
    """Returns whether the merge under way is not due any more: little is superseded, inputs are few."""
    few = len(parts_of_merge(catalog)[1]) < rules.fan_out(catalog.sizes)
    return rules.lazy and few and not _is_wasteful(catalog.segments, live, rules, catalog.sizes)


def under_way(catalog: Catalog) -> bool:
    """Returns whether a merge was begun and is not at its end."""
    return any(segment.merged_into for segment in catalog.segments)


def merge_step(store: OpenStore, rules: Rules = READ) -> bool:
    """Does one bounded step (some 32,000 records) of a merge; returns whether more is due.

    Args:
      rules: when a merge is due, and how much a step does.
    """
    store.check_writable()
    if store.connection.in_transaction:
        raise StoreError(f"{store.path}: merging inside a transaction; end it first")
    if not is_due(store.catalog, store.node_count, rules):
        return False
    catalog = store.catalog
    with store.rearranging():
        if under_way(catalog) and _may_end(catalog, store.node_count, rules):
            end(store.connection, *parts_of_merge(catalog))
            catalog.follow()
        if not under_way(catalog):
            start(
                store.connection,
                choose_segments(catalog.segments, store.node_count, rules, sizes=catalog.sizes),
            )
            catalog.follow()
        output, inputs = parts_of_merge(catalog)
        _advance(store.connection, catalog, output, inputs, rules.blocks or catalog.sizes.step_blocks)
    return is_due(catalog, store.node_count, rules)


def parts_of_merge(catalog: Catalog) -> tuple[Segment, list[Segment]]:
    """Returns the output segment and the input segments of the merge that is under way."""
    inputs = [segment for segment in catalog.segments if segment.merged_into]
    return next(segment for segment in catalog.segments if segment.id == inputs[0].merged_into), inputs


def start(connection: sqlite3.Connection, segments: Sequence[Segment]) -> None:
    """Makes the output segment: as old as its newest input, and by its greater id ranked just above that.

    Args:
      segments: newest first, neighbours in age, none of them in a merge.
    """
    cursor = connection.execute("INSERT INTO segment (age) VALUES (?)", (segments[0].age,))
    connection.executemany(
        "UPDATE segment SET merged_into = ? WHERE id = ?",
        [(cursor.lastrowid, segment.id) for segment in segments],
    )


def end(connection: sqlite3.Connection, output: Segment, inputs: Sequence[Segment]) -> None:
    """Ends a merge where it stands: its output and what is left of its inputs are segments like others."""
    connection.executemany(
        "UPDATE segment SET merged_into = NULL WHERE id = ?", [(segment.id,) for segment in inputs]
    )
    connection.execute("UPDATE segment SET frontier = NULL WHERE id = ?", (output.id,))


def _advance(
    connection: sqlite3.Connection, catalog: Catalog, output: Segment, inputs: Sequence[Segment], blocks: int
) -> None:
    low = output.frontier
    cursors = [SegmentCursor(catalog, first_chunks(catalog, segment, low, blocks)) for segment in inputs]
    pivot = choose_pivot(cursors, blocks, low)
    ends = [cursor.blocks_below(pivot) for cursor in cursors]
    batches = [cursor.read(connection, 0, end) for cursor, end in zip(cursors, ends, strict=True)]
    for cursor, end, batch in zip(cursors, ends, batches, strict=True):
        rest = pivot is not None and end and int(sort_keys(batch.words[-1:])[0]) >= pivot
        drop(connection, cursor, end - 1 if rest else end)
    merged = merge(batches, output.frontier, pivot)
    del batches, batch  # encoding takes as much again
    write_chunks(connection, catalog, output.id, [merged], dictionary=_dictionary(catalog, output))
    set_frontier(connection, output, inputs, pivot)


def set_frontier(
    connection: sqlite3.Connection, output: Segment, inputs: Sequence[Segment], pivot: int | None
) -> None:
    """Notes that all below the pivot has moved on to the output; None ends the merge."""
    if pivot is None:
        connection.executemany("DELETE FROM segment WHERE id = ?", [(segment.id,) for segment in inputs])
    connection.execute(
        "UPDATE segment SET frontier = ? WHERE id = ?", (None if pivot is None else signed(pivot), output.id)
    )


def _dictionary(catalog: Catalog, output: Segment) -> bytes:
    """Returns the dictionaries of the output's last chunk, nothing if it is time to train new ones."""
    count = len(output.chunks)
    index = catalog.indexes.get(output.chunks[-1]) if count % CHUNKS_ALIKE else None
    return index.dictionary if index else b""


def drop(connection: sqlite3.Connection, cursor: SegmentCursor, end: int) -> None:
    """Removes the first blocks of a segment, and its chunks that are empty then."""
    for span in cursor.spans(0, end):
        chunk = span.chunk
        connection.execute(
            "DELETE FROM block WHERE id BETWEEN ? AND ?",
            (chunk.block_id(span.first), chunk.block_id(span.last - 1)),
        )
        if span.last == chunk.blocks:
            connection.execute("DELETE FROM chunk WHERE id = ?", (chunk.id,))
        else:  # all blocks but the last of a chunk are full
            connection.execute(
                "UPDATE chunk SET gone = ?, records = records - ? WHERE id = ?",
                (span.last, BLOCK * (span.last - span.first), chunk.id),
            )
