"""Fixed-depth principal variation search on an explicit stack: null windows, re-search, quiescence.

Plain alpha-beta: the search reduces and prunes nothing, so the value is that of negamax with the same depth
and leaves. Expected types after Onno Garms: the root is PV; the first child of a PV node is PV, the others
Cut, searched again as PV; the first child of a Cut node is All, the others Cut; children of All are Cut.

    S, E, A   the memory of a search, the table of entries, the arena of a graph
    s         a position, `[10]` uint64
    frame     FRAME int64, one for the root and one for each ply below it: its window, its results so far,
              the moves left to try, the repetitions that its value depends on
    counters  COUNTERS int64: those of `search.Counts`, and the state of the search
    cache     two words for each slot: key ^ data | data

The explicit stack lets it stop between any two positions and resume later. Scores are root-relative while it
runs: MATE - p mates at ply p; entries and the leaf cache count from their node.

The value of a leaf is exact quiescence with the built-in evaluation (`quiescence_over`), a function of the
position alone, whatever the window: else the value would no longer be that of plain negamax. A mate found
here is certain: the mated side tried every move, and the search applied the 50-move rule.

An entry's value ends a node only if its depth is exactly the one needed, so that values do not depend on the
content of the table; a forced mate holds at every depth on the side that it proves, for paths with a clock
that leaves enough plies. The search writes no bound that holds for one path only:

- a value that depends on a repetition is tainted: a cut rests on the move that cut, an upper bound on all
  moves, an exact value on all as an upper and on the best one as a lower bound;
- a key holds for all clocks up to 75, so a bound is written and used there only if the clock cannot reach 100
  below: clock + depth + the plies of quiescence < 100. Above 75 the key holds the clock itself.

Mates are exempt on the side that they prove: every defence was refuted, so they depend on no draw.

Order changes the cost of a search, never its result. The search scores the moves only after the first one has
not ended the node, then tries them best first: the entry's move, much visited edges by N, captures, killers,
history and P. It computes the exchange of a capture when it picks the move. History by the move before, and
replies to it, saved .2 % of the nodes of three positions at depth 6 and 7.
"""

from __future__ import annotations

from ...evaluators.builtin.evaluation_kernel import static_at
from ...evaluators.quiescence_kernel import (
    KEPT,
    MAX_PLY,
    PLAIN_VALUES,
    capture_gain,
    copy_words,
    exchange,
    quiescence_over,
    value_at_limit,
)
from ...evaluators.quiescence_kernel import NODES as QUIET_NODES
from ...graph import arena_kernel as arena
from ...graph.arena_kernel import ArenaArrays
from ...jit.compiler import inner, kernel
from ...jit.pointers import ZERO, U, adv
from ...jit.types import Bundle, Items, Pointer, int64, uint8, uint16, uint64
from ...position import board_kernel as board
from ...position.board import CLOCK_DRAW, FREE_CLOCK, KEY, Position
from ...position.values import FAR, LEAST_MATE, MATE
from ...store import record_kernel as record
from ...store import transposition_kernel as entry
from ...store.transposition_kernel import EntryArrays

# ------------------------------------------------------------------------------------ layout
PLIES = entry.MOST_DEPTH + 2  # a frame for the root, for every ply below, and for the one made ahead
MOVE_ROOM = 256
QUIET_PLIES = MAX_PLY  # of quiescence; at the last ply the static value counts

# A frame. ALPHA and BETA are its window, alpha as it is now, LOW as it was; KIND is the type expected of it.
ALPHA, BETA, LOW, BEST, BEST_MOVE, DEPTH, KIND = 0, 1, 2, 3, 4, 5, 6
# COUNT: moves. NEXT: moves tried. SCORED: whether they have scores. MOVE: the move in flight. AGAIN: whether
# it has the full window. TABLE_MOVE: the entry's. CUT_BY: number of the move that ended the node, from 1
COUNT, NEXT, SCORED, MOVE, TABLE_MOVE, AGAIN, CUT_BY = 7, 8, 9, 10, 11, 12, 13
# A taint is the lowest ply that a repetition leads back to; -1: into the game. RECORD: the graph's, 0 none
TAINT, BEST_TAINT, RECORD = 14, 15, 16
FRAME = 18
CLEARED = (BEST_MOVE, COUNT, NEXT, SCORED, MOVE, TABLE_MOVE, AGAIN, CUT_BY, RECORD)  # in a new frame
NO_TAINT = 1 << 20

