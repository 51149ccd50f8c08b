"""What positions are worth: searched apart, at every save of every run, and where two have equal keys."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import chess
import chess.pgn
import chess.polyglot
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze, show
from graphsearch.book.build import build
from graphsearch.book.config import BuildSettings, parse_config
from graphsearch.evaluators.factory import create
from graphsearch.exchange.exports import export
from graphsearch.exchange.importing import GivenFile
from graphsearch.exchange.imports import import_files
from graphsearch.graph.sweeps.refresh import refresh
from graphsearch.graph.view import MoveView, NodeView
from graphsearch.position.board import board_of, fen_of, key_text
from graphsearch.position.values import negate
from graphsearch.query.brief import brief
from graphsearch.query.diff import diff
from graphsearch.query.find import Filters, find
from graphsearch.query.games import games
from graphsearch.query.history import history
from graphsearch.query.line import pv, values
from graphsearch.query.novelties import Rules, novelties
from graphsearch.query.position import moves, position
from graphsearch.query.sql import sql
from graphsearch.query.tree import neighbourhood, tree
from graphsearch.store.info import info
from graphsearch.store.ranking import best_move, node_mean
from graphsearch.store.salvage import salvage
from graphsearch.store.store import Store
from graphsearch.store.tables import history as table
from graphsearch.store.tables.history import RootValues
from graphsearch.store.verify import verify

from ..conftest import Cli, present
from ..conftest import sql as rows
from ..support.positions import after_line
from ..support.reference import HashEvaluator

BOARD = chess.Board()
BETTER = chess.Move.from_uci("b1a3")  # by the values of this evaluator
VISITS = 200  # of all moves, and of each move apart


def view_of(path: Path, board: chess.Board = BOARD) -> NodeView:
    return present(show(path, board))


def row(node: NodeView, move: chess.Move) -> MoveView:
    return next(one for one in node.moves if one.move == move)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Returns a file, and the same after a search of some moves only, of which BETTER is the best."""
    folder = tmp_path_factory.mktemp("apart")
    before, after = folder / "before.graph", folder / "after.graph"
    with Graph.open(before, evaluator=HashEvaluator()) as graph:
        analyze(graph, BOARD, Limits(visits=VISITS))
    shutil.copy(before, after)
    with Graph.open(after, evaluator=HashEvaluator()) as graph:
        for move in (BETTER, chess.Move.from_uci("g1f3")):
            analyze(graph, BOARD, Limits(visits=VISITS), searchmoves=[move])
    assert (view_of(before).moves[0].q or 0.0) < (row(view_of(after), BETTER).q or 0.0)
    return before, after


def test_show_takes_visits_and_value_from_the_position_behind_the_move(files: tuple[Path, Path]) -> None:
    before, after = files
    with Store.open(after, read_only=True) as store:
        behind, record = present(store.read(after_line("Na3"))), present(store.read(BOARD))
    old, new = view_of(before), view_of(after)
    shown = row(new, BETTER)
    assert (shown.n, shown.apart) == (behind.visits, True)
    assert shown.n > VISITS > row(old, BETTER).n
    assert shown.q == pytest.approx(negate(node_mean(behind)[0]), abs=1e-6)
    assert new.moves[0].move == BETTER
    assert (new.visits, new.q) == (record.visits, node_mean(record)[0])
    assert new.visits == old.visits
    assert not row(new, old.moves[0].move).apart


def test_every_view_follows_the_better_move(files: tuple[Path, Path], tmp_path: Path) -> None:
    before, after = files
    old, uci = view_of(before).moves[0].move, BETTER.uci()
    (line,) = pv(after, BOARD).lines
    step = line.plies[0].step
    assert (step.move.uci(), step.edge.apart) == (uci, True)
    branch = tree(after, BOARD).root.branches[0]
    assert (branch.move, branch.apart) == (uci, True)
    assert moves(after, BOARD).moves[0].view.move == BETTER
    assert present(position(after, BOARD).moves).node.moves[0].move == BETTER
    assert history(after, BOARD).points[-1].best_move == uci
    shares = [one.n_share or 0.0 for one in games(after, BOARD).moves]
    assert sum(shares) == pytest.approx(1), "of all visits that the table lists"
    game = BOARD.copy()
    game.push(old)
    point = values(after, game).points[0]
    assert point.best_move == uci
    assert present(point.loss) > 0
    target = tmp_path / "out.pgn"
    export("pgn", after, target)
    with target.open() as text:
        read = present(chess.pgn.read_game(text))
    assert read.variations[0].move == BETTER
    import_files("pgn", after, [GivenFile(str(target))])
    notable = novelties(after, BOARD, rules=Rules(games=1, min_games=1)).novelties
    assert [one.step.move for one in notable if not one.line] == [BETTER]
    book = tmp_path / "out.bin"
    export("polyglot", after, book)
    with chess.polyglot.open_reader(book) as entries:
        heaviest = max(entries.find_all(BOARD), key=lambda entry: entry.weight)
    assert heaviest.weight == row(view_of(after), heaviest.move).n
    (hit,) = [one for one in find(after, Filters(min_n=VISITS)) if one.position == fen_of(BOARD)]
    assert hit.worth.best_san == BOARD.san(BETTER)
    (change,) = [one for one in diff(before, after).changes if one.position == fen_of(BOARD)]
    assert (change.old.best_move, change.new.best_move) == (old.uci(), uci)


