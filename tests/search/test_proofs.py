"""What is proven: bounds through edges, mates and their length, and what may never be a proof."""

from __future__ import annotations

import random

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.tablebase import Syzygy
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.position.values import MATE
from graphsearch.store.entries import Entry, EntryTable
from graphsearch.store.record import NodeRecord
from graphsearch.store.transposition_kernel import PROOF

from ..conftest import shared_data
from ..support.graphs import check_invariants, read, records_below
from ..support.positions import mates_within, placed

ONE, WAVES = SearchParams(minibatch_size=1), SearchParams(minibatch_size=32)
GATHERED = [SearchParams(minibatch_size=16, gather=name) for name in ("classic", "budget")]


def searched(fen: str, visits: int = 3000, params: SearchParams = ONE) -> tuple[Graph, chess.Board]:
    board = chess.Board(fen)
    graph = Graph.open(None, evaluator=UniformEvaluator())
    analyze(graph, board, Limits(visits=visits), params)
    return graph, board


# ------------------------------------------------------------------ mates
@pytest.mark.parametrize(
    ("fen", "mate", "line"),
    [
        ("6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1", 1, "Rd8#"),
        ("7k/8/5K2/8/8/8/8/1Q6 w - - 0 1", 2, None),
        ("kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1", 2, "Ra6"),  # 1. Ra6 bxa6 2. b7#
        ("7k/5K2/8/6Q1/8/8/8/8 b - - 0 1", -1, "Kh7"),
        ("6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 99 80", 1, None),  # mates on the 100th ply
        ("7k/8/5K2/8/8/8/8/1Q6 w - - 97 80", 2, None),  # on the 100th
    ],
)
def test_a_mate_is_proven_with_its_length_and_a_legal_line(fen: str, mate: int, line: str | None) -> None:
    graph, board = searched(fen, 60_000)
    with graph:
        result = analyze(graph, board, Limits(visits=1))
        node = result.node
        assert node.mate == mate
        assert result.stop_reason == "proven"
        best = node.moves[0]
        assert best.mate == mate
        assert best.bounds == node.bounds == ((1, 1) if mate > 0 else (-1, -1))
        assert line in (None, best.san)
        assert len(best.pv) == (2 * mate - 1 if mate > 0 else -2 * mate)
        for move in best.pv:
            assert move in board.legal_moves
            board.push(move)
        assert board.is_checkmate()


@pytest.mark.parametrize("params", [ONE, *GATHERED])
def test_what_is_proven_gets_no_more_visits(params: SearchParams) -> None:
    graph, board = searched("7k/8/8/8/8/5K2/6R1/8 w - - 0 1", 4000, params)
    with graph:
        before = {key: record for key, (_, record) in check_invariants(graph, board).items()}
        analyze(graph, board, Limits(visits=3000), params)
        closed = 0
        for key, (_, record) in records_below(graph, board).items():
            for k, edge in enumerate(before[key].edges if key in before else ()):
                if edge.proof:
                    closed += 1
                    assert record.edges[k].n == edge.n, "a proven edge was visited"
                    assert record.edges[k].proof == edge.proof or record.edges[k].proof is not None
        assert closed > 20


# ------------------------------------------------------------------ the clock and the path
def test_a_proof_is_not_applied_where_the_clock_would_reach_100_first() -> None:
    late = chess.Board("7k/8/5K2/8/8/8/8/1Q6 w - - 75 80")  # one record with clock 0: its key has no clock
    graph, board = searched("7k/8/5K2/8/8/8/8/1Q6 w - - 0 1", 5000)
    with graph:
        record = read(graph, late)
        assert record == graph.read(board)
        assert record.bounds_at(75) == record.bounds_at(97) == (1, 1)
        assert record.bounds_at(98) == (0, 1)
        assert record.proof_at(98) is None


@pytest.mark.parametrize(
    "fen",
    [
        "8/8/4k3/8/8/4K3/8/R6r w - - 99 80",  # every line is a draw by the clock at once
        "6k1/6p1/8/6Q1/8/8/1p4PP/1r4K1 w - - 20 40",  # White has nothing but perpetual check
    ],
)
def test_no_bound_comes_from_a_repetition_or_the_clock(fen: str) -> None:
    graph, board = searched(fen, 16_000, WAVES)
    with graph:
        drawn = 0
        for position, record in records_below(graph, board).values():
            drawn += sum(edge.r for edge in record.edges)
            proof = record.proof
            if proof and not record.terminal:
                assert proof.result != 0 or any(edge.bounds == (0, 0) for edge in record.edges), (
                    position.fen()
                )
        assert drawn > 20
        root = read(graph, board)
        assert root.bounds == (-1, 1)


