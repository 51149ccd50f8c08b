"""Golden searches: the same visits as on record, and the built-in evaluator's answers as on record."""

from __future__ import annotations

import json

import chess
import pytest

from graphsearch.evaluators.assess import assess_boards
from graphsearch.evaluators.factory import create
from tests.support.golden_searches import CASES, FILE, run_case

RECORDED = json.loads(FILE.read_text())


@pytest.mark.parametrize("i", range(len(CASES)))
def test_a_search_makes_the_visits_on_record(i: int) -> None:
    assert run_case(*CASES[i]) == RECORDED[i]


def test_the_built_in_evaluator_tells_won_from_lost() -> None:
    boards = [
        chess.Board("4k3/8/8/8/8/8/PPPP4/RNBQK3 w - - 0 1"),
        chess.Board("4k3/8/8/8/8/8/PPPP4/RNBQK3 b - - 0 1"),
        chess.Board(),
        chess.Board("6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"),
    ]
    ((won, lost, level, mate),) = assess_boards(create("builtin"), boards)
    assert won.q > 0.9
    assert lost.q < -0.85
    assert abs(level.q) < 0.3
    assert next(iter(mate.priors)) == "d1d8"