# Counters: those of `search.Counts`, then the state of the search
NODES, INTERIOR, LEAVES, QUIESCENCE, HITS, STORED_HITS, HIT_CUTOFFS = 0, 1, 2, 3, 4, 5, 6
CUTOFFS, FIRST_CUTOFFS, RESEARCHES, PROOFS, ORDERED, PATH_DRAWS = 7, 8, 9, 10, 11, 12
PLY, MODE, WITH_GRAPH = 24, 25, 26
COUNTERS = 32
ENTER, GO_ON, LEAVE = 0, 1, 2  # modes: the position is new, is being searched, is finished

# Tables of move order
SQUARES = 64
FROM_TO = SQUARES * SQUARES  # a move without its promotion
FROM_TO_MASK = FROM_TO - 1


# ------------------------------------------------------------------------------------ arrays
class Search(Bundle):
    """The memory of a search.

    Attributes:
      positions: uint64[PLIES * PW]. keys: uint64[PLIES * 2], key and check hash of interior positions.
      frames: int64[PLIES * FRAME]. moves: uint16[PLIES * MOVE_ROOM], the tried ones first, in order of trial.
      scores: int64, likewise. lines: uint16[PLIES * PLIES], the best line from each ply.
      lengths: int64[PLIES], of the lines. counters: int64[COUNTERS].
      killers: int64[PLIES * 2]. history: int64[2 * FROM_TO], by side.
      game: uint64[game_size], Polyglot keys of positions that stood twice before the root.
      cache: uint64[2 * C], C a power of two: the leaf cache. cache_mask: of a slot's index, C - 1.
      quiet: uint64[STACK_WORDS], stack of quiescence. area: uint64[AREA_WORDS], scratch of evaluations.
      gains: uint64[64], scratch of an exchange. scratch: uint16[MOVE_ROOM].
    """

    table: Items[uint64]
    weights: Items[int64]
    positions: Items[uint64]
    keys: Items[uint64]
    frames: Items[int64]
    moves: Items[uint16]
    scores: Items[int64]
    lines: Items[uint16]
    lengths: Items[int64]
    counters: Items[int64]
    killers: Items[int64]
    history: Items[int64]
    game: Items[uint64]
    game_size: int64
    cache: Items[uint64]
    cache_mask: uint64
    quiet: Items[uint64]
    area: Items[uint64]
    gains: Items[uint64]
    scratch: Items[uint16]


# ------------------------------------------------------------------------------------ leaves
# The data word of a slot in the leaf cache: value + CACHE_BIAS | its bound, 0 in an empty slot
CACHE_BITS = 18
CACHE_BIAS, CACHE_MASK = 1 << (CACHE_BITS - 1), U((1 << CACHE_BITS) - 1)
CACHE_BOUND_AT = U(CACHE_BITS)


@inner
def below_root(value: int64, ply: int64) -> int64:
    """Converts a value from node-relative to root-relative mates, `ply` plies above; back with -ply."""
    if value >= LEAST_MATE:
        return value - ply
    if value <= -LEAST_MATE:
        return value + ply
    return value


quiescence = quiescence_over(static_at, exact=True)


@inner
def quiesce(S: Search, s: Position, ply: int64, alpha: int64, beta: int64) -> int64:
    """Returns the fail-soft quiescence value of the position at a ply, root-relative."""
    copy_words(s, S.quiet, board.PW)
    S.quiet[KEPT] = ZERO
    low, high = below_root(alpha, -ply), below_root(beta, -ply)
    value = quiescence(S.table, S.weights, S.quiet, S.area, int64(0), low, high)
    S.counters[QUIESCENCE] += int64(S.quiet[QUIET_NODES]) - 1
    return below_root(value, ply)


