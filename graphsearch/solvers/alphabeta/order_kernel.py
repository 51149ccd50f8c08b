"""The order of moves: the entry's move, much visited edges by N, captures, killers, replies, history and P.

Order changes the cost of a search, never its result. The search scores the moves only after the first one has
not ended the node, then tries them best first; it computes the exchange of a capture when it picks the move.
"""

from __future__ import annotations

from ...evaluators.quiescence.captures_kernel import PLAIN_VALUES, capture_gain, exchange
from ...graph.arena_kernel import ArenaPointers
from ...jit.compiler import inner
from ...jit.pointers import ONE, U, adv, prefetch
from ...jit.types import Pointer, int16, int64, uint16, uint64
from ...position.attacks_kernel import man_at
from ...position.board_kernel import PW, from_square, landing_of, side_to_move, to_square
from ...position.tables import ZO
from ...position.words import BLACK, KEY, BoardTable, Position
from ...store.record.node_kernel import (
    block_class_of,
    code_bytes,
    edge_at,
    edge_move,
    edge_visits,
    materialised,
    move_count,
    stride_at,
)
from ...store.record.node_layout import CODE, NO_BLOCK
from ...store.record.transposition_kernel import EntryPointers
from . import frame_layout as layout
from .frames_kernel import Search
from .table_kernel import prefetch_entry

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
def is_quiet(s: Position, m: int64) -> bool:
    """Returns whether a move neither captures nor promotes."""
    return capture_gain(s, m) == 0


@inner
def piece_to(s: Position, m: int64) -> int64:
    """Returns the index of a move's piece and target, 0..PIECE_TO - 1; `s` is the position before it."""
    return (6 * side_to_move(s) + man_at(s, from_square(m))) * layout.SQUARES + landing_of(s, m)


@inner
def by_side(s: Position, m: int64) -> int64:
    """Returns the index of a move of the side to move in `history` and `replies`."""
    return side_to_move(s) * layout.FROM_TO + (m & layout.FROM_TO_MASK)


@inner
def move_before(S: Search, ply: int64) -> int64:
    """Returns the move that led to a ply, 0 at the root."""
    return S.frames[(ply - 1) * layout.FRAME + layout.MOVE] if ply > 0 else int64(0)


@inner
def follow_row(S: Search, ply: int64) -> int64:
    """Returns the start of the previous move's row in `follow`, -1 at the root."""
    if ply == 0:
        return int64(-1)
    return piece_to(adv(S.positions, (ply - 1) * PW), move_before(S, ply)) * layout.PIECE_TO


@inner
def quiet_score(S: Search, s: Position, m: int64, row: int64) -> int64:
    """Returns the history of a quiet move: its own, and that after the previous move."""
    score = S.history[by_side(s, m)]
    if row >= 0:
        score += 2 * int64(S.follow[row + piece_to(s, m)])
    return score


@inner
def plain_score(S: Search, s: Position, m: int64, ply: int64, row: int64, reply: int64) -> int64:
    """Returns the score of a move without visits in the graph."""
    gain = capture_gain(s, m)
    if gain > 0:
        return CAPTURE + gain * 8 - man_at(s, from_square(m))
    if gain < 0:
        return LOSING + gain  # promotions to less than a queen
    if m == S.killers[2 * ply]:
        return int64(KILLER + 2)
    if m == S.killers[2 * ply + 1]:
        return int64(KILLER + 1)
    if m == reply:
        return int64(KILLER)
    return quiet_score(S, s, m, row)


@inner
def score_moves(S: Search, s: Position, frame: Pointer[int64], ply: int64) -> None:
    """Scores the moves of a frame that are still to be tried."""
    moves = adv(S.moves, ply * layout.MOVE_ROOM)
    scores = adv(S.scores, ply * layout.MOVE_ROOM)
    row = follow_row(S, ply) if frame[layout.DEPTH] > 1 else int64(-1)
    before = move_before(S, ply)
    reply = S.replies[by_side(s, before)] if before else int64(0)
    for i in range(frame[layout.NEXT], frame[layout.COUNT]):
        scores[i] = plain_score(S, s, int64(moves[i]), ply, row, reply)
    frame[layout.SCORED] = 1


@inner
def score_by_graph(
    A: ArenaPointers, rec: int64, moves: Pointer[uint16], scores: Pointer[int64], n: int64
) -> None:
    """Raises the scores of all moves, in canonical order, by a record: much visited edges by N, others by P.

    Few visits predict less than the search's own history; those moves only get P added to it.
    """
    codes = code_bytes(A, rec)
    for i in range(n):
        scores[i] = scores[i] + (int64(codes[i]) & CODE) * CODE_WEIGHT
    if block_class_of(A, rec) == NO_BLOCK:
        return
    stride = stride_at(A, rec)
    edge = edge_at(A, rec, int64(0))
    for _ in range(materialised(A, rec)):
        visits = edge_visits(A, edge)
        move = edge_move(A, edge)
        if visits >= LEAST_VISITS:
            for i in range(n):
                if moves[i] == move:
                    scores[i] = VISITED + visits * 64
        edge += stride


@inner
def swap_moves(moves: Pointer[uint16], scores: Pointer[int64], a: int64, b: int64) -> None:
    """Swaps two moves and their scores."""
    move, score = moves[a], scores[a]
    moves[a], scores[a] = moves[b], scores[b]
    moves[b], scores[b] = move, score


