"""Converts proofs of the mate search to transposition entries, and entries to proofs."""

from __future__ import annotations

from ...jit.compiler import inner, kernel
from ...jit.pointers import ZERO
from ...jit.types import int64, uint64
from ...position.board import CLOCK_DRAW
from ...position.scores import MATE
from ...store.record.transposition_kernel import (
    EXACT,
    LOWER,
    NO_TYPE,
    PROOF,
    UPPER,
    EntryArrays,
    EntryPointers,
    bound_in,
    check_in,
    depth_in,
    entry_pointers,
    find_entry,
    move_in,
    packed_entry,
    place_for,
    proves_mate,
    put_entry,
    value_in,
)
from .proof_kernel import NO_CLOCK, ProverArrays, pointers
from .table_kernel import (
    ANY_LENGTH,
    DEFENDER,
    INFINITE,
    SLOTS,
    TablePointers,
    check_of,
    clock_bound,
    disproof_number,
    first_of,
    move_of,
    plies_of,
    proof_number,
    store,
    work_of,
)

LEAST_WORK = 3  # bit length of the visits that a proof cost; cheaper ones are not worth an entry


@inner
def _is_proof(table: TablePointers, i: int64) -> bool:
    return table.keys[i] != ZERO and proof_number(table, i) == 0


@kernel
def count_proofs(A: ProverArrays) -> int64:
    """Returns the number of slots of a prover's table that hold a proof."""
    table = pointers(A).table
    count = int64(0)
    for i in range(A.keys.size):
        if _is_proof(table, i):
            count += 1
    return count


@kernel
def spread(A: ProverArrays, B: ProverArrays) -> None:
    """Copies a prover's table into another one, empty and larger."""
    table = pointers(A).table
    larger = pointers(B).table
    for i in range(A.keys.size):
        if table.keys[i] == ZERO:
            continue
        at = first_of(larger, table.keys[i])
        for k in range(at, at + SLOTS):
            if larger.keys[k] == ZERO:
                larger.keys[k], larger.numbers[k], larger.data[k] = (
                    table.keys[i],
                    table.numbers[i],
                    table.data[i],
                )
                break


@inner
def _is_shortest(table: TablePointers, i: int64) -> bool:
    """Returns whether the table disproves, for every clock, that a proven mate can be shorter."""
    length = plies_of(table.data[i])
    if length <= 2:
        return True
    at = int64(i) & ~int64(SLOTS - 1)
    for k in range(at, at + SLOTS):
        same = table.keys[k] == table.keys[i] and check_of(table.data[k]) == check_of(table.data[i])
        if same and disproof_number(table, int64(k)) == 0 and clock_bound(table.data[k]) == NO_CLOCK:
            if plies_of(table.data[k]) != ANY_LENGTH and plies_of(table.data[k]) >= length - 2:
                return True
    return False


@inner
def _is_better(E: EntryPointers, key: uint64, check: uint64, value: int64, bound: int64) -> bool:
    """Returns whether a proven mate is better than the existing entry of its position."""
    at = find_entry(E, key, check)
    if at < 0 or depth_in(E.data[at]) != PROOF:
        return True
    known = value_in(E.data[at])
    if (known > 0) != (value > 0) or abs(known) < abs(value):
        return abs(known) < abs(value)
    return bound == EXACT and bound_in(E.data[at]) != EXACT


@kernel
def give_entries(A: ProverArrays, entries: EntryArrays, exact: bool) -> int64:
    """Writes proofs to a table of entries, to be saved; returns their number.

    `exact`: disproofs hold for the positions themselves, so a proof and a disproof together are exact.
    """
    table = pointers(A).table
    E = entry_pointers(entries)
    count = int64(0)
    for i in range(A.keys.size):
        if not _is_proof(table, i) or work_of(table.data[i]) < LEAST_WORK:
            continue
        length = plies_of(table.data[i])
        attacks = (length & 1) == 1
        key = table.keys[i] if attacks else table.keys[i] ^ DEFENDER
        value = MATE - length if attacks else length - MATE
        bound = LOWER if attacks else UPPER
        if exact and _is_shortest(table, i):
            bound = EXACT
        check = check_of(table.data[i])
        if clock_bound(table.data[i]) >= CLOCK_DRAW - length and _is_better(E, key, check, value, bound):
            move = move_of(table.data[i])
            data = packed_entry(value, move, PROOF, bound, NO_TYPE, int64(0), check)
            put_entry(E, place_for(E, key, check), key, data, True)
            count += 1
    return count


@kernel
def take_entries(A: ProverArrays, entries: EntryArrays) -> int64:
    """Imports the proven mates of a table of entries; returns their number."""
    table = pointers(A).table
    E = entry_pointers(entries)
    count = int64(0)
    for i in range(entries.keys.size):
        data = E.data[i]
        if E.keys[i] == ZERO or bound_in(data) == 0:
            continue
        value, bound = value_in(data), bound_in(data)
        if not proves_mate(value, bound):
            continue
        attacks = value > 0
        length = MATE - abs(value)
        if length == 0 or length >= ANY_LENGTH:
            continue
        key = E.keys[i] if attacks else E.keys[i] ^ DEFENDER
        check = check_in(data)
        held = max(CLOCK_DRAW - length, int64(0))
        store(table, key, check, int64(0), int64(INFINITE), length, held, move_in(data), int64(1))
        if bound == EXACT and depth_in(data) == PROOF and length > 2:
            store(
                table, key, check, int64(INFINITE), int64(0), length - 2, int64(NO_CLOCK), int64(0), int64(1)
            )
        count += 1
    return count
