"""The growth of a book by one searched position: values from its record, and decisions on its moves.

The best move is always added. Further own moves: by `own_cp` and `own_moves`. Further replies: by
`reply_cp`, `reply_p` and `reply_games`, at most the best `reply_moves`. A move without visits has no value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import chess

from ..base.answer import picked
from ..position.board import CHECKMATE, NOT_TERMINAL, board_of, fen_of, key_text, legal_moves, terminal_kind
from ..query.source import mate_of
from ..store.ranking import edge_of
from ..store.record import NodeRecord
from ..store.tables.books import is_own_turn
from ..store.tables.history import PV_MOVES, BookValues
from .tree import APART, END, LEAF, OPEN, BookMove, BookTree, Position, best_value, loss_from_q

if TYPE_CHECKING:
    from .config import BookConfig, Window

# ------------------------------------------------------------------ decisions
FORCED, QUEUE, CHOSEN, BEST, OWN_CP = "forced", "queue", "chosen", "best", "own_cp"
REPLY_CP, REPLY_P, REPLY_GAMES = "reply_cp", "reply_p", "reply_games"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A legal move in UCI, as input of a decision.

    Attributes:
      q: edge Q, None while n = 0; value: of the book if it has the move, else q; for the side that plays it.
      games: imported games with it. rule: by which the book added it; empty: the book does not have it.
      mate: in an explanation, moves to a mate proven of a value of 1 or -1; None without one.
    """

    move: str
    p: float
    n: int
    q: float | None
    value: float | None
    san: str = ""
    games: int = 0
    rule: str = ""
    mate: int | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on a candidate.

    Attributes:
      loss: centipawns against the best move; None if unknown.
      rule: by which it is in the book; empty: it stays outside. reason: the same in words, with the numbers.
      admitted: whether the rules admit the move now, or the queue or a person put it in; a book keeps other
        moves that were added before, and its exports leave them out.
    """

    candidate: Candidate
    loss: int | None
    rule: str
    reason: str
    admitted: bool

    def as_dict(self) -> dict[str, Any]:
        """Returns the verdict as an object of the JSON of `graphsearch book why`."""
        own = {"in_book": bool(self.rule), "rule": self.rule or None, "reason": self.reason}
        own["admitted"] = self.admitted
        numbers = picked(self.candidate, "p n q value mate") | {"loss_cp": self.loss}
        return picked(self.candidate, "move san") | own | numbers | picked(self.candidate, "games")


def decide(
    config: BookConfig, board: chess.Board, ply: int, known: Sequence[Candidate], wanted: Collection[str] = ()
) -> list[Verdict]:
    """Returns a verdict on every legal move of a position, best value first.

    Args:
      ply: of the position in the book. known: all legal moves. wanted: UCI moves from the queue.
    """
    ranked = sorted(known, key=_sort_key)
    best = ranked[0].value if ranked else None
    key = key_text(board)
    forced, excluded = config.forced.get(key, ()), config.excluded.get(key, ())
    window = None if ply >= config.max_ply else config.window_at(ply)
    tests = _Tests(window, is_own=is_own_turn(config.side, board.turn))
    verdicts = []
    for found in ranked:
        loss = loss_from_q(best, found.value)
        if found.move in excluded:
            rule, reason = "", "excluded by the configuration"
        else:
            rule, reason = tests.of(found, loss)  # counts an admitted forced move in the limit
        if found.move in forced:
            rule, reason = FORCED, "forced by the configuration"
        elif found.move in wanted and found.move not in excluded:
            rule, reason = QUEUE, "put in by the queue"
        elif key in config.only and found.move not in excluded:
            rule, reason = "", "only forced moves are added here"
        admitted = bool(rule) or (found.rule in (QUEUE, CHOSEN) and found.move not in excluded)
        if found.rule == CHOSEN and admitted:
            rule, reason = CHOSEN, "chosen by a person"
        elif found.rule and not rule and found.move not in excluded:
            rule, reason = found.rule, f"added before; now {reason}"
        verdicts.append(Verdict(found, loss, rule, reason, admitted))
    return verdicts


def _sort_key(found: Candidate) -> tuple[bool, float, bool, int, float, str]:
    """Returns the sort key of a candidate: value, then moves of the book first, then visits and prior."""
    value = 0.0 if found.value is None else found.value
    return (found.value is None, -value, not found.rule, -found.n, -found.p, found.move)


class _Tests:
    """The tests of a window; the caller passes moves best value first."""

    def __init__(self, window: Window | None, *, is_own: bool) -> None:
        self._window = window
        self._is_own = is_own
        self._admitted = 0
        self._has_best = False

    def of(self, found: Candidate, loss: int | None) -> tuple[str, str]:
        """Returns the rule that admits a move, or "", and the reason."""
        if self._window is None:
            return "", "no window covers this ply"
        rule, reason = (self._own if self._is_own else self._reply)(self._window, found, loss)
        most = self._window.own_moves if self._is_own else self._window.reply_moves
        if rule and most is not None and self._admitted >= most:
            return "", f"{reason}, but {most} better {'is' if most == 1 else 'are'} enough"
        self._admitted += bool(rule)
        return rule, reason

    def _own(self, window: Window, found: Candidate, loss: int | None) -> tuple[str, str]:
        if loss is None:
            return "", "not visited"
        if not self._has_best:
            self._has_best = True
            return BEST, "the best move"
        if loss <= window.own_cp:
            return OWN_CP, f"loses {loss} cp, at most {window.own_cp:g}"
        return "", f"loses {loss} cp, more than {window.own_cp:g}"

    def _reply(self, window: Window, found: Candidate, loss: int | None) -> tuple[str, str]:
        if loss is not None and not self._has_best:
            self._has_best = True
            return BEST, "the best reply"
        missed = []
        if window.reply_cp is not None:
            if loss is not None and loss <= window.reply_cp:
                return REPLY_CP, f"loses {loss} cp, at most {window.reply_cp:g}"
            missed.append(
                "not visited" if loss is None else f"loses {loss} cp, more than {window.reply_cp:g}"
            )
        if window.reply_p is not None:
            if found.p >= window.reply_p:
                return REPLY_P, f"P {found.p:.3f}, at least {window.reply_p:g}"
            missed.append(f"P {found.p:.3f}, below {window.reply_p:g}")
        if window.reply_games is not None:
            games = f"{found.games:,} game{'s' * (found.games != 1)}"
            if found.games >= window.reply_games:
                return REPLY_GAMES, f"{games}, at least {window.reply_games:,}"
            missed.append(f"{games}, below {window.reply_games:,}")
        return "", "; ".join(missed) or "only the best reply is added"


def may_admit(window: Window | None, loss: int | None, better: int, admitted: int, *, is_own: bool) -> bool:
    """Returns whether a window may admit the best move outside the book now, by its value or its rank.

    Args:
      loss: its centipawns against the best move. better: moves of the book with at least its value.
      admitted: moves of the book that windows admitted.
    """
    if window is None:
        return False
    most = window.own_moves if is_own else window.reply_moves
    limit = window.own_cp if is_own else window.reply_cp
    is_near = loss is not None and (better == 0 or (limit is not None and loss <= limit))
    if is_near and (most is None or better < most):
        return True
    # `reply_moves` alone may have kept it out
    has_others = window.reply_p is not None or window.reply_games is not None
    return not is_own and has_others and most is not None and better < most <= admitted


# ------------------------------------------------------------------ growing
Read = Callable[[chess.Board], NodeRecord | None]
Games = Callable[[list[str]], Mapping[str, Mapping[str, int]]]


def known_moves(board: chess.Board, record: NodeRecord) -> list[Candidate]:
    """Returns the legal moves of a position with the numbers of its record; without SAN, which is slow."""
    if not record.codes:
        return []
    moves, priors = legal_moves(board), record.priors
    found = []
    for k, i in enumerate(record.order):
        edge = edge_of(record, k)
        q = edge.value if edge.n else None
        found.append(Candidate(move=moves[i].uci(), p=priors[i], n=edge.n, q=q, value=q))
    return found


class Growth:
    """Adds positions and moves by the configuration."""

    def __init__(self, config: BookConfig, tree: BookTree, since: int, read: Read, games: Games) -> None:
        """Creates the growth of a tree by a run of the book, number `since`; `games`: as `games_by_move`."""
        self._config = config
        self._tree = tree
        self._since = since
        self.read = read
        self._games = games
        self.wanted: dict[str, set[str]] = {}
        self.added = 0

    def add(self, board: chess.Board, ply: int) -> Position:
        """Returns the book's position of a board, and adds it if it is new."""
        key = key_text(board)
        position = self._tree.positions.get(key)
        if position is None:
            position = Position(key=key, fen=fen_of(board), ply=ply, since=self._since)
            position.state, kind = self._state_of(position, board), terminal_kind(board)
            if kind != NOT_TERMINAL:
                position.value = -1.0 if kind == CHECKMATE else 0.0
            self.added += 1
            self._tree.add(position)
            self._tree.update([key])
            return position
        if ply < position.ply:
            self._tree.add(Position(key=key, fen="", ply=ply, since=self._since))
        if position.state == APART:
            self._bring_back(position)
        return position

    def _state_of(self, position: Position, board: chess.Board) -> str:
        """Returns the state of a position that a root leads to."""
        if terminal_kind(board) != NOT_TERMINAL:
            return END
        if position.n:  # without a move it is proven
            return OPEN if position.moves or position.outside is not None else END
        return LEAF if position.ply < self._config.max_ply else END

    def set_apart(self) -> None:
        """Sets positions that no root leads to `apart`, and restores those that a root leads to again."""
        reached = self._tree.reachable()
        gone = []
        for key, position in self._tree.positions.items():
            if key not in reached and position.state != APART:
                position.state = APART
                gone.append(key)
            elif key in reached and position.state == APART:
                self._bring_back(position)
        self._tree.touch(gone)

    def _bring_back(self, position: Position) -> None:
        """Restores the states of a position that was apart, and of its descendants."""
        waiting, found = [position], []
        while waiting:
            back = waiting.pop()
            if back.state == APART:
                back.state = self._state_of(back, board_of(back.fen))
                found.append(back.key)
                waiting += [self._tree.positions[move.child] for move in back.moves.values()]
        self._tree.touch(found)

    def learn(self, position: Position, board: chess.Board, record: NodeRecord) -> None:
        """Reads the record of a searched position, and adds the moves that its window admits."""
        position.n, position.since = record.visits, self._since
        lower, upper = record.bounds_at(board.halfmove_clock)
        if lower == upper and not any(edge.bounds == (lower, upper) for edge in record.edges):
            position.state, position.value = END, float(lower)  # proven, but not through a move
            self._tree.changed.add(position.key)
            self._tree.unsettled.add(position.key)
            self._tree.update([position.key, *position.parents])
        else:
            position.state = OPEN
            self._decide(position, board, record)
        self.settle()

    def redecide(self, position: Position) -> None:
        """Decides again on the moves of a searched position, from its record.

        If the file has lost the record, the position becomes a leaf.
        """
        board = board_of(position.fen)
        record = self.read(board)
        if record is not None:
            self._decide(position, board, record)
            return
        position.state = LEAF
        self._tree.touch([position.key])

    def redecide_all(self, goes_on: Callable[[], bool]) -> bool:
        """Decides again on searched positions until `goes_on` returns False; returns whether it did all."""
        tree = self._tree
        tree.unsettled.clear()
        searched = [position for position in tree.positions.values() if position.state == OPEN]
        for position in sorted(searched, key=lambda position: (-position.ply, position.key)):
            self.redecide(position)
            if not goes_on():
                return False
        self.settle()
        return True

    def _decide(self, position: Position, board: chess.Board, record: NodeRecord) -> None:
        known = self._read_numbers(position, board, record)
        for verdict in self.verdicts(position, board, known):
            name = verdict.candidate.move
            if verdict.rule and name not in position.moves:
                self._take_in(position, board, verdict)
            elif not verdict.rule and name in position.moves:
                self._tree.unlink(position, name)
        self._note_outside(position, known)
        self._tree.changed.add(position.key)
        self._tree.update([position.key])

    def refresh(self, positions: Collection[Position]) -> None:
        """Reads the numbers of searched positions again, as after another search; decides nothing."""
        for position in positions:
            record = self.read(board := board_of(position.fen)) if position.state == OPEN else None
            if record is not None:
                self._note_outside(position, self._read_numbers(position, board, record))
        self._tree.touch([position.key for position in positions])

    @staticmethod
    def _read_numbers(position: Position, board: chess.Board, record: NodeRecord) -> list[Candidate]:
        """Returns all legal moves, and copies the numbers of the moves of the book."""
        known = known_moves(board, record)
        own = [edge.n for edge in record.edges] + [0] * (len(known) - len(record.edges))
        for move, n in zip(known, own, strict=True):  # `n` lacks the visits behind the moves
            if taken := position.moves.get(move.move):
                taken.p, taken.n, taken.q = move.p, n, move.q
        return known

    def verdicts(self, position: Position, board: chess.Board, known: Sequence[Candidate]) -> list[Verdict]:
        """Returns the present verdicts on every legal move of a position."""
        games, found = self._games([position.key]).get(position.key, {}), []
        for move in known:
            taken = position.moves.get(move.move)
            value = self._tree.value_of(position, taken) if taken else None
            value = move.q if value is None else value  # a chosen move was not searched by the book
            rule = taken.rule if taken else ""
            found.append(replace(move, value=value, games=games.get(move.move, 0), rule=rule))
        return decide(self._config, board, position.ply, found, self.wanted.get(position.key, ()))

    def _take_in(self, position: Position, board: chess.Board, verdict: Verdict) -> None:
        found = verdict.candidate
        move = chess.Move.from_uci(found.move)
        san = board.san(move)
        board.push(move)
        child = self.add(board, position.ply + 1)
        board.pop()
        numbers = picked(found, "move p n q games") | picked(verdict, "rule loss")
        taken = BookMove(san=san, child=child.key, since=self._since, **numbers)
        self._tree.link(position, taken)
        # a known child's value differs from the edge's
        self._tree.unsettled.add(position.key)

    @staticmethod
    def _note_outside(position: Position, known: Sequence[Candidate]) -> None:
        """Stores the best value outside the book, so that no line looks better than it is."""
        outside = [move for move in known if move.move not in position.moves]
        visited = [move for move in outside if move.q is not None]
        best = max(visited, key=lambda move: (move.q or 0.0, move.n), default=None)
        position.outside, position.outside_move = (best.q, best.move) if best else (None, None)

    # -------------------------------------------------------------- values that change decisions
    def settle(self) -> None:
        """Adds moves that a window admits now because the values of other moves have changed."""
        tree = self._tree
        while tree.unsettled:
            changed = [tree.positions[key] for key in tree.unsettled]
            tree.unsettled.clear()
            near = {position.key for position in changed} | {key for p in changed for key in p.parents}
            for key in sorted(near):
                if self._has_more(tree.positions[key]):
                    self.redecide(tree.positions[key])
        for key in tree.lowered:  # beyond the last ply before; a shorter path to it was found
            self.fit_ply(tree.positions[key])
        tree.lowered.clear()

    def _has_more(self, position: Position) -> bool:
        """Returns whether a window may admit a move outside now; if the best one is excluded, the next."""
        if position.state != OPEN or position.outside is None:
            return False
        values = self._tree.values(position)
        better = sum(value is not None and value >= position.outside for value in values.values())
        loss = loss_from_q(best_value(position, values), position.outside)
        window = None if position.ply >= self._config.max_ply else self._config.window_at(position.ply)
        is_own = is_own_turn(self._config.side, position.turn)
        admitted = sum(move.rule not in (FORCED, QUEUE) for move in position.moves.values())
        may = may_admit(window, loss, better, admitted, is_own=is_own)
        return may and position.key not in self._config.only

    def fit_ply(self, position: Position) -> None:
        """Sets the state of a position that was never searched to leaf or end, by its ply."""
        if position.state not in (LEAF, END) or position.searches or position.n or position.value is not None:
            return
        state = LEAF if position.ply < self._config.max_ply else END
        if state != position.state:
            position.state = state
            self._tree.touch([position.key])


