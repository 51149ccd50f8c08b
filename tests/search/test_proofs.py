"""What is proven: bounds, mates and their length, what may never be a proof, and draws of the path."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from itertools import pairwise
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest
from numba import float32, int64

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.protocol import Evaluation, PositionBatch
from graphsearch.evaluators.tablebase import Syzygy
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.graph import arena_kernel
from graphsearch.graph.view import show
from graphsearch.jit.compiler import kernel
from graphsearch.position.board import CLOCK_SHIFT, META, history_keys
from graphsearch.position.values import MATE
from graphsearch.query.line import pv
from graphsearch.search import waves
from graphsearch.search.results import Progress, SearchResult
from graphsearch.solvers.mate import beside
from graphsearch.solvers.mate.search import SLICE, MateSearch, find_mate
from graphsearch.store import record_kernel as kernels
from graphsearch.store.entries import Entry, EntryTable
from graphsearch.store.record import UNPROVEN, Edge, NodeRecord
from graphsearch.store.record_kernel import AT_LEAST, AT_MOST, DRAWN, bounds_of, proof_of, share_of
from graphsearch.store.transposition_kernel import PROOF
from tests.support.evaluators import TableEntry, TableEvaluator
from tests.support.reference import edge_bounds, edge_code, node_proof

from ..conftest import shared_data
from ..support.graphs import check_invariants, numbers_below, read, records_below
from ..support.positions import after_each_move, after_line, mate_in_one, mates_within, placed, played
from ..support.reference import HashEvaluator

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
        result = analyze(graph, board, Limits(visits=1), searchmoves=board.legal_moves)  # as without a list
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
    graph, board = searched("7k/8/8/8/8/5K2/6R1/8 w - - 0 1", 2000, params)
    with graph:
        before = {key: record for key, (_, record) in check_invariants(graph, board).items()}
        analyze(graph, board, Limits(visits=1500), params)
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
        assert read(graph, board).bounds == (-1, 1)


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
    table = EntryTable(0)
    for after in after_each_move(board):  # every move loses; one of them holds out longest
        table.put(after, Entry(MATE - 15, PROOF, "lower", None, "", 0))
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


@pytest.mark.parametrize(
    ("men", "clock", "lower"), [("5K2/8/8/8/8/1Q6", 98, 0), ("4K3/8/8/8/8/6Q1", 100, -1)]
)
def test_nothing_is_claimed_of_a_mate_after_the_hundredth_ply_or_of_a_drawn_game(
    men: str, clock: int, lower: int
) -> None:
    graph, board = searched(f"7k/8/{men} w - - {clock} 80", 5000)
    with graph:
        node = analyze(graph, board, Limits(visits=1)).node
        assert (node.mate, node.bounds) == (None, (lower, 1))
        assert {move.mate for move in node.moves} == {None}


# ------------------------------------------------------------------ bounds in kernels and by the reference
FIELDS = [(q, d) for q in (1.0, -1.0) for d in (0, 1, 2, 499, 500, 501, 640, 1000)]
FIELDS += [(0.0, DRAWN), (0.25, AT_LEAST), (0.25, AT_LEAST + 9), (-0.5, AT_MOST + 3)]
FIELDS += [(0.0, 0), (-0.3, 700), (0.0, 1000)]


@kernel
def read_field(q: Any, d: Any, clock: Any) -> Any:
    low, high = kernels.bounds_of(q, d)
    return kernels.share_of(q, d), low, high, kernels.is_closed(q, d, clock)


@kernel
def read_edges(valued: Any, q: Any, d: Any, covers: Any, clock: Any, resets: Any) -> Any:
    """Returns the flags that edges give, and the draw field of an edge to their node if it is won or lost."""
    tally = kernels.no_tally()
    for k in range(len(valued)):
        tally = kernels.tallied(tally, valued[k], q[k], d[k])
    flags = kernels.tightened(int64(32), tally, covers)
    won = tally[0] == 1
    mate, plies = kernels.decisive_plies(won, tally, covers, clock, int64(0))
    code = kernels.code_of(mate, plies)
    return flags, kernels.turned(float32(-1.0) if won else float32(1.0), code, resets)


def test_kernels_read_a_draw_field_as_the_reference_does() -> None:
    for q, d in FIELDS:
        proof = proof_of(q, d)
        for clock in (0, 1, 50, 99, 100):
            closed = proof is not None and proof.holds_at(clock)
            assert read_field(np.float32(q), d, clock) == (share_of(q, d), *bounds_of(q, d), closed), (q, d)


def test_kernels_tell_the_same_of_a_node_as_the_reference() -> None:
    rng = random.Random(7)
    for _ in range(1000):
        moves = rng.randint(1, 4)
        edges = [(rng.randint(0, 1), *rng.choice(FIELDS)) for _ in range(rng.randint(1, moves))]
        valued, fields = [edge[0] for edge in edges], [edge[2] for edge in edges]
        values = np.array([edge[1] for edge in edges], np.float32)
        covers, clock, resets = len(edges) == moves, rng.randint(0, 100), rng.random() < 0.5
        flags, code = read_edges(np.array(valued), values, np.array(fields), covers, clock, resets)
        bounds = edge_bounds(edges, moves)
        assert ((flags >> 2 & 3) - 1, (flags >> 4 & 3) - 1) == bounds
        proof = node_proof(bounds, edges, moves, clock)
        assert (bounds[0] == bounds[1]) == (proof is not None)
        words = (0,) * META + (clock << CLOCK_SHIFT, 0)
        its = tuple(Edge(n, 0, q, d) for n, q, d in edges)
        record = NodeRecord(words, 0.0, 0, 1, UNPROVEN, bytes([1] * moves), its)
        assert (record.bounds, record.proof) == (bounds, proof)
        if proof and proof.result:
            assert code == kernels.code_of_proof(proof, resets=resets) == edge_code(proof, resets=resets)


# ------------------------------------------------------------------ what stood twice
MATE_IN_TWO = "7k/8/5K2/8/8/8/8/1Q6 w - - 0 1"  # 1. Qg1 Kh7 2. Qg7#, and others


def shuffled(*lines: str) -> chess.Board:
    return played(MATE_IN_TWO, " ".join(lines).split())


def test_a_win_through_a_position_that_stood_twice_is_no_longer_proven() -> None:
    fresh = chess.Board(MATE_IN_TWO)
    # Qg1 was played twice and taken back: after it the position stood twice already, and is a draw now
    game = shuffled(*["b1g1 h8h7", "g1b1 h7h8"] * 2)
    assert len(history_keys(game)) > 0
    with Graph.open(None, evaluator=UniformEvaluator()) as graph:
        alone = analyze(graph, fresh, Limits(visits=20_000), ONE)
        assert alone.node.mate == 2
        assert next(move for move in alone.node.moves if move.san == "Qg1").mate in (2, None)
        in_game = analyze(graph, game, Limits(visits=3000), ONE)
        assert in_game.bestmove is not None
        game.push(in_game.bestmove)
        assert not game.is_repetition(3)
        assert next(move for move in in_game.node.moves if move.san == "Qg1").mate is None
        again = analyze(graph, fresh, Limits(visits=10), ONE)  # the file's knowledge is what it was
        assert (again.node.mate, again.stop_reason) == (2, "proven")


def test_a_past_that_no_line_of_the_proof_meets_takes_nothing_away() -> None:
    game = shuffled(*["b1b2 h8g8", "b2b1 g8h8"] * 2)  # Qb2+ is no part of the mates in two
    with Graph.open(None, evaluator=UniformEvaluator()) as graph:
        analyze(graph, chess.Board(MATE_IN_TWO), Limits(visits=20_000), ONE)
        game.pop()
        game.pop()
        game.push_uci("b2b3")
        game.push_uci("g8h8")
        assert len(history_keys(game)) > 0
        result = analyze(graph, game, Limits(visits=20_000), ONE)
        assert result.node.mate is not None
        assert result.node.mate > 0


def test_a_proof_known_only_of_the_position_behind_a_move_is_in_doubt_too() -> None:
    fen = "8/8/6q1/8/8/2k5/K7/8 w - - 0 1"
    game = after_line("Ka3 Kd4 Ka2 Kc3 Ka3 Kd4 Ka2", fen)
    with Graph.open(None, evaluator=UniformEvaluator()) as graph:
        analyze(graph, chess.Board(fen), Limits(visits=3000))
        for visits in (1, 20, 200):
            node = analyze(graph, game, Limits(visits=visits)).node
            third = next(move for move in node.moves if move.san == "Kc3")  # the third time: a draw
            assert (third.mate, third.bounds) == (None, (-1, 1))


def test_what_is_known_of_the_root_itself_is_in_doubt_when_no_move_supports_it() -> None:
    board = chess.Board("6k1/8/4K3/6Q1/8/8/8/8 b - - 0 1")
    table = EntryTable(0)
    table.put(board, Entry(6 - MATE, PROOF, "upper", None, "", 0))
    game = after_line("Kh8 Qh6+ Kg8 Qg5+ Kh8 Qh6+ Kg8 Qg5+", board.fen())
    with Graph.open(None, evaluator=UniformEvaluator()) as graph:
        graph.arena.set_entries(table.arrays)
        assert analyze(graph, board, Limits(visits=5), ONE).node.mate == -3
        node = analyze(graph, game, Limits(visits=5), ONE).node
        assert (node.mate, node.bounds) == (None, (-1, 1))


# ------------------------------------------------------------------ draws that belong to the path
class LostForWhite(HashEvaluator):
    """White is lost in every position, and all moves look alike."""

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        answer = super().evaluate(batch)
        white = (batch.words[:, 8] & 1) == 0
        answer.wdl[white] = (0.05, 0.05, 0.9)
        answer.wdl[~white] = (0.9, 0.05, 0.05)
        lengths = np.diff(batch.offsets)
        answer.priors[:] = np.repeat(1 / lengths, lengths)
        return answer


@pytest.mark.parametrize("batch", [1, 16])
def test_a_perpetual_is_worth_about_a_draw(batch: int) -> None:
    # White, two rooks down, checks on e8 and h5 for ever
    board = chess.Board("6k1/6p1/8/7Q/8/8/rr4PP/7K w - - 0 1")
    with Graph.open(None, evaluator=LostForWhite()) as graph:
        result = analyze(graph, board, Limits(visits=2000), SearchParams(minibatch_size=batch))
        check_invariants(graph, board)
        assert graph.arena.counters[arena_kernel.PATH_DRAWS] > 0
    assert result.node.moves[0].san == "Qe8+"
    assert result.node.moves[0].q == pytest.approx(0, abs=0.25)


GAME = "Nf3 Nf6 Ng1 Ng8 Nf3 Nf6 Ng1"  # Ng8 would be the third start position


def test_a_third_occurrence_by_the_game_before_is_a_draw_that_is_not_kept(tmp_path: Path) -> None:
    board = after_line(GAME)
    evaluator = TableEvaluator({}, TableEntry((0.6, 0.2, 0.2), {}))
    path = tmp_path / "a.graph"
    with Graph.open(path, evaluator=evaluator) as graph:
        drawn = analyze(graph, board, Limits(visits=400), ONE)
        assert graph.arena.counters[arena_kernel.HISTORY_DRAWS] > 0
        check_invariants(graph, board)
        kept = read(graph, board)
    third = next(move for move in drawn.node.moves if move.san == "Ng8")
    assert third.n > 0
    assert third.q == 0.0
    assert drawn.visits == 400 > kept.visits
    assert all(edge.r == 0 for edge in kept.edges)
    reread = show(path, board)
    assert reread is not None
    assert reread.visits == kept.visits


def test_saving_in_the_middle_keeps_the_session_of_a_game(tmp_path: Path) -> None:
    board = after_line(GAME)
    with Graph.open(None, evaluator=HashEvaluator()) as graph:
        analyze(graph, board, Limits(visits=50), ONE)
        whole = numbers_below(graph, board)
    with Graph.open(tmp_path / "a.graph", evaluator=HashEvaluator()) as graph:
        seen = []

        def save(_: object) -> None:
            seen.append(graph.flush())

        analyze(graph, board, Limits(visits=50), ONE, on_progress=save, interval=0.0)
        parts = numbers_below(graph, board)
    assert len(seen) > 15
    assert parts == whole


# ------------------------------------------------------------------ mates beside the search
GATHERED_32 = [SearchParams(minibatch_size=32, gather=name) for name in ("flow", "classic", "budget")]
MORPHY = "kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1"  # in two: 1. Ra6
QUEEN = "8/7k/8/8/8/2K5/8/6Q1 w - - 0 1"  # in four
ENDLESS = "8/8/8/3k4/8/8/8/1BN1K3 w - - 0 1"  # bishop and knight: too long for the prover
TWO_ROOKS = "7k/8/8/8/8/8/R7/1R2K3 w - - 0 1"  # in three, and longer by most moves


def with_prover(
    graph: Graph, fen: str, visits: int = 400, params: SearchParams | None = None
) -> SearchResult:
    return analyze(graph, chess.Board(fen), Limits(visits=visits), params, mates=beside.MateFinder)


# ------------------------------------------------------------------ in one
@pytest.mark.parametrize("params", [SearchParams(minibatch_size=1), *GATHERED_32])
def test_a_mate_in_one_is_proven_when_its_position_is_expanded_and_nobody_is_asked(
    params: SearchParams,
) -> None:
    board = chess.Board("r5k1/5ppp/8/8/8/8/r4PPP/1R4K1 w - - 0 1")
    evaluator = HashEvaluator()
    with Graph.open(None, evaluator=evaluator) as graph:
        analyze(graph, board, Limits(visits=400), params)
        found, asked = 0, set(evaluator.asked)
        for position, record in check_invariants(graph, board).values():
            if record.terminal or mate_in_one(position) is None:
                continue
            found += 1
            assert (record.v, record.d, record.evaluator) == (1.0, 1, 0)
            assert record.proof is not None
            assert record.proof.mate == 1
            assert position.epd() not in asked
        assert found > 12


# ------------------------------------------------------------------ the shortest
def random_mates(count: int, moves: tuple[int, ...]) -> list[tuple[str, int]]:
    """Returns random endings with mates in so many moves, negative if suffered, by the prover."""
    rng, found = random.Random(8), list[tuple[str, int]]()
    while len(found) < count:
        board = chess.Board(None)
        men = rng.choice(("KQRk", "KRRkp", "KQBkn", "KQNkr", "KRRkb", "KQPkpp"))
        for square, symbol in zip(rng.sample(range(8, 56), len(men)), men, strict=True):
            board.set_piece_at(square, chess.Piece.from_symbol(symbol))
        board.turn = rng.random() < 0.6
        if not board.is_valid() or board.is_game_over():
            continue
        result = find_mate(board, Limits(visits=3000), moves=max(map(abs, moves)), table_bytes=1 << 20)
        if result.shortest and result.mate in moves:
            found.append((board.fen(), result.mate))
    return found


@pytest.mark.parametrize(
    ("count", "mates", "visits"), [(7, (1, 2, -1, -2), 400), (4, (3, 4, -3), 40_000)], ids=["short", "long"]
)
def test_a_proven_root_plays_the_shortest_mate_and_the_longest_defence(
    count: int, mates: tuple[int, ...], visits: int
) -> None:
    for fen, mate in [(MORPHY, 2), *random_mates(count, mates)]:
        with Graph.open(None, evaluator="builtin") as graph:
            result = with_prover(graph, fen, visits)
            assert result.node.mate == with_prover(graph, fen, visits).node.mate == mate, fen  # again
            best, board = result.node.moves[0], chess.Board(fen)
            if abs(mate) < 3:
                assert len(best.pv) == (2 * mate - 1 if mate > 0 else -2 * mate), fen
            for move in best.pv:
                board.push(move)
            assert board.is_checkmate()
            check_invariants(graph, chess.Board(fen))


def test_a_first_proof_that_is_too_long_is_shortened() -> None:
    board = chess.Board(TWO_ROOKS)
    shortest = find_mate(board)
    assert shortest.mate is not None
    long = [chess.Move.from_uci(text) for text in ("a2a6", "h8g8", "b1b7", "g8f8", "a6a8")]
    with Graph.open(None, evaluator="uniform") as graph:
        beside.learn_line(graph, board, long)
        assert show(graph, board).mate == 3  # type: ignore[union-attr]
        result = with_prover(graph, TWO_ROOKS)
        assert (result.node.mate, result.stop_reason) == (shortest.mate, "proven")


def test_what_was_found_is_in_the_file(tmp_path: Path) -> None:
    path, board = tmp_path / "mates.graph", chess.Board(MORPHY)
    with Graph.open(path, evaluator="uniform") as graph:
        line = with_prover(graph, MORPHY).node.moves[0].pv
    stored = show(path, board)
    assert stored is not None
    assert (stored.mate, stored.moves[0].pv) == (2, line)
    answer = pv(path, board).lines[0]
    assert [ply.step.move for ply in answer.plies] == [*line]
    assert (answer.end, {abs(ply.q) for ply in answer.plies}) == ("checkmate", {1.0})
    with Graph.open(path, evaluator="uniform") as graph:
        again = analyze(graph, board, Limits(visits=400))
    assert (again.new_visits, again.stop_reason, again.bestmove) == (0, "proven", line[0])


@pytest.mark.parametrize("before", [0, 300])
def test_a_mate_in_the_entries_of_a_file_is_played_at_once(tmp_path: Path, before: int) -> None:
    path, board = tmp_path / "proofs.graph", chess.Board(QUEEN)
    with Graph.open(path, evaluator="uniform") as graph:
        if before:
            assert analyze(graph, board, Limits(visits=before)).node.mate is None
        found = find_mate(board, entries=graph.use_entries(1 << 20))
    with Graph.open(path, evaluator="uniform") as graph:
        result = with_prover(graph, QUEEN, 10)
        check_invariants(graph, board)
    assert (result.node.mate, result.bestmove, result.stop_reason) == (4, found.pv[0], "proven")
    assert len(result.node.moves[0].pv) == len(found.pv)


def test_entries_whose_proofs_are_lost_do_not_delay_a_search(tmp_path: Path) -> None:
    path, board = tmp_path / "lost.graph", chess.Board(ENDLESS)
    with Graph.open(path, evaluator="uniform") as graph:
        graph.use_entries(1 << 20).put(board, Entry(MATE - 61, PROOF, "lower", None, "", 0))
    with Graph.open(path, evaluator="uniform") as graph:
        assert with_prover(graph, ENDLESS, 10).new_visits >= 10


# ------------------------------------------------------------------ beside the search
MATE_IN_FIVE = "3R4/8/8/K7/8/NPp5/p2P4/k1B5 w - - 0 1"  # not proven by 40,000 visits alone
MATED_IN_FIVE = "8/8/8/3ppp2/3pkp2/1B1ppp2/3N4/R3K3 b Q - 0 1"  # nor this
DECIDED = "r1bq1rk1/pp2bppp/2n2n2/2pp4/3P4/2NBPN2/PP3PPP/R1B2RK1 w - - 0 9"  # a queen down


class WatchedFinder(beside.MateFinder):
    """A finder that notes (visits of the search, visits of the prover) whenever it is asked."""

    last: WatchedFinder

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.asked: list[tuple[int, int]] = []
        WatchedFinder.last = self

    def beside(self, visits: int, q: float) -> tuple[chess.Move, ...]:
        self.asked.append((visits, self.visits))
        return super().beside(visits, q)


def test_a_search_without_limits_begins_before_the_prover_looks_for_long_mates() -> None:
    stop, reported = threading.Event(), list[tuple[int, int]]()

    def update(progress: Progress) -> None:
        reported.append((progress.new_visits, WatchedFinder.last.visits))
        if progress.new_visits >= 5_000:
            stop.set()

    with Graph.open(None, evaluator="builtin") as graph:
        board = chess.Board(DECIDED)
        analyze(graph, board, on_progress=update, interval=0.0, stop=stop, mates=WatchedFinder)
    visits, settled = WatchedFinder.last.asked[0]
    assert visits > 0
    assert settled <= beside.SETTLING_VISITS
    assert reported[-1][0] >= 5_000
    assert reported[-1][1] < 100_000


@pytest.mark.parametrize("limit", [400, 20_000])
def test_the_prover_takes_no_more_than_its_share_of_the_visits(limit: int) -> None:
    """A small search settles short mates and nothing more."""
    with Graph.open(None, evaluator="builtin") as graph:
        analyze(graph, chess.Board(DECIDED), Limits(visits=limit), mates=WatchedFinder)
    finder = WatchedFinder.last
    settled = finder.asked[0][1]
    for (visits, _), (_, taken) in pairwise(finder.asked):
        share = beside.allowance(visits, share=beside.DECIDED_SHARE, lead=beside.LEAD_VISITS, whole=limit)
        assert taken - settled <= beside.VISIT * share
    assert finder.visits - settled >= beside.VISIT * beside.DECIDED_SHARE * limit - 2 * SLICE
    if limit == 400:
        assert finder.visits == settled > 0


def test_a_stopped_prover_returns_within_a_slice() -> None:
    with Graph.open(None) as graph:
        finder = beside.MateFinder(graph, chess.Board(DECIDED), Limits(), stop := threading.Event())
        finder.before()
        settled = finder.visits
        stop.set()
        assert finder.beside(10**6, -1.0) == ()
        assert finder.after(-9) == ()
        assert finder.visits - settled <= 2 * SLICE


@pytest.mark.parametrize("params", [SearchParams(minibatch_size=1), SearchParams(), *GATHERED_32[1:2]])
@pytest.mark.parametrize(("fen", "mate"), [(MATE_IN_FIVE, 5), (MATED_IN_FIVE, -5)])
def test_a_mate_found_between_two_waves_ends_the_search(fen: str, mate: int, params: SearchParams) -> None:
    with Graph.open(None, evaluator="builtin") as graph:
        result = with_prover(graph, fen, 60_000, params)
        assert (result.stop_reason, result.node.mate) == ("proven", mate)
        assert 0 < result.new_visits < 30_000
        check_invariants(graph, chess.Board(fen))


@pytest.mark.parametrize("batch", [1, 256])
def test_a_search_of_limited_visits_beside_the_prover_is_repeatable(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for seconds in (1e-6, 0.03, 10.0):  # how often the loop looks up is a matter of the clock
        monkeypatch.setattr(waves, "SLICE_SECONDS", seconds)
        with Graph.open(None, evaluator="builtin") as graph:
            result = with_prover(graph, MATED_IN_FIVE, 40_000, SearchParams(minibatch_size=batch))
            found.append((result.new_visits, result.evaluations, result.nodes, result.node))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("fen", [chess.STARTING_FEN, "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1"])
def test_a_search_frees_the_memory_of_its_prover_at_once(fen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    provers: list[weakref.ref[MateSearch]] = []
    begin = MateSearch.__init__

    def noted(search: MateSearch, *given: Any, **named: Any) -> None:
        begin(search, *given, **named)
        provers.append(weakref.ref(search))

    monkeypatch.setattr(MateSearch, "__init__", noted)
    gc.collect()
    gc.disable()
    try:
        with Graph.open(None) as graph:
            analyze(graph, chess.Board(fen), Limits(visits=60), mates=beside.MateFinder)
            assert provers
            assert not any(prover() for prover in provers)
    finally:
        gc.enable()
