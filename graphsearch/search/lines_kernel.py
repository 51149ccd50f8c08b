"""The lines to the leaves of a wave: the last positions of each path, with the game before its root.

    game 1 <- game 0 <- root <- entry <- entry <- leaf        a place is an entry, or -1 - i for `game` i

The first entry to reach a position makes it a leaf, so a leaf has one line even if other entries reach it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..evaluators.lines import LINE_PLIES
from ..jit.compiler import inner, kernel
from ..jit.pointers import adv, as_i64, ptr
from ..jit.types import Pointer, int64, uint64
from ..position.board_kernel import PW, clock_of
from ..position.words import KEY
from .wave_kernel import ENTRY_WORDS, PARENT

NOWHERE = -(1 << 62)


@inner
def _words_at(entries: Pointer[uint64], game: Pointer[uint64], place: int64) -> Pointer[uint64]:
    if place >= 0:
        return adv(entries, place * ENTRY_WORDS)
    return adv(game, (-1 - place) * PW)


@inner
def _before(entries: Pointer[uint64], length: int64, place: int64) -> int64:
    """Returns the previous place on the line, NOWHERE if it is unknown."""
    i = int64(0)
    if place >= 0:
        parent = as_i64(entries)[place * ENTRY_WORDS + PARENT]
        if parent >= 0:
            return parent
    else:
        i = -place
    return -1 - i if i < length else int64(NOWHERE)


@inner
def _stood_before(entries: Pointer[uint64], game: Pointer[uint64], length: int64, place: int64) -> bool:
    """Returns whether a place's position occurs earlier on its line, after the last irreversible move."""
    s = _words_at(entries, game, place)
    for back in range(1, clock_of(s) + 1):
        place = _before(entries, length, place)
        if place == NOWHERE:
            return False
        if back >= 4 and back & 1 == 0 and _words_at(entries, game, place)[KEY] == s[KEY]:
            return True
    return False


@kernel
def trace_lines(
    entries: NDArray[np.uint64],
    leaf_entry: NDArray[np.int64],
    leaves: int64,
    game: NDArray[np.uint64],
    length: int64,
    words: NDArray[np.uint64],
    repeated: NDArray[np.bool_],
) -> None:
    """Writes the lines of leaves (`evaluators.lines.Lines`).

    Args:
      entries, leaf_entry: of the wave (`wave_kernel.WaveArrays`). leaves: number of leaves.
      game: uint64, packed positions before the root, the latest first. length: number of positions.
      words: output, uint64 zeros on entry. repeated: output, bool, False on entry.
    """
    entries_at, game_at = ptr(entries, 0), ptr(game, 0)
    for leaf in range(leaves):
        place = leaf_entry[leaf]
        for ply in range(LINE_PLIES):
            s, at = _words_at(entries_at, game_at, place), leaf * LINE_PLIES + ply
            for i in range(PW):
                words[at * PW + i] = s[i]
            repeated[at] = _stood_before(entries_at, game_at, length, place)
            place = _before(entries_at, length, place)
            if place == NOWHERE:
                break
