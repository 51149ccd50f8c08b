"""Plays games that networks learn from, and writes what they see of them and should say: the compiled part.

Many games run in parallel. Their moves are drawn by the priors of the teacher, a network of Stockfish's,
without a search, so a position costs little. After every few plies, a game yields

    a group   for the value network: moves of its position, or of one a few plies off, drawn by the priors.
              Each member is the quiet position at the end of the quiescence after its move, with the score
              of the teacher. Its hints are the sums of the teacher's first layer, from which the score is
              computed
    a lesson  for the policy network: its position, or one a few plies off, with the teacher's priors

Scores are in 1/361 of a pawn (the unit of Stockfish's networks), seen by the side to move.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from graphsearch.evaluators.builtin.evaluation_kernel import (
    MOST_FEATURES,
    attacks_of,
    kind_of_move,
    list_features,
    place_of,
    seen_of,
    turn_of,
)
from graphsearch.evaluators.builtin.layout import CLASSES, FEATURES, KINDS_OF_MOVES, MEN_PER_STACK, STACKS
from graphsearch.evaluators.nnue.evaluation_kernel import (
    AREA,
    LOGIT_BIAS,
    LOGIT_UNIT,
    ORDER,
    POLICY,
    SEEN_AT,
    SUMS,
    evaluate_position,
    index_in,
    order_by_policy,
    static_at,
    work_at,
)
from graphsearch.evaluators.nnue.layout import FIRST
from graphsearch.evaluators.quiescence_kernel import FRAME_WORDS, KEPT, LEAF, LIST, quiescence_over, take_best
from graphsearch.jit.pointers import ONE, ZERO, U, adv, popc, ptr, view
from graphsearch.jit.types import int32, int64
from graphsearch.position.board import BLACK, META, WHITE
from graphsearch.position.board_kernel import (
    PW,
    check_masks,
    clock_of,
    from_square,
    generate_moves,
    is_dead,
    landing_of,
    make_move,
    man_at,
    side_to_move,
)
from graphsearch.position.values import FAR, LEAST_MATE

PAWN = 361
MOST_SCORE = 20_000
SEARCHED = 1.4  # ratio of Stockfish's score at 300,000 nodes to the teacher's, in open positions
SEEN = 64  # features of a view
MOST_MEMBERS, LEAST_MEMBERS = 8, 3
MOST_MOVES, FEWEST_MOVES = 80, 2  # of a lesson
LABEL, WIN, LOSS, SIGN = range(4)  # targets of a member
HINTS = FIRST  # of a member
HINT_UNIT, MOST_HINT = 127 * 64, 1.25  # the next layer clips a sum at one unit

# the games
LEAST_STEP, MOST_STEP = 2, 7  # range of plies between two groups
HEATS = (0.3, 0.9)  # range of temperatures of the priors in a game
RANDOM_MOVES, NO_RANDOM_MOVES = 6, 0.5  # at the beginning: maximum, and share of games without
EVENLY = 30.0  # temperature of random moves
OFF, MOST_OFF, OFF_HEAT = 0.5, 3, 1.3  # share of positions off the game, their maximum plies, temperature
MOST_PLIES = 240
DECIDED, ENDED_DECIDED = 4 * PAWN, 0.6  # best value above which a game ends, and the probability of that
FEW_MEN, ENDED_FEW = 5, 0.2
OVER = -1  # ply of a finished game

OPTIONS = {"nogil": True, "error_model": "numpy"}
search = quiescence_over(static_at, keeps_leaf=True)


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


class GroupArrays(NamedTuple):
    """Groups for the value network.

    Attributes:
      features: uint16[G, MOST_MEMBERS, 2, SEEN], of the mover's view, then of the other.
      stacks: uint8[G, MOST_MEMBERS].
      targets: float32[G, MOST_MEMBERS, 4]: LABEL the score, WIN and LOSS its chances, SIGN 1 if the side to
        move is the one that made the group's move, -1 if not, 0 where a group has fewer members.
      hints: float32 or float16[G, MOST_MEMBERS, HINTS].
    """

    features: Any
    stacks: Any
    targets: Any
    hints: Any

    @classmethod
    def new(cls, groups: int) -> GroupArrays:
        """Returns arrays to fill."""
        shape = groups, MOST_MEMBERS
        features, stacks = np.zeros((*shape, 2, SEEN), np.uint16), np.zeros(shape, np.uint8)
        return cls(features, stacks, np.zeros((*shape, 4), np.float32), np.zeros((*shape, HINTS), np.float32))


class LessonArrays(NamedTuple):
    """Positions for the policy network.

    Attributes:
      features: uint16[L, SEEN], of the mover's view.
      places, goals, classes: uint16[L, MOST_MOVES] of the moves; the class is CLASSES where there is none.
      targets: float32[L, MOST_MOVES], priors.
    """

    features: Any
    places: Any
    goals: Any
    classes: Any
    targets: Any

    @classmethod
    def new(cls, lessons: int) -> LessonArrays:
        """Returns arrays to fill."""
        shape = lessons, MOST_MOVES
        places, goals, classes = (np.full(shape, value, np.uint16) for value in (0, 0, CLASSES))
        targets = np.zeros(shape, np.float32)
        return cls(np.zeros((lessons, SEEN), np.uint16), places, goals, classes, targets)


# ------------------------------------------------------------------ what a network sees, and should say
@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def stack_of(s: Any) -> Any:
    """Returns the stack of a position, by its number of men."""
    return min((popc(s[WHITE] | s[BLACK]) - 1) // MEN_PER_STACK, STACKS - 1)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def fill(out: Any, features: Any, n: Any) -> None:
    """Fills the features of a view; where it has fewer than SEEN, FEATURES + j stands at j."""
    for j in range(SEEN):
        out[j] = features[j] if j < n else FEATURES + j


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def fill_views(table: Any, s: Any, out: Any, features: Any) -> None:
    """Fills the features of both views of a position, the mover's first.

    Args:
      out: uint16[2, SEEN]. features: int64[MOST_FEATURES], working memory.
    """
    seen, stm = seen_of(s, attacks_of(table, s, 0), attacks_of(table, s, 1)), side_to_move(s)
    fill(out[0], features, list_features(s, seen, stm, ptr(features, 0)))
    fill(out[1], features, list_features(s, seen, 1 - stm, ptr(features, 0)))


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def describe_moves(table: Any, s: Any, moves: Any, seen: Any, places: Any, goals: Any, classes: Any) -> Any:
    """Fills what the network sees of a position and its moves; returns the number of its features.

    Args:
      moves: uint16[n], all legal ones. seen: int64[MOST_FEATURES] out, features of the mover's view.
      places, goals, classes: of the moves, out.
    """
    child, gains = np.zeros(10, np.uint64), np.zeros(40, np.uint64)
    stm = side_to_move(s)
    white, black = attacks_of(table, s, 0), attacks_of(table, s, 1)
    theirs = white.every if stm else black.every
    turn, masks = turn_of(s, stm), check_masks(table, s)
    for j in range(len(moves)):
        m = moves[j]
        piece = man_at(s, from_square(m))
        places[j] = place_of(piece, from_square(m), turn)
        goals[j] = place_of(piece, landing_of(s, m), turn)
        kind = kind_of_move(table, s, m, theirs, masks, ptr(child, 0), ptr(gains, 0))
        classes[j] = piece * KINDS_OF_MOVES + kind
    return list_features(s, seen_of(s, white, black), stm, ptr(seen, 0))


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def sigmoid(x: Any) -> Any:
    """Returns the logistic function."""
    return 1.0 / (1.0 + np.exp(-min(max(x, -40.0), 40.0)))


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def chances_of(label: Any, ply: Any) -> Any:
    """Returns the chances of winning and losing: Stockfish 15.1's of SEARCHED times a score."""
    m, score = min(240, ply) / 64.0, SEARCHED * label
    a = ((-0.58270499 * m + 2.68512549) * m + 15.24638015) * m + 344.49745382
    b = ((-2.65734562 * m + 15.96509799) * m - 20.69040836) * m + 73.61029937
    return sigmoid((score - a) / b), sigmoid((-score - a) / b)


