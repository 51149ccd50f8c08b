"""Fits and tests the chances of `query.brief`: `python -m tests.bench.certainty OPENINGS.pgn --count 1000`.

Searches positions of games that begin as one of the file and go on in the graph; prints the coefficients of
half of the games, and ten bins of predicted and seen on the others.
"""

from __future__ import annotations

import argparse
import io
import random
from collections.abc import Iterator
from math import log
from pathlib import Path

import chess
import chess.pgn
import numpy as np

from graphsearch import Graph, Limits, NodeView, analyze
from graphsearch.graph.view import view
from graphsearch.query.brief import LEAST_P

SIZES = (100, 200, 500, 1000, 2000, 5000, 10_000)
PLIES, POSITIONS = (3, 12), 16  # between two positions of a game, and positions of it


def searches(text: str, generator: random.Random) -> Iterator[tuple[int, list[NodeView]]]:
    """Yields the views of one search after the other at `SIZES`, each with the number of its game."""
    handle, starts = io.StringIO(text), [0]
    while chess.pgn.skip_game(handle):
        starts.append(handle.tell())
    while True:
        at = generator.choice(starts[:-1])
        game = chess.pgn.read_game(io.StringIO(text[at:]))
        assert game is not None
        board = game.end().board().copy(stack=False)
        for _ in range(POSITIONS):
            if board.is_game_over():
                break
            with Graph.open(None) as graph:
                found, before = [], 0
                for size in SIZES:
                    found.append(analyze(graph, board, Limits(visits=size - before), lines=0).node)
                    before = size
                yield at, found
                for _ in range(generator.randint(*PLIES)):
                    node = view(graph.read, board, lines=0)
                    moves = [move for move in node.moves if move.n] if node else []
                    if not moves:
                        break
                    board.push(generator.choices([m.move for m in moves], [m.n**0.8 for m in moves])[0])


def pairs_of(found: list[NodeView]) -> Iterator[tuple[np.ndarray, int | None]]:
    """Yields the features of the moves of each search, and which of them ten times the visits choose."""
    later = {node.visits: node for node in found}
    for node in found:
        then = later.get(10 * node.visits)
        moves = [move for move in node.moves if move.n and move.bounds != (-1, -1)]
        if then is None or not moves or node.bounds[0] == node.bounds[1]:
            continue
        first = moves[0]
        rows = [
            (m is first, log(m.n / first.n), log(max(m.p, LEAST_P)), ((m.q or 0) - (first.q or 0)) * log(m.n))
            for m in moves
        ]
        chosen = [k for k, move in enumerate(moves) if move.move == then.moves[0].move]
        yield np.array(rows, float), chosen[0] if chosen else None


def shares(weights: np.ndarray, rows: np.ndarray) -> np.ndarray:
    score = np.exp(rows @ weights)
    chances: np.ndarray = score / score.sum()
    return chances


def fitted(pairs: list[tuple[np.ndarray, int | None]]) -> np.ndarray:
    """Returns the most likely coefficients, by Newton's method."""
    weights = np.zeros(4)
    for _ in range(30):
        slope, curve = np.zeros(4), np.eye(4) * 1e-3
        for rows, chosen in pairs:
            if chosen is not None:
                share = shares(weights, rows)
                slope += share @ rows - rows[chosen]
                curve += (rows * share[:, None]).T @ rows - np.outer(share @ rows, share @ rows)
        weights -= np.linalg.solve(curve, slope)
    return weights


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("openings", type=Path)
    parser.add_argument("--count", type=int, default=1000)
    given = parser.parse_args()
    halves: tuple[list[tuple[np.ndarray, int | None]], ...] = ([], [])
    text = given.openings.read_text("utf-8-sig", "replace")
    for _, (at, found) in zip(range(given.count), searches(text, random.Random(1)), strict=False):
        halves[at % 2].extend(pairs_of(found))
    weights = fitted(halves[0])
    seen = sorted((float(shares(weights, rows)[0]), chosen == 0) for rows, chosen in halves[1])
    print("coefficients", weights.round(2), "pairs", *map(len, halves))  # noqa: T201
    for part in np.array_split(np.array(seen, float), 10):
        print("predicted {:.2f} seen {:.2f} of {}".format(*part.mean(0), len(part)))  # noqa: T201
