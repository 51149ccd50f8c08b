"""Reads one record by position from the file, without Python: finds, fetches, unpacks and checks its block.

    position -> filters, keys -> row of `block` -> SQLite -> data -> unpack -> plain -> record -> columns

The kernel calls SQLite by address (`jit/libraries.py`), within a read transaction that Python has begun; the
index belongs to the same state of the file. The kernel refuses faulty data without a message: `reading.py`
then reads it again, reports the damage, and decides.
"""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.libraries import ROW as SQLITE_ROW
from ..jit.pointers import LOW32, U, bytes_at, call_c
from ..jit.types import Bundle, Items, int64, uint8, uint16, uint64
from ..position.board import BoardTable, Position
from . import block_kernel as block
from .block_kernel import Workshop
from .index_kernel import FilterArrays, first_piece, next_chunk, sort_key
from .record_kernel import Columns

FOUND, NOT_THERE, REFUSED = 1, 0, -1
BIND, STEP, BLOB, SIZE, RESET, STATEMENT, FUNCTIONS = range(7)
READ, UNKNOWN, BUDGET, STATES = range(4)
NO_CHUNK = -1


class ReaderArrays(Bundle):
    """The access to one state of a file, and room for one record, for reading records inside kernels.

    Attributes:
      slots: `[chunks]` slot of each chunk's dictionaries (`block.Unpacker.slots`).
      functions: `[FUNCTIONS]` addresses of functions of SQLite and of the statement.
      states: `[STATES]` records entered so far; the chunk with dictionaries that are not loaded, or NO_CHUNK;
        bytes that the arena may take.
      data: the block as it is stored. moves: `[board_kernel.ROOM]` scratch.
      columns: room for one record.
    """

    slots: Items[int64]
    functions: Items[int64]
    states: Items[int64]
    data: Items[uint8]
    data_size: int64
    moves: Items[uint16]
    columns: Columns
    workshop: Workshop


@inner
def _fetch(R: ReaderArrays, row: int64) -> int64:
    """Fetches a row of `block` into `R.data`; returns its bytes, 0 if there is no such row."""
    functions = R.functions
    statement = functions[STATEMENT]
    size = int64(0)
    call_c(functions[BIND], (statement, int64(1), row))
    if int64(U(call_c(functions[STEP], (statement,))) & LOW32) == SQLITE_ROW:
        size = int64(U(call_c(functions[SIZE], (statement, int64(0)))) & LOW32)
        address = call_c(functions[BLOB], (statement, int64(0)))
        if address == 0 or size > R.data_size - block.PADDING:
            size = int64(0)
        source, out = bytes_at(address, size), R.data
        for k in range(size):
            out[k] = source[k]
    call_c(functions[RESET], (statement,))
    return size


@inner
def _read_block(T: BoardTable, F: FilterArrays, R: ReaderArrays, c: int64, b: int64, s: Position) -> int64:
    """Copies the record of a position from block `b` of chunk `c`; returns FOUND, NOT_THERE or REFUSED."""
    shop, slot = R.workshop, R.slots[c]
    if slot < block.NONE:
        R.states[UNKNOWN] = c
        return int64(REFUSED)
    size = _fetch(R, b + F.shifts[c])
    if not size or block.open_block(shop, R.data, int64(0), size, slot):
        return int64(REFUSED)
    is_there, _ = block.find_record(shop, int64(0), s, R.columns, int64(0))
    if shop.reader[block.FAILED]:
        return int64(REFUSED)
    if not is_there:
        return int64(NOT_THERE)
    fault, _ = block.fault_in(T, R.columns.packed, R.columns, int64(0), R.moves)
    return int64(FOUND) if fault == block.SOUND else int64(REFUSED)


@inner
def read_record(T: BoardTable, F: FilterArrays, R: ReaderArrays, s: Position, key: uint64) -> int64:
    """Reads the newest record of a position into `R.columns`; returns FOUND, NOT_THERE or REFUSED.

    `F`: of the same state of the file. `key`: of the position in the graph.
    """
    order = sort_key(s)
    for segment in range(F.segments_size - 1):
        end = F.segments[segment + 1]
        c = next_chunk(F, first_piece(F.firsts, F.segments[segment], end, order), end, order, key)
        while c < end:
            b = first_piece(F.keys, F.starts[c], F.starts[c + 1], order)
            while b < F.starts[c + 1] and F.keys[b] <= order:
                found = _read_block(T, F, R, c, b, s)
                if found != NOT_THERE:
                    return found
                b += 1
            c = next_chunk(F, c + 1, end, order, key)
    return int64(NOT_THERE)
