"""Mates, draws and repetitions in searches of fixed depth; counts, node types, ending early."""

from __future__ import annotations

import re
from dataclasses import asdict

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.position.values import LEAST_MATE, MATE
from graphsearch.solvers.alphabeta.search import AlphaBeta, DepthResult
from graphsearch.store.entries import Entry, EntryTable
from tests.conftest import shared_data
from tests.support.plain import as_json, in_plain_python
from tests.support.positions import after_line, played

PERPETUAL = "6k1/6p1/8/7Q/8/1q6/1r4PP/6K1 w - - 0 1"  # Qe8+ Kh7 Qh5+ and so on; else White is mated


@pytest.fixture
def engine() -> AlphaBeta:
    return AlphaBeta(EntryTable(1 << 20))


def deepened(engine: AlphaBeta, board: chess.Board, depth: int) -> DepthResult:
    return [engine.search(board, d) for d in range(1, depth + 1)][-1]


def ends_in_mate(board: chess.Board, result: DepthResult) -> bool:
    after = board.copy()
    for move in result.pv:
        assert move in after.legal_moves
        after.push(move)
    return after.is_checkmate()


def test_the_shortest_mate_is_found_at_its_depth_and_not_before(engine: AlphaBeta) -> None:
    count = 0
    for line in shared_data("data/mates_500.epd").read_text().splitlines():
        found = re.match(r"(.*) bm #(-?\d+);", line)
        assert found
        moves = int(found[2])
        if abs(moves) > 2:
            continue
        board = chess.Board(f"{found[1]} 0 1")
        plies = 2 * moves - 1 if moves > 0 else -2 * moves
        result = deepened(engine, board, plies)
        assert result.value == (MATE - plies if moves > 0 else plies - MATE), line
        assert ends_in_mate(board, result), line
        count += 1
    assert count >= 5


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_stalemate_and_dead_positions_are_drawn_and_checkmate_is_lost(engine: AlphaBeta, depth: int) -> None:
    for fen, value in [
        ("7k/5Q2/8/8/8/8/8/K7 b - - 0 1", 0),
        ("7k/8/8/8/8/8/8/KB6 w - - 0 1", 0),
        ("R6k/8/6K1/8/8/8/8/8 b - - 0 1", -MATE),
    ]:
        result = engine.search(chess.Board(fen), depth)
        assert (result.value, result.move, result.pv) == (value, None, ())


def test_nine_queens_are_no_mate(engine: AlphaBeta) -> None:
    board = chess.Board("QQQQQQQQ/QRRBBNN1/8/K7/8/8/6pp/6rk b - - 0 1")
    assert -LEAST_MATE < engine.search(board, 0).value < -15_000


def test_mate_on_the_hundredth_ply_wins(engine: AlphaBeta) -> None:
    result = engine.search(chess.Board("7k/8/6K1/8/8/8/8/R7 w - - 99 80"), 3)
    assert (result.value, result.pv) == (MATE - 1, (chess.Move.from_uci("a1a8"),))


def test_a_hundred_plies_without_mate_are_a_draw(engine: AlphaBeta) -> None:
    for clock, plies in ((99, 1), (98, 2)):
        board = chess.Board(f"7k/8/8/8/8/8/8/R6K w - - {clock} 80")
        result = deepened(engine, board, plies)
        assert result.value == 0
        assert result.counts.path_draws > 0
    for clock, value in ((97, MATE - 3), (98, 0)):  # the mate is the hundredth ply, or one too late
        board = chess.Board(f"7k/8/8/8/8/8/1R6/R5K1 w - - {clock} 80")
        assert deepened(engine, board, 4).value == value


def test_a_mate_in_an_entry_counts_only_where_the_clock_leaves_time_for_it(engine: AlphaBeta) -> None:
    fen = "7k/8/8/8/8/8/1R6/R5K1 w - - {} 80"
    assert engine.search(chess.Board(fen.format(0)), 3).value == MATE - 3
    assert engine.search(chess.Board(fen.format(75)), 3).counts.nodes == 1
    assert engine.search(chess.Board(fen.format(98)), 3).value == 0


def test_a_bound_that_the_clock_could_change_is_neither_kept_nor_used(engine: AlphaBeta) -> None:
    fen = "8/8/8/4k3/8/8/4P3/4K3 w - - {} 80"
    late, early = chess.Board(fen.format(75)), chess.Board(fen.format(0))  # one key
    move = chess.Move.from_uci("e1d2")
    for depth, used in ((8, True), (9, False)):  # 75 + 9 plies + 16 of quiescence may reach 100
        engine.table.put(late, Entry(7777, depth, "exact", move, "pv", 0))
        assert (engine.search(early, depth).value, engine.search(late, depth).value == 7777) == (7777, used)
    kept = engine.table.get(late)
    assert kept is not None
    assert (kept.bound, kept.move is not None) == ("exact", True)  # what was there says more than nothing
    fresh = AlphaBeta(EntryTable(1 << 20))
    fresh.search(late, 9)
    kept = fresh.table.get(late)
    assert kept is not None
    assert (kept.bound, kept.move is not None) == ("", True)


