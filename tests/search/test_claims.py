"""Draws of the path and of the game: what stood twice is a draw when it comes again, also in a proof."""

from __future__ import annotations

from pathlib import Path

import chess
import numpy as np
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.protocol import Evaluation, PositionBatch
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.graph import arena_kernel
from graphsearch.graph.view import show
from graphsearch.position.board import history_keys
from graphsearch.position.values import MATE
from graphsearch.store.entries import Entry, EntryTable
from graphsearch.store.transposition_kernel import PROOF
from tests.support.evaluators import TableEntry, TableEvaluator

from ..support.graphs import check_invariants, numbers_below, read
from ..support.positions import after_line, played
from ..support.reference import HashEvaluator

ONE = SearchParams(minibatch_size=1)
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
        first = next(move for move in alone.node.moves if move.san == "Qg1")
        assert first.mate in (2, None)
        in_game = analyze(graph, game, Limits(visits=3000), ONE)
        assert in_game.bestmove is not None
        game.push(in_game.bestmove)
        assert not game.is_repetition(3)
        spoilt = next(move for move in in_game.node.moves if move.san == "Qg1")
        assert spoilt.mate is None
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
