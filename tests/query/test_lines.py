"""Moves, lines, trees, values, neighbours and routes on small graphs, with answers worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, SearchResult, analyze, frame, show
from graphsearch.base.errors import CorruptRecordError, InvalidPositionError, UnknownPositionError
from graphsearch.book.build import build
from graphsearch.book.config import BuildSettings, parse_config
from graphsearch.position.board import key_text
from graphsearch.query.games import games
from graphsearch.query.line import pv, tree_values, values
from graphsearch.query.position import moves
from graphsearch.query.routes import Way, parents, routes
from graphsearch.query.source import opened
from graphsearch.query.tree import Neighbourhood, neighbourhood, tree
from graphsearch.store.store import Store

from ..conftest import present, sql
from ..store.records import batch_of
from ..support.positions import after_line
from ..support.reference import HashEvaluator
from .handmade import LINES, graph_file, node

START = chess.Board()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return graph_file(tmp_path_factory.mktemp("lines") / "hand.graph", LINES)


# ------------------------------------------------------------------ moves
def test_moves_say_what_the_position_behind_them_says(file: Path) -> None:
    found = moves(file, after_line("e4 e5"))
    first = found.moves[0]
    assert (first.view.san, first.view.n, first.child_n) == ("Nf3", 39, 51)
    assert first.child_q == pytest.approx(50 * 0.1 / 51)
    assert first.stale == pytest.approx(50 * 0.1 / 51 - 0.2)
    assert first.transposition, "51 visits, 39 of them over this move"
    assert len(found.moves) == len(list(after_line("e4 e5").legal_moves))
    others = found.moves[1:]
    assert {(m.child_n, m.child_q, m.stale, m.transposition, m.view.n) for m in others} == {
        (None, None, None, False, 0)
    }
    assert {m.games for m in found.moves} == {0}


# ------------------------------------------------------------------ pv
def test_a_line_follows_the_most_visits_and_says_why_it_ends(file: Path) -> None:
    found = pv(file, START, lines=3)
    assert [[ply.san for ply in line.plies] for line in found.lines] == [
        ["e4", "e5", "Nf3", "Nc6"],
        ["d4", "d5"],
        ["Nf3", "e5", "e4", "Nc6"],
    ]
    assert [line.end for line in found.lines] == ["unvisited", "unknown", "unvisited"]
    assert [(ply.step.edge.n, round(ply.q, 6)) for ply in found.lines[0].plies] == [
        (60, 0.1),
        (40, 0.15),
        (39, 0.2),
        (50, 0.1),
    ], "as White sees it all along"


def test_a_line_ends_at_a_repetition_also_of_the_game_before(tmp_path: Path) -> None:
    steps = ["Nf3", "Nf6", "Ng1", "Ng8"]
    lines = {" ".join(steps[:k]): {steps[k]: (5, 0.0)} for k in range(4)}
    file = graph_file(tmp_path / "cycle.graph", lines)
    assert [(len(line.plies), line.end) for line in pv(file, START).lines] == [(4, "repetition")]
    found = pv(file, after_line("Nf3 Nf6")).lines[0]
    assert ([ply.san for ply in found.plies], found.end) == (["Ng1", "Ng8"], "repetition")


@pytest.mark.parametrize(
    ("fen", "san", "end"),
    [
        ("7k/8/6K1/8/8/8/8/5Q2 w - - 0 1", "Qf8#", "checkmate"),
        ("7k/8/6K1/8/8/8/8/4Q3 w - - 0 1", "Qe8#", "checkmate"),
        ("7k/8/5K2/8/8/8/8/5Q2 w - - 0 1", "Qg2", "unvisited"),
        ("7k/5Q2/8/6K1/8/8/8/8 w - - 0 1", "Kg6", "stalemate"),
        ("8/8/8/8/8/3k4/1p6/K7 w - - 0 1", "Kxb2", "dead"),
        ("7k/8/5K2/8/8/8/8/5R2 w - - 99 90", "Rf2", "clock"),
    ],
)
def test_a_line_says_which_rule_ends_it(tmp_path: Path, fen: str, san: str, end: str) -> None:
    file = graph_file(tmp_path / "end.graph", {"": {san: (5, 0.5)}, san: None}, fen)
    assert pv(file, chess.Board(fen)).lines[0].end == end


# ------------------------------------------------------------------ tree
def test_a_tree_expands_every_position_once_and_says_where(file: Path) -> None:
    found = tree(file, START, depth=4, min_visits=1)
    assert [branch.san for branch in found.root.branches] == ["e4", "d4", "Nf3"]
    e4, d4, nf3 = found.root.branches
    assert d4.branches[0].visits is None, "d4 d5 is not in the file"
    knight = nf3.branches[0].branches[0]
    assert (knight.san, knight.transposes_to, knight.branches) == ("e4", ("e4", "e5", "Nf3"), [])
    assert e4.branches[0].branches[0].branches[0].san == "Nc6"
    assert found.transpositions == 1
    data = found.as_dict()
    assert data["tree"]["branches"][0]["branches"][0]["san"] == "e5"


# ------------------------------------------------------------------ values along a line
def test_values_are_white_s_and_losses_those_of_the_mover(file: Path) -> None:
    found = values(file, after_line("Nf3 e5"))
    first, second, third = found.points
    assert (first.n, first.san, first.best_san) == (111, "Nf3", "e4")
    assert second.q == pytest.approx(-19 * 0.1 / 20), "0.1 for Black"
    assert second.loss == pytest.approx(0.0)
    of_move = {move.san: present(move.q) for move in present(show(file, START)).moves if move.n}
    e4, nf3 = of_move["e4"], of_move["Nf3"]  # which is not minus the Q of the position behind it
    assert nf3 != pytest.approx(-(19 * 0.1) / 20)
    assert first.played_q == pytest.approx(nf3)
    assert first.loss == pytest.approx(e4 - nf3)
    assert first.best_q == pytest.approx(e4)
    assert third.move is None
    assert third.loss is None


def test_positions_that_are_not_stored_are_gaps(file: Path) -> None:
    found = values(file, after_line("d4 d5 c4"))
    assert [point.n for point in found.points] == [111, 30, None, None]
    assert found.unknown == 2
    assert found.points[1].played_q == pytest.approx(0.3), "of the edge, as the position behind it is unknown"
    with pytest.raises(UnknownPositionError, match="none of the 2 positions"):
        values(file, after_line("c4", "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPP1/RNBQKBNR w KQkq - 0 1"))
    with pytest.raises(InvalidPositionError, match="give moves or a PGN file"):
        values(file, START)


# ------------------------------------------------------------------ parents
def test_parents_are_all_stored_positions_with_a_move_here(file: Path) -> None:
    found = parents(file, after_line("e4 e5 Nf3"))
    assert [(parent.step.san, parent.step.edge.n, parent.visits) for parent in found.parents] == [
        ("Nf3", 39, 40),
        ("e4", 18, 19),
    ]
    assert [p.step.san for p in parents(file, after_line("e4 e5 Nc3")).parents] == ["Nc3"], (
        "a move nobody visited"
    )


# ------------------------------------------------------------------ what all of them share
def test_all_of_them_answer_while_a_search_writes(tmp_path: Path) -> None:
    path = tmp_path / "busy.graph"
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        for visits in (60, 120):
            analyze(graph, START, Limits(visits=visits), SearchParams(minibatch_size=8))
            for ask in (moves, pv, tree, games, values, parents):
                assert ask(path, after_line("e4")).as_dict(), ask


def result(path: Path, board: chess.Board) -> SearchResult:
    with Graph.open(path) as graph:
        return analyze(graph, board, Limits(visits=200))


@pytest.mark.parametrize("ask", [result, show, tree])
def test_in_a_notebook_an_answer_is_a_short_line_a_board_with_a_table_and_a_frame(
    small_graph: Path, ask: Callable[[Path, chess.Board], Any]
) -> None:
    found = ask(small_graph, START)
    assert len(repr(found)) < 200
    shown = found._repr_html_()
    assert "<svg" in shown
    assert shown.count("<tr>") > 5
    assert len(frame(found)) >= 20


# ------------------------------------------------------------------ the values of a tree
def test_the_values_of_a_tree_are_those_of_its_lines(small_graph: Path) -> None:
    lines = (["e2e4", "e7e5"], ["d2d4"], ["g2g4", "h7h5", "a2a3", "h5h4", "a3a4"])
    moves, expected = list[tuple[int, str]](), list[int | None]()
    for line in lines:
        board, parent = chess.Board(), 0
        for uci in line:
            board.push_uci(uci)
            moves.append((parent, uci))
            parent = len(moves)
        played = [point.played_q for point in values(small_graph, board).points[:-1]]
        expected += [None if q is None else 1 if q > 0 else -1 if q < 0 else 0 for q in played]
    found = tree_values(small_graph, chess.Board(), moves).values
    assert [one and (one.cp > 0) - (one.cp < 0) for one in found] == expected
    assert present(found[0]).n > 0
    assert found[-1] is None


# ------------------------------------------------------------------ the positions around one
def keys_of(found: Neighbourhood) -> set[str]:
    return {node.key for node in found.nodes}


def key(line: str) -> str:
    return key_text(after_line(line))


def edges(found: Neighbourhood) -> set[tuple[str, str, str]]:
    keys = [node.key for node in found.nodes]
    return {(keys[edge.parent], edge.step.san, keys[edge.child]) for edge in found.edges}


def test_a_transposition_is_one_node_with_all_its_ways_in(file: Path) -> None:
    found = neighbourhood(file, START)
    lines = ["", "e4", "e4 e5", "e4 e5 Nf3", "e4 e5 Nf3 Nc6", "d4", "Nf3", "Nf3 e5"]
    assert keys_of(found) == {key(line) for line in lines}
    assert found.nodes[0].key == key("")
    assert edges(found) == {
        (key(""), "e4", key("e4")),
        (key(""), "d4", key("d4")),
        (key(""), "Nf3", key("Nf3")),
        (key("e4"), "e5", key("e4 e5")),
        (key("Nf3"), "e5", key("Nf3 e5")),
        (key("e4 e5"), "Nf3", key("e4 e5 Nf3")),
        (key("Nf3 e5"), "e4", key("e4 e5 Nf3")),
        (key("e4 e5 Nf3"), "Nc6", key("e4 e5 Nf3 Nc6")),
    }
    assert found.hidden == 2, "1... c5 and 1... d5 lead to positions that are not stored"


def test_depth_and_visits_are_kept_to(file: Path) -> None:
    assert keys_of(neighbourhood(file, START, depth=1)) == {key(line) for line in ("", "e4", "d4", "Nf3")}
    assert keys_of(neighbourhood(file, START, min_visits=30)) == {
        key(line) for line in ("", "e4", "d4", "e4 e5", "e4 e5 Nf3", "e4 e5 Nf3 Nc6")
    }
    assert keys_of(neighbourhood(file, after_line("e4 e5"), depth=1)) == {key("e4 e5"), key("e4 e5 Nf3")}


def test_a_shorter_way_counts_although_a_longer_one_is_wider(tmp_path: Path) -> None:
    lines = {
        "": {"Nf3": (90, 0.0), "e4": (10, 0.0)},
        "Nf3": {"Nf6": (80, 0.0)},
        "Nf3 Nf6": {"Ng1": (70, 0.0)},
        "Nf3 Nf6 Ng1": {"Ng8": (60, 0.0)},
        "e4": {"e5": (9, 0.0)},
        "e4 e5": {"d4": (8, 0.0)},
        "e4 e5 d4": None,
    }
    found = neighbourhood(graph_file(tmp_path / "a.graph", lines), START, depth=3)
    assert key("e4 e5 d4") in keys_of(found)
    assert [edge.step.san for edge in found.edges if edge.child == 0] == ["Ng8"], "it leads back to the root"


# ------------------------------------------------------------------ routes to the positions of a list
def way(file: Path, line: str) -> Way:
    fen = after_line(line).fen()
    return routes(file, [fen])[fen]


@pytest.mark.parametrize("walked", [10**6, 0])  # 0: lines are moves taken back
@pytest.mark.parametrize("other_root", [False, True])  # which the first root reaches
def test_a_stored_position_has_the_line_of_most_visits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, walked: int, *, other_root: bool
) -> None:
    monkeypatch.setattr("graphsearch.query.routes.WALKED", walked)
    file = graph_file(tmp_path / "hand.graph", LINES)
    if other_root:
        with Store.open(file) as store:
            store.record_root(key("e4 e5"), after_line("e4 e5").fen(), 40)
    found = way(file, "Nf3 e5 e4 Nc6")
    assert (found.start, found.line) == (None, ("e4", "e5", "Nf3", "Nc6"))
    assert str(found.opening) == "C44 King's Knight Opening: Normal Variation"


def test_lines_begin_at_the_roots_of_books_too(tmp_path: Path) -> None:
    file = tmp_path / "book.graph"
    settings = '[book]\nside = "white"\nmax_ply = 4\n[[root]]\nmoves = "1. a3 h6"\n[leaf]\nevaluations = 20\n'
    build(file, parse_config(settings, tmp_path, "w.toml"), settings=BuildSettings(evaluations=60))
    found = way(file, "a3 h6 e4")
    assert (found.start, found.line) == (after_line("a3 h6").fen(), ("e4",))


def test_no_line_leads_around_a_circle_back_to_a_root(tmp_path: Path) -> None:
    named, unnamed = after_line("e4 c5").fen(), "8/8/4k3/8/8/4K3/4P3/8 w - - 0 1"
    for root, there, back in ((named, "Nf3 Nf6", "Ng1 Ng8"), (unnamed, "Kd3 Kd6", "Ke3 Ke6")):
        moves = [*there.split(), *back.split()]
        lines = {" ".join(moves[:k]): {moves[k]: (9, 0.1)} for k in range(4)}
        file = graph_file(tmp_path / f"{moves[0]}.graph", lines, fen=root)
        found = routes(file, [root])[root]
        assert (found.start, found.line) == ((None, ("e4", "c5")) if root == named else (root, ()))


# ------------------------------------------------------------------ records read ahead
BOARDS = [after_line(line) for line in (*LINES, "h4 a5")]
BY_KEY = {key_text(board): board for board in BOARDS}


def test_nothing_is_read_ahead_from_a_state_after_that_of_the_query(tmp_path: Path) -> None:
    ahead = graph_file(tmp_path / "hand.graph", LINES)
    with opened(ahead) as source:
        before = [source.read(board) for board in BOARDS]
    with opened(ahead) as source:
        with Store.open(ahead) as store:
            store.append(batch_of([node(board, v=0.5) for board in BOARDS]), fresh=1)
        source.read_ahead(BY_KEY)
        assert [source.read(board) for board in BOARDS] == before


def test_a_damaged_record_is_an_error_when_it_is_read_and_not_ahead(tmp_path: Path) -> None:
    ahead = graph_file(tmp_path / "hand.graph", LINES)
    sql(ahead, "UPDATE block SET data = x'00'")
    with opened(ahead) as source:
        source.read_ahead(BY_KEY)
        with pytest.raises(CorruptRecordError):
            source.read(BOARDS[0])
