"""Extracts records by position from stored blocks: unpacks and compares them one block at a time.

    stored blocks | unpack -> plain | boards, up to the one that is asked for | that record -> out
                  +------ working memory that stays in the cache ------+

A read usually wants one record of a block. Of the other records it reads only the men, since a position is
encoded against an earlier one, and the lengths of the data before its own. The key is copied from the
requested position.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...jit.compiler import by_address, inner, kernel
from ...jit.pointers import U, adv, ptr
from ...jit.types import Pointer, int64, uint8, uint32, uint64
from ...position.board_kernel import PW
from ...position.words import KEY, META, Position
from ..index.locate_kernel import is_same
from ..record.node import MAX_MOVES
from . import layout
from .batch_kernel import (
    END,
    FAILED,
    NUMBERS,
    Bytes,
    Columns,
    Reader,
    Records,
    codes_in,
    edges_in,
    header_at,
    is_drawn,
    pointers,
    read_varint,
    records_in,
)
from .decoding_kernel import (
    open_block,
    read_board,
    read_codes,
    read_counts,
    read_fields,
    read_meta,
    read_run,
    read_values,
    skip_counts,
)
from .packing_kernel import Workshop, unpack_block


@by_address
class Bench(NamedTuple):
    """Working memory for one block; one for each thread.

    Attributes:
      plain: uint8, the block before compression.
      reader: `[decoding_kernel.READER]` int64.
      words: `[10 * BLOCK]` uint64, positions. runs: `[BLOCK]` uint32.
    """

    plain: Pointer[uint8]
    reader: Pointer[int64]
    words: Pointer[uint64]
    runs: Pointer[uint32]


@inner
def _read_position(
    data: Bytes, reader: Reader, rows: int64, k: int64, size: int64, bench: Bench, start: Position
) -> None:
    """Reads position `k` of a block, without its key, and its record's run, after all positions before it."""
    row = adv(data, rows + k)
    back = int64(row[size * layout.REFERENCE])
    moves, edges = int64(row[size * layout.MOVES]), int64(row[size * layout.EDGES])
    if back > k or moves > MAX_MOVES or edges > moves:
        reader[FAILED] = 1
        return
    s = adv(bench.words, PW * k)
    base = adv(bench.words, PW * (k - back)) if back else start
    read_board(data, reader, row, size, s, base)
    if reader[FAILED]:
        return
    s[META] = U(read_meta(data, reader, row, size, base))
    run = bench.runs[k - back] if back else uint32(0)
    bench.runs[k] = read_run(data, reader, int64(row[size * layout.META]), run)


@inner
def _skip_runs(data: Bytes, reader: Reader, rows: int64, begin: int64, size: int64) -> None:
    """Skips the runs of the records of a block from `begin` on."""
    for at in range(rows + size * layout.META + begin, rows + size * layout.META + size):
        if int64(data[at]) & layout.HAS_RUN:
            read_varint(data, reader)


@inner
def _ends_with_counts(data: Bytes, reader: Reader, header: int64) -> bool:
    """Returns whether the rest of a block is the counts of its edges and nothing else."""
    left = edges_in(header) * (1 + is_drawn(header))
    last = int64(0)
    for at in range(reader[NUMBERS], reader[END]):
        last = int64(data[at]) >> 7
        left -= 1 - last
    return left == 0 and last == 0


@inner
def _sum_before(data: Bytes, column: int64, k: int64) -> int64:
    """Returns the sum of the first `k` bytes of a column."""
    total = int64(0)
    for i in range(k):
        total += int64(data[column + i])
    return total


@inner
def _copy_edges(
    data: Bytes, reader: Reader, c: Records, first: int64, n: int64, before: int64, header: int64, rows: int64
) -> None:
    """Reads `n` edges of a block, after `before` others, into the columns from edge `first` on."""
    size, edges = records_in(header), edges_in(header)
    low = layout.HEADER + layout.LOW * (size + before)
    read_values(data, reader, c, first, n, low, rows + layout.FIXED * size + before, edges)
    skip_counts(data, reader, before)
    read_counts(data, reader, adv(c.n, first), n)
    if is_drawn(header):
        skip_counts(data, reader, edges - n)
        read_counts(data, reader, adv(c.r, first), n)
    else:
        for e in range(first, first + n):
            c.r[e] = uint32(0)


