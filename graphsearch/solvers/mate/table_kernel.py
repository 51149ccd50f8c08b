"""The table of a proof-number search: proofs, disproofs and estimates, position by position.

An entry is three words:

    key      the position's Polyglot key; flipped where the defender is to move
    numbers  bits 0-31 disproof number | 32-63 proof number
    data     bits 0-15 check | 16-31 best move | 32-39 plies | 40-47 clock | 48-55 work: bits of the visits

A question is "does the attacker mate within so many plies?". A proof (proof number 0) holds for its plies and
more, and for halfmove clocks up to its clock; a disproof (disproof number 0) for its plies and fewer, and for
clocks from its clock on; anything else is an estimate for exactly its plies. All entries of a position lie
in one bucket.
"""

from __future__ import annotations

from typing import NamedTuple

from ...jit.compiler import inner
from ...jit.pointers import LOW32, ZERO, U
from ...jit.types import Pointer, int64, uint64
from ...position.board_kernel import PLACE, check_hash
from ...position.words import KEY, META, Position

INFINITE = 1 << 30  # a proof or disproof number that no search reduces
ANY_LENGTH = 255  # plies of a question without a limit; its disproofs hold for the path and the moment
SLOTS = 8  # of a bucket
DEFENDER = U(0x9E3779B97F4A7C15)  # flips the key of positions with the defender to move
PROOF_AT = U(32)
MOVE_AT, PLIES_AT, CLOCK_AT, WORK_AT = U(16), U(32), U(40), U(48)
CHECK_MASK, MOVE_MASK, BYTE = U(0xFFFF), U(0xFFFF), U(0xFF)


class TablePointers(NamedTuple):
    """Pointers to the three words of every slot, and the mask of a slot's index."""

    keys: Pointer[uint64]
    numbers: Pointer[uint64]
    data: Pointer[uint64]
    mask: int64


class Probe(NamedTuple):
    """The table's entry for a question: proof and disproof number (-1: none), plies, clock, move."""

    pn: int64
    dn: int64
    plies: int64
    clock: int64
    move: int64


@inner
def key_and_check(s: Position, attacks: bool) -> tuple[uint64, uint64]:
    """Returns (key, check) of a position, whatever its clock; `attacks`: the attacker is to move."""
    meta = s[META]
    s[META] = meta & PLACE
    check = check_hash(s) & CHECK_MASK
    s[META] = meta
    return (s[KEY] if attacks else s[KEY] ^ DEFENDER), check


@inner
def first_of(table: TablePointers, key: uint64) -> int64:
    """Returns the index of the first slot of a key's bucket."""
    return int64((key ^ (key >> U(32))) & U(table.mask)) & ~int64(SLOTS - 1)


@inner
def proof_number(table: TablePointers, i: int64) -> int64:
    """Returns the proof number of an entry; 0: proven."""
    return int64(table.numbers[i] >> PROOF_AT)


@inner
def disproof_number(table: TablePointers, i: int64) -> int64:
    """Returns the disproof number of an entry; 0: disproved."""
    return int64(table.numbers[i] & LOW32)


@inner
def check_of(data: uint64) -> uint64:
    """Returns the check bits of an entry, uint64."""
    return data & CHECK_MASK


@inner
def move_of(data: uint64) -> int64:
    """Returns the best move of an entry, 0 if it has none."""
    return int64((data >> MOVE_AT) & MOVE_MASK)


@inner
def plies_of(data: uint64) -> int64:
    """Returns the plies of an entry."""
    return int64((data >> PLIES_AT) & BYTE)


@inner
def clock_bound(data: uint64) -> int64:
    """Returns the clock up to which (a proof) or from which on (a disproof) an entry holds."""
    return int64((data >> CLOCK_AT) & BYTE)


@inner
def work_of(data: uint64) -> int64:
    """Returns the bit length of the number of visits below."""
    return int64((data >> WORK_AT) & BYTE)


