"""The loop over waves for evaluators that are kernels, and its single steps for all others.

The gatherers other than `flow` have a kernel of their own, compiled when one of them is first used.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..graph import arena_kernel as arena
from ..graph.arena_kernel import (
    LOG_WORDS,
    ArenaArrays,
    end_turns,
    give_record_reserve,
    takes_turn,
    threads_of,
)
from ..graph.reading_kernel import bring
from ..jit.apart import apart
from ..jit.calls import Bound
from ..jit.compiler import bind, inner, kernel
from ..jit.pointers import call_bound, ptr
from ..jit.types import Pointer, int64
from ..position.board import Words
from ..position.board_kernel import check_hash, position_key
from ..position.rules_kernel import MAX_LEGAL_MOVES
from ..position.words import BoardTable, Position
from ..store.index_kernel import FilterArrays, may_be_stored
from ..store.reading_kernel import ReaderArrays
from ..store.record_kernel import HEADER_WORDS
from . import wave_kernel as wave
from .gather_budget_kernel import gather_budget
from .gather_classic_kernel import gather_classic
from .gather_flow_kernel import can_be_followed, gather_flow
from .params import CLASSIC
from .puct_kernel import SCHEME
from .visit_kernel import (
    back_up,
    brings,
    descend,
    evaluate,
    expand,
    is_over,
    is_root_over,
    locate,
    open_leaf,
    start_at_root,
    visit,
)
from .wave_kernel import WaveArrays, clear_wave, drop_entries, field, size_hash

# return values of `run_waves`, or of `gather` in place of the number of leaves
LIMITS_REACHED, NO_SPACE, NO_RECORDS = 0, -1, -2
# return values of `run_waves` that leave a gathered wave to the caller: it is large enough for several
# threads, or another can be gathered meanwhile
MANY_LEAVES, CAN_BE_FOLLOWED = 1, 2
ANY_NUMBER = 1 << 60
VISITS, EVALUATIONS, WAVES, MANY, OVERLAPS = range(5)  # indices into `new_limits`

WORDS_PER_RECORD = HEADER_WORDS + MAX_LEGAL_MOVES // 8  # and the codes of its moves
# Room for one longest path: of overlay notes. Waves of many visits check as they go.
OVERLAY_PER_WAVE = 1 << 10

_entries_for = inner(wave.entries_for)


@inner
def has_space(A: ArenaArrays, target: int64) -> bool:
    """Returns whether a wave of `target` leaves cannot run out of table, record, block or overlay space."""
    counters, threads = A.space, threads_of(A)
    reserved = threads if A.guard_mask else int64(0)
    entries = threads * _entries_for(target)  # each may be new: a mate in one, or a leaf
    if (counters[arena.NODES] + entries) * 20 > A.table_size * 17:  # load at most 0.85
        return False
    records = entries * WORDS_PER_RECORD + reserved * arena.RESERVE
    if counters[arena.RECORD_WORDS] + records > A.records_size:
        return False
    if A.log_size and counters[arena.DIRTY_NODES] + entries > A.log_size // LOG_WORDS:
        return False
    if counters[arena.BLOCK_WORDS] + threads * wave.SPARE_BLOCK_WORDS > A.blocks_size:
        return False
    return counters[arena.OVERLAY_LENGTH] + threads * OVERLAY_PER_WAVE <= A.overlay_size // 2


@inner
def lacks_space(A: ArenaArrays, W: WaveArrays, target: int64) -> bool:
    """Returns whether there is too little space to begin a wave and complete the one in flight before it."""
    return W.counts[wave.STAGE] == wave.NOT_WAITING and not has_space(
        A, target + W.before_counts[wave.LEAVES]
    )


@inner
def begin_wave(A: ArenaArrays, W: WaveArrays, target: int64) -> None:
    """Empties a wave for a batch of `target` leaves."""
    clear_wave(W)
    A.counters[arena.WAVES] += 1
    A.counters[arena.OVERLAY_RESERVED] = A.space[arena.OVERLAY_LENGTH]
    W.counts[wave.TARGET] = target
    if target > 1 or W.before_counts[wave.LEAVES] > 0:
        size_hash(W, target)


@inner
def _find_root(T: BoardTable, A: ArenaArrays, W: WaveArrays, F: FilterArrays, root: Position) -> int64:
    """Returns the root's slot, 0 if it is unknown, -1 if its record may be in the file."""
    rec, _ = locate(T, A, root)
    asked = W.counts[wave.STAGE] == wave.AT_ROOT
    W.counts[wave.STAGE] = wave.NOT_WAITING
    if asked:
        drop_entries(W, int64(0))
        W.counts[wave.MISSES] = 0
    elif rec == 0 and may_be_stored(F, root, position_key(T, root)):
        W.misses[0] = start_at_root(W, root, int64(1))
        W.counts[wave.MISSES] = 1
        W.counts[wave.STAGE] = wave.AT_ROOT
        return int64(-1)
    return rec


