"""Proofs of the mate search as transposition entries, and entries as its proofs."""

from __future__ import annotations

from typing import Any

from numba import int64

from ..jit.compiler import inner, kernel
from ..jit.pointers import LOW32, ZERO, U
from ..position.board import CLOCK_DRAW
from ..position.scores import MATE
from ..record.transposition_kernel import (
    EXACT,
    LOWER,
    NO_TYPE,
    PROOF,
    UPPER,
    bound_in,
    check_bits_in,
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
from .proof_kernel import NO_CLOCK, pointers
from .table_kernel import (
    ANY_LENGTH,
    CHECK_BITS,
    DEFENDER,
    INFINITE,
    MOVE_AT,
    SLOTS,
    clock_bound,
    first_of,
    plies_of,
    store,
    work_of,
)

LEAST_WORK = 3  # bits of the visits that a proof has cost; what cost less is not worth an entry


@inner
def _is_proof(P: Any, i: Any) -> Any:
    return P.keys[i] != ZERO and (P.numbers[i] >> U(32)) == ZERO


@kernel
def count_proofs(A: Any) -> Any:
    """Returns how many places of a prover's table hold a proof."""
    P = pointers(A).table
    count = int64(0)
    for i in range(A.keys.size):
        if _is_proof(P, i):
            count += 1
    return count


@kernel
def spread(A: Any, B: Any) -> None:
    """Copies a prover's table into another one, empty and larger."""
    P = pointers(A).table
    Q = pointers(B).table
    for i in range(A.keys.size):
        if P.keys[i] == ZERO:
            continue
        at = first_of(Q, P.keys[i])
        for k in range(at, at + SLOTS):
            if Q.keys[k] == ZERO:
                Q.keys[k], Q.numbers[k], Q.data[k] = P.keys[i], P.numbers[i], P.data[i]
                break


@inner
def _is_shortest(P: Any, i: Any) -> Any:
    """Returns whether the table disproves, for every clock, that a proven mate can be shorter."""
    length = plies_of(P.data[i])
    if length <= 2:
        return True
    at = int64(i) & ~int64(SLOTS - 1)
    for k in range(at, at + SLOTS):
        same = P.keys[k] == P.keys[i] and (P.data[k] & CHECK_BITS) == (P.data[i] & CHECK_BITS)
        if same and (P.numbers[k] & LOW32) == ZERO and clock_bound(P.data[k]) == NO_CLOCK:
            if plies_of(P.data[k]) != ANY_LENGTH and plies_of(P.data[k]) >= length - 2:
                return True
    return False


@inner
def _is_better(E: Any, key: Any, check: Any, value: Any, bound: Any) -> Any:
    """Returns whether a proven mate says more than the entry of its position, if there is one."""
    at = find_entry(E, key, check)
    if at < 0 or depth_in(E.data[at]) != PROOF:
        return True
    known = value_in(E.data[at])
    if (known > 0) != (value > 0) or abs(known) < abs(value):
        return abs(known) < abs(value)
    return bound == EXACT and bound_in(E.data[at]) != EXACT


@kernel
def give_entries(A: Any, E: Any, exact: Any) -> Any:
    """Writes proofs to a table of entries, to be saved; returns how many.

    `exact`: disproofs belong to the positions, so that a proof and a disproof together are exact.
    """
    P = pointers(A).table
    Q = entry_pointers(E)
    count = int64(0)
    for i in range(A.keys.size):
        if not _is_proof(P, i) or work_of(P.data[i]) < LEAST_WORK:
            continue
        length = plies_of(P.data[i])
        attacks = (length & 1) == 1
        key = P.keys[i] if attacks else P.keys[i] ^ DEFENDER
        value = MATE - length if attacks else length - MATE
        bound = LOWER if attacks else UPPER
        if exact and _is_shortest(P, i):
            bound = EXACT
        check = P.data[i] & CHECK_BITS
        if clock_bound(P.data[i]) >= CLOCK_DRAW - length and _is_better(Q, key, check, value, bound):
            move = int64((P.data[i] >> MOVE_AT) & U(0xFFFF))
            data = packed_entry(value, move, PROOF, bound, NO_TYPE, int64(0), check)
            put_entry(Q, place_for(Q, key, check), key, data, True)
            count += 1
    return count


@kernel
def take_entries(A: Any, E: Any) -> Any:
    """Enters the proven mates of a table of entries; returns how many there are."""
    P = pointers(A).table
    Q = entry_pointers(E)
    count = int64(0)
    for i in range(E.keys.size):
        data = Q.data[i]
        if Q.keys[i] == ZERO or bound_in(data) == 0:
            continue
        value, bound = value_in(data), bound_in(data)
        if not proves_mate(value, bound):
            continue
        attacks = value > 0
        length = MATE - abs(value)
        if length == 0 or length >= ANY_LENGTH:
            continue
        key = Q.keys[i] if attacks else Q.keys[i] ^ DEFENDER
        check = check_bits_in(data)
        held = max(CLOCK_DRAW - length, int64(0))
        store(P, key, check, int64(0), int64(INFINITE), length, held, move_in(data), int64(1))
        if bound == EXACT and depth_in(data) == PROOF and length > 2:
            store(P, key, check, int64(INFINITE), int64(0), length - 2, int64(NO_CLOCK), int64(0), int64(1))
        count += 1
    return count
