"""Depth-first proof-number search for a mate within a number of plies, on an explicit stack.

The question at a node: does the attacker mate within its plies? Where the attacker moves, one move with a
proof is enough (proof number = the least of the children's, disproof number = their sum); where the defender
moves, all are needed (the other way round). Moves that leave the defender few replies come first: an untried
position has the number of replies as its proof number, or the number of the attacker's moves as its disproof
number.

The search stays in the best child until its number exceeds the second best by a quarter (1 + epsilon). Sums
count the largest number and one for each other open child: in a graph, plain sums count the same position
many times (weak proof-number search).

Proofs and disproofs hold for the halfmove clocks in `table_kernel.py`, so one table serves every path. A
question of bounded length has no cycles. A question of any length (ANY_LENGTH) counts a position that is
already on its path as disproved; its disproofs may be wrong on other paths, so only such questions read them.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...jit.compiler import inner, kernel
from ...jit.pointers import ONE, U, adv, ptr
from ...jit.types import Pointer, int64, uint16, uint64
from ...position.board import CLOCK_DRAW
from ...position.board_kernel import PW, clock_of, generate_moves, in_check, is_dead, make_move, side_to_move
from ...position.mates_kernel import check_masks, mate_in_one, may_check
from ...position.words import KEY, WHITE, BoardTable, Position
from .table_kernel import ANY_LENGTH, INFINITE, TablePointers, key_and_check, probe, store

MOST_PLIES = 250  # of a path
ROOM = 256  # moves of a position
NO_CLOCK, ANY_CLOCK = 0, 100  # bounds of results at every clock: of a disproof, of a mate on the board

# a child: its numbers, and the plies and the clock bound of its proof or disproof
PN, DN, LENGTH, BOUND, CHILD_WORDS = 0, 1, 2, 3, 4
# a frame: thresholds of the least number and of the sum here, number of children, the present child,
# plies, visits at its entry, the last move that decided a node at this ply
LEAST_LIMIT, SUM_LIMIT, COUNT, CHOSEN, PLIES, BEFORE, KILLER, FRAME_WORDS = 0, 1, 2, 3, 4, 5, 6, 8
# counters
VISITS, VISIT_LIMIT, COUNTERS = 0, 1, 8
# the answer
RESULT_PN, RESULT_DN, RESULT_PLIES, RESULT_CLOCK, RESULT_MOVE, RESULT_WORDS = 0, 1, 2, 3, 4, 8

Words: TypeAlias = NDArray[np.uint64]
Numbers: TypeAlias = tuple[int64, int64, int64, int64]  # pn, dn, plies, clock


class ProverArrays(NamedTuple):
    """The arrays of a prover.

    Attributes:
      keys, numbers, data: uint64[S], the table, S a power of two.
      words: uint64[(MOST_PLIES + 3) * PW]. moves: uint16[(MOST_PLIES + 3) * ROOM].
      children: int64[(MOST_PLIES + 1) * ROOM * CHILD_WORDS]. frames: int64[(MOST_PLIES + 1) * FRAME_WORDS].
      drawn: uint64[H + 1], Polyglot keys of positions that stood twice in the game before the root, and 0.
      counters: int64[COUNTERS]. result: int64[RESULT_WORDS].
    """

    keys: NDArray[np.uint64]
    numbers: NDArray[np.uint64]
    data: NDArray[np.uint64]
    words: NDArray[np.uint64]
    moves: NDArray[np.uint16]
    children: NDArray[np.int64]
    frames: NDArray[np.int64]
    drawn: NDArray[np.uint64]
    counters: NDArray[np.int64]
    result: NDArray[np.int64]


class ProverPointers(NamedTuple):
    """Pointers to the arrays of a prover, and the table's bundle."""

    table: TablePointers
    words: Pointer[uint64]
    moves: Pointer[uint16]
    children: Pointer[int64]
    frames: Pointer[int64]
    drawn: Pointer[uint64]
    drawn_count: int64
    counters: Pointer[int64]


class Summary(NamedTuple):
    """A node computed from its children.

    Attributes:
      least, total: the least of the children's own numbers, and the sum of the others.
      chosen: index of the child with the least. second: the second least number.
      others: the sum without its largest part.
      plies, clock: of a proof, or the clock of a disproof.
    """

    least: int64
    total: int64
    chosen: int64
    second: int64
    others: int64
    plies: int64
    clock: int64