@inner
def ends(value: int64, bound: int64, alpha: int64, beta: int64) -> bool:
    """Returns whether a value with its bound answers a window."""
    if bound == entry.EXACT:
        return True
    return value >= beta if bound == entry.LOWER else value <= alpha


@inner
def leaf_value(S: Search, s: Position, ply: int64, alpha: int64, beta: int64) -> int64:
    """Returns the value of a leaf, root-relative: exact inside the window, else a bound (fail-soft)."""
    key = board.position_key(S.table, s)
    i = int64(key & S.cache_mask) * 2
    data = S.cache[i + 1]
    bound = int64(data >> CACHE_BOUND_AT) if S.cache[i] ^ data == key else int64(0)
    if bound:
        value = below_root(int64(data & CACHE_MASK) - CACHE_BIAS, ply)
        if ends(value, bound, alpha, beta):
            return value
    value = quiesce(S, s, ply, alpha, beta)
    bound = entry.LOWER if value >= beta else (entry.UPPER if value <= alpha else entry.EXACT)
    data = U(below_root(value, -ply) + CACHE_BIAS) | U(bound) << CACHE_BOUND_AT
    S.cache[i], S.cache[i + 1] = key ^ data, data
    return value


# ------------------------------------------------------------------------ entries and proofs
NO_BOUND = 0


@inner
def clock_is_far(clock: int64, depth: int64) -> bool:
    """Returns whether a result at this depth holds for every path with the key."""
    return clock > FREE_CLOCK or clock + depth + QUIET_PLIES < CLOCK_DRAW


@inner
def entry_value(
    data: uint64, depth: int64, alpha: int64, beta: int64, ply: int64, clock: int64
) -> tuple[bool, int64]:
    """Returns whether an entry ends a node, and its root-relative value."""
    value, bound, found = entry.value_in(data), entry.bound_in(data), entry.depth_in(data)
    if entry.proves_mate(value, bound):
        plies = MATE - abs(value)
        usable = clock + plies <= CLOCK_DRAW
        if bound == entry.EXACT and found != depth and found != entry.PROOF and plies > found:
            bound = entry.LOWER if value > 0 else entry.UPPER  # a shorter mate may exist beyond the depth
    else:
        holds = found == entry.PROOF or (found == depth and clock_is_far(clock, depth))
        usable = bound != NO_BOUND and holds
    at_root = below_root(value, ply)
    return usable and ends(at_root, bound, alpha, beta), at_root


@inner
def graph_proof(A: ArenaArrays, rec: int64, s: Position) -> tuple[int64, int64]:
    """Returns the proof in a record as (bound, value counted from the node), for the clock of `s`.

    A proven win mates in at most the plies that the record holds; a proof without a length is not used.
    """
    if not record.is_settled(A, rec, s):
        return int64(NO_BOUND), int64(0)
    if not record.is_decisive(record.flags_of(A, rec)):
        return entry.EXACT, int64(0)
    code = record.node_code(A, rec, int64(0))
    if code > record.MOST_MATE:
        return int64(NO_BOUND), int64(0)
    if code == 1:
        return entry.EXACT, int64(-MATE)
    if record.lower_in(record.flags_of(A, rec)) == 1:
        return entry.LOWER, MATE - (code - 1)
    return entry.UPPER, code - 1 - MATE


@inner
def is_stored(E: EntryArrays, place: int64) -> bool:
    """Returns whether an entry was written by an earlier run."""
    return int64(E.ages[place]) & entry.AGE != E.counters[entry.GENERATION]