def test_a_repetition_is_a_draw_and_leaves_no_bound_below_where_it_leads_to(engine: AlphaBeta) -> None:
    board = chess.Board(PERPETUAL)
    result = deepened(engine, board, 5)
    assert result.value == 0
    assert result.counts.path_draws > 0
    assert [move.uci() for move in result.pv[:4]] == ["h5e8", "g8h7", "e8h5", "h7g8"]
    root = engine.table.get(board)
    assert root is not None
    assert (root.value, root.bound, root.depth) == (0, "exact", 5)  # what returned is the root: on every path
    for move in result.pv[:3]:
        board.push(move)
        entry = engine.table.get(board)
        assert entry is None or not entry.bound or entry.depth < 5 - len(board.move_stack)


def test_a_position_that_stood_twice_in_the_game_is_drawn_when_it_comes_again(engine: AlphaBeta) -> None:
    board = after_line("Ka2 Kh7 Ka1 Kh8 Ka2 Kh7 Ka1", "7k/8/8/8/8/8/6R1/K7 w - - 0 1")
    result = engine.search(board, 2)
    assert (result.value, result.move) == (0, chess.Move.from_uci("h7h8"))
    kept = engine.table.get(board)
    assert kept is not None
    assert kept.bound == ""
    assert engine.search(board.copy(stack=False), 2).value < 0
    assert engine.search(board, 2).value == 0  # whatever the table holds by now


@pytest.mark.parametrize(
    ("fen", "before", "game"),
    [
        ("1k6/8/8/8/4p3/1q6/2qK4/8 w - - 0 1", "d2e1 c2c4", "d2e1 c2c4 e1d2 c4c2 d2e1 c2c4"),
        ("6k1/6p1/8/7Q/8/6P1/qq3P1P/6K1 w - - 0 1", "h5e8", "h5e8 g8h7 e8h5 h7g8 h5e8"),
    ],
)
def test_what_is_known_without_a_game_ends_no_node_that_its_past_may_reach(
    fen: str, before: str, game: str
) -> None:
    fresh = deepened(AlphaBeta(EntryTable(1 << 20)), played(fen, game.split()), 4)
    used = AlphaBeta(EntryTable(1 << 20))
    deepened(used, chess.Board(played(fen, before.split()).fen()), 5)
    deepened(used, chess.Board(fen), 5)
    assert deepened(used, played(fen, game.split()), 4).value == fresh.value


# ------------------------------------------------------------------ counts, types, ending early
ITALIAN = "r1bqk2r/pppp1ppp/2n2n2/2b1p3/2B1P3/2NP1N2/PPP2PPP/R1BQK2R b KQkq - 0 5"


def test_the_principal_variation_is_legal_and_ends_in_its_value(
    engine: AlphaBeta,
) -> None:
    for depth in range(1, 6):
        board = chess.Board(ITALIAN)
        result = engine.search(board, depth)
        assert len(result.pv) == depth
        assert result.move == result.pv[0]
        for move in result.pv:
            assert move in board.legal_moves
            board.push(move)
        if depth == 4:
            assert engine.search(board, 0).value == result.value


def test_every_position_is_counted_once_for_what_it_is(engine: AlphaBeta) -> None:
    for depth in range(6):
        k = engine.search(chess.Board(ITALIAN), depth).counts
        assert k.nodes == k.interior + k.leaves + k.quiescence
        assert k.interior == k.pv + k.cut + k.all
        assert k.first_cutoffs <= k.cutoffs <= k.expanded <= k.interior
        assert k.hit_cutoffs <= k.hits <= k.interior
        assert k.cached <= k.leaves


def test_stop_is_asked_between_slices_and_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphsearch.solvers.alphabeta.search.SLICE_NODES", 20_000)
    seen: list[int] = []
    result = AlphaBeta(EntryTable(1 << 20)).search(
        chess.Board(), 60, stop=lambda: len(seen) == 3, on_slice=lambda counts: seen.append(counts.nodes)
    )
    assert not result.complete
    assert len(seen) == 3
    assert seen == sorted(seen)
    assert 60_000 <= result.counts.nodes < 63_000


def test_a_draw_that_the_graph_has_proven_is_one_at_every_depth() -> None:
    board = chess.Board("7k/8/6K1/8/8/8/8/5Q2 w - - 0 1")  # Qf7 stalemates
    with Graph.open(None) as graph:
        analyze(graph, board, Limits(visits=200), SearchParams())
        engine = AlphaBeta(EntryTable(1 << 20), graph.arena)
        assert engine.search(board, 2).counts.proofs > 0


FEW = [
    ("4k3/8/8/8/8/3p4/4P3/4K3 w - - 0 1", 2),
    ("6k1/5ppp/8/8/8/8/5PPP/R5K1 w - - 99 80", 1),
]


def all_searched() -> list[tuple[int, list[str], dict[str, int]]]:
    """Returns value, PV and counts of each depth of a few positions, with one table."""
    engine = AlphaBeta(EntryTable(1 << 16))
    found = (engine.search(chess.Board(fen), d) for fen, depth in FEW for d in range(1, depth + 1))
    return [(one.value, [move.uci() for move in one.pv], asdict(one.counts)) for one in found]


def test_plain_python_searches_as_compiled_code_does() -> None:
    assert in_plain_python(all_searched) == as_json(all_searched())
