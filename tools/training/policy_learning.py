"""Learning the policy network: what it sees of positions and moves, kept, and compiled passes in float32.

    logit = hidden . (row of what the move leaves + row of where it goes + row of its class) + class's bias
    loss = cross-entropy of the softmax against the target

Targets are an engine's best move, or the softmax of the moves' values at a temperature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy import float32
from numpy.typing import NDArray

from graphsearch.evaluators.builtin.features_kernel import MOST_MEN, attacks_of, list_features, turn_of
from graphsearch.evaluators.builtin.layout import CLASSES, FEATURES, PLACES
from graphsearch.evaluators.builtin.moves_kernel import class_of, kind_of_move, mover_of, place_of
from graphsearch.jit.pointers import ptr
from graphsearch.position.board_kernel import from_square, generate_moves, side_to_move, to_square
from graphsearch.position.mates_kernel import check_masks
from graphsearch.position.tables import load_tables
from tools.training_records import Records, Values
from tools.value_training import F32, OPTIONS, load_words

MEN = 32  # features kept of a position
SMALL_GRADIENT = 1e-4  # of a logit, below which a move is passed over


@dataclass(frozen=True)
class Lessons:
    """Positions as the policy network sees them, and what it is to say.

    Attributes:
      features: uint16[B, MEN]. men: uint8[B], how many of them count.
      offsets: int64[B + 1], where each position's moves begin.
      places, goals, classes: uint16[M], uint16[M], uint8[M] of the moves. targets: float32[M].
    """

    features: NDArray[np.uint16]
    men: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    places: NDArray[np.uint16]
    goals: NDArray[np.uint16]
    classes: NDArray[np.uint8]
    targets: F32

    def __len__(self) -> int:
        return len(self.men)

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Returns what `pass_lessons` takes."""
        return (
            self.features,
            self.men,
            self.offsets,
            self.places,
            self.goals,
            self.classes,
            self.targets,
        )


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def count_moves(tables: Any, records: Any, counts: Any) -> None:
    """Fills the number of legal moves of all records."""
    words, moves = np.zeros(10, np.uint64), np.zeros(256, np.uint16)
    for i in range(len(records)):
        load_words(records[i], words)
        counts[i] = generate_moves(ptr(tables, 0), ptr(words, 0), ptr(moves, 0))


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def describe(
    tables: Any,
    records: Any,
    features: Any,
    men: Any,
    offsets: Any,
    places: Any,
    goals: Any,
    classes: Any,
    best: Any,
) -> None:
    """Fills what the network sees of all records and their moves; `best`: the index of the engine's move."""
    words, child, gains = np.zeros(10, np.uint64), np.zeros(10, np.uint64), np.zeros(40, np.uint64)
    moves, own, other = np.zeros(256, np.uint16), np.zeros(MOST_MEN, np.int64), np.zeros(MOST_MEN, np.int64)
    table, s = ptr(tables, 0), ptr(words, 0)
    for i in range(len(records)):
        load_words(records[i], words)
        stm = side_to_move(s)
        theirs = attacks_of(table, s, 1 - stm)
        n = list_features(s, attacks_of(table, s, stm), theirs, ptr(own, 0), ptr(other, 0))
        men[i] = n
        for j in range(n):
            features[i, j] = own[j]
        turn, masks = turn_of(s, stm), check_masks(table, s)
        best[i] = -1
        for j in range(generate_moves(table, s, ptr(moves, 0))):
            m, at = moves[j], offsets[i] + j
            piece = mover_of(s, m)
            places[at] = place_of(piece, from_square(m), turn)
            goals[at] = place_of(piece, to_square(m), turn)
            classes[at] = class_of(
                kind_of_move(table, s, m, theirs.every, masks, ptr(child, 0), ptr(gains, 0)), piece
            )
            if m == records[i]["best"]:
                best[i] = j


def lessons_of(records: Records, values: Values, temperature: float) -> Lessons:
    """Returns the lessons of records that have a best move or values of their moves.

    Args:
      temperature: of the values, in their unit.
    """
    counts = np.zeros(len(records), np.int64)
    tables = load_tables()
    count_moves(tables, records, counts)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    features, men = np.zeros((len(records), MEN), np.uint16), np.zeros(len(records), np.uint8)
    places, goals = np.zeros(offsets[-1], np.uint16), np.zeros(offsets[-1], np.uint16)
    classes, best = np.zeros(offsets[-1], np.uint8), np.zeros(len(records), np.int64)
    describe(tables, records, features, men, offsets, places, goals, classes, best)
    if (records["best"] != 0).any():
        if (best < 0).any():
            raise ValueError(f"{int((best < 0).sum())} records have a best move that is not legal")
        targets = np.zeros(offsets[-1], np.float32)
        targets[offsets[:-1] + best] = 1
    else:
        if len(values) != offsets[-1]:
            raise ValueError(f"{len(values)} values for {offsets[-1]} legal moves")
        targets = softmax(values.astype(np.float32) / temperature, offsets)
    return Lessons(features, men, offsets, places, goals, classes, targets)


