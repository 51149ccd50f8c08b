"""Mates known without visits below them: in one move, from an entry, or from a prover's line.

V of such a record is the result, and D the plies to the mate; its evaluator is the rules.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..graph import arena_kernel as arena
from ..graph.arena_kernel import (
    ArenaArrays,
    find,
    grow_block,
    insert,
    mark_dirty,
    new_record,
    rank_key,
    refresh,
    set_best,
)
from ..jit.compiler import inner, kernel
from ..jit.pointers import ptr
from ..jit.types import Pointer, float32, int64, uint16, uint64
from ..position.board import CHECKMATE, CLOCK_DRAW
from ..position.board_kernel import PW, check_hash, clock_of, generate_moves, hashes_of, make_move
from ..position.values import MATE
from ..position.words import BoardTable, Position
from ..store.bounds_kernel import mate_kept
from ..store.record_kernel import (
    STALE,
    TERMINAL_FLAGS,
    add_state,
    code_at,
    code_bytes,
    draw_visits,
    edge_at,
    edge_visits,
    flags_with,
    is_exact,
    key_at,
    materialised,
    move_count,
    prior_code,
    set_by_rule,
    set_draws_and_flags,
    set_edge_value,
    set_edge_visits,
    set_source,
    set_value,
    stride_at,
    value_draws,
    value_of,
)
from ..store.transposition_kernel import STORED, bound_in, find_entry, proves_mate, value_in

WON_FLAGS, LOST_FLAGS, MATED_FLAGS = flags_with(1, 1), flags_with(-1, -1), TERMINAL_FLAGS[CHECKMATE]
KNOWN_SHARE = 0.75  # P of the mating move in a record made without an evaluator; the others share the rest


@inner
def mate_in(data: uint64) -> int64:
    """Returns the plies to the mate that an entry proves, negative if it is a loss; 0 if it proves none."""
    value, bound = value_in(data), bound_in(data)
    if not proves_mate(value, bound):
        return int64(0)
    return MATE - value if value > 0 else -(MATE + value)


@inner
def _settle(A: ArenaArrays, rec: int64, plies: int64) -> None:
    """Sets a record's V, D and bounds to a mate in `plies` plies, by the rules."""
    flags = WON_FLAGS if plies > 0 else LOST_FLAGS
    set_value(A, rec, float32(1.0) if plies > 0 else float32(-1.0))
    set_draws_and_flags(A, rec, abs(plies), flags)
    add_state(A, rec, STALE)
    set_by_rule(A, rec)


@inner
def take_known_mate(A: ArenaArrays, rec: int64, s: Position) -> None:
    """Sets the mate in an open record if an entry proves one of its position `s`."""
    if A.entries.counters[STORED] == 0 or move_count(A, rec) == 0 or is_exact(A, rec):
        return
    at = find_entry(A.entries, key_at(A, rec), check_hash(s))
    if at < 0:
        return
    plies = mate_in(A.entries.data[at])
    if plies != 0 and abs(plies) + clock_of(s) <= CLOCK_DRAW:
        _settle(A, rec, plies)
        mark_dirty(A, rec, s)


@inner
def record_mate(
    A: ArenaArrays,
    s: Position,
    key: uint64,
    check: uint64,
    moves: Pointer[uint16],
    n: int64,
    best: int64,
    plies: int64,
) -> int64:
    """Returns a new record of a position with a mate in `plies` plies by the move at `best`.

    `moves`: the `n` legal ones, in canonical order. `plies`: negative if the side to move is mated.
    """
    value, flags = (float32(1.0), WON_FLAGS) if plies > 0 else (float32(-1.0), LOST_FLAGS)
    rec = new_record(A, s, key, n, value, abs(plies), int64(flags))
    codes = code_bytes(A, rec)
    other = prior_code(float32((1.0 - KNOWN_SHARE) / n))
    for j in range(n):
        codes[j] = other
    codes[best] = prior_code(float32(KNOWN_SHARE))
    set_best(A, rec, moves)
    set_source(A, rec, int64(0), A.ints[arena.RUN])
    insert(A, key, check, rec)
    return rec


@inner
def _place(moves: Pointer[uint16], n: int64, move: uint16) -> int64:
    """Returns the index of a move in canonical order."""
    for j in range(n):
        if moves[j] == move:
            return int64(j)
    return int64(0)


@inner
def _rank(A: ArenaArrays, rec: int64, j: int64) -> int64:
    """Returns the rank in descending P of the move at `j` in canonical order."""
    own = rank_key(code_at(A, rec, j), j)
    rank = int64(0)
    for i in range(move_count(A, rec)):
        if rank_key(code_at(A, rec, i), i) > own:
            rank += 1
    return rank


@inner
def _learn(T: BoardTable, A: ArenaArrays, s: Position, rec: int64, j: int64, plies: int64) -> bool:
    """Writes a mate to a record and to the edge of its move at `j`; returns whether it added a visit."""
    known = mate_kept(value_of(A, rec), value_draws(A, rec))
    if known == 0 or abs(plies) < known:
        _settle(A, rec, plies)
    rank = _rank(A, rec, j)
    if rank >= materialised(A, rec):
        grow_block(T, A, s, rec, rank + 1, False)
    edge = edge_at(A, rec, rank)
    n = edge_visits(A, edge)
    is_new = n == draw_visits(A, edge, stride_at(A, rec))
    set_edge_visits(A, edge, n + 1 if is_new else n)
    set_edge_value(A, edge, float32(1.0) if plies > 0 else float32(-1.0), abs(plies))
    refresh(A, rec)
    mark_dirty(A, rec, s)
    return is_new


@inner
def _find_or_record(
    T: BoardTable, A: ArenaArrays, s: Position, move: uint16, plies: int64
) -> tuple[int64, int64]:
    """Returns (slot of a position's record, created if missing, index of a move in canonical order)."""
    key, check = hashes_of(T, s)
    n = int64(generate_moves(T, s, A.moves))
    j = _place(A.moves, n, move)
    rec = find(A, key, check)
    return rec if rec else record_mate(A, s, key, check, A.moves, n, j, plies), j


@inner
def _record_mated(T: BoardTable, A: ArenaArrays, s: Position) -> None:
    """Creates the record of a checkmate at the end of a line, if it is missing."""
    key, check = hashes_of(T, s)
    if find(A, key, check) == 0:
        rec = new_record(A, s, key, int64(0), float32(-1.0), int64(0), int64(MATED_FLAGS))
        set_source(A, rec, int64(0), A.ints[arena.RUN])
        insert(A, key, check, rec)


@kernel
def learn_line(
    T: NDArray[np.uint64], A: ArenaArrays, words: NDArray[np.uint64], moves: NDArray[np.uint16]
) -> None:
    """Writes a mate to the records along its line; creates missing records.

    The arena must have room, and every record of the line that is in the file must be in memory.

    Args:
      words: uint64[(L + 1) * 10], the first position and room for the following ones.
      moves: uint16[L], to the mate: best attack and longest defence.
    """
    Tp, length = ptr(T, 0), moves.size
    for k in range(length):
        make_move(Tp, ptr(words, k * PW), ptr(words, (k + 1) * PW), moves[k])
    _record_mated(Tp, A, ptr(words, length * PW))
    for k in range(length - 1, -1, -1):
        s = ptr(words, k * PW)
        plies = int64(length - k)
        plies = plies if plies & 1 else -plies
        rec, j = _find_or_record(Tp, A, s, moves[k], plies)
        if _learn(Tp, A, s, rec, j, plies) and k == 0:
            A.counters[arena.VISITS] += 1