@inner
def begin_or_resume(
    T: BoardTable, A: ArenaArrays, W: WaveArrays, F: FilterArrays, root: Position, target: int64
) -> int64:
    """Begins to gather a wave, or continues one that waited for records.

    Returns the slot of the root from which a batch is to be filled, 0 if the wave is complete (of one visit,
    or with an unknown root as its only leaf), -1 if it waits for records from the file.
    """
    if W.counts[wave.STAGE] == wave.NOT_WAITING:
        begin_wave(A, W, target)
    if W.counts[wave.TARGET] == 1 and W.before_counts[wave.LEAVES] == 0:
        return int64(0) if descend(T, A, W, F, root) else int64(-1)
    if W.counts[wave.STAGE] == wave.IN_LEVEL or W.counts[wave.STAGE] == wave.ON_PATH:
        return field(W, int64(0), wave.SLOT)
    rec = _find_root(T, A, W, F, root)
    if rec == 0 and W.before_counts[wave.LEAVES] == 0:
        open_leaf(T, A, W, start_at_root(W, root, int64(1)), check_hash(root))
    return rec


@inner
def _gather(
    T: BoardTable, A: ArenaArrays, W: WaveArrays, F: FilterArrays, root: Position, target: int64
) -> bool:
    """Gathers one wave by `flow`; returns False if it waits for records from the file."""
    rec = begin_or_resume(T, A, W, F, root, target)
    if rec <= 0:
        return rec == 0
    return gather_flow(T, A, W, F, root, rec, W.counts[wave.TARGET])


@kernel
def is_root_decided(T: Words, A: ArenaArrays, root: Words) -> bool:
    """Returns whether the root of a search, `uint64[10]`, has nothing left to prove."""
    return is_over(A, locate(ptr(T, 0), A, ptr(root, 0))[0], ptr(root, 0))


@kernel
def gather(T: Words, A: ArenaArrays, W: WaveArrays, F: FilterArrays, root: Words, target: int64) -> int64:
    """Gathers the leaves of one wave by `flow`; returns their number, NO_SPACE or NO_RECORDS.

    After NO_SPACE the caller grows the arena; after NO_RECORDS it loads the records of `misses` that the file
    has. Then it calls again. Another wave may be evaluated meanwhile (`wave_kernel.behind`).
    """
    if lacks_space(A, W, target):
        return int64(NO_SPACE)
    if not _gather(ptr(T, 0), A, W, F, ptr(root, 0), target):
        return int64(NO_RECORDS)
    return W.counts[wave.LEAVES]


@kernel
def complete(T: Words, A: ArenaArrays, W: WaveArrays, evaluator: int64) -> int64:
    """Expands the evaluated leaves of a gathered wave and backs it up; returns the completed visits."""
    expand(ptr(T, 0), A, W, evaluator)
    visits = back_up(ptr(T, 0), A, W)
    W.counts[wave.DECIDED] = int64(is_root_over(A, W))
    return visits


@kernel
def run_waves(
    A: ArenaArrays,
    W: WaveArrays,
    gathering: Bound,
    bringing: Bound,
    evaluating: Bound,
    completing: Bound,
    limits: NDArray[np.int64],
) -> int64:
    """Runs waves until a limit; returns LIMITS_REACHED, or the caller's next task.

    After NO_SPACE and NO_RECORDS the caller acts as for `gather` and calls again. After MANY_LEAVES and
    CAN_BE_FOLLOWED the wave is only gathered; the caller evaluates and completes it. No wave is cut short, so
    a search that was stopped continues as if it had not stopped. Only the current wave is in flight.

    The kernels of the single steps are called by address, so each is compiled once, in parallel with the
    others.

    Args:
      gathering, completing: `gather` or `gather_otherwise`, and `complete`, bound to the wave.
      bringing: `bring_wave`, or NOT_BOUND. evaluating: the evaluator's batch kernel, bound to the wave.
      limits: `new_limits`.
    """
    while limits[VISITS] > 0 and limits[EVALUATIONS] > 0 and limits[WAVES] > 0:
        leaves = call_bound(gathering)
        while leaves == NO_RECORDS and brings(A, W, bringing):
            leaves = call_bound(gathering)
        if leaves < 0:
            return leaves
        if limits[OVERLAPS] and can_be_followed(A, W):
            return int64(CAN_BE_FOLLOWED)
        if leaves >= limits[MANY]:
            return int64(MANY_LEAVES)
        evaluate(W, evaluating)
        limits[VISITS] -= call_bound(completing)
        limits[EVALUATIONS] -= leaves
        limits[WAVES] -= 1
        if W.counts[wave.DECIDED]:
            break
    return int64(LIMITS_REACHED)


