"""Repertoires: positions and not lines; what is added, removed, surveyed, written and read again."""

from __future__ import annotations

import io
from pathlib import Path

import chess
import chess.pgn
import chess.polyglot
import pytest

from graphsearch.base.errors import InvalidParameterError, InvalidPositionError
from graphsearch.book.build import build
from graphsearch.book.config import parse_config
from graphsearch.book.study.repertoire import add_line, import_file, load, remove_move
from graphsearch.book.study.survey import Survey, pgn_of_repertoire, survey, toml_of_repertoire
from graphsearch.book.why import why
from graphsearch.exchange.exports import export
from graphsearch.exchange.importing import GivenFile
from graphsearch.exchange.selection import Selection
from graphsearch.graph.sweeps.merge import merge
from graphsearch.position.board import key_text
from graphsearch.store.store import Store
from graphsearch.store.tables.books import books
from graphsearch.store.verify import verify

from ...conftest import present
from ...query.handmade import LINES, graph_file
from ...support.positions import after_line

MORE = LINES | {"e4 c5": {"Nf3": (18, 0.2), "d4": (12, -0.15)}}


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    return graph_file(tmp_path / "a.graph", MORE)


def added(path: Path, *lines: str, side: str = "white") -> Survey:
    for line in lines:
        add_line(path, side, after_line(line))
    return survey(path, side)


def lines_of(found: Survey) -> set[str]:
    return {" ".join((*one.at.line, move.san)) for one in found.positions for move in one.replies}


# ------------------------------------------------------------------ moves
def test_a_line_adds_its_own_moves_and_the_replies_they_meet_once(graph: Path) -> None:
    board = after_line("e4 e5 Nf3")
    assert add_line(graph, "white", board).as_dict() == {
        "side": "white",
        "added": 3,
        "removed": 0,
        "moves": 3,
    }
    assert add_line(graph, "white", board).added == 0
    assert add_line(graph, "white", after_line("e4 c5 Nf3")).added == 2
    found = survey(graph, "white")
    assert (found.own, found.moves) == (3, 5)
    assert lines_of(found) == {"e4", "e4 e5", "e4 e5 Nf3", "e4 c5", "e4 c5 Nf3"}
    assert survey(graph, "black").moves == 0
    assert verify(graph).problems == []


def test_a_removed_move_takes_along_what_only_it_reached(graph: Path) -> None:
    added(graph, "e4 e5 Nf3 Nc6 Bb5", "Nf3 e5 e4", "e4 c5 Nf3")
    change = remove_move(graph, "white", after_line("e4 e5 Nf3"))
    assert (change.removed, change.moves) == (1, 9)
    assert "Nf3 e5 e4 Nc6 Bb5" in lines_of(survey(graph, "white"))  # reached by the other order, too
    change = remove_move(graph, "white", after_line("Nf3"))
    assert lines_of(survey(graph, "white")) == {"e4", "e4 e5", "e4 c5", "e4 c5 Nf3"}
    with pytest.raises(InvalidPositionError, match="white's repertoire does not have Nf3 in "):
        remove_move(graph, "white", after_line("Nf3"))
    remove_move(graph, "white", after_line("e4"))
    found = load(graph, "white")
    assert (found.tree.positions, found.size) == ({}, 0)


def test_a_merge_keeps_the_moves_of_both_repertoires(graph: Path, tmp_path: Path) -> None:
    other = graph_file(tmp_path / "b.graph", MORE)
    added(graph, "e4 e5 Nf3", "d4")
    added(other, "e4 c5 Nf3", "e4 e5 Nf3 Nc6 Bb5")
    merge([other], into=graph)
    lines = {"e4", "d4", "e4 e5", "e4 c5", "e4 e5 Nf3", "e4 c5 Nf3", "e4 e5 Nf3 Nc6", "e4 e5 Nf3 Nc6 Bb5"}
    assert lines_of(survey(graph, "white")) == lines
    assert verify(graph).problems == []