@inner
def bound_found(frame: Pointer[int64], ply: int64, clock: int64) -> int64:
    """Returns the bound to write for a finished frame's value, NO_BOUND if none may be written."""
    best = frame[BEST]
    bound = entry.LOWER if best >= frame[BETA] else (entry.EXACT if best > frame[LOW] else entry.UPPER)
    tainted = (frame[TAINT] if bound != entry.LOWER else frame[BEST_TAINT]) < ply
    if not tainted and clock_is_far(clock, frame[DEPTH]):
        return bound
    if entry.proves_mate(best, bound):
        return entry.LOWER if best > 0 else entry.UPPER
    if bound == entry.EXACT and frame[BEST_TAINT] >= ply and clock_is_far(clock, frame[DEPTH]):
        return entry.LOWER
    return int64(NO_BOUND)


@inner
def gives_way(data: uint64, stored: bool, value: int64, depth: int64, bound: int64) -> bool:
    """Returns whether to overwrite an entry of the same position.

    The shorter of two mates stays, and an exact value against another bound of its depth; only a deeper
    value overwrites an exact value of an earlier run.
    """
    if entry.depth_in(data) == entry.PROOF:
        known, new = abs(entry.value_in(data)), abs(value)
        return depth == entry.PROOF and (
            new > known or (new == known and bound == entry.EXACT != entry.bound_in(data))
        )
    if bound == NO_BOUND:
        return entry.bound_in(data) == NO_BOUND
    if entry.bound_in(data) == entry.EXACT and depth != entry.PROOF:
        return (
            depth > entry.depth_in(data) if stored else bound == entry.EXACT or depth != entry.depth_in(data)
        )
    return True


@inner
def write_entry(
    E: EntryArrays, key: uint64, check: uint64, frame: Pointer[int64], ply: int64, clock: int64
) -> None:
    """Writes the result of a finished frame, unless the present entry is better (`gives_way`)."""
    bound = bound_found(frame, ply, clock)
    move = frame[BEST_MOVE] if frame[BEST_MOVE] else frame[TABLE_MOVE]
    if bound == NO_BOUND and move == 0:
        return
    value = below_root(frame[BEST], -ply) if bound else int64(0)
    depth = int64(frame[DEPTH])
    if entry.proves_mate(value, bound):  # holds at every depth; it is the shortest if the depth covers it
        if bound == entry.EXACT and MATE - abs(value) > depth:
            bound = entry.LOWER if value > 0 else entry.UPPER
        depth = int64(entry.PROOF)
    data = entry.packed_entry(value, move, depth, bound, frame[KIND], frame[CUT_BY], check)
    place = entry.find_entry(E, key, check)
    if place >= 0:
        if not gives_way(E.data[place], is_stored(E, place), value, depth, bound):
            return
        if E.data[place] == data:
            E.ages[place] = uint8((E.ages[place] & ~uint8(entry.AGE)) | uint8(E.counters[entry.GENERATION]))
            return
    entry.put_entry(E, entry.place_for(E, key, check), key, data, True)


# ---------------------------------------------------------------------------- order of moves
# bands of scores
VISITED = 1 << 40  # + N
LEAST_VISITS = 10
CODE_WEIGHT = 64  # of a P code, 0..63, added to history
CAPTURE = 1 << 32  # + gain and piece; WINNING once the exchange is known not to lose
WINNING = 1 << 34
KILLER = 1 << 30
LOSING = -(1 << 32)  # + exchange
HISTORY_LIMIT = 1 << 14
MOST_BONUS = 1 << 11
SORTED_LEAVES = 4  # moves sorted with one ply left: after them all moves are likely to be tried


@inner
def by_side(s: Position, m: int64) -> int64:
    """Returns the index of a move of the side to move in `history`."""
    return board.side_to_move(s) * FROM_TO + (m & FROM_TO_MASK)


@inner
def plain_score(S: Search, s: Position, m: int64, ply: int64) -> int64:
    """Returns the score of a move without visits in the graph."""
    gain = capture_gain(s, m)
    if gain > 0:
        return CAPTURE + gain * 8 - board.man_at(s, board.from_square(m))
    if gain < 0:
        return LOSING + gain  # promotions to less than a queen
    if m == S.killers[2 * ply]:
        return int64(KILLER + 2)
    if m == S.killers[2 * ply + 1]:
        return int64(KILLER + 1)
    return S.history[by_side(s, m)]


