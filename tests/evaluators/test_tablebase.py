"""Tablebases before an evaluator: what they know is exact, proven, and asked of no one else."""

from __future__ import annotations

import math
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import chess
import chess.syzygy
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze, show
from graphsearch.base.errors import EvaluatorError
from graphsearch.evaluators.builtin.evaluator import BuiltinEvaluator
from graphsearch.evaluators.factory import EvaluatorSpec, create
from graphsearch.evaluators.protocol import PositionBatch, checked
from graphsearch.evaluators.tablebase import Syzygy, TablebaseEvaluator
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.search.params import GATHERERS
from tests.conftest import Cli, shared_data
from tests.support.evaluators import TableEntry, TableEvaluator
from tests.support.positions import placed

EQUAL = TableEntry((0.3, 0.4, 0.3), {})


@pytest.fixture(scope="module")
def folder() -> Path:
    return shared_data("syzygy")


@pytest.fixture(scope="module")
def tables(folder: Path) -> Iterator[Syzygy]:
    opened = Syzygy(folder)
    yield opened
    opened.close()


def records_of(graph: Graph) -> list[Any]:
    assert graph.store
    return [record for chunk in graph.store.scan() for record in map(chunk.record, range(len(chunk)))]


def test_what_tables_know_is_exact_and_the_evaluator_is_not_asked(tables: Syzygy, folder: Path) -> None:
    inner = TableEvaluator({}, EQUAL)
    evaluator = TablebaseEvaluator(inner, tables)
    chance, kinds = Random(1), ("KPvK", "KPvKP", "KBNvK", "KQvK", "KRvK", "KRvKR", "KQvKP")
    boards = [placed(chance, men) for men in kinds for _ in range(12)]
    batch = PositionBatch.from_boards(boards)
    answer = checked(batch, evaluator.evaluate(batch))
    assert not inner.asked
    assert evaluator.hits == len(boards)
    assert answer.bounds is not None
    with chess.syzygy.open_tablebase(str(folder)) as oracle:
        for board, wdl, bounds in zip(boards, answer.wdl.tolist(), answer.bounds.tolist(), strict=True):
            result = {2: 1, -2: -1}.get(oracle.probe_wdl(board), 0)
            assert bounds == [result, result]
            assert wdl == [float(result == 1), float(result == 0), float(result == -1)]


def test_a_table_with_the_content_of_another_is_named_and_ends_the_search(
    cli: Cli, folder: Path, tmp_path: Path
) -> None:
    shutil.copy(folder / "KQvK.rtbw", tmp_path / "KBBvK.rtbw")
    board = chess.Board("7k/8/8/8/8/8/8/KBB5 w - - 0 100")
    opened = Syzygy(tmp_path)
    with pytest.raises(EvaluatorError, match=r"gives no answer for 7k/8/8/8/8/8/8/KBB5 w .* another table"):
        opened.result(board)
    opened.close()
    cli("analyze", board.fen(), "--visits", "20", "--syzygy", tmp_path).ends(1, "gives no answer for")