@inner
def pointers(A: ProverArrays) -> ProverPointers:
    """Returns the pointer bundle of a prover's arrays, which the caller keeps alive."""
    table = TablePointers(ptr(A.keys, 0), ptr(A.numbers, 0), ptr(A.data, 0), int64(A.keys.size - 1))
    return ProverPointers(
        table,
        ptr(A.words, 0),
        ptr(A.moves, 0),
        ptr(A.children, 0),
        ptr(A.frames, 0),
        ptr(A.drawn, 0),
        int64(A.drawn.size - 1),
        ptr(A.counters, 0),
    )


@inner
def _is_drawn(P: ProverPointers, c: Position) -> bool:
    for i in range(P.drawn_count):
        if P.drawn[i] == c[KEY]:
            return True
    return False


@inner
def _stands_on_path(P: ProverPointers, ply: int64) -> bool:
    """Returns whether the position at a ply occurred earlier on the path."""
    c = adv(P.words, ply * PW)
    clock = clock_of(c)
    back = int64(4)
    while back <= clock and back <= ply:
        if adv(P.words, (ply - back) * PW)[KEY] == c[KEY]:
            return True
        back += 2
    return False


@inner
def _seen_from_above(c: Position, pn: int64, bound: int64) -> int64:
    """Returns a child's clock bound for its parent: a capture or a pawn move resets the count."""
    if clock_of(c) == 0:
        return int64(CLOCK_DRAW - 1) if pn == 0 else int64(NO_CLOCK)
    return max(bound - 1, int64(0))


@inner
def _untried(T: BoardTable, P: ProverPointers, ply: int64, attacks: bool, plies: int64) -> Numbers:
    """Returns (pn, dn, length, bound) of the position at a ply before any search.

    `attacks`: the attacker is to move there, with `plies` left.
    """
    c = adv(P.words, ply * PW)
    never = (int64(INFINITE), int64(0), int64(0), int64(NO_CLOCK))
    attacker = side_to_move(c) if attacks else 1 - side_to_move(c)
    own = c[WHITE + attacker]
    if (own & (own - ONE)) == U(0) or is_dead(c) or _is_drawn(P, c):
        return never
    moves = adv(P.moves, ply * ROOM)
    n = int64(generate_moves(T, c, moves))
    if n == 0:
        if not attacks and in_check(T, c):
            return int64(0), int64(INFINITE), int64(0), int64(ANY_CLOCK)
        return never
    if clock_of(c) >= CLOCK_DRAW:
        return int64(INFINITE), int64(0), int64(0), int64(CLOCK_DRAW)
    if plies == 0 or ply >= MOST_PLIES:
        return never
    if not attacks:
        return n, int64(1), int64(0), int64(0)
    if mate_in_one(T, c, moves, n, adv(P.words, (ply + 1) * PW), adv(P.moves, (ply + 1) * ROOM)) >= 0:
        return int64(0), int64(INFINITE), int64(1), int64(CLOCK_DRAW - 1)
    if plies == 1:
        return never
    return int64(1), n, int64(0), int64(0)


@inner
def _assess(T: BoardTable, P: ProverPointers, ply: int64, attacks: bool, plies: int64) -> Numbers:
    """Returns (pn, dn, length, bound) of the position at a ply: from the table, or as an untried one."""
    c = adv(P.words, ply * PW)
    if plies == ANY_LENGTH and _stands_on_path(P, ply):
        return int64(INFINITE), int64(0), int64(0), int64(NO_CLOCK)
    key, check = key_and_check(c, attacks)
    known = probe(P.table, key, check, plies, clock_of(c))
    if known.pn >= 0 and not (P.drawn_count and _is_drawn(P, c)):
        return known.pn, known.dn, known.plies, known.clock
    return _untried(T, P, ply, attacks, plies)


@inner
def _to_front(moves: Pointer[uint16], n: int64, move: int64) -> None:
    for i in range(n):
        if int64(moves[i]) == move:
            moves[i] = moves[0]
            moves[0] = uint16(move)
            return


