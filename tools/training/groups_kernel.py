"""Makes groups of moves of one position, from games that are played on demand: the compiled part.

Many games run in parallel. Their moves are drawn by the priors of a network, without a search, so a position
costs little. After every few plies, a game yields one group: moves of its position, or of one a few plies
off, drawn by the priors. Each member is the quiet position at the end of the quiescence after its move,
labelled by the network. Its hints are the sums of the network's first layer there, from which the label is
computed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphsearch.evaluators.nnue.evaluation_kernel import (
    AREA,
    LOGIT_BIAS,
    LOGIT_UNIT,
    ORDER,
    POLICY,
    SEEN_AT,
    index_in,
    order_by_policy,
)
from graphsearch.evaluators.nnue.layers_kernel import SUMS
from graphsearch.evaluators.nnue.layout import FIRST
from graphsearch.evaluators.nnue.quiescence_kernel import search, static_at, work_at
from graphsearch.evaluators.quiescence.quiescence_kernel import FRAME_WORDS, KEPT, LEAF, LIST, take_best
from graphsearch.jit.pointers import ONE, ZERO, U, adv, as_i32, popc, ptr
from graphsearch.jit.types import int64
from graphsearch.position.board_kernel import PW, clock_of, generate_moves, is_dead, make_move
from graphsearch.position.scores import FAR, LEAST_MATE
from graphsearch.position.words import BLACK, META, WHITE
from tools.training.games_kernel import draw_move, label_of, put
from tools.training.records import PAWN

MOST_MEMBERS, LEAST_MEMBERS = 8, 3
TURNED = 4  # kind of a record: the side to move is the one that made the group's move
LEAST_STEP, MOST_STEP = 2, 7  # range of plies of a game between two groups
HEATS = (0.3, 0.9)  # range of temperatures of the priors in a game
RANDOM_MOVES, NO_RANDOM_MOVES = 6, 0.5  # at the beginning: maximum, and share of games without
EVENLY = 30.0  # temperature of random moves
OFF, MOST_OFF, OFF_HEAT = 0.5, 3, 1.3  # share of groups off the game, their maximum plies, their temperature
PICKED_HEAT = 1.0  # temperature of the priors for a group's moves
MOST_PLIES = 240
DECIDED, ENDED_DECIDED = 4 * PAWN, 0.6  # best value above which a game ends, and the probability of that
FEW_MEN, ENDED_FEW = 5, 0.2
OVER = -1  # ply of a finished game
HINTS = FIRST  # of a member
HINT_UNIT, MOST_HINT = 127 * 64, 1.25  # the next layer clips a sum at one unit

OPTIONS = {"nogil": True, "error_model": "numpy"}


class Games(NamedTuple):
    """Games in parallel.

    Attributes:
      words: uint64[G, PW], current positions. ply: int64[G], or OVER. heat: float64[G], temperatures.
    """

    words: Any
    ply: Any
    heat: Any


class Starts(NamedTuple):
    """Start positions of games, uint64[S, PW], and their plies, int64[S]."""

    words: NDArray[np.uint64]
    ply: NDArray[np.int64]


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def logit_in(word: Any) -> Any:
    """Returns the logit packed in a word of a move order."""
    return (int64(word >> SEEN_AT) - LOGIT_BIAS) / LOGIT_UNIT


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def draw_by_logits(order: Any, n: Any, heat: Any) -> Any:
    """Returns the index of a random move, by the softmax of the logits in a move order at a temperature."""
    logits = np.empty(n)
    for i in range(n):
        logits[i] = logit_in(order[LIST + i])
    return index_in(order[LIST + draw_move(logits, n, heat)])


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def go_on(table: Any, net: Any, heat: Any, plies: Any, moves: Any, n: Any, scratch: Any) -> Any:
    """Plays moves from the position in the first frame; returns the last position's move count, 0 if over.

    Args:
      moves: uint16[256], the n legal moves; changed. scratch: of `search_moves`, a pointer.
    """
    order, child = adv(scratch, int64(ORDER)), adv(scratch, int64(FRAME_WORDS))
    for _ in range(plies):
        order_by_policy(table, net, scratch, ptr(moves, 0), n, order, adv(scratch, int64(POLICY)))
        make_move(table, scratch, child, moves[draw_by_logits(order, n, heat)])
        for i in range(PW):
            scratch[i] = child[i]
        n = generate_moves(table, scratch, ptr(moves, 0))
        if n == 0 or clock_of(scratch) >= 100 or is_dead(scratch):
            return 0
    return n


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def place(table: Any, words: Any, moves: Any, scratch: Any) -> Any:
    """Copies a position to the first frame; returns its number of moves."""
    for i in range(PW):
        scratch[i] = words[i]
    return generate_moves(table, scratch, ptr(moves, 0))


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def begin_game(table: Any, net: Any, starts: Any, games: Any, g: Any, moves: Any, scratch: Any) -> Any:
    """Begins a game with some random moves; returns its position's number of moves, 0 if it is over."""
    at = np.random.randint(len(starts.ply))
    games.heat[g] = np.random.uniform(HEATS[0], HEATS[1])
    n = place(table, starts.words[at], moves, scratch)
    made = 0 if np.random.random() < NO_RANDOM_MOVES else np.random.randint(RANDOM_MOVES + 1)
    games.ply[g] = starts.ply[at] + made
    return go_on(table, net, EVENLY, made, moves, n, scratch) if n else 0


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def next_parent(table: Any, net: Any, starts: Any, games: Any, g: Any, moves: Any, scratch: Any) -> Any:
    """Writes the next group's position to the first frame; returns its number of moves and its ply."""
    while True:
        if games.ply[g] == OVER:
            n = begin_game(table, net, starts, games, g, moves, scratch)
            step = np.random.randint(MOST_STEP)
        else:
            n = place(table, games.words[g], moves, scratch)
            step = np.random.randint(LEAST_STEP, MOST_STEP)
        n = go_on(table, net, games.heat[g], step, moves, n, scratch) if n else 0
        games.ply[g] += step
        if n and games.ply[g] < MOST_PLIES:
            break
        games.ply[g] = OVER
    for i in range(PW):
        games.words[g, i] = scratch[i]
    ply = games.ply[g]
    if np.random.random() < OFF:
        off = np.random.randint(1, MOST_OFF + 1)
        n, ply = go_on(table, net, OFF_HEAT, off, moves, n, scratch), ply + off
    return n, ply


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def pick(table: Any, net: Any, moves: Any, n: Any, scratch: Any) -> None:
    """Orders the moves of the position in the first frame randomly by the priors (Gumbel noise)."""
    order = adv(scratch, int64(ORDER))
    order_by_policy(table, net, scratch, ptr(moves, 0), n, order, adv(scratch, int64(POLICY)))
    for i in range(n):
        word = order[LIST + i]
        gumbel = -np.log(-np.log(1e-12 + (1 - 1e-9) * np.random.random()))
        seen = U(int64((logit_in(word) + PICKED_HEAT * gumbel) * LOGIT_UNIT) + LOGIT_BIAS)
        order[LIST + i] = (seen << SEEN_AT) | (word & ((ONE << SEEN_AT) - ONE))


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def write_hints(table: Any, net: Any, leaf: Any, scratch: Any, out: Any) -> None:
    """Writes the hints of a position; the frame above that of the group's move is used for it."""
    frame, area = adv(scratch, int64(2 * FRAME_WORDS)), adv(scratch, int64(AREA))
    for i in range(PW):
        frame[i] = leaf[i]
    frame[KEPT] = ZERO
    static_at(table, net, scratch, int64(2), area)
    sums = as_i32(adv(work_at(net, area), int64(SUMS)))
    for k in range(HINTS):
        out[k] = min(max(sums[k] / HINT_UNIT, -MOST_HINT), MOST_HINT)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def write_group(
    table: Any, net: Any, ply: Any, moves: Any, n: Any, scratch: Any, out: Any, hints: Any
) -> Any:
    """Writes the group of the position in the first frame; returns its number of members, 0 if too few.

    Args:
      out: `RECORD[MOST_MEMBERS]`, filled. A member is a quiet position, with the score of its move.
      hints: float32[MOST_MEMBERS, HINTS], filled.
    """
    pick(table, net, moves, n, scratch)
    order, child = adv(scratch, int64(ORDER)), adv(scratch, int64(FRAME_WORDS))
    leaf, area = adv(child, int64(LEAF)), adv(scratch, int64(AREA))
    turn, rows = scratch[META] & ONE, 0
    scratch[KEPT] = ZERO
    for _ in range(n):
        if rows == MOST_MEMBERS:
            break
        make_move(table, scratch, child, moves[index_in(take_best(order))])
        child[KEPT] = ZERO
        if clock_of(child) >= 100 or is_dead(child):
            continue
        score = search(table, net, scratch, area, int64(1), int64(-FAR), int64(FAR), int64(0), True)
        if abs(score) >= LEAST_MATE or is_dead(leaf):
            continue
        turned = (leaf[META] & ONE) == turn
        label = label_of(-score if turned else score)
        put(out[rows], leaf, label, ply + 1, 0, TURNED if turned else 0)
        write_hints(table, net, leaf, scratch, hints[rows])
        rows += 1
    return rows if rows >= LEAST_MEMBERS else 0


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def worth_of(member: Any) -> Any:
    """Returns a member's score, seen by the side that makes the group's moves."""
    return float(member["score"]) if member["kind"] & TURNED else -float(member["score"])


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def end_game(games: Any, g: Any, members: Any) -> None:
    """Ends a game with some probability if it is decided or has few pieces."""
    best = worth_of(members[0])
    for i in range(1, len(members)):
        best = max(best, worth_of(members[i]))
    if abs(best) > DECIDED and np.random.random() < ENDED_DECIDED:
        games.ply[g] = OVER
    if popc(games.words[g, WHITE] | games.words[g, BLACK]) <= FEW_MEN and np.random.random() < ENDED_FEW:
        games.ply[g] = OVER


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def write_groups(
    tables: Any,
    weights: Any,
    starts: Any,
    games: Any,
    seed: Any,
    scratch: Any,
    out: Any,
    hints: Any,
    begins: Any,
) -> None:
    """Continues each game and writes a group of it.

    Args:
      weights: of the labelling network. games: `Games`, changed.
      scratch: uint64[scratch_words(width)].
      out: `RECORD[MOST_MEMBERS * G]` out. hints: float32[MOST_MEMBERS * G, HINTS] out.
      begins: int64[G + 1] out, index of each group's first member.
    """
    np.random.seed(seed)
    table, net, stack = ptr(tables, 0), ptr(weights, 0), ptr(scratch, 0)
    moves = np.zeros(256, np.uint16)
    begins[0] = 0
    for g in range(len(games.ply)):
        at, count = begins[g], 0
        while count == 0:
            n, ply = next_parent(table, net, starts, games, g, moves, stack)
            if n >= LEAST_MEMBERS:
                count = write_group(table, net, ply, moves, n, stack, out[at:], hints[at:])
        begins[g + 1] = at + count
        end_game(games, g, out[at : at + count])
