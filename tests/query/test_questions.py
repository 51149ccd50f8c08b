"""Questions to a file: against plain loops over all records, on small graphs worked out by hand, in SQL."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, SearchResult, analyze, frame, show
from graphsearch.base import errors
from graphsearch.book.build import build
from graphsearch.book.config import BuildSettings, parse_config
from graphsearch.position import board as packed
from graphsearch.position.values import cp_of
from graphsearch.query.diff import BEST, BOUNDS, OTHER_MOVE, WHATS, N, Q, diff
from graphsearch.query.find import Filters, find, read_pieces
from graphsearch.query.games import games
from graphsearch.query.line import pv, tree_values, values
from graphsearch.query.position import moves
from graphsearch.query.routes import Unmade, Way, candidates, leads_to, parents, routes
from graphsearch.query.source import KeptFile, opened
from graphsearch.query.sql import plain_tables, sql
from graphsearch.query.tree import Neighbourhood, neighbourhood, tree
from graphsearch.store.ranking import best_move, has_best_move, node_mean
from graphsearch.store.record import NodeRecord, identities
from graphsearch.store.store import Store

from ..conftest import ROOT, present
from ..conftest import sql as execute
from ..graph.sweeps.test_refresh import Records, records_of
from ..store.records import STARTS, batch_of, filled, identity, random_records
from ..store.test_records import version
from ..support.forks import Fork, Say
from ..support.graphs import ENDGAME, searched, visited_children
from ..support.positions import after_line
from ..support.reference import HashEvaluator
from .handmade import LINES, book_file, graph_file, node

WON, NOT_LOST = 2 << 2 | 2 << 4, 1 << 2 | 2 << 4  # flags: lower and upper bound


@pytest.fixture(scope="module")
def any_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of random records: all kinds of positions, numbers and bounds."""
    records = [
        replace(record, flags=WON if k % 10 == 0 else NOT_LOST) if record.codes and k % 5 == 0 else record
        for k, record in enumerate(random_records(71, 300))
    ]
    return filled(tmp_path_factory.mktemp("random") / "random.graph", records, 3)


@pytest.fixture(scope="module")
def known(any_file: Path) -> Records:
    return records_of(any_file)


Passes = Callable[[chess.Board, NodeRecord], bool]


def men(board: chess.Board, letter: str) -> int:
    piece = chess.Piece.from_symbol(letter)
    return len(board.pieces(piece.piece_type, piece.color))


def best_of(record: NodeRecord) -> str | None:
    move = best_move(record, packed.unpack(record.words)) if has_best_move(record) else None
    return move.uci() if move else None


@pytest.mark.parametrize(
    ("filters", "passes"),
    [
        (Filters(), lambda b, r: True),
        (Filters(min_n=2), lambda b, r: r.visits >= 2),
        (Filters(min_n=2, max_n=5_000), lambda b, r: 2 <= r.visits <= 5_000),
        (Filters(min_q=-0.2, max_q=0.0), lambda b, r: -0.2 <= node_mean(r)[0] <= 0.0),
        (Filters(side="w"), lambda b, r: b.turn == chess.WHITE),
        (Filters(side="b", max_q=-0.5), lambda b, r: b.turn == chess.BLACK and node_mean(r)[0] <= -0.5),
        (Filters(bounds="proven"), lambda b, r: r.bounds[0] == r.bounds[1]),
        (Filters(bounds="draw"), lambda b, r: r.bounds == (0, 0)),
        (Filters(bounds="win"), lambda b, r: r.bounds == (1, 1)),
        (Filters(pieces=read_pieces("P<=6, q=1")), lambda b, r: men(b, "P") <= 6 and men(b, "q") == 1),
        (
            Filters(pieces=read_pieces("men>20,N!=2")),
            lambda b, r: len(b.piece_map()) > 20 and men(b, "N") != 2,
        ),
        (Filters(pieces=read_pieces("Kk")), lambda b, r: len(b.piece_map()) == 2),
    ],
)
def test_what_is_found_is_what_a_loop_over_records_finds(
    any_file: Path, known: Records, filters: Filters, passes: Passes
) -> None:
    found = {packed.key_of_text(row.key): row for row in find(any_file, filters)}
    assert sum(1 for _ in find(any_file, filters)) == len(found)
    assert found.keys() == {key for key, (board, record) in known.items() if passes(board, record)}
    for key, row in found.items():
        record, worth = known[key][1], row.worth
        assert packed.key_of(packed.board_of(row.position)) == key
        assert (worth.n, worth.q, worth.bounds) == (record.visits, node_mean(record)[0], record.bounds)
        assert worth.best_move == best_of(record)