@inner
def _expand(T: BoardTable, P: ProverPointers, ply: int64, attacks: bool, to_the_end: bool) -> None:
    """Lists the children of the node at a ply and their numbers, up to the first that decides the node.

    `to_the_end`: lists all children.
    """
    s = adv(P.words, ply * PW)
    frame = adv(P.frames, ply * FRAME_WORDS)
    moves = adv(P.moves, ply * ROOM)
    plies = frame[PLIES]
    below = plies if plies == ANY_LENGTH else plies - 1
    n = int64(generate_moves(T, s, moves))
    _to_front(moves, n, frame[KILLER])
    key, check = key_and_check(s, attacks)
    _to_front(moves, n, probe(P.table, key, check, plies, clock_of(s)).move)
    M = check_masks(T, s)
    count = int64(0)
    decisive = PN if attacks else DN
    for i in range(n):
        move = moves[i]
        if attacks and plies == 1 and not may_check(s, M, move):
            continue
        c = adv(P.words, (ply + 1) * PW)
        make_move(T, s, c, move)
        child = adv(P.children, (ply * ROOM + count) * CHILD_WORDS)
        pn, dn, length, bound = _assess(T, P, ply + 1, not attacks, below)
        child[PN], child[DN], child[LENGTH] = pn, dn, length
        child[BOUND] = _seen_from_above(c, pn, bound)
        moves[count] = move
        count += 1
        if child[decisive] == 0 and not to_the_end:
            break
    frame[COUNT] = count
    P.counters[VISITS] += 1


@inner
def _decided(P: ProverPointers, ply: int64, attacks: bool, least: int64) -> tuple[int64, int64, int64]:
    """Returns (child, plies, clock) of a decided node: of its proof, or the clock of its disproof."""
    proven = (least == 0) == attacks
    one = least == 0  # one child decides, else all of them do
    decisive = PN if attacks else DN
    best, plies, clock = int64(-1), int64(0), int64(ANY_CLOCK if proven else NO_CLOCK)
    for i in range(P.frames[ply * FRAME_WORDS + COUNT]):
        child = adv(P.children, (ply * ROOM + i) * CHILD_WORDS)
        if one and child[decisive] != 0:
            continue
        length, bound = child[LENGTH] + 1, child[BOUND]
        if one:
            better = length < plies if proven else bound < clock
            if best < 0 or better:
                best, plies, clock = int64(i), length, bound
        elif proven:
            if best < 0 or length > plies:
                best, plies = int64(i), length
            clock = min(clock, bound)
        else:
            clock = max(clock, bound)
            best = int64(0)
    return best, plies, clock


@inner
def _summary(P: ProverPointers, ply: int64, attacks: bool) -> Summary:
    mine, other = (PN, DN) if attacks else (DN, PN)
    least, second, chosen = int64(INFINITE), int64(INFINITE), int64(-1)
    largest, still_open = int64(0), int64(0)
    for i in range(P.frames[ply * FRAME_WORDS + COUNT]):
        child = adv(P.children, (ply * ROOM + i) * CHILD_WORDS)
        x, y = child[mine], child[other]
        if x < least:
            least, second, chosen = x, least, int64(i)
        elif x < second:
            second = x
        if y > 0:
            still_open += 1
            largest = max(largest, y)
    others = max(still_open - 1, int64(0))
    total = min(largest + others, int64(INFINITE))
    if least == 0:
        total = int64(INFINITE)
    if least and total:
        return Summary(least, total, chosen, second, others, int64(0), int64(0))
    best, plies, clock = _decided(P, ply, attacks, least)
    return Summary(least, total, best, second, others, plies, clock)


@inner
def _keep(P: ProverPointers, ply: int64, attacks: bool, node: Summary) -> Numbers:
    """Stores a node; returns (pn, dn, plies, clock)."""
    s = adv(P.words, ply * PW)
    frame = adv(P.frames, ply * FRAME_WORDS)
    pn, dn = (node.least, node.total) if attacks else (node.total, node.least)
    plies = node.plies if pn == 0 else frame[PLIES]
    move = int64(P.moves[ply * ROOM + node.chosen]) if node.chosen >= 0 else int64(0)
    if node.least == 0:
        frame[KILLER] = move
    key, check = key_and_check(s, attacks)
    work = P.counters[VISITS] - frame[BEFORE]
    store(P.table, key, check, pn, dn, plies, node.clock, move, work)
    return pn, dn, plies, node.clock


