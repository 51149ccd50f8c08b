"""Writes positions of games with an engine's judgement, as JSON lines: the reference of searches.

    python -m tools.judge_positions --openings lines.pgn --count 1000 --seed 1 --out reference.jsonl

A game begins after the moves of a random game of the file. The engine plays it, drawing among its four best
moves by what they give away. Every 6 to 11 plies a position is judged. One line is

    {"fen": ..., "wdl": [w, d, l], "cp" or "mate": N, "bestmove": UCI,
     "moves_depth10": {UCI: {"cp" or "mate": N}, ...}, "game": ...}

seen by the side to move: `wdl` (per mille), score and `bestmove` by `--nodes`, the scores of all moves by
`--depth`. Lines are written one by one, so a file can be read while it grows. Run again, the command appends
what is missing. One core judges some 40 positions a minute; several seeds write several files.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import chess
import chess.engine
import chess.pgn

PLAY_NODES, PLAYED = 2000, 4  # of a move of a game; moves that it is drawn from
DRAWN_SCALE = 0.08  # expected result: a move that gives away so much is played 1 / e times as often
LEAST_GAP, MOST_GAP = 6, 11  # plies between two judged positions
GAME_PLIES, MOST_DECIDED = 130, 3  # of a game; a decided game ends after so many positions
LEAST_MOVES, LEAST_PIECES = 4, 5  # of a judged position
OPEN = 0.9  # |win - loss| of a position that is not decided
ALL_MOVES = 500


def read_openings(path: Path) -> list[chess.Board]:
    """Returns the last positions of the games of a PGN file, with their moves."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        games = iter(lambda: chess.pgn.read_game(file), None)
        return [game.end().board() for game in games if game]


def score_of(score: chess.engine.Score) -> dict[str, Any]:
    """Returns a score as it is written.

    >>> score_of(chess.engine.Cp(31)), score_of(chess.engine.Mate(-2))
    ({'cp': 31}, {'mate': -2})
    >>> score_of(chess.engine.MateGiven)
    {'mate': 0}
    """
    return {"mate": score.mate()} if score.is_mate() else {"cp": score.score()}


def judged(engine: chess.engine.SimpleEngine, board: chess.Board, nodes: int, depth: int) -> dict[str, Any]:
    """Returns the judgement of a position, without the name of its game."""
    best = engine.analyse(board, chess.engine.Limit(nodes=nodes), game=object())
    moves = engine.analyse(board, chess.engine.Limit(depth=depth), multipv=ALL_MOVES, game=object())
    wdl = best["wdl"].relative
    return {
        "fen": board.fen(),
        **score_of(best["score"].relative),
        "wdl": [wdl.wins, wdl.draws, wdl.losses],
        "bestmove": best["pv"][0].uci(),
        "moves_depth10": {move["pv"][0].uci(): score_of(move["score"].relative) for move in moves},
    }


def play(engine: chess.engine.SimpleEngine, board: chess.Board, rng: random.Random) -> Iterator[float]:
    """Plays a game on the board, and yields the best expected result before each of its moves."""
    for _ in range(GAME_PLIES):
        if board.is_game_over(claim_draw=True):
            return
        found = engine.analyse(board, chess.engine.Limit(nodes=PLAY_NODES), multipv=PLAYED, game=board)
        values = [2 * one["wdl"].relative.expectation() - 1 for one in found]  # win - loss
        yield values[0]
        weights = [math.exp((value - values[0]) / DRAWN_SCALE) for value in values]
        board.push(rng.choices([one["pv"][0] for one in found], weights)[0])


def judge_game(
    engine: chess.engine.SimpleEngine, board: chess.Board, rng: random.Random, nodes: int, depth: int
) -> Iterator[dict[str, Any]]:
    """Yields judged positions of one game that begins at the board."""
    gap, decided = rng.randint(1, LEAST_GAP), 0
    for value in play(engine, board, rng):
        gap -= 1
        pieces = chess.popcount(board.occupied)
        if gap > 0 or board.legal_moves.count() < LEAST_MOVES or pieces < LEAST_PIECES:
            continue
        yield judged(engine, board.copy(stack=False), nodes, depth)
        gap, decided = rng.randint(LEAST_GAP, MOST_GAP), decided + (abs(value) >= OPEN)
        if decided == MOST_DECIDED:
            return


def rows(
    engine: chess.engine.SimpleEngine,
    openings: Sequence[chess.Board],
    rng: random.Random,
    nodes: int,
    depth: int,
) -> Iterator[dict[str, Any]]:
    """Yields judged positions of one game after the other."""
    while True:
        number = rng.randrange(len(openings))
        for row in judge_game(engine, openings[number].copy(), rng, nodes, depth):
            yield row | {"game": number}


def main(arguments: Sequence[str] | None = None) -> None:
    """Appends positions to a file until it has enough."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--openings", type=Path, required=True, help="PGN file whose games are begun")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", default="stockfish")
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--depth", type=int, default=10)
    given = parser.parse_args(arguments)
    openings = read_openings(given.openings)
    with given.out.open("a+") as out, chess.engine.SimpleEngine.popen_uci(given.engine) as engine:
        out.seek(0)
        had = sum(1 for _ in out)
        engine.configure({"Threads": 1, "UCI_ShowWDL": True})
        found = rows(engine, openings, random.Random(f"{given.seed} {had}"), given.nodes, given.depth)
        for _ in range(given.count - had):
            out.write(json.dumps(next(found)) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