# ------------------------------------------------------------------ moves of games
@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def logit_in(word: Any) -> Any:
    """Returns the logit packed in a word of a move order."""
    return (int64(word >> SEEN_AT) - LOGIT_BIAS) / LOGIT_UNIT


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def draw_by_logits(order: Any, n: Any, heat: Any) -> Any:
    """Returns the index of a random move, by the softmax of the logits in a move order at a temperature."""
    powers = np.empty(n)
    for i in range(n):
        powers[i] = logit_in(order[LIST + i])
    powers = np.exp((powers - powers.max()) / heat)
    left, chosen = np.random.random() * powers.sum(), n - 1
    for i in range(n):
        left -= powers[i]
        if left <= 0:
            chosen = i
            break
    return index_in(order[LIST + chosen])


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
def end_game(games: Any, g: Any, targets: Any) -> None:
    """Ends a game with some probability if its group is decided or it has few pieces."""
    best = -float(FAR)
    for k in range(MOST_MEMBERS):
        if targets[k, SIGN] != 0:
            best = max(best, targets[k, SIGN] * targets[k, LABEL])
    if abs(best) > DECIDED and np.random.random() < ENDED_DECIDED:
        games.ply[g] = OVER
    if popc(games.words[g, WHITE] | games.words[g, BLACK]) <= FEW_MEN and np.random.random() < ENDED_FEW:
        games.ply[g] = OVER