@inner
def copy_record(
    data: Bytes,
    reader: Reader,
    bench: Bench,
    k: int64,
    header: int64,
    rows: int64,
    s: Position,
    c: Records,
    i: int64,
) -> None:
    """Reads record `k` of a block, whose position is `s`, into place `i` of the columns."""
    size = records_in(header)
    row = adv(data, rows + k)
    for w in range(PW):
        c.words[PW * i + w] = bench.words[PW * k + w]
    c.words[PW * i + KEY] = s[KEY]
    c.run[i] = bench.runs[k]
    read_fields(data, reader, c, i, row, size, int64(layout.HEADER + layout.LOW * k))
    moves, edges = int64(row[size * layout.MOVES]), int64(row[size * layout.EDGES])
    codes = rows - codes_in(header) + _sum_before(data, rows + size * layout.MOVES, k)
    read_codes(reader, data, codes, adv(c.codes, c.code_offsets[i]), moves)
    before = _sum_before(data, rows + size * layout.EDGES, k)
    numbers = reader[NUMBERS]  # of the edges: another record of the block may follow
    _copy_edges(data, reader, c, c.edge_offsets[i], edges, before, header, rows)
    reader[NUMBERS] = numbers
    c.code_offsets[i + 1] = c.code_offsets[i] + moves
    c.edge_offsets[i + 1] = c.edge_offsets[i] + edges


@inner
def open_plain(data: Bytes, reader: Reader, header: int64, bench: Bench, start: Position) -> int64:
    """Reads the positions of an unpacked block; returns where its rows begin."""
    reader[FAILED] = 0
    rows, size = open_block(data, reader, int64(0), header), records_in(header)
    for k in range(size):
        if not reader[FAILED]:
            _read_position(data, reader, rows, k, size, bench, start)
    if not reader[FAILED] and not _ends_with_counts(data, reader, header):
        reader[FAILED] = 1
    return rows


@inner
def find_plain(
    data: Bytes, reader: Reader, header: int64, bench: Bench, start: Position, s: Position
) -> tuple[int64, int64]:
    """Returns where the rows of an unpacked block begin, and the index of position `s` in it, -1 for none.

    It reads no position after `s`.
    """
    reader[FAILED] = 0
    rows, size = open_block(data, reader, int64(0), header), records_in(header)
    for k in range(size):
        if reader[FAILED]:
            break
        _read_position(data, reader, rows, k, size, bench, start)
        if not reader[FAILED] and is_same(s, adv(bench.words, PW * k)):
            _skip_runs(data, reader, rows, k + 1, size)
            if not _ends_with_counts(data, reader, header):
                reader[FAILED] = 1
            return rows, int64(k)
    return rows, int64(-1)


@inner
def _find_in_block(s: Position, bench: Bench, size: int64) -> int64:
    """Returns the index of position `s` in a block, -1 for none."""
    for k in range(size):
        if is_same(s, adv(bench.words, PW * k)):
            return int64(k)
    return int64(-1)


@kernel
def extract(
    workshop: Workshop,
    bench: Bench,
    start: NDArray[np.uint64],
    data: NDArray[np.uint8],
    ends: NDArray[np.int64],
    slots: NDArray[np.int64],
    words: NDArray[np.uint64],
    asked: NDArray[np.int64],
    firsts: NDArray[np.int64],
    hits: NDArray[np.int64],
    columns: Columns,
    refused: NDArray[np.bool_],
) -> int64:
    """Copies the records of some positions from stored blocks; returns the number of records found.

    Args:
      workshop, data, ends, slots: as for `packing_kernel.unpack`.
      bench: a `Bench` of this thread.
      start: as for `encoding_kernel.encode`.
      words: `[10 K]` uint64, positions.
      asked: int64, indices of the positions to look for, block by block.
      firsts: `[blocks + 1]` int64, index in `asked` of the first position of each block.
      hits: int64, filled with the place in `asked` of each record found.
      columns: `Columns` with room for all of `asked`, filled with the records found.
      refused: `[blocks]` bool, filled: blocks that are unsound, or that only `zstandard` can judge; none of
        their records are copied.
    """
    source, plain, reader, c = ptr(data, 0), bench.plain, bench.reader, pointers(columns)
    at = int64(0)
    found = int64(0)
    for b in range(len(ends)):
        reader[END] = unpack_block(source, at, ends[b], slots[b], workshop, plain, int64(0))
        at = ends[b]
        refused[b] = True
        if reader[END] == 0:
            continue
        header = header_at(plain, int64(0))
        rows = open_plain(plain, reader, header, bench, ptr(start, 0))
        before = found
        for i in range(firsts[b], firsts[b + 1]):
            if reader[FAILED]:
                break
            s = ptr(words, PW * asked[i])
            k = _find_in_block(s, bench, records_in(header))
            if k >= 0:
                copy_record(plain, reader, bench, k, header, rows, s, c, found)
                hits[found] = i
                found += 1
        refused[b] = reader[FAILED] != 0
        if refused[b]:
            found = before
    return found
