"""Depth-first proof-number search for a mate within a number of plies, on an explicit stack.

The question at a node: does the attacker mate within its plies? Where the attacker moves, one move with a
proof is enough (proof number = the least of the children's, disproof number = their sum); where the defender
moves, all are needed (the other way round). Moves that leave the defender few replies come first: an untried
position has the number of replies as its proof number, or the number of the attacker's moves as its disproof
number.

The search stays in the best child until its number exceeds the second best by a quarter (1 + epsilon). Sums
count the largest number and one for each other open child: in a graph, plain sums count the same position
many times (weak proof-number search).

An entry of the table is three words:

    key      the position's Polyglot key; flipped where the defender is to move
    numbers  bits 0-31 disproof number | 32-63 proof number
    data     bits 0-15 check | 16-31 best move | 32-39 plies | 40-47 clock | 48-55 work: bits of the visits

A proof (proof number 0) holds for its plies and more, and for halfmove clocks up to its clock; a disproof
(disproof number 0) for its plies and fewer, and for clocks from its clock on; anything else is an estimate
for exactly its plies. So one table serves every path. All entries of a position lie in one bucket.

A question of bounded length has no cycles. A question of any length (ANY_LENGTH) counts a position that is
already on its path as disproved; its disproofs may be wrong on other paths, so only such questions read them.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...jit.compiler import inner, kernel
from ...jit.pointers import LOW32, ONE, ZERO, U, adv, ptr
from ...jit.types import Bundle, Items, Pointer, int64, uint16, uint64
from ...position import board_kernel as board
from ...position.board import CLOCK_DRAW, KEY, META, WHITE, BoardTable, Position
from ...position.board_kernel import check_masks, mate_in_one, may_check
from ...position.values import MATE
from ...store import transposition_kernel as entry
from ...store.transposition_kernel import EntryArrays

# --------------------------------------------------------------------------------- the table
INFINITE = 1 << 30  # a proof or disproof number that no search reduces
ANY_LENGTH = 255  # plies of a question without a limit; its disproofs hold for the path and the moment
SLOTS = 8  # of a bucket
DEFENDER = U(0x9E3779B97F4A7C15)  # flips the key of positions with the defender to move
PROOF_AT = U(32)
MOVE_AT, PLIES_AT, CLOCK_AT, WORK_AT = U(16), U(32), U(40), U(48)
CHECK_MASK, MOVE_MASK, BYTE = U(0xFFFF), U(0xFFFF), U(0xFF)

Words: TypeAlias = NDArray[np.uint64]
Numbers: TypeAlias = tuple[int64, int64, int64, int64]  # pn, dn, plies, clock


class Table(Bundle):
    """The table of a prover: `[S]` keys, numbers and data, S a power of two; and the mask S - 1."""

    keys: Items[uint64]
    numbers: Items[uint64]
    data: Items[uint64]
    mask: int64


class Probe(NamedTuple):
    """The table's entry for a question: proof and disproof number (-1: none), plies, clock, move."""

    pn: int64
    dn: int64
    plies: int64
    clock: int64
    move: int64


@inner
def key_and_check(s: Position, attacks: bool) -> tuple[uint64, uint64]:
    """Returns (key, check) of a position, whatever its clock; `attacks`: the attacker is to move."""
    meta = s[META]
    s[META] = meta & board.PLACE
    check = board.check_hash(s) & CHECK_MASK
    s[META] = meta
    return (s[KEY] if attacks else s[KEY] ^ DEFENDER), check


@inner
def first_of(table: Table, key: uint64) -> int64:
    """Returns the index of the first slot of a key's bucket."""
    return int64((key ^ (key >> U(32))) & U(table.mask)) & ~int64(SLOTS - 1)


@inner
def proof_number(table: Table, i: int64) -> int64:
    """Returns the proof number of an entry; 0: proven."""
    return int64(table.numbers[i] >> PROOF_AT)


@inner
def disproof_number(table: Table, i: int64) -> int64:
    """Returns the disproof number of an entry; 0: disproved."""
    return int64(table.numbers[i] & LOW32)


@inner
def check_of(data: uint64) -> uint64:
    """Returns the check bits of an entry, uint64."""
    return data & CHECK_MASK


@inner
def move_of(data: uint64) -> int64:
    """Returns the best move of an entry, 0 if it has none."""
    return int64((data >> MOVE_AT) & MOVE_MASK)


@inner
def plies_of(data: uint64) -> int64:
    """Returns the plies of an entry."""
    return int64((data >> PLIES_AT) & BYTE)