@inner
def score_moves(S: Search, s: Position, frame: Pointer[int64], ply: int64) -> None:
    """Scores the moves of a frame that are still to be tried."""
    moves = adv(S.moves, ply * MOVE_ROOM)
    scores = adv(S.scores, ply * MOVE_ROOM)
    for i in range(frame[NEXT], frame[COUNT]):
        scores[i] = plain_score(S, s, int64(moves[i]), ply)
    frame[SCORED] = 1


@inner
def swap_moves(moves: Pointer[uint16], scores: Pointer[int64], a: int64, b: int64) -> None:
    """Swaps two moves and their scores."""
    move, score = moves[a], scores[a]
    moves[a], scores[a] = moves[b], scores[b]
    moves[b], scores[b] = move, score


@inner
def take_table_move(frame: Pointer[int64], moves: Pointer[uint16], scores: Pointer[int64]) -> int64:
    """Returns the entry's move, put first in the list; 0 if it is not among the legal ones."""
    for i in range(frame[COUNT]):
        if int64(moves[i]) == frame[TABLE_MOVE]:
            swap_moves(moves, scores, int64(0), int64(i))
            frame[NEXT] = 1
            return frame[TABLE_MOVE]
    return int64(0)


@inner
def loses(S: Search, s: Position, m: int64, at: int64, scores: Pointer[int64]) -> bool:
    """Returns whether a capture loses by exchange, and stores the result in its score."""
    if PLAIN_VALUES[board.man_at(s, board.from_square(m))] > capture_gain(s, m):
        won = exchange(S.table, s, m, S.gains)
        if won < 0:
            scores[at] = LOSING + won
            return True
    scores[at] += WINNING
    return False


@inner
def next_move(S: Search, s: Position, frame: Pointer[int64], ply: int64) -> int64:
    """Returns the next move to try, 0 if none is left."""
    moves = adv(S.moves, ply * MOVE_ROOM)
    scores = adv(S.scores, ply * MOVE_ROOM)
    if frame[NEXT] == 0 and frame[TABLE_MOVE]:
        m = take_table_move(frame, moves, scores)
        if m:
            return m
    if not frame[SCORED]:
        score_moves(S, s, frame, ply)
    if frame[DEPTH] == 1 and frame[NEXT] >= SORTED_LEAVES and frame[NEXT] < frame[COUNT]:
        frame[NEXT] += 1
        return int64(moves[frame[NEXT] - 1])
    while frame[NEXT] < frame[COUNT]:
        at = frame[NEXT]
        best = at
        for j in range(at + 1, frame[COUNT]):
            if scores[j] > scores[best]:
                best = j
        m = int64(moves[best])
        if scores[best] >= CAPTURE and scores[best] < WINNING and loses(S, s, m, best, scores):
            continue
        swap_moves(moves, scores, at, best)
        frame[NEXT] = at + 1
        return m
    return int64(0)


@inner
def reward(S: Search, s: Position, m: int64, bonus: int64) -> None:
    """Adds a bonus or a malus to a quiet move's history, which never leaves +-HISTORY_LIMIT."""
    at = by_side(s, m)
    S.history[at] += bonus - S.history[at] * abs(bonus) // HISTORY_LIMIT


@inner
def learn_cut(S: Search, s: Position, frame: Pointer[int64], ply: int64) -> None:
    """Rewards the last move tried for ending the node, and penalises the quiet ones before it."""
    m = frame[MOVE]
    if capture_gain(s, m) != 0:  # a capture or a promotion
        return
    if S.killers[2 * ply] != m:
        S.killers[2 * ply + 1] = S.killers[2 * ply]
        S.killers[2 * ply] = m
    bonus = min(frame[DEPTH] * frame[DEPTH] * 16, int64(MOST_BONUS))
    reward(S, s, m, bonus)
    moves = adv(S.moves, ply * MOVE_ROOM)
    for i in range(frame[NEXT] - 1):
        if capture_gain(s, int64(moves[i])) == 0:
            reward(S, s, int64(moves[i]), -bonus)


