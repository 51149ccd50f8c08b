"""Quiescence search on an explicit stack of frames, over any static evaluation.

    stack    FRAMES frames, one for each ply | room for a list of moves | NODES

A search may begin at a higher frame (`first`). The frames below it hold the positions that led there, for
static evaluations that are cheaper to update than to compute.
"""

from __future__ import annotations

from collections.abc import Callable

from ...jit.compiler import inner
from ...jit.pointers import ZERO, U, adv, as_u16, ctz
from ...jit.types import Pointer, int64, uint16, uint64
from ...position.board_kernel import PW, generate_moves, in_check, is_dead, make_move, side_to_move
from ...position.scores import FAR, MATE
from ...position.words import KINGS, WHITE, BoardTable, Position
from .captures_kernel import (
    DOUBTFUL,
    capture_gain,
    capture_loses,
    get,
    has_legal_move,
    list_captures,
    listed_move,
    order_key,
    pinned_of,
    put,
)

DELTA_MARGIN = 1500  # a capture must be able to bring the score within this of alpha

# A frame: the position, the end of its best line, the state of its loop, its list of moves.
LEAF = PW
# int64: as plain ints each value would compile its own version of `get` and `put`
ALPHA, BETA, BEST = int64(2 * PW), int64(2 * PW + 1), int64(2 * PW + 2)
NEXT, COUNT = 2 * PW + 3, 2 * PW + 4
KEPT = 2 * PW + 5  # owned by the static evaluation; 0 in a new frame
LIST = 2 * PW + 6
FRAME_WORDS = LIST + 256
MAX_PLY = 16  # from the first ply of a search
FRAMES = MAX_PLY + 3
MOVES = FRAMES * FRAME_WORDS
NODES = MOVES + 64  # after 256 moves of 16 bits: the node count of the last search, including the first node
STACK_WORDS = (NODES + 8) // 8 * 8


@inner
def list_all(frame: Pointer[uint64], moves: Pointer[uint16], n: int64) -> None:
    """Fills the frame's list with the words of `n` moves."""
    for i in range(n):
        frame[LIST + i] = order_key(frame, moves[i], capture_gain(frame, moves[i]))
    frame[COUNT] = U(n)


@inner
def take_best(frame: Pointer[uint64]) -> uint64:
    """Removes the highest word from the rest of the frame's list and returns it."""
    i = int64(frame[NEXT])
    best = i
    for j in range(i + 1, int64(frame[COUNT])):
        if frame[LIST + j] > frame[LIST + best]:
            best = j
    word = frame[LIST + best]
    frame[LIST + best] = frame[LIST + i]
    frame[LIST + i] = word
    frame[NEXT] = U(i + 1)
    return word


@inner
def copy_words(source: Pointer[uint64], target: Pointer[uint64], n: int64) -> None:
    """Copies `n` words."""
    for i in range(n):
        target[i] = source[i]


@inner
def expand_all(T: BoardTable, frame: Pointer[uint64], moves: Pointer[uint16], ply: int64) -> None:
    """Lists every move of a frame; in mate or stalemate sets its best score."""
    n = generate_moves(T, frame, moves)
    best = int64(-FAR)
    if n == 0:
        best = ply - MATE if in_check(T, frame) else int64(0)
    put(frame, BEST, best)
    put(frame, ALPHA, max(best, get(frame, ALPHA)))
    list_all(frame, moves, n)


@inner
def expand_captures(T: BoardTable, frame: Pointer[uint64], moves: Pointer[uint16], best: int64) -> None:
    """Lists the captures to try in a frame with static score `best`; in stalemate sets its score to 0."""
    stm = side_to_move(frame)
    king = ctz(frame[KINGS] & frame[WHITE + stm])
    pinned = pinned_of(T, frame, king, stm)
    alpha = max(best, get(frame, ALPHA))
    n = list_captures(T, frame, adv(frame, LIST), alpha - best - DELTA_MARGIN, pinned, king, stm)
    if n == 0 and not has_legal_move(T, frame, moves, pinned, stm):
        put(frame, BEST, int64(0))
        return
    put(frame, ALPHA, alpha)
    frame[COUNT] = U(n)