@inner
def take_table_move(frame: Pointer[int64], moves: Pointer[uint16], scores: Pointer[int64]) -> int64:
    """Returns the entry's move, put first in the list; 0 if it is not among the legal ones."""
    for i in range(frame[layout.COUNT]):
        if int64(moves[i]) == frame[layout.TABLE_MOVE]:
            swap_moves(moves, scores, int64(0), int64(i))
            frame[layout.NEXT] = 1
            return frame[layout.TABLE_MOVE]
    return int64(0)


@inner
def loses(S: Search, s: Position, m: int64, at: int64, scores: Pointer[int64]) -> bool:
    """Returns whether a capture loses by exchange, and stores the result in its score."""
    if PLAIN_VALUES[man_at(s, from_square(m))] > capture_gain(s, m):
        won = exchange(S.table, s, m, S.gains)
        if won < 0:
            scores[at] = LOSING + won
            return True
    scores[at] += WINNING
    return False


@inner
def likely_key(T: BoardTable, s: Position, m: int64) -> uint64:
    """Returns the key after a move that does not castle, promote, take en passant or change such rights."""
    f, t = from_square(m), to_square(m)
    stm = side_to_move(s)
    ours = ZO + 64 * (1 - stm) + 128 * man_at(s, f)
    key = s[KEY] ^ T[ours + f] ^ T[ours + t] ^ T[ZO + 780]
    if (s[BLACK - stm] >> U(t)) & ONE:
        key ^= T[ZO + 64 * stm + 128 * man_at(s, t) + t]
    return key


@inner
def prefetch_children(
    S: Search, E: EntryPointers, s: Position, frame: Pointer[int64], moves: Pointer[uint16]
) -> None:
    """Prefetches the entries, or cache slots, of the next children, since the first did not end the node."""
    for i in range(1, frame[layout.COUNT]):
        key = likely_key(S.table, s, int64(moves[i]))
        if frame[layout.DEPTH] == 1:
            prefetch(S.cache, int64(key & S.cache_mask) * 2)
        else:
            prefetch_entry(E, key)


@inner
def next_move(S: Search, E: EntryPointers, s: Position, frame: Pointer[int64], ply: int64) -> int64:
    """Returns the next move to try, 0 if none is left."""
    moves = adv(S.moves, ply * layout.MOVE_ROOM)
    scores = adv(S.scores, ply * layout.MOVE_ROOM)
    if frame[layout.NEXT] == 0 and frame[layout.TABLE_MOVE]:
        m = take_table_move(frame, moves, scores)
        if m:
            return m
    if not frame[layout.SCORED]:
        score_moves(S, s, frame, ply)
    if frame[layout.NEXT] == 1:
        prefetch_children(S, E, s, frame, moves)
    if (
        frame[layout.DEPTH] == 1
        and frame[layout.NEXT] >= SORTED_LEAVES
        and frame[layout.NEXT] < frame[layout.COUNT]
    ):
        frame[layout.NEXT] += 1
        return int64(moves[frame[layout.NEXT] - 1])
    while frame[layout.NEXT] < frame[layout.COUNT]:
        at = frame[layout.NEXT]
        best = at
        for j in range(at + 1, frame[layout.COUNT]):
            if scores[j] > scores[best]:
                best = j
        m = int64(moves[best])
        if scores[best] >= CAPTURE and scores[best] < WINNING and loses(S, s, m, best, scores):
            continue
        swap_moves(moves, scores, at, best)
        frame[layout.NEXT] = at + 1
        return m
    return int64(0)


@inner
def _moved_towards(old: int64, bonus: int64) -> int64:
    """Returns a history value after a bonus or a malus; it never leaves +-HISTORY_LIMIT."""
    return old + bonus - old * abs(bonus) // HISTORY_LIMIT


@inner
def reward(S: Search, s: Position, m: int64, row: int64, bonus: int64) -> None:
    """Adds a bonus to a quiet move's history."""
    at = by_side(s, m)
    S.history[at] = _moved_towards(S.history[at], bonus)
    if row >= 0:
        to = row + piece_to(s, m)
        S.follow[to] = int16(_moved_towards(int64(S.follow[to]), bonus))


@inner
def learn_cut(S: Search, s: Position, frame: Pointer[int64], ply: int64) -> None:
    """Rewards the last move tried for ending the node, and penalises the quiet ones before it."""
    m = frame[layout.MOVE]
    if not is_quiet(s, m):
        return
    if S.killers[2 * ply] != m:
        S.killers[2 * ply + 1] = S.killers[2 * ply]
        S.killers[2 * ply] = m
    before = move_before(S, ply)
    if before:
        S.replies[by_side(s, before)] = m
    row = follow_row(S, ply)
    bonus = min(frame[layout.DEPTH] * frame[layout.DEPTH] * 16, int64(MOST_BONUS))
    reward(S, s, m, row, bonus)
    moves = adv(S.moves, ply * layout.MOVE_ROOM)
    for i in range(frame[layout.NEXT] - 1):
        if is_quiet(s, int64(moves[i])):
            reward(S, s, int64(moves[i]), row, -bonus)


@inner
def order_by_graph(S: Search, A: ArenaPointers, s: Position, frame: Pointer[int64], ply: int64) -> bool:
    """Scores a frame's moves with its record, if that has as many moves; returns whether it did."""
    rec = frame[layout.RECORD]
    if move_count(A, rec) != frame[layout.COUNT]:
        return False
    score_moves(S, s, frame, ply)
    score_by_graph(
        A,
        rec,
        adv(S.moves, ply * layout.MOVE_ROOM),
        adv(S.scores, ply * layout.MOVE_ROOM),
        frame[layout.COUNT],
    )
    return True