@kernel
def run_visits(
    T: Words,
    A: ArenaArrays,
    W: WaveArrays,
    F: FilterArrays,
    root: Words,
    bringing: Bound,
    evaluating: Bound,
    evaluator: int64,
    limits: NDArray[np.int64],
) -> int64:
    """Runs waves of one visit as `run_waves` does: calls by address would take a third of their time.

    Several threads may run it at once, each with its own wave (`arena_kernel.of_thread`); their turns are a
    limit, too.
    """
    on = ptr(T, 0), A, W, F, ptr(root, 0)
    code = _visit_in_turns(*on, bringing, evaluating, evaluator, ptr(limits, 0))
    give_record_reserve(A)
    return code


@inner
def _visit_in_turns(
    T: BoardTable,
    A: ArenaArrays,
    W: WaveArrays,
    F: FilterArrays,
    root: Position,
    bringing: Bound,
    evaluating: Bound,
    evaluator: int64,
    limits: Pointer[int64],
) -> int64:
    while limits[VISITS] > 0 and limits[EVALUATIONS] > 0 and limits[WAVES] > 0:
        if W.counts[wave.STAGE] == wave.NOT_WAITING:
            if not has_space(A, int64(1)):
                return int64(NO_SPACE)
            if not takes_turn(A):
                break
            begin_wave(A, W, int64(1))
        visits = visit(T, A, W, F, root, evaluator, evaluating, bringing)
        if visits < 0:
            return int64(NO_RECORDS)
        limits[VISITS] -= visits
        limits[EVALUATIONS] -= W.counts[wave.LEAVES]
        limits[WAVES] -= 1
        if W.counts[wave.DECIDED]:
            end_turns(A)
            break
    return int64(LIMITS_REACHED)


class SearchArrays(NamedTuple):
    """The arrays for the kernels of a wave: board tables, arena, wave, filters of the file, packed root."""

    T: Words
    A: ArenaArrays
    W: WaveArrays
    F: FilterArrays
    root: Words


NOT_BOUND = Bound(0, np.zeros(0, np.int64))  # reads nothing, or evaluates evenly: `uniform`, compiled in


def bring_wave(on: SearchArrays, R: ReaderArrays) -> Bound:
    """Returns `bring`, bound to the records that a wave waits for; `on.F`: the reader's filters."""
    W = on.W
    return bind(bring, on.T, on.A, on.F, R, W.words, wave.ENTRY_WORDS, W.misses, W.counts, wave.MISSES)


def new_limits(
    visits: int, evaluations: int, waves: int, *, many: int = ANY_NUMBER, overlaps: bool = False
) -> NDArray[np.int64]:
    """Returns limits for `run_waves`.

    Args:
      visits, evaluations, waves: left to run; these three count down.
      many: waves of so many leaves are left to the caller. overlaps: so are waves that another can follow.
    """
    limits = apart(5, np.int64)
    limits[:] = visits, evaluations, waves, many, overlaps
    return limits


@inner
def _gather_other(T: BoardTable, A: ArenaArrays, W: WaveArrays, F: FilterArrays, root: Position) -> bool:
    """Fills a batch by the arena's gatherer; returns False if it waits for records from the file."""
    target = W.counts[wave.TARGET]
    if A.ints[SCHEME] == CLASSIC:
        return gather_classic(T, A, W, F, root, target)
    return gather_budget(T, A, W, F, root, target)


@kernel
def gather_otherwise(
    T: Words, A: ArenaArrays, W: WaveArrays, F: FilterArrays, root: Words, target: int64
) -> int64:
    """Gathers the leaves of a wave by `classic` or `budget`; else like `gather`."""
    if lacks_space(A, W, target):
        return int64(NO_SPACE)
    Tp = ptr(T, 0)
    rec = begin_or_resume(Tp, A, W, F, ptr(root, 0), target)
    if rec < 0 or (rec > 0 and not _gather_other(Tp, A, W, F, ptr(root, 0))):
        return int64(NO_RECORDS)
    return W.counts[wave.LEAVES]