@inner
def close_frame(frame: Pointer[uint64], child: Position, keeps_leaf: bool) -> None:
    """Updates a frame with the score of its finished child."""
    score = -get(child, BEST)
    if score <= get(frame, BEST):
        return
    put(frame, BEST, score)
    if keeps_leaf:
        copy_words(adv(child, LEAF), adv(frame, LEAF), PW)
    if score > get(frame, ALPHA):
        put(frame, ALPHA, score)
        if score >= get(frame, BETA):
            frame[COUNT] = ZERO


def quiescence_over(
    static_at: Callable[[BoardTable, Pointer[int64], Pointer[uint64], int64, Pointer[uint64]], int64],
) -> Callable[
    [BoardTable, Pointer[int64], Pointer[uint64], Pointer[uint64], int64, int64, int64, int64, bool], int64
]:
    """Returns the inner function `search`: quiescence search over a static evaluation.

    Args:
      static_at: an inner function of (T, weights, stack, ply, area) that returns the score of the position in
        the frame at `ply`, in thousandths of a pawn, seen by its side to move, which is not in check unless
        the search has reached MAX_PLY. The frames below hold the line's positions. Each frame has a word
        `KEPT` for the static evaluation's own use, 0 at first.
    """

    @inner
    def open_frame(
        T: BoardTable,
        weights: Pointer[int64],
        stack: Pointer[uint64],
        ply: int64,
        area: Pointer[uint64],
        above: int64,
        full: bool,
    ) -> None:
        """Sets a frame's best score before any move, and lists the moves to try."""
        frame = adv(stack, ply * FRAME_WORDS)
        moves = as_u16(adv(stack, MOVES))
        frame[NEXT] = ZERO
        frame[COUNT] = ZERO
        if is_dead(frame):
            put(frame, BEST, int64(0))
        elif above < MAX_PLY and (full or in_check(T, frame)):
            expand_all(T, frame, moves, above)
        else:
            best = static_at(T, weights, stack, ply, area)
            put(frame, BEST, best)
            if above < MAX_PLY and best < get(frame, BETA):
                expand_captures(T, frame, moves, best)

    @inner
    def search(
        T: BoardTable,
        weights: Pointer[int64],
        stack: Pointer[uint64],
        area: Pointer[uint64],
        first: int64,
        alpha: int64,
        beta: int64,
        depth: int64,
        keeps_leaf: bool,
    ) -> int64:
        """Returns the score of the position in the frame `first` (0 to 2), seen by the side to move there.

        Tries every move on the first `depth` plies and in check, otherwise captures and promotions that do
        not lose the exchange. Sets `stack[NODES]` to the number of positions visited. With `keeps_leaf`,
        writes the position at the end of the best line to `LEAF` of that frame.
        """
        root = adv(stack, first * FRAME_WORDS)
        put(root, ALPHA, alpha)
        put(root, BETA, beta)
        ply = int64(first)
        fresh = True
        nodes = 0
        while True:
            frame = adv(stack, ply * FRAME_WORDS)
            if fresh:
                nodes += 1
                if keeps_leaf:
                    copy_words(frame, adv(frame, LEAF), PW)
                open_frame(T, weights, stack, ply, area, ply - first, ply - first < depth)
                fresh = False
            if frame[NEXT] < frame[COUNT]:
                word = take_best(frame)
                move = listed_move(word, side_to_move(frame))
                if word & DOUBTFUL and capture_loses(T, frame, move):
                    continue
                child = adv(frame, FRAME_WORDS)
                make_move(T, frame, child, move)
                child[KEPT] = ZERO
                put(child, ALPHA, -get(frame, BETA))
                put(child, BETA, -get(frame, ALPHA))
                ply += 1
                fresh = True
            elif ply == first:
                stack[NODES] = U(nodes)
                return get(frame, BEST)
            else:
                ply -= 1
                close_frame(adv(stack, ply * FRAME_WORDS), frame, keeps_leaf)

    return search
