"""The drill: days of the calendar, boxes, lines that lead to what is due, answers kept in the file."""

from __future__ import annotations

import os
import random
from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import chess
import pytest

from graphsearch.base.errors import InvalidPositionError, StoreError
from graphsearch.book.study.repertoire.drill import Question, answer, due_cards, next_question
from graphsearch.book.study.repertoire.moves import add_line, load, remove_move
from graphsearch.position.board import board_of, key_text
from graphsearch.store.plain_tables import changing
from graphsearch.store.tables import repertoire as rows
from graphsearch.store.upkeep.verify import verify

from ...query.handmade import LINES, board_after, graph_file

TODAY = date(2024, 2, 27)


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = graph_file(tmp_path / "a.graph", LINES)
    for line in ("e4 e5 Nf3 Nc6 Bb5", "e4 c5 Nf3", "e4 a6 d4"):
        add_line(path, "white", board_after(line))
    return path


def asked(path: Path, board: chess.Board | None = None, seed: int = 1, day: date = TODAY) -> Question | None:
    return next_question(path, "white", board, today=day, rng=random.Random(seed))


def board_of_question(question: Question) -> chess.Board:
    board = board_of(question.root)
    for move in question.moves:
        board.push_uci(move)
    return board


def due(path: Path, day: date = TODAY) -> int:
    return len(due_cards(path, "white", today=day).drills[0].due)


def test_a_whole_drill_asks_everything_once_from_move_one_and_then_tomorrow(graph: Path) -> None:
    met, board = Counter[str](), None
    while question := asked(graph, board, seed=len(met)):
        board = board_of_question(question)
        key = key_text(board)
        met[key] += 1
        assert board.root() == chess.Board()
        right = next(iter(load(graph, "white").moves[key]))
        assert answer(graph, "white", board, right, today=TODAY).right
        board.push_uci(right)
    assert set(met.values()) == {1}
    assert len(met) == 5
    assert (due(graph), due(graph, TODAY + timedelta(days=1))) == (0, 5)
    state = due_cards(graph, "white", today=TODAY).drills[0]
    assert (state.cards, state.next_due) == (5, "2024-02-28")
    assert verify(graph).problems == []


def test_right_answers_double_the_days_over_a_leap_day_and_a_wrong_one_begins_anew(graph: Path) -> None:
    day, start, days = TODAY, chess.Board(), []
    for _ in range(11):
        verdict = answer(graph, "white", start, "e2e4", today=day)
        assert verdict.next_due is not None
        days.append((date.fromisoformat(verdict.next_due) - day).days)
        day = date.fromisoformat(verdict.next_due)
    assert days == [1, 2, 4, 8, 16, 32, 64, 128, 256, 256, 256]
    verdict = answer(graph, "white", start, "d2d4", today=day)
    assert (verdict.right, verdict.sans, verdict.box, verdict.next_due) == (False, ("e4",), 0, str(day))
    card = load(graph, "white").positions[key_text(start)]
    assert (card.asked, card.failed) == (12, 1)


def test_a_right_answer_before_its_day_changes_neither_box_nor_day(graph: Path) -> None:
    answer(graph, "white", chess.Board(), "e2e4", today=TODAY)
    verdict = answer(graph, "white", chess.Board(), "e2e4", today=TODAY)
    assert (verdict.box, verdict.next_due) == (1, "2024-02-28")


def test_the_line_goes_on_where_something_is_due_and_passes_what_is_not(graph: Path) -> None:
    answer(graph, "white", chess.Board(), "e2e4", today=TODAY)
    question = asked(graph)
    assert question is not None
    assert question.moves[0] == "e2e4"  # made for the person
    for line in ("e4 c5", "e4 a6", "e4 e5"):
        board = board_after(line)
        answer(graph, "white", board, next(iter(load(graph, "white").moves[key_text(board)])), today=TODAY)
    question = asked(graph)
    assert question is not None
    assert question.moves == ("e2e4", "e7e5", "g1f3", "b8c6")
    assert question.due == 1
    onward = asked(graph, board_after("e4 c5 Nf3"))  # nothing is due there: another line
    assert onward == question


def test_likely_replies_come_more_often(graph: Path) -> None:
    replies = Counter[str]()
    for seed in range(16):
        question = asked(graph, board_after("e4"), seed=seed)
        assert question is not None
        replies[question.moves[1]] += 1
    assert replies["e7e5"] > replies["a7a6"]
    assert replies["c7c5"] > replies["a7a6"]


def test_a_circle_of_moves_does_not_hold_the_drill(tmp_path: Path) -> None:
    path = graph_file(tmp_path / "b.graph", LINES)
    add_line(path, "white", board_after("Nf3 Nf6 Ng1 Ng8"))
    for board in (board_after(""), board_after("Nf3 Nf6")):
        assert asked(path) is not None
        answer(path, "white", board, next(iter(load(path, "white").moves[key_text(board)])), today=TODAY)
    assert asked(path) is None


def test_another_own_move_is_asked_anew(graph: Path) -> None:
    board = board_after("e4 c5")
    answer(graph, "white", board, "g1f3", today=TODAY)
    remove_move(graph, "white", board_after("e4 c5 Nf3"))
    add_line(graph, "white", board_after("e4 c5 d4"))
    assert load(graph, "white").positions[key_text(board)].due is None


def test_wrong_use_is_named(graph: Path) -> None:
    for board, text in ((chess.Board(), "e2e5"), (chess.Board(), "Nf3"), (chess.Board(), "0000")):
        with pytest.raises(InvalidPositionError, match="is not a legal move"):
            answer(graph, "white", board, text)
    with pytest.raises(InvalidPositionError, match="has no move of its own"):
        answer(graph, "white", board_after("d4"), "e7e5")
    graph.chmod(0o444)
    if os.geteuid():
        with pytest.raises(StoreError, match="cannot be written"):
            answer(graph, "white", chess.Board(), "e2e4")


def test_a_damaged_row_is_named(graph: Path) -> None:
    with changing(graph) as connection:
        connection.execute("UPDATE repertoire_position SET due = 'soon'")
    with pytest.raises(StoreError, match="due is 'soon'"):
        due_cards(graph)
    with changing(graph) as connection:
        assert rows.moves_at(connection, key_text(chess.Board())) == {"white": ["e2e4"]}
