"""Reviews: the choice of games, games that are left out, and odd games."""

from __future__ import annotations

from typing import Any

import pytest

from graphsearch.base.errors import ExportError, InvalidParameterError
from graphsearch.book.review.games import GameChoice, read_since

from .test_review import ATOMIC, BROKEN, NOTED, SETUP, SHORT, Reviewer
from .test_review import reviewer as reviewer


# ------------------------------------------------------------------ what is chosen and left out
def test_broken_games_and_variants_are_named_and_the_others_reviewed(reviewer: Reviewer) -> None:
    report = reviewer("\n".join((BROKEN, SHORT, ATOMIC, BROKEN.replace("Ke3", "{open Nf3"))))
    assert (report.reviewed, report.skipped) == (1, 3)
    assert [problem.place for problem in report.problems] == [3, 12, 18]
    first, second, third = (problem.reason for problem in report.problems)
    assert "game 1: illegal san: 'Ke3'" in first
    assert second == "game 3 is Atomic; only standard chess and Chess960 can be searched"
    assert third == "game 4: a comment that does not end"


def test_a_game_is_reviewed_up_to_its_null_move(reviewer: Reviewer) -> None:
    report = reviewer("1. e4 e5 2. Z0 (2. Nf3 Nc6) 2... Nc6 3. Nf3 *\n")
    assert (report.reviewed, report.skipped) == (1, 0)
    assert "line 1: the line ends before 'Z0': a null move" in report.notes[0]
    (game,) = reviewer.written()
    assert [move.uci() for move in game.mainline_moves()] == ["e2e4", "e7e5"]


def test_a_variation_that_cannot_be_read_is_cut_and_told(reviewer: Reviewer) -> None:
    report = reviewer("1. e4 (1. d4 d5 2. Ke5 {never} Nf6 (2. c4) ) e5 *\n")
    assert len(report.notes) == 1
    assert "line 1: the line ends before 'Ke5': illegal san" in report.notes[0]
    (game,) = reviewer.written()
    cut = game.variations[1]
    assert [cut.move.uci(), *(move.uci() for move in cut.mainline_moves())] == ["d2d4", "d7d5"]


def test_games_are_chosen_by_player_colour_date_and_number(reviewer: Reviewer) -> None:
    for choice, numbers in (
        (GameChoice(player="ANDERS\u00c9N"), [1, 2]),
        (GameChoice(player="adolf anders\u00e9n", color="black"), [2]),
        (GameChoice(since=read_since("2024")), [1]),
        (GameChoice(since=read_since("2023-12-31")), [1, 2]),  # a day of 2023, which one is unknown
        (GameChoice(games=frozenset({3})), [3]),
    ):
        reviewer("\n".join((NOTED, SHORT, SETUP)), choice=choice, visits=10)
        assert [game.number for game in reviewer.games] == numbers


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"player": "nobody"},
            "none of the 1 games of games.pgn is of player nobody; players there are B, And",
        ),
        ({"games": frozenset({9})}, "is of game 9"),
    ],
)
def test_a_choice_without_games_is_told(reviewer: Reviewer, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidParameterError, match=said):
        reviewer(SHORT, choice=GameChoice(**wrong))
    assert not reviewer.store.exists()
    with pytest.raises(InvalidParameterError):
        GameChoice(player="a", color="red")


def test_an_output_that_cannot_be_written_is_told_before_the_search(reviewer: Reviewer) -> None:
    with pytest.raises(ExportError, match="does not exist"):
        reviewer(SHORT, pgn=reviewer.folder / "no" / "a.pgn")
    assert not reviewer.evaluator.asked


# ------------------------------------------------------------------ odd games
@pytest.mark.parametrize(
    ("fen", "moves"),
    [
        ("8/8/8/4k3/8/8/4p3/4K3 w - - 0 1", "1. Kxe2 Ke4 2. Kd2 Kd4"),  # it goes on with kings alone
        ("8/8/3k4/8/8/8/4R3/4K3 w - - 97 90", "1. Re3 Kd7 2. Re2 Kd6 3. Re3 Kd7"),  # and after fifty moves
        ("7k/8/5KQ1/8/8/8/8/8 w - - 0 1", "1. Qf7"),  # stalemate
        ("7k/8/5KQ1/8/8/8/8/8 w - - 0 1", ""),
    ],
)
def test_games_are_judged_to_whatever_end_they_come(reviewer: Reviewer, fen: str, moves: str) -> None:
    text = f'[SetUp "1"]\n[FEN "{fen}"]\n\n{moves} *\n'
    reviewer(text)
    (game,) = reviewer.games
    assert len(game.moves) == len([word for word in moves.split() if word[0].isalpha()])
    if moves:
        assert game.moves[-1].q == 0.0
    assert reviewer(text).evaluations == 0
    assert len(list(reviewer.written()[0].mainline_moves())) == len(game.moves)