@inner
def clock_bound(data: uint64) -> int64:
    """Returns the clock up to which (a proof) or from which on (a disproof) an entry holds."""
    return int64((data >> CLOCK_AT) & BYTE)


@inner
def work_of(data: uint64) -> int64:
    """Returns the bit length of the number of visits below."""
    return int64((data >> WORK_AT) & BYTE)


@inner
def is_disproof_for(data: uint64, plies: int64, clock: int64) -> bool:
    """Returns whether a disproof answers a question of so many plies at a clock."""
    held = plies_of(data)
    if held == ANY_LENGTH or plies == ANY_LENGTH:
        return held == plies
    return held >= plies and clock >= clock_bound(data)


@inner
def probe(table: Table, key: uint64, check: uint64, plies: int64, clock: int64) -> Probe:
    """Returns the Probe of a question; of several proofs the shortest."""
    at = first_of(table, key)
    pn, dn, length, bound, move = int64(-1), int64(-1), int64(0), int64(0), int64(0)
    for i in range(at, at + SLOTS):
        if table.keys[i] != key or check_of(table.data[i]) != check:
            continue
        data = table.data[i]
        p, d = proof_number(table, i), disproof_number(table, i)
        if p == 0:
            if plies_of(data) > plies or clock > clock_bound(data) or (pn == 0 and length <= plies_of(data)):
                continue
        elif pn == 0 or dn == 0:
            continue
        elif d == 0:
            if not is_disproof_for(data, plies, clock):
                continue
        elif plies_of(data) != plies:
            if move == 0:
                move = move_of(data)
            continue
        pn, dn, length, bound = p, d, plies_of(data), clock_bound(data)
        move = move_of(data)
    return Probe(pn, dn, length, bound, move)


@inner
def _replaces(table: Table, i: int64, pn: int64, dn: int64, plies: int64, clock: int64) -> int64:
    """Returns 1 if new numbers supersede an entry of their position, -1 if it supersedes them, else 0."""
    p, d = proof_number(table, i), disproof_number(table, i)
    held, bound = plies_of(table.data[i]), clock_bound(table.data[i])
    if p == 0 and pn == 0:
        if held <= plies and bound >= clock:
            return int64(-1)
        return int64(1 if held >= plies and bound <= clock else 0)
    if d == 0 and dn == 0 and (held == ANY_LENGTH) == (plies == ANY_LENGTH):
        if held >= plies and bound <= clock:
            return int64(-1)
        return int64(1 if held <= plies and bound >= clock else 0)
    if p == 0 or d == 0:
        return int64(0)
    if held == plies or (pn == 0 and held > plies):
        return int64(1)
    return int64(1 if dn == 0 and held < plies and plies != ANY_LENGTH else 0)


@inner
def _worth(table: Table, i: int64) -> int64:
    """Returns the replacement priority of an entry: by the work in it, proofs before estimates."""
    if table.keys[i] == ZERO:
        return int64(-1)
    certain = proof_number(table, i) == 0 or disproof_number(table, i) == 0
    return 2 * work_of(table.data[i]) + (1 if certain else 0)


@inner
def store(table: Table, key: uint64, check: uint64, answer: Numbers, move: int64, work: int64) -> None:
    """Stores the answer to a question, in place of a superseded entry or of the least valuable one."""
    pn, dn, plies, clock = answer
    at = first_of(table, key)
    target, least = int64(-1), int64(1 << 40)
    for i in range(at, at + SLOTS):
        if table.keys[i] == key and check_of(table.data[i]) == check:
            order = _replaces(table, int64(i), pn, dn, plies, clock)
            if order < 0:
                return
            if order > 0:
                if target >= 0 and least == -2:
                    table.keys[i] = ZERO  # a second superseded entry
                    continue
                target, least = int64(i), int64(-2)
                continue
        if _worth(table, int64(i)) < least:
            target, least = int64(i), _worth(table, int64(i))
    bits = int64(0)
    while work >> bits and bits < 60:
        bits += 1
    table.keys[target] = key
    table.numbers[target] = (U(pn) << PROOF_AT) | U(dn)
    table.data[target] = (
        check | (U(move) << MOVE_AT) | (U(plies) << PLIES_AT) | (U(clock) << CLOCK_AT) | (U(bits) << WORK_AT)
    )


# -------------------------------------------------------------------------------- the search
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
RESULT_PN, RESULT_DN, RESULT_PLIES, RESULT_WORDS = 0, 1, 2, 3