@inner
def order_by_graph(S: Search, A: ArenaArrays, s: Position, frame: Pointer[int64], ply: int64) -> bool:
    """Scores a frame's moves with its record, if that has as many moves; returns whether it did.

    Much visited edges rank by N. Few visits predict less than the search's own history; those moves only get
    P added to it.
    """
    rec, n = frame[RECORD], frame[COUNT]
    if record.move_count(A, rec) != n:
        return False
    score_moves(S, s, frame, ply)
    moves, scores = adv(S.moves, ply * MOVE_ROOM), adv(S.scores, ply * MOVE_ROOM)
    codes = record.code_bytes(A, rec)
    for i in range(n):  # in canonical order
        scores[i] = scores[i] + (int64(codes[i]) & record.CODE) * CODE_WEIGHT
    if not record.has_block(A, rec):
        return True
    stride = record.stride_at(A, rec)
    edge = record.edge_at(A, rec, int64(0))
    for _ in range(record.materialised(A, rec)):
        visits = record.edge_visits(A, edge)
        for i in range(n if visits >= LEAST_VISITS else int64(0)):
            if moves[i] == record.edge_move(A, edge):
                scores[i] = VISITED + visits * 64
        edge += stride
    return True


# -------------------------------------------------------------------------------- the search
@inner
def repeated_at(S: Search, s: Position, ply: int64) -> int64:
    """Returns the ply of an earlier occurrence on the path; -1: twice in the game; NO_TAINT: none."""
    clock = board.clock_of(s)
    key = s[KEY]
    for back in range(4, min(clock, ply) + 1, 2):
        if S.positions[(ply - back) * board.PW + KEY] == key:
            return ply - back
    if clock >= ply:
        for i in range(S.game_size):
            if S.game[i] == key:
                return int64(-1)
    return int64(NO_TAINT)


@inner
def ends_by_rule(S: Search, s: Position, frame: Pointer[int64], ply: int64) -> bool:
    """Returns whether a position is a draw by material, clock or repetition, or mate at the last move."""
    if board.is_dead(s):
        frame[BEST] = 0
        return True
    if board.clock_of(s) >= CLOCK_DRAW:
        frame[BEST] = value_at_limit(S.table, s, ply, S.scratch)
        S.counters[PATH_DRAWS] += 1
        return True
    if ply == 0:
        return False
    frame[TAINT] = repeated_at(S, s, ply)
    if frame[TAINT] == NO_TAINT:
        return False
    frame[BEST] = 0
    S.counters[PATH_DRAWS] += 1
    return True


@inner
def may_return(S: Search, s: Position, ply: int64) -> bool:
    """Returns whether a position that stood twice in the game may recur: then no entry ends a node."""
    return S.game_size > 0 and board.clock_of(s) >= ply


@inner
def ends_by_entry(S: Search, E: EntryArrays, s: Position, frame: Pointer[int64], ply: int64) -> bool:
    """Returns whether a transposition entry ends the node; if not, its move is the first to try."""
    key, check = S.keys[2 * ply], S.keys[2 * ply + 1]
    place = entry.find_entry(E, key, check)
    if place < 0:
        return False
    counters = S.counters
    data = E.data[place]
    counters[HITS] += 1
    if is_stored(E, place):
        counters[STORED_HITS] += 1
    frame[TABLE_MOVE] = entry.move_in(data)
    if may_return(S, s, ply):
        return False
    usable, value = entry_value(data, frame[DEPTH], frame[ALPHA], frame[BETA], ply, board.clock_of(s))
    if not usable or (ply == 0 and entry.move_in(data) == 0):
        return False
    frame[BEST] = value
    frame[BEST_MOVE] = frame[TABLE_MOVE]
    counters[HIT_CUTOFFS] += 1
    return True