@inner
def is_disproof_for(data: uint64, plies: int64, clock: int64) -> bool:
    """Returns whether a disproof answers a question of so many plies at a clock."""
    held = plies_of(data)
    if held == ANY_LENGTH or plies == ANY_LENGTH:
        return held == plies
    return held >= plies and clock >= clock_bound(data)


@inner
def probe(table: TablePointers, key: uint64, check: uint64, plies: int64, clock: int64) -> Probe:
    """Returns the Probe of a question; of several proofs the shortest."""
    at = first_of(table, key)
    pn, dn, length, bound, move = int64(-1), int64(-1), int64(0), int64(0), int64(0)
    for i in range(at, at + SLOTS):
        if table.keys[i] != key or check_of(table.data[i]) != check:
            continue
        data = table.data[i]
        p, d = proof_number(table, i), disproof_number(table, i)
        if p == 0:
            if plies_of(data) > plies or clock > clock_bound(data) or (pn == 0 and length <= plies_of(data)):
                continue
        elif pn == 0 or dn == 0:
            continue
        elif d == 0:
            if not is_disproof_for(data, plies, clock):
                continue
        elif plies_of(data) != plies:
            if move == 0:
                move = move_of(data)
            continue
        pn, dn, length, bound = p, d, plies_of(data), clock_bound(data)
        move = move_of(data)
    return Probe(pn, dn, length, bound, move)


@inner
def _replaces(table: TablePointers, i: int64, pn: int64, dn: int64, plies: int64, clock: int64) -> int64:
    """Returns 1 if new numbers supersede an entry of their position, -1 if it supersedes them, else 0."""
    p, d = proof_number(table, i), disproof_number(table, i)
    held, bound = plies_of(table.data[i]), clock_bound(table.data[i])
    if p == 0 and pn == 0:
        if held <= plies and bound >= clock:
            return int64(-1)
        return int64(1 if held >= plies and bound <= clock else 0)
    if d == 0 and dn == 0 and (held == ANY_LENGTH) == (plies == ANY_LENGTH):
        if held >= plies and bound <= clock:
            return int64(-1)
        return int64(1 if held <= plies and bound >= clock else 0)
    if p == 0 or d == 0:
        return int64(0)
    if held == plies or (pn == 0 and held > plies):
        return int64(1)
    return int64(1 if dn == 0 and held < plies and plies != ANY_LENGTH else 0)


@inner
def _worth(table: TablePointers, i: int64) -> int64:
    """Returns the replacement priority of an entry: by the work in it, proofs before estimates."""
    if table.keys[i] == ZERO:
        return int64(-1)
    certain = proof_number(table, i) == 0 or disproof_number(table, i) == 0
    return 2 * work_of(table.data[i]) + (1 if certain else 0)


@inner
def store(
    table: TablePointers,
    key: uint64,
    check: uint64,
    pn: int64,
    dn: int64,
    plies: int64,
    clock: int64,
    move: int64,
    work: int64,
) -> None:
    """Stores the answer to a question, in place of a superseded entry or of the least valuable one."""
    at = first_of(table, key)
    target, least = int64(-1), int64(1 << 40)
    for i in range(at, at + SLOTS):
        if table.keys[i] == key and check_of(table.data[i]) == check:
            order = _replaces(table, int64(i), pn, dn, plies, clock)
            if order < 0:
                return
            if order > 0:
                if target >= 0 and least == -2:
                    table.keys[i] = ZERO  # a second superseded entry
                    continue
                target, least = int64(i), int64(-2)
                continue
        if _worth(table, int64(i)) < least:
            target, least = int64(i), _worth(table, int64(i))
    bits = int64(0)
    while work >> bits and bits < 60:
        bits += 1
    table.keys[target] = key
    table.numbers[target] = (U(pn) << PROOF_AT) | U(dn)
    table.data[target] = (
        check | (U(move) << MOVE_AT) | (U(plies) << PLIES_AT) | (U(clock) << CLOCK_AT) | (U(bits) << WORK_AT)
    )