class Memory(Bundle):
    """The memory of a prover.

    Attributes:
      words: uint64[(MOST_PLIES + 3) * PW]. moves: uint16[(MOST_PLIES + 3) * ROOM].
      children: int64[(MOST_PLIES + 1) * ROOM * CHILD_WORDS]. frames: int64[(MOST_PLIES + 1) * FRAME_WORDS].
      drawn: uint64[drawn_count], Polyglot keys of positions that stood twice in the game before the root.
      counters: int64[COUNTERS]. result: int64[RESULT_WORDS].
    """

    table: Table
    words: Items[uint64]
    moves: Items[uint16]
    children: Items[int64]
    frames: Items[int64]
    drawn: Items[uint64]
    drawn_count: int64
    counters: Items[int64]
    result: Items[int64]


class Summary(NamedTuple):
    """A node computed from its children.

    Attributes:
      least, second: the least of the children's own numbers. chosen: index of the child with the least.
      total: the sum of the other numbers. others: without its largest part.
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
def _is_drawn(P: Memory, c: Position) -> bool:
    for i in range(P.drawn_count):
        if P.drawn[i] == c[KEY]:
            return True
    return False


@inner
def _stands_on_path(P: Memory, ply: int64) -> bool:
    """Returns whether the position at a ply occurred earlier on the path."""
    c = adv(P.words, ply * board.PW)
    clock = board.clock_of(c)
    back = int64(4)
    while back <= clock and back <= ply:
        if adv(P.words, (ply - back) * board.PW)[KEY] == c[KEY]:
            return True
        back += 2
    return False


@inner
def _seen_from_above(c: Position, pn: int64, bound: int64) -> int64:
    """Returns a child's clock bound for its parent: a capture or a pawn move resets the count."""
    if board.clock_of(c) == 0:
        return int64(CLOCK_DRAW - 1) if pn == 0 else int64(NO_CLOCK)
    return max(bound - 1, int64(0))


@inner
def _untried(T: BoardTable, P: Memory, ply: int64, attacks: bool, plies: int64) -> Numbers:
    """Returns (pn, dn, length, bound) of the position at a ply, with `plies` left, before any search."""
    c = adv(P.words, ply * board.PW)
    never = (int64(INFINITE), int64(0), int64(0), int64(NO_CLOCK))
    attacker = board.side_to_move(c) if attacks else 1 - board.side_to_move(c)
    own = c[WHITE + attacker]
    if (own & (own - ONE)) == U(0) or board.is_dead(c) or _is_drawn(P, c):
        return never
    moves = adv(P.moves, ply * ROOM)
    n = int64(board.generate_moves(T, c, moves))
    if n == 0:
        if not attacks and board.in_check(T, c):
            return int64(0), int64(INFINITE), int64(0), int64(ANY_CLOCK)
        return never
    if board.clock_of(c) >= CLOCK_DRAW:
        return int64(INFINITE), int64(0), int64(0), int64(CLOCK_DRAW)
    if plies == 0 or ply >= MOST_PLIES:
        return never
    if not attacks:
        return n, int64(1), int64(0), int64(0)
    if mate_in_one(T, c, moves, n, adv(P.words, (ply + 1) * board.PW), adv(P.moves, (ply + 1) * ROOM)) >= 0:
        return int64(0), int64(INFINITE), int64(1), int64(CLOCK_DRAW - 1)
    if plies == 1:
        return never
    return int64(1), n, int64(0), int64(0)


