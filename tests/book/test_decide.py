"""What windows admit, and the words for it."""

from __future__ import annotations

from typing import Any

import chess
import pytest

from graphsearch.book.config import BookConfig, Root, Ruling, Window
from graphsearch.book.decide import Candidate, Verdict, admits_by_value, decide

from .conftest import q_from_cp

BOARD = chess.Board()
MOVES = ("e2e4", "d2d4", "g1f3", "c2c4", "a2a3")


def config(window: Window, side: Any = "white", **more: Any) -> BookConfig:
    return BookConfig(
        text="", name="b", side=side, max_ply=8, roots=(Root(BOARD, "root 1"),), windows=(window,), **more
    )


def known(*cps: float | None, p: float = 0.1, games: int = 0) -> list[Candidate]:
    """Returns candidates of these centipawns, None for one that was not visited."""
    values = [None if cp is None else q_from_cp(cp) for cp in cps]
    return [
        Candidate(move, p, 0 if value is None else 9, value, value, games=games)
        for move, value in zip(MOVES, values, strict=False)
    ]


def ruling(*moves: str, only: bool = False) -> tuple[Ruling]:
    return (Ruling(board=BOARD, moves=tuple(map(chess.Move.from_uci, moves)), only=only),)


def rules(verdicts: list[Verdict]) -> dict[str, str]:
    return {v.candidate.move: v.rule for v in verdicts if v.rule}


def asked(window: Window, found: list[Candidate], **more: Any) -> dict[str, str]:
    return rules(decide(config(window, **more), BOARD, 0, found))


def test_of_own_moves_the_best_within_the_window_are_taken() -> None:
    found = known(30, 20, 10, -40, None)
    assert asked(Window(), found) == {"e2e4": "best"}
    assert asked(Window(own_cp=15, own_moves=None), found) == {"e2e4": "best", "d2d4": "own_cp"}
    assert asked(Window(own_cp=25, own_moves=2), found) == {"e2e4": "best", "d2d4": "own_cp"}
    assert asked(Window(own_cp=25, own_moves=None), found).keys() == {"e2e4", "d2d4", "g1f3"}


def test_of_replies_any_test_admits() -> None:
    found = known(30, 20, -100, -100, None)
    assert asked(Window(), found, side="black") == {"e2e4": "best"}
    assert asked(Window(reply_cp=10), found, side="black") == {"e2e4": "best", "d2d4": "reply_cp"}
    likely = [*found[:2], *known(0, 0, -100, p=0.3)[2:3], *found[3:]]
    assert asked(Window(reply_p=0.2), likely, side="black") == {"e2e4": "best", "g1f3": "reply_p"}
    played = [*found[:3], *known(0, 0, 0, -100, games=7)[3:4], *found[4:]]
    assert asked(Window(reply_games=7), played, side="black") == {"e2e4": "best", "c2c4": "reply_games"}
    assert asked(Window(reply_games=8), played, side="black") == {"e2e4": "best"}
    unseen = [*found[:4], *known(0, 0, 0, 0, None, p=0.3)[4:]]
    assert asked(Window(reply_p=0.2), unseen, side="black").keys() == {"e2e4", "a2a3"}


def test_at_most_so_many_replies() -> None:
    window = Window(reply_cp=1000, reply_moves=3)
    verdicts = decide(config(window, side="black"), BOARD, 0, known(30, 20, 10, 0, -10))
    assert rules(verdicts).keys() == {"e2e4", "d2d4", "g1f3"}
    assert verdicts[3].reason == "loses 30 cp, at most 1000, but 3 better are enough"


def test_a_book_of_both_sides_takes_own_moves_everywhere() -> None:
    window = Window(own_cp=15, own_moves=None, reply_p=0.0)
    assert asked(window, known(30, 20, -100), side="both") == {"e2e4": "best", "d2d4": "own_cp"}


def test_what_a_person_decided_comes_before_windows() -> None:
    found = known(30, 20, 10, 0, None)
    assert asked(Window(), found, forced=ruling("a2a3")) == {"e2e4": "best", "a2a3": "forced"}
    assert asked(Window(), found, excluded=ruling("e2e4")) == {"d2d4": "best"}
    assert asked(Window(), found, forced=ruling("a2a3", only=True)) == {"a2a3": "forced"}
    elsewhere = (Ruling(board=chess.Board("4k3/8/8/8/8/8/8/4K2R w - - 0 1"), moves=()),)
    assert asked(Window(), found, excluded=elsewhere) == {"e2e4": "best"}


def test_what_the_queue_wants_is_taken_unless_it_is_excluded() -> None:
    found = known(30, 20)
    assert rules(decide(config(Window()), BOARD, 0, found, ["d2d4"])) == {"e2e4": "best", "d2d4": "queue"}
    without = config(Window(), excluded=ruling("d2d4"))
    assert rules(decide(without, BOARD, 0, found, ["d2d4"])) == {"e2e4": "best"}


def test_what_was_taken_stays_unless_it_is_excluded() -> None:
    found = known(30, 20)
    taken = [found[0], Candidate("d2d4", 0.1, 9, 0.0, -0.5, rule="best")]
    verdicts = decide(config(Window()), BOARD, 0, taken)
    assert rules(verdicts) == {"e2e4": "best", "d2d4": "best"}
    assert verdicts[1].reason.startswith("added before; now loses")
    assert asked(Window(), taken, excluded=ruling("d2d4")) == {"e2e4": "best"}


def test_beyond_the_last_ply_and_outside_all_windows_nothing_is_taken() -> None:
    assert rules(decide(config(Window()), BOARD, 8, known(30))) == {}
    verdicts = decide(config(Window(first=2, last=4)), BOARD, 1, known(30))
    assert verdicts[0].reason == "no window covers this ply"
    both = BookConfig(
        text="",
        name="b",
        side="white",
        max_ply=9,
        roots=(),
        windows=(Window(last=3), Window(first=2, own_cp=50, own_moves=None)),
    )
    assert len(rules(decide(both, BOARD, 2, known(30, 20)))) == 2, "of two windows the last counts"
    assert len(rules(decide(both, BOARD, 1, known(30, 20)))) == 1


@pytest.mark.parametrize("side", ["white", "black"])
def test_the_quick_test_by_value_agrees_with_the_decision(side: str) -> None:
    for cp in (0, 10, 20, 30):
        for most in (None, 1, 2):
            window = Window(own_cp=15, own_moves=most, reply_cp=15, reply_moves=most)
            found = known(20, cp, -300)
            taken = [Candidate("e2e4", 0.1, 9, found[0].value, found[0].value, rule="best"), *found[1:]]
            loss = max(0, 20 - cp)
            better = int(cp <= 20)
            top = max(20, cp)
            quick = admits_by_value(window, top - cp, better, is_own=side == "white")
            decided = "d2d4" in rules(decide(config(window, side=side), BOARD, 0, taken))
            assert quick == decided, (cp, most, loss)


def test_a_forced_move_that_a_window_admits_takes_one_of_its_places() -> None:
    forced = ruling("e2e4")
    assert asked(Window(), known(30, 20), forced=forced) == {"e2e4": "forced"}
    assert asked(Window(own_cp=15, own_moves=2), known(30, 20, 16), forced=forced).keys() == {"e2e4", "d2d4"}