def softmax(logits: F32, offsets: NDArray[np.int64]) -> F32:
    """Returns the softmax of each position's logits."""
    counts = np.diff(offsets)
    top = np.repeat(np.maximum.reduceat(logits, offsets[:-1]), counts)
    powers = np.exp(np.maximum(logits - top, -20.0))
    out: F32 = (powers / np.repeat(np.add.reduceat(powers, offsets[:-1]), counts)).astype(np.float32)
    return out


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def pass_lessons(
    features: Any,
    men: Any,
    offsets: Any,
    places: Any,
    goals: Any,
    classes: Any,
    targets: Any,
    chosen: Any,
    rows: Any,
    bias: Any,
    leaves: Any,
    goes: Any,
    kinds: Any,
    plain: Any,
    grows: Any,
    gbias: Any,
    gleaves: Any,
    ggoes: Any,
    gkinds: Any,
    gplain: Any,
    learns: Any,
) -> Any:
    """Returns the mean cross-entropy and how often the first choice is the target's.

    Adds to the gradients if it learns.

    Args:
      chosen: int64[B], which lessons.
      rows ... plain: the network. grows ... gplain: gradients, of the same shapes.
    """
    width = bias.shape[0]
    sums, hidden, d = np.zeros(width, np.float32), np.zeros(width, np.float32), np.zeros(width, np.float32)
    logits = np.zeros(256, np.float32)
    loss = hits = 0.0
    for i in chosen:
        n, begin = men[i], offsets[i]
        count = offsets[i + 1] - begin
        for h in range(width):
            sums[h] = bias[h]
        for j in range(n):
            r = rows[features[i, j]]
            for h in range(width):
                sums[h] += r[h]
        for h in range(width):
            x = min(max(sums[h], float32(0)), float32(1))
            hidden[h] = x * x
        top, first, wanted = float32(-1e30), 0, 0
        for j in range(count):
            a, b, c = leaves[places[begin + j]], goes[goals[begin + j]], kinds[classes[begin + j]]
            total = float32(0)
            for h in range(width):
                total += hidden[h] * (a[h] + b[h] + c[h])
            logits[j] = total + plain[classes[begin + j]]
            if logits[j] > top:
                top, first = logits[j], j
            if targets[begin + j] > targets[begin + wanted]:
                wanted = j
        hits += first == wanted
        mass = 0.0
        for j in range(count):
            mass += np.exp(float(logits[j] - top))
        log_mass = np.log(mass)
        for h in range(width):
            d[h] = 0
        for j in range(count):
            target, log_prior = targets[begin + j], float(logits[j] - top) - log_mass
            loss -= target * log_prior
            slope = np.exp(log_prior) - target
            if not learns or abs(slope) < SMALL_GRADIENT:
                continue
            g = float32(slope / len(chosen))
            at, to, kind = places[begin + j], goals[begin + j], classes[begin + j]
            a, b, c, ga, gb, gc = leaves[at], goes[to], kinds[kind], gleaves[at], ggoes[to], gkinds[kind]
            for h in range(width):
                x = g * hidden[h]
                ga[h] += x
                gb[h] += x
                gc[h] += x
                d[h] += g * (a[h] + b[h] + c[h])
            gplain[kind] += g
        if learns:
            for h in range(width):
                x = sums[h]
                d[h] = d[h] * 2 * x if x > 0 and x < 1 else float32(0)
                gbias[h] += d[h]
            for j in range(n):
                r = grows[features[i, j]]
                for h in range(width):
                    r[h] += d[h]
    return loss / len(chosen), hits / len(chosen)


def new_network(width: int, rng: np.random.Generator) -> dict[str, F32]:
    """Returns a policy network to begin with."""

    def some(*shape: int) -> F32:
        return rng.uniform(-0.05, 0.05, shape).astype(np.float32)

    return {
        "rows": some(FEATURES, width),
        "bias": np.full(width, 0.2, np.float32),
        "leaves": some(PLACES, width),
        "goes": some(PLACES, width),
        "kinds": some(CLASSES, width),
        "plain": np.zeros(CLASSES, np.float32),
    }
