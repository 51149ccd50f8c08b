"""Plays games of a network against itself, and walks off them, with scores: the compiled part."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from graphsearch.evaluators.nnue.evaluation_kernel import (
    DROP_MASK,
    SCORES,
    UNSEEN,
    drop_of,
    score_below,
    search_moves,
)
from graphsearch.evaluators.quiescence.captures_kernel import BIAS
from graphsearch.evaluators.quiescence.quiescence_kernel import KEPT
from graphsearch.jit.pointers import ZERO, popc, ptr
from graphsearch.jit.types import int64
from graphsearch.position.board_kernel import PW, clock_of, generate_moves, in_check, is_dead, make_move
from graphsearch.position.scores import FAR, LEAST_MATE, MATE
from graphsearch.position.words import BLACK, WHITE
from tools.training.records import IN_CHECK, MATED, MOST_SCORE, PAWN, PLAYED, UNKNOWN, engine_chances

WORDS = 9  # of a position without its key
PRUNED = 2500  # thousandths of a pawn below the best move; values beyond are bounds
LEVEL, OPEN, DECIDED = 0.1, 0.9, 0.97  # |win - loss|; a decided game may end at any ply
KEPT_LEVEL, KEPT_DECIDED, ENDED_DECIDED = 0.5, 0.6, 0.06
OPENING_PLIES, KEPT_OPENING = 16, 0.35  # length of the opening, and the share of its positions to look at
FEW_MEN, ENDED_FEW = 5, 0.05
WALKED, WALK_ON, LONGEST_WALK = 0.3, 0.62, 5  # probabilities of a walk, and of its next step; most steps
KEPT_BEST, KEPT_ANY, NEAR = 0.6, 0.03, 300.0  # shares of child positions; NEAR: thousandths of a pawn
WALK_TEMPERATURE = 220.0  # thousandths of a pawn
WALK_EVENLY = 0.2
GROWS = 1.6  # factor on a label for the score of a later search, used to find decided positions
FAR_BELOW = -1_000_000.0

OPTIONS = {"nogil": True, "error_model": "numpy"}


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def label_of(score: Any) -> Any:
    """Returns the label of a score in thousandths of a pawn."""
    if score >= LEAST_MATE:
        return MATED + (MATE - score)
    if score <= -LEAST_MATE:
        return -MATED - (MATE + score)
    return max(-MOST_SCORE, min(MOST_SCORE, score * PAWN // 1000))


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def put(record: Any, s: Any, label: Any, ply: Any, moves: Any, kind: Any) -> None:
    """Fills a record."""
    for i in range(WORDS):
        record["words"][i] = s[i]
    record["score"] = label
    record["ply"] = ply
    record["win"] = UNKNOWN
    record["loss"] = UNKNOWN
    record["best"] = 0
    record["moves"] = moves
    record["kind"] = kind


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def decidedness(label: Any, ply: Any) -> Any:
    """Returns |win - loss| of a label."""
    win, loss = engine_chances(GROWS * label, ply)
    return abs(win - loss)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def wanted(decided: Any) -> Any:
    """Returns whether to keep a position by its |win - loss|; random, to flatten the distribution."""
    if LEVEL <= decided < OPEN:
        return True
    return np.random.random() < (KEPT_LEVEL if decided < LEVEL else KEPT_DECIDED)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def draw_move(values: Any, n: Any, temperature: Any) -> Any:
    """Returns the index of a random move, by the softmax of the values at a temperature in their unit."""
    best = values[:n].max()
    total = 0.0
    for i in range(n):
        total += np.exp((values[i] - best) / temperature)
    left = np.random.random() * total
    for i in range(n):
        left -= np.exp((values[i] - best) / temperature)
        if left <= 0:
            return i
    return n - 1


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def seen_values(scratch: Any, n: Any, values: Any) -> None:
    """Fills the scores of the moves seen by `search_moves`, FAR_BELOW for the others."""
    for i in range(n):
        word = scratch[SCORES + i]
        values[i] = FAR_BELOW if word == UNSEEN else float(int64(word & DROP_MASK) - BIAS)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def walk(
    table: Any, net: Any, s: Any, values: Any, moves: Any, n: Any, ply: Any, work: Any, scratch: Any, out: Any
) -> Any:
    """Writes the positions of a walk off a position, as a search might make it; returns their number.

    Args:
      s: the position, uint64[10]; changed.
      values: of its n moves, float64[256]; changed. moves: uint16[256]; changed.
      work: uint64[10]. scratch: of `search_moves`, a pointer. out: records.
    """
    rows = 0
    for step in range(LONGEST_WALK):
        evenly = np.random.random() < WALK_EVENLY
        chosen = np.random.randint(n) if evenly else draw_move(values, n, WALK_TEMPERATURE)
        make_move(table, ptr(s, 0), ptr(work, 0), moves[chosen])
        s[:] = work
        n = generate_moves(table, ptr(s, 0), ptr(moves, 0))
        if n == 0 or is_dead(ptr(s, 0)) or clock_of(ptr(s, 0)) >= 100:
            break
        score, _ = search_moves(table, net, ptr(s, 0), ptr(moves, 0), n, scratch)
        if abs(score) >= LEAST_MATE:
            break
        label = label_of(score)
        if wanted(decidedness(label, ply + step + 1)):
            put(out[rows], s, label, ply + step + 1, 0, IN_CHECK if in_check(table, ptr(s, 0)) else 0)
            rows += 1
        if np.random.random() > WALK_ON:
            break
        seen_values(scratch, n, values)
    return rows


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def score_all(table: Any, net: Any, moves: Any, n: Any, stack: Any, scores: Any) -> None:
    """Fills the scores of all moves of the position in the stack; from PRUNED below the best on, bounds.

    A move's score is the quiescence score after it, minus its drop by replies in the last `search_moves`,
    which tried the replies to the best moves.
    """
    best = -FAR
    for i in range(n):
        lowest = -FAR if best == -FAR else best - PRUNED
        scores[i] = score_below(table, net, stack, int64(0), moves[i], int64(lowest), int64(FAR))
        best = max(best, int64(scores[i]))
    for i in range(n):
        scores[i] -= drop_of(stack, i)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def keep_children(table: Any, s: Any, scores: Any, moves: Any, n: Any, ply: Any, work: Any, out: Any) -> Any:
    """Writes some child positions of a position, mostly after good moves; returns their number.

    Args:
      s: the position, uint64[10]. scores: of its n moves. ply: of it. work: uint64[10]. out: records.
    """
    rows, best = 0, scores[:n].max()
    for i in range(n):
        if abs(scores[i]) >= LEAST_MATE - 1000 or rows >= len(out):
            continue
        if np.random.random() > KEPT_BEST * np.exp((scores[i] - best) / NEAR) + KEPT_ANY:
            continue
        label = label_of(int64(-scores[i]))
        if wanted(decidedness(label, ply + 1)):
            make_move(table, ptr(s, 0), ptr(work, 0), moves[i])
            put(out[rows], work, label, ply + 1, 0, IN_CHECK if in_check(table, ptr(work, 0)) else 0)
            rows += 1
    return rows


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def play(
    tables: Any,
    weights: Any,
    scratch: Any,
    start: Any,
    ply: Any,
    plies: Any,
    seed: Any,
    temperature: Any,
    blunders: Any,
    looked: Any,
    records: Any,
    values: Any,
) -> Any:
    """Plays a game; returns the numbers of records and values filled.

    A position of the game gets the score of the network's search and the values of all moves, by `score_all`;
    its child positions get these values; positions of a walk off it get the scores of their own searches.

    Args:
      scratch: working memory of the network's search, uint64.
      start: uint64[10]. ply: of `start` in its game. plies: maximum to play.
      temperature: of the moves' values, thousandths of a pawn. blunders: share of uniformly drawn moves.
      looked: share of the positions to write, with values of their moves.
      records: `RECORD[...]` out. values: int16 out.
    """
    np.random.seed(seed)
    table, net, stack = ptr(tables, 0), ptr(weights, 0), ptr(scratch, 0)
    moves, there = np.zeros(256, np.uint16), np.zeros(256, np.uint16)
    scores, off = np.zeros(256, np.float64), np.zeros(256, np.float64)
    s, child, work = start.copy(), np.zeros(PW, np.uint64), np.zeros(PW, np.uint64)
    rows = used = 0
    for step in range(plies):
        n = generate_moves(table, ptr(s, 0), ptr(moves, 0))
        if n == 0 or clock_of(ptr(s, 0)) >= 100 or is_dead(ptr(s, 0)):
            break
        if rows + 1 + n + LONGEST_WALK > len(records) or used + n > len(values):
            break
        score, _ = search_moves(table, net, ptr(s, 0), ptr(moves, 0), n, stack)
        label = label_of(score)
        decided = decidedness(label, ply + step)
        looks = ply + step >= OPENING_PLIES or np.random.random() < KEPT_OPENING
        looks = looks and (looked >= 1.0 or np.random.random() < looked)
        if looks:
            for i in range(PW):
                stack[i] = s[i]
            stack[KEPT] = ZERO
            score_all(table, net, ptr(moves, 0), n, stack, scores)
        else:
            seen_values(stack, n, scores)
        if looks and abs(score) < LEAST_MATE and wanted(decided):
            put(
                records[rows],
                s,
                label,
                ply + step,
                n,
                PLAYED | (IN_CHECK if in_check(table, ptr(s, 0)) else 0),
            )
            for i in range(n):
                values[used + i] = label_of(int64(scores[i]))
            rows, used = rows + 1, used + n
        if looks:
            rows += keep_children(table, s, scores, moves, n, ply + step, work, records[rows:])
        if looks and np.random.random() < WALKED:
            child[:], there[:], off[:] = s, moves, scores
            rows += walk(table, net, child, off, there, n, ply + step, work, stack, records[rows:])
        chosen = np.random.randint(n) if np.random.random() < blunders else draw_move(scores, n, temperature)
        make_move(table, ptr(s, 0), ptr(work, 0), moves[chosen])
        s[:] = work
        if decided > DECIDED and np.random.random() < ENDED_DECIDED:
            break
        if popc(s[WHITE] | s[BLACK]) <= FEW_MEN and np.random.random() < ENDED_FEW:
            break
    return rows, used