@inner
def _descend(T: BoardTable, P: ProverPointers, ply: int64, node: Summary) -> None:
    """Fills the next frame with the chosen child and its thresholds."""
    frame = adv(P.frames, ply * FRAME_WORDS)
    below = adv(frame, FRAME_WORDS)
    move = P.moves[ply * ROOM + node.chosen]
    make_move(T, adv(P.words, ply * PW), adv(P.words, (ply + 1) * PW), move)
    frame[CHOSEN] = node.chosen
    below[SUM_LIMIT] = min(frame[LEAST_LIMIT], node.second + (node.second >> 2) + 1)
    below[LEAST_LIMIT] = min(frame[SUM_LIMIT] - node.others, int64(INFINITE))
    below[PLIES] = frame[PLIES] if frame[PLIES] == ANY_LENGTH else frame[PLIES] - 1
    below[BEFORE] = P.counters[VISITS]


@inner
def _ascend(P: ProverPointers, ply: int64, attacks: bool, node: Summary) -> None:
    """Stores a node and adds its numbers to the frame above."""
    pn, dn, plies, clock = _keep(P, ply, attacks, node)
    above = P.frames[(ply - 1) * FRAME_WORDS + CHOSEN]
    child = adv(P.children, ((ply - 1) * ROOM + above) * CHILD_WORDS)
    child[PN], child[DN], child[LENGTH] = pn, dn, plies
    child[BOUND] = _seen_from_above(adv(P.words, ply * PW), pn, clock)


@inner
def _begin(P: ProverPointers, words: Pointer[uint64], plies: int64) -> None:
    for i in range(PW):
        P.words[i] = words[i]
    frame = P.frames
    frame[LEAST_LIMIT], frame[SUM_LIMIT] = int64(INFINITE), int64(INFINITE)
    frame[PLIES], frame[BEFORE] = int64(plies), P.counters[VISITS]


@inner
def _answer(P: ProverPointers, A: ProverArrays, attacks: bool, node: Summary) -> None:
    """Stores the root's node, and writes it to `A.result`."""
    pn, dn, held, clock = _keep(P, int64(0), attacks, node)
    result = ptr(A.result, 0)
    result[RESULT_PN], result[RESULT_DN], result[RESULT_PLIES], result[RESULT_CLOCK] = pn, dn, held, clock
    result[RESULT_MOVE] = int64(P.moves[node.chosen]) if node.chosen >= 0 else int64(0)


@kernel
def prove(T: Words, A: ProverArrays, words: Words, attacks: bool, plies: int64) -> None:
    """Searches for a mate of the position `words` (uint64[10]) within `plies`, up to the limit of visits.

    The position has a legal move. `attacks`: the attacker is to move in it. The answer is in `A.result`.
    """
    board = ptr(T, 0)
    P = pointers(A)
    _begin(P, ptr(words, 0), plies)
    ply = int64(0)
    moves_now = bool(attacks)
    fresh = True
    while True:
        frame = adv(P.frames, ply * FRAME_WORDS)
        if fresh:
            _expand(board, P, ply, moves_now, False)
        node = _summary(P, ply, moves_now)
        over = (
            node.least >= frame[LEAST_LIMIT]
            or node.total >= frame[SUM_LIMIT]
            or node.least == 0
            or node.total == 0
        )
        if not over and P.counters[VISITS] < P.counters[VISIT_LIMIT]:
            _descend(board, P, ply, node)
            ply += 1
            moves_now = not moves_now
            fresh = True
            continue
        if ply == 0:
            break
        _ascend(P, ply, moves_now, node)
        ply -= 1
        moves_now = not moves_now
        fresh = False
    _answer(P, A, moves_now, node)


@kernel
def look(T: Words, A: ProverArrays, words: Words, attacks: bool, plies: int64) -> int64:
    """Lists all children of a position, with their numbers; returns their count.

    Writes them to `A.moves` and `A.children`, and their summary to the table and to `A.result`.
    """
    board = ptr(T, 0)
    P = pointers(A)
    _begin(P, ptr(words, 0), plies)
    _expand(board, P, int64(0), bool(attacks), True)
    node = _summary(P, int64(0), bool(attacks))
    _answer(P, A, bool(attacks), node)
    return int64(A.frames[COUNT])
