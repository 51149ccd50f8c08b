"""Mates beside the search: in one at every expansion, in two at every root, none longer than need be."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from itertools import pairwise
from pathlib import Path
from typing import Any

import chess
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze, show
from graphsearch.position.values import MATE
from graphsearch.query.line import CHECKMATE, pv
from graphsearch.search import waves
from graphsearch.search.results import Progress, SearchResult
from graphsearch.solvers.mate.beside import (
    DECIDED_SHARE,
    LEAD_VISITS,
    SETTLING_VISITS,
    VISIT,
    MateFinder,
    allowance,
    learn_line,
)
from graphsearch.solvers.mate.search import SLICE, MateSearch, find_mate
from graphsearch.store.entries import Entry
from graphsearch.store.transposition_kernel import PROOF
from tests.support.positions import mate_in_one

from ..support.graphs import check_invariants
from ..support.reference import HashEvaluator

GATHERED = [SearchParams(minibatch_size=32, gather=name) for name in ("flow", "classic", "budget")]
BACK_RANK = "6k1/5ppp/8/8/8/8/r4PPP/3R2K1 w - - 0 1"
MORPHY = "kbK5/pp6/1P6/8/8/8/8/R7 w - - 0 1"  # in two: 1. Ra6
QUEEN = "8/7k/8/8/8/2K5/8/6Q1 w - - 0 1"  # in four
ENDLESS = "8/8/8/3k4/8/8/8/1BN1K3 w - - 0 1"  # bishop and knight: too long for the prover
TWO_ROOKS = "7k/8/8/8/8/8/R7/1R2K3 w - - 0 1"  # in three, and longer by most moves


def searched(graph: Graph, fen: str, visits: int = 400, params: SearchParams | None = None) -> SearchResult:
    return analyze(graph, chess.Board(fen), Limits(visits=visits), params, mates=MateFinder)


# ------------------------------------------------------------------ in one
@pytest.mark.parametrize("params", [SearchParams(minibatch_size=1), *GATHERED])
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
            result = searched(graph, fen, visits)
            assert result.node.mate == mate, fen
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
        learn_line(graph, board, long)
        assert show(graph, board).mate == 3  # type: ignore[union-attr]
        result = searched(graph, TWO_ROOKS)
        assert (result.node.mate, result.stop_reason) == (shortest.mate, "proven")


def test_what_was_found_is_in_the_file(tmp_path: Path) -> None:
    path, board = tmp_path / "mates.graph", chess.Board(MORPHY)
    with Graph.open(path, evaluator="uniform") as graph:
        line = searched(graph, MORPHY).node.moves[0].pv
    stored = show(path, board)
    assert stored is not None
    assert (stored.mate, stored.moves[0].pv) == (2, line)
    answer = pv(path, board).lines[0]
    assert [ply.step.move for ply in answer.plies] == [*line]
    assert (answer.end, {abs(ply.q) for ply in answer.plies}) == (CHECKMATE, {1.0})
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
        result = searched(graph, QUEEN, 10)
        check_invariants(graph, board)
    assert (result.node.mate, result.bestmove, result.stop_reason) == (4, found.pv[0], "proven")
    assert len(result.node.moves[0].pv) == len(found.pv)


def test_entries_whose_proofs_are_lost_do_not_delay_a_search(tmp_path: Path) -> None:
    path, board = tmp_path / "lost.graph", chess.Board(ENDLESS)
    with Graph.open(path, evaluator="uniform") as graph:
        graph.use_entries(1 << 20).put(board, Entry(MATE - 61, PROOF, "lower", None, "", 0))
    with Graph.open(path, evaluator="uniform") as graph:
        assert searched(graph, ENDLESS, 10).new_visits >= 10


# ------------------------------------------------------------------ beside the search
MATE_IN_FIVE = "3R4/8/8/K7/8/NPp5/p2P4/k1B5 w - - 0 1"  # not proven by 40,000 visits alone
MATED_IN_FIVE = "8/8/8/3ppp2/3pkp2/1B1ppp2/3N4/R3K3 b Q - 0 1"  # nor this
DECIDED = "r1bq1rk1/pp2bppp/2n2n2/2pp4/3P4/2NBPN2/PP3PPP/R1B2RK1 w - - 0 9"  # a queen down


class WatchedFinder(MateFinder):
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
    assert settled <= SETTLING_VISITS
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
        share = allowance(visits, share=DECIDED_SHARE, lead=LEAD_VISITS, whole=limit)
        assert taken - settled <= VISIT * share
    assert finder.visits - settled >= VISIT * DECIDED_SHARE * limit - 2 * SLICE
    if limit == 400:
        assert finder.visits == settled > 0


def test_a_stopped_prover_returns_within_a_slice() -> None:
    with Graph.open(None) as graph:
        finder = MateFinder(graph, chess.Board(DECIDED), Limits(), stop := threading.Event())
        finder.before()
        settled = finder.visits
        stop.set()
        assert finder.beside(10**6, -1.0) == ()
        assert finder.after(-9) == ()
        assert finder.visits - settled <= 2 * SLICE


@pytest.mark.parametrize("params", [SearchParams(minibatch_size=1), SearchParams(), *GATHERED[1:2]])
@pytest.mark.parametrize(("fen", "mate"), [(MATE_IN_FIVE, 5), (MATED_IN_FIVE, -5)])
def test_a_mate_found_between_two_waves_ends_the_search(fen: str, mate: int, params: SearchParams) -> None:
    with Graph.open(None, evaluator="builtin") as graph:
        result = searched(graph, fen, 60_000, params)
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
            result = searched(graph, MATED_IN_FIVE, 40_000, SearchParams(minibatch_size=batch))
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
            analyze(graph, chess.Board(fen), Limits(visits=60), mates=MateFinder)
            assert provers
            assert not any(prover() for prover in provers)
    finally:
        gc.enable()
