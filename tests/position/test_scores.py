"""Centipawns: lc0's `WDL_mu` and `centipawn`, and which of them is shown."""

from __future__ import annotations

import math

import pytest

from graphsearch.base.errors import InvalidParameterError
from graphsearch.position import values
from graphsearch.position.values import CENTIPAWN, SCORE_TYPES, WDL_MU, cp_by, cp_from_q, cp_from_wdl
from tests.conftest import Cli
from tests.uci.engines import Played, field_of

ODDS = "rnbqkbnr/pppp1ppp/8/4p3/8/8/PPPPPPPP/RNBQKB1R w KQkq - 0 1"
HUNDREDTHS = [k / 100 for k in range(1, 99)]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_a_hundred_centipawns_are_an_even_chance_to_win() -> None:
    for loss in HUNDREDTHS[:48:6]:
        assert cp_from_wdl(0.5 - loss, 0.5 - loss) == 100
        assert cp_from_wdl(loss - 0.5, 0.5 - loss) == -100


@pytest.mark.parametrize("pawns", [0.0, 0.07, -0.4, 0.8, -0.99])
def test_the_mean_of_the_logistic_model_comes_back(pawns: float) -> None:
    for s in (0.2, 0.35, 0.5, 0.8):
        win, loss = sigmoid((pawns - 1) / s), sigmoid((-pawns - 1) / s)
        if abs(win - loss) + 1 - win - loss < 0.996:
            assert cp_from_wdl(win - loss, 1 - win - loss) == round(100 * pawns)


def test_both_sides_see_the_same_score() -> None:
    for win in HUNDREDTHS:
        for loss in HUNDREDTHS:
            if win + loss <= 1:
                q, draw = win - loss, 1 - win - loss
                assert cp_from_wdl(q, draw) == -cp_from_wdl(-q, draw)


@pytest.mark.parametrize(
    ("q", "draw", "cp"),
    [(1.0, 0.0, 12800), (-1.0, 0.0, -12800), (0.0, 1.0, 0), (0.3, 0.7, 23), (0.5, 0.0, 45), (0.0, 0.0, 0)],
)
def test_where_a_chance_is_next_to_nothing_a_tangent_takes_its_place(q: float, draw: float, cp: int) -> None:
    assert cp_from_wdl(q, draw) == cp


def test_the_larger_one_counts_beyond_a_pawn() -> None:
    assert cp_from_wdl(0.9, 0.09) > 100  # mu says more than the tangent, or the tangent more than mu
    assert cp_from_wdl(0.99, 0.005) == round(45 * math.tan(1.56728071628 * 0.99))


def test_a_score_type_chooses_the_formula_and_others_are_refused() -> None:
    assert cp_by(WDL_MU, 0.4, 0.4) == 100
    assert cp_by(CENTIPAWN, 0.4, 0.4) == cp_from_q(0.4) == 65
    assert SCORE_TYPES == ("WDL_mu", "centipawn")
    with pytest.raises(InvalidParameterError, match="WDL_mu or centipawn"):
        values.show_scores_by("Q")


def test_every_command_shows_the_type_that_it_is_asked_for(cli: Cli) -> None:
    shown = {}
    for name in SCORE_TYPES:
        row = cli("evaluate", ODDS, "--json", "--score-type", name).json
        assert row["cp"] == cp_by(name, row["q"], row["wdl"][1])
        shown[name] = row["cp"]
    assert len(set(shown.values())) == 2
    refused = cli("evaluate", "startpos", "--score-type", "cp")
    assert refused.code == 2
    assert "WDL_mu or centipawn" in refused.err


def test_uci_shows_the_type_of_its_option() -> None:
    found = {}
    for name in ("", *SCORE_TYPES):
        with Played({"ScoreType": name} if name else None) as game:
            lines = game.ready().ask(f"position fen {ODDS}", "go nodes 200", until="bestmove")
            found[name] = field_of(lines[-2], "cp")
    assert found[""] == found["WDL_mu"] != found["centipawn"]
