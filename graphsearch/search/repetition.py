"""What the game before a position says of its moves: which draw or make no headway, which proofs count.

A position that occurred twice in the game is a draw when it is reached again.

The graph's values of the moves that draw come from other paths. In this game they are worth a draw, which no
visit has to find out. A record proves its result for a path without a history: in a game, a proof counts only
if none of its lines reaches a position that occurred twice.

    root -- winning move --> all defences --> ...   up to the next capture or pawn move, after which no
                                                    earlier position can recur
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import chess
from chess.polyglot import zobrist_hash

from ..graph.view import UNPROVEN, MoveView, NodeView, Reader, view
from ..position.board import after, occurrences
from ..position.values import WDL
from ..store.ranking import best_move

DRAWN = WDL(0.0, 1.0, 0.0)
# Q of another move that is worth refusing a draw, twice the average error of Q in open positions
REFUSING = 0.25


@dataclass(frozen=True, slots=True)
class Draws:
    """The moves of a position that lead to a third occurrence.

    Attributes:
      at_once: moves to a position that occurred twice. offered: moves with a reply to one.
    """

    at_once: frozenset[chess.Move] = frozenset()
    offered: frozenset[chess.Move] = frozenset()

    @classmethod
    def of(cls, board: chess.Board, listed: Collection[chess.Move] = ()) -> Draws:
        """Returns the drawing moves of the last position of a game, among the listed ones if there are any.

        >>> board = chess.Board()
        >>> for san in "Nf3 Nf6 Ng1 Ng8 Nf3 Nf6 Ng1".split():
        ...     _ = board.push_san(san)
        >>> list(map(str, Draws.of(board).at_once))
        ['f6g8']
        """
        twice = occurrences(board, 2)
        if not twice:
            return cls()
        asked = frozenset(listed or board.legal_moves)
        at_once = _moves_to(board, twice) & asked
        offered = frozenset(move for move in asked if _moves_to(after(board, move), twice))
        return cls(at_once, offered - at_once)

    def is_worth_a_draw(self, move: chess.Move, value: float | None) -> bool:
        """Returns whether a move of some value elsewhere is worth a draw here: no opponent refuses a gain."""
        return move in self.at_once or (move in self.offered and value is not None and value > 0)

    def ranked(self, rows: Sequence[tuple[chess.Move, int, float]]) -> list[tuple[chess.Move, int, float]]:
        """Returns rows of (move, visits, value), best first, with draws at their place and without visits."""
        order = self._order([(move, q if n else None) for move, n, q in rows])
        return [(rows[k][0], 0, 0.0) if draws else rows[k] for k, draws in order]

    def shown(self, node: NodeView) -> NodeView:
        """Returns the view of the position in this game: the draws at their place, with their value."""
        moves, order = node.moves, self._order([(move.move, move.q) for move in node.moves])
        return replace(node, moves=tuple(_drawn(moves[k]) if draws else moves[k] for k, draws in order))

    def _order(self, rows: Sequence[tuple[chess.Move, float | None]]) -> list[tuple[int, bool]]:
        """Returns the places of moves with a value, draws before the first not clearly better; what draws."""
        rest = [k for k, row in enumerate(rows) if not self.is_worth_a_draw(*row)]
        drawn = sorted({*range(len(rows))} - {*rest}, key=lambda k: (rows[k][0] not in self.at_once, k))
        place = next((i for i, k in enumerate(rest) if (rows[k][1] or 0.0) < REFUSING), len(rest))
        return [(k, k in drawn) for k in (*rest[:place], *drawn, *rest[place:])]

    def others(self, node: NodeView | None, moves: Sequence[chess.Move]) -> tuple[chess.Move, ...]:
        """Returns the moves of a list whose value here a search must find out; all if there are none."""
        values = {move.move: move.q for move in node.moves} if node else {}
        found = tuple(move for move in moves if not self.is_worth_a_draw(move, values.get(move)))
        return found or tuple(moves)


def _moves_to(board: chess.Board, past: Mapping[int, chess.Board]) -> frozenset[chess.Move]:
    """Returns the moves that lead to positions of the game, given by Polyglot key."""
    mover, men, at = board.turn, board.occupied_co, chess.BB_SQUARES
    if all(before.occupied_co[not mover] != men[not mover] for before in past.values()):
        return frozenset()  # to compare men is quicker than a key
    own = {before.occupied_co[mover] for before in past.values()}
    near = (m for m in board.legal_moves if men[mover] ^ at[m.from_square] ^ at[m.to_square] in own)
    return frozenset(move for move in near if zobrist_hash(after(board, move)) in past)


def _returns(board: chess.Board, past: Mapping[int, chess.Board], *, by_check: bool = True) -> bool:
    """Returns whether a position is one of the game, or its side to move can return to one of them.

    It has a move to one, or (`by_check`) a check after each answer to which the same is true.
    """
    if zobrist_hash(board) in past or _moves_to(board, past):
        return True
    for check in filter(board.gives_check, board.legal_moves if by_check else ()):
        at = after(board, check)
        answers = list(at.legal_moves)
        if answers and all(_returns(after(at, move), past, by_check=False) for move in answers):
            return True
    return False


def _drawn(move: MoveView) -> MoveView:
    """Returns the view of a move that draws."""
    return replace(move, q=0.0, wdl=DRAWN, cp=0, mate=None, bounds=UNPROVEN, pv=(move.move,))


# ------------------------------------------------------------------ headway
KEPT = 0.9  # of the best value: less does not hold it
LEAST_SHARE = 0.1  # of the most visits of a move to a new position, for a value that counts
FEW = 0.01  # share of visits of the first move: below it, the value of an earlier search does not count
CALM = 20  # plies of the clock from which on a move that resets it is preferred
DAMPING = 160  # plies beyond CALM at which a value would be damped to 0


@dataclass(frozen=True, slots=True)
class Headway:
    """What the game says of the moves of a side that is ahead.

    Attributes:
      repeats: whether a move leads to a position that occurred before, or lets the other side return to one.
      resetting: captures and pawn moves. clock: plies since the last of them.
    """

    repeats: Callable[[chess.Move], bool] = lambda _: False
    resetting: frozenset[chess.Move] = frozenset()
    clock: int = 0

    @classmethod
    def of(cls, board: chess.Board) -> Headway:
        """Returns what the last position of a game says.

        >>> board = chess.Board()
        >>> for san in "Nf3 Nf6 Ng1".split():
        ...     _ = board.push_san(san)
        >>> [move.uci() for move in board.legal_moves if Headway.of(board).repeats(move)]
        ['f6g8']
        """
        past, here = occurrences(board, 1) if board.halfmove_clock > 2 else {}, board.copy(stack=False)
        resetting = frozenset(filter(board.is_zeroing, board.legal_moves))
        returns = cache(lambda move: bool(past) and _returns(after(here, move), past))
        return cls(returns, resetting, board.halfmove_clock)

    def others(self, node: NodeView | None, moves: Sequence[chess.Move]) -> tuple[chess.Move, ...]:
        """Returns the moves of a list to search: those to new positions, if the side is clearly better."""
        ahead = node is not None and node.bounds != (1, 1) and node.q >= REFUSING
        return tuple(move for move in moves if not (ahead and self.repeats(move))) or tuple(moves)

    def first(self, rows: Sequence[tuple[chess.Move, int, float]]) -> int:
        """Returns which of the rows (move, visits, value), best first, to play.

        It is the first, unless that side is clearly better and has no proven win. Then it is the best one to
        a new position that holds the value. A move that resets the clock goes first if its value is not below
        that of the other, damped by the clock. If a search of new positions alone found that none holds the
        value, it is the best earlier one.
        """
        worth = (k for k, (_, n, q) in enumerate(rows) if q >= REFUSING and n > FEW * rows[0][1])
        held = max((k for k in worth if self.repeats(rows[k][0])), key=lambda k: rows[k][2], default=0)
        if held and rows[0][2] < KEPT * rows[held][2]:
            return held
        if not rows or not rows[0][1] or not REFUSING <= rows[0][2] < 1.0:
            return 0
        least = LEAST_SHARE * max((n for move, n, _ in rows if n and not self.repeats(move)), default=0)
        holding = [k for k, (_, n, q) in enumerate(rows) if n >= max(1, least) and q >= KEPT * rows[0][2]]
        fresh = [k for k in holding if not self.repeats(rows[k][0])] or [0]
        damped = rows[fresh[0]][2] * (1.0 - max(0, self.clock - CALM) / DAMPING)
        resetting = [k for k in fresh if rows[k][0] in self.resetting and rows[k][2] >= damped]
        if self.clock < CALM or not resetting:
            return fresh[0]
        return max(resetting, key=lambda k: rows[k][2])

    def ranked(self, rows: Sequence[tuple[chess.Move, int, float]]) -> list[tuple[chess.Move, int, float]]:
        """Returns rows, best first, with the one to play before the others."""
        k = self.first(rows)
        return [*rows[k : k + 1], *rows[:k], *rows[k + 1 :]]

    def shown(self, node: NodeView) -> NodeView:
        """Returns the view of the position with the move to play before the others."""
        k = self.first([(move.move, move.n, move.q or 0.0) for move in node.moves])
        moves = node.moves
        return replace(node, moves=(*moves[k : k + 1], *moves[:k], *moves[k + 1 :])) if k else node


# ------------------------------------------------------------------ proofs
MOST_POSITIONS = 3000  # of a proof to examine; a longer proof is doubtful


def view_in_game(
    read: Reader,
    board: chess.Board,
    past: Collection[int],
    *,
    lines: int | None = None,
    first: Collection[chess.Move] = (),
) -> NodeView | None:
    """Returns `view` of a position after a game with these `history_keys`; None if it is unknown."""
    doubtful = doubtful_moves(read, board, past) if len(past) else None
    return view(read, board, lines=lines, first=first, doubtful=doubtful)


def doubtful_moves(read: Reader, board: chess.Board, past: Collection[int]) -> frozenset[chess.Move]:
    """Returns the moves whose proof may reach one of these positions, or that lead to one at once."""
    keys, seen = frozenset(int(key) for key in past), set[int]()
    return frozenset(move for move in board.legal_moves if _may_reach(read, after(board, move), keys, seen))


def _may_reach(read: Reader, board: chess.Board, past: frozenset[int], seen: set[int]) -> bool:
    """Returns whether a line of the proof of a position may reach the past; adds to the positions `seen`.

    The line follows one move of the side that wins, and all of the other side.
    """
    waiting = [board]
    while waiting:
        at = waiting.pop()
        key = zobrist_hash(at)
        if at.halfmove_clock == 0 or key in seen or not any(at.legal_moves):
            continue
        record = None if key in past or len(seen) >= MOST_POSITIONS else read(at)
        proof = record.proof_at(at.halfmove_clock) if record else None
        if record is None or proof is None or not proof.result:
            return True
        seen.add(key)
        if record.codes:
            best = best_move(record, at) if proof.result > 0 else None
            waiting += [after(at, move) for move in ([best] if best else at.legal_moves)]
    return False
