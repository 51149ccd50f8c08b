"""What is proven: bounds through edges, mates and their length, and what may never be a proof."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest
from numba import float32, int64

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.tablebase import Syzygy, TablebaseEvaluator
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.graph.sweeps.refresh import refresh
from graphsearch.jit.compiler import kernel
from graphsearch.position.board import legal_moves
from graphsearch.position.scores import MATE
from graphsearch.store.record import bounds_kernel as kernels
from graphsearch.store.record.bounds import (
    AT_LEAST,
    AT_MOST,
    DRAWN,
    MOST_CODE,
    Bounds,
    Proof,
    bounds_of,
    edge_bounds,
    edge_code,
    node_proof,
    proof_of,
    share_of,
)
from graphsearch.store.record.node import NodeRecord
from graphsearch.store.record.transposition import Entry, EntryTable
from graphsearch.store.record.transposition_layout import PROOF

from ..conftest import SHARED, shared_data
from ..support.graphs import check_invariants, numbers_below, records_below

Order = Callable[[], list[tuple[int, int]]]
State = tuple[Bounds, Proof | None]

ONE, WAVES = SearchParams(minibatch_size=1), SearchParams(minibatch_size=32)
FOUR_MEN = (
    "KQvK KRvK KPvK KBvK KNvK KBNvK KPPvK KQPvK KQQvK KRPvK KRRvK KQvKP KQvKQ KQvKR KRvKB KRvKN KRvKP KRvKR"
    " KPvKP"
)
GATHERED = [SearchParams(minibatch_size=16, gather=name) for name in ("classic", "budget", "exclude")]


def searched(fen: str, visits: int = 3000, params: SearchParams = ONE) -> tuple[Graph, chess.Board]:
    board = chess.Board(fen)
    graph = Graph.open(None, evaluator=UniformEvaluator())
    analyze(graph, board, Limits(visits=visits), params)
    return graph, board


# ------------------------------------------------------------------ the numbers
FIELDS = [(q, d) for q in (1.0, -1.0) for d in (0, 1, 2, 499, 500, 501, 640, 1000)]
FIELDS += [(0.0, DRAWN), (0.25, AT_LEAST), (0.25, AT_LEAST + 9), (-0.5, AT_MOST + 3)]
FIELDS += [(0.0, 0), (-0.3, 700), (0.0, 1000)]


@kernel
def read_field(q: Any, d: Any, clock: Any) -> Any:
    return kernels.share_of(q, d), kernels.bounds_of(q, d), kernels.is_closed(q, d, clock)


@kernel
def read_edges(valued: Any, q: Any, d: Any, covers: Any, clock: Any, resets: Any) -> Any:
    """Returns the flags that edges give, and the draw field of an edge to their node if it is won or lost."""
    tally = kernels.no_tally()
    for k in range(len(valued)):
        tally = kernels.tallied(tally, valued[k], q[k], d[k])
    flags = kernels.tightened(int64(32), tally, covers)
    won = tally[0] == 1
    code = kernels.decisive_code(won, tally, covers, clock, int64(0))
    return flags, kernels.turned(float32(-1.0) if won else float32(1.0), code, resets)


@pytest.mark.parametrize(("q", "d"), FIELDS)
def test_kernels_read_a_draw_field_as_the_reference_does(q: float, d: int) -> None:
    proof = proof_of(q, d)
    for clock in (0, 1, 50, 99, 100):
        closed = proof is not None and proof.holds_at(clock)
        assert read_field(np.float32(q), d, clock) == (share_of(q, d), bounds_of(q, d), closed)


def test_kernels_tell_the_same_of_a_node_as_the_reference() -> None:
    rng = random.Random(7)
    for _ in range(2000):
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
        if proof and proof.result:
            assert code == edge_code(proof, resets=resets)


def test_every_draw_field_is_one_of_its_kinds() -> None:
    for d in range(MOST_CODE + 1):
        q = 0.0 if d >= DRAWN else 1.0
        lower, upper = bounds_of(q, d)
        assert -1 <= lower <= q <= upper <= 1 or d == 0
        assert 0 <= share_of(0.0, d) <= 1000


# ------------------------------------------------------------------ order
def random_dag(rng: random.Random, size: int) -> tuple[list[list[int]], list[Bounds]]:
    """Returns the children of every node, and the bounds that the rules give it; later nodes lie deeper."""
    children = [
        sorted(rng.sample(range(i + 1, size), min(rng.randint(1, 3), size - 1 - i))) for i in range(size)
    ]
    rules: list[Bounds] = [(-1, 1)] * size
    for i, below in enumerate(children):
        if not below or rng.random() < 0.15:
            children[i], rules[i] = [], rng.choice([(-1, -1), (0, 0), (0, 0), (-1, 1)])
    return children, rules


def settled_by(order: Order, children: list[list[int]], rules: list[Bounds]) -> list[State]:
    """Returns what is known of every node after edges took it in some order till all is quiet."""
    fields = [[(1, 0.0, 0)] * len(below) for below in children]
    state: list[State] = [
        (rule, None if rule == (-1, 1) else Proof(rule[0], 0 if rule[0] else None, 0)) for rule in rules
    ]
    moved = True
    while moved:
        moved = False
        for i, k in order():
            (low, high), proof = state[children[i][k]]
            if proof:
                new = (1, float(-proof.result), edge_code(proof, resets=False))
            elif high == 0:
                new = (1, 0.0, AT_LEAST)
            else:
                new = (1, 0.0, AT_MOST) if low == 0 else fields[i][k]
            if new != fields[i][k]:
                fields[i][k] = new
                moved = True
            bounds = edge_bounds(fields[i], len(children[i]))
            before = state[i][0]
            assert bounds[0] >= before[0]
            assert bounds[1] <= before[1], "bounds only tighten"
            state[i] = (bounds, node_proof(bounds, fields[i], len(children[i]), 0))
    return state


@pytest.mark.parametrize("seed", range(25))
def test_bounds_and_lengths_are_the_same_in_any_update_order(seed: int) -> None:
    rng = random.Random(seed)
    children, rules = random_dag(rng, 40)
    pairs = [(i, k) for i, below in enumerate(children) for k in range(len(below))]
    deepest_first = settled_by(lambda: pairs[::-1], children, rules)
    shuffled = settled_by(lambda: rng.sample(pairs, len(pairs)), children, rules)
    assert shuffled == deepest_first == settled_by(lambda: pairs, children, rules)


def test_bounds_stay_the_same_whatever_the_memory_holds(tmp_path: Path) -> None:
    board = chess.Board("8/8/8/8/8/2k5/1r6/K7 b - - 0 1")
    params = SearchParams(minibatch_size=16)
    graphs = []
    for name, ram in (("wide", None), ("narrow", 6_000_000)):
        with Graph.open(tmp_path / name, evaluator=UniformEvaluator(), ram_bytes=ram) as graph:
            analyze(graph, board, Limits(visits=30_000), params)
            graphs.append(numbers_below(graph, board))
    assert graphs[0] == graphs[1]


# ------------------------------------------------------------------ mates
@pytest.mark.parametrize(
    ("fen", "mate", "line"),
    [
        ("6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1", 1, "Rd8#"),
        ("7k/8/5K2/8/8/8/8/1Q6 w - - 0 1", 2, None),
        ("kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1", 2, "Ra6"),  # 1. Ra6 bxa6 2. b7#
        ("8/8/8/8/8/1k6/8/K6r w - - 0 1", 0, None),
        ("7k/5K2/8/6Q1/8/8/8/8 b - - 0 1", -1, "Kh7"),
    ],
)
def test_a_mate_is_proven_with_its_length_and_a_legal_line(fen: str, mate: int, line: str | None) -> None:
    graph, board = searched(fen, 60_000)
    with graph:
        result = analyze(graph, board, Limits(visits=1))
        node = result.node
        if not node.moves:
            assert board.is_checkmate()
            return
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


@pytest.mark.parametrize("params", [ONE, WAVES, *GATHERED])
def test_what_is_proven_gets_no_more_visits(params: SearchParams) -> None:
    graph, board = searched("7k/8/8/8/8/5K2/6R1/8 w - - 0 1", 4000, params)
    with graph:
        before = {key: record for key, (_, record) in records_below(graph, board).items()}
        check_invariants(graph, board)
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
@pytest.mark.parametrize(
    ("fen", "mate"),
    [
        ("6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 99 80", 1),  # mates on the 100th ply
        ("7k/8/5K2/8/8/8/8/1Q6 w - - 97 80", 2),  # on the 100th
        ("7k/8/5K2/8/8/8/8/1Q6 w - - 98 80", None),  # would mate on the 101st
    ],
)
def test_a_mate_counts_on_the_hundredth_ply_and_not_later(fen: str, mate: int | None) -> None:
    graph, board = searched(fen, 5000)
    with graph:
        node = analyze(graph, board, Limits(visits=1)).node
        assert node.mate == mate
        assert (node.bounds == (1, 1)) == (mate is not None)


def test_a_proof_is_not_applied_where_the_clock_would_reach_100_first() -> None:
    late = chess.Board("7k/8/5K2/8/8/8/8/1Q6 w - - 75 80")  # one record with clock 0: its key has no clock
    graph, board = searched("7k/8/5K2/8/8/8/8/1Q6 w - - 0 1", 5000)
    with graph:
        record = graph.read(late)
        assert record is not None
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
    graph, board = searched(fen, 20_000, WAVES)
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
        root = graph.read(board)
        assert root is not None
        assert root.bounds == (-1, 1)


# ------------------------------------------------------------------ oracles
def syzygy() -> Path:
    """Returns the folder of tables; skips the test where there is none."""
    folder = SHARED / "syzygy"
    if not folder.is_dir():
        pytest.skip("needs the Syzygy tables, which are not part of the repository")
    return folder


def random_position(material: str, rng: random.Random) -> chess.Board:
    """Returns a legal position with these men, castling and en passant impossible."""
    while True:
        board = chess.Board(None)
        squares = rng.sample(range(64), len(material) - 1)
        colour = chess.WHITE
        for letter in material:
            if letter == "v":
                colour = chess.BLACK
            else:
                board.set_piece_at(
                    squares.pop(), chess.Piece(chess.PIECE_SYMBOLS.index(letter.lower()), colour)
                )
        board.turn = rng.random() < 0.5
        if board.is_valid():
            return board


def test_what_a_search_proves_agrees_with_the_tables_of_four_men() -> None:
    folder = syzygy()
    tables, rng = Syzygy(folder), random.Random(11)
    names = sorted({path.stem for path in folder.glob("*.rtbw")})
    assert set(names) >= set(FOUR_MEN.split())
    proven = 0
    for name in names:
        for _ in range(2):
            graph, board = searched(random_position(name, rng).fen(), 800, WAVES)
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


def test_tables_and_search_prove_together_and_say_when_the_mate_is_unknown() -> None:
    tables = TablebaseEvaluator(UniformEvaluator(), Syzygy(syzygy()))
    board = chess.Board("8/8/8/8/3k4/8/2ppK3/7Q w - - 0 1")
    with Graph.open(None, evaluator=tables) as graph:
        analyze(graph, board, Limits(visits=400), ONE)
        records = [record for _, record in records_below(graph, board).values()]
        found = [record.proof for record in records if record.proof and record.proof.mate is None]
        assert any(proof.result for proof in found)
        for proof in found:
            assert proof.moves is None


def mated_within(board: chess.Board, plies: int) -> bool:
    """Returns whether the side to move is mated in at most so many plies, by trying everything."""
    if board.is_checkmate():
        return True
    if plies < 2 or not any(board.legal_moves):
        return False
    for move in list(board.legal_moves):
        board.push(move)
        lost = mates_within(board, plies - 1)
        board.pop()
        if not lost:
            return False
    return True


def mates_within(board: chess.Board, plies: int) -> bool:
    """Returns whether the side to move mates in at most so many plies, by trying everything."""
    for move in list(board.legal_moves):
        board.push(move)
        wins = mated_within(board, plies - 1)
        board.pop()
        if wins:
            return True
    return False


def test_no_mate_is_claimed_that_an_exhaustive_replay_denies() -> None:
    lines = shared_data("data/mates_500.epd").read_text(encoding="utf-8").splitlines()[::50]
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
            within = mates_within if wins else mated_within
            assert within(position, proof.mate), position.fen()
    assert checked > 20


def test_an_edge_of_an_older_file_becomes_a_proof_when_it_is_refreshed(tmp_path: Path) -> None:
    path, board = tmp_path / "old.graph", chess.Board("6k1/5ppp/8/8/8/8/r4PPP/3R2K1 w - - 0 1")
    with Graph.open(path, evaluator=UniformEvaluator()) as graph:
        analyze(graph, board, Limits(visits=200), WAVES)
        records = {key: record for key, (_, record) in records_below(graph, board).items()}
    refresh(path)
    with Graph.open(path, evaluator=UniformEvaluator()) as graph:
        for key, (_, record) in records_below(graph, board).items():
            lower, upper = records[key].bounds
            assert lower <= record.bounds[0] <= record.bounds[1] <= upper
        node = analyze(graph, board, Limits(visits=1)).node
    assert node.mate == 1
    assert [move for move in legal_moves(board) if move == node.moves[0].move]


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


@pytest.mark.parametrize(("value", "bound"), [(MATE - 15, "upper"), (15 - MATE, "lower"), (900, "exact")])
def test_an_entry_that_proves_no_mate_changes_nothing(value: int, bound: str) -> None:
    board = chess.Board("8/8/8/4k3/8/8/8/KQ6 b - - 0 1")
    found = []
    for entry in (None, Entry(value, PROOF, bound, None, "", 0)):
        table = EntryTable(0)
        for move in list(board.legal_moves):
            board.push(move)
            if entry:
                table.put(board, entry)
            board.pop()
        with Graph.open(None, evaluator=UniformEvaluator()) as graph:
            graph.arena.set_entries(table.arrays)
            analyze(graph, board, Limits(visits=100), ONE)
            found.append(numbers_below(graph, board))
    assert found[0] == found[1]


def test_a_mate_behind_a_move_that_sets_the_clock_back_is_proven_late_in_the_clock() -> None:
    board = chess.Board("8/3P4/8/8/8/3K4/3Q4/1k6 w - - 98 1")  # a promotion, then mate
    with Graph.open(None) as graph:
        result = analyze(graph, board, Limits(visits=20_000))
        node = result.node
        assert (result.stop_reason, node.bounds) == ("proven", (1, 1))
        assert node.mate is not None
        assert node.moves[0].mate == node.mate
        assert board.is_zeroing(node.moves[0].move)


def test_nothing_is_claimed_where_the_game_is_drawn_already() -> None:
    graph, board = searched("7k/8/5K2/8/8/8/8/6Q1 w - - 100 80", 300)
    with graph:
        node = analyze(graph, board, Limits(visits=1)).node
        assert (node.mate, node.bounds) == (None, (-1, 1))
        assert {move.mate for move in node.moves} == {None}


def test_a_known_mate_that_comes_too_late_is_not_taken() -> None:
    board = chess.Board("8/8/8/8/4k3/8/8/KR6 w - - 75 60")
    table = EntryTable(0)
    table.put(board, Entry(MATE - 29, PROOF, "exact", None, "", 0))
    with Graph.open(None, evaluator=UniformEvaluator()) as graph:
        graph.arena.set_entries(table.arrays)
        assert abs(analyze(graph, board, Limits(visits=50), ONE).node.q) < 1
        board.halfmove_clock = 71
        assert analyze(graph, board, Limits(visits=1), ONE).node.bounds == (1, 1)
