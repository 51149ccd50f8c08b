"""Games that a network plays against itself, every position with values of its moves: the compiled part."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from graphsearch.evaluators.nnue.quiescence_kernel import search
from graphsearch.evaluators.quiescence.quiescence_kernel import FRAME_WORDS, KEPT, STACK_WORDS
from graphsearch.jit.pointers import ZERO, adv, popc, ptr
from graphsearch.jit.types import int64
from graphsearch.position.board_kernel import PW, clock_of, generate_moves, in_check, is_dead, make_move
from graphsearch.position.scores import FAR, LEAST_MATE, MATE
from graphsearch.position.words import BLACK, WHITE
from tools.training_records import IN_CHECK, MATED, MOST_SCORE, PAWN, PLAYED, UNKNOWN

WORDS = 9  # of a position without its key
PRUNED = 2500  # thousandths of a pawn below the best move, where values become bounds
WON, DECIDED = 1500, 5000  # scores from where a game may end at any ply, with a chance of 8 and 30 %
FEW_MEN = 5


@njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def label_of(score: Any) -> Any:
    """Returns a score in thousandths of a pawn as a label."""
    if score >= LEAST_MATE:
        return MATED + (MATE - score)
    if score <= -LEAST_MATE:
        return -MATED - (MATE + score)
    return max(-MOST_SCORE, min(MOST_SCORE, score * PAWN // 1000))


@njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def put(records: Any, row: Any, s: Any, score: Any, ply: Any, moves: Any, kind: Any) -> None:
    """Fills a record."""
    r = records[row]
    for i in range(WORDS):
        r["words"][i] = s[i]
    r["score"] = label_of(score)
    r["ply"] = ply
    r["win"] = UNKNOWN
    r["loss"] = UNKNOWN
    r["best"] = 0
    r["moves"] = moves
    r["kind"] = kind


@njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def draw_move(values: Any, n: Any, temperature: Any) -> Any:
    """Returns the index of a move, drawn by the softmax of the values (thousandths) at a temperature."""
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


@njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
def play(
    tables: Any,
    weights: Any,
    stack: Any,
    start: Any,
    ply: Any,
    plies: Any,
    seed: Any,
    temperature: Any,
    blunders: Any,
    children: Any,
    records: Any,
    values: Any,
) -> Any:
    """Plays a game; returns how many records and values it filled.

    Every position gets the value of its best move, by quiescence behind each, and the values of all moves;
    some of the positions behind a move get the value of their own quiescence.

    Args:
      stack: working memory of a network's search.
      start: uint64[10]. ply: of it in its game. plies: the most to play.
      temperature: of the moves' values, thousandths of a pawn. blunders: share of moves drawn evenly.
      children: how many positions behind a move are kept of each position, on average.
      records: `RECORD[...]` out. values: int16 out.
    """
    np.random.seed(seed)
    table, net, root = ptr(tables, 0), ptr(weights, 0), ptr(stack, 0)
    child, area = adv(root, FRAME_WORDS), adv(root, STACK_WORDS)
    moves, scores = np.zeros(256, np.uint16), np.zeros(256, np.int64)
    for i in range(PW):
        stack[i] = start[i]
    rows = used = 0
    for step in range(plies):
        n = generate_moves(table, root, ptr(moves, 0))
        if n == 0 or clock_of(root) >= 100 or is_dead(root):
            break
        if rows + n + 1 > len(records) or used + n > len(values):
            break
        root[KEPT] = ZERO
        best = -FAR
        for i in range(n):
            kept = np.random.random() * n < children
            make_move(table, root, child, moves[i])
            child[KEPT] = ZERO
            beta = FAR if kept or best == -FAR else PRUNED - best
            score = search(table, net, root, area, int64(1), int64(-FAR), int64(beta), int64(0), False)
            scores[i] = -score
            best = max(best, -score)
            if kept and abs(score) < LEAST_MATE:
                kind = IN_CHECK if in_check(table, child) else 0
                put(records, rows, child, score, ply + step + 1, 0, kind)
                rows += 1
        kind = PLAYED | (IN_CHECK if in_check(table, root) else 0)
        put(records, rows, root, best, ply + step, n, kind)
        rows += 1
        for i in range(n):
            values[used + i] = label_of(scores[i])
        used += n
        chosen = np.random.randint(n) if np.random.random() < blunders else draw_move(scores, n, temperature)
        make_move(table, root, child, moves[chosen])
        for i in range(PW):
            stack[i] = stack[FRAME_WORDS + i]
        label = abs(label_of(best))
        if (label > WON and np.random.random() < 0.08) or (label > DECIDED and np.random.random() < 0.3):
            break
        if popc(root[WHITE] | root[BLACK]) <= FEW_MEN and np.random.random() < 0.05:
            break
    return rows, used
