"""Merging segments in tiers, one bounded and crash-safe step at a time.

A step moves all records below some sort key from the inputs to the end of the output and deletes the blocks
it emptied, in one transaction. So a merge needs no spare room, can stop after any step, and resumes from the
file alone; lookups need no special case, because the output ranks above its inputs.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from .block_kernel import BLOCK
from .index import SIZES, Catalog, Segment, Sizes, signed
from .record import RecordBatch
from .segment import (
    Portion,
    SegmentCursor,
    choose_pivot,
    cursors_from,
    fetch_portion,
    fetch_spans,
    write_chunks,
)

BASE_RECORDS = 512  # tier t holds segments of 512 * 8 ** t records and more
WASTE = 1.75  # records in all segments per live record; a lower limit would rewrite the file too often
TIDY_WASTE = 1.04  # the same when a file of moderate size is closed

CHUNKS_ALIKE = 32  # chunks that share dictionaries: a reader keeps only a few, and training takes time


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When a merge is due, and the size of one step.

    Attributes:
      waste: most records in all segments per live record.
      unread: whether the writer itself reads nothing, because it holds everything in memory. More segments
        may coexist then: merging them would rewrite all of them and speed up nothing.
      lazy: whether an unfinished merge pauses when it is no longer due, and ends where it stands when another
        one is due. Otherwise a search of 100,000 visits pays for a whole file that was left half merged.
      blocks: moved by one step; None: as in `Sizes`.
    """

    waste: float = WASTE
    unread: bool = False
    lazy: bool = False
    blocks: int | None = None

    def fan_out(self, sizes: Sizes) -> int:
        """Returns the number of segments of one tier that makes a merge due."""
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

    `segments`: newest first, none of them in an unfinished merge. `live`: distinct records of the file.
    """
    fan_out = rules.fan_out(sizes)
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
    return sum(segment.records for segment in segments) > max(rules.waste * live, sizes.waste_from)


def is_due(catalog: Catalog, live: int, rules: Rules = READ) -> bool:
    """Returns whether a merge must continue or start."""
    if under_way(catalog) and not may_end(catalog, live, rules):
        return True
    return bool(choose_segments(catalog.segments, live, rules, sizes=catalog.sizes))


def may_end(catalog: Catalog, live: int, rules: Rules) -> bool:
    """Returns whether the unfinished merge is no longer due: few inputs, few superseded records."""
    few = len(parts_of_merge(catalog)[1]) < rules.fan_out(catalog.sizes)
    return rules.lazy and few and not _is_wasteful(catalog.segments, live, rules, catalog.sizes)


def under_way(catalog: Catalog) -> bool:
    """Returns whether there is an unfinished merge."""
    return any(segment.merged_into for segment in catalog.segments)


def parts_of_merge(catalog: Catalog) -> tuple[Segment, list[Segment]]:
    """Returns output and inputs of the unfinished merge; if there are no inputs, the newest segment."""
    inputs = [segment for segment in catalog.segments if segment.merged_into]
    outputs = {segment.merged_into for segment in inputs} or {catalog.segments[0].id}
    return next(segment for segment in catalog.segments if segment.id in outputs), inputs


def start(connection: sqlite3.Connection, segments: Sequence[Segment]) -> None:
    """Starts a merge of segments, newest first, neighbours in age, none of them in a merge.

    The output has the age of its newest input and a greater id, which ranks it just above that input.
    """
    age = segments[0].age if segments else 1
    output = connection.execute("INSERT INTO segment (age) VALUES (?)", (age,)).lastrowid
    into = [(output, segment.id) for segment in segments]
    connection.executemany("UPDATE segment SET merged_into = ? WHERE id = ?", into)


def end(connection: sqlite3.Connection) -> None:
    """Ends a merge where it stands: the output and the rest of the inputs become ordinary segments."""
    connection.execute("UPDATE segment SET merged_into = NULL, frontier = NULL")


@dataclass(frozen=True, slots=True)
class Step:
    """The next records of a merge: the blocks of the inputs that hold them, and their range of sort keys.

    `moved` has for each input the number of its first blocks that hold no later records; `pivot` is the sort
    key with which the next step begins, None at the end.
    """

    output: Segment
    inputs: list[Segment]
    portion: Portion
    moved: list[tuple[SegmentCursor, int]]
    pivot: int | None


def next_step(
    connection: sqlite3.Connection,
    catalog: Catalog,
    low: int | None,
    blocks: int,
    others: Sequence[Catalog] = (),
) -> Step:
    """Returns the records of about so many blocks of the inputs, from the sort key `low` on (None: any).

    A single input gives whole blocks: if some of its records are dropped, none is left over in a block.
    `others`: of other files, whose records of the same range a caller adds; their blocks count, too.
    """
    into, inputs = parts_of_merge(catalog)
    cursors = cursors_from(catalog, inputs, low, blocks)
    if len(cursors) == 1 and not others:
        (cursor,) = cursors
        last = min(blocks, len(cursor.keys))
        pivot = int(cursor.keys[last]) if last < len(cursor.keys) else None
        portion = fetch_spans(connection, catalog, cursor.spans(0, last), low or 0)
        return Step(into, inputs, portion, [(cursor, last)], pivot)
    beside = [cursor for other in others for cursor in cursors_from(other, other.segments, low, blocks)]
    pivot = choose_pivot([*cursors, *beside], blocks, low)
    # the last block may reach beyond the pivot
    moved = [(cursor, cursor.blocks_below(pivot) - (pivot is not None)) for cursor in cursors]
    return Step(into, inputs, fetch_portion(connection, catalog, cursors, low or 0, pivot), moved, pivot)


def finish_step(connection: sqlite3.Connection, catalog: Catalog, step: Step, records: RecordBatch) -> None:
    """Writes the records of a step to the output, drops their blocks, and notes where the next one begins."""
    for cursor, end in step.moved:
        drop(connection, cursor, end)
    # the dictionaries of the output's last chunk, or none if new ones should be trained
    chunks = step.output.chunks
    dictionary = catalog.index(chunks[-1]).dictionary if len(chunks) % CHUNKS_ALIKE else b""
    write_chunks(connection, catalog, step.output.id, [records], dictionary=dictionary)
    if step.pivot is None:  # the output has everything
        connection.executemany("DELETE FROM segment WHERE id = ?", [(one.id,) for one in step.inputs])
    frontier = signed(step.pivot) if step.pivot is not None and step.inputs else None
    connection.execute("UPDATE segment SET frontier = ? WHERE id = ?", (frontier, step.output.id))


def drop(connection: sqlite3.Connection, cursor: SegmentCursor, end: int) -> None:
    """Deletes the first `end` blocks of a segment, and the chunks that become empty."""
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
