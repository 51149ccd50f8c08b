"""Makes positions with values: games that a network plays against itself, from all kinds of beginnings.

    python -m tools.training make OUT --positions 20000000 --seed 1 [--openings FILE.pgn]

OUT is a folder for shards (`tools/training/records.py`). Games begin behind 0 to 12 random moves, along
lines of an opening file if one is given, or from random endgames. Moves are drawn by the softmax of their
values, at another temperature in each game, some evenly (`games_kernel.py`). The same seed and network make
the same shards; those that are there already are left as they are, so an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import chess
import chess.pgn
import numpy as np
from numpy.typing import NDArray

from graphsearch.evaluators.factory import create
from graphsearch.evaluators.nnue.evaluation_kernel import scratch_words
from graphsearch.evaluators.nnue.layout import WIDTH
from graphsearch.position.board import pack
from graphsearch.position.tables import load_tables
from tools.training.games_kernel import play
from tools.training.records import RECORD, SUFFIX, write_shard

SHARD = 500_000  # positions
ROOM_OF_A_GAME = 5_000
VALUES = 50  # room for move values, per position
ALONG_OPENINGS, BY_RANDOM_MOVES = 0.6, 0.8  # shares of the games, cumulative; the others are endgames
MOST_RANDOM_MOVES = 8
BESIDE_OPENINGS = (0, 0, 1, 2)  # random moves after an opening line
TEMPERATURES = (8.0, 150.0)  # thousandths of a pawn, drawn evenly by their logarithm
BLUNDERS = (0.0, 0.0, 0.0, 0.03)
LEAST_PLIES, MOST_PLIES = 60, 220
# of random endgames: kind, maximum number per side, probability of having any
ENDGAME_MEN = (
    (chess.PAWN, 7, 0.9),
    (chess.KNIGHT, 2, 0.35),
    (chess.BISHOP, 2, 0.35),
    (chess.ROOK, 2, 0.35),
    (chess.QUEEN, 1, 0.35),
)
ENDGAME_PLIES = (60, 120)  # range of the ply assigned to an endgame

Line = list[chess.Move]


@dataclass(frozen=True)
class Start:
    """The start of a game: the board, and its ply."""

    board: chess.Board
    ply: int


def random_endgame(rng: np.random.Generator) -> chess.Board:
    """Returns a random legal position with few pieces."""
    while True:
        board = chess.Board(None)
        squares = [int(square) for square in rng.permutation(64)]
        for colour in (True, False):
            board.set_piece_at(squares.pop(), chess.Piece(chess.KING, colour))
            for kind, most, likely in ENDGAME_MEN:
                count = int(rng.integers(0, most + 1)) if rng.random() < likely else 0
                for square in (squares.pop() for _ in range(count)):
                    if kind != chess.PAWN or 0 < square // 8 < 7:
                        board.set_piece_at(square, chess.Piece(kind, colour))
        board.turn = bool(rng.integers(2))
        if board.is_valid():
            return board


def push_random(board: chess.Board, moves: int, rng: np.random.Generator) -> None:
    """Plays `moves` random moves, fewer if the game ends."""
    for _ in range(moves):
        legal = list(board.legal_moves)
        if not legal:
            return
        board.push(legal[int(rng.integers(len(legal)))])


def starts(rng: np.random.Generator, openings: Sequence[Line]) -> Iterator[Start]:
    """Yields an endless sequence of game starts."""
    while True:
        kind = rng.random()
        board = chess.Board()
        if kind < ALONG_OPENINGS and openings:
            line = openings[int(rng.integers(len(openings)))]
            for move in line[: int(rng.integers(len(line) + 1))]:
                board.push(move)
            push_random(board, int(rng.choice(BESIDE_OPENINGS)), rng)
        elif kind < BY_RANDOM_MOVES:
            push_random(board, int(rng.integers(MOST_RANDOM_MOVES + 1)), rng)
        else:
            board = random_endgame(rng)
        ply = board.ply() if kind < BY_RANDOM_MOVES else int(rng.integers(*ENDGAME_PLIES))
        if not board.is_game_over():
            yield Start(board, ply)


def read_openings(path: Path | None) -> list[Line]:
    """Returns the main lines of a PGN file."""
    lines: list[Line] = []
    if path is not None:
        with path.open() as handle:
            while (game := chess.pgn.read_game(handle)) is not None:
                lines.append(list(game.mainline_moves()))
    return lines


def make_shard(
    path: Path,
    weights: NDArray[np.int64],
    count: int,
    seed: tuple[int, int],
    openings: Sequence[Line],
    looked: float,
) -> int:
    """Writes one shard of at least `count` positions; returns their number."""
    rng = np.random.default_rng(seed)
    records = np.zeros(count + ROOM_OF_A_GAME, RECORD)
    values = np.zeros(VALUES * (count + ROOM_OF_A_GAME), np.int16)
    scratch = np.zeros(scratch_words(int(weights[WIDTH])), np.uint64)
    tables = load_tables()
    rows = used = 0
    for start in starts(rng, openings):
        low, high = np.log(TEMPERATURES)
        filled, more = play(
            tables,
            weights,
            scratch,
            np.array(pack(start.board), np.uint64),
            start.ply,
            int(rng.integers(LEAST_PLIES, MOST_PLIES)),
            int(rng.integers(1 << 31)),
            float(np.exp(rng.uniform(low, high))),
            float(rng.choice(BLUNDERS)),
            looked,
            records[rows:],
            values[used:],
        )
        rows, used = rows + filled, used + more
        if rows >= count:
            break
    write_shard(path, records[:rows], values[:used])
    return rows


def add_arguments(out: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    out.add_argument("out", type=Path)
    out.add_argument("--evaluator", default="nnue:stockfish", help="one of Stockfish's networks")
    out.add_argument("--positions", type=int, default=SHARD)
    out.add_argument("--seed", type=int, default=1)
    out.add_argument("--openings", type=Path, help="PGN file whose lines most games begin along")
    out.add_argument("--looked", type=float, default=1.0, help="share of a game's positions that are written")
    out.add_argument("--lines", type=int, help="of the openings, only that many")


def run(options: argparse.Namespace) -> int:
    """Makes the missing shards; returns the exit code."""
    options.out.mkdir(parents=True, exist_ok=True)
    weights, openings = create(options.evaluator).weights, read_openings(options.openings)[: options.lines]
    begin = time.process_time()
    done = shard = 0
    while done < options.positions:
        path = options.out / f"{options.seed}-{shard:04d}{SUFFIX}"
        if path.exists():
            shard += 1
            done += SHARD
            continue
        done += make_shard(
            path,
            weights,
            min(SHARD, options.positions - done),
            (options.seed, shard),
            openings,
            options.looked,
        )
        shard += 1
        rate = done / (time.process_time() - begin)
        print(f"{done:,} positions, {rate:,.0f} per CPU-second", file=sys.stderr, flush=True)
    return 0
