"""The share of won positions that a search wins against an engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import chess
import chess.engine

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.factory import create
from tools.play_games import outcome_of

from .harness import Row, benchmark
from .positions import read_reference
from .searching import MOST_VISITS, Variant

MOST_PLIES = 240  # of a game; a longer one counts as drawn


@benchmark("variant", across="variant", compare=("points", "won"), positions=True)
def conversion(
    *,
    reference: Path,
    variant: tuple[str, ...] = ("builtin",),
    evaluations: int = 5_000,
    program: str = "stockfish",
    nodes: int = 5_000,
    positions: int = 60,
    least: float = 0.9,
) -> Iterator[Row]:
    """How many won positions a search wins against an engine.

    Every variant plays on from the positions of --reference whose win - loss is --least, for the side that is
    to move. It searches --evaluations for a move, in one graph for the game; the engine searches --nodes.

    points, won: of a game. plies: to its end.
    """
    cases = [case for case in read_reference(reference) if case.q is not None and case.q >= least]
    limit = chess.engine.Limit(nodes=nodes)
    with chess.engine.SimpleEngine.popen_uci(program) as engine:
        for case in cases[:positions]:
            for text in variant:
                game = play_on(case.board.copy(), Variant.parse(text), evaluations, engine, limit)
                outcome = outcome_of(game)
                winner = outcome.winner if outcome else None
                points = 0.5 if winner is None else float(winner == case.board.turn)
                won, plies = float(points == 1), len(game.move_stack)
                yield {"variant": text, "points": points, "won": won, "plies": plies}


def play_on(
    board: chess.Board,
    variant: Variant,
    evaluations: int,
    engine: chess.engine.SimpleEngine,
    limit: chess.engine.Limit,
) -> chess.Board:
    """Plays a game, a variant for the side to move against the engine; returns the final board."""
    ours, params = board.turn, SearchParams.from_options(variant.params)
    limits = Limits(evaluations=evaluations, visits=MOST_VISITS * evaluations)
    with Graph.open(None, evaluator=create(variant.spec)) as graph:
        while outcome_of(board) is None and len(board.move_stack) < MOST_PLIES:
            if board.turn == ours:
                move = analyze(graph, board, limits, params).bestmove
            else:
                move = engine.play(board, limit).move
            assert move is not None, "the game is not over"
            board.push(move)
    return board