@pytest.mark.parametrize("filters", [Filters(), Filters(max_q=0.0)])
def test_a_limit_takes_the_most_visited_positions(any_file: Path, filters: Filters) -> None:
    everything = list(find(any_file, filters))
    by_visits = sorted(everything, key=lambda row: -row.worth.n)  # equal ones stay in the order of the file
    for limit in (1, 3, 250, len(everything) + 1):
        assert list(find(any_file, filters, limit=limit)) == by_visits[:limit]


def test_what_was_found_before_a_fault_is_yielded(any_file: Path) -> None:
    def stop(*_: int) -> None:
        raise KeyError

    rows = find(any_file, Filters(), limit=3, on_progress=stop)
    assert len([next(rows) for _ in range(3)]) == 3
    with pytest.raises(KeyError):
        next(rows)


# ------------------------------------------------------------------ ways in
def test_every_visited_edge_of_a_file_is_found_from_the_position_behind_it(tmp_path: Path) -> None:
    cyclic = searched(tmp_path / "cyclic.graph", ENDGAME, "", "Ra6+", visits=400)  # many lines meet
    records = records_of(cyclic)
    ways: dict[int, set[tuple[int, str]]] = {}
    for board, record in records.values():
        for k, child in visited_children(board, record):
            way_in = packed.key_of(board), packed.legal_moves(board)[record.order[k]].uci()
            ways.setdefault(packed.key_of(child), set()).add(way_in)
    for key in sorted(ways.keys() & records.keys())[::23]:
        board = records[key][0]
        steps = [one.step for one in parents(cyclic, board).parents]
        found = {(packed.key_of(step.board), step.move.uci()) for step in steps if step.edge.n}
        assert found == ways[key], board.fen()


# ------------------------------------------------------------------ moves taken back
def place_of(board: chess.Board) -> tuple[int, ...]:
    return tuple(identities(packed.pack(board).reshape(1, -1))[0].tolist())


def is_among(before: chess.Board, move: chess.Move, found: list[tuple[chess.Board, chess.Move]]) -> bool:
    return any(its == move and place_of(board) == place_of(before) for board, its in found)


def predecessors(board: chess.Board) -> list[Unmade]:
    return [(one[0], move) for one in candidates(board) if (move := leads_to(one, board))]


@pytest.mark.parametrize(
    ("fen", "uci"),
    [  # each kind of move, with what it takes along
        ("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", "e1g1"),
        ("r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 0 1", "e8c8"),
        ("rnbqkbnr/ppp1p1pp/8/3pPp2/8/8/PPPP1PPP/RNBQKBNR w KQkq f6 0 3", "e5f6"),
        ("4k3/8/8/8/3pP3/8/8/4K3 b - e3 0 1", "e8e7"),
        ("1n2k3/P7/8/8/8/8/8/4K3 w - - 0 1", "a7b8n"),
        ("4k3/8/8/8/8/8/1p6/N3K3 b - - 0 1", "b2a1r"),
        ("4k3/8/8/8/8/8/4P3/4K3 w - - 70 160", "e2e4"),
        ("4k3/8/8/8/8/8/4P3/4K3 w - - 75 160", "e1d1"),
        ("4k3/8/8/8/8/8/4P3/4K3 w - - 83 160", "e1d1"),
        ("5k2/8/8/8/8/8/8/1R3K1R w HB - 0 1", "f1b1"),
        ("1r3kr1/8/8/8/8/8/8/R3K3 b Qgb - 0 1", "f8g8"),
        ("1r3kr1/8/8/8/8/8/8/RR2K3 w Bgb - 0 1", "b1b8"),
    ],
)
def test_every_kind_of_move_can_be_taken_back(fen: str, uci: str) -> None:
    before, move = packed.board_of(fen), chess.Move.from_uci(uci)
    assert before.is_legal(move)
    assert is_among(before, move, predecessors(packed.after(before, move)))


