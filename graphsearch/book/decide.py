"""Decides which moves of a position belong in a book, with reasons; a pure function.

The best move is always added. Further own moves: by `own_cp` and `own_moves`. Further replies: by
`reply_cp`, `reply_p` and `reply_games`, at most the best `reply_moves`. A move without visits has no value.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import chess

from ..base.answer import picked
from ..position.board import key_text
from .config import BookConfig, Window, is_own_turn
from .tree import loss_from_q

FORCED, QUEUE, CHOSEN, BEST, OWN_CP = "forced", "queue", "chosen", "best", "own_cp"
REPLY_CP, REPLY_P, REPLY_GAMES = "reply_cp", "reply_p", "reply_games"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A legal move, as input of a decision.

    Attributes:
      move: UCI. p: prior. n: edge N. san: SAN.
      q: edge Q, None while n = 0; value: of the book if it has the move, else q; for the side that plays it.
      games: imported games with it. rule: by which the book added it; empty: the book does not have it.
    """

    move: str
    p: float
    n: int
    q: float | None
    value: float | None
    san: str = ""
    games: int = 0
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on a candidate.

    Attributes:
      loss: centipawns against the best move; None if unknown.
      rule: by which it is in the book; empty: it stays outside.
      reason: the same in words, with the numbers.
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
        numbers = picked(self, "p=candidate.p n=candidate.n q=candidate.q value=candidate.value loss_cp=loss")
        return picked(self.candidate, "move san") | own | numbers | picked(self.candidate, "games")


def decide(
    config: BookConfig, board: chess.Board, ply: int, known: Sequence[Candidate], wanted: Collection[str] = ()
) -> list[Verdict]:
    """Returns a verdict on every legal move of a position, best value first.

    Args:
      ply: of the position in the book.
      known: all legal moves.
      wanted: UCI moves from the queue.
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
            if found.games >= window.reply_games:
                return REPLY_GAMES, f"{found.games:,} games, at least {window.reply_games:,}"
            missed.append(f"{found.games:,} games, below {window.reply_games:,}")
        return "", "; ".join(missed) or "only the best reply is added"


def admits_by_value(window: Window | None, loss: int | None, better: int, *, is_own: bool) -> bool:
    """Returns whether a window admits a move outside the book by its value alone.

    Args:
      loss: centipawns against the best move. better: moves of the book with at least its value.
    """
    if window is None or loss is None:
        return False
    most = window.own_moves if is_own else window.reply_moves
    if most is not None and better >= most:
        return False
    limit = window.own_cp if is_own else window.reply_cp
    return better == 0 or (limit is not None and loss <= limit)


def admits_by_rank(window: Window | None, admitted: int, better: int) -> bool:
    """Returns whether a reply that only `reply_moves` kept out may now be among the best `reply_moves`.

    Args:
      admitted: replies of the book that windows admitted.
      better: moves of the book with at least the value of the best move outside.
    """
    if (
        window is None
        or window.reply_moves is None
        or (window.reply_p is None and window.reply_games is None)
    ):
        return False
    return better < window.reply_moves <= admitted
