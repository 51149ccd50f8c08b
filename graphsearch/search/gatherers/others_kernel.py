"""The kernel of the gatherers other than `flow`, compiled when one of them is first used."""

from __future__ import annotations

from ...graph.arena_kernel import ArenaArrays, ArenaPointers, pointers
from ...jit.compiler import inner, kernel
from ...jit.pointers import ptr
from ...jit.types import int64
from ...position.board import Words
from ...position.words import BoardTable, Position
from ...store.index.locate_kernel import FilterArrays, FilterPointers, filter_pointers
from .. import wave_kernel as wave
from ..param_layout import SCHEME
from ..params import CLASSIC
from ..wave_kernel import WaveArrays, WavePointers, wave_pointers
from ..waves_kernel import NO_RECORDS, NO_SPACE, begin_or_resume, lacks_space
from .budget_kernel import gather_budget
from .classic_kernel import gather_classic


@inner
def _gather(T: BoardTable, A: ArenaPointers, W: WavePointers, F: FilterPointers, root: Position) -> bool:
    """Fills a batch by the arena's gatherer; returns False if it waits for records from the file."""
    target = W.counts[wave.TARGET]
    if A.ints[SCHEME] == CLASSIC:
        return gather_classic(T, A, W, F, root, target)
    return gather_budget(T, A, W, F, root, target)


@kernel
def gather_otherwise(
    T: Words, A: ArenaArrays, W: WaveArrays, B: WaveArrays, F: FilterArrays, root: Words, target: int64
) -> int64:
    """Gathers the leaves of a wave by `classic` or `budget`; else like `waves_kernel.gather`."""
    Ap = pointers(A)
    Wp = wave_pointers(W, B)
    if lacks_space(Ap, Wp, target):
        return int64(NO_SPACE)
    Tp = ptr(T, 0)
    Fp = filter_pointers(F)
    rec = begin_or_resume(Tp, Ap, Wp, Fp, ptr(root, 0), target)
    if rec < 0 or (rec > 0 and not _gather(Tp, Ap, Wp, Fp, ptr(root, 0))):
        return int64(NO_RECORDS)
    return Wp.counts[wave.LEAVES]