@inner
def _assess(T: BoardTable, P: Memory, ply: int64, attacks: bool, plies: int64) -> Numbers:
    """Returns (pn, dn, length, bound) of the position at a ply: from the table, or as an untried one."""
    c = adv(P.words, ply * board.PW)
    if plies == ANY_LENGTH and _stands_on_path(P, ply):
        return int64(INFINITE), int64(0), int64(0), int64(NO_CLOCK)
    key, check = key_and_check(c, attacks)
    known = probe(P.table, key, check, plies, board.clock_of(c))
    ends_path = ply >= MOST_PLIES and known.pn > 0 and known.dn > 0  # an open question would go deeper
    if known.pn >= 0 and not ends_path and not (P.drawn_count and _is_drawn(P, c)):
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
def _expand(T: BoardTable, P: Memory, ply: int64, attacks: bool, to_the_end: bool) -> None:
    """Lists the children of the node at a ply, up to the first that decides it unless `to_the_end`."""
    s = adv(P.words, ply * board.PW)
    frame = adv(P.frames, ply * FRAME_WORDS)
    moves = adv(P.moves, ply * ROOM)
    plies = frame[PLIES]
    below = plies if plies == ANY_LENGTH else plies - 1
    n = int64(board.generate_moves(T, s, moves))
    _to_front(moves, n, frame[KILLER])
    key, check = key_and_check(s, attacks)
    _to_front(moves, n, probe(P.table, key, check, plies, board.clock_of(s)).move)
    M = check_masks(T, s)
    count = int64(0)
    decisive = PN if attacks else DN
    for i in range(n):
        move = moves[i]
        if attacks and plies == 1 and not may_check(s, M, move):
            continue
        c = adv(P.words, (ply + 1) * board.PW)
        board.make_move(T, s, c, move)
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
def _decided(P: Memory, ply: int64, attacks: bool, least: int64) -> tuple[int64, int64, int64]:
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
def _summary(P: Memory, ply: int64, attacks: bool) -> Summary:
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
def _keep(P: Memory, ply: int64, attacks: bool, node: Summary) -> Numbers:
    """Stores a node; returns (pn, dn, plies, clock)."""
    s = adv(P.words, ply * board.PW)
    frame = adv(P.frames, ply * FRAME_WORDS)
    pn, dn = (node.least, node.total) if attacks else (node.total, node.least)
    plies = min(node.plies, ANY_LENGTH - 1 - int64(attacks)) if pn == 0 else frame[PLIES]  # fits a byte
    move = int64(P.moves[ply * ROOM + node.chosen]) if node.chosen >= 0 else int64(0)
    if node.least == 0:
        frame[KILLER] = move
    key, check = key_and_check(s, attacks)
    work = P.counters[VISITS] - frame[BEFORE]
    answer = pn, dn, plies, node.clock
    store(P.table, key, check, answer, move, work)
    return answer


@inner
def _descend(T: BoardTable, P: Memory, ply: int64, node: Summary) -> None:
    """Fills the next frame with the chosen child and its thresholds."""
    frame = adv(P.frames, ply * FRAME_WORDS)
    below = adv(frame, FRAME_WORDS)
    move = P.moves[ply * ROOM + node.chosen]
    board.make_move(T, adv(P.words, ply * board.PW), adv(P.words, (ply + 1) * board.PW), move)
    frame[CHOSEN] = node.chosen
    below[SUM_LIMIT] = min(frame[LEAST_LIMIT], node.second + (node.second >> 2) + 1)
    below[LEAST_LIMIT] = min(frame[SUM_LIMIT] - node.others, int64(INFINITE))
    below[PLIES] = frame[PLIES] if frame[PLIES] == ANY_LENGTH else frame[PLIES] - 1
    below[BEFORE] = P.counters[VISITS]


@inner
def _ascend(P: Memory, ply: int64, attacks: bool, node: Summary) -> None:
    """Stores a node and adds its numbers to the frame above."""
    pn, dn, plies, clock = _keep(P, ply, attacks, node)
    above = P.frames[(ply - 1) * FRAME_WORDS + CHOSEN]
    child = adv(P.children, ((ply - 1) * ROOM + above) * CHILD_WORDS)
    child[PN], child[DN], child[LENGTH] = pn, dn, plies
    child[BOUND] = _seen_from_above(adv(P.words, ply * board.PW), pn, clock)


@kernel
def prove(T: Words, P: Memory, words: Words, attacks: bool, plies: int64, to_the_end: bool) -> int64:
    """Searches for a mate of the position `words` (uint64[10]) within `plies`, up to the limit of visits.

    The position has a legal move; `attacks`: the attacker plays it. The answer is in `P.result`. Returns the
    number of the position's moves that `P.moves` and `P.children` list: up to the first that decides it, or
    all (`to_the_end`).
    """
    Tp = ptr(T, 0)
    for i in range(board.PW):
        P.words[i] = words[i]
    root = P.frames
    root[LEAST_LIMIT], root[SUM_LIMIT] = int64(INFINITE), int64(INFINITE)
    root[PLIES], root[BEFORE] = int64(plies), P.counters[VISITS]
    ply = int64(0)
    moves_now = bool(attacks)
    fresh = True
    while True:
        frame = adv(P.frames, ply * FRAME_WORDS)
        if fresh:
            _expand(Tp, P, ply, moves_now, bool(to_the_end) and ply == 0)
        node = _summary(P, ply, moves_now)
        # of a decided node either number is INFINITE, and no limit is larger
        over = node.least >= frame[LEAST_LIMIT] or node.total >= frame[SUM_LIMIT]
        if not over and P.counters[VISITS] < P.counters[VISIT_LIMIT]:
            _descend(Tp, P, ply, node)
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
    result = P.result
    result[RESULT_PN], result[RESULT_DN], result[RESULT_PLIES], _ = _keep(P, ply, moves_now, node)
    return int64(P.frames[COUNT])