@dataclass(frozen=True, slots=True)
class RootValue:
    """A root of a book, its origin such as `root 1`, its value for the side to move, the move of that value.

    `best`: in SAN; the book may lack it. `mate`: moves to a mate proven of a value of 1 or -1, else None.
    """

    position: str
    origin: str
    value: float | None
    best: str | None
    mate: int | None

    @classmethod
    def of(cls, read: Read, position: str, origin: str, value: float | None, best: str | None) -> RootValue:
        """Returns a root with the mate that its record proves; `best`: in UCI."""
        board = board_of(position)
        record = read(board) if value in (-1.0, 1.0) else None
        san = board.san(chess.Move.from_uci(best)) if best else None
        return cls(position, origin, value, san, mate_of(record, board) if record else None)


Worth = tuple[float, str | None, tuple[str, ...]]  # value, best move, line


class Roots:
    """The roots of a book that is being built."""

    def __init__(self, tree: BookTree, growth: Growth) -> None:
        self._tree = tree
        self._growth = growth
        self._origins: dict[str, str] = {}
        self.worth: dict[str, Worth] = {}  # as last written to the history

    def enter(self, board: chess.Board, origin: str) -> None:
        """Makes a position a root of the book; `origin` is for the user."""
        position = self._growth.add(board, board.ply())
        if position.key not in self._tree.roots:
            self._tree.roots.append(position.key)
        self._origins[position.key] = origin

    def rows(self) -> list[tuple[str, str, str]]:
        """Returns (key, FEN, origin) of each root, for `rows.write_roots`."""
        return [(key, self._tree.positions[key].fen, self._origins[key]) for key in self._tree.roots]

    def values(self) -> tuple[RootValue, ...]:
        """Returns the value of each root."""
        read, best_move = self._growth.read, self._tree.best_move
        roots = [(self._tree.positions[key], self._origins[key]) for key in self._tree.roots]
        return tuple(RootValue.of(read, at.fen, origin, at.value, best_move(at)) for at, origin in roots)

    # -------------------------------------------------------------- the history
    def changes(self, searched: int) -> list[BookValues]:
        """Returns the roots with a new value, best move or line since the last call."""
        found = []
        for key in self._tree.roots:
            position = self._tree.positions[key]
            if position.value is None:
                continue
            line = self._line(position)
            worth = position.value, line[0] if line else None, line
            if self.worth.get(key) != worth:
                self.worth[key] = worth
                values = BookValues(
                    key=key,
                    searched=searched,
                    positions=len(self._tree.positions),
                    value=position.value,
                    n=position.n,
                    best_move=worth[1],
                    pv=" ".join(line) or None,
                )
                found.append(values)
        return found

    def _line(self, position: Position) -> tuple[str, ...]:
        """Returns the line of the best values from a position, in the book and one move beyond it."""
        line: list[str] = []
        while len(line) < PV_MOVES:
            best = self._tree.best_move(position)
            if best is None:
                break
            line.append(best)
            move = position.moves.get(best)
            if move is None or not self._tree.goes_on(position, move):
                break
            position = self._tree.positions[move.child]
        return tuple(line)