def test_a_request_to_stop_ends_a_probe_that_lasts(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(folder / "KQvK.rtbw", tmp_path / "KBBvK.rtbw")
    monkeypatch.setattr("graphsearch.evaluators.tablebase.PROBE_SECONDS", math.inf)
    stop, board = threading.Event(), chess.Board("7k/8/8/8/8/8/8/KBB5 w - - 0 100")
    threading.Timer(0.1, stop.set).start()
    evaluator = TablebaseEvaluator(UniformEvaluator(), Syzygy(tmp_path))
    with Graph.open(None, evaluator=evaluator) as graph:
        assert analyze(graph, board, Limits(), stop=stop).stop_reason == "stop"
    evaluator.close()


@pytest.mark.parametrize(
    ("fen", "text", "plies"),
    [
        ("8/8/8/8/4k3/8/3QK3/8 w - - 0 1", "White wins, mate or zeroing in 5: 1. Qd6 Kf5 2. Kf3 ", 9),
        ("8/8/8/8/8/4k3/3q4/K7 b - - 0 1", "Black wins, mate or zeroing in 3: 1... Kd3 2. Kb1 ", 5),
        ("8/8/8/8/4k3/8/3QK3/8 b - - 3 10", "White wins, mate or zeroing in 7: 10... Ke5 11. Kf3 ", 14),
        ("8/8/8/4k3/8/4K3/4P3/8 w - - 0 1", "draw\n", 1),
    ],
)
def test_a_root_that_tables_know_ends_at_once_with_their_line(
    cli: Cli, folder: Path, fen: str, text: str, plies: int
) -> None:
    words = ("analyze", fen, "--syzygy", folder)
    assert cli(*words).ends(0).out.startswith(f"tablebase: {text}")
    found = cli(*words, "--json").json
    assert len(found["tablebase"]["line"]) == plies
    assert found["new_visits"] < 10
    best = found["moves"][0]
    assert found["bestmove"] == best["move"] == found["tablebase"]["line"][0]
    assert best["q"] == found["q"], "a move that keeps a proven result shows it"


@pytest.mark.parametrize(("clock", "bounds"), [(7, (1, 1)), (86, (1, 1)), (87, (-1, 1))])
def test_a_win_is_known_as_long_as_it_comes_before_the_50_move_rule(
    tables: Syzygy, clock: int, bounds: tuple[int, int]
) -> None:
    board = chess.Board(f"8/8/8/4k3/8/4K3/8/6Q1 w - - {clock} 1")  # DTZ 13
    batch = PositionBatch.from_boards([board])
    answer = TablebaseEvaluator(TableEvaluator({}, EQUAL), tables).evaluate(batch)
    assert ((-1, 1) if answer.bounds is None else tuple(answer.bounds[0].tolist())) == bounds


def test_the_rest_of_a_batch_goes_to_the_evaluator(tables: Syzygy) -> None:
    inner = TableEvaluator({}, EQUAL)
    evaluator = TablebaseEvaluator(inner, tables)
    known, running = placed(Random(2), "KPvK"), chess.Board("8/8/8/4k3/8/4K3/8/6Q1 w - - 90 1")
    castling = chess.Board("4k3/8/8/8/8/8/8/4K2R w K - 0 1")
    boards = [chess.Board(), known, running, castling]
    batch = PositionBatch.from_boards(boards)
    answer = checked(batch, evaluator.evaluate(batch))
    assert inner.asked == [board.epd() for board in (boards[0], running, castling)]
    assert answer.bounds is not None
    assert answer.bounds[[0, 2, 3]].tolist() == [[-1, 1]] * 3
    assert answer.wdl[0].tolist() == pytest.approx([0.3, 0.4, 0.3])
    assert evaluator.identity == inner.identity


@pytest.mark.parametrize(
    ("gather", "batch"), [(SearchParams().gather, 1), *((name, 32) for name in GATHERERS)]
)
def test_a_search_ends_at_what_is_proven_and_keeps_the_proof(
    tables: Syzygy, tmp_path: Path, gather: str, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "has_dtz", False)  # the root has a clock, so it is not proven
    board = chess.Board("8/8/8/3k4/8/3K4/3P4/7r b - - 4 1")  # ..Rh3+ and so on: wins the pawn or trades
    inner = TableEvaluator({}, EQUAL)
    path = tmp_path / "a.graph"
    with Graph.open(path, evaluator=TablebaseEvaluator(inner, tables)) as graph:
        params = SearchParams(minibatch_size=batch, gather=gather, overlap=0)
        analyze(graph, board, Limits(visits=400), params, searchmoves=board.legal_moves)
        seen = records_of(graph)
    proven = [record for record in seen if not record.terminal and record.bounds[0] == record.bounds[1]]
    assert proven
    for record in proven:
        assert not any(edge.n for edge in record.edges)
        assert record.v == record.bounds[0]
        assert record.evaluator == 0
    assert len(inner.asked) == sum(record.evaluator == 1 for record in seen)


def test_a_proven_root_is_searched_and_keeps_its_value(tables: Syzygy, tmp_path: Path) -> None:
    board = chess.Board("8/8/8/4k3/8/4K3/4P3/8 w - - 0 1")
    with Graph.open(tmp_path / "a.graph", evaluator=TablebaseEvaluator(BuiltinEvaluator(), tables)) as graph:
        result = analyze(graph, board, Limits(visits=300), searchmoves=board.legal_moves)
    expected = tables.result(board)
    assert (result.node.bounds, result.node.q) == ((expected, expected), expected)
    assert result.visits >= 300
    node = show(tmp_path / "a.graph", board)
    assert node is not None
    assert node.as_dict()["bounds"] == [expected, expected]


def test_a_win_is_not_proven_for_a_path_with_a_higher_clock(tables: Syzygy, tmp_path: Path) -> None:
    won = chess.Board("8/8/8/4k3/8/4K3/8/6Q1 w - - 0 1")
    drawn = chess.Board("3k4/3P4/4K3/8/8/8/8/8 w - - 0 1")
    with Graph.open(tmp_path / "a.graph", evaluator=TablebaseEvaluator(BuiltinEvaluator(), tables)) as graph:
        for board in (won, drawn):
            analyze(graph, board, Limits(visits=1))
    for board, later in ((won, (0, 1)), (drawn, None)):
        result = tables.result(board)
        moved = board.copy()
        moved.halfmove_clock = 30
        node, after = show(tmp_path / "a.graph", board), show(tmp_path / "a.graph", moved)
        assert node is not None
        assert after is not None
        assert node.bounds == (result, result)
        assert after.bounds == (later or (result, result))


def test_safe_moves_keep_the_result(tables: Syzygy) -> None:
    chance = Random(7)
    for men in ("KQvK", "KPvK", "KPvKP", "KRvKR"):
        for board in [placed(chance, men) for _ in range(4)]:
            safe, result = tables.safe_moves(board), tables.result(board)
            assert safe is not None
            assert result is not None
            for move in board.legal_moves:
                board.push(move)
                assert (move in safe) == (tables.result(board) == -result)
                board.pop()
            best = tables.best_moves(board)
            assert best is not None
            assert set(best) <= set(safe)


def test_best_moves_keep_the_result_and_reach_it_soonest(tables: Syzygy, folder: Path) -> None:
    """Played out by both sides: every win is won within the 50-move rule, every draw is held."""
    with chess.syzygy.open_tablebase(str(folder)) as oracle:
        for men in ("KRvK", "KPvK", "KPvKP"):
            board = placed(Random(5), men)
            wdl, game = oracle.probe_wdl(board), board.copy()
            while (
                not game.is_game_over() and not game.is_fifty_moves() and (moves := tables.best_moves(game))
            ):
                assert all(move in game.legal_moves for move in moves)
                game.push(moves[0])
            outcome = game.outcome(claim_draw=True)
            if outcome is not None:
                wins = {2: board.turn, -2: not board.turn}
                assert outcome.winner == wins.get(wdl), board.fen()


def test_tables_that_are_missing_or_damaged_are_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(EvaluatorError, match=r"the folder .*nowhere of Syzygy tables does not exist"):
        create(EvaluatorSpec(syzygy=str(tmp_path / "nowhere")))
    with pytest.raises(EvaluatorError, match=r"has no Syzygy tables; expected \*\.rtbw"):
        create(EvaluatorSpec(syzygy=str(tmp_path)))
    (tmp_path / "KQvK.rtbw").write_bytes(b"rubbish")
    evaluator = create(EvaluatorSpec(syzygy=str(tmp_path)))
    assert isinstance(evaluator, TablebaseEvaluator)
    with pytest.raises(EvaluatorError, match=r"a Syzygy table in .* cannot be read"):
        evaluator.evaluate(PositionBatch.from_boards([placed(Random(1), "KQvK")]))
    evaluator.close()


def test_tables_may_come_and_go_and_are_brought_into_a_file_by_reevaluating_it(
    tmp_path: Path, cli: Cli, folder: Path
) -> None:
    path, fen = tmp_path / "a.graph", "6k1/5p2/8/8/8/8/4PR2/4K3 w - - 0 1"
    search = ("analyze", fen, "--visits", "200", "--store", path)
    cli(*search).ends(0)
    again = ("reevaluate", path, "--evaluator", "builtin", "--syzygy", folder, "--json")
    first, second = (cli(*again).json["evaluated"] for _ in range(2))
    assert first > 0 == second
    cli(*search, "--syzygy", folder).ends(0, f"--syzygy {folder}")
    assert "own evaluator" not in cli(*search).ends(0).err
    cli("store", "verify", path).ends(0)
    cli(*search, "--syzygy", tmp_path / "no").ends(2)