def test_a_worse_move_shows_its_visits_and_does_not_lead(tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        result = analyze(graph, BOARD, Limits(visits=VISITS))
        worst = min((one for one in result.node.moves if one.n > 1), key=lambda one: one.q or 0.0)
        analyze(graph, BOARD, Limits(visits=5 * VISITS), searchmoves=[worst.move])
        found = present(show(graph, BOARD))  # in memory as in the file, whose values are brought up to date
    assert [move.n for move in found.moves] == [move.n for move in view_of(path).moves]
    shown = row(view_of(path), worst.move)
    assert shown.apart
    assert shown.n > 5 * VISITS
    assert (view_of(path).moves[0].q or 0.0) > (shown.q or 0.0)
    assert view_of(path).moves[0].move == result.bestmove


def test_a_mate_that_was_never_visited_comes_before_moves_searched_apart(tmp_path: Path) -> None:
    path, board = tmp_path / "a.graph", chess.Board("r5k1/5ppp/8/8/8/8/5PPP/R5K1 w - - 0 1")
    with Graph.open(path, evaluator=HashEvaluator()) as graph:
        analyze(graph, board, Limits(visits=20), searchmoves=[chess.Move.from_uci("h2h4")])
    assert brief(path, board).lines[0] == "White plays 1. Rxa8# and mates in 1."
    first, second = (line.plies[0] for line in pv(path, board, lines=2).lines)
    assert (first.san, first.mate, first.step.edge.n, second.san) == ("Rxa8#", 1, 0, "h4")
    board.push_san("h4")
    point = values(path, board).points[0]
    assert (point.best_san, point.best_q) == ("Rxa8#", 1.0)
    assert present(point.loss) > 0


def test_commands_say_what_was_searched_apart(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.graph"
    cli("analyze", "startpos", "--visits", 100, "--store", path)
    searched = cli("analyze", "startpos", "--visits", 300, "--searchmoves", "a4", "--store", path).out
    heading = next(line for line in searched.splitlines() if "White to move" in line)
    assert heading in cli("show", path).out.splitlines()
    for words in (["show", path], ["lines", path, "--lines", 0], ["tree", path]):
        lines = [line for line in cli(*words).out.splitlines() if "searched apart" in line]
        assert len(lines) == 1
        assert "a4" in lines[0]
        assert " 30" in lines[0]


# ------------------------------------------------------------------ history
SMALL = SearchParams(minibatch_size=1)


def test_every_run_leaves_what_its_root_was_worth_at_its_end(small_graph: Path) -> None:
    with Graph.open(small_graph) as graph:
        analyze(graph, chess.Board(), Limits(visits=50), SMALL)
        record = present(graph.read(chess.Board()))
    found = history(small_graph).by_run  # a first search that compiles saves amid it too
    assert [(one.run, one.kind, one.evaluator) for one in found] == [(run, "search", 1) for run in (1, 2)]
    last = found[-1]
    best = present(best_move(record, chess.Board()))
    assert (last.n, last.q, last.draw) == (record.visits, *node_mean(record))
    assert last.win == pytest.approx((1 - node_mean(record)[1] + last.q) / 2)
    assert (last.best_move, last.best_san) == (best.uci(), chess.Board().san(best))
    assert present(last.depth) > 0
    assert found[0].n == record.visits - 50


def test_draws_by_the_game_before_are_not_in_it(small_graph: Path) -> None:
    board = after_line("Nf3 Nf6 Ng1 Ng8 Nf3 Nf6 Ng1")
    with Graph.open(small_graph) as graph:
        result = analyze(graph, board, Limits(visits=100), SMALL, searchmoves=[board.parse_san("Ng8")])
        record = present(graph.read(board))
    (point,) = history(small_graph, board).by_run
    assert point.kind == "search"
    assert point.q == node_mean(record)[0]
    assert point.q != result.node.q, "Ng8 is a draw by repetition in this game"


def test_the_line_is_of_the_most_visits_and_a_change_of_the_best_move_is_marked(
    small_graph: Path,
) -> None:
    with Graph.open(small_graph) as graph:
        analyze(graph, chess.Board(), Limits(visits=50), SMALL)
        values = present(graph.root_values(chess.Board()))
        other = replace(values, n=values.n + 1, best_move="a2a3", pv="a2a3 e7e5 a3a5")
        for root in (other, replace(values, n=values.n + 2)):
            graph.call(lambda store, root=root: table.write(store, 2, root))  # type: ignore[misc]
    found = history(small_graph)
    before, odd, after = found.points[-3:]
    (line,) = pv(small_graph, chess.Board()).lines
    assert before.pv == after.pv == tuple(ply.step.move.uci() for ply in line.plies[: table.PV_MOVES])
    assert len(before.line) == len(before.pv) > 1
    assert odd.line == ("a3", "e5"), "a move that is none ends the line"
    assert [point.changed for point in (before, odd, after)] == [False, True, True]
    assert [point for point in found.points if point.changed] == [found.points[0], odd, after]


def test_a_proven_mate_is_in_the_history_and_at_the_root_of_the_tree(tmp_path: Path) -> None:
    for at, mate in ("7k/8/5K2/8/8/8/8/6R1 w", 2), ("7k/8/5KR1/8/8/8/8/8 b", -2), ("k7/Q7/K7/8/8/8/8/8 b", 0):
        with Graph.open(path := tmp_path / "mate.graph", evaluator="uniform") as graph:
            analyze(graph, board := chess.Board(f"{at} - - 0 1"), Limits(visits=1000))
        assert history(path, board).points[-1].mate == tree(path, board).root.mate == mate


def test_a_refresh_notes_all_roots(small_graph: Path) -> None:
    with Graph.open(small_graph) as graph:
        analyze(graph, after_line("e4"), Limits(visits=60), SMALL)
    before = history(small_graph).points
    assert refresh(small_graph).stale
    *rest, last = history(small_graph).points
    assert tuple(rest) == before
    assert (last.kind, last.n, last.depth) == ("refresh", before[-1].n, None)
    assert history(small_graph, after_line("e4")).points[-1].run == last.run
    assert not refresh(small_graph).stale
    assert history(small_graph).points[-1] == last, "nothing has changed"


def test_without_a_position_it_is_the_last_root_with_saves(small_graph: Path) -> None:
    with Store.open(small_graph) as store:  # as a review does
        store.record_root(key_text(after_line("e4")), after_line("e4").fen(), 1)
    assert history(small_graph) == history(small_graph, chess.Board())


def test_a_book_notes_its_roots_when_they_change(tmp_path: Path) -> None:
    path = tmp_path / "book.graph"
    head = '[book]\nname = "w"\nside = "white"\nmax_ply = 4\n'
    config = parse_config(f'{head}[[root]]\nfen = "startpos"\n[leaf]\nevaluations = 20\n', tmp_path, "w.toml")
    reports = [build(path, config, settings=BuildSettings(evaluations=n)) for n in (100, 400)]
    points = history(path, chess.Board()).points
    assert history(path).points == points, "the file has no other root"
    assert [(point.kind, point.book) for point in points] == [("book", "w")] * len(points)
    for report, point in zip(reports, history(path, chess.Board()).by_run, strict=True):
        (root,) = report.roots
        assert (point.q, point.best_san) == (root.value, root.best)
        assert point.line[0] == root.best
    assert points[-1].positions == reports[-1].positions
    while build(path, config).ended != "complete":
        pass
    assert build(path, config).searched == 0
    done = history(path, chess.Board()).points
    assert build(path, config).searched == 0
    assert history(path, chess.Board()).points == done, "a build that changes nothing notes nothing"
    assert len(done) >= len(points)


# ------------------------------------------------------------------ thinning
def test_a_year_of_runs_stays_small_with_its_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search a day on each of two roots, a save each half hour: 4,380 saves."""
    path, began = tmp_path / "year.graph", datetime(2025, 1, 1, tzinfo=UTC)
    changes: dict[str, list[tuple[int, int, str]]] = {}
    with Store.open(path, create=True, identity=create("uniform").identity) as store, store.transaction():
        n, best = 100, "e2e4"
        for run in range(1, 366):
            for step in range(6):
                when = began + timedelta(days=run, minutes=30 * step)
                monkeypatch.setattr(table, "now", lambda when=when: when.isoformat(timespec="seconds"))
                n += 50_000
                for root in range(2):
                    key = f"{root:016x}"
                    if (run * 6 + step) % 97 == 10 * root:
                        best = "d2d4" if best == "e2e4" else "e2e4"
                    if not changes.get(key) or changes[key][-1][2] != best:
                        changes.setdefault(key, []).append((run, n, best))
                    line = " ".join(("e2e4", "e7e5") * 4)
                    values = RootValues(key=key, n=n, q=0.1, draw=0.5, best_move=best, depth=30, pv=line)
                    table.write(store, run, values)
    with Store.open(path, read_only=True) as store:
        size = "SELECT sum(pgsize) FROM dbstat WHERE name = 'root_history'"
        assert store.connection.execute(size).fetchone()[0] < 1_000_000
        for root in range(2):
            rows = table.of_root(store, f"{root:016x}")
            assert table.ROWS_LEFT <= len(rows) <= table.MOST_ROWS
            assert set(changes[f"{root:016x}"]) <= {(row.run, row.n, row.best_move) for row in rows}
            assert sum(row.run > 182 for row in rows) > len(rows) / 2, "old times keep fewer rows"


# ------------------------------------------------------------------ equal keys
INNER, OUTER = (f"4k3/p6p/8/8/8/8/P6P/4KRR1 w {rook} - 0 1" for rook in "FG")
BOTH = [board_of(INNER), board_of(OUTER)]
BOTH_KEYS = [key_text(board) for board in BOTH]
ROWS_OF = ("root", "top_position", "root_history")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a file in which both were searched, and two games of each."""
    folder = tmp_path_factory.mktemp("equal")
    games = folder / "games.pgn"
    games.write_text("\n\n".join(_game(board) for board in BOTH for _ in range(2)) + "\n")
    file = folder / "equal.graph"
    with Graph.open(file, evaluator="uniform") as graph:
        for visits, board in zip((60, 90), BOTH, strict=True):
            analyze(graph, board, Limits(visits=visits))
    import_files("pgn", file, [GivenFile(str(games))])
    return file


def _game(board: chess.Board) -> str:
    head = f'[Variant "Chess960"]\n[SetUp "1"]\n[FEN "{board.fen()}"]\n[Result "1-0"]\n'
    return f"{head}\n1. h3 Kd7 1-0"


def keys_in(file: Path, table: str) -> list[str]:
    """Returns which of the two positions have rows in a table, in any order."""
    found = {key for (key,) in rows(file, f"SELECT key FROM {table}")}
    return [key for key in BOTH_KEYS if key in found]


def test_both_have_their_rows_are_listed_and_are_found_under_the_key_that_sql_computes(path: Path) -> None:
    for name in (*ROWS_OF, "game_position", "game_move"):
        assert keys_in(path, name) == BOTH_KEYS, name
    assert {(root.key, root.visits) for root in info(path).roots} == {(BOTH_KEYS[0], 60), (BOTH_KEYS[1], 90)}
    for fen, board, visits in zip((INNER, OUTER), BOTH, (60, 90), strict=True):
        assert history(path, board).points[-1].n == visits
        assert neighbourhood(path, board, depth=1).nodes[0].n == visits
        with sql(path, f"SELECT n FROM top_position WHERE key = key('{fen}')") as result:
            assert list(result.rows) == [(visits,)]
    assert {found.key for found in find(path, Filters(min_n=60))} == set(BOTH_KEYS)


def test_a_file_of_both_is_sound_and_stays_so_when_refreshed_and_salvaged(path: Path, tmp_path: Path) -> None:
    assert verify(path).problems == []
    refresh(path)
    assert verify(path).problems == []
    rescued = tmp_path / "rescued.graph"
    salvage(path, rescued)
    for name in (*ROWS_OF, "game_move"):
        assert keys_in(rescued, name) == BOTH_KEYS


def test_exports_tell_them_apart(path: Path, tmp_path: Path) -> None:
    export("jsonl", path, tmp_path / "all.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    by_key = {row["key"]: row for row in rows}
    assert len(by_key) == len(rows)
    assert [by_key[key]["fen"] for key in BOTH_KEYS] == [board.fen() for board in BOTH]
    assert {move["child"] for row in rows for move in row["moves"] if move["n"]} <= set(by_key)
    export("csv", path, tmp_path / "all.csv")
    assert set(BOTH_KEYS) <= {line.split(",")[0] for line in (tmp_path / "all.csv").read_text().splitlines()}
    export("epd", path, tmp_path / "all.epd")
    assert all(f'id "{key}";' in (tmp_path / "all.epd").read_text() for key in BOTH_KEYS)