def random_moves(seed: int, games: int, plies: int) -> list[tuple[chess.Board, chess.Move]]:
    """Returns positions of random games with a move each; rare kinds of moves are preferred."""
    rng = random.Random(seed)
    found = []
    for number in range(games):
        board = packed.board_of(STARTS[number % len(STARTS)])
        for _ in range(plies):
            moves = list(board.legal_moves)
            if not moves:
                break
            rare = [m for m in moves if board.is_en_passant(m) or board.is_castling(m) or m.promotion]
            move = rng.choice(rare if rare and rng.random() < 0.5 else moves)
            if rare or rng.random() < 0.15:
                found.append((board.copy(stack=False), move))
            board.push(move)
    return found


def test_what_is_taken_back_is_legal_leads_here_and_comes_once() -> None:
    for before, move in random_moves(3, 6, 40)[::31]:
        board = packed.after(before, move)
        found = predecessors(board)
        assert is_among(before, move, found)
        for parent, its in found:
            assert parent.is_valid()
            assert parent.is_legal(its)
            assert packed.key_of(packed.after(parent, its)) == packed.key_of(board), (parent.fen(), its)
        ways = [(place_of(parent), its) for parent, its in found]
        assert len(ways) == len(set(ways))


def test_above_75_the_clock_tells_what_came_before() -> None:
    quiet = chess.Board("4k3/8/8/8/8/8/4P3/3K4 b - - 84 160")
    assert {board.halfmove_clock for board, _ in predecessors(quiet)} == {83}
    just_above = chess.Board("4k3/8/8/8/8/8/4P3/3K4 b - - 76 160")
    assert {board.halfmove_clock for board, _ in predecessors(just_above)} == {0}


# ------------------------------------------------------------------ differences of two files
RNG = random.Random(9)


def other_version(record: NodeRecord) -> NodeRecord:
    """Returns other numbers of a position; without visits nothing is proven of it."""
    found = replace(version(record, RNG), evaluator=1, run=0)
    return found if found.edges else replace(found, flags=record.flags)


KNOWN = random_records(71, 260)
OLD = KNOWN[:200]
NEW = [*KNOWN[60:100], *(other_version(r) if r.codes else r for r in KNOWN[100:200]), *KNOWN[200:]]


def changes(old: NodeRecord, new: NodeRecord) -> dict[str, bool | None]:
    """Returns what changed; None where rounding decides."""
    gap = abs(cp_of(node_mean(old)[0]) - cp_of(node_mean(new)[0]))
    moves = best_of(old), best_of(new)
    return {
        BEST: None not in moves and moves[0] != moves[1],
        Q: None if abs(gap - 20) < 3 else gap >= 20,
        N: old.visits != new.visits,
        BOUNDS: old.bounds != new.bounds,
    }