# ------------------------------------------------------------------ oracles
def test_what_a_search_proves_agrees_with_the_tables_of_four_men() -> None:
    folder = shared_data("syzygy")
    tables, rng = Syzygy(folder), random.Random(11)
    names = sorted({path.stem for path in folder.glob("*.rtbw")})
    proven = 0
    for name in names:
        graph, board = searched(placed(rng, name).fen(), 800, WAVES)
        with graph:
            for position, record in records_below(graph, board).values():
                fresh = position.copy(stack=False)
                fresh.halfmove_clock = 0
                lower, upper = record.bounds_at(0)
                if (lower, upper) == (-1, 1) or record.terminal:
                    continue
                result = tables.result(fresh)
                if result is not None:
                    proven += 1
                    assert lower <= result <= upper, position.fen()
    assert proven > 100


def test_no_mate_is_claimed_that_an_exhaustive_replay_denies() -> None:
    lines = shared_data("data/mates_500.epd").read_text(encoding="utf-8").splitlines()[::100]
    checked = 0
    for line in lines:
        graph, board = searched(" ".join(line.split()[:4]) + " 0 1", 1500, WAVES)
        with graph:
            claims: list[tuple[chess.Board, NodeRecord]] = list(records_below(graph, board).values())
        for position, record in claims:
            proof = record.proof
            if record.terminal or proof is None or proof.mate is None or proof.mate > 3:
                continue
            position.halfmove_clock = 0
            checked += 1
            wins = proof.result > 0
            assert mates_within(position, proof.mate, attacks=wins) is not None, position.fen()
    assert checked > 20


def test_a_search_takes_the_mates_that_entries_know() -> None:
    board = chess.Board("8/8/8/4k3/8/8/8/KQ6 b - - 0 1")
    after = board.copy()
    table = EntryTable(0)
    for move in list(board.legal_moves):  # every move loses; one of them holds out longest
        after.push(move)
        table.put(after, Entry(MATE - 15, PROOF, "lower", None, "", 0))
        after.pop()
    with Graph.open(None, evaluator=UniformEvaluator()) as graph:
        analyze(graph, board, Limits(visits=3), ONE)
        graph.arena.set_entries(table.arrays)
        result = analyze(graph, board, Limits(visits=200), ONE)
        check_invariants(graph, board)
        assert result.stop_reason == "proven"
        assert result.node.mate == -8
        assert result.node.q == -1.0
        records = [record for _, record in records_below(graph, board).values()]
        assert all(record.evaluator == 0 for record in records if record.v == 1.0)
        late = chess.Board("8/8/8/4k3/8/8/8/KQ6 b - - 85 60")
        assert analyze(graph, late, Limits(visits=50), ONE).node.bounds == (-1, 1)  # 85 + 16 plies: too late


def test_a_mate_behind_a_move_that_sets_the_clock_back_is_proven_late_in_the_clock() -> None:
    board = chess.Board("8/3P4/8/8/8/3K4/3Q4/1k6 w - - 98 1")  # a promotion, then mate
    with Graph.open(None) as graph:
        result = analyze(graph, board, Limits(visits=20_000))
        node = result.node
        assert (result.stop_reason, node.bounds) == ("proven", (1, 1))
        assert node.mate is not None
        assert node.moves[0].mate == node.mate
        assert board.is_zeroing(node.moves[0].move)


def test_a_mate_after_the_hundredth_ply_is_not_proven() -> None:
    graph, board = searched("7k/8/5K2/8/8/8/8/1Q6 w - - 98 80", 5000)
    with graph:
        node = analyze(graph, board, Limits(visits=1)).node
        assert node.mate is None
        assert node.bounds != (1, 1)


def test_nothing_is_claimed_where_the_game_is_drawn_already() -> None:
    graph, board = searched("7k/8/4K3/8/8/8/8/6Q1 w - - 100 80", 300)
    with graph:
        node = analyze(graph, board, Limits(visits=1)).node
        assert (node.mate, node.bounds) == (None, (-1, 1))
        assert {move.mate for move in node.moves} == {None}