def test_a_repertoire_is_a_book_by_its_name_alone(graph: Path, tmp_path: Path) -> None:
    added(graph, "e4 e5 Nf3", "e4 c5 Nf3")
    with Store.open(graph, read_only=True) as store:
        assert [book.name for book in books(store)] == []
        assert [book.side for book in books(store, repertoires=True)] == ["white"]
    found = why(graph, after_line("e4 e5"), "white repertoire")
    (own,) = (one for one in found.verdicts if one.admitted)
    assert (own.reason, own.candidate.value) == ("chosen by a person", own.candidate.q)
    assert own.candidate.q is not None
    target = tmp_path / "book.bin"
    export("polyglot", graph, target, Selection(book="white repertoire"))
    with chess.polyglot.open_reader(target) as entries:
        assert [entry.move.uci() for entry in entries.find_all(chess.Board())] == ["e2e4"]
    head = '[book]\nname = "white repertoire"\nside = "white"\nmax_ply = 4\n'
    config = parse_config(f'{head}[evaluator]\nname = "uniform"\n', tmp_path, "a")
    with pytest.raises(InvalidParameterError, match="is a repertoire; give the book another name"):
        build(graph, config)


# ------------------------------------------------------------------ survey
def test_a_likely_reply_without_an_answer_is_a_gap_with_its_weight(graph: Path) -> None:
    found = added(graph, "e4 e5 Nf3")
    gaps = {(*gap.at.line, gap.san): gap for gap in found.gaps}
    sicilian = gaps["e4", "c5"]
    assert (sicilian.n, sicilian.games) == (19, 0)
    assert sicilian.share == sicilian.reach == sicilian.p
    assert ("e4", "e5") not in gaps
    assert ("e4", "e5", "Nf3", "Nc6") in gaps  # where the line ends
    assert ("e4", "c5") not in {(*gap.at.line, gap.san) for gap in added(graph, "e4 c5 Nf3").gaps}


def test_a_losing_and_an_unsearched_own_move_are_weak_spots(graph: Path) -> None:
    found = added(graph, "e4 c5 d4", "e4 e5 Nf3", "e4 e5 Bc4")
    weak = {(*spot.at.line, spot.move.san): spot.move for spot in found.weak}
    assert (weak["e4", "c5", "d4"].nag, weak["e4", "c5", "d4"].best) == (4, "Nf3")
    assert weak["e4", "c5", "d4"].loss == pytest.approx(0.35)
    assert weak["e4", "e5", "Bc4"].q is None
    assert ("e4", "e5", "Nf3") not in weak


# ------------------------------------------------------------------ files
def test_a_repertoire_goes_out_as_pgn_and_comes_in_again(graph: Path, tmp_path: Path) -> None:
    added(graph, "e4 e5 Nf3 Nc6 Bb5", "Nf3 e5 e4", "e4 c5 Nf3", "e4 c5 d4")
    text = pgn_of_repertoire(graph, "white")
    game = present(chess.pgn.read_game(io.StringIO(text)))
    assert not game.errors
    assert game.board() == chess.Board()
    assert text.count("transposes to 1. e4 e5 2. Nf3") == 1
    assert text.count("Bb5") == 1
    other = graph_file(tmp_path / "b.graph", MORE)
    report = import_file(other, "white", GivenFile("a.pgn", io.BytesIO(text.encode())))
    assert (report.games, report.problems) == (1, [])
    assert load(other, "white").tree.positions.keys() == load(graph, "white").tree.positions.keys()
    assert lines_of(survey(other, "white")) == lines_of(survey(graph, "white"))
    assert pgn_of_repertoire(other, "white") == text


def test_the_toml_is_a_book_that_keeps_to_the_repertoire(graph: Path, tmp_path: Path) -> None:
    added(graph, "e4 e5 Nf3", "e4 c5 Nf3")
    config = parse_config(toml_of_repertoire(graph, "white", "mine"), tmp_path, "mine.toml")
    assert (config.name, config.side, config.max_ply) == ("mine", "white", 3 + 4)
    assert len(config.roots) == 1
    reply, own = key_text(after_line("e4")), key_text(after_line("e4 c5"))
    assert set(config.forced[reply]) == {"c7c5", "e7e5"}
    assert config.forced[own] == ("g1f3",)
    assert (reply in config.only, own in config.only) == (False, True)
    assert config.notes == ()