@inner
def ends_by_graph(S: Search, A: ArenaArrays, s: Position, frame: Pointer[int64], ply: int64) -> bool:
    """Returns whether the graph proves the node; if not, notes its record for the order of moves."""
    if not S.counters[WITH_GRAPH]:
        return False
    rec = arena.find(A, S.keys[2 * ply], S.keys[2 * ply + 1])
    frame[RECORD] = rec
    if rec == 0 or ply == 0 or may_return(S, s, ply):
        return False
    bound, proven = graph_proof(A, rec, s)
    value = below_root(proven, ply)
    if bound == NO_BOUND or not ends(value, bound, frame[ALPHA], frame[BETA]):
        return False
    frame[BEST] = value
    S.counters[PROOFS] += 1
    return True


@inner
def enter_node(S: Search, E: EntryArrays, A: ArenaArrays, ply: int64) -> bool:
    """Counts a new position; returns whether it is a leaf or rules, entry, graph or lack of moves end it."""
    s = adv(S.positions, ply * board.PW)
    frame = adv(S.frames, ply * FRAME)
    counters = S.counters
    frame[LOW] = frame[ALPHA]  # the caller has set window, depth and type
    frame[BEST] = -FAR
    for i in CLEARED:
        frame[i] = 0
    frame[TAINT] = NO_TAINT
    frame[BEST_TAINT] = NO_TAINT
    S.lengths[ply] = 0
    if frame[DEPTH] == 0:
        counters[LEAVES] += 1
        if not ends_by_rule(S, s, frame, ply):
            frame[BEST] = leaf_value(S, s, ply, frame[ALPHA], frame[BETA])
        return True
    counters[INTERIOR] += 1
    if ends_by_rule(S, s, frame, ply):
        return True
    S.keys[2 * ply] = board.position_key(S.table, s)
    S.keys[2 * ply + 1] = board.check_hash(s)
    if ends_by_entry(S, E, s, frame, ply) or ends_by_graph(S, A, s, frame, ply):
        return True
    return list_moves(S, A, s, frame, ply)


@inner
def list_moves(S: Search, A: ArenaArrays, s: Position, frame: Pointer[int64], ply: int64) -> bool:
    """Generates the moves of a node; returns whether it has none."""
    n = int64(board.generate_moves(S.table, s, adv(S.moves, ply * MOVE_ROOM)))
    frame[COUNT] = n
    if n == 0:
        frame[BEST] = ply - MATE if board.in_check(S.table, s) else int64(0)
        return True
    if frame[RECORD] and order_by_graph(S, A, s, frame, ply):
        S.counters[ORDERED] += 1
    return False


@inner
def descend(S: Search, s: Position, frame: Pointer[int64], ply: int64, m: int64) -> None:
    """Makes a move; sets position, depth, type and window of the frame below."""
    below = adv(frame, FRAME)
    child = adv(s, board.PW)
    board.make_move(S.table, s, child, m)
    frame[MOVE] = m
    frame[AGAIN] = 0
    first = frame[NEXT] == 1
    below[DEPTH] = frame[DEPTH] - 1
    below[KIND] = frame[KIND] if first and frame[KIND] == entry.PV else entry.CUT
    if first and frame[KIND] == entry.CUT:
        below[KIND] = entry.ALL
    below[BETA] = -frame[ALPHA]
    below[ALPHA] = -frame[BETA] if first else -frame[ALPHA] - 1


@inner
def take_line(S: Search, ply: int64, m: int64) -> None:
    """Prefixes the best line below with a move and makes it the best line of a ply."""
    line = adv(S.lines, ply * PLIES)
    below = adv(line, PLIES)
    line[0] = m
    n = S.lengths[ply + 1]
    for i in range(n):
        line[i + 1] = below[i]
    S.lengths[ply] = n + 1


