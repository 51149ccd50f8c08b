"""Games that deal what networks learn by distillation: groups of moves, and lessons of priors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphsearch.evaluators.builtin.layout import CLASSES, FEATURES
from graphsearch.evaluators.nnue.evaluation_kernel import scratch_words
from graphsearch.evaluators.nnue.layout import WIDTH
from graphsearch.position.board import POSITION_WORDS, pack
from graphsearch.position.tables import load_tables
from tools.training.examples_kernel import LessonArrays, room_for, write_lessons
from tools.training.groups_kernel import HINTS, MOST_MEMBERS, OVER, Games, Starts, write_groups
from tools.training.make import Line, starts
from tools.training.policy_learning import Lessons
from tools.training.records import OPTIONS, PAWN, RECORD, Records, load_words, read_sets, words_of
from tools.training.value_learning import stack_of

OPEN_SCORE = 2 * PAWN  # above those of positions of sets that begin games
MORE_OF_A_STACK = 10_000  # such positions than of the stack with fewer men
OPEN_SHARE = 0.85  # of the games
SHARP = 2.0  # power of the priors that are targets: it has the least cross-entropy against Stockfish's moves


class Groups(NamedTuple):
    """Groups of records.

    Attributes:
      hints: float32[members, HINTS]. begins: int64[G + 1], index of each group's first member.
    """

    members: Records
    hints: NDArray[np.float32]
    begins: NDArray[np.int64]


class Table:
    """Parallel games, and the network that labels their groups.

    Attributes:
      games: as they stand. scratch: work area for the network.
    """

    def __init__(self, weights: NDArray[np.int64], beginnings: Starts, games: int) -> None:
        self._tables, self._weights, self._starts = load_tables(), weights, beginnings
        words = np.zeros((games, POSITION_WORDS), np.uint64)
        self.games = Games(words, np.full(games, OVER, np.int64), np.zeros(games))
        self.scratch = np.zeros(scratch_words(int(weights[WIDTH])), np.uint64)

    def deal(self, seed: int) -> Groups:
        """Returns a new group from each game."""
        games = len(self.games.ply)
        members, begins = np.zeros(MOST_MEMBERS * games, RECORD), np.zeros(games + 1, np.int64)
        hints = np.zeros((len(members), HINTS), np.float32)
        out = members, hints, begins
        write_groups(self._tables, self._weights, self._starts, self.games, seed, self.scratch, *out)
        return Groups(members[: begins[-1]], hints[: begins[-1]], begins)

    def lessons(self, seed: int, share: float = 1.0) -> LessonArrays:
        """Returns lessons of a share of the games' positions, without new moves."""
        out = room_for(len(self.games.ply))
        count = write_lessons(self._tables, self._weights, self.games, share, seed, self.scratch, out)
        return LessonArrays(*(array[:count] for array in out))


def beginnings_of(count: int, seed: int, openings: Sequence[Line]) -> Starts:
    """Returns start positions of games."""
    some = list(islice(starts(np.random.default_rng(seed), openings), count))
    words = np.array([pack(start.board) for start in some], np.uint64)
    return Starts(words, np.array([start.ply for start in some], np.int64))


def open_starts(folders: Sequence[Path], seed: int) -> Starts:
    """Returns open positions of some sets, more of the stacks of many men."""
    rng, records = np.random.default_rng(seed), read_sets(folders)[0]
    records = records[np.abs(records["score"]) < OPEN_SCORE]
    stacks = np.zeros(len(records), np.int64)
    find_stacks(records, stacks)
    chosen = [rng.choice(np.flatnonzero(stacks == k), MORE_OF_A_STACK * (k + 1)) for k in np.unique(stacks)]
    records = records[np.concatenate(chosen)]
    return Starts(words_of(records), records["ply"].astype(np.int64))


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def find_stacks(records: Any, stacks: Any) -> None:
    """Fills the stacks of all records."""
    words = np.zeros(POSITION_WORDS, np.uint64)
    for i in range(len(records)):
        load_words(records[i], words)
        stacks[i] = stack_of(words)


def mixed(some: Starts, others: Starts, share: float) -> Starts:
    """Returns both, repeating the first until the others are about this share."""
    times = max(1, round(len(others.ply) * (1 - share) / share / len(some.ply)))
    words, ply = np.tile(some.words, (times, 1)), np.tile(some.ply, times)
    return Starts(np.concatenate([words, others.words]), np.concatenate([ply, others.ply]))


def joined(parts: Sequence[Groups]) -> Groups:
    """Returns the concatenated groups of all parts."""
    sizes = np.concatenate([np.diff(part.begins) for part in parts])
    begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    members = np.concatenate([part.members for part in parts])
    return Groups(members, np.concatenate([part.hints for part in parts]), begins)


def sharpened(lessons: LessonArrays) -> LessonArrays:
    """Returns lessons whose targets are a power of the priors, in float16."""
    powers = lessons.targets**SHARP
    targets = (powers / powers.sum(1, keepdims=True)).astype("float16")
    return lessons._replace(targets=targets)


def packed(lessons: LessonArrays) -> Lessons:
    """Returns lessons without the room for more features and moves."""
    there = lessons.classes < CLASSES
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(there.sum(1))])
    seen = (lessons.features < FEATURES).sum(1).astype(np.uint8)
    of_moves = (lessons.places, lessons.goals, lessons.classes, lessons.targets.astype(np.float32))
    return Lessons(lessons.features, seen, offsets, *(array[there] for array in of_moves))
