"""A third occurrence in the game: who stands better avoids it, and who stands worse seeks it."""

from __future__ import annotations

import chess
import numpy as np
import pytest

from graphsearch import Graph, Limits, analyze
from graphsearch.evaluators.protocol import Evaluation, PositionBatch
from graphsearch.search.repetition import Draws
from graphsearch.uci.answer import quick_move
from tests.support.positions import played
from tests.support.reference import HashEvaluator
from tests.uci.engines import Played, best_of, field_of

BEFORE = "3r2k1/5pp1/3p1n1p/8/1P1P3P/3N1KP1/2R2P2/8 b - - 0 1"
TWICE = "f6d5 f3e4 d5f6 e4f3 f6d5 f3e4 d5f6"  # Kf3 would be the third time
HERE = "3r2k1/5pp1/3p1n1p/8/1P1PK2P/3N2P1/2R2P2/8 w - - 2 2"


class Habits(HashEvaluator):
    """White's result is the same everywhere, and one of White's moves has most of the prior."""

    def __init__(self, result: float, habit: str) -> None:
        super().__init__()
        self._result, self._habit = result, habit

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        answer = super().evaluate(batch)
        white = (1 + self._result) / 2
        for row, (board, moves) in enumerate(batch.boards()):
            share = white if board.turn == chess.WHITE else 1 - white
            answer.wdl[row] = (share, 0.0, 1 - share)
            usual = [move.uci() == self._habit for move in moves]
            priors = np.where(usual, 50.0, 1.0)
            answer.priors[batch.offsets[row] : batch.offsets[row + 1]] = priors / priors.sum()
        return answer


def answered(result: float, habit: str, *limits: str) -> tuple[list[str], list[str]]:
    """Returns the answers without the game, and in the game that may end by a third occurrence."""
    with Played({"MultiPV": "30"}, make=lambda settings: Habits(result, habit)) as engine:
        fresh = engine.ready().ask(f"position fen {HERE}", "go nodes 3000", until="bestmove")
        game = engine.ask(f"position fen {BEFORE} moves {TWICE}", "go nodes 3100", until="bestmove")
        return fresh, game


def test_the_side_that_stands_better_does_not_repeat_whatever_earlier_searches_preferred() -> None:
    fresh, game = answered(0.6, "e4f3")
    assert best_of(fresh) == "e4f3"
    assert best_of(game) != "e4f3"
    drawn = [line for line in game if " pv e4f3" in line][-1]
    assert field_of(drawn, "cp") == 0


@pytest.mark.parametrize("habit", ["e4e3", "e4f3"])
def test_the_side_that_stands_worse_repeats_whatever_earlier_searches_preferred(habit: str) -> None:
    fresh, game = answered(-0.6, habit)
    assert best_of(fresh) == habit
    assert best_of(game) == "e4f3"
    assert field_of(next(line for line in reversed(game) if " multipv 1 " in line), "cp") == 0


@pytest.mark.parametrize(
    ("result", "habit", "best"), [(0.6, "e4f3", None), (-0.6, "e4e3", "e4f3"), (-0.6, "e4f3", "e4f3")]
)
def test_an_analysis_gives_the_draw_the_same_place(result: float, habit: str, best: str | None) -> None:
    game, other = played(BEFORE, TWICE.split()), chess.Move.from_uci("e4e3")
    with Graph.open(None, evaluator=Habits(result, habit)) as graph:
        alone = analyze(graph, chess.Board(HERE), Limits(visits=1000))
        assert str(alone.bestmove) == habit
        shown: list[chess.Move] = []
        found = analyze(
            graph,
            game,
            Limits(visits=100),
            on_progress=lambda now: shown.append(now.node().moves[0].move),
        )
        listed = analyze(graph, game, Limits(visits=100), searchmoves=[other])
    assert str(found.bestmove) == best if best else str(found.bestmove) != "e4f3"
    assert shown[-1] == found.bestmove
    drawn = next(move for move in found.node.moves if str(move.move) == "e4f3")
    assert (drawn.q, drawn.pv) == (0, (drawn.move,))
    assert listed.bestmove == other


def test_the_gui_may_ask_for_other_moves_than_the_draw() -> None:
    with Played(make=lambda settings: Habits(-0.6, "e4e3")) as engine:
        lines = (f"position fen {BEFORE} moves {TWICE}", "go nodes 300 searchmoves e4e3 e4f4")
        assert best_of(engine.ready().ask(*lines, until="bestmove")) in ("e4e3", "e4f4")
        lines = (f"position fen {BEFORE} moves {TWICE}", "go nodes 300 searchmoves e4f3")
        assert best_of(engine.ask(*lines, until="bestmove")) == "e4f3"


def test_a_move_that_lets_the_worse_side_repeat_is_a_draw_as_well() -> None:
    game = played(BEFORE, [*TWICE.split(), *["e4e3", "f6d7", "e3e2", "d7b6"]])
    draws = Draws.of(game)
    assert not draws.at_once
    (offered,) = draws.offered  # ...Nd5 would be the third time
    assert offered == chess.Move.from_uci("e2f3")
    assert draws.is_worth_a_draw(offered, 0.5)
    assert not draws.is_worth_a_draw(offered, -0.5)


def test_a_game_without_repetition_has_no_draws() -> None:
    assert not Draws.of(played(BEFORE, TWICE.split()[:4]))
    assert not Draws.of(played(BEFORE, [*TWICE.split(), "e4e3", "g7g6"]))


def test_a_move_without_a_search_repeats_only_if_material_is_behind() -> None:
    for queen, third in (("Q", False), ("q", True)):
        fen = f"k7/8/8/8/8/2{queen}5/8/6K1 w - - 0 1"
        game = played(fen, ["g1h1", "a8b8", "h1g1", "b8a8"] * 2 + ["g1h1", "a8b8"])
        draws = Draws.of(game).at_once
        assert chess.Move.from_uci("h1g1") in draws
        assert (quick_move(game, (), draws) in draws) == third
        assert quick_move(game, draws, draws) in draws


def test_a_draw_is_refused_only_for_a_clearly_better_move() -> None:
    repeat, other, worse = (chess.Move.from_uci(text) for text in ("f6g8", "d7d5", "h7h5"))
    draws = Draws(at_once=frozenset({repeat}))
    for value, place in ((0.5, 1), (0.1, 0), (-0.3, 0)):
        rows = draws.ranked([(repeat, 90, 0.4), (other, 50, value), (worse, 10, -0.6)])
        assert [row[0] for row in rows].index(repeat) == place, value