def test_changes_are_counted_and_what_matters_most_is_listed_first(tmp_path: Path) -> None:
    files = filled(tmp_path / "a.graph", OLD, runs=2), filled(tmp_path / "b.graph", NEW, runs=3)
    found = diff(*files, top=1000)
    old, new = ({identity(r): r for r in records} for records in (OLD, NEW))
    shared = old.keys() & new.keys()
    assert (found.both, found.only_old, found.only_new) == (140, 60, 60)
    expected = {key: changes(old[key], new[key]) for key in shared}
    for what in (BEST, N, BOUNDS):
        assert found.counts[what] == sum(bool(each[what]) for each in expected.values())
    unsure = sum(each[Q] is None for each in expected.values())
    assert 0 <= found.counts[Q] - sum(each[Q] is True for each in expected.values()) <= unsure
    rows = {row.key: row for row in found.changes}
    by_key = {packed.key_text_of_words(new[key].words): key for key in shared}
    for text, key in by_key.items():
        whats = {what for what in WHATS if expected[key][what]}
        row = rows.get(text)
        if row is None:
            assert whats <= {Q, N}
        else:
            assert {*row.what} - {Q} == whats - {Q}
            assert (row.old.n, row.new.n) == (old[key].visits, new[key].visits)
            assert (row.old.best_move, row.new.best_move) == (best_of(old[key]), best_of(new[key]))
            assert (row.old.bounds, row.new.bounds) == (old[key].bounds, new[key].bounds)
    weights = [
        min(row.old.n, row.new.n) * (abs(row.new.q - row.old.q) + OTHER_MOVE * (BEST in row.what))
        for row in found.changes
    ]
    assert weights == pytest.approx(sorted(weights, reverse=True))
    assert [row.worth.n for row in found.come] == sorted((r.visits for r in NEW[140:]), reverse=True)
    few = diff(*files, top=3)
    assert few.changes == found.changes[:3]
    assert few.gone == found.gone[:3]
    assert few.counts == found.counts