# --------------------------------------------------------------------- transposition entries
LEAST_WORK = 3  # bit length of the visits that a proof cost; cheaper ones are not worth an entry


@kernel
def spread(table: Table, larger: Table) -> None:
    """Copies a prover's table into another one, empty and larger."""
    for i in range(table.mask + 1):
        if table.keys[i] == ZERO:
            continue
        at = first_of(larger, table.keys[i])
        for k in range(at, at + SLOTS):
            if larger.keys[k] == ZERO:
                larger.keys[k], larger.numbers[k] = table.keys[i], table.numbers[i]
                larger.data[k] = table.data[i]
                break


@inner
def _is_shortest(table: Table, i: int64) -> bool:
    """Returns whether the table disproves, for every clock, that a proven mate can be shorter."""
    length = plies_of(table.data[i])
    if length <= 2:
        return True
    at = int64(i) & ~int64(SLOTS - 1)
    for k in range(at, at + SLOTS):
        same = table.keys[k] == table.keys[i] and check_of(table.data[k]) == check_of(table.data[i])
        if same and disproof_number(table, int64(k)) == 0 and clock_bound(table.data[k]) == NO_CLOCK:
            if plies_of(table.data[k]) != ANY_LENGTH and plies_of(table.data[k]) >= length - 2:
                return True
    return False


@inner
def is_better(E: EntryArrays, key: uint64, check: uint64, value: int64, bound: int64) -> bool:
    """Returns whether a proven mate is better than the existing entry of its position."""
    at = entry.find_entry(E, key, check)
    if at < 0 or entry.depth_in(E.data[at]) != entry.PROOF:
        return True
    known = entry.value_in(E.data[at])
    if (known > 0) != (value > 0) or abs(known) < abs(value):
        return abs(known) < abs(value)
    return bound == entry.EXACT and entry.bound_in(E.data[at]) != entry.EXACT


@kernel
def give_entries(table: Table, E: EntryArrays, exact: bool) -> int64:
    """Writes proofs, except cheap ones, to a table of entries, to be saved; returns their number.

    `exact`: disproofs hold for the positions themselves, so a proof and a disproof together are exact.
    """
    count = int64(0)
    for i in range(table.mask + 1):
        is_proof = table.keys[i] != ZERO and proof_number(table, i) == 0
        if not is_proof or work_of(table.data[i]) < LEAST_WORK:
            continue
        length = plies_of(table.data[i])
        attacks = (length & 1) == 1
        key = table.keys[i] if attacks else table.keys[i] ^ DEFENDER
        value = MATE - length if attacks else length - MATE
        bound = entry.LOWER if attacks else entry.UPPER
        if exact and _is_shortest(table, i):
            bound = entry.EXACT
        check = check_of(table.data[i])
        if clock_bound(table.data[i]) >= CLOCK_DRAW - length and is_better(E, key, check, value, bound):
            move = move_of(table.data[i])
            data = entry.packed_entry(value, move, entry.PROOF, bound, entry.NO_TYPE, int64(0), check)
            entry.put_entry(E, entry.place_for(E, key, check), key, data, True)
            count += 1
    return count


@kernel
def take_entries(table: Table, E: EntryArrays) -> None:
    """Imports the proven mates of a table of entries."""
    for i in range(E.keys_size):
        data = E.data[i]
        value, bound = entry.value_in(data), entry.bound_in(data)
        length = MATE - abs(value)
        if E.keys[i] == ZERO or not entry.proves_mate(value, bound) or not 0 < length < ANY_LENGTH:
            continue
        key = E.keys[i] if value > 0 else E.keys[i] ^ DEFENDER
        check = entry.check_in(data)
        proof = int64(0), int64(INFINITE), length, max(CLOCK_DRAW - length, int64(0))
        store(table, key, check, proof, entry.move_in(data), int64(1))
        if bound == entry.EXACT and entry.depth_in(data) == entry.PROOF and length > 2:
            disproof = int64(INFINITE), int64(0), length - 2, int64(NO_CLOCK)
            store(table, key, check, disproof, int64(0), int64(1))
