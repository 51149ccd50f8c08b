"""The book in memory, on graphs worked out by hand: values, ways to leaves, policies, what windows admit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import chess
import pytest

from graphsearch.book.config import BookConfig, Expansion, Root, Window
from graphsearch.book.growth import Candidate, Verdict, decide
from graphsearch.book.tree import LEAF, OPEN, BookMove, BookTree, Position
from graphsearch.position.board import key_text
from graphsearch.position.values import CP_FACTOR, CP_SLOPE

from ..conftest import present

Edge = tuple[str, str] | tuple[str, str, dict[str, Any]]  # move, child, fields of the move


def book_move(move: str, child: str, **fields: Any) -> BookMove:
    """Returns a move of a book to a named position, with what is not said as it mostly is."""
    numbers: dict[str, Any] = {"p": 0.5, "n": 1, "q": 0.0, "loss": None, "games": 0, "since": 1} | fields
    return BookMove(move=move, san=move, child=child, rule="best", **numbers)


def tree_of(expansion: Expansion, plies: Mapping[str, int], edges: Mapping[str, Sequence[Edge]]) -> BookTree:
    """Returns a book of named positions: their plies, and the moves of those that were searched."""
    tree = BookTree(expansion)
    for name, ply in plies.items():
        state = OPEN if name in edges else LEAF
        tree.add(Position(key=name, fen=f"fen of {name}", ply=ply, since=1, state=state))
    tree.roots = ["a"]
    for name, moves in edges.items():
        for move, child, *fields in moves:
            tree.link(tree.positions[name], book_move(move, child, **dict(*fields)))
    tree.update(tree.positions)
    return tree


PLAIN = Expansion(policy="dropout", alpha=1.0)
#        a          ply 0
#      x/ \y
#      b   c        ply 1
#     u| \v|w
#      d   e        ply 2: e has two ways to it
PLIES = {"a": 0, "b": 1, "c": 1, "d": 2, "e": 2}
EDGES = {
    "a": [("x", "b", {"q": 0.0}), ("y", "c", {"q": 0.0})],
    "b": [("u", "d", {"q": 0.1}), ("v", "e", {"q": 0.3})],
    "c": [("w", "e", {"q": -0.2})],
}


def cp(*numbers: float) -> list[float]:
    return [math.atan(number / CP_FACTOR) / CP_SLOPE for number in numbers]


# ------------------------------------------------------------------ values
def test_a_move_outside_the_book_keeps_the_value_up_or_down() -> None:
    tree = tree_of(PLAIN, PLIES, EDGES)
    tree.positions["b"].outside = 0.8  # the refutation of x, which is not in the book
    tree.update(["b"])
    assert tree.positions["b"].value == 0.8
    assert tree.positions["a"].value == 0.2
    tree.positions["c"].outside = 0.9
    tree.update(["c"])
    assert tree.positions["a"].value == -0.8, "both moves of the root are refuted from outside the book"


def test_a_move_back_counts_with_its_own_edge_and_closes_no_circle() -> None:
    plies = {"a": 0, "b": 1, "c": 2}
    edges = {
        "a": [("x", "b", {"q": 0.1})],
        "b": [("y", "c", {"q": 0.2})],
        "c": [("z", "b", {"q": 0.4}), ("t", "a", {"q": 0.3})],
    }
    tree = tree_of(PLAIN, plies, edges)
    assert tree.positions["c"].value == 0.4
    assert tree.positions["a"].value == 0.4
    assert tree.positions["a"].reach is None, "nothing is left to search"


# ------------------------------------------------------------------ policies
def test_dropout_takes_the_leaf_of_least_plies_and_losses() -> None:
    best, near, far = cp(100, 90, 40)
    plies = {"a": 0, "b": 1, "c": 1, "d": 1, "e": 2}
    edges = {
        "a": [("x", "b", {"q": best}), ("y", "c", {"q": near}), ("z", "d", {"q": far})],
        "b": [("u", "e", {"q": -best})],
    }
    # b is searched: its leaf e costs 1 + 1; c costs 1 + .1 alpha, d costs 1 + .6 alpha
    for alpha, expected in ((0.5, "c"), (5.0, "c"), (20.0, "e")):
        tree = tree_of(Expansion(policy="dropout", alpha=alpha), plies, edges)
        assert present(tree.next_line()).keys[-1] == expected
        costs = tree.costs()
        assert costs["e"] == pytest.approx(2.0)
        assert costs["c"] == pytest.approx(1 + 0.1 * alpha)
        assert costs["d"] == pytest.approx(1 + 0.6 * alpha)
        assert tree.positions["a"].reach == pytest.approx(min(costs["c"], costs["e"]))


def test_cost_adds_loss_unlikeliness_and_breadth() -> None:
    best, worse = cp(30, 10)
    plies = {"a": 0, "b": 1, "c": 1, "d": 2}
    edges = {
        "a": [("x", "b", {"q": best, "p": 0.6}), ("y", "c", {"q": worse, "p": 0.2})],
        "b": [("u", "d", {"q": -best, "p": 0.9})],
    }
    expansion = Expansion(policy="cost", per_ply=1.0, per_loss=3.0, per_log_p=0.7, per_move=0.25)
    tree = tree_of(expansion, plies, edges)
    to_b = 1.0 + 0.7 * -math.log(0.6)
    costs = tree.costs()
    assert costs["b"] == pytest.approx(to_b)
    assert costs["d"] == pytest.approx(to_b + 1.0 + 0.7 * -math.log(0.9))
    assert costs["c"] == pytest.approx(1.0 + 3.0 * 0.2 + 0.7 * -math.log(0.2) + 0.25)
    assert present(tree.next_line()).keys[-1] == min("cd", key=lambda name: costs[name])


# ------------------------------------------------------------------ what windows admit
BOARD = chess.Board()
MOVES = ("e2e4", "d2d4", "g1f3", "c2c4", "a2a3")


def config(window: Window, side: Any = "white", **more: Any) -> BookConfig:
    return BookConfig(
        text="", name="b", side=side, max_ply=8, roots=(Root(BOARD, "root 1"),), windows=(window,), **more
    )


def known(*cps: float | None, p: float = 0.1, games: int = 0) -> list[Candidate]:
    """Returns candidates of these centipawns, None for one that was not visited."""
    values = [None if number is None else cp(number)[0] for number in cps]
    return [
        Candidate(move, p, 0 if value is None else 9, value, value, games=games)
        for move, value in zip(MOVES, values, strict=False)
    ]


def ruling(*moves: str) -> dict[str, tuple[str, ...]]:
    return {key_text(BOARD): moves}


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


def test_what_a_person_decided_comes_before_windows() -> None:
    found = known(30, 20, 10, 0, None)
    assert asked(Window(), found, forced=ruling("a2a3")) == {"e2e4": "best", "a2a3": "forced"}
    assert asked(Window(), found, excluded=ruling("e2e4")) == {"d2d4": "best"}
    alone = {"forced": ruling("a2a3"), "only": frozenset([key_text(BOARD)])}
    assert asked(Window(), found, **alone) == {"a2a3": "forced"}
    elsewhere = {key_text(chess.Board("4k3/8/8/8/8/8/8/4K2R w - - 0 1")): ("e2e4",)}
    assert asked(Window(), found, excluded=elsewhere) == {"e2e4": "best"}


def test_what_was_taken_stays_unless_it_is_excluded() -> None:
    found = known(30, 20)
    taken = [found[0], Candidate("d2d4", 0.1, 9, 0.0, -0.5, rule="best")]
    verdicts = decide(config(Window()), BOARD, 0, taken)
    assert rules(verdicts) == {"e2e4": "best", "d2d4": "best"}
    assert verdicts[1].reason.startswith("added before; now loses")
    assert asked(Window(), taken, excluded=ruling("d2d4")) == {"e2e4": "best"}