# ------------------------------------------------------------------ small graphs, by hand
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
    assert [[ply.step.san for ply in line.plies] for line in found.lines] == [
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
    assert ([ply.step.san for ply in found.plies], found.end) == (["Ng1", "Ng8"], "repetition")


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
    assert found.as_dict()["tree"]["branches"][0]["branches"][0]["san"] == "e5"


# ------------------------------------------------------------------ values along a line
def test_values_are_white_s_and_losses_those_of_the_mover(file: Path) -> None:
    first, second, third = values(file, after_line("Nf3 e5")).points
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
    with pytest.raises(errors.UnknownPositionError, match="none of the 2 positions"):
        values(file, after_line("c4", "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPP1/RNBQKBNR w KQkq - 0 1"))
    with pytest.raises(errors.InvalidPositionError, match="give moves or a PGN file"):
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
def test_a_file_that_stays_open_shows_commits_and_what_replaced_it(tmp_path: Path) -> None:
    path = graph_file(tmp_path / "kept.graph", LINES)
    other = graph_file(tmp_path / "other.graph", {"": {"d4": (7, 0.5)}})
    kept = KeptFile(path)

    def visits() -> int:
        with kept.opened() as source:
            return pv(source, chess.Board()).visits

    assert visits() == 111
    with Store.open(path) as store:
        store.append(batch_of([node(chess.Board(), {"e4": (300, 0.1)})]), fresh=0)
    assert visits() == 301
    other.replace(path)
    assert visits() == 8
    path.unlink()
    with pytest.raises(errors.MissingStoreError):
        visits()


def test_all_of_them_answer_while_a_search_writes(tmp_path: Path) -> None:
    path = tmp_path / "busy.graph"
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        for visits in (60, 120):
            analyze(graph, START, Limits(visits=visits), SearchParams(minibatch_size=8))
            for ask in (moves, pv, tree, games, values, parents):
                assert ask(path, after_line("e4")).as_dict(), ask
                assert ask(path, after_line("e4")) == ask(path, after_line("e4")), ask


def result(path: Path, board: chess.Board) -> SearchResult:
    with Graph.open(path) as graph:
        return analyze(graph, board, Limits(visits=200))


@pytest.mark.parametrize("ask", [result, show, tree])
def test_in_a_notebook_an_answer_is_a_short_line_a_board_with_a_table_and_a_frame(
    small_graph: Path, ask: Callable[[Path, chess.Board], Any]
) -> None:
    pytest.importorskip("pandas")
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
    return packed.key_text(after_line(line))


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
    late = unnamed.replace("0 1", "74 50")  # the file keeps one FEN of a root with clocks up to 75
    file = graph_file(tmp_path / "late.graph", {"": {"Kd3": (9, 0.1)}, "Kd3": {"Kd6": (8, 0.1)}}, fen=late)
    with Store.open(file) as store:
        store.record_root(packed.key_text(chess.Board(unnamed)), unnamed, 9)
    assert routes(file, [after_line("Kd3 Kd6", late).fen()]) == {}


# ------------------------------------------------------------------ records read ahead
BOARDS = [after_line(line) for line in (*LINES, "h4 a5")]
BY_KEY = {packed.key_text(board): board for board in BOARDS}


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
    execute(ahead, "UPDATE block SET data = x'00'")
    with opened(ahead) as source:
        source.read_ahead(BY_KEY)
        with pytest.raises(errors.CorruptRecordError):
            source.read(BOARDS[0])


# ------------------------------------------------------------------ SQL
ENDLESS = "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) "
START_KEY = f"{packed.key_of(chess.Board()):016x}"


@pytest.fixture(scope="module")
def sql_file(_filled_graph: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A searched file with games and a book."""
    path = Path(shutil.copy(_filled_graph, tmp_path_factory.mktemp("sql") / "small.graph"))
    after_e4 = after_line("e4")
    e4_key = f"{packed.key_of(after_e4):016x}"
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO game_position VALUES (?, ?, 0)", (START_KEY, chess.STARTING_FEN))
        db.execute("INSERT INTO game_position VALUES (?, ?, 1)", (e4_key, after_e4.fen()))
        db.executemany(
            "INSERT INTO game_move VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (START_KEY, "e2e4", "e4", 5, 3, 2, 1, 4),
                (START_KEY, "d2d4", "d4", 1, 0, 0, 0, 0),
                (START_KEY, "h2h4", "h4", 0, 0, 0, 2, 0),
                (e4_key, "e7e5", "e5", 1, 2, 4, 0, 0),
            ],
        )
        db.execute("INSERT INTO source VALUES (1, 'pgn', 'a.pgn', '00', '{}', '', '', 1, 0, 1)")
        db.execute("INSERT INTO player VALUES (1, 'Ann')")
        db.execute(
            "INSERT INTO game (source, number, place, bytes, white, result, moves)"
            " VALUES (1, 1, 0, 9, 1, '1-0', x'12')"
        )
    db.close()
    return book_file(path)


def asked(
    path: Path, statement: str, limit: int | None = None
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    with sql(path, statement, limit=limit) as result:
        return result.columns, list(result.rows)


def test_tables_and_views_can_be_selected_from(sql_file: Path) -> None:
    columns, rows = asked(sql_file, "SELECT san, games, score FROM game_moves ORDER BY games DESC, san")
    assert columns == ("san", "games", "score")
    assert rows == [
        ("e4", 11, pytest.approx(0.65)),
        ("e5", 7, pytest.approx(5 / 7)),
        ("h4", 2, None),
        ("d4", 1, 1.0),
    ]
    assert asked(sql_file, "VALUES (1, 'a')")[1] == [(1, "a")]
    assert asked(sql_file, "  -- why\n /* so */ select 1;")[1] == [(1,)]
    assert asked(sql_file, ENDLESS + "SELECT n FROM x", 3)[1] == [(1,), (2,), (3,)]
    assert asked(sql_file, "EXPLAIN QUERY PLAN SELECT * FROM run")[1]
    assert asked(sql_file, "SELECT value FROM json_each('[7]')")[1] == [(7,)]
    assert ("id",) in asked(sql_file, "SELECT name FROM pragma_table_info('run')")[1]


def test_a_record_is_the_json_that_show_prints(sql_file: Path) -> None:
    data = json.loads(asked(sql_file, f"SELECT record('{chess.STARTING_FEN}')")[1][0][0])
    shown = present(show(sql_file, chess.Board())).as_dict()
    assert data["visits"] == shown["visits"]
    assert [(m["move"], m["n"], m["q"]) for m in data["moves"]] == [
        (m["move"], m["n"], m["q"]) for m in shown["moves"]
    ]
    assert asked(sql_file, "SELECT record('4k3/8/8/8/8/8/8/4K2R w - - 0 1'), record(NULL)")[1] == [
        (None, None)
    ]
    assert asked(sql_file, "SELECT json_extract(record(position), '$.visits') FROM root")[1] == [
        (shown["visits"],)
    ]


REFUSED = {
    "": "the statement is empty",
    "DELETE FROM run": "only statements that read",
    "PRAGMA query_only = 0": "only statements that read",
    "ATTACH 'x' AS y": "only statements that read",
    "VACUUM INTO 'x'": "only statements that read",
    "WITH x AS (SELECT 1) DELETE FROM run": "not authorized",
    "EXPLAIN DELETE FROM run": "not authorized",
    "SELECT load_extension('x')": "not authorized",
    "SELECT * FROM pragma_journal_mode": "not authorized|no such table",
    "SELECT * FROM nowhere": "no such table: nowhere",
    "SELECT": "incomplete|syntax",
    "SELECT 1; DELETE FROM run": "one statement",
    "SELECT ?": "binding",
    "SELECT record('nonsense')": r"record\(\): a FEN needs at least four fields",
    "SELECT record(7)": r"record\(\): expected a FEN, not 7",
    "SELECT cp('x')": r"cp\(\): expected a number",
    "SELECT san('startpos', 'e5')": r"san\(\): move 1 of the list, 'e5', is illegal",
    "SELECT after('startpos', 'Qh9')": r"after\(\): move 1",
}


@pytest.mark.parametrize("statement", REFUSED)
def test_what_does_not_read_or_is_wrong_is_refused_in_one_line(sql_file: Path, statement: str) -> None:
    before = sql_file.read_bytes()
    with pytest.raises(errors.InvalidParameterError, match=REFUSED[statement]) as caught:
        asked(sql_file, statement)
    assert "\n" not in str(caught.value)
    assert sql_file.read_bytes() == before


def test_sqlite_utils_reads_tables_views_and_functions_and_writes_nothing(sql_file: Path) -> None:
    before = sql_file.read_bytes()
    with plain_tables(sql_file) as tables:
        assert [row["visits"] for row in tables["run"].rows] == [300]
        assert tables["top_position"].count >= 1
        (row,) = tables.query("SELECT key(?) AS key", [chess.STARTING_FEN])
        assert row["key"] in {root["key"] for root in tables["root"].rows}
        with pytest.raises(sqlite3.DatabaseError):
            tables.execute("DELETE FROM root")
    assert sql_file.read_bytes() == before


def test_it_reads_beside_a_search_and_from_a_read_only_folder(small_graph: Path, tmp_path: Path) -> None:
    with Graph.open(small_graph) as graph:
        analyze(graph, chess.Board(), Limits(visits=50))
        assert asked(small_graph, "SELECT count(*) FROM run")[1] == [(2,)]
    folder = tmp_path / "fixed"
    folder.mkdir()
    copy = Path(shutil.copy(ROOT / "tests" / "golden" / "format4.graph", folder / "a.graph"))
    copy.chmod(0o444)
    folder.chmod(0o555)
    try:
        assert asked(copy, "SELECT count(*) FROM run")[1] == [(4,)]
        assert [path.name for path in folder.iterdir()] == ["a.graph"], "nothing is left beside it"
    finally:
        folder.chmod(0o755)


# ------------------------------------------------------------------ views
@pytest.mark.parametrize(
    "view",
    [
        *("runs", "position_moves", "game_moves", "games_against_search", "book_edges"),
        *("book_open_leaves", "played_games"),
    ],
)
def test_every_view_has_rows_for_a_tool_without_functions(sql_file: Path, view: str) -> None:
    with closing(sqlite3.connect(f"{sql_file.as_uri()}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        rows = connection.execute(f"SELECT * FROM {view}").fetchall()
    assert rows
    assert len(set(rows[0].keys())) == len(rows[0].keys())
    assert ("fen" in rows[0].keys()) == (view != "played_games")  # noqa: SIM118
    for row in rows if view != "played_games" else ():
        assert chess.Board(row["fen"]).is_valid()


# ------------------------------------------------------------------ games
def test_games_are_counted_beside_the_search(sql_file: Path) -> None:
    found = games(sql_file, chess.Board())
    assert (found.results.games, found.results.white, found.results.variations) == (14, 6, 4)
    assert found.score == pytest.approx((6 + 1.5) / 11)
    e4 = found.moves[0]
    edge = next(move for move in present(show(sql_file, chess.Board())).moves if move.san == "e4")
    assert (e4.san, e4.results.games) == ("e4", 11)
    assert e4.results.percents["white_percent"] == pytest.approx(50)
    assert e4.score == pytest.approx(0.65)
    assert (e4.n, e4.q) == (edge.n, edge.q)
    assert e4.difference == pytest.approx(0.3 - present(edge.q))
    assert [row.san for row in found.moves[:3]] == ["e4", "h4", "d4"]
    assert found.moves[1].score is None, "no result is known"
    black = games(sql_file, after_line("e4")).moves[0]
    assert black.san == "e5"
    assert black.score == pytest.approx(5 / 7), "as Black, who moves, sees it"
    data = found.as_dict()["moves"][0]
    assert (data["games"], data["white"], data["san"]) == (11, 5, "e4")


# ----------------------------------------------------------------- limits
@pytest.mark.parametrize(
    ("statement", "timeout", "message"),
    [
        (ENDLESS + "SELECT sum(n) FROM x", 0.1, r"stopped after 0\.1 s"),
        (
            ENDLESS + "SELECT count(DISTINCT a) FROM (SELECT randomblob(2000000) AS a FROM x)",
            0.1,
            r"after 0\.1 s",
        ),
        ("SELECT randomblob(900000000)", 60, "16 MiB"),
        ("SELECT length(hex(zeroblob(9000000)))", 60, "16 MiB"),
    ],
)
def test_time_and_the_size_of_values_are_limited(
    sql_file: Path, statement: str, timeout: float, message: str
) -> None:
    with (
        pytest.raises(errors.StatementLimitError, match=message),
        sql(sql_file, statement, timeout=timeout) as result,
    ):
        list(result.rows)


def test_the_time_between_two_rows_does_not_count(sql_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("graphsearch.query.sql.monotonic", lambda: now[0])
    with sql(sql_file, ENDLESS + "SELECT n FROM x LIMIT 3", timeout=0.2) as result:
        first = next(result.rows)
        now[0] += 0.4
        assert [first, *result.rows] == [(1,), (2,), (3,)]


def test_a_statement_gets_no_more_memory_than_it_may_have(sql_file: Path) -> None:
    what = "SELECT " + ", ".join(["randomblob(4000000)"] * 9)

    def ask(say: Say) -> None:  # in a fork: SQLite keeps the limit
        try:
            with sql(sql_file, what, heap_bytes=24 << 20) as result:
                list(result.rows)
        except errors.StatementLimitError as error:
            say(error)

    with Fork(ask) as fork:
        (told,) = fork.rest()
    assert told.startswith("SQL: the statement exceeds its memory limit")