# ------------------------------------------------------------------ groups
@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def pick(table: Any, net: Any, moves: Any, n: Any, scratch: Any) -> None:
    """Orders the moves of the position in the first frame randomly by the priors (Gumbel noise)."""
    order = adv(scratch, int64(ORDER))
    order_by_policy(table, net, scratch, ptr(moves, 0), n, order, adv(scratch, int64(POLICY)))
    for i in range(n):
        word = order[LIST + i]
        gumbel = -np.log(-np.log(1e-12 + (1 - 1e-9) * np.random.random()))
        seen = U(int64((logit_in(word) + gumbel) * LOGIT_UNIT) + LOGIT_BIAS)
        order[LIST + i] = (seen << SEEN_AT) | (word & ((ONE << SEEN_AT) - ONE))


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def write_hints(table: Any, net: Any, leaf: Any, scratch: Any, out: Any) -> None:
    """Writes the hints of a position; the frame above that of the group's move is used for it."""
    frame, area = adv(scratch, int64(2 * FRAME_WORDS)), adv(scratch, int64(AREA))
    for i in range(PW):
        frame[i] = leaf[i]
    frame[KEPT] = ZERO
    static_at(table, net, scratch, int64(2), area)
    sums = view(int32, adv(work_at(net, area), int64(SUMS)))
    for k in range(HINTS):
        out[k] = min(max(sums[k] / HINT_UNIT, -MOST_HINT), MOST_HINT)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def write_group(
    table: Any, net: Any, ply: Any, moves: Any, n: Any, scratch: Any, seen: Any, leaves: Any, out: Any, g: Any
) -> Any:
    """Writes the group of the position in the first frame; returns whether it has enough members.

    Args:
      seen: int64[MOST_FEATURES], working memory. leaves: uint64[MOST_MEMBERS, PW] out, the members.
      out: `GroupArrays`, of which group g is filled.
    """
    pick(table, net, moves, n, scratch)
    order, child = adv(scratch, int64(ORDER)), adv(scratch, int64(FRAME_WORDS))
    leaf, area = adv(child, int64(LEAF)), adv(scratch, int64(AREA))
    turn, rows = scratch[META] & ONE, 0
    features, targets, hints = out.features[g], out.targets[g], out.hints[g]
    scratch[KEPT] = ZERO
    for _ in range(n):
        if rows == MOST_MEMBERS:
            break
        make_move(table, scratch, child, moves[index_in(take_best(order))])
        child[KEPT] = ZERO
        if clock_of(child) >= 100 or is_dead(child):
            continue
        score = search(table, net, scratch, area, int64(1), int64(-FAR), int64(FAR))
        if abs(score) >= LEAST_MATE or is_dead(leaf):
            continue
        for i in range(PW):
            leaves[rows, i] = leaf[i]
        turned = (leaf[META] & ONE) == turn
        label = max(-MOST_SCORE, min(MOST_SCORE, (-score if turned else score) * PAWN // 1000))
        target = targets[rows]
        target[LABEL], target[SIGN] = label, 1.0 if turned else -1.0
        target[WIN], target[LOSS] = chances_of(float(label), ply + 1)
        out.stacks[g, rows] = stack_of(leaf)
        fill_views(table, leaf, features[rows], seen)
        write_hints(table, net, leaf, scratch, hints[rows])
        rows += 1
    for k in range(rows, MOST_MEMBERS):
        fill(features[k, 0], seen, 0)
        fill(features[k, 1], seen, 0)
        out.stacks[g, k], targets[k], hints[k] = 0, 0, 0
    return rows >= LEAST_MEMBERS


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def write_groups(
    tables: Any, weights: Any, starts: Any, games: Any, seed: Any, scratch: Any, leaves: Any, out: Any
) -> None:
    """Continues each game and writes a group of it.

    Args:
      weights: of the teacher. games: `Games`, changed. scratch: uint64[scratch_words(width)].
      leaves: uint64[G, MOST_MEMBERS, PW] out, the members' positions. out: `GroupArrays`, filled.
    """
    np.random.seed(seed)
    table, net, stack = ptr(tables, 0), ptr(weights, 0), ptr(scratch, 0)
    moves, seen = np.zeros(256, np.uint16), np.zeros(MOST_FEATURES, np.int64)
    for g in range(len(games.ply)):
        done = False
        while not done:
            n, ply = next_parent(table, net, starts, games, g, moves, stack)
            if n >= LEAST_MEMBERS:
                done = write_group(table, net, ply, moves, n, stack, seen, leaves[g], out, g)
        end_game(games, g, out.targets[g])


# ------------------------------------------------------------------ lessons
@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def write_lessons(
    tables: Any, weights: Any, games: Any, share: Any, seed: Any, scratch: Any, out: Any
) -> Any:
    """Writes lessons of some of the games' positions; returns their number.

    Args:
      weights: of the teacher. games: `Games`. share: of the games, in [0, 1].
      scratch: uint64[scratch_words(width)]. out: new `LessonArrays`.
    """
    np.random.seed(seed)
    table, net, stack = ptr(tables, 0), ptr(weights, 0), ptr(scratch, 0)
    moves, priors, words = np.zeros(256, np.uint16), np.zeros(256, np.float32), np.zeros(10, np.uint64)
    seen, s, count = np.zeros(MOST_FEATURES, np.int64), ptr(words, 0), 0
    for g in range(len(games.ply)):
        if games.ply[g] == OVER or np.random.random() >= share:
            continue
        n = place(table, games.words[g], moves, stack)
        if n and np.random.random() < OFF:
            n = go_on(table, net, OFF_HEAT, np.random.randint(1, MOST_OFF + 1), moves, n, stack)
        if n < FEWEST_MOVES or n > MOST_MOVES:
            continue
        for i in range(PW):
            words[i] = stack[i]
        evaluate_position(table, net, s, ptr(moves, 0), int64(n), ptr(priors, 0), stack)
        for j in range(n):
            out.targets[count, j] = priors[j]
        of_moves = out.places[count], out.goals[count], out.classes[count]
        fill(out.features[count], seen, describe_moves(table, s, moves[:n], seen, *of_moves))
        count += 1
    return count