@inner
def search_again(S: Search, frame: Pointer[int64], value: int64) -> bool:
    """Returns whether a null window failed inside the window; then gives the frame below the full one."""
    if frame[NEXT] == 1 or frame[AGAIN] or value <= frame[ALPHA] or value >= frame[BETA]:
        return False
    below = adv(frame, FRAME)
    below[ALPHA] = -frame[BETA]
    below[BETA] = -frame[ALPHA]
    below[KIND] = entry.PV
    frame[AGAIN] = 1
    S.counters[RESEARCHES] += 1
    return True


@inner
def take_value(S: Search, frame: Pointer[int64], ply: int64, value: int64) -> bool:
    """Updates a frame with the value of a finished move; returns whether it ends the node."""
    taint = frame[FRAME + TAINT]
    frame[TAINT] = min(frame[TAINT], taint)
    if value > frame[BEST]:
        frame[BEST] = value
        frame[BEST_TAINT] = taint
        if value > frame[ALPHA]:
            frame[ALPHA] = value
            frame[BEST_MOVE] = frame[MOVE]
            take_line(S, ply, frame[MOVE])
    return value >= frame[BETA]


@inner
def finish_node(S: Search, E: EntryArrays, ply: int64, cut: bool) -> None:
    """Stores the result of a searched node."""
    s = adv(S.positions, ply * board.PW)
    frame = adv(S.frames, ply * FRAME)
    if cut:
        S.counters[CUTOFFS] += 1
        if frame[NEXT] == 1:
            S.counters[FIRST_CUTOFFS] += 1
        frame[CUT_BY] = frame[NEXT]
        learn_cut(S, s, frame, ply)
    write_entry(E, S.keys[2 * ply], S.keys[2 * ply + 1], frame, ply, board.clock_of(s))
    if cut:
        frame[TAINT] = frame[BEST_TAINT]
    if frame[TAINT] >= ply:  # the repetition is at or below this node, so it occurs on every path
        frame[TAINT] = NO_TAINT


@inner
def step(S: Search, E: EntryArrays, A: ArenaArrays, ply: int64, mode: int64) -> tuple[int64, int64]:
    """Does one step of the search at a ply; returns the next ply and mode, ply -1 at the end."""
    frame = adv(S.frames, ply * FRAME)
    if mode == ENTER:
        return ply, LEAVE if enter_node(S, E, A, ply) else GO_ON
    if mode == GO_ON:
        s = adv(S.positions, ply * board.PW)
        m = next_move(S, s, frame, ply)
        if m == 0:
            finish_node(S, E, ply, False)
            return ply, LEAVE
        descend(S, s, frame, ply, m)
        return ply + 1, ENTER
    if ply == 0:
        return int64(-1), LEAVE
    above = adv(S.frames, (ply - 1) * FRAME)
    value = -frame[BEST]
    if search_again(S, above, value):
        return ply, ENTER
    if take_value(S, above, ply - 1, value):
        finish_node(S, E, ply - 1, True)
        return ply - 1, LEAVE
    return ply - 1, GO_ON


@inner
def nodes_in(counters: Pointer[int64]) -> int64:
    """Returns the number of positions entered."""
    return counters[INTERIOR] + counters[LEAVES] + counters[QUIESCENCE]


@kernel
def search_slice(S: Search, E: EntryArrays, A: ArenaArrays, limit: int64) -> bool:
    """Continues the search until it is finished or has counted `limit` nodes; returns whether it is finished.

    Frame 0 holds window, depth and type, `counters` the state of the search. The arena is read only if
    `counters[WITH_GRAPH]`.
    """
    counters = S.counters
    ply, mode = counters[PLY], counters[MODE]
    while ply >= 0:
        if mode == ENTER and nodes_in(counters) >= limit:
            break
        ply, mode = step(S, E, A, ply, mode)
    counters[NODES] = nodes_in(counters)
    counters[PLY] = ply
    counters[MODE] = mode
    return ply < 0
