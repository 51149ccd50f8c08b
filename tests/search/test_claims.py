"""Proofs in a game whose positions may return: what stood twice is a draw when it comes again."""

from __future__ import annotations

import chess

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.position.board import history_keys
from graphsearch.position.scores import MATE
from graphsearch.store.record.transposition import Entry, EntryTable
from graphsearch.store.record.transposition_layout import PROOF

ONE = SearchParams(minibatch_size=1)
MATE_IN_TWO = "7k/8/5K2/8/8/8/8/1Q6 w - - 0 1"  # 1. Qg1 Kh7 2. Qg7#, and others


def shuffled(*lines: str) -> chess.Board:
    """Returns the game of some moves from the mate in two."""
    board = chess.Board(MATE_IN_TWO)
    for move in " ".join(lines).split():
        board.push_uci(move)
    return board


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
    game = chess.Board(fen)
    for san in ["Ka3", "Kd4", "Ka2", "Kc3", "Ka3", "Kd4", "Ka2"]:
        game.push_san(san)
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
    game = board.copy()
    for san in ["Kh8", "Qh6+", "Kg8", "Qg5+", "Kh8", "Qh6+", "Kg8", "Qg5+"]:
        game.push_san(san)
    with Graph.open(None, evaluator=UniformEvaluator()) as graph:
        graph.arena.set_entries(table.arrays)
        assert analyze(graph, board, Limits(visits=5), ONE).node.mate == -3
        node = analyze(graph, game, Limits(visits=5), ONE).node
        assert (node.mate, node.bounds) == (None, (-1, 1))
